"""One target on several machines: which machine is faster, and which causes explain the difference in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, cast

from kernbench.analysis.case import Case, Outcome, Work
from kernbench.common.errors import InputError, Problem
from kernbench.config import MachineConfig, NpuConfig, SystemConfig
from kernbench.sim_engine.engine import KernelFailed
from kernbench.sim_engine.machine import Machine

LEAST = 0.02  #: differences of a cause below this share of the longer run are not reported
#: The sections of a machine that decide a cause, as paths of one NPU; `settings_of` translates the paths of a system to these.
SECTIONS = {
    "DRAM bandwidth": ("dram", "noc.dram"),
    "link bandwidth": ("noc",),
    "bandwidth": ("dram", "noc"),
    "TE work": ("te",),
    "VE work": ("ve",),
    "bank conflicts": ("spm",),
    "head latency": ("dram.t_setup_cycles", "noc", "dram"),
    "way through routers": ("noc",),
    "congestion of routers": ("noc",),
    "whole lines": ("dram",),
    "queues": ("dma",),
    "engine periods": ("dma.period", "te.period", "ve.period"),
    "issue width": ("control",),
    "launching and issuing by kernels": ("pe_cpu", "control"),
}
SETTING = ("path", "first", "here")  #: the JSON keys of a setting that differs
_NO_TIME = ("capacity_bytes", "kind")  #: keys that do not change the number of cycles
#: Sections of a PE of a system that are at the top level of one NPU.
_PLACES = (("pe.", ""), ("cube.hbm.", "dram."), ("cube.mesh.", "noc."))


@dataclass(frozen=True, slots=True)
class Change:
    """Time [ns] that a cause takes more (or less) on one machine than on another."""

    cause: str
    ns: float


@dataclass(frozen=True, slots=True)
class Compared:
    """A target on several machines, by the names that the caller gave to the machines."""

    target: str
    outcomes: Mapping[str, Outcome]

    @property
    def first(self) -> str:
        """The machine that the others are compared with."""
        return next(iter(self.outcomes))

    @property
    def done(self) -> list[str]:
        """The machines on which the run is done."""
        return [name for name, one in self.outcomes.items() if one.status == "done"]

    @property
    def fastest(self) -> str:
        """The machine with the least time among those on which the run is done; the first machine if there is none."""
        return min(self.done, key=lambda name: self.outcomes[name].t_ns, default=self.first)

    @property
    def slowest(self) -> str:
        """The machine with the most time among those on which the run is done; the first machine if there is none."""
        return max(self.done, key=lambda name: self.outcomes[name].t_ns, default=self.first)

    def speedup(self, name: str) -> float | None:
        """The time on the first machine over the time on this one; None if one of them is not done."""
        ran, first = self.outcomes[name], self.outcomes[self.first]
        if ran.status != "done" or first.status != "done" or not ran.t_ns:
            return None
        return first.t_ns / ran.t_ns

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        if len(self.done) < 2:
            return f"{self.target}: it is done on {f'{self.done[0]} alone' if self.done else 'none of the machines'}"
        fast, slow = self.outcomes[self.fastest], self.outcomes[self.slowest]
        if not fast.t_ns or fast.t_ns == slow.t_ns:
            return f"{self.target}: all machines take the same time"
        return f"{self.target}: {self.fastest} is {slow.t_ns / fast.t_ns:.3g} times as fast as {self.slowest}"

    def times(self, name: str) -> dict[str, float]:
        """[ns] The time of each cause on a machine; the times add up to the machine's total time."""
        ran = self.outcomes[name]
        scale = ran.t_ns / ran.cycles if ran.cycles else 0.0
        return {cause.name: cause.cycles * scale for cause in ran.causes()}

    def changes(self, name: str) -> list[Change]:
        """The causes that take more or less time than on the first machine, the largest change first; small changes are left
        out.
        """
        before, after = self.times(self.first), self.times(name)
        whole = max(self.outcomes[name].t_ns, self.outcomes[self.first].t_ns)
        found = [Change(cause, after.get(cause, 0.0) - before.get(cause, 0.0)) for cause in {**before, **after}]
        return sorted((one for one in found if abs(one.ns) >= LEAST * whole), key=lambda one: -abs(one.ns))

    def settings(self, name: str) -> Iterator[tuple[str, Any, Any]]:
        """Keys that differ from the first machine and decide the causes that changed: path, value of the first machine, value
        of this machine."""
        before, after = settings_of(self.outcomes[self.first].config), settings_of(self.outcomes[name].config)
        sections = [section for one in self.changes(name) for section in SECTIONS.get(one.cause, ())]
        changed: dict[str, tuple[Any, Any]] = {}
        for section in dict.fromkeys(["freq_ghz", *sections]):
            for path in before:
                inside = f"{path}.".startswith(f"{section}.") and not path.endswith(_NO_TIME)
                if inside and path in after and before[path] != after[path]:
                    changed.setdefault(path, (before[path], after[path]))
        yield from ((path, *values) for path, values in changed.items())

    def to_dict(self, *, why: bool = True) -> dict[str, Any]:
        """Plain JSON; without `why`, no run is repeated, and `causes`, `changes` and `settings` are null."""
        return {
            "target": self.target,
            "sentence": self.sentence,
            "fastest": self.fastest if self.done else None,
            "machines": [self._plain(name, why=why) for name in self.outcomes],
        }

    def _plain(self, name: str, *, why: bool) -> dict[str, Any]:
        ran = self.outcomes[name]
        asked = why and ran.status == "done" == self.outcomes[self.first].status
        return {
            "name": name,
            "machine": ran.machine,
            "status": ran.status,
            "speedup": self.speedup(name),
            **ran.metrics,
            "bounds": ran.bounds,
            "causes": [{"cause": cause, "t_ns": ns} for cause, ns in self.times(name).items()] if asked else None,
            "changes": [{"cause": one.cause, "t_ns": one.ns} for one in self.changes(name)] if asked else None,
            "router_links": [link.plain for link in router_links(ran)],
            "settings": [dict(zip(SETTING, one, strict=True)) for one in self.settings(name)] if asked else None,
        }


