"""Makes the table of all-reduce algorithms in `reference/ccl.md`: times by ranks and sizes. Some minutes of CPU time.

    python docs/ccl_tables.py
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.measure import Asked, queues_of, row
from kernbench.ccl.registry import read_registry
from kernbench.config import load_config

TABLE = Path(__file__).parent / "reference" / "ccl_table.inc"
ALGORITHMS = ("ring", "bidirectional", "halving_doubling", "torus", "hierarchical")
SIZES = (1 << 10, 1 << 14, 1 << 17, 1 << 20)
#: Machine, ranks, and the sizes and algorithms that are run: a long ring of many ranks takes many messages.
RUNS = (
    ("single_cube", 8, SIZES, ALGORITHMS),
    ("two_sips", 64, SIZES[:3], ALGORITHMS),
    ("sip_4x4", 128, SIZES[:2], ("halving_doubling", "torus", "hierarchical")),
    ("pod_8sip", 1024, SIZES[:2], ("halving_doubling", "hierarchical")),
)


def cells(machine: str, ranks: int, size: int, algorithms: tuple[str, ...]) -> list[str]:
    """The times [us] of a row, the shortest one marked; `-` where nothing is run."""
    registry, config = read_registry(), load_config(machine)
    group = group_of(config, shape_for(config, ranks))
    times = {}
    for name in algorithms:
        entry = registry.find("all_reduce", name)
        found, _ = row(Asked(config, group, entry, "f16", queues_of(registry, entry), check=False), size // 2)
        assert found is not None
        times[name] = found.time_us
    best = min(times, key=lambda name: times[name])
    return [f"**{times[name]:.2f}**" if name == best else f"{times[name]:.2f}" if name in times else "-" for name in ALGORITHMS]


def table() -> Iterator[str]:
    """The lines of the table as MyST text."""
    yield "| ranks | size [B] | " + " | ".join(ALGORITHMS) + " |"
    yield "|--:" * (len(ALGORITHMS) + 2) + "|"
    for machine, ranks, sizes, algorithms in RUNS:
        for size in sizes:
            yield f"| {ranks:,} | {size:,} | {' | '.join(cells(machine, ranks, size, algorithms))} |"


if __name__ == "__main__":
    with TABLE.open("w", encoding="utf-8") as file:
        for line in table():
            print(line, file=file, flush=True)
