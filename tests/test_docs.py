"""The documentation: every block runs and prints what is shown, every link leads somewhere, the site builds."""

from __future__ import annotations

import doctest
import html
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest

import conrl

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
PAGES = sorted(DOCS.rglob("*.md"))
RUN = [page for page in PAGES if re.search(r"^```(python|console)$", page.read_text(), flags=re.MULTILINE)]


def blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_files(text: str, folder: Path) -> None:
    """Blocks that are files have their name after the language."""
    for name, body in re.findall(r"^```\w+ ([\w.-]+)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
        (folder / name).write_text(body)


def test_pages_with_code_are_found() -> None:
    assert len(RUN) >= 6


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(DOCS)))
def test_python_blocks_print_what_is_shown(page: Path, folder: Path) -> None:
    text = page.read_text()
    write_files(text, folder)
    example = doctest.DocTestParser().get_doctest("\n".join(blocks(text, "python")), {}, page.name, str(page), 0)
    output: list[str] = []
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.DocTestRunner(optionflags=flags).run(example, out=output.append)
    assert result.failed == 0, "".join(output)


@pytest.mark.parametrize("page", RUN, ids=lambda page: str(page.relative_to(DOCS)))
def test_console_blocks_run(page: Path, folder: Path) -> None:
    text = page.read_text()
    write_files(text, folder)
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    for block in blocks(text, "console"):
        for command in (line[2:] for line in block.splitlines() if line.startswith("$ ")):
            expected = int(found.group(1)) if (found := re.search(r"# exit (\d)", command)) else 0
            done = subprocess.run(
                ["bash", "-c", command],
                env=os.environ | {"PATH": path},
                capture_output=True,
                text=True,
                timeout=300,
                check=False,
            )
            assert done.returncode == expected, f"{command}\n{done.stdout}{done.stderr}"


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    done = subprocess.run(
        [sys.executable, str(DOCS / "build.py"), str(out)], capture_output=True, text=True, check=False
    )
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
    assert "new,run fast,new,0.7,10,0,3" in stops[0].found
    assert journey.draw(stops).get_axes()
