"""The page of `kbsim ccl run --report` for several sizes: bandwidths and times over sizes, a curve for each algorithm.

The result is one HTML file that loads no other file. The same rows give the same bytes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib import resources
from typing import TYPE_CHECKING

from kernbench.cli.text import size_text
from kernbench.common.json_shapes import counted
from kernbench.common.look.css import look_js, page_css
from kernbench.common.look.page import page_html, page_json

if TYPE_CHECKING:
    from kernbench.ccl.measure import CclRequest, InPlace, Row

Series = tuple[str, "CclRequest", Sequence["Row"]]  #: a name, the parameters of the runs, and their rows
SLOTS = 7  #: distinguishable colours; further curves are dashed in the same colours

_BODY = """\
<header class="top"><span class="kind">Collective</span><h1 class="title">@TITLE@</h1><span class="chip @CHIP@">@STATUS@</span>\
<span class="facts">@FACTS@</span><button id="theme" class="icon" title="Light or dark (T)" aria-label="Light or dark"></button></header>
<section class="answer" aria-label="Answer"><p class="said">@ANSWER@</p>
<div class="share" role="img" aria-label="@BARNAME@">@BAR@</div><div id="keys" class="keys" role="group" aria-label="@KEYSNAME@">@KEYS@</div></section>
<main>
<section class="card"><h2>Bus bandwidth <small>GB/s</small></h2><div class="plot" data-value="busbw"></div></section>
<section class="card"><h2>Algorithm bandwidth <small>GB/s</small></h2><div class="plot" data-value="algbw"></div></section>
<section class="card"><h2>Time <small>us, both axes logarithmic</small></h2><div class="plot" data-value="time_us"></div></section>
<section class="card wide"><h2>Rows <small>@ROWS@</small></h2><div class="scroll">@TABLE@</div></section>
</main>
<div id="tip" class="tip" hidden></div>
<script type="application/json" id="data">@DATA@</script>
<script>@SCRIPT@</script>
</body>
</html>
"""  # noqa: E501


def page_bytes(title: str, series: Sequence[Series]) -> bytes:
    """The whole page, UTF-8."""
    own, last = (resources.files("kernbench.cli").joinpath("ccl", name).read_text(encoding="utf-8") for name in FILES)
    script = '"use strict";\n(() => {\n' + look_js() + last + "})();\n"
    wrong = sum(_wrong(row) for _, _, rows in series for row in rows)
    checked = all(request.check for _, request, _ in series)
    request = series[0][1]
    values = {
        "TITLE": escape(title),
        "CHIP": "bad" if wrong else "done" if checked else "aborted",
        "STATUS": f"{counted(wrong, 'element')} wrong" if wrong else "verified" if checked else "not verified",
        "FACTS": escape(f"{request.group.shape} {request.group.arranged}, {counted(len(series), 'curve')}"),
        "ANSWER": escape(answer(series)),
        **_bar(series),
        "ROWS": counted(sum(len(rows) for _, _, rows in series), "row"),
        "TABLE": "".join(_table(series)),
        "DATA": page_json([_data(*one) for one in series]),
        "SCRIPT": script,
    }
    name = f"{escape(title)} - kernbench"
    return page_html(_BODY, values, title=name, style=page_css() + own, scripts=[script])


FILES = ("curves.css", "curves.js")


def answer(series: Sequence[Series]) -> str:
    """The highest bus bandwidth, and which algorithm is fastest at which sizes."""
    name, row = max(((name, row) for name, _, rows in series for row in rows), key=lambda one: one[1].busbw)
    said = f"The bus bandwidth reaches {row.busbw:.4g} GB/s"
    if row.size:
        said += f" at {size_text(row.size)}"
    if len(series) == 1:
        return f"{said}; the bottleneck is {row.bound}, {row.bound_share:.0%} of the time."
    parts = [f"{best} {_span(first, last)}" for best, first, last in fastest(series)]
    return f"{said} ({name}). Fastest: {', '.join(parts)}."


def _span(first: int, last: int) -> str:
    return f"at {size_text(first)}" if first == last else f"from {size_text(first)} to {size_text(last)}"


def fastest(series: Sequence[Series]) -> list[tuple[str, int, int]]:
    """Runs of consecutive sizes with the same fastest curve: its name, the first and the last size."""
    times: dict[int, list[tuple[float, int, str]]] = {}
    for place, (name, _, rows) in enumerate(series):
        for row in rows:
            times.setdefault(row.size, []).append((row.time_us, place, name))
    found: list[tuple[str, int, int]] = []
    for size in sorted(times):
        name = min(times[size])[2]
        if found and found[-1][0] == name:
            found[-1] = (name, found[-1][1], size)
        else:
            found.append((name, size, size))
    return found


def _bar(series: Sequence[Series]) -> dict[str, str]:
    """The bar below the answer, and its key: the fastest curve for each size; for a single curve, the utilisation of its
    bottleneck."""
    if len(series) > 1:
        keys = "".join(_key(place, name) for place, (name, _, _) in enumerate(series))
        bar = "".join(_segments(series))
        return {"BAR": bar, "KEYS": keys, "BARNAME": "The fastest algorithm by size", "KEYSNAME": "Curves"}
    row = max(series[0][2], key=lambda one: one.busbw)
    share, hue = row.bound_share, f"--hue:{_colour(0)}"
    busy = f"{escape(row.bound)} busy {share:.0%}"
    bar = f'<i class="solid" style="flex:{share:.6f};{hue}"></i><i style="flex:{1 - share:.6f}"></i>'
    keys = f'<span><i class="swatch solid" style="{hue}"></i> {busy}</span><span>not busy {1 - share:.0%}</span>'
    return {"BAR": bar, "KEYS": keys, "BARNAME": busy, "KEYSNAME": "Key"}


def _colour(place: int) -> str:
    return f"var(--slot-{place % SLOTS + 1})"


def _segments(series: Sequence[Series]) -> Iterator[str]:
    """The fastest curve of each size, sizes side by side."""
    places = {name: place for place, (name, _, _) in enumerate(series)}
    sizes = sorted({row.size for _, _, rows in series for row in rows})
    for name, first, last in fastest(series):
        many = sum(first <= size <= last for size in sizes)
        title = escape(f"{name}: {_span(first, last)}")
        yield f'<i class="solid" style="flex:{many};--hue:{_colour(places[name])}" title="{title}"></i>'


def _key(place: int, name: str) -> str:
    """A button that hides and shows a curve."""
    dashed = " dashed" if place >= SLOTS else ""
    swatch = f'<i class="swatch solid{dashed}" style="--hue:{_colour(place)}"></i>'
    return f'<button class="key" data-curve="{place}" aria-pressed="true">{swatch} {escape(name)}</button>'


def _data(name: str, request: CclRequest, rows: Sequence[Row]) -> dict[str, object]:
    points = [[row.size, row.time_us, row.algbw, row.busbw] for row in rows]
    return {"name": name, "points": points}


COLUMNS = ("algorithm", "size [B]", "type", "root", "time [us]", "algbw [GB/s]", "busbw [GB/s]", "wrong", "bottleneck")
TEXTS = ("algorithm", "type", "bottleneck")  #: columns at the left


def _table(series: Sequence[Series]) -> Iterator[str]:
    places = any(row.in_place is not None for _, _, rows in series for row in rows)
    more = ("time in place", "busbw in place", "wrong in place") if places else ()
    yield '<table class="data"><thead><tr>'
    yield "".join(f"<th{_kind(name)}>{name}</th>" for name in (*COLUMNS, *more))
    yield "</tr></thead><tbody>"
    for name, request, rows in series:
        for row in rows:
            root = str(row.root) if row.root >= 0 else "none"
            cells = [request.entry.name, f"{row.size:,}", row.dtype, root, _four(row.time_us), _four(row.algbw)]
            cells += [_four(row.busbw), _wrong_text(row), f"{row.bound} {row.bound_share:.0%}"]
            if places:
                there = row.in_place
                cells += ["N/A"] * 3 if there is None else [_four(there.time_us), _four(there.busbw), _wrong_text(there)]
            line = "".join(f"<td{_kind(head)}>{escape(cell)}</td>" for head, cell in zip((*COLUMNS, *more), cells, strict=True))
            yield f'<tr data-name="{escape(name)}">{line}</tr>'
    yield "</tbody></table>"


def _four(value: float) -> str:
    """Four digits, as in the columns of the terminal: `0.564`, `27.50`, `1,234`."""
    return f"{value:,.{3 if value < 10 else max(0, 4 - len(str(int(value))))}f}"


def _kind(column: str) -> str:
    return ' class="text"' if column in TEXTS else ""


def _wrong_text(row: Row | InPlace) -> str:
    return "N/A" if row.wrong is None else f"{row.wrong:,}"


def _wrong(row: Row) -> int:
    return (row.wrong or 0) + ((row.in_place.wrong or 0) if row.in_place is not None else 0)
