"""Machines with systolic arrays whose jobs overlap, and programs that chain products on them."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from tests.machine_strategies import Draw, machines
from tests.sampled import sampled_from
from tests.strategies import Site, connect, crowds, name_entries, te_tile

MAX_PRODUCTS = 12


@st.composite
def array_systems(draw: Draw) -> tuple[dict[str, Any], dict[str, Any]]:
    """A machine whose jobs overlap, and a program of products, beside a few other jobs. Few products wait for others."""
    machine = draw(machines())
    machine["te"] = {
        **{key: value for key, value in machine.get("te", {}).items() if key not in ("mma", "operand_bytes_per_cycle")},
        "timing": "systolic",
        "rows": draw(sampled_from([1, 2, 5, 8, 13])),
        "cols": draw(sampled_from([1, 3, 8])),
        "dataflow": draw(sampled_from(["os", "ws", "is"])),
        "fill": "overlapped",
        "drain": "overlapped",
        "engines": draw(sampled_from([1, 1, 2])),
        "finalize_cycles": draw(sampled_from([0, 0, 3, 40])),
        **draw(sampled_from([{}, {}, {"operand_bytes_per_cycle": 2.5}, {"operand_bytes_per_cycle": 20}])),
    }
    site = Site(draw, machine)
    entries = [te_tile(site) for _ in range(draw(st.integers(1, MAX_PRODUCTS)))]
    entries += draw(crowds(machine, work=True, least=0))["cmdq"]
    entries = draw(st.permutations(entries))
    name_entries(draw, entries)
    if draw(sampled_from([False, False, True])):
        connect(draw, entries)
    return machine, {"metadata": {"version": "1.0", "name": "drawn"}, "cmdq": entries}
