"""Collectives of chips over the links of a node, on GPUs in the protocols that NCCL has, and over the network between nodes.

A protocol trades latency for bandwidth: short messages carry a flag with each word and cost most of the bandwidth, and longer
ones first fill buffers. The planner takes the fastest. Chips of other kinds have one way, or two for short and long messages.
Between nodes, GPUs use a ring over all of them, or a tree over the nodes with a chain in each. A step within a node and a step
between nodes have latencies of their own, and the network adapters of a node carry the bytes.
"""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil, floor, log2
from typing import NamedTuple

from kernbench.config.chip import Chip
from kernbench.config.runtime import Runtime
from kernbench.workloads.ops.chip_view import ChipView
from kernbench.workloads.ops.kernel import Kernel
from kernbench.workloads.ops.operation import Collective

#: [ns] of a kernel of NCCL beside its steps, as NCCL's own tuner assumes for the low-latency protocol (baseLatencies in
#: src/graph/tuning.cc, NCCL 5067397c). It is work of the device: captured graphs save the launch, not this time.
NCCL_START_NS = 6_600.0
#: Name, [ns] until its buffers are filled, latency of a step over that of the link, share of the bandwidth of long messages.
#: Latencies of steps: 0.6, 1.9 and 3.4 us over NVLink (hwLatencies in the same file). The others were fitted together on
#: all-reduces of 2, 4 and 8 A100 (Vidur 7d47513) and of 4 A100 (LLMCompass 2e015fd2). `links_share` is that of long messages.
NCCL = (
    ("low latency", 0.0, 1.0, 0.05),
    ("low latency, 128 bytes", 19_600.0, 1.9 / 0.6, 0.658),
    ("simple", 77_100.0, 3.4 / 0.6, 1.0),
)
#: The same over PCIe, where a flag with each word costs half of the bandwidth, and the second protocol is not used
#: (hwLatencies, baseLatencies and llMaxBw in the same file).
NCCL_PCI = (("low latency", 0.0, 1.0, 0.5), ("simple", 1_800.0, 5.7, 1.0))
LOW_LATENCY_GB_S = 11.25  #: of that protocol at least, where links have twice as much: its share of the links of an A100
PCI_NS = 1_000.0  #: a step of the first protocol over PCIe (same file)
#: NCCL's all-reduce in the switches of a node: its latency [ns], and the share of the links that it reaches, by major version
#: of the instruction set (hwLatencies and nvlsEfficiency in the same file). Two GPUs do not use it. Each GPU sends the whole
#: message, of which the switches add up one part for each GPU, and then the sum of its own part.
SWITCH_NS, SWITCH_SHARE = 25_000.0, {9: 0.85, 10: 0.74}
#: Of a step of NCCL's low-latency protocol, a barrier of all GPUs: as a step of its protocol for long messages, because both
#: write a flag after a fence: assumed.
BARRIER = 3.4 / 0.6
ONE_SHOT, TWO_SHOT = 2, 3  #: barriers of an all-reduce in one kernel: before it reads, between its halves, before it ends
#: Latency of a step of long messages over that of short ones, on chips that send the two in different ways: assumed.
LONG = 4.0
DIRECT = ("send_recv",)  #: no reduction: the links' rated bandwidth, in one step
#: Of the last-level cache, the part that can hold the message of repeated sends; a longer one is read from DRAM. Fitted on two
#: A100 (Vidur 7d47513), where a byte takes a fifth more time from between 31 and 37 MB on.
HELD = 0.8
#: The share of the links' rate that a message from DRAM reaches: few channels wait for longer loads (same source). PCIe is slow
#: enough for these loads.
MISSED = 0.76
RING = 0.8  #: the share of the network adapters' rate that a collective of GPUs sustains (same source)
OTHERS_RING = 0.75  #: the same of other chips: assumed


