"""The fuzzer notices what it is there for: crashes, hangs, memory, bugs and silence are planted, and counted as such."""

from __future__ import annotations

import ctypes
import os
import signal
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

import pytest

from tests.property.fuzz import campaign as campaigns
from tests.property.fuzz.campaign import Plan, campaign, clean, groups, special_cases, table
from tests.property.fuzz.case import SPECIAL, Case
from tests.property.fuzz.harness import (
    CODE,
    INTERNAL,
    MEMORY,
    RAN,
    REFUSED,
    SANITIZED,
    SIGNAL,
    SILENT,
    TIME,
    UNSOUND,
    Limits,
    api_exit_code,
    reason_of,
    run_case,
)
from tests.sweep_samples import alive

pytestmark = pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")  # of a process with threads, as xdist's are


def _raise(error: BaseException) -> int:
    raise error


def _run(*arguments: str) -> int:
    from kernbench.cli.main import exit_code

    return exit_code(arguments)


def _eat(nbytes: int) -> int:
    eaten = []
    for _ in range(nbytes >> 20):
        eaten.append(b"x" * (1 << 20))
    time.sleep(30)
    return len(eaten)


def _spin() -> int:
    while True:
        pass


def _say(code: int) -> int:
    print("error: no", file=sys.stderr)
    return code


def _ask(nbytes: int) -> int:
    return api_exit_code(lambda: len(bytearray(nbytes)))


def _leave() -> int:
    left = os.fork()
    if not left:
        time.sleep(60)
    Path("left").write_text(str(left))
    return 0


def resident() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE")


def small(more: int = 256 << 20) -> Limits:
    """Limits of a child that needs little: this process may have run many tests, and a child has its memory."""
    return Limits(resident=resident() + more)


#: What a child does, how it ends, and the beginning of what it is grouped by.
PLANTED = {
    "runs": (lambda: 0, RAN, ""),
    "deadlock": (lambda: 4, RAN, ""),
    "refused": (lambda: _say(2), REFUSED, ""),
    "by kbsim": (lambda: _run("run", "nothing.json"), REFUSED, ""),
    "silent": (lambda: 2, SILENT, "it is refused without a word"),
    "code": (lambda: 17, CODE, "exit code 17"),
    "bug": (lambda: _raise(KeyError("planted")), INTERNAL, "KeyError: '...' at "),
    "segfault": (lambda: ctypes.string_at(0)[0], SIGNAL, "" if SANITIZED else "SIGSEGV at "),
    "killed": (lambda: os.kill(os.getpid(), signal.SIGKILL) or 0, SIGNAL, "SIGKILL at ?"),
    "floating point": (lambda: os.kill(os.getpid(), signal.SIGFPE) or 0, SIGNAL, "" if SANITIZED else "SIGFPE at "),
    "spins": (_spin, TIME, ""),
    "deaf": (lambda: [signal.signal(signal.SIGABRT, signal.SIG_IGN), _spin()][1], TIME, ""),
    "eats": (lambda: _eat(1 << 30), MEMORY, ""),
    "asks": (lambda: _ask(1 << 44), MEMORY, "MemoryError"),
}


def planted(arguments: tuple[str, ...]) -> int:
    """What the planted fault of that name does."""
    return int(PLANTED[arguments[0]][0]())


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_fault_is_counted_as_what_it_is(name: str, tmp_path: Path) -> None:
    _, kind, reason = PLANTED[name]
    limits = Limits(seconds=1.5 if kind == TIME else 60, resident=resident() + (256 << 20))
    ended = run_case(Case((name,), {}, call=planted), tmp_path / "run", limits)
    assert ended.kind == kind, ended
    assert reason_of(ended).startswith(reason) or not ended.failed
    assert ended.seconds < 30


