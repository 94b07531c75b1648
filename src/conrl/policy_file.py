"""A policy in a JSON file, for a running system: all that acting needs, and what was promised. Its entries:

format, version    "conrl policy", 1
states, actions    names; everything else has their positions
costs              names
start              the state that every episode begins in; null where there are several
horizon            steps of an episode; {"discount": g}, "average" or "total" where it has no end
policies           [{"weight": w, "steps": ...}]: one is drawn at the start of an episode and played to its end;
                   `conrl.policy_json` says what steps are
skip               the probability that an episode is not played at all
promise            null, or what an episode that is played is expected to pay: reward, costs; and the least and the
                   most that it can pay, reward first
limits, floors     of the expected total of each cost, by name
model              null, or the digest of the model it was planned in
basis              null, or, where that model was estimated from a log, a text that says what the promise rests on
written_by         the version of conrl
id                 128 bits of all entries but this and written_by, by which a log says which file acted. It is computed
                   anew when the file is read
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conrl._types import Float, Int
from conrl.arguments import is_int, is_number, read_generator
from conrl.episode_totals import extremes
from conrl.errors import ModelError, SpecError, shown, unknown
from conrl.evaluation import unwrapped
from conrl.io.files import atomic_write, file_path, parse_json, read_bytes
from conrl.mixture import Mixture, mixed_columns, parts_of
from conrl.model import ConstrainedMDP
from conrl.model.counting import EXACT, NEAR, Counter, Spent
from conrl.model.criteria import DISCOUNTED, WORDS, Criterion, Discounted, criterion_of, word_of
from conrl.model.digest import digest
from conrl.model.limits import Linear, resolve_limits
from conrl.model.mdp import need_model
from conrl.notebook import Columns, Display, Displayed, Framed
from conrl.policy import NOTHING, PLANNED, STAND_IN, Null, Policy
from conrl.policy_json import check_entries, plain, read_plain
from conrl.sampling import draw
from conrl.spending import SpentPolicy, put_actions
from conrl.unplanned import stand_ins
from conrl.wording import line, totals

FORMAT, VERSION = "conrl policy", 1
BOUNDS = ("limits", "floors")
ENTRIES = ("format", "version", "written_by", "id", "model", "basis", "horizon", "states", "actions", "costs", "start",
           "promise", *BOUNDS, "skip", "policies")  # fmt: skip
LEAST_SKIP = 1e-9  # a smaller probability of skipping an episode is rounding
PROMISE = ("reward", "costs", "least", "most")
ROUNDING = 1e-6  # of a promise: how far it may lie outside what an episode can pay


class Promise(NamedTuple):
    """What an episode that is played pays: reward first, then the costs."""

    value: Float  # [1+d]: expected
    least: Float | None  # [1+d]: that any episode can pay; None where it has no end
    most: Float | None  # [1+d]
    names: tuple[str, ...] = ()  # [d]: of the costs

    @property
    def reward(self) -> float:
        """Expected."""
        return float(self.value[0])

    @property
    def costs(self) -> dict[str, float]:
        """Expected, by name."""
        return dict(zip(self.names, self.value[1:].tolist(), strict=True))


@dataclass(frozen=True, eq=False, repr=False)
class PolicyFile(Displayed, Framed):
    """A policy with all that a running system needs: `act` takes and gives names.

    As a data frame: `step`, `state`, `action`, `probability` as of `Policy.to_frame`, by name; where one of several
    policies is drawn for each episode, its number `policy` and its `weight` before them.

    A plan says nothing of steps and states where, by the model, nobody can be. There the file has what is best under
    the prices of the plan, if it can tell; `planned` says where it is so.
    """

    policy: Policy | Mixture
    horizon: int | Criterion
    state_names: tuple[str, ...]
    action_names: tuple[str, ...]
    cost_names: tuple[str, ...] = ()
    promise: Promise | None = None
    limits: dict[str, float] | None = None  # of expected totals, by cost
    floors: dict[str, float] | None = None
    skip: float = 0.0
    model: str | None = None  # digest of the model that it was planned in
    basis: str | None = None  # what the promise rests on, where that model is an estimate
    start: str | None = None  # the state that every episode begins in; None: there are several
    marks: tuple[Int | None, ...] | None = None  # [H, S] of each policy: PLANNED, STAND_IN, NOTHING; None: all planned

    def __repr__(self) -> str:
        sizes = f"{len(self.state_names)} states, {len(self.action_names)} actions"
        value = () if self.promise is None else self.promise.value
        promised = totals(("reward", *self.cost_names), value)
        n = len(self.components)
        parts = (sizes, f"{n} {'policy' if n == 1 else 'policies'}", f"horizon {self.horizon}")
        return line(self, *parts, f"promises {promised}" if promised else "")

    def _columns(self) -> Columns:
        parts = [
            policy._columns(None) if marks is None else policy._entries(None, _said(policy, marks), None)
            for policy, marks in zip(self.components, self._marks, strict=True)
        ]
        for part in parts:
            part["state"] = [self.state_names[i] for i in part["state"].tolist()]
            part["action"] = [self.action_names[i] for i in part["action"].tolist()]
        return parts[0] if len(parts) == 1 else mixed_columns(self.weights, parts)

    def _display(self) -> Display:
        title = f"Policy of {len(self.state_names)} states and {len(self.action_names)} actions, horizon {self.horizon}"
        notes = () if self.basis is None else (f"rests on {self.basis}",)
        if self.promise is None:
            return Display(title, {}, ("nothing is promised", *notes))
        names = ("reward", *self.cost_names)
        columns = {"total": names, "promised": self.promise.value, "least": self.promise.least}
        bounds = {what[:-1]: [(getattr(self, what) or {}).get(name) for name in names] for what in BOUNDS}
        return Display(title, {**columns, "most": self.promise.most, **bounds}, notes)

    @property
    def components(self) -> tuple[Policy, ...]:
        """The policies of which one is drawn for each episode."""
        return self.policy.policies if isinstance(self.policy, Mixture) else (self.policy,)

    @property
    def weights(self) -> Float:
        """[n]: how likely each of them is drawn."""
        return self.policy.weights if isinstance(self.policy, Mixture) else np.ones(1)

    @property
    def _marks(self) -> tuple[Int | None, ...]:
        return (None,) * len(self.components) if self.marks is None else self.marks

    @cached_property
    def id(self) -> str:
        """128 bits of all that the file says, for logs: which file acted."""
        record = {name: x for name, x in self._record().items() if name != "written_by"}
        return hashlib.blake2b(json.dumps(record, sort_keys=True).encode(), digest_size=16).hexdigest()

    def made_for(self, mdp: ConstrainedMDP) -> bool:
        """Whether it was planned in this model: the same names, transitions and pay."""
        need_model(mdp, "made_for")
        return self.model is not None and self.model == digest(mdp)

    # -- acting -------------------------------------------------------------------------------------------

    def begin(self, generator: np.random.Generator) -> int | None:
        """Which of the policies to play in an episode; None: the episode is skipped."""
        generator = read_generator(generator)
        if self.skip and generator.random() < self.skip:
            return None
        return int(draw(self.weights, generator.random()))

    def choices(self, step: int, state: str, component: int | None = None, spent: Any = None) -> dict[str, float]:
        """The actions that are played at a step (from 0) in a state, with their probabilities.

        Of several policies, `component` is the one that was drawn for the episode. `spent` is for policies that act on
        it: what was spent so far, `nothing_spent()` and then what `spend` gives, or amounts by the names of costs. What
        the policy does not count is ignored.
        """
        return self._answer(step, state, component, spent)[0]

    def planned(self, step: int, state: str, component: int | None = None, spent: Any = None) -> bool:
        """Whether `choices` gives what was planned; if not, the model says that nobody can be there, and a policy that
        acts on what was spent takes the nearest amounts with which one can."""
        return self._answer(step, state, component, spent)[1]

    def _answer(self, step: int, state: str, component: int | None, spent: Any) -> tuple[dict[str, float], bool]:
        """The choices, and whether they were planned."""
        policy, place = self._component(component), self._place(state)
        if self.skip == 1.0:
            raise SpecError("the plan skips every episode; there is nothing to play")
        steps = None if isinstance(self.horizon, Criterion) else self.horizon
        if not is_int(step) or step < 0 or (steps is not None and step >= steps):
            most = "" if steps is None else f"..{steps - 1}"
            raise SpecError(f"step is {shown(step)}; the policy has steps 0{most}", key=("step",))
        if isinstance(spent, Mapping):
            for name in spent:
                if name not in self.cost_names:
                    raise SpecError(unknown("cost", name, self.cost_names), key=("spent",))
        elif spent is not None and not isinstance(policy, SpentPolicy):
            raise SpecError(
                "the policy does not act on what was spent; leave it out, or give it by name", key=("spent",)
            )
        if isinstance(policy, SpentPolicy):
            row, planned = _row_after(policy, step, place, spent)
        else:
            marks = self._marks[component or 0]
            mark = PLANNED if marks is None else int(marks[min(step, marks.shape[0] - 1), place])
            row, planned = None if mark == NOTHING else policy._row(step, place), mark == PLANNED
        if row is None:
            when = "" if steps is None else f" at step {step}"
            raise SpecError(
                f"the model says that nobody is in {state!r}{when}, so that nothing was planned there; if somebody is, "
                "the model is not complete: add what leads there, and plan again",
                key=("state",),
            )
        return {self.action_names[a]: float(row[a]) for a in np.flatnonzero(row).tolist()}, planned

    def act(
        self, step: int, state: str, generator: np.random.Generator, component: int | None = None, spent: Any = None
    ) -> str:
        """Draw the action for a step (from 0) and a state, by name; see `choices`."""
        found = self.choices(step, state, component, spent)
        return list(found)[int(draw(np.array(list(found.values())), read_generator(generator).random()))]

    # -- what was spent -----------------------------------------------------------------------------------

    @property
    def counts(self) -> tuple[str, ...]:
        """The costs that its policies count; empty if they do not act on what was spent."""
        counted = {name for policy in self.components if isinstance(policy, SpentPolicy) for name in policy.counts}
        return tuple(name for name in self.cost_names if name in counted)

    def counted(self, component: int | None = None) -> tuple[str, ...]:
        """Those that one of them counts, in its own order."""
        policy = self._counting(component)
        return () if policy is None else policy.counts

    def nothing_spent(self, component: int | None = None) -> dict[str, float]:
        """What is spent when an episode begins, of each cost that is counted: what `choices` takes."""
        policy = self._counting(component)
        return {} if policy is None else _by_name(policy.counter, policy.counter.start)

    def spend(
        self, spent: Mapping[str, float], costs: Mapping[str, float], component: int | None = None
    ) -> dict[str, float]:
        """What is spent after a step with these costs, by name, as the policy counts it; costs that it does not count
        are ignored. Where there are several policies that count differently, `component` is the one that is played."""
        policy = self._counting(component)
        for what, given in (("spent", spent), ("costs", costs)):
            if not isinstance(given, Mapping):
                raise SpecError(f"{what} is {shown(given)}; expected amounts by the names of costs", key=(what,))
            for name in given:
                if name not in self.cost_names:
                    raise SpecError(unknown("cost", name, self.cost_names), key=(what,))
            for name in self.counts if policy is None else policy.counts:
                if not is_number(given.get(name)):
                    told = f"has no {name!r}" if name not in given else f"has {shown(given[name])} of {name!r}"
                    raise SpecError(f"{what} {told}; the policy counts {', '.join(self.counts)}", key=(what,))
        if policy is None:
            return {}
        counter = policy.counter
        paid = np.zeros(1 + max(counter.costs))
        paid[list(counter.costs)] = [costs[name] for name in counter.names]
        total = policy.meant({name: spent[name] for name in counter.names})
        return _by_name(counter, counter.add(total, counter.read(paid)))

    def _counting(self, component: int | None) -> SpentPolicy | None:
        """The policy that is played, or one that counts as it does; None if it counts nothing."""
        counting = [policy if isinstance(policy, SpentPolicy) else None for policy in self.components]
        counters = [None if policy is None else policy.counter for policy in counting]
        if component is None and all(counter == counters[0] for counter in counters):
            return counting[0]
        self._component(component)
        return counting[component or 0]

    def _component(self, component: int | None) -> Policy:
        n = len(self.components)
        if component is None and n > 1:
            raise SpecError(
                f"the file has {n} policies; draw one at the start of each episode and give its number, 0..{n - 1}",
                key=("component",),
            )
        if component is not None and not (is_int(component) and 0 <= component < n):
            raise SpecError(f"component is {shown(component)}; the file has policies 0..{n - 1}", key=("component",))
        return self.components[component or 0]

    def _place(self, state: str) -> int:
        place = self._places.get(state) if isinstance(state, str) else None
        if place is None:
            raise SpecError(unknown("state", state, self.state_names), key=("state",))
        return place

    @cached_property
    def _places(self) -> dict[str, int]:
        return {name: i for i, name in enumerate(self.state_names)}

    # -- files --------------------------------------------------------------------------------------------

    @classmethod
    def named(cls, policy: Policy | Mixture, mdp: ConstrainedMDP, **more: Any) -> PolicyFile:
        """A policy with the names of a model, and with other fields of this class.

        What it does where the model says that nobody can be is taken for meant: `Plan.save` knows better.
        """
        need_model(mdp, "PolicyFile.named")
        for part in parts_of(unwrapped(policy)[0]):
            part.policy.check(mdp)
        names = (mdp.state_names, mdp.action_names, mdp.cost_names)
        return cls(policy, mdp.horizon, *names, model=digest(mdp), start=start_of(mdp), **more)

    def save(self, path: str | Path) -> None:
        """Write it as JSON."""
        with atomic_write(file_path(path)) as file:
            file.write(json.dumps(self._record() | {"id": self.id}, allow_nan=False).encode() + b"\n")

    def _record(self) -> dict[str, Any]:
        """What the file says, but its id."""
        from conrl import __version__

        promise = self.promise
        policies = [
            {"weight": float(w), **plain(policy, marks)}
            for w, policy, marks in zip(self.weights, self.components, self._marks, strict=True)
        ]
        return {
            "format": FORMAT,
            "version": VERSION,
            "written_by": f"conrl {__version__}",
            "id": None,
            "model": self.model,
            "basis": self.basis,
            "horizon": _plain_horizon(self.horizon),
            "states": list(self.state_names),
            "actions": list(self.action_names),
            "costs": list(self.cost_names),
            "start": self.start,
            "promise": promise
            and {
                "reward": promise.reward + 0.0,  # -0.0 is 0.0
                "costs": (promise.value[1:] + 0.0).tolist(),
                "least": None if promise.least is None else (promise.least + 0.0).tolist(),
                "most": None if promise.most is None else (promise.most + 0.0).tolist(),
            },
            "limits": {name: x + 0.0 for name, x in (self.limits or {}).items()},
            "floors": {name: x + 0.0 for name, x in (self.floors or {}).items()},
            "skip": self.skip + 0.0,
            "policies": policies,
        }

    @classmethod
    def load(cls, path: str | Path) -> PolicyFile:
        """Read what `save` wrote, or anybody; what makes no sense is refused with its place."""
        path = file_path(path)
        try:
            record = parse_json(read_bytes(path).decode("utf-8-sig"))
            return cls._read(record)
        except (ModelError, ValueError) as error:
            raise ModelError(f"{path}: not a policy file: {error}") from None

    @classmethod
    def _read(cls, record: Any) -> PolicyFile:
        """A file's record, refused at its first entry that makes no sense."""
        if not isinstance(record, dict) or record.get("format") != FORMAT:
            raise ModelError(f"its format is not {FORMAT!r}")
        if not is_int(record.get("version")) or record["version"] != VERSION:
            raise ModelError(f"it has version {shown(record.get('version'))}; this conrl reads version {VERSION}")
        check_entries(record, ENTRIES, "the file")
        states, actions, costs = (_names(record, name) for name in ("states", "actions", "costs"))
        if not states or not actions:
            raise ModelError("it has no states, or no actions")
        horizon = _read_horizon(record.get("horizon"))
        given = record.get("policies")
        if not isinstance(given, list) or not given:
            raise ModelError("it has no policies")
        timeless = isinstance(horizon, Criterion)
        sizes = len(states), len(actions), timeless, costs
        parts, marks = zip(*(read_plain(entry, *sizes, f"policies[{i}]") for i, entry in enumerate(given)), strict=True)
        wrong = next((p for p in parts if not timeless and p.shape[0] != horizon), None)
        if wrong is not None:
            raise ModelError(f"a policy has {wrong.shape[0]} steps, and the horizon is {horizon}")
        skip = record.get("skip", 0.0)
        if not is_number(skip) or not 0.0 <= skip <= 1.0:
            raise ModelError(f"skip is {shown(skip)}; it is a probability")
        for name, what in (("model", "a digest"), ("id", "a digest"), ("basis", "a text")):
            if record.get(name) is not None and not isinstance(record[name], str):
                raise ModelError(f"{name} is {shown(record[name])}; it is {what} or null")
        if record.get("start") is not None and record["start"] not in states:
            raise ModelError(unknown("state in start", record["start"], states))
        weights = [entry.get("weight") for entry in given]
        if not all(map(is_number, weights)):
            raise ModelError(f"weights are {shown(weights)}; expected numbers")
        mixture = Mixture(weights, parts)
        return cls(
            mixture if len(parts) > 1 else parts[0],
            horizon,
            states,
            actions,
            costs,
            _read_promise(record.get("promise"), costs),
            _bounds(record, "limits", costs),
            _bounds(record, "floors", costs),
            float(skip),
            record.get("model"),
            record.get("basis"),
            record.get("start"),
            None if all(x is None for x in marks) else marks,
        )


