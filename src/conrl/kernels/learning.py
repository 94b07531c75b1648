"""Episodes counted, and what the counts say: transitions, noise, pay with its bonus."""

import numpy as np

from conrl.kernels.compiling import Array, compiled


@compiled
def count_steps(
    states: Array,
    actions: Array,
    pay: Array,
    rank: Array,
    place: Array,
    order: Array,
    first: Array,
    action: Array,
    visits: Array,
    sums: Array,
    means: Array,
    head: Array,
    link_next: Array,
    link_successor: Array,
    link_count: Array,
    link_share: Array,
    link_centers: Array,
    link_moments: Array,
    sizes: Array,
) -> None:
    """Add the steps (states[m, h], actions[m, h], pay[m, h], states[m, h+1]) of episodes m to sparse counts.

    States have places 0, 1, ... in the order in which they are first seen; `place` [S] is -1 before. The pairs of place
    i are first[i] .. first[i+1]-1; `rank` [S, A] is the index of an action among those of its state, -1 for one that
    does not exist. The successors of pair k are a list from head[k] through link_next (-1: the
    end). sizes = (states seen, links). All arrays are long enough for what is new. The first
    state is seen even if no step is played.

    link_centers [links, 1+d] are the mean pay of the visits of a pair that led to one successor, link_moments [links,
    (1+d)(2+d)/2] the sums of products of deviations from them, row by row of the lower triangle (Welford 1962: nothing
    cancels, whatever the offset).
    """
    episodes, steps = actions.shape
    for e in range(episodes):
        for h in range(steps + 1):
            s = states[e, h]
            if place[s] < 0:
                i = sizes[0]
                sizes[0] += 1
                place[s] = i
                order[i] = s
                k = first[i]
                for a in range(rank.shape[1]):
                    if rank[s, a] >= 0:
                        action[k] = a
                        visits[k] = 0
                        head[k] = -1
                        sums[k] = 0.0
                        means[k] = 0.0
                        k += 1
                first[i + 1] = k
    width = pay.shape[2]
    moved = np.empty(width)
    for e in range(episodes):
        for h in range(steps):
            t = place[states[e, h + 1]]
            k = first[place[states[e, h]]] + rank[states[e, h], actions[e, h]]
            visits[k] += 1
            for m in range(width):
                sums[k, m] += pay[e, h, m]
            link = head[k]
            before = -1
            while link >= 0 and link_successor[link] != t:
                before = link
                link = link_next[link]
            if link < 0:
                link = sizes[1]
                sizes[1] += 1
                link_successor[link] = t
                link_count[link] = 0
                link_next[link] = -1
                link_centers[link] = 0.0
                link_moments[link] = 0.0
                if before < 0:
                    head[k] = link
                else:
                    link_next[before] = link
            link_count[link] += 1
            n = link_count[link]
            at = 0
            for m in range(width):
                moved[m] = pay[e, h, m] - link_centers[link, m]
                for other in range(m + 1):
                    link_moments[link, at] += moved[m] * moved[other] * ((n - 1) / n)
                    at += 1
                link_centers[link, m] += moved[m] / n
    for e in range(episodes):
        for h in range(steps):  # estimates change only where the episodes went
            k = first[place[states[e, h]]] + rank[states[e, h], actions[e, h]]
            for m in range(width):
                means[k, m] = sums[k, m] / visits[k]
            link = head[k]
            while link >= 0:
                link_share[link] = link_count[link] / visits[k]
                link = link_next[link]


@compiled
def empirical(
    first: Array, visits: Array, head: Array, link_next: Array, link_successor: Array, link_share: Array, links: int
) -> tuple[Array, Array, Array]:
    """The empirical transitions as start [P+1], successor, probability; a pair never visited stays where it is."""
    num_states = first.size - 1
    num_pairs = first[num_states]
    start = np.empty(num_pairs + 1, np.int64)
    successor = np.empty(links + num_pairs, np.int32)
    probability = np.empty(links + num_pairs)
    j = 0
    for i in range(num_states):
        for k in range(first[i], first[i + 1]):
            start[k] = j
            if visits[k] == 0:
                successor[j] = i
                probability[j] = 1.0
                j += 1
            link = head[k]
            while link >= 0:
                successor[j] = link_successor[link]
                probability[j] = link_share[link]
                j += 1
                link = link_next[link]
    start[num_pairs] = j
    return start, successor[:j].copy(), probability[:j].copy()


