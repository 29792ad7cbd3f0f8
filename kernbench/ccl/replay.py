"""Replays execution traces: each node takes its recorded duration, or the time that the machine needs for it.

A rank has three engines: its PE, its CPU, and its port to the other ranks. Each engine runs one node at a time, and the node
that was ready first runs first. A collective occupies the ports of all its ranks, and a send the port of its sender. A receive
ends when its message arrives.
"""

from __future__ import annotations

import heapq
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction
from math import ceil

from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.group import Group
from kernbench.ccl.imports.chakra import CALLERS, COLLECTIVE_NAMES, Node, Trace
from kernbench.ccl.measure import CclRequest, check_room, queues_of, resolved, row
from kernbench.ccl.process_groups import on_machine
from kernbench.ccl.recording import FIRST, Manner, manner_of
from kernbench.ccl.registry import AUTO, Registry
from kernbench.ccl.tuner import tuner_of
from kernbench.common.dtypes import dtype_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.config import SystemConfig

MAX_MICROS = 10**12  # eleven days
MAX_SIZE = 1 << 40  # [B]
MAX_OPS = 10**18
COMPUTE, COMMUNICATION, CPU, NOTHING = "compute", "communication", "cpu", "none"


@dataclass(frozen=True)
class Wanted:
    """A collective whose time is needed."""

    collective: str
    size: int  #: [B] that a rank has
    ranks: tuple[int, ...]
    root: int  #: rank of the group
    message: bool = False  #: it is one message, timed as a broadcast of two ranks
    manner: Manner | None = None  #: None: the tuner chooses


@dataclass
class Job:
    """A node, or the nodes of a collective on all ranks."""

    nodes: list[tuple[int, Node]]  #: (rank, node)
    kind: str
    engines: list[tuple[int, str]] = field(default_factory=list)
    after: list[int] = field(default_factory=list)  #: jobs that end before it begins
    cycles: int = 0
    wanted: Wanted | None = None
    begin: int = 0
    end: int = 0
    cause: int | None = None  #: the job whose end is its begin


