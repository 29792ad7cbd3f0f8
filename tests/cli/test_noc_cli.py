"""`kbsim noc replay`: what people and programs see."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Kbsim
from tests.noc_samples import CHIP, barrier, kernel, read

ONE = [
    *kernel(1, 1, read(100, 2, 1, 256), *barrier(104, 170)),
    *kernel(1, 1, read(100, 2, 1, 256), *barrier(104, 190), proc="BRISC"),
]
WAITS = [
    *kernel(1, 1, read(100, 0, 1, 256), *barrier(104, 900), read(950, 2, 1, 64), {"type": "SEMAPHORE_WAIT", "timestamp": 960})
]


@pytest.fixture(autouse=True)
def _traces() -> None:
    Path("toy.json").write_text(json.dumps(CHIP), encoding="utf-8")
    Path("traces").mkdir()
    Path("empty").mkdir()
    for name, events in (("one", ONE), ("waits", WAITS)):
        Path(f"traces/{name}.json").write_text(json.dumps(events), encoding="utf-8")


def test_one_trace_is_told_with_what_waited(kbsim: Kbsim) -> None:
    said = kbsim("noc", "replay", "traces/one.json", "--device", "toy.json", "--slowest", "2", "--mode", "closed")
    assert (said.code, said.err) == (0, "")
    assert (
        said.out
        == """\
toy: cycles of each trace

trace  reads, writes  measured  closed   error
one                2       170     146  -14.1%

waited longest, closed loop  cycles beyond those on an idle network
transfer                     issued  cycles  waited  endpoint  links  sharing
read 256 B 2,1 -> 1,1 NOC_0     100      62      16        16      0        0
read 256 B 2,1 -> 1,1 NOC_0     100      46       0         0      0        0
"""
    )


def test_several_traces_are_told_in_a_table(kbsim: Kbsim) -> None:
    said = kbsim("noc", "replay", "traces", "--device", "toy.json")
    assert said.code == 0
    assert (
        said.out
        == """\
toy: cycles of each trace

trace  reads, writes  measured  recorded   error  closed   error
one                2       170       146  -14.1%     146  -14.1%
waits              2       940       940   +0.0%     306  -67.4%

error at recorded times: mean 7.06%, median 7.06%, largest 14.12% of 2 traces
error closed loop: mean 40.78%, median 40.78%, largest 67.45% of 2 traces
note: waits: 1 x SEMAPHORE_WAIT: it takes as long as it was recorded to take
"""
    )


def test_as_json(kbsim: Kbsim) -> None:
    said = kbsim("noc", "replay", "traces/waits.json", "--device", "toy.json", "--json", "--slowest", "1")
    found = json.loads(said.out)
    assert found["device"] == "toy" and [one["mode"] for one in found["replays"]] == ["recorded", "closed"]
    assert [one["estimated"] for one in found["replays"]] == [940, 306]
    assert set(found["replays"][0]["slowest"][0]) == {"what", "issued", "cycles", "endpoint", "links", "sharing", "delay"}
    assert found["replays"][0]["notes"] == ["1 x SEMAPHORE_WAIT: it takes as long as it was recorded to take"]
    assert kbsim("noc", "replay", "traces/waits.json", "--device", "toy.json", "-q").out == ""


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("traces/none.json",),
            "error: traces/none.json: the file does not exist; did you mean traces/one.json?\n",
        ),
        (("empty",), "error: empty: the folder has no .json file\n"),
        (
            ("traces", "--device", "mars"),
            "error: mars: there is no such device; devices are: wormhole; a file of one ends in .yaml or .json\n",
        ),
    ],
)
def test_a_wrong_replay_is_refused(kbsim: Kbsim, arguments: tuple[str, ...], message: str) -> None:
    said = kbsim("noc", "replay", *arguments)
    assert (said.code, said.out, said.err) == (2, "", message)


def test_a_replay_without_end_is_refused_and_a_long_one_is_not(kbsim: Kbsim) -> None:
    for name, last in (("long", 10**11), ("endless", 10**18)):
        Path(f"{name}.json").write_text(json.dumps([*kernel(1, 1), *kernel(1, 1, read(last, 2, 1, 64))[1:]]), encoding="utf-8")
    assert kbsim("noc", "replay", "long.json", "--device", "toy.json").code == 0
    said = kbsim("noc", "replay", "endless.json", "--device", "toy.json")
    assert (said.code, said.out) == (2, "")
    assert said.err == "error: endless: it takes more than 1099511627776 cycles, the limit of a replay\n"


def test_loads_are_told_in_a_table(kbsim: Kbsim) -> None:
    said = kbsim("noc", "load", "--size", "4x4", "--rates", "0.2", "--cycles", "500", "--warmup", "100", "--links", "1")
    assert (said.code, said.err) == (0, "")
    assert "4x4 mesh, xy routing, 8 VCs of 8 flits; uniform, packets of 1 flit" in said.out
    assert "on an idle network: 16.00 cycles" in said.out and "most loaded links at 0.2" in said.out


def test_loads_as_json(kbsim: Kbsim) -> None:
    said = kbsim(
        "noc", "load", "--size", "4x4", "--kind", "torus", "--routing", "adaptive", "--vcs", "3", "--flits", "4",
        "--pattern", "tornado", "--rates", "0.1,0.3", "--cycles", "500", "--warmup", "100", "--json",
    )  # fmt: skip
    told = json.loads(said.out)
    assert told["network"]["kind"] == "torus" and told["idle_latency"] == 2 + 3 * 4 + 3
    low, high = told["loads"]
    assert told["idle_latency"] <= low["latency"] < high["latency"] and low["drained"] and high["drained"]
    assert told["saturation"] is None


def test_a_saturated_network_is_told(kbsim: Kbsim) -> None:
    options = ("--size", "4x4", "--pattern", "hotspot", "--hotspots", "5", "--rates", "1", "--cycles", "3000", "--warmup", "0")
    said = kbsim("noc", "load", *options)
    assert "saturated: packets are left" in said.out


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--size", "8"], '--size = "8", but it must be COLUMNSxROWS, such as 8x8'),
        (["--rates", "0.1;0.2"], '--rates = "0.1;0.2", but it must be numbers separated by commas'),
        (["--rates", "1.5"], '--rates = "1.5", but it must be above 0 and at most 1: one packet a clock'),
        (["--size", "3x3", "--pattern", "shuffle"], "shuffle permutes bits of node numbers: the nodes must be a power of 2"),
        (["--kind", "torus", "--vcs", "1"], "from 2 to 64: a torus needs one for packets that still have to take"),
        (["--routing", "adaptive", "--vcs", "1"], "from 2 to 64: routing: adaptive needs an escape channel"),
        (["--pattern", "hotspot", "--hotspots", "64"], 'hotspots = "64", but a node is from 0 to 63'),
        (["--flits", "0"], 'flits = "0", but a packet has at least 1 flit'),
    ],
)
def test_loads_that_cannot_be_are_refused(kbsim: Kbsim, options: list[str], message: str) -> None:
    said = kbsim("noc", "load", *options)
    assert said.code == 2 and message in said.err
