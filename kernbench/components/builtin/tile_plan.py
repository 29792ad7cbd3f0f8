"""The division of a composite op into tiles, and the stages of each tile. Sizes, offsets and addresses are bytes.

A GEMM computes its output tile by tile, row by row, and adds up all of K for one tile before the next. A math op computes its
elements in groups, or in whole rows if the op needs whole rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import msgspec

from kernbench.common.dtypes import dtype_of
from kernbench.common.naming import PE_DMA, PE_FETCH_STORE, PE_GEMM, PE_MATH
from kernbench.common.pe_commands import Stage, StageType
from kernbench.common.units import ceil_div


class Rows(NamedTuple):
    """Bytes of a tensor that move together: `rows` times `row_bytes`, with distance `stride`, from `offset` on."""

    offset: int
    rows: int
    row_bytes: int
    stride: int

    @property
    def nbytes(self) -> int:
        return self.rows * self.row_bytes


class Step(NamedTuple):
    """The stages of one token."""

    place: tuple[int, ...]  #: position in the plan: along M, N and K, or along the elements
    sum: int  #: the output tile to which it belongs
    size: tuple[int, ...]  #: m, n and k, or rows and elements of a row
    operands: tuple[Rows, ...]
    streamed: tuple[Rows, ...]  #: operands that are read from memory
    out: Rows | None  #: address of the result, for the last step of a sum


class Transfer(NamedTuple):
    """A DMA job of a token: `rows` of memory at `addr`, and the location in the scratchpad."""

    addr: int
    rows: Rows
    spm_addr: int


class Piece(NamedTuple):
    """An operand of a token in the scratchpad."""

    addr: int
    nbytes: int


class Whole(NamedTuple):
    """A whole tensor: `addr` in memory or in the scratchpad, and its ring of buffers if it is streamed."""

    addr: int
    nbytes: int
    dtype: str
    ring: int = -1  #: -1: it is in the scratchpad already
    tile_bytes: int = 0  #: of a buffer of the ring

    def piece(self, rows: Rows, place: int) -> Piece:
        """The address of a tile; a tensor that is already in the scratchpad is one piece."""
        if self.ring >= 0:
            return Piece(self.ring + place * self.tile_bytes, rows.nbytes)
        return Piece(self.addr + min(rows.offset, self.nbytes - rows.nbytes), rows.nbytes)


class TilePlan(Protocol):
    """The plan that `Composite` follows."""

    computes: ClassVar[StageType]  #: the stage after which the operands are no longer needed
    part: ClassVar[str]  #: the component that computes

    @property
    def buffers(self) -> int:
        """The number of buffers of each ring."""

    @property
    def streams(self) -> int:
        """The number of operands that are read from memory."""

    def steps(self) -> Iterator[Step]:
        """The steps in their order."""

    def read_stages(self, step: Step, places: Sequence[int], fill: Sequence[bool]) -> list[Stage]:
        """The stages before the computation; `fill`: the buffers that do not contain the tile yet."""

    def compute_stages(self, step: Step, places: Sequence[int], out_place: int) -> list[Stage]:
        """The stages from the computation on; `out_place`: the buffer of the result, for a step that completes one."""


FETCH = Stage(StageType.FETCH, PE_FETCH_STORE)
STORE = Stage(StageType.STORE, PE_FETCH_STORE)


@dataclass(frozen=True, kw_only=True)
class _Tiles:
    """The common base of plans."""

    operands: tuple[Whole, ...]
    out: Whole
    buffers: int
    channel: str  #: the channel of the DMA engine

    @property
    def streams(self) -> int:
        return sum(one.ring >= 0 for one in self.operands)

    def read_stages(self, step: Step, places: Sequence[int], fill: Sequence[bool]) -> list[Stage]:
        streamed = [one for one in self.operands if one.ring >= 0]
        transfers = tuple(
            Transfer(one.addr + rows.offset, rows, one.ring + place * one.tile_bytes)
            for one, rows, place, empty in zip(streamed, step.streamed, places, fill, strict=True)
            if empty
        )
        if not transfers:
            return [FETCH]
        nbytes = sum(one.rows.nbytes for one in transfers)
        read = Stage(StageType.DMA_READ, PE_DMA, {"transfers": transfers, "nbytes": nbytes, "channel": self.channel})
        return [read, FETCH]

    def _pieces(self, step: Step, places: Sequence[int]) -> tuple[Piece, ...]:
        place = iter(places)
        pairs = zip(self.operands, step.operands, strict=True)
        return tuple([one.piece(rows, next(place) if one.ring >= 0 else -1) for one, rows in pairs])

    def _result(self, step: Step, out_place: int) -> Piece:
        assert step.out is not None
        return Piece(self.out.ring + out_place * self.out.tile_bytes, step.out.nbytes)

    def _write(self, step: Step, at: Piece) -> list[Stage]:
        assert step.out is not None
        transfer = Transfer(self.out.addr + step.out.offset, step.out, at.addr)
        write = {"transfers": (transfer,), "nbytes": step.out.nbytes, "channel": self.channel}
        return [STORE, Stage(StageType.DMA_WRITE, PE_DMA, write)]


class Matrix(msgspec.Struct, frozen=True):
    """A row-major matrix, transposed or not."""

    rows: int  #: number of rows after the transpose
    cols: int
    dtype: str
    transposed: bool = False

    def tile(self, row: int, rows: int, col: int, cols: int) -> Rows:
        """The bytes of the elements `[row, row + rows) x [col, col + cols)` after the transpose."""
        if self.transposed:
            return Matrix(self.cols, self.rows, self.dtype).tile(col, cols, row, rows)
        bits = dtype_of(self.dtype).bits
        stride, row_bytes = ceil_div(self.cols * bits, 8), ceil_div(cols * bits, 8)
        start = row * stride + col * bits // 8
        if row_bytes == stride or rows == 1:  # whole rows are one piece
            return Rows(start, 1, rows * row_bytes, rows * row_bytes)
        return Rows(start, rows, row_bytes, stride)


@dataclass(frozen=True, kw_only=True)
class GemmTiles(_Tiles):
    """A GEMM of matrices `a` (m, k) and `b` (k, n) into `c` (m, n), by tiles of `tile` (m, n, k)."""

    computes: ClassVar[StageType] = StageType.GEMM
    part: ClassVar[str] = PE_GEMM
    a: Matrix
    b: Matrix
    c: Matrix
    tile: tuple[int, int, int]
    epilogue: tuple[tuple[str, Whole | None], ...] = ()  #: ops on the result, and their second operands

    def steps(self) -> Iterator[Step]:
        rows, cols, depth = self.tile
        wanted = [one.ring >= 0 for one in self.operands]
        sums = -1
        for i, row in enumerate(range(0, self.a.rows, rows)):
            m = min(rows, self.a.rows - row)
            for j, col in enumerate(range(0, self.b.cols, cols)):
                n = min(cols, self.b.cols - col)
                sums += 1
                for step, at in enumerate(range(0, self.a.cols, depth)):
                    k = min(depth, self.a.cols - at)
                    pair = self.a.tile(row, m, at, k), self.b.tile(at, k, col, n)
                    streamed = tuple([one for one, is_read in zip(pair, wanted, strict=True) if is_read])
                    out = self.c.tile(row, m, col, n) if at + depth >= self.a.cols else None
                    yield Step((i, j, step), sums, (m, n, k), pair, streamed, out)

    def compute_stages(self, step: Step, places: Sequence[int], out_place: int) -> list[Stage]:
        m, n, k = step.size
        product: dict[str, Any] = {"m": m, "n": n, "k": k, "dtype_a": self.a.dtype, "dtype_b": self.b.dtype}
        product["operands"] = self._pieces(step, places)
        if step.out is None:  # the sum stays in the engine
            return [Stage(StageType.GEMM, PE_GEMM, {**product, "out": None})]
        at = self._result(step, out_place)
        stages = [Stage(StageType.GEMM, PE_GEMM, {**product, "out": at})]
        for op, other in self.epilogue:
            work = {"op": op, "rows": m, "length": n, "dtype": self.c.dtype, "out": at}
            more = () if other is None else (Piece(other.addr, min(other.nbytes, at.nbytes)),)
            stages.append(Stage(StageType.MATH, PE_MATH, {**work, "operands": (at, *more)}))
        return stages + self._write(step, at)


@dataclass(frozen=True, kw_only=True)
class MathTiles(_Tiles):
    """A math op over `rows` rows of `length` elements, `tile` (rows, elements of a row) at a time."""

    computes: ClassVar[StageType] = StageType.MATH
    part: ClassVar[str] = PE_MATH
    op: str
    rows: int
    length: int
    tile: tuple[int, int]

    def steps(self) -> Iterator[Step]:
        wanted = [one.ring >= 0 for one in self.operands]
        number = -1
        for row in range(0, self.rows, self.tile[0]):
            rows = min(self.tile[0], self.rows - row)
            for col in range(0, self.length, self.tile[1]):
                cols = min(self.tile[1], self.length - col)
                number += 1
                dtypes = [one.dtype for one in (*self.operands, self.out)]
                *parts, out = [Matrix(self.rows, self.length, dtype).tile(row, rows, col, cols) for dtype in dtypes]
                read = tuple(parts)
                streamed = tuple([one for one, is_read in zip(read, wanted, strict=True) if is_read])
                yield Step((number,), number, (rows, cols), read, streamed, out)

    def compute_stages(self, step: Step, places: Sequence[int], out_place: int) -> list[Stage]:
        rows, length = step.size
        at = self._result(step, out_place)
        work = {"op": self.op, "rows": rows, "length": length, "dtype": (*self.operands, self.out)[0].dtype}
        work |= {"operands": self._pieces(step, places), "out": at}
        return [Stage(StageType.MATH, PE_MATH, work), *self._write(step, at)]


# Sizes of tiles ---------------------------------------------------------------------------------------------------

LARGEST = 512  #: default limits of rows and columns of an output tile
DEPTH = 128  #: default length of K of a step
ELEMENTS = 1 << 14  #: elements of a tile of a math op
SMALLEST = 8
BUFFERS = 2  #: slots of each ring: one is filled while the other is used


def tile_bytes(size: tuple[int, int, int], dtypes: Sequence[str]) -> tuple[int, int, int]:
    """[byte] The sizes of a tile of a, b and the output, for a GEMM tile (m, n, k)."""
    m, n, k = size
    a, b, c = (ceil_div(count * dtype_of(dtype).bits, 8) for count, dtype in zip((m * k, k * n, m * n), dtypes, strict=True))
    return a, b, c


def choose_tile(
    shape: tuple[int, int, int], dtypes: Sequence[str], streamed: Sequence[bool], room: int, buffers: int = BUFFERS
) -> tuple[int, int, int]:
    """The tile (m, n, k) of a GEMM: the largest whose buffers need at most `room` bytes, so that the number of transferred
    bytes is smallest.

    Raises ValueError with the bytes of the smallest tile if even that does not fit.
    """
    m, n, k = shape
    edge, depth = LARGEST, DEPTH
    while True:
        tile = (min(m, edge), min(n, edge), min(k, depth))
        a, b, c = tile_bytes(tile, dtypes)
        needed = buffers * (a * streamed[0] + b * streamed[1] + c)
        if needed <= room:
            return tile
        if edge == SMALLEST and depth == SMALLEST:
            raise ValueError(f"tiles of {tile[0]}x{tile[1]}x{tile[2]} in {buffers} buffers each take {needed} bytes")
        edge, depth = (edge // 2, depth) if edge > SMALLEST else (edge, depth // 2)
