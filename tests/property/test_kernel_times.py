"""Commands of kernels on systems begin and end as in a reference written from docs/model alone, in every kind of run."""

from __future__ import annotations

from fractions import Fraction
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench.cmdq import Program
from kernbench.common.naming import parse_pe
from kernbench.components.builtin.switch_queue import SwitchQueueForm
from kernbench.config import SystemConfig, load_config
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger
from kernbench.sim_engine.perturbation import Perturbed, Ranges, SeededDraws, perturbed
from kernbench.triton_emu.kernel_system import kernel_system
from kernbench.triton_emu.launch import PeWork
from kernbench.triton_emu.queues import NeighbourTable
from tests import queues
from tests.machine_strategies import Draw
from tests.oracles.ref_kernels import FlitKernels, SystemKernels, Through
from tests.oracles.ref_perturbed import Draws, PerturbedFlitKernels, PerturbedKernels
from tests.oracles.ref_queues import Protocol
from tests.oracles.ref_tl import Launch, Tl
from tests.property.test_kernels_on_systems import systems
from tests.reached import has_routers
from tests.sampled import sampled_from
from tests.system_roads import PlainRoads, mesh_of

RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck))
SHAPES = ((8, 8), (4, 16), (1, 1), (3, 5), (16, 16), (1, 40), (7, 9))
DTYPES = ("f32", "f16")
CHANNELS = ("act_weight", "act_weight", "kv_load", "kv_store")
STRIDED = ((8, 8), (3, 5), (2, 3, 4), (1, 9), (6, 1), (2, 1, 3), (7,), (3, 2, 2, 2))
KINDS = (
    "load", "load", "strided", "store", "scatter", *["across", "store_across"] * 2, "math", "math", "dot", "gemm", "gemm",
    "elements", "send", "send", "send", "idle", "wait", "wait_all", "free",
)  # fmt: skip
INPUT, OUTPUT = 2048, 1 << 14  # [B] from the start of a slice


class Step(NamedTuple):
    """What one rank does. The numbers choose among what there is: tiles, shapes, addresses, ranks."""

    kind: str
    rank: int
    i: int
    j: int
    k: int
    flag: bool


steps = st.builds(
    Step, sampled_from(KINDS), st.integers(0, 3), st.integers(0, 63), st.integers(0, 63), st.integers(0, 63), st.booleans()
)


class Part(NamedTuple):
    """A launch: what its ranks do, in each of so many programs. `after`: the launches for whose ends the host waits first."""

    plan: list[Step]
    ranks: tuple[int, ...]
    programs: int = 1
    after: tuple[int, ...] = ()


class Case(NamedTuple):
    """A system, the PEs of the ranks, launches, how the bytes of messages travel, and queues through switches. `waits`: whether
    the host waits for its launches at the end."""

    system: dict[str, Any]
    pes: list[str]
    parts: list[Part]
    protocol: Protocol
    through: tuple[Through, ...] = ()
    waits: bool = False


