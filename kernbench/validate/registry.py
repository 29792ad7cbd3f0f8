"""The suites, in the order in which they are run and told."""

from __future__ import annotations

from importlib import import_module
from types import ModuleType

from kernbench.common.errors import InputError, Problem

#: By name, the module with `rows(data, stand)`; its figures of others stand in `data/NAME.yaml`.
SUITES: dict[str, str] = {
    "systolic": "kernbench.validate.suites.systolic",
    "scalesim": "kernbench.validate.suites.scalesim",
    "tensor": "kernbench.validate.suites.tensor",
    "vector": "kernbench.validate.suites.vector",
    "transfers": "kernbench.validate.suites.transfers",
    "dram": "kernbench.validate.suites.dram",
    "noc_mesh": "kernbench.validate.suites.noc_mesh",
    "noc_traces": "kernbench.validate.suites.noc_traces",
    "collectives": "kernbench.validate.suites.collectives",
    "roofline": "kernbench.validate.suites.roofline",
}


def suite_module(name: str) -> ModuleType:
    """The module of a suite."""
    return import_module(SUITES[name])


def chosen(names: list[str]) -> list[str]:
    """The suites of these names, all where there is none, in their own order; InputError for a name that is none."""
    for name in names:
        if name not in SUITES:
            rule = f"there is no such suite; suites are: {', '.join(SUITES)}"
            raise InputError(Problem("kbsim validate", rule, "SUITE", name))
    return [name for name in SUITES if not names or name in names]
