"""Traces of any length, made without a simulator: decoder layers as a simple schedule runs them, for what reads traces.

Four DMA engines with up to six transfers each, four tensor and four vector engines, eight DRAM channels, eight links. Every job
has its events but those of accesses, every transfer its flows (at level `full`), every window its samples. Layers run one after
the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernbench.trace.events import Record, encode
from tests.trace_samples import MACHINE, meta, record

ENGINES, SLOTS, CHANNELS, BANKS = 4, 6, 8, 32
CAPACITY, LINK, MACS, LANES = 102.4, 128, 16384, 256
WINDOW = 1000
CONTROL = (5, 0)
DMA_CHANNELS = ("act_weight", "kv_load", "kv_store")
UNITS: list[dict[str, Any]] = [
    {"unit": "control", "component": "CPU", "index": 0, "parent": ""},
    *({"unit": f"dma{i}", "component": "DMA", "index": i, "parent": "", "weights": [1, 1, 1]} for i in range(ENGINES)),
    *({"unit": f"te{i}", "component": "TE", "index": i, "parent": "", "macs_per_cycle": str(MACS)} for i in range(ENGINES)),
    *({"unit": f"ve{i}", "component": "VE", "index": i, "parent": "", "ops_per_cycle": str(LANES)} for i in range(ENGINES)),
    *({"unit": f"dram.ch{i}", "component": "DRAM", "index": i, "parent": "", "capacity": "102.4"} for i in range(CHANNELS)),
    *({"unit": f"noc.r{i % 4}c{i // 4}-r{i % 4}c{1 + i // 4}", "component": "NOC", "index": i, "parent": "", "capacity": "128"}
      for i in range(CHANNELS)),
    {"unit": "spm", "component": "SRAM", "index": 0, "parent": "", "banks": BANKS},
]  # fmt: skip
#: phase: (share of a layer's tiles, what computes them, bytes of a tile, MACs or operations of a tile)
PHASES: dict[str, tuple[int, str, int, int]] = {
    "RMSNORM_1": (1, "VE_RMSNORM_TILE", 8192, 4096),
    "QKV_PROJ": (24, "TE_GEMM_TILE", 65536, 524288),
    "ROPE": (2, "VE_MUL_TILE", 2048, 8192),
    "ATTENTION_SCORE": (8, "TE_QKT_TILE", 32768, 131072),
    "SOFTMAX": (2, "VE_SOFTMAX_TILE", 2048, 32768),
    "ATTENTION_APPLY": (8, "TE_AV_TILE", 32768, 131072),
    "OUT_PROJ": (8, "TE_GEMM_TILE", 65536, 524288),
    "MLP_UP": (24, "TE_GEMM_TILE", 90112, 720896),
    "SILU": (2, "VE_SILU_TILE", 4096, 11008),
    "MLP_DOWN": (21, "TE_GEMM_TILE", 90112, 720896),
}
PER_LAYER = sum(share for share, *_ in PHASES.values())
TOKENS = 4


@dataclass
class _State:
    """When everything is free, and the lines of this layer with the keys of their order."""

    level: str
    now: int = 0
    job: int = 0
    slots: list[list[int]] = field(default_factory=lambda: [[0] * SLOTS for _ in range(ENGINES)])
    te: list[int] = field(default_factory=lambda: [0] * ENGINES)
    ve: list[int] = field(default_factory=lambda: [0] * ENGINES)
    lines: list[tuple[tuple[int, ...], bytes]] = field(default_factory=list)
    spans: int = 0
    events: int = 0
    moved: dict[int, list[float]] = field(default_factory=dict)  # window: bytes by channel
    busy: dict[int, list[int]] = field(default_factory=dict)  # window: cycles by engine

    def put(self, rank: tuple[int, int], name: str, t_cycle: int, **fields: Any) -> None:
        """A line; `rank`: type and number of the engine."""
        one = record(name, t_cycle, **fields)
        phase = 2 if rank == CONTROL else one.event.phase  # a control command is over when it is issued
        self.lines.append(((t_cycle, phase, *rank, fields.get("job_id", 0), one.event.number), encode(one)))
        self.events += 1


def big_trace(jobs: int, level: str = "full", tile: int = 1) -> Iterator[bytes]:
    """Lines of a trace of at least so many jobs, in whole layers; `tile`: tiles of a phase for each of its share."""
    per_layer = 2 * PER_LAYER * tile
    layers = max(1, -(-jobs // per_layer))
    machine = {
        **MACHINE,
        "freq_ghz": 1,
        "dma": {
            "engines": ENGINES,
            "max_concurrent_transfers": SLOTS,
            "channels": {name: {"max_concurrent": SLOTS} for name in DMA_CHANNELS},
        },
        "dram": {"channels": CHANNELS, "bus_width_bytes": 128, "dram_burst_cycles": 1, "peak_bw_bytes_per_cycle": CAPACITY},
        "te": {"engines": ENGINES, "macs_per_cycle": MACS, "f_w": {"8": 1, "4": 2, "2": 4}, "f_a": {"8": 1}},
        "spm": {"num_banks": BANKS, "bank_width_bytes": 128, "read_ports": 2, "write_ports": 2},
    }
    first = meta(program="decoder layers", level=level, units=UNITS, window_cycles=WINDOW, freq_ghz="1", sim_config=machine,
                 commands=layers * (per_layer + 1), filter={"only": ["*"]}, sim_id="big")  # fmt: skip
    yield encode(first)
    state = _State(level)
    for command in range(layers * (per_layer + 1)):
        yield encode(_enqueued(command, per_layer, layers, tile))
    for layer in range(layers):
        _layer(state, layer, per_layer, tile)
        yield from _flushed(state, state.now)
    yield from _flushed(state, state.now + 1)
    events = state.events + layers * (per_layer + 1)
    yield encode(record("TRACE_END", state.now, status="done", cycles=state.now, events=events, counters={}))


def write_big(path: Path, jobs: int, level: str = "full", tile: int = 1) -> Path:
    """Write such a trace to a file."""
    with path.open("wb") as file:
        file.writelines(line + b"\n" for line in big_trace(jobs, level, tile))
    return path


def _tiles(tile: int) -> Iterator[tuple[str, str, int, int, int]]:
    """(phase, opcode, bytes, work, number in the phase) of a layer's tiles."""
    for phase, (share, opcode, nbytes, work) in PHASES.items():
        for i in range(share * tile):
            yield phase, opcode, nbytes + 256 * (i * 7919 % 5), work, i


