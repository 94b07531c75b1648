"""What a plan of a fleet is: who plays what, what that is expected to earn and spend, and the certificate.

A unit that mixes draws its policy for itself. If instead each of them settles on one of its policies, the expectation
may exceed a limit by what these few units may cost more: `FleetPlan.rounding`.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conrl import kernels
from conrl._types import Float, Int
from conrl.arguments import is_int
from conrl.errors import SpecError, shown
from conrl.mixture import Mixture
from conrl.model.fleet import Fleet
from conrl.notebook import Columns, Display, Displayed, Framed, Plotted
from conrl.oracles import SumOracle
from conrl.planners.basis import seen_steps
from conrl.planners.result import MESSAGES, Checked, Row, limited_totals, rows_kept, split_prices
from conrl.policy import Deterministic, Policy
from conrl.wording import line, totals, with_arguments

if TYPE_CHECKING:
    from conrl.planners.sensitivity import Sensitivity


class Part(NamedTuple):
    """Units of one type that do the same."""

    units: int
    policy: Policy | Mixture  # a mixture is drawn anew by each unit
    value: Float  # [1+d]: the expected reward and costs of one of them


class Mix(NamedTuple):
    """A unit that mixes: which of the columns, and how likely each."""

    unit: int  # the rank among the units of its member
    columns: tuple[int, ...]
    weights: tuple[float, ...]


@dataclass(frozen=True, eq=False)
class Split:
    """Who plays which column. Members with more than one policy are in `parts`; of the others all units play `main`."""

    main: NDArray[np.int32]  # [M]
    parts: dict[int, list[tuple[int, int]]]  # member: (column, how many units), before those that mix
    mixes: dict[int, list[Mix]]  # member: its units that mix


@dataclass(frozen=True, eq=False, repr=False)
class FleetPlan(Displayed, Framed, Plotted):
    """The best policies found for the units of a fleet, with the certificate.

    `reward` and `costs` are expected totals of the whole fleet, `bound` a proven upper bound on the reward within the
    limits, `gap` their difference. `prices[i]` >= 0 is the shadow price of limit i: the gain in reward per unit, if it
    is loosened a little; `floor_prices[i]` the same of floor i, if it is lowered; `step_prices` of limits per step, by
    cost name. They are computed when first read. `multipliers` [R] prove the bound; `sensitivity()` tells what
    tightening costs too, and how far each holds. `shares` [types, d] is what each
    type (each unit, in a stack) is expected to spend and `rewards` [types] what it earns. `mixed` are the units that
    mix; every other has one deterministic policy. `policy(unit)` and `parts(type)` make the policies.

    As a data frame: `total` ("reward", the name of a cost, then limits on single steps), `value`, `limit`, `price`,
    `floor`, `floor_price`.
    """

    fleet: Fleet
    status: str  # a key of MESSAGES
    reward: float
    costs: Float  # [d]
    bound: float
    multipliers: Float  # [R]: they prove the bound
    iterations: int  # directions asked of the oracle
    limits: Float  # [d]: that it was planned for; inf for none
    floors: Float  # [d]
    rewards: Float  # [types]
    shares: Float  # [types, d]
    step_costs: dict[str, Float]  # expected costs of each step, of those limited so
    rounding: Float  # [R]: by how much rows may be exceeded if mixing units settle on one policy
    checked: Checked
    oracle: SumOracle
    directions: Float  # [n, 1 + ...]: of the columns
    columns: tuple[Float, Float]  # their weights [n] and points [n, 1 + ...], as they were mixed
    split: Split

    def __repr__(self) -> str:
        value = totals(("reward", *self.fleet.cost_names), (self.reward, *self.costs))
        units = f"{self.fleet.num_units:,} units: {value}, gap {self.gap:.1e}, {self.status}"
        return line(self, units, seen_steps(self.fleet))

    def _columns(self) -> Columns:
        names, value = self.fleet.cost_names, (self.reward, *self.costs)
        table = limited_totals(names, value, (self.limits, self.floors), (self.prices, self.floor_prices))
        for k, i in enumerate(self.fleet.step_costs):
            name, H = names[i], self.fleet.horizon
            limits = np.where(np.isfinite(self.fleet.step_limits[k]), self.fleet.step_limits[k], np.nan)
            rows = {
                "total": [f"{name} at step {self.fleet.step + h}" for h in range(H)],
                "value": self.step_costs[name].tolist(),
                "limit": limits.tolist(),
                "price": self.step_prices[name].tolist(),
            }
            for title in table:
                table[title] += rows.get(title, [np.nan] * H)
        return table

    def _display(self) -> Display:
        title = f"Plan of a fleet of {self.fleet.num_units:,} units: {self.status}, gap {self.gap:.1e}"
        return Display(title, self._columns(), (self.message,))

    @property
    def objective(self) -> float:
        """What was maximised: the reward."""
        return self.reward

    @property
    def gap(self) -> float:
        """bound - reward: the most by which anything within the limits could do better."""
        return self.bound - self.reward

    @property
    def message(self) -> str:
        """What the status means and, where something is wrong, the remedy; and whether models are only estimates."""
        return "; ".join(filter(None, (with_arguments(MESSAGES[self.status]), seen_steps(self.fleet))))

    @property
    def rows(self) -> tuple[Row, ...]:
        """The limits, then the floors: value, bound, price, excess and allowance."""
        return rows_kept(self.checked, self._row_prices)

    @property
    def prices(self) -> Float:
        """[d]: the shadow price of each limit."""
        return self._split_prices[0][: self.fleet.num_costs]

    @property
    def floor_prices(self) -> Float:
        """[d]: the shadow price of each floor."""
        return self._split_prices[1][: self.fleet.num_costs]

    @property
    def step_prices(self) -> dict[str, Float]:
        """[H] each: the shadow prices of limits per step, by cost name."""
        fleet, H = self.fleet, self.fleet.horizon
        prices = self._split_prices[0][fleet.num_costs :].reshape(-1, H)
        return {fleet.cost_names[i]: prices[k] for k, i in enumerate(fleet.step_costs)}

    @property
    def _split_prices(self) -> tuple[Float, Float]:
        return split_prices(self.checked.rows, self._row_prices, self.oracle.num_costs)

    @cached_property
    def _row_prices(self) -> Float:
        """[R]: the gain in reward per unit of each row, loosened a little."""
        from conrl.planners.sensitivity import pricing_of  # above this layer: it plans

        prices: Float = pricing_of(self).prices()
        return prices

    def sensitivity(self) -> Sensitivity:
        """What loosening and tightening each limit and floor would change, how far that holds, and what one whole unit
        more is worth."""
        from conrl.planners.sensitivity import pricing_of  # above this layer: it plans

        found: Sensitivity = pricing_of(self).sensitivity()
        return found

    @property
    def mixed(self) -> tuple[int, ...]:
        """The units that mix policies, by number."""
        found = []
        for member, mixes in self.split.mixes.items():
            units = self._units_of(member)
            found += [int(units[mix.unit]) for mix in mixes]
        return tuple(sorted(found))

    def policy(self, unit: int) -> Policy | Mixture:
        """The policy of one unit."""
        if not is_int(unit) or not 0 <= unit < self.fleet.num_units:
            raise SpecError(
                f"unit is {shown(unit)}; the fleet has the units 0..{self.fleet.num_units - 1}", key=("unit",)
            )
        member = int(self.fleet.unit_member[unit])
        if member not in self.split.parts:
            return self._policy(member, int(self.split.main[member]))
        rank = int(np.searchsorted(self._units_of(member), unit))
        for column, count in self.split.parts[member]:
            if rank < count:
                return self._policy(member, column)
            rank -= count
        return self._mixture(member, self.split.mixes[member][rank])

    def parts(self, type: int) -> list[Part]:
        """What the units of a type do: how many of them play which policy."""
        if not is_int(type) or not 0 <= type < self.fleet.num_types:
            raise SpecError(
                f"type is {shown(type)}; the fleet has the types 0..{self.fleet.num_types - 1}", key=("type",)
            )
        found = []
        for member in np.flatnonzero(self.fleet.member_type == type).tolist():
            whole = [(int(self.split.main[member]), int(self.fleet.counts[member]))]
            for column, count in self.split.parts.get(member, whole):
                found.append(Part(count, self._policy(member, column), self._value(member, column)))
            for mix in self.split.mixes.get(member, []):
                value = np.asarray(mix.weights) @ np.array([self._value(member, j) for j in mix.columns])
                found.append(Part(1, self._mixture(member, mix), value))
        return found

    def to_html(self, path: str | Path | None = None) -> str:
        """A page with a slider for every shared limit, open at those of the plan (`conrl.explore`); written, if there
        is a path."""
        from conrl.explorer import to_html  # above this layer: the plan hands itself on

        return to_html(self, path)

    def _units_of(self, member: int) -> Int:
        return np.flatnonzero(self.fleet.unit_member == member)

    def _mixture(self, member: int, mix: Mix) -> Mixture:
        values = np.array([self._value(member, j) for j in mix.columns])
        return Mixture(mix.weights, [self._policy(member, j) for j in mix.columns], values)

    def _value(self, member: int, column: int) -> Float:
        """[1+d]: of one unit of a member."""
        stack, rank = self._place(member)
        part = self.fleet.stacks[stack]
        states = part.starts[rank]
        actions = self._actions(stack, rank, column)
        block, lane = divmod(int(part.kind[rank]), kernels.LANES)
        p, x = part.probability[block, :, lane], part.pay[block, :, :, lane]
        total, mu = np.zeros(x.shape[0]), states
        for h in range(self.fleet.horizon):
            pairs = part.pairs(h, actions[h])
            total = total + x[:, pairs] @ mu
            then = np.zeros_like(mu)
            for s in np.flatnonzero(mu):
                mine = slice(part.start[pairs[s]], part.start[pairs[s] + 1])
                np.add.at(then, part.successor[mine], mu[s] * p[mine])
            mu = then
        return total

    def _place(self, member: int) -> tuple[int, int]:
        """The stack of a member, and its number there."""
        for i, stack in enumerate(self.fleet.stacks):
            if member < stack.members:
                return i, member
            member -= stack.members
        raise IndexError(member)

    def _actions(self, stack: int, rank: int, column: int) -> NDArray[np.uint16]:
        """[H, S]: the choices of a member among the actions of each state."""
        part = self.fleet.stacks[stack]
        rows = np.full(part.members, -1, dtype=np.int64)
        rows[rank] = 0
        table: NDArray[np.uint16] = np.zeros((1, self.fleet.horizon, part.num_states), dtype=np.uint16)
        self.oracle.choices(stack, self.directions[column], rows, table)
        return table.reshape(table.shape[1:])

    def _policy(self, member: int, column: int) -> Deterministic:
        stack, rank = self._place(member)
        part = self.fleet.stacks[stack]
        choices = self._actions(stack, rank, column)
        actions = np.stack([part.action[part.pairs(h, choice)] for h, choice in enumerate(choices)])
        return Deterministic(actions, part.num_actions)

    def tables(self, stack: int, members: Int) -> tuple[NDArray[np.uint16], Int, list[tuple[int, Int, Float]]]:
        """What a simulation plays: choices [T, H, S], and the row of each unit of a stack, whose members are given.

        Units that mix are listed with their rows and the weights of these.
        """
        part = self.fleet.stacks[stack]
        offset = sum(other.members for other in self.fleet.stacks[:stack])
        known: dict[tuple[int, int], int] = {}  # the row of a member and column, of members with several policies

        def at(rank: int, column: int) -> int:
            return known.setdefault((rank, column), part.members + len(known))

        choice = members.copy()
        mixing: list[tuple[int, Int, Float]] = []
        several = [m - offset for m in self.split.parts if 0 <= m - offset < part.members]
        for rank in several:
            units = np.flatnonzero(members == rank)
            begin = 0
            for column, count in self.split.parts[rank + offset]:
                choice[units[begin : begin + count]] = at(rank, column)
                begin += count
            for mix in self.split.mixes.get(rank + offset, []):
                rows = np.array([at(rank, j) for j in mix.columns])
                mixing.append((int(units[mix.unit]), rows, np.array(mix.weights)))
        table = np.zeros((part.members + len(known), self.fleet.horizon, part.num_states), dtype=np.uint16)
        main = self.split.main[offset : offset + part.members]
        for column, direction in enumerate(self.directions):
            alone = np.where(main == column, np.arange(part.members), -1)
            alone[several] = -1
            shared = np.full(part.members, -1, dtype=np.int64)
            for (rank, j), row in known.items():
                if j == column:
                    shared[rank] = row
            for rows in (alone, shared):
                if (rows >= 0).any():
                    self.oracle.choices(stack, direction, rows, table)
        return table, choice, mixing
