"""Times on a small system, each worked out by hand: not done in the cycle before, done in the cycle.

    pe0 - r0c0 - r0c1 - r0c2 - pe1, pe2       slice 0 and the SRAM at r0c0, slices 1 and 2 at r0c2, the endpoint west of r0c0

Latencies of edges, with the router's 1 where the edge enters one: PE to router 1 + 1, router to PE 1, router to router 2 + 1,
slice to router 3 + 1, router to slice 3, SRAM to router 4 + 1 + 1 (its way is not 0 mm), router to SRAM 4 + 1, UCIe port to
router 1 + 1, router to port 1, port to IO network 4, network to endpoint or to IO CPU 2, endpoint to host 20, IO CPU to M_CPU 1
(its way is not 0 mm).
"""

from __future__ import annotations

from typing import Any

import pytest

from kernbench import Machine, load_config, load_program

SYSTEM: dict[str, Any] = {
    "schema": "kernbench/system/1",
    "wires": {"mm_per_cycle": 1000, "board_mm_per_cycle": 1000},
    "cube": {
        "pes": 3,
        "mesh": {"rows": 1, "cols": 3, "router_cycles": 1, "link": {"bytes_per_cycle": 16, "cycles": 2, "mm": 0}},
        "hbm": {
            "channels": 3,
            "interleave_bytes": 64,
            "capacity_bytes": 3072,
            "bus_width_bytes": 32,
            "dram_burst_cycles": 1,
            "peak_bw_bytes_per_cycle": 32,
            "t_setup_cycles": 5,
            "width_mm": 0,
            "height_mm": 0,
            "link": {"bytes_per_cycle": 24, "cycles": 3, "mm": 0},
        },
        "sram": {"bytes": 1024, "bytes_per_cycle": 12, "cycles": 4},
        "ucie": {
            "link": {"bytes_per_cycle": 64, "cycles": 4, "mm": 0},
            "router": {"bytes_per_cycle": 64, "cycles": 1, "mm": 0},
        },
        "m_cpu": {"cycles": 50},
    },
    "io": {
        "pcie": {"link": {"bytes_per_cycle": 8, "cycles": 20, "mm": 0}, "setup_cycles": 30},
        "io_cpu": {"cycles": 40},
        "noc": {"bytes_per_cycle": 64, "cycles": 2, "mm": 0},
    },
    "pe": {
        "link": {"bytes_per_cycle": 16, "cycles": 1, "mm": 0},
        "spm": {"num_banks": 4, "bank_width_bytes": 16, "bank_size_bytes": 1024, "max_wait_cycles": 1},
        "te": {"engines": 1, "macs_per_cycle": 16, "init_cycles": 3, "finalize_cycles": 0},
    },
}
PE0, PE1, PE2 = "sip0.cube0.pe0", "sip0.cube0.pe1", "sip0.cube0.pe2"
SRAM = 4096  # behind the window of HBM, the power of two at or above 3,072
Entry = dict[str, Any]


def move(opcode: str, node: str, address: int, nbytes: int) -> Entry:
    place = {"dram_addr": address, "spm_bank": 0, "spm_offset": 0}
    return {"opcode": opcode, "node": node, "tensor_role": "weight", "qbits": 8, "num_elements": nbytes, **place}


def pair(opcode: str, node: str, peer: str, nbytes: int) -> Entry:
    places = {"spm_bank": 0, "spm_offset": 0, "peer_bank": 0, "peer_offset": 0}
    return {"opcode": opcode, "node": node, "peer": peer, "tensor_role": "weight", "qbits": 8, "num_elements": nbytes, **places}


def copy(direction: str, address: int, nbytes: int) -> Entry:
    return {"opcode": "HOST_COPY_TILE", "direction": direction, "qbits": 8, "dram_addr": address, "num_elements": nbytes}


def machine(entries: list[Entry], allocation: str = "shared_bw_v1", **spm: Any) -> Machine:
    system = {**SYSTEM, "allocation": allocation, "pe": {**SYSTEM["pe"], "spm": {**SYSTEM["pe"]["spm"], **spm}}}
    return Machine(load_config(system), load_program({"metadata": {"version": "1.0"}, "cmdq": entries}))


def check_ends(entries: list[Entry], ends: list[int], **spm: Any) -> Machine:
    """Each entry is not done one cycle before its end, and done at it."""
    for index, end in enumerate(ends):
        run = machine(entries, **spm)
        run.step(end - 1)
        assert run.result().entries[index].end is None
        run.step(1)
        assert run.result().entries[index].end == end
    run = machine(entries, **spm)
    run.run()
    assert [entry.end for entry in run.result().entries] == ends
    return run


