"""Compiled kernels on disk: numba's cache, where a damaged file is never used and never stops a program.

A power cut leaves files that are empty, cut short or full of zeros, and a disk may be full. So the SHA-256 of each file
stands in another beside it, and is compared before numba reads the first, and each compiled function carries the key
that it was saved under: two processes that begin together may both take the same number for a file. What cannot be read
is compiled again and written anew; what cannot be written is not.
"""

import hashlib
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile

from conrl.kernels.linking import export


class SealedFiles(IndexDataCacheFile):
    """The index and the data files of one function; what is not as it was written counts as not there."""

    function: Any

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (key, data))
        self._export(data)

    def load(self, key: Any) -> Any:
        name = self._load_index().get(key)
        if name is None:
            return None
        self._check(self._data_path(name))
        saved, data = self._load_data(name)
        if saved != key:
            return None
        self._export(data)
        return data

    def _export(self, data: Any) -> None:
        """The same code for programs that run it without numba."""
        with suppress(Exception):  # of any kind: they load numba then
            if made := export(self.function, data):
                made[0].parent.mkdir(parents=True, exist_ok=True)
                with self._open_for_write(str(made[0])) as file:
                    file.write(made[1])

    def _load_index(self) -> dict[Any, str]:
        try:
            self._check(self._index_path)
            names: dict[Any, str] = super()._load_index()
        except Exception:  # of any kind: it is written anew when something is saved
            return {}
        return names

    def _save_index(self, names: dict[Any, str]) -> None:
        super()._save_index(names)
        self._seal(self._index_path)

    def _save_data(self, name: str, data: Any) -> None:
        super()._save_data(name, data)
        self._seal(self._data_path(name))

    def _seal(self, path: str) -> None:
        with self._open_for_write(f"{path}.sha256") as file:
            file.write(_digest(path))

    def _check(self, path: str) -> None:
        if Path(f"{path}.sha256").read_bytes() != _digest(path):
            raise ValueError(f"{path} is damaged")


@cache
def sources() -> str:
    """What tells these kernels from those of any other version: one calls another, whose code is in its own."""
    files = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(hashlib.sha256(file.read_bytes()).digest() for file in files)).hexdigest()


def _digest(path: str) -> bytes:
    return hashlib.sha256(Path(path).read_bytes()).digest()


class HealingCache(FunctionCache):
    """Any failure to read means: compile; any failure to write means: compile again next time."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        name = f"{self._impl.filename_base}.sealed"  # apart from what numba itself would read
        stamp = self._impl.locator.get_source_stamp(), sources()
        self._cache_file = SealedFiles(self._cache_path, name, stamp)
        self._cache_file.function = function

    def load_overload(self, signature: Any, target: Any) -> Any:
        try:
            return super().load_overload(signature, target)
        except Exception:
            return None

    def save_overload(self, signature: Any, result: Any) -> None:
        with suppress(Exception):
            super().save_overload(signature, result)

    def _index_key(self, signature: Any, codegen: Any) -> tuple[Any, ...]:
        """Code with and without bounds checks is not the same code; numba's own key does not tell them apart."""
        config: Any = numba.config
        return *super()._index_key(signature, codegen), bool(config.BOUNDSCHECK)
