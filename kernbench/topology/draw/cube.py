"""The picture of a cube: its mesh as a grid, the HBM in the area without routers, and all other components at their routers."""

from __future__ import annotations

from bisect import bisect_right
from fractions import Fraction

from kernbench.common.naming import HBM, ROUTER, UCIE, ucie_place
from kernbench.topology.draw.svg import CHARACTER, LINE, SOFT, Box, Pen, Picture, Text, box, number_text, size_text
from kernbench.topology.graph import EdgeKind, Topology
from kernbench.topology.views import View, ViewEdge, ViewNode

Point = tuple[float, float]
CELL_X, CELL_Y = 148.0, 116.0  # [px] smallest distance between routers
ROOM = 100.0  # [px] additional space if the HBM is between routers
# [px] from a router to an attached component, and to the next component in this corner
SLOT_X, SLOT_Y, SLOT_STEP = 42.0, 34.0, 25.0
MARGIN, PORT_STEP = 98.0, 84.0  # [px] from the outermost routers to the die's edge; between ports of a side
PORT_WIDTH, PORT_HEIGHT, TEXT = 34.0, 22.0, 10.5


def draw_cube(topology: Topology, view: View) -> Picture:
    """One cube, with the names of the targets of its UCIe ports."""
    cube = topology.config.cube
    size = f"{float(cube.width_mm):g} mm x {float(cube.height_mm):g} mm"
    picture = Picture(f"Cube {view.of}", f"{size}, {topology.config.source}; commands are not drawn")
    pen = Pen([edge for edge in view.edges if edge.kind is not EdgeKind.COMMAND])
    grid = _Grid(view, pen.lines)
    boxes = grid.boxes()
    left, top, right, bottom = grid.die
    picture.ground.append(Box((left + right) / 2, (top + bottom) / 2, right - left, bottom - top, "head", LINE, radius=10))
    outside = {node.id: node for node in view.nodes if not node.inside}
    for edge in pen.lines:
        if edge.source in boxes and edge.target in boxes:
            a, b = boxes[edge.source], boxes[edge.target]
            picture.links.append(pen.link(edge, _ends(edge, a, b)))
        else:
            port, other = (edge.source, edge.target) if edge.source in boxes else (edge.target, edge.source)
            picture.texts.append(_beyond(boxes[port], outside[other].label, grid.die))
    for node in view.nodes:
        if node.inside:
            picture.boxes.append(boxes[node.id])
            if node.kind == HBM:
                sizes = [size_text(cube.hbm.capacity_bytes), f"{topology.config.slices} slices"]
                picture.label(boxes[node.id], [node.label, *sizes])
            else:
                picture.label(boxes[node.id], [_label(node)], size=TEXT)
    return picture


def _label(node: ViewNode) -> str:
    """A port is named by its side and number alone."""
    if node.kind != UCIE:
        return node.label
    side, number = ucie_place(node.label)
    return f"{side}{number}"


def _ends(edge: ViewEdge, a: Box, b: Box) -> list[Point]:
    """The ends of an edge: the centres of both boxes. An edge to the HBM ends at its nearest point."""
    if edge.kind is not EdgeKind.HBM:
        return [(a.x, a.y), (b.x, b.y)]
    hbm, router = (a, b) if a.width > b.width else (b, a)
    left, top, right, bottom = hbm.bounds()
    return [(router.x, router.y), (min(max(router.x, left + 4), right - 4), min(max(router.y, top + 4), bottom - 4))]


def _beyond(port: Box, name: str, die: tuple[float, float, float, float]) -> Text:
    """The target of a port, outside the die."""
    left, _, right, bottom = die
    if port.x == right:
        return Text(port.x + PORT_WIDTH / 2 + 6, port.y + 4, name, TEXT, SOFT, "start")
    if port.x == left:
        return Text(port.x - PORT_WIDTH / 2 - 6, port.y + 4, name, TEXT, SOFT, "end")
    below = PORT_HEIGHT / 2 + 14
    return Text(port.x, port.y + (below if port.y == bottom else 8 - below), name, TEXT, SOFT)


class _Axis:
    """Millimetres to pixels along one direction: routers have equal distances, and positions between two routers stay between
    them."""

    def __init__(self, places: list[Fraction], step: float) -> None:
        self.places = sorted(set(places))
        self.step = step

    def at(self, place: Fraction) -> float:
        """The pixel of a position; outside the routers, at most half a step away."""
        i = min(max(bisect_right(self.places, place) - 1, 0), max(len(self.places) - 2, 0))
        if len(self.places) == 1:
            return 0.0
        part = float((place - self.places[i]) / (self.places[i + 1] - self.places[i]))
        return (i + min(max(part, -0.5), 1.5)) * self.step

    @property
    def end(self) -> float:
        """The pixel of the last router."""
        return (len(self.places) - 1) * self.step


