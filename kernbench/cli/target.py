"""TARGET and machine of the command line: `kernbench.api.targets` with warnings on stderr."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from kernbench.cli import output
from kernbench.common.errors import InputError, Problem

if TYPE_CHECKING:
    from kernbench.analysis.case import Case
    from kernbench.cmdq import Program
    from kernbench.config import MachineConfig, NpuConfig, SystemConfig
    from kernbench.runtime_api.bench import Bench


def find_bench(target: str) -> Bench | None:
    """The bench that a TARGET names; None if it names a program or nothing."""
    from kernbench.api.targets import bench_of

    return bench_of(target)


def refuse_bench_options(target: str, **given: bool) -> None:
    """InputError if an option of benches is given with a program."""
    wrong = [f"--{name.replace('_', '-')}" for name, value in given.items() if value]
    if wrong:
        rule = f"{', '.join(wrong)} is only for benches, and {target} is not a bench"
        raise InputError(Problem("kbsim", rule, remedy=f"leave out {', '.join(wrong)}; to list the benches: kbsim bench list"))


def load_target(target: str, config: MachineConfig) -> Program:
    """The program that a TARGET names, for this machine."""
    from kernbench.api.targets import program_of

    return program_of(target, config)


def find_case(target: str, settings: Sequence[str] | None) -> tuple[Case, list[str]]:
    """The TARGET of `compare` and `whatif` with its parameters of `--set`, and the overrides that are left for the machine."""
    from kernbench.api.targets import bench_of, case_of

    bench = bench_of(target)
    if bench is not None:
        from kernbench.runtime_api.bench import split_settings

        params, rest = split_settings(bench.where, bench.params, list(settings or ()))
        return case_of(bench, params), rest
    given = [text.partition("=") for text in settings or ()]
    own = {name.strip(): _value(target, name.strip(), value.strip()) for name, equals, value in given if _is_own(name, equals)}
    return case_of(target, own), ["".join(one) for one in given if not _is_own(*one[:2])]


def note_chips(machines: Iterable[NpuConfig | SystemConfig], *, quiet: bool) -> None:
    """Report on stderr how a language model can run the kernels of a chip, if one of the machines is a chip."""
    if not quiet and any(machine.chip is not None for machine in machines):
        output.note(
            "note: the layers are planned as on an NPU, by default with weights of 4 bits; for the chip's kernels, "
            "host software and 16-bit values: --runtime NAME, such as vllm, trtllm or torch_eager"
        )


def _is_own(name: str, equals: str) -> bool:
    """Whether a setting belongs to the target: a name without a dot that is not a top-level key of a machine."""
    from kernbench.config import NpuConfig, SystemConfig

    keys = {field.alias or key for kind in (NpuConfig, SystemConfig) for key, field in kind.model_fields.items()}
    return bool(equals) and name.strip().isidentifier() and name.strip() not in keys


def _value(target: str, name: str, text: str) -> Any:
    """A value as YAML has it, and counts as `8k` too."""
    from kernbench.cli.values import count_of
    from kernbench.config.places import Fault
    from kernbench.config.yaml_text import parse

    try:
        return count_of(text)
    except ValueError:
        pass
    try:
        return parse(text, 1) if text else ""
    except Fault as fault:
        raise InputError(Problem(target, fault.rule, name, text, fault.remedy)) from None


MAX_WARNINGS = 8


def load_machine(
    source: str, overrides: Sequence[str] | None, *, quiet: bool = False, kind: Any = None, allow_code: Sequence[str] = ()
) -> Any:
    """Load the machine, and print warnings about it on stderr (`note_machine`)."""
    from kernbench.config import load_config

    config: NpuConfig | SystemConfig = load_config(source, overrides or [], kind=kind, allow_code=allow_code)
    note_machine(config, quiet=quiet)
    return config


def note_machine(config: NpuConfig | SystemConfig, *, quiet: bool) -> None:
    """Report on stderr which values set by the user have no effect, and whether the machine is a chip, or a board of chips,
    without calibration.
    """
    from kernbench.config.effects import unused_settings

    if quiet:
        return
    found = unused_settings(config)
    for one in found[:MAX_WARNINGS]:
        output.note(f"warning: {one}")
    if len(found) > MAX_WARNINGS:
        output.note(f"warning: {len(found) - MAX_WARNINGS:,} more values have no effect; to list them, use kbsim config check")
    note_uncalibrated(config)


def note_uncalibrated(config: MachineConfig) -> None:
    """Report on stderr whether the machine is a chip, or a board of chips, without calibration."""
    from kernbench.config.load import chip_of_board, load_config

    board = chip_of_board(config)
    chip = load_config(board).chip if board else getattr(config, "chip", None)
    if chip is not None and not chip.calibrated:
        output.note(f"note: {chip.name} is not calibrated: its rates are the vendor's, and shares of them are assumed")