def test_a_child_has_a_folder_of_its_own_and_its_files(tmp_path: Path) -> None:
    def look(arguments: tuple[str, ...]) -> int:
        assert Path("a/b.txt").read_bytes() == b"x" and os.getcwd() == str(tmp_path / "run")
        assert Path("c.json").is_fifo() and sys.stdin.read() == ""
        assert os.environ["KERNBENCH_CACHE"] == "off"
        return 0

    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "old").touch()
    ended = run_case(Case((), {"a/b.txt": b"x"}, {"c.json": "fifo"}, look), tmp_path / "run", small())
    assert ended.kind == RAN, ended
    assert not (tmp_path / "run" / "old").exists()


def test_what_a_child_leaves_behind_is_ended(tmp_path: Path) -> None:
    begun = time.monotonic()
    assert run_case(Case((), {}, call=lambda arguments: _leave()), tmp_path / "run", small()).kind == RAN
    left = int((tmp_path / "run" / "left").read_text())
    while alive(left) and time.monotonic() - begun < 30:  # it has been sent its signal
        time.sleep(0.01)
    assert not alive(left)


@dataclass
class Faults:
    """A format whose inputs are the planted faults, and one file that is refused although nothing was done to it."""

    name: str = "faults"
    seed: int = 0
    names: list[str] = field(default_factory=lambda: ["runs", "refused", "bug", "silent", "code", "killed"])

    def sound(self) -> list[Case]:
        return [Case((name,), {"f.json": b"{}"}, call=planted) for name in ("runs", "refused")]

    def mutated(self, rng: Random) -> Case:
        return Case((rng.choice(self.names),), {"f.json": b"{}"}, call=planted)

    def readers(self) -> list[tuple[Case, str]]:
        return [(Case(("runs",), {"f.json": b"{}"}, call=planted), "f.json")]


def test_a_campaign_counts_keeps_and_repeats(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(campaigns.FORMATS, "faults", (lambda seed, count: Faults(seed=seed), 1))
    plan = Plan(seed=3, inputs=24, formats=["faults"], jobs=2, limits=small())
    keep = tmp_path / "keep"
    clean(keep)
    found = list(campaign(plan, keep))
    assert len(found) == 2 + 24 + len(SPECIAL)
    kinds = {one.kind for one in found}
    assert kinds == {RAN, REFUSED, INTERNAL, SILENT, CODE, SIGNAL, UNSOUND}
    failed = [one for one in found if one.kind not in (RAN, REFUSED)]
    assert {Path(one.kept) for one in failed} == {path for path in keep.iterdir() if path.is_dir()}
    bug = next(one for one in failed if one.kind == INTERNAL)
    assert (Path(bug.kept) / "f.json").read_bytes() == b"{}"
    assert "KeyError" in (Path(bug.kept) / "stderr.txt").read_text()
    assert (Path(bug.kept) / "command.sh").read_text() == f"{bug.command}\n"
    rows = table(found).splitlines()
    assert rows[0].split()[:4] == ["format", "inputs", "ran", "refused"]
    assert rows[-1].split()[:2] == ["all", str(len(found))]
    assert "KeyError: '...' at" in groups(found)
    # The same seed gives the same inputs, whatever the number of processes.
    again = list(campaign(Plan(seed=3, inputs=24, formats=["faults"], jobs=1, limits=small())))
    told = [sorted((one.format, one.number, one.kind) for one in outcomes) for outcomes in (found, again)]
    assert told[0] == told[1]


def test_every_kind_of_special_file_can_be_made(tmp_path: Path) -> None:
    for case in special_cases({"faults": Faults()}):
        (kind,) = case.special.values()
        folder = tmp_path / kind
        folder.mkdir()
        case.write(folder)
        assert os.path.lexists(folder / "f.json"), kind
        assert SPECIAL[kind].replace("{}", "f.json") in case.command()


def test_a_folder_of_something_else_is_not_emptied(tmp_path: Path) -> None:
    (tmp_path / "mine.txt").touch()
    with pytest.raises(ValueError, match="is not empty, and no campaign has made it"):
        clean(tmp_path)
    assert (tmp_path / "mine.txt").exists()
    clean(tmp_path / "new")
    (tmp_path / "new" / "old-1").mkdir()
    clean(tmp_path / "new")
    assert [path.name for path in (tmp_path / "new").iterdir()] == [campaigns.MARK]
