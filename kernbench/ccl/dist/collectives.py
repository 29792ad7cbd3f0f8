"""The collectives that workers call.

A tensor is a LocalTensor or a torch tensor on the host. With `async_op=True`, a call returns a Work handle at once; otherwise
it returns None when all ranks have made the call. `group` is a process group; None means all workers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from kernbench.ccl.collectives import COLLECTIVES
from kernbench.ccl.dist.errors import ArgumentError
from kernbench.ccl.dist.process_groups import check_named_rank, group_of, members_only, named_rank
from kernbench.ccl.dist.reductions import RedOpType, check_type, reduction_of
from kernbench.ccl.dist.tensors import Given
from kernbench.ccl.dist.work import Work, Works, together
from kernbench.ccl.dist.workers import joined
from kernbench.ccl.dist.world import LocalTensor, Post
from kernbench.ccl.process_groups import ProcessGroup
from kernbench.ccl.reduction import FLOATS_ONLY, SUM, Reduction
from kernbench.ccl.streams import Copy
from kernbench.common.dtypes import dtype_of
from kernbench.common.errors import Problem

Tensors = Any  #: a tensor, or a list of them


def _collective(
    given: Given,
    name: str,
    group: ProcessGroup,
    x: LocalTensor | None,
    out: LocalTensor | None,
    async_op: bool,
    *,
    op: Reduction = SUM,
    root: int | None = None,
    before: Sequence[Copy] = (),
    after: Sequence[Copy] = (),
) -> Work | None:
    """Post a collective. `before` and `after` are copies in the memory of this rank.

    Raises InputError if the sizes of the tensors do not fit.
    """
    collective, ranks, where = COLLECTIVES[name], group.size(), f"dist.{given.name}"
    if given.flags and op.name in FLOATS_ONLY:
        raise ArgumentError(Problem(where, "elements are bool, which cannot be multiplied or divided", "op", op.name))
    if given.flags and op == SUM:
        op = Reduction("max")  # the sum of truth values says whether one of them is true
    if given.complex and given.reduces and op.name not in ("sum", *FLOATS_ONLY):
        rule = "elements are complex numbers, which are reduced by SUM, AVG or PREMUL_SUM"
        raise ArgumentError(Problem(where, rule, "op", op.name))
    count, dtype = 1, "i32"
    if x is not None and out is not None:
        if x.dtype != out.dtype:
            raise ArgumentError(Problem(where, f"tensors of {x.dtype} and {out.dtype} are given, and both must have one type"))
        count, dtype = x.size // ranks if collective.blocks_in else x.size, x.dtype
        sizes = (collective.has(count, ranks), collective.gets(count, ranks))
        if (x.size, out.size) != sizes:
            rule = f"tensors of {x.size} and {out.size} elements do not fit for {ranks} ranks"
            raise ArgumentError(Problem(where, rule))
    check_type(where, op, dtype)
    form = (root, op, dtype, count)
    return given.call(Post(name, group, form, (x, out, before, after), async_op))


@members_only()
def all_reduce(tensor: Any, op: Any = RedOpType.SUM, group: ProcessGroup | None = None, async_op: bool = False) -> Work | None:
    """Reduce the tensors of all ranks, and write the result to the tensor of every rank.

    Parameters
    ----------
    tensor
        The tensor of this rank, which is overwritten. All ranks have the same size and type.
    op
        The reduction, such as `ReduceOp.SUM` or `ReduceOp.MAX`.
    group
        The process group; None means all workers.
    async_op
        Whether the call returns a Work handle without waiting.

    Raises
    ------
    InputError
        If tensors do not match.

    Example
    -------
    >>> x = dist.from_numpy(np.full(1024, rank, np.float16))
    >>> dist.all_reduce(x)
    >>> dist.to_numpy(x)[0].item()
    28.0
    """
    given, members = Given("all_reduce", True, "all_reduce"), group_of("all_reduce", group)
    local = given.one(tensor, written=True)
    return _collective(given, "all_reduce", members, local, local, async_op, op=reduction_of("dist.all_reduce", op))


@members_only()
def broadcast(
    tensor: Any,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copy the tensor of rank `src` to the tensor of every rank.

    Either `src`, a rank among all workers, or `group_src`, a rank in the group, is given.

    Parameters
    ----------
    tensor
        The tensor of this rank: read on rank `src`, overwritten on the others. All ranks have the same size and type.
    src
        The root: a rank among all workers.
    group
        The process group; None means all workers.
    async_op
        Whether the call returns a Work handle without waiting.
    group_src
        The root as a rank of the group, instead of `src`.

    Raises
    ------
    InputError
        If the tensors of the ranks do not match in size or type, or if a rank is not in the group.

    Example
    -------
    >>> x = dist.from_numpy(np.full(4, rank, np.float32))
    >>> dist.broadcast(x, src=3)
    >>> dist.to_numpy(x).tolist()
    [3.0, 3.0, 3.0, 3.0]
    """
    given = Given("broadcast")
    check_named_rank("broadcast", group, "src", src, group_src)
    members = group_of("broadcast", group)
    root = named_rank("broadcast", members, "src", src, group_src)
    local = given.one(tensor, written=True)
    return _collective(given, "broadcast", members, local, local, async_op, root=root)


