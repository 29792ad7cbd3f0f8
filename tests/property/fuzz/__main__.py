"""`python -m tests.property.fuzz`: the fuzzer of every format that is read, from the top of the repository."""

from __future__ import annotations

import argparse
import json
import signal
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path
from random import SystemRandom

from tests.property.fuzz.campaign import (
    FORMATS,
    SPECIAL_FILES,
    Plan,
    campaign,
    case_of,
    clean,
    groups,
    keep_case,
    made,
    shares,
    table,
)
from tests.property.fuzz.case import SPECIAL
from tests.property.fuzz.harness import FAILURES, Limits, reason_of, run_case


def main() -> int:
    """0 where no input failed, 1 where one did, 2 where the options are wrong."""
    parser = argparse.ArgumentParser(prog="python -m tests.property.fuzz", description=__doc__)
    parser.add_argument("--inputs", type=int, default=10_000, help="how many mutated inputs (default: 10000)")
    parser.add_argument("--each", type=int, help="how many of each format, instead")
    parser.add_argument("--formats", default="all", help=f"all, or some of: {','.join(FORMATS)}")
    parser.add_argument("--seed", type=int, help="default: a new one, which is printed")
    parser.add_argument("--minutes", type=float, help="end after so long, whatever is left")
    parser.add_argument("--jobs", type=int, default=2, help="processes (default: 2)")
    parser.add_argument("--bases", type=int, default=24, help="drawn sound files of each kind (default: 24)")
    keep = Path(tempfile.gettempdir()) / "kernbench-fuzz"
    parser.add_argument("--keep", type=Path, default=keep, help=f"where failing inputs go, emptied first (default: {keep})")
    parser.add_argument("--kinds", type=int, default=len(SPECIAL), help="of special files that each reader gets, in turn")
    parser.add_argument("--no-special", action="store_true", help="without links to devices, pipes and folders")
    parser.add_argument("--seconds", type=float, default=60, help="limit on the time of one input (default: 60)")
    parser.add_argument("--only", metavar="FORMAT:NUMBER", help="this input of the campaign alone, with what it says")
    asked = parser.parse_args()
    seed = SystemRandom().randrange(1 << 32) if asked.seed is None else asked.seed
    names = list(FORMATS) if asked.formats == "all" else asked.formats.split(",")
    if unknown := [name for name in names if name not in FORMATS]:
        parser.error(f"there is no format {unknown[0]}; there are {', '.join(FORMATS)}")
    limits = Limits(seconds=asked.seconds)
    kinds = 0 if asked.no_special else asked.kinds
    plan = Plan(seed, asked.inputs, names, asked.jobs, asked.minutes, asked.bases, kinds, limits, asked.each)
    return only(plan, asked.only, asked.keep) if asked.only else whole(plan, asked.keep)


def whole(plan: Plan, keep: Path) -> int:
    """A campaign."""
    print(f"seed {plan.seed}, {sum(shares(plan).values())} inputs, {plan.jobs} processes", flush=True)
    try:
        clean(keep)
    except ValueError as error:
        print(f"--keep: {error}", file=sys.stderr)
        return 2
    begun = time.monotonic()
    outcomes = []
    first = None
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        for one in campaign(plan, keep):
            first = first or time.monotonic()
            outcomes.append(one)
            if len(outcomes) % 1000 == 0:
                bad = sum(one.kind in FAILURES for one in outcomes)
                rate = len(outcomes) / (time.monotonic() - first)
                print(f"{len(outcomes)} inputs, {bad} failed, {rate:.0f} a second", flush=True)
    except KeyboardInterrupt:
        print("interrupted: this is what there was so far")
    said = f"{table(outcomes)}\n\n{groups(outcomes)}\n"
    print(f"\n{said}\nseed {plan.seed}, {time.monotonic() - begun:.0f} s; failing inputs are in {keep}", flush=True)
    (keep / "table.txt").write_text(said, encoding="utf-8")
    with (keep / "failures.jsonl").open("w", encoding="utf-8") as file:
        file.writelines(json.dumps(asdict(one)) + "\n" for one in outcomes if one.kind in FAILURES)
    return int(any(one.kind in FAILURES for one in outcomes))


def only(plan: Plan, which: str, keep: Path) -> int:
    """One input, with its command and what it says; its files stay in `keep`."""
    name, _, number = which.partition(":")
    formats = made(plan if name == SPECIAL_FILES else Plan(plan.seed, plan.inputs, [name], bases=plan.bases))
    case = case_of(formats, plan, name, int(number))
    place = keep / f"{name}-{number}"
    place.parent.mkdir(parents=True, exist_ok=True)
    ended = run_case(case, place, plan.limits, debug=True)
    keep_case(case, ended, place)
    print(f"cd {place} && {case.command()}\n{ended.said}\n{ended.kind} (code {ended.code}), {ended.seconds:.2f} s, "
          f"{ended.resident >> 20} MiB: {reason_of(ended) if ended.failed else ''}")  # fmt: skip
    return int(ended.failed)


if __name__ == "__main__":
    sys.exit(main())
