"""What is said of a machine is what runs use: rates of the timing, and values that have no effect."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernbench.config import load_config, preset_names
from kernbench.config.effects import unused_settings, unused_values
from tests.cli.conftest import Kbsim

ARRAY = ("--set", "te.timing=systolic", "--set", "te.rows=128", "--set", "te.cols=128", "--set", "te.dataflow=ws")
PE_ARRAY = tuple(text.replace("te.", "pe.te.") for text in ARRAY)


@pytest.mark.parametrize(
    ("machine", "settings", "fact"),
    [
        ("npu_server", (), "TE 4 x 16,384 MAC,"),
        ("npu_mobile", ARRAY, "TE 2 x 16,384 MAC,"),
        ("npu_mobile", ("--set", "te.f_w.8=2"), "TE 2 x 4,096 MAC,"),
        ("single_cube", PE_ARRAY, "TE 8 x 16,384 MAC\n"),
    ],
)
def test_config_check_says_what_the_engines_do(machine: str, settings: tuple[str, ...], fact: str, kbsim: Kbsim) -> None:
    """`timing: systolic` was told with `te.macs_per_cycle`, which it does not use."""
    assert fact in kbsim("config", "check", machine, *settings).out


def test_topology_says_it_too(kbsim: Kbsim) -> None:
    assert "TE 1 x 16,384 MAC" in kbsim("topology", "show", "-c", "single_cube", *PE_ARRAY).out
    assert kbsim("topology", "draw", "-c", "single_cube", *PE_ARRAY, "--view", "pe", "--out", "pe.svg").code == 0
    assert "1 x 16,384 MAC" in Path("pe.svg").read_text()


def test_the_bound_of_a_model_is_that_of_the_cells(kbsim: Kbsim) -> None:
    """32 x 32 cells in each of two engines."""
    small = [text.replace("128", "32") for text in ARRAY]
    brief = ("llm", "-m", "llama2-7b", "-c", "npu_mobile", "--phase", "prefill", "--prompt", "4", "--layers", "1", "--json")
    found = [json.loads(kbsim(*brief, *small, "--set", f"te.macs_per_cycle={macs}").out) for macs in (16, 2048)]
    assert found[0] == found[1]
    phase = found[0]["phases"]["prefill"]
    assert phase["mac_bound"]["cycles"] == pytest.approx(phase["macs"] / 2048, rel=0.01)


CAPPED = (
    "warning: override dram.peak_bw_bytes_per_cycle={0}: dram.peak_bw_bytes_per_cycle = {0} has no effect: the bus moves "
    "dram.bus_width_bytes / dram.dram_burst_cycles = 32 bytes per cycle, and no more; widen the bus or shorten its bursts\n"
)
SYSTOLIC = (
    "warning: override te.macs_per_cycle=4096: te.macs_per_cycle = 4096 has no effect: te.timing is systolic, whose rows and "
    "columns decide; set te.rows and te.cols\n"
)


def settings(*texts: str) -> tuple[str, ...]:
    return tuple(word for text in texts for word in ("--set", text))


@pytest.mark.parametrize("peak", [36, 50, 64])
def test_a_peak_above_the_bus_is_told(peak: int, kbsim: Kbsim) -> None:
    """Peaks of 36, 50 and 64 bytes per cycle gave one result on `npu_mobile`, without a word."""
    asked = settings(f"dram.peak_bw_bytes_per_cycle={peak}")
    assert kbsim("config", "check", "npu_mobile", *asked).err == CAPPED.format(peak)
    checked = json.loads(kbsim("config", "check", "npu_mobile", *asked, "--json").out)
    (warning,) = checked["warnings"]
    assert (warning["path"], warning["value"], f"warning: {warning['message']}\n") == (
        "dram.peak_bw_bytes_per_cycle",
        peak,
        CAPPED.format(peak),
    )
    decode = "llama2-7b-decode"
    for command in (("run", decode), ("program", "show", decode), ("run", "vector_add", "--set", "n=64")):
        said = kbsim(*command, "-c", "npu_mobile", *asked)
        assert (said.code, said.err) == (0, CAPPED.format(peak))
    assert kbsim("run", "llama2-7b-decode", "-c", "npu_mobile", *asked, "-q") == (0, "", "")
    as_json = kbsim("run", "llama2-7b-decode", "-c", "npu_mobile", *asked, "--json")
    assert as_json.err == CAPPED.format(peak) and json.loads(as_json.out)["warnings"] == []


def test_a_peak_that_the_bus_reaches_is_not(kbsim: Kbsim) -> None:
    for peak in (17, 32):
        assert kbsim("config", "check", "npu_mobile", *settings(f"dram.peak_bw_bytes_per_cycle={peak}")).err == ""


def test_keys_that_systolic_timing_does_not_use(kbsim: Kbsim) -> None:
    said = kbsim("config", "check", "npu_server", *ARRAY, *settings("te.macs_per_cycle=4096"))
    assert (said.code, said.err) == (0, SYSTOLIC) and "TE 4 x 16,384 MAC" in said.out
    tables = kbsim("config", "check", "npu_server", *ARRAY, *settings("te.f_w.4=3", "te.f_a.8=2")).err
    assert "te.f_w = {'4': 3} has no effect" in tables and "te.f_a = {'8': 2} has no effect" in tables
    assert kbsim("config", "check", "npu_server", *ARRAY).err == ""  # what the preset says of them is not the user's
    brief = ("llm", "-c", "npu_server", "--phase", "decode", "--layers", "1", "--prompt", "8", "--tokens", "1", *ARRAY)
    for more in ((), ("--compare", "kv=8,4")):
        assert kbsim(*brief, *settings("te.macs_per_cycle=4096"), *more, "--json").err == SYSTOLIC


def test_files_and_dicts_are_the_users(kbsim: Kbsim) -> None:
    Path("peak.yaml").write_text("dram:\n  peak_bw_bytes_per_cycle: 64\n", encoding="utf-8")
    said = kbsim("config", "check", "peak.yaml")
    assert said.err == (
        "warning: peak.yaml:2:28: dram.peak_bw_bytes_per_cycle = 64 has no effect: the bus moves dram.bus_width_bytes / "
        "dram.dram_burst_cycles = 16 bytes per cycle, and no more; widen the bus or shorten its bursts\n"
    )
    (told,) = unused_settings(load_config({"dram": {"peak_bw_bytes_per_cycle": 64}}))
    assert (told.where, told.path, told.value) == ("machine", "dram.peak_bw_bytes_per_cycle", 64)
    assert unused_settings(load_config({})) == []  # the default's peak is above its bus


def test_what_a_file_says_of_bus_and_peak_together_is_no_mistake(kbsim: Kbsim) -> None:
    """The larger one of the two says how the part is made."""
    Path("both.yaml").write_text(
        "dram: {bus_width_bytes: 128, dram_burst_cycles: 1, peak_bw_bytes_per_cycle: 102.4}\n", encoding="utf-8"
    )
    assert kbsim("config", "check", "both.yaml").err == ""
    said = kbsim("config", "check", "both.yaml", *settings("dram.bus_width_bytes=256")).err
    assert said == (
        "warning: override dram.bus_width_bytes=256: dram.bus_width_bytes = 256 has no effect: dram.peak_bw_bytes_per_cycle "
        "(102.4) is less than what the bus moves, 256; raise dram.peak_bw_bytes_per_cycle\n"
    )
    together = settings("dram.bus_width_bytes=256", "dram.peak_bw_bytes_per_cycle=204.8")
    assert kbsim("config", "check", "both.yaml", *together).err == ""


def test_a_key_of_one_rule_has_no_effect_under_another_rule() -> None:
    machine = {"allocation": "row_buffer_v2", "dram": {"device": "hbm2_2000"}}
    keys = {"scheduler=fr_fcfs_cap": "cap=3", "page=adaptive": "idle_clocks=9"}
    for rule, key in keys.items():
        other = {"scheduler=fr_fcfs_cap": "scheduler=fr_fcfs", "page=adaptive": "page=closed"}[rule]
        used, unused = ([f"dram.controller.{one}", f"dram.controller.{key}"] for one in (rule, other))
        assert unused_settings(load_config(machine, used)) == []
        [one] = unused_settings(load_config(machine, unused))
        choice, name = rule.split("=")
        assert one.path == f"dram.controller.{key.partition('=')[0]}"
        assert one.instead == f"set dram.controller.{choice} to {name}"


@pytest.mark.parametrize(
    ("machine", "setting", "why"),
    [
        ("npu_mobile", "dma.queue_depth_per_master=9", "no channel has more than 6 transfers at a time, by its max_concurrent"),
        ("npu_mobile", "dma.max_concurrent_transfers=13", "the channels' max_concurrent add up to 12"),
        ("npu_mobile", "dma.channels.kv_load.max_concurrent=9", "dma.max_concurrent_transfers (8) is reached first"),
        ("npu_mobile", "energy.noc_pj_per_byte_hop=3", "there is no noc"),
        ("npu_mobile", "ve.op_cost.gemm=2", "no op of kernels or command queues is called gemm; use the name that the "),
        ("npu_mobile", "ve.op_cost.softmx=2", "no op of kernels or command queues is called softmx; did you mean softmax?"),
        ("npu_mobile", "ve.sfu.mean=2", "the time of mean has no sfu term; set ve.op_cost.mean"),
        ("single_cube", "pe.ve.sfu.gellu=9", "no op of kernels or command queues is called gellu; did you mean gelu?"),
        ("npu_mobile", "spm.read_ports=50", "at most 36 flows and engines ask a bank at a time"),
        ("single_cube", "cube.hbm.peak_bw_bytes_per_cycle=65", "the bus moves cube.hbm.bus_width_bytes / "),
        ("single_cube", "system.link.cycles=3", "there is one SIP, and no link between SIPs"),
        ("single_cube", "pe.dma.queue_depth_per_master=9", "no channel has more than 6 transfers at a time"),
    ],
)
def test_other_rules(machine: str, setting: str, why: str, kbsim: Kbsim) -> None:
    said = kbsim("config", "check", machine, *settings(setting))
    path, _, value = setting.partition("=")
    assert said.code == 0 and said.err.startswith(f"warning: override {setting}: {path} = {value} has no effect: {why}")
    assert said.err.count("\n") == 1


@pytest.mark.parametrize(
    ("settings_of", "told"),
    [
        (("dram.channels=1", "dram.interleave_bytes=512"), ["dram.interleave_bytes"]),
        (("spm.num_banks=1", "spm.map=blocked"), ["spm.map"]),
        (("allocation=fifo_v1", "dma.channels.kv_load.weight=3"), ["dma.channels.kv_load.weight"]),
        (("spm.read_ports=36", "spm.write_ports=36", "spm.backpressure_cycles=3"), ["spm.backpressure_cycles"]),
        (("spm.read_ports=36", "spm.write_ports=35", "spm.backpressure_cycles=3"), []),
        (("dram.channels=2", "dram.interleave_bytes=512"), []),
        (("dma.queue_depth_per_master=6",), []),
        (("dma.max_concurrent_transfers=12",), []),
    ],
)
def test_values_that_depend_on_each_other(settings_of: tuple[str, ...], told: list[str]) -> None:
    assert [one.path for one in unused_settings(load_config("npu_mobile", settings_of))] == told


def test_presets_have_no_warning() -> None:
    for name in preset_names():
        assert unused_settings(load_config(name)) == []


@pytest.mark.parametrize("name", ["h100", "npu_mobile", "wormhole_n150"])
def test_a_machine_that_init_wrote_has_no_warning(name: str, kbsim: Kbsim) -> None:
    assert kbsim("config", "init", "my.yaml", "--from", name).code == 0
    said = kbsim("config", "check", "my.yaml")
    assert said.code == 0 and "warning" not in said.err
    ports = kbsim("config", "check", "my.yaml", "--set", "spm.read_ports=1000").err
    assert "spm.read_ports = 1000 has no effect" in ports and "fewer than 1\n" not in ports


def test_an_axis_without_effect_is_told(kbsim: Kbsim) -> None:
    Path("s.yaml").write_text(
        "schema: kernbench/sweep/1\nmachine: npu_mobile\ntargets: [tiles.json]\nset: {dma.engines: 2}\n"
        "axes: {dram.peak_bw_bytes_per_cycle: [16, 36, 50, 64], dram.t_setup_cycles: [1, 2]}\n",
        encoding="utf-8",
    )
    said = kbsim("sweep", "run", "s.yaml", "-j", "1")
    assert said.code == 0 and said.err.startswith(
        "warning: dram.peak_bw_bytes_per_cycle = 36, 50, 64 has no effect in 6 of 8 points: the bus moves "
        "dram.bus_width_bytes / dram.dram_burst_cycles = 32 bytes per cycle, and no more; widen the bus or shorten its bursts\n"
    )
    assert "warning" not in kbsim("sweep", "run", "s.yaml", "-j", "1", "-q").err


def test_ops_of_kernels_and_queues_may_have_a_latency(kbsim: Kbsim) -> None:
    text = "ve: {sfu: {sqrt: 3, cyl_bessel_i0: 9}, op_cost: {softmax: 4, mean: 2, sort: 2}}\n"
    Path("ops.yaml").write_text(text, encoding="utf-8")
    assert kbsim("config", "check", "ops.yaml").err == ""


def test_a_misspelled_op_of_a_file_has_its_place(kbsim: Kbsim) -> None:
    """It changed no time, without a word."""
    Path("ops.yaml").write_text("ve:\n  sfu: {exp: 8, sigmiod: 8}\n", encoding="utf-8")
    assert kbsim("config", "check", "ops.yaml").err == (
        "warning: ops.yaml:2:26: ve.sfu.sigmiod = 8 has no effect: no op of kernels or command queues is called sigmiod; did "
        "you mean sigmoid?\n"
    )


@pytest.mark.parametrize("machine", preset_names())
def test_machines_of_kernbench_name_ops(machine: str) -> None:
    assert not [one for one in unused_values(load_config(machine)) if ".sfu." in one.path or ".op_cost." in one.path]
