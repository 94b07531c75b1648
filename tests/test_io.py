"""Model files: what is kept exactly, what is refused with which words, and that writing is all or nothing."""

from __future__ import annotations

import errno
import io
import os
import stat
import struct
import subprocess
import sys
import tempfile
import tracemalloc
import warnings
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launch import launched
from numpy.typing import NDArray

from conrl.errors import ModelError, ModelWarning
from conrl.io import load_model, save_model
from conrl.io.files import atomic_write
from conrl.model import ConstrainedMDP
from conrl.model.layout import Layout

HEADER = "state,action,next_state,probability,reward,cost_fuel"
STAY = "A,stay,A,1,0,0"


def same_bits(x: NDArray[Any] | None, y: NDArray[Any] | None) -> bool:
    if x is None or y is None:
        return x is y
    return x.dtype == y.dtype and x.shape == y.shape and x.tobytes() == y.tobytes()


def assert_identical(x: ConstrainedMDP, y: ConstrainedMDP) -> None:
    for name in ConstrainedMDP.__slots__:
        mine, yours = getattr(x, name), getattr(y, name)
        if name == "_derived":
            continue
        if name == "graph":
            assert all(map(same_bits, mine, yours))
        elif name == "layout" and mine is not None:
            assert (mine.rows, mine.arrows) == (yours.rows, yours.arrows)
            assert same_bits(mine.cell, yours.cell)
        elif isinstance(mine, np.ndarray) or isinstance(yours, np.ndarray):
            assert same_bits(mine, yours), name
            assert not yours.flags.writeable, name
        else:
            assert mine == yours, name


NAMES = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=5)
PAYS = st.floats(-1e6, 1e6) | st.sampled_from([-0.0, 0.1, 1e150, 5e-324])


