"""Programs: algorithms as lists of steps per rank. Other tools write them, and one kernel interprets them.

A rank has thread blocks. A thread block sends to at most one rank and receives from at most one rank. It executes its steps in
order. A step moves or adds chunks of three buffers: the elements `i` of the rank, its results `o` and its scratch memory `s`.
Every buffer is cut into chunks of equal length. A step may wait for steps of other thread blocks of its rank.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, reduce
from math import gcd
from typing import Any, ClassVar

import numpy as np

from kernbench.ccl.collectives import COLLECTIVES, Collective
from kernbench.ccl.contract import KernelArgs, QueueKey, Shape, Table, kernel_args
from kernbench.ccl.group import Group
from kernbench.ccl.reduction import combine_of, plus
from kernbench.ccl.registry import Entry
from kernbench.ccl.rings import OPPOSITE, TOPO_NAME_TO_KIND
from kernbench.common.dtypes import Array, dtype_of
from kernbench.common.errors import InputError, Problem
from kernbench.components.builtin.switch_queue import MULTICAST, REDUCE, SwitchQueueForm
from kernbench.config import SystemConfig
from kernbench.triton_emu.errors import KernelError

#: By kind of step: it receives, reads its source, adds the two, writes its destination, sends.
KINDS: Mapping[str, tuple[bool, bool, bool, bool]] = {
    "s": (False, True, False, True),  # send the source
    "r": (True, False, True, False),  # receive into the destination
    "cpy": (False, True, True, False),  # copy the source to the destination
    "re": (False, True, True, False),  # add the source to the destination
    "rcs": (True, False, True, True),  # receive into the destination and send
    "rrc": (True, True, True, False),  # receive, add the source, write the destination
    "rrs": (True, True, False, True),  # receive, add the source, send
    "rrcs": (True, True, True, True),  # all three
    "nop": (False, False, False, False),
}
WINDOW = 4  #: pieces of a step that are in flight


@dataclass(frozen=True, slots=True)
class Ref:
    """The location of consecutive chunks in a buffer."""

    buffer: str  #: i, o or s
    chunk: int


@dataclass(frozen=True, slots=True)
class Step:
    """One step of a thread block."""

    kind: str
    source: Ref | None
    target: Ref | None
    count: int  #: chunks
    after: tuple[tuple[int, int], ...]  #: (thread block, step) of the same rank that must be done
    line: int  #: of the file, for errors

    @property
    def receives(self) -> bool:
        return KINDS[self.kind][0]

    @property
    def reads(self) -> bool:
        """Whether the step reads its source."""
        return KINDS[self.kind][1]

    @property
    def writes(self) -> bool:
        return KINDS[self.kind][2]

    @property
    def sends(self) -> bool:
        return KINDS[self.kind][3]


@dataclass(frozen=True, slots=True)
class InSwitch:
    """Messages through a switch. The switch adds messages of all members for the root, and copies messages of the root to all
    members.
    """

    root: int
    members: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Block:
    """A thread block. Peers are ranks, and -1 means no peer. A thread block with a group sends and receives through a switch.
    """

    number: int
    send: int
    recv: int
    channel: int
    steps: tuple[Step, ...]
    group: int = -1  #: in `Program.groups`
    copies: bool = False  #: what it sends, a switch copies to all members; else it adds it to what they send


@dataclass(frozen=True)
class Program:
    """A whole algorithm."""

    name: str
    source: str  #: the file
    collective: str
    chunks: int  #: of the larger one of elements and results
    in_place: bool  #: elements and results share memory, as `Collective.in_place` says
    ranks: tuple[tuple[Block, ...], ...]  #: the thread blocks of each rank
    scratch: int  #: chunks of a rank's scratch, the most of all ranks
    groups: tuple[InSwitch, ...] = ()
    redop: str | None = None  #: the reduction that the file names

    @property
    def rules(self) -> Collective:
        """The collective that the program computes."""
        return COLLECTIVES[self.collective]

    def sizes(self) -> tuple[int, int]:
        """The number of chunks of a rank's elements, and of its results."""
        ranks, rules = len(self.ranks), self.rules
        return (
            self.chunks if rules.blocks_in or not rules.blocks_out else self.chunks // ranks,
            self.chunks if rules.blocks_out or not rules.blocks_in else self.chunks // ranks,
        )

    def error(self, line: int, rule: str, remedy: str = "") -> InputError:
        """Return an error that names a line of the file."""
        return InputError(Problem(f"{self.source}:{line}", rule, remedy=remedy))


