"""An explanation as plain JSON. A number of cycles that is not an integer is written as a decimal if the decimal is exact,
otherwise as the text `p/q`."""

from __future__ import annotations

from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from kernbench.common.units import plain_number
from kernbench.trace.why import Story, Why, merged
from kernbench.trace.why.causes import CauseShare, Span, totals
from kernbench.trace.why.critical_path import Stretch
from kernbench.trace.why.history import Command


def why_to_dict(why: Why) -> dict[str, Any]:
    """The whole run: sentence, costs by group and by cause, and the critical path from cycle 0 on."""
    cycles = why.history.cycles
    return {
        **_head(why),
        "sentence": why.sentence,
        "groups": [
            {"name": group.name, "resources": list(group.resources), **_share(group.cycles, cycles)} for group in why.groups
        ],
        "costs": [
            {"cause": cost.cause, "resource": cost.resource, **_share(cost.cycles, cycles), "commands": cost.commands}
            for cost in why.costs
        ],
        "path": [_stretch(stretch) for stretch in why.path],
    }


def story_to_dict(why: Why, story: Story) -> dict[str, Any]:
    """One command: when and why it became ready, its totals, and its cycles span by span."""
    command, job = story.command, story.command.job
    length = sum(span.cycles for span in story.spans)
    return {
        **_head(why),
        **_named(command),
        "ready": story.ready,
        "after": None if story.after is None else story.after.id,
        "issue": None if job is None else job.issue,
        "start": job.start if job is not None and job.started else command.end,
        "end": command.end,
        "critical_cycles": story.critical,
        "totals": [
            {"cause": cause, "resource": resource, **_share(cycles, length)}
            for (cause, resource), cycles in totals(story.spans).items()
        ],
        "spans": [{"start": span.start, "end": span.end, "parts": _parts([span])} for span in story.spans],
    }


def _head(why: Why) -> dict[str, Any]:
    history = why.history
    head = {"program": history.program, "status": history.status, "cycles": history.cycles}
    return {**head, "broken": history.broken} if history.broken else head


def _share(cycles: Fraction, whole: int) -> dict[str, Any]:
    return {"cycles": plain_number(cycles), "share": float(cycles / whole) if whole else 0.0}


def _named(command: Command | None) -> dict[str, Any]:
    if command is None:
        return {"id": None, "opcode": None, "unit": None}
    return {"id": command.id, "opcode": command.opcode, "unit": command.unit}


def _stretch(stretch: Stretch) -> dict[str, Any]:
    where = {"after": stretch.after, "start": stretch.start, "end": stretch.end}
    return {**_named(stretch.command), **where, "parts": _parts(stretch.spans)}


def _parts(spans: Iterable[Span]) -> list[dict[str, Any]]:
    return [_part(part) for part in merged(spans)]


def _part(part: CauseShare) -> dict[str, Any]:
    plain: dict[str, Any] = {"cause": part.cause, "resource": part.resource, "cycles": plain_number(part.cycles)}
    plain |= {"by": list(part.by)} if part.by else {}
    return plain if part.bank is None else {**plain, "bank": part.bank}
