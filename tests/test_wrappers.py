"""Wrappers that make Gymnasium environments fit: numbered spaces, vectors of rewards, cells of observations."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st

import conrl
from conrl.envs.numbering import Numbering
from conrl.errors import ModelError, RunError, SpecError
from conrl.running import GymnasiumWorld


class Still(gymnasium.Env[Any, Any]):
    """Shows points of its space in turn, and remembers what it was asked to do."""

    def __init__(self, observation: Any, action: Any, shown: Any = None, reward: Any = 0.0) -> None:
        self.observation_space, self.action_space = observation, action
        self.shown = itertools.cycle(shown) if shown is not None else None
        self.reward, self.done = reward, []  # type: tuple[Any, list[Any]]

    def _next(self) -> Any:
        return self.observation_space.sample() if self.shown is None else next(self.shown)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return self._next(), {}

    def step(self, action: Any) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        self.done.append(action)
        return self._next(), self.reward, False, False, {"old": 1}


# -- numbering --------------------------------------------------------------------------------------------------

NESTED = spaces.Dict(
    {
        "where": spaces.Tuple((spaces.Discrete(3, start=-1), spaces.Box(-1, 1, (2,), np.int8))),
        "has": spaces.MultiBinary(2),
        "much": spaces.MultiDiscrete(np.array([[2, 1], [1, 3]]), start=np.array([[0, 5], [2, 7]])),
    }
)


def points(space: Any) -> Iterator[Any]:
    """All points of a space, by products of the points of its parts."""
    if isinstance(space, spaces.Discrete):
        yield from (np.int64(x) for x in range(int(space.start), int(space.start + space.n)))
    elif isinstance(space, spaces.Tuple):
        yield from itertools.product(*map(points, space.spaces))
    elif isinstance(space, spaces.Dict):
        for values in itertools.product(*map(points, space.spaces.values())):
            yield dict(zip(space.spaces, values, strict=True))
    else:
        if isinstance(space, spaces.Box):
            ranges = [range(int(a), int(b) + 1) for a, b in zip(space.low.flat, space.high.flat, strict=True)]
        elif isinstance(space, spaces.MultiBinary):
            ranges = [range(2)] * int(np.prod(space.shape))
        else:
            ranges = [range(int(a), int(a + n)) for a, n in zip(space.start.flat, space.nvec.flat, strict=True)]
        for values in itertools.product(*ranges):
            yield np.array(values, dtype=space.dtype).reshape(space.shape)


def same(x: Any, y: Any) -> bool:
    if isinstance(x, dict):
        return x.keys() == y.keys() and all(same(x[key], y[key]) for key in x)
    if isinstance(x, tuple):
        return len(x) == len(y) and all(map(same, x, y))
    return np.array_equal(x, y) and np.asarray(x).dtype == np.asarray(y).dtype


@pytest.mark.parametrize(
    "space",
    [
        NESTED,
        spaces.Discrete(4),
        spaces.Discrete(4, start=3),
        spaces.Box(np.array([0, 5], dtype=np.uint8), np.array([2, 8], dtype=np.uint8), dtype=np.uint8),
        spaces.Box(0, 1, (2, 2), np.int64),
        spaces.Tuple(()),
        spaces.MultiBinary([2, 2]),
    ],
    ids=str,
)
def test_numbers_are_those_of_the_order_of_all_points(space: Any) -> None:
    """A bijection, by listing: the last part runs fastest."""
    numbering = Numbering(space)
    listed = list(points(space))
    assert numbering.size == len(listed)
    for number, point in enumerate(listed):
        assert numbering.number(point) == number
        back = numbering.decode(number)
        assert same(back, point), (back, point)
        assert space.contains(back)


def test_an_environment_is_numbered_both_ways() -> None:
    inner = Still(NESTED, spaces.MultiDiscrete([2, 3]), shown=points(NESTED))
    env = conrl.envs.Numbered(inner)
    assert (env.observation_space, env.action_space) == (spaces.Discrete(3 * 9 * 4 * 6), spaces.Discrete(6))
    assert env.reset(seed=3) == (0, {})
    seen = [env.step(action)[0] for action in range(6)]
    assert seen == [1, 2, 3, 4, 5, 6]
    assert [tuple(action) for action in inner.done] == list(itertools.product(range(2), range(3)))
    assert tuple(env.decode_action(5)) == (1, 2)
    assert env.number(env.decode(17)) == 17
    task = conrl.Task.from_gymnasium(env, horizon=4)
    assert (task.num_states, task.num_actions) == (648, 6)


def test_actions_are_numbered_both_ways() -> None:
    class Several(gymnasium.Env[Any, Any]):
        observation_space = spaces.Discrete(2)
        action_space = spaces.MultiDiscrete([2, 3])

    env = conrl.envs.Numbered(Several())
    assert [env.number_action(env.decode_action(a)) for a in range(6)] == list(range(6))
    with pytest.raises(conrl.SpecError, match=r"the action .* is not in the environment's space"):
        env.number_action(np.array([2, 0]))


def test_what_cannot_be_numbered() -> None:
    few = spaces.Discrete(2)
    for observation, action, words in (
        (spaces.Box(0.0, 1.0, (2,)), few, "the observation space is Box(0.0, 1.0, (2,), float32), which has no whole "
         "numbers: use conrl.discretize(env, bins=10)"),
        (few, spaces.Box(0.0, 1.0, (2,)), "the action space is Box(0.0, 1.0, (2,), float32), which has no"),
        (spaces.Dict({"a": few, "b": spaces.Tuple((few, spaces.Text(3)))}), few, "observation space['b'][1] is Text"),
        (spaces.Dict({"x": spaces.Discrete(1000), "y": spaces.Box(0, 99, (2, 2), np.int64)}), few,
         "the observation space has 100,000,000,000 states (x: 1000, y[0]: 100, y[1]: 100, y[2]: 100, y[3]: 100); at "
         "most 100,000,000 are supported: leave parts out with a wrapper, or cut them into fewer cells with "
         "conrl.discretize(env, bins=...)"),
        (spaces.Box(0, 255, (64, 64, 3), np.uint8), few, "the observation space has too many states ([0]: 256, "),
        (spaces.Box(-(2**63), 2**63 - 1, (1,), np.int64), few, "the observation space has about 1e19 states"),
    ):  # fmt: skip
        with pytest.raises(ModelError, match=re.escape(words)):
            conrl.envs.Numbered(Still(observation, action))
    with pytest.raises(SpecError, match="Numbered needs a Gymnasium environment, not int"):
        conrl.envs.Numbered(3)  # type: ignore[arg-type]
    env = conrl.envs.Numbered(Still(few, few, shown=[2]))
    with pytest.raises(RunError, match="gave the observation 2, which is not in its space"):
        env.reset()
    for wrong in (2, -1, 0.5, None):
        with pytest.raises(SpecError, match=r"action .* is not in 0\.\.1"):
            env.step(wrong)
    with pytest.raises(SpecError, match=r"observation 2 is not in 0\.\.1"):
        env.decode(2)


def test_refusals_name_the_wrapper_that_helps() -> None:
    few = spaces.Discrete(2)
    for observation, action, words in (
        (NESTED, few, "conrl.envs.Numbered(env) numbers what it observes and takes"),
        (few, spaces.MultiDiscrete([2, 2]), "conrl.envs.Numbered(env) numbers what it observes and takes"),
        (spaces.Box(0, 1, (2,), np.int64), few, "conrl.envs.Numbered(env) numbers"),
        (spaces.Box(0.0, 1.0, (2,)), few, "conrl.discretize(env, bins=10) cuts it into cells"),
        (few, spaces.Box(0.0, 1.0, (2,)), "choose some actions, and number them with a gymnasium.ActionWrapper"),
    ):
        with pytest.raises(ModelError, match=re.escape(words)):
            conrl.Task.from_gymnasium(Still(observation, action), horizon=3)


# Blackjack by hand: an infinite deck of 1 (ace), 2, .., 9 and four kinds of 10.
CARDS = {card: Fraction(4 if card == 10 else 1, 13) for card in range(1, 11)}


def added(total: int, ace: bool, card: int) -> tuple[int, bool]:
    """A hand's total, one of its aces as 11 if that fits: as the player sees it."""
    hard = total - 10 * ace + card
    soft = (ace or card == 1) and hard + 10 <= 21
    return hard + 10 * soft, soft


