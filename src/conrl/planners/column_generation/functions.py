"""A CVXPY expression as a plain function of numbers: its value and its slopes, without CVXPY's bookkeeping.

An expression is a tree of atoms over a variable y. It is listed once, arguments before the atoms that use them; a value
is then one pass over the list by the atoms' own arithmetic, to the bit what CVXPY computes, and needs no lock. Slopes
follow by the chain rule in the same pass. The derivative of an affine atom is always the same and is kept: CVXPY would
make a matrix anew each time, which takes longer than all the rest of a small plan.

What cannot be listed (parameters, atoms with a way of their own to find their value) is asked of CVXPY itself.

The arithmetic of some atoms goes on outside their domain: 1/y and y^3 are only meant for y >= 0. So the domain is asked
for too, as a concave function that is below 0 outside of it.
"""

from __future__ import annotations

import itertools
import threading
from copy import copy
from typing import Any

import numpy as np

from conrl._types import Float
from conrl.arguments import is_sparse

# CVXPY numbers its variables with one counter, and computes an expression from what its variables hold at that moment:
# one thread at a time.
CVXPY = threading.RLock()


class Atom:
    """One atom: which of the values before it it takes, and what it makes of them."""

    def __init__(self, atom: Any, places: list[int]) -> None:
        from cvxpy.atoms.affine.affine_atom import AffAtom

        self.places = places  # of its arguments, in the list
        self.numeric = atom.numeric
        self.size = atom.size
        self._atom = atom
        self._vary = [k for k, argument in enumerate(atom.args) if argument.variables()]
        self._affine = isinstance(atom, AffAtom)  # in a convex expression: in all its arguments that vary
        self._kept: list[tuple[int, Float | None]] | None = None

    def derivatives(self, values: list[Any]) -> list[tuple[int, Float | None]]:
        """For each argument that varies its place and the derivative [its size, size]; None where undefined."""
        if self._kept is not None:
            return self._kept
        if not self._affine:
            return self._derivatives(values)
        with CVXPY:
            self._kept = self._derivatives(values)
        return self._kept

    def _derivatives(self, values: list[Any]) -> list[tuple[int, Float | None]]:
        tables, sizes = self._atom._grad(values), [argument.size for argument in self._atom.args]
        return [
            (self.places[k], None if tables[k] is None else _dense(tables[k]).reshape(sizes[k], self.size))
            for k in self._vary
        ]


class Function:
    """An expression, which is a single number, as a function of its variable [n]."""

    def __init__(self, expression: Any, variable: Any) -> None:
        self._expression, self._variable = expression, variable
        self._before: list[Any] = [None]  # what each place holds at the start: y at 0, constants, nothing for an atom
        self._atoms: list[tuple[int, Atom]] = []
        self._listed: dict[int, int] = {variable.id: 0}
        with CVXPY:
            self._plain = self._is_plain(expression)
            self._last = self._place(expression) if self._plain else 0
            distance = room(expression)
            self._room = None if distance is None else Function(distance, variable)

    def _is_plain(self, expression: Any) -> bool:
        """Whether every atom finds its value from its arguments' alone."""
        from cvxpy.atoms.atom import Atom as Base

        if not expression.args:
            return not expression.parameters()
        same = type(expression)._value_impl is Base._value_impl and type(expression).value is Base.value
        return same and 0 not in expression.shape and all(map(self._is_plain, expression.args))

    def _place(self, expression: Any) -> int:
        """Where the value of an expression stands; atoms are listed on the way."""
        key = expression.id if hasattr(expression, "id") else -id(expression)
        if key not in self._listed:
            places = [self._place(argument) for argument in expression.args] if expression.variables() else []
            self._listed[key] = len(self._before)
            self._before.append(None if places else copy(expression.value))  # whoever gave it may change it
            if places:
                self._atoms.append((self._listed[key], Atom(expression, places)))
        return self._listed[key]

    def __call__(self, at: Float) -> float:
        """Its value; nan where undefined."""
        return self._anywhere(at) if self.inside(at) >= 0.0 else float("nan")

    def inside(self, at: Float) -> float:
        """At least 0 in the domain, and below 0 outside; inf if there is no outside."""
        return float("inf") if self._room is None else self._room(at)

    def _anywhere(self, at: Float) -> float:
        """Its value by the atoms' arithmetic, in the domain or not."""
        with np.errstate(all="ignore"):
            if self._plain:
                return float(self._values(at)[self._last])
            with CVXPY:
                self._variable.value = at
                return float("nan") if (value := self._expression.value) is None else float(value)

    def _values(self, at: Float) -> list[Any]:
        """What stands at each place."""
        values = self._before.copy()
        values[0] = at
        for place, atom in self._atoms:
            values[place] = atom.numeric([values[i] for i in atom.places])
        return values

    def slopes(self, at: Float) -> Float:
        """[n]: a subgradient, by differences where CVXPY has none or fails; 0 where nothing is defined."""
        try:
            with np.errstate(all="ignore"):
                found = self._chain(at) if self._plain else self._gradient(at)
        except (NotImplementedError, ValueError, IndexError, ArithmeticError):  # some atoms' own gradients are wrong
            return self._differences(at)
        if found is None:
            return np.zeros(at.size)
        if np.isnan(found).any():  # inf / inf, in the slopes of log_sum_exp
            return self._differences(at)
        return np.where(np.isfinite(found), found, 0.0)

    def _chain(self, at: Float) -> Float | None:
        """The slopes by the chain rule; None where undefined."""
        values = self._values(at)
        moved: dict[int, Float] = {0: np.eye(at.size)}  # [n, size] by place, where y has an influence
        for place, atom in self._atoms:
            total = np.zeros((at.size, atom.size))
            for i, by in atom.derivatives([values[i] for i in atom.places]):
                if by is None:
                    return None
                total += moved[i] @ by
            moved[place] = total
        return moved[self._last][:, 0] if self._last in moved else None

    def _gradient(self, at: Float) -> Float | None:
        """The same in CVXPY's own way."""
        with CVXPY:
            self._variable.value = at
            found = self._expression.grad.get(self._variable)
        return None if found is None else _dense(found).reshape(-1)

    def _differences(self, at: Float) -> Float:
        """The steeper of the two sides: at a kink both count."""
        slopes, here = np.zeros(at.size), self(at)
        for i, sign in itertools.product(range(at.size), (1.0, -1.0)):
            step = 1e-6 * max(abs(at[i]), 1e-6)
            aside = self(at + sign * step * np.eye(at.size)[i])
            slopes[i] = max(slopes[i], np.nan_to_num(abs(aside - here) / step))
        return slopes


def room(expression: Any) -> Any:
    """A concave expression that is at least 0 where an expression is defined; None if it is defined everywhere."""
    import cvxpy as cp
    from cvxpy.constraints import PSD, Inequality

    try:
        conditions = list(expression.domain)
    except (AttributeError, TypeError):  # of an `indicator`, which has a method of this name: its value is inf outside
        return None
    must = []  # be at least 0
    for condition in conditions:
        if isinstance(condition, Inequality):
            must.append(-condition.expr)
        elif isinstance(condition, PSD):
            must.append(cp.lambda_min(condition.args[0]))
        # Matrices that must be symmetric are: nothing else says so in a convex expression.
    least = [cp.min(x) for x in must if x.is_concave() and not x.is_nonneg()]
    return cp.min(cp.hstack(least)) if least else None


def _dense(table: Any) -> Float:
    return np.asarray(table.todense() if is_sparse(table) else table, dtype=np.float64)
