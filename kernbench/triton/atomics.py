"""Atomic ops on memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kernbench.common.dtypes import Array, narrow, widen
from kernbench.common.lanes import Lanes
from kernbench.sim_engine.replay.math_ops import evaluate
from kernbench.triton.dtypes import dtype, int1, refusal, refuse, uint64
from kernbench.triton.elementwise import full, where
from kernbench.triton.errors import CompilationError
from kernbench.triton.memory import brought, in_shape, lanes_of, left_out, sent
from kernbench.triton.pointers import check_bounds, mask_of, note, pending_mask, stored, targets
from kernbench.triton.program import current, result_is_used
from kernbench.triton.tensor import FUNCTIONS, as_tensor, known_tensor, tensor
from kernbench.triton.unsigned import HIGHEST


def _atomic(
    op: str, pointer: Any, value: Any, mask: Any, change: Callable[[Any, Any], Any], compare: tensor | None = None
) -> Any:
    """Run an atomic op and return the old elements.

    Known integers change at once, and so do the values of `xchg` and `cas`. Floats change after the timing, in the order of
    issue. The result is None if the old elements are computed after the timing and the kernel does not use them.
    """
    pointers, kind, addresses = targets(pointer, f"tl.atomic_{op}")
    if current().options.portable and not _is_portable(op, kind):
        raise CompilationError(str(refusal(f"atomic_{op} does not support {kind}, as Triton's compiler says; use 32 bits")))
    if op in ("and", "or", "xor") and kind.is_floating():
        refuse(f"tl.atomic_{op} of {kind} is not possible; cast the pointer with .to(tl.pointer_type(tl.int32))")
    mask, chosen = pending_mask(mask, pointers) if op in _NOTHING else (mask, None)
    active = mask_of(mask, addresses.shape, f"tl.atomic_{op}")
    assert pointers.base is not None
    check_bounds(pointers.base, addresses, active, kind.itemsize, f"tl.atomic_{op}")
    note("atomic", pointers.base, addresses, active, kind.itemsize)
    tile = in_shape(as_tensor(value), kind, addresses.shape)
    if chosen is not None:
        tile = where(chosen, tile, full((), _NOTHING[op](kind), kind))
    layout = lanes_of(addresses, active, kind)
    if not layout.active:
        zero = tensor(current().compute("full", [0.0], addresses.shape, kind), kind) if kind.is_floating() else None
        return known_tensor(np.full(addresses.shape, 0), kind) if zero is None else zero
    assert isinstance(layout.lanes, Lanes)
    if chosen is None:
        stored(tile, pointers, active)
    if tile.known is not None and (kind.is_int() or op in ("xchg", "cas")) and (compare is None or compare.known is not None):
        old = _at_once(op, layout, addresses, tile.known, kind, change, compare)
        if old is not None:
            return known_tensor(old, kind)
    if kind == uint64 and op in ("max", "min"):
        refuse(f"tl.atomic_{op} does not support uint64 values that are computed after the timing; use tl.int64")
    if compare is None and op != "xchg" and not result_is_used():
        current().scatter(layout.base, tile.handle, layout.lanes, rmw=_RMW[op])
        return None
    beside = None if compare is None else compare.handle
    return tensor(current().change(layout.base, tile.handle, layout.lanes, kind, _RMW.get(op, op), beside), kind)


def _at_once(
    op: str, layout: Any, addresses: Array, given: Array, kind: dtype, change: Callable[[Any, Any], Any], compare: tensor | None
) -> Array | None:
    """Change known elements now and return the old ones; None if the memory is not known."""
    if kind == uint64 and op in ("max", "min"):
        signed, change = change, lambda old, new: signed(old ^ HIGHEST, (new[0] ^ HIGHEST, new[1])) ^ HIGHEST
    lanes = None if addresses.size == 1 else layout.lanes  # one element, such as a lock, is contiguous
    step: Callable[[Array], Array]
    if lanes is None and kind.is_int() and op in ("xchg", "cas"):
        wanted = None if compare is None else compare.elements("the expected value").item()
        step = lambda found: given if wanted is None or found.item() == wanted else found.copy()  # noqa: E731
    else:
        step = lambda found: _steps(found, given, lanes, kind, change)[1]  # noqa: E731
    old: Array | None = current().exchange(layout.base, addresses.shape, lanes, kind, step)
    return old if old is None or lanes is None else _steps(old, given, lanes, kind, change)[0]


def _is_portable(op: str, kind: dtype) -> bool:
    """Return whether Triton's compiler has the op for elements of a type."""
    if kind.primitive_bitwidth == 16 and op != "cas":
        return kind.is_floating() and op not in ("max", "min")
    return kind.primitive_bitwidth >= 16


def _steps(old: Array, given: Array, lanes: Any, kind: dtype, change: Callable[[Any, Any], Any]) -> tuple[Array, Array]:
    """Return the old and the new value of each lane. Lanes with the same address act in sequence. Without lanes, there is one
    element.
    """
    if lanes is None:
        return old, narrow(np.asarray(change(widen(old), (widen(given.reshape(old.shape)), 0))), kind.own)
    there: dict[int, Any] = {}
    before, after = old.copy().reshape(-1), old.copy().reshape(-1)
    chosen = np.arange(before.size) if lanes.active is None else np.flatnonzero(lanes.active)
    values = given.reshape(-1)
    for place, lane in zip(lanes.at.tolist(), chosen.tolist(), strict=True):
        before[lane] = there.get(place, before[lane])
        new = change(widen(before[lane : lane + 1]), (widen(values[lane : lane + 1]), lane))
        after[lane] = there[place] = narrow(np.asarray(new), kind.own)[0]
    return before.reshape(old.shape), after.reshape(old.shape)