@dataclass(frozen=True)
class Times:
    """The times of nodes on a machine."""

    config: SystemConfig
    group: Group
    registry: Registry
    dtype: str
    estimates: bool = False  #: collectives are estimated by the cost model instead of simulated
    found: dict[Wanted, tuple[str, int]] = field(default_factory=dict)  #: algorithm and cycles

    def micros(self, micros: int) -> int:
        """Return a duration in cycles."""
        return ceil(self.config.freq_ghz * 1000 * micros)

    def ops(self, ops: int) -> int:
        """Return the cycles of operations on the tensor engines of a PE at the rate of the element type. A MAC is two
        operations.
        """
        te, bits = self.config.pe.te, dtype_of(self.dtype).bits
        return ceil(Fraction(ops, 2) / (te.engines * te.rate(bits, bits)))

    def bytes(self, nbytes: int) -> int:
        """Return the cycles of bytes on the link of a PE."""
        return ceil(Fraction(nbytes) / Fraction(tuner_of(self.config, self.group, self.registry).latencies.link))

    def collective(self, wanted: Wanted) -> tuple[str, int]:
        """Return the algorithm and the cycles of a collective that runs alone. Each collective is simulated only once."""
        if wanted not in self.found:
            self.found[wanted] = self._timed(wanted)
        return self.found[wanted]

    def _timed(self, wanted: Wanted) -> tuple[str, int]:
        what, manner = COLLECTIVES[wanted.collective], wanted.manner
        entry = self.registry.find(wanted.collective, AUTO if manner is None else manner.algorithm)
        dtype = self.dtype if manner is None else manner.dtype
        if (what.moves and not wanted.size) or (len(wanted.ranks) == 1 and manner is None):
            return "-", 0
        count = ceil_div(wanted.size, dtype_of(dtype).bits // 8) if what.moves else 1
        if what.blocks_in:
            count = ceil_div(count, len(wanted.ranks))
        group = self._members(wanted.ranks)
        if self.estimates:
            choice = tuner_of(self.config, group, self.registry).choose(wanted.collective, count, dtype)
            name = choice.name if manner is None else manner.algorithm
            if name not in choice.cycles:
                raise InputError(Problem("replay", f"the cost model does not know {entry.full_name} for this group"))
            known = choice.cycles[name] if manner is None else choice.each.get((name, manner.protocol), choice.cycles[name])
            return name, ceil(known)
        if rule := entry.unfit(self.config, group):
            raise InputError(Problem("replay", rule))
        given = () if manner is None else (manner.slots, manner.slot_bytes, manner.tier, manner.protocol)
        queues = queues_of(self.registry, entry, *given, config=self.config, group=group)
        redop = "sum" if manner is None else manner.redop
        request = CclRequest(self.config, group, entry, dtype, queues, False, root=wanted.root, redop=redop)
        request = resolved(request, count)
        check_room(request, [count])
        made, _ = row(request, count)
        if made is None:
            raise InputError(Problem("replay", f"{request.entry.full_name} did not end", remedy="use --estimate"))
        return request.entry.name, made.cycles

    def _members(self, ranks: tuple[int, ...]) -> Group:
        """Return these ranks as a group of PEs."""
        rows = tuple(self.group.rows[rank] for rank in ranks)
        return replace(on_machine(self.group, ranks), rows=rows, placed=self.group.shape)


def jobs_of(traces: Sequence[Trace], registry: Registry) -> list[Job]:
    """Return the nodes of all ranks as jobs, with matched collectives and messages.

    Raises InputError, which names the node, the field and the rule, if nodes do not match.
    """
    jobs: list[Job] = []
    at: dict[tuple[int, int], int] = {}  # the job of a rank's node
    calls: dict[str, dict[int, list[Node]]] = defaultdict(lambda: defaultdict(list))  # by group and rank
    sent, received = (defaultdict[tuple[int, int, int], list[int]](list) for _ in range(2))
    for rank, trace in enumerate(traces):
        for node in trace.nodes:
            if node.micros > MAX_MICROS:
                raise trace.error(node, "duration_micros", f"it must be at most {MAX_MICROS:,} microseconds", node.micros)
            on_cpu = node.attributes.get("is_cpu_op") is True
            if node.type == "COMM_COLL_NODE" and not on_cpu:
                calls[_group_name(trace, node)][rank].append(node)
                continue
            at[rank, node.number] = len(jobs)
            if node.type in ("COMM_SEND_NODE", "COMM_RECV_NODE") and not on_cpu:
                to_others = node.type == "COMM_SEND_NODE"
                name = "comm_dst" if to_others else "comm_src"
                peer, tag = trace.natural(node, name, MAX_SIZE), trace.natural(node, "comm_tag", MAX_SIZE, 0)
                if peer >= len(traces) or peer == rank:
                    raise trace.error(node, name, f"it must be another rank, of 0 to {len(traces) - 1}", peer)
                if to_others:
                    sent[rank, peer, tag].append(len(jobs))
                    size = trace.natural(node, "comm_size", MAX_SIZE)
                    wanted = Wanted("broadcast", size, (rank, peer), 0, message=True)
                    jobs.append(Job([(rank, node)], COMMUNICATION, [(rank, COMMUNICATION)], wanted=wanted))
                else:
                    received[peer, rank, tag].append(len(jobs))
                    jobs.append(Job([(rank, node)], COMMUNICATION))
            elif node.type == "METADATA_NODE":
                jobs.append(Job([(rank, node)], NOTHING))
            else:
                kind = CPU if on_cpu else COMPUTE  # on the CPU also what only starts communication
                jobs.append(Job([(rank, node)], kind, [(rank, kind)]))
    _pair(traces, jobs, sent, received)
    for name, by_rank in calls.items():
        for job in _collectives(traces, name, by_rank, registry):
            at |= {(rank, node.number): len(jobs) for rank, node in job.nodes}
            jobs.append(job)
    for job in jobs:
        job.after += sorted({at[rank, one] for rank, node in job.nodes for one in (*node.control, *node.data)})
    _check_order(traces, jobs)
    return jobs


def _group_name(trace: Trace, node: Node) -> str:
    name, dims = node.attributes.get("pg_name", ""), node.attributes.get("involved_dim", ())
    if not name and isinstance(dims, tuple) and not all(dims):
        rule = "groups along some dimensions of a network are not known here"
        raise trace.error(node, "involved_dim", rule, remedy="name the group (pg_name)")
    return str(name)


def _pair(
    traces: Sequence[Trace],
    jobs: Sequence[Job],
    sent: Mapping[tuple[int, int, int], list[int]],
    received: Mapping[tuple[int, int, int], list[int]],
) -> None:
    """Match the n-th send with the n-th receive, for the same two ranks and tag."""
    for key in sorted({*sent, *received}):
        sends, receives = sent.get(key, []), received.get(key, [])
        for send, receive in zip(sends, receives, strict=False):
            (rank, node), wanted = jobs[receive].nodes[0], jobs[send].wanted
            assert wanted is not None
            size = traces[rank].natural(node, "comm_size", MAX_SIZE, wanted.size)
            if size != wanted.size:
                rule = f"node {jobs[send].nodes[0][1].number} of rank {key[0]} sends {wanted.size:,} bytes"
                raise traces[rank].error(node, "comm_size", rule, size)
            jobs[receive].after.append(send)
        if len(sends) != len(receives):
            rank, node = jobs[(sends + receives)[0] if not (sends and receives) else _first_left(sends, receives)].nodes[0]
            source, target, tag = key
            other = f"rank {target} receives {len(receives)}, and rank {source} sends {len(sends)}"
            rule = f"messages with tag {tag} do not match: {other}"
            raise traces[rank].error(node, "comm_dst" if rank == source else "comm_src", rule)


def _first_left(sends: Sequence[int], receives: Sequence[int]) -> int:
    """Return the first send or receive without a partner."""
    longer, shorter = (sends, receives) if len(sends) > len(receives) else (receives, sends)
    return longer[len(shorter)]


def _collectives(
    traces: Sequence[Trace], name: str, by_rank: Mapping[int, Sequence[Node]], registry: Registry
) -> Iterator[Job]:
    """Match the n-th collectives of all ranks of a group."""
    ranks = tuple(sorted(by_rank)) if name else tuple(range(len(traces)))
    most = max(ranks, key=lambda rank: len(by_rank.get(rank, ())))
    for place, node in enumerate(by_rank[most]):
        nodes = []
        for rank in ranks:
            if place >= len(by_rank.get(rank, ())):
                whose = f"group {name}" if name else "all ranks"
                rule = f"it is collective {place + 1} of {whose}, and rank {rank} has {len(by_rank.get(rank, ()))}"
                raise traces[most].error(node, "comm_type", rule)
            nodes.append((rank, by_rank[rank][place]))
        whats = [_what(traces[rank], one, ranks, registry) for rank, one in nodes]
        for (rank, one), what in zip(nodes, whats, strict=True):
            if what != whats[0]:
                first = whats[0]
                at = next(k for k in range(4) if what[k] != first[k])
                rule = f"node {nodes[0][1].number} of rank {nodes[0][0]}, to which it belongs, has {first[at]}"
                raise traces[rank].error(one, ("comm_type", "comm_size", "root_rank", FIRST)[at], rule, str(what[at]))
        collective, size, root, manner = whats[0]
        wanted = Wanted(collective, size, ranks, root, manner=manner)
        yield Job(nodes, COMMUNICATION, [(rank, COMMUNICATION) for rank in ranks], wanted=wanted)


def _what(trace: Trace, node: Node, ranks: Sequence[int], registry: Registry) -> tuple[str, int, int, Manner | None]:
    """Return the collective, its size, its root, and how it was run."""
    collective = COLLECTIVE_NAMES[trace.natural(node, "comm_type", len(COLLECTIVE_NAMES) - 1)]
    what = COLLECTIVES[collective]
    size = trace.natural(node, "comm_size", MAX_SIZE) if what.moves else 0
    root = trace.natural(node, "root_rank", MAX_SIZE, ranks[0]) if what.rooted else ranks[0]
    if root not in ranks:
        raise trace.error(node, "root_rank", "it must be a rank of the group", root)
    return collective, size, ranks.index(root), manner_of(trace, node, collective, registry)


def _check_order(traces: Sequence[Trace], jobs: Sequence[Job]) -> None:
    """Raise InputError if jobs wait for each other. The message names the nodes of the cycle."""
    left = [len(job.after) for job in jobs]
    nexts = _nexts(jobs)
    ready = [one for one, many in enumerate(left) if not many]
    for one in ready:  # grows
        for other in nexts[one]:
            left[other] -= 1
            if not left[other]:
                ready.append(other)
    at = next((one for one, many in enumerate(left) if many), None)
    if at is None:
        return
    way: dict[int, int] = {}
    while at not in way:
        way[at] = len(way)
        at = next(one for one in jobs[at].after if left[one])
    circle = [one for one, place in way.items() if place >= way[at]]
    said = [_said(jobs[one]) for one in circle[:6]] + ["others"] * (len(circle) > 6) + [_said(jobs[circle[0]])]
    rank, node = jobs[circle[0]].nodes[0]
    rule = f"nodes wait for each other, which is a deadlock: {' waits for '.join(said)}"
    control = any(node.control for one in circle for _, node in jobs[one].nodes)
    raise traces[rank].error(node, "data_deps" if node.data else "ctrl_deps", rule, remedy=CALLERS if control else "")


def _said(job: Job) -> str:
    return " = ".join(f"node {node.number} of rank {rank}" for rank, node in job.nodes[:4])


def _nexts(jobs: Sequence[Job]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in jobs]
    for one, job in enumerate(jobs):
        for before in job.after:
            found[before].append(one)
    return found


def time_jobs(traces: Sequence[Trace], jobs: Sequence[Job], times: Times) -> None:
    """Set the cycles of each job: the recorded duration, or the time of its operations, bytes or collective on the machine."""
    for job in jobs:
        rank, node = job.nodes[0]
        if job.wanted is not None:
            try:
                job.cycles = times.collective(job.wanted)[1]
            except InputError as error:
                remedy = "" if times.estimates else "use --estimate"
                raise traces[rank].error(node, "comm_size", f"it has no time: {error}", job.wanted.size, remedy) from None
        elif job.kind in (COMPUTE, CPU):
            trace = traces[rank]
            ops, size = (
                trace.natural(node, name, most, 0) for name, most in (("num_ops", MAX_OPS), ("tensor_size", MAX_SIZE))
            )
            if node.micros:
                job.cycles = times.micros(node.micros)
            elif node.type == "COMP_NODE":
                job.cycles = times.ops(ops)
            else:
                job.cycles = times.bytes(size)


def run_jobs(jobs: Sequence[Job]) -> int:
    """Set the start and end of each job, and return the last end [cycle]. Jobs must not wait for each other."""
    left, nexts = [len(job.after) for job in jobs], _nexts(jobs)
    free: dict[tuple[int, str], tuple[int, int | None]] = defaultdict(lambda: (0, None))  # from when on, and the job until then
    waiting: dict[tuple[int, str], list[tuple[int, int]]] = defaultdict(list)  # (ready, job) for each engine
    ready = [0] * len(jobs)
    events: list[tuple[int, int, int, tuple[int, str]]] = [(0, 1, one, (0, "")) for one, many in enumerate(left) if not many]
    heapq.heapify(events)

    def begins(one: int, now: int) -> bool:
        """Start a job, or queue it at the engine that becomes free last."""
        job = jobs[one]
        busy = max(job.engines, key=lambda engine: free[engine][0], default=None)
        if busy is not None and free[busy][0] > now:
            heapq.heappush(waiting[busy], (ready[one], one))
            return False
        job.begin, job.end = now, now + job.cycles
        if busy is not None and now > ready[one]:
            job.cause = free[busy][1]
        elif job.after:
            job.cause = max(job.after, key=lambda before: jobs[before].end)
        for engine in job.engines:
            free[engine] = job.end, one
            heapq.heappush(events, (job.end, 0, one, engine))
        for other in nexts[one]:
            ready[other] = max(ready[other], job.end)
            left[other] -= 1
            if not left[other]:
                heapq.heappush(events, (ready[other], 1, other, (0, "")))
        return True

    while events:
        now, starts, one, engine = heapq.heappop(events)
        if starts:
            begins(one, now)
            continue
        while waiting[engine] and free[engine][0] <= now:
            begins(heapq.heappop(waiting[engine])[1], now)
    return max((job.end for job in jobs), default=0)


def critical_path(jobs: Sequence[Job]) -> Counter[str]:
    """Return the cycles of the jobs on the critical path, by kind."""
    found: Counter[str] = Counter()
    at = max(range(len(jobs)), key=lambda one: jobs[one].end, default=None)
    while at is not None:
        found[jobs[at].kind] += jobs[at].cycles
        at = jobs[at].cause
    return found
