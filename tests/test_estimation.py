"""Counts, the empirical model, bonuses and `conrl.estimate`, against dense counts in plain numpy.

The reference counts into arrays [S+2, A, S+2] by the paper's equations (empirical-N) to (empirical-c); rows S and S+1
are START (the unknown first state, one step more) and END (what the environment ended early).
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from bank import deviations, random_model, solve_lp
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import conrl
from conrl import theory
from conrl.episode import check_episode
from conrl.estimation.counts import Counts
from conrl.running import ModelWorld

Float = NDArray[np.float64]
Int = NDArray[np.int64]
Arrays = dict[str, NDArray[Any]]

few = settings(max_examples=40, deadline=None)


# -- random tasks and episodes --------------------------------------------------------------------------------


@dataclass(frozen=True)
class Spec:
    """What was drawn; the same spec always makes the same task and episodes."""

    states: int
    actions: int
    horizon: int
    costs: int
    known: bool  # the first state
    masked: bool  # some actions do not exist
    ends: bool  # some episodes terminate, and some are cut short
    episodes: int
    seed: int

    def build(self) -> tuple[conrl.Task, list[conrl.Episode]]:
        rng = np.random.default_rng(self.seed)
        S, A, d = self.states, self.actions, self.costs
        mask = np.ones((S, A), dtype=bool)
        if self.masked:
            mask = rng.random((S, A)) < 0.5
            mask[np.arange(S), rng.integers(A, size=S)] = True
        ranges = [(-1.0, 2.0), *((-float(i), float(i + 1)) for i in range(d))]
        task = conrl.Task(
            S,
            A,
            self.horizon,
            np.full(d, 0.5),
            [f"c{i}" for i in range(d)],
            initial=int(rng.integers(S)) if self.known else None,
            reward_range=ranges[0],
            cost_ranges=ranges[1:],
            available=None if mask.all() else mask,
        )
        return task, [self._episode(rng, task, mask, np.array(ranges)) for _ in range(self.episodes)]

    def _episode(
        self, rng: np.random.Generator, task: conrl.Task, mask: NDArray[np.bool_], ranges: Float
    ) -> conrl.Episode:
        short = self.ends and rng.random() < 0.5
        L = int(rng.integers(0, task.horizon + 1)) if short else task.horizon
        states = rng.integers(task.num_states, size=L + 1)
        if task.initial is not None:
            states[0] = task.initial
        actions = np.array([rng.choice(np.flatnonzero(mask[s])) for s in states[:-1]], dtype=np.int64)
        pay = rng.uniform(ranges[:, 0], ranges[:, 1], size=(L, ranges.shape[0]))
        ended = bool(self.ends and L and rng.random() < 0.7)
        return conrl.Episode(states, actions, pay[:, 0], pay[:, 1:], terminated=ended, stopped=short and not ended)


@st.composite
def plays(draw: st.DrawFn) -> Spec:
    return Spec(
        states=draw(st.integers(1, 7)),
        actions=draw(st.integers(1, 4)),
        horizon=draw(st.integers(1, 6)),
        costs=draw(st.integers(0, 4)),
        known=draw(st.booleans()),
        masked=draw(st.booleans()),
        ends=draw(st.booleans()),
        episodes=draw(st.integers(0, 12)),
        seed=draw(st.integers(0, 2**32 - 1)),
    )


# -- the dense reference --------------------------------------------------------------------------------------


class Seen(NamedTuple):
    """Dense counts; START is row S, END row S+1."""

    N: Int  # [S+2, A]
    moved: Int  # [S+2, A, S+2]
    paid: Float  # [S+2, A, 1+d]
    exists: NDArray[np.bool_]  # [S+2, A]
    met: NDArray[np.bool_]  # [S+2]: states seen


def naive(task: conrl.Task, episodes: Iterable[conrl.Episode]) -> Seen:
    S, A, d = task.num_states, task.num_actions, task.num_costs
    N = np.zeros((S + 2, A), dtype=np.int64)
    moved = np.zeros((S + 2, A, S + 2), dtype=np.int64)
    paid = np.zeros((S + 2, A, 1 + d))
    exists = np.zeros((S + 2, A), dtype=bool)
    exists[:S] = True if task.available is None else task.available
    exists[S:, 0] = True
    met = np.zeros(S + 2, dtype=bool)
    met[S if task.initial is None else task.initial] = True
    for e in episodes:
        states, actions = np.asarray(e.states).tolist(), np.asarray(e.actions).tolist()
        if not actions:
            continue
        if e.terminated:
            states[-1] = S + 1
        steps = [(s, a, states[h + 1], e.pay[h]) for h, (s, a) in enumerate(zip(states, actions, strict=False))]
        if task.initial is None:
            steps.insert(0, (S, 0, states[0], np.zeros(1 + d)))
        for s, a, t, pay in steps:
            N[s, a] += 1
            moved[s, a, t] += 1
            paid[s, a] += pay
            met[[s, t]] = True
    return Seen(N, moved, paid, exists, met)


def p_hat(seen: Seen) -> Float:
    """[S+2, A, S+2]: Eq. (p_hat), with a self-loop for a pair never visited."""
    P = seen.moved / np.maximum(seen.N, 1)[:, :, None]
    for s, a in np.argwhere(seen.N == 0):
        P[s, a, s] = 1.0
    return P


def counted(task: conrl.Task, episodes: Iterable[conrl.Episode]) -> Counts:
    counts = Counts(task)
    for e in episodes:
        check_episode(counts.task, e)
        counts.add(e)
    return counts


def dense_transitions(mdp: conrl.ConstrainedMDP) -> Float:
    S, A = mdp.num_states, mdp.num_actions
    table: Float = mdp.transitions.toarray().reshape(S, A, S)
    return table


# -- counts ---------------------------------------------------------------------------------------------------


@few
@given(spec=plays())
def test_the_model_of_the_places_is_the_dense_one(spec: Spec) -> None:
    task, episodes = spec.build()
    counts, seen = counted(task, episodes), naive(task, episodes)
    order = counts.order
    assert sorted(order.tolist()) == np.flatnonzero(seen.met).tolist()
    model = counts.model()
    assert model.num_states == counts.num_seen == int(seen.met.sum())
    assert model.num_pairs == int(seen.exists[seen.met].sum()) == counts.num_pairs
    assert model.horizon == task.horizon + (task.initial is None)
    assert model.num_actions == task.num_actions
    assert model.cost_names == tuple(task.cost_names)
    assert model.initial.tolist() == [1.0] + [0.0] * (order.size - 1)
    assert order[0] == (task.num_states if task.initial is None else task.initial)
    assert np.array_equal(model.available, seen.exists[order])
    assert model.counts is not None
    assert np.array_equal(model.counts, np.where(seen.exists, seen.N, 0)[order])
    here = seen.exists[order]
    P = dense_transitions(model)
    assert np.abs(P - p_hat(seen)[order][:, :, order])[here].max(initial=0.0) <= 1e-15
    means = seen.paid[order] / np.maximum(seen.N[order], 1)[:, :, None]
    pay = np.concatenate((model.rewards[:, :, None], model.costs), axis=2)
    assert np.abs(pay - means)[here].max(initial=0.0) <= 1e-13
    assert (pay[here & (seen.N[order] == 0)] == 0.0).all()


@few
@given(spec=plays())
def test_start_and_end(spec: Spec) -> None:
    """START has one action and leads to the first states as often as they came; END is absorbing, free, and known."""
    task, episodes = spec.build()
    counts, seen = counted(task, episodes), naive(task, episodes)
    S, order, model = task.num_states, counts.order, counts.model()
    played = [e for e in episodes if len(e)]
    P = dense_transitions(model)
    if task.initial is None:
        assert model.available[0].tolist() == [True] + [False] * (task.num_actions - 1)
        assert model.pay[0].tolist() == [0.0] * (1 + task.num_costs)
        for place, s in enumerate(order):
            here = [int(np.asarray(e.states)[0]) == s and not (e.terminated and len(e) == 0) for e in played]
            expected = sum(here) / len(played) if played else float(place == 0)
            assert P[0, 0, place] == pytest.approx(expected, abs=1e-15)
    ended = any(e.terminated for e in played)
    assert (S + 1 in order) == ended == bool(seen.met[S + 1])
    if not ended:
        assert counts.known == -1
        return
    place = int(np.flatnonzero(order == S + 1)[0])
    assert P[place, 0, place] == 1.0
    assert model.available[place].tolist() == [True] + [False] * (task.num_actions - 1)
    pair = model.pair_index[place, 0]
    assert counts.known == pair
    assert (model.pay[pair] == 0.0).all()


@few
@given(spec=plays())
def test_the_model_of_the_task_is_the_dense_one(spec: Spec) -> None:
    task, episodes = spec.build()
    counts, seen = counted(task, episodes), naive(task, episodes)
    S = task.num_states
    if task.initial is None and not seen.N[S, 0]:
        with pytest.raises(conrl.RunError, match="no episode has been seen"):
            counts.full_model()
        return
    keep = [*range(S), S + 1] if seen.met[S + 1] else [*range(S)]
    model = counts.full_model()
    exists = seen.exists[keep]
    assert np.array_equal(model.available, exists)
    assert model.counts is not None
    assert np.array_equal(model.counts, np.where(exists, seen.N[keep], 0))
    assert model.horizon == task.horizon
    assert np.abs(dense_transitions(model) - p_hat(seen)[keep][:, :, keep])[exists].max() <= 1e-15
    means = seen.paid[keep] / np.maximum(seen.N[keep], 1)[:, :, None]
    pay = np.concatenate((model.rewards[:, :, None], model.costs), axis=2)
    assert np.abs(pay - means)[exists].max() <= 1e-13
    first = np.eye(len(keep))[task.initial] if task.initial is not None else p_hat(seen)[S, 0][keep]
    assert np.abs(model.initial - first).max() <= 1e-15
    # With `missing`, what was tried is all there is; a state where nothing was keeps its self-loops.
    tried = seen.N[keep] > 0
    careful = counts.full_model(unvisited="missing")
    assert np.array_equal(careful.available, exists & (tried | ~tried.any(axis=1, keepdims=True)))
    both = careful.available
    assert np.array_equal(dense_transitions(careful)[both], dense_transitions(model)[both])
    assert np.array_equal(careful.rewards[both], model.rewards[both])


@few
@given(spec=plays())
def test_the_order_of_episodes_does_not_matter(spec: Spec) -> None:
    task, episodes = spec.build()
    if task.initial is None and not any(map(len, episodes)):
        return
    one = counted(task, episodes).full_model()
    shuffled = [episodes[i] for i in np.random.default_rng(spec.seed).permutation(len(episodes))]
    for other in (counted(task, reversed(episodes)).full_model(), counted(task, shuffled).full_model()):
        assert np.array_equal(dense_transitions(one), dense_transitions(other))
        assert np.array_equal(one.initial, other.initial)
        assert one.counts is not None
        assert other.counts is not None
        assert np.array_equal(one.counts, other.counts)
        assert np.abs(one.pay - other.pay).max() <= 1e-13


def test_memory_grows_with_what_was_seen() -> None:
    """A task of a million pairs, of which an episode sees a handful: nothing is stored for the others."""
    task = conrl.Task(100_000, 10, 5, [1.0], ["c"], initial=7)
    counts = Counts(task)
    rng = np.random.default_rng(0)
    sizes = []
    for _ in range(50):
        states = np.concatenate(([7], rng.integers(100_000, size=5)))
        counts.add(conrl.Episode(states, rng.integers(10, size=5), np.zeros(5), np.zeros((5, 1))))
        sizes.append(sum(a.nbytes for a in counts.state().values()))
    assert counts.num_seen <= 251
    assert counts.model().num_pairs <= 2510
    assert sizes[-1] <= 250_000
    assert sizes[-1] <= 60 * sizes[0]
    held = sum(array.nbytes for array in counts._arrays.values())
    assert held <= 4 * sizes[-1]  # room to grow, by doubling
    again = counts.state()
    states = np.array([7, 7, 7, 7, 7, 7])
    for _ in range(50):  # nothing new is seen after the first
        counts.add(conrl.Episode(states, np.zeros(5, dtype=int), np.zeros(5), np.zeros((5, 1))))
    assert sum(a.nbytes for a in counts.state().values()) <= sum(a.nbytes for a in again.values()) + 100


def test_models_do_not_change_with_what_comes_later() -> None:
    task, episodes = Spec(4, 2, 3, 1, False, False, True, 8, 3).build()
    counts = counted(task, episodes[:4])
    for make in (counts.model, counts.full_model):
        model = make()
        before = [a.copy() for a in (model.pay, model.graph.probability, model.graph.successor, model.action)]
        visits = None if model.counts is None else model.counts.copy()
        for e in episodes[4:]:
            counts.add(e)
        after = [model.pay, model.graph.probability, model.graph.successor, model.action]
        assert all(np.array_equal(x, y) for x, y in zip(before, after, strict=True))
        assert visits is not None
        assert model.counts is not None
        assert np.array_equal(visits, model.counts)


# -- state and load_state -------------------------------------------------------------------------------------


@few
@given(spec=plays(), cut=st.integers(0, 12))
def test_saved_counts_go_on_bit_for_bit(spec: Spec, cut: int) -> None:
    task, episodes = spec.build()
    counts = counted(task, episodes[:cut])
    other = Counts(task)
    other.load_state(counts.state())
    assert_same_arrays(counts.state(), other.state())
    assert np.array_equal(counts.model().pay, other.model().pay)
    for e in episodes[cut:]:
        counts.add(e)
        other.add(e)
    assert_same_arrays(counts.state(), other.state())
    one, two = counts.model(), other.model()
    assert np.array_equal(one.pay, two.pay)
    assert all(np.array_equal(x, y) for x, y in zip(one.graph, two.graph, strict=True))


def assert_same_arrays(one: Arrays, two: Arrays) -> None:
    assert one.keys() == two.keys()
    for name, array in one.items():
        assert array.dtype == two[name].dtype
        assert array.tobytes() == two[name].tobytes(), name


EXAMPLE = Spec(4, 3, 4, 2, False, True, True, 12, 5)


def example_counts() -> Counts:
    task, episodes = EXAMPLE.build()
    return counted(task, episodes)


NAMES = ("action", "count", "first", "head", "next", "order", "successor", "sums", "visits")


def put(name: str, index: int, value: float) -> Callable[[Arrays], None]:
    def change(state: Arrays) -> None:
        state[name].reshape(-1)[index] = value

    return change


def cut(name: str) -> Callable[[Arrays], None]:
    def change(state: Arrays) -> None:
        state[name] = state[name][:-1]

    return change


def swap(name: str, make: Callable[[NDArray[Any]], NDArray[Any]]) -> Callable[[Arrays], None]:
    def change(state: Arrays) -> None:
        state[name] = make(state[name])

    return change


def drop(name: str) -> Callable[[Arrays], None]:
    def change(state: Arrays) -> None:
        del state[name]

    return change


def circle(state: Arrays) -> None:
    """A list of successors whose last link leads back to its first, every link still used once."""
    after = state["next"]
    for k in range(state["head"].size):
        chain = [int(state["head"][k])]
        while chain[-1] >= 0 and after[chain[-1]] >= 0:
            chain.append(int(after[chain[-1]]))
        if len(chain) > 1:
            state["head"][k] = -1
            after[chain[-1]] = chain[0]
            return
    raise AssertionError("no list of two successors")


def shared_tail(state: Arrays) -> None:
    heads = np.flatnonzero(state["head"] >= 0)
    state["head"][heads[0]] = state["head"][heads[1]]


TAMPERED: list[tuple[str, Callable[[Arrays], None]]] = [
    *((f"{n} missing", drop(n)) for n in NAMES),
    *((f"{n} truncated", cut(n)) for n in NAMES),
    *((f"{n} empty", swap(n, lambda a: a[:0])) for n in NAMES),
    *((f"{n} longer", swap(n, lambda a: np.concatenate((a, a[-1:])))) for n in NAMES),
    *((f"{n} a number", swap(n, lambda a: a.reshape(-1)[0])) for n in NAMES),
    *((f"{n} of one more dimension", swap(n, lambda a: a[None])) for n in NAMES),
    *((f"{n} as text", swap(n, lambda a: a.astype(str).astype(object))) for n in NAMES),
    *((f"{n} as 32 bits", swap(n, lambda a: a.astype(np.float32 if a.dtype.kind == "f" else np.int32))) for n in NAMES),
    *((f"{n} below", put(n, -1, -7)) for n in NAMES if n != "sums"),
    *((f"{n} beyond", put(n, -1, 2**40)) for n in NAMES if n != "sums"),
    *((f"{n} at the end of numbers", put(n, 0, 2**62)) for n in NAMES if n != "sums"),
    ("sums nan", put("sums", 0, math.nan)),
    ("sums infinite", put("sums", -1, math.inf)),
    ("first of reals", swap("first", lambda a: np.where(a == a[-1], np.inf, a))),
    ("first of nothing", swap("first", lambda a: a + 0.5)),
    ("order with a state twice", put("order", 1, 4)),
    ("order without the first state", swap("order", lambda a: a[::-1].copy())),
    ("lists in circles", circle),
    ("lists that share their tail", shared_tail),
    ("count of nothing", put("count", 0, 0)),
    ("visits more than counted", swap("visits", lambda a: a + 1)),
    ("an action twice", swap("action", np.zeros_like)),
    ("centers out of range", swap("centers", lambda a: a + 5.0)),
    ("centers that do not add up", swap("centers", lambda a: a[::-1].copy())),
    ("centers nan", put("centers", 0, math.nan)),
    ("moments nan", put("moments", 0, math.nan)),
    ("moments too large", put("moments", 0, 1e6)),
    ("moments negative", put("moments", 0, -0.1)),
]


@pytest.mark.parametrize(("name", "change"), [pytest.param(n, c, id=n) for n, c in TAMPERED])
def test_tampered_counts_are_refused(name: str, change: Callable[[Arrays], None]) -> None:
    counts = example_counts()
    state = counts.state()
    change(state)
    target = example_counts()
    with pytest.raises(conrl.RunError, match="no counts of the task"):
        target.load_state(state)
    assert_same_arrays(target.state(), counts.state())


def test_counts_without_deviations_load_as_if_there_were_no_noise() -> None:
    """Files of 0.1 have none: each successor then paid the mean of its pair."""
    counts = example_counts()
    state = counts.state()
    del state["centers"], state["moments"]
    target = example_counts()
    target.load_state(state)
    assert not deviations(target)[0].any()
    assert np.array_equal(target.model().pay, counts.model().pay)
    target.load_state(target.state())


@few
@given(spec=plays(), offset=st.sampled_from([0.0, 1e6]))
def test_deviations_are_those_around_the_mean_of_each_successor(spec: Spec, offset: float) -> None:
    """Against plain sums over all steps, by (state, action, successor); whatever the offset of the numbers."""
    task, episodes = spec.build()
    low, high = task.ranges.T
    wide = dataclasses.replace(
        task,
        reward_range=(low[0] + offset, high[0] + offset),
        cost_ranges=tuple((a + offset, b + offset) for a, b in zip(low[1:], high[1:], strict=True)),
    )
    counts = Counts(wide)
    seen: dict[tuple[int, int, int], list[Float]] = {}
    for e in episodes:
        moved = conrl.Episode(e.states, e.actions, e.rewards + offset, e.costs + offset, terminated=e.terminated)
        counts.add(moved)
        ends = [*e.states[1:-1], counts.end if e.terminated else e.states[-1]] if len(e) else []
        for s, a, t, pay in zip(e.states[:-1], e.actions, ends, moved.pay, strict=True):
            seen.setdefault((int(s), int(a), int(t)), []).append(pay)
    moments, degrees = deviations(counts)
    pairs, visits = counts._pairs(), counts.visits
    expected, links = np.zeros_like(moments), np.zeros(counts.num_pairs, dtype=np.int64)
    for (s, a, _), pays in seen.items():
        centred = np.array(pays) - np.mean(pays, axis=0)
        expected[pairs[s, a]] += centred.T @ centred
        links[pairs[s, a]] += 1
    real = counts.order[np.repeat(np.arange(counts.num_seen), np.diff(counts.first))] < counts.start
    assert np.array_equal(degrees[real], (visits - links)[real])
    assert np.abs(moments - expected).max(initial=0.0) <= 1e-9 * max(1.0, offset) * max(1, visits.max(initial=1))


@few
@given(spec=plays())
def test_blocks_count_as_their_episodes_do(spec: Spec) -> None:
    task, episodes = spec.build()
    whole = [e for e in episodes if len(e) == task.horizon and not e.terminated]
    one, two = counted(task, whole), Counts(task)
    if whole:
        two.add_block(*(np.stack([getattr(e, name) for e in whole]) for name in ("states", "actions", "pay")))
    assert_same_arrays(one.state(), two.state())


@pytest.mark.parametrize("value", [1.0, 1e300])
def test_pay_of_pairs_never_visited_is_refused(value: float) -> None:
    counts = example_counts()
    state = counts.state()
    state["sums"][np.flatnonzero(state["visits"] == 0)[0]] = value
    with pytest.raises(conrl.RunError, match="no counts of the task"):
        example_counts().load_state(state)


def test_pay_outside_the_ranges_is_refused() -> None:
    """No sum of rewards in [-1, 2] over N visits is above 2N."""
    counts = example_counts()
    state = counts.state()
    k = int(np.argmax(state["visits"]))
    state["sums"][k, 0] = 2.0 * state["visits"][k] + 1.0
    with pytest.raises(conrl.RunError, match="no counts of the task"):
        example_counts().load_state(state)


def test_start_among_the_places_of_a_known_first_state_is_refused() -> None:
    task, episodes = Spec(3, 2, 3, 1, True, False, True, 6, 1).build()
    counts = counted(task, episodes)
    state = counts.state()
    at = int(np.flatnonzero(state["order"] == task.num_states + 1)[0])  # END and START have one action each
    state["order"][at] = task.num_states
    with pytest.raises(conrl.RunError, match="no counts of the task"):
        Counts(task).load_state(state)


@settings(max_examples=100, deadline=None)
@given(
    name=st.sampled_from(NAMES),
    at=st.integers(0, 100),
    value=st.one_of(st.integers(-3, 30), st.sampled_from([-(2**63), 2**63 - 1, 2**31])),
    other=st.sampled_from(NAMES),
    shift=st.integers(-2, 2),
)
def test_what_is_not_refused_makes_a_model(name: str, at: int, value: int, other: str, shift: int) -> None:
    """Whatever is written into the arrays: refused, or counts that no kernel leaves and that make a model."""
    counts = example_counts()
    state = counts.state()
    flat = state[name].reshape(-1)
    flat[at % flat.size] = value
    flat = state[other].reshape(-1)
    with np.errstate(over="ignore"):
        flat[(at // 2) % flat.size] += shift
    target = example_counts()
    try:
        target.load_state(state)
    except conrl.RunError:
        assert_same_arrays(target.state(), counts.state())
        return
    model = target.model()
    g = model.graph
    assert ((g.successor >= 0) & (g.successor < model.num_states)).all()
    assert np.abs(np.add.reduceat(g.probability, g.start[:-1]) - 1.0).max() <= 1e-12
    assert np.isfinite(model.pay).all()
    for e in EXAMPLE.build()[1]:
        target.add(e)
    assert target.model().num_states >= model.num_states


# -- check ----------------------------------------------------------------------------------------------------


TASK = conrl.Task(
    3,
    2,
    3,
    [1.0, 1.0],
    ["fuel", "time"],
    initial=1,
    reward_range=(0.0, 1.0),
    cost_ranges=[(0.0, 2.0), (-1.0, 0.0)],
    available=np.array([[True, False], [True, True], [False, True]]),
)


def episode(states: Any = (1, 2, 0), actions: Any = (0, 1), rewards: Any = (0.5, 1.0), costs: Any = None) -> Any:
    costs = np.zeros((len(actions), 2)) if costs is None else costs
    return conrl.Episode(states, actions, rewards, costs)


MISFITS: list[tuple[str, Any, str]] = [
    ("too long", episode((1, 1, 1, 1, 1), (0,) * 4, (0.0,) * 4), "4 steps; the task has 3"),
    ("too few costs", episode(costs=np.zeros((2, 1))), "1 costs; the task has 2"),
    ("too many costs", episode(costs=np.zeros((2, 3))), "3 costs; the task has 2"),
    ("a state too many", episode((1, 3, 0)), "state 3 was seen; the task has states 0..2"),
    ("a last state too many", episode((1, 2, 5)), "state 5 was seen"),
    ("a negative state", episode((1, -1, 0)), "state -1 was seen"),
    ("another first state", episode((0, 0, 1), (0, 0)), "began in state 0; the task says 1"),
    ("an action too many", episode(actions=(0, 2)), "action"),
    ("a negative action", episode(actions=(-1, 1)), "action"),
    ("a missing action", episode(actions=(0, 0)), "action"),
    ("reward above", episode(rewards=(0.5, np.nextafter(1.0, 2.0))), "reward 1 was seen in one step"),
    ("reward below", episode(rewards=(-1e-12, 0.5)), "reward -1e-12 was seen"),
    ("cost above", episode(costs=[[0, 0], [2.5, 0]]), "fuel 2.5 was seen in one step; the task says 0 to 2"),
    ("cost below", episode(costs=[[0, 0], [0, -1.5]]), "time -1.5 was seen"),
    ("second cost above", episode(costs=[[0, 0.1], [0, 0]]), "time 0.1 was seen"),
]


@pytest.mark.parametrize(("name", "wrong", "message"), MISFITS, ids=[m[0] for m in MISFITS])
def test_misfits_are_refused_and_change_nothing(name: str, wrong: conrl.Episode, message: str) -> None:
    learner = conrl.ConRL(TASK, seed=0)
    learner.observe(episode())
    before = learner.state()
    counts = Counts(TASK)
    with pytest.raises(conrl.RunError, match=message.replace("(", r"\(")):
        check_episode(counts.task, wrong)
    with pytest.raises(conrl.RunError):
        learner.observe(wrong)
    with pytest.raises(conrl.RunError, match="episode 2 of the log"):
        learner.prime([episode(), wrong])
    with pytest.raises(conrl.RunError, match="episode 1 of the log"):
        conrl.estimate([wrong], task=TASK)
    assert learner.episodes == 1
    assert learner.primed == 0
    assert_same_arrays(learner.state(), before)


def test_what_fits_exactly_is_let_pass() -> None:
    counts = Counts(TASK)
    for fits in (
        episode((1, 1, 1, 1), (0, 1, 0), (0.0, 1.0, 1.0), [[2.0, -1.0], [0.0, 0.0], [2.0, -1.0]]),
        conrl.Episode([1], [], [], np.zeros((0, 2))),
        conrl.Episode.null(2),
    ):
        check_episode(counts.task, fits)
        counts.add(fits)
    assert counts.visits.sum() == 3


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        (([0, 1], [0, 1], [0.0, 0.0], [[0.0], [0.0]]), "2 actions has 3 states"),
        (([0, 1], [0], [0.0, 0.0], [[0.0]]), "rewards"),
        (([0, 1], [0], [0.0], [[0.0], [0.0]]), "rewards and costs"),
        (([0.5, 1.0], [0], [0.0], [[0.0]]), "states"),
        (([0, 1], ["go"], [0.0], [[0.0]]), "actions"),
        (([[0, 1]], [0], [0.0], [[0.0]]), "states"),
        (([0, 1], [0], [math.nan], [[0.0]]), "rewards of step 0 is not a finite number"),
        (([0, 1, 0], [0, 0], [0.0, 0.0], [[0.0], [math.inf]]), "costs of step 1 is not a finite number"),
        (([0, 1], [0], ["much"], [[0.0]]), "rewards is not an array of numbers"),
        (([0, 1], [0], [0.0], [[[0.0]]]), "costs"),
        (([], [], [], np.zeros((0, 1))), "1 states, not 0"),
    ],
)
def test_episodes_that_are_none(fields: tuple[Any, ...], message: str) -> None:
    with pytest.raises(conrl.ModelError, match=message):
        conrl.Episode(*fields)


def test_a_skipped_episode_has_no_steps() -> None:
    with pytest.raises(conrl.ModelError):
        conrl.Episode([0, 1], [0], [1.0], [[1.0]], skipped=True)


# -- bonuses --------------------------------------------------------------------------------------------------


@few
@given(spec=plays(), k=st.integers(1, 10**6), delta=st.floats(1e-6, 1.0))
def test_theory_bonus_by_hand(spec: Spec, k: int, delta: float) -> None:
    task, _ = spec.build()
    visits = np.array([0, 1, 2, 10, 1000, 10**9])
    found = conrl.TheoryBonus(delta)(visits, k, task)
    S, H = task.num_states + (not spec.known), task.horizon + (not spec.known)
    spread = [3.0, *(2.0 * i + 1.0 for i in range(spec.costs))]
    assert found.shape == (6, 1 + spec.costs)
    for n, row in zip(visits.tolist(), found, strict=True):
        log = math.log(8.0 * S * task.num_actions * H * (spec.costs + 1) * k * k / delta)
        b = min(2.0 * H, H * math.sqrt(2.0 * log / max(n, 1)))
        assert row == pytest.approx([b * x for x in spread], rel=1e-12)


def test_the_spread_includes_the_zero_of_a_pair_never_visited() -> None:
    task = conrl.Task(
        2, 2, 3, [1.0] * 3, list("abc"), reward_range=(2.0, 3.0), cost_ranges=[(-4.0, -1.0), (-1, 1), (0, 0)]
    )
    assert task.spread.tolist() == [3.0, 4.0, 2.0, 0.0]


@pytest.mark.parametrize("delta", [0.0, -0.1, 1.5, math.nan])
def test_theory_bonus_needs_a_probability(delta: float) -> None:
    with pytest.raises(conrl.SpecError, match="delta"):
        conrl.TheoryBonus(delta)


def scaled_truth(seed: int, initial: Any) -> conrl.ConstrainedMDP:
    """Pay in [-2, 3], [10, 30] and [-5, -4] a step, by outcome."""
    rng = np.random.default_rng(seed)
    P = rng.dirichlet(np.full(3, 0.7), size=(3, 2))
    pay = [rng.uniform(lo, hi, size=(3, 2, 3)) for lo, hi in ((-2, 3), (10, 30), (-5, -4))]
    return conrl.ConstrainedMDP(P, pay[0], pay[1:], 4, initial=initial)


@pytest.mark.parametrize("initial", [0, [0.2, 0.5, 0.3]], ids=["known start", "unknown start"])
def test_theory_bonus_is_valid_whatever_the_ranges(initial: Any) -> None:
    """Definition 3.1 at every pair, step, objective and episode of many runs, with delta = 1/2; far less fails."""
    less, held, runs, checks = 0, 0, 20, (1, 2, 4, 9, 20, 60)
    for run in range(runs):
        truth = scaled_truth(run, initial)
        best = conrl.plan(truth, conrl.Linear([90.0, np.inf])).policy
        uniform = conrl.Policy(np.full((4, 3, 2), 0.5))
        V = [theory.values(truth, best, i)[0] for i in range(3)]
        counts, world, rng = Counts(truth.task), ModelWorld(truth), np.random.default_rng(run)
        valid = True
        for k in range(1, max(checks) + 1):
            if k in checks:
                estimate, b = at_task(counts, truth, conrl.TheoryBonus(0.5), k)
                valid &= theory.is_valid(truth, estimate, b, best)
                less += not theory.is_valid(truth, estimate, b / 100.0, best)
                if counts.visits[0] and truth.task.initial is None:  # the pair of START: its first-state error
                    b0 = conrl.TheoryBonus(0.5)(counts.visits[:1], k, truth.task)[0]
                    off = [abs(float((estimate.initial - truth.initial) @ v)) for v in V]
                    valid &= bool((np.array(off) <= b0).all())
            counts.add(world.play(uniform, rng))
        held += valid
    assert held == runs  # the bonus is far on the safe side of its 1 - delta
    assert less >= runs * len(checks) // 2


def at_task(
    counts: Counts, truth: conrl.ConstrainedMDP, bonus: conrl.TheoryBonus, k: int
) -> tuple[conrl.ConstrainedMDP, Float]:
    """The estimate with its bonus [S, A, 1+d], in the task's own states."""
    if truth.task.initial is None and not counts.visits[0]:
        S, A = truth.num_states, truth.num_actions
        P = np.tile(np.eye(S)[:, None, :], (1, A, 1))
        estimate = conrl.ConstrainedMDP(
            P, np.zeros((S, A)), np.zeros((S, A, truth.num_costs)), truth.horizon, initial=truth.initial
        )
        visits = np.zeros((S, A), dtype=np.int64)
    else:
        estimate = counts.full_model()
        assert estimate.counts is not None
        visits = estimate.counts
    table = np.asarray(bonus(visits.reshape(-1), k, truth.task), dtype=np.float64)
    return estimate, table.reshape(*visits.shape, -1)


