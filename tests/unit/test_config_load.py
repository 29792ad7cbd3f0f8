"""Machines: defaults, files, dicts, overrides, origins, and refusals with their place."""

# ruff: noqa: E501  (messages stand in one piece, so that they can be searched for)
from __future__ import annotations

import json
import pickle
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from kernbench.cmdq import load_program
from kernbench.common.errors import InputError
from kernbench.config import NpuConfig, load_config, machine_json_schema, preset_names
from kernbench.config import document as document_module
from kernbench.config.rules import link_weight
from kernbench.config.section import ValidationError
from kernbench.topology.mesh import mesh_route
from tests.schemas import validator_of

FORMATS_DEFAULTS = """
schema: kernbench/npu/1
freq_ghz: 1.0
allocation: shared_bw_v1
max_cycles: 100000000
control: {issue_width: 0}
dma:
  engines: 1
  max_concurrent_transfers: 4
  queue_depth_per_master: 8
  alignment_bytes: 64
  kv_load_bonus: 1
  channels:
    act_weight: {max_concurrent: 4, priority: 0, weight: 1}
    kv_load:    {max_concurrent: 4, priority: 0, weight: 1}
    kv_store:   {max_concurrent: 4, priority: 0, weight: 1}
dram:
  channels: 1
  interleave_bytes: 256
  capacity_bytes: 1 GiB
  bus_width_bytes: 64
  dram_burst_cycles: 4
  peak_bw_bytes_per_cycle: 128
  t_setup_cycles: 0
noc:
  kind: mesh
  rows: 2
  cols: 4
  link_bytes_per_cycle: 64
  hop_latency_cycles: 2
  dma_at: [[1, 0]]
  dram_at: [[0, 0]]
spm:
  num_banks: 16
  bank_size_bytes: 64 KiB
  bank_width_bytes: 16
  map: interleaved
  ports: 1
  conflict_penalty_cycles: 1
  max_wait_cycles: 8
  backpressure_cycles: 8
  check_overlap: none
te: {engines: 2, macs_per_cycle: 4096, f_w: {8: 1, 4: 1.5, 2: 2}, f_a: {8: 1, 4: 1.1}, init_cycles: 8, finalize_cycles: 4,
     spm_traffic: true}
ve: {engines: 2, lanes: 64, ops_per_lane: 1, f_a: {8: 1}, init_cycles: 8, finalize_cycles: 4, reduction_pipeline: 8,
     sfu: {exp: 0, rsqrt: 0, gelu: 0, tanh: 0, sigmoid: 0, silu: 0}, spm_traffic: true}
kv_layouts: [{t_max: 2048, head_dim: 128}]
energy: {dram_pj_per_byte: 20, noc_pj_per_byte_hop: 1, spm_pj_per_byte: 1, mac_pj: {8: 0.2}, ve_op_pj: 0.5, static_mw: 0}
"""


def write(tmp_path: Path, text: str, name: str = "m.yaml") -> Path:
    file = tmp_path / name
    file.write_text(text)
    return file


def refused(source: Any, overrides: Any = ()) -> str:
    with pytest.raises(InputError) as caught:
        load_config(source, overrides)
    return str(caught.value)


def refused_text(tmp_path: Path, text: str) -> str:
    file = write(tmp_path, text)
    return refused(file).replace(str(file), "m.yaml")


def test_the_defaults_are_those_of_formats_md(tmp_path: Path) -> None:
    written = load_config(write(tmp_path, FORMATS_DEFAULTS))
    assert written == load_config({"noc": {}})
    assert load_config({}).noc is None
    assert load_config({}) != written


def test_values_are_exact() -> None:
    config = load_config({"te": {"f_w": {"4": 1.1}}, "dram": {"peak_bw_bytes_per_cycle": 10.1}})
    assert config.te.rate(4, 4) == 4096 * Fraction(11, 10) * Fraction(11, 10)
    assert config.te.rate(1, 1) == 4096  # factors that are missing are 1
    assert config.dram.capacity == Fraction(101, 10)


def test_capacity_of_a_channel() -> None:
    assert load_config({"dram": {"bus_width_bytes": 32, "dram_burst_cycles": 12, "peak_bw_bytes_per_cycle": 64}}).dram.capacity == Fraction(8, 3)
    assert load_config({"dram": {"period": 3}}).dram.capacity == Fraction(16, 3)


