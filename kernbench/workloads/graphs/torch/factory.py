"""The model that `kbsim torch` is given: made by a function of a Python file, with its example inputs."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kernbench.common.errors import InputError, Problem
from kernbench.common.files import no_file
from kernbench.common.spelling import meant
from kernbench.common.user_modules import Unloadable, execute, loading
from kernbench.workloads.graphs.torch.program import import_torch

_RETURNS = "it must return (model, args) or (model, args, kwargs): a torch.nn.Module, a tuple and a dict"


@dataclass(frozen=True, slots=True)
class Made:
    """A model with example inputs."""

    name: str
    model: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any] = field(default_factory=dict)


def load_factory(target: str) -> Made:
    """The return value of the function `FILE.py:FACTORY`. InputError if there is no such thing, or it is no model with
    inputs."""
    stem, dot_py, name = target.rpartition(".py")
    if not dot_py or not name.startswith(":") or not name[1:]:
        remedy = "FACTORY is the name of a function that returns (model, args); for example model.py:make"
        raise InputError(Problem("kbsim torch", "it must be FILE.py:FACTORY", "FILE:FACTORY", target, remedy))
    path, name = Path(f"{stem}.py"), name[1:]
    if not os.path.isfile(path):
        raise InputError(Problem(str(path), no_file(path), remedy="check the path"))
    torch = import_torch()
    made = _call(path, name)
    if isinstance(made, torch.nn.Module) or not isinstance(made, tuple) or len(made) not in (2, 3):
        raise InputError(Problem(f"{path}:{name}", _RETURNS, "returned", type(made).__name__))
    model, args, kwargs = (*made, {})[:3]
    args = tuple(args) if isinstance(args, (list, tuple)) else (args,)
    if not isinstance(model, torch.nn.Module) or not isinstance(kwargs, Mapping):
        raise InputError(Problem(f"{path}:{name}", _RETURNS, "returned", f"({type(model).__name__}, ...)"))
    return Made(name, model.eval(), args, kwargs)


def _call(path: Path, name: str) -> Any:
    """Run the file, and the function. InputError with the line where either raises."""
    spec = importlib.util.spec_from_file_location(f"kernbench_user_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise InputError(Problem(str(path), "the file is not a Python module"))
    folder = str(path.parent.resolve())
    sys.path.insert(0, folder)
    try:
        module = execute(spec)
        factory = getattr(module, name, None)
        if not callable(factory):
            there = [key for key, value in vars(module).items() if callable(value) and not key.startswith("_")]
            rule = f"there is no function of that name in it; it has {', '.join(there) or 'none'}"
            raise InputError(Problem(str(path), rule, "FACTORY", name, meant(name, there)))
        with loading(str(path)):
            return factory()
    except Unloadable as error:
        place = error.place.replace(str(spec.origin), str(path))
        raise InputError(Problem(place, error.rule)) from error
    finally:
        sys.path.remove(folder)
