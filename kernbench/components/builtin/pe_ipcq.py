"""The queues of a PE: credits, arrived messages, free slots. PE_DMA moves the bytes (docs/model/kernels.md)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from heapq import heappop, heappush
from typing import TYPE_CHECKING, Any

from kernbench.common.handles import TensorHandle
from kernbench.common.naming import PE_IPCQ
from kernbench.common.pe_ops import DmaReadCmd, MathCmd
from kernbench.common.queue_ops import IpcqRecvCmd, IpcqSendCmd
from kernbench.components.base import DMA, NEVER, Clock, Typed
from kernbench.components.builtin.flight import Flight, Order, Reach
from kernbench.components.builtin.ipcq_ring import QueueClock, Ring
from kernbench.components.builtin.part import PePart, Serving
from kernbench.components.builtin.pe_dma import PeDma
from kernbench.components.builtin.switch_queue import SwitchQueue
from kernbench_core.numbers import COMM_CHANNEL

if TYPE_CHECKING:
    from kernbench.components.builtin.pe_scheduler import CommandQueue

COMM = COMM_CHANNEL  # a global of this module: every send looks it up


class QueueControl(Serving):
    """Serves sends and receives: each takes `cycles`, and then waits for its turn in the queue, a credit or a message."""

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
        # Queues to look at. The first is not in the heap, because most PEs have to look at only one.
        self._first: Ring | None = None
        self._first_cycle, self._first_order = NEVER, 0
        self._later: list[tuple[int, int, Ring]] = []  # a heap: when, order, which
        self._count = 0
        self.time = time
        self.scheduler: CommandQueue
        self.record_copy: Callable[..., int] | None = None  #: of the op log
        self.component = -1  #: position in the core of the component that represents the PE
        self.done: list[Flight] = []  #: receives that have just ended
        self.queues_out: dict[tuple[int, str], Ring] = {}  #: by plane and direction
        self.queues_in: dict[tuple[int, str], Ring] = {}

    def orders(self, msg: Any) -> Sequence[Order]:
        """The address of a send or receive is known only when it is its turn."""
        return ()

    def opcode(self, msg: Any) -> str:
        return "IPCQ_SEND" if isinstance(msg, IpcqSendCmd) else "IPCQ_RECV"

    def begin(self, flight: Flight, now: int) -> None:
        """The scheduler hands a command over, in a cycle that may be still to come."""
        ready = now + self._cycles
        if type(flight.msg) is IpcqSendCmd:
            message: IpcqSendCmd = flight.msg
            ring: Ring = message.ring
            tile: TensorHandle = message.handle  # type: ignore[assignment]  # until it has arrived
            message.flight, message.ready, message.src = flight, ready, tile.addr
            message.slot, message.arrived, message.command = -1, False, -1
            message.shape, message.dtype, message.nbytes, message.value = tile.shape, tile.dtype, tile.nbytes, tile.value
            message.parts, message.mismatch = None, ""
            ring.put(message)
            if ring.switch is None or ring is ring.switch.lead:
                self._expect(ready, ring)
            else:  # another PE carries it
                lead: Ring = ring.switch.lead
                lead.sender.look(max(ready, self.time.now + 1), lead)
        else:
            ring = flight.msg.ring
            flight.due = ready
            ring.post(flight)
            if ring.inbox:  # otherwise it is checked when a message arrives
                self._expect(ready, ring)

    def look(self, cycle: int, ring: Ring) -> None:
        """Another PE or the end of a job wakes a queue in this cycle, which has not begun."""
        if self._expect(cycle, ring):
            self.time.wake(self.component, cycle)

    def _expect(self, cycle: int, ring: Ring) -> bool:
        """A queue can continue in this cycle. Return whether it is the first queue that can. A running processor reports this
        itself when it returns.
        """
        self._count += 1
        if cycle >= self._first_cycle:
            heappush(self._later, (cycle, self._count, ring))
        else:
            if self._first is not None:
                heappush(self._later, (self._first_cycle, self._first_order, self._first))
            self._first, self._first_cycle, self._first_order = ring, cycle, self._count
        if cycle >= self.next_due:
            return False
        self.next_due = cycle
        if cycle < self.scheduler.next_due:
            self.scheduler.next_due = cycle
        return True

    def deliver(self, now: int) -> None:
        """P1: continue sends and receives that are due."""
        while self._first_cycle <= now:
            ring: Ring = self._first  # type: ignore[assignment]  # there is one in this cycle
            if self._later:
                self._first_cycle, self._first_order, self._first = heappop(self._later)
            else:
                self._first_cycle, self._first = NEVER, None
            if ring.sender is self:
                self._send(ring, now)
            else:
                self._receive(ring, now)
        self.next_due = self._first_cycle

    def _send(self, ring: Ring, now: int) -> None:
        if ring.switch is not None:
            self._send_through_switch(ring, now)
            return
        while ring.waiting:
            message: IpcqSendCmd = ring.next_message()
            if message.ready > now or ring.sent - ring.tail == ring.slots:
                return
            if ring.last_credit > now:
                credit = ring.next_credit()
                if credit > now:
                    self._expect(credit, ring)
                    return
            if ring.freed_by:
                flight: Flight = message.flight
                flight.after = (*flight.after, *ring.freed_by.pop(ring.sent - ring.slots, ()))
            ring.start(message)
            self._move(ring, message)
            message.flight = None

    def _send_through_switch(self, ring: Ring, now: int) -> None:
        queue: SwitchQueue = ring.switch
        if ring is not queue.lead:
            self._combined(ring, now)
            return
        at = queue.due(now)
        while at <= now:
            message = queue.take()
            self._move(ring, message)
            message.flight = None
            at = queue.due(now)
        if at < NEVER:
            self._expect(at, ring)

    def _combined(self, ring: Ring, now: int) -> None:
        """A switch has combined messages of this PE with those of others: their sends have ended."""
        for message in ring.finished:
            flight: Flight = message.flight
            flight.start = flight.end = now
            flight.command = message.command
            message.flight = message.handle = None
            self.scheduler.open.remove(flight)
            self.done.append(flight)
        ring.finished.clear()

    def _move(self, ring: Ring, message: IpcqSendCmd) -> None:
        """The transfer of a message into its slot."""
        flight: Flight = message.flight
        place = message.src - self.base
        if not ring.in_scratchpad:
            orders = self._dma.piece(COMM, 1, place, message.slot, ring.travel(message.nbytes), message.line)
            self.scheduler.put(flight, self.choose(), orders)
            return
        before = place % ring.line  # whole lines are moved, including the bytes before it in its first line
        travel = before + ring.travel(message.nbytes)
        if travel > ring.room:
            travel = ring.room
        first = place - before
        if first + travel > self._dma._room:  # the lines of a protocol are longer than the tile: the last lines instead
            first = (self._dma._room - travel) // ring.line * ring.line
        receiver: Serving = ring.receiver
        flight.addr, flight.place, flight.travel, flight.reach = message.slot - receiver.base, first, travel, ring.reach
        flight.plain = True
        self.scheduler.hand_over(flight)

    def send(self, processor: Typed, flight: Flight) -> int:
        """A message from scratchpad to scratchpad."""
        reach: Reach = flight.reach
        engine, travel = self.engine_of(flight), flight.travel
        return processor.submit_transfer(
            engine, COMM, True, flight.addr, travel, reach.memory, reach.route, flight.place, travel, reach.peer
        )

    def _receive(self, ring: Ring, now: int) -> None:
        while ring.inbox and ring.posted is not None:
            flight: Flight = ring.posted
            if flight.due > now:  # two messages came at once, and the second receive is not ready yet
                self._expect(flight.due, ring)
                return
            message: IpcqSendCmd = ring.messages.at(0)
            if message.visible > now:  # its flag is still to come
                self._expect(message.visible, ring)
                return
            ring.take_posted()
            ring.messages.take()
            ring.inbox -= 1
            ring.taken += 1
            msg: IpcqRecvCmd = flight.msg
            msg.message = message
            ring.last_send, ring.last_recv = message.line, msg.line
            if ring.in_scratchpad:
                flight.start = flight.end = now
                if flight.due < now:  # otherwise the message was already there, and the kernel did not wait for it
                    flight.command = message.command
                self.scheduler.open.remove(flight)
                self.done.append(flight)
            else:
                if message.command >= 0:
                    flight.after = (*flight.after, message.command)
                    if ring.flag_cycles:
                        flight.visible = message.visible
                place = msg.handle.addr - self.base
                read = self._dma.piece(COMM, 0, place, msg.slot, ring.travel(message.nbytes), flight.line)
                self.scheduler.put(flight, self.choose(), read)

    def ended(self, flight: Flight) -> None:
        """A transfer has ended: a message is in its slot, or out of it."""
        if type(flight.msg) is IpcqSendCmd:
            self._arrived(flight.msg, flight)
            return
        receive: IpcqRecvCmd = flight.msg
        ring: Ring = receive.ring
        if not ring.in_scratchpad:
            self._taken(receive, flight)

    def _arrived(self, message: IpcqSendCmd, flight: Flight) -> None:
        """Head and data come together, in the order of the sends."""
        ring: Ring = message.ring
        if message.parts is not None:
            self._out_of_switch(message, flight)
            return
        message.arrived, message.command = True, flight.command
        message.visible = flight.end + ring.flag_cycles
        if self.record_copy is not None and ring.switch is None:
            self._record_arrival(message, flight, self.record_copy)
        came = False
        while ring.in_flight:
            oldest: IpcqSendCmd = ring.messages.at(ring.inbox)
            if not oldest.arrived:
                break
            ring.in_flight -= 1
            ring.inbox += 1
            came = True
        if came and ring.posted is not None:
            first: Flight = ring.posted
            receiver: Serving = ring.receiver
            receiver.look(message.visible if message.visible > first.due else first.due, ring)
        message.handle = None  # the sender's tile is free

    def _out_of_switch(self, message: IpcqSendCmd, flight: Flight) -> None:
        """Combined messages have arrived as one message, or one message has arrived at all members."""
        parts, message.parts = message.parts, None
        queue: SwitchQueue = message.ring.switch
        if not queue.op:
            for part in parts:
                if self.record_copy is not None:
                    self._record_arrival(part, flight, self.record_copy)
                self._arrived(part, flight)
            return
        if self.record_copy is not None and not message.mismatch:
            self._record_combined(message, parts, flight, self.record_copy)
        for part in parts:
            if part is not message:
                part.command = flight.command
                part.ring.finished.append(part)
                part.ring.sender.look(flight.end, part.ring)
        message.value = None
        self._arrived(message, flight)

    def _record_combined(
        self, message: IpcqSendCmd, parts: Sequence[Any], flight: Flight, record_copy: Callable[..., int]
    ) -> None:
        """A copy of the first member's tile into the slot, then an op for each other member."""
        ring: Ring = message.ring
        dma: Any = ring.receiver._dma
        first, slot = parts[0], TensorHandle("slot", message.slot, message.shape, message.dtype)
        last = message.op_id
        first.op_id, first.slot = None, message.slot
        before = self._record_arrival(first, flight, record_copy)
        for part in parts[1:]:
            tile = TensorHandle("part", part.src, part.shape, part.dtype, value=part.value)
            made_by = () if part.handle.op_id is None else (part.handle.op_id,)
            op = MathCmd(ring.switch.op, (slot, tile), slot)
            op.op_id, op.line = last if part is parts[-1] else None, part.line
            op.dependency_ids = (before, *part.dependency_ids, *made_by)
            dma._on_process_start(self.clock.at(flight.start), op)
            dma._on_process_end(self.clock.at(flight.end), op)
        message.op_id = last

    def _taken(self, msg: IpcqRecvCmd, flight: Flight) -> None:
        """Bytes of a slot in memory are in the scratchpad: the slot is free."""
        message: IpcqSendCmd = msg.message
        if self._op_logger is not None:
            read = DmaReadCmd(msg.handle, msg.slot, message.nbytes, msg.ring.tier, channel="comm")
            assert message.op_id is not None
            read.op_id, read.line, read.dependency_ids = msg.op_id, msg.line, (message.op_id,)
            dma: Any = self._dma
            dma._on_process_start(self.clock.at(flight.start), read)
            dma._on_process_end(self.clock.at(flight.end), read)
        msg.ring.free(msg.number)

    def _record_arrival(self, message: IpcqSendCmd, flight: Flight, record_copy: Callable[..., int]) -> int:
        ring: Ring = message.ring
        assert message.handle is not None
        made_by = message.handle.op_id
        message.op_id = record_copy(
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
            dependency_ids=message.dependency_ids if made_by is None else (*message.dependency_ids, made_by),
            op_id=message.op_id,
        )
        return message.op_id


class PeIpcq(QueueControl, PePart, kind=PE_IPCQ):
    """The queues of one PE."""

    __slots__ = ()

    serves = (IpcqSendCmd, IpcqRecvCmd)
    engine_type = DMA
