"""What single episodes of a policy pay, played one after the other.

A limit on an expectation says nothing about tails: `Simulation` gives quantiles and the share of episodes above each
limit. A model that has one amount for each state and action, and not one for each outcome, may hold the mean of
something that varies; single episodes then scatter too little. `Simulation.pays_means` names those totals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float, Int
from conrl.arguments import is_int, is_number, read_count, setter
from conrl.envs.stepping import Step, cost_told, costs_in, costs_of, play, wants_info
from conrl.errors import ModelError, RunError, SpecError, shown
from conrl.evaluation import Evaluation, unwrapped
from conrl.mixture import parts_of
from conrl.model import ConstrainedMDP
from conrl.model.counting import MOST_ADDED, Sums, bars
from conrl.model.criteria import Average, Criterion, Discounted
from conrl.model.limits import resolve_limits
from conrl.model.reading import default_cost_names
from conrl.notebook import Columns, Display, Displayed, Framed, Plotted
from conrl.policy import Null, Policy
from conrl.sampling import Dynamics, draw
from conrl.spending import Player
from conrl.stationary_policy import Stationary
from conrl.wording import brief, counted, line, totals

if TYPE_CHECKING:
    import gymnasium


MOST_EPISODES = 2**31 - 1  # of a simulation: their totals are held in memory
AVERAGED = 10_000  # steps of an episode of which the average is simulated, unless asked otherwise
MOST_STEPS = 10**10  # of all episodes of a simulation together
LONGEST = 10**7  # steps after which an episode should have ended
SHOWN_QUANTILES = (0.05, 0.5, 0.95)  # of a simulation, in a notebook and by `conrl plan --simulate`
CUT_OFF = 1e-12  # share of the largest total that a discounted episode may leave out


@dataclass(frozen=True, eq=False, repr=False)
class Simulation(Displayed, Framed, Plotted):
    """Totals of simulated episodes: `rewards` [episodes] and `costs` [episodes, d], with `limits` and `floors` [d].

    As a data frame: `episode` (from 1), `reward` and `cost_<name>`, a row for each episode.

    `pays_means` names the totals ("reward", or a cost) of which the model has one amount for each state and action. If
    what is really paid varies around it, single episodes scatter more than these do; means are right all the same.
    """

    rewards: Float
    costs: Float
    limits: Float  # [d]; inf where there is none
    cost_names: tuple[str, ...] = ()
    pays_means: tuple[str, ...] = ()
    floors: Float = field(default_factory=lambda: np.zeros(0))  # [d]; -inf where there is none, as by default
    sums: tuple[Sums, ...] = ()  # [d]: what each total is a sum of; by default, of one cost

    def __post_init__(self) -> None:
        if not self.floors.size:
            setter(self)("floors", np.full(self.limits.size, -np.inf))
        if not self.sums:
            setter(self)("sums", (Sums(1),) * self.limits.size)

    def __repr__(self) -> str:
        means = f"pays_means={brief(self.pays_means)}" if self.pays_means else ""
        return line(self, f"{counted(self.rewards.size, 'episode')}: {totals(self.names, self.mean.value)}", means)

    @property
    def names(self) -> tuple[str, ...]:
        """[1+d]: "reward", then those of the costs; where these are unknown, some."""
        return "reward", *(self.cost_names or default_cost_names(self.limits.size))

    def _columns(self) -> Columns:
        titles = ("reward", *(f"cost_{name}" for name in self.names[1:]))
        return {
            "episode": np.arange(1, self.rewards.size + 1),
            **dict(zip(titles, (self.rewards, *self.costs.T), strict=True)),
        }

    def _display(self) -> Display:
        columns = {
            "total": self.names,
            "mean": self.mean.value,
            "standard error": self.standard_error.value,
            **{f"{100 * q:g}%": self.quantile(q).value for q in SHOWN_QUANTILES},
            "limit": np.append(np.nan, self.limits),
            "episodes above it": np.append(np.nan, self.exceed()),
            "floor": np.append(np.nan, self.floors),
            "episodes below it": np.append(np.nan, self.fall_short()),
        }
        means = f"one amount for each state and action, not for each outcome: {', '.join(self.pays_means)}"
        return Display(
            f"Simulation of {counted(self.rewards.size, 'episode')}", columns, (means,) if self.pays_means else ()
        )

    @property
    def mean(self) -> Evaluation:
        """The mean reward and costs of an episode; `evaluate` gives them exactly."""
        return Evaluation(np.append(self.rewards.mean(), self.costs.mean(axis=0)), self.names[1:])

    @property
    def standard_error(self) -> Evaluation:
        """Of the means."""
        n = self.rewards.size
        if n < 2:
            return Evaluation(np.full(1 + self.costs.shape[1], np.nan), self.names[1:])
        deviation = np.append(self.rewards.std(ddof=1), self.costs.std(axis=0, ddof=1))
        return Evaluation(deviation / n**0.5, self.names[1:])

    def quantile(self, q: float) -> Evaluation:
        """The q-quantile of the reward and of each cost over episodes."""
        if not (is_number(q) and 0.0 <= q <= 1.0):
            raise SpecError(f"q is {shown(q)}; a quantile is a number in [0, 1]")
        value = np.append(np.quantile(self.rewards, q), np.quantile(self.costs, q, axis=0))
        return Evaluation(value, self.names[1:])

    def exceed(self, limits: ArrayLike | Mapping[str, float] | None = None) -> Float:
        """[d]: the share of episodes whose realised cost is above each limit, by more than rounding, as limits on
        single episodes count it; nan where there is no limit.

        By default the limits are those of the plan that was played, else the model's own. Limits on single episodes
        (never, chance, cvar) are not among them: pass their thresholds, `exceed({"repairs": 5})`.
        """
        bounds = self.limits if limits is None else resolve_limits(limits, self.names[1:], "limits")
        share: Float = (self.costs > bars(bounds, self.sums)).mean(axis=0)
        return np.where(np.isfinite(bounds), share, np.nan)

    def fall_short(self, floors: ArrayLike | Mapping[str, float] | None = None) -> Float:
        """[d]: the share of episodes whose realised cost is below each floor; nan where there is no floor.

        By default the floors are those of the plan that was played.
        """
        bounds = self.floors if floors is None else resolve_limits(floors, self.names[1:], "floors")
        share: Float = (self.costs < -bars(-bounds, self.sums)).mean(axis=0)
        return np.where(np.isfinite(bounds), share, np.nan)


def simulate(
    mdp_or_env: ConstrainedMDP | gymnasium.Env[Any, Any],
    policy: Any,
    episodes: int = 1000,
    seed: int | np.random.Generator = 0,
    *,
    steps: int | None = None,
    cost: Callable[..., ArrayLike] | None = None,
) -> Simulation:
    """Play episodes and add up what they pay, in a model or in a Gymnasium environment with discrete spaces.

    Args:
        mdp_or_env: the model, or an environment. Its costs are those of `cost`, else `info["costs"]`, else
            `info["cost"]`; if there are none of these, only rewards are added up.
        policy: a `Policy`, a `Mixture` (which draws its component at the start of each episode), or a `Plan`, of which
            the policy is played, or skipped as often as it says; its limits are kept for `Simulation.exceed`, its
            floors for `Simulation.fall_short`.
        episodes: how many.
        seed: of all randomness; a number or a generator.
        steps: of an episode in a model with `Average()`, where its mean pay of a step counts; by default 10,000.
        cost: of an environment: a function of (state, action, next state, reward, terminated), or of these and `info`,
            as `conrl.learn` takes it.

    In a model with `Discounted(g)` an episode's totals are discounted, and it is cut off where what is left out is at
    most 1e-12 of the largest total; with `Total()` it goes on until nothing is paid any more. Models whose pay was
    given by outcome pay by outcome; the others pay the mean of each state and action, as `Simulation.pays_means` says.
    """
    read_count(episodes, "episodes", most=MOST_EPISODES)
    if cost is not None and isinstance(mdp_or_env, ConstrainedMDP):
        raise SpecError("a model has costs of its own; cost is for environments, leave it out", key=("cost",))
    if cost is not None and not callable(cost):
        raise SpecError(f"cost is {shown(cost)}; it must be a function of (s, a, next_s, reward, terminated)")
    if not isinstance(seed, np.random.Generator) and not (is_int(seed) and seed >= 0):
        raise SpecError(f"seed is {shown(seed)}; it must be a whole number of at least 0, or a generator")
    generator = np.random.default_rng(seed)
    played, skip, linear = unwrapped(policy)
    parts = parts_of(played)
    which = np.zeros(episodes, dtype=int)
    if len(parts) > 1:
        which = draw(np.array([part.weight for part in parts]), generator.random(episodes))
    null = [i for i, part in enumerate(parts) if isinstance(part.policy, Null)]
    which = np.where(np.isin(which, null), -1, which)
    if skip > 0.0:
        which = np.where(generator.random(episodes) < skip, -1, which)
    if not isinstance(mdp_or_env, ConstrainedMDP):
        return _simulate_environment(mdp_or_env, [part.policy for part in parts], which, generator, linear, cost)
    mdp = mdp_or_env
    if steps is not None and not isinstance(mdp.horizon, Average):
        raise SpecError(f"steps is for models with Average(); this one has {mdp.horizon!r}", key=("steps",))
    dynamics = Dynamics(mdp)
    paid = np.zeros((episodes, 1 + mdp.num_costs))
    for i, part in enumerate(parts):
        mine = np.flatnonzero(which == i)
        if mine.size:
            part.policy.check(mdp)
            if isinstance(part.policy, Stationary):
                paid[mine] = _stationary_totals(dynamics, part.policy, mine.size, generator, steps)
                continue
            model, markov = part.policy.on(mdp)
            world = dynamics if model is mdp else Dynamics(model)
            paid[mine] = world.totals(markov.probabilities, mine.size, generator)[:, : paid.shape[1]]
    means = tuple(n for n, varies in zip(("reward", *mdp.cost_names), mdp.varies, strict=True) if not varies)
    bounds = resolve_limits(mdp.limits if linear is None else linear.limits, mdp.cost_names, "limits")
    floors = resolve_limits(None if linear is None else linear.floors, mdp.cost_names, "floors")
    added = MOST_ADDED if isinstance(mdp.horizon, Criterion) else mdp.horizon
    sums = tuple(Sums.of(added, *ends) for ends in np.transpose(mdp._possible())[1:].tolist())
    return Simulation(paid[:, 0], paid[:, 1:], bounds, mdp.cost_names, means, floors, sums)


def _stationary_totals(
    dynamics: Dynamics, policy: Stationary, episodes: int, generator: np.random.Generator, steps: int | None
) -> Float:
    """[episodes, 1+d]: what episodes of a stationary policy come to, by the model's criterion."""
    criterion, S = dynamics.mdp.horizon, dynamics.mdp.num_states
    discount, ends, most = 1.0, np.zeros(S, dtype=bool), LONGEST
    if isinstance(criterion, Discounted):
        discount = criterion.discount
        most = 1 if discount == 0.0 else 1 + int(np.ceil(np.log(CUT_OFF) / np.log(discount)))
    elif isinstance(criterion, Average):
        most = AVERAGED if steps is None else read_count(steps, "steps")
    else:
        ends = policy.stays(dynamics.mdp)
    if not ends.any() and episodes * most > MOST_STEPS:
        raise SpecError(
            f"{episodes:,} episodes of {most:,} steps; at most {MOST_STEPS:,} steps are simulated: play fewer episodes",
            key=("episodes",),
        )
    totals, unfinished = dynamics.stationary_totals(policy.probabilities, discount, ends, most, episodes, generator)
    if isinstance(criterion, Average):
        return totals / most
    if unfinished and not isinstance(criterion, Discounted):
        raise RunError(f"{unfinished} episodes had not ended after {LONGEST:,} steps; use a horizon or a discount")
    return totals


