"""Two traces in one page: their pages on one time axis, one above the other, and the reasons why the second run takes
longer."""

from __future__ import annotations

import base64
import html
from collections.abc import Iterator, Sequence
from fractions import Fraction
from typing import Any

from kernbench.common.errors import InputError
from kernbench.common.look.css import look_js, page_css
from kernbench.common.look.page import page_html, page_json
from kernbench.trace.report import page_script, part, report_html
from kernbench.trace.report.views import exact
from kernbench.trace.timeline import Timeline
from kernbench.trace.why import Why

LEAST = Fraction(1, 200)  #: share of the longer run; smaller changes are not named
MAX_SETTINGS = 4  #: the most keys of machines that are listed
MAX_VALUE = 40  #: the most characters of a value


def pair_html(timelines: Sequence[Timeline], whys: Sequence[Why | InputError | None]) -> bytes:
    """The whole page in UTF-8. `whys`: for each trace, the result of `explain` or the error that says why there is none."""
    pages = [report_html(timeline, why, embedded=True) for timeline, why in zip(timelines, whys, strict=True)]
    script = '"use strict";\n(() => {\n' + look_js() + part("text.js") + part("pair.js") + "})();\n"
    head = {
        "runs": [_run(timeline, why) for timeline, why in zip(timelines, whys, strict=True)],
        "sentence": sentence(timelines, whys),
        "settings": differences(timelines),
    }
    values = {
        "HEAD": page_json(head),
        "A": base64.b64encode(pages[0]).decode(),
        "B": base64.b64encode(pages[1]).decode(),
        "SCRIPT": script,
    }
    return page_html(
        part("pair.html"),
        values,
        title=html.escape(" and ".join(_name(timeline) for timeline in timelines) + " - kernbench traces"),
        style=page_css() + part("pair.css") + "\n",
        scripts=[script, page_script()],  # the policy of the outer page also applies to the pages inside
    )


def _name(timeline: Timeline) -> str:
    return "".join(c if c.isprintable() else "?" for c in str(timeline.meta["program"])[:60])


def _cycles(timeline: Timeline) -> int:
    return int(timeline.last - timeline.first)


def _run(timeline: Timeline, why: Why | InputError | None) -> dict[str, Any]:
    """The data of a run that the outer page shows: its name, its length, and its cycles by group."""
    groups = why.groups if isinstance(why, Why) else ()
    return {
        "name": _name(timeline),
        "status": (timeline.end or {}).get("status", "cut off"),
        "freq": str(timeline.meta["freq_ghz"]),
        "cycles": _cycles(timeline),
        "groups": [
            {"name": one.name, "cycles": float(one.cycles), "waiting": float(one.waiting)} for one in groups
        ],
    }


def sentence(timelines: Sequence[Timeline], whys: Sequence[Why | InputError | None]) -> str:
    """The sentence that says how much longer the second run takes, and for what."""
    clocks = [exact(timeline.meta["freq_ghz"]) or Fraction(1) for timeline in timelines]
    unit, lengths = "cycles", [Fraction(_cycles(timeline)) for timeline in timelines]
    if clocks[0] != clocks[1]:
        unit, lengths = "ns", [length / clock for length, clock in zip(lengths, clocks, strict=True)]
    by = lengths[1] - lengths[0]
    if not by:
        return f"A and B take equally long: {float(lengths[0]):,.0f} {unit}."
    share = f" ({float(abs(by) / lengths[0]):.1%})" if lengths[0] else ""
    text = f"B takes {float(abs(by)):,.0f} {unit}{share} {'more' if by > 0 else 'less'} than A"
    changes = _changes(whys) if unit == "cycles" else {}
    named = [name for name in changes if abs(changes[name]) >= LEAST * max(lengths)][:3]
    if named:
        text += ": " + ", ".join(f"{name} {float(changes[name]):+,.0f}" for name in named)
    return text + "."


def differences(timelines: Sequence[Timeline]) -> list[str]:
    """The keys of the machines that differ, as `dram.channels 8 \u2192 4`; the last text counts the other keys."""
    first, second = (dict(_leaves(timeline.meta.get("sim_config", {}), "")) for timeline in timelines)
    found = [
        f"{path} {_text(first.get(path))} \u2192 {_text(second.get(path))}"
        for path in dict.fromkeys([*first, *second])
        if first.get(path) != second.get(path)
    ]
    return found if len(found) <= MAX_SETTINGS else [*found[:MAX_SETTINGS], f"{len(found) - MAX_SETTINGS} more keys"]


def _leaves(value: Any, path: str) -> Iterator[tuple[str, Any]]:
    """The keys below a key, with their values; a list is one value."""
    if not isinstance(value, dict):
        yield path, value
        return
    for name, inner in value.items():
        yield from _leaves(inner, f"{path}.{name}" if path else name)


def _text(value: Any) -> str:
    return "none" if value is None else str(value)[:MAX_VALUE]


def _changes(whys: Sequence[Why | InputError | None]) -> dict[str, Fraction]:
    """[cycle] Changes by group, that is, second run minus first run, the largest change first; empty if one of the traces has
    no causes."""
    first, second = whys
    if not isinstance(first, Why) or not isinstance(second, Why):
        return {}
    sums: dict[str, Fraction] = {}
    for why, sign in ((first, -1), (second, 1)):
        for group in why.groups:
            sums[group.name] = sums.get(group.name, Fraction(0)) + sign * Fraction(group.cycles)
    return {name: sums[name] for name in sorted(sums, key=lambda name: (-abs(sums[name]), name)) if sums[name]}