ALONE = [
    # Setup 5, slice to r0c0 4, to the PE 1; the PE's link carries 16 of the channel's 32: 192 / 16.
    (move("DMA_LOAD_TILE", PE0, 0, 192), 5 + 4 + 1 + 12),
    # The same from the other end of the mesh: two links more. 130 bytes from 60 on touch [0, 192).
    (move("DMA_LOAD_TILE", PE1, 60, 130), 5 + 4 + 3 + 3 + 1 + 12),
    # To the router 2, to the slice 3.
    (move("DMA_STORE_TILE", PE0, 0, 192), 5 + 2 + 3 + 12),
    # An SRAM has no setup, and 12 bytes per cycle: the last of 4 lines is whole after ceil(64 / 12) cycles.
    (move("DMA_LOAD_TILE", PE0, SRAM, 64), 6 + 1 + 6),
    # To r0c0 2, twice 3, to the PE 1; neither setup nor alignment: 40 bytes are 3 lines.
    (pair("DMA_SEND_TILE", PE0, PE1, 40), 2 + 3 + 3 + 1 + 3),
    # The data goes the other way, over as many edges: the peer's 2, 3, 3 and the own 1.
    (pair("DMA_RECV_TILE", PE0, PE1, 40), 2 + 3 + 3 + 1 + 3),
    # PEs at one router.
    (pair("DMA_SEND_TILE", PE1, PE2, 64), 2 + 1 + 4),
    # In the endpoint 30, setup 5; PCIe 20, network 2, UCIe 4, to the router 2, to the slice 3; 100 bytes from 0 are 128, by 8.
    (copy("to_device", 0, 100), 30 + 5 + 20 + 2 + 4 + 2 + 3 + 16),
    # Back: from the slice 4, to the port 1, UCIe 4, network 2, PCIe 20.
    (copy("to_host", 0, 100), 30 + 5 + 4 + 1 + 4 + 2 + 20 + 16),
    # An SRAM has no setup: to it 4 + 1.
    (copy("to_device", SRAM, 64), 30 + 20 + 2 + 4 + 2 + 5 + 8),
    # Host to endpoint 20, over the network to the IO CPU 2 + 2, command to the M_CPU 1; in them 30, 40 and 50.
    ({"opcode": "LAUNCH"}, 20 + 2 + 2 + 1 + 30 + 40 + 50),
]


@pytest.mark.parametrize(("entry", "end"), ALONE)
def test_an_entry_alone_ends_in_its_golden_cycle(entry: Entry, end: int) -> None:
    check_ends([entry], [end])


def test_launches_of_one_cube_follow_each_other() -> None:
    check_ends([{"opcode": "LAUNCH"}, {"opcode": "LAUNCH"}], [145, 290])


def test_two_sends_share_the_link_of_the_receiver() -> None:
    """pe2 is at the receiver's router and sends from cycle 3 on: 6 lines until pe0's first bytes come in cycle 9.

    From then on each has 8 bytes per cycle: the 4 lines that both have left take 8 cycles. A line is whole every second cycle,
    of pe2's the lines 6, 7, 8, 9, of pe0's the lines 0, 1, 2, 3: banks 2, 3, 0, 1 against 0, 1, 2, 3.
    """
    run = check_ends([pair("DMA_SEND_TILE", PE0, PE1, 64), pair("DMA_SEND_TILE", PE2, PE1, 160)], [9 + 8, 9 + 8])
    counters = run.result().counters
    # Members of the shared link: one for 6 cycles, two for 8.
    assert counters["sip0.cube0.r0c2-sip0.cube0.pe1.pe_dma"] == {"bytes": 224, "busy": 14, "member_cycles": 22}
    assert sum(counters["sip0.cube0.pe1.pe_tcm"]["denials"]) == 0


def test_a_send_and_the_tensor_engine_of_its_receiver_want_one_bank() -> None:
    """Both want bank 0 of pe1 from cycle 3 on, a line a cycle and four in all; what was denied once goes first.

    cycle   3    4    5    6    7    8    9    10
    send    0    -    1    -    2    -    3          (- denied)
    TE      -    0    -    1    -    2    -    3

    Alone both would be done at 7. In its own scratchpad the send gets each line's bank at once, and keeps it: lines 1, 2, 3 in
    the cycle in which pe1 denies them.
    """
    at = {f"{what}_offset": 0 for what in ("ifm", "wgt", "ofm")} | {"ifm_bank": 0, "wgt_bank": 1, "ofm_bank": 2}
    shape = {"m": 4, "n": 1, "k": 16, "qbits_weight": 8, "qbits_activation": 8}  # 4 lines in, 64 MACs: 4 cycles
    gemm = {"opcode": "TE_GEMM_TILE", "node": PE1, **shape, **at}
    run = check_ends([pair("DMA_SEND_TILE", PE2, PE1, 64), gemm], [10, 11], map="blocked")
    counters = run.result().counters
    first_banks = {
        pe: [counters[f"{pe}.pe_tcm"][kind][0] for kind in ("requests", "grants", "denials")] for pe in (PE1, PE2)
    }
    assert first_banks == {PE1: [15, 8, 7], PE2: [4, 4, 0]}
    assert counters[f"{PE2}.pe_dma"]["stalled"] == {"backpressure": 0, "bank_conflict": 3}
    assert counters[f"{PE2}.pe_dma"]["busy"] == 7
    assert counters[f"{PE1}.pe_dma"]["idle"] == 11


