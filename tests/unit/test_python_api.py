"""What `import kernbench as kb` offers: functions that take names, and answers as data frames, plots and notebook output."""

from __future__ import annotations

import doctest
import inspect
import subprocess
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from types import SimpleNamespace

import pytest

import kernbench as kb
from kernbench import serving
from kernbench.common.extras import frame_of, optional
from tests.cli.samples import MACHINE, tiles, write_samples

MODULES = ("run", "why", "compare", "whatif", "fuzz", "probe", "llm", "sweep", "validate")
ANSWERS = ("Run", "Explanation", "Comparison", "WhatIfs", "FuzzResult", "ProbeResult", "LlmRun", "SweepResult", "Validation")
NOTHING = "import sys; sys.modules['{0}'] = None; "


@pytest.fixture(autouse=True)
def _closed_figures() -> object:
    yield
    pyplot = sys.modules.get("matplotlib.pyplot")
    if pyplot is not None:
        pyplot.close("all")


@pytest.fixture
def samples(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    write_samples(tmp_path)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.mark.parametrize("name", MODULES)
def test_examples_in_docstrings_are_true(name: str) -> None:
    module = import_module(f"kernbench.api.{name}")
    found = doctest.testmod(module)
    assert found.attempted > 0 and found.failed == 0


def test_dir_lists_the_public_names_and_all_of_them_are_there() -> None:
    names = dir(kb)
    assert names == sorted(kb.__all__)
    assert {*MODULES, *ANSWERS, "simulate", "load_config"} <= set(names)
    for name in names:
        assert getattr(kb, name) is not None
        if not name.isupper() and not name.startswith("__"):
            assert inspect.getdoc(getattr(kb, name)), name


@pytest.mark.parametrize("name", [*MODULES, "read_sweep", *ANSWERS])
def test_every_public_object_has_an_example(name: str) -> None:
    module = import_module(f"kernbench.api.{name}") if name in MODULES else None
    documented = getattr(kb, name) if module is None else getattr(module, name)
    assert ">>> " in (inspect.getdoc(documented) or ""), name


@pytest.mark.parametrize("name", ANSWERS)
def test_every_table_and_property_of_an_answer_is_documented(name: str) -> None:
    answer = getattr(kb, name)
    text = inspect.getdoc(answer)
    assert answer.tables and text is not None and "to_frame" in text
    for member, value in vars(answer).items():
        if isinstance(value, property) and not member.startswith("_") and member != "headline":
            assert value.__doc__, f"{name}.{member}"


def test_packages_can_be_called_and_are_still_packages() -> None:
    from kernbench.sweep.spec import SCHEMA
    from kernbench.validate.run import SUITES

    assert SCHEMA == "kernbench/sweep/1" and kb.validate("tensor").ok and "tensor" in SUITES
    assert list(inspect.signature(kb.sweep).parameters)[:2] == ["spec", "axes"]


def test_importing_the_package_imports_nothing_heavy() -> None:
    heavy = ("numpy", "pydantic", "polars", "pytest", "rich")
    code = f"import sys, kernbench; dir(kernbench); print([name for name in {heavy} if name in sys.modules])"
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout == "[]\n"


def test_a_target_is_a_name_a_file_a_program_or_a_dict(samples: Path) -> None:
    program = tiles()
    program.save("again.json")
    runs = [kb.run(one, "small.yaml") for one in ("tiles.json", Path("again.json"), program, program.to_dict())]
    assert len({one.cycles for one in runs}) == 1
    assert runs[0].target == "tiles.json" and runs[2].target == "tiles"


def test_a_machine_is_a_name_a_file_a_dict_or_a_machine(samples: Path) -> None:
    import yaml

    config = kb.load_config("small.yaml")
    found = {kb.run("tiles.json", one).cycles for one in ("small.yaml", Path("small.yaml"), yaml.safe_load(MACHINE), config)}
    assert len(found) == 1
    changed = kb.run("tiles.json", config, {"dram.channels": 1, "noc.dram_at": "[[0, 1]]"})
    assert changed.machine.dram.channels == 1 and changed.cycles not in found
    assert changed.machine.source == config.source


def test_a_bench_runs_on_the_default_machine_with_its_parameters() -> None:
    found = kb.run("vector_add", n=4096, verify=True)
    assert found.machine.source == "npu_server.yaml" and found.verified is True
    assert found.to_frame("launches")["cycles"].to_list() == [found.report.launches[0].cycles]


def test_a_run_is_what_simulate_and_the_engine_say(samples: Path) -> None:
    config, program = kb.load_config("small.yaml"), tiles()
    assert kb.run(program, config).result.to_json() == kb.simulate(program, config).to_json()
    assert kb.simulate("tiles.json", "small.yaml").cycles == kb.simulate(program, config).cycles


def test_jobs_have_the_times_of_the_result(samples: Path) -> None:
    found = kb.run("tiles.json", "small.yaml")
    jobs = {row["id"]: (row["start"], row["end"]) for row in found.to_frame().to_dicts()}
    assert jobs == {e.id: (e.start, e.end) for e in found.result.entries if e.id in jobs}
    assert len(jobs) == sum(e.opcode not in ("BARRIER", "NOP", "END") for e in found.result.entries)


def test_tables_add_up(samples: Path) -> None:
    found = kb.run("tiles.json", "small.yaml")
    engines = found.to_frame("engines")
    whole = engines.select("busy", "bank_conflict", "backpressure", "idle").sum_horizontal()
    assert set(whole.to_list()) == {found.cycles}
    assert found.metrics["dram_bytes"] == found.to_frame("resources").filter(kind="dram")["bytes"].sum()
    assert sum(found.why().metrics.values()) == pytest.approx(found.cycles)


def test_a_run_that_does_not_end_is_an_answer_too(samples: Path) -> None:
    stuck = kb.run("stuck.json", "small.yaml")
    assert stuck.status == "deadlock" and "deadlock" in repr(stuck) and "deadlock" in stuck._repr_html_()
    assert kb.run("tiles.json", "small.yaml", ["max_cycles=500"]).status == "aborted"


def test_a_trace_is_written_and_explained(samples: Path) -> None:
    found = kb.run("tiles.json", "small.yaml", trace="run.jsonl")
    assert kb.why("run.jsonl").sentence == kb.why(found).sentence == kb.why("tiles.json", "small.yaml").sentence


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: kb.run("gem"), "did you mean gemm?"),
        (lambda: kb.run("gemm", "npu_servr"), "did you mean npu_server?"),
        (lambda: kb.run("gemm", blok=3), "the bench has no such parameter"),
        (lambda: kb.run("llama2-7b-decode", verify=True), "verify is only for benches"),
        (lambda: kb.run("llama2-7b-decode", strict_wait=True), "strict_wait is only for benches"),
        (lambda: kb.run("llama2-7b-decode", m=3), "m is only for benches"),
        (lambda: kb.run("llama2-7b-decode").to_frame("job"), "it must be one of jobs, engines, resources, launches"),
        (lambda: kb.run("llama2-7b-decode").to_frame(library="arrow"), "it must be polars or pandas"),
        (lambda: kb.compare("gemm", ["npu_server"]), "a comparison needs at least two machines"),
        (lambda: kb.compare("gemm", ["npu_server", "npu_server"]), "two machines are called npu_server"),
        (lambda: kb.whatif("llama2-7b-decode", m=3), "m is for benches, models and graphs"),
        (lambda: kb.whatif("llama2-7b-decode", free=["dramm"]), "it must be one of dma"),
        (lambda: kb.probe("npu_server"), "only the links of a system can be measured"),
        (lambda: kb.probe(sizes=["4KB!"]), "size"),
        (lambda: kb.llm("llama9"), "llama9"),
        (lambda: kb.llm(phase="train"), "it must be one of both, prefill, decode"),
        (lambda: kb.sweep({"schema": "kernbench/sweep/1"}, config="npu_server"), "config is only valid together with axes"),
        (lambda: kb.validate("tensors"), "there is no suite \"tensors\""),
        (lambda: kb.sweep("gemm", {"te.engine": [1, 2]}), "there is no such key; did you mean te.engines?"),
    ],
)  # fmt: skip
def test_mistakes_are_refused_with_a_remedy(call: object, says: str) -> None:
    with pytest.raises(kb.InputError) as refused:
        call()  # type: ignore[operator]
    assert says in str(refused.value)


