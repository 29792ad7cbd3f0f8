"""The times between DRAM commands under `row_buffer_v2`, and the tables of a controller for the core.

`docs/model/dram_controller.md`, C6, has the same table in words.
"""

from __future__ import annotations

from collections.abc import Mapping
from fractions import Fraction
from typing import Any

import msgspec
import numpy as np

from kernbench.config.dram_controller import FIELDS, PAGES, SCHEDULERS, map_fields, map_pairs
from kernbench.config.schema import Dram

#: the positions are the numbers in the core (kernbench_core/model/controller/timing.pxd)
SCOPES = ("pseudo", "rank", "stack", "group", "bank")
COMMANDS = ("ACT", "PRE", "RD", "WR", "PREA", "REF", "REFB", "ACT2", "CAS")  #: the same holds for these positions
JEDEC = "JESD79-4 (DDR4), JESD79-5 (DDR5), JESD209-5 (LPDDR5), JESD235 (HBM2), JESD238 (HBM3)"
BUS = "the data bus takes one burst at a time"


class Rule(msgspec.Struct, frozen=True):
    """The smallest time from a command to another in the same scope, or, with `other`, at another node: the sum of `times`;
    `-t_cl` is subtracted."""

    scope: str
    after: str
    before: str
    times: tuple[str, ...]
    source: str = JEDEC
    other: bool = False

    def clocks(self, values: Mapping[str, Any]) -> int:
        """[DRAM clock] The time for the values of a controller; 0 or less: no limit."""
        total = sum(-values[name[1:]] if name.startswith("-") else values[name] for name in self.times)
        after, before = _held(self.after, values), _held(self.before, values)
        return int(total + after - before) if total > 0 else 0


WRITTEN = ("t_cwl", "t_bl")  #: from WR to the end of its data

#: In addition: t_faw, from an ACT to the fourth ACT after it in a rank.
RULES: tuple[Rule, ...] = (
    Rule("bank", "ACT", "RD", ("t_rcd",)),
    Rule("bank", "ACT", "WR", ("t_rcd_wr",)),
    Rule("bank", "ACT", "PRE", ("t_ras",)),
    Rule("bank", "ACT", "ACT", ("t_rc",)),
    Rule("bank", "PRE", "ACT", ("t_rp",)),
    Rule("bank", "RD", "PRE", ("t_rtp",)),
    Rule("bank", "WR", "PRE", (*WRITTEN, "t_wr")),
    Rule("bank", "ACT", "REFB", ("t_rc",)),
    Rule("bank", "PRE", "REFB", ("t_rp",)),
    Rule("bank", "REFB", "ACT", ("t_rfc_pb",)),
    Rule("bank", "REFB", "REFB", ("t_rfc_pb",)),
    Rule("group", "RD", "RD", ("t_ccd_l",)),
    Rule("group", "WR", "WR", ("t_ccd_l_wr",)),
    Rule("group", "WR", "RD", (*WRITTEN, "t_wtr_l")),
    Rule("group", "ACT", "ACT", ("t_rrd_l",)),
    Rule("stack", "RD", "RD", ("t_ccd_s",)),
    Rule("stack", "WR", "WR", ("t_ccd_s_wr",)),
    Rule("stack", "RD", "RD", ("t_ccd_r",), other=True),
    Rule("rank", "RD", "WR", ("t_rtw",), "the data bus turns round"),
    Rule("rank", "WR", "RD", (*WRITTEN, "t_wtr_s")),
    Rule("rank", "RD", "RD", ("t_bl", "t_rtrs"), BUS, other=True),
    Rule("rank", "RD", "WR", ("t_bl", "t_rtrs"), BUS, other=True),
    Rule("rank", "WR", "RD", (*WRITTEN, "t_rtrs", "-t_cl"), BUS, other=True),
    Rule("pseudo", "RD", "RD", ("t_bl",), BUS),
    Rule("pseudo", "WR", "WR", ("t_bl",), BUS),
    Rule("rank", "ACT", "ACT", ("t_rrd_s",)),
    Rule("rank", "PRE", "PRE", ("t_ppd",)),
    Rule("rank", "PRE", "PREA", ("t_ppd",)),
    Rule("rank", "PREA", "PRE", ("t_ppd",)),
    Rule("rank", "PREA", "ACT", ("t_rp_ab",)),
    Rule("rank", "ACT", "PREA", ("t_ras",)),
    Rule("rank", "RD", "PREA", ("t_rtp",)),
    Rule("rank", "WR", "PREA", (*WRITTEN, "t_wr")),
    Rule("rank", "ACT", "REF", ("t_rc",)),
    Rule("rank", "PRE", "REF", ("t_rp",)),
    Rule("rank", "PREA", "REF", ("t_rp",)),
    Rule("rank", "REF", "ACT", ("t_rfc",)),
    Rule("rank", "REF", "REF", ("t_rfc",)),
    Rule("rank", "REF", "PREA", ("t_rfc",)),
    Rule("rank", "ACT", "REFB", ("t_rrd_s",)),
    Rule("rank", "REFB", "ACT", ("t_rrefd",)),
    Rule("rank", "REFB", "REFB", ("t_rrefd",)),
)

