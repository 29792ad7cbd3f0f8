"""What a kernel calls (`tl`), for the reference of kernels: commands that take their time, on tiles without elements.

A kernel is the same Python function as in kernbench. It runs in a greenlet, which is left where the kernel waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any, NamedTuple

from greenlet import getcurrent, greenlet

from .ref_composite import ROWS, Composite, Op
from .ref_geometry import aligned_rows, ceil_div
from .ref_pe import BITS, COMMAND, Command, Pe, Rows, Stage
from .ref_queues import Inbox


class Bytes:
    """Bytes of the scratchpad, which are freed with the last tile that has them."""

    def __init__(self, free: Callable[[], None]) -> None:
        self._free = free

    def __del__(self) -> None:
        self._free()


class Tile:
    """A handle. `command`: what makes it."""

    def __init__(self, tl: Tl, address: int, shape: tuple[int, ...], dtype: str, kept: Bytes | None = None) -> None:
        self.tl, self.address, self.shape, self.dtype, self.kept = tl, address, shape, dtype, kept
        self.nbytes = ceil_div(prod(shape) * BITS[dtype], 8)
        self.command: Command | None = None

    def __add__(self, other: Tile) -> Tile:
        return self.tl.add(self, other)


class Whole:
    """A tensor in memory, or the result of a composite op."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: str, command: Command | None = None) -> None:
        self.address, self.shape, self.dtype, self.command = address, shape, dtype, command


class Launch(NamedTuple):
    """A kernel on some ranks. `programs`: how many of them each PE runs, one after the other."""

    ranks: tuple[int, ...]
    kernel: Callable[[Tl], Any]
    programs: int = 1
    after: tuple[int, ...] = ()  # the launches for whose ends the host waits first, by their numbers


