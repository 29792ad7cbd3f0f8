"""Queues between PEs in `tl`: send, receive, who is where."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kernbench.common.pe_commands import IpcqRecvCmd, IpcqSendCmd
from kernbench.components.builtin.ipcq_ring import DIRECTIONS, Ring, SlotBlock
from kernbench.triton_emu.errors import KernelError
from kernbench.triton_emu.handle import KernelTensor
from kernbench.triton_emu.source_lines import line_of
from kernbench.triton_emu.tl_memory import Completion

if TYPE_CHECKING:
    from kernbench.triton_emu.kernel_runner import KernelRunner

_new: Any = object.__new__


class TlQueues:
    """The part of `tl` that sends tensors to other PEs."""

    _runner: KernelRunner
    _after: tuple[int, ...]
    _count: int

    if TYPE_CHECKING:  # what TLContext gives

        def operand(self, value: Any, line: str) -> KernelTensor: ...
        def unary(self, op: str, x: Any, frame: Any, *, out: Any = None) -> KernelTensor: ...
        def _store(self, addr: int, value: Any, line: str, *, wait: bool = False) -> Completion: ...
        def wait(self, *handles: Any) -> None: ...
        def _size(self, shape: tuple[int, ...], dtype: str, line: str) -> int: ...
        def _new(self, shape: tuple[int, ...], dtype: str, nbytes: int, line: str, travel: int = 0) -> KernelTensor: ...

    @property
    def rank(self) -> int | None:
        """The PE's number in the group whose queues were installed; None where it is in none."""
        return self._runner.group.rank

    @property
    def world_size(self) -> int:
        """PEs of that group; 0 without one."""
        return self._runner.group.size

    @property
    def slots(self) -> int:
        """Messages that each of its queues has room for; 0 without any."""
        return self._runner.group.slots

    @property
    def slot_bytes(self) -> int:
        """[B] of the longest message; 0 without any."""
        return self._runner.group.slot_bytes

    def neighbour(self, direction: str, plane: int = 0) -> int | None:
        """The rank in a direction of a plane; None where there is no neighbour."""
        ring = self._runner.scheduler.queues.queues_out.get((plane, direction))
        return None if ring is None else ring.target.rank

    def send(self, direction: str, tile: Any, *, plane: int = 0, wait: bool = False) -> Completion:
        """A tensor to the neighbour in a direction; returns something to wait for: its transfer has ended then.

        It waits, and the kernel does not, until the neighbour has a free slot for it. With `wait` the kernel does.
        """
        line = line_of(sys._getframe(1))
        ring = self._ring(self._runner.scheduler.queues.queues_out, direction, plane, line)
        tile = self.operand(tile, line)
        if tile.nbytes > ring.slot_bytes:
            raise KernelError(
                f"{line}: {tile.handle_id} {tile.dtype}{list(tile.shape)} has {tile.nbytes} bytes, and a slot of the queue to "
                f"{ring.target} has {ring.slot_bytes}; send smaller pieces, or install queues with a larger slot_bytes"
            )
        runner = self._runner
        msg = _new(IpcqSendCmd)  # what is not set here is as its class says
        msg.handle, msg.ring, msg.line, msg.op_id = tile, ring, line, runner.memory.new_id()
        if self._after:
            msg.dependency_ids, self._after = self._after, ()
        flight = runner.issue(msg, line)
        name = f"the send of {tile.handle_id} to {ring.target}"
        if wait:
            runner.wait_for(flight, name)
        return Completion(flight, name, msg.op_id)

    def recv(self, direction: str, shape: Sequence[int] | int, dtype: str, *, plane: int = 0, copy_to: Any = None) -> Any:
        """The next tensor from the neighbour in a direction: the kernel waits for it. It lies in its slot while it is used.

        `copy_to`: a tile that it is copied to, or an address in memory that it is stored to; the slot is free then. Returns
        that tile, or what `store` returns.
        """
        frame = sys._getframe(1)
        tile = self._receive(direction, shape, dtype, plane, line_of(frame))
        assert tile.flight is not None
        self._runner.wait_for(tile.flight, f"a message from {self._source(direction, plane)}")
        if copy_to is None:
            return tile
        if isinstance(copy_to, KernelTensor):
            made = self.unary("copy", tile, frame, out=copy_to)
            self.wait(made)
            return made
        return self._store(copy_to, tile, line_of(frame), wait=True)

    def recv_async(self, direction: str, shape: Sequence[int] | int, dtype: str, *, plane: int = 0) -> KernelTensor:
        """The same without waiting: the tensor is in flight, and what uses it waits."""
        return self._receive(direction, shape, dtype, plane, line_of(sys._getframe(1)))

    def _receive(self, direction: str, shape: Sequence[int] | int, dtype: str, plane: int, line: str) -> KernelTensor:
        runner = self._runner
        ring = self._ring(runner.scheduler.queues.queues_in, direction, plane, line)
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        nbytes = self._size(shape, dtype, line)
        number = ring.received
        slot = ring.address(number)
        if ring.tier == "tcm":
            self._count += 1
            tile = KernelTensor(self, f"t{self._count}", shape, dtype, nbytes, line)  # type: ignore[arg-type]
        else:
            tile = self._new(shape, dtype, nbytes, line)
        tile.op = "recv"
        msg = _new(IpcqRecvCmd)
        msg.handle, msg.ring, msg.number, msg.slot, msg.line, msg.message = tile, ring, number, slot, line, None
        msg.op_id = runner.memory.new_id()
        tile.flight = runner.issue(msg, line)
        ring.received += 1
        if ring.tier == "tcm":
            tile.block = SlotBlock(ring, number)  # type: ignore[assignment]  # it is a slot, and not a piece of the rest
            tile.addr = slot
        return tile

    def _source(self, direction: str, plane: int) -> Any:
        return self._runner.scheduler.queues.queues_in[plane, direction].source

    def _ring(self, queues: dict[tuple[int, str], Ring], direction: str, plane: int, line: str) -> Ring:
        ring = queues.get((plane, direction))
        if ring is not None:
            return ring
        if direction not in DIRECTIONS:
            raise KernelError(f"{line}: a direction is one of {', '.join(DIRECTIONS)}, and not {direction!r}")
        pe, rank = self._runner.pe.name, self._runner.group.rank
        if rank is None:
            raise KernelError(f"{line}: {pe} has no queues; install them before the launch")
        planes = sorted({number for number, _ in queues})
        if plane not in planes:
            there = f"planes {', '.join(map(str, planes))}" if planes else "no plane"
            raise KernelError(f"{line}: rank {rank} ({pe}) has {there}, and not plane {plane!r}")
        there = ", ".join(one for one in DIRECTIONS if (plane, one) in queues)
        raise KernelError(f"{line}: rank {rank} ({pe}) has no neighbour {direction} in plane {plane}, but {there}")


def take(msg: IpcqRecvCmd) -> None:
    """A message is there: its tensor is as it was sent. KernelError where it is not what the receive asked for."""
    tile: Any = msg.handle
    message, ring = msg.message, msg.ring
    tile.flight = None
    if message.shape != tile.shape or message.dtype != tile.dtype:
        raise KernelError(
            f"{msg.line}: {ring.target} receives {tile.dtype}{list(tile.shape)}, but {ring.source} sent "
            f"{message.dtype}{list(message.shape)} ({message.line}); send and receive in the same order, with the same shapes"
        )
    tile.value = message.value
    tile.op_id = message.op_id if ring.tier == "tcm" else msg.op_id
