"""Exact arithmetic for what `exact.Model` does not know: steps that differ, single episodes, fleets, no horizon.

Nothing here is shared with the planners. A `World` is a table of doubles, as it was drawn. What is asked of it becomes

- a `Layered` set of value vectors: the model unrolled step by step, with all that was spent in its states if totals of
  single episodes count. It answers directions as `exact.Model` does, so that `exact.Program` finds its optimum;
- a `Fleet` set: the sum of such sets;
- or, without a horizon, a small linear program over what a policy does in the long run, solved by `maximise`: a simplex
  in whole numbers (Edmonds) with Bland's rule, whose every answer is checked by its dual.

What a given policy is worth comes from playing it: every state and amount, with exact probabilities (`play`), or from
the equations of its chain (`chain_value`).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import Any

import numpy as np
from exact import Model, total

import conrl

Spent = tuple[Fraction, ...]
Ends = dict[Spent, Fraction]  # with which probability an episode ends with which totals
ZERO, ONE = Fraction(0), Fraction(1)


@cache
def simplest(x: float) -> Fraction:
    """p/q with p q <= 2^40 within 2^-50 of a double's size; or the rational with the smallest denominator that rounds
    to it: of which denominators up to n are enough?"""
    exact = Fraction(x)
    if x:
        near = exact.limit_denominator(max(math.isqrt(int(2**40 / abs(exact))), 1))
        if abs(near - exact) < abs(exact) / 2**50 and abs(near.numerator) * near.denominator <= 2**40:
            return near
    few, many = 0, 1
    while float(exact.limit_denominator(many)) != x:
        few, many = many, 2 * many
    while many - few > 1:
        middle = (few + many) // 2
        few, many = (few, middle) if float(exact.limit_denominator(middle)) == x else (middle, many)
    return exact.limit_denominator(many)


# -- a model as it was drawn -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Outcome:
    """What an action can lead to: with which probability, where, and what it pays (the reward, then the costs)."""

    probability: float
    to: int
    pay: tuple[float, ...]


Table = tuple[tuple[tuple[Outcome, ...], ...], ...]  # [S][A]; an action without outcomes does not exist


@dataclass(frozen=True)
class World:
    """A model as a table for each step, or one for all of them."""

    tables: tuple[Table, ...]
    horizon: Any
    initial: tuple[float, ...]
    num_costs: int
    by_outcome: bool = True  # else all outcomes of a pair pay the same, and conrl is given tables of pairs

    @property
    def states(self) -> int:
        return len(self.tables[0])

    @property
    def actions(self) -> int:
        return max(len(row) for table in self.tables for row in table)

    def reaches(self, cost: int, threshold: float) -> Fraction:
        """The largest total that is not above a threshold, but for the rounding of sums in doubles."""
        each = [
            Fraction(o.pay[1 + cost])
            for table in self.tables
            for actions in table
            for outcomes in actions
            for o in outcomes
        ]
        size, steps = abs(Fraction(threshold)), int(self.horizon)
        if min(each) < 0 < max(each):
            size = max(size, steps * max(map(abs, each)))
        return Fraction(threshold) + (steps + 2) * size / 2**51

    def at(self, step: int) -> Table:
        return self.tables[step if len(self.tables) > 1 else 0]

    def model(self) -> conrl.ConstrainedMDP:
        """The same for conrl."""
        same_shape = len(self.tables) > 1 and len(self.tables) == self.states == self.actions  # by step or by outcome?
        if not self.by_outcome and not same_shape:
            return self._of_pairs()
        rows = [
            (s, a, o.to, o.probability, o.pay, h)
            for h, table in enumerate(self.tables)
            for s, actions in enumerate(table)
            for a, outcomes in enumerate(actions)
            for o in outcomes
        ]
        state, action, successor, probability, pay, step = zip(*rows, strict=True)
        return conrl.ConstrainedMDP.from_outcomes(
            state,
            action,
            successor,
            probability,
            pay,
            num_states=self.states,
            num_actions=self.actions,
            horizon=self.horizon,
            step=step if len(self.tables) > 1 else None,
            initial=self.initial,
        )

    def _of_pairs(self) -> conrl.ConstrainedMDP:
        shape = len(self.tables), self.states, self.actions
        P, pay = np.zeros((*shape, self.states)), np.zeros((*shape, 1 + self.num_costs))
        available = np.zeros(shape, dtype=bool)
        for h, table in enumerate(self.tables):
            for s, actions in enumerate(table):
                for a, outcomes in enumerate(actions):
                    for o in outcomes:
                        available[h, s, a] = True
                        P[h, s, a, o.to] += o.probability
                        pay[h, s, a] = o.pay
        if len(self.tables) == 1:
            P, pay, available = P[0], pay[0], available[0]
        return conrl.ConstrainedMDP(
            P, pay[..., 0], pay[..., 1:], self.horizon, initial=np.array(self.initial), available=available
        )


class Means:
    """The mean pay of each pair, in the doubles of the model: where pay is by outcome, conrl has rounded it once."""

    def __init__(self, mdp: conrl.ConstrainedMDP) -> None:
        self._table = np.concatenate((mdp.rewards[..., None], mdp.costs), axis=-1)
        self._by_step = mdp.step_dependent

    def of(self, step: int, state: int, action: int) -> tuple[Fraction, ...]:
        row = self._table[step, state, action] if self._by_step else self._table[state, action]
        return tuple(Fraction(float(x)) for x in row)


# -- unrolled ----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Arc:
    """An action of a node: its pay, a dyadic fraction for each coordinate, and where it leads in the next layer."""

    action: int
    pay: tuple[Fraction, ...]
    outcomes: tuple[tuple[int, Fraction], ...]


Layer = list[list[Arc]]


class Layered(Model):
    """The value vectors of a model in layers: what leads out of the last one ends the episode."""

    def __init__(self, initial: Sequence[Fraction], layers: Sequence[Layer], size: int) -> None:
        self.horizon, self.size, self.layers = len(layers), size, layers
        self.origin, self.has_bonus = False, False
        every = [arc for layer in layers for arcs in layer for arc in arcs]
        self.step = _shift(p for arc in every for _, p in arc.outcomes)
        pay_shift = [_shift(arc.pay[i] for arc in every) for i in range(size)]
        start = _shift(initial)
        self.shift = [start + self.step * (self.horizon - 1) + e for e in pay_shift]
        self.initial = [_whole(p, start) for p in initial]
        self._arcs = [
            [
                [
                    (
                        tuple(_whole(x, e) for x, e in zip(arc.pay, pay_shift, strict=True)),
                        tuple((t, _whole(p, self.step)) for t, p in arc.outcomes),
                    )
                    for arc in arcs
                ]
                for arcs in layer
            ]
            for layer in layers
        ]

    def support(self, w: Sequence[int], absolute: bool = False) -> tuple[int, list[int]]:
        """max over Z of w.z and a z that attains it, in whole numbers; with `absolute`, of the sizes of pay."""
        value: list[int] = []
        choices: list[list[int]] = []
        for h in reversed(range(self.horizon)):
            up, last = self.step * (self.horizon - 1 - h), h == self.horizon - 1
            now, best = [], []
            for arcs in self._arcs[h]:
                each = []
                for pay, outcomes in arcs:
                    x = sum(a * (abs(b) if absolute else b) for a, b in zip(w, pay, strict=True))
                    each.append((x << up) + (0 if last else sum(p * value[t] for t, p in outcomes)))
                top = max(each)
                now.append(top)
                best.append(each.index(top))
            value = now
            choices.append(best)
        choices.reverse()
        top = sum(p * v for p, v in zip(self.initial, value, strict=True))
        if absolute:
            return top, []
        point = self._point(choices)
        assert sum(x * z for x, z in zip(w, point, strict=True)) == top
        return top, point

    def _point(self, choices: Sequence[Sequence[int]]) -> list[int]:
        """The value vector of one arc for each node, in whole numbers."""
        mass, point = list(self.initial), [0] * self.size
        for h, (layer, chosen) in enumerate(zip(self._arcs, choices, strict=True)):
            last = h == self.horizon - 1
            then = [0] * (0 if last else len(self._arcs[h + 1]))
            up = self.step * (self.horizon - 1 - h)
            for m, arcs, k in zip(mass, layer, chosen, strict=True):
                if m:
                    pay, outcomes = arcs[k]
                    for i, x in enumerate(pay):
                        point[i] += (m << up) * x
                    if not last:
                        for t, p in outcomes:
                            then[t] += m * p
            mass = then
        return point

    def points(self) -> Iterator[tuple[Fraction, ...]]:
        """The value vectors of all deterministic policies, one by one."""

        def after(h: int, mass: list[Fraction]) -> Iterator[tuple[Fraction, ...]]:
            if h == self.horizon:
                yield (ZERO,) * self.size
                return
            here = [n for n, m in enumerate(mass) if m]
            for chosen in itertools.product(*(self.layers[h][n] for n in here)):
                paid = [total(mass[n] * arc.pay[i] for n, arc in zip(here, chosen, strict=True)) for i in _upto(self)]
                then = [ZERO] * (len(self.layers[h + 1]) if h + 1 < self.horizon else 0)
                if then:
                    for n, arc in zip(here, chosen, strict=True):
                        for t, p in arc.outcomes:
                            then[t] += mass[n] * p
                for rest in after(h + 1, then):
                    yield tuple(x + y for x, y in zip(paid, rest, strict=True))

        start = (
            self.shift[0]
            - self.step * (self.horizon - 1)
            - _shift(arc.pay[0] for layer in self.layers for arcs in layer for arc in arcs)
        )
        yield from after(0, [Fraction(p, 1 << start) for p in self.initial])


def _upto(model: Model) -> range:
    return range(model.size)


def _shift(fractions: Any) -> int:
    """The least k >= 0 such that all of some dyadic fractions times 2^k are whole."""
    most = 0
    for x in fractions:
        k = x.denominator.bit_length() - 1
        assert x.denominator == 1 << k
        most = max(most, k)
    return most


def _whole(x: Fraction, shift: int) -> int:
    return x.numerator << (shift - x.denominator.bit_length() + 1)


class Sum(Model):
    """The sum of sets of value vectors, each taken so many times: a fleet's."""

    def __init__(self, parts: Sequence[tuple[Layered, int]]) -> None:
        self.parts, self.size = list(parts), parts[0][0].size
        self.origin, self.has_bonus = False, False
        self.shift = [max(part.shift[i] for part, _ in self.parts) for i in range(self.size)]

    def support(self, w: Sequence[int], absolute: bool = False) -> tuple[int, list[int]]:
        top, point = 0, [0] * self.size
        for part, count in self.parts:
            less = [e - f for e, f in zip(self.shift, part.shift, strict=True)]
            value, own = part.support([x << k for x, k in zip(w, less, strict=True)], absolute)
            top += count * value
            if not absolute:
                point = [z + count * (x << k) for z, x, k in zip(point, own, less, strict=True)]
        return top, point


