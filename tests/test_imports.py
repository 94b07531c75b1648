"""No file makes anybody run code: what a spec or a saved run names is imported only if the user says so.

Nor is the current directory, where such files may lie, searched for modules.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from commands import ok, refused, said
from launch import launch

import conrl
from conrl.experiments import Job, Run, load, load_spec, parse_spec
from conrl.experiments.report import write_report

# What `conrl` needs from the standard library and from others, early and late; workers of a study too.
SHADOWS = ("click", "selectors", "tempfile", "socket", "numba", "gymnasium", "multiprocessing", "runpy", "rich")
TRAP = "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\n"
EVIL = TRAP + (
    "import gymnasium\n"
    "from conrl.envs import CMDPEnv, box\n"
    "def make(render_mode=None): return CMDPEnv(box(), render_mode)\n"
    "if 'Evil-v0' not in gymnasium.registry: gymnasium.register('Evil-v0', entry_point=make)\n"
)
NAME = "gymnasium:evilmod:Evil-v0"
SPEC = f'episodes = 3\n[environment.evil]\nmodel = "{NAME}"\n[algorithm.ucbvi]\n'
TUNE = f"{SPEC}[tune.parameters]\nscale = [0.1]\n"


@pytest.fixture
def trap(tmp_path: Path) -> Path:
    """A directory with a module that leaves a trace when it is imported."""
    (tmp_path / "evilmod.py").write_text(EVIL)
    (tmp_path / "spec.toml").write_text(SPEC)
    (tmp_path / "tune.toml").write_text(TUNE)
    return tmp_path


def ran(folder: Path) -> list[str]:
    return sorted(path.stem for path in folder.glob("*.ran"))


def command(folder: Path, *words: object, path: str = "", how: str = "module") -> subprocess.CompletedProcess[str]:
    """A command in a directory of its own process, with another one on its path if asked."""
    script = [str(Path(sys.executable).parent / "conrl")] if how == "script" else [sys.executable, "-m", "conrl"]
    environment = os.environ | {"PYTHONPATH": path}
    return launch([*script, *map(str, words)], cwd=folder, env=environment)


def saved(folder: Path, **about: Any) -> Path:
    """A run on disk whose files say something else about its environment."""
    Run(Job(env="box", algorithm="ucbvi", episodes=3), folder / "runs").play()
    path = folder / "runs" / "box" / "ucbvi" / "seed-000" / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | about))
    return folder / "runs"


ABOUT: dict[str, dict[str, Any]] = {
    "a module": {"env": NAME},
    "and a permission": {"env": NAME, "settings": {"allow_import": True}, "allow_import": True},
    "behind a built-in one": {"env": "gymnasium:conrl/Box-v0", "settings": {"model": NAME}},
    "twice": {"env": f"gymnasium:evilmod:{NAME}"},
    "a function": {"env": "gymnasium:FrozenLake-v1", "cost": "evilmod:make"},
    "a plug-in": {"env": "evil", "plugins": {"environment": {"name": "evil", "module": "evilmod"}}},
}


@pytest.mark.parametrize("case", ABOUT)
def test_a_report_imports_nothing(case: str, trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even what could be imported."""
    monkeypatch.syspath_prepend(trap)
    runs = saved(trap, **ABOUT[case])
    write_report(runs)
    (run,) = load(runs).environments.values()
    assert run.mdp is None
    study = {"environments": {"box": {"directory": "box", **ABOUT[case]}}}
    (runs / "study.json").write_text(json.dumps(study))
    assert load(runs).environments["box"].mdp is None
    assert ran(trap) == []
    assert "evilmod" not in sys.modules


@pytest.mark.parametrize("how", ["module", "script"])
def test_the_report_of_hostile_files_where_they_lie(how: str, trap: Path) -> None:
    saved(trap, env=NAME)
    for name in SHADOWS:
        (trap / f"{name}.py").write_text(TRAP)
    done = command(trap, "report", "runs", how=how)
    assert done.returncode == 0
    assert said(done.stderr).startswith(f"box: nothing is compared with the model: {NAME} names the module 'evilmod'")
    assert ran(trap) == []


