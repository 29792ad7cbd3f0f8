"""A run of a language model as steps and segments, and the programs of these.

A step is one pass through the model, for the prompt or for one more token of every sequence. A segment is the embedding, a
layer, or the LM head. It starts when the previous segment has ended, so equal segments take equal cycles.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterator
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Literal

import msgspec

from kernbench.cmdq.program import Program
from kernbench.cmdq.shared_plans import layout_of
from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.common.units import ceil_div
from kernbench.config.kinds import as_npu, beyond_scratchpad
from kernbench.config.schema import KvLayout, NpuConfig
from kernbench.config.section_texts import texts_of
from kernbench.config.system import SystemConfig
from kernbench.sim_engine.run.stops import walk_of
from kernbench.workloads.blocks.batch import Batch, Sequences
from kernbench.workloads.blocks.meetings import Seat
from kernbench.workloads.blocks.shape import BlockShape
from kernbench.workloads.hazards import Emitter
from kernbench.workloads.layer.decoder import emit_layer
from kernbench.workloads.layer.dram import LayerDram, Room
from kernbench.workloads.layer.layer import Layer
from kernbench.workloads.limit import ENDLESS
from kernbench.workloads.llm.dram import (
    Ends,
    LlmDram,
    TooLarge,
    embedding_places,
    emit_embedding,
    emit_head,
    head_places,
    machine_with_layout,
    place_model,
)
from kernbench.workloads.llm.emitted import Emitted, choice_of, emitted, run_content
from kernbench.workloads.llm.exchanges import EXCHANGES, ON_GRIDS, Exchange, Sent, exchange_of, exchange_program
from kernbench.workloads.llm.known import Kept, Known, digest_of
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.reductions import ALGORITHMS, REDUCTIONS, Reduction, all_reduce, reduction_program
from kernbench.workloads.llm.shards import alike, shard_locations, shard_of
from kernbench.workloads.models import ModelShape
from kernbench.workloads.models.precision import Precision
from kernbench.workloads.planner import LayerPlan, Sums, plan_layer
from kernbench.workloads.routing import EVEN, Routing

Phase = Literal["prefill", "decode"]
PHASES: tuple[Phase, ...] = ("prefill", "decode")
PLANS = Known[LayerPlan](1 << 12)  #: plans of layers, by shape, PE and step
PLANNED = ("dma", "dram", "spm", "te", "ve", "kv_layouts")  #: sections of a PE on which plans depend
PLACED = Known[LlmDram](1 << 9)  #: addresses, by the regions that are placed
REDUCED = Kept[int](1 << 12, "reduction", int)  #: cycles of reductions without other work, by content
# the latest keys (model, precision and part), with their layers
_SHAPES: deque[tuple[Model, Any, list[ModelShape]]] = deque(maxlen=8)
DONE = {"prefill": "PREFILL_DONE", "decode": "DECODE_DONE"}  #: markers after the last step of each phase


@dataclass(frozen=True, slots=True)
class Step:
    """`tokens` new tokens after `context` earlier ones, in each sequence."""

    phase: Phase
    tokens: int
    context: int
    number: int = 0  #: number of the batch, if a step has several


@dataclass(frozen=True, slots=True)
class Stage:
    """The part of a pipeline stage: `count` layers from `first` on, and possibly the embedding or the LM head."""

    first: int
    count: int
    embedding: bool = True
    head: bool = True


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a step. Segments with the same `key` take the same cycles."""

    step: Step
    kind: Literal["source", "encoder", "embedding", "layer", "head", "draft"]  #: `source`: the work before an encoder
    #: number of the layer in its stage or in the encoder; 0 for the embedding, the number of layers for the LM head. Of MTP
    layer: int
    #: block d, `layers + d`, and `layers + 1 + d` of the embedding before it and the LM head behind it
    shape: ModelShape
    #: the place of a layer among equal layers whose rows are in halves; empty for a layer by itself
    halves: Literal["", "first", "middle", "last"] = ""

    @property
    def key(self) -> tuple[Step, str, ModelShape, str]:
        """The values on which its cycles depend."""
        return self.step, self.kind, self.shape, self.halves


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """The request: a prompt of `prompt` tokens, then `tokens` decoded tokens, for `batch` sequences.

    `reduction`: the algorithm with which shards add partial sums. `layers`: the number of the model's layers that run, from the
    first on. `page_tokens`: [token] size of a page of the KV cache, 0 for no pages. `shards`: the number of PEs of a system
    that share the model. `routing`: for a mixture, the experts that process each token.
    """

    prompt: int
    tokens: int
    batch: int = 1
    layers: int | None = None
    phases: tuple[Phase, ...] = PHASES
    page_tokens: int = 0
    shards: int = 1
    reduction: Reduction = "direct"
    routing: Routing = EVEN
    expert_parallel: bool = False  #: whether shards have whole experts instead of a share of each
    prefetch_experts: bool = False  #: whether the weights of all experts are loaded without waiting for the router
    search_divisions: bool = False  #: whether the planner searches for the fastest division of layers over several PEs
    predicting: bool = False  #: whether each step also runs the blocks that predict further tokens (MTP)
    stage: Stage | None = None  #: the part of the model on these PEs; None for all of it
    first_pe: int = 0  #: the PE of the first shard
    staging: int = 0  #: [byte] of the scratchpad that is reserved for hand-offs between stages; layers do not use it
    #: [token] of each sequence that an encoder reads; 0 for the number of the model's encoder, or else `prompt`
    source: int = 0
    cached: int = 0  #: sequences for which the KV cache has room, if a step runs fewer; 0 for `batch`
    contexts: int = 1  #: ranks that share the tokens of each sequence (context parallelism)
    splits_rows: bool = False  #: whether shards have their own rows between products (sequence parallelism)
    sharers: int = 1  #: replicas of the batch that share experts; `batch` counts the sequences of all of them
    omitted: tuple[str, ...] = ()  #: collectives that are left out, to show their cost

    @property
    def sequences(self) -> int:
        """The number of sequences for which the KV cache has room."""
        return ceil_div(max(self.cached, self.batch), self.sharers)

    @property
    def groups(self) -> int:
        """The number of groups of shards that run a layer: ranks of a context, or replicas that share experts."""
        return self.contexts * self.sharers

    @property
    def head_parts(self) -> int:
        """The number of PEs that share the words of the LM head."""
        return self.shards * self.contexts

    def steps(self) -> list[Step]:
        """The passes through the model, in order."""
        found = [Step("prefill", self.prompt, 0)] if "prefill" in self.phases else []
        if "decode" in self.phases:
            found += [Step("decode", 1, self.prompt + i) for i in range(self.tokens)]
        return found