def test_what_the_receiver_granted_stays_granted() -> None:
    """Two sends of one line each from bank 0 of pe2, to banks 0 and 1 of pe1; each has half of the link from cycle 3 on.

    In cycle 4 both lines are whole. The second is denied bank 0 of pe2 and granted bank 1 of pe1; in cycle 5 it asks for the
    one that it lacks.
    """
    second = {**pair("DMA_SEND_TILE", PE2, PE1, 16), "peer_bank": 1}
    run = check_ends([pair("DMA_SEND_TILE", PE2, PE1, 16), second], [5, 6], map="blocked")
    counters = run.result().counters
    assert counters[f"{PE1}.pe_tcm"] == {"requests": [1, 1, 0, 0], "grants": [1, 1, 0, 0], "denials": [0, 0, 0, 0]}
    assert counters[f"{PE2}.pe_tcm"] == {"requests": [3, 0, 0, 0], "grants": [2, 0, 0, 0], "denials": [1, 0, 0, 0]}


def test_fifo_orders_flows_of_a_channel_and_no_others() -> None:
    """Two transfers of 64 bytes each; the second is one bank further on, so that they never want one bank."""
    load, sram = move("DMA_LOAD_TILE", PE0, 0, 64), move("DMA_LOAD_TILE", PE0, SRAM, 64)
    send = pair("DMA_SEND_TILE", PE1, PE2, 64)
    # A channel: past the head of 10 the first has 16 bytes per cycle for 4 cycles, then the second.
    check_ends([load, {**load, "spm_bank": 1}], [14, 18], allocation="fifo_v1")
    # The SRAM: past 7 each has 6 bytes per cycle, and needs ceil(64 / 6).
    check_ends([sram, {**sram, "spm_bank": 1}], [7 + 11, 7 + 11], allocation="fifo_v1")
    # Sends: past 3 each has 8.
    check_ends([send, {**send, "spm_bank": 1, "peer_bank": 1}], [3 + 8, 3 + 8], allocation="fifo_v1")


def test_a_copy_moves_64_bytes_at_once() -> None:
    """Past the head of 66 cycles, 8 bytes per cycle: half of 128 bytes move in the cycle in which they are there."""
    run = machine([copy("to_device", 0, 128)])
    moved = []
    for cycles in (66 + 7, 1, 7, 1):
        run.step(cycles)
        moved.append(run.result().counters["sip0.io0.pcie_ep"]["bytes"])
    assert moved == [0, 64, 64, 128]


OVERLAPPING = [
    (pair("DMA_SEND_TILE", PE1, PE0, 64), pair("DMA_SEND_TILE", PE2, PE0, 64)),
    (pair("DMA_RECV_TILE", PE0, PE1, 64), pair("DMA_SEND_TILE", PE2, PE0, 64)),
    (move("DMA_LOAD_TILE", PE0, 0, 64), pair("DMA_SEND_TILE", PE2, PE0, 64)),
    (move("DMA_LOAD_TILE", PE1, 0, 64), pair("DMA_RECV_TILE", PE0, PE1, 64)),
]


@pytest.mark.parametrize(("first", "second"), OVERLAPPING)
def test_overlaps_in_the_scratchpad_of_the_peer_are_seen(first: Entry, second: Entry) -> None:
    run = machine([first, second], check_overlap="error")
    run.run()
    assert (run.status, run.cycle) == ("failed", 0)


def test_equal_ranges_of_two_scratchpads_do_not_overlap() -> None:
    run = machine([pair("DMA_SEND_TILE", PE1, PE0, 64), pair("DMA_SEND_TILE", PE1, PE2, 64)], check_overlap="error")
    run.run()
    assert run.status == "done"


def test_a_send_that_the_banks_limit_keeps_the_share_of_one_row_of_banks() -> None:
    """A row of banks has 8 bytes, so a send alone moves 8 of its 16 bytes per cycle, from cycle 9 on. The load takes the cycles
    10 to 17. Three sends join in cycle 18 + 9, when 144 bytes have moved, and each gets 4 bytes per cycle. With the kept 8
    bytes and its share, the first send moves 8 bytes twice, and then 4. In cycle 39 the others have moved 48 bytes, and share
    the link.
    """
    later = [{**pair("DMA_SEND_TILE", PE0, PE1, 64), "deps_before": [1]} for _ in range(3)]
    first = pair("DMA_SEND_TILE", PE0, PE1, 144 + 2 * 8 + 10 * 4)
    ends = [27 + 2 + 10, 10 + 64 // 8, *[39 + 3] * 3]
    check_ends([first, move("DMA_LOAD_TILE", PE0, 0, 64), *later], ends, num_banks=2, bank_width_bytes=4, ports=4)
