"""Import of modules by their names before version 0.2: a DeprecationWarning gives the new name."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.machinery import ModuleSpec
from types import ModuleType

#: The new name of each old name. The modules of a renamed package move with the package.
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
    """The new name of a module with an old name; None for any other name."""
    head, rest = name, ""
    while head not in MODULES:
        head, dot, last = head.rpartition(".")
        if not dot:
            return None
        rest = f".{last}{rest}"
    return MODULES[head] + rest


class MovedFinder:
    """Finds a module by its old name and loads the module that replaces it.

    The finder is the first of `sys.meta_path`: otherwise a directory left by an earlier version would be imported as a package.
    """

    def find_spec(self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None) -> ModuleSpec | None:
        """The import system calls this method: a spec for an old name, None for any other name."""
        return None if not name.startswith("kernbench.") or new_name(name) is None else ModuleSpec(name, self)  # type: ignore[arg-type]

    def create_module(self, spec: ModuleSpec) -> None:
        """Return None, which means the default module; `exec_module` replaces it."""

    def exec_module(self, module: ModuleType) -> None:
        """Register the module of the new name under the old name too."""
        old, new = module.__name__, new_name(module.__name__)
        assert new is not None
        sys.modules[old] = import_module(new)
        warnings.warn(f"{old} is now {new}; the old name goes with the next version", DeprecationWarning, stacklevel=2)


def find_moved() -> None:
    """Install the finder; the package calls this function once."""
    sys.meta_path.insert(0, MovedFinder())
