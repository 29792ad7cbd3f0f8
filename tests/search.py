"""`python -m tests.search`: random programs of hard distributions, every walk of the core against the slow reference.

Each program is run by the reference, by the plain model and by the fast walk, stepping and skipping: whole and in pieces that
other walks take up, untraced and traced at each level, and by a process for each other set of SIMD instructions of this
processor (`tests/all_walks.py`). All must say the same of it. The distributions take turns (`tests/hard_strategies.py`). The
search ends at the first program that differs, and prints it as small as it can be made.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import ExitStack

from hypothesis import HealthCheck, Phase, given, seed, settings

from kernbench_core.fast.simd import isa
from tests.all_walks import Drawn, OtherIsa, cases, check, other_isas
from tests.hard_strategies import DISTRIBUTIONS

ROUND = 100  # programs that are drawn from one seed: within a round they are often variations of each other


class Search:
    """Checks programs of one distribution, and counts what was run."""

    def __init__(self, name: str, others: Sequence[OtherIsa]) -> None:
        self.name = name
        self.others = others
        self.seen: set[bytes] = set()
        self.endings: Counter[str] = Counter()
        self.cycles = self.cuts = self.reached = 0

    def check(self, drawn: Drawn, programs: int) -> None:
        """One more program, if it is a new one, up to so many."""
        key = hashlib.sha256(repr(drawn.case.system).encode()).digest()
        if key in self.seen or len(self.seen) >= programs:
            return
        check(drawn, self.others)
        distribution, status = DISTRIBUTIONS[self.name], drawn.want["status"]
        assert status != "aborted" or not distribution.ends, f"it hangs: no end in {drawn.want['cycles']} cycles"
        self.seen.add(key)
        self.endings[status] += 1
        self.cycles += drawn.want["cycles"]
        self.cuts += len(drawn.case.cuts)
        self.reached += distribution.reaches(drawn.seen)

    def round(self, number: int, programs: int) -> None:
        """Draw a round from one seed, and check so many new ones of them at most."""
        most = len(self.seen) + programs

        @seed(number)
        @settings(
            max_examples=ROUND, deadline=None, database=None, derandomize=False, phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        @given(cases(DISTRIBUTIONS[self.name].systems))
        def draw(drawn: Drawn) -> None:
            self.check(drawn, most)

        draw()

    def __str__(self) -> str:
        endings = ", ".join(f"{count:,} {ending}" for ending, count in self.endings.most_common())
        reached = f"{100 * self.reached // max(1, len(self.seen))} % reach what it is for"
        programs = f"{self.name:14} {len(self.seen):6,} programs ({endings})"
        return f"  {programs}; {reached}; {self.cycles:,} cycles, {self.cuts:,} cuts"


def run(names: Sequence[str], programs: int, first: int, others: Sequence[OtherIsa]) -> list[Search]:
    """Check so many different programs, with distributions in turn."""
    searches = [Search(name, others) for name in names]
    number, found = first, 0
    while found < programs:
        for search in searches:
            search.round(number, programs - found)
            found = sum(len(one.seen) for one in searches)
            if found >= programs:
                break
        number += 1
        print(f"{found:6,} programs, seeds {first} to {number - 1}", flush=True)
    return searches


def main(arguments: Sequence[str] | None = None, prog: str = "python -m tests.search", names: Sequence[str] = ()) -> None:
    """Search, and print what was searched. `names`: where `--only` names none."""
    parser = argparse.ArgumentParser(prog=prog, description=__doc__)
    parser.add_argument("--programs", type=int, default=5000, help="so many different ones")
    parser.add_argument("--seed", type=int, help="of the first round; at random where it is not given")
    parser.add_argument("--only", action="append", choices=list(DISTRIBUTIONS), help="a distribution; may be given again")
    parser.add_argument("--one-isa", action="store_true", help="start no processes for other SIMD instructions")
    told = parser.parse_args(arguments)
    first = random.SystemRandom().randrange(1 << 31) if told.seed is None else told.seed
    begin = time.perf_counter()
    with ExitStack() as stack:
        others = [stack.enter_context(OtherIsa(name)) for name in ([] if told.one_isa else other_isas())]
        isas = ", ".join([isa(), *(other.isa for other in others)])
        print(f"seed {first}; SIMD instructions: {isas}", flush=True)
        searches = run(told.only or list(names or DISTRIBUTIONS), told.programs, first, others)
    total = sum(len(search.seen) for search in searches)
    print("\n".join(str(search) for search in searches if search.seen))
    print(f"seed {first}: {total:,} programs, no difference; {time.perf_counter() - begin:,.0f} s")


if __name__ == "__main__":
    main()
