"""The price of *never*: what one unit of probability of exceeding would earn, if some were allowed.

It is the slope at 0 of the best reward against P(C > m), the largest (r - r*) / p over policies with P(C > m) = p > 0
that keep the other rows: Dinkelbach's (1967) iteration, a few directions.
"""

from __future__ import annotations

import numpy as np

from conrl.model.tails import Tail
from conrl.model.tracking import safe_part
from conrl.oracles import exact_oracle
from conrl.planners.column_generation.linear import maximise
from conrl.planners.column_generation.search import Met
from conrl.planners.single_episodes.search import Box, Search

MOST_DIRECTIONS = 50


def never_price(search: Search, tail: Tail, box: Box) -> float:
    """The price of one limit at the quantiles of a box, whose plan has the reward r*."""
    others = [other for other in search.nevers if other is not tail]
    crossing = search.tracked.crossing(tail)
    columns, linear = search.linear(box.ranges, [(crossing, np.inf)])
    oracle = exact_oracle(safe_part(search.tracked, others).model(columns)).strict()
    rows = linear.rows(oracle.mdp)
    reward, found, slope = box.plan.objective, Met(), 0.0
    offset = crossing.offset  # of what is counted: P(C > m) is that much more
    tolerance = search.tolerance(box)
    direction = np.zeros(1 + oracle.num_costs)
    direction[0] = 1.0
    for _ in range(MOST_DIRECTIONS):
        direction[-1] = -slope
        answer = maximise(oracle, direction, rows, tol=min(search.asked.tol, 1e-9), columns=found)
        point = answer.weights @ answer.points
        share = float(point[-1]) + offset
        if share <= 0.0 or point[0] - slope * share <= reward + tolerance:
            break
        slope = float((point[0] - reward) / share)
    return slope
