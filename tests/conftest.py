"""How every test runs: the same examples each time, no limit on time, and nothing left running.

Hypothesis draws the same examples in every run, unless HYPOTHESIS_PROFILE=explore asks for new ones.
"""

import multiprocessing
import os
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

unhurried = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.register_profile("steady", unhurried, derandomize=True)
settings.register_profile("explore", unhurried, derandomize=False)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "steady"))


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """Workers of a study that a test has started, or left on their way out, are not there for the next one."""
    yield
    for child in multiprocessing.active_children():
        child.kill()
        child.join()