# -- what is asked of a world, as coordinates --------------------------------------------------------------


@dataclass(frozen=True)
class Extra:
    """One more coordinate: a cost at one step (`at step`), the end of an episode above t (`above`), or its excess."""

    kind: str
    cost: int
    at: Any  # the step, or the amount t
    unit: Fraction = ONE  # an excess is counted in these

    def ends(self, spent: Fraction) -> Fraction:
        """What an episode that ends with a total pays."""
        if self.kind == "above":
            return Fraction(int(spent > self.at))
        excess: Fraction = max(spent - self.at, ZERO) / self.unit
        return excess


Limit = tuple[int, Fraction]  # a cost and what no episode may exceed


def realised(outcome: Outcome) -> Spent:
    """What an outcome costs as totals count it, of all costs: exactly what was written down."""
    return tuple(simplest(x) for x in outcome.pay[1:])


class Unrolled:
    """A world step by step: nodes are a state and, of the costs that are counted, what was spent."""

    def __init__(self, world: World, means: Means, counted: Sequence[int]) -> None:
        self.world, self.means, self.counted = world, means, tuple(counted)
        begin = {(s, (ZERO,) * len(self.counted)): None for s, p in enumerate(world.initial) if p > 0.0}
        self.nodes = [list(begin)]
        self.arcs: list[list[list[tuple[int, list[tuple[Fraction, int, Spent]]]]]] = []
        for h in range(world.horizon):
            then: dict[tuple[int, Spent], None] = {}
            layer = []
            for s, spent in self.nodes[h]:
                arcs = []
                for a, outcomes in enumerate(world.at(h)[s]):
                    found = []
                    for o in outcomes:
                        if o.probability > 0.0:
                            cost = realised(o)
                            after = tuple(x + cost[i] for x, i in zip(spent, self.counted, strict=True))
                            then[o.to, after] = None
                            found.append((Fraction(o.probability), o.to, after))
                    if found:
                        arcs.append((a, found))
                layer.append(arcs)
            self.arcs.append(layer)
            self.nodes.append(list(then))

    def totals(self, cost: int) -> list[Fraction]:
        """With how much of a cost an episode can end."""
        i = self.counted.index(cost)
        return sorted({spent[i] for _, spent in self.nodes[-1]})

    def layered(self, extras: Sequence[Extra] = (), never: Sequence[Limit] = ()) -> Layered | None:
        """The set of value vectors of policies that never exceed some limits; None if there are no such policies."""
        d, H = self.world.num_costs, self.world.horizon
        safe = self._safe(never)
        begin = [Fraction(self.world.initial[s]) for s, _ in self.nodes[0]]
        if not all(safe[0]):
            return None
        number = [{node: i for i, node in enumerate(nodes)} for nodes in self.nodes]
        used, layers = set(range(len(begin))), []
        index = list(used)
        for h in range(H):
            at = number[h + 1]
            reached: dict[int, int] = {}
            layer = []
            for n in index:
                s, _ = self.nodes[h][n]
                arcs = []
                for a, outcomes in self.arcs[h][n]:
                    if all(safe[h + 1][at[t, spent]] for _, t, spent in outcomes):
                        leads = tuple((reached.setdefault(at[t, spent], len(reached)), p) for p, t, spent in outcomes)
                        mean = self.means.of(h, s, a)
                        more = tuple(self._extra(extra, h, mean, outcomes) for extra in extras)
                        arcs.append(Arc(a, mean + more, leads))
                layer.append(arcs)
            layers.append(layer)
            index = list(reached)
        return Layered(begin, layers, 1 + d + len(extras))

    def _extra(
        self, extra: Extra, h: int, mean: Sequence[Fraction], outcomes: Sequence[tuple[Fraction, int, Spent]]
    ) -> Fraction:
        if extra.kind == "at step":
            return mean[1 + extra.cost] if extra.at == h else ZERO
        if h < self.world.horizon - 1:
            return ZERO
        i = self.counted.index(extra.cost)
        return total(p * extra.ends(spent[i]) for p, _, spent in outcomes)

    def _safe(self, never: Sequence[Limit]) -> list[list[bool]]:
        """Of each node, whether some policy surely keeps the limits from there."""
        safe = [[all(v[self.counted.index(i)] <= m for i, m in never) for _, v in self.nodes[-1]]]
        for h in reversed(range(self.world.horizon)):
            at = {node: i for i, node in enumerate(self.nodes[h + 1])}
            after = safe[0]
            safe.insert(
                0,
                [any(all(after[at[t, v]] for _, t, v in outs) for _, outs in arcs) for arcs in self.arcs[h]],
            )
        return safe