def test_a_bonus_in_units_of_one_would_not_be_valid() -> None:
    """The spread matters: with pay around 1,000 the formula for [0, 1] covers nothing."""
    truth = conrl.ConstrainedMDP(np.full((2, 2, 2), 0.5), [[0, 1000], [500, 0.0]], [[[0.0], [0]], [[0], [0]]], 3)
    best = conrl.plan(truth, conrl.Linear()).policy
    counts = Counts(truth.task)
    estimate, b = at_task(counts, truth, conrl.TheoryBonus(), 1)
    assert theory.is_valid(truth, estimate, b, best)
    assert not theory.is_valid(truth, estimate, b / truth.task.spread.clip(1.0), best)


VISITS = np.array([0, 1, 4, 100])


@pytest.mark.parametrize("relative", [True, False])
def test_scaled_bonus_by_hand(relative: bool) -> None:
    task = conrl.Task(2, 2, 3, [1.0, 1.0], ["a", "b"], reward_range=(0.0, 10.0), cost_ranges=[(-1.0, 3.0), (0.0, 0.5)])
    unit = [10.0, 4.0, 0.5] if relative else [1.0, 1.0, 1.0]
    bonus = conrl.ScaledBonus(0.2, (-0.4, 0.1), unvisited=3.0, relative=relative)
    expected = [[3.0 * u for u in unit]]
    expected += [[x * u / math.sqrt(n) for x, u in zip((0.2, -0.4, 0.1), unit, strict=True)] for n in (1, 4, 100)]
    assert np.asarray(bonus(VISITS, 7, task)) == pytest.approx(np.array(expected), rel=1e-14)
    one = conrl.ScaledBonus(0.2, -0.4, relative=relative)(VISITS, 7, task)
    assert one[1:, 1] == pytest.approx([-0.4 * unit[1], -0.2 * unit[1], -0.04 * unit[1]])
    assert one[1:, 2] == pytest.approx([-0.4 * unit[2], -0.2 * unit[2], -0.04 * unit[2]])
    assert one[0] == pytest.approx(unit)
    assert VISITS.tolist() == [0, 1, 4, 100]


