"""The policies that were executed, each once, with how often: what the PAC policy is made of."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from conrl._types import Array
from conrl.policy import Deterministic, Mixture, Null, Policy
from conrl.spending import SpentPolicy

NULL, DETERMINISTIC, MARKOV, SPENT = range(4)


class Executed:
    """Counts policies by what they play."""

    def __init__(self) -> None:
        self._policies: dict[bytes, Policy] = {}
        self._times: dict[bytes, int] = {}

    def __len__(self) -> int:
        return sum(self._times.values())

    def add(self, policy: Policy, times: int = 1) -> None:
        """Tell it from the others by 16 bytes."""
        key = b""
        if isinstance(policy, SpentPolicy):
            arrays = policy._arrays()
            digest = hashlib.blake2b(digest_size=16)
            for name in sorted(arrays):
                array = np.asarray(arrays[name])
                digest.update(f"{name} {array.dtype} {array.shape}".encode())
                digest.update(np.ascontiguousarray(array).tobytes())
            key = digest.digest()
        elif not isinstance(policy, Null):
            table = policy.actions if isinstance(policy, Deterministic) else policy.probabilities
            key = hashlib.blake2b(np.ascontiguousarray(table).tobytes(), digest_size=16).digest()
        self._policies.setdefault(key, policy)
        self._times[key] = self._times.get(key, 0) + times

    def mixture(self) -> Mixture:
        """Each with its share."""
        times = np.array(list(self._times.values()), dtype=np.float64)
        return Mixture(times / times.sum(), list(self._policies.values()))

    def state(self) -> dict[str, Array]:
        """kinds [n], times [n], and the tables of each kind one after the other."""
        policies = list(self._policies.values())
        kinds = np.array([_kind(p) for p in policies], dtype=np.int64)
        arrays: dict[str, Array] = {"kinds": kinds, "times": np.array(list(self._times.values()), np.int64)}
        if (kinds == DETERMINISTIC).any():
            arrays["actions"] = _narrow(np.stack([p.actions for p in policies if isinstance(p, Deterministic)]))
        if (kinds == MARKOV).any():
            arrays["tables"] = np.stack([p.probabilities for p in policies if _kind(p) == MARKOV])
        for i, policy in enumerate(p for p in policies if isinstance(p, SpentPolicy)):
            arrays |= {f"spent{i}_{name}": np.asarray(array) for name, array in policy._arrays().items()}
        return arrays

    @classmethod
    def load(cls, state: Mapping[str, Array], shape: tuple[int, int, int]) -> Executed:
        """From what `state` gave; policies have `shape` (H, S, A)."""
        executed = cls()
        actions, tables = iter(state.get("actions", ())), iter(state.get("tables", ()))
        spending = itertools.count()
        for kind, times in zip(state["kinds"].tolist(), state["times"].tolist(), strict=True):
            policy: Policy
            if kind == DETERMINISTIC:
                policy = Deterministic(next(actions), shape[2])
            elif kind == SPENT:
                prefix = f"spent{next(spending)}_"
                policy = SpentPolicy._read(
                    {n.removeprefix(prefix): a for n, a in state.items() if n.startswith(prefix)}
                )
            elif kind in (MARKOV, NULL):
                policy = Policy(next(tables)) if kind == MARKOV else Null(*shape)
            else:
                raise ValueError(f"{kind} is no kind of policy")
            if policy.shape != shape or times < 1:
                raise ValueError(f"a policy of shape {policy.shape}, executed {times} times; expected {shape}")
            executed.add(policy, times)
        return executed


def _narrow(actions: NDArray[np.int16]) -> Array:
    """In bytes, where they fit."""
    return actions.astype(np.uint8) if actions.size and actions.max() < 256 else actions


def _kind(policy: Policy) -> int:
    if isinstance(policy, SpentPolicy):
        return SPENT
    return NULL if isinstance(policy, Null) else DETERMINISTIC if isinstance(policy, Deterministic) else MARKOV
