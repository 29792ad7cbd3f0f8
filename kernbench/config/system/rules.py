"""Rules between the fields of a system, which checks of single values cannot test."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from typing import TYPE_CHECKING

from kernbench.common.json_shapes import counted
from kernbench.common.naming import parse_pe
from kernbench.common.units import plain_number
from kernbench.config.cache import cache_rules
from kernbench.config.fields import WIDE_LIMIT
from kernbench.config.routers import Routers, router_rules
from kernbench.config.rules import BrokenRule, control_rules, engine_rules, engine_weight, rate_rule
from kernbench.config.system.dimensions import DIMENSIONS, SWITCH, link_of, sizes_of, switched_lines
from kernbench.config.system.links import all_sip_pairs, rails_of
from kernbench.config.system.parts import MAX_DIMENSIONS, NIC, PORT, RAIL

if TYPE_CHECKING:
    from kernbench.config.system import SystemConfig

MAX_NODES = 500_000  # limit of the nodes of a topology: a typing error must not request gigabytes


def system_rules(config: SystemConfig) -> list[BrokenRule]:
    """Every rule between fields that `config` violates, in the order of the file's sections."""
    broken = [*control_rules(config.control), *_package_rules(config), *_io_rules(config)]
    broken += [*_cube_rules(config), *_hbm_rules(config)]
    broken += cache_rules(config.cube.llc, config.allocation, ("cube", "llc"))
    mesh, cached = config.cube.mesh, config.cube.llc is not None
    if mesh.model == "flit":
        link, wide, at = mesh.link.bytes_per_cycle, config.pe.spm.bank_width_bytes, ("cube", "mesh")
        broken += router_rules(mesh.flit or Routers(), config.allocation, link, wide, cached, 2, at, (*at, "flit"))
    parts = engine_rules(config.pe.spm, config.pe.te, config.pe.ve)
    broken += [BrokenRule(("pe", *rule.path), rule.value, rule.rule) for rule in parts]
    broken += _protocol_rules(config)
    if config.pe.dma.codecs:
        broken.append(BrokenRule(("pe", "dma", "codecs"), None, "it is allowed only on one NPU (schema kernbench/npu/1)"))
    return broken or list(_rate_rules(config))


def _protocol_rules(config: SystemConfig) -> Iterator[BrokenRule]:
    """A line of a protocol must have room for its data."""
    queues = config.pe.ipcq
    for name in queues.protocol_names:
        one = queues.protocol(name)
        if one is not None and one.data_bytes > one.line_bytes:
            rule = f"it must be at most the bytes of a line, {one.line_bytes} (line_bytes)"
            yield BrokenRule(("pe", "ipcq", "protocols", name, "data_bytes"), one.data_bytes, rule)


def _package_rules(config: SystemConfig) -> Iterator[BrokenRule]:
    system = config.system
    if system.kind in ("ring", "all_to_all", "switch", DIMENSIONS) and system.rows != 1:
        article = "" if system.kind in ("all_to_all", DIMENSIONS) else "a "
        yield BrokenRule(("system", "rows"), system.rows, f"{article}{system.kind} has one row")
    elif system.cols is None and system.sips % system.rows:
        yield BrokenRule(("system", "rows"), system.rows, f"it must divide the number of SIPs ({system.sips})")
    elif system.cols is not None and system.rows * system.cols != system.sips:
        rule = f"times rows ({system.rows}) it must be the number of SIPs ({system.sips})"
        yield BrokenRule(("system", "cols"), system.cols, rule)
    elif system.kind == "rails" and system.rails.nics and len(system.rails.nics) != config.sip_cols:
        rule = f"it must have a rail for each of {config.sip_cols} columns of SIPs"
        yield BrokenRule(("system", "rails", "nics"), str(list(system.rails.nics)), rule)
    elif not (wrong := list(_dimension_rules(config))):
        yield from _failed_rules(config)
    else:
        yield from wrong
    yield from _slow_rules(config)


