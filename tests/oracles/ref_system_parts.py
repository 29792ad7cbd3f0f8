"""The parts of a system by their numbers: which PEs a program uses, their banks side by side, and sections with defaults.

The scratchpads of the PEs are one long scratchpad here: that of the k-th PE has the k-th share of its addresses and of its
banks. Banks decide each for itself, so nothing else is needed for several of them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from .ref_control import CONTROL
from .ref_geometry import Scratchpad
from .ref_machine import completed

Place = tuple[int, ...]  # (SIP, cube, PE) or (SIP, cube)


class Hop(NamedTuple):
    """An edge of a route."""

    name: str
    cycles: int
    bytes_per_cycle: Any  # a rational, or None: it limits nothing


class Roads(Protocol):
    """Routes and addresses of one system: they have an oracle of their own."""

    def memory(self, address: int) -> tuple[str, int | None]:
        """The node that holds a byte, and its slice where that is HBM."""

    def to_memory(self, node: str, address: int) -> Sequence[Hop]:
        """The way to the memory that holds a byte."""

    def from_memory(self, node: str, address: int) -> Sequence[Hop]:
        """The way from there."""

    def between(self, source: str, target: str) -> Sequence[Hop]:
        """The way of data between two nodes."""

    def launch(self, m_cpu: str) -> Sequence[Hop]:
        """The way of a launch, from the host."""

    def command(self, m_cpu: str, cpu: str) -> Sequence[Hop]:
        """The way of a launch from there to the processor of a PE."""

    def home(self, pe: str, tier: str) -> tuple[int, int]:
        """The first byte and the end of the SRAM (`sram`) or the slice of HBM (`hbm`) that is next to a PE."""

    def endpoints(self) -> Sequence[str]:
        """Every PCIe endpoint, in order."""

    def in_order(self, names: Sequence[str]) -> Sequence[str]:
        """Names of directed edges in the order of results."""


class Pad(Scratchpad):
    """The scratchpad of the PE with number `index`, in addresses and banks of all."""

    def __init__(self, spm: dict[str, Any], index: int) -> None:
        super().__init__(spm)
        self.base = index * self.banks * self.size  # a line of a PE begins at a line of all: banks are whole lines
        self.first_bank = index * self.banks

    def flat(self, bank: int, offset: int) -> int:
        """Address among those of all scratchpads."""
        return self.base + super().flat(bank, offset)

    def bank_of_line(self, line: int) -> int:
        """Bank among those of all scratchpads; the line is one of this scratchpad."""
        return self.first_bank + super().bank_of_line(line - self.base // self.width)


def sections(system: dict[str, Any]) -> dict[str, Any]:
    """The sections of a PE with the global ones of `system` and, as `dram`, one slice of HBM; defaults filled in."""
    cube = system.get("cube", {})
    hbm = {"channels": 8, "capacity_bytes": 16 << 30, **cube.get("hbm", {})}
    of_pe = {key: value for key, value in system.get("pe", {}).items() if key in ("dma", "spm", "te", "ve")}
    of_all = {key: system[key] for key in system if key in ("allocation", "max_cycles", "control", "kv_layouts")}
    full = completed({**of_all, **of_pe, "dram": hbm, "llc": cube.get("llc")})
    full["dram"]["channels"] //= hbm.get("slices") or cube.get("pes", 8)
    return full


def waits(system: dict[str, Any]) -> dict[str, int]:
    """Cycles of a launch or copy in the processors on its way."""
    io, cube = system.get("io", {}), system.get("cube", {})
    return {
        "pcie_ep": io.get("pcie", {}).get("setup_cycles", 100),
        "io_cpu": io.get("io_cpu", {}).get("cycles", 100),
        "m_cpu": cube.get("m_cpu", {}).get("cycles", 50),
    }


class Parts:
    """The nodes that a program uses, each kind in tie-break order."""

    def __init__(self, program: dict[str, Any], endpoints: Sequence[str]) -> None:
        pes: set[str] = set()
        used: set[str] = set()
        cpus: set[str] = set()
        for entry in program["cmdq"]:
            kind = kind_of(entry["opcode"])
            found = {"pe": pes, "endpoint": used, "cpu": cpus}.get(kind)
            if found is not None:
                found.add(node_of(entry, endpoints))
            if "peer" in entry:
                pes.add(entry["peer"])
        self.pes = sorted(pes, key=place)
        self.endpoints = [node for node in endpoints if node in used]
        self.cpus = sorted(cpus, key=place)


def kind_of(opcode: str) -> str:
    """Who runs it: a pe, an endpoint, a cpu or control."""
    if opcode in CONTROL:
        return "control"
    return {"HOST_COPY_TILE": "endpoint", "LAUNCH": "cpu"}.get(opcode, "pe")


def node_of(entry: dict[str, Any], endpoints: Sequence[str]) -> str:
    """The node of an entry; without one the first of its kind."""
    first = {"pe": "sip0.cube0.pe0", "cpu": "sip0.cube0.m_cpu", "endpoint": endpoints[0] if endpoints else ""}
    return str(entry.get("node", first[kind_of(entry["opcode"])]))


def place(node: str) -> Place:
    """The numbers in a node's name: SIP, cube and PE."""
    return tuple(int(digits) for digits in re.findall(r"\d+", node))


def numbered(name: str, index: int, count: int) -> str:
    """One of `count` engines of a node."""
    return name if count == 1 else f"{name}[{index}]"
