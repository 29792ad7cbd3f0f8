"""`kbsim ccl replay`: execution traces of other programs on a simulated machine."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output, widgets
from kernbench.cli.ccl.group import GroupShape, MachineOption, Topo, chosen_group
from kernbench.cli.options import Json, Overrides
from kernbench.cli.text import percent, size_text, table
from kernbench.cli.values import dtype_of

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.ccl.replay import Job, Times

Place = Annotated[
    Path,
    typer.Argument(
        metavar="TRACE", help="A directory with the files PREFIX.RANK.et, or the path DIRECTORY/PREFIX of these "
            "files.", show_default=False
    ),
]
ElementType = Annotated[str, typer.Option("--dtype", "-d", metavar="TYPE", help="Element type of operations and collectives.")]
Estimate = Annotated[
    bool, typer.Option("--estimate", help="Estimate collectives and messages with the cost model, and do not simulate them.")
]
Control = Annotated[
    bool,
    typer.Option(
        "--control/--no-control",
        help="Use the control dependencies of the traces. Use --no-control for traces from PyTorch's converter, because "
            "the control dependencies of these traces only record calls between functions.",
    ),
]


def replay(
    trace: Place,
    config: MachineOption = None,
    overrides: Overrides = None,
    shape: GroupShape = None,
    topo: Topo = None,
    dtype: ElementType = "f16",
    estimates: Estimate = False,
    control: Control = True,
    as_json: Json = False,
) -> int:
    """Run Chakra execution traces, and print the time, its causes, and what each rank does."""
    from kernbench.ccl.collectives import CCL_DTYPES
    from kernbench.ccl.imports.chakra import read_chakra
    from kernbench.ccl.registry import read_registry
    from kernbench.ccl.replay import Times, jobs_of, run_jobs, time_jobs

    kind = dtype_of("kbsim ccl replay", dtype, CCL_DTYPES)
    traces = read_chakra(trace, control)
    registry = read_registry()
    jobs = jobs_of(traces, registry)
    machine, group = chosen_group("kbsim ccl replay", [], config, overrides or [], (), len(traces), shape, topo)
    times = Times(machine, group, registry, kind, estimates)
    time_jobs(traces, jobs, times)
    run_jobs(jobs)
    data = _plain(jobs, times, len(traces))
    if as_json:
        output.show_json(data)
    else:
        output.show(_summary(data, str(trace)))
    return output.OK


def _plain(jobs: Sequence[Job], times: Times, ranks: int) -> dict[str, Any]:
    from kernbench.ccl.replay import COMMUNICATION, COMPUTE, CPU, critical_path

    cycles, path = max((job.end for job in jobs), default=0), critical_path(jobs)
    rows = [{"rank": rank, "nodes": 0, COMPUTE: 0, CPU: 0, COMMUNICATION: 0, "end": 0} for rank in range(ranks)]
    for job in jobs:
        for rank, _ in job.nodes:
            rows[rank]["nodes"] += 1
            rows[rank]["end"] = max(rows[rank]["end"], job.end)
        for rank, kind in job.engines:
            rows[rank][kind] += job.cycles
    calls = Counter(job.wanted for job in jobs if job.wanted is not None)
    return {
        "status": "done",
        "machine": times.config.source,
        "ranks": ranks,
        "cycles": cycles,
        "time_us": cycles / (float(times.config.freq_ghz) * 1e3),
        "estimated": times.estimates,
        "critical_path": {kind: path[kind] for kind in (COMPUTE, COMMUNICATION, CPU)},
        "per_rank": rows,
        "communication": [
            {
                "collective": "send" if one.message else one.collective,
                "size": one.size,
                "ranks": list(one.ranks),
                "algorithm": times.collective(one)[0],
                "cycles": job.cycles,
                "times": calls[one],
            }
            for one, job in {job.wanted: job for job in jobs if job.wanted is not None}.items()
        ],
    }


def _summary(data: dict[str, Any], source: str) -> Iterator[RenderableType]:
    """The time, its causes, a row for each rank, and a row for each collective."""
    yield widgets.Text(
        f"{source}: {data['cycles']:,} cycles ({data['time_us']:,.2f} us), {data['ranks']} ranks of {data['machine']}"
    )
    if data["cycles"]:
        shares = [f"{percent(cycles / data['cycles'])} {kind}" for kind, cycles in data["critical_path"].items() if cycles]
        yield widgets.Text(f"critical path: {', '.join(shares)}")
    columns = ("rank", "nodes", "compute", "communication", "cpu", "end")
    made = table("Ranks", [(name, "right") for name in columns], note="cycles")
    for row in data["per_rank"]:
        made.add_row(*(f"{row[name]:,}" for name in columns))
    yield made
    if not data["communication"]:
        return
    how = "estimated" if data["estimated"] else "simulated alone"
    right = ("size", "ranks", "cycles", "times")
    made = table("Communication", [("what", "left"), ("algorithm", "left"), *((name, "right") for name in right)], note=how)
    for one in data["communication"]:
        ranks = " to ".join(map(str, one["ranks"])) if one["collective"] == "send" else str(len(one["ranks"]))
        size = size_text(one["size"]) if one["size"] else "-"
        made.add_row(one["collective"], one["algorithm"], size, ranks, f"{one['cycles']:,}", str(one["times"]))
    yield made
