"""The best long-run average of a model without end, under limits: what a learner of one unending episode can reach.

Over stationary occupations x(s, a) >= 0 that sum to 1 and flow, sum_a x(s', a) = sum_{s, a} p(s' | s, a) x(s, a),

    maximise  H sum r x     subject to  H sum c_i x <= limit_i,

per H steps, so that it compares with episodes of that length (Altman 1999, Chapter 4; every state must be reachable
from every other one, as in `transform.reachable_part(transform.single_episode(mdp))`).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from conrl._types import Float
from conrl.errors import RunError
from conrl.model import ConstrainedMDP

HIGHS_EXCESS = 1e-6  # of its size, by which a limit may be exceeded: HiGHS keeps them to about a tenth of that


class LongRun(NamedTuple):
    """Per H steps: the best average reward within the limits, and the costs that go with it."""

    reward: float
    costs: Float  # [d]


def long_run_optimum(mdp: ConstrainedMDP, limits: Float) -> LongRun:
    """The optimum of the average over an unending episode; limits [d] are per H steps, inf for none."""
    import scipy.sparse as sp
    from scipy.optimize import linprog

    S, A, H = mdp.num_states, mdp.num_actions, mdp.horizon
    exists = mdp.available.reshape(-1)
    leave = sp.kron(sp.eye_array(S), np.ones((1, A)))  # [S, S*A]: of which state a pair is
    flow = sp.csr_array(leave - mdp.transitions.T)[:, exists]
    pay = H * np.concatenate((mdp.rewards[:, :, None], mdp.costs), axis=2).reshape(S * A, -1)[exists]
    bound = np.isfinite(limits)
    answer = linprog(
        -pay[:, 0],
        A_ub=pay[:, 1:].T[bound] if bound.any() else None,
        b_ub=np.asarray(limits)[bound] if bound.any() else None,
        A_eq=sp.vstack((flow, np.ones((1, int(exists.sum()))))),
        b_eq=np.append(np.zeros(S), 1.0),
        method="highs",
    )
    if answer.x is None:
        raise RunError(f"no long-run average keeps the limits: {answer.message}")
    value = answer.x @ pay
    over = value[1:][bound] - np.asarray(limits)[bound]
    if not (over <= HIGHS_EXCESS * np.maximum(np.abs(pay[:, 1:]).max(axis=0), np.abs(limits))[bound]).all():
        raise RunError(
            f"HiGHS' long-run average exceeds a limit by {over.max():.3g}; measure costs in units nearer to 1"
        )
    return LongRun(float(value[0]), value[1:])
