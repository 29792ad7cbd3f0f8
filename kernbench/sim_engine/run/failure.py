"""The report of a failed run: `Result.failure`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kernbench.cmdq import Program
from kernbench.common.errors import InputError, Problem, error_text, traceback_text
from kernbench.config.machine import MachineConfig

ARBITER = "spm.arbiter"  #: the name of a machine's own arbiter in failures, traces and checkpoints, among its components


def overlap_failure(program: Program, cycle: int, late: int, early: int) -> dict[str, Any]:
    """`spm.check_overlap: error`: the entry at position `late` may not start while the one at `early` runs."""
    entries = program.entries
    return {
        "code": "OVERLAP",
        "cycle": cycle,
        "entry": entries[late].command_id,
        "with": entries[early].command_id,
        "message": f"cycle {cycle}: {entries[late].where} may not start while {entries[early].where} still runs: "
        "their scratchpad ranges overlap where at least one writes (spm.check_overlap: error); "
        "add a dependency or move one of the tiles",
    }


def component_failure(
    impls: Mapping[str, str],
    component: int,
    cycle: int,
    sentence: str,
    error: BaseException | None,
    *,
    refused: type[Exception],
) -> dict[str, Any]:
    """A component ended the run. `impls`: names and classes of all, `component`: the position of this one. An exception is
    reported with its traceback; for `refused` the `sentence` of the core is clearer.
    """
    name = list(impls)[component]
    said = sentence if error is None or isinstance(error, refused) else error_text(error)
    failure = {
        "code": "COMPONENT",
        "cycle": cycle,
        "component": name,
        "message": f"cycle {cycle}: component {name} ({impls[name]}) failed: {said}",
    }
    if error is not None:
        frames = getattr(error, "user_traceback", error.__traceback__)  # kernels say where their own frames begin
        failure["traceback"] = traceback_text(error, frames)
    return failure


def arbiter_failure(impl: str, cycle: int, sentence: str, error: BaseException | None) -> dict[str, Any]:
    """The arbiter of scratchpad banks, code of the user's own, ended the run."""
    said = sentence if error is None else error_text(error)
    message = f"cycle {cycle}: arbiter {impl} failed: {said}"
    failure = {"code": "COMPONENT", "cycle": cycle, "component": ARBITER, "message": message}
    if error is not None:
        failure["traceback"] = traceback_text(error, error.__traceback__)
    return failure


def overflow_refusal(config: MachineConfig) -> InputError:
    """A share by `max_min_v1` cannot be computed in the numbers that the core has."""
    return InputError(
        Problem(
            config.source,
            "a max-min share of this program needs terms of more than 128 bits, or is below 2^-31 bytes per cycle",
            "allocation",
            getattr(config, "allocation", ""),
            "use shared_bw_v1, or capacities with smaller denominators and weights closer to each other",
        )
    )
