"""Model files in and out, told apart by their suffix. No pickle anywhere.

`.csv` is for people and spreadsheets: one row per outcome, columns in any order,

    state,action,next_state,probability,reward,cost_<name>...

States and actions are any text, numbered by first appearance; pairs without a row do not exist. It holds no
horizon, limits, initial state (the first state of the file, unless given), features or layout; a model with a
bonus is refused. Numbers are written so that they read back exactly. Where all outcomes of every pair pay the
same, the pay is read as per pair, so that its mean is that number and not a rounded sum.

`.npz` as written by `save_model` keeps every bit of a model:

    format = "conrl-model", version = 1, num_actions, horizon, initial [S], cost_names [d],
    first [S+1], action [P], start [P+1], successor [N], probability [N]   (letters as in `conrl.kernels`),
    pay [P, 1+d], and where there are: outcome_pay [N, 1+d], bonus [P, 1+d], limits [d], state_names [S],
    action_names [A], features [S, ...], layout_rows, layout_cell [S], layout_arrows

`.npz` as written by hand, `np.savez("m.npz", transitions=..., rewards=..., costs=..., horizon=30)`, holds dense
arrays such as `ConstrainedMDP` takes: transitions [S, A, S], rewards, and optionally costs, horizon, initial,
limits, available, state_names, action_names, cost_names.

Files are not trusted: what a header claims is compared with what the file holds before memory is taken.
"""

from __future__ import annotations

import codecs
import csv
import difflib
import io
import math
import os
import secrets
import shutil
import stat
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any, BinaryIO, NamedTuple, NoReturn

import numpy as np
from numpy.lib import format as npy
from numpy.typing import ArrayLike, NDArray

from conrl.errors import ModelError, unknown
from conrl.model import LARGEST, MAX_ACTIONS, ROW_SUM_TOLERANCE, ConstrainedMDP, Float, Layout

__all__ = ["atomic_write", "load_model", "save_model"]

Array = NDArray[Any]
PathLike = str | os.PathLike[str]

FORMAT = "conrl-model"
VERSION = 1
MAX_BYTES = 2**32  # of all arrays of an .npz together, unless the file itself is of comparable size:
COMPARABLE = 16  # at most so many times smaller
DEFLATE_RATIO = 1032  # deflate cannot shrink further, so a larger claim is a lie
CHUNK = 2_000  # rows of a CSV file that are held as text at a time
MEAN_TOLERANCE = 2 * ROW_SUM_TOLERANCE  # how far `pay` may lie from the sum over outcomes: pay times the sum of p

_COLUMNS = ("state", "action", "next_state", "probability", "reward")
_PLAIN = {"transitions", "rewards"}
_PLAIN_OPTIONAL = {"costs", "horizon", "initial", "limits", "available", "state_names", "action_names", "cost_names"}
_OWN = {
    "num_actions",
    "horizon",
    "initial",
    "cost_names",
    "first",
    "action",
    "start",
    "successor",
    "probability",
    "pay",
}
_OWN_OPTIONAL = {"outcome_pay", "bonus", "limits", "state_names", "action_names", "features"}
_LAYOUT = {"layout_rows", "layout_cell", "layout_arrows"}


def load_model(
    path: PathLike,
    *,
    horizon: int | None = None,
    initial: int | str | ArrayLike | None = None,
    limits: ArrayLike | Mapping[str, float] | None = None,
) -> ConstrainedMDP:
    """The model in a `.npz` or `.csv` file; what is passed here replaces what the file says.

    `initial` is a state's index or name, or a distribution. A CSV file holds no horizon: pass it. Whatever is
    wrong with the file is one line of a `ModelError` that names it.
    """
    path = Path(path)
    load = {".npz": _load_npz, ".csv": _load_csv}[_suffix(path)]
    given = {k: v for k, v in (("horizon", horizon), ("initial", initial), ("limits", limits)) if v is not None}
    with _reading(path):
        return load(path, given)


