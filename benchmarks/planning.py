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

import numba
import numpy as np
from numpy.typing import NDArray

import conrl
from conrl import kernels
from conrl.envs import box, mars_rover, random_cmdp
from conrl.oracles import BackwardInduction
from conrl.planners import ColumnGeneration, LinearProgram

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


def highs(mdp: conrl.ConstrainedMDP, time_limit: float) -> tuple[float, str, float | None]:
    """Seconds of the quicker method, its name, and the value it found."""
    rows = conrl.Linear(mdp.limits).rows(mdp)
    found: list[tuple[float, str, float | None]] = []
    for method in ("simplex", "ipm"):
        repeat = 1
        while repeat:
            solver = LinearProgram(method, tol=1e-6, time_limit=time_limit).solver(mdp, rows)
            begin = time.perf_counter()
            solver.run()
            taken = time.perf_counter() - begin
            optimal = solver.modelStatusToString(solver.getModelStatus()) == "Optimal"
            value = float(solver.getInfo().objective_function_value)
            found.append((taken, method, value) if optimal else (taken, "unfinished", None))
            repeat = 2 - repeat if taken < 5.0 and repeat < 2 else 0
    finished = [f for f in found if f[1] != "unfinished"]
    return min(finished) if finished else max(found)


# -- one backward induction -------------------------------------------------------------------------------


def sweeps() -> None:
    """Against QuantEcon, against the machine, and against the number of transitions."""
    rows, work, times = [], [], []
    for size in (1_000, 3_000, 10_000, 30_000, 100_000):
        mdp = random_cmdp(size, 4, 5, 3, seed=0)
        oracle = BackwardInduction(mdp)
        w = np.array([1.0, -0.2, -0.1, -0.3])
        repeat = max(3, 200_000 // size)
        kernel = best(lambda oracle=oracle, w=w: oracle._sweep(w), repeat)  # type: ignore[misc]
        call = best(lambda oracle=oracle, w=w: oracle.support(w), repeat)  # type: ignore[misc]
        reference = quantecon(mdp, w, max(3, repeat // 10))
        limit = machine_limit(oracle, repeat)
        reach = mdp.reach
        per_step = (reach.hi - reach.lo) * kernels.LANES * 4 * 5
        work.append(float(per_step.sum()))
        times.append(call)
        rows.append(
            [
                f"{size:,}",
                seconds(kernel),
                seconds(reference),
                f"**{reference / kernel:.1f}x**",
                f"{limit / kernel:.0%}",
                seconds(call),
                f"{call / work[-1] * 1e9:.2f} ns",
            ]
        )
    header = ["S", "backward induction", "QuantEcon", "ratio (goal 2x)", "of the machine's limit (goal 50%)"]
    table([*header, "oracle call", "per reachable transition"], rows)
    slope = float(np.polyfit(np.log(work), np.log(times), 1)[0])
    print(
        f"Oracle call against reachable transitions, slope on log-log: **{slope:.2f}** (goal 1.0 +- 0.1).\n", flush=True
    )


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


@numba.njit(error_model="numpy", nogil=True)  # type: ignore[untyped-decorator]
def _same_bytes_and_flops(probability: Any, successor: Any, V: Any, horizon: int) -> float:
    """Reads what a sweep reads and multiplies as often, but everything in line: no indirection, no choice."""
    total = 0.0
    lines, lanes = probability.shape
    blocks = V.shape[0]
    for _ in range(horizon - 1):
        a0 = a1 = a2 = a3 = a4 = a5 = a6 = a7 = 0.0
        t = np.uint32(0)
        for i in range(np.uint64(lines)):
            b = i % np.uint64(blocks)
            p, v, s = probability[i], V[b], successor[i]
            a0 += p[0] * v[0]
            a1 += p[1] * v[1]
            a2 += p[2] * v[2]
            a3 += p[3] * v[3]
            a4 += p[4] * v[4]
            a5 += p[5] * v[5]
            a6 += p[6] * v[6]
            a7 += p[7] * v[7]
            t ^= s[0] ^ s[1] ^ s[2] ^ s[3] ^ s[4] ^ s[5] ^ s[6] ^ s[7]
        total += a0 + a1 + a2 + a3 + a4 + a5 + a6 + a7 + t
    return total + lanes


def machine_limit(oracle: BackwardInduction, repeat: int) -> float:
    """Seconds that reading and multiplying alone take here, vectorised like the kernel itself."""
    numba.config.SLP_VECTORIZE = 1
    blocks = 1 << int(np.log2(oracle._values.shape[1]))  # a power of two: the remainder is then a mask
    V = oracle._values[0, :blocks]
    arguments = (oracle._line_probability, oracle._line_successor, V, oracle.mdp.horizon)
    _same_bytes_and_flops(*arguments)
    return best(lambda: _same_bytes_and_flops(*arguments), repeat)


# -- scale ------------------------------------------------------------------------------------------------


def scale(largest: int) -> None:
    rows, sizes, times = [], [], []
    for size in [s for s in (1_000, 10_000, 100_000) if s <= largest]:
        mdp = random_cmdp(size, 4, 5, 3, seed=0)
        begin = time.perf_counter()
        plan = conrl.plan(mdp, tol=1e-6 / max(1.0, 10.0))
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
    parser.add_argument("--only", choices=["plans", "sweeps", "scale"], help="one part only")
    arguments = parser.parse_args()
    print(
        f"conrl {conrl.__version__}, Python {sys.version.split()[0]}, {platform.machine()}, one thread.\n", flush=True
    )
    if arguments.only in (None, "scale"):
        scale(arguments.largest)  # first: the peak of memory is then its own
    if arguments.only in (None, "plans"):
        plans(arguments.time_limit)
    if arguments.only in (None, "sweeps"):
        sweeps()


if __name__ == "__main__":
    main()
