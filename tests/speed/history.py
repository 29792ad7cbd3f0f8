"""What earlier runs of the benchmark found: ratios, a line of JSON a run, and what has moved since. It reports; nothing fails.

Ratios were measured within one run on one machine, so runs of different days and machines may be compared; absolute times may
not, and are not kept.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import median

FILE = Path(__file__).with_name("history.jsonl")
MOVED = 0.10  # of the ratio before
LAST = 5  # runs whose median is what was before: one noisy run is not news


def kept_ratios(file: Path = FILE) -> list[dict[str, float]]:
    """The ratios of each run, oldest first."""
    if not file.exists():
        return []
    return [json.loads(line)["ratios"] for line in file.read_text(encoding="utf-8").splitlines() if line]


def keep(ratios: Mapping[str, float], *, day: str, version: str, file: Path = FILE) -> None:
    """Add a run."""
    line = {"date": day, "version": version, "ratios": {name: round(ratios[name], 4) for name in sorted(ratios)}}
    with file.open("a", encoding="utf-8") as out:
        out.write(json.dumps(line) + "\n")


def moved(ratios: Mapping[str, float], before: Sequence[Mapping[str, float]]) -> list[str]:
    """A line for each ratio that is more than a tenth off the median of the last runs that have it."""
    lines = []
    for name in sorted(ratios):
        known = [run[name] for run in before if name in run][-LAST:]
        if not known:
            continue
        was = median(known)
        change = ratios[name] / was - 1 if was else 0.0
        if abs(change) > MOVED:
            lines.append(f"{name}: {was:.3g} in the last {len(known)} runs, now {ratios[name]:.3g} ({change:+.0%})")
    return lines


def report(ratios: Mapping[str, float], before: Sequence[Mapping[str, float]]) -> str:
    """What has moved, as text."""
    if not before:
        return "history: no run before this one was kept (--keep keeps this one)"
    lines = moved(ratios, before)
    if not lines:
        return f"history: no ratio moved by more than {MOVED:.0%} against the last of {len(before)} runs"
    return "\n".join([f"history: ratios that moved by more than {MOVED:.0%}", *(f"  {line}" for line in lines)])
