"""`map_elementwise`: runs a function of single elements, which may have `if` statements, on whole tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kernbench.triton.dtypes import refusal, refuse
from kernbench.triton.elementwise import logical, spread, where
from kernbench.triton.program import current
from kernbench.triton.shapes import broadcast_to, joined, part
from kernbench.triton.tensor import FUNCTIONS, as_tensor, tensor

MAX_PATHS = 64  #: through a function, at most
_TOO_MANY = (
    f"tl.map_elementwise: there are more than {MAX_PATHS} paths through the function; a loop on elements has no end here"
)


class _Path:
    """The conditions on one path through a function. The conditions of `prefix` are decided; further conditions are true."""

    def __init__(self, prefix: list[bool]) -> None:
        self.taken = list(prefix)
        self.mask: tensor | None = None
        self._at = 0

    def decide(self, condition: tensor) -> bool:
        """Choose one side of a branch, and record the lanes that take this side."""
        if self._at == len(self.taken):
            if self._at == MAX_PATHS:
                refuse(_TOO_MANY)
            self.taken.append(True)
        side = self.taken[self._at]
        self._at += 1
        lanes = condition if side else FUNCTIONS["binary"]("eq", condition, 0)
        self.mask = lanes if self.mask is None else logical("and", self.mask, lanes)
        return side


def map_elementwise(scalar_fn: Callable[..., Any], *args: Any, pack: int = 1) -> Any:
    """Apply a function of single elements to tensors.

    The function runs on whole tensors, once for each path through its `if` statements. `where` then combines the results:
    a vector engine computes both sides of a branch.

    Parameters
    ----------
    scalar_fn
        A function of `len(args) * pack` elements. It returns one result, or a tuple of results.
    args
        Tensors, which are broadcast to one shape.
    pack
        The number of neighbouring elements of each tensor that a call gets and returns. It must divide the number of elements.

    Returns
    -------
    The results as tensors of the broadcast shape.

    Raises
    ------
    TritonError
        If `pack` does not divide the number of elements, or if the function has too many paths.
    """
    given = [as_tensor(one) for one in args]
    shape = spread(*given)
    wide = [broadcast_to(one, shape) for one in given]
    flat = [one.reshaped((one.numel,)) for one in wide]
    if pack < 1 or flat[0].numel % pack:
        refuse(f"tl.map_elementwise with pack={pack} of {flat[0].numel} elements: pack must divide the number of elements")
    lanes = [part(one, 0, i, one.numel, pack) if pack > 1 else one for one in flat for i in range(pack)]
    results, several = _all_paths(scalar_fn, lanes)
    done = [_woven(results[i : i + pack]).reshaped(shape) for i in range(0, len(results), pack)]
    return tuple(done) if several and len(done) > 1 else done[0]


def _all_paths(function: Callable[..., Any], lanes: list[tensor]) -> tuple[list[tensor], bool]:
    own = current()
    found: list[tensor] | None = None
    several = False
    prefix: list[bool] = []
    for _ in range(MAX_PATHS):
        outer, own.path = own.path, _Path(prefix)
        try:
            made = function(*lanes)
            path = own.path
        finally:
            own.path = outer
        several = isinstance(made, tuple)
        values = [broadcast_to(as_tensor(one), lanes[0].shape) for one in (made if several else (made,))]
        if found is None or path.mask is None:
            found = values
        else:
            found = [where(path.mask, new, old) for new, old in zip(values, found, strict=True)]
        taken = path.taken
        while taken and not taken[-1]:
            taken.pop()
        if not taken:
            return found, several
        taken[-1] = False
        prefix = taken
    raise refusal(_TOO_MANY)


def _woven(parts: list[tensor]) -> tensor:
    """Interleave the parts, so that neighbours are side by side again."""
    if len(parts) == 1:
        return parts[0]
    return joined([one.reshaped((one.numel, 1)) for one in parts], 1)
