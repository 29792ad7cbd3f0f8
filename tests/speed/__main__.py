"""`python -m tests.speed`: how fast the core and the commands are, beside their goals and other tools. No test."""

from __future__ import annotations

import argparse
import json
import platform
import resource
import sys
import time
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import simpy

from kernbench.version import VERSION
from kernbench_core.fast.simd import isa
from tests.speed import history
from tests.speed.goals import Goal, goal_lines
from tests.speed.sections import SECTIONS, Finding, chosen_sections

INTERRUPTED = 130  #: exit code, as of a shell


def main(arguments: list[str] | None = None) -> int:
    """Measure and print; 1 if a section failed, 130 after Ctrl-C, and otherwise 0, whether the goals are met or not."""
    parser = argparse.ArgumentParser(prog="python -m tests.speed", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="shorter runs: noisier figures in less than two minutes")
    names = ", ".join(section.name for section in SECTIONS)
    parser.add_argument("--only", default="", metavar="TEXT", help=f"sections with this in their names: {names}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write all figures to FILE")
    parser.add_argument("--keep", action="store_true", help="add the ratios to the history")
    chosen = parser.parse_args(arguments)
    sections = list(chosen_sections(chosen.only, chosen.quick))
    if not sections:
        parser.error(f"no section has {chosen.only!r} in its name; there are {names}")
    print("Times are CPU times unless a row says otherwise. Behind +-: half of the range of the repeats,")
    print(f"as a part of their median. Instructions of the processor: {isa()}.")
    began, code, done, failed = _spent(), 0, Finding(), []
    for place, section in enumerate(sections, 1):
        print(f"\n[{place}/{len(sections)}] {section.name}: {section.title}", flush=True)
        started = _spent()
        try:
            found = section.measure(chosen.quick)
        except KeyboardInterrupt:
            print(f"\ninterrupted in {section.name}: the results of {place - 1} of {len(sections)} sections follow")
            code = INTERRUPTED
            break
        except Exception:
            traceback.print_exc()
            failed.append(section.name)
            code = 1
            continue
        done.goals += found.goals
        done.report |= found.report
        done.ratios |= found.ratios
        print(f"  [{_since(started)}; in total {_since(began)}]", flush=True)
    _history(done.ratios, chosen.keep and not code, chosen.quick)
    print(f"\n{summary(done.goals, failed)}\ntotal: {_since(began)}")
    if chosen.json:
        chosen.json.write_text(json.dumps(_about(chosen.quick) | done.report, indent=1) + "\n", encoding="utf-8")
    return code


def summary(goals: list[Goal], failed: list[str]) -> str:
    """What missed its goal, and what could not be measured."""
    missed = [goal for goal in goals if not goal.met]
    lines = [f"goals: {len(goals) - len(missed)} of {len(goals)} met"]
    if missed:
        lines += ["missed:", goal_lines(missed)]
    return "\n".join(lines + [f"FAILED, see above: {', '.join(failed)}"] * bool(failed))


def _spent() -> tuple[float, float]:
    """[s] Elapsed time, and CPU time of this process and of those that it has waited for."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return time.monotonic(), sum(one.ru_utime + one.ru_stime for one in used)


def _since(before: tuple[float, float]) -> str:
    """On a busy computer, the elapsed time is much longer than the CPU time."""
    elapsed, cpu = (_duration(now - then) for now, then in zip(_spent(), before, strict=True))
    return f"{elapsed}, {cpu} of CPU time"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _history(ratios: dict[str, float], keeps: bool, quick: bool) -> None:
    """What moved since the runs that were kept; short runs are compared among themselves."""
    if not ratios:
        return
    named = {f"quick, {name}": value for name, value in ratios.items()} if quick else ratios
    before = [run for run in history.kept_ratios() if run.keys() & named.keys()]
    print(f"\n{history.report(named, before)}", flush=True)
    if keeps:
        history.keep(named, day=datetime.now(tz=UTC).date().isoformat(), version=VERSION)


def _about(quick: bool) -> dict[str, Any]:
    return {
        "quick": quick,
        "python": platform.python_version(),
        "simpy": simpy.__version__,
        "machine": platform.machine(),
        "isa": isa(),
    }


if __name__ == "__main__":
    sys.exit(main())
