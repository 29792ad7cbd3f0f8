"""The report of a validation: one HTML file that loads nothing from elsewhere. Equal rows give equal bytes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from fractions import Fraction
from html import escape
from importlib import resources

from kernbench.common.json_shapes import counted
from kernbench.common.look.css import look_js, page_css
from kernbench.common.look.page import page_html
from kernbench.validate.figures import error_svg, figure_svg
from kernbench.validate.run import SuiteRun
from kernbench.validate.suite import Number, Row, Source, Verdict
from kernbench.version import VERSION

MARKS: dict[Verdict, str] = {"pass": "\u2713", "fail": "\u2717", "info": "\u2013"}
OPEN = 3  #: number of suites with the largest errors that are open at first, in addition to those with a row that fails
SHORT = 12  #: a table with at most this many rows is open at first
COLUMNS = ("case", "source", "expected", "simulated", "unit", "error", "allowed", "verdict")


def number_text(value: Number) -> str:
    """An integer with all digits; any other number with four significant digits, or with all digits before the decimal
    point."""
    exact = Fraction(value)
    return f"{float(exact):.4g}" if exact.denominator > 1 and abs(exact) < 1000 else f"{round(exact):,}"


def size_text(nbytes: int) -> str:
    """Bytes in the largest binary unit of which the size is a multiple: `16 GiB`, `8 B`."""
    for power, name in ((30, "GiB"), (20, "MiB"), (10, "KiB")):
        if nbytes % (1 << power) == 0:
            return f"{nbytes >> power:,} {name}"
    return f"{nbytes:,} B"


def expected_text(row: Row) -> str:
    """The expected number, or the range `0.4..0.5`."""
    ends = row.expected
    return "..".join(map(number_text, ends)) if isinstance(ends, tuple) else number_text(ends)


def share_text(value: Number, *, sign: bool = False) -> str:
    """A share in percent: `0`, `-1.4%`, `+12%`; with `sign`, positive shares have a plus sign."""
    if value == 0:
        return "0"
    percent = float(value) * 100
    digits = 2 if abs(percent) < 1 else 1 if abs(percent) < 10 else 0
    return f"{percent:{'+' if sign else ''},.{digits}f}%"


def cells(row: Row) -> tuple[str, ...]:
    """The cells of a row in the order of COLUMNS."""
    allowed = "any" if row.allowed is None else share_text(row.allowed)
    error = share_text(row.error, sign=True) + ("" if row.points is None else f" ({float(row.points):+.1f})")
    return row.case, row.source, expected_text(row), number_text(row.ours), row.unit, error, allowed, row.verdict


def reasons(rows: Sequence[Row]) -> Iterator[str]:
    """Each tolerance with its rows and its reason: `allowed 10% (four streams): all rows lie on one channel`. Tolerances of all
    rows name no rows."""
    of: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        of.setdefault((cells(row)[6] if row.allowed is not None else "", row.why), []).append(row.case)
    for (allowed, why), cases in of.items():
        more = f"; and {len(cases) - NAMED} more" if len(cases) > NAMED else ""
        named = f" ({'; '.join(cases[:NAMED])}{more})" if len(of) > 1 else ""
        yield f"{f'allowed {allowed}' if allowed else 'not judged'}{named}: {why}"


def largest(run: SuiteRun) -> str:
    """The largest error of a suite's rows."""
    return share_text(max((row.error for row in run.rows), key=abs, default=0), sign=True)


def headline(runs: Sequence[SuiteRun]) -> str:
    """The result of all suites in one sentence."""
    rows = [row for run in runs for row in run.rows]
    counts = Counter(row.verdict for row in rows)
    skipped = [run.data.suite for run in runs if run.skipped]
    parts = [f"{counts['pass']:,} of {counted(len(rows), 'row')} pass, {counts['fail']:,} fail"]
    parts += [f"{counts['info']:,} info"] if counts["info"] else []
    parts += [f"{counted(len(skipped), 'suite')} skipped: {', '.join(skipped)}"] if skipped else []
    return ", ".join(parts)


