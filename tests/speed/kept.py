"""Measurements without results that an earlier run kept in the user's cache."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
from unittest.mock import patch


def without_kept_results() -> AbstractContextManager[object]:
    """Runs and their child processes neither read nor write the user's cache."""
    return patch.dict(os.environ, KERNBENCH_CACHE="off")


def results_kept_in(folder: str) -> AbstractContextManager[object]:
    """Runs and their child processes use this folder as their cache."""
    return patch.dict(os.environ, KERNBENCH_CACHE=folder)
