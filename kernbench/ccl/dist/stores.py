"""Stores of keys and values, which the workers share without simulated time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from kernbench.ccl.dist.workers import ask, joined, this_worker
from kernbench.ccl.dist.world import Until

TIMEOUT = timedelta(minutes=30)


def _bytes(value: Any) -> bytes:
    return value if isinstance(value, bytes) else str(value).encode()


class Store:
    """Keys with values of bytes, as `torch.distributed.Store`. Stores of the same kind and place have the same keys."""

    def __init__(self, *place: str) -> None:
        self._table = this_worker().world.stores.setdefault(place, {}) if place else {}
        self._timeout = TIMEOUT

    def set(self, key: str, value: Any) -> None:
        """Set the value of a key."""
        self._table[key] = _bytes(value)

    def get(self, key: str) -> bytes:
        """Wait until the key has a value, and return the value."""
        self.wait([key])
        return self._table[key]

    def wait(self, keys: Sequence[str], timeout: Any = None) -> None:
        """Wait until all these keys have values. If this cannot happen, the run ends with an error."""
        missing = next((key for key in keys if key not in self._table), None)
        if missing is not None:
            ask(Until(lambda: all(key in self._table for key in keys), f"waits for the key {missing} of a store"))

    def check(self, keys: Sequence[str]) -> bool:
        """Return whether all these keys have values."""
        return all(key in self._table for key in keys)

    def add(self, key: str, amount: int) -> int:
        """Add to the number of a key, which is 0 at first, and return the sum."""
        found = int(self._table.get(key, b"0")) + amount
        self._table[key] = str(found).encode()
        return found

    def append(self, key: str, value: Any) -> None:
        """Append to the value of a key."""
        self._table[key] = self._table.get(key, b"") + _bytes(value)

    def compare_set(self, key: str, expected_value: Any, desired_value: Any) -> bytes:
        """Set the value of a key if its current value, or that of a missing key, the empty text, is the expected one.

        Returns the current value afterwards; for a missing key with another expected value, the expected value.
        """
        expected = _bytes(expected_value)
        if self._table.get(key, b"") == expected:
            self._table[key] = _bytes(desired_value)
        return self._table.get(key, expected)

    def delete_key(self, key: str) -> bool:
        """Remove a key, and return whether it had a value."""
        return self._table.pop(key, None) is not None

    def num_keys(self) -> int:
        """Return the number of keys."""
        return len(self._table)

    def multi_get(self, keys: Sequence[str]) -> list[bytes]:
        """Return the values of several keys, as `get`."""
        return [self.get(key) for key in keys]

    def multi_set(self, keys: Sequence[str], values: Sequence[Any]) -> None:
        """Set the values of several keys."""
        for key, value in zip(keys, values, strict=True):
            self.set(key, value)

    def has_extended_api(self) -> bool:
        """Return True, because `append`, `multi_get` and `multi_set` exist."""
        return True

    @property
    def timeout(self) -> timedelta:
        """The time limit, which is only kept."""
        return self._timeout

    def set_timeout(self, timeout: timedelta) -> None:
        """Keep a time limit. Workers take no simulated time, so no limit is reached."""
        self._timeout = timeout


class HashStore(Store):
    """A store of one worker."""


class TCPStore(Store):
    """A store that all workers share which name the same host and port."""

    def __init__(self, host_name: str, port: int = 29500, *ignored: Any, **more: Any) -> None:
        super().__init__("tcp", host_name, str(port))
        self.host, self.port = host_name, port


class FileStore(Store):
    """A store that all workers share which name the same file. The file is not written."""

    def __init__(self, file_name: str, world_size: int = -1) -> None:
        super().__init__("file", str(file_name))
        self.path = str(file_name)


class PrefixStore(Store):
    """A store inside another one, with a prefix before its keys."""

    def __init__(self, prefix: str, store: Store) -> None:
        super().__init__()
        self._table, self._prefix, self.underlying_store = _Prefixed(store._table, f"{prefix}/"), prefix, store


class _Prefixed(dict[str, bytes]):
    """The keys of a table that begin with a prefix."""

    def __init__(self, table: dict[str, bytes], prefix: str) -> None:
        self._under, self._prefix = table, prefix

    def __getitem__(self, key: str) -> bytes:
        return self._under[self._prefix + key]

    def __setitem__(self, key: str, value: bytes) -> None:
        self._under[self._prefix + key] = value

    def __contains__(self, key: object) -> bool:
        return f"{self._prefix}{key}" in self._under

    def __len__(self) -> int:
        return len(self._under)  # as torch, which counts the keys of the store below

    def get(self, key: str, default: Any = None) -> Any:
        return self._under.get(self._prefix + key, default)

    def pop(self, key: str, *default: Any) -> Any:
        return self._under.pop(self._prefix + key, *default)


def _get_default_store() -> Store:
    """Return the store that all workers share."""
    joined("_get_default_store")
    return Store("default")
