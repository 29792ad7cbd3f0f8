"""The energy of a traced run by cause: exact sums, by every grouping, and what cannot be grouped is refused."""

from __future__ import annotations

import csv
import io
from fractions import Fraction as F
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import kernbench as kb
from kernbench.cli.trace.energy import energy_tables
from kernbench.cmdq import Program
from kernbench.common.errors import InputError
from kernbench.trace.energy import GROUPINGS, OTHER, UNSTATED, Ledger, accesses_csv, energy_to_dict, events_csv, ledger
from kernbench.trace.reader import open_trace

PRICES: dict[str, Any] = {
    "dram_pj_per_byte": "20/3", "noc_pj_per_byte_hop": "1/7", "spm_pj_per_byte": "0.11", "mac_pj": {8: "0.3", 4: "0.1"},
    "ve_op_pj": "0.5", "static_mw": "1/9",
}  # fmt: skip
MESH = {"rows": 2, "cols": 2, "dma_at": [[0, 0]], "dram_at": [[1, 1]]}


def product_of_two_layers() -> Program:
    """Two products, of 8 and of 4 bits, each with the load of its weights and the store of its output."""
    program = Program("two products")
    places = {"ifm_bank": 0, "ifm_offset": 0, "wgt_bank": 1, "wgt_offset": 0, "ofm_bank": 2, "ofm_offset": 0}
    for number, bits in enumerate((8, 4)):
        of = {"layer_id": number, "phase": f"P{number}"}
        tile = {"tensor_role": "weight", "spm_bank": 1, "spm_offset": 0, "num_elements": 4096, "qbits": bits}
        load = program.dma_load(dram_addr=8192 * number, **tile, **of)
        te = program.te_gemm(m=16, n=64, k=64, qbits_weight=bits, qbits_activation=8, deps_before=[load], **places, **of)
        out = {"tensor_role": "activation", "spm_bank": 2, "spm_offset": 0, "num_elements": 1024, "qbits": 8}
        program.dma_store(dram_addr=65536, deps_before=[te], **out, **of)
    ends = {"in_bank": 3, "in_offset": 0, "out_bank": 4, "out_offset": 0}
    program.ve_exp(length=100, batch=2, qbits_activation=8, **ends)
    return program


def traced(path: Path, level: str = "full", **energy: Any) -> tuple[Path, dict[str, float]]:
    """A trace of it, and the energy that the run reports."""
    machine = kb.load_config({"noc": MESH, "energy": PRICES | energy})
    run = kb.run(product_of_two_layers(), machine, trace=path / "t.jsonl", trace_level=level)
    return path / "t.jsonl", run.result.metrics["energy_pj"]


@pytest.fixture
def found(tmp_path: Path) -> Ledger:
    return ledger(open_trace(traced(tmp_path, by_cause=True)[0]))


def test_the_parts_are_those_of_the_run_and_every_grouping_adds_up_exactly(tmp_path: Path) -> None:
    file, said = traced(tmp_path, by_cause=True)
    found = ledger(open_trace(file))
    assert {share.name: float(share.pj) for share in found.by("part")} == {k: v for k, v in said.items() if k != "total"}
    assert float(found.total) == said["total"]
    for grouping in GROUPINGS:
        shares = found.by(grouping)
        assert sum(share.pj for share in shares) == found.total, grouping
        assert all(sum(share.parts.values()) == share.pj for share in shares), grouping


def test_energy_by_tensor_layer_and_op_is_that_of_the_program_by_hand(found: Ledger) -> None:
    weights, stored = 4096 + 2048, 2 * 1024  # bytes: 8 and 4 bits of 4096 elements, 1024 of each output
    tensors = {share.name: share.parts for share in found.by("tensor")}
    links = 2  # from (1, 1) to (0, 0)
    for name, count in (("weight", weights), ("activation", stored)):
        assert tensors[name] == {"dram": count * F(20, 3), "noc": links * count * F(1, 7), "spm": count * F(11, 100)}
    macs = 16 * 64 * 64
    layers = {share.name: share.parts for share in found.by("layer")}
    assert layers["0"]["mac"] == macs * F(3, 10) and layers["1"]["mac"] == macs * F(1, 10)
    assert layers[UNSTATED].keys() == {"ve", "spm"} and layers[OTHER] == {"static": found.cycles * F(1, 9)}
    ops = {share.name: share.parts for share in found.by("op")}
    assert ops["VE_EXP_TILE"]["spm"] == 400 * F(11, 100) and ops["TE_GEMM_TILE"]["mac"] == macs * F(4, 10)
    assert {share.name for share in found.by("node")} == {"0 P0", "1 P1", UNSTATED, OTHER}


