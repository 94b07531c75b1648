"""Is what happens what was promised? A policy that runs, watched in its log.

Reward and each cost of an episode are compared with what the plan promised and with the limits, by tests that may be
looked at every day (`conrl.estimation.betting`): the probability of a false alarm, in all of them together and for as
long as they run, is at most alpha. With d costs, each total is watched with alpha / (1 + d): half against a mean above
the promised one, half against one below. That a limit is not kept is harder to show than that the cost is above the
promise, which is within the limit; so the alarm for it, at the same bar, adds nothing.

Episodes count in the order of the log, up to the first one that has not ended: those that end early would otherwise be
counted before those that began with them, and short episodes are not like long ones. An episode that was overtaken, by
a later one that has ended after more steps, will hardly end: that is said, as it would keep the monitor blind forever.
It may be given up. Which episodes those are must not depend on what they paid, else the tests are about the others.

Also counted: steps at which something was played that the policy never plays there, and what the model rules out (first
states, transitions). Of these one is enough: its probability is 0. Then the log is not about this policy, or model.
A total that the model cannot pay ends the test of that total, as its bets are fair only within these ends. It may be
that the real pay scatters where the model has its mean.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from conrl._types import Bool, Float, Int
from conrl.arguments import is_number, read_flag
from conrl.episode import Episode
from conrl.errors import ModelError, SpecError, shown, unknown
from conrl.estimation.betting import against, interval
from conrl.estimation.logs import Log, read_log
from conrl.matching import log_places, same_places
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Criterion
from conrl.notebook import Columns, Display, Displayed, Framed, Plotted
from conrl.planners import Plan
from conrl.policy_file import PolicyFile, Promise, file_of
from conrl.spending import SpentPolicy
from conrl.wording import counted, line, listed, percent, short

FINE, WAITING, OUTSIDE = "as promised", "nothing has ended yet", "outside the model"
SLACK = 1e-6  # of all that an episode pays, without signs: what rounding in a log may add up to


class Watched(NamedTuple):
    """One total of an episode, and what is said against its promise."""

    name: str  # "reward", or that of a cost
    promised: float  # the expected total
    limit: float | None  # of a cost, in an episode that is played: larger than asked where others are skipped
    floor: float | None
    mean: float  # of the episodes
    low: float  # the means that were never refuted; nan if there is none
    high: float
    odds: float  # 1 / the probability of such evidence against the promise, if it is kept; at least 1
    off_since: int | None  # episodes after which the promise was refuted
    over_since: int | None  # episodes after which it was refuted that the limit, or the floor, is kept
    beyond: int | None  # the first episode (from 0) whose total is outside what the model can pay
    least: float  # that an episode can pay, by the model or the range that was given
    most: float
    seen: tuple[float, float]  # the least and the most that one has paid; nan if there is none
    above: bool = False  # whether it was refuted from above
    broken: str = "limit"  # or "floor": which of them was refuted

    @property
    def verdict(self) -> str:
        """In words."""
        strange = "" if self.beyond is None else OUTSIDE
        if self.over_since is not None:
            told = f"{self.broken} not kept (since episode {self.over_since})"
            return f"{told}; {strange}" if strange else told
        if strange:
            return strange
        if self.off_since is not None:
            return f"{'higher' if self.above else 'lower'} than promised (since episode {self.off_since})"
        return FINE


class Odd(NamedTuple):
    """Steps at which something was played that the policy never plays."""

    steps: int
    of: int
    first: str  # where the first one is; empty if there is none


class Strange(NamedTuple):
    """What the model rules out."""

    begins: int  # episodes that begin where none begins
    episodes: int
    first: str  # how the first one does; empty if there is none
    transitions: int  # steps that lead where none leads; 0 if the model is not known, or was estimated
    transition: str  # the first one

    @property
    def told(self) -> tuple[str, ...]:
        """In words."""
        begins = f"{self.begins:,} of {counted(self.episodes, 'episode')} {self.first}"
        steps = f"{counted(self.transitions, 'transition')} of probability 0; the first: {self.transition}"
        return (*([begins] if self.begins else []), *([steps] if self.transitions else []))


USUAL = Strange(0, 0, "", 0, "")


class Stuck(NamedTuple):
    """An episode that has not ended although a later one has, after more steps."""

    episode: int  # from 1
    steps: int
    waiting: int  # episodes that follow it

    def __str__(self) -> str:
        wait = "waits" if self.waiting == 1 else "wait"
        told = f"at episode {self.episode}: it has not ended after {counted(self.steps, 'step')}"
        return f"{told}, and {counted(self.waiting, 'episode')} after it {wait}"


@dataclass(frozen=True, eq=False, repr=False)
class Monitoring(Displayed, Framed, Plotted):
    """What a log says about a policy that runs.

    As a data frame: the fields of `Watched` and its `verdict`, a row for each total.
    """

    episodes: int
    left_out: int  # the first episode that has not ended, and all that follow it; those given up do not count
    alpha: float
    totals: tuple[Watched, ...]  # reward, then the costs
    odd: Odd
    skip: float = 0.0  # the share of episodes that the policy skips; they are not in the log
    strange: Strange = USUAL
    stuck: Stuck | None = None
    given_up: int = 0  # episodes that were overtaken, and left out as asked
    unfinished: int = 0  # lines at the end of the file that are not written to their end, and not read

    @property
    def alarm(self) -> bool:
        """Whether something is wrong: with what was promised, or with the log, so that it does not tell."""
        return self.verdict not in (FINE, WAITING)

    @property
    def verdict(self) -> str:
        """In words, the gravest first: what the log is not about makes the rest meaningless."""
        if self.odd.steps:
            return "not this policy"
        if self.strange.told:
            return "not the model"
        if any((w.off_since, w.over_since) != (None, None) for w in self.totals):
            return "not as promised"
        if any(w.beyond is not None for w in self.totals):
            return OUTSIDE
        if self.stuck is not None:
            return "cannot tell"
        return FINE if self.episodes else WAITING

    @property
    def outside(self) -> tuple[tuple[Watched, str], ...]:
        """The totals that the model cannot pay, in words."""
        return tuple(
            (w, f"{w.name}: episode {w.beyond + 1} paid what the model cannot pay, {w.least:.6g} to {w.most:.6g}")
            for w in self.totals
            if w.beyond is not None
        )

    def __repr__(self) -> str:
        # What is not as promised comes first: a long line is cut.
        order = sorted(self.totals, key=lambda w: w.verdict == FINE)
        told = [
            *([f"{self.odd.steps:,} of {self.odd.of:,} steps are not the policy's"] if self.odd.steps else []),
            *([f"not the model: {self.strange.told[0]}"] if self.strange.told else []),
            *([f"stuck {self.stuck}"] if self.stuck else [f"{self.left_out:,} wait"] if self.left_out else []),
            listed([f"{short(w.name)} {w.verdict}" for w in order]),
        ]
        return line(self, f"{counted(self.episodes, 'episode')}: {'; '.join(told)}")

    def _columns(self) -> Columns:
        table = {name: [getattr(w, name) for w in self.totals] for name in Watched._fields}
        some = ("limit", "floor", "off_since", "over_since", "beyond")  # None where there is none
        known = {name: np.array(table[name], dtype=np.float64) for name in some}
        ends = {f"seen_{end}": [w.seen[i] for w in self.totals] for i, end in enumerate(("least", "most"))}
        del table["seen"]
        return {**table, **known, **ends, "verdict": [w.verdict for w in self.totals]}

    def _display(self) -> Display:
        """The totals that are watched, and above all what makes their numbers worthless."""
        columns = dict(self._columns())
        shown = ("name", "promised", "limit", "floor", "mean", "low", "high", "odds", "verdict")
        odd = self.odd
        notes = [
            *([f"stuck {self.stuck}; if it will not end: give_up=True"] if self.stuck else []),
            *([f"{self.left_out} episodes wait for the first of them to end"] if self.left_out else []),
            *([f"{self.given_up} episodes were given up: later ones have overtaken them"] if self.given_up else []),
            *([f"{counted(self.unfinished, 'line')} not finished, and not read"] if self.unfinished else []),
            *(f"not the model: {told}" for told in self.strange.told),
            *(
                f"{told}. If real pay scatters: ranges={{{w.name!r}: (LEAST, MOST)}} "
                f"(seen so far: {w.seen[0]:.6g} to {w.seen[1]:.6g})"
                for w, told in self.outside
            ),
            *([f"{odd.steps} of {odd.of} steps are not the policy's; the first: {odd.first}"] if odd.steps else []),
            *(
                [f"{percent(self.skip)} of all episodes are skipped; limits are of one that is played"]
                if self.skip
                else []
            ),
        ]
        title = f"Monitoring of {counted(self.episodes, 'episode')}: {'ALARM, ' * self.alarm}{self.verdict}"
        return Display(title, {name: columns[name] for name in shown}, tuple(notes))


def monitor(
    policy: Any,
    log: Any,
    *,
    alpha: float = 0.05,
    ranges: Mapping[str, tuple[float, float]] | None = None,
    give_up: bool = False,
) -> Monitoring:
    """Compare what happened with what was promised; it may be looked at as often as one likes.

    Args:
        policy: a `Plan`, a `PolicyFile`, or the name of a `.json` file that `Plan.save` wrote.
        log: a `Log` of episodes that were played by it, or the name of its file. A last line without a line end is
            still being written, and is not read.
        alpha: the probability of a false alarm, ever.
        ranges: the least and the most that an episode can pay, by the name of a cost or "reward"; without it, what the
            model can pay. Tests are valid if no total is outside.
        give_up: leave out episodes that later ones have overtaken. They must not be those that went badly.
    """
    file = read_file(policy)
    unfinished = 0
    if isinstance(log, (str, Path)):
        log, unfinished = growing_log(log)
    found = log
    if not isinstance(found, Log):
        raise SpecError(f"log is {shown(found)}; expected a Log or the name of its file", key=("log",))
    if not is_number(alpha) or not 0.0 < alpha < 1.0:
        raise SpecError(f"alpha is {shown(alpha)}; it must be between 0 and 1", key=("alpha",))
    read_flag(give_up, "give_up")
    if file.promise is None:
        raise SpecError("the policy comes without a promise; save it with Plan.save, which knows what it is worth")
    if file.skip == 1.0:
        raise SpecError("the policy skips every episode; there is nothing to watch")
    if isinstance(file.horizon, Criterion):
        raise SpecError(f"the policy has no end ({file.horizon}); only totals of episodes are watched")
    if file.promise.least is None:
        raise SpecError("its promise does not say what an episode can pay; give it least and most")
    costs = same_places(file.cost_names, found.cost_names, "cost")
    played = [e for e in found.episodes if len(e)]
    too_long = next((e for e in played if len(e) > file.horizon), None)
    if too_long is not None:
        raise ModelError(f"the log has an episode of {len(too_long)} steps; the policy has {file.horizon}")
    ended = [e.terminated or len(e) == file.horizon for e in played]
    lost = _overtaken(played, ended)
    given_up = int(lost.sum()) if give_up else 0
    counting = [i for i in range(len(played)) if not (give_up and lost[i])]
    first = next((k for k, i in enumerate(counting) if not ended[i]), len(counting))
    whole, waiting = [played[i] for i in counting[:first]], counting[first:]
    stuck = None
    if waiting and lost[waiting[0]]:
        stuck = Stuck(waiting[0] + 1, len(played[waiting[0]]), len(waiting) - 1)
    order = [0, *(1 + costs)]
    totals = np.array([e.total[order] for e in whole]).reshape(len(whole), len(order))
    sizes = np.array([np.abs(e.pay[:, order]).sum(axis=0) for e in whole]).reshape(totals.shape)
    names = ("reward", *file.cost_names)
    ends = _ends(file.promise, names, {} if ranges is None else ranges)
    watched = tuple(
        _watch(name, i, totals[:, i], sizes[:, i].max(initial=0.0), file, ends[i], alpha / len(names))
        for i, name in enumerate(names)
    )
    states = log_places(found.state_names, file.state_names, [e.states for e in played], "state")
    actions = log_places(found.action_names, file.action_names, [e.actions for e in played], "action")
    return Monitoring(
        len(whole),
        len(waiting),
        float(alpha),
        watched,
        _odd(file, played, states, actions, costs),
        file.skip,
        _strange(file, policy.mdp if isinstance(policy, Plan) else None, played, states, actions),
        stuck,
        given_up,
        unfinished,
    )


def growing_log(path: str | Path, columns: Any = None, ignore: Any = (), shell: bool = False) -> tuple[Log, int]:
    """A log that may be written to just now, and how many lines at its end are not finished."""
    found = read_log(path, columns, ignore, growing=True, shell=shell)
    return found.loaded(), found.unfinished


def _overtaken(episodes: list[Episode], ended: list[bool]) -> Bool:
    """[n]: the episodes that have not ended, while a later one has after more steps."""
    found, longest = np.zeros(len(episodes), dtype=bool), 0
    for i in range(len(episodes) - 1, -1, -1):
        if ended[i]:
            longest = max(longest, len(episodes[i]))
        else:
            found[i] = longest > len(episodes[i])
    return found


def read_file(policy: Any) -> PolicyFile:
    """A policy with its promise."""
    if isinstance(policy, PolicyFile):
        return policy
    if isinstance(policy, (str, Path)):
        if Path(policy).suffix.lower() != ".json":
            raise SpecError(f"{policy}: a policy is watched from .json, which says what was promised", key=("policy",))
        return PolicyFile.load(policy)
    if not isinstance(policy, Plan):
        raise SpecError(f"policy is {shown(policy)}; expected a Plan, a PolicyFile or its .json", key=("policy",))
    return file_of(policy)


def _ends(promise: Promise, names: tuple[str, ...], given: Any) -> list[tuple[float, float]]:
    """The least and the most of each total."""
    if not isinstance(given, Mapping):
        raise SpecError(f"ranges is {shown(given)}; expected least, most by name", key=("ranges",))
    assert promise.least is not None
    assert promise.most is not None
    ends = list(zip(promise.least.tolist(), promise.most.tolist(), strict=True))
    for name, pair in given.items():
        if name not in names:
            raise SpecError(unknown("total", name, names), key=("ranges", name))
        if names.count(name) > 1:
            raise SpecError(f"a cost is called {name!r}, too; whose range is this?", key=("ranges", name))
        try:
            low, high = pair
        except (TypeError, ValueError):
            low = high = None
        if not (is_number(low) and is_number(high) and low < high):
            raise SpecError(f"the range of {name!r} is {shown(pair)}; expected least, most", key=("ranges", name))
        ends[names.index(name)] = float(low), float(high)
    return ends


def _watch(
    name: str, i: int, x: Float, size: float, file: PolicyFile, ends: tuple[float, float], alpha: float
) -> Watched:
    """One total against its promise, its limit and its floor; `size` is the most that an episode paid without signs.

    The tests end before the first episode that paid what the model cannot pay: what they had found by then stands.
    """
    assert file.promise is not None
    promised, share = float(file.promise.value[i]), 1.0 - file.skip
    bounds = ((b or {}).get(name) if i else None for b in (file.limits, file.floors))
    limit, floor = (None if bound is None else bound / share for bound in bounds)
    slack = SLACK * max(size, abs(promised))
    least, most = ends[0] - slack, ends[1] + slack
    outside = np.flatnonzero((x < least) | (x > most))
    mean = float(x.mean()) if x.size else float("nan")
    seen = (float(x.min()), float(x.max())) if x.size else (float("nan"), float("nan"))
    beyond = int(outside[0]) if outside.size else None
    x = x[:beyond]
    bar = float(np.log(2.0 / alpha))
    above, below = against(x, promised + slack, least, bar), against(-x, slack - promised, -most, bar)
    off = min((e.when for e in (above, below) if e.when is not None), default=None)
    low, high = interval(x, least, most, alpha)
    low, high = (float(low), float(high)) if low <= high else (np.nan, np.nan)
    tests = {"limit": None if limit is None else against(x, limit + slack, least, bar).when}
    tests["floor"] = None if floor is None else against(-x, slack - floor, -most, bar).when
    broken, since = min(tests.items(), key=lambda test: x.size + 1 if test[1] is None else test[1])
    odds = float(np.exp(min(max(max(above.most, below.most) - np.log(2.0), 0.0), 700.0)))
    above_first = off is not None and above.when == off
    row = (name, promised, limit, floor, mean, low, high, odds, off, since, beyond, *ends, seen)
    return Watched(*row, above_first, broken)


def _strange(
    file: PolicyFile, mdp: ConstrainedMDP | None, episodes: list[Episode], states: Int, actions: Int
) -> Strange:
    """What the model rules out: beginnings by its file, transitions where it is there and no estimate."""
    begins = np.array([states[e.states[0]] for e in episodes], dtype=np.int64)
    other = np.zeros(begins.size, dtype=bool)
    first = ""
    if file.start is not None:
        start = file.state_names.index(file.start)
        other = begins != start
        if other.any():
            some = file.state_names[begins[int(np.argmax(other))]]
            first = f"begin{'s' * (begins.size == 1)} in {some!r}, not in {file.start!r}"
            first = (
                first if np.unique(begins[other]).size == 1 else f"do not begin in {file.start!r}; the first: {some!r}"
            )
    count, transition = 0, ""
    if mdp is not None and mdp._visits is None and episodes:
        lengths = [len(e) - e.terminated for e in episodes]  # what follows an end is not known
        owner = np.repeat(np.arange(len(episodes)), lengths)
        step = np.concatenate([np.arange(n) for n in lengths])
        at, after = (
            states[np.concatenate([e.states[k : k + n] for e, n in zip(episodes, lengths, strict=True)])]
            for k in (0, 1)
        )
        did = actions[np.concatenate([e.actions[:n] for e, n in zip(episodes, lengths, strict=True)])]
        node = step * mdp.num_states + at if mdp.step_dependent else at
        every, which = np.unique(np.stack((node, did, after)), axis=1, return_inverse=True)
        wrong = ~np.array([_leads(mdp, *one) for one in every.T.tolist()], dtype=bool)[which.reshape(-1)]
        count = int(wrong.sum())
        if count:
            k = int(np.argmax(wrong))
            names = file.state_names[at[k]], file.action_names[did[k]], file.state_names[after[k]]
            transition = "episode {}, step {}: from {!r} by {!r} to {!r}".format(owner[k] + 1, step[k], *names)
    return Strange(int(other.sum()), len(episodes), first, count, transition)


def _leads(mdp: ConstrainedMDP, node: int, action: int, after: int) -> bool:
    """Whether a transition has a positive probability; an action that the model does not have is another matter."""
    g = mdp.graph
    pairs = np.arange(g.first[node], g.first[node + 1])
    pair = pairs[mdp.action[pairs] == action]
    if not pair.size:
        return True
    outcomes = slice(int(g.start[pair[0]]), int(g.start[pair[0] + 1]))
    return bool((g.probability[outcomes][g.successor[outcomes] == after] > 0.0).any())


def _odd(file: PolicyFile, episodes: list[Episode], states: Int, actions: Int, cost: Int) -> Odd:
    """Steps at which an action was played that no policy of the file plays; `cost` [d]: where the log has its costs."""
    count, first = 0, ""
    for number, episode in enumerate(episodes):
        at, did = states[episode.states[:-1]], actions[episode.actions]
        fine = np.zeros(len(episode), dtype=bool)
        for policy in file.components:
            fine |= _plays(policy, at, did, episode.costs[:, cost])
        if not fine.all():
            h = int(np.argmin(fine))
            where = f"state {file.state_names[at[h]]!r}, action {file.action_names[did[h]]!r}"
            first = first or f"episode {number + 1}, step {h}: {where}"
            count += int((~fine).sum())
    return Odd(count, sum(map(len, episodes)), first)


def _plays(policy: Any, state: Any, action: Any, costs: Float) -> Any:
    """[L]: whether a policy may play these actions, one step after the other."""
    if not isinstance(policy, SpentPolicy):
        played = zip(range(state.size), state.tolist(), action.tolist(), strict=True)
        return np.array([policy._row(h, s)[a] > 0.0 for h, s, a in played], dtype=bool)
    counter, total, fine = policy.counter, policy.counter.start, []
    for h, (s, a) in enumerate(zip(state.tolist(), action.tolist(), strict=True)):
        node = policy._node(h, s, total)
        known = node >= 0
        row = policy.inner.probabilities[h, node] if known else None
        first = policy.first_actions[min(h, policy.first_actions.shape[0] - 1), s]
        fine.append(bool(row[a] > 0.0) if row is not None else bool(first == a))
        total = counter.add(total, counter.read(costs[h]))
    return np.array(fine, dtype=bool)
