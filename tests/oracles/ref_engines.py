"""Tensor and vector engines: work cycles and operand streams (docs/model: compute.md, banks_and_arbiters.md)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor
from typing import Any

from .ref_banks import Request
from .ref_geometry import Range, Scratchpad, byte_count, ceil_div
from .ref_machine import exact, factor


@dataclass
class Work:
    """A TE or VE job: its cycles, its operand regions and what it adds to the engine's counter when it completes."""

    entry: dict[str, Any]
    seq: int
    init: int
    body: int
    total: int
    reads: list[Range]
    writes: list[Range]
    amount: int  # MACs of a TE, elements of a VE
    done: int = 0  # work cycles done
    parts: Parts | None = None  # on an array that overlaps its jobs

    @property
    def streaming(self) -> int:
        """Body cycles over which the operands stream."""
        return self.body if self.parts is None else self.parts.load + self.parts.stream


@dataclass
class Parts:
    """A job on an array that overlaps jobs (compute.md, *Overlapped jobs*), in cycles of the machine."""

    load: int  # after the start
    stream: int
    rest: int  # drain and finalize
    wires: int  # time of the whole load at an unlimited rate
    port: int  # time in which the stationary operand passes the operand port
    last: int  # duration of the last fold
    spare: int  # the part of it in which the port is free


def te_work(entry: dict[str, Any], seq: int, te: dict[str, Any], spm: Scratchpad) -> Work:
    """The job of a TE_*_TILE entry."""
    m, n, k = entry["m"], entry["n"], entry["k"]
    qw, qa = entry["qbits_weight"], entry["qbits_activation"]
    body = te_body(entry, te)
    reads = [
        _region(spm, entry, "ifm", byte_count(m * k, qa)),
        _region(spm, entry, "wgt", byte_count(k * n, qw)),
    ]
    writes = [] if entry.get("partial") else [_region(spm, entry, "ofm", byte_count(m * n, entry.get("qbits_result") or qa))]
    init = te["init_cycles"]
    total = max(1, init + body + te["finalize_cycles"])
    work = Work(entry, seq, init, body, total, reads, writes, m * n * k)
    if te.get("drain", "exposed") == "overlapped":
        work.parts = _parts(m, n, k, qw, qa, te, body, total)
        if init + work.streaming == 0:
            work.init, work.parts.rest = 1, total - 1
    return work


def te_body(entry: dict[str, Any], te: dict[str, Any]) -> int:
    """Body cycles of a TE entry by docs/model/compute.md."""
    m, n, k = entry["m"], entry["n"], entry["k"]
    qw, qa = entry["qbits_weight"], entry["qbits_activation"]
    if te["timing"] == "systolic":
        cycles = _systolic_body(m, n, k, qw, qa, te)
    elif te["timing"] == "mma":
        cycles = _mma_body(entry, te["mma"])
    else:
        cycles = ceil(m * n * k / (exact(te["macs_per_cycle"]) * factor(te["f_w"], qw) * factor(te["f_a"], qa)))
    return ceil(cycles / exact(te.get("clock_ratio", 1)))


def _folds(m: int, n: int, k: int, qw: int, qa: int, te: dict[str, Any]) -> tuple[int, int, int, int, int]:
    """Number of folds; of each the steps, the bits of its stream, the cycles of its load, and the bits that it holds."""
    rows, cols, dataflow = te["rows"], te["cols"], te["dataflow"]
    tall, wide = min(k, rows), min(n, cols)
    if dataflow == "os":
        return ceil_div(m, rows) * ceil_div(n, cols), k, k * (min(m, rows) * qa + wide * qw), 0, 0
    if dataflow == "ws":
        return ceil_div(k, rows) * ceil_div(n, cols), m, m * tall * qa, rows, tall * wide * qw
    return ceil_div(k, rows) * ceil_div(m, cols), n, n * tall * qw, rows, tall * min(m, cols) * qa


def _feed(bits: int, te: dict[str, Any]) -> int:
    """Cycles in which bits enter the array."""
    fed = te.get("operand_bytes_per_cycle")
    return 0 if fed is None else ceil(bits / (8 * exact(fed)))


