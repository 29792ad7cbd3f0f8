"""Queues through switches: messages of several PEs are combined on the route to one PE, or a message of one PE is copied to all
others (docs/model/kernels.md).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from kernbench.common.queue_ops import IpcqSendCmd
from kernbench.components.base import NEVER
from kernbench.components.builtin.ipcq_ring import Ring

REDUCE, MULTICAST = "REDUCE", "MULTICAST"  #: the directions of such queues
SWITCH_DIRECTIONS = (REDUCE, MULTICAST)


@dataclass(frozen=True)
class SwitchQueueForm:
    """A queue through switches, between ranks of different SIPs.

    With REDUCE, `root` receives the messages of all members, combined in the order of the members. With MULTICAST, all other
    members receive the messages of `root`.
    """

    plane: int
    direction: str  #: REDUCE or MULTICAST
    root: int
    members: tuple[int, ...]
    op: str = "add"  #: op that combines messages: add, mul, maximum, minimum, and, or, xor


class SwitchQueue:
    """The rings that a message uses together, by member.

    With REDUCE each ring leads from a member to the root, and only the slots of `lead` are used. With MULTICAST each ring leads
    from the root to another member, and has its own slots. The PE that sends over the ring `lead` executes the transfer.
    """

    def __init__(self, rings: Sequence[Ring], lead: Ring, op: str) -> None:
        self.rings = tuple(rings)
        self.lead = lead
        self.op = op  #: empty: the message is copied
        self._sending = self.rings if op else (lead,)
        self._taking = (lead,) if op else self.rings
        for ring in rings:
            ring.switch = self

    def due(self, now: int) -> int:
        """The first cycle from `now` on in which a message can start; NEVER while a message or a credit is missing."""
        at = now
        for ring in self._sending:
            if not ring.waiting:
                return NEVER
            at = max(at, ring.next_message().ready)
        for ring in self._taking:
            if ring.used == ring.slots:
                return NEVER
            at = max(at, ring.next_credit())
        return at

    def missing(self) -> Ring | None:
        """The ring of the first member that has sent nothing while others wait for it."""
        return next((ring for ring in self._sending if not ring.waiting), None)

    def take(self) -> Any:
        """Take the message that starts now, with a credit of each ring that has slots; its `parts` are the messages of all
        rings."""
        lead = self.lead
        message: IpcqSendCmd = lead.next_message()
        after = list(message.flight.after)
        if self.op:
            parts = [message if ring is lead else _taken(ring) for ring in self.rings]
            after += [one for part in parts if part is not message for one in part.flight.after]
            odd = next((one for one in parts if (one.shape, one.dtype) != (message.shape, message.dtype)), None)
            if odd is not None:
                message.mismatch = (
                    f"{message.ring.source} sends {message.dtype}{list(message.shape)} ({message.line}) to be combined with "
                    f"{odd.dtype}{list(odd.shape)} of {odd.ring.source} ({odd.line}); all must send the same shape and type"
                )
        else:
            parts = [message if ring is lead else _copy_for(ring, message) for ring in self.rings]
        for ring, part in zip(self._taking, [message] if self.op else parts, strict=True):
            after += ring.freed_by.pop(ring.sent - ring.slots, ())
            if part is not message:
                ring.put(part)
            ring.start(part)
        message.flight.after = tuple(dict.fromkeys(after))
        message.parts = parts
        return message


def _taken(ring: Ring) -> IpcqSendCmd:
    """The message of a ring whose slots are not used: the switch combines it with those of other rings."""
    ring.waiting -= 1
    return ring.messages.take()  # type: ignore[no-any-return]


def _copy_for(ring: Ring, message: IpcqSendCmd) -> IpcqSendCmd:
    """The same message in another ring."""
    made = IpcqSendCmd(message.handle, ring, dependency_ids=message.dependency_ids, line=message.line)  # type: ignore[arg-type]
    made.shape, made.dtype, made.nbytes = message.shape, message.dtype, message.nbytes
    made.value, made.src = message.value, message.src
    return made
