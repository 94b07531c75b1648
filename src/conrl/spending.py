"""Policies that act on what was spent, and the exact distribution of what an episode costs.

`SpentPolicy` holds a policy of a tracked model (`conrl.model.tracking`): an action for each (step, state, spent).
Whoever plays it keeps the books with it:

    spent = policy.start
    action = policy.act(step, state, generator, spent=spent)
    spent = policy.spend(spent, costs)                          # after each step

`spend` adds the costs as the policy counts them: exactly, up to its largest threshold, or rounded on its grid.

Where a (state, spent) cannot come up in the model that it was planned in, it acts as for the nearest amounts that can,
of equals the larger; in a state that cannot come up at all, it plays the first action there is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conrl import policy as plain
from conrl._types import Bool, Float, Int
from conrl.arguments import float_array, frozen, is_number, read_generator
from conrl.errors import ModelError, SpecError, shown, unknown
from conrl.io.files import file_path, read_npz, reading
from conrl.model import ConstrainedMDP
from conrl.model.counting import DOWN, UP, Counter, TooManyTotals, Total, simplest
from conrl.model.mdp import need_model
from conrl.model.tracking import Tracked, track, track_as
from conrl.policy import Deterministic, Policy
from conrl.sampling import draw

MOST_TOTALS = 100_000  # of an exact distribution


def put_actions(policy: Policy, where: Bool, actions: Int) -> Policy:
    """The policy with other actions [H, S] at the steps and states `where` [H, S]."""
    if isinstance(policy, Deterministic):
        return Deterministic._trusted_actions(
            np.where(where, actions, policy.actions).astype(np.int16), policy.shape[2]
        )
    table = np.array(policy.probabilities)
    h, s = np.nonzero(where)
    table[h, s] = 0.0
    table[h, s, actions[h, s]] = 1.0
    return Policy._trusted(table)


class SpentPolicy(Policy):
    """A policy for each (step, state, spent); `inner` [H, n, A] is its table over n (state, spent) combinations."""

    acts_on_spent = True

    def __init__(
        self,
        counter: Counter,
        state: Int,
        spent: Sequence[Total],
        inner: Policy,
        first_actions: Int,
        tracked: Tracked | None = None,
    ) -> None:
        """`state` [n] and `spent` [n] are the combinations; `first_actions` [1, S] or [H, S]: in unknown states."""
        self.counter = counter
        self.inner = inner
        self.state: Int = frozen(np.asarray(state, dtype=np.int64))
        self.spent = tuple(spent)
        self.first_actions: Int = frozen(np.asarray(first_actions, dtype=np.int64))
        self.shape = (inner.shape[0], self.first_actions.shape[1], inner.shape[2])
        self._tracked = tracked  # where it was planned

    @classmethod
    def of(cls, tracked: Tracked, inner: Policy) -> SpentPolicy:
        """A policy of the nodes of a tracked model."""
        spent = [tracked.totals[k] for k in tracked.total.tolist()]
        first_actions = np.argmax(tracked.base.playable, axis=2)
        model = tracked.model()
        if model.step_dependent:  # what it does where nobody comes must exist in the model itself
            first = np.broadcast_to(first_actions[:, tracked.state], (model.horizon, model.num_states))
            inner = put_actions(inner, np.asarray(~model.available.any(axis=2)), first)
        return cls(tracked.counter, tracked.state, spent, inner, first_actions, tracked)

    # -- acting -------------------------------------------------------------------------------------------

    @property
    def counts(self) -> tuple[str, ...]:
        """The names of the costs that it counts."""
        return self.counter.names

    @property
    def start(self) -> tuple[Fraction, ...]:
        """What is spent before the first step, of each cost in `counts`."""
        return self.counter.amounts(self.counter.start)

    def spend(self, spent: Any, costs: ArrayLike) -> tuple[Fraction, ...]:
        """What is spent after a step that cost `costs` [d], all costs of the model, as this policy counts it."""
        counter = self.counter
        return counter.amounts(counter.add(counter.total_of(spent), counter.read(float_array(costs, "costs"))))

    def act(self, step: int, state: int, generator: np.random.Generator, spent: Any = None) -> int:
        """Draw the action for a step (from 0), a state, and what was spent: `start`, then what `spend` gives."""
        if spent is None:
            raise ModelError(
                f"this policy acts on the {' and '.join(self.counts)} spent so far: pass spent=policy.start, and after "
                "each step spent=policy.spend(spent, costs)",
                key=("spent",),
            )
        return self._act(*self._index(step, state), generator, self.counter.total_of(spent))

    def _act(self, step: int, state: int, generator: np.random.Generator, total: Total) -> int:
        node = self._node(state, total)
        if node < 0:
            return int(self.first_actions[min(step, self.first_actions.shape[0] - 1), state])
        if isinstance(self.inner, Deterministic):
            return int(self.inner.actions[step, node])
        return int(draw(self.inner.probabilities[step, node], read_generator(generator).random()))

    @cached_property
    def _nodes(self) -> list[dict[Total, int]]:
        """[S]: the combinations of each state, by what is spent."""
        found: list[dict[Total, int]] = [{} for _ in range(self.shape[1])]
        for node, (state, total) in enumerate(zip(self.state.tolist(), self.spent, strict=True)):
            found[state][total] = node
        return found

    def _node(self, state: int, total: Total) -> int:
        """The combination that is acted on; -1 in a state that has none."""
        known = self._nodes[state]
        node = known.get(total)
        if node is not None or not known:
            return -1 if node is None else node
        nearest = min(
            known, key=lambda other: (sum(abs(a - b) for a, b in zip(other, total, strict=True)), _less(other))
        )
        return known[nearest]

    def at(self, spent: Any) -> Policy:
        """What it does, at every step and state, if so much is spent: a Markov policy [H, S, A]."""
        total = self.counter.total_of(spent)
        return self._rows(np.array([self._node(s, total) for s in range(self.shape[1])]), np.arange(self.shape[1]))

    def _rows(self, node: Int, state: Int) -> Policy:
        """The policy whose i-th state is combination node[i] or, where that is -1, the unknown state[i]."""
        lost = np.flatnonzero(node < 0)
        if not self.spent:  # a learner that has seen nothing yet
            first = np.broadcast_to(self.first_actions[:, state], (self.shape[0], state.size))
            return Deterministic._trusted_actions(first.astype(np.int16), self.shape[2])
        if isinstance(self.inner, Deterministic):
            actions = self.inner.actions[:, node]
            actions[:, lost] = self.first_actions[:, state[lost]]
            return Deterministic._trusted_actions(actions, self.shape[2])
        table = self.inner.probabilities[:, node]
        table[:, lost] = 0.0
        for h in range(self.shape[0]):
            table[h, lost, self.first_actions[min(h, self.first_actions.shape[0] - 1), state[lost]]] = 1.0
        return Policy._trusted(table)

    @property
    def most_probable(self) -> SpentPolicy:
        inner = self.inner.most_probable
        return SpentPolicy(self.counter, self.state, self.spent, inner, self.first_actions, self._tracked)

    @property
    def probabilities(self) -> Float:
        raise ModelError("this policy acts on what was spent: policy.at(spent) is what it does at one amount")

    # -- in a model ---------------------------------------------------------------------------------------

    def on(self, mdp: ConstrainedMDP) -> tuple[ConstrainedMDP, Policy]:
        """The tracked model, and this as a policy of its states."""
        tracked = self.tracked(mdp)
        return tracked.model(), self.over(tracked)

    def tracked(self, mdp: ConstrainedMDP) -> Tracked:
        """A model with what this policy counts in its state."""
        if self._tracked is not None and self._tracked.base is mdp:
            return self._tracked
        return track_as(mdp, self.counter)

    def over(self, tracked: Tracked) -> Policy:
        """This as a policy of the nodes of a tracked model, which may count more costs than this, after its own."""
        if tracked is self._tracked:
            return self.inner
        count = len(self.counter.costs)
        pairs = zip(tracked.state.tolist(), tracked.total.tolist(), strict=True)
        node = np.array([self._node(s, tracked.totals[k][:count]) for s, k in pairs], dtype=np.int64)
        return self._rows(node, tracked.state)

    def check(self, mdp: ConstrainedMDP) -> None:
        super().check(mdp)
        if self.counter.costs and max(self.counter.costs) >= mdp.num_costs:
            raise ModelError(f"the policy counts {', '.join(self.counts)}; the model has {mdp.num_costs} costs")

    def _check_actions(self, mdp: ConstrainedMDP) -> None:
        model, policy = self.on(mdp)
        policy.check(model)

    def _add_occupation(self, mdp: ConstrainedMDP, weight: float, rho: Float) -> None:
        tracked = self.tracked(mdp)
        inner = np.zeros((rho.shape[0], tracked.pair.size))
        self.over(tracked)._add_occupation(tracked.model(), weight, inner)
        for h in range(rho.shape[0]):
            rho[h] += np.bincount(tracked.pair, inner[h], minlength=mdp.num_pairs)

    def _markov(self, weights: Float, policies: Sequence[Policy], mdp: ConstrainedMDP) -> Policy:
        """The Markov form of a mixture, over what is spent too: the distribution of costs stays what it was."""
        if not all(isinstance(policy, SpentPolicy) and policy.counter == self.counter for policy in policies):
            raise ModelError(
                "the policies of this mixture count different things, so that it has no Markov form; "
                "evaluate, simulate or play the mixture itself"
            )
        tracked = self.tracked(mdp)
        inner = [policy.over(tracked) for policy in policies if isinstance(policy, SpentPolicy)]
        return SpentPolicy.of(tracked, plain.Mixture(weights, inner).to_markov(tracked.model()))

    # -- files --------------------------------------------------------------------------------------------

    def _table(
        self, states: Sequence[str], actions: Sequence[str], reached: NDArray[np.bool_] | None
    ) -> list[list[Any]]:
        """Rows of a CSV file, with a column for what was spent of each cost."""
        amounts = [[_number(x) for x in self.counter.amounts(total)] for total in self.spent]
        table, state = self.inner.probabilities, self.state.tolist()
        played = [
            [h, states[state[i]], *amounts[i], actions[a], float(table[h, i, a])]
            for h, i, a in np.argwhere(table > 0.0).tolist()
            if reached is None or reached[h, state[i]]
        ]
        header = ["step", "state", *(f"spent_{name}" for name in self.counts), "action", "probability"]
        return [header, *played]

    def _arrays(self) -> dict[str, Any]:
        counter = self.counter
        return {
            **{f"inner_{name}": array for name, array in self.inner._arrays().items()},
            "counted": np.array(counter.costs, dtype=np.int64),
            "names": np.array(counter.names, dtype=np.str_),
            "units": np.array([str(unit) for unit in counter.units], dtype=np.str_),
            "caps": np.array(["" if cap is None else str(cap) for cap in counter.caps], dtype=np.str_),
            "rounding": np.array(counter.rounding, dtype=np.int64),
            "state": self.state,
            "spent": np.array([[str(x) for x in total] for total in self.spent], dtype=np.str_),
            "first_actions": self.first_actions,
        }

    @classmethod
    def _read(cls, arrays: dict[str, Any]) -> SpentPolicy:
        """From what `_arrays` gave, if it makes sense: what is read here is used as an index later."""
        inner: Policy
        if "inner_actions" in arrays:
            inner = Deterministic(arrays["inner_actions"], int(arrays["inner_num_actions"]))
        else:
            inner = Policy(arrays["inner_probabilities"])
        costs = tuple(_whole_numbers(arrays["counted"], "counted", 0, 2**31).tolist())
        m = len(costs)
        names, units, caps = (tuple(map(str, arrays[name].tolist())) for name in ("names", "units", "caps"))
        rounding = tuple(_whole_numbers(arrays["rounding"], "rounding", DOWN, UP + 1).tolist())
        if not m or {len(names), len(units), len(caps), len(rounding)} != {m} or len(set(costs)) != m:
            raise ModelError("what is counted makes no sense")
        fractions = tuple(map(Fraction, units))
        if not all(unit > 0 for unit in fractions):
            raise ModelError("a unit is not above 0")
        counter = Counter(costs, names, fractions, tuple(int(cap) if cap else None for cap in caps), rounding)
        first = arrays["first_actions"]
        if first.ndim != 2 or first.shape[0] not in (1, inner.shape[0]):
            raise ModelError(f"first_actions has shape {first.shape}")
        first = _whole_numbers(first.reshape(-1), "first_actions", 0, inner.shape[2]).reshape(first.shape)
        state = _whole_numbers(arrays["state"], "state", 0, first.shape[1])
        spent = [tuple(map(int, row)) for row in arrays["spent"].tolist()]
        if not first.size or state.size != inner.shape[1] or len(spent) != state.size:
            raise ModelError("its arrays have lengths that do not fit")
        if any(len(row) != m for row in spent) or len(set(zip(state.tolist(), spent, strict=True))) != state.size:
            raise ModelError("what is spent makes no sense")
        return cls(counter, state, spent, inner, first)


class Player:
    """One episode of any policy: acts, and keeps the books where the policy acts on what was spent."""

    def __init__(self, policy: Policy, generator: np.random.Generator) -> None:
        self.policy, self.generator = policy, generator
        self._total: Any = policy.counter.start if isinstance(policy, SpentPolicy) else None

    def act(self, step: int, state: int) -> int:
        if isinstance(self.policy, SpentPolicy):
            return self.policy._act(step, state, self.generator, self._total)
        return self.policy.act(step, state, self.generator)

    def pay(self, costs: Float) -> None:
        """What the step cost, [d]."""
        if isinstance(self.policy, SpentPolicy):
            counter = self.policy.counter
            self._total = counter.add(self._total, counter.read(costs))


def load_policy(path: str | Path) -> Policy:
    """Read a policy that `Policy.save` wrote as `.npz`."""
    path = file_path(path)
    if path.suffix.lower() != ".csv":
        with reading(path):
            try:
                arrays = read_npz(path, lambda names, read: None)
            except (ModelError, TypeError, ValueError, KeyError):
                arrays = {}  # the plain reader says what is wrong
            if "counted" in arrays:
                try:
                    return SpentPolicy._read(arrays)
                except KeyError as error:
                    raise ModelError(f"{path}: not a policy file: no array {error}") from None
                except (ModelError, TypeError, ValueError, IndexError, AttributeError, ZeroDivisionError) as error:
                    raise ModelError(f"{path}: not a policy file: {error}") from None
    return plain.load_policy(path)


def _whole_numbers(array: Any, what: str, low: int, high: int) -> NDArray[np.int64]:
    """[n] of low..high-1."""
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
        raise ModelError(f"{what} holds no whole numbers")
    if array.size and not (array.min() >= low and array.max() < high):
        raise ModelError(f"{what} holds a number outside {low}..{high - 1}")
    return array.astype(np.int64)


def _less(total: Total) -> Total:
    return tuple(-x for x in total)


def _number(x: Fraction) -> int | float:
    return x.numerator if x.denominator == 1 else float(x)


# -- distributions ----------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False, repr=False)
class Distribution:
    """The total of one cost in an episode: `totals` [n], rising, with their `probabilities` [n]."""

    cost: str
    totals: Float
    probabilities: Float
    exact: tuple[Fraction, ...]  # the totals as rationals

    def __repr__(self) -> str:
        ends = f"{self.totals[0]:.6g}..{self.totals[-1]:.6g}"
        return f"Distribution({self.cost}: {self.totals.size} totals {ends}, mean {self.mean:.6g})"

    @property
    def mean(self) -> float:
        return float(self.totals @ self.probabilities)

    @property
    def most(self) -> float:
        """The largest total that has a positive probability."""
        return float(self.totals[np.flatnonzero(self.probabilities > 0.0)[-1]])

    def exceed(self, threshold: float) -> float:
        """The probability of a total above a threshold."""
        if not is_number(threshold):
            raise SpecError(f"threshold is {shown(threshold)}; it must be a number", key=("threshold",))
        bar = simplest(float(threshold))
        return float(self.probabilities[np.array([total > bar for total in self.exact])].sum())

    def cvar(self, level: float) -> float:
        """The mean of the worst share 1 - level of episodes."""
        if not (is_number(level) and 0.0 <= level < 1.0):
            raise SpecError(f"level is {shown(level)}; it must be in [0, 1)", key=("level",))
        return cvar(self.totals, self.probabilities, 0.0, float(level))[0]

    def quantile(self, q: float) -> float:
        """The least total that is not exceeded with probability q."""
        if not (is_number(q) and 0.0 <= q <= 1.0):
            raise SpecError(f"q is {shown(q)}; a quantile is a number in [0, 1]", key=("q",))
        sums = np.cumsum(self.probabilities)
        return float(self.totals[min(int(np.searchsorted(sums, q * sums[-1])), sums.size - 1)])


def cvar(totals: Float, probabilities: Float, beyond: float, level: float) -> tuple[float, int]:
    """CVaR of rising totals, of which the last stands for a mean excess of `beyond` above it; and which is the best t.

    The minimum over t of t + E max(C - t, 0) / (1 - level) is at one of the totals.
    """
    share = float(1 - simplest(level))
    above = np.cumsum(probabilities[::-1])[::-1]  # P(C >= total)
    # E max(C - t, 0) rises from the last total down by gap x P(C > t).
    excess = np.append(np.cumsum((np.diff(totals) * above[1:])[::-1])[::-1], 0.0) + beyond
    values = totals + excess / share
    best = int(np.argmin(values))
    return float(values[best]), best


def distribution(mdp: ConstrainedMDP, policy: Any, cost: int | str = 0) -> Distribution:
    """The exact distribution of the total of one cost in an episode of a policy, a mixture or a plan.

    Costs are counted as rationals, by outcome where the model has pay by outcome and else as means
    (`Simulation.pays_means`). Totals of costs without a common unit may be too many: then it is refused.
    """
    need_model(mdp, "distribution")
    index = _cost_index(mdp, cost)
    played, skip = (policy, 0.0) if isinstance(policy, (Policy, plain.Mixture)) else _of_plan(policy)
    parts = zip(played.weights, played.policies, strict=True) if isinstance(played, plain.Mixture) else [(1.0, played)]
    found: dict[Fraction, float] = {Fraction(0): skip} if skip > 0.0 else {}
    for weight, part in parts:
        part.check(mdp)
        for total, p in _one_distribution(mdp, part, index):
            found[total] = found.get(total, 0.0) + (1.0 - skip) * float(weight) * p
    exact = tuple(sorted(found))
    totals = np.array([float(x) for x in exact])
    return Distribution(mdp.cost_names[index], totals, np.array([found[x] for x in exact]), exact)


def _one_distribution(mdp: ConstrainedMDP, policy: Policy, index: int) -> list[tuple[Fraction, float]]:
    """The totals of a cost under one policy, with their probabilities: a forward pass with the total in the state.

    A policy that counts costs itself needs those in the state as well.
    """
    if isinstance(policy, plain.Null):
        return [(Fraction(0), 1.0)]
    own = policy.counter if isinstance(policy, SpentPolicy) else None
    alone = track_or_refuse(mdp, index)
    if own is not None:
        whole = alone.counter
        joint = Counter(
            (*own.costs, *whole.costs),
            (*own.names, *whole.names),
            (*own.units, *whole.units),
            (*own.caps, *whole.caps),
            (*own.rounding, *whole.rounding),
        )
        try:
            tracked = track_as(mdp, joint, MOST_TOTALS)
        except TooManyTotals:
            raise ModelError(
                f"the totals of {mdp.cost_names[index]!r}, beside those that the policy counts, are more than "
                f"{MOST_TOTALS:,}; simulate instead"
            ) from None
        over: Policy = policy.over(tracked)  # type: ignore[attr-defined]
    else:
        tracked = alone
        over = policy_over(policy, tracked)
    last = last_totals(tracked, over)
    unit = tracked.counter.units[-1]
    found: dict[Fraction, float] = {}
    for k in np.flatnonzero(last > 0.0).tolist():
        total = tracked.totals[k][-1] * unit
        found[total] = found.get(total, 0.0) + float(last[k])
    return list(found.items())


def track_or_refuse(mdp: ConstrainedMDP, index: int) -> Tracked:
    """The model with all totals of one cost in its state."""
    try:
        return track(mdp, [index], [[]], [None], 0, MOST_TOTALS)
    except TooManyTotals:
        raise ModelError(
            f"the totals of {mdp.cost_names[index]!r} are more than {MOST_TOTALS:,}: its costs have no common unit; "
            "round them, or simulate"
        ) from None


def policy_over(policy: Policy, tracked: Tracked) -> Policy:
    """A policy that counts nothing, in a tracked model."""
    if isinstance(policy, Deterministic):
        return Deterministic._trusted_actions(policy.actions[:, tracked.state], policy.num_actions)
    return Policy._trusted(policy.probabilities[:, tracked.state])


def last_totals(tracked: Tracked, over: Policy) -> Float:
    """[totals]: the probability that an episode ends with each."""
    model = tracked.model()
    rho = np.zeros((model.repeats, model.num_pairs))
    over._add_occupation(model, 1.0, rho)
    last = np.zeros(model.num_pairs)
    at = tracked.pairs_at(model.horizon - 1)
    last[at] = rho[-1][at]
    reached = np.repeat(last, np.diff(tracked.start)) * tracked.probability
    return np.bincount(tracked.after, reached, minlength=len(tracked.totals)).astype(np.float64)


def _of_plan(plan: Any) -> tuple[Any, float]:
    try:
        return plan.policy, float(plan.skip)
    except AttributeError:
        raise ModelError(f"expected a Policy, a Mixture or a Plan, not {type(plan).__name__}") from None


def _cost_index(mdp: ConstrainedMDP, cost: Any) -> int:
    if isinstance(cost, str) and cost in mdp.cost_names:
        return mdp.cost_names.index(cost)
    if isinstance(cost, (int, np.integer)) and not isinstance(cost, bool) and 0 <= cost < mdp.num_costs:
        return int(cost)
    raise SpecError(unknown("cost", cost if isinstance(cost, str) else shown(cost), mdp.cost_names), key=("cost",))
