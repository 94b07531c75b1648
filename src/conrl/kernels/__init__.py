"""The hot loops: everything that touches each transition of a model at each step, and the only code that is compiled.

`layout` puts a model into the order of work, `planning` holds backward induction, `large` that of large models, `line`
the whole search within limits on one cost, `policies` what given policies do, `playing` episodes, `learning` counting
them, `continuing` playing without a reset, `optimism` backward induction over intervals of transitions, `prudence`
several values at once over such intervals, `divergence` intervals by relative entropy, `truncated` backward induction
with values cut off, `average_reward` value iteration over intervals, `stationary` sweeps without a horizon, `slow`
chains that hardly ever move, `changes` what one change of a policy does, `building` what a model is read from, `fleets`
many processes at once, `fewer` plans of fleets with fewer mixtures, `fleet_steps` fleets played, `guarding` what is
safe then, `ensembles` one policy in many models. (A2C's network is compiled by jax, in `conrl.oracles`.)

A model is seen here as a sparse list of *pairs* (s, a) and, for each pair, of *outcomes*:

    first       [S+1]  pairs of state s are first[s] .. first[s+1]-1, by rising action; where every step has pairs of
                       its own, [H*S+1], and those of state s at step h are first[h*S+s] .. first[h*S+s+1]-1
    start       [P+1]  outcomes of pair k are start[k] .. start[k+1]-1
    successor   [N]    the state an outcome leads to
    probability [N]    and its probability

Letters: h step, s state, k pair, j outcome, V value to go, mu state distribution; `pay` is the reward and the costs of
a pair or an outcome. Backward induction leaves its policy as `choice`: for each step and each block that can be
occupied then (row at[h] and those after it), the index of the action among the pairs of each state.

Backward induction runs in an order of its own. `conrl.model.graph.Reach` drops the states that the start cannot lead
to and numbers the others by the step at which they are first reached: `order[i]` is the state at position i. LANES
neighbouring positions are a *block*; `blocks[lo[h]:hi[h]]` are those that can be occupied at step h. Where every step
has pairs of its own, a position is a state at one step, and the blocks of a step are those of its own states.
`backward` carries one direction through the LANES states of a block at once, `backward_many` LANES directions
through one state at once. Both fill the vector registers: the one by interleaving the outcomes of a block
(`interleave`: a missing outcome has probability 0, a missing action pays -inf), the other by reading each
outcome once for all directions. They add in the same order and give the same bits, as do `along`, `along_blocks` and
`along_many`, which take the pay along a direction: a library's products of matrices and of vectors do not, and the
policy made for a direction alone would not be the one that was valued together with others.

Nothing here is compiled with fast-math, and no kernel starts threads: oracles do, over ranges that change no bit. Ties
between actions go to the lowest index: an action replaces an earlier one only if it is better by more than `tie`, while
the value passed on is always the true maximum, so that a support value is an upper bound and its policy is within
H * tie of it.
"""

from conrl.kernels.average_reward import extended_value_iteration, intervals, optimistic
from conrl.kernels.building import gather_outcomes
from conrl.kernels.changes import advantages, climb, climb_twice, occupied
from conrl.kernels.compiling import compiled
from conrl.kernels.continuing import follow_all, walk
from conrl.kernels.divergence import kl_interval
from conrl.kernels.ensembles import ensemble_visits, policy_values, values_after
from conrl.kernels.fewer import fewer_mixtures
from conrl.kernels.fleet_steps import fleet_starts, fleet_step
from conrl.kernels.fleets import fleet_sweep
from conrl.kernels.guarding import later_needs, safe_policies
from conrl.kernels.lanes import LANES, add, every, gather, row
from conrl.kernels.large import FEW, extent, large_step, large_step_few, mark_next, started
from conrl.kernels.layout import arranged, in_order, interleave, reachable_by_step
from conrl.kernels.learning import (
    believed,
    count_steps,
    empirical,
    listed_links,
    noise,
    noisy_bonus,
    pairwise,
    scattered,
)
from conrl.kernels.line import CONFLICT, FOUND, FULL, line_search
from conrl.kernels.optimism import extended_backward, extended_occupation
from conrl.kernels.planning import (
    PART,
    along,
    along_blocks,
    along_many,
    answer,
    answer_many,
    backward,
    backward_many,
    collected,
    expected,
    greedy,
    many_ways,
    visits,
    worth,
)
from conrl.kernels.playing import fits, play_block, rollout, simulate, simulate_stationary, sum_up, to_go
from conrl.kernels.policies import (
    actions_of,
    markov,
    mixed_rows,
    mixed_states,
    mixed_table,
    mixing,
    occupation,
    occupation_deterministic,
    occupation_sparse,
    push,
)
from conrl.kernels.prudence import apart_backward, apart_values
from conrl.kernels.slow import ELIMINATION, along_closely, better, eliminate, eliminated, gains, unbalanced
from conrl.kernels.stationary import (
    apply,
    chain_of,
    follow,
    improve,
    krylov,
    paid,
    profile,
    reached,
    relative,
    residual,
    series,
    strong,
)
from conrl.kernels.truncated import clipped_greedy, truncated_values

__all__ = [
    "CONFLICT",
    "ELIMINATION",
    "FEW",
    "FOUND",
    "FULL",
    "LANES",
    "PART",
    "actions_of",
    "add",
    "advantages",
    "along",
    "along_blocks",
    "along_closely",
    "along_many",
    "answer",
    "answer_many",
    "apart_backward",
    "apart_values",
    "apply",
    "arranged",
    "backward",
    "backward_many",
    "believed",
    "better",
    "chain_of",
    "climb",
    "climb_twice",
    "clipped_greedy",
    "collected",
    "compiled",
    "count_steps",
    "eliminate",
    "eliminated",
    "empirical",
    "ensemble_visits",
    "every",
    "expected",
    "extended_backward",
    "extended_occupation",
    "extended_value_iteration",
    "extent",
    "fewer_mixtures",
    "fits",
    "fleet_starts",
    "fleet_step",
    "fleet_sweep",
    "follow",
    "follow_all",
    "gains",
    "gather",
    "gather_outcomes",
    "greedy",
    "improve",
    "in_order",
    "interleave",
    "intervals",
    "kl_interval",
    "krylov",
    "large_step",
    "large_step_few",
    "later_needs",
    "line_search",
    "listed_links",
    "many_ways",
    "mark_next",
    "markov",
    "mixed_rows",
    "mixed_states",
    "mixed_table",
    "mixing",
    "noise",
    "noisy_bonus",
    "occupation",
    "occupation_deterministic",
    "occupation_sparse",
    "occupied",
    "optimistic",
    "paid",
    "pairwise",
    "play_block",
    "policy_values",
    "profile",
    "push",
    "reachable_by_step",
    "reached",
    "relative",
    "residual",
    "rollout",
    "row",
    "safe_policies",
    "scattered",
    "series",
    "simulate",
    "simulate_stationary",
    "started",
    "strong",
    "sum_up",
    "to_go",
    "truncated_values",
    "unbalanced",
    "values_after",
    "visits",
    "walk",
    "worth",
]
