"""`kbsim ccl run` as users of nccl-tests call it: iterations, roots, in place, element types, steps, CSV and the page."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import jsonschema
import pytest

from kernbench.ccl.json_schema import ccl_json_schema
from kernbench.cli.ccl.curves import fastest
from tests.cli.conftest import Kbsim

RUN = ("ccl", "run")


def rows(out: str) -> list[list[str]]:
    return [line.split() for line in out.splitlines() if line and not line.startswith("#")]


def found(kbsim: Kbsim, *arguments: str) -> dict:  # type: ignore[type-arg]
    said = kbsim(*RUN, *arguments, "--json")
    assert said.code == 0, said.err
    made: dict = json.loads(said.out)  # type: ignore[type-arg]
    jsonschema.Draft202012Validator(ccl_json_schema()).validate(made)
    return made


def test_iterations_are_launched_back_to_back_and_their_mean_is_the_time(kbsim: Kbsim) -> None:
    once = found(kbsim, "all_reduce", "-g", "4", "-b", "1K")
    many = found(kbsim, "all_reduce", "-g", "4", "-b", "1K", "-w", "2", "-n", "5")
    assert (many["ranks"], many["warmup"], many["iters"], "iters" in once) == (4, 2, 5, False)
    one, mean = once["rows"][0], many["rows"][0]
    assert mean["wrong"] == 0 and mean["cycles"] == round(mean["time_us"] * 1000)  # at 1 GHz
    assert one["cycles"] <= mean["cycles"] < 1.2 * one["cycles"]
    total = found(kbsim, "all_reduce", "-g", "4", "-b", "1K", "-w", "0", "-n", "5")["rows"][0]
    assert total["time_us"] * 5 == pytest.approx(round(total["time_us"] * 5000) / 1000)  # a whole number of cycles for all


def test_n_alone_is_the_number_of_ranks_as_in_the_first_version(kbsim: Kbsim) -> None:
    assert found(kbsim, "all_reduce", "-n", "3", "-b", "64")["ranks"] == 3
    said = kbsim(*RUN, "all_reduce", "-g", "3", "-n", "2", "--iters", "2")
    assert said.code == 2 and "--iters 2 and -n both say how many iterations" in said.err


@pytest.mark.parametrize("collective", ["all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce"])
def test_results_in_the_place_of_elements_are_verified(kbsim: Kbsim, collective: str) -> None:
    """Also where the elements of a later iteration are the results of the one before."""
    for more in ((), ("-w", "1", "-n", "2")):
        [row] = found(kbsim, collective, "-g", "4", "-b", "2000", "--in-place", *more)["rows"]
        assert row["wrong"] == 0 and row["in_place"]["wrong"] == 0
        assert row["in_place"]["busbw"] == pytest.approx(row["busbw"], rel=0.1)


def test_pairs_and_blocks_of_all_have_nothing_in_place(kbsim: Kbsim) -> None:
    said = kbsim(*RUN, "all_to_all", "-g", "4", "--in-place")
    assert said.code == 0 and rows(said.out)[0][-4:] == ["N/A"] * 4
    assert found(kbsim, "all_to_all", "-g", "4", "--in-place")["rows"][0]["in_place"] is None


def test_a_wrong_result_in_place_is_told(kbsim: Kbsim, tmp_path: Path) -> None:
    """An algorithm that is right only where it does not overwrite its own elements."""
    (tmp_path / "late.py").write_text(
        """\
from kernbench.ccl.contract import kernel_args
from kernbench.ccl.rings import TOPO_NAME_TO_KIND, flat_ring, table_of

def reduce_late(in_ptr, out_ptr, n_elem, dtype, sip_rank, sip_size, cube_rank, cube_size, sip_topo_kind, tl):
    tl.store(out_ptr, tl.zeros((n_elem,), dtype), wait=True)
    tl.store(out_ptr, tl.load(in_ptr, (n_elem,), dtype))

kernel = reduce_late

def neighbours(kind, shape):
    return table_of([flat_ring(kind, shape)])

def reference(inputs, kind, shape, slot_bytes):
    return inputs
