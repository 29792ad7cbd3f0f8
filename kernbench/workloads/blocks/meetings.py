"""Points at which the PEs of a layer exchange data. Each PE states its input and output, and one collective serves all PEs.

A stage of a model is `groups` times `shards` PEs. The shards of a group cut each layer between them. Groups have rows of their
own: parts of each sequence (context parallelism), or sequences (replicas that share experts).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from kernbench.common.errors import InternalError
from kernbench.workloads.layer.projections import Among, PartialRows
from kernbench.workloads.llm.exchanges import (
    PHASES,
    Departure,
    Keeper,
    Sent,
    gather_kept,
    gather_rows,
    scatter_rows,
    send_rows,
)
from kernbench.workloads.llm.reductions import Queue, Reduction, all_reduce

if TYPE_CHECKING:
    from kernbench.workloads.blocks.emitter import LayerEmitter
    from kernbench.workloads.llm.exchanges import Exchange


@dataclass(frozen=True, slots=True)
class Seat:
    """The place of a PE in its stage."""

    shard: int = 0
    shards: int = 1
    group: int = 0
    groups: int = 1

    def among(self, which: Among) -> list[int]:
        """The numbers of the PEs in this PE's collective, including this PE; PEs are numbered group by group."""
        if which == "shards":
            return [self.group * self.shards + shard for shard in range(self.shards)]
        if which == "groups":
            return [group * self.shards + self.shard for group in range(self.groups)]
        return list(range(self.groups * self.shards))


ALONE = Seat()


def seats_of(shards: int, groups: int) -> list[Seat]:
    """The seats of all PEs of a stage, group by group."""
    return [Seat(shard, shards, group, groups) for group in range(groups) for shard in range(shards)]


@dataclass(frozen=True, slots=True)
class GatheredRows:
    """Rows of which each PE has a part: part i at its offset behind `place` on PE i. All PEs receive all parts."""

    name: str
    among: Among
    place: int
    parts: tuple[int, ...]  #: [element] of each PE
    bits: int
    meta: dict[str, Any]


@dataclass(frozen=True, slots=True)
class ScatteredRows:
    """Partial sums of all rows at `place`. PE i wants the sum of part i. `room`: for the partial sums of the others."""

    name: str
    among: Among
    place: int
    parts: tuple[int, ...]  #: [element] of each PE
    bits: int
    meta: dict[str, Any]
    room: int


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Keys and values in the memory of each PE, which all others want in theirs."""

    name: str
    among: Among
    keeper: Keeper
    meta: dict[str, Any]


@dataclass(frozen=True, slots=True)
class SentRows:
    """Rows that go to single other PEs. `arrivals`: where those of a PE with a tag come to."""

    name: str
    among: Among
    departures: tuple[Departure, ...]
    arrivals: Mapping[tuple[int, int], int]
    bits: int
    meta: dict[str, Any]


Meeting = PartialRows | GatheredRows | ScatteredRows | KeptRows | SentRows


class CollectiveChoices(Protocol):
    """Chooses the algorithms of collectives, and records the collectives."""

    reduced: list[Sent]

    def reduction_of(self, elements: int, bits: int) -> Reduction:
        """The algorithm of an all-reduce between shards."""

    def exchange(self, sent: Sent) -> Exchange | None:
        """The algorithm of another collective; None if it is left out, to see its cost."""

    def group_reduction(self, elements: int, bits: int) -> Reduction | None:
        """The algorithm of an all-reduce between groups; None if it is left out."""


def run_together(layers: Sequence[LayerEmitter], choices: CollectiveChoices) -> None:
    """Run the same layer on all PEs. A collective is emitted when all its PEs have reached it."""
    running = [layer.emit_all() for layer in layers]
    queue: Queue = {}
    arrived: list[Meeting | None] = [None] * len(layers)
    ended: set[int] = set()
    while True:
        for number, one in enumerate(running):
            if arrived[number] is None and number not in ended:
                arrived[number] = next(one, None)
                if arrived[number] is None:
                    ended.add(number)
        ready = list(_complete(layers, arrived))
        if not ready:
            break
        for members, meetings in ready:
            before = len(choices.reduced)
            _meet([layers[number] for number in members], meetings, choices, queue)
            if members[0]:  # reports count those of one PE
                del choices.reduced[before:]
            for number in members:
                arrived[number] = None
    if len(ended) < len(layers):
        waiting = next(one for one in arrived if one is not None)
        raise InternalError(f"a PE waits for a {waiting.name} that other PEs never come to")


def _complete(layers: Sequence[LayerEmitter], arrived: Sequence[Meeting | None]) -> Iterator[tuple[list[int], list[Meeting]]]:
    """The meetings to which all members have come."""
    for number, meeting in enumerate(arrived):
        if meeting is None:
            continue
        members = layers[number].seat.among(meeting.among)
        if members[0] != number:
            continue
        there = [one for one in (arrived[member] for member in members) if one is not None and one.name == meeting.name]
        if len(there) == len(members):
            yield members, there


def _meet(layers: list[LayerEmitter], meetings: list[Meeting], choices: CollectiveChoices, queue: Queue) -> None:
    """Emits a collective. `queue`: the transfers of sums of parts so far, behind which those of later parts go."""
    first = meetings[0]
    meta = {**first.meta, "phase": PHASES.get(first.name, "ALL_REDUCE")}
    if isinstance(first, PartialRows):
        bits = layers[0].act_bits
        algorithm = (
            choices.reduction_of(first.elements, bits)
            if first.among == "shards"
            else choices.group_reduction(first.elements, bits)
        )
        if algorithm is not None:
            parts = [one for one in meetings if isinstance(one, PartialRows)]
            all_reduce(layers, parts, algorithm, queue if first.queued else None)
        return
    sent = _sent(layers, meetings)
    chosen = choices.exchange(sent)
    if chosen is None:
        return
    if isinstance(first, GatheredRows):
        places = [one.place for one in meetings if isinstance(one, GatheredRows)]
        gather_rows(layers, places, first.parts, first.bits, chosen, meta)
    elif isinstance(first, ScatteredRows):
        places = [one.place for one in meetings if isinstance(one, ScatteredRows)]
        rooms = [one.room for one in meetings if isinstance(one, ScatteredRows)]
        scatter_rows(layers, places, rooms, first.parts, first.bits, chosen, meta)
    elif isinstance(first, KeptRows):
        gather_kept([one.keeper for one in meetings if isinstance(one, KeptRows)], chosen, meta)
    else:
        some = [one for one in meetings if isinstance(one, SentRows)]
        send_rows(layers, [one.departures for one in some], [one.arrivals for one in some], first.bits, meta)


def _sent(layers: list[LayerEmitter], meetings: list[Meeting]) -> Sent:
    """The data that a collective moves, for reports, before its algorithm is chosen."""
    first, count = meetings[0], len(meetings)
    assert not isinstance(first, PartialRows)
    if isinstance(first, KeptRows):
        sizes = tuple(sum(one.keeper.tiles) for one in meetings if isinstance(one, KeptRows))
        return Sent(first.name, "direct", count, max(sizes), 8, first.among, (sizes,))
    if isinstance(first, SentRows):
        rows = []
        for one in meetings:
            assert isinstance(one, SentRows)
            row = [0] * count
            for departure in one.departures:
                row[departure.target] += departure.elements
            rows.append(tuple(row))
        return Sent(first.name, "direct", count, max(map(sum, rows)), first.bits, first.among, tuple(rows))
    return Sent(first.name, "direct", count, sum(first.parts), first.bits, first.among, (first.parts,))
