"""Graphs computed from their tiles: models are equal to the reference, and faults planted in the emitter are found."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest

pytest.importorskip("onnx", reason="onnx is not installed")
from onnx import TensorProto, numpy_helper

from kernbench.cli.main import exit_code
from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.workloads.graphs import run
from kernbench.workloads.graphs.emit import others
from kernbench.workloads.graphs.memory import Memory
from kernbench.workloads.graphs.onnx.reference import verify_file
from kernbench.workloads.graphs.verify import Verification, error_of
from kernbench.workloads.hazards import Emitter
from kernbench.workloads.layer.dram import WeightLayout
from tests.onnx_models import Builder, depthwise_lines, mlp, resnet_block, transformer_block
from tests.workload_programs import tiny_machine

MODELS: dict[str, tuple[Callable[[], Builder], dict[str, int]]] = {
    "mlp": (lambda: mlp("rows"), {"rows": 37}),
    "block": (transformer_block, {"batch": 2, "seq": 24}),
    "attention": (lambda: transformer_block(attention_op=True), {"batch": 2, "seq": 24}),
    "resnet": (resnet_block, {"n": 2}),
    "lines": (depthwise_lines, {}),
}
MACHINES = {"roomy": tiny_machine(256), "tight": tiny_machine(48), "npu_mobile": "npu_mobile"}


def check(folder: Path, name: str, machine: str, bits: int = 8) -> Verification:
    """The check of a model with random weights."""
    build, dims = MODELS[name]
    builder, random = build(), np.random.default_rng(5)
    for item in builder.weights:
        values = numpy_helper.to_array(item)
        if values.dtype == np.float32 and not values.any():
            item.CopyFrom(numpy_helper.from_array(random.uniform(0.1, 0.5, values.shape).astype(np.float32), item.name))
    file = builder.save(folder / "model.onnx")
    return verify_file(file, dims, load_config(MACHINES[machine]), w=bits, a=bits)


@pytest.mark.parametrize("machine", MACHINES)
@pytest.mark.parametrize("name", MODELS)
def test_models_are_computed_by_their_tiles(name: str, machine: str, tmp_path: Path) -> None:
    found = check(tmp_path, name, machine)
    assert found.faults == [] and found.passed, found.worst
    assert found.jobs > 10 and found.tiles > 0 and found.worst


def test_other_widths(tmp_path: Path) -> None:
    for bits in (16, 32):
        found = check(tmp_path, "mlp", "roomy", bits)
        assert found.passed, found


def integers() -> Builder:
    """Operations on 32-bit integers, and between them and activations of 8 bits."""
    b = Builder()
    x, y = (b.input(name, 6, 40, kind=TensorProto.INT32) for name in "xy")
    divided = b.node("Div", x, b.node("Add", y, b.constant("one", 1, np.int32)))
    chosen = b.node("Where", b.node("Greater", x, y), divided, y)
    index = b.node("ArgMax", b.node("Relu", b.input("z", 6, 40)), axis=1)
    power = b.node("Pow", b.node("Cast", index, to=TensorProto.FLOAT), b.node("ReduceSum", chosen, b.constant("axes", [1])))
    b.output(power, b.node("Cast", chosen, to=TensorProto.FLOAT))
    return b


def test_integers_are_as_wide_as_what_they_hold(tmp_path: Path) -> None:
    file = integers().save(tmp_path / "model.onnx")
    found = verify_file(file, {}, load_config("npu_mobile"), w=8, a=8)
    assert found.passed and found.jobs > 10, found


def test_random_operators_are_refused(tmp_path: Path) -> None:
    b = Builder()
    b.output(b.node("Add", b.node("RandomUniformLike", b.input("x", 8)), "x"))
    with pytest.raises(InputError, match="its results are random, so they cannot be compared"):
        verify_file(b.save(tmp_path / "model.onnx"), {}, load_config("npu_mobile"), w=8, a=8)


def plant_wrong_tile(patch: pytest.MonkeyPatch) -> None:
    """Weight tiles in another order."""
    tiles = WeightLayout.tiles
    patch.setattr(WeightLayout, "tiles", lambda self, number=0: tiles(self, number)[::-1])


def plant_wrong_rows(patch: pytest.MonkeyPatch) -> None:
    """A product whose blocks all read the first rows."""
    read = Memory.read

    def first_rows(self: Any, name: str, start: int, nbytes: int, ring: str = "blocks", **meta: Any) -> Any:
        return read(self, name, 0 if meta["phase"] in ("Gemm", "MatMul") else start, nbytes, ring, **meta)

    patch.setattr(Memory, "read", first_rows)


def plant_missing_block(patch: pytest.MonkeyPatch) -> None:
    """The last block of a vector operation is left out."""
    emit = others._vector

    def shorter(memory: Any, work: Any, size: Any, meta: Any) -> None:
        from dataclasses import replace

        emit(memory, replace(work, batch=work.batch - 1) if work.batch > 1 else work, size, meta)

    patch.setattr(others, "_vector", shorter)


def plant_overlap(patch: pytest.MonkeyPatch) -> None:
    """All tensors that stay in the scratchpad have one address."""
    place = Memory._place

    def together(self: Any) -> None:
        place(self)
        stays = [storage for storage in self._storages.values() if storage.spm is not None]
        lowest = min(storage.spm for storage in stays)
        for storage in stays:
            storage.spm = lowest

    patch.setattr(Memory, "_place", together)


def plant_wrong_place(patch: pytest.MonkeyPatch) -> None:
    """Results go to DRAM a line too far."""
    written = Memory.written

    def further(self: Any, name: str, start: int, nbytes: int, place: int, **meta: Any) -> None:
        written(self, name, start + (64 if start else 0), nbytes, place, **meta)

    patch.setattr(Memory, "written", further)


def plant_shallow_product(patch: pytest.MonkeyPatch) -> None:
    """A product that leaves out the last element of its depth."""

    class Shallow(Emitter):
        def te(self, op: Any, *places: Any, **fields: Any) -> Any:
            return super().te(op, *places, **{**fields, "k": fields["k"] - 1})

    patch.setattr(run, "Emitter", Shallow)


FAULTS = [
    plant_wrong_tile, plant_wrong_rows, plant_missing_block, plant_overlap, plant_wrong_place, plant_shallow_product,
]  # fmt: skip


@pytest.mark.parametrize("plant", FAULTS, ids=lambda plant: plant.__name__.removeprefix("plant_"))
def test_planted_faults_are_found(plant: Callable[[pytest.MonkeyPatch], None], tmp_path: Path) -> None:
    case = ("block", "roomy") if plant is plant_overlap else ("mlp", "tight")
    assert check(tmp_path, *case).passed
    with pytest.MonkeyPatch.context() as patch:
        plant(patch)
        found = check(tmp_path, *case)
    assert not found.passed and found.faults


def test_errors_are_counted_in_tolerances() -> None:
    ones = np.ones(4, np.float32)
    assert error_of(ones, ones) == 0 and error_of(ones * 1.0001, ones) < 1 < error_of(ones * 1.01, ones)
    assert error_of(ones, np.ones(3, np.float32)) == float("inf") == error_of(np.full(4, np.nan), ones)
    assert error_of(np.array([1, 2]), np.array([1, 2])) == 0
    ends = np.array([1, -np.inf, np.inf, np.nan], np.float32)
    assert error_of(ends, ends) == 0 and error_of(ends * np.float32(1.0001), ends) < 1 < error_of(ends * np.float32(1.01), ends)
    half = np.array([1, np.nan], ml_dtypes.bfloat16)
    assert error_of(half, half) == 0 and error_of(half, np.array([2, np.nan], ml_dtypes.bfloat16)) > 1
    for wrong, right in (([1, np.inf], [1, -np.inf]), ([np.inf, 1], [1, 1]), ([1, 1], [np.inf, 1])):
        assert error_of(np.float32(wrong), np.float32(right)) == float("inf")


def test_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    mlp(8).save(tmp_path / "mlp.onnx")
    assert exit_code(["onnx", "mlp.onnx", "-c", "npu_mobile", "--verify"]) == 0
    assert "Verified  " in capsys.readouterr().out
    assert exit_code(["onnx", "mlp.onnx", "-c", "npu_mobile", "--verify", "--json"]) == 0
    said = json.loads(capsys.readouterr().out)["verification"]
    assert said["passed"] and said["product_tiles"] > 0 and [one["equal"] for one in said["outputs"]] == [True]
    with monkeypatch.context() as patch:
        plant_wrong_rows(patch)
        plant_missing_block(patch)
        assert exit_code(["onnx", "mlp.onnx", "-c", "npu_mobile", "--verify"]) == 1
    assert "NOT VERIFIED" in capsys.readouterr().out
    assert exit_code(["onnx", "mlp.onnx", "--verify", "--partial"]) == 2


@pytest.mark.nightly
def test_node_tests_are_equal() -> None:
    """Those of ONNX whose outputs the reference computes; the rest is refused by name."""
    from tests.unit.test_onnx_node_tests import cases, verified

    found = [verified(case) for case in cases() if case.data_sets]
    assert found.count("equal") >= 1_100 and found.count("differs") <= 10


def test_a_sample_of_node_tests_is_equal() -> None:
    from tests.unit.test_onnx_node_tests import sample, verified

    found = [verified(case) for case in sample()[::2]]
    assert found.count("equal") > 20 and "differs" not in found
