"""A search for the best division of a layer that is lowered part by part, by simulated cycles.

Where experts are loaded ahead of the router, the weights that fit the scratchpad are loaded while the mixer runs. DRAM is idle
from then on until the PEs have added up the output of the mixer. So a larger ring of weights saves time, and so do sums that
run beside other work. Both need room that other buffers then lack, and jobs that wait for room cost more than they save. Small
messages and small transfers take longer than their share. The best division depends on the machine.

In a layer without experts, tensor engines wait for sums over PEs. Parts with products of their own go on as soon as their own
sum is there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

from kernbench.workloads.blocks.batch import QUERY_TOKENS
from kernbench.workloads.blocks.division import EXPERT_PARTS, Blocks
from kernbench.workloads.blocks.shape import BlockShape
from kernbench.workloads.models.parts import Experts, LatentAttention, Mlp

RINGS = 7, 6, 5  #: eighths of the scratchpad that hold weights which are loaded ahead, most first
EXTRAS = 5, 4, 3, 2, 1  #: further eighths of the scratchpad that hold weights from the network on, most first
SLICES = 4, 8  #: slices of columns of a network's output
PART_ROWS = QUERY_TOKENS  #: [token] of a part of a block, at most
FEWER_ROWS = 64, 48, 32  #: [token] of smaller parts: sums begin earlier, but have more messages
LOADS = 1  #: loads of weights in progress while the first weights of the mixer are loaded, and in a layer of small parts
AHEAD = 2  #: parts whose scores run ahead
TILES = 3, 4, 6  #: tiles of weights that are in progress: transfers of slices are small
HALVED = 2, 3, 4  #: how often the last slice is cut in half
#: [token] of a part that has products of its own: small parts are added up soon, but have more messages
PRODUCT_ROWS = PART_ROWS, 96, 64, 48, 32
HALVES_RINGS = 5, 4, 3, 2  #: eighths of the scratchpad that hold weights of experts, if rows are in halves; most first
#: 64ths of the experts that are loaded for each half of the rows: the other half needs them as long as it is in the mixer
TWICE = range(4, 33, 2)
HOPELESS = 1.1  #: with another number of experts that are loaded twice, halves do not save this much
HALF_RINGS = 4, 5  #: eighths of the scratchpad that hold the weights of these parts


def tried_blocks(
    blocks: Blocks, shape: BlockShape, cycles: Callable[[Blocks], int | None], *, parts: bool,
    room: Callable[[], int] = lambda: EXTRAS[0],
) -> Iterator[tuple[Blocks, int | None]]:  # fmt: skip
    """The divisions that are compared, with their cycles, beginning with `blocks`: one value after another is kept if it saves
    cycles. The cycles are None for a division that does not fit.

    `cycles`: of a layer with some blocks; None if they do not fit. `parts`: whether sums over PEs can have parts of the rows.
    `room`: the further eighths for weights for which the last blocks had room; those with more are not tried.
    """
    best, least = blocks, cycles(blocks)
    assert least is not None, "the blocks to begin with fit"
    yield best, least
    for kind in _kinds(shape, parts=parts):
        most = EXTRAS[0]
        for value in kind(best):
            tried = replace(best, **value)
            if tried == best or value.get("extra", 0) > most:
                continue
            found = cycles(tried)
            yield tried, found
            if found is None:
                most = room()
                continue
            if found >= least:
                break
            best, least = tried, found


def tried_halves(
    rows: int, whole: int, cycles: Callable[[Blocks], int | None], experts: int = EXPERT_PARTS
) -> Iterator[tuple[Blocks, int | None]]:
    """The divisions of layers with their rows in halves that are compared, with their cycles; None for those that do not fit.

    `rows`: [token] of a half, at most. `whole`: [cycle] without halves; if the first division with halves that fits is much
    slower, others are not tried. The largest ring of weights that fits is used. More experts are loaded twice until that costs
    cycles. `experts`: of a PE; of values with the same number of experts, only the first one is tried.
    """
    known = {TWICE[0] * experts // EXPERT_PARTS}
    best, least = Blocks(rows), None
    for ring in HALVES_RINGS:
        best = Blocks(rows, ring, loads=LOADS, twice=TWICE[0])
        least = cycles(best)
        yield best, least
        if least is not None:
            break
    if least is None or least > HOPELESS * whole:
        return
    for twice in TWICE[1:]:
        if (some := twice * experts // EXPERT_PARTS) in known:
            continue
        known.add(some)
        tried = replace(best, twice=twice)
        found = cycles(tried)
        yield tried, found
        if found is None or found >= least:
            break
        best, least = tried, found
    for twice in (best.twice - 1, best.twice + 1):
        if twice * experts // EXPERT_PARTS in known:
            continue
        tried = replace(best, twice=twice)
        yield tried, cycles(tried)


Kind = Callable[[Blocks], list[dict[str, int]]]  #: from the best division to values: those that fit, until one costs cycles


def _kinds(shape: BlockShape, *, parts: bool) -> Iterator[Kind]:
    """The kinds of values, in the order in which they are tried."""
    block = shape.block
    if parts:
        yield lambda _: [{"part_rows": PART_ROWS}]
        yield lambda best: [{"part_rows": rows} for rows in FEWER_ROWS if best.part_rows and isinstance(block.ffn, Experts)]
    if parts and isinstance(block.ffn, Mlp):
        for ring in HALF_RINGS:
            yield partial(_with_products, ring=ring)
    if parts and isinstance(block.mixer, LatentAttention) and block.mixer.q_rank:
        yield lambda _: [{"shares_latents": 1}]
    if parts and isinstance(block.ffn, Experts):
        yield lambda best: [{"ahead": AHEAD}] if best.part_rows else []
    if isinstance(block.ffn, Experts):
        yield lambda _: [{"ring": ring} for ring in RINGS]
        yield lambda _: [{"extra": some} for some in EXTRAS]
        yield lambda best: [{"ring": best.ring - 1, "extra": some} for some in EXTRAS if best.ring in RINGS]
    if parts:
        yield lambda best: [{"slices": some} for some in SLICES if not _is_in_parts(best, shape)]
        yield lambda best: [{"halved": times} for times in HALVED if best.slices and not _is_in_parts(best, shape)]
    if parts and isinstance(block.ffn, Experts):
        yield lambda best: [{"loads": LOADS}] if best.part_rows else []
        yield lambda best: [{"part_router": 1}] if best.part_rows else []
        yield lambda _: [{"tiles": some} for some in TILES]
        # values that other values have made better
        yield lambda best: [{"ahead": AHEAD}] if best.part_rows else []
        yield lambda best: [{"part_rows": rows} for rows in FEWER_ROWS if rows < best.part_rows]
        yield lambda best: [{"halved": best.halved + 1}] if HALVED[0] <= best.halved < HALVED[-1] else []
        yield lambda best: [{"slices": SLICES[0], "halved": HALVED[-1]}] if best.slices > SLICES[0] else []
        yield lambda best: [{"ring": best.ring + 1, "extra": 0}] if best.extra else []


def _is_in_parts(best: Blocks, shape: BlockShape) -> bool:
    """Whether the outputs of the network are added up in parts of the rows."""
    return best.part_products > 0 and isinstance(shape.block.ffn, Mlp)


def _with_products(best: Blocks, *, ring: int) -> list[dict[str, int]]:
    """Parts with products of their own, beginning with the largest ones, or with those of the best division."""
    most = best.part_rows if best.part_products else PART_ROWS
    how = {"ring": ring, "part_products": 1, "loads": LOADS}
    return [{**how, "part_rows": rows} for rows in PRODUCT_ROWS if rows <= most]
