"""The shape of the package itself: public names, import directions, no printing, quick start."""

from __future__ import annotations

import ast
import importlib.metadata
import re
import sys
from pathlib import Path

import pytest
from launch import launch

import conrl

SOURCE = Path(conrl.__file__).parent
MODULES = sorted(p for p in SOURCE.rglob("*.py"))

# Each layer may import those before it (and its own).
LAYERS = [
    {"looks"},
    {"_types", "errors", "registration", "rounding", "signals", "wording"},
    {"notebook", "foreign", "sizes", "without_numba"},
    {"arguments", "bounds", "kernels", "matching", "plugins"},
    {"model", "sampling"},
    {"io", "metrics", "targets"},
    {"envs", "episode", "policy", "problem"},
    {"mixture", "stationary_policy"},
    {"spending"},
    {"evaluation", "oracles", "policy_json", "policy_map"},
    {"episode_totals", "simulation", "unplanned"},
    {"policy_file"},
    {"planners", "policy_loading"},
    {"convex", "theory"},
    {"estimation"},
    {"planning"},
    {"learners"},
    {"running"},
    {"drawing", "explorer"},
    {"plots"},
    {"experiments"},
    {"cli"},
    {"__main__"},
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}
# Imports that go up, and not before they are called: a result has methods `plot` and `to_html`, and what draws it knows
# results.
UPWARD = {("notebook", "plots"), ("planners", "explorer")}


def imports(path: Path) -> set[str]:
    """Modules of conrl that a file imports when run (not those for type checkers only), by their first name."""
    tree = ast.parse(path.read_text())
    skipped = {
        id(inner)
        for node in ast.walk(tree)
        if isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)
        for inner in ast.walk(node)
    }
    found = set()
    for node in ast.walk(tree):
        if id(node) in skipped:
            continue
        if isinstance(node, ast.ImportFrom) and node.module == "conrl":
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and (node.module or "").startswith("conrl."):
            found.add(str(node.module).split(".")[1])
        elif isinstance(node, ast.Import):
            found |= {a.name.split(".")[1] for a in node.names if a.name.startswith("conrl.")}
    return found


@pytest.mark.parametrize("path", MODULES, ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_go_one_way(path: Path) -> None:
    own = path.relative_to(SOURCE).parts[0].removesuffix(".py")
    if own == "__init__":
        return
    assert own in LEVEL, f"{own} has no layer; give it one in this test and in docs/architecture.md"
    for other in imports(path) - {own}:
        if (own, other) in UPWARD:
            assert not re.search(rf"^from conrl.{other}", path.read_text(), re.MULTILINE), "import it in the method"
        elif other in LEVEL:
            assert LEVEL[other] < LEVEL[own], f"{own} imports {other}, which is not below it"


def test_the_import_that_goes_up_waits_until_it_is_called() -> None:
    tree = ast.parse((SOURCE / "notebook.py").read_text())
    at_once = [ast.unparse(node) for node in tree.body if isinstance(node, (ast.Import, ast.ImportFrom))]
    assert not [text for text in at_once if "conrl.plots" in text]
    (waiting,) = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == "plot"]
    assert "from conrl.plots import draw" in ast.unparse(waiting)
    code = "import sys, conrl; conrl.plan(conrl.envs.box()); print('conrl.plots' in sys.modules)"
    assert launch([sys.executable, "-c", code]).stdout == "False\n"


def test_envs_and_io_import_the_model_and_nothing_above() -> None:
    below = set().union(*LAYERS[: LEVEL["model"] + 1])
    for name, more in (("envs", {"io"}), ("io", set())):  # the name of a model may be that of a file
        for path in MODULES:
            if path.relative_to(SOURCE).parts[0].removesuffix(".py") == name:
                assert imports(path) - {name, "__version__"} <= below | more, path


def test_all_names_exist_and_nothing_else_is_public() -> None:
    assert sorted(conrl.__all__) == sorted([*conrl._HOME, *conrl._MODULES, "__version__"])
    for name in conrl.__all__:
        assert getattr(conrl, name) is not None
    text = (SOURCE / "__init__.py").read_text()
    checked = text[text.index("if TYPE_CHECKING:") :]
    for name in conrl.__all__:
        if name != "__version__":
            assert re.search(rf"\b{name}\b", checked), f"{name} is not imported for type checkers"
    with pytest.raises(AttributeError, match="no attribute 'plam'"):
        _ = conrl.plam


