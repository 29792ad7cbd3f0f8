"""`kbsim llm` on many PEs: pipelines, replicas, algorithms of reductions and the search for a layout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Kbsim

CONFIG: dict[str, Any] = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 4, "num_attention_heads": 4,
    "num_key_value_heads": 4, "head_dim": 64, "vocab_size": 512,
}  # fmt: skip
RUN = ("llm", "-m", "m.json", "-c", "single_cube", "--prompt", "16", "--tokens", "1", "--batch", "2")


@pytest.fixture(autouse=True)
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("m.json").write_text(json.dumps(CONFIG), encoding="utf-8")


def test_a_pipeline_is_in_the_output(kbsim: Kbsim) -> None:
    said = kbsim(*RUN, "--tp", "2", "--pp", "2", "--reduce", "tree")
    assert "on the fullest of 4 PEs" in said.out and "1 replica of 2 stages of 2 PEs, 2 micro-batches" in said.out
    rows = [line.split() for line in said.out.splitlines() if line.startswith(("prefill  ", "decode  "))]
    assert ["prefill", "all-reduce", "tree", "2"] in [row[:4] for row in rows]
    assert ["decode", "hand-off"] in [row[:2] for row in rows]
    found = json.loads(kbsim(*RUN, "--tp", "2", "--pp", "2", "--json").out)
    assert found["layout"] == {
        "tp": 2, "pp": 2, "dp": 1, "micro_batches": 2, "cp": 1, "sp": False, "shared_experts": False,
    }  # fmt: skip
    names = [one["name"] for one in found["phases"]["decode"]["collectives"]]
    assert names == ["all-reduce", "hand-off", "words back"]


def test_a_rank_may_be_a_cube(kbsim: Kbsim) -> None:
    Path("m.json").write_text(json.dumps(CONFIG | {"num_attention_heads": 8, "head_dim": 32}), encoding="utf-8")
    pes, cubes = (json.loads(kbsim(*RUN, "--tp", *tp, "--json").out) for tp in (["8"], ["1", "--rank", "cube"]))
    assert cubes["cycles"] == pes["cycles"] and cubes["layout"]["tp"] == 8
    assert cubes["layout"]["rank"] == {"kind": "cube", "pes": 8, "tp": 1}
    assert "1 rank of tensor parallelism, each a cube of 8 PEs" in kbsim(*RUN, "--rank", "cube").out
    two = kbsim(*RUN, "--tp", "2", "--rank", "cube")
    assert 'layout = "--tp 2 --rank cube", but single_cube.yaml has 8 PEs' in " ".join(two.err.split()) and two.code == 2


def test_one_npu_has_no_cubes(kbsim: Kbsim) -> None:
    said = kbsim("llm", "-m", "m.json", "-c", "npu_server", "--rank", "sip")
    text = "a rank is a SIP of a system, but npu_server.yaml is a single NPU; leave out --rank"
    assert said.code == 2 and text in " ".join(said.err.split())


def test_larger_ranks_are_proposed_where_these_fit(kbsim: Kbsim) -> None:
    run = ("llm", "--model", "llama3-70b", "-c", "pod_8sip", "--w", "4", "--tokens", "1", "--phase", "decode")
    assert "--tp 8 --rank cube" in " ".join(kbsim(*run, "--tp", "8").err.split())


def test_a_trace_of_a_pipeline_has_its_hand_offs(kbsim: Kbsim) -> None:
    said = kbsim(*RUN, "--pp", "2", "--emit", "all.json", "--phase", "decode")
    assert said.code == 0
    entries = json.loads(Path("all.json").read_text())["cmdq"]
    sends = [entry for entry in entries if entry["opcode"] == "DMA_SEND_TILE"]
    assert sends and {entry["phase"] for entry in sends} == {"HAND_OFF"}
    assert {(entry["node"], entry["peer"]) for entry in sends} == {
        ("sip0.cube0.pe0", "sip0.cube0.pe1"), ("sip0.cube0.pe1", "sip0.cube0.pe0"),
    }  # fmt: skip


def test_the_search_says_why(kbsim: Kbsim) -> None:
    said = json.loads(kbsim(*RUN, "--phase", "decode", "--layers", "2", "--parallel", "auto", "--json").out)
    ran = [one for one in said["layouts"] if one["cycles"] is not None]
    assert ran[0]["verdict"].startswith("fastest: ") and all("slower" in one["verdict"] for one in ran[1:])
    assert said["best"]["cycles"] == ran[0]["cycles"] == min(one["cycles"] for one in ran)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--parallel", "auto", "--tp", "2"), "the search finds --tp itself"),
        (("--parallel", "auto", "--emit", "x.json"), "a search for a layout cannot write this file"),
        (("--parallel", "auto", "--rank", "cube"), "the search finds --rank itself"),
        (("--pp", "9"), "runs 4 layers, and each stage of a pipeline needs one; take at most --pp 4"),
    ],
)
def test_what_cannot_be_is_refused(options: tuple[str, ...], message: str, kbsim: Kbsim) -> None:
    said = kbsim(*RUN, *options)
    assert said.code == 2 and message in " ".join(said.err.split())


def test_pes_among_which_heads_cannot_be_divided_are_refused_with_ranks_that_fit(kbsim: Kbsim) -> None:
    given = ("llm", "-m", "llama3-8b", "-c", "pod_8sip", "--phase", "decode", "--tokens", "1", "--rank", "cube")
    said = kbsim(*given, "--tp", "3")
    assert said.code == 2
    assert "3 cubes of 8 PEs share each layer" in " ".join(said.err.split())
    assert " ".join(said.err.split()).endswith("use --tp 2 --rank cube, which fits")  # 32 heads
