"""`kbsim tenants`: several programs or benches that share one machine, with quotas, and how much each is slowed down."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output, widgets
from kernbench.cli.options import DEFAULT_MACHINE, AllowCode, Config, Json, Overrides, Quiet
from kernbench.cli.target import find_bench, load_machine, refuse_bench_options
from kernbench.cli.text import LIMIT, WIDE, Justify, size_text, status_text, table

if TYPE_CHECKING:
    from rich.console import RenderableType

    from kernbench.analysis.tenants import Shared
    from kernbench.config import NpuConfig, SystemConfig

Programs = Annotated[
    list[str],
    typer.Argument(
        metavar="TARGET...",
        help="Programs (.json, .yaml) or benches, one for each tenant. To give a program a quota, write "
        "FILE:weight=2,outstanding=4. To give a bench a quota and parameters, write NAME:weight=2,pes=4,m=512.",
        show_default=False,
    ),
]


def tenants(
    programs: Programs,
    config: Config = DEFAULT_MACHINE,
    overrides: Overrides = None,
    allow_code: AllowCode = None,
    verify: Annotated[bool, typer.Option("--verify", help="Compare the outputs of benches with their references.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Run several programs or benches at once on one machine, with quotas, and report the slowdown of each tenant."""
    machine = load_machine(config, overrides, quiet=quiet, allow_code=allow_code or ())
    found = _shared(programs, machine, verify=verify)
    if as_json:
        import json

        output.write(json.dumps(found.to_dict()) + "\n")
    elif not quiet:
        output.show(tenants_table(found, output.console(sys.stdout).width))
    if any(one.verified is False for one in found.tenants):
        return 1
    return output.ENDINGS[found.result.status]


def _shared(targets: list[str], machine: NpuConfig | SystemConfig, *, verify: bool) -> Shared:
    """The run of programs, or of benches."""
    from kernbench.analysis.tenants import read_tenant, share, split_quotas

    benches = [find_bench(split_quotas(one)[0]) for one in targets]
    if not any(benches):
        refuse_bench_options(split_quotas(targets[0])[0], verify=verify)
        return share([read_tenant(one) for one in targets], machine)
    if not all(benches):
        from kernbench.common.errors import InputError, Problem

        rule = "tenants must be only programs or only benches"
        raise InputError(Problem("kbsim tenants", rule, "TARGET", targets[benches.index(None)], "run the two kinds separately"))
    from kernbench.analysis.bench_tenants import read_bench_tenant, share_benches

    named = zip(targets, benches, strict=True)
    return share_benches([read_bench_tenant(one, bench) for one, bench in named if bench is not None], machine, verify=verify)


def tenants_table(found: Shared, width: int) -> Iterator[RenderableType]:
    """The output of `kbsim tenants`."""
    yield status_text(found.result.status).append(f"  {found.result.cycles:,} cycles", LIMIT).append(f" on {found.machine}")
    if not found.tenants:
        return
    wide, benches = width >= WIDE, any(one.pes is not None for one in found.tenants)
    columns: list[tuple[str, Justify]] = [("tenant", "right"), ("bench" if benches else "program", "left")]
    columns += [("PEs", "right")] if benches else []
    columns += [("weight", "right"), ("cycles", "right")]
    columns += [("alone", "right"), ("slowdown", "right"), ("DRAM", "right")]
    columns += [("outstanding", "right"), ("held at banks", "right")] if wide else []
    made = table("", columns, "")
    for number, one in enumerate(found.tenants):
        slowdown = "n/a" if one.slowdown is None else f"{float(one.slowdown):.2f} x"
        cells: list[str | widgets.Text] = [str(number), one.name, *([str(one.pes)] if benches else [])]
        cells += [str(one.weight), f"{one.cycles:,}", f"{one.alone:,}"]
        cells += [widgets.Text(slowdown, LIMIT), size_text(one.dram_bytes)]
        made.add_row(*cells, *([str(one.outstanding), f"{one.bank_conflict:,}"] if wide else []))
    yield ""
    yield made
    if found.fairness is not None:
        yield ""
        yield f"throughput {float(found.throughput):.2f} of {len(found.tenants)} machines, fairness {float(found.fairness):.2f}"
    if all(one.verified for one in found.tenants):
        yield "verified: the outputs of all benches are those of their references"
    for number, one in enumerate(found.tenants):
        if one.verified is False:
            yield f"tenant {number}: the outputs differ from the reference; kbsim run {one.name} --verify tells where"
