"""Which models a log leaves possible: the posterior over transitions and pay, drawn many times.

Of a pair that was visited N times, each outcome (successor and pay) that was seen n_j times has weight
Gamma(n_j (N - 2) / N) in a drawn model: Rubin's Bayesian bootstrap (1981), as wide as the unbiased variance. Beside
them stands what was not seen (`conrl.estimation.prior`):

    successors   Gamma(a) for one state that the pair never led to, a by Good and Turing's estimate. Which one is drawn:
                 one that some action led to from the same state, as often as it did; if nothing was ever played there,
                 any, as often as it was come to
    pay          coordinate by coordinate, beside Gamma(N) of the pair's own: Gamma(strength) visits of the prior, a
                 share of which are events as often as at any pair; and Gamma(x / (1 + h)) of an event, of which the
                 pair had h. x is GUESS times the share of the variance that is within pairs, less the events that the
                 prior tells of: what varies from visit to visit may do what it has not done yet. For plans with
                 confidence x is DOUBT times that share or, of pairs with few visits, DOUBT

In a share ASTRAY of the models all new successors are one state, any that was come to: what nobody saw may be alike
everywhere, and that of many pairs does not cancel then.

A pair never seen has nothing but that. Pairs are independent of each other. The first state is Dirichlet, by how often
episodes began there; END, where an episode has terminated, is known. States that are not in the log do not exist here.

Pay that takes more than FEW values at one successor (of a pair, and of what else it paid there that takes few) is kept
as its mean and covariance; the posterior of that mean is then normal, with the unbiased covariance.

What is drawn for a pair depends on the seed and the pair alone: two policies are compared in the same models.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from conrl._types import Bool, Float, Int
from conrl.errors import SpecError
from conrl.estimation.prior import Scatter, fit_prior, novelty, pull
from conrl.model import ConstrainedMDP
from conrl.model.criteria import need_steps
from conrl.model.graph import select

FEW = 12  # different amounts that a pair pays at one successor, and that are kept
BLOCK = 128  # models drawn at once
ASTRAY = 0.1  # of the models: all that is new leads to one state
TINY = 1e-200  # what is believed of a pair, in visits, if it is nothing
GUESS, DOUBT = 1.0 / 3.0, 0.75  # events that are believed of a pair that had none: by `assess`, and by plans
FADES = 60.0  # visits after which plans believe fewer, where what a pair pays hardly varies


class Atoms(NamedTuple):
    """What was seen, pair by pair: how often each successor came with each pay."""

    pair: Int  # [M], ascending
    link: Int  # [M]: which of the pairs' successors
    times: Float  # [M]
    pay: Float  # [M, 1+d]
    root: Float  # [M, 1+d, 1+d]: of the covariance of the mean pay; 0 where the pay is one amount


class Drawn(NamedTuple):
    """Some pairs in D models."""

    share: Float  # [links, D]: of the successors of those pairs
    lost: Float  # [n, D]: of a successor that was never seen
    target: Int  # [n, D]: and which that is
    pay: Float  # [n, D, 1+d]

    def first(self, size: int) -> Drawn:
        """The first so many models."""
        arrays: Any = (np.ascontiguousarray(x[:, :size]) for x in self)
        return Drawn(*arrays)


class Posterior:
    """The models that a log leaves possible; `mdp` is its estimate, which holds all that was seen."""

    def __init__(self, mdp: ConstrainedMDP, columns: Int | None = None, worst: Float | None = None) -> None:
        """`columns` [n] chooses among reward and costs; `worst` [n] is the worst end of what a plan is to be careful
        about, or nan. Whatever is done in a state where nothing was ever tried (`blank`) then pays that, and stays."""
        if mdp._log is None or mdp._visits is None or not mdp._log.outcomes:
            why = "knows mean pay only" if mdp._visits is not None else "was not estimated"
            raise SpecError(
                f"this model {why}; what a log leaves open is known for a model that conrl.estimate made from it"
            )
        need_steps(mdp.horizon, "the posterior of a model")
        if mdp.bonus is not None:
            raise SpecError("the model carries a bonus, which is optimism; leave with_bonus out")
        self.mdp = mdp
        self.visits: Int = mdp._visits
        self.known: Bool = np.equal(mdp.pair_state, mdp._log.end)  # [P]
        self.seen: Bool = (self.visits > 0) | self.known  # [P]
        node = mdp._pair_node
        self.blank: Bool = np.bincount(node, self.seen, minlength=mdp.graph.first.size - 1)[node] == 0  # [P]
        graph = mdp.graph
        owner = np.repeat(np.arange(mdp.num_pairs), np.diff(graph.start).astype(np.int64))
        times: Float = np.rint(graph.probability * self.visits[owner])
        real = np.flatnonzero((times > 0.0) | self.known[owner])
        times = np.where(self.known[owner[real]], 1.0, times[real])
        pay = mdp.pay_by_outcome[real]
        pay = pay if columns is None else pay[:, columns]
        self.worst = worst
        self._fit(owner[real], times, pay)
        self._read(owner[real], graph.successor[real].astype(np.int64), times, pay)
        self._look_back()

    def _read(self, owner: Int, successor: Int, times: Float, pay: Float) -> None:
        """Outcomes, sorted by pair and successor, as links and atoms."""
        P, width = self.mdp.num_pairs, pay.shape[1]
        new = np.ones(owner.size, dtype=bool)
        new[1:] = (np.diff(owner) != 0) | (np.diff(successor) != 0)
        link = np.cumsum(new) - 1
        self.successor: Int = successor[new]
        self.link_pair: Int = owner[new]
        self.link_start: Int = np.searchsorted(self.link_pair, np.arange(P + 1))
        self.link_times: Float = np.bincount(link, times).astype(np.float64)
        # Of pay that takes few values each is kept, with the mean of the rest.
        cell = link
        for i in range(width):
            amounts, code = np.unique(pay[:, i], return_inverse=True)
            if amounts.size <= FEW:
                cell = np.unique(cell * amounts.size + code, return_inverse=True)[1]
        many = np.bincount(cell)[cell] > FEW
        if many.any():
            count = np.bincount(cell, times)
            new = np.zeros(cell.size, dtype=bool)
            new[np.unique(cell, return_index=True)[1]] = True
            mean = np.stack([np.bincount(cell, times * pay[:, i]) for i in range(width)], axis=1) / count[:, None]
            off = pay - mean[cell]
            packed = [[np.bincount(cell, times * off[:, i] * off[:, j]) for j in range(width)] for i in range(width)]
            covariance = np.moveaxis(np.array(packed), 2, 0) / np.maximum(count * (count - 1.0), 1.0)[:, None, None]
            crowded = np.zeros(count.size, dtype=bool)
            crowded[cell[many]] = True
            values, vectors = np.linalg.eigh(covariance[crowded])
            roots = np.zeros((count.size, width, width))
            roots[crowded] = vectors * np.sqrt(np.maximum(values, 0.0))[:, None, :]
            keep = ~many | new
            owner, link, times, pay = owner[keep], link[keep], times[keep], pay[keep].copy()
            many, cell = many[keep], cell[keep]
            times[many], pay[many] = count[cell[many]], mean[cell[many]]
            root = np.where(many[:, None, None], roots[cell], 0.0)
        else:
            root = np.zeros((owner.size, width, width))
        self.atoms = Atoms(owner, link, times, pay, root)
        self._atom_start: Int = np.searchsorted(owner, np.arange(P + 1))

    def _fit(self, owner: Int, times: Float, pay: Float) -> None:
        """The prior of pay, from the pairs that were seen, and the posterior's means and variances."""
        P, width = self.mdp.num_pairs, pay.shape[1]
        tried = np.flatnonzero(self.visits > 0)
        if not tried.size:
            raise SpecError("the log holds no step; nothing is known")
        visits = self.visits[tried].astype(np.float64)
        place = np.full(P, -1)
        place[tried] = np.arange(tried.size)
        use = self.visits[owner] > 0
        pair, times, pay = place[owner[use]], times[use], pay[use]

        def sums(x: Float) -> Float:
            return np.stack([np.bincount(pair, times * x[:, i], minlength=tried.size) for i in range(width)], axis=1)

        mean = sums(pay) / visits[:, None]
        squares = sums((pay - mean[pair]) ** 2)
        self.prior = fit_prior(Scatter(visits, mean, squares))
        self._tried, self._pull = mean, pull(visits)
        self.raw = np.zeros((P, width))  # what was paid on average
        self.raw[tried] = mean
        self._ends = pay.min(axis=0), pay.max(axis=0)  # nothing is drawn beyond what was seen
        self._fear(pair, times / visits[pair], pay)
        strength, center, far = self.prior.strength, self.prior.center, self.far
        spread = self._often * (1.0 - self._often) * (far - self._usual) ** 2
        self.worth = strength + self.doubt  # [P, n]: visits, of all that is believed beforehand

        def mixed(N: Float, mean: Float, variance: Float, doubt: Float) -> tuple[Float, Float]:
            """Mean and variance of a visit: seen, by the prior, or far."""
            parts = ((N, mean, variance), (strength, center, spread), (doubt, far, 0.0))
            total = np.maximum(N + strength + doubt, 1e-300)
            middle = sum(w * x for w, x, _ in parts) / total
            return middle, sum(w * (v + (x - middle) ** 2) for w, x, v in parts) / total

        nothing = np.zeros((P, 1))
        believed = mixed(nothing, center, spread, self.doubt)
        blank = self.worth == 0.0  # nothing is believed: as all pairs do
        self.means, self.variance = np.where(blank, center, believed[0]), np.where(blank, spread, believed[1])
        own = mixed(visits[:, None], mean, squares / visits[:, None], self.doubt[tried])
        self.means[tried], self.variance[tried] = own
        self.means[self.known] = self.variance[self.known] = 0.0
        if self.worst is not None:
            self.means[self.blank] = np.where(np.isnan(self.worst), self.means[self.blank], self.worst)

    def _fear(self, pair: Int, share: Float, pay: Float) -> None:
        """What happens now and then and may not have been seen of a pair: how large it is, and how many visits of it
        are believed.

        `pay` [M, n] was a share [M] of the visits of the pairs that were seen. An event is what lies far from the
        usual end of what is paid; its size is the mean over visits, each counted as much as it lies off.
        """
        (low, high), worst = self._ends, self.worst
        middle = 0.5 * (low + high)
        ends = np.where(self.prior.center <= middle, high, low) if worst is None else worst
        up = ends > middle
        off = np.where(up, pay - low, high - pay)  # [M, n]
        most = np.maximum(off.max(axis=0), 1e-300)
        weight = self._pull[pair] * share
        first, second = weight @ (off / most), weight @ (off / most) ** 2
        some = first > 0.0
        size = most * second / np.where(some, first, 1.0)
        self.far = np.where(some, np.where(up, low + size, high - size), np.nan_to_num(ends))  # [n]
        self._usual = np.where(up, low, high)
        self._often = np.minimum(first**2 / np.where(some, second, 1.0), 1.0)  # [n]: the share of visits of any pair
        tried = np.flatnonzero(self.visits > 0)
        own = np.stack([np.bincount(pair, share * off[:, i], minlength=tried.size) for i in range(low.size)], axis=1)
        events = np.zeros((self.visits.size, low.size))  # [P, n]: that were seen
        events[tried] = self.visits[tried, None] * own / np.where(some, size, 1.0)
        told = self.prior.strength * self._often
        doubt = np.outer(self.visits > 0, np.maximum(GUESS * self.prior.noise - told, 0.0))
        if worst is not None:
            seldom = np.minimum(1.0, FADES / np.maximum(self.visits, 1))[:, None]
            doubt = np.where(np.isnan(worst), 0.0, DOUBT * np.maximum(self.prior.noise, seldom))
        self.doubt = np.where(self.known[:, None], 0.0, doubt / (1.0 + events))  # [P, n]: visits

    def believed(self, mean: Float, visits: Float) -> Float:
        """[P, 1+d]: the posterior means of pay, if so many visits [P] of each pair had paid `mean` [P, 1+d]."""
        prior, N = self.prior, visits[:, None]
        sums = N * mean + prior.strength * prior.center + self.doubt * self.far
        return np.asarray(sums / np.maximum(N + self.worth, 1e-300))

    def _look_back(self) -> None:
        """How much leads where a pair never led, and where: for each node the outcomes begin .. end-1 of target and
        chance."""
        mdp = self.mdp
        tried = np.flatnonzero(self.visits > 0)
        single = (self.link_times == 1.0) & ~self.known[self.link_pair]
        once = np.bincount(self.link_pair[single], minlength=mdp.num_pairs)
        self.lost = np.zeros(mdp.num_pairs)  # [P]: Gamma's parameter of new successors
        self.lost[tried] = novelty(self.visits[tried], once[tried])
        S, nodes = mdp.num_states, mdp.graph.first.size - 1
        node_of_pair = mdp._pair_node
        real = ~self.known[self.link_pair]
        node, to, times = node_of_pair[self.link_pair[real]], self.successor[real], self.link_times[real]
        key, inverse = np.unique(node * S + to, return_inverse=True)
        weight = np.bincount(inverse, times)
        own, target = key // S, key % S
        total = np.bincount(own, weight, minlength=nodes)
        begin, end = np.searchsorted(own, np.arange(nodes)), np.searchsorted(own, np.arange(nodes) + 1)
        everywhere = np.bincount(to, times, minlength=S)
        anywhere = np.flatnonzero(everywhere)
        there = np.zeros(S, dtype=bool)
        there[anywhere] = True
        there |= mdp.initial > 0.0
        self.come: Bool = there[mdp.pair_state]  # [P]: whether a drawn model can come to the state of a pair
        lacking = (total == 0.0) & there[np.arange(nodes) % S]
        begin[lacking], end[lacking] = target.size, target.size + anywhere.size
        self.reached: Int = anywhere
        self.back = (
            begin,
            end,
            np.concatenate((target, anywhere)),
            np.concatenate((weight / total[own], everywhere[anywhere] / everywhere.sum())),
        )

    # -- drawing ------------------------------------------------------------------------------------------

    def draw(self, pairs: Int, seed: int, block: int, size: int = BLOCK) -> Drawn:
        """Some pairs in models number block * BLOCK and following, `size` of them."""
        atoms, W = self.atoms, self.means.shape[1]
        strength = self.prior.strength
        events = strength * self._often
        begins, chosen = select(self._atom_start, pairs)
        sizes = begins.astype(np.int64)
        weight = np.empty((chosen.size, size))
        rest = np.empty((pairs.size, size, 2 + 3 * W))
        point = np.empty((pairs.size, size, 1 + W))
        rough: Bool = np.any(atoms.root[chosen], axis=(1, 2))
        noise = np.zeros((chosen.size if rough.any() else 0, size, W))
        N = self.visits[pairs].astype(np.float64)
        # As wide as the unbiased variance S / (N - 1) says: a Dirichlet of all N visits has S / (N + 1).
        shape = atoms.times[chosen] * np.repeat(np.where(N > 2.5, (N - 2.0), 0.5) / np.maximum(N, 1.0), np.diff(sizes))
        for i, k in enumerate(pairs.tolist()):
            lo, hi = sizes[i], sizes[i + 1]
            generator = _generator(seed, block, k)
            weight[lo:hi] = generator.standard_gamma(shape[lo:hi, None], (hi - lo, size)) if hi > lo + 1 else 1.0
            shapes = np.concatenate(([N[i], self.lost[k]], events, strength - events, self.doubt[k]))
            rest[i] = generator.standard_gamma(shapes, (size, 2 + 3 * W))
            point[i] = generator.random((size, 1 + W))
            if rough[lo:hi].any():
                noise[lo:hi] = generator.standard_normal((hi - lo, size, W))
        owner = np.repeat(np.arange(pairs.size), np.diff(sizes))
        total = _sums(weight, sizes)
        weight /= np.where(total > 0.0, total, 1.0)[owner]
        mean = np.stack([_sums(weight * atoms.pay[chosen, i, None], sizes) for i in range(W)], axis=2)
        if rough.any():
            mean += _sums(weight[:, :, None] * np.einsum("mij,mbj->mbi", atoms.root[chosen], noise), sizes)
            mean = np.clip(mean, *self._ends)
        known = self.known[pairs]
        mass, new = rest[:, :, 0], rest[:, :, 1]
        event, uneventful, doubt = (rest[:, :, 2 + i * W : 2 + (i + 1) * W] for i in range(3))
        like = event + uneventful
        share = np.where(like > TINY, event / np.maximum(like, 1e-300), point[:, :, 1:] < self._often)
        other = self._usual + share * (self.far - self._usual) + self._center(seed, block, size)
        other = np.clip(other, *self._ends)
        # A pair of which nothing is known, or believed (or so little that it underflows), pays as all pairs do.
        like = np.where(mass[:, :, None] + like + doubt > TINY, like, 1.0)
        pay = mass[:, :, None] * mean + like * other + doubt * self.far
        pay /= np.maximum(mass[:, :, None] + like + doubt, 1e-300)
        pay[known] = 0.0
        blank = self.blank[pairs] if self.worst is not None else np.zeros(pairs.size, dtype=bool)
        if self.worst is not None:
            pay[blank] = np.where(np.isnan(self.worst), pay[blank], self.worst)
        lost = np.where((N == 0.0)[:, None], ~known[:, None], new / np.maximum(mass + new, 1e-300))
        weight *= (1.0 - lost)[owner]
        _, links = select(self.link_start, pairs)
        position = np.zeros(self.successor.size, dtype=np.int64)
        position[links] = np.arange(links.size)
        step = np.searchsorted(position[atoms.link[chosen]], np.arange(links.size + 1))
        target = self._elsewhere(pairs, point[:, :, 0])
        stray, where = _generator(seed, block, 2**63 + 2).random((2, size))
        one = self.reached[(where * self.reached.size).astype(np.int64)]
        target = np.where(blank[:, None], self.mdp.pair_state[pairs][:, None], np.where(stray < ASTRAY, one, target))
        return Drawn(_sums(weight, step), lost, target, pay)

    def _elsewhere(self, pairs: Int, point: Float) -> Int:
        """[n, D]: where each pair leads that never led there, among what its state leads to, by points in [0, 1)."""
        begin, end, target, chance = self.back
        node = self.mdp._pair_node[pairs]
        sums = np.concatenate(([0.0], np.cumsum(chance)))
        low, high = sums[begin[node]][:, None], sums[end[node]][:, None]
        at = np.searchsorted(sums, low + point * (high - low), side="right") - 1
        return np.asarray(target[np.clip(at, begin[node][:, None], end[node][:, None] - 1)])

    def _center(self, seed: int, block: int, size: int) -> Float:
        """[size, n]: how far the mean of all pairs is off in each model, by the bootstrap over pairs."""
        K = self._tried.shape[0]
        share = _generator(seed, block, 2**63 + 1).standard_gamma(K * self._pull[:, None], (K, size))
        share /= share.sum(axis=0)
        wide = np.sqrt((K + 1.0) / (K - 1.0)) if K > 1 else 0.0  # the bootstrap of few is too narrow
        return np.asarray(wide * (share.T @ self._tried - self.prior.center))

    def first_states(self, seed: int, block: int, size: int = BLOCK) -> Float:
        """[S, size]: the distribution of the first state in each model."""
        initial, starts = self.mdp.initial, self.mdp._log.starts if self.mdp._log else 0
        if not starts:
            return np.repeat(initial[:, None], size, axis=1)
        generator = _generator(seed, block, 2**63)
        weight = generator.standard_gamma(np.rint(initial * starts)[:, None], (initial.size, size))
        return np.asarray(weight / weight.sum(axis=0))


def _sums(table: Float, begin: Int) -> Float:
    """The sums of the rows begin[i] .. begin[i+1]-1, of all rows; 0 where there are none."""
    sums = np.zeros((begin.size - 1, *table.shape[1:]))
    some = np.flatnonzero(np.diff(begin))
    if some.size:
        sums[some] = np.add.reduceat(table, begin[some], axis=0)
    return sums


def _generator(seed: int, block: int, k: int) -> np.random.Generator:
    """Everything random of pair k (or of another number) in a block of models."""
    key = np.array([_word(seed), k], dtype=np.uint64)
    return np.random.Generator(np.random.Philox(key=key, counter=[0, 0, 0, block]))


@lru_cache(maxsize=64)
def _word(seed: int) -> int:
    """64 bits of a seed of any size."""
    return int(np.random.SeedSequence(seed).generate_state(1, np.uint64)[0])
