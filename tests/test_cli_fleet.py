"""`conrl plan fleet.toml`: what it prints, and what it refuses in one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from commands import ok, record, refused, run

import conrl
from conrl.envs.fleet_files import load_fleet

MACHINE = """state,action,next_state,probability,reward,cost_money,cost_crews
good,run,good,0.8,9,0,0
good,run,down,0.2,9,0,0
down,wait,down,1,0,0,0
down,repair,good,1,0,{price},1
"""
FLEET = """[fleet]
horizon = 8
limits = {{ money = {money} }}
per_step = {{ crews = [9, 9, 5, 9, 9, 9, 9, 9] }}

[[unit]]
model = "press.csv"
count = 25

[[unit]]
model = "lathe.csv"
count = 40
start = "down"
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("press.csv").write_text(MACHINE.format(price=8))
    Path("lathe.csv").write_text(MACHINE.format(price=3))
    Path("fleet.toml").write_text(FLEET.format(money=150))


def library() -> conrl.FleetPlan:
    press, lathe = (conrl.load_model(f"{name}.csv", horizon=8) for name in ("press", "lathe"))
    groups = [(press, 25), (lathe.replace(initial=lathe.state_names.index("down")), 40)]
    per_step = {"crews": [9, 9, 5, 9, 9, 9, 9, 9]}
    return conrl.plan(conrl.Fleet(groups, limits={"money": 150}, per_step=per_step))


def test_the_record_is_the_plan() -> None:
    found, plan = record("plan", "fleet.toml", "--simulate", 20), library()
    assert (found["reward"], found["bound"], found["status"]) == (plan.reward, plan.bound, "optimal")
    assert found["costs"]["money"]["price"] == plan.prices[0]
    assert found["costs"]["money"]["floor"] is None
    assert [step["limit"] for step in found["per_step"]["crews"]] == [9, 9, 5, 9, 9, 9, 9, 9]
    assert found["mixed"] == list(plan.mixed)
    assert [entry["units"] for entry in found["types"]] == [25, 40]
    assert [entry["costs"]["money"] for entry in found["types"]] == plan.shares[:, 0].tolist()
    assert sum(part["units"] for part in found["types"][1]["policies"]) == 40
    played = found["simulation"]
    assert (played["runs"], played["guard"], played["exceed"]["money"]) == (20, True, 0.0)
    assert played["largest"]["money"] <= 150.0
    assert 0.5 < played["share_of_bound"] < 1.1


def test_the_tables() -> None:
    text = ok("plan", "fleet.toml", "--simulate", 20)
    for piece in ("65 units of 2 types, 8 steps", "press.csv", "crews of each step", "20 guarded runs", "of the bound"):
        assert piece in text
    assert "guarded" not in ok("plan", "fleet.toml")


def test_what_is_typed_replaces_what_the_file_says() -> None:
    Path("other.toml").write_text(FLEET.format(money=100).replace("horizon = 8", "horizon = 3").replace("9, 5,", "5,"))
    by_file = Path("other.toml").read_text().replace("[9, 5, 9, 9, 9, 9, 9]", "6")
    Path("other.toml").write_text(by_file)
    typed = record("plan", "fleet.toml", "--limit", "money=100", "--per-step", "crews=6", "--horizon", 8)
    assert typed["costs"]["money"]["limit"] == 100
    assert {step["limit"] for step in typed["per_step"]["crews"]} == {6}
    assert record("plan", "other.toml", "--floor", "money=20")["costs"]["money"]["floor"] == 20
    assert record("plan", "other.toml")["horizon"] == 3


