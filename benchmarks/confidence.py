"""Whether plans with confidence keep their limits in truth, and whether the intervals of `conrl.assess` cover it.

    python benchmarks/confidence.py study --out out/confidence.csv    # three hours on two cores
    python benchmarks/confidence.py table out/confidence.csv          # of the recorded study: docs/data/confidence.csv
    python benchmarks/confidence.py weighted                          # two minutes
    python benchmarks/confidence.py speed                             # a minute

Six simulators, four behaviors that write the logs, logs of 200, 2,000 and 20,000 episodes, many replays of each:
another log, a plan with confidence 0.95 from it, and the exact value of that plan in the simulator. The last two
simulators are the library's own, and were first looked at when the rule was fixed.

    near      plays the optimum, and at random one time in ten
    mixed     half and half
    random    every action alike
    narrow    a plan within 70% of the way to the limits, and at random three times in a hundred

`held` is the share of the returned plans that keep all limits in truth; `plain` is the same of the plan that takes the
estimate for the truth (of pairs that were seen). `fixed` is how often the 95% intervals of `assess` cover the truth,
mean over reward and costs, for two policies that were fixed before: the behavior, and the optimum; `same` for the
plain plan, made from the log that it is assessed on; `split` for one made from one half and assessed on the other.

`weighted` is about the other intervals of `assess`, by importance sampling, in logs of a plan whose actions change from
step to step, of the same with a fifth of its actions at random, and of random actions.
"""

from __future__ import annotations

import argparse
import csv
import time
from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import conrl
from conrl.estimation.cautious import Cautious
from conrl.estimation.ensemble import drawn_totals
from conrl.estimation.posterior import Posterior
from conrl.io.files import atomic_write

Float = NDArray[np.float64]

LIMITS = {
    "clinic": [0.22],
    "warehouse": [9.0, 0.8],
    "box": [0.1],
    "machine": [65.0, 0.25],
    "cluster": [5.0, 6.0],
    "pricing": [5.0],
}
WORLDS = tuple(LIMITS)
FIRST = WORLDS[:4]  # looked at while the rule was made
BEHAVIORS = ("near", "mixed", "random", "narrow")
SIZES = (2000, 200, 20000)
LEVEL = 0.95
SPLIT = 2000  # episodes: larger logs are not split, to save time
FIELDS = (
    *("world", "behavior", "episodes", "replays", "returned", "held", "probability", "reward", "use"),
    *("plain_held", "plain_reward", "fixed_behavior", "fixed_optimum", "same", "split", "unseen", "seconds"),
)


def clinic() -> conrl.ConstrainedMDP:
    """Ten degrees of illness in three wards; what helps more harms more often."""
    rng = np.random.default_rng(17)
    rows: list[tuple[int, int, int, float, float, float]] = []
    for ward in range(3):
        for ill in range(10):
            for dose in range(4):
                cure = 0.25 + 0.15 * dose - 0.02 * ill + rng.uniform(-0.05, 0.05)
                worse = 0.08 + 0.02 * ill * (dose == 0) + 0.05 * ward
                harm = (0.002 + 0.006 * dose**1.5) * (0.5 + ward) * rng.uniform(0.4, 1.6)
                to = ((min(ill + 1, 9), worse), (max(ill - 1, 0), cure), (ill, 1.0 - worse - cure))
                for next_ill, p in to:
                    for next_ward, q in ((ward, 0.9), ((ward + 1) % 3, 0.1)):
                        for harmed, chance in ((0.0, 1.0 - harm), (1.0, harm)):
                            state, successor = ward * 10 + ill, next_ward * 10 + next_ill
                            rows.append((state, dose, successor, p * q * chance, 1.0 - ill / 9.0, harmed))
    return _model(rows, 30, 4, 24, 5, ["adverse"])


def warehouse() -> conrl.ConstrainedMDP:
    """Up to 11 pieces in store, orders of up to 5; storing and running out each have a limit."""
    demand = np.array([0.15, 0.25, 0.25, 0.2, 0.1, 0.05])
    rows: list[tuple[Any, ...]] = []
    for stock in range(12):
        for order in range(6):
            have = min(stock + order, 11)
            for wanted, p in enumerate(demand.tolist()):
                sold = min(have, wanted)
                lost = float(wanted > have)
                rows.append((stock, order, have - sold, p, 2.0 * sold - 0.3 * (order > 0), 0.1 * have, lost))
    return _model(rows, 12, 6, 20, 4, ["storage", "stockouts"])