class Between(NamedTuple):
    """A protocol of NCCL between nodes: latencies of steps in ns, and shares, as its tuner assumes (same file of NCCL)."""

    name: str
    start: float  #: of a kernel beside its steps
    ring_inside: float  #: a step of a ring in a node, at least the time in which the host posts what is sent
    ring_between: float  #: a step of a ring between nodes, beside the latency of the network
    tree_inside: float
    tree_between: float  #: of a tree, and of a ring with one GPU in each node
    passes: int  #: of the latency of the network in a step: long messages wait until their bytes are visible
    ring_slower: float  #: latency of a whole ring over that of its steps
    ring_share: float  #: of the bandwidth
    tree_share: float
    most_gb_s: float | None  #: of all adapters of a node


BETWEEN = (
    Between("low latency", 6_600.0, 2_000.0, 2_700.0, 600.0, 5_000.0, 1, 1.0, 0.5, 0.92 / 3.8, 22.5),
    Between("simple", 8_400.0, 6_000.0, 14_000.0, 4_000.0, 14_000.0, 2, 1.4, 1.0, 0.92, None),
)
#: The share of its bandwidth that a tree reaches with messages of medium size, from and to [byte], and the size from which it
#: reaches all: the tuner's table in short. In between the share grows with the size, so that no longer message takes less time.
TREE_MEDIUM, MEDIUM, LARGE = 0.55, (16 << 10, 16 << 20), 64 << 20


def sent_bytes(op: Collective) -> float:
    """Bytes that each chip must send."""
    many = op.workers
    factor = {"all_reduce": 2 * (many - 1) / many, "send_recv": 1.0}.get(op.name, (many - 1) / many)
    return op.nbytes * factor


def steps(op: Collective, kind: str) -> int:
    """Steps in a row: a ring over the GPUs of a node, as NCCL's tuner counts them; a tree over nodes, and over other chips."""
    if op.name in DIRECT:
        return 1
    if kind != "gpu" or op.crosses:
        return ceil(log2(op.workers))
    return (op.workers - 1) * (2 if op.name == "all_reduce" else 1)


def _linked(chip: Chip, op: Collective) -> bool:
    """Whether links of their own join the chips, or the host's PCIe does."""
    return chip.links > 1 and (chip.linked_chips is None or op.workers <= chip.linked_chips)


def _protocols(chip: Chip, linked: bool) -> tuple[tuple[str, float, float, float], ...]:
    if chip.kind == "gpu" and linked:
        first, *rest = NCCL
        sustained = chip.links * float(chip.link_gb_s * chip.links_share)
        return (*first[:3], max(first[3], min(NCCL_PCI[0][3], LOW_LATENCY_GB_S / sustained))), *rest
    if chip.kind == "gpu":
        return NCCL_PCI
    if chip.links_short_share is None:
        return (("plain", 0.0, 1.0, 1.0),)
    return ("short", 0.0, 1.0, float(chip.links_short_share / chip.links_share)), ("long", 0.0, LONG, 1.0)


def _tree_reaches(nbytes: int) -> float:
    """The share of its bandwidth that a tree between nodes reaches with messages of this size."""
    first, last = MEDIUM
    if nbytes < first or nbytes >= LARGE:
        return 1.0
    return float(TREE_MEDIUM ** (1 - log2(max(nbytes, last) / last) / log2(LARGE / last)))


