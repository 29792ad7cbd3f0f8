"""Collectives of chips over the links of a node, on GPUs in the protocols that NCCL has, and over the network between nodes.

A protocol trades latency for bandwidth: short messages carry a flag with each word and cost most of the bandwidth, and longer
ones first fill buffers. The planner takes the fastest. Chips of other kinds have one way, or two for short and long messages.
Between nodes, the network adapters of a node carry what one chip of a ring sends, and the links within the nodes are not waited
for.
"""

from __future__ import annotations

from math import ceil, log2

from kernbench.config.chip import Chip
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
#: Latency of a step of long messages over that of short ones, on chips that send the two in different ways: assumed.
LONG = 4.0
DIRECT = ("send_recv",)  #: no reduction: the links' rated bandwidth, in one step
#: Of the last-level cache, the part that can hold the message of repeated sends; a longer one is read from DRAM. Fitted on two
#: A100 (Vidur 7d47513), where a byte takes a fifth more time from between 31 and 37 MB on.
HELD = 0.8
MISSED = 0.76  #: of the links' rate, what a message from DRAM reaches: few channels wait for longer loads (same source)
RING = 0.75  #: of the network adapters' rate, what a ring of a collective sustains (same source)


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


def _protocols(chip: Chip) -> tuple[tuple[str, float, float, float], ...]:
    if chip.kind == "gpu":
        return NCCL
    if chip.links_short_share is None:
        return (("plain", 0.0, 1.0, 1.0),)
    return ("short", 0.0, 1.0, float(chip.links_short_share / chip.links_share)), ("long", 0.0, LONG, 1.0)


def plan_collective(view: ChipView, op: Collective) -> Kernel:
    """A kernel whose body is the time on the links."""
    chip = view.chip
    rated = chip.links * float(chip.link_gb_s)  # [byte/ns]
    latency, many = float(chip.link_latency_ns), steps(op, chip.kind)
    start = NCCL_START_NS if chip.kind == "gpu" else 0.0
    if op.crosses:
        rate = min(op.node, chip.nics) * float(chip.nic_gb_s) * (1.0 if op.name in DIRECT else RING)
        took, name = many * float(chip.network_latency_ns) + sent_bytes(op) / rate, "network"
    elif op.name in DIRECT:
        held = not chip.cache_bytes or op.nbytes <= HELD * float(chip.cache_bytes)
        took, name = latency + sent_bytes(op) / (rated if held else rated * MISSED), "direct"
    else:
        rate = rated * float(chip.links_share)
        took, name = min(
            (once + many * latency * slower + sent_bytes(op) / (rate * share), name)
            for name, once, slower, share in _protocols(chip)
        )
    return Kernel(
        op.name, "ve", view.cycles(start + took), notes={"protocol": name, "steps": many, "sent_bytes": int(sent_bytes(op))}
    )
