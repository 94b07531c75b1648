"""How objects look at a prompt and in a notebook: one line, a table, a data frame, a picture; none is forgotten."""

from __future__ import annotations

import csv
import functools
import importlib.util
import io
import itertools
import tempfile
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest

import conrl
from conrl import experiments, notebook, targets, theory, wording
from conrl.estimation.evidence import Evidence
from conrl.metrics import Regret
from conrl.model.transform import reachable_part
from conrl.plots import PAINTERS, heat_map

mpl.use("Agg")

HOSTILE = ("<script>alert(1)</script>", "a & \"b\" 'c' " + "long " * 60, "$x$")
INF = float("inf")
TWO = np.array([[[0.9, 0.1], [0.2, 0.8]], [[0.5, 0.5], [0.0, 1.0]]])


def model(**more: Any) -> conrl.ConstrainedMDP:
    """Two states, two actions, three costs with names that somebody may have chosen badly."""
    rewards = np.array([[1.0, 0.0], [2.0, 0.5]])
    costs = np.stack([rewards, 1.0 - 0.5 * rewards, np.ones((2, 2))], axis=2)
    fixed: dict[str, Any] = {"horizon": 5, "limits": [4.0, 4.5, np.inf], "cost_names": list(HOSTILE)}
    return conrl.ConstrainedMDP(TWO, rewards, costs, **(fixed | more))


@functools.cache
def samples() -> dict[str, Any]:
    """An object of every public class, by its name; those of `hard` are the same with bad names."""
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    plan = conrl.plan(mdp)
    fleet = conrl.Fleet([(mdp, 3), (mdp, 2)], limits=[1.0], per_step={"crash": 1.0})
    fleet_plan = conrl.plan(fleet)
    learner = conrl.ConRL(mdp.task)
    history = conrl.learn(mdp, learner, episodes=20, seed=0)
    log = conrl.sample_log(mdp, plan, 40)
    out = Path(tempfile.mkdtemp())
    written = out / "model.csv"
    written.write_text("state,action,next_state,probability,reward\na,go,a,0.5,1\nb,go,b,x,1\n")
    spec = experiments.parse_spec("episodes = 4\nseeds = 2\n[environment.box]\n[algorithm.ucbvi]\n[algorithm.conrl]")
    runs = [experiments.Run(job, out) for job in spec.jobs]
    for run in runs:
        run.play()
    study = experiments.load(out)
    safe = conrl.Deterministic(np.zeros((mdp.horizon, mdp.num_states)).astype(int), mdp.num_actions)
    budget = conrl.plan(mdp, conrl.Knapsack([20.0], 100))
    made = [
        mdp,
        mdp.task,
        plan,
        plan.sensitivity(),
        fleet,
        fleet_plan,
        fleet.simulate(fleet_plan, runs=5, guard=False),
        conrl.frontier(mdp),
        conrl.feasibility(mdp),
        conrl.evaluate(mdp, plan),
        conrl.simulate(mdp, plan, 50),
        conrl.distribution(mdp, plan),
        conrl.assess(plan, log),
        conrl.monitor(plan, log),
        conrl.budget_risk(budget),
        history,
        log,
        log.episodes[0],
        conrl.PolicyFile.named(plan.policy, mdp),
        conrl.Policy(plan.policy.probabilities),
        plan.component(0),
        conrl.SparsePolicy(np.zeros((2, 3), dtype=np.int8), [1], [[0.5, 0.5]]),
        plan.mixture,
        conrl.Null(3, 2, 2),
        conrl.Stationary(np.full((2, 2), 0.5)),
        conrl.plan(mdp, conrl.Linear(chance={"crash": (0, 0.2)})).policy,
        conrl.Linear({"crash": 0.3}),
        conrl.Knapsack([3.0], 4),
        conrl.ConcaveConvex(lambda x: x, [lambda c: c[0] - 1.0]),
        conrl.Average(),
        conrl.Discounted(0.9),
        conrl.Total(),
        conrl.ColumnGeneration(),
        conrl.ConvexProgram(),
        conrl.LinearProgram(),
        conrl.Lagrangian(),
        conrl.AdaptiveBonus(),
        conrl.BernsteinBonus(),
        conrl.ScaledBonus(),
        conrl.TheoryBonus(),
        Evidence(learner.counts, 3, np.array([0.5])),
        conrl.A2C(),
        conrl.A2CSettings(),
        learner,
        conrl.ApproPO(mdp.task, threshold=0.1),
        conrl.OptCMDP(mdp.task),
        conrl.OptPessLP(mdp.task, safe=safe, safe_costs=[0.1]),
        conrl.DOPE(mdp.task, safe=safe, safe_costs=[0.1]),
        conrl.SafeConRL(mdp.task, safe=safe, safe_costs=[0.1]),
        conrl.OptPrimalDual(mdp.task),
        conrl.PosteriorSampling(mdp.task),
        conrl.RCPO(mdp.task),
        conrl.TFWUCRL2(reachable_part(conrl.single_episode(mdp)).task),  # of one unending episode
        conrl.UCBVI(mdp.task),
        spec,
        spec.jobs[0],
        runs[0],
        study,
        study.runs[0],
        study.environments["box"],
        study.curves("box")[0],
        study.aggregates()[0],
        study.comparisons()[0],
        study.profiles("score")[0],
        conrl.Cells([[0.0, 1.0], [0.5]], names=["x", "v"]),
        conrl.check_model(written),
        conrl.explore(plan),
        experiments.Failure("box", "ucbvi", 0, "Traceback\n  a line\nValueError: no\n"),
        experiments.Event(0, "failed", 3, "a\nb"),
        experiments.Outcome(out, 2, failed={1: "Traceback"}),
        history.regret,
        theory.Decomposition(np.zeros(2), np.ones(2)),
        theory.DynamicOptimum(1.0, 2, (1.0,), (3,), np.ones((2, 4), dtype=bool), np.zeros((2, 1, 1, 4), np.int16)),
        theory.knapsack_epsilon([9.0], 5, num_states=2, num_actions=2, horizon=2, num_costs=1, delta=0.1),
        targets.Box(np.zeros(9), np.ones(9)),
        targets.Ball(np.zeros(2), 1.0),
        targets.HalfSpace([1.0, 0.0], 2.0),
        targets.Intersection([targets.Ball(np.zeros(2), 1.0)]),
        targets.Cone(targets.Ball(np.zeros(2), 1.0), 1.0),
    ]
    return {type(one).__name__: one for one in made}


