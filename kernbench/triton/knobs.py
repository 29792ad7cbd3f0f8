"""`triton.knobs`: settings of Triton's compiler. They can be read and set, and change nothing here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class base_knobs:
    """A group of settings: a name that was not set is None."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    @property
    def knob_descriptors(self) -> dict[str, Any]:
        """Settings that follow variables of the environment: none."""
        return {}

    def copy(self) -> base_knobs:
        """The same settings as an object of their own."""
        return base_knobs(**self.__dict__)

    def reset(self) -> base_knobs:
        """Without what was set."""
        self.__dict__.clear()
        return self

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Settings made inside of the `with` block end with it."""
        kept = dict(self.__dict__)
        try:
            yield
        finally:
            self.__dict__.clear()
            self.__dict__.update(kept)


autotuning = base_knobs(print=False)
build = base_knobs()
cache = base_knobs()
compilation = base_knobs()
language = base_knobs()
nvidia = base_knobs()
amd = base_knobs()
proton = base_knobs()
redis = base_knobs()
runtime = base_knobs(interpret=True, debug=False)
propagate_env = True
