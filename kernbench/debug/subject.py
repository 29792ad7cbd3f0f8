"""The subject of a debugger: a program, a bench or a collective on a machine, which can be started any number of times."""

from __future__ import annotations

import contextlib
import hashlib
import io
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import msgspec

from kernbench.api.targets import DEFAULT_MACHINE, Target, bench_of, machine_of, name_of, program_of
from kernbench.cmdq import Program
from kernbench.common.errors import InputError, Problem
from kernbench.common.units import parse_size_text
from kernbench.config.machine import MachineConfig
from kernbench.sim_engine.engine import GraphEngine
from kernbench.sim_engine.machine import Machine

if TYPE_CHECKING:
    from kernbench.config.allowed_code import AllowCode
    from kernbench.runtime_api.bench import Bench

PROGRAM, KERNEL, COLLECTIVE = "program", "kernel", "collective"
RANKS, SIZE = 8, "1k"  # defaults of a collective
#: Parameters of a collective for `--set`: each has the meaning of the option of `kbsim ccl run`.
CCL_PARAMS = ("ranks", "size", "dtype", "slots", "slot_bytes", "tier", "root", "seed")


@dataclass(frozen=True)
class Live:
    """A run that has begun: its machine and, for kernels, the engine that runs them."""

    machine: Machine
    engine: GraphEngine | None = None


@dataclass(frozen=True, eq=False)
class Subject:
    """One target on one machine. `begin` returns the same run, at cycle 0, each time.

    `source`: for a bench, the digest of its file. `params`: the parameters of a bench or collective.
    """

    name: str
    kind: str  #: program, kernel or collective
    config: MachineConfig
    program: Program | None = None
    bench: Bench | None = None
    params: Mapping[str, Any] = field(default_factory=dict)
    strict_wait: bool = False
    target: Target = ""  #: the target as given
    own: tuple[str, ...] = ()  #: the settings that are parameters of the target
    installed: bool = True  #: whether its name alone identifies it, so that it is not a file with code
    printed: list[str] = field(default_factory=list)  #: output of the bench's code in the first run

    def begin(self) -> Live:
        """The run at cycle 0."""
        if self.program is not None:
            machine = Machine(self.config, self.program)
            return Live(machine)
        assert self.bench is not None
        engine = GraphEngine(self.config, op_log=True, strict_wait=self.strict_wait)
        machine = engine.prepare(self.bench, **({} if self.kind == COLLECTIVE else self.params))
        machine.keep_commands()  # engines and jobs are shown with opcodes and source lines
        return Live(machine, engine)

    def with_machine(self, config: Any = None, settings: Sequence[str] = ()) -> Subject:
        """The same target on another machine, or on this machine with other values; `settings` may also be parameters of the
        target.

        A workload is planned for the machine again. InputError in the same cases as `subject_of`.
        """
        chosen = self.config if config is None else config
        return subject_of(self.target, chosen, [*self.own, *settings], strict_wait=self.strict_wait)

    def digest(self) -> str:
        """SHA-256 of the content of the target: for a program its entries, for a bench its file and parameters."""
        if self.program is not None:
            return hashlib.sha256(msgspec.json.encode(self.program.to_dict())).hexdigest()
        assert self.bench is not None
        what: dict[str, Any] = {"name": self.name, "params": {key: str(value) for key, value in self.params.items()}}
        if self.kind == KERNEL:
            what["source"] = _file_digest(self.bench.source)
        return hashlib.sha256(msgspec.json.encode(what, order="sorted")).hexdigest()


def _file_digest(path: str) -> str:
    from kernbench.common.files import SOURCE_BYTES, read_bounded

    return hashlib.sha256(read_bounded(path, SOURCE_BYTES)).hexdigest()


@contextlib.contextmanager
def quiet(printed: list[str] | None = None) -> Iterator[None]:
    """Context of a run: the output of its code goes to `printed`, or is discarded in a repeated run."""
    text = io.StringIO()
    with contextlib.redirect_stdout(text):
        try:
            yield
        finally:
            if printed is not None and text.getvalue():
                printed.extend(text.getvalue().splitlines())


