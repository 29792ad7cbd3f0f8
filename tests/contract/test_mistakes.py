"""What components do wrong: refused before cycle 0, or the end of the run; and what a trace of that looks like."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from kernbench import InputError, Machine
from kernbench.components import load_component
from kernbench.components.registry import make_component
from kernbench.sim_engine.recording import TraceOptions
from kernbench.trace import open_trace
from kernbench.trace.validate import validate
from kernbench_core import BUSY, NEVER, Component, EngineType
from tests.contract import engines as in_python
from tests.contract.compiled import engines
from tests.contract.runs import gemm, load, machine, new, program

in_c = engines()
needs_c = pytest.mark.skipif(in_c is None, reason="there is no C compiler")
TE = EngineType.TE
TESTS = Path(__file__).parents[1]


class Wrong(in_python.Fixed):
    """Does one thing wrong in cycle 3."""

    def __init__(self, what: Callable[[Any], Any], at: int = 3) -> None:
        super().__init__()
        self.what, self.at = what, at

    def step(self, now: int) -> int:
        if now != self.at:
            super().step(now)
            return min(now + 1, self.at) if now < self.at else NEVER
        answer = self.what(self)
        return answer if isinstance(answer, int) else NEVER


MISTAKES: dict[str, tuple[Callable[[Any], Any], str]] = {
    "an unknown job": (lambda c: c.complete(77), "job 77 is none that it has accepted and not completed"),
    "a job twice": (lambda c: [c.complete(c.job) for _ in range(2)], "job 0 is none that it has accepted and not completed"),
    "the past": (lambda c: 3, "it wants to run in cycle 3, which is not after cycle 3"),
    "no cycle": (lambda c: -7, "a callback returned -7: it must be the next cycle to run in, or KB_NEVER"),
    "no bank": (
        lambda c: c.ask_banks(reads=[1, 16]),
        "it asks for bank 16, which the scratchpad does not have (-1: for none at all)",
    ),
    "no banks": (lambda c: c.ask_banks(), "it asks for bank -1, which the scratchpad does not have (-1: for none at all)"),
    "no scratchpad": (lambda c: c.ask_banks(1, reads=[0]), "it asks scratchpad 1 for banks, which the machine does not have"),
    "no engine": (lambda c: c.submit(TE, 2), "it submits a job to engine 1:2, which the machine does not have"),
    "no length": (lambda c: c.submit(TE, 1, params=(0, 0, 0, 0)), "it submits a job with a wrong params[1]"),
    "no parameters": (lambda c: c.submit(TE, 1), "it submits a job with a wrong number of parameters or regions"),
    "no room for it": (
        lambda c: c.submit(TE, 1, params=(0, 1, 0, 0), regions=((16 * 1024 - 63, 64, 0),)),
        "it submits a job with a wrong region[0]",
    ),
    "nobody's flow": (lambda c: c.close_flow(5), "flow 5 is none that it has opened and that is still open"),
    "no bytes": (lambda c: c.open_flow(0, [0]), "a flow of 0 bytes: it must be 1 to 2**48"),
    "no resource": (
        lambda c: c.open_flow(8, [2]),
        "a flow over resource 2: a path has 1 to 64 different resources of the machine, "
        "one DRAM channel at most under fifo_v1, none under row_buffer_v1 and row_buffer_v2",
    ),
    "no weight": (
        lambda c: c.open_flow(8, [0], weight=0),
        "a flow of weight 0: it must be 1 or more, and products with capacities stay below 2**31",
    ),
    "no name": (lambda c: c.emit(c.job, "", 1), "an event's name has 1 to 48 bytes, with the 0 at its end"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_a_mistake_ends_the_run(name: str) -> None:
    what, sentence = MISTAKES[name]
    for skip in (True, False):
        run = new(machine(), program(gemm()), lambda: {"te0": Wrong(what)})
        run.run(skip=skip)
        failure = run.result().failure
        assert (run.status, run.cycle) == ("failed", 3) and failure is not None
        assert failure["message"] == f"cycle 3: component te0 (tests.contract.test_mistakes:Wrong) failed: {sentence}"


def test_an_exception_names_component_and_cycle_and_keeps_its_traceback() -> None:
    def broken(component: Any) -> int:
        raise KeyError("weights")

    run = new(machine(), program(gemm()), lambda: {"te0": Wrong(broken)})
    run.run()
    result = run.result()
    assert result.failure is not None
    assert result.failure["message"] == (
        "cycle 3: component te0 (tests.contract.test_mistakes:Wrong) failed: KeyError: 'weights'"
    )
    assert re.search(r'File ".*test_mistakes\.py", line \d+, in broken\n', result.failure["traceback"])
    assert result.failure["component"] == "te0" and result.failure["cycle"] == 3 and result.cycles == 3


def test_keyboard_interrupt_is_no_failure() -> None:
    def interrupted(component: Any) -> int:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        new(machine(), program(gemm()), lambda: {"te0": Wrong(interrupted)}).run()


def test_a_method_that_returns_nothing_is_told() -> None:
    class Silent(Component):
        def step(self, now: int) -> int:
            return None  # type: ignore[return-value]

    run = new(machine(), program(gemm()), lambda: {"watch": Silent()})
    run.run()
    failure = run.result().failure
    assert failure is not None and failure["message"].endswith(
        "failed: TypeError: Silent.step returned None: it must be the next cycle to run in, or NEVER"
    )


@pytest.mark.parametrize("level", ["summary", "full", "access"])
@pytest.mark.parametrize("where", ["step", "accept", "notify"])
def test_the_trace_of_a_failed_run_is_valid(tmp_path: Any, level: str, where: str) -> None:
    class Fails(in_python.Fixed):
        def step(self, now: int) -> int:
            if now == 0:
                self.open_flow(40, [0])
            if now == 5 and where == "step":
                raise ValueError("step")
            return super().step(now) if now else 5

        def accept(self, job: Any, now: int) -> int:
            if where == "accept" and now:
                raise ValueError("accept")
            return super().accept(job, now)

        def notify(self, notice: int, number: int, now: int) -> int:
            if where == "notify":
                raise ValueError("notify")
            return NEVER

    queue = program(gemm(), load(), load(dram_addr=8192, num_elements=900), gemm(deps_before=[0]), gemm(te_id=1))
    run = new(machine(), queue, lambda: {"te0": Fails()})
    path = tmp_path / "failed.jsonl"
    with path.open("wb") as file:
        tracing = run.trace(file, TraceOptions(level=level, window=4))
        run.run()
        tracing.close()
    assert run.status == "failed"
    report = validate(open_trace(path))
    assert report.valid, report
    text = path.read_text()
    assert '"code":"COMPONENT"' in text and '"component":"te0"' in text and '"impl":"tests.contract' in text


@pytest.mark.parametrize(
    ("components", "message"),
    [
        ({"te2": in_python.Fixed}, 'components: name = "te2", but the machine has no such engine: it has dma0, te0, te1, ve0'),
        ({"te0": object}, "is not a component: it must be an object of a class derived from Component, or a PyCapsule named"),
    ],
)
def test_what_cannot_be_plugged_in_is_refused(components: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        new(machine(), program(gemm()), lambda: {name: make() for name, make in components.items()})


def test_a_component_belongs_to_one_machine() -> None:
    part = in_python.Fixed()
    new(machine(), program(gemm()), lambda: {"te0": part})
    with pytest.raises(InputError, match="this Fixed is in a machine already: make one for each"):
        new(machine(), program(gemm()), lambda: {"te0": part})


@needs_c
def test_lies_about_the_abi_are_refused() -> None:
    assert in_c is not None
    size = in_c.OPS_SIZE
    cases = {
        (2, size): "its kb_engine_ops is of ABI version 2, this core's is 1: build it against the abi.h of",
        (1, size - 8): f"its kb_engine_ops has struct_size {size - 8}, this core's has {size}: set it to sizeof(kb_engine_ops)",
        (1, size, -1): "its kb_engine_ops has jobs = -1: it must be 0 to 1048576",
    }
    for lie, message in cases.items():
        with pytest.raises(InputError, match=re.escape(message)):
            new(machine(), program(gemm()), lambda lie=lie: {"te0": in_c.liar(*lie)})  # type: ignore[misc]
    with pytest.raises(InputError, match="is not a component"):
        new(machine(), program(gemm()), lambda: {"te0": in_c})


@needs_c
def test_one_that_takes_no_jobs_is_found_out() -> None:
    assert in_c is not None
    run = new(machine(), program(gemm()), lambda: {"te0": in_c.sleeper(0)})
    run.run()
    failure = run.result().failure
    assert failure is not None and failure["message"].endswith("it is given job 0, but takes no jobs (accept is NULL)")


@needs_c
def test_one_without_snapshot_cannot_be_saved(tmp_path: Any) -> None:
    assert in_c is not None
    run = new(machine(), program(gemm()), lambda: {"watch": in_c.sleeper(7)})
    with pytest.raises(InputError, match="component Sleeper has no snapshot: a run with it cannot be saved"):
        run.save(tmp_path / "x.ckpt")


def test_a_job_that_nobody_ends_is_a_deadlock() -> None:
    """It is accepted in cycle 0, and nothing can act in cycle 1."""

    class Lazy(Component):
        def step(self, now: int) -> int:
            return NEVER

        def accept(self, job: Any, now: int) -> int:
            return NEVER if job.entry == 0 else BUSY

    for skip in (True, False):
        run = new(machine(), program(gemm(), gemm()), lambda: {"te0": Lazy()})
        run.run(skip=skip)
        assert (run.status, run.cycle) == ("deadlock", 1)
        assert run.result().waiting == [
            {"id": 0, "opcode": "TE_GEMM_TILE", "waits_for": [], "since": 0, "reason": "component te0"},
            {"id": 1, "opcode": "TE_GEMM_TILE", "waits_for": [], "since": 0, "reason": "component te0"},
        ]


@pytest.mark.parametrize(
    ("impl", "message"),
    [
        ("engines", 'components: impl = "engines", but it is not the name of a class'),
        ("no.such:Class", "the module no is not installed, and no path of --allow-code contains it; give --allow-code PATH"),
        ("tests.contract.engines:Missing", "tests.contract.engines has no class Missing"),
        ("tests.contract.engines:bits", "tests.contract.engines has no class bits"),
        ("kernbench:InputError", "it is not a component: it has no step or no Spec; derive it from kernbench.Component"),
        (
            "pathlib:Path",
            "it is a module of Python itself, which cannot be allowed; name a module of your own, and pass --allow-code",
        ),
    ],
)
def test_a_class_that_is_none_is_refused(impl: str, message: str) -> None:
    with pytest.raises(InputError, match=re.escape(message)):
        load_component(impl, allow_code=TESTS)


def test_a_component_is_made_by_name() -> None:
    made = make_component("tests.contract.engines:Fixed", {"latency": 9}, allow_code=TESTS)
    assert made.spec.latency == 9 and Component.kinds["fixed"] is type(made) and type(made).kind == "fixed"
    with pytest.raises(InputError, match=r"tests.contract.engines:Fixed does not take these parameters: .*'speed'"):
        make_component("tests.contract.engines:Fixed", {"speed": 9}, allow_code=TESTS)


@pytest.mark.parametrize(("saved", "taken_up"), [("plain", "fast"), ("fast", "plain")])
def test_a_checkpoint_is_taken_up_by_the_other_walk(saved: str, taken_up: str, tmp_path: Any, monkeypatch: Any) -> None:
    queue = program(gemm(), gemm())
    monkeypatch.setenv("KERNBENCH_WALK", saved)
    run = new(machine(), queue, lambda: {"te0": in_python.Fixed(latency=20)})
    run.step(30)
    run.save(tmp_path / "x.ckpt")
    monkeypatch.setenv("KERNBENCH_WALK", taken_up)
    again = new(machine(), queue, lambda: {"te0": in_python.Fixed(latency=20)})
    again.load(tmp_path / "x.ckpt")
    again.run()
    assert (run.walk, again.walk, again.cycle) == (saved, taken_up, 40)


def test_a_checkpoint_asks_for_the_same_components(tmp_path: Any) -> None:
    queue = program(gemm(), gemm())
    run = new(machine(), queue, lambda: {"te0": in_python.Fixed(latency=20)})
    run.step(30)
    run.save(tmp_path / "x.ckpt")
    again = new(machine(), queue, lambda: {"te0": in_python.Fixed(latency=20)})
    again.load(tmp_path / "x.ckpt")
    again.run()
    assert again.cycle == 40
    other: Machine = new(machine(), queue, dict)
    with pytest.raises(InputError, match="the checkpoint is of a machine with other components"):
        other.load(tmp_path / "x.ckpt")
