"""`kbsim serve`: requests arrive at a model on a machine; latencies, throughput, and what they depend on."""

from __future__ import annotations

import functools
import inspect
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperGroup

from kernbench.cli import output, widgets
from kernbench.cli.commands import Section
from kernbench.cli.llm import ActivationBits, Experts, ModelName, Parallel, Routes, WeightBits
from kernbench.cli.options import AllowCode, Config, Json, Overrides, Quiet, count_of
from kernbench.cli.text import DIM, WAIT, Justify, duration, percent, scaled, short, table
from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.workloads.serving.deployment import Deployment, Group
    from kernbench.workloads.serving.extra_work import Lora
    from kernbench.workloads.serving.scenario import Scenario, ScenarioResult


class RunByDefault(TyperGroup):
    """`kbsim serve --model ...` is `kbsim serve run --model ...`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse as usual, with `run` where options come first."""
        if args and args[0].startswith("-") and args[0] not in ("-h", "--help"):
            args = ["run", *args]
        return super().parse_args(ctx, args)


app = Section("Serve requests with a model on a machine: latencies, throughput, and what limits them.")
app.info.cls = RunByDefault


@app.callback()
def serve() -> None:
    """Serve requests with a model on a machine: latencies, throughput, and what limits them."""


class DatasetName(StrEnum):
    """Where the requests come from."""

    RANDOM = "random"
    SHAREGPT = "sharegpt"
    BURSTGPT = "burstgpt"
    PREFIX_REPETITION = "prefix_repetition"
    CUSTOM = "custom"


class RampUpStrategy(StrEnum):
    """How the rate rises."""

    LINEAR = "linear"
    EXPONENTIAL = "exponential"


class SchedulingPolicy(StrEnum):
    """Which request that waits is first."""

    FCFS = "fcfs"
    PRIORITY = "priority"
    SLO = "slo"


class PreemptionMode(StrEnum):
    """What becomes of the blocks of a preempted request."""

    RECOMPUTE = "recompute"
    SWAP = "swap"


class PrefixCacheType(StrEnum):
    """How known tokens are found."""

    HASH = "hash"
    RADIX = "radix"


class CacheType(StrEnum):
    """The type of keys and values."""

    AUTO = "auto"
    BFLOAT16 = "bfloat16"
    FP8 = "fp8"
    INT4 = "int4"


_CACHE_BITS = {CacheType.AUTO: None, CacheType.BFLOAT16: 16, CacheType.FP8: 8, CacheType.INT4: 4}


def _rate(text: str, option: str) -> float:
    """A number, or inf."""
    try:
        found = float(text)
    except ValueError:
        found = math.nan
    if not found > 0:
        from kernbench.config.remedies import number_meant

        number = number_meant(text.partition("/")[0])
        rule = "it must be a number greater than 0, or inf"
        raise InputError(Problem("kbsim serve", rule, option, text, f"write {number}" if number else ""))
    return found


_DATASET, _ENGINE, _OUTPUT = "Workload", "Engine", "Output"


def _number(name: str, text: str, panel: str, least: int = 1, **more: Any) -> Any:
    """An option with a number of tokens, requests or blocks: `512`, `8k`."""

    def parsed(value: str) -> int:
        found = count_of(value)
        if found < least:
            raise typer.BadParameter(f"it must be at least {least}")
        return found

    return typer.Option(name, metavar="N", parser=parsed, help=text, rich_help_panel=panel, **more)


DatasetPath = Annotated[
    Path | None,
    typer.Option(
        "--dataset-path", metavar="FILE", show_default=False, rich_help_panel=_DATASET,
        help="File of sharegpt (.json), burstgpt (.csv) or custom (.jsonl, .csv) requests.",
    ),
]  # fmt: skip
Goals = Annotated[
    list[str] | None,
    typer.Option(
        "--goodput", metavar="METRIC:MS", show_default=False, rich_help_panel=_OUTPUT,
        help="Count requests that meet all limits, such as ttft:200,tpot:50. Limits are in ms, for ttft, tpot or e2el.",
    ),
]  # fmt: skip


Energy = Annotated[
    bool,
    typer.Option("--energy", help="Simulate the energy of steps too.", rich_help_panel=_OUTPUT),
]


class RouterName(StrEnum):
    """Which engine gets a request."""

    ROUND_ROBIN = "round_robin"
    LEAST_OUTSTANDING = "least_outstanding"
    PREFIX_AWARE = "prefix_aware"
    RANDOM = "random"


