"""MSCCL++ execution plans: JSON files in which ranks write to and read from the buffers of other ranks.

The reader executes a plan once without elements, with its signals, waits, barriers and packets in a valid order. Each piece of
data that goes from one rank to another becomes a message of a program (`program`). A step of the program waits for earlier
steps that use the same chunks of the rank, and for earlier steps of its own thread block.
"""

from __future__ import annotations

import os
from collections import Counter, deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from kernbench.ccl.imports.msccl import COLLECTIVE_NAMES as OF_MSCCL
from kernbench.ccl.imports.msccl import MAX_CHUNKS, MAX_RANKS, MAX_STEPS, REDUCTIONS
from kernbench.ccl.imports.program import Block, InSwitch, Program, ProgramEntry, Ref, Step, check, entry_of
from kernbench.common.errors import ABSENT, InputError, Problem
from kernbench.config.document import Document, read_document

COLLECTIVE_NAMES = {**OF_MSCCL, "sendrecv": "send_recv"}
MAX_BYTES = 64 * 2**20
MAX_USES = 1 << 22  #: largest product of the numbers of chunks and steps: a short op may use all chunks
MAX_TURNS = 1 << 23  #: most turns of thread blocks, which run one after the other
COPIES = ("copy", "cpkt", "upkt", "tpkt", "get", "put", "ppkt", "rppkt", "pws", "pwsf")
SUMS = ("re", "repkt", "rre", "res", "respkt", "recpkt", "recspkt", "rres")
SYNCS = ("nop", "flush", "signal", "wait", "rlxsignal", "rlxwait", "barrier", "sem_acquire", "sem_release")
PACKETS = ("cpkt", "upkt", "rppkt", "repkt", "respkt", "recpkt", "recspkt", "gstorepkt")  #: wait for packets
IN_SWITCH = ("gstore", "gstorepkt", "glre", "glres")
REDUCES = (*SUMS, "glre", "glres")
Where = tuple[str | int, ...]
Key = tuple[Any, ...]  #: of a thread block of the program, until it has a number
At = tuple[Key, int]  #: a step of one


@dataclass(frozen=True, slots=True)
class ChunkRange:
    """Chunks of a buffer of a rank."""

    rank: int
    ref: Ref
    count: int

    @property
    def chunks(self) -> Iterator[tuple[str, int]]:
        return ((self.ref.buffer, self.ref.chunk + k) for k in range(self.count))


@dataclass(slots=True)
class Row:
    """A thread block of the program, to which steps are being added."""

    send: int
    recv: int
    channel: int
    group: int = -1  #: through a switch
    copies: bool = False  #: which copies its message to all members
    steps: list[Step] = field(default_factory=list)
    waits: list[tuple[At, ...]] = field(default_factory=list)  #: by step: those that must be done before


def read_mscclpp(path: str | os.PathLike[str]) -> ProgramEntry:
    """Read the algorithm of a plan.

    Raises
    ------
    InputError
        If the file is not a valid plan, if it has the format without `src_buff` and `dst_buff`, if its waits never end, or if
        it does not compute its collective. The message names the file and the op.
    """
    plan = Plan(read_document(path, MAX_BYTES))
    plan.run()
    program = plan.program()
    check(program)
    return entry_of(program, "mscclpp")


