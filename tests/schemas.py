"""Validators of JSON Schemas. Each schema is itself checked once in a process: the check takes longer than what it is for."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from typing import Any

import jsonschema  # type: ignore[import-untyped]


@functools.cache
def validator_of(made: Callable[[], dict[str, Any]]) -> Any:
    """The validator of a schema that a function of the package makes."""
    return _checked(made())


@functools.cache
def validator_of_text(schema: str) -> Any:
    """The validator of a schema that was printed."""
    return _checked(json.loads(schema))


def _checked(schema: dict[str, Any]) -> Any:
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)
