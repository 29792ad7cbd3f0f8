"""The banks of a DRAM channel, for `allocation: row_buffer_v1`: their shape, their timing parameters, and the sizes of the
controller.

Times are DRAM clocks, each `dram.period` cycles of the core. None of them has a default, because they depend on the device: a
file must give all of them or none.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, ClassVar

from kernbench.common.units import plain_number
from kernbench.config.fields import TERM_LIMIT, Size, integer, one_of
from kernbench.config.rules import BrokenRule, Path
from kernbench.config.section import Field, Section

if TYPE_CHECKING:
    from kernbench.config.schema import Dram

Clocks = Annotated[int, integer(1, 1 << 20)]
Bursts = Annotated[int, integer(1, 4097)]
Banks = Annotated[int, integer(1, 1025)]
#: Rules of a controller; the positions are the core's SchedulerRule, PageRule and AddressMapRule: append.
SCHEDULERS = ("fr_fcfs_cap", "fr_fcfs", "fcfs")
PAGE_POLICIES = ("open", "closed")
ADDRESS_MAPS = ("row_bank_column_group", "row_column_bank_group")


class RowBuffer(Section):
    """Banks with one open row each, and refresh (docs/model/dram_rows.md)."""

    younger: ClassVar[frozenset[str]] = frozenset({"scheduler", "page", "map"})

    bank_groups: Banks = Field(description="bank groups of a channel")
    banks_per_group: Banks = Field(description="banks of a group")
    row_bytes: Size = Field(description="[byte] size of a row of one bank on one channel, a multiple of bus_width_bytes")
    t_rcd: Clocks = Field(description="[DRAM clock] time from ACT to RD")
    t_rcd_wr: Clocks = Field(description="[DRAM clock] time from ACT to WR")
    t_cl: Clocks = Field(description="[DRAM clock] time from RD to its first byte")
    t_cwl: Clocks = Field(description="[DRAM clock] time from WR to its first byte")
    t_rp: Clocks = Field(description="[DRAM clock] time from PRE to ACT, and from PRE to REF")
    t_ras: Clocks = Field(description="[DRAM clock] time from ACT to PRE")
    t_rtp: Clocks = Field(description="[DRAM clock] time from RD to PRE")
    t_wr: Clocks = Field(description="[DRAM clock] time from the last written byte to PRE")
    t_ccd_s: Clocks = Field(description="[DRAM clock] time from RD to RD, or from WR to WR, of different groups")
    t_ccd_l: Clocks = Field(description="[DRAM clock] time from RD to RD, or from WR to WR, of one group")
    t_rrd_s: Clocks = Field(description="[DRAM clock] time from ACT to ACT of different groups")
    t_rrd_l: Clocks = Field(description="[DRAM clock] time from ACT to ACT of one group")
    t_faw: Clocks = Field(description="[DRAM clock] time from an ACT to the fourth ACT after it")
    t_wtr_s: Clocks = Field(description="[DRAM clock] time from the last written byte to RD of another group")
    t_wtr_l: Clocks = Field(description="[DRAM clock] time from the last written byte to RD of the same group")
    t_refi: Annotated[int, integer(0, 1 << 30)] = Field(
        description="[DRAM clock] time from one refresh to the next; 0 means no refresh"
    )
    t_rfc: Clocks = Field(description="[DRAM clock] duration of a refresh of all banks")
    queue_bursts: Bursts = Field(default=32, description="[burst] bursts that can wait for their command in a controller")
    buffer_bursts: Bursts = Field(
        default=16, description="[burst] bursts of a channel that can be between their command and their last byte"
    )
    batch_bursts: Bursts = Field(
        default=16, description="[burst] bursts that may pass an older burst of another row or direction"
    )
    scheduler: Annotated[str, one_of(SCHEDULERS)] = Field(
        default=SCHEDULERS[0],
        description="the next burst: one of an open row if any, otherwise the oldest; or always the oldest",
    )
    page: Annotated[str, one_of(PAGE_POLICIES)] = Field(
        default=PAGE_POLICIES[0], description="what happens to an open row that no queued burst needs"
    )
    map: Annotated[str, one_of(ADDRESS_MAPS)] = Field(
        default=ADDRESS_MAPS[0], description="fields of the address, the last one varies fastest"
    )

    @property
    def banks(self) -> int:
        """Banks of a channel."""
        return self.bank_groups * self.banks_per_group


def device_rules(allocation: str, dram: Dram, at: Path) -> Iterator[BrokenRule]:
    """The rules between `allocation`, the DRAM at a path and its `row_buffer`."""
    device = dram.row_buffer
    if device is None:
        if allocation == "row_buffer_v1":
            rule = f"it needs {'.'.join(map(str, at))}.row_buffer: the banks of a channel and their times"
            yield BrokenRule(("allocation",), allocation, rule)
        return
    if allocation != "row_buffer_v1":
        rule = f"it is allowed only with allocation row_buffer_v1, and that is {allocation}"
        yield BrokenRule((*at, "row_buffer"), None, rule)
        return
    bus, burst = dram.bus_width_bytes, dram.dram_burst_cycles
    whole = f"it must be a multiple of bus_width_bytes ({bus}): a burst is contiguous"
    if dram.interleave_bytes % bus:
        yield BrokenRule((*at, "interleave_bytes"), dram.interleave_bytes, whole)
    if dram.peak_bw_bytes_per_cycle * burst < bus:
        least = f"it must be at least bus_width_bytes / dram_burst_cycles ({bus}/{burst})"
        rule = f"under row_buffer_v1 the data bus is the peak: {least}"
        yield BrokenRule((*at, "peak_bw_bytes_per_cycle"), plain_number(dram.peak_bw_bytes_per_cycle), rule)
    if burst * dram.period >= TERM_LIMIT:
        yield BrokenRule((*at, "period"), dram.period, f"times dram_burst_cycles ({burst}) it must be below 2^31")
    if device.row_bytes % bus:
        yield BrokenRule((*at, "row_buffer", "row_bytes"), device.row_bytes, whole)
    yield from _time_rules(device, burst, (*at, "row_buffer"))


def _time_rules(device: RowBuffer, burst: int, at: Path) -> Iterator[BrokenRule]:
    def at_least(key: str, least: int, why: str) -> Iterator[BrokenRule]:
        if getattr(device, key) < least:
            yield BrokenRule((*at, key), getattr(device, key), f"it must be at least {least}: {why}")

    yield from at_least("t_ccd_s", burst, "dram_burst_cycles, for which a burst is on the data bus")
    yield from at_least("t_ccd_l", device.t_ccd_s, "that of different groups (t_ccd_s)")
    yield from at_least("t_rrd_l", device.t_rrd_s, "that of different groups (t_rrd_s)")
    yield from at_least("t_wtr_l", device.t_wtr_s, "that of different groups (t_wtr_s)")
    yield from at_least("t_cl", device.t_cwl - burst - 1, "a write behind a read waits for it (t_cwl - dram_burst_cycles - 1)")
    closing = max(device.t_ras, device.t_rtp, device.t_cwl + burst + device.t_wr) + device.t_rp + device.t_rfc
    if device.t_refi:
        why = "a refresh ends before the next is due (closing rows, t_rp and t_rfc)"
        yield from at_least("t_refi", closing + 1, why)
