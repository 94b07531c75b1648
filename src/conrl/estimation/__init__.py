"""What experience says: counts and the empirical model, how far it may be off (bonuses), models from logs."""

from conrl.estimation.adaptive import AdaptiveBonus
from conrl.estimation.bonuses import BernsteinBonus, Bonus, ScaledBonus, TheoryBonus
from conrl.estimation.counts import Counts
from conrl.estimation.evidence import Evidence
from conrl.estimation.logs import load_episodes, save_episodes

__all__ = [
    "AdaptiveBonus",
    "BernsteinBonus",
    "Bonus",
    "Counts",
    "Evidence",
    "ScaledBonus",
    "TheoryBonus",
    "load_episodes",
    "save_episodes",
]