def start_of(mdp: ConstrainedMDP) -> str | None:
    """The state that every episode of a model begins in; None if there are several."""
    first = mdp._only_start
    return None if first is None else mdp.state_name(first)


def _said(policy: Policy, marks: Int) -> Float:
    """[H, S, A]: the table of a policy, and zero where it says nothing that was planned."""
    return np.where((marks == PLANNED)[:, :, None], np.reshape(policy.probabilities, policy.shape), 0.0)


def _by_name(counter: Counter, total: Spent) -> dict[str, float]:
    return dict(zip(counter.names, map(float, counter.amounts(total)), strict=True))


def _row_after(policy: SpentPolicy, step: int, place: int, spent: Any) -> tuple[Float | None, bool]:
    """[A]: what is done after so much was spent, None if it says nothing; and whether that was planned."""
    counts = policy.counts
    lacking = [name for name in counts if name not in spent] if isinstance(spent, Mapping) else counts[: spent is None]
    if lacking:
        raise SpecError(f"the policy acts on the {' and '.join(counts)} spent so far; say how much", key=("spent",))
    given = {name: spent[name] for name in counts} if isinstance(spent, Mapping) else spent
    total = _counted(policy, given)
    node = policy._node(step, place, total)
    if node < 0:
        return None if policy.reached is not None else policy.at(given)._row(step, place), False
    return policy.inner._row(step, node), policy.spent[node] == total


