"""The reference: the full linear program over occupation measures, solved by HiGHS.

    maximise    sum rho(h, s, a) r(s, a)
    subject to  sum rho(h, s, a) c_i(s, a) <= xi_i                                  for each limit
                sum_a rho(0, s, a) = initial(s)                                     for each s
                sum_a rho(h+1, s', a) = sum_{s,a} rho(h, s, a) p(s' | s, a)         for each s', h
                rho >= 0

Eq. 14, Appendix A.1 of Brantley et al. (2020), with the initial-state row that the printed program
omits; its rows sum rho = 1 and its bounds rho <= 1 follow from the others. It has H * P variables and H * S rows:
built from the transitions as they are, without the pruning that `conrl.kernels` does, so that it checks that too.

Without a horizon there is one measure x(s, a) and, by the criterion,

    Discounted(g)   sum_a x(s', a) - g sum p x = initial(s')
    Total()         sum_a x(s', a) + stop(s') - sum p x = initial(s'), with stop >= 0 in end components only
    Average()       sum_a x(s', a) = sum p x,  sum_a (x + y)(s', a) - sum p y = initial(s'),  y >= 0

(Altman 1999, Chapters 3, 8; Hordijk and Kallenberg 1984 for several recurrent classes, where the optimum need not be
stationary: then it is refused, as column generation answers with a mixture.)

The bound returned is the Lagrangian one (Eq. 2 of `column_generation/linear.py`) at the multipliers that HiGHS found.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import highspy
import numpy as np

from conrl._types import Arrays, Float
from conrl.arguments import read_choice, read_positive
from conrl.errors import InfeasibleError, RunError, SpecError, shown
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Average, Criterion, Discounted, Total
from conrl.model.reduction import Reachable, end_components
from conrl.oracles import ModelOracle, SupportOracle, WithNullAction, exact_oracle
from conrl.planners.allowance import Allowance
from conrl.planners.column_generation.planner import ColumnGeneration
from conrl.planners.feasibility import find_conflict, infeasible
from conrl.planners.result import Checked, Plan, certify, tolerance_of
from conrl.policy import Policy
from conrl.problem import Knapsack, Linear, Problem, Rows
from conrl.stationary_policy import Stationary
from conrl.wording import argument

LONGEST = 1e9  # seconds: a longer time limit is none
STATIONARY = 1e-7  # of the size of a total, by which HiGHS' measure and its policy may differ
METHODS = ("choose", "simplex", "ipm")

_GAVE_UP = (
    highspy.HighsModelStatus.kNotset,
    highspy.HighsModelStatus.kUnknown,
    highspy.HighsModelStatus.kSolveError,
)
_INFEASIBLE = (highspy.HighsModelStatus.kInfeasible, highspy.HighsModelStatus.kUnboundedOrInfeasible)


class _Solution(NamedTuple):
    """HiGHS' answer, evaluated."""

    policy: Policy
    skip: float
    played: Float  # [1+d]: the value vector of an episode that is not skipped
    value: Float  # [1+d]: of all episodes
    objective: float  # the reward in the best case
    used: Float  # [R]: the cost of each row in its best case
    sizes: Float  # [1+d]: what it is paid, signs left out
    multipliers: Float  # [R]
    iterations: int

    def over(self, rows: Rows) -> Float:
        """[R]: by how much each row is exceeded."""
        return rows.sign * self.used - rows.bound


