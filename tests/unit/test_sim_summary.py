"""What summaries say of a run: shares, waits and their causes, bounds, banks; and the notebook's HTML."""

from __future__ import annotations

import re
from fractions import Fraction
from html.parser import HTMLParser

import pytest

from kernbench import Machine, Program, Result, load_config, simulate
from kernbench.sim_engine.result_look import result_html
from kernbench.sim_engine.run.waits import Wait
from kernbench.sim_engine.summary import RunSummary, summarise_run

PLACES = {"ifm_bank": 0, "ifm_offset": 0, "wgt_bank": 0, "wgt_offset": 0, "ofm_bank": 0, "ofm_offset": 0}
GEMM = {"m": 8, "n": 8, "k": 8, "qbits_weight": 8, "qbits_activation": 8, **PLACES}
COPY = {"in_bank": 0, "in_offset": 0, "out_bank": 0, "out_offset": 0}
QUIET = {"te": {"spm_traffic": False, "engines": 2, "macs_per_cycle": 64}}  # a GEMM takes 8 + 8 + 4 = 20 cycles
GEMM_CYCLES = 20


def summary_of(program: Program, machine: dict[str, object] | None = None) -> RunSummary:
    config = load_config({**QUIET, **(machine or {})})
    run = Machine(config, program)
    run.run()
    return summarise_run(run.result(), program, run.plan)


def wait(reason: str, entry: int, since: int, until: int | None, cycles: int, behind: int | None) -> tuple[object, ...]:
    return reason, entry, since, until, cycles, behind


def said(found: Wait) -> tuple[object, ...]:
    return wait(found.reason, found.id, found.since, found.until, found.cycles, found.behind)


def test_a_queue_wait_lasts_from_issue_to_start_and_names_who_left() -> None:
    program = Program()
    for _ in range(3):
        program.te_gemm(**GEMM)
    found = summary_of(program).waits
    assert [said(w) for w in found] == [wait("queue", 2, 0, 40, 40, 1), wait("queue", 1, 0, 20, 20, 0)]
    assert found[0].engine == "te0" and found[0].behind_opcode == "TE_GEMM_TILE"


def test_an_engine_that_is_free_makes_nobody_wait() -> None:
    program = Program()
    first = program.te_gemm(**GEMM)
    program.te_gemm(**GEMM, te_id=1)
    program.te_gemm(**GEMM, deps_before=[first])
    assert summary_of(program).waits == ()


def test_a_barrier_wait_counts_all_who_wait_for_it_and_names_the_longest() -> None:
    program = Program()
    first = program.te_gemm(**GEMM)
    second = program.te_gemm(**GEMM, te_id=1, deps_before=[first])
    program.barrier(wait_for=[second])
    program.te_gemm(**GEMM, deps_before=[first])  # ready at 20
    program.te_gemm(**GEMM, te_id=1)  # ready at 0
    program.ve_copy(
        length=1, qbits_activation=8, deps_before=[second], **COPY
    )  # ready with the barrier: waits for nothing
    (found,) = summary_of(program).waits
    assert said(found) == wait("barrier", 4, 0, 40, 40, 2)
    assert found.others == 1


def test_an_issue_width_makes_wait_before_the_issue() -> None:
    program = Program()
    program.te_gemm(**GEMM)
    program.te_gemm(**GEMM, te_id=1)
    (found,) = summary_of(program, {"control": {"issue_width": 1}}).waits
    assert said(found) == wait("issue width", 1, 0, 1, 1, None)


def test_who_still_waits_waits_until_now_behind_who_runs() -> None:
    program = Program()
    for _ in range(3):
        program.te_gemm(**GEMM)
    config = load_config(QUIET)
    machine = Machine(config, program)
    machine.step(30)
    summary = summarise_run(machine.result(), program, machine.plan)
    assert [said(w) for w in summary.waits] == [wait("queue", 2, 0, None, 30, 1), wait("queue", 1, 0, 20, 20, 0)]
    assert (summary.unfinished, summary.not_started) == (2, 1)


def test_only_the_longest_waits_are_named_and_all_are_counted() -> None:
    program = Program()
    for _ in range(9):
        program.te_gemm(**GEMM)
    summary = summary_of(program)
    assert [w.id for w in summary.waits] == [8, 7, 6, 5, 4]
    assert summary.waits_in_all == 8


def test_the_bound_stands_beside_the_answer() -> None:
    program = Program()
    for _ in range(3):
        program.te_gemm(**GEMM)
    bound = summary_of(program).bound
    assert (bound.name, bound.kind, bound.cycles, bound.achieved, bound.share) == ("te0", "te0", 60, 60, 1.0)
    assert dict(bound.others) == {"critical path": 20}


