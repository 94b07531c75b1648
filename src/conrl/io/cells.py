"""Texts as cells of a CSV file that a spreadsheet shows and does not execute.

A spreadsheet takes a cell that begins with = + - @, a tab or a line end for a formula, even one between quotation
marks, and a formula can start programs. Such a text gets an apostrophe in front, which spreadsheets know as "this is
text"; conrl takes it off again when it reads a table. A text that itself begins with apostrophes before such a sign
gets one more, so that every name comes back as it was. Numbers, with or without a sign, stay as they are.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterable, Sequence
from typing import Any

SIGNS = "=+\\-@\t\r\n＝＋－＠"  # the wide ones count where text is Chinese or Japanese
_FORMULA = re.compile(f"'*[{SIGNS}]")
_QUOTED = re.compile(f"'+[{SIGNS}]")
_NUMBER = re.compile(r"[+-]?(\d+\.?\d*([eE][+-]?\d+)?|\.\d+([eE][+-]?\d+)?|inf|nan)", re.ASCII)


def to_cell(text: str) -> str:
    """The cell for a text.

    >>> to_cell("=1+1"), to_cell("-0.5"), to_cell("safe")
    ("'=1+1", '-0.5', 'safe')
    """
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text


def from_cell(cell: str) -> str:
    """The text that `to_cell` made a cell of.

    >>> from_cell("'=1+1"), from_cell("'tis")
    ('=1+1', "'tis")
    """
    return cell[1:] if _QUOTED.match(cell) else cell


def split_header(text: str) -> tuple[list[str], str]:
    """The cells of the first row, which may hold line ends, and the text below it; nothing of what is no CSV."""
    reader = csv.reader(io.StringIO(text, newline="\n"))
    try:
        header = next(reader, [])
    except csv.Error:
        return [], ""
    lines = text.split("\n", reader.line_num)
    return header, lines[-1] if len(lines) > reader.line_num else ""


def csv_text(rows: Iterable[Sequence[Any]]) -> str:
    """A table as CSV, its texts as cells."""
    table = [[to_cell(x) if isinstance(x, str) else x for x in row] for row in rows]
    text = io.StringIO()
    csv_writer(text, any("\r" in x for row in table for x in row if isinstance(x, str))).writerows(table)
    return text.getvalue()


def csv_writer(stream: io.TextIOBase, returns: bool, separator: str = ",") -> Any:
    """A writer of lines; `returns`: some text holds a carriage return.

    The csv module quotes what its line ends consist of, and so would leave one bare, which others take for a line end.
    """
    quoting: Any = csv.QUOTE_NONNUMERIC if returns else csv.QUOTE_MINIMAL
    return csv.writer(stream, delimiter=separator, lineterminator="\n", quoting=quoting)
