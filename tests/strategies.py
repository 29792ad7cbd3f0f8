"""Hypothesis strategies for small, nasty machines and programs that docs/model/formats.md and docs/model/endings.md accept.

`machines()` draws a machine dict, `programs(machine)` a program dict that is valid on it, `systems()` both. Programs
have at most 25 entries and about `CYCLE_BUDGET` cycles of work; conflicts may add to that, and `max_cycles` of a drawn
machine is at most 20000.
"""

from __future__ import annotations

from fractions import Fraction
from typing import Any

from hypothesis import strategies as st

from tests.machine_strategies import machines
from tests.oracles.ref_engines import te_work, ve_work
from tests.oracles.ref_geometry import Scratchpad, aligned_rows, byte_count, dram_rows
from tests.oracles.ref_machine import completed, exact, size_in_bytes
from tests.sampled import sampled_from

__all__ = ["Site", "connect", "crowds", "machines", "name_entries", "programs", "systems", "te_tile", "ve_tile"]

QBITS = (1, 2, 4, 8, 16, 32, 64)
KV_QBITS = (1, 2, 3, 4, 5, 6, 8, 16, 32, 64)
VE_ELEMENTWISE = ("GELU", "SILU", "SIGMOID", "TANH", "EXP", "ADD", "MUL", "COPY")
VE_REDUCING = ("LAYERNORM", "RMSNORM", "SOFTMAX", "SUM", "MAX", "MIN")
TE_OPCODES = ("TE_GEMM_TILE", "TE_MATMUL_TILE", "TE_QKT_TILE", "TE_AV_TILE")
DMA_OPCODES = ("DMA_LOAD_TILE", "DMA_STORE_TILE", "DMA_PREFETCH_TILE")
MAX_ENTRIES = 25
CYCLE_BUDGET = 3000  # estimated work of a program, one entry after the other
ENTRY_BUDGET = 600  # estimated work of an entry
CROWD_BUDGET = 250  # estimated work of a program of `crowds`
MIXED_BUDGET = 900  # and of one with more work
HEADS = 3

Draw = Any  # the `draw` of a composite strategy: its type depends on what is drawn


