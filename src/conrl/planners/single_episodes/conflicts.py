"""Which limits conflict, in words of what was asked: the best box of a search, or why there is none.

Conflicts come from three places: nothing safe is left at the start, every total is above a CVaR, or the planner proves
that the rows of a tracked model cannot all be kept. Its rows are then told as the limits that they stand for, with the
*never* limits without which the rest could be kept (a deletion filter, as in `conrl.planners.feasibility`).
"""

from __future__ import annotations

import shlex
from collections.abc import Sequence

import numpy as np

from conrl._types import Arrays, Float
from conrl.errors import InfeasibleError
from conrl.model.careful import careful_path
from conrl.model.tails import NEVER, Tail
from conrl.model.tracking import SafePart, safe_part
from conrl.oracles import exact_oracle
from conrl.planners.feasibility import Feasibility, extremes, rounded
from conrl.planners.single_episodes.search import Found, NoBox, Search
from conrl.wording import worded


def best_box(search: Search, start: Arrays | None) -> Found:
    """The best box, or the conflict."""
    check_start(search)
    for tail, options in zip(search.cvars, search.candidates, strict=True):
        if not options:
            name = tail.text(search.asked.mdp.cost_names)
            raise _conflict(search, f"{name} cannot be kept: every total is above it", [name])
    try:
        return search.best_box(start)
    except NoBox as none:
        raise _explained(search, none.errors) from None


def check_start(search: Search) -> None:
    """Refuse *never* limits of which nothing is left, and say what can be had instead."""
    if not search.part.empty:
        return
    kept = list(search.nevers)
    for tail in search.nevers:
        fewer = [other for other in kept if other is not tail]
        if fewer and SafePart(search.tracked, fewer).empty:
            kept = fewer
    names = [tail.text(search.asked.mdp.cost_names) for tail in kept]
    how, path = "cannot be kept together", tuple[str, ...]()
    if len(kept) == 1:
        total, path = careful_path(search.tracked, kept[0].cost)
        how = f"cannot be kept; whatever is done, an episode may come to {rounded(total, up=True)}"
    raise _conflict(search, f"{' and '.join(names)} {how}; {_instead(search, *kept)}", names, path=path)


def _instead(search: Search, tail: Tail, *others: Tail) -> str:
    """The least probability of exceeding one limit while the others are kept, and how to allow it."""
    names = search.asked.mdp.cost_names
    crossing = search.tracked.crossing(tail)
    least, _ = extremes(exact_oracle(safe_part(search.tracked, others).model([crossing])))
    name, at = names[tail.cost], repr(tail.limit).removesuffix(".0")
    p = rounded(max(least[-1] + crossing.offset, 0.0), up=True)
    kept = f"with {' and '.join(other.text(names) for other in others)}, " if others else ""
    told = f"{kept}P({name} > {tail.limit:.10g}) can be as low as {p}"
    if not 0.0 < float(p) < 1.0:
        return told
    chance = worded(f"chance={{{name!r}: ({at}, {p})}}", f"--chance {shlex.quote(f'{name}>{at}:{p}')}")
    return f"{told}: instead, ask for that with {chance}"


def _explained(search: Search, errors: Sequence[InfeasibleError]) -> InfeasibleError:
    """The conflict in words of what was asked; with one error its multipliers are the proof."""
    first, alone = errors[0].feasibility, len(errors) == 1
    needed = _needed(search) if search.nevers else []
    if search.nevers and not needed:  # the others conflict by themselves
        try:
            best_box(search.having([tail for tail in search.asked.tails if tail.kind != NEVER]), None)
        except InfeasibleError as plainer:
            return plainer
    shares: dict[str, float] = {}  # of the rows that take part, with their multipliers
    for error in errors:
        found = error.feasibility
        multipliers = np.zeros(len(found.conflict)) if found.multipliers is None else found.multipliers
        for name, share in zip(found.conflict, multipliers.tolist(), strict=True):
            own = _own_name(search, name)
            shares[own] = shares.get(own, 0.0) + share
    shares |= dict.fromkeys(needed, 0.0)
    names = tuple(shares)
    verb = "cannot be kept" if len(names) == 1 else "cannot be kept together"
    whatever = "" if alone else ", whatever the quantile"
    message = f"{' and '.join(names)} {verb}{whatever}"
    text = str(errors[0])
    shifted = any(crossing.offset for crossing in search.crossings)  # what is near is then told of P - 1
    if alone and "; " in text and not search.cvars and not needed and not shifted:
        message += text[text.index("; ") :]
    proven = np.array(list(shares.values())) if alone and first.multipliers is not None else None
    return _conflict(search, message, names, proven, first.violation if alone else 0.0)


def _own_name(search: Search, row: str) -> str:
    """What the user calls a row of the tracked model: that of an excess is a CVaR, that of a crossing a chance."""
    return search.told.get(row.rpartition(" <= ")[0], row)


def _needed(search: Search) -> list[str]:
    """The never limits that take part in a conflict: without them the rest can be kept."""
    kept = list(search.nevers)
    for tail in search.nevers:
        fewer = [other for other in kept if other is not tail]
        rest = search.having([t for t in search.asked.tails if t.kind != NEVER or t in fewer])
        try:
            rest.plan(rest.root, None)  # the relaxation of all quantiles together
        except InfeasibleError:
            kept = fewer
    return [tail.text(search.asked.mdp.cost_names) for tail in kept]


def _conflict(
    search: Search,
    message: str,
    names: Sequence[str],
    multipliers: Float | None = None,
    violation: float = 0.0,
    path: tuple[str, ...] = (),
) -> InfeasibleError:
    """The error for limits that cannot be kept, with its proof."""
    least, greatest = extremes(exact_oracle(search.asked.user))
    proof = Feasibility(False, least, greatest, None, tuple(names), multipliers, violation, path)
    return InfeasibleError(f"infeasible: {message}", proof)