_FLEET = "Fleet"
_KWH = 3.6e6  #: [J]
_SWAP_SPACE = 4.0  #: [GiB] as vLLM V0's default


def scenario_of(
    model: ModelName = "llama3-8b",
    config: Config = "npu_server",
    overrides: Overrides = None,
    w: WeightBits = None,
    a: ActivationBits = None,
    kv_cache_dtype: Annotated[CacheType, typer.Option("--kv-cache-dtype", help="Type of the KV cache.")] = CacheType.AUTO,
    tp: Parallel = 1,
    ep: Experts = False,
    routing: Routes = "even",
    runtime: Annotated[
        str | None,
        typer.Option("--runtime", metavar="NAME|FILE", help="What the host adds.", show_default="none; on a chip vllm"),
    ] = None,
    dataset_name: Annotated[
        DatasetName,
        typer.Option(
            "--dataset-name", metavar="NAME", rich_help_panel=_DATASET,
            help="Where requests come from: random, sharegpt, burstgpt, prefix_repetition or custom.",
        ),
    ] = DatasetName.RANDOM,
    dataset_path: DatasetPath = None,
    num_prompts: Annotated[
        int | None, _number("--num-prompts", "Number of requests.", _DATASET, show_default="1000, or all of the file")
    ] = None,
    request_rate: Annotated[
        str,
        typer.Option(
            "--request-rate", metavar="R", help="Requests per second; inf: the times in the file, or all requests at once.",
            rich_help_panel=_DATASET,
        ),
    ] = "inf",
    burstiness: Annotated[
        str,
        typer.Option(
            "--burstiness", metavar="B", rich_help_panel=_DATASET,
            help="Shape of the gamma distribution of intervals: 1 is Poisson, less is burstier, inf is even.",
        ),
    ] = "1",
    max_concurrency: Annotated[
        int | None,
        _number("--max-concurrency", "Send a request only if fewer than N are unfinished.", _DATASET, show_default="no limit"),
    ] = None,
    ramp_up_strategy: Annotated[
        RampUpStrategy | None,
        typer.Option("--ramp-up-strategy", help="Raise the rate over the run.", show_default=False, rich_help_panel=_DATASET),
    ] = None,
    ramp_up_start_rps: Annotated[
        str | None,
        typer.Option(
            "--ramp-up-start-rps", metavar="R", help="Rate at the start.", show_default=False, rich_help_panel=_DATASET
        ),
    ] = None,
    ramp_up_end_rps: Annotated[
        str | None,
        typer.Option("--ramp-up-end-rps", metavar="R", help="Rate at the end.", show_default=False, rich_help_panel=_DATASET),
    ] = None,
    seed: Annotated[int, _number("--seed", "Seed of arrivals and lengths.", _DATASET, 0)] = 0,
    random_input_len: Annotated[int, _number("--random-input-len", "random: tokens of a prompt.", _DATASET)] = 1024,
    random_output_len: Annotated[int, _number("--random-output-len", "random: tokens of an output.", _DATASET)] = 128,
    random_range_ratio: Annotated[
        float,
        typer.Option(
            "--random-range-ratio", metavar="R", rich_help_panel=_DATASET,
            help="For random: lengths are uniform from 1 - R to 1 + R times the given lengths.",
        ),
    ] = 0.0,
    random_prefix_len: Annotated[
        int, _number("--random-prefix-len", "For random: number of tokens that all prompts share at their start.", _DATASET, 0)
    ] = 0,
    prefix_repetition_prefix_len: Annotated[
        int, _number("--prefix-repetition-prefix-len", "prefix_repetition: tokens of a prefix.", _DATASET)
    ] = 256,
    prefix_repetition_suffix_len: Annotated[
        int, _number("--prefix-repetition-suffix-len", "prefix_repetition: tokens after it.", _DATASET)
    ] = 256,
    prefix_repetition_num_prefixes: Annotated[
        int, _number("--prefix-repetition-num-prefixes", "prefix_repetition: different prefixes.", _DATASET)
    ] = 10,
    prefix_repetition_output_len: Annotated[
        int, _number("--prefix-repetition-output-len", "prefix_repetition: tokens of an output.", _DATASET)
    ] = 128,
    sharegpt_output_len: Annotated[
        int | None,
        _number("--sharegpt-output-len", "sharegpt: tokens of an output.", _DATASET, show_default="as in the file"),
    ] = None,
    max_num_seqs: Annotated[int, _number("--max-num-seqs", "Largest number of requests that run at a time.", _ENGINE)] = 256,
    max_num_batched_tokens: Annotated[int, _number("--max-num-batched-tokens", "Tokens of a step.", _ENGINE)] = 2048,
    max_model_len: Annotated[
        int | None,
        _number("--max-model-len", "Largest number of tokens of a prompt and its output together.", _ENGINE, 2,
            show_default="of the model"),
    ] = None,
    block_size: Annotated[int, _number("--block-size", "Tokens of a block of the KV cache.", _ENGINE)] = 16,
    num_gpu_blocks_override: Annotated[
        int | None, _number("--num-gpu-blocks-override", "Blocks of the KV cache.", _ENGINE, 2, show_default="from the memory")
    ] = None,
    gpu_memory_utilization: Annotated[
        float,
        typer.Option(
            "--gpu-memory-utilization", "--npu-memory-utilization", metavar="SHARE", rich_help_panel=_ENGINE,
            help="Share of the memory for weights and KV cache.",
        ),
    ] = 0.9,
    enable_chunked_prefill: Annotated[
        bool,
        typer.Option(
            "--enable-chunked-prefill/--no-enable-chunked-prefill", help="Cut prefills into chunks.", rich_help_panel=_ENGINE
        ),
    ] = True,
    long_prefill_token_threshold: Annotated[
        int, _number("--long-prefill-token-threshold", "Largest number of tokens of one prefill in a step; 0: no limit.",
            _ENGINE, 0)
    ] = 0,
    enable_prefix_caching: Annotated[
        bool,
        typer.Option(
            "--enable-prefix-caching/--no-enable-prefix-caching", help="Reuse full KV blocks that have equal tokens.",
            rich_help_panel=_ENGINE,
        ),
    ] = True,
    async_scheduling: Annotated[
        bool,
        typer.Option(
            "--async-scheduling/--no-async-scheduling", help="Schedule a step while the one before runs.",
            rich_help_panel=_ENGINE,
        ),
    ] = True,
    scheduler_reserve_full_isl: Annotated[
        bool,
        typer.Option(
            "--scheduler-reserve-full-isl/--no-scheduler-reserve-full-isl", rich_help_panel=_ENGINE,
            help="Start a request only if all its tokens fit.",
        ),
    ] = True,
    scheduling_policy: Annotated[
        SchedulingPolicy,
        typer.Option(
            "--scheduling-policy", metavar="POLICY", rich_help_panel=_ENGINE,
            help="Order of requests that wait: fcfs, priority or slo.",
        ),
    ] = SchedulingPolicy.FCFS,
    speculative_config: Annotated[
        str | None,
        typer.Option(
            "--speculative-config", metavar="JSON", show_default=False, rich_help_panel=_ENGINE,
            help="Drafts that a step verifies: method (draft_model, ngram), model, num_speculative_tokens, acceptance.",
        ),
    ] = None,
    lora: Annotated[
        str | None,
        typer.Option(
            "--lora", metavar="N,RANK", show_default=False, rich_help_panel=_ENGINE,
            help="Each request has one of N adapters of this rank.",
        ),
    ] = None,
    max_loras: Annotated[int, _number("--max-loras", "Largest number of different adapters in a step, and in device memory.",
        _ENGINE)] = 1,
    preemption_mode: Annotated[
        PreemptionMode,
        typer.Option(
            "--preemption-mode", metavar="MODE", rich_help_panel=_ENGINE,
            help="What happens to a preempted request: recompute, or swap to the host and back.",
        ),
    ] = PreemptionMode.RECOMPUTE,
    swap_space: Annotated[
        float | None,
        typer.Option(
            "--swap-space", metavar="GIB", show_default="4 with swap", rich_help_panel=_ENGINE,
            help="Host memory for KV blocks of preempted requests, for each device.",
        ),
    ] = None,
    host_link_gb_s: Annotated[
        float | None,
        typer.Option(
            "--host-link-gb-s", metavar="GB/S", show_default="of a system's PCIe link", rich_help_panel=_ENGINE,
            help="Bandwidth of the link of each device to its host, for swaps and adapters.",
        ),
    ] = None,
    prefix_cache: Annotated[
        PrefixCacheType,
        typer.Option(
            "--prefix-cache", metavar="KIND", rich_help_panel=_ENGINE,
            help="hash: find blocks by their hash, as vLLM does; radix: keep a tree of pages, as SGLang does.",
        ),
    ] = PrefixCacheType.HASH,
    exact: Annotated[bool, typer.Option("--exact", help="Simulate every distinct step, without a table.")] = False,
    allow_code: AllowCode = None,
) -> Scenario:  # fmt: skip
    """The options that say what is served, where and how."""
    from kernbench.config import load_config
    from kernbench.workloads.models.files import load_model
    from kernbench.workloads.routing import routing_of
    from kernbench.workloads.serving.arrivals import Arrivals
    from kernbench.workloads.serving.scenario import Scenario
    from kernbench.workloads.serving.speculation import parse_speculation
    from kernbench.workloads.serving.workload import Workload

    arrivals = Arrivals(
        request_rate=_rate(request_rate, "--request-rate"), burstiness=_rate(burstiness, "--burstiness"),
        ramp_up=None if ramp_up_strategy is None else ramp_up_strategy.value,
        ramp_up_start_rps=None if ramp_up_start_rps is None else _rate(ramp_up_start_rps, "--ramp-up-start-rps"),
        ramp_up_end_rps=None if ramp_up_end_rps is None else _rate(ramp_up_end_rps, "--ramp-up-end-rps"),
    )  # fmt: skip
    adapters = None if lora is None else _adapters(lora, max_loras)
    workload = Workload(
        dataset_name=dataset_name.value, dataset_path=dataset_path, num_prompts=num_prompts, arrivals=arrivals, seed=seed,
        random_input_len=random_input_len, random_output_len=random_output_len, random_range_ratio=random_range_ratio,
        random_prefix_len=random_prefix_len, prefix_repetition_prefix_len=prefix_repetition_prefix_len,
        prefix_repetition_suffix_len=prefix_repetition_suffix_len,
        prefix_repetition_num_prefixes=prefix_repetition_num_prefixes,
        prefix_repetition_output_len=prefix_repetition_output_len, sharegpt_output_len=sharegpt_output_len,
        adapters=0 if adapters is None else adapters.adapters,
    )  # fmt: skip
    speculation = None if speculative_config is None else parse_speculation(speculative_config)
    swaps = preemption_mode == PreemptionMode.SWAP
    if swap_space is not None and not (swaps and swap_space > 0):
        rule = "it must be more than 0, with --preemption-mode swap"
        raise InputError(Problem("kbsim serve", rule, "--swap-space", swap_space))
    engine = {
        "max_num_seqs": max_num_seqs, "max_num_batched_tokens": max_num_batched_tokens, "block_size": block_size,
        "enable_chunked_prefill": enable_chunked_prefill, "long_prefill_token_threshold": long_prefill_token_threshold,
        "enable_prefix_caching": enable_prefix_caching, "async_scheduling": async_scheduling,
        "scheduler_reserve_full_isl": scheduler_reserve_full_isl, "scheduling_policy": scheduling_policy.value,
        "prefix_cache": prefix_cache.value,
    }  # fmt: skip
    machine = load_config(config, overrides or (), allow_code=tuple(allow_code or ()))
    return Scenario(
        model=load_model(model), machine=machine, workload=workload, engine=engine, num_gpu_blocks=num_gpu_blocks_override,
        max_model_len=max_model_len, gpu_memory_utilization=gpu_memory_utilization, max_concurrency=max_concurrency, w=w, a=a,
        kv=_CACHE_BITS[kv_cache_dtype], tp=tp, ep=ep, routing=routing_of(routing, seed), runtime=runtime,
        exact=exact, speculation=speculation,
        draft=None if speculation is None or speculation.model is None else load_model(speculation.model),
        lora=adapters,
        swap_space_gib=(_SWAP_SPACE if swap_space is None else swap_space) if swaps else 0.0, host_link_gb_s=host_link_gb_s,
    )  # fmt: skip