@dataclass(frozen=True)
class LinearProgram:
    """Plan by HiGHS on the full program. `method`: "simplex", "ipm" or "choose"; `time_limit` in seconds."""

    method: str = "choose"
    tol: float = 1e-9
    time_limit: float = np.inf
    _report: Callable[[str], None] | None = field(default=None, init=False, repr=False, compare=False)
    name = "linear-program"
    problems = (Linear, Knapsack)

    def __post_init__(self) -> None:
        read_choice(self.method, "method", METHODS)
        if not (isinstance(self.time_limit, (int, float)) and self.time_limit >= 0.0):
            raise SpecError(f"time_limit is {shown(self.time_limit)}; it must be a number of seconds, or inf for none")
        read_positive(self.tol, "tol")

    def reporting(self, report: Callable[[str], None]) -> LinearProgram:
        """The same, which tells `report` how large a program is before it is solved."""
        other = replace(self)
        object.__setattr__(other, "_report", report)
        return other

    def plan(self, mdp: ConstrainedMDP, problem: Problem, start: Arrays | None = None, relax: bool = False) -> Plan:
        """The best policy within the limits; `relax` is as in `ColumnGeneration.plan`.

        A plan of the full program has no use for a `start`, and leaves none.
        """
        return or_least_violating(self._plan, mdp, problem, self.tol, relax)

    def _plan(self, mdp: ConstrainedMDP, problem: Problem) -> Plan:
        """The optimum of the program, checked against every row, with the bound that its multipliers prove.

        Rows that HiGHS exceeds by its own tolerance are tightened by twice that, and the program is solved again.
        """
        own, (mdp, rows) = mdp, problem.bind(mdp)
        null = isinstance(problem, Knapsack)
        oracle = exact_oracle(mdp)
        # With a bonus a limit and a floor on one cost each get their own best case: right only if floor <= limit.
        twofold = mdp.bonus is not None and np.unique(rows.cost).size < rows.size
        if twofold:
            _raise_conflict(oracle, rows)
        allowance = Allowance(oracle, rows)
        solution = self._within(oracle, rows, null, rows.bound, allowance.aim)
        over = solution.over(rows)
        if (over > allowance.computed).any() or (allowance.by_point and (over > 0.0).any()):
            tighter = rows.bound - 2.0 * np.maximum(over, 0.0)
            solution = self._within(oracle, rows, null, tighter, allowance.aim)
            over = solution.over(rows)
        if allowance.by_point:
            allowance = allowance.of(oracle.error_of(solution.sizes))
        if not (over <= allowance.computed).all():
            worst = int(np.argmax(over / allowance.computed))
            raise RunError(f"HiGHS' answer breaks {rows.names[worst]} by {over[worst]:.3g}; use column generation")
        multipliers = solution.multipliers
        reward = np.eye(1 + mdp.num_costs)[0]
        asked: SupportOracle = WithNullAction(oracle) if null else oracle
        tolerance = tolerance_of(self.tol, solution.objective, oracle.horizon * float(oracle.scale[0]))
        direction = reward - multipliers @ rows.matrix(mdp.num_costs)
        bound = asked.support(direction).value + float(multipliers @ rows.bound)
        bound += allowance.outward(reward, multipliers, tolerance)
        bound, proven = certify(bound, solution.objective, tolerance, float(multipliers @ allowance.stated))
        return Plan(
            mdp=mdp,
            problem=problem,
            status="optimal" if proven else "inaccurate",
            reward=float(solution.value[0]),
            costs=solution.value[1:],
            objective=solution.objective,
            bound=bound,
            multipliers=multipliers,
            iterations=solution.iterations,
            weights=np.ones(1),
            values=solution.played[None],
            make_policy=lambda i: solution.policy,
            skip=solution.skip,
            checked=Checked(rows, solution.used, allowance.stated),
        ).of(own)

    def _within(self, oracle: ModelOracle, rows: Rows, null: bool, bound: Float, aim: Float) -> _Solution:
        """HiGHS' answer for other bounds on the rows, evaluated; an error if there is none."""
        mdp = oracle.mdp
        highs, status = self._solve(mdp, rows.at(bound), null)
        if status in (*_INFEASIBLE, *_GAVE_UP):  # of what cannot be kept, it may not know that it cannot
            _raise_conflict(oracle, rows)
            # Limits that are tight to rounding: kept within the allowance, as every planner understands it.
            highs, status = self._solve(mdp, rows.at(rows.bound + aim), null)
        if status != highspy.HighsModelStatus.kOptimal:
            raise RunError(
                f"HiGHS ended as {highs.modelStatusToString(status)} on {_size_of(highs)}; raise "
                f"{argument('time_limit')} or use column generation"
            )
        solution = highs.getSolution()
        values = np.maximum(np.array(solution.col_value), 0.0)
        skip = min(float(values[-1]), 1.0) if null else 0.0
        policy = policy_of(mdp, values)
        occupied = np.zeros((1, mdp.num_pairs))
        policy.add_occupation(mdp, 1.0, occupied)
        if isinstance(mdp.horizon, (Average, Total)):
            _check_stationary(mdp, values[: mdp.num_pairs], occupied[0])
        played = occupied[0] @ mdp.pay
        occupied *= 1.0 - skip
        value = occupied[0] @ mdp.pay
        moved = np.zeros(1 + mdp.num_costs) if mdp.bonus is None else occupied[0] @ mdp.bonus
        used = value[1 + rows.cost] - rows.sign * moved[1 + rows.cost]
        multipliers = np.maximum(np.array(solution.row_dual)[: rows.size], 0.0) / _units(mdp, rows)
        info = highs.getInfo()
        steps = info.simplex_iteration_count + info.ipm_iteration_count + info.crossover_iteration_count
        sizes = occupied[0] @ np.abs(mdp.pay) + np.abs(moved)
        objective = float(value[0] + moved[0])
        return _Solution(policy, skip, played, value, objective, used, sizes, multipliers, int(steps))

    def _solve(self, mdp: ConstrainedMDP, rows: Rows, null: bool) -> tuple[highspy.Highs, highspy.HighsModelStatus]:
        highs = self.solver(mdp, rows, null)
        if self._report is not None:
            self._report(f"solving {_size_of(highs)}")
        highs.run()
        if highs.getModelStatus() in _GAVE_UP:
            # Probabilities near 0 can defeat its presolve and dual simplex; the primal one then succeeds.
            highs.clearSolver()
            for option, value in (("presolve", "off"), ("solver", "simplex"), ("simplex_strategy", 4)):
                highs.setOptionValue(option, value)
            highs.run()
        return highs, highs.getModelStatus()

    def solver(self, mdp: ConstrainedMDP, rows: Rows, null: bool = False) -> highspy.Highs:
        """HiGHS with the program passed to it, not yet run; benchmarks time its `run`."""
        highs = highspy.Highs()
        highs.setOptionValue("output_flag", False)
        highs.setOptionValue("solver", self.method)
        highs.setOptionValue("small_matrix_value", 1e-12)  # the least it takes; smaller probabilities are dropped
        highs.setOptionValue("primal_feasibility_tolerance", max(1e-10, 0.1 * self.tol))
        highs.setOptionValue("dual_feasibility_tolerance", max(1e-10, 0.1 * self.tol))
        highs.setOptionValue("ipm_optimality_tolerance", max(1e-12, 0.1 * self.tol))
        if self.time_limit <= LONGEST:
            highs.setOptionValue("time_limit", float(self.time_limit))
        highs.passModel(_program(mdp, rows, null))
        return highs


