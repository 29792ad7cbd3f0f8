"""Queues between PEs in `tl`: send, receive, and the ranks of neighbours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NoReturn

from kernbench.common.queue_ops import IpcqRecvCmd, IpcqSendCmd
from kernbench.components.builtin.ipcq_ring import DIRECTIONS, Ring, SlotBlock
from kernbench.components.builtin.pe_ipcq import QueueControl
from kernbench.components.builtin.switch_queue import SWITCH_DIRECTIONS
from kernbench.triton_emu.errors import KernelError
from kernbench.triton_emu.frames import caller, line_at
from kernbench.triton_emu.handle import KernelTensor
from kernbench.triton_emu.kernel_runner import KernelRunner
from kernbench.triton_emu.op_types import lengths_of
from kernbench.triton_emu.tl.memory import Completion
from kernbench.triton_emu.tl.waits import TlWaits
from kernbench_core.numbers import TRANSFER_CHANNELS as CHANNELS

if TYPE_CHECKING:
    from kernbench.triton_emu.memory.side import Translation


class TlQueues(TlWaits):
    """The functions of `tl` that send tensors to other PEs, over queues that `Context.install_queues` makes.

    The kernel below runs on two PEs. Each sends its rank to the other:

    >>> def swap(out, tl):
    ...     tl.send("E", tl.full((1,), tl.rank, "i32"))
    ...     tl.store(out + 4 * tl.rank, tl.recv("W", (1,), "i32"))
    >>> @kb.bench(name="swap", description="two ranks swap their numbers")
    ... def swapped(ctx):
    ...     pes = ["sip0.cube0.pe0", "sip0.cube0.pe1"]
    ...     out = ctx.zeros((2,), "i32")
    ...     ring = {0: {(0, "E"): (1, "W"), (0, "W"): (1, "E")}, 1: {(0, "E"): (0, "W"), (0, "W"): (0, "E")}}
    ...     ctx.install_queues(ring, ranks=pes)
    ...     ctx.launch("swap", swap, out, pes=pes)
    ...     print(ctx.to_numpy(out))
    >>> kb.GraphEngine("single_cube").run(swapped).status
    [1 0]
    'done'
    """

    def __init__(self, runner: KernelRunner, translation: Translation | None) -> None:
        super().__init__(runner, translation)
        # The queues of the last send and receive: queues do not change while a kernel runs.
        self._last_out: Ring | None = None
        self._last_in: Ring | None = None
        self._direction_out: str | None = None
        self._direction_in: str | None = None
        self._plane_out: int | None = None
        self._plane_in: int | None = None

    @property
    def rank(self) -> int | None:
        """The position of the PE in the group whose queues are installed, or None without a group.

        >>> evaluate(lambda tl: tl.rank) is None
        True
        """
        return self._runner.group.rank

    @property
    def world_size(self) -> int:
        """The number of PEs in the group; 0 without one.

        >>> evaluate(lambda tl: tl.world_size)
        0
        """
        return self._runner.group.size

    @property
    def slots(self) -> int:
        """The number of messages that each queue of the PE can hold; 0 without queues.

        >>> evaluate(lambda tl: tl.slots)
        0
        """
        return self._runner.group.slots

    @property
    def slot_bytes(self) -> int:
        """[B] The largest size of a message; 0 without queues.

        >>> evaluate(lambda tl: tl.slot_bytes)
        0
        """
        return self._runner.group.slot_bytes

    def neighbour(self, direction: str, plane: int = 0) -> int | None:
        """The rank of the neighbour in a direction (N, E, S or W) of a plane, or None if there is no neighbour.

        `direction`: N, E, S or W. `plane`: the number of the set of queues, 0 for the first.

        >>> evaluate(lambda tl: tl.neighbour("E")) is None
        True
        """
        ring = self._runner.scheduler.queues.queues_out.get((plane, direction))
        return None if ring is None else ring.target.rank

    def send(self, direction: str, tile: Any, *, plane: int = 0, wait: bool = False) -> Completion:
        """Send a tensor to the neighbour in a direction (N, E, S or W) of a plane; `TlQueues` has an example.

        `direction`: N, E, S or W. `tile`: the tensor. `plane`: the number of the set of queues.

        The transfer waits until the neighbour has a free slot; the kernel does not wait, unless `wait` is True. Returns a
        handle for `wait`. Raises KernelError for a direction without a neighbour, and for a tensor that is larger than a slot.
        The directions REDUCE and MULTICAST belong to queues through switches (docs/reference/queues.md).

        >>> try:
        ...     evaluate(lambda tl: tl.send("E", tl.zeros((1,), "f32")))
        ... except kb.KernbenchError as error:
        ...     print(str(error)[-45:])
        has no queues; install them before the launch
        """
        done = self.send_at(direction, tile, plane, line_at(caller()))
        if wait:
            assert done.flight is not None
            self._runner.wait_for(done.flight, done.handle_id)
        return done

    def send_at(self, direction: str, tile: Any, plane: int, line: str) -> Completion:
        """Send a tensor for the source line of the caller."""
        runner = self._runner
        queues: QueueControl = runner.scheduler.queues
        ring = self._last_out
        if ring is None or direction is not self._direction_out or plane is not self._plane_out:
            ring = self._last_out = self._ring(queues.queues_out, direction, plane, line)
            self._direction_out, self._plane_out = direction, plane
        sent = self.operand_tile(tile, line)
        if sent.nbytes > ring.slot_bytes:
            raise KernelError(
                f"{line}: {sent.handle_id} {sent.dtype}{list(sent.shape)} has {sent.nbytes} bytes, and a slot of the queue to "
                f"{ring.target} has {ring.slot_bytes}; send smaller pieces, or install queues with a larger slot_bytes"
            )
        msg = IpcqSendCmd.__new__(IpcqSendCmd)
        msg.handle, msg.ring, msg.line, msg.op_id, msg._quiet = sent, ring, line, runner.memory.new_id(), False
        msg.dependency_ids, self._after = self._after, ()
        done = Completion.__new__(Completion)
        done.flight, done.op_id = runner.issue(msg, line), msg.op_id
        done.known_name, done.number, done.target = sent.known_name, sent.number, ring.target_name
        return done

    def recv(self, direction: str, shape: Sequence[int] | int, dtype: str, *, plane: int = 0, copy_to: Any = None) -> Any:
        """Wait for the next tensor from the neighbour in a direction, and return it; `TlQueues` has an example.

        `direction`: N, E, S or W. `plane`: the number of the set of queues.

        `shape`, `dtype`: the shape and the type of the tensor that was sent. `copy_to`: a tile, or an address in memory, to
        which the message is copied; this frees its slot. Without `copy_to`, the tensor occupies the slot until nothing uses the
        tensor. Returns the tensor, the tile, or the result of `store`. Raises KernelError for a direction without a neighbour,
        and if the shape or type differs from that of the send.

        >>> try:
        ...     evaluate(lambda tl: tl.recv("W", (1,), "f32"))
        ... except kb.KernbenchError as error:
        ...     print(str(error)[-45:])
        has no queues; install them before the launch
        """
        frame = caller()
        tile = self.receive_at(direction, shape, dtype, plane, line_at(frame))
        assert tile.flight is not None
        self._runner.wait_for(tile.flight, f"a message from {self._source(direction, plane)}")
        if copy_to is None:
            return tile
        if isinstance(copy_to, KernelTensor):
            tl: Any = self  # a TLContext
            made = tl.unary("copy", tile, frame, out=copy_to)
            self.wait(made)
            return made
        return self.store_at(copy_to, tile, line_at(frame), None, True, CHANNELS[0])

    def recv_async(self, direction: str, shape: Sequence[int] | int, dtype: str, *, plane: int = 0) -> KernelTensor:
        """Receive the next tensor without waiting for it; the tensor is in flight, and its first use waits. Raises the same
        errors as `recv`.

        `direction`, `shape`, `dtype`, `plane`: as in `recv`.

        >>> try:
        ...     evaluate(lambda tl: tl.recv_async("W", (1,), "f32"))
        ... except kb.KernbenchError as error:
        ...     print(str(error)[-45:])
        has no queues; install them before the launch
        """
        return self.receive_at(direction, shape, dtype, plane, line_at(caller()))

    def receive_at(self, direction: str, shape: Sequence[int] | int, dtype: str, plane: int, line: str) -> KernelTensor:
        """Receive a tensor for the source line of the caller."""
        runner = self._runner
        queues: QueueControl = runner.scheduler.queues
        ring = self._last_in
        if ring is None or direction is not self._direction_in or plane is not self._plane_in:
            ring = self._last_in = self._ring(queues.queues_in, direction, plane, line)
            self._direction_in, self._plane_in = direction, plane
        lengths = shape if type(shape) is tuple else lengths_of(shape, line)
        nbytes = self.size_of(lengths, dtype, line)
        if nbytes == 0:
            self._refuse_empty(lengths, dtype, line)
        number = ring.received
        slot = ring.address(number)
        if ring.in_scratchpad:
            self._count += 1
            tile = KernelTensor.__new__(KernelTensor)
            tile.known_name, tile.number, tile.shape, tile.dtype, tile.line = None, self._count, lengths, dtype, line
            tile.nbytes = nbytes  # type: ignore[misc]  # no property there
            tile.value = tile.flight = tile.op_id = None
            tile.space, tile.poison, tile.addr = "tcm", "", -1
            tile._tl = self  # type: ignore[assignment]  # it is part of a TLContext
            tile.block = None
        else:
            tile = self.new_tile(lengths, dtype, nbytes, line)
        tile.op = "recv"
        msg = IpcqRecvCmd.__new__(IpcqRecvCmd)
        msg.handle, msg.ring, msg.number, msg.slot, msg.line, msg.message = tile, ring, number, slot, line, None
        msg.op_id, msg._quiet, msg.dependency_ids = runner.memory.new_id(), False, ()
        tile.flight = runner.issue(msg, line)
        ring.received += 1
        if ring.in_scratchpad:
            kept = SlotBlock.__new__(SlotBlock)
            kept._ring, kept._number, kept.addr = ring, number, slot
            tile.block = kept  # type: ignore[assignment]  # it is a slot, and not a piece of the rest
            tile.addr = slot
        return tile

    def _send(self, direction: str, tile: Any, plane: int, line: str) -> Completion:
        """The same as `send_at`, for modules that are not compiled."""
        return self.send_at(direction, tile, plane, line)

    def _receive(self, direction: str, shape: Sequence[int] | int, dtype: str, plane: int, line: str) -> KernelTensor:
        """The same as `receive_at`, for modules that are not compiled."""
        return self.receive_at(direction, shape, dtype, plane, line)

    def _source(self, direction: str, plane: int) -> Any:
        return self._runner.scheduler.queues.queues_in[plane, direction].source

    def _ring(self, queues: dict[tuple[int, str], Ring], direction: str, plane: int, line: str) -> Ring:
        ring = queues.get((plane, direction))
        if ring is None:
            self._refuse_way(queues, direction, plane, line)
        return ring

    def _refuse_way(self, queues: dict[tuple[int, str], Ring], direction: str, plane: int, line: str) -> NoReturn:
        if direction in SWITCH_DIRECTIONS and self._runner.group.rank is not None:
            raise KernelError(
                f"{line}: rank {self._runner.group.rank} ({self._runner.pe.name}) has no queue {direction} through switches in "
                f"plane {plane!r}; install the queue (through_switches) before the launch"
            )
        if direction not in DIRECTIONS:
            raise KernelError(f"{line}: the direction must be one of {', '.join(DIRECTIONS)}, not {direction!r}")
        pe, rank = self._runner.pe.name, self._runner.group.rank
        if rank is None:
            raise KernelError(f"{line}: {pe} has no queues; install them before the launch")
        planes = sorted({number for number, _ in queues})
        if plane not in planes:
            there = f"planes {', '.join(map(str, planes))}" if planes else "no plane"
            raise KernelError(f"{line}: rank {rank} ({pe}) has {there}, and not plane {plane!r}")
        there = ", ".join([one for one in DIRECTIONS if (plane, one) in queues])
        raise KernelError(f"{line}: rank {rank} ({pe}) has no neighbour {direction} in plane {plane}, but {there}")
