"""`python -m tests.speed.triton_rows`: twelve kernels on kernbench beside Triton's interpreter, in seconds of CPU.

It needs the packages torch and triton. The limits: a geometric mean of at most 0.7 of the interpreter's time, none above 1.2.
With `--check memory,races` none may be above 1.5. The two take turns launch by launch, so that other work on the computer slows
both. `--times N`: the least of so many launches of each kernel, after one that is not counted.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import subprocess
import sys
from typing import Any

MEAN, WORST, CHECKED = 0.7, 1.2, 1.5


class Launcher:
    """A process that launches the kernels of `triton_kernels`."""

    def __init__(self, which: str, check: str = "") -> None:
        """`which`: "kernbench", or "triton" for Triton's interpreter; `check`: what kernbench checks."""
        command = [sys.executable, "-m", "tests.speed.triton_kernels"]
        environment = {**os.environ, "KB_SPEED_OF": which, "KB_SPEED_CHECK": check}
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.names: list[str] = json.loads(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"{self._process.args}: ended with exit code {self._process.wait()}")
        return line

    def seconds(self, name: str) -> float:
        """Launch a kernel, and return the seconds of CPU."""
        assert self._process.stdin is not None
        self._process.stdin.write(name + "\n")
        self._process.stdin.flush()
        return float(self._line())

    def results(self) -> dict[str, dict[str, Any]]:
        """End the process, and return the error and the cycles of each kernel."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        found: dict[str, dict[str, Any]] = json.loads(self._line())
        self._process.wait()
        return found


def main() -> int:
    """Exit code 1 beyond a limit, or for a wrong result."""
    parser = argparse.ArgumentParser(prog="python -m tests.speed.triton_rows", description=__doc__)
    parser.add_argument("--check", default="", help="memory, races, or both, joined by a comma")
    parser.add_argument("--times", type=int, default=5, help="launches of each kernel that are counted (default: 5)")
    asked = parser.parse_args()
    both = Launcher("kernbench", asked.check), Launcher("triton")
    print(f"{'kernel':26}{'kernbench':>12}{'interpreter':>13}{'ratio':>8}")
    ratios = []
    for name in both[0].names:
        turns = [[one.seconds(name) for one in both] for _ in range(asked.times + 1)][1:]
        ours, theirs = (min(turn[i] for turn in turns) for i in range(2))
        ratios.append(ours / theirs)
        print(f"{name:26}{ours * 1e3:9.1f} ms{theirs * 1e3:10.1f} ms{ratios[-1]:8.2f}", flush=True)
    found = both[0].results()
    both[1].results()
    print(f"{'kernel':26}{'cycles':>12}{'error':>13}")
    for name, one in found.items():
        print(f"{name:26}{one['cycles']:12,}{one['error']:13.1e}")
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    worst, wrong = max(ratios), [name for name, one in found.items() if one["error"] > 2e-2]
    most_mean, most = (CHECKED, CHECKED) if asked.check else (MEAN, WORST)
    print(f"geometric mean {mean:.2f} (at most {most_mean}), worst {worst:.2f} (at most {most}), wrong: {wrong or 'none'}")
    return int(mean > most_mean or worst > most or bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
