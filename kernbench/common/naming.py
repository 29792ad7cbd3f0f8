"""Names of the engines and resources of one NPU (`kernbench/npu/1`): as results, traces and errors print them."""

from __future__ import annotations

SPM = "spm"  #: the scratchpad
CONTROL = "control"  #: the command queue's executor


def engine(kind: str, index: int) -> str:
    """The name of an engine, `dma0`, `te1` or `ve0`, from its kind and id."""
    return f"{kind}{index}"


def dram_channel(index: int) -> str:
    """The name of a DRAM channel: `dram.ch0`."""
    return f"dram.ch{index}"


def mesh_link(source: tuple[int, int], target: tuple[int, int]) -> str:
    """The name of a directed mesh link between two neighbouring (row, col) places: `noc.r1c0-r0c0`."""
    return f"noc.r{source[0]}c{source[1]}-r{target[0]}c{target[1]}"
