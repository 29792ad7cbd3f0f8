"""A full disk and a quota: results that are stored stay, the answer is printed, and the error names the file."""

from __future__ import annotations

import json
import os
import resource
import shlex
import shutil
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from tests.sweep_samples import GRID, acknowledged, stored_keys, table_of, write_spec

KBSIM = [sys.executable, "-c", "from kernbench.cli.main import main; main()"]
POINTS = 240
LIMITED = "raise the limit of file sizes (ulimit -f)"
ROOM = "make room"


@pytest.fixture(autouse=True)
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return write_spec(tmp_path, GRID)


def limited(nbytes: int, *arguments: str, **variables: str) -> tuple[int, str, str]:
    """The exit code, stdout and stderr of `kbsim` in a process whose files may have at most this many bytes."""
    done = subprocess.run(
        [*KBSIM, *arguments],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
        env={**os.environ, **variables},
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (nbytes, nbytes)),
    )
    return done.returncode, done.stdout, done.stderr


def kbsim(*arguments: str) -> tuple[int, str, str]:
    done = subprocess.run([*KBSIM, *arguments], capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout, done.stderr


def on_small_disk(size: str, script: str) -> tuple[int, str, str]:
    """A shell script on a file system of this size, which is mounted at `disk`. It vanishes with the script."""
    Path("disk").mkdir(exist_ok=True)
    mount = f"mount -t tmpfs -o size={size} tmpfs disk"
    namespace = ["unshare", "--map-root-user", "--mount", "sh", "-c"]
    if shutil.which("unshare") is None or subprocess.run([*namespace, mount], capture_output=True, check=False).returncode:
        pytest.skip("this user cannot mount a file system, not even in a name space of its own")
    whole = f"kbsim() {{ {shlex.join(KBSIM)} \"$@\"; }}\n{mount} || exit 99\n{script}"
    done = subprocess.run([*namespace, whole], capture_output=True, text=True, check=False, timeout=300)
    return done.returncode, done.stdout, done.stderr


@pytest.mark.parametrize("nbytes", [0, 4096, 100_000, 200_000])
def test_a_sweep_at_a_limit_keeps_its_stored_results_and_continues(nbytes: int) -> None:
    code, out, err = limited(nbytes, "sweep", "run", "s.yaml", "--lines")
    assert code == 2
    assert err.startswith("error: s.sqlite: it cannot be written: ") and LIMITED in err and "run the command again" in err
    before = acknowledged(out)
    assert before <= (stored_keys("s.sqlite") if before else set())
    assert bool(before) == (nbytes == 200_000)
    code, out, err = kbsim("sweep", "run", "s.yaml", "--json")
    assert code == 0, err
    told = json.loads(out)
    assert told["known"] >= len(before) and told["known"] + told["ran"] == POINTS
    assert kbsim("sweep", "run", "s.yaml", "--store", "calm.sqlite", "-q") == (0, "", "")
    assert table_of(Path("s.sqlite")) == table_of(Path("calm.sqlite"))


def test_a_sweep_on_a_full_disk_keeps_its_stored_results_and_continues() -> None:
    script = """\
    kbsim sweep run s.yaml --store disk/s.sqlite --lines > lines; echo $?
    kbsim sweep report disk/s.sqlite --csv first.csv > /dev/null; echo $?
    mount -o remount,size=4m disk
    kbsim sweep run s.yaml --store disk/s.sqlite --json
    cp disk/s.sqlite whole.sqlite
    """
    code, out, err = on_small_disk("200k", script)
    assert code == 0
    first, second, told = out.splitlines()
    assert (first, second) == ("2", "0")
    assert err.splitlines()[0] == (
        "error: disk/s.sqlite: it cannot be written: the disk is full; make room and run the command again: stored results "
        "are kept"
    )
    done = acknowledged(Path("lines").read_text())
    assert 0 < len(done) < POINTS and json.loads(told)["known"] >= len(done)
    assert done <= stored_keys("whole.sqlite") and len(stored_keys("whole.sqlite")) == POINTS
    assert sum("done" in line for line in Path("first.csv").read_text().splitlines()) == json.loads(told)["known"]


def test_a_store_is_read_on_a_disk_without_a_free_byte() -> None:
    assert kbsim("sweep", "run", "s.yaml", "-q")[0] == 0
    script = """\
    cp s.sqlite disk; head -c 4m /dev/zero > disk/fill
    kbsim sweep report disk/s.sqlite --csv now.csv > /dev/null; echo $?
    kbsim sweep merge merged.sqlite disk/s.sqlite > /dev/null; echo $?
    ls disk
    """
    size = (os.path.getsize("s.sqlite") >> 10) + 8
    _, out, err = on_small_disk(f"{size}k", script)
    assert out.split() == ["0", "0", "fill", "s.sqlite"], err
    assert kbsim("sweep", "report", "s.sqlite", "--csv", "then.csv")[0] == 0
    assert Path("now.csv").read_bytes() == Path("then.csv").read_bytes()
    assert stored_keys("merged.sqlite") == stored_keys("s.sqlite")


def test_the_log_of_a_killed_writer_is_read_on_a_disk_without_a_free_byte() -> None:
    assert kbsim("sweep", "run", "s.yaml", "-q")[0] == 0
    with closing(sqlite3.connect("s.sqlite", isolation_level=None)) as database:
        database.execute("PRAGMA wal_autocheckpoint = 0")
        database.execute("UPDATE results SET cycles = 424242")
        shutil.copy("s.sqlite", "left.sqlite")
        shutil.copy("s.sqlite-wal", "left.sqlite-wal")
    script = """\
    cp left.sqlite left.sqlite-wal disk; head -c 4m /dev/zero > disk/fill
    kbsim sweep report disk/left.sqlite --csv now.csv > /dev/null; echo $?
    """
    size = (os.path.getsize("left.sqlite") + os.path.getsize("left.sqlite-wal") >> 10) + 12
    _, out, err = on_small_disk(f"{size}k", script)
    assert out.split() == ["0"], err
    assert Path("now.csv").read_text().count(",done,424242,") == POINTS


def test_a_merge_at_a_limit_is_repeated() -> None:
    for shard in "12":
        assert kbsim("sweep", "run", "s.yaml", "--shard", f"{shard}/2", "--store", f"{shard}.sqlite", "-q")[0] == 0
    call = ("sweep", "merge", "all.sqlite", "1.sqlite", "2.sqlite")
    sizes = os.path.getsize("1.sqlite"), os.path.getsize("2.sqlite")
    code, out, err = limited(max(sizes) + 60_000, *call)
    assert (code, out) == (2, "") and err.startswith("error: all.sqlite: it cannot be written: ") and LIMITED in err
    assert "--store" not in err
    assert kbsim(*call)[0] == 0
    assert stored_keys("all.sqlite") == stored_keys("1.sqlite") | stored_keys("2.sqlite")


def test_scripts_for_slurm_are_replaced_whole_or_not_at_all() -> None:
    kbsim("sweep", "submit", "s.yaml", "--shards", "4")
    scripts = Path("s.array.sh"), Path("s.merge.sh")
    before = [script.read_bytes() for script in scripts]
    assert all(script.stat().st_mode & 0o111 == 0o111 & ~_umask() for script in scripts)
    code, _, err = limited(8, "sweep", "submit", "s.yaml", "--shards", "5")
    assert code == 2 and "s.array.sh: it cannot be written: File too large; " in err and LIMITED in err
    assert [script.read_bytes() for script in scripts] == before
    assert not list(Path().glob(".*.tmp"))


def _umask() -> int:
    mask = os.umask(0)
    os.umask(mask)
    return mask


@pytest.mark.parametrize(
    ("arguments", "written"),
    [
        ("run tiles.json -c small.yaml", "-o out.json"),
        ("run tiles.json -c small.yaml", "--report out.html"),
        ("ccl tune all_reduce --ranks 4 -c single_cube -e 1K", "--save out.json"),
        ("ccl run all_reduce --algo ring --ranks 4 -c single_cube -b 1K -e 1K", "--csv out.csv"),
        ("fuzz tiles.json -c small.yaml --runs 2", "--junit out.xml"),
        ("validate vector --quick", "--report out.html"),
        ("serve run --model llama3-8b -c npu_server --num-prompts 2", "--html out.html"),
        ("serve run --model llama3-8b -c npu_server --num-prompts 2", "--trace out.json"),
        ("llm --model llama3-8b -c npu_server --prompt 16 --tokens 2 --compare w=4,8", "--plot out.svg"),
        ("sweep report s.sqlite", "--html out.html"),
    ],
)
def test_the_answer_is_printed_although_a_file_cannot_be_written(arguments: str, written: str) -> None:
    """In text and as one JSON object."""
    option, name = written.split()
    if "s.sqlite" in arguments:
        assert kbsim("sweep", "run", "s.yaml", "-q")[0] == 0
    code, text, err = kbsim(*arguments.split(), option, name)
    assert code in (0, 1), err  # 1: fuzz finds a race
    most = 64 if option != "--report" or "validate" in arguments else os.path.getsize(name) // 2  # the page needs a trace
    Path(name).unlink()
    code, out, err = limited(most, *arguments.split(), option, name)
    assert code == 2
    assert f"error: {name}: it cannot be written: File too large; {LIMITED}, or choose another place\n" in err
    assert out == text
    code, out, err = limited(most, *arguments.split(), option, name, "--json")
    assert code == 2 and f"error: {name}: it cannot be written: " in err
    assert "status" not in (found := json.loads(out)) or found["status"] != "refused"
    assert not Path(name).exists()


def test_a_page_without_room_for_its_trace_says_where_room_is_needed() -> None:
    script = """\
    TMPDIR=$PWD/disk kbsim run llama2-7b-decode -c npu_server -q --report page.html; echo $?
    ls disk
    """
    _, out, err = on_small_disk("16k", script)
    assert out.split() == ["2"]
    assert err.startswith(f"error: {Path('disk').absolute()}") and "TMPDIR" in err and "smaller level" not in err
    code, _, err = limited(0, "run", "tiles.json", "-c", "small.yaml", "-q", "--report", "page.html")
    assert code == 2 and "TMPDIR" in err


SPILLS = """
import resource
from kernbench.sweep.points import points_of
from kernbench.sweep.spec.load import load_spec
from kernbench.sweep.targets import bench
from kernbench.sweep.work import Work

bench.SPILL = 20_000
spec = load_spec("b.yaml")
work = Work(spec.targets, spec.machines, spec.area)
resource.setrlimit(resource.RLIMIT_FSIZE, (8_000, 8_000))
row = work.run(points_of(spec).points[0].task)
print(row.status, row.error)
"""


def test_a_point_whose_op_log_has_no_room_says_how_to_run_it_again() -> None:
    """The error names the folder, not a component of the machine."""
    spec = "schema: kernbench/sweep/1\ntargets: [{bench: gemm}]\nmachine: single_cube\naxes: {param.m: [64]}\n"
    Path("b.yaml").write_text(spec)
    Path("disk").mkdir()
    environment = {**os.environ, "TMPDIR": str(Path("disk").absolute())}
    done = subprocess.run([sys.executable, "-c", SPILLS], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == (
        f"error {Path('disk').absolute()}: there is no room for the op log: File too large; let the environment variable "
        "TMPDIR name a folder with more room; the same sweep with --retry failed runs the point again\n"
    )
