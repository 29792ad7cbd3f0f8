"""Topologies that were built in this process, with the paths found in them.

Machines of a sweep that differ elsewhere share them.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from threading import Lock
from typing import TYPE_CHECKING, Any

from kernbench.policy.routing.router import PathRouter
from kernbench.topology.builder import assemble
from kernbench.topology.graph import Topology
from kernbench.topology.layout import CubeMesh
from kernbench.topology.mesh_gen import mesh_of
from kernbench.topology.spec import check_components

if TYPE_CHECKING:
    from kernbench.config.system import SystemConfig

MOST_KEPT = 4  #: a sweep seldom changes more between one point and the next; a system of 1,024 PEs is some 20 MB

Sections = tuple[Any, ...]


@dataclass(frozen=True, slots=True)
class _Known:
    sections: Sections
    mesh: CubeMesh
    router: PathRouter


_known: deque[_Known] = deque(maxlen=MOST_KEPT)
_lock = Lock()


def topology_and_router(config: SystemConfig) -> tuple[Topology, PathRouter]:
    """The graph of a system and its paths, those found before among them. InputError for a system that cannot be built."""
    check_components(config)
    mesh, sections = mesh_of(config), _sections(config)
    with _lock:
        found = next((one for one in _known if one.sections == sections and one.mesh == mesh), None)
    if found is not None:
        topology = found.router.topology.under(config)
        return topology, PathRouter(topology, like=found.router)
    topology = assemble(config, mesh)
    router = PathRouter(topology)
    with _lock:
        _known.append(_Known(sections, mesh, router))
    return topology, router


def _sections(config: SystemConfig) -> Sections:
    """What decides nodes and edges."""
    return config.system, config.sip, config.cube, config.io, config.wires, config.pe.link
