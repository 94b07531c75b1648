"""A fleet's plan played, under a guard that keeps its budgets in every run (`conrl.model.fleet_guard`).

Units take turns in going first, from run to run and from step to step. Costs are counted in whole quanta, with the
guard or without.
"""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from conrl import kernels
from conrl._types import Float, Int
from conrl.arguments import read_count, read_flag, read_seed
from conrl.errors import SpecError
from conrl.model.counting import Sums, bars
from conrl.model.fleet_guard import UNGUARDED, Books, Safe, books_of, check_start, safe_policies
from conrl.model.stack import Stack
from conrl.notebook import Columns, Display, Displayed, Framed, Plotted
from conrl.wording import counted, line, totals

if TYPE_CHECKING:
    from conrl.model.fleet import Fleet


class Totals(NamedTuple):
    """A reward and costs [d] of the whole fleet."""

    reward: float
    costs: Float


@dataclass(frozen=True, eq=False, repr=False)
class FleetSimulation(Displayed, Framed, Plotted):
    """Totals of simulated runs of a whole fleet: `rewards` [runs], `costs` [runs, d], and `bound`, what no plan within
    the limits can earn more than in expectation.

    Costs are counted in whole quanta, each rounded down: a quantum is about 2^-61 of the most that all units together
    could cost, and `uncounted` [d] is the most that a total lacks. `step_costs[name]` [runs, H] are the costs of each
    step, of those that are limited so. `refused` [runs] counts the actions that the guard replaced; without a guard it
    is zero.

    As a data frame: `run` (from 1), `reward`, `cost_<name>` and `refused`, a row for each run.
    """

    rewards: Float
    costs: Float
    step_costs: dict[str, Float]
    refused: Int
    bound: float
    limits: Float  # [d]; inf where there is none
    floors: Float  # [d]; -inf where there is none
    step_limits: dict[str, Float]
    cost_names: tuple[str, ...]
    guard: bool
    sums: tuple[Sums, ...]  # [d]: what the total of a run is a sum of
    step_sums: dict[str, Sums]  # and that of a step
    uncounted: Float  # [d]

    def __repr__(self) -> str:
        mean = totals(("reward", *self.cost_names), (self.mean.reward, *self.mean.costs))
        guard = "with the guard" if self.guard else "without a guard"
        return line(self, f"{counted(self.rewards.size, 'run')} {guard}: {mean}")

    def _columns(self) -> Columns:
        costs = {f"cost_{name}": x for name, x in zip(self.cost_names, self.costs.T, strict=True)}
        return {"run": np.arange(1, self.rewards.size + 1), "reward": self.rewards, **costs, "refused": self.refused}

    def _display(self) -> Display:
        mean, error = self.mean, self.standard_error
        columns = {
            "total": ("reward", *self.cost_names),
            "mean": (mean.reward, *mean.costs),
            "standard error": (error.reward, *error.costs),
            "most": (self.rewards.max(), *self.costs.max(axis=0)),
            "limit": (np.nan, *self.limits),
            "runs above it": (np.nan, *self.exceed()),
            "floor": (np.nan, *self.floors),
            "runs below it": (np.nan, *self.fall_short()),
        }
        guard = f"the guard replaced {self.refused.mean():.4g} actions a run" if self.guard else "without a guard"
        return Display(f"Simulation of {counted(self.rewards.size, 'run')} of a fleet", columns, (guard,))

    @property
    def mean(self) -> Totals:
        """The mean reward and costs of a run."""
        return Totals(float(self.rewards.mean()), self.costs.mean(axis=0))

    @property
    def standard_error(self) -> Totals:
        """Of the means; nan of a single run."""
        n = self.rewards.size
        if n < 2:
            return Totals(math.nan, np.full(self.costs.shape[1], np.nan))
        return Totals(float(self.rewards.std(ddof=1)) / n**0.5, self.costs.std(axis=0, ddof=1) / n**0.5)

    @property
    def share(self) -> float:
        """The mean reward as a share of the bound; nan where that is not above 0."""
        return self.mean.reward / self.bound if self.bound > 0.0 else math.nan

    def exceed(self) -> Float:
        """[d]: the share of runs whose total cost is above its limit; nan where there is none."""
        above = self.costs > bars(self.limits, self.sums)
        return np.where(np.isfinite(self.limits), above.mean(axis=0), np.nan)

    def fall_short(self) -> Float:
        """[d]: the share of runs whose total cost is below its floor; nan where there is none."""
        below = self.costs + self.uncounted < -bars(-self.floors, self.sums)
        return np.where(np.isfinite(self.floors), below.mean(axis=0), np.nan)

    def exceed_steps(self) -> dict[str, float]:
        """By cost name: the share of runs in which some step costs more than its limit."""
        shares = {}
        for name, costs in self.step_costs.items():
            limits = self.step_limits[name]
            most = bars(limits, [self.step_sums[name]] * limits.size)
            shares[name] = float((costs > most).any(axis=1).mean())
        return shares


class Played(NamedTuple):
    """What the runs share of one stack."""

    stack: Stack
    begin: int  # the number of its first unit
    units: int
    member: Int  # [units]: of the stack
    kind: Int  # [units]: the lane of the numbers of each
    table: NDArray[np.uint16]  # [T, H, S]
    choice: Int  # [units]: the row of the table
    mixing: list[tuple[int, Int, Float]]
    reward: Float  # [D, K or P, LANES]
    paid: Float  # [D, d, K or P, LANES]: costs in quanta
    safe: Safe


class Run(NamedTuple):
    """What one run came to."""

    reward: float
    spent: Int  # [d], quanta
    stepped: Int  # [H, n]
    refused: int


