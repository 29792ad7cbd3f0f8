"""The tiles of a program: their locations, their use as operands of commands, and the storage of results."""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, NoReturn

from kernbench.common.dtypes import Array, nbytes_of
from kernbench.common.errors import InputError
from kernbench.common.pe_commands import CompositeCmd, MemoryWriteMsg
from kernbench.common.pe_ops import DmaReadCmd, DmaWriteCmd, GemmCmd, MathCmd
from kernbench.common.queue_ops import IpcqRecvCmd, IpcqSendCmd
from kernbench.triton_emu.errors import KernelError, PoisonError
from kernbench.triton_emu.handle import KernelTensor
from kernbench.triton_emu.op_types import lengths_of
from kernbench.triton_emu.scratchpad import Block, Owner, shown

if TYPE_CHECKING:
    from kernbench.components.builtin.flight import Flight
    from kernbench.triton_emu.kernel_runner import KernelRunner
    from kernbench.triton_emu.memory.side import Translation
    from kernbench.triton_emu.tl.memory import Window

_nbytes = cache(nbytes_of)
_OF_ONE = (DmaReadCmd, DmaWriteCmd, IpcqSendCmd, IpcqRecvCmd)  # commands with one tile


class TlTiles:
    """The part of `tl` that manages the scratchpad."""

    def __init__(self, runner: KernelRunner, translation: Translation | None) -> None:
        self._runner = runner
        self._translation = translation
        self._windows: list[Window] = []  # recently used ranges of addresses, and their locations in memory
        self._count = 0
        self._after: tuple[int, ...] = ()  # ops for which the kernel waited explicitly: the next command depends on them
        self._shape: tuple[int, ...] | None = None  # the last shape whose size was computed
        self._dtype = ""
        self._nbytes = 0  # [B] and its size
        self._owner: Owner | None = None  # owner of the last tile, without its number

    # Operands and results of commands.

    def operand_tile(self, value: Any, line: str) -> KernelTensor:
        """A tensor as the operand of a command: complete, and in the scratchpad."""
        tile = self.placed_tile(value, line)
        if tile.shared:
            for flight in self._writers(tile):
                self._runner.wait_implicitly(flight, tile.handle_id, line)
        return tile

    def placed_tile(self, value: Any, line: str) -> KernelTensor:
        """A tensor in the scratchpad; its parts may still be in the process of being written."""
        if not isinstance(value, KernelTensor):
            raise KernelError(f"{line}: an operand must be a tensor of tl, and this is a {type(value).__name__}")
        tile: KernelTensor = value
        if tile._tl is not self:
            raise KernelError(f"{line}: {tile.handle_id} ({tile.line}) is of another program; its tile went with that")
        if tile.poison:
            self._refuse_poison(tile, line)
        if tile.flight is not None:
            self._runner.wait_implicitly(tile.flight, tile.handle_id, line)
        if tile.addr < 0:
            self._place(tile, line)
        return tile

    def _writers(self, tile: KernelTensor) -> list[Flight]:
        """The commands in flight that write bytes of a tile."""
        found = []
        flight = self._runner.scheduler.open._first
        while flight is not None:
            if flight.end < 0 and _writes(flight.msg, tile):
                found.append(flight)
            flight = flight.after_open
        return found

    def issue_for(self, msg: Any, tile: KernelTensor, line: str) -> None:
        """Issue a command whose result is pending."""
        runner = self._runner
        if self._after:
            msg.dependency_ids, self._after = self._after, ()
        tile.op_id = msg.op_id
        tile.flight = runner.issue(msg, line)

    def result_tile(self, out: KernelTensor | None, shape: tuple[int, ...], dtype: str, line: str, op: str) -> KernelTensor:
        if out is None:
            tile = self.new_tile(shape, dtype, self.size_of(shape, dtype, line), line)
        else:
            tile = self._into(out, shape, dtype, line)
        tile.op = op
        return tile

    def _into(self, out: KernelTensor, shape: tuple[int, ...], dtype: str, line: str) -> KernelTensor:
        """A tile as the destination of a new write, which must come after all commands that still use the tile."""
        if out.shape != shape or out.dtype != dtype:
            raise KernelError(
                f"{line}: the result is {dtype}{list(shape)}, and out is {out.dtype}{list(out.shape)} "
                f"({out.handle_id}, {out.line})"
            )
        if out.addr < 0:
            self._place(out, line)
        users = []
        open_one = self._runner.scheduler.open._first
        while open_one is not None:
            if open_one.end < 0 and _uses(open_one.msg, out):
                users.append(open_one)
            open_one = open_one.after_open
        for flight in users:
            if flight.end < 0:  # it may have ended during a wait for another command
                self._runner.wait_implicitly(flight, out.handle_id, line)
        out.value, out.poison, out.line = None, "", line
        whole = out.whole
        if whole is not None:
            whole.poison = ""
            if whole.value is not None:  # the elements that Phase 1 knows are no longer valid
                whole.value, whole.op, whole.line = None, "an op on a part of it", line
        return out

    def _known(self, value: Array, dtype: str, line: str) -> KernelTensor:
        """A tensor of known elements without an address."""
        self._count += 1
        size = self.size_of(value.shape, dtype, line)
        tile = KernelTensor(self, f"t{self._count}", value.shape, dtype, size, line)  # type: ignore[arg-type]
        tile.value = value
        return tile

    def _place(self, tile: KernelTensor, line: str) -> None:
        """Place known elements that an engine needs into the scratchpad; this takes no time."""
        room = self.new_tile(tile.shape, tile.dtype, tile.nbytes, line)
        tile.block, tile.addr = room.block, room.addr
        assert tile.value is not None
        runner = self._runner
        msg = MemoryWriteMsg(tile.space, tile.addr, tile.value, op_id=runner.memory.new_id(), line=line)
        runner.on_placed(msg, runner.now)

    def new_tile(
        self, shape: tuple[int, ...], dtype: str, nbytes: int, line: str, travel: int = 0, name: str = ""
    ) -> KernelTensor:
        """Allocate a tile of the scratchpad."""
        if nbytes == 0:
            self._refuse_empty(shape, dtype, line)
        self._count += 1
        tile = KernelTensor.__new__(KernelTensor)
        tile.number = self._count
        tile.known_name = name or None
        tile.shape, tile.dtype, tile.line, tile.nbytes = shape, dtype, line, nbytes  # type: ignore[misc]
        tile.value = tile.flight = tile.op_id = None
        tile.space, tile.op, tile.poison = "tcm", "", ""
        tile._tl = self  # type: ignore[assignment]  # it is part of a TLContext
        size = nbytes if nbytes > travel else travel
        who = self._owner
        if who is None or who[3] is not line or who[2] is not shape or who[1] is not dtype or who[0] is not name:
            who = self._owner = (name, dtype, shape, line)
        block = self._runner.pad.take(size, who, self._count)
        if block is None:
            block = self._take(size, who, self._count)
        tile.block = block
        tile.addr = block.addr
        return tile

    def _take(self, nbytes: int, who: Owner, number: int = 0) -> Block:
        """Allocate scratchpad; if there is no room, the kernel waits for commands in flight that may free some."""
        runner = self._runner
        while True:
            block = runner.pad.take(nbytes, who, number)
            if block is not None:
                return block
            if not runner.scheduler.open.count:
                raise runner.pad.refusal(nbytes, who, number)
            runner.pause(f"{nbytes} bytes of scratchpad for {shown(who, number)}", None, True)

    def size_of(self, shape: tuple[int, ...], dtype: str, line: str) -> int:
        if dtype is self._dtype and (shape is self._shape or same_shape(shape, self._shape)):  # as in a loop
            return self._nbytes
        for one in shape:
            if type(one) is not int:
                lengths_of(shape, line)  # raises KernelError if a length is not an integer
                break
        if shape and min(shape) < 0:
            raise KernelError(f"{line}: a tensor of {dtype}{list(shape)}: a size is negative")
        try:
            nbytes = _nbytes(shape, dtype)
        except (ValueError, TypeError, InputError) as error:
            raise KernelError(f"{line}: a tensor of {dtype}{list(shape)}: {error}") from None
        self._shape, self._dtype, self._nbytes = shape, dtype, nbytes
        return nbytes

    # The same functions for modules that are not compiled: a call through a method that a class may override costs more than
    # the function itself.

    def operand(self, value: Any, line: str) -> KernelTensor:
        return self.operand_tile(value, line)

    def _placed(self, value: Any, line: str) -> KernelTensor:
        return self.placed_tile(value, line)

    def _result(self, out: KernelTensor | None, shape: tuple[int, ...], dtype: str, line: str, op: str) -> KernelTensor:
        return self.result_tile(out, shape, dtype, line, op)

    def _new(self, shape: tuple[int, ...], dtype: str, nbytes: int, line: str, travel: int = 0) -> KernelTensor:
        return self.new_tile(shape, dtype, nbytes, line, travel)

    def _size(self, shape: tuple[int, ...], dtype: str, line: str) -> int:
        return self.size_of(shape, dtype, line)

    def _refuse_empty(self, shape: tuple[int, ...], dtype: str, line: str) -> NoReturn:
        raise KernelError(f"{line}: a tensor of {dtype}{list(shape)} has no elements, and a command needs one at least")

    def _refuse_poison(self, tile: KernelTensor, line: str) -> None:
        raise PoisonError(
            f"{line}: {tile.handle_id} {tile.dtype}{list(tile.shape)} is read, but nothing has written it since it was taken "
            f"in {tile.poison}; give it as out= to a load or an op first"
        )


