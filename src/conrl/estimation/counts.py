"""Sparse counts of what was seen, and the empirical model: Eqs. 4 to 7, Brantley et al. (2020).

    N(s, a)        visits                           r_hat(s, a)     mean reward of the visits
    p_hat(t|s, a)  share of visits that led to t    c_hat(s, a, i)  mean of cost i

A pair never visited is estimated as a self-loop without reward and cost, which keeps p_hat stochastic; the bonus is
what draws the learner there. Two states may join those of the task. Where the first state is unknown, an extra state
START with one action leads to it, in an episode of H + 1 steps (footnote 1 of the paper). What an environment ends
early goes to END, which is known to be absorbing and to pay nothing.

Where a task depends on the step, a state at step h is counted as a state of its own, h * S + s (`Task.unrolled`).

Counts are sparse: states have places in the order in which they are first seen, and only those seen are stored. The
empirical model of the *places* is what a learner plans in: its size grows with experience, not with the task.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from conrl import kernels
from conrl._types import Array, Bool, Float, Int
from conrl.arguments import frozen, sealed
from conrl.episode import Episode, distinct_steps, unrolled, unrolled_states
from conrl.errors import ModelError, RunError, SpecError, shown
from conrl.estimation.tally import Tally
from conrl.model import ConstrainedMDP, Task
from conrl.model.graph import Graph
from conrl.model.mdp import Logged, Origin
from conrl.model.transform import rolled

ROUNDING = 1e-9  # of sums, in proportion
DERIVED = ("means", "share")  # what follows from the rest and is not saved
LATER = ("centers", "moments")  # not in files of 0.1: each successor then paid the mean of its pair, without noise


class Outcomes(NamedTuple):
    """What pairs have led to: one entry for each pair and successor."""

    pair: Int  # ascending
    place: Int  # of the successor
    times: Int  # how often it was come to
    centers: Float  # [., 1+d]: the mean pay of those visits
    squares: Float  # [., 1+d]: the sum of its squared deviations


class Counts:
    """What was seen of a task, sparsely. The letters are those of `kernels.count_steps`."""

    num_seen: int  # states seen, START and END among them: n
    num_pairs: int  # of those states: P
    order: Int  # [n]: the state at each place
    first: Int  # [n+1]: the pairs of place i are first[i] .. first[i+1]-1
    action: Int  # [P]: of each pair of the places
    visits: Int  # [P]
    means: Float  # [P, 1+d]: of reward and costs

    def __init__(self, task: Task) -> None:
        """Nothing seen yet but the first state; START if that is unknown."""
        self._rolled, self.task = task, task.unrolled
        self.tally: Tally | None = None  # of what single outcomes cost, where that matters
        # [pairs then, 1+d]: the most that squared deviations can sum to of visits whose deviations no file has kept.
        self.unkept: Float | None = None
        task = self.task
        S, A, width = task.num_states, task.num_actions, 1 + task.num_costs
        self.start, self.end = S, S + 1  # the extra states, with one action each
        self.horizon = task.horizon + (task.initial is None)
        self.first_seen = self.start if task.initial is None else task.initial
        exists = np.zeros((S + 2, A), dtype=bool)
        exists[:S] = True if task.available is None else task.available
        exists[S:, 0] = True
        self.exists = frozen(exists)  # [S+2, A]
        self._rank = np.where(exists, np.cumsum(exists, axis=1) - 1, -1).astype(np.int16)
        self._place = np.full(S + 2, -1, dtype=np.int64)
        self._sizes = np.zeros(2, dtype=np.int64)  # states seen, links
        self._capacity = (0, 0)  # how many of them the arrays can hold
        # As `kernels.count_steps` takes them: by place, by pair, by link. They are longer than what they hold.
        self._arrays: dict[str, Array] = {name: np.zeros(n, dtype=np.int64) for name, n in _lengths(0, 0, 0).items()}
        self._arrays |= {name: np.zeros((0, width)) for name in ("sums", "means", "centers")}
        self._arrays |= {"share": np.zeros(0), "moments": np.zeros((0, width * (width + 1) // 2))}
        self._see(self.first_seen)

    # -- counting -----------------------------------------------------------------------------------------

    def add(self, episode: Episode) -> None:
        """Count the steps of an episode that `check_episode` lets pass."""
        if not episode.actions.size:
            return
        states = unrolled_states(self._rolled, episode.states)
        if episode.terminated:
            states = np.append(states[:-1], self.end)
        self._add(states[None], episode.actions[None], episode.pay[None])

    def add_all(self, episodes: Iterable[Episode]) -> None:
        """Count episodes that `check_episode` lets pass, those of one length together."""
        lengths: dict[int, list[Episode]] = {}
        for episode in episodes:
            lengths.setdefault(len(episode), []).append(episode)
        for length, alike in lengths.items():
            if not length:
                continue
            states = unrolled_states(self._rolled, np.stack([e.states for e in alike]))
            states[[e.terminated for e in alike], -1] = self.end
            self._add(states, np.stack([e.actions for e in alike]), np.stack([e.pay for e in alike]))

    def add_block(self, states: Int, actions: Int, pay: Float) -> None:
        """Count M whole episodes at once: states [M, L+1], actions [M, L], pay [M, L, 1+d], all within the task."""
        self._add(unrolled_states(self._rolled, states), actions, pay)

    def _add(self, states: Int, actions: Int, pay: Float) -> None:
        """Count episodes in states of the unrolled task; the step from START is put before them."""
        if self.task.initial is None:
            states, actions, pay = (
                np.concatenate((np.full((len(x), 1, *x.shape[2:]), new, dtype=x.dtype), x), axis=1)
                for x, new in ((states, self.start), (actions, 0), (pay, 0.0))
            )
        self._count(states, actions, pay)
        if self.tally is not None:
            for one in zip(states, actions, pay, strict=True):
                self.tally.add(*one)

    def _see(self, state: int) -> None:
        """Give a state its place."""
        no_actions = np.zeros((1, 0), dtype=np.int64)
        self._count(np.array([[state]]), no_actions, np.zeros((1, 0, 1 + self.task.num_costs)))

    def _count(self, states: Int, actions: Int, pay: Float) -> None:
        """Count steps, in arrays that double when they are full."""
        before, links = self._sizes.tolist()
        most, capacity = (before + states.size, links + actions.size), self._capacity
        full = most[0] > capacity[0] or most[1] > capacity[1]
        if full:
            self._grow(*(max(m, 2 * c) if m > c else c for m, c in zip(most, capacity, strict=True)))
        counted: list[Any] = [states, actions, pay, self._rank, self._place, *self._arrays.values(), self._sizes]
        kernels.count_steps(*counted)
        if full or self._sizes[0] != before:
            self._measure()

    def _grow(self, n: int, links: int) -> None:
        """Lengthen the arrays for so many states, with all their actions, and links."""
        self._capacity = n, links
        for name, length in _lengths(n, n * self._rank.shape[1], links).items():
            array = self._arrays[name]
            self._arrays[name] = np.zeros((length, *array.shape[1:]), dtype=array.dtype)
            self._arrays[name][: array.shape[0]] = array

    def _measure(self) -> None:
        """Update the fields that are read, when new states were seen: the arrays, cut to what was. Copies that models
        can share where only that changes them, else views."""
        self.num_seen = n = int(self._sizes[0])
        self.num_pairs = P = int(self._arrays["first"][n])
        for name, size in (("order", n), ("first", n + 1), ("action", P)):
            setattr(self, name, sealed(self._arrays[name][:size].copy()))
        self.visits, self.means = (self._arrays[name][:P] for name in ("visits", "means"))
        self.visits.flags.writeable = False  # of this view
        self._initial_place = sealed((np.arange(n) == 0).astype(np.float64))  # [n]: the first
        place = int(self._place[self.end])
        self.known = -1 if place < 0 else int(self.first[place])  # the pair of END: there is nothing to learn about it

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def pair_state(self) -> Int:
        """[P]: the state of each pair of the places."""
        return np.repeat(self.order, np.diff(self.first))

    def graph(self) -> Graph:
        """The empirical transitions between places."""
        arrays, first = self._arrays, self.first
        links = arrays["next"], arrays["successor"], arrays["share"], int(self._sizes[1])
        start, successor, probability = kernels.empirical(first, self.visits, arrays["head"], *links)
        return Graph(first, sealed(start), sealed(successor), sealed(probability))

    def model(
        self, pay: Float | None = None, bonus: Float | None = None, origin: Origin | None = None
    ) -> ConstrainedMDP:
        """The empirical model of the places, which a learner plans in; `pay` [P, 1+d] replaces the means."""
        task = self.task
        return ConstrainedMDP._trusted(
            num_actions=task.num_actions,
            horizon=self.horizon,
            graph=self.graph(),
            action=self.action,
            pay=sealed(self.means.copy()) if pay is None else pay,
            initial=self._initial_place,
            limits=np.asarray(task.limits),
            cost_names=tuple(task.cost_names),
            visits=sealed(self.visits.copy()),
            bonus=bonus,
            origin=origin,
        )

    def noise(self, w: Float, pseudo: float) -> Float:
        """[P]: the deviation of w.pay in one visit, as `Evidence.noise` says."""
        arrays = self._arrays
        noise: Float = kernels.noise(arrays["head"], arrays["next"], arrays["moments"], self.visits, w, pseudo)
        return noise

    def squares(self) -> Float:
        """[P, 1+d]: the sums of squared deviations of the pay of all visits of a pair from its mean; at least those,
        where a file of 0.1 has not kept them: N (high - mean)(mean - low) is the most that pay in its range has."""
        head, following, count, centers, moments = (
            self._arrays[name] for name in ("head", "next", "count", "centers", "moments")
        )
        squares: Float = kernels.scattered(head, following, count, centers, moments, self.means)
        if self.unkept is not None:
            squares[: self.unkept.shape[0]] += self.unkept
        return squares

    def outcomes(self) -> Outcomes:
        """The successors of each pair that were seen, pair by pair."""
        arrays = self._arrays
        pair, link = kernels.listed_links(arrays["head"], arrays["next"], self.num_pairs, int(self._sizes[1]))
        diagonal = np.cumsum(np.arange(1, 2 + self.task.num_costs)) - 1  # of the moments' lower triangle
        place, times, centers = (arrays[name][link] for name in ("successor", "count", "centers"))
        return Outcomes(pair, place, times, centers, arrays["moments"][link][:, diagonal])

    def by_outcome(self, means: ConstrainedMDP) -> ConstrainedMDP:
        """A model of the places with an outcome for each cost that was seen, where they are tallied."""
        return means if self.tally is None else self.tally.model(means, self._pairs(), self._place)

    def _pairs(self) -> Int:
        """[S+2, A]: the pair of each state seen and action."""
        first = np.zeros(self._place.size, dtype=np.int64)
        seen = self._place >= 0
        first[seen] = self.first[self._place[seen]]
        return first[:, None] + self._rank

    def load_tally(self, state: Mapping[str, Array]) -> None:
        """Go on from what `Tally.state` gave; it must add up to these counts, which are loaded already."""
        if self.tally is not None:
            visits = np.zeros(self.exists.shape, dtype=np.int64)
            visits[self.pair_state, self.action] = self.visits
            self.tally.load_state(state, self._place >= 0, visits)

    # -- saving -------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        """Everything, as arrays to save."""
        lengths = _lengths(self.num_seen, self.num_pairs, int(self._sizes[1]))
        arrays = {name: self._arrays[name][:n].copy() for name, n in lengths.items() if name not in DERIVED}
        return arrays if self.unkept is None else arrays | {"unkept": self.unkept.copy()}

    def load_state(self, state: Mapping[str, Array]) -> None:
        """Go on from what `state` gave; refuses what makes no counts of this task."""
        fresh = Counts(self._rolled)
        try:
            n, links = state["order"].shape[0], state["next"].shape[0]
            for name, length in _lengths(n, int(state["first"][-1]), links).items():
                if name in DERIVED:
                    continue
                like = fresh._arrays[name]
                if name in LATER and name not in state:
                    fresh._arrays[name] = np.zeros((length, *like.shape[1:]))
                    continue
                array = state[name]
                if array.shape != (length, *like.shape[1:]) or array.dtype != like.dtype:
                    raise ModelError(f"{name} has shape {array.shape} and dtype {array.dtype}")
                fresh._arrays[name] = array.copy()
            fresh._sizes[:] = n, links
            fresh._check_state(deviations=all(name in state for name in LATER))
            if "unkept" in state:
                fresh.unkept = fresh._read_unkept(state["unkept"])
        except (KeyError, IndexError, TypeError, ValueError, OverflowError, ModelError) as error:
            raise RunError(f"these are no counts of the task: {error}") from None
        fresh._capacity = (0, 0)  # the next count lengthens them
        fresh._measure()
        fresh.tally = self.tally
        self.__dict__.update(fresh.__dict__)

    def _check_state(self, deviations: bool) -> None:
        """Whether arrays from a file hang together, so that no kernel leaves them; make those that follow from them."""
        order, first, action, visits, sums = (self._arrays[x] for x in ("order", "first", "action", "visits", "sums"))
        n = order.size
        strange = self.start if self.task.initial is not None else -1  # no place for START where the first is known
        distinct = n > 0 and order.min() >= 0 and order.max() <= self.end and np.unique(order).size == n
        if not distinct or order[0] != self.first_seen or (order == strange).any():
            raise ModelError("order is not a list of distinct states")
        exists = self._rank[order] >= 0
        if first[0] != 0 or not np.array_equal(np.diff(first), exists.sum(axis=1)):
            raise ModelError("first does not fit the actions of the states")
        if not np.array_equal(action, np.nonzero(exists)[1]):
            raise ModelError("action does not fit the actions of the states")
        owner = self._owners(n)
        count = self._arrays["count"]
        if not np.array_equal(np.bincount(owner, weights=count, minlength=visits.size), visits):
            raise ModelError("visits are not the sums of count")
        paid = ~np.isin(np.repeat(order, np.diff(first)), (self.start, self.end))  # START and END pay nothing
        low, high = (np.outer(visits * paid, ends) for ends in self.task.ranges.T)
        rounding = ROUNDING * np.maximum(np.abs(low), np.abs(high))
        if not ((low - rounding <= sums) & (sums <= high + rounding)).all():
            raise ModelError("sums has an entry that visits within the task's ranges cannot add up to")
        means = sums / np.maximum(visits, 1)[:, None]
        if not deviations:
            self._arrays["centers"] = means[owner]
            self.unkept = np.maximum((high - sums) * (sums - low), 0.0) / np.maximum(visits, 1)[:, None]
        self._check_deviations(owner, paid)
        self._arrays |= {"means": means, "share": count / visits[owner]}
        self._place[order] = np.arange(n)

    def _read_unkept(self, array: Array) -> Float:
        visits, width = self._arrays["visits"][: array.shape[0], None], self.task.ranges[:, 1] - self.task.ranges[:, 0]
        if array.dtype != np.float64 or array.shape != (visits.size, width.size):
            raise ModelError(f"unkept has shape {array.shape} and dtype {array.dtype}")
        if not ((array >= 0.0) & (array <= (1.0 + ROUNDING) * visits * width**2 / 4.0)).all():
            raise ModelError("unkept has an entry that pay within the task's ranges cannot have")
        return array.copy()

    def _check_deviations(self, owner: Int, paid: Bool) -> None:
        """Whether the pay by successor adds up to that of the pairs, and deviates from its means as numbers can."""
        count, centers, moments = (self._arrays[x] for x in ("count", "centers", "moments"))
        low, high = self.task.ranges.T
        near = ROUNDING * np.maximum(np.abs(low), np.abs(high))
        # The mean pay of visits whose sums were checked: one link of a pair may still be out of range.
        pays = paid[owner][:, None]
        if not ((low * pays - near <= centers) & (centers <= high * pays + near)).all():
            raise ModelError("centers has an entry outside the task's ranges")
        total = np.zeros_like(self._arrays["sums"])
        np.add.at(total, owner, count[:, None] * centers)
        if not (np.abs(total - self._arrays["sums"]) <= self._arrays["visits"][:, None] * near).all():
            raise ModelError("centers do not add up to sums")
        most = (high - low) * pays + near
        rows, columns = np.tril_indices(low.size)
        if not (np.abs(moments) <= count[:, None] * most[:, rows] * most[:, columns]).all():
            raise ModelError("moments has an entry that pay within the task's ranges cannot have")
        if (moments[:, rows == columns] < 0.0).any():
            raise ModelError("moments has a negative sum of squares")

    def _owners(self, num_seen: int) -> Int:
        """[links]: the pair of each link. Refuses lists of successors that do not hang together.

        The successors of a pair are a list of links: the first is `head`, and each has the one that follows it.
        """
        head, following, successor, count = (self._arrays[x] for x in ("head", "next", "successor", "count"))
        links = following.size
        pointers = np.concatenate((head, following))
        if pointers.min(initial=-1) < -1 or not np.array_equal(np.sort(pointers[pointers >= 0]), np.arange(links)):
            raise ModelError("the lists of successors are broken")
        if (following[following >= 0] <= np.flatnonzero(following >= 0)).any():
            raise ModelError("the lists of successors run backwards")  # they could run in circles
        if links and (successor.min() < 0 or successor.max() >= num_seen or count.min() < 1):
            raise ModelError("successor or count is out of range")
        owner = np.full(links, -1)
        for k in np.flatnonzero(head >= 0):
            link = head[k]
            while link >= 0:
                owner[link] = k
                link = following[link]
        return owner

    # -- the whole task -----------------------------------------------------------------------------------

    def full_model(
        self, *, unvisited: str = "self-loop", episodes: Sequence[Episode] | None = None, **names: Any
    ) -> ConstrainedMDP:
        """The empirical model of the task's own states, with counts; the first state has its empirical distribution.

        A state END joins them if some episode terminated. Pairs never visited are self-loops without pay, or `missing`:
        then they do not exist, except that a state without any keeps them all as self-loops.

        Counts keep sums, so that a pair pays its mean whatever the outcome. With `episodes`, the very ones that were
        counted, it pays what was seen, as often as it was seen. The ranges of pay are those of the task either way.
        """
        if not isinstance(unvisited, str) or unvisited not in ("self-loop", "missing"):
            raise SpecError(f"unvisited is {shown(unvisited)}; it must be 'self-loop' or 'missing'")
        task = self.task
        S, A = task.num_states, task.num_actions
        ends = bool(self._place[self.end] >= 0)
        total = S + ends
        inner, order = self.model(), np.where(self.order == self.end, S, self.order)
        counts = np.zeros((total, A), dtype=np.int64)
        real = self.order[inner.pair_state] != self.start
        counts[order[inner.pair_state[real]], inner.action[real]] = self.visits[real]
        exists = self.exists[:total].copy()  # END has one action, as START
        if unvisited == "missing":
            tried = counts > 0
            exists &= tried | ~tried.any(axis=1, keepdims=True)
        if episodes is None:
            pair = np.repeat(np.arange(inner.num_pairs), np.diff(inner.graph.start))
            kept = real[pair] & (self.visits[pair] > 0)
            pair = pair[kept]
            state, action = order[inner.pair_state[pair]], inner.action[pair]
            successor, probability = order[inner.graph.successor[kept]], inner.graph.probability[kept]
            pay = inner.pay[pair]
        else:
            played = [unrolled(self._rolled, episode) for episode in episodes]
            state, action, successor, times, pay = distinct_steps(played, end=S)
            probability = times / counts[state, action]
        s0, a0 = np.nonzero(exists & (counts == 0))
        model = ConstrainedMDP.from_outcomes(
            np.concatenate((state, s0)),
            np.concatenate((action, a0)),
            np.concatenate((successor, s0)),
            np.concatenate((probability, np.ones(s0.size))),
            np.concatenate((pay, np.zeros((s0.size, 1 + task.num_costs)))),
            num_states=total,
            num_actions=A,
            horizon=task.horizon,
            initial=self._initial(inner.graph, order, total),
            limits=task.limits,
            cost_names=task.cost_names,
            can_stop=task.can_stop,
            **({} if self._rolled.step_dependent else names),
        )
        low, high = model._realised()  # what was never visited pays 0, which may be outside the task's ranges
        ranges = np.column_stack((np.minimum(task.ranges[:, 0], low), np.maximum(task.ranges[:, 1], high)))
        starts = 0
        if episodes is not None and task.initial is None:
            starts = sum(len(episode) > 0 for episode in episodes)
        log = Logged(starts, self._rolled.num_states if ends else -1, episodes is not None, task.ranges)
        model = model._copy(_visits=frozen(counts[model.pair_state, model.action]), _ranges=frozen(ranges), _log=log)
        return rolled(model, self._rolled.num_states, **names) if self._rolled.step_dependent else model

    def _initial(self, graph: Graph, order: Int, total: int) -> int | Float:
        """The first state, or its empirical distribution: where START led, in the states `order` [n] of the places."""
        if self.task.initial is not None:
            return int(self.task.initial)
        if self.visits[0] == 0:
            raise RunError("no episode has been seen, so that the first state is unknown")
        led = slice(graph.start[1])
        initial = np.zeros(total)
        initial[order[graph.successor[led]]] = graph.probability[led]
        return initial


def _lengths(states: int, pairs: int, links: int) -> dict[str, int]:
    """How many entries each array of counts has, for so many states seen, their pairs and links."""
    by_pair = dict.fromkeys(("action", "visits", "sums", "means", "head"), pairs)
    by_link = dict.fromkeys(("next", "successor", "count", "share", "centers", "moments"), links)
    return {"order": states, "first": states + 1, **by_pair, **by_link}
