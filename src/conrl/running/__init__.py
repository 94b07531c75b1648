"""Where a learner meets a world: the loop, the worlds, and the history of a run."""

from conrl.running.history import History
from conrl.running.loop import learn
from conrl.running.worlds import GymnasiumWorld, ModelWorld, World

__all__ = ["GymnasiumWorld", "History", "ModelWorld", "World", "learn"]
