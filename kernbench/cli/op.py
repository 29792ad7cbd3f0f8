"""`kbsim op`: the time of one operation on a chip under a runtime profile, and its causes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output, widgets
from kernbench.cli.options import Json, Overrides
from kernbench.cli.target import load_machine
from kernbench.cli.text import Justify, table
from kernbench.cli.values import count_of, dtype_of, size_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rich.console import RenderableType

    from kernbench.workloads.ops.timing import OperationTimer, Timed

SHOWN = 12  #: plans that are shown; --json has all
LEAST_NS = 1e-3  #: shortest part that is shown
Name = Annotated[str, typer.Argument(metavar="OP", help="matmul, attention, all_reduce, send_recv, or a vector operation.")]
Machine = Annotated[str, typer.Option("--config", "-c", metavar="NAME|FILE", help="Chip to run on.")]
Profile = Annotated[
    str, typer.Option("--runtime", metavar="NAME|FILE", help="Runtime profile, which describes the time that host software "
        "adds and how times are measured.")
]
Rows = Annotated[int, typer.Option("-m", metavar="N", parser=count_of, help="Number of rows of the matrix product or of the "
    "vector operation: 512, 8k.")]
Columns = Annotated[int, typer.Option("-n", metavar="N", parser=count_of, help="Number of columns of the matrix product, or "
    "number of elements in a row of the vector operation.")]
Depth = Annotated[int, typer.Option("-k", metavar="N", parser=count_of, help="Depth of the product.")]
Batch = Annotated[int, typer.Option("--batch", metavar="N", parser=count_of, help="Sequences that decode (attention).")]
Cached = Annotated[int, typer.Option("--kv", metavar="N", parser=count_of, help="For attention: number of tokens that each "
    "decoding sequence has in the KV cache.")]
Prefill = Annotated[int, typer.Option("--prefill", metavar="N", parser=count_of, help="For attention: add one sequence in "
    "prefill, with N new tokens.")]
Heads = Annotated[int, typer.Option("--heads", min=1, help="Query heads (attention).")]
KvHeads = Annotated[int, typer.Option("--kv-heads", min=1, help="Key and value heads (attention).")]
HeadDim = Annotated[int, typer.Option("--head-dim", min=1, help="Elements of a head (attention).")]
ElementType = Annotated[str, typer.Option("--dtype", metavar="TYPE", help="Element type of operands, keys and values. A "
    "matrix product uses the multipliers for this type. The result of a matrix product has at least 16 bits per element.")]
Weight = Annotated[int | None, typer.Option("--w", min=1, max=32, metavar="BITS", help="Bits per element of the k x n operand "
    "in memory. Use this option if the stored operand is narrower than the inputs of the multipliers.", show_default=False)]
Workers = Annotated[int, typer.Option("--ranks", min=2, help="Chips of the collective.")]
Bytes = Annotated[str, typer.Option("--bytes", metavar="SIZE", help="For collectives: size of the data that each chip holds: "
    "4KiB, 8k, 1M, or a number of bytes.")]
Plan = Annotated[bool, typer.Option("--plan", help="Show all plans that were compared for the matrix product.")]


def op(
    name: Name,
    config: Machine,
    runtime: Profile = "none",
    m: Rows = 1,
    n: Columns = 4096,
    k: Depth = 4096,
    batch: Batch = 1,
    kv: Cached = 1024,
    prefill: Prefill = 0,
    heads: Heads = 32,
    kv_heads: KvHeads = 8,
    head_dim: HeadDim = 128,
    dtype: ElementType = "f16",
    w: Weight = None,
    ranks: Workers = 2,
    nbytes: Bytes = "1MiB",
    plan: Plan = False,
    overrides: Overrides = None,
    as_json: Json = False,
) -> int:
    """Plan one operation for a chip, simulate it, and report how long it takes and why."""
    from kernbench.config import NpuConfig
    from kernbench.config.runtime import load_runtime
    from kernbench.workloads.ops.named import TYPES, check_name, operation_of
    from kernbench.workloads.ops.operation import Product
    from kernbench.workloads.ops.timing import OperationTimer

    _check_overrides(overrides or [])
    machine = load_machine(config, overrides, kind=NpuConfig)
    timer = OperationTimer(machine, load_runtime(runtime))
    check_name(name, "kbsim op", "OP")
    given = {
        "m": m, "n": n, "k": k, "batch": batch, "kv": kv, "prefill": prefill, "heads": heads, "kv_heads": kv_heads,
        "head_dim": head_dim, "w": w, "ranks": ranks, "bytes": size_of("kbsim op", "--bytes", nbytes),
        "dtype": dtype_of("kbsim op", dtype, TYPES),
    }  # fmt: skip
    made = operation_of(name, given, "kbsim op", _option)
    found = timer.time(made)
    tried = _tried(timer, made) if plan and isinstance(made, Product) else []
    if as_json:
        output.show_json(_plain(found, machine.chip, runtime, tried))
    else:
        output.show(_text(found, machine, runtime, tried))
    return output.OK


PARTS = {
    "host": "launch and synchronisation by the host",
    "start": "start of the kernel on the chip, to the first byte",
    "body": "computation on the cores, in whole waves",
    "memory": "DRAM traffic that the cache does not hold",
    "after": "reductions, and waits of body and memory",
}


EXCHANGE = "exchange between the chips"  #: the body of a collective


def _option(name: str) -> str:
    """The option of a parameter: -m, --kv-heads."""
    return f"-{name}" if name in ("m", "n", "k") else f"--{name.replace('_', '-')}"


def _check_overrides(overrides: Sequence[str]) -> None:
    from kernbench.common.errors import InputError, Problem

    for text in overrides:
        name, _, value = text.partition("=")
        if name in ("m", "n", "k"):
            remedy = f"did you mean -{name} {value}?"
            rule = "--set sets values of the machine, not of the operation"
            raise InputError(Problem("kbsim op", rule, "--set", text, remedy))


def _tried(timer: OperationTimer, made: Any) -> list[dict[str, Any]]:
    from kernbench.workloads.ops.products import expected_cycles, product_plans

    view = timer.view
    every = product_plans(view, made, timer.runtime.cost(made.name, made.kind), every=True)
    plans = sorted(every, key=lambda one: expected_cycles(view, one))
    return [{"us": one.cycles(view.memory_rate) / view.freq / 1e3, **one.notes} for one in plans]


def _plain(found: Timed, chip: Any, runtime: str, tried: list[dict[str, Any]]) -> dict[str, Any]:
    plain = {"us": found.ns / 1e3, "chip": chip.name, "calibrated": chip.calibrated, "runtime": runtime}
    parts = {name: ns / 1e3 for name, ns in found.causes.items()}
    return plain | {"parts_us": parts, "plan": found.kernel.notes, "tried": tried}


def _text(found: Timed, machine: Any, runtime: str, tried: list[dict[str, Any]]) -> Iterator[RenderableType]:
    from kernbench.workloads.ops.operation import COLLECTIVES

    chip = machine.chip
    yield widgets.Text.assemble(
        (f"{found.ns / 1e3:.4g} us", "bold"), f"  {found.kernel.name} on {chip.name}, runtime {runtime}"
    )
    columns: list[tuple[str, Justify]] = [("part", "left"), ("meaning", "left"), ("alone", "right")]
    made = table("Parts", columns, "host and start come first; body and memory overlap")
    for name, ns in found.causes.items():
        if ns < LEAST_NS:
            continue
        meaning = EXCHANGE if name == "body" and found.kernel.name in COLLECTIVES else PARTS[name]
        made.add_row(name, meaning, f"{ns / 1e3:.4g} us")
    yield made
    notes = ", ".join(f"{name.replace('_', ' ')} {value}" for name, value in found.kernel.notes.items())
    if notes:
        yield f"plan: {notes}"
    if tried:
        yield ""
        names = [name for name in tried[0] if name != "us"]
        note = "the first is used: the fastest by what the library expects"
        plans = table("Plans compared", [*((name, "left") for name in names), ("estimate", "right")], note)
        for one in tried[:SHOWN]:
            plans.add_row(*(str(one[name]) for name in names), f"{one['us']:.4g} us")
        yield plans
