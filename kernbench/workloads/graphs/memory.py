"""The location of the tensors of a graph in DRAM and in the scratchpad, and the transfers between them.

A tensor is stored row by row; images are stored with channels last. The output of a block of a product is stored column tile
by column tile, and every reader waits for the whole block: a NOP after the block depends on all of its tiles.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from kernbench.cmdq.footprint import aligned_bytes, bytes_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.config.schema import NpuConfig
from kernbench.workloads.graphs.graph import Lowered, Product, Vector, read_by
from kernbench.workloads.graphs.planner import GraphPlan
from kernbench.workloads.graphs.sizes import ELEMENTWISE, Size, Sizes
from kernbench.workloads.graphs.split import Cut
from kernbench.workloads.hazards import Emitter
from kernbench.workloads.layer.dram import DramMap, Span, WeightLayout
from kernbench.workloads.models import Matrix
from kernbench.workloads.scratchpad import Buffer, Ring
from kernbench.workloads.transfers import setup_bytes

MAX_ELEMENTS = 1 << 36  #: most elements of a tensor
MAX_WAITS = 1 << 22  #: most waits of all entries for others
_LONG_SETUPS = 4  # a load is long if it takes at least this number of setup times
_PIECE_BYTES = 16 << 10  # a tensor that stays is loaded in pieces of at least this, for all DMA engines


@dataclass(slots=True)
class Storage:
    """The bytes of a tensor, and of those that are made in its place."""

    nbytes: int
    spm: int | None  #: scratchpad address of a tensor that stays there
    dram: int | None  #: DRAM address of a tensor that is in DRAM at some time
    loaded: bool  #: it is in the scratchpad, as far as it is made
    granule: int = 1  #: [byte] inside pieces of this its bytes are in an order of their own
    blocks: list[tuple[int, int]] = field(default_factory=list)  #: start and bytes of pieces that nothing waits for as a whole


class Memory:
    """The tensors of a graph as a plan places them."""

    def __init__(self, lowered: Lowered, plan: GraphPlan, config: NpuConfig, emit: Emitter) -> None:
        self.lowered, self.plan, self.config, self.emit = lowered, plan, config, emit
        self.align = config.dma.alignment_bytes
        #: [byte] of a load that takes so long that its setup costs little if the load before it must end first
        self.long_bytes = _LONG_SETUPS * setup_bytes(config) or 1 << 62
        line = config.spm.bank_width_bytes
        skew = Sizes(lowered, config).skew
        rings = [name for name, size in plan.rings.items() if size]
        self.rings = {name: Ring(plan.scratchpad[name], line, skew if name == "weights" else 0) for name in rings}
        self._cut_rings: Cut | None = None  #: whose slots the rings of slabs have
        self.dram = DramMap(config, what=f"the graph {lowered.graph.name}")
        self._storages: dict[str, Storage] = {}
        self._layouts: dict[tuple[str, int, int, int, int], WeightLayout] = {}
        self._tables: dict[str, int] = {}
        self._asked = {lowered.bytes_at(name) for name in lowered.graph.outputs}
        self._first: list[int] = []  # ids of the loads of inputs that stay: weights of later work come behind them
        self._byte_by_byte = self._only_elementwise()
        self._place()

    def _place(self) -> None:
        """Allocate DRAM for weights, in the layout of their readers, and for tensors that are in DRAM at some time."""
        plan = self.plan
        for (_, work), size in zip(self.lowered.jobs, plan.sizes, strict=True):
            for name in read_by(work):
                if self.lowered.tensors[name].source != "weight":
                    continue
                if isinstance(work, Product) and name == work.b:
                    self._layout(work, size)
                elif name not in self._tables:
                    self._tables[name] = self.dram.allocate(name, self._nbytes(name)).base
        for name, life in plan.lives.items():
            if name in plan.same_place:
                continue
            stays = name in plan.resident
            spm = plan.scratchpad[name].start if stays else None
            dram = self.dram.allocate(name, life.nbytes).base if not stays or life.out or not life.made else None
            self._storages[name] = Storage(life.nbytes, spm, dram, life.made)

    def _only_elementwise(self) -> set[str]:
        """Tensors whose readers read single bytes. A reader waits only for the job that makes its byte, at any position of a
        block."""
        found, others = set[str](), set[str]()
        for _, work in self.lowered.jobs:
            for name in read_by(work):
                root = self.lowered.bytes_at(name)
                alone = isinstance(work, Vector) and work.op in ELEMENTWISE and name not in (*work.gathers, *work.params)
                (found if alone else others).add(root)
        return found - others

    def _nbytes(self, name: str) -> int:
        tensor = self.lowered.tensors[name]
        return bytes_of(tensor.elements, tensor.bits)

    def _layout(self, work: Product, size: Size) -> WeightLayout:
        key, cols = self._key(work, size), size.cols
        if key not in self._layouts:
            tensor, rows = self.lowered.tensors[work.b], work.k if size.cut is None else size.cut.depth
            stacked = tensor.elements // work.k * ceil_div(work.k, rows)
            matrix = Matrix(work.b, rows, stacked, tensor.bits)
            columns = work.n * work.groups if cols > work.n else work.n
            self._layouts[key] = WeightLayout(matrix, cols, columns, self.dram, self.align)
        return self._layouts[key]

    def _key(self, work: Product, size: Size) -> tuple[str, int, int, int, int]:
        """The values on which the address of a weight depends. All products that read the whole weight use the layout of the
        first product."""
        return (work.b, work.k, work.n, *((size.cols, size.cut.depth) if size.cut is not None else (0, 0)))

    def layout(self, work: Product, size: Size) -> WeightLayout:
        """The weights of a product, a slice for each matrix; where k is cut, for each slab of each matrix."""
        return self._layouts[self._key(work, size)]

    def use_cut(self, cut: Cut) -> None:
        """Gives the place for slabs to the rings `sums`, `slabs`, `tiles` and `partials` of a product."""
        if self._cut_rings == cut:
            return
        self._cut_rings, at = cut, self.plan.scratchpad["slabs"].start
        for name, nbytes in zip(("sums", "slabs", "tiles", "partials"), cut.places, strict=True):
            self.rings[name] = Ring(Buffer(name, at, nbytes, 0, 0), self.align)
            at += nbytes

    def table(self, name: str) -> int:
        """The DRAM address of weights that are no matrix."""
        return self._tables[name]

    def storage(self, name: str) -> Storage | None:
        """The location of the bytes of a tensor; None for weights."""
        root = self.lowered.bytes_at(name)
        while root in self.plan.same_place:
            root = self.plan.same_place[root]
        return self._storages.get(root)

    def read(self, name: str, start: int, nbytes: int, ring: str = "blocks", **meta: Any) -> tuple[int, tuple[int, int]]:
        """Loads the bytes of a tensor that are not in the scratchpad. Returns their address, and the range for which their
        readers wait."""
        if self.emit.waits > MAX_WAITS:
            rule = f"its jobs wait for each other more than {MAX_WAITS} times, and a program has no more of that"
            remedy = "make a dimension smaller, or the scratchpad larger"
            raise InputError(Problem(f"{self.lowered.graph.name}: node {meta['debug']}", rule, remedy=remedy))
        storage = self.storage(name)
        bits = self.lowered.tensors[name].bits
        if storage is None:
            return self._load(self._tables[name] + start, nbytes, bits, "weight", ring, **meta)
        if storage.spm is None:
            assert storage.dram is not None
            place, waits = self._load(storage.dram + start, nbytes, bits, "activation", ring, **meta)
            first = start // storage.granule * storage.granule
            last = min(ceil_div(start + nbytes, storage.granule) * storage.granule, storage.nbytes)
            if storage.granule > 1:
                self.emit.after_dram(self.emit.last, storage.dram + first, storage.dram + last)
            return place, waits
        if not storage.loaded:
            self._fetch(storage, bits, **meta)
        return storage.spm + start, (storage.spm + start, nbytes)

    def load_weights(self, bits: int, span: Span, slot: int, **meta: Any) -> None:
        """A tile of weights, behind the inputs whose loads came first: these keep all engines waiting."""
        self.emit.load("weight", bits, span, slot, **meta)
        self.emit.behind(self._first)

    def wait_for(self, name: str, span: tuple[int, int] | None) -> None:
        """Lets the job that was emitted last wait for the blocks with elements `[first, last)` of a tensor; None: for all."""
        storage, size = self.storage(name), self.lowered.tensors[name].bits // 8
        if storage is None:
            return
        start, end = (0, storage.nbytes) if span is None else (span[0] * size, span[1] * size)
        if storage.granule > 1 and span is not None:  # blocks of a stack of matrices begin anywhere
            start, end = max(0, start - storage.granule + 1), min(storage.nbytes, end + storage.granule - 1)
        if storage.spm is not None:
            self.emit.after(self.emit.last, storage.spm + start, end - start)
        elif storage.dram is not None:
            self.emit.after_dram(self.emit.last, storage.dram + start, storage.dram + end)

    def _load(self, addr: int, nbytes: int, bits: int, role: str, ring: str, **meta: Any) -> tuple[int, tuple[int, int]]:
        offset = addr % self.align
        slot = self.rings[ring].take(ceil_div(offset + nbytes, self.align) * self.align)
        self.emit.load(role, bits, Span(addr, 1, nbytes * 8 // bits, nbytes), slot, **meta)
        return slot + offset, (slot + offset, nbytes)

    def load_part(self, name: str, span: Span, ring: str, **meta: Any) -> int:
        """Brings some columns of some rows of a tensor in DRAM to the scratchpad; their address. The load waits for
        all bytes from the first row to the last one: blocks have orders of their own.
        """
        storage, bits = self.storage(name), self.lowered.tensors[name].bits
        assert storage is not None and storage.dram is not None
        moved = aligned_bytes(span.dram_addr, span.rows, bytes_of(span.row_elements, bits), span.stride_bytes, self.align)
        slot = self.rings[ring].take(moved)
        job = self.emit.load("activation", bits, span, slot, together=True, **meta)
        if storage.granule > 1:
            first = span.dram_addr - storage.dram
            last = first + (span.rows - 1) * span.stride_bytes + bytes_of(span.row_elements, bits)
            low = first // storage.granule * storage.granule
            high = min(ceil_div(last, storage.granule) * storage.granule, storage.nbytes)
            self.emit.after_dram(job, storage.dram + low, storage.dram + high)
        return slot + span.dram_addr % self.align

    def dram_at(self, name: str) -> int:
        """The DRAM address of a tensor that is no weight."""
        storage = self.storage(name)
        assert storage is not None and storage.dram is not None
        return storage.dram

    def _fetch(self, storage: Storage, bits: int, **meta: Any) -> None:
        """Loads all of an input that stays."""
        assert storage.spm is not None and storage.dram is not None
        step = max(_PIECE_BYTES, ceil_div(storage.nbytes, self.config.dma.engines))
        step = ceil_div(step, self.align) * self.align
        for at in range(0, storage.nbytes, step):
            nbytes = min(step, storage.nbytes - at)
            span = Span(storage.dram + at, 1, nbytes * 8 // bits, nbytes)
            self._first.append(self.emit.load("activation", bits, span, storage.spm + at, **meta))
        storage.loaded = True

    def place(self, name: str, start: int, nbytes: int, ring: str = "out") -> int:
        """The scratchpad address for bytes of a tensor."""
        storage = self._made(name)
        if storage.spm is not None:
            return storage.spm + start
        assert storage.dram is not None
        offset = (storage.dram + start) % self.align
        return self.rings[ring].take(ceil_div(offset + nbytes, self.align) * self.align) + offset

    def written(self, name: str, start: int, nbytes: int, place: int, **meta: Any) -> None:
        """The bytes are in the scratchpad. Store them to DRAM if they do not stay, or if a later node reads them from there."""
        storage, bits = self._made(name), self.lowered.tensors[name].bits
        if storage.spm is None or self.lowered.bytes_at(name) in self._asked:
            assert storage.dram is not None
            addr = storage.dram + start
            span = Span(addr, 1, nbytes * 8 // bits, nbytes)
            self.emit.store("activation", bits, span, place - addr % self.align, **meta)

    def in_one_piece(self, name: str) -> None:
        """The following jobs write a tensor in another order."""
        storage = self._made(name)
        storage.granule = storage.nbytes

    def complete(self, name: str, meta: dict[str, Any]) -> None:
        """A tensor that was written in an order of its own is all there."""
        storage = self._made(name)
        if storage.granule == storage.nbytes and storage.spm is not None:
            self.emit.join(storage.spm, storage.nbytes, **meta)

    def block_written(self, name: str, start: int, nbytes: int, meta: dict[str, Any]) -> None:
        """A block of a tensor, whose bytes are in an order of their own, is all there."""
        storage = self._made(name)
        storage.granule = max(storage.granule, nbytes)
        if storage.spm is not None and self.lowered.bytes_at(name) in self._byte_by_byte:
            storage.blocks.append((start, nbytes))
        elif storage.spm is not None:
            self.emit.join(storage.spm + start, nbytes, **meta)

    def passed_on(self, a: str, out: str, meta: dict[str, Any]) -> None:
        """`out` was made of `a` byte by byte, so its blocks have the order of those of `a`."""
        source = self.storage(a)
        if source is None:
            return
        blocks = source.blocks
        if source is self._made(out):  # in its place
            source.blocks = []
        for start, nbytes in blocks:
            self.block_written(out, start, nbytes, meta)

    def _made(self, name: str) -> Storage:
        storage = self.storage(name)
        assert storage is not None
        return storage


def check_machine(lowered: Lowered, config: NpuConfig) -> None:
    """InputError if a tensor is larger than any program could go through in a reasonable time."""
    for number, work in lowered.jobs:
        elements = max(lowered.tensors[name].elements for name in (*read_by(work), work.out))
        if elements > MAX_ELEMENTS:
            rule = f"its tensors have {elements} elements, and a program has at most {MAX_ELEMENTS} of them"
            raise InputError(Problem(config.source, rule, f"node {lowered.graph.nodes[number].name}"))