@compiled
def noise(head: Array, link_next: Array, link_moments: Array, visits: Array, w: Array, pseudo: float) -> Array:
    """[P]: the standard deviation of w.pay in one visit of a pair that the successor does not explain.

    The sums M of link_moments give w.M.w, worth visits - successors numbers, and `pseudo` more of the largest variance
    of any pair, which has itself so many of the mean of all.
    """
    num_pairs = visits.size
    squares = np.empty(num_pairs)
    worth = np.empty(num_pairs)
    total = np.empty(link_moments.shape[1])
    numbers = 0
    for k in range(num_pairs):
        for m in range(total.size):
            total[m] = 0.0
        degrees = visits[k]
        link = head[k]
        while link >= 0:
            degrees -= 1
            for m in range(total.size):
                total[m] += link_moments[link, m]
            link = link_next[link]
        numbers += degrees
        worth[k] = max(degrees + pseudo, 1.0)
        square = 0.0
        for i in range(w.size):
            for j in range(w.size):
                low, high = min(i, j), max(i, j)
                square += w[i] * total[high * (high + 1) // 2 + low] * w[j]
        squares[k] = max(square, 0.0)
    pooled = pairwise(squares) / max(numbers, 1)
    most = -np.inf
    for k in range(num_pairs):
        most = max(most, (squares[k] + pseudo * pooled) / worth[k])
    for k in range(num_pairs):
        squares[k] = np.sqrt((squares[k] + pseudo * most) / worth[k])
    return squares


@compiled
def pairwise(x: Array) -> float:
    """The sum of x [n] by halves, so that rounding errors hardly add up: to the bit what numpy's `sum` gives."""
    n = x.size
    if n > 128:
        half = n // 2 - n // 2 % 8
        return pairwise(x[:half]) + pairwise(x[half:])
    total = 0.0
    whole = n - n % 8
    if whole:
        r = x[:8].copy()
        for i in range(8, whole):
            r[i % 8] += x[i]
        total = ((r[0] + r[1]) + (r[2] + r[3])) + ((r[4] + r[5]) + (r[6] + r[7]))
    for i in range(whole, n):
        total += x[i]
    return total


@compiled
def noisy_bonus(visits: Array, reward: float, cost: float, deviations: float, spread: Array, noise: Array) -> Array:
    """[P, 1+d]: reward or cost times spread [1+d] / sqrt(N), and for the reward deviations * noise [P] / sqrt(N) more;
    the spread where N = 0."""
    b = np.empty((visits.size, spread.size))
    for k in range(visits.size):
        root = np.sqrt(np.float64(visits[k]))
        for i in range(spread.size):
            scaled = (reward if i == 0 else cost) * spread[i] / root
            b[k, i] = scaled if visits[k] else spread[i]
        if deviations > 0.0 and visits[k]:
            b[k, 0] += deviations * noise[k] / root
    return b


@compiled
def believed(
    means: Array, visits: Array, b: Array, better: Array, ranges: Array, bounded: bool, begins: int, ends: int
) -> tuple[Array, Array]:
    """What pairs are believed to pay, and how much better it may be, [P, 1+d] each, for a bonus b [P, 1+d].

    Caution (b < 0) moves the means against `better` [1+d]. If `bounded`, pairs never visited lie between the ends of
    `ranges` [1+d, 2], as a middle and half a width: not `begins` and `ends`, the pairs of START and END (-1: none).
    """
    num_pairs, width = means.shape
    pay = means.copy()
    hopeful = np.empty((num_pairs, width))
    cautious = False
    for k in range(num_pairs):
        for i in range(width):
            cautious |= b[k, i] < 0.0
    for k in range(num_pairs):
        for i in range(width):
            if cautious:
                pay[k, i] += min(b[k, i], 0.0) * better[i]
            hopeful[k, i] = max(b[k, i], 0.0)
            if bounded and visits[k] == 0 and k != begins and k != ends:
                low = min(max(pay[k, i] - hopeful[k, i], ranges[i, 0]), ranges[i, 1])
                high = min(max(pay[k, i] + hopeful[k, i], ranges[i, 0]), ranges[i, 1])
                pay[k, i], hopeful[k, i] = (low + high) / 2.0, (high - low) / 2.0
    return pay, hopeful


@compiled
def scattered(
    head: Array, link_next: Array, link_count: Array, link_centers: Array, link_moments: Array, means: Array
) -> Array:
    """[P, 1+d]: the sums of squared deviations of each pair's pay from its mean, within successors and between them."""
    squares = np.zeros(means.shape)
    for k in range(means.shape[0]):
        link = head[k]
        while link >= 0:
            at = 0
            for m in range(means.shape[1]):
                between = link_centers[link, m] - means[k, m]
                squares[k, m] += link_moments[link, at] + link_count[link] * between * between
                at += m + 2  # to the next entry of the diagonal
            link = link_next[link]
    return squares


@compiled
def listed_links(head: Array, link_next: Array, num_pairs: int, links: int) -> tuple[Array, Array]:
    """The links of pair 0, those of pair 1, ... in the order of their lists, [links] each: the pair and the link."""
    pair = np.empty(links, np.int64)
    listed = np.empty(links, np.int64)
    j = 0
    for k in range(num_pairs):
        link = head[k]
        while link >= 0:
            pair[j] = k
            listed[j] = link
            j += 1
            link = link_next[link]
    return pair, listed
