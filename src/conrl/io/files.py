"""Reading and writing files safely: whole or not at all, by one process, and never trusting what a file claims.

`atomic_write` writes beside the destination, syncs and renames. `alone` keeps other processes out of a directory.
`refuse_links` keeps a directory of ours from leading to files outside. `read_bytes` reads regular files only.
`read_npz` compares what the headers of an `.npz` archive claim with what the file holds, and both with `conrl.sizes`,
before memory is taken, and never unpickles. `parse_json`, `parse_toml` and `check_depth` refuse what is nested so
deeply that reading or writing it would exhaust the stack.
"""

from __future__ import annotations

import errno
import json
import math
import os
import re
import secrets
import shutil
import stat
import tomllib
import zipfile
from collections.abc import Callable, Iterator, Mapping, Set
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import numpy as np
from numpy.lib import format as npy

from conrl._types import Array
from conrl.errors import ModelError, RunError
from conrl.sizes import MAX_ARCHIVE, check_archive

PathLike = str | os.PathLike[str]

DEFLATE_RATIO = 1032  # deflate cannot shrink further, so a larger claim is a lie
NUMBER, TEXT = 8, 56  # bytes that an entry takes at least: as a 64-bit number; as a Python text, on top of its letters
OPEN_FILES = "/proc/self/fd"  # of this process, by number
MAX_DEPTH = 50  # of tables and lists within each other in JSON or TOML
TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"
# `tomllib` takes quadratic time for a.b.c...; a part begins where no letter stands before it, so that this is linear.
DEEP_KEY = re.compile(
    rf"""(?<![\w-])(?:(?:"(?:[^"\\\n]|\\.)*+"|'[^'\n]*+'|[\w-]++)[ \t]*+\.[ \t]*+){{{MAX_DEPTH}}}""", re.ASCII
)


def file_path(path: Any) -> Path:
    """The path of a file, as somebody named it."""
    try:
        named = Path(path)
        if b"\0" not in os.fsencode(named):
            return named
    except (TypeError, UnicodeEncodeError):
        pass
    raise ModelError(f"{path!r} is not a file name")


@contextmanager
def atomic_write(path: PathLike, follow: bool = True) -> Iterator[BinaryIO]:
    """A binary file that takes the place of `path` only when the block ends well.

    It is written beside its destination, synced and renamed; on any failure nothing is left behind and what stood
    there before stays. Where the system can, it has no name until it is whole, so that not even a killed process leaves
    one. What the system refuses (`OSError`) is raised as a `ModelError`. A link that the user names is followed and
    stays a link; one that lies in a directory of ours (`follow=False`) is replaced, as it may come from elsewhere and
    lead anywhere.
    """
    target = Path(os.path.realpath(path)) if follow else Path(path)
    temporary = target.with_name(f".conrl-{secrets.token_hex(8)}.tmp")
    try:
        link = target.is_symlink()
        if target.is_dir() and not link:
            raise ModelError(f"cannot write {path}: it is a directory")
        # Not `tempfile`: its files are private, these get the permissions that any new file gets.
        handle, unnamed = _new_file(temporary)
        with handle:
            yield handle
            handle.flush()
            os.fsync(number := handle.fileno())
            if unnamed:  # Python follows the link to the open file only if it is told a directory to start from
                os.link(f"{OPEN_FILES}/{number}", temporary, src_dir_fd=number, follow_symlinks=True)
        if not link:
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


def _new_file(path: Path) -> tuple[BinaryIO, bool]:
    """A file in the directory of `path`, and whether it still has no name: such a one goes with its process."""
    if hasattr(os, "O_TMPFILE") and os.path.isdir(OPEN_FILES):
        try:
            return open(os.open(path.parent, os.O_TMPFILE | os.O_RDWR, 0o666), "w+b"), True
        except OSError as error:
            if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):  # old kernels, and some disks
                raise
    return open(path, "x+b"), False


def _sync_directory(directory: Path) -> None:
    """Make a rename last through a power cut, where the system can."""
    with suppress(OSError):
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


