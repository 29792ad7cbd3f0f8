"""Programs of models whose layers are lowered part by part: any description, any batch, on one PE or several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from dataclasses import astuple, replace
from functools import cached_property, partial
from itertools import groupby
from math import lcm
from operator import attrgetter, itemgetter
from typing import Literal, cast

from kernbench.cmdq.footprint import bytes_of
from kernbench.cmdq.program import Program
from kernbench.common.errors import InputError, Problem
from kernbench.common.json_shapes import counted
from kernbench.common.units import ceil_div, even_parts, near_size
from kernbench.config.kinds import beyond_dram, beyond_scratchpad
from kernbench.config.schema import NpuConfig
from kernbench.config.system import SystemConfig
from kernbench.sim_engine.machine import Machine
from kernbench.workloads.blocks.batch import Batch, Sequences
from kernbench.workloads.blocks.context import ContextLayer, ContextShare, check_context, most_cached
from kernbench.workloads.blocks.division import EIGHTHS, Blocks, first_blocks, smaller_blocks
from kernbench.workloads.blocks.emitter import LayerEmitter, expert_transfer
from kernbench.workloads.blocks.front import Front, FrontStage, stages_of
from kernbench.workloads.blocks.halves import HalvesLayer
from kernbench.workloads.blocks.layer import BlockLayer
from kernbench.workloads.blocks.meetings import Seat, run_together, seats_of
from kernbench.workloads.blocks.memory import BlockMemory, place_blocks
from kernbench.workloads.blocks.search import PART_ROWS, tried_blocks, tried_halves
from kernbench.workloads.blocks.shape import BlockShape, shard_of_parts, shares_heads
from kernbench.workloads.blocks.shared_experts import SharedExpertsLayer
from kernbench.workloads.blocks.work import layer_work
from kernbench.workloads.hazards import Emitter
from kernbench.workloads.limit import StoppedError
from kernbench.workloads.llm.dram import Ends, LlmDram, Table, TooLarge, emit_embedding, emit_head, head_steps
from kernbench.workloads.llm.exchanges import PHASES, Departure, Sent, send_rows
from kernbench.workloads.llm.known import Kept
from kernbench.workloads.llm.model import Model
from kernbench.workloads.llm.reductions import Rows
from kernbench.workloads.llm.run import step_cycles
from kernbench.workloads.llm.steps import ComparedPlanners, Job, LlmPrograms, Segment, Step
from kernbench.workloads.models import ModelShape
from kernbench.workloads.models.parts import Block, Convolution, Description, Experts, Norm
from kernbench.workloads.models.precision import Precision
from kernbench.workloads.routing import EVEN
from kernbench.workloads.scratchpad import DoesNotFit

HalvesPlace = Literal["", "first", "middle", "last"]
Tried = tuple[tuple[int, ...], ...]  #: values of `Blocks` and cycles of the divisions that were compared; -1: it does not fit
ENDS: tuple[tuple[int, HalvesPlace], ...] = (0, "first"), (1, "middle"), (-1, "last")
LEAST_RUN = len(ENDS)  #: equal layers whose rows can be in halves: the first, others, and the last
WORTH = 1.03  #: rows are in halves only if a layer takes this many times as long as the loads of its weights
SEARCHED = Kept[Tried](1 << 10, "blocks of a layer", Tried)  #: by content


class BlockPrograms(LlmPrograms):
    """The programs of a job, part by part. `batches`: steps of any sequences; without them the steps of the job are run.
    Where replicas share experts, a step has as many batches as replicas, one after another.

    Raises InputError as `LlmPrograms` does, and for a model with an encoder in stages or mixed batches.
    """

    shares = False

    def __init__(
        self, model: Model, precision: Precision, config: NpuConfig | SystemConfig, job: Job, *, max_cycles: int | None = None,
        batches: Sequence[Batch] = (),
    ) -> None:  # fmt: skip
        description = model.description
        if description is None:
            raise InputError(Problem(f"model {model.name}", "this model has no description by parts"))
        if description.encoder is not None and (batches or job.stage is not None):
            if batches:
                raise InputError(Problem(f"model {model.name}", "a model with an encoder cannot run mixed batches"))
            rule = "a model with an encoder runs all of its layers on the same PEs"
            raise InputError(Problem(f"model {model.name}", rule, remedy="take --pp 1 and --dp 1"))
        if job.predicting and job.stage is not None and not (job.stage.embedding and job.stage.head):
            rule = "the blocks that predict further tokens run on the PEs that have the embedding and the LM head"
            raise InputError(Problem("kbsim llm", rule, "mtp", remedy="take --pp 1"))
        if job.prefetch_experts and not any(isinstance(block.ffn, Experts) for block in description.blocks):
            rule = "the model has no experts whose weights could be loaded ahead of the router"
            raise InputError(Problem(f"model {model.name}", rule, remedy="leave out --prefetch-experts"))
        self.description: Description = description
        self._batches = tuple(batches)
        _check_grid(description, model.name, job)
        self.seats = seats_of(job.shards, job.groups)
        self._common: dict[Step, int] = {}
        self.sources = 0  # [token] of a sequence of the encoder
        if description.encoder is not None:
            self.sources = job.source or (description.encoder.positions if description.encoder.convolutions else job.prompt)
        super().__init__(model, precision, config, job, max_cycles=max_cycles)
        if job.splits_rows or job.groups > 1:
            option = "sp" if job.splits_rows else "cp" if job.contexts > 1 else "ep"
            check_rows(description.hidden, self.shapes[0].activation_bits, self.machine, option)
        self._rows: dict[tuple[str, BlockShape, Batch], Blocks] = {}
        self._searches: dict[Hashable, list[tuple[Blocks, int | None]]] = {}  # blocks that were compared, by segment
        self._room_for_more = EIGHTHS  # of the last layer that did not fit
        self._halves: dict[tuple[BlockShape, Batch], Blocks] = {}  # the blocks of layers whose rows are in halves
        self._places: dict[Step, dict[int, HalvesPlace]] = {}  # of each layer of a step among such layers; none without them
        if self._batches:
            starts = range(0, len(self._batches), job.sharers)
            steps = [self._batches[first : first + job.sharers] for first in starts]
            self.steps = [_mixed_step(number, max(some, key=_tokens)) for number, some in enumerate(steps)]
            self.positions = max(batch.positions for batch in self._batches)

    def _made_shapes(self) -> list[ModelShape]:
        """The blocks of the first shard, which have all values of a shape that ends and reports read."""
        return cast("list[ModelShape]", [self._shard(layer, 0) for layer in self.numbers])

    def _shard(self, layer: int, number: int) -> BlockShape:
        bits = self.precision.applied(self.model.shape, layer)
        if bits.head_bits:
            raise InputError(
                Problem(
                    "precision", "a model whose layers are lowered part by part cannot have a separate width for single heads"
                )
            )
        return self._part(self.description.blocks[layer], bits, number)

    def _part(
        self, block: Block, bits: ModelShape, number: int, *, encoder: bool = False, closing: Norm | None = None
    ) -> BlockShape:
        """A share of a layer."""
        whole = BlockShape(
            name=self.model.name, block=block, hidden=self.description.hidden, sources=self.sources, encoder=encoder,
            closing=closing,
            weight_bits=bits.weight_bits, activation_bits=bits.activation_bits, kv_bits=bits.kv_bits, gain_bits=bits.gain_bits,
            matrix_bits=bits.matrix_bits, scales=self.model.stated.scales if uses_scales(self.model, self.precision) else None,
        )  # fmt: skip
        return shard_of_parts(whole, self.job.shards, number, self.job.expert_parallel, self.job.sharers)

    def encoder_shapes(self, step: Step) -> list[BlockShape]:
        """The layers of the encoder, which runs before the first tokens of the decoder."""
        return self._encoder(0) if step.phase == "prefill" else []

    def _encoder(self, number: int) -> list[BlockShape]:
        """The layers of the encoder of one shard, with the bits of the whole model; the last one has the norm behind them."""
        stack = self.description.encoder
        if stack is None:
            return []
        bits = self.precision.applied(self.model.shape, -1)
        blocks = stack.blocks[: self.job.layers]
        found = [self._part(block, bits, number, encoder=True) for block in blocks]
        if stack.final_norm is not None:
            found[-1] = self._part(blocks[-1], bits, number, encoder=True, closing=stack.final_norm)
        return found

    def draft_shapes(self) -> list[BlockShape]:
        """The blocks that predict further tokens, of the first shard."""
        return self._drafts(0)

    def _drafts(self, number: int) -> list[BlockShape]:
        """The blocks that predict further tokens, of one shard, with the bits of the last layer."""
        count = self.description.predicting if self.job.predicting else 0
        bits = self.precision.applied(self.model.shape, self.model.layers - 1)
        return [self._part(self.description.predicting_block, bits, number) for _ in range(count)]

    def segments(self, step: Step) -> Iterator[Segment]:
        """The segments of a step in their order: those of the encoder first, those that predict further tokens last."""
        shapes = cast("list[ModelShape]", self.encoder_shapes(step))
        if shapes:
            yield Segment(step, "source", 0, shapes[0])
        for number, shape in enumerate(shapes):
            yield Segment(step, "encoder", number, shape)
        places = self._places_in_halves(step)
        for segment in super().segments(step):
            yield replace(segment, halves=places[segment.layer]) if segment.kind == "layer" and places else segment
        for number, shape in enumerate(cast("list[ModelShape]", self.draft_shapes())):
            yield Segment(step, "embedding", self.layers + 1 + number, self.shapes[0])
            yield Segment(step, "draft", self.layers + number, shape)
            yield Segment(step, "head", self.layers + 1 + number, self.shapes[-1])

    @property
    def _limits(self) -> Hashable:
        """The settings of the machine for this job; the machine's KV layouts are not used."""
        return self.max_cycles

    def batch_of(self, step: Step) -> Batch:
        """The sequences of a step; of replicas that share experts, those of the largest one."""
        if self.job.sharers > 1:
            return max((self.group_batch(step, group) for group in range(self.job.sharers)), key=_tokens)
        return self._batches[step.number] if self._batches else super().batch_of(step)

    def group_batch(self, step: Step, group: int) -> Batch:
        """The rows of a step that a group of shards has."""
        if self._batches:
            return self._batches[step.number * self.job.sharers + (group if self.job.sharers > 1 else 0)]
        if self.job.sharers > 1:
            return Batch((Sequences(step.tokens, step.context, even_parts(self.job.batch, self.job.sharers)[group]),))
        if self.job.contexts > 1 and step.phase == "prefill":
            return self.share(group).batch(self.job.batch)
        return self.batch_of(step)

    def share(self, group: int) -> ContextShare:
        """The tokens that a rank of a context keeps."""
        return ContextShare(self.job.contexts, group, self.job.prompt)

    @property
    def kept(self) -> int:
        """[token] of a sequence in the cache of a PE, at most."""
        return self.positions if self.job.contexts == 1 else most_cached(self.job.contexts, self.job.prompt, self.positions)

    @property
    def _steps_of_rows(self) -> int:
        """Rows of the largest step on a PE."""
        return max(self.group_batch(step, group).tokens for step in self.steps for group in range(self.job.groups))

    @cached_property
    def _memories(self) -> list[BlockMemory]:
        """The addresses of each layer of a shard. All shards have the same addresses, each in its own memory."""
        self.dram  # noqa: B018  # places them
        return self._placed

    def _place(self) -> LlmDram:
        """Embedding, head, layers, logits, and the activations that layers share."""
        machine, model = self.machine, self.model
        turn = machine.dram.channels * machine.dram.interleave_bytes if machine.dram.channels > 1 else 1
        step = lcm(machine.dma.alignment_bytes, turn)
        end = 0

        def take(nbytes: int) -> int:
            nonlocal end
            at = ceil_div(end, step) * step
            end = at + nbytes
            return at

        bits = self.precision.role("embedding")
        head_bits = self.precision.role("embedding" if model.tied else "lm_head")
        hidden, vocab = self.description.hidden, ceil_div(model.vocab, self.job.head_parts)
        stage = self.stage
        embedding = Table(take(bytes_of(model.vocab * hidden, bits) if stage.embedding else 0), bits)
        words = vocab if stage.head else 0
        both = model.tied and stage.embedding
        head = embedding if both else Table(take(bytes_of(words * hidden, head_bits)), head_bits)
        gain = take(self.shapes[-1].gain_bytes)
        batches = self._batches or [self.batch_of(one) for one in self.steps]
        sequences = max(self.job.sequences, *(one.sequences for one in batches))
        self._placed: list[BlockMemory] = []
        bases = []
        for shape in cast("list[BlockShape]", self.shapes):
            bases.append(take(0))
            _check_pages(shape, self.job.page_tokens, machine)
            transfer = expert_transfer(shape, machine)
            placed = place_blocks(shape, end, step, self.kept, sequences, self.job.page_tokens, transfer)
            end = placed.end
            self._placed.append(placed)
        rows = self._steps_of_rows
        act = self.shapes[-1].activation_bits
        logits = take(bytes_of(sequences * words, act))
        stream = take(bytes_of(rows * hidden, act)), take(bytes_of(rows * hidden, act))
        self._draft_memories: list[tuple[BlockMemory, int]] = []
        for shape in self._drafts(0):
            transfer = expert_transfer(shape, machine)
            placed = place_blocks(shape, take(0), step, self.positions, sequences, self.job.page_tokens, transfer)
            end = placed.end
            self._draft_memories.append((placed, take(shape.gain_bytes)))
        if self._draft_memories:
            wide = bytes_of(rows * hidden, act)
            self._words, self._draft_stream = take(wide), (take(wide), take(wide))
        self._gathered = self._place_gathered(sequences, take)
        self._place_encoder(step, sequences, take)
        self._tables = take(2 * bytes_of(rows * max(self.model.shape.head_dim, 1), act))
        if end > machine.dram.capacity_bytes:
            cache = f"a KV cache for {counted(sequences, 'sequence')} of {self.kept} tokens"
            needs = f"{model.name} with {self.layers} layers and {cache}"
            rule = f"{needs} needs {near_size(end)}"
            remedy = "give the DRAM more capacity, or take fewer bits or fewer --layers"
            raise TooLarge(beyond_dram(machine, rule, remedy), end)
        found = LlmDram(step, embedding, head, gain, logits, bases, stream[0], end, rows, self.positions, sequences)
        found.stream = stream
        return found

    def _place_gathered(self, sequences: int, take: Callable[[int], int]) -> dict[str, int]:
        """Keys and values of all tokens of a prompt, which all layers use in turn; by name."""
        if self.job.contexts == 1 or "prefill" not in self.job.phases:
            return {}
        sizes: dict[str, int] = {}
        for shape in cast("list[BlockShape]", self.shapes):
            for name, heads, dim in shape.cached:
                sizes[name] = max(sizes.get(name, 0), bytes_of(sequences * heads * self.job.prompt * dim, shape.kv_bits))
        return {name: take(nbytes) for name, nbytes in sizes.items()}

    def _place_encoder(self, step: int, sequences: int, take: Callable[[int], int]) -> None:
        """The encoder's layers, the activations between them, and the convolutions before them."""
        self._encoder_memories: list[BlockMemory] = []
        self._front: list[FrontStage] = []
        shapes, stack = self._encoder(0), self.description.encoder
        if stack is None:
            return
        act, hidden = shapes[0].act, self.description.hidden
        self._encoder_stream = take(act(sequences * self.sources * hidden)), take(act(sequences * self.sources * hidden))
        source = 0
        for one, outputs in zip(stack.convolutions, stages_of(stack.convolutions, self.sources), strict=True):
            source = source or take(act(sequences * outputs * one.stride * one.inputs))
            last = outputs == self.sources and one is stack.convolutions[-1]
            target = self._encoder_stream[0] if last else take(act(sequences * outputs * one.outputs))
            weight = take(shapes[0].matrix_bytes(one.weight))
            bias = take(bytes_of(one.outputs, shapes[0].gain_bits))
            self._front.append(FrontStage(one, outputs, source, target, weight, bias))
            source = target
        for shape in shapes:
            base = take(0)
            placed = place_blocks(shape, base, step, self.sources, sequences)
            take(placed.end - base)
            self._encoder_memories.append(placed)

    def _would_fit(self, precision: Precision, config: NpuConfig | SystemConfig, job: Job) -> bool:
        try:
            BlockPrograms(self.model, precision, config, job, batches=self._batches)._place()
        except InputError:
            return False
        return True

    def _work(self, segment: Segment) -> tuple[Hashable, ...]:
        """The work of a segment, on any machine. If replicas share experts, it depends on the batches of all replicas."""
        sharers = self.job.sharers if self._batches else 1
        others = tuple(self.group_batch(segment.step, group) for group in range(sharers)) if sharers > 1 else ()
        return (*super()._work(segment), others)

    def emit(self, segment: Segment, program: Program) -> None:
        """Append the entries of a segment."""
        common, batch = self._fields(segment), self.batch_of(segment.step)
        emits = [Emitter("", self.machine, common, program, place.node, place.dram_base) for place in self.places]
        if segment.kind in ("layer", "draft", "encoder") or (segment.kind == "source" and self._convolutions):
            self._emit_layer(segment, program, emits, batch if segment.kind in ("layer", "draft") else self.source_batch)
            return
        if segment.kind == "source":
            for emit in emits:
                dram = replace(self.dram, stream=self._encoder_stream)
                cap, words = self.model.final_softcap, self.model.vocab
                emit_embedding(Ends(segment.shape, words, cap, self.machine, dram, self.sources, 0, batch.sequences), emit)
            return
        if segment.kind == "head" and (self.job.contexts > 1 or self.job.splits_rows):
            self._emit_shared_head(segment, emits)
            return
        words = self.model.vocab
        shared = ceil_div(words, self.job.shards)
        for seat, emit in zip(self.seats, emits, strict=True):
            batch = self.group_batch(segment.step, seat.group)
            vocab = words if segment.kind == "embedding" else min(shared, words - seat.shard * shared)
            uniform = len(batch.groups) == 1
            tokens, sequences = (batch.groups[0].tokens, batch.sequences) if uniform else (1, batch.sequences)
            if segment.kind == "embedding" and not uniform:
                tokens, sequences = batch.tokens, 1
            ends = Ends(
                segment.shape, vocab, self.model.final_softcap, self.machine, self._ends_dram(segment), tokens,
                segment.step.context, sequences,
            )  # fmt: skip
            if segment.kind == "embedding":
                own = self._own_rows(segment.step, seat)
                emit_embedding(ends if own is None else replace(ends, own=own), emit)
            else:
                emit_head(ends, emit, self.layers)

    def _rows_of(self, step: Step, seat: Seat) -> list[tuple[int, int]]:
        """Sequence and position of all rows of a group, in their order."""
        found: list[tuple[int, int]] = []
        number = 0
        for group in self.group_batch(step, seat.group).groups:
            for _ in range(group.count):
                found += [(number % self.job.batch, group.context + t) for t in range(group.tokens)]
                number += 1
        return found

    def _own_rows(self, step: Step, seat: Seat) -> list[tuple[int, int]] | None:
        """Sequence and position of the rows that a PE has between products; None if it has all rows of its step."""
        if not self.job.splits_rows and (self.job.contexts == 1 or step.phase == "decode"):
            return None
        rows = self._rows_of(step, seat)
        return [rows[at] for at in self._own_numbers(step, seat)]

    def _own_numbers(self, step: Step, seat: Seat) -> list[int]:
        """The numbers of these rows among those of the group."""
        batch = self.group_batch(step, seat.group)
        if not self.job.splits_rows:
            return list(range(batch.tokens))
        found: list[int] = []
        at = 0
        for pieces in batch.blocks(min(self._common_rows(step), batch.tokens)):
            sizes = even_parts(sum(piece.rows for piece in pieces), seat.shards)
            first = at + sum(sizes[: seat.shard])
            found += range(first, first + sizes[seat.shard])
            at += sum(sizes)
        return found

    def own_counts(self, step: Step) -> list[int]:
        """The rows that each PE has between layers."""
        return [len(self._own_numbers(step, seat)) for seat in self.seats]

    def _emit_shared_head(self, segment: Segment, emits: list[Emitter]) -> None:
        """The LM head of PEs that have rows of their own: the last token of each sequence goes to all of them."""
        step, job, words = segment.step, self.job, self.model.vocab
        shared = ceil_div(words, job.head_parts)
        last = step.context + step.tokens - 1
        held = []
        for seat in self.seats:
            rows = self._rows_of(step, seat)
            own = self._own_numbers(step, seat)
            held.append({rows[at][0]: place for place, at in enumerate(own) if rows[at][1] == last})
        running, places = [], []
        for number, (seat, emit) in enumerate(zip(self.seats, emits, strict=True)):
            vocab = max(0, min(shared, words - (number if job.sharers == 1 else seat.shard) * shared))
            ends = Ends(
                segment.shape, vocab, self.model.final_softcap, self.machine, self._ends_dram(segment), step.tokens,
                step.context, self._sequences_of(seat),
            )  # fmt: skip
            running.append(head_steps(ends, emit, self.layers, held[number]))
            places.append(next(running[-1]))
        self._broadcast(emits, held, places, segment.shape)
        for one in running:
            next(one, None)

    def _sequences_of(self, seat: Seat) -> int:
        """The sequences whose last tokens a PE needs."""
        return even_parts(self.job.batch, self.job.sharers)[seat.group if self.job.sharers > 1 else 0]

    def _broadcast(self, emits: list[Emitter], held: list[dict[int, int]], places: list[int], shape: ModelShape) -> None:
        """Rows of last tokens, from the PE that has them to those that have not: to its own shard of other groups first."""
        row, bits = shape.hidden, shape.activation_bits
        departures: list[list[Departure]] = [[] for _ in emits]
        arrivals: list[dict[tuple[int, int], int]] = [{} for _ in emits]
        for number, seat in enumerate(self.seats):
            able = seat.among("shards")
            if self.job.sharers == 1:
                able += [*seat.among("groups"), *seat.among("all")]
            for sequence in range(self._sequences_of(seat)):
                if sequence in held[number]:
                    continue
                source = next(one for one in able if sequence in held[one])
                at = bytes_of(sequence * row, bits)
                departures[source].append(Departure(number, sequence, places[source] + at, row))
                arrivals[number][source, sequence] = places[number] + at
        sizes = [[0] * len(emits) for _ in emits]
        for source, some in enumerate(departures):
            for one in some:
                sizes[source][one.target] += row
        most = max(map(sum, sizes))
        if most and self.exchange(Sent("broadcast", "direct", len(emits), most, bits, "all", tuple(map(tuple, sizes)))):
            layers = [Rows(emit, self.machine, bits) for emit in emits]
            send_rows(layers, departures, arrivals, bits, {"phase": PHASES["broadcast"]})

    def _ends_dram(self, segment: Segment) -> LlmDram:
        """Where the embedding or the LM head works; those of a draft have rows of their own, and the head its own norm."""
        dram, draft = self.dram, segment.layer - self.layers - 1
        if draft < 0:
            return dram
        rows = self._words if segment.kind == "embedding" else self._draft_stream[draft % 2]
        return replace(dram, stream=(rows, rows), final_gain=self._draft_memories[draft][1])

    @property
    def source_batch(self) -> Batch:
        """The sequences of the encoder."""
        return Batch((Sequences(self.sources, 0, self.job.batch),))

    @property
    def _convolutions(self) -> tuple[Convolution, ...]:
        """Those before the encoder."""
        return self.description.encoder.convolutions if self.description.encoder is not None else ()

    def _emit_layer(self, segment: Segment, program: Program, emits: list[Emitter], batch: Batch) -> None:
        """Rows go through together as far as they fit: as many as all, or half as many, and so on."""
        shape = cast("BlockShape", segment.shape)
        key = segment.kind, shape, batch
        if segment.halves:
            run_together(self._layers(segment, emits, batch, self._halves[shape, batch]), self)
            return
        if key in self._rows:
            rows = self._rows[key].rows
        else:
            rows = self._common_rows(segment.step) if self.job.splits_rows else self._most_rows(segment, batch)
        self._fit(segment, program, emits, batch, rows)

    def _most_rows(self, segment: Segment, batch: Batch) -> int:
        """The rows of a block if everything fits."""
        if self.job.groups == 1 or segment.kind not in ("layer", "draft"):
            return batch.tokens
        return max(self.group_batch(segment.step, group).tokens for group in range(self.job.groups))

    def _common_rows(self, step: Step) -> int:
        """The rows of a block that fit all layers: all layers have the same blocks where shards have rows of their own."""
        if step not in self._common:
            kept = list(self.reduced)
            rows = max(self.group_batch(step, group).tokens for group in range(self.job.groups))
            known = set()
            for segment in super().segments(step):
                if segment.kind == "layer" and segment.shape not in known:
                    known.add(segment.shape)
                    program, common = Program("rows that fit"), self._fields(segment)
                    emits = [Emitter("", self.machine, common, program, place.node, place.dram_base) for place in self.places]
                    rows = self._fit(segment, program, emits, self.batch_of(step), rows)
            self._rows.clear()
            self.reduced[:] = kept
            self._common[step] = rows
        return self._common[step]

    def _fit(self, segment: Segment, program: Program, emits: list[Emitter], batch: Batch, rows: int) -> int:
        """Emit a layer with blocks of this number of rows, or of half as many, and so on; return the number.

        Where experts are loaded ahead of the router, their sums have slices and half of the scratchpad holds weights if that
        does not take fewer rows. A search may then divide the layer in another way.
        """
        shape = cast("BlockShape", segment.shape)
        key = segment.kind, shape, batch
        prefetches = self.job.prefetch_experts and isinstance(shape.block.ffn, Experts)
        blocks = self._rows.get(key) or first_blocks(shape, self.machine, rows, prefetches=prefetches)
        size, collectives = len(program), len(self.reduced)
        while not self._emitted(segment, program, emits, batch, blocks):
            if blocks.rows == 1 and not blocks.ring and not blocks.slices:
                rule = f"one row of a layer of {self.model.name} must fit the scratchpad"
                raise InputError(beyond_scratchpad(self.machine, rule))
            blocks = smaller_blocks(blocks)
            emits = self._emitters(segment, program)
        if key not in self._rows:
            self._rows[key] = self._searched(segment, batch, self._with_network_rows(segment, batch, blocks))
            if self._rows[key] != blocks:
                del program.entries[size:]
                del self.reduced[collectives:]
                self._emitted(segment, program, self._emitters(segment, program), batch, self._rows[key])
        return blocks.rows

    def _with_network_rows(self, segment: Segment, batch: Batch, blocks: Blocks) -> Blocks:
        """The same blocks; the network has larger ones if they fit, so that its weights are loaded less often."""
        if not self._is_separable(segment):
            return blocks
        rows = batch.tokens
        while rows > blocks.rows:
            tried = replace(blocks, network_rows=rows)
            if self._kept_rows(batch, rows) == self._kept_rows(batch, blocks.rows):
                program = Program("rows that fit")
                collectives = len(self.reduced)
                fits = self._emitted(segment, program, self._emitters(segment, program), batch, tried)
                del self.reduced[collectives:]
                if fits:
                    return tried
            rows = ceil_div(rows, 2)
        return blocks

    def _searched(self, segment: Segment, batch: Batch, blocks: Blocks) -> Blocks:
        """The blocks with which the layer takes the fewest simulated cycles, of those that `tried_blocks` tries."""
        if not self._is_searched(segment, batch, blocks):
            return blocks
        shape = cast("BlockShape", segment.shape)

        def tried() -> Tried:
            cycles = partial(self._cycles, segment, batch)
            parts = self.job.shards > 1 and not self.job.splits_rows
            found = []
            for one, cost in tried_blocks(blocks, shape, cycles, parts=parts, room=lambda: self._room_for_more):
                found.append((*astuple(one), -1 if cost is None else cost))
                if self.on_compared is not None:
                    self.on_compared()
            return tuple(found)

        found = SEARCHED.of(self.target, (self.content(segment), astuple(blocks)), tried)
        self._searches[segment.key] = [(Blocks(*values), None if cost < 0 else cost) for *values, cost in found]
        *values, _ = min((one for one in found if one[-1] >= 0), key=itemgetter(-1))
        return Blocks(*values)

    def compared_blocks(self, segment: Segment) -> tuple[Blocks, list[tuple[Blocks, int | None]]]:
        """The blocks of a layer, and those that were compared by simulation, each with its cycles; None if it does not fit."""
        alone = replace(segment, halves="")
        self.segment_program(alone)
        shape, batch = cast("BlockShape", segment.shape), self.batch_of(segment.step)
        used = self._halves[shape, batch] if segment.halves else self._rows[segment.kind, shape, batch]
        return used, self._searches.get(alone.key, [])

    def _places_in_halves(self, step: Step) -> dict[int, HalvesPlace]:
        """The place of each layer of a step among equal layers whose rows are in halves, as far as that takes fewer cycles; no
        places if no layer has its rows in halves."""
        if step not in self._places:
            self._places[step] = {}  # also for the search, which asks for layers by themselves
            found: dict[int, HalvesPlace] = dict.fromkeys(range(self.layers), "")
            layers = [segment for segment in super().segments(step) if segment.kind == "layer"]
            for _, equal in groupby(layers, key=attrgetter("shape")):
                run = list(equal)
                if self._is_in_halves(run):
                    found |= dict.fromkeys((one.layer for one in run), "middle")
                    found[run[0].layer], found[run[-1].layer] = "first", "last"
            self._places[step] = found if any(found.values()) else {}
        return self._places[step]

    def _is_in_halves(self, run: Sequence[Segment]) -> bool:
        """Whether equal layers take fewer cycles with their rows in halves; their blocks are found by a search."""
        alone, batch = run[0], self.batch_of(run[0].step)
        if len(run) < LEAST_RUN or not self._can_be_in_halves(alone, batch):
            return False
        self.segment_program(alone)  # finds its blocks
        shape = cast("BlockShape", alone.shape)
        compared = self._searches.setdefault(alone.key, [])
        if not compared:
            blocks = self._rows[alone.kind, shape, batch]
            compared.append((blocks, self._cycles(alone, batch, blocks)))
        least = min(cycles for blocks, cycles in compared if cycles is not None and not blocks.twice)
        rate = self.machine.dram.capacity * self.machine.dram.channels
        if least * rate < WORTH * layer_work(shape, batch, self.job.routing).weights:
            return False
        first, middle, last = (replace(run[at], halves=place) for at, place in ENDS)

        def tried() -> Tried:
            experts = cast("Experts", shape.block.ffn).count // (shape.shards if self.job.expert_parallel else 1)
            found = tried_halves(ceil_div(batch.tokens, 2), least, partial(self._cycles, middle, batch), experts)
            return tuple((*astuple(one), -1 if cost is None else cost) for one, cost in found)

        if not any(blocks.twice for blocks, _ in compared):  # equal layers before these have not been compared
            for *values, cost in SEARCHED.of(self.target, self.content(middle), tried):
                compared.append((Blocks(*values), None if cost < 0 else cost))
        fits = [(cycles, number) for number, (blocks, cycles) in enumerate(compared) if blocks.twice and cycles is not None]
        if not fits or min(fits)[0] >= least:
            return False
        cycles, number = min(fits)
        blocks = self._halves[shape, batch] = compared[number][0]
        ends = [self._cycles(one, batch, blocks) for one in (first, last)]
        return all(ends) and sum(filter(None, ends)) + (len(run) - 2) * cycles < len(run) * least

    def _can_be_in_halves(self, segment: Segment, batch: Batch) -> bool:
        """Whether the rows of a layer and of those around it can be in halves: experts are loaded ahead of the router, in a
        prefill, and PEs have the same rows in all layers."""
        ahead = self.job.prefetch_experts and not self.job.splits_rows
        experts = isinstance(cast("BlockShape", segment.shape).block.ffn, Experts)
        return ahead and experts and self._is_prompt(batch) and self._is_separable(segment)

    def _is_searched(self, segment: Segment, batch: Batch, blocks: Blocks) -> bool:
        """Whether blocks are compared by simulation: in a prefill of one block, if the job asks for it or if experts are loaded
        ahead of the router."""
        asked = self.job.prefetch_experts or self.job.search_divisions
        return asked and self._is_prompt(batch) and self._is_separable(segment) and blocks.rows >= batch.tokens

    def _is_prompt(self, batch: Batch) -> bool:
        """Whether the batch of a job is whole prompts that are long enough for a search."""
        return not self._batches and all(group.tokens >= 2 * PART_ROWS and not group.context for group in batch.groups)

    def _cycles(self, segment: Segment, batch: Batch, blocks: Blocks) -> int | None:
        """The simulated cycles of a layer with these blocks; None if they do not fit. StoppedError beyond `max_cycles`."""
        program, collectives = Program(self._name(segment)), len(self.reduced)
        fits = self._emitted(segment, program, self._emitters(segment, program), batch, blocks)
        del self.reduced[collectives:]
        if not fits:
            return None
        program.end(**self._fields(segment))
        machine = Machine(self.target, program)
        machine.run()
        if machine.status == "aborted":
            raise StoppedError(program.name, machine.cycle)
        return machine.cycle

    def _is_separable(self, segment: Segment) -> bool:
        """Whether mixer and network of a layer can go one after the other, each with blocks of its own."""
        block = cast("BlockShape", segment.shape).block
        whole = block.mixer is None or block.ffn is None or block.cross is not None or block.parallel or block.predicts
        return not whole and segment.kind == "layer" and self.job.groups == 1

    def _kept_rows(self, batch: Batch, most: int) -> list[int]:
        """How many rows each shard has between products, in blocks of at most `most` rows; with --sp a part of each block."""
        if not self.job.splits_rows:
            return [batch.tokens]
        found = [0] * self.job.shards
        for pieces in batch.blocks(most):
            parts = even_parts(sum(piece.rows for piece in pieces), self.job.shards)
            found = [some + more for some, more in zip(found, parts, strict=True)]
        return found

    def _emitters(self, segment: Segment, program: Program) -> list[Emitter]:
        common = self._fields(segment)
        return [Emitter("", self.machine, common, program, place.node, place.dram_base) for place in self.places]

    def _emitted(self, segment: Segment, program: Program, emits: list[Emitter], batch: Batch, blocks: Blocks) -> bool:
        """Emit a layer, or nothing if these blocks do not fit."""
        size, collectives = len(program), len(self.reduced)
        layers = self._layers(segment, emits, batch, blocks)
        try:
            run_together(layers, self)
        except DoesNotFit:
            self._room_for_more = min(layer.room_for_more for layer in layers)
            del program.entries[size:]
            del self.reduced[collectives:]
            return False
        return True

    def _layers(self, segment: Segment, emits: list[Emitter], batch: Batch, blocks: Blocks) -> list[LayerEmitter]:
        number = segment.layer
        self.dram  # noqa: B018  # places everything
        if segment.kind == "draft":
            return self._draft_layers(segment, emits, blocks)
        if segment.kind != "layer":
            return self._encoder_layers(segment, emits, blocks)
        memory, encoded = self._memories[segment.layer], 0
        ends = self.dram.input_of(number), self.dram.input_of(number + 1), self._tables
        if self.sources:
            encoded = self._encoder_stream[len(self._encoder_memories) % 2]
        shapes = [self._shard(self.stage.first + number, self._number(seat)) for seat in self.seats]
        made: list[LayerEmitter] = [
            self._layer(shape, emit, memory, segment.step, seat, blocks, ends, encoded=encoded)
            for shape, seat, emit in zip(shapes, self.seats, emits, strict=True)
        ]
        for layer in made:
            if isinstance(layer, HalvesLayer):
                layer.begins = segment.halves == "first"
                following = self.stage.first + number + 1
                layer.following = None if segment.halves == "last" else (self._memories[number + 1], following)
        return made

    def _number(self, seat: Seat) -> int:
        """The number of a PE among those that share the experts."""
        return seat.shard if self.job.sharers == 1 else seat.group * seat.shards + seat.shard

    def _layer(
        self, shape: BlockShape, emit: Emitter, memory: BlockMemory, step: Step, seat: Seat, blocks: Blocks,
        ends: tuple[int, int, int], **other: int,
    ) -> BlockLayer:  # fmt: skip
        """A layer on one PE."""
        job, batch = self.job, self.group_batch(step, seat.group)
        kind = ContextLayer if job.contexts > 1 else SharedExpertsLayer if job.sharers > 1 else BlockLayer
        kind = HalvesLayer if blocks.twice else kind
        made = kind(
            shape, self.machine, emit, memory, batch, blocks, ends, job.routing, seat=seat, splits_rows=job.splits_rows,
            prefetches=job.prefetch_experts, **other
        )  # fmt: skip
        if isinstance(made, ContextLayer):
            made.share, made.prefill = self.share(seat.group), step.phase == "prefill"
            made.sequences, made.gathered = job.batch, self._gathered
        elif isinstance(made, SharedExpertsLayer):
            batches = [self.group_batch(step, group) for group in range(job.sharers)]
            count = ceil_div(max(one.tokens for one in batches), blocks.rows)
            cut = [one.blocks(ceil_div(one.tokens, count)) for one in batches]
            made.rows = ceil_div(batch.tokens, count)
            made.replica_rows = [[sum(piece.rows for piece in pieces) for pieces in some] for some in cut]
        return made

    def _draft_layers(self, segment: Segment, emits: list[Emitter], blocks: Blocks) -> list[LayerEmitter]:
        """A block that predicts a further token on each shard: it reads the output of the last layer or of the block before."""
        number = segment.layer - self.layers
        source = self._draft_stream[(number - 1) % 2] if number else self.dram.input_of(self.layers)
        ends = source, self._draft_stream[number % 2], self._tables
        memory, _ = self._draft_memories[number]
        shapes = [self._drafts(self._number(seat))[number] for seat in self.seats]
        return [
            self._layer(shape, emit, memory, segment.step, seat, blocks, ends, words=self._words)
            for shape, seat, emit in zip(shapes, self.seats, emits, strict=True)
        ]

    def _encoder_layers(self, segment: Segment, emits: list[Emitter], blocks: Blocks) -> list[LayerEmitter]:
        """A layer of the encoder, or the convolutions before it, on each shard."""
        number, kind = segment.layer, Front if segment.kind == "source" else BlockLayer
        ends = self._encoder_stream[number % 2], self._encoder_stream[(number + 1) % 2], self._tables
        found: list[LayerEmitter] = []
        for shard, emit in enumerate(emits):
            shape, memory = self._encoder(shard)[number], self._encoder_memories[number]
            made = kind(
                shape, self.machine, emit, memory, self.source_batch, blocks, ends, self.job.routing, seat=self.seats[shard]
            )
            if isinstance(made, Front):
                made.stages = tuple(self._front)
            found.append(made)
        return found


