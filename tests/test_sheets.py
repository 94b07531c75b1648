"""Tables as people make them: whatever program wrote a model, the same model is read; what is in doubt is refused."""

from __future__ import annotations

import io
import json
import tempfile
import warnings
import zipfile
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import pytest
from commands import ok, record, refused, run
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import conrl
from conrl.errors import ModelError, ModelWarning
from conrl.io import workbooks
from conrl.io.model_rows import name_of
from conrl.io.numerals import Marks, read_number, read_share
from conrl.io.policy_tables import read_policy_table

NAMES = ("state", "action", "next_state", "probability", "reward")
HEADER = ",".join(NAMES)


def load(path: Path, **given: Any) -> conrl.ConstrainedMDP:
    return conrl.load_model(path, **({"horizon": 2} | given))


def write(folder: Path, text: str, name: str = "m.csv") -> Path:
    path = folder / name
    path.write_bytes(text.encode())
    return path


def told(path: Path, **given: Any) -> str:
    with pytest.raises(ModelError) as caught:
        load(path, **given)
    assert "\n" not in str(caught.value)
    return str(caught.value).replace(str(path.parent) + "/", "")


# -- the same model in many dialects -------------------------------------------------------------------------

Outcome = tuple[str, str, str, Decimal, Decimal, Decimal]  # state, action, next state, probability, reward, cost


@st.composite
def outcomes(draw: st.DrawFn) -> list[Outcome]:
    """The rows of a model; probabilities in hundredths, pay with up to three decimals and thousands."""
    states = draw(
        st.lists(st.sampled_from(["new", "worn out", "0,5", "a;b", "Köln", "7%", '"q"']), min_size=1, unique=True)
    )
    rows: list[Outcome] = []
    pay = st.decimals(-9_999, 9_999, places=draw(st.integers(0, 3)))
    for state in states:
        for action in draw(st.lists(st.sampled_from(["run fast", "stop", "1.234"]), min_size=1, unique=True)):
            cuts = draw(st.lists(st.integers(1, 99), max_size=len(states) - 1, unique=True))
            ends = [0, *sorted(cuts), 100]
            to = draw(st.permutations(states))
            for k in range(len(ends) - 1):
                p = Decimal(ends[k + 1] - ends[k]) / 100
                rows.append((state, action, to[k], p, draw(pay), draw(pay)))
    return rows


def digits(x: Decimal, mark: str, apart: str) -> str:
    """As a spreadsheet writes it."""
    text = f"{x:,f}"
    return text.replace(",", "\0").replace(".", mark).replace("\0", apart)


def numbers(rows: list[Outcome]) -> conrl.ConstrainedMDP:
    """The model, made without a file."""
    states, actions = (list(dict.fromkeys(row[k] for row in rows)) for k in (0, 1))
    pay = [[float(row[4]), float(row[5])] for row in rows]
    return conrl.ConstrainedMDP.from_outcomes(
        [states.index(row[0]) for row in rows],
        [actions.index(row[1]) for row in rows],
        [states.index(row[2]) for row in rows],
        [float(row[3]) for row in rows],
        pay,
        num_states=len(states),
        num_actions=len(actions),
        state_names=states,
        action_names=actions,
        cost_names=["Fuel"],
        horizon=2,
    )


def assert_same(one: conrl.ConstrainedMDP, two: conrl.ConstrainedMDP) -> None:
    assert (one.state_names, one.action_names, one.cost_names) == (two.state_names, two.action_names, two.cost_names)
    assert np.array_equal(one.graph.successor, two.graph.successor)
    assert np.array_equal(one.graph.probability, two.graph.probability)
    assert np.array_equal(one.pay_by_outcome, two.pay_by_outcome)
    assert np.array_equal(one.available, two.available)


@st.composite
def dialects(draw: st.DrawFn) -> dict[str, Any]:
    return {
        "separator": draw(st.sampled_from(",;\t|")),
        "mark": draw(st.sampled_from(".,")),
        "apart": draw(st.sampled_from(["", "", "other", " ", "\u00a0", "'"])),
        "percent": draw(st.sampled_from(["", "%", " %"])),
        "quote": draw(st.booleans()),
        "bom": draw(st.booleans()),
        "end": draw(st.sampled_from(["\n", "\r\n"])),
        "blank": draw(st.sampled_from(["no", "empty", "separators", "blanks"])),
        "header": draw(st.sampled_from([str.lower, str.upper, str.title])),
        "note": draw(st.booleans()),
        "sep": draw(st.booleans()),
        "spaced": draw(st.booleans()),
        "order": draw(st.permutations(range(6))),
    }


def written(rows: list[Outcome], how: dict[str, Any]) -> str:
    """A file of that dialect; nothing of conrl is used to make it."""
    apart = {"other": "," if how["mark"] == "." else "."}.get(how["apart"], how["apart"])
    sep = str(how["separator"])

    def cell(text: str) -> str:
        odd = how["quote"] or any(c in text for c in (sep, '"', "\n")) or text != text.strip()
        return '"' + text.replace('"', '""') + '"' if odd else text

    def line(cells: list[str]) -> str:
        blank = " " if how["spaced"] else ""
        order = [*how["order"], *([6] if how["note"] else [])]
        return f"{sep}{blank}".join(cell(cells[k]) for k in order)

    def share(p: Decimal) -> str:
        if not how["percent"]:
            return digits(p, how["mark"], apart)
        return f"{digits(p * 100, how['mark'], apart)}{how['percent']}"

    names = [how["header"](name) for name in NAMES]
    lines = [line([*names, f"{how['header']('cost')}_Fuel", "Comment"])]
    for row in rows:
        pays = [digits(x, how["mark"], apart) for x in row[4:]]
        lines.append(line([*row[:3], share(row[3]), *pays, "a remark" if len(lines) % 2 else ""]))
        lines += {"no": [], "empty": [""], "separators": [sep * 6], "blanks": [f" {sep} {sep} "]}[how["blank"]]
    if how["sep"]:
        lines.insert(0, f"sep={sep}")
    text = "".join(f"{line}{how['end']}" for line in lines)
    return f"\ufeff{text}" if how["bom"] else text


@settings(max_examples=300, deadline=None)
@given(outcomes(), dialects())
def test_a_model_in_any_dialect_is_the_same(rows: list[Outcome], how: dict[str, Any]) -> None:
    """Or it is refused because its decimal mark is in doubt, never read as another one."""
    # In a plain file, with commas between its cells and in none, a point is the decimal mark: nothing says otherwise.
    assume(how["separator"] != "," or how["mark"] != "," or '"' in written(rows, how))
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), written(rows, how))
        found = conrl.check_model(path, horizon=2)
        if found.model is None:
            # Only whole numbers with thousands apart, or numbers with three decimals, leave a doubt.
            assert "may be" in found.mistakes[0]
            assert how["separator"] != "," or how["mark"] == "," or how["apart"] == "other"
        else:
            assert_same(found.model, numbers(rows))


