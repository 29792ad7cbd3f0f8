"""Fits the weights of the tuner's cost model, and writes the simulated times of groups that it chooses by.

    python docs/ccl_costs.py         # simulates all groups again: an hour of CPU time
    python docs/ccl_costs.py --fit   # fits the times that come with the package

The times are those of `GROUPS`, and the rows of more than 8 ranks in the table of all-reduces (`ccl_tables.py` simulates them).
Weights minimise the mean and the largest relative error of each algorithm over all its times. What is left of the errors is
written beside the times: the tuner corrects its estimates by them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np
from ccl_tables import ALGORITHMS, RUNS, TABLE
from scipy.optimize import linprog

from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.measure import queues_of
from kernbench.ccl.registry import read_registry
from kernbench.ccl.tuner import KNOWN, SCHEMA, Tuner, simulate
from kernbench.config import SystemConfig, load_config

WEIGHTS = Path(__file__).parents[1] / "kernbench" / "ccl" / "weights.py"
KIB = 1 << 10
FEW: tuple[int, ...] = (64, KIB, 8 * KIB, 64 * KIB, 512 * KIB)
MANY = tuple(sorted((*FEW, 256, 2 * KIB, 16 * KIB, 32 * KIB, 256 * KIB)))
FAR: tuple[int, ...] = (64, KIB, 16 * KIB, 128 * KIB, KIB**2)
#: Two algorithms each, whose times are a line in the size or do not depend on it: fewer sizes are enough.
IN_A_CUBE = {name: FEW if name in ("send_recv", "barrier") else MANY for name in COLLECTIVES}
OVER_SIPS = {name: FAR for name in COLLECTIVES if name not in ("send_recv", "barrier", "all_to_all")}
MOVING = tuple(name for name in COLLECTIVES if name not in ("send_recv", "barrier"))
OVER_CUBES = dict.fromkeys(MOVING, (64, KIB, 16 * KIB, 128 * KIB))
OVER_PODS = dict.fromkeys(("all_reduce", "all_gather", "reduce_scatter", "broadcast"), (KIB,))
MOST_MESSAGES = 10_000  #: a size with more takes too long to simulate
#: Machine, ranks, and the sizes [B] of each collective.
GROUPS: tuple[tuple[str, int, dict[str, tuple[int, ...]]], ...] = (
    *(("single_cube", ranks, IN_A_CUBE) for ranks in (2, 3, 5, 8)),
    ("two_sips", 16, OVER_SIPS),
    ("single_cube", 4, dict.fromkeys(MOVING, FEW)),
    *(("sip_4x4", ranks, OVER_CUBES) for ranks in (16, 32, 64)),
    ("pod_8sip", 256, OVER_PODS),
)
DIGITS = (1, 3, 2, 3, 2)  #: of the weights, as they are written
LARGEST = 0.5  #: weight of the largest error beside the mean


def simulated() -> list[dict[str, object]]:
    """The times of all groups."""
    found: list[dict[str, object]] = []
    for machine, ranks, sizes_of in GROUPS:
        config = load_config(machine, kind=SystemConfig)
        group = group_of(config, shape_for(config, ranks))
        tuner = Tuner(config, group, read_registry())
        for collective, sizes in sizes_of.items():
            for _ in simulate(tuner, collective, sizes, "f16", MOST_MESSAGES):
                pass
        about = {"machine": machine, "digest": config.digest(), "shape": list(group.shape), "topology": group.kind_name}
        found.append({**about, "times": dict(tuner.times)})
    return found


def tabled() -> Iterator[dict[str, object]]:
    """The rows of the table of all-reduces on more ranks than one cube has."""
    machines = {ranks: machine for machine, ranks, *_ in RUNS}
    for line in TABLE.read_text(encoding="utf-8").splitlines()[2:]:
        ranks, size, *times = (cell.strip(" *").replace(",", "") for cell in line.strip("|").split("|"))
        if int(ranks) > 8:
            config = load_config(machines[int(ranks)], kind=SystemConfig)
            cycles = {  # of microseconds
                f"all_reduce_{name}": [(int(size), float(time) * 1e3 * float(config.freq_ghz))]
                for name, time in zip(ALGORITHMS, times, strict=False)
                if time != "-"
            }
            yield {"machine": machines[int(ranks)], "shape": list(shape_for(config, int(ranks))), "times": cycles}


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


Rows = list[tuple[tuple[float, ...], float]]
Points = dict[str, dict[int, dict[int, list[tuple[tuple[float, ...], float]]]]]  #: by algorithm, ranks and bytes


def rows_of(groups: Iterable[dict[str, object]]) -> dict[str, Rows]:
    """By algorithm: what the model sees of each time, and the time."""
    return {
        name: [one for sizes in of_ranks.values() for some in sizes.values() for one in some]
        for name, of_ranks in points_of(groups).items()
    }


def points_of(groups: Iterable[dict[str, object]]) -> Points:
    """The same, by ranks and bytes."""
    registry, rows = read_registry(), Points()
    entries = {one.full_name: one for one in registry.entries}
    for one in groups:
        config = load_config(str(one["machine"]), kind=SystemConfig)
        tuner = Tuner(config, group_of(config, shape_for(config, int(np.prod(one["shape"])))), registry)  # type: ignore[call-overload]
        for name, times in one["times"].items():  # type: ignore[attr-defined]
            outline, queues = tuner.outline(entries[name]), queues_of(registry, entries[name])
            assert outline is not None, name
            for nbytes, cycles in times:
                features = outline.features(nbytes, 2, queues.slot_bytes or 0, tuner.latencies.link)
                of_ranks = rows.setdefault(name, {}).setdefault(tuner.group.size, {})
                of_ranks.setdefault(nbytes, []).append((features, cycles))
    return rows


def errors(points: Points, found: dict[str, np.ndarray]) -> dict[str, list[object]]:
    """By algorithm, ranks and bytes: simulated over estimated cycles, the geometric mean of several groups."""
    return {
        name: [
            [
                ranks,
                [
                    [max(1, nbytes), round(float(np.exp(np.mean([np.log(c / np.dot(f, found[name])) for f, c in some]))), 4)]
                    for nbytes, some in sorted(sizes.items())
                ],
            ]
            for ranks, sizes in sorted(of_ranks.items())
        ]
        for name, of_ranks in sorted(points.items())
    }


def weights(rows: dict[str, Rows]) -> dict[str, np.ndarray]:
    """By algorithm."""
    return {
        name: fitted(np.array([one for one, _ in some]), np.array([cycles for _, cycles in some], float))
        for name, some in sorted(rows.items())
    }


def write(found: dict[str, np.ndarray]) -> None:
    """Put the weights into the module."""
    before, _, _ = WEIGHTS.read_text(encoding="utf-8").partition("FITTED: ")
    after = WEIGHTS.read_text(encoding="utf-8").partition("\n}\n")[2]
    lines = "".join(
        f'    "{name}": ({", ".join(f"{one:.{digits}f}" for one, digits in zip(w, DIGITS, strict=True))}),\n'
        for name, w in found.items()
    )
    WEIGHTS.write_text(f"{before}FITTED: Mapping[str, Weights] = {{\n{lines}}}\n{after}", encoding="utf-8")


if __name__ == "__main__":
    if sys.argv[1:] == ["--fit"]:
        groups = json.loads(KNOWN.read_text(encoding="utf-8"))["groups"]
    else:
        groups = simulated()
    points = points_of([*groups, *tabled()])
    made = weights(rows_of([*groups, *tabled()]))
    write(made)
    made = {name: np.array([np.round(w, digits) for w, digits in zip(one, DIGITS, strict=True)]) for name, one in made.items()}
    KNOWN.write_text(json.dumps({"schema": SCHEMA, "groups": groups, "errors": errors(points, made)}) + "\n", encoding="utf-8")
