"""`kbsim ccl run`: a collective over sizes, with the columns that users of nccl-tests read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output
from kernbench.cli.ccl.group import GroupShape, MachineOption, Topo, chosen_group
from kernbench.cli.ccl.list import Files
from kernbench.cli.ccl.nccl_tests import TYPES, collective_of
from kernbench.cli.ccl.plot import check_plot
from kernbench.cli.ccl.remaining_time import RemainingTime
from kernbench.cli.ccl.run_output import Batch, RunOutput
from kernbench.cli.ccl.table import (
    wrong_elements,
)
from kernbench.cli.endings import Ending, answering, ending_of
from kernbench.cli.options import (
    AllowCode,
    Dark,
    Json,
    Overrides,
    Quiet,
    Report,
    TraceCycles,
    TraceLevel,
    TraceOnly,
    TraceTo,
    TraceWindow,
    Walk,
    theme_of,
)
from kernbench.cli.tracing import Traced, check_page, reported
from kernbench.cli.values import dtype_of, size_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import meant

if TYPE_CHECKING:

    from kernbench.ccl.call import Queues
    from kernbench.ccl.group import Group
    from kernbench.ccl.measure import CclRequest
    from kernbench.ccl.registry import Entry, Registry
    from kernbench.config import SystemConfig
    from kernbench.sim_engine.engine import Around
    from kernbench.sim_engine.machine import Machine
    from kernbench.sim_engine.result import Result


Collective = Annotated[
    str, typer.Argument(metavar="COLLECTIVE", help="A collective, such as all_reduce. To list all "
        "collectives, use kbsim ccl list.", show_default=False)
]
CollectiveOfFile = Annotated[
    str | None,
    typer.Argument(
        metavar="COLLECTIVE",
        help="A collective, such as all_reduce. To list all collectives, use kbsim ccl list. With --msccl: the "
        "collective that the MSCCL file implements.",
        show_default=False,
    ),
]
Msccl = Annotated[
    list[Path] | None,
    typer.Option(
        "--msccl",
        metavar="FILE",
        help="Run an MSCCL algorithm (.xml) or an MSCCL++ plan (.json). May be repeated.",
        show_default=False,
    ),
]
Algo = Annotated[
    str | None,
    typer.Option(
        "--algo",
        "-a",
        metavar="NAMES",
        help="The algorithms, separated by commas, or all. With auto, the tuner chooses an algorithm for each size.",
        show_default="auto",
    ),
]
Ranks = Annotated[
    int | None, typer.Option("--ranks", "-g", min=1, metavar="N", help="Number of PEs to use.", show_default="8")
]
Number = Annotated[
    int | None,
    typer.Option(
        "-n",
        min=1,
        metavar="N",
        help="With -g or --ranks, this option means the same as --iters. Otherwise the same as --ranks.",
        show_default=False,
    ),
]
Iters = Annotated[
    int | None,
    typer.Option(
        "--iters",
        min=1,
        metavar="N",
        help="Number of timed launches, which run directly one after another. The reported time is the mean over all timed "
            "launches.",
        show_default="1",
    ),
]
Warmup = Annotated[
    int, typer.Option("--warmup-iters", "--warmup_iters", "-w", min=0, metavar="N", help="Launches before the timed ones.")
]
Root = Annotated[
    str, typer.Option("--root", "-r", metavar="RANKS", help="The root ranks of broadcast and reduce, separated by "
        "commas, or all.")
]
Operation = Annotated[
    str | None,
    typer.Option(
        "--op",
        "-o",
        metavar="OPS",
        help="The reductions, separated by commas (sum, prod, max, min, avg), or all.",
        show_default="sum; with --msccl that of the file",
    ),
]
InPlaceToo = Annotated[
    bool, typer.Option("--in-place", help="Also run each size in place, so that the results overwrite the input.")
]
First = Annotated[
    str, typer.Option("--begin", "-b", metavar="SIZE", help="The smallest size: 4KiB, 8k, 1M, or a number of bytes.")
]
Last = Annotated[str | None, typer.Option("--end", "-e", metavar="SIZE", help="The largest size.", show_default="the first")]
Factor = Annotated[
    int | None,
    typer.Option("--factor", "-f", min=1, metavar="N", help="Factor between one size and the next.", show_default="2"),
]
Step = Annotated[
    str | None,
    typer.Option(
        "--step", "-i", metavar="SIZE", help="Instead of -f: the difference between one size and the next.", show_default=False
    ),
]
DataType = Annotated[
    str, typer.Option("--dtype", "-d", metavar="TYPES", help="The element types, separated by commas (f32, f16, i32, "
        "...), or all.")
]
#: Names of reductions in other tools.
_REDUCTIONS = {"add": "sum", "mean": "avg", "average": "avg", "product": "prod", "mul": "prod"}
Csv = Annotated[
    Path | None,
    typer.Option("--csv", metavar="FILE", help="Write the rows as CSV to FILE. The name - prints the CSV on stdout, and no "
        "other text.", show_default=False),
]
Fail = Annotated[
    list[str] | None,
    typer.Option(
        "--fail",
        metavar="A-B",
        help="Break one part of the network: the link between two SIPs (0-1 or link:0-1), a NIC of a node (nic0.3 for NIC 3 "
        "of node 0), or a rail (rail3). May be repeated.",
        show_default=False,
    ),
]
Slow = Annotated[
    list[str] | None,
    typer.Option(
        "--slow",
        metavar="RANK:FACTOR",
        help="Divide the bandwidth of a rank by a factor. For example, 3:2 halves the bandwidth of rank 3. May be repeated.",
        show_default=False,
    ),
]
QUEUE_SIZES = "ccl.yaml; on boards from the links"  #: the default of the next two options
Slots = Annotated[
    int | None, typer.Option("--slots", min=1, metavar="N", help="Number of slots of each queue.", show_default=QUEUE_SIZES)
]
SlotBytes = Annotated[
    str | None, typer.Option("--slot-bytes", metavar="SIZE", help="Size of a slot.", show_default=QUEUE_SIZES)
]
Tier = Annotated[
    str | None,
    typer.Option("--tier", metavar="TIER", help="Memory that holds the slots: tcm, sram or hbm.", show_default="ccl.yaml"),
]
Channels = Annotated[
    int,
    typer.Option(
        help="Number of cores of each PE (pe.cores) that are reserved for the collective while it runs. Only the reserved "
        "cores compute the sums of the collective. With --channels 0, the collective and other work share all cores.",
        min=0,
    ),
]
Proto = Annotated[
    str | None,
    typer.Option(
        "--proto",
        metavar="NAMES",
        help="The protocols of messages, separated by commas (LL, LL128, Simple, as in NCCL_PROTO). With auto, the tuner "
        "chooses a protocol for each size.",
        show_default="auto",
    ),
]
RuntimeProfile = Annotated[
    str | None,
    typer.Option(
        "--runtime",
        metavar="NAME|FILE",
        help="Runtime profile (nccl_tests, ...). With a profile, times also include the work of the host for each launch, and "
        "the time of the kernel outside the steps between ranks.",
        show_default="only the steps between ranks",
    ),
]
Check = Annotated[bool, typer.Option("--check/--no-check", help="Also compute the results of each rank, and compare the "
    "results with a reference.")]
Seed = Annotated[int, typer.Option("--seed", min=0, metavar="N", help="Seed of the random elements.")]
Plot = Annotated[
    Path | None,
    typer.Option(
        "--plot", metavar="FILE", help="Write a plot of bandwidth and time by message size (.svg or .png).", show_default=False
    ),
]

Chakra = Annotated[
    Path | None,
    typer.Option(
        "--chakra",
        metavar="DIR",
        help="Write the runs as Chakra execution traces, with one file for each rank. To run the traces, use kbsim ccl replay.",
        show_default=False,
    ),
]

def dtypes_of(text: str) -> list[str]:
    """The element types of `f16,f32`; `all` for those that collectives have."""
    from kernbench.ccl.collectives import CCL_DTYPES

    if text == "all":
        return list(CCL_DTYPES)
    names = [TYPES.get(one.strip(), one.strip()) for one in text.split(",")]
    return list(dict.fromkeys(dtype_of("kbsim ccl run", one, CCL_DTYPES) for one in names))


def protocols_of(text: str | None, machine: SystemConfig) -> list[str | None]:
    """The protocols of `LL,Simple`, as keys of the machine file; None for `auto`. InputError for a protocol that does not
    exist."""
    from kernbench.config.system.parts import PROTOCOLS

    found: list[str | None] = []
    there = [PROTOCOLS[name] for name in machine.pe.ipcq.protocol_names]
    for one in (text or "auto").split(","):
        key = one.strip().lower()
        if key in ("auto", "all"):
            found += [None] if key == "auto" else machine.pe.ipcq.protocol_names
        elif key in machine.pe.ipcq.protocol_names:
            found.append(key)
        else:
            known = key in PROTOCOLS
            rule = f"{machine.source} has {', '.join(there)}" if known else f"it must be one of {', '.join(PROTOCOLS.values())}"
            remedy = f"give it pe.ipcq.protocols.{key}" if known else ""
            raise InputError(Problem("kbsim ccl run", rule, "--proto", one.strip(), remedy))
    return list(dict.fromkeys(found))


def roots_of(text: str, ranks: int) -> list[int]:
    """The ranks of `0,3`; `all` or -1 for each rank."""
    if text in ("all", "-1"):
        return list(range(ranks))
    found = []
    for one in text.split(","):
        if not (one.strip().isascii() and one.strip().isdigit() and int(one) < ranks):
            raise InputError(Problem("kbsim ccl run", f"it must be ranks from 0 to {ranks - 1}, or all", "--root", text))
        found.append(int(one))
    return list(dict.fromkeys(found))


MAX_SIZES = 10_000  # limit of the sizes of a step: a typing error must not request millions


def run(
    collective: CollectiveOfFile = None,
    algo: Algo = None,
    msccl: Msccl = None,
    ranks: Ranks = None,
    number: Number = None,
    shape: GroupShape = None,
    begin: First = "1K",
    end: Last = None,
    factor: Factor = None,
    step: Step = None,
    dtype: DataType = "f16",
    op: Operation = None,
    root: Root = "0",
    warmup: Warmup = 0,
    iters: Iters = None,
    in_place: InPlaceToo = False,
    config: MachineOption = None,
    overrides: Overrides = None,
    topo: Topo = None,
    fail: Fail = None,
    slow: Slow = None,
    slots: Slots = None,
    slot_bytes: SlotBytes = None,
    tier: Tier = None,
    proto: Proto = None,
    runtime: RuntimeProfile = None,
    channels: Channels = 0,
    files: Files = None,
    allow_code: AllowCode = None,
    check: Check = True,
    seed: Seed = 0,
    plot: Plot = None,
    dark: Dark = False,
    csv: Csv = None,
    chakra: Chakra = None,
    trace: TraceTo = None,
    report: Report = None,
    trace_level: TraceLevel = None,
    trace_window: TraceWindow = None,
    trace_cycles: TraceCycles = None,
    trace_only: TraceOnly = None,
    walk: Walk = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run a collective between PEs for each size, and print its time, its bandwidths and the number of wrong elements."""
    from kernbench.ccl.call import check_channels
    from kernbench.ccl.measure import CclRequest, HostCost, counts_of
    from kernbench.ccl.registry import read_registry

    if config in ("0", "1"):
        rule, remedy = "-c names the machine", "the option -c 0 of nccl-tests is --no-check here, and -c 1 is the default"
        raise InputError(Problem("kbsim ccl run", rule, "--config", config, remedy))
    collective = collective_of(collective)
    ranks, iters = _numbers(ranks, number, iters)
    registry = read_registry(*(files or []), allow_code=allow_code or ())
    entries = _entries_of(registry, collective, algo, msccl or [])
    if msccl and ranks is None and shape is None:
        ranks = max(one.ranks for one in entries)
    # of all algorithms, those that any machine can have
    certain = [one for one in entries if algo != "all" or not one.through_switches]
    settings = _settings(overrides or [], fail or [], named=config is not None or shape is not None)
    arranged = partial(
        chosen_group, "kbsim ccl run", certain, config, allow_code=allow_code or (), ranks=ranks, shape=shape, topo=topo
    )
    machine, group = arranged(settings, quiet=quiet)
    if slow:
        settings.append(f"system.slow=[{', '.join(_slow_pe(one, group) for one in slow)}]")
        machine, group = arranged(settings, quiet=True)
    entries = [one for one in entries if one in certain or not one.unfit(machine, group)]
    check_channels(machine, channels)
    roots = _roots(entries[0].collective, root, group.size)
    op = op or next((one.redop for one in entries if one.redop), "sum")
    sizes, batches = _sizes(begin, end, factor, step), []
    for given in entries:
        entry = given.fitted(machine)
        queues = _queues(registry, entry, slots, slot_bytes, tier, machine, group)
        host = None if runtime is None else HostCost.of(runtime, entry.collective)
        common = CclRequest(
            machine, group, entry, dtype, queues, check, seed, warmup=warmup, iters=iters, in_place=in_place, host=host,
            channels=channels,
        )  # fmt: skip
        for request in _variants(common, protocols_of(proto, machine), dtypes_of(dtype), op, roots):
            batches.append(Batch(request, counts_of(request, *sizes)))
    if csv == Path("-") and as_json:
        raise InputError(Problem("kbsim ccl run", "--csv - and --json both write to stdout", remedy="leave one out"))
    if chakra is not None:
        from kernbench.ccl.recording import check_recorded

        check_recorded(chakra, [(batch.request, len(batch.counts)) for batch in batches])
    theme = theme_of("kbsim ccl run", dark=dark, plot=plot)
    results = RunOutput(batches, as_json, quiet or csv == Path("-"), plot, csv, chakra=chakra, theme=theme)
    if report is not None and sum(len(batch.counts) for batch in batches) > 1:
        results.page, report = report, None
    how = Traced(trace_level, trace_window, trace_cycles, trace_only)
    return _run_sizes(results, registry, _watched(results, trace, report, how, (config, *(files or []))))


