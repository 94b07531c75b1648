"""A model that carries what was spent: its states are (state, spent), everything else is as it was.

The limits on single episodes (`conrl.model.tails`) are about C, the realised total of a cost. With the amount spent so
far in the state they are expected totals of one more cost each:

    P(C > m)         +1 on an outcome that takes the total above m, -1 on one that takes it back
    E max(C - t, 0)  max(spent + c - t, 0) - max(spent - t, 0) on an outcome that costs c

and *never* is a set of actions that are left out, by step (`SafePart`). Only what the start can lead to is built, by
breadth first; how totals are counted is in `conrl.model.counting`. What an outcome costs is its own pay where the model
has pay by outcome, else the mean of its pair: then it is means that are counted.

Altman (1999), Chapter 2, for the state augmented by what was spent; Bäuerle and Ott (2011) for CVaR.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from conrl._types import Bool, Float, Index, Int
from conrl.arguments import frozen
from conrl.model.counting import Counter, Spent, Totals, classes_of, counter_for
from conrl.model.criteria import need_steps
from conrl.model.graph import Graph, select
from conrl.model.reading import Names
from conrl.model.tails import Tail
from conrl.sizes import check_table

if TYPE_CHECKING:
    from conrl.model.mdp import ConstrainedMDP

WIDE = 2**31  # more than there are totals: state and total in one number


@dataclass(frozen=True, eq=False)
class Column:
    """An extra cost: what it is called, and what each outcome of a tracked model pays. Its total begins at `offset`."""

    name: str
    paid: Float  # [N]
    offset: float = 0.0


@dataclass(frozen=True, eq=False)
class Tracked:
    """The (state, spent) combinations that can be reached, and the outcomes between them; n of them are nodes."""

    base: ConstrainedMDP
    counter: Counter
    totals: tuple[Spent, ...]  # those that come up, in units
    state: Int  # [n]
    total: Int  # [n]: the number of the total
    first: Int  # [n+1], or [H*n+1] where every step has pairs of its own
    pair: Index  # [P]: the base's pair behind each
    start: Int  # [P+1]
    outcome: Index  # [N]: the base's outcome behind each
    successor: Index  # [N]: a node
    after: Int  # [N]: the number of the total after the outcome, also after the last step
    initial: Float  # [n]
    empty = False  # of a `SafePart` nothing may be left
    _made: dict[str, Any] = field(default_factory=dict, repr=False)

    @property
    def size(self) -> int:
        """n."""
        return self.state.size

    @property
    def largest(self) -> float:
        """No policy has a total reward of a larger size."""
        reward = np.abs(self.base.pay[self.pair, 0])
        if self.base.bonus is not None:
            reward += self.base.bonus[self.pair, 0]
        return float(self.base.horizon * reward.max())

    @property
    def probability(self) -> Float:
        """[N]."""
        p: Float = self.base.graph.probability[self.outcome]
        return p

    @property
    def node(self) -> Int:
        """[P]: the node of each pair."""
        return np.repeat(np.arange(self.first.size - 1) % self.size, np.diff(self.first))

    @property
    def before(self) -> Int:
        """[N]: the number of the total before each outcome."""
        return np.repeat(self.total[self.node], np.diff(self.start))

    def pairs_at(self, h: int) -> slice:
        """The pairs that may be played at a step."""
        if not self.base.step_dependent:
            return slice(0, self.pair.size)
        return slice(int(self.first[h * self.size]), int(self.first[(h + 1) * self.size]))

    # -- more costs ---------------------------------------------------------------------------------------

    def exceeds(self, tail: Tail) -> Bool:
        """[totals]: which of them are above the threshold."""
        i = self.counter.place(tail.cost)
        most = self.counter.above(i, tail.threshold)
        return np.array([value[i] > most for value in self.totals])

    def crossing(self, tail: Tail) -> Column:
        """The probability that the total ends above a threshold."""
        over = self.exceeds(tail).astype(np.float64)
        name, begins = f"P({self.base.cost_names[tail.cost]} > {tail.limit:.10g})", float(over[0])
        return Column(name if not begins else f"{name} - 1", over[self.after] - over[self.before], begins)

    def excess(self, cost: int, t: int) -> Column:
        """The mean of max(C - t, 0), for t units that are not above the largest threshold."""
        i = self.counter.place(cost)
        asked, which = self._changes
        before, step = np.divmod(asked, len(self._steps))
        spent = _whole([value[i] for value in self.totals])
        costs = _whole([row[i] for row in self._steps])[step]
        over = np.maximum(spent - t, 0)
        paid = np.maximum(spent[before] + costs - t, 0) - over[before]
        cap = self.counter.caps[i]
        if cap is not None:  # from there on all of the cost is paid
            paid = np.where(spent[before] == cap, costs, paid)
        unit = self.counter.units[i]
        name = f"E max({self.base.cost_names[cost]} - {float(t * unit):.10g}, 0)"
        return Column(name, _amounts(paid, unit)[which], float(int(over[0]) * unit))

    @property
    def _steps(self) -> list[Spent]:
        """The classes of costs, in units."""
        steps: list[Spent] = self._made["steps"]
        return steps

    @property
    def _changes(self) -> tuple[Int, Int]:
        """The distinct (total, class of costs) before an outcome, as one number each, and which of them each has."""
        if "changes" not in self._made:
            numbers = self.before * len(self._steps) + self._made["class"][self.outcome]
            asked, which = np.unique(numbers, return_inverse=True)
            self._made["changes"] = asked, which.reshape(-1)
        changes: tuple[Int, Int] = self._made["changes"]
        return changes

    # -- never --------------------------------------------------------------------------------------------

    def safe(self, tails: Sequence[Tail]) -> tuple[list[Bool], Bool]:
        """[H] of [pairs at the step], and [H, n]: the pairs after which, and the nodes from which, all is kept surely.

        Backwards from the last step: a pair is safe if all its outcomes lead to safe nodes, a node if one of its pairs
        is; after the last step, if the total is not above a limit.
        """
        H = self.base.horizon
        pairs: list[Bool] = [np.zeros(0, dtype=bool)] * H
        nodes = np.zeros((H, self.size), dtype=bool)
        kept = ~np.any([self.exceeds(tail) for tail in tails], axis=0)
        node = self.node
        for h in range(H - 1, -1, -1):
            at = self.pairs_at(h)
            begin = self.start[at]
            if begin.size:
                outcomes = slice(int(begin[0]), int(self.start[at.stop]))
                good = kept[self.after[outcomes]] if h == H - 1 else nodes[h + 1][self.successor[outcomes]]
                pairs[h] = np.logical_and.reduceat(good, begin - begin[0])
                nodes[h][node[at][pairs[h]]] = True
        return pairs, nodes

    # -- models -------------------------------------------------------------------------------------------

    def pays(self, columns: Sequence[Column]) -> tuple[Float, Float | None]:
        """[P, 1+d+k] and, where the base has it, the same by outcome [N, 1+d+k]."""
        base, p = self.base, self.probability
        means = [np.add.reduceat(p * column.paid, self.start[:-1]) for column in columns]
        pay = np.column_stack((base.pay[self.pair], *means))
        if base.outcome_pay is None:
            return pay, None
        return pay, np.column_stack((base.outcome_pay[self.outcome], *(column.paid for column in columns)))

    def model(self, columns: Sequence[Column] = ()) -> ConstrainedMDP:
        """The tracked model, with more costs; it has no limits of its own."""
        if not columns and "model" in self._made:
            return self._made["model"]  # type: ignore[no-any-return]
        graph = self._made.get("graph")
        if graph is None:
            graph = Graph(*map(frozen, (self.first, self.start, self.successor, self.probability)))
            self._made["graph"] = graph
        every = np.arange(self.pair.size), np.arange(self.outcome.size)
        made = self._model(columns, graph, *every, self.base.step_dependent)
        if not columns:
            self._made["model"] = made
        return made

    def _model(
        self, columns: Sequence[Column], graph: Graph, pairs: Index, outcomes: Index, by_step: bool
    ) -> ConstrainedMDP:
        """A model with some of the pairs and outcomes, which `graph` says how to join."""
        base = self.base
        pay, by_outcome = self.pays(columns)
        behind = self.pair[pairs]
        bonus = None
        if base.bonus is not None:
            bonus = frozen(np.column_stack((base.bonus[behind], np.zeros((behind.size, len(columns))))))
        return base._copy(
            step_dependent=by_step,
            num_states=self.size,
            num_costs=base.num_costs + len(columns),
            graph=graph,
            action=frozen(base.action[behind]),
            pay=frozen(pay[pairs]),
            outcome_pay=None if by_outcome is None else frozen(by_outcome[outcomes]),
            bonus=bonus,
            initial=frozen(self.initial),
            limits=None,
            features=None,
            layout=None,
            origin=None,
            _names=Names(None, base._names.actions, (*base.cost_names, *(column.name for column in columns))),
            _ranges=None,
            _visits=None if base._visits is None else frozen(base._visits[behind]),
            _log=None,
            _derived={},
        )


class SafePart:
    """The part of a tracked model in which some limits are never exceeded: what may be done depends on the step."""

    def __init__(self, tracked: Tracked, tails: Sequence[Tail]) -> None:
        """Only what the start leads to through safe pairs is kept; `empty` if it is not safe itself."""
        self.tracked = tracked
        H, n, node = tracked.base.horizon, tracked.size, tracked.node
        pairs, nodes = tracked.safe(tails)
        now = tracked.initial > 0.0
        self.empty = not nodes[0][now].all()
        self.reached = np.zeros((H, n), dtype=bool)
        if self.empty:
            return
        kept = []
        for h in range(H):
            self.reached[h] = now
            at = tracked.pairs_at(h)
            chosen = at.start + np.flatnonzero(pairs[h] & now[node[at]])
            kept.append(chosen)
            now = np.zeros(n, dtype=bool)
            now[tracked.successor[select(tracked.start, chosen)[1]]] = True
        self.pairs = np.concatenate(kept)
        counts = np.concatenate([np.bincount(node[chosen], minlength=n) for chosen in kept])
        start, self.outcomes = select(tracked.start, self.pairs)
        self.graph = Graph(
            frozen(_starts(counts)),
            frozen(start.astype(np.int64)),
            frozen(tracked.successor[self.outcomes]),
            frozen(tracked.probability[self.outcomes]),
        )

    def model(self, columns: Sequence[Column] = ()) -> ConstrainedMDP:
        """A model whose actions depend on the step, with more costs."""
        return self.tracked._model(columns, self.graph, self.pairs, self.outcomes, True)


Part = Tracked | SafePart


def safe_part(tracked: Tracked, tails: Sequence[Tail]) -> Part:
    """What is left where these limits are never exceeded: everything, if there are none."""
    return SafePart(tracked, tails) if tails else tracked


def track(
    mdp: ConstrainedMDP,
    costs: Sequence[int],
    thresholds: Sequence[Sequence[Fraction]],
    grids: Sequence[Fraction | None],
    rounding: int,
    most: float,
) -> Tracked:
    """Count these costs, up to their largest thresholds; raises `TooManyTotals` beyond `most`."""
    paid, which = classes_of(mdp._by_outcome([1 + i for i in costs]))
    counter = counter_for(costs, [mdp.cost_names[i] for i in costs], paid, thresholds, grids, rounding)
    steps = [tuple(counter.in_units(i, x) for i, x in enumerate(row)) for row in paid]
    return build(mdp, counter, steps, which, most)


def track_as(mdp: ConstrainedMDP, counter: Counter, most: float = np.inf) -> Tracked:
    """Count as a counter does that was made for another model, perhaps."""
    paid, which = classes_of(mdp._by_outcome([1 + i for i in counter.costs]))
    steps = [tuple(counter.in_units(i, x) for i, x in enumerate(row)) for row in paid]
    return build(mdp, counter, steps, which, most)


def build(mdp: ConstrainedMDP, counter: Counter, steps: list[Spent], which: Int, most: float) -> Tracked:
    """Breadth first, a step of the episode at a time; `which` [N] is the class of each outcome's costs in `steps`."""
    need_steps(mdp.horizon, "counting what an episode costs")
    totals = Totals(counter, steps, most)
    g, by_step, H = mdp.graph, mdp.step_dependent, need_steps(mdp.horizon, "a limit on single episodes")
    first, start = g.first.astype(np.int64), g.start.astype(np.int64)
    begin = np.flatnonzero(mdp.initial > 0.0)
    new = known = begin * WIDE  # state * WIDE + number of the total; `known` is sorted
    levels, parts = [], []
    for h in range(H):
        heads, pairs = select(first, new // WIDE + h * mdp.num_states * by_step)
        tails, outcomes = select(start, pairs)
        counts, sizes = np.diff(heads).astype(np.int64), np.diff(tails).astype(np.int64)
        spent = totals.after(np.repeat(np.repeat(new % WIDE, counts), sizes), which[outcomes])
        levels.append(new)
        parts.append((counts, pairs.astype(np.int64), sizes, outcomes.astype(np.int64), spent))
        reached = np.unique(g.successor[outcomes].astype(np.int64) * WIDE + spent)
        at = np.minimum(np.searchsorted(known, reached), known.size - 1)
        fresh = reached[known[at] != reached]
        new = reached if by_step else fresh  # a stationary node is expanded once
        if not new.size:
            break
        if h < H - 1:
            known = np.union1d(known, fresh)
            check_table(H, known.size)
    counts, pairs, sizes, outcomes, spent = (np.concatenate(columns) for columns in zip(*parts, strict=True))
    keys = np.concatenate(levels)
    own = np.searchsorted(known, keys)  # the nodes are numbered by key
    target = g.successor[outcomes].astype(np.int64) * WIDE + spent
    at = np.minimum(np.searchsorted(known, target), known.size - 1)
    # What is first reached after the last step is no node: the episode is over, wherever it leads.
    source = np.repeat(np.repeat(own, counts), sizes)
    successor = np.where(known[at] == target, at, source).astype(np.int32)
    if by_step:
        all_counts = np.zeros(H * known.size, dtype=np.int64)
        all_counts[own + known.size * np.repeat(np.arange(len(levels)), [level.size for level in levels])] = counts
    else:  # nodes come by step, and are put in the order of their keys
        order = np.argsort(own)
        heads, moved = select(_starts(counts), order)
        tails, kept = select(_starts(sizes), moved)
        all_counts, pairs, sizes = counts[order], pairs[moved], sizes[moved]
        outcomes, spent, successor = outcomes[kept], spent[kept], successor[kept]
    initial = np.zeros(known.size)
    initial[np.searchsorted(known, begin * WIDE)] = mdp.initial[begin]
    return Tracked(
        base=mdp,
        counter=counter,
        totals=tuple(totals.values),
        state=known // WIDE,
        total=known % WIDE,
        first=_starts(all_counts),
        pair=pairs,
        start=_starts(sizes),
        outcome=outcomes,
        successor=successor,
        after=spent,
        initial=initial,
        _made={"steps": steps, "class": which},
    )


def _starts(counts: Int) -> Int:
    return np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(counts.astype(np.int64))))


def _whole(numbers: Sequence[int]) -> Any:
    """Whole numbers as an array, of Python's own where they are too large for 64 bits."""
    return np.array(numbers, dtype=np.int64 if all(abs(x) < 2**61 for x in numbers) else object)


def _amounts(numbers: Any, unit: Fraction) -> Float:
    """Whole numbers of units as amounts."""
    if numbers.dtype == object:
        return np.array([float(x * unit) for x in numbers.tolist()])
    amounts: Float = numbers.astype(np.float64) * float(unit)
    return amounts


def thresholds_of(tails: Sequence[Tail], cost: int) -> list[Fraction]:
    """The thresholds up to which a cost must be counted."""
    return [tail.threshold for tail in tails if tail.cost == cost]
