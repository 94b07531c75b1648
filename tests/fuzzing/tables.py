"""Tables as people make them: steps, dialects, workbooks, and files of every kind for `conrl check`."""

from __future__ import annotations

import datetime
import io
import random
import re
import zipfile
from pathlib import Path
from typing import Any

import openpyxl

import conrl
from fuzzing.doors import call, command, door
from fuzzing.fleets import FLEET
from fuzzing.models import ROBOT
from fuzzing.policies import kept_policy
from fuzzing.runs import SPEC
from fuzzing.spoiling import LOG, MACHINE, POLICY, flipped, mutate, odd

HORIZONS = (*[5] * 12, 20, 20, 1, 1000, 0, -1, "x", 10**12)
STEPS = (
    "*",
    "*",
    "0-4",
    "0-4",
    "0-99",
    "3",
    "0-2",
    "2-0",
    "-",
    "0--1",
    "1e3",
    "0-999999999999",
    "9" * 30,
    "4.0",
    "0,1",
)
LENGTHS = (("--horizon", 5), ("--horizon", 5), ("--discount", 0.9), ("--average",), ("--total",), ("--discount", "1"))


def with_steps(r: random.Random) -> str:
    """The machine with a column of steps, sound in most rows."""
    header, *rows = MACHINE.strip().split("\n")
    steps = [r.choice(STEPS) if r.random() < 0.1 else "*" for _ in rows]
    if r.random() < 0.5:  # every row twice: before and from the third step on
        early = [f"0-1,{row}" for row in rows]
        end = r.choice(("2-4", "2-4", "2-19", "2-", "3-4"))
        late = [f"{end},{row}" for row in rows]
        return "\n".join(["step," + header, *early, *late])
    return "\n".join(["step," + header, *(f"{step},{row}" for step, row in zip(steps, rows, strict=True))])


@door("steps", 3)
def steps(r: random.Random, folder: Path) -> None:
    """Rows for single steps, ranges of steps and all steps, which must fit together and a horizon."""
    text = with_steps(r)
    (folder / "m.csv").write_bytes(mutate(text, r) if r.random() < 0.5 else text.encode())
    name = r.choice(("check", "plan", "plan", "frontier"))
    words: list[Any] = [name, folder / "m.csv"]
    words += ["--horizon", r.choice(HORIZONS)] if name == "check" or r.random() < 0.6 else r.choice(LENGTHS)
    if name != "check":
        words += ["--limit", f"repairs={r.choice((0, 1, 1, 2.5, 2.5, odd(r)))}"]
        words += ["--cost", "repairs"] if name == "frontier" else []
    command(*words)


