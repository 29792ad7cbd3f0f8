"""Moves of elements as part of the operations around them: a vector engine reads any element where it needs it.

A copy of a copy reads from the first tensor. An elementwise operation whose result is only copied computes its elements where
the copies want them. A tensor that only vector operations read is read in place, without a copy.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace

from kernbench.workloads.graphs.graph import Copy, Lowered, Vector, Work, read_by
from kernbench.workloads.graphs.orders import join
from kernbench.workloads.graphs.sizes import ELEMENTWISE

_FOLDED = "read where it is by what follows"


def fold_moves(lowered: Lowered) -> None:
    """Takes the copies out of `lowered.jobs` that other work can make part of itself."""
    for step in (_through_copies, _behind_elementwise, _into_readers):
        step(_Jobs(lowered))


class _Jobs:
    """The work of a graph, and the writers and readers of each tensor."""

    def __init__(self, lowered: Lowered) -> None:
        self.lowered = lowered
        self.makers: dict[str, list[int]] = defaultdict(list)
        self.readers: dict[str, list[int]] = defaultdict(list)
        for number, (_, work) in enumerate(lowered.jobs):
            self.makers[lowered.bytes_at(work.out)].append(number)
            for root in dict.fromkeys(map(lowered.bytes_at, read_by(work))):
                self.readers[root].append(number)
        self.outputs = {lowered.bytes_at(name) for name in lowered.graph.outputs}

    def work(self, number: int) -> Work:
        return self.lowered.jobs[number][1]

    def move(self, work: Work) -> bool:
        """Whether it is a copy of one tensor that is computed or an input, at one width."""
        tensors = self.lowered.tensors
        if not isinstance(work, Copy) or len(work.sources) > 1:
            return False
        source = tensors[work.sources[0]]
        return source.source != "weight" and source.bits == tensors[work.out].bits

    def inner(self, work: Work) -> bool:
        """Whether only work of this graph reads the result, which is made at once."""
        root = self.lowered.bytes_at(work.out)
        return root not in self.outputs and len(self.makers[root]) == 1 and bool(self.readers[root])

    def replace(self, made: dict[int, Work | None]) -> None:
        """Other work in the place of some; None: none."""
        jobs, notes = self.lowered.jobs, self.lowered.notes
        gone = {jobs[number][0] for number, work in made.items() if work is None}
        changed = [(node, made.get(number, work)) for number, (node, work) in enumerate(jobs)]
        self.lowered.jobs[:] = [(node, work) for node, work in changed if work is not None]
        for node in gone - {node for node, _ in self.lowered.jobs}:
            notes[node] = _FOLDED


def _through_copies(jobs: _Jobs) -> None:
    """Copies whose source is a copy: the first is left out if nothing else reads it."""
    made: dict[int, Work | None] = {}
    for number, (_, work) in enumerate(jobs.lowered.jobs):
        work = made.get(number) or work
        if not jobs.move(work) or not jobs.inner(work):
            continue
        readers = jobs.readers[jobs.lowered.bytes_at(work.out)]
        if all(jobs.move(jobs.work(reader)) for reader in readers):
            assert isinstance(work, Copy)
            made[number] = None
            for reader in readers:
                of = jobs.work(reader)
                assert isinstance(of, Copy)
                made[reader] = replace(of, sources=work.sources, order=join(of.order, work.order))
    jobs.replace(made)


def _behind_elementwise(jobs: _Jobs) -> None:
    """An elementwise operation whose elements are only copied, each at most once, is made by each copy for its elements."""
    made: dict[int, Work | None] = {}
    tensors = jobs.lowered.tensors
    for number, (_, work) in enumerate(jobs.lowered.jobs):
        if not isinstance(work, Vector) or work.op not in ELEMENTWISE or work.gathers or not jobs.inner(work):
            continue
        readers = jobs.readers[jobs.lowered.bytes_at(work.out)]
        copies = [jobs.work(reader) for reader in readers]
        wide = len({tensors[name].bits for name in (work.a, work.out)}) == 1
        total = sum(tensors[copy.out].elements for copy in copies)
        if not wide or not all(map(jobs.move, copies)) or total > tensors[work.out].elements:
            continue
        made[number] = None
        for reader, copy in zip(readers, copies, strict=True):
            assert isinstance(copy, Copy)
            gathers = (work.a, work.b) if work.b else (work.a,)
            length = tensors[copy.out].elements
            made[reader] = replace(work, out=copy.out, length=length, batch=1, gathers=gathers, order=copy.order)
    jobs.replace(made)


def _into_readers(jobs: _Jobs) -> None:
    """Copies that only vector operations read, as streams."""
    made: dict[int, Work | None] = {}
    tensors = jobs.lowered.tensors
    for number, (_, work) in enumerate(jobs.lowered.jobs):
        if not jobs.move(work) or not jobs.inner(work):
            continue
        assert isinstance(work, Copy)
        (source,) = work.sources
        if tensors[source].elements < tensors[work.out].elements:  # it is repeated
            continue
        root = jobs.lowered.bytes_at(work.out)
        readers = {reader: made.get(reader) or jobs.work(reader) for reader in jobs.readers[root]}
        if not all(_streams(jobs.lowered, reader, root) for reader in readers.values()):
            continue
        made[number] = None
        for reader, of in readers.items():
            assert isinstance(of, Vector)
            a, b = (source if name and jobs.lowered.bytes_at(name) == root else name for name in (of.a, of.b))
            made[reader] = replace(of, a=a, b=b, gathers=tuple(dict.fromkeys((*of.gathers, source))), order=work.order)
    jobs.replace(made)


def _streams(lowered: Lowered, work: Work, root: str) -> bool:
    """Whether a vector operation reads a tensor element by element, and not as a whole."""
    if not isinstance(work, Vector) or any(lowered.bytes_at(name) == root for name in work.params):
        return False
    same = [name for name in (work.a, work.b) if name and lowered.bytes_at(name) == root]
    return len(same) == 1 and not work.gathers
