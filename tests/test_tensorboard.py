"""TensorBoard files: read back by a reader that shares nothing with the writer, bit by bit."""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import ArrayLike

from conrl._types import Float
from conrl.errors import RunError, SpecError
from conrl.experiments import Study, tensorboard
from conrl.experiments.records import RunRecord
from conrl.experiments.tensorboard import FILE_NAME, export, write_events

Scalars = dict[str, float]
Event = tuple[float, int, Scalars]  # wall time, step, value by tag


# -- an independent reader ----------------------------------------------------------------------------------------


def crc32c(data: bytes) -> int:
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def unmask(masked: int) -> int:
    rotated = (masked - 0xA282EAD8) % 2**32
    return (rotated >> 17 | rotated << 15) % 2**32


def records(data: bytes) -> Iterator[bytes]:
    while data:
        (length,) = struct.unpack("<Q", data[:8])
        assert unmask(struct.unpack("<I", data[8:12])[0]) == crc32c(data[:8])
        body, data = data[12 : 12 + length], data[12 + length :]
        assert len(body) == length
        assert unmask(struct.unpack("<I", data[:4])[0]) == crc32c(body)
        yield body
        data = data[4:]


def varint(data: bytes) -> tuple[int, bytes]:
    number = 0
    for i, byte in enumerate(data):
        number |= (byte & 127) << 7 * i
        if byte < 128:
            assert byte or not i, "longer than it must be"
            return number, data[i + 1 :]
    raise AssertionError("a varint without an end")


def fields(message: bytes) -> Iterator[tuple[int, Any]]:
    while message:
        key, message = varint(message)
        match key & 7:
            case 0:
                value, message = varint(message)
                yield key >> 3, value
            case 1:
                yield key >> 3, struct.unpack("<d", message[:8])[0]
                message = message[8:]
            case 2:
                length, message = varint(message)
                assert len(message) >= length
                yield key >> 3, message[:length]
                message = message[length:]
            case 5:
                yield key >> 3, struct.unpack("<f", message[:4])[0]
                message = message[4:]
            case kind:
                raise AssertionError(f"wire type {kind}")


def read(path: Path) -> list[Event]:
    first, *rest = records(path.read_bytes())
    assert list(fields(first)) == [(1, 0.0), (3, b"brain.Event:2")]
    events = []
    for message in rest:
        (one, wall), (two, step), (five, summary) = fields(message)
        assert (one, two, five) == (1, 2, 5)
        scalars: Scalars = {}
        for key, value in fields(summary):
            (tag_key, tag), (number_key, number) = fields(value)
            assert (key, tag_key, number_key) == (1, 1, 2)
            assert tag.decode() not in scalars
            scalars[tag.decode()] = number
        events.append((wall, step, scalars))
    return events


def test_the_reference_checksum_is_castagnolis() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA  # RFC 3720, B.4


# -- write_events -------------------------------------------------------------------------------------------------


def test_every_value_comes_back(tmp_path: Path) -> None:
    path = write_events(tmp_path / "a" / "b", {"one": [0.5, -2.0, math.inf], "zwei/ü": np.array([1, 2, 3])})
    assert path == tmp_path / "a" / "b" / FILE_NAME
    assert path.name == "events.out.tfevents.0.conrl"
    assert [p.name for p in path.parent.iterdir()] == [FILE_NAME]
    assert read(path) == [
        (1.0, 1, {"one": 0.5, "zwei/ü": 1.0}),
        (2.0, 2, {"one": -2.0, "zwei/ü": 2.0}),
        (3.0, 3, {"one": math.inf, "zwei/ü": 3.0}),
    ]


def test_the_first_record_byte_by_byte(tmp_path: Path) -> None:
    """The file version at wall time 0, as TensorFlow writes it: 24 bytes of data."""
    data = write_events(tmp_path, {}).read_bytes()
    assert data[:8] == bytes([24, 0, 0, 0, 0, 0, 0, 0])
    assert data[8:12] == bytes.fromhex("a37f4b22")  # in the first 12 bytes of every event file of TensorFlow's
    assert data[12:-4] == b"\x09" + bytes(8) + b"\x1a\x0dbrain.Event:2"


def test_nan_is_left_out_and_an_event_of_nothing_too(tmp_path: Path) -> None:
    nan = math.nan
    path = write_events(tmp_path, {"a": [1.0, nan, nan, 4.0], "b": [nan, 2.0, nan, 4.5]}, steps=[10, 20, 30, 40])
    assert read(path) == [(10.0, 10, {"a": 1.0}), (20.0, 20, {"b": 2.0}), (40.0, 40, {"a": 4.0, "b": 4.5})]


