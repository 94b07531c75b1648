"""Terminals of any width, pipes and colours: what the commands print is what people expect there."""

from __future__ import annotations

import fcntl
import io
import os
import pty
import re
import struct
import subprocess
import sys
import termios

import pytest
from rich.console import Console
from rich.text import Text

from conrl.terminal import Numbers, facts_column

ESCAPE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")
COLOUR = re.compile(r"\x1b\[(?:[0-9;]*;)?(?:3[0-7]|9[0-7]|38|4[0-7])(?:;[0-9;]*)?m")
PLAN = ("plan", "mars-rover", "--set", "rock_reward=1", "--simulate", "200")


def on_terminal(columns: int, *arguments: str, **env: str) -> str:
    """What a command writes to a terminal of that width, stdout and stderr."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 40, columns, 0, 0))
    inherited = {k: v for k, v in os.environ.items() if k not in ("COLUMNS", "LINES", "NO_COLOR", "FORCE_COLOR")}
    process = subprocess.Popen(
        [sys.executable, "-m", "conrl", *arguments],
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env=inherited | {"TERM": "xterm-256color", "PYTHONIOENCODING": "utf-8"} | env,
    )
    os.close(theirs)
    caught = b""
    try:
        while chunk := os.read(ours, 65536):
            caught += chunk
    except OSError:  # the other end is closed
        pass
    os.close(ours)
    assert process.wait() == 0, caught
    return caught.decode()


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
    assert "means of 20 above" in text
    assert max(len(line.rstrip()) for line in lines(text)) <= 50


@pytest.mark.parametrize("columns", [45, 200])
def test_the_same_numbers_whatever_the_width(columns: int) -> None:
    """None is broken over two lines, or cut."""
    text = " ".join(lines(on_terminal(columns, *PLAN)))
    for number in ("1.536288439", "0.3", "mars-rover: 64 states"):
        assert number in text, number
    assert "…" not in text


@pytest.mark.parametrize("arguments", [PLAN, ("envs",), ("algorithms",)], ids=lambda a: a[0])
def test_a_pipe_gets_plain_lines(arguments: tuple[str, ...]) -> None:
    done = subprocess.run([sys.executable, "-m", "conrl", *arguments], capture_output=True, check=True)
    text = done.stdout.decode()
    assert "\x1b" not in text
    assert [line for line in text.splitlines() if line != line.rstrip()] == []
    assert done.stderr == b""


def test_no_color() -> None:
    assert COLOUR.search(on_terminal(80, *PLAN))
    assert not COLOUR.search(on_terminal(80, *PLAN, NO_COLOR="1"))
    assert "\x1b" not in on_terminal(80, *PLAN, TERM="dumb")


def test_a_table_that_does_not_fit_puts_its_cells_below_each_other() -> None:
    table = Numbers("cost", "expected", "limit")
    table.add_row("crash", "0.123456789", "0.3")
    table.add_row("fuel", Text("12"), "")
    table.add_row("(3 more)")

    def drawn(width: int) -> list[str]:
        file = io.StringIO()
        Console(file=file, width=width).print(table)
        return [line.rstrip() for line in file.getvalue().splitlines() if line.strip()]

    assert drawn(40)[0].split() == ["cost", "expected", "limit"]
    assert drawn(28) == [
        "cost crash",
        "  expected     0.123456789",
        "  limit        0.3",
        "cost fuel",
        "  expected     12",
        "cost (3 more)",
    ]
    assert "".join(drawn(20)).replace(" ", "").startswith("costcrashexpected0.12")  # on a watch: broken, but not cut
    assert "…" not in "".join(drawn(20))


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