""",
        encoding="utf-8",
    )
    entry = "schema: kernbench/ccl/1\nalgorithms: {reduce: {late: {module: late.py, topologies: [ring]}}}\n"
    (tmp_path / "ccl.yaml").write_text(entry, encoding="utf-8")
    mine = ("--algo", "late", "--ccl", str(tmp_path / "ccl.yaml"), "--allow-code", str(tmp_path), "-g", "2", "-b", "64")
    assert kbsim(*RUN, "reduce", *mine).code == 0
    said = kbsim(*RUN, "reduce", *mine, "--in-place")
    assert said.code == 1 and rows(said.out)[0][-1] == "64" and "# 64 elements are wrong" in said.out


def test_in_place_columns_fit_80_and_120_columns(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    for width in (80, 120):
        monkeypatch.setenv("COLUMNS", str(width))
        out = kbsim(*RUN, "all_reduce", "-g", "2", "-b", "1K", "-e", "1M", "-f", "1024", "--in-place", "--no-check").out
        assert max(map(len, out.splitlines())) <= width
        heads = next(line.split() for line in out.splitlines() if "algbw" in line)[1:]
        assert heads[-8:] == ["time", "algbw", "busbw", "#wrong"] * 2 and ("count" in heads) == (width == 120)
        assert all(len(row) == len(heads) for row in rows(out))


def test_roots_and_types_are_rows_of_one_table(kbsim: Kbsim) -> None:
    said = kbsim(*RUN, "broadcast", "-g", "4", "-r", "0,2", "-d", "f16,i32", "-b", "8", "-e", "64", "-i", "28")
    assert said.code == 0 and said.out.count("#      size") == 1
    assert [(row[2], row[4], row[0], row[-1]) for row in rows(said.out)] == [
        (kind, root, size, "0") for kind in ("f16", "i32") for root in ("0", "2") for size in ("8", "36", "64")
    ]
    assert said.out.splitlines()[-1].startswith("# average bus bandwidth")
    runs = found(kbsim, "reduce", "-g", "3", "-r", "all", "-b", "64")["runs"]
    assert [one["rows"][0]["root"] for one in runs] == [0, 1, 2] and all(one["rows"][0]["wrong"] == 0 for one in runs)


def test_operations_are_rows_too(kbsim: Kbsim) -> None:
    said = kbsim(*RUN, "all_reduce", "-g", "4", "-o", "all", "-d", "f16,i32", "-b", "512", "--in-place", "-n", "2")
    assert said.code == 0
    runs = found(kbsim, "reduce", "-g", "3", "-o", "all", "-d", "f32,i32", "-b", "64", "--in-place")["runs"]
    ops = ["sum", "prod", "max", "min", "avg", "sum", "prod", "max", "min"]  # integers have no average
    assert [one["rows"][0]["redop"] for one in runs] == ops
    assert all(one["rows"][0]["wrong"] == one["rows"][0]["in_place"]["wrong"] == 0 for one in runs)


def test_all_algorithms_in_a_table_a_csv_and_a_page(kbsim: Kbsim, tmp_path: Path) -> None:
    page, table = tmp_path / "c.html", tmp_path / "c.csv"
    arguments = (*RUN, "all_reduce", "-a", "ring,halving_doubling", "-g", "4", "-b", "1K", "-e", "4K", "-f", "4")
    said = kbsim(*arguments, "--csv", str(table), "--report", str(page))
    assert said.code == 0 and said.out.count("# all_reduce_") == 2
    made = list(csv.DictReader(table.read_text(encoding="utf-8").splitlines()))
    assert [(one["algorithm"], one["size"], one["wrong"]) for one in made] == [
        (name, size, "0") for name in ("ring", "halving_doubling") for size in ("1024", "4096")
    ]
    text = page.read_text(encoding="utf-8")
    assert "http://" not in text.replace("http://www.w3.org/2000/svg", "") and "https://" not in text
    assert "The bus bandwidth reaches" in text and text.count('class="key"') == 2 and "verified" in text
    first = page.read_bytes()
    kbsim(*arguments, "--report", str(page), "-q")
    assert page.read_bytes() == first
    streamed = kbsim(*arguments, "--csv", "-")
    assert streamed.out == table.read_text(encoding="utf-8")


def test_the_fastest_curve_by_size() -> None:
    class Row:
        def __init__(self, size: int, time_us: float) -> None:
            self.size, self.time_us = size, time_us

    slow, fast = [Row(1, 2), Row(2, 3), Row(4, 9)], [Row(1, 3), Row(2, 4), Row(4, 5)]
    assert fastest([("a", None, slow), ("b", None, fast)]) == [("a", 1, 2), ("b", 4, 4)]  # type: ignore[arg-type,list-item]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("all_reduce", "-r", "1"), "all_reduce has no root; broadcast, reduce, gather, scatter have"),
        (("reduce", "-r", "8"), "it must be ranks from 0 to 7, or all"),
        (("all_reduce", "-i", "8", "-f", "2", "-e", "1M"), "sizes have either a step or a factor, not both (-f 2)"),
        (("all_reduce", "-i", "1", "-e", "1G"), "and at most 10,000 are run"),
        (("all_reduce", "-d", "f16,f17"), "it must be one of f32"),
        (("all_gather", "-o", "max"), "all_gather does not reduce"),
        (("all_reduce", "-o", "sum,mean"), "it must be one of sum, prod, max, min, avg, or all"),
        (("all_reduce", "-o", "avg", "-d", "i32"), "so it takes floating-point elements"),
        (("all_reduce", "-a", "ring,rings"), "there is no algorithm of all_reduce with this name"),
        (("all_reduce", "--csv", "-", "--json"), "--csv - and --json both write to stdout"),
        (("all_reduce", "-e", "4K", "--trace", "t.jsonl"), "a trace is of one size, and this run has 3"),
        (("all_reduce", "-e", "4K", "--report", "t.txt"), "the file name must end in .html or .htm"),
    ],
)
def test_refusals(kbsim: Kbsim, arguments: tuple[str, ...], said: str) -> None:
    refused = kbsim(*RUN, *arguments)
    assert refused.code == 2 and said in refused.err and "# all_reduce" not in refused.out


PROTOCOLS = "pe.ipcq.protocols={simple: {cycles: 400}, ll: {data_bytes: 4, line_bytes: 8}}"


def test_protocols_have_the_names_of_nccl(kbsim: Kbsim) -> None:
    """In the output, in JSON, and in the tuner's table; the tuner chooses where none is named."""
    given = ("all_reduce", "-g", "4", "-b", "256", "--set", PROTOCOLS)
    both = found(kbsim, *given, "-a", "ring", "--proto", "LL,simple")["runs"]
    assert [one["queues"]["protocol"] for one in both] == ["ll", "simple"]
    assert 5 * 400 < both[1]["rows"][0]["cycles"] - both[0]["rows"][0]["cycles"] < 7 * 400  # six steps
    said = kbsim(*RUN, *given, "-a", "ring", "--proto", "LL,Simple").out
    assert "; LL, queues of" in said and "; Simple, queues of" in said and "ring, LL: busiest" in said
    auto = found(kbsim, *given)
    assert auto["protocols"] == ["ll"] and auto["rows"][0]["wrong"] == 0
    assert f"# chosen up to 256 B: {auto['algorithms'][0]}, LL" in kbsim(*RUN, *given).out
    table = kbsim("ccl", "tune", *given, "-e", "256").out
    assert "ring, Simple" in table and table.strip().endswith(", LL")
    assert "single_cube.yaml has Simple; give it pe.ipcq.protocols.ll" in kbsim(*RUN, "all_reduce", "--proto", "LL").err
    assert "it must be one of Simple, LL, LL128" in kbsim(*RUN, "all_reduce", "--proto", "fast").err


