"""A process that runs many programs: no leak, no crosstalk of threads, and the order of internal lists is unobservable."""

from __future__ import annotations

import gc
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench import Machine, Program, load_config, load_program
from tests.strategies import systems


def small_program() -> Program:
    program = Program("leak")
    for k in range(20):
        tile = program.dma_load(
            tensor_role="weight", qbits=8, dram_addr=k * 4096, num_elements=3000, spm_bank=0, spm_offset=k * 256
        )
        program.ve_softmax(
            length=512, qbits_activation=8, in_bank=0, in_offset=0, out_bank=0, out_offset=4096, deps_before=[tile]
        )
    program.end()
    return program


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the resident size from /proc")
def test_no_leak_over_a_thousand_runs() -> None:
    config, program = load_config({"dram": {"channels": 4}}), small_program()

    def resident() -> int:
        gc.collect()
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    def run(times: int) -> None:
        for _ in range(times):
            machine = Machine(config, program)
            machine.run()
            machine.restore(machine.snapshot())
            machine.peek()
            machine.result()

    run(200)  # pools and caches fill
    before = resident()
    run(1000)
    # One run's tables are some 60 kB: had even one of them leaked each time, this would be megabytes.
    assert resident() - before < 4_000_000


def test_cores_in_threads_do_not_disturb_each_other() -> None:
    config, program = load_config({"dram": {"channels": 4}}), small_program()

    def run(_: int) -> str:
        machine = Machine(config, program)
        machine.run()
        return machine.result().to_json()

    with ThreadPoolExecutor(8) as pool:
        assert len(set(pool.map(run, range(64)))) == 1


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(systems(), st.integers(1, 2**63 - 1))
def test_order_of_internal_lists_is_unobservable(system: tuple[dict[str, Any], dict[str, Any]], seed: int) -> None:
    """What finished, left, joined or was touched in a cycle is handled in any order: the result is the same."""
    config, program = load_config(system[0]), load_program(system[1])
    plain, shuffled = Machine(config, program), Machine(config, program)
    shuffled.shuffle_lists(seed)
    plain.run(skip=False)
    shuffled.run(skip=False)
    assert shuffled.result().to_dict() == plain.result().to_dict()