def test_scaled_bonus_without_costs() -> None:
    assert conrl.ScaledBonus()(VISITS, 1, conrl.Task(1, 1, 1, [], [])).shape == (4, 1)


@pytest.mark.parametrize(
    "wrong",
    [{"reward": math.nan}, {"cost": math.inf}, {"cost": (0.1, math.nan)}, {"unvisited": -1.0}, {"unvisited": math.nan}],
)
def test_scales_that_make_no_bonus(wrong: Any) -> None:
    with pytest.raises(conrl.SpecError, match="makes no bonus"):
        conrl.ScaledBonus(**wrong)


def test_as_many_scales_as_costs() -> None:
    task = conrl.Task(1, 2, 2, [1.0, 1.0], ["a", "b"], initial=0)
    with pytest.raises(conrl.SpecError, match="3 scales for 2 costs"):
        conrl.ConRL(task, bonus=conrl.ScaledBonus(cost=[0.1, 0.2, 0.3])).propose()


# -- what a learner does with a bonus -------------------------------------------------------------------------


class Spy:
    """A planner that remembers what it was given."""

    name = "spy"
    problems = (conrl.Linear, conrl.ConcaveConvex, conrl.Knapsack)

    def __init__(self) -> None:
        self.models: list[conrl.ConstrainedMDP] = []

    def plan(self, mdp: conrl.ConstrainedMDP, problem: Any, start: Any = None, relax: bool = False) -> conrl.Plan:
        self.models.append(mdp)
        return dataclasses.replace(conrl.plan(mdp, conrl.Linear()), problem=problem, status="approximate")


