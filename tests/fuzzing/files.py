"""What is no file like others."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import conrl
from fuzzing.doors import call, command, door


@door("odd-files", 1)
def odd_files(r: random.Random, folder: Path) -> None:
    """Pipes, devices, directories, links to nothing and empty files, where a file is asked for."""
    path = folder / f"x{r.choice(('.csv', '.npz', '.toml', '.xlsx'))}"
    put: tuple[Callable[[], Any], ...] = (
        lambda: os.mkfifo(path),
        lambda: path.symlink_to("/dev/zero"),
        lambda: path.symlink_to("/dev/tty"),
        lambda: path.symlink_to(path),
        lambda: path.symlink_to(folder / "nothing"),
        path.mkdir,
        path.touch,
    )
    r.choice(put)()
    if r.random() < 0.5:
        readers: tuple[Callable[[Any], Any], ...] = (
            lambda x: conrl.load_model(x, horizon=1),
            conrl.load_policy,
            conrl.load_episodes,
            conrl.load_learner,
            conrl.experiments.load_spec,
            conrl.estimate,
        )
        reader = r.choice(readers)
        call(lambda: reader(path))
    else:
        words = (("plan", path, "--horizon", 2), ("run", path), ("tune", path), ("report", path))
        command(*r.choice((*words, ("learn", "box", "--episodes", 1, "--prime", path))))