def save_model(path: PathLike, mdp: ConstrainedMDP) -> None:
    """Write `mdp` to a `.npz` (everything) or `.csv` file (see above for what it keeps), whole or not at all."""
    path = Path(path)
    save = {".npz": _save_npz, ".csv": _save_csv}[_suffix(path)]
    for kind, names in (("state", mdp.state_names), ("action", mdp.action_names), ("cost", mdp.cost_names)):
        bad = next((n for n in names if "\0" in n), None)
        if bad is not None:
            raise ModelError(f"{path}: {kind} name {bad!r} holds a NUL character, which files cannot keep; rename it")
    save(path, mdp)


@contextmanager
def atomic_write(path: PathLike) -> Iterator[BinaryIO]:
    """A binary file that takes the place of `path` only when the block ends well.

    It is written beside its destination, synced and renamed; on any failure nothing is left behind and what stood
    there before stays. What the system refuses (`OSError`) is raised as a `ModelError`.
    """
    target = Path(os.path.realpath(path))  # a link stays a link
    temporary = target.with_name(f".conrl-{secrets.token_hex(8)}.tmp")
    try:
        if target.is_dir():
            raise ModelError(f"cannot write {path}: it is a directory")
        # Not `tempfile`: its files are private, these get the permissions that any new file gets.
        with open(temporary, "x+b") as handle:
            yield handle
            handle.flush()
            os.fsync(handle.fileno())
        with suppress(FileNotFoundError):
            shutil.copymode(target, temporary)
        os.replace(temporary, target)
        _sync_directory(target.parent)
    except OSError as error:
        if isinstance(error, FileNotFoundError) and not target.parent.exists():
            raise ModelError(f"cannot write {path}: no such directory: {Path(path).parent}") from None
        raise ModelError(f"cannot write {path}: {(error.strerror or str(error)).lower()}") from None
    finally:
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def _sync_directory(directory: Path) -> None:
    """Make a rename last through a power cut, where the system can."""
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _suffix(path: Path) -> str:
    if "\0" in str(path):
        raise ModelError(f"{str(path)!r} is not a file name")
    suffix = path.suffix.lower()
    if suffix not in (".npz", ".csv"):
        raise ModelError(f"{path}: a model file ends in .npz or .csv, not in {suffix!r}")
    return suffix


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ModelError(f"is a directory, not a file: {path}")
        if not stat.S_ISREG(mode):  # a pipe would wait for ever
            raise ModelError(f"not a regular file: {path}")
        yield
    except FileNotFoundError:
        raise ModelError(f"no such file: {path}") from None
    except OSError as error:
        raise ModelError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except MemoryError:
        raise ModelError(f"cannot read {path}: not enough memory") from None


