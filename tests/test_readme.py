"""Every code block and command of the README does what it says."""

from __future__ import annotations

import doctest
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
README = (ROOT / "README.md").read_text()


def blocks(kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", README, flags=re.DOTALL | re.MULTILINE)


def run(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """As typed in a shell with the environment activated."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return subprocess.run(
        ["bash", "-c", command],
        cwd=folder,
        env=os.environ | {"PATH": path},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def test_python_blocks_print_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    text = "\n".join(blocks("python"))
    example = doctest.DocTestParser().get_doctest(text, {}, "README", "README.md", 0)
    assert len(example.examples) >= 15
    output: list[str] = []
    flags = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
    result = doctest.DocTestRunner(optionflags=flags).run(example, out=output.append)
    assert result.failed == 0, "".join(output)


def test_console_blocks_run(tmp_path: Path) -> None:
    for block in blocks("csv"):
        (tmp_path / "machine.csv").write_text(block)
    for block in blocks("toml"):
        (tmp_path / "study.toml").write_text(block)
    commands = [line[2:] for block in blocks("console") for line in block.splitlines() if line.startswith("$ ")]
    assert len(commands) >= 6
    for command in commands:
        expected = int(found.group(1)) if (found := re.search(r"# exit (\d)", command)) else 0
        in_clone = command.startswith(("make ", ". .venv"))
        if in_clone and not (ROOT / ".venv" / "installed").exists():
            continue  # run by another environment than the one that `make setup` makes
        done = run(command, ROOT if in_clone else tmp_path)
        assert done.returncode == expected, f"{command}\n{done.stdout}{done.stderr}"
    assert (tmp_path / "frontier.png").stat().st_size > 10_000


def test_the_machine_example_tells_limits_and_prices(tmp_path: Path) -> None:
    (tmp_path / "machine.csv").write_text(blocks("csv")[0])
    done = run("conrl plan machine.csv --horizon 20 --limit repairs=2 --limit energy=35", tmp_path)
    for word in ("repairs", "energy", "price", "gap", "optimal"):
        assert word in done.stdout
    conflict = run("conrl plan machine.csv --horizon 20 --floor energy=50 --limit repairs=1", tmp_path)
    assert "energy >= 50" in conflict.stderr
    assert "repairs <= 1" in conflict.stderr


@pytest.mark.parametrize("path", sorted({*re.findall(r"\]\(([^)#]+)\)", README)}))
def test_links_lead_somewhere(path: str) -> None:
    assert (ROOT / path).exists()


def test_demo_draws_the_figure_and_writes_the_report(tmp_path: Path) -> None:
    if not (ROOT / ".venv" / "installed").exists():
        pytest.skip("run by another environment than the one that `make setup` makes")
    done = run(f"make demo OUT={tmp_path}/demo", ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("figure1.png", "figure1.pdf", "summary.csv", "report.html"):
        assert (tmp_path / "demo" / name).stat().st_size > 1000
    assert f"{tmp_path}/demo/report.html" in done.stdout
