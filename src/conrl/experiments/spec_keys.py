"""The keys of a spec: what each may hold, and how to say so."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from conrl.arguments import is_int, is_number
from conrl.foreign import MODULE

MOST_SEEDS = 10_000


def _text(value: Any) -> bool:
    return isinstance(value, str)


def is_table(value: Any) -> bool:
    return isinstance(value, dict)


def _is_count(value: Any) -> bool:
    return is_int(value) and value >= 1


def _numbers(value: Any) -> bool:
    return isinstance(value, dict) and all(
        isinstance(x, (int, float)) and not isinstance(x, bool) for x in value.values()
    )


def is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(x, str) for x in value) and len(set(value)) == len(value)


def _modules(value: Any) -> bool:
    return is_texts(value) and all(MODULE.fullmatch(x) for x in value)


def _pair(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and all(isinstance(x, (int, float)) for x in value)


def _pairs(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_pair, value.values()))


def _seeds(value: Any) -> bool:
    if is_int(value):
        return bool(1 <= value <= MOST_SEEDS)
    return (
        isinstance(value, list)
        and 1 <= len(value) <= MOST_SEEDS
        and all(is_int(x) and 0 <= x < 2**63 for x in value)
        and len(set(value)) == len(value)
    )


def _share(value: Any) -> bool:
    return value == "theorem" or (isinstance(value, (int, float)) and 0.0 <= value < 1.0)


def is_choices(value: Any) -> bool:
    plain = (str, int, float, bool)
    return isinstance(value, list) and bool(value) and all(isinstance(x, plain) for x in value)


def is_interval(value: Any) -> bool:
    if not isinstance(value, dict) or not {"low", "high"} <= value.keys() <= {"low", "high", "log"}:
        return False
    low, high = value["low"], value["high"]
    numbers = all(type(x) in (int, float) for x in (low, high))
    log = value.get("log", False)
    return numbers and isinstance(log, bool) and low < high and high - low < math.inf and (not log or low > 0)


Check = tuple[Callable[[Any], bool], str]
WHOLE: Check = (_is_count, "a whole number of at least 1")
TEXT: Check = (_text, "a text")
TABLE: Check = (is_table, "a table such as { rate = 0.1 }")
NUMBERS: Check = (_numbers, "a table of numbers such as { crash = 0.3 }")
SEEDS: Check = (_seeds, f"a number of seeds (1 to {MOST_SEEDS:,}) or a list of different ones")
TOP: dict[str, Check] = {
    "name": TEXT,
    "title": TEXT,
    "import": (_modules, 'a list of modules such as ["my_lab"], without .py or a path'),
    "episodes": WHOLE,
    "seeds": SEEDS,
    "environment": TABLE,
    "algorithm": TABLE,
    "tune": TABLE,
}
ENVIRONMENT: dict[str, Check] = {
    "model": TEXT,
    "title": TEXT,
    "set": TABLE,
    "limits": NUMBERS,
    "floors": NUMBERS,
    "horizon": WHOLE,
    "start": TEXT,
    "normalize": (lambda value: is_number(value) and 0 < value < 1, "a number between 0 and 1 such as 0.01"),
    "reward_range": (_pair, "two numbers such as [0, 1]"),
    "cost": (_text, "the name of a function such as 'my_lab:cost'"),
    "cost_ranges": (_pairs, "a table of two numbers each such as { crash = [0, 1] }"),
}
OVERRIDES: dict[str, Check] = {
    "preset": TEXT,
    "episodes": WHOLE,
    "seeds": SEEDS,
    "options": TABLE,
    "pay": TEXT,
    "never": NUMBERS,
    "chance": (is_table, "a table such as { crash = [0, 0.05] }"),
    "cvar": (is_table, "a table such as { crash = [0.9, 4] }"),
    "budgets": NUMBERS,
    "epsilon": (_share, "a number in [0, 1) or 'theorem'"),
}
ALGORITHM: dict[str, Check] = {
    **OVERRIDES,
    "learner": TEXT,
    "title": TEXT,
    "environments": (is_texts, 'a list of different names such as ["box"]'),
    "on": (is_table, "tables such as [algorithm.rcpo.on.box]"),
}
TUNE: dict[str, Check] = {
    "algorithm": TEXT,
    "environment": TEXT,
    "sampler": TEXT,
    "trials": WHOLE,
    "prune": (lambda value: isinstance(value, bool), "true or false"),
    "seed": (lambda value: is_int(value) and 0 <= value < 2**32, "a whole number from 0 to 2^32 - 1"),
    "parameters": (is_table, "a table of lists such as { rate = [0.1, 0.2] }"),
}
