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

and the plan's `bound` is the least of them; its `prices` are the multipliers that prove it. With a Responder nothing is
proven: `bound` is None and the prices are the average multipliers.

Nothing here promises to keep the limits: the status is "approximate", and `objective` may exceed `bound` (a negative
gap) where the costs exceed the limits. Infeasible limits raise no InfeasibleError: the multipliers of the conflict grow
from iteration to iteration without end, and the dual bounds fall without end. `conrl.feasibility` tells.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field
from typing import Any, cast

import numpy as np

from conrl._types import Array, Float
from conrl.arguments import is_number, read_choice, read_count, read_flag
from conrl.errors import RunError, SpecError, shown, unknown
from conrl.model import ConstrainedMDP
from conrl.oracles import A2C, BackwardInduction, Responder, Support, SupportOracle
from conrl.planners.allowance import Allowance
from conrl.planners.result import Checked, Plan, split_prices
from conrl.policy import Policy
from conrl.problem import Linear, Problem, Rows

Oracle = SupportOracle | Responder

ORACLES: dict[str, Callable[[], Any]] = {"value-iteration": lambda: BackwardInduction, "a2c": A2C}
ORACLE = "oracle_"  # begins the names of what the oracle has learned
MOST_ITERATIONS = 2**31 - 1  # a trace has a row for each
RETURNS = ("mixture", "average-multiplier")

# Stands for a multiplier of 0 where there is a bonus: the cost then moves in favour of its row, as printed, and the
# policy is the same.
NEXT_TO_ZERO = 1e-300

