"""ASTRA-sim's network files of the analytical backend: NPUs and the links between them."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from math import prod
from typing import Any

from kernbench.common.errors import ABSENT, InputError, Problem
from kernbench.config.document import read_document
from kernbench.config.node_description import GIGA, NodeDescription

MAX_BYTES = 1 << 20
KEYS = ("topology", "npus_count", "bandwidth", "latency")
#: For each name of a dimension: the arrangement of the SIPs in kernbench.
KINDS = {
    ("Ring",): "ring",
    ("FullyConnected",): "all_to_all",
    ("Switch",): "switch",
    ("Ring", "Ring"): "torus",
    ("Switch", "Switch"): "fat_tree",
}
#: A FullyConnected of at most so many NPUs has the links of a Ring.
SMALL_FULL = 3
MAX_NPUS = 1024
LIMIT = 10**9  #: limit of a bandwidth [GB/s] or latency [ns]

Refused = Callable[..., InputError]


def read_astra_network(path: str | os.PathLike[str]) -> NodeDescription:
    """The network of a file. InputError with line and rule for another kind of file, and for a network that no arrangement
    represents."""
    document = read_document(path, MAX_BYTES)
    data = document.data

    def refused(rule: str, *where: str | int, value: object = ABSENT) -> InputError:
        place = document.where(document.find([where]).get(where))
        return InputError(Problem(place, rule, ".".join(map(str, where)) or "network", value))

    for name in data:
        if name in ("logical-dims", "dimension"):
            raise refused("this is a file of the backend ns-3, and only files of the analytical backend are supported", name)
        if name not in KEYS:
            raise refused(f"only {', '.join(KEYS)} are supported, which are the keys of the analytical network", name)
    lists = {name: _list(data, name, refused) for name in KEYS}
    dims = len(lists["topology"])
    for name, values in lists.items():
        if len(values) != dims or not dims:
            raise refused(f"it must have as many values as topology, which has {dims}, and at least one", name)
    every = tuple(str(one) for one in lists["topology"])
    counts = [_natural(value, refused, k) for k, value in enumerate(lists["npus_count"])]
    if not 2 <= prod(counts) <= MAX_NPUS:
        raise refused(f"it must be 2 to {MAX_NPUS:,} NPUs together", "npus_count", value=prod(counts))
    wide, names = _dimensions(every, counts)
    if names not in KINDS:
        known = "; ".join(", ".join(one) for one in KINDS)
        rule = (
            f"these dimensions are not an arrangement of SIPs; the possible arrangements are {known}. Dimensions of one NPU "
            f"are left out, and a FullyConnected of at most {SMALL_FULL} NPUs counts as a Ring"
        )
        raise refused(rule, "topology", value=", ".join(every))
    rates = [_number(value, refused, "bandwidth", k) for k, value in enumerate(lists["bandwidth"])]
    waits = [_number(value, refused, "latency", k, zero=True) for k, value in enumerate(lists["latency"])]
    counts, rates, waits = [counts[k] for k in wide], [rates[k] for k in wide], [waits[k] for k in wide]
    kind, notes = KINDS[names], list[str]()
    if kind == "torus" and (rates[0] != rates[1] or waits[0] != waits[1]):
        raise refused("the links of both rings must be equal, because a torus has only one kind of link", "bandwidth")
    if kind == "fat_tree":
        if rates[1] > rates[0]:
            raise refused("an uplink cannot have more than the links of its NPUs", "bandwidth", wide[1])
        notes = ["the latency of the second dimension is that of the first"] if waits[0] != waits[1] else []
    rows, links = (counts[-1], 4) if kind == "torus" else (counts[-1], 1) if kind == "fat_tree" else (1, 1)
    links = counts[0] - 1 if kind == "all_to_all" else 2 if kind == "ring" else links
    over = rates[0] / rates[1] if kind == "fat_tree" else None
    return NodeDescription(prod(counts), kind, rates[0] * GIGA, rows, links, waits[0], None, notes, over)


def _dimensions(names: tuple[str, ...], counts: list[int]) -> tuple[list[int], tuple[str, ...]]:
    """The numbers and names of the dimensions with links, which have at least two NPUs.

    Of several dimensions, a small FullyConnected counts as a Ring, because it has the same links.
    """
    known = {name for kind in KINDS for name in kind} | {"FullyConnected"}
    wide = [k for k, count in enumerate(counts) if count > 1 or names[k] not in known]
    small = [len(wide) > 1 and names[k] == "FullyConnected" and counts[k] <= SMALL_FULL for k in wide]
    return wide, tuple("Ring" if one else names[k] for k, one in zip(wide, small, strict=True))


def _list(data: dict[str, Any], name: str, refused: Refused) -> list[Any]:
    value = data.get(name)
    if not isinstance(value, list):
        raise refused(f"{name} must be there and be a list, with a value a dimension", *([name] if name in data else []))
    return value


def _natural(value: object, refused: Refused, k: int) -> int:
    if type(value) is not int or not 1 <= value <= MAX_NPUS:
        raise refused(f"it must be an integer from 1 to {MAX_NPUS:,}", "npus_count", k, value=value)
    return value


def _number(value: object, refused: Refused, name: str, k: int, *, zero: bool = False) -> Fraction:
    if type(value) is bool or not isinstance(value, int | Fraction) or not 0 <= value <= LIMIT or (not value and not zero):
        raise refused(f"it must be a number {'from' if zero else 'above'} 0, and at most {LIMIT:,}", name, k, value=value)
    return Fraction(value)