def _counted(policy: SpentPolicy, spent: Any) -> Spent:
    """What was spent, as the policy counts it: where it rounds each step's cost, a plain sum is another amount."""
    counter = policy.counter
    given = counter.listed(spent)
    total = policy.meant(spent)
    for i, (name, unit) in enumerate(zip(counter.names, counter.units, strict=True)):
        least = min((x[i] for x in policy.spent), default=total[i])
        if total[i] < least:
            raise SpecError(
                f"{float(given[i]):.10g} of {name!r} is less than can have been spent, {float(least * unit):.10g}",
                key=("spent",),
            )
    amounts = counter.amounts(total)
    for name, unit, rounding, own, other in zip(
        counter.names, counter.units, counter.rounding, amounts, given, strict=True
    ):
        if rounding != EXACT and abs(other / unit - round(other / unit)) > NEAR and other < own + unit:
            word = "up" if rounding > 0 else "down"
            raise SpecError(
                f"{float(other):.10g} of {name!r} is no multiple of {float(unit):.10g}; this policy rounds the cost of "
                f"each step {word} to multiples of that and adds them up: give that sum",
                key=("spent",),
            )
    return total


def file_of(plan: Any, mixture: bool = False) -> PolicyFile:
    """The policy of a `Plan`, as one Markov policy or as the mixture of which one is drawn for each episode."""
    played, skip, linear = unwrapped(plan)
    mdp, promise = plan.mdp, None
    if skip < 1.0:
        value = np.append(plan.reward, plan.costs) / (1.0 - skip)
        promise = Promise(value, *_ends(plan, played), mdp.cost_names)
    limits, floors = ({} if linear is None else _finite(linear, mdp, what) for what in BOUNDS)
    chosen = plan.mixture if mixture else played
    basis = None if plan.estimated is None else f"a model {plan.estimated}"
    if plan.confidence is not None:
        basis = f"{basis}; {plan.confidence}"
    more = {"promise": promise, "limits": limits, "floors": floors, "skip": skip, "basis": basis}
    parts, found = parts_of(chosen), None
    if not all(part.policy.acts_on_spent or isinstance(part.policy, Null) for part in parts):
        found = stand_ins(plan)
    if found is None:
        return PolicyFile.named(chosen, mdp, **more)
    marks, actions = found
    said = [put_actions(part.policy, marks == STAND_IN, actions) for part in parts]
    filled = Mixture(chosen.weights, said) if isinstance(chosen, Mixture) else said[0]
    return PolicyFile.named(filled, mdp, marks=(marks,) * len(parts), **more)


