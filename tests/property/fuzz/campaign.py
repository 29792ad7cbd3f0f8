"""Many inputs over many formats: which, in which processes, what came of them, and the table that says so."""

from __future__ import annotations

import contextlib
import gc
import importlib
import io
import json
import os
import pkgutil
import select
import shutil
import tempfile
import time
import traceback
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, field, replace
from itertools import cycle, islice
from pathlib import Path
from random import Random
from typing import Any

import kernbench
from tests.property.fuzz.case import SPECIAL, Case, Format
from tests.property.fuzz.formats.checkpoint import CheckpointFormat
from tests.property.fuzz.formats.compiled import CompiledFormat
from tests.property.fuzz.formats.energy import EnergyFormat
from tests.property.fuzz.formats.findings import FindingFormat
from tests.property.fuzz.formats.machine_files import MachineFormat, MeshFormat, ProgramFormat, SystemFormat
from tests.property.fuzz.formats.measured import MeasuredFormat
from tests.property.fuzz.formats.models import CclFormat, ModelFormat, PolicyFormat
from tests.property.fuzz.formats.noc import DeviceFormat, NocFormat
from tests.property.fuzz.formats.onnx_file import OnnxFormat
from tests.property.fuzz.formats.op_log import OpLogFormat
from tests.property.fuzz.formats.other_tools import AlgorithmFormat, ChakraFormat, NetworkFormat
from tests.property.fuzz.formats.serving import RuntimeFormat, ServingFormat
from tests.property.fuzz.formats.sweeps import SpecFormat, StoreFormat
from tests.property.fuzz.formats.traces import CountersFormat, TraceFormat
from tests.property.fuzz.harness import (
    FAILURES,
    INTERNAL,
    MEMORY,
    RAN,
    REFUSED,
    UNSOUND,
    Ended,
    Limits,
    empty,
    reason_of,
    run_case,
)

#: By name: how it is made of a seed and a number of drawn bases, and its share of a campaign.
FORMATS: dict[str, tuple[Callable[[int, int], Format], int]] = {
    "program": (ProgramFormat, 4),
    "machine": (MachineFormat, 4),
    "system": (SystemFormat, 3),
    "mesh": (MeshFormat, 1),
    "checkpoint": (CheckpointFormat, 12),
    "kbp": (CompiledFormat, 8),
    "onnx": (OnnxFormat, 4),
    "trace": (TraceFormat, 5),
    "counters": (CountersFormat, 1),
    "spec": (SpecFormat, 2),
    "store": (StoreFormat, 3),
    "op_log": (OpLogFormat, 2),
    "model": (ModelFormat, 3),
    "policy": (PolicyFormat, 1),
    "ccl": (CclFormat, 2),
    "finding": (FindingFormat, 1),
    "noc": (NocFormat, 2),
    "device": (DeviceFormat, 1),
    "energy": (EnergyFormat, 2),
    "algorithm": (AlgorithmFormat, 3),
    "chakra": (ChakraFormat, 2),
    "network": (NetworkFormat, 2),
    "serving": (ServingFormat, 4),
    "runtime": (RuntimeFormat, 2),
    "measured": (MeasuredFormat, 2),
}
SPECIAL_SECONDS = 20.0  #: limit on the time of one of them: what is not a file is refused at once
MARK = ".kernbench-fuzz"  #: in every folder of kept inputs
SPECIAL_FILES = "special"  #: the row of links, pipes and folders, which every format's readers get


@dataclass(frozen=True, slots=True)
class Plan:
    """What a campaign runs."""

    seed: int
    inputs: int
    formats: Sequence[str] = tuple(FORMATS)
    jobs: int = 2
    minutes: float | None = None
    bases: int = 24  #: drawn ones, of each kind
    special: int = len(SPECIAL)  #: kinds of links, pipes and folders that each reader gets, in turn
    limits: Limits = field(default_factory=Limits)
    each: int | None = None  #: inputs of each format, instead of `inputs` in all


@dataclass(frozen=True, slots=True)
class Outcome:
    """One input, and how it ended."""

    format: str
    number: int
    kind: str
    code: int
    seconds: float
    resident: int
    reason: str = ""  #: of a failure
    command: str = ""
    kept: str = ""  #: where its files are


def shares(plan: Plan) -> dict[str, int]:
    """How many inputs each format gets."""
    if plan.each is not None:
        return dict.fromkeys(plan.formats, plan.each)
    whole = sum(FORMATS[name][1] for name in plan.formats)
    return {name: max(1, round(plan.inputs * FORMATS[name][1] / whole)) for name in plan.formats}