class Buffers:
    """The chunks of one rank, with any type of values. If the program is in place, `o` is a part of `i`, or `i` is a part of
    `o`.
    """

    def __init__(self, program: Program, rank: int, elements: Sequence[Any]) -> None:
        has, gets = program.sizes()
        whole: list[Any] = [None] * max(has, gets)
        self._first = {"i": 0, "o": 0, "s": 0}
        self._chunks = {"i": [None] * has, "o": [None] * gets, "s": [None] * program.scratch}
        if program.in_place:
            self._chunks["i"] = self._chunks["o"] = whole
            self._first["i"] = rank * has if has < gets else 0
            self._first["o"] = rank * gets if gets < has else 0
        self.write(Ref("i", 0), elements)

    def read(self, ref: Ref, count: int) -> list[Any]:
        first = self._first[ref.buffer] + ref.chunk
        return self._chunks[ref.buffer][first : first + count]

    def write(self, ref: Ref, values: Sequence[Any]) -> None:
        first = self._first[ref.buffer] + ref.chunk
        self._chunks[ref.buffer][first : first + len(values)] = values


def interpret(program: Program, elements: Sequence[Sequence[Any]], add: Callable[[Any, Any], Any]) -> list[list[Any]]:
    """Execute the steps on any values that can be added, without times, and return the result chunks of each rank.

    Parameters
    ----------
    program
        The program.
    elements
        The values by rank and chunk.
    add
        The function that adds two values.

    Raises
    ------
    InputError
        If a step reads a chunk that no step has written, or if steps wait for each other. The message names the line.
    """
    memory = [Buffers(program, rank, own) for rank, own in enumerate(elements)]
    done = [[0] * len(blocks) for blocks in program.ranks]  # steps of each thread block
    queues: dict[Link, deque[list[Any]]] = {}
    left = sum(len(block.steps) for blocks in program.ranks for block in blocks)
    ready = deque((rank, block.number) for rank, blocks in enumerate(program.ranks) for block in blocks)
    idle = 0
    while left:
        rank, number = ready.popleft()
        block, before = program.ranks[rank][number], left
        while done[rank][number] < len(block.steps):
            step = block.steps[done[rank][number]]
            if any(done[rank][other] <= at for other, at in step.after):
                break
            message: list[Any] | None = None
            if step.receives:
                coming = [queues.get(link) for link in _links_in(program, rank, block)]
                if not all(coming):
                    break
                message = _combined(program, step, [queue.popleft() for queue in coming if queue], add)
            _take(program, rank, block, step, memory[rank], message, queues, add)
            done[rank][number] += 1
            left -= 1
        ready.append((rank, number))
        idle = idle + 1 if left == before else 0
        if idle > len(ready):
            raise _stuck(program, done)
    return [one.read(Ref("o", 0), program.sizes()[1]) for one in memory]


Link = tuple[Any, ...]  #: from rank to rank by channel; or to or from a switch, by group and rank


def _links_in(program: Program, rank: int, block: Block) -> list[Link]:
    """Return the sources of the messages of a thread block. Messages from several members of a group are added."""
    if block.group < 0:
        return [(block.recv, rank, block.channel)]
    group = program.groups[block.group]
    return [("sum", block.group, one) for one in group.members] if rank == group.root else [("copy", block.group, rank)]


def _links_out(program: Program, rank: int, block: Block) -> list[Link]:
    """Return the destinations of the messages of a thread block."""
    if block.group < 0:
        return [(rank, block.send, block.channel)]
    if not block.copies:
        return [("sum", block.group, rank)]
    return [("copy", block.group, one) for one in program.groups[block.group].members if one != rank]


