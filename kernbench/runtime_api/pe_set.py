"""The PEs and HBM slices of a machine, in order; tensors are placed on them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from math import lcm, prod
from typing import Any, cast

import msgspec

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import aligned_inside
from kernbench.config import MachineConfig, NpuConfig, SystemConfig
from kernbench.config.schema import Te, Ve
from kernbench.policy.placement import Size
from kernbench.policy.routing.resolver import address_map


class Slice(msgspec.Struct, frozen=True):
    """A part of the HBM with its own addresses; on an NPU, the whole DRAM."""

    name: str  #: the name of the slice in errors: `slice 2 of sip0.cube1.hbm_ctrl`
    base: int  #: physical address of the first byte
    nbytes: int

    @property
    def end(self) -> int:
        """The first address after the slice."""
        return self.base + self.nbytes

    def aligned(self, align: int) -> Slice:
        """Without the bytes before the first multiple of `align`, and those after the last one."""
        first, end = aligned_inside(self.base, self.end, align)
        return Slice(self.name, first, end - first)


class PeSet:
    """The PEs by number, ordered by SIP and cube; each PE has its own HBM slice."""

    def __init__(self, config: MachineConfig) -> None:
        self.config = cast("NpuConfig | SystemConfig", config)  # the only kinds
        self.size = Size(*self.config.shape)
        self._map = address_map(self.config)

    @cached_property
    def pes(self) -> tuple[str, ...]:
        """The name of each PE: `sip0.cube1.pe2`, or `pe0`."""
        return self.config.pe_names

    @cached_property
    def slices(self) -> tuple[Slice, ...]:
        """Every HBM slice, cube by cube, by address: the bytes that aligned transfers can reach."""
        align = self.config.pe.dma.alignment_bytes
        return tuple(one.aligned(align) for one in self.whole_slices)

    @property
    def whole_slices(self) -> tuple[Slice, ...]:
        """The slices with all their bytes."""
        config = self.config
        stacks = self._map.hbm
        return tuple(
            Slice(
                config.slice_name(sip, cube, number),
                stacks.address(sip * self.size.cubes + cube, number * config.slice_bytes),
                config.slice_bytes,
            )
            for sip in range(self.size.sips)
            for cube in range(self.size.cubes)
            for number in range(config.slices)
        )

    def slice_of(self, pe: int) -> int:
        """The number of a PE's own slice: the first slice that is attached to the router of the PE; otherwise the slice with
        the number of the PE."""
        cube, inside = divmod(pe, self.size.pes)
        owned = [k for k in range(self.config.slices) if self.config.slice_pe(k) == inside]
        return cube * self.config.slices + (owned[0] if owned else inside % self.config.slices)

    def number(self, sip: int, cube: int, pe: int) -> int:
        """The number of a PE from its SIP, cube and position."""
        return (sip * self.size.cubes + cube) * self.size.pes + pe

    def sip_at(self, physical: int) -> int:
        """The SIP whose HBM has an address."""
        found = next(k for k, one in enumerate(self.slices) if one.base <= physical < one.end)
        return found // (len(self.slices) // self.size.sips)

    @property
    def virtual_base(self) -> int:
        """The first virtual address, which is above every memory; small machines all have the same value."""
        end = max(self.slices[-1].end, self._map.tcm.end)
        return max(1 << 48, 1 << end.bit_length())


class TenantPeSet(PeSet):
    """The part of one tenant (docs/model/tenants.md#kernels): some PEs of each cube, and an equal part of each HBM slice.

    The PEs of the part are numbered as if the cubes had no other PEs.
    """

    def __init__(self, config: MachineConfig, first: int, pes: int, part: int, parts: int) -> None:
        """`first`: the first PE in each cube, of `pes`. `part`: the number of the part of each slice, of `parts`."""
        super().__init__(config)
        self._whole = PeSet(config)
        self._first, self._cube = first, self.size.pes
        self._part, self._parts = part, parts
        self.size = self.size._replace(pes=pes)

    @cached_property
    def pes(self) -> tuple[str, ...]:
        """The name of each PE of the part."""
        inside = range(self._first, self._first + self.size.pes)
        return tuple(name for number, name in enumerate(self.config.pe_names) if number % self._cube in inside)

    @cached_property
    def slices(self) -> tuple[Slice, ...]:
        """The part of every HBM slice, cube by cube, by address."""
        config = self.config
        memory = config.memory
        align = config.pe.dma.alignment_bytes
        line = lcm(memory.channels // config.slices * memory.interleave_bytes, align)
        parts = (part_of_slice(one, line, self._part, self._parts) for one in self._whole.whole_slices)
        return tuple(part.aligned(align) for part in parts)

    def slice_of(self, pe: int) -> int:
        """The number of a PE's own slice."""
        cube, inside = divmod(pe, self.size.pes)
        return self._whole.slice_of(cube * self._cube + self._first + inside)


def part_of_slice(whole: Slice, line: int, part: int, parts: int) -> Slice:
    """An equal part of a slice, a multiple of `line` bytes, so that each byte stays on its channel."""
    size = whole.nbytes // parts // line * line
    return Slice(whole.name, whole.base + part * size, size)


MAX_AXES = 3
Pes = int | Sequence[int | str] | None


def check_call(where: str, kernel: Callable[..., Any], args: Sequence[Any]) -> None:
    """InputError if a kernel cannot be called with these arguments and `tl`; `tl` is the keyword argument of this name or the
    last argument."""
    try:
        signature = inspect.signature(kernel)
        if "tl" in signature.parameters:
            signature.bind(*args, tl=None)
        else:
            signature.bind(*args, None)
    except (TypeError, ValueError) as error:
        name = getattr(kernel, "__name__", "the kernel")
        rule = f"{name} cannot be called with the {len(args)} arguments given and tl: {error}"
        raise InputError(Problem(where, rule, remedy="a kernel takes the launch's arguments in order, then tl")) from None


def grid_of(where: str, grid: int | Sequence[int] | None, pes: int) -> tuple[int, ...]:
    """The sizes of a grid of one to three axes; None means one program for each of the `pes`."""
    sizes = (pes,) if grid is None else tuple(grid) if isinstance(grid, Iterable) else (grid,)
    if not 1 <= len(sizes) <= MAX_AXES or not all(type(size) is int and size >= 1 for size in sizes):
        rule = f"it must be one to {MAX_AXES} integers of at least 1, and it is {sizes}"
        raise InputError(Problem(where, rule, "grid"))
    return sizes


def chosen_pes(where: str, pes: Pes, places: PeSet) -> list[int]:
    """The numbers of the PEs of a launch, in the order of the launch. InputError for a PE that does not exist or is listed
    twice."""
    there = len(places.pes)
    if pes is None:
        return list(range(there))
    if isinstance(pes, int) and not isinstance(pes, bool):
        if not 1 <= pes <= there:
            raise InputError(Problem(where, f"it must be 1 to {there}, the PEs of the machine", "pes", pes))
        return list(range(pes))
    names = {name: number for number, name in enumerate(places.pes)}
    found: list[int] = []
    for one in () if isinstance(pes, bool | str) else pes:
        number = names.get(one, -1) if isinstance(one, str) else one
        if not 0 <= number < there:
            rule = f"the machine has PEs 0 to {there - 1}, called {places.pes[0]} to {places.pes[-1]}"
            raise InputError(Problem(where, rule, "pes", one))
        if number in found:
            raise InputError(Problem(where, f"{places.pes[number]} stands twice", "pes", one, "name each PE once"))
        found.append(number)
    if not found:
        raise InputError(Problem(where, "it must be a number of PEs, or a list of numbers or names", "pes", str(pes)))
    return found


def deal(pes: Sequence[int], grid: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Assign programs to PEs, and yield each PE with its programs: PE `k` of `n` runs the programs `k`, `k + n`, ..."""
    for k, pe in enumerate(pes):
        programs = tuple(range(k, prod(grid), len(pes)))
        if programs:
            yield pe, programs


class MachineFacts(msgspec.Struct, frozen=True):
    """Numbers of the machine."""

    name: str  #: the name of the preset or file
    sips: int
    cubes: int  #: of a SIP
    pes_per_cube: int
    pes: int  #: in all
    scratchpad_bytes: int  #: of one PE
    freq_ghz: Fraction
    slice_bytes_per_cycle: Fraction  #: [B/cycle] bandwidth of the HBM slice of a PE, over all its channels
    te: Te
    ve: Ve

    @classmethod
    def of(cls, places: PeSet) -> MachineFacts:
        """The facts of the machine that has these PEs and slices."""
        config, size = places.config, places.size
        pe = config.pe
        return cls(
            name=config.source,
            sips=size.sips,
            cubes=size.cubes,
            pes_per_cube=size.pes,
            pes=len(places.pes),
            scratchpad_bytes=pe.spm.size_bytes,
            freq_ghz=config.freq_ghz,
            slice_bytes_per_cycle=Fraction(config.memory.channels, config.slices) * config.memory.capacity,
            te=pe.te,
            ve=pe.ve,
        )
