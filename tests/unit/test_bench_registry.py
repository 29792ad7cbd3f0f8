"""`@bench`, its parameters, and where benches are found."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from kernbench.common.errors import InputError
from kernbench.runtime_api import Context, bench, discovery
from kernbench.runtime_api.bench import Param, checked, declared, split_settings
from kernbench.runtime_api.discovery import installed_benches, is_bench_target, load_bench

HEAD = "from kernbench.runtime_api import bench\n"
ONE = HEAD + '@bench(name="{0}", description="does nothing")\ndef run{1}(ctx):\n    pass\n'


def refusal(call: Any) -> str:
    with pytest.raises(InputError) as error:
        call()
    return str(error.value)


def write(folder: Path, text: str, name: str = "mine.py") -> str:
    (folder / name).write_text(text, encoding="utf-8")
    return str(folder / name)


# The package's own benches.


def test_the_package_has_these_benches() -> None:
    assert list(installed_benches()) == [
        "flash_attention", "gemm", "layernorm", "moe_dispatch", "paged_attention", "reduce", "softmax", "tp_mlp", "vector_add",
    ]  # fmt: skip


@pytest.mark.parametrize("name", installed_benches())
def test_every_bench_of_the_package_is_whole(name: str) -> None:
    found = load_bench(name)
    assert found.name == name and found.reference is not None
    assert found.params["dtype"].choices == ("f32", "f16", "bf16")
    assert found.description and not found.description.endswith(".")
    assert all(param.doc and not param.doc.endswith(".") for param in found.params.values())


def test_a_bench_is_called_as_its_function() -> None:
    seen = []

    @bench(name="mine", description="")
    def run(ctx: Context) -> None:
        seen.append(ctx)

    run("ctx")  # type: ignore[arg-type]
    assert seen == ["ctx"] and run.where == "bench mine" and run.source == __file__


# Files.


def test_a_file_with_one_bench_is_it(tmp_path: Path) -> None:
    path = write(tmp_path, ONE.format("mine", ""))
    assert is_bench_target(path) and load_bench(path).name == "mine"
    assert load_bench(f"{path}:mine").source == path


def test_of_several_one_is_named(tmp_path: Path) -> None:
    path = write(tmp_path, ONE.format("a", "1") + ONE.format("b", "2"))
    assert load_bench(f"{path}:b").name == "b"
    remedy = f"name one of them, for example {path}:a"
    assert refusal(lambda: load_bench(path)) == f"{path}: the file has several benches: a, b; {remedy}"
    said = refusal(lambda: load_bench(f"{path}:c"))
    assert said == f'{path}: bench = "c", but the file has no bench with this name; its benches are a, b; {remedy}'


def test_modules_beside_the_file_can_be_imported(tmp_path: Path) -> None:
    write(tmp_path, "NAME = 'from_beside'\n", "beside_it.py")
    path = write(tmp_path, HEAD + 'import beside_it\n@bench(name=beside_it.NAME, description="")\ndef run(ctx):\n    pass\n')
    assert load_bench(path).name == "from_beside"


def test_benches_that_a_file_imports_are_not_its_own(tmp_path: Path) -> None:
    path = write(tmp_path, "from kernbench.benches.gemm import run as other\n" + ONE.format("mine", ""))
    assert load_bench(path).name == "mine"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\n", "{path}: the file contains no bench; write @bench(name=..., description=...) above the function run(ctx)"),
        ("def f(:\n", "{path}:1: this is not valid Python: invalid syntax"),
        ("\nimport no_such\n", "{path}:2: the file cannot be imported: ModuleNotFoundError: No module named 'no_such'"),
        ("def f():\n    return 1 / 0\nf()\n", "{path}:2: the file cannot be imported: ZeroDivisionError: division by zero"),
        ("import sys\nsys.exit(0)\n", "{path}:2: the file cannot be imported: SystemExit: 0"),
        (
            ONE.format("same", "1") + ONE.format("same", "2"),
            "bench same: two benches have this name, in {path} and {path}; rename one of them",
        ),
    ],
)
def test_refused_files(tmp_path: Path, text: str, said: str) -> None:
    path = write(tmp_path, text)
    assert refusal(lambda: load_bench(path)) == said.format(path=path)


def test_names_that_are_none() -> None:
    assert not is_bench_target("llama2-7b-decode") and not is_bench_target("prog.json")
    assert refusal(lambda: load_bench("gem")).endswith("softmax, tp_mlp, vector_add; did you mean gemm?")
    assert refusal(lambda: load_bench("nowhere.py")) == "nowhere.py: the file does not exist; check the path"


def test_modules_of_the_package_must_have_benches_of_their_own_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package = tmp_path / "some_benches"
    package.mkdir()
    write(package, "", "__init__.py")
    write(package, ONE.format("same", ""), "first.py")
    write(package, "x = 1\n", "_part.py")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(discovery, "PACKAGE", "some_benches")
    assert list(installed_benches()) == ["same"]
    write(package, ONE.format("same", ""), "second.py")
    first, second = package / "first.py", package / "second.py"
    assert refusal(installed_benches) == f"bench same: two benches have this name, in {first} and {second}; rename one of them"
    write(package, "x = 1\n", "third.py")
    second.unlink()
    said = "some_benches.third: the file contains no bench; write @bench(name=..., description=...) above the function run(ctx)"
    assert refusal(installed_benches) == said


# Declarations.


def test_wrong_declarations() -> None:
    def run(ctx: Any) -> None: ...

    where = f"{__name__}: @bench"
    said = refusal(lambda: bench(name="two words", description="")(run))
    assert said == f'{where}: name = "two words", but it must be words of letters, digits and _, joined by -'
    said = refusal(lambda: bench(name="mine", description="")(lambda: None))  # type: ignore[arg-type, misc]
    assert said == f'{where}: name = "mine", but it must decorate a function of one argument, ctx'


@pytest.mark.parametrize(
    ("params", "said"),
    [
        (
            {"freq_ghz": 1},
            'bench: params = "freq_ghz", but a parameter\'s name must be an identifier, and no key of a machine; '
            "--set could not tell them apart: take another name",
        ),
        ({"n": None}, "bench: params.n: the default must be true or false, an integer, a number, text, and it is a NoneType"),
        ({"n": Param(0, least=1)}, "bench: params.n = 0, but it must be at least 1; change the default"),
        ({"n": Param("c", choices=("a", "b"))}, 'bench: params.n = "c", but it must be one of a, b; change the default'),
    ],
)
def test_wrong_parameters(params: Mapping[str, Any], said: str) -> None:
    assert refusal(lambda: declared("bench", params)) == said


PARAMS = declared("bench", {"n": Param(8, least=1), "scale": 0.5, "dtype": Param("f32", choices=("f32", "f16")), "fast": False})


def test_values_take_the_place_of_defaults() -> None:
    assert checked("bench", PARAMS, {"n": 9, "scale": 2}) == {"n": 9, "scale": 2.0, "dtype": "f32", "fast": False}
    assert type(checked("bench", PARAMS, {"scale": 2})["scale"]) is float


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"m": 1}, "bench: m = 1, but the bench has no such parameter; the parameters are n, scale, dtype, fast"),
        ({"dtpye": "f16"}, 'bench: dtpye = "f16", but the bench has no such parameter; did you mean dtype?'),
        ({"n": "8"}, 'bench: n = "8", but it must be an integer'),
        ({"n": True}, "bench: n = true, but it must be an integer"),
        ({"n": 0}, "bench: n = 0, but it must be at least 1"),
        ({"scale": "x"}, 'bench: scale = "x", but it must be a number'),
        ({"fast": 1}, "bench: fast = 1, but it must be true or false"),
        ({"dtype": "f64"}, 'bench: dtype = "f64", but it must be one of f32, f16'),
        ({"n": 0, "fast": 2}, "bench: n = 0, but it must be at least 1\nbench: fast = 2, but it must be true or false"),
    ],
)
def test_refused_values(given: Mapping[str, Any], said: str) -> None:
    assert refusal(lambda: checked("bench", PARAMS, given)) == said


def test_settings_are_of_the_bench_or_of_the_machine() -> None:
    texts = ["n=16", "dram.channels=4", " scale = 0.25", "fast=true", "dtype=f16", "freq_ghz=2", "max_cycles=5"]
    values, machine = split_settings("bench", PARAMS, texts)
    assert values == {"n": 16, "scale": 0.25, "fast": True, "dtype": "f16"} and type(values["scale"]) is float
    assert machine == ["dram.channels=4", "freq_ghz=2", "max_cycles=5"]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("nn=4", "bench: nn = 4, but the bench has no such parameter; did you mean n?"),
        (
            "n=012",
            'bench: n = "012", but the value 012 is not allowed, because YAML versions disagree whether it is octal; '
            "write it in decimal or as 0x..",
        ),
        ("n=[1]", "bench: n = [1], but it must be an integer"),
        ("n=", 'bench: n = "", but it must be an integer'),
    ],
)
def test_refused_settings(text: str, said: str) -> None:
    assert refusal(lambda: checked("bench", PARAMS, split_settings("bench", PARAMS, [text])[0])) == said



def test_names_of_benches_can_be_typed() -> None:
    assert all(re.fullmatch(r"[a-z_0-9]+", name) for name in installed_benches())
