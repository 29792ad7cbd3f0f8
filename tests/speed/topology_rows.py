"""How fast systems are built and routed, and in how much memory: a process each, CPU time."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from tests.speed.goals import Goal

ROOT = Path(__file__).resolve().parents[2]
PRESETS = ("sip_4x4", "pod_8sip")
GOAL_BUILD_S, GOAL_ROUTES_S, GOAL_MIB = 2.0, 1.0, 500.0  # building 1,024 PEs; all routes within a SIP of 128; all of it
#: Builds a preset, then finds every route within its first SIP: from each PE to each PE, and to each slice of HBM.
_SCRIPT = """
import sys, time
from kernbench.config import load_config
from kernbench.policy.routing import PathRouter
from kernbench.topology.builder import build_topology
from tests.speed.peak import peak_mib
before = time.process_time()
topology = build_topology(load_config(sys.argv[1]))
built = time.process_time()
router, config = PathRouter(topology), topology.config
pes = [node.id for node in topology.nodes if node.kind == "pe_dma" and node.sip == 0]
slices = [router.resolver.address(0, cube, part) for cube in range(config.cubes) for part in range(config.slices)]
routes = sum(len(router.find_path(a, b)) > 0 for a in pes for b in pes)
routes += sum(len(router.find_memory_path(a, b)) > 0 for a in pes for b in slices)
peak = peak_mib()
print(config.pes, built - before, routes, time.process_time() - built, peak)
"""


@dataclass(frozen=True, slots=True)
class TopologyRow:
    """What one system took."""

    preset: str
    pes: int
    build_s: float  #: CPU time, from its file
    routes: int  #: within the first SIP
    routes_s: float  #: CPU time
    peak_mib: float  #: of the whole process


def topology_rows() -> list[TopologyRow]:
    """A row a preset."""
    return [_row(name) for name in PRESETS]


def _row(name: str) -> TopologyRow:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-c", _SCRIPT, name]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)
    pes, build, routes, found, peak = done.stdout.split()
    return TopologyRow(name, int(pes), float(build), int(routes), float(found), float(peak))


def topology_table(rows: list[TopologyRow]) -> str:
    """The rows for a person."""
    lines = []
    for row in rows:
        built = f"{row.pes:5,} PEs built in {row.build_s:.2f} s"
        lines.append(f"  {row.preset:9} {built}, {row.routes:,} routes in {row.routes_s:.2f} s, {row.peak_mib:.0f} MiB")
    return "\n".join(lines)


def topology_goals(rows: list[TopologyRow]) -> list[Goal]:
    """Time and memory of each."""
    limits = {
        "built": ("build_s", GOAL_BUILD_S, "s"),
        "routes within a SIP": ("routes_s", GOAL_ROUTES_S, "s"),
        "memory": ("peak_mib", GOAL_MIB, "MiB"),
    }
    return [
        Goal(f"{row.preset}: {name}", getattr(row, field), most, unit)
        for row in rows
        for name, (field, most, unit) in limits.items()
    ]
