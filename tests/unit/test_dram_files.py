"""Devices and policies of DRAM: every value has a source, nanoseconds become clocks, and each key of a policy works."""

from __future__ import annotations

import importlib.resources
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest

from kernbench import Machine, load_config, load_program
from kernbench.config import NpuConfig
from kernbench.config.commented import commented_yaml
from kernbench.config.dram_controller import DERIVED, REQUIRED, DramController, map_fields
from kernbench.config.dram_files import DEVICES, device_names, policy_names, read_dram_file
from kernbench.sim_engine.result import Result
from kernbench.sweep.machines import Machines

SOURCE = re.compile(r"JESD\d+|Micron|assumed|\d+ bits at")


def text_of(folder: str, name: str) -> str:
    return (importlib.resources.files("kernbench.configs") / folder / f"{name}.yaml").read_text(encoding="utf-8")


def machine(*keys: str, **dram: Any) -> NpuConfig:
    given = {"channels": 1, "capacity_bytes": "1 GiB", **dram}
    dma = {"max_concurrent_transfers": 16, "channels": {"act_weight": {"max_concurrent": 16}}, "alignment_bytes": 32}
    spm = {"num_banks": 64, "bank_width_bytes": 64, "bank_size_bytes": "64 KiB", "ports": 64}
    return load_config({"allocation": "row_buffer_v2", "dram": given, "dma": dma, "spm": spm}, keys, kind=NpuConfig)


