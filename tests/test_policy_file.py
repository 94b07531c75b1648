"""Policies in JSON: what was saved comes back bit by bit, anybody can read it, and nothing damaged is believed."""

from __future__ import annotations

import itertools
import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bank import chain
from commands import ok, record, refused
from hypothesis import given, settings
from hypothesis import strategies as st
from pages import ROOT, write_files

import conrl
from conrl._types import Float
from conrl.episode_totals import extremes
from conrl.mixture import parts_of
from conrl.model.digest import digest
from conrl.oracles import exact_oracle

PAGE = (ROOT / "docs" / "how-to" / "running-systems.md").read_text()


def random_model(
    seed: int, horizon: Any = 4, states: int = 3, actions: int = 2, costs: int = 2
) -> conrl.ConstrainedMDP:
    """A model with names that need care, pay by outcome in tenths, and outcomes of probability 0."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(states, 0.5), size=(states, actions))
    P[P < 0.1] = 0.0
    P /= P.sum(axis=2, keepdims=True)
    return conrl.ConstrainedMDP(
        P,
        rng.integers(-9, 10, size=(states, actions, states)) / 10.0,
        rng.integers(0, 6, size=(states, actions, states, costs)) / 10.0,
        horizon=horizon,
        limits=[np.inf] * costs,
        state_names=[f'ü "{i}", =1' for i in range(states)],
        action_names=[f"do\n{i}" for i in range(actions)],
        cost_names=[f"c {i}" for i in range(costs)],
    )


def planned(seed: int, share: float = 0.5) -> conrl.Plan:
    """A plan whose first limit binds, so that it mixes."""
    mdp = random_model(seed)
    free, least = conrl.plan(mdp).costs[0], conrl.feasibility(mdp).least[0]
    return conrl.plan(mdp, {"c 0": least + share * (free - least)})


def same(one: conrl.Policy, other: conrl.Policy) -> None:
    """Bit by bit."""
    assert type(one) is type(other) or {type(one), type(other)} <= {conrl.Policy, conrl.Deterministic}
    if isinstance(one, conrl.SpentPolicy):
        assert isinstance(other, conrl.SpentPolicy)
        assert one.counter == other.counter
        assert one.spent == other.spent
        np.testing.assert_array_equal(one.state, other.state)
        np.testing.assert_array_equal(one.reached, other.reached)
        assert one.reached is not None
        table = one.reached[:, :, None]
        np.testing.assert_array_equal(table * one.inner.probabilities, table * other.inner.probabilities)
    else:
        np.testing.assert_array_equal(one.probabilities, other.probabilities)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 10**6), share=st.floats(0.0, 1.0), mixture=st.booleans())
def test_a_saved_plan_comes_back(seed: int, share: float, mixture: bool, tmp_path_factory: Any) -> None:
    plan, path = planned(seed, share), tmp_path_factory.mktemp("plan") / "p.json"
    plan.save(path, mixture=mixture)
    file = conrl.PolicyFile.load(path)
    chosen = plan.mixture if mixture else plan.policy
    assert file.state_names == plan.mdp.state_names
    assert file.action_names == plan.mdp.action_names
    assert file.cost_names == plan.mdp.cost_names
    assert file.horizon == 4
    assert file.skip == 0.0
    assert file.made_for(plan.mdp)
    assert file.limits == {"c 0": plan.linear.limits["c 0"]}  # type: ignore[union-attr, index]
    assert file.floors == {}
    parts = parts_of(chosen)
    np.testing.assert_array_equal(file.weights, [part.weight for part in parts])
    reached = plan.mdp.reached[:, :, None]
    for part, component in zip(parts, file.components, strict=True):
        np.testing.assert_array_equal(reached * part.policy.probabilities, reached * component.probabilities)
    assert file.promise is not None
    assert file.promise.reward == plan.reward
    assert file.promise.costs == dict(zip(plan.mdp.cost_names, plan.costs.tolist(), strict=True))
    np.testing.assert_array_equal(file.promise.value, np.append(plan.reward, plan.costs))
    again = conrl.load_policy(path, plan.mdp)
    np.testing.assert_array_equal(conrl.evaluate(plan.mdp, again).value, conrl.evaluate(plan.mdp, file.policy).value)


def test_a_policy_that_acts_on_what_was_spent_comes_back(tmp_path: Path) -> None:
    mdp = random_model(3)
    for number, problem in enumerate(
        (
            conrl.Linear(None, chance={"c 0": (0.7, 0.2)}),
            conrl.Linear(None, cvar={"c 0": (0.5, 0.9)}, never={"c 1": 1.8}),
            conrl.Linear(None, chance={"c 0": (1.3, 0.6)}, grid={"c 0": 0.15}),
        )
    ):
        plan = conrl.plan(mdp, problem)
        for mixture in (False, True):
            plan.save(tmp_path / f"{number}.json", mixture=mixture)
            file = conrl.PolicyFile.load(tmp_path / f"{number}.json")
            for part, component in zip(
                parts_of(plan.mixture if mixture else plan.policy), file.components, strict=True
            ):
                same(part.policy, component)


@pytest.mark.parametrize("horizon", [conrl.Discounted(0.9), conrl.Average(), conrl.Total()])
def test_without_a_horizon(horizon: Any, tmp_path: Path) -> None:
    mdp = random_model(5, horizon=conrl.Discounted(0.9))
    if not isinstance(horizon, conrl.Discounted):
        P = np.full((2, 2, 2), 0.5)
        if isinstance(horizon, conrl.Total):
            P = np.array([[[0.5, 0.5], [0.2, 0.8]], [[0.0, 1.0], [0.0, 1.0]]])
        pay = np.array([[1.0, 2.0], [0.0, 0.0]])
        mdp = conrl.ConstrainedMDP(P, pay, pay[:, :, None], horizon=horizon, limits=[np.inf])
    plan = conrl.plan(mdp)
    plan.save(tmp_path / "p.json")
    file = conrl.PolicyFile.load(tmp_path / "p.json")
    assert file.horizon == horizon
    same(plan.policy, file.components[0])
    name = mdp.state_names[0]
    assert file.choices(0, name) == file.choices(10**9, name)
    with pytest.raises(conrl.SpecError, match="has no end"):
        conrl.monitor(file, conrl.sample_log(random_model(5), conrl.plan(random_model(5)), 3))


def test_skipped_episodes(tmp_path: Path) -> None:
    """The promise is of an episode that is played."""
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    least = conrl.feasibility(mdp).least[0]
    plan = conrl.plan(mdp, conrl.Knapsack([0.5 * least * 100], 100))
    assert 0.0 < plan.skip < 1.0
    plan.save(tmp_path / "p.json")
    file = conrl.PolicyFile.load(tmp_path / "p.json")
    assert file.skip == plan.skip
    assert file.promise is not None
    np.testing.assert_allclose(file.promise.value, conrl.evaluate(mdp, plan.policy).value)
    rng = np.random.default_rng(0)
    skipped = sum(file.begin(rng) is None for _ in range(4000)) / 4000
    assert abs(skipped - plan.skip) < 0.03
    with pytest.raises(conrl.ModelError, match=r"of all episodes are to be skipped, which a policy alone does not say"):
        conrl.load_policy(tmp_path / "p.json")
    for name in ("p.csv", "p.npz"):  # played in every episode, it would spend more than the budget
        with pytest.raises(conrl.ModelError, match=r"of all episodes are skipped, which no table says; write \.json"):
            plan.save(tmp_path / name)
        words = ("plan", "mars-rover", "--set", "rock_reward=1", "--budget", f"crash={50 * least}", "--episodes", 100)
        assert "which no table says" in refused(*words, "--out", tmp_path / name)
    plan = conrl.plan(mdp, conrl.Knapsack([0.0], 100))
    assert plan.skip == 1.0
    plan.save(tmp_path / "q.json")
    file = conrl.PolicyFile.load(tmp_path / "q.json")
    assert file.promise is None
    assert file.begin(rng) is None
    with pytest.raises(conrl.SpecError, match="the plan skips every episode; there is nothing to play"):
        file.choices(0, mdp.state_names[0])


# -- what an episode can pay --------------------------------------------------------------------------------------


def totals(mdp: conrl.ConstrainedMDP, policy: conrl.Policy) -> Float:
    """All totals [n, 1+d] that have a positive probability, path by path."""
    P, rewards, costs = arrays_of(mdp)
    R, found = np.concatenate((rewards[..., None], costs), axis=3), []
    S, A = P.shape[:2]
    for start in np.flatnonzero(mdp.initial):
        ways: list[tuple[int, Float]] = [(int(start), np.zeros(R.shape[3]))]
        for h in range(mdp.horizon):
            ways = [
                (t, total + R[s, a, t])
                for s, total in ways
                for a, t in itertools.product(range(A), range(S))
                if policy.probabilities[h, s, a] > 0.0 and P[s, a, t] > 0.0
            ]
        found += [total for _, total in ways]
    return np.array(found)


def arrays_of(mdp: conrl.ConstrainedMDP) -> tuple[Float, Float, Float]:
    """Probabilities and rewards [S, A, S], and costs [S, A, S, d], by outcome."""
    S, A, d = mdp.num_states, mdp.num_actions, mdp.num_costs
    full = np.zeros((S, A, S, 1 + d))
    owner = np.repeat(np.arange(mdp.num_pairs), np.diff(mdp.graph.start).astype(np.int64))
    P = np.zeros((S, A, S))
    place = mdp.pair_state[owner], mdp.action[owner], mdp.graph.successor
    P[place], full[place] = mdp.graph.probability, mdp.pay_by_outcome
    return P, full[..., 0], full[..., 1:]


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 10**6))
def test_the_least_and_the_most_that_an_episode_pays(seed: int) -> None:
    plan = planned(seed)
    for policy in (plan.policy, *plan.mixture.policies):
        least, most = extremes(plan.mdp, policy)
        found = totals(plan.mdp, policy)
        np.testing.assert_allclose(least, found.min(axis=0), atol=1e-12)
        np.testing.assert_allclose(most, found.max(axis=0), atol=1e-12)


def test_the_extremes_of_a_policy_that_acts_on_what_was_spent() -> None:
    mdp = random_model(3)
    plan = conrl.plan(mdp, conrl.Linear(None, never={"c 0": 1.2}))
    least, most = extremes(mdp, plan.policy)
    found = conrl.distribution(mdp, plan, "c 0")
    assert most[1] == pytest.approx(found.most)
    assert least[1] == pytest.approx(found.totals[np.flatnonzero(found.probabilities > 0.0)[0]])
    assert most[1] <= 1.2 + 1e-9


def test_the_extremes_where_each_step_has_its_own_numbers() -> None:
    mdp = conrl.envs.pricing_hours()
    plan = conrl.plan(mdp)
    least, most = extremes(mdp, plan.policy)
    found = conrl.simulate(mdp, plan, 5000, seed=0)
    seen = np.column_stack((found.rewards, found.costs))
    assert (seen.min(axis=0) >= least - 1e-9).all()
    assert (seen.max(axis=0) <= most + 1e-9).all()


# -- the digest ---------------------------------------------------------------------------------------------------


def test_the_digest_tells_models_apart(tmp_path: Path) -> None:
    mdp = random_model(1)
    conrl.save_model(tmp_path / "m.npz", mdp)
    assert digest(conrl.load_model(tmp_path / "m.npz")) == digest(mdp)
    assert digest(mdp.replace(limits=[1.0, 1.0])) == digest(mdp)
    P, rewards, costs = arrays_of(mdp)
    names: dict[str, Any] = {
        "horizon": 4,
        "state_names": mdp.state_names,
        "action_names": mdp.action_names,
        "cost_names": mdp.cost_names,
    }
    other = P.copy()
    other[0, 0] = np.roll(other[0, 0], 1)
    found = [
        conrl.ConstrainedMDP(other, rewards, costs, **names),
        conrl.ConstrainedMDP(P, rewards + 1e-12, costs, **names),
        conrl.ConstrainedMDP(P, rewards, 2.0 * costs, **names),
        conrl.ConstrainedMDP(P, rewards, costs, **names | {"horizon": 5}),
        conrl.ConstrainedMDP(P, rewards, costs, initial=1, **names),
        conrl.ConstrainedMDP(P, rewards, costs, **names | {"state_names": ["a", "b", "c"]}),
        conrl.ConstrainedMDP(P, rewards, costs, **names | {"cost_names": ["x", "y"]}),
    ]
    assert len({digest(mdp), *map(digest, found)}) == 1 + len(found)


# -- anybody can read it ------------------------------------------------------------------------------------------


def drawn(command: list[str], folder: Path) -> str:
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=True)
    return done.stdout


MANY = """
const { policy, begin, act } = require("./act.js");
const found = {};
for (let i = 0; i < 3000; i++) { const a = act(begin(), 7, "worn"); found[a] = (found[a] || 0) + 1; }
console.log(JSON.stringify(found));
const all = policy.policies[0].steps.map((_, h) => policy.states.map((s) => act(begin(), h, s)));
console.log(JSON.stringify(all));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node, which CI installs")
@pytest.mark.parametrize("mixture", [False, True])
def test_javascript_reads_it(mixture: bool, tmp_path: Path) -> None:
    """The page's own program, asked three thousand times."""
    plan = _documented(tmp_path, mixture)
    (tmp_path / "many.js").write_text(MANY)
    counts, acts = map(json.loads, drawn(["node", "many.js"], tmp_path).splitlines())
    _compare(plan, counts, acts, mixture)