@members_only()
def reduce(
    tensor: Any,
    dst: int | None = None,
    op: Any = RedOpType.SUM,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Reduce the tensors of all ranks, and write the result to the tensor of rank `dst`. Other tensors are unchanged.

    Either `dst`, a rank among all workers, or `group_dst`, a rank in the group, is given.

    Parameters
    ----------
    tensor
        The tensor of this rank, which is overwritten on rank `dst`. All ranks have the same size and type.
    dst
        The root: a rank among all workers.
    op
        The reduction, such as `ReduceOp.SUM` or `ReduceOp.MAX`.
    group
        The process group; None means all workers.
    async_op
        Whether the call returns a Work handle without waiting.
    group_dst
        The root as a rank of the group, instead of `dst`.

    Raises
    ------
    InputError
        If the tensors of the ranks do not match in size or type, or if a rank is not in the group.

    Example
    -------
    >>> x = dist.from_numpy(np.full(4, rank, np.float32))
    >>> dist.reduce(x, dst=0)
    >>> dist.to_numpy(x).tolist() == [28.0 if rank == 0 else rank] * 4
    True
    """
    given = Given("reduce", reduces=True)
    check_named_rank("reduce", group, "dst", dst, group_dst)
    members = group_of("reduce", group)
    root = named_rank("reduce", members, "dst", dst, group_dst)
    local = given.one(tensor, written=root == given.me.rank)
    return _collective(given, "reduce", members, local, local, async_op, op=reduction_of("dist.reduce", op), root=root)


@members_only()
def all_gather_into_tensor(
    output_tensor: Any, input_tensor: Any, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Collect the tensors of all ranks in `output_tensor` of every rank, in rank order.

    With n ranks, `output_tensor` has n times as many elements as `input_tensor`.

    Parameters
    ----------
    output_tensor
        The result, with the elements of rank 0 first. Any shape with n times as many elements as `input_tensor`.
    input_tensor
        The tensor of this rank. All ranks have the same size and type.
    group
        The process group; None means all workers.
    async_op
        Whether the call returns a Work handle without waiting.

    Raises
    ------
    InputError
        If the tensors of the ranks do not match in size or type, or if a rank is not in the group.

    Example
    -------
    >>> x = dist.from_numpy(np.full(1, rank, np.float32))
    >>> y = dist.from_numpy(np.zeros(8, np.float32))
    >>> dist.all_gather_into_tensor(y, x)
    >>> dist.to_numpy(y).tolist()
    [0.0, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0]
    """
    given, members = Given("all_gather", combined="all_gather_into_tensor"), group_of("all_gather", group)
    x, y = given.one(input_tensor), given.one(output_tensor, written=True)
    return _collective(given, "all_gather", members, x, y, async_op)


all_gather_single = all_gather_into_tensor


@members_only()
def all_gather(tensor_list: Tensors, tensor: Any, group: ProcessGroup | None = None, async_op: bool = False) -> Work | None:
    """Collect the tensors of all ranks in `tensor_list` of every rank.

    `tensor_list` is a list with one tensor for each rank, or a single tensor as `all_gather_into_tensor` takes.

    Parameters
    ----------
    tensor_list
        The results: tensor k gets the tensor of rank k. The sizes may differ between ranks.
    tensor
        The tensor of this rank, with the size of its element of `tensor_list`.
    group
        The process group; None means all workers.
    async_op
        Whether the call returns a Work handle without waiting.

    Raises
    ------
    InputError
        If the tensors of the ranks do not match in size or type, or if a rank is not in the group.

    Example
    -------
    >>> x = dist.from_numpy(np.full(2, rank, np.float32))
    >>> parts = [dist.from_numpy(np.zeros(2, np.float32)) for _ in range(8)]
    >>> dist.all_gather(parts, x)
    >>> dist.to_numpy(parts[5]).tolist()
    [5.0, 5.0]
    """
    if not isinstance(tensor_list, list | tuple):
        return all_gather_into_tensor(tensor_list, tensor, group, async_op)
    given, members = Given("all_gather"), group_of("all_gather", group)
    x = given.one(tensor)
    outs = [given.one(one, written=True) for one in tensor_list]
    if len({one.size for one in outs}) > 1:
        works: Work | None = _all_gather_uneven(given, members, outs, x, async_op)
        return works
    room, copies = _from_blocks(given, members, outs, x)
    return _collective(given, "all_gather", members, x, room, async_op, after=copies)


def _all_gather_uneven(
    given: Given, group: ProcessGroup, outs: Sequence[LocalTensor], own: LocalTensor, async_op: bool
) -> Any:
    """Collect tensors of different sizes: each rank broadcasts its own."""
    _check_blocks(given, group, outs, own)
    pairs = [(own if rank == given.me.rank else out, out) for rank, out in zip(group.ranks, outs, strict=True)]
    return _of_each_root(given, "broadcast", group, pairs, async_op)


def _of_each_root(
    given: Given,
    name: str,
    group: ProcessGroup,
    pairs: Sequence[tuple[LocalTensor, LocalTensor]],
    async_op: bool,
    op: Reduction = SUM,
) -> Any:
    """Post a collective for each root, with a tensor and a result. Results are copied to the host after the last one."""
    back, works = given.back, []
    for rank, (x, out) in zip(group.ranks, pairs, strict=True):
        given.back = back if rank == group.ranks[-1] else []
        works.append(_collective(given, name, group, x, out, True, op=op, root=rank))
    return together(works, async_op)


def _check_blocks(given: Given, group: ProcessGroup, blocks: Sequence[LocalTensor], own: LocalTensor) -> None:
    """Raise ArgumentError if there is not one block for each rank, or if the block of this rank does not fit its tensor."""
    mine = [(one.size, one.dtype) for one in blocks][group.rank_of(given.me.rank) :][:1]
    if len(blocks) != group.size() or mine != [(own.size, own.dtype)] or any(one.dtype != own.dtype for one in blocks):
        sizes = ", ".join(f"{one.size} {one.dtype}" for one in blocks)
        rule = f"it takes {group.size()} tensors of {own.dtype}, that of this rank with {own.size} elements, and gets {sizes}"
        raise ArgumentError(Problem(f"dist.{given.name}", rule))


@members_only()
def reduce_scatter_tensor(
    output: Any, input: Any, op: Any = RedOpType.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Reduce the `input` tensors of all ranks, and write block r of the result to `output` of rank r.

    With n ranks, `input` has n times as many elements as `output`.

    Parameters
    ----------
    output
        The result: block r of the reduction on rank r.
    input
        The tensor of this rank, with n blocks of the size of `output`.
    op
        The reduction, such as `ReduceOp.SUM` or `ReduceOp.MAX`.
    group
        The process group; None means all workers.
    async_op
        Whether the call returns a Work handle without waiting.

    Raises
    ------
    InputError
        If the tensors of the ranks do not match in size or type, or if a rank is not in the group.

    Example
    -------
    >>> x = dist.from_numpy(np.arange(8, dtype=np.float32))
    >>> y = dist.from_numpy(np.zeros(1, np.float32))
    >>> dist.reduce_scatter_tensor(y, x)
    >>> dist.to_numpy(y).tolist() == [8.0 * rank]
    True
    """
    given, members = Given("reduce_scatter", True, "reduce_scatter_tensor"), group_of("reduce_scatter", group)
    y, x = given.one(output, written=True), given.one(input)
    return _collective(given, "reduce_scatter", members, x, y, async_op, op=reduction_of("dist.reduce_scatter", op))


reduce_scatter_single = reduce_scatter_tensor


@members_only()
def reduce_scatter(
    output: Any, input_list: Tensors, op: Any = RedOpType.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Reduce the inputs of all ranks, and write block r of the result to `output` of rank r.

    `input_list` is a list with one tensor for each rank, or a single tensor as `reduce_scatter_tensor` takes.

    Parameters
    ----------
    output
        The result: block r of the reduction on rank r.
    input_list
        One tensor for each rank. The sizes may differ between blocks.
    op
        The reduction, such as `ReduceOp.SUM` or `ReduceOp.MAX`.
    group
        The process group; None means all workers.
    async_op
        Whether the call returns a Work handle without waiting.

    Raises
    ------
    InputError
        If the tensors of the ranks do not match in size or type, or if a rank is not in the group.

    Example
    -------
    >>> parts = [dist.from_numpy(np.full(2, k, np.float32)) for k in range(8)]
    >>> y = dist.from_numpy(np.zeros(2, np.float32))
    >>> dist.reduce_scatter(y, parts)
    >>> dist.to_numpy(y).tolist() == [8.0 * rank] * 2
    True
    """
    if not isinstance(input_list, list | tuple):
        return reduce_scatter_tensor(output, input_list, op, group, async_op)
    given, members = Given("reduce_scatter", reduces=True), group_of("reduce_scatter", group)
    reduction, y = reduction_of("dist.reduce_scatter", op), given.one(output, written=True)
    inputs = [given.one(one) for one in input_list]
    if len({one.size for one in inputs}) > 1:  # each rank is the root of a reduce
        _check_blocks(given, members, inputs, y)
        pairs = [(x, y if rank == given.me.rank else x) for rank, x in zip(members.ranks, inputs, strict=True)]
        works: Work | None = _of_each_root(given, "reduce", members, pairs, async_op, reduction)
        return works
    room, copies = _to_blocks(given, members, inputs, y)
    return _collective(given, "reduce_scatter", members, room, y, async_op, op=reduction, before=copies)


@members_only()
def gather(
    tensor: Any,
    gather_list: Tensors = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Collect the tensors of all ranks in `gather_list` of rank `dst`.

    On rank `dst`, `gather_list` is a list with one tensor for each rank, or a single tensor for all; on other ranks it is None.
    `dst` is a rank among all workers, and `group_dst` is a rank in the group. Without both, the root is rank 0.

    Parameters
    ----------
    tensor
        The tensor of this rank. All ranks have the same size and type.
    gather_list
        On rank `dst`: the results, where tensor k gets the tensor of rank k.
    dst
        The root: a rank among all workers.
    group
        The process group; None means all workers.
    async_op
        Whether the call returns a Work handle without waiting.
    group_dst
        The root as a rank of the group, instead of `dst`.

    Raises
    ------
    InputError
        If the tensors of the ranks do not match in size or type, or if a rank is not in the group.

    Example
    -------
    >>> x = dist.from_numpy(np.full(2, rank, np.float32))
    >>> parts = [dist.from_numpy(np.zeros(2, np.float32)) for _ in range(8)] if rank == 0 else None
    >>> dist.gather(x, parts, dst=0)
    >>> rank > 0 or dist.to_numpy(parts[7]).tolist() == [7.0, 7.0]
    True
    """
    given, members = Given("gather"), group_of("gather", group)
    root = named_rank("gather", members, "dst", 0 if dst is group_dst is None else dst, group_dst)
    x = given.one(tensor)
    _check_root_only(given, root, "gather_list", gather_list)
    out, copies = given.room(members.size() * x.size, x.dtype) if root != given.me.rank else None, list[Copy]()
    if out is None:
        out, copies = _all_blocks(given, members, gather_list, x, "gather_list", True)
        if copies:
            at = members.rank_of(root)
            order = [*copies[at:], *copies[:at]]  # the root is the first rank of the algorithm
            copies = [(one[0], other[1], *one[2:]) for one, other in zip(copies, order, strict=True)]
    return _collective(given, "gather", members, x, out, async_op, root=root, after=copies)


def gather_into_tensor(
    tensor: Any,
    gather_tensor: Any = None,
    dst: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Collect the tensors of all ranks in `gather_tensor` of rank `dst`, as `gather` does.

    Parameters
    ----------
    tensor
        The tensor of this rank. All ranks have the same size and type.
    gather_tensor
        On rank `dst`: the result, with n times as many elements as `tensor`; None on other ranks.
    dst
        The root: a rank among all workers.
    group
        The process group; None means all workers.
    async_op
        Whether the call returns a Work handle without waiting.
    group_dst
        The root as a rank of the group, instead of `dst`.

    Raises
    ------
    InputError
        If the tensors of the ranks do not match in size or type, or if a rank is not in the group.

    Example
    -------
    >>> x = dist.from_numpy(np.full(1, rank, np.float32))
    >>> y = dist.from_numpy(np.zeros(8, np.float32)) if rank == 0 else None
    >>> dist.gather_into_tensor(x, y, dst=0)
    >>> rank > 0 or dist.to_numpy(y).tolist() == list(range(8))
    True
    """
    work: Work | None = gather(tensor, gather_tensor, dst, group, async_op, group_dst)
    return work


gather_single = gather_into_tensor


@members_only()
def scatter(
    tensor: Any,
    scatter_list: Tensors = None,
    src: int | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Copy one block of `scatter_list` of rank `src` to the tensor of each rank.

    On rank `src`, `scatter_list` is a list with one tensor for each rank, or a single tensor for all; on other ranks it is
    None.
    `src` is a rank among all workers, and `group_src` is a rank in the group. Without both, the root is rank 0.

    Parameters
    ----------
    tensor
        The result: the block of this rank. All ranks have the same size and type.
    scatter_list
        On rank `src`: the blocks, where rank k gets tensor k.
    src
        The root: a rank among all workers.
    group
        The process group; None means all workers.
    async_op
        Whether the call returns a Work handle without waiting.
    group_src
        The root as a rank of the group, instead of `src`.

    Raises
    ------
    InputError
        If the tensors of the ranks do not match in size or type, or if a rank is not in the group.

    Example
    -------
    >>> y = dist.from_numpy(np.zeros(2, np.float32))
    >>> parts = [dist.from_numpy(np.full(2, k, np.float32)) for k in range(8)] if rank == 0 else None
    >>> dist.scatter(y, parts, src=0)
    >>> dist.to_numpy(y).tolist() == [rank, rank]
    True
    """
    given, src = Given("scatter"), 0 if src is group_src is None else src
    check_named_rank("scatter", group, "src", src, group_src)
    members = group_of("scatter", group)
    root = named_rank("scatter", members, "src", src, group_src)
    y = given.one(tensor, written=True)
    _check_root_only(given, root, "scatter_list", scatter_list)
    x, copies = given.room(members.size() * y.size, y.dtype) if root != given.me.rank else None, list[Copy]()
    if x is None:
        x, copies = _all_blocks(given, members, scatter_list, y, "scatter_list", False)
        if copies:
            at = members.rank_of(root)
            order = [*copies[at:], *copies[:at]]
            copies = [(other[0], one[1], *one[2:]) for one, other in zip(copies, order, strict=True)]
    return _collective(given, "scatter", members, x, y, async_op, root=root, before=copies)


def _check_root_only(given: Given, root: int, field: str, blocks: Tensors) -> None:
    if root != given.me.rank and isinstance(blocks, list | tuple) and blocks:
        rule = f"only rank {root}, the root, passes it"
        raise ArgumentError(Problem(f"dist.{given.name} of rank {given.me.rank}", rule, field, f"{len(blocks)} tensors"))


def _all_blocks(
    given: Given, group: ProcessGroup, blocks: Tensors, own: LocalTensor, field: str, written: bool
) -> tuple[LocalTensor, list[Copy]]:
    """Return memory for the blocks of all ranks at the root, and the copies between this memory and the tensors."""
    if blocks is None:
        raise ArgumentError(Problem(f"dist.{given.name}", f"rank {given.me.rank} is the root and must pass it", field, None))
    if isinstance(blocks, list | tuple):
        tensors = [given.one(one, written) for one in blocks]
    else:
        whole = given.one(blocks, written)
        if whole.size != group.size() * own.size:
            rule = f"tensors of {own.size} and {whole.size} elements do not fit for {group.size()} ranks"
            raise ArgumentError(Problem(f"dist.{given.name}", rule))
        tensors = [
            LocalTensor(whole.whole, whole.world, whole.rank, (own.size,), whole.offset + k * own.size)
            for k in range(group.size())
        ]
    return (_from_blocks if written else _to_blocks)(given, group, tensors, own)


def _blocks(given: Given, group: ProcessGroup, tensors: list[LocalTensor], own: LocalTensor) -> LocalTensor:
    """Return memory for one tensor of each rank. Raises InputError for tensors of another size or type than `own`."""
    if len(tensors) != group.size() or any((one.size, one.dtype) != (own.size, own.dtype) for one in tensors):
        sizes = ", ".join(f"{one.size} {one.dtype}" for one in tensors)
        rule = f"it takes {group.size()} tensors of {own.size} {own.dtype}, one for each rank, and gets {sizes}"
        raise ArgumentError(Problem(f"dist.{given.name}", rule))
    return given.room(group.size() * own.size, own.dtype)


def _from_blocks(
    given: Given, group: ProcessGroup, tensors: list[LocalTensor], own: LocalTensor
) -> tuple[LocalTensor, list[Copy]]:
    room = _blocks(given, group, tensors, own)
    step = own.size * dtype_of(own.dtype).bits // 8
    return room, [(room.address + k * step, one.address, one.size, one.dtype) for k, one in enumerate(tensors)]


def _to_blocks(
    given: Given, group: ProcessGroup, tensors: list[LocalTensor], own: LocalTensor
) -> tuple[LocalTensor, list[Copy]]:
    room, copies = _from_blocks(given, group, tensors, own)
    return room, [(to, start, count, dtype) for start, to, count, dtype in copies]


@members_only()
def all_to_all_single(
    output: Any,
    input: Any,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Work | None:
    """Send block r of `input` to rank r, and collect the blocks from all ranks in `output`, in rank order.

    The split sizes are lists of rows of the first axis, one number for each rank; a number may be 0. Without them, all blocks
    have the same size.

    Parameters
    ----------
    output
        The received blocks, in rank order.
    input
        The blocks to send, in rank order.
    output_split_sizes
        The numbers of rows that this rank receives from each rank.
    input_split_sizes
        The numbers of rows that this rank sends to each rank.
    group
        The process group; None means all workers.
    async_op
        Whether the call returns a Work handle without waiting.

    Raises
    ------
    InputError
        If the tensors of the ranks do not match in size or type, or if a rank is not in the group.

    Example
    -------
    >>> x = dist.from_numpy(np.arange(8, dtype=np.float32) + 10 * rank)
    >>> y = dist.from_numpy(np.zeros(8, np.float32))
    >>> dist.all_to_all_single(y, x)
    >>> dist.to_numpy(y).tolist() == [10.0 * k + rank for k in range(8)]
    True
    """
    given, members = Given("all_to_all"), group_of("all_to_all", group)
    x, y = given.one(input), given.one(output, written=True)
    if output_split_sizes is None and input_split_sizes is None:
        return _collective(given, "all_to_all", members, x, y, async_op)
    inputs, outputs = (_split(members, *one) for one in ((x, input_split_sizes), (y, output_split_sizes)))
    return given.call(Post("exchange", members, (None, SUM, x.dtype, 0), (inputs, outputs), async_op))


def _split(group: ProcessGroup, tensor: LocalTensor, sizes: Sequence[int] | None) -> list[LocalTensor]:
    """Return consecutive blocks of rows. Raises InputError if their sizes do not add up to the rows of the tensor."""
    rows = tensor.shape[0] if tensor.shape else 1
    each = list(sizes) if sizes is not None else [rows // group.size()] * group.size()
    if len(each) != group.size() or sum(each) != rows or min(each) < 0:
        rule = f"the {group.size()} split sizes must add up to the {rows} rows of the tensor, and are {each}"
        raise ArgumentError(Problem("dist.all_to_all", rule))
    width, found, at = tensor.size // max(1, rows), [], tensor.offset
    for one in each:
        found.append(LocalTensor(tensor.whole, tensor.world, tensor.rank, (one * width,), at))
        at += one * width
    return found


@members_only()
def all_to_all(
    output_tensor_list: Tensors, input_tensor_list: Tensors, group: ProcessGroup | None = None, async_op: bool = False
) -> Work | None:
    """Send tensor r of `input_tensor_list` to rank r, and receive a tensor from each rank in `output_tensor_list`.

    The tensors may have any sizes. Instead of a list, a single tensor as `all_to_all_single` takes is possible.

    Parameters
    ----------
    output_tensor_list
        The received tensors: tensor k comes from rank k.
    input_tensor_list
        The tensors to send: tensor k goes to rank k.
    group
        The process group; None means all workers.
    async_op
        Whether the call returns a Work handle without waiting.

    Raises
    ------
    InputError
        If the tensors of the ranks do not match in size or type, or if a rank is not in the group.

    Example
    -------
    >>> sent = [dist.from_numpy(np.full(2, 10 * rank + k, np.float32)) for k in range(8)]
    >>> received = [dist.from_numpy(np.zeros(2, np.float32)) for _ in range(8)]
    >>> dist.all_to_all(received, sent)
    >>> dist.to_numpy(received[3]).tolist() == [30.0 + rank] * 2
    True
    """
    if not isinstance(output_tensor_list, list | tuple):
        return all_to_all_single(output_tensor_list, input_tensor_list, group=group, async_op=async_op)
    given, members = Given("all_to_all"), group_of("all_to_all", group)
    inputs = [given.one(one) for one in input_tensor_list]
    outputs = [given.one(one, written=True) for one in output_tensor_list]
    if not len(inputs) == len(outputs) == members.size():
        rule = f"it takes {members.size()} tensors, one for each rank, and gets {len(inputs)} and {len(outputs)}"
        raise ArgumentError(Problem("dist.all_to_all", rule))
    return given.call(Post("exchange", members, (None, SUM, inputs[0].dtype, 0), (inputs, outputs), async_op))


def all_reduce_coalesced(
    tensors: Sequence[Any], op: Any = RedOpType.SUM, group: ProcessGroup | None = None, async_op: bool = False
) -> Any:
    """Reduce each tensor of a list over all ranks, one after another, in place.

    Parameters
    ----------
    tensors
        The tensors of this rank, which are overwritten.
    op
        The reduction, such as `ReduceOp.SUM` or `ReduceOp.MAX`.
    group
        The process group; None means all workers.
    async_op
        Whether the call returns a Work handle without waiting.

    Raises
    ------
    InputError
        If the tensors of the ranks do not match in size or type, or if a rank is not in the group.

    Example
    -------
    >>> both = [dist.from_numpy(np.full(n, rank, np.float32)) for n in (2, 3)]
    >>> dist.all_reduce_coalesced(both)
    >>> dist.to_numpy(both[1]).tolist()
    [28.0, 28.0, 28.0]
    """
    return together([all_reduce(one, op, group, async_op=True) for one in tensors], async_op)


def all_gather_coalesced(
    output_tensor_lists: Sequence[Tensors],
    input_tensor_list: Sequence[Any],
    group: ProcessGroup | None = None,
    async_op: bool = False,
) -> Any:
    """Collect the list of tensors of all ranks: `output_tensor_lists` has, for each rank, a list like `input_tensor_list`.

    Parameters
    ----------
    output_tensor_lists
        The results: list k gets the tensors of rank k.
    input_tensor_list
        The tensors of this rank.
    group
        The process group; None means all workers.
    async_op
        Whether the call returns a Work handle without waiting.

    Raises
    ------
    InputError
        If the tensors of the ranks do not match in size or type, or if a rank is not in the group.

    Example
    -------
    >>> mine = [dist.from_numpy(np.full(n, rank, np.float32)) for n in (1, 2)]
    >>> results = [[dist.from_numpy(np.zeros(n, np.float32)) for n in (1, 2)] for _ in range(8)]
    >>> dist.all_gather_coalesced(results, mine)
    >>> dist.to_numpy(results[6][1]).tolist()
    [6.0, 6.0]
    """
    rows = list(output_tensor_lists)
    if any(len(row) != len(input_tensor_list) for row in rows):
        rule = f"each of its lists must have {len(input_tensor_list)} tensors, as input_tensor_list"
        raise ArgumentError(Problem("dist.all_gather_coalesced", rule, "output_tensor_lists", str([len(row) for row in rows])))
    works = [all_gather([row[k] for row in rows], one, group, async_op=True) for k, one in enumerate(input_tensor_list)]
    return together(works, async_op)


@contextmanager
def _coalescing_manager(group: ProcessGroup | None = None, device: Any = None, async_ops: bool = False) -> Iterator[Works]:
    """Start the collectives inside the context together, and wait for them at its end.

    With `async_ops=True`, the context gives a handle, whose method `wait` waits for the collectives.
    """
    me = joined("_coalescing_manager")
    if me.coalesced is not None:
        raise ArgumentError(Problem("dist._coalescing_manager", "a coalescing manager is already open"))
    me.coalesced = works = Works([])
    try:
        yield works
    finally:
        me.coalesced = None
    if not async_ops:
        works.wait()


@members_only()
def barrier(
    group: ProcessGroup | None = None, async_op: bool = False, device_ids: Any = None, timeout: Any = None
) -> Work | None:
    """Wait until all ranks of the group have called `barrier`.

    Parameters
    ----------
    group
        The process group; None means all workers.
    async_op
        Whether the call returns a Work handle without waiting.
    device_ids, timeout
        Accepted for compatibility with torch, and ignored.

    Raises
    ------
    InputError
        If a rank of the group makes another call instead.

    Example
    -------
    >>> dist.barrier()
    """
    return _collective(Given("barrier"), "barrier", group_of("barrier", group), None, None, async_op)


def monitored_barrier(group: ProcessGroup | None = None, timeout: Any = None, wait_all_ranks: bool = False) -> None:
    """Wait until all ranks of the group have called `monitored_barrier`.

    Parameters
    ----------
    group
        The process group; None means all workers.
    timeout, wait_all_ranks
        Accepted for compatibility with torch, and ignored.

    Raises
    ------
    InputError
        If a rank of the group makes another call instead.

    Example
    -------
    >>> dist.monitored_barrier()
    """
    barrier(group)
