"""`kbsim fuzz`: a program under many legal timings, searched for races and lost waits."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output, widgets
from kernbench.cli.ccl.list import Files
from kernbench.cli.endings import answering
from kernbench.cli.options import AllowCode, AnyConfig, Json, Quiet, StrictWait
from kernbench.cli.text import DIM, LIMIT, WAIT
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.analysis.fuzz.finding import Finding
    from kernbench.analysis.fuzz.search import Search

EVERY_SECONDS = 0.2  # the progress line is written again

FuzzTarget = Annotated[
    str | None,
    typer.Argument(
        metavar="TARGET",
        help="A bench, a program, a workload, a collective (all_reduce, ...), or a Python file that launches Triton kernels "
        "or workers.",
        show_default=False,
    ),
]
Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="PATH=VALUE",
        help="Set one value of the machine (dram.channels=4) or a parameter of a bench or collective (ranks=4). "
        "May be repeated.",
        show_default=False,
    ),
]


def fuzz(
    target: FuzzTarget = None,
    config: AnyConfig = None,
    settings: Settings = None,
    files: Files = None,
    allow_code: AllowCode = None,
    strict_wait: StrictWait = False,
    runs: Annotated[int, typer.Option("--runs", min=1, metavar="N", help="Number of runs, at most.")] = 1000,
    budget: Annotated[
        float | None,
        typer.Option("--time-budget", min=0.1, metavar="SECONDS", help="Do not start another run after this time.",
            show_default="none"),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, metavar="N", help="Number of processes.")] = 1,
    seed: Annotated[int, typer.Option("--seed", min=0, metavar="N", help="The same seed gives the same perturbed runs.")] = 0,
    latency: Annotated[
        int, typer.Option("--latency", min=0, metavar="CYCLES", help="Largest delay that is added to the latency of a "
            "transfer.")
    ] = 1024,
    start: Annotated[int, typer.Option("--start", min=0, metavar="CYCLES", help="Largest delay that is added to the "
        "start of a PE.")] = 4096,
    slowest: Annotated[
        str, typer.Option("--slowest", metavar="A/B", help="A slowed link or channel keeps at least this share of its "
            "bandwidth.")
    ] = "1/4",
    vary: Annotated[
        str, typer.Option("--vary", metavar="KINDS", help="The properties that vary between runs, separated by commas.")
    ] = "latency,start,ties,capacity,credits,stores",
    order_free: Annotated[
        list[str] | None,
        typer.Option("--order-free", metavar="TENSOR", help="Allow the values of this tensor to depend on the order of "
            "events. A tensor of floats is compared within a tolerance. A tensor of any other type is not compared. May be "
                "repeated.",
            show_default=False),
    ] = None,
    findings: Annotated[int, typer.Option("--findings", min=1, metavar="N", help="Stop after this many findings.")] = 3,
    save: Annotated[
        Path | None,
        typer.Option("--save", metavar="DIR", help="Write each finding to a file in DIR. "
            "The option --replay repeats the run of a finding.",
                     show_default=False),
    ] = None,
    replay: Annotated[
        Path | None,
        typer.Option("--replay", metavar="FILE", help="Repeat the run of a finding from a file that --save wrote.",
            show_default=False),
    ] = None,
    junit: Annotated[
        Path | None, typer.Option("--junit", metavar="FILE", help="Write a JUnit report to FILE.", show_default=False)
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run a target under many legal timings and report races, lost waits and deadlocks."""
    if replay is not None:
        if target is not None:
            rule = "a saved finding already has its target"
            raise InputError(Problem("kbsim fuzz", rule, "TARGET", target, "leave one of the two out"))
        return _replay(replay, allow_code or (), as_json, quiet)
    if target is None:
        raise InputError(Problem("kbsim fuzz", "it needs a TARGET, or --replay FILE", remedy="kbsim fuzz gemm fuzzes a bench"))
    from kernbench.analysis.fuzz.report import junit as junit_text
    from kernbench.api.fuzz import fuzz as run_fuzz
    from kernbench.common.files import check_writable, make_folder, write_whole

    if junit is not None:
        check_writable(junit)
    if save is not None:
        make_folder(save, "--save")
    params, overrides = _split(target, settings or [])
    with _progress(not (quiet or as_json)) as progress:
        found = run_fuzz(
            target,
            config,
            overrides,
            runs=runs,
            time_budget=budget,
            seed=seed,
            jobs=jobs,
            latency=latency,
            start=start,
            slowest=slowest,
            vary=tuple(name.strip() for name in vary.split(",") if name.strip()),
            most_findings=findings,
            strict_wait=strict_wait,
            allow_code=allow_code or (),
            ccl=files or (),
            order_free=order_free or (),
            progress=progress,
            **params,
        )
    files = _files(save, found.search) if save is not None else []
    if as_json:
        output.show_json(found.to_dict())
    elif not quiet:
        output.show(_shown(found.search, files))
    with answering(as_json):
        for file, one in zip(files, found.search.findings, strict=False):
            one.save(file)
        if junit is not None:
            write_whole(junit, junit_text(found.search).encode())
    return 0 if found else 1


