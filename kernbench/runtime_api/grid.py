"""Which PE runs which programs of a launch, and whether the kernel takes what it is given."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Iterator, Sequence
from math import prod
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.runtime_api.places import Places

MOST_AXES = 3
Pes = int | Sequence[int | str] | None


def check_call(where: str, kernel: Callable[..., Any], args: Sequence[Any]) -> None:
    """InputError where a kernel cannot be called with these arguments and `tl`, by its name or as the last."""
    try:
        signature = inspect.signature(kernel)
        if "tl" in signature.parameters:
            signature.bind(*args, tl=None)
        else:
            signature.bind(*args, None)
    except (TypeError, ValueError) as error:
        name = getattr(kernel, "__name__", "the kernel")
        rule = f"{name} cannot be called with the {len(args)} arguments given and tl: {error}"
        raise InputError(Problem(where, rule, remedy="a kernel takes the launch's arguments in order, then tl")) from None


def grid_of(where: str, grid: int | Sequence[int] | None, pes: int) -> tuple[int, ...]:
    """The sizes of a grid, of one to three axes; None: a program for each of the `pes`."""
    sizes = (pes,) if grid is None else tuple(grid) if isinstance(grid, Iterable) else (grid,)
    if not 1 <= len(sizes) <= MOST_AXES or not all(type(size) is int and size >= 1 for size in sizes):
        rule = f"it must be one to {MOST_AXES} integers of at least 1, and it is {sizes}"
        raise InputError(Problem(where, rule, "grid"))
    return sizes


def chosen_pes(where: str, pes: Pes, places: Places) -> list[int]:
    """The numbers of the PEs of a launch, in its order. InputError for one that is not there, or stands twice."""
    there = len(places.pes)
    if pes is None:
        return list(range(there))
    if isinstance(pes, int) and not isinstance(pes, bool):
        if not 1 <= pes <= there:
            raise InputError(Problem(where, f"it must be 1 to {there}, the PEs of the machine", "pes", pes))
        return list(range(pes))
    names = {name: number for number, name in enumerate(places.pes)}
    found: list[int] = []
    for one in () if isinstance(pes, bool | str) else pes:
        number = names.get(one, -1) if isinstance(one, str) else one
        if not 0 <= number < there:
            rule = f"the machine has PEs 0 to {there - 1}, called {places.pes[0]} to {places.pes[-1]}"
            raise InputError(Problem(where, rule, "pes", one))
        if number in found:
            raise InputError(Problem(where, f"{places.pes[number]} stands twice", "pes", one, "name each PE once"))
        found.append(number)
    if not found:
        raise InputError(Problem(where, "it must be a number of PEs, or a list of numbers or names", "pes", str(pes)))
    return found


def deal(pes: Sequence[int], grid: tuple[int, ...]) -> Iterator[tuple[int, tuple[int, ...]]]:
    """Each PE that has programs, with their numbers: PE `k` of `n` runs `k`, `k + n`, ..."""
    for k, pe in enumerate(pes):
        programs = tuple(range(k, prod(grid), len(pes)))
        if programs:
            yield pe, programs