def planned_in(
    task: conrl.Task, bonus: Any, episodes: Sequence[conrl.Episode], problem: Any = None
) -> tuple[conrl.ConstrainedMDP, Counts]:
    """The model that a learner plans in after some episodes, and its counts."""
    spy = Spy()
    learner = conrl.ConRL(task, problem=problem, bonus=bonus, planner=spy)
    learner.prime(episodes)
    learner.propose()
    return spy.models[-1], learner.counts


@pytest.mark.parametrize("shape", ["per pair", "per coordinate"])
def test_a_bonus_of_ones_own(shape: str) -> None:
    task, episodes = Spec(4, 2, 3, 2, False, True, True, 10, 11).build()
    given: list[tuple[Int, int, conrl.Task]] = []

    def bonus(visits: Int, episode: int, known: conrl.Task) -> Float:
        given.append((visits.copy(), episode, known))
        b = np.asarray(1.0 / (1.0 + visits), dtype=np.float64)
        return b if shape == "per pair" else np.outer(b, [1.0, 2.0, 0.0])

    model, counts = planned_in(task, bonus, episodes)
    visits, k, known = given[-1]
    assert k == len(episodes) + 1  # logged episodes count
    assert known is task
    assert np.array_equal(visits, counts.visits)
    expected = 1.0 / (1.0 + counts.visits)[:, None] * ([1.0, 1.0, 1.0] if shape == "per pair" else [1.0, 2.0, 0.0])
    expected[counts.known] = 0.0  # END: there is nothing to learn
    assert model.bonus is not None
    seen = counts.visits > 0
    assert np.array_equal(model.bonus[seen], expected[seen])
    assert np.array_equal(model.pay[seen], counts.model().pay[seen])
    low, high = task.ranges.T  # of pairs never visited: within what is declared
    assert (model.pay - model.bonus)[~seen] == pytest.approx(np.clip(-expected, low, high)[~seen], abs=1e-15)
    assert (model.pay + model.bonus)[~seen] == pytest.approx(np.clip(expected, low, high)[~seen], abs=1e-15)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda v, k, t: np.ones(v.size + 1),
        lambda v, k, t: np.ones((v.size, 2)),
        lambda v, k, t: np.ones((v.size, 3, 1)),
        lambda v, k, t: 1.0,
        lambda v, k, t: np.full(v.size, math.nan),
        lambda v, k, t: np.full((v.size, 3), math.inf),
    ],
    ids=["one more", "too few columns", "three dimensions", "a number", "nan", "infinite"],
)
def test_bonuses_that_are_none(wrong: Any) -> None:
    task = conrl.Task(3, 2, 2, [1.0, 1.0], ["a", "b"], initial=0)
    learner = conrl.ConRL(task, bonus=wrong)
    with pytest.raises(conrl.SpecError, match="bonus"):
        learner.propose()
    assert learner.episodes == 0


