"""The exact oracle of an uncertain model: the best policy *and* the best transitions within intervals answer w.

The transitions are only known to lie in a confidence set around the estimate p_hat, one interval each:

    B(s, a) = { p in the simplex : |p(t) - p_hat(t|s, a)| <= beta(s, a, t) for all t }

and may be chosen anew at every step h. All value vectors z = (reward, costs) of a policy and of p_h(.|s, a) in B(s, a)
form a convex polytope: they are linear in the occupation q_h(s, a, t), whose constraints are linear,

    (p_hat - beta)(t|s, a) sum_u q_h(s, a, u)  <=  q_h(s, a, t)  <=  (p_hat + beta)(t|s, a) sum_u q_h(s, a, u)

which is the extended linear program of OptCMDP (Efroni, Mannor and Pirotta 2020, Section 3) with S^2 A H variables. Its
support function needs no program: for a direction w, backward over the steps,

    V_h(s) = max_a [ w.(r, c)(s, a) + sum_i |w_i| b_i(s, a) + max over p in B(s, a) of p.V_{h+1} ]

and the inner maximum is greedy (Jaksch, Ortner and Auer 2010, Fig. 2, there for an L1 ball): give every successor its
lower end, and what is left to the successors with the highest V_{h+1} first, each up to its upper end. With one sort of
the states a step, a pair costs as many operations as it has successors that receive mass. b is the model's bonus, as in
`BackwardInduction`.

The maximiser z is evaluated by a forward pass of the greedy policy under the transitions chosen for w.
"""

from __future__ import annotations

from typing import Self

import numpy as np
from numpy.typing import ArrayLike

from conrl import kernels
from conrl._types import Float, Index
from conrl.arguments import float_array
from conrl.errors import ModelError
from conrl.model import ConstrainedMDP
from conrl.model.criteria import need_steps
from conrl.model.graph import Graph
from conrl.model.mdp import need_stationary
from conrl.oracles.protocols import ModelOracle, Supports
from conrl.policy import Deterministic, Policy


