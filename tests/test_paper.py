"""docs/paper.md names functions and tests that exist."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import conrl

ROOT = Path(__file__).parents[1]
TEXT = (ROOT / "docs" / "paper.md").read_text()
ROWS = [line for line in TEXT.splitlines() if line.startswith("| ") and "---" not in line and "| paper |" not in line]
TESTS = {
    name for path in (ROOT / "tests").glob("test_*.py") for name in re.findall(r"def (test_\w+)", path.read_text())
}


def test_the_whole_paper_is_listed() -> None:
    for piece in (
        *(f"Algorithm {n}" for n in (1, 2, 3)),
        *(f"Figure {n}" for n in (1, 2)),
        "Table 1, Table 2",
        *("Definition 3.1", "Lemma 3.2", "Proposition 3.3", "Theorem 3.4", "Remark 3.5", "Theorem 4.1", "Theorem 5.1"),
        *("Definition B.1", "Lemma B.2", "Lemma B.3", "Lemma B.4", "Lemma C.1", "Proposition C.2", "Lemma D.1"),
        *("Lemmas F.1, F.2", "Lemma F.3", "Eq. 2, 3", "Eq. 4-7", "Eq. 10, 11", "Eq. 19-21", "Eq. 22-24"),
        *(f"Eq. {n}" for n in (1, 8, 9, 12, 13, 14, 15, 16, 17, 18)),
    ):
        assert any(piece in row.split("|")[1] for row in ROWS), piece


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row.split("|")[1].strip())
def test_functions_and_tests_exist(row: str) -> None:
    _, _, _, functions, tests, _ = row.split("|")
    if not functions.strip().startswith("not yet"):
        assert "`conrl." in functions
        assert "`test_" in tests
    for name in re.findall(r"`conrl\.([\w.]+)`", functions):
        found: object = conrl
        at = "conrl"
        for part in name.split("."):
            at = f"{at}.{part}"
            found = getattr(found, part) if hasattr(found, part) else importlib.import_module(at)
        assert found is not conrl
    for name in re.findall(r"`(test_\w+)`", tests):
        assert name in TESTS, name
