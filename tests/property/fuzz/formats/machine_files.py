"""Programs, machines, systems and the mesh files of systems: JSON and YAML that decides a run."""

from __future__ import annotations

import hashlib
import re
import tempfile
from pathlib import Path
from random import Random
from typing import Any

import yaml

from kernbench.config import load_config
from kernbench.topology.mesh_gen import MESH_FILE, mesh_file
from tests.property.fuzz.bases import CYCLES, System, every_opcode, npu_systems, pe_systems
from tests.property.fuzz.case import Case
from tests.property.fuzz.trees import as_json, as_yaml, bytes_changed, changed, text_of

LIMIT = ("--set", f"max_cycles={CYCLES}")
ON = ("--config", "m.yaml")  #: sound machines have the limit themselves


def _keys(data: Any) -> set[str]:
    if isinstance(data, dict):
        return {key for key in data if isinstance(key, str)}.union(*(_keys(value) for value in data.values()))
    return set().union(*(_keys(value) for value in data)) if isinstance(data, list) else set()


def _suffix(rng: Random) -> str:
    return rng.choice((".json", ".json", ".yaml"))


class ProgramFormat:
    """Command queue programs, on sound machines."""

    name = "program"

    def __init__(self, number: int, count: int) -> None:
        self.bases: list[System] = [*npu_systems(count, number), *pe_systems(count // 3, number)]
        self.keys = sorted(set().union(*(_keys(program) for _, program in self.bases)))

    def sound(self) -> list[Case]:
        """Every base, run."""
        return [
            Case(("run", f"p{end}", *ON), {f"p{end}": as_json(p) if end == ".json" else as_yaml(p), "m.yaml": as_yaml(m)})
            for i, (m, p) in enumerate(self.bases)
            for end in [(".json", ".yaml")[i % 2]]
        ]

    def mutated(self, rng: Random) -> Case:
        """A changed program."""
        machine, program = rng.choice(self.bases)
        end = _suffix(rng)
        made = changed(rng, program, self.keys)
        return Case(_on_program(rng, f"p{end}"), {f"p{end}": text_of(rng, made, end), "m.yaml": as_yaml(machine)})

    def readers(self) -> list[tuple[Case, str]]:
        """`run` and `program check`, JSON and YAML."""
        machine, program = self.bases[0]
        files = {"p.json": as_json(program), "p.yaml": as_yaml(program), "m.yaml": as_yaml(machine)}
        return [
            *((Case(("run", name, *ON), files), name) for name in ("p.json", "p.yaml")),
            *((Case(("program", what, "p.json", *ON), files), "p.json") for what in ("check", "show")),
        ]


def _on_program(rng: Random, name: str) -> tuple[str, ...]:
    return rng.choice(
        (
            ("run", name, *ON),
            *[("run", name, *ON, "--quiet")] * 4,
            ("run", name, *ON, "--no-skip", "--quiet"),
            ("run", name, *ON, "--json"),
            ("run", name, *ON, "--trace", "t.jsonl", "--trace-level", rng.choice(("summary", "full", "access"))),
            ("run", name, *ON, "--report", "t.html", "--trace-level", "full"),
            ("step", name, *ON, "--cycles", str(rng.choice((0, 1, 50, 400))), "--save", "x.ckpt"),
            ("step", name, *ON, "--until", rng.choice(("stall", "conflict", "end:0", "start:3", "cycle:70"))),
            ("program", "check", name, *ON),
            ("program", "show", name, *ON, *rng.choice(((), ("--json",), ("--graph", "dot"), ("--graph", "mermaid")))),
            ("program", "compile", name, *ON, "--out", "p.kbp"),
            ("whatif", name, *ON),
        )
    )


class MachineFormat:
    """Machines of one NPU, under sound programs."""

    name = "machine"

    def __init__(self, number: int, count: int) -> None:
        self.bases = list(npu_systems(count, number))
        whole = load_config("npu_mobile").effective()
        plain = load_config("npu_server").to_dict()
        self.bases.append((plain, every_opcode()))
        self.keys = sorted(_keys(whole).union(*(_keys(machine) for machine, _ in self.bases)))

    def sound(self) -> list[Case]:
        """Every base, run."""
        return [
            Case(("run", "p.json", "--config", f"m{end}", *LIMIT), {f"m{end}": as_json(m), "p.json": as_json(p)})
            for m, p in self.bases
            for end in (".json",)
        ]

    def mutated(self, rng: Random) -> Case:
        """A changed machine."""
        machine, program = rng.choice(self.bases)
        end = _suffix(rng)
        name = f"m{end}"
        on = ("--config", name, *LIMIT)
        arguments = rng.choice(
            (
                ("run", "p.json", *on),
                *[("run", "p.json", *on, "--quiet")] * 4,
                ("run", "p.json", *on, "--no-skip", "--quiet"),
                ("run", "p.json", *on, "--trace", "t.jsonl", "--trace-level", "full"),
                ("config", "check", name),
                ("config", "show", name, *rng.choice(((), ("--effective",), ("--json",)))),
                ("program", "show", "p.json", *on),
                ("program", "compile", "p.json", *on, "--out", "p.kbp"),
                ("step", "p.json", *on, "--cycles", "40", "--save", "x.ckpt"),
            )
        )
        return Case(arguments, {name: text_of(rng, changed(rng, machine, self.keys), end), "p.json": as_json(program)})

    def readers(self) -> list[tuple[Case, str]]:
        """`run` and `config`."""
        machine, program = self.bases[0]
        files = {"m.yaml": as_yaml(machine), "m.json": as_json(machine), "p.json": as_json(program)}
        return [
            (Case(("run", "p.json", *ON), files), "m.yaml"),
            (Case(("config", "check", "m.json"), files), "m.json"),
            (Case(("config", "show", "m.yaml"), files), "m.yaml"),
        ]


class SystemFormat:
    """Systems of PEs, and what is said of their topology."""

    name = "system"

    def __init__(self, number: int, count: int) -> None:
        self.bases = pe_systems(max(4, count // 2), number)
        whole = load_config("single_cube").effective()
        self.keys = sorted(_keys(whole).union(*(_keys(machine) for machine, _ in self.bases)))

    def sound(self) -> list[Case]:
        """Every base, run."""
        return [Case(("run", "p.json", *ON), {"m.yaml": as_yaml(m), "p.json": as_json(p)}) for m, p in self.bases]

    def mutated(self, rng: Random) -> Case:
        """A changed system."""
        system, program = rng.choice(self.bases)
        end = _suffix(rng)
        name = f"m{end}"
        on = ("--config", name, *LIMIT)
        arguments = rng.choice(
            (
                ("run", "p.json", *on),
                *[("run", "p.json", *on, "--quiet")] * 4,
                ("run", "p.json", *on, "--no-skip", "--quiet"),
                ("run", "p.json", *on, "--trace", "t.jsonl", "--trace-level", "full"),
                ("config", "check", name),
                ("config", "show", name, "--effective"),
                ("topology", "show", "-c", name),
                ("topology", "compile", "-c", name),
                (
                    "topology",
                    "route",
                    "sip0.cube0.pe0",
                    rng.choice(("sip0.cube0.pe1", "sip0.cube0.sram", "sip1.cube0.pe0")),
                    "-c",
                    name,
                ),
                ("topology", "draw", "-c", name, "--view", rng.choice(("system", "sip", "cube", "pe")), "--out", "t.svg"),
                ("ccl", "run", "barrier", "--ranks", "2", *on),
                ("probe", "-c", name, "--sizes", "4K", "--only", "pe_to_pe", "--set", f"max_cycles={CYCLES}"),
            )
        )
        return Case(arguments, {name: text_of(rng, changed(rng, system, self.keys), end), "p.json": as_json(program)})

    def readers(self) -> list[tuple[Case, str]]:
        """`run`, and `topology show`."""
        system, program = self.bases[0]
        files = {"m.yaml": as_yaml(system), "p.json": as_json(program)}
        return [(Case(("run", "p.json", *ON), files), "m.yaml"), (Case(("topology", "show", "-c", "m.yaml"), files), "m.yaml")]


_HASH = re.compile(rb"^content_hash: .*\n", re.MULTILINE)


def resealed(text: bytes) -> bytes:
    """A mesh file with the hash of what it holds now."""
    bare = _HASH.sub(b"", text, count=1)
    sealed = b"content_hash: " + hashlib.sha256(bare).hexdigest().encode() + b"\n"
    first = bare.find(b"schema:")
    end = bare.find(b"\n", first) + 1
    return bare[:end] + sealed + bare[end:]


class MeshFormat:
    """The `cube_mesh.yaml` beside a system's file."""

    name = "mesh"

    def __init__(self, number: int, count: int) -> None:
        self.bases: list[tuple[dict[str, Any], dict[str, Any], bytes]] = []
        for system, program in pe_systems(max(4, count // 4), number):
            with tempfile.TemporaryDirectory() as folder:
                at = Path(folder) / "m.yaml"
                at.write_bytes(as_yaml(system))
                config: Any = load_config(at)
                mesh_file(config).write()
                self.bases.append((system, program, (at.parent / MESH_FILE).read_bytes()))

    def _files(self, base: tuple[dict[str, Any], dict[str, Any], bytes], mesh: bytes) -> dict[str, bytes]:
        system, program, _ = base
        return {"m.yaml": as_yaml(system), "p.json": as_json(program), MESH_FILE: mesh}

    def sound(self) -> list[Case]:
        """Every base, run, its file sealed here."""
        return [Case(("run", "p.json", *ON), self._files(base, resealed(base[2]))) for base in self.bases]

    def mutated(self, rng: Random) -> Case:
        """A changed mesh, as a rule with the hash that belongs to it."""
        base = rng.choice(self.bases)
        if rng.random() < 0.7:
            data = yaml.load(base[2], yaml.CSafeLoader)
            head = base[2].splitlines(keepends=True)[0]
            mesh = head + as_yaml(changed(rng, data))
        else:
            mesh = bytes_changed(rng, base[2])
        if rng.random() < 0.9:
            mesh = resealed(mesh)
        arguments = rng.choice(
            (
                ("run", "p.json", *ON),
                ("topology", "show", "-c", "m.yaml"),
                ("topology", "compile", "-c", "m.yaml"),
                ("topology", "compile", "-c", "m.yaml", "--force"),
                ("topology", "route", "sip0.cube0.pe0", "sip0.cube0.pe1", "-c", "m.yaml"),
                ("topology", "draw", "-c", "m.yaml", "--view", "cube", "--out", "t.svg"),
            )
        )
        return Case(arguments, self._files(base, mesh))

    def readers(self) -> list[tuple[Case, str]]:
        """`run`, and `topology show`."""
        files = self._files(self.bases[0], self.bases[0][2])
        shown = Case(("topology", "show", "-c", "m.yaml"), files)
        return [(Case(("run", "p.json", *ON), files), MESH_FILE), (shown, MESH_FILE)]
