"""Model files in and out, told apart by their suffix. No pickle anywhere.

`.csv` is for people and spreadsheets: one row per outcome, columns in any order,

    state,action,next_state,probability,reward,cost_<name>...

A column `step` makes the model step-dependent: `3` is one step, `0-5` several, `*` all of them; steps count from 0.
The horizon is then one more than the last step, unless given. Of such a model only what can be reached is written.

States and actions are any text, numbered by first appearance (an action that exists nowhere is lost, and one that
the first states lack may change its place); pairs without a row do not exist. It holds no horizon, limits,
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

from collections.abc import Mapping
from pathlib import Path

from numpy.typing import ArrayLike

from conrl.arguments import read_flag
from conrl.errors import ModelError
from conrl.io.csv_files import load_csv, save_csv
from conrl.io.drn_files import load_drn
from conrl.io.drn_writing import save_drn
from conrl.io.files import PathLike, file_path, reading
from conrl.io.npz_files import load_npz, save_npz
from conrl.model import ConstrainedMDP
from conrl.model.criteria import Criterion
from conrl.model.mdp import need_model

__all__ = ["load_model", "save_model"]


FILES = {".npz": (load_npz, save_npz), ".csv": (load_csv, save_csv), ".drn": (load_drn, save_drn)}
SUFFIXES = ".npz, .csv or .drn"


def is_model_file(name: str) -> bool:
    """Whether a name is one of a file, by its suffix."""
    return Path(name).suffix.lower() in FILES


def load_model(
    path: PathLike,
    *,
    horizon: int | Criterion | None = None,
    initial: int | str | ArrayLike | None = None,
    limits: ArrayLike | Mapping[str, float] | None = None,
    reward: str | None = None,
) -> ConstrainedMDP:
    """The model in a `.npz`, `.csv` or `.drn` file; what is passed here replaces what the file says.

    `initial` is a state's index or name, or a distribution. CSV and DRN files hold no horizon: pass it. `reward` is the
    reward model of a DRN file that is the reward (`"-time"`: as little of it as possible); the others are costs.
    Whatever is wrong with the file is one line of a `ModelError` that names it.
    """
    path = file_path(path)
    suffix = _suffix(path)
    load, _ = FILES[suffix]
    asked = (("horizon", horizon), ("initial", initial), ("limits", limits), ("reward", reward))
    given = {k: v for k, v in asked if v is not None}
    if reward is not None and suffix != ".drn":
        raise ModelError(f"{path}: reward= is for .drn files; a {suffix} file says what the reward is", key=("reward",))
    with reading(path):
        return load(path, given)


def save_model(path: PathLike, mdp: ConstrainedMDP, *, means: bool = False) -> None:
    """Write `mdp` to a `.npz`, `.csv` or `.drn` file, whole or not at all.

    The first keeps everything; the others hold no horizon, limits, features or map, CSV no first state, and DRN no pay
    by outcome. `means`: write the mean pay of each state and action where the model pays by outcome.
    """
    if isinstance(path, ConstrainedMDP):
        raise ModelError("save_model takes the path first: save_model(path, mdp)")
    path = file_path(path)
    need_model(mdp, "save_model")
    _, save = FILES[_suffix(path)]
    save(path, mdp._copy(outcome_pay=None) if read_flag(means, "means") else mdp)


def _suffix(path: Path) -> str:
    suffix = path.suffix.lower()
    if suffix not in FILES:
        raise ModelError(f"{path}: a model file ends in {SUFFIXES}, not in {suffix!r}")
    return suffix