NAMED = 3  # rows that the reason of a tolerance names
NUMBERS = ("expected", "simulated", "error", "allowed")  #: columns with text aligned to the right

_BODY = """\
<header class="top"><span class="kind">Validation</span><h1 class="title">kernbench @VERSION@</h1><span class="chip @CHIP@">@STATUS@</span>\
<span class="facts">@FACTS@</span><button id="theme" class="icon" title="Light or dark (T)" aria-label="Light or dark"></button></header>
<section class="answer" aria-label="Answer"><p class="said">@HEADLINE@</p><div><div class="share" role="img" aria-label="Rows by suite">@BAR@</div>\
<div class="keys">@KEYS@</div></div></section>
<main>
@SUITES@
</main>
<script>@SCRIPT@</script>
</body>
</html>
"""  # noqa: E501


def page_bytes(runs: Sequence[SuiteRun]) -> bytes:
    """The whole page in UTF-8."""
    folder = resources.files("kernbench.validate")
    own, last = (folder.joinpath(name).read_text(encoding="utf-8") for name in ("report.css", "report.js"))
    script = '"use strict";\n(() => {\n' + look_js() + last + "})();\n"
    failed, rows = (sum(len(found) for found in each) for each in ([run.failed for run in runs], [run.rows for run in runs]))
    values = {
        "SCRIPT": script,
        "VERSION": VERSION,
        "CHIP": "bad" if failed else "done",
        "STATUS": f"{failed:,} fail" if failed else "all pass",
        "FACTS": f"{counted(sum(not run.skipped for run in runs), 'suite')}, {counted(rows, 'row')}",
        "HEADLINE": escape(headline(runs)),
        "BAR": "".join(_segments(run) for run in runs),
        "KEYS": "".join(_key(verdict) for verdict in MARKS if any(row.verdict == verdict for run in runs for row in run.rows)),
        "SUITES": "\n".join(line for run in runs for line in _suite(run, _is_open(run, runs))),
    }
    return page_html(_BODY, values, title="kernbench validation", style=page_css() + own, scripts=[script])


def _segments(run: SuiteRun) -> str:
    """The segments of a suite's rows in the bar, by verdict; a click leads to the suite."""
    counts = Counter(row.verdict for row in run.rows)
    about = f"{run.data.title}: " + ", ".join(f"{counts[verdict]:,} {verdict}" for verdict in MARKS if counts[verdict])
    pieces = "".join(f'<i class="{verdict}" style="flex:{counts[verdict]}"></i>' for verdict in MARKS if counts[verdict])
    name = escape(run.data.suite)
    return f'<a href="#{name}" title="{escape(about)}" aria-label="{escape(about)}" style="flex:{len(run.rows)}">{pieces}</a>'


def _key(verdict: Verdict) -> str:
    return f'<span><i class="swatch {verdict}"></i> {verdict}</span>'


def _worst(run: SuiteRun) -> Row | None:
    """The row with the largest error: among the rows that fail, else among the rows with a tolerance, else among all rows."""
    judged = [row for row in run.rows if row.allowed is not None]
    return max(run.failed or judged or run.rows, key=lambda row: abs(row.error), default=None)


def _is_open(run: SuiteRun, runs: Sequence[SuiteRun]) -> bool:
    """Whether a suite is open at first: it has a row that fails, or one of the largest errors."""
    errors = {one.data.suite: abs(worst.error) for one in runs if (worst := _worst(one)) is not None and worst.error}
    largest = sorted(errors, key=lambda name: -errors[name])[:OPEN]
    return bool(run.failed) or run.data.suite in largest


