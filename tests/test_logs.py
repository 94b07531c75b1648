"""Files of logged episodes: what is read is what was written, and nothing else is read.

Whatever the bytes, `load_episodes` gives a `Log` or a `ModelError` that names the file.
"""

from __future__ import annotations

import csv
import datetime
import io
import re
import sys
import warnings
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import polars as pl
import pytest
from commands import ok, refused, run
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import conrl
from conrl.estimation.log_columns import REQUIRED
from conrl.estimation.logs import Log, log_rows, read_log
from conrl.io.cells import to_cell

Float = NDArray[np.float64]

FORMS = ("csv", "npz")
HEADER = "episode,step,state,action,reward,cost_fuel,next_state,terminated"
GOOD = (
    "0,0,0,1,0.5,0.1,1,0",
    "0,1,1,0,-1,0.2,2,0",
    "0,2,2,1,1e-3,0,2,1",
    "1,0,0,0,0,0,0,0",
    "1,1,0,1,2,1,1,0",
)


def random_episodes(seed: int, d: int, episodes: int = 6) -> list[conrl.Episode]:
    rng = np.random.default_rng(seed)
    found = []
    for _ in range(episodes):
        L = int(rng.integers(1, 6))
        pay = rng.normal(size=(L, 1 + d)) * 10.0 ** rng.integers(-8, 8, size=(L, 1 + d))
        states = rng.integers(5, size=L + 1)
        found.append(
            conrl.Episode(states, rng.integers(3, size=L), pay[:, 0], pay[:, 1:], terminated=bool(rng.random() < 0.5))
        )
    return found


def assert_same(one: conrl.Episode, two: conrl.Episode) -> None:
    assert np.array_equal(np.asarray(one.states), np.asarray(two.states))
    assert np.array_equal(np.asarray(one.actions), np.asarray(two.actions))
    assert one.pay.shape == two.pay.shape
    assert one.pay.tobytes() == two.pay.tobytes()
    assert one.terminated == two.terminated


def saved(tmp_path: Path, text: str) -> Path:
    path = tmp_path / "log.csv"
    path.write_text(text)
    return path


def load(tmp_path: Path, text: str | bytes, name: str = "log.csv") -> Log:
    path = tmp_path / name
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return conrl.load_episodes(path)


def table(**changes: Any) -> dict[str, Any]:
    """The columns of GOOD as arrays, with some replaced; None leaves one out."""
    rows = [line.split(",") for line in GOOD]
    columns: dict[str, Any] = {}
    for name, column in zip(HEADER.split(","), zip(*rows, strict=True), strict=True):
        kind: Any = np.float64 if name in ("reward", "cost_fuel") else np.int64
        columns[name] = np.array(column).astype(kind)
    columns |= changes
    return {name: column for name, column in columns.items() if column is not None}


def save_npz(tmp_path: Path, **changes: Any) -> Path:
    path = tmp_path / "log.npz"
    np.savez(path, **table(**changes))
    return path


# -- round trips ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("d", [0, 1, 3])
def test_round_trip(form: str, d: int, tmp_path: Path) -> None:
    """Bit for bit; episodes that were not played are left out."""
    episodes = random_episodes(d, d)
    names = ["fuel", "wear, and tear", 'the "rest"'][:d]
    nothing = [conrl.Episode.null(d), conrl.Episode([3], [], [], np.zeros((0, d)))]
    path = tmp_path / f"log.{form}"
    conrl.save_episodes(path, [nothing[0], *episodes[:3], nothing[1], *episodes[3:]], names, first=10)
    log = conrl.load_episodes(str(path))
    assert log.cost_names == tuple(names)
    assert log.state_names is None
    assert log.action_names is None
    assert len(log.episodes) == len(episodes)
    for one, two in zip(episodes, log.episodes, strict=True):
        assert_same(one, two)
    first = path.read_bytes() if form == "csv" else b""
    conrl.save_episodes(path, [nothing[0], *episodes[:3], nothing[1], *episodes[3:]], names, first=10)
    assert form == "npz" or path.read_bytes() == first
    assert [p.name for p in tmp_path.iterdir()] == [path.name]


def test_a_saved_csv_by_hand(tmp_path: Path) -> None:
    episode = conrl.Episode([0, 2, 1], [1, 0], [0.1, 2.0], [[0.3], [1e-17]], terminated=True)
    conrl.save_episodes(tmp_path / "log.csv", [conrl.Episode.null(1), episode], ["fuel"], first=5)
    assert (tmp_path / "log.csv").read_text() == HEADER + "\n6,0,0,1,0.1,0.3,2,0\n6,1,2,0,2.0,1e-17,1,1\n"
    assert log_rows(6, episode) == [(6, 0, 0, 1, 0.1, 0.3, 2, 0), (6, 1, 2, 0, 2.0, 1e-17, 1, 1)]


