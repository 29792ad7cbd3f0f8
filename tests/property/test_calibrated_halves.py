"""A fit to a part of a table does not predict the other rows worse than the values of the files do.

The tables are those of simulated chips: with the constants of the files or with some others, and with noise. Rows are left out
at random, by size, by shape and by operation, so that predictions are extrapolations too.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import log
from random import Random
from statistics import fmean

import pytest

import kernbench.analysis.chips.choice as choice_module
from kernbench.analysis.chips.calibrate import constants_for
from kernbench.analysis.chips.cases import Case
from kernbench.analysis.chips.choice import UNCHANGED, chosen_fit, shapes
from kernbench.analysis.chips.fit import SPREAD, SPREADS, predictions, relative_errors, value_at, with_values
from kernbench.config import load_config
from kernbench.config.runtime import load_runtime
from kernbench.workloads.ops.operation import Attention, Collective, Operation, Product, Sequences, Vector
from kernbench.workloads.ops.timing import OperationTimer

WORSE = 0.05  #: by how much the mean error may rise


def products(sizes: tuple[int, ...]) -> list[Operation]:
    """Products of a layer, by number of tokens."""
    return [Product(m, n, k) for m in sizes for n, k in ((4096, 4096), (6144, 4096), (22016, 4096), (4096, 11008))]


def vectors(name: str, kind: str, sizes: tuple[int, ...], width: int = 4096) -> list[Operation]:
    """Vector operations of some rows."""
    return [Vector(name, kind, m, width, 4.0 * m * width, 0.0) for m in sizes]


SIZES = (1, 8, 64, 128, 272, 512, 1024, 4096)
MANY = tuple(4**i for i in range(1, 9))
#: chip, profile and operations of each table
TABLES: dict[str, tuple[str, str, list[Operation]]] = {
    "operations of a layer": (
        "rtx4090", "kernel_only",
        products(SIZES[1::3]) + vectors("norm", "norm", SIZES[::2]) + vectors("act", "elementwise", SIZES[::2], 11008),
    ),
    "products": ("a100", "torch_eager", products(SIZES[::2])),
    "norms": ("mi210", "torch_rocm", vectors("layernorm", "norm", MANY) + vectors("layernorm", "norm", MANY[2:], 512)),
    "few products of a datasheet": ("h100", "kernel_only", products((16, 512, 2048))),
    "messages": (
        "a100", "nccl_events",
        [Collective("all_reduce", ranks, 1 << size, node=8) for ranks in (2, 4, 8) for size in range(10, 30, 3)],
    ),
    "nodes": (
        "a100", "nccl_events",
        [Collective("all_reduce", ranks, 1 << size, node=4) for ranks in (8, 16) for size in range(10, 30, 2)],
    ),
    "decodes": (
        "a6000", "kernel_only",
        [Attention((Sequences(count, 1, keys),), 32, 8, 128) for count in (1, 4, 16, 64) for keys in (256, 1024, 4096)],
    ),
}  # fmt: skip


def measured(table: str, seed: int, noise: float, *, others: bool) -> list[Case]:
    """The rows of a table with noise. `others`: the chip has other constants than its file."""
    chip, profile, operations = TABLES[table]
    machine, runtime, rng = load_config(chip), load_runtime(profile), Random(f"{table} {seed}")
    plain = [_case(op, 1.0) for op in operations]
    if others:
        values = {}
        for one in constants_for(plain, machine, runtime):
            value = value_at(machine, runtime, one.path) or one.begin
            factor = 2.0 ** rng.gauss(0.0, SPREADS.get(one.path, SPREAD))
            values[one.path] = value * (min(factor, 1.05) if SPREADS.get(one.path, SPREAD) < 0.2 else factor)
        machine, runtime = with_values(machine, runtime, values)
    timer = OperationTimer(machine, runtime, simulate=False)
    return [_case(op, timer.time(op).ns * 2.0 ** rng.gauss(0.0, noise)) for op in operations]


def _case(op: Operation, ns: float) -> Case:
    work = float(op.macs) / 1e9 if isinstance(op, Product) else 0.0
    moved = sum(some.count * some.cached for some in op.groups) if isinstance(op, Attention) else float(op.nbytes) / 1e6
    return Case(str(op), op.name, ns, "ns", None, work, moved, 1.0, lambda one: one.time(op).ns, operation=op)


def kept_back(cases: list[Case], seed: int) -> Iterator[tuple[str, set[int]]]:
    """The rows that are not fitted: at random, by shape, and by operation."""
    numbers = list(range(len(cases)))
    yield "random", set(Random(seed).sample(numbers, len(cases) // 2))
    kinds = [case.op for case in cases]
    for split in shapes(cases, kinds):
        yield split.name, set(split.parts[0])
    for kind in dict.fromkeys(kinds) if len(set(kinds)) > 1 else ():
        yield f"operation {kind}", {i for i in numbers if kinds[i] == kind}


def check(table: str, seed: int, noise: float, *, others: bool, only: tuple[str, ...] = ()) -> None:
    """Fit a part of a table, and compare the errors of the other rows with those of the files."""
    chip, profile, _ = TABLES[table]
    machine, runtime = load_config(chip), load_runtime(profile)
    cases = measured(table, seed, noise, others=others)
    for name, out in kept_back(cases, seed):
        if only and name not in only:
            continue
        rest, held = [case for i, case in enumerate(cases) if i not in out], [cases[i] for i in sorted(out)]
        found, choice = chosen_fit(
            rest, [case.op for case in rest], machine, runtime, lambda rows: constants_for(rows, machine, runtime)
        )
        before, after = (
            fmean(relative_errors(held, predictions(held, *pair)))
            for pair in ((machine, runtime), (found.machine, found.runtime))
        )
        assert after <= before + WORSE, (table, seed, name, choice.decisions, before, after)
        if choice.name == UNCHANGED:
            assert (found.machine, found.runtime) == (machine, runtime)


@pytest.mark.parametrize("table", ["norms", "messages", "products"])
@pytest.mark.parametrize("others", [False, True])
def test_a_fit_to_half_of_a_table_predicts_the_other_half_no_worse_than_the_files(table: str, others: bool) -> None:
    check(table, 1, 0.1, others=others, only=("random", "large shapes", "small shapes"))


def test_rows_of_another_bandwidth_are_predicted_from_the_others() -> None:
    """The larger half has an error of more than 20 % with the values of the file, and of less than 5 % after the fit."""
    machine, runtime = load_config("a100"), load_runtime("kernel_only")
    rate = {"dram.peak_bw_bytes_per_cycle": 0.7 * float(machine.dram.peak_bw_bytes_per_cycle)}
    timer = OperationTimer(*with_values(machine, runtime, rate), simulate=False)
    cases = [_case(op, timer.time(op).ns) for op in products((1, 2, 4, 8))]
    rest, held = cases[:8], cases[8:]
    found, choice = chosen_fit(
        rest, [case.op for case in rest], machine, runtime, lambda rows: constants_for(rows, machine, runtime)
    )
    assert choice.name == "DRAM bandwidth: all constants"
    last = choice.decisions[-1]
    assert last.name == "products" and last.before is not None and last.after is not None and last.after < 0.1 * last.before
    assert fmean(relative_errors(held, predictions(held, machine, runtime))) > 0.2
    assert fmean(relative_errors(held, predictions(held, found.machine, found.runtime))) < 0.05


def test_one_group_shows_a_bandwidth_with_a_tenth_if_it_is_alone() -> None:
    """With noise, the errors of left-out rows fall by a fifth. That is enough, unless rows of another group have no error."""
    machine, runtime, rng = load_config("a100"), load_runtime("kernel_only"), Random(2)
    rate = {"dram.peak_bw_bytes_per_cycle": 0.9 * float(machine.dram.peak_bw_bytes_per_cycle)}
    slower = OperationTimer(*with_values(machine, runtime, rate), simulate=False)
    sizes = (1024, 2048, 3072, 4096, 6144, 8192, 12288, 16384)
    rows = [_case(op, slower.time(op).ns * 2.0 ** rng.gauss(0.0, 0.1)) for op in vectors("act", "elementwise", sizes, 11008)]
    as_filed = OperationTimer(machine, runtime, simulate=False)
    compute_bound = [_case(op, as_filed.time(op).ns) for op in products((4096,))]
    for cases, name in ((rows, "DRAM bandwidth: all constants"), (rows + compute_bound, UNCHANGED)):
        _, choice = chosen_fit(
            cases, [case.op for case in cases], machine, runtime, lambda some: constants_for(some, machine, runtime)
        )
        assert choice.name == name


@pytest.mark.parametrize(("seed", "others"), [(0, False), (2, False), (4, True)])
def test_seven_rows_with_noise_are_not_taken_for_rows_of_other_constants(seed: int, others: bool) -> None:
    check("norms", seed, 0.2, others=others, only=("small shapes",))


def test_two_rows_with_noise_are_not_explained_by_a_constant() -> None:
    """Two rows of a norm and two of an elementwise operation whose errors are about equal by chance."""
    check("operations of a layer", 1, 0.2, others=False, only=("small shapes",))


def test_where_times_explain_the_rows_as_well_as_all_constants_rates_are_fitted_too() -> None:
    """Seven small norms hardly depend on a rate, but the seven larger ones do."""
    check("norms", 3, 0.05, others=True, only=("large shapes",))


def test_five_rows_of_little_noise_show_another_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    """From two or three of the rows, which move much or little, the others are predicted badly, but a fit explains all."""
    machine, runtime = load_config("mi210"), load_runtime("torch_rocm")
    values = {"runtime.launch_ns.gelu": 0.6 * float(runtime.launch_ns["gelu"]), "dram.peak_bw_bytes_per_cycle": 352.0}
    timer = OperationTimer(*with_values(machine, runtime, values), simulate=False)
    rng, rows = Random(3), vectors("gelu", "elementwise", (1, 16, 4096, 16384, 65536))
    cases = [_case(op, timer.time(op).ns * 2.0 ** rng.gauss(0.0, 0.02)) for op in rows]
    for explained, whole in ((choice_module.EXPLAINED, True), (0.0, False)):
        monkeypatch.setattr(choice_module, "EXPLAINED", explained)
        _, choice = chosen_fit(
            cases, [case.op for case in cases], machine, runtime, lambda rows: constants_for(rows, machine, runtime)
        )
        assert choice.decisions[-1].fitted and ("of the way" not in choice.decisions[-1].why) == whole


@pytest.mark.parametrize("factor", [1.0, 1.001])
def test_rows_that_the_files_predict_are_not_fitted(factor: float) -> None:
    """A fit to all rows would leave hardly any of an error that is hardly there."""
    machine, runtime = load_config("a100"), load_runtime("torch_eager")
    timer = OperationTimer(machine, runtime, simulate=False)
    cases = [_case(op, factor * timer.time(op).ns) for op in vectors("gelu", "elementwise", (1, 16, 4096, 16384))]
    found, choice = chosen_fit(
        cases, [case.op for case in cases], machine, runtime, lambda rows: constants_for(rows, machine, runtime)
    )
    assert choice.name == UNCHANGED and (found.machine, found.runtime) == (machine, runtime)
    assert choice.decisions[-1].why.startswith("no fit predicts left-out rows clearly better")


def test_a_fit_that_may_be_better_by_chance_moves_constants_a_part_of_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    """Thirteen rows of nodes, of other constants and with noise. The further constants move, the nearer they are to the whole
    fit, and the errors of the other rows fall from 23 to 19 %."""
    machine, runtime = load_config("a100"), load_runtime("nccl_events")
    cases = measured("nodes", 1, 0.2, others=True)
    out = dict(kept_back(cases, 1))["large shapes"]
    rest, held = [case for i, case in enumerate(cases) if i not in out], [cases[i] for i in sorted(out)]
    moved, errors = [], []
    for likely in (0.0, choice_module.LIKELY, 1e-9, 1.0):
        monkeypatch.setattr(choice_module, "LIKELY", likely)
        found, choice = chosen_fit(
            rest, [case.op for case in rest], machine, runtime, lambda rows: constants_for(rows, machine, runtime)
        )
        moved.append([log(one.value / one.before) for one in found.constants if one.value != one.before])
        errors.append(fmean(relative_errors(held, predictions(held, found.machine, found.runtime))))
        assert choice.decisions[-1].fitted
    assert errors[0] == pytest.approx(errors[2], rel=1e-3) and errors[1] < errors[0] - 0.03
    assert moved[1] == pytest.approx([0.5 * one for one in moved[3]], rel=0.01)


@pytest.mark.nightly
@pytest.mark.parametrize("table", list(TABLES))
@pytest.mark.parametrize("others", [False, True])
@pytest.mark.parametrize("noise", [0.05, 0.2])
@pytest.mark.parametrize("seed", range(5))
def test_parts_of_tables_predict_the_rest_no_worse_than_the_files(table: str, seed: int, noise: float, others: bool) -> None:
    check(table, seed, noise, others=others)
