"""The command line: every command, every example in its help, and every way to get it wrong."""

from __future__ import annotations

import csv
import errno
import io
import itertools
import json
import os
import shlex
import signal
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import numpy as np
import pytest
from click.shell_completion import ShellComplete
from commands import ok, record, refused, run, said
from launch import PATIENCE, launch, launched
from numpy.lib import format as npy

import conrl
from conrl import planners, planning
from conrl.cli.json_records import to_json
from conrl.cli.main import main as cli
from conrl.cli.tables import ALL_ROWS
from conrl.envs import REGISTRY, make
from conrl.io import save_model
from conrl.planners import Frontier
from conrl.policy_loading import load_policy

MODEL = """state,action,next_state,probability,reward,cost_fuel
home,go,work,0.9,1,1
home,go,home,0.1,0,1
home,rest,home,1,0,0
work,go,home,1,2,1
work,rest,work,1,0.5,0
"""


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything runs in an empty directory with one small model, and a fleet of it, in it."""
    monkeypatch.chdir(tmp_path)
    Path("model.csv").write_text(MODEL)
    drn = "@type: MDP\n@reward_models\ngain fuel\n@nr_states\n1\n@model\nstate 0 init\naction go [1, 0.5]\n0 : 1\n"
    Path("model.drn").write_text(drn + "action wait [0, 0]\n0 : 1\n")
    Path("fleet.toml").write_text('[fleet]\nhorizon = 5\n[[unit]]\nmodel = "model.csv"\ncount = 200\n')


def spawn(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return launch([sys.executable, *arguments], env={**os.environ, **environment})


# -- help, version, start ---------------------------------------------------------------------------------


def examples(*command: str) -> list[str]:
    text = ok(*command, "--help")
    assert "Examples:" in text
    lines = [line.strip() for line in text.partition("Examples:")[2].splitlines()]
    return [line for line in lines if line.startswith("conrl ")]


EXAMPLES = sorted(
    {line for command in ([], ["plan"], ["frontier"], ["assess"], ["learn"], ["envs"]) for line in examples(*command)}
)


def logged(words: list[str]) -> None:
    """The log and the policy that an example of the help speaks of."""
    world = conrl.ConstrainedMDP(
        np.full((2, 2, 2), 0.5), np.ones((2, 2)), np.array([[[0.0], [0.1]]] * 2), 4, cost_names=["adverse"]
    )
    alike = conrl.Policy(np.full((4, 2, 2), 0.5))
    alike.save("policy.csv")
    alike.save("policy.npz")
    log = conrl.sample_log(world, alike, 200)
    conrl.save_episodes("log.csv", log)
    if "log.parquet" in words:
        import polars

        names = {"state": "ward", "cost_adverse": "harm"}
        polars.read_csv("log.csv").rename(names).with_columns(age=polars.lit(7)).write_parquet("log.parquet")


@pytest.mark.parametrize("line", EXAMPLES)
def test_examples_of_the_help_run(line: str) -> None:
    words = shlex.split(line)[1:]
    if {"log.csv", "log.parquet"} & set(words):
        logged(words)
    ok(*words)
    for option, value in itertools.pairwise(words):
        assert option != "--out" or Path(value).stat().st_size > 0


def test_help_without_arguments_and_version() -> None:
    assert ok() == ok("--help") == ok("-h")
    assert ok("--version").startswith("conrl ")


def test_help_starts_without_numpy() -> None:
    code = (
        "import sys\nfrom conrl.cli.main import main\n"
        "try:\n    main(['plan', '--help'])\nexcept SystemExit:\n    pass\n"
        "heavy = {'numpy', 'numba', 'scipy', 'matplotlib', 'rich', 'gymnasium', 'highspy'} & set(sys.modules)\n"
        "sys.exit(f'loaded: {heavy}' if heavy else 0)"
    )
    done = spawn("-c", code)
    assert done.returncode == 0, done.stderr


def test_tables_do_not_load_matplotlib() -> None:
    code = (
        "import sys\nfrom conrl.cli.main import main\n"
        "try:\n    main(['plan', 'box'])\nexcept SystemExit as end:\n    assert not end.code\n"
        "sys.exit('matplotlib' in sys.modules)"
    )
    assert spawn("-c", code).returncode == 0


def test_module_runs_and_an_ascii_terminal_gets_ascii() -> None:
    done = spawn("-m", "conrl", "plan", "box", PYTHONIOENCODING="ascii", NO_COLOR="1")
    assert (done.returncode, done.stderr) == (0, "")
    assert "######" in done.stdout
    assert "S<" in done.stdout
    assert "\\u2190" not in done.stdout


# -- plan -------------------------------------------------------------------------------------------------


def test_plan_table() -> None:
    text = ok("plan", "mars-rover", "--set", "rock_reward=1")
    for piece in ("1.536288439", "crash", "0.3", "0.192982", "optimal", "mixture of 2", "→↓", "G 83%", "S start"):
        assert piece in text
    assert "\x1b" not in text  # no colours in a pipe


def test_plan_json() -> None:
    found = record("plan", "mars-rover", "--set", "rock_reward=1")
    assert found["reward"] == pytest.approx(1.5362884, abs=1e-7)
    assert 0.0 <= found["bound"] - found["reward"] <= 1e-8
    assert found["gap"] == pytest.approx(found["bound"] - found["objective"])
    assert found["status"] == "optimal"
    crash = found["costs"]["crash"]
    assert crash["value"] == pytest.approx(0.3)
    assert crash["price"] == pytest.approx(0.19298, abs=1e-5)
    assert (crash["limit"], crash["floor"], crash["floor_price"]) == (0.3, None, 0.0)
    weights = [part["weight"] for part in found["mixture"]]
    assert sum(weights) == pytest.approx(1.0)
    assert sum(p["weight"] * p["costs"]["crash"] for p in found["mixture"]) == pytest.approx(0.3)
    assert found["skip"] == 0.0
    assert "simulation" not in found


def test_limits_replace_those_of_the_model_one_by_one() -> None:
    assert record("plan", "box", "--limit", "corner=inf")["reward"] == pytest.approx(1.8157689)
    arguments = ("plan", "random", "--set", "costs=2", "--set", "states=20")
    own = record(*arguments)["costs"]
    found = record(*arguments, "--limit", "cost0=9")["costs"]
    assert found["cost0"]["limit"] == 9.0
    assert found["cost1"]["limit"] == own["cost1"]["limit"]


def test_names_and_values_may_hold_equal_signs() -> None:
    Path("odd.csv").write_text(MODEL.replace("fuel", "a=b"))
    assert record("plan", "odd.csv", "--horizon", 4, "--limit", "a=b=2")["costs"]["a=b"]["limit"] == 2.0
    assert "'='" in refused("plan", "box", "--set", 'rows=["="]')


def test_floor() -> None:
    found = record("plan", "model.csv", "--horizon", 4, "--limit", "fuel=3", "--floor", "fuel=2.5")
    assert found["costs"]["fuel"]["floor"] == 2.5
    text = ok("plan", "model.csv", "--horizon", 4, "--floor", "fuel=2.5", "--limit", "fuel=3")
    assert "floor price" in text


@pytest.mark.parametrize("planner", ["column-generation", "linear-program"])
def test_planners_agree(planner: str) -> None:
    assert record("plan", "box", "--planner", planner)["reward"] == pytest.approx(1.7496766)


def test_a_start_that_looks_like_a_name_is_no_index() -> None:
    """`2` is a slip for 002, the second state, and not the third."""
    rows = "".join(f"{s},go,{s},1,{s[-1]}\n" for s in ("001", "002", "003"))
    Path("codes.csv").write_text(f"state,action,next_state,probability,reward\n{rows}")
    assert record("plan", "codes.csv", "--horizon", 1, "--start", "002")["reward"] == pytest.approx(2.0)
    assert record("plan", "codes.csv", "--horizon", 1, "--start", "0")["reward"] == pytest.approx(1.0)
    for command in ("plan", "check"):
        assert "unknown state '2'; did you mean '002'?" in refused(command, "codes.csv", "--horizon", 1, "--start", 2)
    with pytest.raises(conrl.ModelError, match=r"initial: unknown state '2'; did you mean '002'\?"):
        conrl.load_model("codes.csv", horizon=1, initial="2")
    rows = "".join(f"{s:03},go,{s:03},1,1\n" for s in range(1, 61))
    Path("codes.csv").write_text(f"state,action,next_state,probability,reward\n{rows}")
    assert "unknown state '7'; did you mean '007'?" in refused("plan", "codes.csv", "--horizon", 1, "--start", 7)


def test_start_by_name_and_by_index() -> None:
    names = [record("plan", "model.csv", "--horizon", 1, "--start", start)["reward"] for start in ("home", "work")]
    assert names == pytest.approx([0.9, 2.0])
    assert record("plan", "model.csv", "--horizon", 1, "--start", 1)["reward"] == pytest.approx(2.0)
    lake = record("plan", "gymnasium:FrozenLake-v1", "--start", "r3c2", "--set", "is_slippery=false")
    assert lake["reward"] == 1.0


def test_horizon_reaches_the_environment() -> None:
    # Per-step pay is 1/H: a horizon that only cut the episode short would give another reward.
    found = record("plan", "mars-rover", "--horizon", 20)
    assert found == {**record("plan", "mars-rover", "--set", "horizon=20")}
    assert found["reward"] == pytest.approx(planning.plan(make("mars-rover", horizon=20)).reward)


def test_model_files() -> None:
    save_model("rover.npz", make("mars-rover", rock_reward=1.0))
    assert record("plan", "rover.npz")["reward"] == pytest.approx(1.5362884)
    assert "→" in ok("plan", "rover.npz")


def test_model_without_map_is_listed_by_state() -> None:
    text = ok("plan", "model.csv", "--horizon", 5)
    assert "go 100%" in text
    assert "home" in text
    assert f"the {ALL_ROWS} most visited of" in ok("plan", "random")


def test_names_are_not_markup() -> None:
    Path("odd.csv").write_text(MODEL.replace("home", "[bold]:smile:[/x]").replace("fuel", "[red]"))
    text = ok("plan", "odd.csv", "--horizon", 3)
    assert "[bold]:smile:[/x]" in text
    assert "[red]" in text


def test_policy_files() -> None:
    ok("plan", "box", *(word for name in ("a.png", "a.pdf", "a.svg", "a.npz", "a.csv") for word in ("--out", name)))
    assert Path("a.png").read_bytes().startswith(b"\x89PNG")
    assert Path("a.pdf").read_bytes().startswith(b"%PDF")
    assert b"<svg" in Path("a.svg").read_bytes()
    assert load_policy("a.npz").shape == (30, 121, 4)
    rows = list(csv.DictReader(Path("a.csv").read_text().splitlines()))
    assert {row["action"] for row in rows} <= {"up", "down", "left", "right"}
    written = {"a.csv", "a.npz", "a.pdf", "a.png", "a.svg"}
    assert {p.name for p in Path().iterdir() if p.name.startswith("a.")} == written


@pytest.mark.parametrize("suffix", ["png", "pdf", "svg"])
def test_pictures_are_the_same_bytes_each_time(suffix: str) -> None:
    for name in ("a", "b"):
        ok("plan", "box", "--out", f"{name}.{suffix}")
    assert Path(f"a.{suffix}").read_bytes() == Path(f"b.{suffix}").read_bytes()


def test_simulation() -> None:
    arguments = ("plan", "mars-rover", "--set", "rock_reward=1", "--simulate", 2000, "--seed", 3)
    found = record(*arguments)["simulation"]
    assert found == record(*arguments)["simulation"]
    assert found != record(*arguments[:-1], 4)["simulation"]
    assert found["episodes"] == 2000
    assert abs(found["mean"]["reward"] - 1.5363) < 5 * found["standard_error"]["reward"]
    assert found["quantiles"]["0.5"]["costs"]["crash"] == 0.0
    assert 0.1 < found["exceed"]["crash"] < 0.25  # a crash costs more than 1
    assert "2,000 simulated episodes" in ok(*arguments)
    alone = record("plan", "box", "--simulate", 1)["simulation"]
    assert alone["standard_error"]["reward"] is None


def test_json_has_null_where_there_is_no_number() -> None:
    text = to_json({"a": [float("inf"), np.float64("nan"), -np.inf, 1.5], "b": {"c": np.array([1.0, np.inf])}})
    assert json.loads(text) == {"a": [None, None, None, 1.5], "b": {"c": [1.0, None]}}


# -- frontier ---------------------------------------------------------------------------------------------


def test_frontier_table_is_abbreviated() -> None:
    text = ok("frontier", "mars-rover", "--set", "rock_reward=1")
    assert "393 vertices, complete" in text
    assert "more)" in text
    assert len(text.splitlines()) < 40
    assert "At the limit 0.3: reward 1.536288439, price 0.192982" in text
    assert "1.816822" in text


def test_frontier_json() -> None:
    found = record("frontier", "mars-rover", "--set", "rock_reward=1", "--cost", "crash")
    assert found["complete"] is True
    assert found["cost"] == "crash"
    assert len(found["vertices"]) == 393
    prices = [v["price"] for v in found["vertices"]]
    assert prices == sorted(prices, reverse=True)
    assert prices[-1] == 0.0
    assert found["own_limit"]["feasible"] is True
    assert found["own_limit"]["reward"] == pytest.approx(1.5362884)


def test_frontier_stops_early_and_says_so() -> None:
    found = record("frontier", "box", "--max-vertices", 4)
    assert found["complete"] is False
    assert found["error"] > 0.0
    assert "not complete" in ok("frontier", "box", "--max-vertices", 4)


def test_frontier_of_a_limit_that_cannot_be_kept() -> None:
    assert "limit 0 is infeasible" in ok("frontier", "box", "--limit", "corner=0")
    assert record("frontier", "box", "--limit", "corner=0")["own_limit"] == {"limit": 0.0, "feasible": False}


def test_frontier_keeps_other_limits() -> None:
    arguments = ("frontier", "random", "--set", "costs=2", "--set", "states=20", "--cost", "cost0", "--max-vertices", 9)
    tight, loose = (record(*arguments, "--limit", f"cost1={x}")["vertices"] for x in (12, "inf"))
    assert tight[-1]["reward"] < loose[-1]["reward"]


def test_frontier_files() -> None:
    ok("frontier", "box", "--out", "f.png", "--out", "f.csv", "--out", "f.svg")
    assert Path("f.png").read_bytes().startswith(b"\x89PNG")
    rows = list(csv.DictReader(Path("f.csv").read_text().splitlines()))
    assert list(rows[0]) == ["limit_corner", "reward", "price"]
    assert len(rows) == len(record("frontier", "box")["vertices"])


# -- envs -------------------------------------------------------------------------------------------------


def test_envs() -> None:
    text = ok("envs")
    for piece in ("1.40298", "1.74968", "rock_reward", "gymnasium:<id>", *REGISTRY):
        assert piece in text
    found = {env["name"]: env for env in record("envs")["environments"]}
    assert found["box"]["states"] == 121
    assert found["box"]["costs"]["corner"]["limit"] == 0.1
    assert found["mars-rover"]["parameters"]["rock_reward"] == 0.0
    assert found["pricing"]["parameters"]["regimes"] == {"low": 30.0, "normal": 50.0, "high": 70.0}
    assert list(found["cluster"]["costs"]) == ["energy", "latency"]
    assert found["mars-rover"]["description"].startswith("Mars rover")


def test_budgets_for_many_episodes() -> None:
    words = ["plan", "mars-rover", "--set", "rock_reward=1", "--budget", "crash=20", "--episodes", "1000"]
    found, reference = record(*words), record(*words, "--planner", "linear-program")
    assert found["costs"]["crash"]["limit"] == pytest.approx(0.02)
    assert found["costs"]["crash"]["value"] == pytest.approx(0.02)
    assert 0.0 < found["skip"] < 1.0
    assert found["reward"] == pytest.approx(reference["reward"], abs=1e-7)
    assert found["skip"] == pytest.approx(reference["skip"], abs=1e-6)
    held_back = record(*words, "--epsilon", "0.5")
    assert held_back["costs"]["crash"]["limit"] == pytest.approx(0.01)
    assert "of episodes" in ok(*words)
    played = record(*words, "--simulate", "4000")["simulation"]
    assert played["mean"]["costs"]["crash"] == pytest.approx(0.02, abs=0.02)
    assert 0.0 < played["exceed"]["crash"] < 0.05


def test_a_planned_budget_says_how_often_it_is_exceeded() -> None:
    words = ["plan", "pricing", "--budget", "stock=400", "--episodes", "100"]
    found = record(*words)["budgets"]["stock"]
    assert (found["budget"], found["episodes"], found["pays_means"]) == (400.0, 100, False)
    assert found["expected"] == pytest.approx(400.0)
    assert 0.4 < found["exceed"] < 0.6
    assert 0.0 < found["standard_error"] < 0.04
    assert found["method"].endswith("simulated runs")
    text = " ".join(ok(*words).split())
    assert "budgets for 100 episodes: kept in expectation only" in text
    assert f"about {100 * found['exceed']:.0f}%" in text
    many = ["plan", "pricing", "--budget", "stock=40000", "--episodes", "10000"]
    found = record(*many)["budgets"]["stock"]
    assert (found["method"], found["standard_error"]) == ("normal approximation", None)
    assert found["exceed"] == pytest.approx(0.5, abs=0.01)
    assert "budgets" not in record("plan", "pricing")
    means = ["plan", "random", "--set", "states=5", "--budget", "cost=100", "--episodes", "10"]
    assert record(*means)["budgets"]["cost"]["pays_means"]
    assert "one amount for each state and action" in " ".join(ok(*means).split())
    assert "kept in expectation" in " ".join(run("plan", "--help").output.split())


def test_a_simulation_of_means_says_so() -> None:
    words = ["plan", "random", "--set", "states=5", "--simulate", "10"]
    assert record(*words)["simulation"]["pays_means"] == ["reward", *make("random", states=5).cost_names]
    assert "one amount for each state and action; if real pay varies" in " ".join(ok(*words).split())
    words = ["plan", "box", "--simulate", "10"]  # pays by outcome
    assert record(*words)["simulation"]["pays_means"] == []
    assert "one amount" not in ok(*words)


# -- mistakes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "pieces"),
    [
        (["plan", "nope.csv", "--horizon", "5"], ["no such file", "nope.csv"]),
        (["plan", "nope.npz"], ["no such file", "nope.npz"]),
        (["plan", "dir/nope"], ["dir/nope", ".npz, .csv, .tsv, .xlsx or .drn"]),
        (["plan", "mars-rovr"], ["unknown model 'mars-rovr'", "did you mean 'mars-rover'?"]),
        (["plan", "xyz"], ["unknown model 'xyz'", "box", ".csv"]),
        (["plan", "gymnasium:FrozenLake-v77"], ["FrozenLake-v77"]),
        (["plan", "gymnasium:CartPole-v1"], ["CartPole-v1", "Discrete"]),
        (["plan", "gymnasium:FrozenLake-v1", "--set", "map_name=9x9"], ["map_name='9x9'"]),
        (["plan", "gymnasium:Taxi-v3"], ["Taxi"]),
        (["plan", "model.csv"], ["model.csv", "--horizon"]),
        (["plan", "model.csv", "--horizon", "5", "--set", "slip=1"], ["--set slip", "file"]),
        (["plan", "model.csv", "--horizon", "5", "--start", "hom"], ["--start", "did you mean 'home'?"]),
        (["plan", "model.csv", "--horizon", "5", "--start", "7"], ["--start", "'7'"]),
        (["plan", "random", "--start", "9" * 5000], ["--start", "0..99"]),
        (["plan", "random", "--start", "100"], ["--start", "0..99"]),
        (["plan", "model.csv", "--horizon", "5", "--out", "x.png"], ["no map", ".csv"]),
        (["plan", "box", "--horizon", "-3"], ["--horizon", "-3"]),
        (["plan", "box", "--horizon", "0"], ["--horizon", "0"]),
        (["plan", "box", "--horizon", "many"], ["--horizon", "many"]),
        (["plan", "box", "--horizon", "9", "--set", "horizon=9"], ["horizon is given twice"]),
        (["plan", "box", "--set", "horizon=-3"], ["horizon is -3"]),
        (["plan", "box", "--set", "horizon=1e400"], ["horizon", "inf"]),
        (["plan", "box", "--limit", "cornr=0.2"], ["unknown cost 'cornr'; did you mean 'corner'?"]),
        (["plan", "box", "--floor", "cornr=0.2"], ["unknown cost 'cornr'; did you mean 'corner'?"]),
        (["plan", "box", "--limit", "corner=nan"], ["--limit", "nan"]),
        (["plan", "box", "--limit", "corner=lots"], ["--limit", "lots"]),
        (["plan", "box", "--limit", "corner=-inf"], ["corner", "-inf"]),
        (["plan", "box", "--limit", "corner"], ["'corner'", "NAME=X", "crash=0.3"]),
        (["plan", "box", "--limit", "=1"], ["NAME=X"]),
        (["plan", "box", "--limit", "corner=1", "--limit", "corner=2"], ["--limit", "corner is given twice"]),
        (["plan", "box", "--set", "slp=0.2"], ["'slp'", "did you mean 'slip'?"]),
        (["plan", "box", "--set", "slip"], ["--set", "NAME=X"]),
        (["plan", "box", "--set", "slip=much"], ["'slip'", "'much'"]),
        (["plan", "box", "--set", "slip=NaN"], ["slip", "nan"]),
        (["plan", "random", "--set", "states=100000000000000000000"], ["100000000000000000000 states"]),
        (["plan", "random", "--set", "seed=-1"], ["seed=-1"]),
        (["plan", "box", "--planner", "colum-generation"], ["did you mean 'column-generation'?"]),
        (["plan", "box", "--tol", "0"], ["tol is 0"]),
        (["plan", "box", "--tol", "nan"], ["tol is nan"]),
        (["plan", "box", "--tol", "x"], ["--tol", "x"]),
        (["plan", "box", "--simulate", "0"], ["--simulate", "0"]),
        (["plan", "box", "--simulate", "5", "--seed", "-1"], ["--seed", "-1"]),
        (["plan", "box", "--out", "x.txt"], ["x.txt", ".png", ".csv"]),
        (["plan", "box", "--out", "x"], ["--out x", ".png"]),
        (["plan", "box", "--out", "a.csv", "--out", "nowhere/x.png"], ["nowhere/x.png", "no directory nowhere"]),
        (["plan", "box", "--out", "a.csv", "--out", "a.csv"], ["a.csv is given twice"]),
        (["frontier", "box", "--out", "x.npz"], ["x.npz", ".png"]),
        (["frontier", "box", "--cost", "crner"], ["did you mean 'corner'?"]),
        (["frontier", "random", "--set", "costs=2"], ["--cost", "cost0, cost1"]),
        (["frontier", "gymnasium:FrozenLake-v1"], ["no costs"]),
        (["frontier", "box", "--max-vertices", "1"], ["--max-vertices", "1"]),
        (["frontier", "box", "--floor", "corner=0"], ["--floor"]),
        (["plan"], ["MODEL", "conrl plan --help"]),
        (["plan", "box", "--limt", "corner=1"], ["'--limt'", "--limit"]),
        (["plna"], ["'plna'", "'plan'"]),
        (["plan", "box", "--budget", "corner=5"], ["--budget", "--episodes"]),
        (["plan", "box", "--episodes", "5"], ["--budget", "--episodes"]),
        (["plan", "box", "--epsilon", "0.5"], ["--budget", "--epsilon"]),
        (["plan", "box", "--budget", "corner=5", "--episodes", "0"], ["--episodes"]),
        (["plan", "box", "--budget", "corner=5", "--episodes", "9", "--limit", "corner=1"], ["--budget", "--limit"]),
        (["plan", "box", "--budget", "corner=5", "--episodes", "9", "--epsilon", "some"], ["--epsilon", "some"]),
        (["plan", "box", "--budget", "corner=5", "--episodes", "9", "--epsilon", "1.5"], ["epsilon", "1.5"]),
        (["plan", "box", "--budget", "corner=5", "--episodes", "9", "--epsilon", "theorem"], ["budget", "AggReg"]),
        (["plan", "box", "--budget", "corner=-5", "--episodes", "9"], ["corner", "-5"]),
        (["plan", "box", "--budget", "corer=5", "--episodes", "9"], ["corer", "did you mean 'corner'"]),
        (["plan", "box", "--planner", "convex-program"], ["convex-program", "column-generation"]),
        (["envs", "box"], ["box"]),
        (["plan", "two\nlines"], ["two\\nlines"]),
    ],
    ids=lambda x: " ".join(x)[:80] if isinstance(x, list) else "",
)
@pytest.mark.parametrize("flag", [[], ["--json"]], ids=["", "json"])
def test_mistakes(words: list[str], pieces: list[str], flag: list[str]) -> None:
    if flag and words[0] == "plna":
        return
    message = refused(*words, *flag)
    for piece in pieces:
        assert piece in message


def test_bad_model_files() -> None:
    def wrong(text: str | bytes, *pieces: str) -> None:
        Path("bad.csv").write_bytes(text if isinstance(text, bytes) else text.encode())
        message = refused("plan", "bad.csv", "--horizon", 5)
        for piece in ("bad.csv", *pieces):
            assert piece in message

    wrong("", "empty")
    wrong(os.urandom(400) + b"\0\xff", "UTF-8")
    wrong(MODEL.replace("cost_fuel", "fuel"), "line 1", "unknown column 'fuel'")
    wrong(MODEL.replace("reward,", "rewrd,"), "line 1", "did you mean 'reward'")
    wrong(MODEL.replace("0.9", "1.4"), "line 2", "'home'", "'go'", "sum to 1.5")
    wrong(MODEL.replace("0.9", "nan"), "line 2", "nan")
    wrong(MODEL.replace("0.9", "-0.9"), "line 2", "-0.9")
    wrong(MODEL.replace("work,rest,work,1,0.5,0", "work,rest,work,1,0.5"), "line 6")
    wrong(MODEL + "home,swim,sea,1,0,0\n", "line 7", "'sea'")


def test_a_directory_is_no_model() -> None:
    Path("dir.csv").mkdir()
    assert "directory" in refused("plan", "dir.csv", "--horizon", 5)


def test_npz_that_claims_more_than_it_holds() -> None:
    header = io.BytesIO()
    npy.write_array_header_1_0(header, {"descr": "<f8", "fortran_order": False, "shape": (50, 5000, 50)})
    with zipfile.ZipFile("huge.npz", "w") as archive:
        archive.writestr("transitions.npy", header.getvalue())
        archive.writestr("rewards.npy", header.getvalue() + struct.pack("<d", 1.0))
    message = refused("plan", "huge.npz")
    assert "huge.npz" in message
    assert "claims 100,000,000 bytes" in message
    Path("text.npz").write_text("not a zip file")
    assert "text.npz" in refused("plan", "text.npz")


INFEASIBLE: list[tuple[tuple[object, ...], tuple[str, ...]]] = [
    (("plan", "box", "--limit", "corner=0", "--out", "x.png"), ("corner <= 0",)),
    (("plan", "model.csv", "--horizon", "5", "--limit", "fuel=2", "--floor", "fuel=3"), ("fuel <= 2", "fuel >= 3")),
    (("frontier", "random", "--set", "costs=2", "--cost", "cost0", "--limit", "cost1=0"), ("cost1 <= 0",)),
]


@pytest.mark.parametrize(("words", "conflict"), INFEASIBLE)
def test_infeasible_limits(words: tuple[object, ...], conflict: tuple[str, ...]) -> None:
    message = refused(*words, code=3)
    assert message.startswith(f"infeasible: {' and '.join(conflict)} cannot be kept")
    assert message.count("can be as") == len(conflict)
    result = run(*words, "--json")
    assert result.exit_code == 3
    assert said(result.stderr) == f"Error: {message}\n"
    found = json.loads(result.stdout)
    assert (found["status"], found["message"]) == ("infeasible", message)
    assert tuple(row["limit"] for row in found["conflict"]) == conflict
    for row in found["conflict"]:
        bound = float(row["limit"].split()[-1])
        assert row["nearest"] > bound if "<=" in row["limit"] else row["nearest"] < bound
    assert sum(row["multiplier"] for row in found["conflict"]) == pytest.approx(1.0)


def test_out_that_cannot_be_written(monkeypatch: pytest.MonkeyPatch) -> None:
    Path("dir.png").mkdir()
    assert "directory" in refused("plan", "box", "--out", "dir.png")
    Path("old.png").write_bytes(b"old")

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "fsync", full)
    for name in ("old.png", "x.csv", "x.npz"):
        message = refused("plan", "box", "--out", name)
        assert name in message
        assert "no space left" in message.lower()
    assert Path("old.png").read_bytes() == b"old"
    monkeypatch.setattr(os, "access", lambda *_: False)
    assert "no permission" in refused("plan", "box", "--out", "x.csv")


@pytest.mark.parametrize(
    ("error", "code", "piece"),
    [
        (KeyboardInterrupt(), 130, "interrupted"),
        (MemoryError(), 2, "too large"),
        (OSError(errno.EIO, "Input/output error", "disk"), 2, "disk: Input/output error"),
    ],
)
def test_what_the_machine_does(monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, piece: str) -> None:
    def fail(*_: object, **__: object) -> None:
        raise error

    monkeypatch.setattr(planning, "plan", fail)
    result = run("plan", "box")
    assert result.exit_code == code
    assert result.stdout == ""
    assert piece in result.stderr.strip()
    assert len(result.stderr.split("Error:")) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_within_an_import_waits_for_its_end(number: int) -> None:
    """An extension module would turn it into an ImportError, a callback of the import system would swallow it."""
    Path("slow.py").write_text(
        f"import os, time\ntry:\n    os.kill(os.getpid(), {number})\n    time.sleep(0.1)\n"
        "except KeyboardInterrupt:\n    raise ImportError('initialization failed') from None\n"
    )
    Path("program.py").write_text(
        "import importlib, time\nfrom conrl import planning\nfrom conrl.cli.main import main\n"
        "planning.plan = lambda *_, **__: (importlib.import_module('slow'), time.sleep(99))\nmain(['plan', 'box'])\n"
    )
    told = spawn("-m", "program")
    assert (told.returncode, told.stderr) == (130, "Error: interrupted\n")


def test_a_script_that_is_imported_can_be_interrupted() -> None:
    """An import below the command is not over before the command is."""
    Path("program.py").write_text(
        "import os, signal, time\nfrom conrl import planning\nfrom conrl.cli.main import main\n"
        "planning.plan = lambda *_, **__: (os.kill(os.getpid(), signal.SIGTERM), time.sleep(99))\n"
        "main(['plan', 'box'])\n"
    )
    told = spawn("-c", "import program")
    assert (told.returncode, told.stderr) == (130, "Error: interrupted\n")


def test_an_interrupt_within_exec_is_an_exit_code() -> None:
    """Python remembers it, and would end `python -m conrl` by SIGINT."""
    Path("program.py").write_text(
        "from conrl import planning\nfrom conrl.cli.main import main\n"
        "planning.plan = lambda *_, **__: exec('raise KeyboardInterrupt')\nmain(['plan', 'box'])\n"
    )
    told = spawn("-m", "program")
    assert (told.returncode, told.stderr) == (130, "Error: interrupted\n")


def test_errors_of_the_program_are_not_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object, **__: object) -> Frontier:
        raise AssertionError("a bug")

    monkeypatch.setattr(planners.frontier, "frontier", fail)
    result = run("frontier", "box")
    assert isinstance(result.exception, AssertionError)


@pytest.mark.parametrize("flag", [[], ["--json"]])
def test_a_closed_pipe_is_quiet(flag: list[str]) -> None:
    words = [sys.executable, "-m", "conrl", "frontier", "mars-rover", *flag]
    with launched(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        _, errors = process.communicate(timeout=PATIENCE)
    assert errors == ""


# -- completion -------------------------------------------------------------------------------------------


def offered(*words: str) -> list[str]:
    """What the shell offers for the last word."""
    *before, last = words
    found = ShellComplete(cli, {}, "conrl", "_CONRL_COMPLETE").get_completions(before, last)
    return [item.value for item in found]


def test_completion_offers_names_and_files() -> None:
    Path("maps").mkdir()
    Path("maps/grid.npz").touch()
    Path("notes.txt").touch()
    assert offered("plan", "ma") == ["mars-rover", f"maps{os.sep}"]
    assert offered("plan", "mod") == ["model.csv", "model.drn"]
    assert offered("learn", "maps/") == ["maps/grid.npz"]
    assert offered("frontier", "no") == []
    assert offered("plan", "nowhere/x") == []
    assert offered("learn", "box", "--algorithm", "op") == ["optcmdp", "opt-primal-dual", "optpess-lp"]
    assert offered("plan", "box", "--planner", "l") == ["linear-program", "lagrangian"]
    assert offered("plan", "box", "--planner", "c") == ["column-generation"]  # convex-program takes no limits
    assert offered("learn", "box", "--preset", "a") == ["authors"]
    assert offered("learn", "box", "--algorithm", "ucbvi", "--preset", "") == ["default", "theory"]
    assert offered("learn", "box", "--algorithm", "nobody", "--preset", "") == []


def test_limits_on_steps_are_told_by_place_and_not_by_name(tmp_path: Path) -> None:
    """A cost may be called as another one's limit on a step is."""
    path = tmp_path / "names.csv"
    path.write_text(
        "state,action,next_state,probability,reward,cost_x,cost_x at step 0\ns,go,s,1,1,1,7\ns,stay,s,1,0,0,0\n"
    )
    for more in ((), ("--limit", "x at step 0=9")):
        told = record("plan", path, "--horizon", 2, "--per-step", "x=0.5", *more)["per_step"]["x"]
        assert [(row["step"], row["limit"]) for row in told] == [(0, 0.5), (1, 0.5)]
        assert [row["value"] for row in told] == pytest.approx([0.5, 0.5])
        assert [row["price"] for row in told] == pytest.approx([1.0, 1.0])


