"""Process groups and device meshes: which ranks call a collective together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod

import numpy as np

from kernbench.ccl.contract import Shape
from kernbench.ccl.group import Group
from kernbench.ccl.rings import RING
from kernbench.common.dtypes import Array
from kernbench.common.errors import InputError, Problem


@dataclass(frozen=True)
class ProcessGroup:
    """Ranks that call collectives together, with a number that distinguishes groups of the same ranks."""

    ranks: tuple[int, ...]  #: by rank in the group
    number: int = 0  #: how many groups of these ranks were made before

    def size(self) -> int:
        """Return the number of ranks."""
        return len(self.ranks)

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


@dataclass(frozen=True)
class DeviceMesh:
    """The ranks in an array whose axes have names. Each line along an axis is a group."""

    ranks: tuple[int, ...]  #: row-major
    shape: tuple[int, ...]
    mesh_dim_names: tuple[str, ...]
    me: int  #: the rank that looks at it
    groups: tuple[ProcessGroup, ...]  #: by axis: that of `me`
    device_type: str = "cpu"  #: as it was given; all devices are PEs of the machine

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def mesh(self) -> Array:
        """The ranks in an array."""
        return np.array(self.ranks).reshape(self.shape)

    def get_rank(self) -> int:
        """Return this rank among all workers."""
        return self.me

    def get_all_groups(self) -> list[ProcessGroup]:
        """Return the groups of this rank along all axes."""
        return list(self.groups)

    def axis(self, dim: int | str | None) -> int:
        """Return the number of an axis. Raises InputError if there is no axis of this name."""
        if dim is None and len(self.shape) == 1:
            return 0
        if isinstance(dim, str) and dim in self.mesh_dim_names:
            return self.mesh_dim_names.index(dim)
        if isinstance(dim, int) and 0 <= dim < len(self.shape):
            return dim
        there = ", ".join(self.mesh_dim_names) or f"0 to {len(self.shape) - 1}"
        raise InputError(Problem("device mesh", f"it must be one of the axes of the mesh, {there}", "dim", str(dim)))

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """Return the group of this rank along an axis."""
        return self.groups[self.axis(mesh_dim)]

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return the position of this rank along an axis."""
        return self.get_group(mesh_dim).rank_of(self.me)

    def get_coordinate(self) -> tuple[int, ...]:
        """Return the position of this rank along all axes."""
        return tuple(group.rank_of(self.me) for group in self.groups)

    def size(self, mesh_dim: int | str | None = None) -> int:
        """Return the number of all ranks, or of the ranks along an axis."""
        return prod(self.shape) if mesh_dim is None else self.shape[self.axis(mesh_dim)]

    def __getitem__(self, names: str | Sequence[str]) -> DeviceMesh:
        """Return the part of the mesh along these axes that contains this rank."""
        wanted = (names,) if isinstance(names, str) else tuple(names)
        axes = [self.axis(name) for name in wanted]
        if axes != sorted(set(axes)):
            rule = f"the axes must be in the order of the mesh, {', '.join(self.mesh_dim_names)}"
            raise InputError(Problem("device mesh", rule, "names", ", ".join(wanted)))
        at = tuple(slice(None) if axis in axes else one for axis, one in enumerate(self.get_coordinate()))
        part = self.mesh[at]
        groups = tuple(self.groups[axis] for axis in axes)
        return DeviceMesh(tuple(part.reshape(-1).tolist()), part.shape, wanted, self.me, groups, self.device_type)


def lines(ranks: Sequence[int], shape: Sequence[int], axis: int) -> list[tuple[int, ...]]:
    """Return the lines along an axis of the ranks in an array of this shape."""
    step = prod(shape[axis + 1 :])
    starts = [at for at in range(len(ranks)) if not at // step % shape[axis]]
    return [tuple(ranks[at + step * one] for one in range(shape[axis])) for at in starts]
