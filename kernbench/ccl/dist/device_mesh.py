"""Device meshes: ranks in an array whose axes have names, with a group for each line along an axis."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from kernbench.ccl.dist.errors import ArgumentError, AxisError
from kernbench.ccl.dist.process_groups import group_of, new_group
from kernbench.ccl.dist.workers import integer, joined
from kernbench.ccl.process_groups import ProcessGroup, lines
from kernbench.common.dtypes import Array
from kernbench.common.errors import Problem


class DeviceMesh:
    """Ranks in an array. Each line along an axis is a group. Every worker makes the same mesh.

    Parameters
    ----------
    device_type
        The type of the devices, which is only kept.
    mesh
        The ranks: a nested list, an array or a tensor of torch. Workers whose rank is not in the array have no groups.
    mesh_dim_names
        Names for the axes.
    ignored
        Other parameters of torch, without effect.

    Raises
    ------
    InputError
        If a rank does not exist or is there twice, or if there is not one name for each axis.
    """

    def __init__(self, device_type: str, mesh: Any, *, mesh_dim_names: Sequence[str] | None = None, **ignored: Any) -> None:
        me = joined("DeviceMesh")
        self._ranks = np.array(mesh.tolist() if hasattr(mesh, "tolist") else mesh, np.int32)
        self.device_type, self._me = device_type, me.rank
        self.mesh_dim_names = None if mesh_dim_names is None else tuple(mesh_dim_names)
        every, size = self._ranks.reshape(-1).tolist(), me.world.ranks.size()
        if not every or len(set(every)) < len(every) or not 0 <= min(every) <= max(every) < size:
            rule = f"it must have different ranks from 0 to {size - 1}"
            raise ArgumentError(Problem(f"dist.DeviceMesh of rank {me.rank}", rule, "mesh", str(self._ranks.tolist())))
        if self.mesh_dim_names is not None and not len(set(self.mesh_dim_names)) == len(self.mesh_dim_names) == self.ndim:
            rule = f"it must have a different name for each of the {self.ndim} axes"
            raise ArgumentError(Problem("dist.DeviceMesh", rule, "mesh_dim_names", ", ".join(self.mesh_dim_names)))
        made = [[new_group(line) for line in lines(every, self.shape, axis)] for axis in range(self.ndim)]
        mine = [next((one for one in row if me.rank in one.ranks), None) for row in made]
        self._groups = [one for one in mine if one is not None]
        self._flat: dict[str, DeviceMesh] = {}  # of this mesh and its parts, by name
        self._root: DeviceMesh = self

    def _part(self, ranks: Array, names: tuple[str, ...] | None, groups: Sequence[ProcessGroup]) -> DeviceMesh:
        found = object.__new__(DeviceMesh)
        found._ranks, found.device_type, found._me = ranks, self.device_type, self._me
        found.mesh_dim_names, found._groups, found._flat, found._root = names, list(groups), {}, self._root
        return found

    @staticmethod
    def from_group(
        group: ProcessGroup, device_type: str, mesh: Any = None, *, mesh_dim_names: Sequence[str] | None = None
    ) -> DeviceMesh:
        """Return the mesh of one axis of a group, without making another group. `mesh`: the ranks of the group, or None."""
        members = group_of("DeviceMesh.from_group", group)
        ranks = members.ranks if mesh is None else mesh.tolist() if hasattr(mesh, "tolist") else mesh
        if list(ranks) != list(members.ranks):
            rule = f"it must be the ranks of the group, {', '.join(map(str, members.ranks))}"
            raise ArgumentError(Problem("DeviceMesh.from_group", rule, "mesh", str(ranks)))
        whole = DeviceMesh(device_type, members.ranks, mesh_dim_names=mesh_dim_names)
        whole._groups = [members]
        return whole

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return self._ranks.ndim

    @property
    def shape(self) -> tuple[int, ...]:
        """The lengths of the axes."""
        return self._ranks.shape

    @property
    def mesh(self) -> Any:
        """The ranks in an array; a tensor of torch where torch is imported."""
        torch = sys.modules.get("torch")
        return torch.from_numpy(self._ranks) if hasattr(torch, "Tensor") else self._ranks  # type: ignore[union-attr]

    def get_rank(self) -> int:
        """Return this rank among all workers."""
        return self._me

    def get_all_groups(self) -> list[ProcessGroup]:
        """Return the groups of this rank along all axes."""
        return list(self._groups)

    def axis(self, dim: int | str | None) -> int:
        """Return the number of an axis. Raises InputError if there is no axis of this name."""
        names = self.mesh_dim_names or ()
        if dim is None and self.ndim == 1:
            return 0
        if isinstance(dim, str) and dim in names:
            return names.index(dim)
        number = integer(dim)
        if number is not None and -self.ndim <= number < self.ndim:
            return number % self.ndim
        there = ", ".join(names) or f"0 to {self.ndim - 1}"
        raise AxisError(Problem("device mesh", f"it must be one of the axes of the mesh, {there}", "dim", str(dim)))

    def get_group(self, mesh_dim: int | str | None = None) -> ProcessGroup:
        """Return the group of this rank along an axis."""
        if isinstance(mesh_dim, str) and mesh_dim in self._root._flat:
            return self._root._flat[mesh_dim].get_group()
        axis = self.axis(mesh_dim)
        if not self._groups:
            raise ArgumentError(Problem("device mesh", f"rank {self._me} is not in the mesh, and has no groups"))
        return self._groups[axis]

    def get_local_rank(self, mesh_dim: int | str | None = None) -> int:
        """Return the position of this rank along an axis."""
        return self.get_group(mesh_dim).rank_of(self._me)

    def get_coordinate(self) -> tuple[int, ...] | None:
        """Return the position of this rank along all axes, or None if the rank is not in the mesh."""
        if not self._groups:
            return None
        return tuple(group.rank_of(self._me) for group in self._groups)

    def size(self, mesh_dim: int | str | None = None) -> int:
        """Return the number of all ranks, or of the ranks along an axis."""
        return prod(self.shape) if mesh_dim is None else self.shape[self.axis(mesh_dim)]

    def __getitem__(self, names: str | Sequence[str]) -> DeviceMesh:
        """Return the part of the mesh along these axes that contains this rank."""
        wanted = (names,) if isinstance(names, str) else tuple(names)
        if len(wanted) == 1 and wanted[0] in self._root._flat:
            return self._root._flat[wanted[0]]
        axes = [self.axis(name) for name in wanted]
        if axes != sorted(set(axes)):
            rule = f"the axes must be in the order of the mesh, {', '.join(self.mesh_dim_names or ())}"
            raise AxisError(Problem("device mesh", rule, "names", ", ".join(wanted)))
        here = self.get_coordinate() or (0,) * self.ndim
        at = tuple(slice(None) if axis in axes else one for axis, one in enumerate(here))
        return self._part(self._ranks[at], wanted, [self._groups[axis] for axis in axes] if self._groups else [])

    def _flatten(self, mesh_dim_name: str | None = None, backend_override: Any = None) -> DeviceMesh:
        """Return a mesh of one axis with all ranks of this mesh. The mesh that it is a part of knows the axis by its name."""
        name = mesh_dim_name or "_".join(self.mesh_dim_names or ())
        if name not in self._root._flat:
            ranks = self._ranks.reshape(-1)
            groups = [new_group(ranks.tolist())] if self._me in ranks else []
            self._root._flat[name] = self._part(ranks, (name,), groups)
        return self._root._flat[name]

    def __enter__(self) -> DeviceMesh:
        return self

    def __exit__(self, *ignored: object) -> None:
        pass

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, DeviceMesh) and self._key() == other._key())

    def __hash__(self) -> int:
        return hash(self._key())

    def _key(self) -> tuple[object, ...]:
        return self.device_type, self.mesh_dim_names, self.shape, self._ranks.tobytes()

    def __repr__(self) -> str:
        strides = tuple(one // self._ranks.itemsize for one in self._ranks.strides)
        named = (f"{name}={size}" for name, size in zip(self.mesh_dim_names or (), self.shape, strict=False))
        axes = f"({', '.join(named)})" if self.mesh_dim_names else str(self.shape)
        return f"DeviceMesh({axes}, {self.device_type!r}, stride={strides})"


def init_device_mesh(
    device_type: str, mesh_shape: Sequence[int], *, mesh_dim_names: Sequence[str] | None = None, backend_override: Any = None
) -> DeviceMesh:
    """Arrange ranks from 0 on in an array, in row-major order. Each line along an axis is a group.

    Parameters
    ----------
    device_type
        The type of the devices, which is only kept as `DeviceMesh.device_type`.
    mesh_shape
        The lengths of the axes. Their product is at most the number of ranks. The other ranks are not in the mesh.
    mesh_dim_names
        Names for the axes.
    backend_override
        Accepted and ignored.
    """
    size, shape = joined("init_device_mesh").world.ranks.size(), tuple(mesh_shape)
    lengths = [integer(one) for one in shape]
    if not shape or any(one is None or one < 1 for one in lengths) or prod(shape) > size:
        rule = f"it must have at most {size} ranks, and each length must be at least 1"
        raise ArgumentError(Problem("dist.init_device_mesh", rule, "mesh_shape", str(shape)))
    return DeviceMesh(device_type, np.arange(prod(shape)).reshape(shape), mesh_dim_names=mesh_dim_names)
