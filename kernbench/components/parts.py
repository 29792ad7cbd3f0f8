"""The passive component at each node of a system: the built-in one, or one of the class that `components` names."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.components.builtin.hbm_ctrl import HbmCtrl
from kernbench.components.builtin.io_cpu import IoCpu
from kernbench.components.builtin.m_cpu import MCpu
from kernbench.components.builtin.pcie_ep import PcieEp
from kernbench.components.builtin.pe_cpu import PeCpu
from kernbench.components.builtin.pe_fetch_store import PeFetchStore
from kernbench.components.builtin.pe_ipcq import PeIpcq
from kernbench.components.builtin.pe_scheduler import PeScheduler
from kernbench.components.builtin.sram import Sram
from kernbench.components.passive import MemoryPart, Passage, PassivePart, What
from kernbench.components.registry import find_class
from kernbench.config import NpuConfig, SystemConfig
from kernbench.config.rules import rate_rule
from kernbench.config.system.parts import BUILTIN
from kernbench.config.system.rules import most_flow_weight
from kernbench.topology.graph import Edge, Topology

#: The built-in rules; a kind without a rule has only the latency and bandwidth of its links.
RULES: dict[str, type[PassivePart]] = {
    naming.HBM: HbmCtrl,
    naming.SRAM: Sram,
    naming.M_CPU: MCpu,
    naming.IO_CPU: IoCpu,
    naming.PCIE_EP: PcieEp,
    naming.IO_NOC: PassivePart,
    naming.SWITCH: PassivePart,
    naming.ROUTER: PassivePart,
    naming.UCIE: PassivePart,
    naming.PE_TCM: PassivePart,
}
#: The base class that a replacement must have; by default PassivePart.
BASES: dict[str, type[PassivePart]] = {naming.HBM: HbmCtrl, naming.SRAM: MemoryPart}
#: Kinds that cannot be replaced, with the reason.
FIXED = {
    naming.HOST: "it is the program that launches kernels",
}
KERNEL_KINDS = (naming.PE_CPU, naming.PE_SCHEDULER, naming.PE_FETCH_STORE, naming.PE_IPCQ)  #: kernel_parts.py handles them


def passive_class(config: NpuConfig | SystemConfig, kind: str) -> type[PassivePart] | None:
    """The passive component that `components` names for a kind of node; None if there is none, or if it takes jobs.

    InputError if the kind cannot be replaced, or its class cannot be loaded or is not a passive component where one is
    required.
    """
    spec = config.components.get(kind)
    if spec is None or spec.impl == BUILTIN:
        return None
    where = _where(config, kind)
    if kind in FIXED:
        can = ", ".join(dict.fromkeys((*naming.ENGINES, *KERNEL_KINDS, *RULES)))
        raise InputError(Problem(where, f"{FIXED[kind]}; what can be replaced is {can}", "impl", spec.impl))
    if kind not in RULES:
        return None
    found = find_class(spec.impl, where, allow_code=config.allowed_code)
    base = BASES.get(kind, PassivePart)
    if issubclass(found, base):
        return found
    if kind in naming.ENGINES:
        return None
    rule = f"{kind} runs no jobs: its class must be derived from {base.__name__}"
    raise InputError(Problem(where, rule, "impl", spec.impl, "see docs/reference/components.md"))


class Given(NamedTuple):
    """A passive component that a machine's file names for a kind of node."""

    found: type[PassivePart]
    spec: Any  #: its keys in addition to `impl`
    impl: str
    where: str  #: for errors


def given_parts(config: NpuConfig | SystemConfig) -> dict[str, Given]:
    """The passive components of a machine, by kind. InputError in the same cases as `passive_class`, and if a class does not
    accept its keys."""
    out = {}
    for kind, given in config.components.items():
        found = passive_class(config, kind)
        if found is None:
            continue
        try:
            out[kind] = Given(found, found.Spec(**given.spec), given.impl, _where(config, kind))
        except (TypeError, ValueError) as error:
            rule = f"{given.impl} does not take these parameters: {error}"
            raise InputError(Problem(_where(config, kind), rule, "spec", given.spec)) from error
    return out


def _where(config: NpuConfig | SystemConfig, kind: str) -> str:
    return f"{config.where(f'components.{kind}.impl', 'components')}: components.{kind}"


