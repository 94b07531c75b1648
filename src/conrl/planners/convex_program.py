"""The reference for the concave-convex setting: the full program over occupation measures, by CVXPY and Clarabel.

    maximise    f(y_0)
    subject to  g_j(y_1, ..., y_d) <= 0
                | y_i - sum rho(h, s, a) m_i(s, a) | <= sum rho(h, s, a) b_i(s, a)        for each coordinate i
                the flow rows of `conrl.planners.linear_program`, rho >= 0

The program of Appendix A.2 of Brantley et al. (2020), with the initial-state row that it omits; the inner maximum over
rewards and minimum over costs within their intervals is the slack of y, zero without a bonus. The bound is Eq. 2 of
`conrl.planners.column_generation.convex` at the multipliers that Clarabel found.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from conrl._types import Arrays, Float
from conrl.arguments import read_positive
from conrl.errors import RunError
from conrl.evaluation import evaluate
from conrl.model import ConstrainedMDP
from conrl.model.criteria import need_steps
from conrl.oracles import ModelOracle, exact_oracle
from conrl.planners.column_generation.cones import FURTHER, Cones
from conrl.planners.column_generation.convex import lagrangian_bound
from conrl.planners.column_generation.expressions import Expressions, expressions, import_cvxpy
from conrl.planners.column_generation.functions import CVXPY, room
from conrl.planners.feasibility import find_separation, separated
from conrl.planners.linear_program import flow_rows, markov_policy, or_least_violating
from conrl.planners.result import Plan, certify
from conrl.policy import Policy
from conrl.problem import ConcaveConvex, Problem

CLARABEL_EXCESS, OF_BOX = 1e-6, 1e-8  # of what it compares, and of the box: what Clarabel may exceed a constraint by


class Solved(NamedTuple):
    """What Clarabel found."""

    policy: Policy
    value: Float  # [1+d], of the policy
    moved: Float  # [1+d], within the bonus of it
    w: Float  # [1+d]: the multiplier of the rows that tie y to the measure
    mu: Float  # [J]: of the constraints
    iterations: int


@dataclass(frozen=True)
class ConvexProgram:
    """Plan by CVXPY and Clarabel on the full program; for small models and as a check."""

    tol: float = 1e-6
    name = "convex-program"
    problems = (ConcaveConvex,)

    def __post_init__(self) -> None:
        read_positive(self.tol, "tol")

    def plan(self, mdp: ConstrainedMDP, problem: Problem, start: Arrays | None = None, relax: bool = False) -> Plan:
        """The best policy within the constraints; `relax` is as in `ColumnGeneration.plan`.

        A plan of the full program has no use for a `start`, and leaves none.
        """
        with CVXPY:
            return or_least_violating(self._plan, mdp, problem, self.tol, relax)

    def _plan(self, mdp: ConstrainedMDP, problem: ConcaveConvex) -> Plan:
        """The optimum of the program: its policy evaluated, its constraints checked, Eq. 2 at its multipliers as bound.

        w is the multiplier of the rows that tie y to the measure (with a bonus two a coordinate, one for each side).
        Any w gives a bound; which sign CVXPY gives the multiplier of an equation is not documented, so both are tried.
        """
        need_steps(mdp.horizon, "the planner 'convex-program'")
        oracle = exact_oracle(mdp)
        cones = Cones(Expressions(problem.objective, problem.constraints, *oracle.box))
        further = 0.0
        for _ in range(FURTHER):
            found = self._solve(mdp, problem, oracle, cones, further)
            if cones.inside(found.moved) or not np.isfinite(further := cones.further(found.moved, further)):
                break
        policy, value, moved = found.policy, found.value, found.moved
        objective, constraints = cones.value(moved)
        if not np.isfinite(objective):
            raise self._unsolved(oracle, problem, cones, "the objective is not finite")
        allowed = cones.allowance(moved, oracle.rounding().point, CLARABEL_EXCESS, OF_BOX)
        if not (constraints <= allowed).all():
            raise self._unsolved(oracle, problem, cones, f"a constraint is exceeded by {constraints.max():.3g}")
        w, mu = found.w, found.mu
        bound = min(lagrangian_bound(oracle, cones, sign * w, mu) for sign in (1.0, -1.0))
        bound, proven = certify(bound, objective, self.tol * max(1.0, abs(objective)), float(mu @ allowed))
        if bound < objective:
            bound = np.inf  # Clarabel's bound was none: nothing is proven
        return Plan(
            mdp=mdp,
            problem=problem,
            status="optimal" if proven else "inaccurate",
            reward=float(value[0]),
            costs=value[1:],
            objective=objective,
            bound=bound,
            multipliers=mu,
            iterations=found.iterations,
            weights=np.ones(1),
            values=value[None],
            make_policy=lambda i: policy,
        )

    def _solve(
        self, mdp: ConstrainedMDP, problem: ConcaveConvex, oracle: ModelOracle, cones: Cones, further: float
    ) -> Solved:
        """The program solved, so far inside the domain of its functions."""
        cp = import_cvxpy()
        program, rho, y, link, limits = full_program(mdp, problem, further)
        try:
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore", UserWarning)  # "may be inaccurate": the gap says how much
                program.solve(solver=cp.CLARABEL)
        except cp.error.SolverError as error:  # seen with exponential cones (log, exp) from some 1,000 variables on
            raise self._unsolved(oracle, problem, cones, str(error)) from None
        if program.status not in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE):
            raise self._unsolved(oracle, problem, cones, program.status)
        measure = np.maximum(np.asarray(rho.value), 0.0).reshape(mdp.repeats, mdp.num_pairs)
        policy = markov_policy(mdp, measure)
        value = evaluate(mdp, policy).value
        tied = [np.asarray(row.dual_value, dtype=np.float64) for row in link]
        return Solved(
            policy,
            value,
            moved=np.asarray(y.value) if mdp.bonus is not None else value,
            w=tied[0] if len(tied) == 1 else tied[0] - tied[1],
            mu=np.array([max(float(np.asarray(g.dual_value).item()), 0.0) for g in limits]),
            iterations=int(program.solver_stats.num_iters or 0),
        )

    def _unsolved(self, oracle: ModelOracle, problem: ConcaveConvex, cones: Cones, why: str) -> Exception:
        """Infeasible, if that can be proven, else no answer."""
        if (apart := find_separation(oracle, cones)) is not None:
            return separated(oracle, problem, apart)
        return RunError(f"Clarabel found no solution of the full program ({why}); use column generation")


def full_program(
    mdp: ConstrainedMDP, problem: ConcaveConvex, further: float = 0.0
) -> tuple[Any, Any, Any, Any, list[Any]]:
    """The CVXPY problem, its rho [H * P] and y [1+d], the rows that tie them, and the constraints' rows.

    y is so far inside the domain of the functions.
    """
    cp = import_cvxpy()
    flow, right = flow_rows(mdp)
    steps, d = mdp.repeats, mdp.num_costs
    rho = cp.Variable(steps * mdp.num_pairs, nonneg=True)
    y = cp.Variable(1 + d)
    mean = np.tile(mdp.pay, (steps, 1)).T @ rho
    objective, constraints = expressions(problem.objective, problem.constraints, y)
    if mdp.bonus is None:
        tie = [y == mean]
    else:
        slack = np.tile(mdp.bonus, (steps, 1)).T @ rho
        tie = [y - mean <= slack, mean - y <= slack]
    limits = [g <= 0.0 for g in constraints]
    inside = [r >= further for r in map(room, (objective, *constraints)) if r is not None and further > 0.0]
    return cp.Problem(cp.Maximize(objective), [flow @ rho == right, *tie, *limits, *inside]), rho, y, tie, limits
