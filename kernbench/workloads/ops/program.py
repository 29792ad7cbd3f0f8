"""Plans as command queues: the host's items, and each kernel's loads, body and stores in chunks that overlap.

The queue runs on the machine of the chip with an additional tensor engine that represents the host: its jobs are launches, the
work of the host after them, and waits (docs/model/host.md). DRAM is one channel that stands for all of the chip's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from kernbench.cmdq import Program
from kernbench.config import NpuConfig
from kernbench.config.schema import NpuConfig as Npu
from kernbench.workloads.ops.kernel import CHUNKS, Kernel, whole_cycles

HOST = 1  #: the tensor engine that stands for the host
LINE = 64  #: bytes that all transfers are multiples of
_TE = dict.fromkeys(("ifm_bank", "ifm_offset", "wgt_bank", "wgt_offset", "ofm_bank", "ofm_offset"), 0)
_VE = dict.fromkeys(("in_bank", "in_offset", "out_bank", "out_offset"), 0)


@dataclass(frozen=True, slots=True)
class Launch:
    """A kernel and the time of the host around it, in cycles."""

    kernel: Kernel
    launch: float = 0.0  #: before it
    behind: float = 0.0  #: after the launch, beside the kernel
    sync: float = 0.0  #: after the kernel, which it waits for


def host_machine(machine: NpuConfig) -> NpuConfig:
    """The machine on which such queues run."""
    data = machine.to_dict()
    data["te"] = {**data["te"], "engines": HOST + 1, "spm_traffic": False, "init_cycles": 0, "finalize_cycles": 0}
    data["te"] = {key: value for key, value in data["te"].items() if key not in ("rows", "cols", "dataflow", "timing")}
    data["te"] |= {"macs_per_cycle": 1, "f_w": {}, "f_a": {}}
    data["ve"] = {"engines": 1, "lanes": 1, "init_cycles": 0, "finalize_cycles": 0, "spm_traffic": False}
    data["dram"] = {**data["dram"], "t_setup_cycles": 0}  # in the start of the kernel: its first transfer alone waits for it
    data["max_cycles"] = 10**15
    data.pop("chip", None)
    return Npu.model_validate(data)


def queue_room(machine: NpuConfig) -> int:
    """The largest transfer in bytes, and the longest job in elements: half of the scratchpad."""
    return int(machine.spm.size_bytes) // 2 // LINE * LINE


class Queue:
    """Appends launches to a program."""

    def __init__(self, name: str, machine: NpuConfig, ahead: int = 1) -> None:
        self.program = Program(name)
        self.room = queue_room(machine)
        self.capacity = machine.dram.capacity_bytes // LINE * LINE
        self.ahead = ahead
        self._ends: list[int] = []
        self._host: list[int] = []  # the item of the host before
        self._ended: list[list[int]] = []  # by launch, its last job

    def append(self, one: Launch) -> None:
        """A kernel after all before it."""
        number = len(self._ended)
        free = self._ended[number - self.ahead] if number >= self.ahead else []
        begin = self._item("launch", one.launch, free)
        self._item("behind", one.behind, begin)
        self._ends = self._kernel(one.kernel, [*begin, *self._ends])
        self._ended.append(self._ends)
        self._ends = self._item("sync", one.sync, self._ends) or self._ends

    def host(self, cycles: float) -> None:
        """The work of the host after the last kernel."""
        self._ends = self._item("step", cycles, self._ends) or self._ends

    def _item(self, what: str, cycles: float, after: Sequence[int]) -> list[int]:
        """An item of the host, which is in order: after the item before it."""
        if not whole_cycles(cycles):
            return []
        self._host = [self._te(cycles, HOST, list(dict.fromkeys([*after, *self._host])), what)]
        return self._host

    def _te(self, cycles: float, engine: int, after: Sequence[int], what: str) -> int:
        return self._jobs(
            cycles, after, lambda part, before: self.program.te_gemm(
                m=part, n=1, k=1, qbits_weight=8, qbits_activation=8, te_id=engine, deps_before=before, phase=what, **_TE
            )
        )  # fmt: skip

    def _ve(self, cycles: float, after: Sequence[int], what: str) -> int:
        return self._jobs(
            cycles, after, lambda part, before: self.program.ve(
                "copy", length=part, qbits_activation=8, deps_before=before, phase=what, **_VE
            )
        )  # fmt: skip

    def _jobs(self, cycles: float, after: Sequence[int], append: Callable[[int, list[int]], int]) -> int:
        """Jobs in sequence that take this many cycles in total: one element per cycle, as many as fit into the scratchpad."""
        left, before = max(1, whole_cycles(cycles)), list(after)
        while left:
            part = min(left, self.room)
            before = [append(part, before)]
            left -= part
        return before[0]

    def _kernel(self, kernel: Kernel, after: list[int]) -> list[int]:
        if whole_cycles(kernel.start):
            after = [self._ve(kernel.start, after, "start")]
        chunks = (1,) if kernel.serial else CHUNKS
        reads, writes = (_parts(-(-int(amount) // LINE), chunks) for amount in (kernel.read_bytes, kernel.write_bytes))
        bodies = _parts(whole_cycles(kernel.body), chunks)
        loads = [self._move("load", part * LINE, after) for part in reads]
        ends: list[int] = []
        for loaded, body, write in zip(loads, bodies, writes, strict=True):
            before = [*loaded, *after]
            done = self._body(kernel, body, before) or before
            ends += [*done, *self._move("store", write * LINE, done)]
        last = list(dict.fromkeys([*ends, *(one for some in loads for one in some)]))
        return [self._ve(kernel.after, last, "after")] if whole_cycles(kernel.after) else last

    def _body(self, kernel: Kernel, cycles: int, after: list[int]) -> list[int]:
        if not cycles:
            return []
        return [self._te(cycles, 0, after, "body") if kernel.engine == "te" else self._ve(cycles, after, "body")]

    def _move(self, what: str, nbytes: int, after: list[int]) -> list[int]:
        """A transfer, in parts that fit into the scratchpad."""
        made, left = [], nbytes
        append = self.program.dma_load if what == "load" else self.program.dma_store
        while left:
            part = min(left, self.room, self.capacity)
            made.append(
                append(
                    tensor_role="activation",
                    qbits=8,
                    dram_addr=0,
                    num_elements=part,
                    spm_bank=0,
                    spm_offset=0,
                    deps_before=after,
                )
            )
            left -= part
        return made


def _parts(whole: int, shares: Sequence[int]) -> list[int]:
    """A whole number in parts of these shares."""
    total = sum(shares)
    edges = [whole * sum(shares[: i + 1]) // total for i in range(len(shares))]
    return [edge - before for before, edge in zip([0, *edges], edges, strict=False)]


def launches_program(name: str, machine: NpuConfig, launches: Iterable[Launch], step: float = 0.0, ahead: int = 1) -> Program:
    """Kernels in sequence, and a step of the host at their end."""
    queue = Queue(name, machine, ahead)
    for one in launches:
        queue.append(one)
    queue.host(step)
    return queue.program