def test_a_dram_bound_is_called_so() -> None:
    program = Program()
    program.dma_load(tensor_role="weight", qbits=8, dram_addr=0, num_elements=1 << 16, spm_bank=0, spm_offset=0)
    bound = summary_of(program, {"dram": {"channels": 2, "t_setup_cycles": 7}}).bound
    assert (bound.name, bound.kind) == ("critical path", "critical path")
    assert dict(bound.others)["dram.ch0"] == (1 << 16) // 2 // 16


def test_channels_have_their_share_of_the_capacity() -> None:
    program = Program()
    program.dma_load(tensor_role="weight", qbits=8, dram_addr=0, num_elements=1 << 16, spm_bank=0, spm_offset=0)
    summary = summary_of(program, {"freq_ghz": 2})
    (channel,) = summary.channels
    assert (channel.bytes, channel.capacity, channel.busy) == (1 << 16, Fraction(16), 4096)
    assert channel.share == 4096 / summary.result.cycles
    assert channel.gb_per_s == channel.achieved * 2


def test_an_empty_program_has_a_summary() -> None:
    summary = summary_of(Program())
    assert (summary.result.status, summary.bound.share, summary.waits, summary.banks.worst) == ("done", 1.0, (), None)
    assert all(engine.utilisation == 0 for engine in summary.engines)


class _Reader(HTMLParser):
    """Collects texts and tags, and checks that every tag is closed in its place."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.text = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(result: Result) -> _Reader:
    """The HTML of a result, read; it must be whole, and hold nothing that runs or is fetched."""
    reader = _Reader()
    reader.feed(result_html(result))
    reader.close()
    assert reader.open == []
    assert reader.tags <= {"div", "p", "b", "br", "span", "table", "thead", "tbody", "tr", "th", "td"}
    return reader


def test_the_notebook_draws_bars_from_the_left_and_the_busiest_links_first() -> None:
    """A cell of numbers is right-aligned, and a bar in it began on the right."""
    machine = load_config("npu_server")
    program = Program("loads")
    for address in range(0, 16384, 4096):
        program.dma_load(tensor_role="weight", qbits=8, dram_addr=address, num_elements=64, spm_bank=0, spm_offset=address)
    text = result_html(simulate(program, machine))
    assert 'white-space:nowrap;text-align:left' in text and '<td style="text-align:left;padding:0 0.5em">dma0</td>' in text
    moved = [int(cell.replace(",", "")) for cell in re.findall(r"(?:dram|noc)\.\S+?</td><td [^>]*>([\d,]+)<", text)]
    assert len(moved) > 8 and moved == sorted(moved, reverse=True) and moved[0] > 0 == moved[-1]


def test_the_notebook_shows_cycles_bound_and_engines() -> None:
    program = Program("three products")
    for _ in range(3):
        program.te_gemm(**GEMM)
    result = simulate(program, load_config(QUIET))
    assert result._repr_html_() == result_html(result)
    text = read(result).text
    assert "done 60 cycles" in text and "te0 bound 60, achieved 60, 100.0%" in text
    assert "three products on machine, 3 entries" in text


@pytest.mark.parametrize("name", ['<script>alert("x")</script>', "a & b", "</table><h1>"])
def test_the_notebook_escapes_what_is_not_ours(name: str) -> None:
    program = Program(name)
    program.te_gemm(**GEMM)
    assert name in read(simulate(program, load_config(QUIET))).text


def test_the_notebook_says_how_it_ended() -> None:
    program = Program()
    program.barrier(wait_for=[1])
    program.nop()
    text = read(simulate(program, load_config({}))).text
    assert "deadlock 0 cycles" in text
    assert "2 entries have not ended" in text and "0 BARRIER waits for 1 since cycle 0 (dependency)" in text


@pytest.mark.parametrize("engine", ["te", "ve"])
def test_an_engine_without_traffic_takes_no_energy_of_the_scratchpad(engine: str) -> None:
    program = Program()
    if engine == "te":
        program.te_gemm(**GEMM)
    else:
        program.append(opcode="VE_COPY_TILE", length=8, batch=8, qbits_activation=8, **COPY)
    found = {}
    for traffic in (False, True):
        run = Machine(load_config({engine: {"spm_traffic": traffic}}), program)
        run.run()
        found[traffic] = run.result().metrics["energy_pj"]["spm"]
    assert found[False] == 0 < found[True]


@pytest.mark.parametrize("cycles", [None, 30])  # to the end, and up to the middle of the second job
def test_a_result_without_times_of_entries_has_everything_else(cycles: int | None) -> None:
    program = Program()
    for _ in range(3):
        program.te_gemm(**GEMM)
    run = Machine(load_config(QUIET), program)
    run.run(cycles=cycles)
    whole, short = run.result().to_dict(), run.result(entries=False).to_dict()
    assert len(whole.pop("entries")) == 3 and short.pop("entries") == []
    assert short == whole
