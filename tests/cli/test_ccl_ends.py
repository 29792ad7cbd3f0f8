"""However `kbsim ccl run` ends, the sizes that are done come out, once, and the exit code says why the others did not."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from typing import Any

import jsonschema  # type: ignore[import-untyped]
import pytest

from kernbench.ccl import measure
from kernbench.ccl.json_schema import ccl_json_schema
from kernbench.cli import output
from tests import all_reduce_own
from tests.cli.conftest import Kbsim
from tests.cli.test_cli_terminal import PATIENCE, command

SCHEMA = jsonschema.Draft202012Validator(ccl_json_schema())
ENTRY = "schema: kernbench/ccl/1\nalgorithms: {all_reduce: {odd: {module: odd.py, topologies: [ring]}}}\n"
MINE = ("--algo", "odd", "--ccl", "odd.yaml", "--allow-code", "odd.py")
ODD = ("ccl", "run", "all_reduce", *MINE, "-n", "2", "-b", "1K", "-e", "4K", "--no-check")
OWN = Path(all_reduce_own.__file__).read_text(encoding="utf-8").replace("all_reduce_own", "all_reduce_odd")
#: Where the statement of rank 0 stands.
LINE = OWN[: OWN.index("    ring = flat")].count("\n") + 2
#: What rank 0 does in the second of three sizes.
WAITS = "import sys, time; print('second size', file=sys.stderr, flush=True); time.sleep(20)"
RAISES = "raise ValueError('too many')"
REFUSES = "from kernbench.common.errors import InputError, Problem; raise InputError(Problem('here', 'it is too much'))"
HANGS = "return"
STOPPED = f"interrupted: odd.py:{LINE}, in program 0 of all_reduce_odd on sip0.cube0.pe0, cycle "


def odd(statement: str) -> None:
    """An algorithm that runs a statement in the second size."""
    text = OWN.replace("    ring = flat", f"    if tl.rank == 0 and n_elem == 1024:\n        {statement}\n    ring = flat")
    Path("odd.py").write_text(text, encoding="utf-8")
    Path("odd.yaml").write_text(ENTRY, encoding="utf-8")


def interrupted(*more: str, by: signal.Signals = signal.SIGINT) -> tuple[int, str, str]:
    """Ctrl-C, or another signal, in the second size, which says that it has begun."""
    odd(WAITS)
    process = subprocess.Popen(command(*ODD, *more), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert process.stderr is not None and process.stderr.readline() == "second size\n"
        process.send_signal(by)
        out, err = process.communicate(timeout=PATIENCE)
    finally:
        process.kill()
    return process.returncode, out, err


@pytest.mark.parametrize("by", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_leaves_one_object_with_what_is_done(by: signal.Signals) -> None:
    code, out, err = interrupted("--json", "--plot", "p.svg", by=by)
    found = json.loads(out)
    SCHEMA.validate(found)
    assert code == 130 and err.startswith(STOPPED)
    assert [row["size"] for row in found["rows"]] == [1024]
    assert (found["status"], found["unfinished"], "message" in found) == ("interrupted", [2048, 4096], False)
    assert Path("p.svg").read_text(encoding="utf-8").startswith("<?xml")


def test_messages_that_nobody_receives_are_told(kbsim: Kbsim) -> None:
    """Of sizes that are done, and of one that hangs."""
    odd("tl.send('W', tl.zeros((1,), dtype))")
    said = kbsim(*ODD)
    left = f"a message from rank 0 (sip0.cube0.pe0) W to rank 1 (sip0.cube0.pe1) E (odd.py:{LINE}): never received"
    assert said.code == 0 and [line for line in said.out.splitlines() if "never received" in line] == [f"# 2,048 B: {left}"]
    found = json.loads(kbsim(*ODD, "--json").out)
    SCHEMA.validate(found)
    assert [[one["message"] for one in row["unreceived"]] for row in found["rows"]] == [[], [left], []]
    odd("tl.send('W', tl.zeros((1,), dtype)); return")
    said = kbsim(*ODD)
    assert said.code == 4 and left in " ".join(said.out.partition("Warnings (")[2].split())


def test_an_interrupt_leaves_the_lines_that_are_done() -> None:
    code, out, err = interrupted()
    lines = out.splitlines()
    assert code == 130 and err.startswith(STOPPED)
    assert lines[4].split()[0] == "1024" and lines[6].startswith("# average bus bandwidth")
    assert lines[-1] == "# interrupted: 1 of 3 sizes done" and len(lines) == 8


@pytest.mark.parametrize(
    ("statement", "code", "status", "message"),
    [
        (RAISES, 5, "failed", f"odd.py:{LINE}, in all_reduce_odd: ValueError: too many"),
        (REFUSES, 2, "refused", "here: it is too much"),
        (HANGS, 4, "deadlock", None),
    ],
)
def test_a_size_that_fails_leaves_those_before(
    kbsim: Kbsim, statement: str, code: int, status: str, message: str | None
) -> None:
    odd(statement)
    said = kbsim(*ODD, "--json")
    found = json.loads(said.out)
    SCHEMA.validate(found)
    assert (said.code, found["status"], found.get("message")) == (code, status, message)
    assert [row["size"] for row in found["rows"]] == [1024] and found["unfinished"] == [2048, 4096]
    said = kbsim(*ODD)
    assert said.code == code and f"# {status}: 1 of 3 sizes done" in said.out.splitlines()


@pytest.mark.parametrize(
    ("error", "code", "status"),
    [
        (MemoryError("no room"), 2, "refused"),
        (RuntimeError("odd"), 70, "internal error"),
        (KeyboardInterrupt(), 130, "interrupted"),
    ],
)
@pytest.mark.parametrize("after", [1, 2])
def test_any_error_is_told_once(
    kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch, error: BaseException, code: int, status: str, after: int
) -> None:
    run, calls = measure.row, []

    def row(*given: Any) -> Any:
        calls.append(given)
        if len(calls) == after:
            raise error
        return run(*given)

    monkeypatch.setattr(measure, "row", row)
    said = kbsim("ccl", "run", "all_reduce", "-n", "2", "-b", "1K", "-e", "2K", "--no-check", "--json")
    found = json.loads(said.out)
    assert (said.code, found["status"], len(said.err.splitlines())) == (code, status, 1)
    if status == "refused" and after == 1:  # nothing was run
        assert found.keys() == {"status", "problems"}
    else:
        SCHEMA.validate(found)
        assert (len(found["rows"]), len(found["unfinished"])) == (after - 1, 3 - after)


def test_an_interrupt_while_a_size_is_shown_leaves_it_too(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    show, calls = output.show, []

    def interrupted(*given: Any, **more: Any) -> bool:
        calls.append(given)
        if len(calls) == 2:
            raise KeyboardInterrupt
        return show(*given, **more)

    monkeypatch.setattr(output, "show", interrupted)
    said = kbsim("ccl", "run", "all_reduce", "-n", "2", "-b", "1K", "-e", "4K", "--no-check")
    assert [line.split()[0] for line in said.out.splitlines() if line[0] == " "] == ["1024", "2048"]
    assert (said.code, said.out.splitlines()[-1]) == (130, "# interrupted: 2 of 3 sizes done")


def test_a_picture_that_cannot_be_written_does_not_cost_the_answer(kbsim: Kbsim, monkeypatch: pytest.MonkeyPatch) -> None:
    from kernbench.cli.ccl import run_output
    from kernbench.common.errors import InputError, Problem

    def draw(*_: Any) -> None:
        raise InputError(Problem("p.svg", "it cannot be written: No space left on device"))

    monkeypatch.setattr(run_output, "draw", draw)
    said = kbsim("ccl", "run", "barrier", "-n", "2", "--json", "--plot", "p.svg")
    assert (said.code, said.err) == (2, "error: p.svg: it cannot be written: No space left on device\n")
    assert json.loads(said.out)["status"] == "done"


def test_nothing_more_is_run_when_nobody_reads() -> None:
    """The second size would wait; of a reader that goes away after the first, it is not begun."""
    odd(WAITS)
    process = subprocess.Popen(command(*ODD), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    process.stderr.close()
    assert (process.wait(timeout=PATIENCE), said) == (0, b"")
