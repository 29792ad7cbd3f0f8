"""Colours of the pictures: those of the report's page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kernbench.trace.views import NONE, Axis

Rgb = tuple[float, float, float]

CATEGORIES = (
    "#4a78c0", "#dd7a36", "#3d9970", "#bf4f93", "#8469cc", "#c2981f", "#2f9fb3", "#cf5650",
    "#7c8d3f", "#93684f", "#5d7c9c", "#b573c9",
)  # fmt: skip
ORDERED = ("#4458b0", "#2b83ba", "#3ca082", "#96b446", "#e6af3c", "#de6e3c", "#b43c5a")
NOTHING = "#98a1ad"


@dataclass(frozen=True)
class Theme:
    """Light or dark."""

    page: str
    lane: str
    ink: str
    soft: str
    line: str
    heat: tuple[str, ...]
    denied: tuple[str, ...]
    parts: tuple[str, ...] = CATEGORIES[:3]  #: DMA, TE, VE
    waits: tuple[str, ...] = ("#b9c0ca", "#c2981f", "#cf5650")


THEMES: dict[str, Theme] = {
    "light": Theme("#ffffff", "#ffffff", "#1a1e24", "#5b6472", "#e0e4ea",
                   ("#f4f6f9", "#c6dbef", "#6baed6", "#2171b5", "#08306b"),
                   ("#f4f6f9", "#fcc4aa", "#f47855", "#cb2824", "#67000d")),
    "dark": Theme("#0e1116", "#12161c", "#e5e9ef", "#a2acba", "#262d37",
                  ("#161b22", "#1c3e68", "#2574a0", "#4fbab2", "#f0f0a0"),
                  ("#161b22", "#5c2228", "#a63430", "#eb6e46", "#ffd696")),
}  # fmt: skip


def rgb(text: str) -> Rgb:
    """`#rrggbb` as parts of 1."""
    return (int(text[1:3], 16) / 255, int(text[3:5], 16) / 255, int(text[5:7], 16) / 255)


def label_colours(found: Axis) -> list[Rgb]:
    """A colour a label: its own, on a ramp where they are many numbers; what has no label is grey."""
    labels = [label for label in found.labels if label != NONE]
    if len(labels) > len(CATEGORIES) and all(label.lstrip("-").isdigit() for label in labels):
        colours = [_mixed(ORDERED, i / (len(labels) - 1)) for i in range(len(labels))]
    else:
        colours = [_category(i) for i in range(len(labels))]
    by_label = dict(zip(labels, colours, strict=True))
    return [by_label.get(label, rgb(NOTHING)) for label in found.labels]


def _category(place: int) -> Rgb:
    """The twelve, then darker, lighter and darker again."""
    base, turn = rgb(CATEGORIES[place % len(CATEGORIES)]), place // len(CATEGORIES) % 4
    if turn % 2:
        return (base[0] * 0.68, base[1] * 0.68, base[2] * 0.68)
    return tuple(value + (1 - value) * turn / 2 * 0.4 for value in base)  # type: ignore[return-value]


def _mixed(stops: Sequence[str], part: float) -> Rgb:
    at = part * (len(stops) - 1)
    low = min(int(at), len(stops) - 2)
    one, other = rgb(stops[low]), rgb(stops[low + 1])
    return tuple(a + (b - a) * (at - low) for a, b in zip(one, other, strict=True))  # type: ignore[return-value]
