"""The page of `kbsim serve run --report`: the workload, its limits, timelines and distributions.

The result is one HTML file that loads no other file. The same run gives the same bytes. Plots stretch with the page, so their
text is HTML beside the SVG, which keeps its size.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from html import escape
from importlib import resources
from math import ceil, floor, log10
from typing import TYPE_CHECKING, Any

from kernbench.cli.serve.text import PARTS, TITLES, cost_lines, error_text, ms_text, why_parts
from kernbench.cli.text import percent, short
from kernbench.common.json_shapes import counted
from kernbench.common.look.css import look_js, page_css
from kernbench.common.look.page import page_html

if TYPE_CHECKING:
    from kernbench.workloads.serving.result import ServingResult

#: Hue and fill of the parts of `why`: waits are hatched.
LOOKS = {
    "kv_blocks": ("dram", "hatch"), "sequence_slots": ("queue", "hatch"), "token_budget": ("te", "hatch"),
    "running_step": ("control", "hatch"), "prefill": ("te", "solid"), "decode_step": ("dma", "solid"),
    "prefill_step": ("te", "solid"), "pipeline": ("link", "hatch"), "host": ("control", "solid"),
    "between_steps": ("dram", "hatch"),
}  # fmt: skip
CURVES = {"ttft": "te", "tpot": "dma", "itl": "link", "e2el": "ve"}  #: metrics whose distributions are drawn, and their hues
FILES = ("page.css", "page.js")
COLUMNS = ("mean", "std", "p50", "p90", "p95", "p99")
WIDE, HIGH = 1000, 100  #: of the drawing that is stretched
_INTERVALS = 240  #: limit of the intervals of a timeline
_TAIL = 20  #: factor of the median: a distribution that extends beyond it has a logarithmic axis

_BODY = """\
<header class="top"><span class="kind">Serving</span><h1 class="title">@TITLE@</h1><span class="chip @CHIP@">@STATUS@</span>\
<span class="facts">@FACTS@</span><button id="theme" class="icon" title="Light or dark (T)" aria-label="Light or dark"></button></header>
<section class="answer" aria-label="Answer"><p class="figure">@FIGURE@</p><p class="said">@SAID@</p>@GOODPUT@@WHY@</section>
<main>
@LINES@
@CURVES@
<section class="card wide"><h2>Latencies <small>@WINDOW@</small></h2><div class="scroll">@TABLE@</div></section>
<section class="card wide"><h2>Run</h2><div class="scroll">@RUN@</div></section>
</main>
<script>@SCRIPT@</script>
</body>
</html>
"""  # noqa: E501


def page_bytes(plain: Mapping[str, Any], result: ServingResult) -> bytes:
    """The whole page, UTF-8. `plain`: the run as `kbsim serve --json` prints it."""
    own, last = (resources.files("kernbench.cli.serve").joinpath(name).read_text(encoding="utf-8") for name in FILES)
    script = '"use strict";\n(() => {\n' + look_js() + last + "})();\n"
    steady = plain["steady"]
    shown = steady or plain["whole"]
    title = f"{plain['model']} on {plain['machine']}"
    values = {
        "TITLE": escape(title),
        "CHIP": "done" if steady else "aborted",
        "STATUS": "steady state" if steady else "no steady state",
        "FACTS": escape(f"{counted(plain['requests']['finished'], 'request')} in {short(plain['duration_s'])} s"),
        "FIGURE": escape(f"{short(shown['requests_per_s'])} requests/s"),
        "SAID": escape(_said(shown)),
        "GOODPUT": _goodput(plain, shown) + _cost(plain),
        "WHY": "".join(_why(name, shown["why"][name]) for name in ("ttft", "tpot")),
        "LINES": "\n".join(_lines(plain, result.longest_step_ns / 1e9)),
        "CURVES": "\n".join(_curve(name, shown[f"{name}_ms"], result.curve_ms(name, result.steady)) for name in CURVES),
        "WINDOW": escape(_window_text(plain)),
        "TABLE": "".join(_latencies(plain)),
        "RUN": _table((), _run_rows(plain)),
        "SCRIPT": script,
    }
    return page_html(_BODY, values, title=f"{escape(title)} - kernbench", style=page_css() + own, scripts=[script])


def _said(shown: Mapping[str, Any]) -> str:
    parts = [f"{short(shown['output_tokens_per_s'])} output tokens/s"]
    found = {name: shown[f"{name}_ms"] for name in ("ttft", "tpot")}
    parts += [f"p99 {TITLES[name]} {ms_text(of['p99'])}" for name, of in found.items() if of is not None]
    return ", ".join(parts)


def _goodput(plain: Mapping[str, Any], shown: Mapping[str, Any]) -> str:
    if "goodput_per_s" not in shown:
        return ""
    goals = ", ".join(f"{TITLES[name]} at most {ms_text(most)}" for name, most in plain["goals_ms"].items())
    said = f"Goodput {short(shown['goodput_per_s'])} requests/s: {percent(shown['good_share'])} of the requests have {goals}"
    return f"<p>{escape(said)}</p>"


def _cost(plain: Mapping[str, Any]) -> str:
    lines = cost_lines(plain["cost"] or {}, plain["energy"] or {})
    return "".join(f"<p>{escape(line[0].upper() + line[1:])}</p>" for line in lines)


def _why(name: str, of: Mapping[str, Any] | None) -> str:
    """A bar of the parts of a latency, with its key."""
    parts = why_parts(of)
    if of is None or not parts:
        return ""
    largest = max(parts, key=lambda one: parts[one])
    said = f"{TITLES[name]}: {percent(parts[largest])} {PARTS[largest]}"

    def mark(part: str) -> str:
        hue, fill = LOOKS[part]
        return f'{fill}" style="--hue:var(--{hue})'

    bar = "".join(
        f'<i class="{mark(part)};flex:{share:.6f}" title="{escape(PARTS[part])}: {percent(share)}"></i>'
        for part, share in parts.items()
    )
    keys = "".join(
        f'<span><i class="swatch {mark(part)}"></i> {escape(PARTS[part])} {escape(percent(share))}, '
        f"{ms_text(of[part + '_ms'])}</span>"
        for part, share in parts.items()
    )
    label = f'<div class="share" role="img" aria-label="{escape(said)}">{bar}</div>'
    return f'<div class="why"><p><b>{escape(said)}</b></p>{label}<div class="keys">{keys}</div></div>'


def _lines(plain: Mapping[str, Any], longest_s: float) -> Iterator[str]:
    """The timelines, all over the same time.

    A step counts in the interval of its start, so intervals are joined until the longest step fits into one interval.
    """
    line, blocks = plain["timeline"], plain["num_gpu_blocks"]
    many = max(1, ceil(len(line["busy"]) / _INTERVALS), ceil(longest_s / line["interval_s"]))
    step = many * line["interval_s"]
    end = line["interval_s"] * len(line["busy"])
    running, waiting, kv = (joined(line[name], line["busy"], many) for name in ("running", "waiting", "kv_blocks"))
    preempted = [sum(line["preempted"][place : place + many]) for place in range(0, len(line["busy"]), many)]
    wide = WIDE * step / end if end else 0.0
    drawn: tuple[tuple[str, str, str, Sequence[float], float | None], ...] = (
        ("Running", "requests, mean of an interval", "dma", running, None),
        ("Waiting", "requests, mean of an interval", "queue", waiting, None),
        ("KV cache", "% of its blocks", "dram", [100 * value / blocks for value in kv], 100.0),
        ("Preemptions", f"in {short(step)} s", "warn", preempted, None),
    )
    if not any(preempted):  # the table of the run says so; its room goes to the KV cache
        drawn = drawn[:-1]
    for title, unit, hue, values, top in drawn:
        most = max(values, default=0)
        if not most:
            yield f'<section class="card line"><h2>{title}</h2><p class="none">None at any time.</p></section>'
            continue
        ys = ticks(top or most)
        high = top or most
        path = stairs(values, high, wide)
        label = f"{title} over time, at most {short(most)}"
        xs = [(value, f"{short(value)} s" if value else "0") for value in ticks(end)]
        yield _card(title, unit, label, hue, _area(path), xs, [(y, short(y)) for y in ys], (end, high), wide=True)


def joined(values: Sequence[float], busy: Sequence[float], many: int) -> list[float]:
    """The mean of each group of consecutive intervals, weighted by the time in which the engine was busy.

    >>> joined([4, 0, 2], [1, 0, 0.5], 2)
    [4.0, 2.0]
    """
    found = []
    for place in range(0, len(values), many):
        weights = busy[place : place + many]
        whole = sum(weights)
        found.append(sum(a * b for a, b in zip(values[place : place + many], weights, strict=True)) / whole if whole else 0.0)
    return found


def stairs(values: Sequence[float], high: float, wide: float) -> str:
    """The outline of adjacent intervals, each at the height of its value. Equal neighbours are one."""
    parts = [f"M0 {HIGH}"]
    before: float | None = None
    for place, value in enumerate(values):
        if value != before:
            y = f"{HIGH - HIGH * value / high:.2f}"
            parts.append(f"H{place * wide:.2f}V{y}")
            before = value
    return "".join(parts) + f"H{WIDE}V{HIGH}Z"


def _area(path: str) -> str:
    return f'<path class="area" d="{path}"/>'


def _curve(name: str, of: Mapping[str, Any] | None, points: Sequence[tuple[float, float]]) -> str:
    """The share of requests or tokens that take at most a given time; marks at p50 and p99."""
    title = TITLES[name]
    if of is None or not points:
        return f'<section class="card curve"><h2>{title}</h2><p class="none">No request has one.</p></section>'
    low, most = points[0][0], points[-1][0]
    curved = low > 0 and most > _TAIL * of["p50"]
    xs = powers(low, most) if curved else ticks(most)
    left = min(xs[0], low) if curved else 0.0
    right = max(xs[-1], most, left + 1e-9)

    def part(value: float) -> float:
        return (log10(value) - log10(left)) / (log10(right) - log10(left)) if curved else value / right

    path = "M" + "L".join(f"{WIDE * part(value):.2f} {HIGH - HIGH * share:.2f}" for value, share in points)
    drawn = f'<path class="line" d="{path}"/>'
    marks = "".join(
        f'<b class="dot" style="left:{100 * part(of[key]):.2f}%;bottom:{height}%" title="{key}: {ms_text(of[key])}"></b>'
        for key, height in (("p50", 50), ("p99", 99))
    )
    percentiles = f"p50 {ms_text(of['p50'])}, p99 {ms_text(of['p99'])}"
    unit = f"{percentiles}; of {'tokens' if name == 'itl' else 'requests'}{', logarithmic' if curved else ''}"
    times = [(x, ms_text(x) if x else "0") for x in xs]
    shares = [(value, f"{value:.0f}%") for value in (0, 50, 100)]
    return _card(
        title, unit, f"Cumulative distribution of {title}: {percentiles}", CURVES[name], drawn, times, shares,
        (right, 100), marks=marks, part=part,
    )  # fmt: skip


def _card(
    title: str, unit: str, label: str, hue: str, drawn: str, xs: Iterable[tuple[float, str]], ys: Iterable[tuple[float, str]],
    ends: tuple[float, float], *, wide: bool = False, marks: str = "", part: Callable[[float], float] | None = None,
) -> str:  # fmt: skip
    """A plot on a card. `xs`, `ys`: ticks and their texts. `ends`: of the axes. `part`: the position of an x, 0 to 1."""
    right, high = ends
    places = [((part(x) if part else x / right if right else 0.0), text) for x, text in xs]
    heights = [(y / high, text) for y, text in ys]
    grid = "".join(f'<path class="grid" d="M0 {HIGH - HIGH * y:.2f}H{WIDE}"/>' for y, _ in heights)
    svg = f'<svg viewBox="0 0 {WIDE} {HIGH}" preserveAspectRatio="none" aria-hidden="true">{grid}{drawn}</svg>'
    left = "".join(f'<span style="bottom:{100 * y:.2f}%">{escape(text)}</span>' for y, text in heights)
    below = "".join(f'<span style="left:{100 * x:.2f}%">{escape(text)}</span>' for x, text in places)
    plot = f'<div class="plot" role="img" aria-label="{escape(label)}" style="--hue:var(--{hue})">'
    plot += f'<div class="ys">{left}</div><div class="field">{svg}{marks}</div><div class="xs">{below}</div></div>'
    kind = "line" if wide else "curve"
    return f'<section class="card {kind}"><h2>{escape(title)} <small>{escape(unit)}</small></h2>{plot}</section>'


def ticks(end: float) -> list[float]:
    """0 and round values up to an end, at most six.

    >>> ticks(7), ticks(100), ticks(0)
    ([0, 2, 4, 6], [0, 20, 40, 60, 80, 100], [0])
    """
    if end <= 0:
        return [0]
    power = 10.0 ** floor(log10(end / 5))
    step = next(round(power * times, 12) for times in (1, 2, 5, 10, 20) if end / (power * times) < 5.5)
    found = [round(place * step, 12) for place in range(int(end / step + 1e-9) + 1)]
    return [int(value) if value == int(value) else value for value in found]


def powers(low: float, high: float) -> list[float]:
    """Powers of ten from the one below to the one above, at most five of them."""
    first, last = floor(log10(low)), floor(log10(high)) + 1
    step = -(-(last - first) // 4)
    return [10.0**power for power in range(first, last + step, step)]


def _window_text(plain: Mapping[str, Any]) -> str:
    steady = plain["steady"]
    if not steady:
        return "of the whole run"
    return f"steady from {short(steady['start_s'])} s until the last arrival at {short(steady['end_s'])} s, and the whole run"


def _latencies(plain: Mapping[str, Any]) -> Iterator[str]:
    rows = []
    for title, of in (("steady", plain["steady"]), ("whole", plain["whole"])):
        if of is not None:
            found = [(name, label, of[f"{name}_ms"]) for name, label in TITLES.items()]
            rows += [(f"{label}, {title}", *(ms_text(each[one]) for one in COLUMNS)) for _, label, each in found if each]
    yield _table(("latency", *COLUMNS), rows)


def _run_rows(plain: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    counts = plain["requests"]
    yield "Requests", ", ".join(f"{count:,} {name}" for name, count in counts.items())
    for title, of in (("Steady", plain["steady"]), ("Whole run", plain["whole"])):
        if of is not None:
            rates = f"{short(of['requests_per_s'])} requests/s, {short(of['output_tokens_per_s'])} output tokens/s"
            yield title, f"{rates}, {short(of['total_tokens_per_s'])} tokens/s"
    yield "Steps", f"{plain['steps']:,}, with {counted(plain['preemptions'], 'preemption')}"
    yield "Prompts", f"{plain['prompt_tokens']:,} tokens, {plain['cached_tokens']:,} of them cached"
    yield "KV cache", f"{plain['num_gpu_blocks']:,} blocks of {plain['block_size']} tokens"
    yield "Longest request", f"{plain['max_model_len']:,} tokens"
    table = plain["table"]  # entries of the table from before the run are not counted
    yield "Step times", "each distinct step simulated" if table is None else f"interpolated{error_text(table['error'])}"


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    def line(cells: Sequence[str], kind: str) -> str:
        marks = [' class="text"' if not heads or not place else "" for place in range(len(cells))]
        texts = (f"<{kind}{mark}>{escape(cell)}</{kind}>" for mark, cell in zip(marks, cells, strict=True))
        return f"<tr>{''.join(texts)}</tr>"

    head = f"<thead>{line(heads, 'th')}</thead>" if heads else ""
    return f'<table class="data">{head}<tbody>{"".join(line(row, "td") for row in rows)}</tbody></table>'
