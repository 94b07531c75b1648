"""Plans that keep their limits with a stated probability under what a log leaves open.

A plan is made in a careful model (`conrl.estimation.cautious`) by the ordinary planner, and valued in models drawn
from the posterior. The share of these in which it keeps all limits is its probability. The multiple of the caution is
the least for which that is what was asked, found by doubling and bisection; m = 1 has no meaning of its own.

Two things would make that share too good:

- *Planned from the same log.* A plan looks better in the model that it was made in than it is, as luck in the log is
  what it looks for. By how much is measured by leaving out: another plan is made by the same rule from half of the
  visits of each pair, and the others say what it is worth. They are independent of it, and right on average, whatever
  the world is. The mean over RULES halves, less the same for the plan at hand, is added to the plan's costs before
  limits are judged, but for what the next point adds to them already. A plan from half of the visits is chosen by more
  luck than one from all of them, which errs on the careful side.
- *Risks that the log has not shown yet.* A pair that never had an accident, or seldom, has had fewer by luck, and is
  liked for it; in no part of the log would it have more. So each pair has DOUBT visits of an accident more (as in
  Jeffreys' prior, which has half a one), shared with those that it had (`Posterior`).

What is returned is verified on fresh draws, with other seeds than the search had. If these say less than was asked,
the multiple grows, and fresh ones are drawn again. The probability is that of the Markov policy `plan.policy`; it is
about the posterior, and the posterior is about the log: not about what no log can show (`docs/how-to/logged-data.md`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from conrl._types import Arrays, Float
from conrl.arguments import is_number, read_flag, read_seed
from conrl.errors import InfeasibleError, SpecError, shown
from conrl.estimation.cautious import KEPT, Cautious
from conrl.estimation.deviations import deviations
from conrl.estimation.ensemble import Ensemble, drawn_totals, played
from conrl.estimation.needs import ranked
from conrl.estimation.posterior import Posterior
from conrl.model import ConstrainedMDP
from conrl.planners import ColumnGeneration, Plan
from conrl.planners.basis import Basis, leaning
from conrl.planners.result import Checked, Confidence
from conrl.planners.sensitivity import LinearPricing, pricing_of
from conrl.planners.slack import feasibility
from conrl.policy import Policy
from conrl.problem import Linear, Problem, Rows

SEARCH = 384  # models of the search
FRESH = 1024  # and, at least, of the verification
BEYOND = 25  # and so many in which a plan may fail
RULES = 32  # halves of the visits from which another plan is made
FIRST, LARGEST = 0.125, 64.0  # multiples tried
HALVINGS = 4
GROWTH, TRIES = 1.15, 10  # of the multiple, where fresh draws say less than was asked
MOST_KEPT = 20_000_000  # numbers of the models of the search that are kept in memory
TOLERANCE = 1e-7  # of plans that are judged by drawn models
SURE = 0.999  # the most that can be asked

Report = Callable[[str], None]


@dataclass(frozen=True, eq=False)
class Candidate:
    """A plan for one multiple."""

    multiple: float
    caution: Float  # [P, 1+R]
    plan: Plan  # in the careful model
    policy: Policy  # the Markov form, in that model


class Verified(NamedTuple):
    """What fresh draws say of a candidate."""

    candidate: Candidate
    probability: float
    shift: Float  # [1+R]


class Search:
    """What is tried, and how it fares."""

    def __init__(self, cautious: Cautious, asked: float, seed: int, report: Report) -> None:
        self.cautious, self.asked, self.seed, self.report = cautious, asked, seed, report
        self._planner = ColumnGeneration(tol=TOLERANCE)
        posterior, pairs = cautious.posterior, cautious.part.pairs
        pairs = pairs[posterior.come[pairs]]
        room = pairs.size + np.diff(posterior.link_start)[pairs].sum()
        self._models: Ensemble | None = None
        if room * SEARCH <= MOST_KEPT:
            self._models = Ensemble(posterior, pairs, SEARCH, self._seed(0), keep=True)

    def candidate(self, multiple: float, deviation: Float, start: Arrays | None = None) -> Candidate:
        """The best plan for one multiple of the deviations."""
        cautious = self.cautious
        caution = multiple * deviation
        model = cautious.model(cautious.means, caution)
        plan = self._planner.plan(model, cautious.problem, start, relax=True)
        return Candidate(multiple, caution, plan, plan.mixture.to_markov(model))

    def kept(self, one: Candidate, shift: Float | None, fresh: int | None = None) -> float:
        """The share of drawn models in which all rows are kept; `shift` [1+R] is added to what they say.

        The models are those of the search, or new ones with the seed `fresh`."""
        rows, posterior = self.cautious.rows, self.cautious.posterior
        if fresh is not None:
            found = drawn_totals(posterior, one.policy, self.draws, self._seed(fresh))
        elif self._models is not None:
            found = self._models.totals(one.policy)
        else:
            found = drawn_totals(posterior, one.policy, SEARCH, self._seed(0))
        values = found[:, 1:] if shift is None else found[:, 1:] + shift[1:]
        return float(rows.kept(values).all(axis=1).mean())

    def shift(self, one: Candidate, fresh: int = 1) -> Float:
        """[1+R]: how much worse the plans of this rule are in the world than where they are made."""
        cautious, found = self.cautious, []
        for kept, every in cautious.thinned(RULES, self._seed(fresh)):
            model = cautious.model(kept, one.caution)
            other = self._planner.plan(model, cautious.problem, one.plan.start, relax=True).mixture.to_markov(model)
            # Less the same of this plan, which was not chosen by those visits alone: what is left is the choice.
            worse = cautious.value(other, every) - cautious.value(other, kept)
            found.append(worse - cautious.value(one.policy, every) + cautious.value(one.policy, kept))
        # What was left out says 1 / (1 - KEPT) times as much against what was kept as all visits do.
        mean = np.mean(found, axis=0) / (1.0 - KEPT)
        # What is believed is on the careful side of what was seen; that is not to be counted twice.
        mean -= cautious.value(one.policy, cautious.means) - cautious.value(one.policy, cautious.raw)
        return np.asarray(cautious.bad * np.maximum(cautious.bad * mean, 0.0))

    def often(self, one: Candidate, shift: Float | None = None) -> float:
        """How often the models of the search say that it is kept; at most that.

        The shift is measured only if it can still matter: with none, or that of a more careful plan, it is kept."""
        self.report(f"multiple {one.multiple:.3g}")
        share = self.kept(one, shift)
        return share if share < self.asked else min(share, self.kept(one, self.shift(one)))

    def least(self) -> tuple[Candidate, bool]:
        """The candidate with the least multiple that is kept often enough, and True; else that kept most often."""
        posterior = self.cautious.posterior
        one = self.candidate(0.0, np.zeros_like(posterior.means))
        deviation = deviations(posterior, one.policy).deviation
        tried = [(self.often(one), one)]
        multiple = FIRST
        while tried[-1][0] < self.asked and multiple <= LARGEST:
            one = self.candidate(multiple, deviation, one.plan.start)
            tried.append((self.often(one), one))
            multiple *= 2.0
        if tried[-1][0] < self.asked:
            return max(tried, key=lambda pair: pair[0])[1], False
        best = tried[-1][1]
        if best.multiple == 0.0:
            return best, True
        # The deviations are now those of a plan like the one that is looked for.
        low = tried[-2][1].multiple
        deviation, shift = deviations(posterior, best.policy).deviation, self.shift(best)
        for _ in range(HALVINGS):
            one = self.candidate(0.5 * (low + best.multiple), deviation, best.plan.start)
            if self.often(one, shift) >= self.asked:
                best = one
            else:
                low = one.multiple
        return best, True

    def verified(self, one: Candidate, found_one: bool) -> Verified:
        """The candidate, or one with a larger multiple, that fresh draws say is kept often enough; else the best.

        What the search did not find has one try: the best of several would be kept often by luck."""
        deviation = deviations(self.cautious.posterior, one.policy).deviation
        found: list[Verified] = []
        for number in range(TRIES if found_one else 1):
            self.report(f"verifying multiple {one.multiple:.3g}")
            shift = self.shift(one, 2 + 2 * number)  # the search has the seeds 0 and 1
            found.append(Verified(one, self.kept(one, shift, 3 + 2 * number), shift))
            if found[-1].probability >= self.asked:
                return found[-1]
            one = self.candidate(max(GROWTH * one.multiple, FIRST), deviation, one.plan.start)
        return max(found, key=lambda each: each.probability)

    @property
    def draws(self) -> int:
        """How many models a plan is verified on."""
        return max(FRESH, int(np.ceil(BEYOND / (1.0 - self.asked))))

    def _seed(self, number: int) -> int:
        return (self.seed << 8) + number


def plan_confident(
    mdp: ConstrainedMDP,
    problem: Problem,
    confidence: float,
    *,
    unseen: bool = False,
    seed: int = 0,
    report: Report | None = None,
) -> Plan:
    """The best plan found that keeps all limits with probability `confidence` under what the log leaves open.

    Args:
        mdp: what `conrl.estimate` made of a log.
        problem: limits and floors on expected totals.
        confidence: above 0 and at most 0.999.
        unseen: whether pairs that the log never has may be used, as the prior believes of them.
        seed: of the drawn models.
        report: told what is being tried.

    Raises:
        InfeasibleError: no plan was found; `error.needs` are the pairs of which more data would help most.
    """
    rows = _rows(mdp, problem)
    asked = _read_confidence(confidence)
    cautious = Cautious(mdp, rows, read_flag(unseen, "use_unseen"))
    seen = Cautious(mdp, rows, False) if unseen else cautious
    try:
        plain = ColumnGeneration().plan(seen.seen(), problem).reward
    except InfeasibleError:
        if not unseen and not cautious.part.worst.any():  # else there is more than was seen
            raise
        plain = np.nan
    search = Search(cautious, asked, read_seed(seed), report or (lambda text: None))
    best = search.verified(*search.least())
    if best.probability < asked:
        raise _declined(search, best, problem)
    shift = np.zeros(1 + mdp.num_costs)
    shift[0] = best.shift[0]
    order = np.argsort(rows.sign, kind="stable")  # of a cost with both, the limit's
    shift[1 + rows.cost[order]] = best.shift[1:][order]
    sure = Confidence(asked, best.probability, search.draws, best.candidate.multiple, shift, plain)
    return _plan(cautious, problem, best.candidate, sure)


def _plan(cautious: Cautious, problem: Problem, best: Candidate, sure: Confidence) -> Plan:
    """A candidate as a plan of the estimate: one Markov policy, which is what was judged."""
    mdp, rows = cautious.mdp, cautious.rows
    value, rests_on = _value(cautious, best.policy)
    careful = pricing_of(best.plan)  # limits are worth what they are where it was planned
    assert isinstance(careful, LinearPricing)
    return Plan(
        mdp=mdp,
        problem=problem,
        status="confident",
        reward=float(value[0]),
        costs=value[1:],
        objective=float(value[0]),
        bound=None,
        multipliers=best.plan.multipliers,
        iterations=best.plan.iterations,
        weights=np.ones(1),
        values=value[None],
        make_policy=lambda i: best.policy,
        checked=Checked(rows, value[1 + rows.cost], np.zeros(rows.size)),
        pricing=replace(careful, names=rows.names),
        confidence=sure,
        basis=rests_on,
    )


def _value(cautious: Cautious, policy: Policy) -> tuple[Float, Basis]:
    """[1+d]: of a policy in the estimate, and what it rests on there. An estimate knows nothing of pairs never seen:
    where the policy uses some, both are means over drawn models, and costs with a limit those that it was judged by."""
    mdp, rows, used = cautious.mdp, cautious.rows, np.zeros((1, cautious.mdp.num_pairs))
    policy.add_occupation(mdp, 1.0, used)
    if not used[0, ~cautious.posterior.seen].any():
        return np.asarray(used[0] @ mdp.pay), leaning(mdp, used[0])
    pairs = played(cautious.posterior, policy)
    totals, visits = Ensemble(Posterior(mdp), pairs, FRESH, 0).play(policy)
    value = np.asarray(totals.mean(axis=0))
    judged = Ensemble(cautious.posterior, pairs, FRESH, 0).totals(policy).mean(axis=0)
    order = np.argsort(rows.sign, kind="stable")  # of a cost with both, the limit's
    value[1 + rows.cost[order]] = judged[1:][order]
    used[0] = 0.0
    used[0, pairs] = visits
    return value, leaning(mdp, used[0])


def _declined(search: Search, best: Verified, problem: Problem) -> InfeasibleError:
    """Why there is no plan, and what would help."""
    cautious = search.cautious
    found = deviations(cautious.posterior, best.candidate.policy)
    mean, sd = found.value[1:], np.sqrt(((found.visits[:, None] * found.deviation) ** 2).sum(axis=0))[1:]
    rows = cautious.rows
    room = rows.bound - rows.sign * mean
    unsure = sd > 0.0
    tight = np.where(unsure, room / np.where(unsure, sd, 1.0), np.where(rows.kept(mean), np.inf, -np.inf))
    # What is taken to pay the worst is not known at all: in the ranking it counts as what is believed of any pair.
    open_ = deviations(Posterior(cautious.mdp, np.append(0, 1 + rows.cost)), best.candidate.policy)
    column = 1 + int(np.argmin(tight))
    needs = ranked(cautious.mdp, open_, column) or ranked(cautious.mdp, found, column)
    listed = ". More data would help most about " + ", ".join(map(str, needs[:3])) if needs else ""
    names = " and ".join(rows.names)
    return InfeasibleError(
        f"the log does not support {names} with probability {search.asked:g}: the best plan found has "
        f"{best.probability:.3f}{listed}",
        feasibility(cautious.seen(), problem),  # type: ignore[arg-type]
        needs,
    )


def _rows(mdp: ConstrainedMDP, problem: Problem) -> Rows:
    """The limits and floors on expected totals; others are refused."""
    if not isinstance(problem, Linear) or problem.on_episodes or problem.per_step is not None:
        raise SpecError(
            "confidence goes with limits and floors on expected totals; leave the others out, or plan without "
            "confidence and look at conrl.assess",
            key=("confidence",),
        )
    _, rows = problem.bind(mdp)
    if not rows.size:
        raise SpecError("confidence is about limits, and there are none; give some", key=("confidence",))
    return rows


def _read_confidence(confidence: Any) -> float:
    if not is_number(confidence) or not 0.0 < confidence <= SURE:
        raise SpecError(
            f"confidence is {shown(confidence)}; it must be a probability above 0 and at most {SURE}, such as 0.95",
            key=("confidence",),
        )
    return float(confidence)
