"""Shared by OptCMDP, OptPrimalDual and UCBVI: optimism that holds with probability at least 1 - delta.

Each has a radius or a bonus that is proven to hold in all episodes at once, and a `scale` that multiplies it. The proof
needs scale 1; the defaults are far smaller and were chosen by measurement. Visits of all steps are counted together,
unless the task says that the model depends on the step; a state then counts as one for each step. Logged episodes count
as well.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from conrl._types import Arrays, Bool, Float
from conrl.arguments import read_delta, read_positive, read_preset
from conrl.errors import SpecError, shown
from conrl.learners.places import PlacesLearner
from conrl.model import Task


class OptimisticLearner(PlacesLearner):
    """A learner with a failure probability `delta` and a `scale`."""

    def _choose(self, preset: str, delta: float, **given: Any) -> dict[str, Any]:
        """Set preset, delta and scale; the values of the preset, each replaced by what was given instead."""
        self.delta = read_delta(delta)
        chosen = read_preset(self.presets, preset, given)
        self.preset = preset
        self.scale = read_positive(chosen["scale"], "scale", zero=True)
        for name, usual in self.presets["default"].items():
            if isinstance(usual, bool) and not isinstance(chosen[name], bool):
                raise SpecError(f"{name} is {shown(chosen[name])}; it must be True or False")
        return chosen

    @property
    def _k(self) -> int:
        """The number of the coming episode, from 1, logged ones counted."""
        return self.primed + self._episodes + 1

    @property
    def _unknown(self) -> tuple[Bool, Bool]:
        """[P] each: pairs whose transitions are to be learned (all but that of END), and whose reward and costs are
        (not that of START either)."""
        state = self.counts.pair_state
        return state != self.counts.end, state < self.counts.start

    def _saved_table(self, state: Arrays, name: str) -> Float:
        """[H, P]: a saved table of the pairs that there were; there may be more now."""
        table = np.array(state[name], dtype=np.float64)
        if table.ndim != 2 or table.shape[0] != self.counts.horizon or table.shape[1] > self.counts.num_pairs:
            raise ValueError(f"{name} has shape {table.shape}")
        return table


def log_factor(task: Task, episode: int, delta: float) -> float:
    """L_k = ln(8 S A (S + 1 + d) (H k)^2 / delta); where the first state is unknown, S and H count START.

    `task` is that of the counts: `Counts.task`.
    """
    extra = int(task.initial is None)
    S, H = task.num_states + extra, task.horizon + extra
    return float(np.log(8.0 * S * task.num_actions * (S + 1 + task.num_costs) * (H * float(episode)) ** 2 / delta))
