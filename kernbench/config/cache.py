"""The last-level cache of a machine: its keys, and the rules between them and the rest (docs/model/llc.md)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Literal

from kernbench.config.fields import Flag, MeshCoordinates, Natural, Rate, Size, TermSize, integer
from kernbench.config.rules import BrokenRule, Path
from kernbench.config.section import Field, Section

if TYPE_CHECKING:
    from kernbench.config.schema import Noc, NpuConfig

MAX_LINES = 2**24  # limit, so that a typing error does not request gigabytes of state


class Llc(Section):
    """A cache in front of DRAM channels."""

    capacity_bytes: Size = Field(description="[byte] size, a multiple of line_bytes times ways")
    line_bytes: TermSize = Field(default=128, description="[byte] size of a line, the unit of lookup and eviction")
    ways: Annotated[int, integer(0)] = Field(default=16, description="lines of a set; 0 means that all lines form one set")
    bw_bytes_per_cycle: Rate = Field(description="[byte/cycle] bandwidth of reads and writes together")
    latency_cycles: Natural = Field(
        default=0, description="[cycle] time from the start of a transfer to the first share of its hits"
    )
    write: Literal["back", "through"] = Field(
        default="back", description="whether stores stay in the cache or continue to DRAM"
    )
    write_allocate: Flag = Field(default=True, description="whether a store that misses inserts its lines")

    @property
    def lines(self) -> int:
        """The number of lines in the cache."""
        return self.capacity_bytes // self.line_bytes

    @property
    def set_lines(self) -> int:
        """Lines of one set."""
        return self.ways or self.lines

    @property
    def sets(self) -> int:
        """Number of sets."""
        return self.lines // self.set_lines


class NpuLlc(Llc):
    """The cache of one NPU, with its position in the mesh."""

    at: MeshCoordinates | None = Field(default=None, description="[row, col] of the cache; only with a noc")


def cache_rules(llc: Llc | None, allocation: str, path: Path) -> Iterator[BrokenRule]:
    """The rules inside the section at `path`, and between it and `allocation`."""
    if llc is None:
        return
    whole = llc.line_bytes * (llc.ways or 1)
    if llc.capacity_bytes % whole:
        sized = f"line_bytes ({llc.line_bytes})" + (f" times ways ({llc.ways})" if llc.ways else "")
        yield BrokenRule((*path, "capacity_bytes"), llc.capacity_bytes, f"it must be a multiple of {sized}, which is {whole}")
    elif llc.lines > MAX_LINES:
        rule = f"over line_bytes ({llc.line_bytes}) it must be at most 2^24 lines"
        yield BrokenRule((*path, "capacity_bytes"), llc.capacity_bytes, rule)
    if llc.write == "back" and allocation.startswith("row_buffer"):
        rule = f"under {allocation} it must be through: a DRAM controller takes no write-backs"
        yield BrokenRule((*path, "write"), llc.write, rule)


def npu_cache_rules(config: NpuConfig) -> Iterator[BrokenRule]:
    """The rules of `llc` of one NPU."""
    yield from cache_rules(config.llc, config.allocation, ("llc",))
    if config.llc is not None:
        yield from _place_rules(config.llc, config.noc)


def _place_rules(llc: NpuLlc, noc: Noc | None) -> Iterator[BrokenRule]:
    if noc is None and llc.at is not None:
        yield BrokenRule(("llc", "at"), list(llc.at), "it may stand only with a noc: there is no mesh")
    elif noc is not None and llc.at is None:
        yield BrokenRule(("llc", "at"), None, "it is required with a noc: [row, col] of the cache")
    elif noc is not None and llc.at is not None and (llc.at[0] >= noc.rows or llc.at[1] >= noc.cols):
        rule = f"it must lie in the mesh of {noc.rows} rows and {noc.cols} columns, counted from 0"
        yield BrokenRule(("llc", "at"), list(llc.at), rule)
