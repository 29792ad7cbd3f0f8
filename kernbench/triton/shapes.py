"""Changes of shape: the same elements in another shape (no cycles), or moved elements (an op of the vector engine)."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

from kernbench.triton import unsigned
from kernbench.triton.constants import constexpr
from kernbench.triton.dtypes import int32, refuse, uint64
from kernbench.triton.elementwise import cast, check_size, minimum, pair_type, shape_of
from kernbench.triton.program import current
from kernbench.triton.tensor import FUNCTIONS, as_tensor, known_tensor, tensor


def moved(op: str, x: tensor, numbers: list[Any], shape: tuple[int, ...], **how: Any) -> tensor:
    """Issue an op that moves elements; pointers can be moved as well."""
    own = current()
    if x.known is not None:
        from kernbench.triton.program import evaluate

        found = own.known(evaluate(op, [x.handle, *numbers], shape, x.dtype, how), x.dtype)
        return tensor(own.marked(found, op, [x.handle, *numbers], **how), x.dtype, x.base)
    return tensor(own.compute(op, [x.handle, *numbers], shape, x.dtype, **how), x.dtype, x.base)


def reshape(input: Any, *shape: Any, can_reorder: bool = False) -> tensor:
    """Return the same elements, in row-major order, in another shape."""
    value, size = as_tensor(input), shape_of(*shape)
    if prod(size) != value.numel:
        refuse(
            f"tl.reshape of {list(value.shape)} to {list(size)}: it has {value.numel} elements, the new shape {prod(size)}"
        )
    return value.reshaped(size)


def ravel(x: Any, can_reorder: bool = False) -> tensor:
    """Return all elements along one axis."""
    value = as_tensor(x)
    return value.reshaped((value.numel,))


def expand_dims(input: Any, axis: Any) -> tensor:
    """Insert axes of length 1 at these positions of the result."""
    value = as_tensor(input)
    axes = list(axis) if isinstance(axis, tuple | list) else [axis]
    rank = len(value.shape) + len(axes)
    wanted = [int(one) % rank if -rank <= int(one) < rank else _no_axis(one, rank) for one in axes]
    if len(set(wanted)) < len(wanted):
        cause = ValueError(f"duplicate axes, normalized axes = {sorted(wanted)}")
        refuse(f"tl.expand_dims({axes}): the axes {sorted(wanted)} are not different; name each new axis once", cause)
    left = iter(value.shape)
    return value.reshaped(tuple(1 if i in wanted else next(left) for i in range(rank)))


def _no_axis(axis: int, rank: int) -> int:
    cause = ValueError(f"invalid axis {axis}")
    refuse(f"axis {axis} of a tensor of {rank} axes; they are {-rank} to {rank - 1}", cause)


def axis_of(x: tensor, axis: int) -> int:
    """Return an axis as a non-negative number. An axis that does not exist raises TritonError."""
    rank = len(x.shape)
    return axis % rank if -rank <= axis < rank else _no_axis(axis, rank)


def broadcast_to(input: Any, *shape: Any) -> tensor:
    """Repeat the elements along axes of length 1 to get this shape."""
    value, size = as_tensor(input), shape_of(*shape) if shape != ((),) else ()
    if value.shape == size:
        return value
    try:
        np.broadcast_shapes(value.shape, size)
        fits = np.broadcast_shapes(value.shape, size) == size
    except ValueError:
        fits = False
    if not fits:
        refuse(f"tl.broadcast_to of {list(value.shape)} to {list(size)}: axes must have equal lengths, or length 1 before")
    known = value.known
    if known is not None and (value.dtype.is_int() or value.base is not None):
        found = current().known(np.ascontiguousarray(np.broadcast_to(known, size)), value.dtype)
        return tensor(current().marked(found, "copy", [value.handle]), value.dtype, value.base)
    one: Any = float(value) if known is not None and value.numel == 1 else value.handle
    op = "full" if isinstance(one, float) else "copy"
    return tensor(current().compute(op, [one], size, value.dtype, [value.handle]), value.dtype)


def broadcast(input: Any, other: Any) -> tuple[tensor, tensor]:
    """Return both tensors in the shape to which they broadcast."""
    from kernbench.triton.elementwise import spread

    a, b = as_tensor(input), as_tensor(other)
    size = spread(a, b)
    return broadcast_to(a, size), broadcast_to(b, size)


def permute(input: Any, *dims: Any) -> tensor:
    """Return the axes in another order; `dims` lists the old axis for each new axis."""
    value = as_tensor(input)
    axes = dims[0] if len(dims) == 1 and isinstance(dims[0], tuple | list) else dims
    order = [axis_of(value, int(one)) for one in axes]
    if sorted(order) != list(range(len(value.shape))):
        refuse(f"tl.permute by {tuple(axes)}: each of the {len(value.shape)} axes must occur once")
    return moved("permute", value, order, tuple(value.shape[one] for one in order))


def trans(input: Any, *dims: Any) -> tensor:
    """Swap the last two axes; with `dims`, do the same as `permute`."""
    value = as_tensor(input)
    if dims:
        return permute(value, *dims)
    rank = len(value.shape)
    if rank < 2:
        refuse(f"tl.trans of a tensor of {rank} axes: the tensor needs at least two axes")
    if rank == 2 and value.base is None and value.dtype.is_floating():
        return tensor(None, value.dtype, swapped=value)
    return permute(value, *range(rank - 2), rank - 1, rank - 2)


def _joined(parts: list[tensor], axis: int) -> tensor:
    first = parts[0]
    shape = list(first.shape)
    shape[axis] = sum(one.shape[axis] for one in parts)
    own, handles = current(), [*[one.handle for one in parts], axis]
    if all(one.known is not None for one in parts):
        values = np.concatenate([one.elements("") for one in parts], axis)
        return tensor(own.marked(own.known(values, first.dtype), "concat", handles), first.dtype)
    return tensor(own.compute("concat", handles, tuple(shape), first.dtype), first.dtype)


def join(a: Any, b: Any) -> tensor:
    """Join two tensors of one shape along a new last axis of length 2."""
    x, y = as_tensor(a), as_tensor(b)
    if current().options.portable and x.dtype != y.dtype:
        refuse(f"tl.join of {x.dtype} and {y.dtype}: in Triton both must have the same type; cast one with .to")
    kind = pair_type(a, b, x, y)
    parts = [expand_dims(one, -1) for one in broadcast(cast(x, kind), cast(y, kind))]
    return _joined(parts, len(parts[0].shape) - 1)


def cat(input: Any, other: Any, can_reorder: bool = False, dim: int = 0) -> tensor:
    """Concatenate two tensors along an axis, in order."""
    a, b = as_tensor(input), as_tensor(other)
    axis = axis_of(a, int(dim))
    rest = [(*one.shape[:axis], *one.shape[axis + 1 :]) for one in (a, b)]
    if a.dtype != b.dtype or len(a.shape) != len(b.shape) or rest[0] != rest[1]:
        both = f"{a.dtype}{list(a.shape)} and {b.dtype}{list(b.shape)}"
        refuse(f"tl.cat of {both} along axis {axis}: the element types and the lengths of all other axes must be equal")
    if current().options.portable and a.shape != b.shape:
        refuse(f"tl.cat of {list(a.shape)} and {list(b.shape)}: in Triton both tensors must have the same shape")
    return _joined([a, b], axis)


def interleave(a: Any, b: Any) -> tensor:
    """Interleave the elements of two tensors along the last axis."""
    both = join(a, b)
    if len(both.shape) == 1:
        return both
    return both.reshaped((*both.shape[:-2], both.shape[-2] * 2))


def part(x: tensor, axis: int, start: int, stop: int, step: int = 1) -> tensor:
    """Return every `step`-th element from index `start` to before `stop` along an axis."""
    shape = tuple(len(range(start, stop, step)) if i == axis else size for i, size in enumerate(x.shape))
    return moved("slice", x, [axis, start, stop, step], shape)


def joined(parts: list[tensor], axis: int) -> tensor:
    """Concatenate tensors of one type along an axis."""
    return _joined(parts, axis)


def split(a: Any) -> tuple[tensor, tensor]:
    """Split a tensor whose last axis has length 2 into its two halves."""
    value = as_tensor(a)
    if not value.shape or value.shape[-1] != 2:
        refuse(f"tl.split of shape {list(value.shape)}: its last axis must have length 2; use tl.reshape first")
    axis = len(value.shape) - 1
    found = [part(value, axis, i, i + 1).reshaped(value.shape[:-1]) for i in (0, 1)]
    return found[0], found[1]


def flip(x: Any, dim: int | None = None) -> tensor:
    """Reverse the order along an axis (None: the last axis)."""
    value = as_tensor(x)
    return moved("flip", value, [axis_of(value, -1 if dim is None else int(dim))], value.shape)


def gather(src: Any, index: Any, axis: int) -> tensor:
    """Return the elements of `src` at the indices along an axis, in the shape of `index`."""
    value, places = as_tensor(src), as_tensor(index)
    if not places.dtype.is_int() or len(places.shape) != len(value.shape):
        both = f"{list(value.shape)} by {places.dtype}{list(places.shape)}"
        refuse(f"tl.gather of {both}: the indices must be integers, with the same number of axes as the tensor")
    along = axis_of(value, axis)
    found = places.known
    if found is not None and (found.min() < 0 or found.max() >= value.shape[along]):
        refuse(f"tl.gather: an index is out of range for axis {axis}, which has {value.shape[along]} elements")
    handles = [value.handle, cast(places, int32).handle, along]
    return tensor(current().compute("gather", handles, places.shape, value.dtype), value.dtype)


def sort(x: Any, dim: int | None = None, descending: bool = False) -> tensor:
    """Sort along an axis (None: the last axis)."""
    value = as_tensor(x)
    axis = axis_of(value, -1 if dim is None else int(dim))
    if current().options.portable and axis != len(value.shape) - 1:
        refuse(f"tl.sort along axis {axis} of {list(value.shape)}: Triton sorts only along the last axis; use tl.trans first")
    if value.dtype == uint64:
        return unsigned.back(sort(unsigned.turned(value), axis, descending), uint64)
    return moved("sort", value, [axis, bool(descending)], value.shape, axis=axis)


def bitonic_merge(x: Any, dim: int | None = None, descending: bool = False) -> tensor:
    """Sort a bitonic sequence; the op takes as many cycles as `sort`."""
    return sort(x, dim, descending)


def topk(x: Any, k: int, dim: int | None = None, descending: bool = True) -> tensor:
    """Return the `k` largest elements along an axis (None: the last axis), largest first.

    If `descending` is false, the result has the `k` smallest elements, smallest first.
    """
    value = as_tensor(x)
    axis = axis_of(value, -1 if dim is None else int(dim))
    if not 1 <= int(k) <= value.shape[axis]:
        refuse(f"tl.topk of {k} of the {value.shape[axis]} elements of axis {axis}")
    return part(sort(value, axis, descending), axis, 0, int(k))


def squeeze(x: Any, dim: int) -> tensor:
    """Remove an axis of length 1."""
    value = as_tensor(x)
    axis = axis_of(value, int(dim))
    if value.shape[axis] != 1:
        refuse(f"tl.squeeze of axis {dim} of {list(value.shape)}: the length of the axis must be 1")
    return value.reshaped((*value.shape[:axis], *value.shape[axis + 1 :]))


def unsqueeze(x: Any, dim: int) -> tensor:
    """Insert an axis of length 1."""
    return expand_dims(x, int(dim))


def swizzle2d(i: Any, j: Any, size_i: Any, size_j: Any, size_g: Any) -> tuple[Any, Any]:
    """Return the new position of (i, j) when groups of `size_g` rows are traversed column by column."""
    at, group = i * size_j + j, size_g * size_j
    first = at // group * size_g
    rows = minimum(size_i - first, size_g)
    inside = at % group
    return first + inside % rows, inside // rows


def histogram(input: Any, num_bins: int, mask: Any = None) -> tensor:
    """Count the occurrences of each integer in `[0, num_bins)`."""
    value = as_tensor(input)
    if not value.dtype.is_int():
        refuse(f"tl.histogram of {value.dtype}: the elements must be integers")
    handles = [value.handle]
    if mask is not None:
        handles.append(cast(mask, FUNCTIONS["int1"]).handle)
    return tensor(current().compute("histogram", [*handles], shape_of(num_bins), int32), int32)


def arange(start: Any, end: Any) -> tensor:
    """Return the integers from `start` to before `end`."""
    if current().options.portable and not all(isinstance(one, int | np.integer | constexpr) for one in (start, end)):
        refuse("tl.arange of a tensor: in Triton the bounds must be constants; use tl.constexpr bounds and a mask")
    first, last = int(start), int(end)
    if last <= first:
        refuse(f"tl.arange({first}, {last}): end must be greater than start")
    size = last - first
    check_size(size)
    if current().options.portable and size & (size - 1):
        refuse(f"tl.arange({first}, {last}): in Triton its length is a power of two, and not {size}; use a mask")
    return known_tensor(np.arange(first, last), int32)


FUNCTIONS.update(
    reshape=reshape,
    view=reshape,
    ravel=ravel,
    expand_dims=expand_dims,
    broadcast_to=broadcast_to,
    permute=permute,
    trans=trans,
    split=split,
    flip=flip,
    gather=gather,
    sort=sort,
    histogram=histogram,
)
