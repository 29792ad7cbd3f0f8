"""The time that interleaved lanes of messages need along a ring, derived from the rules of queues.

All ranks do the same at the same time, so the model has only one rank. The segments of a rank are divided into lanes, and each
lane sends one message in each step:

1. Messages in flight share the link equally. A message arrives one route latency after its last byte has left.
2. A rank uses messages in order: all lanes of a step, then all lanes of the next step.
3. A single lane sends the data of a message as soon as the message was used. With several lanes, the send waits until the next
   lane's message was used, so that the addition has time to finish. Queues have enough slots for all messages, so no send waits
   for credits.

Therefore each of two lanes waits for the message of the other lane before it sends, and a step has two latencies instead of
one; with `m` lanes, `m - 1` steps have `m` latencies (`phases`).
"""

from __future__ import annotations

from fractions import Fraction

from kernbench.common.units import ceil_div

Message = tuple[int, int]  #: step and lane
SEND = 2  #: [cycle] the least time between the first sends of two lanes: one command for PE_IPCQ and one for the load


def phases(lanes: int, steps: int) -> int:
    """The least number of sequential messages, that is, messages that are sent after the arrival of the previous message."""
    return steps if lanes == 1 else 1 + ceil_div((steps - 1) * lanes, lanes - 1)


def taken(lanes: int, steps: int, latency: int, piece: Fraction, load: Fraction, overhead: int) -> Fraction:
    """[cycle] The time from the beginning to the last use of a message.

    `piece`: [cycle] the time of a message alone on the link; `load`: [cycle] the time of each lane's first load, one lane after
    the other; `overhead`: [cycle] the time from the use of a message to the send that this use allows.
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
    """The message that may be sent after the given message was used."""
    step, lane = used
    if lanes == 1 or lane:
        return step + 1, max(lane - 1, 0)
    return (step, lanes - 1) if step else None  # the messages of the first step wait for no other message


class _Link:
    """A link that messages share."""

    def __init__(self, piece: Fraction) -> None:
        self._piece, self._now = piece, Fraction(0)
        self._begin: dict[Message, Fraction] = {}  #: begins of future messages
        self._need: dict[Message, Fraction] = {}  #: [cycle] remaining time alone on the link, of messages in flight
        self._left: dict[Message, Fraction] = {}

    def send(self, message: Message, at: Fraction) -> None:
        self._begin[message] = at

    def left(self, message: Message) -> Fraction:
        """The time at which the last byte of a message leaves. Messages that are not known yet cannot change this time: they
        are sent after the arrival of a message that left earlier.
        """
        while message not in self._left:
            self._go_on()
        return self._left[message]

    def _go_on(self) -> None:
        """Advance to the next time at which a message begins or ends."""
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