def _size_of(highs: highspy.Highs) -> str:
    columns, rows, entries = highs.getNumCol(), highs.getNumRow(), highs.getNumNz()
    return f"a linear program of {columns:,} columns, {rows:,} rows and {entries:,} entries"


def or_least_violating(
    solve: Callable[[ConstrainedMDP, Any], Plan], mdp: ConstrainedMDP, problem: Problem, tol: float, relax: bool
) -> Plan:
    """What `solve` plans or, where nothing keeps the limits and they may be relaxed, what exceeds them least.

    Which policies those are is a matter of units, so that all exact planners leave it to column generation.
    """
    try:
        return solve(mdp, problem)
    except InfeasibleError:
        if not relax:
            raise
    return replace(ColumnGeneration(tol).plan(mdp, problem, relax=True), start=None)


def _raise_conflict(oracle: ModelOracle, rows: Rows) -> None:
    """The error for rows that cannot be kept, if that can be proven."""
    if (conflict := find_conflict(oracle, rows)) is not None:
        raise infeasible(oracle, rows, conflict)


def _program(mdp: ConstrainedMDP, rows: Rows, null: bool) -> highspy.HighsLp:
    """The program as HiGHS reads it: first the rows of the limits, each in its unit, then those of the flow.

    One column for each rho(h, s, a) and, with the null action, one for the probability of skipping an episode: a
    measure of mass 1 - skip, whose mass at the start is missing there.
    """
    import scipy.sparse as sp

    steps, P = mdp.repeats, mdp.num_pairs
    flow, right = flow_rows(mdp)
    others = flow.shape[1] - steps * P  # columns that pay nothing
    reward, used = mdp.pay[:, 0], mdp.pay[:, 1 + rows.cost]  # [P], [P, R]
    if mdp.bonus is not None:  # the best case: r + b, c - b under a limit, c + b over a floor
        reward, used = reward + mdp.bonus[:, 0], used - rows.sign * mdp.bonus[:, 1 + rows.cost]
    unit = _units(mdp, rows)
    per_pair = np.tile((rows.sign * used / unit).T, (1, steps)).reshape(rows.size, steps * P)
    limits = sp.csr_array(np.hstack((per_pair, np.zeros((rows.size, others)))))
    matrix = sp.csc_array(sp.vstack((limits, flow)))
    gain = np.append(np.tile(reward, steps), np.zeros(others))
    if null:
        skip = np.concatenate((np.zeros(rows.size), right))[:, None]
        matrix, gain = sp.csc_array(sp.hstack((matrix, sp.csc_array(skip)))), np.append(gain, 0.0)
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = gain.size, rows.size + right.size
    lp.sense_ = highspy.ObjSense.kMaximize
    lp.col_cost_ = gain
    lp.col_lower_, lp.col_upper_ = np.zeros(gain.size), np.full(gain.size, highspy.kHighsInf)
    lp.row_lower_ = np.concatenate((np.full(rows.size, -highspy.kHighsInf), right))
    with np.errstate(over="ignore"):  # a limit of 1e300 on what costs 1e-9 is none
        lp.row_upper_ = np.concatenate((rows.bound / unit, right))
    lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
    lp.a_matrix_.start_ = matrix.indptr
    lp.a_matrix_.index_ = matrix.indices
    lp.a_matrix_.value_ = matrix.data
    return lp


