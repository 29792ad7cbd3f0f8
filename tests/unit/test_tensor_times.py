"""Times of systolic arrays with overlapped fill and of MMA engines: worked by hand, and against the slow oracle."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernbench import Machine, load_program
from kernbench.common.errors import InputError
from kernbench.components.service import Tiling, mma_waves, te_body, ve_service
from kernbench.config import load_config
from tests.machine_strategies import drawn_mma
from tests.oracles.ref_engines import te_body as slow_body

ARRAY: dict[str, Any] = {"timing": "systolic", "rows": 128, "cols": 128}
A100: dict[str, Any] = {
    "cores": 108,
    "shapes": [
        {"qbits_weight": 16, "qbits_activation": 16, "m": 16, "n": 8, "k": 16, "cycles": 2},
        {"qbits_weight": 8, "qbits_activation": 8, "m": 16, "n": 8, "k": 32, "cycles": 2},
    ],
    "tiles": [[128, 256], [128, 128], [64, 64]],
}


def body(te: dict[str, Any], m: int, n: int, k: int, bits: int = 16, tiling: Tiling | None = None) -> int:
    return te_body(load_config({"te": te}).te, m, n, k, bits, bits, tiling)


@pytest.mark.parametrize(
    ("dataflow", "cycles"),
    [
        ("os", 15 * 1024 + 1024 + 254 - 1),  # 16 folds: each streams k
        ("ws", 128 + 63 * 256 + 256 + 254 - 1),  # 64 folds: each streams m, the first weights come before
        ("is", 128 + 15 * 1024 + 1024 + 254 - 1),  # 16 folds: each streams n
    ],
)
def test_overlapped_folds(dataflow: str, cycles: int) -> None:
    te = {**ARRAY, "dataflow": dataflow, "fill": "overlapped"}
    assert body(te, 256, 1024, 1024) == cycles
    exposed = {**te, "fill": "exposed"}
    assert body(te, 100, 100, 100) == body(exposed, 100, 100, 100)  # one fold
    assert body(te, 256, 1024, 1024) < body(exposed, 256, 1024, 1024)


@pytest.mark.parametrize("dataflow", ["os", "ws", "is"])
def test_a_fold_is_not_shorter_than_the_array_is_tall(dataflow: str) -> None:
    te = {**ARRAY, "dataflow": dataflow, "fill": "overlapped"}
    short = {"os": (256, 128, 8), "ws": (8, 128, 256), "is": (128, 8, 256)}[dataflow]  # two folds that stream 8
    assert body(te, *short) == (0 if dataflow == "os" else 128) + 128 + 8 + 254 - 1


def test_operands_that_come_slowly_stall_the_array() -> None:
    te = {**ARRAY, "dataflow": "ws", "operand_bytes_per_cycle": 128}
    # two folds; 2 bytes an element: 256 rows of 128 elements stream in 512 cycles, 128 x 128 weights are loaded in 256
    assert body(te, 256, 128, 256) == 2 * (256 + 512 + 254) - 1
    assert body({**te, "fill": "overlapped"}, 256, 128, 256) == 256 + (512 + 256) + 512 + 254 - 1
    assert body({**te, "operand_bytes_per_cycle": 1 << 20}, 256, 128, 256) == body({**ARRAY, "dataflow": "ws"}, 256, 128, 256)


def test_waves_of_blocks() -> None:
    te = {"timing": "mma", "mma": A100}
    # 128 x 256 by 8,192: 8 * 32 * 512 instructions of 2 cycles; 64 * 16 blocks on 108 cores are 10 waves
    assert body(te, 8192, 4096, 8192, tiling=Tiling(128, 256)) == 10 * 8 * 32 * 512 * 2
    assert body(te, 8192, 4096, 8192) == 19 * 8 * 16 * 512 * 2  # 19 waves of half as much are shorter
    square = {"timing": "mma", "mma": {**A100, "tiles": [[128, 128]]}}
    heights = (1, 128, 129, 108 * 128, 108 * 128 + 1)
    assert [body(square, m, 128, 64) for m in heights] == [1024, 1024, 1024, 1024, 2048]  # wave quantisation
    waves = mma_waves(load_config({"te": te}).te.mma, 256, 256, 4096, 16, 16)  # type: ignore[arg-type]
    assert (waves.tiling, waves.blocks, waves.count, waves.full, waves.last) == (Tiling(64, 64), 16, 1, 0, 1)


def test_blocks_on_a_core_share_its_tensor_units_and_overlap_the_rest() -> None:
    mma = {**A100, "cores": 2, "blocks_per_core": 2, "tiles": [[16, 8]], "prologue_cycles": 100, "epilogue_cycles": 10}
    te = {"timing": "mma", "mma": mma}
    assert body(te, 16, 8, 16) == 100 + 2 + 10
    assert body(te, 4 * 16, 8, 16) == 100 + 2 * 2 + 10  # two on each core
    assert body(te, 3 * 16, 8, 16) == 100 + 2 * 2 + 10  # the fullest core decides
    assert body(te, 5 * 16, 8, 16) == (100 + 2 * 2 + 10) + (100 + 2 + 10)


def test_a_split_of_k_makes_more_blocks_of_fewer_steps() -> None:
    te = {"timing": "mma", "mma": A100}
    assert body(te, 128, 256, 8192, tiling=Tiling(128, 256)) == 8 * 32 * 512 * 2
    assert body(te, 128, 256, 8192, tiling=Tiling(128, 256, 4)) == 8 * 32 * 128 * 2
    assert body(te, 128, 256, 100, tiling=Tiling(128, 256, 3)) == 8 * 32 * 3 * 2  # 34 of k in steps of 16


def test_the_narrowest_instruction_that_holds_both_operands() -> None:
    te = load_config({"te": {"timing": "mma", "mma": A100}}).te
    assert te.rate(8, 8) == 2 * te.rate(16, 16) == 2 * te.rate(4, 16) == 108 * 2048
    with pytest.raises(
        InputError, match="no instruction that adds up in 32 bits takes weights of 32 bits and activations of 16"
    ):
        te.rate(32, 16)


def test_accumulator_and_fidelity_choose_among_instructions() -> None:
    shape = {"qbits_weight": 8, "qbits_activation": 8, "m": 32, "n": 32, "k": 32}
    shapes = [
        {**shape, "cycles": 16, "fidelity": "LoFi"},
        {**shape, "cycles": 64, "fidelity": "HiFi4"},
        {**shape, "cycles": 8, "qbits_accumulator": 16},
    ]
    rates = []
    for chosen in ({"fidelity": "LoFi"}, {"fidelity": "HiFi4"}, {"qbits_accumulator": 16}):
        rates.append(load_config({"te": {"timing": "mma", "mma": {"cores": 1, "shapes": shapes, **chosen}}}).te.rate(8, 8))
    assert rates == [2048, 512, 4096]
    with pytest.raises(
        InputError, match="one must take operands of 8 bits or more, with 32 bits of accumulator and no fidelity"
    ):
        load_config({"te": {"timing": "mma", "mma": {"cores": 1, "shapes": shapes}}})


def test_sustained_clocks_and_costs_of_ops() -> None:
    assert body({"macs_per_cycle": 100, "f_a": {}, "f_w": {}, "clock_ratio": "3/4"}, 10, 10, 10) == 14  # 10 / 0.75 rounded up
    ve = load_config({"ve": {"lanes": 10, "op_cost": {"exp": 2.5, "softmax": 3}, "reduction_pipeline": 0}}).ve
    assert ve_service(ve, "exp", 100, 1, 8).body == 25
    assert ve_service(ve, "tanh", 100, 1, 8).body == 10
    assert ve_service(ve, "softmax", 100, 1, 8).body == 2 * 30 + 2 * 7
    slow = load_config({"ve": {"lanes": 10, "clock_ratio": 0.5}}).ve
    assert ve_service(slow, "add", 100, 1, 8).body == 20


PLACES = {f"{tile}_{what}": 0 for tile in ("ifm", "wgt", "ofm") for what in ("bank", "offset")}


def one(te: dict[str, Any], **fields: Any) -> Machine:
    entry = {"opcode": "TE_GEMM_TILE", "m": 8, "n": 8, "k": 8, "qbits_weight": 8, "qbits_activation": 8, **PLACES, **fields}
    return Machine(load_config({"te": te}), load_program({"metadata": {"version": "1.0"}, "cmdq": [entry]}))


@pytest.mark.parametrize(
    ("te", "fields", "says"),
    [
        ({"timing": "mma", "mma": A100}, {"tile_m": 4}, "tile_m and tile_n go together, and split_k needs both"),
        ({"timing": "mma", "mma": A100}, {"split_k": 4}, "tile_m and tile_n go together, and split_k needs both"),
        ({"timing": "mma", "mma": A100}, {"qbits_weight": 64}, "no instruction that adds up in 32 bits takes weights of 64"),
    ],
)
def test_products_that_an_engine_cannot_do_are_refused(te: dict[str, Any], fields: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        one(te, **fields)


def test_a_program_with_tiles_also_runs_on_engines_without_blocks() -> None:
    assert one({}, tile_m=4, tile_n=4).run() == one({}).run()


@pytest.mark.parametrize(
    ("te", "says"),
    [
        ({"fill": "overlapped"}, 'te.fill = "overlapped", but it is allowed only with timing systolic'),
        ({"operand_bytes_per_cycle": 8}, "te.operand_bytes_per_cycle = 8, but it is allowed only with timing systolic"),
        ({"mma": A100}, "te.mma: it is allowed only with timing mma"),
        ({"timing": "mma"}, "te.mma: it is required with timing mma"),
        ({"timing": "mma", "mma": {**A100, "tiles": [[0, 1]]}}, "it must be at least 1"),
        ({"clock_ratio": 2}, "te.clock_ratio = 2, but it must be at most 1"),
    ],
)
def test_machines_with_keys_of_another_timing_are_refused(te: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        load_config({"te": te})


@st.composite
def tensor_engines(draw: Any) -> dict[str, Any]:
    """Sections `te` of one array or of MMA cores, with another clock."""
    clock = {"clock_ratio": draw(st.sampled_from([1, 0.7, "1/3"]))}
    if draw(st.booleans()):
        return {"timing": "mma", "mma": drawn_mma(draw), **clock}
    te = {"timing": "systolic", "rows": draw(st.integers(1, 9)), "cols": draw(st.integers(1, 9))}
    te |= {"dataflow": draw(st.sampled_from(["os", "ws", "is"])), "fill": draw(st.sampled_from(["exposed", "overlapped"]))}
    return te | clock | draw(st.sampled_from([{}, {"operand_bytes_per_cycle": 3}, {"operand_bytes_per_cycle": "1/7"}]))


@given(tensor_engines(), st.data())
def test_bodies_are_those_of_the_oracle(te: dict[str, Any], data: st.DataObject) -> None:
    m, n, k = (data.draw(st.integers(1, 40)) for _ in range(3))
    weight, activation = (data.draw(st.sampled_from([1, 2, 4, 8, 16, 32, 64])) for _ in range(2))
    entry = {"m": m, "n": n, "k": k, "qbits_weight": weight, "qbits_activation": activation}
    tiling = None
    if te["timing"] == "mma" and data.draw(st.booleans()):
        tiling = Tiling(*(data.draw(st.integers(1, 9)) for _ in range(3)))
        entry |= {"tile_m": tiling.tile_m, "tile_n": tiling.tile_n, "split_k": tiling.split_k}
    assert te_body(load_config({"te": te}).te, m, n, k, weight, activation, tiling) == slow_body(entry, te)