@contextmanager
def _about(path: Path) -> Iterator[None]:
    """Puts the file's name before what the model's validation says."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{path}: {error}") from None


def _start(initial: Any, names: Sequence[str] | None, num_states: int) -> Any:
    """`initial` with the name of a state looked up."""
    if not isinstance(initial, str):
        return initial
    known = names if names is not None else [str(s) for s in range(num_states)]
    if initial not in known:
        raise ModelError(f"initial: {unknown('state', initial, known[:1000])}")
    return list(known).index(initial)


# -- CSV --------------------------------------------------------------------------------------------------


class _Codes(dict[str, int]):
    """Numbers texts by first appearance."""

    def __missing__(self, text: str) -> int:
        self[text] = code = len(self)
        return code

    def of(self, texts: Sequence[str]) -> NDArray[np.int64]:
        return np.fromiter(map(self.__getitem__, texts), np.int64, len(texts))


class _Outcomes(NamedTuple):
    """The rows of a CSV file, one entry a row."""

    state: NDArray[np.int64]
    action: NDArray[np.int64]
    successor: NDArray[np.int64]
    probability: Float
    pay: Float  # [n, 1+d]


def _load_csv(path: Path, given: dict[str, Any]) -> ConstrainedMDP:
    if "horizon" not in given:
        raise ModelError(f"{path}: a CSV file holds no horizon; pass horizon= (on the command line --horizon)")
    _check_text(path)
    states, actions = _Codes(), _Codes()
    cost_names, rows = _read_csv(path, states, actions)
    if len(actions) > MAX_ACTIONS:
        raise ModelError(f"{path}: {len(actions)} actions; at most {MAX_ACTIONS} are supported")
    names, labels = list(states), list(actions)
    _check_sums(path, rows, names, labels)
    with _about(path):
        if "initial" in given:
            given = given | {"initial": _start(given["initial"], names, len(names))}
        mdp = ConstrainedMDP.from_outcomes(
            *rows,
            num_states=len(names),
            num_actions=len(labels),
            state_names=names,
            action_names=labels,
            cost_names=cost_names,
            **given,
        )
    return _per_pair(mdp)


def _check_text(path: Path) -> None:
    """Refuse what is not UTF-8 text before the csv module makes sense of it."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    line = 1
    with path.open("rb") as stream:
        while block := stream.read(2**20):
            if b"\0" in block:
                _stop(path, line + block[: block.index(b"\0")].count(b"\n"), "a NUL byte; save the file as CSV UTF-8")
            try:
                decoder.decode(block)
            except UnicodeDecodeError as error:
                # `error.object` starts with the few bytes kept from the block before; none of them is a newline.
                line += bytes(error.object[: error.start]).count(b"\n")
                _stop(path, line, f"byte 0x{error.object[error.start]:02x} is not UTF-8; save the file as CSV UTF-8")
            line += block.count(b"\n")
    try:
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        _stop(path, line, "the file ends within a UTF-8 character")


def _read_csv(path: Path, states: _Codes, actions: _Codes) -> tuple[list[str], _Outcomes]:
    next_states = _Codes()
    parts: list[list[Array]] = []
    seen = 0
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, strict=True)
        lines = filter(None, reader)  # blank lines are empty rows
        try:
            header = next(lines, None)
            if header is None:
                raise ModelError(f"{path} is empty; expected a header {','.join(_COLUMNS)},cost_<name>...")
            cost_names, order = _read_header(path, header, reader.line_num)
            while chunk := list(islice(lines, CHUNK)):
                parts.append(_read_chunk(path, header, order, chunk, seen, (states, actions, next_states)))
                seen += len(chunk)
        except csv.Error as error:
            _stop(path, _line(path), f"{error} in the row that starts here")
    if not seen:
        raise ModelError(f"{path} has a header and no rows")
    state, action, successor, probability, *pay = (np.concatenate(column) for column in zip(*parts, strict=True))
    for name, code in next_states.items():
        if name not in states:
            row = int(np.flatnonzero(successor == code)[0])
            _stop(path, _line(path, row), _no_way_on(name, states))
    place = np.array([states[name] for name in next_states], dtype=np.int64)
    return cost_names, _Outcomes(state, action, place[successor], probability, np.stack(pay, axis=1))


def _no_way_on(name: str, states: Mapping[str, int]) -> str:
    near = difflib.get_close_matches(name, states, n=1, cutoff=0.8) if len(states) <= 1000 else []
    hint = f" (or did you mean {near[0]!r}?)" if near else ""
    return f"state {name!r} occurs only as next_state; add a row that stays there with probability 1{hint}"


def _read_header(path: Path, header: list[str], line: int) -> tuple[list[str], list[int]]:
    """The names of the costs, and where the columns are: the five that every file has, then the costs."""
    seen: set[str] = set()
    for name in header:
        if name not in _COLUMNS and not name.startswith("cost_"):
            apart = next((c for c in ";\t" if c in name), None)
            hint = f" (columns are separated by commas, not by {apart!r})" if apart and len(header) == 1 else ""
            _stop(path, line, unknown("column", name, (*_COLUMNS, "cost_<name>")) + hint)
        if name in seen:
            _stop(path, line, f"column {name!r} occurs twice")
        seen.add(name)
        if name == "cost_":
            _stop(path, line, "column 'cost_' has no name; call it cost_<name>")
    for name in _COLUMNS:
        if name not in seen:
            _stop(path, line, f"no column {name!r}; expected {','.join(_COLUMNS)},cost_<name>...")
    costs = [i for i, name in enumerate(header) if name.startswith("cost_")]
    return [header[i].removeprefix("cost_") for i in costs], [*map(header.index, _COLUMNS), *costs]