@pytest.mark.parametrize(
    "source", [{}, {"noc": {}}, {"spm": {"read_ports": 1, "write_ports": 2}}, {"freq_ghz": "1/3", "te": {"f_w": {}}}]
)
def test_to_dict_loads_as_the_same_machine(source: dict[str, Any]) -> None:
    config = load_config(source)
    again = load_config(json.loads(json.dumps(config.to_dict())))
    assert again == config
    assert again.digest() == config.digest()
    assert hash(again) == hash(config)
    assert pickle.loads(pickle.dumps(config)) == config
    validator_of(machine_json_schema).validate(config.to_dict())


def test_digest_is_stable_and_tells_machines_apart() -> None:
    assert load_config({}).digest() == "7f3711b2f27ba0e492d30334357bbe7caa1b384d0e1ae29933e437feb016a3c9"
    assert load_config({"dram": {"channels": 2}}).digest() != load_config({}).digest()
    assert load_config({"te": {"f_w": {8: 1, 4: 1.5, 2: 2}}}).digest() == load_config({}).digest()


def test_a_machine_does_not_change() -> None:
    config = load_config({})
    with pytest.raises(ValidationError):
        config.dram.channels = 2


def test_json_and_yaml_are_both_read(tmp_path: Path) -> None:
    assert load_config(write(tmp_path, '{"dram": {"channels": 2}}', "m.json")) == load_config({"dram": {"channels": 2}})
    assert load_config(str(write(tmp_path, "dram: {channels: 2}", "m.yml"))) == load_config({"dram": {"channels": 2}})


def test_a_table_replaces_the_default_one() -> None:
    assert load_config({"te": {"f_w": {4: 2}}}).te.f_w == {4: 2}
    assert load_config({"ve": {"sfu": {"sqrt": 3}}}).ve.sfu == {"sqrt": 3}


def test_noc_can_be_taken_away(tmp_path: Path) -> None:
    assert load_config({"noc": None}).noc is None
    assert load_config({"noc": {}}, ["noc=null"]).noc is None


@pytest.mark.parametrize(
    ("machine", "needs"),
    [
        # one engine, four transfers: a largest sum of 4 weights of 1, so den may be 2^29 - 1 and not 2^29
        ({"dram": {"peak_bw_bytes_per_cycle": f"1/{2**29 - 1}"}}, None),
        ({"dram": {"peak_bw_bytes_per_cycle": f"1/{2**29}"}}, "with weights up to 1 that may add up to 4"),
        ({"dma": {"engines": 2}, "dram": {"peak_bw_bytes_per_cycle": f"1/{2**28}"}}, "that may add up to 8"),
        # fifo has one member per channel; max_min floors what does not fit
        ({"allocation": "fifo_v1", "dram": {"peak_bw_bytes_per_cycle": f"1/{2**31 - 1}"}}, None),
        ({"allocation": "max_min_v1", "dram": {"peak_bw_bytes_per_cycle": f"1/{2**31 - 1}"}}, None),
        # a common factor of the weights cancels
        ({"dma": {"channels": {n: {"weight": 9} for n in ("act_weight", "kv_load", "kv_store")}},
          "dram": {"peak_bw_bytes_per_cycle": f"1/{2**29 - 1}"}}, None),
        # 2 of weight 7 and, with the room that is left, 2 of weight 1
        ({"dma": {"channels": {"kv_load": {"weight": 7, "max_concurrent": 2}}}, "dram": {"peak_bw_bytes_per_cycle": f"1/{2**27}"}},
         "with weights up to 7 that may add up to 16"),
        ({"dma": {"queue_depth_per_master": 1}, "dram": {"peak_bw_bytes_per_cycle": f"1/{2**30 // 3 * 2 - 1}"}}, None),
        # num times the largest weight
        ({"dma": {"channels": {"kv_load": {"weight": 3}}}, "dram": {"peak_bw_bytes_per_cycle": 2**30, "bus_width_bytes": 2**30,
          "dram_burst_cycles": 1}}, "a DRAM channel of 1073741824 bytes per cycle"),
        # the period divides the capacity
        ({"dram": {"period": 2**30, "peak_bw_bytes_per_cycle": 1}}, "a DRAM channel of 1/1073741824 bytes per cycle"),
        # on a link, a transfer over two channels is two flows; stores of the engine share no link with its loads
        ({"noc": {"link_bytes_per_cycle": f"1/{2**28 - 1}", "dram_at": [[0, 0], [0, 0]]}, "dram": {"channels": 2}}, None),
        ({"noc": {"link_bytes_per_cycle": f"1/{2**28}", "dram_at": [[0, 0], [0, 0]]}, "dram": {"channels": 2}},
         "a mesh link of 1/268435456 bytes per cycle, with weights up to 1 that may add up to 8"),
    ],
)  # fmt: skip
def test_terms_of_rates_stay_below_31_bits(machine: dict[str, Any], needs: str | None) -> None:
    if needs is None:
        assert isinstance(load_config(machine), NpuConfig)
    else:
        assert needs in refused(machine)
        assert "needs rates whose terms are 2^31 or more" in refused(machine)


