"""Why points took what they took: they are run once more with a full trace, and `why` says it in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from kernbench.common.errors import InputError
from kernbench.sim_engine.tracing import TraceOptions
from kernbench.sweep.table import Entry, SweepTable
from kernbench.sweep.work import Work
from kernbench.trace.reader import open_trace
from kernbench.trace.why import explain
from kernbench.trace.writer import TraceFile


def reasons_of(table: SweepTable, entries: Sequence[Entry]) -> dict[str, str]:
    """A sentence for each of some points, by key; each is run again. InputError where a bench of the sweep is not here."""
    if not entries:
        return {}
    work = Work.of(table.about.context)
    return {entry.task.key: _reason(work, entry) for entry in entries}


def _reason(work: Work, entry: Entry) -> str:
    """The sentence; where there is none, why not."""
    try:
        config = work.machines[entry.task.machine].again(entry.task.settings)
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
