"""Where an address is, and which way data and commands travel: `AddressResolver` and `PathRouter`."""

from kernbench.policy.routing.resolver import AddressResolver
from kernbench.policy.routing.route import Route
from kernbench.policy.routing.router import NoPath, PathRouter
from kernbench.policy.routing.virtual import VirtualMap, VirtualRange
from kernbench.policy.routing.windows import HbmPlace
from kernbench.topology.graphs import LEFT_OUT, Graph, Measure

__all__ = [
    "LEFT_OUT",
    "AddressResolver",
    "Graph",
    "HbmPlace",
    "Measure",
    "NoPath",
    "PathRouter",
    "Route",
    "VirtualMap",
    "VirtualRange",
]