@st.composite
def models(draw: st.DrawFn, csv: bool = False) -> ConstrainedMDP:
    """Missing actions, pay per pair, by outcome or mixed, duplicate successors, any names."""
    S, A, d = draw(st.integers(1, 4)), draw(st.integers(1, 3)), draw(st.integers(0, 2))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    available = rng.random((S, A)) < 0.7
    available[np.arange(S), rng.integers(0, A, S)] = True
    rest: dict[str, Any] = {
        "horizon": draw(st.integers(1, 9)),
        "initial": draw(st.integers(0, S - 1)) if draw(st.booleans()) else rng.dirichlet(np.ones(S)),
        "limits": draw(st.none() | st.lists(st.floats(0, np.inf), min_size=d, max_size=d)),
        "features": draw(st.sampled_from([None, rng.random((S, 2)), np.arange(S, dtype=np.uint8)[:, None]])),
    }
    for name, size in (("state_names", S), ("action_names", A), ("cost_names", d)):
        listed = st.lists(NAMES.filter(bool), min_size=size, max_size=size, unique=True)
        rest[name] = draw(listed if name == "cost_names" else st.none() | listed)
    kind = draw(st.sampled_from(["pair", "outcome", "mixed", "list"]))
    if kind == "list":
        rows = np.flatnonzero(available.reshape(-1)).repeat(3)
        p = rng.dirichlet(np.ones(3), rows.size // 3).reshape(-1)
        pay = np.array(draw(st.lists(PAYS, min_size=1 + d, max_size=1 + d))) * rng.integers(0, 2, (rows.size, 1 + d))
        t = rng.integers(0, S, rows.size)
        mdp = ConstrainedMDP.from_outcomes(rows // A, rows % A, t, p, pay, num_states=S, num_actions=A, **rest)
    else:
        P = rng.dirichlet(np.ones(S), (S, A)) * (rng.random((S, A, S)) < 0.6)
        P[..., 0] += P.sum(axis=-1) == 0
        P /= P.sum(axis=-1, keepdims=True)
        r = rng.normal(size=(S, A, S) if kind == "outcome" else (S, A))
        c = rng.normal(size=(S, A, d) if kind == "pair" else (S, A, S, d))
        mdp = ConstrainedMDP(P, r, c, available=available, **rest)
    if not csv and draw(st.booleans()):
        mdp = mdp.with_bonus(rng.random((S, A, 1 + d)))
    return mdp


def saved(mdp: ConstrainedMDP, name: str, **given: Any) -> ConstrainedMDP:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / name
        save_model(path, mdp)
        assert os.listdir(folder) == [name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelWarning)  # names may look alike
            return load_model(path, **given)


def complaint(path: Path, **given: Any) -> str | None:
    """What is wrong with a file; any other exception passes."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ModelWarning)
            load_model(path, **given)
    except ModelError as error:
        return str(error)
    return None


# -- round trips ------------------------------------------------------------------------------------------


@settings(max_examples=150, deadline=None)
@given(models())
def test_npz_keeps_every_bit(mdp: ConstrainedMDP) -> None:
    assert_identical(mdp, saved(mdp, "m.npz"))


@settings(max_examples=150, deadline=None)
@given(models(csv=True))
def test_csv_keeps_outcomes_exactly(mdp: ConstrainedMDP) -> None:
    back = saved(mdp, "m.csv", horizon=mdp.horizon, initial=mdp.initial, limits=mdp.limits)
    assert back.state_names == mdp.state_names
    assert back.cost_names == mdp.cost_names
    assert same_bits(back.initial, mdp.initial)
    # Actions are numbered by first appearance: compare by name.
    column = {name: a for a, name in enumerate(mdp.action_names)}
    order = [column[name] for name in back.action_names]
    assert mdp.available[:, order].tolist() == back.available.tolist()
    assert mdp.available.any(axis=0).sum() == len(order)
    S, A = mdp.num_states, mdp.num_actions
    there = mdp.transitions.toarray().reshape(S, A, S)[:, order]
    assert np.array_equal(there, back.transitions.toarray().reshape(there.shape))
    pair = mdp.rewards[:, order], mdp.costs[:, order]
    if mdp.outcome_pay is None:
        assert np.array_equal(pair[0], back.rewards)
        assert np.array_equal(pair[1], back.costs)
        assert back.outcome_pay is None
    else:
        np.testing.assert_allclose(back.rewards, pair[0], rtol=1e-12, atol=1e-12 * np.abs(mdp.outcome_pay).max())
        if order == list(range(A)) and back.outcome_pay is not None:
            assert np.array_equal(mdp.outcome_pay, back.outcome_pay)
    # What was read is a fixed point: nothing drifts from one file to the next.
    if len(order) == A and order == list(range(A)):
        assert_identical(back, saved(back, "again.csv", horizon=back.horizon, initial=back.initial, limits=back.limits))


def test_npz_keeps_layout_bonus_and_defaults(tmp_path: Path) -> None:
    layout = Layout(("S.", " G"), np.array([0, 3]), ("↑", "→"))
    mdp = ConstrainedMDP(np.eye(2)[:, None, :], [[0.1], [0.2]], None, 3, layout=layout)
    save_model(tmp_path / "m.npz", mdp)
    back = load_model(tmp_path / "m.npz")
    assert_identical(mdp, back)
    assert back.state_names == ("0", "1")
    assert back._names.states is None
    assert back.layout is not None
    assert not back.layout.cell.flags.writeable


def test_saving_twice_gives_the_same_bytes(tmp_path: Path) -> None:
    mdp = two_states()
    for suffix in ("npz", "csv"):
        for name in ("a", "b"):
            save_model(tmp_path / f"{name}.{suffix}", mdp)
        assert (tmp_path / f"a.{suffix}").read_bytes() == (tmp_path / f"b.{suffix}").read_bytes()


def test_probabilities_a_little_off_one_are_kept_as_they_are(tmp_path: Path) -> None:
    P = np.array([[[0.5, 0.5 + 9.9e-10]], [[0.0, 1.0]]])
    mdp = ConstrainedMDP(P, np.full((2, 1), 1e9), None, 2)
    for name in ("m.npz", "m.csv"):
        save_model(tmp_path / name, mdp)
        back = load_model(tmp_path / name, horizon=2)
        assert same_bits(back.graph.probability, mdp.graph.probability)
        assert same_bits(back.pay, mdp.pay)


def two_states(**rest: Any) -> ConstrainedMDP:
    P = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]])
    names = {"state_names": ["A", "B"], "action_names": ["go", "stay"], "cost_names": ["fuel"]}
    usual: dict[str, Any] = {"horizon": 4, "limits": [2.5], **names}
    costs = np.arange(8.0).reshape(2, 2, 2, 1)
    return ConstrainedMDP(P, [[1, 2], [3, 4]], costs, **(usual | rest))


@pytest.mark.parametrize("name", ["m.npz", "m.csv", "M.CSV"])
def test_overrides_replace_what_the_file_says(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    save_model(str(path), two_states())
    mdp = load_model(str(path), horizon=7, initial="B", limits={"fuel": 9})
    assert mdp.horizon == 7
    assert mdp.initial.tolist() == [0, 1]
    assert mdp.limits is not None
    assert mdp.limits.tolist() == [9]
    assert load_model(path, horizon=1, initial=1).initial.tolist() == [0, 1]
    assert load_model(path, horizon=1, initial=[0.25, 0.75]).initial.tolist() == [0.25, 0.75]
    with pytest.raises(ModelError, match=r"m.*: initial: unknown state 'BB'; did you mean 'B'\?|M.CSV: initial"):
        load_model(path, horizon=1, initial="BB")
    with pytest.raises(ModelError, match=r"unknown state 'b '; did you mean 'B'\?"):
        load_model(path, horizon=1, initial="b ")
    with pytest.raises(ModelError, match=rf"{name}: unknown cost 'fule'; did you mean 'fuel'\?"):
        load_model(path, horizon=1, limits={"fule": 1})
    with pytest.raises(ModelError, match=f"{name}: horizon is 0"):
        load_model(path, horizon=0)


# -- CSV --------------------------------------------------------------------------------------------------


def read(tmp_path: Path, text: str | bytes, **given: Any) -> ConstrainedMDP:
    path = tmp_path / "m.csv"
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return load_model(path, **({"horizon": 3} | given))


def test_csv_any_column_order_bom_crlf_and_quotes(tmp_path: Path) -> None:
    text = (
        "\ufeffreward,cost_fuel,next_state,state,probability,action\r\n"
        '1.5,2,"Köln, Hbf","a ""b""",0.25,go\r\n'
        "\r\n"
        '-1,0,"a ""b""","a ""b""",0.75,go\r\n'
        '0,0,"Köln, Hbf","Köln, Hbf",1,"wait\nhere"\r\n'
    )
    mdp = read(tmp_path, text)
    assert mdp.state_names == ('a "b"', "Köln, Hbf")
    assert mdp.action_names == ("go", "wait\nhere")
    assert mdp.cost_names == ("fuel",)
    assert mdp.available.tolist() == [[True, False], [False, True]]
    assert mdp.rewards[0, 0] == 0.25 * 1.5 - 0.75
    assert mdp.costs[0, 0].tolist() == [0.5]
    assert mdp.initial.tolist() == [1, 0]
    assert mdp.limits is None


def test_csv_adds_up_equal_outcomes_and_keeps_different_pay_apart(tmp_path: Path) -> None:
    rows = "A,go,A,0.25,1,0\nA,go,A,0.25,1,0\nA,go,A,0.5,3,0\n"
    with pytest.warns(ModelWarning, match="lines 2 and 3 are duplicates: .* their probabilities were added up"):
        mdp = read(tmp_path, f"{HEADER}\n{rows}")
    assert mdp.graph.probability.tolist() == [0.5, 0.5]
    assert mdp.outcome_pay is not None
    assert mdp.outcome_pay.tolist() == [[1, 0], [3, 0]]
    assert mdp.pay.tolist() == [[2, 0]]


def test_csv_equal_pay_is_read_per_pair_without_rounding(tmp_path: Path) -> None:
    rows = "".join(f"A,go,{t},0.1,0.1,0.7\n" for t in "AAAAAABBBB") + "B,go,B,1,0,0\n"
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ModelWarning)  # duplicates
        mdp = read(tmp_path, f"{HEADER}\n{rows}")
    assert mdp.outcome_pay is None
    assert mdp.pay[0].tolist() == [0.1, 0.7]


