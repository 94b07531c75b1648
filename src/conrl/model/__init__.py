"""What a process is (`ConstrainedMDP`): states, actions, outcomes, rewards, costs; what a learner may know (`Task`)."""

from conrl.model.mdp import ConstrainedMDP
from conrl.model.task import Task

__all__ = ["ConstrainedMDP", "Task"]
