"""Tables of measured kernels, which `kbsim calibrate` fits."""

from __future__ import annotations

from random import Random
from typing import Any

from tests.property.fuzz.case import Case
from tests.property.fuzz.formats.serving import as_csv
from tests.property.fuzz.trees import bytes_changed, changed

ROWS: list[dict[str, Any]] = [
    {"class": "matmul", "op": "matmul", "m": m, "n": 4096, "k": 4096, "bytes": "", "measured": us}
    for m, us in ((1, 50.1), (64, 51.1), (300, 75.1), (1000, 250), (4000, 1000))
]
ROWS += [
    {"class": "norm", "op": "norm", "m": m, "n": 4096, "k": "", "bytes": 65536 * m, "measured": us}
    for m, us in ((64, 10.1), (640, 20.1), (6400, 100.1))
]


class MeasuredFormat:
    """A table of products and norms."""

    name = "measured"

    def __init__(self, number: int, count: int) -> None:
        pass

    def _case(self, data: bytes, *more: str) -> Case:
        return Case(("calibrate", "d.csv", "-c", "rtx4090", *more), {"d.csv": data})

    def sound(self) -> list[Case]:
        """The table."""
        return [self._case(as_csv(ROWS))]

    def mutated(self, rng: Random) -> Case:
        """Other values, columns and bytes."""
        made = changed(rng, ROWS, ("heads", "batch", "unit", "dtype", "bits", "context"))
        data = as_csv(made if isinstance(made, list) else [made])
        if rng.random() < 0.2:
            data = bytes_changed(rng, data)
        return self._case(data, *rng.choice(((), ("--json",), ("-o", "m.yaml", "--runtime-out", "r.yaml"))))

    def readers(self) -> list[tuple[Case, str]]:
        """The one reader."""
        return [(self.sound()[0], "d.csv")]
