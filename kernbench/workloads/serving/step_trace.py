"""A trace of steps in Chrome's format, which chrome://tracing and Perfetto open; each event is a line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import BinaryIO

from kernbench.workloads.blocks.batch import Sequences
from kernbench.workloads.serving.machine_step import MachineStep
from kernbench.workloads.serving.scheduler import StepBatch

_HEAD = b'{"displayTimeUnit":"ms","traceEvents":[\n{"ph":"M","pid":0,"name":"process_name","args":{"name":"engine"}}'


class Bottlenecks:
    """The resources that limit steps. Steps whose sizes round to the same powers of four share one simulated step."""

    def __init__(self, step: MachineStep) -> None:
        self._step = step
        self._known: dict[tuple[Sequences, ...], tuple[str, float]] = {}

    def of(self, batch: StepBatch) -> tuple[str, float]:
        """The name of the resource, and the share of the step that it needs alone."""
        found = []
        if chunks := len(batch.chunks):
            before = sum(before for _, _, before in batch.chunks)
            found.append(Sequences(_power(batch.prefill_tokens / chunks), _power(before / chunks, 0), _power(chunks)))
        if decodes := batch.decodes:
            context = _power(batch.decode_context / decodes, 0)
            found.append(Sequences(1 + round(batch.drafts / decodes), context, _power(decodes)))
        typical = tuple(found)
        if typical not in self._known:
            self._known[typical] = next(iter(self._step.limits(typical).items()))
        return self._known[typical]


def _power(value: float, least: int = 1) -> int:
    """The nearest power of four, by ratio; `least` for values below 1."""
    found = 1
    while 2 * found <= value:
        found *= 4
    return found if value >= 1 else least


class StepTrace:
    """Writes a slice for each step, and counters of requests and of blocks of the KV cache. After a write that failed, nothing
    more is written, and `close` raises its error: steps go on without their trace.

    `bottlenecks`: the limits of steps; None to leave them out.
    """

    def __init__(self, out: BinaryIO, bottlenecks: Bottlenecks | None = None) -> None:
        self._out = out
        self.bottlenecks = bottlenecks
        self.steps = 0
        self._error: OSError | None = None
        self._write(_HEAD)

    def step(self, batch: StepBatch, start_ns: int, end_ns: int, stages: Sequence[tuple[int, int]] = ()) -> None:
        """A step has ended. `stages`: [ns] start and end in each stage of a pipeline; each stage has its own track."""
        self.steps += 1
        prefill = batch.prefill_tokens
        what: dict[str, object] = {
            "prefill_tokens": prefill, "decodes": batch.decodes, "decode_context": batch.decode_context,
            "prefills": [request.id for request, _, _ in batch.chunks], "preempted": [one.id for one in batch.preempted],
        }  # fmt: skip
        if self.bottlenecks is not None:
            resource, share = self.bottlenecks.of(batch)
            what |= {"limit": resource, "limit_share": round(share, 4)}
        name = "mixed" if prefill and batch.decodes else "prefill" if prefill else "decode"
        for track, (start, end) in enumerate(stages if len(stages) > 1 else [(start_ns, end_ns)]):
            self._event({"ph": "X", "tid": track, "ts": start / 1e3, "dur": (end - start) / 1e3, "name": name, "args": what})
        requests = {"running": batch.running, "waiting": batch.waiting}
        self._event({"ph": "C", "ts": start_ns / 1e3, "name": "requests", "args": requests})
        self._event({"ph": "C", "ts": start_ns / 1e3, "name": "KV blocks", "args": {"used": batch.kv_blocks}})

    def _event(self, event: dict[str, object]) -> None:
        self._write(b",\n" + json.dumps({"pid": 0, **event}, separators=(",", ":")).encode())

    def _write(self, data: bytes) -> None:
        if self._error is None:
            try:
                self._out.write(data)
            except OSError as error:
                self._error = error

    def close(self) -> None:
        """Write the last line. OSError if the trace could not be written."""
        self._write(b"\n]}\n")
        if self._error is not None:
            raise self._error
