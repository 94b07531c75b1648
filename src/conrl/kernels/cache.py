"""Compiled kernels on disk: numba's cache, in which no file is believed unread and none can stop a program.

A power cut leaves files that are empty, cut short or full of zeros, and a disk may be full. So each file begins with
the SHA-256 of the rest, which is looked at before anything is unpickled or run, and each compiled function carries the
key that it was saved under: two processes that begin together may both take the same number for a file. What cannot be
read is compiled again and written anew; what cannot be written is not.
"""

import hashlib
import pickle
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numba
from numba.core.caching import FunctionCache, IndexDataCacheFile

SEAL = hashlib.sha256().digest_size


class SealedFiles(IndexDataCacheFile):
    """The index and the data files of one function."""

    def save(self, key: Any, data: Any) -> None:
        super().save(key, (key, data))

    def load(self, key: Any) -> Any:
        name = self._load_index().get(key)
        if name is None:
            return None
        saved, data = self._load_data(name)
        return data if saved == key else None

    def _load_index(self) -> dict[Any, str]:
        try:
            version, stamp, names = self._read(self._index_path)
        except Exception:  # of any kind: it is written anew when something is saved
            return {}
        return names if (version, stamp) == (self._version, self._source_stamp) else {}

    def _save_index(self, names: dict[Any, str]) -> None:
        self._write(self._index_path, (self._version, self._source_stamp, names))

    def _load_data(self, name: str) -> Any:
        return self._read(self._data_path(name))

    def _save_data(self, name: str, data: Any) -> None:
        self._write(self._data_path(name), data)

    def _read(self, path: str) -> Any:
        content = Path(path).read_bytes()
        if hashlib.sha256(content[SEAL:]).digest() != content[:SEAL]:
            raise ValueError(f"{path} is damaged")
        return pickle.loads(content[SEAL:])

    def _write(self, path: str, value: Any) -> None:
        content = self._dump(value)
        with self._open_for_write(path) as file:
            file.write(hashlib.sha256(content).digest() + content)


class HealingCache(FunctionCache):
    """Any failure to read means: compile; any failure to write means: compile again next time."""

    def __init__(self, function: Callable[..., Any]) -> None:
        super().__init__(function)
        name = f"{self._impl.filename_base}.sealed"  # apart from what numba itself would read
        self._cache_file = SealedFiles(self._cache_path, name, self._impl.locator.get_source_stamp())

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
