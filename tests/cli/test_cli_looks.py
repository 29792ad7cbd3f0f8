"""`kbsim program` and `kbsim config`: looking without running."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernbench import load_config, load_program
from kernbench.bounds import summarise
from kernbench.config import board_names, chip_names, preset_names
from kernbench.workloads.catalogue import WORKLOADS
from tests.cli.conftest import Kbsim

SMALL = ("--config", "small.yaml")


def test_check_by_itself_and_on_a_machine(kbsim: Kbsim) -> None:
    alone = "tiles.json: 22 entries, valid by itself; --config checks it against a machine\n"
    assert kbsim("program", "check", "tiles.json") == (0, alone, "")
    assert kbsim("program", "check", "tiles.json", *SMALL) == (0, "tiles.json: 22 entries, valid on small.yaml\n", "")
    assert json.loads(kbsim("program", "check", "tiles.json", *SMALL, "--json").out) == {
        "status": "valid",
        "entries": 22,
        "machine": "small.yaml",
    }


def test_check_refuses_what_the_machine_has_not(kbsim: Kbsim) -> None:
    said = kbsim("program", "check", "tiles.json", *SMALL, "--set", "te.engines=1")
    assert (said.code, said.out) == (2, "")
    assert len(said.err.splitlines()) == 2


def test_show_as_json_is_the_summary(kbsim: Kbsim) -> None:
    shown = json.loads(kbsim("program", "show", "tiles.json", *SMALL, "--json").out)
    summary = summarise(load_program("tiles.json"), load_config("small.yaml"))
    for key in ("entries", "opcodes", "jobs", "dram_read", "dram_written", "asked_bytes", "moved_bytes", "macs", "ops"):
        assert shown[key] == getattr(summary, key)
    assert shown["graph"] == {"depth": 7, "width": 6, "edges": 26}
    assert shown["critical_path"] == list(summary.bounds.path)
    assert shown["bounds"]["cycles"] == summary.bounds.cycles == 2085
    ran = json.loads(kbsim("run", "tiles.json", *SMALL, "--json").out)
    assert shown["bounds"] == ran["metrics"]["bounds"]


def test_show_tells_of_a_deadlock_before_it_comes(kbsim: Kbsim) -> None:
    shown = json.loads(kbsim("program", "show", "stuck.json", *SMALL, "--json").out)
    ran = json.loads(kbsim("run", "stuck.json", *SMALL, "--json").out)
    assert shown["never_issued"] == [entry["id"] for entry in ran["entries"] if entry["issue"] is None] == [1, 2, 3, 4]


def test_graph_as_dot(kbsim: Kbsim) -> None:
    assert kbsim("program", "show", "stuck.json", *SMALL, "--graph", "dot").out == (
        "digraph program {\n"
        "  rankdir=LR;\n"
        '  node [shape=box, style=filled, fontname="sans-serif"];\n'
        '  n0 [label="0 DMA_LOAD_TILE dma0", fillcolor="#c7dafe"];\n'
        '  n1 [label="1 BARRIER", fillcolor="#e9e9eb"];\n'
        '  n2 [label="2 NOP", fillcolor="#e9e9eb"];\n'
        '  n3 [label="3 TE_GEMM_TILE te0", fillcolor="#f4d5c2"];\n'
        '  n4 [label="4 END", fillcolor="#e9e9eb"];\n'
        "  n0 -> n1;\n"
        "  n3 -> n1;\n"
        "  n1 -> n2;\n"
        "  n1 -> n3 [style=dashed];\n"
        "  n1 -> n4 [style=dashed];\n"
        "  n2 -> n4 [style=dashed];\n"
        "  n3 -> n4 [style=dashed];\n"
        "}\n"
    )


def test_graph_as_mermaid(kbsim: Kbsim) -> None:
    lines = kbsim("program", "show", "stuck.json", *SMALL, "--graph", "mermaid").out.splitlines()
    assert lines[0] == "flowchart LR"
    assert '  n3["3 TE_GEMM_TILE te0"]:::te' in lines
    assert "  n0 --> n1" in lines and "  n1 -.-> n3" in lines


@pytest.mark.parametrize("suffix", ["json", "yaml"])
def test_emit_writes_the_workload(suffix: str, kbsim: Kbsim) -> None:
    file = Path(f"decode.{suffix}")
    said = kbsim("program", "emit", "llama2-7b-decode", "--config", "npu_mobile", "-o", str(file))
    program = load_program(file)
    assert program == WORKLOADS["llama2-7b-decode"](load_config("npu_mobile"))
    assert said == (0, "", f"{file}: {len(program):,} entries for npu_mobile.yaml\n")


def test_emit_leaves_an_existing_file_alone_where_the_machine_is_too_small(kbsim: Kbsim) -> None:
    Path("decode.json").write_text("precious")
    assert kbsim("program", "emit", "llama2-7b-decode", *SMALL, "-o", "decode.json").code == 2
    assert Path("decode.json").read_text() == "precious"


def test_list_names_every_workload_with_its_line(kbsim: Kbsim) -> None:
    text = kbsim("program", "list").out
    listed = json.loads(kbsim("program", "list", "--json").out)["workloads"]
    assert list(listed) == list(WORKLOADS)
    assert all(name in text and line for name, line in listed.items())


def test_presets_are_listed_and_valid(kbsim: Kbsim) -> None:
    listed = {"presets": preset_names(), "chips": chip_names(), "boards": board_names()}
    assert json.loads(kbsim("config", "list", "--json").out) == listed
    table = kbsim("config", "list").out
    assert all(name in table for name in (*chip_names(), *board_names()))
    for name in preset_names():
        assert name in table
        assert kbsim("config", "check", name).out.startswith(f"{name}.yaml: valid; clock ")


def test_config_check_answers_in_json(kbsim: Kbsim) -> None:
    answer = json.loads(kbsim("config", "check", "small.yaml", "--json").out)
    assert answer == {
        "status": "valid",
        "warnings": [],
        "machine": "small.yaml",
        "schema": "kernbench/npu/1",
        "digest": load_config("small.yaml").digest(),
    }
    said = kbsim("config", "check", "small.yaml", "--set", "te.engines=0")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: override te.engines=0: te.engines = 0, but ")


def test_config_show_says_where_each_value_comes_from(kbsim: Kbsim) -> None:
    answer = json.loads(kbsim("config", "show", "small.yaml", "--effective", "--set", "te.engines=3", "--json").out)
    values = {item["path"]: (item["value"], item["origin"]) for item in answer["values"]}
    assert values["te.engines"] == (3, "override")
    assert values["freq_ghz"] == (1.5, "small.yaml:2:11")
    assert values["ve.lanes"] == (64, "default")
    config = load_config("small.yaml", ["te.engines=3"])
    assert [list(item.values()) for item in answer["values"]] == json.loads(json.dumps(config.effective()))
    given = json.loads(kbsim("config", "show", "small.yaml", "--json").out)["values"]
    assert given == [
        {"path": path, "value": value, "origin": origin}
        for path, value, origin in json.loads(json.dumps(load_config("small.yaml").effective()))
        if origin != "default"
    ]