# -- what newcomers tripped over ------------------------------------------------------------------------------


def test_what_is_done_at_each_hour() -> None:
    Path("hours.csv").write_text(
        "step,state,action,next_state,probability,reward,cost_power\n0-2,ready,run,hot,1,10,1\n0-2,ready,wait,ready,1,0,0\n"
        "3,ready,run,hot,1,30,1\n3,ready,wait,ready,1,0,0\n*,hot,rest,ready,1,0,0\n"
    )
    text = ok("plan", "hours.csv", "--limit", "power=1")
    assert " step  ready\n ───────────\n 0-2    wait\n 3       run\n" in text
    text = ok("plan", "hours.csv", "--limit", "power=0.5")
    assert " 3     run 50%" in text
    long = Path("hours.csv").read_text().replace("\n3,", "\n3-30,")
    Path("hours.csv").write_text(long)
    assert "step by step: --out policy.csv, or conrl explore" in ok("plan", "hours.csv", "--limit", "power=1")
    assert "save its policy as .csv, .npz or .json" in refused("plan", "hours.csv", "--out", "plan.pdf")


def test_hours_of_many_states_fit_the_screen() -> None:
    rows = "".join(f"*,state number {i},go,state number {(i + 1) % 30},1,1\n" for i in range(30))
    rows += "".join(f"0-19,state number 0,jump,state number {i},{'1' if i == 9 else '0'},0\n" for i in range(9, 10))
    Path("many.csv").write_text(f"step,state,action,next_state,probability,reward\n{rows}")
    text = ok("plan", "many.csv")
    assert max(map(len, text[text.index("step by step") :].splitlines()[:-1])) <= 100
    assert "most visited of 20 states, all with --out policy.csv" in text


