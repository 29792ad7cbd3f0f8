"""What templates ask of an entry: int64 columns, and the texts that some of them number."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from kernbench.cmdq import Program
from kernbench.cmdq.entries import Entry, TeEntry, VeEntry
from kernbench.cmdq.footprint import service_cycles, transfer_of, work_of
from kernbench.cmdq.traffic import channel_bytes
from kernbench.config import NpuConfig
from kernbench.sim_engine.tracing.head import unit_of
from kernbench.sim_engine.tracing.lines import common_of, text
from kernbench.sim_engine.tracing.templates import COLUMNS, FIXED, TABLES

MISSING = -(2**63)  # the core's


class Columns:
    """Columns of a program on a machine. `route_latency` is that of `lower_machine`: [dma][load, store][channel]."""

    def __init__(self, config: NpuConfig, program: Program, names: Iterable[str], route_latency: npt.NDArray[np.int64]) -> None:
        self.config = config
        self.route_latency = route_latency.reshape(config.dma.engines, 2, config.dram.channels)
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
            "unit": self.unit_number[unit_of(entry)],
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
        config, move = self.config, transfer_of(entry, self.config)
        dram, spm = move.aligned_row(0)[0], move.spm_addr
        latency = self.route_latency[entry.engine_id, int(move.write)]
        touched = [k for k, nbytes in enumerate(channel_bytes(move, config.dram)) if nbytes]
        return {
            "by": 0,
            "job_type": self._text("job_types", "DMA_WRITE" if move.write else "DMA_READ"),
            "channel": move.channel,
            "direction": int(move.write),
            "src_addr": spm if move.write else dram,
            "dst_addr": dram if move.write else spm,
            "size_bytes": move.bytes_aligned,
            "head_cycles": config.dram.t_setup_cycles + max(int(latency[k]) for k in touched),
            "weight": tuple(config.dma.channels)[move.channel].weight,
        }

    def _service(self, entry: Entry) -> dict[str, int | None]:
        time = service_cycles(entry, self.config)
        job_type = entry.opcode.removesuffix("_TILE")
        values: dict[str, int | None] = {
            "by": 1 if entry.engine == "te" else 2,
            "job_type": self._text("job_types", job_type),
            "body_cycles": time.body,
            "total_cycles": time.total,
            "work": work_of(entry),
        }
        if isinstance(entry, TeEntry):
            values |= {"m": entry.m, "n": entry.n, "k": entry.k}
        elif isinstance(entry, VeEntry):
            values |= {"op_type": self._text("ops", job_type.removeprefix("VE_")), "len": entry.length, "batch": entry.batch}
        return values
