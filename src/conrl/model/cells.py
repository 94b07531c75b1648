"""Continuous observations as numbered cells: a grid whose lines are given for each dimension.

Dimension j is cut at its edges e_j[0] < e_j[1] < ...: x lies in bin k if e_j[k-1] <= x < e_j[k], so that there is one
bin more than there are edges, and the outermost ones have no end. A cell is one bin in each dimension; its number is
the mixed radix of the bins, first dimension first. Every observation has a cell, however far out it is.

The map is a handful of arrays. It is part of the `Task` that a learner is made with, and saved with it: what a learner
has learned about cell 17 makes no sense without knowing where cell 17 is.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float
from conrl.arguments import float_array, frozen, is_int, is_list, setter
from conrl.errors import ModelError, RunError, shown
from conrl.model.reading import read_names
from conrl.sizes import MAX_TABLE, most
from conrl.wording import line


@dataclass(frozen=True, eq=False)
class Cells:
    """A grid over observations of D numbers.

    Args:
        edges: for each dimension the numbers at which it is cut, rising; none of them: the dimension is left out.
        names: what to call the dimensions; by default 0, 1, ...
    """

    edges: Sequence[ArrayLike]
    names: Sequence[str] | None = None

    def __post_init__(self) -> None:
        """Check every edge, and keep a copy that nobody can change."""
        put = setter(self)
        if not is_list(self.edges) or isinstance(self.edges, (str, bytes)) or not len(self.edges):
            raise ModelError(f"edges is {shown(self.edges)}; expected a list of edges for each dimension")
        names = read_names(self.names, len(self.edges), "names") or tuple(map(str, range(len(self.edges))))
        put("names", names)
        put("edges", tuple(_read_edges(edges, name) for edges, name in zip(self.edges, names, strict=True)))
        check_product(self.bins, names, "take fewer bins, or cut fewer dimensions")

    def __repr__(self) -> str:
        sizes = ", ".join(f"{name}: {n}" for name, n in zip(self.names or (), self.bins, strict=True))
        return line(self, f"{self.count} cells", sizes)

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, Cells)
            and self.names == other.names
            and all(map(np.array_equal, self.edges, other.edges))  # as many, as there are as many names
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def bins(self) -> tuple[int, ...]:
        """[D]: how many bins each dimension has."""
        return tuple(1 + np.size(edges) for edges in self.edges)

    @property
    def count(self) -> int:
        """How many cells there are."""
        return math.prod(self.bins)

    def number(self, observation: ArrayLike) -> int:
        """The cell of an observation of D numbers, of any shape."""
        try:
            x = np.asarray(observation, dtype=np.float64).reshape(-1)
        except (TypeError, ValueError, OverflowError) as error:
            raise RunError(f"the observation {shown(observation)} is not a list of numbers: {error}") from None
        if x.size != len(self.edges):
            raise RunError(f"the observation {shown(observation)} has {x.size} numbers; the cells {len(self.edges)}")
        if np.isnan(x).any():
            j = int(np.argmax(np.isnan(x)))
            raise RunError(f"the observation {shown(observation)} has no number as {(self.names or ())[j]!r}")
        cell = 0
        for edges, value in zip(self.edges, x.tolist(), strict=True):
            cell = cell * (1 + np.size(edges)) + int(np.searchsorted(np.asarray(edges), value, side="right"))
        return cell

    def bounds(self, cell: int) -> Float:
        """[D, 2]: where each dimension of a cell begins and ends; infinite at the rim."""
        if not is_int(cell) or not 0 <= cell < self.count:
            raise ModelError(f"cell {shown(cell)} is not in 0..{self.count - 1}")
        bounds = np.empty((len(self.edges), 2))
        rest = int(cell)
        for j in reversed(range(len(self.edges))):
            rest, k = divmod(rest, self.bins[j])
            cut = np.concatenate(([-np.inf], np.asarray(self.edges[j]), [np.inf]))
            bounds[j] = cut[k : k + 2]
        return bounds

    def arrays(self) -> dict[str, Any]:
        """What `from_arrays` makes it again from."""
        return {
            "edges": np.concatenate([np.asarray(edges) for edges in self.edges]),
            "sizes": np.array([np.size(edges) for edges in self.edges], dtype=np.int64),
            "names": np.array(self.names, dtype=np.str_),
        }

    @classmethod
    def from_arrays(cls, edges: Any, sizes: Any, names: Any) -> Cells:
        """From arrays that may come from a file."""
        fits = sizes.ndim == edges.ndim == names.ndim == 1 and sizes.dtype.kind in "iu" and edges.dtype.kind == "f"
        if not fits or (sizes < 0).any() or (sizes > edges.size).any() or int(sizes.sum()) != edges.size:
            raise ModelError("its cells do not hang together")
        return cls(np.split(edges, np.cumsum(sizes)[:-1]), [str(name) for name in names])


def _read_edges(given: Any, name: str) -> Float:
    edges = float_array(given, f"the edges of dimension {name!r}")
    if edges.ndim != 1 or not np.isfinite(edges).all() or (np.diff(edges) <= 0.0).any():
        raise ModelError(f"the edges of dimension {name!r} are {shown(given)}; they must be finite numbers that rise")
    return frozen(edges)


def check_product(sizes: Sequence[int], names: Sequence[str] | None, remedy: str) -> None:
    """Refuse more states than a policy of one step can have an entry for, naming the sizes."""
    count, bound = math.prod(sizes), most("CONRL_MAX_TABLE", MAX_TABLE)
    if count > bound:
        listed = [f"{name}: {size}" for name, size in zip(names or map(str, range(len(sizes))), sizes, strict=False)]
        some = ", ".join(listed[:6]) + (f", ... ({len(listed)} in all)" if len(listed) > 6 else "")
        many = f"{count:,}" if count < 10**15 else f"about 1e{len(str(count)) - 1}" if count < 10**4000 else "too many"
        raise ModelError(f"{many} states ({some}); at most {bound:,} are supported: {remedy}")
