"""Plans of fleets: the best policies of many units within shared limits, nearly all of them deterministic.

Column generation (`column_generation.linear`) maximises over the Minkowski sum and ends with at most R + 1 columns, R
rows being limited. In each column every unit has an answer of its own, a deterministic policy; units whose answers are
all the same need no more than that one. The others may mix, each for itself: the program

    maximise  sum_n sum_j x_nj r_nj    subject to  sum_j x_nj = 1,  sum_n sum_j x_nj c_nj within the R rows

over their answers j has basic solutions in which at most R units mix in all. One that is no worse than the mixture
found is reached by moves that keep all rows (`kernels.fewer_mixtures`). It is valued anew from the units and checked
against every row; if rounding has spoiled it, the mixture stays as it was found. Of c units of one type, whole numbers
play each policy and what is left over mixes.

A mixing unit draws its policy for itself. If instead each of them settles on one of its policies, the expectation may
exceed a limit by what these few units may cost more: `FleetPlan.rounding`.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conrl import kernels
from conrl._types import Float, Int
from conrl.arguments import frozen, is_int
from conrl.errors import RunError, SpecError, shown
from conrl.mixture import Mixture
from conrl.model.fleet import Fleet
from conrl.model.limits import Linear, resolve_limits
from conrl.notebook import Columns, Drawn, Framed, Sheet, Sheeted
from conrl.oracles import SumOracle, exact_oracle
from conrl.planners.allowance import Allowance
from conrl.planners.basis import seen_steps
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Conflict, Optimum
from conrl.planners.feasibility import infeasible
from conrl.planners.result import MESSAGES, Checked, Row, certify, limited_totals, rows_kept, split_prices
from conrl.policy import Deterministic, Policy
from conrl.problem import Rows, as_problem
from conrl.wording import line, totals


class Part(NamedTuple):
    """Units of one type that do the same."""

    units: int
    policy: Policy | Mixture  # a mixture is drawn anew by each unit
    value: Float  # [1+d]: the expected reward and costs of one of them


class Mix(NamedTuple):
    """A unit that mixes: which of the columns, and how likely each."""

    unit: int  # the rank among the units of its member
    columns: tuple[int, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Split:
    """Who plays which column. Members with more than one policy are in `parts`; of the others all units play `main`."""

    main: NDArray[np.int32]  # [M]
    parts: dict[int, list[tuple[int, int]]]  # member: (column, how many units), before those that mix
    mixes: dict[int, list[Mix]]  # member: its units that mix


@dataclass(frozen=True, eq=False, repr=False)
class FleetPlan(Sheeted, Framed, Drawn):
    """The best policies found for the units of a fleet, with the certificate.

    `reward` and `costs` are expected totals of the whole fleet, `bound` a proven upper bound on the reward within the
    limits, `gap` their difference. `prices[i]` >= 0 is the gain in reward per unit of limit i, `floor_prices[i]` the
    loss per unit of floor i; `step_prices` the same of limits per step, by cost name. `shares` [types, d] is what each
    type (each unit, in a stack) is expected to spend and `rewards` [types] what it earns. `mixed` are the units that
    mix; every other has one deterministic policy. `policy(unit)` and `parts(type)` make the policies.

    As a data frame: `total` ("reward", the name of a cost, then limits on single steps), `value`, `limit`, `price`,
    `floor`, `floor_price`.
    """

    fleet: Fleet
    status: str  # a key of MESSAGES
    reward: float
    costs: Float  # [d]
    bound: float
    prices: Float  # [d]
    floor_prices: Float  # [d]
    iterations: int  # directions asked of the oracle
    limits: Float  # [d]: that it was planned for; inf for none
    floors: Float  # [d]
    rewards: Float  # [types]
    shares: Float  # [types, d]
    step_costs: dict[str, Float]  # expected costs of each step, of those limited so
    step_prices: dict[str, Float]
    rounding: Float  # [R]: by how much rows may be exceeded if mixing units settle on one policy
    checked: Checked
    oracle: SumOracle
    directions: Float  # [n, 1 + ...]: of the columns
    split: Split

    def __repr__(self) -> str:
        value = totals(("reward", *self.fleet.cost_names), (self.reward, *self.costs))
        units = f"{self.fleet.num_units:,} units: {value}, gap {self.gap:.1e}, {self.status}"
        return line(self, units, seen_steps(self.fleet))

    def _columns(self) -> Columns:
        names, value = self.fleet.cost_names, (self.reward, *self.costs)
        table = limited_totals(names, value, (self.limits, self.floors), (self.prices, self.floor_prices))
        for k, i in enumerate(self.fleet.step_costs):
            name, H = names[i], self.fleet.horizon
            limits = np.where(np.isfinite(self.fleet.step_limits[k]), self.fleet.step_limits[k], np.nan)
            rows = {
                "total": [f"{name} at step {h}" for h in range(H)],
                "value": self.step_costs[name].tolist(),
                "limit": limits.tolist(),
                "price": self.step_prices[name].tolist(),
            }
            for title in table:
                table[title] += rows.get(title, [np.nan] * H)
        return table

    def _sheet(self) -> Sheet:
        title = f"Plan of a fleet of {self.fleet.num_units:,} units: {self.status}, gap {self.gap:.1e}"
        return Sheet(title, self._columns(), (self.message,))

    @property
    def objective(self) -> float:
        """What was maximised: the reward."""
        return self.reward

    @property
    def gap(self) -> float:
        """bound - reward: the most by which anything within the limits could do better."""
        return self.bound - self.reward

    @property
    def message(self) -> str:
        """What the status means and, where something is wrong, the remedy; and whether models are only estimates."""
        return "; ".join(filter(None, (MESSAGES[self.status], seen_steps(self.fleet))))

    @property
    def rows(self) -> tuple[Row, ...]:
        """The limits, then the floors: value, bound, price, excess and allowance."""
        return rows_kept(self.checked)

    @property
    def mixed(self) -> tuple[int, ...]:
        """The units that mix policies, by number."""
        found = []
        for member, mixes in self.split.mixes.items():
            units = self._units_of(member)
            found += [int(units[mix.unit]) for mix in mixes]
        return tuple(sorted(found))

    def policy(self, unit: int) -> Policy | Mixture:
        """The policy of one unit."""
        if not is_int(unit) or not 0 <= unit < self.fleet.num_units:
            raise SpecError(
                f"unit is {shown(unit)}; the fleet has the units 0..{self.fleet.num_units - 1}", key=("unit",)
            )
        member = int(self.fleet.unit_member[unit])
        if member not in self.split.parts:
            return self._policy(member, int(self.split.main[member]))
        rank = int(np.searchsorted(self._units_of(member), unit))
        for column, count in self.split.parts[member]:
            if rank < count:
                return self._policy(member, column)
            rank -= count
        return self._mixture(member, self.split.mixes[member][rank])

    def parts(self, type: int) -> list[Part]:
        """What the units of a type do: how many of them play which policy."""
        if not is_int(type) or not 0 <= type < self.fleet.num_types:
            raise SpecError(
                f"type is {shown(type)}; the fleet has the types 0..{self.fleet.num_types - 1}", key=("type",)
            )
        found = []
        for member in np.flatnonzero(self.fleet.member_type == type).tolist():
            whole = [(int(self.split.main[member]), int(self.fleet.counts[member]))]
            for column, count in self.split.parts.get(member, whole):
                found.append(Part(count, self._policy(member, column), self._value(member, column)))
            for mix in self.split.mixes.get(member, []):
                value = np.asarray(mix.weights) @ np.array([self._value(member, j) for j in mix.columns])
                found.append(Part(1, self._mixture(member, mix), value))
        return found

    def to_html(self, path: str | Path | None = None) -> str:
        """A page with a slider for every shared limit, open at those of the plan (`conrl.explore`); written, if there
        is a path."""
        from conrl.explorer import to_html  # above this layer: the plan hands itself on

        return to_html(self, path)

    def _units_of(self, member: int) -> Int:
        return np.flatnonzero(self.fleet.unit_member == member)

    def _mixture(self, member: int, mix: Mix) -> Mixture:
        values = np.array([self._value(member, j) for j in mix.columns])
        return Mixture(mix.weights, [self._policy(member, j) for j in mix.columns], values)

    def _value(self, member: int, column: int) -> Float:
        """[1+d]: of one unit of a member."""
        stack, rank = self._place(member)
        part = self.fleet.stacks[stack]
        states = part.starts[rank]
        actions = self._actions(stack, rank, column)
        block, lane = divmod(int(part.kind[rank]), kernels.LANES)
        p, x = part.probability[block, :, lane], part.pay[block, :, :, lane]
        total, mu = np.zeros(x.shape[0]), states
        for h in range(self.fleet.horizon):
            pairs = part.pairs(h, actions[h])
            total = total + x[:, pairs] @ mu
            then = np.zeros_like(mu)
            for s in np.flatnonzero(mu):
                mine = slice(part.start[pairs[s]], part.start[pairs[s] + 1])
                np.add.at(then, part.successor[mine], mu[s] * p[mine])
            mu = then
        return total

    def _place(self, member: int) -> tuple[int, int]:
        """The stack of a member, and its number there."""
        for i, stack in enumerate(self.fleet.stacks):
            if member < stack.members:
                return i, member
            member -= stack.members
        raise IndexError(member)

    def _actions(self, stack: int, rank: int, column: int) -> NDArray[np.uint16]:
        """[H, S]: the choices of a member among the actions of each state."""
        part = self.fleet.stacks[stack]
        rows = np.full(part.members, -1, dtype=np.int64)
        rows[rank] = 0
        table: NDArray[np.uint16] = np.zeros((1, self.fleet.horizon, part.num_states), dtype=np.uint16)
        self.oracle.choices(stack, self.directions[column], rows, table)
        return table.reshape(table.shape[1:])

    def _policy(self, member: int, column: int) -> Deterministic:
        stack, rank = self._place(member)
        part = self.fleet.stacks[stack]
        choices = self._actions(stack, rank, column)
        actions = np.stack([part.action[part.pairs(h, choice)] for h, choice in enumerate(choices)])
        return Deterministic(actions, part.num_actions)

    def tables(self, stack: int, members: Int) -> tuple[NDArray[np.uint16], Int, list[tuple[int, Int, Float]]]:
        """What a simulation plays: choices [T, H, S], and the row of each unit of a stack, whose members are given.

        Units that mix are listed with their rows and the weights of these.
        """
        part = self.fleet.stacks[stack]
        offset = sum(other.members for other in self.fleet.stacks[:stack])
        known: dict[tuple[int, int], int] = {}  # the row of a member and column, of members with several policies

        def at(rank: int, column: int) -> int:
            return known.setdefault((rank, column), part.members + len(known))

        choice = members.copy()
        mixing: list[tuple[int, Int, Float]] = []
        several = [m - offset for m in self.split.parts if 0 <= m - offset < part.members]
        for rank in several:
            units = np.flatnonzero(members == rank)
            begin = 0
            for column, count in self.split.parts[rank + offset]:
                choice[units[begin : begin + count]] = at(rank, column)
                begin += count
            for mix in self.split.mixes.get(rank + offset, []):
                rows = np.array([at(rank, j) for j in mix.columns])
                mixing.append((int(units[mix.unit]), rows, np.array(mix.weights)))
        table = np.zeros((part.members + len(known), self.fleet.horizon, part.num_states), dtype=np.uint16)
        main = self.split.main[offset : offset + part.members]
        for column, direction in enumerate(self.directions):
            alone = np.where(main == column, np.arange(part.members), -1)
            alone[several] = -1
            shared = np.full(part.members, -1, dtype=np.int64)
            for (rank, j), row in known.items():
                if j == column:
                    shared[rank] = row
            for rows in (alone, shared):
                if (rows >= 0).any():
                    self.oracle.choices(stack, direction, rows, table)
        return table, choice, mixing


# -- planning ---------------------------------------------------------------------------------------------


def plan_fleet(fleet: Fleet, problem: Any, limits: Any, tol: float, max_sweeps: int, threads: int | None) -> FleetPlan:
    """The best policies of a fleet within its limits, or within others: a `Linear`, or limits as it takes them."""
    upper, lower = fleet.limits, fleet.floors
    if problem is not None or limits is not None:
        upper, lower = _read_problem(as_problem(problem, None, limits), fleet)
    rows = fleet.rows(upper, lower)
    oracle = exact_oracle(fleet, threads)
    try:
        best = maximise(oracle, np.eye(1 + oracle.num_costs)[0], rows, tol=tol, max_sweeps=max_sweeps)
    except Conflict as conflict:
        raise infeasible(oracle, rows, conflict) from None
    return _split(fleet, best, rows, tol, upper, lower)


def _read_problem(asked: Any, fleet: Fleet) -> tuple[Float, Float]:
    """Limits and floors [d]; a fleet takes nothing else."""
    if not isinstance(asked, Linear):
        raise SpecError(f"fleets take limits or a Linear problem, not {type(asked).__name__}", key=("problem",))
    for entry in dataclasses.fields(asked):
        if entry.init and entry.name not in ("limits", "floors") and getattr(asked, entry.name):
            raise SpecError(
                f"{entry.name}= of a Linear is not for fleets; they take limits and floors (and Fleet(per_step=...))",
                key=(entry.name,),
            )
    upper = resolve_limits(asked.limits, fleet.cost_names, "limits")
    return upper, resolve_limits(asked.floors, fleet.cost_names, "floors")


def _split(fleet: Fleet, best: Optimum, rows: Rows, tol: float, upper: Float, lower: Float) -> FleetPlan:
    """An optimum of the sum, as policies of its units."""
    oracle = best.oracle
    assert isinstance(oracle, SumOracle)
    assert best.allowance is not None
    allowance = Allowance(oracle, rows)
    if allowance.by_point:
        errors = np.array([oracle.point_error(direction) for direction in best.directions])
        allowance = allowance.of(best.weights @ errors)
    counts, stated, most = fleet.counts, best.allowance, allowance.computed
    points = oracle.points_apart(best.directions)  # [n, M, width]
    least = best.objective - 0.1 * _tolerance(oracle, best.objective, tol)
    for reduced in (True, False):
        split, value = _assign(best, rows, points, counts, reduced)
        total = np.array([math.fsum(column) for column in (counts[:, None] * value).T])
        over = rows.matrix(oracle.num_costs) @ total - rows.bound
        if (over <= most).all() and total[0] >= least:
            break
    if not (over <= stated).all():
        raise RunError("the plan found breaks a limit by more than rounding; measure costs in units nearer to 1")
    tolerance = _tolerance(oracle, float(total[0]), tol)
    bound, closed = certify(best.bound, float(total[0]), tolerance, float(best.multipliers @ stated))
    status = "optimal" if closed else "iteration limit" if best.exhausted else "inaccurate"
    d, H = fleet.num_costs, fleet.horizon
    prices, floor_prices = split_prices(rows, best.multipliers, oracle.num_costs)
    types = fleet.num_types
    by_type = np.zeros((types, 1 + d))
    np.add.at(by_type, fleet.member_type, counts[:, None] * value[:, : 1 + d])
    named = [(fleet.cost_names[i], slice(d + k * H, d + (k + 1) * H)) for k, i in enumerate(fleet.step_costs)]
    return FleetPlan(
        fleet=fleet,
        status=status,
        reward=float(total[0]),
        costs=frozen(total[1 : 1 + d]),
        bound=bound,
        prices=frozen(prices[:d]),
        floor_prices=frozen(floor_prices[:d]),
        iterations=best.asked,
        limits=frozen(upper),
        floors=frozen(lower),
        rewards=frozen(by_type[:, 0]),
        shares=frozen(by_type[:, 1:]),
        step_costs={name: frozen(total[1:][part]) for name, part in named},
        step_prices={name: frozen(prices[part]) for name, part in named},
        rounding=_rounding(split, rows, points),
        checked=Checked(rows, total[1 + rows.cost], stated, best.multipliers),
        oracle=oracle,
        directions=best.directions,
        split=split,
    )


def _tolerance(oracle: SumOracle, objective: float, tol: float) -> float:
    """As in `column_generation.search`: relative to the objective, and to the largest possible total."""
    return tol * min(max(1.0, abs(objective)), oracle.horizon * float(oracle.scale[0]))


def _assign(best: Optimum, rows: Rows, points: Float, counts: Float, reduced: bool) -> tuple[Split, Float]:
    """Who plays what, and the value vector [M, width] of one unit of each member; `reduced`: with few that mix."""
    n = best.weights.size
    same = np.zeros(points.shape[:2], dtype=np.int64)  # [n, M]: the first column with the same answer
    for j in range(1, n):
        same[j] = j
        for i in range(j - 1, -1, -1):
            same[j] = np.where((points[j] == points[i]).all(axis=1), same[i], same[j])
    several = np.flatnonzero((same != 0).any(axis=0))
    weight = np.zeros((several.size, n))
    for j in range(n):
        np.add.at(weight, (np.arange(several.size), same[j, several]), best.weights[j])
    value = np.array(points[0])
    if several.size == 0:
        return Split(np.zeros(points.shape[1], dtype=np.int32), {}, {}), value
    answers = np.ascontiguousarray(np.moveaxis(points[:, several], 0, 1))  # [k, n, width]
    few = _fewer(answers, weight, counts[several], best, rows) if reduced else weight
    main = np.zeros(points.shape[1], dtype=np.int32)
    main[several] = np.argmax(few, axis=1)
    value[several] = np.einsum("kn,knw->kw", few, answers)
    parts: dict[int, list[tuple[int, int]]] = {}
    mixes: dict[int, list[Mix]] = {}
    for k in np.flatnonzero((few > 0.0).sum(axis=1) > 1):
        member = int(several[k])
        parts[member], mixes[member], exact = _whole(few[k], round(counts[member]))
        value[member] = exact @ answers[k]
    return Split(main, parts, {m: mix for m, mix in mixes.items() if mix}), value


def _fewer(answers: Float, weight: Float, counts: Float, best: Optimum, rows: Rows) -> Float:
    """The weights [k, n] again, with at most R members that mix."""
    G = rows.matrix(answers.shape[2] - 1)
    use = counts[:, None, None] * (answers @ G.T)  # [k, n, R]
    gain = counts[:, None] * answers[:, :, 0]
    slack = np.maximum(rows.bound - G @ (best.weights @ best.points), 0.0)
    unit = np.abs(use).max(axis=(0, 1))
    unit = np.where(unit > 0.0, unit, np.maximum(np.abs(rows.bound), 1.0))
    slack[slack <= 1e-9 * np.abs(rows.bound) + 1e-12 * unit] = 0.0  # tight: it stays where it is
    few = weight.copy()
    kernels.fewer_mixtures(np.ascontiguousarray(gain), np.ascontiguousarray(use / unit), slack / unit, few)
    few /= few.sum(axis=1, keepdims=True)
    return few


def _whole(weights: Float, count: int) -> tuple[list[tuple[int, int]], list[Mix], Float]:
    """Of `count` units, how many play each column, which mix, and the weights that this comes to.

    What the whole numbers leave is filled up unit by unit.
    """
    numbers = weights * count
    near = np.rint(numbers)
    numbers = np.where(np.abs(numbers - near) <= 1e-12 * count, near, numbers)
    whole = np.floor(numbers)
    left = numbers - whole
    parts = [(int(j), int(whole[j])) for j in np.flatnonzero(whole)]
    mixes: list[Mix] = []
    units = count - int(whole.sum())
    if units <= 0:
        return parts, mixes, whole / whole.sum()
    left *= units / left.sum()
    j = 0
    for unit in range(units):
        room, columns, shares = 1.0, [], []
        while room > 0.0 and j < left.size:
            taken = min(room, left[j])
            if taken > 1e-15:
                columns.append(j)
                shares.append(taken)
            room -= taken
            left[j] -= taken
            if left[j] > 0.0:
                break
            j += 1
        total = math.fsum(shares)
        mixes.append(Mix(count - units + unit, tuple(columns), tuple(share / total for share in shares)))
    exact = whole / count
    for mix in mixes:
        for column, share in zip(mix.columns, mix.weights, strict=True):
            exact[column] += share / count
    return parts, mixes, exact


def _rounding(split: Split, rows: Rows, points: Float) -> Float:
    """[R]: what the units that mix may use more of a row than they are expected to, each settled on one policy."""
    G = rows.matrix(points.shape[2] - 1)
    more = np.zeros(rows.size)
    for member, mixes in split.mixes.items():
        for mix in mixes:
            use = points[list(mix.columns), member] @ G.T
            more += use.max(axis=0) - np.asarray(mix.weights) @ use
    return more
