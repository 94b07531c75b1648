"""The README is short, and its example and the demo do what it says; `test_docs.py` runs its blocks."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from pages import IS_SET_UP, ROOT, shell, write_files

README = (ROOT / "README.md").read_text()


def test_it_is_short() -> None:
    assert len(README.encode()) <= 7_000


def test_the_machine_example_tells_limits_and_prices(tmp_path: Path) -> None:
    write_files(README, tmp_path)
    done = shell("conrl plan machine.csv --horizon 20 --limit repairs=2 --limit energy=35", tmp_path)
    for word in ("repairs", "energy", "price", "gap", "optimal"):
        assert word in done.stdout
    conflict = shell("conrl plan machine.csv --horizon 20 --floor energy=50 --limit repairs=1", tmp_path)
    assert "energy >= 50" in conflict.stderr
    assert "repairs <= 1" in conflict.stderr


@pytest.mark.parametrize("path", sorted({*re.findall(r"\]\(([^)#]+)\)", README)}))
def test_links_lead_somewhere(path: str) -> None:
    assert (ROOT / path).exists()


def test_demo_draws_the_figure_and_writes_the_report(tmp_path: Path) -> None:
    if not IS_SET_UP:
        pytest.skip("run by another environment than the one that `make setup` makes")
    done = shell(f"make demo OUT={tmp_path}/demo", ROOT)
    assert done.returncode == 0, done.stdout + done.stderr
    for name in ("figure1.png", "figure1.pdf", "summary.csv", "report.html"):
        assert (tmp_path / "demo" / name).stat().st_size > 1000
    assert f"{tmp_path}/demo/report.html" in done.stdout