def _parts(m: int, n: int, k: int, qw: int, qa: int, te: dict[str, Any], body: int, total: int) -> Parts:
    """The folds one after the other, up to the cycle in which the last one has entered the array."""
    folds, steps, stream, load, held = _folds(m, n, k, qw, qa, te)
    ratio = exact(te.get("clock_ratio", 1))
    last = max(steps, _feed(stream, te))
    wires, port = ceil(load / ratio), ceil(_feed(held, te) / ratio)
    clock = max(load, _feed(held, te))
    for _ in range(folds - 1):
        clock += max(steps, te["rows"], _feed(stream + held, te))
    clock += last
    if te["dataflow"] == "os" and last < te["rows"]:
        clock += te["rows"] - last
    front = min(ceil(clock / ratio), body)
    loading = max(wires, port)
    last = min(floor(last / ratio), front - loading)
    spare = max(0, last - ceil(_feed(stream, te) / ratio))
    return Parts(loading, front - loading, total - te["init_cycles"] - front, wires, port, last, spare)


def _systolic_body(m: int, n: int, k: int, qw: int, qa: int, te: dict[str, Any]) -> int:
    """One fold after the other, as a clock that goes from event to event."""
    rows, cols = te["rows"], te["cols"]
    folds, steps, stream, load, held = _folds(m, n, k, qw, qa, te)
    drain, clock = rows + cols - 2, 0

    def feed(bits: int) -> int:
        return _feed(bits, te)

    if te.get("fill", "exposed") == "exposed":
        for _ in range(folds):
            clock += max(load, feed(held)) + max(steps, feed(stream)) + drain
        return clock - 1
    clock = max(load, feed(held))  # nothing streams yet
    for _ in range(folds - 1):
        clock += max(steps, rows, feed(stream + held))  # this fold streams, the next one is loaded
    return clock + max(steps, feed(stream)) + drain - 1


def _mma_body(entry: dict[str, Any], mma: dict[str, Any]) -> int:
    if entry.get("tile_m") is not None:
        return _mma_cycles(entry, mma, entry["tile_m"], entry["tile_n"], entry.get("split_k") or 1)
    return min(_mma_cycles(entry, mma, tm, tn, 1) for tm, tn in mma["tiles"])


def _mma_cycles(entry: dict[str, Any], mma: dict[str, Any], tm: int, tn: int, split: int) -> int:
    """Blocks are dealt out to places on cores, wave by wave."""
    shape = mma_shape(entry["qbits_weight"], entry["qbits_activation"], mma)
    depth = ceil_div(entry["k"], split)
    count = ceil_div(tm, shape["m"]) * ceil_div(tn, shape["n"]) * ceil_div(depth, shape["k"])
    main = ceil(count * exact(shape["cycles"]))
    left = ceil_div(entry["m"], tm) * ceil_div(entry["n"], tn) * split
    cores, places = mma["cores"], mma.get("blocks_per_core", 1)
    around = mma.get("prologue_cycles", 0) + mma.get("epilogue_cycles", 0)
    whole, rest = divmod(left, cores * places)
    fullest = [0] * cores
    for block in range(rest):
        fullest[block % cores] += 1
    total = whole * (around + places * main)
    return total + (around + max(fullest) * main if rest else 0)


def mma_shape(qw: int, qa: int, mma: dict[str, Any]) -> dict[str, Any]:
    """The instruction of operands of these widths."""
    wanted = mma.get("fidelity")
    found = None
    for shape in mma["shapes"]:
        if shape.get("qbits_accumulator", 32) != mma.get("qbits_accumulator", 32):
            continue
        if shape.get("fidelity") not in (None, wanted):
            continue
        if shape["qbits_weight"] < qw or shape["qbits_activation"] < qa:
            continue
        size = (shape["qbits_weight"] + shape["qbits_activation"], shape["qbits_weight"])
        if found is None or size < found[0]:
            found = (size, shape)
    assert found is not None
    return found[1]


