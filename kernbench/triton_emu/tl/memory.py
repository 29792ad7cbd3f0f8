"""Memory and scratchpad of `tl`: loads, stores, tiles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from operator import index
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np

from kernbench.common.dtypes import DTYPES, Array, dtype_of
from kernbench.common.errors import InputError
from kernbench.common.pe_commands import MemoryWriteMsg
from kernbench.common.pe_ops import DmaReadCmd, DmaWriteCmd, Repeated
from kernbench.common.pointers import DevicePointer
from kernbench.components.builtin.flight import Flight
from kernbench.components.builtin.transfers import footprint, rows_of
from kernbench.sim_engine.memory.strides import span_of
from kernbench.triton_emu.errors import KernelError
from kernbench.triton_emu.frames import caller, line_at
from kernbench.triton_emu.handle import KernelTensor
from kernbench.triton_emu.op_types import lengths_of
from kernbench.triton_emu.tl.tiles import TlTiles, same_shape
from kernbench_core.numbers import TRANSFER_CHANNELS as CHANNELS

if TYPE_CHECKING:
    from kernbench.triton_emu.kernel_runner import KernelRunner
    from kernbench.triton_emu.memory.side import Translation

_USUAL = CHANNELS[0]
_FAR = 1 << 62
_WINDOWS = 4  # recently used tensors of a program: most accesses are to the same tensors again
_ALIGN = {name: one.align for name, one in DTYPES.items()}


class Completion:
    """The result of `tl.store` and `tl.send`; `tl.wait` waits until its transfer has ended.

    >>> def kernel(x, tl):
    ...     done = tl.store(x, tl.full((2,), 7, "i64"))
    ...     tl.wait(done)
    ...     return done.handle_id
    >>> evaluate(kernel, [1, 2])
    'the store of t1'
    """

    def __init__(self, flight: Flight, tile: KernelTensor, op_id: int | None, target: str = "") -> None:
        """`target`: the receiver of a send."""
        self.flight: Flight | None = flight
        self.op_id = op_id
        #: name and number of the tile; the handle does not keep the tile itself
        self.known_name, self.number = tile.known_name, tile.number
        self.target = target

    @property
    def handle_id(self) -> str:
        """The name of the transfer in errors and states."""
        tile = self.known_name or f"t{self.number}"
        return f"the send of {tile} to {self.target}" if self.target else f"the store of {tile}"


class Window:
    """Bytes `[start, end)` of the kernel's addresses, which are contiguous in memory."""

    def __init__(self, start: int, end: int, physical: int) -> None:
        self.start = start
        self.end = end
        self.physical = physical  #: address of the first byte


class LoadLine(Repeated):
    """The loads of a kernel line: contiguous tensors of one shape and type, from one memory."""

    def __init__(self, shape: tuple[int, ...], dtype: str, nbytes: int) -> None:
        super().__init__()
        self.shape = shape
        self.dtype = dtype
        self.nbytes = nbytes  #: of each tensor
        self.space = ""  #: the memory; empty until an address of it is known
        kind = dtype_of(dtype)
        self.align = kind.align  #: [B] of addresses
        self.numpy = kind.numpy


