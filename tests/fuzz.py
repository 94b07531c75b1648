"""Hostile and clumsy input at every door: `python tests/fuzz.py --cases 30000` (`make fuzz`).

Each case makes some input from its own seed, gives it to a door of `fuzzing/` in this process, and must end in success
or in one line for each mistake, with a documented exit code or a `ConRLError`. No other exception, no traceback,
nothing half-written, no case longer than `SECONDS`, and no memory beyond `MEMORY` on top of what the process had.
Files never run code: what hides in some of the cases would leave a file behind. `--door NAME --case N` repeats one.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import json
import pkgutil
import random
import resource
import sys
import tempfile
import time
import traceback
import warnings
from collections import Counter
from pathlib import Path

import fuzzing
from fuzzing.doors import DOORS, ENDED, Broken
from launch import limited

SECONDS = 60  # of work
MEMORY = 1 << 30

for _subject in pkgutil.iter_modules(fuzzing.__path__):
    importlib.import_module(f"fuzzing.{_subject.name}")


def attempt(door: str, case: int) -> str | None:
    """One case; what is wrong with how it ended, or None."""
    r = random.Random(f"{door} {case}")
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    try:
        folders = tempfile.TemporaryDirectory(prefix="conrl-fuzz-")
        with limited(SECONDS), folders as folder, contextlib.chdir(folder), warnings.catch_warnings():
            warnings.simplefilter("error", RuntimeWarning)  # of numpy, about numbers that nobody checked
            DOORS[door].work(r, Path(folder))
            if left := [str(path) for path in Path(folder).rglob(".conrl-*.tmp")]:
                raise Broken(f"temporary files were left behind: {left}")
    except Broken as error:
        return str(error)
    except BaseException:
        return traceback.format_exc()
    grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 - before
    return f"took {grown:,} bytes" if grown > MEMORY else None


def cases(count: int) -> list[tuple[str, int]]:
    """So many cases, each door its share."""
    total = sum(door.weight for door in DOORS.values())
    return [(name, i) for name, door in DOORS.items() for i in range(-(-count * door.weight // total))]


def main() -> int:
    parser = argparse.ArgumentParser(description="Give hostile input to every door.")
    parser.add_argument("--cases", type=int, default=30_000)
    parser.add_argument("--door", choices=list(DOORS), action="append", help="this one only; may be repeated")
    parser.add_argument("--case", type=int, help="this one only, of --door")
    options = parser.parse_args()
    doors = options.door or list(DOORS)
    todo = [(door, case) for door, case in cases(options.cases) if door in doors]
    if options.case is not None:
        todo = [(door, options.case) for door in doors]
    begun, found = time.monotonic(), {door: Counter[str]() for door in doors}
    wrong = []
    for done, (door, case) in enumerate(todo, start=1):
        ENDED.clear()
        problem = attempt(door, case)
        found[door].update(ENDED, cases=1)
        if problem is not None:
            wrong.append((door, case))
            sys.stderr.write(f"--door {door} --case {case}\n{problem}\n\n")
        if done % 1000 == 0:
            sys.stderr.write(f"{done} of {len(todo)}, {len(wrong)} broken, {time.monotonic() - begun:.0f} s\n")
    record = {
        "doors": found,
        "cases": len(todo),
        "broken": len(wrong),
        "first": wrong[:10],
        "peak MiB": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024),
        "minutes": round((time.monotonic() - begun) / 60, 1),
    }
    sys.stdout.write(json.dumps(record) + "\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