@pytest.mark.parametrize("form", FORMS)
def test_a_log_without_rows(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{form}"
    conrl.save_episodes(path, [], ["fuel"])
    log = conrl.load_episodes(path)
    assert log.episodes == ()
    assert log.cost_names == ("fuel",)


@settings(max_examples=30, deadline=None)
@given(order=st.permutations(range(len(GOOD))), from_one=st.booleans(), unterminated=st.booleans())
def test_rows_may_come_in_any_order(
    order: list[int], from_one: bool, unterminated: bool, tmp_path_factory: pytest.TempPathFactory
) -> None:
    header, rows = HEADER, list(GOOD)
    if from_one:
        rows = [",".join([f[0], str(int(f[1]) + 1), *f[2:]]) for f in (r.split(",") for r in rows)]
    if unterminated:
        header, rows = header.rsplit(",", 1)[0], [r.rsplit(",", 1)[0] for r in rows]
    text = "\n".join([header, *(rows[i] for i in order)])
    log = load(tmp_path_factory.mktemp("log"), text)
    one, two = log.episodes
    assert_same(
        one,
        conrl.Episode([0, 1, 2, 2], [1, 0, 1], [0.5, -1, 1e-3], [[0.1], [0.2], [0.0]], terminated=not unterminated),
    )
    assert_same(two, conrl.Episode([0, 0, 1], [0, 1], [0.0, 2.0], [[0.0], [1.0]]))


@settings(max_examples=20, deadline=None)
@given(columns=st.permutations(range(8)))
def test_columns_may_come_in_any_order(columns: list[int], tmp_path_factory: pytest.TempPathFactory) -> None:
    rows = [line.split(",") for line in (HEADER, *GOOD)]
    text = "\n".join(",".join(row[c] for c in columns) for row in rows)
    log = load(tmp_path_factory.mktemp("log"), text)
    assert log.cost_names == ("fuel",)
    assert log.episodes[0].total == pytest.approx([-0.499, 0.3])
    assert np.asarray(log.episodes[1].states).tolist() == [0, 0, 1]


@pytest.mark.parametrize(
    "text",
    [
        "\ufeff" + HEADER + "\n" + "\n".join(GOOD),
        HEADER + "\r\n" + "\r\n".join(GOOD) + "\r\n",
        HEADER + "\n\n" + "\n\n".join(GOOD) + "\n\n\n",
        ", ".join(HEADER.split(",")) + "\n" + "\n".join(" , ".join(g.split(",")) for g in GOOD),
        ",".join(f'"{x}"' for x in HEADER.split(",")) + "\n" + "\n".join(GOOD),
        HEADER + "\n" + "\n".join(GOOD).replace("1e-3", "0.00100"),
    ],
    ids=["BOM", "CRLF", "blank lines", "spaces", "quotes", "digits"],
)
def test_the_same_log_in_other_bytes(text: str, tmp_path: Path) -> None:
    one = load(tmp_path, HEADER + "\n" + "\n".join(GOOD))
    two = load(tmp_path, text)
    assert one.cost_names == two.cost_names == ("fuel",)
    for a, b in zip(one.episodes, two.episodes, strict=True):
        assert_same(a, b)


def test_the_suffix_may_be_in_capitals(tmp_path: Path) -> None:
    assert len(load(tmp_path, HEADER + "\n" + "\n".join(GOOD), "LOG.CSV").episodes) == 2


def test_texts_are_numbered_by_first_appearance(tmp_path: Path) -> None:
    """States before next states, row by row as they stand in the file."""
    text = "episode,step,state,action,reward,next_state\n0,0,b,go,1,a\n0,1,a,stay,1,ü\n1,0,b,go,0,c"
    log = load(tmp_path, text)
    assert log.state_names == ("b", "a", "ü", "c")
    assert log.action_names == ("go", "stay")
    assert np.asarray(log.episodes[0].states).tolist() == [0, 1, 2]
    assert np.asarray(log.episodes[0].actions).tolist() == [0, 1]
    assert np.asarray(log.episodes[1].states).tolist() == [0, 3]


CODES = {"state": ["01", "1", "007"], "next_state": ["1", "007", "10"], "action": ["0", "1", "0"]}


@pytest.mark.parametrize("form", ["csv", "npz", "parquet"])
def test_codes_with_leading_zeros_are_names(form: str, tmp_path: Path) -> None:
    """01 and 1 are two wards; and then 10 is a name as well, as in the table of a model."""
    columns = {"episode": [0, 0, 0], "step": [0, 1, 2], "reward": [1, 1, 1]} | CODES
    path = tmp_path / f"log.{form}"
    if form == "npz":
        arrays: dict[str, Any] = {name: np.array(column) for name, column in columns.items()}
        np.savez(path, **arrays)
    elif form == "parquet":
        pl.DataFrame(columns).write_parquet(path)
    else:
        pl.DataFrame(columns).write_csv(path)
    place = "line 2" if form == "csv" else "row 1"
    told = rf"states '01' \({place}\) and '1' \({place}\) differ only in leading zeros; they are two states"
    with pytest.warns(conrl.ModelWarning, match=told):
        log = conrl.load_episodes(path)
    assert log.state_names == ("01", "1", "007", "10")
    assert log.action_names is None
    assert np.asarray(log.episodes[0].states).tolist() == [0, 1, 2, 3]


def test_whole_numbers_may_have_blanks_around_them(tmp_path: Path) -> None:
    log = load(tmp_path, "episode,step,state,action,reward,next_state\n 0,0, 4,1 ,1,17\n0 ,1,17 ,1,1, 4 \n")
    assert (log.state_names, log.action_names, len(log.episodes)) == (None, None, 1)
    assert np.asarray(log.episodes[0].states).tolist() == [4, 17, 4]


@pytest.mark.parametrize("cell", ["00", "-0", "+1", "1.0", "1e1", "1_0", "١"])
def test_what_is_no_whole_number_is_a_name(cell: str, tmp_path: Path) -> None:
    log = load(tmp_path, f"episode,state,action,reward,next_state\n0,5,{cell},1,6\n0,6,2,1,6\n")
    assert log.action_names == (cell, "2")
    assert log.state_names is None


def test_names_are_what_stands_in_the_file(tmp_path: Path) -> None:
    """As in the table of a model: a blank counts, and a warning says so."""
    head = "episode,step,state,action,reward,next_state\n"
    with pytest.warns(conrl.ModelWarning) as caught:
        log = load(tmp_path, head + "0,0, a,go,1,a\n0,1,a,Go,1,b\n")
    assert [str(one.message).rpartition("log.csv: ")[2] for one in caught] == [
        "states ' a' (line 2) and 'a' (line 2) differ only in case or blanks; they are two states",
        "actions 'go' (line 2) and 'Go' (line 3) differ only in case or blanks; they are two actions",
    ]
    assert log.state_names == (" a", "a", "b")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        conrl.save_episodes(tmp_path / "again.csv", log)
        assert conrl.load_episodes(tmp_path / "again.csv").state_names == log.state_names


def test_two_episodes_that_are_one_number(tmp_path: Path) -> None:
    with pytest.warns(conrl.ModelWarning, match=r"episodes '01' \(line 2\) and '1' \(line 3\) differ only in leading"):
        log = load(tmp_path, "episode,state,action,reward,next_state\n01,0,0,1,1\n1,1,0,2,0\n")
    assert [e.rewards.tolist() for e in log.episodes] == [[1.0], [2.0]]


def test_costs_that_look_alike(tmp_path: Path) -> None:
    with pytest.warns(conrl.ModelWarning, match="costs 'fuel' and 'Fuel' differ only in case or blanks"):
        load(tmp_path, "episode,state,action,reward,next_state,cost_fuel,cost_Fuel\n0,0,0,1,1,1,1\n")


def test_only_states_or_only_actions_may_be_texts(tmp_path: Path) -> None:
    log = load(tmp_path, "episode,step,state,action,reward,next_state\n0,0,4,go,1,7\n")
    assert log.state_names is None
    assert log.action_names == ("go",)
    assert np.asarray(log.episodes[0].states).tolist() == [4, 7]


def test_texts_in_npz(tmp_path: Path) -> None:
    states = np.array(["a", "b", "c", "a", "a"])
    log = conrl.load_episodes(save_npz(tmp_path, state=states, next_state=np.array(["b", "c", "c", "a", "b"])))
    assert log.state_names == ("a", "b", "c")
    assert np.asarray(log.episodes[0].states).tolist() == [0, 1, 2, 2]


def test_bytes_in_npz_are_texts(tmp_path: Path) -> None:
    actions = np.array(["go", "ü", "go", "ü", "go"])
    path = save_npz(tmp_path, action=np.char.encode(actions, "utf-8"), step=table()["step"].astype("S1"))
    log = conrl.load_episodes(path)
    assert log.action_names == ("go", "ü")
    assert log.num_steps == 5


def test_whole_numbers_as_reals_in_npz(tmp_path: Path) -> None:
    """What pandas makes of a column of indices as soon as one was missing: still whole numbers."""
    log = conrl.load_episodes(save_npz(tmp_path, state=table()["state"].astype(np.float64)))
    assert log.state_names is None
    assert np.asarray(log.episodes[0].states).tolist() == [0, 1, 2, 2]


def test_unsigned_states_beside_signed_ones(tmp_path: Path) -> None:
    log = conrl.load_episodes(save_npz(tmp_path, state=table()["state"].astype(np.uint64)))
    assert log.state_names is None
    assert np.asarray(log.episodes[0].states).tolist() == [0, 1, 2, 2]


# -- refusals -------------------------------------------------------------------------------------------------


def changed(row: int, column: str, value: str) -> str:
    rows = [line.split(",") for line in GOOD]
    rows[row][HEADER.split(",").index(column)] = value
    return "\n".join([HEADER, *map(",".join, rows)])


def without(column: str) -> str:
    at = HEADER.split(",").index(column)
    rows = [line.split(",") for line in (HEADER, *GOOD)]
    return "\n".join(",".join(f for i, f in enumerate(row) if i != at) for row in rows)


BROKEN = r"line 3: step 1 of episode 0 begins in state 2, but the one before \(line 2\) ended in 1"
REFUSED = [
    ("empty", "", "the file is empty"),
    ("no columns", "\n" + "\n".join(GOOD), "line 2: unknown columns '0', '1'"),
    *((f"no {n}", without(n), f"no column '{n}'") for n in REQUIRED),
    ("extra column", "\n".join(f"{x},{y}" for x, y in zip((HEADER, *GOOD), ("q", *"01234"), strict=True)), "'q'"),
    ("misspelt", changed(0, "step", "0").replace("reward", "rewards"), "did you mean 'reward'"),
    ("column twice", changed(0, "step", "0").replace("cost_fuel", "reward"), "line 1: column 'reward' is there twice"),
    ("short row", changed(2, "reward", "0").replace("0,2,2,1,0,", "0,2,2,1,"), "line 4: 7 fields; the header has 8"),
    ("long row", changed(2, "reward", "1,2"), "line 4: 9 fields; the header has 8"),
    ("gap", changed(2, "step", "3"), "line 4: episode 0 goes from step 1 to step 3; step 2 is missing"),
    ("long gap", changed(2, "step", "9"), "line 4: episode 0 goes from step 1 to step 9; steps 2 to 8 are missing"),
    (
        "late start",
        changed(4, "step", "3").replace("1,0,0,0,0,0", "1,2,0,0,0,0"),
        "line 5: episode 1 begins with step 2",
    ),
    ("step twice", changed(1, "step", "0"), r"line 3: episode 0 has step 0 twice \(also line 2\)"),
    ("negative step", changed(0, "step", "-1"), "line 2: episode 0 begins with step -1; steps count from 0, or"),
    (
        "step 2 first",
        changed(4, "episode", "2").replace("2,1,0,1,2", "2,2,0,1,2"),
        "line 6: episode 2 begins with step 2",
    ),
    ("broken chain", changed(1, "state", "2"), BROKEN),
    ("goes on", changed(0, "terminated", "1"), "line 3: episode 0 goes on after it has terminated"),
    ("nan", changed(1, "reward", "nan"), "line 3: reward is nan; it must be a finite number"),
    ("infinite", changed(2, "cost_fuel", "-inf"), "line 4: cost_fuel is -inf"),
    ("huge", changed(2, "cost_fuel", "1e999"), "line 4: cost_fuel is 1e999"),
    ("text as reward", changed(3, "reward", "much"), "line 5: reward is 'much', not a number"),
    ("nothing as reward", changed(3, "reward", ""), "line 5: reward is '', not a number"),
    ("text as step", changed(0, "step", "first"), "line 2: step is 'first', not a number"),
    ("no step", changed(0, "step", ""), "line 2: step is missing"),
    ("underscore", changed(0, "step", "0_0"), "line 2: step is '0_0', not a number"),
    ("half a step", changed(1, "step", "0.5"), "line 3: step is 0.5; it must be a whole number"),
    ("half an episode", changed(0, "episode", "0.5"), "line 3: episode '0' begins with step 1"),
    ("huge episode", changed(0, "episode", "1e300"), "line 3: episode '0' begins with step 1"),
    (
        "huge state",
        changed(4, "next_state", "99999999999999999999"),
        "line 6: state 99999999999999999999 is not an index",
    ),
    ("text as terminated", changed(4, "terminated", "maybe"), "line 6: terminated is 'maybe'; it must be 0 or 1, true"),
    ("no episode", changed(3, "episode", ""), "line 5: episode is missing"),
    ("no action", changed(3, "action", " "), "line 5: action is missing"),
    ("colons", "\n".join((HEADER, *GOOD)).replace(",", ":"), "line 1: unknown column 'episode:step:.*"),
    (
        "two marks",
        "\n".join((HEADER, *GOOD, '2,0,0,1,"0,5",0.1,1,0')),
        "0.5 on line 2 has a decimal point and 0,5",
    ),
    ("unclosed quote", changed(4, "reward", '"2'), "line 6: unexpected end of data"),
    ("zero byte", changed(4, "reward", "\0"), r"line 6: reward is .*, not a number"),
]


@pytest.mark.parametrize(("name", "text", "message"), REFUSED, ids=[r[0] for r in REFUSED])
def test_csv_refused(name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match=message) as error:
        load(tmp_path, text)
    assert "log.csv" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", ["2", "-1"])
def test_terminated_is_0_or_1(value: str, tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match="line 6: terminated is"):
        load(tmp_path, changed(4, "terminated", value))


def test_all_mistakes_of_a_log(tmp_path: Path) -> None:
    """Each once; nothing is said of the steps of an episode that has a row which cannot be read."""
    head = "episode,step,state,action,reward,next_state,cost_x,terminated\n"
    rows = [
        "0,0,a,go,x,b,y,0",  # line 2: two cells
        "0,2,b,go,1,a,0,0",
        "1,0,a,go,1,,0,maybe",  # line 4: two cells
        "2,0,a,go,1,a,0,0",
        "2,2,a,go,1,a,0,0",  # line 6: a gap
        "3,0,a,go,1",  # line 7: a short row
        "3,2,a,go,1,a,0,0",
        "4,0,a,go,1,b,0,0",
        "4,0,a,go,1,b,0,0",  # line 10: a repeated step
        "4,1,a,go,1,a,0,1",  # line 11: begins elsewhere
        "4,2,a,go,1,a,0,0",  # line 12: had terminated
        "5,7,a,go,1,a,0,0",  # line 13: begins late
    ]
    found = read_log(saved(tmp_path, head + "\n".join(rows)), None, ()).mistakes
    told = [one.partition("log.csv, ")[2] for one in found.told()]
    assert told == [
        "line 2: reward is 'x', not a number",
        "line 2: cost_x is 'y', not a number",
        "line 4: next_state is missing",
        "line 4: terminated is 'maybe'; it must be 0 or 1, true or false, yes or no",
        "line 6: episode 2 goes from step 0 to step 2; step 1 is missing",
        "line 7: 5 fields; the header has 8",
        "line 10: episode 4 has step 0 twice (also line 9)",
        "line 11: step 1 of episode 4 begins in state 'a', but the one before (line 10) ended in 'b'",
        "line 12: episode 4 goes on after it has terminated",
        "line 13: episode 5 begins with step 7; steps count from 0, or all from 1, without gaps",
    ]
    with pytest.raises(conrl.ModelError, match="line 2: reward is 'x', not a number; 9 more mistakes: conrl check"):
        conrl.load_episodes(tmp_path / "log.csv")
    rows.append('"6,0')  # a quote without end: what follows is not known
    broken = read_log(saved(tmp_path, head + "\n".join(rows)), None, ()).mistakes.told()
    end = "line 14: unexpected end of data in the row that starts here"
    assert [one.partition("log.csv, ")[2] for one in broken] == [*told[:4], told[5], end]


def test_a_row_of_no_known_episode(tmp_path: Path) -> None:
    """It may belong to any of them: gaps are looked for once it is mended."""
    head = "episode,step,state,action,reward,next_state\n"
    found = read_log(saved(tmp_path, head + "0,0,a,go,1,a\n,1,a,go,1,a\n0,2,a,go,1,a\n"), None, ()).mistakes.told()
    assert [one.partition("log.csv, ")[2] for one in found] == ["line 3: episode is missing"]


def test_a_negative_index_is_no_text(tmp_path: Path) -> None:
    """As in npz: among whole numbers, -1 is a wrong index and not a name for a state."""
    with pytest.raises(conrl.ModelError, match="line 6: state -1 is not an index"):
        load(tmp_path, changed(4, "next_state", "-1"))


def test_a_missing_state_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match="line 6: next_state is missing"):
        load(tmp_path, changed(4, "next_state", ""))


