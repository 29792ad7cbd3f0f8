"""The dimensions of a network of `kind: dimensions`: positions of SIPs, lines, links and switches.

The position of a SIP is its number in a mixed radix: `sip = x0 + size0 * (x1 + size1 * (x2 + ...))`. A *line* of a dimension
consists of the SIPs that differ only in their position in this dimension.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate
from math import prod
from operator import mul
from typing import TYPE_CHECKING, NamedTuple

from kernbench.config.system.parts import PORT, Dimension, SipLink, Switches

if TYPE_CHECKING:
    from kernbench.config.system import SystemConfig

DIMENSIONS = "dimensions"  #: value of `system.kind`
RING, FULLY_CONNECTED, SWITCH = "ring", "fully_connected", "switch"


def strides(sizes: Sequence[int]) -> list[int]:
    """For each dimension, the difference of the numbers of two SIPs that are neighbours in this dimension."""
    return list(accumulate(sizes, mul, initial=1))[:-1]


def sizes_of(config: SystemConfig) -> tuple[int, ...]:
    """The sizes of the dimensions; empty for another kind of network."""
    return tuple(one.size for one in config.system.dimensions) if config.system.kind == DIMENSIONS else ()


def arrangement(config: SystemConfig) -> str:
    """The dimensions as text, like `ring 4 x switch 2`."""
    return " x ".join(f"{one.kind} {one.size}" for one in config.system.dimensions)


def position(sip: int, sizes: Sequence[int]) -> tuple[int, ...]:
    """The position of a SIP in each dimension."""
    return tuple(sip // step % size for step, size in zip(strides(sizes), sizes, strict=True))


def lines(sizes: Sequence[int], number: int) -> Iterator[range]:
    """The lines of a dimension, each from its first SIP to its last, in the order of their first SIPs."""
    size, step = sizes[number], strides(sizes)[number]
    for first in range(prod(sizes)):
        if first // step % size == 0:
            yield range(first, first + size * step, step)


def link_of(config: SystemConfig, one: Dimension) -> SipLink:
    """The links of a dimension."""
    return one.link or config.system.link


def sip_links(config: SystemConfig) -> dict[str, SipLink]:
    """The links between SIPs that the machine has, by their paths in the file."""
    system = config.system
    own = {f"system.dimensions.{number}.link": one.link for number, one in enumerate(system.dimensions) if one.size > 1}
    found = {path: link for path, link in own.items() if link is not None}
    return {"system.link": system.link, **found} if len(found) < max(1, len(own)) else found


def switches_of(config: SystemConfig, one: Dimension) -> Switches:
    """The switches of a dimension."""
    return one.switch or config.system.switch


class DimensionLink(NamedTuple):
    """A link between two SIPs."""

    number: int  #: of the dimension
    first: int
    second: int
    steps: int  #: distance between the two in pitches


def dimension_links(config: SystemConfig) -> Iterator[DimensionLink]:
    """The links between two SIPs, each once: between neighbours in a ring, and between every two SIPs of a fully connected
    line.
    """
    sizes = sizes_of(config)
    for number, one in enumerate(config.system.dimensions):
        for line in lines(sizes, number) if one.kind != SWITCH else ():
            for first, second in _links(one):
                yield DimensionLink(number, line[first], line[second], second - first)


def _links(one: Dimension) -> Iterator[tuple[int, int]]:
    """The positions of a line between which there is a link."""
    if one.kind == RING:
        yield from ((at, at + 1) for at in range(one.size - 1))
        if one.size > 2:
            yield 0, one.size - 1
        return
    yield from ((first, second) for first in range(one.size) for second in range(first + 1, one.size))


def switched_lines(config: SystemConfig) -> Iterator[tuple[int, range]]:
    """The lines with a switch, each with the number of its dimension, in the order of the numbers of the switches."""
    sizes = sizes_of(config)
    for number, one in enumerate(config.system.dimensions):
        if one.kind == SWITCH and one.size > 1:
            yield from ((number, line) for line in lines(sizes, number))


def broken_ports(config: SystemConfig) -> set[tuple[int, int]]:
    """(dimension, SIP) of each broken link between a SIP and a switch."""
    found = (re.fullmatch(PORT, name) for name in config.system.failed)
    return {(int(one[1]), int(one[2])) for one in found if one is not None}


def differing(sips: Iterable[int], sizes: Sequence[int]) -> list[int]:
    """The dimensions in which some of these SIPs have different positions."""
    places = zip(*(position(sip, sizes) for sip in sips), strict=True)
    return [number for number, values in enumerate(places) if len(set(values)) > 1]


def combining_dimension(config: SystemConfig) -> int | None:
    """The last dimension of several SIPs whose switches combine and copy messages, or None without such a dimension."""
    found = [
        number
        for number, one in enumerate(config.system.dimensions)
        if config.system.kind == DIMENSIONS and one.kind == SWITCH and one.size > 1 and switches_of(config, one).reduce
    ]
    return found[-1] if found else None


def waypoints(a: int, b: int, dimensions: Sequence[Dimension]) -> list[int]:
    """The SIPs between which a route from one SIP to another takes a shortest path, with both ends.

    A route changes its position in the first dimension first. If both ways round a ring are equally short, the route takes the
    way of increasing positions.
    """
    found = [a]
    for one, step in zip(dimensions, strides([one.size for one in dimensions]), strict=True):
        here, there = a // step % one.size, b // step % one.size
        if here == there:
            continue
        if one.kind == RING and 2 * ((there - here) % one.size) == one.size > 2:
            found.append(a + ((here + 1) % one.size - here) * step)
        a += (there - here) * step
        found.append(a)
    return found
