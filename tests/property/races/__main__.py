"""Searches what kernbench ships for races and lost waits: benches, algorithms, workloads, examples of pages, Triton kernels.

`python -m tests.property.races --minutes 30 --jobs 2` prints a line for each target with a finding, and the numbers of each
source. A mistake that a page plants must be found. The exit code is 1 if anything else was found, or a planted mistake was not.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from kernbench.analysis.fuzz.search import Search, search
from kernbench.analysis.fuzz.target import Fuzzed
from kernbench.common.errors import InputError
from tests.property.races.shipped import PLANTED, SOURCES, Make

LEAST = 3  # runs of a target, whatever its share of the time is


@dataclass
class Count:
    """The targets of a source."""

    targets: int = 0
    unfit: int = 0  #: algorithms that do not take these ranks, benches that need several PEs
    runs: int = 0
    orders: int = 0
    wrong: int = 0

    def __str__(self) -> str:
        return (
            f"{self.targets:,} targets, {self.runs:,} runs, {self.orders:,} orders, {self.wrong:,} wrong, "
            f"{self.unfit:,} combinations that do not fit"
        )


def searched(target: Fuzzed, seconds: float, seed: int, jobs: int) -> Search:
    """A search of so many seconds, and of a few runs at least."""
    found = search(target, {}, runs=10**6, budget=seconds, seed=seed, jobs=jobs)
    return search(target, {}, runs=LEAST, seed=seed) if found.runs < LEAST and not found.findings else found


def wanted(source: str, only: str) -> Iterator[tuple[str, Make]]:
    for label, make in SOURCES[source]():
        if only in label:
            yield label, make


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.property.races", description=__doc__, allow_abbrev=False)
    parser.add_argument("--minutes", type=float, default=30, help="of all searches together; collecting targets comes on top")
    parser.add_argument("--jobs", type=int, default=1, help="processes")
    parser.add_argument("--seed", type=int, default=int(time.time()), help="of the draws; by default another one each time")
    parser.add_argument("--sources", default=",".join(SOURCES), help=f"some of {','.join(SOURCES)}")
    parser.add_argument("--only", default="", help="targets whose name has this text")
    given = parser.parse_args()
    targets = [(source, label, make) for source in given.sources.split(",") for label, make in wanted(source, given.only)]
    counts = {source: Count() for source in given.sources.split(",")}
    print(f"{len(targets):,} targets, seed {given.seed}", flush=True)
    end = time.monotonic() + given.minutes * 60
    for done, (source, label, make) in enumerate(targets):
        count = counts[source]
        try:
            target = make()
        except InputError:
            count.unfit += 1
            continue
        count.targets += 1
        share = (end - time.monotonic()) / (len(targets) - done)  # what others leave is shared by those that come
        try:
            found = searched(target, share, given.seed, given.jobs)
        except InputError as error:
            print(f"REFUSED  {label}: {error}", flush=True)
            count.wrong += 1
            continue
        count.runs += found.runs
        count.orders += len(found.orders)
        planted = label in PLANTED
        if bool(found.findings) == planted:
            continue
        count.wrong += 1
        print(f"{'NOT FOUND' if planted else 'FOUND'}  {label}: {found.progress}", flush=True)
        for one in found.findings:
            print("    " + "\n    ".join([one.wrong.kind, *one.sentences]), flush=True)
    for source, count in counts.items():
        print(f"{source}: {count}")
    return min(1, sum(count.wrong for count in counts.values()))


if __name__ == "__main__":
    sys.exit(main())
