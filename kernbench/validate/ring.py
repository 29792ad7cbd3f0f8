"""A ring all_reduce as a program on a ring of SIPs with a PE each: reduce-scatter, then all-gather, step by step.

A step begins at a rank when the one before has ended there with all its chunks; inside a step each chunk is added as soon as it
has come.
"""

from __future__ import annotations

from dataclasses import dataclass

from kernbench.cmdq import Program
from kernbench.common import naming
from kernbench.config import SystemConfig

BITS = 16
SEND, ADD = 0, 1  #: halves of the scratchpad: what is sent, and what comes


@dataclass(frozen=True, slots=True)
class Ring:
    """An all_reduce of `nbytes` over all SIPs, in chunks of at most `chunk` bytes."""

    config: SystemConfig
    nbytes: int
    chunk: int
    launched: bool = False  #: each step is launched at its rank, which takes what the machine's processors say

    @property
    def ranks(self) -> int:
        """As many as SIPs."""
        return self.config.system.sips

    def program(self) -> Program:
        """2 (n - 1) steps; in the first n - 1 what comes is added."""
        program, n = Program(f"all_reduce {self.nbytes}"), self.ranks
        ready: list[list[int]] = [[] for _ in range(n)]  # who must have ended before a rank's next step
        for step in range(2 * (n - 1)):
            arrived: list[list[int]] = []
            for rank in range(n):
                arrived.append(self._step(program, rank, (rank + 1) % n, ready[rank], add=step < n - 1))
            ready = [[program.nop(deps_before=arrived[rank - 1])] for rank in range(n)]
        return program

    def _step(self, program: Program, rank: int, peer: int, ready: list[int], *, add: bool) -> list[int]:
        """Send a segment, chunk by chunk; who must have ended before the peer may go on."""
        if self.launched:
            ready = [program.launch(node=naming.in_cube(rank, 0, naming.M_CPU), deps_before=ready)]
        segment, last = -(-self.nbytes // self.ranks), []
        for k, first in enumerate(range(0, segment, self.chunk)):
            elements = min(self.chunk, segment - first) * 8 // BITS
            job = program.dma_send(
                node=_pe(rank), peer=_pe(peer), tensor_role="activation", qbits=BITS, num_elements=elements,
                **self._place("spm", SEND, k), **self._place("peer", ADD, k), deps_before=ready,
            )  # fmt: skip
            if add:
                places = self._place("in", SEND, k) | self._place("in2", ADD, k) | self._place("out", SEND, k)
                lanes = {"length": elements, "batch": 1, "qbits_activation": BITS, "ve_id": k % self.config.pe.ve.engines}
                job = program.ve_add(node=_pe(peer), **lanes, **places, deps_before=[job])
            last.append(job)
        return last

    def _place(self, what: str, half: int, k: int) -> dict[str, int]:
        """Bank and offset of the k-th chunk in a half of the scratchpad; chunks use its places in turn."""
        spm = self.config.pe.spm
        row = spm.num_banks * spm.bank_width_bytes
        room = spm.num_banks * spm.bank_size_bytes // 2
        rows = -(-self.chunk // row)
        place = k % max(1, room // (rows * row)) * rows
        return {f"{what}_bank": 0, f"{what}_offset": (half * room // row + place) * spm.bank_width_bytes}


def _pe(sip: int) -> str:
    return naming.place(sip, cube=0, pe=0)