_HOLDS = {"ACT": "act_clocks", "PRE": "pre_clocks", "PREA": "pre_clocks", "RD": "column_clocks", "WR": "column_clocks"}


def _held(command: str, values: Mapping[str, Any]) -> int:
    return int(values[_HOLDS.get(command, "refresh_clocks")]) if command not in ("ACT2", "CAS") else 1


def nodes(values: Mapping[str, Any]) -> tuple[int, ...]:
    """The numbers of pseudo-channels, ranks, stacks, groups and banks of a channel."""
    out = [1]
    for name in ("pseudo_channels", "ranks", "stacks", "bank_groups", "banks_per_group"):
        out.append(out[-1] * values[name])
    return tuple(out[1:])


def controllers_of(dram: Dram) -> dict[str, Any] | None:
    """The controllers of a memory's channels in the form of the core; None without `controller`."""
    return controller_table(dram.controller.values()) if dram.controller is not None else None


def controller_table(values: Mapping[str, Any]) -> dict[str, Any]:
    """The controller of a channel in the form of the core; `values` are those of `DramController.values`."""
    rules = [
        (
            SCOPES.index(rule.scope),
            int(rule.other),
            COMMANDS.index(rule.after),
            COMMANDS.index(rule.before),
            rule.clocks(values),
        )
        for rule in RULES
    ]
    pairs = [(FIELDS.index(left), FIELDS.index(right), shift, mask) for left, right, shift, mask in map_pairs(values)]
    clock: Fraction = Fraction(values["clock"])
    pseudo, burst = values["pseudo_channels"], values["t_bl"]
    peak = Fraction(pseudo * values["burst_bytes"]) / (burst * clock)
    per_bank = values["refresh"] == "per_bank"
    refi = {"all_bank": values["t_refi"], "per_bank": values["t_refi_pb"], "none": 0}[values["refresh"]]
    return {
        "nodes": nodes(values),
        "clocks": tuple(_held(command, values) for command in COMMANDS),
        "buses": values["command_buses"],
        "phases": values["phases"],
        "burst": burst,
        "to_read": values["t_cl"],
        "to_write": values["t_cwl"],
        "to_drain": burst - -(-burst // pseudo),
        "faw": values["t_faw"],
        "refi": refi,
        "two_part": values["t_aad"],
        "running": values["t_wckpst"],
        "rules": np.array([rule for rule in rules if rule[-1] > 0], dtype=np.int64),
        "map": np.array([(FIELDS.index(name), size, place) for name, size, place in map_fields(values)], dtype=np.int64),
        "hash": np.array(pairs, dtype=np.int64).reshape(-1, 4),
        "rows": values["rows"],
        "read_queue": values["read_queue"],
        "write_queue": values["write_queue"],
        "places": values["read_buffer_bytes"] // values["burst_bytes"],
        "high": values["write_high"],
        "low": values["write_low"],
        "scheduler": SCHEDULERS.index(values["scheduler"]),
        "cap": values["cap"],
        "page": PAGES.index(values["page"]),
        "idle": values["idle_clocks"],
        "per_bank": per_bank,
        "postpone": values["postpone"],
        "burst_bytes": values["burst_bytes"],
        "num": clock.numerator,
        "den": clock.denominator,
        "peak_num": peak.numerator,
        "peak_den": peak.denominator,
    }
