"""Writes runs of collectives as Chakra execution traces, with one collective node per rank and run.

A node also records how the run was made.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from math import ceil
from pathlib import Path
from typing import Any

from kernbench.ccl.collectives import CCL_DTYPES, COLLECTIVES
from kernbench.ccl.imports.chakra import COLLECTIVE_NAMES, MAX_RANKS, Node, Trace, write_chakra
from kernbench.ccl.measure import CclRequest, Row, resolved
from kernbench.ccl.reduction import OPERATIONS, Reduction
from kernbench.ccl.registry import TIERS, Registry, read_registry
from kernbench.common.dtypes import dtype_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.files import make_folder, not_read, write_whole
from kernbench.config.system.parts import PROTOCOLS

MAX_NODES = 1 << 20  # most nodes of all ranks
MAX_QUEUE = 1 << 40  # number of slots, and bytes of one slot, as in the machine file
PREFIX = "kernbench_"  #: the prefix of our attributes, which other readers skip
FIRST = PREFIX + "algorithm"


@dataclass(frozen=True)
class Manner:
    """How a collective was run, in fields that the Chakra format itself does not have."""

    algorithm: str
    dtype: str
    redop: str
    slots: int
    slot_bytes: int
    tier: str
    protocol: str = "simple"  #: written if it is another one

    def __str__(self) -> str:
        said = f"{self.algorithm} of {self.dtype}, {self.redop}, {self.slots} slots of {self.slot_bytes} bytes in {self.tier}"
        return said if self.protocol == "simple" else f"{said}, {self.protocol}"


def manner_of(trace: Trace, node: Node, collective: str, registry: Registry) -> Manner | None:
    """Return how the collective of a node was run, or None if the trace is from another tool.

    Raises InputError for values that do not exist.
    """
    if FIRST not in node.attributes:
        return None
    algorithms = [one.name for one in registry.entries if one.collective == collective]
    texts = {"algorithm": algorithms, "dtype": CCL_DTYPES, "redop": tuple(OPERATIONS), "tier": TIERS}
    found: dict[str, Any] = {}
    for name, there in texts.items():
        value = node.attributes.get(PREFIX + name)
        if value not in there:
            raise trace.error(node, PREFIX + name, f"it must be one of {', '.join(there)}", "" if value is None else value)
        found[name] = value
    if PREFIX + "protocol" in node.attributes:
        found["protocol"] = node.attributes[PREFIX + "protocol"]
        if found["protocol"] not in PROTOCOLS:
            raise trace.error(node, PREFIX + "protocol", f"it must be one of {', '.join(PROTOCOLS)}", found["protocol"])
    for name in ("slots", "slot_bytes"):
        found[name] = trace.natural(node, PREFIX + name, MAX_QUEUE)
    if COLLECTIVES[collective].reduces:
        Reduction(found["redop"]).check(trace.source, found["dtype"])
    return Manner(**found)


def check_recorded(folder: str | os.PathLike[str], runs: Sequence[tuple[CclRequest, int]]) -> None:
    """Raise InputError, before the runs, for runs that a trace cannot record so that a replay takes the same time.

    Each run has a number of sizes.
    """
    place = Path(folder)
    if os.path.exists(place) and not os.path.isdir(place):
        raise _refused(folder, "it must be a directory, and not a file")
    try:
        taken = os.path.isdir(place) and any(place.iterdir())
    except OSError as error:
        raise _refused(folder, not_read(error, "the directory")) from None
    if taken:
        raise _refused(
            folder, "the directory is not empty", "name a new directory, because all files of a directory belong to one trace"
        )
    ranks, rows = runs[0][0].group.size, sum(sizes for _, sizes in runs)
    if ranks > MAX_RANKS:
        raise _refused(folder, f"the trace would have {ranks:,} ranks, and at most {MAX_RANKS:,} are allowed")
    if ranks * rows > MAX_NODES:
        rule = f"the trace would have {ranks * rows:,} nodes, and at most {MAX_NODES:,} are allowed"
        raise _refused(folder, rule, "take fewer sizes or ranks")
    ours = read_registry().entries
    for request, _ in runs:
        entry = request.entry
        if entry.collective not in COLLECTIVE_NAMES:
            raise _refused(folder, f"the format has no {entry.collective}; it has {', '.join(dict.fromkeys(COLLECTIVE_NAMES))}")
        if entry not in ours and (entry.registry is None or not set(entry.registry.entries) <= set(ours)):
            rule = f"a replay has only the algorithms of kernbench, and {entry.full_name} is an algorithm from a file"
            raise _refused(folder, rule, "leave out --msccl and --ccl")
        if request.in_place:
            raise _refused(folder, "the trace format has no field for results in place", "leave out --in-place")
        if request.warmup or request.iters != 1:
            rule = "the time of several launches is a mean, and a replay runs each collective once"
            raise _refused(folder, rule, "leave out -w and --iters")


def _refused(folder: str | os.PathLike[str], rule: str, remedy: str = "") -> InputError:
    return InputError(Problem("kbsim ccl run", rule, "--chakra", os.fspath(folder), remedy))


def record(folder: str | os.PathLike[str], rows: Sequence[tuple[CclRequest, Row]]) -> None:
    """Write the trace `COLLECTIVE.RANK.et` for each rank. Each run waits for the run before it.

    Raises InputError if that is not possible.
    """
    request = rows[0][0]
    nodes = list(_nodes(rows))
    data = write_chakra(nodes)  # all ranks do the same
    make_folder(folder)
    for rank in range(request.group.size):
        write_whole(Path(folder) / f"{request.entry.collective}.{rank}.et", data)


def _nodes(rows: Sequence[tuple[CclRequest, Row]]) -> Iterator[Node]:
    for number, (given, row) in enumerate(rows, 1):
        request = resolved(given, max(1, row.count))
        collective, queues = COLLECTIVES[request.entry.collective], request.queues
        size = collective.has(row.count, request.group.size) * (dtype_of(request.dtype).bits // 8)
        assert queues.slots is not None and queues.slot_bytes is not None and queues.tier is not None
        sizes = (queues.slots, queues.slot_bytes, queues.tier, queues.protocol or "simple")
        manner = asdict(Manner(request.entry.name, request.dtype, request.redop, *sizes))
        if manner["protocol"] == "simple":
            del manner["protocol"]
        attributes = {
            "is_cpu_op": False,
            "comm_type": COLLECTIVE_NAMES.index(collective.name),
            "comm_size": size,
            **({"root_rank": request.root} if collective.rooted else {}),
            **{PREFIX + name: value for name, value in manner.items()},
            PREFIX + "cycles": row.cycles,
        }
        after = (number - 1,) if number > 1 else ()
        name = f"{request.entry.full_name} {size} B"
        yield Node(number, "COMM_COLL_NODE", name, data=after, micros=ceil(row.time_us), attributes=attributes)