def _between(chip: Chip, op: Collective) -> tuple[float, float, int, str]:
    """Of a collective between nodes, the start of its kernel [ns], its time after that, its steps, and how it is done."""
    rate, latency = min(op.node, chip.nics) * float(chip.nic_gb_s), float(chip.network_latency_ns)
    if op.name in DIRECT:
        start, passes = (NCCL_START_NS, BETWEEN[-1].passes) if chip.kind == "gpu" else (0.0, 1)
        return start, passes * latency + sent_bytes(op) / rate, 1, "network"
    if chip.kind != "gpu":
        many = steps(op, chip.kind)
        return 0.0, many * latency + sent_bytes(op) / (rate * OTHERS_RING), many, "network"
    rounds = 2 if op.name == "all_reduce" else 1
    nodes = ceil(op.workers / op.node)
    between, inside = rounds * (nodes - 1), rounds * (op.workers - nodes)
    found: list[tuple[float, float, int, str]] = []
    for one in BETWEEN:
        most = min(rate * RING * one.ring_share, one.most_gb_s or rate)
        step = (one.tree_between if op.node == 1 else one.ring_between) + one.passes * latency
        took = one.ring_slower * (inside * one.ring_inside + between * step) + sent_bytes(op) / most
        found.append((one.start, took, inside + between, f"ring, {one.name}"))
        if op.name == "all_reduce":
            levels, chain = floor(log2(nodes)), op.node - 1
            most = min(rate * RING * one.tree_share, one.most_gb_s or rate)
            most *= _tree_reaches(op.nbytes)
            took = 2 * (chain * one.tree_inside + levels * (one.tree_between + one.passes * latency)) + 2 * op.nbytes / most
            found.append((one.start, took, 2 * (chain + levels), f"tree, {one.name}"))
    return min(found, key=lambda way: way[0] + way[1])


def _one_kernel(
    op: Collective, rated: float, latency: float, most: Mapping[str, int], longest: int
) -> tuple[float, int] | None:
    """Time and steps of an all-reduce in one kernel of a server: all GPUs read each other's memory. None for NCCL's.

    `most`: every GPU reads a shorter message whole, by the number of GPUs. `longest`: the GPUs reduce parts of a shorter
    message, and then read the parts of others.
    """
    sizes = sorted((int(count), nbytes) for count, nbytes in most.items())
    whole = next((nbytes for count, nbytes in sizes if op.workers <= count), -1)
    if op.name != "all_reduce" or whole < 0 or op.nbytes >= max(whole, longest):
        return None
    barrier = latency * BARRIER
    if op.nbytes < whole:
        return ONE_SHOT * barrier + (op.workers - 1) * op.nbytes / rated, ONE_SHOT
    return TWO_SHOT * barrier + sent_bytes(op) / rated, TWO_SHOT


def plan_collective(view: ChipView, op: Collective, runtime: Runtime | None = None) -> Kernel:
    """A kernel whose body is the time on the links."""
    chip = view.chip
    linked = chip.kind != "gpu" or _linked(chip, op)
    rated = chip.links * float(chip.link_gb_s) if linked or chip.links == 1 else float(chip.host_link_gb_s)  # [byte/ns]
    latency, many = float(chip.link_latency_ns) if linked else PCI_NS, steps(op, chip.kind)
    start = NCCL_START_NS if chip.kind == "gpu" else 0.0
    direct = None
    if chip.kind == "gpu" and linked and not op.crosses and runtime is not None:
        direct = _one_kernel(op, rated, latency, runtime.one_shot_bytes, runtime.two_shot_bytes)
    if op.crosses:
        start, took, many, name = _between(chip, op)
    elif direct is not None:
        (took, many), start, name = direct, 0.0, "one kernel"
    elif op.name in DIRECT:
        held = not linked or not chip.cache_bytes or op.nbytes <= HELD * float(chip.cache_bytes)
        took, name = latency + sent_bytes(op) / (rated if held else rated * MISSED), "direct"
    else:
        rate = rated * float(chip.links_share)
        took, name = min(
            (once + many * latency * slower + sent_bytes(op) / (rate * share), name)
            for name, once, slower, share in _protocols(chip, linked)
        )
        switched = SWITCH_SHARE.get(int(chip.compute_capability or 0)) if linked and op.workers > 2 else None
        if switched and op.name == "all_reduce":
            in_switch = SWITCH_NS + op.nbytes * (op.workers + 1) / op.workers / (rate * switched)
            took, name = min((took, name), (in_switch, "in the switches"))
    return Kernel(
        op.name, "ve", view.cycles(start + took), notes={"protocol": name, "steps": many, "sent_bytes": int(sent_bytes(op))}
    )
