"""Machines of real chips and runtime profiles of the package."""

from __future__ import annotations

import math
import re
from fractions import Fraction
from pathlib import Path

import pytest

from kernbench.common.errors import InputError
from kernbench.config import chip_names, load_config
from kernbench.config.runtime import load_runtime, runtime_names
from kernbench.config.schema import NpuConfig

ROOT = Path(__file__).parents[2]
CHIPS = chip_names()
TFLOPS = {
    "rtx4090": 165.2, "a100": 312, "a40": 149.7, "a6000": 154.8, "mi210": 181, "tpuv5e": 197, "tpuv6e": 918, "mi300x": 1307,
    "h200": 989, "h100_pcie": 756, "b200": 2250, "a100_40gb": 312, "a100_pcie": 312, "v100": 125, "v100_pcie": 112, "t4": 65,
    "a10": 125, "a10g": 70, "rtx3090": 71.2, "l4": 121, "l40s": 362, "rtx5090": 209.5, "mi250x": 191.5, "mi325x": 1307,
    "mi355x": 2517, "tpuv4": 275, "rtxpro6000": 480, "gaudi3": 1835, "jetson_agx_orin": 42.5,
}  # fmt: skip


def test_every_chip_that_is_promised_is_there() -> None:
    promised = "rtx4090 l40 a100 h100 rtxpro6000 a40 a6000 mi210 mi300x tpuv3 tpuv5e tpuv6e trainium1 trainium2 wormhole_n150"
    assert set(CHIPS) >= {*promised.split(), "gaudi2", "rk3588", "ethos_u55", "ethos_u65"}


@pytest.mark.parametrize("name", CHIPS)
def test_a_chip_sustains_no_more_than_its_rated_rates(name: str) -> None:
    machine = load_config(name)
    chip = machine.chip
    assert machine.te.engines * machine.te.rate(8, 8) <= Fraction(102, 100) * chip.cores * chip.macs(8)
    assert machine.dram.capacity * machine.dram.channels <= Fraction(1001, 1000) * chip.rated_memory_gb_s / machine.freq_ghz


def sustained(machine: NpuConfig, key: str) -> Fraction | float:
    """The share of a vendor's rate that a chip sustains."""
    chip = machine.chip
    assert chip is not None
    if key == "macs_per_cycle":
        return machine.te.engines * machine.te.rate(8, 8) / (chip.cores * Fraction(chip.macs(8)))
    return machine.dram.capacity * machine.dram.channels * machine.freq_ghz / chip.rated_memory_gb_s


@pytest.mark.parametrize("name", CHIPS)
def test_values_taken_over_from_another_chip_are_those_of_its_present_file(name: str) -> None:
    """A comment `assumed: as on CHIP` names where a value comes from."""
    machine = load_config(name)
    assert machine.chip is not None
    text = (ROOT / "configs" / "chips" / f"{name}.yaml").read_text(encoding="utf-8")
    for key, value, share, other in re.findall(r"^ *(\w+): (\S+)  #.*?(share )?assumed: as on (\w+)", text, re.MULTILINE):
        source = load_config(other)
        assert source.chip is not None
        if share:
            assert float(sustained(machine, key)) == pytest.approx(float(sustained(source, key)), abs=0.003), key
        else:
            assert float(value) == float(getattr(source.chip, key)) == float(getattr(machine.chip, key)), key
        assert source.chip.kind == machine.chip.kind
    for key, one, other in re.findall(r"^ *(\w+): .*share assumed: the mean of (\w+) and (\w+)", text, re.MULTILINE):
        mean = (sustained(load_config(one), key) + sustained(load_config(other), key)) / 2
        assert float(sustained(machine, key)) == pytest.approx(float(mean), abs=0.003)


@pytest.mark.parametrize("name", sorted(TFLOPS))
def test_cores_and_clock_give_the_vendors_peak(name: str) -> None:
    chip = load_config(name).chip
    assert math.isclose(2e-3 * float(chip.cores * chip.macs(16) * chip.rated_clock_ghz), TFLOPS[name], rel_tol=0.01)


def test_chips_are_no_part_of_what_a_machine_is_without_them() -> None:
    assert "chip" not in load_config("npu_server").to_dict()


def test_a_limit_of_power_bounds_the_share_of_the_rated_products() -> None:
    chip = load_config("a100").chip
    assert chip is not None and chip.power_w and chip.flop_pj
    rated = 2e9 * chip.cores * float(chip.macs(16)) * float(chip.rated_clock_ghz)  # [FLOP/s]
    clock = float(chip.power_share)  # of the rated one; the voltage falls with it, so an operation takes its square of energy
    watts = clock * rated * clock**2 * float(chip.flop_pj) * 1e-12
    assert 0.5 < clock < 1 and watts == pytest.approx(float(chip.power_w))
    assert chip.model_copy(update={"power_w": chip.power_w * 2}).power_share == 1
    assert chip.model_copy(update={"power_w": None}).power_share == 1


