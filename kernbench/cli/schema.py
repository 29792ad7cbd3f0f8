"""`kbsim schema`: the JSON Schemas of what kernbench reads and writes."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import Annotated

import typer

from kernbench.cli import output


class Kind(StrEnum):
    """The objects that have a schema."""

    PROGRAM = "program"
    MACHINE = "machine"
    SYSTEM = "system"
    RESULT = "result"
    TRACE = "trace"
    SWEEP = "sweep"
    BENCH = "bench"
    CCL = "ccl"
    REPLAY = "replay"
    LLM = "llm"
    ONNX = "onnx"
    COMPARE = "compare"
    WHATIF = "whatif"
    TENANTS = "tenants"
    SERVE = "serve"
    SERVE_WHY = "serve-why"
    SERVE_CAPACITY = "serve-capacity"
    FLEET = "fleet"


def schema(
    kind: Annotated[Kind, typer.Argument(metavar="KIND", help=f"Kind of the schema: {', '.join(Kind)}.", show_default=False)],
) -> int:
    """Print a JSON Schema of an input file, of the lines of a trace, or of the JSON that a command prints."""
    from kernbench.analysis.json_schema import compare_json_schema, tenants_json_schema, what_if_json_schema
    from kernbench.ccl.json_schema import ccl_json_schema, replay_json_schema
    from kernbench.cmdq import program_json_schema
    from kernbench.config import machine_json_schema, system_json_schema
    from kernbench.runtime_api.json_schema import bench_json_schema
    from kernbench.sim_engine.json_schema import result_json_schema
    from kernbench.sweep.json_schema import sweep_json_schema
    from kernbench.trace.json_schema import trace_json_schema
    from kernbench.workloads.json_schema import llm_json_schema, onnx_json_schema
    from kernbench.workloads.serving.fleet_file import fleet_json_schema
    from kernbench.workloads.serving.json_schema import serve_capacity_json_schema, serve_json_schema, serve_why_json_schema

    schemas = {
        Kind.PROGRAM: program_json_schema,
        Kind.MACHINE: machine_json_schema,
        Kind.SYSTEM: system_json_schema,
        Kind.RESULT: result_json_schema,
        Kind.TRACE: trace_json_schema,
        Kind.SWEEP: sweep_json_schema,
        Kind.BENCH: bench_json_schema,
        Kind.CCL: ccl_json_schema,
        Kind.REPLAY: replay_json_schema,
        Kind.LLM: llm_json_schema,
        Kind.ONNX: onnx_json_schema,
        Kind.COMPARE: compare_json_schema,
        Kind.WHATIF: what_if_json_schema,
        Kind.TENANTS: tenants_json_schema,
        Kind.SERVE: serve_json_schema,
        Kind.SERVE_WHY: serve_why_json_schema,
        Kind.SERVE_CAPACITY: serve_capacity_json_schema,
        Kind.FLEET: fleet_json_schema,
    }
    output.write(json.dumps(schemas[kind](), indent=2) + "\n")
    return output.OK
