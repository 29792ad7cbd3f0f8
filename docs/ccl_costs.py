"""Fits the weights of the tuner's cost model, and writes the simulated times of groups that it chooses by.

    python docs/ccl_costs.py         # simulates all groups again: an hour of CPU time
    python docs/ccl_costs.py --fit   # fits the times that come with the package
    python docs/ccl_costs.py --switch   # simulates only the algorithms that use switches again
    python docs/ccl_costs.py --boards   # simulates only the boards again
    python docs/ccl_costs.py --networks   # simulates only the networks between SIPs again

The times are those of `GROUPS`, and the rows of more than 8 ranks in the table of all-reduces (`ccl_tables.py` simulates them).
Weights minimise the mean relative error of each algorithm over all its times, those of `NETWORKS` included. What is left of the
error is written beside each time: the tuner corrects its estimates by it. The times of `BOARDS` correct estimates for groups of
chips only. They do not change the weights, and the estimates for other machines do not depend on them.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from ccl_tables import ALGORITHMS, RUNS, TABLE
from scipy.optimize import linprog

from kernbench.ccl.contract import Shape
from kernbench.ccl.group import Group, group_of, shape_for
from kernbench.ccl.registry import read_registry
from kernbench.ccl.tuner import KNOWN, SCHEMA, Tuner, simulate
from kernbench.ccl.weights import FITTED
from kernbench.config import SystemConfig, load_config

WEIGHTS = Path(__file__).parents[1] / "kernbench" / "ccl" / "weights.py"
KIB, MIB = 1 << 10, 1 << 20
FEW = (64, KIB, 4 * KIB, 16 * KIB, 64 * KIB, 256 * KIB)
SOME = tuple(sorted((*FEW, 32 * KIB, MIB)))
MANY = tuple(sorted((*SOME, 256, 8 * KIB, 128 * KIB, 4 * MIB)))
ALL = tuple(sorted((*MANY, 512 * KIB, 16 * MIB)))
MOVING = ("all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "all_to_all")
OTHER = ("gather", "scatter", "send_recv", "barrier")
MAX_MESSAGES = 40_000  #: a size with more takes too long to simulate
#: An algorithm is not simulated where its estimate is so many times the lowest one; more for several SIPs, where the model is
#: further off.
WITHIN, WITHIN_SIPS = 2.0, 4.0
TORUS, MESH = ("system.kind=torus", "system.rows=2"), ("system.kind=mesh", "system.rows=2")
#: Machine, overrides, shape, sizes [B], and collectives. The file also has times of some other sizes.
GROUPS: tuple[tuple[str, tuple[str, ...], tuple[int, int, int], tuple[int, ...], tuple[str, ...]], ...] = (
    *(("single_cube", (), (1, 1, ranks), ALL, MOVING) for ranks in range(2, 9)),
    *(("sip_4x4", (), (1, cubes, 8), MANY, MOVING) for cubes in (2, 4)),
    ("sip_4x4", (), (1, 6, 8), (256, 4 * KIB, 8 * KIB, 64 * KIB), MOVING[:5]),
    ("sip_4x4", (), (1, 8, 8), SOME, MOVING),
    ("two_sips", (), (1, 2, 6), (256, 4 * KIB, 16 * KIB, 64 * KIB), MOVING),
    ("two_sips", (), (1, 2, 8), FEW, MOVING[:5]),
    ("sip_4x4", (), (1, 16, 8), (256, 2 * KIB, 8 * KIB, 64 * KIB), MOVING[:5]),
    ("two_sips", (), (2, 4, 8), (256, 4 * KIB, 64 * KIB), MOVING[:5]),
    ("pod_8sip", (), (8, 1, 1), (*FEW, MIB), MOVING),
    ("pod_8sip", TORUS, (8, 1, 2), FEW, MOVING),
    ("pod_8sip", MESH, (8, 1, 4), (128, KIB, 4 * KIB, 16 * KIB, 64 * KIB), MOVING[:5]),
    ("pod_8sip", (), (2, 16, 8), (256, KIB, 4 * KIB, 32 * KIB), MOVING[:4]),
)
SWITCH = ("system.kind=switch", "system.switch.reduce=true")
#: Machine, overrides, shape and sizes of groups in which only the algorithm `switch` is simulated.
SWITCHED = (
    ("pod_8sip", SWITCH, (8, 1, 1), (*FEW, MIB)),
    ("pod_8sip", (*SWITCH, "system.sips=4"), (4, 1, 1), (*FEW, MIB)),
    ("pod_8sip", (*SWITCH, "system.sips=4", "system.link.cycles=2000"), (4, 1, 1), (256, 4 * KIB, 64 * KIB, 512 * KIB)),
    ("pod_8sip", SWITCH, (8, 1, 4), (256, 4 * KIB, 64 * KIB, 512 * KIB)),
    ("pod_8sip", (*SWITCH, "system.sips=2"), (2, 2, 8), (256, 4 * KIB, 64 * KIB)),
)
#: Boards and their ranks. Each rank is a chip, whose queues have other sizes (`kernbench/ccl/queue_sizes.py`).
BOARDS = (
    *((name, ranks) for name in ("a100_8x", "h100_8x", "h200_8x", "b200_8x", "mi300x_8x") for ranks in (8, 4, 2)),
    *((name, ranks) for name in ("tpuv5e_2x4", "tpuv6e_2x4") for ranks in (8, 4, 2)),
    ("wormhole_n300", 2),
)
ON_BOARDS = (4 * KIB, 32 * KIB, 64 * KIB, 256 * KIB, MIB, 2 * MIB, 4 * MIB, 8 * MIB, 16 * MIB, 64 * MIB)
#: More sizes of a board. The links of `b200_8x` are so fast that 64 MiB do not show which algorithm is best for longer vectors.
#: Over the slow links of the others, the lanes of algorithms begin at different sizes.
BETWEEN = (8 * KIB, 16 * KIB, 128 * KIB, 512 * KIB)
MORE = {"b200_8x": (256 * MIB,), "tpuv5e_2x4": BETWEEN, "tpuv6e_2x4": BETWEEN, "wormhole_n300": BETWEEN}
ROWS = "system.rows=2"
RING_AND_SWITCH = (
    "system.kind=dimensions",
    "system.dimensions=[{kind: ring, size: 4, link: {bytes_per_cycle: 100, cycles: 50}}, "
    "{kind: switch, size: 2, link: {bytes_per_cycle: 25, cycles: 300}, switch: {cycles: 70}}]",
)
BETWEEN_SIPS = (64, KIB, 4 * KIB, 16 * KIB, 48 * KIB, 160 * KIB, 512 * KIB, 2 * MIB, 8 * MIB, 32 * MIB)
#: Machine, overrides and shape of networks between SIPs, and of more groups of cubes.
NETWORKS = (
    *(
        ("pod_8sip", overrides, (8, 1, pes))
        for overrides in (
            ("system.kind=fat_tree", ROWS),
            ("system.kind=rails", ROWS),
            ("system.kind=switch",),
            RING_AND_SWITCH,
            ("system.kind=torus", ROWS),
        )
        for pes in (1, 4)
    ),
    ("pod_8sip", ("system.kind=mesh", ROWS), (8, 1, 1)),
    ("pod_8sip", ("system.kind=switch", "system.switch.reduce=true"), (8, 1, 4)),
    ("sip_4x4", (), (1, 8, 4)),
    ("two_sips", (), (1, 2, 3)),
    ("two_sips", (), (1, 4, 1)),
    ("two_sips", (), (1, 4, 4)),
)
BELOW_MIB = (64, 4 * KIB, 16 * KIB, 64 * KIB, 160 * KIB, 512 * KIB)
MIDDLE = (24 * KIB, 96 * KIB, 288 * KIB, MIB)
DENSE = tuple(sorted((*BETWEEN_SIPS, *MIDDLE)))
#: More of them, with sizes and collectives of their own.
MORE_NETWORKS: tuple[tuple[str, tuple[str, ...], tuple[int, int, int], tuple[int, ...], tuple[str, ...]], ...] = (
    ("pod_8sip", ("system.kind=dragonfly", ROWS), (8, 1, 1), DENSE, MOVING),
    ("pod_8sip", RING_AND_SWITCH, (8, 1, 2), DENSE, MOVING),
    ("sip_4x4", (), (1, 16, 8), (512 * KIB, 2 * MIB), ("broadcast", "reduce")),
    ("pod_8sip", ("system.kind=fat_tree", ROWS), (8, 1, 2), tuple(sorted((*BELOW_MIB, *MIDDLE, 2 * MIB))), MOVING[:5]),
)
DIGITS = (1, 3, 2, 3, 3, 2, 2)  #: of the weights, as they are written


PARTS = ("groups", "boards", "networks")  #: of the file of times

Simulated = dict[str, Any]  #: machine, overrides, digest, shape, topology, and times by algorithm


def about(machine: str, overrides: Sequence[str], shape: Shape) -> Simulated:
    """A group without times."""
    config = load_config(machine, overrides, kind=SystemConfig)
    topology = group_of(config, shape).kind_name
    named = {"machine": machine, "overrides": list(overrides), "digest": config.digest()}
    return {**named, "shape": list(shape), "topology": topology, "times": {}}


def tuner(one: Simulated) -> Tuner:
    """Of a group, without its times."""
    config = load_config(one["machine"], one["overrides"], kind=SystemConfig)
    return Tuner(config, group_of(config, Shape(*one.get("placed", one["shape"]))), read_registry())


def simulated() -> list[Simulated]:
    """The times of all groups, and of collectives whose times are a line in the size for 2 to 8 ranks."""
    found: list[Simulated] = []
    for machine, overrides, shape, sizes, collectives in GROUPS:
        one = about(machine, overrides, Shape(*shape))
        made, within = tuner(one), WITHIN_SIPS if shape[0] > 1 else WITHIN
        for collective in (*collectives, *(OTHER if machine == "single_cube" else ())):
            for _ in simulate(made, collective, sizes, "f16", MAX_MESSAGES, within):
                pass
        one["times"] = dict(made.times)
        found.append(one)
    return found


def simulated_in_switches() -> list[Simulated]:
    """The times of the algorithms that use switches."""
    found = []
    for machine, overrides, shape, sizes in SWITCHED:
        one = about(machine, overrides, Shape(*shape))
        made = tuner(one)
        made.registry = replace(made.registry, entries=tuple(some for some in made.registry.entries if some.through_switches))
        for collective in ("all_reduce", "all_gather", "reduce_scatter"):
            for _ in simulate(made, collective, sizes, "f16", MAX_MESSAGES):
                pass
        found.append({**one, "times": dict(made.times)})
    return found


def simulated_on_boards() -> list[Simulated]:
    """The times of boards, without algorithms that are far from the best."""
    found = []
    for machine, ranks in BOARDS:
        one, sizes = about(machine, (), Shape(ranks, 1, 1)), tuple(sorted((*ON_BOARDS, *MORE.get(machine, ()))))
        made = tuner(one)
        for collective in MOVING:
            for _ in simulate(made, collective, sizes, "f16", MAX_MESSAGES, WITHIN):
                pass
        found.append({**one, "times": dict(made.times)})
    return found


def simulated_on_networks() -> list[Simulated]:
    """The times of networks between SIPs, and of cubes, without algorithms that are far from the best."""
    found = []
    for machine, overrides, shape, sizes, collectives in (*((*one, BETWEEN_SIPS, MOVING) for one in NETWORKS), *MORE_NETWORKS):
        one = about(machine, overrides, Shape(*shape))
        made = tuner(one)
        for collective in collectives:
            for _ in simulate(made, collective, sizes, "f16", 30_000, 2.5):
                pass
        found.append({**one, **levels(made.group), "times": dict(made.times)})
    return found


def levels(group: Group) -> dict[str, list[int]]:
    """The shape of a group, and where its ranks are if rails give it another one."""
    return {"shape": list(group.shape), **({"placed": list(group.placed)} if group.placed else {})}


def tabled() -> Iterator[Simulated]:
    """The rows of the table of all-reduces on more ranks than one cube has."""
    machines = {ranks: machine for machine, ranks, *_ in RUNS}
    groups: dict[int, Simulated] = {}
    for line in TABLE.read_text(encoding="utf-8").splitlines()[2:]:
        ranks, size, *times = (cell.strip(" *").replace(",", "") for cell in line.strip("|").split("|"))
        if int(ranks) > 8:
            config = load_config(machines[int(ranks)], kind=SystemConfig)
            one = groups.setdefault(int(ranks), about(machines[int(ranks)], (), shape_for(config, int(ranks))))
            for name, time in zip(ALGORITHMS, times, strict=False):
                if time != "-":  # of microseconds
                    cycles = float(time) * 1e3 * float(config.freq_ghz)
                    one["times"].setdefault(f"all_reduce_{name}", []).append((int(size), round(cycles)))
    yield from groups.values()


def together(groups: Iterable[Simulated]) -> list[Simulated]:
    """Each group once, with the times of all; the first of two for one size."""
    found: dict[tuple[object, ...], Simulated] = {}
    for one in groups:
        key = one["digest"], tuple(one["shape"]), one["topology"]
        times = found.setdefault(key, {**one, "times": {}})["times"]
        for name, rows in one["times"].items():
            times[name] = sorted({**{row[0]: row[1] for row in rows}, **dict(times.get(name, ()))}.items())
    return list(found.values())


def fitted(features: np.ndarray, cycles: np.ndarray) -> np.ndarray:
    """Weights of at least 0 with the smallest mean relative error."""
    scaled = features / cycles[:, None]
    rows, columns = scaled.shape
    each, one = np.eye(rows), np.ones(rows)
    made = linprog(
        np.r_[np.zeros(columns), one / rows],
        A_ub=np.r_[np.c_[scaled, -each], np.c_[-scaled, -each]],
        b_ub=np.r_[one, -one],
        bounds=(0, None),
        method="highs",
    )
    return np.asarray(made.x[:columns])


Rows = list[tuple[tuple[float, ...], float]]


def features_of(one: Simulated) -> dict[str, tuple[str, Rows]]:
    """By algorithm: the name of its weights, and what the model sees of each time, and the time."""
    made, found = tuner(one), {}
    entries = {entry.full_name: entry for entry in made.registry.entries}
    for name, times in one["times"].items():
        outline, queues = made.outline(entries[name]), made.queues(entries[name])
        assert outline is not None, name
        slots, slot_bytes, link = queues.slots or 0, queues.slot_bytes or 0, made.latencies.link
        rows = [(outline.features(size, 2, slots, slot_bytes, link), cycles) for size, cycles in times]
        found[name] = name + outline.form, rows
    return found


def weights(rows: dict[str, Rows]) -> dict[str, np.ndarray]:
    """By algorithm, and by the form of an algorithm that has several."""
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


def with_errors(one: Simulated, seen: dict[str, tuple[str, Rows]], found: dict[str, np.ndarray]) -> Simulated:
    """The same with simulated over modelled cycles beside each time, and the share of `n_elem` in an algorithm's longest
    message.
    """
    made, entries = tuner(one), {entry.full_name: entry for entry in read_registry().entries}
    outlines = {name: made.outline(entries[name]) for name in sorted(one["times"])}
    widest = {name: outline.widest for name, outline in outlines.items() if outline is not None}
    times = {
        name: [
            [size, cycles, round(float(cycles / np.dot(features, found[seen[name][0]])), 4)]
            for (size, cycles), (features, _) in zip(given, seen[name][1], strict=True)
        ]
        for name, given in sorted(one["times"].items())
    }
    return {**one, "times": times, "widest": widest}


def kept(which: str = "groups") -> list[Simulated]:
    """The times that come with the package, of `groups`, `boards` or `networks`."""
    groups = json.loads(KNOWN.read_text(encoding="utf-8"))[which]
    return [{**one, "times": {name: [row[:2] for row in rows] for name, rows in one["times"].items()}} for one in groups]


def fit(groups: Sequence[Simulated], boards: Sequence[Simulated], networks: Sequence[Simulated]) -> None:
    """Write the weights, and the times with the errors that the model has then."""
    whole = together([*groups, *tabled()])
    features, on_networks = [features_of(one) for one in whole], [features_of(one) for one in networks]
    by_name: dict[str, Rows] = {}
    for some in (*features, *on_networks):
        for name, rows in some.values():
            by_name.setdefault(name, []).extend(rows)
    made = weights(by_name)
    write(made)
    made = {name: np.array([np.round(w, digits) for w, digits in zip(one, DIGITS, strict=True)]) for name, one in made.items()}
    named = [json.dumps(with_errors(one, rows, made)) for one, rows in zip(whole, features, strict=True)]
    there = [json.dumps(with_errors(one, features_of(one), made)) for one in boards]
    put(named, there, [json.dumps(with_errors(one, rows, made)) for one, rows in zip(networks, on_networks, strict=True)])


def put(groups: Sequence[str], boards: Sequence[str], networks: Sequence[str]) -> None:
    """Write the file of times, a group in a line."""
    parts = [f'"{name}": [\n' + ",\n".join(rows) + "\n]" for name, rows in zip(PARTS, (groups, boards, networks), strict=True)]
    KNOWN.write_text(f'{{"schema": "{SCHEMA}", ' + ", ".join(parts) + "}\n", encoding="utf-8")


def replace_networks() -> None:
    """Simulate the networks again, and leave the other times as they are."""
    weights_now = {name: np.array(one) for name, one in FITTED.items()}
    file = json.loads(KNOWN.read_text(encoding="utf-8"))
    made = [json.dumps(with_errors(one, features_of(one), weights_now)) for one in simulated_on_networks()]
    put(*([json.dumps(one) for one in file[name]] for name in PARTS[:2]), made)


if __name__ == "__main__":
    if sys.argv[1:] == ["--switch"]:
        fit([*kept(), *simulated_in_switches()], kept("boards"), kept("networks"))
    elif sys.argv[1:] == ["--boards"]:
        fit(kept(), simulated_on_boards(), kept("networks"))
    elif sys.argv[1:] == ["--networks"]:
        replace_networks()
    elif sys.argv[1:] == ["--fit"]:
        fit(kept(), kept("boards"), kept("networks"))
    else:
        fit([*simulated(), *simulated_in_switches()], simulated_on_boards(), simulated_on_networks())
