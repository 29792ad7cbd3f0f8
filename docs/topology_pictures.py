"""Draws the four views of the preset `sip_4x4`, and `pod_8sip` as a whole, as `kbsim topology draw` does."""

from __future__ import annotations

from kernbench.common.look.palette import THEMES
from kernbench.config import load_config
from kernbench.config.system import SystemConfig
from kernbench.topology.builder import build_topology
from kernbench.topology.draw.svg import Picture
from kernbench.topology.views import Level
from kernbench.topology.visualizer import draw


def topology_pictures() -> dict[str, str]:
    """File name: HTML."""
    sip, pod = (build_topology(load_config(name, kind=SystemConfig)) for name in ("sip_4x4", "pod_8sip"))
    made = {f"topology_{level}.svg": _both(draw(sip, level)) for level in Level}
    return {**made, "topology_pod.svg": _both(draw(pod, Level.SYSTEM))}


def _both(drawing: Picture) -> str:
    """A picture in both themes, of which a page shows that of its own; ids of the dark one are its own, too."""
    light, dark = (drawing.svg(theme) for theme in THEMES)
    dark = dark.replace('id="arrow', 'id="dark-arrow').replace("url(#arrow", "url(#dark-arrow")
    return f'<div class="only-light">\n{light}</div>\n<div class="only-dark">\n{dark}</div>\n'
