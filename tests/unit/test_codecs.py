"""Codecs of DMA engines by hand: times, bytes of each side, and refusals (docs/model/compressed.md)."""

from __future__ import annotations

from typing import Any

import pytest

from kernbench import InputError, Machine, Program, load_config
from kernbench.bounds.program import lower_bounds
from kernbench.cmdq.compiled import load_compiled, save_compiled

WIDE = {"num_banks": 64, "bank_width_bytes": 32, "ports": 16}  # no transfer waits for a bank


def machine(*codecs: dict[str, Any], **sections: Any) -> dict[str, Any]:
    """One DRAM channel of 16 bytes per cycle."""
    given = {"spm": WIDE, **sections}
    return {**given, "dma": {"engines": 2, **sections.get("dma", {}), "codecs": list(codecs)}}


def tile(made: Program, num_elements: int = 65536, op: str = "dma_load", **more: Any) -> None:
    given = {"tensor_role": "weight", "qbits": 8, "dram_addr": 0, "spm_bank": 0, "spm_offset": 0, "codec": 0, **more}
    given = {name: value for name, value in given.items() if value is not None}
    getattr(made, op)(num_elements=num_elements, **given)


def run(config: dict[str, Any], *tiles: dict[str, Any]) -> Any:
    made = Program("codecs")
    for one in tiles:
        tile(made, **one)
    ran = Machine(load_config(config), made)
    ran.run()
    bounds = lower_bounds(made, load_config(config))
    result = ran.result()
    assert bounds.cycles <= result.cycles
    return result


@pytest.mark.parametrize(
    ("ratio", "rate", "cycles"),
    [(2, 64, 2048), (2, 32, 2048), (2, 31, 2115), (4, 16, 4096), (1, 64, 4096), ("3/2", 100, 2732)],
)
def test_a_load_takes_the_time_of_its_compressed_bytes_or_of_its_codec(ratio: Any, rate: int, cycles: int) -> None:
    result = run(machine({"ratio": ratio, "bytes_per_cycle": rate}), {})
    assert result.cycles == cycles


def test_each_side_counts_its_own_bytes() -> None:
    result = run(machine({"ratio": 2, "bytes_per_cycle": 64}), {}, {"op": "dma_store", "spm_bank": 1, "dram_addr": 2**16})
    sizes = {name: found["bytes"] for name, found in result.counters.items() if "bytes" in found}
    assert sizes == {"dma0": 131072, "dma1": 0, "dram.ch0": 65536, "dma0.codec0": 65536}
    assert result.metrics["energy_pj"]["dram"] == 65536 * 20 and result.metrics["energy_pj"]["spm"] == 131072


def test_partly_filled_blocks_are_expanded_whole() -> None:
    """100 bytes at ratio 3/2 are 67 in DRAM; from byte 10 on they touch two blocks of 64, which are 192 in the scratchpad."""
    result = run(machine({"ratio": 1.5, "bytes_per_cycle": 512}), {"num_elements": 100, "dram_addr": 10})
    assert (result.counters["dram.ch0"]["bytes"], result.counters["dma0"]["bytes"]) == (128, 192)


def test_transfers_of_one_engine_share_its_codec_and_others_do_not() -> None:
    slow = machine({"ratio": 4, "bytes_per_cycle": 16})
    two = [{"dram_addr": 0}, {"dram_addr": 65536, "spm_bank": 32}]
    assert run(slow, *two).cycles == 2 * run(slow, two[0]).cycles
    apart = [two[0], {**two[1], "dma_id": 1}]
    assert run(slow, *apart).cycles == run(slow, two[0]).cycles


def test_latency_is_part_of_the_head_latency() -> None:
    quick, late = (run(machine({"ratio": 2, "bytes_per_cycle": 64, "latency_cycles": n}), {}).cycles for n in (0, 40))
    assert late == quick + 40


def test_entries_without_a_codec_and_machines_without_codecs_are_as_before() -> None:
    plain = run(machine(), {"codec": None})
    beside = run(machine({"ratio": 2, "bytes_per_cycle": 64}), {"codec": None})
    assert plain.cycles == beside.cycles == 4096 and plain.counters == beside.counters
    assert "codecs" not in load_config({"dma": {"engines": 2}}).to_dict()["dma"]


