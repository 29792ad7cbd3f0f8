"""`kbsim serve why`: for each period of a run, what limited TTFT and TPOT."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output, widgets
from kernbench.cli.options import Json, Quiet
from kernbench.cli.serve.options import OUTPUT, with_deployment
from kernbench.cli.serve.text import SHORT_PARTS, TITLES, ms_text, why_parts
from kernbench.cli.text import DIM, Justify, percent, short, table
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.workloads.serving.deployment import Deployment

_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min|m|h)?")
_SECONDS = {"ms": 1e-3, "s": 1.0, None: 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def _span(text: str) -> float:
    """[s] of `90`, `500ms`, `10s`, `5m`, `1h`."""
    found = _SPAN.fullmatch(text)
    seconds = 0.0 if found is None else float(found[1]) * _SECONDS[found[2]]
    if not 0 < seconds < math.inf:
        raise typer.BadParameter(f"{text!r} is not a time greater than 0, such as 500ms, 10s, 5m or 1h")
    return seconds


@with_deployment
def why(
    deployment: Deployment,
    *,
    every: Annotated[
        str | None,
        typer.Option(
            "--every", metavar="TIME", show_default="at most 12 periods", rich_help_panel=OUTPUT,
            help="Length of a period: 500ms, 10s, 5m, 1h.",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:  # fmt: skip
    """Serve a workload, and report what limited TTFT and TPOT in each period of time: the waits of requests, and the resource
    that limits a typical step."""
    from kernbench.workloads.serving.periods import advice, periods_of

    length = None if every is None else _span(every)
    deployment = deployment.having(sample=0)
    done = deployment.run()
    periods = periods_of(done.result, done.engine_groups, length)
    plain = {
        "status": "done", "model": deployment.scenario.model.name, "machine": done.machine,
        "num_gpu_blocks": done.options.num_gpu_blocks, "engines": deployment.engines,
        "periods": [period.to_dict() for period in periods], "advice": advice(periods),
    }  # fmt: skip
    if as_json:
        output.show_json(plain)
    elif not quiet:
        output.show(why_summary(plain))
    return output.OK


def why_summary(plain: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The output of `kbsim serve why`."""
    yield widgets.Text(f"{plain['model']} on {plain['machine']}: {counted(plain['engines'], 'engine')}", DIM)
    for name, change in plain["advice"].items():
        yield widgets.Text(f"{TITLES[name]}: change first {change}")
    for name in ("ttft", "tpot"):
        yield ""
        columns: list[tuple[str, Justify]] = [("from", "right"), ("arrived" if name == "ttft" else "running", "right")]
        columns += [("KV", "right"), ("mean", "right"), ("most of it", "left"), ("the device's limit", "left")]
        made = table(TITLES[name], columns)
        for one in plain["periods"]:
            shares = why_parts(one[name])
            if not shares:
                continue
            most = max(shares, key=lambda part: shares[part])
            limit = one[f"{name}_limit"]
            share = "" if limit is None else f"{limit['resource']}, {percent(limit['shares'][limit['resource']])}"
            made.add_row(
                f"{short(one['start_s'])} s", str(one["arrived"]) if name == "ttft" else short(one["running"]),
                percent(one["kv_share"]), ms_text(one[f"{name}_ms"]),
                f"{percent(shares[most])} {SHORT_PARTS[most]}", share,
            )  # fmt: skip
        yield made
    if any(len(one["groups"]) > 1 for one in plain["periods"]):
        yield ""
        yield _group_limits(plain["periods"])
    yield widgets.Text(
        "Most of it: what requests wait for, or what steps do. The device's limit: the resource that alone needs the largest "
        "share of a typical step.", DIM,
    )  # fmt: skip


def _group_limits(periods: Sequence[Mapping[str, Any]]) -> RenderableType:
    """What limits the engines of each group, period by period."""
    columns: list[tuple[str, Justify]] = [("from", "right"), ("engines", "left"), ("role", "left"), ("busy", "right")]
    made = table("groups of engines", [*columns, ("KV", "right"), ("of", "left"), ("limit", "left")])
    for period in periods:
        start = f"{short(period['start_s'])} s"
        for one in period["groups"]:
            engines = f"{one['engines']} {one['machine'].removesuffix('.yaml')}"
            first: tuple[str, ...] = (start, engines, one["role"], percent(one["busy"]), percent(one["kv_share"]))
            limits = [(name, limit) for name, limit in (("TTFT", one["ttft_limit"]), ("TPOT", one["tpot_limit"])) if limit]
            for name, limit in limits or [("", None)]:
                share = "" if limit is None else f"{limit['resource']}, {percent(limit['shares'][limit['resource']])}"
                made.add_row(*first, name, share)
                first = ("",) * len(first)
            start = ""
    return made
