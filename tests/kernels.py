"""Runs kernels on a machine: what their tests share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kernbench.cmdq import Program
from kernbench.config import NpuConfig, SystemConfig, load_config
from kernbench.sim_engine.machine import Machine
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger
from kernbench.triton_emu.kernel_system import KernelSystem, kernel_system
from kernbench.triton_emu.launch import Launch, PeWork

#: Numbers that are easy to work with: 64 B a cycle from memory, no latency, engines without init, no bank conflicts.
EASY = {
    "dram": {"channels": 1, "bus_width_bytes": 64, "dram_burst_cycles": 1},
    "spm": {"num_banks": 64, "ports": 16},
    "te": {"init_cycles": 0, "finalize_cycles": 0, "spm_traffic": False},
    "ve": {"init_cycles": 0, "finalize_cycles": 0, "spm_traffic": False, "reduction_pipeline": 0},
}


def easy(**sections: Mapping[str, Any]) -> NpuConfig:
    """One NPU with EASY's numbers and others in some sections."""
    merged = {name: {**EASY.get(name, {}), **sections.get(name, {})} for name in {**EASY, **sections}}
    config = load_config(merged)
    assert isinstance(config, NpuConfig)
    return config


class Run:
    """One host program on one machine. `body(host)` launches; a kernel alone is launched on the first PE."""

    def __init__(
        self,
        kernel: Callable[..., Any] | None = None,
        *args: Any,
        memory: Mapping[int, Any] | None = None,
        config: NpuConfig | SystemConfig | None = None,
        body: Callable[[Any], None] | None = None,
        logged: bool = True,
        strict_wait: bool = False,
        programs: Sequence[int] = (0,),
        grid: tuple[int, ...] = (1,),
        parts: Mapping[str, Any] | None = None,
        translation: Any = None,
        walk: str | None = None,
    ) -> None:
        self.store = MemoryStore()
        for addr, array in (memory or {}).items():
            self.store.write("hbm", addr, array)
        self.log = OpLogger(self.store) if logged else None
        config = easy() if config is None else config

        def launch() -> None:
            if body is not None:
                body(self.system.host)
            else:
                assert kernel is not None
                pe = next(iter(self.system.runners))
                self.system.host.launch("kernel", [PeWork(pe, kernel, args, tuple(programs), grid)])

        self.system: KernelSystem = kernel_system(
            config, launch, store=self.store, log=self.log, memory=translation, strict_wait=strict_wait
        )
        components = {**self.system.components, **(parts or {})}
        self.machine = Machine(config, Program("kernels"), components, whole=True, walk=walk)
        self.system.bind(self.machine)

    def run(self, **how: Any) -> Run:
        """To its end, which must be `done`."""
        self.machine.run(**how)
        failure = self.machine.failure()
        assert self.machine.status == "done", failure["traceback"] if failure else self.system.states()
        return self

    def fail(self) -> BaseException:
        """To its failure: what was raised."""
        self.machine.run()
        assert self.machine.status == "failed", self.machine.status
        assert self.system.error is not None
        return self.system.error

    @property
    def launch(self) -> Launch:
        return self.system.launches[0]


def at(kernel: Callable[..., Any], below: int) -> str:
    """The source line so many lines below a kernel's `def`, as records and errors name it."""
    code = kernel.__code__
    return f"{code.co_filename.rpartition('/')[2]}:{code.co_firstlineno + below}"