class Share:
    """The part of one rank in a launch. `start`, `end`: its first program began; its last command had ended."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.start: int | None = None
        self.end: int | None = None


class Tl:
    """The functions for one rank. `queues_out` and `queues_in`: by plane and direction. `cycles`: [cycle] of a launch in the
    processor of the PE."""

    def __init__(self, pe: Pe, rank: int | None, cycles: int) -> None:
        self.pe, self.rank, self.cycles = pe, rank, cycles
        self.queues_out: dict[tuple[int, str], Callable[[Any, Command], None]] = {}  # what issues a send
        self.queues_in: dict[tuple[int, str], Inbox] = {}
        self.arrived: list[Share] = []  # that the processor has not begun
        self.share: Share | None = None
        self.begins = 0  # the cycle in which the first program of `share` begins
        self.free = 0  # the cycle from which the processor can take a launch
        self.program = 0  # the number of the program
        self._left = 0  # programs that have not begun
        self._kernel: greenlet | None = None
        self._goes_on: Callable[[], bool] = bool

    # Launches, the kernel and its waits ----------------------------------------------------------------------------

    def accept(self) -> None:
        """P3: the processor begins the next launch."""
        if self.share is None and self.arrived and self.now >= self.free:
            self.share = self.arrived.pop(0)
            self.begins = self.now + max(1, self.cycles)
            self._left = self.share.launch.programs

    @property
    def works(self) -> bool:
        """Whether a launch begins or ends in this cycle or later, whatever the kernel waits for."""
        if self.share is None:
            return bool(self.arrived) or self.free > self.now
        return self.begins >= self.now

    def resume(self) -> None:
        """P1: a program begins, or goes on if it can; the next one begins when all commands of the last one have ended."""
        share = self.share
        if share is None or self.now < self.begins:
            return
        if share.start is None:
            share.start = self.now
        while True:
            if self._kernel is None:
                if self.pe.open:
                    break
                if not self._left:
                    share.end, self.share, self.free = self.now, None, self.now + 1
                    break
                self.program = share.launch.programs - self._left
                self._left -= 1
                self._kernel = greenlet(share.launch.kernel)
                self._kernel.switch(self)
            elif self._goes_on():
                self._kernel.switch()
            else:
                break
            self.pe.pass_on()
            if self._kernel.dead:
                self._kernel = None
        self.pe.pass_on()

    def _pause(self, goes_on: Callable[[], bool]) -> None:
        self._goes_on = goes_on
        while not goes_on():
            outside = getcurrent().parent
            assert outside is not None
            outside.switch()

    @property
    def now(self) -> int:
        return self.pe.now

    def idle(self, cycles: int) -> None:
        """Do nothing for so long."""
        until = self.now + cycles
        self.pe.plan(COMMAND, until, lambda _: None)
        self._pause(lambda: self.now >= until)

    def wait(self, *handles: Any) -> None:
        """Wait for commands; without any, for all that were issued, with the receives whose tiles nobody has."""
        commands = [handle.command for handle in handles] if handles else list(self.pe.open)
        for command in commands:
            if command is not None:
                self._pause(partial(getattr, command, "is_over"))

    # Commands ------------------------------------------------------------------------------------------------------

    def _tile(self, shape: Sequence[int], dtype: str, least: int = 0) -> Tile:
        """Bytes for a tile, at least so many; wait until there are some."""
        pe, nbytes = self.pe, max(least, ceil_div(prod(shape) * BITS[dtype], 8))
        self._pause(lambda: pe.find(nbytes) is not None)
        address = pe.allocate(nbytes)
        return Tile(self, address, tuple(shape), dtype, Bytes(lambda: pe.release(address)))

    def _room(self) -> None:
        """Wait until another command may be issued."""
        self._pause(lambda: self.pe.has_room)

    def _command(self, uses: Sequence[Any], name: str, jobs: Sequence[dict[str, Any]], kind: str) -> Command:
        """Issue a command whose jobs go to one engine."""
        pe, command = self.pe, Command(uses)
        pe.issue(command, lambda _: pe.serve(Stage(name, lambda _: pe.end(command), jobs), pe.fewest(kind)))
        return command

    def _transfers(
        self, opcode: str, addr: int, tile: Tile, strides: Sequence[int] | None, place: int, channel: str
    ) -> list[dict[str, Any]]:
        """The jobs of a load or store. Each begins in the scratchpad behind the bytes of the one before."""
        jobs = []
        parts = [Rows(0, 1, tile.nbytes, 0)] if strides is None else _parts(tile.shape, strides, BITS[tile.dtype] // 8)
        for part in parts:
            jobs += self.pe.transfers(opcode, addr, part, place, channel)
            place += part.nbytes
        return jobs

    def load(
        self, addr: int, shape: Sequence[int], dtype: str, *, strides: Sequence[int] | None = None, wait: bool = True,
        channel: str = "act_weight",
    ) -> Tile:  # fmt: skip
        travel = 0
        if strides is not None:
            align = self.pe.run.machine["dma"]["alignment_bytes"]
            for part in _parts(shape, strides, BITS[dtype] // 8):
                rows = [(addr + part.offset + i * part.stride, part.row_bytes) for i in range(part.rows)]
                travel += sum(nbytes for _, nbytes in aligned_rows(rows, align))
        tile = self._tile(shape, dtype, travel)
        self._room()
        jobs = self._transfers("DMA_LOAD_TILE", addr, tile, strides, tile.address, channel)
        tile.command = self._command((tile,), "dma_read", jobs, "dma")
        if wait:
            self.wait(tile)
        return tile

    def store(
        self, addr: int, value: Tile, *, strides: Sequence[int] | None = None, wait: bool = False, channel: str = "act_weight"
    ) -> Any:
        self.wait(value)
        self._room()
        jobs = self._transfers("DMA_STORE_TILE", addr, value, strides, value.address, channel)
        done = Whole(addr, value.shape, value.dtype, self._command((value,), "dma_write", jobs, "dma"))
        if wait:
            self.wait(done)
        return done

    def dot(self, a: Tile, b: Tile) -> Tile:
        self.wait(a, b)
        tile = self._tile((a.shape[0], b.shape[1]), a.dtype)
        self._room()
        bits = BITS[a.dtype], BITS[b.dtype], BITS[tile.dtype]
        job = self.pe.product((a.shape[0], b.shape[1], a.shape[1]), bits, a.address, b.address, tile.address)
        tile.command = self._command((a, b, tile), f"gemm_{a.dtype}", [job], "te")
        return tile

    def add(self, a: Tile, b: Tile) -> Tile:
        return self._math("add", (a, b), _broadcast(a.shape, b.shape))

    def mul(self, a: Tile, b: Tile) -> Tile:
        return self._math("mul", (a, b), _broadcast(a.shape, b.shape))

    def exp(self, x: Tile) -> Tile:
        return self._math("exp", (x,), x.shape)

    def cast(self, x: Tile, dtype: str) -> Tile:
        return self._math("cast", (x,), x.shape, dtype)

    def softmax(self, x: Tile) -> Tile:
        return self._math("softmax", (x,), x.shape)

    def sum(self, x: Tile, axis: int) -> Tile:
        return self._math("sum", (x,), x.shape[:-1])

    def _math(self, name: str, operands: Sequence[Tile], shape: Sequence[int], dtype: str = "") -> Tile:
        self.wait(*operands)
        widest = max((one.dtype for one in operands), key=BITS.__getitem__)
        tile = self._tile(shape, dtype or widest)
        self._room()
        of, bits = operands[0].shape, (BITS[operands[0].dtype], BITS[tile.dtype])
        size = (prod(of) // of[-1], of[-1]) if name in ROWS else (1, prod(shape))
        job = self.pe.vector(name, size, bits, [(one.address, one.nbytes) for one in operands], tile.address)
        tile.command = self._command((*operands, tile), name, [job], "ve")
        return tile

    # Composite ops -------------------------------------------------------------------------------------------------

    def ref(self, addr: int, shape: Sequence[int], dtype: str) -> Whole:
        return Whole(addr, tuple(shape), dtype)

    def composite(
        self, op: str, a: Any, b: Any = None, out_ptr: int = 0, *, math_op: str = "", out_dtype: str | None = None,
        transpose_a: bool = False, transpose_b: bool = False, epilogue: Sequence[Any] = (), tile: Sequence[int] | None = None,
        buffers: int = 2, channel: str = "act_weight",
    ) -> Whole:  # fmt: skip
        operands = [one for one in (a, b) if one is not None]
        seconds = [one[1] for one in epilogue if not isinstance(one, str)]
        held = [one for one in (*operands, *seconds) if isinstance(one, Tile)]
        if held:
            self.wait(*held)
        if op == "gemm":
            (m, k), n = a.shape[::-1] if transpose_a else a.shape, b.shape[0 if transpose_b else 1]
            shape, result = (m, n, k), (m, n)
        else:
            total, result = prod(a.shape), a.shape
            shape = (total // a.shape[-1], a.shape[-1]) if math_op in ROWS else (1, total)
        if tile is not None:
            whole = tile if op == "gemm" or math_op in ROWS else (1, prod(tile))
            tile = tuple(min(part, size) for part, size in zip(whole, shape, strict=True))
        dtypes = (*(one.dtype for one in operands), out_dtype or a.dtype)
        places = tuple((one.address, one.nbytes) if isinstance(one, Tile) else one.address for one in operands)
        swapped = transpose_a, transpose_b
        steps = tuple(one if isinstance(one, str) else (one[0], (one[1].address, one[1].nbytes)) for one in epilogue)
        form = Op(op, shape, places, dtypes, out_ptr, math_op, tile, buffers, steps, swapped, channel)
        made = Composite(self.pe, form)
        self._pause(lambda: self.pe.find(made.nbytes) is not None)
        made.place()
        self._room()
        command = Command(held)
        self.pe.issue(command, lambda _: made.begin(lambda _: self.pe.end(command)))
        return Whole(out_ptr, result, dtypes[-1], command)

    # Messages ------------------------------------------------------------------------------------------------------

    def send(self, direction: str, tile: Tile, *, plane: int = 0, wait: bool = False) -> Any:
        self.wait(tile)
        self._room()
        command = Command((tile,))
        self.queues_out[plane, direction](tile, command)
        done = Whole(0, (), tile.dtype, command)
        if wait:
            self.wait(done)
        return done

    def recv(self, direction: str, shape: Sequence[int], dtype: str, *, plane: int = 0) -> Tile:
        tile = self.recv_async(direction, shape, dtype, plane=plane)
        self.wait(tile)
        return tile

    def recv_async(self, direction: str, shape: Sequence[int], dtype: str, *, plane: int = 0) -> Tile:
        queue = self.queues_in[plane, direction]
        if queue.tier != "tcm":
            tile = self._tile(shape, dtype)
            self._room()
            tile.command = Command((tile,))
            queue.receive(tile.command, tile.address)
            return tile
        self._room()
        command = Command()
        number = queue.receive(command, -1)
        slot = queue.addresses[number % len(queue.addresses)]
        tile = Tile(self, slot, tuple(shape), dtype, Bytes(lambda: queue.free(number)))
        tile.command, command.uses = command, (tile,)
        return tile


def _broadcast(a: Sequence[int], b: Sequence[int]) -> tuple[int, ...]:
    """The shape of an elementwise op on operands of these shapes."""
    size = max(len(a), len(b))
    return tuple(max(x, y) for x, y in zip((1,) * (size - len(a)) + tuple(a), (1,) * (size - len(b)) + tuple(b), strict=True))


def _parts(shape: Sequence[int], strides: Sequence[int], size: int) -> list[Rows]:
    """The transfers of a strided tensor with elements of `size` bytes: the last axes are a row if they are contiguous, and the
    axis before them has the rows of one transfer, unless they overlap or go backwards."""
    axes, row = list(zip(shape, strides, strict=True)), size
    while axes and (axes[-1][1] == row or axes[-1][0] == 1):
        row *= axes.pop()[0]
    rows, stride = 1, 0
    if axes and axes[-1][1] >= row:
        rows, stride = axes.pop()
    offsets = [0]
    for length, step in axes:
        offsets = [offset + i * step for offset in offsets for i in range(length)]
    return [Rows(offset, rows, row, stride) for offset in offsets]
