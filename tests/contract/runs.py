"""Small machines and programs for components, and the ways to run them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from hypothesis import strategies as st

from kernbench import Machine, load_config, load_program
from tests.contract import engines as in_python
from tests.contract.engines import Action

OLD = (in_python.OPEN, in_python.OPEN, in_python.ASK, in_python.SUBMIT, in_python.EMIT, in_python.CLOSE)
WHAT = (*OLD, in_python.WATCH, in_python.SHAPE, in_python.COUNT, in_python.STARTED)
Make = Callable[[], dict[str, Any]]


def machine(**changes: Any) -> dict[str, Any]:
    """Two DRAM channels of 8 B/cycle, a mesh, 16 banks."""
    base: dict[str, Any] = {
        "max_cycles": 5000,
        "dram": {"channels": 2, "bus_width_bytes": 8, "dram_burst_cycles": 1, "peak_bw_bytes_per_cycle": 8},
        "spm": {"num_banks": 16, "bank_width_bytes": 16, "bank_size_bytes": 1024},
        "te": {"engines": 2, "macs_per_cycle": 64},
        "ve": {"engines": 1},
    }
    return {**base, **changes}


def gemm(**fields: Any) -> dict[str, Any]:
    places = {f"{tile}_{what}": 0 for tile in ("ifm", "wgt", "ofm") for what in ("bank", "offset")}
    sizes = {"m": 8, "n": 8, "k": 8, "qbits_weight": 8, "qbits_activation": 8}
    return {"opcode": "TE_GEMM_TILE", **sizes, **places, **fields}


def load(**fields: Any) -> dict[str, Any]:
    what = {"tensor_role": "weight", "qbits": 8, "dram_addr": 0, "num_elements": 512, "spm_bank": 0, "spm_offset": 0}
    return {"opcode": "DMA_LOAD_TILE", **what, **fields}


def program(*entries: dict[str, Any]) -> dict[str, Any]:
    return {"metadata": {"version": "1.0", "name": "drawn"}, "cmdq": list(entries)}


def new(described: dict[str, Any], queue: dict[str, Any], make: Make, walk: str | None = None) -> Machine:
    return Machine(load_config(described), load_program(queue), make(), walk=walk)


def outcome(run: Machine) -> dict[str, Any]:
    """All that a run says of itself."""
    result = run.result().to_dict()
    return {key: result.get(key) for key in ("status", "cycles", "entries", "counters", "components", "failure", "deadlock")}


@st.composite
def scripts(draw: Any, channels: int = 2) -> list[Action]:
    """Flows over two channels, asks for banks, jobs for the DMA engine, the second TE, the VE and the component itself."""
    at, actions = 0, []
    for k in range(draw(st.integers(1, 12))):
        at += draw(st.sampled_from([0, 0, 1, 2, 5, 17, 60]))
        what = draw(st.sampled_from(WHAT))
        if what == in_python.OPEN:
            path = draw(st.sampled_from([0, 1, 1000] if channels > 1 else [0]))
            actions.append((at, what, draw(st.sampled_from([1, 7, 8, 100, 1000])), path, draw(st.integers(1, 3))))
        elif what == in_python.ASK:
            masks = st.integers(0, 0xFFFF)
            reads = draw(masks)
            actions.append((at, what, reads, draw(masks) if reads else 1 + draw(st.integers(0, 0xFFFE)), 0))
        elif what == in_python.SUBMIT:
            kind, engine = draw(st.sampled_from([(0, 0), (1, 1), (2, 0), (6, 0)]))
            actions.append((at, what, kind, engine, draw(st.integers(1, 9))))
        elif what == in_python.CLOSE:
            opened = [i for i, action in enumerate(actions) if action[1] == in_python.OPEN]
            if opened:
                actions.append((at, what, draw(st.sampled_from(opened)), 0, 0))
        elif what == in_python.STARTED:
            submitted = [i for i, action in enumerate(actions) if action[1] == in_python.SUBMIT]
            if submitted:
                actions.append((at, what, draw(st.sampled_from(submitted)), 0, 0))
        elif what in (in_python.WATCH, in_python.SHAPE, in_python.COUNT):
            actions.append((at, what, draw(st.integers(0, channels - 1)), draw(st.integers(1, 8)), 0))
        else:
            actions.append((at, what, k, 0, 0))
    return actions
