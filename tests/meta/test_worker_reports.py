"""A worker of xdist leaves out only what nobody would see: see tests/conftest.py."""

from __future__ import annotations

from types import SimpleNamespace

import pytest

from tests import conftest

PASSED, FAILED, SKIPPED = "passed", "failed", "skipped"
#: Outcomes of the phases of a test, and which of them are reported.
PHASES = {
    "passes": ({"setup": PASSED, "call": PASSED, "teardown": PASSED}, ["call"]),
    "fails": ({"setup": PASSED, "call": FAILED, "teardown": PASSED}, ["call"]),
    "is skipped": ({"setup": SKIPPED, "teardown": PASSED}, ["setup"]),
    "has no fixture": ({"setup": FAILED, "teardown": PASSED}, ["setup"]),
    "fails at its end": ({"setup": PASSED, "call": PASSED, "teardown": FAILED}, ["call", "teardown"]),
}


@pytest.mark.parametrize("name", PHASES)
def test_a_call_and_every_failure_is_reported(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outcomes, wanted = PHASES[name]
    reports = [SimpleNamespace(when=when, passed=outcome == PASSED) for when, outcome in outcomes.items()]
    monkeypatch.setattr(conftest, "runtestprotocol", lambda item, log, nextitem: reports)
    said: list[str] = []
    hooks = SimpleNamespace(
        pytest_runtest_logreport=lambda report: said.append(report.when),
        pytest_runtest_logfinish=lambda nodeid, location: said.append(f"end of {nodeid}"),
    )
    item = SimpleNamespace(ihook=hooks, nodeid="t", location=("t.py", 1, "t"))
    assert conftest.FewReports().pytest_runtest_protocol(item, None) is True  # type: ignore[arg-type]
    assert said == [*wanted, "end of t"]


@pytest.mark.parametrize(
    ("option", "all_of_them"), [({}, False), ({"durations": 5}, True), ({"xmlpath": "r.xml"}, True), ({"verbose": 1}, True)]
)
def test_times_names_and_files_of_reports_need_every_report(option: dict[str, object], all_of_them: bool) -> None:
    config = SimpleNamespace(option=SimpleNamespace(**{"durations": None, "xmlpath": None, "verbose": -1, **option}))
    assert conftest.wants_every_report(config) is all_of_them  # type: ignore[arg-type]