WAITS = ("no_credit", "no_channel", "lost")  #: counters of a link between routers: clocks in which a flit waited


@dataclass(frozen=True, slots=True)
class RouterLink:
    """A link between routers over a whole run."""

    name: str
    flits: int
    #: [cycle] in the order of WAITS: for a buffer behind the link, for a virtual channel, for the link itself
    waits: tuple[int, int, int]

    @property
    def waited(self) -> int:
        """[cycle] The sum of all waits."""
        return sum(self.waits)

    @property
    def plain(self) -> dict[str, Any]:
        """The values for JSON."""
        return {"link": self.name, "flits": self.flits, **dict(zip(WAITS, self.waits, strict=True))}


def router_links(ran: Outcome) -> list[RouterLink]:
    """The links over which flits moved, those with most waits first."""
    found: dict[str, Counter[str]] = {}
    for run in ran.runs:
        for name, counters in run.result.counters.items():
            if "flits" in counters:
                found.setdefault(name, Counter()).update({key: counters[key] * run.part.times for key in ("flits", *WAITS)})
    links = [RouterLink(name, one["flits"], (one["no_credit"], one["no_channel"], one["lost"])) for name, one in found.items()]
    return sorted(links, key=lambda link: (-link.waited, -link.flits, link.name))


def with_network(machine: MachineConfig) -> dict[str, dict[str, str]]:
    """The settings that make links fluid, and the settings that move flits over the routers. InputError without a mesh."""
    config = cast("NpuConfig | SystemConfig", machine)  # there are no other kinds of machines
    if config.network is None:
        remedy = "add the section noc, or take a machine that has one (npu_server, single_cube)"
        raise InputError(Problem(config.source, "it has no mesh, so no transfer moves over routers", "noc", None, remedy))
    return {model: {f"{config.network_path}model": model} for model in ("fluid", "flit")}


def settings_of(config: MachineConfig) -> dict[str, Any]:
    """The values of a machine by path, those of a system under the names that one NPU has for them."""
    found: dict[str, Any] = {}
    for path, value in _leaves("", config.to_dict()):
        name = next((to + path.removeprefix(of) for of, to in _PLACES if path.startswith(of)), path)
        found.setdefault(name, value)
    return found


def _leaves(path: str, value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for key, one in value.items():
            yield from _leaves(f"{path}.{key}" if path else str(key), one)
    elif not isinstance(value, list):
        yield path, value


def compare_machines(
    case: Case, machines: Mapping[str, MachineConfig], progress: Callable[[Machine], None] | None = None
) -> Compared:
    """Run a target on each machine. InputError for fewer than two machines, and if one of them cannot run the target."""
    if len(machines) < 2:
        raise InputError(Problem("compare", "a comparison needs at least two machines", "config", list(machines)))
    # a machine that cannot run the target is refused before the first run
    works = {name: case.on(config) for name, config in machines.items()}
    return Compared(case.name, {name: _run_on(name, work, progress) for name, work in works.items()})


def _run_on(name: str, work: Work, progress: Callable[[Machine], None] | None) -> Outcome:
    """Run the target on the machine `name`. If a kernel fails, the error names the machine."""
    try:
        return work.run(progress=progress)
    except KernelFailed as error:
        raise KernelFailed({**error.failure, "message": f"{name}: {error}"}, error.__cause__) from error
