"""Checks of what models and tasks are made of: sizes, names, ranges, horizon, start. Each refusal names the culprit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Array, Bool, Float
from conrl.arguments import LARGEST, any_array, check_text, float_array, frozen, is_int, is_list, read_count
from conrl.errors import ModelError, shown, unknown
from conrl.looks import look
from conrl.model.criteria import Criterion, need_steps
from conrl.sizes import MAX_HORIZON, check_table

Ranges = Mapping[str, tuple[float, float] | None] | Sequence[tuple[float, float] | None]  # (low, high) of costs

MAX_STATES = 2**31 - 1  # the kernels hold states in 32 bits
MAX_ACTIONS = 2**15 - 1  # a policy stores its choice in 16 bits
ROW_SUM_TOLERANCE = 1e-9  # how far from 1 the probabilities of one pair may add up; used as given, never rescaled

_DISCOUNTED = "a discount stands in the place of the horizon: horizon=conrl.Discounted(0.95)"
_NOT_TERMINAL = "put the step into the state and pay them in the last step"
_REFUSED = {
    "discount": _DISCOUNTED,
    "gamma": _DISCOUNTED,
    "terminal_rewards": f"there are no terminal rewards; {_NOT_TERMINAL}",
    "terminal_costs": f"there are no terminal costs; {_NOT_TERMINAL}",
}


class Names(NamedTuple):
    """What to call the states, the actions and the costs of a model; None is for numbers."""

    states: tuple[str, ...] | None
    actions: tuple[str, ...] | None
    costs: tuple[str, ...]

    def state(self, s: int) -> str:
        return self.states[s] if self.states else str(s)

    def action(self, a: int) -> str:
        return self.actions[a] if self.actions else str(a)


def check_sizes(num_states: Any, num_actions: Any) -> None:
    """Refuse sizes that are no whole numbers of at least 1, or more than the kernels can count to."""
    for name, count, most in (("states", num_states, MAX_STATES), ("actions", num_actions, MAX_ACTIONS)):
        if not is_int(count) or count < 1:
            raise ModelError(f"num_{name} is {shown(count)}; it must be a whole number of at least 1")
        if count > most:
            raise ModelError(f"{shown(count)} {name}; at most {most} are supported")


def read_available(available: ArrayLike | None, num_states: int, num_actions: int, steps: int = 0) -> Bool:
    """[S, A], or [H, S, A] of so many steps: which actions exist in each state; by default all of them."""
    if available is None:
        return np.ones((num_states, num_actions), dtype=bool)
    mask = any_array(available, "available")
    if mask.shape not in ((num_states, num_actions), (steps, num_states, num_actions)):
        raise ModelError(f"available has shape {mask.shape}; expected ({num_states}, {num_actions})")
    if mask.dtype != np.bool_ and not np.isin(mask, (0, 1)).all():
        raise ModelError("available must hold booleans")
    return mask.astype(bool)


def refuse(given: Mapping[str, object]) -> None:
    for name in given:
        if name in _REFUSED:
            raise ModelError(f"{name}: {_REFUSED[name]}")
        raise TypeError(f"ConstrainedMDP() got an unexpected keyword argument {name!r}")


def read_features(features: ArrayLike, num_states: int) -> Array:
    table = any_array(features, "features")
    if table.ndim < 2 or table.shape[0] != num_states or table.dtype.kind not in "fiub":
        raise ModelError(f"features has shape {table.shape}; expected numbers of shape ({num_states}, ...)")
    return table


def read_names(names: Sequence[str] | None, count: int, what: str) -> tuple[str, ...] | None:
    if names is None:
        return None
    if any_array(names, what).ndim != 1:
        raise ModelError(
            f"{what} is {'one text' if isinstance(names, str) else shown(names)}; expected a list of {count}"
        )
    texts = tuple(check_text(str(n), what) for n in names)
    if len(texts) != count:
        raise ModelError(f"{what} has {len(texts)} entries; expected {count}")
    if len(set(texts)) != count:
        twice = Counter(texts).most_common(1)[0][0]
        raise ModelError(f"{what} has {twice!r} twice; names must differ")
    return texts


def new_name(name: str, taken: Collection[str]) -> str:
    """The name, with as many apostrophes as make it differ from those taken."""
    while name in taken:
        name += "'"
    return name


def default_cost_names(count: int) -> tuple[str, ...]:
    return ("cost",) if count == 1 else tuple(f"cost{i}" for i in range(count))


def read_horizon(horizon: Any, num_states: int = 1) -> int:
    """The number of steps, once a policy for so many steps and states can be kept in memory."""
    need_steps(horizon, "this")
    steps = read_count(horizon, "horizon", most=MAX_HORIZON, error=ModelError)
    check_table(steps, num_states)
    return steps


def read_criterion(horizon: Any, num_states: int) -> int | Criterion:
    """The number of steps, or what is added up where there is none."""
    if isinstance(horizon, type) and issubclass(horizon, Criterion):
        example = "Discounted(0.95)" if horizon.__name__ == "Discounted" else f"{horizon.__name__}()"
        raise ModelError(f"horizon is the class {horizon.__name__}; make one: {example}", key=("horizon",))
    if isinstance(horizon, Criterion):
        check_table(1, num_states)
        return horizon
    return read_horizon(horizon, num_states)


def read_range(bounds: tuple[float, float], what: str, key: tuple[str, ...]) -> tuple[float, float]:
    """The least and the most of something."""
    try:
        low, high = (float(x) for x in bounds)
    except (TypeError, ValueError, OverflowError):
        low = high = np.nan
    if not -LARGEST <= low <= high <= LARGEST:
        raise ModelError(
            f"{what} is {shown(bounds)}; expected two finite numbers, the lower first, of at most {LARGEST:g} in size",
            key=key,
        )
    return low, high


def read_ranges(
    reward: tuple[float, float] | None, costs: Ranges | None, cost_names: Sequence[str], paid: Float
) -> Float | None:
    """[1+d, 2]: declared ranges of one step's reward and costs, nan where there is none; None without any.

    They must hold what the model itself pays: `paid` [.., 1+d].
    """
    if reward is None and costs is None:
        return None
    ranges = np.full((1 + len(cost_names), 2), np.nan)
    if reward is not None:
        ranges[0] = read_range(reward, "reward_range", ("reward_range",))
    listed: Any = {} if costs is None else costs
    if not isinstance(listed, Mapping):
        if not (is_list(listed) and len(listed) == len(cost_names)):
            raise ModelError(f"cost_ranges is {shown(costs)}; expected (low, high) for each of {len(cost_names)} costs")
        listed = dict(zip(cost_names, listed, strict=True))
    for name, bounds in listed.items():
        if name not in cost_names:
            raise ModelError(unknown("cost", str(name), cost_names), key=("cost_ranges", str(name)))
        if bounds is not None:
            i = list(cost_names).index(name)
            ranges[1 + i] = read_range(bounds, f"cost_ranges[{name!r}]", ("cost_ranges", name))
    low, high = paid.min(axis=0), paid.max(axis=0)
    rounding = ROW_SUM_TOLERANCE * np.maximum(np.abs(low), np.abs(high))  # means are sums: they round
    for i in map(int, np.flatnonzero((low < ranges[:, 0] - rounding) | (high > ranges[:, 1] + rounding))):
        name = f"the range of cost {cost_names[i - 1]!r}" if i else "reward_range"
        raise ModelError(
            f"{name} is {ranges[i, 0]:g} to {ranges[i, 1]:g}, but the model itself pays {low[i]:g} to {high[i]:g}",
            key=("cost_ranges", cost_names[i - 1]) if i else ("reward_range",),
        )
    return frozen(ranges)


def read_initial(initial: int | ArrayLike, num_states: int, name: Callable[[int], str] = str) -> Float:
    """[S]: the probability that an episode starts in each state, from a state's index or a distribution."""
    given = any_array(initial, "initial")
    if given.ndim == 0:
        if not np.issubdtype(given.dtype, np.integer) or not 0 <= int(given) < num_states:
            raise ModelError(
                f"initial is {shown(initial)}; it must be a state index in 0..{num_states - 1} or a distribution"
            )
        return np.asarray(np.arange(num_states) == given, dtype=np.float64)
    start = float_array(initial, "initial")
    if start.shape != (num_states,):
        raise ModelError(f"initial has shape {start.shape}; a distribution over states has shape ({num_states},)")
    check_distribution(start, "initial", lambda s: f"state {name(s)!r}")
    return start


