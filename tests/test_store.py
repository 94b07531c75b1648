"""Runs on disk: continued to the same bytes, owned by one process, never overwritten, never lost."""

from __future__ import annotations

import json
import os
import random
import re
import signal
import subprocess
import sys
import zipfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from commands import ok, refused
from commands import run as run_command
from launch import PATIENCE, launch, launched, wait_until

import conrl
from conrl.experiments import Job, Run, learn_on_disk, load, run_directory, store
from conrl.learners.saving import write_sealed
from conrl.running import History

ROOT = Path(__file__).parents[1]
ROVER = conrl.envs.mars_rover(rock_reward=1.0)
BUDGET = conrl.envs.pricing()


def rover() -> conrl.ConRL:
    return conrl.ConRL(ROVER.task)


def shop() -> conrl.ConRL:
    return conrl.ConRL(BUDGET.task, problem=conrl.Knapsack([160.0], 40), resolve=True)


def authors() -> conrl.ConRL:
    return conrl.ConRL(ROVER.task, preset="authors")


CASES: dict[str, tuple[conrl.ConstrainedMDP, Any]] = {
    "rover": (ROVER, rover),
    "shop": (BUDGET, shop),
    "authors": (ROVER, authors),
}


def progress(directory: Path) -> bytes:
    return (directory / "progress.csv").read_bytes()


