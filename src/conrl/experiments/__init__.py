"""Runs on disk: resumable, locked, never lost."""

from conrl.experiments.store import Run, learn_on_disk, run_directory

__all__ = ["Run", "learn_on_disk", "run_directory"]