def test_a_learner_shows_a_problem_that_is_not_its_tasks() -> None:
    task = conrl.envs.mars_rover().task
    for usual in (None, task.limits, conrl.Linear(task.limits)):
        assert "problem=" not in repr(conrl.ConRL(task, problem=usual))
    bag = conrl.Knapsack([10.0], 50)
    assert f"problem={bag!r}, " in repr(conrl.ConRL(task, problem=bag))
    assert "problem=Linear(limits={'crash': 0.1})" in repr(conrl.ConRL(task, problem={"crash": 0.1}))
    assert "problem=Linear(chance=" in repr(conrl.ConRL(task, problem=conrl.Linear(chance={"crash": (0, 0.1)})))


@functools.cache
def hard() -> dict[str, Any]:
    """The same kinds of results, of a model with bad names."""
    mdp = model()
    plan = conrl.plan(mdp, conrl.Linear([4.0, 4.5, 9.0], floors=[0.1, -INF, -INF]))
    log = conrl.sample_log(mdp, plan, 30)
    fleet = conrl.Fleet([(mdp, 2)], limits=[9.0, INF, INF])
    learner = conrl.ConRL(mdp.task)
    made = [
        mdp,
        mdp.task,
        plan,
        plan.mixture,
        fleet,
        conrl.plan(fleet),
        conrl.frontier(mdp),
        conrl.feasibility(mdp),
        conrl.evaluate(mdp, plan),
        conrl.simulate(mdp, plan, 20),
        conrl.distribution(mdp, plan),
        conrl.assess(plan, log),
        conrl.monitor(plan, log),
        conrl.learn(mdp, learner, episodes=3, seed=0),
        learner,
        log,
        conrl.PolicyFile.named(plan.policy, mdp),
        conrl.budget_risk(conrl.plan(mdp, conrl.Knapsack([50.0, 50.0, 90.0], 9))),
    ]
    return {type(one).__name__: one for one in made}


def public_classes() -> Iterator[tuple[str, type]]:
    """Those of `conrl` and of modules it exports. Errors say what they say; a TypedDict or Protocol has no objects."""
    for module in (conrl, experiments, theory, targets):
        names = getattr(module, "__all__", [n for n in vars(module) if isinstance(getattr(module, n), type)])
        for name in names:
            kind = getattr(module, name)
            own = getattr(kind, "__module__", "").startswith("conrl") and not name.startswith("_")
            if isinstance(kind, type) and own and not issubclass(kind, (Exception, dict)) and name != "ConvexSet":
                yield name, kind


