"""Installs queues between PEs: who is whose neighbour, and where the slots lie."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.components.builtin.ipcq_ring import DIRECTIONS, TIERS, End, QueueClock, Ring
from kernbench.config import NpuConfig, SystemConfig
from kernbench.policy.routing.windows import AddressMap, address_map
from kernbench.triton_emu.errors import ScratchpadFullError
from kernbench.triton_emu.kernel_runner import KernelRunner

if TYPE_CHECKING:
    from kernbench.sim_engine.machine import Machine

Port = tuple[int, str]  #: plane and direction
WHERE = "neighbour table"


@dataclass(frozen=True)
class NeighbourTable:
    """Who is whose neighbour: `links[0][0, "E"] == (1, "W")` where rank 0 has rank 1 in the east of plane 0.

    Then rank 1 has rank 0 in its west. `pes`: the PE of each rank, `sip0.cube3.pe1`.
    """

    pes: Sequence[str]
    links: Mapping[int, Mapping[Port, tuple[int, str]]]

    def check(self) -> None:
        """InputError where the table is not symmetric, or names what is not there."""
        size = len(self.pes)
        for rank, ports in self.links.items():
            if not 0 <= rank < size:
                raise InputError(Problem(WHERE, f"it has a row for rank {rank}, and there are ranks 0 to {size - 1}"))
            for (plane, direction), (other, there) in ports.items():
                here = f"rank {rank} {direction} of plane {plane}"
                if plane < 0 or direction not in DIRECTIONS or there not in DIRECTIONS:
                    rule = f"planes are 0 or more, and directions {', '.join(DIRECTIONS)}"
                    raise InputError(Problem(WHERE, f"{here} leads to rank {other} {there}: {rule}"))
                if not 0 <= other < size or other == rank:
                    rule = f"a neighbour is another one of the ranks 0 to {size - 1}"
                    raise InputError(Problem(WHERE, f"{here} leads to rank {other}: {rule}"))
                back = self.links.get(other, {}).get((plane, there))
                if back != (rank, direction):
                    leads = "nowhere" if back is None else f"to rank {back[0]} {back[1]}"
                    rule = f"{here} leads to rank {other} {there}, but rank {other} {there} of plane {plane} leads {leads}"
                    raise InputError(Problem(WHERE, rule, remedy="what is a neighbour on one side is one on the other"))


@dataclass(frozen=True)
class QueueForm:
    """How queues are built; what `pe.ipcq` says where nobody says more."""

    slots: int
    slot_bytes: int
    tier: str


class Queues:
    """The queues of one machine."""

    def __init__(
        self, config: NpuConfig | SystemConfig, runners: Mapping[str, KernelRunner], nodes: Mapping[str, str], time: QueueClock
    ) -> None:
        """`runners` and `nodes`, of processors: by the names of PEs, in their order."""
        self.config = config
        self.rings: list[Ring] = []
        self._runners = runners
        self._number = {name: i for i, name in enumerate(runners)}
        self._nodes = nodes
        self._time = time
        self._machine: Machine | None = None
        self._room: list[int] = [0] * len(runners)  # transfers at a time that the core has room for, by PE
        self.base_of: Callable[[str, Ring], int] | None = None  #: where slots in memory begin

    def bind(self, machine: Machine, position: Mapping[str, int]) -> None:
        """Before the run: the machine is there."""
        self._machine = machine
        self._time.wake = machine.wake
        for name, runner in self._runners.items():
            runner.scheduler.queues.component = position[self._nodes[name]]
        self._open()

    def install(
        self, table: NeighbourTable, *, slots: int | None = None, slot_bytes: int | None = None, tier: str | None = None
    ) -> None:
        """Queues between the PEs of a group, in the place of all that there were: before the run, or while no kernel runs.

        What is not given is as the machine's `pe.ipcq` says. InputError where the table is wrong, a machine has no neighbours, a
        queue is in use, or slots find no room.
        """
        form = self._form(slots, slot_bytes, tier)
        table.check()
        self._check(table)
        links = sorted((rank, port, *to) for rank, ports in table.links.items() for port, to in ports.items())
        rings = [self._ring(table, form, *link) for link in links]
        for runner in self._runners.values():
            runner.rank, runner.world_size = None, 0
            runner.scheduler.queues.queues_out, runner.scheduler.queues.queues_in = {}, {}
        self.rings = rings
        for rank, name in enumerate(table.pes):
            runner = self._runners[name]
            runner.rank, runner.world_size = rank, len(table.pes)
        for ring in rings:
            ring.sender.queues_out[ring.source.plane, ring.source.direction] = ring
            ring.receiver.queues_in[ring.target.plane, ring.target.direction] = ring
        self._place(form)
        self._open()

    def _form(self, slots: int | None, slot_bytes: int | None, tier: str | None) -> QueueForm:
        if isinstance(self.config, NpuConfig):
            raise InputError(Problem(self.config.source, "one NPU has no neighbours; take a system"))
        keys = self.config.pe.ipcq
        form = QueueForm(
            keys.slots if slots is None else slots,
            keys.slot_bytes if slot_bytes is None else slot_bytes,
            keys.tier if tier is None else tier,
        )
        for name, value in (("slots", form.slots), ("slot_bytes", form.slot_bytes)):
            if type(value) is not int or not 1 <= value < 1 << 40:
                raise InputError(Problem("queues", "it must be an integer of at least 1", name, value))
        if form.tier not in TIERS:
            raise InputError(Problem("queues", f"it must be one of {', '.join(TIERS)}", "tier", form.tier))
        return form

    def _check(self, table: NeighbourTable) -> None:
        """The PEs are there, and nothing of the queues that were is in use."""
        for rank, name in enumerate(table.pes):
            if name not in self._runners:
                there = list(self._runners)
                rule = f"rank {rank} is {name}, and the machine has {there[0]} to {there[-1]}"
                raise InputError(Problem(WHERE, rule))
            if table.pes.index(name) != rank:
                raise InputError(Problem(WHERE, f"{name} is both rank {table.pes.index(name)} and rank {rank}"))
        for name, runner in self._runners.items():
            if not runner.idle:
                raise InputError(Problem("queues", f"{name} runs a kernel: install them before the launch, or wait for it"))
        for ring in self.rings:
            if not ring.idle:
                rule = f"{ring.used} messages are in the queue from {ring.source} to {ring.target}: receive them first"
                raise InputError(Problem("queues", rule))

    def _ring(self, table: NeighbourTable, form: QueueForm, rank: int, port: Port, other: int, there: str) -> Ring:
        plane, direction = port
        here, far = table.pes[rank], table.pes[other]
        return Ring(
            End(rank, here, direction, plane),
            End(other, far, there, plane),
            self._runners[here].scheduler.queues,
            self._runners[far].scheduler.queues,
            slots=form.slots,
            slot_bytes=form.slot_bytes,
            tier=form.tier,
            clock=self._time,
        )

    def _place(self, form: QueueForm) -> None:
        """Where slots lie: in the scratchpads, in front of all tiles, or at the ends of memories."""
        for name, runner in self._runners.items():
            mine = [ring for ring in runner.scheduler.queues.queues_in.values() if form.tier == "tcm"]
            try:
                runner.new_pad(mine)
            except ScratchpadFullError as error:
                raise InputError(Problem(f"queues of {name}", str(error))) from None

    def _open(self) -> None:
        """The core makes room, and says which way messages and credits go."""
        machine = self._machine
        if machine is None or not self.rings:
            return
        reach = machine.plan.reach
        assert reach is not None
        room = [0] * len(self._room)
        for ring in self.rings:
            source, target = self._number[ring.source.pe], self._number[ring.target.pe]
            ring.credit_cycles = self.config.pe.ipcq.credit_cycles + reach.peer_cycles(target, source)
            if ring.tier == "tcm":
                ring.way = (*reach.peer_route(source, target), target)
                room[target] += ring.slots
        more = [max(0, new - old) for new, old in zip(room, self._room, strict=True)]
        if any(more):
            machine.open_peers(more)
            self._room = [new + old for new, old in zip(more, self._room, strict=True)]
