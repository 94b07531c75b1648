"""The explorer: what its page holds against plans of its own, and the page itself in a browser."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from bank import CASES, still
from browsing import chromium, split_words, watched
from commands import ok, record, refused
from scipy.optimize import linprog

import conrl
from conrl.envs import box, make, mars_rover
from conrl.explorer import places, subject
from conrl.explorer.contents import contents
from conrl.explorer.making import Page
from conrl.explorer.places import UNIT
from conrl.explorer.survey import _breaks
from conrl.policy_map import absorbed
from conrl.problem import Linear

EVIL = "</script><img src=x onerror=alert(1)>"
LONG = "maintenance hours of the night shift"


def few(costs: int = 2, seed: int = 5, names: tuple[str, ...] | None = None) -> conrl.ConstrainedMDP:
    """A small model without a map."""
    mdp = make("random", states=8, horizon=5, costs=costs, seed=seed)
    if names is None:
        return mdp
    tables = mdp.transitions, mdp.rewards, mdp.costs
    states = [EVIL, *(f"state {i}" for i in range(1, 8))]
    return conrl.ConstrainedMDP(
        *tables, horizon=5, initial=mdp.initial, limits=mdp.limits, cost_names=names, state_names=states
    )


@cache
def page_of_few(costs: int) -> Page:
    """The page of a small model at its own limits; of three costs it takes some seconds to make."""
    return conrl.explore(few(costs), few(costs).limits)


def data_of(page: str) -> dict[str, Any]:
    match = re.search(r'<script type="application/json" id="data">(.*?)</script>', page, re.DOTALL)
    assert match is not None
    found: dict[str, Any] = json.loads(match[1])["explorer"]
    return found


# -- the two bounds, by another solver --------------------------------------------------------------------


def lower(data: dict[str, Any], h: Any) -> tuple[float, Any] | None:
    """The program of the page, by scipy."""
    kept = np.isfinite(h)
    uses = np.array(data["uses"])[:, kept].T
    n = len(data["rewards"])
    done = linprog(
        -np.array(data["rewards"]), uses if kept.any() else None, h[kept] if kept.any() else None,
        np.ones((1, n)), [1.0], method="highs",
    )  # fmt: skip
    return (-done.fun, done.x) if done.status == 0 else None


def upper(data: dict[str, Any], h: Any) -> float:
    cuts = np.array(data["cuts"])
    finite = np.isfinite(h)
    told = (cuts[:, 1:][:, ~finite] == 0.0).all(axis=1)
    return float((cuts[told, 0] + cuts[told][:, 1:][:, finite] @ h[finite]).min(initial=np.inf))


def walled(data: dict[str, Any], h: Any) -> bool:
    walls = np.array(data["walls"]).reshape(-1, 1 + h.size)
    return bool((walls[:, 1:] @ np.where(np.isfinite(h), h, 1e12) < walls[:, 0] - 1e-9).any())


def anywhere(data: dict[str, Any], generator: np.random.Generator) -> Any:
    low, high = (np.array([line[end] for line in data["lines"]]) for end in ("low", "high"))
    h = low + generator.random(low.size) * (high - low)
    return np.where(generator.random(low.size) < 0.15, np.inf, h)


@pytest.mark.parametrize("costs", [1, 2, 3])
def test_the_optimum_lies_between_the_bounds_at_any_limits(costs: int) -> None:
    mdp = few(costs)
    data = data_of(page_of_few(costs).html)
    generator, size = np.random.default_rng(costs), max(map(abs, data["rewards"]))
    feasible = 0
    for _ in range(25):
        h = anywhere(data, generator)
        mixed = lower(data, h)
        try:
            best = conrl.plan(mdp, h, planner="linear-program").reward
        except conrl.InfeasibleError:
            assert mixed is None or mixed[0] < np.inf  # a mixture may keep them within rounding
            continue
        assert not walled(data, h), "a wall where there is a plan"
        assert best <= upper(data, h) + 1e-7
        if mixed is not None:
            feasible += 1
            assert mixed[0] <= best + 1e-7
            assert best - mixed[0] <= (1e-5 if costs == 1 else 0.01 * size)
    assert feasible >= 10


def test_a_page_with_too_little_room_says_how_far_off_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    from conrl.explorer import contents as module

    mdp = mars_rover(rock_reward=1.0)
    assert conrl.explore(mdp).error == 0.0
    monkeypatch.setattr(module, "MOST_COLUMNS", 24)
    page = conrl.explore(mdp)
    data = data_of(page.html)
    assert page.error > 0.0
    generator = np.random.default_rng(4)
    worst = 0.0
    for _ in range(60):
        h = anywhere(data, generator)
        mixed = lower(data, h)
        assert mixed is not None
        best = conrl.plan(mdp, h).reward
        assert best <= upper(data, h) + 1e-9
        worst = max(worst, best - mixed[0])
    assert 1e-9 < worst <= page.error * 1.01


def test_limits_are_kept_or_proven_impossible_but_for_a_margin() -> None:
    """Anywhere in the range of the sliders, the bounds are near each other or a wall stands near by."""
    data = data_of(page_of_few(2).html)
    generator, size = np.random.default_rng(5), max(map(abs, data["rewards"]))
    span = np.array([line["high"] - line["low"] for line in data["lines"]])
    mixtures = 0
    for _ in range(1000):
        h = anywhere(data, generator)
        mixed = lower(data, h)
        if mixed is not None:
            mixtures += 1
            assert upper(data, h) - mixed[0] <= 5e-3 * size
        elif not walled(data, h):
            assert lower(data, h + 1e-3 * span) is not None
            assert walled(data, h - 1e-3 * span)
    assert 500 < mixtures < 1000


def test_a_full_page_drops_what_it_does_not_mix(monkeypatch: pytest.MonkeyPatch) -> None:
    from conrl.explorer import contents as module
    from conrl.explorer import survey

    monkeypatch.setattr(module, "MOST_COLUMNS", 60)
    errors = []
    for share in (0.95, 0.0):  # of columns that are in use, below which the others go; 0 for never
        monkeypatch.setattr(survey, "TIDY", share)
        page = conrl.explore(few(2))
        assert len(data_of(page.html)["rewards"]) == 60
        errors.append(page.error)
    assert errors[0] < 0.9 * errors[1]


def test_walls_are_proofs() -> None:
    mdp = few(3)
    data = data_of(page_of_few(3).html)
    generator = np.random.default_rng(3)
    found = 0
    for _ in range(400):
        h = anywhere(data, generator)
        if walled(data, h):
            assert lower(data, h) is None
            if found < 15:
                assert not conrl.feasibility(mdp, h).feasible
            found += 1
    assert found


def test_lines_turn_where_they_meet() -> None:
    generator = np.random.default_rng(0)
    for _ in range(50):
        heights, slopes = generator.random(6), np.abs(generator.normal(size=6))
        x = np.linspace(0.0, 2.0, 20_001)
        least = np.min(heights[:, None] + slopes[:, None] * x, axis=0)
        turns = x[1:-1][np.abs(np.diff(least, 2)) > 1e-9]
        inner = _breaks(heights, slopes, 0.0, 2.0)[1:-1]
        assert all(np.abs(turns - b).min() < 2e-4 for b in inner)
        assert all(np.abs(np.array(inner) - t).min() < 2e-4 for t in turns)


# -- where it opens ---------------------------------------------------------------------------------------


def test_it_opens_at_the_models_limits_if_they_bind() -> None:
    mdp = mars_rover(rock_reward=1.0)
    (line,) = data_of(conrl.explore(mdp).html)["lines"]
    assert (line["opening"], line["own"]) == (0.3, 0.3)
    (line,) = data_of(conrl.explore(mdp, [0.2]).html)["lines"]
    assert (line["opening"], line["own"]) == (0.2, 0.2)


@pytest.mark.parametrize("limit", [np.inf, 1000.0])
def test_else_at_one_that_binds(limit: float) -> None:
    mdp = mars_rover(rock_reward=1.0)
    page = conrl.explore(conrl.ConstrainedMDP(
        mdp.transitions, mdp.rewards, mdp.costs, horizon=mdp.horizon, initial=mdp.initial, limits=[limit],
        cost_names=["crash"],
    ))  # fmt: skip
    (line,) = data_of(page.html)["lines"]
    assert line["own"] == (None if limit == np.inf else limit)
    assert conrl.plan(mdp, [line["opening"]]).prices[0] > 0.0
    (given,) = data_of(conrl.explore(mdp, [1000.0]).html)["lines"]
    assert given["opening"] == 1000.0  # it was asked for


# -- what the columns do ----------------------------------------------------------------------------------


def mixed_rho(data: dict[str, Any], weights: Any, step: int, count: int) -> Any:
    width = len(data["actions"]) + 1
    table = np.zeros(count * width)
    for i in np.flatnonzero(weights > 1e-12):
        flat = data["places"]["visits"][i][step]
        table[np.cumsum(flat[::2])] += weights[i] * np.array(flat[1::2]) * UNIT
    return table.reshape(count, width)


@pytest.mark.parametrize("limit", [0.3, 0.02, 1.2])
def test_mixed_columns_are_the_plan(limit: float) -> None:
    mdp = mars_rover(rock_reward=1.0)
    data = contents(mdp, Linear([limit]))
    best = conrl.plan(mdp, [limit])
    found = lower(data, np.array([limit]))
    assert found is not None
    assert found[0] == pytest.approx(best.reward, abs=1e-8)
    exact = sum(w * p.occupation(mdp) for w, p in zip(best.mixture.weights, best.mixture.policies, strict=True))
    for step in (0, 9, 29):
        shown = mixed_rho(data, found[1], step, 64)
        np.testing.assert_allclose(shown.sum(axis=1), exact[step].sum(axis=1), atol=2e-4)
        live = shown[:, -1] == 0.0
        np.testing.assert_allclose(shown[live, :-1], exact[step][live], atol=2e-4)


def test_rare_states_are_counted() -> None:
    """A state that is visited with probability 3e-5 a step."""
    p = np.zeros((3, 2, 3))
    p[0, :, 0], p[0, :, 1], p[0, :, 2] = 1.0 - 1.3e-4, 1e-4, 3e-5
    p[1:, :, 0] = 1.0
    mdp = conrl.ConstrainedMDP(p, [[1, 2]] * 3, [[0, 1]] * 3, horizon=10, limits=[5.0])
    data = contents(mdp, Linear(mdp.limits))
    found = lower(data, np.array([5.0]))
    assert found is not None
    shown = sum(mixed_rho(data, found[1], step, 3).sum(axis=1) for step in range(10))
    exact = sum(conrl.plan(mdp).policy.occupation(mdp)).sum(axis=1)
    assert 2.6e-4 < exact[2] < 2.8e-4
    np.testing.assert_allclose(shown, exact, rtol=1e-3)


def test_a_state_that_pays_has_not_ended() -> None:
    """From the start one action leads to duty, which pays 1 and costs 2 a step, the other to an end."""
    p = np.zeros((3, 2, 3))
    p[0, 0, 1] = p[0, 1, 2] = p[1, :, 1] = p[2, :, 2] = 1.0
    mdp = conrl.ConstrainedMDP(p, [[0, 0], [1, 1], [0, 0]], [[0, 0], [2, 2], [0, 0]], horizon=5)
    assert absorbed(mdp, None).tolist() == [False, False, True]
    data = contents(mdp, Linear([4.0]))
    found = lower(data, np.array([4.0]))
    assert found is not None
    shown = mixed_rho(data, found[1], 4, 3)
    np.testing.assert_allclose(shown[1:, -1], [0.0, 0.5], atol=1e-3)  # of episodes that have ended there
    assert shown[1].sum() == pytest.approx(0.5, abs=1e-3)


def test_the_box_is_on_the_map() -> None:
    data = contents(box(), Linear(box().limits))
    assert data["places"]["map"]["second"]
    flat = data["places"]["second"][0][0]  # at step 0 it stands on X
    rows = data["places"]["map"]["rows"]
    assert rows[flat[0] // len(rows[0])][flat[0] % len(rows[0])] == "X"
    assert flat[1:] == [10_000]


def shares_above(totals: dict[str, Any], weights: Any, limit: float) -> float:
    p = np.zeros(len(totals["values"]))
    for i in np.flatnonzero(weights > 1e-12):
        flat = totals["shares"][i]
        p[np.cumsum(flat[::2])] += weights[i] * np.array(flat[1::2]) * 1e-7
    assert p.sum() == pytest.approx(1.0, abs=1e-4)
    return float(p[np.array(totals["values"]) > limit + 1e-9].sum())


@pytest.mark.parametrize("limit", [0.3, 1.0])
def test_totals_of_mixtures_are_exact(limit: float) -> None:
    mdp = mars_rover(rock_reward=1.0)
    data = contents(mdp, Linear([limit]))
    (totals,) = data["totals"]
    assert totals["exact"]
    found = lower(data, np.array([limit]))
    assert found is not None
    exact = conrl.distribution(mdp, conrl.plan(mdp, [limit]).mixture, "crash")
    for x in (0.0, limit, 1.5):
        assert shares_above(totals, found[1], x) == pytest.approx(exact.exceed(x), abs=1e-5)


def test_totals_that_are_too_many_are_simulated(monkeypatch: pytest.MonkeyPatch) -> None:
    from conrl.explorer import totals as module

    mdp = few(1)
    data = contents(mdp, Linear(mdp.limits))
    (totals,) = data["totals"]
    assert not totals["exact"]
    assert totals["episodes"] == module.EPISODES
    assert totals["means"]
    h = np.array([data["lines"][0]["opening"]])
    found = lower(data, h)
    assert found is not None
    best = conrl.plan(mdp)
    seen = conrl.simulate(mdp, best.mixture, 20_000).exceed()[0]
    assert shares_above(totals, found[1], h[0]) == pytest.approx(seen, abs=0.06)
    monkeypatch.setattr(module, "STEPS", 10)
    assert contents(mdp, Linear(mdp.limits))["totals"] == []


# -- single episodes, budgets, fleets, no horizon ---------------------------------------------------------


def at_opening(data: dict[str, Any]) -> float:
    h = np.array([np.inf if line["opening"] is None else line["opening"] for line in data["lines"]])
    found = lower(data, h)
    assert found is not None
    return found[0]


@pytest.mark.parametrize(
    "problem",
    [
        Linear([0.3], chance={"crash": (0, 0.1)}),
        Linear([0.3], never={"crash": 2}),
        Linear([0.3], cvar={"crash": (0.9, 0.5)}),
        Linear([0.3], chance={"crash": (0, 0.15)}, cvar={"crash": (0.8, 0.9)}),
        Linear([1.0], floors=[0.5]),
        Linear(per_step={"crash": 0.05}),
        conrl.Knapsack([100.0], 1000),
    ],
    ids=lambda p: str(p)[:60],
)
def test_it_opens_on_the_plan_of_any_problem(problem: Any) -> None:
    mdp = mars_rover(rock_reward=1.0)
    best = conrl.plan(mdp, problem)
    data = data_of(best.to_html())
    assert at_opening(data) == pytest.approx(best.reward, abs=1e-7)


def test_the_slider_of_a_chance_is_a_plan_with_another_one() -> None:
    mdp = mars_rover(rock_reward=1.0)
    data = contents(mdp, Linear([0.3], chance={"crash": (0, 0.1)}))
    assert [line["kind"] for line in data["lines"]] == ["limit", "chance"]
    for share in (0.03, 0.2):
        found = lower(data, np.array([0.25, share]))
        assert found is not None
        best = conrl.plan(mdp, Linear([0.25], chance={"crash": (0, share)})).reward
        assert best - 2e-3 <= found[0] <= best + 1e-8
        assert best <= upper(data, np.array([0.25, share])) + 1e-8


def test_a_cvar_stays_kept_where_limits_move() -> None:
    mdp = mars_rover(rock_reward=1.0)
    data = contents(mdp, Linear([0.3], cvar={"crash": (0.9, 0.5)}))
    assert [line["kind"] for line in data["lines"]] == ["limit", "fixed"]
    assert "quantile held at" in " ".join(data["facts"])


def test_a_fleet_shows_what_each_type_gets() -> None:
    models = [make("random", states=6, horizon=5, costs=2, seed=seed) for seed in (1, 2)]
    fleet = conrl.Fleet([(models[0], 25), (models[1], 40)], limits=[150.0, 190.0])
    best = conrl.plan(fleet)
    data = data_of(best.to_html())
    assert at_opening(data) == pytest.approx(best.reward, rel=1e-8)
    types = data["types"]
    assert types["units"] == [40, 25]  # the largest first
    for i, reward in enumerate(data["rewards"]):
        value = np.array(types["values"][i]).sum(axis=0)
        np.testing.assert_allclose(value, [reward, *data["uses"][i]], rtol=1e-6)
    page = conrl.explore(fleet, types=["press", "lathe"])
    assert data_of(page.html)["types"]["names"] == ["lathe", "press"]
    with pytest.raises(conrl.SpecError, match="a name for each type"):
        conrl.explore(fleet, types=["press"])


def test_without_a_horizon_there_are_no_steps() -> None:
    mdp = few(2).replace(horizon=conrl.Discounted(0.8))
    mdp = mdp.replace(limits=conrl.plan(mdp, [np.inf, np.inf]).costs * 0.9)
    data = contents(mdp, Linear(mdp.limits))
    assert data["steps"] is None
    assert data["totals"] == []
    assert at_opening(data) == pytest.approx(conrl.plan(mdp).reward, abs=1e-7)
    visits = data["places"]["visits"][0][0]
    assert sum(visits[1::2]) * UNIT == pytest.approx(5.0, abs=0.01)  # 1 / (1 - 0.8)


P = np.array([[[0.5, 0.5], [1.0, 0.0]], [[0.0, 1.0], [0.3, 0.7]]])
R = np.array([[1.0, 0.0], [2.0, -1.0]])
T = np.array([[[0.5, 0.3, 0.2], [0, 0.5, 0.5]], [[0, 0, 1], [0.3, 0.3, 0.4]], [[0, 0, 1], [0, 0, 1]]])
ODD = {
    "negative costs": lambda: conrl.ConstrainedMDP(P, R, [[-1, 2], [3, -4]], horizon=4, limits=[0.0]),
    "one amount": lambda: conrl.ConstrainedMDP(P, R, [[1, 1], [1, 1]], horizon=4, limits=[4.0]),
    "nothing": lambda: conrl.ConstrainedMDP(P, R, [[0, 0], [0, 0]], horizon=4, limits=[0.0]),
    "no reward": lambda: conrl.ConstrainedMDP(P, 0 * R, [[1, 0], [2, 1]], horizon=4, limits=[2.0]),
    "tight": lambda: conrl.ConstrainedMDP(P, R, [[1, 0], [2, 1]], horizon=4, limits=[0.0]),
    "one step": lambda: conrl.ConstrainedMDP(P, R, [[1, 0], [2, 1]], horizon=1, limits=[0.5]),
    "large": lambda: conrl.ConstrainedMDP(P, R, [[1e9, 0], [2e9, 1e9]], horizon=4, limits=[3e9]),
    "small": lambda: conrl.ConstrainedMDP(P, 1e-9 * R, [[1e-9, 0], [2e-9, 1e-9]], horizon=4, limits=[3e-9]),
    "average": lambda: conrl.ConstrainedMDP(P, R, [[1, 0], [2, 1]], horizon=conrl.Average(), limits=[0.8]),
    "total": lambda: conrl.ConstrainedMDP(
        T, [[1, 0], [2, 3], [0, 0]], [[1, 0], [0, 2], [0, 0]], horizon=conrl.Total(), limits=[1.0]
    ),
    "steps": lambda: make("pricing-hours"),
}


@pytest.mark.parametrize("name", ODD)
def test_odd_models(name: str) -> None:
    mdp = ODD[name]()
    data = data_of(conrl.plan(mdp).to_html())
    best = conrl.plan(mdp).reward
    assert at_opening(data) == pytest.approx(best, rel=1e-7, abs=1e-7 * max(abs(x) for x in data["rewards"]))
    low, high = data["lines"][0]["low"], data["lines"][0]["high"]
    assert walled(data, np.array([low - 1e-3 * (high - low or 1.0)]))


# -- the call ---------------------------------------------------------------------------------------------


def test_results_write_themselves(tmp_path: Path) -> None:
    mdp = mars_rover(rock_reward=1.0)
    best = conrl.plan(mdp)
    text = best.to_html(tmp_path / "plan.html")
    assert (tmp_path / "plan.html").read_text() == text
    curve = conrl.frontier(mdp)
    (line,) = data_of(curve.to_html(tmp_path / "curve.html"))["lines"]
    assert line["opening"] == pytest.approx(0.5 * (curve.limits[0] + curve.limits[-1]))
    assert len(text) < 2e6
    same = conrl.explore(mdp)
    assert same.html == conrl.explore(mdp).html
    assert "crash" in repr(same)
    (tmp_path / "plan.html").unlink()
    one = data_of(conrl.plan(mdp, deterministic=True).to_html())
    assert "one deterministic policy" in " ".join(one["facts"])


def test_what_cannot_be_explored_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    mdp = mars_rover(rock_reward=1.0)
    refusals: list[tuple[tuple[Any, ...], str]] = [
        ((3,), "takes a model, a fleet, a plan or a frontier"),
        ((mdp.with_bonus(np.full((mdp.num_states, mdp.num_actions), 0.1)),), "carries a bonus"),
        ((mdp, conrl.ConcaveConvex(lambda x: x)), "no limits to move"),
        ((conrl.plan(mdp), [0.1]), "limits of its own"),
        ((few(17),), "at most 16"),
    ]
    for given, words in refusals:
        with pytest.raises(conrl.SpecError, match=words):
            conrl.explore(*given)
    with pytest.raises(conrl.SpecError, match="title is 3"):
        conrl.explore(mdp, title=3)  # type: ignore[arg-type]
    with pytest.raises(conrl.InfeasibleError, match="crash <= 0 cannot be kept"):
        conrl.explore(mdp, [0.0])
    bare = conrl.ConstrainedMDP(mdp.transitions, mdp.rewards, np.zeros((64, 4, 0)), horizon=3)
    with pytest.raises(conrl.SpecError, match="no costs"):
        conrl.explore(bare)
    monkeypatch.setattr(subject, "MOST_WORK", 10)
    with pytest.raises(conrl.SpecError, match="too large to explore"):
        conrl.explore(mdp)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    words = ("mars-rover", "--set", "rock_reward=1")
    told = ok("explore", *words)
    told = told.removeprefix("mars-rover: 64 states, 4 actions, 30 steps, from r0c0\n")
    assert re.fullmatch(r"wrote explore.html, [\d,]+ kB: 1 slider \(crash\), exact where it was tried\n", told)
    found = record("explore", *words, "--chance", "crash>0:0.1", "--out", "page.html")
    assert found["sliders"] == ["crash", "P(crash > 0)"]
    assert data_of(Path("page.html").read_text())["lines"][1]["opening"] == 0.1
    assert "did you mean 'crash'" in refused("explore", *words, "--limit", "crsh=1")
    assert "cannot be kept" in refused("explore", *words, "--limit", "crash=0", code=3)
    assert "must end in one of .html" in refused("explore", *words, "--out", "page.png")
    assert "there is no directory" in refused("explore", *words, "--out", "no/page.html")


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two hundred episodes in which anything may be done."""
    mdp = few(1)
    habit = conrl.Policy([mdp.available / mdp.available.sum(axis=1, keepdims=True)] * 5)
    path = tmp_path_factory.mktemp("logs") / "log.csv"
    conrl.save_episodes(path, conrl.sample_log(mdp, habit, episodes=200, seed=1))
    return path


