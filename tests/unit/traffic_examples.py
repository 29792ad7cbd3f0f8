"""Parts of the tests that watch traffic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, ClassVar

from kernbench import NEVER, MemoryPart, PassivePart, TrafficPart, Transfer
from kernbench.common.naming import parse_node
from kernbench.components.builtin.hbm_ctrl import HbmCtrl


class Watch(TrafficPart):
    """Writes down what it sees, on every link of every node."""

    seen: ClassVar[list[tuple[Any, ...]]] = []

    def began(self, link: str, transfer: Transfer, now: int) -> None:
        self.seen.append((now, "began", link, transfer.id, transfer.nbytes))

    def shared(self, link: str, transfers: Sequence[Transfer], now: int) -> None:
        for one in transfers:
            self.seen.append((now, "shared", link, one.id, one.rate))

    def ended(self, link: str, transfer: Transfer, now: int) -> None:
        self.seen.append((now, "ended", link, transfer.id, transfer.nbytes))


class WatchHbm(Watch, HbmCtrl):
    """The same of an HBM stack."""


class WatchSram(Watch, MemoryPart):
    """The same of an SRAM."""


class Factor(TrafficPart):
    """Its links have a part of their bandwidth while transfers cross them."""

    @dataclass(frozen=True, slots=True, kw_only=True)
    class Spec:
        num: int = 1
        den: int = 1

    def shape(self, link: str, transfers: Sequence[Transfer], now: int) -> int:
        self.set_bandwidth(link, self.capacity(link) * self.spec.num / self.spec.den)
        return NEVER


class FixedFactor(PassivePart):
    """The same by the route alone: of a link between two such parts, only the one that it leaves is asked."""

    Spec = Factor.Spec  # type: ignore[misc,assignment]

    def bytes_per_cycle(self, edge: Any) -> Fraction:
        mine = edge.source == self.node or parse_node(edge.source).kind != parse_node(self.node).kind
        return Fraction(edge.bytes_per_cycle) * (Fraction(self.spec.num, self.spec.den) if mine else 1)


class Later(TrafficPart):
    """A link has an eighth of its bandwidth from the third cycle of traffic on, for five cycles."""

    def shape(self, link: str, transfers: Sequence[Transfer], now: int) -> int:
        if not hasattr(self, "first"):
            self.first = now
        if now == self.first:
            return now + 2
        if now == self.first + 2:
            self.set_bandwidth(link, self.capacity(link) / 8)
            return now + 5
        self.set_bandwidth(link, None)
        return NEVER


class Late(TrafficPart):
    """Asks for a cycle that is over."""

    def shape(self, link: str, transfers: Sequence[Transfer], now: int) -> int:
        return now


class SlowAndWatched(Watch):
    """Adds cycles to routes too."""

    def cycles(self, passage: Any) -> int:
        return 7
