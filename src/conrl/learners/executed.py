"""The policies that were executed, each once, with how often: what the PAC policy is made of."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from conrl._types import Array
from conrl.learners.kept import Kept, Sparse, compact, fingerprint, restored, stored
from conrl.mixture import Mixture
from conrl.policy import Policy


class Executed:
    """Counts policies by what they play."""

    def __init__(self) -> None:
        self._policies: dict[str, Kept] = {}
        self._times: dict[str, int] = {}

    def __len__(self) -> int:
        return sum(self._times.values())

    def add(self, policy: Policy, times: int = 1) -> None:
        """Tell it from the others by its fingerprint."""
        kept = compact(policy)
        key = fingerprint(kept)
        self._policies.setdefault(key, kept)
        self._times[key] = self._times.get(key, 0) + times

    def mixture(self) -> Mixture:
        """Each with its share."""
        times = np.array(list(self._times.values()), dtype=np.float64)
        return Mixture(
            times / times.sum(), [k.policy() if isinstance(k, Sparse) else k for k in self._policies.values()]
        )

    def state(self) -> dict[str, Array]:
        """times [n], and the policies as `stored` has them."""
        return stored(list(self._policies.values())) | {"times": np.array(list(self._times.values()), np.int64)}

    @classmethod
    def load(cls, state: Mapping[str, Array], shape: tuple[int, int, int]) -> Executed:
        """From what `state` gave; policies have `shape` (H, S, A)."""
        executed = cls()
        for policy, times in zip(restored(state, shape), state["times"].tolist(), strict=True):
            if times < 1:
                raise ValueError(f"a policy was executed {times} times")
            executed.add(policy, times)
        return executed
