"""Why points took what they took: they are run once more with a full trace, and `why` says it in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from kernbench.common.errors import InputError
from kernbench.config.allowed_code import AllowCode
from kernbench.sim_engine.recording import TraceOptions
from kernbench.sweep.report.table import Entry, SweepTable
from kernbench.sweep.sources import check_code
from kernbench.sweep.work import Work
from kernbench.trace.reader import open_trace
from kernbench.trace.why import explain
from kernbench.trace.writer import TraceFile


def reasons_of(table: SweepTable, entries: Sequence[Entry], *, allow_code: AllowCode = ()) -> dict[str, str]:
    """A sentence for each of some points, by key; each is run again. InputError where a bench of the sweep is not here, or
    the sweep names Python that `allow_code` does not."""
    if not entries:
        return {}
    work = Work.of(table.about.context, allow_code)
    return {entry.task.key: _reason(work, entry) for entry in entries}


def _reason(work: Work, entry: Entry) -> str:
    """The sentence; where there is none, why not."""
    config = work.machines[entry.task.machine].again(entry.task.settings)
    check_code(config)
    try:
        of, machine = work.targets[entry.task.target].longest(config, entry.task.params)
        with TemporaryDirectory() as folder:
            path = Path(folder) / "run.jsonl"
            with TraceFile(path) as file:
                tracing = machine.trace(file, TraceOptions("full"))
                machine.run()
                tracing.close()
            return of + explain(open_trace(str(path))).sentence
    except InputError as error:
        return f"it cannot be explained: {error.problems[0].rule}"
