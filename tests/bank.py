"""Small models with known answers, and what every optimal plan must satisfy.

Nothing below asks `conrl` for an answer: values, bounds and programs are computed from the dense arrays of a model
in plain numpy and by `scipy.optimize.linprog`. Letters: H steps, S states, A actions, d costs; P [S, A, S], r [S, A],
c [S, A, d]; a problem is rows G (costs) <= h, limits first and floors (sign -1) after them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from scipy.optimize import linprog

import conrl
from conrl.estimation.counts import Counts
from conrl.planners.allowance import FEASIBILITY

Float = NDArray[np.float64]
INF = float("inf")

# Least violations between +-BAND (in units of `row_unit`) are too near to call: limits that are exactly tight.
BAND = 1e-8
_PRECISE = {"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10}


# -- a model in dense arrays ----------------------------------------------------------------------------------


class Dense(NamedTuple):
    """A model without its sparse structure; pay is optimistic nowhere."""

    P: Float  # [S, A, S]
    pay: Float  # [S, A, 1+d]
    bonus: Float  # [S, A, 1+d]
    exists: NDArray[np.bool_]  # [S, A]
    initial: Float  # [S]
    horizon: int


def dense(mdp: conrl.ConstrainedMDP) -> Dense:
    S, A = mdp.num_states, mdp.num_actions
    pay = np.concatenate((mdp.rewards[:, :, None], mdp.costs), axis=2)
    bonus = np.zeros_like(pay)
    if mdp.bonus is not None:
        bonus[mdp.pair_state, mdp.action] = mdp.bonus
    return Dense(mdp.transitions.toarray().reshape(S, A, S), pay, bonus, mdp.available, mdp.initial, mdp.horizon)


class Rows(NamedTuple):
    """G costs <= h."""

    cost: list[int]  # [R]
    sign: list[float]  # [R]
    bound: Float  # [R]

    def matrix(self, d: int) -> Float:
        G = np.zeros((len(self.cost), d))
        for r, (i, sign) in enumerate(zip(self.cost, self.sign, strict=True)):
            G[r, i] = sign
        return G


def rows_of(mdp: conrl.ConstrainedMDP, problem: conrl.Linear) -> Rows:
    cost, sign, bound = [], [], []
    for given, side in ((problem.limits, 1.0), (problem.floors, -1.0)):
        for i, x in enumerate(_listed(given, mdp.cost_names)):
            if np.isfinite(x):
                cost.append(i)
                sign.append(side)
                bound.append(side * x)
    return Rows(cost, sign, np.array(bound))


def _listed(given: Any, names: Sequence[str]) -> list[float]:
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [float(given.get(n, INF)) for n in names]
    return [INF if x is None else float(x) for x in given]


def reached(m: Dense) -> NDArray[np.bool_]:
    """[H, S]: which states can be occupied at each step."""
    table = np.zeros((m.horizon, m.initial.size), dtype=bool)
    table[0] = m.initial > 0.0
    edges = np.asarray((m.P > 0.0).any(axis=1))
    for h in range(1, m.horizon):
        table[h] = edges[table[h - 1]].any(axis=0)
    return table


def row_unit(mdp: conrl.ConstrainedMDP, rows: Rows) -> Float:
    """[R]: max(|bound|, the largest one-step cost that can be met), what FEASIBILITY is relative to."""
    m = dense(mdp)
    states = reached(m).any(axis=0)
    largest = (np.abs(m.pay[states]).max(axis=(0, 1)) + m.bonus[states].max(axis=(0, 1)))[1:]
    return np.array([max(abs(h), largest[i]) or 1.0 for i, h in zip(rows.cost, rows.bound, strict=True)])


# -- plain numpy dynamic programming --------------------------------------------------------------------------


def value_of(mdp: conrl.ConstrainedMDP, probabilities: Float) -> Float:
    """[1+d]: the exact expected totals of a Markov policy [H, S, A], forward."""
    m = dense(mdp)
    mu, total = m.initial, np.zeros(m.pay.shape[2])
    for h in range(m.horizon):
        rho = mu[:, None] * probabilities[h]
        total = total + np.einsum("sa,sai->i", rho, m.pay)
        mu = np.einsum("sa,sat->t", rho, m.P)
    return total


def best_total(mdp: conrl.ConstrainedMDP, w: Float) -> float:
    """max over policies of w.(reward, costs), each coordinate moved by the bonus in favour of w; backward."""
    m = dense(mdp)
    pay = np.where(m.exists, m.pay @ w + m.bonus @ np.abs(w), -np.inf)
    V = np.zeros(m.initial.size)
    for _ in range(m.horizon):
        V = (pay + m.P @ V).max(axis=1)
    return float(m.initial @ V)


def free_value(mdp: conrl.ConstrainedMDP, w: Float) -> Float:
    """[1+d]: totals, without bonus, of a policy that attains `best_total` (ties to the first action)."""
    m = dense(mdp)
    pay = np.where(m.exists, m.pay @ w, -np.inf)
    V = np.zeros(m.initial.size)
    to_go = np.zeros((m.initial.size, m.pay.shape[2]))
    everyone = np.arange(m.initial.size)
    for _ in range(m.horizon):
        chosen = (pay + m.P @ V).argmax(axis=1)
        to_go = m.pay[everyone, chosen] + m.P[everyone, chosen] @ to_go
        V = to_go @ w
    return m.initial @ to_go


def dual_bound(mdp: conrl.ConstrainedMDP, rows: Rows, multipliers: Float) -> float:
    """max_z [z_0 - multipliers.(G z - h)], an upper bound on the best reward (weak duality)."""
    w = np.concatenate(([1.0], -multipliers @ rows.matrix(mdp.num_costs)))
    return best_total(mdp, w) + float(multipliers @ rows.bound)


# -- the occupation-measure program ---------------------------------------------------------------------------


class Solved(NamedTuple):
    value: float
    multipliers: Float  # [R]


def solve_lp(mdp: conrl.ConstrainedMDP, problem: conrl.Linear, slack: float = 0.0) -> Solved | None:
    """The best (optimistic) reward with each row relaxed by slack x `row_unit`; None if infeasible."""
    rows = rows_of(mdp, problem)
    reward, used, flow, start = _program(mdp, rows)
    limits = {"A_ub": used, "b_ub": rows.bound + slack * row_unit(mdp, rows)} if rows.cost else {}
    found = _highs(-reward, A_eq=flow, b_eq=start, **limits)
    if found.status == 2:
        return None
    return Solved(-float(found.fun), -np.asarray(found.ineqlin.marginals) if rows.cost else np.zeros(0))


def least_violation(mdp: conrl.ConstrainedMDP, problem: conrl.Linear) -> float:
    """min over policies of the largest (G z - h) / unit: positive exactly if the limits are infeasible."""
    rows = rows_of(mdp, problem)
    if not rows.cost:
        return -INF
    reward, used, flow, start = _program(mdp, rows)
    unit = row_unit(mdp, rows)
    with_t = np.column_stack((used / unit[:, None], np.full(unit.size, -1.0)))
    flow_t = sp.hstack((flow, sp.csr_array((flow.shape[0], 1))))
    goal = np.append(np.zeros(reward.size), 1.0)
    bounds = [(0.0, None)] * reward.size + [(None, None)]
    found = _highs(goal, A_ub=with_t, b_ub=rows.bound / unit, A_eq=flow_t, b_eq=start, bounds=bounds)
    assert found.status == 0
    return float(found.fun)


def _highs(goal: Float, **program: Any) -> Any:
    """HiGHS as tight as it goes; another of its methods where one gives up (successors of probability 1e-8)."""
    for method, presolve in (("highs", True), ("highs-ds", False), ("highs-ipm", True)):
        found = linprog(goal, method=method, options=_PRECISE | {"presolve": presolve}, **program)
        if found.status in (0, 2):
            return found
    raise AssertionError(found.message)


def _program(mdp: conrl.ConstrainedMDP, rows: Rows) -> tuple[Float, Float, Any, Float]:
    """Objective [n], rows [R, n], flow [H*S, n] and its right side, over rho(h, s, a) with missing pairs left out."""
    m = dense(mdp)
    S, A, H = m.P.shape[0], m.P.shape[1], m.horizon
    pairs = np.flatnonzero(m.exists.reshape(-1))
    pay, bonus = m.pay.reshape(S * A, -1)[pairs], m.bonus.reshape(S * A, -1)[pairs]
    leave = np.zeros((S, pairs.size))
    leave[pairs // A, np.arange(pairs.size)] = 1.0
    enter = m.P.reshape(S * A, S)[pairs].T
    flow = sp.kron(sp.eye_array(H), sp.csr_array(leave)) - sp.kron(sp.eye_array(H, k=-1), sp.csr_array(enter))
    used = [s * pay[:, 1 + i] - bonus[:, 1 + i] for i, s in zip(rows.cost, rows.sign, strict=True)]
    start = np.concatenate((m.initial, np.zeros((H - 1) * S)))
    return (
        np.tile(pay[:, 0] + bonus[:, 0], H),
        np.tile(np.array(used).reshape(len(used), pairs.size), (1, H)),
        sp.csr_array(flow),
        start,
    )


# -- what an optimal plan satisfies ---------------------------------------------------------------------------


def assert_optimal(
    mdp: conrl.ConstrainedMDP, problem: conrl.Linear, plan: conrl.Plan, tol: float, answer: float | None = None
) -> None:
    """Exact value, feasible, certified by its own multipliers, complementary; and the answer, where it is known.

    A row may be exceeded by `FEASIBILITY` x its bound and by rounding, which is worth multiplier x that: `room` below.
    """
    rows = rows_of(mdp, problem)
    unit = row_unit(mdp, rows)
    multipliers = plan.multipliers
    scale = max(1.0, abs(plan.objective))
    allowed = FEASIBILITY * np.abs(rows.bound) + 1e-12 * mdp.horizon * unit
    room = float(multipliers @ allowed)
    rounding = 1e-9 * scale + 1e-13 * mdp.horizon * float(multipliers @ unit)

    assert plan.status == "optimal", plan.message
    assert plan.prices.shape == plan.costs.shape == plan.floor_prices.shape == (mdp.num_costs,)
    assert (plan.prices >= 0.0).all()
    assert (plan.floor_prices >= 0.0).all()

    value = np.concatenate(([plan.reward], plan.costs))
    assert_values(mdp, plan.policy, value)
    _assert_mixture(mdp, plan, value)

    excess = excess_of(mdp, plan, rows)
    assert (excess <= allowed).all(), (excess, allowed)

    assert plan.gap == plan.bound - plan.objective
    assert 0.0 <= plan.gap <= tol * scale
    proven = dual_bound(mdp, rows, multipliers)
    assert abs(proven - plan.bound) <= rounding + room, (proven, plan.bound)
    if mdp.bonus is None:
        assert plan.objective == plan.reward or abs(plan.objective - plan.reward) <= 1e-12 * scale
    # lambda.(h - G z) = bound - objective - (what the Lagrangian loses): none of its terms exceeds the gap.
    assert (multipliers * -excess <= plan.gap + rounding + room).all(), (multipliers, excess)
    if answer is not None:
        assert plan.bound >= answer - 1e-9 * scale - rounding
        assert abs(plan.objective - answer) <= tol * scale + rounding + room, (plan.objective, answer)


def assert_values(mdp: conrl.ConstrainedMDP, policy: conrl.Policy, value: Float) -> None:
    """`conrl.evaluate` and plain numpy agree on (reward, costs) to 1e-9 of their size."""
    m = dense(mdp)
    size = 1e-9 * np.maximum(np.abs(value), np.minimum(1.0, np.abs(m.pay).max(axis=(0, 1))))
    found = conrl.evaluate(mdp, policy)
    assert (np.abs(np.concatenate(([found.reward], found.costs)) - value) <= size).all()
    assert (np.abs(value_of(mdp, policy.probabilities) - value) <= size).all()


def _assert_mixture(mdp: conrl.ConstrainedMDP, plan: conrl.Plan, value: Float) -> None:
    mixture = plan.mixture
    assert abs(mixture.weights.sum() - 1.0) <= 1e-12
    assert (mixture.weights > 0.0).all()
    assert mixture.values is not None
    assert mixture.values.shape == (len(mixture.policies), 1 + mdp.num_costs)
    for policy, part in zip(mixture.policies, mixture.values, strict=True):
        assert_values(mdp, policy, part)
    unit = np.maximum(1.0, np.abs(mixture.values).max(axis=0))
    assert (np.abs(mixture.weights @ mixture.values - value) <= 1e-9 * unit).all()
    whole = conrl.evaluate(mdp, mixture)
    assert (np.abs(np.concatenate(([whole.reward], whole.costs)) - value) <= 1e-9 * unit).all()


def assert_few_deterministic(mdp: conrl.ConstrainedMDP, plan: conrl.Plan) -> None:
    """What column generation adds: at most d+1 components, all of them deterministic."""
    assert len(plan.mixture.policies) <= 1 + mdp.num_costs
    assert all(isinstance(p, conrl.Deterministic) for p in plan.mixture.policies)


def assert_proof(mdp: conrl.ConstrainedMDP, rows: Rows, found: conrl.Feasibility, least: float = 0.0) -> None:
    """The multipliers of a conflict prove it: min over policies of multipliers.(G z - h) is its violation > least."""
    names = [
        f"{mdp.cost_names[i]} {'<=' if s > 0 else '>='} {s * h:.10g}"
        for i, s, h in zip(rows.cost, rows.sign, rows.bound, strict=True)
    ]
    assert not found.feasible
    assert found.slack is None
    assert found.multipliers is not None
    assert len(set(found.conflict)) == len(found.conflict) == found.multipliers.size > 0
    assert (found.multipliers >= 0.0).all()
    assert abs(found.multipliers.sum() - 1.0) <= 1e-12
    full = np.zeros(len(names))
    for name, x in zip(found.conflict, found.multipliers, strict=True):
        full[names.index(name)] = x
    w = np.concatenate(([0.0], -full @ rows.matrix(mdp.num_costs)))
    proven = -best_total(mdp, w) - float(full @ rows.bound)
    size = float(full @ row_unit(mdp, rows)) * mdp.horizon
    assert abs(proven - found.violation) <= 1e-12 * size, (proven, found.violation)
    assert found.violation > least


def excess_of(mdp: conrl.ConstrainedMDP, plan: conrl.Plan, rows: Rows) -> Float:
    """[R]: G z - h of the plan, with z moved by the bonus in its favour."""
    m = dense(mdp)
    mu, moved = m.initial, np.zeros(1 + mdp.num_costs)
    table = plan.policy.probabilities
    for h in range(m.horizon):
        rho = mu[:, None] * table[h]
        moved = moved + np.einsum("sa,sai->i", rho, m.bonus)
        mu = np.einsum("sa,sat->t", rho, m.P)
    use = [s * plan.costs[i] - moved[1 + i] for i, s in zip(rows.cost, rows.sign, strict=True)]
    return np.array(use) - rows.bound


# -- the bank -------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Case:
    """A model and a question: feasible, with `answer` in closed form or else from scipy; or with a `conflict`."""

    name: str
    mdp: conrl.ConstrainedMDP
    problem: conrl.Linear
    answer: float | None = None  # the best objective (reward, unless there is a bonus)
    prices: tuple[float, ...] | None = None  # of the limits, where they are unique
    floor_prices: tuple[float, ...] | None = None
    costs: tuple[float, ...] | None = None  # where they are unique
    conflict: tuple[str, ...] = ()
    violation: float | None = None  # of the conflict, with multipliers that add up to 1
    beyond_highs: bool = False  # it has coefficients of at most 1e-9, which HiGHS takes for 0: no reference

    @property
    def feasible(self) -> bool:
        return not self.conflict

    @property
    def best(self) -> float:
        """The answer, in closed form or from the independent program."""
        if self.answer is not None:
            return self.answer
        found = solve_lp(self.mdp, self.problem)
        assert found is not None
        return found.value


def still(rewards: Sequence[float], costs: Any, horizon: int, **rest: Any) -> conrl.ConstrainedMDP:
    """One state; action a pays rewards[a] and costs[a] (a number or a list of d)."""
    c = np.asarray(costs, dtype=np.float64)
    c = c.reshape(1, len(rewards), -1) if c.size else c.reshape(1, len(rewards), 0)
    return conrl.ConstrainedMDP(np.ones((1, len(rewards), 1)), [list(rewards)], c, horizon, **rest)


def lin(limits: Any = None, floors: Any = None) -> conrl.Linear:
    return conrl.Linear(limits, floors)


BUILDERS: list[Callable[[], Case]] = []


def case(build: Callable[[], Case]) -> Callable[[], Case]:
    BUILDERS.append(build)
    return build


def deviations(counts: Counts) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """The pay of visits that led to one successor scatters around its mean: the sums of products of deviations
    [P, 1+d, 1+d], over the successors of each pair, and how many numbers they are worth [P] (visits - successors)."""
    head, following, moments = (counts._arrays[name] for name in ("head", "next", "moments"))
    width = 1 + counts.task.num_costs
    rows, columns = np.tril_indices(width)
    sums, degrees = np.zeros((counts.num_pairs, width, width)), counts.visits.copy()
    for k in range(counts.num_pairs):
        link = head[k]
        while link >= 0:
            degrees[k] -= 1
            sums[k, rows, columns] += moments[link]
            link = following[link]
        sums[k, columns, rows] = sums[k, rows, columns]
    return sums, degrees


def random_model(
    seed: int,
    states: int,
    actions: int,
    horizon: int,
    d: int,
    successors: int = 3,
    available: NDArray[np.bool_] | None = None,
) -> conrl.ConstrainedMDP:
    rng = np.random.default_rng(seed)
    P = np.zeros((states, actions, states))
    for s in range(states):
        for a in range(actions):
            reach = rng.choice(states, size=min(successors, states), replace=False)
            P[s, a, reach] = rng.dirichlet(np.ones(reach.size))
    return conrl.ConstrainedMDP(
        P, rng.random((states, actions)), rng.random((states, actions, d)), horizon, available=available
    )


def middle(mdp: conrl.ConstrainedMDP, share: float) -> list[float]:
    """Limits `share` of the way from the policy of least total cost to the free optimum: feasible, and they bind."""
    d = mdp.num_costs
    low = free_value(mdp, np.concatenate(([0.0], -np.ones(d))))[1:]
    free = free_value(mdp, np.eye(1 + d)[0])[1:]
    return list(low + share * (free - low))


# One state ---------------------------------------------------------------------------------------------------


@case
def one_action() -> Case:
    # H r = 4 x 2, H c = 4 x 3 = 12 < 12.5: the limit is idle.
    return Case("one action", still([2.0], [3.0], 4), lin([12.5]), 8.0, (0.0,), costs=(12.0,))


@case
def one_action_tight() -> Case:
    return Case("one action, limit exactly its cost", still([2.0], [3.0], 4), lin([12.0]), 8.0, costs=(12.0,))


@case
def mixture_weight() -> Case:
    # Play the dear action with probability limit / cost = 0.5 / 2.
    return Case("mixture weight", still([0.0, 1.0], [0.0, 2.0], 1), lin([0.5]), 0.25, (0.5,), costs=(0.5,))


@case
def mixture_of_steps() -> Case:
    # n <= 3 / 2 plays of the dear action out of 10.
    return Case("mixture over ten steps", still([0.0, 1.0], [0.0, 2.0], 10), lin([3.0]), 1.5, (0.5,), costs=(3.0,))


@case
def two_resources() -> Case:
    # 2 plays of (3; 1, 0), 1 of (2; 0, 1), the other 2 idle: each limit binds at its own price.
    mdp = still([0.0, 3.0, 2.0], [[0, 0], [1, 0], [0, 1]], 5)
    return Case("two resources", mdp, lin([2.0, 1.0]), 8.0, (3.0, 2.0), costs=(2.0, 1.0))


@case
def two_resources_and_time() -> Case:
    # Two steps in all: one (3; 1, 0), the other (2; 0, 1). More of the first replaces the second: price 3 - 2.
    mdp = still([0.0, 3.0, 2.0], [[0, 0], [1, 0], [0, 1]], 2)
    return Case("two resources, steps are scarce", mdp, lin([1.0, 5.0]), 5.0, (1.0, 0.0), costs=(1.0, 1.0))


@case
def zero_costs() -> Case:
    return Case("zero costs", still([1.0, 2.0], [0.0, 0.0], 3), lin([0.0]), 6.0, costs=(0.0,))


@case
def least_achievable() -> Case:
    # Twice (1; 0.25) is all that 0.5 allows; the left end of the curve, where any price >= 16/3 proves it.
    return Case("limit at the least", still([5.0, 1.0], [1.0, 0.25], 2), lin([0.5]), 2.0, costs=(0.5,))


@case
def at_the_free_optimum() -> Case:
    return Case("limit at the free optimum", still([5.0, 1.0], [1.0, 0.25], 2), lin([2.0]), 10.0, costs=(2.0,))


@case
def limit_zero() -> Case:
    # Only the free action: 3 x 0.2.
    return Case("limit 0, a free action", still([1.0, 0.2], [1.0, 0.0], 3), lin([0.0]), 0.6, costs=(0.0,))


@case
def negative_pay() -> Case:
    # rest (0; 0), work (-1; -1), play (3; 2), balance at most 0: 2 play = work and play + work = 3, so play = 1.
    # With limit e: play = 1 + e/3, work = 2 - e/3, reward 1 + (3 + 1) e/3.
    mdp = still([0.0, -1.0, 3.0], [0.0, -1.0, 2.0], 3)
    return Case("negative rewards and costs", mdp, lin([0.0]), 1.0, (4 / 3,), costs=(0.0,))


@case
def only_losses() -> Case:
    # (-3; 0) or (-1; 1), five steps, limit 2: two of the second.
    mdp = still([-3.0, -1.0], [0.0, 1.0], 5)
    return Case("only losses", mdp, lin([2.0]), -11.0, (2.0,), costs=(2.0,))


@case
def wide_units() -> Case:
    # Costs of 1e-6 and of 1e6: two plays of the one, one of the other; price = reward / cost.
    mdp = still([0.0, 1.0, 1.0], [[0, 0], [1e-6, 0], [0, 1e6]], 4)
    return Case("units from 1e-6 to 1e6", mdp, lin([2e-6, 1e6]), 3.0, (1e6, 1e-6), costs=(2e-6, 1e6))


@case
def tiny_unit() -> Case:
    # `mixture over ten steps` in a unit of 1e-10.
    mdp = still([0.0, 1.0], [0.0, 2e-10], 10)
    return Case("a cost of 2e-10", mdp, lin([3e-10]), 1.5, (0.5e10,), costs=(3e-10,), beyond_highs=True)


@case
def constant_cost() -> Case:
    # Every policy spends 3 x 0.7 of the first cost (tight to rounding); the second makes room for 1 play of 3.
    mdp = still([0.0, 1.0], [[0.7, 0], [0.7, 1]], 3)
    return Case("a constant cost, exactly tight", mdp, lin([3 * 0.7, 1.0]), 1.0, costs=(2.1, 1.0))


@case
def wide_units_one_resource() -> Case:
    # One resource paid in 1e-6, 1 and 1e6 for 1, 2 and 3: hull (0,0)-(1e-6,1)-(1,2)-(1e6,3); limit 4 over 4 steps
    # is 1 a step, the vertex (1, 2); half a unit more buys at the next edge's price 1 / (1e6 - 1).
    mdp = still([0.0, 1.0, 2.0, 3.0], [0.0, 1e-6, 1.0, 1e6], 4)
    return Case("one resource in three units", mdp, lin([4.5]), 8.0 + 0.5 / (1e6 - 1), (1 / (1e6 - 1),), costs=(4.5,))


@case
def floors_only() -> Case:
    # Work (-1; 1) until 2.5 is reached.
    mdp = still([0.0, -1.0], [0.0, 1.0], 4)
    return Case("floor only", mdp, lin(None, [2.5]), -2.5, (0.0,), (1.0,), costs=(2.5,))


@case
def band_at_the_limit() -> Case:
    mdp = still([0.0, 1.0], [0.0, 1.0], 5)
    return Case("floor and limit, the limit binds", mdp, lin([3.0], [1.0]), 3.0, (1.0,), (0.0,), costs=(3.0,))


@case
def band_at_the_floor() -> Case:
    mdp = still([0.0, -1.0], [0.0, 1.0], 5)
    return Case("floor and limit, the floor binds", mdp, lin([3.0], [1.0]), -1.0, (0.0,), (1.0,), costs=(1.0,))


@case
def band_is_idle() -> Case:
    # The free optimum uses 2 of 5 steps' worth: (1; 0.4) x 5.
    mdp = still([1.0, 0.0], [0.4, 1.0], 5)
    return Case("floor and limit, neither binds", mdp, lin([3.0], [1.0]), 5.0, (0.0,), (0.0,), costs=(2.0,))


@case
def equality() -> Case:
    mdp = still([0.0, 1.0], [0.0, 1.0], 5)
    return Case("floor equal to limit", mdp, lin([2.5], [2.5]), 2.5, costs=(2.5,))


@case
def equality_against_reward() -> Case:
    mdp = still([0.0, -1.0], [0.0, 1.0], 5)
    return Case("floor equal to limit, at a loss", mdp, lin([2.5], [2.5]), -2.5, costs=(2.5,))


@case
def floor_and_limit_on_two() -> Case:
    # Output at least 3, pollution at most 1: one dirty (0; 1, 1), two clean (-1; 0, 1), one idle step.
    mdp = still([0.0, 0.0, -1.0], [[0, 0], [1, 1], [0, 1]], 4, cost_names=["pollution", "output"])
    problem = lin({"pollution": 1.0}, {"output": 3.0})
    return Case("floor on one, limit on another", mdp, problem, -2.0, (1.0, 0.0), (0.0, 1.0), costs=(1.0, 3.0))


@case
def no_costs() -> Case:
    return Case("no costs", still([1.0, 4.0, 2.0], [], 3), lin(), 12.0, ())


@case
def infinite_limits() -> Case:
    mdp = still([1.0, 4.0], [[0, 1], [3, 1]], 3)
    return Case("infinite limits", mdp, lin([INF, INF]), 12.0, (0.0, 0.0), costs=(9.0, 3.0))


@case
def four_equal_resources() -> Case:
    # Four names for one cost: limits 3, 2, 2, 5 mean 2. The price 1 is shared by the two in any way.
    mdp = still([0.0, 1.0], [[0] * 4, [1] * 4], 10)
    return Case("four equal resources", mdp, lin([3.0, 2.0, 2.0, 5.0]), 2.0, costs=(2.0,) * 4)


@case
def near_parallel() -> Case:
    # max x + y with x + (1+e) y <= 1 and (1+e) x + y <= 1: x = y = 1 / (2+e), each price 1 / (2+e).
    e = 1e-7
    mdp = still([0.0, 1.0, 1.0], [[0, 0], [1, 1 + e], [1 + e, 1]], 3)
    return Case("near-parallel limits", mdp, lin([1.0, 1.0]), 2 / (2 + e), costs=(1.0, 1.0))


@case
def bandit() -> Case:
    # Arms (r; c) on the hull: (0; 0), (1; 0.5), (1.8; 1); below it: (0.9; 0.6), (1.2; 0.9). Ten pulls, budget 6:
    # 8 of the second and 2 of the third, at the slope 0.8 / 0.5 between them.
    mdp = still([0.0, 0.9, 1.0, 1.2, 1.8], [0.0, 0.6, 0.5, 0.9, 1.0], 10)
    return Case("bandit with a budget", mdp, lin([6.0]), 11.6, (1.6,), costs=(6.0,))


@case
def equal_rewards() -> Case:
    # Every policy earns 6; the limits only ask that the third action be played enough: feasible, price 0.
    mdp = still([1.0, 1.0, 1.0], [[2, 0], [0, 2], [0, 0]], 6)
    return Case("all rewards equal", mdp, lin([1.0, 1.0]), 6.0, (0.0, 0.0))


@case
def duplicate_actions() -> Case:
    mdp = still([0.0, 1.0, 1.0, 0.0, 1.0], [0.0, 2.0, 2.0, 0.0, 2.0], 3)
    return Case("duplicate actions", mdp, lin([1.0]), 0.5, (0.5,), costs=(1.0,))


# Infeasible --------------------------------------------------------------------------------------------------


@case
def infeasible_alone() -> Case:
    return Case("infeasible alone", still([1.0], [1.0], 3), lin([2.0]), conflict=("cost <= 2",), violation=1.0)


@case
def infeasible_floor() -> Case:
    mdp = still([1.0, 0.0], [1.0, 0.0], 4)
    return Case("floor above the greatest", mdp, lin(None, [5.0]), conflict=("cost >= 5",), violation=1.0)


@case
def floor_above_limit() -> Case:
    # (z - 1) + (2 - z) = 1 for every z: multipliers 1/2 each, violation 1/2.
    mdp = still([1.0, 0.0], [1.0, 0.0], 4)
    return Case("floor above limit", mdp, lin([1.0], [2.0]), conflict=("cost <= 1", "cost >= 2"), violation=0.5)


@case
def infeasible_together() -> Case:
    # Each of 4 steps pays the one or the other: their sum is 4, the limits add up to 3.
    mdp = still([1.0, 1.0], [[1, 0], [0, 1]], 4)
    return Case("infeasible together", mdp, lin([1.5, 1.5]), conflict=("cost0 <= 1.5", "cost1 <= 1.5"), violation=0.5)


@case
def irreducible_pair() -> Case:
    # The third limit (on a cost of the first action) can be kept with either of the others.
    mdp = still([1.0, 1.0], [[1, 0, 1], [0, 1, 0]], 4)
    pair = ("cost0 <= 1.5", "cost1 <= 1.5")
    return Case("three limits, two in conflict", mdp, lin([1.5, 1.5, 3.0]), conflict=pair, violation=0.5)


@case
def irreducible_three() -> Case:
    # Three costs share 3 steps; any two limits of 0.9 leave room, all three do not: (3 - 2.7) / 3.
    mdp = still([1.0, 2.0, 3.0], np.eye(3), 3)
    names = ("cost0 <= 0.9", "cost1 <= 0.9", "cost2 <= 0.9")
    return Case("three limits in conflict", mdp, lin([0.9, 0.9, 0.9]), conflict=names, violation=0.1)


@case
def infeasible_floor_and_limit() -> Case:
    # Output never exceeds twice the pollution: 3 wanted, pollution at most 1. output - 2 pollution <= 0.
    mdp = still([0.0, 0.0], [[0, 0], [1, 2]], 4)
    conflict = ("cost0 <= 1", "cost1 >= 3")
    # multipliers (2, 1) / 3: (2 (p - 1) + 3 - 2 p) / 3 = 1/3.
    return Case("floor against another's limit", mdp, lin([1.0, None], [None, 3.0]), conflict=conflict, violation=1 / 3)


# Several states ----------------------------------------------------------------------------------------------


@case
def unreachable_states() -> Case:
    # State 2 would pay 1e6 for nothing but nothing leads there; state 0 -> 1 -> 1 ... as in `mixture_of_steps`.
    P = np.zeros((3, 2, 3))
    P[0, :, 1] = P[1, :, 1] = P[2, :, 2] = 1.0
    rewards = [[0.0, 0.0], [0.0, 1.0], [1e6, 1e6]]
    costs = [[[0.0], [0.0]], [[0.0], [2.0]], [[-1e6], [-1e6]]]
    mdp = conrl.ConstrainedMDP(P, rewards, np.array(costs), 11)
    return Case("unreachable states", mdp, lin([3.0]), 1.5, (0.5,), costs=(3.0,))


@case
def duplicate_successors() -> Case:
    # Sparse rows that list 0 -> 1 twice (0.25 + 0.25). State 1 pays (1; 1) or nothing: reward = cost <= 0.8.
    row = [0, 0, 0, 1, 2, 3]
    col = [1, 1, 0, 0, 1, 1]
    data = [0.25, 0.25, 0.5, 1.0, 1.0, 1.0]
    P = sp.coo_array((data, (row, col)), shape=(4, 2))
    pay = np.array([[0.0, 0.0], [1.0, 0.0]])
    return Case("duplicate successors", conrl.ConstrainedMDP(P, pay, pay[:, :, None], 3), lin([0.8]), 0.8, (1.0,))


@case
def duplicate_successors_free() -> Case:
    # The same without a limit: P(state 1) is 0, 0.5, 0.75 at the three steps.
    inner = duplicate_successors().mdp
    return Case("duplicate successors, no limit", inner, lin(), 1.25, (0.0,), costs=(1.25,))


@case
def duplicate_outcomes() -> Case:
    # The gamble pays (2; 1) with 0.5 and nothing with 0.25 + 0.25: (1; 0.5) on average, so 0.6 buys 1.2.
    mdp = conrl.ConstrainedMDP.from_outcomes(
        [0, 0, 0, 0],
        [0, 0, 0, 1],
        [0, 0, 0, 0],
        [0.5, 0.25, 0.25, 1.0],
        [[2, 1], [0, 0], [0, 0], [0, 0]],
        num_states=1,
        num_actions=2,
        horizon=2,
    )
    return Case("duplicate outcomes", mdp, lin([0.6]), 1.2, (2.0,), costs=(0.6,))


@case
def probability_1e_300() -> Case:
    # The bad state (cost 1) has probability 1e-300: reward 5 in 5 steps, cost 1e-299.
    P = np.zeros((2, 1, 2))
    P[0, 0] = [1.0, 1e-300]
    P[1, 0, 1] = 1.0
    mdp = conrl.ConstrainedMDP(P, [[1.0], [0.0]], [[[0.0]], [[1.0]]], 5)
    return Case("probability 1e-300", mdp, lin([1e-12]), 5.0)


@case
def probability_1e_12() -> Case:
    # Two steps; go (1; 1) falls with p = 1e-12 into a state that pays -1e6, safe pays (0.5; 0).
    # Totals: go-go (1 + (1-p) - p 1e6; 2 - p), safe-go (1.5; 1), safe-safe (1; 0). Limit 1.5 mixes the first two.
    p = 1e-12
    P = np.zeros((2, 2, 2))
    P[0, 0] = [1 - p, p]
    P[0, 1, 0] = P[1, :, 0] = 1.0
    mdp = conrl.ConstrainedMDP(P, [[1.0, 0.5], [-1e6, -1e6]], [[[1.0], [0.0]], [[0.0], [0.0]]], 2)
    slope = (0.5 - p - p * 1e6) / (1 - p)
    answer = 1.5 + 0.5 * slope
    return Case("probability 1e-12", mdp, lin([1.5]), answer, (slope,), costs=(1.5,), beyond_highs=True)


@case
def initial_distribution() -> Case:
    # One step; state 1 (0.7) earns 2 per unit, state 0 (0.3) 1: 0.8 = 0.7 + 0.1.
    P = np.zeros((2, 2, 2))
    P[:, :, 0] = 1.0
    mdp = conrl.ConstrainedMDP(P, [[0.0, 1.0], [0.0, 2.0]], [[[0.0], [1.0]]] * 2, 1, initial=[0.3, 0.7])
    return Case("initial distribution", mdp, lin([0.8]), 1.5, (1.0,), costs=(0.8,))


@case
def long_chain() -> Case:
    # State i moves to i+1 whatever is done; taking pays i+1 at cost 1. Limit 10.5: the last ten, and half of 40.
    S = 50
    P = np.zeros((S, 2, S))
    P[np.arange(S), :, np.minimum(np.arange(S) + 1, S - 1)] = 1.0
    rewards = np.column_stack((np.zeros(S), np.arange(1.0, S + 1)))
    costs = np.tile([[0.0], [1.0]], (S, 1, 1))
    return Case("chain of 50 steps", conrl.ConstrainedMDP(P, rewards, costs, S), lin([10.5]), 475.0, (40.0,))


@case
def missing_actions() -> Case:
    # State 0 has action 1 only (to state 1, pays nothing); state 1 has 0 (nothing) and 2 (1; 1), three times.
    P = np.zeros((2, 3, 2))
    P[:, :, 1] = 1.0
    rewards, costs = [[9.0, 0.0, 9.0], [0.0, 9.0, 1.0]], np.array([[[0.0], [0], [0]], [[0], [0], [1.0]]])
    mdp = conrl.ConstrainedMDP(P, rewards, costs, 4, available=[[0, 1, 0], [1, 0, 1]])
    return Case("missing actions", mdp, lin([1.5]), 1.5, (1.0,), costs=(1.5,))


@case
def five_actions_beside_one() -> Case:
    # State 0 pays (k; k^2) for k = 0..4 at steps 0, 2, 4; state 1 only returns. 15 / 3 = 5 lies between 4 and 9:
    # 3 (2 + 1/5), price 1/5.
    P = np.zeros((2, 5, 2))
    P[0, :, 1] = P[1, :, 0] = 1.0
    k = np.arange(5.0)
    rewards, costs = np.stack((k, 0 * k)), np.stack((k**2, 0 * k))[:, :, None]
    mdp = conrl.ConstrainedMDP(P, rewards, costs, 5, available=[[1] * 5, [0, 0, 1, 0, 0]])
    return Case("five actions beside one", mdp, lin([15.0]), 6.6, (0.2,), costs=(15.0,))


@case
def cycle() -> Case:
    # 0 -> 1 -> 2 -> 0: state i earns i+1 at cost 1; in 7 steps they come 3, 2, 2 times. 3.5 = 2 + 1.5.
    P = np.zeros((3, 2, 3))
    P[np.arange(3), :, (np.arange(3) + 1) % 3] = 1.0
    costs = np.tile([[0.0], [1.0]], (3, 1, 1))
    mdp = conrl.ConstrainedMDP(P, [[0, 1], [0, 2], [0, 3]], costs, 7)
    return Case("deterministic cycle", mdp, lin([3.5]), 9.0, (2.0,), costs=(3.5,))


@case
def absorbing_goal() -> Case:
    # Risky reaches the goal with 1/2 at cost 1, safe with 1/4 at none; two steps, reward 1 on entry (by outcome).
    # (cost; reward): SS (0; 0.4375), SR (0.75; 0.625), RS (1; 0.625), RR (1.5; 0.75). Limit 0.9: SR and RR.
    P = np.zeros((2, 2, 2))
    P[0, 0], P[0, 1], P[1, :, 1] = [0.5, 0.5], [0.75, 0.25], 1.0
    rewards = np.zeros((2, 2, 2))
    rewards[0, :, 1] = 1.0
    mdp = conrl.ConstrainedMDP(P, rewards, [[[1.0], [0.0]], [[0.0], [0.0]]], 2)
    return Case("absorbing goal", mdp, lin([0.9]), 0.65, (1 / 6,), costs=(0.9,))


@case
def costs_by_outcome() -> Case:
    # As above, but failing (staying in state 0) under the risky action is what costs 2: the same means.
    inner = absorbing_goal().mdp
    rewards, costs = np.zeros((2, 2, 2)), np.zeros((2, 2, 2, 1))
    rewards[0, :, 1], costs[0, 0, 0, 0] = 1.0, 2.0
    mdp = conrl.ConstrainedMDP(inner.transitions, rewards, costs, 2)
    return Case("costs by outcome", mdp, lin([0.9]), 0.65, (1 / 6,), costs=(0.9,))


@case
def step_in_the_state() -> Case:
    # Seven layers of five; each state is met at one step only.
    layers, width, rng = 7, 5, np.random.default_rng(7)
    S = layers * width
    P = np.zeros((S, 3, S))
    for s in range(S):
        to = min(s // width + 1, layers - 1) * width
        for a in range(3):
            P[s, a, to : to + width] = rng.dirichlet(np.full(width, 0.5))
    mdp = conrl.ConstrainedMDP(P, rng.random((S, 3)), rng.random((S, 3, 2)), layers)
    return Case("step in the state", mdp, lin(middle(mdp, 0.5)))


@case
def stock() -> Case:
    # Stock 0..4, order 0..2 (never beyond 4), demand 0, 1, 2; sales earn 3, storage and orders cost.
    S, A = 5, 3
    demand = {0: 0.3, 1: 0.5, 2: 0.2}
    rows: list[tuple[int, int, int, float, list[float]]] = []
    for s in range(S):
        for a in range(min(A, S - s)):
            for n, p in demand.items():
                sold = min(s + a, n)
                rows.append((s, a, s + a - sold, p, [3.0 * sold, float(a), 0.1 * (s + a - sold)]))
    columns: list[Any] = list(zip(*rows, strict=True))
    mdp = conrl.ConstrainedMDP.from_outcomes(
        *columns, num_states=S, num_actions=A, horizon=6, cost_names=["orders", "storage"]
    )
    return Case("stock", mdp, lin({"orders": 3.0, "storage": 0.5}))


@case
def thirteen_states() -> Case:
    mdp = random_model(13, 13, 3, 6, 2)
    return Case("13 states, 2 resources", mdp, lin(middle(mdp, 0.6)))


@case
def seventeen_states() -> Case:
    mask = np.random.default_rng(17).random((17, 4)) < 0.6
    mask[:, 2] = True
    mdp = random_model(17, 17, 4, 9, 3, available=mask)
    return Case("17 states, 3 resources, some actions", mdp, lin(middle(mdp, 0.7)))


@case
def four_resources() -> Case:
    mdp = random_model(4, 9, 4, 7, 4, successors=4)
    return Case("9 states, 4 resources", mdp, lin(middle(mdp, 0.75)))


@case
def random_floors() -> Case:
    mdp = random_model(5, 10, 3, 6, 3)
    axes = np.eye(4)
    free = free_value(mdp, axes[0])[1:]
    greatest = np.array([best_total(mdp, axes[1 + i]) for i in range(3)])
    floors = [-INF, -INF, free[2] + 0.3 * (greatest[2] - free[2])]
    limits = [middle(mdp, 0.7)[0], INF, INF]
    return Case("10 states, limit and floor", mdp, conrl.Linear(limits, floors))


# With a bonus ------------------------------------------------------------------------------------------------


@case
def bonus_one_state() -> Case:
    # (0.5; 0.6) with bonus (0.1; 0.2) counts as (0.6; 0.4): 0.5 / 0.4 = 1.25 plays, worth 0.75, price 0.6 / 0.4.
    mdp = still([0.0, 0.5], [0.0, 0.6], 2).with_bonus([[[0.0, 0.0], [0.1, 0.2]]])
    return Case("bonus, one state", mdp, lin([0.5]), 0.75, (1.5,), costs=(0.75,))


@case
def bonus_floor() -> Case:
    # Work (-1; 1) counts as (-0.5; 1.5) towards a floor of 3: two steps, -1; price 0.5 / 1.5.
    mdp = still([0.0, -1.0], [0.0, 1.0], 4).with_bonus([[[0.0, 0.0], [0.5, 0.5]]])
    return Case("bonus, floor", mdp, lin(None, [3.0]), -1.0, (0.0,), (1 / 3,), costs=(2.0,))


@case
def bonus_band() -> Case:
    # Five plays of (1; 1) with bonus 0.4 on the cost lie anywhere in 3..7: the limit 3.5 does not bind, nor floor 3.
    mdp = still([0.0, 1.0], [0.0, 1.0], 5).with_bonus([[[0.0, 0.0], [0.0, 0.4]]])
    return Case("bonus, floor and limit", mdp, lin([3.5], [3.0]), 5.0, (0.0,), (0.0,), costs=(5.0,))


@case
def bonus_random() -> Case:
    inner = random_model(21, 11, 3, 6, 2)
    bonus = 0.2 * np.random.default_rng(21).random((11, 3, 3))
    mdp = inner.with_bonus(bonus)
    return Case("bonus, 11 states, 2 resources", mdp, lin([0.9 * x for x in middle(inner, 0.4)]))


@case
def bonus_is_explicit_optimism() -> Case:
    # With limits only, the optimistic model is r + b, c - b: the answer is that of the plain model written out.
    inner = random_model(22, 9, 3, 5, 2)
    b = 0.1 * np.random.default_rng(22).random((9, 3))
    limits = middle(inner, 0.7)
    plain = conrl.ConstrainedMDP(inner.transitions, inner.rewards + b, inner.costs - b[:, :, None], 5)
    answer = solve_lp(plain, lin(limits))
    assert answer is not None
    return Case("bonus as r + b, c - b", inner.with_bonus(b), lin(limits), answer.value)


CASES = {c.name: c for c in (build() for build in BUILDERS)}
assert len(CASES) == len(BUILDERS), "two cases of the bank have one name"


def chain(costs: Any) -> conrl.ConstrainedMDP:
    """Steps of which each costs one of two amounts; then "go", which earns 1 and costs the last amount, or "wait"."""
    steps = len(costs) // 2
    at = np.append(np.repeat(np.arange(steps), 2), [steps, steps])
    return conrl.ConstrainedMDP.from_outcomes(
        at,
        [0] * (2 * steps + 1) + [1],
        np.minimum(at + 1, steps),
        [0.5] * (2 * steps) + [1.0, 1.0],
        np.column_stack(([0.0] * (2 * steps) + [1.0, 0.0], [*costs, 0.0])),
        num_states=steps + 1,
        num_actions=2,
        horizon=steps + 1,
        cost_names=["c"],
        action_names=["go", "wait"],
    )
