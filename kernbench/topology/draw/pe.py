"""The picture of a PE: its parts by what they do, data from left to right, commands from above."""

from __future__ import annotations

from kernbench.topology.draw.style import Pen, box, number_text, size_text
from kernbench.topology.draw.svg import Box, Picture
from kernbench.topology.edges import EdgeKind
from kernbench.topology.graph import Topology
from kernbench.topology.views import View

COLUMN, ROW = 176.0, 92.0  # [px] between middles
WIDTH, HEIGHT = 124.0, 50.0
#: (column, row) of each part, so that no line passes under a box.
PLACES = {
    "m_cpu": (0.0, 0.0), "pe_cpu": (1.0, 0.0), "pe_scheduler": (2.0, 0.0), "pe_ipcq": (1.0, 1.0),
    "router": (0.0, 2.0), "pe_dma": (1.0, 2.0), "pe_tcm": (2.0, 2.0), "pe_fetch_store": (3.0, 2.0),
    "pe_gemm": (4.15, 1.25), "pe_math": (4.15, 2.75),
}  # fmt: skip


def draw_pe(topology: Topology, view: View) -> Picture:
    """The parts of a PE, its router and the processor that commands it."""
    pe = topology.config.pe
    facts = {
        "pe_dma": f"{pe.dma.engines} x {pe.dma.max_concurrent_transfers} transfers",
        "pe_tcm": f"{size_text(pe.spm.size_bytes)}, {pe.spm.num_banks} banks",
        "pe_gemm": f"{pe.te.engines} x {number_text(pe.te.rate(8, 8))} MAC",
        "pe_math": f"{pe.ve.engines} x {pe.ve.lanes} lanes",
    }
    picture = Picture(f"PE {view.of}", f"{topology.config.source}; dashed lines are commands and their completions")
    boxes: dict[str, Box] = {}
    for node in view.nodes:
        column, row = PLACES[node.kind]
        boxes[node.id] = made = box(node, column * COLUMN, row * ROW, WIDTH, HEIGHT)
        picture.boxes.append(made)
        picture.label(made, [node.label, *([facts[node.kind]] if node.kind in facts else [])])
    pen = Pen(view.edges)
    for edge in pen.lines:
        a, b = boxes[edge.source], boxes[edge.target]
        points = [(a.x, a.y), _rim(b, a)] if edge.kind is EdgeKind.COMMAND else [(a.x, a.y), (b.x, b.y)]
        picture.links.append(pen.link(edge, points))
    return picture


def _rim(target: Box, source: Box) -> tuple[float, float]:
    """Where a straight line from the middle of `source` meets the rim of `target`: there its arrow stands."""
    dx, dy = source.x - target.x, source.y - target.y
    part = min(target.width / 2 / abs(dx) if dx else 1.0, target.height / 2 / abs(dy) if dy else 1.0)
    return target.x + dx * part, target.y + dy * part
