"""Tensors in the HBM of a machine, and the locations of their parts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from math import prod

import numpy as np

from kernbench.common.dtypes import Array, dtype_of, nbytes_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.pointers import DevicePointer
from kernbench.policy.placement import DPPolicy, Shard
from kernbench.runtime_api.allocator import AddressSpace, HbmAllocator, Piece
from kernbench.runtime_api.pe_set import PeSet
from kernbench.sim_engine.memory_store import MemoryStore

LEVELS = ("sip", "cube", "pe")  #: the levels of a machine, the outermost first


@dataclass(frozen=True, slots=True)
class TensorPiece:
    """Contiguous elements of a tensor: the shard of one PE, or the piece of an unsharded tensor that is in one HBM slice."""

    pe: int | None  #: PE of the shard; None for a tensor without shards
    shard: Shard | None
    first: int  #: of a packed tensor: the flat index of the first element
    shape: tuple[int, ...]
    physical: int
    virtual: int
    nbytes: int

    def of(self, array: Array) -> Array:
        """The elements of this part as a contiguous array, from an array of the whole tensor."""
        if self.shard is not None:
            return np.ascontiguousarray(array[self.shard.index])
        if prod(self.shape) == array.size:
            return np.ascontiguousarray(array)
        return array.reshape(-1)[self.first : self.first + prod(self.shape)]


@dataclass(eq=False)
class DeviceTensor:
    """A tensor of a run; methods of `Context` make tensors. `host`: the elements on the host, or None for a tensor of
    `Context.empty`.

    >>> import kernbench as kb
    >>> @kb.bench(name="shapes", description="a tensor")
    ... def shapes(ctx):
    ...     x = ctx.zeros((2, 3), "f16", name="x")
    ...     print(x.name, x.shape, x.nbytes)
    >>> kb.GraphEngine("single_cube").run(shapes).status
    x (2, 3) 12
    'done'
    """

    name: str
    shape: tuple[int, ...]
    dtype: str
    placement: DPPolicy | None
    parts: tuple[TensorPiece, ...]
    host: Array | None = field(repr=False)
    deployed: bool = False

    @property
    def nbytes(self) -> int:
        """[B] The size of the whole tensor; replicated elements count once."""
        return nbytes_of(self.shape, self.dtype)

    @property
    def repeated(self) -> str:
        """A note if units compute the same part of an output: a level inside a replicated level is divided. Empty for a tensor
        that is not divided at all, such as the result of an all-reduce."""
        if self.placement is None:
            return ""
        shards = [part.shard for part in self.parts if part.shard is not None]
        counts = {level: len({getattr(shard, level) for shard in shards}) for level in LEVELS}
        ways = {level: getattr(self.placement, level) for level in LEVELS}
        inner = next((level for level in LEVELS if ways[level] != "replicate" and counts[level] > 1), None)
        if inner is None:
            return ""
        outer = [level for level in LEVELS[: LEVELS.index(inner)] if counts[level] > 1]
        if not outer:
            return ""
        count, words = prod(counts[level] for level in outer), dict(zip(LEVELS, ("SIPs", "cubes", "PEs"), strict=True))
        ways |= dict.fromkeys(outer, ways[inner])
        policy = ", ".join(f'{level}="{ways[level]}"' for level in LEVELS if ways[level] != "replicate")
        inside = {"cube": "the cubes of a SIP", "pe": "the PEs of a cube" if "cube" in outer else "the PEs of a SIP"}[inner]
        rule = f"{count} {words[outer[-1]]} compute the same elements of {self.name}, because its placement"
        among = " and ".join(words[level] for level in outer)
        return f"{rule} divides it only among {inside}; to divide it among {among} too: DPPolicy({policy})"

    @property
    def virtual(self) -> int:
        """The first virtual address of the tensor."""
        return self.parts[0].virtual

    def pointer(self, pe: int, pe_name: str) -> DevicePointer:
        """The pointer that a kernel on this PE gets. InputError if the tensor is sharded and the PE has no shard."""
        if self.placement is None:
            return self._pointer(self.virtual, self.shape, None)
        for part in self.parts:
            if part.pe == pe:
                return self._pointer(part.virtual, part.shape, part.shard)
        remedy = "launch on the PEs that its placement names (pes=...), or place it on more"
        raise InputError(Problem(f"tensor {self.name}", f"{pe_name} has no shard of it", remedy=remedy))

    def _pointer(self, address: int, shape: tuple[int, ...], shard: Shard | None) -> DevicePointer:
        return DevicePointer(
            address,
            name=self.name,
            shape=shape,
            dtype=self.dtype,
            tensor_shape=self.shape,
            window=self.virtual,
            shard=shard,
        )

    def write(self, store: MemoryStore, array: Array) -> Iterator[tuple[TensorPiece, Array]]:
        """Write the elements of the whole tensor at the physical and virtual addresses of each part, and yield the parts with
        their elements."""
        for part in self.parts:
            values = part.of(array)
            if values.size:
                store.write("hbm", part.physical, values)
                store.write("hbm", part.virtual, values)
                yield part, values

    def gather(self, store: MemoryStore) -> Array:
        """The whole tensor, assembled from its parts; of replicas, the last one counts. ValueError if some bytes have no
        value."""
        whole = np.empty(self.shape, dtype_of(self.dtype).numpy)
        for part in self.parts:
            values = store.read("hbm", part.physical, part.shape, self.dtype)
            if part.shard is not None:
                whole[part.shard.index] = values
            else:
                whole.reshape(-1)[part.first : part.first + values.size] = values.reshape(-1)
        return whole


def check_shape(where: str, shape: Sequence[int], dtype: str) -> tuple[int, ...]:
    """The shape, checked: integers of at least 1, and a whole number of bytes; otherwise InputError."""
    lengths = tuple(shape)
    if not all(isinstance(one, int | np.integer) and not isinstance(one, bool) and one >= 1 for one in lengths):
        raise InputError(Problem(where, f"its axes must be integers of at least 1, and it is {lengths}", "shape"))
    plain = tuple(int(one) for one in lengths)
    _nbytes(where, plain, dtype)
    return plain


def _nbytes(where: str, shape: tuple[int, ...], dtype: str) -> int:
    try:
        return nbytes_of(shape, dtype)
    except ValueError as error:
        raise InputError(Problem(where, str(error), remedy="make the last axis even")) from None


def packed_pieces(
    name: str, shape: tuple[int, ...], dtype: str, hbm: HbmAllocator, space: AddressSpace
) -> tuple[TensorPiece, ...]:
    """A row-major, contiguous tensor, from slice 0 of the first cube on. InputError if there is no room."""
    pieces = hbm.packed(_nbytes(f"tensor {name}", shape, dtype), name)
    addresses = space.add(pieces, name)
    if len(pieces) == 1:
        return (TensorPiece(None, None, 0, shape, pieces[0][0], addresses[0], pieces[0][1]),)
    parts, first = [], 0
    for (physical, nbytes), virtual in zip(pieces, addresses, strict=True):
        count = nbytes * 8 // dtype_of(dtype).bits
        parts.append(TensorPiece(None, None, first, (count,), physical, virtual, nbytes))
        first += count
    return tuple(parts)


def sharded_pieces(
    name: str, shape: tuple[int, ...], dtype: str, policy: DPPolicy, places: PeSet, hbm: HbmAllocator, space: AddressSpace
) -> tuple[TensorPiece, ...]:
    """A shard for each PE in the PE's own HBM slice, row-major. InputError if a slice has no room."""
    shards = policy.shards(shape, places.size)
    numbers = [places.number(shard.sip, shard.cube, shard.pe) for shard in shards]
    where = [f"tensor {name}, shard of {places.pes[pe]}" for pe in numbers]
    sizes = [_nbytes(place, shard.shape, dtype) for place, shard in zip(where, shards, strict=True)]
    pieces: list[Piece] = [
        (hbm.in_slice(places.slice_of(pe), size, name), size) for pe, size in zip(numbers, sizes, strict=True)
    ]
    addresses = space.add(pieces, name)
    return tuple(
        TensorPiece(pe, shard, 0, shard.shape, physical, virtual, size)
        for pe, shard, (physical, size), virtual in zip(numbers, shards, pieces, addresses, strict=True)
    )


def pieces_of_pe(
    name: str, shape: tuple[int, ...], dtype: str, pe: int, places: PeSet, hbm: HbmAllocator, space: AddressSpace
) -> tuple[TensorPiece, ...]:
    """The whole tensor in the HBM slice of one PE. InputError if the slice has no room."""
    size = _nbytes(f"tensor {name}", shape, dtype)
    physical = hbm.in_slice(places.slice_of(pe), size, name)
    return (TensorPiece(None, None, 0, shape, physical, space.add([(physical, size)], name)[0], size),)
