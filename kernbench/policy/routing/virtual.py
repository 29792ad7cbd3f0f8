"""Virtual addresses: ranges of them, each at one place in the physical map."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise

from kernbench.common.errors import InputError, Problem


@dataclass(frozen=True, slots=True)
class VirtualRange:
    """`[virtual, virtual + nbytes)` stands for `[physical, physical + nbytes)`."""

    virtual: int
    physical: int
    nbytes: int
    name: str = ""  #: what it holds, as errors name it

    @property
    def end(self) -> int:
        """The first virtual address behind it."""
        return self.virtual + self.nbytes

    def __str__(self) -> str:
        text = f"[{self.virtual:#x}, {self.end:#x})"
        return f"{self.name} {text}" if self.name else text


class VirtualMap:
    """Which physical address a virtual one stands for. Several ranges may stand for one place: it is shared.

    Raises InputError for a range that is empty, that begins below 0, or that overlaps another in virtual addresses.
    """

    def __init__(self, ranges: Iterable[VirtualRange] = (), *, name: str = "virtual map") -> None:
        self._name = name
        self._ranges = sorted(ranges, key=lambda item: (item.virtual, item.nbytes))
        self._starts = [item.virtual for item in self._ranges]
        problems = list(self._problems())
        if problems:
            raise InputError(problems)

    def __iter__(self) -> Iterator[VirtualRange]:
        """The ranges, by virtual address."""
        return iter(self._ranges)

    def _problems(self) -> Iterator[Problem]:
        for item in self._ranges:
            for field in ("virtual", "physical"):
                if getattr(item, field) < 0:
                    yield Problem(f"{self._name}: {item}", "it must be at least 0", field, getattr(item, field))
            if item.nbytes < 1:
                yield Problem(f"{self._name}: {item}", "it must be at least 1", "nbytes", item.nbytes)
        for first, second in pairwise(self._ranges):
            if second.virtual < first.end:
                rule = f"it overlaps {first}"
                yield Problem(f"{self._name}: {second}", rule, remedy="give each virtual address one range")

    def translate(self, address: int, nbytes: int = 1) -> int:
        """The physical address of the first of `nbytes` bytes, all of which lie in one range. Else InputError."""
        place = bisect_right(self._starts, address) - 1
        found = self._ranges[place] if place >= 0 else None
        if found is None or address >= found.end:
            raise InputError(Problem(self._name, f"the address {address:#x} is in no range", remedy=self._near(place)))
        if address + nbytes > found.end:
            rule = f"the {nbytes} bytes at {address:#x} pass the end of {found}"
            raise InputError(Problem(self._name, rule, remedy="translate what lies in one range at a time"))
        return found.physical + (address - found.virtual)

    def _near(self, place: int) -> str:
        """The ranges below and above an address that is in none."""
        around = [str(item) for item in self._ranges[max(place, 0) : place + 2]]
        if not around:
            return "it has none"
        return f"the nearest {'are' if len(around) > 1 else 'is'} {' and '.join(around)}"
