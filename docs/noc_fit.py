"""How far the fitted numbers of a NoC's device depend on single traces: chosen on all but one, tried on that one.

    python docs/noc_fit.py DIR

DIR has the recorded traces that `kbsim validate noc_traces --traces` takes. Prints the errors that `reference/noc_replay.md`
tells; a minute or two of CPU time.
"""

from __future__ import annotations

import sys
from itertools import product
from pathlib import Path

from kernbench.analysis.noc.device import load_device
from kernbench.analysis.noc.events import read_trace
from kernbench.analysis.noc.outcome import MODES, outcome

DEVICE = "wormhole"
#: By key of the device, the values tried: that of the device, one below and one above.
TRIED = {"dram_access_cycles": (120, 140, 160), "hold_bytes": (864, 1152, 1440), "link_packets": (3, 4, 5)}

Errors = list[tuple[float, ...]]  #: by trace, by mode


def errors_of(folder: Path) -> dict[tuple[int, ...], Errors]:
    """By values, in the order of TRIED: the size of each trace's error in each mode."""
    device = load_device(DEVICE)
    traces = [read_trace(path, device) for path in sorted(folder.glob("*.json"))]
    found = {}
    for values in product(*TRIED.values()):
        tried = device.model_copy(update=dict(zip(TRIED, values, strict=True)))
        found[values] = [tuple(abs(outcome(one, tried, mode, slowest=0).error) for mode in MODES) for one in traces]
    return found


def mean(errors: Errors) -> tuple[float, ...]:
    """By mode."""
    return tuple(sum(column) / len(errors) for column in zip(*errors, strict=True))


def left_out(found: dict[tuple[int, ...], Errors]) -> Errors:
    """Each trace's errors with the values that are best, by the sum over modes, on all other traces."""
    count = len(next(iter(found.values())))
    errors = []
    for number in range(count):
        others = {values: mean(all_of[:number] + all_of[number + 1 :]) for values, all_of in found.items()}
        best = min(others, key=lambda values: sum(others[values]))
        errors.append(found[best][number])
    return errors


def main(folder: Path) -> None:
    """Print it."""
    found = errors_of(folder)
    together = {values: mean(errors) for values, errors in found.items()}
    best = min(together, key=lambda values: sum(together[values]))
    chosen = ", ".join(f"{name} {value}" for name, value in zip(TRIED, best, strict=True))
    print(f"{len(found)} combinations; best on all traces: {chosen}")
    for name, errors in (("all traces together", together[best]), ("each left out", mean(left_out(found)))):
        print(f"{name}: " + ", ".join(f"{mode} {error:.1%}" for mode, error in zip(MODES, errors, strict=True)))


if __name__ == "__main__":
    main(Path(sys.argv[1]))
