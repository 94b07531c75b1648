"""What a planner returns: a policy, its exact value, and how far from the best it can be."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from conrl._types import Arrays, Float
from conrl.arguments import is_int, read_flag
from conrl.errors import ModelError, RunError, SpecError, shown
from conrl.io.files import file_path
from conrl.mixture import Mixture
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Average, Criterion, Total
from conrl.model.limits import resolve_limits
from conrl.model.rows import rows_of
from conrl.notebook import Columns, Display, Displayed, Framed, Plotted
from conrl.planners.basis import Basis, basis, seen_steps
from conrl.policy import Policy
from conrl.policy_file import LEAST_SKIP, file_of
from conrl.problem import Knapsack, Linear, Problem, Rows
from conrl.wording import percent, totals, with_arguments

if TYPE_CHECKING:
    from conrl.planners.sensitivity import Sensitivity

SAME = 1e-9  # of the size of a total: one policy and a mixture that differ by no more have the same value
SUM_ROUNDING = 1e-12  # in proportion to the objective: what its own sum may be off by

MESSAGES = {  # arguments in braces
    "optimal": "the gap is within the tolerance",
    "inaccurate": "rounding stopped progress before the gap fell below the tolerance; the bound is valid all the same. "
    "Raise {tol}, or measure costs in units nearer to 1",
    "approximate": "a heuristic: costs may exceed their limits, and the reward may be short of the optimum",
    "bracketed": "costs of single episodes were rounded to a grid: the plan surely keeps the limits (values of rows "
    "are rounded up), and the bound surely holds. A finer grid closes the gap",
    "undecided": "no plan surely keeps the limits on this grid, and none is proven impossible: refine the grid",
    "infeasible": "no policy keeps the limits; this one exceeds them least",
    "iteration limit": "stopped at the limit on sweeps before the gap fell below the tolerance; the bound is valid all "
    "the same. Raise max_sweeps or {tol}",
    "confident": "the best plan found; no bound on its reward is proven",
    "time limit": "stopped at the time limit; no single deterministic policy does better than the bound, and which is "
    "best is NP-hard to tell. Raise {time_limit} or {tol}",
}


DRAWN_ONCE = "; no stationary policy has this value: the policy is a mixture, of which one is drawn at the start"


class Row(NamedTuple):
    """A limit or a floor, and how a plan keeps it."""

    name: str  # such as "crash <= 0.3"
    value: float  # the expected total, as it was planned: in the best case, where the model carries a bonus
    bound: float
    price: float  # >= 0: the gain per unit, if the bound is loosened a little
    excess: float  # >= 0: by how much the value is above a limit, or below a floor
    allowance: float  # the largest excess that counts as kept (`conrl.planners.allowance`)


class Confidence(NamedTuple):
    """How surely a plan keeps its limits, under what a log leaves open (`conrl.estimation.confident`)."""

    asked: float  # the probability
    probability: float  # share of freshly drawn models in which all limits are kept
    models: int  # how many were drawn
    multiple: float  # of the standard deviations by which the estimates were moved
    shift: Float  # [1+d]: how much worse reward and limited costs are expected to be than where it was planned
    plain: float  # the reward that the estimate promises without caution, from pairs that were seen

    def __str__(self) -> str:
        return (
            f"keeps all limits in {100.0 * self.probability:.1f}% of {self.models:,} models drawn from what the log "
            f"leaves open; {100.0 * self.asked:g}% was asked"
        )


class Checked(NamedTuple):
    """The rows that a plan was checked against, and how it keeps them."""

    rows: Rows
    value: Float  # [R]
    allowance: Float  # [R]

    @property
    def excess(self) -> Float:
        """[R]: by how much each row is exceeded; 0 if it is kept."""
        signed = self.rows.sign * self.rows.bound
        return np.maximum(self.rows.sign * (self.value - signed), 0.0)


def rows_kept(checked: Checked, prices: Float) -> tuple[Row, ...]:
    """Each row with its value, its price and by how much it is exceeded."""
    rows = checked.rows
    columns = (checked.value, rows.sign * rows.bound, prices, checked.excess, checked.allowance)
    return tuple(Row(n, *map(float, row)) for n, row in zip(rows.names, zip(*columns, strict=True), strict=True))


def limited_totals(
    names: Sequence[str], value: Sequence[float], bounds: tuple[Float, Float], prices: tuple[Float, Float]
) -> dict[str, list[Any]]:
    """Columns of a table: the reward, then the costs by name, each with its limit and floor [d] and their prices.

    A bound that is not there, and the price of none, is nan.
    """
    table: dict[str, list[Any]] = {"total": ["reward", *names], "value": [float(x) for x in value]}
    for title, bound, price in zip(("limit", "floor"), bounds, prices, strict=True):
        there = np.isfinite(bound)
        table[title] = [np.nan, *np.where(there, bound, np.nan).tolist()]
        price = price if price.size == bound.size else np.full(bound.size, np.nan)  # of constraints, not of costs
        table["price" if title == "limit" else "floor_price"] = [np.nan, *np.where(there, price, np.nan).tolist()]
    return table


@dataclass(frozen=True, eq=False, repr=False)
class Plan(Displayed, Framed, Plotted):
    """The best policy found, with its certificate.

    `reward` and `costs` are the exact expected totals of `policy` under the mean model, without bonus; `objective`
    is what was maximised (optimistic if the model carries a bonus) and `bound` a proven upper bound on it, so that
    `gap` is the most the plan can fall short of the optimum. `multipliers` >= 0, one for each row (of a `ConcaveConvex`
    problem, for each constraint), prove the bound.

    `prices[i]` >= 0 is the shadow price of limit i: the gain in the best objective per unit, if the limit is loosened a
    little; `floor_prices[i]` the same of floor i, if it is lowered. They belong to the problem and not to the planner,
    and are computed exactly when first read. Of `Knapsack` they are per unit of what one episode may cost; of
    `ConcaveConvex` the multipliers themselves, which at a corner are anything between its two slopes. `sensitivity()`
    tells what tightening costs too, and how far each holds.

    `skip` is the probability of the null action for a whole episode (`Knapsack`): `reward` and `costs` count such
    episodes as zero, `policy` and `mixture` are what is played in the others. `trace`, where the planner keeps one,
    holds its iterations. `start` is everything the planner wants to remember until it plans for a similar model: pass
    it to the next `plan`. `rows` lists every limit and floor with its value and by how much it is exceeded: at most
    rounding, or the status says so. If `deterministic`, the plan is one deterministic policy, its `bound` is on such
    policies only, and its multipliers and prices are those of the best mixture.

    `estimated` says what a plan of an estimated model rests on: its certificate is about that model, not about the
    world. `confidence`, of a plan that was made with `confidence=`, says how surely `policy` keeps the limits.

    As a data frame: `total` ("reward", the name of a cost, then limits on single steps and episodes), `value`, `limit`,
    `price`, `floor`, `floor_price`. The policy itself: `plan.policy.to_frame(plan.mdp)`. As a picture: the policy on
    the model's map or, without a map, as a heat map of states and steps.
    """

    mdp: ConstrainedMDP = field(repr=False)
    problem: Problem = field(repr=False)
    status: str  # a key of MESSAGES
    reward: float
    costs: Float  # [d]
    objective: float
    bound: Any  # a number; None if the planner proves nothing
    multipliers: Float  # [R], or one per constraint function: they prove the bound
    iterations: int  # directions asked of the oracle, or iterations of the solver
    weights: Float  # [n]: of the policies that are mixed
    values: Float = field(repr=False)  # [n, 1+d]: their exact value vectors, without bonus
    make_policy: Callable[[int], Policy] = field(repr=False)
    skip: float = 0.0
    trace: Any = field(default=None, repr=False)
    start: Arrays | None = field(default=None, repr=False)
    checked: Checked | None = field(default=None, repr=False)  # None for concave-convex problems
    confidence: Confidence | None = None
    basis: Basis | None = field(default=None, repr=False)  # where the estimate alone does not tell it
    deterministic: bool = False  # one policy without a lottery; `bound` and `gap` are to the best of such policies
    claimed_by: str | None = None  # the planner that is not ours, whose own claim the bound is
    columns: tuple[Float, Float] | None = field(default=None, repr=False)  # weights [n] and points [n, 1+D] as mixed
    pricing: Any = field(default=None, repr=False)  # computes the prices of rows that are not linear; else None

    def __getstate__(self) -> dict[str, Any]:
        """For worker processes: the policies themselves instead of the way to make them."""
        return {**self.__dict__, "mixture": self.mixture, "make_policy": None}

    def __repr__(self) -> str:
        costs = totals(self.mdp.cost_names, self.costs)
        gap = "" if self.gap is None else f", gap {self.gap:.1e}"
        data = "" if self.mdp._visits is None else f" for a model {seen_steps(self.mdp)}"
        sure = "" if self.confidence is None else f", kept with probability {self.confidence.probability:.3f}"
        return f"Plan(reward {self.reward:.6g}{f', {costs}' if costs else ''}{gap}, {self.status}{data}{sure})"

    def _columns(self) -> Columns:
        names, asked = self.mdp.cost_names, self.linear or Linear()
        bounds = tuple(resolve_limits(getattr(asked, what), names, what) for what in ("limits", "floors"))
        value = (self.reward, *self.costs)
        table = limited_totals(names, value, (bounds[0], bounds[1]), (self.prices, self.floor_prices))
        plain = set(rows_of(bounds[0], bounds[1], names).names)
        more = [(row.name, row.value, row.bound, row.price) for row in self.rows if row.name not in plain]
        if self.linear is None:  # prices are of constraint functions
            more = [(f"constraint {i + 1}", np.nan, np.nan, float(price)) for i, price in enumerate(self.prices)]
        for row in more:
            known = dict(zip(("total", "value", "limit", "price"), row, strict=True))
            for title, column in table.items():
                column.append(known.get(title, np.nan))
        return table

    def _display(self) -> Display:
        gap = "" if self.gap is None else f", gap {self.gap:.1e}"
        skip = (f"skips {100.0 * self.skip:.4g}% of all episodes",) if self.skip else ()
        mixed = (f"a mixture of {self.weights.size} policies",) if self.weights.size > 1 else ()
        return Display(f"Plan: {self.status}{gap}", self._columns(), (*skip, *mixed, self.message))

    @property
    def gap(self) -> Any:
        """bound - objective: the most by which any policy within the limits could do better; None without a bound."""
        return None if self.bound is None else self.bound - self.objective

    @property
    def rows(self) -> tuple[Row, ...]:
        """The limits, then the floors (`Linear`, `Knapsack`): value, bound, price, excess and allowance."""
        return () if self.checked is None else rows_kept(self.checked, self._row_prices)

    @property
    def prices(self) -> Float:
        """[d]: the shadow price of each limit; of a `ConcaveConvex` problem, the multiplier of each constraint."""
        return self._row_prices if self.checked is None else self._by_cost(self._row_prices)[0]

    @property
    def floor_prices(self) -> Float:
        """[d]: the shadow price of each floor."""
        return self._by_cost(self._row_prices)[1]

    @property
    def cost_multipliers(self) -> tuple[Float, Float]:
        """[d] each: the multipliers of the limits and of the floors."""
        return self._by_cost(self.multipliers)

    @cached_property
    def _row_prices(self) -> Float:
        """[R]: the gain in the best objective per unit of each row, loosened a little."""
        if self.checked is None:
            return self.multipliers
        from conrl.planners.sensitivity import pricing_of  # above this layer: it plans

        prices: Float = pricing_of(self).prices()
        return prices

    def sensitivity(self, threads: int | None = None) -> Sensitivity:
        """What loosening and tightening each limit and floor would change, how far that holds, and what one whole unit
        more is worth. `threads` as in `conrl.plan`."""
        from conrl.planners.sensitivity import pricing_of  # above this layer: it plans

        found: Sensitivity = pricing_of(self, threads).sensitivity()
        return found

    def _by_cost(self, of_rows: Float) -> tuple[Float, Float]:
        """[d] each: what rows [R] have, by the cost of limits and of floors; 0 where there is none."""
        d = self.mdp.num_costs
        if self.checked is None:
            return np.zeros(d), np.zeros(d)
        rows = self.checked.rows  # those of single steps and episodes are on further costs
        limits, floors = split_prices(rows, of_rows, max(rows.cost.tolist(), default=-1) + 1 + d)
        return limits[:d], floors[:d]

    def of(self, mdp: ConstrainedMDP) -> Plan:
        """The plan as one of `mdp`, where it was made in a model with more costs than it asks about."""
        if mdp is self.mdp:
            return self
        d = mdp.num_costs
        return replace(
            self,
            mdp=mdp,
            costs=self.costs[:d],
            values=self.values[:, : 1 + d],
        )

    @property
    def linear(self) -> Linear | None:
        """The limits of one episode, for problems that are linear."""
        if isinstance(self.problem, Knapsack):
            return self.problem.linear(self.mdp)
        return self.problem if isinstance(self.problem, Linear) else None

    @property
    def message(self) -> str:
        """What the status means and, where something is wrong, the remedy."""
        may_mix = isinstance(self.mdp.horizon, (Average, Total)) and self.weights.size > 1
        text = with_arguments(MESSAGES[self.status])
        text += DRAWN_ONCE if may_mix and isinstance(self.policy, Mixture) else ""
        if self.claimed_by is not None and self.bound is not None:
            text += f"; the bound is what planner {self.claimed_by!r} claims, and not proven"
        text += "" if self.confidence is None else f". It {self.confidence}"
        return text if self.estimated is None else f"{text}; for a model {self.estimated}"

    @cached_property
    def estimated(self) -> Basis | None:
        """What the plan rests on, where the model was estimated; else None."""
        if self.mdp._visits is None or self.basis is not None:
            return self.basis
        return basis(self.mdp, zip(self.weights.tolist(), self.mixture.policies, strict=True))

    @cached_property
    def mixture(self) -> Mixture:
        """Weights, policies and their value vectors; from column generation at most d+1 (d+2 for
        `ConcaveConvex`), all deterministic."""
        return Mixture._known(self.weights, [self.make_policy(i) for i in range(self.weights.size)], self.values)

    def component(self, i: int) -> Policy:
        """One of the policies that are mixed, without making the others."""
        if not is_int(i) or not 0 <= i < self.weights.size:
            raise SpecError(f"i is {shown(i)}; the plan mixes the policies 0..{self.weights.size - 1}")
        made = self.__dict__.get("mixture")
        return made.policies[i] if made is not None else self.make_policy(i)

    @cached_property
    def policy(self) -> Any:
        """One Markov policy with the value of the mixture in this model; a `Stationary` one if that has no horizon.

        With `Average()` or `Total()` there may be none: half of the time forever in one place and half in another is
        no stationary policy. Then it is the `mixture` itself, of which one policy is drawn at the start, and `message`
        says so.
        """
        one = self.mixture.to_markov(self.mdp)
        if not isinstance(self.mdp.horizon, Criterion) or self.weights.size == 1:
            return one
        return one if self._same_value(one) else self.mixture

    def save(self, path: str | Path, mixture: bool = False) -> None:
        """Write the policy, as `.json` for a running system (`conrl.policy_file`), or as a table, `.csv` or `.npz`.

        With `mixture`, JSON has the policies that are mixed, of which one is drawn for each episode, and not the one
        Markov policy with the same value.
        """
        path = file_path(path)
        read_flag(mixture, "mixture")
        if path.suffix == ".json":
            file_of(self, mixture).save(path)
        elif mixture or isinstance(self.policy, Mixture):
            raise ModelError(f"{path}: several policies, of which one is drawn at the start, are written as .json")
        elif self.skip > LEAST_SKIP:
            raise ModelError(
                f"{path}: {percent(self.skip)} of all episodes are skipped, which no table says; write .json"
            )
        else:
            self.policy.save(path, self.mdp)

    def to_html(self, path: str | Path | None = None) -> str:
        """A page with a slider for every limit, open at those of the plan (`conrl.explore`); written, if there is a
        path."""
        from conrl.explorer import to_html  # above this layer: the plan hands itself on

        return to_html(self, path)

    def _same_value(self, one: Policy) -> bool:
        """Whether a policy's own value is that of the mixture to within rounding, and keeps the rows as that does."""
        rho = np.zeros((1, self.mdp.num_pairs))
        try:
            one.add_occupation(self.mdp, 1.0, rho)
        except (ModelError, RunError):  # it is paid forever, or for too long
            return False
        value, sizes = rho[0] @ self.mdp.pay, rho[0] @ np.abs(self.mdp.pay)
        mixed = self.weights @ self.values
        # In proportion to what it and the mixture pay; what others would is no measure.
        size = np.maximum(sizes, self.weights @ np.abs(self.values))
        if not (np.abs(value - mixed) <= SAME * size).all():
            return False
        if self.checked is None or self.mdp.bonus is not None:
            return True
        rows = self.checked.rows
        over = rows.sign * value[1 + rows.cost] - rows.bound
        before = rows.sign * self.checked.value - rows.bound
        return bool((over <= np.maximum(before, self.checked.allowance)).all())


