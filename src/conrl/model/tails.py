"""Limits on single episodes, as they are written down: never, chance, CVaR. C is the realised total of a cost.

    never   C > m                       in no episode
    chance  P(C > m) <= p               in at most a share p of them
    cvar    CVaR_a(C) <= b              the mean of the worst share 1 - a of them

    CVaR_a(C) = min over t of  t + E max(C - t, 0) / (1 - a)                              (1)

(Rockafellar and Uryasev 2000); a minimizer t is the quantile of C at a, an attainable total of at most b.
What a total is compared with is m, or b, and what rounding may have taken from it (`conrl.model.counting`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

from conrl.arguments import LARGEST, is_list, is_number
from conrl.errors import ModelError, shown, unknown
from conrl.model.counting import Sums, simplest

NEVER, CHANCE, CVAR = "never", "chance", "cvar"
KINDS = (NEVER, CHANCE, CVAR)
HIGHEST_LEVEL = 1.0 - 1e-6  # of a CVaR: its excess is divided by what is left of 1


class Tail(NamedTuple):
    """One limit on single episodes."""

    kind: str
    cost: int
    limit: float  # m, or b of a CVaR
    share: float  # p of a chance, a of a CVaR; 0 for never
    threshold: Fraction  # the largest number that is not above the limit, but for rounding

    @property
    def rounding(self) -> float:
        """What the threshold is above the limit."""
        return float(self.threshold - Fraction(self.limit))

    def quantity(self, cost_names: Sequence[str]) -> str:
        """What is bounded, in words."""
        name = cost_names[self.cost]
        if self.kind == CHANCE:
            return f"P({name} > {self.limit:.10g})"
        return f"CVaR {self.share:.10g} of {name}" if self.kind == CVAR else f"{name} in every episode"

    @property
    def bound(self) -> float:
        """What the quantity may be at most."""
        return self.share if self.kind == CHANCE else self.limit

    def text(self, cost_names: Sequence[str]) -> str:
        """The limit in words, as plans and conflicts name it."""
        return f"{self.quantity(cost_names)} <= {self.bound:.10g}"


def as_given(tails: Sequence[Tail], cost_names: Sequence[str]) -> dict[str, Any]:
    """`never`, `chance` and `cvar`, as they are written."""
    kinds: dict[str, Any] = {kind: {} for kind in KINDS}
    for tail in tails:
        name = cost_names[tail.cost]
        if tail.kind == NEVER:
            kinds[NEVER][name] = tail.limit
        else:
            pair = (tail.limit, tail.share) if tail.kind == CHANCE else (tail.share, tail.limit)
            kinds[tail.kind].setdefault(name, []).append(pair)
    return {kind: entries or None for kind, entries in kinds.items()}


def read_tails(given: Mapping[str, Any], cost_names: Sequence[str], sums: Callable[[int], Sums]) -> tuple[Tail, ...]:
    """The limits on single episodes that were given by kind, then by cost name (or in a list, by position); `sums` says
    what the total of a cost is a sum of."""
    tails: list[Tail] = []
    for kind in KINDS:
        for name, entry in _by_name(given.get(kind), cost_names, kind):
            several = kind != NEVER and isinstance(entry, (list, tuple)) and entry and all(map(is_list, entry))
            cost = list(cost_names).index(name)
            for one in entry if several else [entry]:
                limit, share = _read(kind, one, name)
                tails.append(Tail(kind, cost, limit, share, sums(cost).reach(limit)))
    return tuple(tails)


def read_grids(given: Any, cost_names: Sequence[str]) -> dict[int, Fraction]:
    """The grid of each cost that has one; one number is for all of them."""
    if given is None:
        return {}
    entries = [(name, given) for name in cost_names] if is_number(given) else _by_name(given, cost_names, "grid")
    grids = {}
    for name, step in entries:
        if not _is_amount(step) or not step > 0.0:
            raise ModelError(f"grid[{name!r}] is {shown(step)}; it must be a number above 0", key=("grid", name))
        grids[list(cost_names).index(name)] = simplest(float(step))
    return grids


def _by_name(given: Any, cost_names: Sequence[str], what: str) -> list[tuple[str, Any]]:
    if given is None:
        return []
    if isinstance(given, Mapping):
        for name in given:
            if name not in cost_names:
                raise ModelError(unknown("cost", str(name), cost_names), key=(what, str(name)))
        return [(name, entry) for name, entry in given.items() if entry is not None]
    if is_list(given) and not isinstance(given, str) and len(given) == len(cost_names):
        return [(name, entry) for name, entry in zip(cost_names, given, strict=True) if entry is not None]
    raise ModelError(f"{what} is {shown(given)}; expected an entry by cost name, as {_EXAMPLES[what]}", key=(what,))


_EXAMPLES = {
    NEVER: '{"repairs": 3}',
    CHANCE: '{"repairs": (5, 0.05)}, more than 5 with probability at most 0.05',
    CVAR: '{"repairs": (0.9, 4)}, the mean of the worst 10% at most 4',
    "grid": '{"energy": 0.01}',
}


def _is_amount(value: Any) -> bool:
    return is_number(value) and abs(value) <= LARGEST


def _read(kind: str, entry: Any, name: str) -> tuple[float, float]:
    """The limit and the share of what was written: a number, (threshold, probability), or (level, limit)."""

    def wrong(wanted: str) -> ModelError:
        return ModelError(f"{kind}[{name!r}] is {shown(entry)}; {wanted}", key=(kind, name))

    if kind == NEVER:
        if not _is_amount(entry):
            raise wrong(f"expected one number, as {_EXAMPLES[kind]}")
        return float(entry), 0.0
    if not (is_list(entry) and not isinstance(entry, str) and len(entry) == 2 and all(map(_is_amount, entry))):
        raise wrong(f"expected two numbers, as {_EXAMPLES[kind]}")
    first, second = map(float, entry)
    if kind == CHANCE:
        if not 0.0 <= second <= 1.0:
            raise wrong(f"the second number is a probability, as in {_EXAMPLES[kind]}")
        return first, second
    if not 0.0 <= first < 1.0:
        raise wrong(f"the first number is a level in [0, 1), as in {_EXAMPLES[kind]}")
    if first > HIGHEST_LEVEL:
        raise wrong("the worst millionth of episodes is less than can be told apart; use never")
    return second, first