class Site:
    """What the entries of one program share: the completed machine, its limits and a budget of estimated cycles."""

    def __init__(self, draw: Draw, machine: dict[str, Any]) -> None:
        self.draw = draw
        self.machine = completed(machine)
        self.spm = Scratchpad(self.machine["spm"])
        self.spm_bytes = self.spm.banks * self.spm.size
        self.dram_bytes: int = size_in_bytes(self.machine["dram"]["capacity_bytes"])
        self.budget = CYCLE_BUDGET
        # Few bases, so that KV stores meet in the order of one cache.
        self.kv_bases = draw(st.lists(st.integers(0, self._last_kv_base()), min_size=1, max_size=2))

    def _last_kv_base(self) -> int:
        """The last address from which the caches of all heads, in the widest elements, end inside the DRAM."""
        cache = max(HEADS * layout["t_max"] * layout["head_dim"] * 8 for layout in self.machine["kv_layouts"])
        return self.dram_bytes - int(cache) - int(self.machine["dma"]["alignment_bytes"])

    @property
    def allowance(self) -> int:
        """Estimated cycles that the next entry may take."""
        return min(self.budget, ENTRY_BUDGET)

    def bytes_allowed(self) -> int:
        """Aligned bytes that a transfer may have: by time, as if alone and a line at a time, and by the scratchpad."""
        dram, noc = self.machine["dram"], self.machine["noc"]
        bus = exact(dram["bus_width_bytes"]) / exact(dram["dram_burst_cycles"])
        rate = min(exact(dram["peak_bw_bytes_per_cycle"]), bus) / dram["period"]
        if noc is not None:
            rate = min(rate, exact(noc["link_bytes_per_cycle"]))
        cycles_per_byte = 1 / rate + Fraction(1, self.spm.width)
        return min(int(self.allowance / cycles_per_byte), self.spm_bytes)

    def place(self, prefix: str, nbytes: int) -> dict[str, int]:
        """`{prefix}_bank` and `{prefix}_offset` of a range of `nbytes`, often at a line or at a row of banks."""
        flat = self.draw(st.integers(0, self.spm_bytes - nbytes))
        flat -= flat % self.draw(sampled_from([1, self.spm.width, self.spm.width * self.spm.banks]))
        if self.spm.interleaved:
            line = flat // self.spm.width
            bank = line % self.spm.banks
            offset = line // self.spm.banks * self.spm.width + flat % self.spm.width
        else:  # an offset past the bank's end is in range where the flat address is
            bank = self.draw(sampled_from([flat // self.spm.size, 0]))
            offset = flat - bank * self.spm.size
        return {f"{prefix}_bank": bank, f"{prefix}_offset": offset}

    def engine(self, key: str) -> dict[str, int]:
        """The engine id of an entry, sometimes left to its default 0."""
        number = self.draw(st.integers(0, self.machine[key]["engines"] - 1))
        return {f"{key}_id": number} if number or self.draw(st.booleans()) else {}


@st.composite
def programs(draw: Draw, machine: dict[str, Any]) -> dict[str, Any]:
    """A program dict that is valid on `machine`: 1 to 25 entries, dependencies in both directions of the file."""
    site = Site(draw, machine)
    count = draw(st.integers(1, MAX_ENTRIES - 1))
    entries = [draw(sampled_from(_KINDS))(site) for _ in range(count)]
    if draw(sampled_from([False, False, True])):
        entries.append({"opcode": "END"})
    name_entries(draw, entries)
    connect(draw, entries)
    return {"metadata": {"version": "1.0", "name": "drawn"}, "cmdq": entries}


@st.composite
def crowds(draw: Draw, machine: dict[str, Any], work: bool = False, least: int = 2) -> dict[str, Any]:
    """A program dict that is valid on `machine`: `least` to eight small jobs that all may start at once, nearly all transfers.

    `work`: half of them are of TEs and VEs, and they have more to do.
    """
    site = Site(draw, machine)
    site.budget = MIXED_BUDGET if work else CROWD_BUDGET
    kinds = _MIXED if work else _CROWD
    entries = [draw(sampled_from(kinds))(site) for _ in range(draw(st.integers(least, 8)))]
    return {"metadata": {"version": "1.0", "name": "drawn"}, "cmdq": entries}


@st.composite
def systems(draw: Draw) -> tuple[dict[str, Any], dict[str, Any]]:
    """A machine and a program that is valid on it."""
    machine = draw(machines())
    return machine, draw(programs(machine))


def _upto(most: int) -> st.SearchStrategy[int]:
    """1 to `most`, where small numbers are not preferred."""
    return st.one_of(st.integers(1, most), st.integers((most + 1) // 2, most))


def _dma_tile(site: Site) -> dict[str, Any]:
    draw, align = site.draw, site.machine["dma"]["alignment_bytes"]
    qbits = draw(sampled_from(QBITS))
    entry = {
        "opcode": draw(sampled_from(DMA_OPCODES)),
        "tensor_role": draw(sampled_from(["activation", "weight", "kv", "embedding"])),
        "qbits": qbits,
        **site.engine("dma"),
    }
    rows = draw(sampled_from([None, 1, 2, 3, 5, 9]))
    row_bytes = site.bytes_allowed() // (rows or 1) - 2 * align
    if row_bytes * 8 < qbits:
        return _nop(site)
    elements = draw(_upto(row_bytes * 8 // qbits))
    span = byte_count(elements, qbits)
    if rows is None:
        entry["num_elements"] = elements
    else:
        stride = span + draw(sampled_from([0, 1, 7, 64, 300]))
        entry |= {"rows": rows, "row_elements": elements, "stride_bytes": stride}
        span += (rows - 1) * stride
    last = site.dram_bytes // align * align - span
    entry["dram_addr"] = draw(st.one_of(st.integers(0, last), st.just(last)))
    return _transfer(site, entry)


def _kv_tile(site: Site) -> dict[str, Any]:
    draw, align = site.draw, site.machine["dma"]["alignment_bytes"]
    layouts = site.machine["kv_layouts"]
    layout_id = draw(st.integers(0, len(layouts) - 1))
    t_max, head_dim = layouts[layout_id]["t_max"], layouts[layout_id]["head_dim"]
    qbits = draw(sampled_from([q for q in KV_QBITS if head_dim * q % 8 == 0]))  # no row starts inside a byte
    d_start = draw(sampled_from([0, 0, *(d for d in range(head_dim) if d * qbits % 8 == 0)]))
    d_len = draw(st.one_of(st.just(head_dim - d_start), st.integers(1, head_dim - d_start)))
    row_bytes = byte_count(d_len, qbits) + (0 if d_len == head_dim else 2 * align)
    most_rows = (site.bytes_allowed() - 2 * align) // row_bytes
    if most_rows < 1:
        return _nop(site)
    t_start = draw(st.integers(0, t_max - 1))
    kv_range = {"t_start": t_start, "t_len": draw(_upto(min(most_rows, t_max - t_start)))}
    if d_start or draw(st.booleans()):
        kv_range["d_start"] = d_start
    if d_start + d_len < head_dim or draw(st.booleans()):
        kv_range["d_len"] = d_len
    entry: dict[str, Any] = {
        "head_id": draw(st.integers(0, HEADS - 1)),
        "kv_kind": draw(sampled_from("kv")),
        "dram_base_addr": draw(sampled_from(site.kv_bases)),
        "qbits_kv": qbits,
        "kv_layout_id": layout_id,
        **site.engine("dma"),
    }
    if draw(st.booleans()):
        return _transfer(site, {"opcode": "KV_LOAD_TILE", "kv_range": kv_range, **entry})
    return _transfer(site, {"opcode": "KV_STORE_TILE", **kv_range, **entry})


def _transfer(site: Site, entry: dict[str, Any]) -> dict[str, Any]:
    rows = aligned_rows(dram_rows(entry, site.machine["kv_layouts"]), site.machine["dma"]["alignment_bytes"])
    nbytes = sum(row_bytes for _, row_bytes in rows)
    site.budget -= max(1, site.allowance * nbytes // max(1, site.bytes_allowed()))
    return {**entry, **site.place("spm", nbytes)}


def te_tile(site: Site) -> dict[str, Any]:
    """A TE entry within the site's budget, or a NOP."""
    draw, te = site.draw, site.machine["te"]
    size = st.one_of(st.just(1), _upto(32))
    shape = {"m": draw(size), "n": draw(size), "k": draw(size)}
    qw, qa = draw(sampled_from(QBITS)), draw(sampled_from(QBITS))
    fixed = {"opcode": draw(sampled_from(TE_OPCODES)), "qbits_weight": qw, "qbits_activation": qa, **_result(draw)}
    if te["timing"] == "mma":
        fixed |= draw(sampled_from([{}, {"tile_m": 2, "tile_n": 3}, {"tile_m": 1, "tile_n": 4, "split_k": 3}]))
    origin = {f"{name}_{part}": 0 for name in ("ifm", "wgt", "ofm") for part in ("bank", "offset")}
    while True:
        work = te_work({**fixed, **shape, **origin}, 0, te, site.spm)
        (_, ifm), (_, wgt), (_, ofm) = *work.reads, *work.writes
        if max(shape.values()) == 1 or (
            work.total * te["period"] <= site.allowance and max(ifm, wgt, ofm) <= site.spm_bytes
        ):
            break
        shape = {axis: max(1, length // 2) for axis, length in shape.items()}
    if work.total * te["period"] > site.allowance:
        return _nop(site)
    site.budget -= work.total * te["period"]
    places = {**site.place("ifm", ifm), **site.place("wgt", wgt), **site.place("ofm", ofm)}
    return {**fixed, **site.engine("te"), **shape, **places}


def ve_tile(site: Site) -> dict[str, Any]:
    """A VE entry within the site's budget, or a NOP."""
    draw, ve = site.draw, site.machine["ve"]
    op = draw(sampled_from(VE_ELEMENTWISE + VE_REDUCING))
    length, batch = draw(sampled_from([1, 7, 64, 100, 300, 1000])), draw(sampled_from([None, 1, 2, 5]))
    fixed: dict[str, Any] = {"opcode": f"VE_{op}_TILE", "qbits_activation": draw(sampled_from(QBITS))}
    fixed |= _result(draw)
    if batch is not None:
        fixed["batch"] = batch
    names = ("in", "in2", "out") if op in ("ADD", "MUL") else ("in", "out")
    origin = {f"{name}_{part}": 0 for name in names for part in ("bank", "offset")}
    while True:
        work = ve_work({**fixed, "length": length, **origin}, 0, ve, site.spm)
        (_, in_bytes), (_, out_bytes) = work.reads[0], work.writes[0]
        if length == 1 or (work.total * ve["period"] <= site.allowance and max(in_bytes, out_bytes) <= site.spm_bytes):
            break
        length //= 2
    if work.total * ve["period"] > site.allowance:
        return _nop(site)
    site.budget -= work.total * ve["period"]
    places: dict[str, int] = {}
    for name in names:
        places |= site.place(name, out_bytes if name == "out" else in_bytes)
    return {**fixed, **site.engine("ve"), "length": length, **places}


def _result(draw: Draw) -> dict[str, int]:
    """Most results are as wide as the inputs."""
    bits = draw(sampled_from([None, None, *QBITS]))
    return {} if bits is None else {"qbits_result": bits}


def _nop(site: Site) -> dict[str, Any]:
    return {"opcode": "NOP", **site.draw(sampled_from([{}, {"layer_id": 1, "phase": "decode", "reserved_0": 1}]))}


def _barrier(site: Site) -> dict[str, Any]:
    return {"opcode": "BARRIER"}


_KINDS = (*[_dma_tile] * 3, *[_kv_tile] * 3, *[te_tile] * 2, *[ve_tile] * 2, _nop, _barrier)
_MIXED = (*[_dma_tile] * 3, _kv_tile, *[te_tile] * 2, *[ve_tile] * 2)
_CROWD = (*[_dma_tile] * 12, *[_kv_tile] * 3, te_tile, ve_tile)


def name_entries(draw: Draw, entries: list[dict[str, Any]]) -> None:
    """Give entries ids: none, all of them shuffled indices, or some of them numbers that are no index."""
    way = draw(sampled_from(["default", "shuffled", "mixed"]))
    if way == "default":
        return
    for entry, number in zip(entries, draw(st.permutations(range(len(entries)))), strict=True):
        if way == "shuffled":
            entry["id"] = number
        elif draw(st.booleans()):
            entry["id"] = 100 + number


def connect(draw: Draw, entries: list[dict[str, Any]]) -> None:
    """Add dependencies, each from an earlier to a later place of a drawn order, so that no circle is possible."""
    order = _order(draw, entries)
    ids = [entry.get("id", index) for index, entry in enumerate(entries)]
    for place, index in enumerate(order):
        if place == 0:
            continue
        after = entries[index]
        count = draw(sampled_from([0, 0, 0, 1, 1, 2, 3]))
        sources = draw(st.lists(sampled_from(order[:place]), min_size=count, max_size=count))
        for source in sorted(set(sources)):
            ways = ["deps_before", "deps_before", "deps_after"]
            if after["opcode"] == "BARRIER":
                ways += ["wait_for", "wait_for"]
            way = draw(sampled_from(ways))
            if way == "deps_after":
                entries[source].setdefault(way, []).append(ids[index])
            else:
                after.setdefault(way, []).append(ids[source])


def _order(draw: Draw, entries: list[dict[str, Any]]) -> list[int]:
    """Indices in an order that dependencies follow.

    Entries are shuffled between barriers, which gives dependencies on later entries of the file. Now and then they
    are shuffled across barriers and END, which may deadlock: a barrier then waits for what it keeps from being issued.
    """
    if draw(sampled_from([False] * 5 + [True])):
        return list(draw(st.permutations(range(len(entries)))))
    order: list[int] = []
    segment: list[int] = []
    shuffled = draw(st.booleans())
    for index, entry in enumerate(entries):
        if entry["opcode"] in ("BARRIER", "END"):
            order += [*(draw(st.permutations(segment)) if shuffled else segment), index]
            segment = []
        else:
            segment.append(index)
    return order + list(draw(st.permutations(segment)) if shuffled else segment)
