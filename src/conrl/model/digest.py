"""What tells a model from every other: a digest of all that a policy can notice of it, or a learner."""

from __future__ import annotations

import hashlib
import json

import numpy as np

from conrl.model.mdp import ConstrainedMDP


def digest(mdp: ConstrainedMDP, features: bool = False) -> str:
    """128 bits of names, horizon, first states, actions, transitions and pay; limits and bonuses are left out.

    `features`: also of those of the states, which a learner may see and a policy does not.
    """
    graph = mdp.graph
    names = [list(mdp.state_names), list(mdp.action_names), list(mdp.cost_names)]
    found = hashlib.blake2b(json.dumps([*names, repr(mdp.horizon)]).encode(), digest_size=16)
    whole = (graph.first, graph.start, graph.successor, mdp.action)
    real = (graph.probability, mdp.initial, mdp.pay, mdp.pay_by_outcome)
    for arrays, kind in ((whole, "<i8"), (real, "<f8")):
        for array in arrays:
            found.update(np.ascontiguousarray(array, dtype=kind).tobytes())
    if features and mdp.features is not None:
        found.update(np.ascontiguousarray(mdp.features, dtype="<f8").tobytes())
    return found.hexdigest()
