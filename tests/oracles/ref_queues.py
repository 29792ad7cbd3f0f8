"""Queues of messages between PEs, written from docs/model/kernels.md: slots, credits, and when a message can be used."""

from __future__ import annotations

from typing import Any, NamedTuple

from .ref_geometry import ceil_div
from .ref_pe import MESSAGE, Command, Pe, Rows, Stage


class Protocol(NamedTuple):
    """How the bytes of messages travel."""

    cycles: int = 0
    data_bytes: int = 1
    line_bytes: int = 1

    def travel(self, nbytes: int) -> int:
        """Bytes of a message with `nbytes` of data."""
        if self.data_bytes == self.line_bytes:
            return nbytes
        return ceil_div(nbytes, self.data_bytes) * self.line_bytes


class Message:
    """A message from its send on. `ready`: the cycle from which it waits for a credit."""

    def __init__(self, tile: Any, command: Command, ready: int) -> None:
        self.place, self.nbytes = tile.address, tile.nbytes
        self.command = command
        self.ready = ready
        self.arrives: int | None = None  # its transfer has ended
        self.visible = 0  # the cycle from which it can be used, but for the messages before it


class Receive(NamedTuple):
    """A receive that has been issued. `due`: the cycle from which it waits for its message."""

    number: int
    command: Command
    due: int
    place: int  # of its tile; -1: it is used in its slot


class Queue:
    """A queue from one PE to another. `back`: [cycle] that a credit takes."""

    def __init__(self, sender: Pe, receiver: Pe, tier: str, addresses: list[int], back: int, protocol: Protocol) -> None:
        self.sender, self.receiver, self.tier, self.protocol = sender, receiver, tier, protocol
        self.addresses = addresses  # of its slots
        self.back = back
        self.credits = [0] * len(addresses)  # the cycles from which they can be used, in order
        self.waiting: list[Message] = []  # without a credit
        self.sent: list[Message] = []  # with one, all of them
        self.posted: list[Receive] = []  # without a message
        self.received = 0  # receives that were issued
        self.taken = 0  # messages that were received
        self.freed: set[int] = set()
        self.tail = 0  # messages whose slots are free again

    # The sender's side.

    def send(self, tile: Any, command: Command) -> None:
        """A send is issued. The kernel does not wait for its credit."""
        pe = self.sender
        message = Message(tile, command, pe.now + pe.keys.cycles + pe.keys.queue_cycles)
        pe.open.append(command)
        self.waiting.append(message)
        pe.plan(MESSAGE, message.ready, self._start)

    def _start(self, cycle: int) -> None:
        """Start the transfers that can start."""
        while self.waiting and self.waiting[0].ready <= cycle and self.credits:
            if self.credits[0] > cycle:
                self.sender.plan(MESSAGE, self.credits[0], self._start)
                return
            self.credits.pop(0)
            message = self.waiting.pop(0)
            slot = self.addresses[len(self.sent) % len(self.addresses)]
            self.sent.append(message)
            self._move(message, slot)

    def _move(self, message: Message, slot: int) -> None:
        pe, nbytes = self.sender, self.protocol.travel(message.nbytes)
        if self.tier == "tcm":
            width = pe.spm.width
            place = min(message.place, (pe.size - nbytes) // width * width)  # lines of a protocol may be longer than the tile
            job = {"opcode": "DMA_SEND_TILE", "tensor_role": "weight", "qbits": 8, "num_elements": nbytes, "channel": "comm"}
            job |= pe.at("spm", place) | pe.at("peer", slot) | {"peer": self.receiver.name}
        else:
            job = pe.transfer("DMA_STORE_TILE", slot, Rows(0, 1, nbytes, 0), message.place, "comm")

        def over(cycle: int) -> None:
            message.arrives, message.visible = cycle, cycle + self.protocol.cycles
            if self.posted and self._inbox > 0:
                self.receiver.plan(MESSAGE, max(message.visible, self.posted[0].due), self._take)
            pe.end(message.command)

        pe.serve(Stage("ipcq_copy", over, [job], self.receiver.name), pe.fewest("comm"))

    @property
    def _inbox(self) -> int:
        """Messages that have arrived after all that were sent before them, and were not received."""
        arrived = 0
        for message in self.sent[self.taken :]:
            if message.arrives is None:
                break
            arrived += 1
        return arrived

    # The receiver's side.

    def receive(self, command: Command, place: int) -> int:
        """A receive is issued; the number of its message."""
        pe = self.receiver
        receive = Receive(self.received, command, pe.now + pe.keys.cycles + pe.keys.queue_cycles, place)
        pe.open.append(command)
        self.received += 1
        self.posted.append(receive)
        if self._inbox:
            pe.plan(MESSAGE, receive.due, self._take)
        return receive.number

    def _take(self, cycle: int) -> None:
        """Give messages to the receives that wait for them."""
        pe = self.receiver
        while self.posted and self._inbox:
            first, message = self.posted[0], self.sent[self.taken]
            if max(first.due, message.visible) > cycle:
                pe.plan(MESSAGE, max(first.due, message.visible), self._take)
                return
            self.posted.pop(0)
            self.taken += 1
            if first.place < 0:
                pe.end(first.command)
                continue
            slot = self.addresses[first.number % len(self.addresses)]
            rows = Rows(0, 1, self.protocol.travel(message.nbytes), 0)
            job = pe.transfer("DMA_LOAD_TILE", slot, rows, first.place, "comm")
            pe.serve(Stage("dma_read", self._read(first), [job]), pe.fewest("comm"))

    def _read(self, receive: Receive) -> Any:
        """The end of a transfer out of a slot in memory."""

        def over(cycle: int) -> None:
            self.free(receive.number)
            self.receiver.end(receive.command)

        return over

    def free(self, number: int) -> None:
        """The slot of a message is needed no more. Slots are freed in the order of their messages."""
        self.freed.add(number)
        while self.tail in self.freed:
            self.tail += 1
            at = self.receiver.now + self.back
            self.credits.append(at)
            if self.waiting:
                self.sender.plan(MESSAGE, at, self._start)


def slot_addresses(first: int, slots: int, nbytes: int) -> list[int]:
    """Slots of `nbytes` each, one after the other."""
    return [first + i * nbytes for i in range(slots)]
