"""DRAM channels under `row_buffer_v1`, from docs/model/dram_rows.md (R1 to R7, rules that can be chosen), cycle by cycle."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .ref_dma import Flow

Bank = tuple[int, int]  # bank group, bank of the group

ALL: Bank = (-1, -1)  # the bank of a command to all of them


@dataclass
class Piece:
    """R1: consecutive bytes of a flow with one `number`, and of one row of its transfer."""

    number: int
    nbytes: int


def bursts_by_channel(rows: list[tuple[int, int]], dram: dict[str, Any]) -> dict[int, list[Piece]]:
    """The bursts of a transfer of aligned `rows` (DRAM address, bytes), by channel, in the order of its bytes."""
    channels, interleave, size = dram["channels"], dram["interleave_bytes"], dram["bus_width_bytes"]
    out: dict[int, list[Piece]] = {}
    for start, nbytes in rows:
        in_row: dict[int, list[Piece]] = {}
        address, end = start, start + nbytes
        while address < end:
            of_channel = address // (interleave * channels) * interleave + address % interleave
            step = min(end - address, interleave - address % interleave, size - of_channel % size)
            pieces = in_row.setdefault(address // interleave % channels, [])
            if pieces and pieces[-1].number == of_channel // size:
                pieces[-1].nbytes += step
            else:
                pieces.append(Piece(of_channel // size, step))
            address += step
        for channel, pieces in in_row.items():
            out.setdefault(channel, []).extend(pieces)
    return out


@dataclass(eq=False)
class Burst:
    """A burst in the queue, or one whose command was issued."""

    flow: Flow
    bank: Bank
    row: int
    nbytes: int
    end: int  # bytes of the flow up to its end
    last: bool  # of its flow
    ready: int = -1  # cycle, once its command was issued

    @property
    def write(self) -> bool:
        """A WR, not a RD."""
        return self.flow.job.is_store

    @property
    def command(self) -> str:
        """The column command of the burst."""
        return "WR" if self.write else "RD"

    @property
    def at_end(self) -> bool:
        """R3: the flow has requested or earned the bytes up to `end`; for its last burst, it has requested all bytes."""
        flow = self.flow
        requested = flow.total - flow.left + (flow.request_bytes if flow.request is not None else 0)
        if self.last:
            return requested == flow.total
        return requested + Fraction(flow.carry, flow.den) >= self.end


class RowChannel:
    """One channel with its controller."""

    def __init__(self, dram: dict[str, Any]) -> None:
        self.dram, self.t = dram, dram["row_buffer"]
        self.period, self.burst_clocks = dram["period"], dram["dram_burst_cycles"]
        self.queue_bursts: int = self.t.get("queue_bursts", 32)
        self.buffer_bursts: int = self.t.get("buffer_bursts", 16)
        self.batch_bursts: int = self.t.get("batch_bursts", 16)
        self.scheduler: str = self.t.get("scheduler", "fr_fcfs_cap")
        self.page: str = self.t.get("page", "open")
        self.map: str = self.t.get("map", "row_bank_column_group")
        self.distance = cache(self._distance)  # depends only on the timings, and is called often
        self.commands: list[tuple[int, str, Bank]] = []  # clock, command, bank
        self.open: dict[Bank, int] = {}  # the row that is open
        self.passed: dict[Bank, int] = {}  # bursts that passed the oldest of the bank since its ACT
        self.queue: list[Burst] = []  # the oldest first
        self.issued: list[Burst] = []  # commands issued, last byte not yet moved; in the order of the commands
        self.bus: Burst | None = None
        self.fetched: dict[Flow, int] = {}  # bursts that were queued
        self.turn: Flow | None = None  # the flow that had the last turn
        self.left_in_turn = 0  # bursts that this flow may still queue
        self.writes = False  # whether the last column command was WR
        self.streak = 0  # consecutive column commands of this kind
        self.count = {"bursts": 0, "activations": 0, "refreshes": 0}

    def step(self, cycle: int, entered: list[Flow]) -> Burst | None:
        """P4, after flows entered and left: the burst on the bus. `entered`: flows past their head latency, without those that
        are finished or have left because of backpressure."""
        self.queue = [burst for burst in self.queue if burst.flow.left]
        self.issued = [burst for burst in self.issued if burst.flow.left]
        self.bus = self._first_on_bus(cycle, entered)
        if cycle % self.period == 0:
            clock = cycle // self.period
            self._fill(entered)
            if self.t["t_refi"] and clock // self.t["t_refi"] > self.count["refreshes"]:
                self._refresh(clock)
            else:
                self._column(clock)
                if not self._row(clock) and self.page == "closed":
                    self._close(clock)
        return self.bus

    def after_requests(self) -> None:
        """The end of P5: the burst on the bus may end in this cycle."""
        if self.bus is not None and self.bus.at_end:
            self.issued.remove(self.bus)

    def share(self, burst: Burst) -> Fraction:
        """[B/cycle] The rate of a burst on the bus: a partial burst takes as long as a whole one."""
        return Fraction(burst.nbytes, self.burst_clocks * self.period)

    # R3

    def _first_on_bus(self, cycle: int, entered: list[Flow]) -> Burst | None:
        for burst in [burst for burst in self.issued if burst.flow in entered]:
            if burst.ready > cycle:
                return None
            if not burst.at_end:
                return burst
            self.issued.remove(burst)
        return None

    # R4

    def _fill(self, entered: list[Flow]) -> None:
        while len(self.queue) < self.queue_bursts:
            waiting = sorted((flow for flow in entered if self.fetched.get(flow, 0) < len(flow.bursts)), key=_order)
            if not waiting:
                return
            if self.turn not in waiting or self.left_in_turn == 0:
                last = self.turn
                behind = [flow for flow in waiting if last is None or _order(flow) > _order(last)]
                self.turn = (behind or waiting)[0]
                self.left_in_turn = self.turn.job.weight
            assert self.turn is not None
            self.left_in_turn -= 1
            self._append(self.turn)

    def _append(self, flow: Flow) -> None:
        index = self.fetched.get(flow, 0)
        self.fetched[flow] = index + 1
        piece = flow.bursts[index]
        groups, banks = self.t["bank_groups"], self.t["banks_per_group"]
        columns = self.t["row_bytes"] // self.dram["bus_width_bytes"]
        group, quotient = piece.number % groups, piece.number // groups
        if self.map == "row_bank_column_group":
            bank, row = quotient // columns % banks, quotient // columns // banks
        else:
            bank, row = quotient % banks, quotient // banks // columns
        end = sum(other.nbytes for other in flow.bursts[: index + 1])
        self.queue.append(Burst(flow, (group, bank), row, piece.nbytes, end, index + 1 == len(flow.bursts)))

    # R5

    def _may_be_next(self) -> list[Burst]:
        if self.scheduler == "fcfs":
            return [burst for burst in self.queue[:1] if self.open.get(burst.bank) == burst.row]
        seen: set[Flow] = set()
        oldest: dict[Bank, Burst] = {}
        out = []
        for burst in self.queue:
            first_of_bank = oldest.setdefault(burst.bank, burst)
            few = self.scheduler == "fr_fcfs" or self.passed.get(burst.bank, 0) < self.batch_bursts
            allowed = first_of_bank.row == burst.row or few
            if burst.flow not in seen and self.open.get(burst.bank) == burst.row and allowed:
                out.append(burst)
            seen.add(burst.flow)
        return out

    def _column(self, clock: int) -> None:
        if len(self.issued) >= self.buffer_bursts:
            return
        candidates = self._may_be_next()
        kinds = {burst.write for burst in candidates}
        write = self.writes
        if (not write) in kinds and (write not in kinds or self.streak >= self.batch_bursts):
            write = not write
        for burst in candidates:
            if burst.write == write and self._allowed(clock, burst.command, burst.bank):
                self._read_or_write(clock, burst)
                return

    def _read_or_write(self, clock: int, burst: Burst) -> None:
        oldest = next(other for other in self.queue if other.bank == burst.bank)
        if oldest.row != burst.row:
            self.passed[burst.bank] += 1
        self.streak = self.streak + 1 if burst.write == self.writes else 1
        self.writes = burst.write
        burst.ready = (clock + self.t["t_cwl" if burst.write else "t_cl"]) * self.period
        self.queue.remove(burst)
        self.issued.append(burst)
        self.count["bursts"] += 1
        self._issue(clock, burst.command, burst.bank)

    # R6

    def _row(self, clock: int) -> bool:
        """Whether a row command was issued."""
        busy = {burst.bank for burst in self._may_be_next()}
        seen: set[Bank] = set()
        for burst in self.queue:
            is_oldest = burst.bank not in seen
            seen.add(burst.bank)
            if not is_oldest or self.open.get(burst.bank) == burst.row:
                continue
            if burst.bank not in self.open:
                if self._allowed(clock, "ACT", burst.bank):
                    self._issue(clock, "ACT", burst.bank)
                    self.open[burst.bank] = burst.row
                    self.passed[burst.bank] = 0
                    self.count["activations"] += 1
                    return True
            elif burst.bank not in busy and self._allowed(clock, "PRE", burst.bank):
                self._issue(clock, "PRE", burst.bank)
                del self.open[burst.bank]
                return True
        return False

    def _close(self, clock: int) -> None:
        wanted = {(burst.bank, burst.row) for burst in self.queue}
        for bank, row in sorted(self.open.items()):
            if (bank, row) not in wanted and self._allowed(clock, "PRE", bank):
                self._issue(clock, "PRE", bank)
                del self.open[bank]
                return

    # R7

    def _refresh(self, clock: int) -> None:
        if self.open:
            if all(self._allowed(clock, "PRE", bank) for bank in self.open):
                for bank in self.open:
                    self._issue(clock, "PRE", bank)
                self.open = {}
        elif self._allowed(clock, "REF", ALL):
            self._issue(clock, "REF", ALL)
            self.count["refreshes"] += 1

    # R2

    def _issue(self, clock: int, command: str, bank: Bank) -> None:
        longest = 3 * max(value for name, value in self.t.items() if name.startswith("t_") and name != "t_refi")
        oldest = clock - longest - self.burst_clocks - 2  # no rule reaches further back
        self.commands = [*(one for one in self.commands if one[0] >= oldest), (clock, command, bank)]

    def _allowed(self, clock: int, command: str, bank: Bank) -> bool:
        if command == "ACT":
            opened = [then for then, earlier, _ in self.commands if earlier == "ACT"]
            if len(opened) >= 4 and clock < opened[-4] + self.t["t_faw"]:
                return False
        return all(clock >= then + self.distance(earlier, command, other, bank) for then, earlier, other in self.commands)

    def _distance(self, earlier: str, command: str, other: Bank, bank: Bank) -> int:
        """[DRAM clock] The smallest time from a command to the bank `other` to a command to `bank`."""
        t, written = self.t, self.t["t_cwl"] + self.burst_clocks
        far = "_l" if bank[0] == other[0] else "_s"
        of_channel = {
            ("ACT", "ACT"): t["t_rrd" + far],
            ("PRE", "REF"): t["t_rp"],
            ("RD", "RD"): t["t_ccd" + far],
            ("WR", "WR"): t["t_ccd" + far],
            ("RD", "WR"): t["t_cl"] + self.burst_clocks + 2 - t["t_cwl"],
            ("WR", "RD"): written + t["t_wtr" + far],
            ("REF", "ACT"): t["t_rfc"],
            ("REF", "REF"): t["t_rfc"],
        }
        of_bank = {
            ("ACT", "RD"): t["t_rcd"],
            ("ACT", "WR"): t["t_rcd_wr"],
            ("ACT", "PRE"): t["t_ras"],
            ("PRE", "ACT"): t["t_rp"],
            ("RD", "PRE"): t["t_rtp"],
            ("WR", "PRE"): written + t["t_wr"],
        }
        pair = earlier, command
        return max(of_channel.get(pair, 0), of_bank.get(pair, 0) if bank == other else 0)


def _order(flow: Flow) -> tuple[int, int, int]:
    return flow.job.start, flow.job.engine, flow.job.seq