@cache
def dealt(total: int, ace: bool) -> dict[int, Fraction]:
    """Where a dealer ends who draws to 17; 0 for a bust."""
    if total > 21:
        return {0: Fraction(1)}
    if total >= 17:
        return {total: Fraction(1)}
    ends: dict[int, Fraction] = {}
    for card, p in CARDS.items():
        for end, q in dealt(*added(total, ace, card)).items():
            ends[end] = ends.get(end, Fraction(0)) + p * q
    return ends


@cache
def played(total: int, ace: bool, dealer: int, sticks_at: int) -> tuple[Fraction, Fraction]:
    """Expected reward and probability of a bust of a player who sticks from a total on."""
    if total >= sticks_at:
        ends = dealt(*added(0, False, dealer))
        signs = [(p, (total > end) - (total < end)) for end, p in ends.items()]
        return sum((p * sign for p, sign in signs), Fraction(0)), Fraction(0)
    reward = bust = Fraction(0)
    for card, p in CARDS.items():
        new, soft = added(total, ace, card)
        r, b = (Fraction(-1), Fraction(1)) if new > 21 else played(new, soft, dealer, sticks_at)
        reward, bust = reward + p * r, bust + p * b
    return reward, bust


def test_blackjack_agrees_with_a_table_computed_by_hand() -> None:
    """Numbered, a fixed policy earns and busts as exact arithmetic over an infinite deck says."""
    sticks_at, episodes = 17, 6000
    exact = np.zeros(2)
    for (a, p), (b, q), (dealer, r) in itertools.product(CARDS.items(), repeat=3):
        hand = added(*added(0, False, a), b)
        exact += [float(p * q * r * x) for x in played(*hand, dealer, sticks_at)]
    env = conrl.envs.Numbered(gymnasium.make("Blackjack-v1"))
    task = conrl.Task.from_gymnasium(env, horizon=12, limits={"bust": 1.0}, reward_range=(-1.0, 1.0))
    totals = [int(env.decode(s)[0]) for s in range(task.num_states)]
    table = np.array([[0 if total >= sticks_at else 1 for total in totals]] * 12)
    world = GymnasiumWorld(env, task, cost=lambda s, a, t, r, over: float(totals[t] > 21))
    generator = np.random.default_rng(0)
    episodes_played = [world.play(conrl.Deterministic(table, 2), generator) for _ in range(episodes)]
    seen = np.array([[e.rewards.sum(), e.costs.sum()] for e in episodes_played])
    error = 4.0 * seen.std(axis=0) / np.sqrt(episodes)
    assert (np.abs(seen.mean(axis=0) - exact) < error).all(), (seen.mean(axis=0), exact)
    assert exact[0] == pytest.approx(-0.08, abs=0.01)  # what sticking at 17 is known to lose


