"""Sends and receives between two ranks, and batches of sends and receives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from kernbench.ccl.dist.errors import ArgumentError, EmptyListError
from kernbench.ccl.dist.process_groups import (
    NotMemberError,
    check_named_rank,
    get_group_rank,
    group_of,
    members_only,
    named_rank,
)
from kernbench.ccl.dist.tensors import Given
from kernbench.ccl.dist.work import Work
from kernbench.ccl.dist.workers import joined
from kernbench.ccl.dist.world import ANY, Post
from kernbench.ccl.process_groups import ProcessGroup
from kernbench.common.errors import Problem


def _pair(
    name: str, field: str, tensor: Any, peer: Any, group: ProcessGroup | None, tag: int, in_group: Any, async_op: bool
) -> Work:
    given = Given(name)
    if name == "send":
        check_named_rank(name, group, field, peer, in_group)
    members = group_of(name, group)
    from_any = name == "recv" and peer is None and in_group is None
    other = ANY if from_any else named_rank(name, members, field, peer, in_group, pair=True)
    local = given.one(tensor, written=name == "recv")
    return given.work(Post(name, members, (), local, async_op, other, tag))


def send(
    tensor: Any, dst: int | None = None, group: ProcessGroup | None = None, tag: int = 0, group_dst: int | None = None
) -> None:
    """Send a tensor to rank `dst`, which must call `recv`, and wait for that call.

    `dst` is a rank among all workers; `group_dst`, if given, is a rank in the group. A send and its receive have the same
    `tag`.

    Parameters
    ----------
    tensor
        The tensor to send.
    dst
        The receiver: a rank among all workers.
    group
        The process group; None means all workers.
    tag
        A number that a send and its receive share.
    group_dst
        The receiver as a rank of the group, instead of `dst`.

    Raises
    ------
    InputError
        If the sizes or types of the two tensors differ, if the rank does not exist, or if the calling worker is not a member of
        the group.

    Example
    -------
    >>> x = dist.from_numpy(np.full(2, rank, np.float32))
    >>> if rank == 0:
    ...     dist.send(x, dst=1)
    ... elif rank == 1:
    ...     dist.recv(x, src=0)
    >>> rank != 1 or dist.to_numpy(x).tolist() == [0.0, 0.0]
    True
    """
    try:
        _pair("send", "dst", tensor, dst, group, tag, group_dst, False)
    except NotMemberError as error:
        rule, _, _ = str(error).removeprefix("dist.send: ").partition(", and the call")
        raise ArgumentError(Problem("dist.send", rule)) from None


@members_only(-1)
def recv(
    tensor: Any, src: int | None = None, group: ProcessGroup | None = None, tag: int = 0, group_src: int | None = None
) -> int:
    """Receive a tensor from rank `src`, and return the rank of the sender among all workers.

    `src` is a rank among all workers; `group_src`, if given, is a rank in the group. Without both, the tensor comes from the
    rank that called `send` first. A send and its receive have the same `tag`.

    Parameters
    ----------
    tensor
        The tensor that is overwritten, with the size and type of the tensor that was sent.
    src
        The sender: a rank among all workers.
    group
        The process group; None means all workers.
    tag
        A number that a send and its receive share.
    group_src
        The sender as a rank of the group, instead of `src`.

    Returns
    -------
    int
        The rank of the sender among all workers; -1 on a rank outside the group.

    Raises
    ------
    InputError
        If the sizes or types of the two tensors differ, or if the rank does not exist.

    Example
    -------
    >>> x = dist.from_numpy(np.full(2, rank, np.float32))
    >>> if rank == 2:
    ...     dist.send(x, dst=0)
    >>> rank > 0 or dist.recv(x) == 2
    True
    """
    return _pair("recv", "src", tensor, src, group, tag, group_src, False).sender()


@members_only()
def isend(
    tensor: Any, dst: int | None = None, group: ProcessGroup | None = None, tag: int = 0, group_dst: int | None = None
) -> Work:
    """Send a tensor as `send` does, but return a Work handle without waiting.

    Parameters
    ----------
    tensor, dst, group, tag, group_dst
        As in `send`.

    Raises
    ------
    InputError
        As in `send`.

    Example
    -------
    >>> x = dist.from_numpy(np.full(2, rank, np.float32))
    >>> y = dist.from_numpy(np.zeros(2, np.float32))
    >>> work = dist.isend(x, (rank + 1) % 8)
    >>> _ = dist.recv(y, (rank - 1) % 8)
    >>> work.wait()
    True
    >>> dist.to_numpy(y).tolist() == [(rank - 1) % 8] * 2
    True
    """
    return _pair("send", "dst", tensor, dst, group, tag, group_dst, True)


@members_only()
def irecv(
    tensor: Any, src: int | None = None, group: ProcessGroup | None = None, tag: int = 0, group_src: int | None = None
) -> Work:
    """Receive a tensor as `recv` does, but return a Work handle without waiting.

    Parameters
    ----------
    tensor, src, group, tag, group_src
        As in `recv`.

    Raises
    ------
    InputError
        As in `recv`.

    Example
    -------
    >>> x = dist.from_numpy(np.full(2, rank, np.float32))
    >>> y = dist.from_numpy(np.zeros(2, np.float32))
    >>> work = dist.irecv(y, (rank - 1) % 8)
    >>> dist.send(x, (rank + 1) % 8)
    >>> work.wait()
    True
    >>> dist.to_numpy(y).tolist() == [(rank - 1) % 8] * 2
    True
    """
    return _pair("recv", "src", tensor, src, group, tag, group_src, True)


@dataclass(eq=False)
class P2POp:
    """A send or receive of a batch: the function `isend` or `irecv`, its tensor, and the other rank.

    Either `peer`, a rank among all workers, or `group_peer`, a rank in the group, is given. Afterwards, both are set.
    """

    op: Callable[..., Work]
    tensor: Any
    peer: int | None = None
    group: ProcessGroup | None = None
    tag: int = 0
    group_peer: int | None = None

    def __post_init__(self) -> None:
        if self.op not in (isend, irecv):
            raise ArgumentError(Problem("dist.P2POp", "it must be dist.isend or dist.irecv", "op", str(self.op)))
        members = joined("P2POp").world.ranks if self.group is None else self.group
        self.peer = named_rank("P2POp", members, "peer", self.peer, self.group_peer)
        self.group_peer = get_group_rank(members, self.peer)


def batch_isend_irecv(p2p_op_list: Sequence[P2POp]) -> list[Work]:
    """Start several sends and receives of one group together. They run at the same time, in any order.

    Parameters
    ----------
    p2p_op_list
        The sends and receives, as P2POp objects of one group.

    Returns
    -------
    list of Work
        One handle for each operation; none on a rank outside the group.

    Raises
    ------
    InputError
        If the list is empty, contains another object, or has operations of several groups.

    Example
    -------
    >>> x = dist.from_numpy(np.full(2, rank, np.float32))
    >>> y = dist.from_numpy(np.zeros(2, np.float32))
    >>> ops = [dist.P2POp(dist.isend, x, (rank + 1) % 8), dist.P2POp(dist.irecv, y, (rank - 1) % 8)]
    >>> for work in dist.batch_isend_irecv(ops):
    ...     _ = work.wait()
    >>> dist.to_numpy(y).tolist() == [(rank - 1) % 8] * 2
    True
    """
    if not isinstance(p2p_op_list, list) or not all(isinstance(one, P2POp) for one in p2p_op_list):
        raise ArgumentError(Problem("dist.batch_isend_irecv", "it must be a list of dist.P2POp objects"))
    if not p2p_op_list:
        raise EmptyListError(Problem("dist.batch_isend_irecv", "the list must have at least one dist.P2POp object"))
    if any(one.group != p2p_op_list[0].group for one in p2p_op_list):
        raise ArgumentError(Problem("dist.batch_isend_irecv", "all dist.P2POp objects must have the same group"))
    works = [one.op(one.tensor, one.peer, one.group, one.tag) for one in p2p_op_list]
    return [one for one in works if one is not None]  # a worker that is not a member has no works