def test_not_utf8(tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match=r"log\.csv, line 2: byte 0xff is not UTF-8; save the file as CSV UTF-8"):
        load(tmp_path, HEADER.encode() + b"\n\xff\xfe\n")


def test_a_workbook_is_no_csv(tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match=r"log\.csv, line 1: this is an Excel workbook"):
        load(tmp_path, b"PK\x03\x04\x14\x00\x06\x00\xff\xfe")


def test_a_field_without_end(tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match=r"log\.csv, line 2: field larger"):
        load(tmp_path, HEADER + "\n" + "0" * 1_000_001)


@pytest.mark.parametrize("name", ["log.txt", "log", "log.json"])
def test_other_forms(name: str, tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match=r"\.csv, \.npz or \.parquet"):
        load(tmp_path, HEADER, name)
    with pytest.raises(conrl.ModelError, match=r"\.csv or \.npz"):
        conrl.save_episodes(tmp_path / name, [], [])


def test_what_is_no_file(tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match="no such file"):
        conrl.load_episodes(tmp_path / "none.csv")
    (tmp_path / "dir.csv").mkdir()
    with pytest.raises(conrl.ModelError, match="directory"):
        conrl.load_episodes(tmp_path / "dir.csv")
    with pytest.raises(conrl.ModelError, match="no such directory"):
        conrl.save_episodes(tmp_path / "none" / "log.csv", [], [])


