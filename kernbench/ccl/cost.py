"""Estimates the time of a collective without a simulation, from route latencies, messages and bytes of each step.

The model is linear in features of a call: a constant for loads and stores, the latencies of the steps, the messages, and the
time of the bytes on the link of a PE. All ranks of a SIP share the links between SIPs, on which the bytes may take longer. The
difference counts as a latency, because the engines of a PE have no more work for it. A lane that follows another lane costs
only the work of the busiest rank or link for the lane. The weights of the features (`weights`) were fitted to simulations of
the presets, for each algorithm. They do not depend on ranks or sizes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, inf, sqrt

from kernbench.ccl.contract import pieces
from kernbench.ccl.ring_schedule import LIMIT
from kernbench.ccl.schedule import USUAL, LaneSpace
from kernbench.components.builtin.ipcq_ring import PLAIN, Protocol

#: [cycle] of a message beside those of its bytes, in which messages that are on their way do not delay the next ones; and how
#: often a byte passes the link of a PE, about: it is loaded and sent, or received and stored.
MESSAGE, PASSES = 16, 2
#: The share of its time in which the link of a PE carries bytes in the direction that is busier.
BUSY = 0.7
#: The share of a link's time in which the messages of a queue with few slots hold no slot.
UNHELD = 0.25


@dataclass(frozen=True)
class Step:
    """One step of the slowest rank: its latency, the messages that it sends or receives, and its share of the bytes of all
    elements.

    If a rank may have only a few messages in flight, the latency includes all messages that it sends one after another.
    """

    latency: float
    messages: int
    share: float  #: as often as they pass a PE's link
    waits: float = 0.0  #: the same of the time by which a link between SIPs takes longer


@dataclass(frozen=True, eq=False)
class Outline:
    """The steps of an algorithm, and how its elements are cut into lanes and messages."""

    steps: Sequence[Step]
    messages: int  #: of the busiest rank in a lane
    share: float  #: of the bytes of `n_elem` that the busiest rank sends and receives, plus those it loads and stores
    widest: float  #: share of the longest message
    far: bool
    adds: bool
    sending: float = 0.0  #: [cycle] of a lane in which the busiest rank has as many messages on their way as it can
    #: Loads, copies, sums and stores of a rank in a schedule: of the only lane, and of one of several.
    operations: tuple[int, int] = (0, 0)
    full: bool = False  #: as few lanes as the slots allow
    window: int = LIMIT  #: lanes at a time, if their messages have slots
    each: int = 0  #: lanes that begin in each step, if lanes follow each other; 0: lanes at a time are in lockstep
    reused: int = 1  #: messages of a lane over the same queue, at most
    held: float = 0.0  #: [cycle] of a lane in which its messages are on their way over the queue where they take the longest
    ends: float = 0.0  #: [cycle] of the other routes of a lane, if all elements pass that queue
    abreast: int = 0  #: lanes in lockstep whose messages are on their way at a time; 0: lanes follow each other closely
    pipelined: bool = False  #: whether lanes follow each other from the root or to it, as soon as messages can be on their way
    lockstep: bool = False  #: whether lanes at a time end together, so that the bytes of all steps count for the next lanes
    in_turn: bool = False  #: whether they also wait for each other in each step
    at_once: float = inf  #: in a schedule, messages of a rank that can be on their way at a time
    turns: float = 0.0  #: [cycle] of a lane by its latencies, if a rank's messages wait for those that are on their way
    buffer: int = 0  #: `n_elem` in the buffer of a schedule, which is cut into lanes that are not too long
    space: LaneSpace | None = None  #: if the lanes of a schedule depend on the scratchpad
    scratchpad: int = 0  #: [B] of a rank
    form: str = ""  #: which of its forms an algorithm has in this group, if each form has weights of its own
    worked: float = 0.0  #: share of the bytes of `n_elem` that the vector engines of the busiest rank add or copy
    chained: float = 0.0  #: the same, of all sums and copies of a lane that wait for each other, also on several ranks
    waits: float = 0.0  #: as `share`, of the time by which the busiest link between SIPs takes longer for a lane

    def features(
        self, nbytes: int, itemsize: int, slots: int, slot_bytes: int, link: float, protocol: Protocol = PLAIN
    ) -> tuple[float, ...]:
        """Return the features of `n_elem` elements with this number of bytes.

        The features are 1, the cycles of latency and of waits for shared links, the messages sent one after another, the cycles
        of the link for the first lanes, and those for other lanes. Then follows the geometric mean of messages and link, for
        messages whose bytes and commands take about equally long. The last feature is the number of operations.
        """
        lanes = self.lanes(nbytes, itemsize, slots, slot_bytes)
        lane = nbytes / lanes / link * protocol.line_bytes / protocol.data_bytes
        flags = protocol.cycles * len(self.steps)
        messages = self.once[1] + (lanes - 1) * self.messages
        chains = ceil(lanes / min(self.window, slots)) if self.lockstep and not self.each else 1
        first, others = chains * self.once[2] * lane, (lanes - chains) * self.share * lane
        far = (chains * self.once[3] + (lanes - chains) * self.waits) * lane
        busy = first + others + far
        window = self.each or min(self.window, slots)
        # A message is on its way for its latency and for the time of its bytes. Half of the link's time is for bytes that the
        # rank sends, which are counted among these messages.
        sending = max(lanes * self.sending, self.turns) + busy / self.at_once
        if (self.lockstep or not self.held) and lanes > window and not self.each:
            sending = max(sending, (2 * self.once[0] + flags) * lanes / window - self.once[0])
        sending -= MESSAGE * messages + busy / 2
        if self.held:  # a message holds its slot also while engines and links work on it and on messages before it
            sending = max(sending, self._credits(lanes, slots, protocol.cycles) - UNHELD * busy)
        done = float(lanes * self.operations[lanes > 1])
        first_lane = self.once[0] + flags
        if self.pipelined:
            latency = max(first_lane + (lanes - 1) * self.sending, self.turns) + far
        else:
            begun = min(lanes, window) if self.each else lanes
            others_wait = (lanes - begun) / window * (self._longest + protocol.cycles)
            latency = max(first_lane * self._rounds(begun, window) + others_wait, sending) + far
        return 1.0, latency, messages, first, others, sqrt(messages * (first + others)), done

    def _credits(self, lanes: int, slots: int, flag: float) -> float:
        """Return the cycles until the last message of the lanes has arrived, if messages only wait for the credits of slots.

        There and back: a slot is free when its credit has come. The first messages have free slots.
        """
        if self.each:
            return self.once[0] + (2 * self._longest + flag) * (lanes * self.reused / slots - 1)
        return self.ends + (2 * self.held + flag * self.reused) * (lanes / slots - 1 / self.reused)

    @cached_property
    def _longest(self) -> float:
        """The longest latency of a step: each of the lanes that follow each other is in another step."""
        return max((one.latency for one in self.steps), default=0.0)

    def _rounds(self, lanes: int, window: int) -> float:
        """Return how often the latencies of all steps count.

        Lanes in lockstep send the messages of a step together, so some lanes wait if there are more messages than can be in
        flight. Lanes that run at the same time end together.
        """
        if not self.abreast:
            return 1
        whole, rest = divmod(lanes, window)
        rounds = whole * max(1.0, window / self.abreast) * self._turn(window)
        return rounds + (max(1.0, rest / self.abreast) * self._turn(rest) if rest else 0.0)

    def _turn(self, lanes: int) -> float:
        """Return how much longer the latencies of a lane are that runs in turn with others.

        A lane sends after the next lane has used its message of the step before, and the last lane after the first lane has
        used its message of the same step. All lanes are therefore done with n - 1 steps after n latencies. Nobody waits in the
        first step. Lanes of blocks, which are often sent steps after they arrived, are estimated without these waits.
        """
        if lanes < 2 or not self.in_turn or not self.once[0]:
            return 1.0
        return 1.0 + (1.0 - self.steps[0].latency / self.once[0]) / (lanes - 1)

    def lanes(self, nbytes: int, itemsize: int, slots: int, slot_bytes: int) -> int:
        """Return the number of lanes into which `n_elem` elements with this number of bytes are cut."""
        longest = max(1, ceil(self.widest * nbytes / itemsize))
        if self.full:
            return ceil(longest / max(1, slot_bytes // itemsize))
        lanes = pieces(longest, itemsize, slot_bytes, self.far, self.adds)
        most = USUAL if self.space is None else self.space.lane_bytes(slots, slot_bytes, self.scratchpad)
        return max(lanes, min(ceil(self.buffer * nbytes / most.each), nbytes // itemsize))

    def cycles(
        self,
        weights: Sequence[float],
        nbytes: int,
        itemsize: int,
        slots: int,
        slot_bytes: int,
        link: float,
        protocol: Protocol = PLAIN,
    ) -> float:
        """Return the estimated time [cycle] of `n_elem` elements with this number of bytes."""
        features = self.features(nbytes, itemsize, slots, slot_bytes, link, protocol)
        return sum(weight * one for weight, one in zip(weights, features, strict=True))

    def slowed(
        self, nbytes: int, itemsize: int, slots: int, slot_bytes: int, bytes_a_cycle: float, factor: float
    ) -> float:
        """Return by how many cycles a call is longer if its sums and copies take `factor` times as long as usual.

        `bytes_a_cycle` are the bytes that the vector engines of a PE usually add or copy in a cycle. Messages wait for the sums
        of the first lane. Of the further lanes, the time of the busiest rank counts.
        """
        lanes = self.lanes(nbytes, itemsize, slots, slot_bytes)
        first = max(self.chained, self.worked)
        return (factor - 1) * (first + (lanes - 1) * self.worked) * nbytes / lanes / bytes_a_cycle

    @cached_property
    def once(self) -> tuple[float, int, float, float]:
        """The latencies, the messages, the share of bytes and the waits for links, summed over all steps of a lane."""
        steps = self.steps
        bytes_of = sum(one.share for one in steps), sum(one.waits for one in steps)
        return sum(one.latency for one in steps), sum(one.messages for one in steps), *bytes_of