def _simulate_environment(
    env: gymnasium.Env[Any, Any],
    policies: list[Policy],
    which: Int,
    generator: np.random.Generator,
    linear: Any,
    cost: Callable[..., ArrayLike] | None,
) -> Simulation:
    """`simulate` in an environment: episode e plays policies[which[e]], or nothing where that is -1."""
    from conrl.model.environment import declared  # here: few simulate in an environment

    own = declared(env, "a ConstrainedMDP or a Gymnasium environment")
    if any(isinstance(policy, Stationary) for policy in policies):
        raise SpecError("a stationary policy is simulated in its model; in an environment, play policy.act yourself")
    for policy in policies:
        if policy.shape[1:] != own.sizes:
            raise ModelError(
                f"the policy has {policy.shape[1]} states and {policy.shape[2]} actions, the environment "
                f"{env.observation_space} and {env.action_space}"
            )
    info = cost is not None and wants_info(cost)
    limits = linear.limits if linear is not None else own.cost_limits if cost is None else None
    seed = int(generator.integers(2**31))
    totals: list[Float] = []  # of the episodes that are played: reward and costs
    ends: list[Float] = []  # the least and the most of a step of each
    for i in which[which >= 0]:
        player = Player(policies[i], generator)

        def costs(step: Step, count: int | None, player: Player = player) -> Float:
            paid = _costs_of_step(step, count) if cost is None else costs_of(cost_told(cost, info, step), count)
            player.pay(paid)
            return paid

        played = play(env, player.act, policies[i].shape[0], None if totals else seed, costs)  # it goes on from there
        totals.append(np.sum(played.pay, axis=0))
        ends.append(np.array([np.min(played.pay, axis=0), np.max(played.pay, axis=0)]))
    limited = 0 if limits is None else len(limits) if isinstance(limits, Mapping) else np.size(limits)
    widths = {total.size for total in totals} or {1 + limited}
    if len(widths) > 1:
        raise RunError("the environment gave different numbers of costs in different steps")
    width = widths.pop()
    if width == 1 and limited:
        raise RunError('the environment gives neither info["costs"] nor info["cost"], but there are limits')
    table = np.zeros((which.size, width))
    table[which >= 0] = np.reshape(totals, (-1, width))
    names = own.cost_names if cost is None else None
    if not names:
        own_names = tuple(limits) if isinstance(limits, Mapping) else ()
        names = own_names if len(own_names) == width - 1 else default_cost_names(width - 1)
    bounds = resolve_limits(limits, names, "limits")
    floors = resolve_limits(None if linear is None else linear.floors, names, "floors")
    least, most = np.reshape(ends, (-1, 2, width)).transpose(1, 0, 2)
    told = np.transpose([least.min(axis=0, initial=0.0), most.max(axis=0, initial=0.0)])[1:]
    sums = tuple(Sums.of(policies[0].shape[0], *each) for each in told.tolist())
    return Simulation(table[:, 0], table[:, 1:], bounds, names, (), floors, sums)


def _costs_of_step(step: Step, count: int | None) -> Float:
    """[d]: what `info` says; the steps of an episode have as many costs as the first."""
    costs = costs_in(step.info)
    if costs is None and count:
        raise RunError('the environment gives neither info["costs"] nor info["cost"] in one step, but did before')
    return costs_of([] if costs is None else costs, count)
