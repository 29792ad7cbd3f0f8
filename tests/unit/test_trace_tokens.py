"""Tokens of a trace, with figures computed by hand: loads, one after the other, of 16 bytes a cycle."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction as F
from pathlib import Path
from typing import Any

from kernbench.cmdq import load_program
from kernbench.config import load_config
from kernbench.sim_engine.machine import Machine
from kernbench.trace import metrics, open_trace
from kernbench.trace.metric.figures import Tokens
from kernbench.trace.writer import TraceFile

#: Position, length of the sequence and bytes of each load. The prompt's pass: three rows of the embedding [0, 12), a layer
#: [12, 52), the LM head [52, 72). A pass each for positions 3 [72, 136) and 4 [136, 220).
PROMPT = [(0, 3, 64), (1, 3, 64), (2, 3, 64), (0, 3, 640), (2, 3, 320)]
DECODED = [(3, 4, 64), (3, 4, 640), (3, 4, 320), (4, 5, 64), (4, 5, 960), (4, 5, 320)]


def tokens_of(folder: Path, loads: Sequence[tuple[int, int | None, int]], **machine: Any) -> Tokens:
    cmdq: list[dict[str, Any]] = []
    for number, (position, length, size) in enumerate(loads):
        load = {"opcode": "DMA_LOAD_TILE", "tensor_role": "weight", "qbits": 8, "dram_addr": 0, "num_elements": size}
        load |= {"spm_bank": 0, "spm_offset": 0, "token_idx": position, "deps_before": [number - 1] if number else []}
        cmdq.append(load | ({} if length is None else {"seq_len": length}))
    run = Machine(load_config(machine), load_program({"metadata": {"version": "1.0"}, "cmdq": cmdq}))
    with TraceFile(folder / "t.jsonl") as file:
        tracing = run.trace(file)
        run.run()
        tracing.close()
    return metrics(open_trace(folder / "t.jsonl")).tokens


def gaps(tokens: Tokens) -> tuple[int, int, int] | None:
    return None if tokens.gap is None else (tokens.gap.count, tokens.gap.least, tokens.gap.most)


def test_a_prompt_and_two_decoded_tokens(tmp_path: Path) -> None:
    tokens = tokens_of(tmp_path, PROMPT + DECODED)
    assert (tokens.count, tokens.prompt, tokens.ttft, tokens.tpot) == (2, 3, 72, F(220 - 72, 2))
    assert tokens.latency is not None and (tokens.latency.least, tokens.latency.most) == (64, 84)
    assert gaps(tokens) == (2, 64, 84)


def test_a_prompt_alone_has_a_first_token(tmp_path: Path) -> None:
    assert tokens_of(tmp_path, PROMPT) == Tokens(0, 3, 72, None, None, None, {})


def test_decode_alone_has_none(tmp_path: Path) -> None:
    tokens = tokens_of(tmp_path, DECODED)
    assert (tokens.count, tokens.prompt, tokens.ttft, tokens.tpot, gaps(tokens)) == (2, 0, None, F(74), (1, 84, 84))


def test_a_prompt_of_one_position(tmp_path: Path) -> None:
    tokens = tokens_of(tmp_path, [(0, 1, 320), (1, 2, 192), (2, 3, 320)])
    assert (tokens.count, tokens.prompt, tokens.ttft, tokens.tpot) == (2, 1, 20, F(16))


def test_a_prompt_in_two_passes_gives_its_first_token_at_the_end_of_the_second(tmp_path: Path) -> None:
    tokens = tokens_of(tmp_path, [*PROMPT, (3, 5, 64), (4, 5, 64), (5, 6, 64)])
    assert (tokens.count, tokens.prompt, tokens.ttft, tokens.tpot) == (1, 5, 80, F(4))


def test_a_run_that_ends_in_the_prompt_has_no_first_token(tmp_path: Path) -> None:
    tokens = tokens_of(tmp_path, PROMPT + DECODED, max_cycles=60)
    assert tokens == Tokens(0, 2, None, None, None, None, {})


def test_commands_that_say_no_length_are_each_decoded(tmp_path: Path) -> None:
    tokens = tokens_of(tmp_path, [(position, None, size) for position, _, size in DECODED])
    assert (tokens.count, tokens.prompt, tokens.ttft, tokens.tpot) == (2, 0, None, F(74))
