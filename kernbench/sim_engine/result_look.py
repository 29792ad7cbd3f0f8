"""A result in a notebook: its HTML, and the bars of its engines."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Any

from kernbench.common.json_shapes import counted
from kernbench.common.look.css import hatch
from kernbench.common.look.palette import colour, resource_of
from kernbench.common.look.plots import waiting
from kernbench.sim_engine.result import Result
from kernbench.sim_engine.summary import EngineUse, bank_conflicts, bound_share, engine_uses

STATUS_COLORS = {"done": "good", "running": "accent", "aborted": "warn"}  # colours of statuses; other statuses are failures
MAX_ROWS = 32  # engines and resources of a kind; of more the first
MAX_LINES = 5  # most lines of warnings, and of entries that wait in a deadlock
WORK_UNITS = {"dma": "B", "te": "MAC", "ve": "op", "cpu": "launch"}


def result_html(result: Result) -> str:
    """The result's cycles, bound, engines, channels, banks and end. Everything that is not ours is escaped."""
    color = colour(STATUS_COLORS.get(result.status, "fail"))
    head = (
        f'<p style="margin:0"><b style="color:{color}">{escape(result.status)}</b> '
        f"<b>{counted(result.cycles, 'cycle')}</b>, {result.t_ns:,.6g} ns<br>"
        f"{escape(result.program or 'a program')} on {escape(result.machine)}, {counted(len(result.entries), 'entry')}"
        f"{_bound(result)}</p>"
    )
    parts = [head, *_ending(result), _engines(result), _resource_rows(result), _banks(result)]
    return f'<div style="font-size:90%">{"".join(parts)}</div>'


def _bound(result: Result) -> str:
    """The line with the largest lower bound; empty if there is none."""
    bound = bound_share(result)
    if not bound.cycles:
        return ""
    text = f"{bound.kind} bound {bound.cycles:,}"
    if result.status == "done":
        text += f", achieved {bound.achieved:,}, {bound.share:.1%}"
    return "<br>" + escape(text if bound.kind == bound.name else f"{text} ({bound.name})")


def _ending(result: Result) -> list[str]:
    lines = []
    unfinished = sum(times.end is None for times in result.entries)
    if unfinished:
        lines.append(f"{counted(unfinished, 'entry')} {'has' if unfinished == 1 else 'have'} not ended")
    if result.failure is not None:
        lines.append(str(result.failure["message"]))
    for item in result.waiting[:MAX_LINES]:
        ids = ", ".join(map(str, item["waits_for"][:MAX_LINES]))
        what, why = (ids, f" ({item['reason']})") if ids else (item["reason"], "")
        lines.append(f"{item['id']} {item['opcode']} waits for {what} since cycle {item['since']:,}{why}")
    lines += [f"warning: {warning['message']}" for warning in result.warnings[:MAX_LINES]]
    rest = max(0, len(result.waiting) - MAX_LINES) + max(0, len(result.warnings) - MAX_LINES)
    if rest:
        lines.append(f"and {rest:,} more")
    return [f"<p>{'<br>'.join(map(escape, lines))}</p>"] if lines else []


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table, names on the left and numbers on the right of their columns; cells are HTML already."""
    sides = ["left", *["right"] * (len(heads) - 1)]
    cell = '<{tag} style="text-align:{side};padding:0 0.5em">{text}</{tag}>'
    lines = [[cell.format(tag="td", side=side, text=text) for side, text in zip(sides, row, strict=True)] for row in rows]
    body = [f"<tr>{''.join(line)}</tr>" for line in lines]
    more = len(body) - MAX_ROWS
    if more > 0:
        style = "text-align:left;padding:0 0.5em"
        body[MAX_ROWS:] = [f'<tr><td colspan="{len(heads)}" style="{style}">and {more:,} more</td></tr>']
    head = "".join(cell.format(tag="th", side=side, text=text) for side, text in zip(sides, heads, strict=True))
    return f"<table><thead><tr>{head}</tr></thead><tbody>{''.join(body)}</tbody></table>"


def _bar(parts: Sequence[tuple[float, str]]) -> str:
    """A bar of parts, each a share of 1 and its colour."""
    spans = "".join(
        f'<span style="display:inline-block;height:100%;width:{share:.2%};background:{color}"></span>' for share, color in parts
    )
    return (
        '<span style="display:inline-block;width:10em;height:0.8em;white-space:nowrap;text-align:left;font-size:100%;'
        f'line-height:0;background:{colour("line")}">{spans}</span>'
    )


def _engines(result: Result) -> str:
    heads = ("engine", "", "use", "busy", "bank conflict", "backpressure", "idle", "jobs", "work")
    return _table(heads, (_engine(engine) for engine in engine_uses(result)))


def _engine(engine: EngineUse) -> list[str]:
    stalled = engine.bank_conflict + engine.backpressure
    hue = colour(resource_of(engine.kind))
    parts = [
        (engine.utilisation, hue),
        (stalled / engine.cycles if engine.cycles else 0.0, hatch(hue)),
    ]
    counts = (engine.busy, engine.bank_conflict, engine.backpressure, engine.idle, engine.jobs)
    work = f"{engine.work:,} {WORK_UNITS[engine.kind]}"
    return [escape(engine.name), _bar(parts), f"{engine.utilisation:.1%}", *(f"{count:,}" for count in counts), work]


def _resource_rows(result: Result) -> str:
    rows = []
    shared = [(name, counters) for name, counters in result.counters.items() if "member_cycles" in counters]
    for name, counters in sorted(shared, key=lambda one: -one[1]["bytes"]):  # rows without room moved the least
        rate = counters["bytes"] / result.cycles if result.cycles else 0.0
        active = counters["busy"] / result.cycles if result.cycles else 0.0
        rows.append([escape(name), f"{counters['bytes']:,}", f"{rate:.4g}", f"{active:.1%}"])
    return _table(("channel or link", "bytes", "bytes per cycle", "active"), rows)


def _banks(result: Result) -> str:
    banks = bank_conflicts(result)
    text = f"scratchpad banks: {banks.requests:,} requests, {banks.denials:,} denied"
    if banks.worst is not None:
        text += f" ({banks.rate:.2%}), most at bank {banks.worst}: {banks.worst_denials:,}"
    return f"<p>{text}</p>"


def draw_engines(ax: Any, result: Result) -> None:
    """A bar an engine on a matplotlib `Axes`: busy, stalled and idle, of the first MAX_ROWS."""
    uses = list(engine_uses(result))[:MAX_ROWS]
    names, left = [use.name for use in uses], [0] * len(uses)
    parts = {
        "busy": [use.busy for use in uses],
        "stalled": [use.bank_conflict + use.backpressure for use in uses],
        "idle": [use.idle for use in uses],
    }
    hues = [colour(resource_of(use.kind)) for use in uses]
    pale = [waiting(hue)["color"] for hue in hues]
    looks: dict[str, dict[str, Any]] = {
        "busy": {"color": hues},
        "stalled": {"color": pale, "edgecolor": hues, "hatch": "////", "linewidth": 0},
        "idle": {"color": colour("line")},
    }
    for name, cycles in parts.items():
        ax.barh(names, cycles, left=left, label=name, **looks[name])
        left = [before + more for before, more in zip(left, cycles, strict=True)]
    ax.invert_yaxis()
    ax.set_xlabel("cycles")
    ax.legend(ncols=3, fontsize="small", loc="lower left", bbox_to_anchor=(0, 1), frameon=False)