def ve_work(entry: dict[str, Any], seq: int, ve: dict[str, Any], spm: Scratchpad) -> Work:
    """The job of a VE_*_TILE entry. Jobs of kernels may state their `qbits`, and the bytes of their operands."""
    op = entry["opcode"].removeprefix("VE_").removesuffix("_TILE").lower()
    length, batch, qbits = entry["length"], entry.get("batch", 1), entry["qbits_activation"]
    result = entry.get("qbits_result") or qbits
    lanes = entry.get("qbits", qbits if op in ("sum", "max", "min") else max(qbits, result))
    body = ceil(_ve_body(op, length, batch, lanes, ve) / exact(ve.get("clock_ratio", 1)))
    size = byte_count(length * batch, qbits)
    reads = [_region(spm, entry, "in", entry.get("in_bytes", size))]
    if op in ("add", "mul"):
        reads.append(_region(spm, entry, "in2", entry.get("in2_bytes", size)))
    out_size = byte_count(batch if op in ("sum", "max", "min") else length * batch, result)
    writes = [_region(spm, entry, "out", out_size)]
    total = ve["init_cycles"] + body + ve["finalize_cycles"]
    return Work(entry, seq, ve["init_cycles"], body, total, reads, writes, length * batch)


def _ve_body(op: str, length: int, batch: int, qbits: int, ve: dict[str, Any]) -> int:
    rate = exact(ve["lanes"]) * exact(ve["ops_per_lane"]) * factor(ve["f_a"], qbits)
    ew = ceil(length * batch * exact(ve.get("op_cost", {}).get(op, 1)) / rate)
    log2_length = (length - 1).bit_length()  # rounded up
    red = int(ve["reduction_pipeline"]) + log2_length + ceil(batch / int(ve.get("reduction_trees", 1))) - 1
    sfu = ve["sfu"]
    if op in ("add", "mul", "copy"):
        return ew
    if op in ("sum", "max", "min"):
        return ew + red
    if op in ("layernorm", "rmsnorm"):
        return red + ew + int(sfu.get("rsqrt", 0))
    if op == "softmax":
        return red + ew + int(sfu.get("exp", 0)) + red + ew
    return ew + int(sfu.get(op, 0))


def _region(spm: Scratchpad, entry: dict[str, Any], name: str, nbytes: int) -> Range:
    start = spm.flat(entry[f"{name}_bank"], entry[f"{name}_offset"])
    return (start, start + nbytes)


