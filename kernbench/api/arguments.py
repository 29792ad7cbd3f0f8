"""Checks of the types of arguments of the public functions, so that a wrong type is an error with a remedy."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from typing import Any, ParamSpec, TypeVar

from kernbench.common.errors import InputError, Problem
from kernbench.common.spelling import nearest

P = ParamSpec("P")
T = TypeVar("T")


def check_kind(name: str, value: Any, kinds: type | tuple[type, ...], words: str, remedy: str = "") -> None:
    """Raise InputError if an argument is of none of these types. `words`: what it must be, such as `a name or a file`."""
    if not isinstance(value, kinds):
        raise InputError(Problem(name, f"it must be {words}, and it is of type {type(value).__name__}", remedy=remedy))


def check_path(name: str, value: Any, words: str) -> None:
    """Raise InputError if an argument is neither a text nor a path."""
    check_kind(name, value, (str, os.PathLike), words)


def check_list(name: str, value: Any, words: str) -> None:
    """Raise InputError if an argument is not a list; one text is not a list of its characters."""
    if isinstance(value, str) or not isinstance(value, Sequence):
        remedy = f"give [{value!r}]" if isinstance(value, (str, int)) else ""
        raise InputError(Problem(name, f"it must be {words}, and it is of type {type(value).__name__}", remedy=remedy))


def check_mapping(name: str, value: Any, words: str) -> None:
    """Raise InputError if an argument is neither None nor a mapping."""
    check_kind(name, value, (Mapping, type(None)), words)


def check_flag(where: str, name: str, value: Any) -> None:
    """Raise InputError if an argument is neither True nor False."""
    if not isinstance(value, bool):
        raise InputError(Problem(where, "it must be True or False", name, value))


def check_count(where: str, name: str, value: Any) -> None:
    """Raise InputError if an argument is neither None nor an integer of at least 1."""
    if value is not None and (type(value) is not int or value < 1):
        raise InputError(Problem(where, "it must be an integer of at least 1", name, value))


#: Names of arguments in other programs and in `kbsim`, and the names here.
SYNONYMS = {
    **dict.fromkeys(("cfg", "conf", "configs", "machine", "machines", "device", "chip"), "config"),
    **dict.fromkeys(("set", "sets", "override", "settings"), "overrides"),
    **dict.fromkeys(("check", "verified"), "verify"),
    **dict.fromkeys(("level", "tracelevel"), "trace_level"),
    **dict.fromkeys(("trace_file", "trace_path"), "trace"),
    **dict.fromkeys(("bs", "batch_size"), "batch"),
    **dict.fromkeys(("context", "contexts", "context_len", "prompt_len", "input_len", "isl", "seq_len"), "prompt"),
    **dict.fromkeys(("output_len", "osl", "max_tokens", "max_new_tokens"), "tokens"),
    **dict.fromkeys(("num_layers", "n_layers", "num_hidden_layers"), "layers"),
    **dict.fromkeys(("tensor_parallel", "tensor_parallel_size", "tp_size"), "tp"),
    **dict.fromkeys(("pipeline_parallel_size", "pp_size"), "pp"),
    **dict.fromkeys(("data_parallel_size", "dp_size"), "dp"),
    **dict.fromkeys(("iterations", "n_runs"), "runs"),
    **dict.fromkeys(("seconds", "timeout"), "time_budget"),
    **dict.fromkeys(("resources", "resource"), "free"),
    **dict.fromkeys(("suite", "names"), "suites"),
    **dict.fromkeys(("max_cycles", "limit", "budget", "atmost"), "at_most"),
}

#: Options of commands that another function has as an argument: the call that takes it, by the function and the name.
OF_OTHERS = {("llm", "runtime"): 'kernbench.serving.generate("llama2-7b", "a100", "vllm", prompt=128, tokens=16)'}


def argument_meant(name: str, function: Callable[..., Any]) -> str:
    """The argument of a function that an unknown name probably means; empty if none is near."""
    known = _arguments(function)
    found = SYNONYMS.get(name, "")
    return next((one for one in (found, f"{found}s") if one in known), "") or nearest(name, known, cutoff=0.75)


def _arguments(function: Callable[..., Any]) -> list[str]:
    code = function.__code__
    return list(code.co_varnames[: code.co_argcount + code.co_kwonlyargcount])


def check_params(function: Callable[..., Any], given: Mapping[str, Any], known: Collection[str]) -> None:
    """Raise InputError for a parameter of a target that has another name than all of the target's own parameters (`known`) and
    resembles an argument of the function: `cfg` for `config`."""
    for name, value in given.items():
        if name not in known and not nearest(name, known) and (near := argument_meant(name, function)):
            raise InputError(_no_argument(function, name, value, near))


def names_checked(function: Callable[P, T]) -> Callable[P, T]:
    """The function, which raises InputError with the probable name for an argument that it does not have."""

    known = _arguments(function)

    @wraps(function)
    def checked(*args: P.args, **given: P.kwargs) -> T:
        __tracebackhide__ = True  # pytest shows the caller of `assert_cycles`
        for name, value in given.items():
            if name not in known:
                raise InputError(_no_argument(function, name, value, argument_meant(name, function)))
        return function(*args, **given)

    return checked


def _no_argument(function: Callable[..., Any], name: str, value: Any, near: str) -> Problem:
    remedy = f"did you mean {near}?" if near else f"the arguments are {', '.join(_arguments(function))}"
    if other := OF_OTHERS.get((function.__name__, name)):
        remedy = f"a runtime profile is an argument of another function: {other}"
    return Problem(f"kernbench.{function.__name__}", "there is no such argument", name, value, remedy)
