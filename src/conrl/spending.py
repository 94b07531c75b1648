"""Policies that act on what was spent.

`SpentPolicy` holds a policy of a tracked model (`conrl.model.tracking`): an action for each (step, state, spent).
Whoever plays it keeps the books with it:

    spent = policy.start
    action = policy.act(step, state, generator, spent=spent)
    spent = policy.spend(spent, costs)                          # after each step

`spend` adds the costs as the policy counts them: exactly, up to its largest threshold, or rounded on its grid.

Where a (state, spent) cannot come up at a step of the model that it was planned in, it acts as for the nearest amounts
of that state that can come up at that step: those that differ by the fewest units, added up over the costs, and of
equals those with more of the first cost, then of the second, and so on. In a state that cannot come up at
that step at all, it plays the first action there is; a policy file says that nothing was planned there.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conrl._types import Bool, Float, Int
from conrl.arguments import float_array, frozen, read_generator
from conrl.errors import ModelError
from conrl.mixture import Mixture
from conrl.model import ConstrainedMDP
from conrl.model.counting import DOWN, UP, Counter, Spent, Sums
from conrl.model.tracking import Tracked, track_as
from conrl.policy import Deterministic, Policy, SparsePolicy, planned_places
from conrl.sampling import draw
from conrl.stationary_policy import Stationary
from conrl.wording import brief, line


def put_actions(policy: Policy, where: Bool, actions: Int) -> Policy:
    """The policy with other actions [H, S] at the steps and states `where` [H, S]."""
    if isinstance(policy, Stationary):
        return Stationary._trusted(
            put_actions(Policy._trusted(policy._probabilities), where, actions)._probabilities[0]
        )
    if isinstance(policy, SparsePolicy):
        keep = ~where.reshape(-1)[policy.places]
        modes = np.where(where, actions, policy.modes).astype(policy.modes.dtype)
        return SparsePolicy._trusted_parts(modes, policy.places[keep], policy.rows[keep])
    if isinstance(policy, Deterministic):
        own: Any = np.where(where, actions, policy.actions).astype(policy.actions.dtype)
        return Deterministic._trusted_actions(own, policy.shape[2])
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
        spent: Sequence[Spent],
        inner: Policy,
        first_actions: Int,
        tracked: Tracked | None = None,
        reached: Bool | None = None,
    ) -> None:
        """`state` [n] and `spent` [n] are the combinations; `first_actions` [1, S] or [H, S]: in unknown states.

        `reached` [H, n]: which of them can come up at each step; what `inner` has elsewhere means nothing, and neither
        do `first_actions`. None: all mean something.
        """
        self.counter = counter
        self.inner = inner
        self.state: Int = frozen(np.asarray(state, dtype=np.int64))
        self.spent = tuple(spent)
        self.first_actions: Int = frozen(np.asarray(first_actions, dtype=np.int64))
        self.shape = (inner.shape[0], self.first_actions.shape[1], inner.shape[2])
        self._tracked = tracked  # where it was planned
        self.reached: Bool | None = None if reached is None else frozen(np.asarray(reached, dtype=bool))

    @classmethod
    def of(cls, tracked: Tracked, inner: Policy, reached: Bool | None = None) -> SpentPolicy:
        """A policy of the nodes of a tracked model; `reached` [H, n], where less than all that it leads to counts."""
        spent = [tracked.totals[k] for k in tracked.total.tolist()]
        first_actions = np.argmax(tracked.base.playable, axis=2)
        model = tracked.model()
        if model.step_dependent:  # what it does where nobody comes must exist in the model itself
            first = np.broadcast_to(first_actions[:, tracked.state], (model.horizon, model.num_states))
            inner = put_actions(inner, np.asarray(~model.available.any(axis=2)), first)
        reached = planned_places(model) if reached is None else reached
        return cls(tracked.counter, tracked.state, spent, inner, first_actions, tracked, reached)

    def __repr__(self) -> str:
        H, S, A = self.shape
        return line(self, f"steps={H}, states={S}, actions={A}", f"counts={brief(self.counts)}")

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
        return counter.amounts(counter.add(self.meant(spent), counter.read(float_array(costs, "costs"))))

    def act(self, step: int, state: int, generator: np.random.Generator, spent: Any = None) -> int:
        """Draw the action for a step (from 0), a state, and what was spent: `start`, then what `spend` gives."""
        if spent is None:
            raise ModelError(
                f"this policy acts on the {' and '.join(self.counts)} spent so far: pass spent=policy.start, and after "
                "each step spent=policy.spend(spent, costs)",
                key=("spent",),
            )
        return self._act(*self._index(step, state), generator, self.meant(spent))

    def _act(self, step: int, state: int, generator: np.random.Generator, total: Spent) -> int:
        node = self._node(step, state, total)
        if node < 0:
            return int(self.first_actions[min(step, self.first_actions.shape[0] - 1), state])
        if isinstance(self.inner, Deterministic):
            return int(self.inner.actions[step, node])
        return int(draw(self.inner.probabilities[step, node], read_generator(generator).random()))

    @cached_property
    def _nodes(self) -> list[dict[Spent, int]]:
        """[S]: the combinations of each state, by what is spent."""
        found: list[dict[Spent, int]] = [{} for _ in range(self.shape[1])]
        for node, (state, total) in enumerate(zip(self.state.tolist(), self.spent, strict=True)):
            found[state][total] = node
        return found

    def _node(self, step: int, state: int, total: Spent) -> int:
        """The combination that is acted on; -1 in a state that has none at that step."""
        known = self._nodes[state]
        node = known.get(total)
        if node is not None and (self.reached is None or self.reached[step, node]):
            return node
        return int(self._nearest(state, total)[step])

    def _nearest(self, state: int, total: Spent) -> Int:
        """[H]: the combination that is acted on at each step."""
        known = self._nodes[state]
        if not known:
            return np.full(self.shape[0], -1)
        ranked = sorted(known, key=lambda x: (sum(abs(a - b) for a, b in zip(x, total, strict=True)), _less(x)))
        nodes = np.array([known[x] for x in ranked])
        if self.reached is None:
            return np.full(self.shape[0], nodes[0])
        there = self.reached[:, nodes]
        return np.where(there.any(axis=1), nodes[there.argmax(axis=1)], -1)

    def meant(self, spent: Any) -> Spent:
        """Amounts that somebody added up, perhaps in doubles, in units: of each cost the nearest total that comes up,
        if rounding alone lies between; else it is rounded up."""
        counter, found = self.counter, []
        for i, (amount, (known, sums)) in enumerate(zip(counter.listed(spent), self._amounts, strict=True)):
            count = amount / counter.units[i]
            k = bisect_left(known, count)
            off = [(abs(x - count), -x) for x in known[max(k - 1, 0) : k + 1]]
            near = [pair for pair in off if pair[0] * counter.units[i] <= sums.rounding(amount)]
            found.append(-min(near)[1] if near else counter.up(i, amount))
        return counter.add(tuple(found), (0,) * len(found))

    @cached_property
    def _amounts(self) -> list[tuple[list[int], Sums]]:
        """Of each cost that is counted, the amounts that come up, rising, and what they are sums of. Without a cap
        costs may have both signs, and none is larger than the amounts are apart."""
        amounts = []
        for i, cap in enumerate(self.counter.caps):
            known = sorted({total[i] for total in self.spent})
            apart = (known[-1] - known[0]) * self.counter.units[i] if known and cap is None else 0
            amounts.append((known, Sums(self.shape[0], float(apart))))
        return amounts

    def at(self, spent: Any) -> Policy:
        """What it does, at every step and state, if so much is spent: a Markov policy [H, S, A]."""
        total = self.meant(spent)
        states = np.arange(self.shape[1])
        return self._rows(np.stack([self._nearest(s, total) for s in states.tolist()], axis=1), states)

    def _rows(self, node: Int, state: Int) -> Policy:
        """The policy whose i-th state is combination node[h, i] or, where that is -1, the unknown state[i]."""
        first = np.broadcast_to(self.first_actions[:, state], (self.shape[0], state.size))
        if not self.spent:  # a learner that has seen nothing yet
            return Deterministic._trusted_actions(first.astype(np.int16), self.shape[2])
        at = np.arange(self.shape[0])[:, None], node
        if isinstance(self.inner, Deterministic):
            known: Policy = Deterministic._trusted_actions(self.inner.actions[at], self.shape[2])
        else:
            known = Policy._trusted(self.inner.probabilities[at])
        return put_actions(known, node < 0, first) if (node < 0).any() else known

    @property
    def most_probable(self) -> SpentPolicy:
        return self._with(inner=self.inner.most_probable)

    def _with(self, **changed: Any) -> SpentPolicy:
        """The same with other parts."""
        names = ("counter", "state", "spent", "inner", "first_actions", "reached")
        return SpentPolicy(**{**{name: getattr(self, name) for name in names}, "tracked": self._tracked, **changed})

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
        numbers = zip(tracked.state.tolist(), tracked.total.tolist(), strict=True)
        pairs = [(s, tracked.totals[k][:count]) for s, k in numbers]
        own = np.array([self._nodes[s].get(total, -1) for s, total in pairs], dtype=np.int64)
        node = np.tile(own, (self.shape[0], 1))
        lacking = own < 0
        if self.reached is not None:
            lacking |= (tracked.model().reached & ~self.reached[:, own]).any(axis=0)
        for i in np.flatnonzero(lacking).tolist():
            node[:, i] = self._nearest(*pairs[i])
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
        reached = self.reached if tracked is self._tracked else None
        return SpentPolicy.of(tracked, Mixture(weights, inner).to_markov(tracked.model()), reached)

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
            if (reached is None or reached[h, state[i]]) and (self.reached is None or self.reached[h, i])
        ]
        header = ["step", "state", *(f"spent_{name}" for name in self.counts), "action", "probability"]
        return [header, *played]

    def _columns(self, mdp: ConstrainedMDP | None) -> dict[str, Any]:
        """The entries of combinations, which are then told as states and what was spent."""
        if mdp is None:
            state, spent, inner = self.state, self.spent, self.inner
            visits = None if self.reached is None else self.reached.astype(np.float64)
        else:
            tracked = self.tracked(mdp)
            state, spent = tracked.state, tuple(tracked.totals[k] for k in tracked.total.tolist())
            inner = self.over(tracked)
            visits = inner.occupation(tracked.model()).sum(axis=2)
        entries = self._entries(None, inner.probabilities, visits)
        node = entries["state"]
        amounts = [self.counter.amounts(total) for total in spent]
        columns = {
            "step": entries["step"],
            "state": state[node],
            **{f"spent_{n}": [float(amounts[k][i]) for k in node.tolist()] for i, n in enumerate(self.counts)},
        } | {title: entries[title] for title in entries if title not in ("step", "state")}
        if mdp is None:
            return {title: column for title, column in columns.items() if title != "visits"}
        names = {"state": mdp.state_names, "action": mdp.action_names}
        return columns | {title: [own[i] for i in columns[title].tolist()] for title, own in names.items()}

    def _arrays(self) -> dict[str, Any]:
        counter = self.counter
        return {
            **{f"inner_{name}": array for name, array in self.inner._arrays().items()},
            "counted": np.array(counter.costs, dtype=np.int64),
            "names": np.array(counter.names, dtype=np.str_),
            "units": np.array(counter.written_units, dtype=np.str_),
            "caps": np.array(["" if cap is None else str(cap) for cap in counter.caps], dtype=np.str_),
            "rounding": np.array(counter.rounding, dtype=np.int64),
            "state": self.state,
            "spent": np.array([[str(x) for x in total] for total in self.spent], dtype=np.str_),
            "first_actions": self.first_actions,
            **({} if self.reached is None else {"reached": self.reached}),
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
        reached = arrays.get("reached")
        if reached is not None and (reached.dtype != np.bool_ or reached.shape != inner.shape[:2]):
            raise ModelError("what is reached makes no sense")
        return cls(counter, state, spent, inner, first, None, reached)


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


def _whole_numbers(array: Any, what: str, low: int, high: int) -> NDArray[np.int64]:
    """[n] of low..high-1."""
    if not isinstance(array, np.ndarray) or array.ndim != 1 or array.dtype.kind not in "iu":
        raise ModelError(f"{what} holds no whole numbers")
    if array.size and not (array.min() >= low and array.max() < high):
        raise ModelError(f"{what} holds a number outside {low}..{high - 1}")
    return array.astype(np.int64)


def _less(total: Spent) -> Spent:
    return tuple(-x for x in total)


def _number(x: Fraction) -> int | float:
    return x.numerator if x.denominator == 1 else float(x)
