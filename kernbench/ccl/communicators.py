"""The queues of several groups and algorithms that are installed on one machine at the same time, each on its own planes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from kernbench.ccl.call import Queues
from kernbench.ccl.contract import QueueKey, Table, most_queues
from kernbench.ccl.group_tl import GroupTl
from kernbench.ccl.measure import slot_room
from kernbench.ccl.reduction import SUM, Reduction
from kernbench.components.builtin.switch_queue import SwitchQueueForm
from kernbench.config import SystemConfig
from kernbench.runtime_api import Context


@dataclass(frozen=True, eq=False)
class Communicator:
    """Ranks, the queues between them, and the first plane of these queues."""

    ranks: tuple[int, ...]  #: by rank of the group: the rank of the world
    table: Table
    slots: int
    slot_bytes: int
    protocol: str  #: of its messages
    room: int  #: [B] of a slot in memory, in lines of the protocol
    switched: tuple[SwitchQueueForm, ...] = ()  #: its queues through switches

    @property
    def planes(self) -> int:
        """The number of planes."""
        used = [plane for queues in self.table.values() for plane, _ in queues] + [one.plane for one in self.switched]
        return 1 + max(used, default=-1)

    @property
    def bytes(self) -> int:
        """The bytes of slots on the rank that has the most slots."""
        return most_queues(self.table, self.switched) * self.slots * self.room


class Communicators:
    """Installs queues when a group first needs them, after all earlier launches have ended, and keeps them installed.

    If the slots would take more than half of a scratchpad, the queues that were installed first are removed.
    """

    def __init__(self, ctx: Context, config: SystemConfig, pes: Sequence[str], tier: str) -> None:
        self._ctx, self._config, self._pes, self._tier = ctx, config, pes, tier
        self._room = config.pe.spm.size_bytes // 2 if tier == "tcm" else None
        self._bases: dict[Communicator, int] = {}
        self._known: dict[tuple[Any, ...], Communicator] = {}

    def find(
        self,
        ranks: tuple[int, ...],
        name: str,
        table: Table,
        slots: int,
        slot_bytes: int,
        protocol: str = "simple",
        switched: tuple[SwitchQueueForm, ...] = (),
    ) -> Communicator:
        """Return the communicator of these ranks for an algorithm. Equal parameters return the same object."""
        key = (ranks, name, slots, slot_bytes, protocol)
        if key not in self._known:
            room = slot_room(self._config, Queues(slots, slot_bytes, self._tier, protocol))
            self._known[key] = Communicator(ranks, table, slots, slot_bytes, protocol, room, switched)
        return self._known[key]

    def fit(self, wanted: Iterable[Communicator]) -> bool:
        """Return whether the queues of these communicators may be installed at the same time."""
        return self._room is None or sum(one.bytes for one in wanted) <= self._room

    def install(self, wanted: Sequence[Communicator]) -> Mapping[Communicator, int]:
        """Install the queues of all these communicators at the same time.

        Returns the first plane of each communicator. The planes are valid until the next installation.
        """
        if all(one in self._bases for one in wanted):
            return self._bases
        kept = [one for one in self._bases if one not in wanted]
        while self._room is not None and kept and sum(one.bytes for one in (*kept, *wanted)) > self._room:
            kept.pop(0)
        links: dict[int, dict[QueueKey, tuple[int, str]]] = {}
        planes: dict[int, tuple[int, int, str | None]] = {}
        bases: dict[Communicator, int] = {}
        switched: list[SwitchQueueForm] = []
        base = 0
        for one in dict.fromkeys((*kept, *wanted)):
            bases[one] = base
            for rank, queues in one.table.items():
                row = links.setdefault(one.ranks[rank], {})
                row |= {(plane + base, out): (one.ranks[to], back) for (plane, out), (to, back) in queues.items()}
            for form in one.switched:
                members = tuple(one.ranks[rank] for rank in form.members)
                switched.append(replace(form, plane=base + form.plane, root=one.ranks[form.root], members=members))
            planes |= {base + plane: (one.slots, one.slot_bytes, one.protocol) for plane in range(one.planes)}
            base += one.planes
        if not bases:
            return bases
        first = next(iter(bases))
        how: dict[str, Any] = {"slots": first.slots, "slot_bytes": first.slot_bytes, "tier": self._tier, "planes": planes}
        how["through_switches"] = switched
        self._ctx.install_queues(links, ranks=self._pes, **how)
        self._bases = bases
        return bases


def view(tl: Any, one: Communicator, base: int, reduction: Reduction = SUM) -> Any:
    """Return `tl` as the kernel of a communicator sees it. The planes of the communicator begin at `base`."""
    if base == 0 and one.ranks == tuple(range(tl.world_size)) and reduction == SUM and one.slots == tl.slots:
        return tl  # nothing is different, and calls are direct
    return GroupTl(tl, one.ranks.index(tl.rank), len(one.ranks), one.slots, one.slot_bytes, base, reduction)
