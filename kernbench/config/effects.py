"""Values of a machine that no result of any program depends on, because another value decides: a table of rules.

A rule is in the table only if the text of the timing model implies it for every program. Plug-in components are not considered.
"""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING, Any, cast

import msgspec

from kernbench.common.spelling import nearest
from kernbench.common.units import plain_number
from kernbench.common.vector_ops import REDUCTIONS, VECTOR_OPS
from kernbench.config.dram_controller import DramController
from kernbench.config.dram_device import RowBuffer
from kernbench.config.schema import ARBITERS, Dma, Dram, NpuConfig, Spm, Te, Ve
from kernbench.config.system.dimensions import sip_links
from kernbench_core.numbers import TRANSFER_CHANNELS

if TYPE_CHECKING:
    from kernbench.config.machine import MachineConfig
    from kernbench.config.system import SystemConfig


class Unused(msgspec.Struct, frozen=True):
    """A value that has no effect on its machine."""

    path: str  #: path of the value, or of the table that contains it
    why: str
    instead: str  #: the value to set instead
    #: a value that is set together with it, or after it, to describe how a component is built; the value is then redundant
    beside: str = ""
    #: whether it only says that a component is larger than programs need. This is true of hardware, so only an override, which
    #: is meant to have an effect, is reported.
    ample: bool = False


class UnusedSetting(msgspec.Struct, frozen=True):
    """A value without effect that the user set: its location, and the remedy."""

    where: str
    path: str
    value: Any
    why: str
    instead: str

    def __str__(self) -> str:
        return f"{self.where}: {self.path} = {self.value} has no effect: {self.why}; {self.instead}"

    def to_dict(self) -> dict[str, Any]:
        """For `--json`."""
        return {name: getattr(self, name) for name in self.__struct_fields__} | {"message": str(self)}


def unused_settings(config: MachineConfig) -> list[UnusedSetting]:
    """The values without effect that the user set, in a file or dict or by an override.

    Values of presets and defaults are not set by the user. A value in a file that is equal to the default does not count
    either, because `kbsim config init` writes every key. Neither does an ample value in a file: it describes the hardware.
    """
    if not config.chosen:
        return []
    default = {path: value for path, value, _ in type(config)().effective()}
    given = {
        path: (value, origin)
        for path, value, origin in config.effective()
        if _of_user(config, origin) and (origin == "override" or value != default.get(path))
    }
    found = []
    for one in unused_values(config):
        paths = [path for path in given if path == one.path or path.startswith(f"{one.path}.")]
        if not paths:
            continue
        last = {given[path][1] for path in paths}
        if one.ample and "override" not in last:
            continue
        if one.beside in given and ("override" not in last or given[one.beside][1] == "override"):
            continue
        value = given[one.path][0] if one.path in given else {path[len(one.path) + 1 :]: given[path][0] for path in paths}
        found.append(UnusedSetting(config.where(paths[-1]), one.path, value, one.why, one.instead))
    return found


def _of_user(config: MachineConfig, origin: str) -> bool:
    return origin in ("override", "given") or (origin != "default" and config.path is not None)


def unused_values(machine: MachineConfig) -> Iterator[Unused]:
    """Every value without effect, whatever its source."""
    config = cast("NpuConfig | SystemConfig", machine)  # the only kinds
    yield from _of_engines(config.pe.te, config.pe.spm, config.pe_path)
    yield from _of_vector_ops(config.pe.ve, config.pe_path)
    yield from _of_queues(config.pe.dma, config.comm_transfers, config.pe_path)
    yield from _of_memory(config.memory, config.slice_channels, config.memory_path.removesuffix("."))
    if isinstance(config, NpuConfig):
        yield from _of_npu(config)
    elif config.system.sips == 1:
        for key in ("bytes_per_cycle", "cycles", "mm"):
            yield Unused(f"system.link.{key}", "there is one SIP, and no link between SIPs", "set system.sips")
    elif "system.link" not in sip_links(config):
        for key in ("bytes_per_cycle", "cycles", "mm"):
            instead = "set system.dimensions, or leave out the link of a dimension"
            yield Unused(f"system.link.{key}", "each dimension has a link of its own", instead)