def _ends(plan: Any, played: Policy | Mixture) -> tuple[Float | None, Float | None]:
    """[1+d] each: the least and the most that an episode can pay. An estimate knows nothing of pairs never seen: what
    comes of them may pay anything in the range of one step."""
    mdp = plan.mdp
    if isinstance(mdp.horizon, Criterion):
        return None, None
    if plan.estimated is not None and plan.estimated.unseen > 0.0:
        low, high = (float(mdp.horizon) * mdp.task.ranges).T
        return low, high
    return extremes(mdp, played)


def _finite(linear: Linear, mdp: ConstrainedMDP, what: str) -> dict[str, float]:
    """The limits or floors of a problem, by cost."""
    bounds = resolve_limits(getattr(linear, what), mdp.cost_names, what)
    return {name: float(b) for name, b in zip(mdp.cost_names, bounds, strict=True) if np.isfinite(b)}


def _plain_horizon(horizon: int | Criterion) -> Any:
    if isinstance(horizon, Discounted):
        return {"discount": horizon.discount}
    return word_of(horizon) if isinstance(horizon, Criterion) else horizon


def _read_horizon(given: Any) -> int | Criterion:
    if isinstance(given, dict) and list(given) == ["discount"]:
        return criterion_of(DISCOUNTED, given["discount"])
    if isinstance(given, str) and given in WORDS and given != DISCOUNTED:
        return criterion_of(given)
    if not is_int(given) or given < 1:
        raise ModelError(f"horizon is {shown(given)}; expected steps, {{'discount': g}}, 'average' or 'total'")
    return int(given)