def test_a_bonus_cannot_change_the_counts() -> None:
    def bonus(visits: Int, episode: int, task: conrl.Task) -> Float:
        b = 1.0 / np.maximum(visits, 1)
        with suppress(ValueError):  # read-only would do
            visits += 5
        return b

    task, episodes = Spec(3, 2, 3, 1, True, False, False, 4, 2).build()
    _, counts = planned_in(task, bonus, episodes)
    assert np.array_equal(counts.visits, counted(task, episodes).visits)


def test_caution_moves_the_estimate_against_the_limits() -> None:
    """Less reward, more of what has a limit, less of what has a floor; neither of what has both."""
    task, episodes = Spec(4, 2, 4, 4, True, False, False, 9, 4).build()
    inf = math.inf
    problem = conrl.Linear([1.0, inf, 2.0, inf], [-inf, 0.5, 0.1, -inf])
    bonus = conrl.ScaledBonus(-0.3, (-0.1, -0.2, -0.3, -0.4), relative=False, bounded=False)
    model, counts = planned_in(task, bonus, episodes, problem)
    plain, n = counts.model(), np.maximum(counts.visits, 1)
    moved = (model.pay - plain.pay) * np.sqrt(n)[:, None]
    seen = counts.visits > 0
    assert seen.any()
    assert (~seen).any()
    assert np.abs(moved[seen] - [-0.3, 0.1, -0.2, 0.0, 0.4]).max() <= 1e-12
    assert (moved[~seen] == 0.0).all()
    assert model.bonus is not None
    assert (model.bonus[seen] == 0.0).all()
    assert (model.bonus[~seen] == 1.0).all()  # unvisited: optimistic, or nothing would be tried


