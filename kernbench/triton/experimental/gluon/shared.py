"""Shared memory of Gluon: tiles in the scratchpad of a PE, the copies that bring them, and barriers that wait for copies."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any

from kernbench.triton.constants import plain
from kernbench.triton.dtypes import dtype, refuse, wanted
from kernbench.triton.elementwise import cast
from kernbench.triton.experimental.gluon.layouts import DistributedLayout, SharedLayout, check_layout
from kernbench.triton.program import current
from kernbench.triton.tensor import Shape, as_tensor, tensor


@dataclass(eq=False)
class Slot:
    """One tile of shared memory."""

    tile: tensor | None = None  #: None until something is written
    arrived: bool = True  #: whether the kernel has waited for the copy that brings the tile
    barrier: Barrier | None = None


class shared_memory_descriptor:
    """Room in shared memory for a tile, or for a sequence of tiles (`index`)."""

    def __init__(self, kind: dtype, shape: Sequence[int], layout: Any, slots: dict[tuple[int, ...], Slot], at: tuple[int, ...]):
        self.dtype, self.layout = kind, layout
        self.shape = Shape(shape)
        self._slots, self._at = slots, at

    @property
    def rank(self) -> int:
        return len(self.shape)

    @property
    def numel(self) -> int:
        return prod(self.shape)

    @property
    def nbytes(self) -> int:
        return self.numel * self.dtype.itemsize

    @property
    def slot(self) -> Slot:
        """The tile of this room."""
        return self._slots.setdefault(self._at, Slot())

    def index(self, index: Any) -> shared_memory_descriptor:
        """Return the tile at a position of the first axis."""
        number = int(index)
        if not self.shape or not 0 <= number < self.shape[0]:
            refuse(f"shared memory of shape {list(self.shape)} has no tile {number}; its first axis has the tiles from 0 on")
        return shared_memory_descriptor(self.dtype, self.shape[1:], self.layout, self._slots, (*self._at, number))

    def load(self, layout: Any = None) -> tensor:
        """Return the tile, in no time: engines read the scratchpad. Raises TritonError before its copy has been waited for."""
        check_layout("load of shared memory", layout, DistributedLayout, self.rank)
        slot = self.slot
        if slot.tile is None:
            refuse(f"shared memory of shape {list(self.shape)} is read before a tile is written there; store to it first")
        if not slot.arrived:
            refuse("shared memory is read before the kernel waits for the copy to it; call wait_group or mbarrier.wait first")
        return slot.tile

    def store(self, value: Any) -> None:
        """Put a tile here, in no time: tensors are in the scratchpad."""
        found = cast(as_tensor(value), self.dtype)
        if found.shape != self.shape:
            refuse(f"a tensor of shape {list(found.shape)} is stored to shared memory of shape {list(self.shape)}")
        slot = self.slot
        slot.tile, slot.arrived = found, True

    def receive(self, tile: tensor) -> Slot:
        """Put the tile of a copy here. The kernel may read the tile after it has waited for the copy."""
        slot = self.slot
        slot.tile, slot.arrived = tile, False
        return slot

    def empty(self) -> None:
        """Give the room of the old tile back before a copy brings a new one."""
        self.slot.tile = None

    def __getattr__(self, name: str) -> Any:
        if name in ("slice", "permute", "reshape", "gather", "scatter", "atomic_scatter_rmw", "_reinterpret"):
            refuse(f"{name} of shared memory is not supported; use index, load and store")
        raise AttributeError(f"shared memory has no {name}")


def allocate_shared_memory(element_ty: Any, shape: Sequence[Any], layout: Any, value: Any = None) -> shared_memory_descriptor:
    """Make room for a tile, or for a sequence of tiles, in the scratchpad. A tile takes its bytes when it is written."""
    sizes = tuple(int(plain(one)) for one in shape)
    layout = plain(layout)
    if layout is None or not isinstance(layout, SharedLayout):
        refuse(f"gl.allocate_shared_memory: layout must be a layout of shared memory, and this is a {type(layout).__name__}")
    if layout.rank not in (0, len(sizes), len(sizes) - 1):
        refuse(f"gl.allocate_shared_memory: the layout is for {layout.rank} axes, and the shape has {len(sizes)}")
    check_layout("gl.allocate_shared_memory", layout, SharedLayout, layout.rank)
    made = shared_memory_descriptor(wanted(element_ty), sizes, layout, {}, ())
    if value is not None:
        made.store(value)
    return made


def wait_for(slots: Sequence[Slot]) -> None:
    """Wait until the copies to some tiles have ended."""
    own = current()
    for slot in slots:
        tile = slot.tile
        if tile is not None:
            own.wait_for_tile(tile.handle)
        slot.arrived = True


@dataclass
class Copies:
    """Asynchronous copies of a program that the program has not waited for."""

    open: list[Slot] = field(default_factory=list)  #: not in a group yet
    groups: deque[list[Slot]] = field(default_factory=deque)
    stores: deque[Any] = field(default_factory=deque)  #: commands of copies to memory

    @classmethod
    def of_program(cls) -> Copies:
        """Return the copies of the program that runs."""
        own = current()
        if own.copies is None:
            own.copies = cls()
        return own.copies  # type: ignore[no-any-return]


@dataclass
class _Phase:
    arrivals: int = 0
    expected: int = 0  #: [B]
    came: int = 0  #: [B]
    slots: list[Slot] = field(default_factory=list)


class Barrier:
    """An mbarrier. A phase is complete after `count` arrivals, and after the bytes that these arrivals expect have come."""

    def __init__(self, count: int) -> None:
        self.count = count
        self._done = 0  #: phases that are complete
        self._issued: deque[_Phase] = deque()  #: phases that wait for copies alone
        self._open = _Phase()

    def arrive(self, count: int, expected: int = 0) -> None:
        self._open.arrivals += count
        self._open.expected += expected
        self._check()

    def receive(self, slot: Slot, nbytes: int) -> None:
        """Count the bytes of a copy that has been issued."""
        self._open.came += nbytes
        self._open.slots.append(slot)
        self._check()

    def _check(self) -> None:
        phase = self._open
        if phase.arrivals > self.count or (phase.arrivals == self.count and phase.came > phase.expected):
            refuse(
                f"a phase of an mbarrier gets {phase.arrivals} arrivals and {phase.came} B; it is complete after {self.count} "
                f"arrivals and the {phase.expected} B that mbarrier.expect announced"
            )
        if phase.arrivals == self.count and phase.came == phase.expected:
            self._issued.append(phase)
            self._open = _Phase()

    def wait(self, parity: int) -> None:
        """Wait until the phase with this parity is complete. Raises TritonError if nothing that was issued completes it."""
        own = current()
        while self._issued and all(one.tile is None or own.has_come(one.tile.handle) for one in self._issued[0].slots):
            self._finish()
        if self._done % 2 != parity:
            return
        if not self._issued:
            refuse(f"mbarrier.wait for phase {parity}, which no copy or arrival that was issued completes; check it")
        self._finish()

    def _finish(self) -> None:
        wait_for(self._issued.popleft().slots)
        self._done += 1
