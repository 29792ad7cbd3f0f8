"""Process groups of workers, and the ranks that calls name."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import wraps
from typing import Any, TypeVar

from greenlet import getcurrent

from kernbench.ccl.dist.backward import divert, inside
from kernbench.ccl.dist.errors import ArgumentError
from kernbench.ccl.dist.workers import Worker, integer, joined, this_worker
from kernbench.ccl.process_groups import ProcessGroup
from kernbench.common.errors import Problem

BACKENDS = ("kernbench", "gloo", "nccl", "mpi")  #: names that init_process_group takes; all mean the machine


def init_process_group(
    backend: str | None = "kernbench",
    init_method: str | None = None,
    timeout: Any = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Join the group of all workers.

    Parameters
    ----------
    backend
        "kernbench", or a name that programs for GPUs and CPUs use: "gloo", "nccl" or "mpi". All names mean the machine.
    rank, world_size
        If given, the values of this worker.
    init_method, timeout, store, group_name, pg_options, device_id
        Parameters of torch without effect.

    Raises
    ------
    InputError
        If the backend is not known, if `rank` or `world_size` is wrong, or if this worker has joined before.
    """
    if backend is not None and str(backend).partition(":")[2] not in BACKENDS and backend not in BACKENDS:
        raise ArgumentError(Problem("dist.init_process_group", "it must be kernbench", "backend", backend))
    me = this_worker()
    for name, given, mine in (("rank", rank, me.rank), ("world_size", world_size, me.world.ranks.size())):
        if given not in (-1, None, mine):
            rule = f"it is {mine}: dist.spawn numbers the workers"
            raise ArgumentError(Problem(f"dist.init_process_group of rank {me.rank}", rule, name, given))
    if me.ready:
        rule = f"rank {me.rank} has already joined the group of all workers"
        raise ArgumentError(Problem("dist.init_process_group", rule, remedy="call dist.destroy_process_group() first"))
    divert()
    me.ready, me.backend = True, str(backend or "kernbench").partition(":")[2] or str(backend or "kernbench")


def destroy_process_group(group: ProcessGroup | None = None) -> None:
    """Leave the group of all workers. For any other group, do nothing."""
    if group is None:
        this_worker().ready = False


def is_available() -> bool:
    """Return True, because collectives are available."""
    return True


def is_gloo_available() -> bool:
    """Return True, because workers that are written for gloo run here."""
    return True


def is_nccl_available() -> bool:
    """Return False, because there is no GPU. Workers that check this function then choose gloo."""
    return False


is_mpi_available = is_nccl_available
is_torchelastic_launched = is_nccl_available


is_ucc_available = is_nccl_available
is_xccl_available = is_nccl_available


def supports_complex(reduce_op: Any) -> bool:
    """Return whether complex numbers can be reduced in this way."""
    return str(getattr(reduce_op, "op", reduce_op)) in ("RedOpType.SUM", "RedOpType.AVG", "RedOpType.PREMUL_SUM")


def get_default_backend_for_device(device: Any) -> str:
    """Return "gloo", because tensors of torch are on the CPU."""
    return "gloo"


def get_pg_count() -> int:
    """Return the number of groups that this worker has made, with the group of all workers."""
    return 1 + sum(joined("get_pg_count").made.values())


def is_backend_available(backend: str) -> bool:
    """Return whether `init_process_group` takes this name. NCCL and MPI are not available, as in their own functions."""
    return backend.lower() in ("gloo", "kernbench")


class Backend(str):
    """The name of a backend in lower case: `Backend("GLOO") == "gloo"`."""

    GLOO, NCCL, MPI = "gloo", "nccl", "mpi"

    def __new__(cls, name: str) -> Backend:
        return super().__new__(cls, name.lower())


def is_initialized() -> bool:
    """Return whether this worker has joined the group of all workers."""
    there = inside()
    found = getattr(getcurrent(), "of_group", None) if there is None else there.worker
    return isinstance(found, Worker) and found.ready


def get_backend(group: ProcessGroup | None = None) -> str:
    """Return the name that this worker gave to `init_process_group`, because all names mean the machine."""
    return this_worker().backend


def get_rank(group: ProcessGroup | None = None) -> int:
    """Return the rank of this worker, or -1 if it is not a member of the group."""
    me = joined("get_rank")
    return me.rank if group is None else group.rank_of(me.rank) if isinstance(group, ProcessGroup) else -1


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """Return the rank in the node of a script of `torchrun`, else `fallback_rank`, else the rank of this worker."""
    me = this_worker()
    there = me.environment.get("LOCAL_RANK", fallback_rank)
    return me.rank if there is None else int(there)


