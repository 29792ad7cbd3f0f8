"""Seed document 004, the design of the DMA engine: a test a section."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from kernbench import Machine, Program, load_config
from kernbench_core import CompletionEvent, DmaEngine, DmaJob, KvRange
from tests.seeds.traced import of, traced


class Memory:
    """A memory side: so many jobs at a time, so many bytes a cycle for each, or none for those that are pushed back."""

    def __init__(self, room: int = 4, width: int = 32) -> None:
        self.room, self.width = room, width
        self.inside: list[DmaJob] = []
        self.entered: list[tuple[int, int]] = []
        self.pushed: set[int] = set()

    def bus_can_enqueue(self, job: DmaJob) -> bool:
        return len(self.inside) < self.room

    def enqueue(self, job: DmaJob, cycle: int) -> None:
        self.inside.append(job)
        self.entered.append((job.cmdq_id, cycle))

    def tick(self, cycle: int) -> Mapping[int, int]:
        return {job.cmdq_id: min(self.width, job.remaining_bytes) for job in self.inside if job.cmdq_id not in self.pushed}

    def backpressure(self, job: DmaJob) -> bool:
        return job.cmdq_id in self.pushed

    def dequeue(self, job: DmaJob) -> None:
        self.inside.remove(job)


class Recorder:
    """A trace engine that keeps what it is told."""

    def __init__(self) -> None:
        self.events: list[tuple[str, int, dict[str, Any]]] = []

    def emit(self, event_type: str, cycle: int, fields: Mapping[str, Any]) -> None:
        self.events.append((event_type, cycle, dict(fields)))

    def of(self, kind: str) -> list[tuple[int, dict[str, Any]]]:
        return [(cycle, fields) for name, cycle, fields in self.events if name == kind]


def job(number: int = 0, **fields: Any) -> DmaJob:
    known = {"direction": "read", "tensor_role": "weight", "bytes_total": 64, "bytes_aligned": 64, "dram_addr": 0}
    return DmaJob(cmdq_id=number, **{**known, **fields})


def run(engine: DmaEngine, memory: Memory, trace: Recorder | None = None, cycles: int = 50) -> dict[int, int]:
    """The end of every job, by its number."""
    ends: dict[int, int] = {}
    for cycle in range(cycles):
        ends |= {event.cmdq_id: event.cycle for event in engine.step(cycle, memory, trace)}
    return ends


def loads(*entries: dict[str, Any], **machine: Any) -> tuple[Machine, dict[int, tuple[int, int]]]:
    """A program of loads and stores on a machine: the start and end of each."""
    made = Program("seed_004")
    for entry in entries:
        known = {"tensor_role": "weight", "qbits": 8, "num_elements": 4096, "dram_addr": 0, "spm_bank": 0, "spm_offset": 0}
        given = {**known, **entry}
        kind = given.pop("kind", "dma_load")
        getattr(made, kind)(**given)
    sim = Machine(load_config({"dma": {"engines": 1}, **machine}), made)
    sim.run()
    return sim, {entry.id: (entry.start, entry.end) for entry in sim.result().entries}


KV = {"head_id": 0, "kv_kind": "k", "dram_base_addr": 0, "qbits_kv": 4, "spm_bank": 0, "spm_offset": 0}


def kv(kind: str, t_start: int, t_len: int, **more: Any) -> dict[str, Any]:
    """An entry of the KV cache."""
    where = {"t_start": t_start, "t_len": t_len} if kind == "kv_store" else {
        "kv_range": {"t_start": t_start, "t_len": t_len, "d_start": 0, "d_len": 128}
    }
    return {"kind": kind, **KV, **where, **more, "tensor_role": None, "qbits": None, "num_elements": None, "dram_addr": None}


def kv_program(*entries: dict[str, Any]) -> Program:
    made = Program("kv")
    for entry in entries:
        given = {name: value for name, value in entry.items() if value is not None}
        getattr(made, given.pop("kind"))(**given)
    return made


def test_seed_004_s1() -> None:
    """Latency is that of bandwidth: twice the bytes take twice the cycles, beside the setup."""
    _, short = loads({"num_elements": 4096}, dram={"t_setup_cycles": 10})
    _, long = loads({"num_elements": 8192}, dram={"t_setup_cycles": 10})
    assert (long[0][1] - 10) == 2 * (short[0][1] - 10)


def test_seed_004_s2() -> None:
    """Bytes follow from elements and bits; the order of the queue stays, and nothing is computed."""
    sim, times = loads({"num_elements": 4096, "qbits": 4}, {"kind": "dma_store", "num_elements": 4096, "qbits": 16})
    counters = sim.result().counters
    assert counters["dma0"]["bytes"] == 2048 + 8192
    assert counters["te0"]["macs"] == 0 and counters["ve0"]["ops"] == 0
    assert times[0][0] <= times[1][0]


def test_seed_004_s3_1() -> None:
    """The fields of a job."""
    cache = {"tensor_role": "kv", "head_id": 2, "kv_kind": "k", "kv_range": KvRange(0, 16, 0, 128), "kv_layout_id": 1}
    one = job(7, spm_bank=3, spm_offset=64, **cache)
    fields = "cmdq_id direction tensor_role head_id kv_kind kv_range kv_layout_id bytes_total bytes_aligned dram_addr spm_bank"
    for name in f"{fields} spm_offset remaining_bytes state stalled stall_reason".split():
        assert hasattr(one, name), name
    assert (one.state, one.stalled, one.stall_reason) == ("QUEUED", False, None)
    part = one.kv_range
    assert part is not None and (part.t_start, part.t_len, part.d_start, part.d_len) == (0, 16, 0, 128)


def test_seed_004_s3_2() -> None:
    """The queue, the running jobs, and what the engine has counted: DRAM bytes, jobs and their mean latency."""
    engine, memory = DmaEngine(max_concurrent_transfers=1), Memory()
    jobs = [job(0), job(1, direction="write", bytes_total=90, bytes_aligned=96), job(2)]
    for one in jobs:
        engine.submit(one)
    assert engine.pending_queue == jobs and engine.active_jobs == []
    assert engine.stats["mean_latency_cycles"] is None
    engine.step(0, memory)
    assert engine.active_jobs == [jobs[0]] and engine.pending_queue == jobs[1:]
    for cycle in range(1, 20):
        engine.step(cycle, memory)
    engine.flush()
    stats = engine.stats
    assert (stats["jobs"], stats["dram_bytes"], stats["read_bytes"], stats["write_bytes"]) == (3, 224, 128, 96)
    assert stats["mean_latency_cycles"] == (2 + 3 + 2) / 3  # 32 bytes a cycle


def test_seed_004_s3_3() -> None:
    """QUEUED, TRANSFERRING, COMPLETED: it starts where there is room, and is complete when all its bytes have moved."""
    engine, memory, one = DmaEngine(), Memory(room=0), job()
    engine.submit(one)
    engine.step(0, memory)
    assert one.state == "QUEUED"
    memory.room = 1
    assert engine.step(1, memory) == [] and one.state == "TRANSFERRING" and one.remaining_bytes == 32
    assert engine.step(2, memory) == [CompletionEvent(0, 3)] and one.state == "COMPLETED" and one.remaining_bytes == 0


def test_seed_004_s3_4() -> None:
    """From an entry of the command queue to the events of its trace."""
    made = Program("one")
    made.dma_load(tensor_role="weight", qbits=8, num_elements=4096, dram_addr=0, spm_bank=0, spm_offset=0)
    found = traced(made, {"dma": {"engines": 1}})
    (line,) = of(found, "ENGINE_EVENT")
    assert (line["unit"], line["bytes"]) == ("dma0", 4096)
    assert sum(event["size_bytes"] for event in of(found, "MEM_ACCESS_EVENT")) == 4096


def test_seed_004_s3_5() -> None:
    """KV entries: a store writes and a load reads, on channels of their own, whose limits do not count the others' jobs."""
    found = traced(kv_program(kv("kv_store", 0, 16), kv("kv_load", 0, 16)), {"dma": {"engines": 1}})
    starts = of(found, "DMA_START")
    assert [(event["direction"], event["channel"]) for event in starts] == [("SRAM_TO_DRAM", 2), ("DRAM_TO_SRAM", 1)]
    engine, memory = DmaEngine(channels={"act_weight": {"max_concurrent": 1}}), Memory()
    for one in (job(0), job(1), job(2, tensor_role="kv")):
        engine.submit(one)
    engine.step(0, memory)
    assert [number for number, _ in memory.entered] == [2, 0]


