"""Pointers: arithmetic, and how a tile of pointers becomes transfers (docs/reference/triton.md, Timing)."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from kernbench.common.dtypes import Array, nbytes_of
from kernbench.common.lanes import Lanes
from kernbench.common.pointers import DevicePointer
from kernbench.triton.dtypes import dtype, int1, int64, pointer_type, refusal, refuse
from kernbench.triton.elementwise import cast
from kernbench.triton.program import Access, current, kernel_line
from kernbench.triton.tensor import FUNCTIONS, known_tensor, tensor

LOADS = ("load", "atomic load")  #: kinds of accesses that write nothing


class TileLayout(NamedTuple):
    """The layout of a tile in memory from `base` on: contiguous (None), by strides [B], or lane by lane."""

    base: int
    lanes: Lanes | tuple[int, ...] | None
    active: int  #: lanes that move


def pointer_math(op: str, a: tensor, b: tensor) -> tensor:
    """Compute the sum or difference of pointers and integers, the difference of two pointers, or a comparison of two pointers.
    """
    if a.base is not None and b.base is not None:
        return _of_two(op, a, b)
    moved, steps = (a, b) if a.base is not None else (b, a)
    if op not in ("add", "sub") or (op == "sub" and moved is b):
        refuse(f"{op} of a pointer and {steps.dtype}; only an integer can be added to a pointer or subtracted from it")
    if steps.dtype.is_floating():
        refuse(f"{steps.dtype} is added to a pointer; offsets are integers: cast with .to(tl.int32)")
    kind = moved.dtype
    assert isinstance(kind, pointer_type)
    offsets = steps.elements("the offset of a pointer").astype(np.int64) * kind.element_ty.itemsize
    start = moved.elements("a pointer")
    try:
        found = start + offsets if op == "add" else start - offsets
    except ValueError:
        refuse(
            f"pointers of shape {list(moved.shape)} and offsets of shape {list(steps.shape)} cannot be broadcast to one shape"
        )
    made = current().known(np.asarray(found, np.int64), kind)
    return tensor(current().marked(made, "add", [moved.handle, steps.handle]), kind, moved.base)


def _of_two(op: str, a: tensor, b: tensor) -> tensor:
    kind = a.dtype
    assert isinstance(kind, pointer_type)
    first, second = a.elements("a pointer"), b.elements("a pointer")
    if op == "sub":
        return known_tensor((first - second) // kind.element_ty.itemsize, int64)
    compare = {"eq": np.equal, "ne": np.not_equal, "lt": np.less, "le": np.less_equal, "gt": np.greater, "ge": np.greater_equal}
    if op not in compare:
        refuse(f"{op} of two pointers is not defined; pointers can only be subtracted and compared")
    return known_tensor(np.asarray(compare[op](first, second)), int1)


def pointer_where(condition: tensor, a: tensor, b: tensor) -> tensor:
    """Select between two sets of pointers by a known condition.

    If the sets point into two tensors, the condition must be the same in all lanes.
    """
    takes = condition.elements("the condition of tl.where of pointers")
    base = a.base
    if a.base is None or b.base is None or a.base.name != b.base.name:
        if a.base is None or b.base is None or a.dtype != b.dtype:
            refuse(f"tl.where cannot select between {a.dtype} and {b.dtype}; select between pointers of one type")
        if takes.any() and not takes.all():
            refuse(
                f"tl.where selects pointers into {a.base.name} in some lanes and into {b.base.name} in others; load or store "
                "twice with masks, or select the loaded elements"
            )
        base = a.base if takes.all() else b.base
    chosen = np.where(takes, a.elements("a pointer"), b.elements("a pointer"))
    return tensor(current().known(np.asarray(chosen, np.int64), a.dtype), a.dtype, base)


def to_pointer(value: tensor, kind: pointer_type) -> tensor:
    """Convert an address that was loaded to a pointer into the tensor that contains the address.

    Several addresses become pointers that can be selected, compared and stored as integers, but not loaded from.
    """
    if value.numel != 1:
        return tensor(current().known(value.elements("an address"), kind), kind)
    address = int(value)
    for one in current().options.windows:
        if one <= address < one + nbytes_of(one.tensor_shape, one.dtype):
            return tensor(current().known(np.asarray(address, np.int64), kind), kind, one)
    raise refusal(f"{address:#x} is not an address of a tensor of this launch; pass the tensors with triton.pointers([...])")


def targets(pointers: Any, what: str) -> tuple[tensor, dtype, Array]:
    """Return the pointers, their element type, and their addresses. A store through a `tl.const` pointer raises TritonError."""
    if not isinstance(pointers, tensor) or pointers.base is None:
        if isinstance(pointers, tensor) and pointers.dtype.is_ptr():
            refuse(f"{what} of pointers that were made of several integers is not possible; cast one address at a time")
        given = pointers.dtype if isinstance(pointers, tensor) else type(pointers).__name__
        refuse(f"{what} needs pointers, not {given}; add offsets to a tensor argument")
    if "load" not in what and "poll" not in what and getattr(pointers.dtype, "const", False):
        refuse(f"Cannot store to a constant pointer: {what} through {pointers.base.name}, which the kernel marks tl.const")
    return pointers, pointers.element_ty, pointers.elements("a pointer")


def mask_of(mask: Any, shape: tuple[int, ...], what: str) -> Array | None:
    """Return a known mask in the shape of the pointers, or None if all lanes move."""
    if mask is None:
        return None
    if isinstance(mask, bool | np.bool_ | int):
        found = np.asarray(bool(mask))
    else:
        found = cast(mask, int1).elements(f"the mask of {what}")
    try:
        spread = np.broadcast_to(found, shape)
    except ValueError:
        refuse(f"{what}: a mask of shape {list(found.shape)} cannot be broadcast to pointers of shape {list(shape)}")
    return None if bool(spread.all()) else np.ascontiguousarray(spread)


def pending_mask(mask: Any, pointers: tensor) -> tuple[Any, tensor | None]:
    """Split a mask into the lanes that move and the lanes that keep their value.

    If the mask is computed after the timing, all lanes inside the tensor move.
    """
    if not isinstance(mask, tensor):
        return mask, None
    chosen = cast(mask, int1)
    if chosen.known is not None or pointers.base is None:
        return mask, None
    note = "a mask that comes after the timing: all lanes inside of the tensor move, those of stores twice"
    if note not in current().options.notes:
        current().options.notes.append(note)
    base, addresses = pointers.base, pointers.elements("a pointer")
    low, high = base.window, base.window + nbytes_of(base.tensor_shape, base.dtype)
    return known_tensor((addresses >= low) & (addresses + pointers.element_ty.itemsize <= high), int1), chosen


def layout_of(addresses: Array, mask: Array | None, itemsize: int, fill: float | int) -> TileLayout:
    """Return the layout in which a tile of addresses travels."""
    flat = addresses.reshape(-1)
    moved = flat if mask is None else flat[mask.reshape(-1)]
    if not moved.size:
        return TileLayout(0, None, 0)
    if mask is None:
        steps = _strides(addresses)
        if steps is not None and _in_order(addresses.shape, steps, itemsize):
            straight = _contiguous(addresses.shape, steps, itemsize)
            return TileLayout(int(flat[0]), None if straight else steps, flat.size)
    base = int(moved.min())
    active = b"" if mask is None else mask.tobytes()
    return TileLayout(base, Lanes(addresses.shape, itemsize, (moved - base).tobytes(), active, fill), moved.size)


def _strides(addresses: Array) -> tuple[int, ...] | None:
    """Return the stride [B] of each axis, or None if the addresses do not advance evenly."""
    if addresses.ndim == 1:
        if addresses.size < 2:
            return (0,)
        apart = addresses[1:] - addresses[:-1]
        return (int(apart[0]),) if (apart == apart[0]).all() else None
    first = addresses[(0,) * addresses.ndim]
    steps = []
    expected = np.asarray(first)
    for axis, size in enumerate(addresses.shape):
        index = tuple(min(1, size - 1) if i == axis else 0 for i in range(addresses.ndim))
        step = int(addresses[index] - first)
        steps.append(step)
        along = np.arange(size, dtype=np.int64).reshape([-1 if i == axis else 1 for i in range(addresses.ndim)])
        expected = expected + along * step
    return tuple(steps) if np.array_equal(addresses, np.broadcast_to(expected, addresses.shape)) else None


def _in_order(shape: tuple[int, ...], steps: tuple[int, ...], itemsize: int) -> bool:
    """Return whether each axis lies inside the axes before it, so that no element occurs twice."""
    reach = itemsize
    for size, step in zip(reversed(shape), reversed(steps), strict=True):
        if size > 1:
            if step < reach:
                return False
            reach = step * (size - 1) + reach
    return True


def _contiguous(shape: tuple[int, ...], steps: tuple[int, ...], itemsize: int) -> bool:
    run = itemsize
    for size, step in zip(reversed(shape), reversed(steps), strict=True):
        if size > 1 and step != run:
            return False
        run *= size
    return True


def stored(tile: tensor, pointers: tensor, active: Array | None) -> None:
    """Count stored elements whose value or address depends on lanes that a load left out without `other`."""
    marks = [one.handle.marks for one in (tile, pointers)]
    marks = [one for one in marks if one is not None and one.left_out is not None]
    if not marks:
        return
    found = np.zeros(pointers.shape, np.bool_)
    for one in marks:
        found = found | one.left_out
    if active is not None:
        found &= active.reshape(found.shape)
    if found.any():
        lines = frozenset[str]().union(*(one.lines for one in marks))
        current().options.reached[lines, kernel_line()] += int(np.count_nonzero(found))


def check_bounds(base: DevicePointer, addresses: Array, mask: Array | None, itemsize: int, what: str) -> None:
    """Raise TritonError if a lane that moves is outside its tensor."""
    low, high = base.window, base.window + nbytes_of(base.tensor_shape, base.dtype)
    if addresses.size == 1 and low <= addresses.item() <= high - itemsize:
        return
    if not addresses.size or (addresses.min() >= low and addresses.max() + itemsize <= high):
        return
    outside = (addresses < low) | (addresses + itemsize > high)
    if mask is not None:
        outside = outside & mask
    if not outside.any():
        return
    flat = int(np.argmax(outside))
    lane = ", ".join(str(int(one)) for one in np.unravel_index(flat, outside.shape))
    element = (int(addresses.reshape(-1)[flat]) - low) // itemsize
    count = (high - low) // itemsize
    refuse(
        f"{what}: lane [{lane}] of {list(addresses.shape)} points to element {element} of {base.name}, which has {count}; "
        f"{int(np.count_nonzero(outside))} lanes are outside. Check the mask and the strides"
    )


def note(kind: str, base: DevicePointer, addresses: Array, mask: Array | None, itemsize: int) -> None:
    """Record an access for the notes and the checks of the run."""
    own = current()
    options = own.options
    if kind not in LOADS:
        options.written.add(base.name)
    if "store" not in kind:
        options.read.add(base.name)
    if options.races:
        moved = addresses.reshape(-1) if mask is None else addresses.reshape(-1)[mask.reshape(-1)]
        rises = bool((moved[1:] > moved[:-1]).all())  # as most tiles do: sorting them takes ten times as long
        places = moved if rises else np.unique(moved)
        options.accesses.append(
            Access(own.number, own.pe, kernel_line(), kind, base.name, places, itemsize, own.cycle, base.window)
        )


FUNCTIONS.update(pointer_math=pointer_math, pointer_where=pointer_where, to_pointer=to_pointer)
