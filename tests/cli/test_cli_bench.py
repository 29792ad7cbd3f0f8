"""`kbsim run` and `kbsim bench` on benches: exit codes, what `--json` says, what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.bench_samples import BENCH
from tests.cli.conftest import Kbsim

#: Two benches, none of which is right about what it needs.
BROKEN = '''\
from kernbench.runtime_api import DPPolicy, bench


@bench(name="too-large", description="asks for more than a slice has", machine="single_cube")
def too_large(ctx):
    ctx.empty((1 << 28,), "f32", name="small")
    ctx.empty((1 << 40,), "f32", name="huge", placement=DPPolicy())


@bench(name="other-names", description="names another output than its reference", reference=lambda inputs, params: {"y": None})
def other_names(ctx):
    ctx.output("out", ctx.zeros((4,), "f32"))
'''
RUN = ("run", "scale.py", "--verify")


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "scale.py").write_text(BENCH, encoding="utf-8")
    (tmp_path / "broken.py").write_text(BROKEN, encoding="utf-8")
    monkeypatch.chdir(tmp_path)


def test_a_right_bench_is_verified(kbsim: Kbsim) -> None:
    said = kbsim(*RUN)
    assert (said.code, said.err) == (0, "")
    assert "Outputs  out in 2 parts: as expected" in said.out


def test_a_wrong_tensor_is_exit_code_1_with_index_op_and_line(kbsim: Kbsim) -> None:
    said = kbsim(*RUN, "--set", "off=1", "--json")
    checked = json.loads(said.out)["verification"]
    assert said.code == 1 and not checked["ok"]
    assert checked["checked"] == ["out@sip0.cube0.pe0", "out@sip0.cube0.pe1"]
    first, second = checked["failures"]
    # x[0, 0] is 0 whatever the factor; the second PE has rows 4 to 7, which begin with 32.
    assert (first["tensor"], first["index"], first["expected"], first["got"]) == ("out", [0, 1], 3.0, 2.0)
    assert (second["tensor"], second["index"], second["expected"], second["got"]) == ("out", [4, 0], 96.0, 64.0)
    assert (first["differing"], second["differing"], first["elements"]) == (31, 32, 32)
    assert first["line"] == "scale.py:10"
    assert first["ops"][-1] == "computed by op 2 (mul at sip0.cube0.pe0.pe_math, scale.py:10)"


def test_a_bench_that_is_larger_than_memory_is_refused_in_a_line(kbsim: Kbsim) -> None:
    said = kbsim("run", "gemm", "--set", "n=100000000000")
    assert (said.code, said.out) == (2, "")
    assert said.err.startswith("error: kbsim: there is not enough memory for this run: Unable to allocate ")
    assert said.err.count("\n") == 1


def test_a_kernel_that_raises_is_exit_code_5_with_its_traceback(kbsim: Kbsim) -> None:
    said = kbsim(*RUN, "--set", "first=-1")
    assert said.code == 5 and said.out.startswith("failed  550 cycles")
    head, file, *rest = said.err.splitlines()
    assert head == "Traceback (most recent call last):" and file.endswith('scale.py", line 9, in scale')
    assert rest == [
        '    raise RuntimeError("below zero")',
        "RuntimeError: below zero",
        "in program 0 of scale on sip0.cube0.pe0, cycle 550",
    ]


def test_strict_waits_refuse_what_was_not_waited_for(kbsim: Kbsim) -> None:
    assert kbsim(*RUN, "--strict-wait").code == 0
    assert kbsim(*RUN, "--set", "hasty=true").code == 0
    said = kbsim(*RUN, "--set", "hasty=true", "--strict-wait")
    assert said.code == 5 and "scale.py:16: t2 is used, but what makes it (scale.py:16) has not ended" in said.err


def test_implicit_waits_are_counted(kbsim: Kbsim) -> None:
    assert json.loads(kbsim(*RUN, "--json").out)["implicit_waits"] == 0
    assert json.loads(kbsim(*RUN, "--json", "--set", "hasty=true").out)["implicit_waits"] == 2


def test_without_verify_nothing_is_computed(kbsim: Kbsim) -> None:
    said = kbsim("run", "scale.py", "--json")
    found = json.loads(said.out)
    assert found["verification"] is None
    verified = json.loads(kbsim(*RUN, "--json").out)
    assert found["cycles"] == verified["cycles"] and found["launches"] == verified["launches"]


def test_a_look_at_results_needs_an_op_log(kbsim: Kbsim) -> None:
    assert kbsim(*RUN, "--set", "look=true").code == 0
    said = kbsim("run", "scale.py", "--set", "look=true")
    assert (said.code, said.err) == (
        2,
        "error: tensor out: it holds results of kernels, but this run keeps only times; "
        "keep an op log: kbsim run --verify does\n",
    )


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("run", "scale.py", "--set", "facto=1"),
            "bench scale: facto = 1, but the bench has no such parameter; did you mean factor?",
        ),
        (("run", "scale.py", "--set", "hasty=2"), "bench scale: hasty = 2, but it must be true or false"),
        (
            ("run", "broken.py"),
            "broken.py: the file has several benches: too-large, other-names; "
            "name one of them, for example broken.py:too-large",
        ),
        (
            ("run", "broken.py:too-large"),
            "tensor huge: 4,398,046,511,104 bytes do not fit into slice 0 of sip0.cube0.hbm_ctrl: "
            "1,073,741,824 of 2,147,483,648 are free; it is held by small (1,073,741,824)",
        ),
        (
            ("run", "broken.py:other-names", "--verify"),
            "bench other-names: its reference returns y, and its run names out; "
            "call ctx.output(name, tensor) for each, with the same names",
        ),
        (("run", "gone.py"), "gone.py: the file does not exist; check the path"),
        (
            ("bench", "show", "gem"),
            "gem: there is no bench with this name; the benches are flash_attention, gemm, layernorm, moe_dispatch, "
            "paged_attention, reduce, softmax, tp_mlp, vector_add; did you mean gemm?",
        ),
        (
            ("run", "llama2-7b-decode", "--verify"),
            "kbsim: --verify is only for benches, and llama2-7b-decode is not a bench; leave out --verify; "
            "to list the benches: kbsim bench list",
        ),
    ],
)  # fmt: skip
def test_a_wrong_bench_or_parameter_is_refused(arguments: tuple[str, ...], message: str, kbsim: Kbsim) -> None:
    said = kbsim(*arguments)
    assert (said.code, said.err) == (2, f"error: {message}\n")


@pytest.mark.parametrize(
    ("returns", "said"),
    [
        ("1 / 0", "its reference failed: refers.py:5: ZeroDivisionError: division by zero"),
        ("np.zeros(3) + inputs['x']", "its reference failed: refers.py:5: KeyError: 'x'"),
        ("None", "its reference must return arrays by the names of outputs, and returns a NoneType"),
    ],
)
def test_a_reference_that_fails_is_the_users(returns: str, said: str, kbsim: Kbsim) -> None:
    lines = ["import numpy as np", "from kernbench import bench", "", "def reference(inputs, params):", f"    return {returns}"]
    lines += ["@bench(name='refers', description='fails', reference=reference)", "def run(ctx):"]
    Path("refers.py").write_text("\n".join([*lines, "    ctx.output('out', ctx.zeros((4,), 'f32', name='out'))", ""]))
    found = kbsim("run", "refers.py", "--verify")
    assert (found.code, found.err) == (2, f"error: bench refers: {said}\n")


def test_parameters_and_keys_of_the_machine_are_set_alike(kbsim: Kbsim) -> None:
    slow = ("--set", "cube.hbm.t_setup_cycles=500", "--set", "factor=4")
    found = json.loads(kbsim("run", "scale.py", "--json", *slow).out)
    plain = json.loads(kbsim("run", "scale.py", "--json").out)
    assert found["params"]["factor"] == 4.0
    # The kernel loads once and stores once, and setup is 120 without the override.
    assert found["cycles"] - plain["cycles"] == 2 * 380


def test_a_bench_runs_on_one_npu_too(kbsim: Kbsim) -> None:
    said = kbsim("run", "vector_add", "--verify", "--config", "npu_mobile", "--set", "n=4096", "--json")
    found = json.loads(said.out)
    assert said.code == 0 and found["machine"] == "npu_mobile.yaml"
    assert list(found["launches"][0]["pes"]) == ["pe0"] and found["verification"]["ok"]


def test_list_and_show_as_json(kbsim: Kbsim) -> None:
    names = [one["name"] for one in json.loads(kbsim("bench", "list", "--json").out)["benches"]]
    assert names == sorted(names) and "gemm" in names
    shown = json.loads(kbsim("bench", "show", "scale.py", "--json").out)
    assert shown["params"]["factor"] == {"default": 2.0, "doc": "", "choices": [], "least": None}
    assert shown["machine"] == "single_cube" and shown["reference"]


def test_the_result_is_also_written(kbsim: Kbsim, tmp_path: Path) -> None:
    assert kbsim(*RUN, "--quiet", "--out", "result.json").out == ""
    assert json.loads((tmp_path / "result.json").read_text())["verification"]["ok"]


@pytest.mark.parametrize("level", ["summary", "full"])
def test_a_trace_of_a_bench_is_valid(level: str, kbsim: Kbsim) -> None:
    assert kbsim("run", "scale.py", "--trace", "t.jsonl", "--trace-level", level, "--quiet").code == 0
    said = kbsim("trace", "validate", "t.jsonl")
    assert said.code == 0 and said.out.startswith("t.jsonl: valid")


COPIES = """\
import numpy as np
from kernbench import DPPolicy, bench

