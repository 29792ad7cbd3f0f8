"""`kbsim config init`: a machine file to edit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from kernbench.cli import output
from kernbench.cli.options import Json, Overrides, Quiet
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from kernbench.config import MachineConfig

OutFile = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE]", help="The file to write: .yaml or .yml.", show_default="standard output"),
]
Kind = Annotated[
    str | None,
    typer.Option("--kind", metavar="KIND", help="npu or system: start from the default of every key.", show_default="npu"),
]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="NAME|FILE", help="Start from this preset, chip or file.", show_default=False),
]
SchemaAt = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="PATH|URL",
        help="Location of the JSON Schema for editors. By default it is written beside FILE.",
        show_default=False,
    ),
]


def init(
    file: OutFile = None,
    kind: Kind = None,
    begin_with: From = None,
    overrides: Overrides = None,
    schema: SchemaAt = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Write a machine file to edit, with the value and meaning of every key, and a JSON Schema for editors beside it."""
    from kernbench.common.files import write_whole
    from kernbench.config.commented import commented_yaml

    if file is not None:
        _check_place(file, force)
    machine = _machine(kind, begin_with, overrides or [])
    beside = None if file is None or schema is not None else file.with_name(_schema_name(machine))
    text = commented_yaml(machine, schema=schema or (f"./{beside.name}" if beside is not None else ""))
    if file is None:
        output.write(text)
        return output.OK
    if beside is not None:
        write_whole(beside, (json.dumps(_json_schema(machine), indent=2) + "\n").encode())
    write_whole(file, text.encode())
    if as_json:
        output.show_json({"status": "done", "file": str(file), "schema": str(beside) if beside is not None else schema})
    elif not quiet:
        output.write(f"{file}: a machine to edit\n" + (f"{beside}: its JSON Schema, for editors\n" if beside else ""))
        output.write(f"check it with: kbsim config check {file}\n")
    return output.OK


def _check_place(file: Path, force: bool) -> None:
    from kernbench.common.files import check_writable

    if file.suffix not in (".yaml", ".yml"):
        raise InputError(Problem("kbsim config init", "its name must end in .yaml or .yml", "FILE", str(file)))
    if file.exists() and not force:
        remedy = "take another name, or replace it with --force"
        raise InputError(Problem("kbsim config init", "this file exists", "FILE", str(file), remedy))
    check_writable(file)


def _machine(kind: str | None, begin_with: str | None, overrides: list[str]) -> MachineConfig:
    """The machine to write. InputError for an unknown kind, or if the machine to start from is of another kind."""
    from kernbench.config import load_config
    from kernbench.config.keys import machine_kinds

    schema, model = next(iter(machine_kinds(kind).items()))
    if begin_with is None:
        found: MachineConfig = load_config({"schema": schema}, overrides)
        return found
    return load_config(begin_with, overrides, kind=model) if kind is not None else load_config(begin_with, overrides)


def _schema_name(machine: MachineConfig) -> str:
    """`kernbench-npu-1.schema.json`."""
    return f"{str(machine.to_dict()['schema']).replace('/', '-')}.schema.json"


def _json_schema(machine: MachineConfig) -> dict[str, object]:
    from kernbench.config import SystemConfig, machine_json_schema, system_json_schema

    return system_json_schema() if isinstance(machine, SystemConfig) else machine_json_schema()
