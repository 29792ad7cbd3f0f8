"""Systems: defaults, presets, overrides, origins, the schema, and every refusal with its place."""

# ruff: noqa: E501  (messages stand in one piece, so that they can be searched for)
from __future__ import annotations

import importlib.resources
import json
import pickle
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest
import yaml

from kernbench.common.errors import InputError
from kernbench.config import MachineConfig, NpuConfig, SystemConfig, load_config, preset_names, system_json_schema
from kernbench.config.section import ValidationError
from tests.schemas import validator_of

SCHEMA = {"schema": "kernbench/system/1"}
PRESETS = ["pod_8sip", "single_cube", "sip_4x4", "two_sips"]


def system(**sections: Any) -> SystemConfig:
    return load_config({**SCHEMA, **sections}, kind=SystemConfig)


def refused(source: Any, overrides: Any = (), kind: type[MachineConfig] = MachineConfig) -> str:
    with pytest.raises(InputError) as caught:
        load_config(source, overrides, kind=kind)
    return str(caught.value)


def refused_text(tmp_path: Path, text: str) -> str:
    file = tmp_path / "s.yaml"
    file.write_text(f"schema: kernbench/system/1\n{text}\n")
    return refused(file).replace(str(file), "s.yaml")


# What is read -----------------------------------------------------------------------------------------------------


def test_the_schema_says_which_kind_it_is() -> None:
    assert isinstance(load_config(SCHEMA), SystemConfig)
    assert isinstance(load_config({"schema": "kernbench/npu/1"}), NpuConfig)
    assert isinstance(load_config({}), NpuConfig)
    assert load_config(SCHEMA) == SystemConfig()
    assert load_config(SCHEMA) != load_config({})


NEEDS_A_SYSTEM = "this is a single NPU, but a system of several PEs is expected; use one of these machines: pod_8sip, single_cube, sip_4x4, two_sips"


@pytest.mark.parametrize(
    ("source", "kind", "line"),
    [
        ("single_cube", NpuConfig, "single_cube.yaml: this is a system of several PEs, but a single NPU is expected; "
         "use one of these machines: npu_mobile, npu_server"),
        ("npu_mobile", SystemConfig, f"npu_mobile.yaml: {NEEDS_A_SYSTEM}"),
        ({}, SystemConfig, f"machine: {NEEDS_A_SYSTEM}"),
        ({"schema": 1}, MachineConfig, "machine: schema = 1, but it must be one of kernbench/npu/1, kernbench/system/1"),
        ({"schema": None}, MachineConfig, "machine: schema = null, but it must be one of kernbench/npu/1, kernbench/system/1"),
    ],
)  # fmt: skip
def test_another_kind_than_asked_for_is_refused(source: Any, kind: type[MachineConfig], line: str) -> None:
    assert refused(source, kind=kind) == line


def test_what_both_kinds_have_has_the_same_defaults() -> None:
    both = set(NpuConfig.model_fields) & set(SystemConfig.model_fields) - {"schema_name"}
    assert both == {"freq_ghz", "allocation", "max_cycles", "control", "kv_layouts", "energy", "cost"}
    for key in both:
        assert getattr(SystemConfig(), key) == getattr(NpuConfig(), key)
    for key in ("dma", "te", "ve", "spm"):
        assert getattr(SystemConfig().pe, key) == getattr(NpuConfig(), key)


