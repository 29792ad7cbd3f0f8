"""The tokens: told apart by four kinds of sight, legible in both themes, and the only place where a colour is written."""

from __future__ import annotations

import re
from itertools import combinations
from math import atan2, cos, degrees, exp, hypot, radians, sin, sqrt

import numpy as np
import pytest

from kernbench.common.look.palette import (
    THEMES,
    Theme,
    cause_look,
    channels,
    colour,
    contrast,
    label_colours,
    ramp,
    resource_of,
    slots,
    text_on,
    tokens,
)
from kernbench.trace.why.causes import CAUSES, WORK
from tests.meta.source import ROOT, needs_source

APART = 10  #: least CIEDE2000 between two resources
RESOURCES = ("dma", "te", "ve", "dram", "sram", "link", "queue", "control")
#: Machado, Oliveira and Fernandes (2009), full severity, on linear RGB.
SIGHTS = {
    "normal": np.eye(3),
    "deutan": np.array([[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]]),
    "protan": np.array([[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]]),
    "tritan": np.array([[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]]),
}
Lab = tuple[float, float, float]
#: A colour or a size of text that is written down: `#fff`, `rgb(0 0 0)`, `color: red`, `"bold red"`, `font-size: 12px`.
NAMES = r"(?:white|black|red|green|blue|gr[ae]y|orange|yellow|purple|cyan|magenta|pink|silver|navy|teal)"
WRITTEN = {
    ".css": re.compile(
        rf"#[0-9a-fA-F]{{3,8}}\b(?=[^{{]*}})|\b(?:rgb|hsl)a?\(\s*\d"
        rf"|:[^;{{}}]*\b{NAMES}\b(?!-)|\bfont(?:-size)?:[^;]*\d(?:px|em|rem)"
    ),
    ".js": re.compile(rf"[\"'`]#[0-9a-fA-F]{{3,8}}\b|\b(?:rgb|hsl)a?\(\s*\d|[\"'`]{NAMES}[\"'`]|\b\d+px [a-z\"]"),
    ".py": re.compile(
        rf"[\"'=:]#(?:[0-9a-fA-F]{{3}}){{1,2}}\b|\b(?:rgb|hsl)a?\(\s*\d"
        rf"|[\"'](?:bold |dim )?{NAMES}[\"']|[\"']tab:|[\"']C\d[\"']|cmap=[\"']"
    ),
    ".html": re.compile(rf"=[\"']#[0-9a-fA-F]{{3,8}}\b|\b(?:rgb|hsl)a?\(\s*\d|:\s*{NAMES}\b"),
}


def lab(text: str, sight: str = "normal") -> Lab:
    """CIELAB (D65) of a colour as a kind of sight has it."""
    rgb = np.array(channels(text)) / 255
    linear = np.where(rgb <= 0.04045, rgb / 12.92, ((rgb + 0.055) / 1.055) ** 2.4)
    linear = np.clip(SIGHTS[sight] @ linear, 0, 1)
    matrix = np.array([[0.4124564, 0.3575761, 0.1804375], [0.2126729, 0.7151522, 0.0721750], [0.0193339, 0.1191920, 0.9503041]])
    x, y, z = (matrix @ linear) / (0.95047, 1.0, 1.08883)
    fx, fy, fz = (v ** (1 / 3) if v > 216 / 24389 else (24389 / 27 * v + 16) / 116 for v in (x, y, z))
    return 116 * fy - 16, 500 * (fx - fy), 200 * (fy - fz)


