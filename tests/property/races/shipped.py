"""What kernbench ships and `kbsim fuzz` can search: benches, algorithms, workloads, examples of pages, Triton kernels."""

from __future__ import annotations

import contextlib
import io
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import yaml

from kernbench.analysis.fuzz.target import Fuzzed, FuzzedBench
from kernbench.api.fuzz import fuzzed_of
from kernbench.api.targets import machine_of
from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.registry import read_registry
from kernbench.cli.fuzz import _split as settings_of
from kernbench.runtime_api.bench import Bench
from kernbench.runtime_api.discovery import installed_benches
from kernbench.runtime_api.pe_set import PeSet
from kernbench.sim_engine.engine import Ran, recorded_benches
from kernbench.workloads.catalogue import WORKLOADS
from tests.docs.examples import ROOT, Kbsim, Place, pages, run_page
from tests.forked import Forked

Make = Callable[[], Fuzzed]
Named = Iterator[tuple[str, Make]]

#: Small inputs of benches: a search of seconds has some hundred runs.
BENCHES: dict[str, tuple[dict[str, Any], ...]] = {
    "gemm": tuple({"m": 256, "n": 256, "k": 256, "mode": mode} for mode in ("pinned", "b_streamed", "streamed")),
    "flash_attention": ({"tokens": 256}, {"tokens": 256, "causal": True}),
    "paged_attention": ({"tokens": 128}, {"tokens": 128, "layout": "contiguous"}),
    "vector_add": ({"n": 8192},),
}
#: Ranks, machine, and sizes of collectives: numbers of ranks that are and are not powers of two, and ranks of several SIPs.
RANKS: tuple[tuple[int, str, tuple[str, ...]], ...] = (
    (4, "single_cube", ("4KiB",)), (7, "single_cube", ("4KiB",)), (8, "single_cube", ("256B", "64KiB")),
    (16, "two_sips", ("4KiB",)),
)  # fmt: skip
SWITCHES = ("system.kind=switch", "system.switch.reduce=true")  # of a machine whose switches add
SWITCHED = ((8, "h100_8x", ("256B", "64KiB")),)  # the ranks of a switch are on SIPs of their own
TRITON = ("tutorials", "models", "idioms", "together")
#: Targets whose race or lost wait is the subject of their page: a search must find it.
PLANTED = {
    "tutorials/debugger.md: tiles.json", "tutorials/debugger.md: apart.json", "tutorials/triton_kernel.md: total.py",
    "how-to/find_a_race.md: lost.py",
}  # fmt: skip
#: Results that depend on the order of the run by design: what an atomic addition returned, and float sums behind a lock.
ORDER_FREE = {"counted": ("old",), "norm_backward": ("DW", "DB")}
RUNS = ("run", "step", "debug", "whatif", "fuzz")  # commands whose first argument is a target
OPTIONS = ("--config", "-c", "--set", "--algo", "--ccl", "--allow-code", "--ranks", "-b")  # of targets, each with a value
CHECKS = ("--check", "--runs")  # options of commands that say that a target is wrong


def benches() -> Named:
    """Each bench on its own machine, and on the PEs of a cube."""
    for name, bench in installed_benches().items():
        for params in BENCHES.get(name, ({},)):
            for machine in dict.fromkeys((bench.machine, "single_cube")):
                words = " ".join(f"{key}={value}" for key, value in params.items())
                label = f"bench {name} {words}".rstrip() + f" on {machine}"
                yield label, partial(fuzzed_of, name, machine, (), params)


def algorithms() -> Named:
    """Each algorithm on each topology and number of ranks that it takes."""
    for entry in read_registry().entries:
        overrides = SWITCHES if entry.through_switches else ()
        for ranks, machine, sizes in SWITCHED if entry.through_switches else RANKS:
            for topo, size in product(entry.topologies, sizes):
                params = {"algo": entry.name, "ranks": ranks, "size": size, "topo": topo}
                label = f"{entry.collective} {entry.name} {size} {ranks} ranks {topo} on {machine}"
                yield label, partial(fuzzed_of, entry.collective, machine, overrides, params)


def workloads() -> Named:
    for name in WORKLOADS:
        for machine in ("npu_server", "npu_mobile"):
            yield f"{name} on {machine}", partial(fuzzed_of, name, machine, (), {})