def test_a_compiled_program_keeps_its_codecs(tmp_path: Any) -> None:
    config, made = load_config(machine({"ratio": 2, "bytes_per_cycle": 64})), Program("codecs")
    tile(made)
    save_compiled(made, config, tmp_path / "a.kbp")
    ran = Machine(config, load_compiled(tmp_path / "a.kbp"))
    ran.run()
    assert ran.result().cycles == 2048


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"codec": 1}, r"codec = 1, but the machine has 1 \(dma.codecs in "),
        ({"num_elements": None, "rows": 2, "row_elements": 64, "stride_bytes": 64}, "codec = 0, but it goes with num_elements"),
        ({"num_elements": 2**24}, r"spm_offset = 0, but its 16777216 bytes would be at \[0, 16777216\) of the scratchpad"),
    ],
)
def test_entries_that_are_refused(given: dict[str, Any], message: str) -> None:
    made = Program("codecs")
    fields = {"op": "dma_load", **given}
    fields = {name: value for name, value in fields.items() if value is not None}
    op, count = fields.pop("op"), fields.pop("num_elements", None if "rows" in fields else 64)
    base = {"tensor_role": "weight", "qbits": 8, "dram_addr": 0, "spm_bank": 0, "spm_offset": 0, "codec": 0}
    with pytest.raises(InputError, match=message):
        getattr(made, op)(**{**base, **fields, **({} if count is None else {"num_elements": count})})
        Machine(load_config(machine({"ratio": 2, "bytes_per_cycle": 64})), made)


@pytest.mark.parametrize(
    ("sections", "codec", "message"),
    [
        ({"allocation": "max_min_v1"}, {}, "allocation = .max_min_v1., but it must be shared_bw_v1 or fifo_v1 with dma.codecs"),
        ({"llc": {"capacity_bytes": "64 KiB", "bw_bytes_per_cycle": 64}}, {}, "llc.* is not allowed with dma.codecs"),
        ({"noc": {"model": "flit"}, "dma": {"engines": 1}}, {}, "noc.model = .flit., but it must be fluid with dma.codecs"),
        ({}, {"ratio": 0.5}, r"dma.codecs\[0\].ratio = 0.5, but it must be at least 1"),
        ({}, {"ratio": "9/7"}, r"times dma.alignment_bytes \(64\) it must be a whole number of bytes"),
        ({}, {"ratio": "100000001/64"}, "whose terms are 2.31 or more|must make less than 2.62"),
    ],
)
def test_machines_that_are_refused(sections: dict[str, Any], codec: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_config(machine({"ratio": 2, "bytes_per_cycle": 64, **codec}, **sections))


def test_a_system_with_codecs_is_refused() -> None:
    with pytest.raises(InputError, match=r"pe.dma.codecs.* it is allowed only on one NPU"):
        load_config("single_cube", {"pe.dma.codecs": [{"ratio": 2, "bytes_per_cycle": 64}]})


def test_fast_runs_know_that_chunks_of_a_codec_have_expanded_bytes() -> None:
    """Three channels with chunks of 64 bytes, which are 96 bytes behind the codec."""
    memory = {"channels": 3, "interleave_bytes": 64, "bus_width_bytes": 8}
    config = machine({"ratio": 1.5, "bytes_per_cycle": 64}, dram=memory, spm={})
    made = Program("four")
    tile(made, 65, qbits=16, codec=None)
    tile(made, 145, "dma_store", qbits=4, dram_addr=56, codec=None)
    rows = {"rows": 2, "row_elements": 16, "stride_bytes": 50}
    made.dma_load(tensor_role="weight", qbits=16, dram_addr=47, spm_bank=0, spm_offset=0, **rows)
    tile(made, 109, dram_addr=56)
    results = []
    for walk in ("plain", "fast"):
        ran = Machine(load_config(config), made, walk=walk)
        ran.run()
        results.append(ran.result().to_dict())
    assert results[0] == results[1]
    assert [entry["end"] for entry in results[0]["entries"]] == [128, 129, 162, 130]
