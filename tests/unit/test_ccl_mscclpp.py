"""MSCCL++ plans: what ranks write and read of each other becomes messages, and the results are right in every bit."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from kernbench.ccl.contract import Shape
from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.imports import mscclpp
from kernbench.ccl.imports.mscclpp import read_mscclpp
from kernbench.ccl.measure import CclRequest, counts_of, queues_of, row
from kernbench.ccl.registry import read_registry
from kernbench.common.errors import InputError
from kernbench.config import SystemConfig, load_config

Json = dict[str, Any]


def buff(kind: str | int, index: int, size: int = 1) -> Json:
    """Chunks of an own buffer, or of a remote one by its number."""
    return {"buffer_id" if isinstance(kind, int) else "type": kind, "index": index, "size": size}


def op(name: str, source: list[Json], target: list[Json], channel_type: str = "memory", **more: Any) -> Json:
    return {"name": name, "src_buff": source, "dst_buff": target, "channel_type": channel_type, **more}


def sync(name: str, *channels: int) -> Json:
    return {"name": name, "channel_ids": list(channels), "channel_type": "memory"}


def gpu(rank: int, ranks: int, *blocks: list[Json], sizes: tuple[int, int, int] = (2, 2, 4), buffers: str = "i") -> Json:
    """A rank with a channel to each other one, and remote buffers of all others, kind after kind."""
    others = [one for one in range(ranks) if one != rank]
    remote = [{"rank": one, "type": kind, "access_channel_types": ["memory"]} for kind in buffers for one in others]
    refs = [{"access_channel_type": "memory", "remote_buffer_ids": list(range(len(remote)))}]
    channels = [{"channel_type": "memory", "channel_ids": list(range(len(others)))}]
    return {
        "id": rank,
        **dict(zip(("input_chunks", "output_chunks", "scratch_chunks"), sizes, strict=True)),
        "threadblocks": [
            {"id": k, "ops": ops, "channels": channels, "remote_buffer_refs": refs} for k, ops in enumerate(blocks)
        ],
        "channels": [{"channel_type": "memory", "connected_to": others}],
        "remote_buffers": remote,
        "semaphores": [{"init_value": 0}],
    }


def plan(collective: str, gpus: list[Json], inplace: bool = True) -> Json:
    return {"name": "own", "collective": collective, "protocol": "Simple", "inplace": inplace, "gpus": gpus}


def exchanged(rank: int) -> list[Json]:
    """Two ranks: each has one chunk summed by reading the other's, and writes it there."""
    read = op("rre", [buff("i", rank), buff(0, rank)], [buff("i", rank)], reduce_op="sum")
    put = op("put", [buff("i", rank)], [buff(0, rank)], channel_ids=[0])
    return [sync("signal", 0), sync("wait", 0), {"name": "nop"}, read, put, sync("signal", 0), sync("wait", 0)]


def written(path: Path, made: Json) -> Path:
    path.write_text(json.dumps(made), encoding="utf-8")
    return path


def wrong(path: Path, ranks: int, size: int = 4096) -> int | None:
    config = load_config("single_cube", kind=SystemConfig)
    entry = read_mscclpp(path).fitted(config)
    group, queues = group_of(config, shape_for(config, ranks)), queues_of(read_registry(), entry)
    request = CclRequest(config, group, entry, "f16", queues, check=True)
    made, outcome = row(request, counts_of(request, size, size, 2)[0])
    assert made is not None, outcome.status
    return made.wrong


@pytest.mark.parametrize("size", [4, 5000, 200_000])
def test_reads_and_writes_of_other_ranks(tmp_path: Path, size: int) -> None:
    path = written(tmp_path / "plan.json", plan("allreduce", [gpu(rank, 2, exchanged(rank)) for rank in (0, 1)]))
    assert wrong(path, 2, size) == 0


