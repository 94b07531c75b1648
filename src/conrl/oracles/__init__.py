"""Who answers a direction w? Exactly (`SupportOracle`) or approximately (`Responder`).

Every value vector z = (reward, costs) that some policy attains lies in a convex polytope Z. A planner asks an
exact oracle only for its support function: max over z in Z of w.z, a z that attains it, and its policy.
"""

from conrl.oracles.a2c import A2C, A2CSettings
from conrl.oracles.backward_induction import BackwardInduction
from conrl.oracles.null_action import WithNullAction
from conrl.oracles.protocols import Responder, Support, SupportOracle, Supports

__all__ = [
    "A2C",
    "A2CSettings",
    "BackwardInduction",
    "Responder",
    "Support",
    "SupportOracle",
    "Supports",
    "WithNullAction",
]