TARGET = "it must be the name of a bench or workload, a file, a Program, a Bench, or a program as a dict, and it is of type "
OVERRIDES = 'overrides: they must be a list such as ["dram.channels=4"] or a mapping such as {"dram.channels": 4}'

CONFIGS = "configs: it must be a list of machines or a mapping from names to machines, and it is of type int"
MACHINES = "it must be the name or file of a machine, or a list of them, and it is of type int"
MAPPING = 'it must be a mapping such as {"dram.channels": 4}, and it is of type list'


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: kb.run(5), f"target: {TARGET}int"),
        (lambda: kb.run(None), f"target: {TARGET}NoneType"),
        (lambda: kb.run(b"gemm"), f"target: {TARGET}bytes"),
        (lambda: kb.run(print), f"target: {TARGET}builtin_function_or_method; to run a function, make it a bench with "
                                "kernbench.bench"),
        (lambda: kb.why(5), f"target: {TARGET}int"),
        (lambda: kb.whatif(5), f"target: {TARGET}int"),
        (lambda: kb.fuzz(5), f"target: {TARGET}int"),
        (lambda: kb.compare(5, ["npu_server", "npu_mobile"]), f"target: {TARGET}int"),
        (lambda: kb.compare("gemm", 5), CONFIGS),
        (lambda: kb.run("gemm", config=3), "machine: it must be a name, a file, a mapping or a machine, and it is of type int"),
        (lambda: kb.run("gemm", m="512"), 'bench gemm: m = "512", but it must be an integer'),
        (lambda: kb.run("gemm", overrides=5), OVERRIDES),
        (lambda: kb.load_config("npu_server", [5]), OVERRIDES),
        (lambda: kb.llm(5), "model: it must be the name of a model or a file, and it is of type int"),
        (lambda: kb.llm(tp="8"), 'kernbench.llm: tp = "8", but it must be an integer of at least 1'),
        (lambda: kb.llm(tokens=None), "kernbench.llm: tokens = null, but it must be an integer of at least 1"),
        (lambda: kb.llm(routing=5), "routing: it must be even, uniform, zipf:S or the name of a file, and it is of type int"),
        (lambda: kb.step_timer(layers="1"), 'kernbench.step_timer: layers = "1", but it must be an integer of at least 1'),
        (lambda: kb.whatif("gemm", free="dram"), "free: it must be a list of resources, and it is of type str; give ['dram']"),
        (lambda: kb.probe(sizes=5), "sizes: it must be a list of sizes, and it is of type int; give [5]"),
        (lambda: kb.probe(only="own_hbm"), "only: it must be a list of patterns, and it is of type str; give ['own_hbm']"),
        (lambda: kb.validate(5), "suites: it must be the name of a suite or a list of names, and it is of type int"),
        (lambda: kb.sweep(3), "spec: it must be a file or a mapping, or with axes the name of a target, and it is of type int"),
        (lambda: kb.sweep("gemm", ["te.engines"]), 'axes: it must be a mapping such as {"dram.channels": [2, 4]}, and it is of '
                                                   "type list"),
        (lambda: kb.sweep("gemm", {}, goals="ns"), 'goals: it must be a mapping such as {"ns": "min"}, and it is of type str'),
        (lambda: kb.sweep("gemm", {}, overrides=["a=1"]), f"overrides: {MAPPING}"),
        (lambda: kb.sweep("gemm", {}, config=5), f"config: {MACHINES}"),
        (lambda: kb.sweep("gemm", {}, jobs="2"), 'kernbench.sweep: jobs = "2", but it must be an integer of at least 1'),
        (lambda: kb.read_sweep(5), "store: it must be the file of a store, and it is of type int"),
    ],
)  # fmt: skip
def test_wrong_types_are_errors_of_the_user(call: object, says: str) -> None:
    with pytest.raises(kb.InputError) as refused:
        call()  # type: ignore[operator]
    assert str(refused.value) == says


