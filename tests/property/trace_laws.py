"""Laws that a trace at `access` keeps, from the file alone; lists of its events are looked at whole, so for short ones."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from itertools import pairwise
from typing import Any

import numpy as np

from kernbench import load_config, load_program
from kernbench.bounds.energy import energy_pj
from kernbench.cmdq.footprint import regions_of
from kernbench.cmdq.plan import plan_npu
from kernbench.trace import schema
from tests.trace_systems import Event, named

System = tuple[dict[str, Any], dict[str, Any]]
PAIRS = (("JOB_ISSUE", "JOB_DONE"), ("DMA_START", "DMA_END"), ("TE_START", "TE_END"), ("VE_START", "VE_END"))
FLOW = ("job_id", "channel")


def total(events: Iterable[Event], field: str) -> int:
    """Sum of a field."""
    return sum(event[field] for event in events)


def check_levels(at: dict[str, list[Event]]) -> None:
    """A level holds all events of those before it; only accesses are cut up differently."""
    for low, high in (("summary", "full"), ("full", "access")):
        known = schema.LEVELS[: schema.LEVELS.index(low) + 1]
        upper = [e for e in at[high][1:-1] if level_of(e) in known and e["event_type"] != "SRAM_ACCESS"]
        assert [e for e in at[low][1:-1] if e["event_type"] != "SRAM_ACCESS"] == upper
    for events in at.values():
        first, last = events[0], events[-1]
        assert (first["event_type"], last["event_type"]) == ("TRACE_META", "TRACE_END")
        assert last["events"] == len(events) - 2 and last["t_cycle"] == last["cycles"]
        assert all(level_of(e) in schema.LEVELS[: schema.LEVELS.index(first["level"]) + 1] for e in events)


def level_of(event: Event) -> str:
    return "full" if event.get("reason") == "bank_conflict" else schema.BY_NAME[event["event_type"]].level


def phase_of(event: Event, control: set[int]) -> int:
    """The phase of an event, with the exceptions that the schema's text names."""
    name, reason = event["event_type"], event.get("reason", "")
    if name == "STALL_EVENT":
        return {"backpressure": 7, "bank_conflict": 5}.get(reason, 3)
    if name == "RESUME_EVENT":
        return 6 if reason in ("backpressure", "bank_conflict") else 3
    if name == "CMD_END" and event["status"] != "OK":
        return 8
    if event.get("cmd_id") in control and name != "CMD_ENQUEUE":
        return 2
    return schema.BY_NAME[name].phase


def check_order(events: list[Event]) -> None:
    """Cycles rise, and in a cycle phases; jobs of an engine are in order of their numbers."""
    control = {e["cmd_id"] for e in named(events, "CMD_ENQUEUE") if e["unit"] == "control"}
    places: list[tuple[int, int]] = []
    for event in events[:-1]:
        phase = phase_of(event, control)
        if event["event_type"] == "TOKEN":  # it says no command: it stands where its last one ends
            phase = places[-1][1]
        places.append((event["t_cycle"], phase))
    assert places == sorted(places) and places[-1][0] <= events[-1]["t_cycle"]
    for name in ("JOB_ISSUE", "CMD_START"):
        assert [e["t_cycle"] for e in named(events, name)] == sorted(e["t_cycle"] for e in named(events, name))
    jobs = [e["job_id"] for e in named(events, "JOB_ISSUE")]
    assert jobs == list(range(len(jobs)))


def intervals(events: list[Event], begin: str, end: str, keys: tuple[str, ...], cycles: int) -> dict[Any, list[list[int]]]:
    """[from, to) of each begin and the end with the same keys; what stays open ends with the run."""
    out: dict[Any, list[list[int]]] = {}
    still_open: dict[Any, list[int]] = {}
    for event in named(events, begin, end):
        key = tuple(event.get(k) for k in keys)
        if event["event_type"] == begin:
            assert key not in still_open, (begin, key)
            still_open[key] = [event["t_cycle"], cycles]
            out.setdefault(key, []).append(still_open[key])
        elif key in still_open:
            still_open.pop(key)[1] = event["t_cycle"]
        else:
            assert begin == "CMD_START" and event["status"] != "OK", event
    return out


