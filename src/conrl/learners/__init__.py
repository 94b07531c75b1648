"""Where experience comes from: the learners, one file each.

A learner is two methods, `propose() -> Policy` and `observe(episode)`. `conrl.learn` drives them against a model or a
Gymnasium environment; a live system calls them itself. Between any two calls a learner can be saved.
"""

import inspect
from collections.abc import Callable
from typing import Any, TypeVar, overload

from conrl.errors import SpecError, shown
from conrl.foreign import theirs
from conrl.learners.adapted import TWO, Kind, PlainLearner, can
from conrl.learners.appropo import ApproPO
from conrl.learners.base import BaseLearner, Learner, Proposal
from conrl.learners.conrl import ConRL
from conrl.learners.dope import DOPE
from conrl.learners.optcmdp import OptCMDP
from conrl.learners.optpess import OptPessLP
from conrl.learners.optprimaldual import OptPrimalDual
from conrl.learners.posterior_sampling import PosteriorSampling
from conrl.learners.rcpo import RCPO
from conrl.learners.safe_conrl import SafeConRL
from conrl.learners.saving import load_learner
from conrl.learners.tfw_ucrl2 import TFWUCRL2
from conrl.learners.ucbvi import UCBVI
from conrl.plugins import Registry, check_problems, named

__all__ = [
    "DOPE",
    "LEARNERS",
    "RCPO",
    "TFWUCRL2",
    "UCBVI",
    "ApproPO",
    "ConRL",
    "Learner",
    "OptCMDP",
    "OptPessLP",
    "OptPrimalDual",
    "PlainLearner",
    "PosteriorSampling",
    "Proposal",
    "SafeConRL",
    "load_learner",
    "register",
]

F = TypeVar("F")

KINDS = (ConRL, RCPO, ApproPO, TFWUCRL2, OptCMDP, OptPrimalDual, PosteriorSampling, UCBVI, SafeConRL, DOPE, OptPessLP)
LEARNERS: dict[str, Any] = {kind.name: kind for kind in KINDS}


def _read(name: str, thing: Any) -> Any:
    """What is kept of a learner that is registered: a class as ours are, or a `Kind`."""
    if inspect.isclass(thing) and issubclass(thing, BaseLearner):
        named(thing, name)
        return thing
    if not callable(thing):
        raise SpecError(f"algorithm {name!r} is {shown(thing)}; register its class")
    check_problems(getattr(thing, "problems", ()), f"algorithm {name!r}")
    missing = [method for method in TWO if inspect.isclass(thing) and not can(thing, method)]
    if missing:
        raise SpecError(f"algorithm {name!r}: {thing.__name__} has no {' and no '.join(missing)}")
    if getattr(thing, "continuing", False):
        raise SpecError(f"algorithm {name!r} learns from one unending episode; make it a subclass of TFWUCRL2")
    if isinstance(getattr(thing, "name", None), str):
        named(thing, name)
    with theirs(f"algorithm {name!r} does not say what parameters it has", SpecError):
        parameters = list(inspect.signature(thing).parameters.values())
    if not parameters or parameters[0].kind in (inspect.Parameter.KEYWORD_ONLY, inspect.Parameter.VAR_KEYWORD):
        raise SpecError(f"algorithm {name!r} is made from a task, which must be its first parameter")
    if any(parameter.name == "learner" for parameter in parameters[1:]):
        raise SpecError(f"algorithm {name!r} has a parameter 'learner', which the files of a run use; rename it")
    return Kind(name, thing)


PLUGINS: Registry[Any] = Registry("algorithm", LEARNERS, _read)


@overload
def register(given: str) -> Callable[[F], F]: ...


@overload
def register(given: F) -> F: ...


def register(given: Any) -> Any:
    """Give a learner a name: `@register`, or `@register("my-learner")`, before its class.

    It is made as `kind(task, **options)`; `problem`, `seed` and `preset` are passed if its signature names them. It
    needs the methods `propose` and `observe`; with `state` and `load_state`, runs on disk go on where they were
    interrupted, otherwise they begin again.
    """
    return PLUGINS.decorator(given)