def made(plan: Plan) -> dict[str, Format]:
    """The formats of a plan, with their sound files."""
    import_all()
    return {name: FORMATS[name][0](plan.seed, plan.bases) for name in plan.formats}


def import_all() -> None:
    """Import all of the product, so that no child has to."""
    for module in pkgutil.walk_packages(kernbench.__path__, "kernbench."):
        if not module.name.startswith(("kernbench.benches", "kernbench.triton.tools")):
            with contextlib.suppress(ImportError):  # what needs a package that is not there
                importlib.import_module(module.name)


def warm(formats: dict[str, Format]) -> None:
    """Run a sound case of each format in this process: what is loaded or made once is there before it forks."""
    from kernbench.cli.main import exit_code

    before, environment = os.getcwd(), dict(os.environ)
    for format_ in formats.values():
        case = next((case for case in format_.sound() if case.call is None and case.arguments[0] != "sweep"), None)
        if case is None:
            continue
        with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
            case.write(Path(folder))
            os.chdir(folder)
            try:
                with contextlib.redirect_stderr(io.StringIO()):
                    exit_code(case.arguments)
            finally:
                os.chdir(before)
                os.environ.clear()
                os.environ.update(environment)
    gc.collect()
    gc.freeze()


def case_of(formats: dict[str, Format], plan: Plan, name: str, number: int, kept: dict[str, list[Case]] | None = None) -> Case:
    """One input of a campaign, the same for the same seed; numbers below 0 are those of sound files.

    `kept`: what a campaign keeps of sound files and special ones, which are all made at once.
    """
    kept = {} if kept is None else kept
    if name == SPECIAL_FILES or number < 0:
        if name not in kept:
            kept[name] = special_cases(formats, plan.special) if name == SPECIAL_FILES else formats[name].sound()
        return kept[name][number if name == SPECIAL_FILES else -1 - number]
    return formats[name].mutated(Random(f"{plan.seed} {name} {number}"))


def special_cases(formats: dict[str, Format], kinds: int = len(SPECIAL)) -> list[Case]:
    """Every reader with special files in the place of the file that it reads.

    `kinds`: how many each reader gets. The next reader gets the next kinds.
    """
    found = []
    turn = cycle(SPECIAL)
    for format_ in formats.values():
        for case, name in format_.readers():
            for kind in islice(turn, kinds):
                files = {other: data for other, data in case.files.items() if other != name}
                found.append(Case(case.arguments, files, {name: kind}, case.call))
    return found


def schedule(formats: dict[str, Format], plan: Plan) -> list[tuple[str, int]]:
    """Which inputs, in which order: all formats mixed, sound files first."""
    sound = [(name, -1 - number) for name, format_ in formats.items() for number in range(len(format_.sound()))]
    queue = [(name, number) for name, count in shares(plan).items() for number in range(count)]
    if plan.special:
        queue += [(SPECIAL_FILES, number) for number in range(len(special_cases(formats, plan.special)))]
    Random(plan.seed).shuffle(queue)
    return sound + queue


def campaign(plan: Plan, keep: Path | None = None) -> Iterator[Outcome]:
    """Run the inputs of a plan in `jobs` processes; outcomes as they come. `keep`: where failing inputs are put."""
    formats = made(plan)
    warm(formats)
    queue = schedule(formats, plan)
    until = time.monotonic() + 60 * plan.minutes if plan.minutes is not None else None
    readers = []
    for job in range(plan.jobs):
        read_end, write_end = os.pipe()
        pid = os.fork()
        if not pid:
            os.close(read_end)
            code = 1
            try:
                with os.fdopen(write_end, "w") as told:
                    _work(formats, plan, queue[job :: plan.jobs], until, keep, told)
                code = 0
            except (KeyboardInterrupt, BrokenPipeError):  # nobody listens any more
                pass
            except BaseException:
                traceback.print_exc(limit=-8)
            finally:
                os._exit(code)
        os.close(write_end)
        readers.append((pid, read_end))
    yield from _told([read_end for _, read_end in readers])
    for pid, read_end in readers:
        os.close(read_end)
        _, status = os.waitpid(pid, 0)
        if status:
            raise RuntimeError(f"a process of the fuzzer ended with {os.waitstatus_to_exitcode(status)}")


