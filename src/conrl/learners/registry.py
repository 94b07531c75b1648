"""The learners by name."""

from __future__ import annotations

from typing import Any

from conrl.learners.appropo import ApproPO
from conrl.learners.conrl import ConRL
from conrl.learners.optcmdp import OptCMDP
from conrl.learners.optprimaldual import OptPrimalDual
from conrl.learners.rcpo import RCPO
from conrl.learners.tfw_ucrl2 import TFWUCRL2
from conrl.learners.ucbvi import UCBVI

LEARNERS: dict[str, Any] = {kind.name: kind for kind in (ConRL, RCPO, ApproPO, TFWUCRL2, OptCMDP, OptPrimalDual, UCBVI)}
