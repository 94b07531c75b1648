"""What hostile and clumsy input is made of: odd texts and numbers, and sound input with a few changes."""

from __future__ import annotations

import random
import re
from pathlib import Path
from typing import Any

import numpy as np

MACHINE = """state,action,next_state,probability,reward,cost_repairs,cost_energy
new,run fast,new,0.7,10,0,3
new,run fast,worn,0.3,10,0,3
new,run slow,new,1,6,0,1
worn,run fast,broken,1,9,0,4
worn,repair,new,1,0,1,0
broken,repair,new,1,-5,1,0
"""
LOG = """episode,step,state,action,reward,cost_fuel,next_state
1,0,0,0,1,1,1
1,1,1,1,0,0,1
2,0,0,0,0,1,0
2,1,0,0,1,1,1
"""
POLICY = """step,state,action,probability
0,0,0,0.5
0,0,1,0.5
0,1,1,1
1,0,0,1
1,1,1,1
"""
ODD = (
    *("", " ", "nan", "inf", "-inf", "1e400", "-1", "0", "1e-320", "1e308", "0.30000000000000004", "٣", "½"),
    *("\x00", "\ufeff", "'", '"', ",", "\n", "\r\n", "../../etc/passwd", "%s%n", "=1+1", "<script>", "x" * 5000),
    *("true", "null", "[]", "{}", "0x10", "1_000", "é", "\U0001f600", "9" * 400, "-0.0", "e\u0301", "\ud800"),
    *("1e1000000000", "9" * 5000, "[" * 2000, "a." * 80, "=cmd|'/c calc'!A0", "'=x", "+1-1", "@", "\t"),
    *("\x1b[31mred", "\x07", "\x85", "\u2028", "\u202etxt", "\u00a0", "#REF!", "1,5", "1.234,5", "70%", "1e", "+-1"),
)


class Bomb:
    """Unpickled, it would leave a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[Any, ...]:
        return Path.touch, (self.path,)


def odd(r: random.Random) -> str:
    return r.choice(ODD)


def odd_number(r: random.Random) -> Any:
    return r.choice(
        (
            *(0, 1, -1, 0.5, 1e308, -1e308, 1e-320, np.nan, np.inf, -np.inf, 10**30, 2**63, True, None, "x", [], 3),
            *(10**400, 10**5000, np.bool_(True), np.ma.array([1.0], mask=[True]), "1e1000000000", b"x"),
        )
    )


TIMES: tuple[Any, ...] = (0.05, 0, -1, np.nan, "x", [], True)  # never long


def odd_flag(r: random.Random) -> Any:
    return r.choice((True, odd(r)))


def odd_count(r: random.Random) -> Any:
    return r.choice((0, -1, "x", None, 2))


def mutate(text: str, r: random.Random) -> bytes:
    """A few changes to a text: cells, lines, bytes; or one change after which it may well make sense."""
    data = text
    if r.random() < 0.4:
        return _shuffled(data, r).encode("utf-8", "surrogatepass")
    for _ in range(r.randint(1, 4)):
        lines = data.split("\n")
        at = r.randrange(len(lines))
        kind = r.randrange(8)
        if kind == 0:
            lines[at] = odd(r)
        elif kind == 1:
            lines.insert(at, lines[r.randrange(len(lines))])
        elif kind == 2:
            del lines[at]
        elif kind in (3, 4, 5):
            sign = r.choice((",", "=", " ", "."))
            cells = lines[at].split(sign)
            cells[r.randrange(len(cells))] = odd(r)
            lines[at] = sign.join(cells)
        elif kind == 6:
            lines = lines[: at + 1]
        else:
            lines[at] = lines[at][: r.randint(0, len(lines[at]))]
        data = "\n".join(lines)
    found = bytearray(data.encode("utf-8", "surrogatepass"))
    if r.random() < 0.2:
        found = flipped(bytes(found), r)
    return bytes(found)


def _shuffled(text: str, r: random.Random) -> str:
    """The same with a cell of another line, with two lines in each other's place, or with another number."""
    lines = text.split("\n")
    one, other = r.randrange(len(lines)), r.randrange(len(lines))
    sign = next((sign for sign in (",", ";", "\t", "=") if sign in lines[one]), " ")
    cells, others = lines[one].split(sign), lines[other].split(sign)
    at = r.randrange(len(cells))
    kind = r.randrange(3)
    if kind == 0:
        lines[one], lines[other] = lines[other], lines[one]
    elif kind == 1 and at < len(others):
        cells[at] = others[at]
        lines[one] = sign.join(cells)
    else:
        number = r.choice(("0", "1", "2", "-1", "0.5", "1e-12", "1e9", "1e300", "0.30000000001", " 1 ", "+1"))
        lines[one] = re.sub(r"(?<![\w.])-?\d+(\.\d+)?(?![\w.])", number, lines[one], count=r.choice((1, 1, 2)))
    return "\n".join(lines)


def flipped(data: bytes, r: random.Random) -> bytearray:
    found = bytearray(data)
    for _ in range(r.randint(1, 8)):
        if not found:
            break
        at = r.randrange(len(found))
        kind = r.randrange(4)
        if kind == 0:
            found[at] = r.randrange(256)
        elif kind == 1:
            del found[at : at + r.randint(1, 50)]
        elif kind == 2:
            found[at:at] = bytes(r.randrange(256) for _ in range(r.randint(1, 20)))
        else:
            found[at] ^= 1 << r.randrange(8)
    return found
