"""Results of earlier simulations, by content: equal segments of equal machines take equal cycles.

Sweeps, comparisons and searches for a layout run many jobs with common segments. Each segment is simulated once. The results of
simulations are also kept on disk for other processes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Generic, TypeVar

from kernbench.config.kinds import names_python
from kernbench.config.machine import MachineConfig
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig

T = TypeVar("T")
MAX_MACHINES = 256  #: limit of the machines whose digests are kept

_DIGESTS: OrderedDict[int, tuple[MachineConfig, str]] = OrderedDict()


def digest_of(config: MachineConfig) -> str:
    """The digest of a machine, computed once for each object."""
    key = id(config)
    if key not in _DIGESTS or _DIGESTS[key][0] is not config:
        _DIGESTS[key] = config, config.digest()
        if len(_DIGESTS) > MAX_MACHINES:
            _DIGESTS.popitem(last=False)
    return _DIGESTS[key][1]


class Known(Generic[T]):
    """The latest values by key, at most `most` of them. `found`: how often a value did not have to be made again."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: OrderedDict[Hashable, T] = OrderedDict()
        self.found = 0

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key; it is made if it is missing. Callers must not modify a value."""
        if key in self._values:
            self._values.move_to_end(key)
            self.found += 1
            return self._values[key]
        made = self._values[key] = make()
        if len(self._values) > self._most:
            self._values.popitem(last=False)
        return made

    def clear(self) -> None:
        """Remove all values."""
        self._values.clear()
        self.found = 0

    def __len__(self) -> int:
        return len(self._values)


class Kept(Known[T]):
    """The same as `Known`, but other processes find the values on disk. The `repr` of a key must describe the key completely.

    `kind`: the kind of the values. `form`: their type for msgspec on disk. `packed` and `unpacked` convert a value to this type
    and back.
    """

    def __init__(
        self, most: int, kind: str, form: Any, packed: Callable[[T], Any] = lambda value: value,
        unpacked: Callable[[Any], T] = lambda value: value,
    ) -> None:  # fmt: skip
        super().__init__(most)
        self._kind, self._form, self._packed, self._unpacked = kind, form, packed, unpacked

    def of(self, machine: NpuConfig | SystemConfig, key: Hashable, make: Callable[[], T]) -> T:
        """The value of a key, which `make` computes for this machine. If the machine has Python code of users, the value is not
        kept on disk, because the key does not describe this code."""
        if names_python(machine):
            return self.get(key, make)
        from kernbench.common.kept_results import kept_result  # imported here, because planners of layers do not need SQLite

        return self.get(
            key, lambda: self._unpacked(kept_result(self._kind, key, self._form, lambda: self._packed(make())))
        )
