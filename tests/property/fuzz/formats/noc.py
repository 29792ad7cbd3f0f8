"""Recorded NoC events, and the chips that they are replayed on."""

from __future__ import annotations

import importlib.resources
from random import Random
from typing import Any

import yaml

from tests.noc_samples import CHIP, barrier, kernel, read, write
from tests.property.fuzz.case import Case
from tests.property.fuzz.trees import as_json, as_yaml, bytes_changed, changed, text_of

EVENTS: tuple[list[dict[str, Any]], ...] = (
    kernel(
        1, 1, read(5, 0, 0, 2048), read(9, 2, 2, 100), *barrier(20, 200), write(210, 3, 1, 512), *barrier(220, 300, "WRITE")
    ),
    [
        *kernel(1, 0, read(0, 0, 1, 4096, "NOC_1"), *barrier(3, 400)),
        *kernel(2, 0, write(0, 1, 2, 64), write(7, 1, 0, 70_000), *barrier(30, 900, "WRITE"), proc="BRISC", begin=990),
        *kernel(3, 2, read(4, 0, 0, 32, type="READ_SET_STATE"), read(8, 0, 0, 0, type="READ_WITH_STATE"), *barrier(9, 99)),
    ],
    kernel(0, 1, write(3, 1, 1, 256, type="WRITE_MULTICAST", mcast_end_x=2, mcast_end_y=2), read(30, 2, 2, 8)),
)


class NocFormat:
    """Recorded traffic, on a small chip."""

    name = "noc"

    def __init__(self, number: int, count: int) -> None:
        self.chip = as_yaml(CHIP)

    def _case(self, data: bytes, *more: str) -> Case:
        return Case(("noc", "replay", "t.json", "--device", "chip.yaml", *more), {"t.json": data, "chip.yaml": self.chip})

    def sound(self) -> list[Case]:
        """Every trace."""
        return [self._case(as_json(events)) for events in EVENTS]

    def mutated(self, rng: Random) -> Case:
        """Other events."""
        keys = ("mcast_end_x", "mcast_end_y", "zone_phase", "zone", "posted", "vc", "run_host_id")
        data = as_json(changed(rng, rng.choice(EVENTS), keys))
        if rng.random() < 0.15:
            data = bytes_changed(rng, data)
        return self._case(data, *rng.choice(((), ("--json",), ("--mode", "recorded"), ("--mode", "closed"))))

    def readers(self) -> list[tuple[Case, str]]:
        """A trace, and a folder of them."""
        case = self.sound()[0]
        folder = Case(
            ("noc", "replay", "traces", "--device", "chip.yaml"),
            {"traces/t.json": case.files["t.json"], "chip.yaml": self.chip},
        )
        return [(case, "t.json"), (folder, "traces/t.json")]


class DeviceFormat:
    """Chips, under sound traffic."""

    name = "device"

    def __init__(self, number: int, count: int) -> None:
        path = importlib.resources.files("kernbench.configs") / "noc" / "wormhole.yaml"
        self.bases = [CHIP, yaml.safe_load(path.read_text(encoding="utf-8"))]

    def _case(self, name: str, data: bytes, events: list[dict[str, Any]], *more: str) -> Case:
        return Case(("noc", "replay", "t.json", "--device", name, *more), {"t.json": as_json(events), name: data})

    def sound(self) -> list[Case]:
        """Every chip."""
        return [self._case("chip.yaml", as_yaml(chip), EVENTS[0]) for chip in self.bases]

    def mutated(self, rng: Random) -> Case:
        """A changed chip."""
        end = rng.choice((".yaml", ".yaml", ".json"))
        return self._case(f"chip{end}", text_of(rng, changed(rng, rng.choice(self.bases)), end), rng.choice(EVENTS))

    def readers(self) -> list[tuple[Case, str]]:
        """The one reader."""
        return [(self.sound()[0], "chip.yaml")]
