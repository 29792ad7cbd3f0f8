"""`kbsim ccl`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from kernbench.cli.main import exit_code
from tests import all_reduce_own
from tests.cli.conftest import Kbsim


def kbsim(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = exit_code(["ccl", *arguments])
    said = capsys.readouterr()
    return code, said.out, said.err


def test_run_has_the_columns_of_nccl_tests(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    plot = tmp_path / "p.svg"
    code, out, _ = kbsim(capsys, "run", "all_reduce", "-a", "ring", "--ranks", "4", "-b", "1K", "-e", "4K", "--plot", str(plot))
    lines = out.splitlines()
    picture = plot.read_text(encoding="utf-8")
    assert code == 0 and picture.startswith("<?xml") and "1 KiB" in picture and "10^" not in picture
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


def test_list_shows_each_algorithm(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = kbsim(capsys, "list", "--json")
    names = [(one["collective"], one["name"]) for one in json.loads(out)["algorithms"]]
    assert code == 0 and len(names) == 43 and names[0] == ("all_reduce", "ring")
    code, out, _ = kbsim(capsys, "list")
    told = [line for line in out.splitlines() if line.startswith(("queues", "of all_reduce_halving", "of barrier_diss"))]
    assert code == 0 and told == [
        "queues: 16 slots of 32 KiB in tcm",
        "of all_reduce_halving_doubling: 8 slots of 16 KiB",
        "of barrier_dissemination: 2 slots of 64 B",
    ]


def lazy(folder: Path) -> tuple[str, ...]:
    """An all-reduce in which rank 1 does nothing, as options: it hangs."""
    text = Path(all_reduce_own.__file__).read_text(encoding="utf-8").replace("all_reduce_own", "all_reduce_lazy")
    text = text.replace("    ring = flat", "    if tl.rank == 1:\n        return\n    ring = flat")
    (folder / "lazy.py").write_text(text, encoding="utf-8")
    entry = "schema: kernbench/ccl/1\nalgorithms: {all_reduce: {lazy: {module: lazy.py, topologies: [ring]}}}\n"
    (folder / "ccl.yaml").write_text(entry, encoding="utf-8")
    return "--algo", "lazy", "-n", "3", "--ccl", str(folder / "ccl.yaml"), "--allow-code", str(folder)


def test_a_hang_is_told_and_exits_with_4(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    hangs = lazy(tmp_path)
    code, out, _ = kbsim(capsys, "run", "all_reduce", *hangs)
    assert code == 4 and "Nothing can ever happen again" in out and "waits for a message of rank 1" in out.replace("\n", " ")
    quiet = kbsim(capsys, "run", "all_reduce", *hangs, "--quiet")
    assert quiet == (4, "", "")
    plot = ("--plot", str(tmp_path / "p.svg"))
    assert kbsim(capsys, "run", "all_reduce", *hangs, *plot)[0] == 4
    assert not (tmp_path / "p.svg").exists()  # there is nothing to draw


def test_a_result_that_is_never_written_is_wrong(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    text = Path(all_reduce_own.__file__).read_text(encoding="utf-8").replace("all_reduce_own", "all_reduce_idle")
    (tmp_path / "idle.py").write_text(text.replace("    ring = flat", "    return\n    ring = flat"), encoding="utf-8")
    entry = "schema: kernbench/ccl/1\nalgorithms: {all_reduce: {idle: {module: idle.py, topologies: [ring]}}}\n"
    (tmp_path / "ccl.yaml").write_text(entry, encoding="utf-8")
    mine = ("--algo", "idle", "-n", "2", "--ccl", str(tmp_path / "ccl.yaml"), "--allow-code", str(tmp_path))
    code, out, _ = kbsim(capsys, "run", "all_reduce", *mine)
    assert code == 1 and out.splitlines()[-2] == "# 1,024 elements are wrong"


def broken(folder: Path) -> tuple[str, ...]:
    """An algorithm that raises in a function of its own, or of few elements asks for some that are not there."""
    text = Path(all_reduce_own.__file__).read_text(encoding="utf-8").replace("all_reduce_own", "all_reduce_broken")
    raises = "    if tl.rank == 1 and n_elem > 600:\n        helper()\n"
    text = text.replace("    ring = flat", raises + "    ring = flat")
    text = text.replace("(0, n_elem))])", "(0, n_elem + 5 * (n_elem < 600)))])")
    text += "\n\ndef helper():\n    raise ValueError('too many')\n"
    (folder / "broken.py").write_text(text, encoding="utf-8")
    entry = "schema: kernbench/ccl/1\nalgorithms: {all_reduce: {broken: {module: broken.py, topologies: [ring]}}}\n"
    (folder / "ccl.yaml").write_text(entry, encoding="utf-8")
    return "run", "all_reduce", "--algo", "broken", "-n", "4", "--ccl", str(folder / "ccl.yaml"), "--allow-code", str(folder)


def test_what_an_algorithm_raises_is_told_with_its_own_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    code, _, err = kbsim(capsys, *broken(tmp_path), "-b", "4K")
    lines = (tmp_path / "broken.py").read_text(encoding="utf-8").splitlines()
    place = f"broken.py:{len(lines)}, in helper: ValueError: too many"
    assert code == 5 and err.splitlines()[-1] == f"error: {place}"
    assert "in program 1 of all_reduce_broken on sip0.cube0.pe" in err and f'broken.py", line {len(lines)}' in err
    code, out, _ = kbsim(capsys, *broken(tmp_path), "-b", "4K", "--json")
    found = json.loads(out)
    assert (code, found["status"], found["message"], found["rows"], found["unfinished"]) == (5, "failed", place, [], [4096])


def test_an_algorithm_that_exits_is_told_with_its_own_line(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    arguments = broken(tmp_path)
    text = (tmp_path / "broken.py").read_text(encoding="utf-8").replace("raise ValueError('too many')", "raise SystemExit(3)")
    (tmp_path / "broken.py").write_text(text, encoding="utf-8")
    code, _, err = kbsim(capsys, *arguments, "-b", "4K")
    line = f"broken.py:{len(text.splitlines())}"
    place = f"{line}, in helper: KernelError: {line}: the kernel on_rank called exit(3)"
    assert code == 5 and err.splitlines()[-1].startswith(f"error: {place}")


def test_what_helpers_of_an_algorithm_refuse_is_told_with_its_own_line(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, _, err = kbsim(capsys, *broken(tmp_path), "-b", "1K")
    text = (tmp_path / "broken.py").read_text(encoding="utf-8").splitlines()
    calls = next(number for number, line in enumerate(text, 1) if "    all_reduce(" in line)
    assert code == 5 and f"error: broken.py:{calls}, in all_reduce_broken: KernelError: " in err


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("{1: {module: json, topologies: [ring]}}", "all_reduce[1] = 1, but an algorithm's name must be letters, digits and _"),
        ("{'': {module: json, topologies: [ring]}}", "all_reduce. = \"\", but an algorithm's name must be letters, digits"),
        ("{a-b: {module: json, topologies: [ring]}}", 'all_reduce.a-b = "a-b", but an algorithm\'s name must be letters'),
        ("{x: {module: json, topologies: [ring], slots: 2 KiB}}", 'x.slots = "2 KiB", but it must be an integer of at least 1'),
        ("{x: {module: json, topologies: [ring], slots: 2.5}}", "x.slots = 2.5, but it must be an integer of at least 1"),
        ("{x: {module: json, topologies: [[ring]]}}", "x.topologies = \"[['ring']]\", but it must be a list of ring, torus"),
    ],
)
def test_entries_of_files_that_cannot_be(
    entry: str, said: str, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "ccl.yaml").write_text(f"schema: kernbench/ccl/1\nalgorithms: {{all_reduce: {entry}}}\n", encoding="utf-8")
    code, _, err = kbsim(capsys, "list", "--ccl", str(tmp_path / "ccl.yaml"))
    assert code == 2 and "ccl.yaml:2:" in err and said in err


def test_a_shape_and_as_many_ranks_agree(capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = kbsim(capsys, "run", "barrier", "-n", "2", "--shape", "2x1x1", "-c", "two_sips")
    assert code == 0 and out.startswith("# barrier of 2 ranks")


def test_a_plot_of_a_barrier(capsys: pytest.CaptureFixture[str], tmp_path: Path, recwarn: pytest.WarningsRecorder) -> None:
    assert kbsim(capsys, "run", "barrier", "-n", "2", "--plot", str(tmp_path / "p.svg"))[0] == 0
    assert (tmp_path / "p.svg").exists() and not list(recwarn)


def test_two_messages_that_arrive_before_the_second_receive_is_ready(capsys: pytest.CaptureFixture[str]) -> None:
    """At these sizes a message is there one cycle before its receive may be served, and nothing else happens in its queue."""
    code, out, _ = kbsim(capsys, "run", "all_reduce", "-b", "60K", "-e", "64K", "-f", "2", "--no-check")
    assert code == 0, out
    code, out, _ = kbsim(capsys, "run", "all_reduce", "-b", "64K")
    assert code == 0 and out.splitlines()[4].split()[-1] == "0", out


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["all_reduc"], "all_reduc: there is no collective with this name; the names are all_reduce, all_gather,"),
        (["all_reduce", "--algo", "rings"], "rings: there is no algorithm of all_reduce with this name; the names are ring,"),
        (["all_reduce", "-b", "1Q"], '--begin = "1Q", but the unit Q is not one of B, kB,'),
        (["all_reduce", "-b", "2K", "-e", "1K"], '--end = "1K", but it must be at least the first size, 2K'),
        (["all_reduce", "--dtype", "f8e4m3fnuz"], '--dtype = "f8e4m3fnuz", but it must be one of f32, f16,'),
        (["all_reduce", "--shape", "2x2"], '--shape = "2x2", but it must be three numbers like 8x1x1'),
        (["all_reduce", "-n", "2000"], "ranks = 2000, but pod_8sip.yaml has 1024 PEs (8 SIPs x 16 cubes x 8 PEs)"),
        (
            ["all_reduce", "-n", "9", "-c", "single_cube"],
            "ranks = 9, but single_cube.yaml has 8 PEs (1 SIP x 1 cube x 8 PEs)",
        ),
        (["all_reduce", "--shape", "9x1x1"], 'shape = "9x1x1", but the group takes 9 SIPs, and there are 8'),
        (["all_reduce", "--shape", "0x1x1"], 'shape = "0x1x1", but each number must be at least 1'),
        (["all_reduce", "-e", "4K", "-f", "1"], "--factor = 1, but it must be at least 2 to come from 1K to 4K"),
        (["all_reduce", "-b", "2T"], '--begin = "2T", but it must be at least 1 byte and at most 1T'),
        (["all_reduce", "-b", "0"], "it must be at least 1 byte"),
        (["all_reduce", "--slots", "99999999"], "queues: slots = 99999999, but it must be an integer from 1 to 65536"),
        (
            ["all_reduce", "--slot-bytes", "1T"],
            "queues: slot_bytes = 1099511627776, but it must be an integer from 1 to 68719476736",
        ),
        (["all_reduce", "--tier", "l2"], 'queues: tier = "l2", but it must be one of tcm, sram, hbm'),
        (["all_reduce", "--topo", "star"], 'topo = "star", but it must be one of ring, torus, mesh'),
        (["all_reduce", "-n", "4", "--shape", "2x1x1"], "--ranks = 4, but --shape 2x1x1 has 2 ranks: give one of the two"),
        (["all_reduce", "-b", "4G"], "its elements are held while it runs, those of 8 ranks are 32 GiB"),
        (["all_reduce", "-b", "16G", "--no-check"], "those of a rank are 16 GiB, and at most 8 are taken"),
        (["all_reduce", "--slots", "65536"], "= 32768, but 65,536 slots take 2,147,483,648 bytes of a PE's scratchpad"),
        (["all_reduce", "--slot-bytes", "1"], "--slot-bytes = 1, but an element of f16 has 2, and a slot has to hold one"),
        (["all_reduce", "-d", "fp8"], "u32, u16, u8; did you mean f8e4m3?"),
        (["all_reduce", "-d", "uint16"], "u32, u16, u8; did you mean u16?"),
        (["all_reduce", "-n", "17"], "16 cubes x 8 PEs); every cube must get the same number of ranks; use 16 or 18"),
        (["all_reduce", "-n", "1025"], "16 cubes x 8 PEs); use at most 1024 ranks, or a larger machine (--config)"),
        (["all_reduce", "-a", "halving"], "tree, recursive_doubling, direct, switch; did you mean halving_doubling?"),
        ([""], '"": there is no collective with this name; the names are all_reduce,'),
        (["all_reduce", "-b", "1.5B"], '--begin = "1.5B", but it must be a whole number of bytes'),
        (["all_reduce", "--plot", "x.pdf"], '--plot = "x.pdf", but the file name must end in .svg or .png'),
    ],
)
def test_what_is_refused(capsys: pytest.CaptureFixture[str], arguments: list[str], said: str) -> None:
    code, out, err = kbsim(capsys, "run", *arguments)
    assert code == 2 and said in err, err
    assert out == ""  # no columns of rows that never come


def test_what_was_asked_of_most_is_said_of_all_sizes(capsys: pytest.CaptureFixture[str]) -> None:
    """Adding binds short messages, the first PE's link longer ones."""
    code, out, _ = kbsim(capsys, "run", "all_reduce", "-a", "ring", "-b", "1K", "-e", "64K", "-f", "4", "--no-check")
    assert code == 0 and out.splitlines()[-3:-1] == [
        "# busiest up to 4,096 B: sip0.cube0.pe0 ve, 16% to 17%",
        "# busiest up to 65,536 B: sip0.cube0.r0c0-sip0.cube0.pe0.pe_dma, 32% to 53%",
    ]
    assert all(len(line) <= 80 for line in out.splitlines())