def flow_rows(mdp: ConstrainedMDP) -> tuple[Any, Float]:
    """The rows that make rho [H * P] an occupation measure, and their right-hand side; rho [P] where each step has
    pairs of its own."""
    import scipy.sparse as sp

    if isinstance(mdp.horizon, Criterion):
        return _endless_rows(mdp)
    H, S, P = mdp.horizon, mdp.num_states, mdp.num_pairs
    g = mdp.graph
    right = np.concatenate((mdp.initial, np.zeros((H - 1) * S)))
    if mdp.step_dependent:
        node = mdp.pair_step * S + mdp.pair_state
        outcome = np.repeat(np.arange(P), np.diff(g.start))
        onward = mdp.pair_step[outcome] < H - 1
        to = (mdp.pair_step[outcome] + 1) * S + g.successor
        leave = sp.csr_array((np.ones(P), (node, np.arange(P))), shape=(H * S, P))
        arrive = sp.csr_array((g.probability[onward], (to[onward], outcome[onward])), shape=(H * S, P))
        return leave - arrive, right
    leave = sp.csr_array((np.ones(P), (mdp.pair_state, np.arange(P))), shape=(S, P))
    arrive = sp.csr_array((g.probability, g.successor, g.start), shape=(P, S)).T
    flow = sp.kron(sp.eye_array(H), leave) - sp.kron(sp.eye_array(H, k=-1), arrive)
    return flow, right