def test_packets_wait_for_their_data_and_thread_blocks_for_each_other(tmp_path: Path) -> None:
    """Each rank puts all elements into the scratch of the others, and adds what comes: packets, a barrier and a semaphore."""
    ranks = 4
    gpus = []
    for rank in range(ranks):
        puts = [op("ppkt", [buff("i", 0, 2)], [buff(k, 2 * rank, 2)]) for k in range(ranks - 1)]
        came = [buff("s", 2 * one, 2) for one in range(ranks) if one != rank]
        sums = op("repkt", [buff("i", 0, 2), *came], [buff("o", 0, 2)])
        barrier = {"name": "barrier", "barrier_id": 0, "num_threadblocks": 2}
        release, acquire = ({"name": f"sem_{one}", "semaphore_ids": [0]} for one in ("release", "acquire"))
        gpus.append(gpu(rank, ranks, [*puts, barrier, release], [barrier, acquire, sums], sizes=(2, 2, 8), buffers="s"))
    assert wrong(written(tmp_path / "plan.json", plan("allreduce", gpus, inplace=False)), ranks) == 0


def test_an_all_gather_in_place(tmp_path: Path) -> None:
    """`get` reads the block of each other rank where it lies."""
    gpus = []
    for rank in range(4):
        others = [one for one in range(4) if one != rank]
        gets = [op("get", [buff(k, one)], [buff("o", one)]) for k, one in enumerate(others)]
        gpus.append(gpu(rank, 4, [sync("signal", 0, 1, 2), sync("wait", 0, 1, 2), *gets], sizes=(1, 4, 0), buffers="o"))
    assert wrong(written(tmp_path / "plan.json", plan("allgather", gpus)), 4) == 0


def switched(index: int, size: int = 1) -> Json:
    """Chunks of the buffers of all ranks of the switch channel."""
    return {"switch_channel_id": 0, "index": index, "size": size}


def in_switch(rank: int, ranks: int, ops: list[Json], **more: Any) -> Json:
    """A rank with a switch channel to the elements of all, and its own steps between two barriers of signals."""
    others = list(range(ranks - 1))
    ready = [sync("signal", *others), sync("wait", *others)]
    made = gpu(rank, ranks, [*ready, *ops, *ready], sizes=(ranks, ranks, ranks), **more)
    groups = [{"size": ranks, "ranks": list(range(ranks))}]
    made["channels"].append({"channel_type": "switch", "buffer_type": "i", "rank_groups": groups})
    made["threadblocks"][0]["channels"].append({"channel_type": "switch", "channel_ids": [0]})
    return made


def wrong_in_switch(path: Path, ranks: int, size: int) -> int | None:
    keys = [f"system.sips={ranks}", "system.kind=switch", "system.switch.reduce=true"]
    config = load_config("two_sips", keys, kind=SystemConfig)
    entry = read_mscclpp(path).fitted(config)
    group, queues = group_of(config, Shape(ranks, 1, 1)), queues_of(read_registry(), entry)
    request = CclRequest(config, group, entry, "f16", queues, check=True)
    assert entry.unfit(config, group) == ""
    assert "needs switches" in entry.unfit(load_config("two_sips", kind=SystemConfig), group)
    made, outcome = row(request, counts_of(request, size, size, 2)[0])
    assert made is not None, outcome.status
    return made.wrong


def with_reductions(path: Path, *names: str | None) -> Path:
    """The plan of `exchanged` with a reduction for the op of each rank."""
    gpus = []
    for rank, name in enumerate(names):
        ops = exchanged(rank)
        ops[3].pop("reduce_op")
        if name is not None:
            ops[3]["reduce_op"] = name
        gpus.append(gpu(rank, 2, ops))
    return written(path / "plan.json", plan("allreduce", gpus))


def test_the_reduction_of_a_plan(tmp_path: Path) -> None:
    assert read_mscclpp(with_reductions(tmp_path, "max", "max")).redop == "max"
    assert read_mscclpp(with_reductions(tmp_path, None, "sum")).redop == "sum"
    assert read_mscclpp(with_reductions(tmp_path, None, None)).redop is None


