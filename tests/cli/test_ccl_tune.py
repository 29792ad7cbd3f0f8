"""`kbsim ccl tune` and `--algo auto`."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kernbench.ccl.measure import CclRequest
from kernbench.ccl.measure import row as whole
from tests.cli.test_ccl_cli import kbsim


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is known but what came with the package."""
    from kernbench.ccl import tuner

    monkeypatch.setenv("KERNBENCH_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(tuner, "_TUNERS", {})


def test_the_table_says_which_algorithm_is_taken(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    unknown = ("broadcast", "-c", "sip_4x4", "-n", "6")
    code, out, _ = kbsim(capsys, "tune", *unknown, "-b", "256", "-e", "64K", "-f", "16", "--json")
    said = json.loads(out)
    assert code == 0 and not said["simulated"] and [row["size"] for row in said["rows"]] == [256, 4096, 65536]
    assert all(row["algorithm"] == min(row["cycles"], key=row["cycles"].get) for row in said["rows"])
    plot, table = tmp_path / "t.svg", tmp_path / "t.json"
    files = ("--plot", str(plot), "--save", str(table))
    code, out, _ = kbsim(capsys, "tune", *unknown, "-b", "4K", "-e", "4K", "--simulate", *files)
    assert code == 0 and "simulated times" in out.replace("\n", " ") and "the cost model is off by" in out
    assert plot.read_bytes().startswith(b"<?xml") and json.loads(table.read_text())["simulated"]
    assert list((tmp_path / "cache" / "ccl").iterdir())


def test_an_interrupt_keeps_the_times_of_sizes_that_all_algorithms_have(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Choices would be wrong if only some algorithms had simulated times."""
    from kernbench.ccl import tuner

    seen: list[tuple[str, int]] = []

    def row(request: CclRequest, count: int) -> Any:
        if len(seen) == 5:
            raise KeyboardInterrupt
        seen.append((request.entry.full_name, 2 * count))
        return whole(request, count)

    monkeypatch.setattr(tuner, "row", row)
    call = ("tune", "broadcast", "-c", "sip_4x4", "-n", "6", "-b", "256", "-e", "4K", "-f", "16", "--simulate", "--json")
    code, out, _ = kbsim(capsys, *call)
    assert code == 130 and json.loads(out) == {"status": "interrupted"}
    (kept,) = (tmp_path / "cache" / "ccl").iterdir()
    times = json.loads(kept.read_text())["times"]
    assert {(name, size) for name, rows in times.items() for size, _ in rows} == set(seen[:4])
    monkeypatch.setattr(tuner, "_TUNERS", {})
    monkeypatch.setattr(tuner, "row", whole)
    said = json.loads(kbsim(capsys, *(one for one in call if one != "--simulate"))[1])
    cycles = {name.removeprefix("broadcast_"): rows[0][1] for name, rows in times.items()}
    assert said["simulated"] and said["rows"][0]["cycles"] == cycles


def test_a_run_takes_the_algorithm_of_each_size(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = kbsim(capsys, "run", "all_reduce", "-n", "8", "-b", "64", "-e", "256K", "-f", "4096")
    assert code == 0 and out.startswith("# all_reduce of 8 ranks") and out.count("# chosen up to") == 2
    code, out, _ = kbsim(
        capsys, "run", "all_reduce", "--algo", "auto", "-n", "8", "-b", "64", "-e", "256K", "-f", "4096", "--json"
    )
    said = json.loads(out)
    assert code == 0 and len(set(said["algorithms"])) == 2 and [row["wrong"] for row in said["rows"]] == [0, 0]


def test_the_root_and_the_slots_are_those_of_the_choice(capsys: pytest.CaptureFixture[str]) -> None:
    """Roots other than 0 make another order of the ranks, and slots that are given are those of the chosen algorithm."""
    code, out, _ = kbsim(capsys, "run", "broadcast", "-n", "16", "-r", "0,11", "-b", "4K", "--slots", "4", "--json")
    runs = json.loads(out)["runs"]
    assert code == 0 and [run["rows"][0]["wrong"] for run in runs] == [0, 0]
    for run in runs:
        named = ("-a", run["algorithms"][0], "-r", str(run["rows"][0]["root"]))
        same = json.loads(kbsim(capsys, "run", "broadcast", *named, "-n", "16", "-b", "4K", "--slots", "4", "--json")[1])
        assert run["algorithm"] == "auto" and same["rows"] == run["rows"] and run["queues"]["slots"] == 4


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("-b", "4K", "-e", "1K"), "sizes must grow, by a factor of at least 2"),
        (("--estimate",), "it is for a group that is not simulated, of a shape like 1563x8x8"),
        (("--estimate", "--shape", "8x1x1", "--topo", "star"), "it must be one of ring, torus, mesh"),
        (("--channels", "1"), "at least one of the 1 cores of a PE"),
        (("--channels", "1", "--simulate", "--set", "pe.cores=4"), "are those of collectives without channels"),
        (("--plot", "x.pdf"), "the file name must end in .svg or .png"),
    ],
)
def test_what_is_refused(capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...], said: str) -> None:
    code, _, err = kbsim(capsys, "tune", "all_reduce", *arguments)
    assert code == 2 and said in err.replace("\n", " ")


def test_a_group_that_no_machine_has(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = kbsim(capsys, "tune", "all_reduce", "--estimate", "--shape", "1563x8x8", "-b", "1M", "-e", "1M", "--json")
    said = json.loads(out)
    cycles = said["rows"][0]["cycles"]
    assert code == 0 and said["ranks"] == 100_032 and cycles["hierarchical"] < cycles["ring"] / 10


SMALL = ("sip.rows=1", "sip.cols=1", "system.sips=8")


def test_networks_of_groups_that_no_machine_has(capsys: pytest.CaptureFixture[str]) -> None:
    """A group of more rows of SIPs: an uplink with less bandwidth costs time, and a group over rails has nodes first."""

    def cycles(kind: str, *more: str) -> dict[str, int]:
        settings = [text for one in (f"system.kind={kind}", *SMALL, *more) for text in ("--set", one)]
        how = ("--estimate", "--shape", "16x1x1", "-c", "two_sips", "-b", "1M", "-e", "1M", "--json", *settings)
        code, out, err = kbsim(capsys, "tune", "all_reduce", *how)
        said = json.loads(out)
        assert code == 0 and said["ranks"] == 16 and said["topology"] == "ring", err
        assert said["shape"] == ([4, 4, 1] if kind == "rails" else [16, 1, 1])
        return said["rows"][0]["cycles"]  # type: ignore[no-any-return]

    leaves = cycles("fat_tree", "system.rows=2")
    thin = cycles("fat_tree", "system.rows=2", "system.switch.oversubscription=8")
    assert all(thin[name] > leaves[name] for name in ("halving_doubling", "direct"))
    assert cycles("switch")["halving_doubling"] < leaves["halving_doubling"]
    assert cycles("dragonfly", "system.rows=2")["direct"] > cycles("all_to_all")["direct"]
    cycles("rails", "system.rows=2")


def test_channels_slow_the_sums_of_an_estimate(capsys: pytest.CaptureFixture[str]) -> None:
    how = ("tune", "all_reduce", "--set", "pe.cores=16", "-b", "2K", "-e", "2K", "--json")
    usual, few = (json.loads(kbsim(capsys, *how, *more)[1])["rows"][0] for more in ((), ("--channels", "1")))
    assert few["algorithm"] != usual["algorithm"]
    assert all(few["cycles"][name] > cycles for name, cycles in usual["cycles"].items())


def test_a_colour_that_is_used_again_has_a_dashed_line() -> None:
    from kernbench.cli.ccl.plot import picture

    lines: dict[str, Any] = {
        f"line {k}": [SimpleNamespace(size=size, time_us=float(size + k), busbw=1.0 + k) for size in (1, 2)] for k in range(9)
    }
    assert b"stroke-dasharray" in picture(lines, "svg")
    assert b"stroke-dasharray" not in picture(dict(list(lines.items())[:3]), "svg")
