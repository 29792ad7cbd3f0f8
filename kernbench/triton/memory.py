"""Loads, stores and atomic ops."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernbench.common.dtypes import Array, dtype_of, narrow, widen
from kernbench.common.lanes import Lanes
from kernbench.common.pointers import DevicePointer
from kernbench.sim_engine.math_ops import evaluate
from kernbench.triton.block_pointers import block_pointer
from kernbench.triton.dtypes import dtype, int1, pointer_type, refuse, wanted
from kernbench.triton.elementwise import cast, shape_of, where
from kernbench.triton.pointers import Way, check_bounds, mask_of, note, targets, way_of
from kernbench.triton.program import current
from kernbench.triton.shapes import broadcast_to
from kernbench.triton.tensor import FUNCTIONS, as_tensor, known_tensor, tensor

_CACHES = ("", ".ca", ".cg", ".cv", ".wb", ".cs", ".wt")


def poison(kind: dtype) -> float | int:
    """What masked lanes hold without `other`: NaN, or the integer that is least likely to be an index."""
    if kind.is_floating():
        return float("nan")
    return 1 if kind.is_bool() else int(dtype_of(kind.own).most if kind.is_int_unsigned() else dtype_of(kind.own).least)


def load(
    pointer: Any,
    mask: Any = None,
    other: Any = None,
    boundary_check: Any = (),
    padding_option: str = "",
    cache_modifier: str = "",
    eviction_policy: str = "",
    volatile: bool = False,
) -> tensor:
    """A tile from memory. Lanes whose mask is false move no bytes and are `other`, without which they are poisoned.

    `tl.load(pointer, shape, dtype)` takes what lies in one piece from a single pointer on.
    """
    _check_cache(cache_modifier)
    if isinstance(pointer, block_pointer):
        if mask is not None or other is not None:
            refuse("tl.load of a block pointer takes boundary_check and padding_option, and no mask or other")
        pointer, mask, other = pointer.lanes(boundary_check, padding_option)
    elif boundary_check or padding_option:
        refuse("boundary_check and padding_option are of block pointers; use mask= and other=")
    elif isinstance(mask, tuple | list):
        pointer, mask, other = _piece(pointer, mask, other), None, None
    if other is not None and mask is None:
        refuse("tl.load with other= and without mask=; give both")
    pointers, kind, addresses = targets(pointer, "tl.load")
    active = mask_of(mask, addresses.shape, "tl.load")
    if active is None or other is None:
        return _brought(pointers.base, kind, addresses, active, poison(kind))
    value = as_tensor(other)
    if value.numel == 1 and value.known is not None:
        fill = narrow(widen(np.asarray(value.known)), kind.own).reshape(-1)[0].item()
        return _brought(pointers.base, kind, addresses, active, float(fill) if kind.is_floating() else int(fill))
    return where(known_tensor(active, int1), _brought(pointers.base, kind, addresses, active, 0), cast(value, kind))


def _piece(pointer: Any, shape: Any, kind: Any) -> tensor:
    """The pointers to what lies in one piece."""
    size = shape_of(shape)
    if not isinstance(pointer, tensor) or pointer.base is None or pointer.numel != 1:
        refuse("tl.load(pointer, shape, dtype) takes a single pointer")
    to = pointer_type(pointer.element_ty if kind is None else wanted(kind))
    steps = np.arange(int(np.prod(size)), dtype=np.int64).reshape(size) * to.element_ty.itemsize
    return tensor(current().known(pointer.elements("a pointer").reshape(-1)[0] + steps, to), to, pointer.base)


def _brought(base: DevicePointer | None, kind: dtype, addresses: Array, active: Array | None, fill: float | int) -> tensor:
    assert base is not None
    check_bounds(base, addresses, active, kind.itemsize, "tl.load")
    note("load", base, addresses, active, kind.itemsize)
    way = way_of(addresses, active, kind.itemsize, fill)
    own = current()
    if not way.active:
        return tensor(own.compute("full", [fill], addresses.shape, kind), kind)
    return tensor(own.gather(way.base, addresses.shape, kind, way.lanes), kind)


def store(
    pointer: Any, value: Any, mask: Any = None, boundary_check: Any = (), cache_modifier: str = "", eviction_policy: str = ""
) -> None:
    """A tile to memory, as elements of what the pointers point to. Lanes whose mask is false move no bytes."""
    _check_cache(cache_modifier)
    if isinstance(pointer, block_pointer):
        if mask is not None:
            refuse("tl.store to a block pointer takes boundary_check, and no mask")
        pointer, mask, _ = pointer.lanes(boundary_check, "")
    elif boundary_check:
        refuse("boundary_check is of block pointers; use mask=")
    pointers, kind, addresses = targets(pointer, "tl.store")
    active = mask_of(mask, addresses.shape, "tl.store")
    given = as_tensor(value)
    if not addresses.shape and given.numel != 1:
        refuse(f"tl.store of shape {list(given.shape)} to a single pointer; add offsets to it")
    assert pointers.base is not None
    check_bounds(pointers.base, addresses, active, kind.itemsize, "tl.store")
    note("store", pointers.base, addresses, active, kind.itemsize)
    way = way_of(addresses, active, kind.itemsize, 0)
    if way.active:
        tile = _in_shape(given, kind, addresses.shape)
        current().scatter(way.base, tile.handle, way.lanes)


def _in_shape(value: tensor, kind: dtype, shape: tuple[int, ...]) -> tensor:
    found = cast(value, kind)
    if found.shape == shape:
        return found
    return found.reshaped(()) if not shape else broadcast_to(found, shape)


def _check_cache(modifier: str) -> None:
    if modifier not in _CACHES:
        refuse(f'cache_modifier="{modifier}" is none of Triton\'s: {", ".join(_CACHES[1:])}; there are no caches here')


# Atomic ops -----------------------------------------------------------------------------------------------------------


class OldFloats:
    """The old value of an atomic op that is done after the timing: it cannot be used."""


def _atomic(op: str, pointer: Any, value: Any, mask: Any, change: Callable[[Any, Any], Any]) -> Any:
    """Known integers (and what is exchanged) are changed at once; floats after the timing, in the order of issue."""
    pointers, kind, addresses = targets(pointer, f"tl.atomic_{op}")
    active = mask_of(mask, addresses.shape, f"tl.atomic_{op}")
    assert pointers.base is not None
    check_bounds(pointers.base, addresses, active, kind.itemsize, f"tl.atomic_{op}")
    note("atomic", pointers.base, addresses, active, kind.itemsize)
    tile = _in_shape(as_tensor(value), kind, addresses.shape)
    way = _lanes(addresses, active, kind)
    if not way.active:
        return known_tensor(np.full(addresses.shape, 0), kind) if kind.is_int() else OldFloats()
    assert isinstance(way.lanes, Lanes)
    given = tile.known
    if given is None or (kind.is_floating() and op not in ("xchg", "cas")):
        if op in ("xchg", "cas"):
            refuse(f"tl.atomic_{op} of a value that is computed after the timing; exchange integers that are known")
        current().scatter(way.base, tile.handle, way.lanes, rmw=_RMW[op])
        return OldFloats()
    old = current().exchange(way.base, way.lanes, kind, lambda found: _in_turn(found, given, way.lanes, kind, change))
    return known_tensor(_before(old, given, way.lanes, kind, change), kind)


def _lanes(addresses: Array, active: Array | None, kind: dtype) -> Way:
    flat = addresses.reshape(-1)
    moved = flat if active is None else flat[active.reshape(-1)]
    if not moved.size:
        return Way(0, None, 0)
    base = int(moved.min())
    mask = b"" if active is None else active.tobytes()
    return Way(base, Lanes(addresses.shape, kind.itemsize, (moved - base).tobytes(), mask, 0), moved.size)


def _steps(old: Array, given: Array, lanes: Any, kind: dtype, change: Callable[[Any, Any], Any]) -> tuple[Array, Array]:
    """What each lane found and left; lanes at one place act one after the other."""
    there: dict[int, Any] = {}
    before, after = old.copy().reshape(-1), old.copy().reshape(-1)
    chosen = np.arange(before.size) if lanes.active is None else np.flatnonzero(lanes.active)
    values = given.reshape(-1)
    for place, lane in zip(lanes.at.tolist(), chosen.tolist(), strict=True):
        before[lane] = there.get(place, before[lane])
        new = change(widen(before[lane : lane + 1]), (widen(values[lane : lane + 1]), lane))
        after[lane] = there[place] = narrow(np.asarray(new), kind.own)[0]
    return before.reshape(old.shape), after.reshape(old.shape)


def _in_turn(old: Array, given: Array, lanes: Any, kind: dtype, change: Callable[[Any, Any], Any]) -> Array:
    return _steps(old, given, lanes, kind, change)[1]


def _before(old: Array, given: Array, lanes: Any, kind: dtype, change: Callable[[Any, Any], Any]) -> Array:
    return _steps(old, given, lanes, kind, change)[0]


_RMW = {"add": "add", "max": "fmax", "min": "fmin", "and": "and", "or": "or", "xor": "xor"}


def _make(op: str) -> Any:
    def atomic(pointer: Any, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None) -> Any:
        _check_order(sem, scope)
        return _atomic(op, pointer, val, mask, lambda old, new: new[0] if op == "xchg" else evaluate(_RMW[op], [old, new[0]]))

    atomic.__name__ = f"atomic_{op}"
    atomic.__doc__ = f"`{op}` on what is in memory, with nothing between; the old elements, where they are known."
    return atomic


# fmt: off
atomic_add, atomic_max, atomic_min, atomic_and, atomic_or, atomic_xor, atomic_xchg = (
    _make(_op) for _op in ("add", "max", "min", "and", "or", "xor", "xchg")
)
# fmt: on


def atomic_cas(pointer: Any, cmp: Any, val: Any, sem: str | None = None, scope: str | None = None) -> Any:
    """`val` into memory where `cmp` is there; the old elements."""
    _check_order(sem, scope)
    _, kind, addresses = targets(pointer, "tl.atomic_cas")
    wanted_there = _in_shape(as_tensor(cmp), kind, addresses.shape).elements("cmp of tl.atomic_cas").reshape(-1)
    compare = widen(wanted_there)
    return _atomic("cas", pointer, val, None, lambda old, new: np.where(old == compare[new[1]], new[0], old))


def _check_order(sem: str | None, scope: str | None) -> None:
    if sem not in (None, "acquire", "release", "acq_rel", "relaxed") or scope not in (None, "gpu", "cta", "sys"):
        refuse(f'sem="{sem}", scope="{scope}": they are acquire, release, acq_rel or relaxed; and gpu, cta or sys')


FUNCTIONS.update(
    store=store,
    atomic_add=atomic_add,
    atomic_max=atomic_max,
    atomic_min=atomic_min,
    atomic_and=atomic_and,
    atomic_or=atomic_or,
    atomic_xor=atomic_xor,
    atomic_xchg=atomic_xchg,
    atomic_cas=atomic_cas,
)
