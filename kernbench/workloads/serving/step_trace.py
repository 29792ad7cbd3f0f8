"""Steps as a trace in Chrome's format, which chrome://tracing and Perfetto open; one event a line."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import BinaryIO

from kernbench.workloads.serving.scheduler import StepBatch

_HEAD = b'{"displayTimeUnit":"ms","traceEvents":[\n{"ph":"M","pid":0,"name":"process_name","args":{"name":"engine"}}'


class StepTrace:
    """Writes a slice for each step, and counters of requests and of blocks of the KV cache."""

    def __init__(self, out: BinaryIO) -> None:
        self._out = out
        self.steps = 0
        out.write(_HEAD)

    def step(self, batch: StepBatch, start_ns: int, end_ns: int, stages: Sequence[tuple[int, int]] = ()) -> None:
        """A step has ended. `stages`: [ns] start and end in each stage of a pipeline, which has a track each."""
        self.steps += 1
        prefill = batch.prefill_tokens
        what = {
            "prefill_tokens": prefill, "decodes": batch.decodes, "decode_context": batch.decode_context,
            "prefills": [request.id for request, _, _ in batch.chunks], "preempted": [one.id for one in batch.preempted],
        }  # fmt: skip
        name = "mixed" if prefill and batch.decodes else "prefill" if prefill else "decode"
        for track, (start, end) in enumerate(stages if len(stages) > 1 else [(start_ns, end_ns)]):
            self._event({"ph": "X", "tid": track, "ts": start / 1e3, "dur": (end - start) / 1e3, "name": name, "args": what})
        requests = {"running": batch.running, "waiting": batch.waiting}
        self._event({"ph": "C", "ts": start_ns / 1e3, "name": "requests", "args": requests})
        self._event({"ph": "C", "ts": start_ns / 1e3, "name": "KV blocks", "args": {"used": batch.kv_blocks}})

    def _event(self, event: dict[str, object]) -> None:
        self._out.write(b",\n" + json.dumps({"pid": 0, **event}, separators=(",", ":")).encode())

    def close(self) -> None:
        """The last line."""
        self._out.write(b"\n]}\n")
