"""`triton.knobs`: settings of Triton's compiler. Programs can read and set them; the settings have no effect here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class base_knobs:
    """A group of settings. A setting that was never set is None."""

    def __init__(self, **values: Any) -> None:
        self.__dict__.update(values)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return None

    @property
    def knob_descriptors(self) -> dict[str, Any]:
        """Return the settings that follow environment variables. There are none."""
        return {}

    def copy(self) -> base_knobs:
        """Return an independent copy of the settings."""
        return base_knobs(**self.__dict__)

    def reset(self) -> base_knobs:
        """Remove all settings that were set, and return the group."""
        self.__dict__.clear()
        return self

    @contextmanager
    def scope(self) -> Iterator[None]:
        """Return a context manager that restores the settings at the end of the `with` block."""
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
