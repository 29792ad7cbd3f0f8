"""DRAM channels under `row_buffer_v2`, from docs/model/dram_controller.md (C1 to C7), clock by clock."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction
from functools import cache
from math import ceil, floor
from typing import TYPE_CHECKING, Any

from .ref_rows import Piece

if TYPE_CHECKING:
    from .ref_dma import Flow

Bank = tuple[int, int, int, int, int]  # pseudo-channel, rank, stack, group, bank
SCOPE = {"pseudo": 1, "rank": 2, "stack": 3, "group": 4, "bank": 5}  # how many numbers of a bank two commands have in common
COLUMN = ("RD", "WR", "CAS")
ALL = ("PREA", "REF")  # of a rank


def controller_bursts(rows: list[tuple[int, int]], dram: dict[str, Any]) -> dict[int, list[Piece]]:
    """C3: the bursts of a transfer of aligned `rows` (DRAM address, bytes), by channel, in the order of its bytes."""
    channels, interleave, size = dram["channels"], dram["interleave_bytes"], dram["controller"]["burst_bytes"]
    out: dict[int, list[Piece]] = {}
    for start, nbytes in rows:
        last: dict[int, Piece] = {}
        address, end = start, start + nbytes
        while address < end:
            of_channel = address // (interleave * channels) * interleave + address % interleave
            step = min(end - address, size - of_channel % size)
            if channels > 1:
                step = min(step, interleave - address % interleave)
            channel = address // interleave % channels
            piece = last.get(channel)
            if piece is not None and piece.number == of_channel // size:
                piece.nbytes += step
            else:
                last[channel] = piece = Piece(of_channel // size, step)
                out.setdefault(channel, []).append(piece)
            address += step
    return out


def settings(given: dict[str, Any]) -> dict[str, Any]:
    """A controller's keys with their defaults."""
    t = {
        "pseudo_channels": 1,
        "ranks": 1,
        "stacks": 1,
        "rows": 65536,
        "clock": 1,
        "t_rcd_wr": given["t_rcd"],
        "t_rp_ab": given["t_rp"],
        "t_rc": given["t_ras"] + given["t_rp"],
        "t_ccd_s_wr": given["t_ccd_s"],
        "t_ccd_l_wr": given["t_ccd_l"],
        "t_ccd_r": given["t_ccd_s"],
        "t_rtw": max(1, given["t_cl"] + given["t_bl"] + 2 - given["t_cwl"]),
        "t_rtrs": 2,
        "t_ppd": 1,
        "t_refi_pb": 0,
        "t_rfc_pb": 0,
        "t_rrefd": given["t_rrd_s"],
        "act_clocks": 1,
        "pre_clocks": 1,
        "column_clocks": 1,
        "refresh_clocks": 1,
        "command_buses": 1,
        "phases": 1,
        "t_aad": 0,
        "t_wckpst": 0,
        "scheduler": "fr_fcfs_cap",
        "cap": 16,
        "page": "open",
        "idle_clocks": 64,
        "map": "row bank stack rank column group pseudo",
        "hash": [],
        "refresh": "all_bank",
        "postpone": 0,
        "read_queue": 32,
        "write_queue": 32,
    } | given
    t.setdefault("write_high", max(1, ceil(Fraction(4 * t["write_queue"], 5))))
    t.setdefault("write_low", t["write_queue"] // 5)
    t.setdefault("read_buffer_bytes", 2 * t["read_queue"] * t["burst_bytes"])
    return t | {"clock": Fraction(str(t["clock"]))}


@dataclass(eq=False)
class Request:
    """A burst that waits for a command."""

    flow: Flow
    index: int  # of the flow's bursts
    bank: Bank
    row: int
    number: int
    came: int
    write: bool
    whole: bool
    seen: bool = False  # its first command was given


@dataclass
class Buffer:
    """What a flow has with its controller."""

    there: list[int] = field(default_factory=list)  # of each queued burst of a read: the cycle from which it is there, or -1
    whole: int = 0  # writes that are whole
    free: int = 0  # reads whose place is free again


class ControllerChannel:
    """One channel with its controller."""

    def __init__(self, dram: dict[str, Any]) -> None:
        self.t = settings(dram["controller"])
        t = self.t
        self.held, self.distance = cache(self._held), cache(self._distance)  # they read the timings only, and are asked often
        self.ratio: Fraction = t["clock"]
        self.buffers: dict[Flow, Buffer] = {}
        self.queue: dict[bool, list[Request]] = {False: [], True: []}  # reads, writes
        self.active: list[Request] = []
        self.open: dict[Bank, int] = {}
        self.opening: dict[Bank, int] = {}  # banks that wait for ACT2: the last clock for it
        self.passed: dict[Bank, int] = {}
        self.used: dict[Bank, int] = {}
        self.commands: list[tuple[int, str, Bank]] = []
        self.writes = False
        self.turn: dict[bool, tuple[Flow | None, int]] = {False: (None, 0), True: (None, 0)}
        self.cas: Request | None = None
        self.data_clock = 0
        self.refreshes = 0
        self.next_clock = 0
        self.banks = [
            (p, r, s, g, b)
            for p in range(t["pseudo_channels"])
            for r in range(t["ranks"])
            for s in range(t["stacks"])
            for g in range(t["bank_groups"])
            for b in range(t["banks_per_group"])
        ]
        self.peak = Fraction(t["pseudo_channels"] * t["burst_bytes"]) / (t["t_bl"] * self.ratio)
        self.count = {"bursts": 0, "activations": 0, "refreshes": 0, "row_hits": 0, "row_misses": 0, "row_conflicts": 0}

    # C1, C2

    def step(self, cycle: int, entered: list[Flow]) -> list[Flow]:
        """P4, after flows entered and left: the members."""
        for flow in entered:
            self._look_at_buffer(flow, cycle)
        while ceil(self.next_clock * self.ratio) <= cycle:
            self._clock(self.next_clock)
            self._fill(self.next_clock, entered)
            self.next_clock += 1
        return [flow for flow in entered if self._member(flow, cycle)]

    def _member(self, flow: Flow, cycle: int) -> bool:
        if self._may(flow, cycle) == flow.total:
            return flow.left > (flow.request_bytes if flow.request is not None else 0)
        return self.left_to_earn(flow, cycle) > 0

    def left_to_earn(self, flow: Flow, cycle: int) -> Fraction:
        """Bytes that a flow may earn from now on."""
        return self._may(flow, cycle) - _earned(flow)

    def _may(self, flow: Flow, cycle: int) -> int:
        """C2: up to which of its bytes a flow may earn."""
        buffer, count = self.buffers.setdefault(flow, Buffer()), 0
        if flow.job.is_store:
            count = len(buffer.there)
        else:
            while count < len(buffer.there) and 0 <= buffer.there[count] <= cycle:
                count += 1
        return sum(piece.nbytes for piece in flow.bursts[:count])

    def rate(self, flow: Flow, links: Fraction, cycle: int) -> Fraction:
        """C2, with what its links give it."""
        rate, left = min(self.peak, links), self.left_to_earn(flow, cycle)
        if left >= rate or self._may(flow, cycle) == flow.total:
            return rate
        return left if left.numerator < 1 << 31 else Fraction(floor(left))

    def _look_at_buffer(self, flow: Flow, cycle: int) -> None:
        buffer = self.buffers.setdefault(flow, Buffer())
        if flow.job.is_store:
            while buffer.whole < len(buffer.there) and _earned(flow) >= _end(flow, buffer.whole):
                for request in self.queue[True]:
                    if request.flow is flow and request.index == buffer.whole:
                        request.whole = True
                buffer.whole += 1
            return
        while (
            buffer.free < len(buffer.there)
            and 0 <= buffer.there[buffer.free] <= cycle
            and _earned(flow) >= _end(flow, buffer.free)
        ):
            buffer.free += 1

    # C3, C4

    def _able(self, flow: Flow) -> bool:
        buffer = self.buffers[flow]
        if len(buffer.there) == len(flow.bursts):
            return False
        if flow.job.is_store:
            return len(buffer.there) - buffer.whole < 2
        return len(buffer.there) - buffer.free < max(2, self.t["read_buffer_bytes"] // self.t["burst_bytes"])

    def _fill(self, clock: int, entered: list[Flow]) -> None:
        for write, room in ((False, self.t["read_queue"]), (True, self.t["write_queue"])):
            while len(self.queue[write]) < room:
                able = sorted((flow for flow in entered if flow.job.is_store == write and self._able(flow)), key=_order)
                if not able:
                    break
                last, left = self.turn[write]
                if last not in able or left == 0:
                    behind = [flow for flow in able if last is None or _order(flow) > _order(last)]
                    last = (behind or able)[0]
                    left = last.job.weight
                assert last is not None
                self.turn[write] = last, left - 1
                self._append(clock, last, write)

    def _append(self, clock: int, flow: Flow, write: bool) -> None:
        buffer = self.buffers[flow]
        index = len(buffer.there)
        number = flow.bursts[index].number
        buffer.there.append(-1)
        bank, row = self.place(number)
        self.queue[write].append(Request(flow, index, bank, row, number, clock, write, not write))

    def place(self, number: int) -> tuple[Bank, int]:
        """Bank and row of a burst."""
        t = self.t
        size = {
            "row": t["rows"],
            "pseudo": t["pseudo_channels"],
            "rank": t["ranks"],
            "stack": t["stacks"],
            "group": t["bank_groups"],
            "bank": t["banks_per_group"],
            "column": t["row_bytes"] // t["burst_bytes"],
        }
        value = dict.fromkeys(size, 0)
        part = next((name for name in t["map"].split() if name.startswith("column") and name != "column"), None)
        values = dict(size)  # of each name of the map
        if part is not None:
            values[part] = int(part.removeprefix("column"))
            values["column"] //= values[part]
        lower = 1  # values of the column number that the fields so far tell apart
        for name in reversed(t["map"].split()):
            field = "column" if name == part else name
            value[field] += (lower if field == "column" else 1) * (number % values[name])
            number //= values[name]
            lower *= values[name] if field == "column" else 1
        value["row"] = (value["row"] + number * t["rows"]) % t["rows"]
        used = dict.fromkeys(size, 0)
        for pair in t["hash"]:
            left, right = pair.split("^")
            bits = size[left].bit_length() - 1
            value[left] ^= (value[right] >> used[right]) % 2**bits
            used[right] += bits
        return (value["pseudo"], value["rank"], value["stack"], value["group"], value["bank"]), value["row"]

    # C5

    def _clock(self, clock: int) -> None:
        for request in self.queue[True]:
            request.whole |= request.flow.left == 0
        if self.cas is not None:
            request, self.cas = self.cas, None
            self._read_or_write(clock, request)
            return
        waits = self._waiting_refresh(clock)
        if self.opening and self._act2(clock, clock):
            return
        if self.t["command_buses"] == 2:
            column = self._serve(clock, ("RD", "WR"), waits)
            row = self._serve(clock, ("ACT", "PRE"), waits)
        else:
            column = False
            row = self._serve(clock, ("RD", "WR", "ACT", "PRE"), waits)
        if self.t["page"] != "open" and not row and waits is None:
            row = self._close(clock)
        if self.opening and not row:
            self._act2(clock, 1 << 60)
        del column

    def _serve(self, clock: int, bus: tuple[str, ...], waits: tuple[str, Any] | None) -> bool:
        if "RD" in bus:
            ready = [r for r in self.active if r.bank not in self.opening and self._allowed(clock, _column(r), r.bank)]
            if ready:
                self._column_or_cas(clock, min(ready, key=lambda request: request.came))
                return True
        if waits is not None and "ACT" in bus and self._refresh(clock, waits):
            return True
        if waits is not None and waits[0] == "rank":
            return False
        whole = [request for request in self.queue[True] if request.whole]
        if self.writes:
            self.writes = len(whole) > self.t["write_low"] or not self.queue[False]
        else:
            self.writes = len(whole) >= self.t["write_high"] or not self.queue[False]
        served = whole if self.writes else self.queue[False]
        blocked = waits[1] if waits is not None else None
        able = []
        for request in served:
            command = self._next(request)
            if request.bank in self.opening or request.bank == blocked or (command == "ACT" and self.opening):
                continue
            if command == "PRE" and any(other.bank == request.bank for other in [*self.active, self.cas] if other is not None):
                continue
            if command in bus and self._may_be_given(request, command, served) and self._allowed(clock, command, request.bank):
                able.append((request, command))
        if not able:
            return False
        if self.t["scheduler"] in ("fr_fcfs", "fr_fcfs_cap"):
            able = [one for one in able if one[1] in COLUMN] or able
        request, command = able[0]
        if command not in COLUMN:
            self._count_first(request, command)
        if command in COLUMN:
            self._column_or_cas(clock, request, served)
        elif command == "PRE":
            self._issue(clock, "PRE", request.bank)
            del self.open[request.bank]
        else:
            self._issue(clock, "ACT", request.bank)
            self.queue[request.write].remove(request)
            self.active.append(request)
            self.passed[request.bank] = 0
            self.count["activations"] += 1
            if self.t["t_aad"]:
                self.opening[request.bank] = clock + self.t["t_aad"]
            else:
                self.open[request.bank] = request.row
        return True

    def _next(self, request: Request) -> str:
        row = self.open.get(request.bank)
        return "ACT" if row is None else _column(request) if row == request.row else "PRE"

    def _may_be_given(self, request: Request, command: str, served: list[Request]) -> bool:
        scheduler, of_bank = self.t["scheduler"], [other for other in served if other.bank == request.bank]
        hits = [other for other in of_bank if self.open.get(other.bank) == other.row]
        if scheduler == "oldest_ready":
            return True
        if scheduler == "oldest_ready_hits":
            return command != "PRE" or not any(other.came <= request.came for other in hits)
        if scheduler == "fcfs":
            return request is served[0] and not (command in COLUMN and self.active)
        full = scheduler == "fr_fcfs_cap" and self.passed.get(request.bank, 0) >= self.t["cap"] and of_bank[0] not in hits
        if command == "PRE":
            return full or not hits
        return not (full and command in COLUMN)

    def _count_first(self, request: Request, command: str) -> None:
        if not request.seen:
            request.seen = True
            self.count[{"ACT": "row_misses", "PRE": "row_conflicts"}.get(command, "row_hits")] += 1

    def _column_or_cas(self, clock: int, request: Request, served: list[Request] | None = None) -> None:
        if not self.t["t_wckpst"] or clock < self.data_clock:
            if served is not None:
                self._pass(request, served)
            self._read_or_write(clock, request)
        elif not (self.opening and self._act2(clock, clock + 1)):
            self._issue(clock, "CAS", request.bank)
            self.cas = request
            if served is not None:
                self._pass(request, served)

    def _pass(self, request: Request, served: list[Request]) -> None:
        if next(other for other in served if other.bank == request.bank).row != request.row:
            self.passed[request.bank] += 1

    def _read_or_write(self, clock: int, request: Request) -> None:
        self._issue(clock, _column(request), request.bank)
        first = clock + self.t["t_cwl" if request.write else "t_cl"]
        self.data_clock = max(self.data_clock, first + self.t["t_bl"] + self.t["t_wckpst"])
        self.used[request.bank] = clock
        self.count["bursts"] += 1
        self._count_first(request, "RD")
        if request in self.active:
            self.active.remove(request)
        else:
            self.queue[request.write].remove(request)
        if not request.write:
            drained = first + self.t["t_bl"] - ceil(Fraction(self.t["t_bl"], self.t["pseudo_channels"]))
            self.buffers[request.flow].there[request.index] = ceil(drained * self.ratio)

    def _act2(self, clock: int, by: int) -> bool:
        due = [
            (last, k)
            for k, request in enumerate(self.active)
            for last in [self.opening.get(request.bank, 1 << 61)]
            if last <= by
        ]
        if not due or not self._allowed(clock, "ACT2", self.active[min(due)[1]].bank):
            return False
        request = self.active[min(due)[1]]
        self._issue(clock, "ACT2", request.bank)
        del self.opening[request.bank]
        self.open[request.bank] = request.row
        return True

    def _close(self, clock: int) -> bool:
        requests = [*self.queue[False], *self.queue[True]]
        for bank in self.banks:
            if bank not in self.open or any(other.bank == bank for other in self.active):
                continue
            if any(other.bank == bank and other.row == self.open[bank] for other in requests):
                continue
            idle = self.t["page"] == "closed" or clock >= self.used.get(bank, 0) + self.t["idle_clocks"]
            if idle and self._allowed(clock, "PRE", bank):
                self._issue(clock, "PRE", bank)
                del self.open[bank]
                return True
        return False

    # C7

    def _waiting_refresh(self, clock: int) -> tuple[str, Any] | None:
        t, requests = self.t, [*self.active, *self.queue[False], *self.queue[True]]
        if t["refresh"] == "all_bank" and t["t_refi"]:
            ranks = t["pseudo_channels"] * t["ranks"]
            due = clock // t["t_refi"] * ranks - self.refreshes
            if due > t["postpone"] * ranks or (due > 0 and not requests):
                return "rank", None
        if t["refresh"] == "per_bank":
            due = clock // t["t_refi_pb"] - self.refreshes
            bank = self.banks[self.refreshes % len(self.banks)]
            if due > t["postpone"] or (due > 0 and not any(request.bank == bank for request in requests)):
                return "bank", bank
        return None

    def _refresh(self, clock: int, waits: tuple[str, Any]) -> bool:
        if waits[0] == "rank":
            rank = divmod(self.refreshes % (self.t["pseudo_channels"] * self.t["ranks"]), self.t["ranks"])
            banks = [bank for bank in self.banks if bank[:2] == rank]
        else:
            banks = [waits[1]]
        if any(request.bank in banks for request in self.active):
            return False
        closed = not any(bank in self.open for bank in banks)
        command = ("REF" if closed else "PREA") if waits[0] == "rank" else ("REFB" if closed else "PRE")
        if not self._allowed(clock, command, banks[0]):
            return False
        self._issue(clock, command, banks[0])
        for bank in banks:
            self.open.pop(bank, None)
        if closed:
            self.refreshes += 1
            self.count["refreshes"] += 1
        return True

    # C6

    def _held(self, command: str) -> int:
        key = {"ACT": "act", "PRE": "pre", "PREA": "pre", "RD": "column", "WR": "column", "REF": "refresh", "REFB": "refresh"}
        return int(self.t[key[command] + "_clocks"]) if command in key else 1

    def _issue(self, clock: int, command: str, bank: Bank) -> None:
        longest = 4 * max(
            value for name, value in self.t.items() if name.startswith("t_") and name not in ("t_refi", "t_refi_pb")
        )
        self.commands = [*(one for one in self.commands if one[0] >= clock - longest - 16), (clock, command, bank)]

    def _bus(self, command: str) -> bool:
        return self.t["command_buses"] == 1 or command in COLUMN

    def _allowed(self, clock: int, command: str, bank: Bank) -> bool:
        for then, given, _ in self.commands:
            if self._bus(given) == self._bus(command) and clock < then + self.held(given):
                return False
        if self.t["phases"] == 2 and clock % 2 and not self._may_be_odd(clock, command, bank):
            return False
        if command in ("ACT2", "CAS"):
            return True
        if command == "ACT":
            opened = [then for then, given, other in self.commands if given == "ACT" and other[:2] == bank[:2]]
            if len(opened) >= 4 and clock < opened[-4] + self.t["t_faw"]:
                return False
        return all(clock >= then + self.distance(given, command, other, bank) for then, given, other in self.commands)

    def _may_be_odd(self, clock: int, command: str, bank: Bank) -> bool:
        if command not in ("PRE", "PREA"):
            return False
        rows = [(then, given, other) for then, given, other in self.commands if given not in COLUMN and then % 2 == 0]
        if not rows:
            return True
        then, given, other = rows[-1]
        if clock != then + self.held(given) or other[0] != bank[0]:
            return True
        return not (command == "PREA" or given in ALL or other == bank)

    def _distance(self, given: str, command: str, other: Bank, bank: Bank) -> int:
        """From `given` to the bank `other` to `command` to `bank`, in clocks, at least."""
        t = self.t
        written = t["t_cwl"] + t["t_bl"]
        scopes: dict[str, dict[tuple[str, str], int]] = {
            "bank": {
                ("ACT", "RD"): t["t_rcd"],
                ("ACT", "WR"): t["t_rcd_wr"],
                ("ACT", "PRE"): t["t_ras"],
                ("ACT", "ACT"): t["t_rc"],
                ("PRE", "ACT"): t["t_rp"],
                ("RD", "PRE"): t["t_rtp"],
                ("WR", "PRE"): written + t["t_wr"],
                ("ACT", "REFB"): t["t_rc"],
                ("PRE", "REFB"): t["t_rp"],
                ("REFB", "ACT"): t["t_rfc_pb"],
                ("REFB", "REFB"): t["t_rfc_pb"],
            },
            "group": {
                ("RD", "RD"): t["t_ccd_l"],
                ("WR", "WR"): t["t_ccd_l_wr"],
                ("WR", "RD"): written + t["t_wtr_l"],
                ("ACT", "ACT"): t["t_rrd_l"],
            },
            "stack": {("RD", "RD"): t["t_ccd_s"], ("WR", "WR"): t["t_ccd_s_wr"]},
            "rank": {
                ("RD", "WR"): t["t_rtw"],
                ("WR", "RD"): written + t["t_wtr_s"],
                ("ACT", "ACT"): t["t_rrd_s"],
                ("PRE", "PRE"): t["t_ppd"],
                ("PRE", "PREA"): t["t_ppd"],
                ("PREA", "PRE"): t["t_ppd"],
                ("PREA", "ACT"): t["t_rp_ab"],
                ("ACT", "PREA"): t["t_ras"],
                ("RD", "PREA"): t["t_rtp"],
                ("WR", "PREA"): written + t["t_wr"],
                ("ACT", "REF"): t["t_rc"],
                ("PRE", "REF"): t["t_rp"],
                ("PREA", "REF"): t["t_rp"],
                ("REF", "ACT"): t["t_rfc"],
                ("REF", "REF"): t["t_rfc"],
                ("REF", "PREA"): t["t_rfc"],
                ("ACT", "REFB"): t["t_rrd_s"],
                ("REFB", "ACT"): t["t_rrefd"],
                ("REFB", "REFB"): t["t_rrefd"],
            },
            "pseudo": {("RD", "RD"): t["t_bl"], ("WR", "WR"): t["t_bl"]},
        }
        pair, whole_rank = (given, command), given in ALL or command in ALL
        nominal = [0]
        for scope, depth in SCOPE.items():
            if other[:depth] == bank[:depth] and not (whole_rank and depth > 2):
                nominal.append(scopes[scope].get(pair, 0))
        if other[:2] == bank[:2] and other[2] != bank[2]:
            nominal.append({("RD", "RD"): t["t_ccd_r"]}.get(pair, 0))
        if other[0] == bank[0] and other[1] != bank[1]:
            turn = {
                ("RD", "RD"): t["t_bl"] + t["t_rtrs"],
                ("RD", "WR"): t["t_bl"] + t["t_rtrs"],
                ("WR", "RD"): written + t["t_rtrs"] - t["t_cl"],
            }
            nominal.append(turn.get(pair, 0))
        return max(0, *(n + self.held(given) - self.held(command) for n in nominal if n > 0), 0)


def _column(request: Request) -> str:
    return "WR" if request.write else "RD"


def _earned(flow: Flow) -> Fraction:
    requested = flow.total - flow.left + (flow.request_bytes if flow.request is not None else 0)
    return requested + Fraction(flow.carry, flow.den)


def _end(flow: Flow, index: int) -> int:
    return sum(piece.nbytes for piece in flow.bursts[: index + 1])


def _order(flow: Flow) -> tuple[int, int, int]:
    return flow.job.start, flow.job.engine, flow.job.seq
