"""Context parallelism, sequence parallelism, and experts that replicas share: against closed forms, and what is refused."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench.cmdq.dependencies import predecessors
from kernbench.cmdq.entries import DmaEntry, Entry, PairEntry, TeEntry
from kernbench.cmdq.footprint import bytes_of, work_of
from kernbench.cmdq.program import Program
from kernbench.common.errors import InputError
from kernbench.config import load_config
from kernbench.workloads.blocks.context import ContextShare, most_cached
from kernbench.workloads.blocks.programs import BlockPrograms
from kernbench.workloads.llm.exchanges import EXCHANGES, gather_rows, scatter_rows
from kernbench.workloads.llm.floor import floor_of
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.report import report_of
from kernbench.workloads.llm.run import segment_tally
from kernbench.workloads.llm.steps import Job, Segment
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import Precision
from kernbench.workloads.parallel.fitting import least_bytes
from kernbench.workloads.parallel.layout import Layout
from kernbench.workloads.parallel.run import job_programs, run_model
from kernbench.workloads.parallel.search import search
from kernbench.workloads.routing import EVEN, Routing, sent_rows
from tests.model_cases import SMALL
from tests.oracles import ref_contexts as oracle

BITS = Precision(w=8, a=8, kv=8)
MACHINE = load_config("single_cube", ["pe.spm.check_overlap=error"])
KEYS = SMALL["qwen3"]
EXPERTS = {**SMALL["sinks"], "num_local_experts": 8}
JOB = Job(prompt=64, tokens=1, batch=2, layers=1)


@cache
def model_of(text: str, folder: Path) -> Model:
    path = folder / "config.json"
    path.write_text(text)
    return load_model(str(path))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Programs of keys of a `config.json` on a layout."""
    folder = tmp_path_factory.mktemp("models")

    def programs(layout: Layout, keys: dict[str, Any] = KEYS, job: Job = JOB, machine: Any = MACHINE) -> Any:
        return job_programs(model_of(json.dumps(keys), folder), BITS, machine, job, layout)

    return programs


def layer_of(programs: BlockPrograms, phase: str) -> Segment:
    step = next(step for step in programs.steps if step.phase == phase)
    return next(one for one in programs.segments(step) if one.kind == "layer")


def sent_bytes(programs: BlockPrograms, segment: Segment) -> Counter[str]:
    """By phase."""
    found = Counter[str]()
    for entry in programs.segment_program(segment).entries:
        if isinstance(entry, PairEntry):
            found[str(entry.meta["phase"])] += bytes_of(entry.num_elements, entry.qbits)
    return found


@given(st.integers(1, 6), st.integers(12, 90), st.integers(0, 30))
def test_each_token_is_kept_by_one_rank_in_the_order_of_positions(ranks: int, prompt: int, more: int) -> None:
    shares = [ContextShare(ranks, rank, prompt) for rank in range(ranks)]
    assert [one.cached(prompt + more) for one in shares] == oracle.kept(prompt, prompt + more, ranks)
    assert most_cached(ranks, prompt, prompt + more) == max(oracle.kept(prompt, prompt + more, ranks))
    for position in range(prompt + more):
        rank = oracle.rank_of(position, prompt, ranks)
        steps = [one.cached(position + 1) - one.cached(position) for one in shares]
        assert steps == [int(one == rank) for one in range(ranks)]
        if position >= prompt:
            assert [one.owns(position) for one in shares] == [bool(step) for step in steps]


