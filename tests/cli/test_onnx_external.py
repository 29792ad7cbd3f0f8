"""Values of an ONNX model in files beside it: which are read, and which are refused with exit code 2."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.cli.conftest import Kbsim
from tests.onnx_models import Builder, TensorProto


def sum_of_a_constant() -> Any:
    """Five numbers are added to an input."""
    b = Builder(17)
    b.output(b.node("Add", b.input("x", 6, 5), b.constant("c", [1, 2, 3, 4, 5], np.float32), name="sum"))
    return b.model()


@pytest.mark.parametrize(
    ("location", "more", "message"),
    [
        ("/dev/zero", {}, 'location = "/dev/zero", but it must be the name of a file in the folder of the model'),
        ("../x", {}, 'location = "../x", but it must be the name of a file in the folder of the model'),
        ("", {}, 'location = "", but it must be the name of a file in the folder of the model'),
        (
            "zero",
            {},
            'location = "zero", but it must be the name of a file in the folder of the model; it is a link to a file outside '
            "the folder of the model",
        ),
        ("pipe", {}, 'location = "pipe", but it must be a file, no directory, pipe or device'),
        (".", {}, 'location = ".", but it must be a file, no directory, pipe or device'),
        ("none", {}, 'location = "none", but its values cannot be read: No such file or directory'),
        ("a\0b", {}, 'location = "a\\u0000b", but its values cannot be read: embedded null byte'),
        ("round", {}, 'location = "round", but its values cannot be read: '),
        ("huge", {"length": "-1"}, 'length = "-1", but it must be a whole number of bytes'),
        ("huge", {"offset": "9" * 30}, f'offset = "{"9" * 30}", but it must be a whole number of bytes'),
        (
            "huge",
            {"length": str(1 << 39)},
            f"length = {1 << 39}, but the file has 80 bytes from offset 0 on, and the initializer takes at most 80",
        ),
    ],
)
def test_values_in_files_beside(location: str, more: dict[str, str], message: str, kbsim: Kbsim) -> None:
    """A file of 1 TiB, devices, pipes and links are never read."""
    Path("zero").symlink_to("/dev/zero")
    Path("round").symlink_to("round")
    os.mkfifo("pipe")
    with Path("huge").open("wb") as file:
        file.truncate(1 << 40)
    model = sum_of_a_constant()
    item = model.graph.initializer[0]
    item.ClearField("raw_data")
    item.data_location = TensorProto.EXTERNAL
    for key, value in {"location": location, **more}.items():
        entry = item.external_data.add()
        entry.key, entry.value = key, value
    Path("m.onnx").write_bytes(model.SerializeToString())
    said = kbsim("onnx", "m.onnx")
    assert said.code == 2 and said.err.startswith(f"error: m.onnx: initializer c: {message}")


def test_a_link_to_a_model_with_its_values(kbsim: Kbsim) -> None:
    """As a cache of models has it: both names are links, the files are elsewhere."""
    Path("blobs").mkdir()
    Path("snapshot").mkdir()
    model = sum_of_a_constant()
    item = model.graph.initializer[0]
    Path("blobs/values").write_bytes(item.raw_data)
    item.ClearField("raw_data")
    item.data_location = TensorProto.EXTERNAL
    entry = item.external_data.add()
    entry.key, entry.value = "location", "m.data"
    Path("blobs/model").write_bytes(model.SerializeToString())
    Path("snapshot/m.onnx").symlink_to("../blobs/model")
    Path("snapshot/m.data").symlink_to("../blobs/values")
    assert kbsim("onnx", "snapshot/m.onnx", "-q") == (0, "", "")