def _settings(overrides: Sequence[str], fail: Sequence[str], *, named: bool) -> list[str]:
    """The settings of the machine. `named`: the machine is named, so that its links can be."""
    if not fail:
        return list(overrides)
    if not named:
        rule, remedy = "it names links of a machine, and no machine is given", "name the machine: -c pod_8sip"
        raise InputError(Problem("kbsim ccl run", rule, "--fail", fail[0], remedy))
    failed = ", ".join(one.removeprefix("link:") for one in fail)
    return [*overrides, f"system.failed=[{failed}]"]


def _variants(
    common: CclRequest, protocols: Sequence[str | None], dtypes: Sequence[str], op: str, roots: Sequence[int]
) -> Iterator[CclRequest]:
    """An algorithm with each protocol, element type, reduction and root; everything else is as in `common`."""
    for protocol, dtype in product(protocols, dtypes):
        queues = replace(common.queues, protocol=protocol)
        for reduction, root in product(_operations(common.entry, op, dtype), roots):
            yield replace(common, queues=queues, dtype=dtype, redop=reduction, root=root)


def _slow_pe(text: str, group: Group) -> str:
    """`3:2` as the PE of rank 3 and the factor, for `system.slow`. InputError for a rank that does not exist."""
    rank, colon, factor = text.partition(":")
    if not (colon and rank.isascii() and rank.isdigit() and int(rank) < group.size):
        rule = f"it must be a rank from 0 to {group.size - 1} and a factor, like 3:2"
        raise InputError(Problem("kbsim ccl run", rule, "--slow", text))
    return f'"{group.pes[int(rank)]}:{factor}"'