@pytest.mark.parametrize("layout", [Layout(1, cp=2), Layout(2, cp=2), Layout(1, cp=4)], ids=lambda one: one.text)
def test_a_layer_on_ranks_has_the_bytes_and_macs_of_the_closed_forms(made: Any, layout: Layout) -> None:
    programs, ranks, prompt, sequences = made(layout), layout.cp, JOB.prompt, JOB.batch
    line = programs.machine.spm.bank_width_bytes
    before, after = layer_of(programs, "prefill"), layer_of(programs, "decode")
    prefill, decode = segment_tally(programs, before), segment_tally(programs, after)
    assert prefill.bytes["kv"] == oracle.prefill_kv_bytes(KEYS, prompt, sequences, ranks)
    assert prefill.macs == oracle.prefill_macs(KEYS, prompt, sequences, ranks)
    assert decode.bytes["kv"] == oracle.decode_kv_bytes(KEYS, prompt, prompt, sequences, ranks)
    assert decode.macs == oracle.decode_macs(KEYS, prompt, sequences, ranks)
    vectors = layout.tp * ranks * (2 * KEYS["hidden_size"] + 2 * KEYS["head_dim"])
    assert prefill.bytes["weights"] == ranks * oracle.layer_weights(KEYS) + vectors
    keys_and_values = 2 * KEYS["hidden_size"] * KEYS["head_dim"] * KEYS["num_key_value_heads"]
    assert decode.bytes["weights"] == prefill.bytes["weights"] - (ranks - 1) * keys_and_values
    assert sent_bytes(programs, before)["KV_GATHER"] == oracle.gathered_kv_bytes(KEYS, prompt, sequences, ranks)
    sent = sent_bytes(programs, after)
    reduced = 2 * oracle.row_bytes_sent(KEYS, 2 * sequences, layout.tp) * ranks
    assert sum(sent.values()) == oracle.combined_bytes(KEYS, sequences, ranks, layout.tp, line) + reduced


def test_ranks_keep_their_share_of_the_cache(made: Any) -> None:
    """Two ranks: the addresses of a layer end before half of the cache of one PE, but for the room to the next 64 tokens."""
    job = Job(prompt=1024, tokens=1, batch=2)
    one, two = made(Layout(1), job=job), made(Layout(1, cp=2), job=job)
    sizes = [found._memories[0].positions for found in (one, two)]
    assert sizes == [1088, 576] and two.kept == max(oracle.kept(1024, 1025, 2))
    least = [least_bytes(one.model, BITS, job, layout) for layout in (Layout(1), Layout(1, cp=2))]
    cache_of = KEYS["num_hidden_layers"] * job.batch * oracle.token_bytes(KEYS)
    head = KEYS["hidden_size"] * KEYS["vocab_size"] // 2
    assert least[0] - least[1] == cache_of * (1025 - 513) + head


@pytest.mark.parametrize("name", ["window", "deepseek", "parallel"])
def test_the_macs_that_a_prompt_needs_do_not_change_with_ranks(made: Any, name: str) -> None:
    job = Job(prompt=36, tokens=1, batch=1, layers=1)
    floors = []
    for layout in (Layout(1), Layout(1, cp=2), Layout(1, cp=4)):
        programs = made(layout, SMALL[name], job)
        floors.append(floor_of(programs, programs.steps[0]).macs)
        for step in run_model(programs).steps if layout.cp == 2 else ():
            floor = floor_of(programs, step.step)
            assert floor.macs <= step.total.macs and floor.dram_cycles <= step.total.cycles
            assert all(getattr(floor, role) <= step.total.bytes[role] for role in ("weights", "kv", "activations"))
    assert len(set(floors)) == 1


@pytest.mark.parametrize("shards", [2, 4])
def test_rows_of_shards_send_as_many_bytes_as_an_all_reduce(made: Any, shards: int) -> None:
    keys = {**KEYS, "num_key_value_heads": 4}
    for phase, rows in (("prefill", 2 * 64), ("decode", 2)):
        split, whole = made(Layout(shards, sp=True), keys), made(Layout(shards), keys)
        sent = sent_bytes(split, layer_of(split, phase))
        each = oracle.row_bytes_sent(keys, rows, shards)
        assert sent == {"ALL_GATHER": 2 * each, "REDUCE_SCATTER": 2 * each}
        tallies = [segment_tally(found, layer_of(found, phase)) for found in (split, whole)]
        assert tallies[0].macs == tallies[1].macs and tallies[0].bytes["weights"] == tallies[1].bytes["weights"]
        rope = shards * 2 * rows * keys["head_dim"]
        hidden = keys["hidden_size"]
        assert [one.bytes["activations"] for one in tallies] == [2 * rows * hidden + rope, 2 * shards * rows * hidden + rope]


