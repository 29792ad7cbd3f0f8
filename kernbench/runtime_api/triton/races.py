"""Data races between the programs of a launch: two programs access the same address, at least one of them writes, and nothing
orders the accesses."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations, pairwise

import numpy as np

from kernbench.common.dtypes import Array, dtype_of
from kernbench.common.json_shapes import counted
from kernbench.runtime_api.triton.buffers import Buffers
from kernbench.triton.pointers import LOADS
from kernbench.triton.program import Access, Options


@dataclass(frozen=True)
class Race:
    """Two accesses of different programs to one address."""

    tensor: str
    element: int  #: the first
    address: int  #: its own
    elements: int  #: number of elements for which accesses of these two lines race
    first: str  #: `program 0 (store, kernel.py:12, cycle 400)`
    second: str

    def __str__(self) -> str:
        count = "1 element" if self.elements == 1 else f"{self.elements:,} elements"
        where = f"element {self.element} ({self.address:#x}, {count})"
        return f"race on {self.tensor}, {where}: {self.first} and {self.second}"


def races(accesses: Sequence[Access]) -> list[Race]:
    """The races of a launch, one for each pair of source lines, by tensor and address.

    Atomic ops do not race with each other. Programs with atomic ops on the same address are assumed to be ordered by these ops.
    """
    by_tensor: dict[str, list[Access]] = {}
    for one in accesses:
        by_tensor.setdefault(one.name, []).append(one)
    ordered = _ordered(accesses)
    found: dict[tuple[str, str, str], Race] = {}
    for name, group in by_tensor.items():
        if all(one.kind in LOADS for one in group):
            continue
        for address, elements, numbers in _shared(group):
            seen = set()
            for one, other in combinations([group[number] for number in numbers], 2):
                key = (name, min(one.line, other.line), max(one.line, other.line))
                if key in seen or not _race(one, other) or (one.program, other.program) in ordered:
                    continue
                seen.add(key)
                known = found.get(key)
                if known is None:
                    first = (address - one.window) // one.itemsize
                    found[key] = Race(name, first, address, elements, _shown(one), _shown(other))
                else:
                    found[key] = replace(known, elements=known.elements + elements)
    return list(found.values())


def _shared(group: Sequence[Access]) -> Iterator[tuple[int, int, list[int]]]:
    """Groups of accesses of several programs to the same addresses, with at least one write: the first address, the number of
    elements, and the accesses."""
    if _apart(group):
        return
    addresses = np.concatenate([one.addresses for one in group])
    who = np.repeat(np.arange(len(group)), [one.addresses.size for one in group])
    if not addresses.size:
        return
    order = np.argsort(addresses, kind="stable")
    addresses, who = addresses[order], who[order]
    begins = np.concatenate(([0], np.flatnonzero(np.diff(addresses)) + 1))
    programs = np.array([one.program for one in group])[who]
    writes = np.array([one.kind not in LOADS for one in group])[who]
    several = np.minimum.reduceat(programs, begins) != np.maximum.reduceat(programs, begins)
    chosen = np.flatnonzero(several & np.logical_or.reduceat(writes, begins))
    ends = np.append(begins, addresses.size)
    alike: dict[tuple[int, ...], tuple[int, int]] = {}
    for i in chosen.tolist():
        numbers = tuple(who[ends[i] : ends[i + 1]].tolist())
        first, count = alike.get(numbers, (int(addresses[ends[i]]), 0))
        alike[numbers] = first, count + 1
    for numbers, (first, count) in alike.items():
        yield first, count, list(numbers)


def _apart(group: Sequence[Access]) -> bool:
    """Whether the address ranges of the programs do not overlap; a range extends from the first to the last address of a
    program."""
    ranges: dict[int, tuple[int, int]] = {}
    for one in group:
        if one.addresses.size:
            first, last = int(one.addresses[0]), int(one.addresses[-1])
            low, high = ranges.get(one.program, (first, last))
            ranges[one.program] = min(low, first), max(high, last)
    ordered = sorted(ranges.values())
    return all(before[1] < after[0] for before, after in pairwise(ordered))


def _race(a: Access, b: Access) -> bool:
    reads = a.kind in LOADS and b.kind in LOADS
    return a.program != b.program and not reads and not (a.kind.startswith("atomic") and b.kind.startswith("atomic"))


def _ordered(accesses: Sequence[Access]) -> set[tuple[int, int]]:
    """Pairs of programs with atomic ops on the same address."""
    at: dict[int, set[int]] = {}
    for one in accesses:
        if one.kind.startswith("atomic") and one.addresses.size == 1:
            at.setdefault(int(one.addresses[0]), set()).add(one.program)
    return {(a, b) for programs in at.values() for a in programs for b in programs if a != b}


def _shown(one: Access) -> str:
    return f"program {one.program} ({one.kind}, {one.line}, cycle {one.cycle})"


def left_out_notes(options: Options) -> list[str]:
    """One sentence for each store whose elements depend on masked-out lanes."""
    found = []
    for (lines, line), elements in options.reached.items():
        lanes = counted(sum(options.left_out[one] for one in lines), "lane")
        found.append(
            f"{counted(elements, 'element')} stored at {line} {'depends' if elements == 1 else 'depend'} on lanes that a mask "
            f"leaves out of tl.load at {', '.join(sorted(lines))} ({lanes} without other=): they are "
            f"{'poisoned' if options.poison else '0'}; give it other="
        )
    return found


def twice_notes(options: Options) -> list[str]:
    """One sentence for each store in which several lanes write to the same address."""
    return [
        f"tl.store at {line} to {name}: {counted(lanes, 'lane')} write to an address that another lane of the same store "
        "writes; the last one stays here, on a GPU any may"
        for (line, name), lanes in options.twice.items()
    ]


def nan_of_masks(options: Options, buffers: Buffers, arrays: Mapping[str, Array]) -> list[str]:
    """One sentence for each array that contains NaN after the launch, although the data that the kernel loaded contained
    none."""
    if not options.bare or buffers.had_nan(options.read):
        return []
    found = []
    for name, array in arrays.items():
        if buffers.stretch_of(name) not in options.written:
            continue
        nan = _nan(array)
        if nan.any():
            first = ", ".join(str(int(one)) for one in np.unravel_index(int(np.argmax(nan)), nan.shape))
            where = ", ".join(options.bare)
            found.append(
                f"{name}[{first}] is NaN ({int(np.count_nonzero(nan))} of {array.size}), and nothing that was loaded is: lanes "
                f"that are masked out of tl.load at {where} are NaN; give it other="
            )
    return found


def _nan(array: Array) -> Array:
    return np.isnan(array.astype(np.float32)) if dtype_of(array.dtype).kind == "float" else np.zeros(array.shape, np.bool_)
