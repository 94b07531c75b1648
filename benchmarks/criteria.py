"""Models without a horizon: plans against HiGHS, and one direction against QuantEcon. `--help` lists the options.

Plans are timed from a model that has never been planned to the stationary policy; HiGHS' `run` alone, from the
occupation-measure program passed to it before, at its default tolerances, by each of its methods for at most
`--time-limit` seconds. One direction is `support(w)` of the oracle: the best policy, its value vector and a proven
bound, against `DiscreteDP.solve` of QuantEcon for the same scalar reward by modified policy iteration, its quickest
method, at its default accuracy (epsilon = 1e-3) and at 1e-9. The best of several runs each, in one process.
"""

from __future__ import annotations

import argparse
from functools import partial

import numpy as np
from planning import best, seconds, table

import conrl
from conrl.envs import random_cmdp
from conrl.oracles import exact_oracle
from conrl.planners import LinearProgram


def model(states: int, discount: float, band: int | None = None) -> conrl.ConstrainedMDP:
    """A random sparse model, 4 actions, 5 successors, 3 costs, with limits that bind."""
    mdp = random_cmdp(states, 4, 5, 3, seed=0, band=band)
    assert mdp.limits is not None
    if band:  # from everywhere: else only the neighborhood of the start matters
        mdp = mdp.replace(initial=np.full(states, 1.0 / states))
    return mdp.replace(horizon=conrl.Discounted(discount), limits=mdp.limits / (mdp.horizon * (1.0 - discount)))


def plans(states: int, time_limit: float) -> None:
    rows = []
    for name, band in (("random sparse", None), ("local (band 2)", 2)):
        mdp = model(states, 0.99, band)

        def plan(mdp: conrl.ConstrainedMDP = mdp) -> conrl.Plan:
            found = conrl.plan(mdp.replace(horizon=mdp.horizon))
            _ = found.policy
            return found

        found = plan()
        ours = best(plan, 5)
        _, limits = conrl.Linear(mdp.limits).bind(mdp)
        reference, method, value = time_limit, "unfinished", None
        for tried in ("ipm", "simplex"):
            solver = LinearProgram(method=tried, time_limit=time_limit).solver(mdp, limits)
            taken = best(solver.run, 1)
            if solver.modelStatusToString(solver.getModelStatus()) == "Optimal" and (
                value is None or taken < reference
            ):
                reference, method, value = taken, tried, solver.getInfo().objective_function_value
        more = ">" if value is None else ""
        agree = "-" if value is None else f"{abs(value - found.objective):.0e}"
        ratio = f"**{more}{reference / ours:,.0f}x**"
        rows.append(
            [f"{name}, S={states:,}, d=3", f"{found.iterations}", f"{found.gap:.0e}", seconds(ours),
             f"{more}{seconds(reference)} ({method})", agree, ratio, "20x"]
        )  # fmt: skip
    table(["discount 0.99", "directions", "gap", "conrl", "HiGHS, full LP", "difference", "ratio", "goal"], rows)


def directions(sizes: list[int]) -> None:
    from quantecon.markov import DiscreteDP

    w = np.array([1.0, -0.5, -0.5, -0.5])
    rows = []
    for name, band in (("random", None), ("local (band 2)", 2)):
        for states in sizes:
            for discount in (0.95, 0.99, 0.999):
                mdp = model(states, discount, band)
                oracle = exact_oracle(mdp)
                problem = DiscreteDP(mdp.pay @ w, mdp.transitions, discount, mdp.pair_state, mdp.action)
                answer = oracle.support(w)

                def theirs(epsilon: float, problem: DiscreteDP = problem) -> float:
                    solve = partial(problem.solve, "modified_policy_iteration", epsilon=epsilon, max_iter=10**6)
                    solve()
                    return best(solve, 5)

                ours, rough, fine = best(partial(oracle.support, w), 10), theirs(1e-3), theirs(1e-9)
                gap = answer.value - w @ answer.point
                rows.append(
                    [f"{name}, S={states:,}, discount {discount}", seconds(ours), f"{gap / abs(answer.value):.0e}",
                     seconds(rough), f"**{ours / rough:.2f}**", seconds(fine), f"{ours / fine:.2f}"]
                )  # fmt: skip
    header = ["one direction", "conrl", "proven to", "QuantEcon, 1e-3", "ratio (goal 2)", "QuantEcon, 1e-9", "ratio"]
    table(header, rows)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=("plans", "directions"))
    parser.add_argument("--states", type=int, default=10_000)
    parser.add_argument("--time-limit", type=float, default=60.0)
    given = parser.parse_args()
    if given.only != "plans":
        directions([1_000, given.states])
    if given.only != "directions":
        plans(given.states, given.time_limit)


if __name__ == "__main__":
    main()
