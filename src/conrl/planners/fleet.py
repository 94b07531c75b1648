"""Plans of fleets: the best policies of many units within shared limits, nearly all of them deterministic.

Column generation (`column_generation.linear`) maximises over the Minkowski sum and ends with at most R + 1 columns, R
rows being limited. In each column every unit has an answer of its own, a deterministic policy; units whose answers are
all the same need no more than that one. The others may mix, each for itself: the program

    maximise  sum_n sum_j x_nj r_nj    subject to  sum_j x_nj = 1,  sum_n sum_j x_nj c_nj within the R rows

over their answers j has basic solutions in which at most R units mix in all. One that is no worse than the mixture
found is reached by moves that keep all rows (`kernels.fewer_mixtures`). It is valued anew from the units and checked
against every row; if rounding has spoiled it, the mixture stays as it was found. Of c units of one type, whole numbers
play each policy and what is left over mixes.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np

from conrl import kernels
from conrl._types import Float
from conrl.arguments import frozen
from conrl.errors import RunError, SpecError
from conrl.model.fleet import Fleet
from conrl.model.limits import Linear, resolve_limits
from conrl.oracles import SumOracle, exact_oracle
from conrl.planners.allowance import Allowance
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Conflict, Optimum
from conrl.planners.feasibility import infeasible
from conrl.planners.fleet_plan import FleetPlan, Mix, Split
from conrl.planners.result import Checked, certify, tolerance_of
from conrl.problem import Rows, as_problem


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
    largest = oracle.horizon * float(oracle.scale[0])
    least = best.objective - 0.1 * tolerance_of(tol, best.objective, largest)
    for reduced in (True, False):
        split, value = _assign(best, rows, points, counts, reduced)
        total = np.array([math.fsum(column) for column in (counts[:, None] * value).T])
        over = rows.matrix(oracle.num_costs) @ total - rows.bound
        if (over <= most).all() and total[0] >= least:
            break
    if not (over <= stated).all():
        raise RunError("the plan found breaks a limit by more than rounding; measure costs in units nearer to 1")
    tolerance = tolerance_of(tol, float(total[0]), largest)
    bound, closed = certify(best.bound, float(total[0]), tolerance, float(best.multipliers @ stated))
    status = "optimal" if closed else "iteration limit" if best.exhausted else "inaccurate"
    d, H = fleet.num_costs, fleet.horizon
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
        multipliers=frozen(best.multipliers),
        iterations=best.asked,
        limits=frozen(upper),
        floors=frozen(lower),
        rewards=frozen(by_type[:, 0]),
        shares=frozen(by_type[:, 1:]),
        step_costs={name: frozen(total[1:][part]) for name, part in named},
        rounding=_rounding(split, rows, points),
        checked=Checked(rows, total[1 + rows.cost], stated),
        oracle=oracle,
        directions=best.directions,
        columns=(best.weights, best.points),
        split=split,
    )


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
    with np.errstate(over="ignore"):  # a bound that is so far away does not bind
        room = slack / unit
    kernels.fewer_mixtures(np.ascontiguousarray(gain), np.ascontiguousarray(use / unit), room, few)
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
