"""The host of docs/model/host.md, from its text alone: an in-order engine of launches, what follows them, waits and steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Item:
    """A launch with what belongs to it, in whole cycles; 0: there is no such item."""

    launch: int
    behind: int
    sync: int
    kernel: int  #: of the device, from its first entry's issue to its last entry's end


@dataclass(frozen=True)
class Placed:
    """When an item of the host ran, or a kernel."""

    what: str
    begin: int
    end: int


def host_times(items: Sequence[Item], ahead: int, step: int) -> list[Placed]:
    """Every item of the host and every kernel, in the order of the launches."""
    placed: list[Placed] = []
    host = 0  # the end of the host's item before
    kernels: list[int] = []  # ends
    gate = 0  # no kernel begins before the wait that precedes it is over

    def on_host(what: str, cycles: int, ready: int) -> int:
        nonlocal host
        if cycles:
            begin = max(host, ready)
            host = begin + cycles
            placed.append(Placed(what, begin, host))
            return host
        return ready

    for number, item in enumerate(items):
        free = kernels[number - ahead] if number >= ahead else 0
        launched = on_host("launch", item.launch, free) if item.launch else 0
        on_host("behind", item.behind, launched)
        begin = max(launched, kernels[-1] if kernels else 0, gate)
        kernels.append(begin + item.kernel)
        placed.append(Placed("kernel", begin, kernels[-1]))
        if item.sync:
            gate = on_host("sync", item.sync, max(kernels))
    if step:
        on_host("step", step, max([*kernels, gate], default=0))
    return placed
