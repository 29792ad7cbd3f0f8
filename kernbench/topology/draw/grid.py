"""Pictures of the system and of a SIP: boxes in rows and columns, with their surroundings."""

from __future__ import annotations

from kernbench.common.naming import SWITCH
from kernbench.topology.draw.svg import Box, Pen, Picture, box, size_text
from kernbench.topology.graph import EdgeKind, Topology
from kernbench.topology.views import IO, View, ViewEdge, ViewNode

Point = tuple[float, float]
WIDTH, HEIGHT, GAP = 132.0, 84.0, 48.0  # [px] of a cube or SIP, and between two
IO_DEPTH, STUB_WIDTH, STUB_HEIGHT = 60.0, 60.0, 28.0
FOLDED = 4  # SIPs; a ring of more is drawn as two rows


def _counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def draw_system(topology: Topology, view: View) -> Picture:
    """SIPs in rows and columns (a large ring is folded) below the host; leaf switches beside their rows, and the core
    switch."""
    config = topology.config
    sips = [node for node in view.nodes if node.kind == "sip"]
    in_a_circle = config.system.kind in ("ring", "all_to_all")
    places = _ring_places(len(sips)) if in_a_circle else _grid_places(len(sips), config.sip_cols)
    boxes = {
        node.id: box(node, col * (WIDTH + GAP), row * (HEIGHT + GAP), WIDTH, HEIGHT)
        for node, (row, col) in zip(sips, places, strict=True)
    }
    kind = f" ({config.system.kind})" if len(sips) > 1 else ""
    picture = Picture("System", f"{_counted(len(sips), 'SIP')}{kind}, {config.source}")
    hosts = [node for node in view.nodes if node.kind == "host"]
    right = max(one.bounds()[2] for one in boxes.values())
    for host in hosts:
        left = -WIDTH / 2 - GAP / 2
        boxes[host.id] = box(host, (left + right) / 2, -HEIGHT / 2 - GAP - 17, right - left, 34)
    switches = [node for node in view.nodes if node.kind == SWITCH]
    rows = max(row for row, _ in places) + 1
    for number, node in enumerate(switches):
        is_core = number == rows and config.system.kind == "fat_tree"
        y = (rows - 1) * (HEIGHT + GAP) / 2 if is_core else number * (HEIGHT + GAP)
        boxes[node.id] = box(node, right + (3 if is_core else 1) * (GAP + STUB_WIDTH / 2), y, STUB_WIDTH, STUB_HEIGHT)
    pen = Pen(view.edges)
    for edge in pen.lines:
        points = _from_host(edge, boxes) if edge.kind is EdgeKind.PCIE else _between(boxes[edge.source], boxes[edge.target])
        picture.links.append(pen.link(edge, points))
    hbm = f"{size_text(config.cubes * config.cube.hbm.capacity_bytes)} HBM"
    facts = [_counted(config.cubes, "cube"), _counted(config.cubes * config.cube.pes, "PE"), hbm]
    for node in (*hosts, *sips, *switches):
        picture.boxes.append(boxes[node.id])
        picture.label(boxes[node.id], [node.id, *(facts if node.kind == "sip" else [])])
    return picture


def _grid_places(count: int, cols: int) -> list[tuple[int, int]]:
    return [divmod(i, cols) for i in range(count)]


def _ring_places(count: int) -> list[tuple[int, int]]:
    """(row, column) of each SIP of a ring: there and back, so that neighbours are side by side."""
    if count <= FOLDED:
        return _grid_places(count, count)
    top = (count + 1) // 2
    return [(0, i) if i < top else (1, 2 * top - 1 - i) for i in range(count)]


def _from_host(edge: ViewEdge, boxes: dict[str, Box]) -> list[Point]:
    """Down beside the column of the SIP, then into it."""
    host, sip = (boxes[name] for name in sorted((edge.source, edge.target), key=lambda name: name != "host"))
    x = sip.bounds()[0] - GAP / 4
    return [(x, host.y), (x, sip.y - HEIGHT / 4), (sip.x, sip.y - HEIGHT / 4)]


def _between(a: Box, b: Box) -> list[Point]:
    """Straight to a neighbour; around the others of the row or column to a SIP that is further away."""
    if a.y == b.y and abs(a.x - b.x) > a.width + 1.5 * GAP:
        y = a.bounds()[3] + GAP / 3
        return [(a.x - 20, a.y), (a.x - 20, y), (b.x + 20, y), (b.x + 20, b.y)]
    if a.x == b.x and abs(a.y - b.y) > a.height + 1.5 * GAP:
        x = a.bounds()[2] + GAP / 3
        return [(a.x, a.y + 14), (x, a.y + 14), (x, b.y - 14), (b.x, b.y - 14)]
    return [(a.x, a.y), (b.x, b.y)]


