"""The layout of a cube: against a slow reference at random, by hand for one cube, and its refusals."""

# ruff: noqa: E501  (messages stand in one piece, so that they can be searched for)
from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from kernbench.common.errors import InputError
from kernbench.common.naming import router_place
from kernbench.config import SystemConfig, load_config
from kernbench.topology.mesh_gen import lay_out, to_footprint
from tests.oracles.ref_cube import RefCube

MM = st.builds(Fraction, st.integers(0, 40), st.sampled_from([1, 2, 3]))


def system(cube: dict[str, Any], **sections: Any) -> SystemConfig:
    return load_config({"schema": "kernbench/system/1", "cube": cube, **sections}, kind=SystemConfig)


def cube_of(ref: RefCube) -> dict[str, Any]:
    return {
        "width_mm": ref.width, "height_mm": ref.height, "pes": ref.pes,
        "mesh": {"rows": ref.rows, "cols": ref.cols}, "ucie": {"ports_per_side": ref.ports},
        "hbm": {"width_mm": ref.hbm_width, "height_mm": ref.hbm_height, "slices": 1},
    }  # fmt: skip


CUBES = st.builds(
    RefCube, MM.map(lambda x: x + 1), MM.map(lambda x: x + 1), MM, MM,
    st.integers(1, 6), st.integers(1, 12), st.integers(1, 20), st.integers(0, 3),
)  # fmt: skip


@settings(deadline=None)
@given(CUBES)
def test_the_layout_is_that_of_the_reference(ref: RefCube) -> None:
    assume(ref.hbm_width <= ref.width and ref.hbm_height <= ref.height)
    assume(ref.grid(ref.rows, ref.cols) and ref.grid(9, 9))  # there is a router, and place around the HBM
    mesh = lay_out(system(cube_of(ref)))
    assert {router_place(name): place for name, place in mesh.routers.items()} == ref.grid(ref.rows, ref.cols)
    links = [(router_place(a), router_place(b)) for a, b in mesh.links]
    assert len(links) == len(set(links)) and set(links) == ref.links()
    places = {**ref.inner(), **ref.port_places()}
    assert {name: part.place for name, part in mesh.parts.items()} == places
    assert {name: part.router for name, part in mesh.parts.items()} == {name: ref.nearest(place) for name, place in places.items()}


def test_the_cube_of_the_presets_by_hand() -> None:
    """A die of 20 mm x 20 mm: four rows and columns at 2.5, 7.5, 12.5 and 17.5 mm; the HBM covers 4.5 mm to 15.5 mm.

    Places for PEs are the same 4 x 4, less the four that are covered: 12, and 10 parts take the 0th, 1st, 3rd, 4th, 5th,
    6th, 7th, 9th, 10th and 11th of them. So two corners' neighbours are free: r0c2 and r3c0.
    """
    mesh = lay_out(load_config("single_cube", kind=SystemConfig))
    assert list(mesh.routers) == [
        "r0c0", "r0c1", "r0c2", "r0c3", "r1c0", "r1c3", "r2c0", "r2c3", "r3c0", "r3c1", "r3c2", "r3c3",
    ]  # fmt: skip
    assert mesh.routers["r1c3"] == (Fraction(35, 2), Fraction(15, 2))
    assert ("r1c0", "r1c3") in mesh.links and ("r0c1", "r3c1") in mesh.links  # over the HBM
    assert len(mesh.links) == 4 * (3 + 1)  # outer rows and columns have 3, the inner ones 1
    at = {name: part.router for name, part in mesh.parts.items()}
    assert at == {
        "pe0": "r0c0", "pe1": "r0c1", "pe2": "r0c3", "pe3": "r1c0", "m_cpu": "r1c3",
        "sram": "r2c0", "pe4": "r2c3", "pe5": "r3c1", "pe6": "r3c2", "pe7": "r3c3",
        # In the middle of a side: r0c1 and r0c2 are equally near, 2.5 mm + 2.5 mm, and r0c1 is first by name.
        "ucie_n0": "r0c1", "ucie_e0": "r1c3", "ucie_s0": "r3c1", "ucie_w0": "r1c0",
    }  # fmt: skip
    assert all(mesh.parts[name].place == mesh.routers[at[name]] for name in at if not name.startswith("ucie"))


