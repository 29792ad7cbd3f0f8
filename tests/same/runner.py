"""Runs items in processes of their own and says what each left behind, stepping and skipping."""

from __future__ import annotations

import hashlib
import json
import queue
import re
import shlex
import shutil
import tempfile
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import kernbench
from tests.forked import OVER, Forked
from tests.same.inputs import write_inputs
from tests.same.items import Found, Item

ROOT = Path(kernbench.__file__).resolve().parents[1]
SECONDS = 120.0  # [s] of one command
#: Versions of package and formats: they rise without another result.
VERSIONS = re.compile(rb'("(?:sim_version|version)": ?)("[^"]*"|[0-9.]+)')
#: Fields of a trace's first line that follow from versions, and from keys of machines that may come to be. Each machine is
#: pinned once, by `config show`.
META = ("sim_version", "version", "sim_id", "sim_config", "config_hash")


class Ran(NamedTuple):
    """An item that was run."""

    item: Item
    found: Found
    data: bytes  #: what was hashed
    wrong: str  #: what is wrong with it, whatever the manifest says; else empty


def settled(data: bytes) -> bytes:
    """The same without versions, times and the values of the machine that a trace repeats."""
    if data.startswith(b'{"event_type":"TRACE_META"'):
        first, _, rest = data.partition(b"\n")
        meta = json.loads(first)
        kept = {name: value for name, value in meta.items() if name not in META}
        return json.dumps(kept).encode() + b"\n" + rest
    return VERSIONS.sub(rb"\1null", data)


def found_of(data: bytes, codes: str) -> Found:
    """A line of the manifest."""
    return Found(hashlib.sha256(data).hexdigest()[:16], codes, len(data), _cycles(data))


def _cycles(data: bytes) -> int | None:
    """`cycles` of a result, or of the last line of a trace."""
    text = data if data.count(b"\n") <= 1 else data.rstrip(b"\n").rpartition(b"\n")[2]
    try:
        value = json.loads(text)
    except ValueError:
        return None
    cycles = value.get("cycles") if isinstance(value, dict) else None
    return cycles if isinstance(cycles, int) else None


def shown(item: Item) -> str:
    """What to type in the folder of inputs."""
    commands = " && ".join(shlex.join(("kbsim", *command)) for command in item.commands)
    return commands if item.folder == "." else f"cd {item.folder} && {commands}"


def run_items(
    items: Sequence[Item],
    cases: Path,
    jobs: int = 2,
    environment: Mapping[str, str] | None = None,
    told: Callable[[Ran], None] = lambda ran: None,
) -> list[Ran]:
    """Run all in so many processes, in the order of their names. Raises what a worker raised."""
    waiting: queue.SimpleQueue[Item] = queue.SimpleQueue()
    for one in items:
        waiting.put(one)
    done: list[Ran] = []
    failed: list[BaseException] = []

    def work(number: int) -> None:
        try:
            place = Path(inputs, f"job{number}")
            shutil.copytree(first, place)
            with Forked(environment) as forked:
                while not failed:
                    try:
                        ran = _run(forked, place, waiting.get_nowait())
                    except queue.Empty:
                        return
                    done.append(ran)
                    told(ran)
        except BaseException as error:  # it is raised again in the thread that waits
            failed.append(error)

    with tempfile.TemporaryDirectory() as inputs:
        first = Path(inputs, "inputs")
        first.mkdir()
        write_inputs(first, cases)
        workers = [threading.Thread(target=work, args=(number,)) for number in range(jobs)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    if failed:
        raise failed[0]
    return sorted(done, key=lambda ran: ran.item.name)


def _run(forked: Forked, place: Path, item: Item) -> Ran:
    """Run one, skipping and stepping."""
    found, data, wrong = _once(forked, place, item)
    if item.steps and not wrong:
        stepped, _, wrong = _once(forked, place, item.stepping())
        if stepped != found and not wrong:
            wrong = f"stepping (--no-skip) says something else: {text_of(stepped)}, and skipping {text_of(found)}"
    return Ran(item, found, data, wrong)


def _once(forked: Forked, place: Path, item: Item) -> tuple[Found, bytes, str]:
    folder = place / item.folder
    for kept in (item.output, *(word for command in item.commands for word in command if word.endswith(".sqlite"))):
        if kept:
            (folder / kept).unlink(missing_ok=True)
    codes, wrong, out = [], "", ""
    for command in item.commands:
        ended = forked.kbsim(*command, folder=folder, seconds=SECONDS, teardown=False)
        codes.append(str(ended.code))
        out = ended.out
        if ended.code < 0 or ended.code in (70, OVER) or (ended.code == 2 and not item.refused):
            last = (ended.err.strip().splitlines() or [""])[-1]
            why = {OVER: f"was killed after {SECONDS:.0f} s", 2: "was refused", 70: "has an internal error"}
            wrong = f"kbsim {shlex.join(command)} {why.get(ended.code, f'ended by signal {-ended.code}')}: {last}"
            break
    if item.output and not wrong and not (folder / item.output).exists():
        wrong = f"{item.output} was not written"
    data = out.encode()
    if item.output:
        data = (folder / item.output).read_bytes() if (folder / item.output).exists() else b""
    for path, name in ((folder.resolve(), b"FOLDER"), (ROOT, b"ROOT")):
        data = data.replace(bytes(path), name)
    data = settled(data)
    return found_of(data, ",".join(codes)), data, wrong


def text_of(found: Found) -> str:
    """As it stands in the manifest, behind the name."""
    cycles = "-" if found.cycles is None else str(found.cycles)
    return f"{found.sha256}  exit {found.codes}  {found.size} bytes  {cycles} cycles"