# -- vectors of rewards --------------------------------------------------------------------------------------------


class Dive(gymnasium.Env[Any, Any]):
    """A small sea: go right (a step costs 1) or down for the treasure of the column, which ends it."""

    TREASURE = (1.0, 4.0, 9.0)

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 2, (1,), np.int64)
        self.action_space = spaces.Discrete(2)
        self.reward_space = spaces.Box(np.array([0.0, -1.0, 0.0]), np.array([9.0, -1.0, np.inf]), dtype=np.float64)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.column = 0
        return np.array([0]), {}

    def step(self, action: int) -> tuple[Any, Any, bool, bool, dict[str, Any]]:
        down = bool(action == 1)
        treasure = self.TREASURE[self.column] if down else 0.0
        self.column = min(self.column + (not down), 2)
        return np.array([self.column]), np.array([treasure, -1.0, 2.0]), down, False, {"old": 1}


def test_components_become_reward_and_costs() -> None:
    env = conrl.envs.MultiObjective(Dive(), reward=0, costs={"time": 1, "victims": 2}, signs={"victims": 1})
    assert env.cost_names == ("time", "victims")
    assert env.pay_ranges.tolist() == [[0.0, 9.0], [1.0, 1.0], [0.0, np.inf]]
    _, info = env.reset(seed=0)
    assert (info["cost"], info["costs"].tolist()) == (0.0, [0.0, 0.0])
    env.step(0)
    _, reward, terminated, truncated, info = env.step(1)
    assert (reward, terminated, truncated) == (4.0, True, False)
    assert (info["cost"], info["costs"].tolist(), info["old"]) == (3.0, [1.0, 2.0], 1)
    swapped = conrl.envs.MultiObjective(Dive(), reward=1, costs={"treasure": 0})
    swapped.reset()
    _, reward, _, _, info = swapped.step(1)
    assert (reward, info["costs"].tolist()) == (-1.0, [-1.0])


