"""Hypothesis strategy for small, nasty machine dicts of schema kernbench/npu/1 that docs/model/formats.md accepts."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.sampled import sampled_from

SFU_TABLES = ({"exp": 3, "rsqrt": 5, "gelu": 2, "tanh": 0, "sigmoid": 1, "silu": 2}, {"exp": 7})

Draw = Any  # the `draw` of a composite strategy: its type depends on what is drawn


@st.composite
def machines(draw: Draw) -> dict[str, Any]:
    """A machine dict of schema kernbench/npu/1; now and then a section is left to its defaults."""
    machine: dict[str, Any] = {
        "schema": "kernbench/npu/1",
        "freq_ghz": draw(sampled_from([1, 0.8, 1.5])),
        "allocation": draw(sampled_from(["shared_bw_v1", "max_min_v1", "fifo_v1"])),
        "max_cycles": draw(sampled_from([20000] * 20 + [1, 37, 300])),
        "control": {"issue_width": draw(sampled_from([0, 0, 1, 2, 3]))},
        "dma": _dma(draw),
        "dram": _dram(draw),
        "spm": _spm(draw),
        "te": _te(draw),
        "ve": _ve(draw),
        "kv_layouts": draw(
            st.lists(
                st.fixed_dictionaries(
                    {"t_max": st.integers(1, 48), "head_dim": sampled_from([1, 5, 8, 12, 20, 24, 40])}
                ),
                min_size=1,
                max_size=2,
            )
        ),
    }
    if draw(st.booleans()):
        machine["noc"] = _noc(draw, machine["dma"]["engines"], machine["dram"]["channels"])
    for section in draw(sampled_from([[]] * 6 + [["control", "freq_ghz"], ["te"], ["ve"], ["spm"]])):
        del machine[section]
    return machine


def _dma(draw: Draw) -> dict[str, Any]:
    channel = st.fixed_dictionaries(
        {
            "max_concurrent": st.integers(1, 4),
            "priority": st.integers(0, 2),
            "weight": sampled_from([1, 1, 2, 3, 5, 7]),
        }
    )
    dma: dict[str, Any] = {
        "engines": draw(st.integers(1, 3)),
        "max_concurrent_transfers": draw(st.integers(1, 6)),
        "queue_depth_per_master": draw(sampled_from([1, 2, 3, 8])),
        "alignment_bytes": draw(sampled_from([1, 2, 8, 16, 24, 32, 48, 64])),
        "arbiter": draw(sampled_from(["priority", "priority", "round_robin"])),
        "kv_load_bonus": draw(st.integers(0, 3)),
        "channels": {name: draw(channel) for name in ("act_weight", "kv_load", "kv_store")},
    }
    return _with_period(draw, dma)


def _dram(draw: Draw) -> dict[str, Any]:
    bus, burst = draw(
        sampled_from([(64, 4), (64, 1), (256, 1), (256, 1), (16, 8), (32, 12), (8, 7), (48, 5), (3, 2), (1, 1)])
    )
    dram = {
        "channels": draw(sampled_from([1, 1, 2, 2, 3, 4, 8])),
        "interleave_bytes": draw(sampled_from([1, 3, 8, 20, 64, 96, 100, 256, 1024])),
        "capacity_bytes": draw(sampled_from(["256 KiB", 262144 + 4321, 1 << 20])),
        "bus_width_bytes": bus,
        "dram_burst_cycles": burst,
        "peak_bw_bytes_per_cycle": draw(sampled_from([1, 4, 10.5, 24, 64, 128, 256, 256])),
        "t_setup_cycles": draw(sampled_from([0, 0, 1, 7, 20])),
    }
    return _with_period(draw, dram)


def _noc(draw: Draw, dma_engines: int, dram_channels: int) -> dict[str, Any]:
    rows, cols = draw(st.integers(1, 3)), draw(st.integers(1, 4))
    tile = st.tuples(st.integers(0, rows - 1), st.integers(0, cols - 1)).map(list)
    return {
        "kind": "mesh",
        "rows": rows,
        "cols": cols,
        "link_bytes_per_cycle": draw(sampled_from([0.75, 2.5, 4, 7.919, 16, 64])),
        "hop_latency_cycles": draw(sampled_from([0, 1, 2, 5])),
        "dma_at": [draw(tile) for _ in range(dma_engines)],
        "dram_at": [draw(tile) for _ in range(dram_channels)],
    }


def _spm(draw: Draw) -> dict[str, Any]:
    banks = draw(sampled_from([1, 2, 3, 4, 5, 8, 13, 16, 64, 65, 130]))
    width = draw(sampled_from([1, 2, 4, 8, 16, 32, 64]))
    lines = -(-draw(sampled_from([2048, 4096, 12288])) // (banks * width))
    spm: dict[str, Any] = {
        "num_banks": banks,
        "bank_size_bytes": lines * width,
        "bank_width_bytes": width,
        "map": draw(sampled_from(["interleaved", "interleaved", "blocked"])),
        "conflict_penalty_cycles": draw(sampled_from([1, 1, 2, 3, 5])),
        **drawn_arbiter(draw),
        "max_wait_cycles": draw(sampled_from([1, 2, 4, 8, 40])),
        "backpressure_cycles": draw(sampled_from([1, 2, 3, 8, 20])),
        "check_overlap": draw(sampled_from(["none"] * 10 + ["warn", "error"])),
    }
    if draw(st.booleans()):
        spm["ports"] = draw(sampled_from([1, 1, 1, 2, 4, 9]))
    else:
        spm["read_ports"] = draw(st.integers(1, 2))
        spm["write_ports"] = draw(st.integers(1, 2))
    return spm


def drawn_arbiter(draw: Draw) -> dict[str, Any]:
    """Keys of a scratchpad: one in three goes round its clients."""
    return draw(sampled_from([{}, {"arbiter": "oldest_first"}, {"arbiter": "round_robin"}]))


def _te(draw: Draw) -> dict[str, Any]:
    te: dict[str, Any] = {
        "engines": draw(st.integers(1, 3)),
        "macs_per_cycle": draw(sampled_from([1, 7, 64, 256, 1000])),
        "f_w": draw(sampled_from([{8: 1, 4: 1.5, 2: 2}, {"8": 1, "4": 1.7}, {}])),
        "f_a": draw(sampled_from([{8: 1, 4: 1.1}, {"16": 0.5}])),
        "init_cycles": draw(sampled_from([0, 1, 8])),
        "finalize_cycles": draw(sampled_from([0, 4])),
        "spm_traffic": draw(sampled_from([True, True, True, False])),
    }
    timing = draw(sampled_from(["macs", "macs", "macs", "systolic", "systolic", "mma"]))
    if timing == "systolic":
        te["timing"] = "systolic"
        te["rows"] = draw(sampled_from([1, 2, 5, 8]))
        te["cols"] = draw(sampled_from([1, 3, 8]))
        te["dataflow"] = draw(sampled_from(["os", "ws", "is"]))
        te |= draw(sampled_from([{}, {"fill": "overlapped"}, {"fill": "overlapped", "operand_bytes_per_cycle": 5}]))
        te |= draw(sampled_from([{}, {"fill": "overlapped", "drain": "overlapped"}]))
        te |= draw(sampled_from([{}, {}, {"operand_bytes_per_cycle": 2.5}]))
    if timing == "mma":
        te |= {"timing": "mma", "mma": drawn_mma(draw)}
    te |= draw(sampled_from([{}, {}, {"clock_ratio": 0.75}]))
    return _with_period(draw, te)


def drawn_mma(draw: Draw) -> dict[str, Any]:
    """A section `te.mma`: some instruction takes operands of every width."""
    shape = {"m": draw(sampled_from([1, 2, 8])), "n": draw(sampled_from([1, 4])), "k": draw(sampled_from([1, 8]))}
    wide = {"qbits_weight": 64, "qbits_activation": 64, "m": 2, "n": 2, "k": 2, "cycles": draw(sampled_from([1, 3, 2.5]))}
    narrow = [
        {"qbits_weight": 4, "qbits_activation": 8, **shape, "cycles": 0.5},
        {"qbits_weight": 8, "qbits_activation": 8, **shape, "cycles": 1, "fidelity": "low"},
        {"qbits_weight": 16, "qbits_activation": 16, **shape, "cycles": 1, "qbits_accumulator": 16},
        {"qbits_weight": 8, "qbits_activation": 16, **shape, "cycles": 2},
    ]
    mma = {
        "cores": draw(sampled_from([1, 3, 16])),
        "blocks_per_core": draw(sampled_from([1, 2])),
        "shapes": [wide, *draw(st.permutations(narrow))[: draw(st.integers(0, 4))]],
        "tiles": draw(sampled_from([[[1, 1]], [[4, 8], [2, 2]], [[3, 5]]])),
        "prologue_cycles": draw(sampled_from([0, 3])),
        "epilogue_cycles": draw(sampled_from([0, 5])),
    }
    return mma | draw(sampled_from([{}, {"fidelity": "low"}]))


def drawn_routers(draw: Draw, width: int, link: float, channels: int = 1) -> dict[str, Any]:
    """The section `flit` for banks and links of so many bytes, with at least so many virtual channels."""
    flit = draw(sampled_from([None, None, 8, 16, 64, 5]))
    packet = draw(st.integers(1, 5))
    nbytes = packet * (flit or -(-int(link * 2) // 2))
    spec: dict[str, Any] = {
        "packet_flits": packet,
        "window_packets": 1 + max(1, -(-width // max(nbytes, 1))) + draw(st.integers(0, 4)),
        "channels": draw(st.integers(channels, 4)),
        "depth": draw(st.integers(1, 4)),
        "switch_cycles": draw(st.integers(0, 2)),
        "credit_cycles": draw(st.integers(0, 2)),
    }
    return spec if flit is None else spec | {"flit_bytes": flit}


def _ve(draw: Draw) -> dict[str, Any]:
    ve = {
        "engines": draw(st.integers(1, 3)),
        "lanes": draw(sampled_from([1, 5, 16, 100])),
        "ops_per_lane": draw(st.integers(1, 2)),
        "f_a": draw(sampled_from([{8: 1}, {8: 1, 4: 1.3, 16: 0.5}, {}])),
        "init_cycles": draw(sampled_from([0, 2, 8])),
        "finalize_cycles": draw(sampled_from([0, 4])),
        "reduction_pipeline": draw(sampled_from([0, 4, 8])),
        "sfu": draw(sampled_from(SFU_TABLES)),
        "spm_traffic": draw(sampled_from([True, True, True, False])),
    }
    costs = {"op_cost": {"exp": 4, "softmax": 2.5, "add": 3}}
    ve |= draw(sampled_from([{}, {}, costs, {"clock_ratio": "2/3"}, {"reduction_trees": 3}]))
    return _with_period(draw, ve)


def _with_period(draw: Draw, section: dict[str, Any]) -> dict[str, Any]:
    period = draw(sampled_from([None, None, None, 1, 2, 3, 5]))
    return section if period is None else {**section, "period": period}