def check_distribution(p: Float, what: str, name: Callable[[int], str] = str) -> None:
    """Refuse what are no probabilities [n] that sum to 1; `name(i)` says what to call the i-th."""
    bad = np.flatnonzero(~(np.isfinite(p) & (p >= 0.0)))
    if bad.size:
        raise ModelError(f"{what}[{name(int(bad[0]))}] is {p[bad[0]]}; a probability is at least 0")
    if abs(p.sum() - 1.0) > ROW_SUM_TOLERANCE:
        raise ModelError(f"{what} sums to {p.sum():.12g}; a distribution sums to 1 (within {ROW_SUM_TOLERANCE:g})")


def start_index(initial: Any, names: Sequence[str] | None, num_states: int) -> Any:
    """`initial` with the name of a state looked up; a text that is no name may be a number."""
    if not isinstance(initial, str):
        return initial
    known = names if names is not None else [str(s) for s in range(num_states)]
    index = state_index(initial, known)
    if index is None:
        raise ModelError(f"initial: {unknown('state', initial, known[:1000])}")
    return index


def state_index(text: str, names: Sequence[str]) -> int | None:
    """The index of a state by its name or, if no name looks like it, by its number; None if it is neither."""
    if text in names:
        return list(names).index(text)
    number = text.isdecimal() and len(text) < 20 and int(text) < len(names)
    return int(text) if number and look(text) not in map(look, names) else None
