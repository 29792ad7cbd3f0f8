"""What a kernel calls (`tl`), for the reference of kernels: commands that take their time, on tiles without elements.

A kernel is the same Python function as in kernbench. It runs in a greenlet, which is left where the kernel waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import Any

from greenlet import getcurrent, greenlet

from .ref_composite import ROWS, Composite, Op
from .ref_geometry import ceil_div
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


class Tl:
    """The functions for one rank. `queues_out` and `queues_in`: by plane and direction."""

    def __init__(self, pe: Pe, rank: int | None, begins: int) -> None:
        """`begins`: the cycle in which the kernel begins."""
        self.pe, self.rank, self.begins = pe, rank, begins
        self.queues_out: dict[tuple[int, str], Callable[[Any, Command], None]] = {}  # what issues a send
        self.queues_in: dict[tuple[int, str], Inbox] = {}
        self.end: int | None = None  # the cycle in which the kernel has returned and all its commands have ended
        self._kernel: greenlet | None = None
        self._goes_on: Callable[[], bool] = bool

    # The kernel and its waits --------------------------------------------------------------------------------------

    def resume(self, kernel: Callable[..., Any]) -> None:
        """P1: the kernel begins, or goes on if it can."""
        if self.now == self.begins:
            self._kernel = greenlet(kernel)
            self._kernel.switch(self)
        elif self._kernel is not None and not self._kernel.dead and self._goes_on():
            self._kernel.switch()
        self.pe.pass_on()
        if self.end is None and self._kernel is not None and self._kernel.dead and not self.pe.open:
            self.end = self.now

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

    def _tile(self, shape: Sequence[int], dtype: str) -> Tile:
        """Bytes for a tile; wait until there are some."""
        pe, nbytes = self.pe, ceil_div(prod(shape) * BITS[dtype], 8)
        self._pause(lambda: pe.find(nbytes) is not None)
        address = pe.allocate(nbytes)
        return Tile(self, address, tuple(shape), dtype, Bytes(lambda: pe.release(address)))

    def _room(self) -> None:
        """Wait until another command may be issued."""
        self._pause(lambda: self.pe.has_room)

    def _command(self, uses: Sequence[Any], name: str, job: dict[str, Any], kind: str) -> Command:
        """Issue a command that is one job."""
        pe, command = self.pe, Command(uses)
        pe.issue(command, lambda _: pe.serve(Stage(name, lambda _: pe.end(command), [job]), pe.fewest(kind)))
        return command

    def load(self, addr: int, shape: Sequence[int], dtype: str, *, wait: bool = True, channel: str = "act_weight") -> Tile:
        tile = self._tile(shape, dtype)
        self._room()
        job = self.pe.transfer("DMA_LOAD_TILE", addr, Rows(0, 1, tile.nbytes, 0), tile.address, channel)
        tile.command = self._command((tile,), "dma_read", job, "dma")
        if wait:
            self.wait(tile)
        return tile

    def store(self, addr: int, value: Tile, *, wait: bool = False, channel: str = "act_weight") -> Any:
        self.wait(value)
        self._room()
        job = self.pe.transfer("DMA_STORE_TILE", addr, Rows(0, 1, value.nbytes, 0), value.address, channel)
        done = Whole(addr, value.shape, value.dtype, self._command((value,), "dma_write", job, "dma"))
        if wait:
            self.wait(done)
        return done

    def dot(self, a: Tile, b: Tile) -> Tile:
        self.wait(a, b)
        tile = self._tile((a.shape[0], b.shape[1]), a.dtype)
        self._room()
        bits = BITS[a.dtype], BITS[b.dtype], BITS[tile.dtype]
        job = self.pe.product((a.shape[0], b.shape[1], a.shape[1]), bits, a.address, b.address, tile.address)
        tile.command = self._command((a, b, tile), f"gemm_{a.dtype}", job, "te")
        return tile

    def add(self, a: Tile, b: Tile) -> Tile:
        return self._math("add", (a, b), a.shape)

    def mul(self, a: Tile, b: Tile) -> Tile:
        return self._math("mul", (a, b), a.shape)

    def exp(self, x: Tile) -> Tile:
        return self._math("exp", (x,), x.shape)

    def softmax(self, x: Tile) -> Tile:
        return self._math("softmax", (x,), x.shape)

    def sum(self, x: Tile, axis: int) -> Tile:
        return self._math("sum", (x,), x.shape[:-1])

    def _math(self, name: str, operands: Sequence[Tile], shape: Sequence[int]) -> Tile:
        self.wait(*operands)
        tile = self._tile(shape, operands[0].dtype)
        self._room()
        of, bits = operands[0].shape, BITS[tile.dtype]
        size = (prod(of) // of[-1], of[-1]) if name in ROWS else (1, prod(of))
        places = [one.address for one in operands]
        job = self.pe.vector(name, size, (bits, bits), places, tile.address)
        tile.command = self._command((*operands, tile), name, job, "ve")
        return tile

    # Composite ops -------------------------------------------------------------------------------------------------

    def ref(self, addr: int, shape: Sequence[int], dtype: str) -> Whole:
        return Whole(addr, tuple(shape), dtype)

    def composite(
        self, op: str, a: Any, b: Any = None, out_ptr: int = 0, *, math_op: str = "", out_dtype: str | None = None,
        transpose_a: bool = False, transpose_b: bool = False, epilogue: Sequence[str] = (), tile: Sequence[int] | None = None,
        buffers: int = 2, channel: str = "act_weight",
    ) -> Whole:  # fmt: skip
        operands = [one for one in (a, b) if one is not None]
        held = [one for one in operands if isinstance(one, Tile)]
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
        form = Op(op, shape, places, dtypes, out_ptr, math_op, tile, buffers, tuple(epilogue), swapped, channel)
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