@pytest.mark.parametrize(
    ("call", "says"),
    [
        (lambda: kb.llm(runtime="vllm"), 'generate("llama2-7b", "a100", "vllm", prompt=128, tokens=16)'),
        (
            lambda: kb.llm("llama3-8b", "h100", runtime="trtllm", tokens=4, w=8, phase="decode"),
            'generate("llama3-8b", "h100", "trtllm", prompt=128, tokens=4, weight_bits=8, phases=["decode"])',
        ),
        (
            lambda: kb.llm("llama3-8b", kb.load_config("h100"), runtime="vllm", prompt=64, layers=2, pp=2),
            'generate("llama3-8b", config, "vllm", prompt=64, tokens=16), without layers, pp',
        ),
    ],
)
def test_a_runtime_profile_is_for_generate(call: Callable[[], object], says: str) -> None:
    """The error has the call that does what was meant."""
    with pytest.raises(kb.InputError) as refused:
        call()
    assert str(refused.value).endswith(f"under a runtime profile, call kernbench.serving.{says}")


def test_the_call_of_a_runtime_profile_runs() -> None:
    with pytest.raises(kb.InputError) as refused:
        kb.llm("llama3-8b", "h100", runtime="vllm", tokens=2, w=8, a=8, kv=8, batch=2, tp=2, phase="decode")  # type: ignore[call-arg]
    run = eval(str(refused.value).partition(", call ")[2], {"kernbench": SimpleNamespace(serving=serving)})
    assert run.phases[0].tokens == 4


def test_a_misspelt_function_is_not_taken_for_a_class() -> None:
    with pytest.raises(AttributeError, match=r"did you mean run\?"):
        kb.runn  # noqa: B018  # type: ignore[attr-defined]


