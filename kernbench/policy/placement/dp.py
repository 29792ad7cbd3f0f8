"""Data-parallel placement: a tensor is split over SIPs, each piece over the cubes of a SIP, and each of those over PEs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import isqrt, prod
from typing import Literal, NamedTuple, get_args

from kernbench.common.errors import InputError, Problem

Distribution = Literal["replicate", "row_wise", "column_wise", "tiled"]
Range = tuple[int, int]  #: first index, and number of indices, along an axis


class Size(NamedTuple):
    """The number of SIPs, of cubes in a SIP, and of PEs in a cube."""

    sips: int
    cubes: int
    pes: int


@dataclass(frozen=True, slots=True)
class Shard:
    """The piece of a tensor on one PE: the block of `shape` at `offset`. The shard is empty if there are more PEs than
    indices."""

    sip: int
    cube: int  #: in the SIP
    pe: int  #: in the cube
    offset: tuple[int, ...]  #: [element] along each axis
    shape: tuple[int, ...]  #: [element] along each axis

    @property
    def elements(self) -> int:
        """The number of elements on the PE."""
        return prod(self.shape)

    @property
    def index(self) -> tuple[slice, ...]:
        """The index that selects the shard from an array of the whole tensor."""
        return tuple(slice(at, at + length) for at, length in zip(self.offset, self.shape, strict=True))


@dataclass(frozen=True, slots=True)
class DPPolicy:
    """The placement of a tensor on the PEs of a system, level by level.

    `sip`, `cube`, `pe`: `replicate` gives the whole tensor to every unit of the level. `row_wise` splits the first axis,
    `column_wise` the last axis, and `tiled` splits both, over a grid that is as square as possible and has no more rows than
    columns. If `L` indices are split over `n` units, each of the first `L % n` units gets one index more. `sips`, `cubes`,
    `pes`: use only this number of units of the level, from the first on; None means all.

    InputError for an unknown word, and for a number below 1.

    >>> import kernbench as kb
    >>> kb.DPPolicy(cube="row_wise", pes=1).pe
    'replicate'
    """

    sip: Distribution = "replicate"
    cube: Distribution = "replicate"
    pe: Distribution = "replicate"
    sips: int | None = None
    cubes: int | None = None  #: of each SIP
    pes: int | None = None  #: of each cube

    def __post_init__(self) -> None:
        allowed = get_args(Distribution)
        problems = [
            Problem("DPPolicy", f"it must be one of {', '.join(allowed)}", level, getattr(self, level))
            for level in ("sip", "cube", "pe")
            if getattr(self, level) not in allowed
        ]
        problems += [
            Problem("DPPolicy", "it must be an integer of at least 1, or None for all", level, count)
            for level in Size._fields
            if (count := getattr(self, level)) is not None and (type(count) is not int or count < 1)
        ]
        if problems:
            raise InputError(problems)

    def shards(self, shape: tuple[int, ...], size: Size) -> tuple[Shard, ...]:
        """The shard of each participating PE, ordered by SIP, cube and PE.

        InputError if a level has too few units, and if the tensor does not have an axis to split.
        """
        counts = self._counts(size)
        self._check_axes(shape, counts)
        whole = tuple((0, length) for length in shape)
        return tuple(
            Shard(sip, cube, pe, tuple(at for at, _ in part), tuple(length for _, length in part))
            for sip, of_sip in enumerate(_cut(whole, self.sip, counts.sips))
            for cube, of_cube in enumerate(_cut(of_sip, self.cube, counts.cubes))
            for pe, part in enumerate(_cut(of_cube, self.pe, counts.pes))
        )

    def _counts(self, size: Size) -> Size:
        """The number of participating units of each level."""
        problems = [
            Problem("DPPolicy", f"the machine has {there}", level, wanted, "use fewer, or leave it out for all")
            for level, there in zip(Size._fields, size, strict=True)
            if (wanted := getattr(self, level)) is not None and wanted > there
        ]
        if problems:
            raise InputError(problems)
        return Size(*(getattr(self, level) or there for level, there in zip(Size._fields, size, strict=True)))

    def _check_axes(self, shape: tuple[int, ...], counts: Size) -> None:
        for level, count in zip(("sip", "cube", "pe"), counts, strict=True):
            needed = {"replicate": 0, "tiled": 2}.get(getattr(self, level), 1)
            if count > 1 and len(shape) < needed:
                rule = f"a tensor of shape {shape} has {len(shape)} axes, and this way cuts {needed}"
                remedy = "use row_wise or replicate" if shape else "take replicate"
                raise InputError(Problem("DPPolicy", rule, level, getattr(self, level), remedy))


def _cut(whole: tuple[Range, ...], distribution: Distribution, count: int) -> Iterator[tuple[Range, ...]]:
    """The parts of a block for `count` units, in order."""
    rows = {"replicate": 1, "row_wise": count, "column_wise": 1, "tiled": _grid_rows(count)}[distribution]
    columns = 1 if distribution in ("replicate", "row_wise") else count // rows
    for unit in range(count):
        row, column = (0, 0) if distribution == "replicate" else divmod(unit, columns)
        part = list(whole)
        if rows > 1:
            part[0] = _piece(part[0], row, rows)
        if columns > 1:
            part[-1] = _piece(part[-1], column, columns)
        yield tuple(part)


def _grid_rows(count: int) -> int:
    """The number of rows of the most nearly square grid of `count` units."""
    return next(rows for rows in range(isqrt(count), 0, -1) if count % rows == 0)


def _piece(whole: Range, number: int, count: int) -> Range:
    """One of `count` nearly equal parts of a range; the longer parts come first."""
    start, length = whole
    least, longer = divmod(length, count)
    return start + number * least + min(number, longer), least + (number < longer)
