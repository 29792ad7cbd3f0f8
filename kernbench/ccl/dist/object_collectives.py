"""Collectives of Python objects, which raise an error because Python objects have no size in the model."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

from kernbench.common.errors import InputError, Problem


def _refused(name: str) -> Callable[..., NoReturn]:
    def refused(*args: Any, **kwargs: Any) -> NoReturn:
        rule = "it sends Python objects, whose bytes are not part of the model"
        raise InputError(Problem(f"dist.{name}", rule, remedy="send their elements as tensors"))

    refused.__name__ = name
    refused.__doc__ = "Refused: Python objects have no size in the model."
    return refused


all_gather_object = _refused("all_gather_object")
broadcast_object_list = _refused("broadcast_object_list")
gather_object = _refused("gather_object")
scatter_object_list = _refused("scatter_object_list")
send_object_list = _refused("send_object_list")
recv_object_list = _refused("recv_object_list")
