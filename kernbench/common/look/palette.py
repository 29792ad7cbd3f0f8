"""Colours by their meaning: the hue shows the resource, the fill shows work or wait, and slots show labels. All colours are in
`tokens.toml`."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any, Literal

from kernbench.common.package_files import package_folder
from kernbench.common.parse_cache import kept

Theme = Literal["light", "dark"]
THEMES: tuple[Theme, ...] = ("light", "dark")
SLOTS = 7  #: number of colours for labels; all other labels are `other`
NONE = "none"  #: the label of a missing value
_STORE = 0.45  #: position of the colour of a store between the colours of its engine and of the lane


@cache
def tokens() -> dict[str, Any]:
    """The token file."""
    text = (package_folder("kernbench.common") / "look" / "tokens.toml").read_text(encoding="utf-8")

    def parsed() -> dict[str, Any]:
        import tomllib  # imported here, because the tokens usually come from a cache

        return tomllib.loads(text)

    found: dict[str, Any] = kept(__file__, text, parsed)
    return found


def colour(name: str, theme: Theme = "light") -> str:
    """`#rrggbb` of a neutral (`ink`), a resource (`dram`, `hbm`), or `fail`. KeyError for another name."""
    found = tokens()[theme].get(name)
    return str(_resources()[name][theme] if found is None else found)


@cache
def _resources() -> dict[str, dict[str, Any]]:
    """The resources by all their names."""
    return {name: values for own, values in tokens()["resource"].items() for name in (own, *values.get("also", ()))}


@cache
def slots(theme: Theme = "light") -> tuple[str, ...]:
    """The colours of labels, slot 1 first."""
    found = {values["slot"]: values[theme] for values in tokens()["resource"].values() if "slot" in values}
    return tuple(found[place] for place in sorted(found))


def ramp(name: str, theme: Theme = "light") -> tuple[str, ...]:
    """Colour stops: `use` and `denied` go from least to most; `goal` goes from best to worst."""
    return tuple(tokens()["ramp"][theme][name])


def style(name: str) -> str:
    """The terminal style of a use: `work`, `wait`, `fail`, ..."""
    return str(tokens()["terminal"][name])


def channels(text: str) -> tuple[int, int, int]:
    """Red, green and blue of `#rrggbb`, 0 to 255."""
    return int(text[1:3], 16), int(text[3:5], 16), int(text[5:7], 16)


def mixed(first: str, second: str, part: float) -> str:
    """A mix of two colours; `part` is the share of the second colour."""
    pairs = zip(channels(first), channels(second), strict=True)
    return "#" + "".join(f"{round(a + (b - a) * part):02x}" for a, b in pairs)


def tinted(name: str, theme: Theme = "light") -> str:
    """The colour of a name, or of `dram/20`: 20% of the colour `dram` over the colour of the card."""
    own, _, part = name.partition("/")
    return mixed(colour("card", theme), colour(own, theme), int(part) / 100) if part else colour(own, theme)


def luminance(text: str) -> float:
    """Relative luminance of WCAG 2, 0 to 1."""
    red, green, blue = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in (c / 255 for c in channels(text)))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    """Contrast ratio of WCAG 2, 1 to 21."""
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def text_on(fill: str) -> str:
    """The colour of text on a fill: the light or the dark colour, whichever has the higher contrast."""
    return max(map(str, tokens()["text"].values()), key=lambda one: contrast(one, fill))


def resource_of(name: str) -> str:
    """The resource of a unit, a component, an opcode or a group of `trace why`; `control` for anything else."""
    lowered = name.lower()
    return next((resource for pattern, resource in _KINDS if re.search(pattern, lowered)), "control")


#: The first entry that matches a name in lower case decides.
_KINDS = (
    (r"^(dram|hbm|write-back)|hbm_ctrl", "dram"),
    (r"^(noc|link|llc|cache)|\.llc$|ucie|pcie|-r\d|_noc|^sip\d+-", "link"),
    (r"bank|^(spm|sram|banks)|\.(spm|sram|pe_tcm)$", "sram"),
    (r"^dma|pe_dma|fetch_store|load_tile|store_tile|^kv_|^bandwidth$", "dma"),
    (r"^te(\d|_|$| )|pe_gemm|gemm", "te"),
    (r"^ve(\d|_|$| )|pe_math|math", "ve"),
    (r"^queues?$|^slot|ipcq", "queue"),
)


def cause_look(cause: str, resource: str) -> tuple[str, str]:
    """The resource whose hue a cause has, and the fill of the cause: `solid` (work) or `hatch` (a wait)."""
    values = tokens()["cause"].get(cause, {"resource": "own", "fill": "hatch"})
    return (resource_of(resource) if values["resource"] == "own" else values["resource"]), values["fill"]


def label_colours(labels: Sequence[str], axis: str, shares: Mapping[str, float] | None = None,
                  theme: Theme = "light") -> list[str]:  # fmt: skip
    """A colour for each label. An opcode has the colour of its engine, and a phase of the planner has its own slot. The other
    labels get the remaining slots in order of their shares, the highest first; labels without a slot are `other`."""
    if axis == "opcode":
        return [opcode_colour(label, theme) for label in labels]
    found, colours = label_slots(labels, axis, shares), slots(theme)
    return [colours[found[label] - 1] if label in found else colour("other", theme) for label in labels]


def label_slots(labels: Sequence[str], axis: str, shares: Mapping[str, float] | None = None) -> dict[str, int]:
    """The slot of each label that has one."""
    fixed = tokens()["phase"] if axis == "phase" else {}
    found = {label: int(fixed[label]) for label in labels if label in fixed}
    free = [slot for slot in range(1, SLOTS + 1) if slot not in found.values()]
    given = shares or {}
    rest = sorted((label for label in labels if label not in found and label != NONE), key=lambda one: -given.get(one, 0))
    return found | dict(zip(rest, free, strict=False))


def opcode_colour(opcode: str, theme: Theme = "light") -> str:
    """The hue of the engine; the colour of a store is nearer to that of the lane."""
    if opcode == NONE:
        return colour("other", theme)
    own = colour(resource_of(opcode), theme)
    return mixed(own, colour("lane", theme), _STORE) if "STORE" in opcode.upper() else own
