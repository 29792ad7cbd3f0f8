"""Networks of routers: the core equals the oracle of docs/model/flits.md, stepped and skipped; tight times; nothing is lost."""

from __future__ import annotations

import random
from dataclasses import replace

import numpy as np
import pytest

from kernbench.noc.network import LOCAL, PORTS, MeshSpec
from kernbench_core.standalone.flit_load import FlitLoad
from tests.oracles.ref_flits import Flits, Packet, Shape


def core_ends(net: MeshSpec, packets: list[Packet], *, skip: bool) -> tuple[list[int], FlitLoad]:
    """The end of each packet in the core."""
    source = np.array([packet.source for packet in packets], dtype=np.int64)
    target = np.array([packet.target for packet in packets], dtype=np.int64)
    hops, first = net.hops(source, target) if not net.escapes else (np.empty((0, 3), dtype=np.int64), np.zeros_like(source))
    rows = np.array([(p.born, p.source, p.target, f, p.flits) for p, f in zip(packets, first, strict=True)], dtype=np.int64)
    load = FlitLoad(net.tables(hops))
    load.offer(rows)
    assert load.run(100_000, skip=skip) == 0
    return load.ends().tolist(), load


def drawn(seed: int) -> tuple[MeshSpec, list[Packet]]:
    """A network and packets, dense enough that they meet."""
    r = random.Random(seed)
    kind, routing = r.choice(("mesh", "torus")), r.choice(("xy", "adaptive"))
    least = 1 + (kind == "torus") + (routing == "adaptive")
    net = MeshSpec(
        columns=r.randint(2, 5),
        rows=r.randint(2, 4),
        kind=kind,  # type: ignore[arg-type]
        routing=routing,  # type: ignore[arg-type]
        channels=r.randint(least, 5),
        depth=r.choice((1, 2, 4)),
        switch_cycles=r.choice((0, 1, 2)),
        link_cycles=r.choice((1, 2, 3)),
        credit_cycles=r.choice((0, 1, 2)),
    )
    nodes, spread = net.nodes, r.choice((1, 40, 300))
    hot = r.choice((None, r.randrange(nodes)))
    born = sorted(r.randrange(spread) for _ in range(r.randint(5, 120)))
    targets = [r.randrange(nodes) if hot is None or r.random() < 0.5 else hot for _ in born]
    return net, [Packet(r.randrange(nodes), target, r.randint(1, 6), at) for at, target in zip(born, targets, strict=True)]


def shape_of(net: MeshSpec) -> Shape:
    """The same for the oracle."""
    return Shape(
        net.columns, net.rows, net.kind == "torus", net.routing == "adaptive", net.channels, net.depth,
        net.switch_cycles, net.link_cycles, net.credit_cycles,
    )  # fmt: skip


def check(seed: int) -> None:
    """One draw: oracle, stepped and skipped."""
    net, packets = drawn(seed)
    oracle = Flits(shape_of(net))
    oracle.run(packets)
    ends = [packet.end for packet in packets]
    nodes = range(net.nodes)
    waits = [oracle.waits[r, p] for r in nodes for p in range(PORTS)] + [oracle.waits[r, 5] for r in nodes]
    held = [oracle.held[r, p] for r in nodes for p in range(PORTS)]
    for skip in (False, True):
        found, load = core_ends(net, packets, skip=skip)
        assert found == ends, f"seed {seed}: {net}"
        flits = sum(packet.flits for packet in packets)
        assert load.outputs().tolist() == waits, f"seed {seed}: {net}"
        assert load.inputs().tolist() == held, f"seed {seed}: {net}"
        counts = load.outputs()[:, 0]
        assert counts[net.nodes * PORTS :].sum() == flits
        assert counts[: net.nodes * PORTS].reshape(-1, PORTS)[:, LOCAL].sum() == flits


@pytest.mark.parametrize("seed", range(25))
def test_the_core_equals_the_oracle(seed: int) -> None:
    check(seed)


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(1000, 1600))
def test_the_core_equals_the_oracle_on_many(seed: int) -> None:
    check(seed)


@pytest.mark.parametrize(("hops", "flits"), [(0, 1), (3, 1), (3, 4), (7, 8)])
def test_a_packet_alone_ends_in_the_clock_of_the_formula(hops: int, flits: int) -> None:
    net = MeshSpec(columns=8, rows=1, channels=2)
    found, _ = core_ends(net, [Packet(0, hops, flits, 5)], skip=True)
    assert found == [5 + 2 + 4 * (hops + 1) + flits - 1] == [5 + net.alone(hops, flits)]


def test_a_buffer_of_one_flit_waits_for_each_credit() -> None:
    """The flits pass the first switch in clocks 3, 11 and 18: the second also waits for the channel of the head (1 clock), the
    third for the round trip of a credit only (switch + 2 link + credit = 7). It passes the second switch in 21."""
    net = MeshSpec(columns=2, rows=1, channels=1, depth=1)
    deep, _ = core_ends(replace(net, depth=8), [Packet(0, 1, 3, 0)], skip=True)
    shallow, _ = core_ends(net, [Packet(0, 1, 3, 0)], skip=True)
    assert (deep, shallow) == ([2 + 4 * 2 + 2], [21 + 3])


def test_one_output_serves_two_inputs() -> None:
    """Nodes 0 and 2 of a row send 4 packets each to node 1. All free channels of the local output offer themselves to input 0
    (node 2) until their pointers move on, so node 2 is served twice before node 0. One flit leaves in each clock."""
    net = MeshSpec(columns=3, rows=1, channels=8)
    packets = [Packet(node, 1, 1, 0) for _ in range(4) for node in (0, 2)]
    found, _ = core_ends(net, packets, skip=True)
    assert net.alone(1, 1) == 10
    assert found[1::2] == [10, 11, 13, 15]
    assert found[::2] == [12, 14, 16, 17]


def test_a_full_ring_of_a_torus_ends() -> None:
    """Every node sends half-way round at once: without the channels of the seam the packets would wait for ever."""
    for routing in ("xy", "adaptive"):
        net = MeshSpec(columns=6, rows=2, kind="torus", routing=routing, channels=3, depth=1)  # type: ignore[arg-type]
        packets = [Packet(n, (n + 3) % 6 + n // 6 * 6, 8, 0) for n in range(12) for _ in range(4)]
        found, _ = core_ends(net, packets, skip=True)
        assert min(found) > 0