CLASSES = dict(public_classes())
RESULTS = (  # what somebody asks for and looks at
    "Plan FleetPlan Frontier History Simulation FleetSimulation Evaluation Distribution Assessment Monitoring "
    "Study Log ConstrainedMDP PolicyFile Feasibility Mixture BudgetRisk"
)
DRAWN = "Plan FleetPlan Frontier History Simulation FleetSimulation Evaluation Distribution Assessment Monitoring Study"


@pytest.mark.parametrize("name", sorted(CLASSES))
def test_every_public_object_is_one_line(name: str) -> None:
    assert name in samples(), f"{name} is public: give it a one-line repr, and a sample here"
    thing = samples()[name]
    text = repr(thing)
    assert text.startswith(name), text
    assert "\n" not in text
    assert len(text) <= 160, text
    assert " at 0x" not in text
    assert "array(" not in text
    assert "dtype" not in text


@pytest.mark.parametrize("name", sorted(hard()))
def test_long_and_hostile_names_leave_it_one_line(name: str) -> None:
    text = repr(hard()[name])
    assert "\n" not in text
    assert len(text) <= 200, text


class Reader:
    """What a table in HTML says, read back by a parser that refuses what is not well formed."""

    def __init__(self, text: str) -> None:
        tree = ElementTree.fromstring(text)
        self.tags = {one.tag for one in tree.iter()}
        self.styles = {value for one in tree.iter() for value in one.attrib.values()}
        self.attributes = {key for one in tree.iter() for key in one.attrib}
        self.rows = [["".join(cell.itertext()) for cell in row] for row in tree.iter("tr")]
        self.text = "".join(tree.itertext())


@pytest.mark.parametrize("kind", ["plain", "hostile"])
@pytest.mark.parametrize("name", RESULTS.split())
def test_tables_are_plain_and_escaped(name: str, kind: str) -> None:
    found = (samples() if kind == "plain" else hard()).get(name)
    if found is None:
        assert name in samples()
        return
    read = Reader(found._repr_html_())
    assert read.tags <= {"div", "b", "table", "thead", "tbody", "tr", "th", "td", "small"}
    assert read.attributes <= {"style", "class"}
    cells = {f"text-align:{side};{notebook.SPACE}" for side in ("left", "right")}
    assert read.styles <= {"color:inherit", notebook.NO_MATH, *cells}  # no colour: that of the notebook
    assert len({len(row) for row in read.rows}) <= 1
    assert name in ("PolicyFile",) or len(read.rows) >= 2
    assert len(read.rows) <= 1 + notebook.MOST_ROWS
    assert len(found._repr_html_()) < 30_000


def test_the_table_of_a_plan_says_what_the_plan_says() -> None:
    plan = hard()["Plan"]
    read = Reader(plan._repr_html_())
    header, reward, first, *_ = read.rows
    assert header == ["total", "value", "limit", "price", "floor", "floor_price"]
    assert reward[:2] == ["reward", f"{plan.reward:.6g}"]
    assert first[:4] == [HOSTILE[0], f"{plan.costs[0]:.6g}", "4", f"{plan.prices[0]:.6g}"]
    assert first[4] == "0.1"
    assert plan.message in read.text


def test_long_tables_are_cut_and_say_so() -> None:
    text = notebook.html_of(notebook.Display("t", {f"c{i}": list(range(50)) for i in range(15)}))
    read = Reader(text)
    assert (len(read.rows), len(read.rows[0])) == (1 + notebook.MOST_ROWS, notebook.MOST_COLUMNS)
    assert "and 30 more rows and 3 more columns" in read.text
    empty = Reader(notebook.html_of(notebook.Display("t", {"a": [1.0], "b": [np.nan], "c": [None]})))
    assert empty.rows == [["a"], ["1"]]
    assert Reader(notebook.html_of(notebook.Display("nothing", {}))).rows == []


# -- evaluations ------------------------------------------------------------------------------------------


def test_an_evaluation_knows_the_names() -> None:
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    plan = conrl.plan(mdp)
    found = conrl.evaluate(mdp, plan)
    assert repr(found) == f"Evaluation(reward {plan.reward:.6g}, crash {plan.costs[0]:.6g})"
    reward, costs = found
    assert (reward, costs.tolist()) == (found.reward, found.costs.tolist())
    assert found.value.tolist() == [reward, *costs]
    assert found.names == ("reward", "crash")
    assert conrl.Evaluation(np.array([1.0, 2.0, 3.0])).names[0] == "reward"
    assert len(conrl.Evaluation(np.array([1.0, 2.0, 3.0])).names) == 3
    seen = conrl.simulate(mdp, plan, 20)
    for one in (seen.mean, seen.standard_error, seen.quantile(0.5)):
        assert one.names == ("reward", "crash")


