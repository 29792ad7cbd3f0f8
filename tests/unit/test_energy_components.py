"""The energy of a trace by the components of a chip: rules, sums by hand, and what is not a file of components."""

from __future__ import annotations

import json
import re
from fractions import Fraction as F
from pathlib import Path
from typing import Any

import pytest

import kernbench as kb
from kernbench.cli.main import exit_code
from kernbench.cmdq import Program
from kernbench.common.errors import InputError
from kernbench.trace.energy import GROUPINGS, NO_COMPONENT, Ledger
from kernbench.trace.energy_components import SCHEMA, STATES, components_from
from kernbench.trace.reader import open_trace

BANK = 65536  #: [B]
WEIGHTS = [BANK, 2 * BANK]
CHIP: dict[str, list[dict[str, Any]]] = {
    "dram": [{"part": "dram", "action": "read", "pj": 3}, {"part": "dram", "action": "write", "pj": "7/2"}],
    "weight buffer": [
        {"part": "spm", "addresses": WEIGHTS, "action": "read", "pj": "1/3"},
        {"part": "spm", "addresses": WEIGHTS, "action": "write", "pj": "1/5"},
    ],
    "inputs": [{"part": "spm", "addresses": [0, BANK], "pj": 2}],
    "registers": [{"part": "mac", "pj": "0.5"}],
    "array": [{"part": "mac", "resource": "te*", "pj": "0.25"}],
    "clock": [{"part": "static", "pj": 11}],
    "kv cache": [{"part": "dram", "tensor": "kv", "pj": 1}],
}


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of a load of inputs, a load of weights, their product, and the store of its output."""
    path: Path = tmp_path_factory.mktemp("run") / "t.jsonl"
    program = Program("product")
    tile = {"tensor_role": "weight", "qbits": 8, "spm_offset": 0}
    loads = [
        program.dma_load(dram_addr=0, spm_bank=0, num_elements=1024, **tile),
        program.dma_load(dram_addr=8192, spm_bank=1, num_elements=4096, **tile),
    ]
    places = {"ifm_bank": 0, "ifm_offset": 0, "wgt_bank": 1, "wgt_offset": 0, "ofm_bank": 2, "ofm_offset": 0}
    te = program.te_gemm(m=16, n=64, k=64, qbits_weight=8, qbits_activation=8, deps_before=loads, **places)
    program.dma_store(dram_addr=65536, spm_bank=2, num_elements=1024, deps_before=[te], **tile)
    spm = {"num_banks": 4, "bank_size_bytes": BANK, "map": "blocked"}
    kb.run(program, kb.load_config({"spm": spm, "energy": {"by_cause": True}}), trace=path, trace_level="full")
    return path


def priced(file: Path, chip: dict[str, Any]) -> Ledger:
    return components_from({"schema": SCHEMA, "components": chip}, "chip").price(open_trace(file))


def test_energy_of_each_component_by_hand(file: Path) -> None:
    found = priced(file, CHIP)
    macs = 16 * 64 * 64
    assert {share.name: share.pj for share in found.by("component")} == {
        "dram": (1024 + 4096) * 3 + 1024 * F(7, 2),
        "weight buffer": 4096 * F(1, 3) + 4096 * F(1, 5),
        "inputs": 2 * 1024 * 2,
        "registers": macs * F(1, 2),
        "array": macs * F(1, 4),
        "clock": found.cycles * 11,
        NO_COMPONENT: 0,  # the outputs in the scratchpad; no transfer moves a KV cache
    }


def test_every_grouping_adds_up_exactly(file: Path) -> None:
    found = priced(file, CHIP)
    for grouping in GROUPINGS:
        shares = found.by(grouping)
        assert sum((share.pj for share in shares), F(0)) == found.total, grouping
        assert all(sum(share.parts.values()) == share.pj for share in shares), grouping


def test_rule_of_an_op_or_a_tensor_prices_these_alone(file: Path) -> None:
    store, weights = {"op": "DMA_STORE_TILE"}, {"tensor": "weight"}
    chip = {name: [{"part": "dram", "pj": 1, **keys}] for name, keys in (("store", store), ("weights", weights))}
    found = {share.name: share.pj for share in priced(file, chip).by("component")}
    assert found == {"store": 1024, "weights": 1024 + 4096 + 1024, NO_COMPONENT: 0}


def test_static_energy_depends_on_the_state_of_each_resource(file: Path) -> None:
    te = [{"part": "static", "resource": "te0", "state": state, "pj": pj} for state, pj in (("busy", 7), ("idle", "1/2"))]
    channels = [{"part": "static", "resource": "dram.*", "state": state, "pj": pj} for state, pj in (("busy", 3), ("idle", 1))]
    found = priced(file, {"te": te, "channels": channels, "rest": [{"part": "static", "pj": 5}]})
    end = found.trace.end
    assert end is not None
    busy = {name: counted["busy"] for name, counted in end.counters.items() if "busy" in counted}
    spent = {share.name: share.pj for share in found.by("component")}
    names = [name for name in busy if name.startswith("dram.")]
    assert 0 < busy["te0"] < end.cycles and names
    assert spent["te"] == 7 * busy["te0"] + F(1, 2) * end.counters["te0"]["idle"]
    assert spent["channels"] == sum(3 * busy[name] + end.cycles - busy[name] for name in names)
    assert spent["rest"] == 5 * end.cycles
    by_action = {share.name: share.pj for share in found.by("action")}
    assert by_action["static busy"] == 7 * busy["te0"] + 3 * sum(busy[name] for name in names)
    assert sum(by_action.values()) == found.total


def test_cycles_of_all_states_are_those_of_the_run(file: Path) -> None:
    rules = [{"part": "static", "resource": "*", "state": state, "pj": 1} for state in STATES]
    found = priced(file, {"all": rules})
    per_resource: dict[str, int] = {}
    for item in found.items:
        if item.action in STATES:
            per_resource[item.resource] = per_resource.get(item.resource, 0) + item.count
    assert {"te0", "dma0"} < per_resource.keys() and set(per_resource.values()) == {found.cycles}


WRONG = [
    ({"a": [{"part": "static", "pj": 1, "state": "off"}]}, r"state = .off.*must be one of busy, stalled, idle"),
    ({"a": [{"part": "mac", "pj": 1, "state": "busy"}]}, r"state = .busy.*only part static has states"),
    ({"a": []}, r"components.a = .*must be a list of"),
    ({"a": [{"part": "spm"}]}, r"components.a\[0\].*must have the keys part and pj"),
    ({"a": [{"part": "spn", "pj": 1}]}, r"components.a\[0\].part = .spn.*must be one of dram, .*did you mean spm"),
    ({"a": [{"part": "spm", "pj": 1, "action": "reads"}]}, r"action = .reads.*must be one of read"),
    ({"a": [{"part": "spm", "pj": -1}]}, r"pj = -1, but it must be at least 0"),
    ({"a": [{"part": "spm", "pj": "x"}]}, r"components.a\[0\].pj = .x."),
    ({"a": [{"part": "spm", "pj": 1, "tensors": "kv"}]}, r"components.a\[0\].tensors: keys are .*did you mean tensor"),
    ({"a": [{"part": "spm", "pj": 1, "addresses": [4, 4]}]}, r"addresses = .*END is greater than FIRST"),
    ({"a": [{"part": "spm", "pj": 1, "addresses": 4}]}, r"addresses = 4, but it must be \[FIRST, END\]"),
    ({"a": [{"part": "mac", "pj": 1, "addresses": [0, 4]}]}, r"Only part spm has addresses"),
    ({f"c{k}": [{"part": "mac", "pj": 1}] for k in range(65)}, r"components = 65, but a file has at most 64 components"),
]


@pytest.mark.parametrize(("chip", "message"), WRONG)
def test_what_is_not_a_component_is_refused_with_its_place(chip: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError) as error:
        components_from({"schema": SCHEMA, "components": chip}, "chip.yaml")
    assert re.search(message, str(error.value)), str(error.value)


def test_command_prints_the_components(file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    chip = tmp_path / "chip.json"
    chip.write_text(json.dumps({"schema": SCHEMA, "components": CHIP}))
    assert exit_code(["trace", "energy", str(file), "--components", str(chip)]) == 0
    text = capsys.readouterr().out
    assert "Energy by component" in text and "Energy by op" in text and "weight buffer" in text
    assert exit_code(["trace", "energy", str(file), "--by", "component"]) == 2
    assert "name a file of components: --components FILE" in capsys.readouterr().err
    chip.write_text('{"components": {}}')
    assert exit_code(["trace", "energy", str(file), "--components", str(chip)]) == 2
    assert SCHEMA in capsys.readouterr().err
