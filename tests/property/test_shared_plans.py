"""Machines share the plan of a program only if the program has the same tables on both, whatever value they differ in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from kernbench import Program, load_config
from kernbench.bounds.program import plan_bounds
from kernbench.cmdq.plan import Plan, plan_npu
from kernbench.cmdq.shared_plans import SECTIONS, Plans, layout_of
from kernbench.common.errors import InputError
from kernbench.config.keys import machine_kinds, sections_of
from kernbench.config.machine import plain_value
from kernbench.config.schema import NpuConfig

OF_NO_TABLE = {"schema_name", "freq_ghz", "allocation", "max_cycles", "energy", "chip", "cost"}
ARRAY = {
    "te.timing": "systolic", "te.rows": 32, "te.cols": 32, "te.dataflow": "ws", "te.fill": "overlapped",
    "te.drain": "overlapped", "te.operand_bytes_per_cycle": 256,
}  # fmt: skip
CODEC = {"ratio": 2, "bytes_per_cycle": 32, "latency_cycles": 3}
ROWS = {
    "bank_groups": 4, "banks_per_group": 4, "row_bytes": 1024, "t_rcd": 14, "t_rcd_wr": 12, "t_cl": 14, "t_cwl": 5, "t_rp": 14,
    "t_ras": 34, "t_rtp": 5, "t_wr": 16, "t_ccd_s": 4, "t_ccd_l": 6, "t_rrd_s": 4, "t_rrd_l": 4, "t_faw": 15, "t_wtr_s": 6,
    "t_wtr_l": 8, "t_rfc": 160,
}  # fmt: skip
CONTROLLER = {"burst_bytes": 32, "t_bl": 4, "t_refi": 3900, "pseudo_channels": 2, "refresh": "all_bank"}
#: By name, a preset and what differs from it.
MACHINES: dict[str, tuple[str, dict[str, Any]]] = {
    "host": ("npu_mobile", {"control.mmio": {"write_cycles": 3}, "dram.capacity_bytes": 1 << 20}),
    "cache": ("npu_server", {"llc": {"capacity_bytes": 1 << 20, "bw_bytes_per_cycle": 512, "at": [0, 0]}}),
    "array": ("npu_server", ARRAY | {"dma.codecs": [CODEC]}),
    "routers": ("npu_server", {"noc.model": "flit", "noc.flit": {"depth": 4, "channels": 4}}),
    "rows": (
        "npu_mobile",
        {"allocation": "row_buffer_v1", "dram.peak_bw_bytes_per_cycle": 64, "dram.row_buffer": ROWS | {"t_refi": 3900}},
    ),
    "controllers": ("npu_mobile", {"allocation": "row_buffer_v2", "dram.controller": ROWS | CONTROLLER}),
    "jobs": ("npu_mobile", {"control.micro_scheduler": {"tile_m": 16, "tile_n": 16, "tile_k": 32, "chunk_elements": 64}}),
}
#: Changes of lists and of sections, which are not numbers, choices or flags.
WHOLE: dict[str, list[Any]] = {
    "kv_layouts": [[{"t_max": 64, "head_dim": 16}]],
    "llc": [{"capacity_bytes": 1 << 20, "bw_bytes_per_cycle": 64, "latency_cycles": 9}],
    "noc.dram_at": [[[1, 1]]],
    "noc.dma_at": [[[0, 1]]],
    "dma.codecs": [[{"ratio": 2, "bytes_per_cycle": 8}], [{"ratio": 4, "bytes_per_cycle": 32, "latency_cycles": 3}]],
    "control.micro_scheduler": [{"chunk_elements": 64}],
    "control.mmio": [{"write_cycles": 9}],
}


def program(codec: bool) -> Program:
    """Each kind of entry that an NPU runs, with tensors on several channels and banks."""
    made = Program("kinds")
    through = {"codec": 0} if codec else {}
    loads = [
        made.dma_load(
            tensor_role="weight", qbits=bits, dram_addr=6144 + i * 40000, num_elements=1600, spm_bank=i, spm_offset=64,
            source="MMIO" if i else "ISA", **through,
        )
        for i, bits in enumerate((4, 8))
    ]  # fmt: skip
    kv = made.kv_load(
        head_id=1, kv_kind="k", dram_base_addr=131072, kv_range={"t_start": 3, "t_len": 9}, qbits_kv=8, spm_bank=3, spm_offset=0
    )
    product = made.te_gemm(
        m=24, n=40, k=48, qbits_weight=4, qbits_activation=8, ifm_bank=0, ifm_offset=0, wgt_bank=1, wgt_offset=0, ofm_bank=2,
        ofm_offset=32, deps_before=[*loads, kv],
    )  # fmt: skip
    rows = made.ve_softmax(
        length=40, batch=24, qbits_activation=8, in_bank=2, in_offset=32, out_bank=5, out_offset=0, deps_before=[product]
    )
    made.ve_gelu(length=960, qbits_activation=8, in_bank=5, in_offset=0, out_bank=5, out_offset=0, deps_before=[rows])
    made.barrier()
    made.dma_store(tensor_role="activation", qbits=8, dram_addr=600000, num_elements=960, spm_bank=5, spm_offset=0, irq_line=1)
    made.end()
    return made


def _values(plain: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    """The keys of a machine with their values."""
    if isinstance(plain, dict):
        for name, value in plain.items():
            yield from _values(value, (*path, str(name)))
    elif path[0] != "schema":
        yield ".".join(path), plain


CHOICES = {key.path: key.choices for part in sections_of(*machine_kinds("npu").values()) for key in part.keys}


def changes(config: NpuConfig) -> Iterator[tuple[str, Any]]:
    """Each key of a machine with each of some other values, which need not be valid."""
    for path, value in _values(plain_value(config, whole=True)):
        if type(value) is bool:
            yield path, not value
        elif isinstance(value, str):
            yield from ((path, one) for one in CHOICES.get(path, ()) if one != value)
        elif isinstance(value, int | float):
            yield from ((path, one) for one in (2 * value, value + 1, value // 2) if one != value)
    for path, values in WHOLE.items():
        yield from ((path, value) for value in values)


def plain_tables(value: Any) -> Any:
    """Tables whose arrays are lists, so that they can be compared."""
    if isinstance(value, np.ndarray):
        return value.dtype.str, value.tolist()
    if isinstance(value, dict):
        return {name: plain_tables(item) for name, item in value.items()}
    return value


def outcome(program: Program, plan_of: Callable[[NpuConfig], Plan], config: NpuConfig) -> Any:
    """All that a run, a bound or a law reads of a plan, or the error that the machine gets."""
    try:
        plan = plan_of(config)
    except InputError as error:
        return str(error)
    bounds = plan_bounds(program, plan)  # also fills what is kept for other machines
    found = {name: plain_tables(getattr(plan, name)) for name in Plan.__struct_fields__ if name not in ("_cached", "jobs")}
    found["jobs"] = None if plan.jobs is None else (plan.jobs.program.entries, plan.jobs.first, plan.jobs.last)
    names = ("on_channels", "predecessors", "units", "ratios", "links", "caches", "with_scratchpad")
    return {**found, **{name: getattr(plan, name) for name in names}, "bounds": bounds.to_dict()}


@pytest.mark.parametrize("name", MACHINES)
def test_a_shared_plan_is_that_of_its_machine(name: str) -> None:
    """For each key of a machine."""
    preset, given = MACHINES[name]
    first = load_config(preset, given)
    assert isinstance(first, NpuConfig)
    made = program(codec=bool(first.dma.codecs))
    plans = Plans(made)
    plans.of(first)
    shared: set[str] = set()
    paths: set[str] = set()
    for path, value in changes(first):
        try:
            config = load_config(preset, given | {path: value})
        except InputError:
            continue
        assert isinstance(config, NpuConfig)
        assert outcome(made, plans.of, config) == outcome(made, lambda one: plan_npu(made, one), config), (path, value)
        paths.add(path)
        if layout_of(config) == layout_of(first):
            shared.add(path)
    assert {"freq_ghz", "dram.t_setup_cycles", "energy.static_mw", "control.issue_width"} <= shared < paths
    assert {"te.init_cycles", "dram.interleave_bytes", "spm.num_banks"} <= paths - shared
    for section in ("dram.row_buffer", "dram.controller"):
        if section in given:
            assert {f"{section}.{key}" for key in ("bank_groups", "t_rcd", "t_refi")} <= paths - shared


def test_each_part_of_a_machine_is_in_the_key_or_in_no_table() -> None:
    of_tables = {"control", "dram", *SECTIONS}
    assert OF_NO_TABLE | of_tables == set(NpuConfig.model_fields)
    assert not OF_NO_TABLE & of_tables
