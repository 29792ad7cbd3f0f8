"""`kbsim schema`: the JSON Schemas of what kernbench reads and writes."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from kernbench.cli import output


class Kind(StrEnum):
    """What there is a schema of."""

    PROGRAM = "program"
    MACHINE = "machine"
    SYSTEM = "system"
    RESULT = "result"
    TRACE = "trace"
    SWEEP = "sweep"


def schema(
    kind: Annotated[Kind, typer.Argument(help="Which schema.", show_default=False)],
) -> int:
    """Print the JSON Schema of a program, a machine, a system, a result, a line of a trace or a sweep."""
    from kernbench.cmdq import program_json_schema
    from kernbench.config import machine_json_schema, system_json_schema
    from kernbench.sim_engine.json_schema import result_json_schema
    from kernbench.sweep.json_schema import sweep_json_schema
    from kernbench.trace.json_schema import trace_json_schema

    schemas = {
        Kind.PROGRAM: program_json_schema,
        Kind.MACHINE: machine_json_schema,
        Kind.SYSTEM: system_json_schema,
        Kind.RESULT: result_json_schema,
        Kind.TRACE: trace_json_schema,
        Kind.SWEEP: sweep_json_schema,
    }
    output.write(json.dumps(schemas[kind](), indent=2) + "\n")
    return output.OK