# -- what a policy does ------------------------------------------------------------------------------------


def shares_of(row: Sequence[float]) -> dict[int, Fraction]:
    """The probabilities of a row of a policy; the largest takes what rounding leaves of 1."""
    found = {a: Fraction(float(p)) for a, p in enumerate(row) if p > 0.0}
    most = max(found, key=lambda a: found[a])
    rest = 1 - total(found.values())
    assert abs(rest) < Fraction(1, 10**9), f"a row of a policy adds up to {float(1 - rest)!r}"
    found[most] += rest
    return found


@dataclass(frozen=True)
class Played:
    """What a policy comes to: expected totals, the cost of each step, and how episodes end, of all costs."""

    value: tuple[Fraction, ...]  # [1+d]
    steps: tuple[tuple[Fraction, ...], ...]  # [H][d]
    ends: Ends

    @staticmethod
    def mixed(parts: Sequence[tuple[Fraction, Played]]) -> Played:
        """The policies drawn with some probabilities."""
        ends: Ends = {}
        for weight, part in parts:
            for spent, p in part.ends.items():
                ends[spent] = ends.get(spent, ZERO) + weight * p
        first = parts[0][1]
        value = tuple(total(w * part.value[i] for w, part in parts) for i in range(len(first.value)))
        steps = tuple(
            tuple(total(w * part.steps[h][i] for w, part in parts) for i in range(len(row)))
            for h, row in enumerate(first.steps)
        )
        return Played(value, steps, ends)

    def above(self, cost: int, threshold: Fraction) -> Fraction:
        return total(p for spent, p in self.ends.items() if spent[cost] > threshold)

    def most(self, cost: int) -> Fraction:
        return max(spent[cost] for spent, p in self.ends.items() if p > 0)

    def marginal(self, cost: int) -> dict[Fraction, Fraction]:
        found: dict[Fraction, Fraction] = {}
        for spent, p in self.ends.items():
            found[spent[cost]] = found.get(spent[cost], ZERO) + p
        return found

    def cvar(self, cost: int, level: Fraction) -> Fraction:
        """The mean of the worst share 1 - level of episodes: the worst first, the last of them in part."""
        left = 1 - level
        worst = ZERO
        for amount, p in sorted(self.marginal(cost).items(), reverse=True):
            taken = min(p, left)
            worst += taken * amount
            left -= taken
        return worst / (1 - level)


