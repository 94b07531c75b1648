"""Where experience comes from: learners, and the loop that joins them to an environment.

A learner is two methods, `propose() -> Policy` and `observe(episode)`. `learn` drives them against a model or a
Gymnasium environment; a live system calls them itself. Between any two calls a learner can be saved.
"""

from typing import Any

from conrl.learners.appropo import ApproPO
from conrl.learners.conrl import ConRL
from conrl.learners.history import History
from conrl.learners.loop import learn
from conrl.learners.optcmdp import OptCMDP
from conrl.learners.optprimaldual import OptPrimalDual
from conrl.learners.protocol import Learner, Proposal
from conrl.learners.rcpo import RCPO
from conrl.learners.saving import load_learner
from conrl.learners.tfw_ucrl2 import TFWUCRL2
from conrl.learners.ucbvi import UCBVI
from conrl.learners.worlds import GymnasiumWorld, ModelWorld, World

__all__ = [
    "LEARNERS",
    "RCPO",
    "TFWUCRL2",
    "UCBVI",
    "ApproPO",
    "ConRL",
    "GymnasiumWorld",
    "History",
    "Learner",
    "ModelWorld",
    "OptCMDP",
    "OptPrimalDual",
    "Proposal",
    "World",
    "learn",
    "load_learner",
]

LEARNERS: dict[str, Any] = {kind.name: kind for kind in (ConRL, RCPO, ApproPO, TFWUCRL2, OptCMDP, OptPrimalDual, UCBVI)}
