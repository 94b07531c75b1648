"""Are the steps of a log alike? A test that seldom cries wolf, whatever the process is.

An estimate that does not depend on the step averages over all of them. Here is tested, for each pair of a state and an
action and for each of what follows it (next state, reward, each cost), whether it has one distribution at all steps:

    E = mean over alternatives of  prod over parts of KT(counts of the part)  /  max over p of  prod_k p_k^{n_k}

n_k is how often value k was seen, in all steps. An alternative divides the steps into parts: a window of steps and the
others, or every step apart. KT is the probability of Krichevsky and Trofimov (1981), a Dirichlet mixture: it predicts
each visit from those before it, so that over the probability of what is true E would be a martingale of mean 1; the
maximum is no smaller. So, if the steps are alike, the mean of E is at most 1, although what follows a visit decides
about later ones (universal inference: Wasserman, Ramdas and Balakrishnan 2020). So is the mean over all P that are
tested, and some E is P / ALARM or more with probability at most ALARM (Markov).

Deviations: values are at most KINDS of a pair, the rarest next states taken together and amounts by their quantiles in
the log; steps are at most BLOCKS, those beside each other taken together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln, xlogy

from conrl._types import Array, Float, Int
from conrl.episode import Episode
from conrl.errors import shown

ALARM = 1e-3
KINDS = 8
BLOCKS = 24
TESTED = 2_000  # pairs: those seen most


class Difference(NamedTuple):
    """Two steps at which the same pair has led to something else, more than by chance."""

    state: int
    action: int
    column: int  # of the pay; -1: the next state
    next_state: int  # that it was led to, if that differs; the number of states: the episode ended
    steps: tuple[int, int]
    seen: tuple[float, float]  # mean pay, or the share of the next state

    def told(
        self, state_names: Sequence[str] | None, action_names: Sequence[str] | None, pay_names: Sequence[str], end: int
    ) -> str:
        """In words."""
        state, action = (
            shown(names[i]) if names else str(i)
            for names, i in ((state_names, self.state), (action_names, self.action))
        )
        if self.column >= 0:
            low, high = (f"{x:.4g}" for x in self.seen)
            what = f"has {shown(pay_names[self.column])} {low} at step {self.steps[0]} and {high} at step"
            return f"action {action} in state {state} {what} {self.steps[1]}, on average"
        low, high = (f"{100 * x:.3g}%" for x in self.seen)
        after = self.next_state
        to = "ends the episode" if after == end else f"leads to {shown(state_names[after]) if state_names else after}"
        return (
            f"action {action} in state {state} {to} in {low} at step {self.steps[0]} and {high} at step {self.steps[1]}"
        )


def difference(episodes: Sequence[Episode], states: int, actions: int) -> Difference | None:
    """Where the steps differ most, if they do beyond chance; of so many states and actions."""
    played = [e for e in episodes if len(e)]
    if not played:
        return None
    lengths = np.array([len(e) for e in played])
    step = np.arange(lengths.sum()) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    state, after = (np.concatenate([e.states[x] for e in played]) for x in (slice(None, -1), slice(1, None)))
    after[np.cumsum(lengths)[[e.terminated for e in played]] - 1] = states
    pair = state * actions + np.concatenate([e.actions for e in played])
    pay = np.concatenate([e.pay for e in played])
    every, place, times = np.unique(pair, return_inverse=True, return_counts=True)
    columns = [-1, *(i for i in range(pay.shape[1]) if (pay[:, i] != pay[0, i]).any())]
    bar = np.log(every.size * len(columns) / ALARM)
    some = np.argsort(-times, kind="stable")[:TESTED]
    rank = np.full(every.size, -1)
    rank[some] = np.arange(some.size)
    kept = rank[place] >= 0
    place, step, after, pay = rank[place[kept]], step[kept], after[kept], pay[kept]
    H = int(lengths.max())
    block = step if H <= BLOCKS else step * BLOCKS // H
    shape = some.size, min(H, BLOCKS), KINDS
    worst = bar, -1, 0
    for column in columns:
        kind = _by_frequency(place, after) if column < 0 else _by_size(place, pay[:, column])
        cell = (place * shape[1] + block) * KINDS + kind
        evidence = _evidence(np.bincount(cell, minlength=int(np.prod(shape))).reshape(shape))
        found = int(np.argmax(evidence))
        if evidence[found] > worst[0]:
            worst = float(evidence[found]), found, column
    if worst[1] < 0:
        return None
    own, column = place == worst[1], worst[2]
    number = int(every[some[worst[1]]])
    n = np.bincount(step[own], minlength=H)
    candidates = np.unique(after[own]) if column < 0 else np.zeros(1, dtype=np.int64)
    best: tuple[float, int, tuple[int, int], tuple[float, float]] | None = None
    for k in candidates.tolist():
        value = (after[own] == k).astype(np.float64) if column < 0 else pay[own, column]
        mean = np.bincount(step[own], value, minlength=H) / np.maximum(n, 1)
        z = np.where(n > 0, (mean - value.mean()) * np.sqrt(n), 0.0)
        low, high = int(np.argmin(z)), int(np.argmax(z))
        if best is None or z[high] - z[low] >= best[0] - 1e-9:  # of equals the end, which is last
            best = float(z[high] - z[low]), k, (low, high), (float(mean[low]), float(mean[high]))
    assert best is not None
    return Difference(number // actions, number % actions, column, best[1], best[2], best[3])


def _by_frequency(place: Int, value: Int) -> Int:
    """[n]: which value it is of those of its pair, the most frequent first; the last kind is all others."""
    many = int(value.max()) + 1
    keys, where, times = np.unique(place * many + value, return_inverse=True, return_counts=True)
    order = np.lexsort((-times, keys // many))
    rank = np.empty(order.size, dtype=np.int64)
    rank[order] = _within(keys[order] // many)
    return np.asarray(np.minimum(rank, KINDS - 1)[where])


def _by_size(place: Int, value: Float) -> Int:
    """[n]: the values of a pair in their order if there are few, else which of its quantiles they are in."""
    order = np.lexsort((value, place))
    p, x = place[order], value[order]
    new = np.append(True, (p[1:] != p[:-1]) | (x[1:] != x[:-1]))
    first = np.flatnonzero(new)
    group = np.cumsum(new) - 1
    rank = _within(p[first])  # of distinct values
    distinct, total = np.bincount(p[first])[p], np.bincount(p)[p]
    kind = np.where(distinct <= KINDS, rank[group], _within(p)[first][group] * KINDS // total)
    found = np.empty(kind.size, dtype=np.int64)
    found[order] = kind
    return found


def _within(group: Int) -> Int:
    """[n]: the place of each entry in its group; those of a group stand together."""
    begin = np.flatnonzero(np.append(True, group[1:] != group[:-1]))
    sizes = np.diff(np.append(begin, group.size))
    return np.arange(group.size) - np.repeat(begin, sizes)


def _evidence(counts: Array) -> Float:
    """[P]: log E of each pair, by its counts [P, steps, kinds]."""
    P, W, _ = counts.shape
    kinds = (counts.sum(axis=1) > 0).sum(axis=1)
    total = counts.sum(axis=1)
    most = xlogy(total, total / np.maximum(total.sum(axis=1, keepdims=True), 1)).sum(axis=1)
    apart = _predicted(counts, kinds[:, None]).sum(axis=1)
    sums = np.concatenate((np.zeros((P, 1, KINDS), dtype=np.int64), np.cumsum(counts, axis=1)), axis=1)
    windows = []
    for begin in range(W):
        inside = sums[:, begin + 1 : W + 1 if begin else W] - sums[:, begin : begin + 1]
        windows.append(_predicted(inside, kinds[:, None]) + _predicted(total[:, None] - inside, kinds[:, None]))
    every = np.concatenate(windows, axis=1)
    if not every.shape[1]:
        return np.full(P, -np.inf)
    mean = np.logaddexp.reduce(every, axis=1) - np.log(every.shape[1])
    return np.asarray(np.logaddexp(apart, mean) - np.log(2.0) - most)


def _predicted(counts: Array, kinds: Array) -> Float:
    """The logarithm of the KT probability of counts [..., KINDS], of which so many kinds can occur."""
    seen = np.where(counts > 0, gammaln(counts + 0.5) - gammaln(0.5), 0.0).sum(axis=-1)
    return np.asarray(gammaln(kinds / 2.0) - gammaln(counts.sum(axis=-1) + kinds / 2.0) + seen)
