"""`kbsim serve`: workloads of files, rows, traces, and what is refused."""

from __future__ import annotations

import csv
import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from kernbench.cli.serve.page import page_bytes
from kernbench.cli.serve.text import ms_text
from kernbench.cli.text import percent, short
from kernbench.serving import ContinuousBatching, EngineOptions, Request, fixed_step, simulate
from tests.cli.conftest import Kbsim

TINY = {"model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
        "vocab_size": 500, "head_dim": 64}  # fmt: skip
CUSTOM = ("serve", "--model", "tiny.json", "--dataset-name", "custom", "--dataset-path")


@pytest.fixture(autouse=True)
def files(_place: None, tmp_path: Path) -> None:
    (tmp_path / "tiny.json").write_text(json.dumps(TINY), encoding="utf-8")
    rows = [{"arrival_s": i / 1000, "input_tokens": 20 + i, "output_tokens": 1 + i % 3} for i in range(5)]
    (tmp_path / "load.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def test_rows_and_steps_of_a_replayed_file(kbsim: Kbsim, tmp_path: Path) -> None:
    said = kbsim(*CUSTOM, "load.jsonl", "--rows", "rows.csv", "--trace", "steps.json", "--json", "--check-steps", "0")
    assert said.code == 0, said.err
    plain = json.loads(said.out)
    with open(tmp_path / "rows.csv", encoding="utf-8", newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: int(row["id"]))
    assert [float(row["arrival_ms"]) for row in rows] == [0, 1, 2, 3, 4]
    assert [int(row["generated"]) for row in rows] == [1, 2, 3, 1, 2] and plain["output_tokens"] == 9
    events: list[dict[str, Any]] = json.loads((tmp_path / "steps.json").read_text(encoding="utf-8"))["traceEvents"]
    steps = [event for event in events if event["ph"] == "X"]
    assert len(steps) == plain["steps"]
    assert sum(step["args"]["prefill_tokens"] for step in steps) == plain["prompt_tokens"]
    assert sum(step["args"]["decodes"] for step in steps) == 9 - 5
    assert all(isinstance(step["args"]["limit"], str) and 0 < step["args"]["limit_share"] <= 1 for step in steps)
    assert all(one["ts"] + one["dur"] <= other["ts"] + 1e-6 for one, other in pairwise(steps))


def test_parquet_has_the_rows_of_csv(kbsim: Kbsim, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for name in ("rows.csv", "rows.parquet"):
        assert kbsim(*CUSTOM, "load.jsonl", "--rows", name, "--quiet", "--check-steps", "0").code == 0
    with open(tmp_path / "rows.csv", encoding="utf-8", newline="") as file:
        want = list(csv.DictReader(file))
    found = parquet.read_table(tmp_path / "rows.parquet").to_pylist()
    assert [{name: "" if value is None else str(value) for name, value in row.items()} for row in found] == want


def test_a_filled_table_gives_what_an_empty_one_gave(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("KERNBENCH_CACHE", str(tmp_path / "cache"))
    runs = [json.loads(kbsim(*CUSTOM, "load.jsonl", "--json").out) for _ in range(2)]
    assert runs[0]["table"]["simulated"] > 0 == runs[1]["table"]["simulated"]
    assert {**runs[0], "table": None} == {**runs[1], "table": None}


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("a.jsonl", '{"input_tokens": 4}\n', "a.jsonl:1: the field output_tokens is missing"),
        ("a.jsonl", '{"input_tokens": 4, "output_tokens": 0}\n', "output_tokens = 0, but it must be an integer from 1"),
        ("a.jsonl", '{"input_tokens": 4,\n', "a.jsonl:1: it must be a JSON object"),
        ("a.jsonl", "[1]\n", "a.jsonl:1: it must be a JSON object"),
        ("a.jsonl", '{"input_tokens": NaN, "output_tokens": 1}\n', "it must be an integer from 1"),
        ("a.jsonl", '{"input_tokens": 1e400, "output_tokens": 1}\n', "it must be an integer from 1"),
        (
            "a.jsonl", '{"arrival_s": 2, "input_tokens": 4, "output_tokens": 1}\n'
            '{"arrival_s": 1, "input_tokens": 4, "output_tokens": 1}\n',
            "a.jsonl:2: arrival_s = 1.0, but arrivals must not go back",
        ),
        (
            "a.jsonl", '{"input_tokens": 4, "output_tokens": 1, "prefix": "p", "prefix_tokens": 5}\n',
            "prefix_tokens = 5, but it must be at most input_tokens = 4",
        ),
        ("a.csv", "input_tokens,output_tokens\n1\n", "a.csv:2: it has 1 values, but the first line has 2 names"),
        ("a.csv", "input_token,output_tokens\n1,1\n", "rename input_token to input_tokens"),
        ("a.txt", "", "the file name must end in .jsonl or .csv"),
    ],
)  # fmt: skip
def test_what_is_no_workload_is_refused(name: str, text: str, told: str, kbsim: Kbsim, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text, encoding="utf-8")
    said = kbsim(*CUSTOM, name)
    assert said.code == 2
    assert told in " ".join(said.err.split()), said.err


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--dataset-name", "random", "--dataset-path", "load.jsonl"), "random draws its lengths at random and reads no file"),
        (("--dataset-name", "custom"), "custom needs a file"),
        (("--goodput", "itl:3"), "it must be METRIC:MS, with METRIC one of ttft, tpot, e2el"),
        (("--trace", "a.json", "--replicas", "2"), "it is of one engine, and this has 2"),
        (("--rows", "rows.txt"), "the file name must end in .csv or .parquet"),
        (("--ramp-up-strategy", "linear"), "it is needed with ramp_up"),
        (("--num-gpu-blocks-override", "8", "--max-model-len", "4096"), "it must be at most what the KV cache holds"),
        (("--gpu-memory-utilization", "0.00001"), "leaves no room for a KV cache"),
        (("--gpu-memory-utilization", "1.5"), "it must be more than 0 and at most 1"),
        (("--request-rate", "-1"), "greater than 0"),
    ],
)
def test_what_is_no_run_is_refused(options: tuple[str, ...], told: str, kbsim: Kbsim) -> None:
    said = kbsim("serve", "--model", "tiny.json", *options)
    assert said.code == 2
    assert told in " ".join(said.err.replace("│", " ").split()), said.err


