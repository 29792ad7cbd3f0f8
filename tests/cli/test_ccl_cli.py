"""`kbsim ccl`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernbench.ccl.algorithms import all_reduce_ring
from kernbench.cli.main import exit_code


def kbsim(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = exit_code(["ccl", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_run_has_the_columns_of_nccl_tests(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plot = tmp_path / "p.svg"
    code, out, _ = kbsim(capsys, "run", "all_reduce", "--ranks", "4", "-b", "1K", "-e", "4K", "-f", "2", "--plot", str(plot))
    lines = out.splitlines()
    assert code == 0 and plot.read_text(encoding="utf-8").startswith("<?xml")
    assert lines[0] == "# all_reduce_ring of 4 ranks on single_cube.yaml"
    assert lines[1] == "# 1 SIP x 1 cube x 4 PEs, ring; queues of 16 slots of 32 KiB in tcm"
    assert lines[2].split() == ["#", "size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong"]
    rows = [line.split() for line in lines if not line.startswith("#")]
    assert [row[:5] for row in rows] == [[str(size), str(size // 2), "f16", "sum", "-1"] for size in (1024, 2048, 4096)]
    for row in rows:  # bus bandwidth is 2 * 3 / 4 of algorithm bandwidth, and that is size over time; of printed digits
        assert float(row[6]) == pytest.approx(int(row[0]) / float(row[5]) / 1000, rel=2e-3)
        assert float(row[7]) == pytest.approx(1.5 * float(row[6]), rel=2e-3) and row[8] == "0"


def test_json_and_unchecked_runs(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = kbsim(capsys, "run", "all_gather", "--shape", "2x1x1", "-c", "two_sips", "-b", "1K", "--no-check", "--json")
    found = json.loads(out)
    assert code == 0 and (found["ranks"], found["shape"], found["checked"]) == (2, [2, 1, 1], False)
    assert found["rows"][0]["size"] == 1024 and found["rows"][0]["count"] == 256 and found["rows"][0]["wrong"] is None


def test_list(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = kbsim(capsys, "list", "--json")
    names = [(one["collective"], one["name"]) for one in json.loads(out)["algorithms"]]
    assert code == 0 and len(names) == 12 and names[0] == ("all_reduce", "ring")
    assert kbsim(capsys, "list")[0] == 0


def test_a_hang_is_told_and_exits_with_4(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = Path(all_reduce_ring.__file__).read_text(encoding="utf-8").replace("all_reduce_ring", "all_reduce_lazy")
    text = text.replace("    ring = flat", "    if tl.rank == 1:\n        return\n    ring = flat")
    (tmp_path / "lazy.py").write_text(text, encoding="utf-8")
    entry = "schema: kernbench/ccl/1\nalgorithms: {all_reduce: {lazy: {module: lazy.py, topologies: [ring]}}}\n"
    (tmp_path / "ccl.yaml").write_text(entry, encoding="utf-8")
    code, out, _ = kbsim(capsys, "run", "all_reduce", "--algo", "lazy", "-n", "3", "--ccl", str(tmp_path / "ccl.yaml"))
    assert code == 4 and "Nothing can ever happen again" in out and "waits for a message of rank 1" in out.replace("\n", " ")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["all_reduc"], "all_reduc: there is no such collective; there are all_reduce, all_gather,"),
        (["all_reduce", "--algo", "rings"], "rings: there is no such algorithm of all_reduce; there are ring, bidirectional,"),
        (["all_reduce", "-b", "1Q"], '--begin = "1Q", but it must be bytes, or a number with K, M, G or T (of 1024)'),
        (["all_reduce", "-b", "2K", "-e", "1K"], '--end = "1K", but it must be at least the first size, 2K'),
        (["all_reduce", "--dtype", "f64"], '--dtype = "f64", but it must be one of f32, f16,'),
        (["all_reduce", "--shape", "2x2"], '--shape = "2x2", but it must be three numbers like 8x1x1'),
        (["all_reduce", "-n", "2000"], "ranks = 2000, but pod_8sip.yaml has 8 SIPs of 16 cubes of 8 PEs, 1024 in all"),
        (["all_reduce", "--topo", "star"], 'topo = "star", but it must be one of ring, torus, mesh'),
        (["all_reduce", "--plot", "x.pdf"], '--plot = "x.pdf", but its name must end in .svg or .png'),
    ],
)
def test_what_is_refused(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    code, _, err = kbsim(capsys, "run", *arguments)
    assert code == 2 and said in err, err
