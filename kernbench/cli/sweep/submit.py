"""`kbsim sweep submit`: the shards of a sweep as an array of Slurm jobs, and a job that merges them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import AllowCode, Json
from kernbench.cli.sweep.run import SpecFile, StoreFile

Options = Annotated[
    list[str] | None,
    typer.Option("--sbatch", metavar="OPTION", help="Pass an option to sbatch, for example "
        "--sbatch=--time=2:00:00.", show_default=False),
]


def submit(
    spec: SpecFile,
    shards: Annotated[int, typer.Option("--shards", min=1, metavar="N", help="Number of shards. Each shard is one job.")],
    store: StoreFile = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, metavar="N", help="Number of processes that run one shard.")] = 1,
    sbatch: Options = None,
    allow_code: AllowCode = None,
    only_write: Annotated[bool, typer.Option("--only-write", help="Write the scripts, and do not submit the jobs.")] = False,
    as_json: Json = False,
) -> int:
    """Run a sweep on Slurm. Each job of a job array runs one shard, and a final job merges the stores of the shards."""
    from kernbench.common.errors import InputError, Problem
    from kernbench.sweep.points import points_of
    from kernbench.sweep.slurm import COMMAND, MAX_SHARDS, Array
    from kernbench.sweep.spec.load import load_spec

    for option in sbatch or ():
        if not option.startswith("-") or not option.isprintable():
            raise InputError(Problem(COMMAND, "it must be an option of sbatch on one line", "--sbatch", option))
    read = load_spec(spec, allow_code=allow_code or ())
    if read.search is not None:
        rule = "the points of a search depend on earlier results, so it has no shards"
        raise InputError(
            Problem(COMMAND, rule, remedy=f"remove search from {spec}, or run the sweep on one computer with kbsim sweep run")
        )
    points = len(points_of(read))
    if shards > min(points, MAX_SHARDS):
        rule = f"the sweep has {points} points, and an array at most {MAX_SHARDS} jobs"
        raise InputError(Problem(COMMAND, rule, "--shards", shards))
    place = Path(spec).with_suffix(".sqlite") if store is None else store
    allowed = tuple(str(Path(path).absolute()) for path in allow_code or ())
    array = Array(Path(spec).absolute(), place.absolute(), shards, jobs, tuple(sbatch or ()), allowed)
    array.write()
    numbers = None if only_write else array.submit()
    if as_json:
        answer = {"points": points, "shards": shards, "script": str(array.script), "merge_script": str(array.merge_script)}
        array_job, merge_job = numbers or (None, None)
        output.show_json({**answer, "array_job": array_job, "merge_job": merge_job})
        return output.OK
    output.write(f"{array.script}: {shards} shards of {points:,} points; {array.merge_script} merges them into {array.store}\n")
    if numbers is not None:
        output.write(f"submitted: job {numbers[0]} (array), job {numbers[1]} (merge)\n")
    return output.OK