def test_workers_do_not_search_the_current_directory(trap: Path) -> None:
    for name in SHADOWS:
        (trap / f"{name}.py").write_text(TRAP)
    (trap / "box.toml").write_text("episodes = 3\n[environment.box]\n[algorithm.ucbvi]\n")
    done = command(trap, "run", "box.toml", "--workers", 1)
    assert (done.returncode, said(done.stderr)) == (0, "")
    assert ran(trap) == []


# -- specs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("words", [("run", "spec.toml"), ("tune", "tune.toml")])
def test_a_spec_cannot_ask_for_an_import(words: tuple[str, str], trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(trap)
    monkeypatch.chdir(trap)
    told = refused(*words)
    assert told.startswith(f"{words[1]}:3: ucbvi on evil: {NAME} names the module 'evilmod'")
    assert "--allow-import to conrl run or tune" in told
    (trap / "spec.toml").write_text(SPEC.replace("[algorithm", "set = { allow_import = true }\n[algorithm"))
    assert "names the module 'evilmod'" in refused("run", "spec.toml")
    (trap / "spec.toml").write_text(f"allow_import = true\n{SPEC}")
    assert "unknown key 'allow_import'" in refused_lines("run", "spec.toml")
    with pytest.raises(conrl.SpecError, match="names the module 'evilmod'"):
        _ = Run(Job(env=NAME, algorithm="ucbvi", episodes=3)).world
    assert ran(trap) == []


def refused_lines(*words: object) -> str:
    from commands import run

    result = run(*words)
    assert result.exit_code == 2
    return str(result.stderr)


def test_what_the_user_allows_is_imported_by_workers_too(trap: Path) -> None:
    """And the environment, with whatever it starts, has the variables of the user."""
    text = EVIL.replace("def make(render_mode=None):", "def make(render_mode=None):\n    note()\n   ")
    note = "import multiprocessing, os\ndef note():\n    with open(__file__ + '.env', 'a') as file:\n"
    note += "        print(multiprocessing.parent_process() is not None, os.environ.get('PYTHONSAFEPATH'), file=file)\n"
    (trap / "library").mkdir()
    (trap / "library" / "evilmod.py").write_text(note + text)
    (trap / "evilmod.py").unlink()
    words = ("run", "spec.toml", "--allow-import", "--workers", 1)
    done = command(trap, *words)
    assert done.returncode == 2
    assert "evilmod cannot be imported; install it, or name its directory in PYTHONPATH" in done.stderr
    done = command(trap, *words, path=str(trap / "library"))
    assert (done.returncode, said(done.stderr)) == (0, "")
    assert (trap / "spec" / "evil" / "ucbvi" / "seed-000" / "progress.csv").read_text().count("\n") == 4
    noted = set((trap / "library" / "evilmod.py.env").read_text().splitlines())
    assert noted == {"False None", "True None"}  # the command, and its worker


def test_the_current_directory_is_not_searched_even_if_asked(trap: Path) -> None:
    for words in (("run", "spec.toml", "--allow-import"), ("plan", NAME), ("learn", NAME)):
        done = command(trap, *words)
        assert done.returncode == 2
        assert "the current directory is not searched" in done.stderr
        assert done.stderr.count("\n") == 1
    assert ran(trap) == []


def test_what_the_user_types_is_asked_for(trap: Path) -> None:
    done = command(trap, "plan", NAME, "--json", path=str(trap))
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["reward"] == pytest.approx(conrl.plan(conrl.envs.box()).reward)
    assert ran(trap) == ["evilmod"]


def test_a_module_that_is_loaded_may_be_named(trap: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is imported then."""
    spec = parse_spec(SPEC.replace(NAME, "gymnasium:conrl:conrl/Box-v0"))
    assert len(Run(spec.jobs[0]).play()) == 3
    ok("plan", "gymnasium:conrl/Box-v0")
    monkeypatch.syspath_prepend(trap)
    try:
        assert len(Run(load_spec(trap / "spec.toml", allow_import=True).jobs[0]).play()) == 3
        assert Run(load_spec(trap / "spec.toml").jobs[0]).truth is not None
    finally:
        sys.modules.pop("evilmod", None)


def test_built_in_environments_are_no_way_to_others() -> None:
    with pytest.raises(conrl.SpecError, match="unknown environment"):
        conrl.envs.make("gymnasium:conrl/Box-v0", model="gymnasium:FrozenLake-v1")