@pytest.mark.parametrize("name", PRESETS)
def test_presets_are_read_back_as_they_were(name: str) -> None:
    config = load_config(name, kind=SystemConfig)
    again = load_config(json.loads(json.dumps(config.to_dict())))
    assert again == config and again.digest() == config.digest() and hash(again) == hash(config)
    assert pickle.loads(pickle.dumps(config)) == config
    validator_of(system_json_schema).validate(config.to_dict())
    defaults = {path for path, _, origin in config.effective() if origin == "default"}
    added = {
        "pe.dma.arbiter",
        "pe.dma.codecs",
        "pe.te.fill",
        "pe.te.drain",
        "pe.te.clock_ratio",
        "pe.ve.clock_ratio",
        "pe.ve.reduction_trees",
    }
    added |= {"system.failed", "energy.by_cause"}
    added |= {"cube.mesh.model", "system.slow", "system.switch.cycles", "system.switch.oversubscription"}
    added |= {"system.switch.reduce", "system.dimensions", "pe.cores"}
    added |= {"system.rails.nics", "system.rails.link.bytes_per_cycle", "system.rails.link.cycles"}
    assert defaults == {"cube.hbm.period", "pe.dma.period", "pe.te.period", "pe.te.timing", "pe.ve.period"} | added
    text = importlib.resources.files("kernbench.configs").joinpath(f"{name}.yaml").read_text(encoding="utf-8")
    validator_of(system_json_schema).validate(yaml.safe_load(json.dumps(yaml.safe_load(text))))


def test_presets_of_systems_have_their_sizes() -> None:
    assert preset_names(SystemConfig) == PRESETS
    sizes = {name: (c.system.sips, c.cubes, c.pes) for name in PRESETS if (c := load_config(name, kind=SystemConfig))}
    assert sizes == {"single_cube": (1, 1, 8), "sip_4x4": (1, 16, 128), "two_sips": (2, 4, 64), "pod_8sip": (8, 16, 1024)}
    for name in PRESETS:
        config = load_config(name, kind=SystemConfig)
        assert config.cube.hbm.channels * config.cube.hbm.capacity == Fraction(64 * 1024, 10 * 8)  # 6.4 Gb/s, 1024 pins
        assert config.cube.hbm.capacity_bytes == 8 * 16 * 2**30 // 8  # eight dies of 16 Gb
        assert config.cube.ucie.link.bytes_per_cycle == 64 * 32 // 8  # 64 lanes of 32 GT/s
        assert config.io.pcie.link.bytes_per_cycle == 32 * 16 * Fraction(128, 130) // 8  # PCIe 5.0 x16, in GB/s
        assert config.path is None


def test_presets_differ_in_their_shape_alone() -> None:
    """A die, a chiplet and a PE are the same in all four; the bigger ones have a port more a side."""
    first = load_config("single_cube").to_dict()
    for name in PRESETS:
        plain = load_config(name, ["cube.ucie.ports_per_side=1"]).to_dict()
        assert {key for key in first if plain[key] != first[key]} <= {"system", "sip"}


@pytest.mark.parametrize(("kind", "rows", "cols"), [("torus", 2, 4), ("mesh", 4, 2), ("mesh", 8, 1)])
def test_a_pod_takes_other_shapes_by_overrides(kind: str, rows: int, cols: int) -> None:
    config = load_config("pod_8sip", [f"system.kind={kind}", f"system.rows={rows}"], kind=SystemConfig)
    assert (config.system.rows, config.sip_cols) == (rows, cols)
    assert config == load_config("pod_8sip", {"system.kind": kind, "system.rows": rows, "system.cols": None})


def test_a_stack_has_as_many_slices_as_its_cube_has_pes() -> None:
    config = load_config("single_cube", kind=SystemConfig)
    assert (config.slices, config.slice_bytes, config.slice_channels) == (8, 2 * 2**30, 2)
    assert [config.slice_pe(k) for k in range(8)] == list(range(8))
    assert system().slices == 8  # as many as PEs
    more = system(cube={"pes": 4, "hbm": {"slices": 8}})
    assert [more.slice_pe(k) for k in range(8)] == [0, 0, 1, 1, 2, 2, 3, 3]
    fewer = system(cube={"pes": 8, "hbm": {"slices": 2}})
    assert [fewer.slice_pe(k) for k in range(2)] == [0, 4]


def test_a_system_does_not_change() -> None:
    config = load_config("single_cube", kind=SystemConfig)
    with pytest.raises(ValidationError):
        config.cube.pes = 2


# Overrides and origins --------------------------------------------------------------------------------------------


