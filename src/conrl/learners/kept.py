"""Policies as arrays, as they stand in a learner's file: each by the least that tells it from others, to the bit."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from conrl import kernels
from conrl._types import Array, Float, Int
from conrl.learners.arrays import group, prefixed
from conrl.policy import Deterministic, Null, Policy, SparsePolicy
from conrl.spending import SpentPolicy

NULL, DETERMINISTIC, MARKOV, SPENT, SPARSE = range(5)
MOST_MIXED = 0.25  # a policy that mixes at no larger a share of (step, state) pairs is stored by those alone


class Sparse(NamedTuple):
    """A Markov policy as its most likely actions and the few places where it mixes."""

    actions: NDArray[np.int16]  # [H, S]
    at: Int  # [m]: step * S + state of the places where it mixes
    rows: Float  # [m, A]: what it plays there

    @classmethod
    def of(cls, policy: Policy) -> Sparse | None:
        """A policy in this form; None where it mixes at too many places."""
        H, S, A = policy.shape
        if isinstance(policy, SparsePolicy) and policy.places.size <= MOST_MIXED * H * S:
            return cls(policy.modes.astype(np.int16), policy.places, policy.rows)
        actions, at, rows, count = kernels.mixing(policy.probabilities.reshape(H * S, A), int(MOST_MIXED * H * S))
        return None if count < 0 else cls(actions.reshape(H, S), at, rows)

    def policy(self) -> Policy:
        """The policy again, to the bit."""
        H, S = self.actions.shape
        table = np.zeros((H * S, self.rows.shape[1]))
        table[np.arange(H * S), self.actions.reshape(-1)] = 1.0
        table[self.at] = self.rows
        return Policy._trusted(table.reshape(H, S, -1))


Kept = Policy | Sparse


def compact(policy: Kept) -> Kept:
    """A Markov policy by the places where it mixes, if they are few."""
    if isinstance(policy, (Null, Deterministic, SpentPolicy, Sparse)):
        return policy
    return Sparse.of(policy) or policy


def fingerprint(policy: Kept) -> str:
    """Tells a policy from others, by 16 bytes."""
    digest = hashlib.blake2b(digest_size=16)
    if isinstance(policy, Sparse):  # of one shape, all that a learner keeps; not in any file
        for array in policy:
            digest.update(array.data)
        return f"sparse {digest.hexdigest()}"
    arrays = {} if isinstance(policy, Null) else policy._arrays()
    if isinstance(policy, Deterministic):  # the same, however it is held
        arrays["actions"] = policy.actions.astype(np.int16, copy=False)
    for name in sorted(arrays):
        array = np.asarray(arrays[name])
        digest.update(f"{name} {array.dtype} {array.shape}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()


def stored(policies: Sequence[Kept]) -> dict[str, Array]:
    """Policies as arrays: kinds [n], and the tables of each kind one after the other."""
    kept = [compact(policy) for policy in policies]
    kinds = np.array([_kind(p) for p in kept], dtype=np.int64)
    arrays: dict[str, Array] = {"kinds": kinds}
    if (kinds == DETERMINISTIC).any():
        arrays["actions"] = _narrow(np.stack([p.actions for p in kept if isinstance(p, Deterministic)]))
    if sparse := [p for p in kept if isinstance(p, Sparse)]:
        arrays["modes"] = _narrow(np.stack([p.actions for p in sparse]))
        arrays["places"] = np.array([p.at.size for p in sparse], dtype=np.int64)
        arrays["at"], arrays["rows"] = (np.concatenate([p[i] for p in sparse]) for i in (1, 2))
    if (kinds == MARKOV).any():
        arrays["tables"] = np.stack([p.probabilities for p in kept if isinstance(p, Policy) and _kind(p) == MARKOV])
    for i, policy in enumerate(p for p in kept if isinstance(p, SpentPolicy)):
        arrays |= prefixed(f"spent{i}_", {name: np.asarray(array) for name, array in policy._arrays().items()})
    return arrays


def restored(state: Mapping[str, Array], shape: tuple[int, int, int]) -> tuple[Policy, ...]:
    """The policies that `stored` took apart, to the bit; refuses what makes none of `shape` (H, S, A)."""
    actions, tables = iter(state.get("actions", ())), iter(state.get("tables", ()))
    sparse = _sparse_policies(state, shape)
    spending = itertools.count()
    policies: list[Policy] = []
    for kind in state["kinds"].tolist():
        policy: Policy
        if kind == DETERMINISTIC:
            policy = Deterministic(next(actions), shape[2])
        elif kind == SPARSE:
            policy = next(sparse)
        elif kind == SPENT:
            policy = SpentPolicy._read(group(state, f"spent{next(spending)}_"))
        elif kind in (MARKOV, NULL):
            policy = Policy(next(tables)) if kind == MARKOV else Null(*shape)
        else:
            raise ValueError(f"{kind} is no kind of policy")
        if policy.shape != shape:
            raise ValueError(f"a policy of shape {policy.shape}; expected {shape}")
        policies.append(policy)
    return tuple(policies)


def _sparse_policies(state: Mapping[str, Array], shape: tuple[int, int, int]) -> Iterator[Policy]:
    """The policies that were stored by where they mix; refuses what makes none of this shape."""
    end = 0
    for modes, places in zip(state.get("modes", ()), state.get("places", ()), strict=True):
        begin, end = end, end + int(places)
        part = Sparse(modes.astype(np.int16), state["at"][begin:end], state["rows"][begin:end])
        fits = part.actions.shape == shape[:2] and part.rows.shape == (int(places), shape[2])
        if not fits or part.at.shape != (int(places),) or part.at.dtype != np.int64:
            raise ValueError(f"a policy of shape {part.actions.shape}; expected {shape}")
        inside = (part.actions >= 0) & (part.actions < shape[2])
        if not inside.all() or (part.at < 0).any() or (part.at >= shape[0] * shape[1]).any():
            raise ValueError("a policy mixes, or acts, where there is nothing")
        yield Policy(part.policy().probabilities)


def _narrow(actions: NDArray[np.int16]) -> Array:
    """In bytes, where they fit."""
    return actions.astype(np.uint8) if actions.size and actions.max() < 256 else actions


def _kind(policy: Kept) -> int:
    if isinstance(policy, Sparse):
        return SPARSE
    if isinstance(policy, SpentPolicy):
        return SPENT
    return NULL if isinstance(policy, Null) else DETERMINISTIC if isinstance(policy, Deterministic) else MARKOV