class ServiceEngine:
    """A TE or VE: one job at a time, later ones queue in order."""

    def __init__(self, kind: int, number: int, config: dict[str, Any], spm: Scratchpad, amount: str) -> None:
        self.kind = kind  # 1 TE, 2 VE: the tie-break
        self.number = number
        self.period: int = config["period"]
        self.traffic: bool = config["spm_traffic"]
        self.spm = spm
        self.amount = amount  # name of the counter of work: macs or ops
        self.queue: list[Work] = []
        self.job: Work | None = None
        self.request: Request | None = None
        self.count = {"jobs": 0, "busy": 0, "idle": 0, amount: 0}
        self.bank_conflict = 0

    def start(self, cycle: int, starts: Callable[[Work], None]) -> None:
        """P3: an idle engine takes the head of its queue; `starts(job)` checks and records it and may raise."""
        if self.job is None and self.queue and cycle % self.period == 0:
            starts(self.queue[0])
            self.job = self.queue.pop(0)

    def ask(self, cycle: int) -> None:
        """P5: open the request of this work cycle, if it touches the scratchpad."""
        if self.job is None or self.request is not None or cycle % self.period:
            return
        step = self.job.done - self.job.init
        if not self.traffic or not 0 <= step < self.job.streaming:
            return
        reads = self._banks(self.job.reads, step, self.job.streaming)
        writes = self._banks(self.job.writes, step, self.job.streaming)
        if reads or writes:
            self.request = Request((self.kind, self.number, self.job.seq, 0), reads, writes, cycle)

    def _banks(self, regions: list[Range], step: int, body: int) -> set[int]:
        """Banks of the lines of `regions` that body cycle `step` of `body` asks for."""
        banks: set[int] = set()
        for start, end in regions:
            share = ceil_div(end - start, body)
            first, last = min(start + step * share, end), min(start + (step + 1) * share, end)
            banks.update(self.spm.bank_of_line(line) for line in self.spm.lines_beginning_in(first, last))
            if step == 0:
                banks.add(self.spm.bank_of_line(start // self.spm.width))
        return banks

    def advance(self, cycle: int) -> None:
        """P6: one cycle of work, when a request was served or none was needed; counts the cycle."""
        if self.job is None:
            self.count["idle"] += 1
        elif self.request is not None and self.request.missing:
            self.bank_conflict += 1
        else:
            self.count["busy"] += 1
            if self.request is not None or cycle % self.period == 0:
                self.job.done += 1
            self.request = None

    def complete(self) -> list[Work]:
        """P7: the jobs whose work has reached zero."""
        job = self.job
        if job is None or job.done < job.total:
            return []
        self.job = None
        return [self._count(job)]

    def _count(self, job: Work) -> Work:
        self.count["jobs"] += 1
        self.count[self.amount] += job.amount
        return job

    @property
    def jobs_inside(self) -> int:
        """Jobs that have started and not ended."""
        return int(self.job is not None)

    def counters(self) -> dict[str, Any]:
        """The counters of docs/model/formats.md."""
        return {**self.count, "stalled": {"bank_conflict": self.bank_conflict}}


def tensor_engine(number: int, te: dict[str, Any], spm: Scratchpad) -> ServiceEngine:
    """A TE of a machine."""
    of = ArrayEngine if te.get("drain", "exposed") == "overlapped" else ServiceEngine
    return of(1, number, te, spm, "macs")


class ArrayEngine(ServiceEngine):
    """A TE whose jobs enter the array while earlier ones drain (compute.md, *Overlapped jobs*)."""

    def __init__(self, kind: int, number: int, config: dict[str, Any], spm: Scratchpad, amount: str) -> None:
        super().__init__(kind, number, config, spm, amount)
        self.draining: list[Work] = []  # in the order in which they left the array; `done` goes on from 0 to their rest
        self.waited = 0  # ticks for which the head of the queue has waited for the array
        self.before: Parts | None = None  # of the job that held the array last

    def start(self, cycle: int, starts: Callable[[Work], None]) -> None:
        if self.job is None and self.queue and cycle % self.period == 0:
            self._load(self.queue[0])
            starts(self.queue[0])
            self.job = self.queue.pop(0)
            self.waited = 0

    def _load(self, job: Work) -> None:
        """What is left of its load after the cycles in which the array could load it beside the last fold."""
        parts, before = job.parts, self.before
        if parts is None or before is None or self.waited == 0:
            return
        waited = min(self.waited, before.last)
        left = max(parts.wires - waited, parts.port - min(waited, before.spare), 0)
        if left + parts.stream == 0:
            left = 1
        hidden = parts.load - left
        if hidden > 0:
            parts.load = left
            job.body -= hidden
            job.total -= hidden

    def advance(self, cycle: int) -> None:
        if self.job is None and self.draining:
            self.count["busy"] += 1
        else:
            super().advance(cycle)
        if cycle % self.period == 0:
            for job in self.draining:
                job.done += 1
            if self.queue and self.job is not None:
                self.waited += 1

    def complete(self) -> list[Work]:
        job = self.job
        if job is not None and job.done == job.init + job.streaming:
            self.before, self.job, job.done = job.parts, None, 0
            self.draining.append(job)
        ended = []
        while self.draining and self.draining[0].done >= self._rest(self.draining[0]):
            ended.append(self._count(self.draining.pop(0)))
        return ended

    @staticmethod
    def _rest(job: Work) -> int:
        assert job.parts is not None
        return job.parts.rest

    @property
    def jobs_inside(self) -> int:
        return super().jobs_inside + len(self.draining)