def test_sizes_are_written_as_nccl_tests_does(capsys: pytest.CaptureFixture[str]) -> None:
    """`4k` is `4K`; what no size comes near is not held against the run, and a barrier has no size."""
    code, out, _ = kbsim(capsys, "run", "all_reduce", "-n", "2", "-b", "2k", "-e", "1T", "-f", "1000000000", "--no-check")
    assert code == 0 and [line.split()[0] for line in out.splitlines() if line[0] == " "] == ["2048"]
    assert kbsim(capsys, "run", "barrier", "-n", "2", "-b", "1T")[0] == 0


@pytest.mark.parametrize("width", ["80", "120"])
def test_names_of_modules_are_whole_in_a_list(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: str
) -> None:
    monkeypatch.setenv("COLUMNS", width)
    code, out, _ = kbsim(capsys, "list")
    assert code == 0 and "…" not in out and all(len(line) <= int(width) for line in out.splitlines())
    assert ("recursive_doubling  ring, torus, mesh  .all_reduce_recursive_doubling\n" in out) == (width == "120")
    assert "recursive_doubling  ring, torus, mesh  .all_reduce_recursive_" in out  # the entry begins on one line


def test_lines_that_are_no_rows_begin_with_a_hash(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    code, out, _ = kbsim(capsys, "run", "all_reduce", "-a", "ring", "-b", "16K", "--no-check")
    assert code == 0 and [line[0] for line in out.splitlines()] == ["#", "#", "#", "#", " ", "#", "#"], out
    assert out.splitlines()[-2] == "# busiest: sip0.cube0.r0c0-sip0.cube0.pe0.pe_dma, 32%"


def test_slots_that_are_too_small_for_a_long_link_are_told(kbsim: Kbsim) -> None:
    given = ("ccl", "run", "all_reduce", "-a", "ring", "-c", "a100_8x", "-b", "8M", "-e", "8M", "--no-check")
    said = kbsim(*given, "--slots", "16", "--slot-bytes", "32KiB").out
    assert said.rstrip().split("\n")[-1] == (
        "# 4 messages of 32 KiB on their way fill 14% of a link between SIPs; "
        "for long messages: --slots 32 --slot-bytes 256KiB"
    )
    usual = kbsim(*given).out
    assert "queues of 36 slots of 256 KiB in tcm" in usual and "on their way" not in usual
    assert "on their way" not in kbsim(*given[:5], "-b", "64K", "-e", "64K", "--no-check").out