def get_world_size(group: ProcessGroup | None = None) -> int:
    """Return the number of ranks in the group, or -1 if this worker is not a member of the group."""
    me = joined("get_world_size")
    found = me.world.ranks if group is None else group
    return found.size() if isinstance(found, ProcessGroup) and me.rank in found.ranks else -1


def get_process_group_ranks(group: ProcessGroup | None = None) -> list[int]:
    """Return the ranks of a group, as ranks among all workers."""
    return list((group or this_worker().world.ranks).ranks)


def get_global_rank(group: ProcessGroup, group_rank: int) -> int:
    """Return the rank among all workers for a rank in a group. For the group of all workers, return the rank as it is."""
    if group is GroupMember.WORLD:
        return group_rank
    at = integer(group_rank)
    if at is None or not 0 <= at < group.size():
        rule = f"it must be a rank from 0 to {group.size() - 1}"
        raise ArgumentError(Problem("dist.get_global_rank", rule, "group_rank", group_rank))
    return group.ranks[at]


def get_group_rank(group: ProcessGroup, global_rank: int) -> int:
    """Return the rank in a group for a rank among all workers. For the group of all workers, return the rank as it is."""
    if group is GroupMember.WORLD:
        return global_rank
    return group.rank_of(peer_of("get_group_rank", group, "global_rank", global_rank))