def _names(record: dict[str, Any], what: str) -> tuple[str, ...]:
    given = record.get(what)
    if not isinstance(given, list) or not all(isinstance(name, str) for name in given):
        raise ModelError(f"{what} is {shown(given)}; expected a list of names")
    if len(set(given)) != len(given):
        raise ModelError(f"{what} has a name twice")
    return tuple(given)


def _read_promise(given: Any, names: tuple[str, ...]) -> Promise | None:
    """What a file promises of its policy, if it says; checked entry by entry."""
    num_costs = len(names)
    if given is None:
        return None
    if not isinstance(given, dict) or not isinstance(given.get("costs"), list):
        raise ModelError(f"promise is {shown(given)}; expected reward, costs, least and most")
    check_entries(given, PROMISE, "promise")
    tables = ([given.get("reward"), *given["costs"]], given.get("least"), given.get("most"))
    if (tables[1] is None) != (tables[2] is None):
        raise ModelError("promise has one of least and most; expected both, or null for both")
    for x in tables:
        if x is not None and not (isinstance(x, list) and len(x) == 1 + num_costs and all(map(is_number, x))):
            raise ModelError(f"promise has {shown(x)}, which does not fit {num_costs} costs")
    value, least, most = (None if x is None else np.array(x, dtype=np.float64) for x in tables)
    assert value is not None
    if least is not None and most is not None:
        slack = ROUNDING * np.maximum(1.0, np.maximum(np.abs(least), np.abs(most)))
        if not ((least - slack <= value) & (value <= most + slack)).all():
            raise ModelError(f"promise has {value.tolist()}, outside of least {least.tolist()}, most {most.tolist()}")
    return Promise(value, least, most, names)


def _bounds(record: dict[str, Any], what: str, costs: tuple[str, ...]) -> dict[str, float]:
    given = record.get(what, {})
    if not isinstance(given, dict) or not all(map(is_number, given.values())):
        raise ModelError(f"{what} is {shown(given)}; expected numbers by the names of costs")
    for name in given:
        if name not in costs:
            raise ModelError(unknown(f"cost in {what}", name, costs))
    return {name: float(x) for name, x in given.items()}