def _told(readers: list[int]) -> Iterator[Outcome]:
    """What the processes say: a line of JSON for each outcome."""
    held = dict.fromkeys(readers, b"")
    while held:
        for reader in select.select(list(held), (), ())[0]:
            data = os.read(reader, 1 << 16)
            *lines, held[reader] = (held[reader] + data).split(b"\n")
            for line in lines:
                yield Outcome(**json.loads(line))
            if not data:
                del held[reader]


def _work(
    formats: dict[str, Format], plan: Plan, queue: list[tuple[str, int]], until: float | None, keep: Path | None, told: Any
) -> None:
    base = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="kernbench-fuzz-", dir=base) as place:
        folder = Path(place) / "run"
        kept: dict[str, list[Case]] = {}
        for name, number in queue:
            if until is not None and time.monotonic() > until:
                return
            outcome = run_one(plan, case_of(formats, plan, name, number, kept), name, number, folder, keep)
            told.write(json.dumps(asdict(outcome)) + "\n")
            told.flush()


def run_one(plan: Plan, case: Case, name: str, number: int, folder: Path, keep: Path | None = None) -> Outcome:
    """Run one input; a failure once more, to say where it comes from, and its files are kept."""
    limits = replace(plan.limits, seconds=min(SPECIAL_SECONDS, plan.limits.seconds)) if name == SPECIAL_FILES else plan.limits
    ended = run_case(case, folder, limits)
    if number < 0 and ended.kind == REFUSED:
        ended = replace(ended, kind=UNSOUND)
    if not ended.failed:
        return Outcome(name, number, ended.kind, ended.code, ended.seconds, ended.resident)
    said = ended
    if ended.kind == INTERNAL or (ended.kind == MEMORY and ended.code >= 0):
        again = run_case(case, folder, limits, debug=True)
        said = again if again.kind == ended.kind else ended
    kept = ""
    if keep is not None:
        place = keep / f"{name}-{number}"
        keep_case(case, said, place)
        kept = str(place)
    reason = reason_of(said)
    return Outcome(name, number, ended.kind, ended.code, ended.seconds, ended.resident, reason, case.command(), kept)


def keep_case(case: Case, ended: Ended, place: Path) -> None:
    """The files of an input, its command and what it said."""
    empty(place)
    case.write(place)
    (place / "command.sh").write_text(case.command() + "\n", encoding="utf-8", errors="replace")
    (place / "stderr.txt").write_text(ended.said, encoding="utf-8", errors="replace")


COLUMNS = (RAN, REFUSED, *FAILURES)


def table(outcomes: Sequence[Outcome]) -> str:
    """A row a format: how many inputs ended how, the slowest and the largest."""
    rows = [["format", "inputs", *COLUMNS, "slowest", "largest"]]
    names = [*dict.fromkeys(one.format for one in outcomes)]
    for name in [*sorted(names, key=lambda name: [*FORMATS, SPECIAL_FILES].index(name)), "all"]:
        found = [one for one in outcomes if name in (one.format, "all")]
        counts = Counter(one.kind for one in found)
        most, size = max((one.seconds for one in found), default=0), max((one.resident for one in found), default=0)
        rows.append([name, f"{len(found)}", *(str(counts[kind]) for kind in COLUMNS), f"{most:.1f} s", f"{size >> 20} MiB"])
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    return "\n".join(
        "  ".join((row[0].ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))))
        for row in rows
    )


def groups(outcomes: Sequence[Outcome], shown: int = 2) -> str:
    """Failures by their reason, the most frequent first, each with a few of its inputs."""
    found: dict[tuple[str, str], list[Outcome]] = defaultdict(list)
    for one in outcomes:
        if one.kind in FAILURES:
            found[one.kind, one.reason].append(one)
    lines = []
    for (kind, reason), same in sorted(found.items(), key=lambda item: (-len(item[1]), item[0])):
        formats = ", ".join(sorted({one.format for one in same}))
        lines.append(f"{len(same):5}  {kind}  [{formats}]  {reason}")
        lines += [f"         {one.format}:{one.number}  {one.kept or one.command[:150]}" for one in same[:shown]]
    return "\n".join(lines)


def clean(keep: Path) -> None:
    """Take away what an earlier campaign has kept, and nothing else; ValueError where there is something else."""
    if keep.exists() and any(keep.iterdir()):
        if not (keep / MARK).exists():
            raise ValueError(f"{keep} is not empty, and no campaign has made it")
        shutil.rmtree(keep)
    keep.mkdir(parents=True, exist_ok=True)
    (keep / MARK).touch()
