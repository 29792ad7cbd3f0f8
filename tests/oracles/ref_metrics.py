"""The metrics of a trace, slowly: lists of all events, sets of cycles, written from `docs/reference/trace_metrics.md` alone."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from fractions import Fraction
from itertools import pairwise
from typing import Any

from .ref_engines import te_work, ve_work
from .ref_geometry import Scratchpad
from .ref_machine import completed

Event = dict[str, Any]
Figure = tuple[str, str, str]  # table, name, metric, as in the rows of `kbsim trace summary --format csv`
KINDS = ("DMA", "TE", "VE")
WORK = {"TE": "mac_count", "VE": "op_count", "DMA": "size_bytes"}


def exact(number: object) -> Fraction:
    """The rational that a decimal spells."""
    return Fraction(str(number))


def over(part: Fraction | int, whole: Fraction | int) -> Fraction:
    """part / whole, 0 of nothing."""
    return Fraction(part) / whole if whole else Fraction(0)


class ReferenceMetrics:
    """Figures of a whole trace, or of one of some cycles (`TRACE_META.filter.cycles`), by table, name and metric."""

    def __init__(self, events: list[Event]) -> None:
        self.meta, self.events, self.last = events[0], events[1:-1], events[-1]
        self.units = {unit["unit"]: unit for unit in self.meta["units"]}
        asked = (self.meta.get("filter") or {}).get("cycles")
        self.first: int = asked[0] if asked else 0
        self.end: int = min(self.last["cycles"], asked[1]) if asked else self.last["cycles"]
        self.end = max(self.end, self.first)
        self.cycles = self.end - self.first
        self.found: dict[Figure, Fraction] = {}
        self.commands = {event["cmd_id"]: event for event in self.named("CMD_ENQUEUE")}
        self._engines()
        self._transfers()
        self._channels()
        self._banks()
        self._parts("phases", "phase")
        self._parts("layers", "layer_id")
        self._stalls()
        self._tokens()
        self._roofline()

    def named(self, *names: str, **given: object) -> list[Event]:
        """Events of these types with these values, in the file's order."""
        found = [event for event in self.events if event["event_type"] in names]
        return [event for event in found if all(event.get(name) == value for name, value in given.items())]

    def put(self, table: str, name: object, **figures: Fraction | int | None) -> None:
        """Figures that the file says."""
        for metric, value in figures.items():
            if value is not None:
                self.found[table, "" if name is None else str(name), metric.replace("__", ".")] = Fraction(value)

    def tracks(self, *components: str) -> Iterator[str]:
        """Names of tracks of these kinds, in their order."""
        return (name for name, unit in self.units.items() if unit["component"] in components)

    def sampled(self) -> int:
        """Cycles of the windows that the file has samples of."""
        window: int = self.meta["window_cycles"]
        if not self.named("ENGINE_SAMPLE"):
            return self.cycles
        low = self.first // window * window
        high = self.end if self.end == self.last["cycles"] else self.end // window * window
        return max(high - low, 0)

    def ran(self, kind: str, **given: object) -> list[tuple[Event, int, int]]:
        """Jobs of a kind: the event that is known of them, their start and their end, as far as they are in the file."""
        ends = {event["job_id"]: event for event in self.named(f"{kind}_END", **given)}
        starts = {event["job_id"]: event for event in self.named(f"{kind}_START", **given)}
        jobs = []
        for job in {**starts, **ends}:
            start = starts[job]["t_cycle"] if job in starts else self.first
            end = ends[job]["t_cycle"] if job in ends else self.end
            jobs.append((ends.get(job) or starts[job], start, end))
        return jobs

    def _engines(self) -> None:
        cycles = self.sampled()
        whole = not self.meta.get("filter")
        for name in self.tracks(*KINDS):
            kind = self.units[name]["component"]
            samples, ends = self.named("ENGINE_SAMPLE", unit=name), self.named(f"{kind}_END", unit=name)
            busy, held, pressed = (total(samples, f"{part}_cycles") for part in ("busy", "bank_conflict", "backpressure"))
            if whole and kind != "DMA":  # what holds a job is said at its end, and by its open wait
                spans = {c for _, start, end in self.ran(kind, unit=name) for c in range(start, end)}
                assert busy + held == len(spans), name
            if not self.named("ENGINE_SAMPLE"):
                ran = covered((start, end) for _, start, end in self.ran(kind, unit=name))
                held = pressed = 0
                begun = {event["job_id"] for event in self.named(f"{kind}_START", unit=name)}
                for event in ends if kind != "DMA" else []:
                    most = math.inf if event["job_id"] in begun else event["t_cycle"] - self.first
                    held += min(event["stall_cycles"], most)
                busy = ran - held
            running = total(ends, "latency_cycles")
            work = sum(self.size(e) for e in ends) if kind == "DMA" else total(ends, WORK[kind])
            self.put(
                "engines", name, cycles=cycles, busy=busy, bank_conflict=held, backpressure=pressed,
                idle=cycles - busy - held - pressed, utilisation=over(busy, cycles), occupied=busy + held + pressed,
                occupancy=over(busy + held + pressed, cycles), jobs=len(ends), running=running, work=work,
                queued=total(self.named("JOB_DONE", unit=name), "latency_cycles") - running,
            )  # fmt: skip

    def size(self, end: Event) -> int:
        """Aligned bytes of a transfer that ended."""
        return total(self.named("ENGINE_EVENT", job_id=end["job_id"]), "bytes")

    def _transfers(self) -> None:
        ends, begun = self.named("DMA_END"), {event["job_id"]: event for event in self.named("DMA_START")}
        by = {"DRAM_TO_SRAM": 0, "SRAM_TO_DRAM": 0, "SRAM_TO_SRAM": 0, "unknown": 0}
        types = {"DMA_READ": "DRAM_TO_SRAM", "DMA_WRITE": "SRAM_TO_DRAM", "HOST_COPY": "unknown"}
        for end in ends:
            kind = self.named("JOB_DONE", job_id=end["job_id"])[0]["job_type"]
            start = begun.pop(end["job_id"], {"direction": types.get(kind, "SRAM_TO_SRAM")})
            by[start["direction"]] += self.size(end)
        moved = sum(by.values())
        self.put(
            "transfers", "", ended=len(ends), bytes=moved, loaded=by["DRAM_TO_SRAM"], stored=by["SRAM_TO_DRAM"],
            between=by["SRAM_TO_SRAM"], open=len(begun), cycles=self.cycles, bandwidth=over(moved, self.cycles),
        )  # fmt: skip

    def _channels(self) -> None:
        cycles = self.sampled()
        for table, component in (("channels", "DRAM"), ("links", "NOC")):
            for name in self.tracks(component):
                samples, capacity = self.named("BANDWIDTH_SAMPLE", unit=name), exact(self.units[name]["capacity"])
                read, write = total(samples, "read_bytes"), total(samples, "write_bytes")
                busy, bandwidth = total(samples, "busy_cycles"), over(read + write, cycles)
                self.put(
                    table, name, cycles=cycles, read=read, write=write, busy=busy, members=total(samples, "member_cycles"),
                    capacity=capacity, bytes=read + write, utilisation=over(busy, cycles), bandwidth=bandwidth,
                    used=bandwidth / capacity,
                )  # fmt: skip

    def _banks(self) -> None:
        if self.meta["level"] == "summary":
            return
        at = 0
        sums = [0, 0, 0]
        for name in self.tracks("SRAM"):
            columns = [self._by_bank(name, what) for what in ("requests", "grants", "denials")]
            for k, counts in enumerate(zip(*columns, strict=True)):
                self.put("banks", f"{at + k}", **dict(zip(("requests", "grants", "denials"), counts, strict=True)))
                sums = [a + b for a, b in zip(sums, counts, strict=True)]
            at += len(columns[0])
        conflicts = self._denied()
        self.put("banks", "", conflicts=len(conflicts), denial_rate=over(sums[2], sums[0]) if at else None)
        if self.meta["level"] == "access":
            asked = self._asked() | conflicts
            self.put("banks", "", accesses=len(asked), conflict_rate=over(len(conflicts), len(asked)))

    def _by_bank(self, unit: str, what: str) -> list[int]:
        samples = [event[what] for event in self.named("BANK_SAMPLE", unit=unit)]
        return [sum(column) for column in zip(*samples, strict=True)]

    def _denied(self) -> set[tuple[str, int, str, int]]:
        return {(e["unit"], e["bank_id"], e["access_type"], e["t_cycle"]) for e in self.named("SRAM_CONFLICT")}

    def _asked(self) -> set[tuple[str, int, str, int]]:
        """Scratchpad, bank, direction and cycle of every first asking of a request that is served in the file."""
        found = set()
        for event in self.named("SRAM_ACCESS"):
            cycle, pad = event["t_cycle"] + 1 - event["cycles"], self.units[event["unit"]]
            for byte in range(event["addr"], event["addr"] + event["size_bytes"]):
                line = byte // pad["bank_width_bytes"]
                bank = byte // pad["bank_size_bytes"] if pad["map"] == "blocked" else line % pad["num_banks"]
                found.add((event["unit"], bank, event["access_type"], cycle))
        return {access for access in found if access[3] >= self.first}

    def _parts(self, table: str, field: str) -> None:
        names = {number: event.get(field) for number, event in self.commands.items()}
        starts = {event["cmd_id"]: event["t_cycle"] for event in self.named("CMD_START")}
        for name in dict.fromkeys(names.values()):
            own = {number for number, part in names.items() if part == name}
            ends = {
                event["cmd_id"]: event["t_cycle"]
                for event in self.named("CMD_END")
                if event["cmd_id"] in own and (event["cmd_id"] in starts or event["status"] == "OK")
            }
            spans = [
                (starts.get(number, self.first), ends.get(number, self.end)) for number in own if number in {**starts, **ends}
            ]
            figures: dict[str, Fraction | int | None] = {"commands": len(own), "ended": len(ends)}
            if spans:
                first, last = min(start for start, _ in spans), max(end for _, end in spans)
                figures |= {"first": first, "last": last, "latency": last - first}
            lengths = [end - starts.get(number, self.first) for number, end in ends.items()]
            figures |= {"active": covered(spans), "command_cycles": sum(lengths), "longest": max(lengths, default=0)}
            for kind in KINDS:
                jobs = [(start, end) for event, start, end in self.ran(kind) if event["cmd_id"] in own]
                figures[kind.lower()] = covered(jobs)
            ended = [event for event in self.named("TE_END", "VE_END", "DMA_END") if event["cmd_id"] in own]
            figures["bytes"] = sum(self.size(event) for event in ended if event["event_type"] == "DMA_END")
            figures["macs"], figures["ops"] = total(ended, "mac_count"), total(ended, "op_count")
            waits = [event for event in self.named("RESUME_EVENT") if event["cmd_id"] in own]
            for reason in {event["reason"] for event in waits}:
                own_waits = [event for event in waits if event["reason"] == reason]
                figures[f"stalls__{reason}"] = total(own_waits, "duration_cycles")
            self.put(table, name, **figures)

    def _stalls(self) -> None:
        for name in self.tracks(*KINDS):
            for reason in ("queue_full", "priority_deferred", "backpressure", "bank_conflict"):
                begun = self.named("STALL_EVENT", unit=name, reason=reason)
                over_ = self.named("RESUME_EVENT", unit=name, reason=reason)
                cycles, open_ = total(over_, "duration_cycles"), []
                for stall in begun:  # a wait is over with the next RESUME_EVENT of its job and channel
                    same = [e for e in over_ if (e["job_id"], e.get("channel")) == (stall["job_id"], stall.get("channel"))]
                    if not any(e["t_cycle"] - e["duration_cycles"] == stall["t_cycle"] for e in same):
                        open_.append(self.end - stall["t_cycle"])
                if begun or over_:
                    episodes = len(over_) + len(open_)
                    self.put("stalls", f"{name}.{reason}", episodes=episodes, cycles=cycles + sum(open_), open=len(open_))

    def _tokens(self) -> None:
        passes: dict[int, list[int]] = {}
        for event in self.commands.values():
            if "token_idx" in event and "seq_len" in event:
                passes.setdefault(event["seq_len"], []).append(event["token_idx"])
        prompt: set[int] = set()
        for length, positions in passes.items():
            if min(positions) < length - 1 or length == 1:
                prompt |= set(range(min(positions), length))
        tokens = self.named("TOKEN")
        decoded = [event for event in tokens if event["token_idx"] not in prompt]
        ends = [event["t_cycle"] for event in decoded]
        ttft = next((e["t_cycle"] for e in tokens if prompt and e["token_idx"] == max(prompt)), None)
        self.put("tokens", "", count=len(decoded), prompt=len(tokens) - len(decoded), ttft=ttft)
        if decoded:
            since = decoded[0]["t_cycle"] - decoded[0]["latency_cycles"] if ttft is None else ttft
            self.put("tokens", "", tpot=Fraction(ends[-1] - since, len(decoded)))
        self._spread("latency", [event["latency_cycles"] for event in decoded])
        self._spread("gap", [b - a for a, b in pairwise(ends if ttft is None else [ttft, *ends])])
        completed = self.named("TOKEN_COMPLETE")
        for status in {event["status"] for event in completed}:
            count = sum(event["status"] == status for event in completed)
            self.put("tokens", "", **{f"completions__{status}": count})

    def _spread(self, name: str, numbers: list[int]) -> None:
        if not numbers:
            return
        figures: dict[str, Fraction | int] = {"count": len(numbers), "mean": Fraction(sum(numbers), len(numbers))}
        figures |= {"least": min(numbers), "most": max(numbers)}
        for percent in (50, 90, 99):
            enough = [n for n in numbers if 100 * sum(m <= n for m in numbers) >= percent * len(numbers)]
            figures[f"p{percent}"] = min(enough)
        self.put("tokens", "", **{f"{name}__{metric}": value for metric, value in figures.items()})

    def _roofline(self) -> None:
        macs, ops = total(self.named("TE_END"), "mac_count"), total(self.named("VE_END"), "op_count")
        done = 2 * macs + ops
        nbytes = sum(self.found["channels", name, "bytes"] for name in self.tracks("DRAM"))
        started = {event["job_id"]: event["body_cycles"] for event in self.named("TE_START")}
        known = [event for event in self.named("TE_END") if event["job_id"] in started]
        rate = over(total(known, "mac_count"), sum(started[event["job_id"]] for event in known))
        peak = Fraction(0)
        for unit in self.units.values():
            if "macs_per_cycle" in unit:
                peak += 2 * max(exact(unit["macs_per_cycle"]), rate)
            if "ops_per_cycle" in unit:
                peak += exact(unit["ops_per_cycle"])
        bandwidth = sum((exact(self.units[name]["capacity"]) for name in self.tracks("DRAM")), Fraction(0))
        intensity = done / nbytes if nbytes else None
        self.put(
            "roofline", "", ops=done, bytes=nbytes, cycles=self.cycles, peak=peak, bandwidth=bandwidth, intensity=intensity,
            attained=over(done, self.cycles), ridge=peak / bandwidth,
            roof=peak if intensity is None else min(peak, intensity * bandwidth),
        )  # fmt: skip


