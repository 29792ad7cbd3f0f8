"""Names of Gluon that belong to one kind of GPU: files import them, and a use raises an error."""

from __future__ import annotations

from typing import Any, NoReturn

from kernbench.triton.dtypes import refuse


class Refused:
    """A name that is not supported."""

    def __init__(self, name: str) -> None:
        self._name = name

    def _refuse(self) -> NoReturn:
        refuse(f"{self._name} is not supported: it belongs to one kind of GPU; use ops of triton.language")

    def __call__(self, *args: Any, **kwargs: Any) -> NoReturn:
        self._refuse()

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        self._refuse()


def refused(module: str, name: str) -> Refused:
    """Return what stands for a name of a module. Raises AttributeError for names that Python itself asks for."""
    if name.startswith("__"):
        raise AttributeError(name)
    return Refused(f"{module}.{name}")
