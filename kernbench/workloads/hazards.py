"""Dependencies from the bytes that jobs read and write: one address space, in program order."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import msgspec

from kernbench.cmdq.entries import Entry, KvEntry
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


#: Low bits of an address in one bucket; 256 KiB have at most some thousand segments, so an insertion moves few of them.
BUCKET_BITS = 18


@dataclass(slots=True)
class _Bucket:
    """The segments of 256 KiB, in the order of their addresses."""

    starts: list[int] = field(default_factory=list)  #: ascending; segments do not overlap
    segments: list[_Segment] = field(default_factory=list)
    #: (start, end, job): reads before the first write, which have no segments yet; None after it. Most bytes of weights are
    #: never written.
    unwritten: list[tuple[int, int, int]] | None = field(default_factory=list)

    def settle(self) -> None:
        """Give the reads before the first write their segments."""
        reads, self.unwritten = self.unwritten, None
        for low, high, job in reads or ():
            for segment in self.parted(low, high):
                segment.readers.append(job)

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
            if bucket.unwritten is not None:
                bucket.unwritten.append((low, high, job))
                continue
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
            if bucket.unwritten is not None:
                bucket.settle()
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
            if bucket.unwritten is not None:
                bucket.settle()
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
        found: list[_Segment] = []
        for bucket, low, high in self._parts(start, end):
            if bucket.unwritten is not None:
                bucket.settle()
            found += bucket.touching(low, high)
        return found


class Emitter:
    """A program in the making. `common`: fields of every entry. Each method returns the id of its entry.

    `program`: append to this one; a BARRIER waits for its earlier entries, or nothing does. `node`: the PE of a
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
        self._uses: dict[tuple[Any, ...] | None, _Use] = {}
        self.waits = 0  #: of all entries for others, those counted again that `after` has looked at again

    def load(self, role: str, qbits: int, span: Span, spm: int, *, together: bool = False, **meta: Any) -> int:
        """DRAM to scratchpad. `together`: it waits for the writers of all bytes from the first row to the last one."""
        fields = {"tensor_role": role, "qbits": qbits, **self._shape(span), **meta}
        return self._add("DMA_LOAD_TILE", "dma", (spm,), together, **self._at("spm", spm), **fields)

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
        """Append a transfer from this PE's scratchpad to the scratchpad of a peer. Both addresses are multiples of a line."""
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
        return self._add(f"TE_{op.upper()}_TILE", "te", (ifm, wgt, ofm), **places, **fields)

    def ve(self, op: str, source: int, out: int, second: int | None = None, **fields: Any) -> int:
        """A vector operation; length, batch, qbits_activation. `second`: the other input of add and mul."""
        places = {**self._at("in", source), **self._at("out", out)}
        if second is None:
            return self._add(f"VE_{op.upper()}_TILE", "ve", (source, out), **places, **fields)
        places.update(self._at("in2", second))
        return self._add(f"VE_{op.upper()}_TILE", "ve", (source, second, out), **places, **fields)

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
        """The same as `after`, for the DRAM bytes `[start, end)`. Job `job` reads some of these bytes."""
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
        return self._add(opcode, "dma", (spm,), **self._at("spm", spm), **fields)

    def _shape(self, span: Span) -> dict[str, int]:
        at = self._dram_base + span.dram_addr
        if span.rows == 1:
            return {"dram_addr": at, "num_elements": span.row_elements}
        return {"dram_addr": at, "rows": span.rows, "row_elements": span.row_elements, "stride_bytes": span.stride_bytes}

    def _at(self, prefix: str, addr: int) -> dict[str, int]:
        bank, offset = bank_and_offset(addr, self._config.spm)
        return {f"{prefix}_bank": bank, f"{prefix}_offset": offset}

    def _add(self, opcode: str, kind: str, places: tuple[int, ...], together: bool = False, /, **fields: Any) -> int:
        """`places`: the flat address of a transfer, or of each region of a job, in the order of `regions_of`."""
        load = self._load[kind]
        chosen = load.index(min(load))
        program, entry = self.program, None
        job = program.next_id()
        raw = {"opcode": opcode, "id": job, **self._common, **self._where, f"{kind}_id": chosen, **fields}
        key = self._key(opcode, kind, len(places), together, fields)
        use = self._uses.get(key)
        if use is None:
            entry = program.made(raw)
            use = _transfer_use(entry, self._config, together) if kind == "dma" else _compute_use(entry, self._config)
            if key is not None:
                self._uses[key] = use
        waits = self._transfer(use, places[0], fields, job) if kind == "dma" else self._compute(use, places, job)
        waits.discard(job)  # a job that writes the bytes that it reads does not wait for itself
        if entry is None:
            if waits:
                raw["deps_before"] = sorted(waits)
            entry = program.made(raw)
        elif waits:
            entry = msgspec.structs.replace(entry, deps_before=tuple(sorted(waits)))
        program.entries.append(entry)
        self.waits += len(waits)
        load[chosen] += use.work
        return job

    def _key(self, opcode: str, kind: str, regions: int, together: bool, fields: dict[str, Any]) -> tuple[Any, ...] | None:
        """The values on which the memory use of a job depends; None for transfers of the KV cache, few of which have equal
        uses."""
        shape = tuple(map(fields.get, _SHAPES[kind]))
        if kind != "dma":
            return opcode, regions, *shape
        if "dram_addr" not in fields:
            return None
        return opcode, together, fields["dram_addr"] % self._config.dma.alignment_bytes, *shape

    def _transfer(self, use: _Use, spm: int, fields: dict[str, Any], job: int) -> set[int]:
        """The dependencies of a transfer, on which later jobs can depend."""
        dram = self._dram
        at = fields["dram_addr"] if "dram_addr" in fields else fields["dram_base_addr"]
        ((nbytes, write),) = use.regions
        waits = set() if write else self._scratchpad.read(spm, spm + nbytes, job)
        for start, end in use.rows:
            waits |= dram.read(at + start, at + end, job) if write else dram.write(at + start, at + end, job)
        if write:
            waits |= self._scratchpad.write(spm, spm + nbytes, job)
        return waits

    def _compute(self, use: _Use, places: tuple[int, ...], job: int) -> set[int]:
        """The dependencies of a TE or VE job, on which later jobs can depend."""
        waits: set[int] = set()
        space = self._scratchpad
        for place, (nbytes, write) in zip(places, use.regions, strict=True):  # the range that it writes comes last
            waits |= space.write(place, place + nbytes, job) if write else space.read(place, place + nbytes, job)
        return waits


