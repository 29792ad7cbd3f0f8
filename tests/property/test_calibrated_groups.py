"""Groups of constants are fitted apart: known constants come back, and a group without rows or with noise disturbs no other.

The tables are those of simulated chips with planted constants.
"""

from __future__ import annotations

from random import Random
from statistics import fmean

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernbench.analysis.chips.calibrate import constants_for
from kernbench.analysis.chips.cases import Case
from kernbench.analysis.chips.choice import OF_SEVERAL, chosen_fit, groups
from kernbench.analysis.chips.fit import launch_key, looks_up, predictions, relative_errors, value_at, with_values
from kernbench.config import NpuConfig, load_config
from kernbench.config.runtime import Runtime, load_runtime
from kernbench.workloads.ops.operation import Attention, Collective, Operation, Product, Sequences, Vector
from kernbench.workloads.ops.timing import OperationTimer

SIZES = (1, 16, 128, 512, 2048, 4096)


def vectors(name: str, kind: str, width: int) -> list[Operation]:
    """One operation on some numbers of rows."""
    return [Vector(name, kind, m, width, 4.0 * m * width, 0.0) for m in SIZES]


#: operations of each class
OPERATIONS: dict[str, list[Operation]] = {
    "products": [Product(m, n, 4096) for m in (1, 64, 512, 4096) for n in (4096, 14336)],
    "norm": vectors("layernorm", "norm", 4096),
    "elementwise": vectors("act_fn", "elementwise", 14336),
    "gather": vectors("embedding", "gather", 4096),
    "attention": [Attention((Sequences(count, 1, keys),), 32, 8, 128) for count in (1, 16) for keys in (256, 1024, 4096)],
    "collectives": [Collective("all_reduce", 4, 1 << size) for size in range(10, 28, 3)],
}
#: a constant of each class that no other class looks up
OWN = {
    "products": "te.macs_per_cycle",
    "norm": "runtime.ops.norm.thread_bytes",
    "elementwise": "runtime.ops.elementwise.start_ns",
    "gather": "runtime.ops.gather.start_ns",
    "attention": "runtime.attention.start_ns",
    "collectives": "chip.links_share",
}
CHIPS = [("rtx4090", "kernel_only"), ("a100", "vidur_kernels"), ("a100", "torch_eager"), ("mi210", "torch_rocm"),
         ("wormhole_n150", "ttnn"), ("tpuv5e", "jetstream")]  # fmt: skip


def case(op: Operation, ns: float) -> Case:
    """A row of a table, with a size by which rows are left out."""
    work = float(op.macs) / 1e9 if isinstance(op, Product) else 0.0
    moved = sum(some.count * some.cached for some in op.groups) if isinstance(op, Attention) else float(op.nbytes) / 1e6
    return Case(str(op), op.name, ns, "ns", None, work, moved, 1.0, lambda one: one.time(op).ns, operation=op)


def times(operations: list[Operation], machine: NpuConfig, runtime: Runtime) -> list[float]:
    """The times of some operations, estimated as in a fit."""
    timer = OperationTimer(machine, runtime, simulate=False)
    return [timer.time(op).ns for op in operations]


def measured(classes: list[str], machine: NpuConfig, runtime: Runtime) -> tuple[list[Case], list[str]]:
    """Rows of these classes, as the chip takes them."""
    some = [(op, name) for name in classes for op in OPERATIONS[name]]
    took = times([op for op, _ in some], machine, runtime)
    return [case(op, ns) for (op, _), ns in zip(some, took, strict=True)], [name for _, name in some]


@settings(max_examples=20)
@given(st.sampled_from(CHIPS), st.floats(0.5, 2.0), st.data())
def test_a_row_that_does_not_look_up_a_constant_has_the_same_time_with_every_value(
    chip: tuple[str, str], factor: float, data: st.DataObject
) -> None:
    machine, runtime = load_config(chip[0]), load_runtime(chip[1])
    every = [op for some in OPERATIONS.values() for op in some]
    rows = [case(op, 1.0) for op in every]
    one = data.draw(st.sampled_from(constants_for(rows, machine, runtime)), label="constant")
    value = (value_at(machine, runtime, one.path) or one.begin) * factor
    changed = times(every, *with_values(machine, runtime, {one.path: value}))
    for row, before, after in zip(rows, times(every, machine, runtime), changed, strict=True):
        if not looks_up(row, one.path, machine, runtime):
            assert before == after, (one.path, row.label)


