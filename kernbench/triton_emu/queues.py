"""Installs queues between PEs: their neighbours, and the addresses of slots."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, SupportsIndex

from kernbench.common.errors import InputError, Problem
from kernbench.common.naming import parse_pe
from kernbench.common.pe_commands import IpcqRecvCmd, IpcqSendCmd
from kernbench.components.builtin.flight import Flight, Reach
from kernbench.components.builtin.ipcq_ring import DIRECTIONS, TIERS, End, Protocol, QueueClock, Ring
from kernbench.components.builtin.switch_queue import REDUCE, SWITCH_DIRECTIONS, SwitchQueue, SwitchQueueForm
from kernbench.config import NpuConfig, SystemConfig
from kernbench.config.kinds import a_system
from kernbench.config.system.dimensions import combining_dimension, differing, sizes_of
from kernbench.config.system.links import WITH_SWITCHES
from kernbench.policy.routing.resolver import AddressMap, address_map
from kernbench.sim_engine.perturbation import CREDITS, Perturbed
from kernbench.triton_emu.errors import ScratchpadFullError
from kernbench.triton_emu.kernel_runner import KernelRunner
from kernbench.triton_emu.launch import ALONE, Group, Launch

if TYPE_CHECKING:
    from kernbench.sim_engine.machine import Machine


def waits_of(runners: Mapping[str, KernelRunner]) -> list[dict[str, Any]]:
    """For each PE that cannot continue, in the order of ranks: the event that it waits for; `circle` is its place in the first
    circle."""
    found = [wait for runner in runners.values() if (wait := _wait(runner)) is not None]
    found.sort(key=lambda wait: (wait["rank"] is None, wait["rank"]))
    circle = _circle({wait["rank"]: wait["waits_for"] for wait in found if wait["rank"] is not None})
    place = {rank: number for number, rank in enumerate(circle)}
    for wait in found:
        wait["circle"] = place.get(wait["rank"])
    return found


def unreceived(rings: Sequence[Ring], cycle: int) -> list[dict[str, Any]]:
    """A warning for each queue with messages that were not received."""
    found = []
    for ring in rings:
        left = list(ring.messages)
        if left:
            lines = ", ".join(dict.fromkeys(message.line for message in left))
            what = "a message" if len(left) == 1 else f"{len(left)} messages"
            found.append(
                {
                    "code": "UNRECEIVED",
                    "cycle": cycle,
                    "rank": ring.source.rank,
                    "to": ring.target.rank,
                    "direction": ring.source.direction,
                    "plane": ring.source.plane,
                    "count": len(left),
                    "line": left[0].line,
                    "message": f"{what} from {ring.source} to {ring.target} ({lines}): never received",
                }
            )
    return found


def _wait(runner: KernelRunner) -> dict[str, Any] | None:
    flight = _blocking(runner)
    if flight is None:
        return None
    msg, state = flight.msg, runner.state()
    ring: Ring = msg.ring
    sends = isinstance(msg, IpcqSendCmd)
    mine, other = (ring.source, ring.target) if sends else (ring.target, ring.source)
    missing = None if ring.switch is None else ring.switch.missing()
    if missing is not None:  # a switch waits for what another member sends
        other, sends = missing.source, False
    return {
        "rank": runner.group.rank,
        "pe": runner.pe.name,
        "launch": state.launch,
        "line": flight.line,
        "waits_for": other.rank,
        "reason": "credit" if sends else "message",
        "direction": mine.direction,
        "plane": mine.plane,
        "used": ring.used,
        "slots": ring.slots,
        "held": ring.next_message().line if ring.waiting and not sends else "",
        "since": flight.issued,
        "last_send": ring.last_send,
        "last_recv": ring.last_recv,
    }


def _blocking(runner: KernelRunner) -> Flight | None:
    """The wait of the kernel, else the first of its commands that cannot end; for a wait for any of several, the first
    receive, because a send does not block a kernel.
    """
    wanted = runner.wanted
    open_ones = [one for one in runner.scheduler.open if isinstance(one.msg, IpcqSendCmd | IpcqRecvCmd)]
    if wanted in open_ones:
        return wanted
    if runner.state().waits.startswith("tl.wait_any"):
        open_ones.sort(key=lambda one: isinstance(one.msg, IpcqSendCmd))
    return next(iter(open_ones), None)


def _circle(waits_for: Mapping[int, int]) -> list[int]:
    """The ranks of the circle with the lowest rank, from that one on, each waiting for the next; none: an empty list."""
    circles: list[list[int]] = []
    seen: set[int] = set()
    for start in waits_for:
        path: dict[int, None] = {}  # in order
        at: int | None = start
        while at is not None and at not in seen:
            seen.add(at)
            path[at] = None
            at = waits_for.get(at)
        if at in path:  # otherwise the last PE waits for no PE, or an earlier start has reached the same cycle
            ranks = list(path)
            circles.append(ranks[ranks.index(at) :])
    if not circles:
        return []
    first = min(circles, key=min)
    least = first.index(min(first))
    return first[least:] + first[:least]


Port = tuple[int, str]  #: plane and direction
Links = Mapping[int, Mapping[Port, tuple[int, str]]]  #: by rank, plane and direction: rank and direction there
WHERE = "neighbour table"
SIMPLE = "simple"  #: the protocol of queues that name none
PlaneForm = tuple[int, int] | tuple[int, int, str | None]  #: slots, bytes of a slot, and the protocol
OPS = ("add", "mul", "maximum", "minimum", "and", "or", "xor")  #: by which a switch combines
MAX_SLOTS = 1 << 16  #: most slots of a queue
MAX_BYTES = 1 << 36  #: most bytes of a slot


@dataclass(frozen=True)
class NeighbourTable:
    """The neighbours: `links[0][0, "E"] == (1, "W")` means that rank 1 is east of rank 0 in plane 0.

    Then rank 1 has rank 0 in its west. `pes`: the PE of each rank, `sip0.cube3.pe1`.
    """

    pes: Sequence[str]
    links: Links
    through_switches: Sequence[SwitchQueueForm] = ()

    def check(self) -> None:
        """InputError if the table is not symmetric, or names ranks that do not exist."""
        if isinstance(self.pes, str) or not isinstance(self.pes, Sequence) or not all(isinstance(one, str) for one in self.pes):
            rule = f"it must be a list of the PEs' names, like sip0.cube0.pe1, by rank, and is {self.pes!r}"
            raise InputError(Problem("queues", rule, "ranks"))
        size = len(self.pes)
        if not _is_table(self.links):
            rule = "it must be {rank: {(plane, direction): (the rank there, its direction back)}}"
            raise InputError(Problem(WHERE, rule))
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
                    raise InputError(Problem(WHERE, rule, remedy="neighbours must be mutual"))
        for one in self.through_switches:
            members = one.members
            if one.direction not in SWITCH_DIRECTIONS or one.op not in OPS or one.plane < 0:
                kinds = f"one of {', '.join(SWITCH_DIRECTIONS)} with one of {', '.join(OPS)}"
                rule = f"a queue through a switch is {kinds}, in plane 0 or more"
                raise InputError(Problem(WHERE, rule, value=str(one)))
            known = set(members)
            if one.root not in known or not 2 <= len(known) == len(members) or not known <= {*range(size)}:
                rule = f"its members are two or more of the ranks 0 to {size - 1}, each once, and its root is one of them"
                raise InputError(Problem(WHERE, rule, value=str(one)))


@dataclass(frozen=True)
class QueueForm:
    """The parameters of queues; the defaults are in `pe.ipcq`."""

    slots: int
    slot_bytes: int
    tier: str
    protocol: str = SIMPLE


class Queues:
    """The queues of one machine."""

    def __init__(
        self,
        config: NpuConfig | SystemConfig,
        runners: Mapping[str, KernelRunner],
        nodes: Mapping[str, str],
        time: QueueClock,
        launches: Sequence[Launch],
    ) -> None:
        """`runners` and `nodes`, of processors: by the names of PEs, in their order."""
        self._launches = launches
        self.config = config
        self.rings: list[Ring] = []
        self._runners = runners
        self._number = {name: i for i, name in enumerate(runners)}
        self._nodes = nodes
        self._time = time
        self._machine: Machine | None = None
        self._room: list[int] = [0] * len(runners)  # the largest number of concurrent transfers in the core, by PE
        self.reserve: Callable[[int, int], None] | None = None  #: called with the bytes of HBM that are slots
        self.perturbed: Perturbed | None = None  #: draws of how many credits there are

    def bind(self, machine: Machine, position: Mapping[str, int]) -> None:
        """Before the run: the machine exists."""
        self._machine = machine
        self._time.wake = machine.wake
        machine.queues = self
        for name, runner in self._runners.items():
            runner.scheduler.queues.component = position[self._nodes[name]]
        self._open()

    def install(
        self,
        table: NeighbourTable,
        *,
        slots: int | None = None,
        slot_bytes: int | None = None,
        tier: str | None = None,
        protocol: str | None = None,
        planes: Mapping[int, PlaneForm] | None = None,
    ) -> None:
        """Replace all queues by queues between the PEs of a group. Allowed before the run, or while no kernel runs.

        Missing values are those of `pe.ipcq` of the machine. `protocol`: one of its protocols; None: simple. `planes`: the
        slots, the bytes of a slot and the protocol of planes that differ.
        InputError if the table is wrong, if the machine has one PE, if a queue is in use, or if there is no space for the
        slots.
        """
        form = self._form(slots, slot_bytes, tier, protocol)
        forms = {plane: self._form(*one[:2], tier, *one[2:]) for plane, one in (planes or {}).items()}
        table.check()
        self._check(table)
        links = sorted((rank, port, *to) for rank, ports in table.links.items() for port, to in ports.items())
        rings = [self._ring(table, forms.get(link[1][0], form), *link) for link in links]
        switched = [self._through_switch(table, forms.get(one.plane, form), one) for one in table.through_switches]
        for runner in self._runners.values():
            runner.group = ALONE
            runner.scheduler.queues.queues_out, runner.scheduler.queues.queues_in = {}, {}
        self.rings = [*rings, *(ring for queue in switched for ring in queue.rings)]
        for rank, name in enumerate(table.pes):
            self._runners[name].group = Group(rank, len(table.pes), form.slots, form.slot_bytes)
        for ring in rings:
            ring.sender.queues_out[ring.source.plane, ring.source.direction] = ring
            ring.receiver.queues_in[ring.target.plane, ring.target.direction] = ring
        for queue in switched:
            for ring in queue.rings if queue.op else (queue.lead,):
                self._put(ring.sender.queues_out, ring)
            for ring in (queue.lead,) if queue.op else queue.rings:
                self._put(ring.receiver.queues_in, ring)
        self._place(form)
        self._open()

    @staticmethod
    def _put(queues: dict[tuple[int, str], Ring], ring: Ring) -> None:
        """A ring through a switch among those of a PE."""
        key = ring.source.plane, ring.source.direction
        if key in queues:
            raise InputError(
                Problem(WHERE, f"{ring.source} has two queues through switches in one plane; give each its own plane")
            )
        queues[key] = ring

    @property
    def system(self) -> SystemConfig:
        """The machine; InputError for one NPU, whose PE has no neighbours."""
        return a_system("queues", self.config)

    def waits(self) -> list[dict[str, Any]]:
        """After a deadlock: which PEs wait for a message or a credit, and from which other PEs."""
        return waits_of(self._runners)

    def unreceived(self, cycle: int) -> list[dict[str, Any]]:
        """Warnings at the end of a run about messages that were not received."""
        return unreceived(self.rings, cycle)

    def _form(self, slots: int | None, slot_bytes: int | None, tier: str | None, protocol: str | None = None) -> QueueForm:
        keys = self.system.pe.ipcq
        form = QueueForm(
            keys.slots if slots is None else slots,
            keys.slot_bytes if slot_bytes is None else slot_bytes,
            keys.tier if tier is None else tier,
            SIMPLE if protocol is None else protocol,
        )
        for name, value, most in (("slots", form.slots, MAX_SLOTS), ("slot_bytes", form.slot_bytes, MAX_BYTES)):
            if type(value) is not int or not 1 <= value <= most:
                raise InputError(Problem("queues", f"it must be an integer from 1 to {most}", name, value))
        if form.tier not in TIERS:
            raise InputError(Problem("queues", f"it must be one of {', '.join(TIERS)}", "tier", form.tier))
        if form.protocol not in keys.protocol_names:
            rule = f"the machine has {', '.join(keys.protocol_names)} (pe.ipcq.protocols)"
            raise InputError(Problem("queues", rule, "protocol", form.protocol))
        return form if self.perturbed is None or slots is not None else self._fewer(form, self.perturbed)

    def _fewer(self, form: QueueForm, run: Perturbed) -> QueueForm:
        """The credits of a perturbed run: 1 to all slots of the machine. A program that names slots needs them."""
        run.installed += 1
        return replace(form, slots=form.slots - run.draws.value(CREDITS, "queues", run.installed, form.slots - 1))

    def _check(self, table: NeighbourTable) -> None:
        """The PEs exist, and the earlier queues are not in use."""
        ranks: dict[str, int] = {}
        for rank, name in enumerate(table.pes):
            if name not in self._runners:
                there = list(self._runners)
                rule = f"rank {rank} is {name}, and the machine has {there[0]} to {there[-1]}"
                raise InputError(Problem(WHERE, rule))
            first = ranks.setdefault(name, rank)
            if first != rank:
                raise InputError(Problem(WHERE, f"{name} is both rank {first} and rank {rank}"))
        for launch in self._launches:
            if launch.end is None:
                raise InputError(Problem("queues", f"launch {launch.name} has not ended", remedy="wait for it first"))
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
            protocol=self._protocol(form.protocol),
        )

    def _through_switch(self, table: NeighbourTable, form: QueueForm, one: SwitchQueueForm) -> SwitchQueue:
        """A queue through switches. InputError if the machine has no switch that can do it."""
        system = self.system.system
        combining = combining_dimension(self.system)
        if combining is None and (system.kind not in WITH_SWITCHES or not system.switch.reduce):
            rule = "queues through switches need switches that combine and copy messages"
            remedy = "take a system of kind switch, fat_tree, rails or dimensions, and set system.switch.reduce"
            raise InputError(Problem("queues", rule, "system.switch.reduce", system.switch.reduce, remedy))
        if form.tier != "tcm":
            rule = "queues through switches have their slots in scratchpads"
            raise InputError(Problem("queues", rule, "tier", form.tier, "take tcm"))
        sips = [parse_pe(table.pes[member])[0] for member in one.members]
        if len(set(sips)) < len(sips):
            raise InputError(
                Problem(WHERE, "the members of a queue through switches must be on different SIPs", value=str(one))
            )
        if combining is not None and differing(sips, sizes_of(self.system)) != [combining]:
            rule = f"the members of a queue through switches must be in one line of dimension {combining}, which has them"
            raise InputError(Problem(WHERE, rule, value=str(one)))
        combines = one.direction == REDUCE
        others = [member for member in one.members if member != one.root]
        pairs = [(member, one.root) for member in one.members] if combines else [(one.root, member) for member in others]
        port = one.plane, one.direction
        rings = {pair: self._ring(table, form, pair[0], port, pair[1], one.direction) for pair in pairs}
        after = one.members[(one.members.index(one.root) + 1) % len(one.members)]
        lead = rings[(after, one.root) if combines else (one.root, after)]
        return SwitchQueue(list(rings.values()), lead, one.op if combines else "")

    def _protocol(self, name: str) -> Protocol:
        """A protocol of the machine."""
        found = self.system.pe.ipcq.protocol(name)
        assert found is not None
        return Protocol(found.cycles, found.data_bytes, found.line_bytes)

    def _place(self, form: QueueForm) -> None:
        """The addresses of slots: in the scratchpads, before all tiles, or at the ends of memories."""
        for name, runner in self._runners.items():
            mine = [ring for ring in runner.scheduler.queues.queues_in.values() if form.tier == "tcm"]
            try:
                runner.new_pad(mine)
            except ScratchpadFullError as error:
                raise InputError(Problem(f"queues of {name}", str(error))) from None
        if form.tier != "tcm":
            self._place_in_memory(form)

    def _place_in_memory(self, form: QueueForm) -> None:
        memories, align = address_map(self.system), self.system.pe.dma.alignment_bytes
        free: dict[int, int] = {}  # by the first byte of a memory: the end of its free bytes
        for ring in self.rings:
            start, end = _memory_of(memories, form.tier, self._number[ring.target.pe])
            size = -(-ring.slot_room // align) * align
            at = free.setdefault(start, end // align * align) - ring.slots * size
            if at < start:
                rule = f"{ring.slots} slots of {size} bytes, from {ring.source}, find no room in {end - start} bytes"
                raise InputError(Problem(f"{form.tier} of {ring.target.pe}", rule, remedy="use fewer or smaller slots"))
            free[start] = at
            ring.lay_out(at, size)
        if form.tier == "hbm" and self.reserve is not None:
            for start, at in free.items():
                self.reserve(at, start + memories.slice_bytes)

    def _open(self) -> None:
        """The core reserves room, and finds the routes of messages and credits."""
        machine = self._machine
        if machine is None or not self.rings:
            return
        reach = machine.plan.reach
        assert reach is not None
        room = [0] * len(self._room)
        for ring in self.rings:
            source, target = self._number[ring.source.pe], self._number[ring.target.pe]
            if ring.switch is not None:
                self._open_through_switch(ring, room)
                continue
            ring.credit_cycles = self.system.pe.ipcq.credit_cycles + reach.peer_cycles(target, source)
            if ring.tier == "tcm":
                ring.line = self.system.pe.spm.bank_width_bytes
                ring.reach = Reach(0, 0, reach.peer_route(source, target), target)
                room[target] += ring.slots
        more = [max(0, new - old) for new, old in zip(room, self._room, strict=True)]
        if any(more):
            machine.open_peers(more)
            self._room = [new + old for new, old in zip(more, self._room, strict=True)]


    def _open_through_switch(self, ring: Ring, room: list[int]) -> None:
        """The route of its messages, over each link once, and the cycles of its credits."""
        assert self._machine is not None
        reach, queue = self._machine.plan.reach, ring.switch
        assert reach is not None
        source, target = self._number[ring.source.pe], self._number[ring.target.pe]
        others = [self._number[one.source.pe if queue.op else one.target.pe] for one in queue.rings]
        back = [one for one in others if one != target] if queue.op else [source]  # whom a credit goes to
        ring.credit_cycles = self.system.pe.ipcq.credit_cycles + max(reach.peer_cycles(target, one) for one in back)
        ring.line = self.system.pe.spm.bank_width_bytes
        if ring is queue.lead:
            root = target if queue.op else source
            members = others if queue.op else [source, *others]
            ring.reach = Reach(0, 0, reach.switch_route(root, members, bool(queue.op)), target)
            room[target] += ring.slots


def _is_table(links: Any) -> bool:
    """Whether links have the form of `Links`."""
    if not isinstance(links, Mapping) or not all(isinstance(ports, Mapping) for ports in links.values()):
        return False
    ends = [end for ports in links.values() for both in ports.items() for end in both]
    return all(map(_is_index, links)) and all(map(_is_port, ends))


def _is_index(one: Any) -> bool:
    """Whether `one` is an integer. Python takes 12 us to compare a type with `SupportsIndex`, and tables have many ports."""
    return type(one) is int or isinstance(one, SupportsIndex)


def _is_port(one: Any) -> bool:
    return isinstance(one, tuple) and len(one) == 2 and _is_index(one[0])


def _memory_of(memories: AddressMap, tier: str, pe: int) -> tuple[int, int]:
    """The slice of the HBM, or the SRAM, that is nearest to a PE: its first byte and its end."""
    window, number = divmod(pe, memories.pes)
    if tier == "sram":
        start = memories.sram.address(window, 0)
        return start, start + memories.sram.nbytes
    start = memories.hbm.address(window, number * memories.slices // memories.pes * memories.slice_bytes)
    return start, start + memories.slice_bytes