def test_numbers_of_every_length(tmp_path: Path) -> None:
    steps = [0, 1, 127, 128, 16383, 16384, 2**32, 2**56 - 1, 2**56, 2**63 - 1]
    tag = "t" * 20000  # its length, and that of the summary, take three bytes
    events = read(write_events(tmp_path, {tag: np.arange(10), "": np.full(10, 1e300)}, steps))
    assert [step for _, step, _ in events] == steps
    assert [wall for wall, _, _ in events] == [float(step) for step in steps]
    assert [scalars for *_, scalars in events] == [{tag: float(i), "": math.inf} for i in range(10)]


values = st.floats(width=32, allow_nan=True, allow_infinity=True)
tables = st.integers(0, 12).flatmap(
    lambda K: st.tuples(
        st.dictionaries(st.text(max_size=8), st.lists(values, min_size=K, max_size=K), min_size=1, max_size=4),
        st.lists(st.integers(0, 2**63 - 1), min_size=K, max_size=K),
    )
)


@settings(max_examples=40, deadline=None)
@given(tables)
def test_any_table_comes_back(
    tmp_path_factory: pytest.TempPathFactory, table: tuple[dict[str, list[float]], Any]
) -> None:
    rows, steps = table
    expected = [(step, {t: row[k] for t, row in rows.items() if row[k] == row[k]}) for k, step in enumerate(steps)]
    path = write_events(tmp_path_factory.mktemp("any"), rows, np.array(steps, dtype=np.int64))
    assert [(step, scalars) for _, step, scalars in read(path)] == [(k, found) for k, found in expected if found]


def test_blocks_do_not_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = {"a": np.arange(300.0), "b": np.where(np.arange(300) % 7, 0.25, np.nan)}
    whole = write_events(tmp_path, rows).read_bytes()
    monkeypatch.setattr(tensorboard, "BLOCK", 64)
    assert write_events(tmp_path, rows).read_bytes() == whole
    assert write_events(tmp_path / "elsewhere", rows).read_bytes() == whole  # no clock, no host


@pytest.mark.parametrize("rows", [{}, {"a": []}, {"a": [], "b": np.zeros(0)}, {"a": [math.nan]}])
def test_without_values_there_is_the_version_alone(tmp_path: Path, rows: dict[str, ArrayLike]) -> None:
    assert read(write_events(tmp_path, rows)) == []


@pytest.mark.parametrize(
    ("rows", "steps", "message"),
    [
        ({"a": [1.0, 2.0], "b": [1.0]}, None, "'b' has 1 values, 'a' has 2"),
        ({"a": [], "b": [1.0]}, None, "'b' has 1 values, 'a' has 0"),
        ({"a": [1.0, 2.0]}, [1], "steps has 1 entries, 'a' has 2"),
        ({"a": [1.0]}, [-1], "steps holds -1"),
        ({"a": [1.0]}, [2**63], "steps holds 9223372036854775808"),
        ({"a": [1.0]}, [0.5], "steps has dtype float64"),
        ({"a": [1.0]}, 1, "steps has dtype int64 and shape"),
        ({"a": [[1.0]]}, None, r"'a' has shape \(1, 1\)"),
        ({"a": 1.0}, None, r"'a' has shape \(\)"),
        ({"a": ["x"]}, None, "'a' does not hold numbers"),
        ({"\ud800": [1.0]}, None, "not valid Unicode"),
    ],
)
def test_what_makes_no_sense_is_refused_before_anything_is_written(
    tmp_path: Path, rows: dict[str, ArrayLike], steps: ArrayLike | None, message: str
) -> None:
    with pytest.raises(SpecError, match=message):
        write_events(tmp_path / "new", rows, steps)
    assert not (tmp_path / "new").exists()


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(RunError, match="cannot write in"):
        write_events(tmp_path / "file", {})


# -- export -------------------------------------------------------------------------------------------------------


