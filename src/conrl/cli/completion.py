"""What the shell offers for a word of the command line.

Names of models come at once. Those of algorithms, planners and presets take the second that loading them takes.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from click.shell_completion import CompletionItem

from conrl.plugins import entry_names
from conrl.registration import FACTORIES


def _starting(names: Iterable[str], word: str) -> list[CompletionItem]:
    return [CompletionItem(name) for name in names if name.startswith(word)]


def algorithms(context: Any, parameter: Any, word: str) -> list[CompletionItem]:
    """The learners."""
    from conrl.learners import PLUGINS

    return _starting(PLUGINS.names(), word)


def presets(context: Any, parameter: Any, word: str) -> list[CompletionItem]:
    """Those of the algorithm that stands on the line."""
    from conrl.learners import PLUGINS

    kind = PLUGINS.get(context.params.get("algorithm"))
    return _starting(() if kind is None else kind.presets, word)


def planners(context: Any, parameter: Any, word: str) -> list[CompletionItem]:
    """Those that plan limits, which is what the command line asks for, and plug-ins."""
    from conrl.planners import PLANNERS, PLUGINS
    from conrl.problem import Linear

    names = PLUGINS.names()
    return _starting((name for name in names if name not in PLANNERS or Linear in PLANNERS[name].problems), word)


def model(context: Any, parameter: Any, word: str) -> list[CompletionItem]:
    """Names built in and of plug-ins, files of models and fleets, and directories on the way to them."""
    named = dict.fromkeys((*FACTORIES, *entry_names("environment"), "gymnasium:"))
    names = [name for name in named if name.startswith(word)]
    return [
        CompletionItem(name) for name in (*names, *_files(word, (".csv", ".npz", ".drn", ".toml", ".tsv", ".xlsx")))
    ]


def file(context: Any, parameter: Any, word: str) -> list[CompletionItem]:
    """Files of models, logs, policies, fleets and studies, and directories on the way to them."""
    suffixes = (".csv", ".npz", ".drn", ".toml", ".tsv", ".xlsx", ".json", ".parquet")
    return [CompletionItem(name) for name in _files(word, suffixes)]


def _files(word: str, suffixes: tuple[str, ...]) -> list[str]:
    """Files that end so and begin with a word, and directories."""
    names = []
    folder, start = os.path.split(word)
    try:
        entries = sorted(os.scandir(folder or "."), key=lambda entry: entry.name)
    except OSError:
        entries = []
    for entry in entries:
        if entry.name.startswith(start) and not entry.name.startswith("."):
            if entry.is_dir():
                names.append(os.path.join(folder, entry.name, ""))
            elif Path(entry.name).suffix.lower() in suffixes:
                names.append(os.path.join(folder, entry.name))
    return names
