"""Any Gymnasium environment with a `Box` of observations as one with numbered cells: `discretize(env, bins=10)`.

The cells are those of `conrl.model.cells`. Dimensions are cut at equal distances between the ends of the `Box`
(`by="range"`), or so that each bin holds as many of the observations of random play (`by="quantiles"`), or at edges of
your own. What is learned is then about cells, and a cell is not a state: where one is in it, which decides what happens
next, is not seen. The learned model is a mean over that, and a plan's proof is about that model.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

from conrl._types import Float
from conrl.arguments import float_array, is_int, is_list, read_choice, read_count, read_seed
from conrl.errors import ModelError, RunError, SpecError, shown, unknown
from conrl.model.cells import Cells

WAYS = ("range", "quantiles")
LONGEST = 10_000  # steps of random play in an episode that does not end
MOST_BINS = 10**6  # of one dimension; how many cells there may be in all is for `Cells` to say
ENDLESS = 1e30  # an end as far out as this is none: Gymnasium's own environments write 3.4e38 for infinity


class Discretized(gymnasium.ObservationWrapper[Any, Any, Any]):
    """An environment whose observations are the numbers of their `cells`."""

    def __init__(self, env: gymnasium.Env[Any, Any], cells: Cells) -> None:
        _need_box(env)
        if not isinstance(cells, Cells):
            raise SpecError(f"cells is {shown(cells)}; it must be Cells, such as learner.task.cells")
        size = int(np.prod(env.observation_space.shape or ()))
        if len(cells.edges) != size:
            raise ModelError(f"the cells have {len(cells.edges)} dimensions; an observation has {size} numbers")
        super().__init__(env)
        self.cells = cells
        self.observation_space = spaces.Discrete(cells.count)

    def observation(self, observation: Any) -> int:
        return self.cells.number(observation)


def discretize(
    env: gymnasium.Env[Any, Any],
    bins: Any = 10,
    by: str = "range",
    episodes: int = 100,
    seed: int = 0,
    names: Any = None,
) -> Discretized:
    """An environment with a `Box` of observations as one with numbered cells.

    Args:
        env: the environment. Its actions must be `Discrete`.
        bins: how many bins a dimension has, or the edges between them (rising numbers), for all dimensions: a number;
            for each: a list; or by name or number: a mapping, and dimensions that are not in it are left out.
        by: where the edges are, if not given: `"range"`, at equal distances between the ends of the `Box`, or
            `"quantiles"`, at those of the observations in random play. Where ties make edges fall together, there are
            fewer bins.
        episodes: how many to play at random, for `"quantiles"`.
        seed: of that play.
        names: what to call the dimensions; by default 0, 1, ...

    The grid is `env.cells`; `Task.from_gymnasium(env).cells`, and so `learner.task.cells`, is the same, and is saved
    with the learner: `learner.task.cells.number(observation)`. To wrap another environment with it: `Discretized(env,
    learner.task.cells)`.
    """
    _need_box(env)
    read_choice(by, "by", WAYS)
    space: Any = env.observation_space
    low, high = (np.asarray(end, dtype=np.float64).reshape(-1) for end in (space.low, space.high))
    called = Cells([[]] * low.size, names).names or ()
    asked = _asked(bins, called)
    played: Float | None = None
    edges: list[Any] = []
    for j, wanted in enumerate(asked):
        if not is_int(wanted):
            edges.append(wanted)
            continue
        count = read_count(wanted, f"bins of dimension {called[j]!r}", most=MOST_BINS)
        if count == 1:
            edges.append([])
        elif by == "quantiles":
            played = _random_play(env, read_count(episodes, "episodes"), read_seed(seed)) if played is None else played
            if not np.isfinite(played[:, j]).all():
                wrong = float(played[~np.isfinite(played[:, j]), j][0])
                raise SpecError(f"dimension {called[j]!r} was {wrong} in random play; give its edges", key=("bins",))
            cut = np.unique(np.quantile(played[:, j], np.arange(1, count) / count))
            edges.append(cut[cut > played[:, j].min()])  # nothing lies below the least
        else:
            edges.append(_equal(low[j], high[j], count, called[j]))
    return Discretized(env, Cells(edges, called))


def _need_box(env: Any) -> None:
    if not isinstance(env, gymnasium.Env):
        raise SpecError(f"discretize needs a Gymnasium environment, not {type(env).__name__}")
    space = env.observation_space
    if not isinstance(space, spaces.Box):
        kind = shown(" ".join(str(space).split()))[1:-1]
        remedy = "conrl.envs.Numbered(env) numbers Tuple, Dict, MultiDiscrete and whole numbers"
        raise ModelError(f"the observation space is {kind}; discretize cuts a Box: {remedy}")


def _asked(bins: Any, names: Any) -> list[Any]:
    """[D]: for each dimension how many bins, or its edges."""
    if is_int(bins):
        return [bins] * len(names)
    if isinstance(bins, Mapping):
        asked: list[Any] = [1] * len(names)
        for key, wanted in bins.items():
            if is_int(key) and 0 <= key < len(names):
                asked[key] = wanted
            elif key in names:
                asked[list(names).index(key)] = wanted
            else:
                raise SpecError(unknown("dimension", str(key), names), key=("bins", str(key)))
        return asked
    if not is_list(bins) or isinstance(bins, (str, bytes)) or len(bins) != len(names):
        raise SpecError(
            f"bins is {shown(bins)}; expected a number, a list of {len(names)} or a mapping by dimension", key=("bins",)
        )
    return list(bins)


def _equal(low: float, high: float, count: int, name: str) -> Float:
    """The edges between `count` bins of one width."""
    if not (abs(low) < ENDLESS and abs(high) < ENDLESS):
        raise ModelError(
            f"dimension {name!r} has no ends ({low:g} to {high:g}); cut it with by='quantiles', or give its edges: "
            f"bins={{{name!r}: [-1.0, 0.0, 1.0], ...}}"
        )
    return np.linspace(low, high, count + 1)[1:-1]


def _random_play(env: gymnasium.Env[Any, Any], episodes: int, seed: int) -> Float:
    """[n, D]: all observations of some episodes in which actions are drawn at random."""
    env.action_space.seed(seed)
    seen: list[Float] = []

    def see(observation: Any) -> None:
        point = float_array(observation, "an observation of random play")
        if point.shape != env.observation_space.shape:
            raise RunError(f"the environment gave the observation {shown(observation)}; it is not in its space")
        seen.append(point.reshape(-1))

    for k in range(episodes):
        see(env.reset(seed=seed if k == 0 else None)[0])
        for _ in range(LONGEST):
            observation, _, terminated, truncated, _ = env.step(env.action_space.sample())
            see(observation)
            if terminated or truncated:
                break
    return np.stack(seen)