def play(world: World, means: Means, policy: Any, totals: bool = True) -> Played:
    """Every state and amount that a policy comes to, with exact probabilities; it is asked as a user would."""
    d = world.num_costs
    counts = getattr(policy, "acts_on_spent", False)
    none = (ZERO,) * d
    tables: dict[Any, Any] = {}
    paid: dict[Any, Any] = {}

    def row(h: int, s: int, own: Any) -> dict[int, Fraction]:
        if own not in tables:
            tables[own] = (policy.at(own) if counts else policy).probabilities
        return shares_of(tables[own][h, s].tolist())

    def spend(own: Any, costs: tuple[float, ...]) -> Any:
        if not counts:
            return None
        if (own, costs) not in paid:
            paid[own, costs] = policy.spend(own, list(costs))
        return paid[own, costs]

    now: dict[Any, Fraction] = {
        (s, none, policy.start if counts else None): Fraction(p) for s, p in enumerate(world.initial) if p > 0.0
    }
    value, steps = [ZERO] * (1 + d), []
    for h in range(world.horizon):
        then: dict[Any, Fraction] = {}
        cost = [ZERO] * d
        for (s, spent, own), mass in now.items():
            for a, share in row(h, s, own).items():
                outcomes = world.at(h)[s][a] if a < len(world.at(h)[s]) else ()
                assert outcomes, f"action {a} does not exist in state {s} at step {h}"
                here = mass * share
                for i, x in enumerate(means.of(h, s, a)):
                    value[i] += here * x
                    if i:
                        cost[i - 1] += here * x
                for o in outcomes:
                    if o.probability > 0.0:
                        more = realised(o)
                        after = tuple(x + y for x, y in zip(spent, more, strict=True)) if totals else none
                        key = o.to, after, spend(own, o.pay[1:])
                        then[key] = then.get(key, ZERO) + here * Fraction(o.probability)
        steps.append(tuple(cost))
        now = then
    ends: Ends = {}
    for (_, spent, _), mass in now.items():
        ends[spent] = ends.get(spent, ZERO) + mass
    return Played(tuple(value), tuple(steps), ends)