def test_csv_zero_probability_rows_are_dropped(tmp_path: Path) -> None:
    mdp = read(tmp_path, f"{HEADER}\n{STAY}\nA,stay,A,0,9,9\n")
    assert mdp.graph.probability.tolist() == [1.0]


BAD_CSV: dict[str, tuple[str | bytes, str]] = {
    "empty": ("", r"m\.csv is empty; expected a header state,action"),
    "blank": ("\n\n", r"m\.csv is empty"),
    "header only": (HEADER + "\n", r"m\.csv: it has a header and no rows"),
    "missing column": ("state,action,next_state,reward\n", "line 1: no column 'probability'"),
    "misspelt column": (
        f"{HEADER.replace('probability', 'probabilty')}\n",
        r"line 1: unknown column 'probabilty'; did you mean 'probability'\?",
    ),
    "unknown column": (f"{HEADER},zzz\n", "line 1: unknown column 'zzz'; a cost is called 'cost_zzz'"),
    "nameless cost": (f"{HEADER},cost_\n", "line 1: column 'cost_' has no name"),
    "column twice": (f"{HEADER},reward\n", "line 1: column 'reward' occurs twice"),
    "cost twice": (f"{HEADER},cost_fuel\n", "line 1: column 'cost_fuel' occurs twice"),
    "colons": (HEADER.replace(",", ":"), "line 1: unknown column 'state:action.*; 5 more mistakes: conrl check"),
    "short of a cell": (f"{HEADER}\n,go,A,1,0,0\n", "line 2: state is missing; write it in every row"),
    "an error of Excel": (f"{HEADER}\nA,#REF!,A,1,0,0\n", "line 2: action is #REF!, an error of the spreadsheet"),
    "two names of a column": (f"{HEADER},Reward\n", "line 1: columns 'reward' and 'Reward' are both 'reward'"),
    "a cell without a column": (f"{HEADER},\n{STAY},7\n", "line 2: '7' stands in column 7, which has no name"),
    "not a number": (f"{HEADER}\n{STAY}\n\nA,go,A,1,x1,0\n", "line 4: reward is 'x1'; it must be a number"),
    "empty number": (f"{HEADER}\nA,go,A,1,0,\n", "line 2: cost_fuel is ''; it must be a number"),
    "underscore": (f"{HEADER}\nA,go,A,1,1_0,0\n", "line 2: reward is '1_0'; it must be a number"),
    "nan": (f"{HEADER}\nA,go,A,nan,0,0\n", "line 2: probability is 'nan'; it must be finite and at least 0"),
    "nan reward": (f"{HEADER}\nA,go,A,1,NaN,0\n", "line 2: reward is 'NaN'; it must be finite"),
    "inf": (f"{HEADER}\nA,go,A,1,0,-inf\n", "line 2: cost_fuel is '-inf'; it must be finite"),
    "overflow": (f"{HEADER}\nA,go,A,1,1e999,0\n", "line 2: reward is '1e999'; it must be finite"),
    "too large": (f"{HEADER}\nA,go,A,1,1e200,0\n", r"line 2: reward is '1e200'; it must be at most 1e\+150 in size"),
    "negative": (
        f"{HEADER}\nA,go,A,1.5,0,0\nA,go,A,-0.5,0,0\n",
        "line 3: probability is '-0.5'; it must be finite and at least 0",
    ),
    "short": (f'{HEADER}\n"A\n",x,"A\n",1,0,0\nA,go\n', "line 5: 2 fields; the header has 6"),
    "long": (f"{HEADER}\n{STAY},7\n", "line 2: 7 fields; the header has 6"),
    "sum": (
        f"{HEADER}\n{STAY}\nA,go,A,0.5,0,0\nA,go,A,0.4,1,0\n",
        "line 3: the 2 rows of state 'A', action 'go' have probabilities that sum to 0.9; a distribution sums to 1",
    ),
    "zero sum": (f"{HEADER}\n{STAY}\nA,go,A,0,0,0\n", "line 3: the 1 row of state 'A', action 'go' has probability 0;"),
    "no way on": (
        f"{HEADER}\nA,go,B,1,0,0\n",
        "line 2: state 'B' occurs only as next_state: its own rows are missing; add them; only if it is never left, "
        "add a row that stays there with probability 1$",
    ),
    "typo": (f"{HEADER}\nbase,go,base ,1,0,0\n", r"line 2: state 'base ' .*did you mean 'base'\?"),
    "open quote": (f'{HEADER}\n{STAY}\n"A,go\nB,x\n', "line 3: unexpected end of data in the row that starts here"),
    "long field": (f"{HEADER}\n{STAY}\n{'A' * 200_000},go\n", "line 3: field larger than field limit"),
    "nul": (f"{HEADER}\n{STAY}\n\0".encode(), "line 3: a NUL byte"),
    "utf-16": (f"{HEADER}\n{STAY}\n".encode("utf-16"), "line 1: this is UTF-16, .*CSV UTF-8"),
    "latin-1": (
        f"{HEADER}\n{STAY}\nKöln".encode("latin-1"),
        "line 3: byte 0xf6 is not UTF-8; save the file as CSV UTF-8",
    ),
    "cut": (f"{HEADER}\n{STAY}\nK\xc3".encode("latin-1"), "line 3: the file ends within a UTF-8 character"),
}