def machine() -> conrl.ConstrainedMDP:
    """Eight degrees of wear, and broken; three speeds and a service. Energy varies by a factor in the logs."""
    rows: list[tuple[Any, ...]] = []
    for wear in range(8):
        for speed in range(3):
            p_wear, p_break = 0.1 + 0.12 * speed, 0.002 * (1 + wear) * (1 + 2 * speed)
            energy = (1.0 + speed) * (1.0 + 0.1 * wear)
            pay = (3.0 + 2.5 * speed, energy)
            rows += [(wear, speed, 8, p_break, *pay, 1.0), (wear, speed, min(wear + 1, 7), p_wear, *pay, 0.0)]
            rows.append((wear, speed, wear, 1.0 - p_break - p_wear, *pay, 0.0))
        rows.append((wear, 3, max(wear - 4, 0), 1.0, -2.0, 0.5, 0.0))
    for action in range(4):
        rows += [(8, action, 0, 0.3, -3.0, 0.2, 0.0), (8, action, 8, 0.7, -3.0, 0.2, 0.0)]
    return _model(rows, 9, 4, 30, 0, ["energy", "failures"])


def _model(rows: list[Any], S: int, A: int, H: int, start: int, names: list[str]) -> conrl.ConstrainedMDP:
    table = np.array(rows, dtype=np.float64)
    s, a, t = table[:, :3].astype(np.int64).T
    return conrl.ConstrainedMDP.from_outcomes(
        s, a, t, table[:, 3], table[:, 4:], num_states=S, num_actions=A, horizon=H, initial=start, cost_names=names
    )


def world(name: str) -> tuple[conrl.ConstrainedMDP, Float, float]:
    """A simulator, limits that bind, and the noise of what its logs say of the first cost."""
    makers: dict[str, Any] = {"clinic": clinic, "warehouse": warehouse, "machine": machine}
    return makers.get(name, partial(conrl.envs.make, name))(), np.array(LIMITS[name]), 0.4 if name == "machine" else 0.0


def behavior(mdp: conrl.ConstrainedMDP, limits: Float, kind: str) -> Float:
    """[H, S, A]: what writes the log."""
    available = mdp.available / mdp.available.sum(axis=1, keepdims=True)
    chance: Float = np.repeat(available[None], mdp.horizon, axis=0)
    if kind == "random":
        return chance
    if kind == "narrow":
        least = conrl.feasibility(mdp, limits).least
        safe = least + 0.7 * (limits - least)
        while not conrl.feasibility(mdp, safe).feasible:
            safe = 0.5 * (safe + limits)
        return np.asarray(0.97 * conrl.plan(mdp, safe).policy.probabilities + 0.03 * chance)
    share = {"near": 0.9, "mixed": 0.5}[kind]
    return np.asarray(share * conrl.plan(mdp, limits).policy.probabilities + (1.0 - share) * chance)


def write_log(mdp: conrl.ConstrainedMDP, table: Float, count: int, noise: float, seed: list[int]) -> conrl.Log:
    """Episodes of a behavior; costs are multiplied by a factor of mean 1 where there is noise."""
    rng = np.random.default_rng(seed)
    log = conrl.sample_log(mdp, conrl.Policy(table), count, int(rng.integers(2**31)))
    names = tuple(map(str, range(mdp.num_states))), tuple(map(str, range(mdp.num_actions)))
    episodes = log.episodes
    if noise:
        stretch = np.ones((count, mdp.horizon, 1 + mdp.num_costs))
        stretch[:, :, 1] = np.round(rng.lognormal(-0.5 * noise**2, noise, (count, mdp.horizon)), 4)
        episodes = tuple(
            conrl.Episode._of(e.states, e.actions, e.pay * x) for e, x in zip(episodes, stretch, strict=True)
        )
    return conrl.Log(episodes, mdp.cost_names, *names)