def test_learning_trades_one_component_for_another() -> None:
    """Within 2 steps on average: treasure 4 in two, or 9 and 1 mixed in three and one, which is worth 5."""
    env = conrl.envs.Numbered(conrl.envs.MultiObjective(Dive(), costs={"time": 1}))
    task = conrl.Task.from_gymnasium(env, horizon=4, limits={"time": 2.0})
    assert (task.reward_range, task.cost_ranges) == ((0.0, 9.0), ((1.0, 1.0),))
    history = conrl.learn(env, conrl.ConRL(task, seed=0), 150, seed=0)
    assert history.rewards[-100:].mean() == pytest.approx(5.0, abs=0.8)
    assert history.costs[-100:].mean() == pytest.approx(2.0, abs=0.25)


def test_what_a_vector_of_rewards_needs() -> None:
    def complaint(env: Any, *arguments: Any, **more: Any) -> str:
        with pytest.raises(SpecError) as caught:
            conrl.envs.MultiObjective(env, *arguments, **more)
        return str(caught.value)

    assert "no vector of rewards: env.unwrapped.reward_space is None" in complaint(gymnasium.make("Blackjack-v1"))
    assert complaint(Dive(), 3) == "reward is 3; the components of the reward are 0..2"
    assert complaint(Dive(), 0, {"time": -1}) == "costs['time'] is -1; the components of the reward are 0..2"
    assert complaint(Dive(), 0, {"time": 1}, {"tim": 1}) == "unknown cost 'tim'; did you mean 'time'?"
    assert complaint(Dive(), 0, {"time": 1}, {"time": 2}) == "signs['time'] is 2; it must be 1 or -1"
    assert "mappings by the name of a cost" in complaint(Dive(), 0, [1])
    assert "needs a Gymnasium environment" in complaint(3)
    broken = Still(spaces.Discrete(2), spaces.Discrete(2), reward=1.0)
    broken.reward_space = spaces.Box(0.0, 1.0, (2,))  # type: ignore[attr-defined]
    with pytest.raises(RunError, match=r"gave the reward 1\.0; expected 2 numbers"):
        conrl.envs.MultiObjective(broken).step(0)
    env = conrl.envs.Numbered(Dive())
    task = conrl.Task.from_gymnasium(env, horizon=3)
    with pytest.raises(RunError, match=r"which is not a number; wrap it in conrl\.envs\.MultiObjective"):
        conrl.learn(env, conrl.ConRL(task), 1)


def replayed(env: Any, path: tuple[int, ...]) -> tuple[int, float, float, bool]:
    """Where actions lead from the start, what the last one pays and costs, and whether it ended there."""
    state, reward, cost, over = env.reset(seed=0)[0], 0.0, 0.0, False
    for action in path:
        state, reward, over, _, info = env.step(action)
        cost = info["cost"]
    return state, reward, cost, over


def test_the_real_deep_sea() -> None:
    """MO-Gymnasium's, wrapped: a plan in the model of all its moves is the best lottery over the published front."""
    from scipy.optimize import linprog

    mo = pytest.importorskip("mo_gymnasium")
    with pytest.warns(UserWarning, match="precision lowered"):
        made = mo.make("deep-sea-treasure-v0")
    env = conrl.envs.Numbered(conrl.envs.MultiObjective(made, costs={"time": 1}))
    task = conrl.Task.from_gymnasium(env, horizon=12, limits={"time": 6.0})
    assert task.reward_range[1] == pytest.approx(23.7)
    assert task.cost_ranges == ((1.0, 1.0),)
    end, rows, paths = task.num_states, [], {replayed(env, ())[0]: ()}  # type: tuple[int, list[Any], dict[int, Any]]
    for state, path in iter_growing(paths):  # nothing is random there: each state by one way to it
        for action in range(task.num_actions):
            new, reward, cost, over = replayed(env, (*path, action))
            rows.append((state, action, end if over else new, reward, cost))
            if not over:
                paths.setdefault(new, (*path, action))
    known = [*sorted(paths), end]
    rows += [(end, 0, end, 0.0, 0.0)]
    s, a, t = ([known.index(row[k]) if k != 1 else row[k] for row in rows] for k in range(3))
    sea = conrl.ConstrainedMDP.from_outcomes(
        s, a, t, np.ones(len(rows)), [row[3:] for row in rows], num_states=len(known), num_actions=4, horizon=12
    )
    front = [(0.7, 1), (8.2, 3), (11.5, 5), (14.0, 7), (15.1, 8), (16.1, 9)]  # Yang et al. 2019, within 12 steps
    for limit in (2.0, 6.0, 8.5):
        reward, steps = np.array(front).T
        best = linprog(-reward, A_ub=[steps], b_ub=[limit], A_eq=[np.ones(len(front))], b_eq=[1.0])
        assert conrl.plan(sea, [limit]).reward == pytest.approx(-best.fun, abs=1e-5)  # rewards there have 24 bits


