"""The concave-convex setting against an explicit program; what is refused; the ready-made functions.

Nothing that is compared comes from `conrl`: the program over occupation measures is written out here from dense
arrays, with the inner maximum over rewards and minimum over costs as variables of their own.
"""

from __future__ import annotations

import builtins
import doctest
import sys
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import cvxpy
import numpy as np
import pytest
from bank import assert_values, best_total, dense, free_value, middle, random_model, solve_lp, still, value_of
from numpy.typing import NDArray

import conrl
from conrl import convex

Float = NDArray[np.float64]
cp: Any = cvxpy  # its functions are not typed
untyped: Any = convex
COLUMN, PROGRAM = "column-generation", "convex-program"
VALUE, FEASIBLE, GAP = 1e-6, 1e-7, 1e-6

both_planners = pytest.mark.parametrize("planner", [COLUMN, PROGRAM])


# -- models ---------------------------------------------------------------------------------------------------


def bandit() -> conrl.ConstrainedMDP:
    return still([0.2, 1.0, 0.6], [[0.1, 0.9], [0.8, 0.3], [0.4, 0.1]], 1)


def one_cost() -> conrl.ConstrainedMDP:
    return random_model(1, 5, 3, 4, 1)


def two_costs() -> conrl.ConstrainedMDP:
    return random_model(2, 8, 2, 6, 2)


def three_costs() -> conrl.ConstrainedMDP:
    return random_model(3, 4, 3, 3, 3)


def partly_reachable() -> conrl.ConstrainedMDP:
    """States 3 and 4 are never met and pay a lot; some actions are missing; a distribution of first states."""
    rng = np.random.default_rng(4)
    P = np.zeros((5, 3, 5))
    P[:3, :, :3] = rng.dirichlet(np.ones(3), size=(3, 3))
    P[3:, :, 3:] = 0.5
    pay = rng.random((5, 3, 3))
    pay[3:] = 9.0
    available = np.ones((5, 3), dtype=bool)
    available[1, 2] = available[2, 0] = False
    return conrl.ConstrainedMDP(
        P, pay[:, :, 0], pay[:, :, 1:], 4, initial=[0.5, 0.5, 0.0, 0.0, 0.0], available=available
    )


def zero_cost() -> conrl.ConstrainedMDP:
    """The first cost is always 0."""
    rng = np.random.default_rng(5)
    P = rng.dirichlet(np.ones(3), size=(3, 2))
    return conrl.ConstrainedMDP(P, rng.random((3, 2)), np.dstack((np.zeros((3, 2)), rng.random((3, 2)))), 3)


def no_choice() -> conrl.ConstrainedMDP:
    """One action: Z is a single point."""
    return conrl.ConstrainedMDP([[[0.5, 0.5]], [[0.0, 1.0]]], [[1.0], [0.5]], [[[1.0]], [[0.25]]], 3)


def signed() -> conrl.ConstrainedMDP:
    """Deterministic moves, costs of either sign."""
    rng = np.random.default_rng(6)
    P = np.eye(4)[rng.integers(4, size=(4, 3))]
    return conrl.ConstrainedMDP(P, rng.random((4, 3)), rng.normal(size=(4, 3, 2)), 5)


MODELS = {
    m.__name__: m() for m in (bandit, one_cost, two_costs, three_costs, partly_reachable, zero_cost, no_choice, signed)
}


def with_bonus(mdp: conrl.ConstrainedMDP) -> conrl.ConstrainedMDP:
    rng = np.random.default_rng(7)
    return mdp.with_bonus(0.1 * rng.random((mdp.num_states, mdp.num_actions, 1 + mdp.num_costs)))


# -- questions ------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class About:
    """What a question is placed by: the value of the uniform policy and of the best one, and the costs' range."""

    mdp: conrl.ConstrainedMDP
    uniform: Float = field(init=False)  # [1+d]
    free: Float = field(init=False)  # [1+d]
    least: Float = field(init=False)  # [1+d], with the bonus
    greatest: Float = field(init=False)  # [1+d], with the bonus

    def __post_init__(self) -> None:
        m = self.mdp
        axes = np.eye(1 + m.num_costs)
        even = np.tile(m.available / m.available.sum(axis=1, keepdims=True), (m.horizon, 1, 1))
        put = object.__setattr__
        put(self, "uniform", value_of(m, even))
        put(self, "free", free_value(m, axes[0]))
        put(self, "least", np.array([-best_total(m, -e) for e in axes]))
        put(self, "greatest", np.array([best_total(m, e) for e in axes]))

    @property
    def u(self) -> Float:
        return self.uniform[1:]

    @property
    def width(self) -> float:
        return float(max((self.greatest - self.least)[1:].max(), 0.1))

    def radius(self, share: float, norm: Any) -> float:
        """A share of the way from the uniform policy's costs to the best policy's: feasible, and it binds."""
        return share * float(np.linalg.norm(self.free[1:] - self.u, norm)) + 1e-3 * self.width

    def between(self, share: float) -> Float:
        return self.u + share * (self.free[1:] - self.u)


Question = Callable[[About], conrl.ConcaveConvex]
QUESTIONS: dict[str, Question] = {}


def question(build: Question) -> Question:
    QUESTIONS[build.__name__] = build
    return build


