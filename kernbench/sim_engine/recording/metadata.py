"""TRACE_META with its tracks, and the CMD_ENQUEUE of every entry: before the first cycle, or when the host has written the
entry."""

from __future__ import annotations

import base64
import binascii
import hashlib
from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import Annotated, Any

import msgspec
import numpy as np

from kernbench.cmdq import Program
from kernbench.cmdq.entries import Entry, KvEntry, TeEntry
from kernbench.cmdq.plan import Plan
from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.config import MachineConfig
from kernbench.config.schema import Spm, Te
from kernbench.sim_engine.recording.options import FOREVER, TraceOptions
from kernbench.sim_engine.recording.templates import exact_text, line
from kernbench.sim_engine.result import MODEL_VERSION
from kernbench.sim_engine.run.commands import Command
from kernbench.trace.schema import LLM_FIELDS
from kernbench.trace.schema import VERSION as SCHEMA_VERSION
from kernbench.version import VERSION
from kernbench_core.numbers import EngineType

_GIVEN = frozenset(("source", "token", "desc_addr", *(field.name for field in LLM_FIELDS), "tile_id"))


def units(plan: Plan) -> list[dict[str, Any]]:
    """Every track: DMA engines, TEs, VEs and processors, DRAM channels, links, caches, scratchpads, control."""
    dma, te, ve = plan.pe.dma, plan.pe.te, plan.pe.ve
    what: dict[int, tuple[str, dict[str, Any]]] = {
        EngineType.TE: ("TE", {"period": te.period, "macs_per_cycle": exact_text(te.array_macs), **_drain(te)}),
        EngineType.VE: ("VE", {"period": ve.period, "ops_per_cycle": exact_text(Fraction(ve.lanes) * ve.ops_per_lane)}),
        EngineType.COMPONENT: ("M_CPU", {}),
    }
    weights = [channel.weight for channel in dma.channels]
    out = [_unit(name, "DMA", k, period=dma.period, weights=weights) for k, name in enumerate(plan.dma)]
    for name, engine in zip(plan.compute, plan.machine["compute"], strict=True):
        component, more = what[engine["kind"]]
        out.append(_unit(name, component, engine["id"], **more))
    for k, (name, capacity) in enumerate(zip(plan.resources, plan.capacities, strict=True)):
        component, index = ("DRAM", k) if k < plan.channels else ("NOC", k - plan.channels)
        out.append(_unit(name, component, index, capacity=exact_text(capacity)))
    out += [_unit(name, "SRAM", k, **_shape(plan.pe.spm)) for k, name in enumerate(plan.scratchpads)]
    return [*out, _unit(naming.CONTROL, "CPU", 0)]


def _drain(te: Te) -> dict[str, str]:
    """Whether several jobs can be in an engine at a time."""
    return {"drain": te.drain} if te.overlaps_jobs else {}


def part_names(plan: Plan, impls: Mapping[str, str]) -> list[str]:
    """Names of components that are not engines; their tracks come after all others."""
    engines = {track["unit"] for track in units(plan)}
    return [name for name in impls if name not in engines]


def _shape(spm: Spm) -> dict[str, Any]:
    shape: dict[str, Any] = {
        "num_banks": spm.num_banks,
        "bank_size_bytes": spm.bank_size_bytes,
        "bank_width_bytes": spm.bank_width_bytes,
        "map": spm.map,
    }
    if spm.read_ports is not None:
        return {**shape, "read_ports": spm.read_ports, "write_ports": spm.write_ports}
    return {**shape, "ports": spm.ports}


def _unit(name: str, component: str, index: int, **what: Any) -> dict[str, Any]:
    return {"unit": name, "component": component, "index": index, "parent": naming.parent(name), **what}


def run_id(program_hash: str, config: MachineConfig) -> str:
    """The same for equal program, machine, model version and package version."""
    named = f"{program_hash} {config.digest()} {MODEL_VERSION} {VERSION}"
    return hashlib.sha256(named.encode()).hexdigest()[:32]