def subject_of(
    target: Target,
    config: Any = None,
    settings: Sequence[str] = (),
    *,
    strict_wait: bool = False,
    allow_code: AllowCode = (),
) -> Subject:
    """The subject that a target names. `settings`: values of the machine and parameters of the target, in the form of `--set`.

    A target is any target of `kbsim run`, or a collective: `all_reduce`, or `all_reduce:ring` with its algorithm. InputError if
    the target or machine does not exist, or if they do not fit each other.
    """
    text = os.fspath(target) if isinstance(target, (str, os.PathLike)) else ""
    if _is_collective(text):
        return _collective(text, config, settings, allow_code)
    bench = bench_of(target)
    if bench is None:
        machine = machine_of(DEFAULT_MACHINE if config is None else config, settings, allow_code=allow_code)
        if strict_wait:
            raise InputError(Problem("kbsim debug", f"--strict-wait is only for benches, and {name_of(target)} is not a bench"))
        program = program_of(target, machine)
        return Subject(program.name or name_of(target), PROGRAM, machine, program=program, target=target)
    from kernbench.runtime_api.bench import checked, split_settings
    from kernbench.runtime_api.discovery import installed_benches

    params, keys = split_settings(bench.where, bench.params, list(settings))
    machine = machine_of(bench.machine if config is None else config, keys, allow_code=allow_code)
    installed = bench.name in installed_benches() and not text.endswith(".py")
    params = dict(checked(bench.where, bench.params, params))
    own = tuple(one for one in settings if one not in keys)
    return Subject(
        bench.name,
        KERNEL,
        machine,
        bench=bench,
        params=params,
        strict_wait=strict_wait,
        target=target,
        own=own,
        installed=installed,
    )


def _is_collective(text: str) -> bool:
    from kernbench.ccl.collectives import COLLECTIVES

    return text.partition(":")[0] in COLLECTIVES and not os.path.exists(text)


def _collective(text: str, config: Any, settings: Sequence[str], allow_code: AllowCode) -> Subject:
    """A collective of one size, with the parameters `ranks=8`, `size=4k`, ..."""
    from kernbench.ccl.collectives import CCL_DTYPES
    from kernbench.ccl.group import group_of, shape_for, smallest_machine
    from kernbench.ccl.measure import CclRequest, counts_of, queues_of, resolved
    from kernbench.ccl.measure import bench_of as collective_bench
    from kernbench.ccl.registry import read_registry

    given = [one.partition("=") for one in settings]
    own = {name.strip(): value.strip() for name, _, value in given if name.strip() in CCL_PARAMS}
    rest = ["".join(one) for one in given if one[0].strip() not in CCL_PARAMS]
    ranks = _number("ranks", own.get("ranks", str(RANKS)), 1)
    machine: Any = smallest_machine(ranks) if config is None else machine_of(config, allow_code=allow_code)
    machine = machine_of(machine, rest)
    registry = read_registry()
    collective, _, algorithm = text.partition(":")
    entry = registry.find(collective, algorithm or None).fitted(machine)
    if own.get("dtype", "f16") not in CCL_DTYPES:
        raise InputError(Problem("kbsim debug", f"it must be one of {', '.join(CCL_DTYPES)}", "dtype", own["dtype"]))
    slots = _number("slots", own["slots"], 1) if "slots" in own else None
    slot_bytes = _size("slot_bytes", own["slot_bytes"]) if "slot_bytes" in own else None
    group = group_of(machine, shape_for(machine, ranks))
    queues = queues_of(registry, entry, slots, slot_bytes, own.get("tier"), config=machine, group=group)
    root, seed = _number("root", own.get("root", "0"), 0), _number("seed", own.get("seed", "0"), 0)
    if root >= ranks:
        raise InputError(Problem("kbsim debug", f"it must be a rank from 0 to {ranks - 1}", "root", root))
    request = CclRequest(machine, group, entry, own.get("dtype", "f16"), queues, True, seed=seed, root=root)
    size = _size("size", own.get("size", SIZE))
    count = counts_of(request, size, size, 1)[0]
    request = resolved(request, count)
    bench = collective_bench(request, count)
    params = {"ranks": ranks, "size": size, "dtype": request.dtype, "root": root, "seed": seed}
    params |= {key: own[key] for key in ("slots", "slot_bytes", "tier") if key in own}
    given_own = tuple(f"{key}={value}" for key, value in own.items())
    name = f"{collective}:{request.entry.name}"
    return Subject(name, COLLECTIVE, machine, bench=bench, params=params, target=name, own=given_own)


def _number(name: str, text: str, least: int) -> int:
    if not (text.isascii() and text.isdigit() and len(text) < 10 and int(text) >= least):
        raise InputError(Problem("kbsim debug", f"it must be a whole number of at least {least}", name, text))
    return int(text)


def _size(name: str, text: str) -> int:
    try:
        size = parse_size_text(text)
    except ValueError as error:
        raise InputError(Problem("kbsim debug", str(error), name, text)) from None
    if not 1 <= size <= 1 << 40:
        raise InputError(Problem("kbsim debug", "it must be at least 1 byte and at most 1T", name, text))
    return size