def test_norms_of_own_rows_take_fewer_cycles(made: Any) -> None:
    keys = {**KEYS, "num_key_value_heads": 4}
    split, whole = made(Layout(4, sp=True), keys), made(Layout(4), keys)
    cycles = [segment_tally(found, layer_of(found, "prefill")).cycles for found in (split, whole)]
    assert cycles[0] < cycles[1]


@pytest.mark.parametrize(("bank", "mixer", "network"), [(131072, 1, 1), (6144, 8, 4), (5120, 16, 16)])
def test_with_rows_of_shards_the_network_has_larger_blocks_if_they_fit(
    made: Any, bank: int, mixer: int, network: int
) -> None:  # fmt: skip
    """The mixer has more buffers than the network. Of 16 blocks of 30 rows, two shards have 8 rows and two have 7, so that they
    would not have the same rows of four blocks of 120."""
    keys, job = {**KEYS, "num_key_value_heads": 4}, Job(prompt=480, tokens=1, layers=1, phases=("prefill",))
    machine = load_config("single_cube", [f"pe.spm.bank_size_bytes={bank}", "pe.spm.check_overlap=error"])
    programs, whole = made(Layout(4, sp=True), keys, job, machine), made(Layout(4, sp=True), keys, job)
    segment = layer_of(programs, "prefill")
    products = [entry for entry in programs.segment_program(segment).entries if isinstance(entry, TeEntry)]
    for phase, blocks in (("OUT_PROJ", mixer), ("MLP_DOWN", network)):
        assert len({entry.meta["block_id"] for entry in products if entry.meta["phase"] == phase}) == blocks
    hidden, width = keys["hidden_size"], keys["intermediate_size"]
    assert sum(work_of(entry) for entry in products if entry.meta["phase"] == "MLP_DOWN") == 480 * hidden * width
    split, alone = segment_tally(programs, segment), segment_tally(whole, layer_of(whole, "prefill"))
    again = 3 * 480 * hidden if network < mixer else 0  # the mixer writes its rows, and the network reads them twice
    assert split.bytes["activations"] == alone.bytes["activations"] + again


class Bytes:
    """A PE whose sends and adds happen at once, on real numbers."""

    def __init__(self, machine: Any, size: int) -> None:
        self.config, self.act_bits, self.emit, self.data = machine, 8, self, np.zeros(size, dtype=np.int64)

    def send(self, peer: Bytes, spm: int, peer_spm: int, elements: int, qbits: int, **meta: Any) -> int:
        peer.data[peer_spm : peer_spm + elements] = self.data[spm : spm + elements]
        return 0

    def vector(self, op: str, length: int, batch: int, source: int, out: int, second: int | None = None, **meta: Any) -> int:
        assert op == "add" and second is not None
        self.data[out : out + length] = self.data[source : source + length] + self.data[second : second + length]
        return 0


