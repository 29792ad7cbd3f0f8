"""ASTRA-sim's system files: the costs of the system layer of an NPU, and the algorithms of its collectives."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from math import ceil
from typing import Any

from kernbench.common.errors import ABSENT, InputError, Problem
from kernbench.config.astra_sim import LIMIT, MAX_BYTES
from kernbench.config.document import read_document
from kernbench.config.system import SystemConfig

#: For the collective of a key `all-reduce-implementation`: the algorithm of kernbench for each name there.
ALGORITHMS = {
    "all-reduce": {"ring": "ring", "direct": "direct", "halvingDoubling": "halving_doubling", "doubleBinaryTree": "tree"},
    "all-gather": {"ring": "ring", "direct": "direct"},
    "reduce-scatter": {"ring": "ring", "direct": "direct", "halvingDoubling": "halving"},
    "all-to-all": {"ring": "ring", "direct": "direct"},
}
NUMBERS = ("endpoint-delay", "local-mem-bw")
#: The scheduling policies of ASTRA-sim for chunks; in kernbench the kernel decides the order.
LEFT_OUT = (
    "scheduling-policy", "intra-dimension-scheduling", "inter-dimension-scheduling", "active-chunks-per-dimension",
    "preferred-dataset-splits", "collective-optimization", "boost-mode", "roofline-enabled", "peak-perf", "trace-enabled",
    "replay-only", "track-local-mem",
)  # fmt: skip


@dataclass(frozen=True)
class AstraSystem:
    """The content of a file."""

    endpoint_ns: Fraction | None  #: of each message at an NPU
    memory_gb_s: Fraction | None  #: of an NPU
    notes: list[str]  #: values that the machine leaves out, and algorithms to name in a run

    def overrides(self, base: SystemConfig) -> dict[str, Any]:
        """The overrides of a base machine whose SIPs represent the NPUs."""
        freq, found = Fraction(base.freq_ghz), dict[str, Any]()
        if self.endpoint_ns is not None:
            found["pe.ipcq.cycles"] = max(1, ceil(self.endpoint_ns * freq))
        if self.memory_gb_s is not None:
            hbm = base.cube.hbm
            peak = (self.memory_gb_s / freq / (base.cubes * hbm.channels)).limit_denominator(10_000)
            found["cube.hbm.peak_bw_bytes_per_cycle"] = peak
            width = hbm.bus_width_bytes
            while width < peak * hbm.dram_burst_cycles:  # the channel is the limit, and not its bus
                width *= 2
            found["cube.hbm.bus_width_bytes"] = width
            whole = ceil(peak * base.slice_channels)
            if Fraction(hbm.link.bytes_per_cycle) < whole:
                found["cube.hbm.link.bytes_per_cycle"] = whole
        return found


def read_astra_system(path: str | os.PathLike[str]) -> AstraSystem:
    """InputError with line and rule for another kind of file."""
    document = read_document(path, MAX_BYTES)
    data = document.data

    def refused(rule: str, name: str, value: object = ABSENT) -> InputError:
        place = document.where(document.find([(name,)]).get((name,)))
        return InputError(Problem(place, rule, name, value))

    implementations = {f"{one}-implementation": one for one in ALGORITHMS}
    for name in data:
        if name not in (*NUMBERS, *LEFT_OUT, *implementations):
            if name.endswith("-implementation-custom"):
                raise refused(
                    "algorithms of your own are no part of a machine: run the MSCCL file of the algorithm with "
                    "kbsim ccl run --msccl, or its traces with kbsim ccl replay",
                    name,
                )
            known = ", ".join((*NUMBERS, *implementations, *LEFT_OUT))
            raise refused(f"there is no such key of a system file; the keys are {known}", name)
    numbers: dict[str, Fraction] = {}
    for name in NUMBERS:
        value = data.get(name)
        if value is None:
            continue
        least = name == "endpoint-delay"
        if type(value) is bool or not isinstance(value, int | Fraction) or not 0 <= value <= LIMIT or not (value or least):
            raise refused(f"it must be a number {'from' if least else 'above'} 0, and at most {LIMIT:,}", name, value)
        numbers[name] = Fraction(value)
    notes = []
    for name, collective in implementations.items():
        if name in data:
            given = data[name]
            if not isinstance(given, list) or not given or not all(isinstance(one, str) for one in given):
                raise refused("it must be a list with one name for each dimension of the network", name, given)
            notes.append(_algorithm(collective, given))
    return AstraSystem(numbers.get("endpoint-delay"), numbers.get("local-mem-bw"), [*notes, *_left(data)])


def _algorithm(collective: str, names: list[str]) -> str:
    """The algorithm of kernbench to name in a run."""
    said = f"{collective} by {', '.join(names)}"
    if len(names) == 2 and set(names) == {"ring"} and collective != "all-to-all":
        return f"{said}: run with --algo torus"
    if len(names) > 2 and set(names) == {"ring"} and collective in ("all-reduce", "all-gather", "reduce-scatter"):
        return f"{said}: run with --algo hierarchical"
    ours = ALGORITHMS[collective].get(names[0]) if len(names) == 1 else None
    return f"{said}: there is no such algorithm, the tuner chooses one" if ours is None else f"{said}: run with --algo {ours}"


def _left(data: dict[str, Any]) -> Iterator[str]:
    names = [name for name in LEFT_OUT if name in data]
    if names:
        yield f"left out: {', '.join(names)}"
