"""What a model is built from, read in one pass: outcomes of pairs sorted and added up."""

import numpy as np

from conrl.kernels.compiling import Array, compiled

SHORT = 32  # so many outcomes of a pair are sorted by insertion: nearly always they are few, or in order


@compiled
def gather_outcomes(
    start: Array, successor: Array, probability: Array, starts: Array, successors: Array, probabilities: Array, at: int
) -> int:
    """Outcomes of pairs, start[k] .. start[k+1]-1 of pair k, by rising successor into successors and probabilities.

    From position `at` on, with starts [P] for where each pair begins; returns the end. What has probability 0 is left
    out; what leads to the same state is added up, except below 0 or if it is no number: validation is to find that.
    """
    for k in range(start.size - 1):
        starts[k] = at
        begin, end = start[k], start[k + 1]
        rises = True
        for j in range(begin + 1, end):
            rises = rises and successor[j - 1] <= successor[j]
        if rises or end - begin <= SHORT:
            for j in range(begin, end):
                p, t = probability[j], successor[j]
                if p == 0.0:
                    continue
                i = at
                while i > starts[k] and successors[i - 1] > t:
                    successors[i] = successors[i - 1]
                    probabilities[i] = probabilities[i - 1]
                    i -= 1
                successors[i] = t
                probabilities[i] = p
                at += 1
        else:
            order = np.argsort(successor[begin:end], kind="mergesort")
            for i in range(order.size):
                j = begin + order[i]
                if probability[j] != 0.0:
                    successors[at] = successor[j]
                    probabilities[at] = probability[j]
                    at += 1
        kept = starts[k]
        for i in range(starts[k] + 1, at):
            same = successors[i] == successors[kept] and probabilities[i] > 0.0 and probabilities[kept] > 0.0
            if same:
                probabilities[kept] += probabilities[i]
            else:
                kept += 1
                successors[kept] = successors[i]
                probabilities[kept] = probabilities[i]
        at = min(at, kept + 1)
    return at