def load(address: int, size: int, store: bool = False) -> dict[str, Any]:
    entry = {"opcode": "DMA_STORE_TILE" if store else "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8}
    return entry | {"dram_addr": address, "num_elements": size, "spm_bank": 0, "spm_offset": 0}


def run(config: NpuConfig, *entries: dict[str, Any]) -> Result:
    made = Machine(config, load_program({"metadata": {"version": "1.0", "name": "devices"}, "cmdq": list(entries)}))
    made.run()
    assert made.status == "done"
    return made.result()


def test_these_are_the_devices() -> None:
    kinds = {name.partition("_")[0] for name in device_names()}
    assert kinds == {"ddr4", "ddr5", "lpddr4x", "lpddr5", "gddr6", "gddr6x", "hbm2", "hbm2e", "hbm3", "hbm3e"}


@pytest.mark.parametrize("name", device_names())
def test_every_value_of_a_device_says_where_it_comes_from(name: str) -> None:
    lines = text_of(DEVICES, name).partition("\nclock_ghz")[2].splitlines()
    for line in lines:
        if line != "controller:":
            assert SOURCE.search(line.partition("#")[2].strip()), line


@pytest.mark.parametrize("name", device_names())
def test_the_peak_of_a_device_is_that_of_its_pins(name: str) -> None:
    device = read_dram_file(DEVICES, name)
    found = machine(device=name)
    assert found.freq_ghz == 1 and found.dram.capacity == device.peak_gb_per_s  # bytes a cycle of 1 ns
    assert set(REQUIRED) <= set(device.controller) <= {*REQUIRED, *DERIVED, "t_rtw"}


@pytest.mark.parametrize("name", device_names())
def test_a_stream_reaches_most_of_the_peak(name: str) -> None:
    """Half a MiB, with queues that reach the next rows; what is lost is mostly refresh."""
    config = machine(device=name, policy="throughput")
    size = 512 << 10
    rate = Fraction(size, run(config, load(0, size)).cycles)
    assert rate > config.dram.capacity * Fraction(85, 100)


def test_nanoseconds_become_whole_clocks() -> None:
    """JESD79-4, 3200AA: 13.75 ns are 22 clocks of 0.625 ns, 32 ns are 51.2 and so 52, 4.9 ns are 7.84 and so 8."""
    found = machine(device="ddr4_3200").dram.controller
    assert found is not None
    assert (found.t_rcd, found.t_ras, found.t_rrd_l, found.t_faw, found.t_refi) == (22, 52, 8, 34, 12480)
    assert found.clock == Fraction(5, 8)


@pytest.mark.parametrize(
    ("device", "turn", "t_wtr_l"),
    [
        ("ddr5_4800", 4, 24),  # 2 CK and a preamble of 2 CK; max(16 CK, 10 ns)
        ("lpddr5_6400", 2, 12),  # 12 ns, from BL/n_max, which is two CK behind BL/n_min
        ("hbm3_6400", 4, 20),  # in half clocks: 2 CK; 6 ns
    ],
)
def test_the_data_bus_turns_as_the_standard_says(device: str, turn: int, t_wtr_l: int) -> None:
    """RD to WR: the difference of latencies, the burst and `turn`; and WR to RD of one group, from the end of the burst."""
    found = machine(device=device).dram.controller
    assert found is not None
    values = found.values()
    assert values["t_rtw"] == values["t_cl"] - values["t_cwl"] + values["t_bl"] + turn
    assert values["t_wtr_l"] == t_wtr_l


@pytest.mark.parametrize(("freq", "clock"), [("1.6", Fraction(1)), ("1.41", Fraction(141, 160)), ("3/2", Fraction(15, 16))])
def test_the_clock_follows_from_that_of_the_core(freq: str, clock: Fraction) -> None:
    found = machine(f"freq_ghz={freq}", device="ddr4_3200").dram.controller
    assert found is not None and found.clock == clock


def test_a_machines_own_keys_go_before_its_policy_and_that_before_its_device() -> None:
    config = machine("dram.controller.t_cl=30", device="ddr4_3200", policy="throughput", controller={"cap": 5})
    found = config.dram.controller
    assert found is not None
    assert (found.t_cl, found.cap, found.read_queue, found.t_cwl) == (30, 5, 64, 16)
    origin = {path: where for path, _, where in config.effective()}
    assert origin["dram.controller.t_cl"] == "override" and origin["dram.controller.cap"] == "given"
    assert re.fullmatch(r"throughput\.yaml:\d+:\d+", origin["dram.controller.read_queue"])
    assert re.fullmatch(r"ddr4_3200\.yaml:\d+:\d+", origin["dram.controller.t_cwl"])
    assert re.fullmatch(r"ddr4_3200\.yaml:\d+:\d+", origin["dram.controller.clock"])


def test_what_a_machine_writes_is_read_back_as_the_same() -> None:
    config = machine(device="hbm3_6400", policy="hashed")
    again = load_config(config.to_dict())
    assert again == config and again.digest() == config.digest()


def test_another_device_policy_or_frequency_fills_in_its_own_whatever_the_machine_was_made_from() -> None:
    """A sweep changes what `to_dict` says of a machine; what the machine itself gives stays."""
    base = machine(device="gddr6_14000", policy="throughput", controller={"cap": 5}).to_dict()
    for change in ({"dram.device": "ddr5_4800"}, {"dram.policy": "random"}, {"freq_ghz": "1.5"}, {"dram.device": "hbm3_6400"}):
        from_file = machine(*(f"{key}={value}" for key, value in change.items()), device="gddr6_14000", policy="throughput",
                            controller={"cap": 5})  # fmt: skip
        assert load_config(base, change) == from_file
    plain = machine(device="ddr4_3200").to_dict()
    assert load_config(plain, {"dram.policy": "random"}).dram.controller.page == "closed"


def test_points_of_a_sweep_have_the_device_that_they_name() -> None:
    """And the clock of their frequency: sections of such a machine are not taken from other points."""
    points = Machines("mine", machine(device="gddr6_14000").to_dict())
    for device, freq in (("gddr6_14000", "1"), ("ddr5_4800", "1"), ("ddr5_4800", "2"), ("gddr6_14000", "2")):
        settings = [("dram.device", device), ("freq_ghz", freq)]
        wanted = machine(f"freq_ghz={freq}", device=device)
        assert points.at(settings) == (wanted, wanted.digest())
        assert points.again(settings) == wanted


def test_a_machine_to_edit_leaves_to_its_device_what_that_fills_in(tmp_path: Path) -> None:
    """Else a device that is named later would change nothing."""
    config = machine(device="hbm3_6400", policy="hashed", controller={"cap": 5})
    file = tmp_path / "mine.yaml"
    file.write_text(commented_yaml(config), encoding="utf-8")
    assert load_config(file) == config
    other = load_config(file, ["dram.device=ddr5_4800"])
    assert other == machine("dram.device=ddr5_4800", device="hbm3_6400", policy="hashed", controller={"cap": 5})
    assert other.dram.controller.t_bl == 8 and other.dram.controller.cap == 5


@pytest.mark.parametrize("policy", policy_names())
@pytest.mark.parametrize("device", device_names())
def test_every_policy_goes_with_every_device_that_has_its_times(policy: str, device: str) -> None:
    if policy == "per_bank_refresh" and "t_rfc_pb" not in read_dram_file(DEVICES, device).controller:
        return  # refused: tests/golden/test_controller_refusals.py
    config = machine(device=device, policy=policy)
    assert config.dram.controller is not None
    map_fields(config.dram.controller.values())


#: What a program is to show: the bursts of a row in turn, gathers of single bursts, a copy, streams that meet in one bank.
PROGRAMS: dict[str, list[dict[str, Any]]] = {
    "stream": [load(0, 64 << 10)],
    "gather": [load(k * 7919 * 64 % (1 << 28), 64) for k in range(256)],
    "copy": [load(0, 64 << 10), load(1 << 27, 64 << 10, store=True)],
    "streams": [load(k << 17, 16 << 10) for k in range(4)],
    "pieces": [load(k * 7919 * 4096 % (1 << 26), 512) for k in range(96)],
    "group": [load(0, 64), load(1 << 15, 64)],
    "row": [load(0, 64), load(256, 64) | {"deps_before": [0]}],
}


TIMES = ["t_rcd", "t_cl", "t_rp", "t_ras", "t_rrd_s", "t_rrd_l", "t_faw", "t_ccd_s", "t_ccd_l", "t_rfc"]


@pytest.mark.parametrize("key", TIMES)
def test_a_longer_time_of_the_device_takes_longer(key: str) -> None:
    """Each on a program that meets it."""
    met = {"t_ccd_s": "stream", "t_ccd_l": "stream", "t_cl": "stream", "t_rfc": "streams", "t_rrd_l": "group"}
    program = PROGRAMS[met.get(key, "gather")]
    plain = machine("dram.controller.t_refi=3000", device="ddr4_3200")
    assert plain.dram.controller is not None
    value = getattr(plain.dram.controller, key)
    longer = machine("dram.controller.t_refi=3000", f"dram.controller.{key}={4 * value}", device="ddr4_3200")
    assert run(longer, *program).cycles > run(plain, *program).cycles


@pytest.mark.parametrize("key", ["t_wr", "t_wtr_s", "t_wtr_l", "t_rtp", "t_rtw"])
def test_a_longer_time_between_reads_and_writes_takes_longer(key: str) -> None:
    program = [one for k in range(24) for one in (load(k << 20, 64), load((k << 20) + (1 << 27), 64, store=True))]
    small = ("dram.controller.write_queue=2", "dram.controller.read_queue=2")
    plain = machine(*small, device="ddr4_3200")
    longer = machine(*small, f"dram.controller.{key}=200", device="ddr4_3200")
    assert run(longer, *program).cycles > run(plain, *program).cycles


#: A key, two values of it, and the program by which they differ.
CHOICES: list[tuple[str, Any, Any, str]] = [
    ("scheduler", "fcfs", "fr_fcfs", "streams"),
    ("scheduler", "oldest_ready", "oldest_ready_hits", "pieces"),
    ("cap", 1, 64, "streams"),
    ("page", "open", "closed", "gather"),
    ("page", "closed", "adaptive", "row"),
    ("idle_clocks", 1, 400, "row"),
    ("map", "row bank group column", "row column bank group", "streams"),
    ("hash", [], ["group^row", "bank^row"], "streams"),
    ("refresh", "all_bank", "none", "stream"),
    ("postpone", 0, 8, "stream"),
    ("read_queue", 4, 64, "streams"),
    ("write_queue", 4, 64, "copy"),
    ("write_high", 8, 30, "copy"),
    ("write_low", 1, 20, "copy"),
    ("read_buffer_bytes", 128, 8192, "stream"),
    ("command_buses", 1, 2, "gather"),
    ("act_clocks", 1, 4, "gather"),
    ("pre_clocks", 1, 8, "streams"),
    ("column_clocks", 1, 6, "stream"),
    ("pseudo_channels", 1, 2, "stream"),
    ("t_ccd_l_wr", 8, 40, "copy"),
    ("t_rcd_wr", 22, 90, "copy"),
]


@pytest.mark.parametrize(("key", "one", "other", "program"), CHOICES, ids=[f"{key}-{a}-{b}" for key, a, b, _ in CHOICES])
def test_a_key_of_a_policy_or_device_changes_a_run(key: str, one: Any, other: Any, program: str) -> None:
    """None is a key that does nothing."""
    base: dict[str, Any] = {"t_ras": 30} if program == "row" else {}  # the row may be closed before it is wanted again
    base |= {"page": "adaptive"} if key == "idle_clocks" else {}
    cycles = []
    for value in (one, other):
        config = machine(device="ddr4_3200", controller={"t_refi": 3000, **base, key: value})
        result = run(config, *PROGRAMS[program])
        cycles.append((result.cycles, result.to_dict()["counters"]["dram.ch0"]))
    assert cycles[0] != cycles[1]


def test_ranks_share_the_bus_with_a_gap() -> None:
    """Neighbouring bursts in two ranks, served in order: a gap on the bus between each two."""
    ranks = {"ranks": 2, "map": "row bank column group rank", "refresh": "none", "scheduler": "fcfs"}
    gaps = [run(machine(device="ddr4_3200", controller=ranks | {"t_rtrs": gap}), load(0, 64 << 10)).cycles for gap in (1, 6)]
    assert gaps[1] - gaps[0] > 1024 * 4 * Fraction(5, 8)


def test_refresh_of_one_bank_leaves_the_others_to_go_on() -> None:
    """A stream over several refreshes loses more to those of all banks."""
    program = PROGRAMS["stream"]
    every = run(machine(device="lpddr4x_4266", controller={"refresh": "all_bank"}), *program).cycles
    single = run(machine(device="lpddr4x_4266", controller={"refresh": "per_bank"}), *program).cycles
    none = run(machine(device="lpddr4x_4266", controller={"refresh": "none"}), *program).cycles
    assert none < single < every


def test_keys_of_controllers_are_those_that_this_page_tries() -> None:
    """A new key of a policy needs a line above."""
    tried = {key for key, *_ in CHOICES}
    rules = {name for name, field in DramController.model_fields.items() if field.default is not None}
    assert rules <= tried
