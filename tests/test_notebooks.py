"""The notebooks in examples/ run from top to bottom, and every cell shows something that a notebook can show.

A kernel of Jupyter is thirty packages, which nothing else here needs. So cells are run by the rules of Jupyter instead:
one namespace, and the last expression of a cell is shown, as HTML if it has any, as a picture if it is axes.
"""

from __future__ import annotations

import ast
import json
import re
import shutil
from pathlib import Path
from typing import Any

import matplotlib as mpl
import pytest
from pages import ROOT

EXAMPLES = ROOT / "examples"
NOTEBOOKS = sorted(path.name for path in EXAMPLES.glob("*.ipynb"))


def read(name: str) -> dict[str, Any]:
    notebook: dict[str, Any] = json.loads((EXAMPLES / name).read_text())
    return notebook


def run_cell(source: str, names: dict[str, Any]) -> Any:
    """Run a cell, and give what it shows: the value of its last expression, or None."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, "<cell>", "exec"), names)
    return None if last is None else eval(compile(ast.Expression(last.value), "<cell>", "eval"), names)  # type: ignore[attr-defined]


def test_there_are_two() -> None:
    assert NOTEBOOKS == ["learn.ipynb", "plan.ipynb"]


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_file_is_a_notebook_without_outputs(name: str) -> None:
    """What nbformat 4.5 asks for, and nothing that changes with every run."""
    notebook = read(name)
    assert (notebook["nbformat"], notebook["nbformat_minor"]) == (4, 5)
    assert notebook.keys() == {"cells", "metadata", "nbformat", "nbformat_minor"}
    assert notebook["metadata"]["kernelspec"].keys() == {"name", "display_name", "language"}
    ids = [cell["id"] for cell in notebook["cells"]]
    assert len(set(ids)) == len(ids)
    for cell in notebook["cells"]:
        assert re.fullmatch(r"[a-zA-Z0-9-_]{1,64}", cell["id"])
        assert cell["metadata"] == {}
        assert all(isinstance(line, str) for line in cell["source"])
        assert all(line.endswith("\n") for line in cell["source"][:-1])
        own = {"cell_type", "id", "metadata", "source"}
        if cell["cell_type"] == "code":
            assert cell.keys() == own | {"execution_count", "outputs"}
            assert (cell["execution_count"], cell["outputs"]) == (None, [])
        else:
            assert cell["cell_type"] == "markdown"
            assert cell.keys() == own


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_it_runs_and_every_cell_shows_something(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from matplotlib import pyplot
    from matplotlib.axes import Axes

    mpl.use("Agg")
    for path in EXAMPLES.glob("*.csv"):
        shutil.copy(path, tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    names: dict[str, Any] = {"__name__": "__main__"}
    pictures = 0
    for cell in read(name)["cells"]:
        if cell["cell_type"] != "code":
            continue
        shown = run_cell("".join(cell["source"]), names)
        assert shown is not None, cell["id"]
        if isinstance(shown, Axes):
            pictures += 1
            assert pyplot.get_fignums()
            assert shown in pyplot.gcf().axes  # a notebook shows no other figures
            pyplot.close("all")
        elif hasattr(shown, "_repr_html_"):
            assert (shown._repr_html_() or "").count("<t") >= 4
        else:
            assert " at 0x" not in repr(shown)
    assert pictures >= 3
