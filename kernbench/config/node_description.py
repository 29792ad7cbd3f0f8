"""Descriptions of SIPs from files of other tools: their number, arrangement and links, as values of a system."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from math import ceil
from typing import Any, NamedTuple

from kernbench.config.system import SystemConfig
from kernbench.config.system.links import SWITCHED

GIGA = 10**9


class DescribedDimension(NamedTuple):
    """A dimension of a network."""

    kind: str  #: value of `system.dimensions[].kind`
    size: int
    bytes_per_second: Fraction  #: of a link, in each direction
    latency_ns: Fraction  #: of a link

    @property
    def links(self) -> int:
        """The links of a device."""
        return {"ring": min(2, self.size - 1), "fully_connected": self.size - 1}.get(self.kind, 1)


@dataclass(frozen=True)
class NodeDescription:
    """Devices and the links between them; each device is a SIP."""

    devices: int
    kind: str  #: value of `system.kind`
    bytes_per_second: Fraction  #: of a link, in each direction
    rows: int = 1
    links: int = 1  #: of a device
    latency_ns: Fraction | None = None  #: of a link; None: as in the base machine
    start: str | None = None  #: the base machine, if the file says which devices there are
    notes: list[str] = field(default_factory=list)  #: values that the machine leaves out
    oversubscription: Fraction | None = None  #: of a fat tree
    nics: tuple[int, ...] = ()  #: for several nodes: the rail of each device of a node
    nic_bytes_per_second: Fraction = Fraction(0)  #: of a NIC, in each direction
    dimensions: tuple[DescribedDimension, ...] = ()  #: of kind dimensions

    def overrides(self, base: SystemConfig) -> dict[str, Any]:
        """The overrides of a base machine. The cubes and PEs of the base machine stay the same."""
        rate = self.bytes_per_second / GIGA / Fraction(base.freq_ghz)
        found: dict[str, Any] = {
            "system.sips": self.devices,
            "system.kind": self.kind,
            "system.rows": self.rows,
            "system.cols": None,
            "system.failed": [],
            "system.slow": [],
        }
        if not self.dimensions:  # each dimension has a link of its own
            found["system.link.bytes_per_cycle"] = rate.limit_denominator(10_000)
        if self.latency_ns is not None:
            found["system.link.cycles"] = ceil(self.latency_ns * Fraction(base.freq_ghz))
            found["system.link.mm"] = 0
        elif self.kind in SWITCHED and base.system.kind not in SWITCHED:  # the route has two links instead of one
            found["system.link.cycles"] = base.system.link.cycles // 2
        if self.nics:
            found["system.kind"] = "rails"
            found["system.rails.nics"] = list(self.nics)
            found["system.rails.link.bytes_per_cycle"] = (
                self.nic_bytes_per_second / GIGA / Fraction(base.freq_ghz)
            ).limit_denominator(10_000)
        if self.dimensions:
            found["system.dimensions"] = [self._dimension(one, Fraction(base.freq_ghz)) for one in self.dimensions]
        if self.oversubscription is not None:
            found["system.switch.oversubscription"] = self.oversubscription
        whole = ceil(rate * self.links)
        if self.dimensions:
            whole = ceil(sum(one.bytes_per_second * one.links for one in self.dimensions) / GIGA / Fraction(base.freq_ghz))
        # The route to the links must not be narrower than all of them together.
        for path, now in (
            ("cube.ucie.link.bytes_per_cycle", base.cube.ucie.link.bytes_per_cycle),
            ("cube.ucie.router.bytes_per_cycle", base.cube.ucie.router.bytes_per_cycle),
            ("io.noc.bytes_per_cycle", base.io.noc.bytes_per_cycle),
        ):
            if now is not None and now < whole:
                found[path] = whole
        return found

    @staticmethod
    def _dimension(one: DescribedDimension, freq_ghz: Fraction) -> dict[str, Any]:
        rate = (one.bytes_per_second / GIGA / freq_ghz).limit_denominator(10_000)
        link = {"bytes_per_cycle": rate, "cycles": ceil(one.latency_ns * freq_ghz), "mm": 0}
        return {"kind": one.kind, "size": one.size, "link": link}