def test_overrides_and_origins(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("schema: kernbench/system/1\nsip:\n  io:\n    - {name: io0, side: n}\npe: {te: {f_w: {4: 2}}}\n")
    config = load_config(
        file, ["sip.io[0].side=e", "cube.mesh.link.cycles=3", "components.pe_gemm.impl=a.b:C"], kind=SystemConfig
    )
    assert config.path == file
    assert (config.sip.io[0].side, config.cube.mesh.link.cycles, config.components["pe_gemm"].impl) == ("e", 3, "a.b:C")
    origins = {path: origin.replace(str(file), "s.yaml") for path, _, origin in config.effective()}
    assert origins["sip.io[0].name"] == "s.yaml:4:14"
    assert origins["sip.io[0].side"] == "override"
    assert origins["pe.te.f_w.4"] == "s.yaml:5:20"
    assert origins["cube.mesh.link.bytes_per_cycle"] == "default"
    assert origins["components.pe_gemm.impl"] == "override"
    assert config.where("sip.io[0].side") == "override sip.io[0].side=e"
    assert config.where("cube.pes", "sip.io[0].name") == f"{file}:4:14"
    assert config.where("cube.pes") == str(file)


def test_a_link_that_says_a_part_keeps_the_defaults_of_its_place() -> None:
    config = system(system={"link": {"cycles": 7}}, io={"pcie": {"link": {"cycles": 7}}})
    assert (config.system.link.bytes_per_cycle, config.system.link.cycles) == (100, 7)
    assert (config.io.pcie.link.bytes_per_cycle, config.io.pcie.link.mm) == (63, 0)


def test_components_keep_keys_of_their_own() -> None:
    given = {"impl": "pkg.mod:Class", "latency": 3, "rate": 1.5, "table": {"a": [1, "1/3"]}}
    config = system(components={"pe_gemm": given, "router": {"depth": 2}})
    assert config.components["pe_gemm"].spec == {"latency": 3, "rate": 1.5, "table": {"a": [1, "1/3"]}}
    assert config.components["router"].impl == "builtin"
    assert config.to_dict()["components"] == {"pe_gemm": given, "router": {"impl": "builtin", "depth": 2}}
    assert load_config(config.to_dict()) == config
    assert config != system(components={"pe_gemm": {**given, "latency": 4}, "router": {"depth": 2}})


def test_numbers_of_components_are_exact(tmp_path: Path) -> None:
    file = tmp_path / "s.yaml"
    file.write_text("schema: kernbench/system/1\ncomponents: {pe_math: {rate: 0.1}}\n")
    assert load_config(file, kind=SystemConfig).components["pe_math"].spec == {"rate": Fraction(1, 10)}
    assert ("components.pe_math.rate", 0.1, f"{file}:2:30") in load_config(file).effective()


# The schema -------------------------------------------------------------------------------------------------------


def test_the_schema_refuses_what_it_can_see() -> None:
    validator = validator_of(system_json_schema)
    validator.validate({**SCHEMA, "components": {"pe_gemm": {"impl": "a:B", "x": 1}}})
    refusals: tuple[dict[str, Any], ...] = (
        {"dma": {}},
        {"sip": {"io": [{"name": "left"}]}},
        {"cube": {"mesh": {"rows": 0}}},
        {"system": {"kind": "star"}},
        {"components": {"gemm": {}}},
        {"sip": {"gap_mm": -1}},
    )
    for bad in refusals:
        with pytest.raises(jsonschema.ValidationError):
            validator.validate(bad)


# Refusals ---------------------------------------------------------------------------------------------------------

KINDS = (
    "(host, switch, io_noc, io_cpu, pcie_ep, m_cpu, sram, hbm_ctrl, router, ucie, pe_cpu, pe_scheduler, pe_dma, pe_fetch_store, "
    "pe_gemm, pe_math, pe_tcm, pe_ipcq)"
)
KEYS = (
    "schema, freq_ghz, allocation, max_cycles, control, system, sip, cube, io, pe, wires, components, kv_layouts, energy, cost"
)
REFUSALS = [
    ("system: {sips: 0}", "s.yaml:2:16: system.sips = 0, but it must be at least 1"),
    ("system: {kind: star}",
     's.yaml:2:16: system.kind = "star", but it must be one of ring, torus, mesh, all_to_all, dragonfly, switch, fat_tree, rails, dimensions'),
    ("system: {sips: 2, rows: 2}", "s.yaml:2:25: system.rows = 2, but a ring has one row"),
    ("system: {sips: 6, kind: torus, rows: 4}", "s.yaml:2:38: system.rows = 4, but it must divide the number of SIPs (6)"),
    ("system: {sips: 6, kind: mesh, rows: 2, cols: 2}", "s.yaml:2:46: system.cols = 2, but times rows (2) it must be the number of SIPs (6)"),
    ("system: {sips: 4, cols: 3}", "s.yaml:2:25: system.cols = 3, but times rows (1) it must be the number of SIPs (4)"),
    ("sip: {gap_mm: -1}", "s.yaml:2:15: sip.gap_mm = -1, but it must be at least 0"),
    ("cube: {mesh: {link: {mm: -0.5}}}", "s.yaml:2:26: cube.mesh.link.mm = -0.5, but it must be at least 0"),
    ("sip: {io: [{name: io0, side: w}, {name: io0, side: e}]}",
     's.yaml:2:41: sip.io[1].name = "io0", but it is the name of sip.io[0] too: two nodes would have one id'),
    ("sip: {io: [{name: io0, side: w}, {name: io1, side: w}]}",
     's.yaml:2:52: sip.io[1].side = "w", but it is the side of sip.io[0] too: its ports would serve two chiplets'),
    ("sip: {io: [{name: left}]}", 's.yaml:2:19: sip.io[0].name = "left", but it must be io and a number, like io0'),
    ("sip: {io: [{name: io01}]}", 's.yaml:2:19: sip.io[0].name = "io01", but it must be io and a number, like io0'),
    ("sip: {io: [{name: 3}]}", "s.yaml:2:19: sip.io[0].name = 3, but it must be io and a number, like io0"),
    ("sip: {io: [{side: up}]}", 's.yaml:2:19: sip.io[0].side = "up", but it must be one of n, e, s, w'),
    ("sip: {io: {}}", "s.yaml:2:11: sip.io = an empty mapping, but it must be a list"),
    ("cube: {width_mm: 0}", "s.yaml:2:18: cube.width_mm = 0, but it must be above 0"),
    ("cube: {hbm: {width_mm: 21}}", "s.yaml:2:24: cube.hbm.width_mm = 21, but the cube's width_mm is 20: the HBM does not fit into the cube"),
    ("cube:\n  height_mm: 10.5", "s.yaml:3:3: cube.hbm.height_mm = 11, but the cube's height_mm is 10.5: the HBM does not fit into the cube"),
    ("cube: {hbm: {slices: 16}}", "s.yaml:2:13: cube.hbm.channels = 8, but it must be a multiple of the number of slices, 16 (cube.hbm.slices)"),
    ("cube: {pes: 7, hbm: {capacity_bytes: 7 GiB}}",
     "s.yaml:2:21: cube.hbm.channels = 8, but it must be a multiple of the number of slices, 7 (cube.pes, as cube.hbm.slices is absent)"),
    ("cube: {hbm: {capacity_bytes: 1001}}",
     "s.yaml:2:30: cube.hbm.capacity_bytes = 1001, but it must be a multiple of the number of slices, 8 (cube.pes, as cube.hbm.slices is absent)"),
    ("sip: {rows: 2, cols: 4}\ncube: {hbm: {capacity_bytes: 524288 TiB}}",
     "s.yaml:3:30: cube.hbm.capacity_bytes = 576460752303423488, but times the number of cubes (8) it must be below 2^62"),
    ("system: {sips: 1024}\nsip: {rows: 32}", "s.yaml:2:16: system.sips = 1024, but with 32 cubes a SIP and 8 PEs a cube it makes 2850816 nodes, "
     "and 500000 is the limit"),
    ("components: {pe_gem: {}}", f's.yaml:2:13: components = a mapping of 1 key, but its keys must be kinds of nodes {KINDS}, and "pe_gem" is not'),
    ("components: {pe_gemm: {impl: a.b}}", 's.yaml:2:30: components.pe_gemm.impl = "a.b", but it must be builtin or "package.module:Class"'),
    ("components: {pe_gemm: {x: {1: 2}}}", "s.yaml:2:13: components = a mapping of 1 key, but its keys must be text, and 1 is not"),
    ("components: {pe_gemm: 3}", "s.yaml:2:23: components.pe_gemm = 3, but it must be a mapping"),
    ("components: [1]", "s.yaml:2:13: components = [1], but it must be a mapping"),
    ("pe: {spm: {bank_size_bytes: 100}}", "s.yaml:2:29: pe.spm.bank_size_bytes = 100, but it must be a multiple of bank_width_bytes (16)"),
    ("pe: {te: {rows: 4}}", "s.yaml:2:17: pe.te.rows = 4, but it is allowed only with timing systolic"),
    ("wires: {mm_per_cycle: 0}", "s.yaml:2:23: wires.mm_per_cycle = 0, but it must be above 0"),
    ("dram: {}", f"s.yaml:2:1: dram: there is no such key; the keys at this level are {KEYS}"),
    ("cube: {pe: 8}", "s.yaml:2:8: cube.pe: there is no such key; did you mean cube.pes?"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "line"), REFUSALS)
def test_a_wrong_system_is_refused_with_its_line(tmp_path: Path, text: str, line: str) -> None:
    assert refused_text(tmp_path, text) == line


def test_a_component_from_a_dict_holds_plain_values_only() -> None:
    line = "machine: components = a mapping of 1 key, but its values must be plain, and one is a set"
    assert refused({**SCHEMA, "components": {"pe_gemm": {"x": [{1}]}}}) == line


def test_an_override_is_named_in_its_refusal() -> None:
    line = "override cube.hbm.width_mm=30: cube.hbm.width_mm = 30, but the cube's width_mm is 20: the HBM does not fit into the cube"
    assert refused("single_cube", ["cube.hbm.width_mm=30"]) == line


LINKS = [
    ("system.link.bytes_per_cycle", "a link between SIPs"),
    ("cube.mesh.link.bytes_per_cycle", "a mesh link"),
    ("cube.hbm.link.bytes_per_cycle", "an HBM link"),
    ("cube.hbm.peak_bw_bytes_per_cycle", "an HBM channel"),
    ("cube.sram.bytes_per_cycle", "the SRAM's link"),
    ("cube.ucie.link.bytes_per_cycle", "a UCIe link"),
    ("cube.ucie.router.bytes_per_cycle", "a UCIe port's link"),
    ("cube.m_cpu.link.bytes_per_cycle", "the M_CPU's link"),
    ("io.pcie.link.bytes_per_cycle", "a PCIe link"),
    ("io.noc.bytes_per_cycle", "an IO chiplet's link"),
    ("pe.link.bytes_per_cycle", "a PE's link"),
]


@pytest.mark.parametrize(("path", "name"), LINKS)
def test_terms_of_rates_stay_below_31_bits(path: str, name: str) -> None:
    """Eight PEs, eight transfers each, four of them of queues, and four of the host, of one flow a channel of a slice: 68."""
    most = 2**31 // 68  # 68 * most = 2^31 - 60
    # Eight slices may enter one router: what its link carries is eight times as much, and 8/(8 n) is 1/n.
    times = 8 if path.startswith("cube.hbm.link") else 1
    assert isinstance(load_config(SCHEMA, {path: f"1/{times * most}"}), SystemConfig)
    said = refused(SCHEMA, {path: f"1/{times * (most + 1)}"})
    assert said.startswith(f"override {path}=1/") and f"but {name} of 1/{most + 1} bytes per cycle" in said
    assert said.endswith("with weights up to 1 that may add up to 68, needs rates whose terms are 2^31 or more")