PLACES = st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), min_size=1, max_size=5)


@given(PLACES, PLACES, st.integers(1, 3), st.integers(1, 3), st.booleans())
def test_the_busiest_link_is_that_of_all_routes(
    dma: list[tuple[int, int]], dram: list[tuple[int, int]], load_weight: int, store_weight: int, fifo: bool
) -> None:
    channels = {"kv_load": {"weight": load_weight}, "kv_store": {"weight": store_weight}}
    machine = {
        "allocation": "fifo_v1" if fifo else "shared_bw_v1",
        "dma": {"engines": len(dma), "max_concurrent_transfers": 3, "channels": channels},
        "dram": {"channels": len(dram)},
        "noc": {"rows": 4, "cols": 3, "dma_at": dma, "dram_at": dram},
    }
    flows = Counter[object]()
    for c, channel in enumerate(dram):
        over: set[object] = set()
        for engine in dma:
            for source, target, weight in ((channel, engine, load_weight), (engine, channel, store_weight)):
                for link in mesh_route(source, target):
                    if not fifo:
                        flows[link] += 3 * weight
                    elif (link, c) not in over:
                        over.add((link, c))
                        flows[link] += max(load_weight, store_weight)
    config = load_config(machine)
    assert config.noc is not None
    assert link_weight(config, config.noc) == max(flows.values(), default=0)


def test_all_problems_are_named(tmp_path: Path) -> None:
    lines = refused_text(tmp_path, "dram: {channels: 0}\nspm: {ports: 0}\nfreq_ghz: 0\n").splitlines()
    assert [line.split(" = ")[0] for line in lines] == ["m.yaml:3:11: freq_ghz", "m.yaml:1:18: dram.channels", "m.yaml:2:14: spm.ports"]


def test_a_machine_from_a_dict_has_no_lines() -> None:
    assert refused({"dram": {"channels": 0}}) == "machine: dram.channels = 0, but it must be at least 1"
    assert refused([1]) == "machine: it must be a name, a file, a mapping or a machine, and it is of type list"


def test_overrides_change_values_and_the_last_counts(tmp_path: Path) -> None:
    file = write(tmp_path, "dram: {channels: 2}\nte: {f_w: {8: 1}}\n")
    config = load_config(
        file, ["dram.channels=4", "te.f_w.4=2.5", "te.f_a.8=3", "kv_layouts[0].t_max=7", "noc={}", "noc.rows=3", "dram.channels=1"]
    )
    assert config.dram.channels == 1  # the last one counts
    assert config.te.f_w == {8: 1, 4: Fraction(5, 2)}
    assert config.te.f_a == {8: 3, 4: Fraction(11, 10)}  # the other default factor stays
    assert config.kv_layouts[0].t_max == 7
    assert config.kv_layouts[0].head_dim == 128
    assert config.noc is not None and config.noc.rows == 3
    assert load_config(file, {"dram.channels": 8, "spm.bank_size_bytes": "32 KiB"}).spm.bank_size_bytes == 32768


@pytest.mark.parametrize(
    ("override", "line"),
    [
        ("dram.channels=0", "override dram.channels=0: dram.channels = 0, but it must be at least 1"),
        ("dram.channels=on", "override dram.channels=on: dram.channels: the value on is not allowed, because YAML 1.1 reads it as a boolean; write true "
         "or false, or quote it"),
        ("dram.channels=", "override dram.channels=: dram.channels = null, but it must be an integer"),
        ("dram.channels", "override dram.channels: an override must have the form path=value, like dram.channels=4"),
        ("=4", "override =4: the part before = is not a path like dram.channels or kv_layouts[0].t_max"),
        ("a b=4", "override a b=4: a b is not a path like dram.channels or kv_layouts[0].t_max"),
        ("dram.x=4", "override dram.x=4: dram.x: there is no such key; the keys at this level are channels, interleave_bytes, capacity_bytes, "
         "bus_width_bytes, dram_burst_cycles, peak_bw_bytes_per_cycle, t_setup_cycles, period, row_buffer, controller, device, policy"),
        ("kv_layouts[1].t_max=4", "override kv_layouts[1].t_max=4: there is no item 1: the list has 1 items"),
        ("freq_ghz.x=4", "override freq_ghz.x=4: x cannot be set: what holds it is not a mapping"),
        ("dram=[1", "override dram=[1: dram: this is not valid YAML: did not find expected ',' or ']'"),
        ("freq_ghz=\ud800", "override freq_ghz=\\ud800: freq_ghz: it is not valid text"),
    ],
)  # fmt: skip
def test_overrides_are_checked_like_the_file(override: str, line: str) -> None:
    assert refused({"freq_ghz": 1}, [override]) == line