def same(reward: Any) -> Any:
    return reward


@question
def log_in_a_ball(q: About) -> conrl.ConcaveConvex:
    return conrl.ConcaveConvex(lambda x: cp.log(x + 0.1), convex.near(q.u, q.radius(0.5, 2)))


@question
def sqrt_in_a_diamond(q: About) -> conrl.ConcaveConvex:
    return conrl.ConcaveConvex(convex.diminishing("sqrt"), convex.near(q.u, q.radius(0.4, 1), norm=1))


@question
def quadratic_in_a_cube(q: About) -> conrl.ConcaveConvex:
    aim = q.uniform[0] + 0.3 * (q.free[0] - q.uniform[0])
    return conrl.ConcaveConvex(lambda x: -cp.square(x - aim), convex.near(q.u, q.radius(0.6, np.inf), norm=np.inf))


@question
def entropy_alone(q: About) -> conrl.ConcaveConvex:
    unit = float(q.free[0]) / 0.6  # its maximum, at x = unit / e, lies inside or is cut off
    return conrl.ConcaveConvex(lambda x: cp.entr(x / unit))


@question
def exp_in_squares(q: About) -> conrl.ConcaveConvex:
    room = q.radius(0.5, 2) ** 2
    return conrl.ConcaveConvex(convex.diminishing("exp", 2.0), lambda c: cp.sum_squares(c - q.u) - room)


@question
def pieces_and_the_largest(q: About) -> conrl.ConcaveConvex:
    knee = float(q.uniform[0])
    level = float(q.between(0.5).max())
    return conrl.ConcaveConvex(lambda x: cp.minimum(x, knee + 0.5 * (x - knee)), lambda c: cp.max(c) - level)


@question
def quotients(q: About) -> conrl.ConcaveConvex:
    """quad_over_lin, in an objective of both reward and costs and in the constraint."""
    low = 1.0 - float(q.least[1])
    room = float(np.sum(q.between(0.6) ** 2)) / (low + float(q.between(0.6)[0])) + 1e-3
    return conrl.ConcaveConvex(
        lambda x, c: cp.log(x + 1.0) - 0.1 * cp.quad_over_lin(c - q.u, 1.0 + x),
        lambda c: cp.quad_over_lin(c, low + c[0]) - room,
    )


@question
def the_least_cost(q: About) -> conrl.ConcaveConvex:
    return conrl.ConcaveConvex(convex.max_min(), [convex.at_most(0, float(q.between(0.3)[0]))])


@question
def constant_among_several(q: About) -> conrl.ConcaveConvex:
    """The uniform policy meets all three, none of them with room to spare but the first."""
    d = q.u.size
    total = float(np.log(np.exp(q.u).sum()))
    return conrl.ConcaveConvex(
        lambda x: 7.0,
        [
            convex.near(q.u, 0.2 * q.width),
            lambda c: cp.log_sum_exp(c) - total - 1e-3,
            lambda c: cp.sum(c) - float(q.u.sum()) - 1e-3 * d,
        ],
    )


@question
def decreasing_in_a_band(q: About) -> conrl.ConcaveConvex:
    low, high = sorted((float(q.u[-1]), float(q.between(0.5)[-1])))
    return conrl.ConcaveConvex(lambda x: -2.0 * x, convex.within(q.u.size - 1, low, high + 0.01 * q.width))


@question
def slack(q: About) -> conrl.ConcaveConvex:
    """Nothing binds: the free optimum."""
    far = 3.0 * float(np.linalg.norm(q.greatest - q.least)) + 1.0
    return conrl.ConcaveConvex(convex.diminishing(), [convex.near(q.u, far), convex.at_most(0, q.greatest[1] + 1.0)])


@question
def limit_at_the_free_optimum(q: About) -> conrl.ConcaveConvex:
    return conrl.ConcaveConvex(same, [convex.at_most(i, x) for i, x in enumerate(q.free[1:])])


@question
def limit_at_the_least(q: About) -> conrl.ConcaveConvex:
    """Exactly tight, without an interior."""
    return conrl.ConcaveConvex(same, convex.at_most(0, float(q.least[1])))


@question
def closest_to_what_cannot_be(q: About) -> conrl.ConcaveConvex:
    return conrl.ConcaveConvex(convex.closeness(q.greatest[1:] + 0.2 * q.width), convex.fair(float(q.u.min())))


@question
def both_inside(q: About) -> conrl.ConcaveConvex:
    """Strictly concave in reward and costs with its maximum inside Z: d+2 points may be needed."""
    return conrl.ConcaveConvex(lambda x, c: -cp.square(x - float(q.uniform[0])) - cp.sum_squares(c - q.u))


@question
def linear(q: About) -> conrl.ConcaveConvex:
    return conrl.ConcaveConvex(same, [convex.at_most(i, x) for i, x in enumerate(q.between(0.5))])


# -- the explicit program -------------------------------------------------------------------------------------


class Program(NamedTuple):
    y: Any  # [1+d]
    rows: list[Any]


