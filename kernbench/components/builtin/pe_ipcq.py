"""The queues of a PE: who may send, what has come, which slots are free; PE_DMA moves the bytes (docs/adr/0027)."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from kernbench.common.naming import PE_IPCQ
from kernbench.common.pe_commands import DmaReadCmd, IpcqRecvCmd, IpcqSendCmd
from kernbench.components.base import DMA, NEVER, Clock
from kernbench.components.builtin.flight import Flight, Order
from kernbench.components.builtin.ipcq_ring import Message, QueueClock, Ring
from kernbench.components.builtin.part import PePart
from kernbench.components.builtin.pe_dma import PeDma

if TYPE_CHECKING:
    from kernbench.components.builtin.pe_scheduler import CommandQueue

COMM = 3  #: channel of the DMA engines


class PeIpcq(PePart, kind=PE_IPCQ):
    """Serves sends and receives: each takes `cycles`, then the queue's order, a credit or a message lets it go on."""

    # fmt: off
    __slots__ = (
        "_count", "_cycles", "_dma", "_due", "component", "done", "queues_in", "queues_out",
        "record_copy", "scheduler", "time",
    )
    # fmt: on

    serves = (IpcqSendCmd, IpcqRecvCmd)
    engine_type = DMA

    def __init__(
        self,
        node_id: str,
        engines: Sequence[int],
        clock: Clock,
        base: int,
        dma: PeDma,
        time: QueueClock,
        *,
        cycles: int,
    ) -> None:
        super().__init__(node_id, engines, clock, base)
        self._cycles = cycles
        self._dma = dma
        self._due: list[tuple[int, int, Ring]] = []  # queues to look at: when, order, which
        self._count = 0
        self.time = time
        self.scheduler: CommandQueue
        self.record_copy: Callable[..., int] | None = None  #: of the op log
        self.component = -1  #: position in the core of what stands for the PE
        self.done: list[Flight] = []  #: receives that have just ended
        self.queues_out: dict[tuple[int, str], Ring] = {}  #: by plane and direction
        self.queues_in: dict[tuple[int, str], Ring] = {}

    def orders(self, msg: Any) -> Sequence[Order]:
        """What a send or receive moves is known when its turn comes."""
        return ()

    def opcode(self, msg: Any) -> str:
        return "IPCQ_SEND" if isinstance(msg, IpcqSendCmd) else "IPCQ_RECV"

    def begin(self, flight: Flight, now: int) -> None:
        """The scheduler hands a command over, in a cycle that may be still to come."""
        msg, ready = flight.msg, now + self._cycles
        ring: Ring = msg.ring
        if type(msg) is IpcqSendCmd:
            msg.message = Message(flight, ready)
            ring.waiting.append(msg.message)
            self.look(ready, ring)
        else:
            ring.posted.append((ready, flight))
            if ring.inbox:  # else it is looked at when a message comes
                self.look(ready, ring)

    def look(self, cycle: int, ring: Ring) -> None:
        """Something of a queue can go on in that cycle, which has not begun."""
        self._count += 1
        heapq.heappush(self._due, (cycle, self._count, ring))
        if cycle < self.next_due:
            self.next_due = cycle
            if cycle < self.scheduler.next_due:
                self.scheduler.next_due = cycle
            self.time.wake(self.component, cycle)

    def deliver(self, now: int) -> None:
        """P1: sends and receives whose turn has come."""
        due = self._due
        while due and due[0][0] <= now:
            ring = heapq.heappop(due)[2]
            if ring.sender is self:
                self._send(ring, now)
            else:
                self._receive(ring, now)
        self.next_due = due[0][0] if due else NEVER

    def _send(self, ring: Ring, now: int) -> None:
        waiting, credits = ring.waiting, ring.credits
        while waiting and waiting[0].ready <= now:
            if not credits:
                return
            if credits[0] > now:
                self.look(credits[0], ring)
                return
            credits.popleft()
            message = waiting.popleft()
            message.slot = ring.address(ring.sent)
            ring.sent += 1
            ring.in_flight.append(message)
            self.scheduler.put(message.flight, self.choose(), self._move(ring, message))
            message.flight = None

    def _move(self, ring: Ring, message: Message) -> Sequence[Order]:
        """The transfer of a message into its slot."""
        place, nbytes = message.src - self.base, message.nbytes
        if ring.tier == "tcm":
            before = place % ring.line  # whole lines travel: what lies before it in its first one goes with it
            travel = min(before + nbytes, ring.room)
            there = message.slot - ring.receiver.base
            return (((COMM, 1, there, travel, travel, 1, *ring.way), ((place - before, travel, 0),)),)
        return self._dma.piece(COMM, 1, place, message.slot, nbytes, message.line)

    def _receive(self, ring: Ring, now: int) -> None:
        posted, inbox = ring.posted, ring.inbox
        while inbox and posted and posted[0][0] <= now:
            flight = posted.popleft()[1]
            message = inbox.popleft()
            ring.taken += 1
            msg = flight.msg
            msg.message = message
            ring.last_send, ring.last_recv = message.line, msg.line
            if ring.tier == "tcm":
                flight.start = flight.end = now
                flight.command = message.command
                del self.scheduler.open[flight]
                self.done.append(flight)
            else:
                if message.command >= 0:
                    flight.after = (*flight.after, message.command)
                place = msg.handle.addr - self.base
                read = self._dma.piece(COMM, 0, place, msg.slot, message.nbytes, flight.line)
                self.scheduler.put(flight, self.choose(), read)
        if inbox and posted:  # two messages came at once, and the second receive is not ready yet
            self.look(posted[0][0], ring)

    def ended(self, flight: Flight) -> None:
        """A transfer has ended: a message is in its slot, or out of it."""
        msg = flight.msg
        if isinstance(msg, IpcqSendCmd):
            self._arrived(msg, flight)
        elif msg.ring.tier != "tcm":
            self._taken(msg, flight)

    def _arrived(self, msg: IpcqSendCmd, flight: Flight) -> None:
        """Head and data come together, in the order of the sends."""
        ring, message = msg.ring, msg.message
        message.arrived, message.command = True, flight.command
        if self.record_copy is not None:
            self._record_arrival(msg, flight, self.record_copy)
        came = False
        while ring.in_flight and ring.in_flight[0].arrived:
            ring.inbox.append(ring.in_flight.popleft())
            came = True
        if came and ring.posted:
            ring.receiver.look(max(flight.end, ring.posted[0][0]), ring)

    def _taken(self, msg: IpcqRecvCmd, flight: Flight) -> None:
        """Bytes of a slot in memory are in the scratchpad: the slot is free."""
        message = msg.message
        if self._op_logger is not None:
            read = DmaReadCmd(msg.handle, msg.slot, message.nbytes, msg.ring.tier, channel="comm")
            read.op_id, read.line, read.dependency_ids = msg.op_id, msg.line, (message.op_id,)
            self._dma._on_process_start(self.clock.at(flight.start), read)
            self._dma._on_process_end(self.clock.at(flight.end), read)
        msg.ring.free(msg.number)

    def _record_arrival(self, msg: IpcqSendCmd, flight: Flight, record_copy: Callable[..., int]) -> None:
        ring, message, made_by = msg.ring, msg.message, msg.handle.op_id
        record_copy(
            self.clock.at(flight.start).now,
            self.clock.at(flight.end).now,
            ring.receiver._dma.node_id,
            src_space="tcm",
            src_addr=message.src,
            dst_space=ring.tier,
            dst_addr=message.slot,
            shape=message.shape,
            dtype=message.dtype,
            nbytes=message.nbytes,
            snapshot=message.value,
            line=message.line,
            dependency_ids=msg.dependency_ids if made_by is None else (*msg.dependency_ids, made_by),
            op_id=message.op_id,
        )
