"""Dependencies from the bytes that jobs read and write: one address space, in program order."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from kernbench.cmdq.entries import Entry, KvEntry
from kernbench.cmdq.footprint import bytes_of, regions_of, service_cycles, transfer_of
from kernbench.cmdq.program import Program
from kernbench.config.schema import NpuConfig
from kernbench.workloads.layer.dram import Span
from kernbench.workloads.scratchpad import bank_and_offset

#: Low bits of an address in one bucket; 256 KiB have at most some thousand ranges, so an insertion moves few of them.
BUCKET_BITS = 18


class _Range:
    """Bytes with one history."""

    def __init__(self, start: int, end: int, writer: int | None, readers: list[int]) -> None:
        self.start = start
        self.end = end
        self.writer = writer  #: id of the job that wrote them last; None: nobody yet
        self.readers = readers  #: ids of the jobs that have read them since


def _below(ranges: list[_Range], at: int) -> int:
    """The number of ranges that start below `at`, of ranges in the order of their addresses."""
    low, high = 0, len(ranges)
    while low < high:
        middle = (low + high) // 2
        one = ranges[middle]
        if one.start < at:
            low = middle + 1
        else:
            high = middle
    return low


class _Bucket:
    """The ranges of 256 KiB."""

    def __init__(self) -> None:
        self.ranges: list[_Range] = []  #: in the order of their addresses; they do not overlap
        #: (start, end, job): reads before the first write, which have no ranges yet; None after it. Most bytes of weights are
        #: never written.
        self.unwritten: list[tuple[int, int, int]] | None = []

    def settle(self) -> None:
        """Give the reads before the first write their ranges."""
        reads, self.unwritten = self.unwritten, None
        for low, high, job in reads or ():
            for one in self.parted(low, high):
                one.readers.append(job)

    def touching(self, start: int, end: int) -> list[_Range]:
        first = _below(self.ranges, start + 1)
        if first:
            before = self.ranges[first - 1]
            if before.end > start:
                first -= 1
        return self.ranges[first : _below(self.ranges, end)]

    def cut(self, at: int) -> int:
        """Split the range across `at`; the index of the first range from there on."""
        i = _below(self.ranges, at)
        if i:
            one = self.ranges[i - 1]
            if one.end > at:
                self.ranges.insert(i, _Range(at, one.end, one.writer, one.readers.copy()))
                one.end = at
        return i

    def whole(self, low: int, high: int) -> _Range | None:
        """The range that has exactly these bytes; None if there is none."""
        i = _below(self.ranges, low)
        if i < len(self.ranges):
            one = self.ranges[i]
            if one.start == low and one.end == high:
                return one
        return None

    def parted(self, low: int, high: int) -> list[_Range]:
        """Ranges that together have exactly these bytes: bytes that nobody has touched yet get a history of their own."""
        first, last = self.cut(low), self.cut(high)
        found: list[_Range] = []
        at = low
        for i in range(first, last):
            one = self.ranges[i]
            if one.start > at:
                found.append(_Range(at, one.start, None, []))
            found.append(one)
            at = one.end
        if at < high:
            found.append(_Range(at, high, None, []))
        self.ranges[first:last] = found
        return found

    def read(self, low: int, high: int, job: int, waits: set[int]) -> None:
        """`job` reads these bytes; adds the ids that it waits for."""
        if self.unwritten is not None:
            self.unwritten.append((low, high, job))
            return
        whole = self.whole(low, high)
        for one in self.parted(low, high) if whole is None else [whole]:
            if one.writer is not None:
                waits.add(one.writer)
            one.readers.append(job)

    def write(self, low: int, high: int, job: int, waits: set[int]) -> None:
        """`job` writes these bytes; adds the ids that it waits for."""
        if self.unwritten is not None:
            self.settle()
        whole = self.whole(low, high)
        for one in self.touching(low, high) if whole is None else [whole]:
            if one.readers:
                waits.update(one.readers)
            elif one.writer is not None:
                waits.add(one.writer)
        if whole is not None:
            whole.writer, whole.readers = job, []
            return
        first, last = self.cut(low), self.cut(high)
        self.ranges[first:last] = [_Range(low, high, job, [])]


class Hazards:
    """For every byte the last writer and the readers since.

    A reader waits for the writer; a writer waits for the readers since, and where there are none for the writer before
    it. Readers have waited for their writer themselves, so nothing more is needed. Ranges are `[start, end)`.
    """

    def __init__(self) -> None:
        self._buckets: dict[int, _Bucket] = {}

    def before_read(self, start: int, end: int) -> set[int]:
        """Ids that a job reading the range waits for."""
        return {one.writer for one in self._touching(start, end) if one.writer is not None}

    def before_write(self, start: int, end: int) -> set[int]:
        """Ids that a job writing the range waits for."""
        waits: set[int] = set()
        for one in self._touching(start, end):
            if one.readers:
                waits.update(one.readers)
            elif one.writer is not None:
                waits.add(one.writer)
        return waits

    def read(self, start: int, end: int, job: int, waits: set[int] | None = None) -> set[int]:
        """`job` reads the range; ids that it waits for, as by `before_read`, are added to `waits`, which is returned."""
        if waits is None:
            waits = set()
        while start < end:  # the part of the range in each bucket
            high = min(end, ((start >> BUCKET_BITS) + 1) << BUCKET_BITS)
            self._bucket(start).read(start, high, job, waits)
            start = high
        return waits

    def write(self, start: int, end: int, job: int, waits: set[int] | None = None) -> set[int]:
        """`job` writes the range; ids that it waits for, as by `before_write`, are added to `waits`, which is returned."""
        if waits is None:
            waits = set()
        while start < end:
            high = min(end, ((start >> BUCKET_BITS) + 1) << BUCKET_BITS)
            self._bucket(start).write(start, high, job, waits)
            start = high
        return waits

    def join(self, start: int, end: int, job: int) -> None:
        """`job` has waited for every writer of the range, so later jobs wait for `job` instead of the writers."""
        for one in self._touching(start, end, True):
            one.writer = job

    def _bucket(self, at: int) -> _Bucket:
        """The bucket of an address."""
        number = at >> BUCKET_BITS
        bucket = self._buckets.get(number)
        if bucket is None:
            bucket = self._buckets[number] = _Bucket()
        return bucket

    def _touching(self, start: int, end: int, cut: bool = False) -> list[_Range]:
        """The ranges with a history that have bytes of `[start, end)`. `cut`: ranges with other bytes too are split first."""
        found: list[_Range] = []
        while start < end:
            high = min(end, ((start >> BUCKET_BITS) + 1) << BUCKET_BITS)
            bucket = self._bucket(start)
            if bucket.unwritten is not None:
                bucket.settle()
            if cut:
                bucket.cut(start)
                bucket.cut(high)
            found += bucket.touching(start, high)
            start = high
        return found


def _named(*prefixes: str) -> tuple[tuple[str, str], ...]:
    """The names of the fields with banks and offsets."""
    return tuple([(f"{prefix}_bank", f"{prefix}_offset") for prefix in prefixes])


_SPM, _SPM_AND_PEER, _OPERANDS = _named("spm"), _named("spm", "peer"), _named("ifm", "wgt", "ofm")
_IN_OUT, _TWO_IN_OUT = _named("in", "out"), _named("in", "in2", "out")


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
        self._banks: dict[int, tuple[int, int]] = {}  # banks and offsets of addresses, which rings use again
        self.waits = 0  #: of all entries for others, those counted again that `after` has looked at again

    def load(self, role: str, qbits: int, span: Span, spm: int, *, together: bool = False, **meta: Any) -> int:
        """DRAM to scratchpad. `together`: it waits for the writers of all bytes from the first row to the last one."""
        fields = {"tensor_role": role, "qbits": qbits, **self._shape(span), **meta}
        return self._add("DMA_LOAD_TILE", "dma", _SPM, (spm,), fields, together)

    def store(self, role: str, qbits: int, span: Span, spm: int, **meta: Any) -> int:
        """Scratchpad to DRAM."""
        fields = {"tensor_role": role, "qbits": qbits, **self._shape(span), **meta}
        return self._add("DMA_STORE_TILE", "dma", _SPM, (spm,), fields)

    def kv_load(self, spm: int, *, dram_base_addr: int, **fields: Any) -> int:
        """KV cache to scratchpad. `fields`: the other fields of KV_LOAD_TILE."""
        fields["dram_base_addr"] = self._dram_base + dram_base_addr
        return self._add("KV_LOAD_TILE", "dma", _SPM, (spm,), fields)

    def kv_store(self, spm: int, *, dram_base_addr: int, **fields: Any) -> int:
        """Scratchpad to KV cache. `fields`: the other fields of KV_STORE_TILE."""
        fields["dram_base_addr"] = self._dram_base + dram_base_addr
        return self._add("KV_STORE_TILE", "dma", _SPM, (spm,), fields)

    def send(self, peer: Emitter, spm: int, peer_spm: int, elements: int, qbits: int, **meta: Any) -> int:
        """Append a transfer from this PE's scratchpad to the scratchpad of a peer. Both addresses are multiples of a line."""
        nbytes = bytes_of(elements, qbits)
        waits = self._scratchpad.before_read(spm, spm + nbytes) | peer._scratchpad.before_write(peer_spm, peer_spm + nbytes)
        engine = self._load["dma"].index(min(self._load["dma"]))
        self._load["dma"][engine] += nbytes
        what = {"peer": peer.node, "dma_id": engine, "tensor_role": "activation", "qbits": qbits, "num_elements": elements}
        fields = {**self._common, **self._where, **what, **meta}
        self._place(fields, _SPM_AND_PEER, (spm, peer_spm))
        job = self.program.append("DMA_SEND_TILE", deps_before=sorted(waits), **fields)
        self._scratchpad.read(spm, spm + nbytes, job)
        peer._scratchpad.write(peer_spm, peer_spm + nbytes, job)
        return job

    def te(self, op: str, ifm: int, wgt: int, ofm: int, **fields: Any) -> int:
        """A matrix product. `fields`: m, n, k, qbits_weight, qbits_activation."""
        return self._add(f"TE_{op.upper()}_TILE", "te", _OPERANDS, (ifm, wgt, ofm), fields)

    def ve(self, op: str, source: int, out: int, second: int | None = None, **fields: Any) -> int:
        """A vector operation; length, batch, qbits_activation. `second`: the other input of add and mul."""
        opcode = f"VE_{op.upper()}_TILE"
        if second is None:
            return self._add(opcode, "ve", _IN_OUT, (source, out), fields)
        return self._add(opcode, "ve", _TWO_IN_OUT, (source, second, out), fields)

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

    def _shape(self, span: Span) -> dict[str, int]:
        at = self._dram_base + span.dram_addr
        if span.rows == 1:
            return {"dram_addr": at, "num_elements": span.row_elements}
        return {"dram_addr": at, "rows": span.rows, "row_elements": span.row_elements, "stride_bytes": span.stride_bytes}

    def _place(self, raw: dict[str, Any], names: tuple[tuple[str, str], ...], places: tuple[int, ...]) -> None:
        """Add the bank and the offset of each address to the fields of an entry, under these names."""
        for (bank, offset), addr in zip(names, places, strict=True):
            found = self._banks.get(addr)
            if found is None:
                found = self._banks[addr] = bank_and_offset(addr, self._config.spm)
            raw[bank], raw[offset] = found

    def _add(
        self, opcode: str, kind: str, names: tuple[tuple[str, str], ...], places: tuple[int, ...], fields: dict[str, Any],
        together: bool = False,
    ) -> int:  # fmt: skip
        """`places`: the flat address of a transfer, or of each region of a job, in the order of `regions_of`. `names`: of the
        fields with their banks and offsets."""
        load = self._load[kind]
        chosen = load.index(min(load))
        program = self.program
        job = program.next_id()
        key = self._key(opcode, kind, len(places), together, fields)
        use = self._uses.get(key)
        new: dict[str, Any] = {}  # the fields in which the entry differs from that of the use
        if use is None:
            raw = {"opcode": opcode, "id": job, **self._common, **self._where, f"{kind}_id": chosen, **fields}
            self._place(raw, names, places)
            entry = program.made(raw)
            use = _transfer_use(entry, self._config, together) if kind == "dma" else _compute_use(entry, self._config)
            if key is not None:
                self._uses[key] = use
        else:
            self._place(new, names, places)
            new["index"], new["id"], new[f"{kind}_id"] = len(program.entries), job, chosen
            meta = new["meta"] = use.entry.meta.copy()
            for name in fields:
                if name in meta:
                    meta[name] = fields[name]
            if kind == "dma":
                new["dram_addr"] = fields["dram_addr"]
        waits = self._transfer(use, places[0], fields, job) if kind == "dma" else self._compute(use, places, job)
        waits.discard(job)  # a job that writes the bytes that it reads does not wait for itself
        if waits:
            new["deps_before"] = tuple(sorted(waits))
        if new:
            entry = msgspec.structs.replace(use.entry, **new)
        program.entries.append(entry)
        self.waits += len(waits)
        load[chosen] += use.work
        return job

    def _key(self, opcode: str, kind: str, regions: int, together: bool, fields: dict[str, Any]) -> tuple[Any, ...] | None:
        """The values on which the memory use of a job depends, and the names of its fields; None for transfers of the KV cache,
        few of which have equal uses."""
        shape = tuple(map(fields.get, _SHAPES[kind]))
        if kind != "dma":
            return opcode, regions, *shape, *fields
        if "dram_addr" not in fields:
            return None
        return opcode, together, fields["dram_addr"] % self._config.dma.alignment_bytes, *shape, *fields

    def _transfer(self, use: _Use, spm: int, fields: dict[str, Any], job: int) -> set[int]:
        """The dependencies of a transfer, on which later jobs can depend."""
        waits: set[int] = set()
        at = fields["dram_addr"] if "dram_addr" in fields else fields["dram_base_addr"]
        ((nbytes, write),) = use.regions
        if not write:
            self._scratchpad.read(spm, spm + nbytes, job, waits)
        for start, end in use.rows:
            if write:
                self._dram.read(at + start, at + end, job, waits)
            else:
                self._dram.write(at + start, at + end, job, waits)
        if write:
            self._scratchpad.write(spm, spm + nbytes, job, waits)
        return waits

    def _compute(self, use: _Use, places: tuple[int, ...], job: int) -> set[int]:
        """The dependencies of a TE or VE job, on which later jobs can depend."""
        waits: set[int] = set()
        for place, (nbytes, write) in zip(places, use.regions, strict=True):  # the range that it writes comes last
            if write:
                self._scratchpad.write(place, place + nbytes, job, waits)
            else:
                self._scratchpad.read(place, place + nbytes, job, waits)
        return waits


#: The fields of an entry on which its cycles and the sizes of its reads and writes depend: all except its number, its engine,
#: addresses, dependencies and metadata.
_SHAPES = {
    "dma": ("num_elements", "rows", "row_elements", "stride_bytes", "qbits", "tensor_role", "codec"),
    "te": ("m", "n", "k", "qbits_weight", "qbits_activation", "qbits_result", "tile_m", "tile_n", "split_k"),
    "ve": ("length", "batch", "qbits_activation", "qbits_result"),
}


class _Use(msgspec.Struct, frozen=True):
    """The sizes of the reads and writes of jobs of one shape, without addresses.

    Other jobs of this shape have the fields of `entry`, except its number, its engine, addresses, dependencies and metadata.
    """

    entry: Entry  #: the first of these jobs
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
    return _Use(entry, [(moved, not transfer.write)], moved, [(start - base, end - base) for start, end in rows])


def _compute_use(entry: Entry, config: NpuConfig) -> _Use:
    regions = [(region.nbytes, region.write) for region in regions_of(entry, config)]
    return _Use(entry, regions, service_cycles(entry, config).total)