def occupation_program(mdp: conrl.ConstrainedMDP) -> Program:
    """Appendix A.2 with the initial-state row; pay moves within its interval: R(s, a) = q(s, a) r(s, a)."""
    m = dense(mdp)
    S, A, H = m.P.shape[0], m.P.shape[1], m.horizon
    pairs = np.flatnonzero(m.exists.reshape(-1))
    pay, bonus = m.pay.reshape(S * A, -1)[pairs], m.bonus.reshape(S * A, -1)[pairs]
    at = np.eye(S)[pairs // A].T  # [S, P]
    move = m.P.reshape(S * A, S)[pairs].T  # [S, P]
    rho = [cp.Variable(pairs.size, nonneg=True) for _ in range(H)]
    rows = [at @ rho[0] == m.initial]
    rows += [at @ rho[h + 1] == move @ rho[h] for h in range(H - 1)]
    q: Any = sum(rho[1:], start=rho[0])
    if not bonus.any():
        return Program(pay.T @ q, rows)
    R = cp.Variable((pairs.size, pay.shape[1]))
    for i in range(pay.shape[1]):
        rows += [R[:, i] <= cp.multiply(pay[:, i] + bonus[:, i], q), R[:, i] >= cp.multiply(pay[:, i] - bonus[:, i], q)]
    return Program(cp.sum(R, axis=0), rows)


def apply_objective(problem: conrl.ConcaveConvex, y: Any) -> Any:
    joint = problem.objective.__code__.co_argcount == 2
    return problem.objective(y[0], y[1:]) if joint else problem.objective(y[0])


PRECISE = {"tol_gap_abs": 1e-11, "tol_gap_rel": 1e-11, "tol_feas": 1e-11}


def solve(goal: Any, rows: list[Any]) -> float:
    program = cp.Problem(cp.Maximize(goal), rows)
    with warnings.catch_warnings():
        # PRECISE is sometimes beyond Clarabel, which then says so; what it found is judged by the comparison.
        warnings.filterwarnings("ignore", "Solution may be inaccurate", UserWarning)
        program.solve(solver=cp.CLARABEL, **PRECISE)
    assert program.status in (cp.OPTIMAL, cp.OPTIMAL_INACCURATE)
    return number(program.value)


def number(value: Any) -> float:
    """One number, from a CVXPY expression or from whatever shape its value has."""
    return float(np.asarray(value.value if isinstance(value, cp.Expression) else value).item())


def truth(mdp: conrl.ConstrainedMDP, problem: conrl.ConcaveConvex) -> float:
    program = occupation_program(mdp)
    limits = [g(program.y[1:]) <= 0.0 for g in problem.constraints]
    return solve(apply_objective(problem, program.y), program.rows + limits)


def lagrangian(mdp: conrl.ConstrainedMDP, problem: conrl.ConcaveConvex, prices: Float) -> float:
    """max over policies of f - prices.g: the best bound that these prices prove."""
    program = occupation_program(mdp)
    penalty = sum(float(mu) * g(program.y[1:]) for mu, g in zip(prices, problem.constraints, strict=True) if mu > 0.0)
    return solve(apply_objective(problem, program.y) - penalty, program.rows)


def moved_room(mdp: conrl.ConstrainedMDP, plan: conrl.Plan) -> Float:
    """[1+d]: by how much the bonus may move the value of the plan's policy."""
    m = dense(mdp)
    mu, room = m.initial, np.zeros(1 + mdp.num_costs)
    for h in range(m.horizon):
        rho = mu[:, None] * plan.policy.probabilities[h]
        room = room + np.einsum("sa,sai->i", rho, m.bonus)
        mu = np.einsum("sa,sat->t", rho, m.P)
    return room


def achieved(mdp: conrl.ConstrainedMDP, problem: conrl.ConcaveConvex, plan: conrl.Plan) -> float:
    """The objective of the plan's policy, in the best case within the bonus; fails where a constraint is exceeded."""
    value = np.concatenate(([plan.reward], plan.costs))
    room = moved_room(mdp, plan)
    if not room.any():
        y = cp.Variable(value.size, value=value)
        for g in problem.constraints:
            assert number(g(y[1:])) <= FEASIBLE
        return number(apply_objective(problem, y))
    y = cp.Variable(value.size)
    limits = [g(y[1:]) <= FEASIBLE for g in problem.constraints]
    return solve(apply_objective(problem, y), [cp.abs(y - value) <= room + 1e-9, *limits])


# -- against the explicit program -----------------------------------------------------------------------------


def assert_solved(mdp: conrl.ConstrainedMDP, problem: conrl.ConcaveConvex, plan: conrl.Plan, best: float) -> None:
    """Certified, exact, feasible, complementary."""
    scale = max(1.0, abs(best))
    assert plan.status == "optimal", plan.message
    assert abs(plan.objective - best) <= VALUE * scale
    assert plan.bound >= best - 1e-7 * scale
    assert plan.gap == plan.bound - plan.objective
    assert 0.0 <= plan.gap <= GAP * scale
    assert plan.prices.shape == (len(problem.constraints),)
    assert (plan.prices >= 0.0).all()
    assert plan.skip == 0.0
    assert_values(mdp, plan.policy, np.concatenate(([plan.reward], plan.costs)))
    assert abs(achieved(mdp, problem, plan) - plan.objective) <= VALUE * scale
    if mdp.bonus is None:
        for mu, g in zip(plan.prices, problem.constraints, strict=True):
            left = -number(g(cp.Constant(plan.costs)))
            assert mu * left <= GAP * scale, (mu, left)


@pytest.mark.parametrize("bonus", [False, True], ids=["plain", "bonus"])
@pytest.mark.parametrize("model", list(MODELS))
@pytest.mark.parametrize("build", list(QUESTIONS.values()), ids=list(QUESTIONS))
def test_against_the_explicit_program(build: Question, model: str, bonus: bool) -> None:
    mdp = with_bonus(MODELS[model]) if bonus else MODELS[model]
    problem = build(About(mdp))
    best = truth(mdp, problem)
    scale = max(1.0, abs(best))
    plan = conrl.plan(mdp, problem)
    assert_solved(mdp, problem, plan, best)
    assert len(plan.mixture.policies) <= mdp.num_costs + 2
    assert all(isinstance(p, conrl.Deterministic) for p in plan.mixture.policies)
    assert plan.bound >= lagrangian(mdp, problem, plan.prices) - 1e-6 * scale
    assert_solved(mdp, problem, conrl.plan(mdp, problem, planner=PROGRAM), best)


def test_there_are_enough_questions_and_models() -> None:
    assert len(QUESTIONS) >= 12
    assert len(MODELS) >= 6


def as_functions(problem: conrl.Linear) -> conrl.ConcaveConvex:
    """The same limits and floors as functions."""
    limits = [] if problem.limits is None else list(enumerate(np.asarray(problem.limits)))
    floors = [] if problem.floors is None else list(enumerate(np.asarray(problem.floors)))
    upper = [convex.at_most(i, x) for i, x in limits if np.isfinite(x)]
    return conrl.ConcaveConvex(same, upper + [convex.at_least(i, x) for i, x in floors if np.isfinite(x)])


@pytest.mark.parametrize("bonus", [False, True], ids=["plain", "bonus"])
@pytest.mark.parametrize("share", [0.0, 0.3, 0.7, 1.5])
@pytest.mark.parametrize("model", list(MODELS))
def test_linear_functions_reproduce_linear(model: str, share: float, bonus: bool) -> None:
    """To 1e-8; with a bonus that is the program with r + b and c - b, which is written out too."""
    mdp = with_bonus(MODELS[model]) if bonus else MODELS[model]
    problem = conrl.Linear(middle(mdp, share))
    expected = conrl.plan(mdp, problem)
    found = conrl.plan(mdp, as_functions(problem))
    scale = max(1.0, abs(expected.objective))
    room = 1e-8 * scale + 2e-9 * float(expected.prices.sum())  # each planner may exceed a limit by 1e-9 of its unit
    assert found.status == "optimal"
    assert abs(found.objective - expected.objective) <= room
    assert found.bound >= expected.objective - room
    explicit = solve_lp(mdp, problem)
    assert explicit is not None
    assert abs(found.objective - explicit.value) <= room
    if bonus:
        m = dense(mdp)
        enhanced = conrl.ConstrainedMDP(
            m.P,
            m.pay[:, :, 0] + m.bonus[:, :, 0],
            m.pay[:, :, 1:] - m.bonus[:, :, 1:],
            m.horizon,
            initial=m.initial,
            available=m.exists,
        )
        assert abs(conrl.plan(enhanced, problem).reward - found.objective) <= room
        assert abs(conrl.plan(enhanced, as_functions(problem)).objective - found.objective) <= room


def test_linear_with_a_floor() -> None:
    mdp = two_costs()
    problem = conrl.Linear([2.6, np.inf], [-np.inf, 3.0])
    expected = conrl.plan(mdp, problem)
    found = conrl.plan(mdp, as_functions(problem))
    assert found.objective == pytest.approx(expected.objective, abs=1e-8)
    assert found.prices == pytest.approx([expected.prices[0], expected.floor_prices[1]], abs=1e-5)
    assert found.floor_prices == pytest.approx([0.0, 0.0])


def test_closed_form() -> None:
    """n plays of (1; 2), at most 3 of cost: reward 1.5; f = log(1 + x): f' = 0.4, a unit of cost is worth 0.2."""
    mdp = still([0.0, 1.0], [[0.0], [2.0]], 3)
    plan = conrl.plan(mdp, conrl.ConcaveConvex(convex.diminishing("log"), convex.at_most(0, 3.0)))
    assert plan.objective == pytest.approx(np.log(2.5), abs=1e-8)
    assert plan.reward == pytest.approx(1.5, abs=1e-7)
    assert plan.costs == pytest.approx([3.0], abs=1e-7)
    assert plan.prices == pytest.approx([0.2], abs=1e-5)


def test_tolerance_is_passed_on_and_never_finer_than_the_master() -> None:
    mdp, problem = three_costs(), log_in_a_ball(About(three_costs()))
    rough, fine = conrl.plan(mdp, problem, tol=1e-2), conrl.plan(mdp, problem, tol=1e-12)
    assert rough.gap <= 1e-2 * max(1.0, abs(rough.objective))
    assert rough.iterations <= fine.iterations
    assert fine.status == "optimal"


def test_the_same_question_gives_the_same_bytes() -> None:
    mdp, problem = three_costs(), log_in_a_ball(About(three_costs()))
    one, two = conrl.plan(mdp, problem), conrl.plan(mdp, problem)
    assert one.policy.probabilities.tobytes() == two.policy.probabilities.tobytes()
    assert (one.objective, one.bound) == (two.objective, two.bound)


def test_no_costs_at_all() -> None:
    mdp = still([0.0, 1.0], [], 3)
    plan = conrl.plan(mdp, conrl.ConcaveConvex(convex.diminishing("log")))
    assert plan.objective == pytest.approx(np.log(4.0), abs=1e-8)
    assert plan.prices.shape == plan.costs.shape == (0,)


@pytest.mark.parametrize("norm", [1, 2, "inf"])
def test_a_ball_of_no_radius(norm: Any) -> None:
    """Its only point is kept exactly."""
    mdp = two_costs()
    plan = conrl.plan(mdp, conrl.ConcaveConvex(same, convex.near([2.5, 2.5], 0.0, norm=norm)))
    best = solve_lp(mdp, conrl.Linear([2.5, 2.5], [2.5, 2.5]))
    assert best is not None
    assert plan.costs == pytest.approx([2.5, 2.5], abs=1e-7)
    assert plan.objective == pytest.approx(best.value, abs=1e-6)


@pytest.mark.parametrize("size", [1e-3, 1e3])
def test_other_units(size: float) -> None:
    """Rewards and costs in units of 1e-3 and 1e3: the same policy."""
    m = dense(two_costs())
    mdp = conrl.ConstrainedMDP(m.P, size * m.pay[:, :, 0], size * m.pay[:, :, 1:], m.horizon)
    problem = conrl.ConcaveConvex(lambda x: cp.log(1.0 + x / size), convex.near([2.5 * size] * 2, 0.2 * size))
    plain = conrl.ConcaveConvex(lambda x: cp.log(1.0 + x), convex.near([2.5] * 2, 0.2))
    plan = conrl.plan(mdp, problem)
    assert plan.status == "optimal"
    assert plan.objective == pytest.approx(truth(two_costs(), plain), abs=1e-5)
    assert np.linalg.norm(plan.costs / size - 2.5) <= 0.2 + 1e-5


@pytest.mark.parametrize("size", [1e-6, 1e6])
def test_units_far_from_one_never_break_a_limit_silently(size: float) -> None:
    """Not optimal is a status; twice the limit is not. The bound holds in any case."""
    mdp = still([0.0, size], [[0.0], [2.0 * size]], 3)
    problem = conrl.ConcaveConvex(lambda x: cp.log(size + x), convex.at_most(0, 3.0 * size))
    plan = conrl.plan(mdp, problem)
    assert plan.bound >= np.log(2.5 * size) - 1e-6 * abs(np.log(2.5 * size))
    assert plan.costs[0] <= 3.0 * size * (1.0 + 1e-3)


# -- objectives undefined somewhere ---------------------------------------------------------------------------


IDLE_OR_PLAY = still([0.0, 1.0], [[0.0], [2.0]], 3)
NOTHING_TO_GAIN = still([0.0, 0.0], [[0.0], [2.0]], 3)
ONLY_LOSSES = still([-1.0, -2.0], [[0.0], [2.0]], 3)


@both_planners
@pytest.mark.parametrize(
    "objective", [cp.log, lambda x: -cp.inv_pos(x), cp.sqrt, cp.entr], ids=["log", "inverse", "sqrt", "entropy"]
)
def test_undefined_at_a_policy_that_is_not_the_best(objective: Any, planner: str) -> None:
    """The idle policy has reward 0; the best has not."""
    plan = conrl.plan(IDLE_OR_PLAY, conrl.ConcaveConvex(objective, convex.at_most(0, 2.0)), planner=planner)
    xs = np.linspace(1e-3, 1.0, 1000)
    assert plan.objective == pytest.approx(max(number(objective(cp.Constant(x))) for x in xs), abs=1e-5)
    assert np.isfinite(plan.bound)


@both_planners
@pytest.mark.parametrize("objective", [cp.log, cp.sqrt, cp.entr], ids=["log", "sqrt", "entropy"])
def test_undefined_everywhere(objective: Any, planner: str) -> None:
    with pytest.raises(conrl.InfeasibleError, match="the objective's domain cannot be met") as caught:
        conrl.plan(ONLY_LOSSES, conrl.ConcaveConvex(objective), planner=planner)
    assert caught.value.feasibility.conflict == ("the objective's domain",)
    assert not caught.value.feasibility.feasible


@both_planners
def test_a_constraint_undefined_everywhere(planner: str) -> None:
    with pytest.raises(conrl.InfeasibleError, match="constraint 1 cannot be met"):
        conrl.plan(IDLE_OR_PLAY, conrl.ConcaveConvex(same, lambda c: -cp.log(c[0] - 100.0)), planner=planner)


@both_planners
@pytest.mark.parametrize("limit", [None, 1.0])
def test_log_where_only_zero_can_be_had(limit: float | None, planner: str) -> None:
    """log 0 is no value: nothing is allowed."""
    constraint = None if limit is None else convex.at_most(0, limit)
    with pytest.raises(conrl.InfeasibleError, match="objective's domain"):
        conrl.plan(NOTHING_TO_GAIN, conrl.ConcaveConvex(cp.log, constraint), planner=planner)


@both_planners
def test_log_where_a_limit_leaves_only_zero(planner: str) -> None:
    """Nothing is allowed; a solver may still use what a constraint may be exceeded by, and no more than that."""
    try:
        plan = conrl.plan(IDLE_OR_PLAY, conrl.ConcaveConvex(cp.log, convex.at_most(0, 0.0)), planner=planner)
    except conrl.InfeasibleError:
        return
    assert plan.costs[0] <= 1e-7
    assert np.isfinite(plan.objective)
    assert plan.objective < -15.0


@both_planners
@pytest.mark.parametrize("limit", [1e-3, 1e-6])
def test_log_near_zero(limit: float, planner: str) -> None:
    """A reward of limit / 2 is all that can be had: no minus infinity."""
    plan = conrl.plan(IDLE_OR_PLAY, conrl.ConcaveConvex(cp.log, convex.at_most(0, limit)), planner=planner)
    assert plan.bound >= np.log(limit / 2.0) - 1e-6
    if plan.status == "optimal":
        assert plan.objective == pytest.approx(np.log(limit / 2.0), abs=0.01)
    else:
        assert np.isfinite(plan.objective)


def test_proportional_fairness_although_no_cheapest_policy_serves_everybody() -> None:
    """log is undefined where the first columns are; a third of the time for each is best."""
    served = np.diag([10.0, 6.0, 2.0])
    mdp = still(list(served.sum(axis=1)), served, 24)
    plan = conrl.plan(mdp, conrl.ConcaveConvex(convex.proportional()))
    assert plan.objective == pytest.approx(np.log(80.0) + np.log(48.0) + np.log(16.0), abs=1e-5)
    assert plan.costs == pytest.approx([80.0, 48.0, 16.0], rel=1e-2)


def test_sqrt_where_only_zero_can_be_had() -> None:
    """The slope there is infinite, and the bound's multiplier 2e6: Clarabel's error counts that often."""
    plan = conrl.plan(NOTHING_TO_GAIN, conrl.ConcaveConvex(cp.sqrt))
    assert plan.objective == pytest.approx(0.0, abs=1e-6)
    assert 0.0 <= plan.gap <= 1e-5


# -- infeasible -----------------------------------------------------------------------------------------------


@both_planners
def test_infeasible_alone(planner: str) -> None:
    mdp = two_costs()
    problem = conrl.ConcaveConvex(same, [convex.at_most(1, 100.0), convex.near([0.0, 0.0], 1.0)])
    with pytest.raises(conrl.InfeasibleError, match="infeasible: constraint 2 cannot be met; nearest") as caught:
        conrl.plan(mdp, problem, planner=planner)
    found = caught.value.feasibility
    assert found.conflict == ("constraint 2",)
    assert found.violation > 0.0
    assert found.slack is None
    about = About(mdp)
    assert found.least == pytest.approx(about.least[1:], abs=1e-9)
    assert found.greatest == pytest.approx(about.greatest[1:], abs=1e-9)


@both_planners
@pytest.mark.parametrize("bonus", [False, True], ids=["plain", "bonus"])
def test_infeasible_together_names_an_irreducible_set(planner: str, bonus: bool) -> None:
    """Little of the second cost and much of the first do not go together; the idle ones are not blamed."""
    mdp = with_bonus(two_costs()) if bonus else two_costs()
    functions = [
        convex.at_most(0, 100.0),
        convex.at_most(1, float(About(mdp).least[2]) + 0.05),
        convex.near([3.0, 3.0], 50.0),
        convex.at_least(0, float(About(mdp).greatest[1]) - 0.05),
    ]
    with pytest.raises(conrl.InfeasibleError, match="constraint 2 and constraint 4 cannot be met together") as caught:
        conrl.plan(mdp, conrl.ConcaveConvex(convex.diminishing(), functions), planner=planner)
    assert caught.value.feasibility.conflict == ("constraint 2", "constraint 4")
    for kept in (functions[:3], [functions[0], *functions[2:]]):
        assert conrl.plan(mdp, conrl.ConcaveConvex(convex.diminishing(), kept), planner=planner).status == "optimal"


@both_planners
def test_an_objective_and_a_constraint_that_exclude_each_other(planner: str) -> None:
    """log(x - 1) needs a reward above 1, so a cost above 2."""
    problem = conrl.ConcaveConvex(lambda x: cp.log(x - 1.0), [convex.at_least(0, 0.0), convex.at_most(0, 1.0)])
    with pytest.raises(conrl.InfeasibleError, match="constraint 2 cannot be met") as caught:
        conrl.plan(IDLE_OR_PLAY, problem, planner=planner)
    assert caught.value.feasibility.conflict == ("constraint 2",)


# -- refusals -------------------------------------------------------------------------------------------------


@both_planners
@pytest.mark.parametrize(
    ("objective", "constraint", "words"),
    [
        (cp.square, None, "the objective is convex, not concave: .*y"),
        (lambda x: cp.sqrt(cp.square(x)), None, "the objective is quasiconvex, not concave"),
        (lambda x: cp.log(x) + cp.square(x), None, "the objective is unknown, not concave"),
        (same, lambda c: cp.sqrt(c[0]), "constraint 1 is concave, not convex"),
        (same, [convex.at_most(0, 1.0), lambda c: cp.log(c[0])], "constraint 2 is concave, not convex"),
        (lambda x: 1 / 0, None, "objective failed on a CVXPY expression: ZeroDivisionError: division by zero"),
        (lambda x: np.log(x), None, "objective failed on a CVXPY expression: RuntimeError"),
        (same, lambda c: c[7], "constraint 1 failed on a CVXPY expression: IndexError"),
        (lambda x, y, z: x, None, "objective failed .* missing 2 required"),
        (same, lambda c: cp.hstack((c, c)), r"constraint 1 has shape \(2,\); it must be a single number"),
        (lambda x: cp.hstack((x, x)), None, r"objective has shape \(2,\); it must be a single number"),
        (same, lambda c: c[0] <= 1.0, "constraint 1 failed"),
        ("log", None, "objective is 'log'; it must be a function"),
        (same, [3.0], "constraint 1 is 3.0; it must be a function"),
        (same, 3.0, "constraint"),
        (lambda x: None, None, "objective"),
        (lambda x: float("nan"), None, "objective"),
        (lambda x: float("nan") * x, None, "objective"),
        (lambda x: float("inf"), None, "objective"),
        (same, lambda c: c[0] - float("nan"), "constraint 1"),
        (lambda x: x + cp.Variable(), None, "objective"),
        (lambda x: cp.minimum(x, cp.Variable()), None, "objective"),
    ],
    ids=[
        *("convex", "quasiconvex", "unknown", "concave", "second constraint", "raises", "numpy", "index", "arguments"),
        *("shape of g", "shape of f", "comparison", "text", "number in a list", "number", "nothing", "nan"),
        *("nan slope", "infinite", "nan limit", "own variable", "own variable below"),
    ],
)
def test_refused(objective: Any, constraint: Any, words: str, planner: str) -> None:
    with pytest.raises(conrl.SpecError, match=words):
        conrl.plan(IDLE_OR_PLAY, conrl.ConcaveConvex(objective, constraint), planner=planner)


def test_wrong_planner() -> None:
    mdp = IDLE_OR_PLAY
    with pytest.raises(conrl.SpecError, match=r"'linear-program' does not take ConcaveConvex.*'column-generation'"):
        conrl.plan(mdp, conrl.ConcaveConvex(same), planner="linear-program")
    with pytest.raises(conrl.SpecError, match="'convex-program' does not take Linear problems; 'column-generation'"):
        conrl.plan(mdp, conrl.Linear([1.0]), planner=PROGRAM)
    with pytest.raises(conrl.SpecError, match="'convex-program' does not take Knapsack"):
        conrl.plan(mdp, conrl.Knapsack([1.0], 1), planner=PROGRAM)
    with pytest.raises(conrl.SpecError, match="did you mean 'convex-program'"):
        conrl.plan(mdp, conrl.ConcaveConvex(same), planner="convex-programm")


@pytest.mark.parametrize("tol", [0.0, -1.0, float("nan"), float("inf")])
def test_bad_tolerance(tol: float) -> None:
    for planner in (COLUMN, PROGRAM):
        with pytest.raises(conrl.SpecError, match="tol is"):
            conrl.plan(IDLE_OR_PLAY, conrl.ConcaveConvex(same), planner=planner, tol=tol)


@both_planners
@pytest.mark.parametrize("missing", ["cvxpy", "clarabel"])
def test_missing_extra(missing: str, planner: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, missing, None)
    with pytest.raises(conrl.SpecError, match=rf"pip install 'conrl\[convex\]'.*{missing}"):
        conrl.plan(IDLE_OR_PLAY, conrl.ConcaveConvex(same), planner=planner)
    with pytest.raises(conrl.SpecError, match=r"conrl\[convex\]"):
        convex.max_min()(None, np.ones(2))
    assert conrl.plan(IDLE_OR_PLAY, conrl.Linear([1.0])).status == "optimal"  # which needs no extra


# -- the ready-made functions ---------------------------------------------------------------------------------


def test_docstring_examples() -> None:
    done = doctest.testmod(convex)
    assert done.failed == 0
    examples = {t.name.rpartition(".")[2] for t in doctest.DocTestFinder().find(convex) if t.examples}
    assert examples == {*convex.__all__, "convex"}


def test_importing_it_does_not_import_cvxpy(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def watched(name: str, *rest: Any) -> Any:
        assert name.partition(".")[0] not in ("cvxpy", "clarabel", "numba")
        return real(name, *rest)

    monkeypatch.delitem(sys.modules, "conrl.convex")
    monkeypatch.setattr(builtins, "__import__", watched)
    import conrl.convex as again

    again.near([1.0], 2.0)
    monkeypatch.undo()


@pytest.mark.parametrize(
    ("function", "at", "expected"),
    [
        (convex.at_most(1, 2.0), [1.0, 5.0], 3.0),
        (convex.at_least(1, 2.0), [1.0, 5.0], -3.0),
        (convex.within(0, 0.5, 2.0), [1.0, 5.0], -0.5),
        (convex.within(0, 2.0, 2.0), [1.0, 5.0], 1.0),
        (convex.near([1.0, 1.0], 1.0, norm=1), [4.0, 5.0], 6.0),
        (convex.near([1.0, 1.0], 1.0, norm=2.0), [4.0, 5.0], 4.0),
        (convex.near((1, 1), 1, norm="inf"), [4.0, 5.0], 3.0),
        (convex.near([1.0, 1.0], 1.0, norm=np.inf), [4.0, 5.0], 3.0),
        (convex.fair(2.0), [1.0, 5.0], 1.0),
    ],
)
def test_constraints(function: Any, at: list[float], expected: float) -> None:
    y = cp.Variable(2, value=at)
    assert function(y).is_convex()
    assert number(function(y)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("kind", "scale", "expected"),
    [("log", 2.0, np.log(2.5)), ("sqrt", 3.0, 1.0), ("exp", 3.0, 1.0 - np.exp(-1.0)), ("cap", 2.0, 1.0)],
)
def test_diminishing(kind: str, scale: float, expected: float) -> None:
    x = cp.Variable(value=3.0)
    value = convex.diminishing(kind, scale)(x)
    assert value.is_concave()
    assert number(value) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (convex.max_min(), 1.0),
        (convex.proportional(), np.log(4.0)),
        (convex.proportional(1.0), np.log(10.0)),
        (convex.closeness([0.0, 1.0]), -np.sqrt(10.0)),
        (convex.closeness([0.0, 1.0], norm=1), -4.0),
        (convex.closeness([0.0, 1.0], norm="inf"), -3.0),
    ],
)
def test_joint_objectives(function: Any, expected: float) -> None:
    y = cp.Variable(2, value=[1.0, 4.0])
    value = function(cp.Constant(9.0), y)
    assert value.is_concave()
    assert number(value) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: convex.at_most(-1, 1.0), "i is -1; it must be the index"),
        (lambda: untyped.at_most("fuel", 1.0), "i is 'fuel'.*names are known to Linear"),
        (lambda: convex.at_least(True, 1.0), "i is True"),
        (lambda: untyped.at_least(0.5, 1.0), "i is 0.5"),
        (lambda: convex.at_most(0, float("inf")), "x is inf; it must be a finite number"),
        (lambda: untyped.at_most(0, "much"), "x is 'much'"),
        (lambda: untyped.at_least(0, None), "x is None"),
        (lambda: convex.within(0, 2.0, 1.0), "low is 2 and high is 1; nothing lies between"),
        (lambda: convex.within(0, float("nan"), 1.0), "low is nan"),
        (lambda: convex.near([1.0], -1.0), "radius is -1; a distance is at least 0"),
        (lambda: convex.near([1.0], 1.0, norm=3), 'norm is 3; it must be 1, 2 or "inf"'),
        (lambda: convex.near([1.0], 1.0, norm="two"), "norm is 'two'"),
        (lambda: convex.near([1.0], 1.0, norm=True), "norm is True"),
        (lambda: convex.near(1.0, 1.0), "target is 1.0; it must be a list of finite numbers"),
        (lambda: convex.near(["a"], 1.0), "target is .*one per cost"),
        (lambda: convex.closeness([float("nan")]), "target is .*finite"),
        (lambda: convex.fair(float("nan")), "level is nan"),
        (lambda: convex.diminishing("logg"), "unknown kind of diminishing returns 'logg'; did you mean 'log'"),
        (lambda: convex.diminishing("log", 0.0), "scale is 0; it must be positive"),
        (lambda: convex.proportional(-1.0), "offset is -1"),
    ],
)
def test_bad_arguments(make: Callable[[], Any], words: str) -> None:
    with pytest.raises(conrl.SpecError, match=words):
        make()