@pytest.mark.parametrize("case", BAD_CSV)
def test_csv_mistakes_name_file_line_and_culprit(tmp_path: Path, case: str) -> None:
    text, message = BAD_CSV[case]
    with pytest.raises(ModelError, match=message) as caught:
        read(tmp_path, text)
    assert "m.csv" in str(caught.value)
    assert "\n" not in str(caught.value)


def test_csv_mistakes_far_down_name_their_line(tmp_path: Path) -> None:
    rows = "".join(f"s{i},go,s{i},1,0,0\n" for i in range(5000))
    with pytest.raises(ModelError, match="line 5002: reward is 'oops'"):
        read(tmp_path, f"{HEADER}\n{rows}A,go,A,1,oops,0\n")
    with pytest.raises(ModelError, match="line 5002: 1 field; the header has 6"):
        read(tmp_path, f"{HEADER}\n{rows}A\n")
    block = b"x" * 2**20  # the bad byte lies in a later block than the line's start
    with pytest.raises(ModelError, match="line 3: byte 0xff"):
        read(tmp_path, b"\n\n" + block + "é".encode() + b"\xff")


def test_csv_needs_a_horizon(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(f"{HEADER}\n{STAY}\n")
    with pytest.raises(ModelError, match=r"holds no horizon; give one"):
        load_model(tmp_path / "m.csv")


def test_csv_too_many_actions(tmp_path: Path) -> None:
    rows = "".join(f"A,{i},A,1,0,0\n" for i in range(2**15))
    with pytest.raises(ModelError, match="32768 actions; at most 32767"):
        read(tmp_path, f"{HEADER}\n{rows}")


@settings(max_examples=200, deadline=None)
@given(st.text(st.sampled_from('AB,01."\n\r;é\0'), max_size=40))
def test_csv_garbage_is_a_model_error_or_a_model(rows: str) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "m.csv"
        path.write_bytes(f"{HEADER}\n{STAY}\n{rows}".encode())
        told = complaint(path, horizon=1)
        assert told is None or ("m.csv" in told and "\n" not in told)


def test_what_files_cannot_keep_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"cannot keep the model's bonus; save it as \.npz"):
        save_model(tmp_path / "m.csv", two_states().with_bonus(np.ones((2, 2))))
    with pytest.raises(ModelError, match=r"m\.npz: layout_cell has an entry that is not a cell"):
        save_model(tmp_path / "m.npz", two_states(layout=Layout(("A",), np.array([0, 1]))))
    for suffix in ("csv", "npz"):
        with pytest.raises(ModelError, match=r"state_names has 'B\\x00'"):
            save_model(tmp_path / f"m.{suffix}", two_states(state_names=["A", "B\0"]))
    with pytest.raises(ModelError, match=r"state_names has '\\ud800'"):
        save_model(tmp_path / "m.csv", two_states(state_names=["A", "\ud800"]))
    assert os.listdir(tmp_path) == []


# -- npz --------------------------------------------------------------------------------------------------

PLAIN: dict[str, Any] = {
    "transitions": two_states().transitions.toarray().reshape(2, 2, 2),
    "rewards": np.array([[1, 2], [3, 4]]),
    "costs": np.arange(8.0).reshape(2, 2, 2, 1),
    "horizon": 4,
}


def plain(tmp_path: Path, changes: dict[str, Any], **given: Any) -> ConstrainedMDP:
    arrays = {k: v for k, v in (PLAIN | changes).items() if v is not None}
    np.savez(tmp_path / "m.npz", **arrays)
    return load_model(tmp_path / "m.npz", **given)


def test_plain_npz(tmp_path: Path) -> None:
    named: dict[str, Any] = {"state_names": ["A", "B"], "action_names": ["go", "stay"], "cost_names": ["fuel"]}
    assert_identical(two_states(), plain(tmp_path, named | {"limits": 2.5}))
    assert plain(tmp_path, {"costs": None}).num_costs == 0
    assert plain(tmp_path, {"horizon": None}, horizon=9).horizon == 9
    assert plain(tmp_path, {"initial": 1}).initial.tolist() == [0, 1]
    assert plain(tmp_path, {"initial": [0.5, 0.5]}).initial.tolist() == [0.5, 0.5]
    assert plain(tmp_path, named | {"initial": "B"}).initial.tolist() == [0, 1]
    assert plain(tmp_path, {}, initial="1").initial.tolist() == [0, 1]
    mask = np.array([[True, False], [True, True]])
    assert plain(tmp_path, {"available": mask}).available.tolist() == mask.tolist()
    np.savez_compressed(tmp_path / "z.npz", **PLAIN)
    assert_identical(load_model(tmp_path / "z.npz"), plain(tmp_path, {}))