def draw_sip(topology: Topology, view: View) -> Picture:
    """Cubes in rows and columns, the IO chiplets along the sides that they serve, and the targets of the chiplets outside of
    them."""
    config = topology.config
    cubes = [node for node in view.nodes if node.kind == "cube"]
    columns, rows = sorted({node.x_mm for node in cubes}), sorted({node.y_mm for node in cubes})
    boxes = {
        node.id: box(node, columns.index(node.x_mm) * (WIDTH + GAP), rows.index(node.y_mm) * (HEIGHT + GAP), WIDTH, HEIGHT)
        for node in cubes
    }
    pes = sum(node.kind == "pe_dma" for node in cubes[0].nodes)
    facts = [_counted(pes, "PE"), f"{size_text(config.cube.hbm.capacity_bytes)} HBM"]
    title = f"{_counted(len(cubes), 'cube')} of {config.cube.width_mm} mm x {config.cube.height_mm} mm, {config.source}"
    picture = Picture(f"SIP {view.of}", f"{title}; commands are not drawn")
    area = _around(list(boxes.values()))
    pen = Pen([edge for edge in view.edges if edge.kind is not EdgeKind.COMMAND])
    sides = {node.id: _side(node, cubes) for node in view.nodes if node.kind == IO}
    for node in view.nodes:
        if node.kind == IO:
            boxes[node.id] = _io_box(node, sides[node.id], area)
    for edge in pen.lines:
        if edge.source in boxes and edge.target in boxes:
            picture.links.append(pen.link(edge, _across(boxes[edge.source], boxes[edge.target])))
    _stubs(picture, view, pen, boxes, sides)
    for node in view.nodes:
        if node.id in boxes:
            picture.boxes.append(boxes[node.id])
            picture.label(boxes[node.id], [node.label, *(facts if node.kind == "cube" else [])])
    return picture


def _around(boxes: list[Box]) -> tuple[float, float, float, float]:
    found = [one.bounds() for one in boxes]
    return min(b[0] for b in found), min(b[1] for b in found), max(b[2] for b in found), max(b[3] for b in found)


def _side(node: ViewNode, cubes: list[ViewNode]) -> str:
    """The side of the cubes on which a chiplet is."""
    if node.x_mm < min(cube.x_mm - cube.width_mm / 2 for cube in cubes):
        return "w"
    if node.x_mm > max(cube.x_mm + cube.width_mm / 2 for cube in cubes):
        return "e"
    return "n" if node.y_mm < min(cube.y_mm for cube in cubes) else "s"


def _io_box(node: ViewNode, side: str, area: tuple[float, float, float, float]) -> Box:
    """A bar along a side, so that its links to the cubes do not cross."""
    left, top, right, bottom = area
    out = GAP + IO_DEPTH / 2
    if side in "we":
        return box(node, left - out if side == "w" else right + out, (top + bottom) / 2, IO_DEPTH, bottom - top)
    thick = IO_DEPTH / 2
    out = GAP + thick / 2
    return box(node, (left + right) / 2, top - out if side == "n" else bottom + out, right - left, thick)


def _across(a: Box, b: Box) -> list[Point]:
    """A straight line between two boxes, along an axis where they face each other."""
    x_low, x_high = max(a.bounds()[0], b.bounds()[0]), min(a.bounds()[2], b.bounds()[2])
    y_low, y_high = max(a.bounds()[1], b.bounds()[1]), min(a.bounds()[3], b.bounds()[3])
    if y_low < y_high:
        return [(a.x, (y_low + y_high) / 2), (b.x, (y_low + y_high) / 2)]
    if x_low < x_high:
        return [((x_low + x_high) / 2, a.y), ((x_low + x_high) / 2, b.y)]
    return [(a.x, a.y), (b.x, b.y)]


def _stubs(picture: Picture, view: View, pen: Pen, boxes: dict[str, Box], sides: dict[str, str]) -> None:
    """The targets of an IO chiplet outside the SIP: one box each, spread along the chiplet."""
    outside = {node.id: node for node in view.nodes if not node.inside}
    for io, side in sides.items():
        found = [edge for edge in pen.lines if io in (edge.source, edge.target) and {edge.source, edge.target} & set(outside)]
        left, top, right, bottom = boxes[io].bounds()
        length, least = (bottom - top, STUB_HEIGHT + 10) if side in "we" else (right - left, STUB_WIDTH + 10)
        step = max(length / (len(found) + 1), least)
        for i, edge in enumerate(found):
            name = edge.target if edge.source == io else edge.source
            along = (i - (len(found) - 1) / 2) * step
            x, y = {
                "n": (boxes[io].x + along, top - GAP / 2 - STUB_HEIGHT / 2),
                "e": (right + GAP / 2 + STUB_WIDTH / 2, boxes[io].y + along),
                "s": (boxes[io].x + along, bottom + GAP / 2 + STUB_HEIGHT / 2),
                "w": (left - GAP / 2 - STUB_WIDTH / 2, boxes[io].y + along),
            }[side]
            stub = box(outside[name], x, y, STUB_WIDTH, STUB_HEIGHT)
            picture.links.append(pen.link(edge, _across(stub, boxes[io])))
            picture.boxes.append(stub)
            picture.label(stub, [name])
