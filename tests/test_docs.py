"""The documentation: every block runs and prints what is shown, every link leads somewhere, the site builds."""

from __future__ import annotations

import html
import importlib.util
import re
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
import trackers
from launch import launch
from pages import ROOT, commands, python_examples, run_commands, run_python, write_files

import conrl

DOCS = ROOT / "docs"
PAGES = {str(path.relative_to(ROOT)): path.read_text() for path in (ROOT / "README.md", *sorted(DOCS.rglob("*.md")))}
WITH_PYTHON = [name for name, text in PAGES.items() if python_examples(text, name).examples]
WITH_COMMANDS = [name for name, text in PAGES.items() if commands(text)]


def test_every_block_is_run_or_is_a_file() -> None:
    """A fence without a language, or with another one, would be shown and never tried."""
    for name, text in PAGES.items():
        for language in re.findall(r"^```([^\n]*)\n.*?^```$", text, flags=re.DOTALL | re.MULTILINE):
            assert re.fullmatch(r"python|console|(csv|drn|js|python|toml) [\w.-]+", language), f"{name}: ```{language}"


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


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = launch([sys.executable, str(DOCS / "build.py"), str(out)])
    assert done.returncode == 0, done.stdout + done.stderr
    return out


def test_every_link_of_the_site_leads_somewhere(site: Path) -> None:
    found = sorted(site.rglob("*.html"))
    assert len(found) >= 18
    anchors = {path: set(re.findall(r"id=\"([^\"]+)\"", path.read_text())) for path in found}
    for path in found:
        for link in re.findall(r"(?:href|src)=['\"]([^'\"]+)['\"]", path.read_text()):
            if re.match(r"https?:", link):
                continue
            name, _, anchor = html.unescape(unquote(link)).partition("#")
            target = (path.parent / name).resolve() if name else path
            assert target.exists(), f"{path.name}: {link}"
            if anchor:
                assert anchor in anchors[target], f"{path.name}: {link}"


def test_the_reference_has_every_public_name(site: Path) -> None:
    text = (site / "reference.html").read_text()
    for name in conrl.__all__:
        if not name.startswith("_"):
            assert re.search(rf"<h2[^>]*>(conrl\.)?{name}</h2>", text), name
    assert " at 0x" not in text


def test_the_site_loads_nothing_from_a_network(site: Path) -> None:
    for path in site.rglob("*.html"):
        assert not re.search(r"<script|<link[^>]+https?:|src=['\"]https?:", path.read_text())


def test_the_journey_of_a_number(tmp_path: Path) -> None:
    """The picture of the architecture is drawn from a journey that is made; the modules it names are there."""
    spec = importlib.util.spec_from_file_location("journey", DOCS / "journey.py")
    assert spec is not None
    assert spec.loader is not None
    journey = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(journey)
    stops = journey.travel(tmp_path)
    assert len(stops) == 10
    for stop in stops:
        for module in stop.modules:
            assert (DOCS.parent / "src" / "conrl" / module).exists(), module
    assert "new,run fast,new,0.7,10,0,3" in stops[0].value
    assert journey.draw(stops).get_axes()
