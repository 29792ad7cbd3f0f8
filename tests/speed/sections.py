"""What `make bench` measures, section by section: each prints its table and returns its goals, its ratios and its figures."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from tests.speed.build_rows import build_goals, build_row, build_table
from tests.speed.ccl_rows import ccl_goals, ccl_rows, ccl_table, send_goals, send_rows, send_table
from tests.speed.check_rows import check_goals, check_rows, check_table
from tests.speed.component_rows import component_goals, component_rows, component_table
from tests.speed.goals import ONE_BY_ONE, Goal, goal_lines
from tests.speed.growth_rows import growth_goals, growth_rows, growth_table, memory_rows
from tests.speed.instructions import instruction_goals, instruction_rows, instruction_table
from tests.speed.kernel_rows import kernel_goals, kernel_rows, kernel_table
from tests.speed.llm_rows import llm_goals, llm_row, llm_table
from tests.speed.measure import Size
from tests.speed.replay_rows import replay_goals, replay_rows, replay_table
from tests.speed.report_rows import report_goals, report_rows, report_table
from tests.speed.sample import plain
from tests.speed.serving_rows import serving_goals, serving_rows, serving_table
from tests.speed.skip_rows import skip_goals, skip_rows, skip_table, yard_goals, yard_table, yardsticks
from tests.speed.start_rows import load_rows, load_table, start_goals, start_rows, start_table
from tests.speed.step_rows import HEAD, step_goals, step_line, step_rows
from tests.speed.sweep_rows import sweep_goals, sweep_row, sweep_table
from tests.speed.thread_rows import thread_goals, thread_rows, thread_table
from tests.speed.topology_rows import topology_goals, topology_rows, topology_table
from tests.speed.trace_rows import trace_goals, trace_rows, trace_table
from tests.speed.traced_runs import traced_goals, traced_runs, traced_table
from tests.speed.wait_rows import wait_rows
from tests.speed.walk_rows import model_lines, walk_goals, walk_rows, walk_table


@dataclass
class Finding:
    """What a section has found."""

    goals: list[Goal] = field(default_factory=list)
    report: dict[str, Any] = field(default_factory=dict)  #: plain JSON types
    ratios: dict[str, float] = field(default_factory=dict)  #: of two measurements of this run: kept in the history


@dataclass(frozen=True)
class Section:
    """A part of the bench that can be measured by itself."""

    name: str
    title: str
    measure: Callable[[bool], Finding]  #: the argument asks for shorter runs
    long_only: bool = False  #: left out of short benches


def _shown(table: str, goals: list[Goal], report: dict[str, Any], ratios: dict[str, float] | None = None) -> Finding:
    print("\n".join(text for text in (table, goal_lines(goals)) if text), flush=True)
    return Finding(goals, report, ratios or {})


def _rows(rows: Any) -> list[dict[str, Any]]:
    return [plain(row) for row in rows]


def _stepping(quick: bool) -> Finding:
    print(HEAD)
    rows = []
    for row in step_rows(quick):
        rows.append(row)
        print(step_line(row), flush=True)
    ratios: dict[str, float] = {}
    for row in rows:
        ratios[f"{row.load}, {row.pes} PEs: SimPy over stepping"] = float(row.over_simpy)
        ratios[f"{row.load}, {row.pes} PEs: stepping over skipping"] = float(row.over_stepping)
    return _shown("", step_goals(rows), {"rows": [row.to_dict() for row in rows]}, ratios)


def _walks(quick: bool) -> Finding:
    rows, lines = walk_rows(quick), model_lines()
    ratios = {f"{row.load}, {row.pes} PEs: the plain model over skipping": float(row.over_skipping) for row in rows}
    return _shown(walk_table(rows, lines), walk_goals(rows), {"walks": _rows(rows), "model_lines": lines.files}, ratios)


def _skipping(quick: bool) -> Finding:
    rows = skip_rows(3 if quick else 7)
    ratios = {f"{row.load}: stepping over skipping": float(row.ratio) for row in rows}
    return _shown(skip_table(rows), skip_goals(rows), {"skipping": _rows(rows)}, ratios)


def _yardstick(quick: bool) -> Finding:
    rows = yardsticks(Size(8, 20_000, 0, 3 if quick else 7))
    ratios = {f"{row.load}: stepping over a C loop": float(row.ratio) for row in rows}
    return _shown(yard_table(rows), yard_goals(rows), {"yardstick": _rows(rows)}, ratios)


def _growth(quick: bool) -> Finding:
    rows, memory = growth_rows(quick), memory_rows()
    report = {"growth": _rows(rows), "memory": _rows(memory)}
    return _shown(growth_table(rows, memory), growth_goals(rows, memory), report)


def _starts(quick: bool) -> Finding:
    rows = start_rows(5 if quick else 15)
    return _shown(start_table(rows), start_goals(rows), {"starts": _rows(rows)})


def _loads(quick: bool) -> Finding:
    rows = load_rows((1_000, 10_000) if quick else (1_000, 100_000, 1_000_000), 1 if quick else 3)
    return _shown(load_table(rows), [], {"loads": _rows(rows)})


def _systems(quick: bool) -> Finding:
    rows = topology_rows()
    return _shown(topology_table(rows), topology_goals(rows), {"systems": _rows(rows)})


def _llm(quick: bool) -> Finding:
    rows = [llm_row()] if quick else [llm_row(), llm_row(reuse=False)]
    return _shown(llm_table(rows), llm_goals(rows), {"llm": _rows(rows)})


def _components(quick: bool) -> Finding:
    rows = component_rows(200_000 if quick else 2_000_000)
    return _shown(component_table(rows), component_goals(rows), {"components": _rows(rows)})


def _checks(quick: bool) -> Finding:
    rows = check_rows(2 if quick else 5)
    return _shown(check_table(rows), check_goals(rows), {"checks": _rows(rows)})


def _kernels(quick: bool) -> Finding:
    rows = kernel_rows(quick)
    return _shown(kernel_table(rows), kernel_goals(rows), {"kernels": rows})


def _replay(quick: bool) -> Finding:
    rows = replay_rows(quick)
    return _shown(replay_table(rows), replay_goals(rows), {"replay": rows})


def _threads(quick: bool) -> Finding:
    rows = thread_rows(quick)
    return _shown(thread_table(rows), thread_goals(rows), {"threads": _rows(rows)})


def _sweep(quick: bool) -> Finding:
    row = sweep_row(quick)
    return _shown(sweep_table(row), sweep_goals(row), {"sweep": plain(row)})


def _collectives(quick: bool) -> Finding:
    rows = ccl_rows(quick)
    return _shown(ccl_table(rows), ccl_goals(rows), {"collectives": _rows(rows)})


def _sends(quick: bool) -> Finding:
    rows = send_rows(quick)
    return _shown(send_table(rows), send_goals(rows), {"sends": _rows(rows)})


def _serving(quick: bool) -> Finding:
    rows, beside = serving_rows(quick)
    report = [*_rows(rows), {"engine_s": beside[0], "simpy_s": beside[1]}]
    return _shown(serving_table(rows, beside), serving_goals(rows), {"serving": report})


def _build(quick: bool) -> Finding:
    row = build_row()
    return _shown(build_table(row), build_goals(row), {"builds": [plain(row)]})


def _instructions(quick: bool) -> Finding:
    rows = instruction_rows()
    return _shown(instruction_table(rows), instruction_goals(rows), {"instructions": _rows(rows)})


def _traced(quick: bool) -> Finding:
    runs = traced_runs(3 if quick else 7)
    ratios = {f"traced at {run.level}: over untraced": float(run.over_off) for run in runs[1:]}
    return _shown(traced_table(runs), traced_goals(runs), {"traced": _rows(runs)}, ratios)


def _traces(quick: bool) -> Finding:
    rows = trace_rows(200_000 if quick else 2_000_000)
    return _shown(trace_table(rows), trace_goals(rows), {"traces": _rows(rows)})


def _page(quick: bool) -> Finding:
    page = report_rows(quick)
    return _shown(report_table(page), report_goals(page), {"page": page})


def _waits(quick: bool) -> Finding:
    goals = []
    for goal in wait_rows(quick):
        print(goal_lines([goal], columns=ONE_BY_ONE), flush=True)
        goals.append(goal)
    return Finding(goals, {"waits": _rows(goals)})


SECTIONS = (
    Section("stepping", "stepping, skipping and SimPy, ns of CPU time per engine-tick", _stepping),
    Section("walks", "the plain model beside the fast walk, ns of CPU time per engine-tick", _walks),
    Section("skipping", "skipping, where it is of use", _skipping),
    Section("yardstick", "stepping beside a minimal C loop, 8 PEs, ns of CPU time per engine-tick", _yardstick),
    Section("growth", "time and memory as machines and programs grow", _growth),
    Section("starts", "commands, from their start to their end", _starts),
    Section("loads", "programs, from a file to the tables of the core", _loads),
    Section("systems", "systems, and all routes within their first SIP", _systems),
    Section("llm", "Llama-2-7B, 128 tokens of prompt and 16 decoded", _llm),
    Section("components", "components: CPU time beyond that of a run without them", _components),
    Section("checks", "conservation laws at the end of a run", _checks),
    Section("kernels", "kernels", _kernels),
    Section("replay", "Phase 2: the replay of the op log", _replay),
    Section("threads", "threads: elapsed time of one thread over that of two", _threads),
    Section("sweep", "a sweep", _sweep),
    Section("collectives", "collectives: CPU time of an all-reduce of f16", _collectives),
    Section("sends", "sends, by the number of ranks", _sends),
    Section("serving", "kbsim serve", _serving),
    Section("instructions", "instructions of one more op, counted by callgrind", _instructions, long_only=True),
    Section("traced", "the decode run of Llama-2-7B on npu_server with a trace", _traced),
    Section("traces", "reading and checking a long trace", _traces),
    Section("page", "the page of a long trace in a browser", _page),
    Section("waits", "what users wait for", _waits, long_only=True),
    Section("build", "a clean build, CPU time", _build, long_only=True),
)


def chosen_sections(only: str, quick: bool) -> Iterator[Section]:
    """Those with `only` in their names; a short bench leaves some out unless `only` asks for them."""
    for section in SECTIONS:
        if only in section.name and (only or not (quick and section.long_only)):
            yield section
