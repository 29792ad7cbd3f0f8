"""Files of ASTRA-sim, NCCL, MSCCL and Chakra in the wrong argument: the error names the command that reads them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Kbsim

FILES = {
    "net.yml": "topology: [ Ring ]\nnpus_count: [ 8 ]\nbandwidth: [ 50.0 ]\nlatency: [ 500.0 ]\n",
    "sys.json": '{"scheduling-policy": "LIFO", "all-reduce-implementation": ["ring"]}',
    "plan.json": '{"name": "p", "collective": "allreduce", "gpus": []}',
    "topo.xml": '<?xml version="1.0"?>\n<!-- dumped -->\n<system version="1"></system>\n',
    "algo.xml": '<algo name="x" coll="allreduce"></algo>\n',
    "step.0.et": "\x01\x02",
}
READS = {
    "net.yml": "a network file of ASTRA-sim, but {wanted} is expected; "
    "to make a machine from it: kbsim config init MACHINE.yaml --astra-network net.yml",
    "sys.json": "a system file of ASTRA-sim, but {wanted} is expected; "
    "to make a machine from it: kbsim config init MACHINE.yaml --astra-system sys.json",
    "plan.json": "an execution plan of MSCCL++, but {wanted} is expected; "
    "to run the plan on a machine: kbsim ccl run --msccl plan.json -c MACHINE",
    "topo.xml": "a topology file of NCCL, but {wanted} is expected; "
    "to make a machine from it: kbsim config init MACHINE.yaml --nccl-topology topo.xml",
    "algo.xml": "an algorithm of MSCCL, but {wanted} is expected; "
    "to run the algorithm on a machine: kbsim ccl run --msccl algo.xml -c MACHINE",
    "step.0.et": "a Chakra trace, but {wanted} is expected; "
    "to replay all ranks of the trace: kbsim ccl replay step -c MACHINE",
}


def refused(kbsim: Kbsim, name: str, *words: str) -> str:
    Path(name).write_text(FILES[name], encoding="utf-8")
    found = kbsim(*words)
    assert (found.code, found.out) == (2, ""), found.err
    return found.err


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize(
    ("words", "wanted"),
    [
        (("config", "check", "{}"), "a machine"),
        (("ccl", "run", "all_reduce", "-b", "1K", "-c", "{}"), "a machine"),
        (("sweep", "run", "{}"), "a sweep"),
        (("llm", "--model", "{}"), "a language model"),
        (("ccl", "run", "all_reduce", "-b", "1K", "--ccl", "{}"), "a file of algorithms"),
        (("run", "{}"), "a program"),
        (("program", "check", "{}"), "a program"),
    ],
)
def test_the_error_names_the_command_that_reads_the_file(
    kbsim: Kbsim, name: str, words: tuple[str, ...], wanted: str
) -> None:
    said = refused(kbsim, name, *(one.replace("{}", name) for one in words))
    assert said == f"error: {name}: this is {READS[name].format(wanted=wanted)}\n"


@pytest.mark.parametrize(
    ("option", "own", "wanted"),
    [
        ("--nccl-topology", "topo.xml", "a topology file of NCCL"),
        ("--astra-network", "net.yml", "a network file of ASTRA-sim"),
        ("--astra-system", "sys.json", "a system file of ASTRA-sim"),
    ],
)
@pytest.mark.parametrize("name", FILES)
def test_options_of_config_init_know_each_others_files(kbsim: Kbsim, option: str, own: str, wanted: str, name: str) -> None:
    if name != own:
        said = refused(kbsim, name, "config", "init", option, name)
        assert said == f"error: {name}: this is {READS[name].format(wanted=wanted)}\n"


@pytest.mark.parametrize(
    ("name", "wanted"), [("topo.xml", "an algorithm of MSCCL"), ("sys.json", "an execution plan of MSCCL++")]
)
def test_msccl_knows_files_that_are_no_algorithm(kbsim: Kbsim, name: str, wanted: str) -> None:
    said = refused(kbsim, name, "ccl", "run", "--msccl", name)
    assert said == f"error: {name}: this is {READS[name].format(wanted=wanted)}\n"


def test_one_file_of_a_chakra_trace(kbsim: Kbsim) -> None:
    assert "give the prefix of all ranks: step\n" in refused(kbsim, "step.0.et", "ccl", "replay", "step.0.et")


@pytest.mark.parametrize("part", ["<!--a-->", "<?a?>", "<!a>", "<!--", "<!--a", "<?", " "])
def test_a_large_file_of_comments_without_an_element_is_refused(part: str, kbsim: Kbsim) -> None:
    """It is read once: an expression with several readings of a comment would not end."""
    Path("topo.xml").write_text(part * 100_000, encoding="utf-8")
    found = kbsim("config", "check", "topo.xml")
    assert (found.code, found.out) == (2, "") and found.err.startswith("error: topo.xml")


@pytest.mark.parametrize("name", FILES)
def test_onnx_knows_files_that_are_no_model(kbsim: Kbsim, name: str) -> None:
    pytest.importorskip("onnx")
    said = refused(kbsim, name, "onnx", name)
    assert said == f"error: {name}: this is {READS[name].format(wanted='an ONNX model')}\n"


def test_an_onnx_model_is_no_program(kbsim: Kbsim) -> None:
    Path("net.onnx").write_bytes(b"\x08\x07")
    found = kbsim("program", "check", "net.onnx")
    said = "error: net.onnx: this is an ONNX model, but a program is expected; to run the model: kbsim onnx net.onnx\n"
    assert (found.code, found.out, found.err) == (2, "", said)
