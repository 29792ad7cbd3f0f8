"""Collectives as targets: one call of one size over queues between PEs."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from kernbench.ccl.collectives import CCL_DTYPES, COLLECTIVES
from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.measure import CclRequest, machine_of, queues_of, row
from kernbench.ccl.registry import TIERS, Entry, Registry, read_registry
from kernbench.ccl.rings import TOPO_NAME_TO_KIND
from kernbench.ccl.tuner import times_digest
from kernbench.common.dtypes import dtype_of
from kernbench.common.errors import InputError, Problem
from kernbench.common.package_digest import package_digest
from kernbench.common.units import parse_size
from kernbench.config import MachineConfig
from kernbench.config.allowed_code import AllowCode
from kernbench.config.kinds import a_system
from kernbench.sim_engine.engine import TimingResult
from kernbench.sim_engine.machine import Machine
from kernbench.sweep.store.tables import measured

#: Parameters and their defaults; `kbsim ccl run` has options of these names. None means the value of the algorithm or the
#: machine, or the algorithm that the tuner chooses.
PARAMS: dict[str, Any] = {
    "algo": None, "ranks": 8, "size": "64 KiB", "dtype": "f16", "topo": None, "slots": None, "slot_bytes": None, "tier": None,
}  # fmt: skip
MAX_BYTES = 1 << 40
_CHOICES = {"dtype": CCL_DTYPES, "topo": tuple(TOPO_NAME_TO_KIND), "tier": TIERS}


class CclTarget:
    """A collective with the parameters of `kbsim ccl run`; `verify` compares its numbers with the reference."""

    native = False
    default_machine = "single_cube"
    notes: Sequence[str] = ()

    def __init__(
        self,
        label: str,
        collective: str,
        params: Mapping[str, Any],
        verify: bool = False,
        *,
        files: Sequence[str | os.PathLike[str]] = (),
        allow_code: AllowCode = (),
    ) -> None:
        """`files`: files in the format of ccl.yaml, with more algorithms."""
        self.label = label
        self.collective = collective
        self.given = dict(params)
        self.verify = verify
        self._registry: Registry = read_registry(*map(Path, files), allow_code=allow_code)
        self._registry.find(collective)

    def checked(self, params: Mapping[str, Any]) -> dict[str, Any]:
        values = PARAMS | self.given | dict(params)
        for name, value in values.items():
            if rule := _broken(name, value):
                raise InputError(Problem(self.label, rule, name, value))
        self._entry(values)
        return values

    def fingerprint(self) -> str:
        verified = " verified" if self.verify else ""
        return f"ccl {self.collective} {package_digest('kernbench.ccl')} {times_digest()}{verified}"

    def longest(self, config: MachineConfig, params: Mapping[str, Any]) -> tuple[str, Machine]:
        return "", machine_of(*self.request(config, params))

    def request(self, config: MachineConfig, params: Mapping[str, Any]) -> tuple[CclRequest, int]:
        """The call, and its number of elements."""
        given = self.checked(params)
        entry = self._entry(given)
        group = group_of(config, shape_for(config, given["ranks"]), given["topo"])
        if group.kind_name not in entry.topologies:
            rule = f"{entry.full_name} is for {', '.join(entry.topologies)}, and this is a {group.kind_name}"
            raise InputError(Problem(self.label, rule, "topo", given["topo"]))
        if rule := entry.unfit(a_system(self.label, config), group):
            raise InputError(Problem(self.label, rule, "algo", entry.name))
        slot_bytes = None if given["slot_bytes"] is None else parse_size(given["slot_bytes"])
        sizes, system = (given["slots"], slot_bytes, given["tier"]), a_system(self.label, config)
        queues = queues_of(self._registry, entry, *sizes, config=system, group=group)
        what, itemsize = COLLECTIVES[self.collective], dtype_of(given["dtype"]).bits // 8
        count = what.count_of(parse_size(given["size"]), group.size, itemsize) if what.moves else 1
        return CclRequest(system, group, entry, given["dtype"], queues, self.verify), count

    def simulate(self, config: MachineConfig, params: Mapping[str, Any]) -> dict[str, Any]:
        request, count = self.request(config, params)
        made, outcome = row(request, count)
        timing = outcome.engine.get_timing_result()
        fields = measured(timing.result, request.config.freq_ghz)
        fields["jobs"], fields["jobs_hash"] = _hash_of_ranks(timing)
        if made is not None:
            fields["metrics"] |= {"bound": round(made.bound_share * made.cycles), "bound_by": made.bound, "busbw": made.busbw}
            if made.wrong is not None:
                fields["metrics"]["verified"] = made.wrong == 0
            if made.wrong:
                fields |= {"status": "failed", "error": f"{made.wrong} elements differ from the reference"}
        return fields

    def _entry(self, values: Mapping[str, Any]) -> Entry:
        return self._registry.find(self.collective, values["algo"])

    def plain(self) -> dict[str, Any]:
        return {"ccl": self.collective, "label": self.label, "params": self.given, "verify": self.verify}


def _broken(name: str, value: Any) -> str:
    """The rule that a parameter breaks, or an empty text."""
    if name not in PARAMS:
        return f"there is no such parameter; there are {', '.join(PARAMS)}"
    if value is None and PARAMS[name] is None:
        return ""
    if name in ("ranks", "slots"):
        least = 2 if name == "ranks" else 1
        return "" if type(value) is int and value >= least else f"it must be an integer of at least {least}"
    if name in ("size", "slot_bytes"):
        try:
            return "" if 0 < parse_size(value) <= MAX_BYTES else "it must be 1 byte to 1 TiB"
        except ValueError as error:
            return str(error)
    if name in _CHOICES and value not in _CHOICES[name]:
        return f"it must be one of {', '.join(_CHOICES[name])}"
    return "" if isinstance(value, str) else "it must be text"


def _hash_of_ranks(timing: TimingResult) -> tuple[int, str]:
    """The number of participating PEs, and the hash of their times; the run keeps no log of its commands."""
    digest, count = hashlib.sha256(), 0
    for launch in timing.launches:
        for pe, times in launch.pes.items():
            digest.update(f"{launch.name} {pe} {asdict(times)}\n".encode())
            count += 1
    return count, digest.hexdigest()
