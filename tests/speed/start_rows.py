"""What comes before the first cycle: starting a command, and reading a program as JSON and in compiled form.

Each figure is CPU time of a process of its own, kernbench's own .pyc files being there.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kernbench import load_config, load_program
from kernbench.cmdq.compiled import save_compiled
from tests.speed.goals import Goal, goal_lines

CONFIG = "npu_mobile"
HELP_GOAL, RUN_GOAL = 3, 8  #: times the CPU time of `python -c pass`, measured in the same run
COMMAND = "from kernbench.cli.main import main; main({})"  # as the script of the package does
LOAD = """
import gc, json, sys, time
from kernbench.api.targets import program_of
from kernbench.cmdq.plan import plan_npu
from kernbench.config import load_config
from tests.speed.peak import peak_mib
gc.set_threshold(100_000, 20, 20)  # as the command line has it
config = load_config({config!r})
began = time.process_time()
program = program_of({path!r}, config)
plan_npu(program, config)
spent = time.process_time() - began
print(json.dumps([spent, len(program), peak_mib()]))
"""


@dataclass(frozen=True, slots=True)
class Start:
    """A command from its start to its end."""

    command: str
    seconds: float
    spread: float  #: half of the range
    ratio: float  #: of the CPU time of Python alone, measured in turn with it
    goal: float  #: of the ratio; 0: it is what the others are measured beside


@dataclass(frozen=True, slots=True)
class Load:
    """A program from its file to the tables of the core."""

    entries: int
    plain: float  #: [s] read, checked and lowered
    compiled: float  #: [s] loaded from a compiled program (.kbp)
    plain_mib: int  #: the process at its largest
    compiled_mib: int

    @property
    def ratio(self) -> float:
        """The time from JSON divided by the time from the compiled program."""
        return self.plain / self.compiled


def tiles(entries: int) -> dict[str, Any]:
    """A program of about so many: a tile and its weights, their product, GELU, a store; each waits for what it works on."""
    out: list[dict[str, Any]] = []
    place = {"spm_bank": 0}
    act = {"tensor_role": "activation", "qbits": 8, "num_elements": 8192}
    store = {"opcode": "DMA_STORE_TILE", **act, **place, "spm_offset": 24576}
    vector = {"length": 128, "batch": 64, "qbits_activation": 8, "in_bank": 0, "in_offset": 16384}
    gemm = {"m": 64, "n": 128, "k": 128, "qbits_weight": 4, "qbits_activation": 8, "ifm_bank": 0, "ifm_offset": 0}
    gemm |= {"wgt_bank": 0, "wgt_offset": 8192, "ofm_bank": 0, "ofm_offset": 16384}
    for turn in range(entries // 5):
        first, address = len(out), turn % 64 << 16
        waits = {"deps_before": [first - 1]} if turn else {}
        load = {"opcode": "DMA_LOAD_TILE", **place, **waits}
        weights = {"tensor_role": "weight", "qbits": 4, "num_elements": 16384}
        out += [
            {**load, **act, "dram_addr": address, "spm_offset": 0},
            {**load, **weights, "dram_addr": address + 8192, "spm_offset": 8192},
            {"opcode": "TE_GEMM_TILE", **gemm, "deps_before": [first, first + 1]},
            {"opcode": "VE_GELU_TILE", **vector, "out_bank": 0, "out_offset": 24576, "deps_before": [first + 2]},
            {**store, "dram_addr": address + 16384, "deps_before": [first + 3]},
        ]
    return {"metadata": {"version": "1.0", "name": "tiles"}, "cmdq": [{"id": k, **entry} for k, entry in enumerate(out)]}


def start_rows(repeats: int) -> list[Start]:
    """Python alone, `kbsim --help`, and `kbsim run` on a program of 15 entries."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "small.json"
        path.write_text(json.dumps(tiles(15)), encoding="utf-8")
        codes = {
            "python": "pass",
            "kbsim --help": COMMAND.format(["--help"]),
            "kbsim run": COMMAND.format(["run", str(path), "--config", CONFIG]),
        }
        goals = {"python": 0, "kbsim --help": HELP_GOAL, "kbsim run": RUN_GOAL}
        spent: dict[str, list[float]] = {name: [] for name in codes}
        for turn in range(repeats + 1):  # in turn, so that a load of the machine meets all; the first writes .pyc files
            for name, code in codes.items():
                spent[name] += [_process(code, {})[0]][: int(turn > 0)]
        alone = statistics.median(spent["python"])
        return [
            Start(name, middle := statistics.median(found), (max(found) - min(found)) / 2, middle / alone, goals[name])
            for name, found in spent.items()
        ]


def load_rows(sizes: tuple[int, ...], repeats: int) -> list[Load]:
    """Programs of about so many entries, from JSON and from a compiled program, in turn."""
    rows = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            text, compiled = Path(folder) / "program.json", Path(folder) / "program.kbp"
            text.write_text(json.dumps(tiles(size)), encoding="utf-8")
            config = load_config(CONFIG)
            save_compiled(load_program(text), config, compiled)
            told: dict[Path, list[Any]] = {text: [], compiled: []}
            for _ in range(repeats if size < 1_000_000 else 1):
                for path, found in told.items():
                    found.append(json.loads(_process(LOAD.format(config=CONFIG, path=str(path)), {})[1]))
        plain, packed = (statistics.median(spent for spent, _, _ in found) for found in told.values())
        peaks = [round(max(peak for _, _, peak in found)) for found in told.values()]
        rows.append(Load(told[text][0][1], plain, packed, *peaks))
    return rows


def _process(code: str, extra: dict[str, str]) -> tuple[float, str]:
    """CPU time of a new process that runs the code, and what it prints."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    environment = {**os.environ, **extra}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, done.stdout


def start_table(rows: list[Start]) -> str:
    """As text."""
    return "\n".join(
        f"  {row.command:12} {row.seconds:6.3f} s +- {row.spread:.3f} of CPU time, {row.ratio:5.2f} times Python alone"
        for row in rows
    )


def start_goals(rows: list[Start]) -> list[Goal]:
    """Beside Python alone."""
    return [Goal(f"{row.command}, over Python alone", row.ratio, row.goal, "times") for row in rows if row.goal]


def load_table(rows: list[Load]) -> str:
    """As text."""
    lines = ["    entries        from JSON        from .kbp   ratio   largest process"]
    for row in rows:
        sizes = f"{row.plain_mib:,} / {row.compiled_mib:,} MiB"
        lines.append(f"  {row.entries:9,} {row.plain:14.3f} s {row.compiled:14.4f} s {row.ratio:7.1f}   {sizes}")
    return "\n".join(lines)


if __name__ == "__main__":  # python -m tests.speed.start_rows [ENTRIES ...]
    SIZES = tuple(int(size) for size in sys.argv[1:]) or (1_000, 100_000)
    STARTS = start_rows(9)
    print(f"{start_table(STARTS)}\n{load_table(load_rows(SIZES, 3))}\n{goal_lines(start_goals(STARTS))}")