def _check_grid(description: Description, name: str, job: Job) -> None:
    """InputError if the parts of the model cannot be shared out in this way."""
    if job.contexts > 1:
        check_context(name, description.blocks, job.contexts, job.prompt, encoder=description.encoder is not None)
    for option, there in (("cp", job.contexts > 1), ("sp", job.splits_rows)):
        if there and job.predicting:
            rule = "the blocks that predict further tokens run on PEs that have all rows of the last layer"
            raise InputError(Problem("kbsim llm", rule, "mtp", remedy=f"leave out --mtp or --{option}"))
    if job.contexts > 1 and job.sharers > 1:
        rule = "replicas that share experts keep whole sequences"
        raise InputError(Problem("kbsim llm", rule, "cp", job.contexts, "take --cp 1 or --dp 1, or leave out --ep"))
    if job.splits_rows and job.shards == 1:
        rule = "it divides the rows between the PEs of --tp"
        raise InputError(Problem("kbsim llm", rule, "sp", remedy="take --tp 2 or more"))
    if job.splits_rows and description.encoder is not None:
        rule = "the layers of a model with an encoder have all rows on each PE"
        raise InputError(Problem(f"model {name}", rule, "sp", remedy="leave out --sp"))


def _tokens(batch: Batch) -> int:
    return batch.tokens