def covers(posterior: Posterior, policy: conrl.Policy, truth: Float) -> float:
    """The share of reward and costs whose interval covers the truth."""
    totals = drawn_totals(posterior, policy, 400, 7)
    low, high = np.quantile(totals, [0.5 - LEVEL / 2, 0.5 + LEVEL / 2], axis=0)
    return float(((low <= truth) & (truth <= high)).mean())


def replay(name: str, kind: str, count: int, seed: int) -> dict[str, float]:
    """One log, and what is made of it."""
    mdp, limits, noise = world(name)
    table = behavior(mdp, limits, kind)
    log = write_log(mdp, table, count, noise, [seed, count, WORLDS.index(name), BEHAVIORS.index(kind)])
    best = conrl.plan(mdp, limits)
    model = conrl.estimate(log)
    fields = ("held", "probability", "reward", "use", "plain_held", "plain_reward")
    found: dict[str, float] = dict.fromkeys(fields, np.nan)
    begin = time.perf_counter()
    try:
        plan = conrl.plan(model, limits, confidence=LEVEL)
    except conrl.InfeasibleError:
        found["returned"] = 0.0
    else:
        value = conrl.evaluate(mdp, plan.policy)
        assert plan.confidence is not None
        found |= {"returned": 1.0, "held": float((value.costs <= limits).all()), "reward": value.reward / best.reward}
        found |= {"probability": plan.confidence.probability, "use": float((value.costs / limits).max())}
    found["seconds"] = time.perf_counter() - begin
    posterior = Posterior(model)
    for whose, policy in (("behavior", conrl.Policy(table)), ("optimum", best.policy)):
        found[f"fixed_{whose}"] = covers(posterior, policy, conrl.evaluate(mdp, policy).value)
    found |= dict.fromkeys(("same", "split"), np.nan)
    with suppress(conrl.InfeasibleError):
        seen = Cautious(model, conrl.Linear(limits).rows(model), False).seen()
        plain = conrl.plan(seen, limits).policy
        value = conrl.evaluate(mdp, plain)
        found |= {"plain_held": float((value.costs <= limits).all()), "plain_reward": value.reward / best.reward}
        found["same"] = covers(posterior, plain, value.value)
    with suppress(conrl.InfeasibleError):
        if count <= SPLIT:
            one, other = log.split(0.5, seed)
            half = conrl.plan(conrl.estimate(one, unvisited="missing"), limits).policy
            found["split"] = covers(Posterior(conrl.estimate(other)), half, conrl.evaluate(mdp, half).value)
    used = best.policy.occupation(mdp).sum(axis=0)
    counts = np.asarray(model.counts)
    found["unseen"] = float(used[counts[: used.shape[0]] == 0].sum() / used.sum())
    return found


def cell(job: tuple[str, str, int, int]) -> dict[str, Any]:
    """All replays of one world, behavior and size."""
    name, kind, count, replays = job
    found = [replay(name, kind, count, seed) for seed in range(replays)]
    row: dict[str, Any] = {"world": name, "behavior": kind, "episodes": count, "replays": replays}
    for field in FIELDS[4:]:
        values = np.array([one[field] for one in found])
        values = values[~np.isnan(values)]
        row[field] = f"{values.mean():.4f}" if values.size else ""
    return row


def rows_of(path: Path) -> list[dict[str, str]]:
    if not path.exists():
        return []
    with path.open(newline="") as file:
        return list(csv.DictReader(file))


def study(out: Path, replays: int, workers: int, sizes: tuple[int, ...], worlds: tuple[str, ...]) -> None:
    """Cells that are not in the file yet; it is written after each."""
    out.parent.mkdir(parents=True, exist_ok=True)
    done = rows_of(out)
    known = {(row["world"], row["behavior"], int(row["episodes"])) for row in done}
    jobs = [(w, b, n, replays) for n in sizes for w in worlds for b in BEHAVIORS if (w, b, n) not in known]
    rows: list[dict[str, Any]] = list(done)
    with get_context("spawn").Pool(workers) as pool:
        for row in pool.imap_unordered(cell, jobs):
            rows.append(row)
            rows.sort(key=lambda r: (WORLDS.index(r["world"]), BEHAVIORS.index(r["behavior"]), int(r["episodes"])))
            text = "\n".join([",".join(FIELDS), *(",".join(str(r[f]) for f in FIELDS) for r in rows), ""])
            with atomic_write(out) as file:
                file.write(text.encode())
            print(" ".join(f"{f}={row[f]}" for f in FIELDS), flush=True)


