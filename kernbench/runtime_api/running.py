"""One run of a bench: its context, the components that run it, and its results."""

from __future__ import annotations

import hashlib
import inspect
import os
import traceback
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import numpy as np

from kernbench.common.dtypes import Array
from kernbench.common.errors import InputError, Problem
from kernbench.common.files import SOURCE_BYTES, read_bounded
from kernbench.runtime_api.allocator import AddressSpace
from kernbench.runtime_api.context import Context
from kernbench.runtime_api.pe_set import PeSet
from kernbench.sim_engine.engine import LaunchTimes, PeTimes, Session
from kernbench.triton_emu.kernel_system import KernelSystem, kernel_system

if TYPE_CHECKING:
    from kernbench.runtime_api.bench import Bench
    from kernbench.sim_engine.machine import Machine
    from kernbench.sim_engine.verify import Verification


class BenchRun:
    """A bench with its parameters and its PEs: its context, and the results of the run."""

    def __init__(
        self,
        bench: Bench,
        session: Session,
        params: dict[str, Any],
        places: PeSet | None = None,
        memory: AddressSpace | None = None,
    ) -> None:
        """`places`: the PEs of the bench; None for the whole machine. `memory`: addresses that it shares with other benches."""
        self.bench = bench
        self.params = params
        self.places = PeSet(session.config) if places is None else places
        self.context = Context(self.places, params, session.store, session.log, memory)
        self._session = session

    def body(self) -> None:
        """The host program."""
        self.bench.run(self.context)

    def launches(self) -> list[LaunchTimes]:
        """The start and the end of each launch so far, and of each PE in the launch."""
        return [
            LaunchTimes(
                launch.name,
                launch.issued,
                launch.start,
                launch.end,
                {pe: PeTimes(span.start, span.end) for pe, span in launch.per_pe.items()},
            )
            for launch in self.context.launches
        ]

    @property
    def end(self) -> int:
        """[cycle] The largest end of the launches and copies so far; 0 if there are none."""
        launches, copies = self.context.launches, self.context.host.copies
        return max([0, *(one.end or 0 for one in launches), *(one.end or 0 for one in copies)])

    def identity(self) -> dict[str, Any]:
        """The identity of the run: name, parameters, and a digest of the file of the bench."""
        source = hashlib.sha256(read_bounded(self.bench.source, SOURCE_BYTES)).hexdigest()
        return {"bench": self.bench.name, "params": self.params, "source": source}

    def notes(self) -> list[str]:
        """Notes about outputs that several units compute, and about unexpected behaviour of the run's Triton kernels."""
        repeated = list(filter(None, dict.fromkeys(tensor.repeated for tensor in self.context.outputs.values())))
        if not self.context.kernel_options:
            return repeated
        from kernbench.runtime_api.triton.races import left_out_notes

        texts = (text for one in self.context.kernel_options for text in (*one.notes, *left_out_notes(one)))
        return [*repeated, *dict.fromkeys(texts)]

    def kernel_files(self) -> list[str]:
        """The source files of the bench and of the kernels of the run."""
        found = [self.bench.source]
        for launch in self.context.launches:
            found += [str(inspect.getsourcefile(inspect.unwrap(work.kernel))) for work in launch.work[:1]]
        return list(dict.fromkeys(found))

    def expected(self) -> dict[str, Array]:
        """The outputs that the reference of the bench computes, by name.

        InputError if the bench has no reference, and if the names or shapes are not those of the run.
        """
        where, outputs = self.bench.where, self.context.outputs
        if self.bench.reference is None:
            raise InputError(
                Problem(where, "the bench has no reference for the verification", remedy="give @bench a reference=...")
            )
        try:
            given = self.bench.reference(dict(self.context.inputs), self.params)
        except Exception as error:
            rule = f"its reference failed: {_place(self.bench.reference, error)}{type(error).__name__}: {error}"
            raise InputError(Problem(where, rule)) from error
        if not isinstance(given, Mapping):
            rule = f"its reference must return arrays by the names of outputs, and returns a {type(given).__name__}"
            raise InputError(Problem(where, rule))
        if set(given) != set(outputs):
            rule = f"its reference returns {_names(given)}, and its run names {_names(outputs)}"
            raise InputError(Problem(where, rule, remedy="call ctx.output(name, tensor) for each, with the same names"))
        found = {name: np.asarray(array) for name, array in given.items()}
        for name, array in found.items():
            if array.shape != outputs[name].shape:
                rule = f"the reference's shape is {array.shape}, and that of the tensor {outputs[name].shape}"
                raise InputError(Problem(f"{where}: output {name}", rule))
        return found

    def verify(self, *, debug: bool = False) -> Verification:
        """Run Phase 2 for the whole run, and compare its outputs with the reference. With `debug`, ops are replayed one after
        another.

        InputError without an op log, and in the same cases as `expected`.
        """
        from kernbench.runtime_api.verification import verify_run  # Phase 2, imported only if it is needed

        log = self._session.log
        if log is None:
            raise InputError(Problem(self.bench.where, "this run has no op log, so its results cannot be verified"))
        return verify_run(log, self.context.outputs, self.expected(), self.places, debug=debug)


