"""The map of addresses, at its edges: which memory, which slice, and what is not an address."""

from __future__ import annotations

import pytest

from kernbench.common.errors import InputError
from kernbench.common.naming import in_io
from kernbench.policy.routing import AddressResolver, VirtualMap, VirtualRange
from tests.topologies import memories


# Windows: HBM 12 KiB in 16 KiB = 0x4000, 4 of them; SRAM 0x400, 4 of them, from 0x10000; scratchpads 0x4000, 8 of them,
# from 0x11000 rounded up to 0x14000, to 0x34000. A slice is 3 KiB = 0xc00.
@pytest.mark.parametrize(
    ("address", "holder"),
    [
        (0x0, "sip0.cube0.hbm_ctrl"),
        (0x2FFF, "sip0.cube0.hbm_ctrl"),
        (0x4000, "sip0.cube1.hbm_ctrl"),
        (0xC000, "sip1.cube1.hbm_ctrl"),
        (0x10000, "sip0.cube0.sram"),
        (0x10FFF, "sip1.cube1.sram"),
        (0x14000, "sip0.cube0.pe0.pe_tcm"),
        (0x18000, "sip0.cube0.pe1.pe_tcm"),
        (0x1C000, "sip0.cube1.pe0.pe_tcm"),
        (0x33FFF, "sip1.cube1.pe1.pe_tcm"),
    ],
)
def test_an_address_names_its_owner(address: int, holder: str) -> None:
    assert AddressResolver(memories()).resolve(address) == holder


MAP = "the map is hbm_ctrl [0x0, 0x10000), sram [0x10000, 0x11000), pe_tcm [0x14000, 0x34000)"


@pytest.mark.parametrize(
    ("address", "message"),
    [
        (-1, f"machine: the address -0x1 is in no memory; {MAP}"),
        (0x11000, f"machine: the address 0x11000 is in no memory; {MAP}"),
        (0x34000, f"machine: the address 0x34000 is in no memory; {MAP}"),
        (0x3000, "machine: the address 0x3000 is past sip0.cube0.hbm_ctrl, which ends before 0x3000"),
        (0xFFFF, "machine: the address 0xffff is past sip1.cube1.hbm_ctrl, which ends before 0xf000"),
    ],
)
def test_what_is_no_address(address: int, message: str) -> None:
    with pytest.raises(InputError) as caught:
        AddressResolver(memories()).resolve(address)
    assert str(caught.value) == message


def test_slices_and_back() -> None:
    resolver = AddressResolver(memories())
    assert resolver.slice_of(0) == (0, 0, 0, 0)
    assert resolver.slice_of(0xBFF) == (0, 0, 0, 0xBFF)
    assert resolver.slice_of(0xC00) == (0, 0, 1, 0)
    assert resolver.slice_of(0xC000 + 3 * 0xC00 + 5) == (1, 1, 3, 5)
    assert resolver.address(1, 1, 3, 5) == 0xC000 + 3 * 0xC00 + 5
    assert resolver.address(0, 1, 2) == 0x4000 + 2 * 0xC00
    with pytest.raises(InputError) as caught:
        resolver.slice_of(0x10400)
    assert str(caught.value) == "machine: the address 0x10400 is in sip0.cube1.sram, and slices are of HBM"


@pytest.mark.parametrize(
    ("place", "message"),
    [
        ((2, 0, 0, 0), "sip = 2, but it must be 0 to 1"),
        ((0, -1, 0, 0), "cube = -1, but it must be 0 to 1"),
        ((0, 0, 4, 0), "slice = 4, but it must be 0 to 3"),
        ((0, 0, 0, 0xC00), "offset = 3072, but it must be 0 to 3071"),
    ],
)
def test_places_of_hbm_that_there_are_not(place: tuple[int, int, int, int], message: str) -> None:
    with pytest.raises(InputError) as caught:
        AddressResolver(memories()).address(*place)
    assert str(caught.value) == f"machine: address of HBM: {message}"


def test_the_base_of_a_memory_is_its_first_address() -> None:
    topology = memories()
    resolver = AddressResolver(topology)
    held = [one.id for one in topology.nodes if one.kind in ("hbm_ctrl", "sram", "pe_tcm")]
    assert [resolver.resolve(resolver.base(name)) for name in held] == held
    assert resolver.base("sip1.cube0.pe1.pe_tcm") == 0x14000 + 5 * 0x4000
    for name in ("sip0.cube0.m_cpu", "sip9.cube0.sram"):
        with pytest.raises(InputError) as caught:
            resolver.base(name)
        assert str(caught.value) == f"machine: {name} holds no memory; memories are hbm_ctrl, sram, pe_tcm"


