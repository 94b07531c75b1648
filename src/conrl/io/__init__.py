"""Model files in and out, told apart by their suffix. No pickle anywhere.

`.csv`, `.tsv` and `.xlsx` are for people and spreadsheets: one row per outcome, columns in any order,

    state,action,next_state,probability,reward,cost_<name>...

A column `step` makes the model step-dependent: `3` is one step, `0-5` several, `*` all of them; steps count from 0.
The horizon is then one more than the last step, unless given. Of such a model only what can be reached is written.

Columns may be separated by commas, semicolons, tabs or bars, decimals by points or commas, wherever a file leaves no
doubt (`conrl.io.sheets`, `conrl.io.numerals`); `70%` is 0.7. Columns `comment` and `note` are left out, and so are
empty rows. `model.xlsx#Costs` is a sheet of a workbook; without a name, the first.

States and actions are any text, numbered by first appearance (an action that exists nowhere is lost, and one that
the first states lack may change its place); pairs without a row do not exist. A table holds no horizon, limits,
initial state (the first state of the file, unless given), features or layout; a model with a bonus is refused.
A name that a spreadsheet would execute, such as `=1+1`, is written with an apostrophe in front, which is taken off
again when the file is read (`conrl.io.cells`). Numbers are written so that they read back exactly. A reward or cost
that all outcomes of each pair share is read as one per pair: its mean is then that number and not a rounded sum.

`.npz` as written by `save_model` keeps every bit of a model:

    format = "conrl-model", version = 1, num_actions, horizon, initial [S], cost_names [d],
    first [S+1], action [P], start [P+1], successor [N], probability [N]   (letters as in `conrl.kernels`),
    pay [P, 1+d], and where there are: outcome_pay [N, 1+d], bonus [P, 1+d], limits [d], state_names [S],
    action_names [A], features [S, ...], layout_rows, layout_cell [S], layout_arrows, can_stop, visits [P], steps
    (the horizon of a step-dependent model; first is then [H*S+1]), criterion = "discounted" (with discount), "average"
    or "total" (where the horizon is 0)

`.npz` as written by hand, `np.savez("m.npz", transitions=..., rewards=..., costs=..., horizon=30)`, holds dense
arrays such as `ConstrainedMDP` takes: transitions [S, A, S] or [H, S, A, S], rewards, and optionally costs, horizon,
initial, limits, available, state_names, action_names, cost_names.

`.drn` is the explicit text format of the model checker Storm (`conrl.io.drn_files`): one state, action and outcome a
line, with several reward models, of which one is the reward and the others are costs. It holds no horizon or limits.

Files are not trusted: what a header claims is compared with what the file holds before memory is taken.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from numpy.typing import ArrayLike

from conrl.arguments import read_flag
from conrl.errors import ModelError, ModelWarning
from conrl.io.csv_files import Loaded, load_table, save_csv
from conrl.io.drn_files import load_drn
from conrl.io.drn_writing import save_drn
from conrl.io.files import PathLike, file_path, reading
from conrl.io.mistakes import Mistakes
from conrl.io.model_checks import read_normalize
from conrl.io.npz_files import load_npz, save_npz
from conrl.io.sheets import EXCEL, split_sheet
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Criterion
from conrl.model.mdp import need_model

__all__ = ["load_model", "save_model"]

NPZ, DRN = ".npz", ".drn"
TABLES = (".csv", ".tsv", EXCEL)
SUFFIXES = f"{NPZ}, {', '.join(TABLES)} or {DRN}"


def is_model_file(name: str) -> bool:
    """Whether a name is one of a file, by its suffix."""
    return Path(split_sheet(name)[0]).suffix.lower() in (NPZ, DRN, *TABLES)


def load_model(
    path: PathLike,
    *,
    horizon: int | Criterion | None = None,
    initial: int | str | ArrayLike | None = None,
    limits: ArrayLike | Mapping[str, float] | None = None,
    normalize: float | None = None,
    reward: str | None = None,
) -> ConstrainedMDP:
    """The model in a `.npz`, `.csv`, `.tsv`, `.xlsx` or `.drn` file; what is passed here replaces what the file says.

    `initial` is a state's index or name, or a distribution. Tables and DRN files hold no horizon: pass it. With
    `normalize` 0.01, probabilities of a state and an action that sum to 1 within 0.01 are divided by their sum; a
    `ModelWarning` says how many. `model.xlsx#Costs` names a sheet. `reward` is the reward model of a DRN file that is
    the reward (`"-time"`: as little of it as possible); the others are costs. Whatever is wrong with the file is one
    line of a `ModelError` that names it; `conrl.check_model` lists all of it. Names that look alike, and
    duplicates whose probabilities add up to 1, are a `ModelWarning`.
    """
    asked = (("horizon", horizon), ("initial", initial), ("limits", limits), ("reward", reward))
    found = load(path, {k: v for k, v in asked if v is not None}, normalize)
    found.mistakes.refuse()
    assert found.mdp is not None
    for told in found.warnings:
        warnings.warn(told, ModelWarning, stacklevel=2)
    return found.mdp


def load(path: PathLike, given: dict[str, Any], normalize: Any) -> Loaded:
    """What is in a file: the model, or its mistakes."""
    within = read_normalize(normalize)
    path, sheet = _named(path)
    suffix = _suffix(path)
    if "reward" in given and suffix != DRN:
        raise ModelError(f"{path}: reward= is for .drn files; a {suffix} file says what the reward is", key=("reward",))
    if within is not None and suffix == DRN:
        raise ModelError(f"{path}: sums in .drn files are not corrected; export it again", key=("normalize",))
    with reading(path):
        if suffix == NPZ:
            told: list[str] = []
            return Loaded(load_npz(path, given, within, told), Mistakes(path), told)
        if suffix == DRN:
            return Loaded(load_drn(path, given), Mistakes(path), [])
        return load_table(path, given, sheet, within)


def save_model(path: PathLike, mdp: ConstrainedMDP, *, means: bool = False) -> None:
    """Write `mdp` to a `.npz`, `.csv`, `.tsv`, `.xlsx` or `.drn` file, whole or not at all.

    The first keeps everything; the others hold no horizon, limits, features or map, tables no first state, and DRN no
    pay by outcome. `means`: write the mean pay of each state and action where the model pays by outcome.
    """
    if isinstance(path, ConstrainedMDP):
        raise ModelError("save_model takes the path first: save_model(path, mdp)")
    path, sheet = _named(path)
    need_model(mdp, "save_model")
    suffix = _suffix(path)
    mdp = mdp._copy(outcome_pay=None) if read_flag(means, "means") else mdp
    if suffix == EXCEL:
        from conrl.io.workbooks import save_workbook

        save_workbook(path, mdp, sheet)
    elif suffix == NPZ:
        save_npz(path, mdp)
    elif suffix == DRN:
        save_drn(path, mdp)
    else:
        save_csv(path, mdp)


def model_path(name: PathLike) -> Path:
    """The file that the name of a model is about: without the sheet."""
    return _named(name)[0]


def model_stem(name: str) -> str:
    """What a model in a file is called: the file's name without its suffix, and the sheet.

    >>> model_stem("data/model.xlsx#Costs"), model_stem("data/model.csv")
    ('model-Costs', 'model')
    """
    path, sheet = _named(name)
    return path.stem if sheet is None else f"{path.stem}-{sheet}"


def _named(path: PathLike) -> tuple[Path, str | None]:
    """The file and, if its name says so, the sheet."""
    named, sheet = split_sheet(str(file_path(path)))
    return Path(named), sheet


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in (NPZ, DRN, *TABLES):
        raise ModelError(f"{path}: a model file ends in {SUFFIXES}, not in {suffix!r}")
    return suffix
