"""What stands before the first cycle: TRACE_META with its tracks, and a CMD_ENQUEUE for every entry."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from fractions import Fraction
from typing import Any

from kernbench.cmdq import Program
from kernbench.cmdq.depend import predecessors
from kernbench.cmdq.entries import Entry, KvEntry
from kernbench.cmdq.footprint import transfer_of, work_of
from kernbench.cmdq.lower import resource_names
from kernbench.common import naming
from kernbench.config import NpuConfig
from kernbench.sim_engine.result import MODEL_VERSION
from kernbench.sim_engine.tracing.lines import exact_text, line
from kernbench.trace.schema import LLM_FIELDS
from kernbench.trace.schema import VERSION as SCHEMA_VERSION
from kernbench.version import VERSION

_GIVEN = ("source", "token", "desc_addr", *(field.name for field in LLM_FIELDS), "tile_id")


def unit_of(entry: Entry) -> str:
    """The track of an entry."""
    return naming.CONTROL if entry.engine == "control" else naming.engine(entry.engine, entry.engine_id)


def units(config: NpuConfig) -> list[dict[str, Any]]:
    """Every track of a machine: DMA engines, TEs, VEs, DRAM channels, links, scratchpad, control."""
    dma, te, ve, spm = config.dma, config.te, config.ve, config.spm
    weights = [channel.weight for channel in dma.channels]
    macs = Fraction(te.rows or 0) * (te.cols or 0) if te.timing == "systolic" else Fraction(te.macs_per_cycle)
    names = resource_names(config)
    channels, links = names[: config.dram.channels], names[config.dram.channels :]
    out = [_unit(naming.engine("dma", k), "DMA", k, period=dma.period, weights=weights) for k in range(dma.engines)]
    for k in range(te.engines):
        out.append(_unit(naming.engine("te", k), "TE", k, period=te.period, macs_per_cycle=exact_text(macs)))
    ops = exact_text(Fraction(ve.lanes) * ve.ops_per_lane)
    out += [_unit(naming.engine("ve", k), "VE", k, period=ve.period, ops_per_cycle=ops) for k in range(ve.engines)]
    capacity = exact_text(config.dram.capacity)
    out += [_unit(name, "DRAM", k, capacity=capacity) for k, name in enumerate(channels)]
    for k, name in enumerate(links):
        assert config.noc is not None
        out.append(_unit(name, "NOC", k, capacity=exact_text(Fraction(config.noc.link_bytes_per_cycle))))
    shape: dict[str, Any] = {
        "num_banks": spm.num_banks,
        "bank_size_bytes": spm.bank_size_bytes,
        "bank_width_bytes": spm.bank_width_bytes,
        "map": spm.map,
    }
    split = spm.read_ports is not None
    ports = {"read_ports": spm.read_ports, "write_ports": spm.write_ports} if split else {"ports": spm.ports}
    out.append(_unit(naming.SPM, "SRAM", 0, **shape, **ports))
    return [*out, _unit(naming.CONTROL, "CPU", 0)]


def _unit(name: str, component: str, index: int, **what: Any) -> dict[str, Any]:
    return {"unit": name, "component": component, "index": index, "parent": "", **what}


def run_id(program_hash: str, config: NpuConfig) -> str:
    """The same for the same program, machine, model version and package version."""
    named = f"{program_hash} {config.digest()} {MODEL_VERSION} {VERSION}"
    return hashlib.sha256(named.encode()).hexdigest()[:32]


def meta_line(
    config: NpuConfig,
    program: Program,
    program_hash: str,
    level: str,
    window: int,
    left_out: dict[str, Any] | None,
    impls: Mapping[str, str],
) -> bytes:
    """TRACE_META. `left_out`: what the options keep out of the file. `impls`: classes of components, by the names of engines or
    their own."""
    sim_id = run_id(program_hash, config)
    tracks = units(config)
    engines = {track["unit"] for track in tracks}
    tracks = [{**track, "impl": impls[track["unit"]]} if track["unit"] in impls else track for track in tracks]
    parts = [name for name in impls if name not in engines]
    tracks += [_unit(name, "COMPONENT", k, impl=impls[name]) for k, name in enumerate(parts)]
    fields = {
        "version": SCHEMA_VERSION,
        "sim_version": VERSION,
        "model_version": MODEL_VERSION,
        "sim_id": sim_id,
        "level": level,
        "freq_ghz": exact_text(Fraction(config.freq_ghz)),
        "window_cycles": window,
        "program": program.name,
        "program_hash": program_hash,
        "config_hash": config.digest(),
        "sim_config": config.to_dict(),
        "units": tracks,
        "defaults": {"sim_id": sim_id, "core_id": 0, "npu_id": 0, "tenant_id": 0, "thread_id": 0},
        "filter": left_out,
        "commands": len(program.entries),
    }
    return line("TRACE_META", 0, fields)


def enqueue_lines(config: NpuConfig, program: Program) -> Iterator[bytes]:
    """CMD_ENQUEUE of every entry, in file order."""
    for entry, waits_for in zip(program.entries, predecessors(program.entries), strict=True):
        fields: dict[str, Any] = {name: entry.meta.get(name) for name in _GIVEN}
        if isinstance(entry, KvEntry):
            fields["head_id"] = entry.head_id
        fields |= {"cmd_id": entry.id, "cmd_type": entry.opcode, "unit": unit_of(entry)}
        if entry.engine == "dma":
            fields["bytes"] = transfer_of(entry, config).bytes_aligned
        elif entry.engine != "control":
            fields["work"] = work_of(entry)
        fields["deps"] = sorted(program.entries[other].id for other in waits_for) or None
        yield line("CMD_ENQUEUE", 0, fields, entry)