def test_seed_004_s4_1() -> None:
    """Bytes of elements and bits, then the alignment; the direction by the opcode; behind what is queued already."""
    made = Program("align")
    made.dma_load(tensor_role="weight", qbits=4, num_elements=101, dram_addr=60, spm_bank=0, spm_offset=0)
    made.dma_store(tensor_role="activation", qbits=8, num_elements=64, dram_addr=128, spm_bank=0, spm_offset=4096)
    first, second = of(traced(made, {"dma": {"engines": 1, "alignment_bytes": 64}}), "DMA_START")
    assert (first["src_addr"], first["size_bytes"], first["direction"]) == (0, 128, "DRAM_TO_SRAM")  # bytes 60 to 111
    assert (second["dst_addr"], second["size_bytes"], second["direction"]) == (128, 64, "SRAM_TO_DRAM")


def test_seed_004_s4_2() -> None:
    """A cycle: jobs start up to the first without room; running ones move; who is pushed back stalls, and goes on after it."""
    engine, memory, trace = DmaEngine(), Memory(room=1), Recorder()
    first, second = job(0), job(1)
    engine.submit(first)
    engine.submit(second)
    engine.step(0, memory, trace)
    assert (second.stalled, second.stall_reason, first.remaining_bytes) == (True, "queue_full", 32)
    memory.pushed = {0}
    engine.step(1, memory, trace)
    assert (first.stalled, first.stall_reason, first.remaining_bytes) == (True, "backpressure", 32)
    memory.pushed = set()
    assert engine.step(2, memory, trace) == [CompletionEvent(0, 3)]
    engine.step(3, memory, trace)
    assert not second.stalled and second.state == "TRANSFERRING"
    assert [(cycle, fields["reason"]) for cycle, fields in trace.of("STALL_EVENT")] == [(0, "queue_full"), (1, "backpressure")]


