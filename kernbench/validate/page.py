"""The report: one HTML file without a script and with nothing loaded from elsewhere. The same rows make the same bytes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from importlib import resources

from kernbench.trace.report import filled
from kernbench.validate.draw import figure_svg
from kernbench.validate.forms import COLUMNS, cells, figures_of, headline, largest, reasons
from kernbench.validate.run import SuiteRun
from kernbench.version import VERSION

NUMBERS = ("expected", "ours", "error", "allowed")  #: columns that stand at the right

_PAGE = """\
<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; style-src 'unsafe-inline'; img-src data:">
<meta name="generator" content="kernbench">
<title>kernbench validation</title>
<link rel="icon" href="data:,">
<style>
@STYLE@</style>
</head>
<body>
<header><h1>Validation of kernbench @VERSION@</h1><p class="@COLOUR@">@HEADLINE@</p></header>
<main>
<section><table><thead><tr><th>suite</th><th>what</th><th class="number">rows</th><th class="number">outside</th>\
<th class="number">largest error</th></tr></thead><tbody>
@SUMMARY@
</tbody></table></section>
@SUITES@
</main>
</body>
</html>
"""


def page_bytes(runs: Sequence[SuiteRun]) -> bytes:
    """The whole page, UTF-8."""
    theme = (resources.files("kernbench.trace") / "report" / "theme.css").read_text(encoding="utf-8")
    own = (resources.files("kernbench.validate") / "report.css").read_text(encoding="utf-8")
    values = {
        "STYLE": theme + own,
        "VERSION": VERSION,
        "COLOUR": "outside" if any(run.outside for run in runs) else "inside",
        "HEADLINE": escape(headline(runs)),
        "SUMMARY": "\n".join(_summary(run) for run in runs),
        "SUITES": "\n".join(line for run in runs for line in _suite(run)),
    }
    return filled(_PAGE, values).encode()


def _summary(run: SuiteRun) -> str:
    """A line of the first table."""
    name, title = escape(run.data.suite), escape(run.data.title)
    texts = ("skipped", "", "") if run.skipped else (f"{len(run.rows):,}", f"{len(run.outside):,}", largest(run))
    verdict = "outside" if run.outside else "told" if run.skipped else "inside"
    numbers = "".join(f'<td class="number">{text}</td>' for text in texts)
    return f'<tr class="{verdict}"><td><a href="#{name}">{name}</a></td><td>{title}</td>{numbers}</tr>'


def _suite(run: SuiteRun) -> Iterator[str]:
    yield f'<section id="{escape(run.data.suite)}"><h2>{escape(run.data.title)} <small>{escape(run.data.suite)}</small></h2>'
    yield f"<p>{escape(run.data.about)}</p>"
    if run.skipped:
        yield f'<p class="told">Skipped: {escape(run.skipped)}</p>'
    else:
        yield from (f"<figure>{figure_svg(figure)}</figure>" for figure in figures_of(run))
        yield from _table(run)
        yield from (f"<p>Allowed {escape(allowed)}: {escape(why)}.</p>" for allowed, why in reasons(run.rows))
    yield "<ul>"
    for name, source in run.data.sources.items():
        title = escape(source.title)
        link = f'<a href="{escape(source.url)}">{title}</a>' if source.url else title
        yield f"<li><b>{escape(name)}</b>: {link}; {escape(source.licence)}. {escape(source.redo)}</li>"
    yield "</ul></section>"


def _table(run: SuiteRun) -> Iterator[str]:
    yield "<table><thead><tr>"
    yield "".join(f'<th{_side(name)}>{name}</th>' for name in COLUMNS)
    yield "</tr></thead><tbody>"
    for row in run.rows:
        texts = zip(COLUMNS, cells(row), strict=True)
        yield f'<tr class="{row.verdict}">' + "".join(f"<td{_side(name)}>{escape(text)}</td>" for name, text in texts) + "</tr>"
    yield "</tbody></table>"


def _side(column: str) -> str:
    return ' class="number"' if column in NUMBERS else ""