def _operations(entry: Entry, op: str, dtype: str) -> list[str]:
    """The reductions of `sum,max`; `all` means all reductions of the algorithm and the element type. InputError for a
    reduction that the algorithm or the element type does not have."""
    from kernbench.ccl.collectives import COLLECTIVES
    from kernbench.ccl.reduction import FLOATS_ONLY, OPERATIONS, Reduction
    from kernbench.common.dtypes import dtype_of as kind_of

    if not COLLECTIVES[entry.collective].reduces:
        if op != "sum":
            raise InputError(Problem("kbsim ccl run", f"{entry.collective} does not reduce", "--op", op, "leave it out"))
        return ["sum"]
    if op == "all":
        there = OPERATIONS if entry.redop is None else (entry.redop,)
        return [one for one in there if kind_of(dtype).kind == "float" or one not in FLOATS_ONLY]
    found = list(dict.fromkeys(one.strip() for one in op.split(",")))
    for one in found:
        if one not in OPERATIONS:
            remedy = "in Python, dist.all_reduce has the reduction ReduceOp.PREMUL_SUM(factor)" if one == "mulsum" else ""
            remedy = remedy or meant(_REDUCTIONS.get(one.lower(), one), OPERATIONS)
            rule = f"it must be one of {', '.join(OPERATIONS)}, or all"
            raise InputError(Problem("kbsim ccl run", rule, "--op", op, remedy))
        if entry.redop not in (None, one):
            rule = f"it is an algorithm for the reduction {entry.redop}"
            raise InputError(Problem(entry.where, rule, "--op", one, f"use -o {entry.redop}, or leave it out"))
        Reduction(one).check("kbsim ccl run", dtype)
    return found


