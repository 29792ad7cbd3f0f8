"""A graph computed from the tiles of its program and compared with a reference: evidence that the tiling computes the model.

The check has two passes. The first pass follows bytes: the jobs of the program move objects through scratchpad and DRAM in the
order in which the jobs complete on the machine. The result of a job is valid only if the job reads the inputs of its work from
the places where the program put them. The second pass computes values: products tile by tile from the tiles of the first pass,
and other operators by `onnx.reference`, with NaN wherever a tile was not valid or is missing. Positions are those of storage:
the check does not follow the order of elements inside a block of a product, and a job that waits for a block may read any part
of the block.
"""

from __future__ import annotations

import warnings
from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from math import prod
from typing import Any

import numpy as np

from kernbench.cmdq.entries import DmaEntry, TeEntry, VeEntry
from kernbench.cmdq.footprint import regions_of, transfer_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.sim_engine.machine import Machine
from kernbench.workloads.graphs.graph import Array, Copy, Node, Pool, Product, Rows, Vector, Work
from kernbench.workloads.graphs.memory import Memory
from kernbench.workloads.graphs.run import GraphProgram
from kernbench.workloads.graphs.sizes import ELEMENTWISE, Size
from kernbench.workloads.graphs.split import Cut

MAX_FAULTS = 20  #: limit of the faults that are kept
#: Operators whose results differ between two runs.
RANDOM = frozenset(("Bernoulli", "Multinomial", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"))
_COLUMNS = "the columns of"


@dataclass(slots=True)
class Verification:
    """The result of a check. `worst`: the largest error divided by the tolerance, by output; if all values are at most 1, the
    outputs are equal."""

    model: str
    jobs: int = 0
    tiles: int = 0  #: number of tiles of products, each of which is computed separately
    faults: list[str] = field(default_factory=list)
    worst: dict[str, float] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """The data for `--json`."""
        return {
            "passed": self.passed,
            "jobs": self.jobs,
            "product_tiles": self.tiles,
            "faults": self.faults,
            "outputs": [{"name": name, "equal": error <= 1} for name, error in self.worst.items()],
        }

    @property
    def passed(self) -> bool:
        """Whether every job read its inputs, and all outputs are equal."""
        return not self.faults and all(error <= 1 for error in self.worst.values())


@dataclass(slots=True)
class _Sums:
    """The sum of several products of slabs: the slabs, their operands, and the job that last wrote the sum."""

    slabs: tuple[int, ...]
    left: tuple[int, int, int]  #: matrix, row, rows
    right: tuple[int, int, int]  #: matrix, column, columns
    job: int = -1


@dataclass(slots=True)
class _Object:
    """Bytes of one tensor. `at`: where its first byte is in the tensor; -1: known when it is stored."""

    name: str
    at: int
    job: int = -1
    row: tuple[int, int] = (0, 0)  #: slice and tile, for a weight
    #: for several rows: the start of the first row, the number of rows, and the bytes of a row
    part: tuple[int, int, int] = (0, 0, 0)
    sums: _Sums | None = None  #: for a product whose dimension k is cut: the sum so far


@dataclass(slots=True)
class _Tile:
    """A valid tile of a product: rows and columns of one matrix."""

    matrix: tuple[int, int, int]
    group: int
    row: int
    rows: int
    col: int
    cols: int
    slabs: tuple[int, ...] = ()  #: slabs of k, if k is cut, in the order in which they were added
    depth: int = 0  #: elements of k in a slab


class Replay:
    """The first pass over one program."""

    def __init__(self, made: GraphProgram, memory: Memory) -> None:
        self.made, self.memory, self.lowered = made, memory, made.lowered
        self.config = made.machine
        self.objects: list[_Object | None] = [None]
        self.owner: Array = np.zeros(self.config.spm.size_bytes, np.int32)  # by byte of the scratchpad: the object
        self.offset: Array = np.zeros(self.config.spm.size_bytes, np.int64)  # by byte of the scratchpad: the byte of the object
        self.done: dict[str, Array] = {}  # by region of DRAM and by byte: the owner of the byte; 0 for none
        self._names: list[str] = [""]
        self.covered: dict[int, Array] = {}  # by work: the bytes of its result that valid jobs made
        self.tiles: dict[int, list[_Tile]] = defaultdict(list)
        self.found = Verification(made.lowered.graph.name)
        self._regions = sorted((region.base, region.end, region.name) for region in memory.dram.regions)
        # by job: the function to call when the location of its result is known
        self._pending: dict[int, Callable[[int], None]] = {}
        self._bases = [base for base, _, _ in self._regions]
        self._weights = {
            tile.dram_addr: (name, number, index, tile.moved_bytes)
            for (name, *_), layout in memory._layouts.items()
            for number, tiles in enumerate(layout._slices)
            for index, tile in enumerate(tiles)
        }

    def run(self) -> Verification:
        """All jobs, in the order of their completion."""
        machine = Machine(self.made.target, self.made.program)
        machine.run()
        times = {time.id: time for time in machine.result().entries}
        work_of = self.made.works
        entries = sorted(self.made.program.entries[:-1], key=lambda entry: (times[entry.id].end, entry.id))
        for entry in entries:
            if isinstance(entry, DmaEntry):
                self._dma(entry)
            elif isinstance(entry, TeEntry | VeEntry):
                self._job(entry, work_of[entry.id])
            self.found.jobs += 1
        return self.found

    def _fault(self, entry: Any, text: str) -> None:
        if len(self.found.faults) < MAX_FAULTS:
            self.found.faults.append(f"entry {entry.id} ({entry.opcode}, {entry.meta.get('debug', '')}): {text}")

    def _region(self, addr: int) -> tuple[int, str]:
        number = int(np.searchsorted(self._bases, addr, "right")) - 1
        return self._regions[number][0], self._regions[number][2]

    def _done(self, name: str) -> Array:
        if name not in self.done:
            tensor = self.lowered.tensors[name]
            nbytes = max(-(-tensor.elements * tensor.bits // 8), 1)
            self.done[name] = np.full(nbytes, self._number(name) if tensor.source != "work" else 0, np.int32)
        return self.done[name]

    def _number(self, name: str) -> int:
        if name not in self._names:
            self._names.append(name)
        return self._names.index(name)

    def _dma(self, entry: DmaEntry) -> None:
        moved = transfer_of(entry, self.config)
        base, name = self._region(moved.dram_addr)
        place = moved.spm_addr + moved.dram_addr % self.config.dma.alignment_bytes
        nbytes = moved.rows * moved.row_bytes
        at = moved.dram_addr - base
        if moved.write:
            self._store(entry, name, at, place, nbytes)
            return
        if moved.dram_addr not in self._weights:
            done, firsts = self._done(name), [at + number * moved.stride for number in range(moved.rows)]
            there = {int(number) for first in firsts for number in np.unique(done[first : first + moved.row_bytes])}
            if len(there) != 1 or 0 in there:
                self._fault(entry, f"it loads bytes of {name} from {at} on before they are there")
                self.owner[place : place + nbytes] = 0
                return
            part = (at, moved.rows, moved.row_bytes)
            self._put(place, nbytes, _Object(self._names[there.pop()], at if moved.rows == 1 else -2, part=part))
            return
        loaded = 0
        while loaded < nbytes:  # one tile, or several that follow each other
            name, number, index, size = self._weights.get(moved.dram_addr + loaded, ("", 0, 0, nbytes))
            if not name:
                self._fault(entry, f"it loads bytes of weights from {at + loaded} on, where no tile begins")
            self._put(place + loaded, min(size, nbytes - loaded), _Object(name, 0, row=(number, index)))
            loaded += size

    def _put(self, place: int, nbytes: int, made: _Object) -> None:
        self.objects.append(made)
        self.owner[place : place + nbytes] = len(self.objects) - 1
        self.offset[place : place + nbytes] = np.arange(nbytes)

    def _store(self, entry: Any, name: str, at: int, place: int, nbytes: int) -> None:
        """Bytes of a result are stored in DRAM, which gives the location of results that were made in a ring."""
        done = self._done(name)
        first = 0
        while first < nbytes:
            number = int(self.owner[place + first])
            last = first + 1
            same = self.owner[place + first : place + nbytes] != number
            last = first + (int(np.argmax(same)) if same.any() else nbytes - first)
            found = self.objects[number]
            if found is None or name not in (self.lowered.bytes_at(found.name), self._place(found.name)):
                self._fault(entry, f"it stores {found.name if found else 'nothing that is valid'} as {name}")
            else:
                done[at + first : at + last] = self._number(self.lowered.bytes_at(found.name))
                if found.at == -1:
                    self._resolve(found, at + first)
                elif found.job >= 0 and found.at != at + first - int(self.offset[place + first]):
                    self._fault(entry, f"it stores bytes {found.at} of {name} at {at + first}")
            first = last

    def _place(self, name: str) -> str:
        root = self.lowered.bytes_at(name)
        while root in self.made.plan.same_place:
            root = self.made.plan.same_place[root]
        return root

    def _resolve(self, made: _Object, at: int) -> None:
        made.at = at
        self._pending.pop(made.job)(at)

    def _job(self, entry: Any, number: int) -> None:
        """A product or a vector operation of a piece of work."""
        work, size = self.lowered.jobs[number][1], self.made.plan.sizes[number]
        *reads, write = regions_of(entry, self.config)
        found = [self._read(entry, region.addr, region.nbytes) for region in reads]
        cut = size.cut if isinstance(work, Product) else None
        if isinstance(work, Product) and cut is not None:
            self._slab(entry, number, work, cut, found, write)
            return
        columns = isinstance(work, Product) and isinstance(entry, VeEntry)
        names = self._expected(work, entry, columns)
        for position, (held, wanted) in enumerate(zip(found, names, strict=False)):
            if held is None:
                self._fault(entry, f"its input {position} is not there")
                self.owner[write.addr : write.addr + write.nbytes] = 0
                return
            if self._tag(held.name) not in wanted:
                self._fault(entry, f"its input {position} is {held.name}, not {' or '.join(sorted(wanted))}")
                self.owner[write.addr : write.addr + write.nbytes] = 0
                return
        if columns:
            self._put(write.addr, write.nbytes, _Object(f"{_COLUMNS} {self._tag(work.a)}", -2))  # type: ignore[union-attr]
            return
        made = _Object(work.out, -1, entry.id)
        starts = [self._start(region.addr) for region in reads]
        there = self._there(work)
        self._put(write.addr, write.nbytes, made)

        def known(at: int) -> None:
            if not self._reads_what_is_there(entry, work, at, write.nbytes, there):
                return
            self._made(entry, number, work, size, at, write.nbytes, found, starts)

        self._pending[entry.id] = known
        storage = self.memory.storage(work.out)
        if storage is not None and storage.spm is not None:
            self._resolve(made, write.addr - storage.spm)

    def _slab(self, entry: Any, number: int, work: Product, cut: Cut, found: list[_Object | None], write: Any) -> None:
        """A product of a slab of k, or the addition of two of them."""
        made = _Object(work.out, -1, entry.id)
        if any(one is None for one in found):
            self._fault(entry, "an input is not there")
        elif isinstance(entry, VeEntry):
            one, other = (held.sums for held in found if held is not None)
            if one is None or other is None or (one.left, one.right) != (other.left, other.right):
                self._fault(entry, "it does not add products of the same rows and columns")
            else:
                made.sums = replace(one, slabs=one.slabs + other.slabs, job=entry.id)
        else:
            left, right = found
            assert left is not None and right is not None
            made.sums = self._slab_product(entry, work, cut, left, right)
        if made.sums is None:
            self.owner[write.addr : write.addr + write.nbytes] = 0
            return
        self._put(write.addr, write.nbytes, made)
        whole = made.sums

        def known(at: int) -> None:
            self._all_slabs(entry, number, work, cut, whole, at, write.nbytes)

        self._pending[entry.id] = known
        storage = self.memory.storage(work.out)
        if storage is not None and storage.spm is not None and len(whole.slabs) == ceil_div(work.k, cut.depth):
            self._resolve(made, write.addr - storage.spm)

    def _slab_product(self, entry: Any, work: Product, cut: Cut, left: _Object, right: _Object) -> _Sums | None:
        """The product of a slab of both operands; None if they are not parts of the same slab."""
        if self._tag(left.name) != self._tag(work.a) or self._tag(right.name) != self._tag(work.b):
            self._fault(entry, f"its inputs are {left.name} and {right.name}, not {work.a} and {work.b}")
            return None
        tensors = self.lowered.tensors
        row, deep = divmod(left.part[0] * 8 // tensors[work.a].bits, work.k)
        slab, rest = divmod(deep, cut.depth)
        depth = min(cut.depth, work.k - deep)
        if rest or entry.k != depth or left.part[1:] != (entry.m, depth * tensors[work.a].bits // 8):
            self._fault(entry, f"its left input is {left.part[1]} rows from element {deep} on, not {entry.m} of {entry.k}")
            return None
        count = ceil_div(work.k, cut.depth)
        if tensors[work.b].source == "weight":
            of_b, other = divmod(right.row[0], count)
            col = right.row[1] * cut.cols
        else:
            of_b, inside = divmod(right.part[0] * 8 // tensors[work.b].bits, work.k * work.n)
            high, low = divmod(inside, work.k if work.swapped else work.n)
            col, other = (high, low // cut.depth) if work.swapped else (low, high // cut.depth)
        if other != slab:
            self._fault(entry, f"it multiplies slab {slab} of {work.a} with slab {other} of {work.b}")
            return None
        return _Sums((slab,), (row // work.m, row % work.m, entry.m), (of_b, col, entry.n), entry.id)

    def _all_slabs(self, entry: Any, number: int, work: Product, cut: Cut, whole: _Sums, at: int, nbytes: int) -> None:
        """A sum of all slabs whose place in the result is known: checks that the sum is the product of this place."""
        out = self.lowered.tensors[work.out].bits // 8
        matrix, inside = divmod(at // out, work.m * work.n)
        block = inside // (cut.rows * work.n) * cut.rows
        rows = min(cut.rows, work.m - block)
        col, rest = divmod(inside - block * work.n, rows)
        of = next((one for one in work.matrices if one[2] == matrix), None)
        if of is None or rest or whole.left != (of[0], block, rows) or whole.right[:2] != (of[1], col):
            self._fault(entry, f"it makes rows {block} and columns {col} of {work.out} from others")
            return
        if sorted(whole.slabs) != list(range(ceil_div(work.k, cut.depth))):
            self._fault(entry, f"it adds the slabs {list(whole.slabs)[:8]} of k")
            return
        covered = self.covered.setdefault(number, np.zeros(self.lowered.tensors[work.out].elements * out, bool))
        covered[at : at + nbytes] = True
        self.tiles[number].append(_Tile(of, 0, block, rows, col, whole.right[2], whole.slabs, cut.depth))

    def _there(self, work: Work) -> list[tuple[str, Array]]:
        """The tensors of which a job reads elements at other positions, and which of their bytes are in the scratchpad at this
        time."""
        alone = isinstance(work, Copy) and len(work.sources) == 1
        names = work.gathers if isinstance(work, Vector) else work.sources if isinstance(work, Copy) and alone else ()
        found = []
        for name in dict.fromkeys(names):
            storage = self.memory.storage(name)
            if storage is not None and storage.spm is not None:
                numbers = self.owner[storage.spm : storage.spm + storage.nbytes]
                objects = {int(number): self.objects[int(number)] for number in np.unique(numbers)}
                own = [number for number, one in objects.items() if one is not None and self._tag(one.name) == self._tag(name)]
                found.append((name, np.isin(numbers, own)))
        return found

    def _reads_what_is_there(self, entry: Any, work: Work, at: int, nbytes: int, there: list[tuple[str, Array]]) -> bool:
        """Whether all elements that a job reads at other positions were in the scratchpad; `at`: bytes of its result."""
        tensors = self.lowered.tensors
        for name, held in there:
            assert isinstance(work, Copy | Vector)
            out, size, start, end = tensors[work.out].bits // 8, tensors[name].bits // 8, 0, len(held)
            if work.order is not None:
                each = work.length if isinstance(work, Vector) and work.reduces else 1
                low, high = work.order.span(at // out * each, (at + nbytes) // out * each - 1)
                start, end = low * size, (high + 1) * size
            if not held[start:end].all():
                self._fault(entry, f"it reads elements of {name} before they are there")
                return False
        return True

    def _start(self, addr: int) -> int:
        found = self.objects[int(self.owner[addr])]
        return -2 if found is None or found.at < 0 else found.at + int(self.offset[addr])

    def _read(self, entry: Any, addr: int, nbytes: int) -> _Object | None:
        """The object in these bytes; None if there is none, or if some bytes belong to another object."""
        numbers = np.unique(self.owner[addr : addr + nbytes])
        names = {found.name if found is not None else "" for found in (self.objects[int(number)] for number in numbers)}
        if "" in names or len({self._tag(name) for name in names}) > 1:
            return None
        return self.objects[int(self.owner[addr])]

    def _tag(self, name: str) -> str:
        return name if name.startswith(_COLUMNS) else self.lowered.bytes_at(name)

    def _expected(self, work: Work, entry: Any, columns: bool) -> list[set[str]]:
        match work:
            case Product():
                a = f"{_COLUMNS} {self._tag(work.a)}" if work.window is not None and not columns else self._tag(work.a)
                return [{a}, {self._tag(work.b)}]
            case Vector():
                a = self._tag(work.a)
                return [{a}, {self._tag(work.b) if work.b else a}]
            case Pool():
                out, a = self._tag(work.out), self._tag(work.a)
                return [{a}] if len(regions_of(entry, self.config)) == 2 else [{out}, {a}]
            case Copy():
                return [{self._tag(name) for name in work.sources}]
            case Rows():
                return [{self._tag(work.table)}]

    def _made(
        self, entry: Any, number: int, work: Work, size: Size, at: int, nbytes: int, found: list[Any], starts: list[int]
    ) -> None:
        """The location of a job's result is known: checks that its inputs are those of this location."""
        tensors = self.lowered.tensors
        out = tensors[work.out].bits // 8
        first = at // out
        if isinstance(work, Vector):
            flat = work.op in ELEMENTWISE
            element = first if flat or not work.reduces else first * work.length
            inputs = [work.a, work.b or work.a]
            for name, start in zip(inputs, starts, strict=False):
                size_of = tensors[name].bits // 8
                if start >= 0 and start != element * size_of and name not in work.gathers:
                    self._fault(entry, f"it makes element {first} of {work.out} from {start // size_of} of {name}")
                    return
        elif isinstance(work, Rows) and work.known and starts[0] >= 0:
            wide = -(-work.length * tensors[work.table].bits // 8)
            if starts[0] != work.known[first // work.length] * wide:
                self._fault(entry, f"it makes row {first // work.length} of {work.out} from another row of {work.table}")
                return
        elif isinstance(work, Product) and not self._product(entry, number, work, size, first, found, starts):
            return
        covered = self.covered.setdefault(number, np.zeros(tensors[work.out].elements * out, bool))
        covered[at : at + nbytes] = True

    def _product(
        self, entry: Any, number: int, work: Product, size: Size, first: int, found: list[Any], starts: list[int]
    ) -> bool:
        wide = work.n * work.groups
        rows_each = work.m if work.window is None else prod(work.window.out)
        stack, inside = divmod(first, rows_each * wide)  # number of the matrix or image
        block = inside // (size.rows * wide) * size.rows
        rows = min(size.rows, rows_each - block)
        column = (inside - block * wide) // rows
        if entry.m != rows or (inside - block * wide) % rows or entry.k != work.k:
            self._fault(entry, f"its shape {entry.m} x {entry.k} does not fit {rows} rows of {work.k} elements")
            return False
        group, col = divmod(column, work.n)
        if work.window is None:
            matrix = next((one for one in work.matrices if one[2] == stack), None)
            if matrix is None:
                self._fault(entry, f"there is no matrix {stack} of {work.out}")
                return False
            bits = self.lowered.tensors[work.a].bits
            if starts[0] >= 0 and starts[0] != (matrix[0] * work.m + block) * work.k * bits // 8:
                self._fault(entry, f"it multiplies row {starts[0] * 8 // bits // work.k} as row {block}")
                return False
            row = block
        else:
            matrix, row = (0, 0, 0), stack * rows_each + block
        weight = found[1]
        if weight.row != (0, 0) or self.lowered.tensors[work.b].source == "weight":
            wanted = (matrix[1] + group, col // min(size.cols, work.n)) if size.cols <= work.n else (0, 0)
            if weight.row != wanted:
                self._fault(entry, f"it multiplies with tile {weight.row} of {work.b}, not {wanted}")
                return False
        self.tiles[number].append(_Tile(matrix, group, row, rows, col, entry.n))
        return True


class Values:
    """The second pass: values from valid tiles, for one node after another. `weights`: the values of all tensors that are known
    before the run."""

    def __init__(self, replay: Replay, inputs: Mapping[str, Array], weights: Mapping[str, Array]) -> None:
        self.replay, self.lowered = replay, replay.lowered
        self.values: dict[str, Array] = {**replay.lowered.graph.known, **weights, **inputs}
        self.works: dict[int, list[int]] = defaultdict(list)
        for number, (node, _) in enumerate(self.lowered.jobs):
            self.works[node].append(number)

    def run(self) -> dict[str, Array]:
        """The values of all tensors."""
        for number, node in enumerate(self.lowered.graph.nodes):
            results = self._product(number, node)
            if results is None:
                results = evaluate(node, [self.values.get(name) if name else None for name in node.inputs])
            for name, value in zip(node.outputs, results, strict=False):
                if name:
                    self.values[name] = np.asarray(value)
            self._poison(number, node)
        return self.values

    def _product(self, number: int, node: Node) -> list[Array] | None:
        """A MatMul, Gemm or Conv from its tiles; None for other operators."""
        found = [one for one in self.works[number] if isinstance(self.lowered.jobs[one][1], Product)]
        if node.op not in ("MatMul", "Gemm", "Conv") or node.domain or len(found) != 1:
            return None
        work = self.lowered.jobs[found[0]][1]
        assert isinstance(work, Product)
        if len(node.inputs) < 2 or any(self.values[name].ndim > 4 for name in node.inputs[:2]):
            return None
        tiles = self.replay.tiles[found[0]]
        x, weights = (self.values[name].astype(np.float64) for name in node.inputs[:2])
        if node.op == "Conv":
            return [self._conv(node, work, tiles, x, weights)]
        if node.op == "Gemm":
            x = x.T if node.attributes.get("transA", 0) else x
            weights = weights.T if node.attributes.get("transB", 0) else weights
        left = x.reshape(-1, work.m, work.k)
        right = weights.reshape(-1, work.k, work.n)
        out = np.full((max(one[2] for one in work.matrices) + 1, work.m, work.n), np.nan)
        for tile in tiles:
            of_a, of_b, of_out = tile.matrix
            rows, columns = slice(tile.row, tile.row + tile.rows), slice(tile.col, tile.col + tile.cols)
            slabs = [slice(one * tile.depth, (one + 1) * tile.depth) for one in tile.slabs] or [slice(None)]
            parts = [left[of_a, rows, slab] @ right[of_b, slab][:, columns] for slab in slabs]
            out[of_out, rows, columns] = sum(parts[1:], start=parts[0])
            self.replay.found.tiles += 1
        kind = self.values[node.inputs[0]].dtype
        if node.op == "Gemm":
            made = out[0] * node.attributes.get("alpha", 1.0)
            if node.input(2):
                made = made + node.attributes.get("beta", 1.0) * self.values[node.input(2)]
            return [made.astype(kind)]
        shape = evaluate(node, [np.broadcast_to(np.zeros((), kind), self.values[name].shape) for name in node.inputs])[0].shape
        return [out.reshape(shape).astype(kind)]

    def _conv(self, node: Node, work: Product, tiles: list[_Tile], x: Array, weights: Array) -> Array:
        images, channels, *size = x.shape
        filters, _, *kernel = weights.shape
        window = work.window
        if window is None:  # one position of the kernel
            rows = np.moveaxis(x, 1, -1).reshape(-1, 1, channels)
            places = tuple(size)
        else:
            x = x.reshape(images, channels, *window.size)
            rows = columns_of(x, window, work.groups)
            outputs = tuple(one * of for one, of in zip(window.out, work.tile, strict=True))
            places = outputs if len(kernel) == 2 else outputs[1:]
        flat = self._filters(node, work, weights)
        out = np.full((rows.shape[0], work.groups, work.n), np.nan)
        for tile in tiles:
            last = tile.col + tile.cols
            product = rows[tile.row : tile.row + tile.rows, tile.group] @ flat[tile.group, tile.col : last].T
            out[tile.row : tile.row + tile.rows, tile.group, tile.col : last] = product
            self.replay.found.tiles += 1
        if work.tile != (1, 1):
            assert window is not None
            of_tiles = out.reshape(images, *window.out, filters, *work.tile)
            out = of_tiles.transpose(0, 1, 4, 2, 5, 3)
        made = np.moveaxis(out.reshape(images, *places, filters), -1, 1)
        if node.input(2):
            made = made + self.values[node.input(2)].reshape(-1, *(1 for _ in places))
        return made.astype(self.values[node.inputs[0]].dtype)

    def _filters(self, node: Node, work: Product, weights: Array) -> Array:
        """The matrix of a convolution: `[group][column][depth]`."""
        if work.tile == (1, 1):
            return in_blocks(weights.reshape(work.groups * work.blocks, -1, prod(weights.shape[1:])), work.blocks)
        assert work.window is not None
        size = (1, *weights.shape[2:]) if weights.ndim == 3 else weights.shape[2:]
        line, ones = (1,) * (4 - weights.ndim), (1,) * (weights.ndim - 2)
        strides, dilations = ([*line, *node.attributes.get(name, ones)] for name in ("strides", "dilations"))
        if work.groups * work.blocks == 1:
            return dense_tiles(weights.reshape(*weights.shape[:2], *size), work, strides, dilations)
        return in_tiles(weights.reshape(-1, *size), work, strides, dilations)

    def _poison(self, number: int, node: Node) -> None:
        """Put NaN where a valid job is missing, and everywhere if a step inside the node lacks an input."""
        for one in self.works[number]:
            work = self.lowered.jobs[one][1]
            covered = self.replay.covered.get(one)
            tensor = self.lowered.tensors[work.out]
            if not tensor.elements or (covered is not None and covered.all()) or _partial(work, tensor.elements):
                continue
            for name in node.outputs:
                if name in self.values and self.values[name].dtype.kind == "f":
                    self.values[name] = np.full_like(self.values[name], np.nan)
            if len(self.replay.found.faults) < MAX_FAULTS:
                missing = tensor.elements if covered is None else int((~covered).sum()) * 8 // tensor.bits
                self.replay.found.faults.append(f"{node.name} ({node.op}): {missing} elements of {work.out} are not made")
            return


def _partial(work: Work, elements: int) -> bool:
    """Whether a piece of work makes only a part of a tensor, such as one head, and other work makes the rest."""
    return isinstance(work, Product) and len(work.matrices) * work.m * work.n * work.groups < elements


def in_blocks(weights: Array, blocks: int) -> Array:
    """Matrices `[group][column][depth]` with this number of groups in one matrix, and zeros between the groups."""
    groups, columns, depth = weights.shape
    made = np.zeros((groups // blocks, blocks, columns, blocks, depth))
    for number in range(blocks):
        made[:, number, :, number] = weights[number::blocks]
    return made.reshape(groups // blocks, blocks * columns, blocks * depth)


def in_tiles(filters: Array, work: Product, strides: list[int], dilations: list[int]) -> Array:
    """Filters `[channel][row][column]` as matrices of tiles: a copy of the filter for each output of a tile, at the position of
    the output."""
    assert work.window is not None
    (rows, columns), (high, wide) = filters.shape[1:], work.window.kernel
    made = np.zeros((work.groups, work.blocks, *work.tile, work.blocks, high, wide))
    by_group = filters.reshape(work.groups, work.blocks, rows, columns)
    for block in range(work.blocks):
        for y in range(work.tile[0]):
            for x in range(work.tile[1]):
                down = slice(y * strides[0], y * strides[0] + (rows - 1) * dilations[0] + 1, dilations[0])
                across = slice(x * strides[1], x * strides[1] + (columns - 1) * dilations[1] + 1, dilations[1])
                made[:, block, y, x, block, down, across] = by_group[:, block]
    return made.reshape(work.groups, work.n, work.k)


def dense_tiles(filters: Array, work: Product, strides: list[int], dilations: list[int]) -> Array:
    """Filters `[filter][channel][row][column]` as the matrix of tiles: a copy of every filter for each output of a tile, at the
    position of the output."""
    assert work.window is not None
    count, channels, rows, columns = filters.shape
    made = np.zeros((count, *work.tile, channels, *work.window.kernel))
    for y in range(work.tile[0]):
        for x in range(work.tile[1]):
            down = slice(y * strides[0], y * strides[0] + (rows - 1) * dilations[0] + 1, dilations[0])
            across = slice(x * strides[1], x * strides[1] + (columns - 1) * dilations[1] + 1, dilations[1])
            made[:, y, x, :, down, across] = filters
    return made.reshape(1, work.n, work.k)


def columns_of(x: Array, window: Any, groups: int) -> Array:
    """The elements under each window, as one row: `[image x place][group][channel x position]`."""
    images, channels = x.shape[:2]
    padded = np.zeros((images, channels, *(n + 2 * (p + k * d) for n, p, k, d in zip(
        window.size, window.pads, window.kernel, window.dilations, strict=True))))  # fmt: skip
    low = [p + k * d for p, k, d in zip(window.pads, window.kernel, window.dilations, strict=True)]
    padded[:, :, low[0] : low[0] + window.size[0], low[1] : low[1] + window.size[1]] = x
    parts = []
    for row in range(window.kernel[0]):
        for col in range(window.kernel[1]):
            at = [low[0] - window.pads[0] + row * window.dilations[0], low[1] - window.pads[1] + col * window.dilations[1]]
            ends = [at[i] + (window.out[i] - 1) * window.strides[i] + 1 for i in (0, 1)]
            parts.append(padded[:, :, at[0] : ends[0] : window.strides[0], at[1] : ends[1] : window.strides[1]])
    stacked = np.stack(parts, 2)  # image, channel, position, row, column
    moved = stacked.transpose(0, 3, 4, 1, 2).reshape(images * prod(window.out), groups, -1)
    return np.asarray(moved, np.float64)


def evaluate(node: Node, inputs: list[Array | None]) -> list[Array]:
    """The outputs of one node by `onnx.reference`. Raises InputError if the reference does not have the operator."""
    from onnx import TypeProto, helper
    from onnx.reference import ReferenceEvaluator

    if node.op == "Cast" and isinstance(node.attributes.get("to"), str):
        assert inputs[0] is not None
        return [inputs[0].astype(node.attributes["to"])]
    if node.op == "Atan2":
        return [np.arctan2(*inputs)]  # type: ignore[arg-type]
    if node.op in RANDOM and not node.domain:
        raise InputError(Problem(f"node {node.name} ({node.op})", "its results are random, so they cannot be compared"))
    made = helper.make_node(node.op, list(node.inputs), list(node.outputs), domain=node.domain, **node.attributes)
    named = {name: value for name, value in zip(node.inputs, inputs, strict=True) if name}
    feeds = [helper.make_value_info(name, TypeProto()) for name in named]
    results = [helper.make_value_info(name, TypeProto()) for name in node.outputs if name]
    opset = helper.make_opsetid(node.domain, node.opset)
    graph = helper.make_graph([made], "one", feeds, results)
    try:
        with warnings.catch_warnings(action="ignore"), np.errstate(all="ignore"):
            values = ReferenceEvaluator(helper.make_model(graph, opset_imports=[opset])).run(None, named)
    except Exception as error:  # the reference raises various exceptions for operators and types that it does not have
        raise InputError(Problem(f"node {node.name} ({node.op})", f"onnx.reference cannot compute it: {error}")) from None
    found = iter(values)
    return [np.asarray(next(found)) if name else np.zeros(0) for name in node.outputs]


def verify(
    made: GraphProgram, inputs: Mapping[str, Array], weights: Mapping[str, Array], expected: Mapping[str, Array]
) -> Verification:
    """Compute a program's graph from its tiles, and compare its outputs with those expected."""
    found = Verification(made.lowered.graph.name)
    if made.lowered.missing:
        raise InputError(
            Problem(found.model, "a graph with nodes that are not lowered cannot be verified", remedy="leave out --partial")
        )
    replay = Replay(made, made.memory)
    found = replay.run()
    values = Values(replay, inputs, weights).run()
    for name, wanted in expected.items():
        found.worst[name] = error_of(values[name], np.asarray(wanted))
    return found


def error_of(value: Array, wanted: Array) -> float:
    """The largest error divided by the tolerance of the type; infinite for a wrong shape, and for NaN or infinity where the
    reference has none."""
    if value.shape != wanted.shape:
        return float("inf")
    narrow = wanted.dtype.kind == "V" and not wanted.dtype.names and value.dtype == wanted.dtype  # bfloat16, float8, int4
    if not (wanted.dtype.kind in "fiub" or narrow) or not wanted.size:
        return 0.0 if np.array_equal(value, wanted) else float("inf")
    a, b = value.astype(np.float64), wanted.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if same.all():
        return 0.0
    if not (same | (np.isfinite(a) & np.isfinite(b))).all():
        return float("inf")
    a, b = a[~same], b[~same]
    every = np.abs(wanted.astype(np.float64))
    finite = every[np.isfinite(every)]
    relative = 2e-2 if wanted.dtype.itemsize < 4 else 1e-3
    return float(np.max(np.abs(a - b) / (relative * np.abs(b) + relative * max(1e-3, float(finite.max()) * 0.1))))
