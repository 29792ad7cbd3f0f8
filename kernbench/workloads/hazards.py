"""Dependencies from the bytes that jobs read and write: one address space, in program order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kernbench.cmdq.entries import Entry
from kernbench.cmdq.footprint import bytes_of, regions_of, service_cycles, transfer_of
from kernbench.cmdq.program import Program
from kernbench.config.schema import NpuConfig
from kernbench.workloads.layer.dram import Span
from kernbench.workloads.scratchpad import bank_and_offset


@dataclass(slots=True)
class _Segment:
    """Bytes with one history."""

    end: int
    writer: int | None  #: id of the job that wrote them last; None: nobody yet
    readers: list[int] = field(default_factory=list)  #: ids of the jobs that have read them since


BUCKET_BITS = 18  # of an address; in 256 KiB are at most some thousand segments, so that an insertion moves few of them


@dataclass(slots=True)
class _Bucket:
    """The segments of 256 KiB, in the order of their addresses."""

    starts: list[int] = field(default_factory=list)  #: ascending; segments do not overlap
    segments: list[_Segment] = field(default_factory=list)

    def touching(self, start: int, end: int) -> list[_Segment]:
        first = bisect_right(self.starts, start)
        if first and self.segments[first - 1].end > start:
            first -= 1
        return self.segments[first : bisect_left(self.starts, end)]

    def cut(self, at: int) -> int:
        """Split the segment across `at`; the index of the first segment from there on."""
        i = bisect_left(self.starts, at)
        if i and self.segments[i - 1].end > at:
            segment = self.segments[i - 1]
            self.starts.insert(i, at)
            self.segments.insert(i, _Segment(segment.end, segment.writer, list(segment.readers)))
            segment.end = at
        return i

    def whole(self, low: int, high: int) -> _Segment | None:
        """The segment that has exactly these bytes; None if there is none."""
        starts = self.starts
        i = bisect_left(starts, low)
        if i < len(starts) and starts[i] == low:
            segment = self.segments[i]
            if segment.end == high:
                return segment
        return None

    def parted(self, low: int, high: int) -> list[_Segment]:
        """Segments that together have exactly these bytes: bytes that nobody has touched yet get a history of their own."""
        first, last = self.cut(low), self.cut(high)
        starts: list[int] = []
        segments: list[_Segment] = []
        at = low
        for i in range(first, last):
            if self.starts[i] > at:
                starts.append(at)
                segments.append(_Segment(self.starts[i], None))
            starts.append(self.starts[i])
            segments.append(self.segments[i])
            at = self.segments[i].end
        if at < high:
            starts.append(at)
            segments.append(_Segment(high, None))
        self.starts[first:last] = starts
        self.segments[first:last] = segments
        return segments

    def replace(self, low: int, high: int, segment: _Segment) -> None:
        """One segment in the place of all that has these bytes."""
        first, last = self.cut(low), self.cut(high)
        self.starts[first:last] = [low]
        self.segments[first:last] = [segment]


class Hazards:
    """For every byte the last writer and the readers since.

    A reader waits for the writer; a writer waits for the readers since, and where there are none for the writer before
    it. Readers have waited for their writer themselves, so nothing more is needed. Ranges are `[start, end)`.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, _Bucket] = {}

    def before_read(self, start: int, end: int) -> set[int]:
        """Ids that a job reading the range waits for."""
        return {segment.writer for segment in self._touching(start, end) if segment.writer is not None}

    def before_write(self, start: int, end: int) -> set[int]:
        """Ids that a job writing the range waits for."""
        waits: set[int] = set()
        for segment in self._touching(start, end):
            if segment.readers:
                waits.update(segment.readers)
            elif segment.writer is not None:
                waits.add(segment.writer)
        return waits

    def read(self, start: int, end: int, job: int) -> set[int]:
        """`job` reads the range; ids that it waits for, as by `before_read`."""
        waits: set[int] = set()
        for bucket, low, high in self._parts(start, end):
            whole = bucket.whole(low, high)
            for segment in bucket.parted(low, high) if whole is None else (whole,):
                if segment.writer is not None:
                    waits.add(segment.writer)
                segment.readers.append(job)
        return waits

    def write(self, start: int, end: int, job: int) -> set[int]:
        """`job` writes the range; ids that it waits for, as by `before_write`."""
        waits: set[int] = set()
        for bucket, low, high in self._parts(start, end):
            whole = bucket.whole(low, high)
            for segment in bucket.touching(low, high) if whole is None else (whole,):
                if segment.readers:
                    waits.update(segment.readers)
                elif segment.writer is not None:
                    waits.add(segment.writer)
            if whole is None:
                bucket.replace(low, high, _Segment(high, job))
            else:
                whole.writer, whole.readers = job, []
        return waits

    def join(self, start: int, end: int, job: int) -> None:
        """`job` has waited for every writer of the range, so later jobs wait for `job` instead of the writers."""
        for bucket, low, high in self._parts(start, end):
            for segment in bucket.segments[bucket.cut(low) : bucket.cut(high)]:
                segment.writer = job

    def _parts(self, start: int, end: int) -> Sequence[tuple[_Bucket, int, int]]:
        """The buckets of a range, with the part of the range in each."""
        first, last = start >> BUCKET_BITS, (end - 1) >> BUCKET_BITS
        if first == last:
            return ((self._buckets.get(first) or self._bucket(first), start, end),)
        bounds = [start, *(number << BUCKET_BITS for number in range(first + 1, last + 1)), end]
        return [(self._bucket(first + i), bounds[i], bounds[i + 1]) for i in range(last - first + 1)]

    def _bucket(self, number: int) -> _Bucket:
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = _Bucket()
        return bucket

    def _touching(self, start: int, end: int) -> list[_Segment]:
        return [segment for bucket, low, high in self._parts(start, end) for segment in bucket.touching(low, high)]


