"""`python -m tests.speed.wait_rows`: what users wait for, each with its goal and, where it is known, what another tool takes.

CPU time; each figure is the median of three runs of the work in this process, or of one measurement that has its own repeats.
No test.
"""

from __future__ import annotations

import argparse
import gc
import json
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from kernbench.analysis.noc.device import load_device
from kernbench.analysis.noc.events import read_trace
from kernbench.analysis.noc.load import Window, run_load
from kernbench.analysis.noc.replay import replayed
from kernbench.cmdq.controller_timing import controller_table
from kernbench.common.kept_results import build_digest
from kernbench.config import load_config
from kernbench.noc.network import MeshSpec
from kernbench.noc.traffic import Traffic
from kernbench.sim_engine.machine import run_dram_load
from kernbench.sweep.targets.llm import LlmTarget
from kernbench.validate.ramulator import bursts_of, read_figures
from kernbench.workloads.llm.run import run_llm
from kernbench.workloads.llm.steps import Job, LlmPrograms
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import uniform_precision
from tests.shared_results import forget_results
from tests.speed.answer_rows import answer_rows
from tests.speed.booksim_peer import booksim_clocks_a_second
from tests.speed.ccl_rows import send_rows
from tests.speed.goals import ONE_BY_ONE, Goal, goal_lines
from tests.speed.kept import results_kept_in, without_kept_results
from tests.speed.kernel_rows import kernel_rows
from tests.speed.replay_rows import replay_rows
from tests.speed.sample import Sample, plain
from tests.speed.skip_rows import skip_rows
from tests.speed.start_rows import load_rows, start_rows
from tests.speed.sweep_rows import sweep_row
from tests.speed.trace_rows import trace_rows

ROOT = Path(__file__).resolve().parents[2]
DATA = ROOT.parent / "shared" / "data"  #: recorded traffic and figures of others; rows that need it are left out without it
REPEATS = 3
#: A machine as wide as an A100: 40 channels of HBM, 40 MiB of scratchpad, 16 engines of a kind.
WIDE = {
    "schema": "kernbench/npu/1", "freq_ghz": 1.41, "max_cycles": 10**12,
    "dma": {"engines": 8, "max_concurrent_transfers": 8, "channels": {"act_weight": {"max_concurrent": 8}}},
    "dram": {"channels": 40, "capacity_bytes": "80 GiB", "dram_burst_cycles": 1, "peak_bw_bytes_per_cycle": 36.1525,
             "t_setup_cycles": 552},
    "spm": {"num_banks": 64, "bank_size_bytes": 655360, "bank_width_bytes": 128, "read_ports": 4, "write_ports": 4},
    "te": {"engines": 16, "macs_per_cycle": 8192, "f_a": {8: 1, 16: 0.5, 32: 0.25}},
    "ve": {"engines": 16, "lanes": 432, "f_a": {8: 1, 16: 1, 32: 1}},
}  # fmt: skip
FLIT_GOAL = 5 * 43  #: [k clocks/s] five times the first speed of kernbench, which was taken for that of BookSim
CONTEXTS = (128, 512, 1024)  #: of a point of a sweep
DDR4 = {"standard": "DDR4", "pattern": "rand", "read_pct": "100", "load_pct": "sat"}.items()  #: a row of the figures


def _cpu(work: Callable[[], Any], repeats: int = REPEATS) -> Sample:
    """[s] of CPU time."""
    found = []
    for _ in range(repeats):
        gc.collect()
        begin = time.process_time()
        work()
        found.append(time.process_time() - begin)
    return Sample(found)


def llm(quick: bool) -> Iterator[Goal]:
    """`kbsim llm` without the start of its process."""
    model, config = load_model("llama2-7b"), load_config(WIDE)
    job = Job(prompt=128, tokens=2, phases=("decode",))

    def whole() -> None:
        forget_results()
        run_llm(LlmPrograms(model, uniform_precision(w=16, a=16, kv=16), config, job))

    with without_kept_results():
        found = _cpu(whole, 1 if quick else 3)
    yield Goal("Llama-2-7B in 16 bit on a machine with 40 channels, two tokens", found, 1, "s")


