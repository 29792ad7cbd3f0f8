"""The pytest plugin: the fixture `kbsim`, the option `--kbsim-update`, and the file of baselines, which one process writes.

A worker of pytest-xdist sends the records of its tests with their reports; the process that prints the summary writes the file.
"""

from __future__ import annotations

import os
from collections.abc import Generator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kernbench.common.errors import InputError, KernbenchError
from kernbench.common.json_shapes import counted
from kernbench.testing.baselines import Baseline, read_baselines, write_baselines
from kernbench.testing.cycles import Measured, Session, assert_cycles, sessions

if TYPE_CHECKING:
    from kernbench.api.llm import LlmRun
    from kernbench.api.run import Run

INI = "kbsim_baselines"
DEFAULT_FILE = "kbsim_baselines.json"
REPORTED = "kbsim"  # the attribute of a test report that has the records of the test
SESSION = pytest.StashKey[Session]()


class Collected:
    """The records of all test reports."""

    def __init__(self) -> None:
        self.recorded: dict[str, Baseline] = {}
        self.tests: dict[str, str] = {}  #: the first test that recorded a name
        self.twice: dict[str, str] = {}  #: a line for each name with two different runs; such a name is not written
        self.faster: list[tuple[str, int, int]] = []
        self.notes: list[str] = []  #: messages about writing the file
        self.error = ""

    def take(self, test: str, found: Mapping[str, Any]) -> None:
        """Add the records of one test."""
        self.faster += [(name, now, before) for name, now, before in found["faster"]]
        for name, plain in found["recorded"]:
            one = Baseline(plain["cycles"], plain["model_version"], plain["groups"])
            known = self.recorded.setdefault(name, one)
            first = self.tests.setdefault(name, test)
            if known != one:
                self.twice.setdefault(name, f'"{name}": {known.cycles:,} cycles in {first}, {one.cycles:,} cycles in {test}')


class Kbsim:
    """The fixture `kbsim`: runs kernbench with files beside the test, and checks cycles.

    >>> from kernbench.pytest import Kbsim
    >>> kbsim = Kbsim(Path("."), "test_speed.py::test_decode", [])
    >>> kbsim.assert_cycles(kbsim.run("llama2-7b-decode", "npu_server"), at_most=130_000)
    """

    def __init__(self, folder: Path, test: str, properties: list[tuple[str, object]]) -> None:
        self._folder = folder
        self._test = test
        self._properties = properties

    def run(self, target: Any, config: Any = None, overrides: Any = (), **options: Any) -> Run:
        """`kernbench.run`, with file names relative to the directory of the test."""
        __tracebackhide__ = True
        from kernbench.api.run import run

        try:
            found = run(self._beside(target), None if config is None else self._beside(config), overrides, **options)
        except InputError as error:  # the traceback ends at the line of the test
            raise error.with_traceback(None) from None
        self._properties.append((f"cycles of {found.target}", found.cycles))
        return found

    def llm(self, model: Any, config: Any = None, overrides: Any = (), **options: Any) -> LlmRun:
        """`kernbench.llm`, with file names relative to the directory of the test."""
        __tracebackhide__ = True
        from kernbench.api.llm import llm

        machine = {} if config is None else {"config": self._beside(config)}
        try:
            found = llm(self._beside(model), overrides=overrides, **machine, **options)
        except InputError as error:
            raise error.with_traceback(None) from None
        self._properties.append((f"cycles of {found.model}", found.cycles))
        return found

    def assert_cycles(self, result: Measured, *, at_most: int | None = None, baseline: str | None = None) -> None:
        """`kernbench.pytest.assert_cycles`; without a limit, the name of the test is the name of the baseline."""
        __tracebackhide__ = True
        named = self._test if baseline is None and at_most is None else baseline
        assert_cycles(result, at_most=at_most, baseline=named)

    def _beside(self, named: Any) -> Any:
        """The file beside the test with this name, if it exists; otherwise the argument."""
        if not isinstance(named, (str, os.PathLike)):
            return named
        file, colon, rest = os.fspath(named).partition(":")
        here = self._folder / file
        return f"{here}{colon}{rest}" if os.path.isfile(here) else named


@pytest.fixture
def kbsim(request: pytest.FixtureRequest) -> Kbsim:
    """The fixture: an object of `Kbsim`. The cycles of its runs become properties of the test in the JUnit XML.

    >>> def test_decode_takes_at_most_130_000_cycles(kbsim):
    ...     kbsim.assert_cycles(kbsim.run("llama2-7b-decode"), at_most=130_000)
    """
    return Kbsim(request.path.parent, request.node.nodeid, request.node.user_properties)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--kbsim-update` and the setting `kbsim_baselines`."""
    group = parser.getgroup("kernbench")
    group.addoption("--kbsim-update", action="store_true", help="write the cycles of this run into the file of baselines")
    parser.addini(INI, f"file of baselines, relative to rootdir (default: {DEFAULT_FILE})", default=DEFAULT_FILE)


def pytest_configure(config: pytest.Config) -> None:
    """Start a session."""
    session = Session(config.rootpath / config.getini(INI), config.getoption("--kbsim-update"))
    config.stash[SESSION] = session
    sessions.append(session)
    config.pluginmanager.register(Recorder(session))


def pytest_unconfigure(config: pytest.Config) -> None:
    """End the session."""
    if SESSION in config.stash:
        sessions.remove(config.stash[SESSION])


class Recorder:
    """The hooks of one session; they collect the records of tests, write the file and print the summary."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._collected = Collected()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Keep the records of each test separate."""
        self._session.recorded.clear()
        self._session.faster.clear()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, call: pytest.CallInfo[None]) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the records of a passed test to its report, as plain values, because xdist sends reports as JSON."""
        report = yield
        session = self._session
        if call.when == "call" and report.passed and (session.recorded or session.faster):
            recorded = [[name, one.to_dict()] for name, one in session.recorded]
            setattr(report, REPORTED, {"recorded": recorded, "faster": [list(one) for one in session.faster]})
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add the records of a test, whichever process ran it."""
        found = getattr(report, REPORTED, None)
        if found is not None:
            self._collected.take(report.nodeid, found)

    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        """Write the file, in the only process that has all reports."""
        found = self._collected
        if not self._session.update or hasattr(session.config, "workerinput"):
            return
        new = {name: one for name, one in found.recorded.items() if name not in found.twice}
        try:
            before = read_baselines(self._session.path)
            changed = sum(before.get(name) != one for name, one in new.items())
            if changed:
                write_baselines(self._session.path, before | new)
        except KernbenchError as error:
            found.error = str(error)
        else:
            found.notes.append(f"{changed} of {counted(len(new), 'baseline')} written to {self._session.path}")
        if (found.twice or found.error) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """Print which baselines were recorded, and which runs became faster."""
        found = self._collected
        faster = [
            f'"{name}": {now:,} cycles, {before - now:,} fewer than its baseline ({(now - before) / before:+.1%})'
            for name, now, before in sorted(found.faster)
        ]
        if not (faster or found.notes or found.twice or found.error):
            return
        terminalreporter.section("kernbench")
        for line in (*found.notes, *faster):
            terminalreporter.line(line)
        if faster:
            terminalreporter.line("keep the new cycles as baselines: pytest --kbsim-update")
        for line in found.twice.values():
            terminalreporter.line(f"error: {line}; give each run a name of its own", red=True)
        if found.error:
            terminalreporter.line(f"error: {found.error}", red=True)