@settings(max_examples=60, deadline=None)
@given(outcomes(), st.booleans(), st.booleans())
def test_a_model_in_a_workbook_is_the_same(rows: list[Outcome], texts: bool, notes: bool) -> None:
    book = openpyxl.Workbook()
    page = book.active
    page.append([])
    page.append([name.title() for name in NAMES] + ["COST_Fuel"] + ["Note"] * notes)
    for row in rows:
        cells: list[Any] = [*row[:3], float(row[3]), *map(float, row[4:])]
        if texts:  # a column that is formatted as text
            cells[3] = f"{row[3] * 100}%"
        page.append(cells + ["see above"] * notes)
        page.append([None, "  "])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.xlsx"
        book.save(path)
        assert_same(load(path), numbers(rows))


@settings(max_examples=200, deadline=None)
@given(st.decimals(-99_999, 99_999, places=4), st.sampled_from(".,"), st.booleans(), st.booleans())
def test_numbers_are_read_to_the_last_bit(x: Decimal, mark: str, grouped: bool, percent: bool) -> None:
    text = digits(x, mark, ("," if mark == "." else ".") if grouped else "")
    assert read_number(text + "%" * percent, mark) == float(Fraction(x) / (100 if percent else 1))
    assert read_number(text, None) == float(x)


@pytest.mark.parametrize(
    ("text", "point", "comma"),
    [
        ("0.7", 0.7, None),
        ("0,125", None, 0.125),
        ("1.234", 1.234, 1234.0),
        ("1.234.567", None, 1234567.0),
        ("12.34.567", None, None),
        ("1,23", None, 1.23),
        ("1 234,5", None, 1234.5),
        ("1\u202f234", 1234.0, 1234.0),
        ("1 23", None, None),
        ("\u22125", -5.0, -5.0),
        (".5", 0.5, None),
        ("1e-3", 0.001, 0.001),
        ("1,5E2", None, 150.0),
        ("12 %", 0.12, 0.12),
        ("%", None, None),
        ("1_000", None, None),
        ("0x10", None, None),
        ("--1", None, None),
        ("1e", None, None),
        ("", None, None),
        ("$5", None, None),
    ],
)
def test_numbers(text: str, point: float | None, comma: float | None) -> None:
    assert read_number(text, ".") == point
    assert read_number(text, ",") == comma


def test_a_probability_decides_by_itself() -> None:
    assert [read_share(text) for text in ("1,000", "1.000", "0,5", "1.5", "-0.1", "nan", "100%")] == [
        *(1.0, 1.0, 0.5, None, None, None, 1.0)
    ]


# -- what is in doubt is refused -----------------------------------------------------------------------------


def one(reward: str, separator: str = ";", probability: str = "1") -> str:
    row = ["A", "go", "A", probability, reward]
    return HEADER.replace(",", separator) + "\n" + separator.join(row) + "\n"


def test_a_thousand_or_a_decimal(tmp_path: Path) -> None:
    path = write(tmp_path, one("1,234"))
    assert "m.csv: 1,234 on line 2 may be 1234 or 1.234" in told(path)
    assert told(path).endswith("write 1234 or 1,2340")
    assert "1.234 on line 2 may be 1234 or 1.234" in told(write(tmp_path, one("1.234", "\t")))
    for text, value in (("1,2340", 1.234), ("1234", 1234.0), ("1.234,0", 1234.0), ("12,5", 12.5), ("1.5", 1.5)):
        assert load(write(tmp_path, one(text))).rewards.item() == value
    # Another number decides, and so does a probability, which is at most 1; so do commas between columns.
    for text, value in (("1,234", 1.234), ("1.234", 1234.0)):
        assert load(write(tmp_path, one(text, ";", "1,0"))).rewards.item() == value
        assert load(write(tmp_path, one(text, ";", "1,000"))).rewards.item() == value
    assert load(write(tmp_path, one("1.234", ","))).rewards.item() == 1.234
    assert load(write(tmp_path, one('"1,234"', ",", "1.0"))).rewards.item() == 1234.0
    assert load(write(tmp_path, one("1.234", ",", "100%"))).rewards.item() == 1.234
    assert "may be" in told(write(tmp_path, one('"1,234"', ",")))


def test_two_decimal_marks(tmp_path: Path) -> None:
    path = write(tmp_path, one("2,5") + "A;stay;A;1.0;0\n")
    assert told(path) == "m.csv: 1.0 on line 3 has a decimal point and 2,5 on line 2 a decimal comma; use one of them"


def test_marks_of_nothing() -> None:
    marks = Marks()
    marks.note(["12", "", 3.5, "x"], [1, 2, 3, 4])
    assert marks.decide(by_commas=False) == (".", "")