def test_a_page_shows_the_run_and_has_the_same_bytes_again(kbsim: Kbsim, tmp_path: Path) -> None:
    given = (*CUSTOM, "load.jsonl", "--check-steps", "0", "--goodput", "ttft:1000")
    said = [kbsim(*given, "--json", option, name) for option, name in (("--html", "one.html"), ("--report", "two.html"))]
    assert [one.code for one in said] == [0, 0], said[0].err
    pages = [(tmp_path / name).read_text(encoding="utf-8") for name in ("one.html", "two.html")]
    first = pages[0]
    assert first == pages[1]  # though the first run fills the table
    whole = json.loads(said[0].out)["whole"]
    assert f"{short(whole['requests_per_s'])} requests/s</p>" in first and "Goodput" in first
    assert f"p99 TTFT {ms_text(whole['ttft_ms']['p99'])}" in first
    share = whole["why"]["ttft"]["prefill_ms"] / whole["ttft_ms"]["mean"]
    assert f"prefill {percent(share)}, {ms_text(whole['why']['ttft']['prefill_ms'])}" in first
    assert [first.count(f"<h2>{name} <small>") for name in ("Running", "KV cache", "TTFT", "TPOT", "ITL", "E2EL")] == [1] * 6
    assert "http:" not in first and "https:" not in first and "src=" not in first


