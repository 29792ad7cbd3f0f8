"""`GraphEngine` as seed ADR-0020 D10 writes it: Phase 1 by itself, Phase 2 from the op log."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from kernbench import load_config
from kernbench.common.errors import InputError
from kernbench.runtime_api import Context, DPPolicy, bench
from kernbench.runtime_api.discovery import load_bench
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.engine import GraphEngine, KernelFailed
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.topology.builder import build_topology

ONE_PE = DPPolicy(sips=1, cubes=1, pes=1)


def double(x: Any, out: Any, tl: Any) -> None:
    tl.store(out, tl.load(x, x.shape, x.dtype) * 2)


def twice(values: Any, **options: Any) -> Any:
    """A bench that doubles `values` on the first PE, and does what `options` say."""

    @bench(name="twice", description="out = 2 x")
    def run(ctx: Context) -> None:
        x = ctx.from_numpy(values, name="x", placement=ONE_PE)
        out = ctx.empty(values.shape, "f32", name="out", placement=ONE_PE)
        ctx.deploy_tensor(x, through=options.get("through", "instant"))
        ctx.launch("double", double, x, out, pes=1)
        for after in options.get("then", ()):
            after(ctx, x, out)

    return run


VALUES = np.arange(64, dtype=np.float32)


def test_it_runs_as_the_decision_record_writes_it() -> None:
    engine = GraphEngine(build_topology(load_config("single_cube")))
    engine.run(twice(VALUES))
    result = engine.get_timing_result()
    assert (result.status, result.cycles) == ("done", result.result.cycles)
    assert [one.name for one in result.launches] == ["double"] and list(result.launches[0].pes) == ["sip0.cube0.pe0"]
    executor = DataExecutor(engine.op_log)
    executor.run()
    assert executor.verify(VALUES * 2).ok
    assert not executor.verify(VALUES * 3).ok


@pytest.mark.parametrize("graph", ["single_cube", "npu_mobile"])
def test_cycles_are_the_same_with_and_without_an_op_log(graph: str) -> None:
    engines = GraphEngine(graph), GraphEngine(graph, op_log=False), GraphEngine(graph, limit_bytes=1000)
    first, *others = (engine.run(load_bench("softmax"), rows=40, columns=64) for engine in engines)
    assert all((one.cycles, one.launches) == (first.cycles, first.launches) for one in others)
    assert engines[1].op_log is None and len(engines[0].op_log or ()) == len(engines[2].op_log or ()) > 0


def test_timing_alone_imports_nothing_of_phase_2() -> None:
    code = (
        "import sys\n"
        "from kernbench.runtime_api.discovery import load_bench\n"
        "from kernbench.sim_engine.engine import GraphEngine\n"
        "for op_log in (False, True):\n"
        "    GraphEngine('single_cube', op_log=op_log).run(load_bench('reduce'), rows=16, columns=16)\n"
        "print([name.rpartition('.')[2] for name in sorted(sys.modules) if name.startswith('kernbench.sim_engine.')])\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    loaded = eval(said.stdout)
    assert "memory_store" in loaded and "op_log" in loaded
    phase_2 = ("data_executor", "verify", "op_blame", "op_ranges", "replay_")
    # Integers that are known are computed at once, by the arithmetic of Phase 2.
    assert [name for name in loaded if name.startswith(phase_2) and name != "replay_math"] == []


def test_results_can_be_looked_at_between_launches() -> None:
    seen = []

    def look(ctx: Context, x: Any, out: Any) -> None:
        seen.append(ctx.to_numpy(out).copy())
        ctx.deploy_tensor(x)
        ctx.launch("again", double, out, x, pes=1)
        seen.append(ctx.to_numpy(x).copy())

    engine = GraphEngine("single_cube")
    result = engine.run(twice(VALUES, then=[look]))
    assert np.array_equal(seen[0], VALUES * 2) and np.array_equal(seen[1], VALUES * 4)
    first, second = result.launches
    assert first.end is not None and second.issued >= first.end and second.issued < second.start


#: [cycle] before bytes move from the host: HBM setup 120, endpoint 100, PCIe 150 and 2 for 300 mm, 15 from there to the slice.
HOST_HEAD = 120 + 100 + 152 + 15


@pytest.mark.parametrize(
    ("elements", "moving"),
    [
        (16, 2),  # 64 bytes are on one channel, at the 63 bytes per cycle of PCIe
        (1 << 14, 1041),  # 64 KiB are on two, each at 31.5: 32768 / 31.5 = 1040.3
        (1 << 15, 2081),  # 65536 / 31.5 = 2080.5
    ],
)
def test_pcie_takes_its_time_and_brings_the_same(elements: int, moving: int) -> None:
    values = np.arange(elements, dtype=np.float32)
    at_once, by_pcie = (GraphEngine("single_cube") for _ in range(2))
    plain = at_once.run(twice(values))
    slow = by_pcie.run(twice(values, through="pcie"))
    assert (plain.launches[0].issued, slow.launches[0].issued) == (0, HOST_HEAD + moving)
    assert DataExecutor(by_pcie.op_log).run().verify(values * 2).ok
    assert slow.launches[0].cycles == plain.launches[0].cycles


def test_what_a_bench_refuses_comes_back_as_it_is() -> None:
    def refuse(ctx: Context, x: Any, out: Any) -> None:
        ctx.synchronize()
        ctx.zeros((2,), name="x")

    with pytest.raises(InputError, match="tensor x: a tensor of that name already exists"):
        GraphEngine("single_cube").run(twice(VALUES, then=[refuse]))


def test_what_a_kernel_raises_is_its_cause() -> None:
    def fail(tl: Any) -> None:
        tl.wait()
        raise ZeroDivisionError("on purpose")

    with pytest.raises(KernelFailed, match="ZeroDivisionError: on purpose") as error:
        GraphEngine("single_cube").run(twice(VALUES, then=[lambda ctx, x, out: ctx.launch("fail", fail, pes=1)]))
    assert isinstance(error.value.__cause__, ZeroDivisionError) and error.value.exit_code == 5
    lines = error.value.traceback.splitlines()
    assert lines[1].endswith("in fail") and lines[-2] == "ZeroDivisionError: on purpose"
    assert lines[-1].startswith("in program 0 of fail on sip0.cube0.pe0, cycle ")


def test_a_breakpoint_stops_in_the_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    stops = []

    def stopping(x: Any, tl: Any) -> None:
        values = tl.load(x, x.shape, x.dtype)
        breakpoint()
        assert values[1] == 1

    def hook() -> None:
        frame = sys._getframe(1)
        stops.append((frame.f_code.co_name, frame.f_locals["values"].shape, engine.machine.cycle))

    monkeypatch.setattr(sys, "breakpointhook", hook)
    engine = GraphEngine("single_cube")
    engine.run(twice(VALUES, then=[lambda ctx, x, out: ctx.launch("stopping", stopping, x, pes=1)]))
    ((name, shape, cycle),) = stops
    start = engine.get_timing_result().launches[1].start
    assert (name, shape) == ("stopping", (64,)) and start is not None and cycle > start


def test_nothing_is_known_before_a_run() -> None:
    with pytest.raises(ValueError, match="nothing has been run yet"):
        GraphEngine("single_cube").get_timing_result()


def test_the_machine_can_be_stepped() -> None:
    engine = GraphEngine("single_cube")
    machine = engine.prepare(twice(VALUES))
    machine.step(500)
    assert machine.cycle == 500 and engine.get_timing_result().status == "running"
    machine.run()
    assert engine.get_timing_result().cycles == GraphEngine("single_cube").run(twice(VALUES)).cycles


def test_tensors_after_the_first_launch_are_in_the_log() -> None:
    engine = GraphEngine("single_cube")
    later: list[Any] = []

    def more(ctx: Context, x: Any, out: Any) -> None:
        y = ctx.from_numpy(VALUES + 1, name="y", placement=ONE_PE)
        ctx.launch("more", double, y, out, pes=1)
        later.append(y)

    engine.run(twice(VALUES, then=[more]))
    assert engine.op_log is not None and isinstance(engine.op_log.initial_store, MemoryStore)
    written = [record for record in engine.op_log if record.op_name == "memory_write"]
    assert [record.params["dst_addr"] for record in written] == [later[0].parts[0].physical]
    assert DataExecutor(engine.op_log).run().verify((VALUES + 1) * 2).ok