def _endless_rows(mdp: ConstrainedMDP) -> tuple[Any, Float]:
    """The rows that make x [P], and further columns, an occupation measure of a model without a horizon."""
    import scipy.sparse as sp

    S, P, g = mdp.num_states, mdp.num_pairs, mdp.graph
    leave = sp.csr_array((np.ones(P), (mdp.pair_state, np.arange(P))), shape=(S, P))
    arrive = sp.csr_array((g.probability, g.successor, g.start), shape=(P, S)).T
    sums = np.bincount(np.repeat(np.arange(P), np.diff(g.start)), weights=g.probability, minlength=P)
    arrive = arrive @ sp.diags_array(1.0 / sums)  # in proportion
    if isinstance(mdp.horizon, Discounted):
        return leave - mdp.horizon.discount * arrive, mdp.initial
    reached = np.zeros(S, dtype=bool)
    reached[Reachable.of(mdp).order] = True
    # What cannot be reached leads nowhere: its cycles would be free.
    flow = leave - arrive @ sp.diags_array(reached[mdp.pair_state].astype(np.float64))
    if isinstance(mdp.horizon, Average):
        return sp.block_array([[flow, None], [leave, flow]]), np.append(np.zeros(S), mdp.initial)
    stays = np.flatnonzero(_inside(mdp)[0])
    stop = sp.csr_array((np.ones(stays.size), (stays, np.arange(stays.size))), shape=(S, stays.size))
    return sp.hstack((flow, stop)), mdp.initial


def _inside(mdp: ConstrainedMDP) -> tuple[Any, Any]:
    """[S] and [P]: the states of end components that the start can reach, and the pairs that keep within them."""
    part = Reachable.of(mdp)
    components = end_components(part)
    states, pairs = np.zeros(mdp.num_states, dtype=bool), np.zeros(mdp.num_pairs, dtype=bool)
    states[part.order[components.of >= 0]] = True
    pairs[part.pairs[components.inside]] = True
    return states, pairs


def policy_of(mdp: ConstrainedMDP, values: Float) -> Policy:
    """The policy of the program's columns."""
    P = mdp.num_pairs
    if not isinstance(mdp.horizon, Criterion):
        return markov_policy(mdp, values[: mdp.repeats * P].reshape(mdp.repeats, P))
    x = values[:P]
    mass = np.bincount(mdp.pair_state, weights=x, minlength=mdp.num_states)[mdp.pair_state]
    first = np.zeros(P)
    first[mdp.graph.first[:-1]] = 1.0
    if isinstance(mdp.horizon, Average):  # where it does not stay, it passes through
        x = np.where(mass > 0.0, x, values[P : 2 * P])
    elif isinstance(mdp.horizon, Total):  # where it stays, it stays
        stays, inside = _inside(mdp)
        first = np.where(stays[mdp.pair_state], inside, first)
    mass = np.bincount(mdp.pair_state, weights=x, minlength=mdp.num_states)[mdp.pair_state]
    x = np.where(mass > 0.0, x, first)
    table = np.zeros((mdp.num_states, mdp.num_actions))
    table[mdp.pair_state, mdp.action] = x
    return Stationary(table / table.sum(axis=1, keepdims=True))


def _check_stationary(mdp: ConstrainedMDP, x: Float, played: Float) -> None:
    """Refuse a measure that no stationary policy has: what is played is not what the program planned."""
    planned, found = x @ mdp.pay, played @ mdp.pay
    size = np.maximum(x @ np.abs(mdp.pay), played @ np.abs(mdp.pay))
    if not (np.abs(planned - found) <= STATIONARY * size).all():
        raise RunError("the optimum of the full program is no stationary policy; use column generation, which mixes")


def _units(mdp: ConstrainedMDP, rows: Rows) -> Float:
    """[R]: the largest one-step cost of each row, by which it is divided: HiGHS drops small coefficients."""
    largest = np.abs(mdp.pay[:, 1 + rows.cost]).max(axis=0, initial=0.0)
    return np.where(largest > 0.0, largest, 1.0)


def markov_policy(mdp: ConstrainedMDP, rho: Float) -> Policy:
    """The policy of an occupation measure [repeats, P]; the first action where it is zero."""
    table = mdp.step_table(rho)
    mass = table.sum(axis=2, keepdims=True)
    default = np.zeros(mdp.playable.shape)
    np.put_along_axis(default, np.argmax(mdp.playable, axis=2, keepdims=True), 1.0, axis=2)
    with np.errstate(invalid="ignore", divide="ignore"):
        return Policy(np.where(mass > 0.0, table / mass, default))
