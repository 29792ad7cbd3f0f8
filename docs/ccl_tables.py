"""Makes the table of all-reduce algorithms in `reference/ccl.md`: times by ranks and sizes.

    python docs/ccl_tables.py             # all rows: some minutes of CPU time
    python docs/ccl_tables.py 8 64        # the rows of so many ranks again; the others stay as they are
    python docs/ccl_tables.py 1024:16384  # one row, by ranks and bytes
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.measure import CclRequest, queues_of, row
from kernbench.ccl.registry import read_registry
from kernbench.config import load_config

TABLE = Path(__file__).parent / "reference" / "ccl_table.inc"
ALGORITHMS = ("ring", "bidirectional", "halving_doubling", "torus", "hierarchical")
#: A flat ring of 1,024 ranks takes two million messages and more: minutes each.
FEW_STEPS = ("halving_doubling", "torus", "hierarchical")
KIB, MIB = 1 << 10, 1 << 20
#: Machine, ranks, bytes a rank, and what is run: a ring of `n` ranks takes `2 n (n - 1)` messages and more.
RUNS = (
    *(("single_cube", 8, size, ALGORITHMS) for size in (KIB, 16 * KIB, 128 * KIB, MIB)),
    *(("two_sips", 64, size, ALGORITHMS) for size in (KIB, 16 * KIB, 128 * KIB, MIB)),
    *(("sip_4x4", 128, size, ALGORITHMS) for size in (KIB, 16 * KIB, 128 * KIB)),
    *(("pod_8sip", 256, size, ALGORITHMS) for size in (16 * KIB, 128 * KIB)),
    *(("pod_8sip", 1024, size, FEW_STEPS) for size in (KIB, 16 * KIB, 128 * KIB)),
)


def cells(machine: str, ranks: int, size: int, algorithms: tuple[str, ...]) -> list[str]:
    """The times [us] of a row, the shortest one marked, and what that asked of most; `-` where nothing is run."""
    registry, config = read_registry(), load_config(machine)
    group = group_of(config, shape_for(config, ranks))
    times, busiest = {}, {}
    for name in algorithms:
        entry = registry.find("all_reduce", name)
        found, _ = row(CclRequest(config, group, entry, "f16", queues_of(registry, entry), check=False), size // 2)
        assert found is not None
        times[name], busiest[name] = found.time_us, f"{kind_of(found.bound)}, {found.bound_share:.0%}"
    best = min(times, key=lambda name: times[name])
    texts = {name: f"{time:.2f}" for name, time in times.items()}
    texts[best] = f"**{texts[best]}**"
    return [*(texts.get(name, "-") for name in ALGORITHMS), busiest[best]]


def kind_of(bound: str) -> str:
    """What a resource is, by its name."""
    kinds = {" ve": "vector engine", "pe_dma": "PE's link", "hbm_ctrl": "HBM channel", "ucie": "UCIe"}
    kinds |= {"io_noc": "link between SIPs"}
    return next((kind for part, kind in kinds.items() if part in bound), "mesh link")


def wanted(arguments: Sequence[str], ranks: int, size: int) -> bool:
    """Whether a row is to be run: all are, where no one says which."""
    return not arguments or str(ranks) in arguments or f"{ranks}:{size}" in arguments


def known() -> dict[str, str]:
    """The rows that there are, by their first two columns."""
    lines = TABLE.read_text(encoding="utf-8").splitlines() if TABLE.exists() else []
    return {"|".join(line.split("|")[1:3]): line for line in lines}


def table(arguments: Sequence[str]) -> Iterator[str]:
    """The lines of the table as MyST text; a row that is neither wanted nor known is left out."""
    yield "| ranks | size [B] | " + " | ".join(ALGORITHMS) + " | busiest in the shortest |"
    yield "|--:" * (len(ALGORITHMS) + 2) + "|---|"
    before = known()
    for machine, ranks, size, algorithms in RUNS:
        key = f" {ranks:,} | {size:,} "
        if wanted(arguments, ranks, size):
            yield f"|{key}| {' | '.join(cells(machine, ranks, size, algorithms))} |"
        elif key in before:
            yield before[key]


if __name__ == "__main__":
    made = "".join(f"{line}\n" for line in table(sys.argv[1:]))
    TABLE.write_text(made, encoding="utf-8")