# -- data frames ------------------------------------------------------------------------------------------


FRAMED = [n for n, kind in CLASSES.items() if issubclass(kind, notebook.Framed)]


@pytest.mark.parametrize("name", FRAMED)
def test_frames_of_both_libraries_hold_the_same(name: str) -> None:
    thing = samples()[name]
    one, other = thing.to_frame(library="pandas"), thing.to_frame(library="polars")
    assert type(one).__module__.startswith("pandas")
    assert type(other).__module__.startswith("polars")
    assert list(one.columns) == other.columns
    assert len(one) == other.height > 0
    for title in one.columns:
        for x, y in zip(one[title].tolist(), other[title].to_list(), strict=True):
            missing = x is None or x != x
            assert (y is None) if missing else (x == y), title
    assert "data frame" in (type(thing).__doc__ or "")


def test_what_is_asked_for_by_name_is_a_frame() -> None:
    for name in ("Plan", "Frontier", "History", "Simulation", "Evaluation", "Study"):
        assert name in FRAMED


def test_whichever_library_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    found = samples()["Evaluation"]
    assert type(found.to_frame()).__module__.startswith("pandas")
    real = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pandas" else real(name))
    assert type(found.to_frame()).__module__.startswith("polars")
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(conrl.SpecError, match=r"needs pandas or Polars: pip install pandas, or pip install polars"):
        found.to_frame()
    with pytest.raises(conrl.SpecError, match="unknown library 'panda'; did you mean 'pandas'"):
        found.to_frame("panda")
    with pytest.raises(conrl.SpecError, match="library is 3; it must be 'pandas' or 'polars'"):
        found.to_frame(3)
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(conrl.SpecError, match="pandas cannot be loaded: pip install pandas"):
        found.to_frame("pandas")


def test_a_frame_is_its_owner_s_to_change() -> None:
    simulation = samples()["Simulation"]
    before = simulation.rewards.copy()
    frame = simulation.to_frame()
    frame.loc[0, "reward"] = 1e9
    assert (simulation.rewards == before).all()


def test_the_frame_of_a_plan() -> None:
    mdp = model(cost_names=["a", "b", "c"])
    asked = conrl.Linear([4.0, INF, INF], floors={"b": 2.0}, chance={"c": (4, 1.0)}, per_step=None)
    plan = conrl.plan(mdp, asked)
    table = plan.to_frame().set_index("total")
    assert table.index[:4].tolist() == ["reward", "a", "b", "c"]
    assert table["value"][:4].tolist() == [plan.reward, *plan.costs]
    assert table.loc["a", ["limit", "price"]].tolist() == [4.0, plan.prices[0]]
    assert table.loc["b", ["floor", "floor_price"]].tolist() == [2.0, plan.floor_prices[1]]
    assert np.isnan(table.loc["b", "limit"])
    (tail,) = [row for row in plan.rows if row.name.startswith("P(")]
    assert table.loc[tail.name, ["value", "limit", "price"]].tolist() == [tail.value, tail.bound, tail.price]
    assert len(table) == 5
    stepped = conrl.plan(mdp, conrl.Linear([4.0, INF, INF], per_step={"b": 0.9})).to_frame()
    assert len(stepped) == 4 + mdp.horizon


def test_the_frame_of_a_concave_convex_plan_has_the_prices_of_its_constraints() -> None:
    cp = pytest.importorskip("cvxpy")
    plan = conrl.plan(model(), conrl.ConcaveConvex(lambda x: cp.sqrt(x), [lambda c: c[0] - 4.0]))
    table = plan.to_frame().set_index("total")
    assert table.loc["constraint 1", "price"] == plan.prices[0]
    assert np.isnan(table["price"].iloc[1:4]).all()
    Reader(plan._repr_html_())