def test_processors_and_endpoints() -> None:
    resolver = AddressResolver(memories())
    assert resolver.find_m_cpu(1, 0) == "sip1.cube0.m_cpu"
    assert resolver.find_pcie_ep(1) == "sip1.io1.pcie_ep"  # the first in the topology's order
    assert resolver.find_io_cpu(0) == "sip0.io1.io_cpu"
    assert resolver.find_all_pcie_eps() == [in_io(sip, io, "pcie_ep") for sip in (0, 1) for io in (1, 0)]


def test_what_the_system_does_not_have() -> None:
    resolver = AddressResolver(memories())
    size = "the system has 2 SIPs x 2 cubes x 2 PEs, each counted from 0"
    calls = {
        "m_cpu at SIP 0, cube 2": lambda: resolver.find_m_cpu(0, 2),
        "pcie_ep at SIP 2": lambda: resolver.find_pcie_ep(2),
        "io_cpu at SIP -1": lambda: resolver.find_io_cpu(-1),
    }
    for what, call in calls.items():
        with pytest.raises(InputError) as caught:
            call()
        assert str(caught.value) == f"machine: there is no {what}; {size}"


def test_a_map_past_63_bits_is_refused() -> None:
    hbm = {"slices": 4, "channels": 4, "capacity_bytes": 2**59 + 4}  # x 4 stacks: below 2^62, and their windows 2^62
    with pytest.raises(InputError) as caught:
        AddressResolver(memories(cube={"pes": 2, "hbm": hbm, "sram": {"bytes": 2**61}}))
    assert str(caught.value) == "machine: its memories take addresses of 64 bits, and 63 is the limit"


# Virtual addresses ------------------------------------------------------------------------------------------------


def test_virtual_addresses_are_translated_within_one_range() -> None:
    space = VirtualMap([VirtualRange(0x5000, 0x100, 0x40, "kv"), VirtualRange(0x1000, 0x9000, 0x1000, "weights")])
    assert [item.name for item in space] == ["weights", "kv"]
    assert space.translate(0x1000) == 0x9000
    assert space.translate(0x1FFF) == 0x9FFF
    assert space.translate(0x5010, 0x30) == 0x110
    assert AddressResolver(memories()).resolve(0x5010, through=space) == "sip0.cube0.hbm_ctrl"
    assert AddressResolver(memories()).slice_of(0x1000, through=space) == (1, 0, 1, 0x400)


@pytest.mark.parametrize(
    ("address", "nbytes", "message"),
    [
        (0xFFF, 1, "the address 0xfff is in no range; the nearest is weights [0x1000, 0x2000)"),
        (0x2000, 1, "the address 0x2000 is in no range; the nearest are weights [0x1000, 0x2000) and [0x5000, 0x5040)"),
        (0x9999, 1, "the address 0x9999 is in no range; the nearest is [0x5000, 0x5040)"),
        (0x5010, 0x31, "the 49 bytes at 0x5010 pass the end of [0x5000, 0x5040); translate each range separately"),
    ],
)
def test_addresses_that_are_not_mapped(address: int, nbytes: int, message: str) -> None:
    ranges = [VirtualRange(0x5000, 0x100, 0x40), VirtualRange(0x1000, 0x9000, 0x1000, "weights")]
    with pytest.raises(InputError) as caught:
        VirtualMap(ranges, name="kernel 3").translate(address, nbytes)
    assert str(caught.value) == f"kernel 3: {message}"


def test_an_empty_map_has_no_range() -> None:
    with pytest.raises(InputError) as caught:
        VirtualMap().translate(5)
    assert str(caught.value) == "virtual map: the address 0x5 is in no range; it has none"


def test_ranges_that_cannot_be() -> None:
    ranges = [VirtualRange(0, 0, 16, "a"), VirtualRange(15, 64, 16, "b"), VirtualRange(31, 0, 0), VirtualRange(-8, -1, 4)]
    with pytest.raises(InputError) as caught:
        VirtualMap(ranges)
    assert str(caught.value).split("\n") == [
        "virtual map: [-0x8, -0x4): virtual = -8, but it must be at least 0",
        "virtual map: [-0x8, -0x4): physical = -1, but it must be at least 0",
        "virtual map: [0x1f, 0x1f): nbytes = 0, but it must be at least 1",
        "virtual map: b [0xf, 0x1f): it overlaps a [0x0, 0x10); give each virtual address one range",
    ]


def test_ranges_may_share_what_they_stand_for() -> None:
    space = VirtualMap([VirtualRange(0, 0x40, 16), VirtualRange(16, 0x40, 16)])
    assert space.translate(3) == space.translate(19) == 0x43