def test_seed_004_s4_2_shared_bandwidth_and_bank_conflicts() -> None:
    """Two transfers have half the bandwidth each; one that finds its bank taken is later."""
    wide = {"spm": {"num_banks": 64, "ports": 16}, "dram": {"t_setup_cycles": 0}}
    _, alone = loads({}, **wide)
    _, together = loads({}, {"dram_addr": 65536, "spm_offset": 16384}, **wide)
    assert together[0][1] == pytest.approx(2 * alone[0][1], abs=2)
    one_bank = {"spm": {"num_banks": 1, "ports": 1}, "dram": {"t_setup_cycles": 0}}
    _, narrow = loads({}, {"dram_addr": 65536, "spm_offset": 16384}, **one_bank)
    assert narrow[1][1] > together[1][1]


def test_seed_004_s4_3() -> None:
    """KV stores of a head keep the order of `t_start`; a KV load goes before weights that have waited as long."""
    engine, memory = DmaEngine(max_concurrent_transfers=1), Memory()
    for number, first in ((0, 32), (1, 16), (2, 0)):
        stored = {"tensor_role": "kv", "direction": "write", "head_id": 0, "kv_kind": "k", "kv_base": 0}
        engine.submit(job(number, kv_range=KvRange(first, 16, 0, 128), **stored))
    run(engine, memory)
    assert [number for number, _ in memory.entered] == [2, 1, 0]
    engine, memory = DmaEngine(max_concurrent_transfers=1, kv_load_bonus=1), Memory()
    for one in (job(0), job(1), job(2, tensor_role="kv")):
        engine.submit(one)
    run(engine, memory)
    assert [number for number, _ in memory.entered] == [2, 0, 1]