def ciede2000(one: Lab, other: Lab) -> float:
    """The colour difference of CIE 142-2001."""
    l1, a1, b1 = one
    l2, a2, b2 = other
    mean = (hypot(a1, b1) + hypot(a2, b2)) / 2
    g = 0.5 * (1 - sqrt(mean**7 / (mean**7 + 25.0**7)))
    a1, a2 = a1 * (1 + g), a2 * (1 + g)
    c1, c2 = hypot(a1, b1), hypot(a2, b2)
    h1, h2 = (degrees(atan2(b, a)) % 360 if (a or b) else 0.0 for a, b in ((a1, b1), (a2, b2)))
    dl, dc = l2 - l1, c2 - c1
    turn = h2 - h1
    turn = 0.0 if c1 * c2 == 0 else turn - 360 if turn > 180 else turn + 360 if turn < -180 else turn
    dh = 2 * sqrt(c1 * c2) * sin(radians(turn) / 2)
    ml, mc = (l1 + l2) / 2, (c1 + c2) / 2
    if c1 * c2 == 0:
        mh = h1 + h2
    elif abs(h1 - h2) <= 180:
        mh = (h1 + h2) / 2
    else:
        mh = (h1 + h2 + 360) / 2 if h1 + h2 < 360 else (h1 + h2 - 360) / 2
    t = (
        1 - 0.17 * cos(radians(mh - 30)) + 0.24 * cos(radians(2 * mh)) + 0.32 * cos(radians(3 * mh + 6))
        - 0.20 * cos(radians(4 * mh - 63))
    )  # fmt: skip
    sl = 1 + 0.015 * (ml - 50) ** 2 / sqrt(20 + (ml - 50) ** 2)
    sc, sh = 1 + 0.045 * mc, 1 + 0.015 * mc * t
    rotation = -2 * sqrt(mc**7 / (mc**7 + 25.0**7)) * sin(radians(60 * exp(-(((mh - 275) / 25) ** 2))))
    return sqrt((dl / sl) ** 2 + (dc / sc) ** 2 + (dh / sh) ** 2 + rotation * (dc / sc) * (dh / sh))


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((50, 2.6772, -79.7751), (50, 0, -82.7485), 2.0425),
        ((50, -1.3802, -84.2814), (50, 0, -82.7485), 1.0000),
        ((50, 2.5, 0), (61, -5, 29), 22.8977),
        ((2.0776, 0.0795, -1.1350), (0.9033, -0.0636, -0.5514), 0.9082),
    ],
)
def test_the_difference_is_that_of_the_published_pairs(one: Lab, other: Lab, expected: float) -> None:
    """Pairs 1, 4, 17 and 34 of the data of Sharma, Wu and Dalal (2005)."""
    assert ciede2000(one, other) == pytest.approx(expected, abs=1e-4)


@pytest.mark.parametrize("sight", SIGHTS)
@pytest.mark.parametrize("theme", THEMES)
def test_resources_are_told_apart(theme: Theme, sight: str) -> None:
    places = {name: lab(colour(name, theme), sight) for name in RESOURCES}
    near = {(a, b): ciede2000(places[a], places[b]) for a, b in combinations(RESOURCES, 2)}
    closest = min(near, key=lambda pair: near[pair])
    assert near[closest] >= APART, f"{closest}: {near[closest]:.1f}"


@pytest.mark.parametrize("theme", THEMES)
def test_fills_and_edges_stand_out_and_text_is_legible(theme: Theme) -> None:
    for name in RESOURCES:
        assert contrast(colour(name, theme), colour("lane", theme)) >= 3, name
        assert contrast(text_on(colour(name, theme)), colour(name, theme)) >= 4.5, name
    for ground in ("page", "card", "raised", "lane", "head"):
        assert contrast(colour("edge", theme), colour(ground, theme)) >= 3, ground
        for text in ("ink", "soft", "faint", "accent", "good", "warn", "fail"):
            assert contrast(colour(text, theme), colour(ground, theme)) >= 4.5, (text, ground)
    assert contrast(colour("accent", theme), colour("accent-soft", theme)) >= 4.5


@pytest.mark.parametrize("theme", THEMES)
def test_ramps_rise_or_fall_in_lightness(theme: Theme) -> None:
    for name in tokens()["ramp"][theme]:
        lightness = [lab(stop)[0] for stop in ramp(name, theme)]
        assert lightness in (sorted(lightness), sorted(lightness, reverse=True)), name