def _adapters(text: str, max_loras: int) -> Lora:
    """`8,16`: eight adapters of rank 16. InputError for a text that is not valid."""
    from kernbench.workloads.serving.extra_work import Lora

    try:
        adapters, rank = (int(part) for part in text.split(","))
    except ValueError:
        raise InputError(Problem("kbsim serve", "it must be N,RANK", "--lora", text, "write 8,16")) from None
    return Lora(adapters=adapters, rank=rank, max_loras=max_loras)


def deployment_of(
    scenario: Scenario,
    allow_code: Sequence[str],
    replicas: Annotated[int, _number("--replicas", "Number of engines. With --prefill-replicas, number of engines that "
        "decode.", _FLEET)] = 1,
    prefill_replicas: Annotated[int, _number("--prefill-replicas", "Engines that only prefill.", _FLEET, 0)] = 0,
    router: Annotated[
        RouterName, typer.Option("--router", help="Which engine gets a request.", rich_help_panel=_FLEET)
    ] = RouterName.ROUND_ROBIN,
    kv_link_gb_s: Annotated[
        float | None,
        typer.Option(
            "--kv-link-gb-s", metavar="GB/S", show_default="of the machine", rich_help_panel=_FLEET,
            help="Bandwidth of the link from a prefilling engine to the decoding engines.",
        ),
    ] = None,
    fleet: Annotated[
        Path | None,
        typer.Option(
            "--fleet", metavar="FILE", show_default=False, rich_help_panel=_FLEET,
            help="Groups of different engines (.yaml, .json): machine, count, role and options of each.",
        ),
    ] = None,
) -> Deployment:  # fmt: skip
    """The options that say how many engines serve it."""
    from kernbench.workloads.serving.deployment import Deployment

    groups: tuple[Group, ...] = ()
    if fleet is not None:
        from kernbench.workloads.serving.fleet_file import load_fleet

        if (replicas, prefill_replicas) != (1, 0):
            rule = "the file says how many engines there are, so --replicas and --prefill-replicas may not be given"
            raise InputError(Problem("kbsim serve", rule, "--fleet", str(fleet)))
        groups = load_fleet(fleet, scenario, allow_code)
    return Deployment(
        scenario=scenario, replicas=replicas, prefill=prefill_replicas, routing=router.value, kv_link_gb_s=kv_link_gb_s,
        groups=groups,
    )  # fmt: skip


