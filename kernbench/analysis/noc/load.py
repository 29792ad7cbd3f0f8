"""Latency and throughput of a network of routers under synthetic traffic."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np

from kernbench.noc.network import MeshSpec
from kernbench.noc.routers import Ints
from kernbench.noc.traffic import Traffic
from kernbench.sim_engine.machine import flit_load

CHUNK = 1000  #: [clock] of traffic that is drawn at once
SATURATED = 3  #: times the latency of an idle network
FINE = 0.01  #: relative tolerance of the saturation point


@dataclass(frozen=True, slots=True)
class Window:
    """Packets that are created in `[warmup, warmup + clocks)` are measured. Traffic continues until all of them have
    arrived."""

    warmup: int = 3000
    clocks: int = 10000
    most: int = 30000  #: clocks after the window; a network that still holds measured packets then is saturated


@dataclass(frozen=True, slots=True)
class LoadPoint:
    """What one load gave."""

    rate: float  #: [flits per node and clock] offered
    packets: int  #: measured
    latency: float  #: [clock] mean from birth to the ejection of the tail
    p50: float
    p99: float
    accepted: float  #: [flits per node and clock] ejected in the window
    clocks: int  #: simulated
    drained: bool  #: all measured packets arrived
    links: list[dict[str, Any]] = field(default_factory=list)  #: the most loaded

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)


def run_load(net: MeshSpec, traffic: Traffic, window: Window = Window(), *, links: int = 0, skip: bool = True) -> LoadPoint:
    """Simulate one load. `links`: of how many of the most loaded links the counters are returned."""
    traffic.check(net)
    hops, first = _routes(net)
    load = flit_load(net.tables(hops))
    end = window.warmup + window.clocks
    births: list[Ints] = []
    at = 0
    while True:
        born, source, target = traffic.births(net, at, at + CHUNK)
        rows = np.empty((len(born), 5), dtype=np.int64)
        columns: tuple[Ints | int, ...] = (born, source, target, _first(net, first, source, target), traffic.flits)
        for column, values in enumerate(columns):
            rows[:, column] = values
        load.offer(rows)
        births.append(born)
        at += CHUNK
        load.run(at, skip)
        if at < end:
            continue
        born, ends = np.concatenate(births), load.ends()
        mine = slice(*np.searchsorted(born, (window.warmup, end)))
        drained = bool((ends[mine] >= 0).all())
        if drained or at >= end + window.most:
            break
    waits = ends[mine] - born[mine]
    waits = waits[ends[mine] >= 0]
    p50, p99 = np.percentile(waits, (50, 99)).tolist() if len(waits) else (0.0, 0.0)
    moved = int(np.count_nonzero((ends >= window.warmup) & (ends < end))) * traffic.flits
    return LoadPoint(
        rate=traffic.rate,
        packets=len(waits),
        latency=float(np.mean(waits)) if len(waits) else 0.0,
        p50=p50,
        p99=p99,
        accepted=moved / window.clocks / net.nodes,
        clocks=at,
        drained=drained,
        links=_busiest(net, load, at, links),
    )


@lru_cache(maxsize=4)
def _routes(net: MeshSpec) -> tuple[Ints, Ints]:
    """Hops of the routes of all pairs, and the first of each; nothing under adaptive routing."""
    if net.escapes:
        return np.empty((0, 3), dtype=np.int64), np.empty(0, dtype=np.int64)
    source, target = np.divmod(np.arange(net.nodes * net.nodes), net.nodes)
    return net.hops(source, target)


def _first(net: MeshSpec, first: Ints, source: Ints, target: Ints) -> Ints:
    return first[source * net.nodes + target] if len(first) else np.zeros_like(source)


def _busiest(net: MeshSpec, load: Any, clocks: int, most: int) -> list[dict[str, Any]]:
    """The links with the most flits."""
    found = []
    counts, names = load.outputs(), net.names()
    for k in np.argsort(-counts[:, 0], kind="stable")[:most].tolist():
        flits, no_credit, no_channel, lost = counts[k].tolist()
        use = flits / clocks
        found.append({"link": names[k], "use": use, "no_credit": no_credit, "no_channel": no_channel, "lost": lost})
    return found


def idle_latency(net: MeshSpec, traffic: Traffic) -> float:
    """[clock] mean of packets of this traffic on an idle network."""
    source, target = traffic.pairs(net)
    y, x = np.divmod(source, net.columns)
    ty, tx = np.divmod(target, net.columns)
    dx, dy = np.abs(x - tx), np.abs(y - ty)
    if net.kind == "torus":
        dx, dy = np.minimum(dx, net.columns - dx), np.minimum(dy, net.rows - dy)
    return float(np.mean([net.alone(int(hops), traffic.flits) for hops in (dx + dy)]))


def sweep(net: MeshSpec, traffic: Traffic, rates: Iterable[float], window: Window = Window()) -> list[LoadPoint]:
    """One point a load."""
    return [run_load(net, replace(traffic, rate=rate), window) for rate in rates]


def saturation(net: MeshSpec, traffic: Traffic, window: Window = Window()) -> float:
    """[flits per node and clock] The largest load, to `FINE` of it, at which the mean latency is below `SATURATED` times that
    of an idle network. The draws of all loads are the same."""
    limit = SATURATED * idle_latency(net, traffic)

    def holds(rate: float) -> bool:
        point = run_load(net, replace(traffic, rate=rate), window)
        return point.drained and point.latency < limit

    low, high = 0.0, float(traffic.flits)
    top = 1.0
    if holds(min(top, high)):
        return min(top, high)
    high = top
    while high - low > FINE * high:
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