#: For each op, the operand that does not change the memory: masked lanes use it if the mask is computed after the timing.
_NOTHING: dict[str, Callable[[dtype], Any]] = {
    "add": lambda kind: 0,
    "or": lambda kind: 0,
    "xor": lambda kind: 0,
    "and": lambda kind: -1,
    "max": lambda kind: float("-inf") if kind.is_floating() else kind.get_int_min_value(),
    "min": lambda kind: float("inf") if kind.is_floating() else kind.get_int_max_value(),
}
_RMW = {"add": "add", "max": "fmax", "min": "fmin", "and": "and", "or": "or", "xor": "xor"}


def _make(op: str) -> Any:
    def atomic(pointer: Any, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None) -> Any:
        _check_order(sem, scope)
        return _atomic(op, pointer, val, mask, lambda old, new: new[0] if op == "xchg" else evaluate(_RMW[op], [old, new[0]]))

    atomic.__name__ = f"atomic_{op}"
    atomic.__doc__ = f"Apply `{op}` to elements in memory as one atomic step, and return the old elements."
    return atomic


# fmt: off
atomic_add, atomic_max, atomic_min, atomic_and, atomic_or, atomic_xor, atomic_xchg = (
    _make(_op) for _op in ("add", "max", "min", "and", "or", "xor", "xchg")
)
# fmt: on


def atomic_cas(pointer: Any, cmp: Any, val: Any, sem: str | None = None, scope: str | None = None) -> Any:
    """Compare and swap: write `val` where memory holds `cmp`, in one step.

    Parameters
    ----------
    pointer
        Pointers to the elements, of any shape.
    cmp
        The expected values, broadcast to the shape of `pointer`.
    val
        The new values, broadcast to the shape of `pointer`.
    sem, scope
        The memory order and the scope. Valid names are checked, but have no effect.

    Returns
    -------
    The old elements, in the shape of `pointer`.

    Raises
    ------
    TritonError
        If an element is outside of its tensor, or if `sem` or `scope` is not valid.
    """
    _check_order(sem, scope)
    _, kind, addresses = targets(pointer, "tl.atomic_cas")
    beside = in_shape(as_tensor(cmp), kind, addresses.shape)
    found = beside.known
    compare = None if found is None else widen(found.reshape(-1))

    def change(old: Any, new: Any) -> Any:
        assert compare is not None
        return np.where(old == compare[new[1]], new[0], old)

    return _atomic("cas", pointer, val, None, change, beside)


def atomic_load(pointer: Any, mask: Any = None, sem: str | None = None, scope: str | None = None) -> tensor:
    """Load elements as `load` does, but never race with atomic ops."""
    _check_order(sem, scope)
    pointers, kind, addresses = targets(pointer, "tl.atomic_load")
    active = mask_of(mask, addresses.shape, "tl.atomic_load")
    if active is None:
        return brought(pointers.base, kind, addresses, None, 0, "atomic load")
    return left_out(pointers, kind, addresses, active, "atomic load")


def atomic_store(pointer: Any, val: Any, mask: Any = None, sem: str | None = None, scope: str | None = None) -> None:
    """Store elements as `store` does, but never race with atomic ops."""
    _check_order(sem, scope)
    sent(pointer, val, mask, "atomic store")


def atomic_poll(
    pointer: Any, expected_value: Any, sem: str | None = None, scope: str | None = None, timeout_ns: Any = None
) -> tensor:
    """Load integers repeatedly until each has been equal to `expected_value`, or until the timeout.

    Parameters
    ----------
    pointer
        Pointers to the integers, of any shape.
    expected_value
        The integers to wait for, broadcast to the shape of `pointer`.
    sem, scope
        The memory order and the scope. Valid names are checked, but have no effect.
    timeout_ns
        The timeout [ns] of simulated time; None waits without a limit.

    Returns
    -------
    A tensor of `int1` that is true where the expected integer was seen.
    """
    _check_order(sem, scope)
    pointers, kind, addresses = targets(pointer, "tl.atomic_poll")
    expected = in_shape(as_tensor(expected_value), kind, addresses.shape).elements("the expected value of tl.atomic_poll")
    own, seen = current(), np.zeros(addresses.shape, np.bool_)
    end = None if timeout_ns is None else own.cycle + int(timeout_ns) * own.options.freq_ghz
    while True:
        found = brought(pointers.base, kind, addresses, None, 0, "atomic load")
        seen |= found.elements("what tl.atomic_poll waits for") == expected
        if seen.all() or (end is not None and own.cycle >= end):
            return known_tensor(seen, int1)


def _check_order(sem: str | None, scope: str | None) -> None:
    if sem not in (None, "acquire", "release", "acq_rel", "relaxed") or scope not in (None, "gpu", "cta", "sys"):
        refuse(
            f'sem="{sem}", scope="{scope}": sem must be acquire, release, acq_rel or relaxed, and scope must be gpu, cta or sys'
        )


FUNCTIONS.update(
    atomic_load=atomic_load,
    atomic_store=atomic_store,
    atomic_poll=atomic_poll,
    atomic_add=atomic_add,
    atomic_max=atomic_max,
    atomic_min=atomic_min,
    atomic_and=atomic_and,
    atomic_or=atomic_or,
    atomic_xor=atomic_xor,
    atomic_xchg=atomic_xchg,
    atomic_cas=atomic_cas,
)