def test_the_edge_of_the_footprint_is_outside() -> None:
    """Two rows of routers at 5 mm and 15 mm: an HBM of 10 mm ends there, one of 10.1 mm covers them."""
    cube: dict[str, Any] = {"mesh": {"rows": 2, "cols": 4}, "hbm": {"width_mm": 20, "height_mm": 10}}
    assert len(lay_out(system(cube)).routers) == 8
    cube["hbm"] = {"width_mm": 15, "height_mm": "10.1"}
    assert list(lay_out(system(cube)).routers) == ["r0c0", "r0c3", "r1c0", "r1c3"]  # at 2.5 and 17.5 mm


@pytest.mark.parametrize(("width", "height"), [(10, 20), (20, 10), (10, 10)])
def test_a_place_at_the_edge_of_the_footprint_is_free(width: int, height: int) -> None:
    """An HBM from 5 mm to 15 mm one way: a grid of 2 x 2, at 5 mm and 15 mm, has room for four parts."""
    mesh = lay_out(system({"pes": 2, "hbm": {"width_mm": width, "height_mm": height, "slices": 2}}))
    assert {name: mesh.parts[name].place for name in ("pe0", "m_cpu", "sram", "pe1")} == {
        "pe0": (5, 5), "m_cpu": (15, 5), "sram": (5, 15), "pe1": (15, 15),
    }  # fmt: skip


def test_an_odd_pe_stands_before_the_processor() -> None:
    """Five parts on the grid of 3 x 3 without an HBM: the 0th, 2nd, 4th, 6th and 8th place, two PEs before the M_CPU."""
    mesh = lay_out(system({"pes": 3, "hbm": {"width_mm": 0, "height_mm": 0, "slices": 1}, "width_mm": 6, "height_mm": 6}))
    assert {name: part.place for name, part in mesh.parts.items() if not name.startswith("ucie")} == {
        "pe0": (1, 1), "pe1": (5, 1), "m_cpu": (3, 3), "sram": (1, 5), "pe2": (5, 5),
    }  # fmt: skip


def test_names_decide_as_text() -> None:
    """The port at 10 mm is as near to column 9 as to column 10, at 9.5 mm and 10.5 mm; as text r0c10 comes before r0c9."""
    mesh = lay_out(system({"mesh": {"rows": 1, "cols": 20}, "hbm": {"width_mm": 0, "height_mm": 0}, "width_mm": 20}))
    assert mesh.parts["ucie_n0"].router == "r0c10"


def test_distance_to_the_footprint() -> None:
    cube = load_config("single_cube", kind=SystemConfig).cube
    mm = {place: to_footprint(cube, (Fraction(place[0]), Fraction(place[1]))) for place in ((0, 0), (10, 0), (3, 10), (5, 5), (20, 16))}
    # The footprint is 4.5 mm to 15.5 mm both ways.
    assert mm == {(0, 0): 9, (10, 0): Fraction(9, 2), (3, 10): Fraction(3, 2), (5, 5): 0, (20, 16): 5}


REFUSALS = [
    ({"mesh": {"rows": 2, "cols": 2}},
     "machine: cube.hbm: the HBM covers 11 mm x 11 mm: all 2 x 2 routers of the mesh would stand inside it: none is left for PE 0; "
     "make the HBM smaller or the mesh finer"),
    ({"hbm": {"width_mm": 20, "height_mm": "19.5"}},
     "machine: cube.hbm: the HBM covers 20 mm x 19.5 mm: all 4 x 4 routers of the mesh would stand inside it: none is left for PE 0; "
     "make the HBM smaller or the mesh finer"),
    # 64 rows leave one at 0.16 mm at each edge; 128 rows leave one of 128 places there, 256 in all, for 301 parts.
    ({"mesh": {"rows": 64, "cols": 64}, "pes": 299, "hbm": {"width_mm": 20, "height_mm": "19.6", "slices": 8}},
     "machine: cube.hbm: the HBM covers 20 mm x 19.6 mm: the cube has no room for 299 PEs; make the HBM smaller or the cube bigger"),
]  # fmt: skip


@pytest.mark.parametrize(("cube", "line"), REFUSALS)
def test_an_hbm_that_leaves_no_place_is_refused(cube: dict[str, Any], line: str) -> None:
    with pytest.raises(InputError) as caught:
        lay_out(system(cube))
    assert str(caught.value) == line


def test_as_many_pes_as_there_is_place_for() -> None:
    cube = {"mesh": {"rows": 64, "cols": 64}, "hbm": {"width_mm": 20, "height_mm": "19.6", "slices": 2}}
    assert len(lay_out(system({**cube, "pes": 254})).parts) == 254 + 2 + 4
