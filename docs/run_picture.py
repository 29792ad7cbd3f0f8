"""Draws one run as a picture for README and the landing page: what it took, what ran when, and where the cycles went.

    python docs/run_picture.py      # writes docs/_static/run_light.svg and run_dark.svg, which README shows

The run is `COMMAND`. Cycles, sentence and shares come from its trace, so the picture cannot differ from the simulator.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from html import escape
from pathlib import Path

from kernbench.cli.main import exit_code
from kernbench.common.look.palette import THEMES, Theme, cause_look, colour, resource_of, tokens
from kernbench.trace.reader import open_trace
from kernbench.trace.timeline import Timeline, read_timeline
from kernbench.trace.why import Why, explain

COMMAND = ("run", "llama2-7b-decode", "--config", "npu_server")
PAGE = "llama2-7b-decode.html"  #: the report of this run
STORED = Path(__file__).parent / "_static"
WIDTH, HEIGHT = 880, 400
LEFT, RIGHT = 112, 856  #: of the plots
LANES = (("dma0", "dma", 40), ("te0", "te", 24), ("ve0", "ve", 24), ("dram.ch0", "dram", 40))  #: track, colour, height
TOP, GAP = 112, 8  #: of the lanes
BAR = 328  #: top of the bar of causes
LEAST = Fraction(1, 100)  #: share of the run that a group must have to be in the key


@dataclass(frozen=True)
class Shown:
    """What the picture shows of a run."""

    timeline: Timeline
    why: Why
    page: str  #: the report, an HTML page


def shown_run() -> Shown:
    """Run `COMMAND` once, with a trace and its report."""
    with tempfile.TemporaryDirectory() as folder:
        trace, page = Path(folder) / "run.jsonl", Path(folder) / PAGE
        command = [*COMMAND, "--trace", str(trace), "--trace-level", "full", "--report", str(page), "--quiet"]
        code = exit_code(command)
        if code != 0:
            raise RuntimeError(f"kbsim {' '.join(command)} ended with exit code {code}")
        opened = open_trace(str(trace))
        return Shown(read_timeline(opened), explain(opened), page.read_text(encoding="utf-8"))


def run_pictures(shown: Shown) -> dict[str, str]:
    """File name: SVG."""
    return {f"run_{theme}.svg": _svg(shown, theme) for theme in THEMES}


def landing(shown: Shown) -> str:
    """The picture as the landing page has it: in both themes, linked to the report. MyST text."""
    text = f"{answer(shown)} Open the report of this run."
    options = f":alt: {text}\n:target: {PAGE}\n"
    return (
        "\n\n".join(f"```{{image}} _generated/run_{theme}.svg\n{options}:class: only-{theme}\n```" for theme in THEMES) + "\n"
    )


def answer(shown: Shown) -> str:
    """The run in one sentence: also what the picture says to those who cannot see it."""
    return f"{_command()} takes {shown.timeline.last:,} cycles; {_first(shown.why)}."


def _command() -> str:
    return f"kbsim {' '.join(COMMAND)}"


def _first(why: Why) -> str:
    """The first part of the sentence of `kbsim trace why`, without names of resources."""
    return why.sentence.split(";")[0].split(":")[0]


def _svg(shown: Shown, theme: Theme) -> str:
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" viewBox="0 0 {WIDTH} {HEIGHT}" '
    head += f'role="img" font-family="{_font("sans")}" font-size="{_size("body")}" fill="{colour("ink", theme)}">'
    return "\n".join((head, f"<title>{escape(answer(shown))}</title>", *_parts(shown, theme), "</svg>")) + "\n"


def _parts(shown: Shown, theme: Theme) -> Iterator[str]:
    yield from (_hatch(name, colour(name, theme)) for name in tokens()["resource"])
    card, line = colour("card", theme), colour("line", theme)
    yield f'<rect x="0.5" y="0.5" width="{WIDTH - 1}" height="{HEIGHT - 1}" rx="8" fill="{card}" stroke="{line}"/>'
    yield _text(24, 36, f"$ {_command()}", fill=colour("soft", theme), font_family=_font("mono"))
    yield _text(24, 82, f"{shown.timeline.last:,} cycles", font_size=_size("headline"), font_weight=tokens()["weight"]["bold"])
    yield _text(RIGHT, 82, _first(shown.why), font_size=_size("section"), text_anchor="end")
    yield from _lanes(shown.timeline, theme)
    yield from _where(shown, theme)


def _size(use: str) -> int:
    return int(tokens()["type"][use])


def _font(kind: str) -> str:
    return str(tokens()["font"][kind]).replace('"', "'")


def _hatch(name: str, hue: str) -> str:
    """Waiting: stripes at 45 degrees."""
    told = tokens()["hatch"]
    size, stripe = told["period"], told["stripe"]
    stripes = f'<rect width="{size}" height="{size}" fill="{hue}" opacity="{told["ground"]}"/>'
    stripes += f'<rect width="{stripe}" height="{size}" fill="{hue}"/>'
    turned = 'patternUnits="userSpaceOnUse" patternTransform="rotate(45)"'
    return f'<pattern id="wait-{name}" width="{size}" height="{size}" {turned}>{stripes}</pattern>'


def _lanes(timeline: Timeline, theme: Theme) -> Iterator[str]:
    y = TOP
    for name, hue, height in LANES:
        yield f'<rect x="{LEFT}" y="{y}" width="{RIGHT - LEFT}" height="{height}" fill="{colour("head", theme)}"/>'
        yield _text(24, y + height / 2 + 5, name, font_family=_font("mono"))
        boxes = _bandwidth(timeline, name) if hue == "dram" else _jobs(timeline, name)
        yield f'<path fill="{colour(hue, theme)}" d="{_path(boxes, y, height)}"/>'
        y += height + GAP
    for cycle in range(0, timeline.last, _step(timeline.last)):
        x = LEFT + (RIGHT - LEFT) * cycle / timeline.last
        anchor = "start" if cycle == 0 else "middle"
        yield _text(x, y + 10, f"{cycle:,}", font_size=_size("label"), fill=colour("soft", theme), text_anchor=anchor)
    yield _text(24, y + 10, "cycle", font_size=_size("label"), fill=colour("soft", theme))


def _step(cycles: int) -> int:
    """A round number of cycles between labels of the axis, at most seven of them."""
    size: int = 10 ** (len(str(cycles)) - 1)
    return next(step for step in (size // 5, size // 2, size, 2 * size) if step > 0 and cycles <= 7 * step)


Box = tuple[Fraction, Fraction, Fraction, Fraction]  #: left, width, top and height, as parts of the lane


def _jobs(timeline: Timeline, unit: str) -> Iterator[Box]:
    """The jobs of an engine; jobs side by side share the height of the lane."""
    spans, last = timeline.spans, timeline.last
    mine = spans["unit"] == [one.name for one in timeline.units].index(unit)
    jobs = [tuple(map(int, job)) for job in zip(spans["start"][mine], spans["end"][mine], spans["row"][mine], strict=True)]
    rows = 1 + max(row for _, _, row in jobs)
    for start, end, row in jobs:
        yield Fraction(start, last), Fraction(end - start, last), Fraction(row, rows), Fraction(1, rows)


def _bandwidth(timeline: Timeline, unit: str) -> Iterator[Box]:
    """The bytes of a DRAM channel in each window, as a share of its capacity."""
    place = [one.name for one in timeline.units].index(unit)
    capacity = Fraction(str(timeline.units[place].facts["capacity"]))
    samples = timeline.samples["BANDWIDTH_SAMPLE"]
    mine = samples["unit"] == place
    columns = (samples[name][mine] for name in ("t_cycle", "window_cycles", "read_bytes", "write_bytes"))
    for end, window, read, written in zip(*columns, strict=True):
        share = Fraction(int(read) + int(written)) / (capacity * int(window))
        left = Fraction(int(end) + 1 - int(window), timeline.last)
        yield left, Fraction(int(window), timeline.last), 1 - share, share


def _path(boxes: Iterable[Box], top: int, height: int) -> str:
    """Boxes as one path, to a tenth of a pixel; a gap of half a pixel between rows, and no box narrower than 0.8 pixels."""
    found = []
    for left, width, above, part in boxes:
        x, wide = LEFT + left * (RIGHT - LEFT), max(width * (RIGHT - LEFT), Fraction(4, 5))
        tall = part * height - (Fraction(1, 2) if part < Fraction(1, 2) else 0)
        found.append(f"M{_tenth(x)} {_tenth(top + above * height)}h{_tenth(wide)}v{_tenth(tall)}h-{_tenth(wide)}z")
    return "".join(found)


def _tenth(value: Fraction) -> str:
    tenths = round(value * 10)
    return f"{tenths // 10}" if tenths % 10 == 0 else f"{tenths // 10}.{tenths % 10}"


def _where(shown: Shown, theme: Theme) -> Iterator[str]:
    """The bar of causes and its key."""
    cycles = shown.timeline.last
    groups = [group for group in shown.why.groups if group.cycles >= LEAST * cycles]
    yield _text(24, BAR - 10, "Where the cycles went", font_weight=tokens()["weight"]["bold"])
    yield _text(
        RIGHT,
        BAR - 10,
        "solid: work, hatched: waiting",
        font_size=_size("label"),
        fill=colour("soft", theme),
        text_anchor="end",
    )
    x = Fraction(24)
    for (_, hue, wait), spent in _causes(shown.why).items():
        width = spent / cycles * (RIGHT - 24)
        fill = f"url(#wait-{hue})" if wait else colour(hue, theme)
        yield f'<rect x="{_tenth(x)}" y="{BAR}" width="{_tenth(width)}" height="22" fill="{fill}"/>'
        x += width
    left = 24
    for group in groups:
        hue = resource_of(group.name)
        yield f'<rect x="{left}" y="{BAR + 38}" width="12" height="12" rx="2" fill="{colour(hue, theme)}"/>'
        yield _text(left + 18, BAR + 49, f"{group.name} {float(group.cycles / cycles):.0%}", font_size=_size("dense"))
        left += 190


def _causes(why: Why) -> dict[tuple[int, str, bool], Fraction]:
    """[cycle] of the critical path by resource, the largest first, and there by work and wait: (place, resource, wait)."""
    spent: dict[tuple[str, bool], Fraction] = {}
    for cost in why.costs:
        hue, fill = cause_look(cost.cause, cost.resource)
        spent[hue, fill == "hatch"] = spent.get((hue, fill == "hatch"), Fraction(0)) + cost.cycles
    whole = {hue: sum(spent.get((hue, wait), Fraction(0)) for wait in (False, True)) for hue, _ in spent}
    order = sorted(whole, key=lambda hue: -whole[hue])
    return {
        (order.index(hue), hue, wait): spent[hue, wait]
        for hue, wait in sorted(spent, key=lambda one: (order.index(one[0]), one[1]))
    }


def _text(x: float, y: float, text: str, **style: str | float) -> str:
    more = "".join(f' {name.replace("_", "-")}="{value}"' for name, value in style.items())
    return f'<text x="{x:g}" y="{y:g}"{more}>{escape(text)}</text>'


if __name__ == "__main__":
    for file_name, picture in run_pictures(shown_run()).items():
        (STORED / file_name).write_text(picture, encoding="utf-8")
