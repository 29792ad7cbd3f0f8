"""Files of other tools: algorithms of MSCCL and MSCCL++, traces of Chakra, networks of NCCL and ASTRA-sim."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from random import Random
from typing import Any
from xml.sax.saxutils import quoteattr

from kernbench.ccl.imports.chakra import TYPES, Node, write_chakra
from tests.property.fuzz.case import Case
from tests.property.fuzz.trees import as_json, as_yaml, bytes_changed, changed, text_of

#: Pieces that texts of XML do not expect.
XML_PIECES = (
    b"<", b">", b"&", b"&amp;", b"&#0;", b"&#x110000;", b"<!--", b"-->", b"<![CDATA[", b"]]>", b'"', b"<a>" * 200, b"</gpu>",
    b'<?xml version="1.0" encoding="utf-16"?>', b'<!DOCTYPE a [<!ENTITY b "c">]>', b"\xff\xfe", b"\0", b"<gpu/>", b"<tb/>",
)  # fmt: skip


def xml(data: Any) -> bytes:
    """An element as [tag, attributes, children] in XML; anything else as text between elements."""
    if not (isinstance(data, list) and len(data) == 3 and isinstance(data[1], dict) and isinstance(data[2], list)):
        return str(data).encode("utf-8", "replace")
    tag, attributes, children = data
    head = "".join(f" {name}={quoteattr(str(value))}" for name, value in attributes.items())
    inner = b"\n".join(xml(child) for child in children)
    return f"<{tag}{head}>".encode("utf-8", "replace") + inner + f"</{tag}>".encode("utf-8", "replace")


def _step(number: int, kind: str, source: tuple[str, int], target: tuple[str, int], after: tuple[int, int] = (-1, -1)) -> Any:
    places = {"srcbuf": source[0], "srcoff": source[1], "dstbuf": target[0], "dstoff": target[1], "cnt": 1}
    return ["step", {"s": number, "type": kind, **places, "depid": after[0], "deps": after[1], "hasdep": 0}, []]


def _ring(ranks: int) -> Any:
    """An all-reduce in a ring: one thread block for each rank."""
    gpus = []
    for rank in range(ranks):
        steps = []
        for number in range(2 * (ranks - 1)):
            sent, got = ("i", (rank - number) % ranks), ("i", (rank - number - 1) % ranks)
            steps.append(_step(2 * number, "s", sent, sent))
            steps.append(_step(2 * number + 1, "rrc" if number < ranks - 1 else "r", got, got))
        block = ["tb", {"id": 0, "send": (rank + 1) % ranks, "recv": (rank - 1) % ranks, "chan": 0}, steps]
        gpus.append(["gpu", {"id": rank, "i_chunks": ranks, "o_chunks": 0, "s_chunks": 0}, [block]])
    head = {"name": "ring", "coll": "allreduce", "ngpus": ranks, "nchunksperloop": ranks, "inplace": 1, "outofplace": 0}
    return ["algo", head, gpus]


def _scratch() -> Any:
    """An all-reduce of two ranks: a thread block receives into scratch, and another one waits for it and adds."""
    gpus = []
    for rank in (0, 1):
        receives = [_step(0, "s", ("i", 0), ("i", 0)), _step(1, "r", ("s", 0), ("s", 0))]
        adds = [
            _step(0, "cpy", ("i", 0), ("o", 0)),
            _step(1, "nop", ("i", 0), ("o", 0), (0, 0)),
            _step(2, "re", ("s", 0), ("o", 0), (0, 1)),
        ]
        blocks = [
            ["tb", {"id": 0, "send": 1 - rank, "recv": 1 - rank, "chan": 0}, receives],
            ["tb", {"id": 1, "send": -1, "recv": -1, "chan": 1}, adds],
        ]
        gpus.append(["gpu", {"id": rank, "i_chunks": 1, "o_chunks": 1, "s_chunks": 1}, blocks])
    return ["algo", {"name": "two", "coll": "allreduce", "ngpus": 2, "nchunksperloop": 1, "inplace": 0}, gpus]


def _plan(ranks: int) -> dict[str, Any]:
    """An all-gather in place of MSCCL++: each rank reads the chunk of each other rank."""
    gpus = []
    for rank in range(ranks):
        others = [one for one in range(ranks) if one != rank]
        channels = list(range(ranks - 1))
        both = [{"name": name, "channel_ids": channels, "channel_type": "memory"} for name in ("signal", "wait")]
        gets = [
            {
                "name": "get",
                "src_buff": [{"buffer_id": k, "index": one, "size": 1}],
                "dst_buff": [{"type": "o", "index": one, "size": 1}],
                "channel_type": "memory",
            }
            for k, one in enumerate(others)
        ]
        block = {
            "id": 0,
            "ops": both + gets,
            "channels": [{"channel_type": "memory", "channel_ids": channels}],
            "remote_buffer_refs": [{"access_channel_type": "memory", "remote_buffer_ids": channels}],
        }
        gpus.append(
            {
                "id": rank,
                "input_chunks": 1,
                "output_chunks": ranks,
                "scratch_chunks": 0,
                "threadblocks": [block],
                "channels": [{"channel_type": "memory", "connected_to": others}],
                "remote_buffers": [{"rank": one, "type": "o", "access_channel_types": ["memory"]} for one in others],
                "semaphores": [{"init_value": 0}],
            }
        )
    return {"name": "own", "collective": "allgather", "protocol": "Simple", "inplace": True, "gpus": gpus}


class AlgorithmFormat:
    """Algorithms of MSCCL in XML, and plans of MSCCL++ in JSON."""

    name = "algorithm"
    KEYS = ("coll", "proto", "cnt", "chan", "redop", "reduce_op", "buffer_id", "semaphore_ids", "barrier_id", "rank_groups")

    def __init__(self, number: int, count: int) -> None:
        self.xml = [_ring(3), _ring(4), _scratch()]
        self.plans = [_plan(2), _plan(4)]

    def _case(self, name: str, data: bytes, *more: str) -> Case:
        return Case(("ccl", "run", "--msccl", name, "-b", "1K", "--set", "max_cycles=1000000", *more), {name: data})

    def sound(self) -> list[Case]:
        """Every algorithm and plan."""
        found = [self._case("a.xml", xml(one)) for one in self.xml]
        return found + [self._case("p.json", as_json(one)) for one in self.plans]

    def mutated(self, rng: Random) -> Case:
        """A changed algorithm or plan."""
        more = rng.choice(((), ("--json",), ("-d", "i32")))
        if rng.random() < 0.4:
            return self._case("p.json", text_of(rng, changed(rng, rng.choice(self.plans), self.KEYS), ".json"), *more)
        data = xml(changed(rng, rng.choice(self.xml), self.KEYS))
        return self._case("a.xml", bytes_changed(rng, data, XML_PIECES) if rng.random() < 0.2 else data, *more)

    def readers(self) -> list[tuple[Case, str]]:
        """Both readers."""
        return [(self.sound()[0], "a.xml"), (self.sound()[-1], "p.json")]


def _chakra(ranks: Sequence[Sequence[dict[str, Any]]]) -> dict[str, bytes]:
    return {f"t.{rank}.et": write_chakra([Node(**one) for one in nodes]) for rank, nodes in enumerate(ranks)}


def _traces() -> list[list[dict[str, Any]]]:
    """Two ranks that compute, exchange messages and sum."""
    found = []
    for rank in (0, 1):
        number = 10 * rank
        kinds = ("SEND", "RECV") if rank == 0 else ("RECV", "SEND")
        names = {"SEND": "comm_dst", "RECV": "comm_src"}
        messages = [
            {
                "number": number + 2 + k,
                "type": f"COMM_{kind}_NODE",
                "data": (number + 1,),
                "attributes": {names[kind]: 1 - rank, "comm_size": 4096, "comm_tag": k},
            }
            for k, kind in enumerate(kinds)
        ]
        work = {"number": number + 1, "type": "COMP_NODE", "name": "gemm", "micros": 3, "attributes": {"is_cpu_op": False}}
        wanted = {"comm_type": 0, "comm_size": 8192, "involved_dim": (True,)}
        after = (number + 2, number + 3)
        total = {"number": number + 4, "type": "COMM_COLL_NODE", "control": after, "attributes": wanted}
        found.append([work, *messages, total])
    return found


class ChakraFormat:
    """Execution traces of two ranks."""

    name = "chakra"
    KEYS = ("num_ops", "tensor_size", "comm_src", "comm_dst", "comm_tag", "comm_type", "pg_name", "root", "runtime")

    def __init__(self, number: int, count: int) -> None:
        self.base = _traces()

    def _case(self, files: dict[str, bytes], *more: str) -> Case:
        return Case(("ccl", "replay", "t", "-c", "single_cube", "--set", "max_cycles=1000000", *more), files)

    def sound(self) -> list[Case]:
        """The traces."""
        return [self._case(_chakra(self.base))]

    def mutated(self, rng: Random) -> Case:
        """Nodes with other values, or changed bytes of one file."""
        files = _chakra(self.base)
        with contextlib.suppress(TypeError, ValueError, AttributeError, KeyError, UnicodeError):
            made = changed(rng, self.base, self.KEYS)
            for nodes in made:
                for one in nodes:
                    one["type"] = one["type"] if one["type"] in TYPES else rng.choice(TYPES)
            files = _chakra(made)
        if files == _chakra(self.base) or rng.random() < 0.3:
            name = rng.choice(list(files) or ["t.0.et"])
            files[name] = bytes_changed(rng, files.get(name, b""))
        return self._case(files, *rng.choice(((), ("--json",), ("--estimate",), ("--no-control",))))

    def readers(self) -> list[tuple[Case, str]]:
        """A file of one rank."""
        return [(self.sound()[0], "t.1.et")]


def _node() -> Any:
    """Four GPUs at NVSwitches, below two PCIe switches that have a NIC each."""
    switches = []
    for number in range(2):
        gpus = []
        for one in (2 * number, 2 * number + 1):
            link = ["nvlink", {"target": "0000:c4:00.0", "count": 12, "tclass": "0x068000"}, []]
            inner = ["gpu", {"dev": one, "sm": 80, "rank": one}, [link]]
            slot = {"busid": f"0000:0{one}:00.0", "class": "0x030200", "link_speed": "16.0 GT/s PCIe", "link_width": 16}
            gpus.append(["pci", slot, [inner]])
        net = ["net", {"name": f"mlx5_{number}", "dev": number, "speed": 200_000}, []]
        nic = ["pci", {"busid": f"0000:b{number}:00.0"}, [["nic", {}, [net]]]]
        switches.append(["pci", {"busid": f"0000:a{number}:00.0"}, [*gpus, nic]])
    return ["system", {"version": 1}, [["cpu", {"numaid": 0, "arch": "x86_64"}, switches]]]


def _peers() -> Any:
    """Three GPUs with NVLinks to each other."""
    gpus = []
    for one in range(3):
        links = [
            ["nvlink", {"target": f"0000:0{other}:00.0", "count": 4, "tclass": "0x030200"}, []]
            for other in range(3)
            if other != one
        ]
        gpus.append(["pci", {"busid": f"0000:0{one}:00.0"}, [["gpu", {"dev": one, "sm": 70}, links]]])
    return ["system", {"version": 1}, [["cpu", {"numaid": 0}, gpus]]]


NETWORK: dict[str, Any] = {
    "topology": ["Ring", "Switch"],
    "npus_count": [4, 2],
    "bandwidth": [50.0, 25.0],
    "latency": [500.0, 700.0],
}
SYSTEM: dict[str, Any] = {
    "scheduling-policy": "LIFO",
    "endpoint-delay": 10,
    "local-mem-bw": 1600,
    "active-chunks-per-dimension": 1,
    "all-reduce-implementation": ["ring", "halvingDoubling"],
    "all-gather-implementation": ["ring", "direct"],
    "reduce-scatter-implementation": ["ring", "direct"],
    "all-to-all-implementation": ["direct", "direct"],
}


class NetworkFormat:
    """Topology files of NCCL, network and system files of ASTRA-sim."""

    name = "network"

    def __init__(self, number: int, count: int) -> None:
        self.nodes = [_node(), _peers()]

    def _nccl(self, data: bytes, *more: str) -> Case:
        return Case(("config", "init", "--nccl-topology", "n.xml", *more), {"n.xml": data})

    def _astra(self, network: bytes, system: bytes, end: str = ".yml") -> Case:
        files = {f"net{end}": network, "sys.json": system}
        return Case(("config", "init", "--astra-network", f"net{end}", "--astra-system", "sys.json"), files)

    def sound(self) -> list[Case]:
        """Every file."""
        found = [self._nccl(xml(one)) for one in self.nodes] + [self._nccl(xml(self.nodes[0]), "--nodes", "3")]
        return [*found, self._astra(as_yaml(NETWORK), as_json(SYSTEM))]

    def mutated(self, rng: Random) -> Case:
        """One of them changed."""
        if rng.random() < 0.5:
            data = xml(changed(rng, rng.choice(self.nodes), ("speed", "count", "link_width", "link_speed", "tclass")))
            data = bytes_changed(rng, data, XML_PIECES) if rng.random() < 0.2 else data
            return self._nccl(data, *rng.choice(((), ("--nodes", "2"))))
        if rng.random() < 0.5:
            return self._astra(text_of(rng, changed(rng, NETWORK), ".yml"), as_json(SYSTEM))
        return self._astra(as_yaml(NETWORK), text_of(rng, changed(rng, SYSTEM, ("peak-perf", "roofline-enabled")), ".json"))

    def readers(self) -> list[tuple[Case, str]]:
        """Each reader once."""
        nccl, astra = self.sound()[0], self.sound()[-1]
        return [(nccl, "n.xml"), (astra, "net.yml"), (astra, "sys.json")]
