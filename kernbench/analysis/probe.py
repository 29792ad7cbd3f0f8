"""Latency and bandwidth of a system: common traffic patterns, each simulated alone on the machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from kernbench.cmdq import Program
from kernbench.cmdq.plan import Plan
from kernbench.cmdq.system.nodes import PeCoordinates, SystemNodes
from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.common.units import parse_size_text, plain_number
from kernbench.config import SystemConfig
from kernbench.runtime_api.pe_set import PeSet
from kernbench.sim_engine.machine import Machine

KIB = 1024
SliceOf = tuple[int, int, int]  #: SIP, cube, slice
SIZES = (4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB, 1024 * KIB)  #: [B] sizes of each transfer of a pattern


@dataclass(frozen=True, slots=True)
class ProbeRow:
    """One pattern at one size. For the transfer that took longest, cycles = setup + links + transfer."""

    pattern: str
    bytes: int  #: [B] size of each transfer
    transfers: int
    cycles: int  #: [cycle] from the start to the end of the longest transfer
    setup: int  #: [cycle] latency of the memory and the endpoint
    links: int  #: [cycle] latency of the links of the route
    transfer: int  #: [cycle] from the first share of bandwidth to the last byte
    bandwidth: Fraction  #: [byte/cycle] of all transfers together, from the first share of any to the end
    bottleneck: str  #: the resource with the largest ratio of bytes to capacity
    capacity: Fraction  #: [byte/cycle] capacity of the bottleneck
    utilisation: Fraction  #: share of the bottleneck's capacity that is used

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON: exact rationals as numbers or `p/q`."""
        values = {name: getattr(self, name) for name in self.__slots__}
        return {name: plain_number(value) if isinstance(value, Fraction) else value for name, value in values.items()}


@dataclass(frozen=True)
class Pattern:
    """A pattern: its name, its meaning, and its transfers."""

    name: str
    about: str
    moves: Callable[[Program, int], None]  #: appends the pattern's transfers of the given size


def probe(config: SystemConfig, sizes: Sequence[int] = SIZES, only: Sequence[str] = ()) -> Iterator[ProbeRow]:
    """Run every pattern that fits the system, at every size that fits into a scratchpad and a slice of HBM."""
    room = min(one.nbytes for one in PeSet(config).slices)
    for pattern in patterns(config):
        if only and pattern.name not in only:
            continue
        for size in sizes:
            if size <= min(config.pe.spm.size_bytes, room):
                yield _row(config, pattern, size)


def patterns(config: SystemConfig) -> list[Pattern]:
    """The patterns that fit the system."""
    found = _Patterns(config)
    out = [
        Pattern("host_to_device", "the host writes a slice of HBM", found.host("to_device")),
        Pattern("device_to_host", "the host reads a slice of HBM", found.host("to_host")),
        Pattern("own_hbm", "a PE loads from its own slice", found.loads([(found.first, found.slice_of(0))])),
        Pattern("own_hbm_store", "a PE stores to its own slice", found.loads([(found.first, found.slice_of(0))], store=True)),
    ]
    if config.slices > 1:
        out.append(Pattern("neighbour_hbm", "a PE loads from the next slice", found.loads([(found.first, found.slice_of(1))])))
        far = found.farthest_slice()
        about = f"a PE loads from slice {far[2]}, the farthest of its cube"
        out.append(Pattern("across_mesh", about, found.loads([(found.first, far)])))
    if config.cube.pes > 1:
        out.append(Pattern("pe_to_pe", "a PE sends to the next PE", found.send(PeCoordinates(0, 0, 1))))
    if config.cubes > 1:
        out.append(Pattern("across_ucie", "a PE loads from the next cube", found.loads([(found.first, (0, 1, 0))])))
    if config.system.sips > 1:
        out.append(Pattern("across_sips", "a PE loads from the next SIP", found.loads([(found.first, (1, 0, 0))])))
    every = [
        PeCoordinates(s, c, p) for s in range(config.system.sips) for c in range(config.cubes) for p in range(config.cube.pes)
    ]
    own = [(pe, found.slice_of(pe.pe, pe)) for pe in every]
    out.append(Pattern("all_own_hbm", "every PE of the system loads from its own slice at once", found.loads(own)))
    shared = [(pe, (0, 0, 0)) for pe in every if pe[:2] == (0, 0)]
    out.append(Pattern("all_one_slice", "every PE of a cube loads from one slice at once", found.loads(shared)))
    return out


