"""`kbsim compare`: what people see at 80 and 120 columns, what programs get, and what is refused.

The texts are in `tests/cli/golden/compare`. They are made again by `KB_REGOLD=1 pytest tests/cli/test_cli_compare.py`.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernbench.common.look.palette import colour
from tests.cli.conftest import Kbsim
from tests.cli.pinned import GOLDEN, WIDTHS, check_files, check_pinned
from tests.onnx_models import mlp

PINNED = GOLDEN / "compare"
GEMM = ("--set", "m=256", "--set", "n=256", "--set", "k=256")
MODEL = ("--set", "prompt=8", "--set", "tokens=1", "--set", "layers=1")
TWO = ("-c", "npu_mobile", "-c", "npu_server")
SMALL_MODEL = """\
model_type: llama
hidden_size: 512
intermediate_size: 1376
num_hidden_layers: 2
num_attention_heads: 8
num_key_value_heads: 8
hidden_act: silu
vocab_size: 4000
max_position_embeddings: 512
tie_word_embeddings: false
"""
COMMANDS = {
    "program": ("compare", "tiles.json", "-c", "small.yaml", "-c", "narrow.yaml"),
    "bench": ("compare", "gemm", *GEMM, "-c", "npu_mobile", "-c", "npu_server", "-c", "single_cube"),
    "model": ("compare", "small_model.yaml", *MODEL, *TWO),
    "graph": ("compare", "mlp.onnx", "--set", "w=4", *TWO),
    "bounds_alone": ("compare", "llama2-7b-decode", *TWO, "--no-why"),
    "not_done": ("compare", "stuck.json", "-c", "small.yaml", "-c", "narrow.yaml"),
    "one_machine": ("compare", "gemm", "-c", "npu_server"),
    "twice": ("compare", "gemm", "-c", "npu_server", "-c", "npu_server"),
    "parameter": ("compare", "llama2-7b", *TWO, "--set", "promt=8"),
    "flits": ("compare", "gemm", *GEMM, "-c", "npu_server", "--noc"),
    "flits_of_two": ("compare", "gemm", *TWO, "--noc"),
    "flits_without_mesh": ("compare", "gemm", "-c", "npu_mobile", "--noc"),
    "system": ("compare", "llama2-7b-decode", "-c", "npu_server", "-c", "single_cube"),
}


@pytest.fixture(autouse=True)
def _files(_place: None) -> None:
    text = Path("small.yaml").read_text(encoding="utf-8")
    Path("narrow.yaml").write_text(
        text.replace("t_setup_cycles: 10", "t_setup_cycles: 10, peak_bw_bytes_per_cycle: 8"), encoding="utf-8"
    )
    mlp().save(Path("mlp.onnx"))
    Path("small_model.yaml").write_text(SMALL_MODEL, encoding="utf-8")


# A traced layer on a system takes seconds: one width of it.
LONG = ("system", WIDTHS[0])
SHOWN = [
    pytest.param(name, width, marks=[pytest.mark.nightly] if (name, width) == LONG else [])
    for name in COMMANDS
    for width in WIDTHS
]


@pytest.mark.parametrize(("name", "width"), SHOWN)
def test_output_is_as_pinned(name: str, width: int, kbsim: Kbsim) -> None:
    check_pinned(kbsim, PINNED / name, COMMANDS[name], width)


def test_every_golden_file_belongs_to_a_command() -> None:
    check_files(PINNED, COMMANDS)


@pytest.mark.parametrize("name", ["program", "bench", "model", "graph"])
def test_each_machine_takes_what_its_own_run_takes(name: str, kbsim: Kbsim) -> None:
    command = COMMANDS[name]
    rest = [
        one for one in command[2:] if one not in ("-c", "npu_mobile", "npu_server", "single_cube", "small.yaml", "narrow.yaml")
    ]
    for one in json.loads(kbsim(*command, "--no-why", "--json").out)["machines"]:
        own = {
            "program": ("run", command[1]),
            "bench": ("run", command[1], *rest),
            "model": ("llm", "--model", command[1], "--prompt", "8", "--tokens", "1", "--layers", "1"),
            "graph": ("onnx", command[1], "--w", "4"),
        }[name]
        whole = json.loads(kbsim(*own, "-c", one["machine"] if name == "program" else one["name"], "--json").out)
        assert one["cycles"] == whole["cycles"]
        assert one["causes"] is None and one["changes"] is None


def test_causes_add_up_to_the_time_of_each_machine(kbsim: Kbsim) -> None:
    for name in ("program", "bench", "model", "graph"):
        whole = json.loads(kbsim(*COMMANDS[name], "--json").out)
        for one in whole["machines"]:
            assert sum(cause["t_ns"] for cause in one["causes"]) == pytest.approx(one["t_ns"])
        first = whole["machines"][0]
        assert first["changes"] == [] and first["speedup"] == 1
        for one in whole["machines"][1:]:
            assert one["speedup"] == first["t_ns"] / one["t_ns"]
            before = {cause["cause"]: cause["t_ns"] for cause in first["causes"]}
            after = {cause["cause"]: cause["t_ns"] for cause in one["causes"]}
            for change in one["changes"]:
                assert change["t_ns"] == pytest.approx(after.get(change["cause"], 0) - before.get(change["cause"], 0))


def test_keys_that_differ_are_told_from_the_first_machine_on(kbsim: Kbsim) -> None:
    whole = json.loads(kbsim(*COMMANDS["program"], "--json").out)
    assert {"path": "dram.peak_bw_bytes_per_cycle", "first": 128, "here": 8} in whole["machines"][1]["settings"]


def test_a_picture_names_the_causes_that_can_be_seen(kbsim: Kbsim) -> None:
    whole = json.loads(kbsim(*COMMANDS["program"], "--json", "--plot", "a.svg").out)
    shares: dict[str, float] = {}
    for one in whole["machines"]:
        for cause in one["causes"]:
            shares[cause["cause"]] = max(shares.get(cause["cause"], 0.0), cause["t_ns"] / one["t_ns"])
    drawn = Path("a.svg").read_text(encoding="utf-8")
    assert {cause for cause in shares if f">{cause}<" in drawn} == {cause for cause, share in shares.items() if share >= 0.01}
    assert any(share < 0.01 for share in shares.values()) and ">all else<" in drawn


@pytest.mark.parametrize("ending", ["svg", "png"])
def test_a_picture_is_the_same_each_time(ending: str, kbsim: Kbsim) -> None:
    for name in ("a", "b"):
        assert kbsim(*COMMANDS["program"], "--plot", f"{name}.{ending}", "-q").code == 0
    made = Path(f"a.{ending}").read_bytes()
    assert made == Path(f"b.{ending}").read_bytes() and made.startswith(b"\x89PNG" if ending == "png" else b"<?xml")


@pytest.mark.parametrize(
    ("more", "says"),
    [
        (("--plot", "a.pdf"), "the file name must end in .svg or .png"),
        (("--plot", "a.svg", "--no-why"), "the plot shows causes"),
        (("--plot", "none/a.svg"), "a.svg"),
    ],
)
def test_a_picture_that_cannot_be_is_refused_before_the_run(more: tuple[str, ...], says: str, kbsim: Kbsim) -> None:
    said = kbsim(*COMMANDS["program"], *more)
    assert said.code == 2 and says in said.err and said.out == ""


def test_the_exit_code_is_that_of_the_worst_run(kbsim: Kbsim) -> None:
    assert kbsim(*COMMANDS["not_done"], "-q").code == 4
    assert kbsim(*COMMANDS["program"], "--set", "max_cycles=100", "-q").code == 3


@pytest.mark.parametrize("name", ["program", "not_done"])
def test_machines_of_one_name_are_told_apart_by_their_files(name: str, kbsim: Kbsim) -> None:
    Path("other").mkdir()
    Path("other/small.yaml").write_bytes(Path("narrow.yaml").read_bytes())
    whole = json.loads(kbsim("compare", COMMANDS[name][1], "-c", "small.yaml", "-c", "other/small.yaml", "--json").out)
    assert [one["name"] for one in whole["machines"]] == ["small.yaml", "other/small.yaml"]


def test_a_kernel_that_fails_names_its_machine(kbsim: Kbsim) -> None:
    Path("tiny.yaml").write_text("schema: kernbench/npu/1\nspm: {num_banks: 16, bank_size_bytes: 128}\n", encoding="utf-8")
    told = kbsim("compare", "gemm", *GEMM, "-c", "npu_server", "-c", "tiny.yaml")
    assert told.code == 5 and told.err.startswith("error: tiny: ") and "takes" in told.err


@pytest.mark.parametrize(("second", "noted"), [("rtx4090", True), ("npu_server", False)])
def test_a_model_on_chips_names_the_option_for_their_kernels(second: str, noted: bool, kbsim: Kbsim) -> None:
    first = "a100" if noted else "npu_mobile"
    told = kbsim("compare", "small_model.yaml", *MODEL, "--no-why", "-c", first, "-c", second)
    assert told.code == 0 and ("--runtime NAME" in told.err) == noted


def test_a_plot_is_dark_on_request(kbsim: Kbsim) -> None:
    pytest.importorskip("matplotlib")
    ccl = ("ccl", "run", "all_reduce", "--algo", "ring", "--ranks", "4", "-b", "1K", "-e", "1K", "--no-check")
    tune = ("ccl", "tune", "all_reduce", "--ranks", "4", "-b", "1K", "-e", "1K")
    for number, asked in enumerate((COMMANDS["program"], ccl, tune)):
        for name, more in ((f"light{number}.svg", ()), (f"dark{number}.svg", ("--dark",))):
            assert kbsim(*asked, "--plot", name, *more).code == 0
            text = Path(name).read_text(encoding="utf-8")
            used, other = ("dark", "light") if more else ("light", "dark")
            assert colour("card", used) in text and colour("card", other) not in text  # type: ignore[arg-type]
        assert kbsim(*asked, "--dark").err.endswith("--dark: it is for plots; add --plot FILE\n")
