"""Units of one shape, as the kernels of fleets read them: a common pattern, and the numbers of 8 units side by side.

A *kind* is a process (transitions, reward, costs); a *member* is a kind with a first state, or a distribution of it,
and a count. In a stack of different units each kind has one member. A model of which there are many units is a stack
of one kind, with a member for each state that some of them are in.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from conrl import kernels
from conrl._types import Array, Float, Int
from conrl.model.mdp import ConstrainedMDP

LANES = kernels.LANES


@dataclass(frozen=True, eq=False)
class Stack:
    """Letters as in `conrl.kernels.fleets`; nothing here is written to once it is made."""

    num_states: int
    num_actions: int
    step_dependent: bool  # whether every step has pairs of its own
    kinds: int
    members: int
    first: Int  # [S+1], or [H*S+1] where every step has pairs of its own
    start: Int  # [P+1]
    successor: Int  # [K]
    action: Int  # [P]
    probability: Float  # [D, K, LANES]
    pay: Float  # [D, 1+d, P, LANES]
    outcome_pay: Float | None  # [D, 1+d, K, LANES], where the model pays by outcome
    size: Float  # [D, 1+d, LANES]: the largest size of each coordinate's pay
    data: Int  # [B]
    initial: Float  # [B, S, LANES]
    count: Float  # [B, LANES]

    @property
    def shift(self) -> int:
        """By how many nodes one step is apart from the next: 0, or S where every step has pairs of its own."""
        return self.num_states if self.step_dependent else 0

    @property
    def kind(self) -> Int:
        """[M]: which kind each member is."""
        if self.kinds == 1:
            return np.zeros(self.members, dtype=np.int64)
        return np.arange(self.members)

    @property
    def paid(self) -> Float:
        """[D, 1+d, K or P, LANES]: what is really paid, by outcome if that is known."""
        return self.pay if self.outcome_pay is None else self.outcome_pay

    @property
    def counts(self) -> Float:
        """[M]."""
        return self.count.reshape(-1)[: self.members]

    @property
    def sizes(self) -> Float:
        """[M, 1+d]: the largest size of the pay of each member."""
        table = np.moveaxis(self.size, 1, 2).reshape(-1, self.size.shape[1])
        return table[self.kind]

    @property
    def starts(self) -> Float:
        """[M, S]: the distribution of the first state of each member."""
        return np.moveaxis(self.initial, 1, 2).reshape(-1, self.num_states)[: self.members]

    def pairs(self, h: int, choice: Array) -> Int:
        """[S]: the pair that is played in each state at step h, from choices [S]; any where there is none."""
        nodes = h * self.shift + np.arange(self.num_states)
        return np.minimum(self.first[nodes] + choice, self.action.size - 1)

    def later(self, passed: int) -> Stack:
        """The same from a later step on."""
        if passed == 0 or not self.step_dependent:
            return self
        pair = int(self.first[passed * self.num_states])
        outcome = int(self.start[pair])
        made = replace(
            self,
            first=self.first[passed * self.num_states :] - pair,
            start=self.start[pair:] - outcome,
            successor=self.successor[outcome:],
            action=self.action[pair:],
            probability=np.ascontiguousarray(self.probability[:, outcome:]),
            pay=np.ascontiguousarray(self.pay[:, :, pair:]),
            outcome_pay=None if self.outcome_pay is None else np.ascontiguousarray(self.outcome_pay[:, :, outcome:]),
        )
        return replace(made, size=np.abs(made.pay).max(axis=2))

    def stuck(self, horizon: int) -> tuple[int, int] | None:
        """A step and a state without any action that some member may come to; None if there is none."""
        if not self.step_dependent:
            return None
        begin: Float = np.asarray((self.starts > 0.0).any(axis=0), dtype=np.float64)
        reached = kernels.reachable_by_step(self.first, self.start, self.successor, begin, horizon)
        missing = np.argwhere(reached & (np.diff(self.first).reshape(horizon, -1) == 0))
        return None if missing.size == 0 else (int(missing[0, 0]), int(missing[0, 1]))

    def at(self, starts: Int, counts: Float) -> Stack:
        """The same kinds in given states [M], so many of each [M]; a stack of different units keeps its members."""
        rows = np.zeros((starts.size, self.num_states))
        rows[np.arange(starts.size), starts] = 1.0
        return with_members(self, rows, counts)


def with_members(stack: Stack, starts: Float, counts: Float) -> Stack:
    """Members with the distributions [M, S] and counts [M]."""
    initial, count = interleaved(starts), interleaved(counts[:, None])[:, 0]
    blocks = np.zeros(count.shape[0], dtype=np.int64) if stack.kinds == 1 else np.arange(count.shape[0])
    made = replace(stack, members=counts.size, data=blocks, initial=initial, count=count)
    for array in (made.data, made.initial, made.count):
        array.flags.writeable = False
    return made


def interleaved(rows: Float) -> Float:
    """[B, n, LANES] of rows [M, n], filled up with zeros."""
    full = np.zeros((-(-rows.shape[0] // LANES) * LANES, rows.shape[1]))
    full[: rows.shape[0]] = rows
    return np.ascontiguousarray(np.moveaxis(full.reshape(-1, LANES, rows.shape[1]), 1, 2))


def of_model(mdp: ConstrainedMDP, count: int) -> Stack:
    """So many units of one model."""
    g = mdp.graph

    def spread(table: Float) -> Float:
        """[1, ..., LANES]: the same in each lane."""
        return np.ascontiguousarray(np.repeat(table[None, ..., None], LANES, axis=-1))

    stack = Stack(
        num_states=mdp.num_states,
        num_actions=mdp.num_actions,
        step_dependent=mdp.step_dependent,
        kinds=1,
        members=1,
        first=g.first.astype(np.int64),
        start=g.start.astype(np.int64),
        successor=g.successor.astype(np.int64),
        action=mdp.action.astype(np.int64),
        probability=spread(g.probability),
        pay=spread(mdp.pay.T),
        outcome_pay=None if mdp.outcome_pay is None else spread(mdp.outcome_pay.T),
        size=spread(np.abs(mdp.pay).max(axis=0)),
        data=np.zeros(1, dtype=np.int64),
        initial=np.zeros(0),
        count=np.zeros(0),
    )
    return with_members(stack, mdp.initial[None], np.array([float(count)]))
