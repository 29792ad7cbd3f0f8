"""The controller of a DRAM channel and its device, for `allocation: row_buffer_v2` (docs/model/dram_controller.md).

Times are DRAM clocks. A time that a file does not give is computed from others, if it has a default.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from fractions import Fraction
from typing import TYPE_CHECKING, Annotated, Any

from kernbench.common.units import plain_number
from kernbench.config.fields import Rate, Size, integer, one_of
from kernbench.config.rules import BrokenRule, Path
from kernbench.config.section import Field, Section

if TYPE_CHECKING:
    from kernbench.config.schema import Dram

#: Rules of a controller; the positions are the numbers in the core (kernbench_core/model/controller): append.
SCHEDULERS = ("fr_fcfs_cap", "fr_fcfs", "fcfs", "oldest_ready", "oldest_ready_hits")
PAGES = ("open", "closed", "adaptive")
REFRESHES = ("all_bank", "per_bank", "none")
FIELDS = ("row", "pseudo", "rank", "stack", "group", "bank", "column")  #: fields of a map
DEFAULT_MAP = "row bank stack rank column group pseudo"

Clocks = Annotated[int | None, integer(1, 1 << 20)]
ClocksOrNone = Annotated[int | None, integer(0, 1 << 30)]
Count = Annotated[int | None, integer(1, 1025)]
Bursts = Annotated[int, integer(1, 4097)]


def _clocks(text: str) -> Any:
    return Field(default=None, description=f"[DRAM clock] {text}")


class DramController(Section):
    """Queues, rules and device of a channel's controller (docs/model/dram_controller.md)."""

    clock: Rate | None = Field(default=None, description="[cycle] core cycles of a DRAM clock (default 1)")
    pseudo_channels: Count = Field(default=None, description="pseudo-channels of a channel (default 1)")
    ranks: Count = Field(default=None, description="ranks of a pseudo-channel (default 1)")
    stacks: Count = Field(default=None, description="stack ids of a rank (default 1)")
    bank_groups: Count = Field(default=None, description="bank groups of a stack")
    banks_per_group: Count = Field(default=None, description="banks of a group")
    row_bytes: Size | None = Field(default=None, description="[byte] size of a row of one bank on one pseudo-channel")
    burst_bytes: Size | None = Field(default=None, description="[byte] size of a burst")
    rows: Annotated[int | None, integer(1, 1 << 31)] = Field(default=None, description="rows of a bank (default 65536)")
    t_bl: Clocks = _clocks("time for which a burst is on the data bus")
    t_cl: Clocks = _clocks("time from RD to its first data")
    t_cwl: Clocks = _clocks("time from WR to its first data")
    t_rcd: Clocks = _clocks("time from ACT to RD")
    t_rcd_wr: Clocks = _clocks("time from ACT to WR (default t_rcd)")
    t_rp: Clocks = _clocks("time from PRE to ACT")
    t_rp_ab: Clocks = _clocks("time from PRE of all banks to ACT (default t_rp)")
    t_ras: Clocks = _clocks("time from ACT to PRE")
    t_rc: Clocks = _clocks("time from ACT to ACT of a bank (default t_ras + t_rp)")
    t_rtp: Clocks = _clocks("time from RD to PRE")
    t_wr: Clocks = _clocks("time from the end of the written data to PRE")
    t_ccd_s: Clocks = _clocks("time from RD to RD of different groups")
    t_ccd_l: Clocks = _clocks("time from RD to RD of one group")
    t_ccd_s_wr: Clocks = _clocks("time from WR to WR of different groups (default t_ccd_s)")
    t_ccd_l_wr: Clocks = _clocks("time from WR to WR of one group (default t_ccd_l)")
    t_ccd_r: Clocks = _clocks("time from RD to RD of different stacks (default t_ccd_s)")
    t_rrd_s: Clocks = _clocks("time from ACT to ACT of different groups")
    t_rrd_l: Clocks = _clocks("time from ACT to ACT of one group")
    t_faw: Clocks = _clocks("time from an ACT to the fourth ACT after it")
    t_rtw: Clocks = _clocks("time from RD to WR (default t_cl + t_bl + 2 - t_cwl)")
    t_wtr_s: Clocks = _clocks("time from the end of the written data to RD of another group")
    t_wtr_l: Clocks = _clocks("time from the end of the written data to RD of the same group")
    t_rtrs: ClocksOrNone = _clocks("time between bursts of different ranks on the data bus (default 2)")
    t_ppd: Clocks = _clocks("time from PRE to PRE (default 1)")
    t_refi: ClocksOrNone = _clocks("time between refreshes of all banks; 0 means no such refresh")
    t_rfc: Clocks = _clocks("duration of a refresh of all banks")
    t_refi_pb: ClocksOrNone = _clocks("time between refreshes of one bank (default 0: no such refresh)")
    t_rfc_pb: ClocksOrNone = _clocks("duration of a refresh of one bank (default 0)")
    t_rrefd: Clocks = _clocks("time from the refresh of a bank to the refresh or ACT of another bank (default t_rrd_s)")
    act_clocks: Clocks = _clocks("time for which ACT holds its bus (default 1)")
    pre_clocks: Clocks = _clocks("time for which PRE holds its bus (default 1)")
    column_clocks: Clocks = _clocks("time for which RD and WR hold their bus (default 1)")
    refresh_clocks: Clocks = _clocks("time for which REF holds its bus (default 1)")
    command_buses: Annotated[int | None, integer(1, 3)] = Field(
        default=None, description="number of command buses; with 2, one for rows and one for columns (default 1)"
    )
    phases: Annotated[int | None, integer(1, 3)] = Field(
        default=None, description="DRAM clocks in a clock of the device (default 1)"
    )
    t_aad: ClocksOrNone = _clocks("longest time from the first to the second part of an activation (default 0: one part)")
    t_wckpst: ClocksOrNone = _clocks("time for which the data clock runs after the last data (default 0: it never stops)")
    scheduler: Annotated[str, one_of(SCHEDULERS)] = Field(default=SCHEDULERS[0], description="which command is issued next")
    cap: Bursts = Field(default=16, description="[burst] bursts that may pass the oldest burst of a bank, with fr_fcfs_cap")
    page: Annotated[str, one_of(PAGES)] = Field(default=PAGES[0], description="when an open row without queued bursts closes")
    idle_clocks: Annotated[int, integer(1, 1 << 20)] = Field(
        default=64, description="[DRAM clock] time after which the policy adaptive closes a row"
    )
    map: str = Field(default=DEFAULT_MAP, description="fields of the burst number, the highest field first")
    hash: tuple[str, ...] = Field(default=(), description="pairs `field^field` of the map, in order")
    refresh: Annotated[str, one_of(REFRESHES)] = Field(
        default=REFRESHES[0], description="kind of refresh: of all banks of a rank, of one bank, or none"
    )
    postpone: Annotated[int, integer(0, 9)] = Field(
        default=0, description="refreshes that may be postponed while there are requests"
    )
    read_queue: Bursts = Field(default=32, description="[burst] reads that can wait for their command")
    write_queue: Bursts = Field(default=32, description="[burst] writes that can wait for their command")
    write_high: Annotated[int | None, integer(1, 4097)] = Field(
        default=None,
        description="[burst] number of waiting writes at which the controller starts to serve writes (default 0.8 write_queue)",
    )
    write_low: Annotated[int | None, integer(0, 4097)] = Field(
        default=None,
        description="[burst] number of waiting writes at which the controller stops serving writes (default 0.2 write_queue)",
    )
    read_buffer_bytes: Size | None = Field(
        default=None, description="[byte] read buffer of each flow (default: two read queues)"
    )

    def values(self) -> dict[str, Any]:
        """Every key with its value. KeyError names a missing key without a default."""
        return complete({name: value for name, value in self if value is not None})

    @property
    def peak(self) -> Fraction:
        """[byte/cycle] of the data buses of a channel."""
        values = self.values()
        burst: Fraction = Fraction(values["pseudo_channels"] * values["burst_bytes"])
        return burst / Fraction(values["t_bl"] * values["clock"])


