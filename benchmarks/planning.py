"""Planning speeds, side by side in one process, as ratios. `make bench`, or `python benchmarks/planning.py --help`.

Planning is timed from a model that has never been planned (no reachability or layout kept from an earlier call) to
the Markov policy. HiGHS is timed from a program already passed to it, at its default tolerances, by the better of its
simplex and its interior point method (with crossover: without, it ends short of optimal on these programs). Ours is
the best of several runs, HiGHS' the best of one or more as time allows. Compilation is apart: every kernel is called
once before.
"""

from __future__ import annotations

import argparse
import platform
import resource
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

import conrl
from conrl import kernels
from conrl.envs import box, mars_rover, random_cmdp
from conrl.oracles import BackwardInduction
from conrl.planners import ColumnGeneration, LinearProgram
from conrl.planners.column_generation.cones import Cones
from conrl.planners.column_generation.convex import maximise_convex
from conrl.planners.column_generation.search import Optimum
from conrl.planners.convex_program import full_program

Float = NDArray[np.float64]


def best(work: Callable[[], Any], repeat: int) -> float:
    """Seconds of the quickest of several runs."""
    times = []
    for _ in range(repeat):
        begin = time.perf_counter()
        work()
        times.append(time.perf_counter() - begin)
    return min(times)


def table(header: list[str], rows: list[list[str]]) -> None:
    print("| " + " | ".join(header) + " |")
    print("|" + " --- |" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |", flush=True)
    print(flush=True)


def seconds(t: float) -> str:
    return f"{t * 1e3:.2f} ms" if t < 1.0 else f"{t:.2f} s"


# -- exact plans against HiGHS ----------------------------------------------------------------------------


def plans(time_limit: float) -> None:
    """Rows 1 to 4 of the table of speeds in docs/architecture.md."""
    cases = [
        ("Mars rover (rock_reward=1)", mars_rover(rock_reward=1.0), 1e-9, 150),
        ("Box", box(), 1e-9, 150),
        ("random sparse, S=1000, d=3", random_cmdp(1000, 4, 5, 3, seed=0), 1e-9, 1000),
        ("local (band 2), S=1000, d=3", random_cmdp(1000, 4, 5, 3, seed=0, band=2), 1e-9, 150),
        ("random sparse, S=300, d=10", random_cmdp(300, 4, 5, 10, seed=0), 1e-9, 300),
    ]
    rows = []
    for name, mdp, tol, goal in cases:
        planner = ColumnGeneration(tol=tol)

        def plan(mdp: conrl.ConstrainedMDP = mdp, planner: ColumnGeneration = planner) -> conrl.Plan:
            fresh = mdp.replace(horizon=mdp.horizon)  # forgets what was derived for an earlier plan
            result = conrl.plan(fresh, planner=planner)
            _ = result.policy
            return result

        found = plan()
        ours = best(plan, 20)
        reference, method, value = highs(mdp, time_limit)
        more = ">" if method == "unfinished" else ""
        agree = "-" if value is None else f"{abs(value - found.objective):.0e}"
        rows.append(
            [
                name,
                f"{found.iterations}",
                f"{found.gap:.0e}",
                seconds(ours),
                f"{more}{seconds(reference)} ({method})",
                agree,
                f"**{more}{reference / ours:,.0f}x**",
                f"{goal}x",
            ]
        )
    table(["model", "directions", "gap", "conrl", "HiGHS, full LP", "difference in value", "ratio", "goal"], rows)


def convex_plans() -> None:
    """The concave-convex row: f and g compiled before, on both sides."""
    import cvxpy as cp

    rover = mars_rover(rock_reward=1.0)
    questions = [
        ("sqrt(0.1 + r), c^2 <= 0.04", lambda r: cp.sqrt(0.1 + r), lambda c: cp.square(c[0]) - 0.04),
        ("sqrt(r), |c - 0.2| <= 0.05", lambda r: cp.sqrt(r), lambda c: cp.norm(c - 0.2) - 0.05),
        ("-(r - 1.6)^2, c <= 0.3", lambda r: -cp.square(r - 1.6), lambda c: c[0] - 0.3),
        ("log(0.1 + r), c^2 <= 0.04", lambda r: cp.log(0.1 + r), lambda c: cp.square(c[0]) - 0.04),
    ]
    rows = []
    for name, f, g in questions:
        problem = conrl.ConcaveConvex(f, g)
        cones = Cones(f, (g,), *BackwardInduction(rover).box)

        def plan(cones: Cones = cones) -> Optimum:
            fresh = rover.replace(horizon=rover.horizon)
            return maximise_convex(BackwardInduction(fresh), cones, tol=1e-7, max_sweeps=1000)

        found = plan()
        ours = best(plan, 20)
        program = full_program(rover, problem)[0]
        try:
            program.solve(solver=cp.CLARABEL)
            reference = best(lambda program=program: program.solve(solver=cp.CLARABEL), 3)  # type: ignore[misc]
            against, agree = seconds(reference), f"{abs(program.value - found.objective):.0e}"
            ratio = f"**{reference / ours:,.0f}x**"
        except cp.error.SolverError:
            against, agree, ratio = "no progress", "-", "-"
        gap = f"{found.bound - found.objective:.0e}"
        rows.append([name, f"{found.asked}", gap, seconds(ours), against, agree, ratio, "150x"])
    header = ["Mars rover: f, g", "directions", "gap", "conrl", "CVXPY + Clarabel, full program", "difference in value"]
    table([*header, "ratio", "goal"], rows)


def highs(mdp: conrl.ConstrainedMDP, time_limit: float) -> tuple[float, str, float | None]:
    """Seconds of the quicker method, its name, and the value it found."""
    rows = conrl.Linear(mdp.limits).rows(mdp)
    found: list[tuple[float, str, float | None]] = []
    for method in ("simplex", "ipm"):
        for _ in range(3):
            solver = LinearProgram(method, tol=1e-6, time_limit=time_limit).solver(mdp, rows)
            begin = time.perf_counter()
            solver.run()
            taken = time.perf_counter() - begin
            optimal = solver.modelStatusToString(solver.getModelStatus()) == "Optimal"
            value = float(solver.getInfo().objective_function_value)
            found.append((taken, method, value) if optimal else (taken, "unfinished", None))
            if taken > 5.0:
                break
    finished = [f for f in found if f[1] != "unfinished"]
    return min(finished) if finished else max(found)


# -- one backward induction -------------------------------------------------------------------------------


def sweeps() -> None:
    """Against QuantEcon, against the machine, and against the number of transitions; random and local models."""
    for kind, band in (("random", None), ("local (band 2)", 2)):
        rows: list[list[str]] = []
        work: list[float] = []
        times: list[float] = []
        for size in (1_000, 3_000, 10_000, 30_000, 100_000):
            mdp = random_cmdp(size, 4, 5, 3, seed=0, band=band)
            if band:  # from everywhere: else only the neighbourhood of the start would be swept
                mdp = mdp.replace(initial=np.full(size, 1.0 / size))
            rows.append([f"{size:,}", *sweep(mdp, max(3, 200_000 // size), work, times)])
        header = [f"S, {kind}", "backward induction", "QuantEcon", "ratio (goal 2x)"]
        shares = ["of the machine's limit, in line (goal 50%)", "and at these addresses"]
        table([*header, *shares, "oracle call", "per reachable transition"], rows)
        slope = float(np.polyfit(np.log(work), np.log(times), 1)[0])
        print(f"Oracle call against reachable transitions, slope on log-log: **{slope:.2f}** (goal 1.0 +- 0.1).\n")


def sweep(mdp: conrl.ConstrainedMDP, repeat: int, work: list[float], times: list[float]) -> list[str]:
    oracle = BackwardInduction(mdp)
    w = np.array([1.0, -0.2, -0.1, -0.3])
    scratch = oracle._scratch()
    kernel = best(lambda: oracle._sweep(w, scratch), repeat)
    call = best(lambda: oracle.support(w), repeat)
    reference = quantecon(mdp, w, max(3, repeat // 10))
    in_line, in_place = machine_limits(oracle, repeat)
    reach = mdp.reach
    transitions = float((reach.hi - reach.lo).sum()) * kernels.LANES * reach.graph.probability.size / reach.order.size
    work.append(transitions)
    times.append(call)
    return [
        seconds(kernel),
        seconds(reference),
        f"**{reference / kernel:.1f}x**",
        f"{in_line / kernel:.0%}",
        f"{in_place / kernel:.0%}",
        seconds(call),
        f"{call / transitions * 1e9:.2f} ns",
    ]


def quantecon(mdp: conrl.ConstrainedMDP, w: Float, repeat: int) -> float:
    """QuantEcon's backward induction, sparse, on the same scalar reward."""
    from quantecon.markov import DiscreteDP, backward_induction

    problem = DiscreteDP(mdp.pay @ w, mdp.transitions, 1.0 - 1e-12, mdp.pair_state, mdp.action)
    ours = BackwardInduction(mdp).support(w).value
    values, _ = backward_induction(problem, mdp.horizon)
    theirs = float(values[0] @ mdp.initial)
    if abs(ours - theirs) > 1e-6:
        raise SystemExit(f"QuantEcon finds {theirs}, conrl {ours}")
    return best(lambda: backward_induction(problem, mdp.horizon), repeat)


@kernels.compiled
def _in_line(probability: Any, successor: Any, V: Any, steps: int) -> float:
    """Reads as many bytes as a sweep and multiplies as often, all of it in line: no indirection, no choice."""
    total, sign = 0.0, np.uint32(0)
    mask = np.uint64(V.shape[0] - 1)
    for _ in range(steps):
        q = kernels.every(0.0)
        for line in range(np.uint64(probability.shape[0])):
            q = kernels.add(q, kernels.row(probability, line), kernels.row(V, line & mask))
            t = kernels.row(successor, line)
            sign ^= t[0] ^ t[1] ^ t[2] ^ t[3] ^ t[4] ^ t[5] ^ t[6] ^ t[7]
        total += q[0] + q[1] + q[2] + q[3] + q[4] + q[5] + q[6] + q[7]
    return total + sign


@kernels.compiled
def _in_place(probability: Any, successor: Any, V: Any, steps: int) -> float:
    """The same, with V read where the model says: what these addresses cost, still without a choice."""
    total = 0.0
    for _ in range(steps):
        q = kernels.every(0.0)
        for line in range(np.uint64(probability.shape[0])):
            values = kernels.gather(V, kernels.row(successor, line))
            q = kernels.add(q, kernels.row(probability, line), values)
        total += q[0] + q[1] + q[2] + q[3] + q[4] + q[5] + q[6] + q[7]
    return total


def machine_limits(oracle: BackwardInduction, repeat: int) -> tuple[float, float]:
    """Seconds that reading and multiplying alone take here: in line, and at the model's addresses."""
    V = oracle._scratch().values[0]
    some = V[: 1 << int(np.log2(V.shape[0]))]  # a power of two: the remainder is then a mask
    lines, steps = (oracle._lines[3], oracle._lines[2]), oracle.mdp.horizon - 1
    _in_line(*lines, some, steps)
    _in_place(*lines, V.reshape(-1), steps)
    return (
        best(lambda: _in_line(*lines, some, steps), repeat),
        best(lambda: _in_place(*lines, V.reshape(-1), steps), repeat),
    )


# -- scale ------------------------------------------------------------------------------------------------


REWARD = 25.0  # of these models, about: a gap of 1e-6 is this much smaller in relation


def scale(largest: int) -> None:
    conrl.plan(random_cmdp(100, 4, 5, 3, seed=0)).policy.occupation(random_cmdp(100, 4, 5, 3, seed=0))  # compiles
    rows, sizes, times = [], [], []
    for size in [s for s in (1_000, 10_000, 100_000) if s <= largest]:
        mdp = random_cmdp(size, 4, 5, 3, seed=0)
        begin = time.perf_counter()
        plan = conrl.plan(mdp, tol=1e-6 / REWARD)
        taken = time.perf_counter() - begin
        begin = time.perf_counter()
        value = conrl.evaluate(mdp, plan.policy)
        policy = time.perf_counter() - begin
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        excess = float((value.costs - mdp.limits).max()) if mdp.limits is not None else 0.0
        sizes.append(size)
        times.append(taken)
        rows.append(
            [
                f"{size:,}",
                f"{plan.iterations}",
                f"{plan.gap:.0e}",
                seconds(taken),
                seconds(policy),
                f"{excess:.0e}",
                f"{memory:.2f} GiB",
            ]
        )
    header = ["S (A=4, 5 successors, H=30, d=3)", "directions", "gap", "plan", "policy and its evaluation"]
    table([*header, "largest excess over a limit", "peak memory of the process"], rows)
    if len(sizes) > 1:
        slope = float(np.polyfit(np.log(sizes), np.log(times), 1)[0])
        print(f"Time against S, slope on log-log: **{slope:.2f}**.\n", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--time-limit", type=float, default=100.0, help="seconds for HiGHS, each method")
    parser.add_argument("--largest", type=int, default=100_000, help="states of the largest plan")
    parser.add_argument("--only", choices=["plans", "convex", "sweeps", "scale"], help="one part only")
    arguments = parser.parse_args()
    print(
        f"conrl {conrl.__version__}, Python {sys.version.split()[0]}, {platform.machine()}, one thread.\n", flush=True
    )
    if arguments.only in (None, "scale"):
        scale(arguments.largest)  # first: the peak of memory is then its own
    if arguments.only in (None, "plans"):
        plans(arguments.time_limit)
    if arguments.only in (None, "convex"):
        convex_plans()
    if arguments.only in (None, "sweeps"):
        sweeps()


if __name__ == "__main__":
    main()
