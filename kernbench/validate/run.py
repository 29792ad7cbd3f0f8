"""Runs suites one after the other."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from kernbench.common.errors import InternalError
from kernbench.validate.data_files import read_suite_data
from kernbench.validate.registry import suite_module
from kernbench.validate.stand import Stand
from kernbench.validate.suite import Figure, Row, Skipped, SuiteData


@dataclass(frozen=True, slots=True)
class SuiteRun:
    """What a suite found."""

    data: SuiteData
    rows: list[Row]
    skipped: str = ""  #: why there are no rows
    figures: Sequence[Figure] = field(default_factory=list)
    seconds: float = 0.0  #: of wall time; in no comparison

    @property
    def outside(self) -> list[Row]:
        """Rows with an error that is not allowed."""
        return [row for row in self.rows if row.verdict == "outside"]

    def to_dict(self) -> dict[str, Any]:
        """Plain JSON."""
        sources = {name: {k: getattr(source, k) for k in source.__slots__} for name, source in self.data.sources.items()}
        return {
            "suite": self.data.suite,
            "title": self.data.title,
            "about": self.data.about,
            "sources": sources,
            "skipped": self.skipped or None,
            "rows": [row.to_dict() for row in self.rows],
        }


def run_suites(names: Sequence[str], stand: Stand) -> Iterator[SuiteRun]:
    """Each suite when it is done."""
    for name in names:
        yield run_suite(name, stand)


def run_suite(name: str, stand: Stand) -> SuiteRun:
    """One suite; InternalError where it has no rows, or one of them no source."""
    data, module, begin = read_suite_data(name), suite_module(name), time.monotonic()
    try:
        rows = list(module.rows(data, stand))
    except Skipped as reason:
        return SuiteRun(data, [], str(reason))
    wrong = [row.case for row in rows if row.source not in data.sources]
    if wrong or not rows:
        raise InternalError(f"validation: suite {name} has " + (f"rows without a source: {wrong[0]}" if wrong else "no rows"))
    draw = getattr(module, "figures", None)
    return SuiteRun(data, rows, "", [] if draw is None else draw(data, rows), time.monotonic() - begin)
