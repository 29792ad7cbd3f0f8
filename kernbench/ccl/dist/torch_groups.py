"""Errors of programs that use process groups of `torch.distributed` itself, which the workers of `dist` do not have."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, NoReturn

from kernbench.ccl.dist.errors import ArgumentError
from kernbench.common.errors import Problem, text_of

#: How the texts of torch begin when it finds no process group, and when it would connect to other processes.
_NO_GROUP = ("Default process group has not been initialized", "Error initializing torch.distributed")
_IMPORT = "change the import line to `from kernbench.ccl import dist`"
_OTHERS = (
    "FSDP, DTensor, pipelines and RPC do not run here; call the collectives of dist, or wrap the module in "
    "dist.nn.parallel.DistributedDataParallel"
)
#: By the first function or class of torch that the program calls.
_REMEDIES = {
    "DistributedDataParallel": "import it from kernbench.ccl.dist.nn.parallel",
    "DistributedSampler": "give it num_replicas=dist.get_world_size() and rank=dist.get_rank()",
}


def explained(error: BaseException) -> BaseException:
    """Return an error that names the function of torch and says what to use instead; other errors as they are."""
    entry, last = _torch_frames(error.__traceback__)
    if not entry:  # the program raised it: its text may be code that does not end
        return error
    if not (text_of(error) or "").startswith(_NO_GROUP) and not last.startswith("torch.distributed.tensor"):
        return error
    from kernbench.ccl import dist  # which imports this module

    name = entry.rpartition(".")[2]
    remedy = _REMEDIES.get(name, _IMPORT if name in dist.__all__ else _OTHERS)
    rule = "it needs a process group of torch.distributed itself, and workers of dist have none"
    found = ArgumentError(Problem(entry, rule, remedy=remedy)).with_traceback(error.__traceback__)
    found.__cause__ = error
    return found


def _torch_frames(trace: TracebackType | None) -> tuple[str, str]:
    """Return the function or class of torch that the program called, and the module in which the error was raised."""
    entry = module = ""
    while trace is not None:
        module = str(trace.tb_frame.f_globals.get("__name__", ""))
        if module == __name__:
            break
        if module != "torch" and not module.startswith("torch."):
            entry = ""
        elif not entry:
            code, function = trace.tb_frame.f_code, trace.tb_frame.f_locals.get("func")
            # Functions of torch.distributed are called by a wrapper.
            name = getattr(function, "__name__", "") if code.co_name == "wrapper" else code.co_qualname
            entry = f"{module if code.co_name != 'wrapper' else getattr(function, '__module__', module)}.{name}"
            entry = entry.removesuffix(".__init__")
        trace = trace.tb_next
    return entry, module


@contextmanager
def no_rendezvous(script: bytes) -> Iterator[None]:
    """Let torch raise an error, instead of waiting for other processes, if a script initialises `torch.distributed` itself.

    All workers are in one process, and the environment variables of torchrun name a port at which no other process listens.
    """
    try:
        if b"torch.distributed" not in script:
            raise ImportError
        from torch.distributed import distributed_c10d as groups  # type: ignore[import-not-found,unused-ignore]
    except ImportError:
        yield
        return
    before = groups.rendezvous
    groups.rendezvous = _refused
    try:
        yield
    finally:
        groups.rendezvous = before


def _refused(*args: Any, **kwargs: Any) -> NoReturn:
    raise ValueError(f"{_NO_GROUP[1]}: the workers are in one process")
