"""Commands that a micro-scheduler divides into jobs, by docs/model/jobs.md: a program in which each job is an entry."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

from . import reference
from .ref_machine import completed

Entry = dict[str, Any]
ROWS = ("SUM", "MAX", "MIN", "LAYERNORM", "RMSNORM", "SOFTMAX")


def divided(
    machine: dict[str, Any], program: dict[str, Any], spm: dict[str, Any] | None = None
) -> tuple[dict[str, Any], list[list[int]]]:
    """The program of jobs, and for each entry of `program` the positions of its jobs. `spm`: of a PE of a system."""
    program = {**program, "cmdq": [{"id": at, **entry} for at, entry in enumerate(program["cmdq"])]}
    limits = machine["control"]["micro_scheduler"]
    spm = spm or completed(machine)["spm"]
    jobs = [list(_jobs(entry, limits, spm)) for entry in program["cmdq"]]
    ids: dict[int, list[int]] = {}
    spans: list[list[int]] = []
    for entry, some in zip(program["cmdq"], jobs, strict=True):
        spans.append(list(range(sum(map(len, spans)), sum(map(len, spans)) + len(some))))
        ids[entry["id"]] = [1_000_000 + at for at in spans[-1]]
    cmdq = []
    for some, span in zip(jobs, spans, strict=True):
        for job, at in zip(some, span, strict=True):
            named = {key: [one for other in job[key] for one in ids[other]] for key in WAITS if key in job}
            cmdq.append({**job, **named, "id": 1_000_000 + at})
    return {**program, "cmdq": cmdq}, spans


WAITS = ("deps_before", "deps_after", "wait_for")


def simulate(machine: dict[str, Any], program: dict[str, Any]) -> dict[str, Any]:
    """What `reference.simulate` gives, with the times of commands."""
    of_jobs, spans = divided(machine, program)
    return of_commands(reference.simulate(without(machine), of_jobs), program, spans)


def of_commands(found: dict[str, Any], program: dict[str, Any], spans: list[list[int]]) -> dict[str, Any]:
    """What was found of a program of jobs, with the times of commands, and overlaps between commands."""
    entries = []
    for at, (entry, span) in enumerate(zip(program["cmdq"], spans, strict=True)):
        first, last = found["entries"][span[0]], found["entries"][span[-1]]
        times = {"issue": first["issue"], "start": first["start"], "end": last["end"]}
        entries.append({"id": entry.get("id", at), "opcode": entry["opcode"], **times})
    if "overlaps" not in found:
        return {**found, "entries": entries}
    command = {1_000_000 + at: entry["id"] for entry, span in zip(entries, spans, strict=True) for at in span}
    overlaps = [(cycle, command[one], command[other]) for cycle, one, other in found["overlaps"]]
    return {**found, "entries": entries, "overlaps": overlaps}


def without(machine: dict[str, Any]) -> dict[str, Any]:
    """The machine without its micro-scheduler."""
    control = {key: value for key, value in machine["control"].items() if key != "micro_scheduler"}
    return {**machine, "control": control}


def _jobs(entry: Entry, limits: dict[str, int], spm: dict[str, Any]) -> Iterator[Entry]:
    if entry["opcode"].startswith("TE_"):
        yield from _tiles(entry, limits, spm)
    elif entry["opcode"].startswith("VE_"):
        yield from _chunks(entry, limits.get("chunk_elements"), spm)
    else:
        yield entry


def _tiles(entry: Entry, limits: dict[str, int], spm: dict[str, Any]) -> Iterator[Entry]:
    m, n, k = entry["m"], entry["n"], entry["k"]
    tm, tn, tk = limits.get("tile_m", m), limits.get("tile_n", n), limits.get("tile_k", k)
    count = -(-m // tm), -(-n // tn), -(-k // tk)
    for i, j, l in product(*map(range, count)):  # noqa: E741
        rows, columns, depth = min(tm, m - i * tm), min(tn, n - j * tn), min(tk, k - l * tk)
        made = {**entry, "m": rows, "n": columns, "k": depth, "partial": l < count[2] - 1}
        _move(made, "ifm", i * tm * k + rows * l * tk, entry["qbits_activation"], spm)
        _move(made, "wgt", j * tn * k + columns * l * tk, entry["qbits_weight"], spm)
        _move(made, "ofm", i * tm * n + rows * j * tn, entry.get("qbits_result") or entry["qbits_activation"], spm)
        yield made


def _chunks(entry: Entry, most: int | None, spm: dict[str, Any]) -> Iterator[Entry]:
    length, batch, bits = entry["length"], entry.get("batch", 1), entry["qbits_activation"]
    if most is None or batch * length <= most:
        yield entry
        return
    op = entry["opcode"].removeprefix("VE_").removesuffix("_TILE")
    size = length * max(1, most // length) if op in ROWS else most
    for start in range(0, batch * length, size):
        count = min(size, batch * length - start)
        shape = {"length": length, "batch": count // length} if op in ROWS else {"length": count, "batch": 1}
        made = {**entry, **shape}
        for prefix in ("in", "in2", "out"):
            if f"{prefix}_bank" in entry:
                out = prefix == "out"
                width = entry.get("qbits_result") or bits if out else bits
                _move(made, prefix, start // length if out and op in ROWS[:3] else start, width, spm)
        yield made


def _move(entry: Entry, prefix: str, elements: int, bits: int, spm: dict[str, Any]) -> None:
    """Let an operand begin so many elements later, one byte after the other."""
    width, banks = spm["bank_width_bytes"], spm["num_banks"]
    bank, offset = entry[f"{prefix}_bank"], entry[f"{prefix}_offset"]
    forward = elements * bits // 8
    if spm["map"] == "blocked":
        bank, offset = bank + (offset + forward) // spm["bank_size_bytes"], (offset + forward) % spm["bank_size_bytes"]
    else:
        in_row = offset % width + bank * width + forward
        bank, offset = in_row // width % banks, (offset // width + in_row // (width * banks)) * width + in_row % width
    entry[f"{prefix}_bank"], entry[f"{prefix}_offset"] = bank, offset