def check_pairs(events: list[Event], result: dict[str, Any]) -> None:
    """Starts pair with ends, waits with their end, and the times are those of the result."""
    end = events[-1]
    cycles, done = end["cycles"], end["status"] == "done"
    for begin, over in PAIRS:
        assert len(named(events, begin)) >= len(named(events, over))
        for key, spans in intervals(events, begin, over, ("job_id",), cycles).items():
            assert len(spans) == 1, key
            latency = {e["latency_cycles"] for e in named(events, over) if e["job_id"] == key[0]}
            assert latency == {spans[0][1] - spans[0][0]} or (not latency and not done)
    ends = named(events, "CMD_END")
    queued = named(events, "CMD_ENQUEUE")
    assert sorted(e["cmd_id"] for e in ends) == sorted(e["cmd_id"] for e in queued)
    assert [e["cmd_id"] for e in queued] == [entry["id"] for entry in result["entries"]]
    assert all(e["status"] == "OK" for e in ends) == done
    at = {(e["event_type"], e["cmd_id"]): e["t_cycle"] for e in events if "cmd_id" in e}
    for entry in result["entries"]:
        start, over = at.get(("CMD_START", entry["id"])), at[("CMD_END", entry["id"])]
        assert start == entry["start"] and over == (cycles if entry["end"] is None else entry["end"])
        assert at.get(("JOB_ISSUE", entry["id"]), start) == entry["issue"]
    waits = intervals(events, "STALL_EVENT", "RESUME_EVENT", ("job_id", "reason", "channel"), cycles)
    lengths = Counter(b - a for several in waits.values() for a, b in several)
    assert not Counter(e["duration_cycles"] for e in named(events, "RESUME_EVENT")) - lengths


def check_one_job_at_a_time(events: list[Event]) -> None:
    overlapping = {track["unit"] for track in events[0]["units"] if track.get("drain") == "overlapped"}
    by_unit: dict[str, list[Event]] = {}
    for event in named(events, "ENGINE_EVENT"):
        if not event["unit"].startswith("dma"):
            by_unit.setdefault(event["unit"], []).append(event)
    for several in by_unit.values():
        for one, other in pairwise(several):
            if one["unit"] in overlapping:
                assert one["start_cycle"] < other["start_cycle"] and one["end_cycle"] <= other["end_cycle"]
            else:
                assert one["end_cycle"] <= other["start_cycle"]


def check_bytes(system: System, events: list[Event]) -> None:
    """Accesses add up to what jobs move and stream; open jobs have moved less."""
    config = load_config(system[0])
    entries = {entry.id: entry for entry in load_program(system[1]).entries}
    ended = {e["job_id"] for e in named(events, "JOB_DONE")}
    sizes = {e["job_id"]: e["size_bytes"] for e in named(events, "DMA_START")}
    moved, banks = Counter[int](), Counter[int]()
    for event in named(events, "MEM_ACCESS_EVENT"):
        moved[event["job_id"]] += event["size_bytes"]
    for event in named(events, "SRAM_ACCESS"):
        banks[event["job_id"]] += event["size_bytes"]
    flows = Counter[int]()
    for event in named(events, "DRAM_TX_START"):
        flows[event["job_id"]] += event["size_bytes"]
    for job, size in sizes.items():
        assert flows[job] in (0, size)  # 0: still in its head latency
        assert moved[job] <= size and banks[job] <= size
        if job in ended:
            assert flows[job] == moved[job] == banks[job] == size
    for event in named(events, "TE_START", "VE_START"):
        entry, section = entries[event["cmd_id"]], config.te if event["event_type"] == "TE_START" else config.ve
        if event["job_id"] in ended and section.spm_traffic and event["body_cycles"]:
            assert banks[event["job_id"]] == sum(region.nbytes for region in regions_of(entry, config))
    for event in named(events, "ENGINE_EVENT"):
        assert event.get("bytes") == sizes.get(event["job_id"])


