"""Files of logged episodes: what is read is what was written, and nothing else is read.

Whatever the bytes, `load_episodes` gives a `Log` or a `ModelError` that names the file.
"""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import conrl
from conrl.estimation.logs import REQUIRED, Log, log_rows

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


REFUSED = [
    ("empty", "", "the file is empty"),
    ("no columns", "\n" + "\n".join(GOOD), "line|column"),
    *((f"no {n}", without(n), f"no column '{n}'") for n in REQUIRED),
    ("extra column", "\n".join(f"{x},{y}" for x, y in zip((HEADER, *GOOD), ("q", *"01234"), strict=True)), "'q'"),
    ("misspelt", changed(0, "step", "0").replace("reward", "rewards"), "did you mean 'reward'"),
    ("column twice", changed(0, "step", "0").replace("cost_fuel", "reward"), "twice"),
    ("short row", changed(2, "reward", "0").replace("0,2,2,1,0,", "0,2,2,1,"), "line 4: 7 fields; the header has 8"),
    ("long row", changed(2, "reward", "1,2"), "line 4: 9 fields; the header has 8"),
    ("gap", changed(2, "step", "3"), "episode 0: its steps are 0, 1, 3"),
    ("late start", changed(4, "step", "3").replace("1,0,0,0,0,0", "1,2,0,0,0,0"), "episode 1: its steps are 2, 3"),
    ("step twice", changed(1, "step", "0"), "episode 0: its steps are 0, 0, 2"),
    ("negative step", changed(0, "step", "-1"), "its steps are -1"),
    ("step 2 first", changed(4, "episode", "2").replace("2,1,0,1,2", "2,2,0,1,2"), "episode 2: its steps are 2"),
    ("broken chain", changed(1, "state", "2"), "episode 0: step 1 does not begin where the one before ended"),
    ("goes on", changed(0, "terminated", "1"), "episode 0: it goes on after it has terminated"),
    ("nan", changed(1, "reward", "nan"), "row 2: reward is nan; it must be a finite number"),
    ("infinite", changed(2, "cost_fuel", "-inf"), "row 3: cost_fuel is -inf"),
    ("huge", changed(2, "cost_fuel", "1e999"), "row 3: cost_fuel is 1e999"),
    ("text as reward", changed(3, "reward", "much"), "row 4: reward is 'much', not a number"),
    ("nothing as reward", changed(3, "reward", ""), "row 4: reward is '', not a number"),
    ("text as step", changed(0, "step", "first"), "row 1: step is 'first'"),
    ("half a step", changed(1, "step", "0.5"), "row 2: step is 0.5; it must be a whole number"),
    ("half an episode", changed(0, "episode", "0.5"), "row 1: episode is 0.5"),
    ("huge episode", changed(0, "episode", "1e300"), "row 1: episode is 1e300; it must be a whole number"),
    ("huge state", changed(4, "next_state", "99999999999999999999"), "state 99999999999999999999 is not an index"),
    ("text as terminated", changed(4, "terminated", "yes"), "row 5: terminated is 'yes'"),
    ("unclosed quote", changed(4, "reward", '"2'), "EOF|fields|quote|unexpected"),
    ("zero byte", changed(4, "reward", "\0"), "NUL|not a number"),
]


@pytest.mark.parametrize(("name", "text", "message"), REFUSED, ids=[r[0] for r in REFUSED])
def test_csv_refused(name: str, text: str, message: str, tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match=message) as error:
        load(tmp_path, text)
    assert "log.csv" in str(error.value)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize("value", ["2", "-1"])
def test_terminated_is_0_or_1(value: str, tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match="terminated"):
        load(tmp_path, changed(4, "terminated", value))


def test_a_negative_index_is_no_text(tmp_path: Path) -> None:
    """As in npz: among whole numbers, -1 is a wrong index and not a name for a state."""
    with pytest.raises(conrl.ModelError, match="state -1 is not an index"):
        load(tmp_path, changed(4, "next_state", "-1"))


def test_a_missing_state_is_no_text(tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match="state"):
        load(tmp_path, changed(4, "next_state", ""))


def test_not_utf8(tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match=r"log\.csv.*utf-8"):
        load(tmp_path, HEADER.encode() + b"\n\xff\xfe\n")


def test_a_field_without_end(tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match=r"log\.csv.*field"):
        load(tmp_path, HEADER + "\n" + "0" * 1_000_001)


@pytest.mark.parametrize("name", ["log.txt", "log", "log.json"])
def test_other_forms(name: str, tmp_path: Path) -> None:
    with pytest.raises(conrl.ModelError, match=r"\.csv or \.npz"):
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
    ("no steps", {"step": None}, "no column 'step'"),
    ("unknown column", {"cost": np.zeros(5)}, "unknown column 'cost'"),
    ("another length", {"reward": np.zeros(4)}, "lists of one length"),
    ("two dimensions", {n: np.zeros((5, 1), dtype=int) for n in table()}, "lists of one length"),
    ("a number", {n: np.array(0) for n in table()}, "lists of one length"),
    ("nan", {"reward": np.array([0, 0, np.nan, 0, 0])}, "row 3: reward is nan"),
    ("complex", {"reward": np.zeros(5, dtype=complex)}, "'reward' has dtype complex128"),
    ("texts as rewards", {"reward": np.array(list("abcde"))}, "row 1: reward is 'a', not a number"),
    ("negative state", {"state": np.array([0, 1, 2, 0, -4])}, "state -4 is not an index"),
    ("huge state", {"state": np.array([0, 1, 2, 0, 2**40])}, "is not an index"),
    ("negative action", {"action": np.array([0, 1, 2, 0, -4])}, "action -4 is not an index"),
    ("half steps", {"step": np.array([0, 0.5, 1, 0, 1])}, "row 2: step is 0.5"),
    ("huge episode", {"episode": np.array([0, 0, 0, 1, 2**62])}, "row 5: episode"),
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
    with pytest.raises(conrl.RunError, match="texts"):
        learner.prime(load(tmp_path, changed(0, "action", "go")))
    with pytest.raises(conrl.RunError, match=r"costs \('time',\)"):
        learner.prime(load(tmp_path, "\n".join((HEADER, *GOOD)).replace("fuel", "time")))
    with pytest.raises(conrl.RunError, match="episode 1 of the log: reward -1 was seen"):
        conrl.ConRL(task(reward_range=(0.0, 2.0))).prime(load(tmp_path, "\n".join((HEADER, *GOOD))))
    with pytest.raises(conrl.ModelError, match="no such file"):
        learner.prime(tmp_path / "none.csv")
    assert learner.primed == 0
    assert learner.counts.visits.sum() == 0


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