@pytest.mark.parametrize(
    ("names", "rule"),
    [
        (("max", "min"), "all ops of a plan must have the same reduction, and another op has min"),
        (("min", None), "an op without reduce_op is a sum, and other ops of the plan have min"),
        ((None, "min"), "an op without reduce_op is a sum, and other ops of the plan have min"),
        (("avg", "avg"), "it must be one of sum, prod, max, min"),
    ],
)
def test_reductions_that_a_plan_cannot_have(tmp_path: Path, names: tuple[str | None, ...], rule: str) -> None:
    with pytest.raises(InputError, match=rule):
        read_mscclpp(with_reductions(tmp_path, *names))


@pytest.mark.parametrize("fused", [True, False])
def test_sums_in_a_switch(tmp_path: Path, fused: bool) -> None:
    """Each rank loads the sum of its chunk from a switch, and stores it at all ranks; in one op, or in two."""
    gpus = []
    for rank in range(3):
        both = [op("glres", [switched(rank)], [switched(rank)], channel_type="switch", reduce_op="sum")]
        load = op("glre", [switched(rank)], [buff("s", rank)], channel_type="switch")
        store = op("gstore", [buff("s", rank)], [switched(rank)], channel_type="switch")
        gpus.append(in_switch(rank, 3, both if fused else [load, store]))
    path = written(tmp_path / "plan.json", plan("allreduce", gpus))
    assert [wrong_in_switch(path, 3, size) for size in (6, 9000)] == [0, 0]


def test_packets_in_a_switch(tmp_path: Path) -> None:
    """Each rank stores packets of its chunk at all ranks, which unpack them."""
    ranks, gpus = 3, []
    for rank in range(ranks):
        local = op("cpkt", [buff("i", 0)], [buff("s", rank)])
        store = op("gstorepkt", [buff("s", rank)], [switched(rank)], channel_type="switch")
        unpack = [op("upkt", [buff("s", one)], [buff("o", one)]) for one in range(ranks)]
        made = in_switch(rank, ranks, [local, store, *unpack])
        made |= {"input_chunks": 1}
        made["channels"][-1]["buffer_type"] = "s"
        gpus.append(made)
    path = written(tmp_path / "plan.json", plan("allgather", gpus, inplace=False))
    assert [wrong_in_switch(path, ranks, size) for size in (6, 9000)] == [0, 0]


def test_a_sum_of_packets_is_kept_as_packets_too(tmp_path: Path) -> None:
    """`recpkt` writes the sum and its packets, which the rank then sends."""
    gpus = []
    for rank in (0, 1):
        other = 1 - rank
        puts = [op("ppkt", [buff("i", other)], [buff(0, rank)])]
        both = op("recpkt", [buff("i", rank), buff("s", other)], [buff("o", rank), buff("s", 2 + rank)])
        send = op("rppkt", [buff("s", 2 + rank)], [buff(0, 2 + rank)])
        unpack = op("upkt", [buff("s", 2 + other)], [buff("o", other)])
        gpus.append(gpu(rank, 2, [*puts, both, send, unpack], buffers="s"))
    assert wrong(written(tmp_path / "plan.json", plan("allreduce", gpus, inplace=False)), 2) == 0


def test_elements_go_to_the_next_rank(tmp_path: Path) -> None:
    gpus = []
    for rank in range(3):
        after = [one for one in range(3) if one != rank].index((rank + 1) % 3)
        put = op("put", [buff("i", 0)], [buff(after, 0)])
        gpus.append(gpu(rank, 3, [sync("signal", 0, 1), sync("wait", 0, 1), put], sizes=(1, 1, 0), buffers="o"))
    assert wrong(written(tmp_path / "plan.json", plan("sendrecv", gpus, inplace=False)), 3) == 0