def _enqueued(command: int, per_layer: int, layers: int, tile: int) -> Record:
    """What the queue holds: for each tile its load and its product, then a barrier."""
    layer, place = divmod(command, per_layer + 1)
    common = {"layer_id": layer, "tenant_id": layer * 2 // max(layers, 2), "source": "ISA" if place % 2 else "MMIO"}
    common |= {"model_name": "llama2_7b", "precision": "W4A8", "token_idx": 1024 + layer * TOKENS // layers, "seq_len": 1024}
    if place == per_layer:
        return record("CMD_ENQUEUE", 0, cmd_id=command, cmd_type="BARRIER", unit="control", **common)
    phase, opcode, nbytes, work, i = _TILES.setdefault(tile, list(_tiles(tile)))[place // 2]
    own = {"phase": phase, "head_id": i % 32, "tile_id": i}
    if place % 2 == 0:
        kind = "KV_LOAD_TILE" if phase.startswith("ATTENTION") else "DMA_LOAD_TILE"
        return record("CMD_ENQUEUE", 0, cmd_id=command, cmd_type=kind, unit=f"dma{i % ENGINES}", bytes=nbytes, **common, **own)
    unit = f"{opcode[:2].lower()}{i % ENGINES}"
    return record("CMD_ENQUEUE", 0, cmd_id=command, cmd_type=opcode, unit=unit, deps=[command - 1], work=work, **common, **own)


_TILES: dict[int, list[tuple[str, str, int, int, int]]] = {}


def _layer(state: _State, layer: int, per_layer: int, tile: int) -> None:
    start, command, ready, done = state.now, layer * (per_layer + 1), state.now, state.now
    before = ""
    for phase, opcode, nbytes, work, i in _TILES[tile]:
        if phase != before:
            ready, before = done if opcode.startswith("VE") else ready, phase
        loaded = _load(state, command, phase, nbytes, i, start)
        kind = opcode[:2].lower()
        engine = state.te if kind == "te" else state.ve
        began = max(loaded, engine[i % ENGINES], ready)
        body = max(1, -(-work // (2 * MACS if kind == "te" else LANES)))
        held = 3 if kind == "te" and i % 7 == 3 else 0
        engine[i % ENGINES] = began + body + 20 + held
        _compute(state, command + 1, phase, opcode, (loaded, began, began + body + 20 + held), body, work, held, i)
        done = max(done, engine[i % ENGINES])
        command += 2
    state.now = max(done, *(end for slots in state.slots for end in slots))
    control = {"cmd_id": command, "unit": "control"}
    state.put(CONTROL, "CMD_START", state.now, **control)
    state.put(CONTROL, "CMD_END", state.now, **control, status="OK")
    state.put(CONTROL, "MARKER", state.now, cmd_id=command, marker=f"layer {layer} done")
    state.spans += 1
    _samples(state)


def _load(state: _State, command: int, phase: str, nbytes: int, i: int, issue: int) -> int:
    engine = i % ENGINES
    slots = state.slots[engine]
    slot = min(range(SLOTS), key=slots.__getitem__)
    start = max(slots[slot], issue)
    length = 126 + int(nbytes * SLOTS * ENGINES / (CAPACITY * CHANNELS)) + 37 * (i % 3)
    end = slots[slot] = start + length
    kv = phase.startswith("ATTENTION")
    ids = {"job_id": state.job, "cmd_id": command, "unit": f"dma{engine}"}
    more = {"direction": "DRAM_TO_SRAM", "src_addr": 2**32 + command * 65536, "dst_addr": command % 200 * 65536,
            "size_bytes": nbytes, "phase": phase, "head_cycles": 126, "weight": 1}  # fmt: skip
    rank = (0, engine)
    state.put(rank, "JOB_ISSUE", issue, **ids, job_type="DMA_READ", tile_id=i, phase=phase)
    state.put(rank, "CMD_START", start, cmd_id=command, unit=ids["unit"])
    state.put(rank, "DMA_START", start, tx_id=state.job, channel=int(kv), **more, **ids)
    if start > issue:
        state.put(rank, "STALL_EVENT", issue, **ids, reason="queue_full", channel=int(kv))
        state.put(rank, "RESUME_EVENT", start, **ids, reason="queue_full", duration_cycles=start - issue, channel=int(kv))
    state.put(rank, "CMD_END", end, cmd_id=command, unit=ids["unit"], status="OK")
    state.put(rank, "JOB_DONE", end, **ids, job_type="DMA_READ", latency_cycles=end - issue)
    state.put(rank, "DMA_END", end, tx_id=state.job, channel=int(kv), **ids, latency_cycles=length)
    state.put(rank, "ENGINE_EVENT", end, **ids, start_cycle=start, end_cycle=end, bytes=nbytes)
    for k in range(2):
        channel, size = (command + 3 * k) % CHANNELS, nbytes // 2
        flow = {"tx_id": state.job, "channel": channel, "cmd_id": command, "job_id": state.job}
        _spread(state, start + 126, end, size, channel)
        if state.level == "full":
            link = {**flow, "link_id": channel, "unit": UNITS[1 + 3 * ENGINES + CHANNELS + channel]["unit"]}
            state.put((3, channel), "DRAM_TX_START", start + 126, **flow, unit=f"dram.ch{channel}", size_bytes=size, weight=1)
            state.put((3, channel), "NOC_TX_START", start + 126, **link, size_bytes=size)
            state.put((3, channel), "DRAM_TX_END", end, **flow, unit=f"dram.ch{channel}", size_bytes=size)
            state.put((3, channel), "NOC_TX_END", end, **link)
    _busy(state, engine, start, end)
    state.spans += 5 if state.level == "full" else 1
    state.job += 1
    return end


def _compute(state: _State, command: int, phase: str, opcode: str, when: tuple[int, int, int], body: int, work: int, held: int,
             i: int) -> None:  # fmt: skip
    issue, start, end = when
    kind = opcode[:2]
    ids = {"job_id": state.job, "cmd_id": command, "unit": f"{kind.lower()}{i % ENGINES}"}
    rank = (1 if kind == "TE" else 2, i % ENGINES)
    name = opcode.removesuffix("_TILE")
    state.put(rank, "JOB_ISSUE", issue, **ids, job_type=name, phase=phase, **{"tile_id" if kind == "TE" else "vec_chunk_id": i})
    state.put(rank, "CMD_START", start, cmd_id=command, unit=ids["unit"])
    shape = {"m": 1, "n": work // 4096, "k": 4096, "tile_m": 1, "tile_n": work // 4096, "tile_k": 4096} if kind == "TE" else {
        "op_type": name[3:], "len": work, "batch": 1}  # fmt: skip
    state.put(rank, f"{kind}_START", start, **ids, **shape, phase=phase, body_cycles=body, total_cycles=body + 20)
    if held and state.level == "full":
        state.put(rank, "STALL_EVENT", start + 9, **ids, reason="bank_conflict", bank_id=i % BANKS)
        state.put(rank, "RESUME_EVENT", start + 9 + held, **ids, reason="bank_conflict", duration_cycles=held)
    state.put(rank, "CMD_END", end, cmd_id=command, unit=ids["unit"], status="OK")
    state.put(rank, "JOB_DONE", end, **ids, job_type=name, latency_cycles=end - issue)
    count = {"mac_count": work} if kind == "TE" else {"op_count": work}
    state.put(rank, f"{kind}_END", end, **ids, **count, latency_cycles=end - start, stall_cycles=held)
    state.put(rank, "ENGINE_EVENT", end, **ids, start_cycle=start, end_cycle=end)
    _busy(state, (rank[0]) * ENGINES + i % ENGINES, start, end)
    state.spans += 1
    state.job += 1


def _spread(state: _State, start: int, end: int, size: int, channel: int) -> None:
    for window in range(start // WINDOW, (end - 1) // WINDOW + 1):
        share = min(end, (window + 1) * WINDOW) - max(start, window * WINDOW)
        state.moved.setdefault(window, [0.0] * CHANNELS)[channel] += size * share / (end - start)


def _busy(state: _State, engine: int, start: int, end: int) -> None:
    for window in range(start // WINDOW, (end - 1) // WINDOW + 1):
        share = min(end, (window + 1) * WINDOW) - max(start, window * WINDOW)
        state.busy.setdefault(window, [0] * 3 * ENGINES)[engine] += share


def _samples(state: _State) -> None:
    """Of the windows that have come to their end."""
    for window in sorted(window for window in state.busy if (window + 1) * WINDOW <= state.now):
        t_cycle = (window + 1) * WINDOW - 1
        moved = [int(size) for size in state.moved.pop(window, [0.0] * CHANNELS)]
        for i, size in enumerate(moved):
            if size:
                own = {
                    "window_cycles": WINDOW,
                    "read_bytes": size,
                    "write_bytes": 0,
                    "busy_cycles": WINDOW,
                    "member_cycles": WINDOW,
                }
                state.put((4, i), "BANDWIDTH_SAMPLE", t_cycle, unit=f"dram.ch{i}", **own)
                state.put(
                    (4, i + CHANNELS), "BANDWIDTH_SAMPLE", t_cycle, unit=UNITS[1 + 3 * ENGINES + CHANNELS + i]["unit"], **own
                )
        busy = [min(cycles, WINDOW) for cycles in state.busy.pop(window)]
        for i, cycles in enumerate(busy):
            name = f"{('dma', 'te', 've')[i // ENGINES]}{i % ENGINES}"
            own = {
                "window_cycles": WINDOW,
                "busy_cycles": cycles,
                "backpressure_cycles": 0,
                "bank_conflict_cycles": min(cycles // 50, WINDOW - cycles),
            }
            state.put((4, 20 + i), "ENGINE_SAMPLE", t_cycle, unit=name, **own)
        if state.level == "full":
            grants = [sum(moved) // 128 // BANKS + (sum(busy[ENGINES:]) * (3 + bank % 5)) // 8 for bank in range(BANKS)]
            denials = [count * (bank % 4) // 40 for bank, count in enumerate(grants)]
            state.put((4, 40), "BANK_SAMPLE", t_cycle, unit="spm", window_cycles=WINDOW, grants=grants, denials=denials,
                      requests=[a + b for a, b in zip(grants, denials, strict=True)])  # fmt: skip


def _flushed(state: _State, before: int) -> list[bytes]:
    """The lines before a cycle, in their order; the others stay."""
    state.lines.sort(key=lambda one: one[0])
    ready = [text for key, text in state.lines if key[0] < before]
    state.lines = state.lines[len(ready) :]
    return ready