def test_what_moves_over_a_cache_or_through_a_codec_is_on_no_link(tmp_path: Path) -> None:
    made = Program("links")
    made.dma_load(tensor_role="weight", qbits=8, num_elements=4096, dram_addr=0, spm_bank=0, spm_offset=0)
    cached = {"llc": {"capacity_bytes": "64 KiB", "bw_bytes_per_cycle": 64}}
    for k, machine in enumerate((cached, {"dma": {"codecs": [{"ratio": 2, "bytes_per_cycle": 64}]}})):
        if k:
            made.dma_load(tensor_role="weight", qbits=8, num_elements=4096, dram_addr=0, spm_bank=0, spm_offset=0, codec=0)
        file = tmp_path / f"{k}.jsonl"
        run = kb.run(made, kb.load_config(machine), trace=file, trace_level="full")
        found = ledger(open_trace(file))
        assert float(found.total) == run.result.metrics["energy_pj"]["total"]
        assert {item.part for item in found.items if item.energy} == {"dram", "spm"}


def test_what_hits_in_a_cache_moves_over_no_channel(tmp_path: Path) -> None:
    made = Program("twice")
    for k in range(2):
        made.dma_load(tensor_role="weight", qbits=8, num_elements=4096, dram_addr=0, spm_bank=0, spm_offset=0,
                      deps_before=[0] * k)  # fmt: skip
    config = kb.load_config({"llc": {"capacity_bytes": "64 KiB", "bw_bytes_per_cycle": 64}})
    run = kb.run(made, config, trace=tmp_path / "t.jsonl", trace_level="full")
    found = ledger(open_trace(tmp_path / "t.jsonl"))
    assert [(item.cmd_id, item.count) for item in found.items if item.part == "dram"] == [(0, 4096)]
    assert float(found.total) == run.result.metrics["energy_pj"]["total"]


def test_the_table_of_accesses_has_all_energy(found: Ledger) -> None:
    rows = list(csv.DictReader(io.StringIO(accesses_csv(found))))
    assert sum(F(row["pj"]) for row in rows) == found.total
    stores = [row for row in rows if row["part"] == "dram" and row["action"] == "write"]
    assert [(row["tensor"], row["layer"], row["count"]) for row in stores] == [("activation", str(i), "1024") for i in (0, 1)]


def test_every_access_has_its_cycle_and_energy(tmp_path: Path) -> None:
    """The rows of a resource are at the cycles of the events of the trace, and all rows add up to the total."""
    trace = open_trace(traced(tmp_path, by_cause=True)[0])
    each = ledger(trace, each=True)
    rows = list(csv.DictReader(io.StringIO(events_csv(each))))
    assert sum(F(row["pj"]) for row in rows) == each.total == ledger(trace).total
    events = [record for record in trace if record.event.name in ("DRAM_TX_END", "TE_END", "VE_END")]
    told = [(row["event"], row["t_cycle"], row["resource"], row["cmd_id"]) for row in rows if row["event"].endswith("_END")]
    for one in events:
        assert (one.event.name, str(one.t_cycle), one.unit, str(one.cmd_id)) in told
    cycles = [int(row["t_cycle"]) for row in rows if row["t_cycle"]]
    assert cycles == sorted(cycles)
    reads = [row for row in rows if row["event"] == "SRAM_ACCESS" and row["action"] == "read" and row["cmd_id"] == "1"]
    assert sum(int(row["count"]) for row in reads) == 16 * 64 + 64 * 64
    assert all(F(row["pj"]) == int(row["count"]) * F("0.11") for row in reads)
    assert [(row["part"], row["event"]) for row in rows if not row["t_cycle"]] == [("static", "")]
    for grouping in GROUPINGS:
        assert each.by(grouping) == ledger(trace).by(grouping)


def test_bits_that_have_different_prices_and_are_not_stated_are_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"of mac, but the run reported .*energy.by_cause=true"):
        ledger(open_trace(traced(tmp_path)[0]))


def test_bits_are_not_needed_where_all_have_one_price(tmp_path: Path) -> None:
    file, said = traced(tmp_path, mac_pj={8: "0.3"})
    found = ledger(open_trace(file))
    assert float(found.total) == said["total"] and {share.name for share in found.by("tensor")} == {UNSTATED, OTHER}


def test_a_trace_without_accesses_and_an_unknown_grouping_are_refused(tmp_path: Path, found: Ledger) -> None:
    with pytest.raises(InputError, match=r"level summary.*--trace-level full"):
        ledger(open_trace(traced(tmp_path, "summary", by_cause=True)[0]))
    with pytest.raises(InputError, match=r"it must be one of part.*did you mean tensor"):
        energy_to_dict(found, ["tensr"])


@pytest.mark.parametrize("width", [80, 120])
def test_tables_of_every_grouping_fit_the_terminal(width: int, found: Ledger) -> None:
    console = Console(width=width, file=io.StringIO(), color_system=None)
    for part in energy_tables(found, list(GROUPINGS), 20, width):
        console.print(part)
    text = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in text and all(name in text for name in GROUPINGS)