@pytest.mark.parametrize("case", CASES)
def test_a_run_that_failed_in_the_middle_ends_as_one_that_did_not(
    case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    env, make = CASES[case]
    monkeypatch.setattr(store, "FIRST_SAVE", 0.0)
    monkeypatch.setattr(store, "LEAST_PAUSE", 0.0)
    monkeypatch.setattr(store, "SHARE", 0.0)  # a checkpoint after every episode
    learner, history = learn_on_disk(tmp_path / "whole", env, make, 40, seed=3)
    plain = conrl.learn(env, make(), 40, seed=3)
    assert history.to_csv() == plain.to_csv()
    assert progress(tmp_path / "whole").decode() == plain.to_csv()

    class Power(Exception):
        pass

    def cut(self: Any, episode: conrl.Episode) -> None:
        if self.episodes in stops:
            stops.remove(self.episodes)
            raise Power
        observe(self, episode)

    stops, observe = {7, 8, 31}, conrl.ConRL.observe
    monkeypatch.setattr(conrl.ConRL, "observe", cut)
    for _ in range(3):
        with pytest.raises(Power):
            learn_on_disk(tmp_path / "cut", env, make, 40, seed=3)
    again, _ = learn_on_disk(tmp_path / "cut", env, make, 40, seed=3)
    assert progress(tmp_path / "cut") == progress(tmp_path / "whole")
    for name, array in learner.state().items():
        assert np.array_equal(array, again.state()[name]), name


def test_a_finished_run_is_not_played_again_and_more_episodes_continue_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn_on_disk(tmp_path, ROVER, rover, 30, seed=1)
    before = {p.name: p.read_bytes() for p in tmp_path.iterdir()}
    with monkeypatch.context() as patch:
        patch.setattr(store, "learn", lambda *a, **k: pytest.fail("played again"))
        _, history = learn_on_disk(tmp_path, ROVER, rover, 30, seed=1)
        assert len(history) == 30
        assert len(learn_on_disk(tmp_path, ROVER, rover, 10, seed=1)[1]) == 30
    assert {p.name: p.read_bytes() for p in tmp_path.iterdir()} == before
    learn_on_disk(tmp_path, ROVER, rover, 50, seed=1)
    assert progress(tmp_path).decode() == conrl.learn(ROVER, rover(), 50, seed=1).to_csv()
    assert json.loads((tmp_path / "config.json").read_text())["episodes"] == 50


def test_another_setting_is_refused(tmp_path: Path) -> None:
    learn_on_disk(tmp_path, ROVER, rover, 5)
    with pytest.raises(conrl.RunError, match="another learner"):
        learn_on_disk(tmp_path, ROVER, authors, 5)
    with pytest.raises(conrl.RunError, match=r"another (seed|learner)"):
        learn_on_disk(tmp_path, ROVER, rover, 5, seed=1)
    with pytest.raises(conrl.RunError, match='another env: null there, "box" here'):
        learn_on_disk(tmp_path, ROVER, rover, 5, config={"env": "box"})


def test_killed_between_the_two_files_of_the_last_save(tmp_path: Path) -> None:
    learn_on_disk(tmp_path, ROVER, rover, 30)
    whole = progress(tmp_path)
    (tmp_path / "progress.csv").write_bytes(b"".join(whole.splitlines(keepends=True)[:10]))
    learn_on_disk(tmp_path, ROVER, rover, 30)
    assert progress(tmp_path) == whole


def test_what_makes_no_sense_writes_nothing(tmp_path: Path) -> None:
    with pytest.raises(conrl.SpecError, match="'outcome', 'bernoulli'"):
        learn_on_disk(tmp_path / "run", ROVER, rover, 5, pay="often")
    scales = conrl.ScaledBonus(0.1, [0.1, 0.2])
    with pytest.raises(conrl.SpecError, match="2 scales for 1 costs"):
        learn_on_disk(tmp_path / "run", ROVER, lambda: conrl.ConRL(ROVER.task, bonus=scales), 5)
    assert not (tmp_path / "run").exists()


def test_another_model_is_not_continued(tmp_path: Path) -> None:
    learn_on_disk(tmp_path, ROVER, rover, 5)
    with pytest.raises(conrl.RunError, match="another model"):
        learn_on_disk(tmp_path, conrl.envs.mars_rover(rock_reward=0.5), rover, 10)


def test_one_process_owns_a_run(tmp_path: Path) -> None:
    with store.RunFiles(tmp_path, {"episodes": 1}), pytest.raises(conrl.RunError, match="another process"):
        store.RunFiles(tmp_path, {"episodes": 1}).__enter__()
    with store.RunFiles(tmp_path, {"episodes": 1}):
        pass


def test_damaged_files_are_told(tmp_path: Path) -> None:
    learn_on_disk(tmp_path, ROVER, rover, 20)
    checkpoint, config = tmp_path / "checkpoint.npz", tmp_path / "config.json"
    whole, rows = checkpoint.read_bytes(), progress(tmp_path)
    for size in (0, 3, 100, len(whole) // 2, len(whole) - 1):
        checkpoint.write_bytes(whole[:size])
        with pytest.raises(conrl.RunError, match=r"checkpoint.npz: damaged"):
            learn_on_disk(tmp_path, ROVER, rover, 30)
    checkpoint.write_bytes(whole)
    config.write_text("{")
    with pytest.raises(conrl.RunError, match="not JSON"):
        learn_on_disk(tmp_path, ROVER, rover, 30)
    config.write_text("[]")
    with pytest.raises(conrl.RunError, match="not the settings"):
        learn_on_disk(tmp_path, ROVER, rover, 30)
    assert progress(tmp_path) == rows


def places_of(archive: Path) -> dict[str, list[int]]:
    """Positions in a checkpoint by what stands there, a few of each member and kind."""
    data = archive.read_bytes()
    found: dict[str, list[int]] = {}
    draw = random.Random(0)

    def some(kind: str, begin: int, end: int) -> None:
        chosen = {begin, end - 1, draw.randrange(begin, end)} if end > begin else set()
        found.setdefault(kind, []).extend(sorted(chosen))

    with zipfile.ZipFile(archive) as file:
        for entry in file.infolist():
            at = entry.header_offset
            name = len(entry.filename)
            extra = int.from_bytes(data[at + 28 : at + 30], "little")
            some("local header", at, at + 30)
            some("name", at + 30, at + 30 + name)
            some("extra field", at + 30 + name, at + 30 + name + extra)
            some("array", at + 30 + name + extra, at + 30 + name + extra + entry.compress_size)
        some("central directory", file.start_dir, len(data) - 22)
        found["central directory"] += draw.sample(range(file.start_dir, len(data) - 22), 40)
    some("end record", len(data) - 22, len(data))
    return found


def test_a_checkpoint_damaged_anywhere_is_refused_or_is_the_same(tmp_path: Path) -> None:
    """Truncated or with a bit flipped, at every class of positions: never another learner or history."""
    learner, history = learn_on_disk(tmp_path, ROVER, rover, 20)
    path = tmp_path / "checkpoint.npz"
    whole = path.read_bytes()
    settings = json.loads((tmp_path / "config.json").read_text())
    run = store.RunFiles(tmp_path, {name: value for name, value in settings.items() if name != "version"})
    state, rows = learner.state(), history.to_csv()
    draw = random.Random(1)
    refused: Counter[str] = Counter()
    told: set[str] = set()
    tried = 0
    for kind, places in places_of(path).items():
        for at in places:
            bit = bytes([whole[at] ^ (1 << draw.randrange(8))])
            for damaged in (whole[:at], whole[:at] + bit + whole[at + 1 :]):
                path.write_bytes(damaged)
                tried += 1
                again = History(("crash",), learner.problem, ROVER)
                try:
                    loaded = run.load(again, learner)
                except conrl.RunError as error:
                    told.add(str(error).partition(": ")[2].partition(":")[0])
                    refused[kind] += 1
                    continue
                assert len(damaged) == len(whole), f"cut at {at} ({kind}) and believed"
                assert again.to_csv() == rows, (kind, at)
                assert all(np.array_equal(array, loaded.state()[name]) for name, array in state.items()), (kind, at)
    assert set(refused) >= {"local header", "name", "array", "central directory", "end record"}
    assert sum(refused.values()) > 300
    assert tried > 700
    assert told == {"damaged"}


def test_a_checkpoint_is_a_learner(tmp_path: Path) -> None:
    learn_on_disk(tmp_path, ROVER, rover, 20)
    learner = conrl.load_learner(tmp_path / "checkpoint.npz")
    assert learner.episodes == 20
    whole = conrl.ConRL(ROVER.task)
    conrl.learn(ROVER, whole, 20)
    assert np.array_equal(learner.propose().mode, whole.propose().mode)


def test_leftovers_of_a_killed_writer_are_removed(tmp_path: Path) -> None:
    (tmp_path / ".conrl-0123.tmp").write_text("half")
    learn_on_disk(tmp_path, ROVER, rover, 2)
    assert sorted(p.name for p in tmp_path.iterdir()) == ["checkpoint.npz", "config.json", "lock", "progress.csv"]


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(conrl.RunError, match="cannot write in"):
        learn_on_disk(tmp_path / "file", ROVER, rover, 2)


def test_directories_have_names_for_files_and_gymnasium_ids() -> None:
    assert run_directory("runs", "mars-rover", "conrl", 3) == Path("runs/mars-rover/conrl/seed-003")
    assert run_directory("runs", "gymnasium:FrozenLake-v1", "conrl", 0).parts[1] == "gymnasium-FrozenLake-v1"
    assert run_directory("runs", "../models/shop.csv", "conrl", 0).parts[1] == "shop"
    assert run_directory("runs", "..", "conrl", 0).parts[1] == "unnamed"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_saves_everything(number: signal.Signals, tmp_path: Path) -> None:
    words = [sys.executable, "-m", "conrl", "learn", "mars-rover", "--set", "rock_reward=1", "--json"]
    words += ["--episodes", "20000", "--out", str(tmp_path / "runs")]
    directory = run_directory(tmp_path / "runs", "mars-rover", "conrl", 0)
    with launched(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        wait_until((directory / "progress.csv").exists, process)  # written once the first checkpoint is
        process.send_signal(number)
        out, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130, errors
    played = json.loads(out)["episodes"]
    assert f"interrupted after {played} of 20000 episodes; the same command continues it" in errors
    assert progress(directory).decode() == conrl.learn(ROVER, rover(), played).to_csv()
    assert conrl.load_learner(directory / "checkpoint.npz").episodes == played


def test_killed_runs_end_with_the_same_bytes(tmp_path: Path) -> None:
    """The study of 50 kills is `python benchmarks/kill.py`; here a few."""
    script = ROOT / "benchmarks" / "kill.py"
    options = ["--kills", "3", "--most", "3", "--episodes", "1500", "--longest", "4"]
    done = launch([sys.executable, str(script), *options], env=os.environ | {"TMPDIR": str(tmp_path)})
    assert done.returncode == 0, done.stdout + done.stderr
    assert "DIFFERENT" not in done.stdout


def test_a_run_goes_on_with_its_model_in_another_place(tmp_path: Path) -> None:
    for folder in ("here", "there"):
        (tmp_path / folder).mkdir()
        conrl.save_model(tmp_path / folder / "m.npz", conrl.envs.box())
    for folder, episodes in (("here", 3), ("there", 5)):
        job = Job(env=str(tmp_path / folder / "m.npz"), algorithm="conrl", episodes=episodes)
        assert len(Run(job, tmp_path / "out").play()) == episodes


# -- a checkpoint belongs to its run --------------------------------------------------------------------------


def contents(checkpoint: Path) -> dict[str, Any]:
    """The arrays of a checkpoint but its seal."""
    with np.load(checkpoint) as file:
        return {name: file[name] for name in file.files if name != "seal"}


OTHERS: dict[str, tuple[Job, str]] = {
    "another seed": (Job(env="box", algorithm="conrl", episodes=5, seed=1), "another (learner.)?seed: 1 there, 0 here"),
    "another learner": (
        Job(env="box", algorithm="ucbvi", episodes=5),
        'another learner.*: .*"ucbvi" there, "conrl" here|another learner',
    ),
    "another environment": (
        Job(env="mars-rover", algorithm="conrl", episodes=5),
        'another env: "mars-rover" there, "box" here',
    ),
    "another setting": (
        Job(env="box", algorithm="conrl", episodes=5, settings={"horizon": 20}),
        "another (learner|settings)",
    ),
    "another option": (Job(env="box", algorithm="conrl", episodes=5, options={"bonus": "theory"}), "another learner"),
    "another pay": (Job(env="box", algorithm="conrl", episodes=5, pay="bernoulli"), "another pay"),
}


def test_runs_of_version_0_2_do_not_say_which_episodes_explored(tmp_path: Path) -> None:
    """They are read as they are, and not continued: learners do other things now."""
    job = Job(env="box", algorithm="conrl", episodes=30)
    Run(job, tmp_path).play()
    where = job.directory(tmp_path)
    (run,) = load(tmp_path).runs
    assert run.exploring is not None
    assert (np.flatnonzero(run.exploring) + 1).tolist() == [8, 27]
    assert run.last_planned == 30
    rows = [line.split(",") for line in progress(where).decode().splitlines()]
    flag = rows[0].index("exploring")
    (where / "progress.csv").write_text("".join(",".join(row[:flag] + row[flag + 1 :]) + "\n" for row in rows))
    config = json.loads((where / "config.json").read_text())
    (where / "config.json").write_text(json.dumps(config | {"version": 4}))
    (run,) = load(tmp_path).runs
    assert (run.exploring, run.last_planned) == (None, 30)
    with pytest.raises(conrl.RunError, match="another version: 4 there, 5 here; choose another directory"):
        Run(job, tmp_path).play()


@pytest.mark.parametrize("case", OTHERS)
def test_a_checkpoint_of_another_run_is_refused(case: str, tmp_path: Path) -> None:
    mine, (other, why) = Job(env="box", algorithm="conrl", episodes=5), OTHERS[case]
    for job, out in ((mine, tmp_path / "mine"), (other, tmp_path / "other")):
        Run(job, out).play()
    where = mine.directory(tmp_path / "mine")
    own, rows = (where / "checkpoint.npz").read_bytes(), progress(where)
    (where / "checkpoint.npz").write_bytes((other.directory(tmp_path / "other") / "checkpoint.npz").read_bytes())
    words = ("learn", "box", "--out", tmp_path / "mine", "--episodes")
    for episodes in (5, 8):  # a run that seems finished, and one that is to go on
        told = refused(*words, episodes)
        assert re.search(f"checkpoint.npz is of a run with {why}", told), told
        assert told.endswith("; delete it to start the run again")
    assert progress(where) == rows
    (where / "config.json").unlink()  # without it too
    assert "checkpoint.npz is of a run with" in run_command(*words, 8).stderr
    (where / "checkpoint.npz").write_bytes(own)
    ok(*words, 8)
    assert progress(where).decode() == Run(Job(env="box", algorithm="conrl", episodes=8)).play().to_csv()


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    """The same learner in two models of the same sizes: only the digest tells them apart."""
    poorer = conrl.envs.mars_rover(rock_reward=0.5)
    for folder, env in (("mine", ROVER), ("other", poorer)):
        learn_on_disk(tmp_path / folder, env, rover, 3)
    (tmp_path / "mine" / "checkpoint.npz").write_bytes((tmp_path / "other" / "checkpoint.npz").read_bytes())
    with pytest.raises(conrl.RunError, match="is of a run with another model"):
        learn_on_disk(tmp_path / "mine", ROVER, rover, 3)


def changed_config(arrays: dict[str, Any], name: str, **changes: Any) -> dict[str, Any]:
    """The arrays with the description of the learner, or that within the run's settings, edited."""
    described = json.loads(str(arrays[name]))
    learner = described["learner"] if name == "run" else described
    learner["problem"] |= changes.pop("problem", {})
    learner |= changes
    return {name: np.array(json.dumps(described, sort_keys=True))}


def with_history(arrays: dict[str, Any]) -> dict[str, Any]:
    """The first episode said to have cost 1 more, and the second one less."""
    costs = arrays["history_costs"].copy()
    costs[0] += 1.0
    costs[1] -= 1.0
    return {"history_costs": costs}


EDITS: dict[str, tuple[Any, str]] = {
    "spent, as it was saved before": (lambda a: {"state_spent": np.array(["0"])}, "no entries of 20 episodes"),
    "nothing spent": (lambda a: {"state_spent": a["state_spent"] * 0.0}, "do not add up to the costs"),
    "a refund": (
        lambda a: {"state_spent": np.concatenate((-a["state_spent"][1:2], a["state_spent"][1:]))},
        "costs that no episode of the run had|less than nothing",
    ),
    "another order": (lambda a: {"state_spent": a["state_spent"][[0, *range(20, 0, -1)]]}, "differ about episode"),
    "the history": (with_history, "differ about episode 1"),
    "larger budgets": (lambda a: changed_config(a, "config", problem={"budgets": [1e9]}), "another learner"),
    "no guard": (lambda a: changed_config(a, "config", guard=False), "another learner"),
    "larger budgets, in both": (
        lambda a: (
            changed_config(a, "config", problem={"budgets": [1e9]})
            | changed_config(a, "run", problem={"budgets": [1e9]})
        ),
        r"another learner.problem.budgets: \[1000000000.0\] there, ",
    ),
    "no guard, in both": (
        lambda a: changed_config(a, "config", guard=False) | changed_config(a, "run", guard=False),
        "another learner.guard: false there, true here",
    ),
    "settings that are none": (lambda a: {"run": np.array("[" * 100_000)}, "damaged"),
}


@pytest.mark.parametrize("case", EDITS)
def test_edited_books_are_refused(case: str, tmp_path: Path) -> None:
    """By the seal; and where the editor wrote a new one, because the run and its history say otherwise."""
    learn_on_disk(tmp_path, BUDGET, shop, 20)
    path, rows = tmp_path / "checkpoint.npz", progress(tmp_path)
    arrays = contents(path)
    edit, why = EDITS[case]
    assert conrl.load_learner(path).budget.spent[0] > 1.0
    edited = arrays | edit(arrays)
    with np.load(path) as file:
        np.savez(path, **(edited | {"seal": file["seal"]}))
    with pytest.raises(conrl.RunError, match="its seal does not fit what it holds"):
        learn_on_disk(tmp_path, BUDGET, shop, 30)
    write_sealed(path, edited)
    with pytest.raises(conrl.RunError, match=why):
        learn_on_disk(tmp_path, BUDGET, shop, 30)
    assert progress(tmp_path) == rows
    write_sealed(path, arrays)
    learn_on_disk(tmp_path, BUDGET, shop, 30)
    assert progress(tmp_path).decode() == conrl.learn(BUDGET, shop(), 30).to_csv()


def test_other_features_are_another_learner(tmp_path: Path) -> None:
    """What a network sees of a state is part of the model."""
    learn_on_disk(tmp_path, ROVER, rover, 3)
    assert ROVER.features is not None
    other = ROVER._copy(features=np.asarray(ROVER.features) * 0.5)
    with pytest.raises(conrl.RunError, match="another model"):
        learn_on_disk(tmp_path, other, lambda: conrl.ConRL(other.task), 3)
    arrays = contents(tmp_path / "checkpoint.npz")
    write_sealed(tmp_path / "checkpoint.npz", arrays | {"task_features": arrays["task_features"] * 0.5})
    with pytest.raises(conrl.RunError, match="is of a run with another learner"):
        learn_on_disk(tmp_path, ROVER, rover, 3)


def test_checkpoints_of_before_are_refused_with_a_remedy(tmp_path: Path) -> None:
    learn_on_disk(tmp_path, ROVER, rover, 3)
    arrays = contents(tmp_path / "checkpoint.npz")
    np.savez(tmp_path / "checkpoint.npz", **(arrays | {"version": np.array(1)}))
    with pytest.raises(conrl.RunError, match=r"its version is not 2, .*delete it to start the run again"):
        learn_on_disk(tmp_path, ROVER, rover, 3)
    with pytest.raises(conrl.RunError, match="go on with the conrl that wrote it, or learn again"):
        conrl.load_learner(tmp_path / "checkpoint.npz")
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps(config | {"version": 2}))
    with pytest.raises(conrl.RunError, match="another version: 2 there, 5 here; choose another directory"):
        learn_on_disk(tmp_path, ROVER, rover, 3)


@pytest.mark.parametrize("text", ["[" * 100_000, '{"a":' * 100_000, " " * (store.LARGEST_JSON + 1)])
def test_settings_that_are_too_deep_or_too_long(text: str, tmp_path: Path) -> None:
    learn_on_disk(tmp_path, ROVER, rover, 3)
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(conrl.RunError, match=r"config\.json: (not JSON|larger than)"):
        learn_on_disk(tmp_path, ROVER, rover, 5)


def test_a_run_has_its_learner_and_its_history(tmp_path: Path) -> None:
    """Played in memory, on disk, and found finished: the same learner and the same history."""
    job = Job(env="box", algorithm="conrl", episodes=6)
    memory, disk, again = Run(job), Run(job, tmp_path), Run(job, tmp_path)
    for run in (memory, disk, again):
        assert run.learner.episodes == len(run.history) == 0
        run.check()
        optimum = run.history.optimum
        assert run.play() is run.history
        assert run.history.optimum is optimum  # it is not planned again
        assert run.learner.episodes == 6
    assert memory.history.to_csv() == disk.history.to_csv() == again.history.to_csv()
    assert (memory.learner.average_policy.weights == again.learner.average_policy.weights).all()


def test_a_cost_whose_name_has_a_line_end(tmp_path: Path) -> None:
    """It stands in the first row of the table, which is then two lines; the episodes are counted all the same."""
    model = conrl.envs.box().replace()
    named = conrl.ConstrainedMDP(
        model.transitions,
        model.rewards,
        model.costs,
        horizon=5,
        initial=model.initial,
        limits=[0.1],
        cost_names=["two\nlines"],
    )
    conrl.save_model(tmp_path / "m.npz", named)
    run = Run(Job(env=str(tmp_path / "m.npz"), algorithm="ucbvi", episodes=3), tmp_path / "out")
    run.play()
    assert run.directory is not None
    assert store.played(run.directory / "progress.csv") == 3
    (record,) = conrl.experiments.load(tmp_path / "out").runs
    assert (record.episodes, record.cost_names) == (3, ("two\nlines",))
