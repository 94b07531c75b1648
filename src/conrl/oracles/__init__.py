"""Who answers a direction w? Exactly (`SupportOracle`) or approximately (`Responder`).

Every value vector z = (reward, costs) that some policy attains lies in a convex polytope Z. A planner asks an
exact oracle only for its support function: max over z in Z of w.z, a z that attains it, and its policy.
"""

from typing import Any, overload

from conrl.errors import SpecError
from conrl.model.criteria import Average, Criterion, Discounted, Total
from conrl.model.fleet import Fleet
from conrl.oracles.a2c import A2C, A2CSettings
from conrl.oracles.backward_induction import BackwardInduction
from conrl.oracles.large import LargeBackwardInduction
from conrl.oracles.null_action import WithNullAction
from conrl.oracles.protocols import ModelOracle, Responder, Support, SupportOracle, Supports
from conrl.oracles.sum import SumOracle

__all__ = [
    "A2C",
    "A2CSettings",
    "BackwardInduction",
    "LargeBackwardInduction",
    "ModelOracle",
    "Responder",
    "SumOracle",
    "Support",
    "SupportOracle",
    "Supports",
    "WithNullAction",
    "exact_oracle",
]


LARGE = 6_000_000  # transitions from which threads are worth it, and copies are not (benchmarks/large.py)


@overload
def exact_oracle(model: Fleet, threads: int | None = None) -> SumOracle: ...
@overload
def exact_oracle(model: Any, threads: int | None = None) -> ModelOracle: ...
def exact_oracle(model: Any, threads: int | None = None) -> ModelOracle | SumOracle:
    """The exact oracle of a model, by what kind of model it is: planners ask for it here and know no other.

    `threads`: how many a large model or a fleet may be worked on with; by default as many as there are cores.
    """
    if isinstance(model, Fleet):
        return SumOracle(model, threads)
    horizon = model.horizon
    if threads is not None and isinstance(horizon, Criterion):
        raise SpecError("threads are for models with a number of steps; leave threads out", key=("threads",))
    if isinstance(horizon, (Discounted, Total)):
        from conrl.oracles.stationary import DiscountedOracle, TotalOracle

        return DiscountedOracle(model) if isinstance(horizon, Discounted) else TotalOracle(model)
    if isinstance(horizon, Average):
        from conrl.oracles.average import AverageOracle

        return AverageOracle(model)
    if model.graph.probability.size >= LARGE and not model.step_dependent:
        return LargeBackwardInduction(model, threads)
    return BackwardInduction(model, threads)