def table(path: Path) -> None:
    """Plans, intervals, and what they come to together."""
    rows = rows_of(path)
    cells = {(r["world"], r["behavior"], int(r["episodes"])): r for r in rows}
    sizes = sorted({int(r["episodes"]) for r in rows})
    pairs = [(w, b) for w in WORLDS for b in BEHAVIORS if any((w, b, n) in cells for n in sizes)]

    def number(row: dict[str, str] | None, field: str) -> str:
        return f"{100 * float(row[field]):.0f}%" if row is not None and row[field] else "-"

    def show(what: str, fields: tuple[str, ...]) -> None:
        print(f"\n{what}\n\n| world, log | " + " | ".join(f"{n:,} episodes" for n in sizes) + " |")
        print("| --- |" + " --- |" * len(sizes))
        for w, b in pairs:
            found = [", ".join(number(cells.get((w, b, n)), f) for f in fields) for n in sizes]
            print(f"| {w}, {b} | " + " | ".join(found) + " |")

    show("with confidence 0.95: returned, held, reward", ("returned", "held", "reward"))
    show("plain: held, reward", ("plain_held", "plain_reward"))
    show("intervals: behavior, optimum, same log, split", ("fixed_behavior", "fixed_optimum", "same", "split"))
    for line in summary(rows):
        print(line)


def summary(rows: list[dict[str, str]]) -> Iterator[str]:
    """Of all simulators, then of the first four; of a file that has only a part, what there is."""
    yield from held(rows)
    asked = [r for r in rows if r["behavior"] in ("mixed", "random") and int(r["episodes"]) >= 2000]
    if asked:
        declined = max(1.0 - float(r["returned"]) for r in asked)
        yield f"declined, mixed and random logs of 2,000 and more, at most: {100 * declined:.1f}%"
    for field in ("fixed_behavior", "fixed_optimum", "same", "split"):
        values = [float(r[field]) for r in rows if r[field]]
        if not values:
            continue
        low, mean, high = (100 * x for x in (min(values), float(np.mean(values)), max(values)))
        yield f"coverage, {field}: mean {mean:.1f}%, {low:.0f}% to {high:.0f}%"
    first = [r for r in rows if r["world"] in FIRST]
    if not first:
        return
    yield f"\nof {', '.join(FIRST)}:"
    yield from held(first)
    fixed = [float(r[field]) for r in first for field in ("fixed_behavior", "fixed_optimum")]
    good = sum(0.9 <= share <= 0.98 for share in fixed)
    yield f"coverage of the policies that were fixed before: 90% to 98% in {good} of {len(fixed)} cells"


def held(rows: list[dict[str, str]]) -> Iterator[str]:
    """Pooled over replays, not over cells."""
    plans = [(float(r["returned"]) * int(r["replays"]), float(r["held"])) for r in rows if r["held"]]
    total = sum(n for n, _ in plans)
    if total:
        yield f"held, pooled over {total:.0f} plans: {100 * sum(n * h for n, h in plans) / total:.1f}%"
    some = [h for n, h in plans if n >= 20]
    if some:
        yield f"held, the worst of {len(some)} cells with 20 plans or more: {100 * min(some):.1f}%"


def worn() -> conrl.ConstrainedMDP:
    """The machine of the tutorial, `docs/tutorial.md`."""
    rows: list[Any] = [
        *((0, 0, 0, 0.7, 10.0, 0.0, 3.0), (0, 0, 1, 0.3, 10.0, 0.0, 3.0)),
        *((0, 1, 0, 0.9, 6.0, 0.0, 1.0), (0, 1, 1, 0.1, 6.0, 0.0, 1.0)),
        *((1, 0, 1, 0.5, 9.0, 0.0, 4.0), (1, 0, 2, 0.5, 9.0, 0.0, 4.0)),
        *((1, 1, 1, 0.8, 5.0, 0.0, 1.5), (1, 1, 2, 0.2, 5.0, 0.0, 1.5)),
        *((1, 2, 0, 1.0, 0.0, 1.0, 0.0), (2, 2, 0, 1.0, -5.0, 1.0, 0.0), (2, 3, 2, 1.0, 0.0, 0.0, 0.0)),
    ]
    return _model(rows, 3, 4, 20, 0, ["repairs", "energy"])


