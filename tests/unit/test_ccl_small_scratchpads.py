"""Collectives on PEs with small scratchpads: the default queues fit, and the results are right."""

from __future__ import annotations

import json

import numpy as np
import pytest

from kernbench.ccl import dist
from kernbench.config import SystemConfig, load_config

SMALL = "pe.spm.num_banks=16", "pe.spm.bank_size_bytes=512"  # 8 KiB


@pytest.mark.parametrize("algo", ["hierarchical", "ring", "direct", "auto"])
def test_default_queues_leave_room(algo: str, capsys: pytest.CaptureFixture[str]) -> None:
    from kernbench.cli.main import exit_code

    sets = [word for one in SMALL for word in ("--set", one)]
    where = ["-a", algo, "--shape", "2x2x2", "-c", "two_sips"]
    code = exit_code(["ccl", "run", "all_reduce", *where, "-b", "2K", "--json", *sets])
    found = json.loads(capsys.readouterr().out)
    assert code == 0 and [one["wrong"] for one in found["rows"]] == [0]


def test_workers_fit_too() -> None:
    got = []

    def worker(rank: int) -> None:
        dist.init_process_group()
        x = dist.from_numpy(np.full(700, rank, np.float32))
        dist.all_reduce(x)
        dist.broadcast(x, src=3)
        got.append(dist.to_numpy(x).tolist() == [6.0] * 700)

    dist.spawn(worker, nprocs=4, machine=load_config("single_cube", SMALL, kind=SystemConfig))
    assert got == [True] * 4
