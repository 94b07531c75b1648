"""Planning speeds, side by side in one run, as ratios. `make bench`, or `python benchmarks/planning.py --help`.

Planning is timed from a model that has never been planned (no reachability or layout kept from an earlier call) to
the Markov policy. HiGHS is timed from a program already passed to it, at its default tolerances, by the better of its
simplex and its interior point method (with crossover: without, it ends short of optimal on these programs), in a
process of its own that can be ended. Ours is the best of several runs, HiGHS' the best of one or more as time allows.
Compilation is apart: every kernel is called once before.
"""

from __future__ import annotations

import argparse
import multiprocessing
import platform
import resource
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import conrl
from conrl import kernels
from conrl.envs import box, mars_rover, random_cmdp
from conrl.oracles import BackwardInduction
from conrl.planners import ColumnGeneration, LinearProgram
from conrl.planners.column_generation.cones import Cones
from conrl.planners.column_generation.convex import maximise_convex
from conrl.planners.column_generation.expressions import Expressions
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


class Case(NamedTuple):
    """A model to plan, to a tolerance; the ratio to reach, or the seconds not to exceed."""

    name: str
    mdp: conrl.ConstrainedMDP
    tol: float
    goal: str
    repeat: int = 20
    patience: float = 60.0  # seconds for HiGHS, each method, unless others are given


def plans(time_limit: float | None, slow: bool) -> None:
    """Models of the table of speeds in docs/architecture.md; HiGHS does not finish the `slow` ones."""
    cases = [
        Case("Mars rover (rock_reward=1)", mars_rover(rock_reward=1.0), 1e-9, "800x", 100),
        Case("Box", box(), 1e-9, "800x", 100),
        Case("local (band 2), S=1000, d=3", random_cmdp(1000, 4, 5, 3, seed=0, band=2), 1e-9, "150x"),
        Case("random sparse, S=300, d=10", random_cmdp(300, 4, 5, 10, seed=0), 1e-9, "300x", 20, 30.0),
    ]
    if slow:
        cases.append(Case("random sparse, S=1000, d=3", random_cmdp(1000, 4, 5, 3, seed=0), 1e-9, "1000x"))
    compare(cases, time_limit)


def dense_plans(time_limit: float | None) -> None:
    """A model with many successors, whose full program has 3.6 million columns and 180 million entries."""
    mdp = random_cmdp(716, 25, 50, 2, seed=0, horizon=200)
    name = "S=716, A=25, 50 successors, H=200, d=2, tol "
    compare([Case(f"{name}{tol:.0e}", mdp, tol, "3 s", 3) for tol in (1e-6, 1e-9)], time_limit)


def compare(cases: list[Case], time_limit: float | None) -> None:
    rows = []
    rival: tuple[conrl.ConstrainedMDP | None, tuple[float, str, float | None]] = None, (0.0, "", None)
    for name, mdp, tol, goal, repeat, patience in cases:
        planner = ColumnGeneration(tol=tol)

        def plan(mdp: conrl.ConstrainedMDP = mdp, planner: ColumnGeneration = planner) -> conrl.Plan:
            fresh = mdp.replace(horizon=mdp.horizon)  # forgets what was derived for an earlier plan
            result = conrl.plan(fresh, planner=planner)
            _ = result.policy
            return result

        found = plan()
        ours = best(plan, repeat)
        if rival[0] is not mdp:  # else asked before
            rival = mdp, highs(mdp, patience if time_limit is None else time_limit)
            ours = min(ours, best(plan, repeat))  # before and after
        reference, method, value = rival[1]
        more = ">" if value is None else ""
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
                goal,
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
        cones = Cones(Expressions(f, (g,), *BackwardInduction(rover).box))

        def plan(cones: Cones = cones) -> Optimum:
            fresh = rover.replace(horizon=rover.horizon)
            return maximise_convex(BackwardInduction(fresh), cones, tol=1e-7, max_sweeps=1000)

        found = plan()
        program = full_program(rover, problem)[0]
        ours, reference = best(plan, 20), float("inf")
        try:
            program.solve(solver=cp.CLARABEL)
            for _ in range(5):  # in turns
                ours = min(ours, best(plan, 20))
                reference = min(reference, best(lambda program=program: program.solve(solver=cp.CLARABEL), 1))  # type: ignore[misc]
            against, agree = seconds(reference), f"{abs(program.value - found.objective):.0e}"
            ratio = f"**{reference / ours:,.0f}x**"
        except cp.error.SolverError:
            against, agree, ratio = "no progress", "-", "-"
        gap = f"{found.bound - found.objective:.0e}"
        rows.append([name, f"{found.asked}", gap, seconds(ours), against, agree, ratio, "200x"])
    header = ["Mars rover: f, g", "directions", "gap", "conrl", "CVXPY + Clarabel, full program", "difference in value"]
    table([*header, "ratio", "goal"], rows)


MEMORY = 12 * 2**30  # bytes for HiGHS


