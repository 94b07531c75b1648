"""How every test runs: the same examples each time, no limit on time, and nothing left running.

Hypothesis draws the same examples in every run, unless HYPOTHESIS_PROFILE=explore asks for new ones.
slow.txt names the files and the tests, of all parameters, that `make check` leaves to `make test`.
"""

import multiprocessing
import os
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", unhurried, derandomize=True)
settings.register_profile("explore", unhurried, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell starts background jobs with it ignored

SLOW = frozenset(Path(__file__).with_name("slow.txt").read_text().split())


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        file = item.path.name
        if file in SLOW or f"{file}::{item.name.partition('[')[0]}" in SLOW:
            item.add_marker("slow")


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Workers of a study that a test has started, or left on their way out, are not there for the next one."""
    yield
    for child in multiprocessing.active_children():
        child.kill()
        child.join()