@pytest.mark.parametrize(
    ("problem", "words"),
    [
        (conrl.ConcaveConvex(same, convex.at_most(1, 0.0)), "cost 1 is asked for; the model has 1, counted from 0"),
        (conrl.ConcaveConvex(same, convex.near([1.0, 2.0], 1.0)), "target has 2 entries; the model has 1 costs"),
        (conrl.ConcaveConvex(convex.closeness([1.0, 2.0])), "target has 2 entries"),
    ],
)
def test_functions_that_do_not_fit_the_model(problem: conrl.ConcaveConvex, words: str) -> None:
    with pytest.raises(conrl.SpecError, match=words):
        conrl.plan(IDLE_OR_PLAY, problem)


def test_fairness_without_costs() -> None:
    for problem in (conrl.ConcaveConvex(same, convex.fair(1.0)), conrl.ConcaveConvex(convex.max_min())):
        with pytest.raises(conrl.SpecError, match="the model has none"):
            conrl.plan(still([1.0], [], 1), problem)


@pytest.mark.parametrize("horizon", [10, 60])
def test_a_steep_constraint_does_not_loosen_itself(horizon: int) -> None:
    """c^4 and exp(c) are huge at the far end of the box; their limits are kept where they bind."""
    mdp = still([0.0, 1.0], [[0.0], [1.0]], horizon)
    quartic = conrl.plan(mdp, conrl.ConcaveConvex(same, lambda c: cp.power(c[0], 4) - 1e-4))
    assert quartic.costs[0] == pytest.approx(0.1, abs=1e-6)
    assert quartic.prices[0] == pytest.approx(250.0, rel=1e-3)
    exponential = conrl.plan(mdp, conrl.ConcaveConvex(same, lambda c: cp.exp(c[0]) - 2.0))
    assert exponential.costs[0] == pytest.approx(np.log(2.0), abs=1e-8)
