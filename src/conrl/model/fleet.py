"""Many processes that share budgets: a press shop of 25 presses and 400 lathes with money for so many repairs.

Each unit is a process of its own; what couples them are limits on the sums of their costs, in total or in each step.
Value vectors of independent processes add up, so that the set of those of a fleet is a Minkowski sum,

    Z = Z_1 + ... + Z_N,     support(w) = sum_n support_n(w)

and all that planning needs is an oracle that adds (`conrl.oracles.sum`). A limit on the cost i of step h is a limit on
one more coordinate of z: the extended value vector is (reward, d costs in all, then H entries for each cost that is
limited step by step).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float, Int
from conrl.arguments import any_array, frozen, is_list, is_number, read_count, setter
from conrl.errors import ModelError, SpecError, shown, unknown
from conrl.model.criteria import need_steps
from conrl.model.limits import Limits, read_step_limits, resolve_limits
from conrl.model.mdp import ConstrainedMDP
from conrl.model.reading import default_cost_names, read_horizon, read_names
from conrl.model.rows import Rows, rows_of
from conrl.model.stack import Stack, of_model
from conrl.model.units import of_units
from conrl.sizes import check_costs
from conrl.wording import brief, line

if TYPE_CHECKING:
    from conrl.model.fleet_simulation import FleetSimulation

PerStep = Mapping[str, Any]  # a number, or one per step, by cost name
MOST_UNITS = 2**53  # they are counted in doubles
MOST_APART = 2 * 10**7  # units that are told apart: simulated, or each in a state of its own


class Fleet:
    """Many units with shared limits, immutable and validated once.

    Args:
        groups: pairs of a `ConstrainedMDP` and how many units there are of it. All have the same horizon and cost
            names; limits of the models themselves are not used.
        limits: limit of each total cost of all units together, `[d]` or by cost name; `None` or `inf` for none.
        floors: the least of each total cost, likewise.
        per_step: limits of what all units together cost in one step, by cost name: a number, or one for each step.

    `Fleet.stack` makes a fleet of many different units of one shape from arrays. Units are numbered from 0, group by
    group.
    """

    horizon: int
    num_costs: int
    num_units: int
    cost_names: tuple[str, ...]
    limits: Float  # [d]; inf for none
    floors: Float  # [d]; -inf for none
    step_costs: tuple[int, ...]  # the costs that are limited step by step
    step_limits: Float  # [n, H]; inf for none
    stacks: tuple[Stack, ...]
    models: tuple[ConstrainedMDP, ...] | None  # of the groups; None for a stack of different units
    sizes: tuple[int, ...] | None  # how many units each group has
    step: int  # how many steps have passed, where it was made by `at`
    _unit_member: Int | None  # [N]: which member each unit is, where that is not in order

    __slots__ = tuple(__annotations__)

    def __init__(
        self,
        groups: Sequence[tuple[ConstrainedMDP, int]],
        limits: Limits | None = None,
        floors: Limits | None = None,
        per_step: PerStep | None = None,
    ) -> None:
        """Validate all of it: the groups first, what they must have in common, then the limits."""
        pairs = [_read_group(i, group) for i, group in enumerate(_listed(groups))]
        models, sizes = tuple(m for m, _ in pairs), tuple(n for _, n in pairs)
        names, horizon = models[0].cost_names, models[0].horizon
        for i, model in enumerate(models):
            if model.cost_names != names:
                raise ModelError(
                    f"groups[{i}] has the costs {list(model.cost_names)}, groups[0] {list(names)}; a fleet shares "
                    "them: give all models the same cost_names",
                    key=("groups",),
                )
            if model.horizon != horizon:
                raise ModelError(
                    f"groups[{i}] has {model.horizon} steps, groups[0] {horizon}; make them equal with "
                    ".replace(horizon=...)",
                    key=("groups",),
                )
        if sum(sizes) > MOST_UNITS:
            raise ModelError(f"{sum(sizes)} units; at most {MOST_UNITS} are supported", key=("groups",))
        self._fill(
            horizon=horizon,
            cost_names=names,
            stacks=tuple(of_model(m, n) for m, n in pairs),
            models=models,
            sizes=sizes,
            num_units=sum(sizes),
            step=0,
            **_read_limits(limits, floors, per_step, names, horizon),
        )

    @classmethod
    def stack(
        cls,
        transitions: Any,
        rewards: ArrayLike,
        costs: ArrayLike | None = None,
        *,
        horizon: int,
        initial: int | ArrayLike = 0,
        limits: Limits | None = None,
        floors: Limits | None = None,
        per_step: PerStep | None = None,
        cost_names: Sequence[str] | None = None,
        available: ArrayLike | None = None,
    ) -> Fleet:
        """N different units with the same numbers of states and actions.

        Args:
            transitions: `[N, S, A, S]`, or sparse `[N*S*A, S]` (row (n*S + s)*A + a), or a list of N sparse `[S*A, S]`.
            rewards: `[N, S, A]`.
            costs: `[N, S, A, d]`, or `[N, S, A]` for one cost.
            horizon: number of steps.
            initial: a state for all, whole numbers `[N]`, a distribution `[S]` for all, or `[N, S]`.
            limits, floors, per_step: as in `Fleet`.
            available: `[S, A]` mask of the actions that exist, the same for all units.
        """
        made = of_units(transitions, rewards, costs, available, initial)
        d = made.pay.shape[1] - 1
        check_costs(d)
        steps = read_horizon(horizon, made.num_states)
        names = read_names(cost_names, d, "cost_names") or default_cost_names(d)
        fleet = cls.__new__(cls)
        fleet._fill(
            horizon=steps,
            cost_names=names,
            stacks=(made,),
            num_units=made.members,
            step=0,
            **_read_limits(limits, floors, per_step, names, steps),
        )
        return fleet

    def _fill(self, **values: Any) -> None:
        put = setter(self)
        for name in Fleet.__slots__:
            put(name, values.get(name))
        put("num_costs", len(self.cost_names))

    def __setattr__(self, name: str, value: object) -> None:
        raise AttributeError("a Fleet is immutable; make another")

    def __delattr__(self, name: str) -> None:
        raise AttributeError("a Fleet is immutable")

    def __repr__(self) -> str:
        kinds = f"types={len(self.models)}" if self.models is not None else "all different"
        return line(self, f"units={self.num_units}, {kinds}, horizon={self.horizon}", f"costs={brief(self.cost_names)}")

    def __reduce__(self) -> tuple[object, ...]:
        return _rebuild, ({name: getattr(self, name) for name in Fleet.__slots__},)

    # -- sizes --------------------------------------------------------------------------------------------

    @property
    def num_types(self) -> int:
        """How many groups there are; in a stack each unit is of its own type."""
        return self.num_units if self.sizes is None else len(self.sizes)

    @property
    def num_members(self) -> int:
        """How many different ones there are, units of one type in one state counted once."""
        return sum(stack.members for stack in self.stacks)

    @property
    def counts(self) -> Float:
        """[M]: how many units each member stands for."""
        return np.concatenate([stack.counts for stack in self.stacks])

    @property
    def member_type(self) -> Int:
        """[M]: the type of each member."""
        if self.sizes is None:
            return np.arange(self.num_units)
        return np.repeat(np.arange(len(self.stacks)), [stack.members for stack in self.stacks])

    @property
    def unit_member(self) -> Int:
        """[N]: which member each unit is."""
        if self._unit_member is not None:
            return self._unit_member
        self._apart()
        return np.repeat(np.arange(self.num_members), self.counts.astype(np.int64))

    def _apart(self) -> None:
        if self.num_units > MOST_APART:
            raise SpecError(f"{self.num_units:,} units; at most {MOST_APART:,} can be told apart")

    @property
    def row_names(self) -> tuple[str, ...]:
        """The costs, then "NAME at step h" for those limited step by step: what rows are on."""
        steps = (f"{self.cost_names[i]} at step {h + self.step}" for i in self.step_costs for h in range(self.horizon))
        return (*self.cost_names, *steps)

    def rows(self, limits: Float | None = None, floors: Float | None = None) -> Rows:
        """What a plan must keep: the totals (its own, or those given [d]) and the limits of each step."""
        upper = self.limits if limits is None else limits
        lower = self.floors if floors is None else floors
        none = np.full(self.step_limits.size, -np.inf)
        return rows_of(
            np.concatenate((upper, self.step_limits.reshape(-1))), np.concatenate((lower, none)), self.row_names
        )

    # -- the same fleet later -----------------------------------------------------------------------------

    def at(
        self,
        states: ArrayLike,
        step: int = 0,
        *,
        spent: Limits | None = None,
        limits: Limits | None = None,
        floors: Limits | None = None,
    ) -> Fleet:
        """The fleet with each unit in its present state, to plan again from there.

        Args:
            states: `[N]`, the state of each unit.
            step: how many steps have passed: so many fewer remain, and limits per step are those of the others.
            spent: what was spent so far, `[d]` or by cost name: limits and floors are lowered by it.
            limits, floors: those for the rest, instead of what is left.
        """
        passed = read_count(step, "step", least=0)
        if passed >= self.horizon:
            raise SpecError(
                f"step is {passed}; the fleet has {self.horizon} steps, so none would be left", key=("step",)
            )
        self._apart()
        table = any_array(states, "states")
        if table.shape != (self.num_units,) or table.dtype.kind not in "iu":
            raise ModelError(
                f"states has shape {table.shape} and type {table.dtype}; expected {self.num_units} whole numbers, "
                "a state for each unit",
                key=("states",),
            )
        used = _read_spent(spent, self.cost_names)
        stacks, member = _placed(self, table.astype(np.int64), passed)
        made = Fleet.__new__(Fleet)
        made._fill(
            horizon=self.horizon - passed,
            cost_names=self.cost_names,
            limits=frozen(self.limits - used if limits is None else resolve_limits(limits, self.cost_names, "limits")),
            floors=frozen(self.floors - used if floors is None else resolve_limits(floors, self.cost_names, "floors")),
            step_costs=self.step_costs,
            step_limits=frozen(self.step_limits[:, passed:]),
            stacks=stacks,
            models=self.models,
            sizes=self.sizes,
            num_units=self.num_units,
            step=self.step + passed,
            _unit_member=member,
        )
        return made

    def simulate(
        self, plan: Any, runs: int = 200, seed: int = 0, *, guard: bool = True, threads: int | None = None
    ) -> FleetSimulation:
        """Play a plan of this fleet.

        With `guard`, no run ever spends more than a budget, in total or in a step: an action is played only if what is
        spent, plus its worst outcome, plus what all units may still need in the worst case, fits; else the unit does
        what is safest. A budget that is below that from the start is refused. Costs that are no multiples of a power
        of two, of about 2^-61 of what all units together could cost, are rounded down to them. Floors are not guarded.
        """
        from conrl.model.fleet_simulation import simulate_fleet

        return simulate_fleet(self, plan, runs, seed, guard, threads)


def _rebuild(values: dict[str, Any]) -> Fleet:
    fleet = Fleet.__new__(Fleet)
    fleet._fill(**values)
    return fleet


def _listed(groups: Any) -> list[Any]:
    if not is_list(groups) or isinstance(groups, (str, bytes, Mapping)) or len(groups) == 0:
        raise ModelError(
            f"groups is {shown(groups)}; expected pairs of a model and a count, as [(press, 25), (lathe, 400)]",
            key=("groups",),
        )
    return list(groups)


def _read_group(i: int, group: Any) -> tuple[ConstrainedMDP, int]:
    if not isinstance(group, (tuple, list)) or len(group) != 2 or not isinstance(group[0], ConstrainedMDP):
        raise ModelError(
            f"groups[{i}] is {shown(group)}; expected a pair of a ConstrainedMDP and a count", key=("groups",)
        )
    model, count = group
    number = read_count(count, f"the count of groups[{i}]", most=MOST_UNITS, error=ModelError)
    need_steps(model.horizon, "a fleet")
    if model.bonus is not None:
        raise ModelError(f"groups[{i}] carries a bonus; fleets are planned on models without one", key=("groups",))
    return model, number


def _read_limits(limits: Any, floors: Any, per_step: Any, names: tuple[str, ...], horizon: int) -> dict[str, Any]:
    """The attributes that limits are kept in."""
    each = [] if per_step is None else read_step_limits(per_step, names, horizon)
    costs = tuple(sorted({limit.cost for limit in each}))
    steps = np.full((len(costs), horizon), np.inf)
    for limit in each:
        steps[costs.index(limit.cost), limit.step] = limit.bound
    return {
        "limits": frozen(resolve_limits(limits, names, "limits")),
        "floors": frozen(resolve_limits(floors, names, "floors")),
        "step_costs": costs,
        "step_limits": frozen(steps),
    }


def _read_spent(spent: Any, names: tuple[str, ...]) -> Float:
    """[d]: what was spent of each cost; nothing where it is not said."""
    if isinstance(spent, Mapping):
        for name in spent:
            if name not in names:
                raise ModelError(unknown("cost", str(name), names), key=("spent", str(name)))
        spent = [spent.get(name) for name in names]
    if spent is None:
        return np.zeros(len(names))
    listed = [spent] if is_number(spent) and len(names) == 1 else spent
    if not is_list(listed) or isinstance(listed, (str, bytes)) or len(listed) != len(names):
        raise ModelError(f"spent is {shown(spent)}; expected a number for each of {len(names)} costs", key=("spent",))
    read = np.zeros(len(names))
    for i, x in enumerate(listed.tolist() if isinstance(listed, np.ndarray) and listed.ndim == 1 else listed):
        if x is not None:
            if not is_number(x):
                raise ModelError(f"spent holds {shown(x)}; it must be a number, or 0 for none", key=("spent",))
            read[i] = float(x)
    return read


def _placed(fleet: Fleet, states: Int, passed: int) -> tuple[tuple[Stack, ...], Int | None]:
    """The stacks with units in the states [N], and the member that each unit is."""
    sizes = (fleet.num_units,) if fleet.sizes is None else fleet.sizes
    stacks: list[Stack] = []
    members: list[Int] = []
    begin = offset = 0
    for stack, size in zip(fleet.stacks, sizes, strict=True):
        mine = states[begin : begin + size]
        bad = (mine < 0) | (mine >= stack.num_states)
        if bad.any():
            n = int(np.argmax(bad))
            raise ModelError(
                f"states[{begin + n}] is {mine[n]}; unit {begin + n} has the states 0..{stack.num_states - 1}",
                key=("states",),
            )
        if fleet.sizes is None:
            return (stack.at(mine, np.ones(size)),), None
        present, which, counts = np.unique(mine, return_inverse=True, return_counts=True)
        placed = stack.later(passed).at(present, counts.astype(np.float64))
        if (stuck := placed.stuck(fleet.horizon - passed)) is not None:
            h, s = stuck
            raise ModelError(
                f"from these states a unit of type {len(stacks)} may come to state {s} at step "
                f"{fleet.step + passed + h}, where its model has no action",
                key=("states",),
            )
        stacks.append(placed)
        members.append(offset + which)
        begin, offset = begin + size, offset + present.size
    return tuple(stacks), frozen(np.concatenate(members))