def double(x, out, tl):
    tl.store(out, tl.load(x, x.shape, x.dtype) * 2.0)

@bench(name="copies", description="twice", params={"how": "pe"})
def run(ctx):
    levels = {"pe": {"pe": "row_wise"}, "both": {"cube": "row_wise", "pe": "row_wise"}, "none": {}}[ctx.params["how"]]
    x = ctx.from_numpy(np.ones((128, 4), np.float32), name="x", placement=DPPolicy(**levels))
    out = ctx.empty(x.shape, "f32", name="out", placement=DPPolicy(**levels))
    ctx.launch("double", double, x, out)
    ctx.output("out", out)
"""


def test_cubes_that_compute_the_same_are_noted(kbsim: Kbsim) -> None:
    Path("copies.py").write_text(COPIES, encoding="utf-8")
    notes = {
        how: json.loads(kbsim("run", "copies.py", "-c", "two_sips", "--set", f"how={how}", "--json").out)["notes"]
        for how in ("pe", "both", "none")
    }
    assert notes["none"] == []  # as the result of an all-reduce
    assert notes["pe"] == [
        "8 cubes compute the same elements of out, because its placement divides it only among the PEs of a cube; "
        'to divide it among SIPs and cubes too: DPPolicy(sip="row_wise", cube="row_wise", pe="row_wise")'
    ]
    assert notes["both"][0].startswith("2 SIPs compute the same elements of out")


def test_traces_of_systems_name_units_inside_their_cube(kbsim: Kbsim) -> None:
    for name, size in (("a.jsonl", "64"), ("b.jsonl", "65536")):
        told = ("-c", "single_cube", "--set", f"n={size}", "-q", "--trace", name, "--trace-level", "full")
        assert kbsim("run", "vector_add", *told).code == 0
    text = kbsim("trace", "why", "a.jsonl").out
    head, _, tables = text.partition("names are relative to sip0.cube0\n")
    assert "Critical path by cause" in tables and "sip0.cube0" not in tables and "sip0.cube0" in head
    text = kbsim("trace", "diff", "a.jsonl", "b.jsonl").out
    engines = " ".join(text.partition("\nEngines")[2].partition("\n\n")[0].split())
    assert "names are relative to sip0.cube0" in engines and "equal rows joined" in engines and "pe0.pe_dma +7" in engines