class _Patterns:
    def __init__(self, config: SystemConfig) -> None:
        self.config = config
        self.places = SystemNodes(config)
        self.slices = PeSet(config).slices
        self.first = PeCoordinates(0, 0, 0)

    def slice_of(self, pe: int, of: PeCoordinates | None = None) -> tuple[int, int, int]:
        """(SIP, cube, slice): the first slice at the router of a PE, else the slice with its number."""
        owned = [k for k in range(self.config.slices) if self.config.slice_pe(k) == pe]
        sip, cube = (0, 0) if of is None else of[:2]
        return sip, cube, owned[0] if owned else pe % self.config.slices

    def farthest_slice(self) -> tuple[int, int, int]:
        """The slice of the first cube with the highest latency to the first PE; the first of several."""
        router, resolver = self.places.router, self.places.resolver

        def cycles(number: int) -> int:
            path = router.find_memory_path(self.first.part(naming.PE_DMA), resolver.address(0, 0, number), read=True)
            return router.route(path).cycles

        return 0, 0, max(range(self.config.slices), key=lambda number: (cycles(number), -number))

    def loads(self, ends: Sequence[tuple[PeCoordinates, SliceOf]], *, store: bool = False) -> Callable[[Program, int], None]:
        """Each PE moves a tile from, or to, its slice."""

        def moves(program: Program, size: int) -> None:
            tiles: Counter[tuple[int, int, int]] = Counter()  # number of tiles of each slice
            opcode = "DMA_STORE_TILE" if store else "DMA_LOAD_TILE"
            for pe, place in ends:
                sip, cube, number = place
                room = self.slices[(sip * self.config.cubes + cube) * self.config.slices + number]
                address = room.base + tiles[place] % (room.nbytes // size) * size
                tiles[place] += 1
                program.append(opcode, node=pe.name, tensor_role="activation", qbits=8, num_elements=size, dram_addr=address,
                               spm_bank=0, spm_offset=0)  # fmt: skip

        return moves

    def send(self, peer: PeCoordinates) -> Callable[[Program, int], None]:
        """The first PE sends a tile to another PE."""

        def moves(program: Program, size: int) -> None:
            program.dma_send(node=self.first.name, peer=peer.name, tensor_role="activation", qbits=8, num_elements=size,
                             spm_bank=0, spm_offset=0, peer_bank=0, peer_offset=0)  # fmt: skip

        return moves

    def host(self, direction: str) -> Callable[[Program, int], None]:
        """The host copies a tile."""

        def moves(program: Program, size: int) -> None:
            address = self.places.resolver.address(0, 0, 0)
            program.host_copy(direction=direction, qbits=8, dram_addr=address, num_elements=size)

        return moves


def _row(config: SystemConfig, pattern: Pattern, size: int) -> ProbeRow:
    program = Program(pattern.name)
    pattern.moves(program, size)
    machine = Machine(config, program)
    machine.run()
    result = machine.result()
    heads = [_head(machine.plan, k) for k in range(len(result.entries))]
    spans = [(times.start, times.end) for times in result.entries if times.start is not None and times.end is not None]
    longest = max(range(len(spans)), key=lambda k: (spans[k][1] - spans[k][0], -k))
    cycles, (setup, links) = spans[longest][1] - spans[longest][0], heads[longest]
    moving = max(end for _, end in spans) - min(start + sum(head) for (start, _), head in zip(spans, heads, strict=True))
    capacities = dict(zip(machine.plan.resources, machine.plan.capacities, strict=True))
    name = max(capacities, key=lambda name: result.counters[name]["bytes"] / capacities[name])
    return ProbeRow(
        pattern=pattern.name,
        bytes=size,
        transfers=len(spans),
        cycles=cycles,
        setup=setup,
        links=links,
        transfer=cycles - setup - links,
        bandwidth=Fraction(size * len(spans), moving),
        bottleneck=name,
        capacity=capacities[name],
        utilisation=result.counters[name]["bytes"] / capacities[name] / moving,
    )


def _head(plan: Plan, entry: int) -> tuple[int, int]:
    """(setup, links) of a transfer's head latency; the tables of the core have the sum of an endpoint's setup and its links."""
    job = int(plan.program["job"][entry])
    dma, machine = plan.program["dma"], plan.machine
    memory = machine["memories"][int(dma["memory"][job])]
    first = int(dma["route"][job])
    latency = max(int(machine["route_latency"][first + k]) for k in range(memory["channels"]))
    extra = plan.extra.get(entry, 0)
    return int(memory["setup"]) + extra, latency - extra


def probe_sizes(text: str) -> list[int]:
    """The sizes in bytes of a list such as `4KiB,1MiB` or `4k,1M`; InputError if one is not a size."""
    out = []
    for item in text.split(","):
        try:
            size = parse_size_text(item)
        except ValueError as error:
            raise InputError(Problem("probe", str(error), "sizes", item.strip())) from None
        if not 0 < size < 2**40:
            raise InputError(Problem("probe", "it must be from 1 byte to below 1 TiB", "sizes", item.strip()))
        out.append(size)
    return out


def probe_names(config: SystemConfig, text: str) -> list[str]:
    """The patterns of a list with commas, or all patterns if the list is empty; InputError if the system does not have one of
    them."""
    names = [name.strip() for name in text.split(",") if name.strip()]
    known = [pattern.name for pattern in patterns(config)]
    for name in names:
        if name not in known:
            rule = f"{config.source} has no such pattern; it has {', '.join(known)}"
            raise InputError(Problem("probe", rule, "only", name))
    return names