def points(quick: bool) -> Iterator[Goal]:
    """A point of a sweep: of contexts that nobody has run, of another bandwidth, of another scratchpad with the same plan.

    The garbage collector runs as often as in the worker of a sweep.
    """
    before = gc.get_threshold()
    gc.set_threshold(100_000, 20, 20)
    try:
        yield from _points()
    finally:
        gc.set_threshold(*before)


def _points() -> Iterator[Goal]:
    target = LlmTarget("model", "llama2-7b", {"phase": "decode", "tokens": 1})
    base = {"spm.bank_size_bytes": 1 << 20}  # 64 MiB

    def point(**changes: Any) -> float:
        config = load_config("npu_server", base | {name.replace("__", "."): value for name, value in changes.items()})
        begin = time.process_time()
        for context in CONTEXTS:
            target.simulate(config, {"prompt": context})
        return time.process_time() - begin

    fresh, wider, larger = [], [], []
    with without_kept_results():
        for turn in range(REPEATS):
            forget_results()
            fresh.append(point())
            wider.append(point(dram__peak_bw_bytes_per_cycle=90 + turn))
            larger.append(point(spm__bank_size_bytes=(1 << 20) + 65536))
    what = "a point of a sweep of Llama-2-7B, three contexts"
    yield Goal(f"{what}: the first", Sample(fresh), 0.03, "s")
    yield Goal(f"{what}: another DRAM bandwidth", Sample(wider), 0.03, "s", beside="0.61 before")
    yield Goal(f"{what}: another scratchpad, same plan", Sample(larger), 0.03, "s", beside="0.61 before")
    kept = []
    with TemporaryDirectory() as folder, results_kept_in(folder):
        for _ in range(REPEATS + 1):
            forget_results()
            build_digest.cache_clear()
            kept.append(point())
    yield Goal(f"{what}: the first of a process, results kept by an earlier one", Sample(kept[1:]), 0.03, "s")


def decode(quick: bool) -> Iterator[Goal]:
    """The decoder layer."""
    row = next(one for one in skip_rows(REPEATS) if one.load == "decode")
    yield Goal("decode layer of Llama-2-7B on npu_server", row.cycles_a_second / 1e6, 20, "M cycles/s", more=True)


def wormhole(quick: bool) -> Iterator[Goal]:
    """Recorded traffic of a chip."""
    folder = DATA / "noc_traces"
    files = sorted(folder.rglob("*.json")) if folder.exists() else []
    if not files:
        return
    device = load_device("wormhole")
    traces = [read_trace(path, device) for path in files[:: 8 if quick else 1]]
    spent = _cpu(lambda: [replayed(trace, device, "recorded") for trace in traces], 1 if quick else REPEATS)
    scaled = Sample([spent * 1000 / len(traces)])
    scaled.spread = spent.spread
    yield Goal("a Wormhole trace at its recorded times", scaled, 4, "ms", beside="tt-npe, one cycle a step: 224 ms")


def dram(quick: bool) -> Iterator[Goal]:
    """Random reads of 64 bytes, as fast as the queues take them."""
    if not (DATA / "dram" / "ramulator2.csv").exists():
        return
    clocks = 20_000 if quick else 100_000
    figure = next(one for one in read_figures(DATA / "dram") if one.row.items() >= DDR4)
    table = controller_table(figure.controller())
    bursts = bursts_of(figure.preset, "rand", 100, "sat", clocks)
    spent = [clocks / _cpu(lambda: run_dram_load(table, bursts, 0, clocks), 1) / 1e6 for _ in range(REPEATS)]
    told = "Ramulator 2: 1.10"
    yield Goal("DRAM controller alone, random 64 bytes of DDR4", Sample(spent), 2, "M cycles/s", more=True, beside=told)


