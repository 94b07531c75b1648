"""Sparse counts of what was seen, and the empirical model: Eqs. (empirical-N) to (empirical-c), Brantley et al. (2020).

    N(s, a)        visits                           r_hat(s, a)     mean reward of the visits
    p_hat(t|s, a)  share of visits that led to t    c_hat(s, a, i)  mean of cost i

A pair never visited is estimated as a self-loop without reward and cost, which keeps p_hat stochastic; the bonus is
what draws the learner there. Two states may join those of the task. Where the first state is unknown, an extra state
START with one action leads to it, in an episode of H + 1 steps (footnote 1 of the paper). What an environment ends
early goes to END, which is known to be absorbing and to pay nothing.

Counts are sparse: states have places in the order in which they are first seen, and only those seen are stored. The
empirical model of the *places* is what a learner plans in: its size grows with experience, not with the task.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from conrl import kernels
from conrl._types import Array, Bool, Float, Int
from conrl.arguments import frozen
from conrl.episode import Episode, distinct_steps
from conrl.errors import ModelError, RunError, SpecError, shown
from conrl.model import ConstrainedMDP, Task
from conrl.model.graph import Graph

ROUNDING = 1e-9  # of sums, in proportion
DERIVED = ("means", "share")  # what follows from the rest and is not saved


class Counts:
    """What was seen of a task, sparsely. The letters are those of `kernels.count_steps`."""

    def __init__(self, task: Task) -> None:
        self.task = task
        S, A, d = task.num_states, task.num_actions, task.num_costs
        self.start, self.end = S, S + 1  # the extra states, with one action each
        self.horizon = task.horizon + (task.initial is None)
        exists = np.zeros((S + 2, A), dtype=bool)
        exists[:S] = True if task.available is None else task.available
        exists[S:, 0] = True
        self.exists = frozen(exists)  # [S+2, A]
        self._rank = np.where(exists, np.cumsum(exists, axis=1) - 1, -1).astype(np.int16)
        self._place = np.full(S + 2, -1, dtype=np.int64)
        self._sizes = np.zeros(2, dtype=np.int64)  # states seen, links
        self._of_state: dict[str, Array] = {"order": np.zeros(0, dtype=np.int64), "first": np.zeros(1, dtype=np.int64)}
        self._of_pair: dict[str, Array] = {
            "action": np.zeros(0, dtype=np.int64),
            "visits": np.zeros(0, dtype=np.int64),
            "sums": np.zeros((0, 1 + d)),
            "means": np.zeros((0, 1 + d)),
            "head": np.zeros(0, dtype=np.int64),
        }
        self._of_link: dict[str, Array] = {name: np.zeros(0, dtype=np.int64) for name in ("next", "successor", "count")}
        self._of_link["share"] = np.zeros(0)  # count / visits: p_hat
        self._see(self.start if task.initial is None else task.initial)

    # -- counting -----------------------------------------------------------------------------------------

    def add(self, episode: Episode) -> None:
        """Count the steps of an episode that `check_episode` lets pass."""
        states, actions, pay = np.asarray(episode.states), np.asarray(episode.actions), episode.pay
        if not actions.size:
            return
        if episode.terminated:
            states = np.append(states[:-1], self.end)
        if self.task.initial is None:
            states = np.concatenate(([self.start], states))
            actions = np.concatenate(([0], actions))
            pay = np.concatenate((np.zeros((1, pay.shape[1])), pay))
        self._count(states, actions, pay)

    def _see(self, state: int) -> None:
        """Give a state its place."""
        no_actions = np.zeros(0, dtype=np.int64)
        self._count(np.array([state]), no_actions, np.zeros((0, 1 + self.task.num_costs)))

    def _count(self, states: Int, actions: Int, pay: Float) -> None:
        self._reserve(states.size, actions.size)
        counted: list[Any] = [states, actions, pay, self._rank, self._place]
        for group in (self._of_state, self._of_pair, self._of_link):
            counted += group.values()
        counted.append(self._sizes)
        kernels.count_steps(*counted)

    def _reserve(self, states: int, links: int) -> None:
        """Room for so many more, by doubling."""
        n, m = (int(x) for x in self._sizes)
        pairs = (n + states) * self._rank.shape[1]
        for group, needed in (
            (self._of_state, n + states + 1),
            (self._of_pair, pairs),
            (self._of_link, m + links),
        ):
            for name, array in group.items():
                if array.shape[0] < needed:
                    grown = np.zeros((max(needed, 2 * array.shape[0]), *array.shape[1:]), dtype=array.dtype)
                    grown[: array.shape[0]] = array
                    group[name] = grown

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def num_seen(self) -> int:
        """States seen, START and END among them."""
        return int(self._sizes[0])

    @property
    def order(self) -> Int:
        """[n]: the state at each place."""
        return self._of_state["order"][: self.num_seen]

    @property
    def num_pairs(self) -> int:
        return int(self._of_state["first"][self.num_seen])

    @property
    def visits(self) -> Int:
        """[P]: visits of each pair of the places."""
        visits = self._of_pair["visits"][: self.num_pairs]
        visits.flags.writeable = False  # of this view
        return visits

    @property
    def known(self) -> Bool | None:
        """[P]: pairs about which there is nothing to learn (that of END); None if there are none."""
        if self._place[self.end] < 0:
            return None
        known = np.zeros(self.num_pairs, dtype=bool)
        known[self._of_state["first"][self._place[self.end]]] = True
        return known

    def graph(self) -> Graph:
        """The empirical transitions between places."""
        first = self._of_state["first"][: self.num_seen + 1]
        L = self._of_link
        start, successor, probability = kernels.empirical(
            first, self.visits, self._of_pair["head"], L["next"], L["successor"], L["share"], int(self._sizes[1])
        )
        return Graph(frozen(first), frozen(start), frozen(successor), frozen(probability))

    def model(self) -> ConstrainedMDP:
        """The empirical model of the places, without bonus: what a learner plans in."""
        task = self.task
        pairs = self.num_pairs
        initial = np.zeros(self.num_seen)
        initial[0] = 1.0
        return ConstrainedMDP._trusted(
            num_actions=task.num_actions,
            horizon=self.horizon,
            graph=self.graph(),
            action=self._of_pair["action"][:pairs],
            pay=self._of_pair["means"][:pairs],
            initial=initial,
            limits=np.asarray(task.limits),
            cost_names=tuple(task.cost_names),
            visits=self.visits,
        )

    # -- saving -------------------------------------------------------------------------------------------

    def state(self) -> dict[str, Array]:
        """Everything, as arrays to save."""
        n, links = (int(x) for x in self._sizes)
        cut = {"order": n, "first": n + 1, "next": links, "successor": links, "count": links}
        groups = {**self._of_state, **self._of_pair, **self._of_link}
        return {
            name: array[: cut.get(name, self.num_pairs)].copy() for name, array in groups.items() if name not in DERIVED
        }

    def load_state(self, state: Mapping[str, Array]) -> None:
        """Go on from what `state` gave; refuses what makes no counts of this task."""
        fresh = Counts(self.task)
        try:
            n, links = state["order"].shape[0], state["next"].shape[0]
            pairs = int(state["first"][-1])
            sizes = {"order": n, "first": n + 1, "next": links, "successor": links, "count": links}
            for group in (fresh._of_state, fresh._of_pair, fresh._of_link):
                for name in group:
                    if name in DERIVED:
                        continue
                    array, like = state[name], group[name]
                    if array.shape != (sizes.get(name, pairs), *like.shape[1:]) or array.dtype != like.dtype:
                        raise ModelError(f"{name} has shape {array.shape} and dtype {array.dtype}")
                    group[name] = array.copy()
            fresh._sizes[:] = n, links
            fresh._check_state()
        except (KeyError, IndexError, TypeError, ValueError, OverflowError, ModelError) as error:
            raise RunError(f"these are no counts of the task: {error}") from None
        self.__dict__.update(fresh.__dict__)

    def _check_state(self) -> None:
        """Whether arrays from a file hang together, so that no kernel leaves them."""
        S, P, L = self._of_state, self._of_pair, self._of_link
        order, first, head = S["order"], S["first"], P["head"]
        n, links = order.size, L["next"].size
        first_seen = self.start if self.task.initial is None else self.task.initial
        strange = self.start if self.task.initial is not None else -1  # no place for START where the first is known
        distinct = n > 0 and order.min() >= 0 and order.max() <= self.end and np.unique(order).size == n
        if not distinct or order[0] != first_seen or (order == strange).any():
            raise ModelError("order is not a list of distinct states")
        exists = self._rank[order] >= 0
        if first[0] != 0 or not np.array_equal(np.diff(first), exists.sum(axis=1)):
            raise ModelError("first does not fit the actions of the states")
        if not np.array_equal(P["action"], np.nonzero(exists)[1]):
            raise ModelError("action does not fit the actions of the states")
        following = np.concatenate((head, L["next"]))
        used = following[following >= 0]
        if following.min(initial=-1) < -1 or not np.array_equal(np.sort(used), np.arange(links)):
            raise ModelError("the lists of successors are broken")
        if (L["next"][L["next"] >= 0] <= np.flatnonzero(L["next"] >= 0)).any():
            raise ModelError("the lists of successors run backwards")  # they could run in circles
        if links and (L["successor"].min() < 0 or L["successor"].max() >= n or L["count"].min() < 1):
            raise ModelError("successor or count is out of range")
        owner = np.full(links, -1)
        for k in np.flatnonzero(head >= 0):
            link = head[k]
            while link >= 0:
                owner[link] = k
                link = L["next"][link]
        if not np.array_equal(np.bincount(owner, weights=L["count"], minlength=head.size), P["visits"]):
            raise ModelError("visits are not the sums of count")
        ranges = self.task.ranges
        visits, room = P["visits"][:, None], ROUNDING * np.abs(ranges).max(axis=1) * P["visits"][:, None]
        low, high = ranges[:, 0] * visits - room, ranges[:, 1] * visits + room
        paid = ~np.isin(np.repeat(order, np.diff(first)), (self.start, self.end))  # START and END pay nothing
        low, high = np.where(paid[:, None], low, 0.0), np.where(paid[:, None], high, 0.0)
        if not ((low <= P["sums"]) & (P["sums"] <= high)).all():
            raise ModelError("sums has an entry that visits within the task's ranges cannot add up to")
        P["means"] = P["sums"] / np.maximum(P["visits"], 1)[:, None]
        L["share"] = L["count"] / P["visits"][owner]
        self._place[order] = np.arange(n)

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
        ends = self._place[self.end] >= 0
        total = S + ends
        inner, order = self.model(), np.where(self.order == self.end, S, self.order)
        counts = np.zeros((total, A), dtype=np.int64)
        real = self.order[inner.pair_state] != self.start
        counts[order[inner.pair_state[real]], inner.action[real]] = self.visits[real]
        exists = np.zeros((total, A), dtype=bool)
        exists[:S] = True if task.available is None else task.available
        if ends:
            exists[S, 0] = True
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
            state, action, successor, times, pay = distinct_steps(episodes, end=S)
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
            initial=self._initial(total),
            limits=task.limits,
            cost_names=task.cost_names,
            can_stop=task.can_stop,
            **names,
        )
        low, high = model._realised()  # what was never visited pays 0, which may be outside the task's ranges
        ranges = np.column_stack((np.minimum(task.ranges[:, 0], low), np.maximum(task.ranges[:, 1], high)))
        return model._copy(_visits=frozen(counts[model.pair_state, model.action]), _ranges=frozen(ranges))

    def _initial(self, total: int) -> int | Float:
        task = self.task
        if task.initial is not None:
            return int(task.initial)
        if self.visits[0] == 0:
            raise RunError("no episode has been seen, so that the first state is unknown")
        initial = np.zeros(total)
        g = self.graph()
        order = np.where(self.order == self.end, task.num_states, self.order)
        initial[order[g.successor[: g.start[1]]]] = g.probability[: g.start[1]]
        return initial
