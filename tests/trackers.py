"""Stand-ins for wandb and mlflow, with the calls that docs/how-to/trackers.md makes and the same signatures.

They are strict where the real ones are: steps must not go back, names and values must be what the services take.
"""

from __future__ import annotations

import re
import sys
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pytest

Logged = list[tuple[int, dict[str, float]]]


class Tracked:
    """A run of either."""

    def __init__(self, about: dict[str, Any]) -> None:
        self.about = about
        self.logged: Logged = []
        self.summary: dict[str, float] = {}
        self.open = True

    def log(self, data: dict[str, Any], step: int | None = None, commit: bool | None = None) -> None:
        assert self.open
        assert step is not None
        assert not self.logged or step > self.logged[-1][0]
        assert commit is None
        assert all(isinstance(name, str) and type(value) is float for name, value in data.items())
        self.logged.append((step, dict(data)))

    def finish(self, exit_code: int | None = None) -> None:
        assert exit_code is None
        self.open = False

    def __enter__(self) -> Tracked:
        return self

    def __exit__(self, *error: object) -> None:
        self.finish()


def install(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Tracked]]:
    """Put both in the place of the packages; returns the runs that they will have tracked."""
    runs: dict[str, list[Tracked]] = {"wandb": [], "mlflow": []}
    for name, module in (("wandb", _wandb(runs["wandb"])), ("mlflow", _mlflow(runs["mlflow"]))):
        monkeypatch.setitem(sys.modules, name, module)
    return runs


def _wandb(runs: list[Tracked]) -> ModuleType:
    def init(
        *,
        project: str | None = None,
        group: str | None = None,
        name: str | None = None,
        config: dict[str, Any] | str | None = None,
    ) -> Tracked:
        runs.append(Tracked({"project": project, "group": group, "name": name, "config": config}))
        return runs[-1]

    module = ModuleType("wandb")
    vars(module)["init"] = init
    return module


def _mlflow(runs: list[Tracked]) -> ModuleType:
    def set_experiment(experiment_name: str | None = None) -> str:
        assert experiment_name
        return experiment_name

    @contextmanager
    def start_run(*, run_name: str | None = None) -> Iterator[Tracked]:
        runs.append(Tracked({"run_name": run_name}))
        yield runs[-1]
        runs[-1].finish()

    def log_params(params: Mapping[str, Any]) -> None:
        runs[-1].about |= params

    def log_metrics(metrics: dict[str, float], step: int | None = None) -> None:
        assert all(re.fullmatch(r"[\w\-. :/]+", name) for name in metrics)
        runs[-1].log(metrics, step)

    def log_metric(key: str, value: float, step: int | None = None) -> None:
        assert runs[-1].open
        assert step is None
        runs[-1].summary[key] = value

    module = ModuleType("mlflow")
    vars(module).update(
        set_experiment=set_experiment,
        start_run=start_run,
        log_params=log_params,
        log_metrics=log_metrics,
        log_metric=log_metric,
    )
    return module