@contextmanager
def alone(directory: Path, doing: str, name: str = ".lock") -> Iterator[None]:
    """A directory, made if need be, that no other process enters like this: a file of this name in it is locked.

    The system gives the lock back when the process ends, also when it is killed.
    """
    import fcntl  # here: only runs and studies need it, and not every system has it

    try:
        directory.mkdir(parents=True, exist_ok=True)
        refuse_links(directory / name, directory)
        lock = os.open(directory / name, os.O_CREAT | os.O_RDWR | os.O_NOFOLLOW, 0o666)
    except OSError as error:
        raise RunError(f"cannot write in {directory}: {(error.strerror or str(error)).lower()}") from None
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise RunError(f"{directory}: another process is {doing}") from None
        yield
    finally:
        os.close(lock)


def refuse_links(path: Path, root: Path) -> None:
    """Refuse a path below `root` of which a part is a link: what lies in a directory must not lead out of it.

    The root itself may be one: its user named it.
    """
    inner = path.relative_to(root).parts
    for k in range(len(inner)):
        part = root.joinpath(*inner[: k + 1])
        if part.is_symlink():
            raise RunError(f"{part} is a link, and may lead to files of others; put the file or directory in its place")


@contextmanager
def reading(path: Path) -> Iterator[None]:
    """Turn whatever the system refuses while a file is read into one line of a `ModelError`."""
    try:
        mode = path.stat().st_mode
        if stat.S_ISDIR(mode):
            raise ModelError(f"is a directory, not a file: {path}")
        if not stat.S_ISREG(mode):  # a pipe would wait forever
            raise ModelError(f"not a regular file: {path}")
        yield
    except FileNotFoundError:
        raise ModelError(f"no such file: {path}") from None
    except OSError as error:
        raise ModelError(f"cannot read {path}: {(error.strerror or str(error)).lower()}") from None
    except MemoryError:
        raise ModelError(f"cannot read {path}: not enough memory") from None


@contextmanager
def about(path: PathLike) -> Iterator[None]:
    """Put the file's name in front of what the checks of a model say."""
    try:
        yield
    except ModelError as error:
        raise ModelError(f"{path}: {error}", key=error.key) from None


def read_bytes(path: Path, most: int = -1) -> bytes:
    """All of a regular file, or its first bytes."""
    with reading(path), path.open("rb") as handle:
        return handle.read(most)


def parse_json(text: str) -> Any:
    """What a JSON text says; a `ValueError` if it is none, is nested too deeply, or says one thing twice."""
    try:
        value = json.loads(text, object_pairs_hook=_once)
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    check_depth(value)
    return value


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """The object of these pairs; Python would believe the last of two."""
    found = dict(pairs)
    if len(found) != len(pairs):
        names = [name for name, _ in pairs]
        raise ValueError(f"{next(name for name in names if names.count(name) > 1)!r} is there twice")
    return found


def parse_toml(text: str) -> dict[str, Any]:
    """What a TOML text says; a `ValueError` if it is none, or one that is nested too deeply."""
    if DEEP_KEY.search(text):
        raise ValueError(f"a key of more than {MAX_DEPTH} parts")
    try:
        value = tomllib.loads(text)  # a number of thousands of digits is a plain ValueError
    except RecursionError:
        raise ValueError(TOO_DEEP) from None
    check_depth(value)
    return value


def check_depth(value: Any) -> None:
    """A `ValueError` if tables and lists are nested too deeply: whatever walks them would exhaust the stack."""
    level = [value]
    for _ in range(MAX_DEPTH):
        inner = [v.values() if isinstance(v, dict) else v for v in level if isinstance(v, (dict, list))]
        level = [x for values in inner for x in values]
        if not level:
            return
    raise ValueError(TOO_DEEP)


Reader = Callable[[str], Array]


class _Member(NamedTuple):
    """An array of an archive, before it is read."""

    name: str
    entry: zipfile.ZipInfo
    shape: tuple[int, ...]
    dtype: np.dtype[Any]