def test_seed_004_s4_4() -> None:
    """Accesses with address, size, direction and source; jobs with start, end and bytes; stalls and resumes with durations."""
    engine, memory, trace = DmaEngine(max_concurrent_transfers=2), Memory(room=1, width=48), Recorder()
    engine.submit(job(0, direction="write", bytes_total=96, bytes_aligned=96, dram_addr=4096, spm_bank=1, spm_offset=64))
    rows = {"rows": 2, "stride_bytes": 256, "bytes_total": 128, "bytes_aligned": 128}
    engine.submit(job(1, dram_addr=8192, **rows))
    ends = run(engine, memory, trace)
    keys = ("cmdq_id", "dram_addr", "spm_offset", "bytes", "direction")
    accesses = [tuple(fields[key] for key in keys) for _, fields in trace.of("MEM_ACCESS_EVENT")]
    assert accesses == [
        (0, 4096, 64, 48, "write"),
        (0, 4144, 112, 48, "write"),
        (1, 8192, 0, 48, "read"),
        (1, 8192 + 48, 48, 16, "read"),  # the end of the first row, and in the same cycle
        (1, 8192 + 256, 64, 32, "read"),  # the beginning of the second
        (1, 8192 + 256 + 32, 96, 32, "read"),
    ]
    assert {fields["source_engine"] for _, fields in trace.of("MEM_ACCESS_EVENT")} == {"DMA"}
    over = [(fields["start_cycle"], fields["end_cycle"], fields["bytes"]) for _, fields in trace.of("ENGINE_EVENT")
            if fields["what"] == "end"]
    assert over == [(0, 2, 96), (2, 5, 128)] and ends == {0: 2, 1: 5}
    (stall,), (resume,) = trace.of("STALL_EVENT"), trace.of("RESUME_EVENT")
    assert (stall[0], stall[1]["reason"], resume[0], resume[1]["duration"]) == (0, "queue_full", 2, 2)
    made = Program("samples")
    made.dma_load(tensor_role="weight", qbits=8, num_elements=4096, dram_addr=0, spm_bank=0, spm_offset=0)
    samples = of(traced(made, {"dma": {"engines": 1}}), "BANDWIDTH_SAMPLE")
    assert sum(event["read_bytes"] for event in samples) == 4096


