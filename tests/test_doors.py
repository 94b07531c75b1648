"""What comes from outside is bounded, read from regular files, copied, and written so that nobody executes it."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import tracemalloc
import zipfile
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from commands import ok, refused
from hypothesis import example, given
from hypothesis import strategies as st
from launch import limited
from numpy.lib import format as npy

import conrl
from conrl import ModelError, RunError, SpecError
from conrl.errors import ConRLError, shown
from conrl.estimation.logs import load_episodes, save_episodes
from conrl.experiments import Run, load, load_spec, parse_spec
from conrl.experiments.search import Search
from conrl.experiments.store import played
from conrl.io.cells import csv_text, from_cell, to_cell
from conrl.io.files import MAX_DEPTH, parse_json, write_npz
from conrl.learners.budget import Budget
from conrl.model.layout import Layout

P = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.25, 0.75]]])  # [S, A, S]
R = np.array([[1.0, 2.0], [3.0, 4.0]])
C = np.array([[[0.1], [0.2]], [[0.3], [0.4]]])
MIB = 2**20


def make(**changes: Any) -> conrl.ConstrainedMDP:
    given: dict[str, Any] = {"transitions": P, "rewards": R, "costs": C, "horizon": 3}
    return conrl.ConstrainedMDP(**(given | changes))


@contextmanager
def memory(most: int) -> Iterator[None]:
    """At most so many bytes are taken within, numpy's included."""
    tracemalloc.start()
    try:
        yield
        taken = tracemalloc.get_traced_memory()[1]
        assert taken < most, f"{taken:,} bytes"
    finally:
        tracemalloc.stop()


def soon() -> AbstractContextManager[None]:
    """What is a millisecond's work is not waited for without end."""
    return limited(60)


# -- archives ---------------------------------------------------------------------------------------------


READERS: dict[str, Callable[[Path], Any]] = {
    "model": conrl.load_model,
    "policy": conrl.load_policy,
    "log": conrl.load_episodes,
    "learner": conrl.load_learner,
}
NAMES = {"model": "transitions", "policy": "probabilities", "log": "state", "learner": "state_counts"}


def bomb(path: Path, name: str, shape: tuple[int, ...], dtype: str) -> None:
    """An archive with one array of zeros, made without having it in memory."""
    head = io.BytesIO()
    npy.write_array_header_1_0(head, {"descr": dtype, "fortran_order": False, "shape": shape})
    left = int(np.prod(shape)) * np.dtype(dtype).itemsize
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open(f"{name}.npy", "w", force_zip64=True) as stream,
    ):
        stream.write(head.getvalue())
        while left:
            stream.write(bytes(min(left, MIB)))
            left -= min(left, MIB)


@pytest.mark.parametrize("kind", READERS)
@pytest.mark.parametrize(("size", "dtype"), [(40 * MIB, "<f8"), (40 * MIB, "|i1"), (5 * MIB, "<U1")])
def test_bombs_are_refused_before_they_are_opened(tmp_path: Path, kind: str, size: int, dtype: str) -> None:
    """Small numbers become 64-bit ones when they are used, and letters Python texts: these count."""
    path = tmp_path / "bomb.npz"
    bomb(path, NAMES[kind], (size,), dtype)
    assert path.stat().st_size < 4 * MIB
    with memory(10 * MIB), pytest.raises((ModelError, RunError), match=r"would take \d+,.*CONRL_MAX_ARCHIVE|format"):
        READERS[kind](path)


def test_a_long_header_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "m.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("rewards.npy", b"\x93NUMPY\x02\x00" + (200 * MIB).to_bytes(4, "little") + bytes(200 * MIB))
    with memory(10 * MIB), pytest.raises(ModelError, match=r"array format \(2, 0\)"):
        conrl.load_model(path)


