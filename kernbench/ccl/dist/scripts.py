"""Scripts that `torchrun` starts: each worker runs the whole script, with its rank in environment variables."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kernbench.ccl.dist.errors import ArgumentError
from kernbench.ccl.dist.torch_groups import no_rendezvous
from kernbench.ccl.dist.workers import spawn, this_worker
from kernbench.common.errors import InputError, Problem
from kernbench.common.files import SOURCE_BYTES, read_bounded
from kernbench.common.user_modules import Unloadable, loading


def run_script(
    path: str | os.PathLike[str], args: Sequence[str] = (), *, nproc_per_node: int = 1, nnodes: int = 1, machine: Any = None
) -> Any:
    """Run a script in `nnodes * nproc_per_node` workers, as `torchrun` does, and return the engine.

    In each worker, the environment variables RANK, LOCAL_RANK, WORLD_SIZE, LOCAL_WORLD_SIZE, GROUP_RANK, MASTER_ADDR and
    MASTER_PORT have the values that `torchrun` sets.

    Parameters
    ----------
    path
        The script. Its import lines of `torch.distributed` are changed to `from kernbench.ccl import dist`.
    args
        The arguments of the script.
    nproc_per_node
        The number of workers on each node.
    nnodes
        The number of nodes, which only give the ranks their numbers. Where ranks are on the machine depends on the machine.
    machine
        The machine. None chooses the smallest preset with enough PEs.

    Raises
    ------
    InputError
        If the script cannot be read or is not valid Python, if a number is not valid, or if the calls of the workers do not
        match.
    """
    file = Path(path)
    for name, value in (("nproc_per_node", nproc_per_node), ("nnodes", nnodes)):
        if type(value) is not int or value < 1:
            raise ArgumentError(Problem("dist.run_script", "it must be an integer of at least 1", name, value))
    content = read_bounded(file, SOURCE_BYTES)
    try:
        with loading(os.fspath(path)):
            code = compile(content, os.fspath(path), "exec")
    except Unloadable as error:
        raise InputError(Problem(error.place, error.rule)) from error
    ranks = nproc_per_node * nnodes

    def worker(rank: int) -> None:
        me = this_worker()
        me.environment = {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank % nproc_per_node),
            "GROUP_RANK": str(rank // nproc_per_node),
            "WORLD_SIZE": str(ranks),
            "LOCAL_WORLD_SIZE": str(nproc_per_node),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": "29500",
        }
        os.environ.update(me.environment)
        try:
            exec(code, {"__name__": "__main__", "__file__": os.fspath(path), "__builtins__": __builtins__})
        except SystemExit as end:
            if end.code not in (None, 0):
                raise

    worker.__name__ = file.name
    with _as_script(file, args), no_rendezvous(content):
        return spawn(worker, nprocs=ranks, machine=machine)


@contextmanager
def _as_script(file: Path, args: Sequence[str]) -> Iterator[None]:
    """Set the arguments and the module path of a script, and restore them and the environment at the end."""
    before = sys.argv, list(sys.path), dict(os.environ)
    sys.argv = [os.fspath(file), *args]
    sys.path.insert(0, os.fspath(file.parent.resolve()))
    try:
        yield
    finally:
        sys.argv, sys.path[:] = before[:2]
        for name in set(os.environ) - set(before[2]):
            del os.environ[name]
        os.environ.update(before[2])