def pickled() -> bytes:
    """An archive whose array could run code when read."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=True, **table(reward=np.array([0.5, 1, 2, 3, None], dtype=object)))
    return buffer.getvalue()


NPZ_REFUSED = [
    ("no states", {"state": None}, "no column 'state'"),
    ("unknown column", {"cost": np.zeros(5)}, "unknown column 'cost'"),
    ("another length", {"reward": np.zeros(4)}, "lists of one length"),
    ("two dimensions", {n: np.zeros((5, 1), dtype=int) for n in table()}, "lists of one length"),
    ("a number", {n: np.array(0) for n in table()}, "lists of one length"),
    ("nan", {"reward": np.array([0, 0, np.nan, 0, 0])}, "row 3: reward is nan"),
    ("complex", {"reward": np.zeros(5, dtype=complex)}, "'reward' has dtype complex128"),
    ("texts as rewards", {"reward": np.array(list("abcde"))}, "row 1: reward is 'a', not a number"),
    ("negative state", {"state": np.array([0, 1, 2, 0, -4])}, "row 5: state -4 is not an index"),
    ("huge state", {"state": np.array([0, 1, 2, 0, 2**40])}, "row 5: state 1099511627776 is not an index"),
    ("negative action", {"action": np.array([0, 1, 2, 0, -4])}, "row 5: action -4 is not an index"),
    ("half steps", {"step": np.array([0, 0.5, 1, 0, 1])}, "row 2: step is 0.5; it must be a whole number"),
    ("missing state", {"state": np.array([0, 1, np.nan, 0, 0])}, "row 3: state is missing"),
    ("rounded", {"episode": np.array([2**53] * 3 + [2**53 + 1] * 2)}, "row 1: episode is 9007199254740992; it must be"),
    (
        "huge episode",
        {"episode": np.array([0, 0, 0, 1, 2**62])},
        "row 5: episode is 4611686018427387904; it must be a whole number",
    ),
    ("dates", {"step": np.array([0, 1, 2, 0, 1], dtype="datetime64[s]")}, "step"),
    ("structures", {"reward": np.zeros(5, dtype=[("a", float)])}, "reward"),
]


@pytest.mark.parametrize(("name", "changes", "message"), NPZ_REFUSED, ids=[r[0] for r in NPZ_REFUSED])
def test_npz_refused(name: str, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = save_npz(tmp_path, **changes)
    with pytest.raises(conrl.ModelError, match=message) as error:
        conrl.load_episodes(path)
    assert "log.npz" in str(error.value)


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match=r"log\.npz"):
        load(tmp_path, pickled(), "log.npz")


@pytest.mark.parametrize("form", FORMS)
def test_as_many_names_as_costs(form: str, tmp_path: Path) -> None:
    path = tmp_path / f"log.{form}"
    with pytest.raises(conrl.ModelError, match="cost"):
        conrl.save_episodes(path, random_episodes(0, 1), ["fuel", "time"])
    assert not path.exists()


# -- damage ---------------------------------------------------------------------------------------------------


def readable(path: Path) -> bool:
    """Whether a file is read; if not, the one line of a `ModelError` names it."""
    message, log = path.name, Log((), ())
    try:
        log = conrl.load_episodes(path)
    except conrl.ModelError as error:
        message = str(error)
    assert path.name in message
    assert "\n" not in message
    for e in log.episodes:
        states, actions = np.asarray(e.states), np.asarray(e.actions)
        assert states.size == actions.size + 1 >= 2
        assert states.min() >= 0
        assert actions.min() >= 0
        assert np.isfinite(e.pay).all()
        assert e.pay.shape == (actions.size, 1 + len(log.cost_names))
    return message == path.name


CELLS = st.sampled_from(
    ["", " ", "0", "1", "-1", "00", "1.0", "1e0", "nan", "inf", "1e400", "x", "é", '"', '""', "1_0", "٣", "\0", "0x1",
     "9" * 30, "True", "None", "1,1", "\n", "\r", "\t", ";", "#", "-0", "+1", "2147483648", "1e308"]
)  # fmt: skip


@settings(max_examples=120, deadline=None)
@given(data=st.data())
def test_mangled_csv(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Cells, lines and bytes changed at random: read, or refused in one line."""
    lines = [line.split(",") for line in (HEADER, *GOOD)]
    for _ in range(data.draw(st.integers(0, 3), label="cells")):
        row = data.draw(st.integers(0, len(lines) - 1))
        column = data.draw(st.integers(0, len(lines[row]) - 1))
        lines[row][column] = data.draw(CELLS)
    texts = [",".join(line) for line in lines]
    change = data.draw(st.sampled_from(["nothing", "drop", "twice", "swap", "cut"]), label="lines")
    at = data.draw(st.integers(0, len(texts) - 1))
    if change == "drop":
        del texts[at]
    elif change == "twice":
        texts.insert(at, texts[at])
    elif change == "swap":
        texts[0], texts[at] = texts[at], texts[0]
    raw = bytearray("\n".join(texts).encode())
    if change == "cut":
        raw = raw[: data.draw(st.integers(0, len(raw)))]
    for _ in range(data.draw(st.integers(0, 2), label="bytes")):
        if raw:
            raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path = tmp_path_factory.mktemp("log") / "log.csv"
    path.write_bytes(bytes(raw))
    before = path.read_bytes()
    readable(path)
    assert path.read_bytes() == before


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_mangled_npz(data: st.DataObject, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("log") / "log.npz"
    np.savez(path, **table())
    raw = bytearray(path.read_bytes())
    for _ in range(data.draw(st.integers(1, 4))):
        raw[data.draw(st.integers(0, len(raw) - 1))] = data.draw(st.integers(0, 255))
    path.write_bytes(bytes(raw[: data.draw(st.sampled_from([len(raw), len(raw) // 2, len(raw) - 1]))]))
    assert readable(path) in (True, False)


ARRAYS = st.sampled_from(
    [
        np.zeros(5),
        np.zeros(4),
        np.zeros(0),
        np.array(3),
        np.full(5, np.nan),
        np.arange(5),
        -np.arange(5),
        np.array(list("abcde")),
        np.array([b"a"] * 5),
        np.zeros(5, dtype=bool),
        np.zeros((5, 2)),
        np.zeros(5, dtype=complex),
        np.full(5, 2**63, dtype=np.uint64),
        np.zeros(5, dtype="timedelta64[s]"),
        np.zeros(5, dtype=[("a", int)]),
        np.array([""] * 5),
        np.arange(5, dtype=">i4"),
        np.full(5, 1e308),
    ]
)


@settings(max_examples=80, deadline=None)
@given(changes=st.dictionaries(st.sampled_from(sorted(table())), ARRAYS, min_size=1, max_size=3))
def test_arrays_of_all_kinds(changes: dict[str, Any], tmp_path_factory: pytest.TempPathFactory) -> None:
    path = save_npz(tmp_path_factory.mktemp("log"), **changes)
    assert readable(path) in (True, False)


def test_damaged_archives(tmp_path: Path) -> None:
    whole = save_npz(tmp_path).read_bytes()
    with pytest.raises(conrl.ModelError, match="not a readable"):
        load(tmp_path, b"", "log.npz")
    with pytest.raises(conrl.ModelError, match="not a readable"):
        load(tmp_path, whole[: len(whole) // 2], "log.npz")
    with pytest.raises(conrl.ModelError, match="not a readable"):
        load(tmp_path, HEADER, "log.npz")
    with zipfile.ZipFile(tmp_path / "log.npz", "w") as archive:
        archive.writestr("reward.npy", b"\x93NUMPY")
    with pytest.raises(conrl.ModelError, match=r"log\.npz"):
        conrl.load_episodes(tmp_path / "log.npz")


# -- files as people have them --------------------------------------------------------------------------------

PLAIN = "\n".join((HEADER, *GOOD))


def renamed(**names: str) -> str:
    """GOOD with other names of columns."""
    return "\n".join((",".join(names.get(name, name) for name in HEADER.split(",")), *GOOD))


def beside(column: str, *cells: str) -> str:
    """GOOD with one more column in front, of these cells in turn."""
    lines = [column, *(cells[i % len(cells)] for i in range(len(GOOD)))]
    return "\n".join(f"{cell},{line}" for cell, line in zip(lines, (HEADER, *GOOD), strict=True))


def read(folder: Path, text: str, **asked: Any) -> Log:
    path = folder / "log.csv"
    path.write_text(text)
    return conrl.load_episodes(path, **asked)


def assert_log(log: Log, expected: Log) -> None:
    assert log.cost_names == expected.cost_names
    assert (log.state_names, log.action_names) == (expected.state_names, expected.action_names)
    for one, two in zip(log.episodes, expected.episodes, strict=True):
        assert_same(one, two)


@pytest.fixture
def plain(tmp_path: Path) -> Log:
    return read(tmp_path, PLAIN)


def test_columns_of_other_names(plain: Log, tmp_path: Path) -> None:
    text = renamed(episode="visit", state="ward", reward="benefit", cost_fuel="harm", terminated="dead")
    columns = {"episode": "visit", "state": "ward", "reward": " benefit ", "cost_fuel": "harm", "terminated": "dead"}
    assert_log(read(tmp_path, text, columns=columns), plain)
    with pytest.raises(conrl.ModelError, match="unknown columns 'visit', 'ward'"):
        read(tmp_path, text)


def test_columns_may_swap_their_names(plain: Log, tmp_path: Path) -> None:
    """What is mapped is known under the name that it is mapped to, and under no other."""
    text = renamed(reward="cost_fuel", cost_fuel="reward")
    assert_log(read(tmp_path, text, columns={"reward": "cost_fuel", "cost_fuel": "reward"}), plain)


def test_mapped_costs_stand_beside_others(tmp_path: Path) -> None:
    """In the order of the file."""
    rows = [f"{row},{i}" for i, row in enumerate(GOOD)]
    text = "\n".join((f"{HEADER.replace('cost_fuel', 'harm')},cost_bed", *rows))
    log = read(tmp_path, text, columns={"cost_adverse": "harm"})
    assert log.cost_names == ("adverse", "bed")
    assert log.episodes[0].costs.tolist() == [[0.1, 0.0], [0.2, 1.0], [0.0, 2.0]]


@pytest.mark.parametrize(
    "name",
    ["timestamp", "time", "date", "datetime", "Time", "DATE", " timestamp ", "created_at", "Start_Time", "x_DATE",
     "event_timestamp"],
)  # fmt: skip
def test_times_are_ignored(name: str, plain: Log, tmp_path: Path) -> None:
    assert_log(read(tmp_path, beside(name, "2024-05-01T12:00", "")), plain)


@pytest.mark.parametrize("name", ["times", "at", "_dated", "timestamp_", "date2"])
def test_what_only_looks_like_a_time_is_not_ignored(name: str, tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match=f"unknown column '{name}'"):
        read(tmp_path, beside(name, "0"))


def test_a_time_may_be_a_cost_or_mapped(plain: Log, tmp_path: Path) -> None:
    assert read(tmp_path, renamed(cost_fuel="cost_time")).cost_names == ("time",)
    assert read(tmp_path, renamed(cost_fuel="Cost_created_at")).cost_names == ("created_at",)
    assert_log(read(tmp_path, renamed(step="time"), columns={"step": "time"}), plain)


@pytest.mark.parametrize("ignore", [["note"], "note", "*", ["*"], {"note", "*"}, ("note",), iter(["note"])])
def test_ignored_columns(ignore: Any, plain: Log, tmp_path: Path) -> None:
    assert_log(read(tmp_path, beside("note", "any text", ""), ignore=ignore), plain)


def test_a_column_of_ours_may_be_ignored(plain: Log, tmp_path: Path) -> None:
    log = read(tmp_path, PLAIN, ignore=["cost_fuel", "terminated"])
    assert log.cost_names == ()
    assert not any(episode.terminated for episode in log.episodes)
    with pytest.raises(conrl.ModelError, match="no column 'state'"):
        read(tmp_path, PLAIN, ignore=["state"])


def test_a_column_without_a_name(plain: Log, tmp_path: Path) -> None:
    """What pandas writes of an index."""
    with pytest.raises(conrl.ModelError, match=r"unknown column ''.*or leave it out: ignore=\[''\]"):
        read(tmp_path, beside("", "0"))
    assert_log(read(tmp_path, beside("", "0"), ignore=[""]), plain)


def test_ignored_columns_may_have_one_name(plain: Log, tmp_path: Path) -> None:
    text = "\n".join(
        f"{cell},{line}" for cell, line in zip(("x", *"01234"), beside("x", "a").splitlines(), strict=True)
    )
    assert_log(read(tmp_path, text, ignore="*"), plain)


def test_capitals_and_blanks_around_names(plain: Log, tmp_path: Path) -> None:
    text = renamed(state=" State", reward="REWARD ", episode="Episode", terminated="TERMINATED")
    assert_log(read(tmp_path, text), plain)
    assert read(tmp_path, renamed(cost_fuel="Cost_Fuel")).cost_names == ("Fuel",)
    assert read(tmp_path, renamed(cost_fuel="COST_FUEL")).cost_names == ("FUEL",)


def test_both_cases_of_a_name(plain: Log, tmp_path: Path) -> None:
    text = beside("State", "0")
    with pytest.raises(conrl.ModelError, match=r"line 1: columns 'State' and 'state' are both 'state'; ignore one"):
        read(tmp_path, text)
    assert_log(read(tmp_path, text, ignore=["State"]), plain)
    assert_log(read(tmp_path, text, columns={"state": "state"}, ignore="*"), plain)
    with pytest.raises(conrl.ModelError, match="columns 'Cost_fuel' and 'cost_fuel' are both"):
        read(tmp_path, beside("Cost_fuel", "0"))


WRONG_COLUMNS: list[tuple[Any, str, tuple[str, ...]]] = [
    (["state"], "columns is .*; expected a mapping", ("columns",)),
    ({"sate": "state"}, "unknown column 'sate'; did you mean 'state'", ("columns", "sate")),
    ({"State": "state"}, "unknown column 'State'; did you mean 'state'", ("columns", "State")),
    ({"cost_": "cost_fuel"}, "unknown column 'cost_'", ("columns", "cost_")),
    ({1: "state"}, "unknown column 1", ("columns", "1")),
    ({"state": 1}, r"columns\['state'\] is 1", ("columns", "state")),
    ({"state": "stat"}, "line 1: unknown column 'stat'; did you mean 'state'", ("columns", "state")),
    ({"state": "reward", "reward": " reward"}, "mapped twice, as state and as reward", ("columns", "reward")),
    ({"state": "action"}, "'action' is mapped as state, and there is a column 'state'; ignore", ("columns", "state")),
]


@pytest.mark.parametrize(("columns", "message", "key"), WRONG_COLUMNS, ids=range(len(WRONG_COLUMNS)))
def test_columns_that_make_no_sense(columns: Any, message: str, key: tuple[str, ...], tmp_path: Path) -> None:
    with pytest.raises(conrl.SpecError, match=message) as error:
        read(tmp_path, PLAIN, columns=columns)
    assert error.value.key == key


WRONG_IGNORE: list[tuple[Any, str, tuple[str, ...]]] = [
    (None, "ignore is None; expected names of columns", ("ignore",)),
    (3, "ignore is 3", ("ignore",)),
    ([3], r"ignore is \[3\]", ("ignore",)),
    (["rewad"], "line 1: unknown column 'rewad'; did you mean 'reward'", ("ignore", "rewad")),
    ("nots", "line 1: unknown column 'nots'; known: episode, step", ("ignore", "nots")),
    (["*", "nots"], "unknown column 'nots'", ("ignore", "nots")),
    (["reward"], "column 'reward' is ignored and mapped as state", ("ignore", "reward")),
]


@pytest.mark.parametrize(("ignore", "message", "key"), WRONG_IGNORE, ids=range(len(WRONG_IGNORE)))
def test_ignored_columns_that_are_not_there(ignore: Any, message: str, key: tuple[str, ...], tmp_path: Path) -> None:
    columns = {"state": "reward"} if ignore == ["reward"] else None
    with pytest.raises(conrl.SpecError, match=message) as error:
        read(tmp_path, PLAIN, columns=columns, ignore=ignore)
    assert error.value.key == key


def test_a_name_given_twice_is_settled_by_ignoring(plain: Log, tmp_path: Path) -> None:
    text = "\n".join(
        f"{junk},{line}" for junk, line in zip(("State", *"98765"), renamed(state="ward").splitlines(), strict=True)
    )
    with pytest.raises(conrl.SpecError, match="'ward' is mapped as state, and there is a column 'State'; ignore that"):
        read(tmp_path, text, columns={"state": "ward"})
    for ignore in ("*", ["State"]):
        assert_log(read(tmp_path, text, columns={"state": "ward"}, ignore=ignore), plain)


def test_an_unknown_column_names_the_remedy(tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match=r"log\.csv, line 1: unknown column 'q'") as error:
        read(tmp_path, beside("q", "0"))
    assert "columns={'cost_q': 'q'}" in str(error.value)
    assert "ignore=['q']" in str(error.value)


def test_all_unknown_columns_are_named_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In words of Python or of the command line, with what is missing and what may be meant."""
    monkeypatch.chdir(tmp_path)
    Path("log.csv").write_text("day,hour of day,sent_utc,ts,stat,action,reward,next_state\n1,0,x,x,a,b,1,a\n")
    with pytest.raises(conrl.ModelError) as error:
        conrl.load_episodes("log.csv")
    assert str(error.value) == (
        "log.csv, line 1: unknown columns 'day', 'hour of day', 'stat'; did you mean 'state' by 'stat'? Missing: "
        "episode, state. Say what one is: columns={'state': 'stat'}; or leave them out: ignore=['day', 'hour of day', "
        "'stat']; all: ignore='*'"
    )
    told = (
        "log.csv, line 1: unknown columns 'day', 'hour of day'; missing: episode. Say what one is: --column "
        "episode=day; or leave them out: --ignore day --ignore 'hour of day'; all: --ignore '*'"
    )
    assert refused("plan", "--log", "log.csv", "--column", "state=stat") == told
    found = run("check", "log.csv", "--as", "log", "--column", "state=stat")
    assert told in found.stderr
    assert "no column 'episode', 'state'; a log has" in run("check", "log.csv", "--as", "log", "--ignore", "*").stderr
    columns = ("--column", "state=stat", "--column", "episode=day", "--ignore", "hour of day")
    assert "1 episode, 1 step" in ok("check", "log.csv", "--as", "log", *columns)


def test_episodes_may_be_texts(tmp_path: Path) -> None:
    """Each text is an episode; they come by first appearance, and their rows may be mixed."""
    head = "episode,step,state,action,reward,next_state\n"
    text = head + "v-9,0,0,0,1,1\n10,0,0,0,2,1\nv-9,1,1,0,3,2\n9,0,0,0,4,1\n'=x,0,0,0,5,1"
    log = read(tmp_path, text)
    assert [episode.rewards.tolist() for episode in log.episodes] == [[1.0, 3.0], [2.0], [4.0], [5.0]]
    with pytest.raises(conrl.ModelError, match=r"line 4: episode 'v-9' has step 0 twice \(also line 2\)"):
        read(tmp_path, text.replace("v-9,1", "v-9,0"))


def test_episodes_that_are_numbers_come_in_their_order(tmp_path: Path) -> None:
    head = "episode,step,state,action,reward,next_state\n"
    log = read(tmp_path, head + "10,0,0,0,1,1\n9,0,0,0,2,1\n-1,0,0,0,3,1\n 10 ,1,1,0,4,2")
    assert [episode.rewards.tolist() for episode in log.episodes] == [[3.0], [2.0], [1.0, 4.0]]


@pytest.mark.parametrize(
    ("separator", "reward", "ids"),
    [
        (";", "1,5", ("1", "1.000", "1000")),  # a thousand, in a table with decimal commas
        (";", "1,5", ("1000", "1e3")),
        (",", "1.5", ("1000", "1e3", "1000.0")),
        (",", "1.5", ("2024.1", "2024.10")),
    ],
)
def test_ids_that_are_no_plain_whole_numbers_are_texts(
    separator: str, reward: str, ids: tuple[str, ...], tmp_path: Path
) -> None:
    """Episodes that are written differently are not merged, whatever a number they may be."""
    head = separator.join(("episode", "state", "action", "reward", "next_state"))
    rows = [separator.join((one, "a", "go", reward, "a")) for one in ids for _ in range(2)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", conrl.ModelWarning)  # they look alike
        log = read(tmp_path, "\n".join((head, *rows)))
    assert [len(episode) for episode in log.episodes] == [2] * len(ids)


def test_steps_and_flags_are_read_as_rewards_are(tmp_path: Path) -> None:
    """With the decimal mark of the table, which they help to find."""
    head = "episode;step;state;action;reward;next_state;terminated\n"
    for reward in ("1,5", "1"):
        log = read(tmp_path, head + f"1;0,0;a;go;{reward};a;0,0\n1;1,0;a;go;{reward};a;1,0\n")
        assert [(len(episode), episode.terminated) for episode in log.episodes] == [(2, True)]
    steps = [f"{h:,}".replace(",", ".") for h in range(1002)]
    log = read(tmp_path, head + "".join(f"1;{step};a;go;1,5;a;0\n" for step in steps))
    assert [len(episode) for episode in log.episodes] == [1002]
    with pytest.raises(conrl.ModelError, match=r"1\.000 on line 2 may be 1000 or 1\.000"):
        read(tmp_path, head + "1;1.000;a;go;1;a;0\n")
    with pytest.raises(conrl.ModelError, match=r"line 2: step is '1,0', not a number"):
        read(tmp_path, head.replace(";", ",") + '1,"1,0",a,go,1,a,0\n')


def test_a_cost_is_called_as_in_the_table_of_a_model(tmp_path: Path) -> None:
    log = read(tmp_path, "episode,state,action,reward,Cost Fuel,COST_x y,next_state\n1,0,0,1,2,3,0\n")
    assert log.cost_names == ("Fuel", "x y")
    assert log.episodes[0].costs.tolist() == [[2.0, 3.0]]


def test_ids_of_many_digits_are_not_rounded(tmp_path: Path) -> None:
    """Two that are the same double are two episodes."""
    head = "episode,step,state,action,reward,next_state\n"
    log = read(tmp_path, head + "9007199254740993,0,0,0,1,1\n9007199254740992,0,0,0,2,1\n3,0,0,0,3,1")
    assert [episode.rewards.tolist() for episode in log.episodes] == [[1.0], [2.0], [3.0]]


@pytest.mark.parametrize("form", ["csv", "npz"])
def test_without_steps_the_order_of_the_file_counts(form: str, plain: Log, tmp_path: Path) -> None:
    path = save_npz(tmp_path, step=None)
    assert_log(load(tmp_path, without("step")) if form == "csv" else conrl.load_episodes(path), plain)
    lines = without("step").splitlines()
    mixed = "\n".join(lines[i] for i in (0, 1, 4, 2, 5, 3))
    assert_log(read(tmp_path, mixed), plain)
    wrong = "\n".join(lines[i] for i in (0, 2, 1, 3, 4, 5))
    told = r"line 3: step 1 of episode 0 begins in state 0, but the one before \(line 2\) ended in 2"
    with pytest.raises(conrl.ModelError, match=told):
        read(tmp_path, wrong)


@pytest.mark.parametrize("word", ["1", "1.0", "true", "True", "TRUE", "yes", "Yes", " true "])
def test_words_for_what_has_terminated(word: str, tmp_path: Path) -> None:
    for other in ("0", "false", "False", "no", "NO", "", "0.0"):
        rows = [row[:-1] + (word if row.endswith("1") and row[2] == "2" else other) for row in GOOD]
        log = read(tmp_path, "\n".join((HEADER, *rows)))
        assert [episode.terminated for episode in log.episodes] == [True, False]


def test_lines_are_those_of_the_file(tmp_path: Path) -> None:
    """The header is one, blank ones count, and a cell may hold several."""
    rows = [
        "",
        "",
        HEADER,
        "",
        '0,0,"a\nb",go,1,0,"c\nd",0',
        "",
        '0,1,"c\nd","go\n\nthere",1,0,e,0',
        "0,2,x,go,1,0,e,0",
    ]
    told = r"line 13: step 2 of episode 0 begins in state 'x', but the one before \(line 9\) ended in 'e'"
    with pytest.raises(conrl.ModelError, match=told):
        read(tmp_path, "\n".join(rows))
    with pytest.raises(conrl.ModelError, match=r"line 13: reward is 'y', not a number"):
        read(tmp_path, "\n".join(rows).replace("x,go,1", "e,go,y"))
    with pytest.raises(conrl.ModelError, match=r"line 13: 7 fields; the header has 8"):
        read(tmp_path, "\n".join(rows).replace("x,go,1", "e,go"))
    with pytest.raises(conrl.ModelError, match=r"line 3: unknown column 'rewrd'"):
        read(tmp_path, "\n".join(rows).replace("reward", "rewrd"))


def test_a_line_far_below(tmp_path: Path) -> None:
    """Rows are read some at a time; lines are counted over all of them."""
    rows = [f"{i},0,0,0,1,0,0,0" for i in range(3000)]
    rows[2345] = "2345,0,0,0,1,-inf,0,0"
    with pytest.raises(conrl.ModelError, match="line 2347: cost_fuel is -inf; it must be a finite number"):
        read(tmp_path, "\n".join((HEADER, *rows)))
    rows[2345] = "1,1,1,0,1,0,0,0"
    with pytest.raises(conrl.ModelError, match=r"line 2347: step 1 of episode 1 begins in state 1, .* \(line 3\)"):
        read(tmp_path, "\n".join((HEADER, *rows)))


def test_long_cells_are_cut_in_messages(tmp_path: Path) -> None:
    for cell in ("9" * 5000, "x" * 5000):
        with pytest.raises(conrl.ModelError, match="line 3: reward is") as error:
            read(tmp_path, changed(1, "reward", cell))
        assert len(str(error.value)) < 400


def test_episodes_cannot_be_changed(plain: Log) -> None:
    for episode in plain.episodes:
        for array in (episode.states, episode.actions, episode.rewards, episode.costs, episode.pay):
            with pytest.raises(ValueError, match="read-only"):
                array[0] = 0


# -- the log itself -------------------------------------------------------------------------------------------


def many(count: int) -> Log:
    return Log(tuple(random_episodes(3, 1, count)), ("fuel",), tuple("abcde"), ("x", "y", "z"))


def test_what_a_log_says_of_itself(plain: Log) -> None:
    assert plain.num_steps == 5
    assert repr(plain) == "Log(episodes=2, steps=5, costs=('fuel',))"
    assert repr(Log((), ())) == "Log(episodes=0, steps=0, costs=())"


@settings(max_examples=60, deadline=None)
@given(count=st.integers(2, 30), share=st.floats(0.001, 0.999), seed=st.integers(0, 2**40))
def test_a_log_splits_into_whole_episodes(count: int, share: float, seed: int) -> None:
    log = many(count)
    one, two = log.split(share, seed)
    assert len(one.episodes) == min(max(round(share * count), 1), count - 1)
    place = {id(episode): i for i, episode in enumerate(log.episodes)}
    orders = [[place[id(episode)] for episode in part.episodes] for part in (one, two)]
    assert sorted(orders[0] + orders[1]) == list(range(count))
    for part, order in zip((one, two), orders, strict=True):
        assert order == sorted(order)
        assert (part.cost_names, part.state_names, part.action_names) == (
            log.cost_names, log.state_names, log.action_names,
        )  # fmt: skip
    again = log.split(share, seed)
    assert [part.episodes for part in again] == [one.episodes, two.episodes]


def test_a_split_is_drawn() -> None:
    log = many(12)
    first = {tuple(map(id, log.split(seed=seed)[0].episodes)) for seed in range(20)}
    assert len(first) > 10


@pytest.mark.parametrize("share", [0, 1, 0.0, 1.0, -0.1, 1.5, float("nan"), True, "half", None])
def test_shares_that_make_no_sense(share: Any) -> None:
    with pytest.raises(conrl.SpecError, match=r"share is .*; it must be a number between 0 and 1") as error:
        many(3).split(share)
    assert error.value.key == ("share",)


def test_what_cannot_be_split() -> None:
    for count in (0, 1):
        with pytest.raises(conrl.SpecError, match=f"a log of {count} episode") as error:
            many(count).split()
        assert error.value.key == ("episodes",)
    with pytest.raises(conrl.SpecError) as error:
        many(3).split(seed=-1)
    assert error.value.key == ("seed",)


# -- Parquet --------------------------------------------------------------------------------------------------


def save_parquet(folder: Path, **changes: Any) -> Path:
    path = folder / "log.parquet"
    pl.DataFrame(table(**changes)).write_parquet(path)
    return path


def test_parquet(plain: Log, tmp_path: Path) -> None:
    assert_log(conrl.load_episodes(save_parquet(tmp_path)), plain)
    assert_log(conrl.load_episodes(save_parquet(tmp_path).rename(tmp_path / "LOG.PARQUET")), plain)


def test_parquet_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    pl.DataFrame(table()).clear().write_parquet(path)
    assert_log(conrl.load_episodes(path), Log((), ("fuel",)))


@pytest.mark.parametrize(
    "changes",
    [
        {"terminated": pl.Series([False, False, True, False, False])},
        {"terminated": pl.Series([None, False, True, None, False])},
        {"terminated": pl.Series([None, 0, 1, None, 0])},
        {"terminated": pl.Series([None, "no", "yes", "", "false"])},
        {"reward": pl.Series(["0.5", "-1", "1e-3", "0", "2"])},
        {"reward": pl.Series(["0.5", "-1", "0.001", "0", "2"]).cast(pl.Decimal(10, 3))},
        {"state": pl.Series([0, 1, 2, 0, 0], dtype=pl.UInt8), "step": pl.Series([0, 1, 2, 0, 1], dtype=pl.Int16)},
        {"state": pl.Series([0.0, 1.0, 2.0, 0.0, 0.0])},
        {"action": pl.Series(["1", "0", "1", "0", "1"]).cast(pl.Categorical)},
        {"episode": pl.Series([0, 0, 0, 1, 1], dtype=pl.Int128)},
        {"episode": pl.Series(["v", "v", "v", "w", "w"]).cast(pl.Enum(["w", "v"]))},
        {"episode": pl.Series([2**62, 2**62, 2**62, 2**62 + 1, 2**62 + 1])},
        {"episode": pl.Series([datetime.date(2024, 5, 1)] * 3 + [datetime.date(2024, 4, 1)] * 2)},
        {"step": None},
        {"when": pl.Series([datetime.datetime(2024, 5, 1)] * 5)},
        {"day": pl.Series([datetime.date(2024, 5, 1), None] * 2 + [None])},
        {"after": pl.Series([datetime.timedelta(1)] * 5)},
        {"created_at": pl.Series(["now"] * 5)},
    ],
    ids=lambda changes: "-".join(f"{k} {getattr(v, 'dtype', v)}" for k, v in changes.items()),
)  # fmt: skip
def test_types_in_parquet(changes: dict[str, Any], plain: Log, tmp_path: Path) -> None:
    assert_log(conrl.load_episodes(save_parquet(tmp_path, **changes)), plain)


def test_texts_in_parquet(tmp_path: Path) -> None:
    states = pl.Series(["b", "a", "ü", "b", "b"])
    after = pl.Series(["a", "ü", "c", "b", "a"]).cast(pl.Categorical)
    log = conrl.load_episodes(save_parquet(tmp_path, state=states, next_state=after))
    assert log.state_names == ("b", "a", "ü", "c")
    assert [episode.states.tolist() for episode in log.episodes] == [[0, 1, 2, 3], [0, 0, 1]]


def test_columns_of_parquet_by_other_names(plain: Log, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    frame = pl.DataFrame(table()).rename({"state": "Ward", "reward": "REWARD", "cost_fuel": "harm"})
    frame.with_columns(note=pl.lit("x"), nested=pl.lit([1])).write_parquet(path)
    columns = {"state": "Ward", "cost_fuel": "harm"}
    assert_log(conrl.load_episodes(path, columns=columns, ignore="*"), plain)
    with pytest.raises(conrl.ModelError, match=r"log\.parquet: unknown column 'nested'"):
        conrl.load_episodes(path, columns=columns)


PARQUET_REFUSED: list[tuple[str, dict[str, Any], str]] = [
    ("no states", {"state": None}, "no column 'state'"),
    *(
        (f"null {name}", {name: pl.Series([*table()[name].tolist()[:3], None, 0])}, f"row 4: {name} is missing")
        for name in (*REQUIRED, "step", "cost_fuel")
    ),
    ("nothing", {"state": pl.Series([None] * 5)}, "row 1: state is missing"),
    ("empty text", {"action": pl.Series(["a", "b", "", "c", "d"])}, "row 3: action is missing"),
    ("nan", {"reward": pl.Series([0.0, np.nan, 0.0, 0.0, 0.0])}, "row 2: reward is nan; it must be a finite number"),
    ("nan state", {"state": pl.Series([0.0, np.nan, 0.0, 0.0, 0.0])}, "row 2: state is missing"),
    ("text", {"reward": pl.Series(["0", "0", "0", "0", "x"])}, "row 5: reward is 'x', not a number"),
    ("list", {"state": pl.Series([[0]] * 5)}, r"column 'state' is of type List\(Int64\); expected numbers or texts"),
    ("struct", {"reward": pl.Series([{"a": 1}] * 5)}, "column 'reward' is of type Struct"),
    ("array", {"action": pl.Series([[1, 2]] * 5, dtype=pl.Array(pl.Int64, 2))}, "column 'action' is of type Array"),
    ("bytes", {"action": pl.Series([b"a"] * 5)}, "column 'action' is of type Binary"),
    ("date", {"step": pl.Series([datetime.date(2024, 5, 1)] * 5)}, "column 'step' is of type Date"),
    ("flag", {"terminated": pl.Series([0, 0, 2, 0, 0])}, "row 3: terminated is 2; it must be 0 or 1"),
    ("gap", {"step": pl.Series([0, 1, 3, 0, 1])}, "row 3: episode 0 goes from step 1 to step 3; step 2 is missing"),
    ("repeat", {"step": pl.Series([0, 1, 1, 0, 1])}, r"row 3: episode 0 has step 1 twice \(also row 2\)"),
    ("huge", {"state": pl.Series([0, 1, 2, 0, 2**63], dtype=pl.UInt64)}, "row 5: state 9223372036854775808 is not"),
    ("unknown", {"rewards": pl.Series([0] * 5)}, "unknown column 'rewards'; did you mean 'reward'"),
]


@pytest.mark.parametrize(("name", "changes", "message"), PARQUET_REFUSED, ids=[r[0] for r in PARQUET_REFUSED])
def test_parquet_refused(name: str, changes: dict[str, Any], message: str, tmp_path: Path) -> None:
    path = save_parquet(tmp_path, **changes)
    with pytest.raises(conrl.ModelError, match=message) as error:
        conrl.load_episodes(path)
    assert str(error.value).startswith(str(path))
    assert "\n" not in str(error.value)


def test_parquet_without_polars(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = save_parquet(tmp_path)
    monkeypatch.setitem(sys.modules, "polars", None)
    told = r"log\.parquet: Parquet needs the extra: pip install 'conrl\[report\]', or save the log as CSV"
    with pytest.raises(conrl.ModelError, match=told):
        conrl.load_episodes(path)
    assert len(load(tmp_path, PLAIN).episodes) == 2


def test_a_small_file_of_many_rows(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "log.parquet"
    once = {name: column[:1] for name, column in table(step=None).items()} | {"next_state": [0]}
    rows = pl.DataFrame(once)
    pl.concat([rows] * 20_000).write_parquet(path)
    assert conrl.load_episodes(path).num_steps == 20_000
    monkeypatch.setenv("CONRL_MAX_ARCHIVE", "1000")
    with pytest.raises(conrl.ModelError, match=r"log\.parquet: its 20,000 rows would take .* set CONRL_MAX_ARCHIVE"):
        conrl.load_episodes(path)


class PanicException(BaseException):
    """As what Rust raises."""


@pytest.mark.parametrize("kind", [PanicException, RuntimeError, OSError, KeyboardInterrupt, SystemExit])
def test_whatever_polars_raises(kind: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: Any, **__: Any) -> None:
        raise kind("index out of\nbounds")

    path = save_parquet(tmp_path)
    monkeypatch.setattr(pl, "read_parquet", fail)
    wanted = kind if kind in (KeyboardInterrupt, SystemExit) else conrl.ModelError
    with pytest.raises(wanted) as error:
        conrl.load_episodes(path)
    if wanted is conrl.ModelError:
        assert str(error.value) == f"{path}: not a readable Parquet file: index out of bounds"


def test_cut_parquet(tmp_path: Path) -> None:
    path = save_parquet(tmp_path)
    whole = path.read_bytes()
    for size in (*range(0, len(whole), 97), len(whole) - 1):
        path.write_bytes(whole[:size])
        with pytest.raises(conrl.ModelError, match=r"log\.parquet: not a Parquet file, or only a part of one"):
            conrl.load_episodes(path)
        path.write_bytes(whole[:size] + b"PAR1")
        assert not readable(path)


@settings(max_examples=100, deadline=None)
@given(raw=st.binary(max_size=200), ends=st.booleans(), length=st.integers(0, 400))
def test_no_parquet_at_all(raw: bytes, ends: bool, length: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Any bytes, also between the marks of a Parquet file and before what a footer would be."""
    path = tmp_path_factory.mktemp("log") / "log.parquet"
    path.write_bytes(b"PAR1" + raw + length.to_bytes(4, "little") + b"PAR1" if ends else raw)
    assert not readable(path)


# -- any log in any file --------------------------------------------------------------------------------------

TEXTS = ["ward a", "b,c", 'the "d"', "=1+1", "'=x", "ü", "7", "two\nlines", "x;y"]
IDS = ["v-1", "10", "9", "Ö 2", "7b", "=id", "a\nb"]
OURS = ("episode", "step", "state", "action", "reward", "next_state", "terminated")
Rows = list[dict[str, Any]]


@st.composite
def logs(draw: st.DrawFn) -> Rows:
    """The rows of a log, a mapping each, in the order of episodes and steps."""
    states: Any = st.sampled_from(TEXTS) if draw(st.booleans()) else st.integers(0, 4)
    actions: Any = st.sampled_from(TEXTS[:4]) if draw(st.booleans()) else st.integers(0, 3)
    ids: Any = st.sampled_from(IDS) if draw(st.booleans()) else st.integers(-3, 20)
    costs = draw(st.lists(st.sampled_from(["fuel", "Fuel", "time", "x y", "a_at"]), max_size=3, unique=True))
    amounts = st.floats(allow_nan=False, allow_infinity=False)
    start = draw(st.integers(0, 1))
    rows: Rows = []
    for episode in draw(st.lists(ids, min_size=1, max_size=4, unique=True)):
        length = draw(st.integers(1, 5))
        visited = draw(st.lists(states, min_size=length + 1, max_size=length + 1))
        ended = draw(st.booleans())
        for h in range(length):
            row = {"episode": episode, "step": start + h, "state": visited[h], "action": draw(actions)}
            row |= {"reward": draw(amounts)} | {f"cost_{name}": draw(amounts) for name in costs}
            rows.append(row | {"next_state": visited[h + 1], "terminated": int(ended and h == length - 1)})
    return rows


def reference(rows: Rows) -> Log:
    """What a log of these rows is, written for its own sake: one episode after the other, one step after the other."""

    def names(*columns: str) -> list[Any] | None:
        values = [row[column] for column in columns for row in rows]
        whole = all(re.fullmatch(r"-?\d+", str(value)) for value in values)
        return None if whole else list(dict.fromkeys(map(str, values)))

    def index(known: list[Any] | None, value: Any) -> int:
        return int(value) if known is None else known.index(str(value))

    states, actions = names("state", "next_state"), names("action")
    costs = [name for name in rows[0] if name.startswith("cost_")]
    ids: list[Any] = list(dict.fromkeys(row["episode"] for row in rows))
    if all(re.fullmatch(r"-?\d+", str(i)) for i in ids):
        ids.sort(key=int)
    episodes = []
    for i in ids:
        mine = [row for row in rows if row["episode"] == i]
        if "step" in mine[0]:
            mine.sort(key=lambda row: int(row["step"]))
        visited = [index(states, row["state"]) for row in mine] + [index(states, mine[-1]["next_state"])]
        episodes.append(
            conrl.Episode(
                visited,
                [index(actions, row["action"]) for row in mine],
                [row["reward"] for row in mine],
                np.array([[row[name] for name in costs] for row in mine]).reshape(len(mine), len(costs)),
                terminated=bool(mine[-1].get("terminated", 0)),
            )
        )
    found = [None if known is None else tuple(known) for known in (states, actions)]
    return Log(tuple(episodes), tuple(name.removeprefix("cost_") for name in costs), *found)


class Written(NamedTuple):
    """A file, and what to call each of its rows."""

    path: Path
    places: list[str]


def write(folder: Path, rows: Rows, form: str, blanks: list[int], end: str = "\n") -> Written:
    """Rows as a file; as CSV with so many blank lines before each (in turn), and before the header."""
    path = folder / f"log.{form}"
    numbered = [f"row {i + 1}" for i in range(len(rows))]
    if form != "csv":
        columns = {name: _array([row[name] for row in rows]) for name in rows[0]}
        if form == "npz":
            np.savez(path, **columns)
        else:
            pl.DataFrame(columns).write_parquet(path)
        return Written(path, numbered)
    text, places = "", []
    for i, cells in enumerate([list(rows[0]), *(list(row.values()) for row in rows)]):
        text += end * blanks[i % len(blanks)]
        places.append(f"line {len(re.findall(chr(10), text)) + 1}")
        line = io.StringIO()
        cells = [to_cell(cell) if isinstance(cell, str) else cell for cell in cells]
        csv.writer(line, lineterminator=end).writerow(cells)
        text += line.getvalue()
    path.write_bytes(text.encode())
    return Written(path, places[1:])


def _array(cells: list[Any]) -> Any:
    """Texts if one of them is."""
    return np.array([str(cell) for cell in cells]) if any(isinstance(cell, str) for cell in cells) else np.array(cells)


def mixed(data: st.DataObject, rows: Rows) -> Rows:
    """The rows in another order that says the same: any if they have steps, else any mixture of the episodes."""
    if "step" in rows[0]:
        return data.draw(st.permutations(rows), label="rows")
    queues: dict[Any, Rows] = {}
    for row in rows:
        queues.setdefault(row["episode"], []).append(row)
    turns = data.draw(st.permutations([row["episode"] for row in rows]), label="turns")
    return [queues[episode].pop(0) for episode in turns]


BLANKS = st.lists(st.integers(0, 2), min_size=1, max_size=4)


@pytest.mark.filterwarnings("ignore:.*differ only in case or blanks:conrl.ModelWarning")
@settings(max_examples=150, deadline=None)
@given(data=st.data(), rows=logs(), form=st.sampled_from(["csv", "npz", "parquet"]))
def test_any_log_reads_back(
    data: st.DataObject, rows: Rows, form: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Whatever the order and the names of its columns, the order of its rows, and what stands beside them."""
    dropped = data.draw(st.sets(st.sampled_from(["step", "terminated"])), label="dropped")
    rows = mixed(data, [{name: cell for name, cell in row.items() if name not in dropped} for row in rows])
    order = data.draw(st.permutations(list(rows[0])), label="columns")
    rows = [{name: row[name] for name in order} for row in rows]
    columns = {name: f"my {name}" for name in data.draw(st.sets(st.sampled_from(order)), label="renamed")}
    extra = data.draw(st.sets(st.sampled_from(["Timestamp", "created_at", "END_DATE", "note", "?"])), label="beside")
    called = {name: columns.get(name) or data.draw(st.sampled_from(heads(name))) for name in order}
    file = [dict.fromkeys(extra, "x") | {called[name]: cell for name, cell in row.items()} for row in rows]
    written = write(
        tmp_path_factory.mktemp("log"), file, form, data.draw(BLANKS), data.draw(st.sampled_from(["\n", "\r\n"]))
    )
    ignore = data.draw(st.sampled_from([list(extra & {"note", "?"}), "*"]), label="ignore")
    log = conrl.load_episodes(written.path, columns=columns or None, ignore=ignore)
    assert_log(log, reference(rows))
    assert log.num_steps == len(rows)


def heads(name: str) -> list[str]:
    """Ways to write the name of a column."""
    if name.startswith("cost_"):
        return [name, "COST_" + name.removeprefix("cost_")]
    return [name, name.upper(), f" {name.title()} "]


class Damage(NamedTuple):
    """Rows with a mistake, and what is said of it by a function of the rows' places."""

    rows: Rows
    told: Callable[[list[str]], str]


def damaged(data: st.DataObject, rows: Rows) -> Damage:
    kinds = {"gap": gap, "repeat": repeat, "chain": chain, "goes on": goes_on, "number": number, "flag": flag}
    inner = [row for row in rows if any(row["episode"] == r["episode"] and row["step"] < r["step"] for r in rows)]
    later = [row for row in rows if any(row["episode"] == r["episode"] and row["step"] > r["step"] for r in rows)]
    middle = [row for row in inner if row in later]
    possible = ["repeat", "number", "flag"] + ["chain", "goes on"] * bool(inner) + ["gap"] * bool(middle)
    kind = data.draw(st.sampled_from(possible), label="damage")
    among = {"gap": middle, "chain": later, "goes on": inner}.get(kind, rows)
    return kinds[kind](data, rows, data.draw(st.sampled_from(among), label="row"))


def called(row: dict[str, Any], ids: Rows) -> str:
    texts = any(isinstance(r["episode"], str) and not r["episode"].isdigit() for r in ids)
    return f"episode {str(row['episode'])!r}" if texts else f"episode {row['episode']}"


def at(rows: Rows, row: dict[str, Any], more: int = 0) -> int:
    """Where the row of the same episode stands that is so many steps later."""
    return next(i for i, r in enumerate(rows) if r["episode"] == row["episode"] and r["step"] == row["step"] + more)


def gap(data: st.DataObject, rows: Rows, row: dict[str, Any]) -> Damage:
    left = [r for r in rows if r is not row]
    who, h, k = called(row, left), row["step"], at(left, row, 1)
    return Damage(left, lambda place: f"{place[k]}: {who} goes from step {h - 1} to step {h + 1}; step {h} is missing")


def repeat(data: st.DataObject, rows: Rows, row: dict[str, Any]) -> Damage:
    where = data.draw(st.integers(0, len(rows)))
    more = [*rows[:where], row, *rows[where:]]
    one, two = [i for i, r in enumerate(more) if r is row]
    who = called(row, rows)
    return Damage(more, lambda place: f"{place[two]}: {who} has step {row['step']} twice (also {place[one]})")


def chain(data: st.DataObject, rows: Rows, row: dict[str, Any]) -> Damage:
    texts = any(isinstance(r[name], str) for r in rows for name in ("state", "next_state"))
    other: Any = "elsewhere" if texts else 99
    k, before = at(rows, row), at(rows, row, -1)
    changed = [r | {"state": other} if r is row else r for r in rows]
    names = [repr(str(x)) if not whole_states(changed) else x for x in (other, rows[before]["next_state"])]
    start = f"step {row['step']} of {called(row, rows)} begins in state {names[0]}"
    return Damage(
        changed, lambda place: f"{place[k]}: {start}, but the one before ({place[before]}) ended in {names[1]}"
    )


def whole_states(rows: Rows) -> bool:
    return all(str(row[name]).isdigit() for row in rows for name in ("state", "next_state"))


def goes_on(data: st.DataObject, rows: Rows, row: dict[str, Any]) -> Damage:
    k, who = at(rows, row, 1), called(row, rows)
    changed = [r | {"terminated": 1} if r is row else r for r in rows]
    return Damage(changed, lambda place: f"{place[k]}: {who} goes on after it has terminated")


def number(data: st.DataObject, rows: Rows, row: dict[str, Any]) -> Damage:
    paid = [name for name in row if name in ("reward", "step") or name.startswith("cost_")]
    name = data.draw(st.sampled_from(paid), label="column")
    k = at(rows, row)
    changed = [r | {name: "x"} if r is row else r for r in rows]
    return Damage(changed, lambda place: f"{place[k]}: {name} is 'x', not a number")


def flag(data: st.DataObject, rows: Rows, row: dict[str, Any]) -> Damage:
    k = at(rows, row)
    changed = [r | {"terminated": "perhaps"} if r is row else r for r in rows]
    need = "it must be 0 or 1, true or false, yes or no"
    return Damage(changed, lambda place: f"{place[k]}: terminated is 'perhaps'; {need}")


@settings(max_examples=150, deadline=None)
@given(data=st.data(), rows=logs(), form=st.sampled_from(["csv", "csv", "npz", "parquet"]))
def test_damage_is_found_where_it_is(
    data: st.DataObject, rows: Rows, form: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """One mistake in any log, in any order of its rows: named with its line."""
    damage = damaged(data, mixed(data, rows))
    written = write(tmp_path_factory.mktemp("log"), damage.rows, form, data.draw(BLANKS))
    with pytest.raises(conrl.ModelError) as error:
        conrl.load_episodes(written.path)
    assert str(error.value) == f"{written.path}, {damage.told(written.places)}".replace("\n", "\\n")


# -- into a learner -------------------------------------------------------------------------------------------


def task(**changes: Any) -> conrl.Task:
    fields: dict[str, Any] = {"reward_range": (-1.0, 2.0), "initial": 0} | changes
    return conrl.Task(3, 2, 3, [1.0], ["fuel"], **fields)


@pytest.mark.parametrize("form", FORMS)
def test_a_learner_reads_the_same_files(form: str, tmp_path: Path) -> None:
    log = load(tmp_path, HEADER + "\n" + "\n".join(GOOD))
    path = tmp_path / f"again.{form}"
    conrl.save_episodes(path, log.episodes, log.cost_names)
    learners = [conrl.ConRL(task(), seed=1) for _ in range(4)]
    given: list[Any] = [path, str(path), log, list(log.episodes)]
    for learner, source in zip(learners, given, strict=True):
        assert learner.prime(source) == 2
        assert learner.primed == 2
        assert learner.episodes == 0
        for name, array in learner.state().items():
            assert np.array_equal(array, learners[0].state()[name])


def test_a_learner_refuses_other_logs(tmp_path: Path) -> None:
    learner = conrl.ConRL(task())
    with pytest.raises(conrl.RunError, match="the log has names for its actions, and the task has none"):
        learner.prime(load(tmp_path, changed(0, "action", "go")))
    with pytest.raises(conrl.RunError, match=r"costs \('time',\)"):
        learner.prime(load(tmp_path, "\n".join((HEADER, *GOOD)).replace("fuel", "time")))
    with pytest.raises(conrl.RunError, match="episode 1 of the log: reward -1 was seen"):
        conrl.ConRL(task(reward_range=(0.0, 2.0))).prime(load(tmp_path, "\n".join((HEADER, *GOOD))))
    with pytest.raises(conrl.ModelError, match="no such file"):
        learner.prime(tmp_path / "none.csv")
    assert learner.primed == 0
    assert learner.counts.visits.sum() == 0


NUMBERED = """state,action,next_state,probability,reward,cost_c
0,0,2,0.5,0,0
0,0,1,0.5,0,0
0,1,0,1,0,0
2,0,0,1,1,0
2,1,0,1,1,1
1,0,0,1,1,1
1,1,0,1,1,0
"""


def numbered(folder: Path, names: str = "012") -> tuple[conrl.ConstrainedMDP, Path]:
    """A model whose states are called 0, 2 and 1, in this order (or by other names), and the file of a log."""
    path, log = folder / "model.csv", folder / "log.csv"
    head, *rows = NUMBERED.splitlines()
    told = [row.split(",") for row in rows]
    text = [",".join((names[int(s)], a, names[int(t)], *rest)) for s, a, t, *rest in told]
    path.write_text("\n".join((head, *text)))
    model = conrl.load_model(path, horizon=6)
    even = conrl.Policy([model.available / model.available.sum(axis=1, keepdims=True)] * 6)
    conrl.save_episodes(log, conrl.sample_log(model, even, 500, seed=0))
    return model, log


@pytest.mark.parametrize("names", ["012", "xyz"])
def test_a_log_is_lined_up_with_a_task_by_name(names: str, tmp_path: Path) -> None:
    """States that are numbers are names, too: they stand in the order of the model's file."""
    model, log = numbered(tmp_path, names)
    assert model.state_names == (names[0], names[2], names[1])
    found = conrl.estimate(log, task=model.task)
    assert found.state_names == model.state_names
    assert np.abs(found.transitions - model.transitions).max() < 0.1
    np.testing.assert_allclose(found.costs, model.costs, atol=1e-12)
    learner = conrl.ConRL(model.task, problem={"c": 0.5})
    assert learner.prime(log) == 500
    np.testing.assert_allclose(learner.model.costs, model.costs, atol=1e-12)
    learner.save(tmp_path / "learner.npz")
    again = conrl.load_learner(tmp_path / "learner.npz")
    assert again.task.state_names == model.state_names
    assert again.prime(log) == 500
    np.testing.assert_allclose(again.model.costs, model.costs, atol=1e-12)


def test_an_environment_has_the_names_of_its_model(tmp_path: Path) -> None:
    """Its observations are the model's states; not where a wrapper changes them."""
    model, log = numbered(tmp_path)
    env = conrl.envs.CMDPEnv(model.replace(limits=[1.0]))
    task = conrl.Task.from_gymnasium(env)
    assert task.state_names == model.state_names
    np.testing.assert_allclose(conrl.estimate(log, task=task).costs, model.costs, atol=1e-12)
    turned = gymnasium.wrappers.TransformObservation(env, lambda s: 2 - s, env.observation_space)
    assert conrl.Task.from_gymnasium(turned).state_names is None


def test_a_log_with_another_state_is_refused(tmp_path: Path) -> None:
    model, log = numbered(tmp_path, "xyz")
    log.write_text(log.read_text().replace("x,", "w,"))
    with pytest.raises(conrl.RunError, match=r"unknown state of the log 'w'"):
        conrl.ConRL(model.task).prime(log)


@pytest.mark.parametrize("terminated", [False, True])
def test_a_model_from_a_log_has_its_names(terminated: bool, tmp_path: Path) -> None:
    """END has one of its own where an episode terminated, and only there."""
    path = tmp_path / "log.csv"
    path.write_text(
        "episode,step,state,action,reward,cost_fuel,next_state,terminated\n"
        f"1,0,home,go,1,1,work,0\n1,1,work,rest,0,0,work,{int(terminated)}\n"
    )
    model = conrl.estimate(path)
    assert model.state_names == (("home", "work", "(end)") if terminated else ("home", "work"))
    assert (model.action_names, model.cost_names) == (("go", "rest"), ("fuel",))


def test_a_missing_first_step_is_a_gap(tmp_path: Path) -> None:
    """Steps of all episodes count from 0, or those of all from 1."""
    head = "episode,step,state,action,reward,next_state\n"
    path = tmp_path / "log.csv"
    path.write_text(head + "0,0,a,go,1,b\n0,1,b,go,1,a\n1,1,b,go,1,a\n")
    with pytest.raises(conrl.ModelError, match="line 4: episode 1 begins with step 1, and others with step 0"):
        conrl.load_episodes(path)
    path.write_text(head + "0,1,a,go,1,b\n0,2,b,go,1,a\n1,1,b,go,1,a\n")
    assert conrl.load_episodes(path).num_steps == 3


@pytest.mark.parametrize("kind", ["npz", "parquet"])
def test_the_same_number_is_the_same_state_in_every_column(kind: str, tmp_path: Path) -> None:
    """One column has fractions, the other none: as the CSV file of the same table."""
    pl = pytest.importorskip("polars")
    table: dict[str, Any] = {
        "episode": [0, 0, 1], "step": [0, 1, 0], "state": [1.5, 2.0, 2.0], "action": [0.0, 1.0, 0.0],
        "reward": [1.0, 0.0, 1.0], "next_state": [2.0, 1.0, 1.0],
    }  # fmt: skip

    def arrays(columns: dict[str, Any]) -> dict[str, Any]:
        return {name: np.array(column) for name, column in columns.items()}

    pl.DataFrame(table).write_csv(tmp_path / "log.csv")
    if kind == "npz":
        np.savez(tmp_path / "log.npz", **arrays(table))
    else:
        pl.DataFrame(table).write_parquet(tmp_path / "log.parquet")
    log = conrl.load_episodes(tmp_path / f"log.{kind}")
    plain = conrl.load_episodes(tmp_path / "log.csv")
    assert log.state_names == plain.state_names == ("1.5", "2.0", "1.0")
    for one, other in zip(log.episodes, plain.episodes, strict=True):
        np.testing.assert_array_equal(one.states, other.states)
    whole = {**table, "state": np.array([1, 2, 2]), "next_state": np.array([2.0, 1.0, 1.0])}
    np.savez(tmp_path / "whole.npz", **arrays(whole))
    assert conrl.load_episodes(tmp_path / "whole.npz").state_names is None
    mixed = {**table, "state": np.array(["1", "2", "2"]), "next_state": np.array([2.0, 1.0, 1.0])}
    np.savez(tmp_path / "mixed.npz", **arrays(mixed))
    assert conrl.load_episodes(tmp_path / "mixed.npz").state_names in (None, ("1", "2"))
    ints = {**table, "state": np.array([1, 2, 2]), "next_state": np.array([2.0, 1.5, 1.0])}
    np.savez(tmp_path / "ints.npz", **arrays(ints))
    assert conrl.load_episodes(tmp_path / "ints.npz").state_names == ("1.0", "2.0", "1.5")


def test_one_mistake_in_all_rows_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a column whose cells are all wrong; few mistakes are told one by one."""
    monkeypatch.chdir(tmp_path)

    def write(wrong: int) -> None:
        rows = [f"{i},0,a,b,{'120.5 EUR' if i < wrong else 1},a" for i in range(2000)]
        Path("log.csv").write_text("\n".join(["episode,step,state,action,reward,next_state", *rows, ""]))

    write(1200)
    found = run("check", "log.csv")
    assert found.exit_code == 2
    assert "1 mistake," in found.stdout
    assert found.stderr == (
        "Error: log.csv, line 2: reward is '120.5 EUR', not a number (the first of 1,200 lines with this mistake)\n"
    )
    with pytest.raises(conrl.ModelError, match=r"line 2: reward is '120\.5 EUR', not a number \(the first of 1,200"):
        conrl.load_episodes("log.csv")
    write(3)
    assert run("check", "log.csv").stderr.count("not a number\n") == 3
    write(10)
    assert run("check", "log.csv").stderr.count("not a number\n") == 10
    write(11)
    assert run("check", "log.csv").stderr.count("\n") == 1