@pytest.mark.parametrize("mixture", [False, True])
def test_python_reads_it_without_conrl(mixture: bool, tmp_path: Path) -> None:
    plan = _documented(tmp_path, mixture)
    (tmp_path / "many.py").write_text(
        "import json, random\nfrom act import *\nrandom.seed(3)\n"
        "print(json.dumps([act(begin(), 7, 'worn') for _ in range(3000)]))\n"
        "print(json.dumps([[act(begin(), h, s) for s in policy['states']] for h in range(policy['horizon'])]))\n"
    )
    found, acts = map(json.loads, drawn([sys.executable, "-I", "-c", RUN], tmp_path).splitlines())
    _compare(plan, Counter(found), acts, mixture)


RUN = "import sys; sys.path.insert(0, '.'); sys.modules['conrl'] = None; exec(open('many.py').read())"


def _documented(folder: Path, mixture: bool) -> conrl.Plan:
    write_files(PAGE, folder)
    machine = conrl.load_model(folder / "machine.csv", horizon=12, initial="new")
    plan = conrl.plan(machine, {"failures": 0.4})
    plan.save(folder / "policy.json", mixture=mixture)
    return plan


def _compare(plan: conrl.Plan, counts: dict[str, int], acts: list[list[str]], mixture: bool) -> None:
    mdp, weights = plan.mdp, plan.weights
    worn = mdp.state_names.index("worn")
    rows = [part.probabilities[7, worn] for part in plan.mixture.policies]
    row = weights @ rows if mixture else plan.policy.probabilities[7, worn]
    assert 0.1 < row[0] < 0.9
    assert abs(counts[mdp.action_names[0]] / 3000 - row[0]) < 0.05  # five standard deviations
    for h, s in itertools.product(range(mdp.horizon), range(mdp.num_states)):
        a = mdp.action_names.index(acts[h][s])
        parts = plan.mixture.policies if mixture else (plan.policy,)
        if mdp.reached[h, s]:
            assert any(part.probabilities[h, s, a] > 0.0 for part in parts)


