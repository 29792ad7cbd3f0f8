"""Where everything of a layer lives in DRAM: weight tiles, gains, tables, KV cache, activations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.config.schema import NpuConfig
from kernbench.workloads.models import Matrix


@dataclass(frozen=True, slots=True)
class DramRegion:
    """A named range of DRAM, aligned to the machine's transfers at both ends."""

    name: str
    base: int
    nbytes: int

    @property
    def end(self) -> int:
        """One past its last byte."""
        return self.base + self.nbytes


class DramMap:
    """Hands out regions one after the other from `base` on. InputError where the DRAM is full.

    `step`: regions begin at multiples of it, counted from `base`; the machine's alignment where it is None. `what`: whose
    they are, for the error.
    """

    def __init__(self, config: NpuConfig, base: int = 0, step: int | None = None, what: str = "the layer") -> None:
        self._config = config
        self._what = what
        self._base = self._next = base
        self._step = step or config.dma.alignment_bytes
        self.regions: list[DramRegion] = []

    def allocate(self, name: str, nbytes: int) -> DramRegion:
        """`nbytes` bytes, widened to whole aligned lines."""
        alignment = self._config.dma.alignment_bytes
        start = self._base + ceil_div(self._next - self._base, self._step) * self._step
        region = DramRegion(name, start, ceil_div(nbytes, alignment) * alignment)
        self._next = region.end
        capacity = self._config.dram.capacity_bytes
        if self._next > capacity:
            rule = f"{self._what} needs {self._next} bytes up to {name}"
            remedy = "give the DRAM more capacity"
            raise InputError(Problem(self._config.source, rule, "dram.capacity_bytes", capacity, remedy))
        self.regions.append(region)
        return region


@dataclass(frozen=True, slots=True)
class WeightTile:
    """Some columns of a weight matrix with all their rows: one contiguous transfer, and one product."""

    index: int  #: `tile_id` within the matrix
    cols: int
    bits: int  #: per weight
    elements: int
    nbytes: int
    moved_bytes: int  #: [byte] with alignment: what its transfer moves
    dram_addr: int


class WeightLayout:
    """A weight matrix in DRAM, tile after tile; every tile begins at an aligned address.

    `tile_cols`: columns of a tile; no tile crosses a multiple of `slice_cols` (a head's columns, or all of them).
    `bits`: of a weight by slice, where they are not the matrix's.
    """

    def __init__(
        self,
        matrix: Matrix,
        tile_cols: int,
        slice_cols: int,
        dram: DramMap,
        alignment: int,
        *,
        name: str = "",
        bits: Sequence[int] = (),
    ) -> None:
        self.matrix = matrix
        bits = bits or [matrix.bits] * ceil_div(matrix.cols, slice_cols)
        widths = [
            [min(tile_cols, slice_cols - col) for col in range(0, slice_cols, tile_cols)]
            for _ in range(0, matrix.cols, slice_cols)
        ]
        sizes = [[bytes_of(matrix.rows * cols, own) for cols in columns] for columns, own in zip(widths, bits, strict=True)]
        steps = [[ceil_div(nbytes, alignment) * alignment for nbytes in row] for row in sizes]
        addr = dram.allocate(name or matrix.name, sum(map(sum, steps))).base
        index = 0
        self._slices: list[list[WeightTile]] = []
        for columns, row, step, own in zip(widths, sizes, steps, bits, strict=True):
            self._slices.append([])
            for cols, nbytes, moved in zip(columns, row, step, strict=True):
                self._slices[-1].append(WeightTile(index, cols, own, matrix.rows * cols, nbytes, moved, addr))
                index, addr = index + 1, addr + moved

    def tiles(self, slice_index: int = 0) -> list[WeightTile]:
        """The tiles of one slice, in the order of their columns."""
        return self._slices[slice_index]


@dataclass(frozen=True, slots=True)
class Span:
    """One transfer of an activation: `rows` pieces of `row_elements`, `stride_bytes` apart."""

    dram_addr: int
    rows: int
    row_elements: int
    stride_bytes: int

    @property
    def elements(self) -> int:
        """Elements of all rows."""
        return self.rows * self.row_elements


@dataclass(frozen=True, slots=True)
class ActivationLayout:
    """`tokens` by `cols` activations in DRAM, in groups of `granule` tokens, and inside a group column after column.

    So whole groups are contiguous, and some columns of a few groups are one transfer with a row per group.
    """

    base: int
    tokens: int
    cols: int
    granule: int  #: [token] of a group; the last one may have fewer
    bits: int

    def spans(self, t_start: int, t_len: int, col: int = 0, cols: int | None = None) -> list[Span]:
        """The transfers of columns `[col, col + cols)`, by default all, of tokens that begin and end with groups."""
        cols = self.cols - col if cols is None else cols
        if cols == self.cols:
            return [Span(self._addr(t_start, 0, 0), 1, t_len * cols, bytes_of(t_len * cols, self.bits))]
        whole, rest = divmod(t_len, self.granule)
        stride = bytes_of(self.granule * self.cols, self.bits)
        found = []
        if whole:
            found.append(Span(self._addr(t_start, self.granule, col), whole, self.granule * cols, stride))
        if rest:
            at = self._addr(t_start + whole * self.granule, rest, col)
            found.append(Span(at, 1, rest * cols, bytes_of(rest * cols, self.bits)))
        return found

    def _addr(self, t_start: int, group_tokens: int, col: int) -> int:
        return self.base + bytes_of(t_start * self.cols + group_tokens * col, self.bits)