@settings(max_examples=20)
@given(st.sampled_from(CHIPS), st.sets(st.sampled_from(sorted(OPERATIONS)), min_size=1))
def test_each_row_is_in_one_group_and_each_constant_in_one_or_shared(chip: tuple[str, str], classes: set[str]) -> None:
    machine, runtime = load_config(chip[0]), load_runtime(chip[1])
    rows = [case(op, 1.0) for name in sorted(classes) for op in OPERATIONS[name]]
    constants = constants_for(rows, machine, runtime)
    found = groups(rows, constants, machine, runtime)
    assert sorted(i for one in found for i in one.rows) == list(range(len(rows)))
    own = [one.path for group in found for one in group.constants]
    assert sorted(own) == sorted(one.path for one in constants if one.path not in OF_SEVERAL)


def check_fit_of(target: str, factor: float, others: list[str], noise: float, seed: int) -> None:
    """Plant a constant of one class, add noise to the rows of other classes, and fit."""
    machine, runtime, rng = load_config("a100"), load_runtime("kernel_only"), Random(seed)
    path = OWN[target]
    begin = value_at(machine, runtime, path) or 2000.0
    true = with_values(machine, runtime, {path: begin * factor})
    rows, kinds = measured([target, *others], *true)
    rows = [
        row if kind == target else case(row.operation, row.measured * 2.0 ** rng.gauss(0.0, noise))
        for row, kind in zip(rows, kinds, strict=True)
        if row.operation is not None
    ]
    found, choice = chosen_fit(rows, kinds, machine, runtime, lambda some: constants_for(some, machine, runtime))
    fitted = {one.constant.path: one.value for one in found.constants}
    assert fitted[path] == pytest.approx(begin * factor, rel=0.1), choice.decisions
    mine = [row for row, kind in zip(rows, kinds, strict=True) if kind == target]
    assert fmean(relative_errors(mine, predictions(mine, found.machine, found.runtime))) < 0.03
    if not OF_SEVERAL.intersection(fitted):
        for name in OPERATIONS.keys() - {target, *others}:
            ops = OPERATIONS[name]
            assert times(ops, machine, runtime) == times(ops, found.machine, found.runtime), name
    absent = {path for name, path in OWN.items() if name not in (target, *others)}
    assert not absent.intersection(fitted)


PLANTED = [("products", 0.7), ("norm", 0.5), ("elementwise", 1.0), ("attention", 2.0), ("collectives", 0.7)]


@pytest.mark.parametrize(("target", "factor"), PLANTED)
def test_a_known_constant_comes_back_and_classes_without_rows_keep_their_times(target: str, factor: float) -> None:
    check_fit_of(target, factor, [], 0.0, 1)


def test_noise_in_the_rows_of_vectors_does_not_keep_the_fit_of_products_away() -> None:
    check_fit_of("products", 0.7, ["norm", "elementwise", "gather"], 0.3, 1)


@pytest.mark.nightly
@settings(max_examples=30)
@given(
    st.sampled_from(sorted(OWN)), st.sampled_from([0.6, 0.75, 1.5, 2.0]), st.sets(st.sampled_from(sorted(OWN)), max_size=2),
    st.sampled_from([0.0, 0.1, 0.3]), st.integers(0, 99),
)  # fmt: skip
def test_known_constants_come_back_beside_classes_with_noise(
    target: str, factor: float, others: set[str], noise: float, seed: int
) -> None:
    if target in ("products", "norm", "collectives") and factor > 1.0:  # rates of the files are near the highest ones
        factor = 1 / factor
    check_fit_of(target, factor, sorted(others - {target}), noise, seed)


def test_launches_of_a_group_of_functions_are_fitted_for_the_measured_function_alone() -> None:
    """The profile has one launch time for functions of `torch.compile`; only GELU is measured."""
    machine, runtime = load_config("a100"), load_runtime("torch_eager")
    assert launch_key(runtime, "gelu", "elementwise") == "gelu" and launch_key(runtime, "matmul", "matmul") == "matmul"
    gelu, norms = vectors("gelu", "elementwise", 4096), vectors("layernorm", "norm", 4096)
    path = "runtime.launch_ns.gelu"
    before = value_at(machine, runtime, path)
    assert before == float(runtime.launch_ns["compiled"])
    true = with_values(machine, runtime, {path: before * 2})
    rows = [case(op, ns) for op, ns in zip(gelu, times(gelu, *true), strict=True)]
    found, _ = chosen_fit(rows, ["elementwise"] * 6, machine, runtime, lambda some: constants_for(some, machine, runtime))
    fitted = {one.constant.path: one.value for one in found.constants}
    assert fitted[path] == pytest.approx(before * 2, rel=0.1)
    assert times(norms, found.machine, found.runtime) == times(norms, machine, runtime)
