"""Terminals of any width, pipes and colours: what the commands print is what people expect there."""

from __future__ import annotations

import csv
import fcntl
import io
import json
import os
import pty
import re
import select
import struct
import sys
import termios
from contextlib import suppress
from pathlib import Path

import pytest
from launch import PATIENCE, launch, launched
from rich.console import Console
from rich.text import Text

from conrl.cli.terminal import Numbers
from conrl.running.progress import facts_column

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|9[0-7]|38|4[0-7])(?:;[0-9;]*)?m")
PLAN = ("plan", "mars-rover", "--set", "rock_reward=1", "--simulate", "200")


def on_terminal(columns: int, *arguments: str, **env: str) -> str:
    """What a command writes to a terminal of that width, stdout and stderr."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    inherited = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")}
    inherited |= {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"} | env
    words, caught = [sys.executable, "-m", "conrl", *arguments], b""
    with launched(words, stdin=theirs, stdout=theirs, stderr=theirs, env=inherited) as process:
        os.close(theirs)
        with open(ours, "rb", buffering=0) as terminal, suppress(OSError):  # which it is once the other end is closed
            while select.select([terminal], [], [], PATIENCE)[0]:
                caught += terminal.read(65536)
        assert process.wait(PATIENCE) == 0, caught
    return caught.decode()


def piped_out(*arguments: str) -> str:
    """What it writes to a pipe."""
    done = launch([sys.executable, "-m", "conrl", *arguments])
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def lines(text: str) -> list[str]:
    """What a reader sees: the text of each line, as it was drawn last."""
    return [line.rsplit("\r", 1)[-1] for line in ESCAPE.sub("", text).replace("\r\n", "\n").split("\n")]


@pytest.mark.parametrize("columns", [45, 60, 80])
@pytest.mark.parametrize(
    "arguments", [PLAN, ("envs",), ("algorithms",), ("frontier", "mars-rover")], ids=lambda a: a[0]
)
def test_no_line_is_wider_than_the_terminal(columns: int, arguments: tuple[str, ...]) -> None:
    wide = [line for line in lines(on_terminal(columns, *arguments)) if len(line.rstrip()) > columns]
    assert not wide


def test_learning_fits_a_narrow_terminal_with_its_progress() -> None:
    text = on_terminal(50, "learn", "mars-rover", "--set", "rock_reward=1", "--episodes", "60")
    assert "60/60" in text  # the bar
    assert "violations" in text
    assert max(len(line.rstrip()) for line in lines(text)) <= 50


def test_a_study_fits_eighty_columns(tmp_path: Path) -> None:
    """Its tables stand as tables; a program gets the same numbers as JSON, without infinities."""
    runs = str(tmp_path / "runs")
    rover = ("learn", "mars-rover", "--set", "rock_reward=1", "--episodes", "120", "--out", runs)
    piped_out(*rover)
    piped_out(*rover, "--algorithm", "ucbvi")
    shown = [line.rstrip() for line in lines(on_terminal(80, "report", runs))]
    assert max(map(len, shown)) <= 80
    heads = [line.split() for line in shown if "average" in line and "strong" in line]
    assert heads[0] == ["reward", "last", "average", "regret", "safe", "strong", "solved"]
    assert heads[1] == ["cost", "last", "average", "violations", "single", "over", "strong", "slope"]
    found = json.loads(piped_out("report", runs, "--json"))
    assert [row["algorithm"] for row in found["rows"]] == ["conrl", "ucbvi"]
    for row in found["rows"]:
        assert any(f"{row['last_iterate_reward']:.4g}" in line for line in shown)
        assert any(f"{row['strong_violation']:.4g}" in line for line in shown)
        assert row["average_policy_cost"] is not None
    assert (found["margin"], found["tolerance"]) == (0.05, 1e-6)
    assert found["wrote"] == [str(Path(runs) / "report.html")]


NAMES = {  # that are wider than a terminal, and of signs that take two columns or end a line elsewhere
    "state": "a state with a name that no narrow terminal has room for",
    "cost": "the kilowatt-hours that are taken from the grid at night",
    "action": "充電 then wait\u2028a while",
}


def write_model(folder: Path, costs: int = 1) -> str:
    """A model with names that are hard to show; two policies are mixed at its limit."""
    path = folder / "model.csv"
    names = [f"cost_{NAMES['cost']} {i}" for i in range(costs)]
    head = ["state", "action", "next_state", "probability", "reward", *names]
    state, action = NAMES["state"], NAMES["action"]
    rows = [[state, action, state, 1, 1.23456789] + [1] * costs, [state, "wait", state, 1, 0.5] + [0] * costs]
    with path.open("w", newline="", encoding="utf-8") as file:
        csv.writer(file).writerows([head, *rows])
    return str(path)


def numbers(text: str) -> set[str]:
    return set(re.findall(r"\d+\.\d+", text))


@pytest.mark.parametrize("columns", [40, 45, 60, 80, 200])
def test_nothing_is_lost_in_a_narrow_terminal(columns: int, tmp_path: Path) -> None:
    """The numbers are those that a pipe gets, none is broken or cut, and names are whole once lines are joined."""
    limit = f"{NAMES['cost']} 0=1.5"
    words = ("plan", write_model(tmp_path), "--horizon", "7", "--limit", limit)
    piped = piped_out(*words)
    shown = lines(on_terminal(columns, *words))
    assert {number for number in numbers(piped) if len(number) > 5} <= numbers("\n".join(shown))
    assert "…" not in "".join(shown)
    whole = "".join("".join(shown).split())
    for name in (NAMES["cost"], NAMES["state"], NAMES["action"].replace("\u2028", "\\u2028")):
        assert "".join(name.split()) in whole, name


def test_a_map_that_is_too_wide_is_not_cut() -> None:
    """A terminal wraps its lines; the goal at their end is there."""
    rows = json.dumps(["S" + "F" * 38 + "G", "F" * 40])
    words = (
        "plan",
        "gymnasium:FrozenLake-v1",
        "--set",
        f"desc={rows}",
        "--set",
        "is_slippery=false",
        "--horizon",
        "50",
    )
    shown = lines(on_terminal(60, *words))
    assert any(line.startswith("S") and "→" in line and line.rstrip().endswith("G") for line in shown)


def test_a_pipe_gets_tables_of_any_width(tmp_path: Path) -> None:
    words = ("plan", write_model(tmp_path, costs=60), "--horizon", "7", "--limit", f"{NAMES['cost']} 0=1.5")
    piped = piped_out(*words)
    assert max(map(len, piped.split("\n"))) > 1000
    assert "…" not in piped


@pytest.mark.parametrize("arguments", [PLAN, ("envs",), ("algorithms",)], ids=lambda a: a[0])
def test_a_pipe_gets_plain_lines(arguments: tuple[str, ...]) -> None:
    text = piped_out(*arguments)
    assert "\x1b" not in text
    assert [line for line in text.split("\n") if line != line.rstrip()] == []


def test_no_color() -> None:
    assert COLOUR.search(on_terminal(80, *PLAN))
    assert not COLOUR.search(on_terminal(80, *PLAN, NO_COLOR="1"))
    assert "\x1b" not in on_terminal(80, *PLAN, TERM="dumb")


def test_a_table_that_does_not_fit_puts_its_cells_below_each_other() -> None:
    table = Numbers("cost", "expected", "limit")
    table.add_row("crash", "0.123456789", "0.3")
    table.add_row("fuel", Text("12"), "")
    table.add_row("(3 more)")

    def drawn_of(what: Numbers, width: int) -> list[str]:
        file = io.StringIO()
        Console(file=file, width=width).print(what)
        return [line.rstrip() for line in file.getvalue().splitlines() if line.strip()]

    def drawn(width: int) -> list[str]:
        return drawn_of(table, width)

    assert drawn(40)[0].split() == ["cost", "expected", "limit"]
    assert drawn(28) == [
        "cost crash",
        "  expected  0.123456789",
        "  limit     0.3",
        "cost fuel",
        "  expected  12",
        "cost (3 more)",
    ]
    assert drawn(22)[1] == "  expected:"  # no room to align: wrapped, not cut
    assert drawn(22)[2] == "0.123456789"
    assert not Numbers("cost", "expected").rows
    assert drawn_of(Numbers("cost", "expected"), 5) == []


def test_a_progress_bar_gives_way_in_its_last_column() -> None:
    from rich.progress import MofNCompleteColumn, Progress

    file = io.StringIO()
    with Progress(
        MofNCompleteColumn(),
        facts_column("{task.fields[facts]}"),
        console=Console(file=file, width=30, force_terminal=True),
    ) as bar:
        bar.add_task("", total=1000, completed=1000, facts="a long line of facts that cannot fit")
    last = ESCAPE.sub("", file.getvalue()).splitlines()[-1]
    assert last.startswith("1000/1000 a long line of")
    assert last.rstrip().endswith("…")
    assert len(last) <= 30
