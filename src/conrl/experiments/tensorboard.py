"""Runs as TensorBoard event files, written without TensorBoard: one event an episode, holding all its scalars.

A file is a sequence of TFRecords, little-endian:

    length u64 | mask(crc32c(length)) u32 | data | mask(crc32c(data)) u32

    mask(c) = ((c >> 15) | (c << 17)) + 0xa282ead8   mod 2^32

and each data is one protobuf message (field numbers of tensorflow's event.proto and summary.proto):

    Event  1: double wall_time   2: int64 step   3: string file_version   5: Summary
    Summary  1: repeated Value   Value  1: string tag   2: float simple_value

The events of a block of n episodes are laid out as columns of one table [slots, n]: every field that an event may have
owns its slots, and a second table tells which are used (a NaN is left out, a varint is as long as it must be). Both
checksums then run down the slots for all episodes at once. There is no clock: `wall_time` is the step, so that equal
runs give equal bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from conrl._types import Array, Bool, Float, Int
from conrl.errors import RunError, SpecError
from conrl.experiments.analysis import Study
from conrl.experiments.records import RunRecord
from conrl.experiments.store import run_directory, safe_name
from conrl.io.files import atomic_write, refuse_links

__all__ = ["FILE_NAME", "export", "write_events"]

Bytes = NDArray[np.uint8]
Word = NDArray[np.uint32]

FILE_NAME = "events.out.tfevents.0.conrl"  # fixed: a second export takes the place of the first
FILE_VERSION = b"brain.Event:2"
BLOCK = 4096  # episodes laid out at once: bounds the memory, and keeps the columns in the cache

WALL_TIME, STEP, VERSION, SUMMARY = b"\x09", b"\x10", b"\x1a", b"\x2a"  # keys of Event: number << 3 | wire type
VALUE, TAG, SIMPLE_VALUE = b"\x0a", b"\x0a", b"\x15"  # of Summary, and of its Value


def export(study: Study, out: str | Path) -> list[Path]:
    """Write every run of a study as `out/<environment>/<algorithm>/seed-000/events.out.tfevents.0.conrl`.

    Args:
        study: what `conrl.experiments.load` returns; of each run the tags of `_metrics` are written, by episode.
        out: made if need be; `tensorboard --logdir` takes it.
    """
    runs: dict[Path, RunRecord] = {}
    for run in study.runs:
        path = run_directory(out, run.environment, safe_name(run.algorithm, "algorithm"), run.seed)
        if path in runs:
            other = runs[path]
            raise SpecError(
                f"two runs with seed {run.seed} would both be written to {path}: {other.algorithm!r} on "
                f"{other.environment!r} and {run.algorithm!r} on {run.environment!r}; export them apart"
            )
        refuse_links(path, Path(out))
        runs[path] = run
    return [
        write_events(path, _metrics(run, study.optimum(run.environment, run.algorithm))) for path, run in runs.items()
    ]


def write_events(path: str | Path, rows: Mapping[str, ArrayLike], steps: ArrayLike | None = None) -> Path:
    """Write scalars as one event file in the directory `path`, which is made if need be; returns the file.

    Args:
        path: the directory; TensorBoard names the run after it.
        rows: values [K] by tag. NaN means "not there"; what is too large for a float32 is written as infinity.
        steps: [K], whole numbers from 0 on; episodes counted from 1 unless given.
    """
    values, at = _table(rows, steps)
    tags = [_encoded(tag) for tag in rows]
    directory = Path(path)
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RunError(f"cannot write in {directory}: {(error.strerror or str(error)).lower()}") from None
    with atomic_write(directory / FILE_NAME, follow=False) as file:
        version = WALL_TIME + bytes(8) + VERSION + _delimited(FILE_VERSION)
        file.write(_records(_constant(version, np.ones(1, dtype=np.bool_))))
        for begin in range(0, at.size, BLOCK):
            file.write(_records(_events(tags, values[:, begin : begin + BLOCK], at[begin : begin + BLOCK])))
    return directory / FILE_NAME


# -- what is written of a run -------------------------------------------------------------------------------------


def _metrics(run: RunRecord, optimum: float | None = None) -> dict[str, Float | Int]:
    """The scalars of a run [K] by the names that safe RL libraries use. Of several costs there is each, and the sum.

    The strong sums of `conrl.metrics` are there where they are known.
    """
    several = len(run.cost_names) > 1

    def each(tag: str, table: Float) -> dict[str, Float | Int]:
        return {f"{tag}/{name}" if several else tag: table[:, i] for i, name in enumerate(run.cost_names)}

    def costs(tag: str, table: Float) -> dict[str, Float | Int]:
        return {tag: table.sum(axis=1)} | (each(tag, table) if several else {})

    scalars = {"Metrics/EpRet": run.rewards, **costs("Metrics/EpCost", run.costs), "Metrics/EpLen": run.steps}
    if run.prices is not None:
        scalars |= each("Metrics/LagrangeMultiplier", run.prices)  # their sum would mean nothing
    if run.expected is not None:
        scalars["Metrics/ExpectedRet"] = run.expected[:, 0]
        scalars |= costs("Metrics/ExpectedCost", run.expected[:, 1:])
    if optimum is not None and (regret := run.strong_regret(optimum)) is not None:
        scalars["Metrics/StrongRegret"] = regret
    if (violation := run.strong_violation) is not None:
        scalars |= each("Metrics/StrongViolation", violation)  # in units of their own, like the multipliers
    return scalars


def _table(rows: Mapping[str, ArrayLike], steps: ArrayLike | None) -> tuple[Float, Int]:
    """Values [tags, K] and steps [K], without the steps at which there is nothing but NaN."""
    columns = {tag: _column(tag, given) for tag, given in rows.items()}
    at = None if steps is None else _steps(steps)
    first, K = next(((repr(tag), column.size) for tag, column in columns.items()), ("", 0 if at is None else at.size))
    for tag, column in columns.items():
        if column.size != K:
            raise SpecError(f"{tag!r} has {column.size} values, {first} has {K}; all tags need the same number")
    if at is None:
        at = np.arange(1, K + 1)
    elif at.size != K:
        raise SpecError(f"steps has {at.size} entries, {first} has {K}; there is one step for each value")
    values = np.array(list(columns.values())).reshape(len(columns), K)
    there = ~np.isnan(values).all(axis=0)
    return values[:, there], at[there]


def _column(tag: str, given: ArrayLike) -> Float:
    try:
        column = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise SpecError(f"{tag!r} does not hold numbers") from None
    if column.ndim != 1:
        raise SpecError(f"{tag!r} has shape {column.shape}; expected one number for each step")
    return column


def _steps(given: ArrayLike) -> Int:
    steps = np.asarray(given)
    if steps.ndim != 1 or (steps.size and steps.dtype.kind not in "iu"):
        raise SpecError(f"steps has dtype {steps.dtype} and shape {steps.shape}; expected a list of whole numbers")
    at = steps.astype(np.int64)
    if (at < 0).any():  # also those that do not fit
        raise SpecError(f"steps holds {steps[at < 0][0]}; steps are from 0 to 2^63 - 1")
    return at


# -- bytes --------------------------------------------------------------------------------------------------------


class _Slots(NamedTuple):
    """Bytes of n messages side by side; down a column, those that are used make the message."""

    data: Bytes  # [slots, n]
    used: Bool  # [slots, n]


def _events(tags: list[bytes], values: Float, steps: Int) -> _Slots:
    """The events of n steps; values [tags, n]."""
    every = np.ones(steps.size, dtype=np.bool_)
    there = ~np.isnan(values)
    fields: list[_Slots] = []
    length = np.zeros(steps.size, dtype=np.int64)  # of the summary
    with np.errstate(over="ignore"):  # TensorBoard holds float32
        numbers = values.astype("<f4")
    for tag, used, number in zip(tags, there, numbers, strict=True):
        start = TAG + _delimited(tag) + SIMPLE_VALUE
        head = VALUE + _varint(len(start) + 4) + start
        fields += [_constant(head, used), _fixed(number, used)]
        length += used * (len(head) + 4)
    return _joined(
        _constant(WALL_TIME, every),
        _fixed(steps.astype("<f8"), every),
        _constant(STEP, every),
        _varints(steps),
        _constant(SUMMARY, every),
        _varints(length),
        *fields,
    )


def _records(messages: _Slots) -> bytes:
    """The messages one after the other, each as a TFRecord."""
    every = np.ones(messages.used.shape[1], dtype=np.bool_)
    length = _fixed(messages.used.sum(axis=0).astype("<u8"), every)
    table = _joined(length, _fixed(_masked_crc32c(length), every), messages, _fixed(_masked_crc32c(messages), every))
    return table.data.T[table.used.T].tobytes()


def _joined(*parts: _Slots) -> _Slots:
    return _Slots(np.concatenate([p.data for p in parts]), np.concatenate([p.used for p in parts]))


def _constant(text: bytes, used: Bool) -> _Slots:
    """The same bytes wherever they are used [n]."""
    shape = len(text), used.size
    return _Slots(np.broadcast_to(np.frombuffer(text, np.uint8)[:, None], shape), np.broadcast_to(used, shape))


def _fixed(numbers: Array, used: Bool) -> _Slots:
    """Little-endian numbers [n] of fixed width."""
    data = np.ascontiguousarray(numbers).view(np.uint8).reshape(numbers.size, numbers.itemsize).T
    return _Slots(data, np.broadcast_to(used, data.shape))


def _varints(numbers: Int) -> _Slots:
    """Base-128 numbers [n], not negative: seven bits a byte, lowest first; the top bit says that more follow."""
    rest = numbers >> (7 * np.arange(10))[:, None]  # [10, n]; nine bytes hold 63 bits, so that the last row is 0
    more = rest[1:] > 0
    used = np.concatenate([np.ones((1, numbers.size), dtype=np.bool_), more[:-1]])
    return _Slots(((rest[:-1] & 0x7F) | (more << 7)).astype(np.uint8), used)


def _varint(number: int) -> bytes:
    data, used = _varints(np.array([number], dtype=np.int64))
    return data[used].tobytes()


def _delimited(text: bytes) -> bytes:
    return _varint(len(text)) + text


def _encoded(tag: str) -> bytes:
    try:
        return tag.encode()
    except UnicodeEncodeError:
        raise SpecError(f"tag {tag!r} is not valid Unicode") from None


def _crc32c_table() -> Word:
    """[256]: what each byte does to the checksum; Castagnoli's polynomial, reflected."""
    table: Word = np.arange(256, dtype=np.uint32)
    for _ in range(8):
        table = np.where(table & 1, np.uint32(0x82F63B78), np.uint32(0)) ^ (table >> 1)
    return table


CRC32C = _crc32c_table()


def _masked_crc32c(messages: _Slots) -> Array:
    """[n]: of each message. TFRecords mask the checksum because that of data that holds checksums is weak."""
    crc = np.full(messages.used.shape[1], 0xFFFFFFFF, dtype=np.uint32)
    for data, used in zip(*messages, strict=True):
        crc = np.where(used, CRC32C[(crc ^ data) & 0xFF] ^ (crc >> 8), crc)
    crc = ~crc
    return (((crc >> 15) | (crc << 17)) + np.uint32(0xA282EAD8)).astype("<u4")