def test_a_comparison_says_what_differs() -> None:
    found = kb.compare("llama2-7b-decode", {"slow": "npu_mobile", "fast": "npu_server"})
    assert found.fastest == "fast" and found.first == "slow" and "11.9 times as fast" in repr(found)
    rows = found.to_frame()
    assert rows["speedup"][1] == pytest.approx(found["slow"].t_ns / found["fast"].t_ns)
    assert found.why().startswith("fast against slow: DRAM bandwidth -")
    times = found.to_frame("why")
    assert times["fast"].sum() == pytest.approx(found["fast"].t_ns) and times["slow"].sum() == pytest.approx(found["slow"].t_ns)


def test_whatif_says_what_to_change_first() -> None:
    found = kb.whatif("llama2-7b-decode")
    assert found.best == "dram" and "change dram first" in repr(found)
    assert found.to_frame()["freed"].to_list()[-1] == "all"


def test_an_llm_run_has_the_figures_of_the_command(samples: Path) -> None:
    from kernbench.api.llm import llm

    found = llm("llama2-7b", prompt=8, tokens=2, layers=1)
    plain = found.report.to_dict()
    assert found.metrics["tokens_per_s"] == plain["tokens_per_s"] and found.cycles == plain["cycles"]
    assert found.to_frame("phases")["phase"].to_list() == ["prefill", "decode"]


def test_a_sweep_is_kept_and_read_again(tmp_path: Path) -> None:
    place = tmp_path / "kept.sqlite"
    made = kb.sweep("llama2-7b-decode", {"dram.channels": [2, 4]}, config="npu_mobile", store=place, threads=1)
    again = kb.read_sweep(place)
    assert again.to_frame().equals(made.to_frame()) and again.best == made.best
    assert made.front == [made.best] and made.to_frame("axes")["axis"].to_list() == ["dram.channels"]
    made.report(tmp_path / "page.html")
    assert b"<html" in (tmp_path / "page.html").read_bytes()


@pytest.mark.parametrize("make", ["run", "why", "compare", "whatif", "probe", "llm", "sweep", "validate", "result"])
def test_every_answer_is_drawn_and_shown(make: str) -> None:
    pytest.importorskip("matplotlib").use("Agg")
    made = {
        "run": lambda: kb.run("llama2-7b-decode"),
        "why": lambda: kb.why("llama2-7b-decode"),
        "compare": lambda: kb.compare("llama2-7b-decode", ["npu_mobile", "npu_server"]),
        "whatif": lambda: kb.whatif("llama2-7b-decode", free=["dram", "te"]),
        "probe": lambda: kb.probe(sizes=[4096], only=["own_hbm"]),
        "llm": lambda: kb.llm(prompt=8, tokens=1, layers=1),
        "sweep": lambda: kb.sweep("llama2-7b-decode", {"dram.channels": [2, 4]}, config="npu_mobile", threads=1),
        "validate": lambda: kb.validate("tensor"),
        "result": lambda: kb.run("llama2-7b-decode").result,
    }[make]()
    axes = made.plot()
    assert axes.has_data() and made.plot(ax=axes) is axes
    assert made._repr_html_().startswith("<") and made.metrics


def test_data_frames_of_pandas() -> None:
    pandas = pytest.importorskip("pandas")
    frame = kb.run("llama2-7b-decode").to_frame("engines", library="pandas")
    assert isinstance(frame, pandas.DataFrame) and frame["jobs"].sum() > 0


def test_rows_of_different_keys_make_one_frame() -> None:
    assert frame_of([{"a": 1}, {"a": 2, "b": "x"}]).to_dicts() == [{"a": 1, "b": None}, {"a": 2, "b": "x"}]


@pytest.mark.parametrize(
    ("module", "extra", "code"),
    [
        ("polars", "analysis", "to_frame()"),
        ("pandas", "pandas", "to_frame(library='pandas')"),
        ("matplotlib", "plot", "plot()"),
    ],
)
def test_what_is_not_installed_is_named_with_its_extra(module: str, extra: str, code: str) -> None:
    before = NOTHING.format(module) + "import kernbench as kb\n"
    call = f"try:\n    kb.run('llama2-7b-decode').result.{code}\nexcept kb.InputError as error:\n    print(error)"
    told = subprocess.run([sys.executable, "-c", before + call], capture_output=True, text=True, check=True)
    assert f"needs {module}, which is not installed; pip install 'kernbench[{extra}]'" in told.stdout


def test_optional_gives_a_module_that_is_there() -> None:
    assert optional("json", "none", "nothing").loads("1") == 1