def test_seed_004_s4_5() -> None:
    """The memory says in each cycle what moves; weights of masters decide how KV and weights share."""
    channels = {"kv_load": {"weight": 3}}
    wide = {"spm": {"num_banks": 64, "ports": 16}, "dram": {"channels": 1}}
    made = Program("weights")
    made.dma_load(tensor_role="weight", qbits=8, num_elements=65536, dram_addr=2**20, spm_bank=0, spm_offset=0)
    made.kv_load(**{name: value for name, value in kv("kv_load", 0, 64).items() if value is not None and name != "kind"})
    slow, fast = (
        Machine(load_config({"dma": {"engines": 1, "channels": how}, **wide}), made) for how in ({}, channels)
    )
    for sim in (slow, fast):
        sim.run()
    ends = [sim.result().entries[1].end for sim in (slow, fast)]
    # The KV cache has 64 rows of 128 values of 4 bits: 4096 of 16 bytes a cycle, of which it gets a half, or three quarters.
    assert ends == [4096 // 8, -(-4096 // 12)]
    engine, memory = DmaEngine(), Memory(width=8)
    one = job(0)
    engine.submit(one)
    left = []
    for cycle, width in enumerate((8, 24, 0, 32)):  # the bytes that the memory grants in each cycle
        memory.width = width
        engine.step(cycle, memory)
        left.append(one.remaining_bytes)
    assert left == [56, 32, 32, 0] and one.state == "COMPLETED"


def test_seed_004_s4_5_noc_queue_depth() -> None:
    """`noc_queue_depth`: where two loads leave one router for one engine, flits wait; a load alone keeps its buffers short."""
    noc = {"rows": 1, "cols": 3, "dma_at": [[0, 2]], "dram_at": [[0, 0], [0, 1]], "model": "flit"}
    dram = {"channels": 2, "interleave_bytes": 4096, "peak_bw_bytes_per_cycle": 64, "bus_width_bytes": 64}
    machine = {"noc": noc, "dram": dram | {"dram_burst_cycles": 1}, "dma": {"engines": 1}, "spm": {"bank_width_bytes": 64}}
    means = []
    for addresses in ((0,), (0, 4096)):
        made = Program("meet")
        for k, address in enumerate(addresses):
            place = {"spm_bank": 0, "spm_offset": 4096 * k}
            made.dma_load(tensor_role="weight", qbits=8, num_elements=4096, dram_addr=address, **place)
        found = traced(made, machine)
        samples = of(found, "NOC_QUEUE_DEPTH")
        assert all(max(event["depth"]) <= 8 and len(event["depth"]) == 8 for event in samples)
        link = [event for event in samples if event["unit"] == "noc.r0c0-r0c1"]
        means.append(sum(event["flit_cycles"] for event in link) / sum(event["window_cycles"] for event in link))
        assert {event["unit"] for event in samples} >= {"dram.ch0", "noc.r0c0-r0c1", "noc.r0c1-r0c2"}
    assert means[0] <= 2 < means[1]


def test_seed_004_s5() -> None:
    """`submit`, `step`, `flush`, which finds what is left; the three parameters."""
    engine, memory = DmaEngine(max_concurrent_transfers=1), Memory()
    engine.submit(job(0))
    with pytest.raises(RuntimeError, match="left"):
        engine.flush()
    assert run(engine, memory, cycles=2) == {0: 2}
    engine.flush()
    keys = {"max_concurrent_transfers": 3, "alignment_bytes": 32}
    config = load_config({"dma": keys, "dram": {"peak_bw_bytes_per_cycle": 64}})
    assert (config.dma.max_concurrent_transfers, config.dma.alignment_bytes, config.dram.peak_bw_bytes_per_cycle) == (3, 32, 64)


def hidden(bits: int, *, late: bool) -> int:
    """[cycle] A long product, and a load of KV entries that begins with it, or after it if `late`."""
    made = Program("decode")
    tile = {"ifm_bank": 8, "ifm_offset": 0, "wgt_bank": 9, "wgt_offset": 0, "ofm_bank": 10, "ofm_offset": 0}
    product = made.te_gemm(m=128, n=128, k=256, qbits_weight=8, qbits_activation=8, **tile)
    entry = {name: value for name, value in kv("kv_load", 0, 64, qbits_kv=bits).items() if value is not None}
    entry.pop("kind")
    made.kv_load(**entry, **({"deps_before": [product]} if late else {}))
    spm = {"num_banks": 16, "bank_size_bytes": 2**18}
    sim = Machine(load_config({"dma": {"engines": 1}, "spm": spm, "te": {"spm_traffic": False}}), made)
    sim.run()
    return int(sim.cycle)


def test_seed_004_s6() -> None:
    """KV of 4 bits beside activations of 8: half the bytes, and less time; stores of a head in order, loads hidden."""
    entries = (kv("kv_store", 64, 64), kv("kv_store", 0, 64), kv("kv_load", 0, 64), kv("kv_load", 0, 64, qbits_kv=8))
    dma = {"engines": 1, "channels": {"kv_store": {"max_concurrent": 1}}}
    found = traced(kv_program(*entries), {"dma": dma, "spm": {"bank_size_bytes": 2**18}})
    starts = {event["cmd_id"]: event for event in of(found, "DMA_START")}
    assert starts[1]["t_cycle"] < starts[0]["t_cycle"]
    assert 2 * starts[2]["size_bytes"] == starts[3]["size_bytes"]
    # A load of KV entries beside a product takes no time; behind it, its whole time. 4 bits take half the time of 8.
    ends = {(bits, late): hidden(bits, late=late) for bits in (4, 8) for late in (False, True)}
    product = ends[4, False]
    assert ends[8, False] == product and ends[8, True] - product == 2 * (ends[4, True] - product) > 0


def test_seed_004_s7() -> None:
    """The extensions: rows with a stride, compressed transfers, and channels that addresses are interleaved over."""
    made = Program("rows")
    made.dma_load(
        tensor_role="weight", qbits=8, rows=4, row_elements=64, stride_bytes=1024, dram_addr=0, spm_bank=0, spm_offset=0
    )
    found = traced(made, {"dma": {"engines": 1}, "dram": {"channels": 2, "interleave_bytes": 1024}})
    assert {event["channel"]: event["size_bytes"] for event in of(found, "DRAM_TX_START")} == {0: 128, 1: 128}
    packed = Program("compressed")
    packed.dma_load(tensor_role="weight", qbits=8, num_elements=8192, dram_addr=0, spm_bank=0, spm_offset=0, codec=0)
    codecs = [{"ratio": 4, "bytes_per_cycle": 256}]
    found = traced(packed, {"dma": {"engines": 1, "codecs": codecs}})
    (start,), (sent,) = of(found, "DMA_START"), of(found, "DRAM_TX_START")
    assert (start["size_bytes"], sent["size_bytes"], of(found, "DMA_END")[0]["t_cycle"]) == (8192, 2048, 2048 // 16)