def test_optimism_and_caution_side_by_side() -> None:
    task, episodes = Spec(4, 2, 4, 1, True, False, False, 9, 4).build()
    model, counts = planned_in(task, conrl.ScaledBonus(0.5, -0.25, relative=False), episodes)
    seen, n = counts.visits > 0, np.maximum(counts.visits, 1)
    assert model.bonus is not None
    assert model.bonus[seen] == pytest.approx(np.stack((0.5 / np.sqrt(n), 0.0 * n), axis=1)[seen])
    assert (model.pay - counts.model().pay)[seen, 1] == pytest.approx(0.25 / np.sqrt(n[seen]))


# -- estimate -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["episodes", "iterator", "Log", "csv", "npz"])
@pytest.mark.parametrize("known", [True, False])
def test_estimates_from_any_form(form: str, known: bool, tmp_path: Path) -> None:
    task, episodes = Spec(4, 3, 5, 2, known, False, True, 15, 8).build()
    log: Any = episodes
    if form == "iterator":
        log = iter(episodes)
    elif form == "Log":
        conrl.save_episodes(tmp_path / "log.csv", episodes, task.cost_names)
        log = conrl.load_episodes(tmp_path / "log.csv")
    elif form in ("csv", "npz"):
        log = tmp_path / f"log.{form}"
        conrl.save_episodes(log, episodes, task.cost_names)
        log = str(log) if form == "csv" else log
    model = conrl.estimate(log, task=task)
    reference = counted(task, episodes).full_model()
    assert np.abs(dense_transitions(model) - dense_transitions(reference)).max() <= 1e-15
    assert model.counts is not None
    assert reference.counts is not None
    assert np.array_equal(model.counts, reference.counts)
    assert np.abs(model.pay - reference.pay).max() <= 1e-14
    assert np.array_equal(model.initial, reference.initial)