def _of_engines(te: Te, spm: Spm, at: str) -> Iterator[Unused]:
    if te.timing == "systolic":
        instead = f"set {at}te.rows and {at}te.cols"
        for key in ("macs_per_cycle", "f_w", "f_a"):
            yield Unused(f"{at}te.{key}", f"{at}te.timing is systolic, whose rows and columns decide", instead)
    if te.timing == "mma":
        instead = f"set {at}te.mma.shapes"
        for key in ("macs_per_cycle", "f_w", "f_a"):
            yield Unused(f"{at}te.{key}", f"{at}te.timing is mma, whose matrix instructions decide", instead)
    if spm.num_banks == 1:
        yield Unused(f"{at}spm.map", "there is one bank, and all addresses are in it", f"set {at}spm.num_banks")
    if not _looks_at_age(spm):
        why = f"{at}spm.arbiter is {spm.arbiter}, which does not look at how long a request has waited"
        by_age = " or ".join(name for name, arbiter in ARBITERS.items() if arbiter.age)
        yield Unused(f"{at}spm.max_wait_cycles", why, f"set {at}spm.arbiter to {by_age}")


def _looks_at_age(spm: Spm) -> bool:
    """Whether the arbiter uses `max_wait_cycles`."""
    return spm.arbiter in ARBITERS and ARBITERS[spm.arbiter].age


def _of_vector_ops(ve: Ve, at: str) -> Iterator[Unused]:
    """Entries for names of no op, and latencies of ops whose time has no term for them."""
    for key, table in (("sfu", ve.sfu), ("op_cost", ve.op_cost)):
        for op in table:
            if op not in VECTOR_OPS:
                near = nearest(op, VECTOR_OPS, cutoff=0.7)
                instead = f"did you mean {near}?" if near else "use the name that the op has in kernels, such as exp or gelu"
                yield Unused(f"{at}ve.{key}.{op}", f"no op of kernels or command queues is called {op}", instead)
    for op in ve.sfu:
        if op in REDUCTIONS or op == "sort":
            yield Unused(f"{at}ve.sfu.{op}", f"the time of {op} has no sfu term", f"set {at}ve.op_cost.{op}")


def _of_queues(dma: Dma, between_pes: int, at: str) -> Iterator[Unused]:
    """`between_pes`: the number of concurrent transfers of the queues between PEs, which have their own channel; 0: there are
    no queues."""
    total, depth = dma.max_concurrent_transfers, dma.queue_depth_per_master
    limits = [*(channel.max_concurrent for channel in dma.channels), *([between_pes] if between_pes else [])]
    most = max(min(limit, total) for limit in limits)
    if depth > most:
        more = "max_concurrent or max_concurrent_transfers"
        why = f"no channel has more than {most} transfers at a time, by its max_concurrent and max_concurrent_transfers"
        yield Unused(f"{at}dma.queue_depth_per_master", why, f"set it below {most}, or raise {more}")
    if total > sum(limits):
        why = f"the channels' max_concurrent add up to {sum(limits)}"
        yield Unused(f"{at}dma.max_concurrent_transfers", why, f"set it below {sum(limits)}, or raise max_concurrent")
    least, by = min((total, "max_concurrent_transfers"), (depth, "queue_depth_per_master"))
    for name, channel in zip(TRANSFER_CHANNELS, dma.channels, strict=True):
        if channel.max_concurrent > least:
            why = f"{at}dma.{by} ({least}) is reached first"
            yield Unused(f"{at}dma.channels.{name}.max_concurrent", why, f"raise {at}dma.{by}")
    if dma.arbiter != "priority":
        why = f"{at}dma.arbiter is {dma.arbiter}, which does not look at scores"
        for key in ("kv_load_bonus", *(f"channels.{name}.priority" for name in TRANSFER_CHANNELS)):
            yield Unused(f"{at}dma.{key}", why, f"set {at}dma.arbiter to priority")


def _of_memory(dram: Dram, channels: int, at: str) -> Iterator[Unused]:
    """`channels`: the number of channels that share addresses."""
    if dram.controller is not None:
        for key in ("bus_width_bytes", "dram_burst_cycles", "peak_bw_bytes_per_cycle", "period"):
            why = f"under row_buffer_v2 {at}.controller has the burst and the clock of a channel"
            yield Unused(f"{at}.{key}", why, f"set burst_bytes, t_bl and clock of {at}.controller")
    else:
        yield from _of_bus(dram, at)
    if channels == 1:
        yield Unused(f"{at}.interleave_bytes", "all addresses are on one channel", f"set {at}.channels")
    if dram.controller is not None:
        yield from _of_controller(dram.controller, f"{at}.controller")
    if dram.row_buffer is not None:
        yield from _of_rows(dram.row_buffer, dram.bus_width_bytes, f"{at}.row_buffer")


