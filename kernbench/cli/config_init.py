"""`kbsim config init`: a machine file to edit."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from kernbench.cli import output
from kernbench.cli.options import Json, Overrides, Quiet
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from kernbench.config import MachineConfig
    from kernbench.config.astra_system import AstraSystem
    from kernbench.config.node_description import NodeDescription

OutFile = Annotated[
    Path | None,
    typer.Argument(metavar="[FILE]", help="The file to write: .yaml or .yml.", show_default="standard output"),
]
Kind = Annotated[
    str | None,
    typer.Option("--kind", metavar="KIND", help="Write a machine of this kind (npu or system) with the default value of "
        "every key.", show_default="npu"),
]
From = Annotated[
    str | None,
    typer.Option("--from", metavar="NAME|FILE", help="Start from this preset, chip or file.", show_default=False),
]
Nccl = Annotated[
    Path | None,
    typer.Option(
        "--nccl-topology",
        metavar="FILE.xml",
        help="Take SIPs and links from a topology file that NCCL wrote (NCCL_TOPO_DUMP_FILE).",
        show_default=False,
    ),
]
Nodes = Annotated[
    int,
    typer.Option(
        "--nodes",
        metavar="N",
        help="Make a machine of N equal nodes. The file of --nccl-topology describes one node. "
        "Rails connect the NICs of the nodes.",
        min=1,
    ),
]
Astra = Annotated[
    Path | None,
    typer.Option(
        "--astra-network",
        metavar="FILE.yml",
        help="Take SIPs and links from a network file of ASTRA-sim.",
        show_default=False,
    ),
]
AstraSys = Annotated[
    Path | None,
    typer.Option(
        "--astra-system",
        metavar="FILE.json",
        help="Take the memory bandwidth and the cost of a message from a system file of ASTRA-sim.",
        show_default=False,
    ),
]
SchemaAt = Annotated[
    str | None,
    typer.Option(
        "--schema",
        metavar="PATH|URL",
        help="File for the JSON Schema that editors use. By default the schema is written beside FILE.",
        show_default=False,
    ),
]


def init(
    file: OutFile = None,
    kind: Kind = None,
    begin_with: From = None,
    nccl_topology: Nccl = None,
    nodes: Nodes = 1,
    astra_network: Astra = None,
    astra_system: AstraSys = None,
    overrides: Overrides = None,
    schema: SchemaAt = None,
    force: Annotated[bool, typer.Option("--force", help="Replace FILE if it exists.")] = False,
    as_json: Json = False,
    quiet: Quiet = False,
) -> int:
    """Write a machine file that you can edit, with the value and meaning of every key, and a JSON Schema for editors."""
    from kernbench.common.files import write_whole
    from kernbench.config.commented import commented_yaml

    if file is not None:
        _check_place(file, force)
    described = _described(nccl_topology, astra_network, astra_system, nodes)
    own = overrides or []
    machine = _of_files(described, kind, begin_with, own) if described else _machine(kind, begin_with, own)
    beside = None if file is None or schema is not None else file.with_name(_schema_name(machine))
    text = commented_yaml(machine, schema=schema or (f"./{beside.name}" if beside is not None else ""))
    for note in [] if quiet else [note for one in described for note in one.notes]:
        output.note(f"note: {note}")
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
        remedy = "" if file.suffix else f"write kbsim config init {file}.yaml"
        raise InputError(Problem("kbsim config init", "the file name must end in .yaml or .yml", "FILE", str(file), remedy))
    if os.path.exists(file) and not force:
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


def _described(
    nccl: Path | None, astra: Path | None, system: Path | None, nodes: int
) -> list[NodeDescription | AstraSystem]:
    """The settings from files of other tools: first the SIPs and their links, then all others."""
    from kernbench.config.file_kinds import expecting

    found: list[NodeDescription | AstraSystem] = []
    if nccl is not None and astra is not None:
        rule = "--nccl-topology and --astra-network both define the SIPs"
        raise InputError(Problem("kbsim config init", rule, remedy="leave one out"))
    if nccl is not None:
        from kernbench.config.nccl_topology import read_nccl_topology

        with expecting(nccl, "nccl"):
            found.append(read_nccl_topology(nccl, nodes))
    elif nodes > 1:
        rule = "the number of nodes belongs to the file of --nccl-topology"
        raise InputError(Problem("kbsim config init", rule, "--nodes", nodes, "leave it out"))
    if astra is not None:
        from kernbench.config.astra_sim import read_astra_network

        with expecting(astra, "astra_network"):
            found.append(read_astra_network(astra))
    if system is not None:
        from kernbench.config.astra_system import read_astra_system

        with expecting(system, "astra_system"):
            found.append(read_astra_system(system))
    return found


NODE = "pod_8sip"  #: what to start from, if a file does not say which devices there are


def _of_files(
    described: list[NodeDescription | AstraSystem], kind: str | None, begin_with: str | None, own: list[str]
) -> MachineConfig:
    """The initial machine with the settings of the files; --set is applied last."""
    from kernbench.config import SystemConfig, load_config
    from kernbench.config.node_description import NodeDescription
    from kernbench.config.overrides import parse_overrides

    if kind not in (None, "system"):
        raise InputError(Problem("kbsim config init", "the file describes a system", "--kind", kind, "leave it out"))
    start = begin_with or next((one.start for one in described if isinstance(one, NodeDescription) and one.start), NODE)
    parse_overrides(own)  # InputError for one that is none
    base, values = load_config(start, kind=SystemConfig), dict[str, Any]()
    for one in described:
        values |= one.overrides(base)
    values |= {path.strip(): value for path, _, value in (one.partition("=") for one in own)}
    return load_config(start, values, kind=SystemConfig)


def _schema_name(machine: MachineConfig) -> str:
    """`kernbench-npu-1.schema.json`."""
    return f"{str(machine.to_dict()['schema']).replace('/', '-')}.schema.json"


def _json_schema(machine: MachineConfig) -> dict[str, object]:
    from kernbench.config import SystemConfig, machine_json_schema, system_json_schema

    return system_json_schema() if isinstance(machine, SystemConfig) else machine_json_schema()
