"""Plans against Storm's multi-objective engine. `make bench-storm`, or `python benchmarks/storm.py --help`.

Storm is asked by its Python package, `stormpy`. That is under the GPL and needs libraries of its own, so that it lives
in an environment of its own (`--storm`: its Python) and answers by a pipe (`storm_side.py`). The two take turns, and
the least time of each counts. Both are asked for the most reward within the model's limits, to an absolute gap of 1e-6.
Ours is timed from a model that has never been planned to the Markov policy; Storm's from a model already in memory
to the value alone (of step-bounded queries it gives no policy). It reads the model from a file that we write. Work is
the time of the processors, Storm's against ours on one thread: on a busy machine it says more than the clock.
"""

from __future__ import annotations

import argparse
import inspect
import json
import platform
import select
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numba
from planning import best, seconds, table

import conrl
from conrl.envs import mars_rover, random_cmdp

GAP = 1e-6
LONG = 5.0  # seconds of an answer of Storm's that is not asked for again
THREADS = "threads" in inspect.signature(conrl.plan).parameters  # else all is on one


class Storm:
    """A process that answers for Storm; one that is too slow is ended, and the next question starts another."""

    def __init__(self, python: str, time_limit: float) -> None:
        self.command = [python, str(Path(__file__).with_name("storm_side.py"))]
        self.time_limit = time_limit
        self._process: subprocess.Popen[str] | None = None

    def ask(self, question: dict[str, Any] | None) -> dict[str, Any] | None:
        """Load a model and a query about it, or, asked None, answer that query; None if that takes too long."""
        if self._process is None:
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(self.command, stdin=pipe, stdout=pipe, text=True)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        ready, _, _ = select.select([self._process.stdout], [], [], self.time_limit)
        if not ready:
            self.end()
            return None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("Storm's process ended without an answer")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.communicate()
            self._process = None


class Case(NamedTuple):
    name: str
    mdp: conrl.ConstrainedMDP
    goal: float  # the ratio to reach


def cases(largest: int) -> list[Case]:
    found = [Case("Mars rover (rock_reward=1), d=1", mars_rover(rock_reward=1.0), 10.0)]
    for size in [s for s in (1_000, 10_000, 100_000) if s <= largest]:
        for costs in (1, 3):
            goal = 10.0 if size <= 1_000 or costs == 3 else 5.0
            found.append(Case(f"random, S={size:,}, d={costs}", random_cmdp(size, 4, 5, costs, seed=0), goal))
    return found


def query(mdp: conrl.ConstrainedMDP) -> str:
    """The most reward within the limits, in Storm's words."""
    assert mdp.limits is not None
    steps = f"[C<={mdp.horizon}]"
    rows = zip(mdp.cost_names, mdp.limits.tolist(), strict=True)
    return ", ".join((f'multi(R{{"reward"}}max=? {steps}', *(f'R{{"{c}"}}<={x!r} {steps}' for c, x in rows))) + ")"


def planned(mdp: conrl.ConstrainedMDP, tol: float, threads: int) -> conrl.Plan:
    fresh = mdp.replace(horizon=mdp.horizon)  # forgets what was derived for an earlier plan
    more: dict[str, Any] = {"threads": threads} if THREADS else {}
    plan = conrl.plan(fresh, tol=tol, **more)
    _ = plan.policy
    return plan


def measured(case: Case, storm: Storm, rounds: int, threads: list[int]) -> list[str]:
    mdp = case.mdp
    exact = planned(mdp, 1e-9, threads[0])
    tol = GAP / max(1.0, abs(exact.objective))
    found = planned(mdp, tol, threads[0])
    if found.gap > GAP:
        raise SystemExit(f"{case.name}: the gap is {found.gap:g}")
    ours, work = [float("inf")] * len(threads), float("inf")
    with asked(storm, mdp) as loading:
        answers: list[dict[str, Any] | None] = []
        for _ in range(rounds):
            for i, number in enumerate(threads):
                again = 5 if ours[i] < 0.1 else 1
                begin = time.process_time()
                ours[i] = min(ours[i], best(lambda n=number: planned(mdp, tol, n), again))  # type: ignore[misc]
                work = min(work, (time.process_time() - begin) / again) if number == 1 else work
            if loading is not None and (not answers or (answers[-1] or {"seconds": LONG})["seconds"] < LONG):
                answers.append(storm.ask(None))
    quickest = min((a for a in answers if a is not None), key=lambda a: float(a["seconds"]), default=None)
    theirs = storm.time_limit if quickest is None else float(quickest["seconds"])
    more = ">" if quickest is None else ""
    storms = ["unfinished" if loading is None else seconds(loading), f"{more}{seconds(theirs)}", "-", "unfinished", "-"]
    if quickest is not None:
        spent = min(float(a["work"]) for a in answers if a is not None)
        storms[2:] = [seconds(spent), f"{quickest['value'] - exact.objective:+.0e}", f"{spent / work:,.1f}x"]
    if loading is None:  # then it was not asked
        storms[1:] = ["-"] * 4
    mine = [cell for t in ours for cell in (seconds(t), "-" if loading is None else f"**{more}{theirs / t:,.1f}x**")]
    return [case.name, f"{found.iterations}", f"{found.gap:.0e}", *storms, *mine, f"{case.goal:.0f}x"]


@contextmanager
def asked(storm: Storm, mdp: conrl.ConstrainedMDP) -> Iterator[float | None]:
    """Storm with a model and our query in its memory: the seconds that it took to read them, None if too many."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.drn"
        conrl.save_model(path, mdp, means=True)
        said = storm.ask({"path": str(path), "query": query(mdp), "gap": GAP})
        if said is not None and said["precision"] != GAP:
            raise SystemExit(f"Storm's precision is {said['precision']:g}")
        yield None if said is None else float(said["seconds"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--storm", default=".venv-storm/bin/python", help="the Python that has stormpy")
    parser.add_argument("--time-limit", type=float, default=300.0, help="seconds for one answer of Storm's")
    parser.add_argument("--largest", type=int, default=100_000, help="states of the largest model")
    parser.add_argument("--rounds", type=int, default=5, help="turns; Storm has fewer where an answer is long")
    arguments = parser.parse_args()
    storm = Storm(arguments.storm, arguments.time_limit)
    threads = [1, numba.get_num_threads()] if THREADS else [1]
    python = f"Python {sys.version.split()[0]}, {platform.machine()}"
    print(f"conrl {conrl.__version__}, {python}; both to an absolute gap of {GAP:g}.\n", flush=True)
    planned(random_cmdp(100, 4, 5, 1, seed=0), 1e-6, threads[-1])  # compiles
    planned(random_cmdp(100, 4, 5, 3, seed=0), 1e-6, threads[-1])
    header = ["model", "directions", "gap", "Storm reads the model", "Storm", "its work", "its error", "ratio of work"]
    for number in dict.fromkeys(threads):
        header += [f"conrl, {number} thread{'s' if number > 1 else ''}", "ratio"]
    try:
        rows = []
        for case in cases(arguments.largest):
            rows.append(measured(case, storm, arguments.rounds, list(dict.fromkeys(threads))))
            print(f"{rows[-1]}", file=sys.stderr, flush=True)
        table([*header, "goal"], rows)
    finally:
        storm.end()


if __name__ == "__main__":
    main()