def test_built_in_models_and_no_limits() -> None:
    Path("rovers.toml").write_text('[[unit]]\nmodel = "mars-rover"\ncount = 3\nset = { rock_reward = 1.0 }\n')
    alone = conrl.plan(conrl.envs.mars_rover(rock_reward=1.0), conrl.Linear())
    assert record("plan", "rovers.toml")["reward"] == pytest.approx(3 * alone.reward)
    assert load_fleet("rovers.toml").names == ("mars-rover",)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("[[unit]]", "[[units]]"), "unknown table 'units'; did you mean 'unit'?"),
        (("count = 25", "counts = 25"), "[[unit]] 1: unknown key 'counts'; did you mean 'count'?"),
        (("count = 25", "count = 0"), "count of groups[0] is 0"),
        (("count = 25", 'count = "x"'), "[[unit]] 1: count is 'x'; it must be a whole number"),
        (("money = 150", "mony = 150"), "fleet.toml: [fleet] limits: unknown cost 'mony'; did you mean 'money'?"),
        (("money = 150", 'money = "much"'), "[fleet] limits.money is 'much'"),
        (("horizon = 8", "horizon = 0"), "horizon is 0"),
        (("horizon = 8", ""), "[[unit]] 1: "),
        (("press.csv", "pres.csv"), "no such file"),
        (('start = "down"', 'start = "dwn"'), "[[unit]] 2: unknown state 'dwn'; did you mean 'down'?"),
        (("[9, 9, 5,", "[9, 5,"), "one for each of 8 steps"),
        (("[fleet]", "[fleet"), "not TOML"),
        (("limits = {", "limits = 3 #{"), "limits is 3"),
    ],
)
def test_mistakes_in_the_file(change: tuple[str, str], message: str) -> None:
    Path("bad.toml").write_text(FLEET.format(money=150).replace(*change, 1).replace("fleet.toml", "bad.toml"))
    told = refused("plan", "bad.toml")
    assert message.replace("fleet.toml", "bad.toml") in told
    assert told.startswith("bad.toml: ")


def test_mistakes_on_the_line() -> None:
    assert "--limit mony: unknown cost 'mony'" in refused("plan", "fleet.toml", "--limit", "mony=3")
    for words in (
        ("--start", "good"),
        ("--set", "x=1"),
        ("--planner", "lagrangian"),
        ("--time-limit", "3"),
        ("--deterministic",),
    ):
        assert f"{words[0]} is not for a fleet" in refused("plan", "fleet.toml", *words)
    assert "--budget is not for a fleet" in refused("plan", "fleet.toml", "--budget", "money=3", "--episodes", 2)
    assert "no such file" in refused("plan", "none.toml")


def test_infeasible_limits_are_exit_code_3() -> None:
    told = refused("plan", "fleet.toml", "--floor", "money=100000", code=3)
    assert "money >= 100000" in told
    assert "cannot be kept" in told


def test_what_each_unit_does() -> None:
    text = ok("plan", "fleet.toml", "--out", "plans")
    assert "what press.csv does where" in text
    assert "wrote plans/press-1.csv: the policy of 25 units" in text
    plan = library()
    parts = plan.parts(1)
    assert len(list(Path("plans").glob("lathe-*.csv"))) == len(parts)
    model = conrl.load_model("lathe.csv", horizon=8).replace(initial=1)
    for k, part in enumerate(parts, 1):
        value = conrl.evaluate(model, conrl.load_policy(f"plans/lathe-{k}.csv", mdp=model))
        assert value.reward == pytest.approx(part.value[0])
    for wrong in ("a.csv", "fleet.toml", "nowhere/plans"):
        assert f"--out {wrong}: " in refused("plan", "fleet.toml", "--out", wrong)


def test_what_fleets_have_instead() -> None:
    assert 'write start = "soty" under a [[unit]] of fleet.toml' in refused("plan", "fleet.toml", "--start", "soty")
    assert "limits on totals, and per_step" in refused("plan", "fleet.toml", "--never", "money=1")
    assert "a fleet has no frontier; conrl explore fleet.toml" in refused("frontier", "fleet.toml")


def test_all_mistakes_of_a_fleet() -> None:
    text = FLEET.format(money=150).replace("money", "mony").replace('"down"', '"dwn"')
    Path("fleet.toml").write_text(text)
    said = run("check", "fleet.toml").stderr.splitlines()
    assert said == [
        "Error: fleet.toml: [[unit]] 2: unknown state 'dwn'; did you mean 'down'?",
        "Error: fleet.toml: [fleet] limits: unknown cost 'mony'; did you mean 'money'?",
    ]
    Path("fleet.toml").write_text(text.replace("horizon = 8", "horizon = = 8"))
    assert "read as a fleet" in run("check", "fleet.toml").stdout