def test_every_module_says_what_it_is() -> None:
    for path in MODULES:
        assert ast.get_docstring(ast.parse(path.read_text())), f"{path} has no docstring"


@pytest.mark.parametrize("name", [n for n in conrl.__all__ if n != "__version__"])
def test_public_names_have_docstrings(name: str) -> None:
    assert (getattr(conrl, name).__doc__ or "").strip(), name


def test_the_architecture_names_every_module() -> None:
    text = (SOURCE.parents[1] / "docs" / "architecture.md").read_text()
    for path in MODULES:
        parts = path.relative_to(SOURCE).parts
        if path.name not in ("__init__.py", "__main__.py"):
            assert f"`{path.name}`" in text, f"docs/architecture.md does not say what {'/'.join(parts)} is for"
    for name in set(re.findall(r"`(\w+\.py)`", text)):
        assert any(path.name == name for path in MODULES), f"docs/architecture.md speaks of {name}, which is not there"


def test_no_pickle_and_no_fast_math() -> None:
    for path in MODULES:
        text = path.read_text()
        assert "fastmath" not in text
        assert not re.search(r"\bimport (pickle|marshal|shelve)\b", text)
        assert "allow_pickle=True" not in text


def test_import_is_light() -> None:
    code = "import sys, conrl; print([m for m in ('numpy', 'numba', 'scipy', 'gymnasium', 'rich') if m in sys.modules])"
    done = launch([sys.executable, "-c", code])
    assert (done.returncode, done.stdout, done.stderr) == (0, "[]\n", "")


def test_a_plan_loads_only_what_it_needs() -> None:
    """Most of the time of a warm `conrl plan` is loading; scipy.linalg, which numba asks for, stays usable."""
    code = (
        "import sys\nfrom conrl.cli.main import main\ntry:\n    main(['plan', 'mars-rover', '--json'])\n"
        "except SystemExit as stop:\n    assert stop.code == 0\n"
        "heavy = ('scipy.sparse', 'scipy.linalg', 'scipy.special', 'gymnasium', 'matplotlib', 'cvxpy', 'clarabel')\n"
        "print([m for m in heavy if m in sys.modules], file=sys.stderr)\n"
        "import scipy.linalg\nassert scipy.linalg.det([[2.0]]) == 2.0"
    )
    done = launch([sys.executable, "-c", code])
    assert (done.returncode, done.stderr) == (0, "[]\n")


def test_how_to_cite_is_of_this_version() -> None:
    root = SOURCE.parents[1]
    assert f"\nversion: {conrl.__version__}\n" in (root / "CITATION.cff").read_text()
    assert f"version = {{{conrl.__version__}}}" in (root / "docs" / "paper.md").read_text()
    assert f"\n## {conrl.__version__} ({_released(root)})" in (root / "CHANGELOG.md").read_text()


def _released(root: Path) -> str:
    (day,) = re.findall(r"^date-released: (\S+)$", (root / "CITATION.cff").read_text(), flags=re.MULTILINE)
    return str(day)


def test_docstrings_cite_the_paper_by_numbers() -> None:
    """The labels of its source are in no copy that anybody reads."""
    for path in SOURCE.rglob("*.py"):
        assert not re.search(r"Eqs?\. \([A-Za-z]", path.read_text()), path


def test_version_is_the_one_installed() -> None:
    assert importlib.metadata.version("conrl") == conrl.__version__
    assert f"\n## {conrl.__version__} (" in (SOURCE.parents[1] / "CHANGELOG.md").read_text()


def test_what_is_printed_at_a_prompt_is_one_line(tmp_path: Path) -> None:
    from conrl.experiments import Run, load, parse_spec

    mdp = conrl.envs.mars_rover()
    spec = parse_spec("episodes = 3\n[environment.box]\n[algorithm.ucbvi]")
    Run(spec.jobs[0], tmp_path).play()
    study = load(tmp_path)
    things = [mdp, mdp.task, conrl.ConRL(mdp.task), conrl.frontier(mdp, max_vertices=3), study, *study.runs]
    for thing in [*things, *study.curves("box")]:
        text = repr(thing)
        assert "\n" not in text, text
        assert 10 < len(text) < 200, text
        assert type(thing).__name__ in text


def test_swapped_arguments_are_told(tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match=r"the path first: save_model\(path, mdp\)"):
        conrl.save_model(conrl.envs.box(), tmp_path / "m.npz")  # type: ignore[arg-type]
