"""What the shell offers for a word of the command line; loads nothing heavy."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from click.shell_completion import CompletionItem

from conrl.registration import FACTORIES

# Said here once more, as the modules that have them take a second to load; a test compares the first two.
ALGORITHMS = ("conrl", "rcpo", "appropo", "tfw-ucrl2", "optcmdp", "opt-primal-dual", "ucbvi")
PLANNERS = ("column-generation", "linear-program", "lagrangian")
PRESETS = ("default", "authors", "theory")

Complete = Callable[[Any, Any, str], list[CompletionItem]]


def one_of(*names: str) -> Complete:
    """Those that begin like the word."""
    return lambda context, parameter, word: [CompletionItem(name) for name in names if name.startswith(word)]


def model(context: Any, parameter: Any, word: str) -> list[CompletionItem]:
    """Built-in names, files of models, and directories on the way to them."""
    names = [name for name in (*FACTORIES, "gymnasium:") if name.startswith(word)]
    folder, start = os.path.split(word)
    try:
        entries = sorted(os.scandir(folder or "."), key=lambda entry: entry.name)
    except OSError:
        entries = []
    for entry in entries:
        if entry.name.startswith(start) and not entry.name.startswith("."):
            if entry.is_dir():
                names.append(os.path.join(folder, entry.name, ""))
            elif Path(entry.name).suffix.lower() in (".csv", ".npz"):
                names.append(os.path.join(folder, entry.name))
    return [CompletionItem(name) for name in names]


algorithms, planners, presets = one_of(*ALGORITHMS), one_of(*PLANNERS), one_of(*PRESETS)