def _mixed_step(number: int, batch: Batch) -> Step:
    """A step of a batch: its number keeps steps with the same tokens apart."""
    prefills = any(group.tokens > 1 for group in batch.groups)
    return Step("prefill" if prefills else "decode", batch.tokens, batch.groups[0].context, number)


def check_rows(hidden: int, bits: int, machine: NpuConfig, option: str) -> None:
    """InputError if rows of activations do not begin at lines of the scratchpad, which messages between PEs need."""
    nbytes, line = bytes_of(hidden, bits), machine.spm.bank_width_bytes
    if nbytes % line:
        rule = f"PEs send whole rows, so a row of {nbytes} bytes must be a multiple of bank_width_bytes = {line}"
        raise InputError(Problem("kbsim llm", rule, option, remedy=f"leave out --{option}, or take other bits with --a"))


def _check_pages(shape: BlockShape, page_tokens: int, machine: NpuConfig) -> None:
    """InputError if the tokens of a head in a page are not whole aligned lines."""
    for _, _, dim in shape.cached if page_tokens else ():
        nbytes = page_tokens * bytes_of(dim, shape.kv_bits)
        if nbytes % machine.dma.alignment_bytes:
            alignment = machine.dma.alignment_bytes
            rule = f"a head's part of a page, {nbytes} bytes, must be a multiple of dma.alignment_bytes = {alignment}"
            raise InputError(Problem(f"model {shape.name}", rule, "page", page_tokens))