def test_limits_on_single_episodes_are_simulated_too() -> None:
    limits = ("--chance", "fuel>2:0.2", "--cvar", "fuel@0.5:2", "--never", "fuel=4")
    given = ("plan", "model.csv", "--horizon", "6", *limits, "--simulate", "4000")
    found = {entry["name"]: entry for entry in record(*given)["simulation"]["single_episodes"]}
    chance, cvar, never = (found[name] for name in ("P(fuel > 2)", "CVaR 0.5 of fuel", "fuel in every episode"))
    rows = {row["name"].partition(" <=")[0]: row["value"] for row in record(*given)["single_episodes"]}
    assert chance["asked"] == 0.2
    assert chance["simulated"] == pytest.approx(rows["P(fuel > 2)"], abs=0.03)
    assert cvar["simulated"] == pytest.approx(rows["CVaR 0.5 of fuel"], abs=0.1)
    assert never["simulated"] <= never["asked"] == 4
    assert " P(fuel > 2)              20%" in ok(*given)


def test_the_frontier_of_a_probability() -> None:
    text = ok("frontier", "model.csv", "--horizon", "6", "--chance", "fuel>2")
    assert "Feasible for every probability; flat from" in text
    assert "At the limit 30: reward" in ok("frontier", "model.csv", "--horizon", "6", "--limit", "fuel=30")