def iter_growing(paths: dict[int, Any]) -> Iterator[tuple[int, Any]]:
    """The items of a dictionary, and those that are put into it meanwhile."""
    done: set[int] = set()
    while new := [state for state in paths if state not in done]:
        done.add(new[0])
        yield new[0], paths[new[0]]


# -- cells ------------------------------------------------------------------------------------------------------------

EDGES = st.lists(st.floats(-1e6, 1e6), max_size=4, unique=True).map(sorted)


@settings(max_examples=200, deadline=None)
@given(st.lists(EDGES, min_size=1, max_size=4), st.data())
def test_cells_are_counted_as_loops_would(edges: list[list[float]], data: st.DataObject) -> None:
    cells = conrl.Cells(edges)
    near = [st.sampled_from(e) | st.floats(-2e6, 2e6) if e else st.floats().filter(lambda x: x == x) for e in edges]
    x = [data.draw(one) for one in near]
    bins = [sum(value >= edge for edge in e) for value, e in zip(x, edges, strict=True)]
    grid = list(itertools.product(*(range(len(e) + 1) for e in edges)))
    assert cells.count == len(grid)
    number = cells.number(x)
    assert grid[number] == tuple(bins)
    bounds = cells.bounds(number)
    assert all(low <= value for value, low in zip(x, bounds[:, 0], strict=True))
    assert all(value < high or value == np.inf for value, high in zip(x, bounds[:, 1], strict=True))
    assert conrl.Cells.from_arrays(**cells.arrays()) == cells


def test_what_cells_refuse() -> None:
    for edges, words in (
        ([[0.0, 0.0]], r"the edges of dimension '0' are \[0\.0, 0\.0\]; they must be finite numbers that rise"),
        ([[], [np.inf]], "the edges of dimension '1' are"),
        ([["a"]], "the edges of dimension '0' is not an array of numbers"),
        ([], "expected a list of edges for each dimension"),
        (3, "expected a list of edges for each dimension"),
        ([np.arange(1000.0)] * 3, r"1,003,003,001 states \(0: 1001, 1: 1001, 2: 1001\); at most 100,000,000"),
    ):
        with pytest.raises(ModelError, match=words):
            conrl.Cells(edges)  # type: ignore[arg-type]
    cells = conrl.Cells([[0.0], [1.0, 2.0]], names=["x", "v"])
    assert repr(cells) == "Cells(6 cells, x: 2, v: 3)"
    assert cells != conrl.Cells([[0.0], [1.0, 2.5]], names=["x", "v"])
    assert cells != conrl.Cells([[0.0], [1.0, 2.0]])
    assert cells != 3
    for given_, words in (
        ([1.0], "has 1 numbers; the cells 2"),
        ([0.0, np.nan], "has no number as 'v'"),
        ("ab", "is not a list of numbers"),
    ):
        with pytest.raises(RunError, match=words):
            cells.number(given_)
    with pytest.raises(ModelError, match=r"cell 6 is not in 0\.\.5"):
        cells.bounds(6)
    with pytest.raises(ModelError, match="expected Cells of 5 states"):
        conrl.Task(5, 2, 3, [], [], cells=cells)


