"""Hypothesis strategy for valid programs over the PEs of a small system: moves of every kind at the same time."""

from __future__ import annotations

from collections.abc import Callable
from math import lcm
from typing import Any

from hypothesis import strategies as st

from kernbench.config import load_config
from kernbench.config.system import SystemConfig
from tests.machine_strategies import Draw
from tests.oracles.ref_geometry import aligned_rows, byte_count, ceil_div, dram_rows
from tests.sampled import sampled_from
from tests.strategies import QBITS, Site, connect, name_entries, te_tile, ve_tile
from tests.system_roads import PlainRoads

Entry = dict[str, Any]
Bytes = tuple[int, int]  # half-open addresses
MAX_BYTES = 320  # of a transfer, before alignment
COUNTS = (1, 2, 3, 4, 6, 6, 8, 8)  # of patterns in a program: small numbers are not preferred
ROLES = sampled_from(["activation", "weight", "kv", "embedding"])


class Ground:
    """What the entries of one program share: a system, who and what is crowded, and a budget of work."""

    def __init__(self, draw: Draw, system: dict[str, Any], on_stacks: bool, tenants: int = 1) -> None:
        """`tenants`: it is one of so many, and each has a part of every memory and scratchpad."""
        self.draw = draw
        self.tenants = tenants
        config = load_config(system)
        assert isinstance(config, SystemConfig)
        self.roads = PlainRoads(config)
        npu: dict[str, Any] = {name: system[name] for name in system if name in ("control", "kv_layouts")}
        pe = {name: part for name, part in system["pe"].items() if name != "link"}
        if tenants > 1:
            key = "num_banks" if pe["spm"].get("map") == "blocked" else "bank_size_bytes"
            width = config.pe.spm.bank_width_bytes if key == "bank_size_bytes" else 1
            pe["spm"] = {**pe["spm"], key: pe["spm"][key] // tenants // width * width}
        self.site = Site(draw, npu | pe)
        self.align = config.pe.dma.alignment_bytes
        cubes = [(sip, cube) for sip in range(config.system.sips) for cube in range(config.cubes)]
        self.cpus = [f"sip{sip}.cube{cube}.m_cpu" for sip, cube in cubes]
        self.pes = [f"sip{sip}.cube{cube}.pe{pe}" for sip, cube in cubes for pe in range(config.cube.pes)]
        self.memories = self._memories(config, cubes)
        self.crowd = draw(st.lists(sampled_from(self.pes), min_size=2, max_size=3, unique=True))
        sram = config.cube.sram.bytes
        srams = [self.roads.resolver.base(f"sip{sip}.cube{cube}.sram") for sip, cube in cubes]
        stacks = [(start, end) for start, end in self.memories if not any(one <= start < one + sram for one in srams)]
        self.busy = draw(st.lists(sampled_from((on_stacks and stacks) or self.memories), min_size=1, max_size=2))
        self.kv_bases: list[int] = []

    def _memories(self, config: SystemConfig, cubes: list[tuple[int, int]]) -> list[Bytes]:
        """What aligned transfers may touch: of each slice and each SRAM."""
        found = []
        for sip, cube in cubes:
            sram = self.roads.resolver.base(f"sip{sip}.cube{cube}.sram")
            found.append((sram, sram + config.cube.sram.bytes // self.tenants // self.align * self.align))
            for slice_ in range(config.slices):
                start = self.roads.resolver.address(sip, cube, slice_)
                line = lcm(config.slice_channels * config.cube.hbm.interleave_bytes, self.align)
                part = config.slice_bytes if self.tenants == 1 else config.slice_bytes // self.tenants // line * line
                found.append((start, start + part))
        inside = [(ceil_div(a, self.align) * self.align, b // self.align * self.align) for a, b in found]
        return [(a, b) for a, b in inside if b - a >= self.align]

    def pe(self) -> str:
        """A PE, as a rule one of the crowd."""
        return str(self.draw(sampled_from(self.crowd * 3 + self.pes)))

    def at(self, node: str) -> dict[str, str]:
        """The node of an entry; the first one may be left out."""
        return {} if node == self.pes[0] and self.draw(st.booleans()) else {"node": node}

    def memory(self) -> Bytes:
        """Addresses of a memory, as a rule of a busy one."""
        found: Bytes = self.draw(sampled_from(self.busy * len(self.memories) + self.memories))
        return found

    def room(self, prefix: str, nbytes: int, whole_lines: bool = False) -> dict[str, int]:
        """Bank and offset of a range of the scratchpad, `whole_lines`: from the start of a line."""
        place = self.site.place(prefix, nbytes)
        if whole_lines:
            place[f"{prefix}_offset"] -= place[f"{prefix}_offset"] % self.site.spm.width
        return place

    def elements(self, most_bytes: int) -> dict[str, int]:
        """`qbits` and `num_elements` of at most so many bytes; at least 8 of them are there."""
        qbits = self.draw(sampled_from(QBITS))
        most = max(1, min(most_bytes, MAX_BYTES) * 8 // qbits)
        return {"qbits": qbits, "num_elements": self.draw(st.one_of(st.integers(1, most), st.integers((most + 1) // 2, most)))}


@st.composite
def system_programs(draw: Draw, system: dict[str, Any], on_stacks: bool = False, tenants: int = 1) -> dict[str, Any]:
    """A program dict that is valid on `system`, with dependencies in both directions of the file.

    `on_stacks`: its busy memories are slices of HBM, and a first transfer uses one. `tenants`: it fits into a part of each
    memory and scratchpad where so many tenants share the system.
    """
    ground = Ground(draw, system, on_stacks, tenants)
    entries: list[Entry] = _move(ground) if on_stacks else []
    for _ in range(draw(sampled_from(COUNTS))):
        entries += draw(sampled_from(PATTERNS))(ground)
    if draw(sampled_from([False, False, True])):
        entries.append({"opcode": "END"})
    name_entries(draw, entries)
    if draw(st.booleans()):
        connect(draw, entries)
    return {"metadata": {"version": "1.0", "name": "drawn"}, "cmdq": entries}


def _between(ground: Ground, source: str, target: str) -> Entry:
    """A send by the source or a receive by the target."""
    draw, size = ground.draw, ground.elements(ground.site.spm_bytes)
    nbytes = byte_count(size["num_elements"], size["qbits"])
    opcode, node, peer = draw(sampled_from([("DMA_SEND_TILE", source, target), ("DMA_RECV_TILE", target, source)]))
    places = {**ground.room("spm", nbytes, True), **ground.room("peer", nbytes, True)}
    common = {"opcode": opcode, **ground.at(node), "peer": peer, "tensor_role": draw(ROLES)}
    return {**common, **ground.site.engine("dma"), **size, **places}


def _pair(ground: Ground) -> list[Entry]:
    source = ground.pe()
    target = ground.draw(sampled_from([pe for pe in ground.crowd + ground.pes if pe != source]))
    return [_between(ground, source, target)]


def _both_ways(ground: Ground) -> list[Entry]:
    a, b = ground.crowd[:2]
    return [_between(ground, a, b), _between(ground, b, a)]


def _ring(ground: Ground) -> list[Entry]:
    ring = ground.crowd
    return [_between(ground, pe, ring[(i + 1) % len(ring)]) for i, pe in enumerate(ring)]


def _gather(ground: Ground) -> list[Entry]:
    return [_between(ground, pe, ground.crowd[0]) for pe in ground.crowd[1:]]


def _move(ground: Ground) -> list[Entry]:
    """A load or store between a PE and HBM or SRAM, 1-D or 2-D."""
    draw, align = ground.draw, ground.align
    (start, end), rows = ground.memory(), draw(sampled_from([None, None, 1, 2, 3]))
    most = min(end - start, ground.site.spm_bytes) // (rows or 1) - 2 * align
    if most < 8:
        return [{"opcode": "NOP"}]
    size: dict[str, int] = ground.elements(most)
    span = byte_count(size["num_elements"], size["qbits"])
    if rows is not None:
        stride = span + draw(sampled_from([0, 1, 7, 64]))
        size = {"qbits": size["qbits"], "rows": rows, "row_elements": size["num_elements"], "stride_bytes": stride}
        span += (rows - 1) * stride
    if span > end - start:
        return [{"opcode": "NOP"}]
    opcode = draw(sampled_from(["DMA_LOAD_TILE", "DMA_STORE_TILE", "DMA_PREFETCH_TILE"]))
    address = {"dram_addr": draw(st.integers(start, end - span))}
    return _into_scratchpad(ground, {"opcode": opcode, "tensor_role": draw(ROLES), **size, **address})


def _kv(ground: Ground) -> list[Entry]:
    """KV tiles whose bases are shared, where the tile lies in one memory."""
    draw = ground.draw
    layout = ground.site.machine["kv_layouts"][0]
    head_dim = layout["head_dim"]
    qbits = draw(sampled_from([bits for bits in (4, 8, 16) if head_dim * bits % 8 == 0]))
    t_start = draw(st.integers(0, layout["t_max"] - 1))
    t_len = draw(st.integers(1, min(4, layout["t_max"] - t_start)))
    tile: Entry = {"head_id": draw(st.integers(0, 1)), "kv_kind": draw(sampled_from("kv"))}
    tile |= {"qbits_kv": qbits, "dram_base_addr": 0}
    tokens = {"t_start": t_start, "t_len": t_len}
    if draw(st.booleans()):
        tokens["d_len"] = draw(st.integers(1, head_dim))
    if draw(st.booleans()):
        tile = {"opcode": "KV_LOAD_TILE", **tile, "kv_range": tokens}
    else:
        tile = {"opcode": "KV_STORE_TILE", **tile, **tokens}
    start, end = ground.memory()
    found = dram_rows(tile, ground.site.machine["kv_layouts"])
    first, span = found[0][0], found[-1][0] + found[-1][1] - found[0][0]
    fresh = [draw(st.integers(start, end - span)) - first] if span <= end - start else []
    bases = [base for base in ground.kv_bases + fresh if base >= 0 and _inside(ground, base + first, base + first + span)]
    aligned = sum(nbytes for _, nbytes in aligned_rows(found, ground.align)) + 2 * ground.align
    if not bases or aligned > ground.site.spm_bytes:
        return [{"opcode": "NOP"}]
    tile["dram_base_addr"] = draw(sampled_from(bases))
    ground.kv_bases.append(tile["dram_base_addr"])
    return _into_scratchpad(ground, tile)


def _inside(ground: Ground, start: int, end: int) -> bool:
    return any(a <= start and end <= b for a, b in ground.memories)


def _into_scratchpad(ground: Ground, entry: Entry) -> list[Entry]:
    rows = aligned_rows(dram_rows(entry, ground.site.machine["kv_layouts"]), ground.align)
    nbytes = sum(row for _, row in rows)
    if nbytes > ground.site.spm_bytes:
        return [{"opcode": "NOP"}]
    return [{**entry, **ground.at(ground.pe()), **ground.site.engine("dma"), **ground.room("spm", nbytes)}]


def _copy(ground: Ground) -> list[Entry]:
    start, end = ground.memory()
    if end - start < 8:
        return [{"opcode": "NOP"}]
    size = ground.elements(end - start)
    span = byte_count(size["num_elements"], size["qbits"])
    node = ground.draw(sampled_from([None, *ground.roads.endpoints()]))
    at = {} if node is None else {"node": node}
    address = ground.draw(st.integers(start, end - span))
    direction = ground.draw(sampled_from(["to_device", "to_host"]))
    return [{"opcode": "HOST_COPY_TILE", **at, "direction": direction, "dram_addr": address, **size}]


def _launch(ground: Ground) -> list[Entry]:
    node = ground.draw(sampled_from([None, *ground.cpus]))
    return [{"opcode": "LAUNCH"} if node is None else {"opcode": "LAUNCH", "node": node}]


def _compute(ground: Ground) -> list[Entry]:
    return [_work(ground, ground.pe())]


def _work(ground: Ground, node: str) -> Entry:
    entry = ground.draw(sampled_from([te_tile, ve_tile]))(ground.site)
    return entry if entry["opcode"] == "NOP" else {**entry, **ground.at(node)}


def _siege(ground: Ground) -> list[Entry]:
    """Engines at work in both scratchpads of a send, and one more into each."""
    a, b = ground.crowd[:2]
    work = [_work(ground, a), _work(ground, b), _work(ground, b)]
    return [*work, _between(ground, a, b), _between(ground, ground.crowd[-1], a)]


def _control(ground: Ground) -> list[Entry]:
    return [{"opcode": ground.draw(sampled_from(["NOP", "BARRIER"]))}]


PATTERNS: tuple[Callable[[Ground], list[Entry]], ...] = (
    *[_pair] * 3, *[_siege] * 3, _both_ways, _ring, _gather,
    *[_move] * 4, *[_kv] * 2, *[_copy] * 2, _launch, *[_compute] * 4, _control,
)  # fmt: skip
