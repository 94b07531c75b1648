"""How many directions a plan of a large model asks for, aimed and not (`planners/column_generation/aiming.py`).

    python benchmarks/directions.py                       # five minutes
    python benchmarks/directions.py --most 20000 --seeds 2

Models of 4 actions, 5 successors and 30 steps, random (from state 0) and local (at most two states up or down, from
anywhere), to an absolute gap of 1e-6. The limits are half-way between the costs of the policy with the least sum of
costs and of the one with the largest reward. Each cell has one number a seed. No times: they do not depend on the
machine.
"""

from __future__ import annotations

import argparse

import numpy as np
from planning import table

import conrl
from conrl.envs import random_cmdp
from conrl.oracles import BackwardInduction
from conrl.planners.column_generation.linear import maximise

GAP = 1e-6


def asked(mdp: conrl.ConstrainedMDP, aimed: bool) -> int:
    """The directions of one plan."""
    oracle = BackwardInduction(mdp)
    oracle.curved = aimed
    reward = np.eye(1 + mdp.num_costs)[0]
    ends = oracle.support_many(np.vstack((reward, reward - 1.0))).points
    rows = conrl.Linear(ends[:, 1:].mean(axis=0)).rows(mdp)
    size = abs(maximise(oracle, reward, rows, tol=1e-4).objective)
    found = maximise(oracle, reward, rows, tol=GAP / max(1.0, size))
    if not found.converged:
        raise SystemExit("a plan did not converge")
    return found.asked


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("--most", type=int, default=100_000, help="states of the largest model")
    parser.add_argument("--seeds", type=int, default=3)
    arguments = parser.parse_args()
    rows: list[list[str]] = []
    for kind, band in (("random", None), ("local (band 2)", 2)):
        for states in [n for n in (10_000, 20_000, 100_000) if n <= arguments.most]:
            for costs in (1, 2, 3, 4, 6):
                models = [random_cmdp(states, 4, 5, costs, seed=seed, band=band) for seed in range(arguments.seeds)]
                if band is not None:
                    models = [mdp.replace(initial=np.full(states, 1.0 / states)) for mdp in models]
                cells = [", ".join(str(asked(mdp, aimed)) for mdp in models) for aimed in (False, True)]
                rows.append([kind, f"{states:,}", str(costs), *cells])
    table(["model", "states", "limits", "directions, not aimed", "aimed"], rows)


if __name__ == "__main__":
    main()