def check_samples(events: list[Event]) -> None:
    """Windows add up to the counters."""
    end, length = events[-1], events[0]["window_cycles"]
    for event in events:
        if "window_cycles" in event and event["event_type"] != "TRACE_META":
            over = event["t_cycle"] + 1
            assert event["window_cycles"] == (length if over % length == 0 else over % length)
            assert over % length == 0 or over == end["cycles"]
    for unit, counters in end["counters"].items():
        mine = [e for e in events if e.get("unit") == unit]
        engine, link, bank = (named(mine, f"{kind}_SAMPLE") for kind in ("ENGINE", "BANDWIDTH", "BANK"))
        if "jobs" in counters:
            assert total(engine, "busy_cycles") == counters["busy"]
            assert total(engine, "bank_conflict_cycles") == counters["stalled"]["bank_conflict"]
            assert total(engine, "backpressure_cycles") == counters["stalled"].get("backpressure", 0)
        elif unit == "spm" and events[0]["level"] != "summary":
            for key in ("requests", "grants", "denials"):
                columns = [e[key] for e in bank] or [[0] * len(counters[key])]
                assert [sum(column) for column in zip(*columns, strict=True)] == counters[key]
        elif unit != "spm":
            assert total(link, "read_bytes") + total(link, "write_bytes") == counters["bytes"]
            assert total(link, "busy_cycles") == counters["busy"]
            assert total(link, "member_cycles") == counters["member_cycles"]
    for part, whole in end["energy_pj"].items():
        if part != "total":
            parts = [e[f"{part}_pj"] for e in named(events, "ENERGY_SAMPLE")]
            assert math.isclose(sum(parts), whole, rel_tol=1e-9, abs_tol=1e-9)


def check_queues(events: list[Event]) -> None:
    """The depths of a sample are those that issues, starts and ends give."""
    cycles = events[-1]["cycles"]
    at: dict[tuple[str, str], dict[int, int]] = {}
    for event in named(events, "JOB_ISSUE", "DMA_START", "TE_START", "VE_START", "ENGINE_EVENT"):
        kind = {"JOB_ISSUE": "issue", "ENGINE_EVENT": "end"}.get(event["event_type"], "start")
        at.setdefault((event["unit"], kind), {})[event["job_id"]] = event["t_cycle"]
    samples = {(e["t_cycle"], e["unit"]): e for e in named(events, "QUEUE_SAMPLE")}
    for last in {e["t_cycle"] for e in named(events, "ENERGY_SAMPLE")}:
        for unit in {unit for unit, _ in at}:
            issue, start, end = (at.get((unit, kind), {}) for kind in ("issue", "start", "end"))
            queued = sum(1 for job, t in issue.items() if t <= last < start.get(job, cycles))
            active = sum(1 for job, t in start.items() if t <= last and last + 1 < end.get(job, cycles + 1))
            sample = samples.get((last, unit), {"queued": [0], "active": [0]})
            assert (sum(sample["queued"]), sum(sample["active"])) == (queued, active)


def check_elapsed(events: list[Event]) -> None:
    """busy + each wait + idle = elapsed, for every engine, from starts, ends and waits alone."""
    end = events[-1]
    cycles = end["cycles"]
    held = intervals(events, "STALL_EVENT", "RESUME_EVENT", ("job_id", "reason", "channel"), cycles)
    for unit, counters in end["counters"].items():
        if "jobs" not in counters:
            continue
        kind = unit[:3] if unit.startswith("dma") else unit[:2]
        mine = [e for e in events if e.get("unit") == unit]
        spans = intervals(mine, f"{kind.upper()}_START", f"{kind.upper()}_END", ("job_id",), cycles)
        spans = {key[0]: [[a, min(b, cycles)] for a, b in several] for key, several in spans.items()}
        if kind == "dma":
            got = dma_cycles(events, mine, {job: several[0] for job, several in spans.items()}, held, cycles)
        else:
            running = len({cycle for several in spans.values() for a, b in several for cycle in range(a, b)})
            waits = sum(b - a for key, several in held.items() if key[0] in spans for a, b in several)
            got = {"busy": running - waits, "idle": cycles - running, "bank_conflict": waits}
        assert got == {"busy": counters["busy"], "idle": counters["idle"], **counters["stalled"]}, unit
        for reason in ("queue_full", "priority_deferred"):
            waits = sum(
                b - a
                for key, several in held.items()
                for a, b in several
                if key[1] == reason and key[0] in {e["job_id"] for e in named(mine, "STALL_EVENT")}
            )
            assert waits == counters.get(reason, 0)


