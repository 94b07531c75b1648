"""`conrl check`: what a file is, all of its mistakes, and what is in it, whatever kind of file it is."""

from __future__ import annotations

import json
import os
import shlex
from pathlib import Path
from typing import Any

import numpy as np
import openpyxl
import polars as pl
import pytest
from commands import ok, record, refused, run

import conrl
from conrl.cli.file_checks import check
from conrl.cli.file_kinds import kind_of

MODEL = "state,action,next_state,probability,reward,cost_fuel\na,go,b,1,1,0\nb,go,a,1,0,1\n"
LOG = "episode,step,state,action,reward,next_state,cost_fuel\n0,0,a,go,1,b,0\n0,1,b,go,0,a,1\n1,0,a,stay,1,a,0\n"
POLICY = "step,state,action,probability\n0,a,go,1\n0,b,go,50%\n0,b,stay,0.5\n"
FLEET = '[fleet]\nhorizon = 4\nlimits = { fuel = 3 }\n[[unit]]\nmodel = "model.csv"\ncount = 5\n'
STUDY = 'episodes = 3\n[environment.rover]\nmodel = "mars-rover"\n[algorithm.conrl]\n'


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One file of each kind and form, in the current directory."""
    monkeypatch.chdir(tmp_path)
    texts = {"model.csv": MODEL, "log.csv": LOG, "policy.csv": POLICY, "fleet.toml": FLEET, "study.toml": STUDY}
    for name, text in texts.items():
        (tmp_path / name).write_text(text)
    mdp = conrl.load_model("model.csv", horizon=3)
    for suffix in (".npz", ".tsv", ".xlsx", ".drn"):
        conrl.save_model(tmp_path / f"model{suffix}", mdp)
    plan = conrl.plan(mdp)
    plan.save(tmp_path / "policy.json")
    plan.save(tmp_path / "policy.npz")
    log = conrl.load_episodes("log.csv")
    conrl.save_episodes("log.npz", log)
    pl.read_csv("log.csv").write_parquet("log.parquet")
    return tmp_path


KINDS = {
    "model": [".csv", ".npz", ".tsv", ".xlsx", ".drn"],
    "log": [".csv", ".npz", ".parquet"],
    "policy": [".csv", ".json", ".npz"],
    "fleet": [".toml"],
    "study": [".toml"],
}
TITLES = {
    "model": "a model of 2 states, 1 actions",
    "log": "a log of 2 episodes, 3 steps",
    "policy": "a policy for 2 states, ",
    "fleet": "a fleet of 5 units, 4 steps",
    "study": "a study of ",
}


@pytest.mark.parametrize("name", [f"{kind}{suffix}" for kind, suffixes in KINDS.items() for suffix in suffixes])
def test_each_kind_is_known_by_what_is_in_it(name: str, files: Path) -> None:
    kind = Path(name).stem
    other = Path(f"x{Path(name).suffix}")
    os.rename(name, other)  # its name says nothing
    text = ok("check", other)
    assert text.startswith(f"{other}: {TITLES[kind]}")
    assert text.endswith("No mistakes.\n")
    found = record("check", other)
    assert (found["file"], found["kind"], found["ok"], found["count"]) == (str(other), kind, True, 0)
    assert record("check", other, "--as", kind) == found


def test_what_is_in_a_file(files: Path) -> None:
    found = record("check", "log.csv")
    assert (found["episodes"], found["steps"], found["states"], found["actions"]) == (2, 3, 2, 2)
    assert found["costs"] == ["fuel"]
    text = ok("check", "log.csv")
    assert "3, 1 to 2 an episode" in text
    assert "2: a, b" in text
    assert record("check", "policy.csv") | {"states": 2, "actions": 2, "horizon": 1} == record("check", "policy.csv")
    assert record("check", "policy.json")["horizon"] == 3
    found = record("check", "fleet.toml", "--limit", "fuel=1")
    assert (found["units"], found["models"], found["horizon"]) == (5, ["model.csv"], 4)
    assert record("check", "study.toml")["environments"] == ["rover"]


def test_capitals_semicolons_and_misspelt_columns_tell_too(files: Path) -> None:
    for text, kind in (
        (LOG.replace(",", ";").upper(), "log"),
        (LOG.replace("episode", "epsiode"), "log"),
        (MODEL.replace("probability", "probabilty").replace(",", "\t"), "model"),
        (MODEL.replace("next_state", "nxt"), "model"),
        (f"\ufeff{POLICY}".replace("step,", "Step ,"), "policy"),
        ("", "model"),
        ('"', "model"),
    ):
        Path("x.csv").write_text(text)
        assert kind_of("x.csv") == kind, text
    Path("x.csv").write_bytes(b"\xff")
    assert kind_of("x.csv") == "model"
    Path("x.toml").write_text("[fleet")
    assert "x.toml: not TOML" in run("check", "x.toml").stderr


def test_what_cannot_be_told_is_asked(files: Path) -> None:
    Path("x.csv").write_text("state,action,next_state,reward\na,go,a,1\n")
    told = refused("check", "x.csv")
    assert "cannot tell what it is: it does not have a column probability, as a model or a policy, or a colum" in told
    assert told.endswith("say --as model, log or policy")
    assert "no column 'episode'" in run("check", "x.csv", "--as", "log").stderr
    assert "no column 'probability'" in run("check", "x.csv", "--as", "model").stderr
    Path("x.toml").write_text("a = 1\n")
    assert refused("check", "x.toml").endswith("say --as fleet or study")
    Path("x.txt").write_text(LOG)
    assert "reads files that end in .csv, " in refused("check", "x.txt")
    assert "no such file: none.csv" in refused("check", "none.csv")
    assert "is a directory" in refused("check", ".")


def test_a_log_in_a_workbook_is_no_model(files: Path) -> None:
    book = openpyxl.Workbook()
    assert book.active is not None
    for line in LOG.splitlines():
        book.active.append(line.split(","))
    book.save("log.xlsx")
    result = run("check", "log.xlsx")
    assert "a log is read from .csv, .npz or .parquet" in result.stderr
    assert "read as a log" in result.stdout


# -- mistakes -------------------------------------------------------------------------------------------------


def mistakes(name: str, *options: str) -> list[str]:
    """What is said on stderr, without the name of the file."""
    result = run("check", name, *options)
    assert result.exit_code == 2, result.output
    lines = result.stderr.splitlines()
    listed = json.loads(run("check", name, *options, "--json").stdout)
    assert [line.removeprefix("Error: ") for line in lines] == listed["mistakes"]
    assert listed["count"] == len(lines)
    assert result.stdout.startswith(f"{name}: {len(lines)} mistake")
    return [line.removeprefix(f"Error: {name}") for line in lines]


def test_a_policy_in_a_spreadsheet_is_refused_as_such(files: Path) -> None:
    rows: list[list[Any]] = [["step", "state", "action", "probability"], [0, "a", "go", 1]]
    (files / "p.tsv").write_text("".join("\t".join(map(str, row)) + "\n" for row in rows))
    book = openpyxl.Workbook()
    for row in rows:
        book.active.append(row)
    book.save(files / "p.xlsx")
    for name in ("p.tsv", "p.xlsx"):
        assert f"{name}: a policy is read from .json, .csv or .npz" in run("check", files / name).stderr


def test_all_mistakes_of_a_log(files: Path) -> None:
    Path("log.csv").write_text(LOG + "1,2,a,stay,x,a,0\n2,0,a,go,1,a,0\n2,0,a,go,1,a,0\n3,0,a,go,1,a,0\n3,2,a,go,1,a,0")
    assert mistakes("log.csv") == [
        ", line 5: reward is 'x', not a number",
        ", line 7: episode 2 has step 0 twice (also line 6)",
        ", line 9: episode 3 goes from step 0 to step 2; step 1 is missing",
    ]
    told = refused("plan", "--log", "log.csv")
    assert told == ("log.csv, line 5: reward is 'x', not a number; 2 more mistakes: conrl check log.csv lists them")


def test_mistakes_of_a_log_without_lines(files: Path) -> None:
    pl.read_csv("log.csv").with_columns(step=pl.Series([0, 2, 0]), state=pl.Series(["a", "b", None])).write_parquet(
        "log.parquet"
    )
    assert mistakes("log.parquet") == [
        ", row 2: episode 0 goes from step 0 to step 2; step 1 is missing",
        ", row 3: state is missing",
    ]


def test_a_very_long_list_of_mistakes(files: Path) -> None:
    rows = "".join(f"{i},0,a,go,x{i},a,0\n" for i in range(5_000))
    Path("log.csv").write_text(LOG.splitlines()[0] + "\n" + rows)
    result = run("check", "log.csv")
    assert result.stderr.count("\n") == 1
    assert "(the first of 5,000 lines with this mistake)" in result.stderr
    listed = json.loads(run("check", "log.csv", "--json").stdout)
    assert (listed["count"], len(listed["mistakes"])) == (1, 1)
    Path("log.csv").write_text(LOG.splitlines()[0] + "\n" + "0,0,a\n" * 5_000)  # each row is short by itself
    result = run("check", "log.csv")
    assert result.stderr.count("\n") == 51
    assert result.stderr.endswith("and 4950 more\n")
    listed = json.loads(run("check", "log.csv", "--json").stdout)
    assert (listed["count"], len(listed["mistakes"])) == (5_000, 1_000)


def test_columns_of_a_log_by_other_names(files: Path) -> None:
    Path("log.csv").write_text(LOG.replace("state", "ward", 1).replace("episode", "visit").replace("\n", ",7\n"))
    text = Path("log.csv").read_text().replace("cost_fuel,7", "cost_fuel,bed")
    Path("log.csv").write_text(text)
    options = ("--column", "state=ward", "--column", "episode=visit")
    assert "unknown column 'bed'" in mistakes("log.csv", *options)[0]
    assert record("check", "log.csv", *options, "--ignore", "bed")["episodes"] == 2
    told = refused("check", "log.csv", "--column", "state=wrd")
    assert told == "--column state: log.csv, line 1: unknown column 'wrd'; did you mean 'ward'?"


def test_all_mistakes_of_a_policy(files: Path) -> None:
    Path("policy.csv").write_text(POLICY + "x,a,go,1\n0,,go,1\n0,a,go,2\n0,a\n")
    assert mistakes("policy.csv") == [
        ", line 5: step is 'x'; steps count from 0",
        ", line 6: a state is missing",
        ", line 7: probability is '2'; it must be a number in [0, 1]",
        ", line 8: 2 fields; the header has 4",
    ]
    Path("policy.csv").write_text(POLICY.replace("50%", "40%") + "1,a,go,0.3\n")
    assert mistakes("policy.csv") == [
        ", line 3: step 0, state 'b': probabilities sum to 0.9, not to 1",
        ", line 5: step 1, state 'a': probabilities sum to 0.3, not to 1",
    ]
    Path("policy.csv").write_text(POLICY + "0,a,go,1\n")
    assert mistakes("policy.csv") == [", line 5: step 0, state 'a', action 'go' is there twice (also line 2)"]
    Path("policy.json").write_text('{"format": "conrl policy", "version": 7}')
    assert mistakes("policy.json") == [": not a policy file: it has version 7; this conrl reads version 1"]


def test_all_mistakes_of_a_fleet(files: Path) -> None:
    text = FLEET.replace("horizon", "horizn").replace("fuel = 3", 'fuel = "x"') + "color = 1\n[[unit]]\ncount = 0.5\n"
    Path("fleet.toml").write_text(text + '[[unit]]\nmodel = "none.csv"\n')
    found = mistakes("fleet.toml")
    assert [told[:30] for told in found] == [
        ": [fleet]: unknown key 'horizn'; did you mean 'horizon'?"[:30],
        ": [fleet] limits.fuel is 'x'; it must be a number"[:30],
        ": [[unit]] 1: unknown key 'color'; known"[:30],
        ": [[unit]] 2: model is None; name a file"[:30],
        ": [[unit]] 2: count is 0.5; it must be a whole number"[:30],
        ": [[unit]] 3: no such file: none.csv"[:30],
    ]
    assert "; 5 more mistakes: conrl check fleet.toml lists them" in refused("plan", "fleet.toml")
    Path("fleet.toml").write_text(FLEET.replace("fuel = 3", "ful = 3"))
    assert "did you mean 'fuel'" in mistakes("fleet.toml")[0]
    Path("fleet.toml").write_text(FLEET)
    assert "did you mean 'fuel'" in refused("check", "fleet.toml", "--limit", "ful=1")


def test_all_mistakes_of_a_study(files: Path) -> None:
    Path("study.toml").write_text(STUDY.replace("episodes = 3", "episodes = 0\ncolor = 1").replace("model", "modle"))
    assert [told[:3] for told in mistakes("study.toml")] == [":1:", ":2:", ":4:"]


def test_mistakes_of_a_drn_file(files: Path) -> None:
    Path("model.drn").write_text(Path("model.drn").read_text().replace(": 1", ": 0.5", 1))
    assert len(mistakes("model.drn")) == 1


def test_names_that_look_alike_are_a_warning(files: Path) -> None:
    Path("log.csv").write_text(LOG.replace("1,b,0", "1,B,0"))
    Path("log.csv").write_text("episode,state,action,reward,next_state\n0,a,go,1,A\n")
    Path("policy.csv").write_text(POLICY.replace("0,a,go,1", "0,a,go,1\n0, a,go,1"))
    for name, told in (("log.csv", "'a' (line 2) and 'A' (line 2)"), ("policy.csv", "'a' (line 2) and ' a' (line 3)")):
        result = run("check", name)
        assert result.exit_code == 0
        assert f"Warning: {name}: states {told} differ only in case or blanks; they are two states" in result.stderr


def test_an_option_that_is_proposed_can_be_pasted(files: Path) -> None:
    Path("model.csv").write_text(MODEL.replace("cost_fuel", "cost_Overtime Hours"))
    note = next(note for note in record("check", "model.csv")["notes"] if "holds no limits" in note)
    option = shlex.split(note.partition("such as ")[2])
    assert option == ["--limit", "Overtime Hours=1"]
    assert not any("limits" in note for note in record("check", "model.csv", *option)["notes"])


def test_numbers_that_never_occur_are_a_note(files: Path) -> None:
    Path("log.csv").write_text("episode,state,action,reward,next_state\n0,101,0,1,205\n")
    assert record("check", "log.csv")["notes"] == [
        "states are numbers up to 205, of which 204 never occur; they count as states as well"
    ]


@pytest.mark.parametrize(
    ("name", "options", "told"),
    [
        ("log.csv", ("--horizon", 3), "--horizon is for a model or a fleet; log.csv was taken for a log"),
        ("model.csv", ("--ignore", "x"), "--ignore is for a log; model.csv was taken for a model"),
        ("policy.csv", ("--limit", "a=1"), "--limit is for a model or a fleet; policy.csv was taken for a policy"),
        ("fleet.toml", ("--start", "a"), "--start is for a model; fleet.toml was taken for a fleet"),
        ("log.csv", ("--allow-import",), "--allow-import is for a study; log.csv was taken for a log"),
        ("model.csv", ("--as", "study", "--normalize", 0.1), "--normalize is for a model or a fleet; model.csv"),
    ],
)
def test_no_option_is_ignored(name: str, options: tuple[Any, ...], told: str, files: Path) -> None:
    assert told in refused("check", name, *options)


def test_an_empty_log_has_no_mistakes(files: Path) -> None:
    Path("log.csv").write_text(LOG.splitlines()[0])
    found = check("log.csv", "log", {})
    assert (found.count, list(found.notes)) == (0, ["the file has a header and no rows"])
    np.savez("policy.npz", actions=np.zeros((2, 3), dtype=int), num_actions=2)
    assert record("check", "policy.npz")["horizon"] == 2
