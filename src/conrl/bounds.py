"""The paper's bounds as formulas on numbers (Brantley et al. 2020, corrected version).

Letters: S states, A actions, H steps, d costs; k or K episodes, delta a failure probability, N a count of visits.
Rewards and costs of one step lie in [0, 1]. AggReg(k) bounds k times the regrets of Eqs. 2 and 3:

    16 S sqrt(A H^5) sqrt(k) sqrt(ln k  L) + 1 + 32 S^1.5 A H^3 sqrt(L) + M(k),   L = ln(2SAH(d+1)k / delta).

What was checked when re-deriving Appendices B and F; the first four points need no change of constants.

1. Validity (Lemma 3.2) and Lemma B.4 use Hoeffding's inequality at a *random* count N_k. A union over the counts
   n <= H(k-1) costs nothing: the paper uses |X| <= b, exp(-n t^2 / (2 b^2)), where X even has range b,
   exp(-2 n t^2 / b^2). That fourth power pays for it, and for one net at each k, which epsilon = 1/(kHS) needs.
2. The net of Lemma B.4 misses the union over steps h: (8SAH(d+1)k^2/delta)(2H^2/epsilon) has H^3, not H^2. But a point
   of the net does not depend on h, so that union is not needed and H^2 stands.
3. sum_{j=H+1..N} 1/j <= ln(N/H) <= ln k (not ln N, which may exceed ln k), and with epsilon = 1/(kHS)
   ln(16 S^2 A H^3 (d+1) k^3 / delta) <= 4 L: the printed 16 and 32 follow (22.7 would do for the latter).
4. One martingale bound serves all d+1 objectives (else it fails with (d+1) delta): apply it to max_m |Bell_m|. In the
   concave-convex setting take r_hat + alpha b with one alpha (Lemma C.1), so that values have the same range.
5. DEVIATION. Lemma F.3 as printed, C sqrt(2 ln(4K^2/delta) K H), is false for large H: steps of one episode are not a
   martingale around the expectation at its start (draw the first state; f = C or 0 ever after). Episodes are, with
   range CH, which gives C H sqrt(ln(4K^2/delta) K / 2): less than the printed one up to H = 4, more beyond it.
6. DEVIATION. M(k) is printed as 5 H^2.5 sqrt(2 ln(4k^2/delta) k). With point 5 and |Bell| <= H(2H+1) (the appendix has
   5H^2, from Q <= 2H^2, which should be H(2H+1)) it follows for H <= 23; beyond, M(k) is the corrected lemma's.
7. DEVIATION. Hard budgets bind *realised* costs: `realised_aggregate_bound` adds the martingale term of each objective
   and splits delta, so that everything holds together with probability 1 - delta.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict, Unpack

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Float
from conrl.errors import SpecError, shown
from conrl.wording import OnlyGiven

__all__ = [
    "KnapsackRegime",
    "Sizes",
    "aggregate_bound",
    "anytime_hoeffding",
    "bellman_error_bound",
    "bonus",
    "convex_regret_bound",
    "hoeffding",
    "knapsack_epsilon",
    "martingale_bound",
    "pac_episodes",
    "realised_aggregate_bound",
    "regret_bound",
    "trivial_until",
]


DECREASING_FROM = 8  # regret_bound falls from here on: d/dk ln(k) ln(ck) / k < 0 once ln k >= 2 and c >= 1


class Sizes(TypedDict):
    """The keyword arguments that all bounds share."""

    num_states: int
    num_actions: int
    horizon: int
    num_costs: int
    delta: float  # failure probability of one event; of everything together where a function says so


def bonus(counts: ArrayLike, *, episode: int, **sizes: Unpack[Sizes]) -> Float:
    """Eq. 9: min{ 2H, H sqrt( 2 ln(8SAH(d+1)k^2/delta) / N ) }, elementwise; N = max(1, counts) (Eq. 4).

    Below 2H it is `hoeffding` with H at delta / (4SAH(d+1)k^2): Lemma F.1, without F.2's 4N^2 (point 1 of the module).
    Valid (Definition 3.1) for all episodes at once with probability at least 1 - delta (Lemma 3.2).
    """
    S, A, H, d, delta = _read(**sizes)
    k = _at_least_one(episode, "episode")
    log = np.log(8.0 * S * A * H * (d + 1) * k**2 / delta)
    b: Float = np.minimum(2.0 * H, H * np.sqrt(2.0 * log / _visits(counts)))
    return b


def hoeffding(counts: ArrayLike, *, bound: float, delta: float) -> Float:
    """Lemma F.1: b sqrt( 2 ln(2/delta) / N ), elementwise; N = `counts` from 1 on, b = `bound`.

    The mean of N independent numbers in [-b, b] whose expectation is 0 is at most as far from 0, with probability at
    least 1 - delta.
    """
    _check_probability(delta)
    root: Float = np.sqrt(2.0 * np.log(2.0 / delta) / _at_least_one(counts, "counts"))
    return bound * root


def anytime_hoeffding(counts: ArrayLike, *, bound: float, delta: float) -> Float:
    """Lemma F.2: b sqrt( 2 ln(4N^2/delta) / N ), elementwise: as `hoeffding`, for all N at once."""
    _check_probability(delta)
    n = _at_least_one(counts, "counts")
    root: Float = np.sqrt(2.0 * np.log(4.0 * n**2 / delta) / n)
    return bound * root


def bellman_error_bound(
    counts: ArrayLike, *, episode: int, epsilon: float | None = None, **sizes: Unpack[Sizes]
) -> Float:
    """Lemma B.4: |Bell| <= 4 H^2 sqrt( 2 S ln(16SAH^2(d+1)k^2/(epsilon delta)) / N ) + epsilon S, elementwise.

    Holds for all pairs, steps, episodes and objectives with probability at least 1 - delta where the bonus is valid.
    `epsilon` in (0, 1] is the mesh of the net; by default 1/(kHS), as in Appendix B.6.
    """
    S, A, H, d, delta = _read(**sizes)
    k = _at_least_one(episode, "episode")
    mesh = 1.0 / (k * H * S) if epsilon is None else epsilon
    if not np.all((mesh > 0.0) & (mesh <= 1.0)):
        raise SpecError(f"epsilon is {epsilon}; the mesh of a net is in (0, 1]")
    log = np.log(16.0 * S * A * H**2 * (d + 1) * k**2 / (mesh * delta))
    return 4.0 * H**2 * np.sqrt(2.0 * S * log / _visits(counts)) + mesh * S


def martingale_bound(episodes: ArrayLike, *, horizon: int, bound: float, delta: float) -> Float:
    """Lemma F.3, corrected: how far sums of f in [0, C] over K episodes stray from their expectation.

        C sqrt( ln(4K^2/delta) K ) max{ sqrt(2H), H / sqrt(2) },   C = `bound`

    With probability at least 1 - delta, for all K at once. The first member is the paper's; it follows only up to
    H = 4, where the second, Azuma-Hoeffding over whole episodes, takes over (point 5 of the module).
    """
    _check_least(horizon, "horizon")
    _check_probability(delta)
    k = _at_least_one(episodes, "episodes")
    root: Float = np.sqrt(np.log(4.0 * k**2 / delta) * k)
    factor: float = bound * max((2.0 * horizon) ** 0.5, horizon / 2.0**0.5)
    return root * factor


def aggregate_bound(episodes: ArrayLike, **sizes: Unpack[Sizes]) -> Float:
    """AggReg(k), Appendix B.6: a bound on k RewReg(k) and k ConsReg(k), with probability at least 1 - 3 delta.

    The printed constants, but for the last term beyond H = 23 (point 6 of the module). That term then grows like H^3
    sqrt(k); a multiplicative Chernoff bound would keep the theorem's H^2.5 at the price of e/(e-1) on the first term.
    """
    S, A, H, d, delta = _read(**sizes)
    k = _at_least_one(episodes, "episodes")
    L: Float = np.log(2.0 * S * A * H * (d + 1) * k / delta)
    main: Float = 16.0 * S * np.sqrt(A * float(H) ** 5 * k * np.log(k) * L)
    first_visits: Float = 1.0 + 32.0 * S**1.5 * A * H**3 * np.sqrt(L)
    printed = 5.0 * H**2.5 * np.sqrt(2.0 * np.log(4.0 * k**2 / delta) * k)
    proven = martingale_bound(k, horizon=H, bound=H * (2.0 * H + 1.0), delta=delta)
    last: Float = np.maximum(printed, proven)
    return main + first_visits + last


def regret_bound(episodes: ArrayLike, **sizes: Unpack[Sizes]) -> Float:
    """Theorem 3.4: AggReg(k) / k bounds RewReg(k) and ConsReg(k), with probability at least 1 - 3 delta."""
    return aggregate_bound(episodes, **sizes) / np.asarray(episodes, dtype=np.float64)


def convex_regret_bound(episodes: ArrayLike, lipschitz: float, **sizes: Unpack[Sizes]) -> tuple[Float, Float]:
    """Theorem 4.1: (L AggReg(k)/k, L d AggReg(k)/k) bound the convex reward and consumption regrets.

    `lipschitz` L is of f and, in the 1-norm, of each constraint function. The theorem says "with probability 1 -
    delta" of regrets "with failure probability delta"; in the terms of Theorem 3.4 this is 1 - 3 delta, as here.
    """
    if not lipschitz >= 0.0:
        raise SpecError(f"lipschitz is {lipschitz}; a Lipschitz constant is at least 0")
    one = regret_bound(episodes, **sizes)
    return lipschitz * one, lipschitz * sizes["num_costs"] * one


def realised_aggregate_bound(episodes: ArrayLike, **sizes: Unpack[Sizes]) -> Float:
    """AggReg for *realised* rewards and costs, with probability at least 1 - delta (not 1 - 3 delta).

        AggReg(k) at delta/4  +  the martingale term (Lemma F.3, C = 1) at delta / (4(d+1))

    The proof of Theorem 5.1 bounds realised consumption by a regret of expectations; the second term is what lies
    between the two, for the reward and d costs at once. Failures: 3 delta/4 for Theorem 3.4 and delta/4 for it.
    """
    _, _, H, d, delta = _read(**sizes)
    quarter: Sizes = {**sizes, "delta": delta / 4.0}
    noise = martingale_bound(episodes, horizon=H, bound=1.0, delta=delta / (4.0 * (d + 1)))
    return aggregate_bound(episodes, **quarter) + noise


@dataclass(frozen=True, repr=False)
class KnapsackRegime(OnlyGiven):
    """What Theorem 5.1 promises for given budgets."""

    epsilon: float  # tighten budgets by this share; no probability where the theorem does not apply
    aggregate: float  # the realised AggReg(K) used
    applies: bool  # whether budgets are kept with probability at least 1 - delta
    message: str
    reward_regret: float  # bound on RewReg(K); inf where the theorem does not apply


def knapsack_epsilon(budgets: ArrayLike, episodes: int, **sizes: Unpack[Sizes]) -> KnapsackRegime:
    """Theorem 5.1: epsilon = AggReg / min_i B_i, in the regime min_i B_i > AggReg; all with probability 1 - delta.

    AggReg is `realised_aggregate_bound`. The bound on the reward regret is Eq. 24, AggReg/K +
    epsilon H, at most the theorem's 2H AggReg / min_i B_i as min_i B_i <= KH. Budgets of at least KH cannot be
    exceeded: then epsilon is 0.
    """
    _, _, H, d, delta = _read(**sizes)
    B = np.atleast_1d(np.asarray(budgets, dtype=np.float64))
    if B.shape != (d,) or not (B >= 0.0).all():
        raise SpecError(f"budgets is {shown(budgets)}; expected {d} numbers of at least 0 (inf for none), one per cost")
    aggregate = float(realised_aggregate_bound(episodes, **sizes))
    least, trivial = float(B.min(initial=np.inf)), float(episodes * H)
    if least >= trivial:
        message = f"the budgets cannot be exceeded: {episodes} episodes consume at most {trivial:g} of anything"
        return KnapsackRegime(0.0, aggregate, True, message, aggregate / episodes)
    epsilon = aggregate / least if least > 0.0 else float("inf")
    if epsilon >= 1.0:
        message = (
            f"no guarantee: the smallest budget, {least:g}, is not above AggReg = {aggregate:g} (delta = {delta:g}). "
            f"At fewer than {_first_below(H, realised=True, **sizes):g} episodes no budget that binds is"
        )
        return KnapsackRegime(epsilon, aggregate, False, message, float("inf"))
    message = f"budgets are kept with probability at least {1.0 - delta:g} when tightened by {epsilon:.3g}"
    return KnapsackRegime(epsilon, aggregate, True, message, aggregate / episodes + epsilon * H)


def pac_episodes(epsilon: float, **sizes: Unpack[Sizes]) -> int:
    """The PAC sample size (remark after Theorem 3.4): the least K from which on `regret_bound` is <= epsilon.

    The uniform mixture of the policies of K episodes is then within epsilon of the optimum and of every limit, with
    probability at least 1 - 3 delta. Found by doubling and bisection; K is of order S^2 A H^5 / epsilon^2, up to
    logarithms (and, beyond H = 23, up to the H^6 of the last term of `aggregate_bound`).
    """
    if not 0.0 < epsilon < np.inf:
        raise SpecError(f"epsilon is {epsilon}; it must be positive")
    return _first_below(epsilon, realised=False, **sizes)


def trivial_until(**sizes: Unpack[Sizes]) -> int:
    """The last K at which AggReg(K) exceeds K H, the most that any regret can be; before, the theorem says nothing."""
    return _first_below(float(sizes["horizon"]), realised=False, **sizes) - 1


def _first_below(level: float, *, realised: bool, **sizes: Unpack[Sizes]) -> int:
    """The least K such that the bound per episode is <= level there and ever after."""
    aggregate = realised_aggregate_bound if realised else aggregate_bound

    def below(k: int) -> bool:
        return float(aggregate(float(k), **sizes)) / k <= level

    low, high = DECREASING_FROM - 1, DECREASING_FROM
    while not below(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if below(middle) else (middle, high)
    while high <= DECREASING_FROM and high > 1 and below(high - 1):  # not monotone there: one by one
        high -= 1
    return high


def _read(
    *, num_states: int, num_actions: int, horizon: int, num_costs: int, delta: float
) -> tuple[int, int, int, int, float]:
    """S, A, H, d and delta."""
    _check_least(num_states, "num_states")
    _check_least(num_actions, "num_actions")
    _check_least(horizon, "horizon")
    _check_least(num_costs, "num_costs", 0)
    _check_probability(delta)
    return num_states, num_actions, horizon, num_costs, delta


def _check_least(value: int, name: str, least: int = 1) -> None:
    if value < least:
        raise SpecError(f"{name} is {value}; it must be at least {least}")


def _check_probability(delta: float) -> None:
    if not 0.0 < delta <= 1.0:
        raise SpecError(f"delta is {delta}; a failure probability is in (0, 1]")


def _at_least_one(value: ArrayLike, name: str) -> Float:
    k = np.asarray(value, dtype=np.float64)
    if not (k >= 1.0).all():
        raise SpecError(f"{name} is {shown(value)}; it must be at least 1")
    return k


def _visits(counts: ArrayLike) -> Float:
    """Eq. 4: a pair never visited counts as visited once."""
    n = np.asarray(counts, dtype=np.float64)
    if not (n >= 0.0).all():
        raise SpecError("counts has a negative entry or one that is no number")
    return np.maximum(1.0, n)
