"""Sizes of DMA transfers at which the time to the first byte costs little of a stream.

Where few transfers are in flight, each waits for its first byte by itself. On machines where that takes more than a sixteenth
of a tile of 256 KiB, tiles are larger, and the planners count the wait of every transfer.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from fractions import Fraction
from math import ceil

from kernbench.common.units import ceil_div
from kernbench.config.schema import Dma, Dram, Noc, NpuConfig

SETUPS = 16  #: a transfer is so many times as long as its setup, at least
TILE_BYTES = 256 << 10  #: bytes of a tile on machines where setups do not count
TILES_AHEAD = 2  #: weight tiles that a DMA engine loads while the tensor engines use others: rings of tiles have so many places
MAX_PART = 16  #: a larger tile takes at most 1/16 of the scratchpad
LAYER_PART = 8  #: the same in layers of language models, which keep less in the scratchpad beside the tiles


def in_flight(config: NpuConfig) -> int:
    """The number of transfers of weights in flight at a time."""
    dma = config.dma
    return dma.engines * min(dma.max_concurrent_transfers, dma.channels.act_weight.max_concurrent, TILES_AHEAD)


def setup_bytes(config: NpuConfig) -> int:
    """[byte] that could be moved while a transfer waits for its first byte, over the transfers of weights in flight.

    DRAM limits this amount, and so do the links of a mesh at the DMA engines. 0 where that hardly counts.
    """
    dma, dram = config.dma, config.dram
    rate = dram.capacity * dram.channels
    if config.noc is not None:
        rate = min(rate, dma.engines * config.noc.link_bytes_per_cycle)
    nbytes = ceil(dram.t_setup_cycles * rate / in_flight(config))
    return nbytes if SETUPS * nbytes > TILE_BYTES else 0


def tile_sizes(config: NpuConfig, kib: Sequence[int], most_part: int = MAX_PART) -> tuple[int, ...]:
    """[KiB] of weight tiles, largest first: these, and larger ones where setups count."""
    larger, size = [], kib[0]
    while size << 10 < SETUPS * setup_bytes(config) and (size << 11) * most_part <= config.spm.size_bytes:
        size *= 2
        larger.append(size)
    return (*reversed(larger), *kib)


def load_cycles(config: NpuConfig, nbytes: int, transfer_bytes: int = 0) -> int:
    """Cycles of so many bytes over all DRAM channels, in transfers of a size, if it is given, with their setups."""
    rate, setup = _speed(config)
    if transfer_bytes:
        nbytes += ceil_div(nbytes, transfer_bytes) * setup
    return ceil_div(nbytes * rate.denominator, rate.numerator)


_SPEEDS: deque[tuple[Dma, Dram, Noc | None, tuple[Fraction, int]]] = deque(maxlen=8)


def _speed(config: NpuConfig) -> tuple[Fraction, int]:
    """[byte/cycle] of all DRAM channels, and `setup_bytes`: computed once for each machine, as a planner asks thousands of
    times."""
    dma, dram, noc = config.dma, config.dram, config.noc
    for known_dma, known_dram, known_noc, speed in tuple(_SPEEDS):
        if known_dma is dma and known_dram is dram and known_noc is noc:
            return speed
    speed = dram.capacity * dram.channels, setup_bytes(config)
    _SPEEDS.appendleft((dma, dram, noc, speed))
    return speed