def _dimension_rules(config: SystemConfig) -> Iterator[BrokenRule]:
    """The product of the sizes is the number of SIPs, and each dimension has only keys that it uses."""
    system, at = config.system, ("system", "dimensions")
    if system.kind != DIMENSIONS:
        if system.dimensions:
            yield BrokenRule(at, None, f"it is for kind: dimensions, and the kind is {system.kind}")
        return
    if not 1 <= len(system.dimensions) <= MAX_DIMENSIONS:
        rule = f"kind: dimensions needs 1 to {MAX_DIMENSIONS} dimensions, but there are {len(system.dimensions)}"
        yield BrokenRule(at, None, rule)
        return
    sizes = sizes_of(config)
    if prod(sizes) != system.sips:
        product = " x ".join(map(str, sizes))
        rule = f"it must be the product of the sizes of the dimensions, {product} = {prod(sizes)}"
        yield BrokenRule(("system", "sips"), system.sips, rule)
    for number, one in enumerate(system.dimensions):
        if one.kind != SWITCH and one.switch is not None:
            yield BrokenRule((*at, number, "switch"), None, f"a dimension {one.kind} has no switches")


def _failed_rules(config: SystemConfig) -> Iterator[BrokenRule]:
    """A broken link must exist, and must be listed only once."""
    if not config.system.failed:
        return
    links = {frozenset((pair.first, pair.second)) for pair in all_sip_pairs(config)}
    seen: set[frozenset[int]] = set()
    ports = {(number, sip) for number, line in switched_lines(config) for sip in line}
    rails = rails_of(config) if config.system.kind == "rails" else 0
    for i, name in enumerate(config.system.failed):
        nic, rail, port = re.fullmatch(NIC, name), re.fullmatch(RAIL, name), re.fullmatch(PORT, name)
        if port:
            if (int(port[1]), int(port[2])) not in ports:
                rule = f"there is no such link to a switch in a {config.system.kind} of {counted(config.system.sips, 'SIP')}"
                yield BrokenRule(("system", "failed", i), name, rule)
            continue
        if nic or rail:
            row, number = map(int, nic.groups()) if nic else (0, int(rail.group(1)))  # type: ignore[union-attr]
            if row >= config.system.rows or number >= rails:
                rule = f"there is no such NIC or rail in a {config.system.kind} of {config.system.sips} SIPs"
                yield BrokenRule(("system", "failed", i), name, rule)
            continue
        ends = frozenset(map(int, name.split("-")))
        if ends not in links:
            article = "" if config.system.kind == DIMENSIONS else "a "
            rule = f"there is no such link in {article}{config.system.kind} of {counted(config.system.sips, 'SIP')}"
            yield BrokenRule(("system", "failed", i), name, rule)
        elif ends in seen:
            yield BrokenRule(("system", "failed", i), name, "it is named twice")
        seen.add(ends)



def _slow_rules(config: SystemConfig) -> Iterator[BrokenRule]:
    """A slow PE must exist, and must be listed only once."""
    there, seen = config.shape, set[str]()
    for i, value in enumerate(config.system.slow):
        name = value.partition(":")[0]
        if any(number >= most for number, most in zip(parse_pe(name), there, strict=True)):
            yield BrokenRule(("system", "slow", i), value, f"there is no {name}")
        elif name in seen:
            yield BrokenRule(("system", "slow", i), value, "its PE is named twice")
        seen.add(name)


def _io_rules(config: SystemConfig) -> Iterator[BrokenRule]:
    for key in ("name", "side"):
        first: dict[str, int] = {}
        for i, chiplet in enumerate(config.sip.io):
            value = getattr(chiplet, key)
            if value in first:
                what = "two nodes would have one id" if key == "name" else "its ports would serve two chiplets"
                yield BrokenRule(("sip", "io", i, key), value, f"it is the {key} of sip.io[{first[value]}] too: {what}")
            first.setdefault(value, i)


def _cube_rules(config: SystemConfig) -> Iterator[BrokenRule]:
    cube = config.cube
    for key, own, die in (
        ("width_mm", cube.hbm.width_mm, cube.width_mm),
        ("height_mm", cube.hbm.height_mm, cube.height_mm),
    ):
        if own > die:
            rule = f"the cube's {key} is {plain_number(die)}: the HBM does not fit into the cube"
            yield BrokenRule(("cube", "hbm", key), plain_number(own), rule)
    ports = 4 * cube.ucie.ports_per_side
    a_cube = cube.mesh.rows * cube.mesh.cols + ports + 3 + 8 * cube.pes
    nodes = config.system.sips * config.cubes * a_cube
    if nodes > MAX_NODES:
        rule = f"with {config.cubes} cubes a SIP and {cube.pes} PEs a cube it makes {nodes} nodes, and {MAX_NODES} is the limit"
        yield BrokenRule(("system", "sips"), config.system.sips, rule)