WRONG = [("99", "worn"), ("-1", "worn"), ("5", "nowhere")]


@pytest.mark.parametrize("program", ["act.py", "act.js"])
def test_the_programs_of_the_page_refuse_what_conrl_refuses(program: str, tmp_path: Path) -> None:
    """And read a file with a byte order mark, and say so if the episode is to be skipped."""
    if program == "act.js" and shutil.which("node") is None:
        pytest.skip("needs node, which CI installs")
    _documented(tmp_path, False)
    command = [sys.executable if program == "act.py" else "node", program]
    text = (tmp_path / "policy.json").read_text()
    (tmp_path / "policy.json").write_text("\ufeff" + text)
    assert drawn([*command, "5", "worn"], tmp_path) == "repair\n"
    assert drawn([*command, "0", "broken"], tmp_path) == "repair\n"  # what stands in
    for words in WRONG:
        assert subprocess.run([*command, *words], cwd=tmp_path, capture_output=True, timeout=120).returncode
    record = json.loads(text)
    (tmp_path / "policy.json").write_text(json.dumps(record | {"skip": 1.0}))
    assert drawn([*command, "5", "worn"], tmp_path) == "skip\n"
    del record["policies"][0]["otherwise"]
    (tmp_path / "policy.json").write_text(json.dumps(record))
    assert subprocess.run([*command, "0", "broken"], cwd=tmp_path, capture_output=True, timeout=120).returncode


SPENT_JS = """
const { policy, begin, nothingSpent, spend, actOn } = require("./act_spent.js");
const playing = policy.policies[0], out = [];
for (const [h, s, costs] of JSON.parse(process.argv[2])) {
  let spent = nothingSpent(playing), action = null;
  for (const cost of costs) spent = spend(playing, spent, cost);
  try { action = actOn(playing, h, s, spent); } catch (error) {}
  out.push(action);
}
console.log(JSON.stringify(out));
"""


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node, which CI installs")
@pytest.mark.parametrize("grid", [False, True])
def test_javascript_acts_on_what_was_spent(grid: bool, tmp_path: Path) -> None:
    """Just as conrl does, on two costs, with amounts that can come up and others."""
    write_files(PAGE, tmp_path)
    more: dict[str, Any] = {"grid": {"c 0": 0.15}} if grid else {}
    asked = conrl.Linear(None, never={"c 1": 1.8}, chance={"c 0": (1.3, 0.6)}, **more)
    conrl.plan(random_model(3), asked).save(tmp_path / "policy.json", mixture=True)
    file, generator = conrl.PolicyFile.load(tmp_path / "policy.json"), np.random.default_rng(4)
    questions: list[Any] = []
    answers: list[str | None] = []
    planned = 0
    for _ in range(300):
        h, state = int(generator.integers(4)), str(generator.choice(file.state_names))
        steps = int(generator.choice([h, h, h, 4]))
        costs = [{name: int(generator.integers(0, 7)) / 10 for name in file.cost_names} for _ in range(steps)]
        spent = file.nothing_spent()
        for cost in costs:
            spent = file.spend(spent, cost)
        questions.append([h, state, costs])
        try:
            answers += file.choices(h, state, 0, spent)
            planned += file.planned(h, state, 0, spent)
        except conrl.SpecError:
            answers.append(None)
    assert None in answers
    assert 20 < planned < 280
    (tmp_path / "many.js").write_text(SPENT_JS)
    assert json.loads(drawn(["node", "many.js", json.dumps(questions)], tmp_path)) == answers