def uses_scales(model: Model, precision: Precision) -> bool:
    """Whether weights have the bits for which the file of the model states scales."""
    scales = model.stated.scales
    return scales is not None and scales.weight_bits in (precision.w, *dict(precision.roles).values())


def programs_of(
    model: Model, precision: Precision, config: NpuConfig | SystemConfig, job: Job, *, max_cycles: int | None = None
) -> LlmPrograms:
    """Use the planner of layers if it supports all parts of the model and the job; otherwise lower part by part.

    If the job asks for a search, layers that both can plan are lowered part by part if all steps take fewer cycles so.
    InputError if a single PE has the layers.
    """
    if job.search_divisions and job.shards == 1:
        rule = "it divides layers between the PEs of --tp"
        raise InputError(Problem("kbsim llm", rule, "search-divisions", remedy="take --tp 2 or more"))
    parts = not model.planned or job.routing != EVEN or job.expert_parallel or job.predicting or uses_scales(model, precision)
    parts = parts or job.prefetch_experts or job.groups > 1 or job.splits_rows or shares_heads(model, job.shards)
    if parts:
        return BlockPrograms(model, precision, config, job, max_cycles=max_cycles)
    whole = LlmPrograms(model, precision, config, job, max_cycles=max_cycles)
    if not job.search_divisions:
        return whole
    try:
        divided = BlockPrograms(model, precision, config, job, max_cycles=max_cycles)
        divided.compared = whole.compared = ComparedPlanners(_cycles_of_steps(whole), _cycles_of_steps(divided))
    except InputError as refused:
        whole.compared = ComparedPlanners(_cycles_of_steps(whole), None, str(refused))
        return whole
    return divided if divided.compared.divided_is_faster else whole


def _cycles_of_steps(programs: LlmPrograms) -> int:
    """[cycle] of all steps; the last one of a phase stands for all of them."""
    counts = Counter(step.phase for step in programs.steps)
    last = {step.phase: step for step in programs.steps}
    return sum(counts[phase] * step_cycles(programs, step) for phase, step in last.items())
