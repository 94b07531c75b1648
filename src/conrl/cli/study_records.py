"""What a study came to, as plain values: `conrl report`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from conrl.cli.json_records import Record
from conrl.experiments import Study
from conrl.experiments.measures import COMPARED
from conrl.experiments.statistics import CONFIDENCE, LEAST_SEEDS, RESAMPLES
from conrl.metrics import MARGIN, TOLERANCE


def study_record(study: Study, wrote: Sequence[Path]) -> Record:
    """The table of a study, how its algorithms compare, and the files that were written of it."""
    return {
        "study": study.name,
        "runs": len(study.runs),
        "failed": len(study.failures),
        "wrote": [str(path) for path in wrote],
        "tolerance": TOLERANCE,
        "margin": MARGIN,
        "over": {name: study.over(name) for name in study.environments},
        "rows": [row | {"title": study.titles.get(row["algorithm"], row["algorithm"])} for row in study.rows()],
        "confidence": CONFIDENCE,
        "resamples": RESAMPLES,
        "least_seeds": LEAST_SEEDS,
        "measures": {
            name: {
                "title": measure.title,
                "higher": measure.higher,
                "environments": list(study.scores(name)),
                "left_out": study.left_out(name),
            }
            for name, measure in COMPARED.items()
        },
        "titles": study.titles,
        "aggregates": [row._asdict() for row in study.aggregates()],
        "comparisons": [row._asdict() for row in study.comparisons()],
    }
