"""Ramulator 2's devices, address maps and loads, converted to a controller of `row_buffer_v2` and its bursts.

All values are looked up in Ramulator's presets by the name of a time or constraint, so each standard of the presets can be
converted.
"""

from __future__ import annotations

import csv
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import no_file, read_bounded
from kernbench.config.dram_controller import complete
from kernbench.sim_engine.machine import run_dram_load

TABLE, PRESETS = "ramulator2.csv", "presets.json"  #: files in a folder of figures
MAX_BYTES = 64 << 20  #: the largest size of each file

MAPS = {
    "RoBaRaCoCh": ("row bank group stack rank pseudo column", ()),
    "MOP4CLXOR": (
        "row column bank group stack rank pseudo column4",
        ("pseudo^column", "rank^column", "stack^column", "group^column", "bank^column", "row^column"),
    ),
}
AT_ONCE = 16  #: bursts that a saturating source offers in each tick; no queue can take more
SCHEDULERS = {"FRFCFS": "oldest_ready", "FRFCFSRowHit": "oldest_ready_hits"}
#: Keys of a controller, with the names of their times in presets; each standard has only one of these names.
TIMES = {
    "t_bl": ("nBL", "nBL_min"),
    "t_cl": ("nCL",),
    "t_cwl": ("nCWL",),
    "t_rcd": ("nRCD", "nRCDRD"),
    "t_rcd_wr": ("nRCDWR",),
    "t_rp": ("nRP",),
    "t_rp_ab": ("nRPab",),
    "t_ras": ("nRAS",),
    "t_rc": ("nRC",),
    "t_rtp": ("nRTP", "nRTPL"),
    "t_wr": ("nWR",),
    "t_ccd_s": ("nCCDS", "nCCD"),
    "t_ccd_l": ("nCCDL", "nCCD"),
    "t_ccd_s_wr": ("nCCDS_WR",),
    "t_ccd_l_wr": ("nCCDL_WR",),
    "t_ccd_r": ("nCCDR",),
    "t_rrd_s": ("nRRDS", "nRRD"),
    "t_rrd_l": ("nRRDL", "nRRD"),
    "t_faw": ("nFAW",),
    "t_wtr_s": ("nWTRS", "nWTR"),
    "t_rtrs": ("nCS",),
    "t_ppd": ("nPPD",),
    "t_refi": ("nREFI",),
    "t_rfc": ("nRFC", "nRFCab"),
    "t_refi_pb": ("nREFIpb",),
    "t_rfc_pb": ("nRFCpb",),
    "t_rrefd": ("nRREFD",),
    "t_wckpst": ("nWCKPST",),
}


def controller_of(preset: Mapping[str, Any], mapping: str, scheduler: str, refresh: bool) -> dict[str, Any]:
    """The keys for a preset, an address map and a scheduler, as `controller_table` needs them."""
    ticks, levels, phases = preset["timing_ticks"], preset["levels"], preset["tick_multiplier"]
    values: dict[str, Any] = {
        "clock": Fraction(1),
        "pseudo_channels": levels.get("PseudoChannel", 1),
        "ranks": levels.get("Rank", 1),
        "stacks": levels.get("Sid", 1),
        "bank_groups": levels.get("BankGroup", 1),
        "banks_per_group": levels["Bank"],
        "rows": levels["Row"],
        "burst_bytes": preset["tx_bytes"],
        "row_bytes": preset["row_lines"] * preset["tx_bytes"],
        "phases": phases,
        "command_buses": 2 if preset["standard"].startswith("HBM") else 1,
    }
    for key, names in TIMES.items():
        found = [ticks[name] for name in names if name in ticks]
        values |= {key: found[0]} if found else {}
    written = values["t_cwl"] + values["t_bl"]
    values["t_rtw"] = _constraint(preset, "RD", "WR")
    values["t_wtr_l"] = _constraint(preset, "WR", "RD", "BankGroup" if "BankGroup" in levels else "") - written
    values |= _commands(preset, phases)
    if "ACT1" in preset["command_cycles"]:
        values["t_aad"] = ticks["nAAD"]
    else:
        values.pop("t_wckpst", None)
    values["map"], values["hash"] = MAPS[mapping]
    values |= {"scheduler": SCHEDULERS[scheduler], "refresh": "all_bank" if refresh else "none"}
    return complete(values)


