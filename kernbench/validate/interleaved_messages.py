"""The time that interleaved lanes of messages need along a ring, derived by hand from the rules of queues.

All ranks do the same at the same time, so one rank is enough. A rank's segments are cut into lanes, a message a step each:

1. Messages in flight share the link equally, and one arrives its route's latency after its last byte has left.
2. A rank uses messages in order: lane after lane of a step, then those of the next step.
3. A lane that is alone sends on what it has used at once, any other when the next lane's message has been used too: until then
   what it adds has time. Queues have slots for all, so no credit is waited for.

So each of two lanes waits for the message of the other before it sends, and a step has two latencies instead of one; with `m`
lanes, `m - 1` steps have `m` (`phases`).
"""

from __future__ import annotations

from fractions import Fraction

from kernbench.common.units import ceil_div

Message = tuple[int, int]  #: step and lane
SEND = 2  #: [cycle] from one lane's first send to the next one's, at least: a command each for PE_IPCQ and for the load


def phases(lanes: int, steps: int) -> int:
    """The least number of messages in sequence, each sent after the arrival of the one before."""
    return steps if lanes == 1 else 1 + ceil_div((steps - 1) * lanes, lanes - 1)


def taken(lanes: int, steps: int, latency: int, piece: Fraction, load: Fraction, overhead: int) -> Fraction:
    """[cycle] from the beginning to the last use.

    `piece`: [cycle] that a message alone takes on the link; `load`: [cycle] of a lane's first load, one lane after the other;
    `overhead`: [cycle] from a use to the send that it lets go.
    """
    link = _Link(piece)
    for lane in range(lanes):
        link.send((0, lane), overhead + load + lane * max(load, Fraction(SEND)))
    now = Fraction(0)
    for used in [(step, lane) for step in range(steps) for lane in range(lanes)]:
        now = max(now, link.left(used) + latency)
        sent = _let_go(used, lanes)
        if sent is not None and sent[0] < steps:
            link.send(sent, now + overhead)
    return now


def _let_go(used: Message, lanes: int) -> Message | None:
    """The message that is sent after a message was used."""
    step, lane = used
    if lanes == 1 or lane:
        return step + 1, max(lane - 1, 0)
    return (step, lanes - 1) if step else None  # the messages of the first step wait for none


class _Link:
    """A link that messages share."""

    def __init__(self, piece: Fraction) -> None:
        self._piece, self._now = piece, Fraction(0)
        self._begin: dict[Message, Fraction] = {}  #: of messages that are to come
        self._need: dict[Message, Fraction] = {}  #: [cycle] alone, of those in flight
        self._left: dict[Message, Fraction] = {}

    def send(self, message: Message, at: Fraction) -> None:
        self._begin[message] = at

    def left(self, message: Message) -> Fraction:
        """When its last byte leaves. Messages beyond the known ones change nothing: they are sent after the arrival of a
        message that left earlier.
        """
        while message not in self._left:
            self._go_on()
        return self._left[message]

    def _go_on(self) -> None:
        """To the next time at which a message begins or ends."""
        sharing = len(self._need)
        then = min([*self._begin.values(), *(self._now + need * sharing for need in self._need.values())])
        for message in self._need:
            self._need[message] -= (then - self._now) / sharing
        self._now = then
        for message in [one for one, need in self._need.items() if need == 0]:
            self._left[message] = then
            del self._need[message]
        for message in [one for one, at in self._begin.items() if at == then]:
            self._need[message] = self._piece
            del self._begin[message]
