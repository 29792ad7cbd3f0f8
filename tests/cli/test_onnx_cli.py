"""`kbsim onnx`: what people see at 80 and 120 columns, what programs get, and the files that it writes.

The texts are in `tests/cli/golden/onnx`, made again by `KB_REGOLD=1 pytest tests/cli/test_onnx_cli.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Kbsim
from tests.cli.pinned import GOLDEN, WIDTHS, check_files, check_pinned
from tests.onnx_models import Builder, resnet_block, transformer_block

PINNED = GOLDEN / "onnx"
BLOCK = ("onnx", "block.onnx", "--dim", "batch=1", "--dim", "seq=64")
COMMANDS = {
    "block": (*BLOCK, "--w", "4"),
    "resnet": ("onnx", "resnet.onnx", "--dim", "n=2", "--config", "npu_mobile"),
    "partial": ("onnx", "odd.onnx", "--partial"),
    "not_lowered": ("onnx", "odd.onnx"),
    "no_sizes": ("onnx", "block.onnx"),
    "bad_dim": (*BLOCK, "--dim", "seq=-1"),
    "bad_bits": (*BLOCK, "--a", "4"),
    "system": (*BLOCK, "--config", "single_cube"),
}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    transformer_block().save(tmp_path / "block.onnx")
    resnet_block().save(tmp_path / "resnet.onnx")
    b = Builder()
    x = b.input("x", 4, 8)
    b.output(b.node("Relu", x, name="good"), b.node("Det", b.node("Det", x, name="first"), name="second"))
    b.save(tmp_path / "odd.onnx")


@pytest.mark.parametrize("width", WIDTHS)
@pytest.mark.parametrize("name", COMMANDS)
def test_output_is_as_pinned(name: str, width: int, kbsim: Kbsim) -> None:
    check_pinned(kbsim, PINNED / name, COMMANDS[name], width)


def test_every_golden_file_belongs_to_a_command() -> None:
    check_files(PINNED, COMMANDS)


def test_json_agrees_with_the_program_that_is_emitted(kbsim: Kbsim) -> None:
    found = json.loads(kbsim(*BLOCK, "--json").out)
    written = kbsim(*BLOCK, "--emit", "block.json", "--json")
    assert (written.code, json.loads(written.out)["status"], written.err) == (0, "written", "")
    assert kbsim(*BLOCK, "--emit", "block.json", "-q") == (0, "", "")
    run = json.loads(kbsim("run", "block.json", "--config", "npu_server", "--json").out)
    assert run["status"] == "done" and run["cycles"] == found["cycles"] == sum(node["cycles"] for node in found["nodes"])
    moved = sum(counter["bytes"] for name, counter in run["counters"].items() if name.startswith("dram."))
    assert moved == sum(found["dram_bytes"].values()) == sum(sum(node["dram_bytes"].values()) for node in found["nodes"])
    assert sum(found["energy_pj"].values()) == pytest.approx(run["metrics"]["energy_pj"]["total"])


def test_a_trace_and_a_live_map_are_written(kbsim: Kbsim) -> None:
    assert kbsim(*BLOCK, "--trace", "t.jsonl", "--live-map", "map.svg", "-q").code == 0
    assert kbsim("trace", "validate", "t.jsonl").code == 0
    text = Path("map.svg").read_text(encoding="utf-8")
    assert "<title>weights: " in text and "<title>scores_out: " in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--emit", "p.json", "--trace", "t"), '--trace = "t", but --emit runs nothing, so there is no trace'),
        (("--live-map", "map.png"), '--live-map = "map.png", but the file name must end in .svg'),
    ],
)
def test_files_that_would_not_be_what_they_seem(arguments: tuple[str, ...], message: str, kbsim: Kbsim) -> None:
    said = kbsim(*BLOCK, *arguments)
    assert (said.code, said.out, said.err) == (2, "", f"error: kbsim onnx: {message}\n")
    assert not any(Path(name).exists() for name in arguments)


def test_a_run_is_stopped_where_that_is_asked_for(kbsim: Kbsim) -> None:
    """Exactly: the END of a program is in the cycle after its last."""
    cycles = json.loads(kbsim(*BLOCK, "--json").out)["cycles"]
    assert kbsim(*BLOCK, "--set", f"max_cycles={cycles + 1}", "-q").code == 0
    said = kbsim(*BLOCK, "--set", f"max_cycles={cycles}")
    assert (said.code, said.out) == (3, "")
    assert said.err.endswith(f": stopped at max_cycles = {cycles:,}; allow more with --set max_cycles={2 * cycles}\n")
