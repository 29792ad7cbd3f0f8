"""Findings of `kbsim fuzz`, which `--replay` runs again."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.property.fuzz.case import Case
from tests.property.fuzz.trees import as_json, bytes_changed, changed

LOAD = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "num_elements": 256, "spm_bank": 0, "spm_offset": 0}
PROGRAM = {"metadata": {"version": "1.0", "name": "p"}, "cmdq": [{**LOAD, "dram_addr": 0}, {**LOAD, "dram_addr": 4096}]}
FINDING: dict[str, Any] = {
    "schema": "kernbench/fuzz-finding/1",
    "target": {
        "target": "p.json", "config": "npu_mobile", "overrides": ["dram.channels=2"], "params": {}, "strict_wait": False,
        "named": True,
    },
    "kind": "race",
    "what": "entries that share bytes are in another order, or overlap",
    "digest": "0" * 96,
    "ranges": {"latency": 1024, "start": 4096, "slowest": "1/4", "kinds": ["latency", "start", "ties", "capacity"]},
    "draws": [
        {"kind": "latency", "name": "entry", "ordinal": 0, "value": 300},
        {"kind": "start", "name": "pe0", "ordinal": 0, "value": 5},
        {"kind": "ties", "name": "pe0 grant", "ordinal": 0, "value": 77},
        {"kind": "capacity", "name": "dram.ch0", "ordinal": 0, "value": 8},
    ],
    "run": 3,
    "cycles": 500,
    "original_draws": 12,
}  # fmt: skip


class FindingFormat:
    """A finding, and the program that it is of."""

    name = "finding"

    def __init__(self, number: int, count: int) -> None:
        self.program = as_json(PROGRAM)

    def _case(self, data: bytes, *more: str) -> Case:
        return Case(("fuzz", "--replay", "f.json", *more), {"f.json": data, "p.json": self.program})

    def sound(self) -> list[Case]:
        """The finding."""
        return [self._case(as_json(FINDING))]

    def mutated(self, rng: Random) -> Case:
        """Other draws, ranges and targets."""
        data = as_json(changed(rng, FINDING, ("race", "told", "kinds", "slowest", "params")))
        if rng.random() < 0.15:
            data = bytes_changed(rng, data)
        return self._case(data, *rng.choice(((), ("--json",))))

    def readers(self) -> list[tuple[Case, str]]:
        """The finding, and its program."""
        return [(self.sound()[0], "f.json")]
