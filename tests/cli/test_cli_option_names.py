"""Errors of the library name the command and the option that the user wrote."""

from __future__ import annotations

import pytest

from kernbench import Machine, Program, load_config
from kernbench.cli.mistakes.spoken import spoken
from kernbench.common.errors import InputError, Problem
from tests.cli.conftest import Kbsim


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("llm --w 7", "kbsim llm: --w = 7, but it must be one of 1, 2, 4, 8, 16, 32, 64"),
        ("noc load --rates 2", 'kbsim noc load: --rates = "2.0", but it must be above 0 and at most 1: one packet a clock'),
        ("noc load --vcs 0", 'kbsim noc load: --vcs = "0", but it must be from 1 to 64'),
        ("probe --sizes 0", 'kbsim probe: --sizes = "0", but it must be from 1 byte to below 1 TiB'),
        ("whatif softmax --free gpu", 'kbsim whatif: --free = "gpu", but it must be one of dma, noc, dram, llc, banks, te, ve'),
        ("serve run --request-rate 0", 'kbsim serve run: --request-rate = "0", but it must be a number greater than 0, or inf'),
        ("llm --compare prompt=1k:16k", 'kbsim llm --compare: prompt = "1k:16k", but the values must be whole numbers '
                                        "separated by commas; write --compare prompt=1k,2k,4k"),
        ("compare softmax", "kbsim compare: --config: a comparison needs at least two machines; write kbsim compare TARGET -c "
                            "npu_mobile -c npu_server"),
    ],
)  # fmt: skip
def test_an_error_names_the_option(line: str, said: str, kbsim: Kbsim) -> None:
    found = kbsim(*line.split())
    assert (found.code, found.err) == (2, f"error: {said}\n")
    assert f'"message": "{said}"' in kbsim(*line.split(), "--json").out.replace('\\"', '"')


def test_errors_of_files_and_of_other_values_stay_as_they_are() -> None:
    problems = [
        Problem("npu.yaml:3:5", "it must be at least 1", "te.engines", 0),
        Problem("precision", "it must be even", "an argument of Python", 7),
        Problem("kbsim llm", "it is too large"),
    ]
    assert spoken(InputError(problems), ["llm"]).problems == problems


def test_a_condition_that_is_no_text_is_refused_with_the_remedy() -> None:
    program = Program()
    program.nop()
    with pytest.raises(InputError) as caught:
        Machine(load_config("npu_mobile"), program).run(until=5)  # type: ignore[arg-type]
    rule = "it must be a text: end:ID, start:ID, stall, conflict or cycle:N"
    assert str(caught.value) == f'Machine.run: until = 5, but {rule}; write until="cycle:5"'