#: Times and counts that are computed from others if they are not given.
DERIVED: Mapping[str, Any] = {
    "pseudo_channels": 1,
    "ranks": 1,
    "stacks": 1,
    "rows": 65536,
    "t_rcd_wr": "t_rcd",
    "t_rp_ab": "t_rp",
    "t_ccd_s_wr": "t_ccd_s",
    "t_ccd_l_wr": "t_ccd_l",
    "t_ccd_r": "t_ccd_s",
    "t_rtrs": 2,
    "t_ppd": 1,
    "t_refi_pb": 0,
    "t_rfc_pb": 0,
    "t_rrefd": "t_rrd_s",
    "act_clocks": 1,
    "pre_clocks": 1,
    "column_clocks": 1,
    "refresh_clocks": 1,
    "command_buses": 1,
    "phases": 1,
    "t_aad": 0,
    "t_wckpst": 0,
}


def complete(values: Mapping[str, Any]) -> dict[str, Any]:
    """`values`, completed with defaults. KeyError names a missing key without a default."""
    values = {name: field.default for name, field in DramController.model_fields.items() if field.default is not None} | dict(
        values
    )
    for name in REQUIRED:
        if name not in values:
            raise KeyError(name)
    for name, value in DERIVED.items():
        values.setdefault(name, values[value] if isinstance(value, str) else value)
    values.setdefault("clock", Fraction(1))
    values.setdefault("t_rc", values["t_ras"] + values["t_rp"])
    values.setdefault("t_rtw", max(1, values["t_cl"] + values["t_bl"] + 2 - values["t_cwl"]))
    values.setdefault("write_high", max(1, -(-values["write_queue"] * 4 // 5)))
    values.setdefault("write_low", values["write_queue"] // 5)
    values.setdefault("read_buffer_bytes", 2 * values["read_queue"] * values["burst_bytes"])
    return values


def field_sizes(values: Mapping[str, Any]) -> dict[str, int]:
    """The number of values of each field of a map."""
    return {
        "row": values["rows"],
        "pseudo": values["pseudo_channels"],
        "rank": values["ranks"],
        "stack": values["stacks"],
        "group": values["bank_groups"],
        "bank": values["banks_per_group"],
        "column": values["row_bytes"] // values["burst_bytes"],
    }


def map_fields(values: Mapping[str, Any]) -> list[tuple[str, int, int]]:
    """`map` as (field, size, place), from the lowest field up; a value is multiplied by `place`. ValueError names the
    reason."""
    sizes, names = field_sizes(values), values["map"].split()
    part, low = _column_part(names, sizes["column"])
    out: list[tuple[str, int, int]] = []
    for name in reversed(names):
        field = "column" if name == part else name
        if field not in sizes:
            raise ValueError(f"{name} is not a field; the fields are {', '.join(FIELDS)}")
        if names.count(name) > 1:
            raise ValueError(f"{name} stands there twice")
        size, place = sizes[field], 1
        if field == "column" and part:
            size = low if name == part else size // low
            place = next((lower for other, lower, _ in out if other == "column"), 1)
        out.append((field, size, place))
    if part and "column" not in names and low != sizes["column"]:
        raise ValueError(f"{part} has no column beside it for the other {sizes['column'] // low} parts of a row")
    seen = {field for field, _, _ in out}
    missing = [name for name in FIELDS if name not in seen and sizes[name] > 1 and name != "row"]
    if missing:
        raise ValueError(f"{missing[0]} is missing: the device has {sizes[missing[0]]}")
    return out


def _column_part(names: Sequence[str], columns: int) -> tuple[str, int]:
    """The field `columnN` of a map and its number of values; an empty name and 1 if the column is not split."""
    parts = [name for name in names if name.startswith("column") and name != "column"]
    for name in parts:
        values = name.removeprefix("column")
        if not values.isdecimal() or int(values) < 1 or columns % int(values):
            raise ValueError(f"{name}: a row has {columns} bursts, and columnN must divide them into N equal parts")
    if len(set(parts)) > 1:
        raise ValueError(f"{parts[1]} stands beside {parts[0]}, but a column is split only once: list column and one columnN")
    return (parts[0], int(parts[0].removeprefix("column"))) if parts else ("", 1)


def map_pairs(values: Mapping[str, Any]) -> list[tuple[str, str, int, int]]:
    """`hash` as (left field, right field, shift, mask). ValueError names the reason."""
    sizes, used, out = field_sizes(values), dict.fromkeys(FIELDS, 0), []
    for pair in values["hash"]:
        left, _, right = pair.partition("^")
        for name in (left, right):
            if name not in sizes:
                raise ValueError(f"{pair}: {name or 'nothing'} is not a field; the fields are {', '.join(FIELDS)}")
            if sizes[name] & (sizes[name] - 1):
                raise ValueError(f"{pair}: {name} has {sizes[name]} values, which is not a power of two")
        bits = sizes[left].bit_length() - 1
        out.append((left, right, used[right], (1 << bits) - 1))
        used[right] += bits
    return out


#: Keys that a file must give.
REQUIRED = (
    "bank_groups",
    "banks_per_group",
    "row_bytes",
    "burst_bytes",
    "t_bl",
    "t_cl",
    "t_cwl",
    "t_rcd",
    "t_rp",
    "t_ras",
    "t_rtp",
    "t_wr",
    "t_ccd_s",
    "t_ccd_l",
    "t_rrd_s",
    "t_rrd_l",
    "t_faw",
    "t_wtr_s",
    "t_wtr_l",
    "t_refi",
    "t_rfc",
)
CLOCK_LIMIT = 1 << 20  #: limit of the terms of `clock`
BANK_LIMIT = 4096  #: limit of the banks of a channel


def controller_rules(allocation: str, dram: Dram, channels: int, at: Path) -> Iterator[BrokenRule]:
    """The rules between `allocation`, the DRAM at a path and its `controller`; `channels`: the number of channels that share
    addresses."""
    controller = dram.controller
    for key in ("device", "policy"):
        if getattr(dram, key) is not None and allocation != "row_buffer_v2":
            rule = f"it is allowed only with allocation row_buffer_v2, and that is {allocation}"
            yield BrokenRule((*at, key), getattr(dram, key), rule)
    if controller is None:
        if allocation == "row_buffer_v2":
            of = ".".join(map(str, at))
            rule = f"it needs {of}.device, or {of}.controller: the controller of a channel, with its device"
            yield BrokenRule(("allocation",), allocation, rule)
        return
    if allocation != "row_buffer_v2":
        rule = f"it is allowed only with allocation row_buffer_v2, and that is {allocation}"
        yield BrokenRule((*at, "controller"), None, rule)
        return
    try:
        values = controller.values()
    except KeyError as missing:
        rule = f"{missing.args[0]} is missing: it has no default; name a device ({'.'.join(map(str, at))}.device) or give it"
        yield BrokenRule((*at, "controller"), None, rule)
        return
    interleave, burst = dram.interleave_bytes, values["burst_bytes"]
    if channels > 1 and interleave % burst:
        rule = f"it must be a multiple of burst_bytes ({burst}): a burst is contiguous"
        yield BrokenRule((*at, "interleave_bytes"), interleave, rule)
    for key, value, rule in _broken_values(values):
        yield BrokenRule((*at, "controller", key), value, rule)


def _broken_values(values: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    burst = values["burst_bytes"]
    for key, check in (("map", map_fields), ("hash", map_pairs)):
        try:
            check(values)
        except ValueError as error:
            yield key, values[key] if key == "map" else list(values[key]), str(error)
    yield from _broken_sizes(values, burst)
    yield from _broken_times(values)


def _broken_sizes(values: Mapping[str, Any], burst: int) -> Iterator[tuple[str, Any, str]]:
    """Rows, buffers, queues and banks."""
    if values["row_bytes"] % burst:
        yield "row_bytes", values["row_bytes"], f"it must be a multiple of burst_bytes ({burst})"
    if values["read_buffer_bytes"] < 2 * burst:
        yield "read_buffer_bytes", values["read_buffer_bytes"], f"it must hold two bursts at least ({2 * burst})"
    if values["read_buffer_bytes"] > 8192 * burst:
        yield "read_buffer_bytes", values["read_buffer_bytes"], f"it must hold 8192 bursts at most ({8192 * burst})"
    if values["write_high"] > values["write_queue"]:
        yield "write_high", values["write_high"], f"it must be at most write_queue ({values['write_queue']})"
    if values["write_low"] >= values["write_high"]:
        yield "write_low", values["write_low"], f"it must be below write_high ({values['write_high']})"
    banks = 1
    for key in ("pseudo_channels", "ranks", "stacks", "bank_groups", "banks_per_group"):
        banks *= values[key]
    if banks > BANK_LIMIT:
        yield "banks_per_group", values["banks_per_group"], f"a channel has {banks} banks, and {BANK_LIMIT} is the limit"


def _broken_times(values: Mapping[str, Any]) -> Iterator[tuple[str, Any, str]]:
    """The clock, its phases, and the times of refreshes."""
    clock = Fraction(values["clock"])
    if max(clock.numerator, clock.denominator) >= CLOCK_LIMIT:
        yield "clock", plain_number(clock), f"its terms must stay below {CLOCK_LIMIT}: {clock}"
    if values["phases"] == 2 and (values["t_aad"] or values["t_wckpst"]):
        yield "phases", 2, "it goes with neither t_aad nor t_wckpst: no device has half clocks and these"
    if values["refresh"] == "per_bank" and not values["t_refi_pb"] * values["t_rfc_pb"]:
        yield "refresh", "per_bank", "it needs t_refi_pb and t_rfc_pb"
    closing = (
        max(values["t_ras"], values["t_rtp"], values["t_cwl"] + values["t_bl"] + values["t_wr"])
        + values["t_rp"]
        + values["t_rfc"]
    )
    if values["refresh"] == "all_bank" and 0 < values["t_refi"] <= closing:
        yield (
            "t_refi",
            values["t_refi"],
            f"it must be above {closing}: a refresh ends before the next is due (closing rows, t_rp and t_rfc)",
        )