def check_arrays(given: Any, what: str) -> None:
    """Refuse anything but a mapping from names to arrays of plain values: only that can be saved."""
    if not isinstance(given, Mapping) or not all(
        isinstance(name, str) and isinstance(array, np.ndarray) and not array.dtype.hasobject
        for name, array in given.items()
    ):
        raise SpecError(f"{what} is {shown(given)}; it must be None or a mapping from names to numpy arrays")


def tolerance_of(tol: float, objective: float, largest: float) -> float:
    """What is allowed between a bound and the objective: `tol` x max(1, |objective|), and at most `tol` x `largest`.

    Totals are at most that large: rewards of 1e-6 are not planned to 1e-9.
    """
    return tol * min(max(1.0, abs(objective)), largest)


def certify(bound: float, objective: float, tolerance: float, bought: float) -> tuple[float, bool]:
    """The bound to report, and whether it proves the objective to within `tolerance`.

    An objective that keeps its limits lies above the bound only by what exceeding them within their allowance can buy
    (`bought`: multipliers times allowances) and by rounding; then the bound is raised to it. If it lies further above,
    it was bought by breaking a limit, and nothing is proven.
    """
    over = objective - bound
    if not np.isfinite(objective) or over > tolerance + SUM_ROUNDING * abs(objective) + bought:
        return bound, False
    return max(bound, objective), -over <= tolerance


def split_prices(rows: Rows, multipliers: Float, num_costs: int) -> tuple[Float, Float]:
    """Multipliers of rows as prices [d] of limits and of floors."""
    prices = np.zeros(num_costs), np.zeros(num_costs)
    for i, sign, multiplier in zip(rows.cost.tolist(), rows.sign.tolist(), multipliers.tolist(), strict=True):
        prices[sign < 0.0][i] = multiplier
    return prices