@pytest.mark.parametrize(
    ("option", "text", "hint"),
    [
        ("--limit", "fuel=0,5", "is not a number; write 0.5"),
        ("--limit", "fuel=5%", "is not a number; 5% is 0.05"),
        ("--chance", "fuel>1:5,5%", "is not a number: the probability; 5,5% is 0.055"),
        ("--chance", "fuel>1:5", "is the probability; it is from 0 to 1; 5% is 0.05"),
        ("--cvar", "fuel@90:2", "is the level; it is from 0 to 0.999999; 90% is 0.9"),
    ],
)
def test_numbers_that_are_written_otherwise(option: str, text: str, hint: str) -> None:
    assert hint in refused("plan", "model.csv", "--horizon", "6", option, text)


ROW = ("plan", "model.csv", "--horizon", "6")


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (("--limit", "fuel <= 3"), ("--limit", "fuel=3")),
        (("--floor", "fuel>=2"), ("--floor", "fuel=2")),
        (("--never", "fuel<=3"), ("--never", "fuel=3")),
        (("--per-step", "fuel<=0.5"), ("--per-step", "fuel=0.5")),
        (("--chance", "fuel>2:5%"), ("--chance", "fuel>2:0.05")),
        (("--cvar", "fuel@70%:4"), ("--cvar", "fuel@0.7:4")),
        (
            ("--budget", "fuel<=9", "--episodes", 3, "--epsilon", "10%"),
            ("--budget", "fuel=9", "--episodes", 3, "--epsilon", 0.1),
        ),
    ],
    ids=lambda x: x[0],
)
def test_bounds_and_probabilities_as_people_write_them(one: tuple[object, ...], other: tuple[object, ...]) -> None:
    assert record(*ROW, *one) == record(*ROW, *other)


