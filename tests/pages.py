"""Running a page of the documentation: its files are written, its Python and commands print what is shown."""

from __future__ import annotations

import doctest
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

from commands import said
from launch import launch

ROOT = Path(__file__).parents[1]
FLAGS = doctest.NORMALIZE_WHITESPACE | doctest.ELLIPSIS
# Whether `make setup` has made the environment that runs this; without it the commands of a clone cannot be run.
IS_SET_UP = Path(sys.prefix, "installed").exists()


def blocks(text: str, kind: str) -> list[str]:
    return re.findall(rf"^```{kind}\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE)


def python_examples(text: str, name: str) -> doctest.DocTest:
    return doctest.DocTestParser().get_doctest("\n".join(blocks(text, "python")), {}, name, name, 0)


def commands(text: str) -> list[tuple[str, str]]:
    """Each command with the output shown below it, or nothing."""
    return re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", "".join(blocks(text, "console")), flags=re.MULTILINE)


def write_files(text: str, folder: Path) -> None:
    """Blocks that are files have their name after the language."""
    for name, body in re.findall(r"^```\w+ ([\w.-]+)\n(.*?)^```", text, flags=re.DOTALL | re.MULTILINE):
        (folder / name).write_text(body)


def shell(command: str, folder: Path) -> subprocess.CompletedProcess[str]:
    """As typed in a shell with the environment activated."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return launch(["bash", "-c", command], cwd=folder, env=os.environ | {"PATH": path, "PYTHON": sys.executable})


def run_python(text: str, name: str) -> None:
    output: list[str] = []
    result = doctest.DocTestRunner(optionflags=FLAGS).run(python_examples(text, name), out=output.append)
    assert result.failed == 0, "".join(output)


def run_commands(text: str, folder: Path) -> None:
    for command, shown in commands(text):
        expected = int(code.group(1)) if (code := re.search(r"# exit (\d)", command)) else 0
        in_clone = command.startswith(("make ", ". .venv"))
        if (in_clone and not IS_SET_UP) or (command.startswith("node ") and shutil.which("node") is None):
            continue
        done = shell(command, ROOT if in_clone else folder)
        printed = done.stdout + said(done.stderr)
        assert done.returncode == expected, f"{command}\n{printed}"
        if not in_clone or shown:
            assert shown.strip() != "...", f"{command} shows nothing of what it prints"
            assert doctest.OutputChecker().check_output(shown, printed, FLAGS), f"{command}\n{printed}"