def _constraint(preset: Mapping[str, Any], after: str, before: str, level: str = "") -> int:
    """[tick] The largest constraint between two commands: of the given level, or of all levels above bank groups."""
    found = [
        int(one["ticks_nominal"])
        for one in preset["constraints"]
        if after in one["preceding"] and before in one["following"] and not one["sibling"]
        if (one["level"] == level if level else one["level"] not in ("BankGroup", "Bank"))
    ]
    if not found:
        raise KeyError(f"the time from {after} to {before}")
    return max(found)


def _commands(preset: Mapping[str, Any], phases: int) -> dict[str, int]:
    """The number of ticks for which each command occupies its bus."""
    cycles = preset["command_cycles"]
    scale = phases if cycles["RD"] < phases else 1  # times are in clocks, otherwise in ticks
    act = cycles.get("ACT", cycles.get("ACT1"))
    held = {"act_clocks": act, "pre_clocks": cycles["PREpb"], "column_clocks": cycles["RD"], "refresh_clocks": cycles["REFab"]}
    return {key: int(Fraction(str(value)) * scale) for key, value in held.items()}


def bursts_of(preset: Mapping[str, Any], pattern: str, read_pct: int, load: str, ticks: int) -> Any:
    """The bursts that a load offers in the given number of ticks, as `run_dram_load` needs them: number, write, tick.

    `load`: `sat` for as many bursts as the queues can take, or the share of the peak bandwidth in percent, evenly spaced.
    """
    lines, size = int(preset["lines"]), int(preset["tx_bytes"])
    peak = Fraction(str(preset["peak_bytes_per_tick"]))
    if load == "sat":
        count = int(ticks * peak / size) + 8192
    else:
        each = Fraction(str(load)) * peak / 100 / size  # bursts in each tick
        count = int(ticks * each) + 2
    i = np.arange(count, dtype=np.int64)
    bursts = np.zeros((count, 3), dtype=np.int64)
    bursts[:, 0] = _PATTERNS[pattern](i, lines, int(preset["row_lines"]), int(preset["bank_stride_lines"])) % lines
    bursts[:, 1] = (i % 2 if read_pct == 50 else 0) if read_pct in (50, 100) else _refuse(read_pct)
    bursts[:, 2] = i // AT_ONCE if load == "sat" else i * each.denominator // each.numerator
    return bursts


def _refuse(read_pct: int) -> int:
    raise ValueError(f"read_pct = {read_pct}: only 50 and 100 are supported")


def _splitmix(i: Any) -> Any:
    with np.errstate(over="ignore"):
        z = (i + 1).astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ z >> np.uint64(30)) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ z >> np.uint64(27)) * np.uint64(0x94D049BB133111EB)
        return z ^ z >> np.uint64(31)


