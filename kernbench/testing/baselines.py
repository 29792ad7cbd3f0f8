"""The file of baselines: the cycles of each named run, and their groups by `why`."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import read_bounded, write_whole

VERSION = 1  #: version of the file format
MAX_BYTES = 16 << 20  # [B] largest size of a file
REMEDY = "restore it, or delete it and run pytest --kbsim-update"


@dataclass(frozen=True)
class Baseline:
    """The recorded run with which later runs are compared."""

    cycles: int  #: [cycle] duration of the run
    model_version: int  #: version of the timing rules of the run
    groups: Mapping[str, float] = field(default_factory=dict)  #: [cycle] by group of `why`; empty if unknown

    def to_dict(self) -> dict[str, Any]:
        """The baseline in the format of the file."""
        return {"cycles": self.cycles, "groups": dict(sorted(self.groups.items())), "model_version": self.model_version}


def read_baselines(path: Path) -> dict[str, Baseline]:
    """The baselines of a file, by name; empty if the file does not exist. InputError if the file is not a file of baselines."""
    if not path.exists():
        return {}
    content = read_bounded(path, MAX_BYTES, what="the file of baselines")
    try:
        plain = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise InputError(Problem(str(path), f"this is not valid JSON: {error}", remedy=REMEDY)) from None
    if not isinstance(plain, dict) or plain.get("version") != VERSION or not isinstance(plain.get("baselines"), dict):
        rule = f'a file of baselines has "version": {VERSION} and a mapping "baselines"'
        raise InputError(Problem(str(path), rule, remedy=REMEDY))
    return {name: _baseline(path, name, one) for name, one in plain["baselines"].items()}


def _baseline(path: Path, name: str, plain: Any) -> Baseline:
    known = {"cycles", "groups", "model_version"}
    if not isinstance(plain, dict) or set(plain) != known:
        raise InputError(Problem(f"{path}: {name}", f"a baseline has the keys {', '.join(sorted(known))}", remedy=REMEDY))
    for key in ("cycles", "model_version"):
        if type(plain[key]) is not int or plain[key] < 0:
            raise InputError(Problem(f"{path}: {name}", "it must be an integer of 0 or more", key, plain[key], REMEDY))
    groups = plain["groups"]
    numbers: list[Any] = list(groups.values()) if isinstance(groups, dict) else [None]
    if not all(type(one) in (int, float) and math.isfinite(one) for one in numbers):
        raise InputError(Problem(f"{path}: {name}", "it must be a mapping from names to numbers", "groups", groups, REMEDY))
    return Baseline(plain["cycles"], plain["model_version"], groups)


def write_baselines(path: Path, baselines: Mapping[str, Baseline]) -> None:
    """Write all baselines, sorted by name; if writing fails, the earlier file is kept."""
    plain = {"version": VERSION, "baselines": {name: baselines[name].to_dict() for name in sorted(baselines)}}
    write_whole(path, (json.dumps(plain, indent=2, ensure_ascii=False) + "\n").encode())
