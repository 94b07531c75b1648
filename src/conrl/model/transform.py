"""Models made from models: an episodic one as a single unending episode; the part that the start can reach.

`single_episode` is the reduction of Section 6 of Brantley et al. (2020): learners for the average reward of one
unending episode (TFW-UCRL2) are run on an episodic model by connecting its terminal states to the start. A terminal
state takes one step before the return, and that step pays what a step there pays.

Such learners assume that every state can be reached from every other. One that cannot be reached is never visited, so
that its optimistic value never falls; and as no successor is ever ruled out, plans go on searching for a way to it
instead of using what was learned. `reachable_part` leaves such states out (Box has them: half of its 121 states).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from conrl._types import Array, Bool, Float, Index, Int
from conrl.arguments import frozen, is_int
from conrl.errors import ModelError, shown
from conrl.model.criteria import need_steps
from conrl.model.graph import Graph, select
from conrl.model.layout import Layout
from conrl.model.mdp import ConstrainedMDP, need_model, need_stationary
from conrl.model.reading import new_name
from conrl.sizes import check_costs


def single_episode(mdp: ConstrainedMDP, terminal: Iterable[int | str] | None = None) -> ConstrainedMDP:
    """The model in which every action of a terminal state leads back to the start.

    Args:
        mdp: an episodic model. Its horizon H stays: it is the length of a trajectory, and limits are per H steps.
        terminal: the terminal states, by index or name; by default those that no action leaves.

    The return goes to each state with its initial probability, and pays what the step paid; rewards and costs of all
    pairs are those of `mdp`.

    >>> from conrl.envs import mars_rover
    >>> single_episode(mars_rover(rock_reward=1.0))
    ConstrainedMDP(states=64, actions=4, costs=1, horizon=30, outcomes=904)
    """
    need_stationary(mdp, "single_episode")
    need_steps(mdp.horizon, "single_episode")
    ends = absorbing(mdp) if terminal is None else _given(mdp, terminal)
    if not ends.any():
        raise ModelError(
            "the model has no terminal state: some action leaves each of them. "
            "It may be one unending episode already; else name them with terminal=[...]"
        )
    origin = np.flatnonzero(mdp.initial > 0.0)
    if ends[origin].all():
        raise ModelError(f"the start {mdp.state_name(int(origin[0]))!r} is itself terminal: there is nothing to play")
    g = mdp.graph
    outcomes = np.diff(g.start)
    returns = np.repeat(ends[mdp.pair_state], outcomes)  # [N]: the outcomes to be sent back
    times = np.where(returns, origin.size, 1)
    back = np.repeat(returns, times)
    successor, probability = np.repeat(g.successor, times), np.repeat(g.probability, times)
    successor[back] = np.tile(origin, int(returns.sum()))
    probability[back] *= np.tile(mdp.initial[origin], int(returns.sum()))
    start = np.concatenate(([0], np.cumsum(times)))[g.start.astype(np.int64)]
    return mdp._copy(
        graph=Graph(g.first, frozen(start), frozen(successor), frozen(probability)),
        outcome_pay=None if mdp.outcome_pay is None else frozen(np.repeat(mdp.outcome_pay, times, axis=0)),
        _visits=None,
        _log=None,
        _derived={},
    )


def reachable_part(mdp: ConstrainedMDP) -> ConstrainedMDP:
    """The model without the states that the start can never lead to; the others keep their names and their order.

    >>> from conrl.envs import box
    >>> reachable_part(single_episode(box())).num_states
    60
    """
    if mdp.step_dependent:
        raise ModelError("the model depends on the step, and which states can be reached too; take a stationary one")
    keep = reached_states(mdp)
    part, pairs, outcomes = mdp.graph.part(np.flatnonzero(keep), np.cumsum(keep, dtype=np.int32) - 1)
    first, start = part.first.astype(np.int64), part.start.astype(np.int64)
    graph = Graph(frozen(first), frozen(start), frozen(part.successor), frozen(part.probability))
    layout = mdp.layout
    return mdp._copy(
        num_states=int(keep.sum()),
        graph=graph,
        action=frozen(mdp.action[pairs]),
        pay=frozen(mdp.pay[pairs]),
        outcome_pay=None if mdp.outcome_pay is None else frozen(mdp.outcome_pay[outcomes]),
        bonus=None if mdp.bonus is None else frozen(mdp.bonus[pairs]),
        initial=frozen(mdp.initial[keep]),
        features=None if mdp.features is None else frozen(mdp.features[keep]),
        layout=None if layout is None else Layout(layout.rows, layout.cell[keep], layout.arrows),
        _names=mdp._names._replace(states=tuple(mdp.state_names[s] for s in np.flatnonzero(keep))),
        _visits=None if mdp._visits is None else frozen(mdp._visits[pairs]),
        _log=None,
        _derived={},
    )


def reached_states(mdp: ConstrainedMDP) -> Bool:
    """[S]: states that some policy comes to, in however many steps."""
    first, start, successor, probability = mdp.graph
    reached = mdp.initial > 0.0
    new: Index = np.flatnonzero(reached)
    while new.size:  # each state is looked at once
        outcomes = select(start, select(first, new)[1])[1]
        after = np.unique(successor[outcomes[probability[outcomes] > 0.0]])
        new = after[~reached[after]]
        reached[new] = True
    return reached


def rolled(
    mdp: ConstrainedMDP,
    num_states: int,
    state_names: Sequence[str] | None = None,
    action_names: Sequence[str] | None = None,
) -> ConstrainedMDP:
    """A step-dependent model of `num_states` states from one whose state h * S + s is state s at step h.

    It may have one state more, END, at which every step stays. After the last step a state is read as in the last.
    """
    H, S = mdp.horizon, num_states
    extra = mdp.num_states - H * S  # 0 or 1
    total = S + extra
    of_state = np.append(np.tile(np.arange(S), H), np.full(extra, S))
    counts = np.diff(mdp.graph.start)
    source = np.repeat(mdp.pair_state, counts)
    paid = mdp.pay_by_outcome
    last = source >= H * S  # END's own: once for each step
    times = np.where(last, H, 1)
    step = np.repeat(source // S, times)
    step[np.repeat(last, times)] = np.tile(np.arange(H), int(last.sum()))
    again = np.repeat(np.arange(source.size), times)
    made = ConstrainedMDP.from_outcomes(
        of_state[source][again],
        np.repeat(mdp.action, counts)[again],
        of_state[mdp.graph.successor][again],
        mdp.graph.probability[again],
        paid[again],
        num_states=total,
        num_actions=mdp.num_actions,
        horizon=H,
        step=step,
        initial=np.append(mdp.initial[:S], mdp.initial[H * S :]),
        limits=mdp.limits,
        cost_names=mdp.cost_names,
        can_stop=mdp.can_stop,
        state_names=state_names,
        action_names=action_names,
    )
    node = np.where(made.pair_state < S, made.pair_step * S + made.pair_state, H * S)
    pair = mdp.pair_index[node, made.action]
    visits = None if mdp._visits is None else frozen(mdp._visits[pair])
    outcome_pay = None if mdp.outcome_pay is None else made.outcome_pay
    known = {"_visits": visits, "_ranges": mdp._ranges, "_log": mdp._log}
    return made._copy(pay=frozen(mdp.pay[pair]), outcome_pay=outcome_pay, **known)


def with_own_steps(mdp: ConstrainedMDP) -> ConstrainedMDP:
    """The same model with pairs of its own for every step."""
    if mdp.step_dependent:
        return mdp
    H, P, g = need_steps(mdp.horizon, "a model by step"), mdp.num_pairs, mdp.graph

    def begins(begin: Index, count: int) -> Int:
        return frozen(np.append((np.arange(H)[:, None] * count + begin[:-1]).reshape(-1), H * count))

    def again(table: Array | None) -> Any:
        return None if table is None else frozen(np.tile(table, (H, *(1,) * (table.ndim - 1))))

    graph = Graph(begins(g.first, P), begins(g.start, g.probability.size), again(g.successor), again(g.probability))
    columns = {name: again(getattr(mdp, name)) for name in ("action", "pay", "outcome_pay", "bonus", "_visits")}
    return mdp._copy(step_dependent=True, graph=graph, _log=None, _derived={}, **columns)


def with_step_costs(mdp: Any, wanted: Sequence[tuple[int, int]]) -> ConstrainedMDP:
    """The model with one more cost for each (cost, step): that cost, paid at that step only."""
    need_model(mdp, "a limit per step")
    model = with_own_steps(mdp)
    check_costs(model.num_costs + len(wanted))
    names = list(model.cost_names)
    for cost, step in wanted:
        names.append(new_name(f"{model.cost_names[cost]} at step {step}", names))
    which = np.array([1 + cost for cost, _ in wanted], dtype=np.int64)
    when = np.array([step for _, step in wanted], dtype=np.int64)
    of_outcome = np.repeat(model.pair_step, np.diff(model.graph.start))

    def wider(table: Float | None, at: Int) -> Float | None:
        if table is None:
            return None
        return frozen(np.hstack((table, np.where(at[:, None] == when, table[:, which], 0.0))))

    ranges = model._ranges
    return model._copy(
        num_costs=model.num_costs + len(wanted),
        pay=wider(model.pay, model.pair_step),
        outcome_pay=wider(model.outcome_pay, of_outcome),
        bonus=wider(model.bonus, model.pair_step),
        limits=None if model.limits is None else frozen(np.append(model.limits, np.full(len(wanted), np.inf))),
        _ranges=None if ranges is None else frozen(np.vstack((ranges, np.full((len(wanted), 2), np.nan)))),
        _names=model._names._replace(costs=tuple(names)),
        _derived={},
    )


def absorbing(mdp: ConstrainedMDP) -> Bool:
    """[S]: states that no action leaves."""
    source = np.repeat(mdp.pair_state, np.diff(mdp.graph.start))
    leaves = np.zeros(mdp.num_states, dtype=bool)
    leaves[source[(mdp.graph.successor != source) & (mdp.graph.probability > 0.0)]] = True
    return ~leaves


def _given(mdp: ConstrainedMDP, terminal: Iterable[int | str]) -> Bool:
    flat = not isinstance(terminal, np.ndarray) or terminal.ndim == 1
    if isinstance(terminal, str) or not isinstance(terminal, Iterable) or not flat:
        raise ModelError(f"terminal is {shown(terminal)}; expected a list of states")
    ends = np.zeros(mdp.num_states, dtype=bool)
    for state in terminal:
        if isinstance(state, str) and state in mdp.state_names:
            ends[mdp.state_names.index(state)] = True
        elif is_int(state) and 0 <= int(state) < mdp.num_states:
            ends[int(state)] = True
        else:
            raise ModelError(
                f"terminal state {state!r} is not in the model; it must be a name or in 0..{mdp.num_states - 1}"
            )
    return ends
