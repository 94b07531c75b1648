"""The documentation: every block runs and prints what is shown, and nothing where nothing is shown."""

from __future__ import annotations

import importlib.util
import inspect
import re
import sys
from pathlib import Path
from types import FrameType

import pytest
import trackers
from pages import ROOT, commands, python_examples, run_commands, run_python, write_files

DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))}
WITH_PYTHON = [name for name, text in PAGES.items() if python_examples(text, name).examples]
WITH_COMMANDS = [name for name, text in PAGES.items() if commands(text)]


def test_every_block_is_run_or_is_a_file() -> None:
    """A fence without a language, or with another one, would be shown and never tried."""
    for name, text in PAGES.items():
        for language in re.findall(r"^```([^\n]*)\n.*?^```$", text, flags=re.DOTALL | re.MULTILINE):
            assert re.fullmatch(r"\{eval-rst\}|python|console|(csv|drn|js|python|toml) [\w.-]+", language), (
                f"{name}: ```{language}"
            )


def test_the_pages_with_code_are_found() -> None:
    assert len(WITH_PYTHON) >= 9
    assert len(WITH_COMMANDS) >= 7
    assert sum(len(python_examples(PAGES[name], name).examples) for name in WITH_PYTHON) >= 100
    assert sum(len(commands(PAGES[name])) for name in WITH_COMMANDS) >= 20


@pytest.mark.parametrize("name", WITH_PYTHON)
def test_python_blocks_print_what_is_shown(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write_files(PAGES[name], tmp_path)
    runs = trackers.install(monkeypatch) if name == TRACKERS else {}
    run_python(PAGES[name], name)
    for live, *study in runs.values():  # the services are not asked; what they would have been told is looked at
        assert not any(run.open for run in (live, *study))
        assert [step for step, _ in live.logged] == list(range(1, 51))
        assert {"reward", "cost_crash", "expected_reward"} <= live.logged[-1][1].keys()
        assert live.summary["strong_regret"] > 0.0
        assert all(
            len(run.logged) == 20 and {"strong_violation_energy", "cost_latency"} <= run.summary.keys() for run in study
        )


TRACKERS = "docs/how-to/trackers.md"


@pytest.mark.parametrize("name", WITH_COMMANDS)
def test_commands_run_and_print_what_is_shown(name: str, tmp_path: Path) -> None:
    write_files(PAGES[name], tmp_path)
    run_commands(PAGES[name], tmp_path)
    for command, _ in commands(PAGES[name]):
        for path in re.findall(r"--(?:out|csv) (\S+)", command):
            assert (tmp_path / path).exists(), f"{command} wrote no {path}"


def test_the_journey_of_a_number(tmp_path: Path) -> None:
    """The picture of the architecture is drawn from a journey that is made, through the modules that it names."""
    spec = importlib.util.spec_from_file_location("journey", DOCS / "journey.py")
    assert spec is not None
    assert spec.loader is not None
    journey = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(journey)
    source, passed = ROOT / "src" / "conrl", set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call" and frame.f_code.co_flags & inspect.CO_OPTIMIZED:  # of a function, not of an import
            passed.add(frame.f_code.co_filename)

    before = sys.getprofile()
    sys.setprofile(note)
    try:
        stops = journey.travel(tmp_path)
    finally:
        sys.setprofile(before)
    assert len(stops) == 14
    assert len({stop.place for stop in stops}) == 14
    assert "new,run fast,new,0.7,10,0,3" in stops[0].value
    for stop in stops:
        for module in stop.modules:
            assert (source / module).exists(), module
            compiled = module.startswith("kernels/")  # runs without a frame of Python
            assert compiled or any(Path(name).is_relative_to(source / module) for name in passed), module
    assert journey.draw(stops).get_axes()