class Plan:
    """A plan, and the steps that were made from it."""

    def __init__(self, document: Document) -> None:
        self.document, data = document, document.data
        name = data.get("collective", data.get("colletive"))
        if not isinstance(name, str) or name not in COLLECTIVE_NAMES:
            raise self.refused(("collective",), f"it must be one of {', '.join(COLLECTIVE_NAMES)}", name)
        self.name, self.gpus = str(data.get("name", "unnamed")), self._list(data, "gpus", ())
        if not 2 <= len(self.gpus) <= MAX_RANKS:
            raise self.refused(("gpus",), f"a plan has 2 to {MAX_RANKS} ranks", len(self.gpus))
        if any("inputChunks" in gpu for gpu in self.gpus):
            rule = "this plan has an older format; kernbench reads only plans with input_chunks, src_buff and dst_buff"
            raise self.refused(("gpus",), rule, remedy="generate the plan again with a newer version of MSCCL++")
        sizes = [[self._number(gpu, f"{kind}_chunks", ("gpus", k)) for kind in ("input", "output", "scratch")]
                 for k, gpu in enumerate(self.gpus)]  # fmt: skip
        self.has, self.gets = max(one[0] for one in sizes), max(one[1] for one in sizes)
        made = Program(
            self.name, document.source, COLLECTIVE_NAMES[name], max(self.has, self.gets), data.get("inplace") is True,
            ((),) * len(self.gpus), max(one[2] for one in sizes),
        )  # fmt: skip
        rules = made.rules
        if (rules.blocks_in or rules.blocks_out) and made.chunks % len(self.gpus):
            raise self.refused(("gpus",), f"the number of chunks must be a multiple of the {len(self.gpus)} ranks", made.chunks)
        if made.sizes()[0] != self.has:
            raise self.refused(
                ("gpus",),
                f"{name} must have {made.sizes()[0]} input_chunks, because its larger buffer has {made.chunks} chunks",
            )
        self.made = made
        self.rows: list[dict[Key, Row]] = [{} for _ in self.gpus]
        self.written: list[dict[tuple[str, int], At]] = [{} for _ in self.gpus]
        self.read: list[dict[tuple[str, int], list[At]]] = [{} for _ in self.gpus]
        self.last: dict[tuple[int, int], At] = {}  # by rank and thread block of the plan
        self.signals: Counter[tuple[int, str, int]] = Counter()  # by rank, type and channel
        self.tokens: Counter[tuple[int, int]] = Counter()  # by rank and semaphore
        self.arrived: Counter[tuple[int, int, int]] = Counter()  # by rank, barrier and round
        self.rounds: Counter[tuple[int, int, int]] = Counter()  # by rank, thread block and barrier
        self.came: set[tuple[int, int, int, int]] = set()
        self.groups: dict[tuple[int, tuple[int, ...], int], int] = {}  # by root, members and thread block of the root
        self.steps = self.uses = 0
        self.redop: str | None = None  # None until an op names its reduction
        self.unnamed: Where | None = None  # the first op that names none: a sum in MSCCL++

    def refused(self, where: Where, rule: str, value: object = ABSENT, remedy: str = "") -> InputError:
        place = self.document.find([where]).get(where)
        return InputError(Problem(self.document.where(place), rule, ".".join(map(str, where)), value, remedy))

    def _list(self, data: Any, key: str, where: Where) -> list[dict[str, Any]]:
        value = data.get(key, []) if isinstance(data, dict) else None
        if not isinstance(value, list) or not all(isinstance(one, dict) for one in value):
            raise self.refused((*where, key), "it must be a list of objects")
        return value

    def _number(self, data: Any, key: str, where: Where, most: int = MAX_CHUNKS) -> int:
        value = data.get(key) if isinstance(data, dict) else None
        if type(value) is not int or not 0 <= value <= most:
            raise self.refused((*where, key), f"it must be an integer from 0 to {most}", value)
        return value

    def _numbers(self, data: Any, key: str, where: Where) -> list[int]:
        value = data.get(key, [])
        if not isinstance(value, list) or not all(type(one) is int and 0 <= one <= MAX_CHUNKS for one in value):
            raise self.refused((*where, key), "it must be a list of numbers from 0 on")
        return value

    # The run ----------------------------------------------------------------------------------------------------------

    def run(self) -> None:
        """Execute the plan: run each thread block in turn, as far as it can continue."""
        left: deque[tuple[int, int, Where, deque[tuple[Where, dict[str, Any]]]]] = deque()
        for rank, gpu in enumerate(self.gpus):
            for number, one in enumerate(self._list(gpu, "semaphores", ("gpus", rank))):
                self.tokens[rank, number] = self._number(one, "init_value", ("gpus", rank, "semaphores", number))
            for number, block in enumerate(self._list(gpu, "threadblocks", ("gpus", rank))):
                at: Where = ("gpus", rank, "threadblocks", number)
                left.append((rank, number, at, deque(self._ops(block, at))))
        idle = turns = 0
        while left:
            turns += 1
            if turns > MAX_TURNS:
                raise self.refused(("gpus",), f"its thread blocks wait for each other more than {MAX_TURNS:,} times")
            rank, number, at, ops = left.popleft()
            before = len(ops)
            while ops and self._done(rank, number, at, *ops[0]):
                ops.popleft()
            idle = idle + 1 if len(ops) == before and ops else 0
            if ops:
                left.append((rank, number, at, ops))
            if left and idle > len(left):
                where, op = left[0][3][0]
                raise self.refused(where, f"{op.get('name')} waits for what never comes")

    def _ops(self, block: dict[str, Any], at: Where) -> Iterator[tuple[Where, dict[str, Any]]]:
        for number, op in enumerate(self._list(block, "ops", at)):
            where = (*at, "ops", number)
            if op.get("name") == "pipeline":  # part by part of the chunks, which is the same
                yield from (((*where, "ops", k), one) for k, one in enumerate(self._list(op, "ops", where)))
            else:
                yield where, op

    def _done(self, rank: int, number: int, at: Where, where: Where, op: dict[str, Any]) -> bool:
        """Execute an op, unless it has to wait."""
        name = op.get("name")
        known = (*COPIES, *SUMS, *SYNCS, *IN_SWITCH)
        if name not in known:
            raise self.refused((*where, "name"), f"it must be one of {', '.join(known)}", name)
        if name in SYNCS:
            return self._synced(rank, number, str(name), where, op)
        group = op.get("tbg_info")
        if isinstance(group, dict) and group.get("tb_id") != 0:
            return True  # the first of the group does it
        if name in REDUCES:
            self._note_reduction(where, op)
        if name in IN_SWITCH and name not in PACKETS:
            self._through_switch(rank, number, at, where, op)
            return True
        sources = self._places(rank, at, op, "src_buff", where)
        if name in IN_SWITCH:
            if not self._came(sources):
                return False
            self._through_switch(rank, number, at, where, op)
            return True
        targets = self._places(rank, at, op, "dst_buff", where)
        if not sources or not targets:
            raise self.refused(where, f"{name} must have src_buff and dst_buff")
        if name in PACKETS and not self._came(sources):
            return False
        if name in COPIES:
            self._copy(rank, number, sources, targets, where)
        else:
            self._sum(rank, number, sources, targets, where)
        if name in ("pws", "pwsf"):
            self._signal(rank, at, where, op)
        return True

    def _places(self, rank: int, at: Where, op: dict[str, Any], key: str, where: Where) -> list[ChunkRange]:
        """The places of all buffers of an op under a key."""
        return [self._place(rank, at, op, key, k) for k in range(len(self._list(op, key, where)))]

    def _copy(
        self, rank: int, number: int, sources: list[ChunkRange], targets: list[ChunkRange], where: Where
    ) -> None:
        """Move one source to all targets, or each source to its target."""
        if len(sources) not in (1, len(targets)):
            raise self.refused(where, f"it has {len(sources)} src_buff and {len(targets)} dst_buff")
        for k, target in enumerate(targets):
            self._move(rank, number, sources[k if len(sources) > 1 else 0], target, where)

    def _note_reduction(self, where: Where, op: dict[str, Any]) -> None:
        """Note the reduction of an op. All ops of a plan must have the same one, because a collective has one."""
        name = op.get("reduce_op")
        if name is None:
            self.unnamed = self.unnamed or where
        elif name not in REDUCTIONS:
            raise self.refused((*where, "reduce_op"), f"it must be one of {', '.join(REDUCTIONS)}", name)
        elif self.redop not in (None, name):
            rule = f"all ops of a plan must have the same reduction, and another op has {self.redop}"
            raise self.refused((*where, "reduce_op"), rule, name)
        else:
            self.redop = name
        if self.unnamed and self.redop not in (None, "sum"):
            rule = f"an op without reduce_op is a sum, and other ops of the plan have {self.redop}"
            raise self.refused(self.unnamed, rule, remedy=f'give it "reduce_op": "{self.redop}"')

    def _came(self, sources: Sequence[ChunkRange]) -> bool:
        """Return whether all packets that an op reads from scratch memory have arrived."""
        packets = [one for one in sources if one.ref.buffer == "s"]
        return all(chunk in self.written[one.rank] for one in packets for chunk in one.chunks)

    def _synced(self, rank: int, number: int, name: str, where: Where, op: dict[str, Any]) -> bool:
        at = where[:4]
        if name in ("signal", "rlxsignal"):
            self._signal(rank, at, where, op)
        elif name in ("wait", "rlxwait"):
            keys = [(rank, kind, one) for kind, one in self._channels(rank, at, where, op)]
            if not all(self.signals[key] >= many for key, many in Counter(keys).items()):
                return False
            self.signals.subtract(keys)
        elif name == "barrier":
            barrier = self._number(op, "barrier_id", where)
            turn = self.rounds[rank, number, barrier]
            key = (rank, barrier, turn)
            if (*key, number) not in self.came:
                self.came.add((*key, number))
                self.arrived[key] += 1
            if self.arrived[key] < self._number(op, "num_threadblocks", where):
                return False
            self.rounds[rank, number, barrier] += 1
        elif name in ("sem_acquire", "sem_release"):
            ids = [(rank, one) for one in self._numbers(op, "semaphore_ids", where)]
            if name == "sem_acquire" and not all(self.tokens[one] > 0 for one in ids):
                return False
            for one in ids:
                self.tokens[one] += 1 if name == "sem_release" else -1
        return True

    def _channels(self, rank: int, at: Where, where: Where, op: dict[str, Any]) -> list[tuple[str, int]]:
        """Return the type and number of the channels of an op, counted in the rank."""
        kind = op.get("channel_type")
        block = self.gpus[rank]["threadblocks"][at[3]]
        mine = [one for one in self._list(block, "channels", at) if one.get("channel_type") == kind]
        ids = self._numbers(mine[0], "channel_ids", at) if mine else []
        found = []
        for one in self._numbers(op, "channel_ids", where):
            if one >= len(ids):
                raise self.refused(where, f"its thread block has {len(ids)} channels of type {kind}", one)
            found.append((str(kind), ids[one]))
        return found

    def _peers(self, rank: int, kind: str) -> list[int]:
        """Return the ranks at the other ends of the channels of a type."""
        found: list[int] = []
        for k, one in enumerate(self._list(self.gpus[rank], "channels", ("gpus", rank))):
            if one.get("channel_type", one.get("type")) == kind:
                found += self._numbers(one, "connected_to", ("gpus", rank, "channels", k))
        return found

    def _signal(self, rank: int, at: Where, where: Where, op: dict[str, Any]) -> None:
        """Add a signal to the peer's channel in the opposite direction: the n-th channel of the peer that leads to this rank.
        """
        for kind, one in self._channels(rank, at, where, op):
            peers = self._peers(rank, kind)
            if one >= len(peers) or peers[one] >= len(self.gpus):
                raise self.refused(where, f"rank {rank} has {len(peers)} channels of type {kind}", one)
            nth = peers[:one].count(peers[one])
            back = [k for k, other in enumerate(self._peers(peers[one], kind)) if other == rank]
            if nth >= len(back):
                raise self.refused(where, f"rank {peers[one]} has no channel of type {kind} back to rank {rank}")
            self.signals[peers[one], kind, back[nth]] += 1

    def _through_switch(self, rank: int, number: int, at: Where, where: Where, op: dict[str, Any]) -> None:
        """Load the sum of a chunk over all members of a group (glre), store a chunk at all members (gstore, gstorepkt), or
        both (glres).
        """
        name, sides = op["name"], [self._list(op, key, where) for key in ("src_buff", "dst_buff")]
        if any(len(side) != 1 for side in sides):
            raise self.refused(where, f"{name} must have one src_buff and one dst_buff")
        ends = [
            self._members(rank, at, where, op, key) if "switch_channel_id" in side[0] else [self._place(rank, at, op, key, 0)]
            for key, side in zip(("src_buff", "dst_buff"), sides, strict=True)
        ]
        sources, targets = ends
        if len(sources) < 2 and len(targets) < 2:
            raise self.refused(where, f"{name} must have a switch_channel_id")
        members = tuple(one.rank for one in max(ends, key=len))
        own = next((one for one in targets if one.rank == rank), None)
        if rank not in members or len({one.count for one in (*sources, *targets)}) > 1:
            raise self.refused(
                where, f"all buffers of {name} must have the same number of chunks, and its group must contain its own rank"
            )
        assert own is not None
        group, by = self.groups.setdefault((rank, members, number), len(self.groups)), (rank, number)

        if len(sources) > 1:
            for one in sources:
                self._add(one.rank, ("give", group), Row(-1, -1, number, group), "s", one, None, by)
            kind = "rcs" if len(targets) > 1 else "r"
            self._add(rank, ("sum", group), Row(-1, -1, number, group, copies=True), kind, None, own, by)
        else:
            self._add(rank, ("store", group), Row(-1, -1, number, group, copies=True), "s", sources[0], None, by)
            if sources[0] != own:
                self._add(rank, ("local", number), Row(-1, -1, 0), "cpy", sources[0], own, by)
        for one in targets:
            if one.rank != rank:
                self._add(one.rank, ("copied", group), Row(-1, -1, number, group), "r", None, one, by)

    def _members(self, rank: int, at: Where, where: Where, op: dict[str, Any], key: str) -> list[ChunkRange]:
        """Return the chunks of a buffer of all members of a switch channel."""
        one = op[key][0]
        block = self.gpus[rank]["threadblocks"][at[3]]
        mine = [other for other in self._list(block, "channels", at) if other.get("channel_type") == "switch"]
        ids = self._numbers(mine[0], "channel_ids", at) if mine else []
        groups: list[tuple[Any, list[int]]] = []
        for k, channel in enumerate(self._list(self.gpus[rank], "channels", ("gpus", rank))):
            if channel.get("channel_type") == "switch":
                here: Where = ("gpus", rank, "channels", k)
                kind = channel.get("buffer_type", channel.get("buff"))
                groups += [(kind, self._numbers(some, "ranks", here)) for some in self._list(channel, "rank_groups", here)]
        number = self._number(one, "switch_channel_id", where)
        if number >= len(ids) or ids[number] >= len(groups):
            raise self.refused(where, "its thread block has no such switch channel", number)
        buffer, ranks = groups[ids[number]]
        if not 2 <= len(set(ranks)) == len(ranks) or max(ranks) >= len(self.gpus):
            rule = f"a group of a switch channel is two or more of the ranks 0 to {len(self.gpus) - 1}"
            raise self.refused(where, rule, str(ranks))
        index, count = self._number(one, "index", where), self._number(one, "size", where)
        return [self._checked(where, owner, buffer, index, count) for owner in sorted(ranks)]

    def _place(self, rank: int, at: Where, op: dict[str, Any], key: str, number: int) -> ChunkRange:
        """Return the chunks that an op names, on its own rank or on another rank."""
        where = (*at, "ops")
        one = op[key][number]
        index, count = self._number(one, "index", where), self._number(one, "size", where)
        owner, buffer = rank, one.get("type")
        if "buffer_id" in one:
            block, gpu = self.gpus[rank]["threadblocks"][at[3]], self.gpus[rank]
            kind = op.get("channel_type")
            refs = [ref for ref in self._list(block, "remote_buffer_refs", at) if ref.get("access_channel_type") == kind]
            ids = self._numbers(refs[0], "remote_buffer_ids", at) if refs else []
            buffers = self._list(gpu, "remote_buffers", ("gpus", rank))
            known = self._number(one, "buffer_id", where)
            if known >= len(ids) or ids[known] >= len(buffers):
                raise self.refused(where, f"there is no such remote buffer of {kind}", known)
            remote = buffers[ids[known]]
            owner, buffer = self._number(remote, "rank", ("gpus", rank), len(self.gpus) - 1), remote.get("type")
        return self._checked(where, owner, buffer, index, count)

    def _checked(self, where: Where, owner: int, buffer: Any, index: int, count: int) -> ChunkRange:
        """Return chunks after a check that the rank has them."""
        limits = {"i": self.made.sizes()[0], "o": self.made.sizes()[1], "s": self.made.scratch}
        if not isinstance(buffer, str) or buffer not in limits or not count or index + count > limits[buffer]:
            there = limits.get(str(buffer), 0)
            rule = f"chunks {index} to {index + count - 1} of {buffer} are used, and rank {owner} has {there}"
            raise self.refused(where, rule)
        return ChunkRange(owner, Ref(buffer, index), count)

    # The steps --------------------------------------------------------------------------------------------------------

    def _move(self, rank: int, number: int, source: ChunkRange, target: ChunkRange, where: Where) -> None:
        """Add a copy, or a message if the source and the target are on different ranks."""
        if source.count != target.count:
            raise self.refused(
                where, f"{source.count} source chunks do not fit {target.count} target chunks; the numbers must be equal"
            )
        if source.rank == target.rank:
            self._add(source.rank, ("local", number), Row(-1, -1, 0), "cpy", source, target, (rank, number))
        else:
            self._send(source, target.rank, "r", None, target, (rank, number))

    def _send(
        self, source: ChunkRange, to: int, kind: str, added: ChunkRange | None, target: ChunkRange, by: tuple[int, int]
    ) -> None:
        channel, here = by[1], source.rank
        self._add(here, ("send", to, channel), Row(to, -1, channel), "s", source, None, by)
        self._add(to, ("recv", here, channel), Row(-1, here, channel), kind, added, target, by)

    def _sum(self, rank: int, number: int, sources: list[ChunkRange], targets: list[ChunkRange], where: Where) -> None:
        """Add the sum of all sources to the first target on the rank itself, and copies of the sum to the other targets."""
        mine = [one for one in targets if one.rank == rank]
        if not mine or any(one.count != mine[0].count for one in (*sources, *targets)):
            raise self.refused(
                where, "all buffers of a sum must have the same number of chunks, and one dst_buff must be on its own rank"
            )
        own, total, by = [one for one in sources if one.rank == rank], mine[0], (rank, number)
        if not own:
            raise self.refused(where, "one src_buff of a sum must be on its own rank")
        first = total if total in own else own[0]
        own.remove(first)
        local = ("local", number)
        for one in [other for other in sources if other.rank != rank]:
            self._send(one, rank, "rrc", first, total, by)
            first = total
        if first != total:
            self._add(rank, local, Row(-1, -1, 0), "cpy", first, total, by)
        for one in own:
            self._add(rank, local, Row(-1, -1, 0), "re", one, total, by)
        for one in targets:
            if one != total:
                self._move(rank, number, total, one, where)

    def _add(
        self,
        rank: int,
        key: Key,
        new: Row,
        kind: str,
        source: ChunkRange | None,
        target: ChunkRange | None,
        by: tuple[int, int],
    ) -> None:
        """Add a step of a rank. The step waits for earlier steps that use the same chunks."""
        self.steps += 1
        self.uses += (source.count if source else 0) + (target.count if target else 0)
        if self.steps > MAX_STEPS:
            raise self.refused(("gpus",), f"it has more than {MAX_STEPS:,} steps")
        if self.uses > MAX_USES:
            raise self.refused(("gpus",), f"its steps use more than {MAX_USES:,} chunks")
        row = self.rows[rank].setdefault(key, new)
        me = (key, len(row.steps))
        before = {self.last[by]} if by[0] == rank and by in self.last else set()
        writes = self._shared(rank, target) if target else []
        reads = [*(self._shared(rank, source) if source else ()), *(writes if kind == "re" else ())]
        for chunk in (*reads, *writes):
            if chunk in self.written[rank]:
                before.add(self.written[rank][chunk])
        for chunk in writes:
            before.update(self.read[rank].pop(chunk, ()))
            self.written[rank][chunk] = me
        for chunk in reads:
            self.read[rank].setdefault(chunk, []).append(me)
        waits: dict[Key, int] = {}
        for other, at in before:
            if other != key:
                waits[other] = max(at, waits.get(other, -1))
        count = (source or target).count  # type: ignore[union-attr]  # each kind has one of them
        row.steps.append(Step(kind, source.ref if source else None, target.ref if target else None, count, (), 1))
        row.waits.append(tuple(waits.items()))
        if by[0] == rank:
            self.last[by] = me

    def _shared(self, rank: int, place: ChunkRange) -> Sequence[tuple[str, int]]:
        """Return chunks by the name of their memory. In a plan in place, elements and results have the same memory."""
        if not self.made.in_place or place.ref.buffer == "s":
            return list(place.chunks)
        has, gets = self.made.sizes()
        first = rank * min(has, gets) if (has < gets) == (place.ref.buffer == "i") and has != gets else 0
        return [("x", first + chunk) for _, chunk in place.chunks]

    def program(self) -> Program:
        """Return all steps as a program, by rank and thread block."""
        ranks = []
        for rows in self.rows:
            numbers = {key: number for number, key in enumerate(rows)}
            blocks = []
            for key, row in rows.items():
                waits = [tuple((numbers[other], at) for other, at in after) for after in row.waits]
                steps = tuple(replace(one, after=after) for one, after in zip(row.steps, waits, strict=True))
                blocks.append(Block(numbers[key], row.send, row.recv, row.channel, steps, row.group, row.copies))
            ranks.append(tuple(blocks))
        made = self.made
        groups = tuple(InSwitch(root, members) for root, members, _ in self.groups)
        return replace(made, ranks=tuple(ranks), groups=groups, redop=self.redop)
