"""A composite op of a kernel, written from docs/model/kernels.md: tokens that move from stage to stage.

A stage becomes one or more entries, which the engines of the PE run like the entries of a program.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from .ref_geometry import ceil_div
from .ref_pe import BITS, Pe, Rows, Stage

ROWS = ("sum", "max", "min", "layernorm", "rmsnorm", "softmax")
Held = tuple[int, int]  # (address, bytes) of a tile in the scratchpad


class Op(NamedTuple):
    """A composite op: `gemm` or `math`."""

    kind: str
    shape: tuple[int, ...]  # (m, n, k), or (rows, length)
    operands: tuple[int | Held, ...]  # addresses in memory, or tiles that are in the scratchpad
    dtypes: tuple[str, ...]  # of the operands, then of the result
    out: int  # address of the result
    name: str = ""  # of a math op
    tile: tuple[int, ...] | None = None
    buffers: int = 2
    epilogue: tuple[str | tuple[str, Held], ...] = ()  # names of ops, or with a second operand
    swapped: tuple[bool, ...] = (False, False)  # a gemm's operands that are stored transposed
    channel: str = "act_weight"


class Token:
    """One step of the plan."""

    def __init__(self, tiles: list[Rows], out: Rows | None, size: tuple[int, ...], number: int) -> None:
        self.tiles = tiles
        self.out = out  # for the last step of an output tile
        self.size = size
        self.number = number  # of its output tile
        self.places: list[int] = []  # addresses of its tiles in the scratchpad
        self.result = -1  # address of its output tile there
        self.readers: list[tuple[int, int]] = []  # (ring, filling of the ring) that it reads
        self.fetched = self.computed = False


class Composite:
    """A composite op on a PE, from its issue to its end."""

    def __init__(self, pe: Pe, op: Op) -> None:
        self.pe, self.op = pe, op
        self.tile = op.tile or _tile(op, pe.largest // 2)
        self.tokens = _plan(op, self.tile)
        width = pe.spm.width
        streamed = [isinstance(where, int) for where in op.operands]
        sizes = zip(_sizes(op, self.tile), [*streamed, True], strict=True)
        self.buffers = [ceil_div(nbytes, width) * width if read else 0 for nbytes, read in sizes]  # bytes of each, by ring
        self.nbytes = sum(self.buffers) * op.buffers
        self.block = -1  # its range of the scratchpad
        self.rings: list[list[int]] = []  # addresses of buffers; of an operand in the scratchpad: none
        self.unstarted = list(self.tokens)
        self.waiting = list(self.tokens)  # not yet computing
        self.fillings: list[list[Rows]] = [[] for _ in op.operands]  # of each ring, oldest first
        self.results = 0  # output tiles that have begun to compute
        self.in_use: set[int] = set()  # addresses of output buffers
        self.unwritten = sum(token.out is not None for token in self.tokens)

    def place(self) -> None:
        """Take the range of its buffers, for which there is room."""
        self.block = at = self.pe.allocate(self.nbytes)
        for size in self.buffers:
            self.rings.append([at + size * k for k in range(self.op.buffers)] if size else [])
            at += size * len(self.rings[-1])

    def begin(self, over: Callable[[int], None]) -> None:
        """Its scheduler cycles have passed. `over` is called at its end."""
        self.over = over
        self.start_tokens(self.pe.now)

    def start_tokens(self, cycle: int) -> None:
        """Start tokens in the order of the plan, as far as there are buffers."""
        while self.unstarted and all(self._has_room(ring, tile) for ring, tile in enumerate(self.unstarted[0].tiles)):
            token = self.unstarted.pop(0)
            loads = []
            for ring, tile in enumerate(token.tiles):
                where = self.op.operands[ring]
                if not isinstance(where, int):
                    token.places.append(where[0] + min(tile.offset, where[1] - tile.nbytes))
                    continue
                is_new = not self._is_newest(ring, tile)
                if is_new:
                    self.fillings[ring].append(tile)
                filling = len(self.fillings[ring]) - 1
                token.readers.append((ring, filling))
                token.places.append(self.rings[ring][filling % self.op.buffers])
                if is_new:
                    loads += self.pe.transfers("DMA_LOAD_TILE", where, tile, token.places[-1], self.op.channel)
            fetch = _bind(self._fetch, token)
            if loads:
                self.pe.serve(Stage("DMA_READ", fetch, loads), self.pe.fewest("dma"))
            else:
                fetch(cycle)

    def _is_newest(self, ring: int, tile: Rows) -> bool:
        return bool(self.fillings[ring]) and self.fillings[ring][-1] == tile

    def _has_room(self, ring: int, tile: Rows) -> bool:
        """Whether the tile needs no buffer, or nobody reads the buffer that is filled next."""
        before = len(self.fillings[ring]) - self.op.buffers
        if not self.rings[ring] or self._is_newest(ring, tile) or before < 0:
            return True
        return all(token.computed for token in self.tokens if (ring, before) in token.readers)

    def _fetch(self, token: Token, cycle: int) -> None:
        self.pe.fetch_or_store("FETCH", sum(tile.nbytes for tile in token.tiles), _bind(self._fetched, token))

    def _fetched(self, token: Token, cycle: int) -> None:
        token.fetched = True
        self.compute(cycle)

    def compute(self, cycle: int) -> None:
        """Hand tokens to their engines, in the order of the plan."""
        while self.waiting and self.waiting[0].fetched:
            token = self.waiting[0]
            if token.out is not None:
                token.result = self.rings[-1][self.results % self.op.buffers]
                if token.result in self.in_use:
                    return
                self.results += 1
                self.in_use.add(token.result)
            self.waiting.pop(0)
            kind = "te" if self.op.kind == "gemm" else "ve"
            engine = token.number % self.pe.run.machine[kind]["engines"]
            bits, result = [BITS[dtype] for dtype in self.op.dtypes], token.result if token.out is not None else None
            if kind == "te":
                job = self.pe.product(token.size, bits, *token.places, result)
            else:
                operands = list(zip(token.places, (tile.nbytes for tile in token.tiles), strict=True))
                job = self.pe.vector(self.op.name, token.size, (bits[0], bits[-1]), operands, token.result)
            self.pe.serve(Stage("GEMM" if kind == "te" else "MATH", _bind(self._computed, token), [job]), (kind, engine))

    def _computed(self, token: Token, cycle: int) -> None:
        token.computed = True
        if token.out is not None:
            self._epilogue(token, 0)

    def _epilogue(self, token: Token, number: int) -> None:
        assert token.out is not None
        if number == len(self.op.epilogue):
            self.pe.fetch_or_store("STORE", token.out.nbytes, _bind(self._write, token))
            return
        bits, (m, n, _), nbytes = BITS[self.op.dtypes[-1]], token.size, token.out.nbytes
        step = self.op.epilogue[number]
        name, *second = step if isinstance(step, tuple) else (step,)
        operands = [(token.result, nbytes), *((place, min(own, nbytes)) for place, own in second)]
        job = self.pe.vector(name, (m, n), (bits, bits), operands, token.result)

        def over(cycle: int) -> None:
            self._epilogue(token, number + 1)
            self.start_tokens(cycle)

        self.pe.serve(Stage("MATH", over, [job]), self.pe.fewest("ve"))

    def _write(self, token: Token, cycle: int) -> None:
        assert token.out is not None
        jobs = self.pe.transfers("DMA_STORE_TILE", self.op.out, token.out, token.result, self.op.channel)
        self.pe.serve(Stage("DMA_WRITE", _bind(self._written, token), jobs), self.pe.fewest("dma"))

    def _written(self, token: Token, cycle: int) -> None:
        self.in_use.remove(token.result)
        self.unwritten -= 1
        self.compute(cycle)
        if not self.unwritten:
            self.pe.release(self.block)
            self.over(cycle)


def _bind(method: Callable[[Token, int], None], token: Token) -> Callable[[int], None]:
    """The end of a stage of a token: its next stage begins, and then later tokens start if there are buffers."""
    owner: Composite = method.__self__  # type: ignore[attr-defined]

    def over(cycle: int) -> None:
        method(token, cycle)
        owner.start_tokens(cycle)

    return over


# Plans --------------------------------------------------------------------------------------------------------------


def _block(width: int, bits: int, row: int, rows: int, col: int, cols: int) -> Rows:
    """The bytes of a block of a row-major matrix with rows of `width` elements; if they are contiguous, they are one row."""
    start, row_bytes, stride = (row * width + col) * bits // 8, cols * bits // 8, width * bits // 8
    return Rows(start, 1, rows * row_bytes, 0) if rows == 1 or cols == width else Rows(start, rows, row_bytes, stride)


def _plan(op: Op, tile: tuple[int, ...]) -> list[Token]:
    bits = [BITS[dtype] for dtype in op.dtypes]
    if op.kind == "math":
        rows, length = op.shape
        tokens = []
        for row in range(0, rows, tile[0]):
            for col in range(0, length, tile[1]):
                m, n = min(tile[0], rows - row), min(tile[1], length - col)
                blocks = [_block(length, size, row, m, col, n) for size in bits]
                tokens.append(Token(blocks[:-1], blocks[-1], (m, n), len(tokens)))
        return tokens
    (m, n, k), tokens, number = op.shape, [], -1
    for row in range(0, m, tile[0]):
        for col in range(0, n, tile[1]):
            number += 1
            for at in range(0, k, tile[2]):
                size = min(tile[0], m - row), min(tile[1], n - col), min(tile[2], k - at)
                a, b = (row, size[0], at, size[2]), (at, size[2], col, size[1])
                tiles = [
                    _block(high, of, *block[2:], *block[:2]) if swapped else _block(wide, of, *block)
                    for high, wide, of, block, swapped in zip((m, k), (k, n), bits, (a, b), op.swapped, strict=False)
                ]
                out = _block(n, bits[2], row, size[0], col, size[1]) if at + tile[2] >= k else None
                tokens.append(Token(tiles, out, size, number))
    return tokens


def _sizes(op: Op, tile: tuple[int, ...]) -> list[int]:
    """Bytes of the tiles of the operands and of the output."""
    if op.kind == "math":
        return [tile[0] * tile[1] * BITS[dtype] // 8 for dtype in op.dtypes]
    m, n, k = tile
    return [count * BITS[dtype] // 8 for count, dtype in zip((m * k, k * n, m * n), op.dtypes, strict=True)]


def _tile(op: Op, room: int) -> tuple[int, ...]:
    """The size of tiles that the op itself does not state."""

    def fits(tile: tuple[int, ...]) -> bool:
        read = [True] * len(op.dtypes) if op.kind == "math" else [*(isinstance(where, int) for where in op.operands), True]
        return op.buffers * sum(size for size, counts in zip(_sizes(op, tile), read, strict=True) if counts) <= room

    if op.kind == "math":
        rows, length = op.shape
        x = 16384
        while True:
            tile = (max(1, min(rows, x // length)), length) if op.name in ROWS else (1, min(length, x))
            if fits(tile) or x <= (length if op.name in ROWS else 64):
                return tile
            x //= 2
    m, n, k = op.shape
    e, d = 512, 128
    while not fits((min(m, e), min(n, e), min(k, d))):
        e, d = (e // 2, d) if e > 8 else (e, d // 2)
    return min(m, e), min(n, e), min(k, d)
