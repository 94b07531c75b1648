"""What a log says about a policy: intervals, and the probability that limits hold (`conrl.assess`).

Two answers that have little in common stand side by side. One is from the posterior over models (`Posterior`): the
policy is valued in some hundred models that the log leaves possible. The other weighs the log's own episodes
(`conrl.estimation.importance`) and knows no model.

Both are for policies that were fixed before the log was drawn. A policy that was planned from the same log looks
better in it than it is: plan on one part and assess on the other (`Log.split`), or plan with `confidence`, which takes
it into account.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conrl._types import Float
from conrl.arguments import is_number, read_count, read_flag, read_seed
from conrl.episode import Episode
from conrl.errors import ModelError, SpecError, shown, unknown
from conrl.estimation.deviations import deviations
from conrl.estimation.ensemble import Ensemble
from conrl.estimation.ensemble import played as pairs_of
from conrl.estimation.estimate import as_log, estimate
from conrl.estimation.given_policies import Given, aligned, checked, named, read_given, started
from conrl.estimation.importance import Importance, importance, shares
from conrl.estimation.logs import Log
from conrl.estimation.needs import Need, ranked
from conrl.estimation.posterior import Posterior
from conrl.evaluation import Evaluation
from conrl.model import ConstrainedMDP
from conrl.model.limits import Limits, resolve_limits
from conrl.model.mdp import need_model
from conrl.notebook import Columns, Display, Displayed, Framed, Plotted
from conrl.planners import Plan
from conrl.planners.basis import FEW_VISITS, Basis, leaning
from conrl.policy import Policy
from conrl.problem import Linear, Rows, as_problem
from conrl.wording import line, listed, short

MOST_DRAWS = 100_000
FIXED = "the intervals are for a policy that was fixed before the log was drawn"
PLANNED = (
    "the policy was planned from this very log, and looks better in it than it is: plan on one part and assess on the "
    "other (log.split), or plan with confidence"
)
SOME_LOG = (
    "the intervals are for a policy that was fixed before the log was drawn; this one was planned from a log, and if "
    "that is this log, it looks better here than it is"
)
SURE = (
    "the policy was planned from this very log with confidence: its plan says how surely it keeps the limits, with "
    "what choosing from the log does to it taken into account; these intervals do not"
)


class Covered(NamedTuple):
    """How well the log covers what the policy does in one state."""

    state: str
    visits: float  # expected in an episode of the policy
    steps: int  # of the log
    seldom: float  # share of the policy's steps there whose pair was seen fewer than FEW_VISITS times
    unseen: float  # and never


class Kept(NamedTuple):
    """How likely a limit or a floor holds."""

    name: str
    probability: float


@dataclass(frozen=True, eq=False, repr=False)
class Assessment(Displayed, Framed, Plotted):
    """What a log says about a policy.

    `mean`, `low` and `high` are expectations of an episode and the ends of their intervals, at `level`; `draws` [n,
    1+d] are the values in the models behind them. `limits` has the probability that each limit and floor holds,
    `probability` that all do. `basis` says what it rests on, `coverage` state by state, those visited most first.
    `importance` is the other answer, from the log's own episodes, where these were given. `needs` are the pairs of
    which more data would help most, about the limit that is least sure, or about the reward.

    As a data frame: `total` ("reward", or the name of a cost), `mean`, `low` and `high`.
    """

    cost_names: tuple[str, ...]
    level: float
    draws: Float = field(repr=False)  # [n, 1+d]
    limits: tuple[Kept, ...]
    rows: Rows = field(repr=False)  # the same limits and floors, with their costs and bounds
    probability: float  # nan without limits
    episodes: int | None
    basis: Basis
    coverage: tuple[Covered, ...]
    needs: tuple[Need, ...]
    importance: Importance | None
    planned: bool  # from the same log, as far as is known
    sure: bool = False  # planned with confidence
    doubtful: bool = False  # its file says that it was planned from a log, which may be this one

    def __repr__(self) -> str:
        ends = zip(self.mean.names, self.low.value, self.high.value, strict=True)
        text = listed([f"{short(name)} {low:.5g} to {high:.5g}" for name, low, high in ends])
        sure = "" if not self.limits else f"; all limits hold with probability {self.probability:.3f}"
        return line(self, f"{text} at {100 * self.level:g}%{sure}")

    def _columns(self) -> Columns:
        mean, low, high = self.mean, self.low, self.high
        return {"total": mean.names, "mean": mean.value, "low": low.value, "high": high.value}

    def _display(self) -> Display:
        kept = [f"{limit.name} holds with probability {limit.probability:.3f}" for limit in self.limits]
        return Display(f"Assessment, intervals at {100 * self.level:g}%", self._columns(), (*kept, self.message))

    @property
    def mean(self) -> Evaluation:
        """The mean over the drawn models."""
        return Evaluation(self.draws.mean(axis=0), self.cost_names)

    @property
    def low(self) -> Evaluation:
        """The lower ends of the intervals."""
        return Evaluation(np.quantile(self.draws, 0.5 - 0.5 * self.level, axis=0), self.cost_names)

    @property
    def high(self) -> Evaluation:
        """The upper ends."""
        return Evaluation(np.quantile(self.draws, 0.5 + 0.5 * self.level, axis=0), self.cost_names)

    @property
    def message(self) -> str:
        """What it rests on, and how far it can be trusted."""
        planned = SURE if self.sure else PLANNED
        return f"{self.basis}; {planned if self.planned else SOME_LOG if self.doubtful else FIXED}"


def assess(
    policy: Any,
    log: str | Path | Log | Iterable[Episode] | ConstrainedMDP,
    limits: Limits | Linear | None = None,
    *,
    mdp: ConstrainedMDP | None = None,
    level: float = 0.95,
    draws: int = 512,
    seed: int = 0,
    step_dependent: bool = False,
) -> Assessment:
    """What a log says about a policy: intervals for its reward and costs, and how likely limits hold.

    Args:
        policy: a `Policy`, a `Mixture`, a `Plan`, or a file: `.csv` (step, state, action, probability) or `.npz`.
            States and actions are matched by name; where one side has none, by position. It is valued from the first
            state of a plan (or its `.json` file) that has one, else from where the episodes of the log begin.
        log: a file (`load_episodes`), what it gave, or episodes; or a model that `conrl.estimate` made of one, without
            importance sampling then.
        limits: limits (and floors, as a `Linear`) whose probability is asked; by default those of the plan, or of the
            model.
        mdp: the model whose states and actions a `Policy` or `.npz` file numbers: those have no names. It is needed
            where the log has names, or numbers that are names of the model in another order.
        level: of the intervals.
        draws: models drawn from the posterior.
        seed: of the draws.
        step_dependent: estimate each step of the log apart, as `conrl.estimate` does; else all are taken for alike.
    """
    if not is_number(level) or not 0.0 < level < 1.0:
        raise SpecError(f"level is {shown(level)}; it must be between 0 and 1, such as 0.95", key=("level",))
    read_count(draws, "draws", 2, MOST_DRAWS)
    step_dependent = read_flag(step_dependent, "step_dependent")
    seed = read_seed(seed)
    if mdp is not None:
        need_model(mdp, "assess")
    played = read_given(policy, mdp)
    episodes: Sequence[Episode] | None = None
    if isinstance(log, ConstrainedMDP):
        if step_dependent:
            raise SpecError("a model says itself whether it depends on the step; give it to estimate", key=("log",))
        model = log if log.horizon == played.horizon else log.replace(horizon=played.horizon)
    else:
        known = named(as_log(log), played)
        longest = max((len(e) for e in known.episodes), default=1)
        steps = played.horizon if step_dependent else max(played.horizon, longest)
        model = estimate(known, horizon=steps, step_dependent=step_dependent).replace(horizon=played.horizon)
        episodes = [e for e in known.episodes if len(e)]
    model, own = started(model, episodes or (), played)
    posterior = Posterior(model)
    parts = [(weight, aligned(table, played, model)) for weight, table in played.parts]
    rows = _rows(model, limits, played)
    totals, visits = np.zeros((draws, 1 + model.num_costs)), np.zeros(model.num_pairs)
    for weight, table in parts:
        one = checked(table, model)
        pairs = pairs_of(posterior, one)
        values, times = Ensemble(posterior, pairs, draws, seed).play(one)
        totals += (1.0 - played.skip) * weight * values
        visits[pairs] += weight * times
    keeps = rows.kept(totals[:, 1 + rows.cost])
    listed = tuple(Kept(name, float(share)) for name, share in zip(rows.names, keeps.mean(axis=0), strict=True))
    weights = np.array([weight for weight, _ in parts])
    tables = [Policy._trusted(table.copy()) for _, table in parts]
    markov = tables[0] if len(tables) == 1 else tables[0]._markov(weights, tables, model)
    found = deviations(posterior, markov)
    other = None
    if own:
        counts = np.asarray(model.counts)
        behavior = shares(counts.reshape(-1, *counts.shape[-2:]).sum(axis=0), own, played.horizon)
        other = importance(parts, behavior, own, level, seed).scaled(1.0 - played.skip, tuple(model.cost_names))
    least = 1 + int(rows.cost[int(np.argmin(keeps.mean(axis=0)))]) if rows.size else 0
    return Assessment(
        cost_names=model.cost_names,
        level=float(level),
        draws=totals,
        limits=listed,
        rows=rows,
        probability=float(keeps.all(axis=1).mean()) if rows.size else float("nan"),
        episodes=None if episodes is None else len(episodes),
        basis=leaning(model, visits),
        coverage=_coverage(model, visits),
        needs=ranked(model, found, least),
        importance=other,
        planned=_same_data(played.mdp, model),
        sure=isinstance(policy, Plan) and policy.confidence is not None,
        doubtful=played.from_log,
    )


def _rows(model: ConstrainedMDP, limits: Any, played: Given) -> Rows:
    """The limits that are asked about; those of a plan by the names of its costs."""
    asked = as_problem(limits, model.limits)
    if limits is None and played.linear is not None and played.costs is not None:
        theirs = played.costs
        asked = replace(
            played.linear,
            limits=_by_name(played.linear.limits, theirs, model, "limits"),
            floors=_by_name(played.linear.floors, theirs, model, "floors"),
        )
    if not isinstance(asked, Linear) or asked.on_episodes or asked.per_step is not None:
        raise SpecError("assess takes limits and floors on expected totals; give them with limits=", key=("limits",))
    return asked.rows(model)


def _by_name(given: Any, names: tuple[str, ...], model: ConstrainedMDP, what: str) -> dict[str, float] | None:
    """Limits of a plan by the names of its costs; those that the log lacks are refused."""
    if given is None:
        return None
    found = zip(names, resolve_limits(given, names, what).tolist(), strict=True)
    limited = {name: bound for name, bound in found if np.isfinite(bound)}
    missing = next((name for name in limited if name not in model.cost_names), None)
    if missing is not None:
        raise ModelError(unknown("cost of the plan", missing, model.cost_names))
    return limited


def _coverage(model: ConstrainedMDP, used: Float) -> tuple[Covered, ...]:
    """State by state, those that the policy is in most first."""
    assert model._visits is not None
    S, state, visits = model.num_states, model.pair_state, model._visits
    there = np.bincount(state, used, minlength=S)
    steps = np.bincount(state, visits, minlength=S)
    parts = [np.bincount(state, np.where(visits < least, used, 0.0), minlength=S) for least in (FEW_VISITS, 1)]
    some = np.where(there > 0.0, there, 1.0)
    end = -1 if model._log is None else model._log.end
    return tuple(
        Covered(
            model.state_name(s),
            float(there[s]),
            int(steps[s]),
            float(parts[0][s] / some[s]),
            float(parts[1][s] / some[s]),
        )
        for s in np.argsort(-there, kind="stable").tolist()
        if s != end and (there[s] > 0.0 or steps[s] > 0)
    )


def _same_data(mdp: ConstrainedMDP | None, model: ConstrainedMDP) -> bool:
    """Whether a plan's model was estimated from what this one was."""
    if mdp is None or mdp._visits is None or model._visits is None:
        return False
    return mdp is model or np.array_equal(_seen(model), _seen(mdp))


def _seen(mdp: ConstrainedMDP) -> Float:
    """How often what was seen, whatever the order of states, actions and steps."""
    assert mdp._visits is not None
    times = np.rint(mdp.graph.probability * np.repeat(mdp._visits, np.diff(mdp.graph.start).astype(np.int64)))
    rows = np.column_stack((times, mdp.pay_by_outcome))[times > 0.0]
    return np.asarray(rows[np.lexsort(rows.T)])
