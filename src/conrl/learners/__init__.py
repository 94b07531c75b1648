"""Where experience comes from: the learners, one file each.

A learner is two methods, `propose() -> Policy` and `observe(episode)`. `conrl.learn` drives them against a model or a
Gymnasium environment; a live system calls them itself. Between any two calls a learner can be saved.
"""

from typing import Any

from conrl.learners.appropo import ApproPO
from conrl.learners.base import Learner, Proposal
from conrl.learners.conrl import ConRL
from conrl.learners.dope import DOPE
from conrl.learners.optcmdp import OptCMDP
from conrl.learners.optpess import OptPessLP
from conrl.learners.optprimaldual import OptPrimalDual
from conrl.learners.posterior_sampling import PosteriorSampling
from conrl.learners.rcpo import RCPO
from conrl.learners.safe_conrl import SafeConRL
from conrl.learners.saving import load_learner
from conrl.learners.tfw_ucrl2 import TFWUCRL2
from conrl.learners.ucbvi import UCBVI

__all__ = [
    "DOPE",
    "LEARNERS",
    "RCPO",
    "TFWUCRL2",
    "UCBVI",
    "ApproPO",
    "ConRL",
    "Learner",
    "OptCMDP",
    "OptPessLP",
    "OptPrimalDual",
    "PosteriorSampling",
    "Proposal",
    "SafeConRL",
    "load_learner",
]

KINDS = (ConRL, RCPO, ApproPO, TFWUCRL2, OptCMDP, OptPrimalDual, PosteriorSampling, UCBVI, SafeConRL, DOPE, OptPessLP)
LEARNERS: dict[str, Any] = {kind.name: kind for kind in KINDS}