def test_the_command_takes_a_log(log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (name,) = few(1).cost_names
    words = ("--log", str(log), "--limit", f"{name}=2")
    assert record("explore", *words)["sliders"] == [name]
    data = data_of(Path("explore.html").read_text())
    best = conrl.plan(conrl.estimate(conrl.load_episodes(log), unvisited="missing"), {name: 2.0})
    found = lower(data, np.array([2.0]))
    assert found is not None
    assert found[0] == pytest.approx(best.reward, abs=1e-8)
    assert "Estimated from 1,000 logged steps" in data["facts"][0]
    assert best.estimated is not None
    rests = found[1] @ np.array(data["basis"]["columns"])
    assert rests[1:] / rests[0] == pytest.approx([best.estimated.seldom, best.estimated.unseen], abs=1e-5)
    table = log.read_text().replace("state,", "ward,", 1)
    Path("other.csv").write_text(table)
    assert "give a MODEL" in refused("explore", code=2)
    assert "not both" in refused("explore", "box", "--log", str(log), code=2)
    assert "--column goes with --log" in refused("explore", "box", "--column", "state=ward")
    assert "--ignore goes with --log" in refused("explore", "box", "--ignore", "note")
    ok("explore", "--log", "other.csv", "--column", "state=ward", "--limit", f"{name}=2")
    assert data_of(Path("explore.html").read_text())["rewards"] == data["rewards"]


# -- in a browser -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with chromium() as started:
        yield started


SET = """places => places.map((values) => {
  document.querySelectorAll(".dial input[type=number]").forEach((field, i) => {
    field.value = values[i];
    field.dispatchEvent(new Event("change"));
  });
  const summary = document.querySelector(".summary");
  return { ...summary.dataset, said: summary.textContent };
})"""


def limits_set(tab: Any, places: Any) -> list[dict[str, Any]]:
    """Put numbers into the fields of the page, place by place, and read what it says; all in one call, to be quick."""
    texts = [["" if np.isinf(value) else repr(float(value)) for value in place] for place in places]
    return [
        {key: text if key == "said" else json.loads(text) for key, text in found.items()}
        for found in tab.evaluate(SET, texts)
    ]


@pytest.mark.parametrize(("costs", "count"), [(1, 12), (3, 30)])
def test_the_page_solves_what_conrl_plans(browser: Any, tmp_path: Path, costs: int, count: int) -> None:
    mdp, page = few(costs), page_of_few(costs)
    page.save(tmp_path / "page.html")
    data = data_of(page.html)
    generator = np.random.default_rng(7)
    solved = refused_by_both = 0
    tried = [anywhere(data, generator) for _ in range(count)]
    with watched(browser, tmp_path / "page.html") as tab:
        said = limits_set(tab, tried)
    for h, shown in zip(tried, said, strict=True):
        mixed = lower(data, h)
        if mixed is None:
            assert shown["said"].startswith("No policy")
            refused_by_both += 1
            continue
        solved += 1
        best = conrl.plan(mdp, h)
        assert shown["reward"] == pytest.approx(mixed[0], abs=1e-8)
        assert shown["reward"] <= best.reward + 1e-8
        assert best.reward <= shown["reward"] + shown["more"] + 1e-8
        assert shown["more"] == pytest.approx(max(upper(data, h) - mixed[0], 0.0), abs=1e-7)
        assert (np.array(shown["uses"]) <= h + 1e-8).all()
        if shown["more"] < 1e-7:
            np.testing.assert_allclose(shown["prices"], best.prices, atol=2e-3 * (1 + best.prices.max()))
    assert solved >= 5
    assert costs == 1 or refused_by_both


SOLVE = """cases => cases.map(({ data, h }) => {
  const found = new Program(data).solve(h.map((x) => (x === null ? Infinity : x)));
  if (found === null) return null;
  const over = found.uses.map((u, r) => (h[r] === null ? -1e9 : u - h[r]));
  return [found.reward, found.weights.length, Math.max(...over)];
})"""


def test_the_program_solves_degenerate_ones(browser: Any, tmp_path: Path) -> None:
    """Small whole numbers, so that ties are everywhere: against HiGHS."""
    generator = np.random.default_rng(11)
    cases: list[dict[str, Any]] = []
    for _ in range(600):
        n, rows = int(generator.integers(1, 12)), int(generator.integers(1, 6))
        uses = generator.integers(-2, 3, size=(n, rows)).astype(float)
        if rows > 1 and generator.random() < 0.5:
            uses[:, 1] = -uses[:, 0]
        h = generator.integers(-2, 3, size=rows) / generator.integers(1, 3)
        if rows > 1 and generator.random() < 0.5:
            h[1] = -h[0]  # an equation, where the second row is the first one turned around
        data = {"rewards": generator.integers(-3, 4, size=n).tolist(), "uses": uses.tolist(), "cuts": [], "walls": []}
        bounds = [None if generator.random() < 0.1 else float(x) for x in h]
        cases.append({"data": {**data, "lines": [{}] * rows}, "h": bounds})
    page_of_few(1).save(tmp_path / "page.html")
    with watched(browser, tmp_path / "page.html") as tab:
        answers = tab.evaluate(SOLVE, cases)
    solved = 0
    for case, answer in zip(cases, answers, strict=True):
        known = lower(case["data"], np.array([np.inf if x is None else x for x in case["h"]], dtype=float))
        assert (known is None) == (answer is None), case
        if known is not None:
            reward, parts, over = answer
            assert reward == pytest.approx(known[0], abs=1e-9), case
            assert parts <= 1 + len(case["h"])
            assert over <= 1e-9
            solved += 1
    assert 100 < solved < 590


JUDGE = """places => places.map((h) => {
  const program = new Program(DATA.explorer);
  const found = program.solve(h);
  const prices = program.prices(h, found.duals);
  return { ...found, prices, exact: program.exact(found.reward, Math.max(program.upper(h) - found.reward, 0)) };
})"""


@pytest.mark.parametrize(
    ("penalty", "offset", "unit"), [(-1e3, 0, 1), (-1e7, 0, 1), (-1, 1000, 0.01), (-1, -1000, 0.01)]
)
def test_exact_is_not_judged_by_penalties_or_offsets(
    browser: Any, tmp_path: Path, penalty: float, offset: float, unit: float
) -> None:
    """One action costs nothing and is penalized, or all rewards have a large part in common."""
    generator = np.random.default_rng(0)
    p = generator.dirichlet(np.full(4, 0.5), size=(4, 4))
    r, c = generator.random((4, 4)), 0.2 + 0.8 * generator.random((4, 4, 1))
    r[:, 0], c[:, 0] = penalty, 0.0
    mdp = conrl.ConstrainedMDP(p, offset + unit * r, c, horizon=5)
    free = conrl.plan(mdp, [np.inf])
    page = conrl.explore(mdp, 0.9 * free.costs)
    page.save(tmp_path / "page.html")
    assert page.error == 0.0
    limits = np.linspace(0.5, 0.99, 15) * free.costs[0]
    with watched(browser, tmp_path / "page.html") as tab:
        shown = tab.evaluate(JUDGE, limits[:, None].tolist())
    for limit, found in zip(limits, shown, strict=True):
        best = conrl.plan(mdp, [limit])
        assert found["exact"]
        assert best.reward - found["reward"] <= 2e-5 * (free.reward - best.reward)
        if offset == 0:  # where it is not, a plan has no more digits of the price
            assert found["prices"][0] == pytest.approx(best.prices[0], rel=1e-4)


def test_prices_at_corners_are_what_a_little_more_gains(browser: Any, tmp_path: Path) -> None:
    """Rewards 0, 3, 5 and 5.5 at costs 0 to 3, and a second cost that does not matter until it is near 0."""
    mdp = still([0.0, 3.0, 5.0, 5.5], [[0, 0], [1, 1], [2, 1], [3, 1]], 1)
    conrl.explore(mdp, [2.0, 1.0]).save(tmp_path / "page.html")
    with watched(browser, tmp_path / "page.html") as tab:
        shown = tab.evaluate(JUDGE, [[h, 1.0] for h in (0.0, 0.5, 1.0, 2.0, 2.5, 3.0)])
    for found, price in zip(shown, (3.0, 3.0, 2.0, 0.5, 0.5, 0.0), strict=True):
        assert found["prices"] == pytest.approx([price, 0.0], abs=1e-6)


OPEN = """data => {
  const section = document.createElement("section");
  document.body.replaceChildren(section);
  new Explorer(section, data);
  return { ...section.querySelector(".summary").dataset };
}"""


def test_the_page_has_the_answers_of_the_bank(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tight limits, floors that are limits, units of all sizes: the page's own program against closed forms."""
    from conrl.explorer import contents as module
    from conrl.explorer import survey

    monkeypatch.setattr(survey, "SPREAD", 20)  # it is about where the page opens, which is planned first
    monkeypatch.setattr(module, "MOST_COLUMNS", 40)
    page_of_few(1).save(tmp_path / "page.html")
    tried = 0
    with watched(browser, tmp_path / "page.html") as tab:
        for case in CASES.values():
            if not case.feasible or case.mdp.bonus is not None or case.mdp.num_costs == 0:
                continue
            best = conrl.plan(case.mdp, case.problem)
            data = data_of(conrl.explore(case.mdp, case.problem).html)
            shown = tab.evaluate(OPEN, data)
            size = abs(best.reward) + abs(case.best)
            assert float(shown["reward"]) == pytest.approx(case.best, rel=1e-6, abs=1e-7 * size + 1e-12), case.name
            assert float(shown["more"]) <= 1e-6 * size + 1e-9, case.name
            uses = json.loads(shown["uses"])
            rows = case.problem.rows(case.mdp)
            for cost, sign, bound in zip(rows.cost, rows.sign, rows.bound, strict=True):
                used = [x for line, x in zip(data["lines"], uses, strict=True)
                        if line["name"] == case.mdp.cost_names[cost] and line["sign"] == sign]  # fmt: skip
                assert used[0] <= bound + 1e-7 * max(abs(bound), max(map(abs, uses))), case.name
            tried += 1
    assert tried > 40


def test_the_page_of_a_log_says_what_it_rests_on(browser: Any, log: Path, tmp_path: Path) -> None:
    best = conrl.plan(conrl.estimate(conrl.load_episodes(log)), [2.0])
    best.to_html(tmp_path / "page.html")
    with watched(browser, tmp_path / "page.html") as tab:
        assert tab.locator(".rests").inner_text() == f"This policy is {best.estimated}."


@pytest.fixture(scope="module")
def hard(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many costs, with names that are long, or not kind."""
    names = (LONG, EVIL, "averyveryverylongnamewithoutanyspacesinit", "customer complaints about late delivery",
             "carbon dioxide equivalents", "fuel")  # fmt: skip
    path = tmp_path_factory.mktemp("pages") / "hard.html"
    conrl.explore(few(6, names=names), title=f"Title {EVIL}").save(path)
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
def test_long_names_fit_every_screen(browser: Any, hard: Path, width: int, scheme: str) -> None:
    with watched(browser, hard, width, scheme) as tab:
        assert tab.title() == f"Title {EVIL}"
        assert tab.locator("img").count() == 0
        assert tab.evaluate("document.documentElement.scrollWidth") == width
        assert split_words(tab) == []
        assert tab.locator(".dial").count() == 6
        light = tab.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
        assert light == (scheme == "light")
        assert EVIL in tab.locator(".dial h4").all_text_contents()
        assert "other states" in tab.locator(".flow").text_content() or tab.locator(".flow .node").count() > 4


def test_nothing_else_runs(hard: Path) -> None:
    text = hard.read_text()
    assert EVIL not in text
    assert "default-src 'none'; script-src 'sha256-" in text
    assert not re.search(r"\beval\b|new Function|innerHTML|https?://(?!www.w3.org/2000/svg)", text)


def test_sliders_act_together_by_keyboard(browser: Any, hard: Path) -> None:
    with watched(browser, hard) as tab:
        sliders = tab.locator(".limit-slider")
        said = {tab.locator(".summary").text_content()}
        for i in (0, 1):
            slider = sliders.nth(i)
            before = slider.get_attribute("aria-valuetext")
            slider.focus()
            for _ in range(6):
                tab.keyboard.press("ArrowRight")
            assert slider.get_attribute("aria-valuetext") != before
            said.add(tab.locator(".summary").text_content())
        tab.keyboard.press("End")
        assert sliders.nth(1).get_attribute("aria-valuetext") == "none"
        tab.get_by_role("button", name="No limits").click()
        assert {s.get_attribute("aria-valuetext") for s in sliders.all()} == {"none"}
        free = tab.locator(".summary strong").text_content()
        tab.get_by_role("button", name="Back to the start").click()
        assert tab.locator(".summary strong").text_content() != free
        sliders.first.fill("0")
        assert "No policy keeps" in tab.locator(".summary").text_content()
        assert tab.locator(".explorer.impossible").count() == 1
        tab.get_by_label("Upward").select_option(label="limit on fuel")
        tab.get_by_label("Across").select_option(label="limit on fuel")  # turns the picture
        assert tab.get_by_label("Upward").input_value() != tab.get_by_label("Across").input_value()


def test_pictures_are_pressed(browser: Any, tmp_path: Path) -> None:
    page_of_few(2).save(tmp_path / "page.html")
    with watched(browser, tmp_path / "page.html") as tab:
        fields = tab.locator(".dial input[type=number]")
        before = [field.input_value() for field in fields.all()]
        tab.locator(".heat").scroll_into_view_if_needed()
        where = tab.locator(".heat").bounding_box()
        tab.mouse.click(where["x"] + 0.8 * where["width"], where["y"] + 0.3 * where["height"])
        after = [field.input_value() for field in fields.all()]
        assert all(float(a) > float(b) for a, b in zip(after, before, strict=True))
        assert tab.locator(".totals .bar").count() > 5
        tab.locator(".step-slider").fill("2")
        assert "Step 2 of 0 to 4" in tab.locator(".explorer").inner_text()


def test_a_fleet_and_a_map_in_a_browser(browser: Any, tmp_path: Path) -> None:
    models = [make("random", states=6, horizon=5, costs=2, seed=seed) for seed in (1, 2)]
    fleet = conrl.Fleet([(models[0], 25), (models[1], 40)], limits=[150.0, 190.0])
    conrl.explore(fleet, types=["press", "lathe"]).save(tmp_path / "fleet.html")
    with watched(browser, tmp_path / "fleet.html", 390) as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
        assert "lathe" in tab.locator("table").first.inner_text()
        assert f"{conrl.plan(fleet).reward:.5g}" in tab.locator(".summary").text_content().replace(",", "")
    mdp = mars_rover(rock_reward=1.0)
    best = conrl.plan(mdp)
    best.to_html(tmp_path / "rover.html")
    with watched(browser, tmp_path / "rover.html", 390, "dark") as tab:
        assert tab.evaluate("document.documentElement.scrollWidth") == 390
        assert f"{best.reward:.5g}" in tab.locator(".summary").text_content()
        assert f"Price {best.prices[0]:.4g}".rstrip("0") in tab.locator(".dial").inner_text()
        pictures = set()
        for position in ("20", "300", "1000"):
            tab.locator(".limit-slider").fill(position)
            pictures.add(tab.locator("svg.map[role=img]").inner_html())
        assert len(pictures) == 3
        assert "No limit" in tab.locator(".dial").inner_text()


def test_a_quantile_that_is_held_is_said(browser: Any, tmp_path: Path) -> None:
    """What is best, or impossible, with the quantile of a CVaR held is not called so for all policies."""
    generator = np.random.default_rng(11)
    p = generator.dirichlet(np.full(4, 0.4), size=(4, 3))
    r = generator.random((4, 3)) * generator.choice([0, 1, 1], (4, 3))
    c = np.round(3.0 * generator.random((4, 3, 2)) * generator.choice([0, 1], (4, 3, 2)))
    mdp = conrl.ConstrainedMDP(p, r, c, horizon=5, initial=0, cost_names=["fuel", "wear"])
    page = conrl.explore(mdp, Linear(None, {"wear": 0.5}, cvar={"wear": (0.8, 6)}))
    page.save(tmp_path / "page.html")
    assert "E max(" not in json.dumps(data_of(page.html))
    floors = np.linspace(0.5, 6.0, 12)
    best = []
    for floor in floors:
        try:
            best.append(conrl.plan(mdp, Linear(None, {"wear": floor}, cvar={"wear": (0.8, 6)})).reward)
        except conrl.InfeasibleError:
            best.append(-np.inf)
    with watched(browser, tmp_path / "page.html") as tab:
        said = limits_set(tab, [(np.inf, np.inf, floor) for floor in floors])
        caption = tab.locator(".curve ~ figcaption").last.inner_text()
    held = [found for found in said if "the quantile of wear held at " in found["said"]]
    for found, reward in zip(said, best, strict=True):
        if found not in held:  # it is a claim about all policies
            assert found["reward"] == pytest.approx(reward, abs=1e-4) if "reward" in found else reward == -np.inf
    wrong = [found for found, reward in zip(said, best, strict=True) if found.get("reward", -np.inf) < reward - 1e-3]
    assert any("reward" in found for found in wrong)
    assert any("no policy keeps" in found["said"] and "CVaR 0.8 of wear" in found["said"] for found in wrong)
    assert len(held) < len(said)
    assert caption == "Shaded: no policy with this quantile keeps all limits."


def test_the_curve_of_a_floor_has_the_worst_reward_below(browser: Any, tmp_path: Path) -> None:
    """The reward falls with a floor; and where nothing along a limit can be kept, the picture says so."""
    mdp = few(2)
    names = list(mdp.cost_names)
    used = conrl.plan(mdp, [np.inf, np.inf]).costs[0]
    conrl.explore(mdp, Linear(None, {names[0]: 1.05 * used})).save(tmp_path / "page.html")
    with watched(browser, tmp_path / "page.html") as tab:
        labels = tab.locator(".curve text[x='56']").evaluate_all(
            "texts => texts.map((text) => [text.getAttribute('y'), text.textContent])"
        )
        (low, worst), (high, best) = ((float(y), float(text)) for y, text in labels)
        assert worst < best
        assert low > high + 100.0  # down is positive
        limits_set(tab, [(np.inf, -1.0, used)])
        assert tab.locator(".curve .blocked").count() == 1
        assert tab.locator(".curve ~ figcaption").last.inner_text() == "Shaded: no policy keeps all limits."


def test_numbers_of_a_short_range_are_told_apart(browser: Any, tmp_path: Path) -> None:
    mdp = few(1)
    pay = (1000.0 + 0.01 * mdp.rewards, 1000.0 + 0.01 * mdp.costs)
    near = conrl.ConstrainedMDP(mdp.transitions, *pay, horizon=5, initial=mdp.initial)
    middle = 0.5 * (near.horizon * 1000.0 + conrl.plan(near, [np.inf]).costs)
    conrl.explore(near, middle).save(tmp_path / "page.html")
    with watched(browser, tmp_path / "page.html", 390) as tab:
        labels = tab.locator(".curve text[text-anchor]:not(.own)").all_text_contents()
        ends = [text for text in labels if text != "as asked"]
        assert len(ends) == len(set(ends)) == 4
        shown = tab.locator(".curve text").evaluate_all("texts => texts.map((t) => t.getBBox().x)")
        assert min(shown) >= 0.0
        before = tab.locator(".summary strong").inner_text()
        tab.locator(".limit-slider").press("ArrowRight")
        tab.locator(".limit-slider").press("ArrowRight")
        assert tab.locator(".summary strong").inner_text() != before


BESIDE = """() => {
  const svg = document.querySelector(".flow");
  const columns = [...svg.querySelectorAll("rect")].map((bar) => bar.x.baseVal.value).sort((a, b) => a - b);
  const end = svg.viewBox.baseVal.width;
  return [...svg.querySelectorAll("text:not(.when)")].map((text) => {
    const box = text.getBBox();
    const next = columns.find((x) => x > box.x) || end;
    return next - (box.x + box.width);
  });
}"""


@pytest.mark.parametrize("width", [390, 1200])
def test_texts_of_the_diagram_stay_in_their_column(browser: Any, tmp_path: Path, width: int) -> None:
    mdp = few(1)
    wide = conrl.ConstrainedMDP(
        mdp.transitions, mdp.rewards, mdp.costs, horizon=5, initial=mdp.initial, limits=mdp.limits,
        state_names=[f"MMMWWW WWWMMM WWWWW{i}" if i % 2 else f"state_with_a_long_name_{i}" for i in range(8)],
        action_names=[f"{'W' * 30}{i}" for i in range(mdp.num_actions)],
    )  # fmt: skip
    conrl.explore(wide).save(tmp_path / "page.html")
    with watched(browser, tmp_path / "page.html", width) as tab:
        room = tab.evaluate(BESIDE)
        assert len(room) > 10
        assert min(room) >= 0.0
        assert all(len(text) > 4 for text in tab.locator(".flow .place").all_text_contents())


def test_what_is_seldom_or_not_listed_is_said(browser: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Visits that are too few to be counted; places that a page has no room for; shares below 0."""
    p = np.zeros((2, 2, 2))
    p[0, :, 0], p[0, :, 1], p[1, :, 0] = 1.0 - 4.4e-10, 4.4e-10, 1.0
    rare = conrl.ConstrainedMDP(p, [[1, 2]] * 2, [[0, 1]] * 2, horizon=2, limits=[1.0])
    conrl.explore(rare).save(tmp_path / "page.html")
    with watched(browser, tmp_path / "page.html") as tab:
        assert tab.locator("tbody").first.locator("tr").nth(1).locator("td").first.inner_text() == "<1e-8"
        shares = tab.evaluate("[-0.11, -0.012, -1e-6, 1e-6, 0.11].map(percent)")
        assert shares == ["-11%", "-1.2%", ">-0.01%", "<0.01%", "11%"]
    monkeypatch.setattr(places, "MOST_LISTED", 3)
    conrl.explore(few(1)).save(tmp_path / "page.html")
    with watched(browser, tmp_path / "page.html") as tab:
        tab.locator(".step-slider").fill("3")
        table = tab.locator("table", has_text="Probability")
        shown = [float(text.rstrip("%")) for text in table.locator("tbody td:nth-child(2)").all_text_contents()]
        words = tab.locator("p.soft", has_text="not listed").inner_text()
        assert len(shown) < 8
        other = re.match(r"The other (\d+)% is in places that are not listed\.", words)
        assert other is not None
        assert float(other[1]) == pytest.approx(100.0 - sum(shown), abs=1.5)
        gray = tab.locator(".flow .node.others").last.evaluate("bar => bar.height.baseVal.value")
        named = tab.locator(".flow .node:not(.others)").evaluate_all(
            "bars => bars.filter((b) => b.x.baseVal.value > 465).map((b) => b.height.baseVal.value)"
        )
        assert gray + sum(named) == pytest.approx(150.0, abs=0.5)  # probability 1


def test_one_is_singular() -> None:
    mdp = conrl.ConstrainedMDP(np.ones((1, 2, 1)), [[1, 0]], [[1, 0]], horizon=1, limits=[0.5])
    assert data_of(conrl.explore(mdp).html)["facts"][0] == "1 state, 2 actions, 1 step an episode, from state 0."


def test_what_is_typed_and_what_cannot_be_kept(browser: Any, tmp_path: Path) -> None:
    """Text that is no number changes nothing; at impossible limits, nothing below the summary does."""
    conrl.explore(conrl.envs.mars_rover(rock_reward=1.0)).save(tmp_path / "page.html")
    with watched(browser, tmp_path / "page.html") as tab:
        field, summary = tab.locator(".dial input[type=number]"), tab.locator(".summary")
        before = summary.inner_text()
        tails = tab.locator("text=of episodes are above the limit").inner_text()
        field.focus()
        tab.keyboard.press("Control+A")
        tab.keyboard.type("1e")
        tab.keyboard.press("Tab")
        assert summary.inner_text() == before
        assert field.input_value() == "0.3"
        field.fill("-1")
        tab.keyboard.press("Tab")
        assert "No policy keeps this limit: crash." in summary.inner_text()
        assert tab.locator("text=of episodes are above the limit").inner_text() == tails
        assert summary.evaluate("summary => Object.keys(summary.dataset)") == []


def test_the_slider_of_a_chance_that_is_exceeded_from_the_start() -> None:
    mdp = conrl.ConstrainedMDP([[[1.0], [1.0]]], [[1, 2]], [[0, 1]], horizon=3, cost_names=["use"])
    data = contents(mdp, Linear([1.0], chance={"use": (-1, 1.0)}))
    line = data["lines"][1]
    assert (line["name"], line["own"] + line["begins"]) == ("P(use > -1)", 1.0)


def costly(costs: int, steps: int, seed: int = 0) -> conrl.ConstrainedMDP:
    """One state, whose actions cost amounts that hardly ever add up to the same."""
    generator = np.random.default_rng(seed)
    pay = generator.integers(1, 1000, (1, 6, costs)) / 100.0
    names = [f"cost number {i}" for i in range(costs)]
    rewards = np.sqrt(pay[:, :, 0])
    return conrl.ConstrainedMDP(np.ones((1, 6, 1)), rewards, pay, horizon=steps, cost_names=names)


def test_few_totals_are_not_rounded() -> None:
    pay = np.array([[1.01], [2.37], [3.59]])
    mdp = conrl.ConstrainedMDP(np.full((3, 1, 3), 1 / 3), pay, pay, horizon=24)
    data = contents(mdp, Linear([100.0]))
    (totals,) = data["totals"]
    assert len(totals["values"]) > 200
    assert (totals["exact"], totals["width"]) == (True, 0.0)


def test_what_is_rounded_is_not_called_exact(tmp_path: Path, browser: Any) -> None:
    page = conrl.explore(costly(1, 3), [12.0])
    page.save(tmp_path / "page.html")
    assert "The distributions are exact." in text_of(browser, tmp_path / "page.html")
    rounded = page.html.replace('"width":0.0', '"width":1.1')
    assert rounded != page.html
    (tmp_path / "page.html").write_text(rounded)
    text = text_of(browser, tmp_path / "page.html")
    assert "are exact." not in text
    assert "Totals are rounded up by at most 1.1." in text


def text_of(browser: Any, path: Path) -> str:
    with watched(browser, path) as tab:
        return str(tab.inner_text("main"))


def test_the_policies_that_are_mixed_fit_a_page(tmp_path: Path, browser: Any) -> None:
    conrl.explore(costly(4, 3), [12.0, 12.0, 12.0, 12.0]).save(tmp_path / "page.html")
    with watched(browser, tmp_path / "page.html", 1300) as tab:
        wide = tab.evaluate("[...document.querySelectorAll('.scroll')].map((box) => box.scrollWidth - box.clientWidth)")
    assert max(wide) <= 0