def _combined(program: Program, step: Step, messages: list[list[Any]], add: Callable[[Any, Any], Any]) -> list[Any]:
    """Return the sum of the messages, in the order of the members."""
    if len({len(one) for one in messages}) > 1:
        raise program.error(step.line, f"a switch adds {' and '.join(str(len(one)) for one in messages)} chunks")
    return [reduce(add, parts) for parts in zip(*messages, strict=True)]


def _take(
    program: Program,
    rank: int,
    block: Block,
    step: Step,
    memory: Buffers,
    message: list[Any] | None,
    queues: dict[Link, deque[list[Any]]],
    add: Callable[[Any, Any], Any],
) -> None:
    """Execute one step on the values of a rank."""
    if message is not None and len(message) != step.count:
        rule = f"rank {rank} receives {step.count} chunks, and rank {block.recv} sends {len(message)}"
        raise program.error(step.line, rule)
    value = message or []
    if step.reads:
        assert step.source is not None
        own = _known(program, rank, step, step.source, memory)
        value = [add(one, other) for one, other in zip(own, message, strict=True)] if message is not None else own
    if step.kind == "re":
        assert step.target is not None
        value = [add(one, other) for one, other in zip(_known(program, rank, step, step.target, memory), value, strict=True)]
    if step.writes:
        assert step.target is not None
        memory.write(step.target, value)
    if step.sends:
        for link in _links_out(program, rank, block):
            queues.setdefault(link, deque()).append(value)


def _known(program: Program, rank: int, step: Step, ref: Ref, memory: Buffers) -> list[Any]:
    found = memory.read(ref, step.count)
    for place, one in enumerate(found):
        if one is None:
            rule = f"rank {rank} reads chunk {ref.chunk + place} of {ref.buffer}, to which no step before has written"
            raise program.error(step.line, rule)
    return found


def _stuck(program: Program, done: Sequence[Sequence[int]]) -> InputError:
    """Return the first step that can never begin."""
    for rank, blocks in enumerate(program.ranks):
        for block in blocks:
            if done[rank][block.number] == len(block.steps):
                continue
            step = block.steps[done[rank][block.number]]
            waits = [f"step {at} of thread block {other}" for other, at in step.after if done[rank][other] <= at]
            sender = f"rank {block.recv}" if block.group < 0 else f"a switch for group {block.group}"
            what = waits[0] if waits else f"a message of {sender}"
            rule = f"steps wait for each other: rank {rank}, thread block {block.number} waits for {what}, which never comes"
            return program.error(step.line, rule)
    raise AssertionError("every step is done")


Sum = tuple[tuple[int, int], ...]  #: the (rank, chunk) that were added, sorted


def check(program: Program) -> None:
    """Raise InputError if the program does not compute its collective. The check executes the steps on names of chunks."""
    has, gets = program.sizes()
    named = [[((rank, chunk),) for chunk in range(has)] for rank in range(len(program.ranks))]
    found = interpret(program, named, lambda one, other: tuple(sorted((*one, *other))))
    for rank in range(len(program.ranks)):
        if program.rules.reduces and program.rules.rooted and rank:
            continue
        for chunk in range(gets):
            wanted, got = _wanted(program, rank, chunk), found[rank][chunk]
            if got != wanted:
                rule = f"it is no {program.collective}: chunk {chunk} of rank {rank} ends as {_sum_text(got)}, and it must be "
                raise InputError(Problem(program.source, rule + _sum_text(wanted)))


