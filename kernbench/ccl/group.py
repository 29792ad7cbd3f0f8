"""Groups of ranks on a machine: the PE of each rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import atan2

from kernbench.ccl.contract import Shape
from kernbench.ccl.rings import (
    MESH,
    RING,
    TOPO_NAME_TO_KIND,
    circle,
    kind_of_dimensions,
    name_of_kind,
    sizes_of_kind,
)
from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.config import SystemConfig, load_config
from kernbench.config.kinds import a_system, larger
from kernbench.config.machine import MachineConfig
from kernbench.config.system.dimensions import DIMENSIONS, combining_dimension, sizes_of
from kernbench.policy.placement import Size
from kernbench.topology.mesh_gen import mesh_of


@dataclass(frozen=True)
class Group:
    """Ranks on the PEs of a system: `pes` PEs in each of `cubes` cubes in each of `sips` SIPs, counted from the first.

    SIPs are in the order of the machine, cubes along a path of neighbouring cubes, and PEs once around the cube.
    """

    shape: Shape
    kind: int
    pes: tuple[str, ...]  #: by rank
    rows: tuple[int, ...]  #: by rank: the number of its PE among those of the group, as the machine counts them
    placed: Shape | None = None  #: of the group whose PEs hold its tensors, and to which rows refer; None: its own

    @property
    def size(self) -> int:
        return len(self.pes)

    @property
    def kind_name(self) -> str:
        """The arrangement: ring, torus or mesh. Where SIPs have dimensions, it is a ring."""
        return name_of_kind(self.kind)

    @property
    def arranged(self) -> str:
        """The arrangement, with the sizes of the dimensions."""
        sizes = sizes_of_kind(self.kind)
        return f"{' x '.join(map(str, sizes))} dimensions" if sizes else self.kind_name


def group_of(config: MachineConfig, shape: Shape, topo: str | None = None) -> Group:
    """Return a group of this shape.

    With `kind: rails`, the first level of the group are the rows of SIPs, and the second level are the SIPs of a row.

    Parameters
    ----------
    config
        The machine.
    shape
        The numbers of SIPs, cubes and PEs.
    topo
        The assumed arrangement of the SIPs, or of the ranks of one SIP; None means the real arrangement.

    Raises
    ------
    InputError
        If the machine is not a system, if it has too few SIPs, cubes or PEs, or if it does not have this arrangement.
    """
    system, there = _there(config)
    for name, wanted, most in zip(("SIPs", "cubes of a SIP", "PEs of a cube"), shape, there, strict=True):
        if not 1 <= wanted <= most:
            rule = f"the group takes {wanted} {name}, and there are {most}" if wanted else "each number must be at least 1"
            raise InputError(Problem(config.source, rule, "shape", str(shape)))
    if topo is not None and topo not in TOPO_NAME_TO_KIND:
        raise InputError(Problem("group", f"it must be one of {', '.join(TOPO_NAME_TO_KIND)}", "topo", topo))
    kind = kind_of(system, shape, topo)
    cubes, pes = cubes_of(system, shape.cubes), _pes(system, shape.pes)
    places = [(sip, cube, pe) for sip in range(shape.sips) for cube in cubes for pe in pes]
    names = tuple(naming.place(sip, cube=cube, pe=pe) for sip, cube, pe in places)
    return by_nodes(system, Group(shape, kind, names, tuple(shape.rank(*place) for place in places)))


def kind_of(system: SystemConfig, shape: Shape, topo: str | None = None) -> int:
    """Return the arrangement of a group: that of the SIPs, unless `topo` names another."""
    arranged = system.system.kind if shape.sips > 1 else "ring"  # where every two are linked, a ring is as good as any
    if topo is None and arranged == DIMENSIONS:
        sizes = _sizes_for(sizes_of(system), shape.sips)
        return kind_of_dimensions(sizes, combining_dimension(system)) if sizes else RING
    return TOPO_NAME_TO_KIND.get(arranged if topo is None else topo, RING)


def _sizes_for(sizes: Sequence[int], sips: int) -> tuple[int, ...]:
    """Return the dimensions of the first SIPs of a machine: whole dimensions, and a part of the next one. More SIPs than the
    machine has are in a longer last dimension. Return no dimensions for another number of SIPs.
    """
    found: list[int] = []
    for number, size in enumerate(sizes):
        last = number == len(sizes) - 1 or sips <= size
        found.append(sips if last else size)
        if last:
            return tuple(found)
        if sips % size:
            return ()
        sips //= size
    return ()


def by_nodes(system: SystemConfig, group: Group) -> Group:
    """Return a group with nodes as its first level, if the machine has rails and the group takes whole nodes."""
    shape, cols = group.shape, system.sip_cols
    if system.system.kind != "rails" or shape.sips <= cols or shape.sips % cols:
        return group
    # Ranks of one column are on one rail, as those of one cube of each SIP elsewhere.
    return replace(group, shape=Shape(shape.sips // cols, cols * shape.cubes, shape.pes), placed=shape)


def with_root(group: Group, root: int) -> Group:
    """Return the same ranks, starting with another rank."""
    order = [*range(root, group.size), *range(root)]
    pes, rows = tuple(group.pes[rank] for rank in order), tuple(group.rows[rank] for rank in order)
    return replace(group, shape=Shape(1, 1, group.size), kind=RING, pes=pes, rows=rows, placed=group.placed or group.shape)


def shape_for(config: MachineConfig, ranks: int) -> Shape:
    """Return a shape with this number of ranks on as few SIPs as possible, and on as few cubes as possible in each SIP.

    Each SIP and each cube has the same number of ranks. Raises InputError, which names the nearest possible numbers, if there
    is no such shape.
    """
    _, there = _there(config)
    found = _shape_for(there, ranks)
    if found is not None:
        return found
    most = there.sips * there.cubes * there.pes
    parts = [f"{count} {name}{'s' * (count > 1)}" for count, name in zip(there, ("SIP", "cube", "PE"), strict=True)]
    rule = f"{config.source} has {most} PEs ({' x '.join(parts)})"
    if ranks > most:
        fits = larger(ranks)
        remedy = f"use at most {most} ranks, or a larger machine ({fits or '--config'})"
        raise InputError(Problem("group", rule, "ranks", ranks, remedy))
    near = [next(n for n in way if _shape_for(there, n)) for way in (range(ranks, 0, -1), range(ranks, most + 1))]
    remedy = f"every cube must get the same number of ranks; use {near[0]} or {near[1]}"
    raise InputError(Problem("group", rule, "ranks", ranks, remedy))


PRESETS = ("single_cube", "two_sips", "sip_4x4", "pod_8sip")  #: systems of the package, from the smallest to the largest


def smallest_machine(ranks: int) -> SystemConfig:
    """Return the smallest preset that has at least this many PEs. Raises InputError in the cases of `shape_for`."""
    for name in PRESETS:
        config = load_config(name, kind=SystemConfig)
        try:
            shape_for(config, ranks)
        except InputError:
            if name == PRESETS[-1]:
                raise
        else:
            return config
    raise AssertionError


def _shape_for(there: Size, ranks: int) -> Shape | None:
    """Return the first shape with this number of ranks."""
    for sips in range(1, there.sips + 1):
        for cubes in range(1, there.cubes + 1):
            pes, rest = divmod(ranks, sips * cubes)
            if not rest and 1 <= pes <= there.pes:
                return Shape(sips, cubes, pes)
    return None


def _there(config: MachineConfig) -> tuple[SystemConfig, Size]:
    system = a_system("group", config)
    return system, Size(*system.shape)


def cubes_of(config: SystemConfig, count: int) -> tuple[int, ...]:
    """Return the first cubes, each next to the cube before it where possible."""
    if count == config.cubes:
        return circle(MESH, config.sip.rows, config.sip.cols)
    cols = config.sip.cols
    order = [row * cols + (cols - 1 - col if row % 2 else col) for row in range(config.sip.rows) for col in range(cols)]
    return tuple(cube for cube in order if cube < count)


def _pes(config: SystemConfig, count: int) -> tuple[int, ...]:
    """Return the first PEs of a cube, in the order once around the centre of the cube."""
    mesh = mesh_of(config)
    places = [naming.router_place(mesh.parts[naming.pe(pe)].router) for pe in range(count)]
    middle = (config.cube.mesh.rows - 1) / 2, (config.cube.mesh.cols - 1) / 2
    return tuple(sorted(range(count), key=lambda pe: (atan2(places[pe][0] - middle[0], places[pe][1] - middle[1]), pe)))