class Emitter:
    """A program in the making. `common`: fields of every entry. Each method returns the id of its entry.

    `program`: append to this one; its earlier entries are waited for by a BARRIER, or by nothing. `node`: the PE of a
    system that does it all, with its own memory from `dram_base` on.

    Jobs go to the engine of their kind with the least work so far, ties to the lowest id: DMA by bytes, TE and VE by
    service cycles.
    """

    def __init__(
        self,
        name: str,
        config: NpuConfig,
        common: dict[str, Any],
        program: Program | None = None,
        node: str | None = None,
        dram_base: int = 0,
    ) -> None:
        self.node = node
        self._dram_base = dram_base
        self._where = {} if node is None else {"node": node}
        self.program = Program(name) if program is None else program
        self._config = config
        self._common = common
        self._load = {kind: [0] * getattr(config, kind).engines for kind in ("dma", "te", "ve")}
        self._scratchpad = Hazards()
        self._dram = Hazards()
        self.waits = 0  #: of all entries for others, those counted again that `after` has looked at again

    def load(self, role: str, qbits: int, span: Span, spm: int, *, together: bool = False, **meta: Any) -> int:
        """DRAM to scratchpad. `together`: it waits for the writers of all bytes from the first row to the last one."""
        fields = {"tensor_role": role, "qbits": qbits, **self._shape(span), **meta}
        return self._add("DMA_LOAD_TILE", "dma", together, **self._at("spm", spm), **fields)

    def store(self, role: str, qbits: int, span: Span, spm: int, **meta: Any) -> int:
        """Scratchpad to DRAM."""
        return self._move("DMA_STORE_TILE", spm, tensor_role=role, qbits=qbits, **self._shape(span), **meta)

    def kv_load(self, spm: int, *, dram_base_addr: int, **fields: Any) -> int:
        """KV cache to scratchpad. `fields`: the other fields of KV_LOAD_TILE."""
        return self._move("KV_LOAD_TILE", spm, dram_base_addr=self._dram_base + dram_base_addr, **fields)

    def kv_store(self, spm: int, *, dram_base_addr: int, **fields: Any) -> int:
        """Scratchpad to KV cache. `fields`: the other fields of KV_STORE_TILE."""
        return self._move("KV_STORE_TILE", spm, dram_base_addr=self._dram_base + dram_base_addr, **fields)

    def send(self, peer: Emitter, spm: int, peer_spm: int, elements: int, qbits: int, **meta: Any) -> int:
        """From this PE's scratchpad to the scratchpad of a peer. Both addresses are multiples of a line."""
        nbytes = bytes_of(elements, qbits)
        waits = self._scratchpad.before_read(spm, spm + nbytes) | peer._scratchpad.before_write(peer_spm, peer_spm + nbytes)
        engine = self._load["dma"].index(min(self._load["dma"]))
        self._load["dma"][engine] += nbytes
        places = {**self._at("spm", spm), **self._at("peer", peer_spm), "peer": peer.node, "dma_id": engine}
        what = {"tensor_role": "activation", "qbits": qbits, "num_elements": elements}
        fields = {**self._common, **self._where, **places, **what, **meta}
        job = self.program.append("DMA_SEND_TILE", deps_before=sorted(waits), **fields)
        self._scratchpad.read(spm, spm + nbytes, job)
        peer._scratchpad.write(peer_spm, peer_spm + nbytes, job)
        return job

    def te(self, op: str, ifm: int, wgt: int, ofm: int, **fields: Any) -> int:
        """A matrix product. `fields`: m, n, k, qbits_weight, qbits_activation."""
        places = {**self._at("ifm", ifm), **self._at("wgt", wgt), **self._at("ofm", ofm)}
        return self._add(f"TE_{op.upper()}_TILE", "te", **places, **fields)

    def ve(self, op: str, source: int, out: int, second: int | None = None, **fields: Any) -> int:
        """A vector operation; length, batch, qbits_activation. `second`: the other input of add and mul."""
        places = {**self._at("in", source), **self._at("out", out)}
        if second is not None:
            places.update(self._at("in2", second))
        return self._add(f"VE_{op.upper()}_TILE", "ve", **places, **fields)

    def join(self, spm: int, nbytes: int, **meta: Any) -> None:
        """Lets readers of these scratchpad bytes wait for one NOP instead of for each of their writers."""
        writers = self._scratchpad.before_read(spm, spm + nbytes)
        if len(writers) > 1:
            nop = self.program.nop(deps_before=sorted(writers), **self._common, **meta)
            self._scratchpad.join(spm, spm + nbytes, nop)

    @property
    def last(self) -> int:
        """The id of the last entry."""
        return self.program.entries[-1].id

    def after(self, job: int, spm: int, nbytes: int) -> None:
        """Makes entry `job`, the last one emitted, wait for the writers of bytes that it needs but does not stream."""
        entry = self.program.entries[-1]
        waits = (self._scratchpad.before_read(spm, spm + nbytes) | set(entry.deps_before)) - {job}
        self.program.entries[-1] = msgspec.structs.replace(entry, deps_before=tuple(sorted(waits)))
        self.waits += len(waits)
        self._scratchpad.read(spm, spm + nbytes, job)

    def after_dram(self, job: int, start: int, end: int) -> None:
        """As `after`, for DRAM bytes `[start, end)`, some of which job `job` reads."""
        entry = self.program.entries[-1]
        first, last = self._dram_base + start, self._dram_base + end
        waits = (self._dram.before_read(first, last) | set(entry.deps_before)) - {job}
        self.program.entries[-1] = msgspec.structs.replace(entry, deps_before=tuple(sorted(waits)))
        self.waits += len(waits)
        self._dram.read(first, last, job)

    def behind(self, jobs: Sequence[int]) -> None:
        """Makes the entry that was emitted last wait for other jobs."""
        entry = self.program.entries[-1]
        waits = set(jobs) | set(entry.deps_before)
        self.program.entries[-1] = msgspec.structs.replace(entry, deps_before=tuple(sorted(waits)))
        self.waits += len(waits)

    def end(self) -> Program:
        """The program, with END."""
        self.program.end(**self._common)
        return self.program

    def _move(self, opcode: str, spm: int, **fields: Any) -> int:
        return self._add(opcode, "dma", **self._at("spm", spm), **fields)

    def _shape(self, span: Span) -> dict[str, int]:
        at = self._dram_base + span.dram_addr
        if span.rows == 1:
            return {"dram_addr": at, "num_elements": span.row_elements}
        return {"dram_addr": at, "rows": span.rows, "row_elements": span.row_elements, "stride_bytes": span.stride_bytes}

    def _at(self, prefix: str, addr: int) -> dict[str, int]:
        bank, offset = bank_and_offset(addr, self._config.spm)
        return {f"{prefix}_bank": bank, f"{prefix}_offset": offset}

    def _add(self, opcode: str, kind: str, together: bool = False, /, **fields: Any) -> int:
        load = self._load[kind]
        chosen = load.index(min(load))
        fields[f"{kind}_id"] = chosen
        job = self.program.append(opcode, **self._common, **self._where, **fields)
        entry = self.program.entries[-1]
        waits, work = self._transfer(entry, job, together=together) if kind == "dma" else self._compute(entry, job)
        waits.discard(job)  # a job does not wait for itself where it writes what it reads
        if waits:
            self.program.entries[-1] = msgspec.structs.replace(entry, deps_before=tuple(sorted(waits)))
        self.waits += len(waits)
        load[chosen] += work
        return job

    def _transfer(self, entry: Entry, job: int, *, together: bool) -> tuple[set[int], int]:
        """The dependencies of a transfer, on which later jobs can depend, and its bytes; alignment included."""
        transfer = transfer_of(entry, self._config)
        spm, moved, dram = transfer.spm_addr, transfer.bytes_aligned, self._dram
        if together:
            rows = [(transfer.aligned_row(0)[0], transfer.aligned_row(transfer.rows - 1)[1])]
        else:
            rows = [transfer.aligned_row(i) for i in range(transfer.rows)]
        if transfer.write:
            waits = self._scratchpad.read(spm, spm + moved, job)
            for start, end in rows:
                waits |= dram.write(start, end, job)
        else:
            waits = set()
            for start, end in rows:
                waits |= dram.read(start, end, job)
            waits |= self._scratchpad.write(spm, spm + moved, job)
        return waits, moved

    def _compute(self, entry: Entry, job: int) -> tuple[set[int], int]:
        """The dependencies of a TE or VE job, on which later jobs can depend, and its cycles."""
        waits: set[int] = set()
        space = self._scratchpad
        for region in regions_of(entry, self._config):  # what it writes comes last
            use = space.write if region.write else space.read
            waits |= use(region.addr, region.addr + region.nbytes, job)
        return waits, service_cycles(entry, self._config).total
