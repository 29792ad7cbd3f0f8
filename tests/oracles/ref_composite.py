"""A kernel of loads and composite ops on one NPU, written from docs/model/kernels.md: tokens that move from stage to stage.

The engines, banks and shares are those of `reference.py`. A stage becomes one or more entries, which the engines run like the
entries of a program. Handles are never freed, so that tiles are one after the other in the scratchpad.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from .ref_control import Record
from .ref_geometry import aligned_rows, ceil_div
from .reference import Simulation

BITS = {"f32": 32, "f16": 16, "i8": 8}
PLACES = 80  # jobs of a PE in its engines at a time
ROWS = ("sum", "max", "min", "layernorm", "rmsnorm", "softmax")


class Op(NamedTuple):
    """What a kernel does: `load`, `gemm`, `math` or `wait`."""

    kind: str
    shape: tuple[int, ...] = ()  # (m, n, k), or the shape of a load or math op
    operands: tuple[int, ...] = ()  # addresses; of a load one; -1 - i: the tile of load i
    dtypes: tuple[str, ...] = ()  # of the operands, then of the result
    out: int = 0  # address of the result
    name: str = ""  # of a math op
    tile: tuple[int, ...] | None = None
    buffers: int = 2
    epilogue: tuple[str, ...] = ()
    of: int = 0  # the op that a `wait` waits for


class Rows(NamedTuple):
    """The bytes of a tile in its tensor."""

    offset: int
    rows: int
    row_bytes: int
    stride: int

    @property
    def nbytes(self) -> int:
        return self.rows * self.row_bytes


class Stage:
    """Its name and times, as in the op log; `start` is that of its first job."""

    def __init__(self, name: str, over: Callable[[int], None], jobs: Sequence[dict[str, Any]]) -> None:
        self.name = name
        self.over = over
        self.records = [Record(0, {**job, "id": 0}) for job in jobs]


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
    """A composite op in flight."""

    def __init__(self, run: CompositeSimulation, op: Op) -> None:
        self.run, self.op = run, op
        self.tile = op.tile or _tile(op, run.room)
        self.tokens = _plan(op, self.tile)
        sizes = [ceil_div(nbytes, run.spm.width) * run.spm.width for nbytes in _sizes(op, self.tile)]
        streamed = [where >= 0 for where in op.operands]
        needed = [size * op.buffers for size, read in zip(sizes, [*streamed, True], strict=True) if read]
        self.block = at = run.allocate(sum(needed))
        self.rings: list[list[int]] = []  # addresses of buffers; of an operand in the scratchpad: none
        for size, read in zip(sizes, [*streamed, True], strict=True):
            self.rings.append([at + size * k for k in range(op.buffers)] if read else [])
            at += size * len(self.rings[-1])
        self.unstarted = list(self.tokens)
        self.waiting = list(self.tokens)  # not yet computing
        self.fillings: list[list[Rows]] = [[] for _ in op.operands]  # of each ring, oldest first
        self.results = 0  # output tiles that have begun to compute
        self.in_use: set[int] = set()  # addresses of output buffers
        self.unwritten = sum(token.out is not None for token in self.tokens)
        self.end: int | None = None
        self.start_tokens(run.cycle)

    def start_tokens(self, cycle: int) -> None:
        """Start tokens in the order of the plan, as far as there are buffers."""
        while self.unstarted and all(self._has_room(ring, tile) for ring, tile in enumerate(self.unstarted[0].tiles)):
            token = self.unstarted.pop(0)
            loads = []
            for ring, tile in enumerate(token.tiles):
                if not self.rings[ring]:
                    held = self.run.tiles[-1 - self.op.operands[ring]]
                    token.places.append(held[0] + min(tile.offset, held[1] - tile.nbytes))
                    continue
                is_new = not self._is_newest(ring, tile)
                if is_new:
                    self.fillings[ring].append(tile)
                filling = len(self.fillings[ring]) - 1
                token.readers.append((ring, filling))
                token.places.append(self.rings[ring][filling % self.op.buffers])
                if is_new:
                    loads.append(self.run.transfer("DMA_LOAD_TILE", self.op.operands[ring], tile, token.places[-1]))
            fetch = _bind(self._fetch, token)
            if loads:
                self.run.serve(Stage("DMA_READ", fetch, loads), self.run.fewest("dma"))
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
        self.run.pass_on("FETCH", _bind(self._fetched, token), cycle)

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
            engine = token.number % self.run.machine[kind]["engines"]
            job = self._product(token) if kind == "te" else self._elementwise(token)
            self.run.serve(Stage("GEMM" if kind == "te" else "MATH", _bind(self._computed, token), [job]), (kind, engine))

    def _product(self, token: Token) -> dict[str, Any]:
        (m, n, k), (a, b, c) = token.size, (BITS[dtype] for dtype in self.op.dtypes)
        job = {"opcode": "TE_GEMM_TILE", "m": m, "n": n, "k": k, "qbits_weight": b, "qbits_activation": a, "qbits_result": c}
        job |= self.run.at("ifm", token.places[0]) | self.run.at("wgt", token.places[1])
        return job | ({"partial": True} if token.out is None else self.run.at("ofm", token.result))

    def _elementwise(self, token: Token) -> dict[str, Any]:
        return self.run.vector(self.op.name, token.size, self.op.dtypes[0], self.op.dtypes[-1], token.places, token.result)

    def _computed(self, token: Token, cycle: int) -> None:
        token.computed = True
        if token.out is not None:
            self._epilogue(token, 0, cycle)

    def _epilogue(self, token: Token, number: int, cycle: int) -> None:
        if number == len(self.op.epilogue):
            self.run.pass_on("STORE", _bind(self._write, token), cycle)
            return
        (m, n, _), dtype = token.size, self.op.dtypes[-1]
        job = self.run.vector(self.op.epilogue[number], (m, n), dtype, dtype, [token.result], token.result)

        def over(cycle: int) -> None:
            self._epilogue(token, number + 1, cycle)
            self.start_tokens(cycle)

        self.run.serve(Stage("MATH", over, [job]), self.run.fewest("ve"))

    def _write(self, token: Token, cycle: int) -> None:
        assert token.out is not None
        job = self.run.transfer("DMA_STORE_TILE", self.op.out, token.out, token.result)
        self.run.serve(Stage("DMA_WRITE", _bind(self._written, token), [job]), self.run.fewest("dma"))

    def _written(self, token: Token, cycle: int) -> None:
        self.in_use.remove(token.result)
        self.unwritten -= 1
        self.compute(cycle)
        if not self.unwritten:
            self.end = cycle
            self.run.release(self.block)


def _bind(method: Callable[[Token, int], None], token: Token) -> Callable[[int], None]:
    """The end of a stage of a token: its next stage begins, and then later tokens start if there are buffers."""
    owner: Composite = method.__self__  # type: ignore[attr-defined]

    def over(cycle: int) -> None:
        method(token, cycle)
        owner.start_tokens(cycle)

    return over


class CompositeSimulation(Simulation):
    """The state of a run of one kernel. `machine` is complete."""

    def __init__(self, machine: dict[str, Any], ops: Sequence[Op]) -> None:
        super().__init__(machine, {"cmdq": []})
        self.ops = list(ops)
        self.done: list[Composite | Stage] = []  # of each op except waits
        self.tiles: list[tuple[int, int]] = []  # (address, bytes) of the tile of each load
        self.taken: list[tuple[int, int]] = []
        self.stages: list[Stage] = []  # all, in the order in which they began
        self.engine_of: dict[int, tuple[str, int]] = {}  # by id of a stage that is not over
        self.given: list[tuple[Record, Stage]] = []  # jobs in the engines
        self.backlog: list[tuple[Record, Stage]] = []  # jobs that wait for a place
        self.passing: list[tuple[Callable[[int], None], Stage]] = []  # FETCH and STORE, which take no time on one NPU
        self.waits_for: int | None = None
        self.cycle = 0

    def run(self) -> dict[str, Any]:
        """Step cycle by cycle to the end of the kernel. A launch takes one cycle."""
        while self.cycle < self.machine["max_cycles"]:
            self._wake(self.cycle)
            if self.cycle and not self.ops and not self._is_waiting() and not self.engine_of:
                return {"cycles": self.cycle, "stages": sorted(self.log), "counters": self._counters()}
            self._start(self.cycle)
            self._share(self.cycle)
            self._bank(self.cycle)
            self._move(self.cycle)
            self._complete(self.cycle)
            self.cycle += 1
        return {"cycles": None, "stages": [], "counters": {}}

    @property
    def log(self) -> list[tuple[str, int, int]]:
        """Name, start and end of every stage."""
        found = []
        for stage in self.stages:
            starts, ends = ([getattr(record, at) for record in stage.records] for at in ("start", "end"))
            found.append((stage.name, min(starts), max(ends)))
        return found

    # P1 -----------------------------------------------------------------------------------------------------------

    def _wake(self, cycle: int) -> None:
        """Jobs that end are reported in the order of their submission, and move their tokens on. Then the kernel goes on."""
        ended = [(record, stage) for record, stage in self.given if record.end == cycle]
        for record, stage in sorted(ended, key=lambda pair: pair[0].entry["order"]):
            self.given.remove((record, stage))
            self._give()
            if all(other is not stage for _, other in self.given + self.backlog):
                del self.engine_of[id(stage)]
                stage.over(cycle)
                self._pass()
        while cycle and self.ops and not self._is_waiting():
            op = self.ops.pop(0)
            if op.kind == "wait":
                self.waits_for = op.of
            elif op.kind == "load":
                self._load(op)
            else:
                self.done.append(Composite(self, op))
            self._pass()

    @staticmethod
    def _is_over(stage: Stage) -> bool:
        return all(record.end is not None for record in stage.records)

    def _is_waiting(self) -> bool:
        if self.waits_for is not None:
            op = self.done[self.waits_for]
            if op.end is None if isinstance(op, Composite) else not self._is_over(op):
                return True
            self.waits_for = None
        return False

    def _load(self, op: Op) -> None:
        """A load that the kernel waits for."""
        tile = Rows(0, 1, op.shape[0] * op.shape[1] * BITS[op.dtypes[0]] // 8, 0)
        at = self.allocate(tile.nbytes)
        self.tiles.append((at, tile.nbytes))
        stage = Stage("dma_read", lambda _: None, [self.transfer("DMA_LOAD_TILE", op.operands[0], tile, at)])
        self.serve(stage, self.fewest("dma"))
        self.waits_for = len(self.done)
        self.done.append(stage)

    # What stages are made of ---------------------------------------------------------------------------------------

    @property
    def _align(self) -> int:
        return int(self.machine["dma"]["alignment_bytes"])

    def serve(self, stage: Stage, engine: tuple[str, int]) -> None:
        """Hand the jobs of a stage to an engine."""
        self.stages.append(stage)
        self.engine_of[id(stage)] = engine
        for record in stage.records:
            record.entry |= {f"{engine[0]}_id": engine[1]}
            self.record_of[id(record.entry)] = record
            self.backlog.append((record, stage))
        self._give()

    def _give(self) -> None:
        """Jobs go to their engines, as far as there are places."""
        while self.backlog and len(self.given) < PLACES:
            record, stage = self.backlog.pop(0)
            record.entry["order"] = self.submitted
            self._submit(record)
            self.given.append((record, stage))

    def fewest(self, kind: str) -> tuple[str, int]:
        """The engine of a kind with the fewest commands; a stage counts until it is over."""
        busy = list(self.engine_of.values())
        return kind, min(range(self.machine[kind]["engines"]), key=lambda engine: (busy.count((kind, engine)), engine))

    def pass_on(self, name: str, over: Callable[[int], None], cycle: int) -> None:
        """FETCH or STORE: the tile goes on in this cycle, after what begins at the same time."""
        stage = Stage(name, over, [{"opcode": "NOP"}])
        stage.records[0].start = stage.records[0].end = cycle
        self.passing.append((over, stage))

    def _pass(self) -> None:
        while self.passing:
            over, stage = self.passing.pop(0)
            self.stages.append(stage)
            over(self.cycle)

    def at(self, name: str, address: int) -> dict[str, int]:
        """The fields of an entry for a flat address."""
        spm = self.spm
        if not spm.interleaved:
            return {f"{name}_bank": address // spm.size, f"{name}_offset": address % spm.size}
        line, rest = divmod(address, spm.width)
        return {f"{name}_bank": line % spm.banks, f"{name}_offset": line // spm.banks * spm.width + rest}

    def transfer(self, opcode: str, tensor: int, tile: Rows, place: int) -> dict[str, Any]:
        """A tile between memory and scratchpad. Its aligned bytes end inside the scratchpad."""
        rows = [(tensor + tile.offset + i * tile.stride, tile.row_bytes) for i in range(tile.rows)]
        travel = sum(nbytes for _, nbytes in aligned_rows(rows, self._align))
        moved = {"num_elements": tile.nbytes}
        if tile.rows > 1:
            moved = {"rows": tile.rows, "row_elements": tile.row_bytes, "stride_bytes": tile.stride}
        entry = {"opcode": opcode, "tensor_role": "weight", "qbits": 8, "dram_addr": rows[0][0], **moved}
        return entry | self.at("spm", min(place, self.size - travel))

    def vector(
        self, name: str, size: tuple[int, ...], dtype: str, to: str, places: Sequence[int], result: int
    ) -> dict[str, Any]:
        job = {"opcode": f"VE_{name.upper()}_TILE", "batch": size[0], "length": size[1]}
        job |= {"qbits_activation": BITS[dtype], "qbits_result": BITS[to]}
        for region, place in zip(("in", "in2"), places, strict=False):
            job |= self.at(region, place)
        return job | self.at("out", result)

    # The scratchpad ------------------------------------------------------------------------------------------------

    @property
    def size(self) -> int:
        return self.spm.banks * self.spm.size

    def _gaps(self) -> list[tuple[int, int]]:
        begin, found = 0, []
        for address, nbytes in sorted([*self.taken, (self.size, 0)]):
            found.append((begin, address - begin))
            begin = ceil_div(address + nbytes, self.spm.width) * self.spm.width
        return [gap for gap in found if gap[1] > 0]

    def allocate(self, nbytes: int) -> int:
        """The first gap that is large enough."""
        address = next(begin for begin, room in self._gaps() if room >= nbytes)
        self.taken.append((address, nbytes))
        return address

    def release(self, address: int) -> None:
        self.taken = [one for one in self.taken if one[0] != address]

    @property
    def room(self) -> int:
        """Half of the largest gap: what the buffers of a composite op may need."""
        return max(room for _, room in self._gaps()) // 2


# Plans --------------------------------------------------------------------------------------------------------------


def _block(width: int, bits: int, row: int, rows: int, col: int, cols: int) -> Rows:
    """The bytes of a block of a row-major matrix; if they are contiguous, they are one row."""
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
                a = _block(k, bits[0], row, size[0], at, size[2])
                b = _block(n, bits[1], at, size[2], col, size[1])
                out = _block(n, bits[2], row, size[0], col, size[1]) if at + tile[2] >= k else None
                tokens.append(Token([a, b], out, size, number))
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
        read = [True] * len(op.dtypes) if op.kind == "math" else [*(where >= 0 for where in op.operands), True]
        return op.buffers * sum(size for size, counts in zip(_sizes(op, tile), read, strict=True) if counts) <= room

    if op.kind == "math":
        rows, length = op.shape
        x = 16384
        while True:
            tile = (max(1, min(rows, x // length)), length) if op.name in ROWS else (1, min(length, x))
            if fits(tile):
                return tile
            x //= 2
    m, n, k = op.shape
    e, d = 512, 128
    while not fits((min(m, e), min(n, e), min(k, d))):
        e, d = (e // 2, d) if e > 8 else (e, d // 2)
    return min(m, e), min(n, e), min(k, d)
