"""Where bytes lie: aligned DRAM rows, channels, scratchpad lines and banks, mesh routes (docs/model: bytes.md, noc.md)."""

from __future__ import annotations

from fractions import Fraction
from math import floor
from typing import Any

Range = tuple[int, int]  # half-open, flat scratchpad bytes
Piece = tuple[int, int]  # (scratchpad line, bytes of the flow on it)


def ceil_div(a: int, b: int) -> int:
    """ceil(a / b) for b > 0."""
    return -(-a // b)


def byte_count(elements: int, qbits: int) -> int:
    """Bytes of `elements` packed values of `qbits` bits."""
    return ceil_div(elements * qbits, 8)


class Scratchpad:
    """The address map of the banks: flat byte addresses, lines of `bank_width` bytes, banks."""

    def __init__(self, spm: dict[str, Any]) -> None:
        self.banks: int = spm["num_banks"]
        self.width: int = spm["bank_width_bytes"]
        self.size: int = spm["bank_size_bytes"]
        self.interleaved: bool = spm["map"] == "interleaved"

    def flat(self, bank: int, offset: int) -> int:
        """Flat address of a CMDQ's (bank, offset)."""
        if self.interleaved:
            return (offset // self.width) * self.width * self.banks + bank * self.width + offset % self.width
        return bank * self.size + offset

    def bank_of_line(self, line: int) -> int:
        """Bank of the line that begins at flat address `line * width`."""
        if self.interleaved:
            return line % self.banks
        return line * self.width // self.size

    def lines_beginning_in(self, start: int, end: int) -> range:
        """Lines whose first byte is in flat [start, end)."""
        return range(ceil_div(start, self.width), ceil_div(end, self.width))


def dram_rows(entry: dict[str, Any], layouts: list[dict[str, int]]) -> list[tuple[int, int]]:
    """(address, bytes) of each DRAM row of a DMA or KV entry, before alignment."""
    opcode = entry["opcode"]
    if opcode == "KV_LOAD_TILE":
        return _kv_rows(entry, entry["kv_range"], layouts)
    if opcode == "KV_STORE_TILE":
        return _kv_rows(entry, entry, layouts)
    if "num_elements" in entry:
        return [(entry["dram_addr"], byte_count(entry["num_elements"], entry["qbits"]))]
    row_bytes = byte_count(entry["row_elements"], entry["qbits"])
    return [(entry["dram_addr"] + r * entry["stride_bytes"], row_bytes) for r in range(entry["rows"])]


def _kv_rows(entry: dict[str, Any], kv_range: dict[str, int], layouts: list[dict[str, int]]) -> list[tuple[int, int]]:
    layout = layouts[entry.get("kv_layout_id", 0)]
    head_dim, qbits = layout["head_dim"], entry["qbits_kv"]
    d_start = kv_range.get("d_start", 0)
    d_len = kv_range.get("d_len", head_dim - d_start)
    t_start, t_len = kv_range["t_start"], kv_range["t_len"]

    def address(t: int) -> int:
        element = (entry["head_id"] * layout["t_max"] + t) * head_dim + d_start
        return int(entry["dram_base_addr"] + element * qbits // 8)

    if d_len == head_dim:  # whole rows follow each other without a gap: one 1-D transfer
        return [(address(t_start), byte_count(t_len * head_dim, qbits))]
    return [(address(t), byte_count(d_len, qbits)) for t in range(t_start, t_start + t_len)]


def aligned_rows(rows: list[tuple[int, int]], alignment: int) -> list[tuple[int, int]]:
    """(aligned start, aligned bytes) of each row: what travels."""
    out = []
    for address, nbytes in rows:
        start = address // alignment * alignment
        end = ceil_div(address + nbytes, alignment) * alignment
        out.append((start, end - start))
    return out


def pieces_by_channel(
    rows: list[tuple[int, int]], spm_addr: int, width: int, channels: int, interleave: int
) -> dict[int, list[Piece]]:
    """The flows of a transfer of aligned `rows`: per DRAM channel its pieces, in the flow's own order."""
    flows: dict[int, list[Piece]] = {}
    at = spm_addr
    for start, nbytes in rows:
        dram, end = start, start + nbytes
        while dram < end:
            step = min(end - dram, interleave - dram % interleave, width - at % width)
            pieces = flows.setdefault(dram // interleave % channels, [])
            line = at // width
            if pieces and pieces[-1][0] == line:
                pieces[-1] = (line, pieces[-1][1] + step)
            else:
                pieces.append((line, step))
            dram += step
            at += step
    return flows


def compressed_pieces(
    row: tuple[int, int], ratio: Fraction, spm_addr: int, width: int, channels: int, interleave: int
) -> dict[int, list[Piece]]:
    """The flows of a transfer through a codec: each byte in the scratchpad belongs to one of the bytes of `row`, in DRAM."""
    flows: dict[int, list[Piece]] = {}
    start, nbytes = row
    for i in range(int(nbytes * ratio)):
        pieces = flows.setdefault((start + floor(i / ratio)) // interleave % channels, [])
        line = (spm_addr + i) // width
        if pieces and pieces[-1][0] == line:
            pieces[-1] = (line, pieces[-1][1] + 1)
        else:
            pieces.append((line, 1))
    return flows


def mesh_links(noc: dict[str, Any]) -> list[str]:
    """Counter names of all directed links of the mesh, by source tile, then by destination tile."""
    links = []
    for r in range(noc["rows"]):
        for c in range(noc["cols"]):
            for r2, c2 in ((r - 1, c), (r, c - 1), (r, c + 1), (r + 1, c)):
                if 0 <= r2 < noc["rows"] and 0 <= c2 < noc["cols"]:
                    links.append(_link(r, c, r2, c2))
    return links


def mesh_route(source: list[int], target: list[int]) -> list[str]:
    """Links from `source` to `target` ([row, col]): first along the row, then along the column."""
    (r, c), (r_end, c_end) = source, target
    route = []
    while c != c_end:
        step = 1 if c_end > c else -1
        route.append(_link(r, c, r, c + step))
        c += step
    while r != r_end:
        step = 1 if r_end > r else -1
        route.append(_link(r, c, r + step, c))
        r += step
    return route


def _link(r: int, c: int, r2: int, c2: int) -> str:
    return f"noc.r{r}c{c}-r{r2}c{c2}"


def overlap(a: Range, b: Range) -> bool:
    """Whether two half-open ranges share a byte."""
    return max(a[0], b[0]) < min(a[1], b[1])
