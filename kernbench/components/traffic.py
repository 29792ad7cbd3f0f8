"""Components of a system that observe and shape passing transfers: routers, ports, memories with state.

In P4 the core reports which flows share a link or a channel (docs/model/sharing.md). A `TrafficPart` converts these reports
into transfers that begin and end, and sets the bandwidths of its links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, cast

from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.components.base import MEMBERS, NEVER, ComponentBase
from kernbench.components.parts import Given, given_parts
from kernbench.components.passive import PassivePart
from kernbench.config import NpuConfig, SystemConfig
from kernbench.config.routers import moves_flits


@dataclass(frozen=True, slots=True)
class Transfer:
    """A transfer on a link, with all its flows on this link.

    >>> from fractions import Fraction
    >>> from kernbench import Transfer
    >>> Transfer(0, 0, 1, 640, Fraction(16)).nbytes
    640
    """

    id: int  #: of its job: the position of a queued entry, the result of `submit`, or a flow that a component opened
    engine: int  #: the DMA engine; -1 for a flow of a component
    weight: int
    nbytes: int  #: [B] bytes of its flows on this link, both moved and not yet moved
    rate: Fraction  #: [byte/cycle] its share after the last P4; 0 if it has no share yet


@dataclass
class _Link:
    """A link or channel that a component observes."""

    number: int
    capacity: Fraction  #: [byte/cycle] capacity of the machine
    bandwidth: Fraction  #: current setting
    there: dict[tuple[int, int], Transfer]  #: transfers on the link, by engine and id
    due: int = NEVER  #: the cycle that `shape` requested
    unsaid: bool = False  #: whether `shared` must still be called


class TrafficPart(PassivePart, ComponentBase):
    """A component at one node of a system that observes each transfer on its links, and may set the bandwidths of the links in
    any cycle.

    Like every `PassivePart`, the component may add `cycles` to routes. Routes are computed with other objects than the run
    uses.

    >>> from kernbench import NEVER, TrafficPart
    >>> class Narrow(TrafficPart):
    ...     def shape(self, link, transfers, now):
    ...         self.set_bandwidth(link, self.capacity(link) / 2 if len(transfers) > 1 else None)
    ...         return NEVER
    >>> Narrow("sip0.cube0.r0c0", None).links
    ()
    """

    def __init__(self, node: str, config: SystemConfig, spec: Any = None) -> None:
        super().__init__(node, config, spec)
        self.node_id = node
        self._links: dict[str, _Link] = {}
        self._names: dict[int, str] = {}

    @property
    def links(self) -> tuple[str, ...]:
        """The names of the links and channels that the component observes in this run."""
        return tuple(self._links)

    def capacity(self, link: str) -> Fraction:
        """[byte/cycle] The capacity of the link in the machine, which `set_bandwidth` cannot exceed."""
        return self._links[link].capacity

    def set_bandwidth(self, link: str, rate: Fraction | int | None) -> None:
        """Set the bandwidth [byte/cycle] of a link until the next call; None means the bandwidth of the machine.

        The bandwidth is rounded down to a multiple of 1/d, but at least 1/d, where d is the denominator of the capacity of the
        machine.
        """
        found = self._links[link]
        den = found.capacity.denominator
        bandwidth = found.capacity if rate is None else Fraction(max(1, Fraction(rate) * den // 1), den)
        if bandwidth != found.bandwidth:
            found.bandwidth = bandwidth
            self.set_capacity(found.number, int(bandwidth * den), den)

    def shape(self, link: str, transfers: Sequence[Transfer], now: int) -> int:
        """The core calls this method when transfers began or ended on a link (P4), and in the cycle that the last call returned
        (P1).

        Return the next cycle in which to call the method for this link, or NEVER. A bandwidth that the method sets holds from
        cycle `now` on.
        """
        return NEVER

    def began(self, link: str, transfer: Transfer, now: int) -> None:
        """P4: the transfer shares the link from this cycle on."""

    def ended(self, link: str, transfer: Transfer, now: int) -> None:
        """P4: the last byte of the transfer passed in an earlier cycle."""

    def shared(self, link: str, transfers: Sequence[Transfer], now: int) -> None:
        """P1: receives the shares of cycle `now - 1`, in which transfers began or ended, or the bandwidth was set."""

    def step(self, now: int) -> int:
        if now == 0:
            for found in self._links.values():
                self.watch(found.number)
        for name, found in self._links.items():
            if found.unsaid:
                found.unsaid = False
                self.shared(name, self._transfers(found), now)
            if found.due <= now:
                found.due = self._shape(name, found, self._transfers(found), now)
        return self._next(now)

    def notify(self, notice: int, number: int, now: int) -> int:
        if notice == MEMBERS:
            name = self._names[number]
            found, before = self._links[name], self._links[name].there
            transfers = self._transfers(found)
            found.there = {(one.engine, one.id): one for one in transfers}
            found.unsaid = type(self).shared is not TrafficPart.shared
            for key, old in before.items():
                if key not in found.there:
                    self.ended(name, old, now)
            for key, new in found.there.items():
                if key not in before:
                    self.began(name, new, now)
            if found.there.keys() != before.keys():
                found.due = self._shape(name, found, transfers, now)
        return self._next(now)

    def finish(self, now: int) -> None:
        """The run is done after cycle `now - 1`; the transfers of that cycle have ended."""
        for name, found in self._links.items():
            if found.unsaid:
                found.unsaid = False
                self.shared(name, list(found.there.values()), now)
            for one in found.there.values():
                self.ended(name, one, now)
            found.there = {}

    def _shape(self, name: str, found: _Link, transfers: Sequence[Transfer], now: int) -> int:
        due = self.shape(name, transfers, now)
        if not isinstance(due, int) or due <= now:
            raise ValueError(f"{self.node}: shape of {name} returned {due!r} in cycle {now}; it must be a later cycle or NEVER")
        return due

    def _next(self, now: int) -> int:
        return min((now + 1 if found.unsaid else found.due for found in self._links.values()), default=NEVER)

    def _transfers(self, found: _Link) -> list[Transfer]:
        """The transfers on a link in the order of their start; the flows of one transfer are combined."""
        out: dict[tuple[int, int], Transfer] = {}
        for one in self.members(found.number):
            key, rate = (one.engine, one.id), Fraction(one.num, one.den)
            old = out.get(key)
            if old is None:
                out[key] = Transfer(one.id, one.engine, one.weight, one.nbytes, rate)
            else:
                out[key] = Transfer(one.id, one.engine, old.weight + one.weight, old.nbytes + one.nbytes, old.rate + rate)
        return list(out.values())

    def watch_links(self, links: Mapping[str, tuple[int, Fraction]]) -> None:
        """Before the run: receives the links of this component by name, with their numbers and capacities in the core."""
        self._links = {name: _Link(number, capacity, capacity, {}) for name, (number, capacity) in links.items()}
        self._names = {number: name for name, (number, _) in links.items()}


#: Kinds of nodes that no transfer passes, with the nodes that transfers pass instead.
WITHOUT_TRAFFIC = {naming.IO_CPU: "launches", naming.SWITCH: "the cycles of a link between SIPs"}
ALLOCATIONS = ("shared_bw_v1", "max_min_v1")  #: allocation rules under which capacities can be set


def owner_of(resource: str, kinds: Mapping[str, Any]) -> str | None:
    """The node whose component observes a resource, among the nodes of the given `kinds`; None if there is none.

    A channel belongs to its memory. A link belongs to the scratchpad of the PE at whose DMA engines it begins or ends. Any
    other link belongs to its source node, or else to its target node.
    """
    memory, _, channel = resource.rpartition(".")
    if channel.startswith("ch") and channel[2:].isdigit():
        return memory if _kind(memory) in kinds else None
    ends = resource.split("-")
    if len(ends) != 2:
        return None  # a cache
    pads = [f"{node.removesuffix(naming.PE_DMA)}{naming.PE_TCM}" for node in ends if _kind(node) == naming.PE_DMA]
    return next((node for node in (*pads, *ends) if _kind(node) in kinds), None)


def _kind(node: str) -> str:
    return naming.parse_node(node).kind


def traffic_parts(
    config: NpuConfig | SystemConfig, resources: Sequence[str], capacities: Sequence[Fraction]
) -> dict[str, TrafficPart]:
    """The components of a machine that observe traffic, by node; only nodes with resources of the run.

    InputError if the machine moves flits, if the allocation rule has no capacities to set, or if no transfer passes a kind of
    node.
    """
    given: dict[str, Given] = {kind: one for kind, one in given_parts(config).items() if issubclass(one.found, TrafficPart)}
    for kind, one in given.items():
        if kind in WITHOUT_TRAFFIC:
            rule = f"no transfer passes a {kind}, only {WITHOUT_TRAFFIC[kind]}: its class cannot be a TrafficPart"
            raise InputError(Problem(one.where, rule, "impl", one.impl, "derive the class from PassivePart"))
        if config.allocation not in ALLOCATIONS:
            rule = f"a TrafficPart needs the allocation {' or '.join(ALLOCATIONS)}, and the machine has {config.allocation}"
            raise InputError(Problem(one.where, rule, "impl", one.impl))
        if moves_flits(config):  # a packet has no share of a link, and no capacity can be set
            rule = "a TrafficPart needs transfers that share links, and cube.mesh.model of this machine is flit"
            raise InputError(Problem(one.where, rule, "impl", one.impl, "set cube.mesh.model=fluid"))
    links: dict[str, dict[str, tuple[int, Fraction]]] = {}
    for number, name in enumerate(resources):
        node = owner_of(name, given)
        if node is not None:
            links.setdefault(node, {})[name] = (number, capacities[number])
    out = {}
    for node, mine in links.items():
        one = given[_kind(node)]
        part = cast(type[TrafficPart], one.found)(node, cast(SystemConfig, config), one.spec)
        part.watch_links(mine)
        out[node] = part
    return out
