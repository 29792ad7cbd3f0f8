"""`python -m tests.row_search`: random programs on machines with DRAM rows, the core against the slow reference.

Every program is run by the reference, and by the core (its plain model, by stepping, by skipping), untraced and traced. All
must say the same of it, and come to its end: a run that is stopped at max_cycles hangs. The search ends at the first
program that does not, and prints it as small as it can be made.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

from hypothesis import HealthCheck, Phase, given, seed, settings

from kernbench import Machine, load_config, load_program
from kernbench.sim_engine.tracing import TraceOptions
from tests.oracles import reference
from tests.property.test_differential import assert_same, check_laws, outcome
from tests.row_strategies import System, pressed_row_systems

ROUND = 250  # programs that are drawn from one seed: within a round they are often variations of each other


class Text:
    """A sink that keeps the bytes of a trace."""

    def __init__(self) -> None:
        self.digest = hashlib.sha256()

    def write(self, text: bytes) -> None:
        self.digest.update(text)


def check_rows(system: System, level: str = "full") -> dict[str, Any]:
    """What the reference says of a program, which the core says too; AssertionError where it does not, or the program hangs."""
    machine, program = system
    config, parsed = load_config(machine), load_program(program)
    want = reference.simulate(machine, program)
    traces = []
    for walk, skip in (("plain", False), ("fast", False), ("fast", True)):
        untraced, traced, text = Machine(config, parsed, walk=walk), Machine(config, parsed, walk=walk), Text()
        untraced.run(skip=skip)
        assert_same(outcome(untraced), want)
        tracing = traced.trace(text, TraceOptions(level))
        traced.run(skip=skip)
        tracing.close()
        assert_same(outcome(traced), want)
        traces.append(text.digest.digest())
    assert len(set(traces)) == 1, "the plain model, stepping and skipping write different traces"
    check_laws(machine, want)
    assert want["status"] != "aborted", f"it hangs: no end in {want['cycles']} cycles"
    return want


class Search:
    """Counts what was run."""

    def __init__(self, programs: int) -> None:
        self.programs = programs
        self.seen: set[bytes] = set()
        self.endings: Counter[str] = Counter()
        self.cycles = self.bursts = self.pressed = self.refreshed = 0

    def check(self, system: System) -> None:
        """One more program, if it is a new one."""
        key = hashlib.sha256(json.dumps(system, sort_keys=True).encode()).digest()
        if key in self.seen or len(self.seen) == self.programs:
            return
        want = check_rows(system)
        self.seen.add(key)
        self.endings[want["status"]] += 1
        self.cycles += want["cycles"]
        counters = want["counters"].items()
        self.bursts += sum(count["bursts"] for name, count in counters if name.startswith("dram"))
        self.pressed += any(count["stalled"].get("backpressure") for name, count in counters if name.startswith("dma"))
        self.refreshed += any(count["refreshes"] for name, count in counters if name.startswith("dram"))

    def run(self, first: int) -> None:
        """Check so many different programs."""
        number = first
        rules = settings(
            max_examples=ROUND, deadline=None, database=None, derandomize=False, phases=[Phase.generate, Phase.shrink],
            suppress_health_check=list(HealthCheck),
        )  # fmt: skip
        while len(self.seen) < self.programs:

            @seed(number)
            @rules
            @given(pressed_row_systems())
            def round_of(system: System) -> None:
                self.check(system)

            round_of()
            number += 1
            print(f"{len(self.seen):6,} programs, seeds {first} to {number - 1}", flush=True)


def main(arguments: Sequence[str] | None = None) -> None:
    """Search, and print what was searched."""
    parser = argparse.ArgumentParser(prog="python -m tests.row_search", description=__doc__)
    parser.add_argument("--programs", type=int, default=5000, help="so many different ones")
    parser.add_argument("--seed", type=int, help="of the first round; at random where it is not given")
    given_ = parser.parse_args(arguments)
    first = random.SystemRandom().randrange(1 << 31) if given_.seed is None else given_.seed
    print(f"seed {first}", flush=True)
    search, begin = Search(given_.programs), time.perf_counter()
    search.run(first)
    endings = ", ".join(f"{count:,} {ending}" for ending, count in search.endings.items())
    print(
        f"seed {first}: {len(search.seen):,} programs ({endings}), no difference, no hang; "
        f"{search.cycles:,} cycles, {search.bursts:,} bursts; "
        f"{search.pressed:,} programs with all transfers of an engine out for backpressure, "
        f"{search.refreshed:,} with refreshes; {time.perf_counter() - begin:,.0f} s"
    )


if __name__ == "__main__":
    main()
