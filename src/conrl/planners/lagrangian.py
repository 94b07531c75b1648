"""LagrConPlanner: projected gradient descent on the multipliers of the limits.

Algorithm 2 (Appendix E.1) of Brantley et al. (2020). With rows G z <= h on the value vector z (`conrl.problem.Rows`:
a floor is a row too) and multipliers lambda_1 = 0, for n = 1..N

    z_n         = the value of a policy pi_n that maximises z_0 - lambda_n.G z     (best response, the oracle's answer)
    lambda_n+1  = max(0, lambda_n + step_n (G z_n - h))                            (projected gradient)

and what is returned is the mixture that draws one of pi_1..pi_N with equal chance. step_n is `step`, as in the paper,
or step / sqrt(n) with `decay` (Zinkevich 2003), whose mixture converges to the optimum; with a constant step it stalls
near it. Letters: d costs, R rows, N iterations.

Differences from the printed algorithm:

- The sign: multipliers here are >= 0 as prices are; the paper's are <= 0. Its pseudo-reward also subtracts the
  constant lambda.xi, which no policy can change.
- A bonus: pi_n and z_n are those of the optimistic set. That is r + b and c - b as printed (c + b over a floor), also
  at lambda = 0. A cost with both a limit and a floor has one value within its interval, not two: it moves for the row
  whose multiplier is larger, and stays in the middle where they are equal.
- `keep_multipliers=True, returns="average-multiplier"` is what the program behind the paper's figures does: a planning
  call starts where the last one ended, and returns the best response to the mean of lambda_1..lambda_N. That is one
  deterministic policy; where a limit binds, the optimum is a mixture, so this does not converge to it. With `decay`
  the count n goes on from call to call as well: k calls of N iterations on one model walk the path of one call of k N.

With an exact oracle every iteration proves an upper bound on the best reward within the limits (weak duality),

    bound(lambda) = max_z [z_0 - lambda.(G z - h)] = support(1, -G'lambda) + lambda.h

and the plan's `bound` is the least of them; its `multipliers` are those that prove it. With a Responder nothing is
proven: `bound` is None and the multipliers are the average ones. The plan's `prices` are those of the problem, found by
an exact oracle when they are read.

Nothing here promises to keep the limits: the status is "approximate", and `objective` may exceed `bound` (a negative
gap) where the costs exceed the limits. Infeasible limits raise no InfeasibleError: the multipliers of the conflict grow
from iteration to iteration without end, and the dual bounds fall without end. `conrl.feasibility` tells.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np

from conrl._types import Array, Arrays, Float
from conrl.arguments import held, read_choice, read_count, read_flag, read_positive
from conrl.errors import RunError, SpecError, unknown
from conrl.model import ConstrainedMDP
from conrl.oracles import A2C, Responder, Support, SupportOracle, exact_oracle
from conrl.oracles.a2c import Fictitious
from conrl.oracles.protocols import ModelOracle, Trained, Trainer
from conrl.planners.allowance import Allowance
from conrl.planners.result import Checked, Plan, check_arrays
from conrl.policy import Policy
from conrl.problem import Linear, Problem, Rows

Oracle = SupportOracle | Responder
ORACLES: dict[str, Callable[[], Any]] = {"value-iteration": lambda: exact_oracle, "a2c": A2C}
ORACLE = "oracle_"  # begins the names of what the oracle has learned, in a start
KEPT = {"multipliers", "cost", "sign", "iterations"}  # the others
MOST_ITERATIONS = 2**31 - 1  # a trace has a row for each
RETURNS = ("mixture", "average-multiplier")

# Stands for a multiplier of 0 where there is a bonus: the cost then moves in favour of its row, as printed, and the
# policy is the same.
NEXT_TO_ZERO = 1e-300


@dataclass(frozen=True)
class Trace:
    """Every iteration of a descent. Values are what the multipliers saw: optimistic where the model has a bonus."""

    rows: Rows
    multipliers: Float  # [N, R]: lambda_n, that pi_n answers
    values: Float  # [N, 1+d]: z_n
    dual_bounds: Float | None  # [N]: bound(lambda_n); None with a Responder

    @property
    def average_reward(self) -> Float:
        """[N]: reward of the mixture of the first n policies."""
        return _running_mean(self.values[:, 0])

    @property
    def average_costs(self) -> Float:
        """[N, d]: its costs."""
        return _running_mean(self.values[:, 1:])

    @property
    def average_multipliers(self) -> Float:
        """[N, R]: mean of the first n multipliers."""
        return _running_mean(self.multipliers)

    @property
    def excess(self) -> Float:
        """[N, R]: by how much the mixture of the first n policies exceeds each row; negative if it keeps it."""
        used: Float = self.average_costs[:, self.rows.cost] * self.rows.sign - self.rows.bound
        return used

    @property
    def best_bound(self) -> Float | None:
        """[N]: the least dual bound of the first n."""
        return None if self.dual_bounds is None else np.minimum.accumulate(self.dual_bounds)


@dataclass(frozen=True)
class Lagrangian:
    """Plan by descent on the multipliers: the paper's LagrConPlanner. Approximate; `ColumnGeneration` is exact.

    Args:
        iterations: multiplier steps of one planning call.
        step: their size, in multiplier per unit of excess cost.
        decay: step / sqrt(n) instead of a constant step.
        oracle: who answers a direction: `"value-iteration"` (exact), `"a2c"` (a network, approximately), a
            `SupportOracle` or `Responder` of the model that is planned, a callable that makes one from a model, or a
            `Trainer`, whose responders learn from call to call: that is in the plan's `start` as well.
        keep_multipliers: put the multipliers into the plan's `start`, so that the next call with it goes on from them.
        returns: `"mixture"` of all iterations' policies, or the policy that answers the `"average-multiplier"`.

    The plan's `trace` is a `Trace`.
    """

    iterations: int = 10
    step: float = 0.2
    decay: bool = False
    oracle: str | Oracle | Trainer | Callable[[ConstrainedMDP], Oracle] = "value-iteration"
    keep_multipliers: bool = False
    returns: str = "mixture"
    name = "lagrangian"
    problems = (Linear,)

    def __post_init__(self) -> None:
        read_count(self.iterations, "iterations", most=MOST_ITERATIONS)
        read_flag(self.decay, "decay")
        read_flag(self.keep_multipliers, "keep_multipliers")
        read_positive(self.step, "step")
        read_choice(self.returns, "returns", RETURNS)
        if isinstance(self.oracle, str):
            if self.oracle not in ORACLES:
                raise SpecError(unknown("oracle", self.oracle, ORACLES))
            ORACLES[self.oracle]()  # says what is missing, where something is
        elif not callable(self.oracle) and not isinstance(self.oracle, (SupportOracle, Responder, Trainer)):
            raise SpecError(
                f"oracle is a {type(self.oracle).__name__}; it must be a name, have support(w) or respond(w), "
                "or make such an object from a model"
            )

    def plan(self, mdp: ConstrainedMDP, problem: Problem, start: Arrays | None = None, relax: bool = False) -> Plan:
        """Descend from `start`, or from multipliers of 0, and mix or average what was met on the way.

        Limits that cannot be kept raise nothing, with or without `relax`. `start` is used where it is of limits on the
        same costs; its multipliers are left out otherwise, and what the oracle has learned is used all the same.
        """
        if not isinstance(problem, Linear):
            raise SpecError(f"the planner 'lagrangian' needs a Linear problem, not {type(problem).__name__}")
        model, rows = problem.bind(mdp)
        multipliers, done, learned = self._recall(start, rows)
        oracle = _Answerer(model, rows, self._oracle(model, learned))
        columns, counts, trace, end = _descend(oracle, multipliers, self._steps(done))
        average = trace.multipliers.mean(axis=0)
        tried, bounds = trace.multipliers, trace.dual_bounds
        if self.returns == "average-multiplier":
            columns, counts = [oracle.last(average)], [1]
            if bounds is not None:
                tried = np.vstack((tried, average))
                bounds = np.append(bounds, columns[0].value + float(average @ rows.bound))
        best = average if bounds is None else tried[bounds.argmin()]
        allowance = Allowance(oracle.exact or exact_oracle(model), rows)
        bound = None
        if bounds is not None:
            bound = float(bounds.min()) + allowance.outward(np.eye(1 + model.num_costs)[0], best, np.inf)
        weights = np.array(counts) / sum(counts)
        means = np.array([c.mean for c in columns])
        value = weights @ means
        used = (weights @ np.array([c.point for c in columns]))[1 + rows.cost]
        return Plan(
            mdp=model,
            problem=problem,
            status="approximate",
            reward=float(value[0]),
            costs=value[1:],
            objective=float(weights @ np.array([c.point[0] for c in columns])),
            bound=bound,
            multipliers=best,
            iterations=self.iterations + (self.returns == "average-multiplier"),
            weights=weights,
            values=means,
            make_policy=lambda i: columns[i].policy,
            trace=trace,
            start=self._remember(rows, end, done + self.iterations, oracle.learned()),
            checked=Checked(rows, used, allowance.stated),
        ).of(mdp)

    def _steps(self, done: int) -> Float:
        n = np.arange(done + 1, done + self.iterations + 1)
        return self.step / np.sqrt(n) if self.decay else np.full(n.size, float(self.step))

    def _oracle(self, mdp: ConstrainedMDP, learned: Arrays | None) -> Oracle:
        """The oracle as given, or made from the model."""
        given = ORACLES[self.oracle]() if isinstance(self.oracle, str) else self.oracle
        if isinstance(given, Trainer) and not isinstance(given, type):
            return given.resume(mdp, learned)
        if learned is not None:
            raise RunError("start holds what an oracle has learned, and this planner's oracle learns nothing")
        if isinstance(given, type) or not isinstance(given, (SupportOracle, Responder)):
            try:
                given = given(mdp)
            except TypeError as error:
                raise SpecError(f"oracle {given!r} makes none from a model: {error}") from error
        if not isinstance(given, (SupportOracle, Responder)):
            raise SpecError(f"the oracle made a {type(given).__name__}; it must have support(w) or respond(w)")
        if isinstance(given, (ModelOracle, Fictitious)) and given.mdp is not mdp:
            raise SpecError("the oracle is of another model; pass what makes one from a model, such as its class")
        return given

    # -- what is kept between calls -----------------------------------------------------------------------

    def _recall(self, start: Arrays | None, rows: Rows) -> tuple[Float, int, Arrays | None]:
        """[R]: where to start; how many iterations were done before; and what the oracle has learned."""
        if start is None:
            return np.zeros(rows.size), 0, None
        check_arrays(start, "start")
        learned = {name.removeprefix(ORACLE): array for name, array in start.items() if name.startswith(ORACLE)} or None
        kept = {name: array for name, array in start.items() if not name.startswith(ORACLE)}
        if kept.keys() != (KEPT if self.keep_multipliers else set()):
            raise RunError(
                f"start is not that of a Lagrangian planner with keep_multipliers={self.keep_multipliers}: "
                f"it holds {', '.join(sorted(kept)) or 'no multipliers'}"
            )
        if kept and not _sensible(**kept):
            raise RunError("start is not that of a Lagrangian planner: its multipliers make no sense")
        if not kept or not rows.same_costs(kept["cost"], kept["sign"]):
            return np.zeros(rows.size), 0, learned
        return kept["multipliers"], int(kept["iterations"]), learned

    def _remember(self, rows: Rows, multipliers: Float, iterations: int, learned: Arrays) -> Arrays | None:
        """What the next call may start from; None if there is nothing to remember."""
        start = {f"{ORACLE}{name}": array for name, array in learned.items()}
        if self.keep_multipliers:
            start |= {"multipliers": multipliers, "cost": rows.cost, "sign": rows.sign}
            start["iterations"] = np.array(iterations)
        return held(start) or None


def _sensible(multipliers: Array, cost: Array, sign: Array, iterations: Array) -> bool:
    """Whether these can be what a plan remembered."""
    return (
        multipliers.ndim == 1
        and multipliers.shape == cost.shape == sign.shape
        and iterations.shape == ()
        and all(x.dtype.kind in "fiu" and np.isfinite(x).all() for x in (multipliers, cost, sign, iterations))
        and bool((multipliers >= 0.0).all())
    )


class _Answerer:
    """An oracle of either kind, asked for the best response to multipliers [R] of some rows."""

    def __init__(self, mdp: ConstrainedMDP, rows: Rows, oracle: Oracle) -> None:
        self.mdp = mdp
        self.rows, self.G = rows, rows.matrix(mdp.num_costs)
        self.oracle = oracle
        self.exact = oracle if isinstance(oracle, SupportOracle) else None

    def ask(self, multipliers: Float) -> tuple[Hashable, Support]:
        """The answer, and what makes another the same: its point if it is exact, else the policy itself."""
        w = self._direction(multipliers)
        if self.exact is not None:
            answer = self.exact.support(w)
            return answer.point.tobytes(), answer
        policy = cast(Responder, self.oracle).respond(w)  # it is one or the other
        return policy, self._valued(policy, w)

    def last(self, multipliers: Float) -> Support:
        """The answer to the last question, for which an oracle that learns trains longer."""
        if not isinstance(self.oracle, Trained):
            return self.ask(multipliers)[1]
        w = self._direction(multipliers)
        return self._valued(self.oracle.finish(w), w)

    def learned(self) -> Arrays:
        return self.oracle.learned() if isinstance(self.oracle, Trained) else {}

    def _direction(self, multipliers: Float) -> Float:
        """(1, -multipliers), by cost."""
        least = 0.0 if self.mdp.bonus is None else NEXT_TO_ZERO
        direction: Float = -np.maximum(multipliers, least) @ self.G
        direction[0] = 1.0
        return direction

    def _valued(self, policy: Policy, w: Float) -> Support:
        """A policy with its exact value vector: its mean, and in the best case within the bonus."""
        visits = np.zeros((1, self.mdp.num_pairs))
        policy.add_occupation(self.mdp, 1.0, visits)
        mean = visits[0] @ self.mdp.pay
        point = mean if self.mdp.bonus is None else mean + np.sign(w) * (visits[0] @ self.mdp.bonus)
        return Support(np.nan, point, mean, lambda: policy)


def _descend(oracle: _Answerer, multipliers: Float, steps: Float) -> tuple[list[Support], list[int], Trace, Float]:
    """Descend: the different answers, how often each was given, every iteration, and the multipliers at the end.

    Equal answers are one, so that 10,000 iterations hold a few dozen policies.
    """
    rows, N = oracle.rows, steps.size
    columns: list[Support] = []
    counts: list[int] = []
    seen: dict[Hashable, int] = {}
    tried, values, supports = np.empty((N, rows.size)), np.empty((N, 1 + oracle.mdp.num_costs)), np.empty(N)
    with np.errstate(over="ignore", invalid="ignore"):
        for n, step in enumerate(steps):
            same, answer = oracle.ask(multipliers)
            index = seen.setdefault(same, len(columns))
            if index == len(columns):
                columns.append(answer)
                counts.append(0)
            counts[index] += 1
            tried[n], values[n], supports[n] = multipliers, answer.point, answer.value
            multipliers = np.maximum(0.0, multipliers + step * (oracle.G @ answer.point - rows.bound))
    if not np.isfinite(multipliers).all() or (oracle.exact is not None and not np.isfinite(supports).all()):
        raise RunError("the multipliers grew beyond the range of numbers; lower step, or the unit of the costs")
    bounds = None if oracle.exact is None else supports + tried @ rows.bound
    return columns, counts, Trace(rows, tried, values, bounds), multipliers


def _running_mean(values: Float) -> Float:
    count = np.arange(1, values.shape[0] + 1).reshape(-1, *(1,) * (values.ndim - 1))
    mean: Float = np.cumsum(values, axis=0) / count
    return mean
