"""ASTRA-sim's network files of the analytical backend: NPUs and the links between them."""

from __future__ import annotations

import os
from collections.abc import Callable
from fractions import Fraction
from math import prod
from typing import Any

from kernbench.common.errors import ABSENT, InputError, Problem
from kernbench.config.document import read_document
from kernbench.config.node_description import GIGA, DescribedDimension, NodeDescription
from kernbench.config.system.parts import MAX_DIMENSIONS

MAX_BYTES = 1 << 20
KEYS = ("topology", "npus_count", "bandwidth", "latency")
#: For the names of all dimensions: the network of the SIPs in kernbench. Other networks have `kind: dimensions`.
KINDS = {
    ("Ring",): "ring",
    ("FullyConnected",): "all_to_all",
    ("Switch",): "switch",
    ("Ring", "Ring"): "torus",
    ("Switch", "Switch"): "fat_tree",
}
#: For the name of a dimension: the dimension in kernbench.
DIMENSIONS = {"Ring": "ring", "FullyConnected": "fully_connected", "Switch": "switch"}
#: A FullyConnected of at most this number of NPUs has the links of a Ring.
SMALL_FULL = 3
MAX_NPUS = 1024
LIMIT = 10**9  #: limit of a bandwidth [GB/s] or latency [ns]

Refused = Callable[..., InputError]


def read_astra_network(path: str | os.PathLike[str]) -> NodeDescription:
    """The network of a file. InputError with line and rule for another kind of file, and for a network with another kind of
    dimension.
    """
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
    unknown = next((k for k in wide if every[k] not in DIMENSIONS), None)
    if unknown is not None:
        rule = f"it must be one of {', '.join(DIMENSIONS)}"
        raise refused(rule, "topology", unknown, value=every[unknown])
    if len(wide) > MAX_DIMENSIONS:
        raise refused(f"at most {MAX_DIMENSIONS} dimensions may have several NPUs, but {len(wide)} have", "topology")
    rates = [_number(value, refused, "bandwidth", k) for k, value in enumerate(lists["bandwidth"])]
    waits = [_number(value, refused, "latency", k, zero=True) for k, value in enumerate(lists["latency"])]
    found = [
        DescribedDimension(DIMENSIONS[every[k]], counts[k], rates[k] * GIGA, waits[k]) for k in wide
    ]
    return _single(found, names) or NodeDescription(
        prod(counts), "dimensions", found[0].bytes_per_second, links=sum(one.links for one in found), dimensions=tuple(found)
    )


def _single(found: list[DescribedDimension], names: tuple[str, ...]) -> NodeDescription | None:
    """The network as one of the kinds without dimensions; None if it is none of these."""
    kind, first, last = KINDS.get(names), found[0], found[-1]
    if kind is None or (kind == "torus" and first[2:] != last[2:]):  # a torus has only one kind of link
        return None
    if kind == "fat_tree" and last.bytes_per_second > first.bytes_per_second:
        return None  # an uplink would have more than the links of its NPUs
    unlike = kind == "fat_tree" and first.latency_ns != last.latency_ns
    notes = ["the latency of the second dimension is that of the first"] if unlike else []
    rows = last.size if len(found) > 1 else 1
    links = 1 if kind in ("switch", "fat_tree") else sum(one.links for one in found)
    over = first.bytes_per_second / last.bytes_per_second if kind == "fat_tree" else None
    devices = prod(one.size for one in found)
    return NodeDescription(devices, kind, first.bytes_per_second, rows, links, first.latency_ns, None, notes, over)


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