def flits(quick: bool) -> Iterator[Goal]:
    """A network of routers, and BookSim with the same routers and load where it is installed."""
    net, traffic, window = MeshSpec(columns=8, rows=8), Traffic(rate=0.2), Window(500, 4000 if quick else 10000, 5000)
    clocks = run_load(net, traffic, window).clocks
    rates = [clocks / _cpu(lambda: run_load(net, traffic, window), 1) / 1e3 for _ in range(REPEATS)]
    peer = booksim_clocks_a_second(net, traffic)
    told = "BookSim is not on the path" if peer is None else f"BookSim: {peer / 1e3:.3g}"
    yield Goal("flit network 8x8, uniform 0.2", Sample(rates), FLIT_GOAL, "k clocks/s", more=True, beside=told)


def kernels(quick: bool) -> Iterator[Goal]:
    """Kernels on 64 PEs with the op log."""
    rows = kernel_rows(quick)
    for name, what in (("loads", "load"), ("dots", "product")):
        yield Goal(f"a kernel's {what} on 64 PEs, logged", rows[f"{name}_logged_us"], 2, "us")


def sends(quick: bool) -> Iterator[Goal]:
    """Messages of collectives."""
    row = send_rows(quick)[-1]
    yield Goal(f"a send between {row.ranks:,} ranks", row.us_a_send, 15, "us")


def sweeps(quick: bool) -> Iterator[Goal]:
    """Beside the runs."""
    row = sweep_row(True)
    yield Goal("overhead of a point of a sweep, 400 points", row.overhead_ms, 0.5, "ms", beside="3.7 before")
    if not quick:
        row = sweep_row(False)
        yield Goal("overhead of a point of a sweep, 10,000 points", row.overhead_ms, 0.5, "ms", beside="1.1 before")


def replay(quick: bool) -> Iterator[Goal]:
    """Phase 2."""
    rows = replay_rows(True)
    yield Goal("replay of single ops, 1,024 cubed", rows["dots_times"], 1.2, "times numpy")


def loads(quick: bool) -> Iterator[Goal]:
    """Programs."""
    (row,) = load_rows((100_000,), 1 if quick else REPEATS)
    yield Goal("a program of 100,000 entries, from JSON to the core", row.plain, 0.5, "s")


def traces(quick: bool) -> Iterator[Goal]:
    """Laws of a trace."""
    rates = []
    for _ in range(1 if quick else REPEATS):
        row = next(one for one in trace_rows(100_000 if quick else 300_000) if one.job == "validate")
        rates.append(row.events_per_second / 1e6)
    yield Goal("trace validate", Sample(rates), 2, "M events/s", more=True)


def starts(quick: bool) -> Iterator[Goal]:
    """Processes."""
    rows = {row.command: row for row in start_rows(3 if quick else 9)}
    value = rows["kbsim run"].seconds - rows["python"].seconds
    yield Goal("kbsim run of 15 entries, over Python's own start", value, 0.15, "s")


def answers(quick: bool) -> Iterator[Goal]:
    """Of interactive commands."""
    for row in answer_rows(1 if quick else REPEATS):
        yield Goal(row.answer, row.ms, row.goal_ms, "ms")


ROWS: dict[str, Callable[[bool], Iterator[Goal]]] = {
    "llm": llm, "points": points, "decode": decode, "wormhole": wormhole, "dram": dram, "flits": flits, "kernels": kernels,
    "sends": sends, "replay": replay, "loads": loads, "traces": traces, "starts": starts, "sweeps": sweeps, "answers": answers,
}  # fmt: skip


def wait_rows(quick: bool = False, only: str = "") -> Iterator[Goal]:
    """All rows, one by one."""
    for name, row in ROWS.items():
        if only in name:
            yield from row(quick)


def main(arguments: list[str] | None = None) -> int:
    """Print the rows as they are measured."""
    parser = argparse.ArgumentParser(prog="python -m tests.speed.wait_rows", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter runs, noisier figures")
    parser.add_argument("--only", default="", metavar="TEXT", help=f"rows with this in their names: {', '.join(ROWS)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write them to FILE")
    chosen = parser.parse_args(arguments)
    found = []
    for row in wait_rows(chosen.quick, chosen.only):
        print(goal_lines([row], columns=ONE_BY_ONE), flush=True)
        found.append(plain(row))
    if chosen.json is not None:
        chosen.json.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