class TlMemory(TlTiles):
    """The part of `tl` that moves tensors."""

    def __init__(self, runner: KernelRunner, translation: Translation | None) -> None:
        super().__init__(runner, translation)
        self._load_lines: dict[str, LoadLine] = {}  # by the kernel's line: those of its last load

    def load(
        self,
        addr: int,
        shape: Sequence[int] | int,
        dtype: str,
        *,
        strides: Sequence[int] | None = None,
        wait: bool = True,
        channel: str = _USUAL,
        out: KernelTensor | None = None,
    ) -> KernelTensor:
        """Load a tensor from memory into the scratchpad.

        `addr`: [B] a pointer, plus an offset. `shape`: lengths of the axes. `dtype`: the element type, which must be that of
        the pointer; at a plain address, such as `int(x)`, bytes are read as any type. `strides`: [B] distance from one index of
        each axis to the next; None for contiguous rows. `wait`: if False, the call returns immediately, and the tensor is in
        flight. `channel`: act_weight, kv_load or kv_store. `out`: a tile to load into. The elements are known when the transfer
        ends, unless the memory has pending elements.

        Raises KernelError for an address outside of the tensors or not aligned to its element type, for a pointer to elements
        of another type, and for an empty tensor.

        >>> evaluate(lambda x, tl: tl.load(x + 8, (2,), "i64"), [1, 2, 3])
        array([2, 3])
        """
        line = line_at(caller())
        shape = shape if type(shape) is tuple else lengths_of(shape, line)
        return self._load(addr, shape, dtype, line, strides, wait, channel, out)

    def _load(
        self,
        addr: int,
        shape: tuple[int, ...],
        dtype: str,
        line: str,
        strides: Sequence[int] | None,
        wait: bool,
        channel: str,
        out: KernelTensor | None,
    ) -> KernelTensor:
        """Load a tensor for the source line of the caller."""
        if channel is not _USUAL and channel not in CHANNELS:
            self._refuse_channel(channel, line)
        runner = self._runner
        repeated = self._load_line(line, shape, dtype)
        travel = nbytes = repeated.nbytes
        steps: tuple[int, ...] | None = None
        if strides is None:
            at = self.physical_at(self._aligned(addr, dtype, repeated.align, line), nbytes, line)
        else:
            steps = self._strides(strides, shape, dtype, line)
            at = self.place_of(addr, shape, steps, dtype, nbytes, line)
            travel = self._travel(at, shape, steps, dtype)
        tile = self.new_tile(shape, dtype, nbytes, line, travel) if out is None else self._into(out, shape, dtype, line)
        tile.op = "dma_read"
        msg = DmaReadCmd.__new__(DmaReadCmd)
        msg.handle, msg.src_addr, msg.nbytes, msg.line, msg.channel = tile, at, nbytes, line, channel
        msg.src_space = runner.memory.space_of(at)
        msg.src_strides, msg.lanes, msg._quiet, msg.dependency_ids = steps, None, False, ()
        msg.repeated = None
        if steps is None:
            if repeated.space is not msg.src_space:
                repeated = self._of_space(repeated, msg.src_space, line)
            msg.repeated = repeated
        msg.op_id = tile.op_id = runner.memory.new_id()
        if self._after:
            msg.dependency_ids, self._after = self._after, ()
        tile.flight = flight = runner.issue(msg, line)
        runner.memory.load_issued(msg)
        while wait and flight.end < 0:
            runner.pause(("the load of {}", tile), flight)
        return tile

    def _load_line(self, line: str, shape: tuple[int, ...], dtype: str) -> LoadLine:
        """The data that a load shares with the last load of its line. KernelError for a tensor that cannot be."""
        found = self._load_lines.get(line)
        if found is None or found.dtype is not dtype or not (found.shape is shape or same_shape(shape, found.shape)):
            nbytes = self.size_of(shape, dtype, line)
            if nbytes == 0:
                self._refuse_empty(shape, dtype, line)
            found = self._load_lines[line] = LoadLine(shape, dtype, nbytes)
        return found

    def _of_space(self, repeated: LoadLine, space: str, line: str) -> LoadLine:
        """The same for contiguous tensors, whose memory is known."""
        if repeated.space:
            repeated = self._load_lines[line] = LoadLine(repeated.shape, repeated.dtype, repeated.nbytes)
        repeated.space = space
        return repeated

    def _travel(self, addr: int, shape: tuple[int, ...], steps: tuple[int, ...], dtype: str) -> int:
        """[B] The bytes that the rows of a transfer move."""
        align = self._runner.pe.align
        total = 0
        for at, size, step, rows in rows_of(shape, steps, dtype):
            total += footprint(addr + at, size, step, rows, align)
        return total

    def store(
        self,
        addr: int,
        value: Any,
        *,
        strides: Sequence[int] | None = None,
        wait: bool = False,
        channel: str = _USUAL,
    ) -> Completion:
        """Store a tensor to memory; every load that is issued later reads the stored elements.

        `value`: the tensor. `addr`, `strides`, `channel`: as in `load`. `wait`: if True, wait for the transfer. Returns a
        handle for `wait`. Raises KernelError in the same cases as `load`.

        >>> def kernel(x, tl):
        ...     tl.store(x + 8, tl.full((1,), 7, "i64"))
        ...     return tl.load(x, (3,), "i64")
        >>> evaluate(kernel, [1, 2, 3])
        array([1, 7, 3])
        """
        return self.store_at(addr, value, line_at(caller()), strides, wait, channel)

    def store_at(
        self, addr: int, value: Any, line: str, strides: Sequence[int] | None, wait: bool, channel: str
    ) -> Completion:
        """Store a tensor for the source line of the caller."""
        tile = self.operand_tile(value, line)
        runner = self._runner
        steps = None if strides is None else self._strides(strides, tile.shape, tile.dtype, line)
        if channel is not _USUAL and channel not in CHANNELS:
            self._refuse_channel(channel, line)
        nbytes = tile.nbytes
        at = self.place_of(addr, tile.shape, steps, tile.dtype, nbytes, line)
        msg = DmaWriteCmd.__new__(DmaWriteCmd)
        msg.handle, msg.dst_addr, msg.nbytes, msg.line, msg.channel = tile, at, nbytes, line, channel
        msg.dst_space = runner.memory.space_of(at)
        msg.dst_strides, msg.lanes, msg.rmw, msg.old, msg.compare = steps, None, "", None, None
        msg._quiet, msg.dependency_ids = False, ()
        msg.op_id = runner.memory.new_id()
        if self._after:
            msg.dependency_ids, self._after = self._after, ()
        done = Completion.__new__(Completion)
        done.flight = flight = runner.issue(msg, line)
        done.op_id, done.known_name, done.number, done.target = msg.op_id, tile.known_name, tile.number, ""
        runner.memory.store_issued(msg)
        if wait and flight.end < 0:
            runner.wait_for(flight, done.handle_id)
        return done

    def swap(
        self, addr: int, shape: tuple[int, ...], dtype: str, nbytes: int, line: str, change: Callable[[Array], Array]
    ) -> tuple[Array | None, Array | None, tuple[Any, ...]]:
        """Load one element at a physical address, and store what `change` makes of it as soon as the load has ended.

        No other program runs between the load and the store. Returns the elements before and after, and the ids of the
        ops. If the element is pending, nothing is stored, and the elements are None.
        """
        runner = self._runner
        memory, space = runner.memory, runner.memory.space_of(addr)
        tile = self.new_tile(shape, dtype, nbytes, line)
        tile.op = "dma_read"
        read = DmaReadCmd.__new__(DmaReadCmd)
        read.handle, read.src_addr, read.nbytes, read.line, read.channel = tile, addr, nbytes, line, _USUAL
        read.src_space, read.src_strides, read.lanes, read._quiet, read.dependency_ids = space, None, None, False, ()
        read.repeated = None
        read.op_id = tile.op_id = memory.new_id()
        tile.flight = flight = runner.issue(read, line)
        memory.load_issued(read)
        while flight.end < 0:
            runner.pause(("the load of {}", tile), flight)
        room = self.new_tile(shape, dtype, nbytes, line)
        while runner.scheduler.open.count >= runner.scheduler.queue_depth:
            runner.pause("the command queue is full", None, True)
        try:
            old = memory.store.read(space, addr, shape, dtype)
        except ValueError:
            return None, None, ()
        new = room.value = np.ascontiguousarray(change(old)).reshape(shape)
        placed = MemoryWriteMsg(room.space, room.addr, new, op_id=memory.new_id(), line=line)
        runner.on_placed(placed, runner.now)
        write = DmaWriteCmd.__new__(DmaWriteCmd)
        write.handle, write.dst_addr, write.nbytes, write.line, write.channel = room, addr, nbytes, line, _USUAL
        write.dst_space, write.dst_strides, write.lanes, write.rmw, write.old, write.compare = space, None, None, "", None, None
        write._quiet, write.dependency_ids, write.op_id = False, (), memory.new_id()
        runner.issue(write, line)
        memory.exchange_issued(write)
        return old, new, (read.op_id, placed.op_id, write.op_id)

    def alloc(self, shape: Sequence[int] | int, dtype: str, name: str = "") -> KernelTensor:
        """Allocate a tile in the scratchpad, as the `out=` of a load or an op.

        `shape`: lengths of the axes. `dtype`: the element type, such as `f32`. `name`: a name for errors and traces.

        Raises KernelError if a command reads the tile before another command writes it, and ScratchpadFullError if there is no
        room.

        >>> def kernel(x, tl):
        ...     tile = tl.alloc((2,), "i64")
        ...     return tl.load(x, (2,), "i64", out=tile)
        >>> evaluate(kernel, [1, 2])
        array([1, 2])
        """
        line = line_at(caller())
        shape = shape if type(shape) is tuple else lengths_of(shape, line)
        tile = self.new_tile(shape, dtype, self.size_of(shape, dtype, line), line, 0, name)
        tile.poison = line
        return tile

    def part(self, tile: KernelTensor, first: int, count: int) -> KernelTensor:
        """Elements `[first, first + count)` of a tile, counted in row-major order, as a tensor with one axis. The call takes no
        time.

        `tile`: the tile. `first`: the position of the first element. `count`: the number of elements.

        A part shares the bytes of its tile: `out=` with a part writes into the tile. The kernel waits until the tile is
        complete. The elements of a part are pending, because other parts may have been written. Raises KernelError for elements
        outside of the tile. A part of a tile that no command has written can be used only as an `out=`.

        >>> def kernel(x, tl):
        ...     return tl.part(tl.load(x, (4,), "f32"), 1, 2)
        >>> evaluate(kernel, np.array([1, 2, 3, 4], np.float32))
        array([2., 3.], dtype=float32)
        """
        line = line_at(caller())
        unwritten = tile.poison if isinstance(tile, KernelTensor) and tile._tl is self else ""
        whole = tile if unwritten else self.placed_tile(tile, line)
        bits = dtype_of(whole.dtype).bits
        elements = whole.nbytes * 8 // bits
        if not 0 <= first < first + count <= elements or first * bits % 8 or count * bits % 8:
            rule = f"{count} elements from {first} on are no part of {whole.handle_id} {whole.dtype}{list(whole.shape)}"
            raise KernelError(f"{line}: {rule} ({whole.line}), which has {elements}")
        made = KernelTensor.__new__(KernelTensor)
        made.known_name, made.number, made.shape = f"{whole.name()}[{first}:]", 0, (count,)
        made.dtype, made.line = whole.dtype, line
        made.nbytes = count * bits // 8  # type: ignore[misc]  # no property there
        made.space, made.op, made.op_id = whole.space, whole.op, whole.op_id
        made.addr, made.block, made._tl = whole.addr + first * bits // 8, whole.block, whole._tl
        made.value = made.flight = None
        made.poison, made.shared = unwritten, True
        made.whole, whole.shared = whole if whole.whole is None else whole.whole, True
        return made

    def place_of(
        self, addr: Any, shape: tuple[int, ...], steps: tuple[int, ...] | None, dtype: str, nbytes: int, line: str
    ) -> int:
        """The physical address of the first element of a tensor."""
        at = self._aligned(addr, dtype, _ALIGN.get(dtype) or dtype_of(dtype).align, line)
        if steps is None:
            return self.physical_at(at, nbytes, line)
        low, high = span_of(shape, steps, dtype)
        return self.physical_at(at + low, high - low, line) - low

    def _aligned(self, addr: Any, dtype: str, align: int, line: str) -> int:
        """The address of elements as an integer. KernelError if it is no address of such elements."""
        if type(addr) is DevicePointer and addr.dtype != dtype:
            check_type(addr, dtype, line)
        at = _number(addr, line)
        if at % align:
            raise KernelError(f"{line}: the address {at:#x} is not a multiple of the {align} bytes of a {dtype}")
        return at

    def _in_memory(
        self, addr: Any, shape: tuple[int, ...], steps: tuple[int, ...] | None, dtype: str, nbytes: int, line: str
    ) -> int:
        """The same as `place_of`, for modules that are not compiled."""
        return self.place_of(addr, shape, steps, dtype, nbytes, line)

    def _physical(self, addr: Any, nbytes: int, line: str) -> int:
        """The physical address of bytes, which must be physically contiguous."""
        return self.physical_at(_number(addr, line), nbytes, line)

    def physical_at(self, at: int, nbytes: int, line: str) -> int:
        """The same as `_physical` for an integer."""
        translation = self._translation
        if translation is None:
            return at
        for known in self._windows:
            window: Window = known
            if window.start <= at and at + nbytes <= window.end:
                return window.physical + at - window.start
        found = translation.window(at)
        if found is not None:
            self._windows = [Window(*found), *self._windows[: _WINDOWS - 1]]
        try:
            runs = translation.physical(at, nbytes)
        except InputError as error:
            raise KernelError(f"{line}: {error}") from None
        for (first, size), (second, _) in pairwise(runs):
            if first + size != second:
                raise KernelError(
                    f"{line}: the {nbytes} bytes at {at:#x} are not contiguous ({first:#x} is followed by {second:#x}); "
                    "move contiguous ranges separately"
                )
        return int(runs[0][0])

    def _refuse_channel(self, channel: str, line: str) -> NoReturn:
        raise KernelError(f"{line}: a DMA engine has the channels {', '.join(CHANNELS)}, and not {channel}")

    def _strides(self, strides: Sequence[int], shape: tuple[int, ...], dtype: str, line: str) -> tuple[int, ...]:
        try:
            steps = tuple(map(index, strides))
        except TypeError:
            raise KernelError(f"{line}: strides are integers, one an axis, and not {strides!r}") from None
        if len(steps) != len(shape):
            raise KernelError(f"{line}: {len(steps)} strides are given for the {len(shape)} axes of {list(shape)}")
        align = dtype_of(dtype).align
        for step, size in zip(steps, shape, strict=True):
            if step % align and size > 1:
                raise KernelError(f"{line}: the stride {step} is not a multiple of the {align} bytes of a {dtype}")
        return steps


def check_type(pointer: DevicePointer, dtype: str, line: str) -> None:
    """Refuse an access to a tensor, by its pointer, as elements of another type: this would reinterpret its bytes."""
    own, kind = pointer.dtype, dtype_of(dtype).name
    if kind != own:
        raise KernelError(
            f"{line}: {pointer.name or 'the tensor'} has elements of type {own}, but is accessed as {kind}; use its type "
            f"({own}) and convert tiles with tl.cast, or create the tensor with type {kind}. To reinterpret its bytes, pass a "
            "plain address, int(pointer)"
        )


def _number(addr: Any, line: str) -> int:
    """An address as an integer of at most 62 bits."""
    if type(addr) is not int:
        try:
            addr = int(addr.__index__())
        except AttributeError:
            raise KernelError(f"{line}: an address must be an integer, and this is a {type(addr).__name__}") from None
    try:
        at: int = addr
    except OverflowError:  # of a machine integer
        at = _FAR
    if not -_FAR < at < _FAR:
        raise KernelError(f"{line}: the address {addr:#x} is in no memory: addresses have at most 62 bits")
    return at
