"""The reference, run with a look at what a program reaches: which requests, shares and endings it really had."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kernbench.config import load_config
from kernbench.config.system import SystemConfig
from tests.oracles import ref_jobs
from tests.oracles.ref_flit_transfers import FlitSimulation, FlitSystem
from tests.oracles.ref_machine import completed
from tests.oracles.ref_system import SystemSimulation
from tests.oracles.ref_system_parts import sections
from tests.oracles.reference import Simulation
from tests.system_roads import PlainRoads, mesh_of

System = tuple[dict[str, Any], dict[str, Any]]


@dataclass
class Reached:
    """What a run of the reference reached, for a person's eyes and for tests of what strategies draw."""

    banks: int  #: of a scratchpad
    odd_width: bool  #: the width of a bank is not a power of two
    scratchpads: int = 1
    status: str = ""
    cycles: int = 0
    denials: int = 0  #: requests denied by a bank
    pressed: int = 0  #: cycles of flows that were out for backpressure
    both_ways: int = 0  #: accesses of one bank by a request that reads and writes it
    unequal_above: int = 0  #: the largest weight of a flow that shared a resource with one of another weight
    cut_lines: int = 0  #: requests for less than whole lines
    channels_used: int = 0  #: DRAM channels that moved bytes
    waiting: int = 0  #: the most flows that waited in the lines of channels at a time
    bursts: int = 0
    hits: int = 0  #: lookups of a last-level cache,
    write_backs: int = 0  #: and dirty lines that it evicted
    flits: int = 0  #: that left over links between routers


class _Watching(Simulation):
    """A simulation that fills in a `Reached` as it goes."""

    seen: Reached

    def _share(self, cycle: int) -> None:
        super()._share(cycle)
        self.seen.waiting = max(self.seen.waiting, len(self._joined(cycle)) - len(self.members))
        weights: dict[str, set[int]] = {}
        for flow in self.members:
            for name in flow.route:
                weights.setdefault(name, set()).add(int(flow.weight))
        unequal = [max(found) for found in weights.values() if len(found) > 1]
        self.seen.unequal_above = max([self.seen.unequal_above, *unequal])

    def _bank(self, cycle: int) -> None:
        self.seen.pressed += sum(flow.out for flow in self._flows())
        fresh = [flow for flow in self._flows() if flow.request is None]
        super()._bank(cycle)
        self.seen.both_ways += sum(one.bank in one.request.reads & one.request.writes for one in self.banks.accesses)
        self.seen.cut_lines += sum(flow.request is not None and flow.request_bytes % self.spm.width > 0 for flow in fresh)


class _Pes(SystemSimulation, _Watching):
    pass


class _Flits(FlitSimulation, _Watching):
    pass


class _FlitsOfPes(FlitSystem, _Watching):
    pass


def is_system(machine: dict[str, Any]) -> bool:
    """Whether a dict is of kernbench/system/1."""
    return str(machine.get("schema", "")).startswith("kernbench/system/")


def has_routers(machine: dict[str, Any]) -> bool:
    """Whether transfers move as flits: a run of such a machine has no snapshots."""
    mesh = machine["cube"].get("mesh") if is_system(machine) else machine.get("noc")
    return (mesh or {}).get("model") == "flit"


def watched(system: System) -> tuple[dict[str, Any], Reached]:
    """What the reference says of a run, with `overlaps` of systems, and what the run reached."""
    machine, program = system
    spans: list[list[int]] | None = None
    if machine.get("control", {}).get("micro_scheduler") is not None:
        program, spans = ref_jobs.divided(machine, program, sections(machine)["spm"] if is_system(machine) else None)
        machine = ref_jobs.without(machine)
    if is_system(machine):
        config = load_config(machine)
        assert isinstance(config, SystemConfig)
        roads = PlainRoads(config)
        run: _Watching = (
            _FlitsOfPes(machine, program, roads, *mesh_of(config)) if has_routers(machine) else _Pes(machine, program, roads)
        )
    else:
        run = (_Flits if has_routers(machine) else _Watching)(completed(machine), program)
    width = run.spm.width
    run.seen = seen = Reached(run.spm.banks, bool(width & (width - 1)), len(run.banks.requests) // run.spm.banks)
    want = run.run()
    if isinstance(run, SystemSimulation):
        want["overlaps"] = sorted(run.overlaps)
    if spans is not None:
        want = ref_jobs.of_commands(want, system[1], spans)
    counters = want["counters"]
    seen.status, seen.cycles, seen.denials = want["status"], want["cycles"], sum(run.banks.denials)
    channels = [one for name, one in counters.items() if "dram.ch" in name or (".hbm_ctrl.ch" in name and "-" not in name)]
    seen.channels_used = sum(one["bytes"] > 0 for one in channels)
    caches = [one for one in counters.values() if "hits" in one]
    seen.hits, seen.write_backs = sum(one["hits"] for one in caches), sum(one["write_backs"] for one in caches)
    seen.bursts = sum(one.get("bursts", 0) for one in channels)
    seen.flits = sum(one.get("flits", 0) for one in counters.values())
    return want, seen
