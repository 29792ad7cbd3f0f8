"""Chooses tiles, blocks and scratchpad places of a graph for one machine, as the planner of layers does.

Everything streams through rings: weight tiles, blocks of activations, blocks of results. If there is room, a tensor stays in
the scratchpad from the work that makes it to the work that reads it last; the tensors that save most transfers for their size
have priority. The planner considers the divisions of the scratchpad whose time at full rate is at most 5% above the best, and
takes the one with most buffers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from itertools import product
from math import prod

from kernbench.cmdq.footprint import lane_bits
from kernbench.common.errors import InputError
from kernbench.common.units import ceil_div
from kernbench.components.service import chained_body, ve_service
from kernbench.config.kinds import beyond_scratchpad
from kernbench.config.schema import NpuConfig
from kernbench.workloads.graphs.graph import Lowered, Pool, Product, Vector, Work, read_by
from kernbench.workloads.graphs.sizes import COARSE, ELEMENTWISE, TILE_KIB, Grain, Level, Size, Sizes
from kernbench.workloads.graphs.split import MAX_JOBS, Splitter, can_be_cut
from kernbench.workloads.scratchpad import BufferSpec, DoesNotFit, ScratchpadPlan
from kernbench.workloads.transfers import load_cycles, tile_sizes

_SLACK = (21, 20)  # factor over the fewest cycles that a plan with better buffering may take
_ROOMS = 32  # number of sizes that are tried for the room of products whose dimension k is cut
_GAIN = (11, 10)  # factor by which a product must become faster if k is cut
_FEW_TILES = ((32, 4), (16, 4), (8, 4), (4, 4), (2, 4), (1, 4))
_SHARES = (32, 16, 8, 4, 64, 128)  # a block of activations takes at most one of this number of equal shares of the scratchpad
_RING_SHARE = 8  # a ring of more than two slots takes at most one of this number of equal shares of the scratchpad
_BLOCKS_SHARE = 4  # the same for a ring of tensors that are read, because a block may be a single job of a tensor engine
_BEHIND = 4  # a tensor keeps its place for this number of further pieces of work, so that they need not wait for it


@dataclass(slots=True)
class Life:
    """The lifetime of a tensor that is computed, or of an input: from the work that first uses it to the work that uses it
    last."""

    name: str
    nbytes: int
    first: int
    last: int
    made: bool  #: whether work makes it; otherwise it is in DRAM from the start
    out: bool = False  #: whether it is needed in DRAM at the end
    reads: int = 0

    @property
    def saved(self) -> int:
        """[byte] The transfers that a place in the scratchpad saves."""
        times = self.reads + (0 if self.out else 1) if self.made else self.reads - 1
        return self.nbytes * times


@dataclass(frozen=True, slots=True)
class GraphPlan:
    """The plan of a graph on a machine."""

    level: Level
    sizes: list[Size]  #: of each piece of work
    lives: dict[str, Life]
    same_place: dict[str, str]  #: tensors that are made in the place of another tensor, with the name of that tensor
    resident: frozenset[str]
    scratchpad: ScratchpadPlan
    least_cycles: int
    rings: dict[str, int] = field(default_factory=dict)


def plan_graph(lowered: Lowered, config: NpuConfig, grain: Grain = COARSE) -> GraphPlan:
    """The plan without cuts of k, if there is one. Raises InputError if no division of the scratchpad has space for all
    buffers."""
    sizes = Sizes(lowered, config, grain)
    lives, same_place = _lives(lowered, sizes)
    plans = []
    for level in _levels(config):
        plan = _plan(sizes, level, lives, same_place, sizes.all(level))
        if plan is not None:
            plans.append(plan)
    if not plans:
        if (cut := plan_with_cuts(lowered, config, grain)) is not None:
            return cut
        rule = f"a row of every tensor and a column of every matrix of {lowered.graph.name} must fit the scratchpad"
        raise InputError(beyond_scratchpad(config, rule))
    most = min(plan.least_cycles for plan in plans) * _SLACK[0] // _SLACK[1]
    return next(plan for plan in plans if plan.least_cycles <= most)


def plan_with_cuts(
    lowered: Lowered, config: NpuConfig, grain: Grain = COARSE, most: int = MAX_JOBS
) -> GraphPlan | None:
    """The plan with the fewest estimated cycles in which the dimension k of a product is cut; None if there is none.

    The dimension k is cut in products that do not fit otherwise, and in products that become faster. `most`: entries of such a
    product.
    """
    products = [work for _, work in lowered.jobs if isinstance(work, Product) and can_be_cut(work)]
    if not products:
        return None
    sizes = Sizes(lowered, config, grain)
    splitter, plans = Splitter(sizes, most), []
    lives, same_place = _lives(lowered, sizes)
    for level, every in product(_levels(config), (False, True)):
        cut = _with_cuts(sizes, splitter, level, every=every)
        if cut is not None and any(size.cut for size in cut):
            plan = _plan(sizes, level, lives, same_place, cut)
            if plan is not None:
                plans.append(plan)
    return min(plans, key=lambda plan: plan.least_cycles, default=None)


def reloads(plan: GraphPlan, lowered: Lowered, config: NpuConfig) -> bool:
    """Whether the weights of a product are loaded several times, and the loads take longer than the product."""
    sizes = Sizes(lowered, config)
    for (_, work), size in zip(lowered.jobs, plan.sizes, strict=True):
        if isinstance(work, Product) and can_be_cut(work) and not size.held and work.m > size.rows:
            weights, _ = sizes.moved(work, size, plan.resident)
            if load_cycles(config, weights, size.tile) * _GAIN[1] > product_cycles(work, sizes, size) * _GAIN[0]:
                return True
    return False


def _with_cuts(sizes: Sizes, splitter: Splitter, level: Level, *, every: bool) -> list[Size] | None:
    """The sizes at a level, with k cut if a product does not fit or becomes faster; None if other work does not fit.

    `every`: the products that are cut take all room that other work leaves; otherwise products that may stay whole keep their
    room.
    """
    jobs, config, whole = sizes.lowered.jobs, sizes.config, sizes.each(level)
    may = [isinstance(work, Product) and can_be_cut(work) for _, work in jobs]
    if any(size is None and not cuttable for size, cuttable in zip(whole, may, strict=True)):
        return None
    others = [size for size, cuttable in zip(whole, may, strict=True) if size is not None and not (cuttable and every)]
    line = config.spm.bank_width_bytes
    taken = sum(ceil_div(size, line) * line for size in _rings(sizes, level, others).values())
    step = max(line, config.spm.size_bytes // _ROOMS // line * line)
    room = config.spm.size_bytes - ceil_div(taken, step) * step
    found = []
    for (_, work), size, cuttable in zip(jobs, whole, may, strict=True):
        cut = splitter.best(work, room) if isinstance(work, Product) and cuttable else None
        if cut is not None and (size is None or cut.cycles * _GAIN[0] < _cycles(sizes, work, size) * _GAIN[1]):
            size = Size(cut.rows, cut.cols, strip=cut.tiles, cut=cut)
        if size is None:
            return None
        found.append(size)
    return found


def _cycles(sizes: Sizes, work: Work, size: Size) -> int:
    """[cycle] of a product whose operands are all loaded."""
    config, (weights, others) = sizes.config, sizes.moved(work, size, frozenset())
    return max(load_cycles(config, weights, size.tile) + load_cycles(config, others), product_cycles(work, sizes, size))


def _levels(config: NpuConfig) -> list[Level]:
    wanted = 2 * config.dma.engines + config.te.engines
    weights = [*((kib, wanted) for kib in tile_sizes(config, TILE_KIB)), *_FEW_TILES]
    size = config.spm.size_bytes
    found = [Level(kib << 10, tiles, size // share) for (kib, tiles), share in product(weights, _SHARES)]
    return [level for level in found if level.tile_bytes * level.tiles <= size // 2]


def _lives(lowered: Lowered, sizes: Sizes) -> tuple[dict[str, Life], dict[str, str]]:
    """The lifetimes of all tensors except weights, and which of them share memory."""
    lives: dict[str, Life] = {}
    roots = {lowered.bytes_at(name) for name in lowered.graph.outputs}
    for number, (_, work) in enumerate(lowered.jobs):
        for name in dict.fromkeys(read_by(work)):
            if not sizes.is_weight(name):
                life = _life(lives, lowered, sizes, name, number, made=False)
                life.last = number
                life.reads += 2 if _overlaps(work) else 1  # neighbouring blocks read some rows in common
        made = _life(lives, lowered, sizes, work.out, number, made=True)
        made.last, made.out = max(made.last, number), lowered.bytes_at(work.out) in roots
    return lives, _same_places(lowered, sizes, lives)


def _overlaps(work: Work) -> bool:
    """Whether a window reads some rows more than once."""
    window = work.window if isinstance(work, Product | Pool) else None
    return window is not None and window.kernel[0] > 1


def _life(lives: dict[str, Life], lowered: Lowered, sizes: Sizes, name: str, number: int, *, made: bool) -> Life:
    root = lowered.bytes_at(name)
    if root not in lives:
        lives[root] = Life(root, sizes.nbytes(root), number, number, made)
    return lives[root]


def _same_places(lowered: Lowered, sizes: Sizes, lives: dict[str, Life]) -> dict[str, str]:
    """Elementwise work overwrites its input if nothing else needs it."""
    found: dict[str, str] = {}
    for number, (_, work) in enumerate(lowered.jobs):
        if not isinstance(work, Vector) or work.op not in ELEMENTWISE or sizes.is_weight(work.a) or work.gathers:
            continue
        source, out = lowered.bytes_at(work.a), lowered.bytes_at(work.out)
        while source in found:
            source = found[source]
        old, new = lives[source], lives[out]
        if old.made and not old.out and old.last == number and old.nbytes == new.nbytes and new.first == number:
            found[out] = source
            old.last, old.reads, old.out = new.last, old.reads + 1 + new.reads, new.out
            new.reads = 0
    return found


def _plan(
    sizes: Sizes, level: Level, lives: dict[str, Life], same_place: dict[str, str], cut: list[Size] | None
) -> GraphPlan | None:
    config, jobs = sizes.config, sizes.lowered.jobs
    if cut is None:
        return None
    rings = _rings(sizes, level, cut)
    end = max(len(jobs) - 1, 0)
    try:
        needs = [BufferSpec(name, nbytes, 0, end) for name, nbytes in rings.items() if nbytes]
        places = ScratchpadPlan(needs, config.spm.size_bytes, config.spm.bank_width_bytes)
    except DoesNotFit:
        return None
    slabs = {  # of these, parts are loaded
        sizes.lowered.bytes_at(name) for (_, work), size in zip(jobs, cut, strict=True) if size.cut for name in read_by(work)
    }
    wanted = [life for life in lives.values() if not {life.name, *_made_in(life.name, same_place)} & slabs and life.saved > 0]
    wanted = [life for life in wanted if life.name not in same_place]
    wanted.sort(key=lambda life: (-life.saved / (life.nbytes * (life.last - life.first + 1)), -life.saved, life.first))
    resident = set[str]()
    room = 2 * config.dma.alignment_bytes
    for life in wanted:
        if places.try_place(BufferSpec(life.name, life.nbytes + room, life.first, min(end, life.last + _BEHIND))):
            resident.add(life.name)
    resident |= {name for name in same_place if _place_of(name, same_place) in resident}
    kept = frozenset(resident)
    return GraphPlan(level, cut, lives, same_place, kept, places, _least(sizes, cut, kept), rings)


def _made_in(name: str, same_place: dict[str, str]) -> list[str]:
    """The tensors that are made in the place of this one."""
    return [other for other in same_place if _place_of(other, same_place) == name]


def _place_of(name: str, same_place: dict[str, str]) -> str:
    while name in same_place:
        name = same_place[name]
    return name


def _rings(sizes: Sizes, level: Level, cut: list[Size]) -> dict[str, int]:
    """[B] The size of each ring: enough slots to keep both sides busy, each as large as the largest tile."""
    align, line = sizes.align, sizes.config.spm.bank_width_bytes

    def slots(count: int, nbytes: int, more: int = 0) -> int:
        return count * (ceil_div(nbytes + 2 * align, line) * line + more) if nbytes else 0

    def more(nbytes: int, share: int = _RING_SHARE) -> int:
        """As many slots as all tensor engines can work on, if these slots take a small part of the scratchpad."""
        for count in range(sizes.config.te.engines + 2, 2, -1):
            if slots(count, nbytes) <= sizes.config.spm.size_bytes // share:
                return slots(count, nbytes)
        return slots(2, nbytes)

    return {
        "weights": slots(level.tiles, max((size.tile for size in cut), default=0), sizes.skew),
        "blocks": more(max((size.block for size in cut), default=0), _BLOCKS_SHARE),
        "columns": more(max((size.columns for size in cut), default=0)),
        "out": slots(max(3, sizes.config.te.engines + 1), max((size.out for size in cut), default=0)),
        "params": slots(2, max((size.params for size in cut), default=0)),
        "slabs": max((size.cut.nbytes for size in cut if size.cut), default=0),
    }


def _least(sizes: Sizes, cut: list[Size], resident: frozenset[str]) -> int:
    """A lower bound of the cycles: each piece of work takes at least the time of its weights or of its products, and the graph
    takes at least the time of all transfers."""
    total, cycles = 0, 0
    for (_, work), size in zip(sizes.lowered.jobs, cut, strict=True):
        weights, others = sizes.moved(work, size, resident)
        loads = load_cycles(sizes.config, weights, size.tile)
        total += loads + load_cycles(sizes.config, others, size.out or size.block)
        cycles += size.cut.cycles if size.cut else max(loads, product_cycles(work, sizes, size))
    return max(cycles, total)


def product_cycles(work: Work, sizes: Sizes, size: Size | None = None) -> int:
    """Cycles of a product with all tensor engines at full rate; 0 of other work.

    `size`: the cut of the product; a systolic array takes longer for a cut product, because it fills and drains for each piece.
    """
    if not isinstance(work, Product):
        return 0
    te, tensors = sizes.config.te, sizes.lowered.tensors
    bits = tensors[work.b].bits, tensors[work.a].bits
    if size is not None and te.timing != "macs":
        return ceil_div(sum(count * chained_body(te, *shape, *bits) for shape, count in _cut(work, size).items()), te.engines)
    rate = te.rate(*bits) * te.engines
    return ceil_div(macs_of(work) * rate.denominator, rate.numerator)


def vector_cycles(work: Work, sizes: Sizes) -> int:
    """[cycle] of one vector engine for the work that every plan has, as one job at full rate.

    This work is every operation, and one copy of the elements under the windows of a convolution, because the array reads rows
    of neighbouring bytes. Other copies depend on the plan, and count 0.
    """
    ve, tensors = sizes.config.ve, sizes.lowered.tensors
    match work:
        case Vector():
            bits = lane_bits(tensors[work.a].bits, tensors[work.out].bits, work.reduces)
            return ve_service(ve, work.op, work.length, work.batch, bits).body
        case Pool():
            total = work.window.positions * tensors[work.out].elements
            return ve_service(ve, "add", total, 1, tensors[work.out].bits).body
        case Product() if work.window is not None and not work.window.plain:
            window, bits = work.window, tensors[work.a].bits
            looked_at = min(prod(window.size), prod(window.out) * window.positions)
            return ve_service(ve, "copy", window.images * window.channels * looked_at, 1, bits).body
        case _:
            return 0


def _cut(work: Product, size: Size) -> Counter[tuple[int, int, int]]:
    """The number of products `(m, n, k)` of a piece of work."""
    images, rows = (1, work.m) if work.window is None else (work.window.images, prod(work.window.out))
    times, found = len(work.matrices) * work.groups * images, Counter[tuple[int, int, int]]()
    for m, blocks in _pieces(rows, size.rows):
        for n, columns in _pieces(work.n, size.cols):
            found[m, n, work.k] += times * blocks * columns
    return found


def _pieces(length: int, step: int) -> list[tuple[int, int]]:
    """Lengths of the pieces, and the number of pieces of each length."""
    whole, rest = divmod(length, step)
    return [(step, whole)] * bool(whole) + [(rest, 1)] * bool(rest)


def macs_of(work: Product) -> int:
    """The MACs of all its matrices, without products with zeros that the lowering inserted."""
    return work.macs