def _read_chunk(
    path: Path, header: list[str], order: list[int], chunk: list[list[str]], seen: int, codes: tuple[_Codes, ...]
) -> list[Array]:
    """The columns of some rows in the order of `_Outcomes`: codes for texts, then numbers."""
    if set(map(len, chunk)) != {len(header)}:
        bad = next(i for i, row in enumerate(chunk) if len(row) != len(header))
        found = f"{len(chunk[bad])} field{'s' * (len(chunk[bad]) != 1)}; the header has {len(header)}"
        _stop(path, _line(path, seen + bad), found)
    columns = list(zip(*chunk, strict=True))
    texts = [code.of(columns[order[i]]) for code, i in zip(codes, (0, 1, 2), strict=True)]
    numbers: list[Array] = []
    for at in order[3:]:
        low, need = (0.0, "finite and at least 0") if at == order[3] else (-LARGEST, "finite")
        values = _numbers(columns[at])
        # A comparison with NaN is false, so this finds it as well.
        bad_rows = np.flatnonzero(~((values >= low) & (values <= LARGEST)))
        if bad_rows.size:
            row = int(bad_rows[0])
            text = columns[at][row]
            what = need if _number(text) is not None else "a number"
            if need == "finite" and math.isfinite(values[row]):
                what = f"at most {LARGEST:g} in size"
            _stop(path, _line(path, seen + row), f"{header[at]} is {text!r}; it must be {what}")
        numbers.append(values)
    return texts + numbers


def _numbers(texts: Sequence[str]) -> Float:
    """Parsed all at once if possible; NaN where a text is not a number."""
    try:
        values = np.fromiter(map(float, texts), np.float64, len(texts))
    except ValueError:
        values = None
    if values is None or "_" in "".join(texts):
        parsed = map(_number, texts)
        values = np.array([math.nan if x is None else x for x in parsed])
    return values


def _number(text: str) -> float | None:
    """Python also reads 1_000 as a number; a file that holds that holds a mistake."""
    try:
        return None if "_" in text else float(text)
    except ValueError:
        return None


def _check_sums(path: Path, rows: _Outcomes, states: list[str], actions: list[str]) -> None:
    """That each pair's probabilities add up to 1, to name the line; the model checks it again."""
    pair = rows.state * len(actions) + rows.action
    _, where, inverse, counts = np.unique(pair, return_index=True, return_inverse=True, return_counts=True)
    total = np.bincount(inverse, weights=rows.probability)
    wrong = np.flatnonzero(np.abs(total - 1.0) > ROW_SUM_TOLERANCE)
    if wrong.size:
        k = wrong[np.argmin(where[wrong])]
        row = int(where[k])
        lines = "1 row" if counts[k] == 1 else f"{counts[k]} rows"
        _stop(
            path,
            _line(path, row),
            f"the {lines} of state {states[rows.state[row]]!r}, action {actions[rows.action[row]]!r} "
            f"have probabilities that sum to {total[k]:.12g}; a distribution sums to 1 (within {ROW_SUM_TOLERANCE:g})",
        )


def _per_pair(mdp: ConstrainedMDP) -> ConstrainedMDP:
    """Where every outcome of a pair pays the same, that is its mean, without the rounding of a sum."""
    paid = mdp.outcome_pay
    if paid is None:
        return mdp
    once = paid[mdp.graph.start[:-1]]
    same = (np.repeat(once, np.diff(mdp.graph.start), axis=0) == paid).all(axis=0)
    pay = _read_only(np.where(same, once, mdp.pay))
    return mdp._copy(pay=pay, outcome_pay=None if same.all() else paid)


