"""Where the parts of a cube are, worked out the slow way: every grid point asked one by one (reference/system.md)."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

Place = tuple[Fraction, Fraction]


@dataclass(frozen=True)
class RefCube:
    """What decides the layout of a cube."""

    width: Fraction
    height: Fraction
    hbm_width: Fraction
    hbm_height: Fraction
    rows: int
    cols: int
    pes: int
    ports: int

    def covered(self, place: Place) -> bool:
        """Whether the HBM, in the middle, covers a place."""
        west, east = (self.width - self.hbm_width) / 2, (self.width + self.hbm_width) / 2
        north, south = (self.height - self.hbm_height) / 2, (self.height + self.hbm_height) / 2
        return west < place[0] < east and north < place[1] < south

    def grid(self, rows: int, cols: int) -> dict[tuple[int, int], Place]:
        """Free places of a grid of `rows` x `cols`, by row and column."""
        places = {}
        for row in range(rows):
            for col in range(cols):
                place = (self.width / cols * col + self.width / cols / 2, self.height / rows * row + self.height / rows / 2)
                if not self.covered(place):
                    places[row, col] = place
        return places

    def links(self) -> set[tuple[tuple[int, int], tuple[int, int]]]:
        """Pairs of routers in one row or column with none between them."""
        routers = list(self.grid(self.rows, self.cols))
        found = set()
        for a in routers:
            for b in routers:
                row_mates = a[0] == b[0] and a[1] < b[1] and not any(c[0] == a[0] and a[1] < c[1] < b[1] for c in routers)
                col_mates = a[1] == b[1] and a[0] < b[0] and not any(c[1] == a[1] and a[0] < c[0] < b[0] for c in routers)
                if row_mates or col_mates:
                    found.add((a, b))
        return found

    def inner(self) -> dict[str, Place]:
        """Places of PEs, M_CPU and SRAM."""
        half = (self.pes + 1) // 2
        names = [f"pe{i}" for i in range(half)] + ["m_cpu", "sram"] + [f"pe{i}" for i in range(half, self.pes)]
        side = 1
        while len(self.grid(side, side)) < len(names):
            side += 1
        free = list(self.grid(side, side).values())
        # Cut the list into as many equal stretches as there are parts: each takes the middle of its own.
        return {name: free[int(Fraction(len(free), len(names)) * (i + Fraction(1, 2)))] for i, name in enumerate(names)}

    def port_places(self) -> dict[str, Place]:
        """Places of UCIe ports."""
        found: dict[str, Place] = {}
        for i in range(self.ports):
            x, y = self.width / self.ports * (i + Fraction(1, 2)), self.height / self.ports * (i + Fraction(1, 2))
            found |= {f"ucie_n{i}": (x, Fraction(0)), f"ucie_s{i}": (x, self.height)}
            found |= {f"ucie_w{i}": (Fraction(0), y), f"ucie_e{i}": (self.width, y)}
        return found

    def nearest(self, place: Place) -> str:
        """The name of the nearest router; of equally near ones the first in alphabetical order."""
        best: tuple[Fraction, str] | None = None
        for (row, col), (x, y) in self.grid(self.rows, self.cols).items():
            candidate = (abs(x - place[0]) + abs(y - place[1]), f"r{row}c{col}")
            if best is None or candidate < best:
                best = candidate
        assert best is not None
        return best[1]