def reference_energy(events: list[Event], machine: dict[str, Any], program: dict[str, Any]) -> dict[str, Fraction]:
    """pJ by part of a whole run on one NPU: what the machine's `energy` section says of what the events say was done."""
    config = completed(machine)
    model, spm = config["energy"], Scratchpad(config["spm"])
    macs = {int(bits): exact(pj) for bits, pj in model["mac_pj"].items()}
    entries = {entry.get("id", k): entry for k, entry in enumerate(program["cmdq"])}
    parts = dict.fromkeys(("dram", "noc", "spm", "mac", "ve"), Fraction(0))
    for event in events:
        if event["event_type"] == "BANDWIDTH_SAMPLE":
            moved = event["read_bytes"] + event["write_bytes"]
            if event["unit"].startswith("noc."):
                parts["noc"] += moved * exact(model["noc_pj_per_byte_hop"])
            else:
                parts["dram"] += moved * exact(model["dram_pj_per_byte"])
                parts["spm"] += moved * exact(model["spm_pj_per_byte"])
        elif event["event_type"] in ("TE_END", "VE_END"):
            entry, kind = entries[event["cmd_id"]], event["event_type"][:2].lower()
            work = (te_work if kind == "te" else ve_work)(entry, 0, config[kind], spm)
            if config[kind]["spm_traffic"]:
                parts["spm"] += sum(end - start for start, end in work.reads + work.writes) * exact(model["spm_pj_per_byte"])
            if kind == "te":
                parts["mac"] += event["mac_count"] * macs.get(entry["qbits_weight"], macs.get(8, Fraction(0)))
            else:
                parts["ve"] += event["op_count"] * exact(model["ve_op_pj"])
    parts["static"] = exact(model["static_mw"]) * events[-1]["cycles"] / exact(config["freq_ghz"])
    return parts


def total(events: Iterable[Event], field: str) -> int:
    """The sum of a field, where it is."""
    return sum(int(event.get(field, 0)) for event in events)


def covered(spans: Iterable[tuple[int, int]]) -> int:
    """Cycles in which at least one of the spans is."""
    return len({cycle for start, end in spans for cycle in range(start, end)})