def read_npz(path: Path, check: Callable[[Set[str], Reader], None]) -> dict[str, Array]:
    """All arrays of an `.npz` file, texts as Python objects.

    `check` is given the names and a way to read one array; it may refuse before the rest is read.
    """
    with path.open("rb") as handle:
        try:
            with zipfile.ZipFile(handle) as archive:
                members = _members(archive, os.fstat(handle.fileno()).st_size)
                check(members.keys(), lambda name: _read_array(archive, members[name]))
                arrays = {name: _read_array(archive, member) for name, member in members.items()}
            # This also finds a code that is no character.
            return arrays | {k: array.astype(object) for k, array in arrays.items() if array.dtype.kind == "U"}
        except (ModelError, MemoryError):
            raise
        except Exception as error:  # zipfile, zlib and numpy raise a dozen kinds on damaged bytes
            raise ModelError(f"not a readable .npz file: {' '.join(str(error).split())}") from None


def write_npz(handle: BinaryIO, arrays: Mapping[str, Any]) -> None:
    """Arrays as `.npz`; compressed, unless they are so large that `read_npz` would take the file for a bomb."""
    needed = sum(_needed(np.shape(array), np.asarray(array).dtype) for array in arrays.values())
    save = np.savez_compressed if needed <= MAX_ARCHIVE else np.savez
    save(handle, allow_pickle=False, **arrays)


def _needed(shape: tuple[int, ...], dtype: np.dtype[Any]) -> int:
    """Bytes that an array takes at least once it is used: numbers as 64-bit ones, texts as Python objects."""
    return math.prod(shape) * (dtype.itemsize + TEXT if dtype.kind in "US" else max(dtype.itemsize, NUMBER))


def _members(archive: zipfile.ZipFile, size: int) -> dict[str, _Member]:
    """The arrays by name, once names and sizes make sense; no more than headers is read."""
    members: dict[str, _Member] = {}
    for entry in archive.infolist():
        name = entry.filename.removesuffix(".npy")
        if name in members or name == entry.filename:
            raise ModelError(f"member {entry.filename!r} occurs twice or is not an array")
        check_entry(name, entry, size)
        members[name] = _read_header(archive, name, entry)
    check_archive(sum(_needed(member.shape, member.dtype) for member in members.values()), size)
    return members


def check_entry(name: str, entry: zipfile.ZipInfo, size: int) -> None:
    most = {zipfile.ZIP_STORED: 1, zipfile.ZIP_DEFLATED: DEFLATE_RATIO}.get(entry.compress_type)
    if most is None or entry.flag_bits & 1:
        raise ModelError(f"array {name!r} is encrypted or compressed in a way that numpy does not use")
    if entry.compress_size > size or entry.file_size > most * entry.compress_size:
        raise ModelError(f"array {name!r} claims {entry.file_size:,} bytes; the file does not hold them")


def _read_header(archive: zipfile.ZipFile, name: str, entry: zipfile.ZipInfo) -> _Member:
    """What an array claims to be, once that is numbers or texts and as large as the archive says."""
    with archive.open(entry) as stream:
        version = npy.read_magic(stream)
        if version != (1, 0):  # others are for headers of any length, which numbers and texts do not need
            raise ModelError(f"array {name!r}: array format {version} is not one that numbers or texts need")
        shape, _, dtype = npy.read_array_header_1_0(stream)
        held = entry.file_size - stream.tell()
    if dtype.hasobject:
        raise ModelError(f"array {name!r} holds Python objects, which could run code; save names with dtype=str")
    if dtype.kind not in "fiubUS" or min(shape, default=0) < 0:
        raise ModelError(f"array {name!r} has dtype {dtype} and shape {shape}; expected numbers or texts")
    claimed = math.prod(shape) * max(dtype.itemsize, 1)
    if claimed != held:
        raise ModelError(f"array {name!r} claims {claimed:,} bytes; the file holds {held:,}")
    return _Member(name, entry, shape, dtype)


def _read_array(archive: zipfile.ZipFile, member: _Member) -> Array:
    with archive.open(member.entry) as stream:
        array = npy.read_array(stream, allow_pickle=False)
        if stream.read(1):  # also makes zipfile compare the checksum
            raise ModelError(f"array {member.name!r} is followed by other bytes")
    # A byte other than 0 and 1 is a damaged boolean that numpy would carry along.
    return array.view(np.uint8) != 0 if member.dtype.kind == "b" else array