def _numbers(ranks: int | None, number: int | None, iters: int | None) -> tuple[int | None, int]:
    """Ranks and iterations: `-n` is the one that is not given otherwise, because nccl-tests uses it for iterations together
    with `-g`."""
    if number is not None and ranks is not None:
        if iters is not None:
            rule = f"--iters {iters} and -n both say how many iterations"
            raise InputError(Problem("kbsim ccl run", rule, "-n", number, "leave one out"))
        return ranks, number
    return (number if ranks is None else ranks), iters or 1


def _entries_of(registry: Registry, collective: str | None, algo: str | None, msccl: Sequence[Path]) -> list[Entry]:
    """The algorithms of `ring,torus`; `all` means every algorithm of the collective, including those of files."""
    from kernbench.ccl.imports.msccl import read_msccl
    from kernbench.ccl.imports.mscclpp import read_mscclpp
    from kernbench.config.file_kinds import expecting

    found: list[Entry] = []
    for path in msccl:
        plan = path.suffix == ".json"
        with expecting(path, "mscclpp" if plan else "msccl"):
            found.append(read_mscclpp(path) if plan else read_msccl(path))
    named = found[0].collective if collective is None and found else collective
    if named is None:
        rule = "a collective must be named"
        remedy = "write for example kbsim ccl run all_reduce; to list all collectives, use kbsim ccl list"
        raise InputError(Problem("kbsim ccl run", rule, remedy=remedy))
    for one in found:
        if one.collective != named:
            rule = f"it is an algorithm of {one.collective}, and {named} is run"
            raise InputError(Problem(one.where, rule, remedy="run it alone"))
    return [*found, *(_listed(registry, named, algo) if algo is not None or not found else [])]


