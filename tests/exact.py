"""Exact arithmetic, independent of conrl's planners: what a policy is worth, and the optimum under limits.

Doubles are whole numbers over powers of two, so that a model is a table of whole numbers. With probabilities over 2^k
and the pay of coordinate i over 2^e_i, every deterministic policy's value vector is whole over 2^(K + e_i), the same
for all (`Model`). The optimum under limits,

    maximise a.z   subject to   z in Z,  G z <= h,

is found by a revised simplex whose columns come from backward induction (`Program`). Its basis inverse is kept as
whole numbers over their determinant (Edmonds): no step rounds and none needs a greatest common divisor. The ratio test
is lexicographic, which ends whatever column enters. No answer is believed: the mixture is checked against every row,
and the multipliers are checked by one more backward induction, which must give the same number.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

import conrl

Row = tuple[int, int, Fraction]  # (cost, sign, bound): sign * z[1 + cost] <= bound


def shift_of(values: Any) -> int:
    """The least k >= 0 such that every double times 2^k is whole."""
    denominators = (float(x).as_integer_ratio()[1] for x in np.asarray(values).ravel())
    return max((q.bit_length() - 1 for q in denominators), default=0)


def whole(x: float, shift: int) -> int:
    """A double times 2^shift, where that is whole."""
    n, q = float(x).as_integer_ratio()
    return n << (shift - q.bit_length() + 1)


def total(fractions: Iterable[Fraction]) -> Fraction:
    return sum(fractions, Fraction(0))


@dataclass(frozen=True)
class Pair:
    """An action that exists in a state, in whole numbers."""

    action: int
    pay: tuple[int, ...]  # [1+d]
    bonus: tuple[int, ...]  # [1+d]
    outcomes: tuple[tuple[int, int], ...]  # successor, probability


class Model:
    """A model in whole numbers. `origin`: an episode may be skipped, which adds 0 to Z (`Knapsack`)."""

    def __init__(self, mdp: conrl.ConstrainedMDP, origin: bool = False) -> None:
        S, A, self.horizon, self.size = mdp.num_states, mdp.num_actions, mdp.horizon, 1 + mdp.num_costs
        P = np.asarray(mdp.transitions.todense()).reshape(S, A, S)
        pay = np.concatenate((mdp.rewards[:, :, None], mdp.costs), axis=2)
        bonus = np.zeros_like(pay)
        if mdp.bonus is not None:
            bonus[mdp.pair_state, mdp.action] = mdp.bonus
        self.origin = origin
        self.step = shift_of(P)
        pay_shift = [max(shift_of(pay[:, :, i]), shift_of(bonus[:, :, i])) for i in range(self.size)]
        start = shift_of(mdp.initial)
        steps = start + self.step * (self.horizon - 1)
        self.shift = [steps + e for e in pay_shift]  # z_i is a whole number over 2^shift_i
        self.initial = [whole(p, start) for p in mdp.initial]
        self.pairs = [
            [
                Pair(
                    a,
                    tuple(whole(x, e) for x, e in zip(pay[s, a], pay_shift, strict=True)),
                    tuple(whole(x, e) for x, e in zip(bonus[s, a], pay_shift, strict=True)),
                    tuple((t, whole(P[s, a, t], self.step)) for t in range(S) if P[s, a, t] > 0.0),
                )
                for a in np.flatnonzero(mdp.available[s]).tolist()
            ]
            for s in range(S)
        ]
        self.has_bonus = bool((bonus > 0.0).any())

    # -- one policy ----------------------------------------------------------------------------------------

    def visits(self, policy: Any) -> tuple[list[list[int]], int]:
        """How often a policy comes to each pair, over a denominator, of probabilities [H][S] -> {place of pair: n}.

        The numbers of a state are proportions, divided by their sum.
        """
        mass, denominator = list(self.initial), 1  # over 2^start, which `shift` counts
        counts = [[0] * len(pairs) for pairs in self.pairs]
        for h in range(self.horizon):
            shares = [policy(h, s) if mass[s] else {} for s in range(len(mass))]
            totals = [sum(x.values()) for x in shares]
            common = math.lcm(*(t for t in totals if t))
            if h:
                counts = [[n << self.step for n in row] for row in counts]
            if common != 1:
                counts = [[n * common for n in row] for row in counts]
                denominator *= common
            following = [0] * len(mass)
            for s, x in enumerate(shares):
                for place, n in x.items():
                    here = mass[s] * n * (common // totals[s])
                    counts[s][place] += here
                    for t, p in self.pairs[s][place].outcomes:
                        following[t] += here * p
            mass = following
        return counts, denominator

    def totals(self, counts: list[list[int]], bonus: bool = False) -> list[int]:
        """[1+d]: counts times pay (or times bonus)."""
        found = [0] * self.size
        for pairs, row in zip(self.pairs, counts, strict=True):
            for pair, n in zip(pairs, row, strict=True):
                if n:
                    for i, x in enumerate(pair.bonus if bonus else pair.pay):
                        found[i] += n * x
        return found

    def value(self, policy: conrl.Policy) -> tuple[list[Fraction], list[Fraction]]:
        """The value vector of a Markov policy, its probabilities normalised, and how far the bonus can move it."""
        place = [{pair.action: j for j, pair in enumerate(pairs)} for pairs in self.pairs]
        table = policy.probabilities

        def shares(h: int, s: int) -> dict[int, int]:
            row = {place[s][a]: float(p) for a, p in enumerate(table[h, s].tolist()) if p > 0.0}
            if len(row) == 1:
                return dict.fromkeys(row, 1)
            shift = shift_of(list(row.values()))
            return {j: whole(p, shift) for j, p in row.items()}

        counts, denominator = self.visits(shares)
        return tuple(
            [Fraction(n, denominator << e) for n, e in zip(self.totals(counts, b), self.shift, strict=True)]
            for b in (False, True)
        )  # type: ignore[return-value]

    # -- all policies --------------------------------------------------------------------------------------

    def support(self, w: Sequence[int], absolute: bool = False) -> tuple[int, list[int]]:
        """max over Z of w.z and a z that attains it, z in whole numbers; with `absolute`, of the sizes of pay."""
        q = [[self._along(pair, w, absolute) for pair in pairs] for pairs in self.pairs]
        value = [0] * len(self.pairs)
        choice: list[list[int]] = []
        for h in reversed(range(self.horizon)):
            up = self.step * (self.horizon - 1 - h)
            best = []
            now = []
            for pairs, pays in zip(self.pairs, q, strict=True):
                each = [
                    (x << up) + sum([p * value[t] for t, p in pair.outcomes])
                    for pair, x in zip(pairs, pays, strict=True)
                ]
                top = max(each)
                now.append(top)
                best.append(each.index(top))
            value = now
            choice.append(best)
        choice.reverse()
        top = sum(p * v for p, v in zip(self.initial, value, strict=True))
        if self.origin and top < 0:
            return 0, [0] * self.size
        if absolute:
            return top, []
        counts, _ = self.visits(lambda h, s: {choice[h][s]: 1})
        point = self.totals(counts)
        if self.has_bonus:
            moved = self.totals(counts, bonus=True)
            point = [z + (x > 0) * b - (x < 0) * b for z, b, x in zip(point, moved, w, strict=True)]
        assert sum(x * z for x, z in zip(w, point, strict=True)) == top
        return top, point

    @staticmethod
    def _along(pair: Pair, w: Sequence[int], absolute: bool) -> int:
        if absolute:
            return sum(x * (abs(r) + b) for x, r, b in zip(w, pair.pay, pair.bonus, strict=True))
        return sum(x * r + abs(x) * b for x, r, b in zip(w, pair.pay, pair.bonus, strict=True))

    def scaled(self, w: Sequence[Fraction | int]) -> tuple[list[int], int]:
        """A direction for z in whole numbers, and the factor by which its support is too large."""
        fractions = [Fraction(x) for x in w]
        used = [e for e, x in zip(self.shift, fractions, strict=True) if x]
        factor = math.lcm(*(x.denominator for x in fractions)) << max(used, default=0)
        return [
            x.numerator * ((factor // x.denominator) >> e) if x else 0
            for x, e in zip(fractions, self.shift, strict=True)
        ], factor

    def greatest(self, w: Sequence[Fraction | int]) -> Fraction:
        """max over Z of w.z."""
        direction, factor = self.scaled(w)
        return Fraction(self.support(direction)[0], factor)

    @cached_property
    def sizes(self) -> list[Fraction]:
        """[1+d]: the greatest expected total of the size of each coordinate's pay: what rounding is measured by."""
        axes = [[int(i == j) for j in range(self.size)] for i in range(self.size)]
        return [Fraction(self.support(w, absolute=True)[0], 1 << self.shift[i]) for i, w in enumerate(axes)]