@pytest.mark.parametrize("known", [True, False])
def test_the_task_is_read_off_the_log(known: bool) -> None:
    task, episodes = Spec(4, 3, 5, 2, known, False, True, 30, 8).build()
    model = conrl.estimate(episodes)
    seen = naive(task, episodes)
    assert model.counts is not None
    assert model.num_states == 5  # END
    assert model.num_actions == 3
    assert model.horizon == max(map(len, episodes))
    assert model.limits is not None
    assert np.isinf(model.limits).all()
    assert np.array_equal(model.counts[:4], seen.N[:4])
    pay = np.concatenate([e.pay for e in episodes])
    assert model.cost_names == ("cost0", "cost1")
    first = np.bincount([int(np.asarray(e.states)[0]) for e in episodes if len(e)], minlength=5) / sum(
        len(e) > 0 for e in episodes
    )
    assert model.initial == pytest.approx(first, abs=1e-15)
    assert (model.pay.min(axis=0) >= np.minimum(pay.min(axis=0), 0.0) - 1e-12).all()
    assert (model.pay.max(axis=0) <= np.maximum(pay.max(axis=0), 0.0) + 1e-12).all()
    other = conrl.estimate(episodes, horizon=9, limits={"cost1": 2.5})
    assert other.horizon == 9
    assert other.limits is not None
    assert other.limits.tolist() == [math.inf, 2.5]
    assert conrl.plan(other).costs[1] <= 2.5 + 1e-9