BAD_PLAIN: dict[str, tuple[dict[str, Any], str]] = {
    "no horizon": ({"horizon": None}, r"no array 'horizon'; add it, or give one"),
    "no rewards": ({"rewards": None}, "no array 'rewards'; a model has rewards, transitions"),
    "misspelt": ({"reward": 1}, r"unknown array 'reward'; did you mean 'rewards'\?"),
    "objects": ({"state_names": np.array(["A", "B"], dtype=object)}, "'state_names' holds Python objects.*dtype=str"),
    "pickled rewards": ({"rewards": np.array([{}])}, "'rewards' holds Python objects"),
    "complex": ({"rewards": np.ones((2, 2), dtype=complex)}, "'rewards' has dtype complex128"),
    "dates": ({"rewards": np.zeros((2, 2), dtype="M8[s]")}, "'rewards' has dtype datetime64"),
    "records": ({"rewards": np.zeros((2, 2), dtype=[("a", float)])}, "'rewards' has dtype"),
    "texts": ({"rewards": np.array([["1", "2"], ["3", "4"]])}, "rewards has dtype object; expected numbers"),
    "numbers as names": ({"state_names": [1, 2]}, "state_names has dtype int64 and shape .*expected a list of texts"),
    "flat": ({"transitions": np.float64(1.0)}, "transitions has shape"),
    "step": ({"transitions": np.ones((3, 2, 2, 2))}, "horizon is 4, but there are transitions.* for 3 steps"),
    "wrong shape": ({"rewards": np.ones(3)}, r"rewards has shape \(3,\)"),
    "nan": ({"transitions": np.full((2, 2, 2), np.nan)}, "transitions.* is nan"),
    "sum": ({"transitions": np.ones((2, 2, 2))}, "transitions.* sums to 2"),
    "horizon list": ({"horizon": [1, 2]}, "horizon is array"),
    "horizon 2.5": ({"horizon": 2.5}, "horizon is 2.5"),
    "initial": ({"initial": 2}, "initial is 2"),
    "initial name": ({"initial": "C"}, "initial: unknown state 'C'; known: 0, 1"),
    "names": ({"state_names": ["A", "A"]}, "state_names has 'A' twice"),
    "limits": ({"limits": [1.0, 2.0]}, r"limits has shape \(2,\)"),
    "format": ({"format": np.array(b"csr")}, "its `format` is not that of a model"),
}


@pytest.mark.parametrize("case", BAD_PLAIN)
def test_plain_npz_mistakes(tmp_path: Path, case: str) -> None:
    changes, message = BAD_PLAIN[case]
    with pytest.raises(ModelError, match=message) as caught:
        plain(tmp_path, changes)
    assert "m.npz: " in str(caught.value)
    assert "\n" not in str(caught.value)


def own(tmp_path: Path, changes: dict[str, Any]) -> ConstrainedMDP:
    layout = Layout(("AB",), np.array([0, 1]))
    save_model(tmp_path / "m.npz", two_states(layout=layout).with_bonus(np.ones((2, 2))))
    with np.load(tmp_path / "m.npz", allow_pickle=False) as file:
        arrays = dict(file) | changes
    np.savez(tmp_path / "m.npz", **{k: v for k, v in arrays.items() if v is not None})
    return load_model(tmp_path / "m.npz")


