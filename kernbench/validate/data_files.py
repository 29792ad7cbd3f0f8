"""Reads a suite's data file, from the package."""

from __future__ import annotations

from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from kernbench.common.errors import ABSENT, InputError
from kernbench.config.document import MACHINE_BYTES, read_document
from kernbench.validate.suite import SuiteData

_FILE = TypeAdapter(SuiteData)


def read_suite_data(name: str) -> SuiteData:
    """The data of a suite of the package."""
    return read_data_file(Path(str(resources.files("kernbench.validate"))) / "data" / f"{name}.yaml")


def read_data_file(path: Path) -> SuiteData:
    """A data file; InputError with file, line and key where it is none."""
    document = read_document(path, MACHINE_BYTES)
    try:
        data = _FILE.validate_python(document.data)
    except ValidationError as error:
        items = error.errors(include_url=False)
        found = [(item["loc"], *_rule(item["type"], item["msg"], item["input"]), "") for item in items]
        raise InputError(document.problems(found)) from None
    if data.suite != path.stem:
        raise InputError(document.problem(("suite",), "it must be the name of the file", data.suite))
    return data


def _rule(kind: str, message: str, value: Any) -> tuple[str, Any]:
    """What pydantic says, in the words of other files' errors, and the value found."""
    if kind == "missing":
        return "the key is missing", ABSENT
    if kind == "unexpected_keyword_argument":
        return "there is no such key", ABSENT
    return message.lower(), value