# -- the optimum under limits ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """An exact optimum with its certificate, or a proof that there is none.

    Feasible: `optimum`, attained by `point`, and multipliers whose bound max_z (a - G'multipliers).z + multipliers.h is
    the optimum. Infeasible: `optimum` is None, and multipliers.(G z - h) >= `violation` > 0 for all z.
    """

    optimum: Fraction | None
    point: tuple[Fraction, ...] | None
    multipliers: tuple[Fraction, ...]
    violation: Fraction
    pivots: int


GUIDE = 192  # bits that a program keeps of its numbers to find a promising basis quickly


class Program:
    """maximise a.z - t subject to z in Z and sign_r z_r - room_r t <= bound_r, t >= 0; without rooms there is no t.

    With `guide`, rows and gains are cut to a few bits: the answer is nearly right, soon, and its basis is where the
    exact program begins.
    """

    def __init__(
        self,
        model: Model,
        a: Sequence[Fraction | int],
        rows: Sequence[Row],
        room: Sequence[Fraction] | None = None,
        guide: bool = False,
    ) -> None:
        self.model, self.rows, self.room = model, list(rows), room
        self.a = [Fraction(x) for x in a]
        self.gain, self.unit = model.scaled(self.a)
        rooms = [Fraction(0)] * len(self.rows) if room is None else list(room)
        # Row r in whole numbers is row r times factor_r.
        self.factor = [
            math.lcm(h.denominator, t.denominator) << model.shift[1 + c]
            for (c, _, h), t in zip(self.rows, rooms, strict=True)
        ]
        b = [1] + [int(h * f) for (_, _, h), f in zip(self.rows, self.factor, strict=True)]
        relief = [0] + [-int(t * f) for t, f in zip(rooms, self.factor, strict=True)]
        # The size of each row in bits: of what it can be worth and of its bound.
        worth = [int(model.sizes[1 + c] * f) for (c, _, _), f in zip(self.rows, self.factor, strict=True)]
        size = [1] + [max(abs(x), y, 1).bit_length() for x, y in zip(b[1:], worth, strict=True)]
        gains = int(total(abs(x) * y for x, y in zip(self.a, model.sizes, strict=True)) * self.unit).bit_length()
        self.wide = max(gains, *size) > 2 * GUIDE
        self.cut = [max(n - GUIDE, 0) if guide else 0 for n in size]
        self.cut_gain = max(gains - GUIDE, 0) if guide else 0
        self.b, self.relief = self._cut(b), self._cut(relief)
        self.relax = [0] + [-(1 << (n - k)) for n, k in zip(size[1:], self.cut[1:], strict=True)]
        self.pivots = 0

    def _cut(self, column: Sequence[int]) -> list[int]:
        return [x >> k for x, k in zip(column, self.cut, strict=True)]

    def column(self, z: Sequence[int]) -> list[int]:
        """A point of Z in whole numbers as a column."""
        shift = self.model.shift
        rows = zip(self.rows, self.factor, strict=True)
        return self._cut([1] + [s * z[1 + c] * (f >> shift[1 + c]) for (c, s, _), f in rows])

    def solve(self) -> Answer:
        if not (self.wide and self._begin_at_guide()):
            self._begin()
        self._simplex()
        return self._infeasible() if self.phase_one else self._optimal()

    def _begin(self) -> None:
        """One point alone, all slacks and, where the point breaks a row, what relaxes all of them."""
        self._clear()
        self._pivot(self._point(self.model.support(self.gain)[1]), 0)
        worst = min(range(1, len(self.b)), key=lambda r: Fraction(self.level[r], -self.relax[r]), default=0)
        self.phase_one = worst > 0 and self.level[worst] < 0
        if self.phase_one:
            self._pivot(self._relax, worst)

    def _begin_at_guide(self) -> bool:
        """Where a guide ended; False if that is not a basis here, or one that breaks a row."""
        guide = Program(self.model, self.a, self.rows, self.room, guide=True)
        guide._begin()
        guide._simplex()
        self._clear()
        slacks = [v[1].index(1) for v in guide.basis if v[0] == "slack"]
        free = [r for r in range(len(self.b)) if r not in slacks]
        for kind, _, _, point in guide.basis:
            if kind == "slack":
                continue
            variable = self._point(point) if kind == "z" else self._relax if kind == "relax" else self._t
            d = self._column_in_basis(variable[1])
            r = max(free, key=lambda i: abs(d[i]))
            if d[r] == 0:
                return False
            self._pivot(variable, r)
            free.remove(r)
        self.phase_one = self._place("relax") is not None
        return min(self.level) >= 0

    # -- the simplex ---------------------------------------------------------------------------------------

    def _clear(self) -> None:
        m = len(self.b)
        self.det = 1
        self.inverse = [[int(i == j) for j in range(m)] for i in range(m)]
        self.level = list(self.b)
        # What is basic in each row: its kind, column, gain and, of a point of Z, the point.
        self.basis: list[Any] = [("none", self._unit(0), 0, None)] + [self._slack(r) for r in range(1, m)]
        self.phase_one = False
        self._reset()

    def _simplex(self) -> None:
        """To the optimum; or to the proof that there is none, and then it stays in the first phase."""
        if self.phase_one:
            self._reset()
            self._run()
            at = self._place("relax")
            if at is not None and self.level[at] > 0:
                return
            self.phase_one = False
        self._reset()
        self._run()

    def _unit(self, r: int) -> list[int]:
        return [int(i == r) for i in range(len(self.b))]

    def _slack(self, r: int) -> Any:
        return ("slack", self._unit(r), 0, None)

    @property
    def _relax(self) -> Any:
        """What relaxes every row, in units of its size: the first phase minimises it."""
        return ("relax", self.relax, -1, None)

    @property
    def _t(self) -> Any:
        return ("t", self.relief, -self.unit, None)

    def _point(self, z: Sequence[int]) -> Any:
        gain = sum(x * y for x, y in zip(self.gain, z, strict=True)) >> self.cut_gain
        return ("z", self.column(z), gain, tuple(z))

    def _place(self, kind: str) -> int | None:
        return next((i for i, b in enumerate(self.basis) if b[0] == kind), None)

    def _reset(self) -> None:
        """The lexicographic order starts anew at this basis."""
        m = len(self.basis)
        self.order = [[self.det * (i == j) for j in range(m)] for i in range(m)]

    def _cost(self, variable: Any) -> int:
        if self.phase_one:
            return -1 if variable[0] == "relax" else 0
        return 0 if variable[0] == "relax" else int(variable[2])

    def _duals(self) -> list[int]:
        """Multipliers of all rows times det."""
        costs = [(self._cost(v), row) for v, row in zip(self.basis, self.inverse, strict=True)]
        m = len(self.basis)
        return [sum([c * row[j] for c, row in costs if c]) for j in range(m)]

    def _direction(self, y: Sequence[int]) -> list[int]:
        """The direction that prices points: det (gain - y G), in whole numbers."""
        up = max(self.cut_gain, *self.cut)  # so that all are whole
        w = [0 if self.phase_one else (self.det * x) << (up - self.cut_gain) for x in self.gain]
        shift = self.model.shift
        for (c, s, _), f, price, cut in zip(self.rows, self.factor, y[1:], self.cut[1:], strict=True):
            w[1 + c] -= (s * price * (f >> shift[1 + c])) << (up - cut)
        return w

    def _entering(self) -> Any | None:
        """A column of positive reduced cost: of a slack, of t, or of the best point for the multipliers."""
        y = self._duals()
        r = min(range(len(y)), key=lambda j: y[j] if j else 0)
        if r and y[r] < 0:
            return self._slack(r)
        if self.room is not None and self._reduced(self._t, y) > 0:
            return self._t
        point = self._point(self.model.support(self._direction(y))[1])
        return point if self._reduced(point, y) > 0 else None

    def _reduced(self, variable: Any, y: Sequence[int]) -> int:
        column: list[int] = variable[1]
        return self._cost(variable) * self.det - sum([p * x for p, x in zip(y, column, strict=True)])

    def _run(self) -> None:
        while (variable := self._entering()) is not None:
            d = self._column_in_basis(variable[1])
            at = self._place("relax")
            if at is not None and not self.phase_one and d[at] != 0:
                self._pivot(variable, at)  # it is 0 and must not grow: it leaves, whatever the sign
                self._reset()
                continue
            rows = [i for i, x in enumerate(d) if x > 0]
            leaving = rows[0]
            for i in rows[1:]:
                if self._before(i, leaving, d):
                    leaving = i
            if at is not None and d[at] > 0 and self.level[at] * d[leaving] == self.level[leaving] * d[at]:
                leaving = at  # of those that reach 0 now, the one to be rid of
            self._pivot(variable, leaving)
            if leaving == at:
                return  # the first phase is over

    def _before(self, i: int, k: int, d: Sequence[int]) -> bool:
        """Whether row i comes before row k in the lexicographic ratio test."""
        for x, y in zip([self.level[i], *self.order[i]], [self.level[k], *self.order[k]], strict=True):
            left, right = x * d[k], y * d[i]
            if left != right:
                return left < right
        raise AssertionError("two rows of a regular matrix are parallel")

    def _column_in_basis(self, column: Sequence[int]) -> list[int]:
        used = [(j, x) for j, x in enumerate(column) if x]
        return [sum([row[j] * x for j, x in used]) for row in self.inverse]

    def _pivot(self, variable: Any, r: int) -> None:
        d = self._column_in_basis(variable[1])
        pivot, det = d[r], self.det
        sign = 1 if pivot > 0 else -1

        def update(table: list[list[int]]) -> list[list[int]]:
            own = table[r]
            changed = []
            for i, row in enumerate(table):
                if i == r:
                    changed.append([sign * x for x in own])
                elif d[i]:
                    changed.append([sign * ((x * pivot - d[i] * z) // det) for x, z in zip(row, own, strict=True)])
                else:
                    changed.append([sign * (x * pivot // det) for x in row])
            return changed

        joined = update([[*a, *b, x] for a, b, x in zip(self.inverse, self.order, self.level, strict=True)])
        m = len(d)
        self.inverse = [row[:m] for row in joined]
        self.order = [row[m : 2 * m] for row in joined]
        self.level = [row[-1] for row in joined]
        self.det = sign * pivot
        self.basis[r] = variable
        self.pivots += 1

    # -- certificates --------------------------------------------------------------------------------------

    def _multipliers(self, scale: int) -> tuple[Fraction, ...]:
        y = self._duals()
        return tuple(Fraction(p * f, self.det * scale) for p, f in zip(y[1:], self.factor, strict=True))

    def _optimal(self) -> Answer:
        z = [0] * self.model.size
        weight = relief = 0
        for level, (kind, _, _, point) in zip(self.level, self.basis, strict=True):
            assert level >= 0
            if kind == "z":
                weight += level
                z = [x + level * p for x, p in zip(z, point, strict=True)]
            elif kind == "t":
                relief = level
            elif kind == "relax":
                assert level == 0
        assert weight == self.det
        found = tuple(Fraction(x, self.det << e) for x, e in zip(z, self.model.shift, strict=True))
        t = Fraction(relief, self.det)
        for r, (c, s, h) in enumerate(self.rows):
            assert s * found[1 + c] <= h + (self.room[r] * t if self.room is not None else 0)
        optimum = total(x * y for x, y in zip(self.a, found, strict=True)) - t
        multipliers = self._multipliers(self.unit)
        assert all(x >= 0 for x in multipliers)
        assert dual_bound(self.model, self.a, self.rows, multipliers) == optimum
        if self.room is not None:
            assert total(x * y for x, y in zip(multipliers, self.room, strict=True)) <= 1
        return Answer(optimum, found, multipliers, Fraction(0), self.pivots)

    def _infeasible(self) -> Answer:
        multipliers = self._multipliers(1)
        violation = farkas(self.model, self.rows, multipliers)
        assert violation > 0
        assert all(x >= 0 for x in multipliers)
        return Answer(None, None, multipliers, violation, self.pivots)


def dual_bound(
    model: Model, a: Sequence[Fraction | int], rows: Sequence[Row], multipliers: Sequence[Fraction]
) -> Fraction:
    """max over Z of (a - G'multipliers).z + multipliers.h: no point that keeps the rows has a greater a.z."""
    w = [Fraction(x) for x in a]
    for (c, s, _), x in zip(rows, multipliers, strict=True):
        w[1 + c] -= s * x
    return model.greatest(w) + total(h * x for (_, _, h), x in zip(rows, multipliers, strict=True))


def farkas(model: Model, rows: Sequence[Row], multipliers: Sequence[Fraction]) -> Fraction:
    """min over Z of multipliers.(G z - h): if it is positive, no point keeps the rows."""
    return -dual_bound(model, [0] * model.size, rows, multipliers)


def rows_of(problem: conrl.Linear | conrl.Knapsack, mdp: conrl.ConstrainedMDP) -> list[Row]:
    """The limits, then the floors, of a problem."""
    linear = problem.linear(mdp) if isinstance(problem, conrl.Knapsack) else problem
    rows = linear.rows(mdp)
    return [
        (int(c), 1 if s > 0 else -1, Fraction(float(h)))
        for c, s, h in zip(rows.cost, rows.sign, rows.bound, strict=True)
    ]


def relaxed(rows: Sequence[Row], amounts: Sequence[Fraction]) -> list[Row]:
    """Rows with their bounds raised."""
    return [(c, s, h + x) for (c, s, h), x in zip(rows, amounts, strict=True)]


def reward_direction(model: Model) -> list[int]:
    return [1] + [0] * (model.size - 1)


def best(model: Model, rows: Sequence[Row], a: Sequence[Fraction | int] | None = None) -> Answer:
    """The best reward (or a.z) under rows."""
    return Program(model, reward_direction(model) if a is None else a, rows).solve()


def least_relaxation(model: Model, rows: Sequence[Row], room: Sequence[Fraction]) -> Fraction | None:
    """The least t >= 0 such that rows with bounds raised by t room can be kept; None if there is none."""
    found = Program(model, [0] * model.size, rows, room).solve().optimum
    return None if found is None else -found