def test_a_cost_whose_name_ends_as_a_bound_begins() -> None:
    Path("model.csv").write_text(MODEL.replace("cost_fuel", "cost_fuel<"))
    assert record(*ROW, "--limit", "fuel<<=3")["costs"]["fuel<"]["limit"] == 3


@pytest.mark.parametrize("command", ["plan", "frontier", "explore", "learn", "check"])
def test_several_limits_in_one_option(command: str) -> None:
    told = "'fuel=2,Overtime Hours<=35' is more than one; write --limit fuel=2 --limit 'Overtime Hours<=35'"
    assert told in refused(command, "model.csv", "--limit", "fuel=2,Overtime Hours<=35")


def test_bounds_on_the_other_side() -> None:
    assert "'fuel>=2' says at least, which is --floor; --limit is written" in refused(*ROW, "--limit", "fuel>=2")
    assert "'fuel<=2' says at most, which is --limit; --floor is written" in refused(*ROW, "--floor", "fuel<=2")
    assert "'a=1;b=2' is more than one; write --floor a=1 --floor b=2" in refused(*ROW, "--floor", "a=1;b=2")


@pytest.mark.parametrize(
    ("options", "start", "told"),
    [((), "home", "from home\n"), (("--start", "work"), "work", "from work\n")],
    ids=["first row", "given"],
)
def test_where_episodes_start_is_said(options: tuple[str, ...], start: str, told: str) -> None:
    """The state of the first row counts, unless another is given: nobody should have to guess it."""
    assert record(*ROW, *options)["start"] == start
    assert ok(*ROW, *options).startswith(f"model.csv: 2 states, 2 actions, 6 steps, {told}")
    assert ok("explore", *ROW[1:], *options, "--limit", "fuel=2").startswith(
        f"model.csv: 2 states, 2 actions, 6 steps, {told}"
    )
    for varied in ((), ("--chance", "fuel>2")):
        text = ok("frontier", *ROW[1:], *options, *varied)
        assert text.startswith(f"model.csv {told.strip()}: the best reward against the limit on ")
    mdp = conrl.load_model("model.csv", horizon=6)
    assert "6 steps, from home, " in mdp._repr_html_()
    save_model("model.npz", mdp.replace(initial=[0.5, 0.5]))
    assert ok("plan", "model.npz").startswith("model.npz: 2 states, 2 actions, 6 steps, from a random state\n")


def test_messages_of_commands_name_options() -> None:
    given = ("plan", "model.csv", "--horizon", "6", "--deterministic")
    assert "--deterministic takes limits on expectations" in refused(*given, "--never", "fuel=2")
    assert "leave --time-limit out" in refused("plan", "model.csv", "--horizon", "6", "--time-limit", "3")
    assert "give it one with --horizon H" in refused("plan", "model.csv", "--discount", "0.9", "--deterministic")


def test_rounding_that_no_table_shows_is_no_excess() -> None:
    from conrl.cli.plan_tables import _excess

    row = {"name": "fuel <= 0.1", "value": 0.1 + 1.4e-17, "bound": 0.1, "excess": 1.4e-17, "allowance": 1e-10}
    assert not list(_excess([row]))
    assert list(_excess([row | {"value": 0.10000001, "excess": 1e-8}]))