def same_shape(shape: tuple[int, ...], known: tuple[int, ...] | None) -> bool:
    """Whether the lengths of a shape are plain integers, and equal those of the known shape."""
    if known is None or len(shape) != len(known):
        return False
    for axis in range(len(shape)):  # noqa: SIM110  # a generator would cost more than the comparison
        if type(shape[axis]) is not int or shape[axis] != known[axis]:
            return False
    return True


def _uses(msg: Any, tile: KernelTensor) -> bool:
    """Whether a command reads or writes a tile."""
    kind = type(msg)
    if kind is IpcqSendCmd:
        send: IpcqSendCmd = msg
        return _touch(send.handle, tile)
    if kind is IpcqRecvCmd:
        receive: IpcqRecvCmd = msg
        return _touch(receive.handle, tile)
    if kind is MathCmd:
        math: MathCmd = msg
        for one in math.inputs:
            if _touch(one, tile):
                return True
        return _touch(math.out, tile) or _touch(math.mask, tile)
    if isinstance(msg, _OF_ONE):
        if isinstance(msg, DmaWriteCmd) and msg.old is not None and (_touch(msg.old, tile) or _touch(msg.compare, tile)):
            return True
        return _touch(msg.handle, tile)
    if isinstance(msg, CompositeCmd):
        return True in [_touch(step.operand, tile) for step in msg.epilogue] or _uses(msg.work, tile)
    if isinstance(msg, GemmCmd):
        return _touch(msg.a, tile) or _touch(msg.b, tile) or _touch(msg.out, tile) or _touch(msg.acc, tile)
    return _touch(msg.out, tile) or True in [_touch(one, tile) for one in msg.handles]


def _writes(msg: Any, tile: KernelTensor) -> bool:
    """Whether a command writes bytes of a tile."""
    kind = type(msg)
    if kind is IpcqSendCmd:
        return False
    if kind is IpcqRecvCmd:
        receive: IpcqRecvCmd = msg
        return _touch(receive.handle, tile)
    if kind is MathCmd:
        math: MathCmd = msg
        return _touch(math.out, tile)
    if kind is DmaReadCmd:
        read: DmaReadCmd = msg
        return _touch(read.handle, tile)
    if isinstance(msg, DmaWriteCmd):
        return _touch(msg.old, tile)
    if isinstance(msg, (IpcqSendCmd, CompositeCmd)):
        return False
    return _touch(msg.handle if isinstance(msg, _OF_ONE) else msg.out, tile)


def _touch(one: Any, tile: KernelTensor) -> bool:
    """Whether two tiles share bytes: parts of a tile are in the block of the tile."""
    if one is tile:
        return True
    if not isinstance(one, KernelTensor):
        return False
    other: KernelTensor = one
    if other.block is None or other.block is not tile.block:
        return False
    return bool(other.addr < tile.addr + tile.nbytes and tile.addr < other.addr + other.nbytes)