def _line(path: Path, row: int | None = None) -> int:
    """The line on which a row starts (the header and blank lines do not count), or the first that cannot be parsed."""
    with path.open(encoding="utf-8-sig", newline="") as stream:
        reader = csv.reader(stream, strict=True)
        before, at = 0, -1
        with suppress(csv.Error):
            for fields in reader:
                if fields:
                    if at == row:
                        break
                    at += 1
                before = reader.line_num
        return before + 1


def _stop(path: Path, line: int, what: str) -> NoReturn:
    raise ModelError(f"{path}, line {line}: {what}")


def _save_csv(path: Path, mdp: ConstrainedMDP) -> None:
    if mdp.bonus is not None:
        raise ModelError(f"{path}: a CSV file cannot keep the model's bonus; save it as .npz")
    graph = mdp.graph
    counts = np.diff(graph.start)
    states, actions = mdp.state_names, mdp.action_names
    pay = mdp.outcome_pay if mdp.outcome_pay is not None else np.repeat(mdp.pay, counts, axis=0)
    columns = (
        map(states.__getitem__, np.repeat(mdp.pair_state, counts).tolist()),
        map(actions.__getitem__, np.repeat(mdp.action, counts).tolist()),
        map(states.__getitem__, graph.successor.tolist()),
        graph.probability.tolist(),
        *pay.T.tolist(),
    )
    # The csv module quotes what its line ends consist of, and so would leave a carriage return bare.
    bare = any("\r" in name for name in (*states, *actions, *mdp.cost_names))
    with atomic_write(path) as handle:
        text = io.TextIOWrapper(handle, encoding="utf-8", newline="")
        writer = csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_NONNUMERIC if bare else csv.QUOTE_MINIMAL)
        try:
            writer.writerow([*_COLUMNS, *(f"cost_{name}" for name in mdp.cost_names)])
            writer.writerows(zip(*columns, strict=True))
            text.flush()
        except UnicodeEncodeError as error:
            raise ModelError(f"{path}: a name holds {error.object[error.start]!r}, which UTF-8 cannot write") from None
        finally:
            text.detach()


# -- npz --------------------------------------------------------------------------------------------------


def _load_npz(path: Path, given: dict[str, Any]) -> ConstrainedMDP:
    with path.open("rb") as handle, _about(path):
        own, arrays = _open_npz(handle)
        return _own_model(arrays, given) if own else _plain_model(arrays, given)


def _open_npz(handle: BinaryIO) -> tuple[bool, dict[str, Array]]:
    """Whether `save_model` wrote it, and its arrays, texts as Python objects."""
    try:
        with zipfile.ZipFile(handle) as archive:
            own, arrays = _read_arrays(archive, os.fstat(handle.fileno()).st_size)
        # This also finds a code that is no character.
        return own, arrays | {k: array.astype(object) for k, array in arrays.items() if array.dtype.kind == "U"}
    except (ModelError, MemoryError):
        raise
    except Exception as error:  # zipfile, zlib and numpy raise a dozen kinds on damaged bytes
        raise ModelError(f"not a readable .npz file: {' '.join(str(error).split())}") from None


