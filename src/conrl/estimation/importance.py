"""What a policy is worth by the episodes of others, weighted: importance sampling, without any model.

With pi the policy and b the behavior that wrote the log, estimated as the share of each action in its state and step,
an episode counts at step t with

    w_t = prod over u <= t of  pi(a_u | s_u, u) / b(a_u | s_u, u)

and the estimate is the sum over steps of the weighted means of what step t paid (weighted per-decision importance
sampling, Precup, Sutton and Singh 2000). Intervals are by the bootstrap over episodes. (sum w)^2 / sum w^2 at the last
step is how many episodes it rests on, the effective sample size (Kong 1992): long episodes and policies unlike b leave
next to none. An episode that was cut off counts up to there. Actions that the log never has in a state are left out of
it, wherever the policy plays them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import gammaln

from conrl._types import Bool, Float, Int
from conrl.episode import Episode
from conrl.evaluation import Evaluation

RESAMPLES = 400
WORTHLESS = 50.0  # effective episodes: with fewer, intervals of the bootstrap cover too seldom
LEANS = np.array([0.05, 0.5, 2.0, 8.0, 32.0, 128.0, 512.0])  # visits
PRIOR = 2.0  # steps
ROUNDS = 30  # of the iteration that finds how likely each lean is (Dempster, Laird and Rubin 1977)
CHUNK = 4_000_000  # numbers at a time


@dataclass(frozen=True, eq=False)
class Importance:
    """The estimate, its interval, and how many episodes it rests on."""

    mean: Evaluation
    low: Evaluation
    high: Evaluation
    effective: float  # episodes
    episodes: int

    def scaled(self, share: float, cost_names: tuple[str, ...] = ()) -> Importance:
        """The same of a policy that is played in such a share of all episodes; with the names of the costs."""
        mean, low, high = (Evaluation(share * x.value, cost_names) for x in (self.mean, self.low, self.high))
        return Importance(mean, low, high, self.effective, self.episodes)

    @property
    def worthless(self) -> bool:
        """Whether too few episodes count for the interval to mean anything."""
        return not self.effective >= WORTHLESS

    @property
    def message(self) -> str:
        """How far it can be trusted."""
        count = f"{self.effective:.3g} of {self.episodes:,} episodes"
        if self.worthless:
            return f"worthless: it rests on {count} (effectively), as the policy is unlike what was logged"
        return f"rests on {count} (effectively)"


def importance(
    parts: Sequence[tuple[float, Float]], behavior: Float, episodes: Sequence[Episode], level: float, seed: int
) -> Importance:
    """Of a mixture of policies, weights and tables [H, S, A], by episodes of a `behavior`, [H, S, A] or [S, A]."""
    H = parts[0][1].shape[0]
    behavior = np.broadcast_to(behavior, (H, *behavior.shape[-2:]))
    played = [e for e in episodes if len(e)]
    n = len(played)
    lengths = np.array([min(len(e), H) for e in played])
    width = played[0].pay.shape[1]
    owner = np.repeat(np.arange(n), lengths)
    step = np.arange(owner.size) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    state = np.concatenate([e.states[:k] for e, k in zip(played, lengths, strict=True)])
    action = np.concatenate([e.actions[:k] for e, k in zip(played, lengths, strict=True)])
    pay = np.zeros((H, n, width))
    pay[step, owner] = np.concatenate([e.pay[:k] for e, k in zip(played, lengths, strict=True)])
    ended = np.array([e.terminated or len(e) >= H for e in played])
    logs = np.empty((len(parts), H, n))
    for k, (share, table) in enumerate(parts):
        ratio = np.ones((H, n))  # after an episode has ended nothing is chosen
        ratio[step, owner] = table[step, state, action] / behavior[step, state, action]
        with np.errstate(divide="ignore"):
            logs[k] = np.cumsum(np.log(ratio), axis=0) + np.log(share)
    most = logs.max(axis=(0, 2), keepdims=True)
    weights = np.exp(logs - np.where(np.isfinite(most), most, 0.0)).sum(axis=0)  # of each step, in units of the largest
    if not ended.all():
        weights = _without_cut(weights, lengths, ended)
    last = weights[-1]
    scale = float(last.max(initial=0.0))
    effective = float((last / scale).sum() ** 2 / ((last / scale) ** 2).sum()) if scale > 0.0 else 0.0
    mean = _weighted(np.ones((1, n)), weights, pay)[0]
    generator = np.random.default_rng([seed, n])
    block = max(1, CHUNK // n)
    found = []
    for begin in range(0, RESAMPLES, block):
        count = min(block, RESAMPLES - begin)
        found.append(_weighted(generator.multinomial(n, np.full(n, 1.0 / n), count).astype(float), weights, pay))
    low, high = np.quantile(np.concatenate(found), [0.5 - 0.5 * level, 0.5 + 0.5 * level], axis=0)
    return Importance(Evaluation(mean), Evaluation(low), Evaluation(high), effective, n)


def _weighted(times: Float, weights: Float, pay: Float) -> Float:
    """[B, 1+d]: the estimate with episode e taken times[b, e] times; weights [H, n], pay [H, n, 1+d]. nan if none."""
    total = np.zeros((times.shape[0], pay.shape[2]))
    for w, x in zip(weights, pay, strict=True):
        scale = float(w.max(initial=0.0))
        v = w / scale if scale > 0.0 else w
        mass = times @ v
        sums = times @ (v[:, None] * x)
        # Nobody who got so far did what the policy does: nothing is known of this step.
        total += np.where(mass[:, None] > 0.0, sums / np.where(mass > 0.0, mass, 1.0)[:, None], np.nan)
    return total


def _without_cut(weights: Float, lengths: Int, ended: Bool) -> Float:
    """What became of an episode that was cut off is unknown: those that go on stand for it (Kaplan and Meier 1958).

    Else those that have terminated, and stay, would count too much."""
    factor, found = np.ones(lengths.size), np.zeros_like(weights)
    for t in range(weights.shape[0]):
        cut = (lengths == t) & ~ended
        if t and cut.any():
            living = (lengths > t) | cut
            before, after = (float((factor * weights[t - 1])[who].sum()) for who in (living, living & ~cut))
            factor = np.where(living & ~cut, factor * (before / after if after > 0.0 else 0.0), factor)
        found[t] = np.where((lengths <= t) & ~ended, 0.0, factor * weights[t])
    return found


def shares(visits: Int, episodes: Sequence[Episode] = (), horizon: int = 1) -> Float:
    """[H, S, A]: how often each action was played in its state at each step; `visits` [S, A] of all steps.

    A step that was seen seldom leans on the state as a whole, by as many visits as the log itself says (empirical
    Bayes): with k of n visits at a step and the state's share p, the share is (k + c p) / (n + c), where c is drawn
    from LEANS. How likely each c is comes from all steps of the state and, worth PRIOR steps, of all states, by the
    probability of k given c (Dirichlet-multinomial): steps that are alike lend to each other, those of a plan that
    switches from one to the next do not. 1 where nothing was ever played, so that nothing is divided by 0; a log never
    has it."""
    whole = visits / np.maximum(visits.sum(axis=1, keepdims=True), 1)
    S, A = visits.shape
    by_step = np.zeros((horizon, S, A))
    for e in episodes:
        n = min(len(e), horizon)
        by_step[np.arange(n), e.states[:n], e.actions[:n]] += 1.0
    found = np.broadcast_to(whole, by_step.shape).copy()
    h, s = np.nonzero(by_step.sum(axis=2))
    if h.size:
        k, p = by_step[h, s], whole[s]
        each = (k[:, None] + LEANS[:, None] * p[:, None]) / (k.sum(axis=1)[:, None] + LEANS)[:, :, None]
        found[h, s] = (_leans(k, p, s)[:, :, None] * each).sum(axis=1)
    return np.where(found > 0.0, found, 1.0)


def _leans(k: Float, p: Float, state: Int) -> Float:
    """[cells, LEANS]: how likely each lean is in a cell, a step of a state with counts k [cells, A] and shares p."""
    n, seen = k.sum(axis=1), k > 0.0
    base = np.where(seen, p, 1.0)
    like = gammaln(LEANS) - gammaln(n[:, None] + LEANS)
    for j, lean in enumerate(LEANS):
        like[:, j] += np.where(seen, gammaln(k + lean * base) - gammaln(lean * base), 0.0).sum(axis=1)
    like = np.exp(like - like.max(axis=1, keepdims=True))
    _, place, steps = np.unique(state, return_inverse=True, return_counts=True)
    telling = ((p > 0.0).sum(axis=1) > 1) & (steps[place] > 1)  # in the others, every lean is as likely
    prior = np.full((steps.size, LEANS.size), 1.0 / LEANS.size)
    for _ in range(ROUNDS):
        weight = prior[place] * like
        weight /= weight.sum(axis=1, keepdims=True)
        total = weight[telling].mean(axis=0) if telling.any() else prior[0]
        prior = np.full(prior.shape, PRIOR) * total
        np.add.at(prior, place, weight)
        prior /= (PRIOR + steps)[:, None]
    weight = prior[place] * like
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))