def _system(session: Session, runs: Sequence[BenchRun], memory: AddressSpace) -> KernelSystem:
    """All that runs the host programs and the kernels of benches on one machine."""
    system = kernel_system(
        runs[0].places.config,
        *(one.body for one in runs),
        store=session.store,
        log=session.log,
        memory=memory,
        strict_wait=session.strict_wait,
        contents=any(one.bench.reads_memory for one in runs),
    )
    for one, host in zip(runs, system.hosts, strict=True):
        one.context.host, one.context.queues = host, system.queues
    return system


class OnSystem:
    """Benches on the system that runs their host programs and kernels."""

    def __init__(self, system: KernelSystem) -> None:
        self.system = system
        self.components: Mapping[str, Any] = system.components

    @property
    def error(self) -> BaseException | None:
        """The first exception of a bench or a kernel."""
        return self.system.error

    def bind(self, machine: Machine) -> None:
        """Before cycle 0: give the components their positions in the machine."""
        self.system.bind(machine)


class Running(BenchRun, OnSystem):
    """A bench that has a machine to itself."""

    def __init__(self, bench: Bench, session: Session, params: dict[str, Any]) -> None:
        BenchRun.__init__(self, bench, session, params)
        OnSystem.__init__(self, _system(session, [self], self.context.memory))

    def state(self) -> dict[str, Any]:
        """The state of the run outside of its engines: kernels, launches and inputs, as plain JSON."""
        return {
            "kernels": [asdict(state) for state in self.system.states()],
            "launches": [asdict(one) for one in self.launches()],
            "inputs": {name: hashlib.sha256(array.tobytes()).hexdigest() for name, array in self.context.inputs.items()},
        }


class Together(OnSystem):
    """Several benches on one machine, each with its own host program and its own places."""

    def __init__(self, session: Session, benches: Sequence[tuple[Bench, dict[str, Any], PeSet]]) -> None:
        memory = AddressSpace(PeSet(session.config))
        self.runs = [BenchRun(bench, session, params, places, memory) for bench, params, places in benches]
        super().__init__(_system(session, self.runs, memory))

    def launches(self) -> list[LaunchTimes]:
        """The launches of all benches, bench by bench."""
        return [launch for one in self.runs for launch in one.launches()]


def _place(function: Any, error: Exception) -> str:
    """`mine.py:21: `: the last line of the function's own file in the traceback of an error; empty if there is none."""
    file = getattr(getattr(function, "__code__", None), "co_filename", None)
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == file]
    return f"{os.path.basename(str(file))}:{lines[-1]}: " if lines else ""


def _names(outputs: Mapping[str, Any]) -> str:
    return ", ".join(sorted(outputs)) or "none"
