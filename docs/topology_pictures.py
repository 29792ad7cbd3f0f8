"""Draws the four views of the preset `sip_4x4`, and `pod_8sip` as a whole, as `kbsim topology draw` does."""

from __future__ import annotations

from kernbench.config import load_config
from kernbench.config.system import SystemConfig
from kernbench.topology.builder import build_topology
from kernbench.topology.views import Level
from kernbench.topology.visualizer import draw


def topology_pictures() -> dict[str, str]:
    """File name: SVG."""
    sip, pod = (build_topology(load_config(name, kind=SystemConfig)) for name in ("sip_4x4", "pod_8sip"))
    made = {f"topology_{level}.svg": draw(sip, level).svg() for level in Level}
    return {**made, "topology_pod.svg": draw(pod, Level.SYSTEM).svg()}