def dma_cycles(
    events: list[Event], mine: list[Event], spans: dict[int, Any], held: dict[Any, list[list[int]]], cycles: int
) -> dict[str, int]:
    """What a DMA engine did in each cycle (docs/model/counters.md)."""
    head = {e["job_id"]: e["t_cycle"] + e["head_cycles"] for e in named(mine, "DMA_START")}
    flows = intervals(events, "DRAM_TX_START", "DRAM_TX_END", FLOW, cycles)
    held = {key: spans for key, spans in held.items() if key[0] in head}
    count = Counter({"busy": 0, "idle": 0, "backpressure": 0, "bank_conflict": 0})
    for cycle in range(cycles):
        active = [job for job, (a, b) in spans.items() if a <= cycle < b]
        if not active:
            count["idle"] += 1
        elif any(cycle < head[job] or any_free(job, cycle, flows, held) for job in active):
            count["busy"] += 1
        elif all(any(a < cycle < b for a, b in pressed(job, held)) for job in active):
            count["backpressure"] += 1
        else:
            count["bank_conflict"] += 1
    return dict(count)


def any_free(job: int, cycle: int, flows: dict[Any, list[list[int]]], held: dict[Any, list[list[int]]]) -> bool:
    """Whether some flow of the job is not held in this cycle."""
    for (owner, channel), ((a, b),) in flows.items():
        if owner == job and a <= cycle < b:
            waits = held.get((job, "bank_conflict", channel), [])
            if not any(begin <= cycle < over for begin, over in waits):
                return True
    return False


def pressed(job: int, held: dict[Any, list[list[int]]]) -> list[list[int]]:
    return [span for key, several in held.items() if key[:2] == (job, "backpressure") for span in several]


def check_members(events: list[Event]) -> None:
    """Flows between start and end, without their suspensions, are the members that resources count."""
    end = events[-1]
    cycles = end["cycles"]
    flows = intervals(events, "DRAM_TX_START", "DRAM_TX_END", FLOW, cycles)
    out = intervals([*events], "DRAM_TX_SUSPEND", "DRAM_TX_RESUME", FLOW, cycles)
    links = intervals(events, "NOC_TX_START", "NOC_TX_END", (*FLOW, "unit"), cycles)
    count = Counter[str]()
    for (job, channel), ((a, b),) in flows.items():
        gone = sum(min(over, b) - begin for begin, over in out.get((job, channel), []))
        names = [f"dram.ch{channel}", *(unit for j, c, unit in links if (j, c) == (job, channel))]
        count.update(dict.fromkeys(names, min(b, cycles) - a - gone))
    counted = {name: c["member_cycles"] for name, c in end["counters"].items() if "member_cycles" in c}
    assert {name: n for name, n in count.items() if n} == {name: n for name, n in counted.items() if n}


def check_conflicts(events: list[Event]) -> None:
    """A request is held for the first time where, and when, a bank denies one for the first time."""
    banks: dict[int, set[int]] = {}
    for event in named(events, "SRAM_CONFLICT"):
        banks.setdefault(event["t_cycle"], set()).add(event["bank_id"])
        assert event["num_requests"] > event["allowed"] and event["stalled_clients"]
    lowest: dict[int, set[int]] = {}
    for event in named(events, "STALL_EVENT"):
        if event["reason"] == "bank_conflict":
            lowest.setdefault(event["t_cycle"], set()).add(event["bank_id"])
    assert set(banks) == set(lowest)
    assert all(lowest[cycle] <= banks[cycle] and min(lowest[cycle]) == min(banks[cycle]) for cycle in banks)


def check_energy(system: System, events: list[Event], result: dict[str, Any]) -> None:
    """The energy of the run is that of the package, to the last bit."""
    ended = np.array([entry["end"] is not None for entry in result["entries"]], dtype=np.bool_)
    program, config = load_program(system[1]), load_config(system[0])
    found = energy_pj(program, plan_npu(program, config), ended, result["counters"], result["cycles"])
    assert events[-1]["energy_pj"] == found


def check_laws(system: System, events: list[Event], result: dict[str, Any]) -> None:
    """All of them but those that compare levels; `result` is that of the same run."""
    assert events[-1]["counters"] == result["counters"]
    assert (events[-1]["status"], events[-1]["cycles"]) == (result["status"], result["cycles"])
    check_energy(system, events, result)
    check_order(events)
    check_pairs(events, result)
    check_one_job_at_a_time(events)
    check_bytes(system, events)
    check_samples(events)
    check_queues(events)
    check_elapsed(events)
    check_members(events)
    check_conflicts(events)
