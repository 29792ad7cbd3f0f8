"""The parts of a PE that kernels alone need: the built-in class of each, or the one that a system's file names in its place."""

from __future__ import annotations

from typing import Any

from kernbench.common import naming
from kernbench.common.errors import InputError, Problem
from kernbench.components.builtin.pe_cpu import PeCpu
from kernbench.components.builtin.pe_fetch_store import PeFetchStore
from kernbench.components.builtin.pe_ipcq import PeIpcq
from kernbench.components.builtin.pe_scheduler import PeScheduler
from kernbench.components.registry import find_class
from kernbench.config import SystemConfig
from kernbench.config.system.parts import BUILTIN

#: A class in the place of one is derived from it, and made as it is.
BUILT_IN: dict[str, type[Any]] = {
    naming.PE_CPU: PeCpu,
    naming.PE_SCHEDULER: PeScheduler,
    naming.PE_FETCH_STORE: PeFetchStore,
    naming.PE_IPCQ: PeIpcq,
}


class KernelParts:
    """The classes of one machine; without a system they are the built-in ones."""

    def __init__(self, config: SystemConfig | None) -> None:
        """InputError where a class cannot be had, is not derived from the built-in one, or does not take its parameters."""
        self._made = dict(BUILT_IN)
        self._specs: dict[str, Any] = {}
        for kind in sorted(BUILT_IN.keys() & (config.components.keys() if config is not None else set())):
            assert config is not None
            given = config.components[kind]
            if given.impl == BUILTIN:
                continue
            where = f"{config.where(f'components.{kind}.impl', 'components')}: components.{kind}"
            found = find_class(given.impl, where, allow_code=config.allowed_code)
            if not issubclass(found, BUILT_IN[kind]):
                rule = f"a {kind} must be derived from {BUILT_IN[kind].__module__}:{BUILT_IN[kind].__name__}"
                raise InputError(Problem(where, rule, "impl", given.impl, "see docs/reference/components.md"))
            try:
                self._specs[kind] = found.Spec(**given.spec)
            except (TypeError, ValueError) as error:
                rule = f"{given.impl} does not take these parameters: {error}"
                raise InputError(Problem(where, rule, "spec", given.spec)) from error
            self._made[kind] = found

    def make(self, kind: str, *given: Any, **keys: Any) -> Any:
        """A part of a kind, made as the built-in one is; its own parameters are its `spec`."""
        part = self._made[kind](*given, **keys)
        if kind in self._specs:
            part.spec = self._specs[kind]
        return part