ODD = [
    [0.163, 1.163, 0.9593880455018128, 1.9593880455018128, 1.0],
    [9.298391134418739e-10, 2.0, 4e-9, 3.0, 1.0],
    [0.6392079106004797, 1.0, 0.167, 2.0, 0.167, 3.0, 1.0],
    [0.4012, 0.7, 0.15342345795860957, 1.2, 0.0002],
    [0.8132702392002724, 0.1, 0.9127555772777217, 0.3, 0.1],
]


@pytest.mark.skipif(shutil.which("node") is None, reason="needs node, which CI installs")
@pytest.mark.parametrize("costs", ODD)
def test_javascript_counts_costs_of_full_precision(costs: list[float], tmp_path: Path) -> None:
    """With a unit near the last place of a total, or below it: at the threshold, waiting keeps the chance."""
    write_files(PAGE, tmp_path)
    (tmp_path / "many.js").write_text(SPENT_JS)
    mdp, steps = chain(costs), len(costs) // 2
    paths = list(itertools.product(*np.reshape(costs[:-1], (steps, 2)).tolist()))
    least = sum(min(paths, key=sum))
    for p, action in ((1.0 - 0.5**steps, "wait"), (1.0, "go")):
        conrl.plan(mdp, conrl.Linear(chance={"c": (least, p)})).save(tmp_path / "policy.json")
        questions = [[steps, str(steps), [{"c": cost} for cost in paid]] for paid in paths]
        found = json.loads(drawn(["node", "many.js", json.dumps(questions)], tmp_path))
        assert [a for a, paid in zip(found, paths, strict=True) if sum(paid) == least] == [action]
        assert [a for a, paid in zip(found, paths, strict=True) if sum(paid) != least] == ["go"] * (len(paths) - 1)


# -- where the model says that nobody can be ----------------------------------------------------------------------


def server(actions: tuple[str, str]) -> str:
    """A model of 24 hours."""
    rows = ["step,state,action,next_state,probability,reward,cost_money,cost_errors"]
    for h in range(24):
        for s in ("healthy", "degraded", "down"):
            pay, worse = {"healthy": (10, "degraded"), "degraded": (5, "down"), "down": (-20, "down")}[s]
            for a in actions:
                to = [("healthy", 0.8), (s, 0.2)] if a == "fix" else [(s, 0.7), (worse, 0.3)]
                for t, p in to if to[0][0] != to[1][0] else [(s, 1)]:
                    rows.append(f"{h},{s},{a},{t},{p},{pay},{0.5 if a == 'fix' else 0},{int(t == 'down')}")
    return "\n".join(rows) + "\n"


@pytest.mark.parametrize("actions", [("wait", "fix"), ("fix", "wait")])
def test_where_nobody_can_be_the_best_action_stands_in(actions: tuple[str, str], tmp_path: Path) -> None:
    """An outage at hour 0: whatever the order of the rows, and never without saying so."""
    (tmp_path / "m.csv").write_text(server(actions))
    mdp = conrl.load_model(tmp_path / "m.csv", initial="healthy")
    plan = conrl.plan(mdp, {"money": 3.0})
    path = tmp_path / "p.json"
    plan.save(path)
    file = conrl.PolicyFile.load(path)
    assert file.choices(0, "down") == file.choices(1, "down") == {"fix": 1.0}
    assert not file.planned(1, "down")
    assert file.planned(2, "down")
    found = record("act", path, "--step", 1, "--state", "down", "--json")
    assert (found["action"], found["planned"], found["id"]) == ("fix", False, file.id)
    assert ok("act", path, "--step", 1, "--state", "down") == "fix\n"
    (entry,) = json.loads(path.read_text())["policies"]
    down, fix = mdp.state_names.index("down"), mdp.action_names.index("fix")
    assert (entry["steps"][1][down], entry["otherwise"][1][down], entry["otherwise"][2][down]) == (None, fix, None)
    priced = conrl.load_model(tmp_path / "m.csv", initial="down").replace(limits=None)
    there = exact_oracle(priced).policy(
        np.append(1.0, -plan.cost_multipliers[0])
    )  # planned from there, at these prices
    assert there.mode[0, down] == fix
    again = conrl.load_policy(path, mdp)
    assert conrl.evaluate(mdp, again).reward == pytest.approx(plan.reward, abs=1e-6)
    assert all(s != "down" or h > 1 for h, s in zip(*[file._columns()[x] for x in ("step", "state")], strict=True))


def test_where_nobody_can_be_and_nothing_follows_nothing_is_said(tmp_path: Path) -> None:
    rows = [line for line in server(("wait", "fix")).splitlines() if not line.startswith(("0,degraded", "0,down"))]
    (tmp_path / "m.csv").write_text("\n".join(rows) + "\n")
    mdp = conrl.load_model(tmp_path / "m.csv", initial="healthy")
    path = tmp_path / "p.json"
    conrl.plan(mdp, {"money": 3.0}).save(path)
    file = conrl.PolicyFile.load(path)
    for ask in (file.choices, file.planned):
        with pytest.raises(conrl.SpecError, match="the model says that nobody is in 'down' at step 0, so that nothing"):
            ask(0, "down")
    assert file.choices(1, "down") == {"fix": 1.0}
    told = refused("act", path, "--step", 0, "--state", "down")
    assert told.startswith("--state: the model says that nobody is in 'down' at step 0")
    assert conrl.evaluate(mdp, conrl.load_policy(path, mdp)).costs[0] == pytest.approx(3.0)


def test_without_a_horizon_a_state_out_of_reach(tmp_path: Path) -> None:
    """With a discount, what is best there stands in; for totals, nothing is said."""
    P = np.zeros((3, 2, 3))
    P[:2, :, 1] = 1.0
    P[2, 0, 2] = P[2, 1, 0] = 1.0
    pay = np.array([[1.0, 0.0], [0.0, 0.0], [-1.0, -1.0]])
    for horizon in (conrl.Discounted(0.9), conrl.Total()):
        mdp = conrl.ConstrainedMDP(P, pay, np.zeros((3, 2, 1)), horizon=horizon, limits=[1.0])
        conrl.plan(mdp).save(tmp_path / "p.json")
        file = conrl.PolicyFile.load(tmp_path / "p.json")
        assert file.planned(7, "1")
        if isinstance(horizon, conrl.Total):
            with pytest.raises(conrl.SpecError, match="nobody is in '2', so that"):
                file.choices(7, "2")
        else:
            assert file.choices(7, "2") == {"1": 1.0}
            assert not file.planned(7, "2")
        assert conrl.load_policy(tmp_path / "p.json", mdp) is not None


