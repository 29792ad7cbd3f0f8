"""Modules under their names before 0.2: an import of one works, with a DeprecationWarning that says the new name."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

#: Old name: new name. A package's modules move with it.
MODULES = {
    "kernbench.ccl.arranged": "kernbench.ccl.rings",
    "kernbench.ccl.cuts": "kernbench.ccl.contract",
    "kernbench.ccl.order": "kernbench.ccl.reference_sums",
    "kernbench.ccl.over_rings": "kernbench.ccl.ring_schedule",
    "kernbench.ccl.shapes": "kernbench.ccl.rings",
    "kernbench.cmdq.depend": "kernbench.cmdq.dependencies",
    "kernbench.cmdq.planning": "kernbench.cmdq.plan",
    "kernbench.components.mma": "kernbench.components.service",
    "kernbench.components.parameters": "kernbench.components.service",
    "kernbench.components.systolic": "kernbench.components.service",
    "kernbench.config.one_pe": "kernbench.config.kinds",
    "kernbench.noc.device": "kernbench.analysis.noc.device",
    "kernbench.noc.events": "kernbench.analysis.noc.events",
    "kernbench.noc.fluid": "kernbench.analysis.noc.fluid",
    "kernbench.noc.mesh": "kernbench.analysis.noc.mesh",
    "kernbench.noc.outcome": "kernbench.analysis.noc.outcome",
    "kernbench.noc.replay": "kernbench.analysis.noc.replay",
    "kernbench.runtime_api.parameters": "kernbench.runtime_api.bench",
    "kernbench.runtime_api.triton_run": "kernbench.runtime_api.triton.run",
    "kernbench.sim_engine.deadlock": "kernbench.sim_engine.run.waits",
    "kernbench.sim_engine.memory_strides": "kernbench.sim_engine.memory.strides",
    "kernbench.sim_engine.probe": "kernbench.analysis.probe",
    "kernbench.sim_engine.tracing": "kernbench.sim_engine.recording",
    "kernbench.sim_engine.whatif": "kernbench.analysis.whatif",
    "kernbench.sweep.executors.choose": "kernbench.sweep.executors.choice",
    "kernbench.sweep.load": "kernbench.sweep.spec.load",
    "kernbench.sweep.store.shelf": "kernbench.sweep.store.sweeps",
    "kernbench.sweep.store.stored": "kernbench.sweep.store.tables",
    "kernbench.topology.levels": "kernbench.topology.views",
    "kernbench.trace.compare.commands": "kernbench.trace.compare.matching",
    "kernbench.trace.compare.forms": "kernbench.trace.compare.reports",
    "kernbench.trace.diff": "kernbench.trace.compare.diff",
    "kernbench.trace.exporters.flat": "kernbench.trace.exporters.event_rows",
    "kernbench.trace.plots": "kernbench.trace.report.plots",
    "kernbench.trace.store": "kernbench.trace",
    "kernbench.trace.why.parts": "kernbench.trace.why.causes",
    "kernbench.triton_emu.install": "kernbench.triton_emu.kernel_system",
    "kernbench.validate.draw": "kernbench.validate.page",
    "kernbench.validate.forms": "kernbench.validate.page",
    "kernbench.validate.registry": "kernbench.validate.run",
    "kernbench.validate.stand": "kernbench.validate.run",
    "kernbench.validate.turns": "kernbench.validate.interleaved_messages",
    "kernbench.workloads.model_files": "kernbench.workloads.models.files",
}


def new_name(name: str) -> str | None:
    """The module of an old name; None for any other name."""
    head, rest = name, ""
    while head not in MODULES:
        head, dot, last = head.rpartition(".")
        if not dot:
            return None
        rest = f".{last}{rest}"
    return MODULES[head] + rest


class MovedFinder:
    """Finds a module under its old name and loads the one that it has become.

    It is the first of `sys.meta_path`: a folder that an earlier version has left would be taken for a package.
    """

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """Called by `import`: how to load an old name, None for any other."""
        return None if not name.startswith("kernbench.") or new_name(name) is None else ModuleSpec(name, self)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """A new module is made by default, and given up in `exec_module`."""

    def exec_module(self, module: ModuleType) -> None:
        """The module of the new name stands under the old one too."""
        old, new = module.__name__, new_name(module.__name__)
        assert new is not None
        sys.modules[old] = import_module(new)
        warnings.warn(f"{old} is now {new}; the old name goes with the next version", DeprecationWarning, stacklevel=2)


def find_moved() -> None:
    """Called once, by the package."""
    sys.meta_path.insert(0, MovedFinder())
