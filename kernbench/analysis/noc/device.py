"""A chip's networks as a file describes them: `configs/noc/*.yaml`, or a user's own."""

from __future__ import annotations

import importlib.resources
from fractions import Fraction
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any, Literal

from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.config.document import read_document
from kernbench.config.fields import Count, Natural, Places, Rate, TermSize, integer
from kernbench.config.section import Field, Refused, Section, ValidationError

DEVICE_BYTES = 1 << 20
SUFFIXES = (".yaml", ".yml", ".json")

Tile = tuple[int, int]  #: (x, y): column, row, as traces have it
Direction = Literal["east", "west", "south", "north"]
Kind = Literal["worker", "dram", "ethernet"]
Side = Annotated[int, integer(1, 33)]  # a route has at most 64 resources
AXES: dict[str, str] = {"east": "x", "west": "x", "south": "y", "north": "y"}


class Rates(Section):
    """[byte/cycle] by kind of tile."""

    worker: Rate = Field(description="tiles with a scratchpad")
    dram: Rate = Field(description="tiles of a DRAM controller")
    ethernet: Rate = Field(description="tiles of an Ethernet port")


class ReadLatency(Section):
    """[cycle] from a read's issue to its first byte, on an idle network."""

    same_tile: Natural = Field(description="from the tile itself")
    same_column: Natural = Field(description="from a tile of the same column")
    same_row: Natural = Field(description="from a tile of the same row")
    other: Natural = Field(description="from any other")


class WriteLatency(Section):
    """[cycle] from a write's issue to its first byte at the target, on an idle network."""

    start: Natural = Field(description="without hops")
    hop: Natural = Field(description="of each hop")


class Device(Section):
    """A grid of tiles and its unidirectional torus networks."""

    name: str = Field(description="what reports call it")
    columns: Side = Field(description="tiles of a row")
    rows: Side = Field(description="tiles of a column")
    #: Routes follow the first direction to its end, then the other.
    nocs: dict[str, tuple[Direction, Direction]] = Field(description="by name, the directions of its links")
    link_bytes_per_cycle: Rate = Field(description="[byte/cycle] of a link")
    packet_bytes: TermSize = Field(description="[byte] longest packet; a longer transfer is several")
    packet_rates: dict[Count, Rate] = Field(description="[byte/cycle] at which an endpoint sends packets, by their size")
    injection: Rates = Field(description="[byte/cycle] from a tile into a network")
    absorption: Rates = Field(description="[byte/cycle] from a network into a tile")
    read_latency: ReadLatency
    write_latency: WriteLatency
    dram_access_cycles: Natural = Field(description="[cycle] what a read of DRAM takes longer")
    barrier_cycles: Natural = Field(description="[cycle] a barrier with nothing to wait for")
    buffer_bytes: TermSize = Field(description="[byte] of one packet that a hop holds when it cannot go on")
    hold_bytes: TermSize = Field(description="[byte] of a blocked packet on one link: a longer one holds more")
    link_packets: Count = Field(description="packets that hold a link at a time, on one side of the dateline")
    controller_bytes_per_cycle: Rate = Field(description="[byte/cycle] of a DRAM controller")
    controllers: Annotated[tuple[Places, ...], Field(min_length=1, description="[row, column] of each controller's tiles")]
    ethernet: Places = Field(description="[row, column] of the tiles of Ethernet ports")

    def check_whole(self) -> None:
        """Check the locations (each is a tile, and occurs once), the directions of the networks, and the packet sizes (in
        rising order)."""
        said = [*(place for tiles in self.controllers for place in tiles), *self.ethernet]
        for row, column in said:
            if row >= self.rows or column >= self.columns:
                rule = f"[{row}, {column}] is no tile of {self.rows} rows and {self.columns} columns"
                raise Refused("place", rule)
            if said.count((row, column)) > 1:
                raise Refused("place", f"[{row}, {column}] is there twice")
        for noc, (first, second) in self.nocs.items():
            if AXES[first] == AXES[second]:
                raise Refused("nocs", f"{noc} has two directions of one axis")
        if not self.packet_rates or list(self.packet_rates) != sorted(self.packet_rates):
            raise Refused("rates", "packet_rates must be sizes in rising order, at least one")

    @cached_property
    def controller_of(self) -> dict[Tile, int]:
        """The controller of each DRAM tile."""
        return {(column, row): k for k, tiles in enumerate(self.controllers) for row, column in tiles}

    @cached_property
    def kept(self) -> dict[Any, Any]:
        """The values that depend only on the device and are the same for all traffic."""
        return {}

    @cached_property
    def _ethernet(self) -> frozenset[Tile]:
        return frozenset((column, row) for row, column in self.ethernet)

    def kind_of(self, tile: Tile) -> Kind:
        """What a tile is."""
        return "dram" if tile in self.controller_of else "ethernet" if tile in self._ethernet else "worker"

    def has(self, tile: Tile) -> bool:
        """Whether there is such a tile."""
        return 0 <= tile[0] < self.columns and 0 <= tile[1] < self.rows

    def injection_cycles(self, nbytes: int, tile: Tile) -> int:
        """[cycle] that the endpoint of a tile needs to send a packet."""
        rate: Fraction = min(self.packet_rate(nbytes), getattr(self.injection, self.kind_of(tile)))
        return ceil_div(Fraction(nbytes) / rate, 1)

    def packet_rate(self, nbytes: int) -> Fraction:
        """[byte/cycle], in proportion between two sizes; a smaller packet takes the time of the smallest one."""
        sizes = list(self.packet_rates)
        if nbytes <= sizes[0]:
            return self.packet_rates[sizes[0]] * Fraction(nbytes, sizes[0])
        for low, high in pairwise(sizes):
            if nbytes <= high:
                a, b = self.packet_rates[low], self.packet_rates[high]
                return a + (b - a) * Fraction(nbytes - low, high - low)
        return self.packet_rates[sizes[-1]]


def device_names() -> list[str]:
    """The device names that `load_device` accepts, in addition to files."""
    return [path.stem for path in _presets()]


def load_device(name: str) -> Device:
    """The device of a preset or a file. InputError if it is not valid."""
    if name.lower().endswith(SUFFIXES):
        return _read(Path(name))
    for path in _presets():
        if path.stem == name.lower():
            return _read(path)
    rule = f"there is no such device; devices are: {', '.join(device_names())}"
    raise InputError(Problem(name, rule, remedy="a file of one ends in .yaml or .json"))


def _presets() -> list[Path]:
    folder = importlib.resources.files("kernbench.configs") / "noc"
    return sorted(Path(str(file)) for file in folder.iterdir() if file.name.endswith(".yaml"))


def _read(path: Path) -> Device:
    document = read_document(path, DEVICE_BYTES)
    data: dict[str, Any] = document.data
    try:
        return Device.model_validate(_with_sizes(data))
    except ValidationError as error:
        found = [(item["loc"], item["msg"], item["input"], "") for item in error.errors()]
        raise InputError(document.problems([one if one[0] else ((), one[1], document.data, "") for one in found])) from None


def _with_sizes(data: dict[str, Any]) -> dict[str, Any]:
    """Keys of a file are texts; those of `packet_rates` are bytes."""
    rates = data.get("packet_rates")
    if not isinstance(rates, dict):
        return data
    sizes = {int(key) if isinstance(key, str) and key.isdecimal() else key: value for key, value in rates.items()}
    return {**data, "packet_rates": sizes}
