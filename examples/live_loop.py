"""Learn prices from a running shop, with a journal: you can kill the program at any moment and lose nothing.

    python examples/live_loop.py [--days 120] [--stock 480] [--folder live]

The shop is another process (this file with --shop). It has its own customers, till and books, and we ask it hour by
hour what happened at a price. ConRL learns from it with two calls a day, `propose` and `observe`, and never sells more
than the stock. Three rules make it safe against crashes:

1. Whatever happened is in the journal, synced to disk, before the next thing is done.
2. Every request names its day and hour, and the shop answers a repeated request as it did before. If the program dies
   in the middle of an hour, it asks for that hour again.
3. What a learner proposes depends only on its observations and its seed: after a crash it proposes the same policy.
   That may be a lottery at some hours: each hour has a generator of its own, so that the draw is the same too.

Start it again with the same folder and it resumes where it stopped. Kill it as often as you like.
"""

from __future__ import annotations

import argparse
import fcntl
import itertools
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

import conrl

HOURS, REGIMES, PRICES = 12, 3, 5
SNAPSHOT = 25  # days between two snapshots of the learner
SEED = 0


# -- the journal ------------------------------------------------------------------------------------------


class Journal:
    """Lines of JSON, each on disk before `append` returns. A line cut short by a crash is dropped.

    A second process waits until the first one ends.
    """

    def __init__(self, path: Path) -> None:
        self._file = path.open("a+b")
        fcntl.flock(self._file, fcntl.LOCK_EX)
        self._file.seek(0)
        whole = self._file.read()
        end = whole.rfind(b"\n") + 1
        self.entries = [json.loads(line) for line in whole[:end].splitlines()]
        self._file.truncate(end)
        folder = os.open(path.parent, os.O_RDONLY)
        os.fsync(folder)  # a new file survives a power cut only if its folder is synced too
        os.close(folder)

    def append(self, entry: dict[str, Any]) -> None:
        self._file.write(json.dumps(entry).encode() + b"\n")
        self._file.flush()
        os.fsync(self._file.fileno())
        self.entries.append(entry)

    def close(self) -> None:
        self._file.close()


# -- the shop: a process of its own -----------------------------------------------------------------------


def run_shop(folder: Path) -> None:
    """Answer each request {"day", "hour", "price"} with what happened; answer a repeated one as before."""
    truth = conrl.envs.pricing()
    books = Journal(folder / "shop.jsonl")
    known = {(e["day"], e["hour"]): e for e in books.entries}
    for line in sys.stdin:
        asked = json.loads(line)
        key = asked["day"], asked["hour"]
        if key not in known:
            books.append(known.setdefault(key, what_happens(truth, known, **asked)))
        sys.stdout.write(json.dumps(known[key]) + "\n")
        sys.stdout.flush()
    books.close()


def what_happens(
    truth: conrl.ConstrainedMDP, known: dict[tuple[int, int], Any], day: int, hour: int, price: int | None
) -> dict[str, Any]:
    """Hour -1 opens the day and tells the demand. Later hours sell, or do not, at a price."""
    chance = np.random.default_rng([2026, day, hour + 1])
    entry: dict[str, Any] = {"day": day, "hour": hour}
    if price is None:
        return entry | {"state": int(chance.choice(truth.num_states, p=truth.initial))}
    pair = int(truth.pair_index[known[day, hour - 1]["state"], price])
    graph, pay = truth.graph, truth.outcome_pay
    assert pay is not None
    lo, hi = int(graph.start[pair]), int(graph.start[pair + 1])
    j = lo + int(chance.choice(hi - lo, p=graph.probability[lo:hi] / graph.probability[lo:hi].sum()))
    revenue, sold = pay[j].tolist()
    return entry | {"price": price, "revenue": revenue, "sold": sold, "state": int(graph.successor[j])}