class _World(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all workers, or None before `init_process_group`."""
        return this_worker().world.ranks if is_initialized() else None


class group(metaclass=_World):
    """The attribute `group.WORLD` is the group of all workers."""


class _NonMember:
    """Equal to each group of which the worker that compares is not a member."""

    def __eq__(self, other: object) -> bool:
        return other is self or (isinstance(other, ProcessGroup) and this_worker().rank not in other.ranks)

    __hash__ = None  # type: ignore[assignment]


class GroupMember(group):
    """The attribute `WORLD` is the group of all workers. A worker compares a group with `NON_GROUP_MEMBER` to find out whether
    it is not a member of the group.
    """

    NON_GROUP_MEMBER = _NonMember()


class NotMemberError(Exception):
    """A worker calls a function with a group of which it is not a member. The call has no effect."""


Call = TypeVar("Call", bound=Callable[..., Any])


def members_only(otherwise: Any = None) -> Callable[[Call], Call]:
    """Return a decorator for functions of groups. A worker that is not a member gets a warning and the value `otherwise`."""

    def decorate(call: Call) -> Call:
        @wraps(call)
        def checked(*args: Any, **kwargs: Any) -> Any:
            try:
                return call(*args, **kwargs)
            except NotMemberError as error:
                warnings.warn(str(error), stacklevel=2)
                return otherwise

        return checked  # type: ignore[return-value]

    return decorate


def new_group(
    ranks: Sequence[int] | None = None,
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> ProcessGroup:
    """Return a group of these ranks; None means all ranks. With `sort_ranks=False`, the ranks keep their order.

    Ranks that are not members also get the group. Their calls with the group have no effect: they return None with a warning.
    The other parameters of torch have no effect.
    """
    me = joined("new_group")
    every = me.world.ranks.ranks
    given = every if ranks is None else tuple(ranks)
    chosen = tuple(rank for rank in map(integer, given) if rank is not None)
    if len(chosen) != len(given) or not chosen or len(set(chosen)) < len(chosen) or not set(chosen) <= set(every):
        rule = f"it must be different ranks from 0 to {len(every) - 1}"
        raise ArgumentError(Problem(f"dist.new_group of rank {me.rank}", rule, "ranks", str(list(given))))
    chosen = tuple(sorted(chosen)) if sort_ranks else chosen
    me.made[chosen] = me.made.get(chosen, 0) + 1
    return ProcessGroup(chosen, me.made[chosen])


def new_subgroups(
    group_size: int | None = None,
    group: ProcessGroup | None = None,
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup, list[ProcessGroup]]:
    """Divide all ranks into groups of `group_size` consecutive ranks. Return the group of this rank, and all groups.

    The other parameters of torch have no effect.
    """
    me = joined("new_subgroups")
    size = me.world.ranks.size()
    many = size if group_size is None else group_size
    if type(many) is not int or many < 1 or size % many:
        raise ArgumentError(Problem("dist.new_subgroups", f"it must divide the {size} ranks", "group_size", str(many)))
    groups = [new_group(range(first, first + many)) for first in range(0, size, many)]
    return groups[me.rank // many], groups


def new_subgroups_by_enumeration(
    ranks_per_subgroup_list: Sequence[Sequence[int]],
    timeout: Any = None,
    backend: str | None = None,
    pg_options: Any = None,
    group_desc: str | None = None,
) -> tuple[ProcessGroup | None, list[ProcessGroup]]:
    """Make a group of each list of ranks. No rank may be in two lists. Return the group of this rank, or None, and all groups.

    The other parameters of torch have no effect.
    """
    me = joined("new_subgroups_by_enumeration")
    every = [rank for ranks in ranks_per_subgroup_list for rank in ranks]
    if len(set(every)) < len(every):
        where, given = "dist.new_subgroups_by_enumeration", str(ranks_per_subgroup_list)
        raise ArgumentError(Problem(where, "no rank may be in two groups", "ranks_per_subgroup_list", given))
    groups = [new_group(ranks) for ranks in ranks_per_subgroup_list]
    return next((one for one in groups if me.rank in one.ranks), None), groups


@members_only()
def split_group(
    parent_pg: ProcessGroup | None = None,
    split_ranks: Sequence[Sequence[int]] | None = None,
    timeout: Any = None,
    pg_options: Any = None,
    group_desc: str | None = None,
    backend: str | None = None,
) -> ProcessGroup | None:
    """Divide a group into groups of these lists of its ranks. Return the group of this rank, or None if it is in no list.

    All ranks of `parent_pg` make the call; None means all workers. The numbers in `split_ranks` are ranks in `parent_pg`.
    The other parameters of torch have no effect.
    """
    parent = group_of("split_group", parent_pg)
    many, lists = parent.size(), [list(map(integer, ranks)) for ranks in split_ranks or ()]
    every = [rank for ranks in lists for rank in ranks]
    if not lists or not all(lists) or len(set(every)) < len(every) or not set(every) <= set(range(many)):
        rule = f"it must be lists of ranks from 0 to {many - 1}, and no rank may be in two lists"
        raise ArgumentError(Problem("dist.split_group", rule, "split_ranks", str(split_ranks)))
    groups = [new_group([parent.ranks[rank] for rank in ranks if rank is not None]) for ranks in lists]
    return next((one for one in groups if this_worker().rank in one.ranks), None)


def group_of(name: str, group: Any) -> ProcessGroup:
    """Return the group of a call. Raises NotMemberError if this rank is not a member."""
    me = joined(name)
    if group is None:
        return me.world.ranks
    if group is GroupMember.NON_GROUP_MEMBER:
        raise NotMemberError(f"dist.{name}: rank {me.rank} is not a member of the group, and the call has no effect")
    if not isinstance(group, ProcessGroup):
        raise ArgumentError(Problem(f"dist.{name}", "it must be a group from dist.new_group", "group", str(group)))
    if me.rank not in group.ranks:
        there = ", ".join(map(str, group.ranks))
        raise NotMemberError(
            f"dist.{name}: rank {me.rank} is not a member of the group of ranks {there}, and the call has no effect"
        )
    return group


def peer_of(name: str, group: ProcessGroup, field: str, given: Any, pair: bool = False) -> int:
    """Return the rank that a call names. Raises InputError if the rank is not in the group."""
    me, other = this_worker(), integer(given)
    if other is None or other not in group.ranks or (pair and other == me.rank):
        every = group.ranks == me.world.ranks.ranks
        there = f"0 to {len(group.ranks) - 1}" if every else ", ".join(map(str, group.ranks))
        rule = f"it must be a{'nother' if pair else ''} rank from {there}"
        raise ArgumentError(Problem(f"dist.{name} of rank {me.rank}", rule, field, given))
    return other


def named_rank(name: str, group: ProcessGroup, field: str, given: Any, in_group: Any, pair: bool = False) -> int:
    """Return the rank that a call names as a rank among all workers.

    `src` and `dst` are ranks among all workers; `group_src` and `group_dst` are ranks in the group.
    """
    return peer_of(name, group, *_one_of(name, group, field, given, in_group), pair=pair)


def check_named_rank(name: str, group: Any, field: str, given: Any, in_group: Any) -> None:
    """Raise ArgumentError for a `src` or `dst` that is not in the group.

    As in torch, this error has priority over the warning to workers that are not members.
    """
    members = joined(name).world.ranks if group is None else group
    if in_group is None and isinstance(members, ProcessGroup):
        named_rank(name, members, field, given, None)


def _one_of(name: str, group: ProcessGroup, field: str, given: Any, in_group: Any) -> tuple[str, Any]:
    """Return the name and value of the argument that names a rank, converted to a rank among all workers if possible."""
    if (given is None) == (in_group is None):
        rule = f"it takes either {field} or group_{field}"
        raise ArgumentError(Problem(f"dist.{name} of rank {this_worker().rank}", rule))
    if in_group is None:
        return field, given
    at = integer(in_group)
    return f"group_{field}", group.ranks[at] if at is not None and 0 <= at < group.size() else in_group