def test_runtime_profiles_are_read() -> None:
    promised = {"none", "kernel_only", "cuda_graph", "torch_eager", "vllm", "trtllm", "ttnn", "ttnn_trace"}
    assert promised <= set(runtime_names())
    for name in runtime_names():
        assert load_runtime(name).about


def test_a_launch_is_looked_up_by_name_then_way_to_call_then_class_then_default() -> None:
    profile = load_runtime("torch_eager")
    assert profile.launch("softmax", "norm") == profile.launch_ns["softmax"]
    assert profile.launch("gelu", "elementwise") == profile.launch("layernorm", "norm") == profile.launch_ns["compiled"]
    assert profile.behind("gelu", "elementwise") == profile.behind_ns["gelu"] != profile.behind_ns["compiled"]
    assert profile.launch("Q_K_V", "matmul") == profile.launch_ns["matmul"]
    assert profile.launch("roll", "elementwise") == profile.launch_ns["default"]
    assert load_runtime("none").launch("gelu", "elementwise") == 0


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("schema: kernbench/runtime/1\nabout: x\nstart: soon\n", ":3:8: start"),
        ("schema: kernbench/runtime/1\nabout: x\nlunch_ns: {}\n", "lunch_ns"),
        ("schema: kernbench/runtime/1\nabout: x\nahead: 0\n", "it must be at least 1"),
        ("schema: kernbench/runtime/1\nabout: x\nmodules: {like: vllm}\n", ":3:17: modules.like"),
        ("schema: kernbench/runtime/1\nabout: x\nmodules: {like: own.yaml}\n", "torch_eager, torch_rocm, torch_sdpa"),
        ("schema: kernbench/runtime/1\nabout: x\nmodules: {like: 3}\n", "modules.like = 3"),
        ("schema: kernbench/runtime/1\nabout: x\nmodules: {like: torch_eagr}\n", "did you mean torch_eager"),
        ("schema: kernbench/runtime/1\nabout: x\nmodules: {norm: [[pow]]}\n", "modules.norm"),
    ],
)
def test_a_wrong_profile_is_refused_with_its_place(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, text: str, said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    file = Path("own.yaml")
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InputError) as refused:
        load_runtime(file)
    assert said in str(refused.value)


def test_a_profile_has_the_modules_of_another_one_except_for_its_own_values() -> None:
    eager, fused, rocm = (load_runtime(name).modules for name in ("torch_eager", "torch_sdpa", "torch_rocm"))
    assert eager is not None and fused is not None and rocm is not None
    assert fused.model_copy(update={"attention": "products", "repeat": eager.repeat, "output": eager.output}) == eager
    assert rocm.model_copy(update={"launch_ns": eager.launch_ns}) == eager and rocm.launch_ns != eager.launch_ns


def test_a_kernel_of_a_step_has_the_launch_of_its_class_in_modules() -> None:
    eager, vllm = load_runtime("torch_eager"), load_runtime("vllm")
    assert eager.modules is not None
    assert eager.step_launch("bmm", "matmul") == eager.modules.launch_ns["matmul"] != eager.launch("bmm", "matmul")
    assert eager.step_launch("pow", "elementwise") == eager.modules.launch_ns["default"]
    assert vllm.step_launch("softmax", "norm") == vllm.launch("softmax", "norm")


def test_a_profile_that_is_not_there_is_refused_with_the_nearest() -> None:
    with pytest.raises(InputError, match="did you mean torch_eager"):
        load_runtime("torch_eagr")


#: chips of one die, the first with a measurement (gpu-benches), and what a dependent load takes there in ns
DIES = {
    "GA100": (("a100", "a100_40gb", "a100_pcie"), 552 / 1.41),
    "GA102": (("a40", "a6000", "a10", "a10g", "rtx3090"), 555 / 1.74),
    "AD102": (("l40", "l40s", "rtx4090"), 624 / 2.49),
    "GH100": (("h100", "h200", "h100_pcie"), 684 / 1.98),
    "MI210": (("mi210", "mi250x"), 668 / 1.7),
}


@pytest.mark.parametrize("die", DIES)
def test_chips_of_one_die_have_its_measured_latencies(die: str) -> None:
    """Cores and caches have one clock, so that the latency of the cache is a number of cycles; that of DRAM is a time."""
    names, dram_ns = DIES[die]
    machines = [load_config(name) for name in names]
    assert len({one.chip.cache_latency_cycles for one in machines if one.chip}) == 1
    for name, one in zip(names, machines, strict=True):
        assert one.dram.t_setup_cycles / float(one.freq_ghz) == pytest.approx(dram_ns, rel=0.04), name
