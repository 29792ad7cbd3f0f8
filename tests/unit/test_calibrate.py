"""Constants fitted to measured kernels: planted ones come back, and what the fit says of itself is right."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path
from random import Random

import pytest

from kernbench.analysis.chips.calibrate import (
    Calibration,
    _cases,
    calibrate,
    constants_for,
    machine_text,
    runtime_text,
)  # fmt: skip
from kernbench.analysis.chips.cases import Case
from kernbench.analysis.chips.choice import UNCHANGED
from kernbench.analysis.chips.fit import WIDEST, fit, predictions, relative_errors, with_values
from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.config.runtime import load_runtime
from kernbench.workloads.ops.operation import Collective, Product, Vector
from kernbench.workloads.ops.timing import OperationTimer

START = load_config("rtx4090")
PROFILE = load_runtime("kernel_only")
PLANTED = {
    "te.macs_per_cycle": 0.8 * float(START.te.macs_per_cycle),
    "dram.peak_bw_bytes_per_cycle": 0.7 * float(START.dram.peak_bw_bytes_per_cycle),
    "runtime.ops.matmul.chain": 20.0,
}


def table(folder: Path, *, norms: bool = True) -> Path:
    """Products and norms as a machine with the planted constants takes them."""
    timer = OperationTimer(*with_values(START, PROFILE, PLANTED))
    lines = ["class,op,m,n,k,bytes,measured"]
    for m in (1, 4, 64, 300, 1000, 2000, 4000):
        for n, k in ((4096, 4096), (1024, 4096), (14336, 4096)):
            lines.append(f"matmul,matmul,{m},{n},{k},,{timer.time(Product(m, n, k)).ns / 1e3!r}")
        if norms:
            moved = 16.0 * m * 4096
            lines.append(f"norm,norm,{m},4096,,{moved},{timer.time(Vector('norm', 'norm', m, 4096, moved, 0.0)).ns / 1e3!r}")
    file = folder / "own.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return file


def test_planted_constants_come_back(tmp_path: Path) -> None:
    found = calibrate(table(tmp_path), START, PROFILE)
    values = {one.constant.path: one for one in found.fitted.constants}
    for path, planted in PLANTED.items():
        assert values[path].value == pytest.approx(planted, rel=0.05), path
        assert values[path].low <= values[path].value <= values[path].high
    assert found.before[0] > 0.15 and found.after[0] < 0.02 and found.folds.median < 0.03
    assert [one.name for one in found.classes] == ["matmul", "norm"]
    assert [(one.name, one.rows) for one in found.shapes] == [
        ("large shapes", 15), ("small shapes", 13), ("skinny products", 11)
    ]  # fmt: skip
    assert max(one.median for one in found.shapes) < 0.3 and found.to_dict()["left_out_shapes"][0]["rows"] == 15
    for text in (machine_text(found), runtime_text(found)):
        assert f"# Large shapes left out (15 rows): median {found.shapes[0].median:.1%}" in text
        assert f"# Rows that the fit had not seen (5 folds): median {found.folds.median:.1%}, mean" in text
        for kind in found.classes:
            assert f"# Class {kind.name} left out ({kind.rows} rows): median {kind.median:.1%}, mean {kind.mean:.1%}." in text


@pytest.fixture(scope="module")
def of_products(tmp_path_factory: pytest.TempPathFactory) -> Calibration:
    """The fit of a table of products, for tests that do not change it."""
    return calibrate(table(tmp_path_factory.mktemp("products"), norms=False), START, PROFILE)


def test_the_same_table_makes_the_same_files(of_products: Calibration, tmp_path: Path) -> None:
    again = calibrate(table(tmp_path, norms=False), START, PROFILE)
    assert machine_text(of_products) == machine_text(again) and runtime_text(of_products) == runtime_text(again)


def test_written_files_are_read_back(of_products: Calibration, tmp_path: Path) -> None:
    found = of_products
    for name, text in (("chip.yaml", machine_text(found)), ("own.yaml", runtime_text(found))):
        (tmp_path / name).write_text(text, encoding="utf-8")
    assert load_config(tmp_path / "chip.yaml").te.macs_per_cycle == Fraction(found.fitted.machine.te.macs_per_cycle)
    assert load_runtime(tmp_path / "own.yaml") == found.fitted.runtime
    assert f"SHA-256 {found.digest}" in machine_text(found)
    assert "# No class of operations was left out: the table has one class." in machine_text(found)


def test_the_files_say_what_was_decided_on_each_group(of_products: Calibration) -> None:
    decided = {one.name: one for one in of_products.choice.decisions}
    assert of_products.choice.name == "DRAM bandwidth: all constants; products: all constants"
    products = decided["products"]
    assert products.rows == of_products.choice.rows == 21
    assert products.before is not None and products.after is not None and products.after < 0.1 < products.before
    assert not decided["start of kernels, DRAM latency"].fitted and "cache rate of vectors" not in decided
    errors = f"error of left-out rows {products.before:.1%} before, {products.after:.1%} after"
    line = f"# products: fitted (all constants), {errors}; left-out rows are predicted better.\n"
    assert line in machine_text(of_products) and line in runtime_text(of_products)
    groups = of_products.to_dict()["groups"]
    assert [one["name"] for one in groups] == list(decided) and groups[-1]["after"] == products.after


def test_a_table_that_the_files_predict_changes_nothing(tmp_path: Path) -> None:
    """Rows with noise of 10 % around the values of the files."""
    timer = OperationTimer(START, PROFILE)
    lines = [HEAD.strip()]
    for i, m in enumerate((1, 16, 64, 300, 1000, 3000)):
        for n in (4096, 14336):
            lines.append(f"matmul,matmul,{m},{n},4096,{timer.time(Product(m, n, 4096)).ns / 1e3 * (0.9 if i % 2 else 1.1)!r}")
    file = tmp_path / "own.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = calibrate(file, START, PROFILE)
    assert found.choice.name == UNCHANGED and not found.fitted.constants
    assert not any(one.fitted for one in found.choice.decisions)
    assert (found.fitted.machine, found.fitted.runtime) == (START, PROFILE)
    assert found.before == pytest.approx(found.after, rel=0.03)


HEAD = "class,op,m,n,k,measured\n"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "own.csv:1: its first line must name the columns class, op, measured, and class, op, measured are not there"),
        ("class,op\nmatmul,matmul\n", "own.csv:1: .* measured is not there"),
        (HEAD, "it has no usable row"),
        (HEAD + "matmul,matmul,1,2,3,fast\n", "own.csv:2: the row cannot be read: measured = 'fast'"),
        (HEAD + "matmul,matmul,1,2,3,-1\n", "measured = '-1', but it must be a number from 0"),
        (HEAD + "matmul,matmul,1,2,3,nan\n", "measured = 'nan', but it must be a number from 0"),
        (HEAD + "matmul,matmul,1,2,3,inf\n", "measured = 'inf', but it must be a number from 0"),
        (HEAD + "matmul,matmul,1,2,3,0\n", "measured = 0, but it must be above 0"),
        (HEAD + "matmul,matmul,1,2\n", "own.csv:2: .* a product needs at least 1|measured = nothing"),
        (HEAD + "matmul,matmul,1.5,2,3,4\n", "m = '1.5', but it must be a whole number"),
        (HEAD + "matmul,matmul,0,2,3,4\n", "m = 0, but a product needs at least 1"),
        (HEAD + "matmul,matmul,1,2,3,4,5\n", "own.csv:2: the row has more cells than the first line has columns"),
        (HEAD + "matmull,matmul,1,2,3,4\n", "class = 'matmull', but it must be one of matmul.*; did you mean matmul"),
        (HEAD + "gemm,matmul,1,2,3,4\n", "class = 'gemm', but it must be one of matmul.*; did you mean matmul"),
        (HEAD + "attention,decode,1,2,3,4\n", "a step needs at least one sequence"),
        ("class,op,measured,workers\ncollective,reduce,4,4\n", "op = 'reduce', but it must be one of all_reduce"),
        (HEAD + "matmul,matmul,64,64,64,5\n", "has 1 usable row, but a fit needs at least 4; measure"),
    ],
)
def test_tables_that_cannot_be_used_are_refused(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "own.csv"
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match=said):
        calibrate(file, START, PROFILE)


def test_a_table_that_is_not_text_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "own.csv"
    file.write_bytes(HEAD.encode() + b"\xff\xfe\n")
    with pytest.raises(InputError, match="byte 24 is not UTF-8"):
        calibrate(file, START, PROFILE)


def test_a_machine_that_is_no_chip_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="the machine has no chip section"):
        calibrate(table(tmp_path), load_config("npu_server"), PROFILE)


def test_a_constant_that_no_row_depends_on_has_the_widest_interval(tmp_path: Path) -> None:
    lines = [HEAD.strip()]
    timer = OperationTimer(START, PROFILE)
    for n in range(1024, 9216, 512):  # one row of operands: the weights' bytes alone decide
        lines.append(f"matmul,matmul,1,{n},8192,{timer.time(Product(1, n, 8192)).ns / 1e3!r}")
    file = tmp_path / "own.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    cases, _, _ = _cases(file, file.read_text(encoding="utf-8"), START)
    constants = constants_for(cases, START, PROFILE)
    found = {one.constant.path: one for one in fit(cases, START, PROFILE, constants).constants}
    rate = found["te.macs_per_cycle"]
    assert rate.high / rate.value == pytest.approx(WIDEST)
    memory = found["dram.peak_bw_bytes_per_cycle"]
    assert memory.high / memory.value < 1.1


def test_intervals_of_95_percent_contain_the_constants_that_made_the_rows() -> None:
    """In 12 fits of rows with noise, 36 intervals; the value of the file, which counts in a fit, is the true one."""
    machine, runtime, rng = load_config("a100"), load_runtime("nccl_events"), Random(1)
    timer = OperationTimer(machine, runtime, simulate=False)

    def case(ranks: int, size: int) -> Case:
        op = Collective("all_reduce", ranks, 1 << size, node=8)
        took = timer.time(op).ns * 2 ** rng.gauss(0, 0.1)
        return Case("", op.name, took, "ns", None, 0.0, 0.0, 1.0, lambda one: one.time(op).ns, operation=op)

    inside = []
    for _ in range(12):
        rows = [case(ranks, size) for ranks in (2, 4, 8) for size in range(10, 30, 3)]
        found = fit(rows, machine, runtime, constants_for(rows, machine, runtime)).constants
        inside += [one.low <= one.before <= one.high for one in found]
        widths = {one.constant.path: one.high / one.low for one in found}
        assert 1.02 < widths["chip.links_share"] < 1.5 and 1.05 < widths["chip.link_latency_ns"] < 3
    assert len(inside) == 36 and sum(inside) >= 32


def test_a_launch_is_fitted_under_the_key_that_the_profile_looks_up(tmp_path: Path) -> None:
    machine, profile = load_config("mi210"), load_runtime("torch_rocm")
    timer = OperationTimer(*with_values(machine, profile, {"runtime.launch_ns.layernorm": 60_000.0}))
    lines = ["class,op,m,n,bytes,measured"]
    for m in (1, 16, 64, 256, 1024, 4096, 8192, 16384, 32768):
        moved = 4.0 * m * 4096
        lines.append(
            f"norm,layernorm,{m},4096,{moved},{timer.time(Vector('layernorm', 'norm', m, 4096, moved, 0.0)).ns / 1e3!r}"
        )
    file = tmp_path / "own.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = {one.constant.path: one for one in calibrate(file, machine, profile).fitted.constants}
    launch = found["runtime.launch_ns.layernorm"]
    assert launch.before == float(profile.launch_ns["layernorm"])
    assert launch.value == pytest.approx(60_000, rel=0.03)


def test_a_launch_without_a_key_of_its_own_stays_near_the_default_of_the_profile() -> None:
    """The host takes 1 % of the time of these operations, and their noise is 5 %."""
    machine, profile = load_config("mi210"), load_runtime("torch_rocm")
    timer = OperationTimer(machine, profile, simulate=False)

    def case(m: int, noise: float) -> Case:
        op = Vector("silu", "elementwise", m, 65536, 4.0 * m * 65536, 0.0)
        took = timer.time(op).ns * noise
        return Case(f"{m}", "silu", took, "ns", None, 0.0, 0.0, 1.0, lambda one: one.time(op).ns, operation=op)

    cases = [case(m, 0.95 if m % 2 else 1.05) for m in range(4000, 4012)]
    found = fit(cases, machine, profile, constants_for(cases, machine, profile))
    launch = next(one for one in found.constants if one.constant.path == "runtime.launch_ns.elementwise")
    assert launch.before == profile.launch_ns["default"] == pytest.approx(launch.value, rel=0.1)


def test_nodes_are_calibrated_by_rows_that_cross_their_network() -> None:
    machine, profile = load_config("a100"), load_runtime("nccl_events")
    planted = {"chip.nic_gb_s": 0.4 * float(machine.chip.nic_gb_s), "chip.network_latency_ns": 9000.0}
    timer = OperationTimer(*with_values(machine, profile, planted), simulate=False)

    def case(size: int, workers: int) -> Case:
        op = Collective("all_reduce", workers, size, node=4)
        return Case("", op.name, timer.time(op).ns, "ns", None, 0.0, 0.0, 1.0, lambda one: one.time(op).ns, operation=op)

    cases = [case(1 << size, workers) for size in range(10, 31) for workers in (8, 16)]
    constants = constants_for(cases, machine, profile)
    assert not {"chip.links_share", "chip.link_latency_ns"} & {one.path for one in constants}
    found = {one.constant.path: one.value for one in fit(cases, machine, profile, constants).constants}
    for path, value in planted.items():
        assert found[path] == pytest.approx(value, rel=0.1), path
    inside = [case(1 << size, 4) for size in range(10, 20)]
    assert {one.path for one in constants_for(inside, machine, profile)} >= {"chip.links_share", "chip.link_latency_ns"}


def test_bytes_in_flight_limit_a_long_norm_and_not_the_start_of_its_kernel() -> None:
    """Without `thread_bytes`, the fit would explain the time of long norms by the rate of DRAM, or by long starts."""
    planted = {"runtime.ops.norm.thread_bytes": 1.5}
    timer = OperationTimer(*with_values(START, PROFILE, planted), simulate=False)

    def case(m: int) -> Case:
        op = Vector("norm", "norm", m, 4096, 16.0 * m * 4096, 0.0)
        return Case(f"{m}", "norm", timer.time(op).ns, "ns", None, 0.0, 0.0, 1.0, lambda one: one.time(op).ns, operation=op)

    cases = [case(m) for m in (64, 128, 256, 512, 1024, 2048, 4096, 8192)]
    found = fit(cases, START, PROFILE, constants_for(cases, START, PROFILE))
    values = {one.constant.path: one for one in found.constants}
    assert values["runtime.ops.norm.thread_bytes"].value == pytest.approx(1.5, rel=0.1)
    assert values["dram.peak_bw_bytes_per_cycle"].value == pytest.approx(float(START.dram.peak_bw_bytes_per_cycle), rel=0.1)
    assert values["runtime.ops.norm.start_ns"].value < 500


def test_no_fit_reaches_more_than_the_rated_bandwidth() -> None:
    """Rows that are twice as fast as DRAM allows, such as those of sequences that share their keys."""
    timer = OperationTimer(START, PROFILE, simulate=False)

    def case(k: int) -> Case:
        op = Product(1, 8192, k)
        took = timer.time(op).ns / 2
        return Case(f"{k}", "matmul", took, "ns", None, 0.0, 0.0, 1.0, lambda one: one.time(op).ns, operation=op)

    cases = [case(k) for k in range(4096, 20480, 2048)]
    found = fit(cases, START, PROFILE, constants_for(cases, START, PROFILE))
    rate = next(one.value for one in found.constants if one.constant.path == "dram.peak_bw_bytes_per_cycle")
    assert START.chip is not None
    assert 0.99 < rate * float(START.freq_ghz / START.chip.rated_memory_gb_s) < 1.0001


def test_large_products_with_noise_leave_the_start_of_small_ones_at_the_value_of_the_file() -> None:
    """Large products hardly depend on the start of a kernel. Rows with noise of 5 % must not decide it."""
    true = with_values(START, PROFILE, {"te.macs_per_cycle": 0.8 * float(START.te.macs_per_cycle)})
    rows = [(m, n) for m in (3000, 4000, 5000, 6000) for n in (4096, 8192, 14336)]
    small = [(m, n) for m in (1, 16, 64) for n in (1024, 4096)]
    timer = OperationTimer(*true, simulate=False)

    def case(m: int, n: int, noise: float) -> Case:
        op = Product(m, n, 4096)
        took = timer.time(op).ns * noise
        return Case(f"{m} {n}", "matmul", took, "ns", None, 0.0, 0.0, 1.0, lambda one: one.time(op).ns, operation=op)

    cases = [case(m, n, 0.95 if i % 2 else 1.05) for i, (m, n) in enumerate(rows)]
    found = fit(cases, START, PROFILE, constants_for(cases, START, PROFILE))
    rate = next(one for one in found.constants if one.constant.path == "te.macs_per_cycle")
    assert rate.value == pytest.approx(float(true[0].te.macs_per_cycle), rel=0.05)
    held = [case(m, n, 1.0) for m, n in small]
    assert max(relative_errors(held, predictions(held, found.machine, found.runtime))) < 0.15


def test_products_of_a_tensix_chip_are_fitted_and_traced_rows_do_not_decide_launches(tmp_path: Path) -> None:
    machine, profile = load_config("wormhole_n150"), load_runtime("ttnn")
    planted = {"runtime.launch_ns.matmul_by_hand": 150_000.0, "te.macs_per_cycle": 0.7 * float(machine.te.macs_per_cycle)}
    lines = ["class,op,m,n,k,dtype,fidelity,use_trace,measured"]
    shapes = [*((size, size, size) for size in (512, 1024, 2048, 4096, 8192)), (2048, 8192, 4096)]
    lines += [f"matmul,matmul,{m},{n},{k},BFLOAT16,HiFi2,{traced},1" for m, n, k in shapes for traced in (0, 1)]
    file = tmp_path / "gemm.csv"
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    cases, _, _ = _cases(file, file.read_text(encoding="utf-8"), machine)
    took = predictions(cases, *with_values(machine, profile, planted))
    lines[1:] = [f"{line.removesuffix(',1')},{ours!r}" for line, ours in zip(lines[1:], took, strict=True)]
    file.write_text("\n".join(lines) + "\n", encoding="utf-8")
    found = calibrate(file, machine, profile)
    values = {one.constant.path: one.value for one in found.fitted.constants}
    for path, value in planted.items():
        assert values[path] == pytest.approx(value, rel=0.05), (path, found.choice.decisions)
    assert found.after[1] < 0.03 < found.before[1]
    traced = [case for case in cases if case.traced]
    assert len(traced) == 6 and all("host" not in case.causes(OperationTimer(machine, profile)) for case in traced)
