"""`kbsim llm`: what people see at 80 and 120 columns, what programs get, and the files that it writes.

The texts are in `tests/cli/golden/llm`, made again by `KB_REGOLD=1 pytest tests/cli/test_llm_cli.py`.
"""

from __future__ import annotations

import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from kernbench.cli.llm.plans import _division_verdict
from kernbench.common.look.palette import colour
from kernbench.workloads.layer.live_map import ticks
from tests.cli.conftest import Kbsim
from tests.cli.pinned import GOLDEN, WIDTHS, check_files, check_pinned

PINNED = GOLDEN / "llm"
BRIEF = ("--layers", "1", "--prompt", "16", "--tokens", "1")
SMALL = ("--layers", "2", "--prompt", "64", "--tokens", "2")
TINY = {
    "model_type": "llama", "hidden_size": 256, "intermediate_size": 512, "num_hidden_layers": 2, "num_attention_heads": 4,
    "vocab_size": 500, "head_dim": 64,
}  # fmt: skip
COMMANDS = {
    "both": ("llm", *SMALL),
    "decode": ("llm", "--model", "llama3-8b", "--phase", "decode", "--layers", "1", "--prompt", "8000", "--tokens", "1"),
    "batch": ("llm", "--config", "npu_mobile", *BRIEF, "--batch", "4", "--w", "8", "--kv", "8", "--page", "16"),
    "whole": ("llm", *SMALL, "--no-reuse"),
    "system": ("llm", "--config", "single_cube", *SMALL, "--tp", "4"),
    "compare": ("llm", *BRIEF, "--phase", "decode", "--compare", "kv=8,4", "--compare", "batch=1,8"),
    "unknown_model": ("llm", "--model", "llama4"),
    "unknown_axis": ("llm", "--compare", "heads=1"),
    "bad_values": ("llm", "--compare", "kv=4,x"),
    "plot_alone": ("llm", "--plot", "a.svg"),
    "bad_bits": ("llm", "--w", "3"),
    "bad_layers": ("llm", "--layers", "99"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_output_is_as_pinned(name: str, width: int, kbsim: Kbsim) -> None:
    check_pinned(kbsim, PINNED / name, COMMANDS[name], width)


def test_every_golden_file_belongs_to_a_command() -> None:
    check_files(PINNED, COMMANDS)


def test_json_agrees_with_the_program_that_is_emitted(kbsim: Kbsim) -> None:
    found = json.loads(kbsim("llm", *SMALL, "--json").out)
    written = kbsim("llm", *SMALL, "--emit", "all.json", "--json")
    run = json.loads(kbsim("run", "all.json", "--config", "npu_server", "--json").out)
    assert run["status"] == "done" and run["cycles"] == found["cycles"]
    told = {"status": "written", "program": "all.json", "entries": len(run["entries"]), "machine": "npu_server.yaml"}
    assert (written.code, json.loads(written.out), written.err) == (0, told | {"set": None}, "")
    assert kbsim("llm", *SMALL, "--emit", "all.json", "-q") == (0, "", "")
    assert found["cycles"] == sum(step["cycles"] for step in found["steps"])
    assert found["cycles"] == sum(phase["cycles"] for phase in found["phases"].values())
    decode = found["phases"]["decode"]
    assert found["tokens_per_s"] == pytest.approx(2 * 1e9 / decode["t_ns"])
    moved = sum(counter["bytes"] for name, counter in run["counters"].items() if name.startswith("dram."))
    assert moved == sum(sum(phase["dram_bytes"].values()) for phase in found["phases"].values())
    energy = sum(sum(phase["energy_pj"].values()) for phase in found["phases"].values())
    assert energy == pytest.approx(run["metrics"]["energy_pj"]["total"])


def test_a_layout_that_the_machine_lacks_is_named_for_the_emitted_program(kbsim: Kbsim) -> None:
    said = kbsim("llm", "--layers", "1", "--phase", "decode", "--prompt", "5000", "--tokens", "1", "--emit", "far.json")
    assert said.err.splitlines()[1] == (
        "run it with --set 'kv_layouts=[{t_max: 4096, head_dim: 128}, {t_max: 5056, head_dim: 128}]'"
    )
    layouts = said.err.splitlines()[1].split("'")[1]
    assert kbsim("run", "far.json", "--config", "npu_server", "--set", layouts, "-q").code == 0


@pytest.mark.parametrize("level", ["summary", "full", "access"])
def test_a_trace_has_tokens_and_markers(level: str, kbsim: Kbsim) -> None:
    model = {**TINY, "hidden_size": 64} if level == "access" else TINY
    Path("tiny.json").write_text(json.dumps(model), encoding="utf-8")
    asked = ("llm", "--model", "tiny.json", *SMALL)
    assert kbsim(*asked, "--trace", "t.jsonl", "--trace-level", level, "-q").code == 0
    assert kbsim("trace", "validate", "t.jsonl").code == 0
    events = [json.loads(line) for line in Path("t.jsonl").read_text(encoding="utf-8").splitlines()]
    markers = [(event["marker"], event["t_cycle"]) for event in events if event["event_type"] == "MARKER"]
    tokens = [event["token"] for event in events if event["event_type"] == "TOKEN_COMPLETE"]
    steps = json.loads(kbsim(*asked, "--json").out)["steps"]
    ends = [steps[0]["cycles"], sum(step["cycles"] for step in steps)]
    assert markers == [("PREFILL_DONE", ends[0]), ("DECODE_DONE", ends[1])]
    assert tokens == [0, 1, 2]
    assert {64, 65} <= {event["token_idx"] for event in events if event["event_type"] == "TOKEN"}


@pytest.mark.parametrize("phase", ["both", "prefill", "decode"])
def test_the_trace_has_the_latencies_of_the_report(phase: str, kbsim: Kbsim) -> None:
    Path("tiny.json").write_text(json.dumps(TINY), encoding="utf-8")
    asked = ("llm", "--model", "tiny.json", *SMALL, "--phase", phase)
    report = json.loads(kbsim(*asked, "--json").out)
    assert kbsim(*asked, "--trace", "t.jsonl", "-q").code == 0
    tokens = json.loads(kbsim("trace", "summary", "t.jsonl", "--json").out)["tokens"]
    assert (tokens["ttft"], tokens["tpot"]) == (report["ttft_ns"], report["tpot_ns"])  # at 1 GHz
    assert (tokens["prompt"], tokens["count"]) == (64 * (phase != "decode"), 2 * (phase != "prefill"))


def test_rows_of_the_embedding_are_no_tokens_of_their_own(kbsim: Kbsim) -> None:
    asked = ("llm", "--model", "llama3-8b", "--layers", "1", "--prompt", "64", "--tokens", "2", "--trace", "t.jsonl")
    assert kbsim(*asked, "-q").code == 0
    said = kbsim("trace", "summary", "t.jsonl")
    lines = [line for line in said.out.splitlines() if line.startswith(("Tokens", "TTFT", "TPOT", "Completions"))]
    assert (said.code, lines) == (0, [
        "Tokens  2 decoded after 64 of the prompt; latency p50 457 k, p99 457 k, most 457",
        "TTFT  461 k cycles, 461.1 us",
        "TPOT  457 k cycles, 456.7 us",
        "Completions  3 OK",
    ])  # fmt: skip


def test_the_plans_that_were_compared_are_shown_with_the_one_that_is_used(kbsim: Kbsim) -> None:
    given = json.loads(kbsim("llm", "--config", "h100", "--prompt", "64", "--plan", "--json").out)
    assert list(given["plans"]) == ["prefill", "decode"]
    for candidates in given["plans"].values():
        (used,) = [one for one in candidates if one["verdict"] == "used"]
        known = [one["least_cycles"] for one in candidates if one["least_cycles"] is not None]
        assert used["least_cycles"] <= 1.05 * min(known) and max(known) > 2 * min(known)
        assert all(one["verdict"] == "does not fit" for one in candidates if one["least_cycles"] is None)
    text = kbsim("llm", "--config", "h100", "--prompt", "64", "--plan").out
    assert text.count(" used") == 2 + 2 and "% slower" in text  # of the notes, too


def test_divisions_of_layers_of_parts_are_shown_with_the_one_that_is_used(kbsim: Kbsim) -> None:
    """With prefetched experts, a prefill is divided by simulation. Decode steps have the first division that fits."""
    asked = ("llm", "--model", "qwen3-30b-a3b", "--layers", "1", "--config", "t4", "--prompt", "256", "--plan")
    given = json.loads(kbsim(*asked, "--prefetch-experts", "--json").out)
    compared, (decode,) = given["plans"]["prefill"], given["plans"]["decode"]
    cycles = [one["cycles"] for one in compared]
    (used,) = [one for one in compared if one["verdict"] == "used"]
    assert used["cycles"] == min(filter(None, cycles)) < cycles[0] and used["extra"] > 0
    assert all((one["verdict"] == "does not fit") == (one["cycles"] is None) for one in compared)
    assert (decode["verdict"], decode["cycles"]) == ("used: the most rows that fit", None)
    text = kbsim(*asked, "--prefetch-experts").out
    assert f"{used['cycles']:,}" in text and "does not fit" in text and "% slower" in text
    plain = json.loads(kbsim(*asked, "--ep", "--json", "--phase", "prefill").out)["plans"]["prefill"]
    assert [one["verdict"] for one in plain] == ["used: the most rows that fit"]


def test_rows_in_halves_are_shown_behind_the_divisions_of_a_layer_by_itself(kbsim: Kbsim) -> None:
    """All layers in one program, with the boundaries between them, take as long as each layer by itself."""
    asked = ("llm", "--model", "qwen3-30b-a3b", "--layers", "4", "--config", "t4", "--prompt", "512", "--phase", "prefill")
    asked += ("--prefetch-experts",)
    compared = json.loads(kbsim(*asked, "--plan", "--json").out)["plans"]["prefill"]
    (used,) = [one for one in compared if one["verdict"] == "used"]
    alone = min(one["cycles"] for one in compared if one["cycles"] is not None and not one["twice"])
    assert used["twice"] and used["rows"] == 256 and used["cycles"] < 0.96 * alone
    text = " ".join(kbsim(*asked, "--plan").out.split())
    assert f"parts in halves, {used['twice']}/64 of the experts twice" in text
    ran, joined = (json.loads(kbsim(*asked, "--json", *more).out)["phases"]["prefill"] for more in ((), ("--no-reuse",)))
    assert ran["cycles"] == joined["cycles"]


def test_halves_that_only_layers_in_the_middle_run_faster_are_not_used() -> None:
    assert _division_verdict(90, 100) == "slower with the first and the last layer"
    assert _division_verdict(100, 100) == "no faster"
    assert _division_verdict(110, 100) == "10.0% slower"


def test_a_search_for_divisions_says_which_planner_it_uses_and_why(kbsim: Kbsim) -> None:
    """Parts of a prompt of a model without experts have products of their own where that takes fewer cycles."""
    asked = ("llm", "--model", "llama3-8b", "--layers", "1", "--config", "tpuv6e_2x4", "--tp", "8", "--reduce", "auto")
    asked += ("--phase", "prefill", "--prompt", "256")
    plain = json.loads(kbsim(*asked, "--json").out)
    searched = json.loads(kbsim(*asked, "--search-divisions", "--json").out)
    given = json.loads(kbsim(*asked, "--search-divisions", "--plan", "--json").out)
    planners = given["planners"]
    assert searched["phases"]["prefill"]["cycles"] == planners["divided"] < planners["whole"]
    assert planners["whole"] == plain["phases"]["prefill"]["cycles"]
    (used,) = [one for one in given["plans"]["prefill"] if one["verdict"] == "used"]
    assert used["part_products"] == 1
    text = kbsim(*asked, "--search-divisions", "--plan").out
    assert f"used: layers part by part take {planners['divided']:,} cycles for all steps" in " ".join(text.split())
    assert f"parts {used['part_rows']} with products" in " ".join(text.split())


@pytest.mark.parametrize(
    "option", [("--compare", "batch=1,2"), ("--trace", "run.jsonl"), ("--plot", "p.svg"), ("--live-map", "l.svg")]
)
def test_plans_run_nothing(option: tuple[str, str], kbsim: Kbsim) -> None:
    found = kbsim("llm", "--layers", "1", "--plan", *option)
    assert found.code == 2 and f"{option[0]}: --plan runs nothing; leave out --plan or {option[0]}" in found.err


def test_a_comparison_is_drawn_the_same_each_time(kbsim: Kbsim) -> None:
    pytest.importorskip("matplotlib")
    once = ("llm", "--layers", "1", "--tokens", "1", "--phase", "decode")
    for name in ("a.svg", "b.svg"):
        assert kbsim(*once, "--compare", "kv=8,4", "--plot", name, "-q").code == 0
    assert Path("a.svg").read_bytes() == Path("b.svg").read_bytes()
    assert "DRAM bytes per token" in Path("a.svg").read_text(encoding="utf-8")
    assert kbsim(*once, "--live-map", "map.svg", "-q").code == 0
    titles = [element.text or "" for element in ElementTree.parse("map.svg").iter() if element.tag.endswith("title")]
    assert {"weights", "kv", "scores", "residual"} <= {title.split(":")[0] for title in titles}
    assert (ticks(3240000), ticks(1 << 20), ticks(1)) == ([0, 1 << 20, 2 << 20, 3 << 20], [i << 18 for i in range(5)], [0, 1])


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--emit", "a.json", "--trace", "t.jsonl"), 'kbsim llm: --trace = "t.jsonl", but --emit runs nothing'),
        (("--compare", "kv=8,4", "--trace", "t.jsonl"), 'kbsim llm: --trace = "t.jsonl", but a comparison writes only a plot'),
        (("--compare", "kv=8,4", "--emit", "a.json"), 'kbsim llm: --emit = "a.json", but a comparison writes only a plot'),
        (("--compare", "kv=8", "--plot", "a.pdf"), 'kbsim llm: --plot = "a.pdf", but the file name must end in .svg or .png'),
        (("--compare", "kv=8", "--plot", "no/a.svg"), "no/a.svg: it cannot be written: there is no directory"),
        (("--compare", "kv=8", "--compare", "kv=4"), "kbsim llm --compare: kv is compared twice; give all its values at once"),
        (("--live-map", "map.txt"), 'kbsim llm: --live-map = "map.txt", but the file name must end in .svg'),
    ],
)
def test_files_and_options_that_do_not_go_together_are_refused_before_the_runs(
    options: tuple[str, ...], said: str, kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kernbench.cli.llm.options.LlmOptions.programs", lambda options: pytest.fail("something is lowered"))
    before = sorted(Path().iterdir())
    got = kbsim("llm", *SMALL, *options)
    assert (got.code, got.out, sorted(Path().iterdir())) == (2, "", before)
    assert got.err.startswith(f"error: {said}")


def test_a_run_of_all_steps_is_stopped_where_that_is_asked_for(kbsim: Kbsim) -> None:
    """The steps together count, and exactly: the END of a program is in the cycle after its last."""
    steps = [step["cycles"] for step in json.loads(kbsim("llm", *SMALL, "--json").out)["steps"]]
    whole = sum(steps)
    for reuse in ((), ("--no-reuse",)):
        assert kbsim("llm", *SMALL, *reuse, "--set", f"max_cycles={whole + 1}", "-q").code == 0
        said = kbsim("llm", *SMALL, *reuse, "--set", f"max_cycles={whole}")
        message = f"error: llama2-7b: stopped at max_cycles = {whole:,} in decode, step 3 of 3; "
        assert (said.code, said.out) == (3, "") and said.err == f"{message}allow more with --set max_cycles={2 * whole}\n"
    said = kbsim("llm", *SMALL, "--set", f"max_cycles={max(steps) // 100}", "--json")
    assert said.code == 3 and json.loads(said.out)["status"] == "aborted"


def test_pictures_are_dark_on_request(kbsim: Kbsim) -> None:
    asked = ("llm", "--model", "llama3-8b", "--config", "npu_mobile", "--layers", "1", "--tokens", "1", "--phase", "decode")
    for name, more in (("light.svg", ()), ("dark.svg", ("--dark",))):
        assert kbsim(*asked, "--live-map", name, "-q", *more).code == 0
        assert colour("card", "dark" if more else "light") in Path(name).read_text(encoding="utf-8")
    said = kbsim(*asked, "--dark")
    assert said.code == 2 and "--dark: it is for pictures; add --plot or --live-map" in said.err