# -- linear programs ---------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Solved:
    """The greatest c.x and an x that attains it; None if no x is feasible."""

    optimum: Fraction | None
    x: tuple[Fraction, ...]


def maximise(
    c: Sequence[Fraction],
    equal: Sequence[tuple[Sequence[Fraction], Fraction]],
    below: Sequence[tuple[Sequence[Fraction], Fraction]] = (),
) -> Solved:
    """max c.x over x >= 0 with row.x = b for each of `equal`, row.x <= b for each of `below`; checked by its dual."""
    n, k = len(c), len(below)
    rows = [[*map(Fraction, row), *[ZERO] * k] for row, _ in equal]
    rows += [[*map(Fraction, row), *[Fraction(int(i == j)) for j in range(k)]] for i, (row, _) in enumerate(below)]
    right = [Fraction(b) for _, b in (*equal, *below)]
    gains = [*map(Fraction, c), *[ZERO] * k]
    m, width = len(rows), n + k
    table, scale = [], []
    for i, (row, b) in enumerate(zip(rows, right, strict=True)):
        factor = math.lcm(*(x.denominator for x in row), b.denominator) * (-1 if b < 0 else 1)
        scale.append(factor)
        table.append([int(x * factor) for x in row] + [int(i == j) for j in range(m)] + [int(b * factor)])
    unit = math.lcm(*(x.denominator for x in gains)) if gains else 1
    # Two rows of gains to come: of -(sum of artificials), and of c. An entry above 0 may enter.
    first = [sum(row[j] for row in table) for j in range(width)] + [0] * m + [sum(row[-1] for row in table)]
    second = [int(x * unit) for x in gains] + [0] * m + [0]
    basis, det = list(range(width, width + m)), 1

    def pivot(r: int, j: int) -> None:
        nonlocal det
        own, by = table[r], table[r][j]
        sign = 1 if by > 0 else -1
        for row in (*(row for i, row in enumerate(table) if i != r), first, second):
            at = row[j]
            row[:] = [sign * ((x * by - at * y) // det) for x, y in zip(row, own, strict=True)]
        own[:] = [sign * x for x in own]
        det = sign * by
        basis[r] = j

    def climb(gain: list[int]) -> None:
        while (j := next((j for j in range(width) if gain[j] > 0), None)) is not None:
            rows = [i for i in range(m) if table[i][j] > 0]
            assert rows, "the program has no greatest value"
            least = min(Fraction(table[i][-1], table[i][j]) for i in rows)
            ties = [i for i in rows if table[i][-1] == least * table[i][j]]
            pivot(min(ties, key=lambda i: basis[i]), j)

    climb(first)
    if first[-1] > 0:  # Farkas: multipliers of the rows with y.rows >= 0 and y.right < 0
        y = [Fraction(-(first[width + i] + det), det) * scale[i] for i in range(m)]
        y = [-x for x in y] if total(a * b for a, b in zip(y, right, strict=True)) > 0 else y
        assert total(a * b for a, b in zip(y, right, strict=True)) < 0
        assert all(total(a * row[j] for a, row in zip(y, rows, strict=True)) >= 0 for j in range(width))
        return Solved(None, ())
    for r in range(m):  # artificials that are left, at 0: out, or their row says nothing
        if basis[r] >= width and (j := next((j for j in range(width) if table[r][j]), None)) is not None:
            pivot(r, j)
    climb(second)
    x = [ZERO] * width
    for r, j in enumerate(basis):
        if j < width:
            x[j] = Fraction(table[r][-1], det)
    optimum = total(a * b for a, b in zip(gains, x, strict=True))
    y = [Fraction(-second[width + i], det * unit) * scale[i] for i in range(m)]
    assert min(x, default=ZERO) >= 0
    assert all(total(a * b for a, b in zip(row, x, strict=True)) == b for row, b in zip(rows, right, strict=True))
    assert all(total(a * row[j] for a, row in zip(y, rows, strict=True)) >= gains[j] for j in range(width))
    assert total(a * b for a, b in zip(y, right, strict=True)) == optimum
    return Solved(optimum, tuple(x[:n]))


# -- without a horizon -------------------------------------------------------------------------------------


class Endless:
    """A world without a horizon: the program of what a policy does, and what a stationary policy is worth.

    Probabilities of a pair are taken in proportion, as conrl says it does.
    """

    def __init__(self, world: World, means: Means) -> None:
        self.world, self.criterion = world, world.horizon
        self.size = 1 + world.num_costs
        self.initial = [Fraction(p) for p in world.initial]
        self.pairs: list[tuple[int, int, dict[int, Fraction], tuple[Fraction, ...]]] = []
        self.mass: list[Fraction] = []  # what the probabilities of each pair add up to
        for s, a in self._reachable():
            outcomes = world.at(0)[s][a]
            whole = total(Fraction(o.probability) for o in outcomes)
            leads: dict[int, Fraction] = {}
            for o in outcomes:
                if o.probability > 0.0:
                    leads[o.to] = leads.get(o.to, ZERO) + Fraction(o.probability) / whole
            self.pairs.append((s, a, leads, means.of(0, s, a)))
            self.mass.append(whole)
        self.states = sorted({s for s, *_ in self.pairs})

    def _reachable(self) -> list[tuple[int, int]]:
        seen = [s for s, p in enumerate(self.world.initial) if p > 0.0]
        for s in seen:
            for outcomes in self.world.at(0)[s]:
                seen += [o.to for o in {o.to: o for o in outcomes if o.probability > 0.0}.values() if o.to not in seen]
        return [(s, a) for s in sorted(set(seen)) for a, outcomes in enumerate(self.world.at(0)[s]) if outcomes]

    # -- end components, by taking away what may leave ----------------------------------------------------

    def staying(self) -> set[int]:
        """The pairs, by number, that can be played forever: those that keep within an end component."""
        kept = set(range(len(self.pairs)))
        while True:
            follows: dict[int, set[int]] = {}
            for k in kept:
                follows.setdefault(self.pairs[k][0], set()).update(self.pairs[k][2])
            reach = {s: _closure(s, follows) for s in self.states}
            left = {k for k in kept if all(self.pairs[k][0] in reach[t] for t in self.pairs[k][2])}
            if left == kept:
                return kept
            kept = left

    @property
    def pays_for_ever(self) -> bool:
        return any(any(x != 0 for x in self._paid(k)) for k in self.staying())

    def _paid(self, k: int) -> list[Fraction]:
        """What a pair pays, by outcome too: a mean of 0 of pay that is not 0 is still pay."""
        s, a, _, mean = self.pairs[k]
        by_outcome = [Fraction(x) for o in self.world.at(0)[s][a] if o.probability > 0.0 for x in o.pay]
        return [*mean, *by_outcome]

    # -- the program --------------------------------------------------------------------------------------

    def best(self, a: Sequence[Fraction], rows: Sequence[tuple[int, int, Fraction]] = ()) -> Solved:
        """max a.z over value vectors with sign * z[1 + cost] <= bound for each row."""
        return self._best([total(x * y for x, y in zip(a, pay, strict=True)) for *_, pay in self.pairs], rows)

    def size_of(self, i: int) -> Fraction:
        """The greatest value of the size of a coordinate's pay."""
        found = self._best([abs(pay[i]) for *_, pay in self.pairs], ()).optimum
        assert found is not None
        return found

    def _best(self, gains: Sequence[Fraction], rows: Sequence[tuple[int, int, Fraction]]) -> Solved:
        """For the gain of each pair. A pair's unknown is in proportion to what its probabilities add up to.

        So all numbers stay sums of products of doubles, which are short.
        """
        n, S = len(self.pairs), self.states
        mass = self.mass
        leave = [[m * int(s == j) for (s, *_), m in zip(self.pairs, mass, strict=True)] for j in S]
        arrive = [[leads.get(j, ZERO) * m for (_, _, leads, _), m in zip(self.pairs, mass, strict=True)] for j in S]
        start = [self.initial[j] for j in S]
        flows = [[x - y for x, y in zip(u, v, strict=True)] for u, v in zip(leave, arrive, strict=True)]
        extra = 0
        if isinstance(self.criterion, conrl.Discounted):
            g = Fraction(self.criterion.discount)
            equal = [
                ([x - g * y for x, y in zip(u, v, strict=True)], b)
                for u, v, b in zip(leave, arrive, start, strict=True)
            ]
        elif isinstance(self.criterion, conrl.Average):
            extra = n
            equal = [([*flow, *[ZERO] * n], ZERO) for flow in flows]
            equal += [([*u, *flow], b) for u, flow, b in zip(leave, flows, start, strict=True)]
        else:
            stays = sorted({self.pairs[k][0] for k in self.staying()})
            extra = len(stays)
            ends = [[Fraction(int(j == s)) for s in stays] for j in S]
            equal = [([*flow, *end], b) for flow, end, b in zip(flows, ends, start, strict=True)]
        below = [
            ([s * m * pay[1 + c] for (*_, pay), m in zip(self.pairs, mass, strict=True)] + [ZERO] * extra, h)
            for c, s, h in rows
        ]
        found = maximise([*(x * m for x, m in zip(gains, mass, strict=True)), *[ZERO] * extra], equal, below)
        visits = tuple(x * m for x, m in zip(found.x, mass, strict=False))
        return Solved(found.optimum, visits)

    # -- one policy ---------------------------------------------------------------------------------------

    def value(self, table: Any) -> tuple[Fraction, ...]:
        """What a stationary policy [S, A] is worth, from the equations of its chain."""
        number = {(s, a): k for k, (s, a, *_) in enumerate(self.pairs)}
        chain: dict[int, dict[int, Fraction]] = {}
        pay: dict[int, list[Fraction]] = {}
        for s in self.states:
            row: dict[int, Fraction] = {}
            paid = [ZERO] * self.size
            for a, share in shares_of(table[s].tolist()).items():
                _, _, leads, own = self.pairs[number[s, a]]
                for t, p in leads.items():
                    row[t] = row.get(t, ZERO) + share * p
                paid = [x + share * y for x, y in zip(paid, own, strict=True)]
            chain[s], pay[s] = row, paid
        reach = {s: _closure(s, {k: set(v) for k, v in chain.items()}) for s in self.states}
        if isinstance(self.criterion, conrl.Discounted):
            g = Fraction(self.criterion.discount)
            visits = _visits(self.states, {s: {t: g * p for t, p in chain[s].items()} for s in chain}, self.initial)
            return tuple(total(visits[s] * pay[s][i] for s in self.states) for i in range(self.size))
        begin = {s for s in self.states if self.initial[s]}
        seen = sorted(begin | set().union(*(reach[s] for s in begin)))
        recurrent = [s for s in seen if all(s in reach[t] for t in reach[s])]
        transient = [s for s in seen if s not in recurrent]
        visits = _visits(transient, chain, self.initial)
        if not isinstance(self.criterion, conrl.Average):
            assert not any(any(pay[s]) for s in recurrent), "the policy pays forever"
            return tuple(total(visits[s] * pay[s][i] for s in transient) for i in range(self.size))
        value = [ZERO] * self.size
        for group in {frozenset(reach[s]) for s in recurrent}:
            states = sorted(group)
            ends = total(self.initial[s] for s in states)
            ends += total(visits[s] * chain[s].get(t, ZERO) for s in transient for t in states)
            one = states[0]  # visits between two returns to it, in proportion
            rest = states[1:]
            inner = _visits(rest, chain, [chain[one].get(t, ZERO) for t in range(self.world.states)])
            inner[one] = ONE
            length = total(inner.values())
            value = [x + ends * total(inner[s] * pay[s][i] for s in states) / length for i, x in enumerate(value)]
        return tuple(value)


def _closure(s: int, follows: dict[int, set[int]]) -> set[int]:
    """What can be reached in one step or more."""
    found: set[int] = set()
    new = set(follows.get(s, ()))
    while new:
        found |= new
        new = {t for u in new for t in follows.get(u, ())} - found
    return found


def _visits(
    states: Sequence[int], chain: dict[int, dict[int, Fraction]], start: Sequence[Fraction]
) -> dict[int, Fraction]:
    """x of x(t) = start(t) + sum_s x(s) chain(s, t) over some states that are left for good: by elimination."""
    n = len(states)
    rows = [[Fraction(int(s == t)) - chain[s].get(t, ZERO) for s in states] + [start[t]] for t in states]
    for k in range(n):
        at = next(i for i in range(k, n) if rows[i][k])
        rows[k], rows[at] = rows[at], rows[k]
        rows[k] = [x / rows[k][k] for x in rows[k]]
        for i in range(n):
            if i != k and rows[i][k]:
                by = rows[i][k]
                rows[i] = [x - by * y for x, y in zip(rows[i], rows[k], strict=True)]
    return {s: row[-1] for s, row in zip(states, rows, strict=True)}
