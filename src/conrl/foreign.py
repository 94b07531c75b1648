"""Code that is not ours: which modules may be imported, functions by name, and what is told when such code fails.

Who may have a module imported. The user may, by typing its name: `--import`, `gymnasium:<module>:<id>` on the command
line, `allow_import` in Python. A file that somebody else wrote may only name modules that are loaded, so that
nothing is imported, and which ones depends on what is done with them:

    a module of plug-ins, or of a function that will be called, `my_lab:falls`     one that the user had imported as
        such, or that registered a plug-in: any loaded module would do as much as `os:remove`
    `gymnasium:<module>:<id>`     any one: all that can be made of it is what was registered with Gymnasium

`check_allowed` is this rule. What the entry points of an installed package name is loaded by `conrl.plugins`: what is
installed is trusted as installed.
"""

from __future__ import annotations

import contextlib
import importlib
import re
import sys
import traceback
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from conrl.errors import ConRLError, RunError, SpecError, shown, unknown

MODULE = re.compile(r"[^\W\d]\w*(\.[^\W\d]\w*)*")
MOST_TOLD = 500  # letters of a message that is not ours
MAIN = "__main__"  # the program itself; a worker knows it as __mp_main__
_PERMITTED = {MAIN}  # modules that the user had imported as plug-ins, or that registered one


def permit(module: str) -> None:
    """From now on files may name a module, as the user had it imported for its plug-ins."""
    _PERMITTED.add(module)


def check_allowed(module: str, allowed: bool, gymnasium_name: str = "") -> None:
    """Refuse to import a module that the user has not `allowed`, unless it is loaded and a file may name it.

    `gymnasium_name`: it is only named as part of this, `gymnasium:<module>:<id>`.
    """
    loaded = sys.modules.get(module) is not None
    if allowed or (loaded and (gymnasium_name or module in _PERMITTED)):
        return
    what = f"importing {module}"
    if gymnasium_name:
        what = f"{gymnasium_name} names the module {module!r}, and importing it"
    raise SpecError(
        f"{what} runs its code; if you trust it, say --allow-import to conrl run or tune (in Python allow_import=True)"
    )


def not_found(module: str) -> str:
    """What to do about a module that is nowhere."""
    return (
        f"{module} cannot be imported; install it, or name its directory in PYTHONPATH: the current directory is not "
        "searched by the command line"
    )


def import_module(name: str, allowed: bool = True) -> Any:
    """Import a module that plug-ins or functions are in, if that is allowed (`check_allowed`)."""
    if not isinstance(name, str) or not MODULE.fullmatch(name):
        raise SpecError(f"{shown(name)} is no name of a module; write for example my_lab, without .py or a path")
    check_allowed(name, allowed)
    try:
        loaded = sys.modules.get(name)
        found = importlib.import_module(name) if loaded is None else loaded
    except ModuleNotFoundError as error:
        if error.name and (name == error.name or name.startswith(f"{error.name}.")):
            raise SpecError(not_found(name)) from None
        raise SpecError(f"{name} cannot be imported: {reason(error)}") from error
    except (Exception, SystemExit) as error:  # a module that is not ours raises anything
        raise SpecError(f"{name} cannot be imported: {reason(error)}") from error
    permit(name)
    return found


def import_modules(names: Iterable[str], allowed: bool = True) -> None:
    """Import the modules that a study names, in their order."""
    for name in names:
        import_module(name, allowed)


def is_function_name(text: Any) -> bool:
    """Whether a text may name a function: `module:function`."""
    return isinstance(text, str) and ":" in text


def load_function(text: Any, what: str, allowed: bool = True) -> Callable[..., Any]:
    """The function that `module:function` names; `what` it is for."""
    module, colon, name = text.partition(":") if isinstance(text, str) else ("", "", "")
    if not colon or not name.isidentifier() or not MODULE.fullmatch(module):
        raise SpecError(f"{what} is {shown(text)}; name a function as MODULE:FUNCTION, such as my_lab:{what}")
    found = import_module(module, allowed)
    if name not in vars(found):  # a module may import more when it is asked for a name
        known = [key for key, value in vars(found).items() if callable(value) and not key.startswith("_")]
        raise SpecError(f"{what} {text}: {unknown(f'function of {module}', name, known)}")
    function = vars(found)[name]
    if not callable(function):
        raise SpecError(f"{what} {text} is {shown(function)}; it must be a function")
    checked: Callable[..., Any] = function
    return checked


@contextlib.contextmanager
def theirs(
    what: str,
    kind: type[ConRLError] = RunError,
    key: tuple[str, ...] = (),
    passing: tuple[type[BaseException], ...] = (MemoryError,),
) -> Iterator[None]:
    """Code that is not ours raises anything: it is told in one line that says whose it is, and is the error's cause.

    An error of ours gets the same beginning, and stays what it is. What is `passing` goes by untouched.
    """
    try:
        yield
    except passing:
        raise
    except ConRLError as error:
        error.args = (f"{what}: {error}",)
        raise
    except (Exception, SystemExit) as error:
        raise kind(f"{what}: {reason(error)}", key=key) from error


def reason(error: BaseException) -> str:
    """What went wrong in code that is not ours, in one line: the kind, the message, and the file and line."""
    try:
        words = " ".join(str(error).split())
    except Exception:  # of a class of their own
        words = ""
    words = words if len(words) <= MOST_TOLD else words[: MOST_TOLD - 3] + "..."
    text = f"{type(error).__name__}: {words}".removesuffix(": ")
    ours = {Path(__file__).parent, Path(importlib.__file__).parent}
    frames = [f for f in traceback.extract_tb(error.__traceback__) if not f.filename.startswith("<frozen")]
    foreign = [f for f in frames if not ours & set(Path(f.filename).parents) and f.filename != contextlib.__file__]
    return f"{text} ({Path(foreign[-1].filename).name}:{foreign[-1].lineno})" if foreign else text