Ask = Callable[[Float], tuple[Hashable, Support]]  # direction -> (what makes two answers the same, the answer)


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
        """[N, R]: by how much the mixture of the first n policies exceeds each row; negative is room."""
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
            `SupportOracle` or `Responder` of the model that is planned, or a callable that makes one from a model.
        keep_multipliers: start where the last `plan` of this object ended instead of at 0; see `state` and `reset`.
        returns: `"mixture"` of all iterations' policies, or the policy that answers the `"average-multiplier"`.

    The plan's `trace` is a `Trace`.
    """

    iterations: int = 10
    step: float = 0.2
    decay: bool = False
    oracle: str | Oracle | Callable[[ConstrainedMDP], Oracle] = "value-iteration"
    keep_multipliers: bool = False
    returns: str = "mixture"
    _kept: dict[str, Array] = field(default_factory=dict, init=False, repr=False, compare=False)
    _maker: Any = field(default=None, init=False, repr=False, compare=False)  # of oracles, or one of a fixed model
    name = "lagrangian"
    problems = (Linear,)

    def __post_init__(self) -> None:
        read_count(self.iterations, "iterations", most=MOST_ITERATIONS)
        for name in ("decay", "keep_multipliers"):
            read_flag(getattr(self, name), name)
        if not (is_number(self.step) and self.step > 0.0):
            raise SpecError(f"step is {shown(self.step)}; it must be a positive number")
        read_choice(self.returns, "returns", RETURNS)
        if isinstance(self.oracle, str):
            if self.oracle not in ORACLES:
                raise SpecError(unknown("oracle", self.oracle, ORACLES))
            object.__setattr__(self, "_maker", ORACLES[self.oracle]())
        elif not (callable(self.oracle) or _is_exact(self.oracle) or _is_responder(self.oracle)):
            raise SpecError(
                f"oracle is a {type(self.oracle).__name__}; it must be a name, have support(w) or respond(w), "
                "or make such an object from a model"
            )
        else:
            object.__setattr__(self, "_maker", self.oracle)

    def plan(self, mdp: ConstrainedMDP, problem: Problem) -> Plan:
        if not isinstance(problem, Linear):
            raise SpecError(f"the planner 'lagrangian' needs a Linear problem, not {type(problem).__name__}")
        rows = problem.rows(mdp)
        ask, last, exact = self._oracle(mdp)
        start, done = self._recall(rows)
        descent = _Descent(mdp, rows, ask, exact, self.iterations)
        end = descent.run(start, self._steps(done))
        trace = descent.trace()
        tried, bounds = trace.multipliers, trace.dual_bounds
        average = tried.mean(axis=0)
        columns, counts = descent.columns, descent.counts
        if self.returns == "average-multiplier":
            _, answer = last(descent.direction(average))
            columns, counts = [answer], [1]
            if bounds is not None:
                tried = np.vstack((tried, average))
                bounds = np.append(bounds, answer.value + float(average @ rows.bound))
        if self.keep_multipliers:
            self._remember(rows, end, done + self.iterations)
        multipliers = average if bounds is None else tried[bounds.argmin()]
        prices, floor_prices = split_prices(rows, multipliers, mdp.num_costs)
        allowance = Allowance(BackwardInduction(mdp), rows)
        bound = None
        if bounds is not None:
            bound = float(bounds.min()) + allowance.outward(np.eye(1 + mdp.num_costs)[0], multipliers, np.inf)
        weights = np.array(counts) / sum(counts)
        means = np.array([c.mean for c in columns])
        value = weights @ means
        used = (weights @ np.array([c.point for c in columns]))[1 + rows.cost]
        return Plan(
            mdp=mdp,
            problem=problem,
            status="approximate",
            reward=float(value[0]),
            costs=value[1:],
            objective=float(weights @ np.array([c.point[0] for c in columns])),
            bound=bound,
            prices=prices,
            floor_prices=floor_prices,
            iterations=self.iterations + (self.returns == "average-multiplier"),
            weights=weights,
            values=means,
            make_policy=lambda i: columns[i].policy,
            trace=trace,
            checked=Checked(rows, used, allowance.stated, multipliers),
        )

    def _steps(self, done: int) -> Float:
        n = np.arange(done + 1, done + self.iterations + 1)
        return self.step / np.sqrt(n) if self.decay else np.full(n.size, float(self.step))

    def _oracle(self, mdp: ConstrainedMDP) -> tuple[Ask, Ask, bool]:
        """Who answers, who answers the last question, and whether that is exact."""
        given = self._maker
        ready = not isinstance(given, type) and (_is_exact(given) or _is_responder(given))
        try:
            made = given if ready else given(mdp)
        except TypeError as error:
            raise SpecError(f"oracle {given!r} makes none from a model: {error}") from error
        if getattr(made, "mdp", mdp) is not mdp:
            raise SpecError("the oracle is of another model; pass what makes one from a model, such as its class")
        if _is_exact(made):
            exact = _ask_exact(cast(SupportOracle, made))
            return exact, exact, True
        if _is_responder(made):
            finish = getattr(made, "finish", made.respond)
            return _ask_responder(made.respond, mdp), _ask_responder(finish, mdp), False
        raise SpecError(f"the oracle made a {type(made).__name__}; it must have support(w) or respond(w)")

    # -- what is kept between calls -----------------------------------------------------------------------

    @property
    def multipliers(self) -> Float | None:
        """[R]: where the next call starts (limits, then floors); None: at 0."""
        kept = self._kept.get("multipliers")
        return None if kept is None else kept.copy()

    def reseed(self, seed: int) -> None:
        """Where the randomness of the oracle comes from, if it has any."""
        if hasattr(self._maker, "reseed"):
            self._maker.reseed(seed)

    def reset(self) -> None:
        """Forget the multipliers, and what the oracle has learned."""
        self._kept.clear()
        if hasattr(self._maker, "load_state"):
            self._maker.load_state({})

    def state(self) -> dict[str, Array]:
        """What is kept, as arrays to save; empty before the first call if nothing is."""
        kept = {name: array.copy() for name, array in self._kept.items()}
        learned = self._maker.state() if hasattr(self._maker, "load_state") else {}
        return kept | {f"{ORACLE}{name}": array for name, array in learned.items()}

    def load_state(self, state: Mapping[str, Array]) -> None:
        """Go on from what `state` gave."""
        learned = {name.removeprefix(ORACLE): a for name, a in state.items() if name.startswith(ORACLE)}
        kept = {name: np.array(array) for name, array in state.items() if not name.startswith(ORACLE)}
        if kept and not self.keep_multipliers:
            raise SpecError("this planner keeps no multipliers; make it with keep_multipliers=True")
        if kept and set(kept) != {"multipliers", "cost", "sign", "iterations"}:
            raise SpecError(f"not the state of a Lagrangian planner: it holds {sorted(kept)}")
        if kept:
            m = kept["multipliers"]
            if not m.shape == kept["cost"].shape == kept["sign"].shape or not (np.isfinite(m) & (m >= 0.0)).all():
                raise SpecError("not the state of a Lagrangian planner: its multipliers make no sense")
        if learned and not hasattr(self._maker, "load_state"):
            raise SpecError("this planner's oracle learns nothing; the state is of another")
        self._kept.clear()
        self._kept.update(kept)
        if hasattr(self._maker, "load_state"):
            self._maker.load_state(learned)

    def _recall(self, rows: Rows) -> tuple[Float, int]:
        """Where to start, and how many iterations were done before."""
        if not self._kept:
            return np.zeros(rows.size), 0
        kept = self._kept
        if not (np.array_equal(kept["cost"], rows.cost) and np.array_equal(kept["sign"], rows.sign)):
            raise SpecError("the multipliers kept are those of other limits; call reset() or use another planner")
        return kept["multipliers"], int(kept["iterations"])

    def _remember(self, rows: Rows, multipliers: Float, iterations: int) -> None:
        self._kept.update(
            multipliers=multipliers, cost=rows.cost.copy(), sign=rows.sign.copy(), iterations=np.array(iterations)
        )


class _Descent:
    """One run. Equal answers are one column with a count, so that 10,000 iterations hold a few dozen policies."""

    def __init__(self, mdp: ConstrainedMDP, rows: Rows, ask: Ask, exact: bool, iterations: int) -> None:
        self.rows = rows
        self.G = rows.matrix(mdp.num_costs)
        self.least = 0.0 if mdp.bonus is None else NEXT_TO_ZERO
        self._ask = ask
        self._exact = exact
        self.columns: list[Support] = []
        self.counts: list[int] = []
        self._place: dict[Hashable, int] = {}
        self._multipliers = np.empty((iterations, rows.size))
        self._values = np.empty((iterations, 1 + mdp.num_costs))
        self._supports = np.empty(iterations)

    def direction(self, multipliers: Float) -> Float:
        """(1, -multipliers), by cost."""
        direction: Float = -np.maximum(multipliers, self.least) @ self.G
        direction[0] = 1.0
        return direction

    def run(self, multipliers: Float, steps: Float) -> Float:
        """Descend; the multipliers after the last step."""
        with np.errstate(over="ignore", invalid="ignore"):
            for n, step in enumerate(steps):
                same, answer = self._ask(self.direction(multipliers))
                place = self._place.setdefault(same, len(self.columns))
                if place == len(self.columns):
                    self.columns.append(answer)
                    self.counts.append(0)
                self.counts[place] += 1
                self._multipliers[n], self._values[n], self._supports[n] = multipliers, answer.point, answer.value
                multipliers = np.maximum(0.0, multipliers + step * (self.G @ answer.point - self.rows.bound))
        if not (np.isfinite(multipliers).all() and (np.isfinite(self._supports).all() or not self._exact)):
            raise RunError("the multipliers grew beyond the range of numbers; lower step, or the unit of the costs")
        return multipliers

    def trace(self) -> Trace:
        bounds = self._supports + self._multipliers @ self.rows.bound if self._exact else None
        return Trace(self.rows, self._multipliers, self._values, bounds)


def _ask_exact(oracle: SupportOracle) -> Ask:
    def ask(w: Float) -> tuple[Hashable, Support]:
        answer = oracle.support(w)
        return answer.point.tobytes(), answer

    return ask


def _ask_responder(respond: Callable[[Float], Policy], mdp: ConstrainedMDP) -> Ask:
    """Its policies valued exactly; only one and the same object counts as the same answer."""

    def ask(w: Float) -> tuple[Hashable, Support]:
        policy = respond(w)
        visits = np.zeros((1, mdp.num_pairs))
        policy.add_occupation(mdp, 1.0, visits)
        mean = visits[0] @ mdp.pay
        point = mean if mdp.bonus is None else mean + np.sign(w) * (visits[0] @ mdp.bonus)
        return policy, Support(np.nan, point, mean, lambda: policy)

    return ask


def _is_exact(oracle: object) -> bool:
    return callable(getattr(oracle, "support", None))


def _is_responder(oracle: object) -> bool:
    return callable(getattr(oracle, "respond", None))


def _running_mean(values: Float) -> Float:
    count = np.arange(1, values.shape[0] + 1).reshape(-1, *(1,) * (values.ndim - 1))
    mean: Float = np.cumsum(values, axis=0) / count
    return mean
