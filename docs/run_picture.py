"""Draws one run as a picture for README and the landing page: what it took, what ran when, and where the cycles went.

    python docs/run_picture.py      # writes docs/_static/run_*.svg, which README shows

The run is `COMMAND`. Cycles, sentence and shares come from its trace, so the picture cannot differ from the simulator.
The picture has two forms, because the text of the wide one is too small on a phone.
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
LANES = (("dma0", "dma", 40), ("te0", "te", 24), ("ve0", "ve", 24), ("dram.ch0", "dram", 40))  #: track, colour, height
GAP = 8  #: between lanes
PHONE = "(max-width: 700px)"  #: windows in which pages show the narrow form; docs.css has the same width
LEAST = Fraction(1, 100)  #: share of the run that a group must have to be in the key


@dataclass(frozen=True, kw_only=True)
class Form:
    """Sizes and places in pixels; `text` and `label` are sizes of the token file."""

    name: str
    width: int
    height: int
    margin: int
    left: int  #: of the lanes
    top: int  #: of the lanes
    bar: int  #: top of the bar of causes
    text: str
    label: str
    command: tuple[int, ...]  #: baselines of the lines of the command
    cycles: int  #: baseline of the headline
    sentence: int  #: baseline; beside the headline or below it
    labels: int  #: most labels of the axis
    keys: int  #: columns of the key

    @property
    def right(self) -> int:
        return self.width - self.margin


#: At 1024 px the documentation shows the wide form at 5/6 of its size: its smallest text is 12.5 px there.
WIDE = Form(name="run", width=880, height=400, margin=24, left=112, top=112, bar=328, text="section", label="section",
            command=(36,), cycles=82, sentence=82, labels=7, keys=4)  # fmt: skip
NARROW = Form(name="run_narrow", width=360, height=432, margin=16, left=88, top=132, bar=346, text="dense", label="label",
             command=(28, 46), cycles=88, sentence=114, labels=4, keys=2)  # fmt: skip
FORMS = (WIDE, NARROW)


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
    return {f"{form.name}_{theme}.svg": _svg(shown, form, theme) for form in FORMS for theme in THEMES}


def landing(shown: Shown) -> str:
    """The picture as the landing page has it: in both themes and both forms, linked to the report. MyST text."""
    text = escape(f"{answer(shown)} Open the report of this run.")
    return "\n".join(
        f'<div class="run only-{theme}"><a href="{PAGE}"><picture>\n'
        f'<source media="{PHONE}" srcset="{NARROW.name}_{theme}.svg">\n'
        f'<img alt="{text}" src="{WIDE.name}_{theme}.svg">\n'
        "</picture></a></div>\n"
        for theme in THEMES
    )


def answer(shown: Shown) -> str:
    """The run in one sentence: also what the picture says to those who cannot see it."""
    return f"{_command()} takes {shown.timeline.last:,} cycles; {_first(shown.why)}."


def _command() -> str:
    return f"kbsim {' '.join(COMMAND)}"


def _first(why: Why) -> str:
    """The first part of the sentence of `kbsim trace why`, without names of resources."""
    return why.sentence.split(";")[0].split(":")[0]


def _svg(shown: Shown, form: Form, theme: Theme) -> str:
    width, height = form.width, form.height
    head = f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" viewBox="0 0 {width} {height}" '
    head += f'role="img" font-family="{_font("sans")}" font-size="{_size(form.text)}" fill="{colour("ink", theme)}">'
    return "\n".join((head, f"<title>{escape(answer(shown))}</title>", *_parts(shown, form, theme), "</svg>")) + "\n"


def _parts(shown: Shown, form: Form, theme: Theme) -> Iterator[str]:
    yield from (_hatch(name, colour(name, theme)) for name in tokens()["resource"])
    card, line = colour("card", theme), colour("line", theme)
    yield f'<rect x="0.5" y="0.5" width="{form.width - 1}" height="{form.height - 1}" rx="8" fill="{card}" stroke="{line}"/>'
    lines = _command_lines(len(form.command))
    for y, text in zip(form.command, lines, strict=True):
        yield _text(form.margin, y, text, fill=colour("soft", theme), font_family=_font("mono"))
    bold = tokens()["weight"]["bold"]
    yield _text(form.margin, form.cycles, f"{shown.timeline.last:,} cycles", font_size=_size("headline"), font_weight=bold)
    beside = form.sentence == form.cycles
    place, anchor = (form.right, "end") if beside else (form.margin, "start")
    yield _text(place, form.sentence, _first(shown.why), font_size=_size("section"), text_anchor=anchor)
    yield from _lanes(shown.timeline, form, theme)
    yield from _where(shown, form, theme)


def _command_lines(count: int) -> list[str]:
    """The command, on two lines where it has no room on one."""
    if count == 1:
        return [f"$ {_command()}"]
    before, option, value = _command().rpartition(" --config ")
    return [f"$ {before} \\", f"{option.strip()} {value}"]


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


def _lanes(timeline: Timeline, form: Form, theme: Theme) -> Iterator[str]:
    y, wide, soft = form.top, form.right - form.left, colour("soft", theme)
    for name, hue, height in LANES:
        yield f'<rect x="{form.left}" y="{y}" width="{wide}" height="{height}" fill="{colour("head", theme)}"/>'
        yield _text(form.margin, y + height / 2 + 5, name, font_family=_font("mono"))
        boxes = _bandwidth(timeline, name) if hue == "dram" else _jobs(timeline, name)
        yield f'<path fill="{colour(hue, theme)}" d="{_path(boxes, form, y, height)}"/>'
        y += height + GAP
    y += _size(form.label)
    for cycle in range(0, timeline.last, _step(timeline.last, form.labels)):
        x = form.left + wide * cycle / timeline.last
        anchor = "start" if cycle == 0 else "middle"
        yield _text(x, y, f"{cycle:,}", font_size=_size(form.label), fill=soft, text_anchor=anchor)
    yield _text(form.margin, y, "cycle", font_size=_size(form.label), fill=soft)


def _step(cycles: int, most: int) -> int:
    """A round number of cycles between labels of the axis, at most `most` of them."""
    size: int = 10 ** (len(str(cycles)) - 1)
    return next(step for step in (size // 5, size // 2, size, 2 * size, 5 * size) if step > 0 and cycles <= most * step)


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


def _path(boxes: Iterable[Box], form: Form, top: int, height: int) -> str:
    """Boxes as one path, to a tenth of a pixel; a gap of half a pixel between rows, and no box narrower than 0.8 pixels."""
    found, room = [], form.right - form.left
    for left, width, above, part in boxes:
        x, wide = form.left + left * room, max(width * room, Fraction(4, 5))
        tall = part * height - (Fraction(1, 2) if part < Fraction(1, 2) else 0)
        found.append(f"M{_tenth(x)} {_tenth(top + above * height)}h{_tenth(wide)}v{_tenth(tall)}h-{_tenth(wide)}z")
    return "".join(found)


def _tenth(value: Fraction) -> str:
    tenths = round(value * 10)
    return f"{tenths // 10}" if tenths % 10 == 0 else f"{tenths // 10}.{tenths % 10}"


def _where(shown: Shown, form: Form, theme: Theme) -> Iterator[str]:
    """The bar of causes and its key."""
    cycles, bar, label, room = shown.timeline.last, form.bar, _size(form.label), form.right - form.margin
    yield _text(form.margin, bar - 10, "Where the cycles went", font_weight=tokens()["weight"]["bold"])
    soft = colour("soft", theme)
    yield _text(form.right, bar - 10, "solid: work, hatched: waiting", font_size=label, fill=soft, text_anchor="end")
    x = Fraction(form.margin)
    for (_, hue, wait), spent in _causes(shown.why).items():
        width = spent / cycles * room
        fill = f"url(#wait-{hue})" if wait else colour(hue, theme)
        yield f'<rect x="{_tenth(x)}" y="{bar}" width="{_tenth(width)}" height="22" fill="{fill}"/>'
        x += width
    for place, group in enumerate(group for group in shown.why.groups if group.cycles >= LEAST * cycles):
        row, column = divmod(place, form.keys)
        left, y = form.margin + column * room // form.keys, bar + 50 + 20 * row
        yield f'<rect x="{left}" y="{y - 11}" width="12" height="12" rx="2" fill="{colour(resource_of(group.name), theme)}"/>'
        yield _text(left + 18, y, f"{group.name} {float(group.cycles / cycles):.0%}")


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