@dataclass(frozen=True, slots=True)
class ComparedPlanners:
    """The cycles of a job that both planners can plan; the last step of a phase stands for all of its steps."""

    whole: int  #: [cycle] with the planner of layers
    divided: int | None  #: [cycle] with layers that are lowered part by part; None if that is not possible
    refusal: str = ""  #: why it is not possible

    @property
    def divided_is_faster(self) -> bool:
        """Whether layers are lowered part by part."""
        return self.divided is not None and self.divided < self.whole


class LlmPrograms:
    """The programs of a job on an NPU, or on PEs of a system.

    `machine`: the NPU, or one PE as an NPU, for which a part is planned; `target`: the machine that runs. `added`: the KV
    layout that was added to both if the machine had none. `max_cycles`: the limit for all steps; None for no limit, even if the
    machine file has one for programs.

    Raises InputError if the numbers are not valid, a layer does not fit the scratchpad, or the model does not fit the DRAM.
    """

    shares: ClassVar[bool] = True  #: whether `emitted` names all inputs on which its programs depend

    def __init__(
        self, model: Model, precision: Precision, config: NpuConfig | SystemConfig, job: Job, *, max_cycles: int | None = None
    ) -> None:
        _check(model, job)
        precision.check_layers(model.layers, model.name)
        self.places = shard_locations(config, job.shards * job.groups, job.first_pe)
        self.model, self.precision, self.job, self._given = model, precision, job, config
        self.stage = job.stage or Stage(0, job.layers or model.layers)
        self.layers = self.stage.count
        self.steps = job.steps()
        self.positions = max(step.context + step.tokens for step in self.steps)
        self.added: KvLayout | None
        machine, self.added = machine_with_layout(as_npu(config), model, self.positions, job.page_tokens)
        self.max_cycles = ENDLESS if max_cycles is None else max_cycles
        endless = {"max_cycles": self.max_cycles, "kv_layouts": machine.kv_layouts}
        self.machine: NpuConfig = with_staging(machine, job.staging).model_copy(update=endless)
        self.target: NpuConfig | SystemConfig = config.model_copy(update=endless)
        self.reduced: list[Sent] = []  #: collectives that were lowered so far
        self.on_compared: Callable[[], None] | None = None  #: called after each simulation of a search for a plan
        self.compared: ComparedPlanners | None = None  #: if the job asks for a search, and both planners could plan it
        self._plans: dict[tuple[ModelShape, Step], LayerPlan] = {}
        self.shapes = self._made_shapes()

    def _made_shapes(self) -> list[ModelShape]:
        """The layers of a shard; points of a sweep that differ only in their machines share them."""
        how = self.precision, self.job.shards, self.numbers
        for model, known, shapes in tuple(_SHAPES):
            if model is self.model and known == how:
                return list(shapes)
        made = [shard_of(self.model.layer(i, self.precision), self.job.shards) for i in self.numbers]
        _SHAPES.appendleft((self.model, how, made))
        return list(made)

    @property
    def kept(self) -> int:
        """[token] The largest number of tokens of a sequence in the cache of a PE."""
        return self.positions

    @property
    def numbers(self) -> range:
        """The numbers of the layers that run."""
        return range(self.stage.first, self.stage.first + self.stage.count)

    def encoder_shapes(self, step: Step) -> list[BlockShape]:
        """The layers of an encoder that a step runs."""
        return []

    def draft_shapes(self) -> list[BlockShape]:
        """The blocks that predict further tokens, as far as the job runs them."""
        return []

    def batch_of(self, step: Step) -> Batch:
        """The sequences of a step."""
        return Batch((Sequences(step.tokens, step.context, self.job.batch),))

    def plan(self, shape: ModelShape, step: Step) -> LayerPlan:
        """The plan of a layer of this shape in a step."""
        key = shape, step
        if key not in self._plans:
            how = shape, step.tokens, step.context, self.job.batch, self.job.page_tokens
            summed = self.sums_of(shape)
            sums = None if summed is None else (self._machine_content, self.job.reduction)
            self._plans[key] = PLANS.get(
                (self._planned_for, sums, *how), lambda: plan_layer(shape, self.machine, *how[1:], summed)
            )
        return self._plans[key]

    def sums_of(self, shape: ModelShape) -> Sums | None:
        """The simulated cycles of an all-reduce of a number of elements, for plans of shards on several SIPs: the links between
        SIPs are slower than DRAM. None where plans need no such cycles."""
        places = [naming.parse_pe(place.node) for place in self.places if place.node is not None]
        if len({sip for sip, _, _ in places}) < 2 or not self._alike_everywhere or self.job.reduction == "none":
            return None
        return lambda elements: self.reduction_cycles(
            elements, shape.activation_bits, self._reduction(elements, shape.activation_bits)
        )

    @cached_property
    def _planned_for(self) -> Hashable:
        """The values of the PE on which plans depend."""
        return texts_of(self.machine, PLANNED)

    @cached_property
    def dram(self) -> LlmDram:
        """The addresses of all regions."""
        try:
            return self._place()
        except TooLarge as error:
            from kernbench.workloads.llm.fitting import what_fits

            remedy = what_fits(self.model, self.precision, self._given, self.job, error.need, self._would_fit)
            raise InputError(msgspec.structs.replace(error.problem, remedy=remedy or error.problem.remedy)) from None

    @property
    def is_held(self) -> bool:
        """Whether the DRAM holds the model."""
        try:
            self._place()
        except TooLarge:
            return False
        return True

    def _place(self) -> LlmDram:
        job = self.job
        room = Room(0, 0, 0, 0, self.positions, job.sequences, False, job.page_tokens)
        rows = max(step.tokens for step in self.steps) * job.batch
        ends = self.stage.embedding, ceil_div(self.model.vocab, job.shards) if self.stage.head else 0
        if not self.shares:
            return self._place_all(rows, room, ends)
        model, of = self.model, self.precision.role
        words = model.vocab, model.tied, model.shape.hidden, of("embedding"), of("lm_head"), model.name
        plans = tuple(choice_of(plan) for shape in dict.fromkeys(self.shapes) for plan in self._plans_of(shape))
        key = layout_of(self.machine), tuple(self.shapes), plans, rows, room, ends, words
        return PLACED.get(key, lambda: self._place_all(rows, room, ends))

    def _place_all(self, rows: int, room: Room, ends: tuple[bool, int]) -> LlmDram:
        return place_model(self.model, self.precision, self.machine, self._plans_of, rows, room, self.shapes, ends)

    def _would_fit(self, precision: Precision, config: NpuConfig | SystemConfig, job: Job) -> bool:
        """Whether the model would fit with these fields of the job."""
        try:
            LlmPrograms(self.model, precision, config, job, max_cycles=self.max_cycles)._place()
        except InputError:
            return False
        return True

    def _plans_of(self, shape: ModelShape) -> list[LayerPlan]:
        return [self.plan(shape, step) for step in self.steps]

    def segments(self, step: Step) -> Iterator[Segment]:
        """The segments of a step, in order."""
        if self.stage.embedding:
            yield Segment(step, "embedding", 0, self.shapes[0])
        for number, shape in enumerate(self.shapes):
            yield Segment(step, "layer", number, shape)
        if self.stage.head:
            yield Segment(step, "head", self.layers, self.shapes[-1])

    def content(self, segment: Segment) -> Hashable:
        """The values on which the cycles of a segment depend: segments with equal contents take equal cycles in all jobs."""
        return self._machine_content, *self._work(segment)

    def _work(self, segment: Segment) -> tuple[Hashable, ...]:
        """The work of a segment, independent of the machine."""
        job, step, batch = self.job, segment.step, self.batch_of(segment.step)
        rows = batch.groups[0].tokens if len(batch.groups) == 1 else 1
        work: Hashable = (rows, batch.sequences)  # the work of the LM head
        if segment.kind == "embedding":
            work = batch.groups[0].tokens, batch.tokens, batch.sequences, step.context
        elif segment.kind in ("layer", "draft"):
            experts = job.routing, job.expert_parallel, job.prefetch_experts, job.search_divisions
            work = batch, self.positions, job.sequences, job.page_tokens, job.reduction, segment.halves, *experts
        elif segment.kind in ("source", "encoder"):
            stack = self.model.description.encoder if self.model.description is not None else None
            work = job.batch, job.sequences, job.reduction, stack.convolutions if stack is not None else ()
        ends = () if segment.kind in ("layer", "draft") else (self.model.vocab, self.model.final_softcap, self._widths)
        grid = (job.batch, job.contexts, job.splits_rows, job.sharers, job.reduction, job.omitted, job.prompt, step)
        shared = job.groups > 1 or job.splits_rows
        return type(self).__name__, segment.kind, segment.shape, work, ends, grid if shared else ()

    @property
    def _limits(self) -> Hashable:
        """The values of the machine that this job sets."""
        return self.max_cycles, self.target.kv_layouts

    @cached_property
    def _widths(self) -> tuple[int, int]:
        """[bit] of a word in the embedding and in the LM head."""
        return self.dram.embedding.bits, self.dram.head.bits

    @cached_property
    def _machine_content(self) -> Hashable:
        """The machine, its PEs, and the addresses of rows and caches if addresses affect cycles."""
        alikes = self.job.staging, alike(self.target, self.places), self._addresses
        return walk_of(None), digest_of(self._given), self._limits, *alikes

    @cached_property
    def _addresses(self) -> str | None:
        """Addresses if they affect cycles; None on other machines, where each region begins at the first channel."""
        return None if self._alike_everywhere else repr(self.dram)

    @property
    def _alike_everywhere(self) -> bool:
        """Whether cycles do not depend on addresses."""
        memory = as_npu(self.target).dram
        return memory.row_buffer is None and memory.controller is None and self._given.cache is None

    def reduction_of(self, elements: int, bits: int) -> Reduction:
        """The algorithm of a reduction of this number of elements; with `auto`, the one with the fewest cycles, and the first
        of equal ones."""
        found = self._reduction(elements, bits)
        self.reduced.append(Sent("all-reduce", found, self.job.shards, elements, bits))
        return found

    def _reduction(self, elements: int, bits: int) -> Reduction:
        if self.job.reduction != "auto":
            return self.job.reduction
        return min(ALGORITHMS, key=lambda algorithm: self.reduction_cycles(elements, bits, algorithm))

    def exchange(self, sent: Sent) -> Exchange | None:
        """The algorithm of a collective other than an all-reduce; with `auto`, the one with the fewest cycles when it runs
        without other work. None: the collective is left out."""
        if sent.name in self.job.omitted:
            return None
        algorithm = exchange_of(self.job.reduction)
        if algorithm == "auto":
            able = [one for one in EXCHANGES if one != "torus" or sent.name in ON_GRIDS]
            tried = {one: self.collective_cycles(replace(sent, algorithm=one)) for one in able}
            found = min(able, key=lambda one: tried[one])
        elif algorithm == "ring" or (algorithm == "torus" and sent.name in ON_GRIDS):
            found = algorithm
        else:
            found = "direct"
        if isinstance(sent.sizes, tuple) and len(sent.sizes) > 1:  # an all-to-all and a broadcast have no ring algorithm
            found = "direct"
        self.reduced.append(replace(sent, algorithm=found))
        return found

    def group_reduction(self, elements: int, bits: int) -> Reduction | None:
        """The algorithm of an all-reduce between groups; None: the all-reduce is left out."""
        sent = Sent("softmax all-reduce", "direct", self.job.groups, elements, bits, "groups")
        if sent.name in self.job.omitted:
            return None
        found: Reduction = self.job.reduction
        if found == "auto":
            found = min(ALGORITHMS, key=lambda algorithm: self.collective_cycles(replace(sent, algorithm=algorithm)))
        self.reduced.append(replace(sent, algorithm=found))
        return found

    def without_reductions(self) -> LlmPrograms:
        """The same programs without the reductions of shards, to show their cost."""
        changed = copy(self)
        changed.job = replace(self.job, reduction="none")
        return changed

    def without(self, name: str) -> LlmPrograms:
        """The same programs without the collectives of one name, to show their cost."""
        if name == "all-reduce":
            return self.without_reductions()
        changed = copy(self)
        changed.job = replace(self.job, omitted=(name,))
        return changed

    def reduction_cycles(self, elements: int, bits: int, algorithm: Reduction) -> int:
        """[cycle] of a reduction without other work on the links of the machine."""
        return self.collective_cycles(Sent("all-reduce", algorithm, self.job.shards, elements, bits))

    def collective_cycles(self, sent: Sent) -> int:
        """[cycle] of a collective without other work on the links of the machine."""
        from kernbench.workloads.llm.run import run_program  # imported here because `run` imports this module

        def simulated() -> int:
            common = {"precision": self.shapes[0].precision, "model_name": self.model.name}
            some = [self.places[number] for number in Seat(0, self.job.shards, 0, self.job.groups).among(sent.among)]
            if sent.name in ("all-reduce", "softmax all-reduce"):
                algorithm: Reduction = sent.algorithm  # type: ignore[assignment]  # that of a reduction
                program = reduction_program(self.machine, some, sent.elements, sent.bits, algorithm, common)
            else:
                program = exchange_program(self.machine, some, sent, common)
            return run_program(program, self).cycles

        return REDUCED.of(self.target, (self._machine_content, sent, self.job.shards, self.job.groups), simulated)

    def emitted(self, segment: Segment) -> Emitted | None:
        """The program of a segment, which points of a sweep share; None if it depends on further values."""
        if not self.shares or not isinstance(self.target, NpuConfig):
            return None
        chosen: Hashable
        if segment.kind == "layer":
            chosen = choice_of(self.plan(segment.shape, segment.step))
        elif segment.kind == "head":
            chosen = head_places(self._ends(segment))
        else:
            chosen = embedding_places(self._ends(segment))
        at = self._addresses, None if self._addresses is None else segment.layer
        machine = layout_of(self.machine, size=False)
        return emitted((self._work(segment), chosen, at, machine), lambda: self.segment_program(segment), self.target)

    def run_content(self, program: Emitted) -> Hashable:
        """The values on which the run of a shared program depends."""
        assert isinstance(self.target, NpuConfig)
        return walk_of(None), program.content, run_content(self.target)

    def segment_program(self, segment: Segment) -> Program:
        """One segment alone."""
        program = Program(self._name(segment))
        self.emit(segment, program)
        program.end(**self._fields(segment))
        return program

    def step_program(self, step: Step) -> Program:
        """A whole step, segment after segment."""
        return self._joined([step], f"{self.model.name}, {_step_name(step)}")

    def whole_program(self) -> Program:
        """All steps."""
        job = self.job
        return self._joined(self.steps, f"{self.model.name}, {len(self.steps)} steps of {job.batch} x {job.prompt} tokens")

    def _joined(self, steps: list[Step], name: str) -> Program:
        program = Program(name)
        for index, step in enumerate(steps):
            common: dict[str, object] = {}
            for segment in self.segments(step):
                first = len(program)
                self.emit(segment, program)
                common = self._fields(segment)
                program.barrier(wait_for=last_ones(program, first), **common)
            common["token_idx"] = step.context + step.tokens - 1
            program.nop(token=index, **common)
            if index + 1 == len(steps) or steps[index + 1].phase != step.phase:
                program.nop(marker=DONE[step.phase], **common)
        program.end(model_name=self.model.name)
        return program

    def emit(self, segment: Segment, program: Program) -> None:
        """Append the entries of a segment."""
        step, common = segment.step, self._fields(segment)
        emits = [Emitter("", self.machine, common, program, place.node, place.dram_base) for place in self.places]
        if segment.kind == "layer":
            plan = self.plan(segment.shape, step)
            dram = LayerDram(segment.shape, self.machine, plan, self.dram.room(segment.layer))
            _emit_together([Layer(segment.shape, self.machine, plan, emit, dram) for emit in emits], self.reduction_of)
            return
        for number, emit in enumerate(emits):
            ends = self._ends(segment, number)
            if segment.kind == "embedding":
                emit_embedding(ends, emit)
            else:
                emit_head(ends, emit, self.layers)

    def _ends(self, segment: Segment, number: int = 0) -> Ends:
        """The inputs of the embedding or the LM head of a shard."""
        step, words = segment.step, self.model.vocab
        shared = ceil_div(words, self.job.shards)
        vocab = words if segment.kind == "embedding" else min(shared, words - number * shared)
        cap = self.model.final_softcap
        return Ends(segment.shape, vocab, cap, self.machine, self.dram, step.tokens, step.context, self.job.batch)

    def common_fields(self, step: Step) -> dict[str, object]:
        """Fields of entries between segments."""
        precision = self.shapes[0].precision
        return {"seq_len": step.context + step.tokens, "precision": precision, "model_name": self.model.name}

    def _fields(self, segment: Segment) -> dict[str, object]:
        return {
            "layer_id": self.stage.first + segment.layer,
            "seq_len": segment.step.context + segment.step.tokens,
            "precision": segment.shape.precision,
            "model_name": self.model.name,
        }

    def _name(self, segment: Segment) -> str:
        what = f"layer {self.stage.first + segment.layer}" if segment.kind == "layer" else segment.kind
        return f"{self.model.name} {what}, {_step_name(segment.step)}"