@pytest.mark.parametrize("actions", [("wait", "fix"), ("fix", "wait")])
def test_amounts_that_cannot_be_at_a_step_are_not_taken_from_another(actions: tuple[str, str], tmp_path: Path) -> None:
    """The amounts exist at later steps; at this one the nearest that can be count. CSV has none of the others."""
    (tmp_path / "m.csv").write_text(server(actions))
    mdp = conrl.load_model(tmp_path / "m.csv", initial="healthy")
    plan = conrl.plan(mdp, conrl.Linear({"errors": 2.0}, never={"money": 3.0}))
    plan.save(tmp_path / "p.json")
    file, policy = conrl.PolicyFile.load(tmp_path / "p.json"), plan.policy
    assert isinstance(policy, conrl.SpentPolicy)
    assert policy.reached is not None
    for step, state, money in itertools.product(range(24), mdp.state_names, np.arange(0.0, 4.0, 0.5).tolist()):
        s = mdp.state_names.index(state)
        nodes = [i for i in range(len(policy.spent)) if policy.state[i] == s and policy.reached[step, i]]
        if not nodes:
            with pytest.raises(conrl.SpecError, match=f"nobody is in '{state}' at step {step}"):
                file.choices(step, state, spent={"money": money})
            continue
        units = min(round(money / 0.5), 7)
        node = min(nodes, key=lambda i: (abs(policy.spent[i][0] - units), -policy.spent[i][0]))
        row = policy.inner.probabilities[step, node]
        found = file.choices(step, state, spent={"money": money, "errors": 5})
        assert found == {mdp.action_names[a]: row[a] for a in np.flatnonzero(row)}
        assert file.planned(step, state, spent={"money": money}) == (policy.spent[node][0] == units)
    policy.save(tmp_path / "p.csv", mdp)
    for line in (tmp_path / "p.csv").read_text().splitlines()[1:]:
        cells = line.split(",")
        assert float(cells[2]) <= 0.5 * int(cells[0])


def test_any_cost_of_the_file_may_be_told(tmp_path: Path) -> None:
    (tmp_path / "m.csv").write_text(server(("wait", "fix")))
    mdp = conrl.load_model(tmp_path / "m.csv", initial="healthy")
    books: dict[str, float] = {"money": 1.1, "errors": 2}
    for number, asked in enumerate((conrl.Linear({"money": 3.0}), conrl.Linear(never={"money": 3.0}))):
        path = tmp_path / f"{number}.json"
        conrl.plan(mdp, asked).save(path)
        file = conrl.PolicyFile.load(path)
        assert file.counts == ("money",) * number
        assert file.nothing_spent() == ({"money": 0.0} if number else {})
        assert file.choices(5, "healthy", spent=books)
        words = "act", path, "--step", 5, "--state", "healthy", "--spent", "money=1.1", "--spent", "errors=2"
        assert ok(*words)
        assert record(*words)["planned"] is file.planned(5, "healthy", spent=books) is True
        with pytest.raises(conrl.SpecError, match="unknown cost 'mony'; did you mean 'money'"):
            file.choices(5, "healthy", spent={"mony": 1.0})
    spent = file.nothing_spent()
    for money in (0.5, 0.1, 0.0, 0.5000000001):  # of units of 0.5: 1, 1, 0, 1
        spent = file.spend(spent, {"money": money, "errors": 1})
    assert spent == {"money": 1.5}
    assert file.spend({"money": 3.0}, {"money": 5.0}) == {"money": 3.5}  # the cap
    assert file.choices(5, "healthy", spent={"money": 1.1}) == file.choices(5, "healthy", spent={"money": 1.5})
    wrongs: list[tuple[Callable[[], object], str]] = [
        (
            lambda: file.choices(5, "healthy", spent={"money": -0.5}),
            "-0.5 of 'money' is less than can have been spent, 0",
        ),
        (lambda: file.spend(spent, {"errors": 1}), "costs has no 'money'; the policy counts money"),
        (lambda: file.spend({}, {"money": 1}), "spent has no 'money'"),
        (lambda: file.spend(spent, {"mony": 1}), "unknown cost 'mony'"),
        (lambda: file.choices(5, "healthy", spent={"errors": 1}), "acts on the money spent so far; say how much"),
    ]
    for wrong, message in wrongs:
        with pytest.raises(conrl.SpecError, match=message):
            wrong()
    told = refused("act", path, "--step", 5, "--state", "healthy")
    assert told == "the policy acts on the money spent so far: say how much, such as --spent money=0"
    assert "conrl act reads .json; write it with conrl plan --out policy.json" in refused("act", "p.csv", "--begin")


def test_a_file_has_an_id(tmp_path: Path) -> None:
    """Of what it says; a file that somebody edits has another."""
    found = {}
    for mixture in (False, True):
        plan = planned(2)
        assert plan.weights.size > 1
        plan.save(tmp_path / "p.json", mixture=mixture)
        text = (tmp_path / "p.json").read_text()
        file = conrl.PolicyFile.load(tmp_path / "p.json")
        found[mixture] = file.id
        assert json.loads(text)["id"] == file.id
        assert "-0.0" not in text
        file.save(tmp_path / "q.json")
        assert (tmp_path / "q.json").read_text() == text
    assert found[False] != found[True]
    (tmp_path / "q.json").write_text(text.replace('"skip": 0.0', '"skip": 0.25').replace("conrl 0", "conrl 1"))
    assert conrl.PolicyFile.load(tmp_path / "q.json").id != found[True]
    (tmp_path / "q.json").write_text(text.replace("conrl 0", "conrl 1"))
    assert conrl.PolicyFile.load(tmp_path / "q.json").id == found[True]


# -- acting -------------------------------------------------------------------------------------------------------