def test_a_runtime_profile_adds_the_cost_of_the_host(kbsim: Kbsim) -> None:
    """6.6 us of each kernel beside its steps; cycles stay those of the ranks."""
    plain = found(kbsim, "all_reduce", "-g", "4", "-b", "1K", "-a", "ring")
    host = found(kbsim, "all_reduce", "-g", "4", "-b", "1K", "-a", "ring", "--runtime", "nccl_tests")
    one, more = plain["rows"][0], host["rows"][0]
    assert host["runtime"] == "nccl_tests" and one["cycles"] == more["cycles"]
    assert more["time_us"] == pytest.approx(one["time_us"] + 6.6)
    assert more["algbw"] == pytest.approx(1024 / more["time_us"] / 1e3)
    single = found(kbsim, "all_reduce", "-g", "4", "-b", "1K", "-a", "ring", "--runtime", "nccl_events")["rows"][0]
    assert single["time_us"] == pytest.approx(2.2 + 14.9)  # the host is not done when the ranks are


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("all_reduce_perf -b 64 -g 2 -d half,double", ["   f16  ", "   f64  ", "# chosen up to 64 B: "]),
        ("alltoall_perf --minbytes 64 --maxbytes 192 --stepbytes 64 --ngpus 2 --datatype float", ["  f32  ", "        192  "]),
        ("sendrecv -b 64 -g 2 -d int8 --warmup_iters 1", ["i8"]),
    ],
)
def test_names_of_nccl_tests_are_taken(kbsim: Kbsim, arguments: str, said: list[str]) -> None:
    done = kbsim("ccl", "run", *arguments.split(), "--no-check")
    assert done.code == 0 and all(one in done.out for one in said), done


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("-c 0", 'kbsim ccl run: --config = "0", but -c names the machine; the option -c 0 of nccl-tests is --no-check here'),
        ("-z 0", "there is no option -z; the blocking mode of nccl-tests has no effect in a simulation: leave it out"),
        ("--agg_iters 4", "there is no option --agg_iters; launches follow each other directly"),
        ("-J x.json", "there is no option -J; to write JSON: --json > FILE"),
        ("-o mulsum", "it must be one of sum, prod, max, min, avg, or all; in Python, dist.all_reduce has the reduction"),
    ],
)
def test_options_of_nccl_tests_that_do_not_exist_have_a_remedy(kbsim: Kbsim, arguments: str, said: str) -> None:
    done = kbsim("ccl", "run", "all_reduce", "-g", "2", *arguments.split())
    assert done.code == 2 and said in done.err, done