#: The fields of an entry on which its cycles and the sizes of its reads and writes depend.
_SHAPES = {
    "dma": ("num_elements", "rows", "row_elements", "stride_bytes", "qbits", "tensor_role", "codec"),
    "te": ("m", "n", "k", "qbits_weight", "qbits_activation", "qbits_result", "tile_m", "tile_n", "split_k"),
    "ve": ("length", "batch", "qbits_activation", "qbits_result"),
}


class _Use(msgspec.Struct, frozen=True):
    """The sizes of the reads and writes of jobs of one shape, without addresses."""

    regions: list[tuple[int, bool]]  #: [byte] of each scratchpad region, and whether it is written
    work: int  #: bytes of a transfer, alignment included; cycles of a TE or VE job
    rows: list[tuple[int, int]] = []  #: DRAM ranges `[start, end)` of a transfer, from its address on


def _transfer_use(entry: Entry, config: NpuConfig, together: bool) -> _Use:
    """`together`: one DRAM range from the first row to the last one."""
    transfer = transfer_of(entry, config)
    base = entry.dram_base_addr if isinstance(entry, KvEntry) else entry.dram_addr  # type: ignore[attr-defined]
    if together:
        rows = [(transfer.dram_start, transfer.dram_end)]
    else:
        rows = [transfer.aligned_row(i) for i in range(transfer.rows)]
    moved = transfer.bytes_aligned
    return _Use([(moved, not transfer.write)], moved, [(start - base, end - base) for start, end in rows])


def _compute_use(entry: Entry, config: NpuConfig) -> _Use:
    regions = [(region.nbytes, region.write) for region in regions_of(entry, config)]
    return _Use(regions, service_cycles(entry, config).total)
