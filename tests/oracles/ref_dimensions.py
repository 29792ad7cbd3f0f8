"""Networks of dimensions, slow and obvious: positions of SIPs, routes SIP by SIP, and the links of a route.

A dimension is (kind, size, cycles of a link, cycles of a switch). The text is *Dimensions* in docs/model/systems.md.
"""

from __future__ import annotations

Dimension = tuple[str, int, int, int]
Hop = tuple[str, str, int]  #: from, to, cycles


def places(dimensions: list[Dimension]) -> list[tuple[int, ...]]:
    """The position of each SIP. The first dimension counts fastest."""
    found: list[tuple[int, ...]] = [()]
    for _, size, _, _ in reversed(dimensions):
        found = [(x, *rest) for rest in found for x in range(size)]
    return found


def switch_names(dimensions: list[Dimension]) -> dict[tuple[int, tuple[int, ...]], str]:
    """By dimension and position without it: the name of a switch. Switches are numbered dimension by dimension."""
    found: dict[tuple[int, tuple[int, ...]], str] = {}
    for k, (kind, size, _, _) in enumerate(dimensions):
        for place in places(dimensions):
            line = k, place[:k] + place[k + 1 :]
            if kind == "switch" and size > 1 and line not in found:
                found[line] = f"switch{len(found)}"
    return found


def route(a: int, b: int, dimensions: list[Dimension]) -> list[Hop]:
    """The links from one SIP to another: along the first dimension, then along the second, and so on."""
    every, switches = places(dimensions), switch_names(dimensions)
    names = {place: f"sip{sip}" for sip, place in enumerate(every)}
    here, there, hops = list(every[a]), every[b], []

    def go(k: int, x: int, cycles: int) -> None:
        before = names[tuple(here)]
        here[k] = x
        hops.append((before, names[tuple(here)], cycles))

    for k, (kind, size, cycles, inside) in enumerate(dimensions):
        while here[k] != there[k]:
            if kind == "ring":
                up, down = (there[k] - here[k]) % size, (here[k] - there[k]) % size
                go(k, (here[k] + (1 if up <= down else -1)) % size, cycles)
            elif kind == "fully_connected":
                go(k, there[k], cycles)
            else:
                switch = switches[k, tuple(here[:k] + here[k + 1 :])]
                hops.append((names[tuple(here)], switch, cycles + inside))
                here[k] = there[k]
                hops.append((switch, names[tuple(here)], cycles))
    return hops
