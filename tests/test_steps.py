"""Models that depend on the step: against their expansion by hand, against HiGHS, in files, in worlds and learners."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium
import numpy as np
import pytest
import scipy.sparse as sp
from gymnasium.utils.env_checker import check_env
from numpy.typing import NDArray
from scipy.optimize import linprog

import conrl
from conrl.envs import CMDPEnv
from conrl.model.transform import rolled

Float = NDArray[np.float64]


class Drawn(NamedTuple):
    """A model by step, dense."""

    P: Float  # [H, S, A, S]
    r: Float  # [H, S, A]
    c: Float  # [H, S, A, d]
    exists: NDArray[np.bool_]  # [H, S, A]
    initial: Float

    @property
    def mdp(self) -> conrl.ConstrainedMDP:
        # By outcome, since [H, S, A] would be ambiguous where H = S = A.
        r = np.repeat(self.r[..., None], self.P.shape[1], axis=-1)
        c = np.repeat(self.c[:, :, :, None], self.P.shape[1], axis=3)
        return conrl.ConstrainedMDP(self.P, r, c, initial=self.initial, available=self.exists)

    def expanded(self) -> conrl.ConstrainedMDP:
        """By hand: state h * S + s, and S more that nothing leaves."""
        H, S, A, _ = self.P.shape
        N = (H + 1) * S
        P, r, c = np.zeros((N, A, N)), np.zeros((N, A)), np.zeros((N, A, self.c.shape[3]))
        exists = np.ones((N, A), dtype=bool)
        for h in range(H):
            for s in range(S):
                P[h * S + s, :, (h + 1) * S : (h + 2) * S] = self.P[h, s]
                r[h * S + s], c[h * S + s], exists[h * S + s] = self.r[h, s], self.c[h, s], self.exists[h, s]
        P[np.arange(H * S, N), :, np.arange(H * S, N)] = 1.0
        exists[~exists.any(axis=1)] = True  # nobody comes there
        P[P.sum(axis=2) == 0.0, 0] = 1.0
        start = np.concatenate((self.initial, np.zeros(N - S)))
        return conrl.ConstrainedMDP(P, r, c, H, initial=start, available=exists)

    def highs(self, limits: Float, per_step: Float | None = None) -> float | None:
        """The optimum of the occupation program, by scipy; None where it is infeasible. `per_step` [d, H]: limits."""
        H, S, A, _ = self.P.shape
        keep = self.exists.reshape(-1)
        node = np.repeat(np.arange(H * S), A)
        flow = np.zeros((H * S, H * S * A))
        flow[node, np.arange(H * S * A)] = 1.0
        for h in range(H - 1):
            rows = slice((h + 1) * S, (h + 2) * S)
            flow[rows, h * S * A : (h + 1) * S * A] -= self.P[h].reshape(S * A, S).T
        d = self.c.shape[3]
        used, bound = self.c.reshape(-1, d).T, limits
        if per_step is not None:
            step = np.arange(H * S * A) // (S * A)
            each = (used[:, None] * (step == np.arange(H)[:, None])).reshape(d * H, -1)
            used, bound = np.vstack((used, each)), np.append(limits, per_step.reshape(-1))
        finite = np.isfinite(bound)
        answer = linprog(
            -self.r.reshape(-1)[keep],
            A_ub=used[finite][:, keep] if finite.any() else None,
            b_ub=bound[finite] if finite.any() else None,
            A_eq=flow[:, keep],
            b_eq=np.concatenate((self.initial, np.zeros((H - 1) * S))),
            options={"primal_feasibility_tolerance": 1e-10, "dual_feasibility_tolerance": 1e-10},
        )
        return -float(answer.fun) if answer.status == 0 else None


def draw(seed: int) -> Drawn:
    """Some transitions are deterministic, some states unreachable at some steps, some of those without any action."""
    rng = np.random.default_rng(seed)
    H, S, A, d = (int(rng.integers(1, n)) for n in (7, 12, 4, 5))
    P = rng.dirichlet(np.full(S, 0.3), size=(H, S, A))
    P[P < 0.1] = 0.0
    P[P.sum(axis=3) == 0.0, 0] = 1.0
    P /= P.sum(axis=3, keepdims=True)
    scale = 10.0 ** rng.integers(-3, 4, size=1 + d)
    signed = rng.random(1 + d) < 0.3
    pay = (rng.random((H, S, A, 1 + d)) - 0.5 * signed) * scale
    exists = rng.random((H, S, A)) < 0.7
    exists[..., 0] = True
    initial = np.zeros(S)
    some = rng.random(S) < 0.4
    some[rng.integers(S)] = True
    initial[some] = rng.dirichlet(np.ones(some.sum()))
    reached = initial > 0.0
    for h in range(H):
        if rng.random() < 0.5:
            exists[h, ~reached] = False
        reached = (P[h][reached][exists[h][reached]] > 0.0).any(axis=0)
    return Drawn(P, pay[..., 0], pay[..., 1:], exists, initial)


def limits_for(mdp: conrl.ConstrainedMDP, seed: int) -> Float:
    """Between the least and what is spent without limits; now and then impossible."""
    rng = np.random.default_rng([seed, 1])
    least, free = conrl.feasibility(mdp, conrl.Linear()).least, conrl.plan(mdp, conrl.Linear()).costs
    return np.asarray(least + rng.uniform(0.0, 1.2, least.size) * (free - least))


@pytest.mark.parametrize("seed", range(200))
def test_equal_to_the_expansion_and_to_highs(seed: int) -> None:
    drawn = draw(seed)
    mdp, hand = drawn.mdp, drawn.expanded()
    limits = limits_for(mdp, seed)
    best = drawn.highs(limits)
    problem = conrl.Linear(limits)
    try:
        plan = conrl.plan(mdp, problem)
    except conrl.InfeasibleError:
        assert best is None
        with pytest.raises(conrl.InfeasibleError):
            conrl.plan(hand, problem)
        assert conrl.feasibility(mdp, problem).violation > 0.0
        return
    assert best is not None
    size = max(1.0, abs(best))
    assert abs(plan.reward - best) <= 1e-9 * size
    assert abs(plan.reward - conrl.plan(hand, problem).reward) <= 1e-9 * size
    assert plan.bound >= best - 1e-9 * size
    assert abs(conrl.plan(mdp, problem, "linear-program").reward - best) <= 1e-8 * size
    # Its policy is one of H steps and S states, and is worth what was planned, as a mixture and as one policy.
    assert plan.policy.probabilities.shape == drawn.r.shape
    for played in (plan.policy, plan.mixture):
        value = conrl.evaluate(mdp, played).value
        assert np.abs(value - [plan.reward, *plan.costs]).max() <= 1e-9 * np.abs(value).max() + 1e-12
    assert value_by_hand(drawn, plan.policy.probabilities) == pytest.approx(
        [plan.reward, *plan.costs], rel=1e-8, abs=1e-9
    )


def value_by_hand(drawn: Drawn, policy: Float) -> Float:
    pay = np.concatenate((drawn.r[..., None], drawn.c), axis=3)
    total, mu = np.zeros(pay.shape[3]), drawn.initial
    for h in range(pay.shape[0]):
        rho = mu[:, None] * policy[h]
        assert not (rho > 0.0)[~drawn.exists[h]].any()
        total += np.einsum("sa,sai->i", rho, pay[h])
        mu = np.einsum("sa,sat->t", rho, drawn.P[h])
    return total


@pytest.mark.parametrize("seed", [3, 8, 21])
def test_frontier_knapsack_and_convex(seed: int) -> None:
    drawn = draw(seed)
    mdp, hand = drawn.mdp, drawn.expanded()
    assert mdp.num_costs
    mine, theirs = conrl.frontier(mdp, 0), conrl.frontier(hand, 0)
    assert mine.limits == pytest.approx(theirs.limits, rel=1e-9, abs=1e-12)
    assert mine.rewards == pytest.approx(theirs.rewards, rel=1e-9, abs=1e-12)
    budgets = conrl.Knapsack(np.maximum(limits_for(mdp, seed), 0.01) * 10, 10)
    assert conrl.plan(mdp, budgets).reward == pytest.approx(conrl.plan(hand, budgets).reward, rel=1e-9)
    paper = conrl.plan(mdp, conrl.Linear(limits_for(mdp, seed) * 2), "lagrangian")
    assert paper.reward == pytest.approx(conrl.plan(hand, conrl.Linear(limits_for(mdp, seed) * 2), "lagrangian").reward)
    bonus = np.random.default_rng(seed).random((*drawn.r.shape, 1 + mdp.num_costs))
    assert conrl.plan(mdp.with_bonus(bonus), conrl.Linear()).objective > conrl.plan(mdp, conrl.Linear()).objective


def test_a_concave_goal() -> None:
    pytest.importorskip("cvxpy")
    shop = conrl.envs.pricing_hours()
    linear = conrl.plan(shop)
    convex = conrl.plan(shop, conrl.ConcaveConvex(lambda x: x, lambda c: c[0] - 4.0))
    assert convex.reward == pytest.approx(linear.reward, abs=1e-6)
    full = conrl.plan(shop, conrl.ConcaveConvex(lambda x: x, lambda c: c[0] - 4.0), "convex-program")
    assert full.reward == pytest.approx(linear.reward, abs=1e-4)


# -- limits on single steps -----------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(100))
def test_limits_per_step_are_those_of_the_full_program(seed: int) -> None:
    """Drawn between what no limit asks and the least; every other model is the same at every step."""
    drawn, rng = draw(seed), np.random.default_rng([seed, 2])
    H, S, A, d = drawn.c.shape
    if seed % 2:
        P, r, c = (np.repeat(x[:1], H, axis=0) for x in (drawn.P, drawn.r, drawn.c))
        drawn = Drawn(P, r, c, np.ones((H, S, A), dtype=bool), drawn.initial)
        mdp = conrl.ConstrainedMDP(drawn.P[0], drawn.r[0], drawn.c[0], H, initial=drawn.initial)
    else:
        mdp = drawn.mdp
    free = conrl.plan(mdp, conrl.Linear())
    spent = np.einsum("hsa,hsai->ih", free.policy.occupation(mdp), drawn.c)  # [d, H]
    size = np.abs(drawn.c).max(axis=(1, 2)).T  # [d, H]
    per_step = np.where(rng.random((d, H)) < 0.6, spent - rng.uniform(-0.1, 0.3, (d, H)) * size, np.inf)
    limits = np.where(rng.random(d) < 0.5, limits_for(mdp, seed), np.inf)
    asked = {name: row.tolist() for name, row in zip(mdp.cost_names, per_step, strict=True)}
    problem = conrl.Linear(limits, per_step=asked)
    best = drawn.highs(limits, per_step)
    try:
        plan = conrl.plan(mdp, problem)
    except conrl.InfeasibleError:
        assert best is None
        assert not conrl.feasibility(mdp, problem).feasible
        return
    assert best is not None
    assert plan.reward == pytest.approx(best, rel=1e-8, abs=1e-9)
    assert (plan.mdp is mdp, plan.costs.shape, plan.prices.shape) == (True, (d,), (d,))
    assert len(plan.rows) == np.isfinite(limits).sum() + np.isfinite(per_step).sum()
    mixed = [policy.occupation(mdp) for policy in plan.mixture.policies]
    for played in (plan.policy.occupation(mdp), np.tensordot(plan.mixture.weights, mixed, 1)):
        used = np.einsum("hsa,hsai->ih", played, drawn.c)
        assert (used <= per_step + 1e-8 * np.maximum(np.abs(per_step), size)).all()
    again = conrl.plan(mdp, problem, "linear-program")
    assert again.reward == pytest.approx(best, rel=1e-7, abs=1e-8)


def test_limits_per_step_that_make_no_sense() -> None:
    shop = conrl.envs.pricing_hours()
    for given, message in (
        ({"stok": 1}, "did you mean 'stock'"),
        ({"stock": [1, 2]}, r"has shape \(2,\); expected one number, or one for each of 24 steps"),
        ({"stock": "x"}, "per_step"),
        ({"stock": np.nan}, "a limit is a number"),
        (3.0, "expected limits by cost name"),
    ):
        with pytest.raises(conrl.ConRLError, match=message):
            conrl.plan(shop, conrl.Linear(per_step=given))  # type: ignore[arg-type]
    with pytest.raises(conrl.SpecError, match="per_step is for"):
        conrl.ConRL(shop.task, problem=conrl.Linear(per_step={"stock": 1}))
    with pytest.raises(conrl.ModelError, match="holds limits per step"):
        conrl.frontier(shop, limits=conrl.Linear(per_step={"stock": 1}))
    assert conrl.plan(shop, conrl.Linear(per_step={"stock": np.inf})).reward == conrl.plan(shop, conrl.Linear()).reward


# -- forms ----------------------------------------------------------------------------------------------------


def test_forms_of_one_model() -> None:
    """Dense and sparse, by pair and by outcome, with the same numbers, are the same model."""
    rng = np.random.default_rng(0)
    H, S, A, d = 4, 5, 2, 3
    P = rng.dirichlet(np.ones(S), size=(H, S, A))
    r, c = rng.random((H, S, A)), rng.random((H, S, A, d))
    rows = [sp.csr_array(P[h].reshape(S * A, S)) for h in range(H)]
    spread = np.repeat(r[..., None], S, axis=-1)
    tables = [sp.csr_array(spread[h].reshape(S * A, S)) for h in range(H)]
    first = conrl.ConstrainedMDP(P, r, c)
    assert (first.step_dependent, first.horizon, first.num_states) == (True, H, S)
    others = [
        conrl.ConstrainedMDP(rows, r, c),
        conrl.ConstrainedMDP(rows, tables, [c[..., i] for i in range(d)], H),
        conrl.ConstrainedMDP(P.tolist(), r.tolist(), c.tolist(), H),
        conrl.ConstrainedMDP(P, spread, np.repeat(c[:, :, :, None], S, axis=3), H),
        conrl.ConstrainedMDP(
            P,
            r,
            [
                *(c[..., i] for i in range(d - 1)),
                [sp.csr_array(np.repeat(c[h, ..., 2].reshape(-1, 1), S, 1)) for h in range(H)],
            ],
        ),
    ]
    for other in others:
        assert np.abs(other.pay - first.pay).max() <= 1e-15
        assert all(np.array_equal(x, y) for x, y in zip(other.graph, first.graph, strict=True))
    assert all(np.array_equal(x.toarray(), y.toarray()) for x, y in zip(first.transitions, rows, strict=True))
    assert np.array_equal(first.rewards, r)
    assert np.array_equal(first.costs, c)
    assert first.available.shape == (H, S, A)


def test_what_depends_on_the_step_makes_the_rest_depend_on_it() -> None:
    """Only the rewards, only a cost or only the actions may change with the step."""
    rng = np.random.default_rng(1)
    H, S, A = 3, 4, 2
    P, r, c = rng.dirichlet(np.ones(S), size=(S, A)), rng.random((S, A)), rng.random((S, A, 1))
    still = conrl.ConstrainedMDP(P, r, c, H)
    for rewards, costs, available in (
        (np.tile(r, (H, 1, 1)), c, None),
        (r, np.tile(c, (H, 1, 1, 1)), None),
        (r, c, np.ones((H, S, A))),
        (r, [np.tile(c[..., 0], (H, 1, 1))], None),
    ):
        mdp = conrl.ConstrainedMDP(P, rewards, costs, H, available=available)
        assert mdp.step_dependent
        assert conrl.plan(mdp, [1.3]).reward == pytest.approx(conrl.plan(still, [1.3]).reward, rel=1e-12)
    assert not still.step_dependent


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "sum": ({"transitions": np.full((3, 2, 2, 2), 0.4)}, r"transitions\[step 0, state '0', action '0'\] sums to 0.8"),
    "horizon": ({"horizon": 5}, "horizon is 5, but there are transitions, rewards or costs for 3 steps"),
    "rewards": ({"rewards": np.ones((4, 2, 2))}, r"rewards has shape \(4, 2, 2\); expected .* with a leading 3"),
    "costs": ({"costs": np.ones((4, 2, 2, 1))}, r"costs has shape \(4, 2, 2, 1\); expected .* with a leading 3"),
    "sparse steps": ({"rewards": [sp.csr_array((4, 2))] * 2}, "a list of 2 sparse arrays; expected one for each of 3"),
    "sparse shape": (
        {"transitions": [sp.csr_array((4, 2)), sp.csr_array((4, 3))]},
        r"\(4, 3\) at step 1; expected \(4, 2\)",
    ),
    "no action": (
        {"available": np.zeros((3, 2, 2))},
        "state '0' .index 0., which can be reached at step 0, has no action",
    ),
    "mask": ({"available": np.ones((2, 2, 2))}, r"available has shape \(2, 2, 2\)"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_named(case: str) -> None:
    changes, message = MISTAKES[case]
    usual: dict[str, Any] = {
        "transitions": np.full((3, 2, 2, 2), 0.5),
        "rewards": np.ones((3, 2, 2)),
        "costs": np.ones((3, 2, 2, 1)),
    }
    with pytest.raises(conrl.ModelError, match=message):
        conrl.ConstrainedMDP(**(usual | changes))


def test_by_step_or_by_outcome_is_not_guessed() -> None:
    P = np.full((2, 2, 2, 2), 0.5)
    with pytest.raises(conrl.ModelError, match="by step or by outcome"):
        conrl.ConstrainedMDP(P, np.ones((2, 2, 2)), None)
    with pytest.raises(conrl.ModelError, match="by step or by outcome"):
        conrl.ConstrainedMDP(P[0], np.ones((2, 2, 2)), None, 2, available=np.ones((2, 2, 2)))
    assert conrl.ConstrainedMDP(P, np.ones((2, 2, 2, 2)), None).step_dependent
    assert not conrl.ConstrainedMDP(P[0], np.ones((2, 2, 2)), None, 2).step_dependent  # by outcome, as ever


def test_steps_stay_as_they_are() -> None:
    shop = conrl.envs.pricing_hours()
    with pytest.raises(conrl.ModelError, match="the model has 24 steps, each its own"):
        shop.replace(horizon=12)
    assert shop.replace(horizon=24, limits=[2]).step_dependent
    lost = Drawn(np.tile(np.eye(2)[None, :, None], (3, 1, 1, 1)), np.ones((3, 2, 1)), np.ones((3, 2, 1, 0)),
                 np.array([[[1], [0]]] * 3, dtype=bool), np.array([1.0, 0.0])).mdp  # fmt: skip
    with pytest.raises(conrl.ModelError, match=r"state '1' .index 1., which can be reached at step 0, has no action"):
        lost.replace(initial=1)


# -- files ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", range(20))
def test_files_give_the_model_back(seed: int, tmp_path: Path) -> None:
    mdp = draw(seed).mdp
    conrl.save_model(tmp_path / "m.npz", mdp)
    again = conrl.load_model(tmp_path / "m.npz")
    assert all(np.array_equal(x, y) for x, y in zip(again.graph, mdp.graph, strict=True))
    assert np.array_equal(again.pay, mdp.pay)
    conrl.save_model(tmp_path / "m.csv", mdp)
    listed = conrl.load_model(tmp_path / "m.csv", **({} if mdp.step_dependent else {"horizon": mdp.horizon}))
    if (mdp.initial == 1.0).any():  # the file begins with a state of the start
        assert conrl.plan(listed, conrl.Linear()).reward == pytest.approx(
            conrl.plan(mdp, conrl.Linear()).reward, rel=1e-12
        )
    reached = len({(h, s) for h, s in np.argwhere(mdp.reached)}) if mdp.step_dependent else mdp.num_states
    rows = (tmp_path / "m.csv").read_text().splitlines()[1:]
    if mdp.step_dependent:
        assert len({tuple(row.split(",")[:2]) for row in rows}) == reached


SHOP = """state,action,next_state,step,probability,reward,cost_x
a,go,a,0-2,0.5,1,1
a,go,b,0-2,0.5,1,0
a,stay,a,*,1,0,0
b,go,b,*,1,0.2,0
a,go,c,3,1,5,2
"""


def test_the_step_column(tmp_path: Path) -> None:
    path = tmp_path / "shop.csv"
    path.write_text(SHOP)
    mdp = conrl.load_model(path)
    assert (mdp.horizon, mdp.num_states, mdp.step_dependent) == (4, 3, True)
    assert conrl.plan(mdp, {"x": 1.0}).reward == pytest.approx(2.55)
    conrl.plan(mdp, {"x": 1.0}).policy.save(tmp_path / "p.csv", mdp)
    assert "c" not in {row.split(",")[1] for row in (tmp_path / "p.csv").read_text().splitlines()[1:]}
    path.write_text(SHOP.replace("a,go,c,3", "a,go,c,2-3"))
    with pytest.raises(conrl.ModelError, match=r"line 2: the 3 rows of step 2, state 'a', action 'go' .* sum to 2;"):
        conrl.load_model(path, horizon=4)
    plain = "step,state,action,next_state,probability,reward\n*,a,go,a,1,1\n"
    path.write_text(plain)
    assert not conrl.load_model(path, horizon=4).step_dependent
    with pytest.raises(conrl.ModelError, match="holds no horizon"):
        conrl.load_model(path)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3-1", "line 3: step is '3-1'; write a step as 3"),
        ("5-Oct", "format the column as text"),
        ("", "line 3: step is ''"),
        ("-1", "line 3: step is '-1'"),
        ("1.0", "line 3: step is '1.0'"),
        ("٣", "line 3: step is"),
        ("9", "m.csv: the file has steps 9 to 9, and a horizon of 2 cuts them off: leave it out"),
        ("9" * 30, "line 3: step is"),
    ],
)
def test_steps_that_make_no_sense(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text(f"step,state,action,next_state,probability,reward\n*,a,go,a,1,1\n{text},a,stay,a,1,1\n")
    with pytest.raises(conrl.ModelError, match=message):
        conrl.load_model(path, horizon=2)


def test_a_few_bytes_do_not_make_a_huge_model(tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text("step,state,action,next_state,probability,reward\n" + "0-9999999,a,go,a,0.05,1\n" * 20)
    with pytest.raises(conrl.ModelError, match="stand for 200,000,000 outcomes"):
        conrl.load_model(path)


def test_damaged_steps_in_an_npz(tmp_path: Path) -> None:
    mdp = conrl.envs.pricing_hours()
    conrl.save_model(tmp_path / "m.npz", mdp)
    arrays = dict(np.load(tmp_path / "m.npz"))
    for steps in (0, 7, 23, -1, 10**9):
        np.savez(tmp_path / "bad.npz", **(arrays | {"steps": np.array(steps)}))
        with pytest.raises(conrl.ModelError):
            conrl.load_model(tmp_path / "bad.npz")


# -- worlds and learners --------------------------------------------------------------------------------------


def test_simulation_agrees_with_the_exact_value() -> None:
    shop = conrl.envs.pricing_hours()
    plan = conrl.plan(shop)
    played = conrl.simulate(shop, plan, 20_000, seed=3)
    error = played.standard_error
    assert abs(played.mean.reward - plan.reward) <= 5.0 * error.reward
    assert abs(played.mean.costs[0] - 4.0) <= 5.0 * error.costs[0]
    env = CMDPEnv(shop)
    seen = conrl.simulate(env, plan.policy, 2000, seed=1)
    assert abs(seen.mean.reward - plan.reward) <= 5.0 * seen.standard_error.reward


def test_gymnasium() -> None:
    env = gymnasium.make("conrl/PricingHours-v0")
    check_env(env.unwrapped, skip_render_check=True)
    drawn = draw(8)
    world = CMDPEnv(drawn.mdp)
    _, info = world.reset(seed=0)
    for h in range(drawn.mdp.horizon):
        assert world._state is not None
        assert info["action_mask"].tolist() == drawn.exists[h, world._state].astype(int).tolist()
        _, _, _, _, info = world.step(int(np.argmax(info["action_mask"])))
        if h + 1 == drawn.mdp.horizon:
            break


def test_pricing_hours_is_pricing_where_they_agree() -> None:
    """With a customer every hour and the noon rush as worth, it is `pricing` without the hour in the state."""
    H = 12
    rush = [20.0 * math.sin(math.pi * (h + 0.5) / H) for h in range(H)]
    hours = conrl.envs.pricing_hours(traffic=[1.0] * H, worth=rush)
    shop = conrl.envs.pricing()
    assert (hours.num_states, shop.num_states) == (3, 36)
    for limit in (1.0, 4.0, 8.0, np.inf):
        mine, theirs = conrl.plan(hours, [limit]), conrl.plan(shop, [limit])
        assert mine.reward == pytest.approx(theirs.reward, rel=1e-11)
        assert mine.prices == pytest.approx(theirs.prices, rel=1e-7, abs=1e-9)
    assert conrl.frontier(hours).limits == pytest.approx(conrl.frontier(shop).limits)


@pytest.mark.parametrize(
    "changes", [{"traffic": []}, {"traffic": [2.0]}, {"traffic": [0.5], "worth": [1, 2]}, {"worth": [np.nan] * 24}]
)
def test_pricing_hours_refuses_nonsense(changes: dict[str, Any]) -> None:
    with pytest.raises((conrl.ModelError, conrl.SpecError), match=r"traffic|worth"):
        conrl.envs.pricing_hours(**changes)


def small(initial: int | list[float] = 0) -> conrl.ConstrainedMDP:
    rng = np.random.default_rng(1)
    H, S, A = 4, 5, 3
    P = rng.dirichlet(np.full(S, 0.5), size=(H, S, A))
    exists = (rng.random((H, S, A)) < 0.8) | (np.arange(A) == 0)
    mdp = conrl.ConstrainedMDP(P, rng.random((H, S, A)), rng.random((H, S, A, 2)), available=exists, initial=initial)
    return mdp.replace(limits=conrl.feasibility(mdp, conrl.Linear()).least + 0.6)


@pytest.mark.parametrize(
    "learner", [conrl.ConRL, conrl.OptCMDP, conrl.OptPrimalDual, conrl.PosteriorSampling, conrl.UCBVI]
)
@pytest.mark.parametrize("initial", [0, [0.5, 0.5, 0.0, 0.0, 0.0]], ids=["known", "unknown"])
def test_learners_count_per_step(learner: Any, initial: Any, tmp_path: Path) -> None:
    mdp = small(initial)
    made = learner(mdp.task)
    history = conrl.learn(mdp, made, episodes=60, seed=0)
    assert made.model.step_dependent
    counts = made.model.counts
    assert counts is not None
    assert counts.sum(axis=(1, 2)).tolist() == [60] * 4  # one visit a step in every episode
    made.save(tmp_path / "l.npz")
    again = conrl.load_learner(tmp_path / "l.npz")
    assert np.array_equal(again.propose().probabilities, made.propose().probabilities)
    assert history.expected_rewards is not None
    assert history.expected_rewards[-1] > 0.0


def test_conrl_learns_what_depends_on_the_step() -> None:
    mdp = small()
    best = conrl.plan(mdp)
    history = conrl.learn(mdp, conrl.ConRL(mdp.task), episodes=500, seed=0)
    assert history.expected_rewards is not None
    assert history.expected_rewards[-100:].mean() > 0.97 * best.reward
    blind = conrl.Task(5, 3, 4, mdp.task.limits, mdp.cost_names, initial=0)
    with pytest.raises(conrl.SpecError, match="step_dependent=True"):
        conrl.learn(mdp, conrl.ConRL(blind), episodes=1)


def test_learners_that_do_not_see_the_step_say_so() -> None:
    task = small().task
    for learner in (conrl.RCPO, conrl.ApproPO, conrl.TFWUCRL2):
        with pytest.raises(conrl.SpecError, match="does not see the step"):
            learner(task)
    with pytest.raises(conrl.SpecError, match="does not see the step"):
        conrl.learn(small(), conrl.ConRL(task, planner=conrl.Lagrangian(oracle="a2c")), episodes=1)
    with pytest.raises(conrl.SpecError, match="same at every step"):
        conrl.single_episode(small())


def test_logs_by_step() -> None:
    """An estimate from a log of many episodes has every step's own transitions."""
    mdp = small()
    rng = np.random.default_rng(0)
    uniform = conrl.Policy(mdp.playable / mdp.playable.sum(axis=2, keepdims=True))
    env, episodes = CMDPEnv(mdp), []
    env.reset(seed=1)
    for _ in range(3000):
        s, _ = env.reset()
        states, actions, pay = [s], [], []
        for h in range(4):
            a = uniform.act(h, s, rng)
            s, reward, _, _, info = env.step(a)
            states.append(s)
            actions.append(a)
            pay.append([reward, *info["costs"]])
        episodes.append(conrl.Episode(states, actions, np.array(pay)[:, 0], np.array(pay)[:, 1:]))
    model = conrl.estimate(episodes, task=mdp.task)
    assert model.step_dependent
    assert model.counts is not None
    for mine, true, count in zip(model.transitions, mdp.transitions, model.counts, strict=True):
        seen = count.reshape(-1) > 50
        assert np.abs(mine.toarray() - true.toarray())[seen].mean() < 0.05
    assert conrl.plan(model).reward == pytest.approx(conrl.plan(mdp).reward, rel=0.1)


def test_rolled_keeps_the_end() -> None:
    """A state for each step, and one END, become the states of one step and END at every one."""
    P = np.zeros((5, 1, 5))
    for node, to in ((0, 2), (1, 4), (2, 3), (3, 3), (4, 4)):
        P[node, 0, to] = 1.0
    flat = conrl.ConstrainedMDP(P, np.arange(5.0)[:, None], None, 2)
    mdp = rolled(flat, 2)
    assert (mdp.num_states, mdp.horizon, mdp.step_dependent) == (3, 2, True)
    assert conrl.plan(mdp).reward == 0.0 + 2.0
    assert [x.toarray().argmax(axis=1).tolist() for x in mdp.transitions] == [[0, 2, 2], [1, 1, 2]]


def test_what_is_reached_where_steps_are_alike() -> None:
    """Where a policy that plays everything comes to."""
    mdp = conrl.envs.mars_rover(rock_reward=1.0)
    table = np.repeat(mdp.available[None] / mdp.available.sum(axis=1, keepdims=True), mdp.horizon, axis=0)
    visits = conrl.Policy(table).occupation(mdp).sum(axis=2)
    np.testing.assert_array_equal(mdp.reached, visits > 0.0)
