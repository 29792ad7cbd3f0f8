"""The same traffic as flows over whole routes: a mesh with shared bandwidth and without packets."""

from __future__ import annotations

import numpy as np

from kernbench.analysis.noc.mesh import ROUTER, Load, run_mesh
from kernbench.components.base import COMPONENT, FLOW, NEVER, ComponentBase, Job
from kernbench.noc.routers import PORTS, directions, neighbours


class FluidTraffic(ComponentBase):
    """A packet is one flow over all links of its route at once, after its uncontended latency."""

    no_snapshot = "a run is one measurement"

    def __init__(self, load: Load, side: int = 8) -> None:
        super().__init__()
        self.born, source, target = load.packets(side)
        self.ends = np.full(len(self.born), -1)
        self.flows, self.jobs = max(len(self.born), 1), 1
        self._routes = [_route(side, *ends) for ends in zip(source.tolist(), target.tolist(), strict=True)]
        self._due: dict[int, list[int]] = {}
        for k, (born, route) in enumerate(zip(self.born.tolist(), self._routes, strict=True)):
            self._due.setdefault(born + (ROUTER + 1) * (len(route) - 1) + 1, []).append(k)
        self.links = (PORTS + 1) * side * side
        self._open: dict[int, int] = {}
        self._job = -1

    def step(self, now: int) -> int:
        """Packets that are due begin to flow."""
        if now == 0:
            self.submit(COMPONENT, 0)
        for k in self._due.pop(now, ()):
            self._open[self.open_flow(1, self._routes[k])] = k
        return self._next(now)

    def _next(self, now: int) -> int:
        if self._due:
            return now + 1
        if not self._open and self._job >= 0:
            self.complete(self._job)
            self._job = -1
        return NEVER

    def accept(self, job: Job, now: int) -> int:
        """The only job, which ends when every packet has arrived."""
        self._job = job.id
        return self._next(now)

    def notify(self, notice: int, number: int, now: int) -> int:
        """A packet is there."""
        if notice == FLOW:
            self.ends[self._open.pop(number)] = now + 1
        return self._next(now)


def _route(side: int, source: int, target: int) -> list[int]:
    """The link from its node, those between routers, and the one to its node."""
    near, routes = neighbours(side), directions(side)
    at, out = source, [PORTS * side * side + source + 1]  # resource 0 is the channel that every machine has
    while at != target:
        port = int(routes[at, target])
        out.append(at * PORTS + port + 1)
        at = int(near[at, port])
    return [*out, target * PORTS + 1]


def fluid_latency(load: Load) -> float:
    """[cycle] from a packet's birth to its end, on an 8x8 mesh of shared links."""
    return run_mesh(FluidTraffic(load), load)
