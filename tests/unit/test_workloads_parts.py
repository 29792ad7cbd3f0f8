"""The parts of the workload lowering, each against something obvious: hazards, places, DRAM layouts, KV tiles, refusals."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench.cmdq import check_program
from kernbench.cmdq.footprint import flat_address
from kernbench.common.errors import InputError, InternalError
from kernbench.config import load_config
from kernbench.workloads import LLAMA_2_7B, decoder_layer
from kernbench.workloads.hazards import BUCKET_BITS, Hazards
from kernbench.workloads.layer.buffers import STAGES, LayerBuffers
from kernbench.workloads.layer.dram import ActivationLayout, DramMap, Span, WeightLayout
from kernbench.workloads.layer.kv import KvCache, KvTile, kv_layout_for, kv_tiles, slot_bytes
from kernbench.workloads.models import Matrix, ModelShape
from kernbench.workloads.planner import _choices, _levels
from kernbench.workloads.scratchpad import Buffer, BufferSpec, DoesNotFit, Ring, ScratchpadPlan, bank_and_offset
from tests.llm_cases import CASES
from tests.workload_programs import TINY, tiny_machine

SIZE = 24  # bytes of the little address space
ranges = st.tuples(st.integers(0, SIZE - 1), st.integers(1, SIZE)).map(lambda p: (p[0], min(SIZE, p[0] + p[1])))


@given(
    st.lists(st.tuples(st.sampled_from(["read", "write", "join"]), ranges), max_size=30),
    st.sampled_from([0, (1 << BUCKET_BITS) - SIZE // 2]),
)
def test_hazards_byte_by_byte(steps: list[tuple[str, tuple[int, int]]], base: int) -> None:
    """At the beginning of the addresses, and around the end of the first bucket; also if nobody asks before."""
    hazards, unasked = Hazards(), Hazards()
    writer: list[int | None] = [None] * SIZE
    readers: list[list[int]] = [[] for _ in range(SIZE)]
    for job, (kind, (start, end)) in enumerate(steps):
        inside = range(start, end)
        before_read = {w for b in inside if (w := writer[b]) is not None}
        before_write = {j for b in inside for j in readers[b]} | {
            w for b in inside if not readers[b] and (w := writer[b]) is not None
        }
        assert hazards.before_read(base + start, base + end) == before_read
        assert hazards.before_write(base + start, base + end) == before_write
        waited = getattr(hazards, kind)(base + start, base + end, job)
        assert waited == {"read": before_read, "write": before_write}.get(kind)
        assert waited == getattr(unasked, kind)(base + start, base + end, job)
        for b in inside:
            if kind == "read":
                readers[b].append(job)
            elif kind == "write":
                writer[b], readers[b] = job, []
            elif writer[b] is not None or readers[b]:  # nobody has touched the others: nothing was waited for
                writer[b] = job


def test_a_range_of_many_buckets_has_one_history() -> None:
    hazards, end = Hazards(), 5 << BUCKET_BITS
    hazards.write(10, end, 0)
    hazards.read(3 << BUCKET_BITS, end + 7, 1)
    assert hazards.before_read(0, end) == {0} and hazards.before_read(end, end + 9) == set()
    assert hazards.before_write(0, 3 << BUCKET_BITS) == {0} and hazards.before_write(end - 1, end + 9) == {1}


@given(st.data(), st.sampled_from(["interleaved", "blocked"]))
def test_bank_and_offset_is_the_inverse_of_flat_address(data: st.DataObject, bank_map: str) -> None:
    banks, width, lines = (data.draw(st.integers(1, most)) for most in (9, 20, 9))
    spm = load_config(
        {"spm": {"num_banks": banks, "bank_width_bytes": width, "bank_size_bytes": width * lines, "map": bank_map}}
    ).spm
    addr = data.draw(st.integers(0, spm.size_bytes - 1))
    bank, offset = bank_and_offset(addr, spm)
    assert bank < banks and offset < spm.bank_size_bytes
    assert flat_address(bank, offset, spm) == addr


needs = st.lists(
    st.tuples(st.integers(1, 40), st.integers(0, 3), st.integers(0, 3)).map(lambda n: (n[0], min(n[1:]), max(n[1:]))),
    max_size=8,
)


@given(needs, st.integers(1, 5))
def test_a_plan_keeps_live_buffers_apart(wanted: list[tuple[int, int, int]], line: int) -> None:
    plan = ScratchpadPlan([BufferSpec(str(i), *need) for i, need in enumerate(wanted)], 10_000, line)
    bytes_of_stage = [set[int]() for _ in range(4)]
    for i, (nbytes, first, last) in enumerate(wanted):
        buffer = plan[str(i)]
        assert (buffer.nbytes, buffer.first, buffer.last, buffer.start % line) == (nbytes, first, last, 0)
        assert buffer.end <= plan.peak_bytes
        for stage in range(first, last + 1):
            assert not bytes_of_stage[stage] & set(range(buffer.start, buffer.end))
            bytes_of_stage[stage] |= set(range(buffer.start, buffer.end))


def test_a_plan_reuses_what_is_dead() -> None:
    plan = ScratchpadPlan([BufferSpec("a", 10, 0, 1), BufferSpec("b", 10, 2, 3), BufferSpec("c", 5, 1, 2)], 16, 1)
    assert [(plan[name].start, plan[name].end) for name in "abc"] == [(0, 10), (0, 10), (10, 15)]
    with pytest.raises(DoesNotFit) as error:
        ScratchpadPlan([BufferSpec("a", 10, 0, 1), BufferSpec("b", 10, 1, 1)], 16, 4)
    assert error.value.nbytes == 22  # b would begin at 12
    with pytest.raises(InternalError, match="two buffers called a"):
        ScratchpadPlan([BufferSpec("a", 1, 0, 0), BufferSpec("a", 1, 1, 1)], 16, 1)


def test_a_ring_goes_round() -> None:
    ring = Ring(Buffer("tiles", 100, 32, 0, 0), 4)
    assert [ring.take(n) for n in (10, 10, 8, 4, 32)] == [100, 112, 124, 100, 100]
    skewed = Ring(Buffer("tiles", 0, 32, 0, 0), 4, skew_bytes=4)
    assert [skewed.take(8) for _ in range(4)] == [0, 12, 24, 0]
    with pytest.raises(InternalError, match="a tile of 33 bytes does not fit the 32 of tiles"):
        ring.take(33)


@given(st.integers(1, 20), st.integers(1, 12), st.integers(0, 4), st.integers(1, 5))
def test_strips_of_blocks_are_the_whole_activation(tokens: int, cols: int, exponent: int, strip: int) -> None:
    """Whatever blocks and strips an activation is cut into, each of its bytes is in one span of them."""
    granule = min(tokens, 1 << exponent)
    layout = ActivationLayout(1000, tokens, cols, granule, 8)
    for groups in (1, 2, len(range(0, tokens, granule))):
        found: list[int] = []
        for t_start in range(0, tokens, granule * groups):
            t_len = min(granule * groups, tokens - t_start)
            block = [addr for span in layout.spans(t_start, t_len) for addr in addresses(span)]
            strips = [
                addr
                for col in range(0, cols, strip)
                for span in layout.spans(t_start, t_len, col, min(strip, cols - col))
                for addr in addresses(span)
            ]
            assert sorted(strips) == block  # a block is contiguous
            found += strips
        assert sorted(found) == list(range(1000, 1000 + tokens * cols))


def addresses(span: Span) -> list[int]:
    return [span.dram_addr + row * span.stride_bytes + i for row in range(span.rows) for i in range(span.row_elements)]


def test_weight_tiles_are_aligned_and_in_one_slice() -> None:
    dram = DramMap(load_config({}))
    dram.allocate("before", 1)
    layout = WeightLayout(Matrix("w", 3, 20, 4), 4, 10, dram, 64)
    tiles = [layout.tiles(0), layout.tiles(1)]
    assert [[tile.cols for tile in row] for row in tiles] == [[4, 4, 2], [4, 4, 2]]
    flat = [tile for row in tiles for tile in row]
    assert [tile.index for tile in flat] == list(range(6))
    assert [tile.dram_addr for tile in flat] == [64 + 64 * i for i in range(6)]
    assert [(tile.elements, tile.nbytes, tile.moved_bytes) for tile in flat[:3]] == [(12, 6, 64), (12, 6, 64), (6, 3, 64)]
    assert [(region.name, region.base, region.end) for region in dram.regions] == [("before", 0, 64), ("w", 64, 448)]


@given(st.integers(0, 300), st.integers(1, 40), st.integers(1, 100))
def test_kv_tiles_are_the_context_and_then_the_new_tokens(context: int, new: int, most: int) -> None:
    tiles = kv_tiles(context, new, most)
    cached = [t for tile in tiles for t in range(tile.t_start, tile.t_start + tile.cached)]
    assert cached == list(range(context))
    assert [tile.new for tile in tiles] == [0] * (len(tiles) - 1) + [new]
    assert all(tile.cached <= most for tile in tiles)
    assert tiles[-1].t_start + tiles[-1].t_len == context + new


@given(st.integers(0, 40), st.integers(1, 9), st.integers(1, 9), st.integers(0, 3), st.sampled_from([1, 32, 48, 64, 100, 4096]))
def test_a_kv_slot_holds_its_tile_byte_for_byte(t: int, cached: int, new: int, head: int, alignment: int) -> None:
    cache = KvCache({("k", 4): alignment * 3, ("v", 4): alignment * 900}, 0, 77, 128, (4,) * 4, alignment, 4)
    tile = KvTile(t, cached, new)
    room = slot_bytes(TINY, tile.t_len, alignment)
    for kind in "kv":
        places = [cache.place_in(5000, kind, head, 0, tile, t + i) for i in range(tile.t_len)]
        assert places == list(range(places[0], places[0] + 64 * tile.t_len, 64))  # 128 elements of 4 bits
        for first, tokens in ((t, cached), (t + cached, new)):  # the load and the store, alignment included
            start = cache.aligned_place_in(5000, kind, head, 0, tile, first)
            dram = cache.addr(kind, head, 0, first)
            end = start + -(-(dram + 64 * tokens) // alignment) * alignment - dram // alignment * alignment
            assert start >= 5000 and end <= 5000 + room
            assert start + dram % alignment == places[first - t]


def refusal(**call: Any) -> str:
    with pytest.raises(InputError) as error:
        decoder_layer(**{"model": LLAMA_2_7B, "config": load_config({}), **call})
    return str(error.value)


def test_refused_calls() -> None:
    assert refusal(phase="train") == 'decoder_layer: phase = "train", but it must be one of decode, prefill'
    assert refusal(tokens=0) == "decoder_layer: tokens = 0, but it must be an integer of at least 1"
    assert refusal(context=-1) == "decoder_layer: context = -1, but it must be an integer of at least 0"
    assert refusal(layer_id=True) == "decoder_layer: layer_id = true, but it must be an integer of at least 0"


def test_a_machine_that_is_too_small_is_refused() -> None:
    assert refusal(config=load_config({"spm": {"bank_size_bytes": 2048}})) == (
        "machine: spm.num_banks * spm.bank_size_bytes = 32768, but the smallest tiles of a llama2_7b layer with 1 new and "
        "1024 earlier tokens need 39344 bytes; raise one of them"
    )
    assert refusal(config=load_config({"dram": {"capacity_bytes": "64 MiB"}})) == (
        "machine: dram.capacity_bytes: the layer needs 75.01 MiB up to w_up, but the DRAM has 64 MiB; "
        "give the DRAM more capacity"
    )
    assert refusal(config=load_config({"kv_layouts": [{"t_max": 1024, "head_dim": 128}]})) == (
        'machine: kv_layouts = ["t_max 1024, head_dim 128"], but llama2_7b needs a layout with head_dim = 128 and t_max of '
        "at least 1025; add {t_max: 1025, head_dim: 128}"
    )


@pytest.mark.parametrize(("context", "tokens"), [(200, 1), (100, 7)])
def test_the_size_that_a_refusal_names_is_enough(context: int, tokens: int) -> None:
    with pytest.raises(InputError) as error:
        decoder_layer(TINY, load_config(tiny_machine(1)), "decode", context, tokens)
    row = 16 * 16  # bytes of a row of banks
    rows = -(-int(str(error.value).split(" need ")[1].split(" ")[0]) // row)
    enough, less = (load_config({**tiny_machine(1), "spm": {"bank_size_bytes": n * 16}}) for n in (rows, rows - 1))
    check_program(decoder_layer(TINY, enough, "decode", context, tokens), enough)
    with pytest.raises(InputError):
        decoder_layer(TINY, less, "decode", context, tokens)


def test_the_layout_that_fits_is_found() -> None:
    config = load_config({"kv_layouts": [{"t_max": 99, "head_dim": 64}, {"t_max": 50}, {"t_max": 60}]})
    assert kv_layout_for(LLAMA_2_7B, 60, config) == 2


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"hidden": 0}, "model m: hidden = 0, but it must be a positive integer"),
        ({"kv_heads": 3}, "model m: kv_heads = 3, but it must divide heads = 4"),
        ({"head_dim": 3, "kv_bits": 4}, "model m: kv_bits = 4, but a token of head_dim = 3 must be whole bytes"),
    ],
)
def test_refused_models(change: dict[str, int], message: str) -> None:
    shape = {"layers": 1, "hidden": 8, "heads": 4, "kv_heads": 2, "head_dim": 2, "ffn": 8, **change}
    with pytest.raises(InputError) as error:
        ModelShape(name="m", **shape)
    assert str(error.value) == message


def test_a_column_that_fits_no_tile_is_refused() -> None:
    wide = ModelShape(name="wide", layers=1, hidden=1 << 20, heads=1, kv_heads=1, head_dim=128, ffn=64)
    assert refusal(model=wide) == (
        "model wide: hidden, ffn = [1048576, 64], but a column of a weight matrix must fit a tile of 256 KiB"
    )


def test_the_published_shape() -> None:
    shape = LLAMA_2_7B
    assert (shape.hidden, shape.heads, shape.head_dim, shape.ffn, shape.layers) == (4096, 32, 128, 11008, 32)
    per_layer = sum(matrix.rows * matrix.cols for matrix in shape.matrices)
    total = 32 * per_layer + 2 * 32000 * 4096 + 65 * 4096  # layers; embedding and head of 32000 words; norms
    assert total == 6_738_415_616  # "7B"


@pytest.mark.parametrize("name", ["plain", "post_tight", "experts", "mixed"])
def test_live_bytes_are_those_of_the_buffers_that_are_placed(name: str) -> None:
    """In any order of questions: what was asked for once is kept, by what it depends on."""
    case = CASES[name]
    programs = case.programs()
    step = programs.steps[0]
    buffers = LayerBuffers(programs.shapes[0], programs.machine, step.tokens, step.context, case.job.batch)
    levels = [level for level in _levels(programs.machine)[::16] if buffers.has_tiles(level)]
    for level, resident, m in itertools.product(levels, _choices(), (1, 8)):
        needs = buffers.needs(level, resident, [m] * len(STAGES))
        for stage in STAGES:
            live = [need.nbytes for need in needs if need.first <= stage <= need.last]
            assert buffers.live_bytes(level, resident, stage, m) == sum(-(-one // buffers.line) * buffers.line for one in live)
