"""Checks of the types of arguments of the public functions, so that a wrong type is an error with a remedy."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import wraps
from types import MappingProxyType
from typing import Any, ParamSpec, TypeVar

from kernbench.common.errors import InputError, Problem, shown
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

#: Arguments of `llm` that `kernbench.serving.generate` takes: the first by position, the others by these names.
_GENERATE_FIRST = ("model", "config", "runtime")
_GENERATE = {
    **{name: name for name in ("prompt", "tokens", "batch", "tp")},
    "w": "weight_bits", "a": "activation_bits", "kv": "kv_bits",
}


def generate_call(given: Mapping[str, Any]) -> str:
    """The call of `kernbench.serving.generate` for a call of `llm` with a runtime profile."""
    named = {"prompt": 128, "tokens": 16} | {name: value for name, value in given.items() if value is not None}
    first = {"model": "llama2-7b", "config": "a100"} | named
    texts = [shown(os.fspath(one)) if isinstance(one := first[name], (str, os.PathLike)) else name for name in _GENERATE_FIRST]
    texts += [f"{other}={shown(named[name])}" for name, other in _GENERATE.items() if name in named]
    if named.get("phase", "both") != "both":
        texts.append(f"phases=[{shown(named['phase'])}]")
    rest = [name for name in named if name not in (*_GENERATE_FIRST, *_GENERATE, "phase")]
    left_out = f", without {', '.join(rest)}" if rest else ""
    return f"for the kernels of a chip under a runtime profile, call kernbench.serving.generate({', '.join(texts)}){left_out}"


#: Options of commands that another function has as an argument: the remedy, by the function and the name.
OF_OTHERS: dict[tuple[str, str], Callable[[Mapping[str, Any]], str]] = {("llm", "runtime"): generate_call}


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
                near, named = argument_meant(name, function), dict(zip(known, args, strict=False)) | given
                raise InputError(_no_argument(function, name, value, near, named))
        return function(*args, **given)

    return checked


def _no_argument(
    function: Callable[..., Any], name: str, value: Any, near: str, given: Mapping[str, Any] = MappingProxyType({})
) -> Problem:
    """`given`: all arguments of the call, by name."""
    remedy = f"did you mean {near}?" if near else f"the arguments are {', '.join(_arguments(function))}"
    if other := OF_OTHERS.get((function.__name__, name)):
        remedy = other(given)
    return Problem(f"kernbench.{function.__name__}", "there is no such argument", name, value, remedy)
