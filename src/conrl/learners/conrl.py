"""ConRL: count, add a bonus, plan, play (Algorithm 1 of Brantley et al. 2020).

    episode k:  N_k, p_hat, r_hat, c_hat from what was seen  ->  b_k  ->  pi_k = ConPlanner(p_hat, r_hat, c_hat, b_k)

`conrl.estimation` has the first two, `conrl.planners` the third; the planner is BasicConPlanner,
ConvexConPlanner or KnapsackConPlanner as the problem is `Linear`, `ConcaveConvex` or `Knapsack`. A plan is a mixture;
what is played is its Markov form, one randomized policy with the same value in the estimate, or one component, drawn at
the start of the episode. Whether a `Knapsack` episode is skipped is drawn first. Randomness depends on the seed and the
number of the episode alone, so that a learner that was saved and loaded goes on exactly as it would have.

Caution (a negative bonus) moves the estimate itself: it cannot be part of the optimistic set.
"""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike

from conrl import kernels
from conrl._types import Array, Arrays, Float
from conrl.arguments import read_choice, read_flag, sealed
from conrl.episode import Episode
from conrl.errors import InfeasibleError, ModelWarning, RunError, SpecError, shown
from conrl.estimation.adaptive import AdaptiveBonus
from conrl.estimation.bonuses import BernsteinBonus, Bonus, ScaledBonus, TheoryBonus, bonus_table, by_visits
from conrl.estimation.evidence import Evidence
from conrl.estimation.tally import Tally
from conrl.learners.arrays import group, prefixed
from conrl.learners.base import Proposal
from conrl.learners.budget import Budget, never_room, sum_up
from conrl.learners.replanning import PLAYS, Lottery, ReplanningLearner
from conrl.learners.saving import describe
from conrl.mixture import Mixture
from conrl.model import ConstrainedMDP, Task
from conrl.model.limits import Limits
from conrl.model.mdp import Origin
from conrl.planners import ColumnGeneration, Lagrangian, Plan, Planner, is_ours, planned, read_planner
from conrl.policy import Deterministic, Null, Policy
from conrl.problem import ConcaveConvex, Knapsack, Linear, Problem, Rows
from conrl.sampling import Room, draw

BONUSES: dict[str, Any] = {"adaptive": AdaptiveBonus, "theory": TheoryBonus, "bernstein": BernsteinBonus}
EXECUTES = ("policy", "most-probable")


