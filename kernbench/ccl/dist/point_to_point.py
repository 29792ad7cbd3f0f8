"""Sends and receives between two ranks, and batches of sends and receives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kernbench.ccl.dist.errors import ArgumentError
from kernbench.ccl.dist.process_groups import group_of, members_only, other_of
from kernbench.ccl.dist.tensors import Given
from kernbench.ccl.dist.work import Work
from kernbench.ccl.dist.world import ANY, Post
from kernbench.ccl.process_groups import ProcessGroup
from kernbench.common.errors import Problem


def _pair(
    name: str, field: str, tensor: Any, peer: Any, group: ProcessGroup | None, tag: int, in_group: Any, async_op: bool
) -> Work:
    given, members = Given(name), group_of(name, group)
    from_any = name == "recv" and peer is None and in_group is None
    other = ANY if from_any else other_of(name, members, field, peer, in_group)
    local = given.one(tensor, written=name == "recv")
    return given.work(Post(name, members, (), local, async_op, other, tag))


@members_only()
def send(
    tensor: Any, dst: int | None = None, group: ProcessGroup | None = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """Send a tensor to rank `dst`, which must call `recv`, and wait for that call.

    `dst` is a rank among all workers; `group_dst`, if given, is a rank in the group. A send and its receive have the same
    `tag`.
    """
    _pair("send", "dst", tensor, dst, group, tag, group_dst, False)


@members_only(-1)
def recv(
    tensor: Any, src: int | None = None, group: ProcessGroup | None = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Receive a tensor from rank `src`, and return the rank of the sender among all workers.

    `src` is a rank among all workers; `group_src`, if given, is a rank in the group. Without both, the tensor comes from the
    rank that called `send` first. A send and its receive have the same `tag`.
    """
    return _pair("recv", "src", tensor, src, group, tag, group_src, False).sender()


@members_only()
def isend(
    tensor: Any, dst: int | None = None, group: ProcessGroup | None = None, tag: int = 0, group_dst: int | None = None
) -> Work:
    """Send a tensor as `send` does, but return a Work handle without waiting."""
    return _pair("send", "dst", tensor, dst, group, tag, group_dst, True)


@members_only()
def irecv(
    tensor: Any, src: int | None = None, group: ProcessGroup | None = None, tag: int = 0, group_src: int | None = None
) -> Work:
    """Receive a tensor as `recv` does, but return a Work handle without waiting."""
    return _pair("recv", "src", tensor, src, group, tag, group_src, True)


@dataclass(frozen=True, eq=False)
class P2POp:
    """A send or receive of a batch: the function `isend` or `irecv`, its tensor, and the other rank."""

    op: Callable[..., Work]
    tensor: Any
    peer: int | None = None
    group: ProcessGroup | None = None
    tag: int = 0
    group_peer: int | None = None

    def __post_init__(self) -> None:
        if self.op not in (isend, irecv):
            raise ArgumentError(Problem("dist.P2POp", "it must be dist.isend or dist.irecv", "op", str(self.op)))


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Start several sends and receives together. They run at the same time, in any order."""
    for one in p2p_op_list:
        if not isinstance(one, P2POp):
            rule = "it must be a list of dist.P2POp objects"
            raise ArgumentError(Problem("dist.batch_isend_irecv", rule))
    return [one.op(one.tensor, one.peer, one.group, one.tag, one.group_peer) for one in p2p_op_list]
