"""`kbsim trace validate`: checks a trace against the schema and its laws."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output
from kernbench.cli.options import Json

if TYPE_CHECKING:
    from kernbench.trace.validate import Report

INVALID = 1  #: exit code: a law is broken
_CODES = {"valid": output.OK, "invalid": INVALID, "broken": output.REFUSED, "refused": output.REFUSED}
_LONGEST = 400  # characters of a line that quotes the file


def validate(
    files: Annotated[
        list[str], typer.Argument(metavar="FILE...", help="Traces: .jsonl, .jsonl.gz, .jsonl.zst.", show_default=False)
    ],
    most: Annotated[int, typer.Option("--limit", "-n", min=0, help="Show at most N violations per file.")] = 20,
    as_json: Json = False,
) -> int:
    """Check each event against the schema, and check all events together against the conservation laws of a trace.

    The exit code is 0 if all files are valid, 1 if a law is broken, and 2 if a file cannot be read or is truncated.
    """
    from kernbench.common.errors import InputError
    from kernbench.trace.reader import open_trace
    from kernbench.trace.validate import validate as check

    answers: list[dict[str, Any]] = []
    for file in files:
        try:
            report = check(open_trace(file), most)
        except InputError as error:
            answers.append({"file": file, "status": "refused", "message": str(error)})
            output.note(f"error: {error}")
            continue
        answers.append(_plain(file, report))
        if not as_json:
            output.write(_text(file, report))
    if as_json:
        worst = max(answers, key=lambda answer: _CODES[answer["status"]])
        output.show_json({"status": worst["status"], "files": answers})
    return max(_CODES[answer["status"]] for answer in answers)


def _plain(file: str, report: Report) -> dict[str, Any]:
    """A report as JSON."""
    broken = report.broken
    return {
        "file": file,
        "status": "broken" if broken is not None else "valid" if report.valid else "invalid",
        "events": report.events,
        "skipped": report.skipped,
        "violations": report.total,
        "by_law": report.counts,
        "first": [{"line": v.line, "law": v.law, "message": v.message} for v in report.violations],
        "broken": None if broken is None else {"line": broken.line, "offset": broken.offset, "reason": broken.reason},
    }


def _text(file: str, report: Report) -> str:
    """A report as text: one line per violation, and one for the whole."""
    from kernbench.cli.trace.tables import safe
    from kernbench.common.json_shapes import counted

    name = safe(file, _LONGEST)
    lines = [f"{name}: {safe(str(violation), _LONGEST)}" for violation in report.violations]
    more = report.total - len(report.violations)
    if more and report.violations:
        lines.append(f"{name}: and {more:,} more")
    laws = ", ".join(f"{count:,} {law}" for law, count in report.counts.items())
    found = f"{counted(report.total, 'violation')} ({laws})" if report.total else "no violation"
    events = counted(report.events, "event")
    if report.broken is not None:
        lines.append(f"{name}: breaks off at {safe(str(report.broken), _LONGEST)}; before that {events}, {found}")
    else:
        lines.append(f"{name}: valid, {events}" if report.valid else f"{name}: {found} in {events}")
    if report.skipped:
        lines.append(f"{name}: {counted(report.skipped, 'event')} of a newer version were skipped")
    return "\n".join(lines) + "\n"
