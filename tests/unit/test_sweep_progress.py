"""What stands beside the bar of a sweep: how far, how fast, how long still, and the best so far."""

from __future__ import annotations

import io

import pytest

from kernbench.cli.sweep import run
from kernbench.cli.sweep.report import broken
from kernbench.cli.sweep.run import SweepBar, left_text, listener, short_names
from kernbench.sweep.report.analysis import Best
from kernbench.sweep.store.tables import Row, failed_row


def done(key: str, ns: int) -> Row:
    return Row(key=key, status="done", cycles=ns, ns=ns)


def test_the_line(monkeypatch: pytest.MonkeyPatch) -> None:
    """100 points in 2 s, of 400: 50/s, 6 s left."""
    monkeypatch.setenv("COLUMNS", "120")
    now = [10.0]
    monkeypatch.setattr(run.time, "monotonic", lambda: now[0])
    monkeypatch.setattr("sys.stderr", io.StringIO())
    best = Best(("ns", "min"))
    bar = SweepBar(400, best, {"50": "channels=2"})
    now[0] = 12.0
    rows = [done(str(i), abs(i - 50) + 1500) for i in range(99)] + [failed_row("x", "timeout", "")]
    for row in rows:
        best.offer(row)
    bar(rows)
    bar.bar.stop()
    assert bar.text(400) == "100 of 400, 50.0/s, 6 s left, 1 failed, best ns 1.5 us: channels=2"
    monkeypatch.setenv("COLUMNS", "60")
    assert bar.text(400) == "100 of 400, 50.0/s, 6 s left, 1 fai..."


def test_the_best_is_the_first_of_equals_and_done() -> None:
    best = Best(("te_busy", "max"))
    rows = [Row(key=k, status=s, cycles=1, ns=1, metrics={"te_busy": v}) for k, s, v in
            (("a", "deadlock", 0.9), ("b", "done", 0.5), ("c", "done", 0.7), ("d", "done", 0.7))]  # fmt: skip
    for row in rows:
        best.offer(row)
    assert best.row is rows[2]


def test_lines_are_printed_and_no_bar_without_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    with listener(2, Best(("ns", "min")), {}, bar=True, lines=True) as heard:
        heard([done("a", 5)])
    assert capsys.readouterr() == ('{"key": "a", "status": "done", "cycles": 5, "error": ""}\n', "")


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "0 s"), (59.4, "59 s"), (59.6, "1:00"), (185, "3:05"), (7800, "2:10:00")])
def test_the_time_left_is_told_as_seconds_or_a_clock(seconds: float, text: str) -> None:
    assert left_text(seconds) == text


def test_paths_are_cut_to_what_tells_them_apart() -> None:
    assert short_names(("dram.channels", "te.engines")) == {"dram.channels": "channels", "te.engines": "engines"}
    assert short_names(("ve.engines", "te.engines")) == {"ve.engines": "ve.engines", "te.engines": "te.engines"}
    assert broken("max_concurrent_transfers", 11) == "max_\nconcurrent_\ntransfers"
    assert broken("dram.channels", 12) == "dram.\nchannels" and broken("dram.channels", 13) == "dram.channels"