@pytest.mark.parametrize("kind", ["markov", "mixture", "stationary", "spent"])
def test_the_frame_of_a_policy_has_what_can_be_reached(kind: str) -> None:
    """Visits, and that nothing is missing, by playing the frame: its expected reward is that of the plan."""
    mdp = model(cost_names=["a", "b", "c"], initial=0, state_names=["left", "right"], action_names=["go", "stay"])
    asked = conrl.Linear([4.0, 4.5, INF])
    if kind == "stationary":
        mdp = mdp.replace(horizon=conrl.Discounted(0.8))
    if kind == "spent":
        asked = conrl.Linear([4.0, 4.5, INF], chance={"a": (4, 0.3)})
    plan = conrl.plan(mdp, asked)
    frame = (plan.mixture if kind == "mixture" else plan.policy).to_frame(mdp)
    state = frame["state"].map({"left": 0, "right": 1}).to_numpy()
    action = frame["action"].map({"go": 0, "stay": 1}).to_numpy()
    weight = frame["weight"].to_numpy() if kind == "mixture" else 1.0
    rho = weight * frame["visits"].to_numpy() * frame["probability"].to_numpy()
    assert (rho > 0.0).all()
    assert float(rho @ mdp.rewards[state, action]) == pytest.approx(plan.reward, abs=1e-9)
    assert ("step" in frame) == (kind != "stationary")
    assert ("spent_a" in frame) == (kind == "spent")
    if kind in ("markov", "stationary"):
        bare = plan.policy.to_frame()
        assert set(bare.columns) == set(frame.columns) - {"visits"}
        assert bare["state"].max() == 1
        assert bare["probability"].sum() == pytest.approx(plan.policy.probabilities.sum())


def test_the_frame_of_a_policy_wants_its_own_model() -> None:
    policy = conrl.plan(model()).policy
    with pytest.raises(conrl.ModelError, match="policy has shape"):
        policy.to_frame(conrl.envs.box())
    with pytest.raises(conrl.SpecError, match="to_frame needs a ConstrainedMDP"):
        policy.to_frame("box")
    assert len(conrl.Null(3, 2, 2).to_frame()) == 0  # it plays nothing
    mixed = conrl.Mixture([0.5, 0.5], [policy, conrl.Null(5, 2, 2)]).to_frame()
    assert set(mixed["policy"]) == {0}


def test_the_frame_of_a_policy_file_has_its_names(tmp_path: Path) -> None:
    mdp = model(cost_names=["a", "b", "c"], state_names=["left", "right"])
    plan = conrl.plan(mdp)
    for mixed in (False, True):
        plan.save(tmp_path / "p.json", mixture=mixed)
        file = conrl.PolicyFile.load(tmp_path / "p.json")
        frame = file.to_frame()
        assert set(frame["state"]) == {"left", "right"}
        for row in frame.itertuples():
            component = row.policy if len(file.components) > 1 else None
            assert file.choices(row.step, row.state, component)[row.action] == row.probability


