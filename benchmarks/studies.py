"""What the studies of learning share: runs in parallel, small files of numbers, tables as markdown."""

from __future__ import annotations

import csv
import io
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from conrl.io.files import atomic_write

Float = NDArray[np.float64]
Job = TypeVar("Job")
Found = TypeVar("Found")

DATA = Path(__file__).parent.parent / "docs" / "data"
PROCESSES = 2
# Okabe and Ito (2008): told apart by everybody.
BLUE, ORANGE, GREEN, PURPLE, GREY = "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#444444"


def spread(work: Callable[[Job], Found], jobs: Sequence[Job]) -> list[Found]:
    """The results of the jobs, in their order, from two processes. Nothing depends on which one did a job."""
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        return list(pool.map(work, jobs))


def as_they_end(work: Callable[[Job], Found], jobs: Sequence[Job]) -> Iterator[tuple[Job, Found]]:
    """Each job with its result as soon as it is there, from two processes."""
    with ProcessPoolExecutor(PROCESSES, mp_context=get_context("spawn")) as pool:
        futures = {pool.submit(work, job): job for job in jobs}
        for future in as_completed(futures):
            yield futures[future], future.result()


def write_rows(name: str, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """Numbers of a study, under docs/data."""
    DATA.mkdir(exist_ok=True)
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([_cell(x) for x in row] for row in rows)
    with atomic_write(DATA / name) as file:
        file.write(text.getvalue().encode())


def read_rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(newline="") as file:
        return list(csv.DictReader(file))


def _cell(x: object) -> str:
    if x is None:
        return ""
    return f"{x:.7g}" if isinstance(x, (float, np.floating)) else str(x)


def table(header: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    print("| " + " | ".join(header) + " |")
    print("|" + " --- |" * len(header))
    for row in rows:
        print("| " + " | ".join(row) + " |")
    print(flush=True)


def with_error(values: Sequence[float] | Float, digits: int = 4) -> str:
    """Mean and standard error over runs."""
    v = np.asarray(values, dtype=np.float64)
    return f"{v.mean():.{digits}f} +- {v.std(ddof=1) / v.size**0.5:.{digits}f}"
