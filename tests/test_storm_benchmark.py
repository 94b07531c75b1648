"""The benchmark against Storm, with something else in Storm's place: what is asked, and what is not waited for."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from typing import Any

import pytest

from conrl.envs import random_cmdp

ROOT = Path(__file__).parents[1]
SIDE = """
import json, sys, time
for line in sys.stdin:
    asked = json.loads(line)
    if asked == {"sleep": True}:
        time.sleep(60)
    if asked == {"end": True}:
        break
    print(json.dumps({"asked": asked}), flush=True)
"""


@pytest.fixture
def storm(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return importlib.import_module("storm")


def test_the_query_has_every_limit(storm: Any) -> None:
    mdp = random_cmdp(5, 2, 2, 2, seed=0, horizon=7, limits=[0.1, 3.0])
    expected = 'multi(R{"reward"}max=? [C<=7], R{"cost0"}<=0.1 [C<=7], R{"cost1"}<=3.0 [C<=7])'
    assert storm.query(mdp) == expected


def test_a_slow_answer_is_none_and_the_next_question_starts_anew(storm: Any, tmp_path: Path) -> None:
    side = tmp_path / "side.py"
    side.write_text(SIDE)
    asked = storm.Storm(sys.executable, time_limit=20.0)
    asked.command = [sys.executable, str(side)]
    try:
        assert asked.ask({"path": "x"}) == {"asked": {"path": "x"}}
        assert asked.ask(None) == {"asked": None}
        asked.time_limit = 0.1
        assert asked.ask({"sleep": True}) is None
        asked.time_limit = 20.0
        assert asked.ask(None) == {"asked": None}
        with pytest.raises(SystemExit, match="ended without an answer"):
            asked.ask({"end": True})
    finally:
        asked.end()