def test_a_page_escapes_names_and_leaves_out_what_no_request_has(kbsim: Kbsim) -> None:
    plain = json.loads(kbsim(*CUSTOM, "load.jsonl", "--check-steps", "0", "--json").out)
    engine = ContinuousBatching(EngineOptions(num_gpu_blocks=64, max_model_len=256))
    result = simulate([Request(0, arrival_ns=0, prompt=8, output=1)], engine, fixed_step(1000))
    alone = result.to_dict()
    page = page_bytes({**plain, **alone, "model": "a<b>&c"}, result).decode()
    assert "a&lt;b&gt;&amp;c" in page and "<b>&c" not in page
    assert '<h2>TPOT</h2><p class="none">' in page and "<b>TPOT" not in page


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (("--swap-space", "2"), "with --preemption-mode swap"),
        (("--preemption-mode", "swap"), "--host-link-gb-s"),
        (("--lora", "8"), "--lora = \"8\", but it must be N,RANK; write 8,16"),
        (("--lora", "8,0"), "rank = 0, but it must be an integer of at least 1"),
        (("--lora", "8,16"), "a larger --max-loras"),
        (("--speculative-config", "{}"), "num_speculative_tokens"),
        (("--fleet", "fleet.yaml", "--replicas", "2"), "--replicas and --prefill-replicas may not be given"),
        (("--fleet", "fleet.yaml"), "fleet.yaml: the file does not exist"),
    ],
)
def test_options_that_need_others(given: tuple[str, ...], told: str, kbsim: Kbsim) -> None:
    said = kbsim(*CUSTOM, "load.jsonl", *given)
    assert said.code == 2 and told in said.err


def test_drafts_energy_and_price_are_shown(kbsim: Kbsim) -> None:
    drafts = '{"model": "tiny.json", "num_speculative_tokens": 2, "synthetic_acceptance_rates": [1, 1]}'
    price = ("--set", "cost.usd_per_hour=2", "--energy", "--check-steps", "0")
    plain = json.loads(kbsim(*CUSTOM, "load.jsonl", "--speculative-config", drafts, *price, "--json").out)
    assert plain["speculation"]["acceptance_length"] == 3
    energy = plain["energy"]
    assert energy["joules"] == pytest.approx(sum(energy["by_part_j"].values())) and energy["by_part_j"]["dram"] > 0
    assert energy["joules_per_million_output_tokens"] == pytest.approx(energy["joules"] / plain["output_tokens"] * 1e6)
    said = kbsim(*CUSTOM, "load.jsonl", "--speculative-config", drafts, *price)
    assert "a step gives 3 tokens of a request" in said.out and "a million output tokens cost $" in said.out
    assert "an output token: " in said.out
    assert energy["request_j"]["count"] == 5 and "energy of a request: mean " in said.out


def test_tokens_that_choose_few_experts_take_longer(kbsim: Kbsim, tmp_path: Path) -> None:
    experts = {"model_type": "mixtral", "num_local_experts": 4, "num_experts_per_tok": 1, "num_key_value_heads": 4}
    (tmp_path / "moe.json").write_text(json.dumps(TINY | experts), encoding="utf-8")

    def mean_ms(*given: str) -> float:
        options = ("--model", "moe.json", "--random-input-len", "64", "--random-output-len", "1", "--num-prompts", "1")
        said = kbsim("serve", *options, "-c", "single_cube", "--tp", "2", "--ep", "--exact", "--json", *given)
        assert said.code == 0, said.err
        return float(json.loads(said.out)["whole"]["ttft_ms"]["mean"])

    assert mean_ms("--routing", "zipf:4") > 1.05 * mean_ms()


