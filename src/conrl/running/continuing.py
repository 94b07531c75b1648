"""`learn`'s continuing mode: one unending episode, seen as trajectories of H steps without a reset between them.

A learner with `continuing = True` proposes a policy, which is played until the learner wants another one: its `pause`
says when, as numbers that a compiled loop can read. The learner observes that part of the trajectory, and so on until H
steps are played. The next trajectory begins where the last one ended: in the learner's `position`. The draws of
trajectory k come from (seed, k) alone, one pair for each step, whoever plays it: a learner that was saved and loaded
between two trajectories goes on exactly as it would have.

A `History` holds of each trajectory what was *realised*, and as its expected values H times the running mean per step
since the first, which is what Figure 1 of Brantley et al. (2020) shows of such learners; `history.regret` compares it
with H times the best long-run average. What happens in trajectory k is drawn from `conrl.sampling.randomness`.
"""

from __future__ import annotations

from typing import Any, Protocol, cast

import numpy as np

from conrl import kernels
from conrl._types import Float, Int
from conrl.episode import Episode
from conrl.errors import SpecError
from conrl.learners.base import Learner, Pause
from conrl.model import ConstrainedMDP
from conrl.model.transform import absorbing
from conrl.policy import Deterministic
from conrl.running.rows import Row
from conrl.running.worlds import ModelWorld, World
from conrl.sampling import WORLD, draw, randomness


class Continuing(Learner, Protocol):
    """A learner of one unending episode: `observe` takes parts of it, of any length up to H."""

    continuing: bool

    @property
    def position(self) -> int | None:
        """The state in which the next step is played; None before the first."""

    @property
    def steps(self) -> int:
        """Steps observed so far."""

    @property
    def average(self) -> Float:
        """[1+d]: reward and costs per step so far."""

    def pause(self) -> Pause:
        """When to stop playing what is proposed now."""


def play_trajectory(world: World, learner: Learner, seed: int) -> Row:
    """The next H steps (or what is left of them) from where the learner is, under as many policies as it proposes."""
    if not isinstance(world, ModelWorld):
        raise SpecError(
            f"{learner.name} learns from one unending episode, which `learn` plays in models only: an environment "
            "cannot be put back into a state. "
            "Step it yourself: propose(), then observe(Episode) for each part that was played"
        )
    walker = cast(Continuing, learner)
    mdp = world.mdp
    mdp._once("continuing", lambda: _is_unending(mdp))
    H = mdp.horizon
    generator = randomness(seed, walker.episodes + 1, WORLD)
    uniform = generator.random((H + 1, 2))
    states, actions = np.empty(H + 1, dtype=np.int64), np.empty(H, dtype=np.int64)
    paid = np.empty((H, 1 + mdp.num_costs))
    begin = h = walker.steps % H
    states[h] = draw(mdp.initial, uniform[0, 0]) if walker.position is None else walker.position
    while h < H:
        end = _walk(world, walker, generator, uniform[1:], h, (states, actions, paid))
        walker.observe(Episode._of(states[h : end + 1], actions[h:end], paid[h:end]))
        h = end
    total = paid[begin:].sum(axis=0)
    return Row(float(total[0]), total[1:], H * walker.average, unguarded=total[1:], steps=H - begin)


def _walk(
    world: ModelWorld,
    learner: Continuing,
    generator: np.random.Generator,
    uniform: Float,
    h: int,
    trajectory: tuple[Int, Int, Float],
) -> int:
    """Play what is proposed from step h on, into states [H+1], actions [H] and paid [H, 1+d]; where it ended."""
    states, actions, paid = trajectory
    dynamics, policy = world.dynamics, learner.proposal.policy
    pause = learner.pause()
    drawn = world._pay != "outcome"
    last = h + 1 if pause.each_step or drawn else actions.size
    deterministic = isinstance(policy, Deterministic)
    table = policy.actions[:, :, None] if isinstance(policy, Deterministic) else policy.probabilities
    model = *dynamics.moves, dynamics.pay, dynamics.by_outcome, world.mdp.action
    arguments: list[Any] = [*model, table, deterministic, uniform, *pause[1:], h, states, actions[:last], paid]
    end: int = kernels.walk(*arguments)
    if drawn:
        paid[h] = world._draw(generator, h, int(states[h]), int(actions[h]), int(states[h + 1]))
    return end


def _is_unending(mdp: ConstrainedMDP) -> bool:
    """True; a model in which the one episode would get stuck is refused."""
    order = mdp.reach.order
    stuck = order[absorbing(mdp)[order]]
    if stuck.size and mdp.num_states > 1:
        name = mdp.state_name(int(stuck[0]))
        raise SpecError(
            f"no action leaves state {name!r}, where one unending episode would stay; use single_episode(mdp)"
        )
    return True
