"""Logs drawn from a model: to try on a simulator what a log of its size would tell."""

from __future__ import annotations

from typing import Any

import numpy as np

from conrl import kernels
from conrl.arguments import frozen, read_count, read_seed
from conrl.episode import Episode
from conrl.errors import SpecError
from conrl.estimation.logs import Log
from conrl.evaluation import unwrapped
from conrl.mixture import parts_of
from conrl.model import ConstrainedMDP
from conrl.model.criteria import need_steps
from conrl.model.mdp import need_model
from conrl.sampling import Dynamics

AT_ONCE = 4096  # episodes
MOST_STEPS = 10**9  # of all episodes: they are held in memory


def sample_log(mdp: ConstrainedMDP, policy: Any, episodes: int = 1000, seed: int = 0) -> Log:
    """Episodes of a policy in a model, as a log.

    `policy` is a `Policy`, a `Mixture` (of which one is drawn for each episode), or a `Plan`; episodes that a plan
    skips are left out. Models whose pay was given by outcome pay by outcome. States and actions keep their names and
    numbers.
    """
    need_model(mdp, "sample_log")
    H = need_steps(mdp.horizon, "a log")
    read_count(episodes, "episodes", most=MOST_STEPS // H)
    played, skip, _ = unwrapped(policy)
    parts = parts_of(played)
    for part in parts:
        if part.policy.acts_on_spent:
            raise SpecError("a policy that acts on what was spent cannot write a log here; play it with policy.act")
        part.policy.check(mdp)
    world, generator = Dynamics(mdp), np.random.default_rng(read_seed(seed))
    S, A, width = mdp.num_states, mdp.num_actions, 1 + mdp.num_costs
    tables = np.stack([part.policy.probabilities for part in parts])
    lottery = np.cumsum([part.weight for part in parts])
    endless = np.full((H * S if mdp.step_dependent else S, A), np.iinfo(np.int64).max)
    found: list[Episode] = []
    count = episodes if skip == 0.0 else int(generator.binomial(episodes, 1.0 - skip))
    for begin in range(0, count, AT_ONCE):
        n = min(AT_ONCE, count - begin)
        states, actions, pay = np.empty((n, H + 1), np.int64), np.empty((n, H), np.int64), np.empty((n, H, width))
        kernels.play_block(
            *world.moves, world.initial, world.pay, world.by_outcome, mdp.action, tables, lottery,
            generator.random(n), generator.random((n, H + 1, 2)), endless, states, actions, pay,
        )  # fmt: skip
        found += [Episode._of(*map(frozen, one), terminated=False) for one in zip(states, actions, pay, strict=True)]
    return Log(tuple(found), mdp.cost_names, mdp._names.states, mdp._names.actions)
