"""What a run would take if a resource never limited it: an automatic roofline.

Each resource is freed by a change of the machine's description, so a freed machine is a machine like any other.
`docs/reference/whatif.md` says for each what is changed, and what stays.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kernbench.cmdq import Program
from kernbench.common.errors import InputError, Problem
from kernbench.config import NpuConfig, load_config
from kernbench.config.fields import TERM_LIMIT
from kernbench.config.weights import dram_weight
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.result import Result

LARGEST = TERM_LIMIT - 1  # terms of capacities and rates stay below 2^31 (MODEL, introduction)

Changes = dict[str, Any]  #: path in the machine: its new value; None takes the key out
Progress = Callable[[Machine], None]


@dataclass(frozen=True, slots=True)
class Freed:
    """A run with something freed."""

    resources: tuple[str, ...]
    changes: Changes  #: none: the machine has no such thing, or it is without limit already
    status: str
    cycles: int
    saved: int | None  #: cycles of the run as it is less these; negative where it got slower; None: one is not done


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A run as it is, with each resource freed, and with all of them freed."""

    result: Result
    each: tuple[Freed, ...]
    all: Freed


def what_if(program: Program, config: NpuConfig, resources: Sequence[str] = (), progress: Progress | None = None) -> WhatIf:
    """Run a program as the machine is, then with each of `resources` freed (all six by default), then with all of these.

    InputError for an unknown resource.
    """
    wanted = tuple(dict.fromkeys(resources)) or tuple(RESOURCES)
    for name in wanted:
        if name not in RESOURCES:
            raise InputError(Problem("whatif", f"it must be one of {', '.join(RESOURCES)}", "free", name))
    base = _run(program, config, progress)
    each = tuple(_freed(program, config, (name,), base, progress) for name in wanted)
    if len(wanted) == 1:
        return WhatIf(base, each, each[0])
    return WhatIf(base, each, _freed(program, config, wanted, base, progress))


def free(config: NpuConfig, resources: Sequence[str], program: Program) -> tuple[NpuConfig, Changes]:
    """The machine with these resources freed for a program, and what that changed."""
    changes: Changes = {}
    changed = config
    for name in (name for name in RESOURCES if name in resources):
        some = {path: value for path, value in RESOURCES[name](changed, program).items() if _at(changed, path) != value}
        data = changed.to_dict()
        for path, value in some.items():
            _set(data, path.split("."), value)
        try:
            changed = load_config(data)
        except InputError as error:
            rule = f"the machine without limits of {name} is not valid: {error.problems[0]}"
            raise InputError(Problem("whatif", rule, remedy="leave it out of --free")) from None
        changes.update(some)
    return changed, changes


def _freed(program: Program, config: NpuConfig, names: tuple[str, ...], base: Result, progress: Progress | None) -> Freed:
    changed, changes = free(config, names, program)
    result = _run(program, changed, progress) if changes else base
    saved = base.cycles - result.cycles if (base.status, result.status) == ("done", "done") else None
    return Freed(names, changes, result.status, result.cycles, saved)


def _run(program: Program, config: NpuConfig, progress: Progress | None) -> Result:
    machine = Machine(config, program)
    machine.run(progress=progress)
    return machine.result()


def _at(config: NpuConfig, path: str) -> Any:
    value: Any = config.to_dict()
    for step in path.split("."):
        value = value.get(step) if isinstance(value, dict) else None
    return value


def _set(data: dict[str, Any], path: list[str], value: Any) -> None:
    for step in path[:-1]:
        data = data[step]
    if value is None:
        data.pop(path[-1], None)
    else:
        data[path[-1]] = value


def _free_dma(config: NpuConfig, program: Program) -> Changes:
    """No transfer waits for a slot: as many at a time as the program has."""
    transfers = max(1, sum(entry.engine == "dma" for entry in program.entries))
    names = ("act_weight", "kv_load", "kv_store")
    changes: Changes = {
        "dma.max_concurrent_transfers": max(transfers, config.dma.max_concurrent_transfers),
        "dma.queue_depth_per_master": max(transfers, config.dma.queue_depth_per_master),
        "dma.period": 1,
    }
    for name, channel in zip(names, config.dma.channels, strict=True):
        changes[f"dma.channels.{name}.max_concurrent"] = max(transfers, channel.max_concurrent)
    return changes


def _free_dram(config: NpuConfig, program: Program) -> Changes:
    """Every flow gets a row of banks a cycle, more than it can use, however many share the channel."""
    allocation = "shared_bw_v1" if config.allocation == "fifo_v1" else config.allocation
    shared = load_config({**config.to_dict(), "allocation": allocation})
    weights = [channel.weight for channel in config.dma.channels]
    row = config.spm.num_banks * config.spm.bank_width_bytes
    capacity = min(-(-row * dram_weight(shared) // min(weights)), LARGEST // max(weights))
    capacity = max(capacity, -(-config.dram.capacity // 1))
    return {
        "allocation": allocation,
        "dram.bus_width_bytes": capacity,
        "dram.dram_burst_cycles": 1,
        "dram.peak_bw_bytes_per_cycle": capacity,
        "dram.period": 1,
    }


def _free_noc(config: NpuConfig, program: Program) -> Changes:
    """The DMA engines sit at the DRAM."""
    return {"noc": None}


def _free_banks(config: NpuConfig, program: Program) -> Changes:
    """As many ports as there can be requesters."""
    dma = config.dma
    flows = dma.engines * dma.max_concurrent_transfers * config.dram.channels
    ports = min(LARGEST, flows + config.te.engines + config.ve.engines)
    spm = config.spm
    if spm.ports is not None:
        return {"spm.ports": max(ports, spm.ports)}
    return {
        "spm.read_ports": max(ports, spm.read_ports or 1),
        "spm.write_ports": max(ports, spm.write_ports or 1),
    }


def _free_te(config: NpuConfig, program: Program) -> Changes:
    """The body of a job takes a cycle."""
    systolic = {f"te.{key}": None for key in ("rows", "cols", "dataflow")}
    rate = {"te.timing": "macs", "te.macs_per_cycle": LARGEST, "te.f_w": {}, "te.f_a": {}}
    return {**rate, "te.period": 1, **systolic}


def _free_ve(config: NpuConfig, program: Program) -> Changes:
    """A pass over the elements takes a cycle; the depth of the reduction tree stays."""
    rate = {"ve.lanes": LARGEST, "ve.ops_per_lane": 1, "ve.f_a": {}}
    return {**rate, "ve.reduction_pipeline": 0, "ve.sfu": {}, "ve.period": 1}


#: What can be freed, in the order in which it is when several are: how much DRAM and banks need depends on the transfers.
RESOURCES: dict[str, Callable[[NpuConfig, Program], Changes]] = {
    "dma": _free_dma,
    "noc": _free_noc,
    "dram": _free_dram,
    "banks": _free_banks,
    "te": _free_te,
    "ve": _free_ve,
}
