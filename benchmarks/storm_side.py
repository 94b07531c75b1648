"""Storm's side of benchmarks/storm.py, in an environment that has `stormpy` and not conrl.

It reads questions from standard input and answers each by a line, both in JSON: a model to load and the query about
it, or to answer that query once more.
"""

from __future__ import annotations

import json
import os
import sys
import time
from fractions import Fraction
from typing import Any

import stormpy
from stormpy import environments


def loaded(path: str, query: str, gap: float) -> tuple[Any, Any, Any, dict[str, Any]]:
    """A model, a query and the settings under which it is answered: by the Pareto method, to an absolute precision."""
    begin = time.perf_counter()
    model = stormpy.build_model_from_drn(path)
    taken = time.perf_counter() - begin
    environment = environments.default(model)
    multi = environment.modelchecker().multi()
    multi.method = environments.MultiObjectiveMethod.PCAA
    multi.precision = stormpy.Rational(str(Fraction(str(gap))))
    multi.precision_type = environments.MultiObjectivePrecisionType.ABSOLUTE
    used = float(Fraction(str(environment.modelchecker().multi().precision)))
    said = {"seconds": taken, "precision": used, "version": stormpy.__version__}
    return model, stormpy.parse_properties(query)[0], environment, said


def checked(model: Any, query: Any, environment: Any) -> dict[str, float]:
    """The value of the query in the first state, and the time of the answer: of the clock, and of all threads."""
    begin, worked = time.perf_counter(), time.process_time()
    found = stormpy.model_checking(model, query, only_initial_states=True, environment=environment)
    taken, work = time.perf_counter() - begin, time.process_time() - worked
    return {"value": float(found.get_value(model.initial_states[0])), "seconds": taken, "work": work}


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what Storm prints is no answer
    question: tuple[Any, Any, Any] | None = None
    for line in sys.stdin:
        asked = json.loads(line)
        if asked is not None:
            *parts, said = loaded(**asked)
            question = (parts[0], parts[1], parts[2])
        else:
            assert question is not None
            said = checked(*question)
        print(json.dumps(said), file=answers, flush=True)


if __name__ == "__main__":
    main()
