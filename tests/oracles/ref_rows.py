"""DRAM channels under `row_buffer_v1`, from docs/adr/0033-row-buffers.md: every cycle, every command ever given looked at."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ref_dma import Flow

LATER = 10**9


def bursts_by_channel(rows: list[tuple[int, int]], dram: dict[str, Any]) -> dict[int, list[tuple[int, int]]]:
    """(DRAM address, bytes) of the bursts of a transfer of aligned `rows`, by channel, in the order of its bytes."""
    channels, interleave, size = dram["channels"], dram["interleave_bytes"], dram["bus_width_bytes"]
    out: dict[int, list[tuple[int, int]]] = {}
    for start, nbytes in rows:
        at, end = start, start + nbytes
        while at < end:
            step = min(end - at, size - at % size)
            out.setdefault(at // interleave % channels, []).append((at, step))
            at += step
    return out


@dataclass
class Burst:
    """A burst in the queue, or given."""

    flow: Flow
    bank: tuple[int, int]  # group, bank of the group
    row: int
    nbytes: int
    end: int  # bytes of the flow up to its end
    write: bool
    arrives: int = -1


class RowChannel:
    """One channel with its controller."""

    def __init__(self, dram: dict[str, Any]) -> None:
        self.dram, self.t = dram, dram["row_buffer"]
        self.period, self.burst = dram["period"], dram["dram_burst_cycles"]
        self.given_to_banks: list[tuple[int, str, tuple[int, int]]] = []  # cycle, command, bank; (-1, -1): all
        self.open: dict[tuple[int, int], int] = {}
        self.passed: dict[tuple[int, int], int] = {}
        self.queue: list[Burst] = []
        self.given: list[Burst] = []
        self.fetched: dict[Flow, int] = {}  # bursts queued so far
        self.turn: tuple[tuple[int, int, int], int] = ((-1, 0, 0), 0)  # who queued last, how many more it may
        self.writes, self.streak = False, 0
        self.next_refresh = self.t["t_refi"] * self.period
        self.count = {"bursts": 0, "activations": 0, "refreshes": 0}

    def step(self, cycle: int, entered: list[Flow]) -> Burst | None:
        """P4: the burst that has the data bus in this cycle."""
        self.queue = [burst for burst in self.queue if burst.flow.left]
        self.given = [burst for burst in self.given if burst.flow.left]
        while (on_bus := self._on_bus(cycle, entered)) is not None and _is_over(on_bus):
            self.given.remove(on_bus)
        if cycle % self.period == 0:
            self._fill(entered)
            if self.t["t_refi"] and cycle >= self.next_refresh:
                self._refresh(cycle)
            else:
                self._column(cycle)
                self._row(cycle)
        return on_bus

    def _on_bus(self, cycle: int, entered: list[Flow]) -> Burst | None:
        return next((burst for burst in self.given if burst.arrives <= cycle and burst.flow in entered), None)

    # The queue

    def _fill(self, entered: list[Flow]) -> None:
        line = sorted(entered, key=_order)
        while len(self.queue) < self.t.get("queue_bursts", 32):
            able = [flow for flow in line if self.fetched.get(flow, 0) < len(flow.bursts)]
            if not able:
                return
            last, left = self.turn
            same = [flow for flow in able if _order(flow) == last and left]
            flow = (same or [flow for flow in able if _order(flow) > last] or able)[0]
            self.turn = (_order(flow), left - 1 if same else flow.job.weight - 1)
            self._enqueue(flow)

    def _enqueue(self, flow: Flow) -> None:
        number = self.fetched.get(flow, 0)
        self.fetched[flow] = number + 1
        address, nbytes = flow.bursts[number]
        chunk, size = self.dram["interleave_bytes"], self.dram["bus_width_bytes"]
        local = address // chunk // self.dram["channels"] * chunk + address % chunk
        rest, group = divmod(local // size, self.t["bank_groups"])
        rest //= self.t["row_bytes"] // size
        row, bank = divmod(rest, self.t["banks_per_group"])
        end = sum(n for _, n in flow.bursts[: number + 1])
        self.queue.append(Burst(flow, (group, bank), row, nbytes, end, flow.job.is_store))

    # Commands

    def _may(self, command: str, bank: tuple[int, int], cycle: int) -> bool:
        return all(
            cycle >= then + self._gap(before, command, _scopes(other, bank)) for then, before, other in self.given_to_banks
        ) and not (command == "ACT" and self._opened_since(cycle - self.t["t_faw"] * self.period) >= 4)

    def _opened_since(self, cycle: int) -> int:
        return sum(1 for then, command, _ in self.given_to_banks if command == "ACT" and then > cycle)

    def _gap(self, after: str, before: str, scopes: tuple[str, ...]) -> int:
        t, burst = self.t, self.burst
        written = t["t_cwl"] + burst
        gaps = {
            ("bank", "ACT", "RD"): t["t_rcd"],
            ("bank", "ACT", "WR"): t["t_rcd_wr"],
            ("bank", "ACT", "PRE"): t["t_ras"],
            ("bank", "PRE", "ACT"): t["t_rp"],
            ("bank", "RD", "PRE"): t["t_rtp"],
            ("bank", "WR", "PRE"): written + t["t_wr"],
            ("group", "RD", "RD"): t["t_ccd_l"],
            ("group", "WR", "WR"): t["t_ccd_l"],
            ("group", "WR", "RD"): written + t["t_wtr_l"],
            ("group", "ACT", "ACT"): t["t_rrd_l"],
            ("channel", "RD", "RD"): t["t_ccd_s"],
            ("channel", "WR", "WR"): t["t_ccd_s"],
            ("channel", "RD", "WR"): t["t_cl"] + burst + 2 - t["t_cwl"],
            ("channel", "WR", "RD"): written + t["t_wtr_s"],
            ("channel", "ACT", "ACT"): t["t_rrd_s"],
            ("channel", "PRE", "REF"): t["t_rp"],
            ("channel", "REF", "ACT"): t["t_rfc"],
        }
        return self.period * max([gaps.get((scope, after, before), -LATER) for scope in scopes])

    def _give(self, command: str, bank: tuple[int, int], cycle: int) -> None:
        longest = self.period * sum(value for name, value in self.t.items() if name[:2] == "t_" and name != "t_refi")
        self.given_to_banks = [one for one in self.given_to_banks if one[0] >= cycle - 2 * longest - 4 * self.burst]
        self.given_to_banks.append((cycle, command, bank))
        if command == "PRE":
            del self.open[bank]

    def _leads(self, burst: Burst) -> bool:
        return next(other for other in self.queue if other.bank == burst.bank) is burst

    def _hits(self) -> list[Burst]:
        """Bursts that may be next, times apart."""
        out = []
        for burst in self.queue:
            first = next(other for other in self.queue if other.flow is burst.flow) is burst
            oldest = next(other for other in self.queue if other.bank == burst.bank)
            allowed = oldest.row == burst.row or self.passed.get(burst.bank, 0) < self.t.get("batch_bursts", 16)
            if first and self.open.get(burst.bank) == burst.row and allowed:
                out.append(burst)
        return out

    def _column(self, cycle: int) -> None:
        hits = self._hits()
        if len(self.given) >= self.t.get("buffer_bursts", 16) or not hits:
            return
        ways = {burst.write for burst in hits}
        way = next(iter(ways)) if len(ways) == 1 else self.writes
        if len(ways) == 2 and self.streak >= self.t.get("batch_bursts", 16):
            way = not way
        command = "WR" if way else "RD"
        for burst in hits:
            if burst.write == way and self._may(command, burst.bank, cycle):
                oldest = next(other for other in self.queue if other.bank == burst.bank)
                self._give(command, burst.bank, cycle)
                self.streak = self.streak + 1 if way == self.writes else 1
                self.writes = way
                self.passed[burst.bank] += oldest.row != burst.row
                burst.arrives = cycle + self.period * (self.t["t_cwl"] if way else self.t["t_cl"])
                self.queue.remove(burst)
                self.given.append(burst)
                self.count["bursts"] += 1
                return

    def _row(self, cycle: int) -> None:
        busy = {burst.bank for burst in self._hits()}
        for burst in self.queue:
            is_open = self.open.get(burst.bank)
            if not self._leads(burst) or is_open == burst.row or burst.bank in busy:
                continue
            command = "ACT" if is_open is None else "PRE"
            if self._may(command, burst.bank, cycle):
                self._give(command, burst.bank, cycle)
                if command == "ACT":
                    self.open[burst.bank] = burst.row
                    self.passed[burst.bank] = 0
                    self.count["activations"] += 1
                return

    def _refresh(self, cycle: int) -> None:
        if self.open:
            if all(self._may("PRE", bank, cycle) for bank in self.open):
                for bank in list(self.open):
                    self._give("PRE", bank, cycle)
        elif self._may("REF", (-1, -1), cycle):
            self._give("REF", (-1, -1), cycle)
            self.next_refresh += self.t["t_refi"] * self.period
            self.count["refreshes"] += 1

    def share(self, burst: Burst) -> Fraction:
        """Bytes per cycle that the data bus gives to a burst: a part of one takes as long as the whole."""
        return Fraction(burst.nbytes, self.burst * self.period)


def _order(flow: Flow) -> tuple[int, int, int]:
    return flow.job.start, flow.job.engine, flow.job.seq


def _scopes(one: tuple[int, int], other: tuple[int, int]) -> tuple[str, ...]:
    if one == other:
        return ("bank", "group", "channel")
    return ("group", "channel") if one[0] == other[0] else ("channel",)


def _is_over(burst: Burst) -> bool:
    """The flow has earned its bytes up to the burst's end; of the last burst it has also asked for them."""
    flow = burst.flow
    total = sum(nbytes for _, nbytes in flow.bursts)
    asked = total - flow.left + (flow.asked if flow.request is not None else 0)
    if burst.end == total:
        return asked == total
    return asked * flow.den + flow.carry >= burst.end * flow.den