def test_bins_in_all_the_ways_that_they_are_given() -> None:
    space = spaces.Box(np.array([0.0, -1.0]), np.array([1.0, 3.0]), dtype=np.float64)
    env = Still(space, spaces.Discrete(2))

    def edges(bins: Any, **more: Any) -> list[list[float]]:
        return [np.asarray(e).tolist() for e in conrl.discretize(env, bins, **more).cells.edges]

    assert edges(2) == [[0.5], [1.0]]
    assert edges([4, 1]) == [[0.25, 0.5, 0.75], []]
    assert edges([[0.1, 0.2], 2]) == [[0.1, 0.2], [1.0]]
    assert edges({1: 2}) == [[], [1.0]]
    assert edges({"v": [0.0]}, names=["x", "v"]) == [[], [0.0]]
    for bins, words in (
        (0, "bins of dimension '0' is 0; it must be a whole number of at least 1"),
        ([2], "bins is [2]; expected a number, a list of 2 or a mapping by dimension"),
        ("ab", "bins is 'ab'; expected a number, a list of 2 or a mapping by dimension"),
        (None, "bins is None; expected"),
        ({"w": 2}, "unknown dimension 'w'; known: 0, 1"),
        ({2: 2}, "unknown dimension '2'; known: 0, 1"),
        ([[2.0, 1.0], 2], "the edges of dimension '0' are [2.0, 1.0]; they must be finite numbers that rise"),
        ([2.5, 2], "the edges of dimension '0' are 2.5; they must be finite numbers that rise"),
    ):
        with pytest.raises((SpecError, ModelError), match=re.escape(words)):
            conrl.discretize(env, bins)
    with pytest.raises(SpecError, match="unknown by 'quantile'; did you mean 'quantiles'"):
        conrl.discretize(env, 2, by="quantile")


def test_dimensions_without_ends_are_refused_by_name() -> None:
    cart = gymnasium.make("CartPole-v1")
    with pytest.raises(ModelError, match=r"dimension '1' has no ends \(-inf to inf\); cut it with by='quantiles'"):
        conrl.discretize(cart, 5)
    names = ["x", "v", "angle", "spin"]
    with pytest.raises(ModelError, match=r"dimension 'spin' has no ends"):
        conrl.discretize(cart, {"x": 3, "spin": 3}, names=names)
    env = conrl.discretize(cart, {"x": 3, "spin": [-1.0, 1.0]}, names=names)
    assert env.cells.bins == (3, 1, 1, 3)
    assert conrl.discretize(cart, 1).cells.count == 1
    with pytest.raises(ModelError, match=r"discretize cuts a Box: conrl\.envs\.Numbered"):
        conrl.discretize(gymnasium.make("Blackjack-v1"))
    with pytest.raises(SpecError, match="discretize needs a Gymnasium environment, not str"):
        conrl.discretize("CartPole-v1")  # type: ignore[arg-type]
    with pytest.raises(ModelError, match="the cells have 1 dimensions; an observation has 4 numbers"):
        conrl.envs.Discretized(cart, conrl.Cells([[]]))


def test_quantiles_are_those_of_random_play() -> None:
    """Played again here, by hand: about as many observations in each bin."""

    def make() -> gymnasium.Env[Any, Any]:
        return gymnasium.make("CartPole-v1")

    env = conrl.discretize(make(), 4, by="quantiles", episodes=30, seed=5)
    again = conrl.discretize(make(), 4, by="quantiles", episodes=30, seed=5)
    assert env.cells == again.cells
    assert env.cells != conrl.discretize(make(), 4, by="quantiles", episodes=30, seed=6).cells
    plain, seen = make(), []
    plain.action_space.seed(5)
    for k in range(30):
        seen.append(plain.reset(seed=5 if k == 0 else None)[0])
        over = False
        while not over:
            observation, _, terminated, truncated, _ = plain.step(plain.action_space.sample())
            seen.append(observation)
            over = terminated or truncated
    for j in range(4):
        shares = np.histogram(np.array(seen)[:, j], [-np.inf, *np.asarray(env.cells.edges[j]), np.inf])[0] / len(seen)
        np.testing.assert_allclose(shares, 0.25, atol=2 / len(seen))


def test_ties_make_fewer_bins() -> None:
    shown = [np.array([x, 7.0]) for x in (0.0, 0.0, 0.0, 1.0)]
    env = gymnasium.wrappers.TimeLimit(
        Still(spaces.Box(-np.inf, np.inf, (2,), np.float64), spaces.Discrete(2), shown=shown), 3
    )
    assert conrl.discretize(env, 4, by="quantiles", episodes=5).cells.bins == (2, 1)


