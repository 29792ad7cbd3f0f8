"""The programs of a job on a layout: a set for each stage and size of micro-batch, and the whole job as one program."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import msgspec

from kernbench.cmdq.program import Program
from kernbench.common.errors import InputError
from kernbench.common.json_shapes import counted
from kernbench.common.units import even_parts
from kernbench.config.kinds import as_npu
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig
from kernbench.workloads.blocks.programs import BlockPrograms, programs_of
from kernbench.workloads.hazards import Emitter
from kernbench.workloads.limit import ENDLESS
from kernbench.workloads.llm.dram import LlmDram
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.run import Tally, kept_tallies, run_program
from kernbench.workloads.llm.shards import ShardLocation, alike
from kernbench.workloads.llm.steps import DONE, Job, LlmPrograms, Stage, Step, last_ones
from kernbench.workloads.models import ModelShape
from kernbench.workloads.models.precision import Precision
from kernbench.workloads.parallel.hand_off import STAGING_BYTES, emit_hand_off, hand_off_program
from kernbench.workloads.parallel.layout import Layout, check_layout, cut_layers

TOKEN_BITS = 32  #: bits of the number of a word, which the last stage sends back to the first one
HANDED = kept_tallies(1 << 12, "hand-off")  #: hand-offs without other work, by content


@dataclass(frozen=True, slots=True)
class Micro:
    """A micro-batch in a step."""

    step: Step
    number: int  #: number of the micro-batch
    size: int  #: [sequence]


class ParallelPrograms:
    """A job on a layout of a system. It has the interface of `LlmPrograms` that reports use; the DRAM is that of the fullest
    stage.

    Raises InputError in the same cases as `LlmPrograms`, and for a layout that does not fit the model, the batch or the
    machine. `explains`: the error names layouts that fit.
    """

    def __init__(
        self, model: Model, precision: Precision, config: NpuConfig | SystemConfig, job: Job, layout: Layout, *,
        max_cycles: int | None = None, explains: bool = True,
    ) -> None:  # fmt: skip
        self._explains = explains
        self.layers = job.layers or model.layers
        check_layout(layout, model, config, job.batch, self.layers)
        self.model, self.precision, self.layout, self._config = model, precision, layout, config
        self.job = grid_job(job, layout)
        self.max_cycles = ENDLESS if max_cycles is None else max_cycles
        self.sizes = layout.micro_sizes(job.batch)
        self._made: dict[tuple[int, int], LlmPrograms] = {}
        self.stages = self._cut()
        first = self.stage(0, self.sizes[0])
        self.steps, self.machine, self.target, self.added = first.steps, first.machine, first.target, first.added

    @property
    def shapes(self) -> list[ModelShape]:
        """The layers of a shard, of all stages."""
        return [shape for number in range(self.layout.pp) for shape in self.stage(number, self.sizes[0]).shapes]

    @property
    def places(self) -> list[ShardLocation]:
        """The PEs of the first stage."""
        return self.stage(0, self.sizes[0]).places

    @cached_property
    def dram(self) -> LlmDram:
        """The DRAM of the stage that needs most."""
        return max((self.stage(number, self.sizes[0]).dram for number in range(self.layout.pp)), key=lambda one: one.end)

    def _placed(self) -> None:
        """Raises TooLarge if a stage does not fit."""
        for number in range(self.layout.pp):
            self.stage(number, self.sizes[0])._place()

    def _cut(self) -> list[Stage]:
        """Stages whose weights are as equal as possible; if these stages do not fit the DRAM, stages whose sizes are as equal
        as possible."""
        made = [cut_layers(self.model, self.precision, self.layers, self.layout, by_memory=by) for by in (False, True)]
        for stages in made[: len(made) if made[0] != made[1] else 1]:
            self.stages = stages
            self._made.clear()
            try:
                self._placed()
            except InputError:
                if stages == made[-1]:
                    if self._explains:
                        self._explain()
                    raise
                continue
            return stages
        raise AssertionError

    def _explain(self) -> None:
        """Raises InputError that names layouts that fit."""
        for number in range(self.layout.pp):
            try:
                self.stage(number, self.sizes[0])._place()
            except InputError as error:
                from kernbench.workloads.parallel.fitting import refusal

                raise refusal(self.model, self.precision, self._config, self.job, self.layout, error) from None

    def _in_ranks(self, error: InputError) -> InputError:
        """The error for a number of PEs, in numbers of ranks if the layout has ranks of several PEs."""
        from kernbench.workloads.parallel.fitting import fewer_ranks

        layout, problem = self.layout, error.problems[0]
        if layout.rank_pes == 1 or (problem.field, problem.value) != ("tp", layout.tp):
            return error
        rule = f"{counted(layout.ranks, layout.rank)} of {counted(layout.rank_pes, 'PE')} share each layer, so {problem.rule}"
        rule = rule.replace("so it must", f"so their number of PEs, {layout.tp}, must")
        remedy = "take fewer ranks, or --rank pe"
        if self._explains and (way := fewer_ranks(self.model, self.precision, self._config, self.job, layout)):
            remedy = f"use {way}, which fits"
        return InputError(msgspec.structs.replace(problem, rule=rule, value=layout.ranks, remedy=remedy))

    def stage(self, number: int, size: int, replica: int = 0) -> LlmPrograms:
        """The programs of a stage for micro-batches of this size."""
        key = number, size
        if key not in self._made or replica:
            layout = self.layout
            job = replace(
                self.job, batch=size, cached=layout.replica(self.job.batch), stage=self.stages[number],
                first_pe=layout.first_pe(replica, number), staging=STAGING_BYTES if layout.pp > 1 else 0,
            )  # fmt: skip
            try:
                made = self._planner(number)(self.model, self.precision, self._config, job, max_cycles=self.max_cycles)
            except InputError as error:
                raise self._in_ranks(error) from None
            if replica:
                return made
            self._made[key] = made
        return self._made[key]

    def _planner(self, number: int) -> Callable[..., LlmPrograms]:
        """What makes the programs of a stage. After a search, the planner of the first micro-batch, which is the largest, plans
        all of them: another planner would have the weights at other addresses."""
        first = self._made.get((number, self.sizes[0])) if self.job.search_divisions else None
        return programs_of if first is None else type(first)

    def micros(self, step: Step) -> Iterator[Micro]:
        """The micro-batches of a step, in order."""
        for number, size in enumerate(self.sizes):
            yield Micro(step, number, size)

    def hand_off(self, number: int, micro: Micro) -> Tally:
        """The hand-off from stage `number` to the next one, without other work on its links; the last stage sends the new words
        to the first one."""
        sender, receiver = self.stage(number, micro.size), self.stage((number + 1) % self.layout.pp, micro.size)
        return hand_off_tally(sender, receiver.places, *self.handed(number, micro))

    def handed(self, number: int, micro: Micro) -> tuple[tuple[int, ...], int]:
        """Elements of each PE in a hand-off, and the bits of an element."""
        stage, layout = self.stage(number, micro.size), self.layout
        if number == layout.pp - 1:
            sizes = even_parts(micro.size, layout.sharers)
            return tuple(count for count in sizes for _ in range(layout.stage_pes // layout.sharers)), TOKEN_BITS
        shape = stage.shapes[-1]
        if isinstance(stage, BlockPrograms):
            rows = stage.own_counts(micro.step)
        else:
            rows = [micro.size * micro.step.tokens] * layout.stage_pes
        return tuple(count * shape.hidden for count in rows), shape.activation_bits

    @cached_property
    def _whole_pe(self) -> NpuConfig:
        """A PE with its whole scratchpad."""
        return as_npu(self.target)

    def whole_program(self) -> Program:
        """All steps of all replicas."""
        job = self.job
        return self._joined(self.steps, f"{self.model.name}, {len(self.steps)} steps of {job.batch} x {job.prompt} tokens")

    def phase_program(self, steps: list[Step]) -> Program:
        """Some steps of one phase, for all replicas."""
        return self._joined(steps, f"{self.model.name}, {steps[0].phase} of {self.job.batch} sequences")

    def _joined(self, steps: list[Step], name: str) -> Program:
        """Every stage processes its micro-batches in order; each micro-batch waits for its hand-off. Phases run in sequence."""
        program = Program(name)
        barrier: list[int] = []
        for phase in dict.fromkeys(step.phase for step in steps):
            ends: list[int] = []
            for replica in range(self.layout.copies):
                ends += self._replica(program, replica, [step for step in steps if step.phase == phase], barrier)
            common = {"model_name": self.model.name, "precision": self.shapes[0].precision}
            barrier = [program.nop(marker=DONE[phase], deps_before=sorted(set(ends)), **common)]
        program.end(model_name=self.model.name)
        return program

    def _replica(self, program: Program, replica: int, steps: list[Step], start: list[int]) -> list[int]:
        """Emits a phase of one replica; returns the ids of its last entries."""
        layout = self.layout
        numbers, sizes = range(layout.pp), dict.fromkeys(self.sizes)
        made = {(number, size): self.stage(number, size, replica) for number in numbers for size in sizes}
        free: list[list[int]] = [list(start) for _ in range(layout.pp)]
        way: list[list[int]] = [list(start) for _ in range(layout.pp)]
        back: dict[int, list[int]] = {}
        for step in steps:
            for micro in self.micros(step):
                ready = back.get(micro.number, start)
                for number in range(layout.pp):
                    stage = made[number, micro.size]
                    ended = free[number] = self._segments(program, stage, micro.step, [*ready, *free[number]])
                    if layout.pp > 1:
                        peer = made[(number + 1) % layout.pp, micro.size]
                        ready = way[number] = self._hand_off(program, number, micro, (stage, peer), [*ended, *way[number]])
                back[micro.number] = ready
                common = stage.common_fields(micro.step)
                token = micro.step.context + micro.step.tokens - 1
                program.nop(token=micro.number, token_idx=token, deps_before=free[-1], **common)
        return [one for ids in (*free, *way) for one in ids]

    def _segments(self, program: Program, stage: LlmPrograms, step: Step, after: list[int]) -> list[int]:
        """Emits all segments of a stage in sequence; returns the ids of the last entries."""
        for segment in stage.segments(step):
            begin = len(program)
            gate = program.nop(deps_before=sorted(set(after)), **stage.common_fields(step))
            stage.emit(segment, program)
            _gated(program, begin + 1, gate)
            after = last_ones(program, begin)
        return after

    def _hand_off(
        self, program: Program, number: int, micro: Micro, ways: tuple[LlmPrograms, LlmPrograms], after: list[int]
    ) -> list[int]:
        begin, sender, receiver = len(program), *ways
        common = sender.common_fields(micro.step)
        gate = program.nop(deps_before=sorted(set(after)), **common)
        emits = [
            [Emitter("", self._whole_pe, common, program, one.node, one.dram_base) for one in some.places]
            for some in (sender, receiver)
        ]
        elements, bits = self.handed(number, micro)
        source, target = sender.dram.input_of(sender.layers), receiver.dram.input_of(0)
        meta: dict[str, Any] = {"phase": "HAND_OFF", "layer_id": sender.stage.first + sender.layers}
        emit_hand_off(emits[0], emits[1], self._whole_pe, elements, bits, source, target, meta)
        _gated(program, begin + 1, gate)
        return last_ones(program, begin)


def grid_job(job: Job, layout: Layout) -> Job:
    """The job with the PEs of one stage."""
    return replace(job, shards=layout.tp, contexts=layout.cp, splits_rows=layout.sp, sharers=layout.sharers)


def hand_off_tally(sender: LlmPrograms, receivers: Sequence[ShardLocation], elements: int | Sequence[int], bits: int) -> Tally:
    """A hand-off from the PEs of one stage to those of another, without other work on its links. `elements`: the elements of
    all PEs, or a number for each PE."""
    elements = (elements,) * len(receivers) if isinstance(elements, int) else tuple(elements)
    machine, both = as_npu(sender.target), alike(sender.target, [*sender.places, *receivers])
    common = {"model_name": sender.model.name, "precision": sender.shapes[0].precision}

    def simulated() -> Tally:
        return run_program(hand_off_program(machine, sender.places, receivers, elements, bits, common), sender)

    return HANDED.of(sender.target, (sender.target.digest(), both, elements, bits), simulated)


def _gated(program: Program, first: int, gate: int) -> None:
    """Entries from index `first` on that wait for no entry then wait for the barrier."""
    for at in range(first, len(program.entries)):
        entry = program.entries[at]
        if not entry.deps_before:
            program.entries[at] = msgspec.structs.replace(entry, deps_before=(gate,))