def _wanted(program: Program, rank: int, chunk: int) -> Sum:
    """Return the sum that a result chunk must have."""
    ranks, rules = len(program.ranks), program.rules
    has, gets = program.sizes()
    if program.collective == "send_recv":
        return (((rank - 1) % ranks, chunk),)
    if rules.reduces:
        first = rank * gets if rules.blocks_in else 0
        return tuple((one, first + chunk) for one in range(ranks))
    if rules.blocks_in:
        source, place = divmod(chunk, gets // ranks)
        return ((source, rank * (has // ranks) + place),)
    if rules.blocks_out:
        return (divmod(chunk, has),)
    return ((0, chunk),)


def _sum_text(value: Sum | None) -> str:
    if value is None:
        return "nothing"
    parts = [f"chunk {chunk} of rank {rank}" for rank, chunk in value[:4]]
    return " + ".join(parts) + (f" and {len(value) - 4} more" if len(value) > 4 else "")


class Interpreter:
    """A program as an algorithm (`contract.Algorithm`). Its kernel executes the steps of its rank."""

    TOPO_NAME_TO_KIND: ClassVar[Mapping[str, int]] = TOPO_NAME_TO_KIND
    kernel_args: ClassVar[Callable[..., KernelArgs]] = staticmethod(kernel_args)

    def __init__(self, program: Program) -> None:
        self.program = program

    @cached_property
    def queue_keys(self) -> dict[tuple[int, int, int], QueueKey]:
        """The plane and direction of the queues, by (rank, peer, channel)."""
        found: dict[tuple[int, int, int], QueueKey] = {}
        taken: set[tuple[int, QueueKey]] = set()
        for rank, peer, channel in self._links():
            plane = 0
            while True:
                direction = next((d for d in OPPOSITE if not {(rank, (plane, d)), (peer, (plane, OPPOSITE[d]))} & taken), None)
                if direction is not None:
                    break
                plane += 1
            found[rank, peer, channel], found[peer, rank, channel] = (plane, direction), (plane, OPPOSITE[direction])
            taken |= {(rank, (plane, direction)), (peer, (plane, OPPOSITE[direction]))}
        return found

    def _links(self) -> list[tuple[int, int, int]]:
        """Return (lower rank, higher rank, channel) for all messages."""
        links = set()
        for rank, blocks in enumerate(self.program.ranks):
            for block in blocks:
                if block.group < 0 and any(step.sends for step in block.steps):
                    links.add((min(rank, block.send), max(rank, block.send), block.channel))
        return sorted(links)

    def neighbours(self, kind: int, shape: Shape) -> Table:
        """Return the queues that the thread blocks use."""
        table: dict[int, dict[QueueKey, tuple[int, str]]] = {}
        for (rank, peer, channel), key in self.queue_keys.items():
            table.setdefault(rank, {})[key] = peer, self.queue_keys[peer, rank, channel][1]
        return table

    def through_switches(self, kind: int, shape: Shape) -> list[SwitchQueueForm]:
        """Return the two queues of each group. Each group has its own plane, after the planes of pairs."""
        groups = enumerate(self.program.groups)
        return [
            SwitchQueueForm(number, direction, one.root, one.members)
            for number, one in groups
            for direction in (REDUCE, MULTICAST)
        ]

    def queue_in(self, rank: int, block: Block) -> QueueKey:
        """Return the plane and direction of the queue from which a thread block receives."""
        if block.group < 0:
            return self.queue_keys[rank, block.recv, block.channel]
        return block.group, REDUCE if rank == self.program.groups[block.group].root else MULTICAST

    def queue_out(self, rank: int, block: Block) -> QueueKey:
        """Return the plane and direction of the queue to which a thread block sends."""
        if block.group < 0:
            return self.queue_keys[rank, block.send, block.channel]
        return block.group, MULTICAST if block.copies else REDUCE

    @property
    def scratch_chunks(self) -> int:
        """The number of chunks of scratch memory of each rank."""
        return self.program.scratch

    def chunk_elements(self, count: int) -> int:
        """Return the number of elements of a chunk. Raises InputError if the chunks would not have equal lengths."""
        ranks, rules = len(self.program.ranks), self.program.rules
        whole = max(rules.has(count, ranks), rules.gets(count, ranks))
        if whole % self.program.chunks:
            rule = f"{whole} elements cannot be cut into its {self.program.chunks} chunks of equal length"
            raise InputError(Problem(self.program.source, rule, remedy=f"use a multiple of {self.program.chunks}"))
        return whole // self.program.chunks

    def reference(self, inputs: Sequence[Array], kind: int, shape: Shape, slot_bytes: int) -> Sequence[Array]:
        """Return the results of the steps, computed in their own order."""
        has = self.program.sizes()[0]
        cut = [[one[at : at + one.size // has] for at in range(0, one.size, one.size // has)] for one in inputs]
        none = np.empty(0, inputs[0].dtype)
        rooted = self.program.rules.reduces and self.program.rules.rooted
        results = interpret(self.program, cut, plus)
        return [none if rooted and rank else np.concatenate(chunks) for rank, chunks in enumerate(results)]

    def kernel(
        self,
        in_ptr: int,
        out_ptr: int,
        n_elem: int,
        dtype: str,
        sip_rank: int,
        sip_size: int,
        cube_rank: int,
        cube_size: int,
        sip_topo_kind: int,
        tl: Any,
        scratch: int = 0,
    ) -> None:
        """Execute all steps of this rank."""
        _Rank(self, tl, {"i": in_ptr, "o": out_ptr, "s": scratch}, n_elem, dtype).run()


@dataclass(frozen=True, slots=True)
class _Need:
    """A thread block waits for a step of another thread block."""

    block: int


class _Rank:
    """The thread blocks of a rank while they run. Each waits independently, and the first one that can continue runs."""

    def __init__(self, algorithm: Interpreter, tl: Any, base: dict[str, int], count: int, dtype: str) -> None:
        self.tl, self.base, self.dtype, self.combine = tl, base, dtype, combine_of(tl)
        self.algorithm, self.blocks = algorithm, algorithm.program.ranks[tl.rank]
        self.itemsize = dtype_of(dtype).bits // 8
        self.chunk = algorithm.chunk_elements(count)
        self.most = max(1, min(self.chunk, tl.slot_bytes // self.itemsize))  # elements of a chunk at a time
        self.together = tl.slot_bytes // self.itemsize // self.chunk if self.most == self.chunk else 0  # chunks of a message
        self.window = max(1, min(WINDOW, tl.slots - 1))
        self.done = [(-1, -1)] * len(self.blocks)  # round and step

    def run(self) -> None:
        """Run all thread blocks to their ends."""
        ready = deque(self._block(block) for block in self.blocks)
        numbers = {id(turns): block.number for turns, block in zip(ready, self.blocks, strict=True)}
        waiting: list[tuple[Iterator[Any], Any]] = []
        needing: dict[int, list[Iterator[Any]]] = {}
        while ready or waiting:
            while ready:
                turns = ready.popleft()
                number = numbers[id(turns)]
                before = self.done[number]
                wanted = next(turns, None)
                if self.done[number] != before:
                    ready.extend(needing.pop(number, ()))
                if isinstance(wanted, _Need):
                    needing.setdefault(wanted.block, []).append(turns)
                elif wanted is not None:
                    waiting.append((turns, wanted))
            if waiting:
                at = 0 if len(waiting) == 1 else self.tl.wait_any(*(handle for _, handle in waiting))
                turns, handle = waiting.pop(at)
                self.tl.wait(handle)
                handle = None  # its slot is free as soon as it has been used
                ready.append(turns)
        if needing:
            raise KernelError(f"thread blocks wait for steps of {sorted(needing)}, which never come")

    def _block(self, block: Block) -> Iterator[Any]:
        """Run a thread block: all steps on the first part of every chunk, then on the next part."""
        rounds = -(-self.chunk // self.most)
        for number in range(rounds):
            first = number * self.most
            size = min(self.most, self.chunk - first)
            for at, step in enumerate(block.steps):
                for other, wanted in step.after:
                    while self.done[other] < (number, wanted):
                        yield _Need(other)
                yield from self._step(block, step, first, size)
                self.done[block.number] = number, at

    def _step(self, block: Block, step: Step, first: int, size: int) -> Iterator[Any]:
        """Run all pieces of a step, several in flight at a time, and wait until all stores have ended."""
        stores: list[Any] = []
        flying: deque[tuple[int, int, Any, Any, Any]] = deque()
        for place, count in self._pieces(step.count, size):
            if len(flying) == self.window:
                yield from self._use(block, step, stores, *flying.popleft())
            flying.append((place, first, *self._ask(block, step, place, first, count)))
        while flying:
            yield from self._use(block, step, stores, *flying.popleft())
        yield from stores

    def _pieces(self, chunks: int, size: int) -> Iterator[tuple[int, int]]:
        """Yield (first chunk, elements) for each message: several whole chunks if they fit, otherwise a part of one chunk."""
        if self.together > 1:
            for place in range(0, chunks, self.together):
                yield place, min(self.together, chunks - place) * size
        else:
            for place in range(chunks):
                yield place, size

    def _at(self, ref: Ref | None, place: int, first: int) -> int:
        assert ref is not None
        return self.base[ref.buffer] + ((ref.chunk + place) * self.chunk + first) * self.itemsize

    def _ask(self, block: Block, step: Step, place: int, first: int, count: int) -> tuple[Any, Any, Any]:
        """Start the transfers that a piece needs: a message, its source, and the elements to which it is added."""
        message = source = target = None
        if step.receives:
            plane, back = self.algorithm.queue_in(self.tl.rank, block)
            message = self.tl.recv_async(back, (count,), self.dtype, plane=plane)
        if step.reads:
            source = self.tl.load(self._at(step.source, place, first), (count,), self.dtype, wait=False)
        if step.kind == "re":
            target = self.tl.load(self._at(step.target, place, first), (count,), self.dtype, wait=False)
        return message, source, target

    def _use(
        self, block: Block, step: Step, stores: list[Any], place: int, first: int, message: Any, source: Any, target: Any
    ) -> Iterator[Any]:
        """Process a piece after its transfers were started."""
        if message is not None:
            yield message
        value = message
        if source is not None:
            yield source
            value = source
        if target is not None:
            yield target
        other = message if message is not None else target
        if source is not None and other is not None:
            value = self.combine(source, other, out=source)
        if step.writes:
            stores.append(self.tl.store(self._at(step.target, place, first), value))
        if step.sends:
            plane, out = self.algorithm.queue_out(self.tl.rank, block)
            self.tl.send(out, value, plane=plane)


@dataclass(frozen=True)
class ProgramEntry(Entry):
    """A program as an entry in the list of algorithms."""

    program: Program | None = field(default=None, repr=False, compare=False)

    def load(self) -> Any:
        """Return the interpreter of the program."""
        assert self.program is not None
        return Interpreter(self.program)

    @property
    def only_in_place(self) -> bool:
        assert self.program is not None
        return self.program.in_place

    @property
    def also_in_place(self) -> bool:
        return self.only_in_place

    @property
    def redop(self) -> str | None:
        assert self.program is not None
        return self.program.redop if self.program.rules.reduces else None

    @property
    def ranks(self) -> int:
        assert self.program is not None
        return len(self.program.ranks)

    def unfit(self, config: SystemConfig, group: Group) -> str:
        assert self.program is not None
        return super().unfit(config, group) if self.program.groups else ""

    def multiple(self) -> int:
        assert self.program is not None
        chunks, rules = self.program.chunks, self.program.rules
        return chunks // gcd(chunks, len(self.program.ranks)) if rules.blocks_in or rules.blocks_out else chunks

    def fitted(self, config: SystemConfig) -> ProgramEntry:
        """Return the entry with queues that leave room for its tiles in the scratchpads of a machine."""
        assert self.program is not None
        queue_keys = Interpreter(self.program).queue_keys
        mine = [sum(one[0] == rank for one in queue_keys) for rank in range(len(self.program.ranks))]
        queues = max(many + sum(rank in one.members for one in self.program.groups) for rank, many in enumerate(mine))
        blocks = max(len(one) for one in self.program.ranks)
        there = config.pe.spm.num_banks * config.pe.spm.bank_size_bytes
        each = there // (2 * max(1, queues * SLOTS + 2 * blocks * WINDOW))
        return replace(self, slots=SLOTS, slot_bytes=min(MAX_SLOT, max(LEAST_SLOT, 1 << max(0, each.bit_length() - 1))))


SLOTS = 4  #: number of slots of each queue of a program
MAX_SLOT, LEAST_SLOT = 32 << 10, 64  #: [B]


def entry_of(program: Program, kind: str) -> ProgramEntry:
    """Return the entry of a program. Its name begins with `kind`, the format of the file."""
    name = "".join(c if c.isalnum() else "_" for c in program.name)[:60] or "unnamed"
    return ProgramEntry(program.collective, f"{kind}_{name}", program.source, tuple(TOPO_NAME_TO_KIND), program.source,
                         through_switches=bool(program.groups), program=program)  # fmt: skip