def table_of(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_the_frame_of_a_history_is_its_file_and_the_regrets() -> None:
    history = samples()["History"]
    frame = history.to_frame()
    rows = table_of(history.to_csv())
    for title in rows[0]:
        assert frame[title].astype(float).tolist() == [float(row[title] or "nan") for row in rows], title
    assert frame["regret"].tolist() == history.regret.reward.tolist()
    assert frame["constraint_regret"].tolist() == history.regret.cost.tolist()
    assert frame["skipped"].dtype == bool


def test_the_frame_of_a_history_without_a_model_or_with_a_budget() -> None:
    mdp = conrl.envs.mars_rover()
    problem = conrl.Knapsack([30.0], 10)
    history = conrl.learn(mdp, conrl.ConRL(mdp.task, problem=problem), episodes=10, seed=0)
    frame = history.to_frame()
    assert frame["remaining_crash"].tolist() == pytest.approx((30.0 - np.cumsum(history.costs[:, 0])).tolist())
    unknown = conrl.History(("crash",), conrl.Linear([0.3]))
    assert len(unknown.to_frame()) == 0
    assert "regret" not in unknown.to_frame()
    Reader(unknown._repr_html_())
    assert repr(unknown) == "History(0 episodes: in all reward 0, crash 0)"
    with pytest.raises(conrl.SpecError, match="no episode to draw yet"):
        unknown.plot()


def test_a_history_whose_limits_no_policy_keeps_has_no_regret() -> None:
    mdp = conrl.envs.mars_rover()
    history = conrl.learn(mdp, conrl.ConRL(mdp.task, problem=conrl.Linear([1e-9])), episodes=3, seed=0)
    assert "regret" not in history.to_frame()
    history.plot()


def test_the_frame_of_a_log_is_its_file(tmp_path: Path) -> None:
    log = samples()["Log"]
    conrl.save_episodes(tmp_path / "log.csv", log)
    rows = table_of((tmp_path / "log.csv").read_text())
    frame = log.to_frame()
    assert len(frame) == len(rows) == log.num_steps
    for title in rows[0]:
        own = frame[title].astype(str) if title in ("state", "action", "next_state") else frame[title].astype(float)
        theirs = [row[title] if own.dtype == "str" else float(row[title]) for row in rows]
        assert own.tolist() == theirs, title
    assert conrl.Log((), ("a",)).to_frame().columns.tolist()[-1] == "terminated"


def test_the_frame_of_a_distribution() -> None:
    found = samples()["Distribution"]
    frame = found.to_frame()
    for total, above in zip(frame["total"], frame["above"], strict=True):
        assert above == pytest.approx(found.exceed(total), abs=1e-12)


def test_the_frame_of_a_study_is_that_of_its_files() -> None:
    study = samples()["Study"]
    frame = study.to_frame()
    assert frame.groupby(["environment", "algorithm", "seed"]).ngroups == len(study.runs) == 4
    for run in study.runs:
        rows = table_of((run.directory / "progress.csv").read_text())
        mine = frame[(frame["algorithm"] == run.algorithm) & (frame["seed"] == run.seed)]
        for total, title in (("reward", "reward"), ("corner", "cost_corner")):
            part = mine[mine["total"] == total]
            assert part["episode"].tolist() == [1, 2, 3, 4]
            assert part["seen"].tolist() == [float(row[title]) for row in rows]
            assert part["executed"].tolist() == [float(row[f"expected_{title}"]) for row in rows]


# -- pictures ---------------------------------------------------------------------------------------------


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    yield
    from matplotlib import pyplot

    pyplot.close("all")


def test_every_painter_has_a_class_and_every_class_a_painter() -> None:
    drawn = {name for name, kind in CLASSES.items() if issubclass(kind, notebook.Plotted)}
    assert drawn == set(PAINTERS) == set(DRAWN.split()) - {"Study"}


@pytest.mark.parametrize("name", DRAWN.split())
def test_plots_are_drawn_onto_the_axes_given(name: str) -> None:
    from matplotlib import pyplot
    from matplotlib.figure import Figure

    things = [samples()[name], *([hard()[name]] if name in hard() else [])]
    for thing in things:
        axes = Figure(layout="constrained").subplots()
        assert thing.plot(axes) is axes
        assert axes.has_data() or axes.child_axes or axes.patches or axes.texts
        axes.get_figure().savefig(io.BytesIO(), format="png")
        assert pyplot.get_fignums() == []  # nobody's figure was touched
        own = thing.plot()
        assert pyplot.get_fignums() == [own.get_figure().number]
        pyplot.close("all")
    with pytest.raises(conrl.SpecError, match=r"ax is 3; it must be axes of matplotlib"):
        things[0].plot(3)


def test_a_study_is_drawn_by_measure() -> None:
    study = samples()["Study"]
    for measure in ("reward", "cost", "cumulative", "regret"):
        axes = study.plot(measure=measure)
        labels = [text.get_text() for text in axes.get_legend().get_texts()]
        assert sorted(labels) == ["conrl", "ucbvi"]
        (curve,) = [c for c in study.curves("box", 300) if (c.measure, c.algorithm) == (measure, "ucbvi")]
        line = next(one for one in axes.lines if one.get_label() == "ucbvi")
        assert np.allclose(line.get_ydata(), curve.mean)
    wrong: list[tuple[dict[str, str], str]] = [
        ({"measure": "rewrd"}, "did you mean 'reward'"),
        ({"environment": "bx"}, "did you mean 'box'"),
        ({"measure": "cost", "cost": "cornr"}, "did you mean 'corner'"),
        ({"cost": "corner"}, "the reward is of no cost"),
        ({"measure": "regret", "cost": "corner"}, "the regret is of no cost"),
    ]
    for given, told in wrong:
        with pytest.raises(conrl.SpecError, match=told):
            study.plot(**given)


def test_a_heat_map_shows_actions_visits_and_lotteries() -> None:
    """Every cell against the probabilities of the policy and the visits, computed step by step."""
    mdp = model(cost_names=["a", "b", "c"], initial=0)
    plan = conrl.plan(mdp, [3.0, 4.5, np.inf])
    assert plan.weights.size > 1
    from matplotlib.colors import to_rgb

    shown = heat_map.chosen(mdp, heat_map.played(mdp, plan.mixture))
    picture = heat_map.image(shown)
    at = np.array([1.0, 0.0])
    lotteries = 0
    for h in range(mdp.horizon):
        policy = plan.policy.probabilities[h]
        for row, s in enumerate(shown.states):
            cell = picture[row * heat_map.PARTS : (row + 1) * heat_map.PARTS, h]
            if at[s] < 1e-9:
                assert (cell[:, 3] == 0.0).all()
                continue
            assert cell[0, 3] == pytest.approx(max(at[s] ** 0.5, heat_map.FAINTEST))
            for k, colour in enumerate(shown.colours):
                a = mdp.action_names.index(shown.names[k])
                share = np.isclose(cell[:, :3], to_rgb(colour)).all(axis=1).mean()
                assert share == pytest.approx(policy[s, a], abs=1.0 / heat_map.PARTS)
            lotteries += 0.05 < policy[s].max() < 0.95
        at = np.einsum("s,sa,sat->t", at, policy, TWO)
    assert lotteries >= 1


def test_a_heat_map_of_many_states_and_actions() -> None:
    mdp = conrl.envs.random_cmdp(90, 14, horizon=12, seed=3)
    policy = conrl.Policy(np.full((12, 90, 14), 1.0 / 14))
    shown = heat_map.chosen(mdp, heat_map.played(mdp, conrl.Mixture([1.0], [policy])))
    visits = policy.occupation(mdp).sum(axis=(0, 2))
    assert shown.states.tolist() == np.argsort(-visits, kind="stable")[: heat_map.MOST_STATES].tolist()
    assert shown.left_out == (visits > heat_map.SEEN).sum() - heat_map.MOST_STATES
    assert shown.names[-1] == "others"
    assert len(shown.names) == len(shown.colours) == len(set(shown.colours)) == 10
    assert np.allclose(shown.kinds.sum(axis=2), policy.occupation(mdp).sum(axis=2)[:, shown.states])


def test_a_model_with_a_map_is_drawn_on_it_and_one_without_a_horizon_as_bars() -> None:
    rover = samples()["Plan"].plot()
    assert rover.get_aspect() == 1.0
    endless: Any = conrl.plan(model(horizon=conrl.Discounted(0.9), limits=[8.0, 9.0, np.inf])).plot()
    assert sum(bar.get_width() for bar in endless.patches) == pytest.approx(1.0)


def words_of(axes: Any) -> list[str]:
    """All texts of a picture, those of legends too."""
    from matplotlib.text import Text

    return [text.get_text() for text in axes.get_figure(root=True).findobj(Text) if text.get_text()]


def test_floors_are_shown_where_limits_are() -> None:
    mdp = model(cost_names=["a", "b", "c"])
    asked = conrl.Linear({"a": 4.0}, {"b": 2.0})
    plan = conrl.plan(mdp, asked)
    assert any("(floor 2)" in word for word in words_of(plan.plot()))
    seen = conrl.simulate(mdp, plan, 200)
    assert seen.floors.tolist() == [-INF, 2.0, -INF]
    share = (seen.costs[:, 1] < 2.0 - 1e-9).mean()
    assert 0.0 < share < 1.0
    assert seen.fall_short() == pytest.approx([np.nan, share, np.nan], nan_ok=True)
    assert seen.fall_short({"a": 1e9}) == pytest.approx([1.0, np.nan, np.nan], nan_ok=True)
    table = Reader(seen._repr_html_())
    assert {"floor", "episodes below it"} <= set(table.rows[0])
    assert {"floor 2", f"{100 * share:.3g}% below the floor"} <= set(words_of(seen.plot()))
    assert conrl.simulate(mdp, plan.policy, 5).floors.tolist() == [-INF] * 3
    found = conrl.assess(plan, conrl.sample_log(mdp, plan, 100))
    assert {"limit 4", "floor 2"} <= set(words_of(found.plot()))
    fleet = conrl.Fleet([(mdp, 3)], limits={"a": 12.0}, floors={"b": 6.0})
    whole = fleet.simulate(conrl.plan(fleet), 20, guard=False)
    assert whole.floors.tolist() == [-INF, 6.0, -INF]
    assert np.isnan(whole.fall_short()).tolist() == [True, False, True]
    assert "floor 6" in words_of(whole.plot())


def test_a_fleet_is_drawn_with_limits_of_0_and_below_and_floors() -> None:
    costs = np.zeros((2, 2, 4))
    costs[:, 1, 0] = costs[:, :, 2] = costs[:, 1, 3] = 1.0
    costs[:, :, 1] = -2.0
    mdp = conrl.ConstrainedMDP(TWO, np.ones((2, 2)), costs, 3, cost_names=["zero", "minus", "floor", "free"])
    plan = conrl.plan(conrl.Fleet([(mdp, 5)], limits={"zero": 0.0, "minus": -20.0}, floors={"floor": 12.0}))
    axes: Any = plan.plot()
    assert [text.get_text() for text in axes.get_yticklabels()] == ["zero", "minus", "floor"]
    assert [bar.get_width() for bar in axes.patches] == pytest.approx([0.0, -150.0, 125.0], abs=1e-6)
    marks = [lines.get_segments()[0][0][0] for lines in axes.collections]
    assert marks == pytest.approx([0.0, -100.0, 100.0])
    assert any("-30: at most -20" in word for word in words_of(axes))
    assert any("15: at least 12" in word for word in words_of(axes))
    with pytest.raises(conrl.SpecError, match="no limit on a total"):
        conrl.plan(conrl.Fleet([(mdp, 5)])).plot()


def test_pictures_of_one_episode_and_of_one_step() -> None:
    mdp = model(cost_names=["a", "b", "c"], horizon=1, limits=[2.0, 2.0, 2.0])
    ticks = conrl.plan(mdp).plot().get_xticks()
    assert [x for x in ticks if -0.5 <= x <= 0.5] == [0.0]
    history = conrl.learn(mdp, conrl.ConRL(mdp.task), episodes=1, seed=0)
    drawn: Any = history.plot()
    for axes in drawn.child_axes:
        assert axes.lines[0].get_marker() == "o"  # a line through one point is none
    assert repr(history).startswith("History(1 episode: ")


def test_panels_are_near_each_other() -> None:
    """However many there are, the space between two is a fraction of one."""
    for count in (2, 4):
        mdp = model(cost_names=["a", "b", "c"])
        mdp = conrl.ConstrainedMDP(TWO, mdp.rewards, mdp.costs[:, :, : count - 1], 5)
        drawn: Any = conrl.simulate(mdp, conrl.plan(mdp), 50).plot()
        drawn.get_figure().draw_without_rendering()
        boxes = [axes.get_position() for axes in drawn.child_axes]
        assert len(boxes) == count
        for left, right in itertools.pairwise(boxes):
            assert 0.0 < right.x0 - left.x1 < 0.25 * left.width


def test_a_negative_number_stays_clear_of_the_names() -> None:
    axes: Any = conrl.Evaluation(np.array([-1147.234567, 3.0]), ("a",)).plot()
    axes.get_figure().draw_without_rendering()
    (number,) = [text for text in axes.texts if text.get_text().startswith("-1147")]
    assert number.get_window_extent().x0 > axes.get_window_extent().x0


def test_notebooks_read_no_mathematics_in_tables() -> None:
    for thing in (samples()["Plan"], samples()["Study"], samples()["History"]):
        assert thing._repr_html_().startswith('<div class="tex2jax_ignore mathjax_ignore">')


def test_what_is_not_drawn_is_said() -> None:
    rewards = np.ones((1, 1))
    mdp = conrl.ConstrainedMDP(np.ones((1, 1, 1)), rewards, np.ones((1, 1, 40)), 3, limits=[3.0] * 40)
    plan = conrl.plan(mdp)
    history = conrl.learn(mdp, conrl.ConRL(mdp.task), episodes=2, seed=0)
    fleet = conrl.plan(conrl.Fleet([(mdp, 2)], limits=[9.0] * 40))
    for thing, count in (
        (conrl.evaluate(mdp, plan), 11),
        (conrl.simulate(mdp, plan, 9), 37),
        (history, 37),
        (fleet, 20),
    ):
        axes: Any = thing.plot()
        last = (axes.child_axes or [axes])[-1]
        assert f"{count} more are not drawn; to_frame() has all" in last.get_xlabel()
        assert max(axes.get_figure().get_size_inches()) < 15.0


# -- words ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (np.arange(9.0), "[0, 1, 2, 3, ...]"),
        (np.zeros((3, 4)), "array of 3 x 4"),
        (np.float64(0.5), "0.5"),
        (("a",), "('a',)"),
        (len, "len"),
        (10**400, "1" + "0" * 68 + "..."),
    ],
)
def test_brief_words(value: Any, text: str) -> None:
    assert wording.brief(value) == text


def test_only_what_was_given_is_said() -> None:
    cases: list[tuple[Callable[[], Any], str]] = [
        (lambda: conrl.Linear(), "Linear()"),
        (lambda: conrl.Linear([0.3]), "Linear(limits=[0.3])"),
        (lambda: conrl.Linear(np.zeros(1)), "Linear(limits=[0])"),
        (lambda: conrl.Knapsack({"a": 3}, 4, 0.1), "Knapsack(budgets={'a': 3}, episodes=4, epsilon=0.1)"),
        (lambda: Regret(np.zeros(0), np.zeros(0)), "Regret(no episode)"),
    ]
    for make, text in cases:
        assert repr(make()) == text
