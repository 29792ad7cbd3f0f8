"""Files of energies: components of a chip, tables of components, and reference tables of Accelergy with their map."""

from __future__ import annotations

import importlib.resources
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import yaml

from tests.property.fuzz.bases import SMALL, every_opcode
from tests.property.fuzz.case import Case
from tests.property.fuzz.formats.machine_files import ON
from tests.property.fuzz.harness import Limits, run_case
from tests.property.fuzz.trees import as_json, as_yaml, bytes_changed, changed, text_of

CHIP: dict[str, Any] = {
    "schema": "kernbench/energy-components/1",
    "about": "an array",
    "components": {
        "DRAM": [{"part": "dram", "action": "read", "pj": 15}, {"part": "dram", "action": "write", "pj": "37/2"}],
        "buffer": [{"part": "spm", "addresses": [0, "4KiB"], "tensor": "weight", "pj": "1.2"}, {"part": "noc", "pj": 1}],
        "registers": [{"part": "mac", "op": "TE_GEMM_TILE", "pj": "0.08"}, {"part": "ve", "pj": 2}],
        "engines": [{"part": "static", "resource": "te*", "state": "busy", "pj": 25}, {"part": "static", "pj": 60}],
    },
}
ERT: dict[str, Any] = {
    "ERT": {
        "version": 0.4,
        "tables": [
            {
                "name": "chip.buffer[0..3]",
                "actions": [
                    {"name": "read", "arguments": {"data_delta": 0}, "energy": 4},
                    {"name": "read", "arguments": {"data_delta": 1}, "energy": 5.5},
                ],
            },
            {"name": "chip.mac", "actions": [{"name": "mac_random", "arguments": {}, "energy": 0.25}]},
        ],
    }
}
ART: dict[str, Any] = {
    "ART": {
        "version": 0.4,
        "tables": [{"name": "chip.pe[0..3].buffer[0..1]", "area": 12500}, {"name": "chip.pe[0..3].mac", "area": 300.5}],
    }
}
PARTS: dict[str, Any] = {
    "spm": {"name": ["chip.pe[0..3].buffer[0..1]", "chip.pe[0..3].mac"]},
    "te": {"name": "chip.pe[0..3].mac"},
}
NAMES: dict[str, Any] = {
    "spm_pj_per_byte": {"name": "chip.buffer[0..3]", "action": "read", "bytes": 2},
    "mac_pj": {"name": "chip.mac", "action": "mac_random"},
}
KEYS = ("addresses", "resource", "state", "tensor", "action", "arguments", "bytes", "checked", "pj_per_byte", "value", "area")


class EnergyFormat:
    """The files that price a run or a machine."""

    name = "energy"

    def __init__(self, number: int, count: int) -> None:
        table = importlib.resources.files("kernbench.configs") / "energy" / "7nm.yaml"
        self.table = yaml.safe_load(table.read_text(encoding="utf-8"))
        arguments = ("run", "p.json", *ON, "--trace", "t.jsonl", "--trace-level", "full")
        with tempfile.TemporaryDirectory() as folder:
            place = Path(folder) / "run"
            run_case(Case(arguments, {"m.yaml": as_yaml(SMALL), "p.json": as_json(every_opcode())}), place, Limits())
            self.trace = (place / "t.jsonl").read_bytes()

    def _chip(self, data: bytes, end: str = ".yaml", *more: str) -> Case:
        arguments = ("trace", "energy", "t.jsonl", "--components", f"chip{end}", *more)
        return Case(arguments, {f"chip{end}": data, "t.jsonl": self.trace})

    def _table(self, data: bytes, end: str = ".yaml", *more: str) -> Case:
        return Case(("config", "energy", "npu_mobile", "--table", f"./t{end}", "--dram", "lpddr", *more), {f"t{end}": data})

    def _ert(self, ert: bytes, names: bytes, *more: str) -> Case:
        arguments = ("config", "energy", "npu_mobile", "--ert", "ERT.yaml", "--map", "names.yaml", *more)
        return Case(arguments, {"ERT.yaml": ert, "names.yaml": names})

    def _art(self, art: bytes, parts: bytes, *more: str) -> Case:
        arguments = ("config", "energy", "npu_mobile", "--art", "ART.yaml", "--map", "parts.yaml", *more)
        return Case(arguments, {"ART.yaml": art, "parts.yaml": parts})

    def sound(self) -> list[Case]:
        """A file of each kind."""
        return [
            self._chip(as_yaml(CHIP)),
            self._chip(as_yaml(CHIP), ".yaml", "--by", "component,op", "--json", "--events", "e.csv"),
            self._table(as_yaml(self.table)),
            self._ert(as_yaml(ERT), as_yaml(NAMES)),
            self._art(as_yaml(ART), as_yaml(PARTS)),
        ]

    def mutated(self, rng: Random) -> Case:
        """One of the files changed."""
        end = rng.choice((".yaml", ".yaml", ".json"))
        kind = rng.choice(("chip", "chip", "table", "ert", "names", "art", "parts"))
        base = {"chip": CHIP, "table": self.table, "ert": ERT, "names": NAMES, "art": ART, "parts": PARTS}[kind]
        data = text_of(rng, changed(rng, base, KEYS), end if kind in ("chip", "table") else ".yaml")
        if rng.random() < 0.15:
            data = bytes_changed(rng, data)
        more = rng.choice(((), ("--json",)))
        if kind == "chip":
            return self._chip(data, end, *more, *rng.choice(((), ("--accesses", "a.csv"), ("--events", "e.csv"))))
        if kind == "table":
            return self._table(data, end, *more)
        if kind in ("art", "parts"):
            art, parts = (data, as_yaml(PARTS)) if kind == "art" else (as_yaml(ART), data)
            return self._art(art, parts, *more)
        ert, names = (data, as_yaml(NAMES)) if kind == "ert" else (as_yaml(ERT), data)
        return self._ert(ert, names, *more)

    def readers(self) -> list[tuple[Case, str]]:
        """Each reader once."""
        chip, _, table, ert, art = self.sound()
        accelergy = [(ert, "ERT.yaml"), (ert, "names.yaml"), (art, "ART.yaml"), (art, "parts.yaml")]
        return [(chip, "chip.yaml"), (table, "t.yaml"), *accelergy]
