"""`kbsim serve run`: serve a workload, and report latencies, throughput and their causes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output, widgets
from kernbench.cli.endings import answering
from kernbench.cli.options import Json, Quiet
from kernbench.cli.serve.options import OUTPUT, Energy, number, with_deployment
from kernbench.cli.serve.text import TITLES, cost_lines, ms_text, table_text, why_lines
from kernbench.cli.text import DIM, WAIT, Justify, percent, short, table
from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.workloads.serving.deployment import Deployment
    from kernbench.workloads.serving.scenario import Scenario, ScenarioResult

Goals = Annotated[
    list[str] | None,
    typer.Option(
        "--goodput", metavar="METRIC:MS", show_default=False, rich_help_panel=OUTPUT,
        help="Count the requests that meet all of these limits, such as ttft:200,tpot:50. Limits are in ms, for ttft, tpot or "
            "e2el.",
    ),
]  # fmt: skip


@with_deployment
def run(
    deployment: Deployment,
    *,
    check_steps: Annotated[
        int, number("--check-steps", "Simulate N steps of the run exactly, to measure the error of the table of step "
            "times.", OUTPUT, 0)
    ] = 8,
    goodput: Goals = None,
    energy: Energy = False,
    rows: Annotated[
        Path | None,
        typer.Option(
            "--rows", metavar="FILE", help="Write a table with one row for each request, as .csv or "
            ".parquet.", show_default=False,
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace", metavar="FILE", show_default=False, rich_help_panel=OUTPUT,
            help="Write a trace of the steps of one engine in Chrome's format (.json), for viewing in Perfetto.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--report", "--html", metavar="FILE", show_default=False, rich_help_panel=OUTPUT,
            help="Write an HTML page with timelines and distributions. The page needs no network.",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:  # fmt: skip
    """Serve a workload, and report when each token comes, how busy the machine is, and how full the KV cache is."""
    from kernbench.common.files import check_apart, check_writable
    from kernbench.workloads.serving.rows import check_rows, write_rows

    goals = goals_of(goodput or [])
    if rows is not None:
        check_rows(rows)
    for path in (trace, html):
        if path is not None:
            check_writable(path)
    check_apart([rows, trace, html], [deployment.scenario.workload.dataset_path])
    deployment = deployment.having(sample=check_steps, energy=energy)
    if trace is not None and deployment.engines > 1:
        rule = f"it is of one engine, and this has {deployment.engines}"
        raise InputError(Problem("kbsim serve", rule, "--trace", str(trace)))
    failed = None
    if trace is None:
        done = deployment.run()
    else:
        done, failed = _traced_run(deployment.parts[0].scenario, trace)
    plain = done.to_dict(goals)
    if as_json:
        output.show_json(plain)
    elif not quiet:
        output.show(serving_summary(plain))
    with answering(as_json):
        if rows is not None:
            write_rows(done.result.rows(), rows)
            if not (quiet or as_json):
                output.note(f"{rows}: {counted(len(done.result.record.requests), 'row')}")
        if html is not None:
            from kernbench.cli.serve.page import page_bytes
            from kernbench.common.files import write_whole

            write_whole(html, page_bytes(plain, done.result))
            if not (quiet or as_json):
                output.note(f"{html}: open it in a browser")
        if failed is not None:
            raise failed
    return output.OK


def _traced_run(scenario: Scenario, path: Path) -> tuple[ScenarioResult, InputError | None]:
    """Run, and write each step as it ends. Returns the result, and the error if the file has no room for the steps. InputError
    if the file cannot be opened.
    """
    from kernbench.common.files import not_written, placed, target_of
    from kernbench.workloads.serving.step_trace import StepTrace

    done: ScenarioResult | None = None
    try:
        with placed(target_of(path)) as out:
            trace = StepTrace(out)
            done = scenario.run(trace)
            trace.close()
    except OSError as error:
        failed = not_written(path, error)
        if done is None:
            raise failed from None
        return done, failed
    return done, None


def goals_of(texts: list[str]) -> dict[str, float]:
    """[ms] The goals by metric. InputError for a text that is not a goal."""
    from kernbench.workloads.serving.result import GOALS

    found: dict[str, float] = {}
    for text in (one for several in texts for one in several.replace(",", " ").split()):
        name, _, value = text.partition(":")
        try:
            most = float(value)
        except ValueError:
            most = math.nan
        if name not in GOALS or not most > 0:
            rule = f"it must be METRIC:MS, with METRIC one of {', '.join(GOALS)}"
            raise InputError(Problem("kbsim serve", rule, "--goodput", text, "write ttft:200,tpot:50"))
        found[name] = most
    return found


def serving_summary(plain: Mapping[str, Any]) -> Iterator[RenderableType]:
    """The output of `kbsim serve`."""
    steady, whole = plain["steady"], plain["whole"]
    shown = steady or whole
    line = widgets.Text(f"{short(shown['requests_per_s'])} requests/s", "bold")
    for name in ("ttft", "tpot"):
        of = shown[f"{name}_ms"]
        if of is not None:
            line.append(f"  {TITLES[name]} p50 {ms_text(of['p50'])}, p99 {ms_text(of['p99'])}")
    yield line
    counts = plain["requests"]
    text = f"{plain['model']} on {plain['machine']}: {counted(counts['finished'], 'request')} in {short(plain['duration_s'])} s"
    yield widgets.Text(f"{text}, {short(shown['output_tokens_per_s'])} output tokens/s")
    blocks = f"KV cache of {plain['num_gpu_blocks']:,} blocks of {plain['block_size']} tokens"
    yield widgets.Text(f"{blocks}; a request has at most {plain['max_model_len']:,} tokens", DIM)
    yield widgets.Text(f"{counted(plain['steps'], 'step')}, {counted(plain['preemptions'], 'preemption')}", DIM)
    if plain["speculation"] is not None:
        of = plain["speculation"]
        text = f"a step gives {short(of['acceptance_length'])} tokens of a request, {percent(of['acceptance_rate'])} of drafts"
        yield widgets.Text(f"{text} accepted", DIM)
    if plain["swapped_blocks"]:
        yield widgets.Text(f"{counted(plain['swapped_blocks'], 'block')} over the link to the host", DIM)
    for name in ("rejected", "aborted"):
        if counts[name]:
            yield widgets.Text(f"{counted(counts[name], 'request')} {name}", WAIT)
    if "goodput_per_s" in shown:
        goals = ", ".join(f"{TITLES[name]} at most {ms_text(most)}" for name, most in plain["goals_ms"].items())
        yield widgets.Text(f"goodput {short(shown['goodput_per_s'])} requests/s, {percent(shown['good_share'])}: {goals}")
    yield from (widgets.Text(line) for line in why_lines(shown))
    yield from (widgets.Text(line) for line in cost_lines(plain["cost"] or {}, plain["energy"] or {}))
    if plain["table"] is not None:
        yield widgets.Text(table_text(plain["table"]), DIM)
    if plain["fleet"] is not None:
        yield ""
        yield _groups(plain["fleet"])
    yield ""
    yield _latencies("steady state" if steady else "whole run", shown)
    if steady:
        yield ""
        yield _latencies("whole run, with warm-up and drain", whole)
        yield widgets.Text(
            f"warm-up until {short(steady['start_s'])} s, steady until the last arrival at {short(steady['end_s'])} s", DIM
        )


def _groups(rows: Sequence[Mapping[str, Any]]) -> RenderableType:
    """A row for each group of a fleet."""
    columns: list[tuple[str, Justify]] = [("machine", "left"), ("role", "left")]
    made = table("fleet", [*columns, *((name, "right") for name in ("engines", "layout", "requests", "busy"))])
    for one in rows:
        busy = sum(one["busy"]) / len(one["busy"])
        layout = " ".join(f"{name} {one[name]}" for name in ("tp", "pp", "dp") if one[name] > 1) or "tp 1"
        numbers = (str(one["count"]), layout, f"{sum(one['served']):,}", percent(busy))
        made.add_row(one["machine"], one["role"], *numbers)
    return made


def _latencies(title: str, of: Mapping[str, Any]) -> Any:
    columns: list[tuple[str, Justify]] = [("", "left")]
    columns += [(name, "right") for name in ("mean", "std", "p50", "p90", "p95", "p99")]
    made = table(title, columns)
    for name, label in TITLES.items():
        found = of[f"{name}_ms"]
        if found is not None:
            made.add_row(label, *(ms_text(found[one]) for one in ("mean", "std", "p50", "p90", "p95", "p99")))
    return made