def parts_of(draw: Draw, ranks: int, kinds: st.SearchStrategy[str] | None, most: int) -> list[Part]:
    """One launch on all ranks, or several on some. `kinds`: of the steps, if not those of `steps`; `most`: steps."""
    found: list[Part] = []
    count = draw(sampled_from([1, 1, 1, 2, 3]))
    for number in range(count):
        plan = draw(st.lists(steps, min_size=3 if count == 1 else 1, max_size=most // count + 1))
        if kinds is not None:
            plan = [step._replace(kind=draw(kinds)) for step in plan]
        every = tuple(range(ranks))
        some = every if count == 1 else tuple(draw(st.permutations(every))[: draw(st.integers(1, ranks))])
        after = draw(sampled_from([(), (), (number - 1,), tuple(range(number))])) if number else ()
        found.append(Part(plan, draw(sampled_from([every, some])), draw(sampled_from([1, 1, 1, 2, 3])), after))
    return found


@st.composite
def cases(draw: Draw) -> Case:
    system = draw(systems())
    system["pe"]["cpu"] = {"cycles": draw(st.integers(0, 3))}
    pes = load_config(system, kind=SystemConfig).pe_names
    chosen = draw(st.lists(sampled_from(pes), min_size=draw(sampled_from([1, 2, 2, 2])), max_size=4, unique=True))
    protocol = draw(sampled_from([Protocol(), Protocol(), Protocol(3, 4, 8), Protocol(1, 120, 128), Protocol(20, 8, 8)]))
    system["pe"]["ipcq"]["protocols"] = {"simple": protocol._asdict()}
    return Case(system, chosen, parts_of(draw, len(chosen), None, 16), protocol, waits=draw(st.booleans()))


@st.composite
def switched_cases(draw: Draw) -> Case:
    """SIPs with switches that combine and copy messages, and one rank on each SIP of a line."""
    system = draw(systems().filter(lambda one: "flit" not in one["cube"]["mesh"]))
    link = system["system"]["link"]
    switch = {"cycles": draw(st.integers(0, 3)), "reduce": True, "oversubscription": draw(sampled_from([1, 1, 2]))}
    kind, sips = draw(sampled_from(["switch", "fat_tree", "rails", "dimensions"])), draw(st.integers(2, 4))
    several = {"sips": sips, "kind": kind, "link": link, "switch": switch}
    line = list(range(sips))  # the SIPs that a switch may combine
    if kind == "dimensions":
        several |= {"sips": 2 * sips, "dimensions": [{"kind": "ring", "size": 2}, {"kind": "switch", "size": sips}]}
        line = [2 * sip + 1 for sip in line]
    elif kind != "switch" and sips == 4:
        several["rows"] = draw(sampled_from([1, 2, 4]))
        if (kind, several["rows"]) == ("rails", 2):
            line = draw(sampled_from([[0, 1], [1, 3]]))
    if kind == "rails":
        del switch["oversubscription"]
    system["system"] = several
    system["pe"] |= {"cpu": {"cycles": draw(st.integers(0, 3))}}
    system["pe"]["ipcq"] |= {"tier": "tcm"}
    protocol = draw(sampled_from([Protocol(), Protocol(), Protocol(3, 4, 8), Protocol(1, 120, 128)]))
    system["pe"]["ipcq"]["protocols"] = {"simple": protocol._asdict()}
    names = load_config(system, kind=SystemConfig).pe_names
    pes = [draw(sampled_from([name for name in names if name.startswith(f"sip{sip}.")])) for sip in draw(st.permutations(line))]
    through = []
    for plane in range(draw(st.integers(1, 3))):
        members = draw(st.permutations(range(len(pes))))[: draw(st.integers(2, len(pes)))]
        kind = draw(sampled_from(["REDUCE", "MULTICAST"]))
        op = draw(sampled_from(["add", "mul"]))
        through.append(Through(8 + plane, kind, draw(sampled_from(members)), tuple(members), op))
    kinds = sampled_from(["through", "through", "through", *KINDS])
    return Case(system, pes, parts_of(draw, len(pes), kinds, 14), protocol, tuple(through), draw(st.booleans()))


LATE = sampled_from([0, 7, 60]), sampled_from([0, 5, 100])  # [cycle] the largest draws
DRAWS = st.builds(Draws, st.integers(0, 2**64 - 1), *LATE, st.just(Fraction(1, 4)))


@st.composite
def perturbed_cases(draw: Draw) -> tuple[Case, Draws]:
    """A case, and draws."""
    return draw(st.one_of(cases(), switched_cases())), draw(DRAWS)


def links_of(parts: list[Part], ranks: int) -> tuple[dict[int, dict[Any, Any]], dict[tuple[int, int], tuple[int, str, str]]]:
    """The queues for the sends of all plans, as a table of neighbours, and the plane and directions of each pair of ranks."""
    sends = [step for part in parts for step in part.plan if step.kind == "send"]
    pairs = sorted({tuple(sorted((step.rank % ranks, _peer(step, ranks)))) for step in sends})
    table: dict[int, dict[Any, Any]] = {rank: {} for rank in range(ranks)}
    ways = {}
    for number, (a, b) in enumerate(pairs if ranks > 1 else []):
        plane, here, there = number // 2, "EN"[number % 2], "WS"[number % 2]
        table[a][plane, here], table[b][plane, there] = (b, there), (a, here)
        ways[a, b], ways[b, a] = (plane, here, there), (plane, there, here)
    return table, ways


def _peer(step: Step, ranks: int) -> int:
    own = step.rank % ranks
    return (own + 1 + step.k % (ranks - 1)) % ranks if ranks > 1 else own


class Work(NamedTuple):
    """What kernels know. `places`: a slice or an SRAM for each rank. `seen`: rank, cycle and newest tile after every step."""

    plan: list[Step]
    ranks: tuple[int, ...]
    places: list[int]
    ways: dict[tuple[int, int], tuple[int, str, str]]
    seen: list[tuple[int, int, int]]
    through: tuple[Through, ...] = ()
    ends: tuple[int, ...] = ()  # of each rank the end of the slice next to it, if another slice follows there


def kernel(work: Work, tl: Any) -> None:
    """The steps of one rank. Every message is received at the same place of the plan at which it is sent."""
    ranks, tiles, done = len(work.places), [], list[Any]()
    shapes: list[list[tuple[Any, str]]] = [[] for _ in range(ranks)]  # of the tiles of every rank
    for step in work.plan:
        own = step.rank % ranks
        if own not in work.ranks:
            continue
        mine = own == tl.rank
        have = shapes[own]
        kind = step.kind if have or step.kind in ("gemm", "elements", "idle", "through") else "load"
        end = work.ends[step.j % len(work.ends)] if work.ends else 0
        if kind in ("across", "store_across") and not end:
            kind = "load" if kind == "across" else "store"
        place = work.places[step.j % ranks] + 4 * (0, 16, 1, 128, 3, 256, 7)[step.j % 7]
        first, other = (step.i % len(have), step.j % len(have)) if have else (-1, -1)
        if kind == "load":
            shape, dtype = SHAPES[step.i % len(SHAPES)], DTYPES[step.k % 2]
            have.append((shape, dtype))
            if mine:
                tiles.append(tl.load(place, shape, dtype, wait=step.flag, channel=CHANNELS[step.k % 4]))
        elif kind in ("strided", "across"):
            shape, dtype = STRIDED[step.i % len(STRIDED)], DTYPES[step.k % 2]
            have.append((shape, dtype))
            strides = _strides(shape, dtype, step.j)
            if mine:
                how = {"wait": step.flag, "channel": CHANNELS[step.k % 4]}
                if kind == "across":
                    tiles.append(tl.load(_before(end, step), shape, dtype, strides=strides if step.i % 3 else None, **how))
                else:
                    tiles.append(tl.load(place + 8192, shape, dtype, strides=strides, **how))
        elif kind == "scatter" and mine:
            strides = _strides(*have[first], step.j, overlap=False)
            done.append(tl.store(place + OUTPUT, tiles[first], strides=strides, wait=step.flag, channel=CHANNELS[step.k % 4]))
        elif kind == "store_across" and mine:
            strides = _strides(*have[first], step.j, overlap=False) if step.i % 3 else None
            done.append(tl.store(_before(end, step), tiles[first], strides=strides, wait=step.flag))
        elif kind == "store" and mine:
            done.append(tl.store(place + OUTPUT, tiles[first], wait=step.flag, channel=CHANNELS[step.k % 4]))
        elif kind == "math":
            names = ("exp", "add", "mul", "softmax", "sum", "cast")
            name = names[step.k % len(names)]
            if name in ("softmax", "sum") and len(have[first][0]) < 2:
                name = "exp"
            fits = [one for one in range(len(have)) if _spreads(have[first][0], have[one][0])]
            second = fits[step.j % len(fits)]
            have.append(_result(name, have[first], have[second], DTYPES[step.j % 2]))
            if mine and name in ("add", "mul"):
                tiles.append(getattr(tl, name)(tiles[first], tiles[second]))
            elif mine and name == "cast":
                tiles.append(tl.cast(tiles[first], DTYPES[step.j % 2]))
            elif mine:
                tiles.append(tl.sum(tiles[first], axis=-1) if name == "sum" else getattr(tl, name)(tiles[first]))
        elif kind == "dot":
            fits = [(a, b) for a in range(len(have)) for b in range(len(have)) if _fit(have[a], have[b])]
            if fits:
                a, b = fits[step.i % len(fits)]
                have.append(((have[a][0][0], have[b][0][1]), have[a][1]))
                if mine:
                    tiles.append(tl.dot(tiles[a], tiles[b]))
        elif kind == "gemm" and mine:
            first_operand = _before(end, step) if end and step.k % 2 else place
            done.append(_gemm(tl, step, first_operand, work.places[step.k % ranks] + OUTPUT, have, tiles))
        elif kind == "elements" and mine:
            done.append(_elements(tl, step, place, work.places[step.k % ranks] + OUTPUT))
        elif kind == "send" and ranks > 1 and _peer(step, ranks) in work.ranks:
            _message(tl, work, step, shapes, tiles)
        elif kind == "through":
            _through(tl, work, step, shapes, tiles)
        elif kind == "idle" and mine:
            pause(tl, (1, 2, 7, 100)[step.i % 4])
        elif kind == "wait" and mine and done:
            tl.wait(done[step.i % len(done)])
        elif kind == "wait_all" and mine:
            tl.wait()
        elif kind == "free":
            del have[other]
            if mine:
                del tiles[other]
        work.seen.append((tl.rank, now(tl), address(tl, tiles)))


def _before(end: int, step: Step) -> int:
    """An address a little before the end of a slice."""
    return end - 4 * (1 + step.k % 40)


def _strides(shape: tuple[int, ...], dtype: str, number: int, overlap: bool = True) -> tuple[int, ...]:
    """[B] Strides of a tensor with gaps; `overlap`: some axes have the stride 0 or go backwards."""
    run, found = 1 + (number % 5 == 4), list[int]()
    for length in reversed(shape):
        found.insert(0, run)
        run = run * length + (0, 1, 13)[number // 5 % 3]
    if overlap and len(shape) > 1 and number % 7 == 5:
        found[-2] = 0
    elif overlap and number % 7 == 6:
        found[0] = -found[0]
    return tuple(one * (4 if dtype == "f32" else 2) for one in found)


def _spreads(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    """Whether elementwise ops take operands of these shapes."""
    return all(x == y or 1 in (x, y) for x, y in zip(reversed(a), reversed(b), strict=False))


def _result(name: str, first: tuple[Any, str], second: tuple[Any, str], dtype: str) -> tuple[Any, str]:
    """The shape and type of the result of a math op."""
    shape, own = first
    if name == "sum":
        return shape[:-1], own
    if name == "cast":
        return shape, dtype
    if name in ("add", "mul"):
        return np.broadcast_shapes(shape, second[0]), "f32" if "f32" in (own, second[1]) else own
    return shape, own


def _fit(a: tuple[Any, str], b: tuple[Any, str]) -> bool:
    return len(a[0]) == len(b[0]) == 2 and a[0][1] == b[0][0] and a[1] == b[1]


def _gemm(tl: Any, step: Step, place: int, out: int, have: list[tuple[Any, str]], tiles: list[Any]) -> Any:
    """A composite product; one operand may be a tile."""
    m, n, k = ((8, 8, 8), (16, 8, 4), (5, 7, 3), (16, 16, 16), (1, 1, 1), (9, 33, 10))[step.i % 6]
    dtype, swap_a, swap_b = DTYPES[step.k % 2], step.k % 5 == 0, step.k % 7 == 0
    held = [one for one in range(len(have)) if len(have[one][0]) == 2 and have[one][1] == dtype]
    pinned = held[step.j % len(held)] if held and step.flag else -1
    a: Any = None
    b: Any = None
    if pinned >= 0 and step.i % 2:
        (m, k), swap_a, a = have[pinned][0], False, tiles[pinned]
    elif pinned >= 0:
        (k, n), swap_b, b = have[pinned][0], False, tiles[pinned]
    if a is None:
        a = tl.ref(place, (k, m) if swap_a else (m, k), dtype)
    if b is None:
        b = tl.ref(place + INPUT, (n, k) if swap_b else (k, n), dtype)
    tile = (None, (4, 4, 4), (3, 5, 2), (8, 16, 3), (4, 8, 8), (64, 64, 64))[step.j % 6]
    epilogue: list[Any] = ["exp"] * (step.j % 3)
    rows = [one for one in range(len(have)) if len(have[one][0]) <= 2 and all(
        x in (1, y) for x, y in zip(reversed(have[one][0]), (n, m), strict=False))]  # fmt: skip
    for one in rows[: step.k % 3]:
        epilogue.insert(step.j % 2, (("add", "mul")[step.k % 2], tiles[one]))
    form = {"transpose_a": swap_a, "transpose_b": swap_b, "epilogue": epilogue, "tile": tile, "buffers": 1 + step.k % 3}
    out_dtype = dtype if step.i % 4 else "f32"
    return tl.composite("gemm", a, b, out, channel=CHANNELS[step.k % 3], out_dtype=out_dtype, **form)


def _elements(tl: Any, step: Step, place: int, out: int) -> Any:
    """A composite op on elements or rows."""
    name, dtype = ("exp", "add", "softmax", "mul")[step.i % 4], DTYPES[step.k % 2]
    shape = ((8, 8), (4, 40), (1, 300), (33, 3))[step.j % 4]
    a, b = tl.ref(place, shape, dtype), tl.ref(place + INPUT, shape, dtype) if name in ("add", "mul") else None
    tile: Any = (None, (1, 16), (1, 7), (1, 64))[step.k % 4]
    if name == "softmax":
        tile = None if tile is None else (1 + step.k % 3, shape[1])
    form = {"tile": tile, "buffers": 1 + step.k % 3, "out_dtype": dtype if step.j % 3 else DTYPES[step.j % 2]}
    return tl.composite("math", a, b, out_ptr=out, math_op=name, **form)


def _message(tl: Any, work: Work, step: Step, shapes: list[list[tuple[Any, str]]], tiles: list[Any]) -> None:
    """Sends of one rank, and the receives of another, which keeps only the last message, or none."""
    own = step.rank % len(work.places)
    peer = _peer(step, len(work.places))
    plane, here, there = work.ways[own, peer]
    first, dropped = step.i % len(shapes[own]), step.j % 2 == 0
    shape, dtype = shapes[own][first]
    if not dropped:
        shapes[peer].append((shape, dtype))
    for _ in range(1 + step.i // 8 % 4):
        if tl.rank == own:
            tl.send(here, tiles[first], plane=plane)
        elif tl.rank == peer:
            tile = (tl.recv_async if step.flag else tl.recv)(there, shape, dtype, plane=plane)
    if tl.rank == peer and not dropped:
        tiles.append(tile)


def _through(tl: Any, work: Work, step: Step, shapes: list[list[tuple[Any, str]]], tiles: list[Any]) -> None:
    """Messages through switches. All members send tiles of one shape; receivers keep only the last message, or none."""
    form, dropped = work.through[step.i % len(work.through)], step.j % 2 == 0
    if not set(form.members) <= set(work.ranks):
        return
    shape, dtype = SHAPES[step.j % len(SHAPES)], DTYPES[step.k % 2]
    reduces = form.kind == "REDUCE"
    senders = form.members if reduces else (form.root,)
    receivers = (form.root,) if reduces else tuple(rank for rank in form.members if rank != form.root)
    for rank in receivers if not dropped else ():
        shapes[rank].append((shape, dtype))
    late = step.rank == tl.rank and step.flag
    if late:
        pause(tl, 1 + step.k)
    if tl.rank in senders:
        sent = tl.load(work.places[tl.rank], shape, dtype, wait=step.k % 3 == 0)
    for _ in range(1 + step.i // 8 % 4):
        if tl.rank in senders:
            tl.send(form.kind, sent, plane=form.plane)
        if tl.rank in receivers:
            tile = (tl.recv_async if step.flag else tl.recv)(form.kind, shape, dtype, plane=form.plane)
    if tl.rank in receivers and not dropped:
        tiles.append(tile)


def pause(tl: Any, cycles: int) -> None:
    if isinstance(tl, Tl):
        tl.idle(cycles)
    else:
        queues.idle(tl, cycles)


def now(tl: Any) -> int:
    return tl.now if isinstance(tl, Tl) else queues.now(tl)


def address(tl: Any, tiles: list[Any]) -> int:
    """Of the newest tile, in the scratchpad."""
    if not tiles:
        return -1
    return int(tiles[-1].address if isinstance(tl, Tl) else tiles[-1].addr - tl._runner.pe.tcm_base)


def places_of(config: SystemConfig, pes: list[str]) -> list[int]:
    """Of every rank the first bytes of the slice next to it."""
    roads, align = PlainRoads(config), config.pe.dma.alignment_bytes
    return [-(-roads.home(pe, "hbm")[0] // (64 * align)) * 64 * align for pe in pes]


def ends_of(config: SystemConfig, pes: list[str]) -> tuple[int, ...]:
    """The ends of the slices next to the ranks behind which a stack goes on, if aligned transfers may end there."""
    roads, align = PlainRoads(config), config.pe.dma.alignment_bytes
    homes = [roads.home(pe, "hbm") for pe in pes]
    last = [roads.resolver.address(*parse_pe(pe)[:2], config.slices - 1) for pe in pes]
    return tuple(end for (first, end), of_last in zip(homes, last, strict=True) if first < of_last and end % align == 0)


def times_of(config: SystemConfig, case: Case, *, walk: str = "fast", skip: bool = True, step: int = 0) -> dict[str, Any]:
    """The launches in kernbench. `step`: look at the machine after so many cycles, again and again."""
    places = places_of(config, case.pes)
    table, ways = links_of(case.parts, len(case.pes))
    seen: list[tuple[int, int, int]] = []
    store = MemoryStore()
    for place in set(places):
        store.write("hbm", place, np.ones(1 << 14, np.float32))
    for end in set(ends_of(config, case.pes)):
        store.write("hbm", end - 4096, np.ones(4096, np.float32))
    log = OpLogger(store)

    def body() -> None:
        for part in case.parts:
            if part.after:
                system.host.wait(*(system.launches[number] for number in part.after))
            work = Work(part.plan, part.ranks, places, ways, seen, case.through, ends_of(config, case.pes))
            grid = tuple(range(part.programs))
            shares = [PeWork(case.pes[rank], kernel, (work,), grid, (part.programs,)) for rank in part.ranks]
            system.host.launch("it", shares)
        if case.waits:
            system.host.wait()

    system = kernel_system(config, body, store=store, log=log)
    machine = Machine(config, Program("kernels"), system.components, whole=True, walk=walk)
    system.bind(machine)
    forms = [SwitchQueueForm(one.plane, one.kind, one.root, one.members, one.op) for one in case.through]
    system.queues.install(NeighbourTable(case.pes, table, forms))
    while step and machine.status == "running":
        machine.step(step, skip=skip)
        machine.peek()
    machine.run(skip=skip)
    assert machine.failure() is None, machine.failure()
    result = machine.result().to_dict()
    said = {name: result[name] for name in ("status", "cycles", "counters")}
    launches = []
    for launch, part in zip(system.launches, case.parts, strict=False):
        ends = [launch.per_pe.get(case.pes[rank]) for rank in part.ranks]
        launches.append((launch.issued, [(None, None) if one is None else (one.start, one.end) for one in ends]))
    return said | {"stages": stages_of(log, config), "seen": sorted(seen), "launches": launches}


def stages_of(log: OpLogger, config: Any) -> list[tuple[str, str, int, int]]:
    """PE, name, start and end of every command and stage of a tile in an op log."""
    found = []
    for one in log:
        pe, name = one.component_id.rpartition(".")[0], one.op_name.removeprefix("TileToken/")
        if not name.startswith("composite_"):  # its stages say more
            found.append((pe, name, int(one.t_start * config.freq_ghz), int(one.t_end * config.freq_ghz)))
    return sorted(found)


def oracle_of(config: SystemConfig, case: Case) -> tuple[dict[str, Any], list[tuple[int, int, int]]]:
    """The arguments of the reference, and what its kernels will have seen."""
    places = places_of(config, case.pes)
    table, ways = links_of(case.parts, len(case.pes))
    seen: list[tuple[int, int, int]] = []
    launches = []
    for part in case.parts:
        work = Work(part.plan, part.ranks, places, ways, seen, case.through, ends_of(config, case.pes))
        launches.append(Launch(part.ranks, partial(kernel, work), part.programs, part.after))
    given = {"system": case.system, "pes": case.pes, "launches": launches, "links": table}
    given["memory"] = [*places, *ends_of(config, case.pes)]
    given |= {"roads": PlainRoads(config), "protocol": case.protocol, "through": case.through, "waits": case.waits}
    return given | ({"mesh": mesh_of(config)} if has_routers(case.system) else {}), seen


def check(case: Case) -> None:
    config = load_config(case.system, kind=SystemConfig)
    given, seen = oracle_of(config, case)
    reference = FlitKernels(**given) if "mesh" in given else SystemKernels(**given)
    check_same(config, case, reference.run(), seen)


def check_same(
    config: SystemConfig, case: Case, want: dict[str, Any], seen: list[tuple[int, int, int]], draws: Draws | None = None,
    jobs: dict[str, int] | None = None,
) -> None:  # fmt: skip
    """Each kind of run is that of the reference. `draws`, `jobs`: of a perturbed run."""

    def times(**how: Any) -> dict[str, Any]:
        if draws is None:
            return times_of(config, case, **how)
        ranges = Ranges(draws.latency, draws.start, draws.slowest)
        seeded = SeededDraws(draws.seed, ranges)
        seeded.jobs = jobs or {}
        with perturbed(Perturbed(seeded, ranges)):
            return times_of(config, case, **how)

    got = times()
    assert got["status"] == want["status"]
    assert got["launches"] == want["launches"]
    assert got["seen"] == sorted(seen)
    assert got["stages"] == want["stages"]
    assert got["cycles"] == want["cycles"]
    for name, counts in got["counters"].items():
        if name in want["counters"]:
            assert counts == want["counters"][name], name
    for how in ({"skip": False}, {"walk": "plain"}, {"step": 97}):
        assert times(**how) == got, how


def check_perturbed(case: tuple[Case, Draws]) -> None:
    of, draws = case
    config = load_config(of.system, kind=SystemConfig)
    given, _ = oracle_of(config, of)
    none = FlitKernels(**given) if "mesh" in given else SystemKernels(**given)
    none.run()
    given, seen = oracle_of(config, of)
    want = (PerturbedFlitKernels if "mesh" in given else PerturbedKernels)(draws, given, none.moved).run()
    check_same(config, of, want, seen, draws, none.moved)


@settings(RELAXED, max_examples=25)
@given(cases())
def test_kernels_take_the_cycles_of_the_reference(case: Case) -> None:
    check(case)


@pytest.mark.nightly
@settings(RELAXED, max_examples=3000)
@given(cases())
def test_kernels_take_the_cycles_of_the_reference_for_long(case: Case) -> None:
    check(case)


@settings(RELAXED, max_examples=15)
@given(perturbed_cases())
def test_perturbed_kernels_take_the_cycles_of_the_reference(case: tuple[Case, Draws]) -> None:
    check_perturbed(case)


@pytest.mark.nightly
@settings(RELAXED, max_examples=1500)
@given(perturbed_cases())
def test_perturbed_kernels_take_the_cycles_of_the_reference_for_long(case: tuple[Case, Draws]) -> None:
    check_perturbed(case)


@settings(RELAXED, max_examples=25)
@given(switched_cases())
def test_messages_through_switches_take_the_cycles_of_the_reference(case: Case) -> None:
    check(case)


@pytest.mark.nightly
@settings(RELAXED, max_examples=3000)
@given(switched_cases())
def test_messages_through_switches_take_the_cycles_of_the_reference_for_long(case: Case) -> None:
    check(case)
