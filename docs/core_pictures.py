"""Draws the state machines of the core as SVG: what is in them is data here, and compared with the code by a test."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import hypot

from pictures import FAINT, INK, LINE, PAPER, _box, _svg, _text

WIDTH, HEIGHT = 150, 46  # of a state, where it says nothing else


@dataclass(frozen=True)
class State:
    """A state at its middle; a note has a line an item. `waits`: nothing progresses in it, so it is hatched."""

    name: str
    x: float
    y: float
    note: tuple[str, ...]
    waits: bool = False
    width: float = WIDTH
    height: float = HEIGHT


@dataclass(frozen=True)
class Edge:
    """From one state to another, by key. `bend` moves the middle of the arrow to the left of its direction."""

    start: str
    end: str
    label: tuple[str, ...]
    bend: float = 0
    at: tuple[float, float] = (0, -8)  # the label, from the middle of the arrow
    anchor: str = "middle"


@dataclass(frozen=True)
class Machine:
    """A state machine as it is drawn."""

    title: str
    height: int
    states: dict[str, State]
    edges: tuple[Edge, ...]


DMA_JOB = Machine(
    "A DMA job: QUEUED, TRANSFERRING, COMPLETED, and its stalls",
    216,
    {
        "queued": State("QUEUED", 90, 34, ("in the queue of its channel",), width=164),
        "deferred": State("QUEUED, stalled", 90, 180, ("queue_full, priority_deferred",), waits=True, width=172),
        "head": State("TRANSFERRING", 304, 34, ("head latency",), width=124),
        "moves": State("TRANSFERRING", 474, 34, ("its flows move bytes",), width=136),
        "pressed": State("TRANSFERRING, stalled", 474, 180, ("backpressure",), waits=True, width=186),
        "completed": State("COMPLETED", 650, 34, ("end = cycle + 1",), width=124),
    },
    (
        Edge("queued", "head", ("P3: starts",)),
        Edge("queued", "deferred", ("P3: cannot start,", "or a later job", "starts first"), at=(8, -10), anchor="start"),
        Edge("deferred", "head", ("P3: starts",), at=(10, 10), anchor="start"),
        Edge("head", "moves", ("P4",)),
        Edge("moves", "pressed", ("P7: a flow", "leaves its", "resources"), bend=24, at=(8, -22), anchor="start"),
        Edge("pressed", "moves", ("P6: its flows", "are served"), bend=24, at=(-8, 0), anchor="end"),
        Edge("moves", "completed", ("P7",)),
        Edge("pressed", "completed", ("P7: last byte",), at=(24, 30), anchor="start"),
    ),
)

REQUESTER = Machine(
    "A requester of a scratchpad: idle, asks, is held, is served",
    270,
    {
        "idle": State("idle", 84, 50, ("asks in a later cycle",)),
        "asks": State("asks", 380, 50, ("P5: its banks are known",), width=156),
        "done": State("done", 632, 50, ("its work is over",)),
        "held": State(
            "held",
            380,
            206,
            (
                "asks for the banks that it lacks every conflict_penalty_cycles, and earns no credit",
                "aged from max_wait_cycles after the first denial on: granted before younger requests",
                "backpressure_cycles after it, P7: a flow leaves its resources, until P4 of the cycle after it is served",
            ),
            waits=True,
            width=600,
            height=84,
        ),
    },
    (
        Edge("idle", "asks", ("credit for a piece,", "or a body cycle begins"), bend=16, at=(0, -22)),
        Edge("asks", "idle", ("P6: all banks granted",), bend=16, at=(0, 18)),
        Edge("asks", "held", ("P6: a bank is denied",), at=(-8, 4), anchor="end"),
        Edge("held", "idle", ("P6: served",), at=(-30, 12), anchor="end"),
        Edge("asks", "done", ("P6: the last one",)),
        Edge("held", "done", ("P6: served, the last one",), at=(14, 12), anchor="start"),
    ),
)

COMPUTE_JOB = Machine(
    "A job of a TE or VE: queued, init, body, finalize, complete",
    190,
    {
        "queued": State("queued", 66, 34, ("first in, first out",), width=112),
        "init": State("init", 216, 34, ("no requests",), width=100),
        "body": State("body", 362, 34, ("a request a cycle",), width=112),
        "held": State("held", 362, 156, ("bank_conflict",), waits=True, width=112),
        "finalize": State("finalize", 510, 34, ("no requests",), width=100),
        "complete": State("complete", 652, 34, ("end = cycle + 1",), width=108),
    },
    (
        Edge("queued", "init", ("P3",)),
        Edge("init", "body", ("P5",)),
        Edge("body", "held", ("P6: a bank is denied",), bend=22, at=(8, 4), anchor="start"),
        Edge("held", "body", ("P6: served",), bend=22, at=(-8, 4), anchor="end"),
        Edge("body", "finalize", ("P6",)),
        Edge("finalize", "complete", ("P7",)),
    ),
)

PAIR = Machine(
    "A transfer between two scratchpads: each side grants by itself, bytes move when both have granted",
    316,
    {
        "asks": State("asks both sides", 340, 34, ("P5: for the same lines",)),
        "both": State("both lack banks", 340, 160, ("held",), waits=True, width=160),
        "near": State("near side lacks banks", 100, 160, ("held",), waits=True, width=176),
        "far": State("far side lacks banks", 626, 160, ("held",), waits=True, width=172),
        "served": State("served", 340, 286, ("P6: the bytes move, and it earns credit again",), width=280),
    },
    (
        Edge("asks", "both", ("both deny",), at=(-8, 4), anchor="end"),
        Edge("asks", "near", ("the near side denies",), at=(-16, -6), anchor="end"),
        Edge("asks", "far", ("the far side denies",), at=(20, -6), anchor="start"),
        Edge("asks", "served", ("both grant",), bend=212, at=(4, 34), anchor="start"),
        Edge("both", "near", ("far grants",)),
        Edge("both", "far", ("near grants",), at=(24, -8)),
        Edge("near", "served", ("the near side grants",), at=(-12, 14), anchor="end"),
        Edge("far", "served", ("the far side grants",), at=(14, 14), anchor="start"),
        Edge("both", "served", ("both grant",), at=(-8, 4), anchor="end"),
    ),
)

DRAM_BANK = Machine(
    "A DRAM bank under row_buffer_v1: closed, a row open, refreshing",
    226,
    {
        "closed": State("closed", 160, 44, ("no open row",)),
        "open": State("row open", 520, 44, ("one row in the row buffer",), width=160),
        "refreshing": State("refreshing", 160, 190, ("all banks of the channel",), waits=True, width=156),
        "burst": State("burst", 520, 190, ("bytes on the data bus",)),
    },
    (
        Edge("closed", "open", ("ACT, t_rp after PRE",), bend=18),
        Edge("open", "closed", ("PRE, t_ras after ACT,", "t_rtp after RD, t_wr after a write"), bend=18, at=(0, 18)),
        Edge("closed", "refreshing", ("REF, every t_refi",), bend=24, at=(8, 4), anchor="start"),
        Edge("refreshing", "closed", ("t_rfc later",), bend=24, at=(-8, 4), anchor="end"),
        Edge("open", "burst", ("RD, t_rcd after ACT", "WR, t_rcd_wr after ACT"), bend=24, at=(8, 0), anchor="start"),
        Edge("burst", "open", ("t_ccd later",), bend=24, at=(-8, 4), anchor="end"),
    ),
)

MACHINES = {
    "dma_job.svg": DMA_JOB,
    "requester.svg": REQUESTER,
    "compute_job.svg": COMPUTE_JOB,
    "pair.svg": PAIR,
    "dram_bank.svg": DRAM_BANK,
}


def core_pictures() -> dict[str, str]:
    """File name: SVG."""
    found = {}
    for name, machine in MACHINES.items():
        found[name] = _svg(720, machine.height, machine.title, _parts(name.partition(".")[0], machine))
    return found


def _parts(prefix: str, machine: Machine) -> Iterator[str]:
    yield (
        f'<defs><marker id="{prefix}-head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        f'<path d="M0 0L8 4L0 8z" fill="{INK}"/></marker>'
        f'<pattern id="{prefix}-wait" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
        f'<rect width="2.4" height="6" fill="{FAINT}" fill-opacity="0.28"/></pattern></defs>'
    )
    for edge in machine.edges:
        yield from _edge(prefix, edge, machine.states[edge.start], machine.states[edge.end])
    for state in machine.states.values():
        yield from _state(prefix, state)


def _state(prefix: str, state: State) -> Iterator[str]:
    left, top = state.x - state.width / 2, state.y - state.height / 2
    yield _box(left, top, state.width, state.height, rx=5, fill=PAPER, stroke=LINE, stroke_width=1.5)
    if state.waits:
        yield _box(left, top, state.width, state.height, rx=5, fill=f"url(#{prefix}-wait)")
    yield _text(state.x, top + 20, state.name, text_anchor="middle", font_weight="bold", font_size=13)
    for i, line in enumerate(state.note):
        yield _text(state.x, top + 37 + 16 * i, line, text_anchor="middle", font_size=11.5)


def _border(state: State, x: float, y: float) -> tuple[float, float]:
    """Where the line from the middle of a state to a point leaves its box, and two pixels further."""
    dx, dy = x - state.x, y - state.y
    half_width, half_height = state.width / 2 + 2, state.height / 2 + 2
    scale = min(half_width / abs(dx) if dx else float("inf"), half_height / abs(dy) if dy else float("inf"))
    return state.x + dx * scale, state.y + dy * scale


def _edge(prefix: str, edge: Edge, start: State, end: State) -> Iterator[str]:
    length = hypot(end.x - start.x, end.y - start.y)
    right_x, right_y = -(end.y - start.y) / length, (end.x - start.x) / length
    middle_x, middle_y = (start.x + end.x) / 2 - edge.bend * right_x, (start.y + end.y) / 2 - edge.bend * right_y
    x1, y1 = _border(start, middle_x, middle_y)
    x2, y2 = _border(end, middle_x, middle_y)
    yield (
        f'<path d="M{x1:.1f} {y1:.1f}Q{middle_x:.1f} {middle_y:.1f} {x2:.1f} {y2:.1f}" fill="none" stroke="{INK}" '
        f'stroke-width="1.2" marker-end="url(#{prefix}-head)"/>'
    )
    x, y = (x1 + x2) / 4 + middle_x / 2 + edge.at[0], (y1 + y2) / 4 + middle_y / 2 + edge.at[1]
    for i, line in enumerate(edge.label):
        yield _text(x, y + 14 * i, line, text_anchor=edge.anchor, font_size=12)
