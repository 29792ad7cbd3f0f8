"""Queues of messages between PEs, written from docs/model/kernels.md: slots, credits, and when a message can be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
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

    @classmethod
    def copy(cls, message: Message) -> Message:
        """The same message for another receiver."""
        made = cls.__new__(cls)
        made.__dict__.update(message.__dict__)
        return made


class Receive(NamedTuple):
    """A receive that has been issued. `due`: the cycle from which it waits for its message."""

    number: int
    command: Command
    due: int
    place: int  # of its tile; -1: it is used in its slot


class Inbox:
    """The receiver's side of a queue: its slots and messages. `back`: [cycle] that a credit takes. `goes_on(at)` is called with
    the cycle in which a credit arrives."""

    def __init__(
        self, receiver: Pe, tier: str, addresses: list[int], back: int, protocol: Protocol, goes_on: Callable[[int], None]
    ) -> None:
        self.receiver, self.tier, self.protocol, self.goes_on = receiver, tier, protocol, goes_on
        self.addresses = addresses  # of its slots
        self.back = back
        self.credits = [0] * len(addresses)  # the cycles from which they can be used, in order
        self.sent: list[Message] = []  # that have a slot, all of them
        self.posted: list[Receive] = []  # without a message
        self.received = 0  # receives that were issued
        self.taken = 0  # messages that were received
        self.freed: set[int] = set()
        self.tail = 0  # messages whose slots are free again

    def take_slot(self, message: Message) -> int:
        """The slot of a message whose transfer starts."""
        self.credits.pop(0)
        self.sent.append(message)
        return self.addresses[(len(self.sent) - 1) % len(self.addresses)]

    def arrive(self, message: Message, cycle: int) -> None:
        """The transfer of a message has ended."""
        message.arrives, message.visible = cycle, cycle + self.protocol.cycles
        if self.posted and self._arrived > 0:
            self.receiver.plan(MESSAGE, max(message.visible, self.posted[0].due), self._take)

    @property
    def _arrived(self) -> int:
        """Messages that have arrived after all that were sent before them, and were not received."""
        arrived = 0
        for message in self.sent[self.taken :]:
            if message.arrives is None:
                break
            arrived += 1
        return arrived

    def receive(self, command: Command, place: int) -> int:
        """A receive is issued; the number of its message."""
        pe = self.receiver
        receive = Receive(self.received, command, pe.now + pe.keys.cycles + pe.keys.queue_cycles, place)
        pe.open.append(command)
        self.received += 1
        self.posted.append(receive)
        if self._arrived:
            pe.plan(MESSAGE, receive.due, self._take)
        return receive.number

    def _take(self, cycle: int) -> None:
        """Give messages to the receives that wait for them."""
        pe = self.receiver
        while self.posted and self._arrived:
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

    def _read(self, receive: Receive) -> Callable[[int], None]:
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
            self.goes_on(at)


class Queue:
    """A queue from one PE to another."""

    def __init__(self, sender: Pe, receiver: Pe, tier: str, addresses: list[int], back: int, protocol: Protocol) -> None:
        self.sender, self.tier, self.protocol = sender, tier, protocol
        self.inbox = Inbox(receiver, tier, addresses, back, protocol, self._credit)
        self.waiting: list[Message] = []  # without a credit

    def send(self, tile: Any, command: Command) -> None:
        """A send is issued. The kernel does not wait for its credit."""
        pe = self.sender
        message = Message(tile, command, pe.now + pe.keys.cycles + pe.keys.queue_cycles)
        pe.open.append(command)
        self.waiting.append(message)
        pe.plan(MESSAGE, message.ready, self._start)

    def _credit(self, at: int) -> None:
        if self.waiting:
            self.sender.plan(MESSAGE, at, self._start)

    def _start(self, cycle: int) -> None:
        """Start the transfers that can start."""
        credits = self.inbox.credits
        while self.waiting and self.waiting[0].ready <= cycle and credits:
            if credits[0] > cycle:
                self.sender.plan(MESSAGE, credits[0], self._start)
                return
            message = self.waiting.pop(0)
            self._move(message, self.inbox.take_slot(message))

    def _move(self, message: Message, slot: int) -> None:
        pe, nbytes = self.sender, self.protocol.travel(message.nbytes)
        if self.tier == "tcm":
            job = between(pe, message.place, self.inbox.receiver, slot, nbytes)
        else:
            job = pe.transfer("DMA_STORE_TILE", slot, Rows(0, 1, nbytes, 0), message.place, "comm")

        def over(cycle: int) -> None:
            self.inbox.arrive(message, cycle)
            pe.end(message.command)

        pe.serve(Stage("ipcq_copy", over, [job], self.inbox.receiver.name), pe.fewest("comm"))


class SwitchQueue:
    """A queue through switches: `REDUCE` or `MULTICAST`. `hops`: the edges of all routes of its members, each once; `head`: the
    latency of the longest route; `op`: which combines messages."""

    def __init__(
        self, kind: str, members: Sequence[Pe], root: Pe, slots: dict[str, list[int]], backs: dict[str, int], hops: list[Any],
        head: int, op: str, protocol: Protocol,
    ) -> None:  # fmt: skip
        """`slots` and `backs`: by the names of receivers."""
        self.root, self.hops, self.head, self.op, self.protocol = root, hops, head, op, protocol
        after = members[(list(members).index(root) + 1) % len(members)]
        self.reduces = kind == "REDUCE"
        self.carrier = after if self.reduces else root
        self.target = root if self.reduces else after  # in whose scratchpad the ports are used
        senders = members if self.reduces else [root]
        self.waiting: dict[str, list[Message]] = {pe.name: [] for pe in senders}
        self.senders = {pe.name: pe for pe in senders}
        receivers = [root] if self.reduces else [pe for pe in members if pe is not root]
        self.inboxes = {
            pe.name: Inbox(pe, "tcm", slots[pe.name], backs[pe.name], protocol, self._credit) for pe in receivers
        }

    def send_of(self, pe: Pe) -> Callable[[Any, Command], None]:
        """What a send of a member does."""

        def send(tile: Any, command: Command) -> None:
            ready = pe.now + pe.keys.cycles + pe.keys.queue_cycles
            if pe is not self.carrier:
                ready = max(ready, pe.now + 1)
            pe.open.append(command)
            self.waiting[pe.name].append(Message(tile, command, ready))
            self.carrier.plan(MESSAGE, ready, self._start)

        return send

    def _credit(self, at: int) -> None:
        if self.waiting[self.carrier.name]:
            self.carrier.plan(MESSAGE, at, self._start)

    def _start(self, cycle: int) -> None:
        while all(self.waiting.values()) and all(inbox.credits for inbox in self.inboxes.values()):
            sends = [waiting[0].ready for waiting in self.waiting.values()]
            can = max(sends + [inbox.credits[0] for inbox in self.inboxes.values()])
            if can > cycle:
                self.carrier.plan(MESSAGE, can, self._start)
                return
            self._move({name: waiting.pop(0) for name, waiting in self.waiting.items()})

    def _move(self, sent: dict[str, Message]) -> None:
        pe, own = self.carrier, sent[self.carrier.name]
        messages = {name: own if self.reduces else Message.copy(own) for name in self.inboxes}
        slots = {name: inbox.take_slot(messages[name]) for name, inbox in self.inboxes.items()}
        nbytes = self.protocol.travel(own.nbytes)
        job = between(pe, own.place, self.target, slots[self.target.name], nbytes) | {"hops": self.hops, "head": self.head}

        def over(cycle: int) -> None:
            for name, message in sent.items():
                if name != pe.name:
                    member = self.senders[name]
                    member.plan(MESSAGE, cycle, lambda _, member=member, message=message: member.end(message.command))
            for name, inbox in self.inboxes.items():
                inbox.arrive(messages[name], cycle)
            pe.end(own.command)

        stage = Stage("ipcq_copy", over, [job])
        combined = [(self.root.name, self.op)] * (len(self.waiting) - 1)
        stage.entries = [(name, "ipcq_copy") for name in self.inboxes] + combined
        pe.serve(stage, pe.fewest("comm"))


def between(source: Pe, place: int, target: Pe, slot: int, nbytes: int) -> dict[str, Any]:
    """A transfer between scratchpads. Lines of a protocol may be longer than the tile; all are inside the scratchpad."""
    width = source.spm.width
    place = min(place, (source.size - nbytes) // width * width)
    job = {"opcode": "DMA_SEND_TILE", "tensor_role": "weight", "qbits": 8, "num_elements": nbytes, "channel": "comm"}
    return job | source.at("spm", place) | source.at("peer", slot) | {"peer": target.name}


def slot_addresses(first: int, slots: int, nbytes: int) -> list[int]:
    """Slots of `nbytes` each, one after the other."""
    return [first + i * nbytes for i in range(slots)]