def _read_arrays(archive: zipfile.ZipFile, size: int) -> tuple[bool, dict[str, Array]]:
    """Whether `save_model` wrote it, and all arrays; nothing is read before names and sizes make sense."""
    entries: dict[str, zipfile.ZipInfo] = {}
    for entry in archive.infolist():
        name = entry.filename.removesuffix(".npy")
        if name in entries or name == entry.filename:
            raise ModelError(f"member {entry.filename!r} occurs twice or is not an array")
        entries[name] = entry
        _check_entry(name, entry, size)
    total = sum(entry.file_size for entry in entries.values())
    if total > max(MAX_BYTES, COMPARABLE * size):
        raise ModelError(
            f"its arrays would take {total:,} bytes from a file of {size:,}; "
            f"at most {MAX_BYTES:,}, or {COMPARABLE} times the file, are read"
        )
    own = "format" in entries
    if own:
        _check_format(archive, entries.pop("format"), entries.pop("version", None))
    required = _OWN if own else _PLAIN
    known = required | (_OWN_OPTIONAL | _LAYOUT if own else _PLAIN_OPTIONAL)
    for name in entries:
        if name not in known:
            raise ModelError(unknown("array", name, sorted(known)))
    for name in sorted(required - entries.keys()):
        raise ModelError(f"no array {name!r}; a model has {', '.join(sorted(required))}")
    return own, {name: _read_array(archive, entry) for name, entry in entries.items()}


def _check_entry(name: str, entry: zipfile.ZipInfo, size: int) -> None:
    most = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: DEFLATE_RATIO}.get(entry.compress_type)
    if most is None or entry.flag_bits & 1:
        raise ModelError(f"array {name!r} is encrypted or compressed in a way that numpy does not use")
    if entry.compress_size > size or entry.file_size > most * entry.compress_size:
        raise ModelError(f"array {name!r} claims {entry.file_size:,} bytes; the file does not hold them")


def _check_format(archive: zipfile.ZipFile, form: zipfile.ZipInfo, version: zipfile.ZipInfo | None) -> None:
    found = _read_array(archive, form)
    if found.shape != () or found.dtype.kind != "U" or found.item() != FORMAT or version is None:
        raise ModelError(f"its `format` is not that of a model, {FORMAT!r}")
    number = _read_array(archive, version)
    if number.shape != () or number.dtype.kind not in "iu" or number.item() != VERSION:
        raise ModelError(f"its version is {number}; this conrl reads version {VERSION}: use the one that wrote it")


def _read_array(archive: zipfile.ZipFile, entry: zipfile.ZipInfo) -> Array:
    name = entry.filename.removesuffix(".npy")
    with archive.open(entry) as stream:
        shape, dtype = _read_array_header(stream)
        held = entry.file_size - stream.tell()
    if dtype.hasobject:
        raise ModelError(f"array {name!r} holds Python objects, which could run code; save names with dtype=str")
    if dtype.kind not in "fiubUS" or min(shape, default=0) < 0:
        raise ModelError(f"array {name!r} has dtype {dtype} and shape {shape}; expected numbers or texts")
    claimed = math.prod(shape) * max(dtype.itemsize, 1)
    if claimed != held:
        raise ModelError(f"array {name!r} claims {claimed:,} bytes; the file holds {held:,}")
    with archive.open(entry) as stream:
        array = npy.read_array(stream, allow_pickle=False)
        if stream.read(1):  # also makes zipfile compare the checksum
            raise ModelError(f"array {name!r} is followed by other bytes")
    # A byte other than 0 and 1 is a damaged boolean that numpy would carry along.
    return array.view(np.uint8) != 0 if dtype.kind == "b" else array


def _read_array_header(stream: IO[bytes]) -> tuple[tuple[int, ...], np.dtype[Any]]:
    version = npy.read_magic(stream)
    if version == (1, 0):
        shape, _, dtype = npy.read_array_header_1_0(stream)
    elif version == (2, 0):
        shape, _, dtype = npy.read_array_header_2_0(stream)
    else:
        raise ModelError(f"array format {version} is not one that numbers or texts need")
    return shape, dtype