def highs(mdp: conrl.ConstrainedMDP, time_limit: float) -> tuple[float, str, float | None]:
    """Seconds of the quicker method, its name, and the value it found; None if neither has finished.

    HiGHS looks at its clock too rarely: it runs in a process of its own, which is ended. Building the program has as
    much time again, and is not counted.
    """
    found: list[tuple[float, str, float | None]] = []
    spawn = multiprocessing.get_context("spawn")  # a copy of a process with threads would be no safe place
    for method in ("simplex", "ipm"):
        ours, theirs = spawn.Pipe()
        process = spawn.Process(target=_solve, args=(theirs, mdp, method, time_limit), daemon=True)
        process.start()
        theirs.close()
        said: list[Any] = []
        why = "unfinished"
        try:
            while ours.poll(time_limit + 1.0 if said else time_limit + 30.0):
                said.append(ours.recv())
        except EOFError:
            process.join()
            why = "unfinished" if process.exitcode == 0 and "memory" not in said else "out of memory"
        process.kill()
        process.join()
        runs = [(one[0], method, one[1]) for one in said if isinstance(one, tuple) and one[1] is not None]
        built = "" if "built" in said else ", the program not built"
        found += runs or [(time_limit, f"{method}: {why}{built}", None)]
    finished = [f for f in found if f[2] is not None]
    return min(finished) if finished else (time_limit, "; ".join(f[1] for f in found), None)


def _solve(parent: Any, mdp: conrl.ConstrainedMDP, method: str, time_limit: float) -> None:
    """Tell the parent when the program is built, then the seconds and the value of up to three runs."""
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    rows = conrl.Linear(mdp.limits).rows(mdp)
    try:
        for turn in range(3):
            solver = LinearProgram(method, tol=1e-6, time_limit=time_limit).solver(mdp, rows)
            if not turn:
                parent.send("built")
            begin = time.perf_counter()
            solver.run()
            taken = time.perf_counter() - begin
            optimal = solver.modelStatusToString(solver.getModelStatus()) == "Optimal"
            parent.send((taken, float(solver.getInfo().objective_function_value) if optimal else None))
            if taken > 5.0:
                break
    except MemoryError:
        parent.send("memory")


# -- one backward induction -------------------------------------------------------------------------------


def sweeps() -> None:
    """Against QuantEcon, against the machine, and against the number of transitions; random and local models."""
    for kind, band in (("random", None), ("local (band 2)", 2)):
        rows: list[list[str]] = []
        work: list[float] = []
        times: list[float] = []
        for size in (1_000, 3_000, 10_000, 30_000, 100_000):
            mdp = random_cmdp(size, 4, 5, 3, seed=0, band=band)
            if band:  # from everywhere: else only the neighborhood of the start would be swept
                mdp = mdp.replace(initial=np.full(size, 1.0 / size))
            rows.append([f"{size:,}", *sweep(mdp, max(3, 200_000 // size), work, times)])
        header = [f"S, {kind}", "backward induction", "QuantEcon", "ratio (goal 2x in every row)"]
        shares = ["of the machine's limit, in line (goal 50%)", "and at these addresses"]
        table([*header, *shares, "oracle call", "per reachable transition"], rows)
        slope = float(np.polyfit(np.log(work), np.log(times), 1)[0])
        print(f"Oracle call against reachable transitions, slope on log-log: **{slope:.2f}** (goal 1.0 +- 0.1).\n")


def sweep(mdp: conrl.ConstrainedMDP, repeat: int, work: list[float], times: list[float]) -> list[str]:
    oracle = BackwardInduction(mdp)
    w = np.array([1.0, -0.2, -0.1, -0.3])
    kernel = best(backward_induction(oracle, w), repeat)
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


def backward_induction(oracle: BackwardInduction, w: Float) -> Callable[[], float]:
    """Values and policy of one direction, without what the policy costs: what QuantEcon computes."""
    _, lines, occupied, initial, _, _, slot_pay, slot_bonus, missing, _ = oracle._laid
    scratch = oracle._scratch()
    pay, tie = scratch.pay, oracle._tie(w)

    def run() -> float:
        kernels.along_blocks(slot_pay, slot_bonus, w, pay)
        if missing.size:
            pay[missing] = -np.inf
        horizon = oracle.mdp.horizon
        kernels.backward(lines, occupied, pay, tie, scratch.values, scratch.choice, 0, horizon, 0, 1)
        return float(kernels.expected(initial, scratch.values[horizon % 2].reshape(-1)))

    return run


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
    V = np.zeros_like(oracle._scratch().values[0])
    some = V[: 1 << int(np.log2(V.shape[0]))]  # a power of two: the remainder is then a mask
    lines, steps = (oracle._laid[1][3], oracle._laid[1][2]), oracle.mdp.horizon - 1
    _in_line(*lines, some, steps)
    _in_place(*lines, V.reshape(-1), steps)
    return (
        best(lambda: _in_line(*lines, some, steps), repeat),
        best(lambda: _in_place(*lines, V.reshape(-1), steps), repeat),
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--time-limit", type=float, help="seconds for HiGHS, each method; by default 30 or 60")
    parser.add_argument("--slow", action="store_true", help="also a model that HiGHS does not finish")
    parser.add_argument("--only", choices=["plans", "dense", "convex", "sweeps"], help="one part only")
    arguments = parser.parse_args()
    print(
        f"conrl {conrl.__version__}, Python {sys.version.split()[0]}, {platform.machine()}, one thread.\n", flush=True
    )
    if arguments.only in (None, "plans"):
        plans(arguments.time_limit, arguments.slow)
    if arguments.only in (None, "dense"):
        dense_plans(arguments.time_limit)
    if arguments.only in (None, "convex"):
        convex_plans()
    if arguments.only in (None, "sweeps"):
        sweeps()


if __name__ == "__main__":
    main()