@pytest.mark.parametrize("way", EXCHANGES)
@pytest.mark.parametrize("count", [2, 3, 5, 6, 8])
def test_gathers_and_scatters_leave_what_they_should(way: Any, count: int) -> None:
    parts = [64 * (3 + (i % 2)) for i in range(count)]
    total, random = sum(parts), np.random.default_rng(count)
    machine = load_config("npu_server")
    room = (count - 1) * max(parts)  # each is a whole number of lines
    pes: list[Any] = [Bytes(machine, total + room) for _ in range(count)]
    numbers = random.integers(0, 99, (count, total))
    edges = [sum(parts[:i]) for i in range(count + 1)]
    for pe, row in zip(pes, numbers, strict=True):
        pe.data[:total] = row
    scatter_rows(pes, [0] * count, [total] * count, parts, 8, way, {})
    for i, pe in enumerate(pes):
        own = slice(edges[i], edges[i + 1])
        assert (pe.data[own] == numbers[:, own].sum(axis=0)).all()
    gather_rows(pes, [0] * count, parts, 8, way, {})
    assert all((pe.data[:total] == numbers.sum(axis=0)).all() for pe in pes)


@given(st.integers(1, 9), st.integers(1, 3), st.lists(st.integers(0, 7), min_size=1, max_size=5))
def test_choices_of_experts_are_dealt_out_to_rows_in_turn(experts: int, top_k: int, owned: list[int]) -> None:
    if top_k > experts:
        return
    counts = EVEN.rows(experts, top_k, sum(owned))
    found = sent_rows(counts, owned)
    assert [sum(column) for column in zip(*found, strict=True)] == list(counts)
    assert [sum(row) for row in found] == [top_k * count for count in owned]
    if sum(owned):
        assert found == oracle.sent_rows(experts, top_k, owned)


@pytest.mark.parametrize("layout", [Layout(1, 1, 2), Layout(2, 1, 2), Layout(1, 1, 4), Layout(2, 1, 2, sp=True)],
                         ids=lambda one: f"{one.text} {one.dp}")  # fmt: skip
