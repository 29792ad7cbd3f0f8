"""MSCCL XML: the algorithms of Microsoft's MSCCL, which its executor runs in NCCL and RCCL.

The rules are the rules of the interpreter in these libraries. A thread block executes its steps in order, first for one part
of every chunk, then for the next part. The attributes `depid` and `deps` name a step of the same rank that must end first.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

from kernbench.ccl.imports.program import Block, Program, ProgramEntry, Ref, Step, check, entry_of
from kernbench.config.xml_text import Element, read_xml

#: Names of collectives: ours.
COLLECTIVE_NAMES = {
    "allreduce": "all_reduce",
    "allgather": "all_gather",
    "reducescatter": "reduce_scatter",
    "reduce_scatter": "reduce_scatter",
    "alltoall": "all_to_all",
    "broadcast": "broadcast",
    "reduce": "reduce",
}
TYPES = ("s", "r", "cpy", "re", "rcs", "rrc", "rrs", "rrcs", "nop")
REDUCTIONS = ("sum", "prod", "max", "min")
NO_OP = "nop"  #: `redop` of an algorithm for which no reduction is set
MAX_RANKS, MAX_CHUNKS, MAX_STEPS = 4096, 1 << 16, 1 << 20


def read_msccl(path: str | os.PathLike[str]) -> ProgramEntry:
    """Read the algorithm of a file.

    Raises
    ------
    InputError
        If the file is not valid, if steps wait for each other, or if the algorithm does not compute its collective. The message
        names the line and the rule.
    """
    root = read_xml(path)
    if root.tag != "algo":
        raise root.problem("the first element of an MSCCL algorithm is <algo>")
    program = _schedule(root)
    check(program)
    return entry_of(program, "msccl")


def _schedule(root: Element) -> Program:
    root.only("gpu")
    name = root.choice("coll", tuple(COLLECTIVE_NAMES))
    ranks = root.integer("ngpus", 2, MAX_RANKS)
    chunks = root.integer("nchunksperloop", 1, MAX_CHUNKS)
    in_place, out_of_place = (root.integer(key, 0, 1, usual) == 1 for key, usual in (("inplace", 0), ("outofplace", 1)))
    made = Program(
        name=root.text("name", "unnamed"),
        source=root.source,
        collective=COLLECTIVE_NAMES[name],
        chunks=chunks,
        in_place=in_place and (not out_of_place or "outofplace" not in root.attributes),
        ranks=((),) * ranks,
        scratch=max((gpu.integer("s_chunks", 0, MAX_CHUNKS, 0) for gpu in root.of("gpu")), default=0),
    )
    if (made.rules.blocks_in or made.rules.blocks_out) and chunks % ranks:
        raise root.problem(f"it must be a multiple of {ranks}, the number of gpus", "nchunksperloop", str(chunks))
    if in_place and not made.rules.in_place:
        raise root.problem(f"elements and results of {name} cannot share memory", "inplace", "1")
    redop = root.choice("redop", (*REDUCTIONS, NO_OP), NO_OP)
    gpus: dict[int, Element] = {}
    for gpu in root.of("gpu"):
        number = gpu.integer("id", 0, ranks - 1)
        if number in gpus:
            raise gpu.problem(f"gpu {number} is there already, in line {gpus[number].line}", "id", str(number))
        gpus[number] = gpu
    missing = next((number for number in range(ranks) if number not in gpus), None)
    if missing is not None:
        raise root.problem(f"there is no gpu {missing}, and ngpus is {ranks}")
    found = tuple(tuple(_blocks(made, gpus[number], number, ranks)) for number in range(ranks))
    _check_pairs(root, found)
    return replace(made, ranks=found, redop=None if redop == NO_OP else redop)


def _blocks(made: Program, gpu: Element, rank: int, ranks: int) -> Iterator[Block]:
    """Return the thread blocks of a rank, in numeric order."""
    gpu.only("tb")
    has, gets = made.sizes()
    limits = {"i": has, "o": gets, "s": gpu.integer("s_chunks", 0, MAX_CHUNKS, 0)}
    blocks = list(gpu.of("tb"))
    by_number: dict[int, Element] = {}
    for tb in blocks:
        number = tb.integer("id", 0, len(blocks) - 1)
        if number in by_number:
            raise tb.problem(f"thread block {number} of gpu {rank} is there already, in line {by_number[number].line}", "id")
        by_number[number] = tb
    ordered = [by_number[number] for number in range(len(blocks))]
    lengths = [len(tb.children) for tb in ordered]
    if sum(lengths) > MAX_STEPS:
        raise gpu.problem(f"it has {sum(lengths):,} steps, but at most {MAX_STEPS:,} are allowed")
    uses: dict[tuple[str, int, int], Element] = {}
    for number, tb in enumerate(ordered):
        tb.only("step")
        send, recv = (tb.integer(key, -1, ranks - 1) for key in ("send", "recv"))
        channel = tb.integer("chan", 0, 1 << 20)
        for key, peer in (("send", send), ("recv", recv)):
            if peer == rank:
                raise tb.problem(f"gpu {rank} cannot be its own peer", key, str(peer))
            if peer >= 0 and (first := uses.setdefault((key, peer, channel), tb)) is not tb:
                rule = f"the thread block in line {first.line} has the same {key}={peer} on channel {channel}"
                raise tb.problem(rule, key, str(peer))
        steps = tuple(_step(step, place, rank, (send, recv), limits, lengths) for place, step in enumerate(tb.children))
        yield Block(number, send, recv, channel, steps)


def _step(
    step: Element, place: int, rank: int, peers: tuple[int, int], limits: dict[str, int], lengths: list[int]
) -> Step:
    step.only()
    if step.integer("s", 0, MAX_STEPS, place) != place:
        raise step.problem(f"steps are numbered in their order, and this is number {place}", "s", step.text("s"))
    kind = step.choice("type", TYPES)
    made = Step(kind, None, None, 0, (), step.line)
    after: tuple[tuple[int, int], ...] = ()
    other, wanted = step.integer("depid", -1, 1 << 20, -1), step.integer("deps", -1, MAX_STEPS, -1)
    if other >= 0:
        if other >= len(lengths):
            raise step.problem(f"gpu {rank} has {len(lengths)} thread blocks", "depid", str(other))
        if not 0 <= wanted < lengths[other]:
            raise step.problem(f"thread block {other} has {lengths[other]} steps", "deps", str(wanted))
        after = ((other, wanted),)
    if kind == "nop":
        return Step(kind, None, None, 0, after, step.line)
    for key, peer, needed in (("send", peers[0], made.sends), ("recv", peers[1], made.receives)):
        if needed and peer < 0:
            raise step.problem(f"its thread block has no {key}", "type", kind)
    count = step.integer("cnt", 1, MAX_CHUNKS)
    source = _ref(step, "src", count, limits, rank) if made.reads else None
    target = _ref(step, "dst", count, limits, rank) if made.writes else None
    return Step(kind, source, target, count, after, step.line)


def _ref(step: Element, which: str, count: int, limits: dict[str, int], rank: int) -> Ref:
    buffer = step.choice(f"{which}buf", ("i", "o", "s"))
    first = step.integer(f"{which}off", 0, MAX_CHUNKS)
    if first + count > limits[buffer]:
        rule = f"chunks {first} to {first + count - 1} of {buffer} are used, and gpu {rank} has {limits[buffer]} of them"
        raise step.problem(rule, f"{which}off", str(first))
    return Ref(buffer, first)


def _check_pairs(root: Element, ranks: tuple[tuple[Block, ...], ...]) -> None:
    """Raise InputError if the chunks sent on a channel differ from the chunks received on it."""
    sent: dict[tuple[int, int, int], tuple[int, int]] = {}
    received: dict[tuple[int, int, int], tuple[int, int]] = {}
    for rank, blocks in enumerate(ranks):
        for block in blocks:
            for step in block.steps:
                for found, wanted, key in (
                    (sent, step.sends, (rank, block.send, block.channel)),
                    (received, step.receives, (block.recv, rank, block.channel)),
                ):
                    if wanted:
                        chunks, line = found.get(key, (0, step.line))
                        found[key] = chunks + step.count, line
    for key in sorted({*sent, *received}):
        source, target, channel = key
        out, back = sent.get(key, (0, 0)), received.get(key, (0, 0))
        if out[0] != back[0]:
            rule = f"gpu {source} sends {out[0]} chunks to gpu {target} on channel {channel}, which receives {back[0]}"
            line = out[1] or back[1]
            raise Element("algo", {}, root.source, line).problem(rule)