def weighted(replays: int) -> None:
    """How often the intervals by importance sampling cover the truth; assessed is what wrote the log."""
    mdp = worn()
    plan = conrl.plan(mdp, [2.0, 35.0]).policy.probabilities
    chance = np.repeat((mdp.available / mdp.available.sum(axis=1, keepdims=True))[None], mdp.horizon, axis=0)
    logged = {"plan": plan, "a fifth at random": 0.8 * plan + 0.2 * chance, "random": chance}
    print("| log | episodes | reward | repairs | energy |\n| --- | --- | --- | --- | --- |")
    for name, table in logged.items():
        truth = conrl.evaluate(mdp, conrl.Policy(table)).value
        for count in (200, 1000):
            held = np.zeros(truth.size)
            for seed in range(replays):
                log = conrl.sample_log(mdp, conrl.Policy(table), count, seed=seed)
                found = conrl.assess(conrl.Policy(table), log, mdp=mdp, draws=2).importance
                assert found is not None
                held += (found.low.value <= truth) & (truth <= found.high.value)
            print(f"| {name} | {count:,} | " + " | ".join(f"{100 * x / replays:.0f}%" for x in held) + " |", flush=True)


def speed() -> None:
    """How long a plan with confidence takes: the clinic, and a model of 700 states and 25 actions."""
    mdp, limits, _ = world("clinic")
    model = conrl.estimate(write_log(mdp, behavior(mdp, limits, "mixed"), 2000, 0.0, [1]))
    conrl.plan(model, limits, confidence=LEVEL)
    begin = time.perf_counter()
    conrl.plan(model, limits, confidence=LEVEL)
    print(f"30 states, 4 actions, 48,000 steps: {time.perf_counter() - begin:.2f} s")
    S, A, rng = 700, 25, np.random.default_rng(5)
    rows: list[Any] = []
    for s in range(S):
        for a in range(A):
            to, p = rng.choice(S, 10, replace=False), rng.dirichlet(np.ones(10))
            rate, reward = rng.beta(0.5, 25.0), rng.uniform(0.0, 6.0)
            for t, q in zip(to.tolist(), p.tolist(), strict=True):
                rows += [(s, a, t, q * (1.0 - rate), reward, 0.0), (s, a, t, q * rate, reward, 1.0)]
    mdp = _model(rows, S, A, 24, 0, ["adverse"])
    limits = np.array([0.2])
    log = write_log(mdp, behavior(mdp, limits, "mixed"), 42_000, 0.0, [2])
    begin = time.perf_counter()
    model = conrl.estimate(log)
    seconds = time.perf_counter() - begin
    print(f"700 states, 25 actions: a model of {log.num_steps:,} steps in {seconds:.1f} s", flush=True)
    begin = time.perf_counter()
    plan = conrl.plan(model, limits, confidence=LEVEL)
    value = conrl.evaluate(mdp, plan.policy)
    best = conrl.plan(mdp, limits).reward
    print(f"planned in {time.perf_counter() - begin:.1f} s: {plan}")
    print(f"in truth: adverse {value.costs[0]:.4f}, {100 * value.reward / best:.1f}% of the optimum")


def main() -> None:
    parser = argparse.ArgumentParser(description="Plans with confidence, judged in truth.")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("study")
    one.add_argument("--out", type=Path, required=True)
    one.add_argument("--replays", type=int, default=200)
    one.add_argument("--workers", type=int, default=2)
    one.add_argument("--sizes", type=int, nargs="+", default=list(SIZES))
    one.add_argument("--worlds", nargs="+", choices=WORLDS, default=list(WORLDS))
    commands.add_parser("table").add_argument("file", type=Path)
    other = commands.add_parser("weighted")
    other.add_argument("--replays", type=int, default=200)
    commands.add_parser("speed")
    asked = parser.parse_args()
    if asked.command == "study":
        study(asked.out, asked.replays, asked.workers, tuple(asked.sizes), tuple(asked.worlds))
    elif asked.command == "table":
        table(asked.file)
    elif asked.command == "weighted":
        weighted(asked.replays)
    else:
        speed()


if __name__ == "__main__":
    main()