def _plain_model(arrays: dict[str, Array], given: dict[str, Any]) -> ConstrainedMDP:
    for name in arrays.keys() & {"transitions", "rewards", "costs", "horizon", "limits", "available"}:
        if arrays[name].dtype.kind not in "fiub":
            raise ModelError(f"{name} has dtype {arrays[name].dtype}; expected numbers")
    rest: dict[str, Any] = {name: _names(arrays, name) for name in ("state_names", "action_names", "cost_names")}
    rest["available"] = arrays.get("available")
    rest["limits"] = np.atleast_1d(arrays["limits"]) if "limits" in arrays else None
    for name in ("horizon", "initial"):
        if name in arrays:
            rest[name] = arrays[name].item() if arrays[name].ndim == 0 else arrays[name]
    rest |= given
    if "horizon" not in rest:
        raise ModelError("no array 'horizon'; pass horizon= (on the command line --horizon)")
    transitions = arrays["transitions"]
    num_states = transitions.shape[0] if transitions.ndim else 0
    if "initial" in rest:
        rest["initial"] = _start(rest["initial"], rest["state_names"], num_states)
    return ConstrainedMDP(transitions, arrays["rewards"], arrays.get("costs"), **rest)


def _own_model(arrays: dict[str, Array], given: dict[str, Any]) -> ConstrainedMDP:
    """Through `from_outcomes`, which validates; then the exact means, which it would round anew."""
    first, action = _table(arrays, "first", "iu", (None,)), _table(arrays, "action", "iu", (None,))
    P, S = action.size, first.size - 1
    start = _table(arrays, "start", "iu", (P + 1,))
    probability = _table(arrays, "probability", "f", (None,))
    N = probability.size
    successor = _table(arrays, "successor", "iu", (N,))
    pay = _table(arrays, "pay", "f", (P, None))
    num_actions = int(_table(arrays, "num_actions", "iu", ()))
    cost_names = _names(arrays, "cost_names")
    if not 1 <= num_actions <= MAX_ACTIONS or S < 1 or cost_names is None or pay.shape[1] != 1 + len(cost_names):
        raise ModelError("num_actions, first, cost_names or pay has a size that makes no model")
    _check_ranges(first, P, "first")
    _check_ranges(start, N, "start")
    state = np.repeat(np.arange(S), np.diff(first))
    if not (np.diff(state * num_actions + action) > 0).all() or not ((action >= 0) & (action < num_actions)).all():
        raise ModelError("action is not a rising list of actions for each state")
    if not (probability > 0.0).all():
        raise ModelError("probability has an entry that is not above 0")
    counts = np.diff(start)
    paid = _table(arrays, "outcome_pay", "f", (N, pay.shape[1])) if "outcome_pay" in arrays else None
    rest: dict[str, Any] = {
        "horizon": int(_table(arrays, "horizon", "iu", ())),
        "initial": _table(arrays, "initial", "f", (S,)),
        "limits": _table(arrays, "limits", "f", (len(cost_names),)) if "limits" in arrays else None,
        "state_names": _names(arrays, "state_names"),
        "action_names": _names(arrays, "action_names"),
        "features": arrays.get("features"),
        "layout": _layout(arrays, S),
    } | given
    rest["initial"] = _start(rest["initial"], rest["state_names"], S)
    mdp = ConstrainedMDP.from_outcomes(
        np.repeat(state, counts),
        np.repeat(action, counts),
        successor,
        probability,
        np.repeat(pay, counts, axis=0) if paid is None else paid,
        num_states=S,
        num_actions=num_actions,
        cost_names=cost_names,
        **rest,
    )
    size = np.maximum(1.0, np.abs(mdp.pay))
    if paid is not None:
        size = np.maximum(size, np.maximum.reduceat(np.abs(paid), start[:-1], axis=0))
    if not (np.abs(mdp.pay - pay) <= MEAN_TOLERANCE * size).all():
        raise ModelError("pay is not the mean of outcome_pay")
    bonus = _bonus(arrays, pay.shape)
    return mdp._copy(pay=_read_only(pay), outcome_pay=None if paid is None else mdp.outcome_pay, bonus=bonus)


def _check_ranges(begin: NDArray[np.int64], end: int, what: str) -> None:
    if begin[0] != 0 or begin[-1] != end or not (np.diff(begin) > 0).all():
        raise ModelError(f"{what} does not rise from 0 to {end}")