def test_every_cause_has_a_hue_and_a_fill() -> None:
    assert set(tokens()["cause"]) == set(CAUSES)
    assert cause_look("share", "dram.ch0") == ("dram", "hatch") and cause_look("work", "te2") == ("te", "solid")
    assert cause_look("bank", "spm") == ("sram", "hatch") and cause_look("head", "dma0") == ("control", "solid")
    assert all(cause_look(cause, "te0")[1] == "solid" for cause in WORK)


@pytest.mark.parametrize(
    ("name", "resource"),
    [
        ("dram.ch3", "dram"), ("DRAM bandwidth", "dram"), ("sip0.cube0.hbm_ctrl", "dram"), ("noc.r1c1-r2c1", "link"),
        ("link bandwidth", "link"), ("te0", "te"), ("TE work", "te"), ("TE_GEMM_TILE", "te"), ("ve1", "ve"),
        ("DMA_LOAD_TILE", "dma"), ("KV_STORE_TILE", "dma"), ("sip0.cube0.pe0.pe_dma", "dma"), ("sip0.cube0.pe0.pe_gemm", "te"),
        ("sip0.cube0.pe0.pe_math", "ve"), ("bank conflicts", "sram"), ("spm", "sram"), ("queues", "queue"),
        ("head latency", "control"), ("control", "control"), ("BARRIER", "control"),
    ],
)  # fmt: skip
def test_names_have_the_hue_of_their_resource(name: str, resource: str) -> None:
    assert resource_of(name) == resource


def test_labels_take_slots_by_share_and_the_rest_is_other() -> None:
    names = [f"t{i}" for i in range(9)]
    found = label_colours(names, "tenant", {name: float(i) for i, name in enumerate(names)})
    assert found[8] == slots()[0] and found[2] == slots()[6] and found[0] == found[1] == colour("other")
    phases = label_colours(["X", "MLP_DOWN", "none"], "phase", {"X": 1.0})
    assert phases == [slots()[0], slots()[6], colour("other")]
    loads, stores, none = label_colours(["DMA_LOAD_TILE", "DMA_STORE_TILE", "none"], "opcode")
    assert loads == colour("dma") != stores and none == colour("other")


@needs_source
def test_nothing_but_the_token_file_writes_a_colour_or_a_size_of_text() -> None:
    files = [path for folder in ("kernbench", "docs") for path in (ROOT / folder).rglob("*") if path.suffix in WRITTEN]
    own = [path for path in files if not {"_build", "_generated"} & set(path.parts)]
    found = [
        f"{path.relative_to(ROOT)}:{number}: {match[0]}"
        for path in own
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if (match := WRITTEN[path.suffix].search(line))
    ]
    assert found == []
    assert len(own) > 300


@pytest.mark.parametrize(
    ("ending", "line"),
    [
        (".css", "a { color: #fff; }"), (".css", "a { background: rgb(0 0 0 / 50%); }"), (".css", "b { color: red; }"),
        (".css", "p { font-size: 9px; }"), (".css", "p { font: 13px/1.4 system-ui; }"), (".js", 'context.fillStyle = "#fff";'),
        (".js", 'context.font = "11px system-ui";'), (".py", 'INK = "#1a1e24"'), (".py", 'Text(name, "bold red")'),
        (".py", 'axes.imshow(data, cmap="viridis")'), (".html", '<p style="color: white">'),
    ],
)  # fmt: skip
def test_a_colour_or_size_that_is_written_down_is_found(ending: str, line: str) -> None:
    assert WRITTEN[ending].search(line)


def test_stored_pictures_have_colours_of_the_tokens_alone() -> None:
    known = {value.lower() for value in re.findall(r"#[0-9a-fA-F]{6}", str(tokens()))}
    for path in (ROOT / "docs" / "_static").glob("*.svg"):
        assert set(re.findall(r"#[0-9a-f]{6}\b", path.read_text(encoding="utf-8"))) <= known, path.name