def test_acting_by_name(tmp_path: Path) -> None:
    plan = _documented(tmp_path, False)
    file = conrl.PolicyFile.load(tmp_path / "policy.json")
    row = plan.policy.probabilities[7, 1]
    assert file.choices(7, "worn") == {"run": row[0], "repair": row[1]}
    rng = np.random.default_rng(0)
    found = Counter(file.act(7, "worn", rng) for _ in range(3000))
    assert abs(found["run"] / 3000 - row[0]) < 0.05
    for wrong, message in (
        ({"step": 12, "state": "worn"}, r"step is 12; the policy has steps 0\.\.11"),
        ({"step": -1, "state": "worn"}, "step is -1"),
        ({"step": 0.0, "state": "worn"}, "step is 0.0"),
        ({"step": 0, "state": "wron"}, "did you mean 'worn'"),
        ({"step": 0, "state": 1}, "unknown state 1"),
        ({"step": 0, "state": "worn", "component": 1}, r"policies 0\.\.0"),
        ({"step": 0, "state": "worn", "spent": 0}, "does not act on what was spent"),
        ({"step": 0, "state": "worn", "spent": {"failure": 0}}, "unknown cost 'failure'; did you mean 'failures'"),
    ):
        with pytest.raises(conrl.SpecError, match=message):
            file.choices(**wrong)


def test_acting_on_what_was_spent(tmp_path: Path) -> None:
    mdp = random_model(3)
    plan = conrl.plan(mdp, conrl.Linear(None, chance={"c 0": (0.7, 0.2)}))
    plan.save(tmp_path / "p.json")
    file, policy = conrl.PolicyFile.load(tmp_path / "p.json"), plan.policy
    for spent in (Fraction(0), Fraction(3, 10), Fraction(7, 10), Fraction(99)):
        for h, s in np.argwhere(mdp.reached).tolist():
            row = policy.at([spent]).probabilities[h, s]
            found = file.choices(h, mdp.state_names[s], spent={"c 0": float(spent)})
            assert found == {mdp.action_names[a]: p for a, p in enumerate(row) if p > 0.0}
    with pytest.raises(conrl.SpecError, match="acts on the c 0 spent so far"):
        file.choices(0, mdp.state_names[0])


