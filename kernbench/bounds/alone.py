"""Each job by itself on an otherwise idle machine: the cycles it takes at least, and the bytes it moves where."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from kernbench.cmdq.entries import Entry
from kernbench.cmdq.footprint import Transfer, service_cycles, transfer_of
from kernbench.cmdq.traffic import channel_bytes
from kernbench.common.units import ceil_div
from kernbench.config.schema import NpuConfig
from kernbench.topology.mesh import Link, mesh_route


@dataclass(frozen=True, slots=True)
class Alone:
    """One job by itself. A transfer's `cycles` are a lower bound; scratchpad conflicts with itself may add to them."""

    cycles: int  #: from start to end; 0 for control entries
    period: int = 1  #: it starts in multiples of this
    occupies: int = 0  #: cycles for which its engine, or one of a DMA engine's places, is taken
    transfer: Transfer | None = None
    dram: tuple[int, ...] = ()  #: [byte] of a transfer per DRAM channel
    links: tuple[tuple[Link, int], ...] = ()  #: [byte] of a transfer per mesh link on its way
    resources: tuple[tuple[int, int], ...] = ()  #: of a system, instead of both: number of a resource, [byte] on it


_CONTROL = Alone(0)


def jobs_alone(entries: Sequence[Entry], config: NpuConfig) -> list[Alone]:
    """Each entry's job by itself, on a machine for which `check_program` accepts them."""
    machine = _Machine(config)
    return [machine.alone(entry) for entry in entries]


@dataclass(frozen=True, slots=True)
class _Route:
    """The way of a flow between a DMA engine and a DRAM channel."""

    links: tuple[Link, ...]
    latency: int  #: [cycle] of its links
    capacity: Fraction  #: [byte/cycle] that a flow alone on it can reach


@dataclass(frozen=True, slots=True)
class _Way:
    """What transfers of one engine and direction that move as many bytes on every channel have in common."""

    cycles: int  #: at least
    links: tuple[tuple[Link, int], ...]  #: [byte] on each


class _Machine:
    """The machine's numbers that many jobs need, computed once."""

    def __init__(self, config: NpuConfig) -> None:
        self.config = config
        self._routes: dict[tuple[int, int, bool], _Route] = {}
        self._ways: dict[tuple[int, bool, tuple[int, ...]], _Way] = {}  # programs move a few shapes very often

    def alone(self, entry: Entry) -> Alone:
        """The job of one entry."""
        if entry.engine == "control":
            return _CONTROL
        if entry.engine == "dma":
            return self._transfer(entry.engine_id, transfer_of(entry, self.config))
        period = self.config.te.period if entry.engine == "te" else self.config.ve.period
        work = service_cycles(entry, self.config).total
        return Alone((work - 1) * period + 1, period, work * period)

    def _route(self, engine: int, channel: int, write: bool) -> _Route:
        key = engine, channel, write
        found = self._routes.get(key)
        if found is None:
            found = self._routes[key] = self._new_route(engine, channel, write)
        return found

    def _new_route(self, engine: int, channel: int, write: bool) -> _Route:
        spm, noc = self.config.spm, self.config.noc
        # A flow asks for one line of a bank at most once a cycle, so a row of banks is all it can move.
        capacity = min(self.config.dram.capacity, Fraction(spm.num_banks * spm.bank_width_bytes))
        if noc is None:
            return _Route((), 0, capacity)
        ends = noc.dram_at[channel], noc.dma_at[engine]
        links = tuple(mesh_route(*(ends[::-1] if write else ends)))
        if links:
            capacity = min(capacity, noc.link_bytes_per_cycle)
        return _Route(links, len(links) * noc.hop_latency_cycles, capacity)

    def _transfer(self, engine: int, transfer: Transfer) -> Alone:
        dram = channel_bytes(transfer, self.config.dram)
        key = engine, transfer.write, dram
        way = self._ways.get(key)
        if way is None:
            way = self._ways[key] = self._new_way(*key)
        return Alone(way.cycles, self.config.dma.period, way.cycles, transfer, dram, way.links)

    def _new_way(self, engine: int, write: bool, dram: tuple[int, ...]) -> _Way:
        on_link: dict[Link, int] = {}
        latency, moving = 0, 1
        for channel, nbytes in enumerate(dram):
            if nbytes:
                route = self._route(engine, channel, write)
                latency = max(latency, route.latency)
                moving = max(moving, -(-nbytes * route.capacity.denominator // route.capacity.numerator))
                for link in route.links:
                    on_link[link] = on_link.get(link, 0) + nbytes
        if on_link and self.config.noc is not None:
            moving = max(moving, ceil_div(max(on_link.values()), self.config.noc.link_bytes_per_cycle))
        return _Way(self.config.dram.t_setup_cycles + latency + moving, tuple(on_link.items()))
