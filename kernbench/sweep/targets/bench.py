"""Benches as targets: Python code that every process of a sweep imports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.config import MachineConfig
from kernbench.config.allowed_code import AllowCode, AllowedCode
from kernbench.runtime_api.bench import Bench, checked
from kernbench.runtime_api.discovery import bench_file, load_bench
from kernbench.runtime_api.report import report
from kernbench.sim_engine.engine import GraphEngine, KernelFailed
from kernbench.sim_engine.machine import Machine
from kernbench.sweep.sources import source_digest
from kernbench.sweep.store.tables import hash_of_records, measured

SPILL = 256 << 20  # [B] op logs of this size or larger are on disk


class BenchTarget:
    """A bench, given by its name or file."""

    native = False
    notes: Sequence[str] = ()

    def __init__(
        self, label: str, where: str, params: Mapping[str, Any], verify: bool = False, allow_code: AllowCode = ()
    ) -> None:
        """InputError also for a file that `allow_code` does not name, because the spec or the store of a sweep chooses the
        file."""
        self.label = label
        self.where = where
        self.given = dict(params)
        self.verify = verify
        if (file := bench_file(where)) is not None:
            AllowedCode.of(allow_code).check_file(file, self._refused)
        self.bench: Bench = load_bench(where)
        self.default_machine = self.bench.machine

    def _refused(self, rule: str, remedy: str) -> InputError:
        return InputError(Problem(self.label, rule, "bench", self.where, remedy))

    def checked(self, params: Mapping[str, Any]) -> dict[str, Any]:
        return checked(self.bench.where, self.bench.params, {**self.given, **params})

    def fingerprint(self) -> str:
        verified = " verified" if self.verify else ""
        return f"bench {self.bench.name} {source_digest(Path(self.bench.source))}{verified}"

    def longest(self, config: MachineConfig, params: Mapping[str, Any]) -> tuple[str, Machine]:
        return "", GraphEngine(config, op_log=False).prepare(self.bench, **self.checked(params))

    def simulate(self, config: MachineConfig, params: Mapping[str, Any]) -> dict[str, Any]:
        engine = GraphEngine(config, limit_bytes=SPILL)
        engine.prepare(self.bench, **self.checked(params))
        engine.machine.run()
        error = ""
        try:
            engine.check()
        except KernelFailed as failure:
            error = failure.traceback.rstrip("\n").split("\n")[-1]
        found = report(engine, verify=self.verify)
        fields = measured(found.result, config.freq_ghz)  # type: ignore[attr-defined]
        fields["metrics"] |= {"bound": found.bound.cycles, "bound_by": found.bound.name}
        if found.verification is not None:
            fields["metrics"]["verified"] = found.verification.ok
            if not found.verification.ok:
                fields |= {"status": "failed", "error": str(found.verification.failures[0])}
        if error:
            fields["error"] = error
        assert engine.op_log is not None
        fields["jobs"], fields["jobs_hash"] = hash_of_records(engine.op_log)
        return fields

    def plain(self) -> dict[str, Any]:
        return {"bench": self.where, "label": self.label, "params": self.given, "verify": self.verify}