def test_the_commands(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    _documented(tmp_path, True)
    assert ok("act", "policy.json", "--begin", "--seed", 1).strip() in ("0", "1")
    drawn = {record("act", "policy.json", "--begin", "--seed", seed)["component"] for seed in range(20)}
    assert drawn == {0, 1}
    told = refused("act", "policy.json", "--step", 1, "--state", "new")
    assert told == (
        "--component is missing: the file has policies 0..1; draw one at the start of each episode with --begin"
    )
    assert ok("act", "policy.json", "--step", 1, "--state", "new", "--component", 1) == "run\n"
    assert "--begin stands alone" in refused("act", "policy.json", "--begin", "--step", 1)
    assert "--state is missing" in refused("act", "policy.json", "--step", 1)
    assert "--step is missing" in refused("act", "policy.json", "--state", "new")
    assert "did you mean 'new'" in refused("act", "policy.json", "--step", 1, "--state", "nwe", "--component", 0)
    assert "no such file" in refused("act", "nothing.json", "--begin")
    _documented(tmp_path, False)
    found = record("act", "policy.json", "--step", 7, "--state", "worn", "--seed", 5)
    assert found == record("act", "policy.json", "--step", 7, "--state", "worn", "--seed", 5)
    actions = {ok("act", "policy.json", "--step", 7, "--state", "worn", "--seed", seed).strip() for seed in range(20)}
    assert actions == {"run", "repair"}


def test_plan_writes_json(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    told = ok("plan", "mars-rover", "--set", "rock_reward=1", "--out", "p.json")
    assert "wrote p.json (as one policy, drawn step by step)" in told
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    assert conrl.PolicyFile.load("p.json").made_for(mdp)
    assert not conrl.PolicyFile.load("p.json").made_for(mdp.replace(horizon=29))
    value = conrl.evaluate(mdp, conrl.load_policy("p.json"))
    assert value.reward == pytest.approx(conrl.plan(mdp).reward)


# -- tables -------------------------------------------------------------------------------------------------------


def test_a_table_with_names_needs_the_model(tmp_path: Path) -> None:
    plan = planned(11)
    mdp = plan.mdp
    plan.save(tmp_path / "p.csv")
    with pytest.raises(conrl.ModelError, match=r"its states have names .*; give mdp="):
        conrl.load_policy(tmp_path / "p.csv")
    same(conrl.load_policy(tmp_path / "p.csv", mdp), plan.policy)
    plan.policy.save(tmp_path / "n.csv")  # numbers
    same(conrl.load_policy(tmp_path / "n.csv"), plan.policy)
    with pytest.raises(conrl.ModelError, match="the model has horizon 7"):
        conrl.load_policy(tmp_path / "p.csv", mdp.replace(horizon=7))
    with pytest.raises(conrl.ModelError, match="unknown state of the policy"):
        conrl.load_policy(tmp_path / "n.csv", mdp)


def test_numbers_in_another_order_are_names(tmp_path: Path) -> None:
    """`2` is the first state of a model whose file begins with it; the table alone does not say so."""
    rows = [("2", "1", "0", 1.0), ("2", "0", "2", 0.0), ("0", "0", "1", 2.0), ("1", "1", "2", 10.0)]
    lines = [f"{s},{a},{t},1,{reward}" for s, a, t, reward in rows]
    (tmp_path / "m.csv").write_text("\n".join(["state,action,next_state,probability,reward", *lines]) + "\n")
    mdp = conrl.load_model(tmp_path / "m.csv", horizon=6)
    assert (mdp.state_names, mdp.action_names) == (("2", "0", "1"), ("1", "0"))
    plan = conrl.plan(mdp)
    plan.save(tmp_path / "p.csv")
    with pytest.raises(conrl.ModelError, match=r"states have names such as '2', not the numbers 0, 1, 2, ... in order"):
        conrl.load_policy(tmp_path / "p.csv")
    same(conrl.load_policy(tmp_path / "p.csv", mdp), plan.policy)
    (tmp_path / "a.csv").write_text("step,state,action,probability\n0,0,1,1\n0,1,0,1\n")
    with pytest.raises(conrl.ModelError, match=r"its actions have names such as '1', .*; give mdp="):
        conrl.load_policy(tmp_path / "a.csv")


def test_a_table_of_numbers_tells_all_actions(tmp_path: Path) -> None:
    """Also those that are never played, or not in the order of their numbers."""
    for policy in (conrl.Deterministic([[2, 1], [0, 2]], 4), conrl.Stationary(np.eye(4)[[2, 0]])):
        policy.save(tmp_path / "n.csv")
        again = conrl.load_policy(tmp_path / "n.csv")
        assert again.shape == policy.shape
        assert np.array_equal(again.probabilities, policy.probabilities)


def test_where_a_table_says_nothing(tmp_path: Path) -> None:
    """That is fine where nobody comes, and only there."""
    hours = conrl.envs.pricing_hours()
    plan = conrl.plan(hours)
    plan.save(tmp_path / "p.csv")
    again = conrl.load_policy(tmp_path / "p.csv", hours)
    np.testing.assert_allclose(conrl.evaluate(hours, again).value, conrl.evaluate(hours, plan.policy).value)
    lines = (tmp_path / "p.csv").read_text().splitlines()
    cut = [line for line in lines if not line.startswith("5,")]
    (tmp_path / "cut.csv").write_text("\n".join(cut) + "\n")
    with pytest.raises(conrl.ModelError, match=r"cut\.csv: it says nothing about step 5, state"):
        conrl.load_policy(tmp_path / "cut.csv", hours)
    (tmp_path / "n.csv").write_text("step,state,action,probability\n0,0,0,1\n0,1,1,1\n1,0,1,1\n")
    with pytest.raises(conrl.ModelError, match="nothing about step 1, state 1"):
        conrl.load_policy(tmp_path / "n.csv")


def test_names_in_another_order(tmp_path: Path) -> None:
    plan = planned(13)
    mdp = plan.mdp
    plan.save(tmp_path / "p.json")
    order, acts = np.array([2, 0, 1]), np.array([1, 0])
    P, rewards, costs = arrays_of(mdp)
    pick = np.ix_(order, acts, order)
    other = conrl.ConstrainedMDP(
        P[pick],
        rewards[pick],
        costs[pick],
        horizon=4,
        initial=int(np.flatnonzero(order == int(np.argmax(mdp.initial)))[0]),
        state_names=[mdp.state_names[i] for i in order],
        action_names=[mdp.action_names[a] for a in acts],
        cost_names=mdp.cost_names,
    )
    again = conrl.load_policy(tmp_path / "p.json", other)
    np.testing.assert_allclose(conrl.evaluate(other, again).value, conrl.evaluate(mdp, plan.policy).value)
    assert not conrl.PolicyFile.load(tmp_path / "p.json").made_for(other)
    with pytest.raises(conrl.ModelError, match="unknown state of the policy"):
        conrl.load_policy(tmp_path / "p.json", conrl.envs.box())


@pytest.mark.parametrize("suffix", ["json", "npz"])
def test_costs_that_are_counted_are_found_by_name(suffix: str, tmp_path: Path) -> None:
    mdp = random_model(3)
    plan = conrl.plan(mdp, conrl.Linear(None, never={"c 0": 1.2}))
    plan.save(tmp_path / f"p.{suffix}")
    P, rewards, costs = arrays_of(mdp)
    named: dict[str, Any] = {"horizon": 4, "state_names": mdp.state_names, "action_names": mdp.action_names}
    turned = conrl.ConstrainedMDP(P, rewards, costs[..., ::-1], cost_names=["c 1", "c 0"], **named)
    again = conrl.load_policy(tmp_path / f"p.{suffix}", turned)
    np.testing.assert_allclose(conrl.evaluate(turned, again).costs[::-1], plan.costs)
    assert conrl.distribution(turned, again, "c 0").exceed(1.2) == 0.0
    other = conrl.ConstrainedMDP(P, rewards, costs, cost_names=["x", "c 1"], **named)
    with pytest.raises(conrl.ModelError, match="unknown cost of the policy 'c 0'"):
        conrl.load_policy(tmp_path / f"p.{suffix}", other)


def test_what_was_spent_is_counted_as_the_policy_rounds_it(tmp_path: Path) -> None:
    """On a grid each step is rounded: a plain sum is another amount, and refused."""
    plan = conrl.plan(random_model(3), conrl.Linear(None, chance={"c 0": (1.3, 0.6)}, grid={"c 0": 0.15}))
    plan.save(tmp_path / "p.json")
    file = conrl.PolicyFile.load(tmp_path / "p.json")
    state = file.state_names[0]
    assert file.choices(1, state, spent={"c 0": 0.3})
    with pytest.raises(conrl.SpecError, match=r"0\.2 of 'c 0' is no multiple of 0\.15; .* each step up"):
        file.choices(1, state, spent={"c 0": 0.2})


# -- damaged files ------------------------------------------------------------------------------------------------


def put(record: Any, path: str, value: Any) -> Any:
    """The record with another value at a place, such as `policies.0.steps.1.0`."""
    record = json.loads(json.dumps(record))
    at, keys = record, [int(k) if k.isdecimal() else k for k in path.split(".")]
    for key in keys[:-1]:
        at = at[key]
    at[keys[-1]] = value
    return record


DAMAGE = [
    ("format", "conrl model", "its format is not 'conrl policy'"),
    ("version", 2, "it has version 2; this conrl reads version 1"),
    ("states", [], "no states"),
    ("states", ["a", "a", "b"], "states has a name twice"),
    ("states", "abc", "states is 'abc'"),
    ("states", ["a", "b"], r"policies\[0\]\.steps\[0\] is .*; expected a list of 2 entries"),
    ("actions", [1, 2], "actions is"),
    ("horizon", 11, "a policy has 12 steps, and the horizon is 11"),
    ("horizon", 0, "horizon is 0"),
    ("horizon", True, "horizon is True"),
    ("horizon", "average", "expected one list, for all steps"),
    ("horizon", {"discount": 2.0}, "discount is 2.0"),
    ("policies", [], "no policies"),
    ("policies.0.weight", 0.4, "sum to 1"),
    ("policies.0.weight", "1", "weights are"),
    ("policies.0.steps.3.1", 2, r"policies\[0\]\.steps\[3\]\[1\] is 2; expected a whole number of 0\.\.1"),
    ("policies.0.steps.3.1", -1, r"steps\[3\]\[1\] is -1"),
    ("policies.0.steps.3.1", True, r"steps\[3\]\[1\] is True"),
    ("policies.0.steps.3.1", 0.5, r"steps\[3\]\[1\] is 0.5"),
    ("policies.0.steps.7.1", [[0, 0.5], [1, 0.6]], r"steps\[7\]\[1\] has probabilities that sum to 1.1"),
    ("policies.0.steps.7.1", [[0, 0.5], [0, 0.5]], "has action 0 twice"),
    ("policies.0.steps.7.1", [[0, -0.5], [1, 1.5]], "a lottery is a list"),
    ("policies.0.steps.7.1", [0, 1], "a lottery is a list"),
    ("policies.0.steps.7.1", [], "sum to 0"),
    ("policies.0", 3, r"policies\[0\] is 3"),
    ("skip", 1.5, "skip is 1.5"),
    ("model", 7, "model is 7"),
    ("promise", [1], "promise is"),
    ("promise.least", [0.0], "promise has .*, which does not fit 1 costs"),
    ("promise.reward", None, "promise has .*, which does not fit"),
    ("promise.least", None, "promise has one of least and most"),
    ("limits", {"nothing": 1.0}, "unknown cost in limits 'nothing'"),
    ("floors", {"failures": "1"}, "floors is"),
]


@pytest.mark.parametrize(("place", "value", "message"), DAMAGE)
def test_what_makes_no_sense_is_refused(place: str, value: Any, message: str, tmp_path: Path) -> None:
    _documented(tmp_path, False)
    record = json.loads((tmp_path / "policy.json").read_text())
    (tmp_path / "bad.json").write_text(json.dumps(put(record, place, value)))
    with pytest.raises(conrl.ModelError, match=rf"bad\.json: not a policy file: .*{message}"):
        conrl.load_policy(tmp_path / "bad.json")


SPENT_DAMAGE = [
    ("spent.counts", [], "it has lists"),
    ("spent.counts.0.unit", "0", "expected a fraction above 0"),
    ("spent.counts.0.unit", "1/0", "expected a fraction above 0"),
    ("spent.counts.0.cost", 9, "expected a whole number of 0..1"),
    ("spent.counts.0.rounding", "sideways", "exact, up, down"),
    ("spent.counts.0.rounding", ["up"], "exact, up, down"),
    ("spent.counts.0.cap", 1.5, "cap is 1.5"),
    ("spent.combinations.0", [0], "expected a state and 1 whole numbers"),
    ("spent.combinations.1", None, "expected a state"),
    ("spent.otherwise", [[0]], "policies[0].steps[0][1] is None"),
    ("otherwise", [[0]], "belongs into policies[0].spent"),
    ("spent", 5, "it has lists"),
]


@pytest.mark.parametrize(("place", "value", "message"), SPENT_DAMAGE)
def test_what_counts_wrongly_is_refused(place: str, value: Any, message: str, tmp_path: Path) -> None:
    conrl.plan(random_model(3), conrl.Linear(None, chance={"c 0": (0.7, 0.2)})).save(tmp_path / "p.json")
    record = json.loads((tmp_path / "p.json").read_text())
    (tmp_path / "bad.json").write_text(json.dumps(put(record, f"policies.0.{place}", value)))
    with pytest.raises(conrl.ModelError, match=f"not a policy file: .*{re.escape(message)}"):
        conrl.load_policy(tmp_path / "bad.json")


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"format": NaN}', "[" * 10_000, "\x00", '{"format":"conrl policy"}']
)
def test_no_json_or_no_policy(text: str, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text(text)
    with pytest.raises(conrl.ModelError, match="not a policy file"):
        conrl.load_policy(tmp_path / "bad.json")


def test_a_file_that_is_too_large_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _documented(tmp_path, False)
    monkeypatch.setenv("CONRL_MAX_TABLE", "50")
    with pytest.raises(conrl.ModelError, match="12 x 3 entries, of 2 actions; at most 50 are read"):
        conrl.load_policy(tmp_path / "policy.json")


def test_what_cannot_be_written(tmp_path: Path) -> None:
    plan = planned(2)
    with pytest.raises(conrl.ModelError, match=r"are written as \.json"):
        plan.save(tmp_path / "p.csv", mixture=True)
    with pytest.raises(conrl.ModelError, match=r"a plan, and a PolicyFile, as \.json too"):
        plan.policy.save(tmp_path / "p.json")
    conrl.PolicyFile.named(plan.policy, plan.mdp).save(tmp_path / "p.json")
    assert conrl.PolicyFile.load(tmp_path / "p.json").promise is None
    with pytest.raises(conrl.ModelError, match="policy has shape"):
        conrl.PolicyFile.named(plan.policy, conrl.envs.box())


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"skip": ', '"skip": 0.9, "skip": ', "'skip' is there twice"),
        ('"skip": ', '"skipp": ', "unknown entry of the file 'skipp'; did you mean 'skip'?"),
        ('"limits": ', '"limit": ', "unknown entry of the file 'limit'; did you mean 'limits'?"),
        ('"least": ', '"leats": ', "unknown entry of promise 'leats'; did you mean 'least'?"),
        ('"weight": ', '"spnet": {}, "weight": ', "unknown entry of policies[0] 'spnet'; did you mean 'spent'?"),
        ('"version": 1,', '"version": true,', "it has version True; this conrl reads version 1"),
        ('"reward": ', '"reward": 1e9, "rewards": ', "unknown entry of promise 'rewards'; did you mean 'reward'?"),
    ],
)
def test_what_an_edited_file_says_twice_or_amiss_is_refused(old: str, new: str, message: str, tmp_path: Path) -> None:
    """It would be lost without a word, and something else done."""
    conrl.plan(random_model(5)).save(tmp_path / "p.json")
    text = (tmp_path / "p.json").read_text()
    assert old in text
    (tmp_path / "p.json").write_text(text.replace(old, new, 1))
    with pytest.raises(conrl.ModelError, match=re.escape(f"p.json: not a policy file: {message}")):
        conrl.PolicyFile.load(tmp_path / "p.json")


def test_a_promise_that_cannot_be_kept_and_an_action_that_is_there_twice_are_refused(tmp_path: Path) -> None:
    conrl.plan(random_model(5)).save(tmp_path / "p.json")
    record = json.loads((tmp_path / "p.json").read_text())
    promise = record["promise"]
    for changed in ({"reward": 1e9}, {"least": promise["most"], "most": promise["least"]}):
        (tmp_path / "q.json").write_text(json.dumps(record | {"promise": promise | changed}))
        with pytest.raises(conrl.ModelError, match=r"promise has .*, outside of least"):
            conrl.PolicyFile.load(tmp_path / "q.json")
    record["policies"][0]["steps"][0][0] = [[0, 0.0], [0, 1.0]]
    (tmp_path / "q.json").write_text(json.dumps(record))
    with pytest.raises(conrl.ModelError, match=r"policies\[0\].steps\[0\]\[0\] has action 0 twice"):
        conrl.PolicyFile.load(tmp_path / "q.json")
