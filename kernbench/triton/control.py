"""Program ids, constants, loops, checks and hints."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

from kernbench.triton.constants import plain
from kernbench.triton.dtypes import int32, refuse
from kernbench.triton.program import current
from kernbench.triton.tensor import FUNCTIONS, as_tensor, number_tensor, tensor


def program_id(axis: int) -> tensor:
    """Return the index of the program along an axis (0, 1 or 2) of the grid."""
    return number_tensor(current().program_id(_axis(axis)), int32)


def num_programs(axis: int) -> tensor:
    """Return the size of the grid along an axis (0, 1 or 2)."""
    return number_tensor(current().num_programs(_axis(axis)), int32)


def _axis(axis: int) -> int:
    axis = plain(axis)
    if axis not in (0, 1, 2):
        cause = ValueError(f"program_id axis must be 0, 1, or 2 but got {axis}")
        refuse(f"axis {axis} of the grid does not exist; the axes are 0, 1 and 2", cause)
    return axis


class range:
    """The integers of a loop. `num_stages` and the other hints are ignored, because loads and products overlap anyway."""

    def __init__(
        self, arg1: Any, arg2: Any = None, step: Any = None, num_stages: Any = None, loop_unroll_factor: Any = None,
        disallow_acc_multi_buffer: bool = False, flatten: bool = False, warp_specialize: bool = False,
        disable_licm: bool = False,
    ) -> None:  # fmt: skip
        first, last = (0, arg1) if arg2 is None else (arg1, arg2)
        self._values = builtins.range(int(first), int(last), 1 if step is None else int(step))

    def __iter__(self) -> Iterator[Any]:
        return (number_tensor(one) for one in self._values)


class static_range(range):
    """A loop that Triton unrolls. The integers of the loop are plain Python numbers."""

    def __init__(self, arg1: Any, arg2: Any = None, step: Any = None) -> None:
        super().__init__(arg1, arg2, step)

    def __iter__(self) -> Iterator[int]:
        return iter(self._values)


class condition:
    """The condition of a `while` loop with a hint for GPUs, which is ignored."""

    def __init__(self, arg1: Any, disable_licm: bool = False) -> None:
        self.condition = arg1

    def __bool__(self) -> bool:
        return bool(self.condition)


def _extreme(name: str) -> Any:
    """Return the function that `min` or `max` means in a kernel: on tensors, `tl.minimum` or `tl.maximum`."""

    def of(*values: Any, **how: Any) -> Any:
        if how or len(values) < 2 or not any(isinstance(one, tensor) for one in values):
            return getattr(builtins, name)(*values, **how)
        found = values[0]
        for one in values[1:]:
            found = FUNCTIONS[f"{name}imum"](found, one)
        return found

    of.__name__ = name
    return of


def _print(*values: Any, **how: Any) -> None:
    """Call `device_print`, because `print` means `device_print` in kernels."""
    prefix, rest = (values[0], values[1:]) if values and isinstance(values[0], str) else ("", values)
    device_print(prefix, *rest)


#: The meaning of Python names in kernels.
IN_KERNELS: dict[str, Any] = {"range": range, "min": _extreme("min"), "max": _extreme("max"), "print": _print}


def static_assert(cond: Any, msg: str = "") -> None:
    """Raise TritonError with `msg` if a condition on constants is false."""
    if not cond:
        refuse(f"tl.static_assert failed{f': {msg}' if msg else ''}")


def static_print(*values: Any, sep: str = " ", end: str = "\n", file: Any = None, flush: bool = False) -> None:
    """Print constants on the host when the program executes this line."""
    print(*values, sep=sep, end=end, file=file, flush=flush)


def device_print(prefix: str, *args: Any, hex: bool = False) -> None:
    """Add a line to `printed` of the run.

    Parameters
    ----------
    prefix
        The text at the start of the line.
    args
        Tensors or numbers. A value that is computed in Phase 2 is shown as `pending`.
    hex
        A hint for Triton's compiler, which is ignored.
    """
    own = current()
    if own.options.portable and not isinstance(prefix, str):
        refuse("tl.device_print: in Triton its first argument is a text; put a text before the values")
    place = ", ".join(str(own.program_id(axis)) for axis in (0, 1, 2))
    shown = []
    for one in args:
        found = as_tensor(one).known
        shown.append("pending" if found is None else str(found.tolist()))
    own.options.printed.append(f"pid ({place}) {prefix}{' '.join(shown)}")


def debug_barrier() -> None:
    """Wait until all commands that the program has issued have ended."""
    current().wait()


def assume(cond: Any) -> None:
    """Accept a hint for Triton's compiler, and ignore it."""


def expect_zero(x: Any, mask: Any) -> Any:
    """Return `x` unchanged. The mask is a hint for Triton's compiler."""
    return x


def hint(input: tensor, values: Any) -> tensor:
    """Return the tensor unchanged. The values are a hint for Triton's compiler."""
    return input