def test_cells_are_saved_with_the_learner(tmp_path: Path) -> None:
    env = conrl.discretize(gymnasium.make("MountainCar-v0"), [6, 5], names=["x", "v"])
    task = conrl.Task.from_gymnasium(env, reward_range=(-1.0, 0.0))
    assert task.cells == env.cells
    learner = conrl.ConRL(task, seed=1)
    conrl.learn(env, learner, 2, seed=1)
    learner.save(tmp_path / "l.npz")
    back = conrl.load_learner(tmp_path / "l.npz")
    assert back.task.cells == env.cells
    assert back.task.cells.names == ("x", "v")
    again = conrl.envs.Discretized(gymnasium.make("MountainCar-v0"), back.task.cells)
    one, other = (conrl.learn(e, x, 2, seed=1) for e, x in ((env, learner), (again, back)))
    assert one.rewards.tolist() == other.rewards.tolist()
    for x in ([-0.5, 0.01], [0.49, -0.069]):
        assert back.task.cells.number(x) == env.cells.number(x)
    with np.load(tmp_path / "l.npz") as held:
        assert all(held[name].dtype.kind in "fiubU" for name in held.files)
        arrays = {name: held[name] for name in held.files if name != "seal"}
    from conrl.learners.saving import write_sealed

    for name, wrong in (
        ("task_cells_sizes", np.array([5, 5])),
        ("task_cells_sizes", np.array([-1, 10])),
        ("task_cells_edges", arrays["task_cells_edges"][::-1].copy()),
        ("task_cells_names", np.array("x")),
    ):
        write_sealed(tmp_path / "w.npz", arrays | {name: wrong})
        with pytest.raises(RunError, match="not a learner, or damaged"):
            conrl.load_learner(tmp_path / "w.npz")
    write_sealed(tmp_path / "w.npz", {name: array for name, array in arrays.items() if name != "task_cells_sizes"})
    with pytest.raises(RunError, match="not a learner, or damaged"):
        conrl.load_learner(tmp_path / "w.npz")


def test_a_wrapper_around_cells_that_changes_them_has_none() -> None:
    env = conrl.discretize(gymnasium.make("MountainCar-v0"), 4)
    halved = gymnasium.wrappers.TransformObservation(env, lambda s: s // 2, spaces.Discrete(8))
    assert conrl.Task.from_gymnasium(halved).cells is None
    assert conrl.Task.from_gymnasium(gymnasium.wrappers.TimeLimit(env, 50), horizon=50).cells == env.cells


@pytest.mark.parametrize("name", ["CartPole-v1", "MountainCar-v0", "Acrobot-v1"])
def test_classic_control_can_be_learned_from(name: str) -> None:
    """That it runs, within the spaces and ranges; what to expect is measured by examples/discretized.py."""
    env = conrl.discretize(gymnasium.make(name, max_episode_steps=40), 4, by="quantiles", episodes=5)
    task = conrl.Task.from_gymnasium(env, limits={"pushes": 20.0}, reward_range=(-1.0, 1.0))
    history = conrl.learn(env, conrl.ConRL(task, seed=0), 5, seed=0, cost=lambda s, a, t, r, over: float(a != 1))
    assert len(history) == 5
    assert np.isfinite(history.rewards).all()


def test_a_learner_does_not_go_on_with_other_cells(tmp_path: Path) -> None:
    """Cell 3 of one grid is not cell 3 of another."""

    def made(edge: float) -> Any:
        return conrl.discretize(gymnasium.make("MountainCar-v0", max_episode_steps=5), bins=[[edge], [0.0]])

    env = made(-0.5)
    learner = conrl.ConRL(conrl.Task.from_gymnasium(env, horizon=5, reward_range=(-1, 0)), seed=0)
    conrl.learn(env, learner, 2, seed=0)
    learner.save(tmp_path / "l.npz")
    conrl.learn(made(-0.5), conrl.load_learner(tmp_path / "l.npz"), 1, seed=0)
    with pytest.raises(conrl.ModelError, match="other cells than the task"):
        conrl.learn(made(0.1), conrl.load_learner(tmp_path / "l.npz"), 1, seed=0)


def test_quantiles_of_what_is_no_number_are_refused() -> None:
    class Broken(gymnasium.ObservationWrapper[Any, Any, Any]):
        def observation(self, observation: Any) -> Any:
            return np.array([np.nan, observation[1]])

    with pytest.raises(conrl.SpecError, match="was nan in random play; give its edges"):
        conrl.discretize(Broken(gymnasium.make("MountainCar-v0", max_episode_steps=5)), bins=4, by="quantiles")
