"""What a reference trace says before the first cycle: TRACE_META with its tracks, and a CMD_ENQUEUE for each entry."""

from __future__ import annotations

import hashlib
import json
from fractions import Fraction
from typing import Any

from kernbench.trace import schema

from .ref_control import Control, Record
from .ref_dma import DmaJob
from .ref_engines import mma_shape, te_work, ve_work
from .ref_geometry import Scratchpad, mesh_links
from .ref_machine import exact
from .ref_trace_lines import BEFORE_ALL, CONTROL, Lines, Who, exact_text, line

CHANNELS = ("act_weight", "kv_load", "kv_store")  # DMA channels by number
LLM = tuple(field.name for field in schema.LLM_FIELDS)


def unit_of(entry: dict[str, Any]) -> str:
    """The track of an entry: the engine that runs it."""
    kind = kind_of(entry["opcode"])
    return kind if kind == "control" else f"{kind}{entry.get(f'{kind}_id', 0)}"


def kind_of(opcode: str) -> str:
    """dma, te, ve or control."""
    if opcode in ("NOP", "BARRIER", "END"):
        return "control"
    prefix = opcode.partition("_")[0].lower()
    return prefix if prefix in ("te", "ve") else "dma"


def units(machine: dict[str, Any]) -> list[dict[str, Any]]:
    """Every track of a complete machine: engines, DRAM channels, links, scratchpad, control."""
    dma, te, ve, dram, noc, spm = (machine[name] for name in ("dma", "te", "ve", "dram", "noc", "spm"))
    weights = [dma["channels"][name]["weight"] for name in CHANNELS]
    macs = _macs_per_cycle(te)
    ops = exact(ve["lanes"]) * exact(ve["ops_per_lane"])
    bus = exact(dram["bus_width_bytes"]) / exact(dram["dram_burst_cycles"])
    channel = min(exact(dram["peak_bw_bytes_per_cycle"]), bus) / dram["period"]
    ports = {name: spm[name] for name in ("ports", "read_ports", "write_ports") if name in spm}
    out = [_unit(f"dma{i}", "DMA", i, period=dma["period"], weights=weights) for i in range(dma["engines"])]
    rate = exact_text(exact(macs))
    drain = {"drain": "overlapped"} if te.get("drain") == "overlapped" else {}
    out += [_unit(f"te{i}", "TE", i, period=te["period"], macs_per_cycle=rate, **drain) for i in range(te["engines"])]
    out += [_unit(f"ve{i}", "VE", i, period=ve["period"], ops_per_cycle=exact_text(ops)) for i in range(ve["engines"])]
    out += [_unit(f"dram.ch{i}", "DRAM", i, capacity=exact_text(channel)) for i in range(dram["channels"])]
    for i, link in enumerate(mesh_links(noc) if noc is not None else []):
        out.append(_unit(link, "NOC", i, capacity=exact_text(exact(noc["link_bytes_per_cycle"]))))
    if machine["llc"] is not None:
        rate = exact_text(exact(machine["llc"]["bw_bytes_per_cycle"]))
        out.append(_unit("llc", "NOC", len(mesh_links(noc)) if noc is not None else 0, capacity=rate))
    shape = {name: spm[name] for name in ("num_banks", "bank_size_bytes", "bank_width_bytes", "map")}
    out.append(_unit("spm", "SRAM", 0, **shape, **ports))
    return [*out, _unit("control", "CPU", 0)]


def _unit(name: str, component: str, index: int, **what: Any) -> dict[str, Any]:
    return {"unit": name, "component": component, "index": index, "parent": "", **what}


def meta_line(
    machine: dict[str, Any],
    complete: dict[str, Any],
    program: dict[str, Any],
    level: str,
    window: int,
    meta: dict[str, Any],
) -> bytes:
    """TRACE_META. What `meta` does not give is made from the given machine and program themselves."""
    sim_id = meta.get("sim_id", "reference")
    fields = {
        "version": schema.VERSION,
        "sim_version": "reference",
        "model_version": 1,
        "level": level,
        "freq_ghz": exact_text(exact(complete["freq_ghz"])),
        "window_cycles": window,
        "program": program.get("metadata", {}).get("name", ""),
        "program_hash": _digest(program),
        "config_hash": _digest(machine),
        "sim_config": machine,
        "units": units(complete),
        "defaults": {"sim_id": sim_id, "core_id": 0, "npu_id": 0, "tenant_id": 0, "thread_id": 0},
        "commands": len(program["cmdq"]),
    }
    return line("TRACE_META", 0, {**fields, "sim_id": sim_id, **meta})


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def enqueue(lines: Lines, control: Control, machine: dict[str, Any]) -> None:
    """CMD_ENQUEUE of every entry that no host writes, in file order, before all else."""
    for record in control.records:
        if record.arrival == 0:
            lines.add("CMD_ENQUEUE", 0, Who(CONTROL, job=BEFORE_ALL), _constant(record, control, machine))


def arrive(lines: Lines, control: Control, machine: dict[str, Any], record: Record) -> None:
    """CMD_ENQUEUE of an entry that the host wrote, in the cycle of its arrival, before all that is issued in this cycle."""
    assert record.arrival is not None
    lines.add("CMD_ENQUEUE", record.arrival, Who(CONTROL, job=0), _constant(record, control, machine))


def _constant(record: Record, control: Control, machine: dict[str, Any]) -> dict[str, Any]:
    entry = record.entry
    fields = {name: entry.get(name) for name in ("source", "token", "desc_addr", *LLM, "tile_id")}
    fields |= {"cmd_id": record.id, "cmd_type": record.opcode, "unit": unit_of(entry), **_size(record, machine)}
    fields["deps"] = sorted(set(record.waits_for)) or None
    if control.mmio is not None:
        fields["position"] = control.records.index(record)
    return fields


def _size(record: Record, machine: dict[str, Any]) -> dict[str, int]:
    kind, spm = kind_of(record.opcode), Scratchpad(machine["spm"])
    if kind == "control":
        return {}
    if kind == "dma":
        start, end = DmaJob(record.entry, 0, machine).range
        return {"bytes": end - start}
    work = te_work if kind == "te" else ve_work
    return {"work": work(record.entry, 0, machine[kind], spm).amount}


def _macs_per_cycle(te: dict[str, Any]) -> Fraction:
    """Of one tensor engine with operands of 8 bits."""
    if te["timing"] == "systolic":
        return Fraction(te["rows"] * te["cols"])
    if te["timing"] == "mma":
        shape = mma_shape(8, 8, te["mma"])
        return te["mma"]["cores"] * shape["m"] * shape["n"] * shape["k"] / exact(shape["cycles"])
    return exact(te["macs_per_cycle"])