def _of_bus(dram: Dram, at: str) -> Iterator[Unused]:
    bus, peak = Fraction(dram.bus_width_bytes, dram.dram_burst_cycles), dram.peak_bw_bytes_per_cycle
    if peak > bus:
        why = f"the bus moves {at}.bus_width_bytes / {at}.dram_burst_cycles = {plain_number(bus)} bytes per cycle, and no more"
        yield Unused(f"{at}.peak_bw_bytes_per_cycle", why, "widen the bus or shorten its bursts")
    elif peak < bus and dram.row_buffer is None:  # with DRAM rows, the data bus gives the peak rate
        why = f"{at}.peak_bw_bytes_per_cycle ({plain_number(peak)}) is less than what the bus moves, {plain_number(bus)}"
        beside, instead = f"{at}.peak_bw_bytes_per_cycle", f"raise {at}.peak_bw_bytes_per_cycle"
        yield Unused(f"{at}.bus_width_bytes", why, instead, beside)
        yield Unused(f"{at}.dram_burst_cycles", why, instead, beside)


def _of_controller(controller: DramController, at: str) -> Iterator[Unused]:
    """Keys of one rule, where another rule is chosen."""
    for key, choice, rule in (("cap", "scheduler", "fr_fcfs_cap"), ("idle_clocks", "page", "adaptive")):
        chosen = getattr(controller, choice)
        if chosen != rule:
            yield Unused(f"{at}.{key}", f"{at}.{choice} is {chosen}, and only {rule} uses it", f"set {at}.{choice} to {rule}")


def _of_rows(device: RowBuffer, burst: int, at: str) -> Iterator[Unused]:
    if device.t_refi == 0:
        yield Unused(f"{at}.t_rfc", f"{at}.t_refi is 0, so nothing is refreshed", f"set {at}.t_refi", f"{at}.t_refi")
    if device.scheduler == "fcfs":
        why = f"{at}.scheduler is fcfs, under which no burst passes an older one"
        yield Unused(f"{at}.batch_bursts", why, f"set another {at}.scheduler")
    if device.banks_per_group == 1 or device.row_bytes == burst:
        few = "a bank group has one bank" if device.banks_per_group == 1 else "a row has one burst"
        yield Unused(f"{at}.map", f"{few}, so both maps are the same", "set banks_per_group or row_bytes")


def _of_npu(config: NpuConfig) -> Iterator[Unused]:
    noc, dma = config.noc, config.dma
    if noc is None:
        yield Unused("energy.noc_pj_per_byte_hop", "there is no noc", "add the section noc")
        if config.allocation == "fifo_v1":
            why = "under fifo_v1 a DRAM channel is one flow's at a time"
            for name in TRANSFER_CHANNELS:
                yield Unused(f"dma.channels.{name}.weight", why, "use another allocation, or set the priority")
    elif len({*noc.dma_at, *noc.dram_at}) == 1:
        for key in ("noc.link_bytes_per_cycle", "noc.hop_latency_cycles", "energy.noc_pj_per_byte_hop"):
            yield Unused(key, "all DMA engines and DRAM channels are at one place", "set noc.dma_at or noc.dram_at")
    yield from _of_ports(config.spm, config.te, config.ve, dma.engines * dma.at_a_time * config.dram.channels)


def _of_ports(spm: Spm, te: Te, ve: Ve, flows: int) -> Iterator[Unused]:
    """A request takes one port of a bank, however many of its lines are in the bank."""
    asking = flows + te.engines * te.spm_traffic + ve.engines * ve.spm_traffic
    ports = {"ports": spm.ports, "read_ports": spm.read_ports, "write_ports": spm.write_ports}
    given = {name: count for name, count in ports.items() if count is not None}
    why = f"at most {asking} flows and engines ask a bank at a time"
    for name, count in given.items():
        if count > asking:
            instead = f"set fewer than {asking}" if asking > 1 else "no other number has an effect"
            yield Unused(f"spm.{name}", why, instead, ample=True)
    if min(given.values()) >= asking:
        aged = ("max_wait_cycles",) if _looks_at_age(spm) else ()  # otherwise this is already reported
        for key in ("arbiter", "conflict_penalty_cycles", *aged, "backpressure_cycles"):
            yield Unused(f"spm.{key}", f"nothing is ever denied: {why}", f"set fewer {' and '.join(given)}")
