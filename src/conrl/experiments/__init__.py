"""Studies: many runs on disk, resumable, locked, never lost; what came of them as tables, figures and a report."""

from conrl.errors import SpecMistakes
from conrl.experiments.analysis import Failure, Study
from conrl.experiments.comparison import Aggregate, Comparison, Profile
from conrl.experiments.curves import Curve
from conrl.experiments.environments import Environment
from conrl.experiments.execution import Event
from conrl.experiments.jobs import Job, Run
from conrl.experiments.loading import load
from conrl.experiments.records import RunRecord
from conrl.experiments.runner import Outcome, run_study
from conrl.experiments.spec import Spec, builtin_spec, load_spec, parse_spec
from conrl.experiments.store import learn_on_disk, run_directory

__all__ = [
    "Aggregate",
    "Comparison",
    "Curve",
    "Environment",
    "Event",
    "Failure",
    "Job",
    "Outcome",
    "Profile",
    "Run",
    "RunRecord",
    "Spec",
    "SpecMistakes",
    "Study",
    "builtin_spec",
    "learn_on_disk",
    "load",
    "load_spec",
    "parse_spec",
    "run_directory",
    "run_study",
]
