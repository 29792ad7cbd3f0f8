"""`triton.aggregate`: classes whose fields are tensors and constants. Kernels make instances and call their methods."""

from __future__ import annotations

import copy
from dataclasses import dataclass
from typing import Any

from kernbench.triton.dtypes import TritonError


def aggregate(cls: type) -> type:
    """Make a class whose instances kernels create, and whose fields are fixed after `__init__`.

    A class without an `__init__` gets one that takes the annotated fields as parameters.

    Raises
    ------
    TritonError
        If a field is assigned after `__init__`, as in Triton. Use `tl.aggregate_replace` to make a changed copy.
    """
    made: Any = dataclass(eq=False)(cls) if "__init__" not in cls.__dict__ else cls
    names = [name for one in reversed(made.__mro__) for name in getattr(one, "__annotations__", {})]
    begin = made.__init__

    def init(self: Any, *args: Any, **kwargs: Any) -> None:
        object.__setattr__(self, "_fields_are_set", False)
        begin(self, *args, **kwargs)
        absent = [name for name in names if not hasattr(self, name)]
        if absent:
            raise TritonError(f"{cls.__name__}.__init__ must set the fields {', '.join(absent)}")
        object.__setattr__(self, "_fields_are_set", True)

    def set_field(self: Any, name: str, value: Any) -> None:
        if name not in names:
            raise TritonError(f"{cls.__name__} has no field {name}; it has {', '.join(names)}")
        if self._fields_are_set:
            raise TritonError(f"{cls.__name__}.{name} is set already; tl.aggregate_replace makes a changed copy")
        object.__setattr__(self, name, value)

    made.__init__, made.__setattr__, made.__triton_aggregate__ = init, set_field, True
    return made  # type: ignore[no-any-return]


def aggregate_replace(instance: Any, **changes: Any) -> Any:
    """Return a copy of an aggregate in which the named fields have new values."""
    if not getattr(type(instance), "__triton_aggregate__", False):
        raise TritonError(f"tl.aggregate_replace needs an aggregate, not a {type(instance).__name__}")
    made = copy.copy(instance)
    for name, value in changes.items():
        if not hasattr(made, name):
            raise TritonError(f"{type(instance).__name__} has no field {name}")
        object.__setattr__(made, name, value)
    return made
