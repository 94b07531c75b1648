"""A model file looked at without planning anything: all of its mistakes, or what is in it and what to look at again."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import ArrayLike

from conrl._types import Int
from conrl.errors import ModelError
from conrl.io import NPZ, load, model_path
from conrl.io.files import PathLike
from conrl.io.mistakes import first_few
from conrl.io.model_checks import alike
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Criterion
from conrl.model.transform import absorbing, reached_states
from conrl.wording import counted, line

NAMED = 5  # states that a note names


@dataclass(frozen=True, repr=False)
class ModelCheck:
    """What a look at a model file found.

    `mistakes` are sentences with the lines they are about; without any, there is the `model`. `warnings` are what
    `load_model` warns of, `notes` what may be meant as it is: states that nothing reaches, states that are never left.
    """

    mistakes: tuple[str, ...]
    count: int  # of mistakes; more than are listed, if there are very many
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    model: ConstrainedMDP | None = field(default=None, repr=False)
    has_horizon: bool = True  # or one step stands for it: a table has none, and none was given

    def __repr__(self) -> str:
        if self.count:
            return line(self, counted(self.count, "mistake"), self.mistakes[0])
        return line(self, "no mistakes", *self.warnings[:1], *self.notes[:1])

    def __bool__(self) -> bool:
        """Whether the file can be read."""
        return not self.count


def check_model(
    path: PathLike,
    *,
    horizon: int | Criterion | None = None,
    initial: int | str | ArrayLike | None = None,
    limits: ArrayLike | Mapping[str, float] | None = None,
    normalize: float | None = None,
) -> ModelCheck:
    """Everything that is wrong with a model file, at once; arguments as in `load_model`.

    Nothing is raised for what the file holds, only for arguments that do not fit it. A table without a horizon is
    checked as one of a single step.
    """
    given = {k: v for k, v in (("horizon", horizon), ("initial", initial), ("limits", limits)) if v is not None}
    has_horizon = True
    try:
        try:
            found = load(path, dict(given), normalize)
        except ModelError as error:
            if error.key != ("horizon",) or "horizon" in given:
                raise
            has_horizon = False
            found = load(path, given | {"horizon": 1}, normalize)
    except ModelError as error:
        if error.key or _reads(path, given):  # about an argument
            raise
        return ModelCheck((str(error),), 1)
    if found.mdp is None:
        return ModelCheck(tuple(found.mistakes.told()), found.mistakes.count)
    warnings = (*found.warnings, *_alike_arrays(path, found.mdp))
    return ModelCheck((), 0, warnings, tuple(_notes(found.mdp, has_horizon)), found.mdp, has_horizon)


def _reads(path: PathLike, given: Mapping[str, object]) -> bool:
    """Whether the file can be read without the arguments."""
    try:
        return bool(given) and load(path, {"horizon": 1}, None).mdp is not None
    except ModelError:
        return False


def _alike_arrays(path: PathLike, mdp: ConstrainedMDP) -> Iterator[str]:
    """Names that look alike in a file of arrays; of a table, reading it told."""
    named = model_path(path)
    if named.suffix.lower() == NPZ:
        kinds = (("state", mdp._names.states or ()), ("action", mdp._names.actions or ()), ("cost", mdp.cost_names))
        for kind, names in kinds:
            yield from (f"{named}: {told}" for told in alike(kind, names))


def _notes(mdp: ConstrainedMDP, has_horizon: bool) -> Iterator[str]:
    """What may be meant as it is."""
    if not mdp.step_dependent:
        lost = np.flatnonzero(~reached_states(mdp))
        if lost.size:
            yield f"nothing leads from the start to {_listed(mdp, lost)}"
        ends = np.flatnonzero(absorbing(mdp))
        if ends.size:
            yield f"once there, nothing leads out of {_listed(mdp, ends)}"
    if not has_horizon:
        yield "the file holds no horizon; give one to plan, such as --horizon 20"
    if mdp.limits is None and mdp.num_costs:
        yield f"the file holds no limits; give some to plan, such as --limit {shlex.quote(f'{mdp.cost_names[0]}=1')}"


def _listed(mdp: ConstrainedMDP, states: Int) -> str:
    names = first_few((repr(mdp.state_name(int(s))) for s in states), NAMED)
    return f"state{'s' * (states.size > 1)} {', '.join(names)}"