def test_replicas_share_experts(made: Any, layout: Layout) -> None:
    """Rows go to experts of other PEs and back; each expert is in one memory, and each row has `top_k` of them."""
    job = Job(prompt=6, tokens=1, batch=5, layers=1, expert_parallel=True)
    programs = made(layout, EXPERTS, job)
    pes = layout.tp * layout.dp
    hidden, width, experts, top_k = (
        EXPERTS[name] for name in ("hidden_size", "intermediate_size", "num_local_experts", "num_experts_per_tok")
    )
    for phase, tokens in (("prefill", 6), ("decode", 1)):
        segment = layer_of(programs, phase)
        sizes = [5 // layout.dp + (i < 5 % layout.dp) for i in range(layout.dp)]
        owned = [tokens * some // layout.tp + (t < tokens * some % layout.tp) for some in sizes for t in range(layout.tp)]
        rows = oracle.dispatched_rows(experts, top_k, owned)
        sent = sent_bytes(programs, segment)
        assert sent["EXPERT_DISPATCH"] == sent["EXPERT_COMBINE"] == rows * hidden
        entries = [one for one in programs.segment_program(segment).entries if isinstance(one, TeEntry)]
        macs = sum(one.m * one.n * one.k for one in entries if str(one.meta["phase"]).startswith(("MLP_GATE", "MLP_DOWN")))
        assert macs == sum(owned) * top_k * 3 * hidden * width
    each = [one.local_experts for one in (programs._shard(0, number) for number in range(pes))]
    assert each == [(number * experts // pes, experts // pes) for number in range(pes)]
    for step in run_model(programs).steps if layout.dp == 2 else ():
        floor = floor_of(programs, step.step)
        assert floor.macs <= step.total.macs and floor.weights <= step.total.bytes["weights"]


def test_collectives_are_in_the_report_with_their_cost(made: Any) -> None:
    report = report_of(run_model(made(Layout(2, cp=2, sp=True))))
    names = {phase: [one.name for one in found.collectives] for phase, found in report.phases.items()}
    assert names["prefill"] == ["KV all-gather", "all-gather", "broadcast", "reduce-scatter"]
    assert names["decode"] == ["all-gather", "broadcast", "reduce-scatter", "softmax all-gather", "softmax all-reduce"]
    for found in report.phases.values():
        assert all(one.each > 0 and one.count > 0 and one.nbytes > 0 for one in found.collectives)
    kept = report.phases["prefill"].collectives[0]
    assert kept.nbytes == JOB.batch * JOB.prompt // 2 * oracle.token_bytes(KEYS) // 2 and kept.exposed > 0
    job = Job(prompt=6, tokens=1, batch=2, layers=1, expert_parallel=True, phases=("decode",))
    shared = made(Layout(1, 1, 2), EXPERTS, job)
    decode = report_of(run_model(shared)).phases["decode"]
    assert [one.name for one in decode.collectives] == ["combine", "dispatch"]


def test_ring_and_auto_take_part_in_the_other_collectives(made: Any) -> None:
    ways = {}
    for way in ("ring", "torus", "auto"):
        programs = made(Layout(1, cp=4), job=Job(prompt=64, tokens=1, layers=1, reduction=way))
        segment_tally(programs, layer_of(programs, "prefill"))
        ways[way] = programs.reduced[0].algorithm
        if way == "ring":
            order = [place.node for place in programs.places]
            entries = programs.segment_program(layer_of(programs, "prefill")).entries
            sends = [one for one in entries if isinstance(one, PairEntry)]
            assert all(order.index(one.peer) == (order.index(one.node) + 1) % 4 for one in sends)
    assert ways["ring"] == "ring" and ways["auto"] in ("direct", "ring")
    assert ways["torus"] == "direct"  # keys and values have no torus algorithm


def test_stages_hand_over_the_rows_that_each_rank_has(made: Any) -> None:
    programs = made(Layout(2, 2, cp=2), job=Job(prompt=17, tokens=1, batch=1))
    prefill, decode = (next(programs.micros(step)) for step in programs.steps)
    hidden = KEYS["hidden_size"]
    assert programs.handed(0, prefill) == (tuple(count * hidden for count in oracle.kept(17, 17, 2) for _ in range(2)), 8)
    assert programs.handed(0, decode) == ((hidden,) * 4, 8)
    alone, whole = (run_model(programs, reuse=reuse) for reuse in (True, False))
    assert [one.total.cycles for one in alone.steps] == [one.total.cycles for one in whole.steps]


def test_a_search_looks_at_ranks_and_at_rows_of_shards(made: Any) -> None:
    model = made(Layout(1)).model
    job = Job(prompt=64, tokens=1, batch=1, layers=1, phases=("prefill",))
    found = search(model, BITS, MACHINE, job, simulated=1)
    assert any(one.layout.cp > 1 for one in found) and any(one.layout.sp and one.cycles for one in found)
    assert found[0].cycles == min(one.cycles for one in found if one.cycles is not None)


@pytest.mark.parametrize(
    ("name", "layout", "job", "said"),
    [
        ("mamba2", Layout(1, cp=2), JOB, "each token needs the state after the token before it"),
        ("qwen3", Layout(1, cp=4), Job(prompt=7, tokens=1), "so the prompt must have at least 8 tokens; take --cp 3"),
        ("qwen3", Layout(1, sp=True), JOB, "it divides the rows between the PEs of --tp; take --tp 2 or more"),
        ("qwen3", Layout(4, cp=4), JOB, "has 8 PEs, and 16 are needed; use a larger machine: -c two_sips"),
        ("qwen3", Layout(1, cp=0), JOB, "it must be an integer of at least 1"),
        ("sinks", Layout(1, 1, 2, cp=2), Job(prompt=8, tokens=1, batch=2, expert_parallel=True),
         "replicas that share experts keep whole sequences; take --cp 1 or --dp 1, or leave out --ep"),
        ("sinks", Layout(1, 1, 3), Job(prompt=8, tokens=1, batch=3, expert_parallel=True), "it must divide 4"),
    ],
)  # fmt: skip
def test_what_cannot_be_shared_out_is_refused(made: Any, name: str, layout: Layout, job: Job, said: str) -> None:
    with pytest.raises(InputError, match=said.replace("(", r"\(").replace(".", r"\.")):
        made(layout, SMALL[name], job)


def test_a_cache_that_is_too_large_names_the_ranks_that_fit(made: Any) -> None:
    machine = load_config("single_cube", ["cube.hbm.capacity_bytes=64MiB"])
    job = Job(prompt=8192, tokens=1, batch=2, phases=("decode",))
    with pytest.raises(InputError, match=r"needs [\d.]+ [GMK]iB, but a PE has .*--cp 2"):
        made(Layout(1), job=job, machine=machine).dram  # noqa: B018


def ancestors_of(program: Program) -> list[int]:
    """For each entry, a number whose bit i says that entry i ends before it begins."""
    before = [0] * len(program)
    for i, waits in enumerate(predecessors(program.entries)):
        for other in waits:
            before[i] |= before[other] | 1 << other
    return before


def numbers(entries: list[Entry], phase: str, opcode: str, node: str) -> list[int]:
    found = [i for i, one in enumerate(entries) if one.meta.get("phase") == phase and getattr(one, "node", None) == node]
    return [i for i in found if entries[i].opcode == opcode]


UNEVEN = Routing("file", shares=(0.4, 0.1, 0.2, 0.05, 0.1, 0.05, 0.05, 0.05))  #: later experts get fewer rows


@pytest.mark.parametrize("prefetch", [False, True])
@pytest.mark.parametrize("layout", [Layout(1), Layout(2, sp=True), Layout(4), Layout(1, 1, 2)], ids=lambda one: one.text)
def test_rows_are_gathered_when_the_router_has_ended(made: Any, layout: Layout, prefetch: bool) -> None:
    """Which rows an expert gets is known then, whether or not its weights are loaded ahead."""
    shared = layout.dp > 1
    job = Job(prompt=48, tokens=1, batch=2, layers=1, phases=("prefill",), routing=UNEVEN, prefetch_experts=prefetch,
              expert_parallel=shared)  # fmt: skip
    programs = made(layout, EXPERTS, job)
    program = programs.segment_program(layer_of(programs, "prefill"))
    before, entries = ancestors_of(program), program.entries
    for node in {place.node for place in programs.places}:
        (router,) = numbers(entries, "MLP_ROUTER", "VE_SOFTMAX_TILE", node)
        gathers = numbers(entries, "EXPERT_DISPATCH" if shared else "MLP_GATE_UP", "VE_COPY_TILE", node)
        assert gathers and all(before[i] >> router & 1 for i in gathers)


@pytest.mark.parametrize("layout", [Layout(2, sp=True), Layout(4, sp=True), Layout(4)], ids=lambda one: one.text)
def test_a_sum_begins_when_the_last_expert_has_ended(made: Any, layout: Layout) -> None:
    """Any row may be one of the last expert's, also if the expert has few rows."""
    job = Job(prompt=48, tokens=1, batch=2, layers=1, phases=("prefill",), routing=UNEVEN, expert_parallel=True)
    programs = made(layout, EXPERTS, job)
    program = programs.segment_program(layer_of(programs, "prefill"))
    before, entries = ancestors_of(program), program.entries
    for node in {place.node for place in programs.places}:
        experts = numbers(entries, "MLP_DOWN", "VE_ADD_TILE", node)
        sum_ = "REDUCE_SCATTER" if layout.sp else "ALL_REDUCE"
        sends = [i for i in numbers(entries, sum_, "DMA_SEND_TILE", node) if i > max(experts)]
        assert sends and all(before[i] >> expert & 1 for i in sends for expert in experts)


@pytest.mark.parametrize("layout", [Layout(1), Layout(2), Layout(4, sp=True)], ids=lambda one: one.text)
def test_on_several_pes_prefetched_weights_wait_for_earlier_ones(made: Any, layout: Layout) -> None:
    """At most six loads or a tile of 256 KiB, whichever is more, follow the latest load that has ended. A single PE loads as
    much as its scratchpad holds."""
    keys = {**EXPERTS, "moe_intermediate_size": 512, "num_local_experts": 16}
    job = Job(prompt=48, tokens=1, layers=1, phases=("prefill",), prefetch_experts=True)
    programs = made(layout, keys, job)
    program = programs.segment_program(layer_of(programs, "prefill"))
    before, entries = ancestors_of(program), program.entries
    most = 0
    for node in {place.node for place in programs.places}:
        sizes = {i: bytes_of(one.num_elements, one.qbits) for i, one in enumerate(entries)
                 if isinstance(one, DmaEntry) and one.tensor_role == "weight" and one.node == node}  # fmt: skip
        loads = [i for i, nbytes in sizes.items() if nbytes >= 2048]  # matrices, and not norms or biases
        for place, load in enumerate(loads):
            ended = [k for k, earlier in enumerate(loads[:place]) if before[load] >> earlier & 1]
            together = loads[max(ended, default=-1) + 1 : place + 1]
            most = max(most, len(together))
            assert layout.tp == 1 or len(together) <= 6 or sum(sizes[i] for i in together[1:]) < 256 << 10
    assert layout.tp > 1 or most > 15


@pytest.mark.parametrize("layout", [Layout(2), Layout(4), Layout(2, sp=True)], ids=lambda one: one.text)
@pytest.mark.parametrize("whole", [False, True])
def test_slices_of_prefetched_experts_are_added_up_beside_the_next_slice(made: Any, layout: Layout, whole: bool) -> None:
    """The sums of one slice wait for the columns of all experts, and not for the next columns. The same bytes are moved."""
    job = Job(prompt=64, tokens=1, layers=1, phases=("prefill",), routing=UNEVEN, expert_parallel=whole)
    ahead = replace(job, prefetch_experts=True)
    tallies = {}
    for one in (job, ahead):
        programs = made(layout, EXPERTS, one)
        segment = layer_of(programs, "prefill")
        program = programs.segment_program(segment)
        tallies[one] = segment_tally(programs, segment), sent_bytes(programs, segment)
    before, entries = ancestors_of(program), program.entries
    for node in {place.node for place in programs.places}:
        adds = numbers(entries, "MLP_DOWN", "VE_ADD_TILE", node)
        sends = numbers(entries, "REDUCE_SCATTER" if layout.sp else "ALL_REDUCE", "DMA_SEND_TILE", node)
        waited = {tuple(add for add in adds if before[i] >> add & 1) for i in sends} - {()}
        each = len(adds) // 4
        assert sorted(waited) == [tuple(adds[part * each : (part + 1) * each]) for part in range(4)]
    (plain, sent), (sliced, parts) = tallies.values()
    assert (plain.macs, plain.bytes["weights"], sent) == (sliced.macs, sliced.bytes["weights"], parts)


@pytest.mark.parametrize("layout", [Layout(4), Layout(2, sp=True), Layout(4, sp=True)], ids=lambda one: one.text)
def test_the_residual_stream_waits_for_the_sums_of_all_slices(made: Any, layout: Layout) -> None:
    """Each slice has columns of the own rows, also with --sp."""
    job = Job(prompt=64, tokens=1, layers=1, phases=("prefill",), routing=UNEVEN, prefetch_experts=True)
    programs = made(layout, EXPERTS, job)
    program = programs.segment_program(layer_of(programs, "prefill"))
    before, entries = ancestors_of(program), program.entries
    nodes = {place.node for place in programs.places}
    experts = [i for node in nodes for i in numbers(entries, "MLP_DOWN", "VE_ADD_TILE", node)]
    assert experts
    for node in nodes:
        last = max(numbers(entries, "RESIDUAL", "VE_ADD_TILE", node))
        assert all(before[last] >> expert & 1 for expert in experts)
