"""A queue between two PEs: its slots lie at the receiver, and the sender may fill as many as it has credits for."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from kernbench.components.builtin.fifo import Fifo
from kernbench.components.builtin.flight import Flight, Reach

if TYPE_CHECKING:
    from kernbench.common.queue_ops import IpcqSendCmd
    from kernbench.components.builtin.pe_ipcq import PeIpcq

DIRECTIONS = ("N", "E", "S", "W")
TIERS = ("tcm", "sram", "hbm")


class Protocol(NamedTuple):
    """How the bytes of messages travel (docs/model/kernels.md)."""

    cycles: int = 0  #: from the end of a transfer until the receiver may use the message
    data_bytes: int = 1  #: in each line
    line_bytes: int = 1


PLAIN = Protocol()


def _no_wake(component: int, cycle: int) -> None:
    """Nothing runs yet."""


class QueueClock:
    """The data that all queues of a machine share: the time, and the function with which one PE wakes another."""

    def __init__(self) -> None:
        self.now = 0  #: [cycle] of the current call of the core
        self.wake: Callable[[int, int], None] = _no_wake  #: a component, by its position, runs in a cycle
        self.ended: tuple[int, ...] = ()  #: of a traced run: the command whose end is being reported


@dataclass(frozen=True)
class End:
    """One side of a queue, as kernels and errors name it."""

    rank: int
    pe: str  #: `sip0.cube3.pe1`
    direction: str
    plane: int

    def __str__(self) -> str:
        return f"rank {self.rank} ({self.pe}) {self.direction}" + (f" of plane {self.plane}" if self.plane else "")


class Ring:
    """From one PE to another: messages arrive in the order of their sends, and slots become free in that order as well."""

    def __init__(
        self,
        source: End,
        target: End,
        sender: PeIpcq,
        receiver: PeIpcq,
        *,
        slots: int,
        slot_bytes: int,
        tier: str,
        clock: QueueClock,
        protocol: Protocol = PLAIN,
    ) -> None:
        self.source = source
        self.target = target
        self.target_name = str(target)  # given by every send
        self.sender = sender
        self.receiver = receiver
        self.slots, self.slot_bytes, self.tier = slots, slot_bytes, tier
        self.in_scratchpad = tier == "tcm"
        self.clock = clock
        self.protocol = protocol
        self.flag_cycles = protocol.cycles  #: from the end of a transfer until the receiver may use the message
        self.data_bytes, self.line_bytes = protocol.data_bytes, protocol.line_bytes
        self.slot_room = self.travel(slot_bytes)  #: [byte] of a slot in memory
        self.first_slot = 0  #: its address
        self.room = 0  #: [byte] from one slot to the next
        self.line = 1  #: [byte] of the scratchpads
        self.reach: Reach | None = None  #: to the receiver's scratchpad
        self.credit_cycles = 0  #: [cycle] until a credit is back
        self.switch: Any = None  #: the `SwitchQueue` that it is a part of
        self.finished: list[Any] = []  #: messages of it that a switch has combined with others
        # The sender's side.
        self.messages = Fifo()  #: each an `IpcqSendCmd`: first those of `inbox`, then those in flight, then those that wait
        self.waiting = 0  #: messages without a credit
        self.sent = 0  #: sends that took a credit
        self.in_flight = 0  #: messages whose transfer has not ended, or that have overtaken one
        self.last_credit = 0  #: [cycle] from which the last credit can be used
        self._usable = [0] * slots  # [cycle] the same for the credit of each slot
        self.last_send = ""  #: line of the last one that was received
        # The receiver's side.
        self.inbox = 0  #: messages that the receiver sees
        self.posted: Flight | None = None  #: the first waiting receive; each can be served from the cycle in which it is due
        self._last_posted: Flight | None = None
        self.received = 0  #: receives that were issued
        self.taken = 0  #: messages that were received
        self.tail = 0  #: messages whose slots are free again
        self.freed: set[int] = set()  #: after the first slot that is not free
        self.last_recv = ""
        self.freed_by: dict[int, tuple[int, ...]] = {}  #: in a traced run, by message: commands that released its slots

    @property
    def used(self) -> int:
        """Slots that are taken: messages in flight, waiting, or in use."""
        return self.sent - self.tail

    @property
    def idle(self) -> bool:
        """Whether the ring is empty and has no waiters."""
        return not (self.used or self.waiting or self.posted)

    def put(self, message: IpcqSendCmd) -> None:
        """A message waits for a credit."""
        self.messages.put(message)
        self.waiting += 1

    def next_message(self) -> IpcqSendCmd:
        """The first message that waits; there must be one."""
        return self.messages.at(self.inbox + self.in_flight)  # type: ignore[no-any-return]

    def next_credit(self) -> int:
        """[cycle] from which the next message can start; there must be a credit."""
        return self._usable[self.sent % self.slots]

    def start(self, message: IpcqSendCmd) -> None:
        """The first message that waits takes a credit, and has its slot."""
        message.slot = self.address(self.sent)
        self.sent += 1
        self.waiting -= 1
        self.in_flight += 1

    def post(self, flight: Flight) -> None:
        """A receive waits for a message."""
        if self._last_posted is None:
            self.posted = flight
        else:
            self._last_posted.behind = flight
        self._last_posted = flight

    def take_posted(self) -> None:
        """The first receive has its message."""
        flight = self.posted
        assert flight is not None
        self.posted, flight.behind = flight.behind, None
        if self.posted is None:
            self._last_posted = None

    def travel(self, nbytes: int) -> int:
        """Bytes that a message of `nbytes` travels as, and takes in a slot: whole lines of its protocol."""
        if self.data_bytes == self.line_bytes:
            return nbytes
        return -(-nbytes // self.data_bytes) * self.line_bytes

    def lay_out(self, first: int, room: int) -> None:
        """Its slots begin at an address and have a fixed distance in bytes."""
        self.first_slot, self.room = first, room

    def address(self, number: int) -> int:
        """The address of the slot of a message, which is given by its number."""
        return self.first_slot + number % self.slots * self.room

    def free_all(self) -> None:
        """The receiving program has ended: its tensors no longer own their slots, even if something keeps them."""
        for number in range(self.tail, self.taken):
            self.free(number)

    def free(self, number: int) -> None:
        """The slot of a received message is needed no more; credits of all that are free in order go back."""
        if number != self.tail:
            if number > self.tail:
                self.freed.add(number)
            return
        while True:
            by = self.clock.ended or self.receiver.scheduler.after
            if by:
                self.freed_by[self.tail] = by
            at = self.clock.now + self.credit_cycles
            self._usable[self.tail % self.slots] = at
            if at > self.last_credit:
                self.last_credit = at
            self.tail += 1
            first: Ring = self if self.switch is None else self.switch.lead
            if first.waiting:
                first.sender.look(at, first)
            if self.tail not in self.freed:
                return
            self.freed.discard(self.tail)


class SlotBlock:
    """Keeps a slot of a scratchpad, until the last handle or command that needs it is gone."""

    def __init__(self, ring: Ring, number: int, addr: int) -> None:
        self._ring = ring
        self._number = number
        self.addr = addr  #: of the slot

    def __del__(self) -> None:
        self._ring.free(self._number)
