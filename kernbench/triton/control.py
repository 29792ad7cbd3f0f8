"""Programs, constants, loops, checks and hints."""

from __future__ import annotations

import builtins
from collections.abc import Iterator
from typing import Any

from kernbench.triton.dtypes import int32, refuse
from kernbench.triton.program import current
from kernbench.triton.tensor import as_tensor, number_tensor, tensor


class constexpr:
    """Marks parameters that are plain Python values; `constexpr(5)` is 5."""

    def __new__(cls, value: Any) -> Any:
        """The value itself."""
        return value


def program_id(axis: int) -> tensor:
    """The program's place along an axis of the grid."""
    return number_tensor(current().program_id(_axis(axis)), int32)


def num_programs(axis: int) -> tensor:
    """The grid's size along an axis."""
    return number_tensor(current().num_programs(_axis(axis)), int32)


def _axis(axis: int) -> int:
    if axis not in (0, 1, 2):
        refuse(f"axis {axis} of the grid; it has the axes 0, 1 and 2")
    return axis


class range:
    """A loop's integers. `num_stages` and the other hints change nothing: loads and products overlap by themselves."""

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
    """A loop that Triton unrolls: its integers are plain Python numbers."""

    def __iter__(self) -> Iterator[int]:
        return iter(self._values)


def static_assert(cond: Any, msg: str = "") -> None:
    """TritonError where a condition on constants is false."""
    if not cond:
        refuse(f"tl.static_assert failed{f': {msg}' if msg else ''}")


def static_print(*values: Any, sep: str = " ", end: str = "\n", file: Any = None, flush: bool = False) -> None:
    """Print constants when the program comes here."""
    print(*values, sep=sep, end=end, file=file, flush=flush)


def device_print(prefix: str, *args: Any, hex: bool = False) -> None:
    """Keep a line of what is known in the run's `printed`; what is computed after the timing is `pending`."""
    own = current()
    place = ", ".join(str(own.program_id(axis)) for axis in (0, 1, 2))
    shown = []
    for one in args:
        found = as_tensor(one).known
        shown.append("pending" if found is None else str(found.tolist()))
    own.options.printed.append(f"pid ({place}) {prefix}{' '.join(shown)}")


def debug_barrier() -> None:
    """Wait until all commands of the program so far have ended."""
    current().wait()


def assume(cond: Any) -> None:
    """A hint: nothing."""


def hint(input: tensor, values: Any) -> tensor:
    """A hint: the tensor itself."""
    return input