def _hbm_rules(config: SystemConfig) -> Iterator[BrokenRule]:
    hbm = config.cube.hbm
    for key in ("channels", "capacity_bytes"):
        value = getattr(hbm, key)
        if value % config.slices:
            given = "cube.hbm.slices" if hbm.slices is not None else "cube.pes, as cube.hbm.slices is absent"
            rule = f"it must be a multiple of the number of slices, {config.slices} ({given})"
            yield BrokenRule(("cube", "hbm", key), value, rule)
    stacks = config.system.sips * config.cubes
    if stacks * hbm.capacity_bytes >= WIDE_LIMIT:
        rule = f"times the number of cubes ({stacks}) it must be below 2^62"
        yield BrokenRule(("cube", "hbm", "capacity_bytes"), hbm.capacity_bytes, rule)


def most_flow_weight(config: SystemConfig) -> int:
    """The largest sum of weights of all concurrent flows.

    A transfer has a flow from each channel of a slice, and one over a cache. Copies by each SIP's host interface, and
    write-backs of a cache to each channel of a stack, are added to the transfers of PEs.
    """
    queues = config.pe.ipcq
    one = engine_weight(config.pe.dma, (0, 1, 2))
    every = config.pes * (one + queues.max_concurrent * queues.weight) + config.system.sips * one
    if config.cube.llc is not None:
        return (config.slice_channels + 1) * config.pe.dma.engines * every + config.cube.hbm.channels
    return config.slice_channels * config.pe.dma.engines * every


def _rate_rules(config: SystemConfig) -> Iterator[BrokenRule]:
    """The terms of every possible rate must stay below 2^31, even if the transfers of all PEs use the same resource."""
    cube, weights = config.cube, [*(channel.weight for channel in config.pe.dma.channels), config.pe.ipcq.weight]
    total = most_flow_weight(config)
    if config.cube.llc is not None:
        weights.append(1)  # weight of its write-backs
        rule = rate_rule(config.allocation, "the last-level cache", config.cube.llc.bw_bytes_per_cycle, weights, total)
        if rule:
            value = plain_number(config.cube.llc.bw_bytes_per_cycle)
            yield BrokenRule(("cube", "llc", "bw_bytes_per_cycle"), value, rule)
    for path, name, capacity in (
        (("system", "link"), "a link between SIPs", config.system.link.bytes_per_cycle),
        *(
            (("system", "dimensions", number, "link"), "a link between SIPs", link_of(config, one).bytes_per_cycle)
            for number, one in enumerate(config.system.dimensions)
            if one.link is not None
        ),
        (("cube", "mesh", "link"), "a mesh link", cube.mesh.link.bytes_per_cycle),
        (("cube", "hbm", "link"), "an HBM link", cube.hbm.link.bytes_per_cycle * config.slices),
        (("cube", "sram"), "the SRAM's link", cube.sram.bytes_per_cycle),
        (("cube", "ucie", "link"), "a UCIe link", cube.ucie.link.bytes_per_cycle),
        (("cube", "ucie", "router"), "a UCIe port's link", cube.ucie.router.bytes_per_cycle),
        (("cube", "m_cpu", "link"), "the M_CPU's link", cube.m_cpu.link.bytes_per_cycle),
        (("io", "pcie", "link"), "a PCIe link", config.io.pcie.link.bytes_per_cycle),
        (("io", "noc"), "an IO chiplet's link", config.io.noc.bytes_per_cycle),
        (("pe", "link"), "a PE's link", config.pe.link.bytes_per_cycle),
        (("cube", "hbm"), "an HBM channel", cube.hbm.capacity),
    ):
        rule = rate_rule(config.allocation, name, capacity, weights, total)
        if rule:
            key = "peak_bw_bytes_per_cycle" if path == ("cube", "hbm") else "bytes_per_cycle"
            yield BrokenRule((*path, key), plain_number(capacity), rule)