def _split(target: str, settings: Sequence[str]) -> tuple[dict[str, Any], list[str]]:
    """Parameters of the target, and overrides of the machine."""
    from kernbench.ccl.collectives import COLLECTIVES

    if target in COLLECTIVES:
        from kernbench.cli.values import count_of
        from kernbench.sweep.targets.ccl import PARAMS

        own = {name.strip(): value.strip() for name, equals, value in (one.partition("=") for one in settings) if equals}
        params: dict[str, Any] = {name: value for name, value in own.items() if name in PARAMS}
        for name in ("ranks", "slots"):
            if name in params:
                try:
                    params[name] = count_of(params[name])
                except ValueError as error:
                    raise InputError(Problem("kbsim fuzz", str(error), name, params[name])) from None
        return params, [one for one in settings if one.partition("=")[0].strip() not in PARAMS]
    from kernbench.api.targets import bench_of
    from kernbench.runtime_api.bench import split_settings
    from kernbench.runtime_api.discovery import is_script

    if is_script(target):
        return {}, list(settings)
    bench = bench_of(target)
    return ({}, list(settings)) if bench is None else split_settings(bench.where, bench.params, list(settings))


def _files(folder: Path, found: Search) -> list[Path]:
    """The files of the findings."""
    name = "".join(letter if letter.isalnum() or letter in "-_" else "-" for letter in os.path.basename(found.target.name))
    return [folder / f"{name}-{found.seed}-{k}.json" for k in range(1, len(found.findings) + 1)]


def _shown(found: Search, files: Sequence[Path]) -> Iterator[RenderableType]:
    """The output of `kbsim fuzz`."""
    text = widgets.Text("nothing found" if not found.findings else "", LIMIT)
    if found.findings:
        text = widgets.Text(f"{len(found.findings)} found", WAIT)
    yield text.append(f"  {found.progress}, seed {found.seed}")
    yield f"{found.target.name} on {found.target.config.source}"
    if not found.conflicts:
        yield ""
        yield "no two accesses conflict: no order of accesses can change a tensor"
    if found.aborted:
        yield f"{found.aborted:,} runs were given up: they took much longer than the run without delays"
    for k, one in enumerate(found.findings):
        yield ""
        yield from _finding(f"{k + 1}. {one.wrong.kind}", one)
        if files:
            yield widgets.Text(f"   kbsim fuzz --replay {files[k]} runs it again", DIM)


def _finding(title: str, one: Finding) -> Iterator[RenderableType]:
    yield widgets.Text(title, WAIT)
    for line in one.sentences:
        yield f"   {line}"


def _replay(path: Path, allow_code: Sequence[str], as_json: bool, quiet: bool) -> int:
    from kernbench.api.fuzz import replay

    found = replay(path, allow_code=allow_code)
    there = bool(found.again.wrong.what)
    if as_json:
        output.show_json({"same": found.same, "found": there, "finding": found.again.to_dict()})
    elif not quiet:
        lines: list[RenderableType] = [found.headline]
        output.show([*lines, *(_finding(found.again.wrong.kind, found.again) if there else ())])
    return 1 if there else 0


@contextmanager
def _progress(wanted: bool) -> Iterator[Callable[[Search], None] | None]:
    """A line on stderr, if it is a terminal: runs, orders, findings."""
    if not wanted or sys.stderr is None or not sys.stderr.isatty():
        yield None
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    with Progress(*columns, console=output.console(sys.stderr), transient=True) as bar:
        task, last = bar.add_task("the run without delays", total=None), 0.0

        def show(found: Search) -> None:
            nonlocal last
            if time.monotonic() - last >= EVERY_SECONDS:
                last = time.monotonic()
                bar.update(task, description=found.progress)

        yield show