def with_deployment(command: Callable[..., int]) -> Callable[..., int]:
    """A command whose first argument is a deployment takes the options of `scenario_of` before its own, and those of
    `deployment_of` after them."""
    names = {"Scenario": object, "Deployment": object, "Sequence": Sequence}  # they are imported when a command runs
    before = inspect.signature(scenario_of, eval_str=True, locals=names).parameters
    _, _, *after = inspect.signature(deployment_of, eval_str=True, locals=names).parameters.values()
    _, *own = inspect.signature(command, eval_str=True, locals=names).parameters.values()

    @functools.wraps(command)
    def called(**values: Any) -> int:
        code = tuple(values["allow_code"] or ())
        scenario = scenario_of(**{name: values.pop(name) for name in before})
        for note in () if values["quiet"] else scenario.model.notes:
            output.note(f"warning: {note}")
        return command(deployment_of(scenario, code, **{one.name: values.pop(one.name) for one in after}), **values)

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in (*before.values(), *own, *after)]
    called.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": int}
    del called.__wrapped__  # its annotations are not those of the command
    return called


@app.command()
@with_deployment
def run(
    deployment: Deployment,
    *,
    check_steps: Annotated[
        int, _number("--check-steps", "Simulate N steps of the run exactly, to measure the error of the table of step "
            "times.", _OUTPUT, 0)
    ] = 8,
    goodput: Goals = None,
    energy: Energy = False,
    rows: Annotated[
        Path | None,
        typer.Option(
            "--rows", metavar="FILE", help="Write a row for each request: .csv or .parquet.", show_default=False,
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace", metavar="FILE", show_default=False, rich_help_panel=_OUTPUT,
            help="Write the steps of one engine in Chrome's format (.json), which Perfetto opens.",
        ),
    ] = None,
    html: Annotated[
        Path | None,
        typer.Option(
            "--html", metavar="FILE", show_default=False, rich_help_panel=_OUTPUT,
            help="Write an HTML page with time lines and distributions, which needs no network.",
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
    done = deployment.run() if trace is None else _traced_run(deployment.parts[0].scenario, trace)
    plain = done.to_dict(goals)
    if rows is not None:
        write_rows(done.result.rows(), rows)
        if not (quiet or as_json):
            output.note(f"{rows}: {counted(len(done.result.record.requests), 'row')}")
    if html is not None:
        from kernbench.cli.serve_page import page_bytes
        from kernbench.common.files import write_whole

        write_whole(html, page_bytes(plain, done.result))
        if not (quiet or as_json):
            output.note(f"{html}: open it in a browser")
    if as_json:
        output.show_json(plain)
    elif not quiet:
        output.show(serving_summary(plain))
    return output.OK


def _traced_run(scenario: Scenario, path: Path) -> ScenarioResult:
    """Run, and write each step as it ends. InputError if the file cannot be written."""
    from kernbench.common.files import placed, target_of
    from kernbench.workloads.serving.step_trace import StepTrace

    try:
        with placed(target_of(path)) as out:
            trace = StepTrace(out)
            done = scenario.run(trace)
            trace.close()
    except OSError as error:
        raise InputError(Problem(str(path), f"it cannot be written: {error.strerror}")) from None
    return done


def goals_of(texts: list[str]) -> dict[str, float]:
    """[ms] by metric. InputError for what is no goal."""
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


#: Metrics in the output.
TITLES = {"ttft": "TTFT", "tpot": "TPOT", "itl": "ITL", "e2el": "E2EL", "queue": "queue"}


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
    told = f"{plain['model']} on {plain['machine']}: {counted(counts['finished'], 'request')} in {short(plain['duration_s'])} s"
    yield widgets.Text(f"{told}, {short(shown['output_tokens_per_s'])} output tokens/s")
    blocks = f"{plain['num_gpu_blocks']:,} blocks of {plain['block_size']} tokens, at most {plain['max_model_len']:,} a request"
    yield widgets.Text(f"{blocks}; {counted(plain['steps'], 'step')}, {counted(plain['preemptions'], 'preemption')}", DIM)
    if plain["speculation"] is not None:
        of = plain["speculation"]
        told = f"a step gives {short(of['acceptance_length'])} tokens of a request, {percent(of['acceptance_rate'])} of drafts"
        yield widgets.Text(f"{told} accepted", DIM)
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
    made = table("fleet", [*columns, *((name, "right") for name in ("engines", "tp", "requests", "busy"))])
    for one in rows:
        busy = sum(one["busy"]) / one["count"]
        numbers = (str(one["count"]), str(one["tp"]), f"{sum(one['served']):,}", percent(busy))
        made.add_row(one["machine"], one["role"], *numbers)
    return made


def ms_text(value: float) -> str:
    """A time in ms, in its unit."""
    return duration(value * 1e6)


def _latencies(title: str, of: Mapping[str, Any]) -> Any:
    columns: list[tuple[str, Justify]] = [("", "left")]
    columns += [(name, "right") for name in ("mean", "std", "p50", "p90", "p95", "p99")]
    made = table(title, columns)
    for name, label in TITLES.items():
        found = of[f"{name}_ms"]
        if found is not None:
            made.add_row(label, *(ms_text(found[one]) for one in ("mean", "std", "p50", "p90", "p95", "p99")))
    return made


#: What the parts of `why` are, in the output.
PARTS = {
    "kv_blocks": "waiting for KV blocks",
    "sequence_slots": "waiting for a place (--max-num-seqs)",
    "token_budget": "waiting for tokens of a step (--max-num-batched-tokens)",
    "running_step": "waiting for steps scheduled before",
    "prefill": "prefill",
    "decode_step": "steps of decodes alone",
    "prefill_step": "steps with prefill",
    "host": "host beyond the device",
    "between_steps": "preempted or not scheduled",
}


#: The same where there is little room.
SHORT_PARTS = {
    "kv_blocks": "KV blocks",
    "sequence_slots": "--max-num-seqs",
    "token_budget": "tokens of a step",
    "running_step": "steps before",
    "prefill": "prefill",
    "decode_step": "decode steps",
    "prefill_step": "prefill steps",
    "host": "host",
    "between_steps": "not scheduled",
}


def why_parts(of: Mapping[str, Any] | None) -> dict[str, float]:
    """The share of each part of TTFT or of the time between tokens; parts of nothing are left out."""
    values = {name.removesuffix("_ms"): value for name, value in (of or {}).items() if name != "bound"}
    whole = sum(values.values())
    return {name: value / whole for name, value in values.items() if value > 0}


def why_lines(shown: Mapping[str, Any]) -> Iterator[str]:
    """What TTFT and TPOT consist of, the largest part first."""
    for name in ("ttft", "tpot"):
        parts = why_parts(shown["why"][name])
        if parts:
            largest = sorted(parts, key=lambda one: -parts[one])
            yield f"{TITLES[name]} is " + ", ".join(f"{percent(parts[one])} {PARTS[one]}" for one in largest)


def cost_lines(cost: Mapping[str, Any], energy: Mapping[str, Any]) -> Iterator[str]:
    """What a million output tokens cost: money, energy from the supply, and energy by the model of the machine."""
    usd, supply = (cost.get(f"{name}_per_million_output_tokens") for name in ("usd", "supply_joules"))
    parts = [] if usd is None else [f"${usd:.3g}"]
    parts += [] if supply is None else [f"{supply / _KWH:.3g} kWh from the supply"]
    if parts:
        yield f"a million output tokens cost {' and '.join(parts)}"
    joules = energy.get("joules_per_million_output_tokens")
    if joules is not None:
        by_part = energy.get("by_part_j", {})
        whole = sum(by_part.values())
        largest = sorted(by_part, key=lambda one: -by_part[one])
        told = ", ".join(f"{one} {percent(by_part[one] / whole)}" for one in largest if by_part[one] >= whole / 100)
        yield f"energy {_energy_text(joules / 1e6)} an output token{told and f': {told}'}"
    each = energy.get("request_j")
    if each is not None:
        yield f"energy of a request: mean {_energy_text(each['mean'])}, p99 {_energy_text(each['p99'])}"


def _energy_text(joules: float) -> str:
    return scaled(joules * 1e12, ("pJ", "nJ", "uJ", "mJ", "J"))


def table_text(of: Mapping[str, Any]) -> str:
    """Where the times of steps come from, and their error."""
    return f"step times from {counted(of['entries'], 'entry')}, {of['simulated']:,} simulated now{error_text(of['error'])}"


def error_text(error: Mapping[str, Any] | None) -> str:
    """How far interpolated steps are from exact ones, as the end of a line."""
    if error is None:
        return ""
    steps = counted(error["steps"], "exact step")
    return f"; error {error['mean']:.1%} on average, {error['worst']:.1%} at most in {steps}"


_SPAN = re.compile(r"(\d+(?:\.\d+)?)(ms|s|min|m|h)?")
_SECONDS = {"ms": 1e-3, "s": 1.0, None: 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


def _span(text: str) -> float:
    """[s] of `90`, `500ms`, `10s`, `5m`, `1h`."""
    found = _SPAN.fullmatch(text)
    seconds = 0.0 if found is None else float(found[1]) * _SECONDS[found[2]]
    if not 0 < seconds < math.inf:
        raise typer.BadParameter(f"{text!r} is not a time greater than 0, such as 500ms, 10s, 5m or 1h")
    return seconds


@app.command()
@with_deployment
def why(
    deployment: Deployment,
    *,
    every: Annotated[
        str | None,
        typer.Option(
            "--every", metavar="TIME", show_default="at most 12 periods", rich_help_panel=_OUTPUT,
            help="Length of a period: 500ms, 10s, 5m, 1h.",
        ),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:  # fmt: skip
    """Serve a workload, and say for each period what limited TTFT and TPOT: what requests waited for, and which resource of
    the machine limits a typical step."""
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


@app.command()
@with_deployment
def capacity(
    deployment: Deployment,
    *,
    slo: Annotated[
        str,
        typer.Option(
            "--slo", metavar="TARGETS", rich_help_panel="Search",
            help="Targets: 'p99 ttft<200ms, p99 tpot<50ms'. Statistics are mean, median, p50, p90, p95 and p99. Metrics are "
            "ttft, tpot, itl, e2el and queue.",
        ),
    ],
    seeds: Annotated[
        int, typer.Option("--seeds", metavar="N", min=1, help="Number of searches, each with its own seed.",
            rich_help_panel="Search")
    ] = 5,
    tolerance: Annotated[
        float, typer.Option("--tolerance", metavar="SHARE", help="Where bisection ends.", rich_help_panel="Search")
    ] = 0.02,
    duration: Annotated[
        float,
        typer.Option(
            "--duration", metavar="S", min=0, rich_help_panel="Search",
            help="Requests arrive for at least this many seconds, if their lengths are drawn.",
        ),
    ] = 20.0,
    energy: Energy = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:  # fmt: skip
    """Find the largest request rate that meets latency targets, by bisection for each seed."""
    from kernbench.workloads.serving.capacity import parse_slo

    rate = deployment.scenario.workload.arrivals.request_rate
    if math.isfinite(rate):
        remedy = "leave it out; to serve at one rate: kbsim serve run --request-rate"
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
