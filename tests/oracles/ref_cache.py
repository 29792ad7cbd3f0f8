"""The last-level cache and its write-backs, from docs/model/llc.md alone."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

Part = tuple[int, int, bool]  # (address, bytes, over `llc` alone): consecutive bytes of one row, inside one line


ChannelOf = Callable[[int], str]
Held = tuple[bool, ChannelOf]  # of a line that is there: it is dirty, and where it is written back to


class Cache:
    """The lines of each set, from the oldest to the youngest, and the queues of the DRAM channels behind it, by name."""

    def __init__(self, llc: dict[str, Any], name: str = "llc") -> None:
        self.name = name
        self.line: int = llc["line_bytes"]
        lines = llc["capacity_bytes"] // self.line
        self.ways: int = llc["ways"] or lines
        self.sets: list[dict[int, Held]] = [{} for _ in range(lines // self.ways)]
        self.write: str = llc["write"]
        self.allocate: bool = llc["write_allocate"]
        self.queues: dict[str, WriteBack] = {}
        self.count = dict.fromkeys(("hits", "misses", "hit_bytes", "miss_bytes", "evictions", "write_backs"), 0)

    def look_up(self, rows: list[tuple[int, int]], is_store: bool, channel_of: ChannelOf) -> list[list[Part]]:
        """The parts of each aligned row of a transfer that starts; the lines are what they are after it.

        `channel_of`: the DRAM channel of an address of the transfer's memory.
        """
        out = []
        for start, nbytes in rows:
            parts: list[Part] = []
            at = start
            while at < start + nbytes:
                number = at // self.line
                end = min((number + 1) * self.line, start + nbytes)
                hit = number in self.sets[number % len(self.sets)]
                self.count["hits" if hit else "misses"] += 1
                self.count["hit_bytes" if hit else "miss_bytes"] += end - at
                parts.append((at, end - at, self._touch(number, hit, is_store, channel_of)))
                at = end
            out.append(parts)
        return out

    def _touch(self, number: int, hit: bool, is_store: bool, channel_of: ChannelOf) -> bool:
        """What a lookup does to its line; whether the bytes move over `llc` alone."""
        lines = self.sets[number % len(self.sets)]
        back = is_store and self.write == "back"
        if hit:
            dirty, home = lines.pop(number)
            lines[number] = (dirty or back, home)
            return back or not is_store
        if is_store and not self.allocate:
            return False
        if len(lines) == self.ways:
            self._evict(lines)
        lines[number] = (back, channel_of)
        return back

    def _evict(self, lines: dict[int, Held]) -> None:
        oldest = next(iter(lines))
        self.count["evictions"] += 1
        dirty, channel_of = lines.pop(oldest)
        if dirty:
            self.count["write_backs"] += 1
            for address in range(oldest * self.line, (oldest + 1) * self.line):
                channel = channel_of(address)
                self.queues.setdefault(channel, WriteBack(channel, self.name)).appended += 1


class WriteBack:
    """Bytes that are to be written back to one channel: a flow of no job."""

    weight = 1

    def __init__(self, channel: str, cache: str) -> None:
        self.dram = channel
        self.route: tuple[str, ...] = (channel, cache)
        self.channel = int(channel.rpartition("ch")[2])
        self.left = 0
        self.appended = 0  # in P3 of this cycle
        self.since = 0  # the cycle from which it is a member, or waits for its turn
        self.rate = Fraction(0)
        self.den = 1
        self.carry = 0

    @property
    def turn(self) -> tuple[int, int, int]:
        """Its place among the flows of the channel under `fifo_v1`."""
        return (self.since, 1 << 30, self.channel)

    def set_rate(self, rate: Fraction) -> None:
        """As that of any flow."""
        self.carry = self.carry * rate.denominator // self.den
        self.den = rate.denominator
        self.rate = rate

    def move(self) -> int:
        """P6 of a member cycle: bytes that move."""
        self.carry += self.rate.numerator
        moved = min(self.left, self.carry // self.den)
        self.left -= moved
        self.carry = self.carry - moved * self.den if self.left else 0
        return moved

    def complete(self, cycle: int) -> None:
        """P7."""
        if self.left == 0:
            self.carry = 0
            self.since = cycle + 1
        self.left += self.appended
        self.appended = 0
