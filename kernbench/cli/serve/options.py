"""The options that all commands of `kbsim serve` have: the model, the machine and the settings of the engine."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output
from kernbench.cli.llm.options import ActivationBits, Experts, ModelName, Parallel, Routes, Stages, WeightBits
from kernbench.cli.options import AllowCode, Config, Overrides
from kernbench.cli.target import note_machine
from kernbench.cli.values import count_of
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from kernbench.config import NpuConfig, SystemConfig
    from kernbench.workloads.serving.deployment import Deployment, Group
    from kernbench.workloads.serving.extra_work import Lora
    from kernbench.workloads.serving.scenario import Scenario
    from kernbench.workloads.serving.workload import Workload


class DatasetName(StrEnum):
    """The source of the requests."""

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
    """Which waiting request comes first."""

    FCFS = "fcfs"
    PRIORITY = "priority"
    SLO = "slo"


class PreemptionMode(StrEnum):
    """The handling of the blocks of a preempted request."""

    RECOMPUTE = "recompute"
    SWAP = "swap"


class PrefixCacheType(StrEnum):
    """How the prefix cache finds known tokens."""

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

        if option == "--request-rate" and "," in text:
            remedy = "run it once for each rate; for the highest rate that meets targets: kbsim serve capacity"
            raise InputError(Problem("kbsim serve", "it must be one number greater than 0, or inf", option, text, remedy))
        number = number_meant(text.partition("/")[0])
        number = "" if number and not float(number) > 0 else number
        rule = "it must be a number greater than 0, or inf"
        raise InputError(Problem("kbsim serve", rule, option, text, f"write {number}" if number else ""))
    return found


_DATASET, _ENGINE, OUTPUT = "Workload", "Engine", "Output"


def number(name: str, text: str, panel: str, least: int = 1, **more: Any) -> Any:
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
        help="File with the requests of the dataset sharegpt (.json), burstgpt (.csv) or custom (.jsonl, .csv).",
    ),
]  # fmt: skip
Energy = Annotated[
    bool,
    typer.Option("--energy", help="Also compute the energy of the steps.", rich_help_panel=OUTPUT),
]


class RouterName(StrEnum):
    """Which engine gets a request."""

    ROUND_ROBIN = "round_robin"
    LEAST_OUTSTANDING = "least_outstanding"
    PREFIX_AWARE = "prefix_aware"
    RANDOM = "random"


_FLEET = "Fleet"
_SWAP_SPACE = 4.0  #: [GiB] as vLLM V0's default


def workload_parameters(
    dataset_name: Annotated[
        DatasetName | None,
        typer.Option(
            "--dataset-name", metavar="NAME", rich_help_panel=_DATASET,
            help="Source of the requests: random, sharegpt, burstgpt, prefix_repetition or custom.",
            show_default="random; with --dataset-path, by the file's ending and columns",
        ),
    ] = None,
    dataset_path: DatasetPath = None,
    num_prompts: Annotated[
        int | None, number("--num-prompts", "Number of requests.", _DATASET, show_default="1000, or all of the file")
    ] = None,
    request_rate: Annotated[
        str,
        typer.Option(
            "--request-rate", metavar="R", help="Requests per second. With inf, requests arrive at the times that the "
            "dataset file gives, or all at once if the file gives no times.",
            rich_help_panel=_DATASET,
        ),
    ] = "inf",
    burstiness: Annotated[
        str,
        typer.Option(
            "--burstiness", metavar="B", rich_help_panel=_DATASET,
            help="Shape of the gamma distribution of arrival intervals. The value 1 gives a Poisson process, a lower value "
            "gives bursts, and inf gives equal intervals.",
        ),
    ] = "1",
    max_concurrency: Annotated[
        int | None,
        number("--max-concurrency", "Send a request only if fewer than N requests "
            "are unfinished.", _DATASET, show_default="no limit"),
    ] = None,
    ramp_up_strategy: Annotated[
        RampUpStrategy | None,
        typer.Option("--ramp-up-strategy", help="Raise the request rate during the run, linearly or "
            "exponentially.", show_default=False, rich_help_panel=_DATASET),
    ] = None,
    ramp_up_start_rps: Annotated[
        str | None,
        typer.Option(
            "--ramp-up-start-rps", metavar="R", help="Requests per second at the start of the "
            "ramp.", show_default=False, rich_help_panel=_DATASET
        ),
    ] = None,
    ramp_up_end_rps: Annotated[
        str | None,
        typer.Option("--ramp-up-end-rps", metavar="R", help="Requests per second at the end of the "
            "ramp.", show_default=False, rich_help_panel=_DATASET),
    ] = None,
    seed: Annotated[int, number("--seed", "Seed of the random arrival times and lengths.", _DATASET, 0)] = 0,
    random_input_len: Annotated[int, number("--random-input-len", "For the dataset random: mean number of tokens of a "
            "prompt.", _DATASET)] = 1024,
    random_output_len: Annotated[int, number("--random-output-len", "For the dataset random: mean number of tokens of an "
            "output.", _DATASET)] = 128,
    random_range_ratio: Annotated[
        float,
        typer.Option(
            "--random-range-ratio", metavar="R", rich_help_panel=_DATASET,
            help="For the dataset random: lengths are drawn uniformly from (1 - R) to (1 + R) times the given length.",
        ),
    ] = 0.0,
    random_prefix_len: Annotated[
        int, number("--random-prefix-len", "For the dataset random: number of tokens at the start of each "
            "prompt that are the same in all prompts.", _DATASET, 0)
    ] = 0,
    prefix_repetition_prefix_len: Annotated[
        int, number("--prefix-repetition-prefix-len", "For the dataset prefix_repetition: number of tokens of each shared "
            "prefix.", _DATASET)
    ] = 256,
    prefix_repetition_suffix_len: Annotated[
        int, number("--prefix-repetition-suffix-len", "For the dataset prefix_repetition: number of tokens after the "
            "prefix.", _DATASET)
    ] = 256,
    prefix_repetition_num_prefixes: Annotated[
        int, number("--prefix-repetition-num-prefixes", "For the dataset prefix_repetition: number of different "
            "prefixes.", _DATASET)
    ] = 10,
    prefix_repetition_output_len: Annotated[
        int, number("--prefix-repetition-output-len", "For the dataset prefix_repetition: number of tokens of an "
            "output.", _DATASET)
    ] = 128,
    sharegpt_output_len: Annotated[
        int | None,
        number("--sharegpt-output-len", "For the dataset sharegpt: number of tokens of every "
            "output.", _DATASET, show_default="as in the file"),
    ] = None,
) -> dict[str, Any]:  # fmt: skip
    """The options of the panel Workload, as parameters of `Scenario`."""
    from kernbench.workloads.serving.arrivals import Arrivals
    from kernbench.workloads.serving.workload import Workload, dataset_of

    arrivals = Arrivals(
        request_rate=_rate(request_rate, "--request-rate"), burstiness=_rate(burstiness, "--burstiness"),
        ramp_up=None if ramp_up_strategy is None else ramp_up_strategy.value,
        ramp_up_start_rps=None if ramp_up_start_rps is None else _rate(ramp_up_start_rps, "--ramp-up-start-rps"),
        ramp_up_end_rps=None if ramp_up_end_rps is None else _rate(ramp_up_end_rps, "--ramp-up-end-rps"),
    )  # fmt: skip
    workload = Workload(
        dataset_name=dataset_of(dataset_path) if dataset_name is None else dataset_name.value, dataset_path=dataset_path,
        num_prompts=num_prompts, arrivals=arrivals, seed=seed,
        random_input_len=random_input_len, random_output_len=random_output_len, random_range_ratio=random_range_ratio,
        random_prefix_len=random_prefix_len, prefix_repetition_prefix_len=prefix_repetition_prefix_len,
        prefix_repetition_suffix_len=prefix_repetition_suffix_len,
        prefix_repetition_num_prefixes=prefix_repetition_num_prefixes,
        prefix_repetition_output_len=prefix_repetition_output_len, sharegpt_output_len=sharegpt_output_len,
    )  # fmt: skip
    return {"workload": workload, "max_concurrency": max_concurrency}


def engine_parameters(
    max_num_seqs: Annotated[int, number("--max-num-seqs", "Largest number of requests that run at once.", _ENGINE)] = 256,
    max_num_batched_tokens: Annotated[int, number("--max-num-batched-tokens", "Largest number of tokens in one step, of "
        "prefills and decodes together.", _ENGINE)] = 2048,
    max_model_len: Annotated[
        int | None,
        number("--max-model-len", "Largest number of tokens of a request: the tokens of the prompt plus the tokens of the "
            "output.", _ENGINE, 2,
            show_default="the limit of the model"),
    ] = None,
    block_size: Annotated[int, number("--block-size", "Number of tokens in a block of the KV cache.", _ENGINE)] = 16,
    num_gpu_blocks_override: Annotated[
        int | None, number("--num-gpu-blocks-override", "Number of blocks in the KV cache.", _ENGINE, 2,
            show_default="as many as fit")
    ] = None,
    gpu_memory_utilization: Annotated[
        float,
        typer.Option(
            "--gpu-memory-utilization", "--npu-memory-utilization", metavar="SHARE", rich_help_panel=_ENGINE,
            help="Share of the device memory that weights and KV cache may use.",
        ),
    ] = 0.9,
    enable_chunked_prefill: Annotated[
        bool,
        typer.Option(
            "--enable-chunked-prefill/--no-enable-chunked-prefill", help="Divide the prefill of a long prompt over "
            "several steps, together with decodes of other requests.", rich_help_panel=_ENGINE
        ),
    ] = True,
    long_prefill_token_threshold: Annotated[
        int, number("--long-prefill-token-threshold", "Largest number of prompt tokens that one step processes for one "
            "request. The value 0 means "
            "no limit.",
            _ENGINE, 0)
    ] = 0,
    enable_prefix_caching: Annotated[
        bool,
        typer.Option(
            "--enable-prefix-caching/--no-enable-prefix-caching", help="Reuse full blocks of the KV cache for requests that "
            "begin with the same tokens.",
            rich_help_panel=_ENGINE,
        ),
    ] = True,
    async_scheduling: Annotated[
        bool,
        typer.Option(
            "--async-scheduling/--no-async-scheduling", help="Schedule each step while the previous step runs.",
            rich_help_panel=_ENGINE,
        ),
    ] = True,
    scheduler_reserve_full_isl: Annotated[
        bool,
        typer.Option(
            "--scheduler-reserve-full-isl/--no-scheduler-reserve-full-isl", rich_help_panel=_ENGINE,
            help="Start a request only if the KV cache has space for the whole prompt. With --no-scheduler-reserve-full-isl, "
                "space for the first chunk of the prompt is enough.",
        ),
    ] = True,
    scheduling_policy: Annotated[
        SchedulingPolicy,
        typer.Option(
            "--scheduling-policy", metavar="POLICY", rich_help_panel=_ENGINE,
            help="Order of the waiting requests: fcfs, priority or slo.",
        ),
    ] = SchedulingPolicy.FCFS,
    speculative_config: Annotated[
        str | None,
        typer.Option(
            "--speculative-config", metavar="JSON", show_default=False, rich_help_panel=_ENGINE,
            help="Speculative decoding, as a JSON object with the keys method (draft_model or ngram), model, "
            "num_speculative_tokens and acceptance.",
        ),
    ] = None,
    lora: Annotated[
        str | None,
        typer.Option(
            "--lora", metavar="N,RANK", show_default=False, rich_help_panel=_ENGINE,
            help="LoRA: each request uses one of N adapters, and each adapter has the rank RANK.",
        ),
    ] = None,
    max_loras: Annotated[int, number("--max-loras", "Largest number of different LoRA adapters in one step. The device memory "
        "holds at most this number of adapters.",
        _ENGINE)] = 1,
    preemption_mode: Annotated[
        PreemptionMode,
        typer.Option(
            "--preemption-mode", metavar="MODE", rich_help_panel=_ENGINE,
            help="How a preempted request gets its KV cache back. With recompute, the cache is computed again. With swap, the "
                "cache moves to the host and back.",
        ),
    ] = PreemptionMode.RECOMPUTE,
    swap_space: Annotated[
        float | None,
        typer.Option(
            "--swap-space", metavar="GIB", show_default="4 with swap", rich_help_panel=_ENGINE,
            help="Host memory per device for the KV caches of preempted requests.",
        ),
    ] = None,
    host_link_gb_s: Annotated[
        float | None,
        typer.Option(
            "--host-link-gb-s", metavar="GB/S", show_default="of a system's PCIe link", rich_help_panel=_ENGINE,
            help="Bandwidth of the link between each device and its host. Swapped KV blocks and LoRA adapters move over the "
                "link.",
        ),
    ] = None,
    prefix_cache: Annotated[
        PrefixCacheType,
        typer.Option(
            "--prefix-cache", metavar="KIND", rich_help_panel=_ENGINE,
            help="Data structure of the prefix cache: hash for a table of block hashes, as in vLLM, or radix for a tree of "
                "pages, as in SGLang.",
        ),
    ] = PrefixCacheType.HASH,
    cudagraph_capture_sizes: Annotated[
        str | None,
        typer.Option(
            "--cudagraph-capture-sizes", metavar="N,N,...", show_default="of the runtime; on an NPU none",
            rich_help_panel=_ENGINE,
            help="Step sizes, in tokens, for which compiled graphs exist. Each step is padded to the next larger size in the "
                "list.",
        ),
    ] = None,
) -> dict[str, Any]:  # fmt: skip
    """The options of the panel Engine, as parameters of `Scenario`."""
    from kernbench.workloads.models.files import load_model
    from kernbench.workloads.serving.speculation import parse_speculation

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
    return {
        "engine": engine, "num_gpu_blocks": num_gpu_blocks_override, "max_model_len": max_model_len,
        "gpu_memory_utilization": gpu_memory_utilization, "speculation": speculation,
        "draft": None if speculation is None or speculation.model is None else load_model(speculation.model),
        "lora": None if lora is None else _adapters(lora, max_loras),
        "capture_sizes": None if cudagraph_capture_sizes is None else _sizes(cudagraph_capture_sizes),
        "swap_space_gib": (_SWAP_SPACE if swap_space is None else swap_space) if swaps else 0.0,
        "host_link_gb_s": host_link_gb_s,
    }  # fmt: skip


def scenario_of(
    workload: Mapping[str, Any],
    engine: Mapping[str, Any],
    model: ModelName = "llama3-8b",
    config: Config = "npu_server",
    overrides: Overrides = None,
    w: WeightBits = None,
    a: ActivationBits = None,
    kv_cache_dtype: Annotated[CacheType, typer.Option("--kv-cache-dtype", help="Type of the values in the KV cache. With "
        "auto: 4 bits on an NPU; on a chip 16 bits, or 8 bits if the model states 8.")] = CacheType.AUTO,
    tp: Parallel = 1,
    pp: Stages = 1,
    dp: Annotated[
        int,
        typer.Option(
            "--dp",
            metavar="N",
            help="Number of copies of the model in each engine. Each copy of the model has its own scheduler. The "
            "number of PEs of a copy is the value of --tp, multiplied by the value of --pp.",
        ),
    ] = 1,
    ep: Experts = False,
    routing: Routes = "even",
    runtime: Annotated[
        str | None,
        typer.Option("--runtime", metavar="NAME|FILE", help="Runtime profile: the kernels of the chips, and the time that "
            "host software adds.", show_default="none; on a chip vllm"),
    ] = None,
    exact: Annotated[bool, typer.Option("--exact", help="Simulate every different step exactly, instead of interpolating step "
        "times from a table.")] = False,
    allow_code: AllowCode = None,
) -> Scenario:  # fmt: skip
    """The scenario of `workload_parameters`, `engine_parameters`, and the options for the model and the machine."""
    from kernbench.config import load_config
    from kernbench.workloads.models.files import load_model
    from kernbench.workloads.routing import routing_of
    from kernbench.workloads.serving.scenario import Scenario

    adapters: Lora | None = engine["lora"]
    requests: Workload = replace(workload["workload"], adapters=0 if adapters is None else adapters.adapters)
    machine = load_config(config, overrides or (), allow_code=tuple(allow_code or ()))
    return Scenario(
        **{**workload, "workload": requests}, **engine, model=load_model(model), machine=machine, w=w, a=a,
        kv=_CACHE_BITS[kv_cache_dtype], tp=tp, pp=pp, dp=dp, ep=ep, routing=routing_of(routing, requests.seed),
        runtime=runtime, exact=exact,
    )  # fmt: skip


def _sizes(text: str) -> tuple[int, ...]:
    """`1,2,4,8`. InputError for a text that is not valid."""
    try:
        found = tuple(sorted({int(part) for part in text.replace(",", " ").split()}))
    except ValueError:
        found = ()
    if not found or found[0] < 1:
        rule = "it must be integers of at least 1, N,N,..."
        raise InputError(Problem("kbsim serve", rule, "--cudagraph-capture-sizes", text, "write 1,2,4,8"))
    return found


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
    replicas: Annotated[int, number("--replicas", "Number of engines. With --prefill-replicas, N is the number of engines "
        "that only decode.", _FLEET)] = 1,
    prefill_replicas: Annotated[int, number("--prefill-replicas", "Engines that only prefill.", _FLEET, 0)] = 0,
    router: Annotated[
        RouterName, typer.Option("--router", help="Which engine gets a request.", rich_help_panel=_FLEET)
    ] = RouterName.ROUND_ROBIN,
    kv_link_gb_s: Annotated[
        float | None,
        typer.Option(
            "--kv-link-gb-s", metavar="GB/S", show_default="of the machine", rich_help_panel=_FLEET,
            help="Bandwidth of the link from each prefill engine to the decode engines.",
        ),
    ] = None,
    fleet: Annotated[
        Path | None,
        typer.Option(
            "--fleet", metavar="FILE", show_default=False, rich_help_panel=_FLEET,
            help="File (.yaml, .json) that describes groups of engines: the machine, count, role and options of each group.",
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
    """A command whose first argument is a deployment takes the options of the scenario (`scenario_of`, `workload_parameters`,
    `engine_parameters`) before its own, and those of `deployment_of` after them."""
    _, _, *machine = _parameters(scenario_of)
    workload, engine = _parameters(workload_parameters), _parameters(engine_parameters)
    _, *own = _parameters(command)
    _, _, *after = _parameters(deployment_of)

    @functools.wraps(command)
    def called(**values: Any) -> int:
        def taken(options: Sequence[inspect.Parameter]) -> dict[str, Any]:
            return {one.name: values.pop(one.name) for one in options}

        code = tuple(values["allow_code"] or ())
        scenario = scenario_of(workload_parameters(**taken(workload)), engine_parameters(**taken(engine)), **taken(machine))
        for note in () if values["quiet"] else scenario.model.notes:
            output.note(f"warning: {note}")
        note_machine(scenario.machine, quiet=values["quiet"])
        if scenario.runtime is None:
            _tell_of_board(scenario.machine, quiet=values["quiet"])
        return command(deployment_of(scenario, code, **taken(after)), **values)

    every = [*machine, *workload, *engine, *own, *after]
    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in every]
    called.__signature__ = inspect.Signature(parameters, return_annotation=int)  # type: ignore[attr-defined]
    called.__annotations__ = {one.name: one.annotation for one in parameters} | {"return": int}
    del called.__wrapped__  # its annotations are not those of the command
    return called


def _parameters(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of a function. The types that are imported only when a command runs are no types of options."""
    names = {"Scenario": object, "Deployment": object, "Sequence": Sequence}
    return list(inspect.signature(function, eval_str=True, locals=names).parameters.values())


def _tell_of_board(machine: NpuConfig | SystemConfig, *, quiet: bool) -> None:
    """Report on stderr what a board of chips leaves out, and the options that simulate its chips with their software."""
    from kernbench.config.load import chip_of_board

    chip = chip_of_board(machine)
    if chip and not quiet:
        output.note(
            f"note: the board is simulated as a system of PEs, without host software and by default with weights of 4 bits; to "
            f"simulate the kernels of {chip} and the software of a server: --runtime vllm"
        )
