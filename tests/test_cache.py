"""Compiled kernels on disk: whatever happens to the files, the answer is right and the cache heals."""

from __future__ import annotations

import errno
import os
import pickle
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numba
import numpy as np
import pytest
from commands import refused
from launch import launch
from numba.core.caching import IndexDataCacheFile

import conrl
from conrl import kernels
from conrl.kernels import compiling
from conrl.kernels.cache import HealingCache


def twice(x: Any) -> Any:
    return x + x


def fresh(function: Callable[..., Any] = twice) -> Any:
    """As another process would see the function: nothing compiled yet, the same files."""
    return compiling.compiled(function)


@pytest.fixture(autouse=True)
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path / "cache"))
    monkeypatch.setenv("NUMBA_CACHE_DIR", str(tmp_path / "cache"))  # numba may read its settings again
    return tmp_path / "cache"


@pytest.fixture
def files(place: Path) -> list[Path]:
    """The index and the data of `twice` for a whole number."""
    assert fresh()(3) == 6
    made = sorted(place.rglob("*.nb?"))
    assert [path.suffix for path in made] == [".nbc", ".nbi"]
    return made


def hits(dispatcher: Any) -> int:
    return sum(dispatcher.stats.cache_hits.values())


def assert_heals(place: Path) -> None:
    """What is damaged is compiled again, and written so that the next one finds it."""
    first = fresh()
    assert first(3) == 6
    assert hits(first) == 0
    second = fresh()
    assert second(3) == 6
    assert hits(second) == 1
    assert not list(place.rglob("*.tmp*"))


def test_what_was_compiled_is_found_again(files: list[Path]) -> None:
    again = fresh()
    assert again(3) == 6
    assert hits(again) == 1


def seals(files: list[Path]) -> list[Path]:
    return [path.with_name(f"{path.name}.sha256") for path in files]


def zeros_inside(content: bytes) -> bytes:
    """Blocks that never reached the disk: the pickle around them may still be read."""
    third = len(content) // 3
    return content[:third] + bytes(third) + content[2 * third :]


DAMAGE: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda content: b"",
    "cut": lambda content: content[: len(content) // 2],
    "last byte": lambda content: content[:-1],
    "noise": lambda content: np.random.default_rng(0).bytes(len(content)),
    "zeros": lambda content: bytes(len(content)),
    "zeros inside": zeros_inside,
    "one bit": lambda content: content[:-20] + bytes([content[-20] ^ 1]) + content[-19:],
    "another file": lambda content: pickle.dumps({"not": "ours"}),
}


@pytest.mark.parametrize(
    "suffixes", [(".nbi",), (".nbc",), (".nbi", ".nbc"), (".nbi.sha256",), (".nbc.sha256",)], ids="+".join
)
@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_written_anew(
    files: list[Path], place: Path, suffixes: tuple[str, ...], damage: Callable[[bytes], bytes]
) -> None:
    for path in [*files, *seals(files)]:
        if path.name.endswith(suffixes):
            path.write_bytes(damage(path.read_bytes()))
    assert_heals(place)


@pytest.mark.parametrize("suffix", [".nbi", ".nbc", ".nbi.sha256", ".nbc.sha256"])
def test_a_file_that_is_gone_is_written_anew(files: list[Path], place: Path, suffix: str) -> None:
    next(path for path in [*files, *seals(files)] if path.name.endswith(suffix)).unlink()
    assert_heals(place)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_a_file_that_may_not_be_read_is_written_anew(files: list[Path], place: Path, suffix: str) -> None:
    next(path for path in files if path.suffix == suffix).chmod(0)
    assert_heals(place)


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_what_cannot_be_rewritten_does_no_harm(files: list[Path], suffix: str) -> None:
    """A directory stands where the file should: it can be neither read nor replaced."""
    path = next(path for path in files if path.suffix == suffix)
    path.unlink()
    path.mkdir()
    (path / "something").touch()
    for _ in range(2):
        assert fresh()(3) == 6


def test_a_full_disk_does_no_harm(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: Any) -> Iterator[Any]:
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(IndexDataCacheFile, "_open_for_write", full)
        assert fresh()(3) == 6
    assert not list(place.rglob("*.nb?"))
    assert_heals(place)


def test_a_data_file_of_another_signature_is_not_run(files: list[Path]) -> None:
    """Two processes that begin together may take the same number: the index of one then names the code of the other."""
    other = fresh()
    assert other(1.5) == 3.0
    one, two = sorted(path for path in files[0].parent.glob("*.nbc"))
    two.write_bytes(one.read_bytes())
    seals([two])[0].write_bytes(seals([one])[0].read_bytes())
    again = fresh()
    assert again(1.5) == 3.0
    assert hits(again) == 0
    assert again(3) == 6
    assert hits(again) == 1


def test_code_with_bounds_checks_is_kept_apart(files: list[Path], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(numba.config, "BOUNDSCHECK", 1)
    checked = fresh()
    assert checked(3) == 6
    assert hits(checked) == 0


def test_a_command_heals_the_cache(place: Path, tmp_path: Path) -> None:
    """As a power cut leaves it: all files of all kernels are there, and empty."""
    every = [getattr(kernels, name) for name in kernels.__all__]
    cached = [kernel for kernel in every if isinstance(getattr(kernel, "_cache", None), HealingCache)]
    empty = [Path(HealingCache(kernel.py_func)._cache_file._index_path) for kernel in cached]
    for path in empty:
        path.touch()
    model = tmp_path / "model.csv"
    model.write_text("state,action,next_state,probability,reward,cost_fuel\nA,stay,A,1,2,1\n")
    command = [
        sys.executable,
        "-c",
        "from conrl.cli.main import main; main()",
        "plan",
        str(model),
        "--horizon",
        "1",
        "--json",
    ]
    env = os.environ | {"NUMBA_CACHE_DIR": str(place)}
    done = launch(command, env=env)
    assert (done.returncode, done.stderr) == (0, "")
    assert any(path.stat().st_size for path in empty)


def test_the_end_of_a_file_is_no_interruption(monkeypatch: pytest.MonkeyPatch) -> None:
    def ends(*_: Any, **__: Any) -> None:
        raise EOFError("Ran out of input")

    monkeypatch.setattr("conrl.envs.naming.model", ends)
    assert refused("plan", "mars-rover") == "what was being read ended too soon: Ran out of input"


@pytest.mark.parametrize(
    ("name", "value", "why"),
    [
        ("NUMBA_NUM_THREADS", "two", "NUMBA_NUM_THREADS is 'two'"),
        ("NUMBA_NUM_THREADS", "0", "NUMBA_NUM_THREADS is '0'"),
        ("NUMBA_NUM_THREADS", "1.5", "NUMBA_NUM_THREADS is '1.5'"),
        ("NUMBA_DISABLE_JIT", "1", "NUMBA_DISABLE_JIT is set"),
    ],
)
def test_settings_of_numba_that_make_no_sense_are_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, why: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(conrl.SpecError, match=why):
        compiling.check_settings()


def test_no_place_for_kernels_is_told_once(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from conrl.cli import command
    from conrl.kernels import cache, compiling

    def nowhere(function: Any) -> None:
        raise RuntimeError("no locator available")

    monkeypatch.setattr(cache, "HealingCache", nowhere)
    monkeypatch.setattr(compiling, "UNKEPT", [])
    compiling._compiled(lambda x: x)
    assert capsys.readouterr().err == ""  # of a library
    command._tell_of_compiling()
    compiling._compiled(lambda x: x)
    compiling._compiled(lambda x: x + 1)
    assert capsys.readouterr().err == f"Warning: {command.NOT_KEPT}\n"