class _Grid:
    """The positions of all components in the drawing of a cube."""

    def __init__(self, view: View, lines: list[ViewEdge]) -> None:
        self.nodes = [node for node in view.nodes if node.inside]
        self._by_id = {node.id: node for node in self.nodes}
        self._lines = lines
        self._routers = [node for node in self.nodes if node.kind == ROUTER]
        taken = {(node.x_mm, node.y_mm) for node in self._routers}
        xs, ys = sorted({x for x, _ in taken}), sorted({y for _, y in taken})
        self._holes = [(i, j) for i, x in enumerate(xs) for j, y in enumerate(ys) if (x, y) not in taken]
        corners = -(-max((len(found) for found in self._attached().values()), default=0) // 4)
        ports = [max(1, sum(self._side(node) in pair for node in self.nodes if node.kind == UCIE)) / 2 for pair in ("ns", "ew")]
        room = 0.0 if self._holes else ROOM
        step_x = max(CELL_X + room, PORT_STEP * ports[0] / len(xs))
        step_y = max(CELL_Y + room + 2 * SLOT_STEP * max(corners - 1, 0), PORT_STEP / 2 * ports[1] / len(ys))
        self._x, self._y = _Axis(xs, step_x), _Axis(ys, step_y)
        extra = SLOT_STEP * max(corners - 1, 0)
        # In a single row or column there is no space between routers, so the HBM is beside it.
        right, bottom = (room if len(places) == 1 else 0.0 for places in (xs, ys))
        self.die = (-MARGIN, -MARGIN - extra, self._x.end + MARGIN + right, self._y.end + MARGIN + extra + bottom)

    def boxes(self) -> dict[str, Box]:
        """A box for each node, by id."""
        found = {}
        for router in self._routers:
            width = max(44.0, len(router.label) * TEXT * CHARACTER + 12)
            found[router.id] = box(router, self._x.at(router.x_mm), self._y.at(router.y_mm), width, 22)
        for name, members in self._attached().items():
            found |= self._around(found[name], members)
        for node in self.nodes:
            if node.kind == HBM:
                found[node.id] = self._hbm(node)
        for side in "nesw":
            found |= self._ports(side)
        return found

    def _attached(self) -> dict[str, list[ViewNode]]:
        """The PEs, the processor and the SRAM at each router."""
        found: dict[str, list[ViewNode]] = {}
        for edge in self._lines:
            if edge.kind in (EdgeKind.PE_ROUTER, EdgeKind.SRAM, EdgeKind.M_CPU):
                ends = [self._by_id[name] for name in (edge.source, edge.target)]
                part, router = ends if ends[1].kind == ROUTER else ends[::-1]
                found.setdefault(router.id, []).append(part)
        return found

    def _around(self, router: Box, members: list[ViewNode]) -> dict[str, Box]:
        """Place nodes in the corners of a router, each in the nearest free corner."""
        corners = [(SLOT_X, -SLOT_Y), (-SLOT_X, -SLOT_Y), (SLOT_X, SLOT_Y), (-SLOT_X, SLOT_Y)]
        free = [(x, y + SLOT_STEP * turn * (1 if y > 0 else -1)) for turn in range(-(-len(members) // 4)) for x, y in corners]
        found = {}
        for node in members:
            there = (self._x.at(node.x_mm) - router.x, self._y.at(node.y_mm) - router.y)
            x, y = min(free, key=lambda slot: (abs(slot[1]) > SLOT_Y, (slot[0] - there[0]) ** 2 + (slot[1] - there[1]) ** 2))
            free.remove((x, y))
            found[node.id] = box(node, router.x + x, router.y + y, max(42.0, len(node.label) * TEXT * CHARACTER + 10), 21)
        return found

    def _hbm(self, node: ViewNode) -> Box:
        """Place it over the grid positions without a router, else between routers."""
        if self._holes:
            columns, rows = [i for i, _ in self._holes], [j for _, j in self._holes]
            x, y = (min(columns) + max(columns)) / 2, (min(rows) + max(rows)) / 2
            width, height = max(columns) - min(columns) + 0.62, max(rows) - min(rows) + 0.62
            return box(node, x * self._x.step, y * self._y.step, width * self._x.step, height * self._y.step)
        x, y = self._x.at(node.x_mm), self._y.at(node.y_mm)
        x = (int(x // self._x.step) + 0.5) * self._x.step
        y = (int(y // self._y.step) + 0.5) * self._y.step
        return box(node, x, y, ROOM, ROOM * 0.6)

    def _side(self, port: ViewNode) -> str:
        return ucie_place(port.label)[0]

    def _ports(self, side: str) -> dict[str, Box]:
        """The ports of a side, evenly along the die's edge."""
        left, top, right, bottom = self.die
        ports = [node for node in self.nodes if node.kind == UCIE and self._side(node) == side]
        ports.sort(key=lambda node: (node.x_mm, node.y_mm))
        found = {}
        for i, node in enumerate(ports):
            part = (2 * i + 1) / (2 * len(ports))
            x = left + part * (right - left) if side in "ns" else left if side == "w" else right
            y = top + part * (bottom - top) if side in "ew" else top if side == "n" else bottom
            width = max(PORT_WIDTH, len(_label(node)) * TEXT * CHARACTER + 10)
            found[node.id] = box(node, x, y, width, PORT_HEIGHT)
        return found


COLUMN, ROW = 176.0, 92.0  # [px] between middles
WIDTH, HEIGHT = 124.0, 50.0
#: (column, row) of each component, such that no line passes under a box.
PLACES = {
    "m_cpu": (0.0, 0.0), "pe_cpu": (1.0, 0.0), "pe_scheduler": (2.0, 0.0), "pe_ipcq": (1.0, 1.0),
    "router": (0.0, 2.0), "pe_dma": (1.0, 2.0), "pe_tcm": (2.0, 2.0), "pe_fetch_store": (3.0, 2.0),
    "pe_gemm": (4.15, 1.25), "pe_math": (4.15, 2.75),
}  # fmt: skip


def draw_pe(topology: Topology, view: View) -> Picture:
    """The components of a PE, its router, and the processor that commands it."""
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
    """The point at which a straight line from the centre of `source` meets the border of `target`; the arrowhead is there."""
    dx, dy = source.x - target.x, source.y - target.y
    part = min(target.width / 2 / abs(dx) if dx else 1.0, target.height / 2 / abs(dy) if dy else 1.0)
    return target.x + dx * part, target.y + dy * part