def with_staging(machine: NpuConfig, nbytes: int) -> NpuConfig:
    """A machine with a smaller scratchpad: the end of each bank, or whole banks at the end, are reserved."""
    spm = machine.spm
    if not nbytes:
        return machine
    if spm.map == "blocked":
        fewer = {"num_banks": spm.num_banks - ceil_div(nbytes, spm.bank_size_bytes)}
    else:
        lines = ceil_div(nbytes, spm.num_banks * spm.bank_width_bytes)
        fewer = {"bank_size_bytes": spm.bank_size_bytes - lines * spm.bank_width_bytes}
    if min(fewer.values()) < 1:
        rule = f"hand-offs between stages need {nbytes} bytes of the scratchpad"
        raise InputError(beyond_scratchpad(machine, rule))
    return machine.model_copy(update={"spm": spm.model_copy(update=fewer)})


def _emit_together(layers: list[Layer], algorithm: Callable[[int, int], Reduction]) -> None:
    """Emits the same layer on each shard, with a reduction for each partial sum."""
    running = [emit_layer(layer) for layer in layers]
    while True:
        parts = [next(one, None) for one in running]
        complete = [part for part in parts if part is not None]
        if not complete:
            return
        all_reduce(layers, complete, algorithm(complete[0].elements, layers[0].act_bits))