def test_adapters_of_a_file(kbsim: Kbsim, tmp_path: Path) -> None:
    rows = [{"arrival_s": 0, "input_tokens": 20, "output_tokens": 2, "adapter": number} for number in (0, 1, 2)]
    (tmp_path / "adapters.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    said = kbsim(*CUSTOM, "adapters.jsonl", "--lora", "2,8", "--max-loras", "2")
    assert said.code == 2 and "adapters.jsonl:3: adapter = 2, but it must be less than the number of adapters, 2" in said.err
    assert kbsim(*CUSTOM, "adapters.jsonl", "--lora", "3,8", "--max-loras", "3", "--quiet").code == 0


def test_stages_and_copies_from_the_command_line(kbsim: Kbsim, tmp_path: Path) -> None:
    """Of a system: the group of a fleet names its layout, and the trace has a track for each stage."""
    (tmp_path / "four.json").write_text(json.dumps({**TINY, "hidden_size": 64, "intermediate_size": 128, "head_dim": 16,
                                                    "num_hidden_layers": 4}), encoding="ascii")  # fmt: skip
    load = ["serve", "--model", "four.json", "--num-prompts", "2", "--random-input-len", "16", "--random-output-len", "2"]
    load += ["--check-steps", "0"]
    plain = json.loads(kbsim(*load, "-c", "single_cube", "--pp", "2", "--trace", "steps.json", "--json").out)
    assert plain["requests"]["finished"] == 2 and plain["whole"]["why"]["tpot"]["pipeline_ms"] >= 0
    events = json.loads((tmp_path / "steps.json").read_text(encoding="ascii"))["traceEvents"]
    assert {event["tid"] for event in events if event["ph"] == "X"} == {0, 1}
    (tmp_path / "fleet.yaml").write_text("groups:\n- {config: single_cube, pp: 2, dp: 2}\n", encoding="ascii")
    assert "pp 2 dp 2" in kbsim(*load, "--fleet", "fleet.yaml").out
    refused = kbsim(*load, "-c", "npu_server", "--pp", "2")
    assert refused.code == 2 and "has 1 PE, and 2 are needed;" in " ".join(refused.err.split())


@pytest.mark.parametrize("goals", [("ttft:200", "tpot:50"), ("ttft:200,tpot:50",), ("ttft:200", "tpot:50", "--quiet")])
def test_goals_as_vllm_takes_them(kbsim: Kbsim, goals: tuple[str, ...]) -> None:
    """Several values behind one option, and options behind them."""
    said = kbsim(*CUSTOM, "load.jsonl", "--check-steps", "0", "--goodput", *goals, "--json")
    assert said.code == 0 and json.loads(said.out)["goals_ms"] == {"ttft": 200.0, "tpot": 50.0}


def test_a_burstiness_of_0_has_no_likely_value(kbsim: Kbsim) -> None:
    said = kbsim("serve", "--model", "tiny.json", "--burstiness", "0")
    assert said.code == 2 and said.err.rstrip().endswith("it must be a number greater than 0, or inf")


def test_steps_are_padded_to_the_sizes_that_are_captured(kbsim: Kbsim) -> None:
    """One request of 20 tokens: its prompt runs as 32 tokens, and its decodes as 8."""
    load = ("serve", "--model", "tiny.json", "--num-prompts", "1", "--random-input-len", "20", "--random-output-len", "3",
            "--exact", "--json")  # fmt: skip
    plain, padded, same = (
        json.loads(kbsim(*load, *more).out)["whole"]["e2el_ms"]["mean"]
        for more in ((), ("--cudagraph-capture-sizes", "32,8"), ("--cudagraph-capture-sizes", "1 20"))
    )
    assert plain == same < padded
    refused = kbsim(*load, "--cudagraph-capture-sizes", "0,8")
    assert refused.code == 2 and "write 1,2,4,8" in refused.err


def test_the_dataset_of_a_file_is_known_by_its_ending_and_columns(kbsim: Kbsim, tmp_path: Path) -> None:
    (tmp_path / "own.csv").write_text("input_tokens,output_tokens\n4,1\n", encoding="utf-8")
    (tmp_path / "burst.csv").write_text("Timestamp,Request tokens,Response tokens\n5,4,1\n7,4,0\n", encoding="utf-8")
    turns = [{"value": "a" * 64}, {"value": "b" * 64}]
    (tmp_path / "share.json").write_text(json.dumps([{"conversations": turns}]), encoding="utf-8")
    for name, dataset in (("own.csv", "custom"), ("burst.csv", "burstgpt"), ("share.json", "sharegpt")):
        guessed, named = (
            json.loads(kbsim("serve", "--model", "tiny.json", "--dataset-path", name, *more, "--json").out)["requests"]
            for more in ((), ("--dataset-name", dataset))
        )
        assert guessed == named
