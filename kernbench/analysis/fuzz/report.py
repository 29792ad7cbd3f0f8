"""A search as plain JSON, and as a JUnit report."""

from __future__ import annotations

from typing import Any
from xml.sax.saxutils import escape, quoteattr

from kernbench.analysis.fuzz.search import Search
from kernbench.trace.compare.reports import xml_text

SCHEMA = "kernbench/fuzz/1"


def to_dict(found: Search) -> dict[str, Any]:
    """The object that `kbsim fuzz --json` prints. The time is left out: the same search gives the same bytes."""
    return {
        "schema": SCHEMA,
        "target": found.target.name,
        "machine": found.target.config.source,
        "seed": found.seed,
        "runs": found.runs,
        "aborted": found.aborted,
        "conflicts": found.conflicts,
        "orders": len(found.orders),
        "showing": found.showing,
        "findings": [one.to_dict() for one in found.findings],
    }


def junit(found: Search) -> str:
    """A JUnit report with one failed test case for each finding, or one test case that passed."""
    cases = max(1, len(found.findings))
    counts = f'tests="{cases}" failures="{len(found.findings)}" errors="0" skipped="0" time="{found.seconds:.3f}"'
    lines = ['<?xml version="1.0" encoding="UTF-8"?>', f'<testsuites {counts}><testsuite name="kbsim fuzz" {counts}>']
    head = f"<testcase classname={quoteattr(xml_text(found.target.name))} name="
    if not found.findings:
        lines.append(f'{head}{quoteattr(f"{found.progress}, seed {found.seed}")} time="{found.seconds:.3f}"/>')
    for k, one in enumerate(found.findings, 1):
        text = escape(xml_text("\n".join(one.sentences)))
        name, message = quoteattr(f"finding {k}: {one.wrong.kind}"), quoteattr(xml_text(one.wrong.what))
        lines.append(f"{head}{name}><failure message={message}>{text}</failure></testcase>")
    return "\n".join([*lines, "</testsuite></testsuites>", ""])
