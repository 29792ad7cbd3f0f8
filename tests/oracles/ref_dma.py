"""DMA engines: pending jobs, admission, transfers and their flows (docs/model: dma.md, sharing.md, counters.md)."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil
from typing import Any

from .ref_banks import Request
from .ref_cache import Cache, Part
from .ref_controller import controller_bursts
from .ref_geometry import (
    Range,
    Scratchpad,
    aligned_rows,
    compressed_pieces,
    dram_rows,
    mesh_links,
    mesh_route,
    pieces_by_channel,
)
from .ref_machine import exact
from .ref_rows import Piece, bursts_by_channel


class Flow:
    """The bytes of a transfer on one DRAM channel."""

    def __init__(self, job: DmaJob, channel: int, pieces: list[tuple[int, int]], route: tuple[str, ...]) -> None:
        self.job = job
        self.channel = channel
        self.pieces = pieces  # (bank, bytes), in order
        self.route = route
        self.dram = route[0] if route[0].startswith("dram.") else None  # its DRAM channel among the resources
        self.bursts: list[Piece] = []  # row_buffer_v1 and _v2, in order
        self.next = 0  # index of the first piece not asked for yet
        self.total = sum(nbytes for _, nbytes in pieces)
        self.left = self.total  # bytes not moved
        self.rate = Fraction(0)
        self.den = 1  # what the carry is counted in: carry / den bytes
        self.carry = 0
        self.request: Request | None = None
        self.request_bytes = 0  # bytes of the open request
        self.out = False  # has left its resources for backpressure
        self.on_its_way = False  # over routers, although nothing is left to request
        self.moved_at = -1  # the last cycle in which bytes moved
        self.carried = 0  # bytes that its resources have counted

    @property
    def weight(self) -> int:
        """Its weight at each resource."""
        return self.job.weight

    @property
    def turn(self) -> tuple[int, int, int]:
        """Its place among the flows of its channel under `fifo_v1`."""
        return (self.job.start, self.job.engine, self.job.seq)

    def set_rate(self, rate: Fraction) -> None:
        """Take a new rate on its resources; the carry keeps its value in bytes, rounded down."""
        rate = rate * self.job.ratio
        self.carry = self.carry * rate.denominator // self.den
        self.den = rate.denominator
        self.rate = rate

    def ask(self, cycle: int, row_of_banks: int) -> None:
        """A member cycle without a held request: accrue, and ask for the longest run of whole pieces."""
        self.carry += self.rate.numerator
        reach = self.carry // self.den
        banks: list[int] = []
        nbytes = 0
        while self.next < len(self.pieces):
            bank, piece = self.pieces[self.next]
            if nbytes + piece > reach or bank in banks:
                break
            banks.append(bank)
            nbytes += piece
            self.next += 1
        if banks:
            order = (0, self.job.engine, self.job.seq, self.channel)
            reads, writes = (banks, []) if self.job.is_store else ([], banks)
            self.request = Request(order, reads, writes, cycle)
            self.request_bytes = nbytes
            self.carry -= nbytes * self.den
        self.carry = min(self.carry, self.den * row_of_banks)


class DmaJob:
    """A DMA entry: its channel, score, order key, scratchpad range and, once started, its flows."""

    def __init__(self, entry: dict[str, Any], seq: int, machine: dict[str, Any]) -> None:
        dma, dram = machine["dma"], machine["dram"]
        opcode = entry["opcode"]
        is_kv = opcode.startswith("KV_") or entry.get("tensor_role") == "kv"
        self.entry = entry
        self.seq = seq
        self.engine: int = entry.get("dma_id", 0)
        self.is_store = "STORE" in opcode
        self.channel = "act_weight" if not is_kv else "kv_store" if self.is_store else "kv_load"
        self.score = dma["channels"][self.channel]["priority"]
        if self.channel == "kv_load":
            self.score += dma["kv_load_bonus"]
        self.kv_key = None
        if opcode == "KV_STORE_TILE":
            self.kv_key = (entry["dram_base_addr"], entry["head_id"], entry["kv_kind"])
        spm = Scratchpad(machine["spm"])
        codec = None if "codec" not in entry else dma["codecs"][entry["codec"]]
        self.ratio = Fraction(1) if codec is None else exact(codec["ratio"])
        rows = dram_rows(entry, machine["kv_layouts"])
        rows = aligned_rows([(addr, ceil(nbytes / self.ratio)) for addr, nbytes in rows], dma["alignment_bytes"])
        spm_addr = spm.flat(entry["spm_bank"], entry["spm_offset"])
        self.range: Range = (spm_addr, spm_addr + int(self.ratio * sum(nbytes for _, nbytes in rows)))
        self.reads = [self.range] if self.is_store else []  # of the scratchpad
        self.writes = [] if self.is_store else [self.range]
        self.weight: int = dma["channels"][self.channel]["weight"]
        self.number = "", 0  # of a kernel in a perturbed run: PE and channel, and the place among their transfers
        self.stall_reason: str | None = None  # while pending: queue_full or priority_deferred
        self.start = -1
        self.flows: list[Flow] = []
        self.head: int = dram["t_setup_cycles"]
        self.machine, self.rows, self.spm, self.spm_addr = machine, rows, spm, spm_addr
        self.parts: list[list[Part]] = []
        if machine["llc"] is not None:
            return  # what its flows are is decided when it starts
        own = []
        if codec is None:
            by_channel = pieces_by_channel(rows, spm_addr, spm.width, dram["channels"], dram["interleave_bytes"])
        else:
            own = [f"dma{self.engine}.codec{entry['codec']}"]
            self.head += codec.get("latency_cycles", 0)
            by_channel = compressed_pieces(rows[0], self.ratio, spm_addr, spm.width, dram["channels"], dram["interleave_bytes"])
        hops = 0
        for channel, pieces in sorted(by_channel.items()):
            links = self._links(channel, machine["noc"])
            hops = max(hops, len(links))
            in_banks = [(spm.bank_of_line(line), nbytes) for line, nbytes in pieces]
            self.flows.append(Flow(self, channel, in_banks, (f"dram.ch{channel}", *links, *own)))
            if machine["allocation"] == "row_buffer_v1":
                self.flows[-1].bursts = bursts_by_channel(rows, dram)[channel]
            if machine["allocation"] == "row_buffer_v2":
                self.flows[-1].bursts = controller_bursts(rows, dram)[channel]
        if machine["noc"] is not None:
            self.head += hops * machine["noc"]["hop_latency_cycles"]

    def look_up(self, cache: Cache) -> None:
        """P3 with a last-level cache: the lookups of a job that starts, and the flows that follow."""
        dram, noc = self.machine["dram"], self.machine["noc"]
        channels, interleave = dram["channels"], dram["interleave_bytes"]
        parts = cache.look_up(self.rows, self.is_store, lambda address: f"dram.ch{address // interleave % channels}")
        self.parts = parts
        hop = 0 if noc is None else noc["hop_latency_cycles"]
        heads = []
        number = dram["channels"] + (0 if noc is None else len(mesh_links(noc)))  # of the flow of the cache
        for channel, pieces in sorted(pieces_by_source(parts, self.spm_addr, self.spm.width, dram, number).items()):
            of_cache = channel == number
            links = self.links_of_cache() if of_cache else self.links_over_cache(channel)
            first = ("llc",) if of_cache else (f"dram.ch{channel}", "llc")
            in_banks = [(self.spm.bank_of_line(line), nbytes) for line, nbytes in pieces]
            flow = Flow(self, channel, in_banks, (*first, *links))
            own = self.machine["llc"]["latency_cycles"] if of_cache else dram["t_setup_cycles"]
            heads.append(own + hop * len(links))
            missed = missed_runs(parts)
            if not of_cache and self.machine["allocation"] == "row_buffer_v1":
                flow.bursts = bursts_by_channel(missed, dram)[channel]
            if not of_cache and self.machine["allocation"] == "row_buffer_v2":
                flow.bursts = controller_bursts(missed, dram)[channel]
            self.flows.append(flow)
        self.head = max(heads)

    def links_of_cache(self) -> list[str]:
        if self.machine["noc"] is None:
            return []
        here, at = self.machine["noc"]["dma_at"][self.engine], self.machine["llc"]["at"]
        return mesh_route(here, at) if self.is_store else mesh_route(at, here)

    def links_over_cache(self, channel: int) -> list[str]:
        noc, at = self.machine["noc"], self.machine["llc"].get("at")
        if noc is None:
            return []
        there = noc["dram_at"][channel]
        behind = mesh_route(at, there) if self.is_store else mesh_route(there, at)
        return self.links_of_cache() + behind if self.is_store else behind + self.links_of_cache()

    def _links(self, channel: int, noc: dict[str, Any] | None) -> list[str]:
        if noc is None:
            return []
        dma_at, dram_at = noc["dma_at"][self.engine], noc["dram_at"][channel]
        return mesh_route(dma_at, dram_at) if self.is_store else mesh_route(dram_at, dma_at)

    @property
    def backpressured(self) -> bool:
        """Whether the job is stalled for backpressure: some flow of it has left its resources."""
        return any(flow.out for flow in self.flows)


def pieces_by_source(
    parts: list[list[Part]], spm_addr: int, width: int, dram: dict[str, Any], number: int
) -> dict[int, list[tuple[int, int]]]:
    """(scratchpad line, bytes) of the flow of each channel, and, as `number`, of the cache, in the flow's own order."""
    flows: dict[int, list[tuple[int, int]]] = {}
    at = spm_addr
    for address, nbytes, cached in (part for row in parts for part in row):
        for byte in range(address, address + nbytes):
            channel = number if cached else byte // dram["interleave_bytes"] % dram["channels"]
            pieces = flows.setdefault(channel, [])
            if pieces and pieces[-1][0] == at // width:
                pieces[-1] = (at // width, pieces[-1][1] + 1)
            else:
                pieces.append((at // width, 1))
            at += 1
    return flows


def missed_runs(parts: list[list[Part]]) -> list[tuple[int, int]]:
    """(address, bytes) of consecutive bytes of a row that do not move over the cache alone."""
    runs: list[tuple[int, int]] = []
    for row in parts:
        last = False
        for address, nbytes, cached in row:
            if not cached and last:
                runs[-1] = (runs[-1][0], runs[-1][1] + nbytes)
            elif not cached:
                runs.append((address, nbytes))
            last = not cached
    return runs


class DmaEngine:
    """One DMA engine: admission in P3, and its counters."""

    def __init__(self, number: int, dma: dict[str, Any]) -> None:
        self.number = number
        self.dma = dma
        self.pending: list[DmaJob] = []  # in submission order
        self.active: list[DmaJob] = []  # TRANSFERRING
        self.count = {"jobs": 0, "busy": 0, "idle": 0, "queue_full": 0, "priority_deferred": 0, "bytes": 0}
        self.stalled = {"backpressure": 0, "bank_conflict": 0}
        self.places: dict[str, int] = {}  # of channels with equal scores, in a perturbed run
        self.last_channel = "kv_store"  # of the last job that started, under `round_robin`

    def admit(self, cycle: int, starts: Callable[[DmaJob], None]) -> None:
        """P3: start pending jobs; `starts(job)` checks and records each start and may raise."""
        if cycle % self.dma["period"]:
            return
        for job in [job for job in self.pending if job.channel == "comm"]:
            if self._transferring("comm") < self.dma["channels"]["comm"]["max_concurrent"]:
                self._start(job, cycle, starts)
        was_eligible: list[DmaJob] = []
        last_started = -1
        while True:
            eligible = [job for job in self.pending if self._eligible(job)]
            was_eligible += [job for job in eligible if job not in was_eligible]
            if not eligible:
                break
            job = self._first(eligible)
            if self._transferring(job.channel) >= self.dma["queue_depth_per_master"]:
                self._stall(job, "queue_full")
                break
            self._start(job, cycle, starts)
            last_started = max(last_started, job.seq)
        for job in was_eligible:
            if job in self.pending and job.seq < last_started:
                self._stall(job, "priority_deferred")

    def _first(self, eligible: list[DmaJob]) -> DmaJob:
        """The job whose turn it is."""
        if self.dma["arbiter"] == "priority":
            return min(eligible, key=lambda j: (-j.score, self.places.get(j.channel, 0), j.seq))
        channels = ["act_weight", "kv_load", "kv_store"]
        while channels[-1] != self.last_channel:
            channels.append(channels.pop(0))
        return min(eligible, key=lambda j: (channels.index(j.channel), j.seq))

    def _start(self, job: DmaJob, cycle: int, starts: Callable[[DmaJob], None]) -> None:
        starts(job)
        job.start = cycle
        job.stall_reason = None
        if job.channel != "comm":
            self.last_channel = job.channel
        self.pending.remove(job)
        self.active.append(job)

    def _eligible(self, job: DmaJob) -> bool:
        if job.channel == "comm" or self._transferring(job.channel) >= self.dma["channels"][job.channel]["max_concurrent"]:
            return False
        if sum(other.channel != "comm" for other in self.active) >= self.dma["max_concurrent_transfers"]:
            return False
        if job.kv_key is None:
            return True
        return not any(
            other.kv_key == job.kv_key and other.entry["t_start"] < job.entry["t_start"] for other in self.pending
        )

    def _transferring(self, channel: str) -> int:
        return sum(1 for job in self.active if job.channel == channel)

    @staticmethod
    def _stall(job: DmaJob, reason: str) -> None:
        if job.stall_reason is None:  # an episode keeps its first reason
            job.stall_reason = reason

    def count_cycle(self, cycle: int) -> None:
        """Between P6 and P7: what this engine did in `cycle`."""
        for job in self.pending:
            if job.stall_reason is not None:
                self.count[job.stall_reason] += 1
        if not self.active:
            self.count["idle"] += 1
        elif any(self._works(job, cycle) for job in self.active):
            self.count["busy"] += 1
        elif all(job.backpressured for job in self.active):
            self.stalled["backpressure"] += 1
        else:
            self.stalled["bank_conflict"] += 1

    @staticmethod
    def _works(job: DmaJob, cycle: int) -> bool:
        if cycle < job.start + job.head:
            return True
        return any(flow.moved_at == cycle or ((flow.left or flow.on_its_way) and flow.request is None) for flow in job.flows)

    def counters(self) -> dict[str, Any]:
        """The counters of docs/model/formats.md."""
        return {**self.count, "stalled": dict(self.stalled)}