def test_effective_says_where_each_value_comes_from(tmp_path: Path) -> None:
    file = write(tmp_path, 'dram:\n  channels: 2\nte: {f_w: {"8": 1, 4: 2}}\nkv_layouts:\n  - {t_max: 3}\n')
    effective = load_config(file, ["spm.num_banks=8"]).effective()
    origins = {path: (value, origin.replace(str(file), "m.yaml")) for path, value, origin in effective}
    assert origins["dram.channels"] == (2, "m.yaml:2:13")
    assert origins["te.f_w.8"] == (1, "m.yaml:3:17")
    assert origins["te.f_w.4"] == (2, "m.yaml:3:23")
    assert origins["kv_layouts[0].t_max"] == (3, "m.yaml:5:13")
    assert origins["kv_layouts[0].head_dim"] == (128, "default")
    assert origins["spm.num_banks"] == (8, "override")
    assert origins["spm.ports"] == (1, "default")
    assert sum(origin != "default" for _, origin in origins.values()) == 5
    assert {path: value for path, value, _ in load_config({"dram": {"channels": 2}}).effective()}["dram.channels"] == 2
    assert ("dram.channels", 2, "given") in load_config({"dram": {"channels": 2}}).effective()


def test_presets_are_named() -> None:
    assert preset_names(NpuConfig) == ["npu_mobile", "npu_server"]
    assert preset_names() == ["npu_mobile", "npu_server", "pod_8sip", "single_cube", "sip_4x4", "two_sips"]
    assert refused("npu_phone") == (
        "npu_phone: there is no machine with this name; the presets are npu_mobile, npu_server, pod_8sip, single_cube, sip_4x4, two_sips; "
        "to list all machines, use kbsim config list; the name of a machine file must end in .yaml or .json"
    )


def test_the_schema_refuses_what_it_can_see() -> None:
    validator = validator_of(machine_json_schema)
    validator.validate(yaml.safe_load(FORMATS_DEFAULTS) | {"te": {"f_w": {"8": 1}}, "ve": {}, "energy": {}})
    for bad in ({"dram": {"channels": 0}}, {"x": 1}, {"te": {"f_w": {"3": 1}}}, {"freq_ghz": 0}, {"allocation": "fair"}):
        with pytest.raises(jsonschema.ValidationError):
            validator.validate(bad)


def test_thousands_of_problems_are_placed_in_one_walk_through_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "m.yaml"
    path.write_text("kv_layouts:\n" + "- {t_max: 0, head_dim: 64}\n" * 3000)
    walks = []
    places = document_module.yaml_text.places
    monkeypatch.setattr(document_module.yaml_text, "places", lambda *asked: walks.append(1) or places(*asked))
    with pytest.raises(InputError) as caught:
        load_config(path, ["dram.channels=0"])
    assert len(walks) == 1
    lines = str(caught.value).split("\n")
    assert lines[-1] == "and 2981 more" and len(lines) == 21
    first = next(line for line in lines if "kv_layouts[0]" in line)
    assert first == f"{path}:2:11: kv_layouts[0].t_max = 0, but it must be at least 1"
    assert any(line.startswith("override dram.channels=0: ") for line in lines)


@pytest.mark.parametrize("value", [float("inf"), float("nan"), "-1", "9" * 30, "9" * 5000])
def test_a_value_without_a_near_integer_has_no_proposal(value: object) -> None:
    for load in (
        lambda: load_config({"dma": {"engines": value}}),
        lambda: load_program({"metadata": {"version": "1.0"}, "cmdq": [{"opcode": "NOP", "layer_id": value}]}),
    ):
        with pytest.raises(InputError) as refused:
            load()
        assert "it must be an integer" in str(refused.value) and "write" not in str(refused.value)


@pytest.mark.parametrize("machine", [{10**5000: 1}, {"dram": {10**5000: 1}}])
def test_a_key_that_is_an_integer_of_too_many_digits_is_refused(machine: dict[Any, Any]) -> None:
    with pytest.raises(InputError, match=r"an integer of 16610 bits.*a key must be text here"):
        load_config(machine)