def _streams(n: int) -> Any:
    return lambda i, lines, row, stride: i % n * (lines // n) + i // n


#: Columns: number of the burst, bursts of the channel, bursts of a row, and bursts from one row of a bank to its next row.
_PATTERNS: dict[str, Any] = {
    "stream": lambda i, lines, row, stride: i,
    "rand": lambda i, lines, row, stride: (_splitmix(i) % np.uint64(lines)).astype(np.int64),
    "stride4": lambda i, lines, row, stride: 4 * i,
    "stride_row": lambda i, lines, row, stride: i * row,
    "stride_bank": lambda i, lines, row, stride: i * stride,
    "streams2": _streams(2),
    "streams4": _streams(4),
    "copy": _streams(2),
}


@dataclass(frozen=True, slots=True)
class Figures:
    """The figures of a load on a controller."""

    gb_per_s: float
    p50_ns: float  #: of reads, from the clock in which the queue accepts the read
    row_hits: float  #: [%] of bursts whose row is open at their first command


@dataclass(frozen=True, slots=True)
class Measured:
    """A row of Ramulator's figures, with its configuration."""

    preset: Mapping[str, Any]
    row: Mapping[str, str]

    @property
    def refresh(self) -> bool:
        """Whether all banks are refreshed."""
        return self.row["refresh"] != "none"

    @property
    def name(self) -> str:
        """The name of the configuration and the load."""
        row = self.row
        load = "saturated" if row["load_pct"] == "sat" else f"{row['load_pct']} % load"
        machine = f"{row['config']} {row['mapping']} {row['scheduler']} {'refresh' if self.refresh else 'no refresh'}"
        return f"{machine}, {row['pattern']}, {row['read_pct']} % reads, {load}"

    @property
    def expected(self) -> Figures:
        """Ramulator's."""
        row = self.row
        return Figures(float(row["achieved_GBps"]), float(row["rd_lat_p50_ns"]), _hits(row))

    def controller(self) -> dict[str, Any]:
        """The keys of an equivalent controller, for `controller_table`."""
        return controller_of(self.preset, self.row["mapping"], self.row["scheduler"], self.refresh)

    def ours(self, table: dict[str, Any]) -> Figures:
        """The figures of the simulator for the same load."""
        row, preset = self.row, self.preset
        warm, ticks, tick = int(row["warmup_ticks"]), int(row["ticks"]), preset["tick_ps"]
        first = 1 if table["phases"] == 1 else 0  # the first tick is tick 1; with phases, odd ticks are our even clocks
        bursts = bursts_of(preset, row["pattern"], int(row["read_pct"]), row["load_pct"], warm + ticks)
        bursts[:, 2] += first
        found = run_dram_load(table, bursts, warm, ticks, first)
        latencies = sorted(found["latencies"])
        moved = (found["reads"] + found["writes"]) * preset["tx_bytes"]
        return Figures(moved / (ticks * tick) * 1000, latencies[(len(latencies) - 1) // 2] * tick / 1000, _hits(found))


def _hits(counts: Mapping[str, Any]) -> float:
    hits, *others = (int(counts[name]) for name in ("row_hits", "row_misses", "row_conflicts"))
    return 100 * hits / (hits + sum(others))


#: The columns of TABLE that are read.
COLUMNS = (
    "config", "mapping", "scheduler", "refresh", "pattern", "read_pct", "load_pct", "achieved_GBps", "rd_lat_p50_ns",
    "row_hits", "row_misses", "row_conflicts", "warmup_ticks", "ticks",
)  # fmt: skip


def read_figures(folder: Path) -> list[Measured]:
    """The rows of a folder; InputError if the files are missing or have another format."""
    rows = list(csv.DictReader(_text(folder / TABLE).splitlines()))
    presets = json.loads(_text(folder / PRESETS))
    missing = [name for name in COLUMNS if not rows or name not in rows[0]]
    if missing:
        raise InputError(Problem(str(folder / TABLE), f"it has no column {missing[0]}", remedy="see docs/validation.md"))
    for number, row in enumerate(rows):
        for column, known in (("config", presets), ("mapping", MAPS), ("scheduler", SCHEDULERS), ("pattern", _PATTERNS)):
            if row[column] not in known:
                rule = f"it must be one of {', '.join(known)}"
                raise InputError(Problem(f"{folder / TABLE}:{number + 2}", rule, column, row[column]))
    for name in dict.fromkeys(row["config"] for row in rows):
        try:
            controller_of(presets[name], next(iter(MAPS)), next(iter(SCHEDULERS)), True)
        except KeyError as absent:
            rule = f"a controller of row_buffer_v2 cannot be made of it: {absent.args[0]} is missing"
            raise InputError(Problem(str(folder / PRESETS), rule, name)) from None
    return [Measured(presets[row["config"]], row) for row in rows]


def _text(path: Path) -> str:
    if not os.path.isfile(path):
        raise InputError(
            Problem(str(path), no_file(path), remedy=f"the folder must have the files {TABLE} and {PRESETS}")
        )
    return read_bounded(path, MAX_BYTES).decode("utf-8")