BAD_OWN: dict[str, tuple[dict[str, Any], str]] = {
    "version": ({"version": 2, "later": 1}, "its version is 2; this conrl reads version 1"),
    "no version": ({"version": None}, "its `format` is not that of a model"),
    "missing": ({"successor": None}, "no array 'successor'"),
    "unknown": ({"bonsu": 1.0}, r"unknown array 'bonsu'; did you mean 'bonus'\?"),
    "first short": ({"first": np.array([0, 4])}, "action is not a rising list of actions"),
    "first empty": ({"first": np.zeros(0, int)}, "a size that makes no model"),
    "first falls": ({"first": np.array([0, 5, 4])}, "first does not rise from 0 to 4"),
    "start ends": ({"start": np.array([0, 2, 3, 4, 7])}, "start does not rise from 0 to 6"),
    "first wraps": (
        {"first": np.array([0, 2**62, 2**63 - 1, -(2**63) + 5, -(2**62), 4])},
        "first does not rise from 0 to 4",
    ),
    "start huge": ({"start": np.array([0, 2, 3, 2**62, 6])}, "start does not rise"),
    "start shape": ({"start": np.arange(4)}, r"start has dtype int64 and shape \(4,\); expected whole .* \(5\)"),
    "action order": ({"action": np.array([1, 0, 0, 1])}, "action is not a rising list"),
    "action range": ({"action": np.array([0, 2, 0, 1])}, "action is not a rising list"),
    "successor range": ({"successor": np.array([0, 1, 0, 1, 0, 2], np.int32)}, r"successor index 2 is not in 0\.\.1"),
    "successor -1": ({"successor": np.array([0, 1, 0, 1, 0, -1], np.int32)}, "successor index -1"),
    "successor float": ({"successor": np.zeros(6)}, "successor has dtype float64"),
    "probability 0": (
        {"probability": np.array([1.0, 0, 1, 1, 0.5, 0.5])},
        "probability has an entry that is not above",
    ),
    "probability nan": ({"probability": np.full(6, np.nan)}, "probability has an entry that is not above 0"),
    "probability inf": ({"probability": np.full(6, np.inf)}, "is inf; a probability is a finite number"),
    "probability sum": ({"probability": np.full(6, 0.75)}, "transitions.* sums to 1.5"),
    "pay shape": ({"pay": np.zeros((4, 3))}, "a size that makes no model"),
    "pay differs": ({"pay": np.zeros((4, 2))}, "pay is not the mean of outcome_pay"),
    "pay nan": ({"pay": np.full((4, 2), np.nan)}, "pay is not the mean"),
    "outcome nan": ({"outcome_pay": np.full((6, 2), np.nan)}, "rewards at state 'A'.* is nan"),
    "pair pay nan": ({"pay": np.full((4, 2), np.nan), "outcome_pay": None}, "rewards at state 'A'.* is nan"),
    "actions": ({"num_actions": 2**15}, "a size that makes no model"),
    "actions list": ({"num_actions": [2]}, r"num_actions has dtype int64 and shape \(1,\)"),
    "horizon": ({"horizon": 0}, "horizon is 0"),
    "horizon float": ({"horizon": 2.0}, "horizon has dtype float64"),
    "initial": ({"initial": np.array([0.5, 0.6])}, "initial sums to 1.1"),
    "limits": ({"limits": np.array([np.nan])}, "limit of cost 'fuel' is nan"),
    "bonus": ({"bonus": np.full((4, 2), -1.0)}, "bonus has a negative"),
    "bonus nan": ({"bonus": np.full((4, 2), np.nan)}, "bonus has a negative or non-finite"),
    "names twice": ({"state_names": np.array(["A", "A"])}, "state_names has 'A' twice"),
    "names short": ({"action_names": np.array(["A"])}, "action_names has 1 entries"),
    "features": ({"features": np.zeros((3, 1))}, "features has shape"),
    "features text": ({"features": np.array([["a"], ["b"]])}, "features has shape"),
    "layout part": ({"layout_cell": None}, "no array 'layout_cell'; a layout has"),
    "layout cell": ({"layout_cell": np.array([0, 2])}, "not a cell of layout_rows"),
}


@pytest.mark.parametrize("case", BAD_OWN)
def test_own_npz_mistakes(tmp_path: Path, case: str) -> None:
    changes, message = BAD_OWN[case]
    with pytest.raises(ModelError, match=message) as caught:
        own(tmp_path, changes)
    assert "m.npz: " in str(caught.value)
    assert "\n" not in str(caught.value)


def test_own_npz_as_saved_loads(tmp_path: Path) -> None:
    assert own(tmp_path, {}).layout is not None


def member(header: str, data: bytes = b"", version: int = 1) -> bytes:
    """An .npy file with any header."""
    text = header.encode("latin-1")
    size = struct.pack("<H" if version == 1 else "<I", len(text))
    return b"\x93NUMPY" + bytes([version, 0]) + size + text + data


def claim(dtype: str, shape: str) -> str:
    return f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}, }}\n"


HOSTILE = {
    "100 MB": (member(claim("<f8", "(13107200,)"), b"12345678"), "claims 104,857,600 bytes; the file holds 8"),
    "10^18": (member(claim("<f8", "(1000000000000000000,)")), "claims 8,000,000,000,000,000,000 bytes"),
    "10^36": (member(claim("<f8", "(10**18, 10**18)".replace("10**18", "1" + "0" * 18))), "claims 8,000,"),
    "no width": (member(claim("<U0", "(1000000000000000000,)")), "claims 1,000,000,000,000,000,000 bytes"),
    "negative": (member(claim("<f8", "(-1,)")), "expected numbers or texts"),
    "object": (member(claim("|O", "(1,)"), b"cos\nsystem\n."), "holds Python objects"),
    "too much": (member(claim("<f8", "(1,)"), bytes(16)), "claims 8 bytes; the file holds 16"),
    "no header": (b"", "not a readable .npz file"),
    "no array": (b"PK hello, this is not an array", "not a readable .npz file"),
    "garbage header": (member("{'descr': ((((\n"), "not a readable .npz file"),
    "deep header": (member("(" * 5000 + "\n"), "not a readable .npz file"),
    "long header": (member("{" + " " * 20_000 + "}\n"), "not a readable .npz file"),
    "no dtype": (member(claim("<zz", "(1,)")), "not a readable .npz file"),
    "version 3": (member(claim("<f8", "()"), bytes(8), version=3), "array format"),
    "no character": (member(claim("<U1", "(1,)"), b"\xff\xff\xff\x7f"), "not a readable .npz file"),
}


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
@pytest.mark.parametrize("case", HOSTILE)
def test_hostile_members(tmp_path: Path, case: str, compression: int) -> None:
    content, message = HOSTILE[case]
    path = tmp_path / "m.npz"
    np.savez(path, **{k: v for k, v in PLAIN.items() if k != "rewards"})
    with zipfile.ZipFile(path, "a", compression) as archive:
        archive.writestr("rewards.npy", content)
    tracemalloc.start()
    try:
        with pytest.raises(ModelError, match=message) as caught:
            load_model(path)
        assert tracemalloc.get_traced_memory()[1] < 10_000_000  # nothing near what was claimed was taken
    finally:
        tracemalloc.stop()
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_damaged_boolean_is_true(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    np.savez(path, **PLAIN)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("available.npy", member(claim("|b1", "(2, 2)"), b"\x02\x01\x01\xff"))
    assert load_model(path).available.all()


def set_declared_size(path: Path, name: str, size: int) -> None:
    """Overwrite what the zip's directory says about the size of a member."""
    data = bytearray(path.read_bytes())
    at = data.rindex(name.encode()) - 46
    assert data[at : at + 4] == b"PK\x01\x02"
    data[at + 24 : at + 28] = struct.pack("<I", size)
    path.write_bytes(data)


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED])
def test_directory_that_lies_about_sizes(tmp_path: Path, compression: int) -> None:
    path = tmp_path / "m.npz"
    with zipfile.ZipFile(path, "w", compression) as archive:
        archive.writestr("transitions.npy", member(claim("<f8", "(13107200,)"), b"12345678"))
        archive.writestr("rewards.npy", b"")
    set_declared_size(path, "transitions.npy", 104_857_600 + len(member(claim("<f8", "(13107200,)"))))
    with pytest.raises(
        ModelError, match=r"array 'transitions' claims 104,857,6\d\d bytes; the file does not hold them"
    ):
        load_model(path)


