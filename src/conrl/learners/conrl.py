"""ConRL: count, add a bonus, plan, play (Algorithm 1 of Brantley et al. 2020).

    episode k:  N_k, p_hat, r_hat, c_hat from what was seen  ->  b_k  ->  pi_k = ConPlanner(p_hat, r_hat, c_hat, b_k)

`conrl.counts` and `conrl.estimation` hold the first two, `conrl.planners` the third; the planner is BasicConPlanner,
ConvexConPlanner or KnapsackConPlanner as the problem is `Linear`, `ConcaveConvex` or `Knapsack`. A plan is a mixture:
one component is drawn at the start of the episode. Randomness depends on the seed and the number of the episode alone,
so that a learner that was saved and loaded goes on exactly as it would have.

Caution (a negative bonus) moves the estimate itself: it cannot be part of the optimistic set.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conrl.counts import Counts
from conrl.episode import Episode
from conrl.errors import InfeasibleError, RunError, SpecError, unknown
from conrl.estimation import Bonus, ScaledBonus
from conrl.inputs import frozen, is_int
from conrl.learners.budget import Budget
from conrl.learners.executed import Executed
from conrl.learners.protocol import Arrays, Proposal
from conrl.learners.saving import describe, save_learner
from conrl.logs import Log, load_episodes
from conrl.model import ConstrainedMDP
from conrl.planners import PLANNERS, ColumnGeneration, Lagrangian, Plan, Planner
from conrl.planners.result import Start
from conrl.policy import Deterministic, Mixture, Null, Policy
from conrl.problem import Knapsack, Linear, Problem
from conrl.task import Task

Float = NDArray[np.float64]

# REPRODUCTION of the paper's experiments: a tiny bonus, ten steps of a multiplier that is kept, its mean is played.
PRESETS: dict[str, dict[str, Any]] = {
    "default": {"planner": ColumnGeneration, "bonus": ScaledBonus},
    "authors": {
        "planner": lambda: Lagrangian(10, 0.2, keep_multipliers=True, returns="average-multiplier"),
        "bonus": lambda: ScaledBonus(0.001, 0.001, relative=False),
    },
}


class ConRL:
    """Optimistic model-based learning under limits: `propose` a policy, play it, `observe` the episode.

    Args:
        task: what is known (`mdp.task`, or `Task`).
        problem: `Linear` (the task's limits by default), `ConcaveConvex` or `Knapsack`.
        preset: `"default"`: the exact planner, and optimism about reward with caution about cost; `"authors"`: the
            setting of the paper's experiments.
        planner: a name or an object, as in `conrl.plan`; overrides the preset.
        bonus: `TheoryBonus`, `ScaledBonus`, or a function of (visits [n], episode, task) that gives [n] or [n, 1+d],
            positive for optimism and negative for caution; overrides the preset.
        resolve: `Knapsack` only. Plan each episode for what is left, (B - spent) / (K - k + 1), with epsilon = 0,
            instead of for (1 - epsilon) B / K.
        guard: `Knapsack` only. Never exceed a budget (`conrl.learners.budget`).
        seed: of the draws from mixtures; `learn` gives it its own if there is none.
        keep_policies: remember what was executed, for `average_policy`.
    """

    name = "conrl"

    def __init__(
        self,
        task: Task,
        *,
        problem: Problem | None = None,
        preset: str = "default",
        planner: str | Planner | None = None,
        bonus: Bonus | None = None,
        resolve: bool = False,
        guard: bool = True,
        seed: int | None = None,
        keep_policies: bool = True,
    ) -> None:
        if not isinstance(task, Task):
            raise SpecError(f"a learner needs a Task, not {type(task).__name__}; a model has one: mdp.task")
        if preset not in PRESETS:
            raise SpecError(unknown("preset", preset, PRESETS))
        if seed is not None and (not is_int(seed) or seed < 0):
            raise SpecError(f"seed is {seed!r}; it must be a whole number of at least 0")
        self.task = task
        self.problem: Problem = Linear(task.limits) if problem is None else problem
        if not isinstance(self.problem, Problem):
            raise SpecError(f"a learner needs a problem such as Linear([0.3]), not {type(problem).__name__}")
        self.preset = preset
        self.planner = _planner(PRESETS[preset]["planner"]() if planner is None else planner, self.problem)
        self.bonus: Bonus = PRESETS[preset]["bonus"]() if bonus is None else bonus
        if not callable(self.bonus):
            raise SpecError(f"bonus is {bonus!r}; it must be TheoryBonus, ScaledBonus or a function")
        self.seed = seed
        self.resolve, self.guard, self.keep_policies = resolve, guard, keep_policies
        self.budget: Budget | None = None
        if isinstance(self.problem, Knapsack):
            totals = self.problem.totals(task)
            self.budget = Budget(task, totals)
            self._epsilon = self.problem.held_back(task)
        elif resolve:
            raise SpecError("resolve is for Knapsack problems")
        self._caution = _caution(self.problem, task)
        self.counts = Counts(task)
        self._default = _first_actions(task)
        self._episodes = 0
        self._start: Start | None = None
        self._proposal: Proposal | None = None
        self._plan: Plan | None = None
        self._planner_before: Arrays = {}
        self._executed = Executed()
        self.primed = 0

    # -- the two methods ----------------------------------------------------------------------------------

    def propose(self) -> Policy:
        """The policy to play in the next episode; a `Null` if it is to be skipped. Asked twice, the same one."""
        return self.proposal.policy

    @property
    def proposal(self) -> Proposal:
        if self._proposal is None:
            self._proposal = self._decide()
        return self._proposal

    def observe(self, episode: Episode) -> None:
        """Count what was seen. Refuses, and then changes nothing, what the task says cannot be."""
        proposal = self.proposal
        self.counts.check(episode)
        if episode.skipped != isinstance(proposal.policy, Null) and not episode.stopped:
            raise RunError(
                "the proposal was to skip this episode"
                if episode.skipped is False
                else "the episode was not to be skipped"
            )
        self.counts.add(episode)
        if self.budget is not None:
            self.budget.spend(np.asarray(episode.costs))
        if self.keep_policies:
            self._executed.add(proposal.policy)
        if self._plan is not None:
            self._start = self._plan.start
        self._episodes += 1
        self._proposal = None
        self._planner_before = {}

    def may_step(self, spent: ArrayLike) -> bool:
        """Whether one more step may be played in an episode that has cost `spent` [d] so far."""
        return self.budget is None or not self.guard or self.budget.may_step(spent)

    def room(self) -> tuple[Float, Float]:
        """[d] each: what one episode may cost, and what one step can; no costs where nothing binds step by step."""
        if self.budget is None or not self.guard or not self.budget.by_step:
            return np.zeros(0), np.zeros(0)
        return self.budget.left, self.budget.step

    # -- deciding -----------------------------------------------------------------------------------------

    def _decide(self) -> Proposal:
        k = self._episodes + 1
        problem = self._problem_now(k)
        if hasattr(self.planner, "state"):
            self._planner_before = self.planner.state()
        self._plan = plan = self._solve(self._model(k), problem)
        generator = np.random.default_rng([0 if self.seed is None else self.seed, k, 1])
        skip, share = generator.random(2)
        intended: Policy = self._null
        if skip >= plan.skip:
            chosen = int(np.searchsorted(np.cumsum(plan.weights), share * plan.weights.sum(), side="right"))
            intended = self._whole(plan.component(min(chosen, plan.weights.size - 1)))
        guarded = self.budget is not None and self.guard and not isinstance(intended, Null) and not self.budget.admits()
        return Proposal(
            self._null if guarded else intended, intended, guarded=guarded, infeasible=plan.status == "infeasible"
        )

    @property
    def _null(self) -> Null:
        return Null(self.task.horizon, self.task.num_states, self.task.num_actions)

    def _problem_now(self, k: int) -> Problem:
        if not isinstance(self.problem, Knapsack) or self.budget is None:
            return self.problem
        K = self.problem.episodes
        if k > K:
            raise RunError(f"all {K} episodes of the budget have been played")
        if self.resolve:
            return Knapsack(np.maximum(self.budget.left, 0.0), K - k + 1)
        return Knapsack(self.budget.budgets, K, self._epsilon)

    def _model(self, k: int) -> ConstrainedMDP:
        """The estimate of the places with its bonus (Algorithm 1, lines 2 and 3)."""
        model = self.counts.model()
        b = self._bonus_table(k)
        known = self.counts.known
        if known is not None:
            b[known] = 0.0
        careful = np.minimum(b, 0.0)
        pay = model.pay
        if careful.any():
            pay = frozen(pay + careful * self._caution)
        return model._copy(pay=pay, bonus=frozen(np.maximum(b, 0.0)))

    def _bonus_table(self, k: int) -> Float:
        visits = self.counts.visits
        b = np.array(self.bonus(visits, k, self.task), dtype=np.float64)
        width = 1 + self.task.num_costs
        if b.ndim == 1:
            b = np.repeat(b[:, None], width, axis=1)
        if b.shape != (visits.size, width):
            raise SpecError(f"the bonus has shape {b.shape}; expected ({visits.size},) or ({visits.size}, {width})")
        if not np.isfinite(b).all():
            raise SpecError("the bonus has an entry that is not finite")
        return b

    def _solve(self, model: ConstrainedMDP, problem: Problem) -> Plan:
        if isinstance(self.planner, ColumnGeneration):
            return self.planner.plan(model, problem, self._start, relax=True)
        try:
            found: Plan = self.planner.plan(model, problem)
            return found
        except InfeasibleError:
            return ColumnGeneration().plan(model, problem, self._start, relax=True)

    def _whole(self, policy: Policy) -> Policy:
        """A policy of the places as one of the task; in states never seen, the first action."""
        task = self.task
        H = task.horizon
        extra = self.counts.horizon - H
        order = self.counts.order
        real = np.flatnonzero(order < task.num_states)
        if isinstance(policy, Deterministic):
            actions = np.empty((H, task.num_states), dtype=np.int16)
            actions[:] = self._default
            actions[:, order[real]] = policy.actions[extra:, real]
            return Deterministic._trusted_actions(actions, task.num_actions)
        table = np.zeros((H, task.num_states, task.num_actions))
        table[:, np.arange(task.num_states), self._default] = 1.0
        table[:, order[real]] = policy.probabilities[extra:, real]
        return Policy._trusted(table)

    # -- reading ------------------------------------------------------------------------------------------

    @property
    def episodes(self) -> int:
        """How many episodes were observed; logged ones that it was primed with do not count."""
        return self._episodes

    @property
    def policy(self) -> Mixture:
        """The latest plan, from everything seen so far: what the next episode's policy is drawn from."""
        _ = self.proposal
        plan = self._plan
        assert plan is not None
        parts: list[Policy] = [self._whole(plan.component(i)) for i in range(plan.weights.size)]
        weights = plan.weights * (1.0 - plan.skip)
        if plan.skip > 0.0:
            parts, weights = [*parts, self._null], np.append(weights, plan.skip)
        return Mixture(weights / weights.sum(), parts)

    @property
    def average_policy(self) -> Mixture:
        """The uniform mixture of the policies of all episodes so far: the PAC policy (remark after Theorem 3.4)."""
        if not self.keep_policies:
            raise RunError("the policies were not kept; make the learner with keep_policies=True")
        if not len(self._executed):
            raise RunError("no episode has been observed")
        return self._executed.mixture()

    @property
    def model(self) -> ConstrainedMDP:
        """The empirical model of the whole task, with its counts and without bonus."""
        return self.counts.full_model()

    # -- data from elsewhere ------------------------------------------------------------------------------

    def prime(self, episodes: str | Path | Log | Iterable[Episode]) -> int:
        """Learn from logged episodes before (or between) one's own; how many there were.

        `episodes` is a file (`conrl.load_episodes`), what it gave, or episodes. States and actions are the task's
        indices. The costs of logged episodes are not charged to a budget. Refuses all of them if one does not fit.
        """
        log = load_episodes(episodes) if isinstance(episodes, (str, Path)) else episodes
        if isinstance(log, Log):
            if log.state_names is not None or log.action_names is not None:
                raise RunError("the log has texts as states or actions; a learner needs the task's indices")
            if tuple(log.cost_names) != tuple(self.task.cost_names):
                raise RunError(f"the log has costs {log.cost_names}; the task has {tuple(self.task.cost_names)}")
            log = log.episodes
        log = tuple(log)
        for i, episode in enumerate(log):
            try:
                self.counts.check(episode)
            except RunError as error:
                raise RunError(f"episode {i + 1} of the log: {error}") from None
        for episode in log:
            self.counts.add(episode)
        self._forget_proposal()
        self.primed += len(log)
        return len(log)

    def _forget_proposal(self) -> None:
        if self._proposal is not None:
            self._proposal = None
            if hasattr(self.planner, "load_state"):
                self.planner.load_state(self._planner_before)

    # -- saving -------------------------------------------------------------------------------------------

    def save(self, path: str | Path) -> None:
        """Write everything needed to go on exactly: `conrl.load_learner` reads it."""
        save_learner(self, path)

    def config(self) -> dict[str, Any]:
        """What makes this learner, as JSON; parts that are functions of the user's own are null."""
        return {
            "learner": self.name,
            "task": describe(self.task),
            "problem": describe(self.problem),
            "preset": self.preset,
            "planner": describe(self.planner),
            "bonus": describe(self.bonus),
            "resolve": self.resolve,
            "guard": self.guard,
            "seed": self.seed,
            "keep_policies": self.keep_policies,
        }

    def state(self) -> dict[str, NDArray[Any]]:
        """What it has learned, as arrays. A proposal not yet observed is not among them: it is made again."""
        arrays: dict[str, Any] = {"episodes": np.array(self._episodes), "primed": np.array(self.primed)}
        arrays |= {f"counts_{name}": array for name, array in self.counts.state().items()}
        if self._start is not None:
            arrays |= {f"start_{name}": part for name, part in self._start._asdict().items() if part is not None}
        if hasattr(self.planner, "state"):
            kept = self.planner.state() if self._proposal is None else self._planner_before
            arrays |= {f"planner_{name}": array for name, array in kept.items()}
        if self.budget is not None:
            arrays["spent"] = self.budget.spent
        return arrays | {f"policy_{name}": array for name, array in self._executed.state().items()}

    def load_state(self, state: Arrays) -> None:
        def group(prefix: str) -> dict[str, NDArray[Any]]:
            return {name.removeprefix(prefix): a for name, a in state.items() if name.startswith(prefix)}

        self._episodes, self.primed = int(state["episodes"]), int(state["primed"])
        self.counts.load_state(group("counts_"))
        start = group("start_")
        self._start = Start(**start) if start else None
        if hasattr(self.planner, "load_state"):
            self.planner.load_state(group("planner_"))
        if self.budget is not None:
            self.budget.spent = np.array(state["spent"], dtype=np.float64)
        self._executed = Executed.load(group("policy_"), self._null.shape)
        self._proposal = self._plan = None


def _planner(planner: str | Planner, problem: Problem) -> Any:
    if isinstance(planner, str):
        if planner not in PLANNERS:
            raise SpecError(unknown("planner", planner, PLANNERS))
        planner = PLANNERS[planner]()
    if not hasattr(planner, "plan"):
        raise SpecError(f"planner is a {type(planner).__name__}; it must be a name or have plan(mdp, problem)")
    if not isinstance(problem, getattr(planner, "settings", Problem)):
        name = getattr(planner, "name", type(planner).__name__)
        raise SpecError(f"planner {name!r} does not take {type(problem).__name__} problems")
    return planner


def _caution(problem: Problem, task: Task) -> Float:
    """[1+d]: which way a negative bonus moves the estimate of each coordinate. It lowers rewards and raises costs, but
    lowers those that have a floor and no limit, and leaves those that have both."""
    sign = np.concatenate(([1.0], -np.ones(task.num_costs)))
    if isinstance(problem, Linear):
        rows = problem.rows(task)
        floors, limits = set(rows.cost[rows.sign < 0.0].tolist()), set(rows.cost[rows.sign > 0.0].tolist())
        for i in floors:
            sign[1 + i] = 0.0 if i in limits else 1.0
    return sign


def _first_actions(task: Task) -> NDArray[np.int16]:
    if task.available is None:
        return np.zeros(task.num_states, dtype=np.int16)
    first: NDArray[np.int16] = np.argmax(task.available, axis=1).astype(np.int16)
    return first
