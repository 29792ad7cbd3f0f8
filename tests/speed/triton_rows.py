"""`python -m tests.speed.triton_rows`: twelve kernels on kernbench beside Triton's interpreter, in seconds of CPU.

It needs the packages torch and triton. The limits: a geometric mean of at most 0.7 of the interpreter's time, none above 1.2.
"""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
from typing import Any

MEAN, WORST = 0.7, 1.2


def measured(which: str) -> dict[str, dict[str, Any]]:
    """What `triton_kernels` prints."""
    command = [sys.executable, "-m", "tests.speed.triton_kernels"]
    done = subprocess.run(command, env={**os.environ, "KB_SPEED_OF": which}, capture_output=True, text=True, check=True)
    return json.loads(done.stdout)  # type: ignore[no-any-return]


def main() -> int:
    """Exit code 1 beyond a limit, or for a wrong result."""
    ours, theirs = measured("kernbench"), measured("triton")
    print(f"{'kernel':26}{'kernbench':>12}{'interpreter':>13}{'ratio':>8}{'cycles':>10}{'error':>10}")
    ratios = []
    for name, one in ours.items():
        ratios.append(one["s"] / theirs[name]["s"])
        print(
            f"{name:26}{one['s'] * 1e3:9.1f} ms{theirs[name]['s'] * 1e3:10.1f} ms{ratios[-1]:8.2f}{one['cycles']:10,}"
            f"{one['error']:10.1e}"
        )
    mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
    wrong = [name for name, one in ours.items() if one["error"] > 2e-2]
    print(f"geometric mean {mean:.2f} (at most {MEAN}), worst {max(ratios):.2f} (at most {WORST}), wrong: {wrong or 'none'}")
    return int(mean > MEAN or max(ratios) > WORST or bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