def _bonus(arrays: dict[str, Array], shape: tuple[int, ...]) -> Float | None:
    if "bonus" not in arrays:
        return None
    bonus = _table(arrays, "bonus", "f", shape)
    if not ((bonus >= 0.0) & (bonus <= LARGEST)).all():
        raise ModelError("bonus has a negative or non-finite entry")
    return _read_only(bonus)


def _layout(arrays: dict[str, Array], num_states: int) -> Layout | None:
    held = _LAYOUT & arrays.keys()
    if not held:
        return None
    if held != _LAYOUT:
        raise ModelError(f"no array {min(_LAYOUT - held)!r}; a layout has {', '.join(sorted(_LAYOUT))}")
    rows, arrows = _names(arrays, "layout_rows") or (), _names(arrays, "layout_arrows") or ()
    cell = _table(arrays, "layout_cell", "iu", (num_states,))
    if ((cell < -1) | (cell >= sum(map(len, rows)))).any():
        raise ModelError("layout_cell has an entry that is not a cell of layout_rows")
    return Layout(rows, _read_only(cell), arrows)


def _table(arrays: dict[str, Array], name: str, kinds: str, shape: tuple[int | None, ...]) -> Array:
    """The array as 64-bit numbers if it has that kind and shape (None: any size)."""
    array = arrays[name]
    fits = array.ndim == len(shape) and all(n in (None, m) for n, m in zip(shape, array.shape, strict=True))
    if array.dtype.kind not in kinds or not fits:
        sizes = ", ".join("any" if n is None else str(n) for n in shape)
        kind = "whole numbers" if "i" in kinds else "decimal numbers"
        raise ModelError(f"{name} has dtype {array.dtype} and shape {array.shape}; expected {kind} of shape ({sizes})")
    return array.astype(np.int64 if "i" in kinds else np.float64)


def _names(arrays: dict[str, Array], name: str) -> tuple[str, ...] | None:
    if name not in arrays:
        return None
    array = arrays[name]
    if array.ndim != 1 or array.dtype != object:
        raise ModelError(f"{name} has dtype {array.dtype} and shape {array.shape}; expected a list of texts")
    return tuple(array.tolist())


def _read_only(array: Array) -> Array:
    own = np.array(array, order="C")
    own.flags.writeable = False
    return own


def _save_npz(path: Path, mdp: ConstrainedMDP) -> None:
    graph = mdp.graph
    if mdp.horizon >= 2**63:
        raise ModelError(f"{path}: horizon {mdp.horizon} does not fit a file")
    arrays: dict[str, Any] = {
        "format": np.array(FORMAT),
        "version": np.array(VERSION),
        "num_actions": np.array(mdp.num_actions),
        "horizon": np.array(mdp.horizon, dtype=np.int64),
        "initial": mdp.initial,
        "cost_names": np.array(mdp.cost_names, dtype=np.str_),
        "first": graph.first,
        "action": mdp.action,
        "start": graph.start,
        "successor": graph.successor,
        "probability": graph.probability,
        "pay": mdp.pay,
    }
    optional = {
        "outcome_pay": mdp.outcome_pay,
        "bonus": mdp.bonus,
        "limits": mdp.limits,
        "features": mdp.features,
        "state_names": None if mdp._state_names is None else np.array(mdp._state_names, dtype=np.str_),
        "action_names": None if mdp._action_names is None else np.array(mdp._action_names, dtype=np.str_),
    }
    if mdp.layout is not None:
        arrays["layout_rows"] = np.array(mdp.layout.rows, dtype=np.str_)
        arrays["layout_cell"] = np.asarray(mdp.layout.cell)
        arrays["layout_arrows"] = np.array(mdp.layout.arrows, dtype=np.str_)
    arrays |= {name: array for name, array in optional.items() if array is not None}
    with atomic_write(path) as handle:
        np.savez(handle, allow_pickle=False, **arrays)