def examples(folders: Sequence[str] = ("tutorials", "how-to")) -> Named:
    """What the pages of these folders run: targets of their commands, and launches of their Python."""
    with Forked() as forked:
        for page in pages():
            if page.parent.name in folders:
                for label, target in _of_page(page, forked):
                    yield f"{page.relative_to(ROOT / 'docs').as_posix()}: {label}", lambda target=target: target


def _of_page(page: Path, forked: Forked) -> list[tuple[str, Fuzzed]]:
    found: dict[str, Fuzzed] = {}

    def kbsim(arguments: Sequence[str], environment: Mapping[str, str], together: bool) -> tuple[str, str, int]:
        ended = forked.kbsim(
            *arguments, folder=Path.cwd(), environment=environment, together=together, seconds=300, teardown=False
        )  # fmt: skip
        if ended.code == 0 or any(option in arguments for option in CHECKS):
            with recorded_benches():  # a script that is a target runs here: its launches are those of the target
                found.update(_target_of(arguments))
        return ended.out, ended.err, ended.code

    run: Kbsim = kbsim
    with recorded_benches() as runs, contextlib.suppress(ImportError):  # some pages need a package that is not installed
        run_page(page, Place(kbsim=run))
    for label, launch in _launches(runs):
        found.setdefault(label, launch)
    return list(found.items())


def _target_of(arguments: Sequence[str]) -> dict[str, Fuzzed]:
    """What a command of a page runs, as a target: the files are there now."""
    given: dict[str, list[Any]] = {"": []}
    words = list(arguments)
    while words:
        word = words.pop(0)
        takes = word in OPTIONS
        given.setdefault(word if takes else "", []).append(words.pop(0) if takes and words else word)
    plain = [word for word in given[""] if not word.startswith("-")]
    config = next(iter([*given.get("--config", []), *given.get("-c", [])]), None)
    allowed = given.get("--allow-code", [])
    if plain[:2] == ["ccl", "run"] and len(plain) > 2 and plain[2] in COLLECTIVES:
        ranks = min(8, len(PeSet(machine_of(config or "single_cube")).pes))
        params = {"ranks": int(given.get("--ranks", [ranks])[0]), "size": given.get("-b", ["4K"])[0]}
        made = {}
        for algo in given.get("--algo", [""])[0].split(","):
            own = params | ({"algo": algo} if algo else {})
            files = given.get("--ccl", ())
            made[f"{plain[2]} {algo}".rstrip()] = fuzzed_of(plain[2], config, (), own, allow_code=allowed, ccl=files)
        return made
    if plain[:2] == ["sweep", "run"] and len(plain) > 2:
        spec = yaml.safe_load(Path(plain[2]).read_text(encoding="utf-8"))
        names = [one for one in spec.get("targets", ()) if isinstance(one, str)]
        return {one: fuzzed_of(one, spec.get("machine"), (), {}) for one in names}
    if len(plain) < 2 or plain[0] not in RUNS or "--session" in arguments:
        return {}
    params, overrides = settings_of(plain[1], given.get("--set", []))
    return {plain[1]: fuzzed_of(plain[1], config, overrides, params, allow_code=allowed)}


def _launches(runs: Sequence[Ran]) -> Iterator[tuple[str, Fuzzed]]:
    """Launches of Python code, by name: `add`, `add.2`, ..."""
    counts: dict[str, int] = {}
    for one in runs:
        counts[one.bench.name] = number = counts.get(one.bench.name, 0) + 1
        assert isinstance(one.bench, Bench)
        label = one.bench.name if number == 1 else f"{one.bench.name}.{number}"
        free = frozenset(ORDER_FREE.get(one.bench.name, ()))
        yield label, FuzzedBench(label, one.bench, one.params, one.config, one.strict_wait, free)


def triton_kernels() -> Named:
    """The launches of tests of Triton kernels: its tutorials, kernels of language models, idioms."""
    for name in TRITON:
        file = ROOT / "tests" / "unit" / f"test_triton_{name}.py"
        with recorded_benches() as runs, contextlib.redirect_stdout(io.StringIO()):
            code = pytest.main(["-q", "-n", "0", "--assert=plain", "-p", "no:cacheprovider", os.fspath(file)])
        if code:
            raise RuntimeError(f"{file} has failing tests, so its launches are not known")
        for label, target in _launches(runs):
            yield f"triton {name}: {label}", lambda target=target: target


SOURCES: dict[str, Callable[[], Named]] = {
    "benches": benches, "algorithms": algorithms, "workloads": workloads, "examples": examples, "triton": triton_kernels,
}  # fmt: skip