def _suite(run: SuiteRun, is_open: bool) -> Iterator[str]:
    """A line with mark, name, verdict, error and allowed error of the suite; the rows are shown when the line is opened."""
    worst = _worst(run)
    verdict: Verdict = "fail" if run.failed else "info" if worst is None or worst.allowed is None else "pass"
    info = sum(row.verdict == "info" for row in run.rows)
    judged = len(run.rows) - info
    word = f"{len(run.failed):,} of {judged:,} fail" if run.failed else f"{judged:,} of {judged:,} pass"
    word = "skipped" if run.skipped else word if judged else f"{info:,} info"
    error = "" if worst is None else f"error {cells(worst)[5]}"
    allowed = "" if worst is None else f"allowed {cells(worst)[6]}"
    name, title = escape(run.data.suite), escape(run.data.title)
    yield f'<details class="card suite {verdict}" id="{name}"{" open" if is_open else ""}>'
    yield (
        f'<summary><b class="mark" aria-hidden="true">{MARKS[verdict]}</b>'
        f'<span class="what">{title} <small>{name}</small></span>'
        f'<span class="word">{word}</span><span class="number">{error}</span><span class="number">{allowed}</span></summary>'
    )
    yield f"<p>{escape(run.data.about)}</p>"
    sources = "".join(_source(name, source) for name, source in run.data.sources.items())
    if run.skipped:
        yield f'<p class="info">Skipped: {escape(run.skipped)}</p><ul class="sources">{sources}</ul></details>'
        return
    plots = _plots(run)
    notes = "".join(f"<li>{escape(reason[0].upper() + reason[1:])}.</li>" for reason in reasons(run.rows))
    yield f'<div class="{"beside" if plots else "alone"}">'
    if plots:
        yield "<div>" + "".join(f'<div class="scroll">{plot}</div>' for plot in plots) + "</div>"
    else:
        yield f"<p>{counted(len(run.rows), 'row')}, all of them exact.</p>"
    yield f'<div><h3>Sources</h3><ul class="sources">{sources}</ul>'
    yield f'<h3>Tolerances</h3><ul class="sources">{notes}</ul></div></div>'
    yield from _table(run)
    yield "</details>"


def _plots(run: SuiteRun) -> list[str]:
    """The errors with their bands, and the suite's own figures; no plot of errors if all errors are 0."""
    inexact = any(row.error for row in run.rows)
    return [*([error_svg(run.rows)] if inexact else []), *(figure_svg(figure) for figure in run.figures)]


def _source(name: str, source: Source) -> str:
    title = escape(source.title)
    link = f'<a href="{escape(source.url)}">{title}</a>' if source.url else title
    return f"<li><b>{escape(name)}</b>: {link}; {escape(source.licence)}. {escape(source.redo)}</li>"


def _table(run: SuiteRun) -> Iterator[str]:
    """All rows. A long table without rows that fail is closed at first. On a phone, the remaining columns of a row are shown
    when the row is opened."""
    is_open = " open" if run.failed or len(run.rows) <= SHORT else ""
    yield f'<details class="rows"{is_open}><summary>{counted(len(run.rows), "row")}</summary><div class="scroll">'
    yield '<table class="data"><thead><tr>'
    yield "".join(f"<th{_kind(name)}>{name}</th>" for name in COLUMNS)
    yield "</tr></thead><tbody>"
    for row in run.rows:
        texts = list(zip(COLUMNS, cells(row), strict=True))
        marked = [(name, f"{MARKS[row.verdict]} {text}" if name == "verdict" else text) for name, text in texts]
        line = "".join(f'<td{_kind(name)} data-name="{name}">{escape(text)}</td>' for name, text in marked)
        yield f'<tr class="{row.verdict}" tabindex="0">{line}</tr>'
    yield "</tbody></table></div></details>"


#: Columns that a phone shows only for an opened row.
MORE = ("source", "expected", "simulated", "unit", "allowed")


def _kind(column: str) -> str:
    kinds = [*(["text"] if column not in NUMBERS else []), *(["more"] if column in MORE else [])]
    return f' class="{" ".join(kinds)}"' if kinds else ""
