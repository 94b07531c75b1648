"""A model read in blocks of rows: one that is too large to be held twice.

Each block is about the next few states. What it says is checked, sorted and put behind what the earlier blocks said, in
arrays that grow as they are filled; then it may be forgotten. What comes out is `Outcomes`, as from any other way to
give a model, and is validated as such.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from conrl import kernels
from conrl._types import Array, Float, Int
from conrl.arguments import any_array, float_array
from conrl.errors import ModelError, shown
from conrl.model.outcomes import Outcomes, read_indices
from conrl.model.reading import check_sizes

SPARE = 1.02  # room for so many times what the blocks so far suggest
STEP, LEAST = 8, 1 << 20  # but not more than so many times what there was, or this many

Blocks = Iterable[tuple[Any, ...]] | Callable[[], Iterable[tuple[Any, ...]]]


def read_blocks(blocks: Blocks, num_states: int, num_actions: int) -> Outcomes:
    """All blocks, one after the other; `ConstrainedMDP.from_blocks` says what they hold."""
    check_sizes(num_states, num_actions)
    given = blocks() if callable(blocks) else blocks
    try:
        every = iter(given)
    except TypeError:
        raise ModelError(
            f"blocks is {shown(blocks)}; expected an iterable of blocks, or a function that gives one"
        ) from None
    S, A = num_states, num_actions
    successors, probabilities = np.empty(0, dtype=np.int32), np.empty(0)
    starts, rows, pay = np.empty(1, dtype=np.int64), np.empty(0, dtype=np.int64), np.empty((0, 0))
    states = pairs = end = 0
    for block in every:
        where = f"the block from state {states} on"
        start, successor, probability, paid, own = _read_block(block, where, S, A)
        n = paid.shape[0] // A
        if states + n > S:
            raise ModelError(f"the blocks have more than the {S} states of num_states")
        if not pay.size:
            pay = np.empty((0, paid.shape[1]))
        if paid.shape[1] != pay.shape[1]:
            raise ModelError(f"{where} has {paid.shape[1] - 1} costs; those before it have {pay.shape[1] - 1}")
        share = SPARE * S / max(1, states + n)
        successors = _grown(successors, end + successor.size, share)
        probabilities = _grown(probabilities, end + successor.size, share)
        starts = _grown(starts, pairs + own.size + 1, share)
        rows, pay = _grown(rows, pairs + own.size, share), _grown(pay, pairs + own.size, share)
        kept = slice(pairs, pairs + own.size)
        end = kernels.gather_outcomes(start, successor, probability, starts[kept], successors, probabilities, end)
        rows[kept] = own + states * A
        pay[kept] = paid if own.size == paid.shape[0] else paid[own]
        states, pairs = states + n, pairs + own.size
    if states < S:
        raise ModelError(f"the blocks have {states} states; expected {S}, as num_states says")
    starts[pairs] = end
    for array, size in ((successors, end), (probabilities, end), (starts, pairs + 1), (rows, pairs)):
        array.resize(size, refcheck=False)
    pay.resize((pairs, pay.shape[1]), refcheck=False)
    return Outcomes(S, A, 0, rows, starts, successors, probabilities, list(pay.T))


def _read_block(block: Any, where: str, S: int, A: int) -> tuple[Int, Array, Float, Float, Int]:
    """Starts, successors and probabilities of the pairs of a block that exist, the pay [n A, 1+d] of all, and which
    exist."""
    if not isinstance(block, (tuple, list)) or len(block) not in (4, 5):
        raise ModelError(
            f"{where} is {shown(block)}; expected (successor, probability, rewards, costs), or with start before them"
        )
    *outcomes, rewards, costs = block
    r = float_array(rewards, "rewards")
    if r.ndim != 2 or r.shape[1] != A:
        raise ModelError(f"{where}: rewards has shape {r.shape}; expected (n, {A}) for n states")
    n = r.shape[0]
    c = np.empty((n, A, 0)) if costs is None else float_array(costs, "costs")
    if c.ndim != 3 or c.shape[:2] != (n, A):
        raise ModelError(f"{where}: costs has shape {c.shape}; expected ({n}, {A}, d)")
    p = float_array(outcomes[-1], "probability")
    t = any_array(outcomes[-2], "successor")
    if len(block) == 4:
        if p.ndim != 3 or p.shape[:2] != (n, A):
            raise ModelError(f"{where}: probability has shape {p.shape}; expected ({n}, {A}, successors)")
        start = np.arange(n * A + 1, dtype=np.int64) * p.shape[2]
        own = np.arange(n * A)
    else:
        first = any_array(outcomes[0], "start")
        fits = p.ndim == 1 and first.shape == (n * A + 1,) and first.dtype.kind in "iu"
        if not fits or first[0] != 0 or first[-1] != p.size or (first[1:] < first[:-1]).any():
            raise ModelError(
                f"{where}: start has shape {first.shape} and type {first.dtype}; expected {n * A + 1} whole numbers "
                f"that rise from 0 to {p.size}, the number of probabilities"
            )
        own = np.flatnonzero(first[1:] > first[:-1])
        start = np.append(first[:-1][own], first[-1]).astype(np.int64)
    t = read_indices(t, "successor", p.shape, S)
    paid = np.empty((n * A, 1 + c.shape[2]))
    paid[:, 0] = r.reshape(-1)
    paid[:, 1:] = c.reshape(n * A, c.shape[2])
    return start, t.reshape(-1), np.ascontiguousarray(p).reshape(-1), paid, own


def _grown(array: Any, size: int, share: float) -> Any:
    """An array with room for `size` rows: at least, and `share` times that if it must grow.

    Memory of this size is moved to where there is room by the system, not copied. Blocks need not be alike, so
    that it is not believed at once that all of them are as large as the first.
    """
    if array.shape[0] >= size:
        return array
    most = STEP * max(array.shape[0], LEAST)
    array.resize((max(size, min(int(size * share), most)), *array.shape[1:]), refcheck=False)
    return array
