"""The resources that can be freed, with the changes of a machine after which a resource is never a limit.

A PE of a system is described like an NPU, so keys at the top level of an NPU are below `pe` in a system; memories and links
belong to the system.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, cast

from kernbench.analysis.case import Demand, Outcome, Progress, Work
from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import meant
from kernbench.config import NpuConfig, SystemConfig, load_config
from kernbench.config.fields import TERM_LIMIT
from kernbench.config.rules import ONE_MEMBER
from kernbench.config.schema import Dma, Spm
from kernbench.config.section import Section
from kernbench.config.system.dimensions import sip_links
from kernbench_core.numbers import TRANSFER_CHANNELS

LARGEST = TERM_LIMIT - 1  # terms of capacities and rates stay below 2^31 (docs/model/index.md)

Config = NpuConfig | SystemConfig
Changes = dict[str, Any]  #: new values by path in the machine; None removes the key
SRAM = "cube.sram.bytes_per_cycle"  #: the bandwidth of the shared SRAMs of a system
#: The paths of the links of a system.
LINKS = ("system.link", "cube.mesh.link", "cube.hbm.link", "cube.ucie.link", "cube.ucie.router", "cube.m_cpu.link",
         "io.pcie.link", "io.noc", "pe.link")  # fmt: skip


FILLED = ("row_buffer", "controller", "device", "policy")  #: keys of a DRAM that exist only for some allocations


def _free_dma(config: Config, demand: Demand) -> Changes:
    """No transfer waits for a slot, because there are as many slots as transfers."""
    pe, at = config.pe, config.pe_path
    dma: Dma = pe.dma
    transfers = max(1, demand.transfers)
    changes: Changes = {
        f"{at}dma.max_concurrent_transfers": max(transfers, dma.max_concurrent_transfers),
        f"{at}dma.queue_depth_per_master": max(transfers, dma.queue_depth_per_master),
        f"{at}dma.period": 1,
    }
    for name, channel in zip(TRANSFER_CHANNELS, dma.channels, strict=True):
        changes[f"{at}dma.channels.{name}.max_concurrent"] = max(transfers, channel.max_concurrent)
    return changes


def _free_dram(config: Config, demand: Demand) -> Changes:
    """Every flow gets the bytes of one row of banks in each cycle, more than the flow can use, even if all flows share the
    channel."""
    allocation = "shared_bw_v1" if config.allocation in (*ONE_MEMBER, "row_buffer_v2") else config.allocation
    pe, at = config.pe, config.memory_path
    weights = [channel.weight for channel in pe.dma.channels]
    rows = {f"{at}{key}": None for key in FILLED if _at(config, f"{at}{key}") is not None}
    most = _changed(config, {"allocation": allocation, **rows}).channel_weight()
    row = pe.spm.num_banks * pe.spm.bank_width_bytes
    capacity = min(-(-row * most // min(weights)), LARGEST // max(weights))
    capacity = max(capacity, -(-config.memory.capacity // 1))
    rate = {"bus_width_bytes": capacity, "dram_burst_cycles": 1, "peak_bw_bytes_per_cycle": capacity, "period": 1}
    shared = {SRAM: _link_rate(config)} if config.sram_bytes else {}  # the shared SRAMs of a system are memories too
    return {"allocation": allocation, **{f"{at}{key}": value for key, value in rate.items()}, **shared, **rows}


def _free_llc(config: Config, demand: Demand) -> Changes:
    """The last-level cache gives each flow the bytes of one row of banks in each cycle; its hits and its latency do not
    change."""
    if config.cache is None:
        return {}
    row = config.pe.spm.num_banks * config.pe.spm.bank_width_bytes
    weights = [channel.weight for channel in config.pe.dma.channels]
    capacity = min(row * config.cache_weight(), LARGEST // max(weights))
    return {f"{config.cache_path}bw_bytes_per_cycle": max(capacity, -(-config.cache.bw_bytes_per_cycle // 1))}


def _link_rate(config: Config) -> int:
    """The largest bandwidth for which the terms of a share do not overflow."""
    return LARGEST // max(channel.weight for channel in config.pe.dma.channels)


def _free_noc(config: Config, demand: Demand) -> Changes:
    """The DMA engines are next to the DRAM; links that cannot be removed get no length, no latency and the largest
    bandwidth."""
    changes: Changes = {"noc": None} | ({"llc.at": None} if _at(config, "llc.at") is not None else {})
    if _at(config, "cube.mesh") is not None:
        changes["cube.mesh.router_cycles"] = 0
    own = sip_links(cast("SystemConfig", config)) if _at(config, "system") is not None else {}
    for link in (one for one in dict.fromkeys((*LINKS, *own)) if _at(config, one) is not None):
        slices = config.slices if link == "cube.hbm.link" else 1  # slices at one router share a link
        changes |= {f"{link}.bytes_per_cycle": _link_rate(config) // slices, f"{link}.cycles": 0, f"{link}.mm": 0}
    return changes


def _free_banks(config: Config, demand: Demand) -> Changes:
    """There are as many ports as possible requesters: flows and engines of the PE, and transfers of other PEs."""
    pe, at = config.pe, config.pe_path
    each = config.slice_channels + (config.cache is not None)
    flows = pe.dma.engines * pe.dma.max_concurrent_transfers * each + demand.pairs
    ports = min(LARGEST, flows + pe.te.engines + pe.ve.engines)
    spm: Spm = pe.spm
    if spm.ports is not None:
        return {f"{at}spm.ports": max(ports, spm.ports)}
    return {
        f"{at}spm.read_ports": max(ports, spm.read_ports or 1),
        f"{at}spm.write_ports": max(ports, spm.write_ports or 1),
    }


def _free_te(config: Config, demand: Demand) -> Changes:
    """The body of a job takes one cycle."""
    pe, at = config.pe, config.pe_path
    rate = {"timing": "macs", "macs_per_cycle": LARGEST, "f_w": {}, "f_a": {}, "period": 1}
    systolic = dict.fromkeys(("rows", "cols", "dataflow"))
    return {f"{at}te.{key}": value for key, value in {**rate, **systolic, **_reset(pe.te)}.items()}


def _free_ve(config: Config, demand: Demand) -> Changes:
    """A pass over the elements takes one cycle; the depth and the number of the reduction trees do not change."""
    pe, at = config.pe, config.pe_path
    rate = {"lanes": LARGEST, "ops_per_lane": 1, "f_a": {}, "reduction_pipeline": 0, "sfu": {}, "period": 1}
    changes = {**rate, **_reset(pe.ve)}
    return {f"{at}ve.{key}": value for key, value in changes.items() if key != "reduction_trees"}


def _reset(section: Section) -> Changes:
    """The defaults of keys that slow an engine down (fill, operand rate, instructions, clock), for those keys that have other
    values."""
    fields = {name: type(section).model_fields[name].default for name in sorted(section.younger)}
    return {name: default for name, default in fields.items() if getattr(section, name) != default}


#: The resources in the order in which they are freed; the demand of DRAM and banks depends on the number of transfers.
RESOURCES: dict[str, Callable[[Config, Demand], Changes]] = {
    "dma": _free_dma,
    "noc": _free_noc,
    "dram": _free_dram,
    "llc": _free_llc,
    "banks": _free_banks,
    "te": _free_te,
    "ve": _free_ve,
}
#: Synonyms of the resources.
SYNONYMS = {"cache": "llc", "l2": "llc", "l3": "llc",
            "hbm": "dram", "memory": "dram", "mem": "dram", "bandwidth": "dram", "ddr": "dram", "mesh": "noc", "links": "noc",
            "network": "noc", "spm": "banks", "scratchpad": "banks", "sram": "banks", "tensor": "te", "gemm": "te", "mac": "te",
            "vector": "ve", "simd": "ve", "queue": "dma", "queues": "dma"}  # fmt: skip

#: The keys to change first for each resource: keys of a PE, of its memory, or of those links that the machine has.
LEVERS: dict[str, tuple[str, ...]] = {
    "dma": ("{pe}dma.max_concurrent_transfers", "{pe}dma.engines"),
    "noc": ("noc.link_bytes_per_cycle", "cube.mesh.link.bytes_per_cycle", "cube.hbm.link.bytes_per_cycle"),
    "dram": ("{memory}channels", "{memory}device", "{memory}policy", "{memory}peak_bw_bytes_per_cycle"),
    "llc": ("{cache}bw_bytes_per_cycle",),
    "banks": ("{pe}spm.num_banks", "{pe}spm.read_ports", "{pe}spm.ports"),
    "te": ("{pe}te.engines", "{pe}te.macs_per_cycle", "{pe}te.rows"),
    "ve": ("{pe}ve.engines", "{pe}ve.lanes"),
}
WORTH = 0.01  #: share of the run that a resource must save to be recommended as the first change


@dataclass(frozen=True, slots=True)
class Freed:
    """A run with one or more freed resources."""

    resources: tuple[str, ...]
    changes: Changes  #: empty if the machine does not have the resource, or if the resource has no limit
    status: str
    cycles: int
    saved: int | None  #: [cycle] negative if the run became slower; None if a run is not done


@dataclass(frozen=True, slots=True)
class WhatIf:
    """A run on the unchanged machine, a run for each freed resource, and a run with all of them freed."""

    base: Outcome
    each: tuple[Freed, ...]
    all: Freed

    @property
    def best(self) -> Freed:
        """The resource that saves most cycles when it alone is freed."""
        return max(self.each, key=lambda one: one.saved or 0)

    @property
    def levers(self) -> tuple[str, ...]:
        """Those keys of the machine that decide the limit of `best`."""
        config: Any = self.base.config
        paths = {"pe": config.pe_path, "memory": config.memory_path, "cache": config.cache_path}
        keys = [key.format(**paths) for key in LEVERS[self.best.resources[0]]]
        bus = config.memory.controller is not None  # the clock and the burst decide the bandwidth, and the peak has no effect
        without = f"{config.memory_path}peak_bw_bytes_per_cycle" if bus else ""
        return tuple(key for key in keys if key != without and _at(config, key) is not None)

    @property
    def pays(self) -> bool:
        """Whether one resource alone saves enough to be recommended first."""
        return self.base.status == "done" and (self.best.saved or 0) >= max(1, WORTH * self.base.cycles)

    @property
    def sentence(self) -> str:
        """The first change to make, in one sentence."""
        cycles, best, all_ = self.base.cycles, self.best, self.all
        if self.base.status != "done":
            return f"the run as it is ends as {self.base.status}, so there is nothing to compare with"
        if self.pays:
            saved = f"{best.saved:,} of {cycles:,} cycles ({(best.saved or 0) / cycles:.0%})"
            return f"change {best.resources[0]} first ({', '.join(self.levers)}): without its limit the run takes {saved} less"
        if (all_.saved or 0) >= max(1, WORTH * cycles):
            saved = f"{all_.saved:,} of {cycles:,} cycles ({(all_.saved or 0) / cycles:.0%})"
            return f"no resource alone saves 1% of {cycles:,} cycles, all of them together save {saved}: change several"
        return f"no limit costs 1% of {cycles:,} cycles: change the program, not the machine"

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        base = self.base
        return {
            "program": base.work.target if len(base.runs) > 1 else base.runs[0].result.program,
            "machine": base.machine,
            "status": base.status,
            "cycles": base.cycles,
            "t_ns": base.t_ns,
            "sentence": self.sentence,
            "first": {"resource": self.best.resources[0], "keys": list(self.levers)} if self.pays else None,
            "freed": [_plain(one, base.cycles) for one in self.each],
            "all": _plain(self.all, base.cycles),
        }


def _plain(one: Freed, cycles: int) -> dict[str, Any]:
    share = None if one.saved is None else one.saved / cycles if cycles else 0.0
    head = {"resources": list(one.resources), "status": one.status, "cycles": one.cycles, "saved": one.saved}
    return {**head, "share": share, "changes": one.changes}


def what_if(work: Work, resources: Sequence[str] = (), progress: Progress | None = None) -> WhatIf:
    """Run a work on its machine, then with each of `resources` freed (default: all resources that the machine may have), then
    with all of them freed.

    InputError for an unknown resource.
    """
    wanted = tuple(dict.fromkeys(resources))
    for name in wanted:
        if name not in RESOURCES:
            if name.lower() == "all":
                raise InputError(Problem("whatif", "it must be names of resources", "free", name, "leave it out for all"))
            remedy = meant(SYNONYMS.get(name.lower(), name), RESOURCES)
            raise InputError(Problem("whatif", f"it must be one of {', '.join(RESOURCES)}", "free", name, remedy))
    base = work.run(progress=progress)
    config: Any = base.config
    wanted = wanted or tuple(name for name in RESOURCES if name != "llc" or config.cache is not None)
    each = tuple(_freed(base, (name,), progress) for name in wanted)
    if len(wanted) == 1:
        return WhatIf(base, each, each[0])
    return WhatIf(base, each, _freed(base, wanted, progress))


def free(config: Config, resources: Sequence[str], demand: Demand) -> tuple[Config, Changes]:
    """The machine without the limits of these resources for this demand, and the keys that were changed."""
    changes: Changes = {}
    changed: Config = config
    for name in (name for name in RESOURCES if name in resources):
        some = {path: value for path, value in RESOURCES[name](changed, demand).items() if _at(changed, path) != value}
        try:
            changed = _changed(changed, some)
        except InputError as error:
            rule = f"the machine without limits of {name} is not valid: {error.problems[0]}"
            raise InputError(Problem("whatif", rule, remedy="leave it out of --free")) from None
        changes.update(some)
    return changed, changes


def _freed(base: Outcome, names: tuple[str, ...], progress: Progress | None) -> Freed:
    changed, changes = free(base.config, names, base.demand)  # type: ignore[arg-type]  # one of the two kinds
    result = base.work.run(changed, progress) if changes else base
    saved = base.cycles - result.cycles if (base.status, result.status) == ("done", "done") else None
    return Freed(names, changes, result.status, result.cycles, saved)


def _changed(config: Config, changes: Changes) -> Config:
    """The machine with changed values."""
    data = config.to_dict()
    for path, value in changes.items():
        _set(data, path.split("."), value)
    changed: Config = load_config(data, allow_code=config.allowed_code)
    return changed


def _at(config: Config, path: str) -> Any:
    value: Any = config.to_dict()
    for step in path.split("."):
        if isinstance(value, list):
            value = value[int(step)]
        else:
            value = value.get(step) if isinstance(value, dict) else None
    return value


def _set(data: Any, path: list[str], value: Any) -> None:
    for step in path[:-1]:
        data = data[int(step)] if isinstance(data, list) else data[step]
    if value is None:
        data.pop(path[-1], None)
    else:
        data[path[-1]] = value