def test_names_of_a_log(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text(
        "episode,step,state,action,reward,cost_fuel,next_state,terminated\n"
        "1,0,home,go,1,0.5,shop,0\n1,1,shop,stay,2,0.25,shop,1\n2,0,home,stay,0,0,home,0\n"
    )
    model = conrl.estimate(path, limits=[0.4])
    assert model.state_names == ("home", "shop", "(end)")
    assert model.action_names == ("go", "stay")
    assert model.cost_names == ("fuel",)
    assert model.counts is not None
    assert model.counts.tolist() == [[1, 1], [0, 1], [0, 0]]
    assert dense_transitions(model)[1, 1].tolist() == [0.0, 0.0, 1.0]
    assert conrl.plan(model).reward == pytest.approx(0.4 / 0.75 * 3.0)  # go and stay at 0.75, or stay at home
    tried = conrl.estimate(path, unvisited="missing")
    assert tried.available.tolist() == [[True, True], [False, True], [True, False]]


def test_a_state_that_is_called_end(tmp_path: Path) -> None:
    path = tmp_path / "log.csv"
    path.write_text("episode,step,state,action,reward,next_state,terminated\n1,0,(end),go,1,b,1\n")
    model = conrl.estimate(path)
    assert model.num_states == 3
    assert len(set(model.state_names)) == 3


def test_estimate_refuses_what_it_cannot_use(tmp_path: Path) -> None:
    _, episodes = Spec(3, 2, 3, 1, True, False, False, 3, 0).build()
    with pytest.raises(conrl.SpecError, match="unvisited"):
        conrl.estimate(episodes, unvisited="self loop")
    with pytest.raises(conrl.RunError, match="no step"):
        conrl.estimate([])
    with pytest.raises(conrl.RunError, match="no step"):
        conrl.estimate([conrl.Episode.null(1), conrl.Episode([0], [], [], np.zeros((0, 1)))])
    with pytest.raises(conrl.RunError, match="episode 1 of the log: an episode of 3 steps; the task has 2"):
        conrl.estimate(episodes, horizon=2)
    with pytest.raises(conrl.ModelError, match="no such file"):
        conrl.estimate(tmp_path / "none.csv")
    with pytest.raises(conrl.ModelError, match="limits"):
        conrl.estimate(episodes, limits=[1.0, 2.0])
    with pytest.raises(conrl.ModelError, match="unknown cost"):
        conrl.estimate(episodes, limits={"fuel": 2.0})


def test_episodes_of_different_costs_make_no_estimate() -> None:
    one, two = (conrl.Episode([0, 0], [0], [1.0], np.zeros((1, d))) for d in (1, 2))
    with pytest.raises(conrl.ConRLError, match="costs"):
        conrl.estimate([one, two])


@pytest.mark.parametrize("given", [{"horizon": 7}, {"limits": [9.0]}, {"horizon": 7, "limits": [9.0]}])
def test_horizon_and_limits_beside_a_task_are_refused(given: Any) -> None:
    task, episodes = Spec(3, 2, 3, 1, True, False, False, 3, 0).build()
    with pytest.raises(conrl.SpecError, match="a task has a horizon and limits of its own"):
        conrl.estimate(episodes, task=task, **given)


@pytest.mark.parametrize(
    "header",
    [
        pytest.param(
            "episode,step,state,action,reward,cost_time,cost_fuel,next_state",
            id="costs in another order",
        ),
        pytest.param("episode,step,state,action,reward,next_state", id="no costs"),
    ],
)
def test_costs_of_a_log_are_those_of_the_task(header: str, tmp_path: Path) -> None:
    """As `prime` has it: else fuel would be counted as time."""
    path = tmp_path / "log.csv"
    path.write_text(header + "\n" + ",".join(["0", "0", "1", "0", "1"] + ["0"] * (header.count(",") - 4)) + "\n")
    with pytest.raises(conrl.RunError, match="costs"):
        conrl.estimate(path, task=TASK)


def test_texts_are_no_indices_of_a_task(tmp_path: Path) -> None:
    """As `prime` has it: texts are numbered by first appearance, which is not the task's numbering."""
    path = tmp_path / "log.csv"
    path.write_text("episode,step,state,action,reward,cost_fuel,cost_time,next_state\n0,0,b,go,1,0,0,b\n")
    task = conrl.Task(3, 2, 3, [1.0, 1.0], ["fuel", "time"], initial=0)
    with pytest.raises(conrl.RunError, match="the log has names for its states, and the task has none"):
        conrl.estimate(path, task=task)


def test_a_plan_on_a_good_estimate_is_near_the_optimum() -> None:
    truth = random_model(3, 5, 3, 5, 2)
    truth = truth.replace(initial=[0.5, 0.5, 0, 0, 0])
    problem = conrl.Linear([2.0, 2.2])
    best = solve_lp(truth, problem)
    assert best is not None
    rng = np.random.default_rng(1)
    world = ModelWorld(truth, conrl.Task(5, 3, 5, [1.0, 1.0], truth.cost_names), pay="bernoulli")
    uniform = conrl.Policy(np.full((5, 5, 3), 1 / 3))
    episodes = [world.play(uniform, rng) for _ in range(2500)]
    model = conrl.estimate(episodes)
    found = conrl.plan(model, problem)
    value = conrl.evaluate(truth, found.policy)
    assert found.objective == pytest.approx(best.value, rel=0.02)
    assert value.reward == pytest.approx(best.value, rel=0.02)
    assert (value.costs <= np.array([2.0, 2.2]) * 1.03).all()
    assert np.abs(dense_transitions(model) - dense_transitions(truth)).max() <= 0.05
    assert np.abs(model.initial - truth.initial).max() <= 0.03


# -- what was really paid -------------------------------------------------------------------------------------


def outcomes_of(model: conrl.ConstrainedMDP) -> dict[tuple[Any, ...], float]:
    """(state, action, next state, *pay) -> probability."""
    pair = np.repeat(np.arange(model.num_pairs), np.diff(model.graph.start))
    paid = model.pay[pair] if model.outcome_pay is None else model.outcome_pay
    keys = zip(
        model.pair_state[pair].tolist(), model.action[pair].tolist(), model.graph.successor.tolist(), strict=True
    )
    found = {(*key, *row): p for key, row, p in zip(keys, paid.tolist(), model.graph.probability, strict=True)}
    assert len(found) == pair.size
    return found


@few
@given(spec=plays(), grid=st.booleans())
def test_an_estimate_pays_what_was_seen_as_often_as_it_was(spec: Spec, grid: bool) -> None:
    """Against a dictionary of steps; pay is continuous (each step its own outcome), or on a grid (some are equal)."""
    task, episodes = spec.build()
    if grid:
        episodes = [
            conrl.Episode(e.states, e.actions, e.pay[:, 0].round(), e.pay[:, 1:].round(), terminated=e.terminated)
            for e in episodes
        ]
    steps: dict[tuple[Any, ...], int] = {}
    for e in episodes:
        states = np.asarray(e.states).tolist()
        states[-1:] = [task.num_states] if e.terminated and len(e) else states[-1:]
        for s, a, t, row in zip(states[:-1], np.asarray(e.actions).tolist(), states[1:], e.pay.tolist(), strict=True):
            steps[s, a, t, *row] = steps.get((s, a, t, *row), 0) + 1
    if not steps:
        return
    model = conrl.estimate(episodes, task=task, unvisited="missing")
    visits: dict[tuple[int, int], int] = {}
    for (s, a, *_), n in steps.items():
        visits[s, a] = visits.get((s, a), 0) + n
    found = {key: p for key, p in outcomes_of(model).items() if key[:2] in visits}
    assert found == {key: n / visits[key[:2]] for key, n in steps.items()}
    means = counted(task, episodes).full_model(unvisited="missing")
    assert np.abs(model.pay - means.pay).max() <= 1e-13
    if spec.costs:
        limits = conrl.Linear(conrl.plan(means, conrl.Linear()).costs)  # what the best policy costs: feasible
        assert conrl.plan(model, limits).reward == pytest.approx(conrl.plan(means, limits).reward, abs=1e-7)


@pytest.mark.parametrize("known", [True, False])
def test_a_learner_is_primed_with_the_log_that_its_task_was_estimated_from(known: bool) -> None:
    """Of means the ranges were narrower than what one step pays, and the log was refused."""
    _, episodes = Spec(4, 3, 5, 2, known, False, True, 40, 8).build()
    pay = np.concatenate([e.pay for e in episodes])
    for unvisited in ("self-loop", "missing"):
        model = conrl.estimate(episodes, unvisited=unvisited)
        assert conrl.ConRL(model.task).prime(episodes) == 40
        low, high = np.minimum(pay.min(axis=0), 0.0), np.maximum(pay.max(axis=0), 0.0)  # END pays nothing
        assert np.array_equal(model.task.ranges, np.column_stack((low, high)))


def test_ranges_of_a_task_stay_those_of_its_estimates() -> None:
    """A learner's model has means only; what one step may pay is what the task said."""
    task, episodes = Spec(4, 3, 5, 2, True, False, False, 12, 8).build()
    learner = conrl.ConRL(task)
    learner.prime(episodes)
    for model in (learner.model, conrl.estimate(episodes, task=task)):
        assert np.array_equal(model.task.ranges, task.ranges)
        assert conrl.ConRL(model.task).prime(episodes) == 12


def test_an_estimate_is_read_back_from_a_file(tmp_path: Path) -> None:
    """Pairs never visited pay 0, below all that was seen."""
    episodes = [conrl.Episode([0, 1, 1], [0, 1], [3.0, 5.0], [[2.0], [2.5]])]
    for unvisited in ("self-loop", "missing"):
        model = conrl.estimate(episodes, unvisited=unvisited)
        conrl.save_model(tmp_path / "model.npz", model)
        again = conrl.load_model(tmp_path / "model.npz")
        low = 0.0 if unvisited == "self-loop" else 1.0
        assert again.task.ranges.tolist() == model.task.ranges.tolist() == [[3.0 * low, 5.0], [2.0 * low, 2.5]]
        assert outcomes_of(again) == outcomes_of(model)


@pytest.mark.filterwarnings("ignore:the steps of the log differ")
def test_the_tails_of_an_estimate_are_those_of_the_log() -> None:
    """One pair that costs 10 in one step of ten: 5 such steps exceed 10 with probability 1 - 0.9^5 - 5 0.1 0.9^4."""
    costs = np.zeros((40, 5))
    costs.flat[::10] = 10.0
    episodes = [conrl.Episode([0] * 6, [0] * 5, np.zeros(5), row) for row in costs]
    model = conrl.estimate(episodes, limits=[10.0])
    assert outcomes_of(model) == {(0, 0, 0, 0.0, 0.0): 0.9, (0, 0, 0, 0.0, 10.0): 0.1}
    stay = conrl.Deterministic([[0]] * 5, 1)
    seen = conrl.simulate(model, stay, episodes=20_000, seed=1)
    assert seen.exceed()[0] == pytest.approx(1.0 - 0.9**5 - 0.5 * 0.9**4, abs=0.01)
    assert seen.pays_means == ("reward",)  # which was 0 throughout
    learner = conrl.ConRL(model.task)
    learner.prime(episodes)
    thin = conrl.simulate(learner.model, stay, episodes=100)
    assert thin.costs == pytest.approx(np.full((100, 1), 5.0))
    assert thin.pays_means == ("reward", "cost")
