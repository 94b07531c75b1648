"""A learner meets a model in blocks of episodes: what `learn` does, for runs of a hundred thousand episodes.

A learner that plans again only when the visits of some pair have doubled (`replan="doubling"`) executes the same thing
in every episode between two plans: a policy, or a lottery, of which each episode draws its own component. So a compiled
loop plays whole episodes until a pair has been visited `learner.waits` more times, and the learner takes them in
together (`observe_block`). The exact value of what is executed is that of the lottery, the same for all episodes of a
block; of a learner whose draws are not part of what it executes (`Proposal.lottery`), that of the component drawn.

Randomness. A block that begins with episode k takes its components from `randomness(s, k, DRAW)`, s the learner's seed,
and what happens from `randomness(seed, k, WORLD)`, episode after episode. A block of one episode therefore is that of
`learn`, draw for draw; longer ones have the same law.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np

from conrl import kernels
from conrl._types import Float, Int
from conrl.arguments import read_count, read_seed
from conrl.errors import SpecError
from conrl.learners.base import Proposal, check_learner, optional
from conrl.mixture import Mixture, Part, parts_of
from conrl.model import ConstrainedMDP
from conrl.policy import Null, Policy
from conrl.running.loop import make_world
from conrl.running.worlds import ModelWorld
from conrl.sampling import DRAW, WORLD, Dynamics, draw, randomness

LONGEST = 4096  # episodes of a block; it is no longer than what was played before it either,
SHORTEST = 16  # unless that is less than this


class Stretch(NamedTuple):
    """Episodes in which the same was executed."""

    first: int  # the number of the first, from 1
    episodes: int
    value: Float  # [1+d]: of each of them, exactly


def learn_in_blocks(
    env: ConstrainedMDP, learner: Any, episodes: int, seed: int = 0, longest: int = LONGEST
) -> Iterator[Stretch]:
    """Play episodes with a learner that has `observe_block` and `waits`; what each block executed, as it is played.

    Args:
        env: the model, which is sampled.
        learner: such as `OptCMDP(env.task, replan="doubling")`.
        episodes: how many to play, after those that the learner has already seen.
        seed: of all randomness.
        longest: the most episodes of a block; with 1, the run is that of `learn`.
    """
    read_count(episodes, "episodes", 0)
    read_count(longest, "longest", 1)
    number = read_seed(seed)
    world = _world_of(env, learner)
    if learner.seed is None:
        learner.reseed(number)
    last = learner.episodes + episodes
    kept: Policy | None = None  # what is still played: no plan was due
    while (done := learner.episodes) < last:
        proposal = learner.proposal
        parts = parts_of(_played_of(learner, proposal))
        if kept is not None and len(parts) == 1 and proposal.policy is not kept:
            raise SpecError(f"{learner.name} plays another policy in each episode of one plan; use conrl.learn")
        most = min(last - done, longest, max(done, SHORTEST))
        which = randomness(learner.seed, done + 1, DRAW).random(most)
        states, actions, pay, due = _block(world.dynamics, parts, learner.waits, which, number, done + 1)
        learner.observe_block(states, actions, pay)
        kept = None if due or len(parts) > 1 else proposal.policy
        if proposal.lottery is not None or len(parts) == 1:
            yield Stretch(done + 1, len(states), world.value(proposal.lottery or proposal.policy))
            continue
        drawn = draw(np.array([part.weight for part in parts]), which[: len(states)])
        begins = np.flatnonzero(np.diff(drawn, prepend=-1))  # where another one is drawn than before
        for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), drawn.size], strict=True):
            yield Stretch(done + 1 + begin, end - begin, world.value(parts[drawn[begin]].policy))


def _played_of(learner: Any, proposal: Proposal) -> Policy | Mixture:
    """What episodes are drawn from until the next plan: a learner with `draws` draws from its `policy`."""
    played: Policy | Mixture = proposal.lottery or (learner.policy if hasattr(learner, "draws") else proposal.policy)
    return played


def _world_of(env: Any, learner: Any) -> ModelWorld:
    """Where the learner plays; refuses what cannot be played in blocks."""
    check_learner(learner)
    if not all(hasattr(type(learner), name) for name in ("observe_block", "waits")):
        raise SpecError(f"{learner.name} does not learn from blocks of episodes; play it with conrl.learn")
    if optional(learner, "budget") is not None or optional(learner, "continuing"):
        raise SpecError("blocks are of whole episodes that no budget cuts short; use conrl.learn")
    if getattr(learner, "keep_policies", False):
        raise SpecError("policies are not kept in blocks; make the learner with keep_policies=False")
    world, _ = make_world(env, learner, "outcome", None)
    if not isinstance(world, ModelWorld):
        raise SpecError("blocks need the model; play an environment with conrl.learn")
    return world


def _block(
    dynamics: Dynamics, parts: Sequence[Part], waits: Any, which: Float, seed: int, k: int
) -> tuple[Int, Int, Float, bool]:
    """Episodes k, k + 1, ... of a lottery: states [M, H+1], actions [M, H] and pay [M, H, 1+d], and whether some pair
    then has had its visits. `which` are the draws from the lottery, one for each episode that may be played."""
    mdp, most = dynamics.mdp, which.size
    for part in parts:
        part.policy.check(mdp)
        if part.policy.acts_on_spent or isinstance(part.policy, Null):
            raise SpecError(
                "blocks are of episodes that are played, by policies that act on the state; use conrl.learn"
            )
    H, S, A = mdp.horizon, mdp.num_states, mdp.num_actions
    left = np.array(waits, dtype=np.int64)
    if left.shape not in ((S, A), (H, S, A)):
        raise SpecError(f"the learner's waits have shape {left.shape}; expected {(S, A)} or {(H, S, A)}")
    left = left.reshape(-1, A)
    states, actions = np.empty((most, H + 1), dtype=np.int64), np.empty((most, H), dtype=np.int64)
    pay = np.empty((most, H, 1 + mdp.num_costs))
    count = kernels.play_block(
        *dynamics.moves, dynamics.initial, dynamics.pay, dynamics.by_outcome, mdp.action,
        np.stack([part.policy.probabilities for part in parts]),
        np.cumsum([part.weight for part in parts]),
        which,
        randomness(seed, k, WORLD).random((most, H + 1, 2)),
        left, states, actions, pay,
    )  # fmt: skip
    return states[:count], actions[:count], pay[:count], bool((left <= 0).any())
