"""How results look in a notebook: a table in HTML, a data frame, a picture. Classes say what is in them, and no more.

    class Plan(Displayed, Framed, Plotted):
        def _display(self) -> Display: ...   # `_repr_html_` is made of it
        def _columns(self) -> Columns: ...   # `to_frame` is made of them

The HTML is a plain table: every text is escaped, dollar signs are no mathematics, there is no script and no colour, so
that it looks like the notebook around it, light or dark. Data frames are those of pandas or Polars, neither of which is
needed otherwise. Pictures are drawn by `conrl.plots`, which knows all kinds of results and so stands above them: `plot`
loads it when it is called.
"""

from __future__ import annotations

import html
import importlib.util
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from conrl.errors import SpecError, shown, unknown
from conrl.wording import cut

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Columns = Mapping[str, Any]  # lists, tuples or arrays of one length, by name; None or nan where there is nothing

LIBRARIES = ("pandas", "polars")
MOST_ROWS = 20  # of a table in HTML
MOST_COLUMNS = 12
CELL = 80  # characters
NO_MATH = "tex2jax_ignore mathjax_ignore"  # classes in which MathJax 2 and 3 leave dollar signs alone
SPACE = "padding:2px 8px"  # around a cell, where the notebook has no style for tables


class Display(NamedTuple):
    """What a notebook shows of an object."""

    title: str  # plain text, as everything here
    columns: Columns
    notes: tuple[str, ...] = ()


class Displayed:
    """Something that a notebook shows as a table."""

    __slots__ = ()

    def _display(self) -> Display:
        raise NotImplementedError

    def _repr_html_(self) -> str:
        return html_of(self._display())


class Framed:
    """Something that can be had as a data frame."""

    __slots__ = ()

    def _columns(self) -> Columns:
        raise NotImplementedError

    def to_frame(self, library: str | None = None) -> Any:
        """A data frame, of `library` "pandas" or "polars"; by default of pandas if it is installed, else of Polars."""
        return frame_of(self._columns(), library)


class Plotted:
    """Something that can be drawn."""

    __slots__ = ()

    def plot(self, ax: Axes | None = None) -> Axes:
        """Draw it onto axes of matplotlib, by default those of a new figure; gives the axes back."""
        from conrl.plots import draw  # the one import that goes up the layers (tests/test_package.py)

        return draw(self, ax)


# -- HTML -------------------------------------------------------------------------------------------------


def html_of(display: Display) -> str:
    """A table with its title above it and notes below."""
    filled = {name: values for name, values in display.columns.items() if any(map(cell_text, values[:MOST_ROWS]))}
    columns = dict(list(filled.items())[:MOST_COLUMNS])
    size = max((len(values) for values in columns.values()), default=0)
    more = {"rows": size - MOST_ROWS, "columns": len(filled) - MOST_COLUMNS}
    left_out = " and ".join(f"{count:,} more {what}" for what, count in more.items() if count > 0)
    notes = [*display.notes, *([f"and {left_out}"] if left_out else [])]
    parts = [f'<div class="{NO_MATH}">', f"<div><b>{_text(display.title, 300)}</b></div>"]
    if size:
        parts += [
            '<table style="color:inherit">',
            "<thead><tr>",
            *(_head(name, values) for name, values in columns.items()),
            "</tr></thead>",
        ]
        parts.append("<tbody>")
        for i in range(min(size, MOST_ROWS)):
            parts.append(f"<tr>{''.join(_cell(values[i]) for values in columns.values())}</tr>")
        parts += ["</tbody>", "</table>"]
    parts += [f"<div><small>{_text(note, 600)}</small></div>" for note in notes]
    return "\n".join([*parts, "</div>"])


def _text(text: object, most: int = CELL) -> str:
    return html.escape(cut(text, most))


def _head(name: str, values: Sequence[Any]) -> str:
    side = "left" if any(isinstance(value, str) for value in values[:MOST_ROWS]) else "right"
    return f'<th style="text-align:{side};{SPACE}">{_text(name)}</th>'


def _cell(value: Any) -> str:
    side = "left" if isinstance(value, str) else "right"
    return f'<td style="text-align:{side};{SPACE}">{_text(cell_text(value))}</td>'


def cell_text(value: Any) -> str:
    """A value in a cell: numbers with six digits, nothing for what is not there.

    >>> cell_text(0.30000000000000004), cell_text(1234567), cell_text(float("inf")), cell_text(True)
    ('0.3', '1,234,567', '', 'yes')
    """
    value = value.item() if hasattr(value, "item") else value
    if value is None or (isinstance(value, float) and not math.isfinite(value)):
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.6g}"
    return f"{value:,}" if isinstance(value, int) else str(value)


# -- frames -----------------------------------------------------------------------------------------------


def frame_of(columns: Columns, library: str | None = None) -> Any:
    """The columns as a data frame. What is not there is nan in pandas and null in Polars."""
    module = _import_library(library)
    frame = module.DataFrame({name: _plain(values) for name, values in columns.items()})
    if module.__name__ == "polars":
        frame = frame.with_columns(module.col(module.Float64).fill_nan(None))
    return frame


def _plain(values: Any) -> Any:
    """Arrays as they are, read-only ones as copies: a frame is its owner's to change."""
    return values.copy() if hasattr(values, "dtype") else list(values)


def _import_library(library: Any) -> Any:
    """pandas or Polars, as asked for, or whichever is installed."""
    if library is None:
        library = next((name for name in LIBRARIES if importlib.util.find_spec(name) is not None), None)
        if library is None:
            raise SpecError("a data frame needs pandas or Polars: pip install pandas, or pip install polars")
    elif not isinstance(library, str):
        raise SpecError(f"library is {shown(library)}; it must be 'pandas' or 'polars'", key=("library",))
    elif library not in LIBRARIES:
        raise SpecError(unknown("library", library, LIBRARIES), key=("library",))
    try:
        return importlib.import_module(library)
    except ImportError as error:
        raise SpecError(f"{library} cannot be loaded: pip install {library} ({error})", key=("library",)) from None
