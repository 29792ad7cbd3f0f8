"""The location of addresses, and the routes of data and commands: `AddressResolver` and `PathRouter`."""

from kernbench.policy.routing.resolver import AddressResolver, HbmLocation, VirtualMap, VirtualRange
from kernbench.policy.routing.router import NoPath, PathRouter, Route
from kernbench.topology.graph import LEFT_OUT, Graph, Measure

__all__ = [
    "LEFT_OUT",
    "AddressResolver",
    "Graph",
    "HbmLocation",
    "Measure",
    "NoPath",
    "PathRouter",
    "Route",
    "VirtualMap",
    "VirtualRange",
]
