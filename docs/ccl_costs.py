"""Fits the weights of the tuner's cost model, and writes the simulated times of groups that it chooses by.

    python docs/ccl_costs.py              # simulates all groups again: an hour of CPU time
    python docs/ccl_costs.py TIMES.json   # fits times that `kbsim ccl tune --simulate --save` and this script have written

Weights minimise the mean and the largest relative error of each algorithm over all its times.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
from scipy.optimize import linprog

from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.measure import queues_of
from kernbench.ccl.registry import read_registry
from kernbench.ccl.tuner import KNOWN, SCHEMA, Tuner, simulate
from kernbench.config import SystemConfig, load_config

WEIGHTS = Path(__file__).parents[1] / "kernbench" / "ccl" / "weights.py"
GROUPS = (*(("single_cube", ranks) for ranks in (2, 3, 5, 8)), ("two_sips", 16))
SIZES = (64, 1 << 10, 1 << 13, 1 << 16, 1 << 19)
LARGEST = 0.5  #: weight of the largest error beside the mean


def simulated() -> list[dict[str, object]]:
    """The times of all groups."""
    found: list[dict[str, object]] = []
    for machine, ranks in GROUPS:
        config = load_config(machine, kind=SystemConfig)
        group = group_of(config, shape_for(config, ranks))
        tuner = Tuner(config, group, read_registry())
        for collective in COLLECTIVES:
            for _ in simulate(tuner, collective, SIZES, "f16"):
                pass
        about = {"machine": machine, "digest": config.digest(), "shape": list(group.shape), "topology": group.kind_name}
        found.append({**about, "times": dict(tuner.times)})
    return found


def fitted(features: np.ndarray, cycles: np.ndarray) -> np.ndarray:
    """Weights of at least 0 with the smallest relative errors."""
    scaled = features / cycles[:, None]
    rows, columns = scaled.shape
    each, one = np.eye(rows), np.ones(rows)
    cost = np.r_[np.zeros(columns), LARGEST, one / rows]
    above = np.r_[
        np.c_[scaled, np.zeros((rows, 1)), -each],
        np.c_[-scaled, np.zeros((rows, 1)), -each],
        np.c_[np.zeros((rows, columns)), -one[:, None], each],
    ]
    made = linprog(cost, A_ub=above, b_ub=np.r_[one, -one, np.zeros(rows)], bounds=(0, None), method="highs")
    return np.asarray(made.x[:columns])


def weights(groups: Iterable[dict[str, object]]) -> dict[str, Sequence[float]]:
    """By algorithm."""
    registry, rows = read_registry(), {}
    entries = {one.full_name: one for one in registry.entries}
    for one in groups:
        config = load_config(str(one["machine"]), kind=SystemConfig)
        tuner = Tuner(config, group_of(config, shape_for(config, int(np.prod(one["shape"])))), registry)  # type: ignore[call-overload]
        for name, times in one["times"].items():  # type: ignore[attr-defined]
            outline, queues = tuner.outline(entries[name]), queues_of(registry, entries[name])
            for nbytes, cycles in times if outline is not None else ():
                features = outline.features(nbytes, 2, queues.slot_bytes or 0, tuner.latencies.link)
                rows.setdefault(name, []).append((features, cycles))
    return {
        name: fitted(np.array([one for one, _ in some]), np.array([cycles for _, cycles in some], float))
        for name, some in sorted(rows.items())
    }


def write(found: dict[str, Sequence[float]]) -> None:
    """Put the weights into the module."""
    before, _, _ = WEIGHTS.read_text(encoding="utf-8").partition("FITTED: ")
    after = WEIGHTS.read_text(encoding="utf-8").partition("\n}\n")[2]
    lines = "".join(
        f'    "{name}": ({w[0]:.1f}, {w[1]:.3f}, {w[2]:.2f}, {w[3]:.3f}, {w[4]:.2f}),\n' for name, w in found.items()
    )
    WEIGHTS.write_text(f"{before}FITTED: Mapping[str, Weights] = {{\n{lines}}}\n{after}", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:]:
        groups = json.loads(Path(sys.argv[1]).read_text(encoding="utf-8"))["groups"]
    else:
        groups = simulated()
        KNOWN.write_text(json.dumps({"schema": SCHEMA, "groups": groups}) + "\n", encoding="utf-8")
    write(weights(groups))