class Shop:
    """Our end of the line to the shop."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, __file__, "--shop", "--folder", str(folder)]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def ask(self, day: int, hour: int, price: int | None = None) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"day": day, "hour": hour, "price": price}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("the shop does not answer; everything so far is in the journal")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def close(self) -> None:
        self._process.communicate()


# -- the loop ---------------------------------------------------------------------------------------------
#
# The first line of the journal holds the options. A day is the demand when it opened (hour -1), the hours, and how it
# ended.


def days_of(journal: Journal) -> list[list[dict[str, Any]]]:
    """The entries of each day."""
    return [list(day) for _, day in itertools.groupby(journal.entries[1:], key=lambda entry: entry["day"])]


def hours_of(day: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [entry for entry in day if "sold" in entry]


def episode_of(day: list[dict[str, Any]]) -> conrl.Episode:
    """A day as the learner sees it."""
    if day[-1]["end"] == "skipped":
        return conrl.Episode.null(1)
    hours = hours_of(day)
    return conrl.Episode(
        states=[entry["state"] for entry in day[:-1]],
        actions=[entry["price"] for entry in hours],
        rewards=[entry["revenue"] for entry in hours],
        costs=np.reshape([entry["sold"] for entry in hours], (-1, 1)),
        stopped=day[-1]["end"] == "closed",
    )


def new_learner(days: int, stock: float) -> conrl.ConRL:
    task = conrl.Task(
        num_states=HOURS * REGIMES,
        num_actions=PRICES,
        horizon=HOURS,
        limits=[stock / days],
        cost_names=["stock"],
        cost_ranges=[(0.0, 1.0)],
        can_stop=True,
    )
    return conrl.ConRL(task, problem=conrl.Knapsack([stock], days), resolve=True, seed=SEED)


def recover(folder: Path, journal: Journal, days: int, stock: float) -> tuple[conrl.ConRL, list[dict[str, Any]]]:
    """The learner after all finished days of the journal, and the entries of an unfinished day."""
    snapshot = folder / "learner.npz"
    learner = conrl.load_learner(snapshot) if snapshot.exists() else new_learner(days, stock)
    played = days_of(journal)
    unfinished = played.pop() if played and "end" not in played[-1][-1] else []
    for day in played[learner.episodes :]:
        learner.observe(episode_of(day))
    return learner, unfinished


def play_day(learner: conrl.ConRL, shop: Shop, journal: Journal, day: list[dict[str, Any]]) -> None:
    """Play one day, from wherever the journal left it."""

    def note(entry: dict[str, Any]) -> None:
        journal.append(entry)
        day.append(entry)

    number = learner.episodes
    policy = learner.propose()
    end = "evening"
    if isinstance(policy, conrl.Null):
        end = "skipped"
    elif not day:
        note(shop.ask(number, -1))
    while end == "evening" and (hour := len(hours_of(day))) < HOURS:
        if learner.may_step([sum(entry["sold"] for entry in hours_of(day))]):
            price = policy.act(hour, day[-1]["state"], np.random.default_rng([SEED, number, hour]))
            note(shop.ask(number, hour, price))
        else:
            end = "closed"
    note({"day": number, "end": end})
    learner.observe(episode_of(day))


def main() -> None:
    parser = argparse.ArgumentParser(description="Learn prices from a running shop.")
    parser.add_argument("--days", type=int, default=120)
    parser.add_argument("--stock", type=float, default=480.0)
    parser.add_argument("--folder", type=Path, help="folder for journal and snapshots (default: a temporary one)")
    parser.add_argument("--shop", action="store_true", help="act as the shop (the program starts this itself)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        if options.shop:
            run_shop(folder)
        else:
            run_loop(folder, options.days, options.stock)


def run_loop(folder: Path, days: int, stock: float) -> None:
    journal = Journal(folder / "journal.jsonl")
    asked = {"day": -1, "days": days, "stock": stock}
    if not journal.entries:
        journal.append(asked)
    if journal.entries[0] != asked:
        raise SystemExit(f"{folder} holds a journal with other days or stock: {journal.entries[0]}")
    learner, day = recover(folder, journal, days, stock)
    if learner.episodes or day:
        print(f"resuming after {learner.episodes} days and {len(hours_of(day))} hours")
    shop = Shop(folder)
    while learner.episodes < days:
        play_day(learner, shop, journal, day)
        day = []
        if learner.episodes % SNAPSHOT == 0:
            learner.save(folder / "learner.npz")
    shop.close()
    report(journal, days, stock)
    journal.close()


def report(journal: Journal, days: int, stock: float) -> None:
    hours = hours_of(journal.entries)
    revenue, sold = (sum(entry[key] for entry in hours) for key in ("revenue", "sold"))
    best = conrl.plan(conrl.envs.pricing(), conrl.Knapsack([stock], days)).reward * days
    print(f"{days} days: sold {sold:g} of {stock:g}, revenue {revenue:.2f}")
    print(f"a seller who knows the demand earns {best:.2f} in expectation")


if __name__ == "__main__":
    main()