def test_utf_16_is_refused_with_the_remedy(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_bytes(one("1").encode("utf-16"))
    assert "UTF-16, which Excel calls Unicode text; save the file as CSV UTF-8" in told(tmp_path / "m.csv")


def test_a_decimal_comma_between_commas(tmp_path: Path) -> None:
    text = told(write(tmp_path, f"{HEADER}\nA,go,A,1,2,5\n"))
    assert "line 2: 6 fields; the header has 5 (if commas are decimal, separate the columns by semicolons" in text


def test_rows_may_lack_what_is_left_out(tmp_path: Path) -> None:
    path = write(tmp_path, f"{HEADER},note,,\nA,go,A,1,2\nB,go,A,1,2,hi\nC,go,A,1,2,hi,,,,\n")
    assert load(path).num_states == 3
    assert "line 2: 4 fields; the header has 6" in told(write(tmp_path, f"{HEADER},note\nA,go,A,1\n"))


NOTED = f"{HEADER},comment"
CUT = [
    ("a,go,a,1,10,5", "10,5"),
    ("a,go,a,1,10,5,", "10,5"),
    ("a,go,a,1,10,5%", "10,5%"),
    ("a,go,a,1,1,234", "1,234"),
    ("a,go,a,1,0,10", "0,10"),
    ("a,go,a,1,-0,5", "-0,5"),
    ('a, "x, y",a,1,10', None),  # the probability is a text
    ("a,go,a,1.0,1,234.5", "1,234.5"),
]


@pytest.mark.parametrize(("row", "cell"), CUT)
def test_a_comma_that_may_have_cut_a_cell(row: str, cell: str | None, tmp_path: Path) -> None:
    """The rest of a number is not lost as a remark."""
    text = told(write(tmp_path, f"{NOTED}\n{row}\n"))
    assert "line 2: " in text
    if cell is not None:
        rest = cell.rpartition(",")[2]
        assert f"{cell} may be one cell that its comma cut in two, so that {rest!r} stands under 'comment'" in text
        assert "put quotes around it or separate the columns by semicolons; if" in text
    assert load(write(tmp_path, f'{NOTED}\na,go,a,1,"10,5",\n')).pay[0, 0] == 10.5


@pytest.mark.parametrize(
    "rows",
    [
        "a,go,a,1,10,3 weeks",
        "a,go,a,1,10,see 12",
        "a,go,a,1,10,no. 5",
        "a,go,a,1,10,2024-05-01",
        "a,go,a,1.0,10,5",  # points are decimal, and so 10,5 is no number
        "a,go,a,1,10.0,5",
        "a,go,a,0.5,10,5\na,go,a,0.5,10,7",
        "a,go,a,1,10,",
        "a,go,a,1,10",
    ],
)
def test_remarks_with_numbers_are_remarks(rows: str, tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the two rows of one outcome
        for separator in ",;":
            assert load(write(tmp_path, f"{NOTED}\n{rows}\n".replace(",", separator))).pay[0, 0] == 10.0


def test_a_text_that_a_comma_cut(tmp_path: Path) -> None:
    """With numbers for names, every cell of a row that is shifted fits the column where it stands."""
    rows = '1,go,1,0.5,1,x\n1,go,1,0.5,2,x\na, "x, y",1,1,10\na,go,1,1,1,'
    text = told(write(tmp_path, f"{NOTED}\n{rows}\n"))
    assert """line 4: "x, y" may be one cell""" in text
    assert "delete the blank before its quotes" in text
    found = load(write(tmp_path, f"{NOTED}\n{rows}\n".replace(', "', ',"')), initial="a")
    assert "x, y" in found.action_names


def test_a_remark_in_two_columns_or_in_the_middle(tmp_path: Path) -> None:
    path = write(tmp_path, f"{HEADER},comment,note\na,go,a,0,5,10,5\na,go,a,0,5,10,5\n")
    found = conrl.check_model(path).mistakes
    assert len(found) == 2
    assert all("0,5 may be" not in one and "may be one cell" in one for one in found)
    middle = "state,comment,action,next_state,probability,reward"
    assert load(write(tmp_path, f"{middle}\na,5,go,a,1,10\n")).pay[0, 0] == 10.0


@pytest.mark.parametrize(
    ("header", "row", "cell"),
    [
        ("episode,state,action,next_state,reward,comment", "1,b,go,a,10,5", "10,5"),
        ("episode,state,action,next_state,reward,cost_x,Note", "1,b,go,a,10,5,2", "5,2"),
        ("episode,state,action,reward,next_state,comment", "1,b,go,10,5,a", "10,5"),  # a is a state
        ("episode,state,action,reward,next_state,comment", "1,b,go,10,5,late", ""),
        ("episode,state,action,reward,next_state,comment", "1,b,go,10,a,5", ""),  # 5 is none
        ("episode,state,action,next_state,reward,comment", "1,b,go,a,10,5 weeks", ""),
        ("episode,state,action,next_state,reward,time", "1,b,go,a,10,5", ""),
    ],
)
def test_a_comma_that_may_have_cut_a_cell_of_a_log(header: str, row: str, cell: str, tmp_path: Path) -> None:
    usual = {"state": "a", "next_state": "b", "action": "go", "Note": "x y", "comment": "x y"}
    first = ",".join(usual.get(name, "0") for name in header.split(","))
    path = write(tmp_path, f"{header}\n{first}\n{row}\n", "log.csv")
    if not cell:
        assert conrl.load_episodes(path).num_steps == 2
        return
    with pytest.raises(ModelError, match=f"line 3: {cell} may be one cell that its comma cut in two"):
        conrl.load_episodes(path)
    path.write_text(path.read_text().replace(",0,", ",0.5,"))  # points are decimal
    assert conrl.load_episodes(path).num_steps == 2


def test_a_comma_that_cut_a_probability_of_a_policy(tmp_path: Path) -> None:
    """And rows that say 0 and nothing else are no policy."""
    path = write(tmp_path, "state,action,probability,comment\na,go,0,5\na,stay,0,5\n", "p.csv")
    with pytest.raises(ModelError, match=r"line 2: 0,5 may be one cell .*; 1 more mistake: conrl check"):
        read_policy_table(path)
    path.write_text("state,action,probability\na,go,0\na,stay,0\n")
    with pytest.raises(ModelError, match="line 2: step 0, state 'a': probabilities sum to 0, not to 1"):
        read_policy_table(path)


# -- all mistakes at once ------------------------------------------------------------------------------------

SOUND = [f"s{i},{a},s{(i + 1) % 12},{p},1" for i in range(12) for a, p in (("go", 1), ("stay", 1))]
# What a planted mistake makes of a row, and what is said about it.
PLANTS: dict[str, tuple[str, str]] = {
    "number": ("{s},{a},{t},1,many", "reward is 'many'; it must be a number"),
    "negative": ("{s},{a},{t},-1,1", "probability is '-1'; it must be finite and at least 0"),
    "infinite": ("{s},{a},{t},1,1e999", "reward is '1e999'; it must be finite"),
    "sum": ("{s},{a},{t},0.7,1", "has probability 0.7; a distribution sums to 1"),
    "rounded": ("{s},{a},{t},0.999,1", "if they were rounded, normalize=0.01 corrects them"),
    "percent": ("{s},{a},{t},100,1", "write percentages with their sign, 70%, or as 0.7"),
    "state": (",{a},{t},1,1", "state is missing; write it in every row"),
    "action": ("{s},,{t},1,1", "action is missing; write it in every row"),
    "next": ("{s},{a},s1O,1,1", "state 's1O' occurs only as next_state: its own rows are missing; add them"),
    "short": ("{s},{a},{t},1", "4 fields; the header has 5"),
    "long": ("{s},{a},{t},1,1,1", "6 fields; the header has 5"),
    "twice": ("{s},{a},{t},1,1\n{s},{a},{t},1,1", "are duplicates: both have state '{s}', action '{a}'"),
    "excel": ("{s},{a},#REF!,1,1", "next_state is #REF!, an error of the spreadsheet"),
}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_every_planted_mistake_is_found_and_nothing_else(data: st.DataObject) -> None:
    at = sorted(data.draw(st.lists(st.integers(0, len(SOUND) - 1), min_size=1, max_size=8, unique=True)))
    kinds = [data.draw(st.sampled_from(sorted(PLANTS))) for _ in at]
    kinds = ["sum" if kind == "state" and i % 2 == 0 else kind for i, kind in zip(at, kinds, strict=True)]
    if kinds.count("next") > 1:
        kinds = [kind if kind != "next" or i == kinds.index("next") else "sum" for i, kind in enumerate(kinds)]
    lines, expected = [HEADER], []
    for i, row in enumerate(SOUND):
        s, a, t, *_ = row.split(",")
        text = row
        if i in at:
            text, what = PLANTS[kinds[at.index(i)]]
            text = text.format(s=s, a=a, t=t)
            expected.append((len(lines) + 1 + text.count("\n"), what.format(s=s, a=a)))
        lines += text.split("\n")
    with tempfile.TemporaryDirectory() as folder:
        path = write(Path(folder), "\n".join(lines) + "\n")
        found = conrl.check_model(path)
        assert not found
        assert found.model is None
        assert found.count == len(found.mistakes) == len(expected), (found.mistakes, expected)
        for mistake, (line, what) in zip(found.mistakes, expected, strict=True):
            assert f"line {line}: " in mistake
            assert what in mistake
        first = told(path, horizon=1)
        assert first.startswith(f"m.csv, line {expected[0][0]}: ")
        if len(expected) > 1:
            assert f"; {len(expected) - 1} more mistake" in first


def test_mistakes_of_the_header(tmp_path: Path) -> None:
    path = write(tmp_path, "stat,action,next_state,probability,probability,wight,cost_\nA,go,A,1,1,1,1\n")
    found = conrl.check_model(path).mistakes
    assert [mistake.partition(": ")[2] for mistake in found] == [
        "unknown column 'stat'; did you mean 'state'? A cost is called 'cost_stat', a remark 'comment'",
        "unknown column 'wight'; known: state, action, next_state, probability, reward, step. "
        "A cost is called 'cost_wight', a remark 'comment'",
        "column 'probability' occurs twice; they are duplicates: delete one",
        "column 'cost_' has no name; call it cost_<name>",
        "no column 'reward'; expected state,action,next_state,probability,reward,cost_<name>...",
    ]


@pytest.mark.parametrize("name", ["repairs", "rewards", "steps", "Overtime Hours"])
def test_a_column_without_its_prefix_is_a_cost(tmp_path: Path, name: str) -> None:
    """Unless the table lacks a column of ours that it looks like."""
    found = conrl.check_model(write(tmp_path, f"step,{HEADER},{name}\n0,A,go,A,1,1,1\n")).mistakes
    told = f"line 1: unknown column {name!r}; a cost is called 'cost_{name}', a remark 'comment'"
    assert [mistake.partition(", ")[2] for mistake in found] == [told]


def test_what_columns_were_meant_to_be(tmp_path: Path) -> None:
    meant_by = {"Prob": "probability", "NextState": "next_state", "REWRD": "reward", "next": "next_state"}
    for name, meant in meant_by.items():
        found = conrl.check_model(write(tmp_path, f"{HEADER.replace(meant, name)}\nA,go,A,1,1\n")).mistakes
        assert len(found) == 1
        assert f"line 1: unknown column {name!r}; did you mean {meant!r}?" in found[0]
    path = write(tmp_path, f"{HEADER},cost_Fuel\nWorn out,go,Worn out,1,1,0\n")
    assert "did you mean 'Fuel'?" in refused("plan", path, "--horizon", 2, "--limit", "FUEL=1")
    assert "did you mean 'Worn out'?" in refused("plan", path, "--horizon", 2, "--start", "WORN OUT")


def test_mistakes_in_steps(tmp_path: Path) -> None:
    rows = "0-3,A,go,A,1,1\n5-2,A,go,A,1,1\nx,A,go,A,1,1\n2,A,stay,A,0.5,1\n0-3,A,twice,A,1,1\n2,A,twice,A,1,1\n"
    found = conrl.check_model(write(tmp_path, f"step,{HEADER}\n{rows}")).mistakes
    assert [mistake.partition("m.csv, ")[2][:50] for mistake in found] == [
        "line 3: step is '5-2'; write a step as 3, several ",
        "line 4: step is 'x'; write a step as 3, several as",
        "line 5: the 1 row of step 2, state 'A', action 'st",
        "line 7: lines 6 and 7 are duplicates: both have st",
    ]


def test_a_broken_file_keeps_the_mistakes_before(tmp_path: Path) -> None:
    found = conrl.check_model(write(tmp_path, f'{HEADER}\nA,go,A,1,x\n"A,go\n')).mistakes
    assert [mistake.partition(": ")[2] for mistake in found] == [
        "reward is 'x'; it must be a number",
        "unexpected end of data in the row that starts here",
    ]


def test_check_lists_at_most_fifty(tmp_path: Path) -> None:
    path = write(tmp_path, f"{HEADER}\n" + "".join(f"s{i},go,s{i},0.5,1\n" for i in range(67)))
    result = run("check", path)
    lines = result.stderr.splitlines()
    assert (result.exit_code, len(lines)) == (2, 51)
    assert result.stdout.startswith(f"{path}: 67 mistakes, read as a model; if it is something else, say so with --as")
    assert lines[0].startswith(f"Error: {path}, line 2: the 1 row of state 's0'")
    assert lines[50] == "Error: and 17 more"
    listed = json.loads(run("check", path, "--json").stdout)
    assert (listed["ok"], listed["count"], len(listed["mistakes"])) == (False, 67, 67)


def test_very_many_mistakes_take_no_time_or_memory(tmp_path: Path) -> None:
    path = write(tmp_path, f"{HEADER}\n" + "".join(f"s{i},go,s{i},0.5,1\n" for i in range(20_000)))
    found = conrl.check_model(path)
    assert found.count == 20_000
    assert len(found.mistakes) == 1_000


@pytest.mark.parametrize(
    ("row", "what"),
    [
        ("s{i},go,s{i},1,120 EUR", "line 2: reward is '120 EUR'; it must be a number"),
        ("s{i},go,s{i},100,1", "write percentages with their sign, 70%, or as 0.7"),
        ("s{i},,s{i},1,1", "line 2: action is missing; write it in every row"),
    ],
)
def test_a_mistake_in_every_row_is_one(row: str, what: str, tmp_path: Path) -> None:
    path = write(tmp_path, f"{HEADER}\n" + "".join(row.format(i=i) + "\n" for i in range(100)) + "z,go,z,0.5,1\n")
    found = conrl.check_model(path)
    assert found.count == len(found.mistakes) == 2
    assert what in found.mistakes[0]
    assert found.mistakes[0].endswith("(the first of 100 lines with this mistake)")
    assert "1 more mistake" in told(path, horizon=1)


def test_a_total_at_the_bottom(tmp_path: Path) -> None:
    found = conrl.check_model(write(tmp_path, f"{HEADER}\na,go,a,1,1\nTotal,,,,1\nmeasured in May\n")).mistakes
    assert [mistake.partition("m.csv, ")[2] for mistake in found] == [
        "line 3: looks like a total or a note, as it has no next_state and no probability; delete it",
        "line 4: 1 field; the header has 5; if it is a total or a note, delete it",
    ]


def test_a_column_of_hours_that_is_not_called_step(tmp_path: Path) -> None:
    rows = "".join(f"{h},a,go,a,1,1\n" for h in range(12))
    found = conrl.check_model(write(tmp_path, f"hour,{HEADER}\n{rows}")).mistakes
    assert len(found) == 1
    assert found[0].endswith("line 1: unknown column 'hour'; if it counts the steps of an episode, call it step")


def test_something_above_the_header(tmp_path: Path) -> None:
    path = write(tmp_path, "My oven;;;;\n;;;;\nState;Action;Next State;Probability;Reward\na;go;a;1;1\n")
    what = "m.csv, line 1: this is no header, but line 3 is (State, Action, Next State, Probability, Reward); delete"
    assert what in run("check", path).stderr
    assert what in told(path, horizon=1)
    meant = run("check", write(tmp_path, "State;Action;Next State;Prob:;Reward\na;go;a;1;1\n")).stderr
    assert "unknown column 'Prob:'; did you mean 'probability'?" in meant


def test_notes_on_the_first_sheet(tmp_path: Path) -> None:
    path = workbook(tmp_path / "m.xlsx", [["How I made this"]], oven=[HEADER.split(","), ["a", "go", "a", 1, 1]])
    what = "was read, and has no header of a table; it has 2 sheets: name one, such as"
    assert f"{what} {path}#oven" in run("check", path).stderr
    assert load(Path(f"{path}#oven"), horizon=1).num_states == 1


def test_whole_numbers_of_any_length_are_names() -> None:
    assert len({name_of(12345678901234567), name_of(12345678901234568)}) == 2


STEPS = f"step,{HEADER}\n0-2,clean,bake,clean,0.7,10\n0-2,clean,bake,sooty,0.3,10\n0-2,sooty,clean,clean,1,0\n"


def test_a_state_misspelt_among_steps(tmp_path: Path) -> None:
    found = conrl.check_model(write(tmp_path, STEPS.replace("bake,sooty", "bake,Sooty "))).mistakes
    assert [mistake.partition("m.csv, ")[2] for mistake in found] == [
        "line 3: state 'Sooty ' occurs only as next_state, and can be reached at step 1: its own rows are missing; "
        "add them (or did you mean 'sooty'?); only if it is never left, add a row that stays there with probability 1"
    ]
    found = conrl.check_model(write(tmp_path, f"{STEPS}0,Sooty,clean,clean,1,0\n".replace("0-2,s", "0,s"))).mistakes
    told = "state 'sooty' can be reached at step 1, by this row, and has no action then"
    assert f"line 3: {told}: its rows for that step are missing; add them" in found[0]
    assert found[0].endswith("(or did you mean 'Sooty'?)")


def test_steps_that_do_not_begin_at_0(tmp_path: Path) -> None:
    found = conrl.check_model(write(tmp_path, STEPS.replace("0-2", "6-17"))).mistakes
    assert len(found) == 1
    assert found[0].endswith("line 2: the steps of the file are 6 to 17; steps count from 0: subtract 6")
    found = conrl.check_model(write(tmp_path, STEPS.replace("0-2,c", "6-8,c").replace("0-2", "*"))).mistakes
    assert found[0].endswith("steps count from 0, and those of the file are 6 to 8")


def test_dashes_that_a_program_made(tmp_path: Path) -> None:
    for dash in "\u2013\u2212":
        assert conrl.load_model(write(tmp_path, STEPS.replace("0-2", f"0{dash}2"))).horizon == 3


def test_a_horizon_beside_steps_on_the_command_line(tmp_path: Path) -> None:
    path = write(tmp_path, STEPS)
    assert "--horizon: " in refused("plan", path, "--horizon", 2)
    cut = "the file has steps 0 to 2, and a horizon of 2 cuts them off: leave it out"
    assert cut in refused("plan", path, "--horizon", 2)
    assert cut in refused("check", path, "--horizon", 2)
    told_of = refused("plan", path, "--horizon", 5)
    assert "the file has steps 0 to 2, and a horizon of 5 goes beyond what its rows say: leave it out" in told_of
    assert "--discount: " in refused("plan", path, "--discount", 0.9)
    assert "the file has a column step, and steps" in refused("plan", path, "--discount", 0.9)


def test_check_says_what_is_in_a_file(tmp_path: Path) -> None:
    rows = "A,go,B,1,1,2\nB,stay,B,1,0,0\nC,go,A,1,0,0\nD,go,D,1,0,0\n"
    path = write(tmp_path, f"{HEADER},cost_fuel\n{rows}")
    found = record("check", path, "--horizon", 7, "--limit", "fuel=3")
    sizes = {
        key: found[key] for key in ("states", "actions", "horizon", "pairs", "outcomes", "costs", "start", "limits")
    }
    assert sizes == {
        "states": 4,
        "actions": 2,
        "horizon": 7,
        "pairs": 4,
        "outcomes": 4,
        "costs": ["fuel"],
        "start": "A",
        "limits": {"fuel": 3.0},
    }
    assert found["notes"] == [
        "nothing leads from the start to states 'C', 'D'",
        "once there, nothing leads out of states 'B', 'D'",
    ]
    text = ok("check", path, "--start", "C")
    assert "Nothing leads from the start to state 'D'." in text
    assert "The file holds no horizon; give one to plan, such as --horizon 20." in text
    assert "No mistakes." in text
    assert "did you mean 'fuel'?" in refused("check", path, "--limit", "ful=3")
    assert "did you mean" in refused("check", path, "--start", "CC")
    assert "no such file" in refused("check", tmp_path / "no.csv")


def test_check_reads_arrays_too(tmp_path: Path) -> None:
    mdp = conrl.ConstrainedMDP(np.eye(2)[:, None], [[1], [0]], None, 3, state_names=["Worn", "worn "])
    conrl.save_model(tmp_path / "m.npz", mdp)
    found = conrl.check_model(tmp_path / "m.npz")
    assert found
    assert "states 'Worn' and 'worn ' differ only in case or blanks" in found.warnings[0]
    assert found.model is not None
    (tmp_path / "m.npz").write_bytes(b"PK\x03\x04 no archive")
    assert "not a readable .npz file" in conrl.check_model(tmp_path / "m.npz").mistakes[0]
    np.savez(tmp_path / "p.npz", transitions=np.eye(2)[:, None], rewards=[[1], [0]])
    assert not conrl.check_model(tmp_path / "p.npz").has_horizon


# -- duplicates, names that look alike, sums that were rounded ---------------------------------------------------


def test_duplicates_that_add_up_are_a_warning(tmp_path: Path) -> None:
    path = write(tmp_path, f"{HEADER}\nA,go,A,0.5,1\nA,go,A,0.5,1\n")
    with pytest.warns(ModelWarning, match="lines 2 and 3 are duplicates: both .* next_state 'A', and pay the same"):
        load(path)
    assert run("plan", path, "--horizon", 2).stderr.startswith("Warning: ")
    write(tmp_path, f"{HEADER}\nA,go,A,0.5,1\nA,go,A,0.5,2\n")  # two outcomes of one event
    assert load(path).rewards.item() == 1.5
    assert "lines 2 and 4 are duplicates" in told(
        write(tmp_path, f"{HEADER}\nA,go,A,0.5,1\nA,go,B,0.5,1\nA,go,A,0.5,3\nB,go,B,1,1\n")
    )


@pytest.mark.parametrize(
    "names", [("Worn", "worn"), ("worn", " worn"), ("run fast", "run  fast"), ("x²", "x2"), ("é", "e\u0301")]
)
def test_names_that_look_alike(names: tuple[str, str], tmp_path: Path) -> None:
    one, two = names
    path = write(tmp_path, f"{HEADER}\n{one},go,{two},1,1\n{two},go,{one},1,1\n")
    with pytest.warns(ModelWarning) as caught:
        assert load(path).state_names == names  # still two
    assert len(caught) == 1
    assert f"states {one!r} (line 2) and {two!r} (line 2) differ only in case or blanks" in str(caught[0].message)
    path = write(tmp_path, f"{HEADER},cost_{one},cost_{two}\nA,{one},A,1,1,0,0\nA,{two},A,1,1,0,0\n")
    with pytest.warns(ModelWarning) as caught:
        load(path)
    text = " ".join(str(w.message) for w in caught)
    assert f"actions {one!r} (line 2) and {two!r} (line 3)" in text
    assert f"costs {one!r} and {two!r}" in text


def test_codes_with_leading_zeros_are_a_warning(tmp_path: Path) -> None:
    """A spreadsheet makes 1 of 01, and not in every row."""
    path = write(tmp_path, f"{HEADER}\n01,go,1,1,1\n1,go,01,1,1\n")
    with pytest.warns(ModelWarning, match=r"states '01' \(line 2\) and '1' \(line 2\) differ only in leading zeros"):
        assert load(path).state_names == ("01", "1")


@pytest.mark.parametrize(
    ("names", "what"),
    [
        (("a", "a\u200b"), "characters that cannot be seen"),
        (("\ufeffa", "a"), "characters that cannot be seen"),
        (("A", "a\u00ad"), "case or blanks"),
        (("1", "1.0"), "how a number is written"),
        (("+1", "1"), "how a number is written"),
        (("0.50", "0.5"), "how a number is written"),
    ],
)
def test_what_names_that_look_alike_differ_in(names: tuple[str, str], what: str, tmp_path: Path) -> None:
    """In models and in logs; they are two names all the same."""
    one, two = names
    path = write(tmp_path, f"{HEADER}\nx,go,{one},1,1\n{one},go,{two},1,1\n{two},go,x,1,1\n")
    log = write(tmp_path, f"episode,state,action,reward,next_state\n1,x,go,1,{one}\n1,{one},go,1,{two}\n", "log.csv")
    for read in (load, conrl.load_episodes):
        with pytest.warns(ModelWarning) as caught:
            assert read(path if read is load else log).state_names == ("x", *names)
        assert f"differ only in {what}; they are two states" in str(caught[0].message)


def test_names_that_differ_are_no_warning(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        load(write(tmp_path, f"{HEADER}\n1 12,go,11 2,1,1\n11 2,go,112,1,1\n112,stay,112,1,1\n"))


THIRDS = (
    f"{HEADER}\n" + "".join(f"A,go,{t},0.333,{t}\n" for t in range(3)) + "".join(f"{t},go,A,1,0\n" for t in range(3))
)


def test_normalize(tmp_path: Path) -> None:
    path = write(tmp_path, THIRDS)
    assert "sum to 0.999; a distribution sums to 1 (within 1e-09); if they were rounded, normalize=0.01" in told(path)
    with pytest.warns(ModelWarning, match="1 sum of probabilities was corrected to 1 .* farthest off was 0.999"):
        mdp = load(path, normalize=0.01)
    assert mdp.graph.probability[:3].tolist() == [0.333 / (0.333 + 0.333 + 0.333)] * 3
    assert mdp.rewards[0, 0] == pytest.approx(1.0, abs=1e-15)
    assert "sum to 0.999" in told(path, normalize=0.0005)
    for within in (0, 1, -1, "x", float("nan"), True):
        with pytest.raises(ModelError, match=r"normalize is .*; it must be a number between 0 and 1"):
            load(path, normalize=within)


def test_normalize_says_the_largest_correction_and_keeps_what_is_right(tmp_path: Path) -> None:
    rows = "A,go,A,0.5,1\nA,go,B,0.501,1\nA,stay,A,0.3,1\nA,stay,B,0.7,1\nB,go,B,0.991,0\nB,x,B,0.99,0\n"
    path = write(tmp_path, f"{HEADER}\n{rows}")
    with pytest.warns(ModelWarning, match="3 sums of probabilities were corrected .* farthest off was 0.99"):
        mdp = load(path, normalize=0.01)
    assert mdp.graph.probability[2:4].tolist() == [0.3, 0.7]
    total = np.add.reduceat(mdp.graph.probability, mdp.graph.start[:-1].astype(np.intp))
    assert np.allclose(total, 1.0, atol=1e-15)


def test_normalize_does_not_hide_a_duplicate(tmp_path: Path) -> None:
    rows = "A,go,A,0.995,1\nA,go,B,0.005,1\nA,go,B,0.005,1\nB,go,B,1,1\n"
    assert "lines 3 and 4 are duplicates" in told(write(tmp_path, f"{HEADER}\n{rows}"), normalize=0.01)


def test_normalize_arrays(tmp_path: Path) -> None:
    P = np.array([[[0.333, 0.666]], [[0.0, 1.0]]])
    np.savez(tmp_path / "m.npz", transitions=P, rewards=[[1], [0]], horizon=3)
    with pytest.raises(ModelError, match=r"sums to 0\.999"):
        conrl.load_model(tmp_path / "m.npz")
    with pytest.warns(ModelWarning, match="1 sum of probabilities was corrected"):
        mdp = conrl.load_model(tmp_path / "m.npz", normalize=0.01)
    assert mdp.graph.probability.tolist() == [*(P[0, 0] / P[0, 0].sum()), 1.0]


def test_normalize_on_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, THIRDS)
    for words in (("plan", "m.csv"), ("check", "m.csv"), ("learn", "m.csv", "--episodes", 3, "--algorithm", "ucbvi")):
        result = run(*words, "--horizon", 2)
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert "--normalize 0.01" in result.stderr
        result = run(*words, "--horizon", 2, "--normalize", 0.01)
        assert result.exit_code == 0, result.stderr
        assert result.stderr.count("Warning: m.csv: 1 sum of probabilities was corrected") == 1
    write(
        tmp_path, THIRDS.replace("reward", "reward,cost_x").replace("\n", ",1\n").replace("cost_x,1", "cost_x"), "c.csv"
    )
    result = run("frontier", "c.csv", "--horizon", 2, "--normalize", 0.01)
    assert (result.exit_code, result.stderr.count("Warning: ")) == (0, 1)
    assert "--normalize: box is no file" in refused("plan", "box", "--normalize", 0.01)
    assert "--normalize: gymnasium:FrozenLake-v1 is no file" in refused(
        "learn", "gymnasium:FrozenLake-v1", "--normalize", 0.01
    )
    text = '[fleet]\nhorizon = 2\n[[unit]]\nmodel = "m.csv"\ncount = 2\n'
    Path("f.toml").write_text(text.replace("= 2\n", "= 2\nnormalize = 0.01\n", 1))
    assert run("plan", "f.toml").exit_code == 0
    Path("f.toml").write_text(text)
    assert "--normalize 0.01" in refused("plan", "f.toml")
    assert run("plan", "f.toml", "--normalize", 0.01).exit_code == 0


def test_normalize_in_a_study(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write(tmp_path, THIRDS)
    spec = 'episodes = 3\n[environment.m]\nmodel = "m.csv"\nhorizon = 2\nnormalize = 0.01\n[algorithm.ucbvi]\n'
    Path("s.toml").write_text(spec)
    result = run("run", "s.toml", "--workers", 1)
    assert result.exit_code == 0, result.stderr
    assert result.stderr.count("Warning: ") == 1
    assert ok("report", "s")  # finds the model that was played
    assert conrl.experiments.load("s").environments["m"].mdp is not None
    Path("s.toml").write_text(spec.replace("0.01", "2"))
    assert "normalize" in refused("run", "s.toml")


# -- workbooks ----------------------------------------------------------------------------------------------------


def workbook(path: Path, rows: list[list[Any]], **more: list[list[Any]]) -> Path:
    book = openpyxl.Workbook()
    book.active.title = "model"
    for row in rows:
        book.active.append(row)
    for name, others in more.items():
        page = book.create_sheet(name)
        for row in others:
            page.append(row)
    book.save(path)
    return path


GOOD: list[list[Any]] = [list(NAMES), ["A", "go", "A", 1, 2.5]]


def test_a_workbook_is_written_and_read_back(tmp_path: Path) -> None:
    mdp = conrl.envs.mars_rover()
    conrl.save_model(tmp_path / "m.xlsx", mdp)
    again = load(tmp_path / "m.xlsx", horizon=mdp.horizon)
    assert again.state_names == mdp.state_names
    assert np.array_equal(again.graph.probability, mdp.graph.probability)
    assert np.array_equal(again.pay, mdp.pay)
    names = ["=1+1", "'=x", "007", "TRUE", "1e5", " a", "line\nend", "#N/A!", "@x"]
    odd = conrl.ConstrainedMDP(np.full((9, 1, 9), 1 / 9), np.ones((9, 1)), None, 2, state_names=names)
    conrl.save_model(tmp_path / "odd.xlsx", odd)
    assert load(tmp_path / "odd.xlsx").state_names == tuple(names)
    assert all(cell.data_type != "f" for row in openpyxl.load_workbook(tmp_path / "odd.xlsx").active for cell in row)
    for name in ("a\rb", "\x07", "_x0041_", "x" * 40_000):
        bad = conrl.ConstrainedMDP([[[1.0]]], [[1]], None, 2, state_names=[name])
        with pytest.raises(ModelError, match="a workbook cannot keep the name"):
            conrl.save_model(tmp_path / "bad.xlsx", bad)
    with pytest.raises(ModelError, match="no sheet can be called"):
        conrl.save_model(tmp_path / "bad.xlsx#a/b", odd)
    assert not (tmp_path / "bad.xlsx").exists()


def test_a_workbook_keeps_every_bit(tmp_path: Path) -> None:
    """Of doubles that take 17 digits, of large and tiny ones, and of the sign of a zero."""
    generator = np.random.default_rng(0)
    pay = generator.normal(size=(3, 100)) * 10.0 ** generator.integers(-90, 90, (3, 100))
    pay[0, :3] = -0.0, 5e-324, 0.1 + 0.2
    mdp = conrl.ConstrainedMDP(generator.dirichlet(np.ones(3), (3, 100)), pay, None, 2)
    conrl.save_model(tmp_path / "m.xlsx", mdp)
    again = load(tmp_path / "m.xlsx")
    assert again.pay.tobytes() == mdp.pay.tobytes()
    assert again.graph.probability.tobytes() == mdp.graph.probability.tobytes()


def test_the_digits_that_excel_writes_are_read_to_the_last_bit(tmp_path: Path) -> None:
    """It writes 17 digits of a double, and 0.1 as they are nearest."""
    numbers = ("0.81327023920027241", "0.10000000000000001", "-1.2345678901234567E-5", "12345678901234567", "1E+22")
    name = '<c t="str"><v>{}</v></c>'
    rows = "".join(
        f"<row>{name.format('A')}{name.format(i)}{name.format('A')}<c><v>1</v></c><c><v>{x}</v></c></row>"
        for i, x in enumerate(numbers)
    )
    sheet = SHEET.format(f"<row>{TITLES}</row>{rows}").encode()
    found = load(repacked(workbook(tmp_path / "m.xlsx", GOOD), sheet1=sheet)).pay[:, 0]
    assert found.tolist() == [0.8132702392002724, 0.1, -1.2345678901234567e-05, 12345678901234568.0, 1e22]


def test_tabs_are_written_and_read_back(tmp_path: Path) -> None:
    mdp = conrl.envs.mars_rover()
    conrl.save_model(tmp_path / "m.tsv", mdp)
    assert (tmp_path / "m.tsv").read_text().startswith("state\taction\t")
    assert np.array_equal(load(tmp_path / "m.tsv").pay, mdp.pay)


def test_a_table_keeps_no_empty_name(tmp_path: Path) -> None:
    mdp = conrl.ConstrainedMDP([[[1.0]]], [[1]], None, 2, state_names=[""])
    with pytest.raises(ModelError, match="has an empty name, which a table cannot keep"):
        conrl.save_model(tmp_path / "m.csv", mdp)
    mdp = conrl.ConstrainedMDP([[[1.0]]], [[1]], [[[1]]], 2, cost_names=[""])
    for name in ("m.csv", "m.tsv", "m.xlsx"):
        with pytest.raises(ModelError, match="a cost has an empty name, which a table cannot keep"):
            conrl.save_model(tmp_path / name, mdp)


def test_sheets_by_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    other: list[list[Any]] = [list(NAMES), ["B", "go", "B", 1, 7]]
    workbook(tmp_path / "m.xlsx", GOOD, Costs=other)
    assert load(tmp_path / "m.xlsx").rewards.item() == 2.5
    assert conrl.load_model("m.xlsx#Costs", horizon=2).rewards.item() == 7
    assert "m.xlsx: unknown sheet 'Cost'; did you mean 'Costs'?" in refused("plan", "m.xlsx#Cost", "--horizon", 2)
    assert ok("plan", "m.xlsx#Costs", "--horizon", 2).startswith("m.xlsx#Costs: 1 states")
    ok("learn", "m.xlsx#Costs", "--horizon", 2, "--episodes", 2, "--algorithm", "ucbvi", "--out", "runs")
    assert Path("runs/m-Costs/ucbvi/seed-000/progress.csv").exists()
    Path("s.toml").write_text('episodes = 3\n[environment.m]\nmodel = "m.xlsx#Costs"\nhorizon = 2\n[algorithm.ucbvi]\n')
    assert run("run", "s.toml", "--workers", 1).exit_code == 0


def test_cells_that_are_no_numbers(tmp_path: Path) -> None:
    import datetime

    path = workbook(
        tmp_path / "m.xlsx",
        [
            [*NAMES, "Comment"],
            ["A", "go", "A", 1, datetime.date(2026, 10, 5), None],
            ["B", True, "B", 1, 0, datetime.date(2026, 10, 5)],
            [3, "go", 3.0, 1, 0, None],
            [None, "go", "A", 1, 0, None],
        ],
    )
    found = conrl.check_model(path).mistakes
    assert [mistake.partition(": ")[2] for mistake in found] == [
        "reward is '2026-10-05'; it must be a number",
        "state is missing; write it in every row",
    ]
    assert [mistake.partition(": ")[0].partition("m.xlsx, ")[2] for mistake in found] == ["line 2", "line 5"]


def test_formulas_have_values_or_are_refused(tmp_path: Path) -> None:
    path = workbook(tmp_path / "m.xlsx", [list(NAMES), ["A", "go", "A", "=0.5+0.5", 2]])
    assert told(path).startswith("m.xlsx, line 2: the formula in D2 has no value; open the file in Excel and save it")
    path = workbook(tmp_path / "m.xlsx", [*GOOD, ["=A2", "=B2", "=C2", "=D2", "=E2"]])  # no blank row
    assert "line 3: the formula in A3 has no value" in told(path)
    parts = {name: zipfile.ZipFile(path).read(name) for name in zipfile.ZipFile(path).namelist()}
    sheet = parts["xl/worksheets/sheet1.xml"]
    for cell, value in (("A3", "B"), ("B3", "go"), ("C3", "A"), ("D3", "1"), ("E3", "3")):
        kind = b"" if value.isdigit() else b' t="str"'
        old = f'<c r="{cell}"><f>{cell[0]}2</f><v></v></c>'.encode()
        old = old if old in sheet else f'<c r="{cell}"><f>{cell[0]}2</f><v /></c>'.encode()
        assert old in sheet
        new = b'<c r="%s"%s><f>%s2</f><v>%s</v></c>' % (cell.encode(), kind, cell[:1].encode(), value.encode())
        sheet = sheet.replace(old, new)
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in (parts | {"xl/worksheets/sheet1.xml": sheet}).items():
            archive.writestr(name, data)
    assert load(path).rewards.tolist() == [[2.5], [3.0]]


def test_a_sheet_for_a_chart_may_be_empty(tmp_path: Path) -> None:
    """It has no cells: the first sheet is the first that has."""
    book = openpyxl.Workbook()
    for row in (NAMES, ["A", "go", "A", 1, 1]):
        book.active.append(list(row))
    book.create_chartsheet("Chart", 0)
    book.save(tmp_path / "m.xlsx")
    assert load(tmp_path / "m.xlsx").state_names == ("A",)
    with pytest.raises(ModelError, match="unknown sheet 'Chart'"):
        conrl.load_model(f"{tmp_path / 'm.xlsx'}#Chart", horizon=2)


def test_blanks_around_quotes_name_the_separator(tmp_path: Path) -> None:
    quoted = " ; ".join(f'"{name}"' for name in NAMES)
    for header in (quoted, f'"comment" ; {quoted}'):
        path = write(tmp_path, f"{header}\nA;go;A;1;1\n")
        assert "m.csv, line 1: ';' expected after '\"' in the row that starts here; leave nothing" in told(path)


def test_without_openpyxl(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = workbook(tmp_path / "m.xlsx", GOOD)
    monkeypatch.setitem(__import__("sys").modules, "openpyxl", None)
    assert "Excel workbooks need the extra: pip install 'conrl[excel]', or export the sheet as CSV" in told(path)
    with pytest.raises(ModelError, match="need the extra"):
        conrl.save_model(path, conrl.envs.box())


def repacked(path: Path, **changes: bytes) -> Path:
    """The workbook with other bytes in some of its parts, compressed."""
    with zipfile.ZipFile(path) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in (parts | {f"xl/worksheets/{name}.xml": data for name, data in changes.items()}).items():
            archive.writestr(name, data)
    return path


SHEET = (
    '<worksheet xmlns="http://schemas.openxmlformats.org/spreadsheetml/2006/main"><sheetData>{}</sheetData></worksheet>'
)
TITLES = "".join(f'<c t="inlineStr"><is><t>{name}</t></is></c>' for name in NAMES)
FAR = "".join(f'<row r="{i}"><c r="XFD{i}"><v>1</v></c></row>' for i in range(2, 5000))
HOSTILE = {
    "a far row": (
        SHEET.format('<row r="9999999999999"><c r="A9999999999999"><v>1</v></c></row>'),
        "more than|not a readable",
    ),
    "far cells": (SHEET.format(f'<row r="1">{TITLES}</row>{FAR}'), "more than"),
    "no XML": ("nothing", "not a readable Excel workbook"),
    "cut": (SHEET.format("<row><c><v>1")[:150], "not a readable Excel workbook"),
    "entities": (f'<!DOCTYPE x [<!ENTITY a "aaaa">]>{SHEET.format("")}', "declares a document type"),
    "entities in UTF-16": (f'<!DOCTYPE x [<!ENTITY a "aaaa">]>{SHEET.format("")}', "declares a document type"),
    "a wrong text": (SHEET.format('<row><c t="s"><v>99</v></c></row>'), "not a readable Excel workbook"),
    "nothing": (SHEET.format(""), "is empty; expected a header"),
}


@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_workbooks(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workbooks, "MAX_CELLS", 10**6)
    text, message = HOSTILE[case]
    path = repacked(workbook(tmp_path / "m.xlsx", GOOD), sheet1=text.encode("utf-16" if "UTF-16" in case else "utf-8"))
    with pytest.raises(ModelError, match=message) as caught:
        load(path)
    assert str(caught.value).startswith(str(path))
    assert "\n" not in str(caught.value)


def test_bombs_and_archives_that_are_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = repacked(workbook(tmp_path / "m.xlsx", GOOD), sheet1=b" " * 10**7)
    monkeypatch.setenv("CONRL_MAX_ARCHIVE", "1000000")
    assert "m.xlsx: it would take" in told(path)
    monkeypatch.delenv("CONRL_MAX_ARCHIVE")
    for data in (b"", b"PK\x03\x04", b"state,action\n", b"\xd0\xcf\x11\xe0 an old workbook"):
        path.write_bytes(data)
        assert "m.xlsx: not a readable Excel workbook" in told(path)
    whole = io.BytesIO()
    with zipfile.ZipFile(whole, "w") as archive:
        archive.writestr("hello.txt", "hello")
    path.write_bytes(whole.getvalue())
    assert "m.xlsx: not a readable Excel workbook" in told(path)
    assert "this is an Excel workbook or another zip archive; call it .xlsx" in told(
        Path(path.rename(tmp_path / "m.csv"))
    )


def test_damaged_workbooks_end_in_one_line(tmp_path: Path) -> None:
    whole = workbook(tmp_path / "m.xlsx", GOOD).read_bytes()
    rng = np.random.default_rng(0)
    for _ in range(60):
        data = bytearray(whole)
        for at in rng.integers(0, len(data), 3):
            data[at] ^= int(rng.integers(1, 256))
        (tmp_path / "m.xlsx").write_bytes(bytes(data[: rng.integers(1, len(data) + 1)] if rng.random() < 0.3 else data))
        found = conrl.check_model(tmp_path / "m.xlsx", horizon=2)
        assert all("\n" not in mistake for mistake in found.mistakes)


# -- logs and policies ------------------------------------------------------------------------------------------


def test_a_log_with_semicolons_and_decimal_commas(tmp_path: Path) -> None:
    plain = "episode,step,state,action,reward,next_state,cost_x\n0,0,a,go,0.5,b,1\n\n0,1,b,go,1234.5,a,0\n"
    theirs = (
        "Episode;Step;State;Action;Reward;Next State;Cost_x;Note\n0;0;a;go;50%;b;1;hm\n;;;;;;;\n0;1;b;go;1.234,5;a;0;\n"
    )
    logs = [conrl.load_episodes(write(tmp_path, text, "log.csv")) for text in (plain, theirs)]
    for one, two in zip(*(log.episodes for log in logs), strict=True):
        assert np.array_equal(one.states, two.states)
        assert np.array_equal(one.rewards, two.rewards)
        assert np.array_equal(one.costs, two.costs)
    with pytest.raises(ModelError, match=r"log\.csv: 1,234 on line 3 may be 1234 or 1\.234"):
        conrl.load_episodes(
            write(
                tmp_path,
                plain.replace(",", ";").replace("0.5", "1").replace("1234.5", "1,234").replace("\n\n", "\n"),
                "log.csv",
            )
        )
    renamed = theirs.replace("State;Action", "Ward;Action", 1)
    assert len(conrl.load_episodes(write(tmp_path, renamed, "log.csv"), columns={"state": "Ward"}).episodes) == 1


def test_a_policy_with_semicolons_and_percentages(tmp_path: Path) -> None:
    plain = "state,action,probability\na,go,0.25\na,stay,0.75\n"
    theirs = "State;Action;Probability;Comment\na;go;25%;x\n;;;\na;stay;0,75;\n"
    one, two = (read_policy_table(write(tmp_path, text, "p.csv")) for text in (plain, theirs))
    assert one.probabilities.tolist() == two.probabilities.tolist() == [[[0.25, 0.75]]]
    assert one[1:] == two[1:]
