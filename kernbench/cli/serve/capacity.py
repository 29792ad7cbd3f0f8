"""`kbsim serve capacity`: the largest request rate that meets latency targets."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output, widgets
from kernbench.cli.options import Json, Quiet
from kernbench.cli.serve.options import Energy, with_deployment
from kernbench.cli.serve.text import cost_lines
from kernbench.cli.text import short, table
from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.workloads.serving.deployment import Deployment


@with_deployment
def capacity(
    deployment: Deployment,
    *,
    slo: Annotated[
        str,
        typer.Option(
            "--slo", metavar="TARGETS", rich_help_panel="Search",
            help="Latency targets, such as 'p99 ttft<200ms, p99 tpot<50ms'. The statistic of a target is mean, median, p50, "
                "p90, p95 or p99. The metric of a target is ttft, tpot, itl, e2el or queue.",
        ),
    ],
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, help="Number of searches, each with its own seed.",
            rich_help_panel="Search")
    ] = 5,
    tolerance: Annotated[
        float, typer.Option("--tolerance", metavar="SHARE", help="Precision of the search. With 0.02, the search stops when "
            "the lowest failing rate is at most 2 % above the highest passing rate.", rich_help_panel="Search")
    ] = 0.02,
    duration: Annotated[
        float,
        typer.Option(
            "--duration", metavar="S", min=0, rich_help_panel="Search",
            help="If request lengths are random, requests arrive for at least this number of seconds.",
        ),
    ] = 20.0,
    energy: Energy = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:  # fmt: skip
    """Find the largest request rate at which latency targets are met. The search is a bisection, repeated for each seed."""
    from kernbench.workloads.serving.capacity import parse_slo

    rate = deployment.scenario.workload.arrivals.request_rate
    if math.isfinite(rate):
        remedy = f"leave out the option; to serve at this rate: kbsim serve run --request-rate {rate:g}"
        raise InputError(Problem("kbsim serve capacity", "this command finds the rate itself", "--request-rate", rate, remedy))
    deployment = deployment.having(sample=0, energy=energy)
    first = deployment.scenario.workload.seed
    found = deployment.capacity(parse_slo(slo), seeds=range(first, first + seeds), tolerance=tolerance, duration_s=duration)
    plain = deployment.to_dict(found)
    if as_json:
        output.show_json(plain)
    elif not quiet:
        output.show(capacity_summary(plain))
    return output.OK


def capacity_summary(plain: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The output of `kbsim serve capacity`."""
    low, high = plain["interval"]
    line = widgets.Text(f"{short(plain['rate'])} requests/s", "bold")
    line.append(f"  95 % interval {short(low)} to {short(high)}" if high is not None else "  of one seed, without an interval")
    yield line
    engines = counted(plain["replicas"], "engine")
    if plain["prefill_replicas"]:
        engines = f"{counted(plain['prefill_replicas'], 'engine')} for prefill and {plain['replicas']} for decode"
    yield widgets.Text(f"{plain['model']} on {plain['machine']}: {engines}, {', '.join(plain['slo'])}")
    for name, unit in (("requests_per_s_per_usd_per_hour", "$/hour"), ("requests_per_s_per_watt", "W")):
        if plain[name] is not None:
            yield widgets.Text(f"{plain[name]:.3g} requests/s per {unit}")
    yield from (widgets.Text(line) for line in cost_lines(plain, plain))
    yield ""
    made = table("by seed", [(name, "right") for name in ("seed", "met", "missed", "runs")] + [("missed there", "left")])
    for one in plain["seeds"]:
        missed = "none" if one["missed"] is None else short(one["missed"])
        made.add_row(str(one["seed"]), short(one["met"]), missed, str(one["runs"]), one["bound"])
    yield made
