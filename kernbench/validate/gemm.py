"""A large matrix product as a program: all tensor engines compute parts of the result, and operands are loaded ahead in
chunks."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from kernbench.cmdq import Program
from kernbench.common.units import ceil_div
from kernbench.config import NpuConfig

BITS = 16
AHEAD = 2  #: chunks for which the scratchpad has space: one is used while the next is in flight

Tile = tuple[int, int]  #: rows, columns


@dataclass(frozen=True, slots=True)
class Gemm:
    """The product `(m, k) @ (k, n)`, whose result is divided into blocks of one size."""

    m: int
    n: int
    k: int
    tile: Tile

    @property
    def parts(self) -> int:
        """The number of blocks of the result."""
        return ceil_div(self.m, self.tile[0]) * ceil_div(self.n, self.tile[1])

    def waves(self, engines: int) -> Iterator[list[Tile]]:
        """The positions of the blocks that are computed together: nearly a square, so that the blocks share most operands."""
        down, across = ceil_div(self.m, self.tile[0]), ceil_div(self.n, self.tile[1])
        group = min(down, max(1, int(engines**0.5)))
        bands = [range(first, min(first + group, down)) for first in range(0, down, group)]
        order = [(i, j) for band in bands for j in range(across) for i in band]
        for at in range(0, len(order), engines):
            yield order[at : at + engines]


def best_tile(m: int, n: int, tiles: Sequence[Tile], engines: int) -> Tile:
    """The block size with which the engines need the fewest cycles; the first of several."""
    return min(tiles, key=lambda tile: ceil_div(Gemm(m, n, 1, tile).parts, engines) * min(m, tile[0]) * tile[1])


def gemm_program(gemm: Gemm, config: NpuConfig) -> Program:
    """The program, wave by wave. Each wave loads its operands in chunks along k into one of AHEAD buffers, and stores its
    blocks at its end."""
    program, engines = Program(f"{gemm.m}x{gemm.n}x{gemm.k}"), config.te.engines
    waves = list(gemm.waves(engines))
    most = max(sum(_sides(gemm, wave)) for wave in waves)
    size = config.spm.num_banks * config.spm.bank_size_bytes
    room = size // AHEAD // config.dma.alignment_bytes * config.dma.alignment_bytes
    chunk = 1 << (room * 8 // BITS // most).bit_length() - 1
    used: list[list[int]] = [[] for _ in range(AHEAD)]  # entries that must end before a buffer is free
    turn = 0
    for wave in waves:
        last = -1
        for first in range(0, gemm.k, chunk):
            depth = min(chunk, gemm.k - first)
            loads = _loads(program, gemm, wave, depth, turn * room, config, used[turn])
            jobs = [_part(program, gemm, place, depth, engine, loads) for engine, place in enumerate(wave)]
            last = program.nop(deps_before=jobs)
            used[turn] = [last]
            turn = (turn + 1) % AHEAD
        elements = sum(_rows(gemm, i) * _cols(gemm, j) for i, j in wave)
        result = {"tensor_role": "activation", "qbits": BITS, "dram_addr": 0, "num_elements": elements}
        program.dma_store(**result, **_at(0, config), deps_before=[last])
    return program


def _sides(gemm: Gemm, wave: Sequence[Tile]) -> tuple[int, int]:
    """The number of rows of the first operand and of columns of the second operand that a wave needs."""
    rows, cols = {i for i, _ in wave}, {j for _, j in wave}
    return sum(_rows(gemm, i) for i in rows), sum(_cols(gemm, j) for j in cols)


def _rows(gemm: Gemm, i: int) -> int:
    return min(gemm.tile[0], gemm.m - i * gemm.tile[0])


def _cols(gemm: Gemm, j: int) -> int:
    return min(gemm.tile[1], gemm.n - j * gemm.tile[1])


def _at(addr: int, config: NpuConfig) -> dict[str, int]:
    """A flat address of the interleaved scratchpad, as bank and offset."""
    width, banks = config.spm.bank_width_bytes, config.spm.num_banks
    line = addr // width
    return {"spm_bank": line % banks, "spm_offset": line // banks * width}


def _loads(
    program: Program, gemm: Gemm, wave: Sequence[Tile], depth: int, addr: int, config: NpuConfig, free: list[int]
) -> list[int]:
    ids = []
    for side in _sides(gemm, wave):
        operand = {"tensor_role": "weight", "qbits": BITS, "dram_addr": 0, "num_elements": side * depth}
        ids.append(program.dma_load(**operand, **_at(addr, config), deps_before=free))
        addr += side * depth * BITS // 8
    return ids


def _part(program: Program, gemm: Gemm, place: Tile, depth: int, engine: int, loads: list[int]) -> int:
    places = {f"{tile}_{what}": 0 for tile in ("ifm", "wgt", "ofm") for what in ("bank", "offset")}
    bits = {"qbits_weight": BITS, "qbits_activation": BITS}
    m, n = _rows(gemm, place[0]), _cols(gemm, place[1])
    return program.te_gemm(m=m, n=n, k=depth, te_id=engine, **bits, **places, deps_before=loads)
