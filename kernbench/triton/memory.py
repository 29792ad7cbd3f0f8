"""Loads and stores."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np

from kernbench.common.dtypes import Array, dtype_of, narrow, widen
from kernbench.common.lanes import Lanes
from kernbench.common.pointers import DevicePointer
from kernbench.triton.block_pointers import block_pointer
from kernbench.triton.dtypes import dtype, int1, int8, int16, int32, int64, pointer_type, refuse, uint64, wanted
from kernbench.triton.elementwise import cast, full, shape_of, where
from kernbench.triton.masked_lanes import Marks, with_zero, without_value
from kernbench.triton.pointers import TileLayout, check_bounds, layout_of, mask_of, note, pending_mask, stored, targets
from kernbench.triton.program import current, kernel_line
from kernbench.triton.shapes import broadcast_to
from kernbench.triton.tensor import FUNCTIONS, as_tensor, known_tensor, tensor

_POLICIES = ("", "evict_first", "evict_last")
_CACHES = ("", ".ca", ".cg", ".cv", ".wb", ".cs", ".wt")


def _check_eviction(policy: str) -> None:
    if current().options.portable and policy not in _POLICIES:
        refuse(f"Eviction policy {policy} not supported, as Triton's compiler says; use {' or '.join(_POLICIES[1:])}")


def without_other(kind: dtype) -> float | int:
    """Return the value of masked lanes of a load without `other`.

    The value is 0, as on GPUs. With `check="memory"` it is NaN, or the integer that is least likely to be a valid index.
    """
    if not current().options.poison:
        return 0
    if kind.is_floating():
        return float("nan")
    if kind == uint64:
        return -1  # to the machine
    return 1 if kind.is_bool() else int(dtype_of(kind.own).most if kind.is_int_unsigned() else dtype_of(kind.own).least)


def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    *,
    boundary_check: Any = (),
    padding_option: str = "",
    cache_modifier: str = "",
    eviction_policy: str = "",
    volatile: bool = False,
) -> tensor:
    """Load a tile from memory.

    Parameters
    ----------
    pointer
        Pointers to the elements, of any shape, or a block pointer.
    mask
        Truth values, broadcast to the shape of `pointer`. A lane whose mask is false moves no bytes.
    other
        The value of lanes whose mask is false; without it, these lanes are 0.
    boundary_check
        The axes of a block pointer that are checked. Elements outside the tensor move no bytes.
    padding_option
        The value of elements outside the tensor: "zero" or "nan"; "" means "zero". Only for block pointers.
    cache_modifier, eviction_policy, volatile
        Hints for GPUs, which are ignored.

    Returns
    -------
    A tensor of the shape of `pointer`, with the element type that `pointer` points to.

    Raises
    ------
    TritonError
        If a lane that moves points outside its tensor, or if the parameters do not go together.

    Notes
    -----
    `tl.load(pointer, shape, dtype)` loads a contiguous block from a single pointer on.
    """
    _check_cache(cache_modifier)
    _check_eviction(eviction_policy)
    if isinstance(pointer, block_pointer):
        if mask is not None or other is not None:
            refuse("tl.load of a block pointer does not accept mask or other; use boundary_check and padding_option")
        pointer, mask, other = pointer.lanes(boundary_check, padding_option)
    elif boundary_check or padding_option:
        refuse("boundary_check and padding_option are only valid for block pointers; use mask= and other=")
    elif isinstance(mask, tuple | list):
        pointer, mask, other = _piece(pointer, mask, other), None, None
    if other is not None and mask is None:
        refuse("tl.load has other= but no mask=; give both")
    pointers, kind, addresses = targets(pointer, "tl.load")
    mask, chosen = pending_mask(mask, pointers)
    active = mask_of(mask, addresses.shape, "tl.load")
    if chosen is not None:
        rest = full((), without_other(kind), kind) if other is None else cast(other, kind)
        return where(chosen, brought(pointers.base, kind, addresses, active, 0), rest)
    if active is None:
        return of_pointers(brought(pointers.base, kind, addresses, None, 0), pointers)
    if other is None:
        return left_out(pointers, kind, addresses, active)
    return _with_other(pointers, kind, addresses, active, as_tensor(other))


def _with_other(pointers: tensor, kind: dtype, addresses: Array, active: Array, value: tensor) -> tensor:
    """Load elements; the lanes that the mask leaves out get `value`."""
    if value.numel == 1 and value.known is not None:
        fill = narrow(widen(np.asarray(value.known)), kind.own).reshape(-1)[0].item()
        found = brought(pointers.base, kind, addresses, active, float(fill) if kind.is_floating() else int(fill))
        if fill == 0 and value.handle.marks is None:
            found.handle.marks = with_zero(active.reshape(addresses.shape))
        return of_pointers(found, pointers, active)
    found = of_pointers(brought(pointers.base, kind, addresses, active, 0), pointers, active)
    return where(known_tensor(active, int1), found, cast(value, kind))


def left_out(pointers: tensor, kind: dtype, addresses: Array, active: Array, what: str = "load") -> tensor:
    """Load elements; the lanes that the mask leaves out have no `other`."""
    options, line = current().options, kernel_line()
    if kind.is_floating():
        options.bare[line] = None
    options.left_out[line] += int(active.size - np.count_nonzero(active))
    found = brought(pointers.base, kind, addresses, active, without_other(kind), what)
    found.handle.marks = without_value(active.reshape(addresses.shape), line)
    return of_pointers(found, pointers, active)


def of_pointers(found: tensor, pointers: tensor, active: Array | None = None) -> tensor:
    """Return the loaded tensor, marked where its addresses depend on lanes that another load left out."""
    marks = pointers.handle.marks
    if marks is not None and marks.left_out is not None:
        moved = marks.left_out if active is None else marks.left_out & active.reshape(marks.left_out.shape)
        mine = found.handle.marks
        if mine is not None and mine.left_out is not None:
            found.handle.marks = Marks(moved | mine.left_out, marks.lines | mine.lines, None)
        elif moved.any():
            found.handle.marks = Marks(moved, marks.lines, None)
    return found


def _piece(pointer: Any, shape: Any, kind: Any) -> tensor:
    """Return the pointers to a contiguous block of memory."""
    size = shape_of(shape)
    if not isinstance(pointer, tensor) or pointer.base is None or pointer.numel != 1:
        refuse("tl.load(pointer, shape, dtype) needs a single pointer")
    to = pointer_type(pointer.element_ty if kind is None else wanted(kind))
    steps = np.arange(int(np.prod(size)), dtype=np.int64).reshape(size) * to.element_ty.itemsize
    return tensor(current().known(pointer.elements("a pointer").reshape(-1)[0] + steps, to), to, pointer.base)


def brought(
    base: DevicePointer | None, kind: dtype, addresses: Array, active: Array | None, fill: float | int, what: str = "load"
) -> tensor:
    """Load a tile from addresses. `what` is the kind of access, for errors and for the race check."""
    assert base is not None
    check_bounds(base, addresses, active, kind.itemsize, f"tl.{what}".replace(" ", "_"))
    note(what, base, addresses, active, kind.itemsize)
    layout = layout_of(addresses, active, kind.itemsize, fill)
    own = current()
    if not layout.active:
        return tensor(own.compute("full", [fill], addresses.shape, kind), kind)
    return tensor(own.gather(layout.base, addresses.shape, kind, layout.lanes), kind)


def store(
    pointer: Any, value: Any, mask: Any = None, *, boundary_check: Any = (), cache_modifier: str = "",
    eviction_policy: str = "",
) -> None:  # fmt: skip
    """Store a tile to memory, converted to the element type of the pointers.

    Parameters
    ----------
    pointer
        Pointers to the elements, of any shape, or a block pointer.
    value
        A tensor or a number, broadcast to the shape of `pointer`.
    mask
        Truth values, broadcast to the shape of `pointer`. A lane whose mask is false moves no bytes.
    boundary_check
        The axes of a block pointer that are checked. Elements outside the tensor are not stored.
    cache_modifier, eviction_policy
        Hints for GPUs, which are ignored.

    Raises
    ------
    TritonError
        If a lane that moves points outside its tensor, if the pointer is `tl.const`, or if the parameters do not go together.
    """
    _check_cache(cache_modifier)
    _check_eviction(eviction_policy)
    if isinstance(pointer, block_pointer):
        if mask is not None:
            refuse("tl.store to a block pointer does not accept mask; use boundary_check")
        pointer, mask, _ = pointer.lanes(boundary_check, "")
    elif boundary_check:
        refuse("boundary_check is only valid for block pointers; use mask=")
    sent(pointer, value, mask, "store")


def sent(pointer: Any, value: Any, mask: Any, what: str) -> None:
    """Store a tile to the addresses of pointers. `what` is the kind of access, for errors and for the race check."""
    name = f"tl.{what}".replace(" ", "_")
    pointers, kind, addresses = targets(pointer, name)
    mask, chosen = pending_mask(mask, pointers)
    active = mask_of(mask, addresses.shape, name)
    given = as_tensor(value)
    if not addresses.shape and given.numel != 1:
        refuse(f"{name} of shape {list(given.shape)} to a single pointer is not possible; add offsets to the pointer")
    if given.shape and not addresses.shape and current().options.portable:
        refuse(f"{name} of shape {list(given.shape)} to a single pointer: in Triton the value must have no axes; reduce it")
    assert pointers.base is not None
    check_bounds(pointers.base, addresses, active, kind.itemsize, name)
    note(what, pointers.base, addresses, active, kind.itemsize)
    if chosen is not None:
        _by_choice(given, kind, addresses, active, chosen)
        return
    layout = layout_of(addresses, active, kind.itemsize, 0)
    if layout.active:
        tile = in_shape(given, kind, addresses.shape)
        stored(tile, pointers, active)
        if isinstance(layout.lanes, Lanes) and given.numel > 1:
            _note_twice(layout.lanes, pointers.base.name)
        current().scatter(layout.base, tile.handle, layout.lanes)


def _note_twice(lanes: Lanes, name: str) -> None:
    """Count lanes of one store that write to the same address. On a GPU, the value of any of these lanes may remain."""
    more = 0 if lanes.rises else lanes.at.size - np.unique(lanes.at).size
    if more:
        current().options.twice[kernel_line(), name] += more


def _by_choice(value: tensor, kind: dtype, addresses: Array, active: Array | None, chosen: tensor) -> None:
    """Store under a mask that is computed after the timing.

    One atomic command clears the bits of the selected lanes, and a second atomic command sets them. Other lanes therefore
    keep what other programs write.
    """
    layout = lanes_of(addresses, active, kind)
    if not layout.active:
        return
    bits = next(one for one in (int8, int16, int32, int64) if one.itemsize == kind.itemsize)
    wide = cast(in_shape(value, kind, addresses.shape), bits, bitcast=kind.primitive_bitwidth == bits.primitive_bitwidth)
    keep, put = (broadcast_to(one, addresses.shape) for one in (where(chosen, _of(0, bits), _of(-1, bits)), wide))
    current().scatter(layout.base, keep.handle, layout.lanes, rmw="and")
    current().scatter(layout.base, where(chosen, put, _of(0, bits)).handle, layout.lanes, rmw="or")


def _of(value: int, kind: dtype) -> tensor:
    return full((), value, kind)


def lanes_of(addresses: Array, active: Array | None, kind: dtype) -> TileLayout:
    """Return a layout in which the tile travels lane by lane, for ops that change elements in place."""
    flat = addresses.reshape(-1)
    moved = flat if active is None else flat[active.reshape(-1)]
    if not moved.size:
        return TileLayout(0, None, 0)
    if flat.size == 1:
        return TileLayout(int(flat[0]), _one(addresses.shape, kind.itemsize), 1)
    base = int(moved.min())
    mask = b"" if active is None else active.tobytes()
    return TileLayout(base, Lanes(addresses.shape, kind.itemsize, (moved - base).tobytes(), mask, 0), moved.size)


@cache
def _one(shape: tuple[int, ...], itemsize: int) -> Lanes:
    """Return the layout of a single lane."""
    return Lanes(shape, itemsize, bytes(8))


def in_shape(value: tensor, kind: dtype, shape: tuple[int, ...]) -> tensor:
    """Return a value, converted to the element type and the shape of a tile of pointers."""
    found = cast(value, kind)
    if found.shape == shape:
        return found
    return found.reshaped(()) if not shape else broadcast_to(found, shape)


def _check_cache(modifier: str | None) -> None:
    if modifier is not None and modifier not in _CACHES:
        refuse(f'cache_modifier="{modifier}" is not valid; Triton has {", ".join(_CACHES[1:])}, which have no effect here')


FUNCTIONS.update(load=load, store=store)
