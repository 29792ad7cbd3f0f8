"""Fixtures of several unit tests."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from tests.unit.torch_fake import FakeTensor


@pytest.fixture
def fake_torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A module `torch` with as much of torch as `dist` uses."""
    made: Any = ModuleType("torch")
    made.from_numpy = FakeTensor
    monkeypatch.setitem(sys.modules, "torch", made)
    monkeypatch.setattr(FakeTensor, "__module__", "torch")
    return made