def _step_name(step: Step) -> str:
    return f"{step.phase} of {step.tokens} token{'s' * (step.tokens > 1)} after {step.context}"


def last_ones(program: Program, first: int) -> list[int]:
    """Ids of the entries from index `first` on for which none of these entries waits."""
    entries = program.entries[first:]
    waited = {other for entry in entries for other in entry.deps_before}
    return [entry.id for entry in entries if entry.id not in waited]


_OPTIONS = {"page_tokens": "page", "shards": "tp"}  #: the name of a field of `Job` in `kbsim llm` and in sweeps


def _check(model: Model, job: Job) -> None:
    """Raises InputError if a number is out of range."""
    if job.predicting and (model.description is None or not model.description.predicting):
        rule = f"{model.name} has no blocks that predict further tokens (num_nextn_predict_layers)"
        raise InputError(Problem("kbsim llm", rule, "mtp", remedy="leave out --mtp"))
    if job.source and (model.description is None or model.description.encoder is None):
        raise InputError(Problem("kbsim llm", f"{model.name} has no encoder that could read them", "source", job.source))
    most = {"layers": model.layers, "prompt": 1 << 24, "tokens": 1 << 16, "batch": 1 << 16, "page_tokens": 1 << 20}
    most["source"] = 1 << 20
    low = {"prompt": 1, "tokens": 1, "batch": 1, "layers": 1, "page_tokens": 0, "shards": 1, "source": 0}
    if job.reduction not in (*REDUCTIONS, "none"):
        raise InputError(Problem("kbsim llm", f"it must be one of {', '.join(REDUCTIONS)}", "reduce", job.reduction))
    for name, least in low.items():
        value = getattr(job, name)
        if value is None:
            continue
        if type(value) is not int or not least <= value <= most.get(name, value):
            far = name in most and type(value) is int and value > most[name]
            allowed = f"from {least} to {most[name]}" if far or name == "layers" else f"of at least {least}"
            rule = f"it must be an integer {allowed}"
            raise InputError(Problem("kbsim llm", rule, _OPTIONS.get(name, name), value))