def _listed(registry: Registry, collective: str, algo: str | None) -> list[Entry]:
    if algo == "all":
        registry.find(collective)
        return [one for one in registry.entries if one.collective == collective]
    if algo is None:
        return [registry.find(collective)]
    return [registry.find(collective, one) for one in dict.fromkeys(part.strip() for part in algo.split(","))]


def _roots(collective: str, root: str, ranks: int) -> list[int]:
    from kernbench.ccl.collectives import COLLECTIVES

    if COLLECTIVES[collective].rooted:
        return roots_of(root, ranks)
    if root != "0":
        rooted = ", ".join(name for name, one in COLLECTIVES.items() if one.rooted)
        raise InputError(Problem("kbsim ccl run", f"{collective} has no root; {rooted} have", "--root", root, "leave it out"))
    return [0]


def _queues(
    registry: Registry,
    entry: Entry,
    slots: int | None,
    slot_bytes: str | None,
    tier: str | None,
    machine: SystemConfig,
    group: Group,
) -> Queues:
    from kernbench.ccl.measure import queues_of

    size = None if slot_bytes is None else size_of("kbsim ccl run", "--slot-bytes", slot_bytes)
    return queues_of(registry, entry, slots, size, tier, config=machine, group=group)


def _sizes(begin: str, end: str | None, factor: int | None, step: str | None) -> tuple[int, int, int, int]:
    """The first and the last size, and the factor or the step between two."""
    first = size_of("kbsim ccl run", "--begin", begin)
    last = first if end is None else size_of("kbsim ccl run", "--end", end)
    if last < first:
        raise InputError(Problem("kbsim ccl run", f"it must be at least the first size, {begin}", "--end", end))
    if step is not None:
        if factor is not None:
            rule = f"sizes have either a step or a factor, not both (-f {factor})"
            raise InputError(Problem("kbsim ccl run", rule, "--step", step, "leave one out"))
        by = size_of("kbsim ccl run", "--step", step)
        if (last - first) // by >= MAX_SIZES:
            rule = f"it makes {(last - first) // by + 1:,} sizes from {begin} to {end}, and at most {MAX_SIZES:,} are run"
            raise InputError(Problem("kbsim ccl run", rule, "--step", step, "use a larger step"))
        return first, last, 1, by
    if last > first and factor == 1:
        raise InputError(Problem("kbsim ccl run", f"it must be at least 2 to come from {begin} to {end}", "--factor", factor))
    return first, last, factor or 2, 0