def test_the_bound_on_archives_can_be_raised(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "p.npz"
    np.savez_compressed(path, actions=np.zeros((2, 20_000), dtype=np.int16), num_actions=np.int64(1))
    monkeypatch.setenv("CONRL_MAX_ARCHIVE", "100000")
    with pytest.raises(ModelError, match="would take 320,008 bytes"):
        conrl.load_policy(path)
    monkeypatch.setenv("CONRL_MAX_ARCHIVE", "400000")
    assert conrl.load_policy(path).shape == (2, 20_000, 1)
    monkeypatch.setenv("CONRL_MAX_ARCHIVE", "much")
    with pytest.raises(ModelError, match="CONRL_MAX_ARCHIVE is 'much'; it must be a whole number"):
        conrl.load_policy(path)


def test_what_is_written_is_read_however_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where compression would make a file look like a bomb, it is left out."""
    monkeypatch.setattr("conrl.io.files.MAX_ARCHIVE", 100_000)
    monkeypatch.setenv("CONRL_MAX_ARCHIVE", "100000")
    policy = conrl.Deterministic(np.zeros((10, 5000), dtype=int), 2)
    policy.save(tmp_path / "p.npz")
    assert conrl.load_policy(tmp_path / "p.npz").shape == (10, 5000, 2)
    with open(tmp_path / "small.npz", "wb") as file:
        write_npz(file, {"x": np.zeros(1000)})
    assert (tmp_path / "small.npz").stat().st_size < 1000


def test_honest_large_models_are_read(tmp_path: Path) -> None:
    mdp = conrl.envs.random_cmdp(states=100_000, actions=4, limits=[1.0])
    conrl.save_model(tmp_path / "m.npz", mdp)
    with np.load(tmp_path / "m.npz") as file:
        np.savez_compressed(tmp_path / "small.npz", **file)
    for name in ("m.npz", "small.npz"):
        assert conrl.load_model(tmp_path / name).num_states == 100_000


# -- sizes ------------------------------------------------------------------------------------------------


def test_states_that_no_outcome_leaves_take_no_memory() -> None:
    with memory(10 * MIB):
        with pytest.raises(ModelError, match="1 outcome for 2000000000 states: some state has no action"):
            conrl.ConstrainedMDP.from_outcomes(
                [0], [0], [0], [1.0], [[1.0]], num_states=2 * 10**9, num_actions=1, horizon=1
            )
        with pytest.raises(ModelError, match=r"400,000,000 are planned with.*CONRL_MAX_TABLE"):
            conrl.Task(2 * 10**9, 2, 3, [1.0], ["c"])
        huge = sp.coo_array(([1.0], ([0], [0])), shape=(2 * 10**9, 10**9))
        with pytest.raises(ModelError, match="some state has no action"):
            make(transitions=huge)


@pytest.mark.parametrize("count", ["num_states", "num_actions"])
@pytest.mark.parametrize("value", [0, -1, 1.0, "1", None, True, 10**5000], ids=shown)
def test_counts_are_whole_numbers(count: str, value: Any) -> None:
    sizes: dict[str, Any] = {"num_states": 1, "num_actions": 1, "horizon": 1, count: value}
    with pytest.raises(
        ModelError, match=f"{count} is|actions; at most|outcome for|no action|planned with|states; at most"
    ):
        conrl.ConstrainedMDP.from_outcomes([0], [0], [0], [1.0], [[1.0]], **sizes)


def test_horizons_are_bounded_by_what_tables_take(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in (10**8, 10**30, 10**5000):
        with pytest.raises(ModelError, match="at most 10,000,000 are supported"):
            make(horizon=wrong)
    with pytest.raises(ModelError, match=r"5,000,001 steps in 81 states has 405000081 entries.*CONRL_MAX_TABLE"):
        conrl.envs.random_cmdp(81, horizon=5_000_001)
    with pytest.raises(ModelError, match="CONRL_MAX_TABLE"):
        conrl.envs.box().replace(horizon=10**7)
    assert make(horizon=10**7).horizon == 10**7
    monkeypatch.chdir(tmp_path)
    for name in ("box", "pricing", "random", "cluster"):
        assert "at most 10,000,000 are supported" in refused("plan", name, "--horizon", 10**8)
        assert "CONRL_MAX_TABLE" in refused("plan", name, "--horizon", 9_999_999)
    monkeypatch.setenv("CONRL_MAX_TABLE", "1000")
    with pytest.raises(ModelError, match="at most 1,000 are planned with"):
        make(horizon=501)
    monkeypatch.setenv("CONRL_MAX_TABLE", "1002")
    assert make(horizon=501).horizon == 501


def test_costs_are_bounded_and_read_in_linear_time(tmp_path: Path) -> None:
    header, row = "state,action,next_state,probability,reward", "a,x,a,1,0"
    path = tmp_path / "m.csv"
    many = 500_000
    path.write_text(f"{header},{','.join(f'cost_{i}' for i in range(many))}\n{row}{',1' * many}\n")
    with soon(), pytest.raises(ModelError, match="500,000 costs; at most 10,000 are supported"):
        conrl.load_model(path, horizon=1)
    log = "episode,step,state,action,reward,next_state"
    path.write_text(f"{log},{','.join(f'cost_{i}' for i in range(many))}\n0,0,0,0,0,0{',1' * many}\n")
    with soon(), pytest.raises(ModelError, match="costs; at most 10,000"):
        load_episodes(path)
    with pytest.raises(ModelError, match="10,001 costs"):
        conrl.Task(1, 1, 1, [1.0] * 10_001, [f"c{i}" for i in range(10_001)])
    names = [f"c{i}" for i in range(10_000)]
    task = conrl.Task(1, 1, 1, dict.fromkeys(names, 1.0), names)  # type: ignore[arg-type]
    assert np.asarray(task.limits).sum() == 10_000


# -- texts ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("bad", ["\ud800", "a\udfffb", "nul\0"])
def test_names_that_no_file_keeps_do_not_enter(tmp_path: Path, bad: str) -> None:
    for changes in (
        {"state_names": ["A", bad]},
        {"action_names": ["x", bad]},
        {"cost_names": [bad]},
    ):
        with pytest.raises(ModelError, match=r"_names has .* is no character that files can keep: rename it"):
            make(**changes)
    with pytest.raises(ModelError, match="cost_names has"):
        conrl.Task(2, 2, 3, [1.0], [bad])
    with pytest.raises(ModelError, match="layout rows has"):
        Layout((bad,), np.zeros(1, dtype=int))
    episode = conrl.Episode([0, 0], [0], [1.0], [[1.0]])
    for suffix in ("csv", "npz"):
        with pytest.raises(ModelError, match="cost_names has"):
            save_episodes(tmp_path / f"log.{suffix}", [episode], [bad])
    if "\0" not in bad:
        names = np.array(["A", bad])
        np.savez(tmp_path / "m.npz", transitions=P, rewards=R, costs=C, horizon=3, state_names=names)
        with pytest.raises(ModelError, match=r"m\.npz: "):
            conrl.load_model(tmp_path / "m.npz")
    assert [path.name for path in tmp_path.iterdir()] in ([], ["m.npz"])


@pytest.mark.parametrize(
    "table",
    [
        np.array(["1e1000000000"]),
        np.array([[["1e999999999/3"]], [["9" * 5000]]]),
        np.zeros((3, 1, 1)),
        np.full((2, 1, 1), np.nan),
        np.full((2, 1, 1), -1.0),
        np.array([[[0.0, 1.0]], [[0.0, 0.0]]]),
    ],
)
def test_books_are_numbers_as_the_guard_writes_them(table: Any) -> None:
    """Never texts, which could ask for more digits than there is memory."""
    books = Budget(conrl.Task(1, 1, 1, [1.0], ["c"]), np.array([5.0]))
    with soon(), pytest.raises(RunError, match=r"books|spent"):
        books.load_state(table, 1)


def test_all_books_are_read_back() -> None:
    task = conrl.Task(1, 1, 1, [1.0] * 4, list("abcd"), cost_ranges=[(-1e150, 1e150)] * 4)
    books, again = (Budget(task, np.full(4, np.inf)) for _ in range(2))
    seen = np.array([[1e150, 5e-324, 0.1, -1e150], [1e150, 5e-324, 0.2, 5e-324]])
    for _ in range(3):
        books.spend_episode(seen)
    again.load_state(books.state(), 3)
    assert again._books == books._books


def test_what_is_nested_deeply_is_one_line(tmp_path: Path) -> None:
    deep = "[" * 100_000
    with pytest.raises(ValueError, match="nested more than 50 levels"):
        parse_json(deep)
    closed = "[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1)
    with pytest.raises(ValueError, match="nested more than 50 levels"):
        parse_json(closed)
    assert parse_json(closed[1:-1]) is not None
    for text in (f"a = {deep}", f"a = {'{a=' * 100_000}", f"a{'.a' * 60} = 1", f"episodes{'.a' * 49} = {closed}"):
        with soon(), pytest.raises(SpecError, match=r"nested more than 50|more than 50 parts"):
            parse_spec(text)
    for text in (f"a{'.a' * 200_000} = 1", f"[{'a . ' * 100_000}a]", ".".join(['"a b"'] * 50_000) + " = 1"):
        with soon(), pytest.raises(SpecError, match="a key of more than 50 parts"):
            parse_spec(text)
    with soon(), pytest.raises(SpecError, match="not TOML"):
        parse_spec("a" * 500_000 + '"' * 500_000)
    learner = conrl.ConRL(conrl.envs.box().task)
    learner.save(tmp_path / "l.npz")
    with np.load(tmp_path / "l.npz") as file:
        given = dict(file)
    for config in (deep, json.dumps({"learner": "conrl", "task": {"kind": parse_json(closed[1:-1])}})):
        np.savez(tmp_path / "l.npz", **(given | {"config": np.array(config)}))
        with pytest.raises(RunError, match="not a learner, or damaged"):
            conrl.load_learner(tmp_path / "l.npz")


# -- regular files ----------------------------------------------------------------------------------------


@pytest.fixture(params=["pipe", "device", "directory"])
def odd_file(request: pytest.FixtureRequest) -> Callable[[Path], Path]:
    def put(path: Path) -> Path:
        path.unlink(missing_ok=True)
        if request.param == "pipe":
            os.mkfifo(path)
        elif request.param == "device":
            path.symlink_to("/dev/zero")
        else:
            path.mkdir()
        return path

    return put


def test_only_regular_files_are_read(
    tmp_path: Path, odd_file: Callable[[Path], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    told = "not a regular file|is a directory"
    for suffix in ("csv", "npz"):
        path = odd_file(tmp_path / f"x.{suffix}")
        with soon(), pytest.raises(ModelError, match=told):
            conrl.load_model(path, horizon=1)
        with soon(), pytest.raises(ModelError, match=told):
            load_episodes(path)
    for read in (conrl.load_policy, conrl.load_learner):
        with soon(), pytest.raises(ModelError, match=told):
            read(tmp_path / "x.npz")
    with soon(), pytest.raises(ModelError, match=told):
        load_spec(odd_file(tmp_path / "s.toml"))
    with soon():
        assert re.search(told, refused("learn", "box", "--prime", tmp_path / "x.csv"))


def test_odd_files_among_runs_do_not_hang(tmp_path: Path, odd_file: Callable[[Path], Path]) -> None:
    spec = parse_spec("episodes = 2\n[environment.box]\n[algorithm.ucbvi]\n[tune]\nparameters = { scale = [0.1] }")
    job = spec.jobs[0]
    Run(job, tmp_path).play()
    where = job.directory(tmp_path)
    odd_file(where / "failed.txt")
    with soon(), pytest.raises(RunError, match=r"failed\.txt"):
        load(tmp_path)
    odd_file(where / "progress.csv")
    with soon():
        assert played(where / "progress.csv") == 0
    odd_file(tmp_path / "search.json")
    with soon(), pytest.raises(ConRLError, match=r"search\.json"):
        Search.of(spec).settle(tmp_path)


def test_names_of_a_study_that_no_file_keeps(tmp_path: Path) -> None:
    spec = parse_spec("episodes = 2\n[environment.box]\n[algorithm.ucbvi]")
    Run(spec.jobs[0], tmp_path).play()
    (tmp_path / "study.json").write_text(json.dumps({"environments": {"\ud800": {"directory": "box"}}}))
    with pytest.raises(RunError, match="no character that files can keep"):
        load(tmp_path)


# -- cells ------------------------------------------------------------------------------------------------


@given(st.text(alphabet="'=+-@\t\r\n＝a1.e", max_size=6) | st.text())
@example("=cmd|'/c calc'!A0")
@example("'=1")
@example("''-x")
@example("-1")
def test_cells_come_back_and_are_no_formulas(text: str) -> None:
    cell = to_cell(text)
    assert from_cell(cell) == text
    if cell[:1] in tuple("=+-@\t\r\n＝＋－＠"):
        float(cell)  # numbers are shown, not executed


@pytest.mark.parametrize("number", ["-1", "+0.5", "-1e-5", "-.5", "-inf", "12", "-1.", "nan"])
def test_numbers_are_no_formulas(number: str) -> None:
    assert to_cell(number) == number


def test_tables_keep_carriage_returns_within_cells() -> None:
    text = csv_text([["a\r=1", 1.5], ["@x", -2.0]])
    assert list(csv.reader(io.StringIO(text, newline=""))) == [["a\r=1", "1.5"], ["'@x", "-2.0"]]
    assert text.startswith('"a\r=1"')


EVIL = ["=cmd|'/c calc'!A0", "'=tis", "-2+3", "@sum", "\ttab", "\rreturn", "-7", "plain"]


def formulas(path: Path) -> list[str]:
    with path.open(newline="", encoding="utf-8") as file:
        cells = [cell for row in csv.reader(file) for cell in row]
    number = re.compile(r"[+-]?[0-9.]+")
    return [cell for cell in cells if cell[:1] in tuple("=+-@\t\r") and not number.fullmatch(cell)]


def test_exported_tables_execute_nothing_and_read_back(tmp_path: Path) -> None:
    S = len(EVIL)
    stay = np.full((S, 2, S), 1.0 / S)
    mdp = conrl.ConstrainedMDP(
        stay, -np.ones((S, 2)), np.ones((S, 2, 1)), 2, state_names=EVIL, action_names=EVIL[:2], cost_names=["=c"]
    )
    conrl.save_model(tmp_path / "m.csv", mdp)
    again = conrl.load_model(tmp_path / "m.csv", horizon=2)
    assert again.state_names == tuple(EVIL)
    assert again.action_names == tuple(EVIL[:2])
    assert again.cost_names == ("=c",)
    conrl.plan(mdp).policy.save(tmp_path / "p.csv", mdp)
    conrl.frontier(mdp).save(str(tmp_path / "f.csv"))
    save_episodes(tmp_path / "l.csv", [conrl.Episode([0, 0], [0], [-1.0], [[-1.0]])], ["=c"])
    assert load_episodes(tmp_path / "l.csv").cost_names == ("=c",)
    for path in tmp_path.glob("*.csv"):
        assert formulas(path) == []
    assert f'"\'{EVIL[0]}"' in (tmp_path / "p.csv").read_text()
    log: list[list[Any]] = [["episode", "step", "state", "action", "reward", "next_state"]]
    log += [[0, 0, EVIL[0], EVIL[1], -1.0, EVIL[2]]]
    (tmp_path / "l.csv").write_text(csv_text(log))
    read = load_episodes(tmp_path / "l.csv")
    assert read.state_names == (EVIL[0], EVIL[2])
    assert read.action_names == (EVIL[1],)


def test_a_name_written_in_two_ways_is_one(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("state,action,next_state,probability,reward\n=a,x,'=a,0.5,0\n'=a,x,=a,0.5,1\n")
    assert conrl.load_model(path, horizon=1).state_names == ("=a",)


def test_tables_of_studies_execute_nothing(tmp_path: Path) -> None:
    text = 'episodes = 2\n[environment."=1+1"]\nmodel = "box"\n[algorithm."@x"]\nlearner = "ucbvi"\ntitle = "-t|x"'
    spec = parse_spec(text)
    Run(spec.jobs[0], tmp_path).play()
    (tmp_path / "study.json").write_text(
        json.dumps(
            {
                "environments": {"=1+1": {"directory": spec.jobs[0].directory(tmp_path).parts[-3]}},
                "algorithms": {"@x": {"directory": spec.jobs[0].directory(tmp_path).parts[-2], "title": "-t|x"}},
            }
        )
    )
    load(tmp_path).save_csv(tmp_path / "summary.csv")
    table = (tmp_path / "summary.csv").read_text()
    assert "'=1+1" in table
    assert formulas(tmp_path / "summary.csv") == []


# -- copies and one-line refusals -------------------------------------------------------------------------


def test_later_changes_of_arguments_do_nothing() -> None:
    limits, floors, budgets = np.array([0.3]), [0.0], {"corner": 5.0}
    constraint = [conrl.convex.at_most(0, 1.0)]
    box = conrl.envs.box()
    problem, knapsack = conrl.Linear(limits, floors), conrl.Knapsack(budgets, 10)
    convex = conrl.ConcaveConvex(lambda x: x, constraint)
    before = problem.rows(box), knapsack.totals(box)
    limits[0], floors[0], budgets["corner"] = 9.0, 9.0, 9.0
    constraint.clear()
    after = problem.rows(box), knapsack.totals(box)
    assert before[0].names == after[0].names == ("corner <= 0.3", "corner >= 0")
    assert before[1].tolist() == after[1].tolist()
    assert len(convex.constraints) == 1


def test_models_tasks_episodes_and_policies_keep_their_own() -> None:
    p, r, c, initial, limit = P.copy(), R.copy(), C.copy(), np.array([0.5, 0.5]), np.array([1.0])
    features, mask, cell, rows = np.ones((2, 3)), np.ones((2, 2), dtype=bool), np.array([0, 1]), ["AB"]
    rates, actions, weights = np.full((3, 2, 2), 0.5), np.zeros((3, 2), dtype=np.int16), np.array([1.0])
    states, pay, low = np.array([0, 1]), np.array([1.0]), np.zeros(2)
    s = sp.csr_array(P.reshape(4, 2))
    b = np.ones((2, 2))
    more: dict[str, Any] = {"initial": initial, "limits": limit, "features": features, "available": mask}
    layout = Layout(rows, cell)  # type: ignore[arg-type]
    mdp = make(transitions=p, rewards=r, costs=c, layout=layout, **more)
    sparse = make(transitions=s).with_bonus(b)
    task = conrl.Task(2, 2, 3, limit, ["c"], features=features, available=mask)
    policy, fixed = conrl.Policy(rates), conrl.Deterministic(actions, 2)
    mixture = conrl.Mixture(weights, [policy], values=low[None])
    episode = conrl.Episode(states, states[:1], pay, pay[:, None])
    target = conrl.targets.Box(low, low + 1.0)
    half = conrl.targets.HalfSpace(weights, 1.0)
    ball = conrl.targets.Ball(low, 1.0)

    def all_of_it() -> list[Any]:
        found: list[Any] = [mdp.pay, mdp.initial, mdp.limits, mdp.features, mdp.layout, mdp.graph, mdp.available]
        found += [sparse.graph, sparse.bonus, task.limits, task.features, task.available]
        found += [policy.probabilities, fixed.actions, fixed.probabilities, mixture.weights, mixture.values]
        found += [episode.states, episode.actions, episode.rewards, episode.costs, episode.total]
        same: list[Any] = json.loads(json.dumps([*found, target.low, half.normal, ball.centre], default=repr))
        return same

    before = all_of_it()
    for array in (p, r, c, initial, limit, features, mask, cell, rates, actions, weights, states, pay, low, s.data, b):
        array[...] = 1 - array
    rows[0] = "BA"
    s.indices[...] = 0
    assert all_of_it() == before


@pytest.mark.parametrize("argument", ["transitions", "rewards", "costs", "initial", "limits", "available", "features"])
def test_masks_are_not_ignored(argument: str) -> None:
    arrays = {
        "transitions": P,
        "rewards": R,
        "costs": C,
        "initial": [0.5, 0.5],
        "limits": [1.0],
        "available": R > 0,
        "features": R,
    }
    with pytest.raises(ModelError, match=rf"{argument} is a masked array.*pass {argument}\.filled\(0\)"):
        make(**{argument: np.ma.array(arrays[argument])})
    if argument == "costs":
        with pytest.raises(ModelError, match="masked array"):
            make(costs=[np.ma.array(R)])
    if argument == "limits":
        for given in (np.ma.array([1.0], mask=[True]), [np.ma.masked]):
            with pytest.raises(ModelError, match="limits is a masked array"):
                conrl.plan(conrl.envs.box(), conrl.Linear(given))


HUGE = 10**400
REFUSED: dict[str, Callable[[], Any]] = {
    "episodes": lambda: conrl.plan(conrl.envs.box(), conrl.Knapsack([1.0], HUGE)),
    "budget": lambda: conrl.plan(conrl.envs.box(), conrl.Knapsack([HUGE], 1)),
    "epsilon": lambda: conrl.plan(conrl.envs.box(), conrl.Knapsack([1.0], 1, epsilon=HUGE)),
    "epsilon true": lambda: conrl.plan(conrl.envs.box(), conrl.Knapsack([1.0], 1, epsilon=False)),
    "delta": lambda: conrl.plan(conrl.envs.box(), conrl.Knapsack([1.0], 1, "theorem", delta="x")),  # type: ignore[arg-type]
    "limits true": lambda: conrl.plan(conrl.envs.box(), conrl.Linear(True)),
    "limits list": lambda: conrl.plan(conrl.envs.box(), conrl.Linear([True])),
    "limits array": lambda: conrl.plan(conrl.envs.box(), conrl.Linear(np.array([True]))),
    "limits name": lambda: conrl.plan(conrl.envs.box(), conrl.Linear({"corner": True})),
    "limits": lambda: conrl.plan(conrl.envs.box(), conrl.Linear({"corner": HUGE})),
    "rewards": lambda: make(rewards=[[HUGE, 0], [0, 0]]),
    "initial": lambda: make(initial=10**5000),
    "initial list": lambda: make(initial=[HUGE, 0]),
    "range": lambda: conrl.Task(2, 2, 3, [1.0], ["c"], reward_range=(0, HUGE)),
    "bonus": lambda: make().with_bonus(HUGE),
    "scale": lambda: conrl.ScaledBonus(HUGE),
    "policy": lambda: conrl.Policy("x"),
    "ragged": lambda: conrl.Policy([[1], [1, 2]]),
    "masked policy": lambda: conrl.Policy(np.ma.array([[[1.0]]], mask=True)),
    "actions": lambda: conrl.Deterministic([[0]], "x"),  # type: ignore[arg-type]
    "40000 actions": lambda: conrl.Deterministic([[40_000]], 50_000),
    "weights": lambda: conrl.Mixture(["x"], [conrl.Policy([[[1.0]]])]),
    "no policies": lambda: conrl.Mixture([1.0], None),  # type: ignore[arg-type]
    "no policy": lambda: conrl.Mixture([1.0], [3]),  # type: ignore[list-item]
    "episode": lambda: conrl.Episode([0, 1], [0], [HUGE], [[1.0]]),
    "target": lambda: conrl.targets.Box("x", [1.0]),
    "near": lambda: conrl.convex.near([HUGE], 1.0),
    "name": lambda: conrl.envs.make("mars-rover").cost_index(10**5000),
    "environment": lambda: conrl.envs.make(10**5000),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("what", REFUSED)
def test_refusals_are_one_line(what: str) -> None:
    with pytest.raises(conrl.ConRLError) as caught:
        REFUSED[what]()
    assert "\n" not in str(caught.value)
    assert 10 < len(str(caught.value)) < 500


def test_an_exported_policy_is_shown_by_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.csv").write_text("state,action,next_state,probability,reward\n'=a,'+x|y,'=a,1,1\n")
    ok("plan", "m.csv", "--horizon", 2, "--out", "p.csv")
    assert formulas(tmp_path / "p.csv") == []
    assert "'=a,'+x|y" in Path("p.csv").read_text()