class ConRL(ReplanningLearner):
    """Optimistic model-based learning under limits: `propose` a policy, play it, `observe` the episode.

    Args:
        task: what is known (`mdp.task`, or `Task`).
        problem: limits (the task's by default), `Linear`, `ConcaveConvex` or `Knapsack`. It can be set later to another
            of its kind, but for budgets, which are settled by the first episode. Of limits on single episodes, chance
            and CVaR are planned for on the estimate; never is kept in fact, by ending an episode (`task.can_stop`).
        preset: `"default"`: the exact planner, optimism about reward by the noise that was seen, and caution about cost
            (`AdaptiveBonus`); `"authors"`: as the program behind the paper's figures, with its step for Mars rover.
        planner: a name or an object, as in `conrl.plan`; overrides the preset. Where no policy of the estimate keeps
            the limits, the one that exceeds them least is played (`relax`).
        bonus: `AdaptiveBonus`, `ScaledBonus`, `BernsteinBonus`, `TheoryBonus`, a name (`"adaptive"`, `"bernstein"`,
            `"theory"`), or a function that gives [P, 1+d] (or [P], the same for reward and costs) for the P pairs of
            states seen, positive for optimism and negative for caution; overrides the preset. It is told (visits [P],
            episode, task), or, if it takes one argument, the `Evidence`. Logged episodes count. For a pair never
            visited, it is clipped so that the result stays inside the task's ranges, unless the bonus has an attribute
            `bounded` that is False. If it has a method `explores(episode)`, the history tells the episodes for which
            that is true: they are planned to learn from, and are no last iterate.
        play: `"markov"`: the Markov form of the plan; `"mixture"`: one of the policies that it mixes, drawn for the
            episode, whose own cost may be above a limit; overrides the preset.
        executes: what is played of a policy that draws its actions, as A2C's does: the `"policy"` itself, or its
            `"most-probable"` action in every state, while the policy is what is reported; overrides the preset.
        replan: plan before each `"episode"`, or when the visits of some pair have doubled (`"doubling"`; not for
            budgets, limits on single episodes and `"most-probable"` actions). A bonus that depends on the number of
            the episode is then asked when it plans only: leave out exploring ones with `AdaptiveBonus(explore=False)`.
        resolve: `Knapsack` only. Plan each episode for what is left, (B - spent) / (K - k + 1), with epsilon = 0,
            instead of for (1 - epsilon) B / K.
        guard: `Knapsack` only. Never exceed a budget (`conrl.learners.budget`).
        seed: of the draws from mixtures; `learn` gives it its own if there is none.
        keep_policies: remember what was executed, for `average_policy`.
    """

    name = "conrl"
    summary = "optimistic model-based learning with an exact planner"
    paper = "Brantley et al. (2020)"
    problems = (Linear, ConcaveConvex, Knapsack)
    single_episodes = True
    # The program behind the paper: a tiny bonus, ten steps of a multiplier that is kept, the answer to its mean is
    # played; of a network's policy the most probable actions are played, and the policy itself is reported.
    presets: ClassVar = {
        "default": {"planner": ColumnGeneration, "bonus": AdaptiveBonus, "executes": "policy", "play": "markov"},
        "authors": {
            "planner": lambda: Lagrangian(10, 0.2, keep_multipliers=True, returns="average-multiplier"),
            "bonus": lambda: ScaledBonus(0.001, 0.001, relative=False, bounded=False),
            "executes": "most-probable",
            "play": "mixture",
        },
    }
    settings = ("preset", "executes", "play", "replan", "resolve", "guard")
    unsaid: ClassVar = {"play": "mixture", "replan": "episode"}

    def __init__(
        self,
        task: Task,
        *,
        problem: Problem | Limits | None = None,
        preset: str = "default",
        planner: str | Planner | None = None,
        bonus: Bonus | str | None = None,
        executes: str | None = None,
        play: str | None = None,
        replan: str = "episode",
        resolve: bool = False,
        guard: bool = True,
        seed: int | None = None,
        keep_policies: bool = True,
    ) -> None:
        """Fill in what the preset says where nothing was given, and open the books of a budget."""
        super().__init__(task, problem, seed, keep_policies)
        self.preset = read_choice(preset, "preset", self.presets)
        usual = self.presets[preset]
        self.planner = read_planner(usual["planner"]() if planner is None else planner, self.problem)
        named = BONUSES[read_choice(bonus, "bonus", BONUSES)] if isinstance(bonus, str) else usual["bonus"]
        self.bonus: Bonus = named() if bonus is None or isinstance(bonus, str) else bonus
        if not callable(self.bonus):
            raise SpecError(
                f"bonus is {shown(bonus)}; it must be AdaptiveBonus, ScaledBonus, BernsteinBonus, TheoryBonus, a name "
                f"({', '.join(BONUSES)}) or a function"
            )
        self._by_visits = by_visits(self.bonus)
        self.executes = read_choice(usual["executes"] if executes is None else executes, "executes", EXECUTES)
        self.play = read_choice(usual["play"] if play is None else play, "play", PLAYS)
        self.resolve, self.guard = read_flag(resolve, "resolve"), read_flag(guard, "guard")
        self._choose_replan(replan)
        if self.replan == "doubling" and self.executes == "most-probable":
            raise SpecError("most-probable actions are played of a plan for each episode", key=("replan",))
        self._null = Null(task.horizon, task.num_states, task.num_actions)
        self._prepare(self.problem, self._rows)
        self._start: Arrays | None = None  # what the plan of the last episode observed left for the next
        self._prices: Float | None = None  # [d]: of that plan, those of floors taken off
        self._plan: Plan | None = None
        self._shown: Float | None = None  # [d]: its prices

    def _change_problem(self, problem: Problem, rows: Rows) -> None:
        kinds = type(self.problem).__name__, type(problem).__name__
        if self._episodes and kinds[0] != kinds[1]:
            raise SpecError(f"a {kinds[0]} problem cannot become a {kinds[1]} one after the first episode")
        if self._episodes and isinstance(problem, Knapsack):
            raise SpecError("budgets cannot be changed after the first episode; make another learner with problem=")
        read_planner(self.planner, problem)
        self._prepare(problem, rows)

    def _prepare(self, problem: Problem, rows: Rows) -> None:
        """Set what follows from the problem: the books of a hard budget, the share held back, the signs of caution."""
        budget: Budget | None = None
        epsilon = 0.0
        if isinstance(problem, Knapsack):
            if self.resolve and problem.epsilon != 0.0:
                raise SpecError(
                    "resolve plans for all that is left, with epsilon = 0; give one of the two", key=("resolve",)
                )
            budget = Budget(self.task, problem.totals(self.task), problem.episodes)
            epsilon = problem.held_back(self.task)
        elif self.resolve or not self.guard:
            name = "resolve" if self.resolve else "guard"
            raise SpecError(f"{name} is for Knapsack problems", key=(name,))
        tails = problem.tails(self.task) if isinstance(problem, Linear) else ()
        if self.replan == "doubling" and (tails or budget is not None):
            raise SpecError("budgets and limits on single episodes are planned for each episode", key=("replan",))
        self._lottery = None
        counted = sorted({tail.cost for tail in tails})
        if tails:
            known = self.counts.tally.costs if self.counts.tally is not None else ()
            if not set(counted) <= set(known):
                if self._episodes or self.primed:
                    raise SpecError(
                        "limits on single episodes need what single outcomes cost, which was not kept so far; make the "
                        "learner with them",
                        key=("problem",),
                    )
                self.counts.tally = Tally(counted)
        self._room = never_room(self.task, tails)
        self.budget = budget
        self._epsilon = epsilon
        self._better = _better(rows, self.task.num_costs)

    def _learn(self, episode: Episode, proposal: Proposal) -> None:
        super()._learn(episode, proposal)
        if self.budget is not None:
            self.budget.spend_episode(episode.costs)
            if self.guard and (over := self.budget.exceeded(episode.costs)):
                told = "may_step was not asked or not heeded" if self.budget.can_stop else "propose was not heeded"
                warnings.warn(f"{over}: {told}", ModelWarning, stacklevel=3)

    def _planned(self) -> None:
        if self._plan is not None:
            self._start = self._plan.start
            if not isinstance(self._problem, ConcaveConvex):
                limits, floors = self._plan.cost_multipliers
                self._prices = limits - floors

    # -- budgets ------------------------------------------------------------------------------------------

    def may_step(self, spent: ArrayLike) -> bool:
        left, worst = self._room
        if left.size and (sum_up(np.asarray(spent, dtype=np.float64), worst) > left).any():
            return False
        return self.budget is None or not self.guard or self.budget.may_step(spent)

    def room(self) -> Room:
        if self.budget is None or not self.guard or not self.budget.can_stop:
            return self._room
        return self.budget.room

    @property
    def prices(self) -> Float | None:
        return self._shown

    # -- deciding -----------------------------------------------------------------------------------------

    def _decide(self) -> Proposal:
        if self.replan == "doubling":
            return super()._decide()
        plan, whole = self._new_plan(), self.play == "markov"
        # Where nothing is left to chance, nothing is drawn: the next episode has draws of its own.
        skip, share = (0.0, 0.0) if whole and plan.skip == 0.0 else self.generator().random(2)
        intended: Policy = self._null
        if skip >= plan.skip:
            part = None if whole else plan.component(int(draw(plan.weights, share)))
            intended = self._played(plan) if part is None else self._of_task(part)
        reported = None
        if self.executes == "most-probable" and not isinstance(intended, (Deterministic, Null)):
            reported, intended = intended, intended.most_probable
        guarded = self.budget is not None and self.guard and not isinstance(intended, Null) and not self.budget.admits()
        played, infeasible = self._null if guarded else intended, plan.status == "infeasible"
        return Proposal(
            played, intended, guarded=guarded, infeasible=infeasible, reported=reported, exploring=self._explores
        )

    def _played(self, plan: Plan) -> Policy:
        """The Markov form of a plan as a policy of the task."""
        parts = [plan.component(i) for i in range(plan.weights.size)]
        certain = all(type(part) is Deterministic for part in parts)
        # In one call, which trusts the actions of a plan: in that of another's planner some may not exist.
        if len(parts) == 1 or not certain or self.task.step_dependent or not is_ours(self.planner):
            return self._of_task(parts[0] if len(parts) == 1 else plan.policy)
        model, counts, H = plan.mdp, self.counts, self.task.horizon
        actions = np.empty((len(parts), counts.horizon, counts.num_seen), dtype=np.int16)
        for i, part in enumerate(parts):
            actions[i] = part.mode
        mixed = *model.graph, model.initial, model.action, plan.weights, actions, int(plan.weights.argmax())
        places = counts.horizon - H, counts.order, self._usual[0], self.task.num_actions
        given: tuple[Any, ...] = mixed + places
        return Policy._trusted(kernels.mixed_table(*given))

    def _plan_lottery(self) -> Lottery:
        plan = self._new_plan()
        self._planned()  # what is planned stays, played or not
        about = {"infeasible": plan.status == "infeasible", "exploring": self._explores}
        if self.play == "markov":
            return Lottery(np.ones(1), (self._played(plan),), **about)
        parts = tuple(self._of_task(plan.component(i)) for i in range(plan.weights.size))
        return Lottery(plan.weights / plan.weights.sum(), parts, **about)

    @property
    def _explores(self) -> bool:
        """Whether the bonus has the coming episode explore."""
        explores = getattr(self.bonus, "explores", None)
        return explores is not None and bool(explores(self.primed + self._episodes + 1))

    def _new_plan(self) -> Plan:
        """The plan of the coming episode."""
        self._plan = plan = self._plan_for(self._episodes + 1)
        self._shown = None if isinstance(self._problem, ConcaveConvex) else plan.cost_multipliers[0]
        return plan

    def _plan_for(self, k: int) -> Plan:
        """The plan of episode k from what was seen so far (Algorithm 1, lines 2 to 4)."""
        problem = self._problem
        if isinstance(problem, Knapsack) and self.budget is not None:
            K = problem.episodes
            if k > K:
                raise RunError(f"all {K} episodes of the budget have been played")
            if self.resolve:
                problem = Knapsack(np.maximum(self.budget.left, 0.0), K - k + 1)
            else:
                problem = Knapsack(self.budget.budgets, K, self._epsilon)
        b = self._believed(k)
        plan = self._plan_in(self._model(b), problem)
        if (
            plan.status == "infeasible" and (b[:, 1:] < 0.0).any()
        ):  # perhaps by caution alone, where a limit leaves no room
            b[:, 1:] = np.maximum(b[:, 1:], 0.0)
            plan = self._plan_in(self._model(b), problem)
        return plan

    def _plan_in(self, model: ConstrainedMDP, problem: Problem) -> Plan:
        """The plan of a model; where nothing keeps the limits, the one that exceeds them least."""
        if isinstance(problem, Linear) and problem.never is not None:
            try:
                return planned(self.planner, model, problem, self._start, relax=False)
            except InfeasibleError:  # perhaps for want of an action that ends the episode: that is the guard's to do
                return planned(self.planner, model, replace(problem, never={}), None, relax=True)
        return planned(self.planner, model, problem, self._start, relax=True)

    def _believed(self, k: int) -> Float:
        """[P, 1+d]: the bonus of the estimate before episode k (Algorithm 1, line 3)."""
        counts = self.counts
        evidence = Evidence._trusted(counts, self.primed + k, self._prices, self._better)
        b = bonus_table(self.bonus, evidence, self._by_visits)
        if counts.known >= 0:
            b[counts.known] = 0.0
        return b

    def _model(self, b: Float) -> ConstrainedMDP:
        """The estimate of the places with its bonus: caution moves what is paid, optimism is left to the planner."""
        counts = self.counts
        bounded = bool(getattr(self.bonus, "bounded", True))
        begins = 0 if counts.first_seen == counts.start else -1
        moves = b, self._better, self.task.ranges, bounded, begins, counts.known
        pay, hopeful = kernels.believed(counts.means, counts.visits, *moves)
        origin = Origin(self.task, counts.exists, counts.order, self.seed)
        return counts.by_outcome(counts.model(sealed(pay), sealed(hopeful), origin))

    def _need_lottery(self) -> None:
        if self.replan != "doubling":
            raise SpecError(
                "this ConRL plans for each episode; to learn from many at once make it with replan='doubling'",
                key=("replan",),
            )

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def policy(self) -> Mixture:
        """The latest plan, from everything seen so far, as a mixture. With `play="markov"` the next episode plays its
        Markov form, which has the same value in the estimate."""
        if self.replan == "doubling":
            return super().policy
        if isinstance(self.problem, Knapsack) and self._episodes >= self.problem.episodes:
            plan = self._plan_for(self.problem.episodes)  # the budget is over: what one would do in its last episode
        else:
            _ = self.proposal
            assert self._plan is not None
            plan = self._plan
        parts: list[Policy] = [self._of_task(plan.component(i)) for i in range(plan.weights.size)]
        weights = plan.weights * (1.0 - plan.skip)
        if plan.skip > 0.0:
            parts, weights = [*parts, self._null], np.append(weights, plan.skip)
        return Mixture(weights / weights.sum(), parts)

    # -- saving -------------------------------------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        return super().config() | {"planner": describe(self.planner), "bonus": describe(self.bonus)}

    def state(self) -> dict[str, Array]:
        arrays = super().state()
        if self._start is not None:
            arrays |= prefixed("start_", self._start)
        if self._prices is not None:
            arrays["prices"] = self._prices
        if self._lottery is not None and self._shown is not None:
            arrays["shown"] = self._shown
        if self.budget is not None:
            arrays["spent"] = self.budget.state()
        return arrays

    def load_state(self, state: Arrays) -> None:
        super().load_state(state)
        self._start = group(state, "start_") or group(state, "planner_") or None  # the latter until 0.2
        self._prices, self._shown = (_saved_row(state, name, self.task.num_costs) for name in ("prices", "shown"))
        if self.budget is not None:
            self.budget.load_state(state["spent"], self._episodes)
            sums = self.counts.state()["sums"][:, 1:]
            self.budget.check_counts(self.counts.visits, sums, self.primed)
        self._plan = None


def _better(rows: Rows, num_costs: int) -> Float:
    """[1+d]: 1 where more is hoped for, the reward and costs that have a floor and no limit, and -1 where less is; 0
    for costs that have both. Optimism moves the estimate that way, and caution the other."""
    sign = np.full(1 + num_costs, -1.0)
    sign[0] = 1.0
    floors, limits = set(rows.cost[rows.sign < 0.0].tolist()), set(rows.cost[rows.sign > 0.0].tolist())
    for i in floors:
        sign[1 + i] = 0.0 if i in limits else 1.0
    return sealed(sign)


def _saved_row(state: Arrays, name: str, num_costs: int) -> Float | None:
    """[d]: a price for each cost; None where none were saved."""
    row = state.get(name)
    if row is None:
        return None
    if row.shape != (num_costs,) or row.dtype != np.float64 or not np.isfinite(row).all():
        raise RunError(f"{name} is {row}; it must have a number for each of {num_costs} costs")
    return np.array(row)