def record(
    costs: Float | None = None, names: tuple[str, ...] = ("crash",), expected: Float | None = None, **changes: Any
) -> RunRecord:
    """A run of two episodes, with one cost unless others are given."""
    seen = np.column_stack(([1.0, 2.0], np.array([[0.25], [0.5]]) if costs is None else costs))
    d = seen.shape[1] - 1
    given: dict[str, Any] = {
        "environment": "mars-rover",
        "algorithm": "conrl",
        "seed": 0,
        "prices": None,
        "steps": np.array([7, 8]),
    }
    return RunRecord(
        seen=seen,
        expected=expected,
        cost_names=names,
        limits=np.full(d, 0.5),
        floors=np.full(d, -np.inf),
        largest=np.ones(1 + d),
        directory=Path(),
        wanted=2,
        problem=None,
        config={},
        **(given | changes),
    )


def study(*runs: RunRecord) -> Study:
    return Study(Path(), "name", "title", list(runs), [], ["conrl"], {"conrl": "conrl"})


def test_a_run_with_one_cost(tmp_path: Path) -> None:
    run = record(prices=np.array([[0.0], [1.5]]), expected=np.array([[math.nan, math.nan], [3.0, 0.125]]))
    (path,) = export(study(run), tmp_path)
    assert path == tmp_path / "mars-rover" / "conrl" / "seed-000" / FILE_NAME
    seen = {"Metrics/EpRet": 1.0, "Metrics/EpCost": 0.25, "Metrics/EpLen": 7.0, "Metrics/LagrangeMultiplier": 0.0}
    then = {"Metrics/EpRet": 2.0, "Metrics/EpCost": 0.5, "Metrics/EpLen": 8.0, "Metrics/LagrangeMultiplier": 1.5}
    expected = {"Metrics/ExpectedRet": 3.0, "Metrics/ExpectedCost": 0.125}
    assert read(path) == [(1.0, 1, seen), (2.0, 2, then | expected)]


def test_a_run_with_several_costs_and_one_with_none(tmp_path: Path) -> None:
    costs = np.array([[0.25, 1.0], [0.5, 2.0]])
    exact = np.column_stack(([1.5, 2.5], 2 * costs))
    two = record(costs, ("crash", "fuel"), exact, prices=3 * costs)
    none = record(np.zeros((2, 0)), (), prices=np.zeros((2, 0)), seed=1)
    first, second = export(study(two, none), tmp_path)
    assert read(first)[0][2] == {
        "Metrics/EpRet": 1.0,
        "Metrics/EpCost": 1.25,
        "Metrics/EpCost/crash": 0.25,
        "Metrics/EpCost/fuel": 1.0,
        "Metrics/EpLen": 7.0,
        "Metrics/LagrangeMultiplier/crash": 0.75,
        "Metrics/LagrangeMultiplier/fuel": 3.0,
        "Metrics/ExpectedRet": 1.5,
        "Metrics/ExpectedCost": 2.5,
        "Metrics/ExpectedCost/crash": 0.5,
        "Metrics/ExpectedCost/fuel": 2.0,
        "Metrics/StrongViolation/crash": 0.0,
        "Metrics/StrongViolation/fuel": 1.5,
    }
    then = read(first)[1][2]
    assert (then["Metrics/StrongViolation/crash"], then["Metrics/StrongViolation/fuel"]) == (0.5, 5.0)  # sums so far
    assert second.parent.name == "seed-001"
    assert read(second)[0][2] == {"Metrics/EpRet": 1.0, "Metrics/EpCost": 0.0, "Metrics/EpLen": 7.0}


def test_strong_regret_is_against_the_optimum(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Study, "optimum", lambda *_: 3.0)
    (path,) = export(study(record(expected=np.array([[2.0, 0.25], [3.5, 1.0]]))), tmp_path)
    assert [event[2]["Metrics/StrongRegret"] for event in read(path)] == [
        1.0,
        1.0,
    ]  # a better one makes up for nothing
    assert [event[2]["Metrics/StrongViolation"] for event in read(path)] == [0.0, 0.5]


def test_names_stay_below_the_directory(tmp_path: Path) -> None:
    runs = [
        record(environment="../my maps/a b.csv", algorithm="../con rl"),
        record(environment="..", algorithm="..", seed=12),
    ]
    paths = export(study(*runs), tmp_path)
    assert [p.parent.relative_to(tmp_path).as_posix() for p in paths] == [
        "a-b/con-rl/seed-000",
        "unnamed/algorithm/seed-012",
    ]


def test_two_runs_for_one_place_are_refused(tmp_path: Path) -> None:
    runs = [record(environment="one/shop.csv"), record(environment="two/shop.csv")]
    with pytest.raises(SpecError, match=r"one/shop\.csv.*two/shop\.csv.*export them apart"):
        export(study(*runs), tmp_path)
    assert not list(tmp_path.iterdir())