def test_zip_bombs_are_refused_before_they_are_opened(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.npz"
    np.savez_compressed(path, **(PLAIN | {"rewards": np.zeros(2**20)}))
    monkeypatch.setenv("CONRL_MAX_ARCHIVE", str(2**22))
    with pytest.raises(ModelError, match=r"arrays would take 8,\d+,\d+ bytes from a file of.*CONRL_MAX_ARCHIVE"):
        load_model(path)
    np.savez(path, **(PLAIN | {"rewards": np.zeros(2**20)}))  # as large as it says: read, and found to be wrong
    with pytest.raises(ModelError, match="rewards has shape"):
        load_model(path)


def test_odd_archives(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    path.write_bytes(b"state,action\n")
    with pytest.raises(ModelError, match=r"m\.npz: not a readable \.npz file: File is not a zip file"):
        load_model(path)
    np.savez(path, **PLAIN)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("readme.txt", "hello")
    with pytest.raises(ModelError, match=r"member 'readme\.txt' occurs twice or is not an array"):
        load_model(path)
    np.savez(path, **PLAIN)
    with zipfile.ZipFile(path, "a") as archive, pytest.warns(UserWarning, match="Duplicate name"):
        archive.writestr("rewards.npy", b"")
    with pytest.raises(ModelError, match=r"member 'rewards\.npy' occurs twice"):
        load_model(path)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_LZMA) as archive:
        archive.writestr("rewards.npy", b"")
    with pytest.raises(ModelError, match="'rewards' is encrypted or compressed in a way that numpy does not use"):
        load_model(path)


def test_damaged_files_never_load_as_another_model(tmp_path: Path) -> None:
    mdp = two_states(layout=Layout(("AB",), np.array([0, 1]))).with_bonus(np.ones((2, 2)))
    save_model(tmp_path / "good.npz", mdp)
    good = (tmp_path / "good.npz").read_bytes()
    path = tmp_path / "m.npz"
    rng = np.random.default_rng(0)
    for size in rng.integers(0, len(good), 60):
        path.write_bytes(good[:size])
        with pytest.raises(ModelError, match=r"m\.npz"):
            load_model(path)
    refused = 0
    for at, bit in zip(rng.integers(0, len(good), 600), rng.integers(0, 8, 600), strict=True):
        flipped = bytearray(good)
        flipped[at] ^= 1 << bit
        path.write_bytes(flipped)
        told = complaint(path)
        if told is None:
            assert_identical(mdp, load_model(path))  # a flipped time stamp harms nobody
        else:
            refused += 1
            assert "m.npz" in told
            assert "\n" not in told
    assert refused > 300


def test_npz_horizon_must_fit(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"does not fit a file|horizon is"):
        save_model(tmp_path / "m.npz", two_states(horizon=2**63))


# -- files ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_files_that_cannot_be_read(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    name = f"x.{suffix}"
    with pytest.raises(ModelError, match=rf"^no such file: x\.{suffix}$"):
        load_model(name, horizon=1)
    os.mkdir(name)
    with pytest.raises(ModelError, match=rf"^is a directory, not a file: x\.{suffix}$"):
        load_model(name, horizon=1)
    Path(name, f"y.{suffix}").touch()
    with pytest.raises(ModelError, match=rf"^cannot read x\.{suffix}/y\.{suffix}/z\.{suffix}: not a directory"):
        load_model(f"{name}/y.{suffix}/z.{suffix}", horizon=1)
    os.mkfifo(f"p.{suffix}")
    with pytest.raises(ModelError, match=rf"^not a regular file: p\.{suffix}$"):
        load_model(f"p.{suffix}", horizon=1)
    with pytest.raises(ModelError, match=r"file name too long"):
        load_model("x" * 300 + "." + suffix, horizon=1)
    with pytest.raises(ModelError, match="is not a file name"):
        load_model("x\0." + suffix, horizon=1)


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_permission_denied(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"x.{suffix}"
    path.touch()

    def refuse(*_: object, **__: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)  # root may read everything
    with pytest.raises(ModelError, match=rf"^cannot read .*x\.{suffix}: permission denied$"):
        load_model(path, horizon=1)


@pytest.mark.parametrize("name", ["x.txt", "x", "x.csv.gz"])
def test_suffixes(name: str) -> None:
    with pytest.raises(ModelError, match=r"a model file ends in \.npz, \.csv, \.tsv, \.xlsx or \.drn"):
        load_model(name)
    with pytest.raises(ModelError, match=r"a model file ends in \.npz, \.csv, \.tsv, \.xlsx or \.drn"):
        save_model(name, two_states())


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_files_that_cannot_be_written(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ModelError, match=rf"^cannot write no/x\.{suffix}: no such directory: no$"):
        save_model(f"no/x.{suffix}", two_states())
    os.mkdir(f"d.{suffix}")
    with pytest.raises(ModelError, match=rf"^cannot write d\.{suffix}: it is a directory$"):
        save_model(f"d.{suffix}", two_states())
    assert os.listdir() == [f"d.{suffix}"]


@pytest.mark.parametrize("suffix", ["csv", "npz"])
def test_a_failing_write_leaves_the_old_file(tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / f"x.{suffix}"
    save_model(path, two_states())
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    for name in ("fsync", "replace"):
        with monkeypatch.context() as patch:
            patch.setattr(os, name, full)
            with pytest.raises(ModelError, match=r"cannot write .*: no space left on device"):
                save_model(path, two_states(horizon=9))
        assert path.read_bytes() == before
        assert os.listdir(tmp_path) == [path.name]


def test_atomic_write(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    with atomic_write(path) as handle:
        handle.write(b"one")
        assert not path.exists()
    assert path.read_bytes() == b"one"
    for error in (KeyboardInterrupt, RuntimeError):
        with pytest.raises(error), atomic_write(path) as handle:  # noqa: PT012
            handle.write(b"two")
            raise error
        assert path.read_bytes() == b"one"
        assert os.listdir(tmp_path) == ["x.bin"]


WRITE = """
import sys, time
from conrl.io.files import atomic_write
with atomic_write("x.bin") as handle:
    handle.write(bytes(1 << 20))
    handle.flush()
    print("writing", flush=True)
    time.sleep(1800)
"""


@pytest.mark.skipif(not hasattr(os, "O_TMPFILE"), reason="files without a name are of Linux")
def test_a_killed_writer_leaves_nothing(tmp_path: Path) -> None:
    try:
        os.close(os.open(tmp_path, os.O_TMPFILE | os.O_RDWR))
    except OSError as error:
        pytest.skip(f"this disk has no files without a name: {error}")
    (tmp_path / "x.bin").write_bytes(b"one")
    with launched([sys.executable, "-c", WRITE], cwd=tmp_path, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "writing\n"
        process.kill()
        process.wait()
    assert os.listdir(tmp_path) == ["x.bin"]
    assert (tmp_path / "x.bin").read_bytes() == b"one"


@pytest.mark.parametrize("reason", [errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL])
def test_atomic_write_on_a_disk_without_unnamed_files(
    reason: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def refuse(path: Any, flags: int, *rest: Any, **more: Any) -> int:
        if flags & os.O_TMPFILE == os.O_TMPFILE:
            raise OSError(reason, "not here")
        return real(path, flags, *rest, **more)

    monkeypatch.setattr(os, "O_TMPFILE", 0o20200000, raising=False)
    monkeypatch.setattr(os, "open", refuse)
    with atomic_write(tmp_path / "x.bin") as handle:
        handle.write(b"one")
        assert len(os.listdir(tmp_path)) == 1
    assert os.listdir(tmp_path) == ["x.bin"]
    assert (tmp_path / "x.bin").read_bytes() == b"one"


def test_atomic_write_permissions_and_links(tmp_path: Path) -> None:
    path, link = tmp_path / "x.bin", tmp_path / "link.bin"
    umask = os.umask(0o027)
    try:
        with atomic_write(path):
            pass
    finally:
        os.umask(umask)
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    path.chmod(0o604)
    link.symlink_to(path)
    with atomic_write(str(link)) as handle:
        handle.write(b"through the link")
    assert link.is_symlink()
    assert path.read_bytes() == b"through the link"
    assert stat.S_IMODE(path.stat().st_mode) == 0o604


def test_no_pickle_is_ever_loaded(tmp_path: Path) -> None:
    class Trap:
        def __reduce__(self) -> tuple[object, ...]:
            return os.mkdir, (str(tmp_path / "sprung"),)

    trap = np.empty((), dtype=object)
    trap[()] = Trap()
    buffer = io.BytesIO()
    np.savez(buffer, **(PLAIN | {"horizon": trap}))
    (tmp_path / "m.npz").write_bytes(buffer.getvalue())
    with pytest.raises(ModelError, match="'horizon' holds Python objects"):
        load_model(tmp_path / "m.npz")
    assert not (tmp_path / "sprung").exists()


def test_declared_ranges_are_kept(tmp_path: Path) -> None:
    """They are what one step pays at most: of a model of means nothing else says it."""
    P, pay = np.ones((1, 2, 1)), np.array([[0.4, 0.6]])
    mdp = ConstrainedMDP(P, pay, [pay, pay], 3, cost_ranges=[None, (0.0, 5.0)])
    path = tmp_path / "model.npz"
    save_model(path, mdp)
    again = load_model(path)
    assert np.array_equal(again.task.ranges, [[0.4, 0.6], [0.4, 0.6], [0.0, 5.0]])
    assert np.array_equal(again._ranges, mdp._ranges, equal_nan=True)  # type: ignore[arg-type]
    with np.load(path) as file:
        arrays = dict(file)
    for wrong, piece in (
        (np.zeros((3, 2)), "but the model itself pays"),
        (np.array([[np.nan, 1.0]] * 3), "two finite numbers"),
        (np.zeros((2, 2)), "ranges has"),
        (np.array([["a", "b"]] * 3), "ranges has"),
    ):
        np.savez(path, **{**arrays, "ranges": wrong})
        with pytest.raises(ModelError, match=piece):
            load_model(path)
