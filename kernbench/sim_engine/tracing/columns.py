"""What templates ask of an entry: int64 columns, and the texts that some of them number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from kernbench.cmdq import Program
from kernbench.cmdq.entries import Entry, HostEntry, PairEntry, TeEntry, VeEntry
from kernbench.cmdq.plan import Plan
from kernbench.sim_engine.tracing.lines import common_of, text
from kernbench.sim_engine.tracing.templates import COLUMNS, FIXED, TABLES

MISSING = -(2**63)  # the core's
KINDS = (0, 1, 2, 6)  # the core's EngineType, in the order of the table `kinds`


class Columns:
    """Columns of a program by its plan; `names` are those of the tracks."""

    def __init__(self, program: Program, plan: Plan, names: Iterable[str]) -> None:
        self.plan = plan
        self.columns = {name: np.full(len(program.entries), MISSING, dtype=np.int64) for name in COLUMNS}
        self.tables: dict[str, list[bytes]] = {name: [text(value) for value in FIXED.get(name, ())] for name in TABLES}
        self._numbers: dict[tuple[str, bytes], int] = {}
        self.unit_number = {name: self._number("units", text(name)) for name in names}
        self.token_left: list[int] = []  #: entries of each token group
        self._groups: dict[int, int] = {}
        for entry in program.entries:
            for name, value in self._values(entry).items():
                if value is not None:
                    self.columns[name][entry.index] = value

    def _number(self, table: str, item: bytes) -> int:
        """Where a text stands in its table; it is put there if it is new."""
        key = (table, item)
        if key not in self._numbers:
            self._numbers[key] = len(self.tables[table])
            self.tables[table].append(item)
        return self._numbers[key]

    def _text(self, table: str, value: Any) -> int | None:
        return None if value is None else self._number(table, text(value))

    def _values(self, entry: Entry) -> dict[str, int | None]:
        meta = entry.meta
        common = b"".join(b',"%s":%d' % (name.encode(), value) for name, value in common_of(entry).items())
        values: dict[str, int | None] = {
            "cmd_id": entry.id,
            "unit": self.unit_number[self.plan.units[entry.index]],
            "phase": self._text("phases", meta.get("phase")),
            "common": self._number("commons", common),
            "token": meta.get("token"),
            "irq_line": meta.get("irq_line"),
            "marker": self._text("markers", meta.get("marker")),
            "token_idx": meta.get("token_idx"),
            "group": self._group(meta.get("token_idx")),
        }
        tile = "vec_chunk_id" if entry.engine == "ve" else "tile_id"
        values[tile] = meta.get("tile_id")
        if entry.engine == "dma":
            values |= self._transfer(entry)
        elif entry.engine != "control":
            values |= self._service(entry)
        return values

    def _group(self, token_idx: int | None) -> int | None:
        if token_idx is None:
            return None
        group = self._groups.setdefault(token_idx, len(self._groups))
        if group == len(self.token_left):
            self.token_left.append(0)
        self.token_left[group] += 1
        return group

    def _transfer(self, entry: Entry) -> dict[str, int | None]:
        plan, row = self.plan, self.plan.transfer(entry.index)
        memory, write = plan.machine["memories"][row["memory"]], row["write"]
        dram, spm = row["dram_addr"] // memory["align"] * memory["align"], row["spm_addr"]
        touched = [k for k, nbytes in enumerate(plan.channel_bytes(entry.index)) if nbytes]
        engine = plan.machine["dma"][row["engine"]]
        pair = isinstance(entry, PairEntry)
        job_type = "DMA_WRITE" if write else "DMA_READ"
        if pair or isinstance(entry, HostEntry):
            job_type = entry.opcode.removesuffix("_TILE")
        return {
            "by": 0,
            "spm": self._scratchpad(engine["spm"]),
            "far": self._scratchpad(row["peer"]) if pair else None,
            "dram": 0 if not pair and self._scratchpad(engine["spm"]) is not None else None,
            "served": write,
            "job_type": self._text("job_types", job_type),
            "channel": row["channel"],
            "direction": 2 if pair else write,
            "src_addr": spm if write else dram,
            "dst_addr": dram if write else spm,
            "size_bytes": plan.bytes_of(entry.index),
            "head_cycles": memory["setup"] + max(int(plan.machine["route_latency"][row["route"] + k]) for k in touched),
            "weight": engine["channels"][row["channel"]][2],
        }

    def _scratchpad(self, number: int) -> int | None:
        """The track of a scratchpad; None for what has no banks."""
        pads = self.plan.scratchpads
        return self.unit_number[pads[number]] if number < len(pads) else None

    def _service(self, entry: Entry) -> dict[str, int | None]:
        plan, row = self.plan, self.plan.service(entry.index)
        engine = plan.machine["compute"][row["engine"]]
        job_type = entry.opcode.removesuffix("_TILE")
        values: dict[str, int | None] = {
            "by": KINDS.index(engine["kind"]),
            "spm": self._scratchpad(engine["spm"]),
            "job_type": self._text("job_types", job_type),
            "body_cycles": row["body"],
            "total_cycles": row["init"] + row["body"] + row["finalize"],
            "work": row["work"],
        }
        if isinstance(entry, TeEntry):
            values |= {"m": entry.m, "n": entry.n, "k": entry.k}
        elif isinstance(entry, VeEntry):
            values |= {"op_type": self._text("ops", job_type.removeprefix("VE_")), "len": entry.length, "batch": entry.batch}
        return values
