"""The timing rules between commands to DRAM banks, and the tables of `row_buffer_v1` for the core.

`docs/model/dram_rows.md` specifies the controller that obeys them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
import numpy as np

from kernbench.config.dram_device import ADDRESS_MAPS, PAGE_POLICIES, SCHEDULERS
from kernbench.config.schema import Dram

SCOPES = ("bank", "group", "channel")  #: the positions are the numbers in the core (kernbench_core/state/device_layout.pyx)
COMMANDS = ("ACT", "PRE", "RD", "WR", "REF")  #: the same holds for these positions (kernbench_core/model/dram/device.pxd)
JESD235 = "JESD235 (HBM), AC timings"
BUS = "the data bus takes one burst at a time"


class Rule(msgspec.Struct, frozen=True):
    """The smallest time from one command to another in a scope: the sum of the `times`, plus `turn` DRAM clocks.

    `-t_cwl` is subtracted; `burst` is `dram_burst_cycles`.
    """

    scope: str
    after: str
    before: str
    times: tuple[str, ...]
    source: str
    turn: int = 0

    def clocks(self, times: Mapping[str, int]) -> int:
        """[DRAM clock] The time for the timing parameters of a device."""
        total = self.turn
        for name in self.times:
            total += -times[name[1:]] if name.startswith("-") else times[name]
        return total


#: In addition: t_faw from an ACT to the fourth ACT after it on a channel (JESD235); one command in a clock on the row bus (ACT,
#: PRE, REF) and one on the column bus (RD, WR), because HBM has two buses.
RULES: tuple[Rule, ...] = (
    Rule("bank", "ACT", "RD", ("t_rcd",), f"{JESD235}: tRCDRD"),
    Rule("bank", "ACT", "WR", ("t_rcd_wr",), f"{JESD235}: tRCDWR"),
    Rule("bank", "ACT", "PRE", ("t_ras",), f"{JESD235}: tRAS; tRC is tRAS + tRP"),
    Rule("bank", "PRE", "ACT", ("t_rp",), f"{JESD235}: tRP"),
    Rule("bank", "RD", "PRE", ("t_rtp",), f"{JESD235}: tRTP"),
    Rule("bank", "WR", "PRE", ("t_cwl", "burst", "t_wr"), f"{JESD235}: write latency, burst, tWR"),
    Rule("group", "RD", "RD", ("t_ccd_l",), f"{JESD235}: tCCDL"),
    Rule("group", "WR", "WR", ("t_ccd_l",), f"{JESD235}: tCCDL"),
    Rule("group", "WR", "RD", ("t_cwl", "burst", "t_wtr_l"), f"{JESD235}: write latency, burst, tWTRL"),
    Rule("group", "ACT", "ACT", ("t_rrd_l",), f"{JESD235}: tRRDL"),
    Rule("channel", "RD", "RD", ("t_ccd_s",), f"{JESD235}: tCCDS"),
    Rule("channel", "WR", "WR", ("t_ccd_s",), f"{JESD235}: tCCDS"),
    Rule("channel", "RD", "WR", ("t_cl", "burst", "-t_cwl"), f"{BUS}, and two clocks turn it (Ramulator 2, HBM2)", turn=2),
    Rule("channel", "WR", "RD", ("t_cwl", "burst", "t_wtr_s"), f"{JESD235}: write latency, burst, tWTRS"),
    Rule("channel", "ACT", "ACT", ("t_rrd_s",), f"{JESD235}: tRRDS"),
    Rule("channel", "PRE", "REF", ("t_rp",), f"{JESD235}: tRP; REF needs all banks closed"),
    Rule("channel", "REF", "ACT", ("t_rfc",), f"{JESD235}: tRFC"),
)


def device_table(dram: Dram) -> dict[str, Any] | None:
    """The banks of a machine's DRAM channels in the form of the core, in core cycles; None without `dram.row_buffer`."""
    device = dram.row_buffer
    if device is None:
        return None
    period = dram.period
    times = {name: value for name, value in device if name.startswith("t_")} | {"burst": dram.dram_burst_cycles}
    table = [
        (SCOPES.index(rule.scope), COMMANDS.index(rule.after), COMMANDS.index(rule.before), period * rule.clocks(times))
        for rule in RULES
    ]
    return {
        "banks": device.banks,
        "groups": device.bank_groups,
        "columns": device.row_bytes // dram.bus_width_bytes,
        "burst": dram.bus_width_bytes,
        "period": period,
        "burst_cycles": dram.dram_burst_cycles * period,
        "to_read": device.t_cl * period,
        "to_write": device.t_cwl * period,
        "faw": device.t_faw * period,
        "refi": device.t_refi * period,
        "depth": device.queue_bursts,
        "room": device.buffer_bursts,
        "batch": device.batch_bursts,
        "scheduler": SCHEDULERS.index(device.scheduler),
        "page": PAGE_POLICIES.index(device.page),
        "map": ADDRESS_MAPS.index(device.map),
        "rules": np.array(table, dtype=np.int64),
    }
