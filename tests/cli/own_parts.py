"""What tests of code that files name share: a system with a part of its own, and whether that was imported."""

from __future__ import annotations

import sys
from pathlib import Path

from kernbench import Program

MARKER = "open('ran', 'a').close()\n"
PARTS = MARKER + """
from dataclasses import dataclass

from kernbench import PassivePart


class Slow(PassivePart):
    @dataclass(frozen=True, slots=True, kw_only=True)
    class Spec:
        more: int = 6

    def cycles(self, passage):
        return self.spec.more
"""
SYSTEM = 'schema: kernbench/system/1\ncomponents: {router: {impl: "own_parts:Slow"}}\n'
MODULES = ("own_parts", "own_pack", "own_pack.parts", "own_name", "own_name.parts")
CCL = "schema: kernbench/ccl/1\nalgorithms: {all_reduce: {mine: {module: mine.py, topologies: [ring]}}}\n"


def write_parts() -> None:
    """A system, a program on it, and the parts that the system names."""
    Path("own_parts.py").write_text(PARTS)
    Path("sys.yaml").write_text(SYSTEM)
    program = Program("load")
    place = {"spm_bank": 0, "spm_offset": 0}
    program.dma_load(node="sip0.cube0.pe0", tensor_role="weight", qbits=8, num_elements=4096, dram_addr=0, **place)
    program.save("load.json")


def forget_parts() -> None:
    """The next import is one again."""
    for name in MODULES:
        sys.modules.pop(name, None)


def ran() -> bool:
    """Whether the parts were imported since this was asked before."""
    there = Path("ran").exists()
    Path("ran").unlink(missing_ok=True)
    sys.modules.pop("own_parts", None)
    return there