@door("dialects", 4)
def dialects(r: random.Random, folder: Path) -> None:
    """Tables with other signs between cells, decimal commas, byte order marks, quotes, encodings and line ends."""
    text = r.choice((MACHINE, MACHINE, with_steps(r), LOG, POLICY))
    sign = r.choice((",", ";", "\t", "|", ";"))
    if r.random() < 0.3:
        text = re.sub(r"[^,\n]+", lambda cell: f'"{cell[0]}"' if r.random() < 0.5 else cell[0], text)
    text = text.replace(",", sign)
    if r.random() < 0.5:
        text = re.sub(r"(\d)\.(\d)", r.choice((r"\1,\2", r"\1,\2", r"\1·\2", r"1.00\1,\2", r"\1'000.\2")), text)
    if r.random() < 0.2:
        text = f"sep={r.choice((sign, ';', odd(r)))}\n{text}"
    if r.random() < 0.2:
        text = text.upper()
    text = text.replace("\n", r.choice(("\n", "\n", "\r\n", "\r", "\n\n", "\u2028", " \n")))
    data = mutate(text, r) if r.random() < 0.4 else text.encode("utf-8", "surrogatepass")
    if r.random() < 0.3:
        coding = r.choice(("utf-16", "utf-16-le", "utf-32", "cp1252", "latin-1", "utf-8-sig", "utf-7", "cp037"))
        data = data.decode("utf-8", "replace").encode(coding, "replace")
    elif r.random() < 0.2:
        data = r.choice((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf\xef\xbb\xbf")) + data
    path = folder / r.choice(("m.csv", "m.tsv", "M.CSV"))
    path.write_bytes(data)
    kind = r.randrange(4)
    if kind == 0:
        command("plan", path, "--horizon", 5, "--limit", "repairs=1")
    elif kind == 1:
        command("check", path, *r.choice(((), ("--as", r.choice(("model", "log", "policy"))), ("--json",))))
    elif kind == 2:
        reader: Any = r.choice((conrl.load_policy, conrl.load_episodes, conrl.estimate))
        call(lambda: reader(path))
    else:
        call(lambda: conrl.check_model(path))


def cell(text: str, r: random.Random) -> Any:
    """What stands in a workbook for a text: mostly the number that it is."""
    if r.random() < 0.02:
        return r.choice(
            (
                *("=A1", "=1/0", "=cmd|'/c calc'!A0", "#REF!", "#DIV/0!", True, False, None, 1e308, -1e-320, 10**30),
                *(datetime.datetime(2026, 1, 7), datetime.time(1), datetime.timedelta(1), "x" * 32_767, "_x0041_"),
                *(r.choice(("1,5", "70%", " 0.3 ", "0.30", "1e", "½", "\u00a00.7")), odd(r)),
            )
        )
    try:
        return float(text)
    except ValueError:
        return text


def workbook(r: random.Random) -> bytes:
    """The machine in a sheet, perhaps beside others, with some cells that are not what they were."""
    book = openpyxl.Workbook()
    sheet = book.active
    text = mutate(r.choice((MACHINE, with_steps(r))), r) if r.random() < 0.3 else MACHINE.encode()
    for row in text.decode("utf-8", "replace").splitlines():
        values = [cell(x, r) for x in row.split(",")]
        try:
            sheet.append(values)
        except (ValueError, openpyxl.utils.exceptions.IllegalCharacterError):  # what no workbook holds
            sheet.append([str(x) for x in row.encode("ascii", "ignore").decode().split(",") if x.isprintable()])
    if r.random() < 0.3:
        book.create_sheet(r.choice(("Costs", "a b", "ü", "#1", "Sheet'2")))
    if r.random() < 0.2:
        sheet.insert_rows(1, r.randint(1, 3))
    if r.random() < 0.2:
        sheet.merge_cells("A2:C3")
    if r.random() < 0.1:
        sheet.cell(r.choice((5_000, 1_048_576)), r.choice((1, 200)), "far")
    file = io.BytesIO()
    book.save(file)
    return file.getvalue()


BOMB = (
    '<!DOCTYPE x [<!ENTITY a "aaaaaaaaaa"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">'
    '<!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;&b;&b;"><!ENTITY d SYSTEM "file:///etc/passwd">]>'
)


def _spoilt(text: str, r: random.Random) -> str:
    """The XML of a sheet, or of what is beside it, with one change."""
    kind = r.randrange(8)
    if kind == 0:
        return re.sub(
            r'<dimension ref="[^"]*"', f'<dimension ref="{r.choice(("A1:XFD1048576", "A1", "", "ZZZZ9"))}"', text
        )
    if kind == 1:
        far = r.choice(("1048577", "99999999999999999999", "-1", "x", "0"))
        return re.sub(r' r="(\d+)"', f' r="{far}"', text, count=1)
    if kind == 2:
        return re.sub(
            r'(<c r=")[A-Z]+', rf"\g<1>{r.choice(('XFE', 'ZZZZZZ', '', 'é', 'A1:'))}", text, count=r.choice((0, 1))
        )
    if kind == 3:  # shared strings that are not there
        return re.sub(r"<v>\d+</v>", f"<v>{r.choice(('99999', '-1', 'x', '', '1e400'))}</v>", text, count=1)
    if kind == 4:
        return re.sub(r"\?>", lambda end: end[0] + BOMB, text, count=1) if "?>" in text else BOMB + text
    if kind == 5:
        return re.sub(
            r't="[a-z]+"', f't="{r.choice(("d", "e", "b", "str", "inlineStr", "zz"))}"', text, count=r.choice((0, 1))
        )
    if kind == 6:  # a formula with the value that is kept beside it, or with none
        return text.replace("<v>", r.choice(("<f>1+1</f><v>", "<f>A1</f><v></v><v>", '<f t="shared" si="9"/><v>')), 1)
    return bytes(flipped(text.encode(), r)).decode("utf-8", "replace")


def _repacked(data: bytes, r: random.Random) -> bytes:
    """A workbook whose parts were changed, left out, doubled or blown up."""
    made = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as new:
        names = old.namelist()
        hit = r.choice((*names, *[name for name in names if "worksheets" in name or "shared" in name] * 4))
        kind = r.randrange(6)
        for name in names:
            part = old.read(name)
            if name == hit and kind == 0:
                continue
            if name == hit and kind < 5:
                coding = r.choice(("utf-8", "utf-8", "utf-8", "utf-16"))
                part = _spoilt(part.decode("utf-8", "replace"), r).encode(coding, "replace")
            elif name == hit:
                part += b" " * r.choice((1000, 5_000_000, 300_000_000))
            new.writestr(name, part)
    return made.getvalue()


@door("workbooks", 3)
def workbooks(r: random.Random, folder: Path) -> None:
    """Excel's files: odd cells, damaged archives, XML that claims or unpacks to too much."""
    path, data = folder / "m.xlsx", workbook(r)
    kind = r.randrange(3)
    if kind and r.random() < 0.8:
        data = _repacked(data, r) if kind == 1 else bytes(flipped(data, r))
    if r.random() < 0.1:
        data = r.choice((MACHINE.encode(), data[: len(data) // 2], b"PK\x03\x04", b"\xd0\xcf\x11\xe0" + bytes(600)))
    path.write_bytes(data)
    name = r.choice(("", "", "", "", "#Sheet", "#Sheet", "#Costs", "#", "#1", f"#{odd(r)}"))
    words = r.choice((("plan", "--horizon", 5), ("check",), ("check", "--json"), ("plan", "--average")))
    command(words[0], f"{path}{name}", *words[1:])


SUFFIXES = (".csv", ".tsv", ".json", ".toml", ".npz", ".drn", ".xlsx", ".parquet", ".txt", "", ".CSV", ".csv.gz")


@door("check", 3)
def check(r: random.Random, folder: Path) -> None:
    """`conrl check`: anything under any name, with the options of any kind of file."""
    (folder / "machine.csv").write_text(MACHINE)
    kinds = {
        ".csv": (MACHINE, with_steps(r), LOG, POLICY),
        ".json": (kept_policy(r),),
        ".toml": (SPEC, FLEET),
        ".drn": (ROBOT,),
        ".npz": (MACHINE,),
    }
    suffix = r.choice(list(kinds))
    text = r.choice(kinds[suffix])
    path = folder / f"x{suffix if r.random() < 0.8 else r.choice(SUFFIXES)}"
    path.write_bytes(mutate(text, r) if r.random() < 0.6 else text.encode())
    options = (
        *(("--as", r.choice(("model", "log", "policy", "fleet", "study", odd(r)))), ("--horizon", r.choice(HORIZONS))),
        *(("--limit", f"repairs={odd(r)}"), ("--normalize", r.choice((0.01, 2, "nan", odd(r)))), ("--start", odd(r))),
        *(("--column", f"state={odd(r)}"), ("--ignore", odd(r)), ("--json",), ("--start", "new")),
    )
    words = [word for option in r.sample(options, r.choice((0, 0, 0, 1, 2))) for word in option]
    command("check", path, *words)
