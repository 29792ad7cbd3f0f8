"""`python -m tests.speed.triton_rows`: twelve kernels on kernbench beside Triton's interpreter, in seconds of CPU.

It needs the packages torch and triton. The limits: a geometric mean of at most 0.7 of the interpreter's time, none above 1.2.
With `--check memory,races` none may be above 1.5. `--times N`: the least of so many measurements of each kernel.
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


def measured(which: str, check: str = "") -> dict[str, dict[str, Any]]:
    """What `triton_kernels` prints."""
    command = [sys.executable, "-m", "tests.speed.triton_kernels"]
    environment = {**os.environ, "KB_SPEED_OF": which, "KB_SPEED_CHECK": check}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def least(found: list[dict[str, dict[str, Any]]]) -> dict[str, dict[str, Any]]:
    """The measurement of each kernel that took the fewest seconds."""
    return {name: min((one[name] for one in found), key=lambda one: one["s"]) for name in found[0]}


def main() -> int:
    """Exit code 1 beyond a limit, or for a wrong result."""
    parser = argparse.ArgumentParser(prog="python -m tests.speed.triton_rows", description=__doc__)
    parser.add_argument("--check", default="", help="memory, races, or both, joined by a comma")
    parser.add_argument("--times", type=int, default=1, help="measurements of each kernel (default: 1)")
    asked = parser.parse_args()
    # In turns, so that other work on the computer meets both.
    pairs = [(measured("kernbench", asked.check), measured("triton")) for _ in range(asked.times)]
    ours, theirs = (least([pair[i] for pair in pairs]) for i in range(2))
    print(f"{'kernel':26}{'kernbench':>12}{'interpreter':>13}{'ratio':>8}{'cycles':>10}{'error':>10}")
    ratios = []
    for name, one in ours.items():
        ratios.append(one["s"] / theirs[name]["s"])
        print(
            f"{name:26}{one['s'] * 1e3:9.1f} ms{theirs[name]['s'] * 1e3:10.1f} ms{ratios[-1]:8.2f}{one['cycles']:10,}"
            f"{one['error']:10.1e}"
        )
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    worst, wrong = max(ratios), [name for name, one in ours.items() if one["error"] > 2e-2]
    most_mean, most = (CHECKED, CHECKED) if asked.check else (MEAN, WORST)
    print(f"geometric mean {mean:.2f} (at most {most_mean}), worst {worst:.2f} (at most {most}), wrong: {wrong or 'none'}")
    return int(mean > most_mean or worst > most or bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
