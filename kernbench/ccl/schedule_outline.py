"""The outline of a schedule for estimates: its steps, messages and bytes, and the work of its busiest rank."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from heapq import heapreplace
from typing import Any

from kernbench.ccl.cost import BUSY, PASSES, Outline, Step
from kernbench.ccl.group_routes import Link, Routes
from kernbench.ccl.schedule import Message, Program, Schedule, SwitchMessage

#: Slots of a queue that never waits for credits.
MANY = 1 << 16


def outline_of(schedule: Schedule, routes: Routes, scratchpad: int = 0, slots: int = MANY) -> Outline:
    """Return the outline of a schedule on ranks whose scratchpads have this size [B], and whose queues have this many slots."""
    times, places = routes.times, routes.places
    steps: list[Step] = []
    unit = 1 / schedule.positions if schedule.vector else 1.0
    work = [[0, 0] for _ in range(schedule.ranks)]
    sending = [0.0] * schedule.ranks
    queues: dict[Hashable, list[int]] = {}  # the latencies of their messages
    carried: dict[Link, float] = {}  # positions, by link that ranks of a SIP share; more of a slower one
    first, turns = _Clock(schedule.ranks, schedule.ranks, slots), _Clock(schedule.ranks, times.at_once, slots)
    for step in schedule.steps:
        busy: dict[int, list[int]] = {}
        sent: dict[int, list[tuple[int, Sequence[int]]]] = {}  # by sender: the latencies and the receivers of its messages
        loads: dict[Link, float] = {}
        for one in step:
            if isinstance(one, SwitchMessage):
                size = len(one.sent)
                for link, slower in routes.switch_links(one.root, one.members, one.combines).items():
                    loads[link] = loads.get(link, 0.0) + size * slower
                latency = max(routes.between(one.root, rank) for rank in one.members if rank != one.root)
                for rank, way in (*((rank, 0) for rank in one.sources), *((rank, 1) for rank in one.targets)):
                    row = busy.setdefault(rank, [0, 0, 0, 0])
                    row[way] += 1
                    row[2 + way] += size
                    work[rank][0] += 1
                    work[rank][1] += size
                after = one.members[(one.members.index(one.root) + 1) % len(one.members)]
                carrier = after if one.combines else one.root
                sent.setdefault(carrier, []).append((latency, one.targets))
                queues.setdefault(one.queue, []).append(latency)
                continue
            a, b = places[one.source][0], places[one.target][0]
            if a != b:
                for link, slower in routes.shared_links(a, b):
                    loads[link] = loads.get(link, 0.0) + len(one.sent) * slower
            latency = routes.between(one.source, one.target)
            sent.setdefault(one.source, []).append((latency, (one.target,)))
            queues.setdefault(one.queue, []).append(latency)
            for rank, way in ((one.source, 0), (one.target, 1)):
                row = busy.setdefault(rank, [0, 0, 0, 0])
                row[way] += 1
                row[2 + way] += len(one.sent)
                work[rank][0] += 1
                work[rank][1] += len(one.sent)
        if busy:
            messages = max(max(row[0], row[1]) for row in busy.values())
            most = max(max(row[2], row[3]) for row in busy.values())
            for link, load in loads.items():
                carried[link] = carried.get(link, 0.0) + load
            latency = first.step(sent)
            turns.step(sent)
            passes, far = PASSES * most, max(loads.values(), default=0) * times.shared
            steps.append(Step(latency, messages, passes * unit, max(0.0, far - passes) * unit))
            for rank, some in sent.items():
                sending[rank] += sum(one for one, _ in some) / times.at_once
    each = max(work, key=lambda row: row[1], default=[0, 0])
    moved = (len(schedule.loads[0]) + len(schedule.stores[0])) * unit
    share = PASSES * (each[1] * unit + moved) / 2
    waits = max(0.0, max(carried.values(), default=0) * times.shared * unit - BUSY * share)
    widest = schedule.widest * unit
    ranks = range(0, schedule.ranks, max(1, schedule.ranks // SAMPLE))
    done = max(_operations(schedule.programs[rank], apart=False) for rank in ranks)
    cut = done if schedule.vector else max(_operations(schedule.programs[rank], apart=True) for rank in ranks)
    buffer = 1 if schedule.vector else schedule.positions
    far, adds = schedule.far, schedule.adds
    busiest = max(sending, default=0.0)
    # A root that has sent or received a lane, and a rank without results, continue with the next lane at once.
    lockstep = all(schedule.stores) and all(schedule.loads)
    abreast = times.at_once if lockstep else 0
    worked = max(_worked(schedule.programs[rank]) for rank in ranks) * unit
    chained = sum(_most_added(step) for step in schedule.steps) * unit
    begun, running = schedule.pace(slots)
    how: dict[str, Any] = {"operations": (done, cut), "window": running, "buffer": buffer}
    slowest = max(queues.values(), key=sum, default=[])
    how |= {"each": begun if running > begun else 0, "reused": schedule.reused}
    how |= {"held": float(sum(slowest)), "ends": float(sum(one.latency for one in steps) - sum(slowest))}
    how |= {"worked": worked, "chained": chained}
    how |= {"space": schedule.space, "scratchpad": scratchpad, "waits": waits, "at_once": times.at_once}
    how |= {"lockstep": lockstep, "pipelined": not lockstep, "in_turn": lockstep and schedule.vector}
    return Outline(steps, each[0] // 2, share, widest, far, adds, busiest, abreast=abreast, turns=turns.latest, **how)


class _Clock:
    """Computes when each rank has its messages, if only latencies take time and the number of messages in flight is limited.

    A rank sends the messages of a step in order, when it has all messages of the step before. The longest routes of several
    steps therefore add up only if they follow each other from rank to rank. A queue carries as many messages in the time of a
    message and its credit as the queue has slots.
    """

    def __init__(self, ranks: int, at_once: int, slots: int) -> None:
        self.ready = [0] * ranks
        self.at_once, self.slots = at_once, slots
        self.credits: dict[tuple[int, Sequence[int]], deque[int]] = {}  # by queue: when its last credits arrive, in order

    @property
    def latest(self) -> int:
        """The cycle at which the last rank has all of its messages."""
        return max(self.ready)

    def step(self, sent: Mapping[int, Sequence[tuple[int, Sequence[int]]]]) -> int:
        """Advance by one step, and return by how many cycles the last rank is later.

        `sent` has, for each sender, the latency and the receivers of each message.
        """
        before, ready = self.latest, list(self.ready)
        for rank, messages in sent.items():
            ends = [self.ready[rank]] * min(self.at_once, len(messages))
            for latency, targets in messages:
                credits = self.credits.setdefault((rank, targets), deque(maxlen=self.slots))
                start = max(ends[0], credits[0]) if len(credits) == self.slots else ends[0]
                end = start + latency
                credits.append(end + latency)
                heapreplace(ends, end)
                for one in targets:
                    ready[one] = max(ready[one], end)
        self.ready = ready
        return self.latest - before


SAMPLE = 16  #: ranks whose operations are counted


def _operations(program: Program, *, apart: bool) -> int:
    """Return the number of loads, copies, sums and stores of a rank in a lane, if each message fits into a slot.

    With `apart`, the parts that a lane has of two blocks are not neighbours in memory.
    """
    step = 2 if apart else 1  # from a block to the next
    at: dict[int, tuple[int, int]] = {}  # by position: its tile, and its offset in the tile
    home = {one: (-1, number) for number, one in enumerate(program.home)}
    tiles, last, found = 0, -2, len(program.moved)
    for position, block in sorted(program.loads.items()):
        if step * block != last + 1:
            tiles, found = tiles + 1, found + 1
        at[position], last = (tiles, block), step * block
    at |= {one: home[one] for one in program.moved}
    stored: set[int] = set()
    for sends, receives in program.steps:
        for _, positions in sends:
            runs = _runs(at[one] for one in positions)
            found += runs if runs > 1 else 0
        for _, positions, adds, latest, final in receives:
            if final:
                found += _runs((0, step * program.stores[one]) for one in positions)
                stored.update(positions)
                continue
            into = [home[one] for one in positions] if latest and all(one in home for one in positions) else []
            tiles += 1
            found += max(_runs(at[one] for one in positions) if adds else 1, _runs(into))
            at |= zip(positions, into or [(tiles, number) for number in range(len(positions))], strict=True)
    end = (-2, 0, 0)
    for one, block in sorted(program.stores.items()):
        if one not in stored:
            tile, first = at[one]
            found += end != (tile, first - 1, step * block - 1)
            end = tile, first, step * block
    return found


def _most_added(step: Sequence[Message | SwitchMessage]) -> int:
    """Return the positions that the busiest receiver of a step adds."""
    found: Counter[int] = Counter()
    for one in step:
        if isinstance(one, Message) and one.adds:
            found[one.target] += len(one.sent)
    return max(found.values(), default=0)


def _worked(program: Program) -> int:
    """Return the positions of all messages that a rank adds to its own or copies."""
    return sum(len(positions) for _, receives in program.steps for _, positions, _, _, final in receives if not final)


def _runs(places: Iterable[tuple[int, int]]) -> int:
    """Return the number of runs of neighbouring locations."""
    found, end = 0, (-2, 0)
    for tile, first in places:
        found += end != (tile, first - 1)
        end = tile, first
    return found
