"""One deterministic policy: the best that branch and bound finds in the time given, and a bound on all others.

A mixture draws its policy by lot, and its Markov form draws actions; a clinic or a regulator may refuse either. Here a
policy has one action for each step and state. The best mixture is an upper bound on it (`tree.py`).
"""

from __future__ import annotations

import numpy as np

from conrl.arguments import frozen, read_positive
from conrl.errors import InfeasibleError, RunError, SpecError
from conrl.model import ConstrainedMDP
from conrl.model.criteria import need_steps
from conrl.model.transform import with_own_steps
from conrl.oracles import BackwardInduction, LargeBackwardInduction, exact_oracle
from conrl.oracles.restricted import Whole
from conrl.planners.column_generation.search import Conflict
from conrl.planners.deterministic.tree import Clock, Report, Tree
from conrl.planners.feasibility import Feasibility, extremes, infeasible
from conrl.planners.result import Checked, Plan
from conrl.policy import Deterministic
from conrl.problem import Linear, Problem
from conrl.wording import argument

TIME_LIMIT = 60.0  # seconds
TOL = 1e-9
MOST_NAMED = 4  # rows in a message


def plan_deterministic(
    mdp: ConstrainedMDP,
    problem: Problem,
    tol: float | None = None,
    time_limit: float | None = None,
    report: Report | None = None,
) -> Plan:
    """The best deterministic policy found; `report` is called with objective, bound and seconds now and then."""
    clock = Clock(TIME_LIMIT if time_limit is None else read_positive(time_limit, "time_limit"))
    tol = TOL if tol is None else read_positive(tol, "tol")
    own = argument("deterministic", "True")
    if not isinstance(problem, Linear):
        raise SpecError(f"{own} takes limits and floors, not {type(problem).__name__} problems", key=("deterministic",))
    if problem.on_episodes:
        raise SpecError(
            f"{own} takes limits on expectations, not on single episodes (never, chance, cvar)",
            key=("deterministic",),
        )
    need_steps(mdp.horizon, own)
    model, rows = problem.bind(mdp)
    exact = exact_oracle(model)
    if not isinstance(exact, (BackwardInduction, LargeBackwardInduction)) or model.bonus is not None:
        raise SpecError(f"{own} takes models without a bonus and with known probabilities", key=("deterministic",))
    tree = Tree(Whole(with_own_steps(model)._copy(_visits=None, origin=None)), rows, tol, clock)
    try:
        mixture = tree.run(report)
    except Conflict as conflict:
        raise infeasible(exact, rows, conflict) from None
    best, bound = tree.local.best, tree.bound
    if best is None and bound > -np.inf:
        raise RunError(
            f"no deterministic policy within the limits was found in {clock.seconds:g} seconds, nor proven impossible "
            f"(mixtures reach a reward of {mixture.objective:.6g}); raise {argument('time_limit')}, or loosen a limit"
        )
    if best is None:
        asked = " and ".join(rows.names) if rows.size <= MOST_NAMED else f"all {rows.size} limits and floors"
        raise InfeasibleError(
            f"infeasible: no deterministic policy keeps {asked}, though a mixture does; "
            "plan without deterministic, or loosen a limit",
            Feasibility(False, *extremes(exact), None, rows.names),
        )
    # Where nobody can come, what is best at the prices: an estimate may err on what can be reached.
    elsewhere = exact.policy(tree.reward - mixture.multipliers @ tree.G)
    actions = tree.local.actions_of(best.choice, elsewhere)
    policy = Deterministic._trusted_actions(actions, model.num_actions)
    visits = np.zeros((1, model.num_pairs))
    policy.add_occupation(model, 1.0, visits)
    value = visits[0] @ model.pay
    stated = tree.allowance.stated
    if not (rows.sign * value[1 + rows.cost] - rows.bound <= stated).all():
        raise RunError("the policy found breaks a limit by more than rounding; measure costs in units nearer to 1")
    bound = max(bound, float(value[0]))
    status = "optimal" if tree.is_closed else "time limit" if tree.is_open else "inaccurate"
    return Plan(
        mdp=model,
        problem=problem,
        status=status,
        reward=float(value[0]),
        costs=frozen(value[1:]),
        objective=float(value[0]),
        bound=bound,
        multipliers=mixture.multipliers,
        iterations=tree.asked,
        weights=np.ones(1),
        values=value[None],
        make_policy=lambda i: policy,
        checked=Checked(rows, value[1 + rows.cost], stated),
        deterministic=True,
    ).of(mdp)
