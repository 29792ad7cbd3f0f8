"""Commands of components, by hand: what a trace says of them, and that it is valid however the run ends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kernbench import NEVER, Component, InputError, Machine, Program, load_config
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace.reader import open_trace
from kernbench.trace.validate import validate
from kernbench_core import EngineType
from tests.contract.test_described import Event, Lines, traced
from tests.contract.test_whole import TWO_SIPS, Part

TE_JOB = (1, 4, 1, 512, 8, 8, 8, 8, 8)  # 6 cycles
OPERANDS = ((0, 64, 0), (1024, 64, 0), (2048, 64, 1))


class Tells(Part):
    """Jobs that it describes, others that it does not; a marker where one starts to wait, and one of its own work."""

    def __init__(self, script: dict[int, Any], **limits: int) -> None:
        super().__init__(script, **({"jobs": 128} | limits))
        self.machine: Any = None

    def add(self, opcode: str, **said: Any) -> int:
        """Describe the job that was submitted last."""
        return int(self.machine.commands.add(self.ids[-1], opcode, **said)) if self.machine.commands is not None else -1

    def accept(self, job: Any, now: int) -> int:
        self.own = job.id
        self.emit(job.id, "taken at", now)
        return NEVER


def kernel(part: Any) -> None:
    """A launch, a load, a product that waits for it, a job that nobody hears of, and a job for the component itself."""
    reach = part.machine.plan.reach
    part.give(EngineType.CPU, 0, (9, 0, 0, 1))
    part.add("LAUNCH")
    part.give(EngineType.COMPONENT, 0, ())
    part.add("KERNEL", unit="sip0.cube0.pe0.pe_cpu", phase="decode")
    part.give(0, 0, (0, 0, 0, 128, 128, 1, *reach.route_to(0, 0, False, 128)), ((0, 128, 1),))
    loaded = part.add("DMA_LOAD_TILE", layer_id=3, marker="line 7")
    part.give(EngineType.TE, 0, TE_JOB, OPERANDS)
    part.add("TE_GEMM_TILE", deps=[loaded], tile_id=5)
    part.emit(part.ids[-1], "waits", 2)
    part.give(EngineType.TE, 0, TE_JOB, OPERANDS)


def told(script: dict[int, Any], level: str = "access", **config: Any) -> tuple[Machine, Tells, list[Event], bytes]:
    part = Tells(script)
    changed = {"schema": "kernbench/system/1", "system": {"sips": 1}, "sip": {"cols": 1}, "cube": {"pes": 2}, **config}
    run = part.machine = Machine(load_config(changed), Program("kernel"), {"sip0.cube0.pe0.pe_cpu": part}, whole=True)
    lines = Lines()
    tracing = run.trace(lines, TraceOptions(level, 64))
    run.run()
    tracing.close()
    return run, part, lines.events(), b"".join(lines)


def check_file(text: bytes, folder: Path) -> None:
    (folder / "trace.jsonl").write_bytes(text)
    report = validate(open_trace(folder / "trace.jsonl"))
    assert report.valid, report.violations


def done(part: Any) -> None:
    part.complete(part.own)


@pytest.mark.parametrize("level", ["summary", "full", "access"])
def test_a_kernel_shows_its_commands(level: str, tmp_path: Path) -> None:
    run, _, events, text = told({0: kernel, 400: done}, level)
    check_file(text, tmp_path)
    queued = [e for e in events if e["event_type"] == "CMD_ENQUEUE"]
    assert queued == [
        {"event_type": "CMD_ENQUEUE", "t_cycle": 0, "cmd_id": 0, "cmd_type": "LAUNCH", "unit": "sip0.cube0.m_cpu", "work": 1},
        {"event_type": "CMD_ENQUEUE", "t_cycle": 0, "cmd_id": 1, "cmd_type": "KERNEL", "unit": "sip0.cube0.pe0.pe_cpu",
         "phase": "decode"},
        {"event_type": "CMD_ENQUEUE", "t_cycle": 0, "cmd_id": 2, "cmd_type": "DMA_LOAD_TILE", "unit": "sip0.cube0.pe0.pe_dma",
         "layer_id": 3, "bytes": 128},
        {"event_type": "CMD_ENQUEUE", "t_cycle": 0, "cmd_id": 3, "cmd_type": "TE_GEMM_TILE",
         "unit": "sip0.cube0.pe0.pe_gemm[0]", "tile_id": 5, "deps": [2], "work": 512},
    ]  # fmt: skip
    issued = [(e["job_id"], e["cmd_id"], e["job_type"]) for e in events if e["event_type"] == "JOB_ISSUE"]
    assert issued == [(0, 0, "LAUNCH"), (1, 1, "KERNEL"), (2, 2, "DMA_READ"), (3, 3, "TE_GEMM")]
    ends = {e["cmd_id"]: e["t_cycle"] for e in events if e["event_type"] == "CMD_END"}
    assert ends == {0: 9, 1: 401, 2: ends[2], 3: 6} and run.cycle == 401
    markers = [(e["t_cycle"], e["cmd_id"], e["marker"]) for e in events if e["event_type"] == "MARKER"]
    assert markers == [(0, 3, "waits=2"), (0, 1, "taken at=0"), (ends[2], 2, "line 7")]
    work = [e for e in events if e["event_type"] == "ENGINE_EVENT" and e["cmd_id"] == 1]
    assert [(e["unit"], e["start_cycle"], e["end_cycle"]) for e in work] == [("sip0.cube0.pe0.pe_cpu", 0, 401)]
    assert run.result().counters["sip0.cube0.pe0.pe_gemm[0]"]["jobs"] == 2  # one that nobody hears of


def test_what_is_open_at_the_end_has_an_end(tmp_path: Path) -> None:
    _, _, events, text = told({0: kernel, 3: lambda part: part.complete(99)})
    check_file(text, tmp_path)
    ends = {e["cmd_id"]: (e["t_cycle"], e["status"]) for e in events if e["event_type"] == "CMD_END"}
    assert events[-1]["status"] == "failed" and ends == dict.fromkeys(range(4), (3, "CANCELLED"))


def test_a_kernel_that_never_ends_is_a_deadlock(tmp_path: Path) -> None:
    _, _, events, text = told({0: kernel})
    check_file(text, tmp_path)
    (error,) = [e for e in events if e["event_type"] == "ERROR"]
    assert error["msg"].endswith("nothing can ever happen again; 1 commands are not complete, the first is command 1 (KERNEL)")
    assert [e["status"] for e in events if e["event_type"] == "CMD_END"].count("DEADLOCK") == 1


def test_a_run_that_is_stopped(tmp_path: Path) -> None:
    _, _, events, text = told({0: kernel, 400: done}, max_cycles=5)
    check_file(text, tmp_path)
    assert events[-1]["status"] == "aborted"
    assert [e["status"] for e in events if e["event_type"] == "CMD_END"] == ["TIMEOUT"] * 4


def test_commands_keep_their_names_where_places_are_taken_again(tmp_path: Path) -> None:
    """Forty loads, one after the other, by a component with room for two."""

    class Loop(Tells):
        def notify(self, notice: int, number: int, now: int) -> int:
            super().notify(notice, number, now)
            if len(self.ids) < 40:
                self.load()
            return NEVER

        def load(self) -> None:
            address = 64 * len(self.ids)
            way = self.machine.plan.reach.route_to(0, address, False, 64)
            self.give(0, 0, (0, 0, address, 64, 64, 1, *way), ((64 * (len(self.ids) % 4), 64, 1),))
            self.add("DMA_LOAD_TILE", tile_id=len(self.ids) - 1)

    part = Loop({0: lambda part: part.load()}, jobs=2)
    run = part.machine = Machine(load_config(TWO_SIPS), Program("loop"), {"loop": part}, whole=True)
    lines = Lines()
    tracing = run.trace(lines, TraceOptions("full", 64))
    run.run()
    tracing.close()
    check_file(b"".join(lines), tmp_path)
    starts = [(e["cmd_id"], e["src_addr"], e["t_cycle"]) for e in lines.events() if e["event_type"] == "DMA_START"]
    assert starts == [(k, 64 * k, start) for k, (_, start, _) in enumerate(part.log)] and len(starts) == 40


def test_energy_of_what_components_submit_is_counted_untold_too() -> None:
    """A TE job of 512 MACs on 4-bit weights, 192 B of operands; a load of 128 B: once at the scratchpad, once a channel."""
    energy = {"mac_pj": {8: 2, 4: 1}, "spm_pj_per_byte": 3, "dram_pj_per_byte": 5}

    def act(part: Part) -> None:
        part.give(1, 0, (*TE_JOB[:7], 4, 8), OPERANDS)
        part.give(0, 0, (0, 0, 0, 128, 128, 1), ((0, 128, 1),))

    part = Part({0: act})
    run = Machine(load_config({"energy": energy}), Program("none"), {"part": part})
    run.run()
    found = run.result().metrics["energy_pj"]
    assert (found["mac"], found["spm"], found["dram"]) == (512.0, 3.0 * (192 + 128), 5.0 * 128)


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ({"opcode": "KERNEL"}, "is told as KERNEL, and events of a component need a unit, the name of the component that"),
        ({"opcode": "KERNEL", "unit": "pe"}, "there is no component pe: there is sip0.cube0.pe0.pe_cpu"),
        ({"opcode": "KERNEL", "lable": 1}, "a command has no lable: there is block_id, core_id,"),
    ],
)
def test_a_command_that_says_too_little_is_refused(said: dict[str, Any], message: str, tmp_path: Path) -> None:
    def act(part: Any) -> None:
        part.give(EngineType.VE, 0, (0, 9, 0, 1))
        part.give(EngineType.COMPONENT, 0, ())
        part.add(**said)

    run, _, _, text = told({0: act})
    check_file(text, tmp_path)
    failure = run.result().failure
    assert failure is not None and message in failure["message"]


def test_a_product_without_its_sizes_is_no_command(tmp_path: Path) -> None:
    def act(part: Any) -> None:
        part.give(EngineType.TE, 0, (0, 9, 0, 1))
        part.add("TE_GEMM_TILE")

    run, _, _, text = told({0: act})
    check_file(text, tmp_path)
    failure = run.result().failure
    assert failure is not None and "events of a te need its m, n, k" in failure["message"]


def test_a_run_with_told_commands_is_in_no_checkpoint() -> None:
    part = in_python_saved()
    run = Machine(load_config({}), Program("none"), {"part": part})
    part.commands = run.keep_commands()
    run.step(1)
    with pytest.raises(InputError, match="a checkpoint cannot hold commands that components described"):
        run.snapshot()


def in_python_saved() -> Any:
    """A component that can be saved."""

    class Saved(Component):
        commands: Any = None

        def step(self, now: int) -> int:
            self.commands.add(self.submit(EngineType.VE, 0, (0, 9, 0, 1, 9, 1)), "VE_EXP_TILE")
            return NEVER

        def snapshot(self) -> bytes:
            return b""

        def restore(self, image: bytes) -> None:
            pass

    return Saved()


def test_told_commands_are_seen_by_name() -> None:
    part = in_python_saved()
    run = Machine(load_config({}), Program("none"), {"part": part})
    part.commands = run.keep_commands()
    run.step(3)
    seen = {engine.name: engine for engine in run.peek().engines}
    assert (seen["ve0"].entry, seen["ve0"].opcode) == (0, "VE_EXP_TILE")


def broken(level: str, seed: int) -> bytes:
    """Loads of a few PEs, the run cut off at some cycle, where a component fails as it submits and describes."""

    def act(part: Any) -> None:
        for pe in (0, 1, 0):
            address = 4096 * len(part.ids)
            way = part.machine.plan.reach.route_to(pe, address, False, 256)
            part.give(0, pe, (0, 0, address, 256, 256, 1, *way), ((256 * pe, 256, 1),))
            part.add("DMA_LOAD_TILE")
        part.give(EngineType.TE, 0, TE_JOB, OPERANDS)

    def fails(part: Any) -> None:
        act(part)
        raise RuntimeError("on purpose")

    script = {at: act for at in range(0, 60, 3) if at < seed}
    return told({**script, seed: fails}, level)[3]


@pytest.mark.parametrize("level", ["summary", "access"])
@pytest.mark.parametrize("seed", range(0, 60, 7))
def test_a_trace_is_valid_wherever_a_component_fails(level: str, seed: int, tmp_path: Path) -> None:
    check_file(broken(level, seed), tmp_path)


def test_what_is_submitted_at_the_end_of_a_window_is_of_the_next() -> None:
    """A VE job of 64 cycles; in the P7 of cycle 63, the last of a window, another: it is queued in cycle 64."""

    class Again(Tells):
        def notify(self, notice: int, number: int, now: int) -> int:
            super().notify(notice, number, now)
            if now == 63:
                self.give(EngineType.VE, 0, (0, 64, 0, 1))
            return NEVER

    part = Again({0: lambda part: part.give(EngineType.VE, 0, (0, 64, 0, 1))})
    run = Machine(load_config({}), Program("none"), {"part": part})
    events = traced(run, "summary")
    assert run.cycle == 128 and not [e for e in events if e["event_type"] == "QUEUE_SAMPLE"]