class ExtendedBackwardInduction(ModelOracle):
    """`SupportOracle` of all models whose transitions lie within `radius` of those of `mdp`.

    Args:
        mdp: the estimate; its bonus, if any, moves rewards and costs.
        radius: [N], one for each outcome of `mdp.graph`; or [S, A, S], for any two states. A number stands for all.
        others: [P], or a number: the radius of every state that is not among the outcomes of a pair; 0 by default.
            It belongs to a radius [N].
        many: [S]: how many states each one stands for, as a successor that is not among the outcomes; 1 by default.
            0 means that the state cannot be entered.

    Scratch memory belongs to a call: threads may share one, and no answer depends on another.
    """

    def __init__(
        self,
        mdp: ConstrainedMDP,
        radius: ArrayLike,
        others: ArrayLike = 0.0,
        many: ArrayLike | None = None,
    ) -> None:
        """The intervals as what every outcome surely has, low = max(p_hat - beta, 0), what it may have on top,
        width = min(p_hat + beta, 1) - low, and what a pair has to give away, free = 1 - (sum of low).

        A pair's transitions are put together from the ends of their intervals, at most all states' of them, before
        they are used: four operations each are more than enough.
        """
        need_stationary(mdp, "ExtendedBackwardInduction")
        beta = float_array(radius, "radius")
        graph = mdp.graph
        if beta.ndim == 3:
            graph, beta = _all_successors(mdp, beta)
        try:
            beta = np.broadcast_to(beta, graph.probability.shape)
            wide = np.broadcast_to(float_array(others, "others"), (mdp.num_pairs,)).copy()
        except ValueError:
            raise ModelError(
                f"radius has shape {np.shape(radius)} and others {np.shape(others)}; the model has "
                f"{mdp.graph.probability.size} outcomes of {mdp.num_pairs} pairs"
            ) from None
        if not ((beta >= 0.0).all() and (wide >= 0.0).all()):
            raise ModelError("radius or others has an entry that is negative or no number")
        n = mdp.num_states
        weight = np.ones(n) if many is None else float_array(many, "many")
        if weight.shape != (n,) or not (weight >= 0.0).all():
            raise ModelError(f"many has shape {weight.shape}; it must be [{n}] and at least 0")
        each_way = (
            need_steps(mdp.horizon, "an oracle over intervals") * (4 * (int(np.diff(graph.start).max()) + n) + 8)
            + 2 * mdp.num_costs
            + n
        )
        super().__init__(mdp, mdp.pay, mdp.bonus, (each_way, each_way + mdp.num_pairs))
        low = np.maximum(graph.probability - beta, 0.0)
        width = np.minimum(graph.probability + beta, 1.0) - low
        free = np.maximum(1.0 - np.add.reduceat(low, graph.start[:-1]), 0.0)
        rest = np.ones(mdp.num_pairs)
        # What a state may have at most is 1, also where a radius is larger.
        wide = np.minimum(wide, 1.0)
        self._intervals = (graph.first, graph.start, graph.successor, low, width, free, wide, weight, rest)

    @classmethod
    def between(cls, mdp: ConstrainedMDP, low: Float, high: Float, others: Float, many: Float, rest: Float) -> Self:
        """The oracle of transitions whose outcomes lie between `low` [N] and `high` [N], around those of `mdp`; of
        every other state up to `others` [P], and of all those together up to `rest` [P]."""
        oracle = cls(mdp, 0.0, others, many)
        first, start, successor, _, _, _, wide, weight, _ = oracle._intervals
        free = np.maximum(1.0 - np.add.reduceat(low, start[:-1]), 0.0)
        oracle._intervals = (first, start, successor, low, high - low, free, wide, weight, np.minimum(rest, 1.0))
        return oracle

    def support_many(self, directions: Float) -> Supports:
        """Answers to the rows of `directions` [m, 1+d]; `means` are the policies' values in the estimate itself."""
        m = directions.shape[0]
        values = np.empty(m)
        points = np.empty((m, 1 + self.num_costs))
        means = np.empty_like(points)
        mdp = self.mdp
        for i, w in enumerate(directions):
            values[i], choice, orders = self._sweep(w)
            counts = np.zeros((1, mdp.num_pairs))
            kernels.extended_occupation(self._intervals, mdp.initial, choice, orders, 1.0, counts)
            points[i] = counts[0] @ mdp.pay
            if mdp.bonus is not None:
                points[i] += np.sign(w) * (counts[0] @ mdp.bonus)
            visits = np.zeros((1, mdp.num_pairs))
            self._policy(choice)._add_occupation(mdp, 1.0, visits)
            means[i] = visits[0] @ mdp.pay
        return Supports(values, points, means)

    def policy(self, w: Float) -> Deterministic:
        """The greedy policy for w, at every step and state."""
        return self._policy(self._sweep(np.asarray(w, dtype=np.float64))[1])

    def markov(self, weights: Float, directions: Float) -> Policy:
        """The Markov policy of the mixed occupation: what answers direction i, with the transitions chosen for it, has
        weight i. The mixed transitions are in the set, so that with them it is worth what the mixture is."""
        if weights.size == 1:
            return self.policy(directions[0])
        mdp = self.mdp
        rho = np.zeros((mdp.horizon, mdp.num_pairs))
        heaviest = int(np.argmax(weights))
        for i, (weight, w) in enumerate(zip(weights.tolist(), directions, strict=True)):
            _, choice, orders = self._sweep(w)
            kernels.extended_occupation(self._intervals, mdp.initial, choice, orders, weight, rho)
            if i == heaviest:
                fallback = self._policy(choice).actions
        table = np.zeros((mdp.horizon, mdp.num_states, mdp.num_actions))
        kernels.markov(mdp.graph.first, mdp.action, rho, fallback, table)
        return Policy._trusted(table)

    def _policy(self, choice: Index) -> Deterministic:
        mdp = self.mdp
        pairs = mdp.graph.first[:-1] + choice
        return Deterministic._trusted_actions(mdp.action[pairs].astype(np.int16), mdp.num_actions)

    def _sweep(self, w: Float) -> tuple[float, Index, Index]:
        """The value of w, and at each step the choice of each state and the states by falling value: [H, n] each."""
        mdp = self.mdp
        choice = np.empty((mdp.horizon, mdp.num_states), dtype=np.int64)
        orders = np.empty_like(choice)
        values = kernels.extended_backward(self._intervals, mdp.pay_along(w), self._tie(w), choice, orders)
        return float(values @ mdp.initial), choice, orders


def _all_successors(mdp: ConstrainedMDP, table: Float) -> tuple[Graph, Float]:
    """The model with every state listed as an outcome of every pair, and its radii [P * S] from a table [S, A, S]."""
    S, A, P = mdp.num_states, mdp.num_actions, mdp.num_pairs
    if table.shape != (S, A, S):
        raise ModelError(f"radius has shape {table.shape}; expected ({S}, {A}, {S})")
    probability = mdp.transitions.toarray().reshape(S, A, S)[mdp.pair_state, mdp.action].reshape(-1)
    graph = Graph(mdp.graph.first, np.arange(P + 1) * S, np.tile(np.arange(S, dtype=np.int32), P), probability)
    return graph, table[mdp.pair_state, mdp.action].reshape(-1)