def meta_line(
    config: MachineConfig,
    program: Program,
    plan: Plan,
    program_hash: str,
    level: str,
    window: int,
    left_out: dict[str, Any] | None,
    impls: Mapping[str, str],
) -> bytes:
    """TRACE_META. `left_out`: the events that the options exclude from the file. `impls`: the classes of components, by the
    names of engines or of components.
    """
    sim_id = run_id(program_hash, config)
    tracks = units(plan)
    tracks = [{**track, "impl": impls[track["unit"]]} if track["unit"] in impls else track for track in tracks]
    tracks += [_unit(name, "COMPONENT", k, impl=impls[name]) for k, name in enumerate(part_names(plan, impls))]
    fields = {
        "version": SCHEMA_VERSION,
        "sim_version": VERSION,
        "model_version": MODEL_VERSION,
        "sim_id": sim_id,
        "level": level,
        "freq_ghz": exact_text(Fraction(plan.pe.freq_ghz)),
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


def command_line(command: Command, cycle: int, *, by_cause: bool) -> bytes:
    """CMD_ENQUEUE of a command that a component submits in the cycle. `by_cause`: whether the energy causes are included."""
    fields: dict[str, Any] = {name: command.meta.get(name) for name in _GIVEN}
    fields |= {"cmd_id": command.id, "cmd_type": command.opcode, "unit": command.unit, "deps": list(command.deps) or None}
    fields["visible"] = command.visible
    fields |= {name: command.given[name] for name in ("bytes", "work") if name in command.given}
    if by_cause and command.engine == "te":
        fields["qbits"] = command.given.get("qbits_weight")
    return line("CMD_ENQUEUE", cycle, fields, command)


def enqueue_lines(program: Program, plan: Plan) -> Iterator[bytes]:
    """CMD_ENQUEUE of every entry that is in the queue from cycle 0 on, in file order."""
    for entry in program.entries:
        if not written_by_host(plan, entry.index):
            yield enqueue_line(program, plan, entry, 0)


def written_by_host(plan: Plan, index: int) -> bool:
    """Whether the host writes the entry at a position, so that the entry arrives later."""
    return "mmio" in plan.program and bool(plan.program["mmio"]["written"][index])


def enqueue_line(program: Program, plan: Plan, entry: Entry, cycle: int) -> bytes:
    """CMD_ENQUEUE of an entry that is in the queue from that cycle on."""
    fields: dict[str, Any] = {name: value for name, value in entry.meta.items() if name in _GIVEN}
    if isinstance(entry, KvEntry):
        fields["head_id"] = entry.head_id
    jobs = range(entry.index, entry.index + 1) if plan.jobs is None else plan.jobs.span(entry.index)
    first, engine = jobs[0], entry.engine
    fields["cmd_id"], fields["cmd_type"], fields["unit"] = entry.id, entry.opcode, plan.units[first]
    if engine == "dma":
        fields["bytes"] = plan.bytes_of(first)
    elif engine != "control":
        fields["work"] = sum([plan.service(job)["work"] for job in jobs])
    if plan.pe.energy.by_cause:
        fields |= _energy_causes(entry)
    if "mmio" in plan.program:
        fields["position"] = entry.index
    if waits := plan.predecessors[first]:
        rows = plan.rows(program).entries
        fields["deps"] = sorted([rows[other].command_id for other in waits])
    return line("CMD_ENQUEUE", cycle, fields, entry)


def _energy_causes(entry: Entry) -> dict[str, Any]:
    """The energy causes of an entry: the tensor that it moves, the bits of the weights that it multiplies."""
    if isinstance(entry, KvEntry):
        return {"tensor": "kv"}
    if isinstance(entry, TeEntry):
        return {"qbits": entry.qbits_weight}
    return {"tensor": getattr(entry, "tensor_role", None)} if entry.engine == "dma" else {}


REMEDY = "make the checkpoint again with `kbsim step --save --trace`"
DIGITS = 60  # most digits of an energy in the smallest unit
Count = Annotated[int, msgspec.Meta(ge=0, lt=FOREVER)]
Whole = Annotated[str, msgspec.Meta(pattern=rf"^[0-9]{{1,{DIGITS}}}$")]  #: an integer past 64 bits
Column = list[Count]


class Options(msgspec.Struct, forbid_unknown_fields=True):
    """The options with which the trace began."""

    level: str
    window: int
    only: tuple[str, ...]
    cycles: tuple[int, int] | None


class WindowState(msgspec.Struct, forbid_unknown_fields=True):
    """The state of windows: the totals at the end of the last one."""

    totals: tuple[list[Column], list[Column], list[Column]]  #: of DMA engines, other engines, resources
    banks: list[tuple[Column, Column]]  #: of each scratchpad
    energy: tuple[Whole, Whole, Whole]
    spent: tuple[Whole, Whole, Whole, Whole, Whole, Whole]
    saturated: Column
    asleep: list[str]


class TraceState(msgspec.Struct, forbid_unknown_fields=True):
    """All that is saved."""

    options: Options
    records: str  #: of the core that are not written, as base64
    lines: Count
    tokens: list[tuple[Count, Annotated[int, msgspec.Meta(ge=-1, lt=FOREVER)]]]  #: entries left and first start of each group
    edge: Count  #: the next end of a window [cycle]
    counted: Count
    windows: WindowState
    file_bytes: Count | None = None  #: of the trace's file

    def trace_options(self) -> TraceOptions:
        """The options in the form of `TraceOptions`."""
        given = self.options
        return TraceOptions(given.level, given.window, given.only, given.cycles)

    def check_place(self, cycle: int) -> None:
        """InputError if a trace cannot be in this state at this cycle of the run."""
        window = self.options.window
        if self.edge != (cycle // window + 1) * window or self.counted != cycle:
            raise damaged(f"it is of cycle {self.counted} in a window up to {self.edge}, and the run stands at {cycle}")

    def record_bytes(self) -> bytes:
        """The records. InputError if the bytes are not records."""
        try:
            return base64.b64decode(self.records, validate=True)
        except (binascii.Error, ValueError):
            raise damaged("its records are not base64") from None


def damaged(why: str) -> InputError:
    """The error for an invalid state of a trace."""
    return InputError(Problem("checkpoint", f"the state of its trace is damaged: {why}", remedy=REMEDY))


def read_state(data: bytes) -> TraceState:
    """The state of a trace, from the bytes in a checkpoint. InputError if they are not valid."""
    try:
        state = msgspec.json.decode(data, type=TraceState)
        state.trace_options()
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, InputError) as error:
        raise damaged(str(error)[:200]) from None
    return state


def totals_of(name: str, saved: Sequence[Any], now: Any) -> Any:
    """Saved totals as an array of the current shape. InputError if the shape differs, or if a number is above the current
    total.
    """
    if len(saved) != len(now) or any(np.size(row) != np.size(one) for row, one in zip(saved, now, strict=True)):
        raise damaged(f"its totals of {name} are those of another machine")
    found = np.array(saved, dtype=np.int64).reshape(now.shape)
    if (found > now).any():
        raise damaged(f"its totals of {name} are above those of the run")
    return found