class Parts:
    """The passive components of one system, each created for the first route that passes it."""

    def __init__(self, config: SystemConfig, topology: Topology) -> None:
        self._config = config
        self._kind = {node.id: node.kind for node in topology.nodes}
        self._given = given_parts(config)
        rules = {**RULES, **{kind: given.found for kind, given in self._given.items()}}
        #: kinds whose components add cycles or set bandwidths of links
        self._costly = {kind for kind, rule in rules.items() if rule.cycles is not PassivePart.cycles}
        self._wide = {kind for kind, rule in rules.items() if rule.bytes_per_cycle is not PassivePart.bytes_per_cycle}
        self._rules = rules
        self._parts: dict[str, PassivePart] = {}

    def at(self, node: str) -> PassivePart:
        """The component of a node that has one."""
        if node not in self._parts:
            kind = self._kind[node]
            given = self._given.get(kind)
            self._parts[node] = self._rules[kind](node, self._config, None if given is None else given.spec)
        return self._parts[node]

    def setup_cycles(self, memory: str) -> int:
        """[cycle] The set-up time of a memory with DRAM addresses."""
        part = self.at(memory)
        assert isinstance(part, MemoryPart)
        return self._whole(memory, "setup_cycles", part.setup_cycles())

    def channel_rate(self, hbm: str) -> Fraction:
        """[byte/cycle] The bandwidth of a channel of a stack."""
        part = self.at(hbm)
        assert isinstance(part, HbmCtrl)
        return self._rate(hbm, "channel_bytes_per_cycle", part.channel_bytes_per_cycle())

    def cycles(self, what: What, nodes: Sequence[str]) -> int:
        """The sum of the cycles of the components of a route; `nodes` from source to target."""
        total = 0
        around = [None, *nodes, None]
        for before, node, after in zip(around, nodes, around[2:], strict=False):
            if self._kind[node] in self._costly:
                passage = Passage(what, nodes[0], nodes[-1], before, after)
                total += self._whole(node, "cycles", self.at(node).cycles(passage))
        return total

    def _whole(self, node: str, method: str, value: Any) -> int:
        """The cycles that a component returns. InputError if they are not valid."""
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**31:
            return value
        raise self._wrong(node, method, value, "it must be an integer from 0 to below 2^31")

    def rate(self, edge: Edge) -> Fraction:
        """[byte/cycle] The bandwidth of an edge, as set by the components at its ends."""
        for node in (edge.source, edge.target):
            if self._kind[node] in self._wide:
                edge = replace(edge, bytes_per_cycle=self._rate(node, "bytes_per_cycle", self.at(node).bytes_per_cycle(edge)))
        assert edge.bytes_per_cycle is not None
        return edge.bytes_per_cycle

    def _rate(self, node: str, method: str, value: Any) -> Fraction:
        """The bandwidth that a component returns. InputError if it is not valid, or if the terms of its shares would be too
        large."""
        if not isinstance(value, int | Fraction) or isinstance(value, bool) or value <= 0:
            raise self._wrong(node, method, value, "it must be an integer or Fraction above 0")
        weights = [*(channel.weight for channel in self._config.pe.dma.channels), self._config.pe.ipcq.weight]
        rule = rate_rule(self._config.allocation, "a bandwidth", Fraction(value), weights, most_flow_weight(self._config))
        if rule:
            raise self._wrong(node, method, value, rule)
        return Fraction(value)

    def _wrong(self, node: str, method: str, value: Any, rule: str) -> InputError:
        where = f"{_where(self._config, self._kind[node])}: {node}"
        return InputError(Problem(where, rule, method, value if isinstance(value, int) else repr(value)))


def nodes_along(edges: Sequence[Edge]) -> list[str]:
    """The nodes of consecutive edges."""
    assert all(a.target == b.source for a, b in pairwise(edges))
    return [edges[0].source, *(edge.target for edge in edges)]


#: A replacement must derive from the class, and is created in the same way.
BUILT_IN: dict[str, type[Any]] = {
    naming.PE_CPU: PeCpu,
    naming.PE_SCHEDULER: PeScheduler,
    naming.PE_FETCH_STORE: PeFetchStore,
    naming.PE_IPCQ: PeIpcq,
}


class KernelParts:
    """The classes of one machine."""

    def __init__(self, config: NpuConfig | SystemConfig) -> None:
        """InputError if a class cannot be loaded, does not derive from the built-in one, or does not take its parameters."""
        self._made = dict(BUILT_IN)
        self._specs: dict[str, Any] = {}
        for kind in sorted(BUILT_IN.keys() & config.components.keys()):
            given = config.components[kind]
            if given.impl == BUILTIN:
                continue
            where = f"{config.where(f'components.{kind}.impl', 'components')}: components.{kind}"
            found = find_class(given.impl, where, allow_code=config.allowed_code)
            if not issubclass(found, BUILT_IN[kind]):
                rule = f"a {kind} must be derived from {BUILT_IN[kind].__module__}:{BUILT_IN[kind].__name__}"
                raise InputError(Problem(where, rule, "impl", given.impl, "see docs/reference/components.md"))
            try:
                self._specs[kind] = found.Spec(**given.spec)
            except (TypeError, ValueError) as error:
                rule = f"{given.impl} does not take these parameters: {error}"
                raise InputError(Problem(where, rule, "spec", given.spec)) from error
            self._made[kind] = found

    def make(self, kind: str, *given: Any, **keys: Any) -> Any:
        """Make a component of a kind, in the same way as the built-in one; its own parameters are its `spec`."""
        part = self._made[kind](*given, **keys)
        if kind in self._specs:
            part.spec = self._specs[kind]
        return part
