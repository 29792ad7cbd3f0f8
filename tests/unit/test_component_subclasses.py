"""Classes derived from the built-in components, each with an override that changes nothing, in the place of these."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kernbench.components.builtin
from kernbench.ccl import dist
from kernbench.components.base import ComponentBase
from kernbench.components.parts import BUILT_IN
from kernbench.config import load_config
from kernbench.runtime_api import Context, DPPolicy
from kernbench.runtime_api.bench import Bench
from kernbench.sim_engine.data_executor import DataExecutor
from kernbench.sim_engine.engine import GraphEngine, KernelFailed

OVERRIDES = {"pe_cpu": "placed", "pe_scheduler": "issue", "pe_fetch_store": "passed", "pe_ipcq": "ended"}
MINE = """
from {module} import {name}


class Mine({name}):
    \"\"\"Counts calls.\"\"\"

    calls = 0

    def {method}(self, *args):
        Mine.calls += 1
        return super().{method}(*args)
"""
VALUES = np.arange(1024, dtype=np.float32).reshape(32, 32)


def product(x: Any, out: Any, tl: Any) -> None:
    tile = tl.ref(x, x.shape, x.dtype)
    tl.composite("gemm", tile, tile, out, out_dtype="f32", tile=(16, 16, 16))
    tl.store(out, tl.load(out, (32, 32), "f32") + tl.cast(tl.arange(0, 32), "f32"))


def worker(rank: int) -> None:
    dist.init_process_group(backend="kernbench")
    dist.all_reduce(dist.from_numpy(np.full(64, rank, np.float16)))


def run(ctx: Context) -> None:
    """A composite product, known elements, and a collective: all parts of a PE take part."""
    x = ctx.from_numpy(VALUES, name="x", placement=DPPolicy(pes=1))
    out = ctx.zeros((32, 32), "f32", name="out", placement=DPPolicy(pes=1))
    ctx.launch("product", product, x, out, pes=1)
    dist.spawn(ctx, worker, ranks=2)
    ctx.output("out", out)


def came_to(*overrides: str, allow_code: tuple[Path, ...] = ()) -> tuple[int, list[tuple[Any, ...]]]:
    engine = GraphEngine(load_config("single_cube", list(overrides), allow_code=allow_code))
    cycles = engine.run(Bench("parts", "all parts of a PE", run, None)).cycles
    assert engine.op_log is not None
    DataExecutor(engine.op_log).run()
    return cycles, [(one.t_start, one.t_end, one.component_id, one.op_name) for one in engine.op_log]


@pytest.mark.parametrize("kind", sorted(BUILT_IN))
def test_a_class_of_a_user_does_what_the_built_in_one_does(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """That of `pe_fetch_store` had no kind, and the first composite ended in a KeyError."""
    built_in = BUILT_IN[kind]
    text = MINE.format(module=built_in.__module__, name=built_in.__name__, method=OVERRIDES[kind])
    (tmp_path / f"mine_{kind}.py").write_text(text, encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    assert came_to(f"components.{kind}.impl=mine_{kind}:Mine", allow_code=(tmp_path,)) == came_to()
    assert import_module(f"mine_{kind}").Mine.calls > 0


FLOWING = """
from kernbench import NEVER
from kernbench_core import FLOW
from kernbench.components.builtin.pe_cpu import PeCpu


class Flowing(PeCpu):
    \"\"\"Opens a flow over the first channel.\"\"\"

    flows = {flows}
    begun = False

    def step(self, now):
        if not Flowing.begun:
            Flowing.begun = True
            self.open_flow(1 << 20, (0,))
        return super().step(now)

    def notify(self, notice, number, now):
        return NEVER if notice == FLOW else super().notify(notice, number, now)
"""


@pytest.mark.parametrize("flows", [0, 1])
def test_a_processor_of_a_user_opens_as_many_flows_as_it_says(
    flows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / f"flowing_{flows}.py").write_text(FLOWING.format(flows=flows), encoding="utf-8")
    monkeypatch.syspath_prepend(tmp_path)
    impl = f"components.pe_cpu.impl=flowing_{flows}:Flowing"
    if flows:
        assert came_to(impl, allow_code=(tmp_path,))[0] > came_to()[0]  # it takes bandwidth from the transfers
        return
    with pytest.raises(KernelFailed, match="NoRoom"):
        came_to(impl, allow_code=(tmp_path,))


def components() -> list[type[Any]]:
    """All classes of components that kernbench has."""
    for file in sorted(Path(kernbench.components.builtin.__path__[0]).glob("*.py")):
        import_module(f"kernbench.components.builtin.{file.stem}")
    found = [ComponentBase]
    for one in found:
        found += [each for each in one.__subclasses__() if each.__module__.startswith("kernbench.")]
    named = (one for one in dict.fromkeys(found) if one.kind)  # in an order that depends on what was imported first
    return sorted(named, key=lambda one: one.__name__)


@pytest.mark.parametrize("built_in", components(), ids=lambda one: one.__name__)
def test_a_derived_class_is_of_the_same_kind(built_in: type[Any]) -> None:
    mine = type("Mine", (built_in,), {})
    assert mine.kind == built_in.kind != "" and built_in.kinds[built_in.kind] is built_in
    assert type("Other", (built_in,), {}, kind="other").kind == "other"
    del built_in.kinds["other"]
