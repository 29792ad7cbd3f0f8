"""Process groups: which ranks call a collective together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from kernbench.ccl.contract import Shape
from kernbench.ccl.group import Group
from kernbench.ccl.rings import RING


@dataclass(frozen=True)
class ProcessGroup:
    """Ranks that call collectives together, with a number that distinguishes groups of the same ranks."""

    ranks: tuple[int, ...]  #: by rank in the group
    number: int = 0  #: how many groups of these ranks were made before

    def size(self) -> int:
        """Return the number of ranks."""
        return len(self.ranks)

    def name(self) -> str:
        """Return the name that the calling worker gave to `init_process_group`."""
        from kernbench.ccl.dist.workers import this_worker  # of a package that imports this module

        return this_worker().backend

    def rank_of(self, rank: int) -> int:
        """Return the rank in the group for a rank of the world, or -1 if it is not a member."""
        return self.ranks.index(rank) if rank in self.ranks else -1

    def rank(self) -> int:
        """Return the rank of the calling worker in the group, or -1 if the worker is not a member."""
        from kernbench.ccl.dist.workers import this_worker  # of a package that imports this module

        return self.rank_of(this_worker().rank)


def on_machine(world: Group, ranks: Sequence[int]) -> Group:
    """Return these ranks as a group. It has the levels of the machine if each SIP and each cube has the same number of ranks.
    """
    if tuple(ranks) == tuple(range(world.size)):
        return world
    places = [world.shape.place(rank) for rank in ranks]
    sips, cubes, pes = (sorted({place[level] for place in places}) for level in range(3))
    whole = [world.shape.rank(*place) for place in product(sips, cubes, pes)] == list(ranks)
    return Group(
        Shape(len(sips), len(cubes), len(pes)) if whole else Shape(1, 1, len(ranks)),
        world.kind if whole and len(sips) == world.shape.sips else RING,
        tuple(world.pes[rank] for rank in ranks),
        tuple(range(len(ranks))),
    )


def rooted(group: Group, root: int) -> Group:
    """Return the same ranks, starting with another rank."""
    if not root:
        return group
    order = [*range(root, group.size), *range(root)]
    pes = tuple(group.pes[rank] for rank in order)
    return replace(group, shape=Shape(1, 1, group.size), kind=RING, pes=pes, rows=tuple(range(group.size)))


def lines(ranks: Sequence[int], shape: Sequence[int], axis: int) -> list[tuple[int, ...]]:
    """Return the lines along an axis of the ranks in an array of this shape."""
    step = prod(shape[axis + 1 :])
    starts = [at for at in range(len(ranks)) if not at // step % shape[axis]]
    return [tuple(ranks[at + step * one] for one in range(shape[axis])) for at in starts]
