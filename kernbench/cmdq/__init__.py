"""Command queue programs: reading, building, checking and looking at them."""

from kernbench.cmdq.analyse import Bounds, ProgramSummary, lower_bounds, summarise
from kernbench.cmdq.check import check_program
from kernbench.cmdq.json_schema import program_json_schema
from kernbench.cmdq.parse import load_program
from kernbench.cmdq.program import Entry, Program

__all__ = [
    "Bounds",
    "Entry",
    "Program",
    "ProgramSummary",
    "check_program",
    "load_program",
    "lower_bounds",
    "program_json_schema",
    "summarise",
]
