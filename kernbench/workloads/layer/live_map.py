"""A layer's scratchpad as a picture: which buffer is where, in which stages."""

from __future__ import annotations

from collections.abc import Sequence
from xml.sax.saxutils import escape

from kernbench.common.look.palette import Theme, colour, mixed, slots, tokens
from kernbench.workloads.scratchpad import ScratchpadPlan

STAGES = ("attention", "output projection", "gate and up", "down projection")
_LEFT, _TOP, _WIDE, _HIGH = 70, 40, 190, 520  # [px] margins, width of a stage, height of the scratchpad
_FEW = 6  # stages whose names have room


def live_map_svg(places: ScratchpadPlan, stages: Sequence[str] = STAGES, theme: Theme = "light") -> str:
    """Stages from left to right, addresses from top to bottom: two buffers that live together never share a byte.

    The names of stages are left out where there are too many for them.
    """
    size, stage_wide = max(places.peak_bytes, 1), _WIDE if len(stages) <= _FEW else max(2.0, _FEW * _WIDE / len(stages))
    wide, high = _LEFT + len(stages) * stage_wide + 20, _TOP + _HIGH + 30
    font = tokens()["font"]["sans"].replace('"', "'")
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide}" height="{high}" viewBox="0 0 {wide} {high}" '
        f'font-family="{font}" font-size="12" fill="{colour("ink", theme)}">',
        f'<rect width="{wide}" height="{high}" fill="{colour("card", theme)}"/>',
    ]
    for stage, name in enumerate(stages if len(stages) <= _FEW else ()):
        parts.append(f'<text x="{_LEFT + (stage + 0.5) * _WIDE}" y="{_TOP - 12}" text-anchor="middle">{name}</text>')
    for number, buffer in enumerate(places.buffers.values()):
        x, across = _LEFT + buffer.first * stage_wide, (buffer.last - buffer.first + 1) * stage_wide
        y, down = _TOP + buffer.start * _HIGH / size, buffer.nbytes * _HIGH / size
        hue = slots(theme)[number % len(slots(theme))]
        title = escape(f"{buffer.name}: {buffer.nbytes:,} B at {buffer.start:,}")
        parts.append(f'<g><title>{title}</title><rect x="{x}" y="{y:.2f}" width="{across}" height="{max(down, 0.5):.2f}" '
                     f'fill="{mixed(colour("card", theme), hue, 0.4)}" stroke="{hue}"/>')  # fmt: skip
        label = escape(f"{buffer.name} {_size(buffer.nbytes)}")
        if down >= 13 and across >= 7 * len(label):
            place = f'x="{x + across / 2}" y="{y + down / 2 + 4:.2f}" text-anchor="middle"'
            parts.append(f"<text {place}>{label}</text>")
        parts.append("</g>")
    for at in ticks(size):
        parts.append(f'<text x="{_LEFT - 6}" y="{_TOP + at * _HIGH / size + 4:.2f}" text-anchor="end">{_size(at)}</text>')
    return "\n".join([*parts, "</svg>\n"])


def ticks(size: int) -> list[int]:
    """Addresses along the side: some round ones, and the end where the last of those leaves it room."""
    step = 1 << max(0, (size // 5).bit_length())
    ticks = list(range(0, size + 1, step))
    return ticks if size - ticks[-1] < step / 4 else [*ticks, size]


def _size(nbytes: int) -> str:
    for power, name in ((20, "MiB"), (10, "KiB")):
        if nbytes >= 1 << power:
            return f"{nbytes / (1 << power):.3g} {name}"
    return f"{nbytes} B"