def test_an_all_to_all_in_place(tmp_path: Path) -> None:
    """Each rank keeps the block for the other rank in its scratch until the other rank has read it."""
    gpus = []
    for rank in (0, 1):
        other = 1 - rank
        keep = op("copy", [buff("i", other)], [buff("s", 0)])
        get = op("get", [buff(0, 0)], [buff("o", other)])
        gpus.append(gpu(rank, 2, [keep, sync("signal", 0), sync("wait", 0), get], sizes=(2, 2, 1), buffers="s"))
    assert wrong(written(tmp_path / "plan.json", plan("alltoall", gpus)), 2) == 0


def changed(rank0: list[Json], rank1: list[Json], **more: Any) -> Json:
    return {**plan("allreduce", [gpu(0, 2, rank0), gpu(1, 2, rank1)]), **more}


@pytest.mark.parametrize(
    ("made", "said"),
    [
        (changed(exchanged(0), exchanged(1)[:3]), "wait waits for what never comes"),
        (changed(exchanged(0), [sync("signal", 0), sync("wait", 0), sync("signal", 0)]), "it is no all_reduce"),
        (changed([op("glres", [], [])], []), "glres must have one src_buff and one dst_buff"),
        (changed([op("glres", [buff("i", 0)], [buff("i", 0)])], []), "glres must have a switch_channel_id"),
        (changed([op("glres", [switched(0)], [switched(0)])], []), "its thread block has no such switch channel"),
        (changed([{"name": "send"}], []), "it must be one of copy"),
        (changed([op("copy", [buff("i", 1, 2)], [buff("o", 0, 2)])], []), "chunks 1 to 2 of i are used"),
        (changed([op("put", [buff("i", 0)], [buff(7, 0)])], []), "there is no such remote buffer"),
        (changed([op("re", [buff("i", 0), buff("i", 1)], [buff(0, 0)])], []), "one dst_buff must be on its own rank"),
        (changed([sync("signal", 3)], []), "its thread block has 1 channels"),
        (changed([], [], collective="fold"), "it must be one of allreduce"),
        (changed([], [], collective=[]), "it must be one of allreduce"),
        (changed([op("copy", [{**buff("i", 0), "type": {}}], [buff("o", 0)])], []), "chunks 0 to 0 of {} are used"),
        ({"collective": "allreduce", "gpus": [{"inputChunks": 1}, {"inputChunks": 1}]}, "this plan has an older format"),
        ({"collective": "allreduce", "gpus": []}, "a plan has 2 to"),
    ],
)
def test_plans_that_are_none_are_refused(tmp_path: Path, made: Json, said: str) -> None:
    with pytest.raises(InputError, match=said):
        read_mscclpp(written(tmp_path / "plan.json", made))


def test_plans_whose_steps_take_too_long_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small file may have steps over all chunks, or thread blocks that wait for each other against their order."""
    monkeypatch.setattr(mscclpp, "MAX_USES", 100)
    copies = [op("copy", [buff("i", 0, 16)], [buff("s", 0, 16)])] * 7
    made = plan("allreduce", [gpu(rank, 2, copies, sizes=(16, 16, 16)) for rank in (0, 1)])
    with pytest.raises(InputError, match="its steps use more than 100 chunks"):
        read_mscclpp(written(tmp_path / "plan.json", made))
    monkeypatch.setattr(mscclpp, "MAX_TURNS", 100)
    acquire, release = ([{"name": f"sem_{what}", "semaphore_ids": [k]} for k in range(41)] for what in ("acquire", "release"))
    turns = [[acquire[k + 1], release[k]] for k in range(40)] + [[release[40]]]
    one = {**gpu(0, 2, *turns), "semaphores": [{"init_value": 0}] * 41}
    with pytest.raises(InputError, match="its thread blocks wait for each other more than 100 times"):
        read_mscclpp(written(tmp_path / "plan.json", plan("allreduce", [one, gpu(1, 2, [])])))