def simulate_fleet(fleet: Fleet, plan: Any, runs: Any, seed: Any, guard: Any, threads: Any) -> FleetSimulation:
    """`Fleet.simulate`."""
    from_plan = getattr(plan, "fleet", None)
    if from_plan is not fleet:
        what = "of another fleet" if from_plan is not None else f"a {type(plan).__name__}"
        raise SpecError(
            f"simulate needs a plan of this fleet, and this is {what}; use conrl.plan(fleet)", key=("plan",)
        )
    count, first = read_count(runs, "runs", most=2**31 - 1), read_seed(seed)
    guarded = read_flag(guard, "guard")
    workers = plan.oracle.threads if threads is None else read_count(threads, "threads", most=1024)
    books = books_of(fleet, plan.limits)
    stacks = _prepare(fleet, plan, books, guarded)
    if guarded:
        check_start(fleet, [(part.stack, part.safe) for part in stacks], books)

    def one(run: int) -> Run:
        return _run(fleet, stacks, books, guarded and books.bind, np.random.default_rng([first, run]))

    if workers == 1 or count == 1:
        done = [one(r) for r in range(count)]
    else:
        with ThreadPoolExecutor(workers) as pool:
            done = list(pool.map(one, range(count)))
    names = [fleet.cost_names[i] for i in fleet.step_costs]
    stepped = np.array([run.stepped for run in done]).reshape(count, fleet.horizon, len(names)).astype(np.float64)
    return FleetSimulation(
        rewards=np.array([run.reward for run in done]),
        costs=np.array([run.spent for run in done]).reshape(count, -1).astype(np.float64) * books.quantum,
        step_costs={name: stepped[:, :, k] * books.quantum[books.steps[k]] for k, name in enumerate(names)},
        refused=np.array([run.refused for run in done]),
        bound=plan.bound,
        limits=plan.limits,
        floors=plan.floors,
        step_limits={name: fleet.step_limits[k] for k, name in enumerate(names)},
        cost_names=fleet.cost_names,
        guard=guarded,
        sums=books.sums,
        step_sums={name: books.step_sums[i] for i, name in zip(fleet.step_costs, names, strict=True)},
        uncounted=fleet.horizon * fleet.num_units * books.quantum,
    )


def _prepare(fleet: Fleet, plan: Any, books: Books, guarded: bool) -> list[Played]:
    """What the runs share, stack by stack."""
    members = fleet.unit_member
    found, begin, offset = [], 0, 0
    sizes = (fleet.num_units,) if fleet.sizes is None else fleet.sizes
    for i, (stack, units) in enumerate(zip(fleet.stacks, sizes, strict=True)):
        member = members[begin : begin + units] - offset
        table, choice, mixing = plan.tables(i, member)
        paid = np.floor(stack.paid[:, 1:] / books.quantum[None, :, None, None])
        safe = safe_policies(fleet, stack, paid, books) if guarded and books.bind else UNGUARDED
        reward = np.ascontiguousarray(stack.paid[:, 0])
        found.append(Played(stack, begin, units, member, stack.kind[member], table, choice, mixing, reward, paid, safe))
        begin, offset = begin + units, offset + stack.members
    return found


def _run(fleet: Fleet, stacks: list[Played], books: Books, guarded: bool, generator: np.random.Generator) -> Run:
    """All steps of all units, once."""
    N, H = fleet.num_units, fleet.horizon
    key = generator.integers(2**64, dtype=np.uint64)
    firsts = generator.integers(N, size=H)
    committed, ahead = np.zeros(books.columns.size, dtype=np.int64), np.zeros((books.steps.size, H), dtype=np.int64)
    spent, stepped = np.zeros(fleet.num_costs, dtype=np.int64), np.zeros((H, books.steps.size), dtype=np.int64)
    states, choices = [], []
    for part in stacks:
        at = np.zeros(part.units, dtype=np.int64)
        kernels.fleet_starts(part.stack.initial, part.member, key, part.begin, at)
        if guarded and part.safe.reserve.size:
            committed += part.safe.reserve[part.kind, 0, at].sum(axis=0)
        if guarded and part.safe.later.size:
            ahead += part.safe.later[part.kind, 0, at].sum(axis=0)
        states.append(at)
        choice = part.choice
        if part.mixing:
            choice = choice.copy()
            for unit, rows, weights in part.mixing:
                choice[unit] = rows[np.searchsorted(np.cumsum(weights)[:-1], generator.random(), side="right")]
        choices.append(choice)
    rewards, refused = [], 0
    for h in range(H):
        for i, begin, end in _turns(stacks, int(firsts[h])):
            part = stacks[i]
            stack = part.stack
            earned, replaced = kernels.fleet_step(
                (stack.first, stack.start, stack.successor, stack.shift), stack.probability, part.reward, part.paid,
                stack.outcome_pay is not None, part.kind, choices[i], part.table, h, begin, end, key,
                (h + 1) * N + part.begin, states[i], guarded, books.columns, books.limit, part.safe.choice,
                part.safe.reserve, books.steps, books.step_limit, part.safe.later, committed, ahead, spent, stepped[h],
            )  # fmt: skip
            rewards.append(earned)
            refused += replaced
    return Run(math.fsum(rewards), spent, stepped, refused)


def _turns(stacks: list[Played], first: int) -> list[tuple[int, int, int]]:
    """Ranges (stack, begin, end) of all units, from number `first` on and round to the one before it."""
    after, before = [], []
    for i, part in enumerate(stacks):
        cut = min(max(first - part.begin, 0), part.units)
        if cut < part.units:
            after.append((i, cut, part.units))
        if cut > 0:
            before.append((i, 0, cut))
    return after + before
