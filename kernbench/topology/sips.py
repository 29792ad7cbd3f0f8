"""Which SIPs, and which cubes of a SIP, are neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

from kernbench.common import naming
from kernbench.config.system.links import Pair, all_sip_pairs, grid_pairs
from kernbench.topology.mesh_gen import PointMm

if TYPE_CHECKING:
    from kernbench.config.system import SystemConfig


OPPOSITE = {"n": "s", "e": "w", "s": "n", "w": "e"}


def cube_pairs(rows: int, cols: int) -> Iterator[Pair]:
    """The neighbouring cubes of a grid, each pair once."""
    return grid_pairs(rows, cols, wrap=False)


def sip_pairs(config: SystemConfig) -> list[Pair]:
    """The SIPs with a link between them that is not broken, each pair once."""
    failed = {frozenset(map(int, name.split("-"))) for name in config.system.failed if "-" in name}
    return [pair for pair in all_sip_pairs(config) if frozenset((pair.first, pair.second)) not in failed]


def sip_size(config: SystemConfig) -> PointMm:
    """(width, height) in mm of the cubes of a SIP with the gaps between them."""
    sip, cube = config.sip, config.cube
    return (
        sip.cols * cube.width_mm + (sip.cols - 1) * sip.gap_mm,
        sip.rows * cube.height_mm + (sip.rows - 1) * sip.gap_mm,
    )


def cube_corner(config: SystemConfig, cube: int) -> PointMm:
    """The north-west corner of a cube in its SIP."""
    row, col = divmod(cube, config.sip.cols)
    return col * (config.cube.width_mm + config.sip.gap_mm), row * (config.cube.height_mm + config.sip.gap_mm)


def chiplet_places(config: SystemConfig, side: str) -> dict[str, PointMm]:
    """The positions of the components of the IO chiplet at a side of the SIP.

    Its network is in the middle of the chiplet, the PCIe endpoint at the edge away from the cubes, and the processor
    half the chiplet's depth beside the network.
    """
    width, height = sip_size(config)
    half = config.io.depth_mm / 2
    near = config.sip.gap_mm + half
    parts = ((naming.IO_NOC, near, Fraction(0)), (naming.IO_CPU, near, half), (naming.PCIE_EP, near + half, Fraction(0)))
    return {
        part: {
            "n": (width / 2 + along, -out),
            "e": (width + out, height / 2 + along),
            "s": (width / 2 + along, height + out),
            "w": (-out, height / 2 + along),
        }[side]
        for part, out, along in parts
    }


def served_ports(config: SystemConfig, side: str) -> Iterator[tuple[int, str]]:
    """(cube, port) of each UCIe port at a side of the SIP, cube by cube."""
    rows, cols = config.sip.rows, config.sip.cols
    cubes = {
        "n": range(cols),
        "s": range((rows - 1) * cols, rows * cols),
        "w": range(0, rows * cols, cols),
        "e": range(cols - 1, rows * cols, cols),
    }[side]
    for cube in cubes:
        for i in range(config.cube.ucie.ports_per_side):
            yield cube, naming.ucie(side, i)