def _watched(
    results: RunOutput, trace: Path | None, page: Path | None, traced: Traced, read: Sequence[str | Path | None]
) -> Around:
    """The context of a run: its trace and page, if requested. InputError if it is not possible."""
    from kernbench.common.files import check_apart, check_writable

    csv = None if results.csv == Path("-") else results.csv
    check_apart((results.plot, trace, page, csv, results.page), read)
    sizes = sum(len(batch.counts) for batch in results.batches)
    if trace is not None and sizes > 1:
        rule = f"a trace is of one size, and this run has {sizes}"
        raise InputError(Problem("kbsim ccl run", rule, "--trace", str(trace), "leave --end out"))
    if csv is not None:
        check_writable(csv)
    if results.page is not None:
        check_page("kbsim ccl run", results.page)
    if trace is not None:
        check_writable(trace)
    if page is not None:
        check_page("kbsim ccl run", page)
    results.trace_page = page
    options = traced.options("kbsim ccl run", trace, page)

    @contextmanager
    def around(machine: Machine) -> Iterator[None]:
        with reported(machine, trace, page is not None, options) as pages:
            yield
        results.trace_pages += pages

    return around


def _run_sizes(results: RunOutput, registry: Registry, around: Around) -> int:
    """Run one size after another, and print each result immediately. Finished sizes are reported, however the run ends. The
    exit code.
    """
    from kernbench.ccl.measure import check_room

    if results.plot is not None:
        check_plot(results.plot)
    for batch in results.batches:
        check_room(batch.request, batch.counts)
    as_json = results.as_json
    try:
        stopped = _run_all(results, registry, around)
    except (Exception, KeyboardInterrupt) as error:
        ending = ending_of(error)
        if ending.status == "refused" and not results.rows:
            raise  # nothing was run
        with answering(as_json):
            results.end(ending)
            raise
    status = "done" if stopped is None else stopped.status
    with answering(as_json):
        results.end(Ending(status), stopped)
    return output.ENDINGS[status] or int(wrong_elements([row for _, row in results.rows]) > 0)


def _run_all(results: RunOutput, registry: Registry, around: Around) -> Result | None:
    """Run all sizes until the reader of the output is gone; the result includes a size that did not finish."""
    from kernbench.ccl.measure import row

    for batch in results.batches:
        remaining = RemainingTime(batch.request, batch.counts, registry, quiet=results.quiet)
        for count in batch.counts:
            with remaining.size() as progress, _kernels_named(batch.request):
                made, outcome = row(batch.request, count, progress, around)
            if made is None:
                return outcome.engine.machine.result()
            results.row(batch, made)
            if not results.read and not any((results.plot, results.page, results.csv, results.chakra)):
                return None
    return None


@contextmanager
def _kernels_named(request: CclRequest) -> Iterator[None]:
    """An exception of a kernel is reported with its traceback and the line of the algorithm."""
    from kernbench.ccl.call import place_in
    from kernbench.sim_engine.engine import KernelFailed

    try:
        yield
    except KernelFailed as error:
        output.note(error.traceback.rstrip("\n"))
        place = place_in(request.entry.load(), error.__cause__) if request.entry.registry is None else ""
        if not place:
            raise
        said = f"{place}: {type(error.__cause__).__name__}: {error.__cause__}"
        raise KernelFailed({**error.failure, "message": said}, error.__cause__) from error
