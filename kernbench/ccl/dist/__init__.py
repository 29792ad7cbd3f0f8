"""Collectives with the interface of `torch.distributed`, which run on the machine of a bench.

Workers are host code, which takes no simulated time. A collective is launched when all of its ranks have called it.

    def worker(rank):
        dist.init_process_group(backend="kernbench")
        x = dist.from_numpy(np.full(1024, rank, np.float16))
        dist.all_reduce(x)

    @bench(name="mine", description="...", machine="single_cube")
    def run(ctx):
        dist.spawn(ctx, worker, ranks=8)
"""

from __future__ import annotations

import sys

from kernbench.ccl.dist import nn
from kernbench.ccl.dist.collectives import (
    Tensors,
    _coalescing_manager,
    all_gather,
    all_gather_coalesced,
    all_gather_into_tensor,
    all_gather_single,
    all_reduce,
    all_reduce_coalesced,
    all_to_all,
    all_to_all_single,
    barrier,
    broadcast,
    gather,
    gather_into_tensor,
    gather_single,
    monitored_barrier,
    reduce,
    reduce_scatter,
    reduce_scatter_single,
    reduce_scatter_tensor,
    scatter,
)
from kernbench.ccl.dist.device_mesh import DeviceMesh, init_device_mesh
from kernbench.ccl.dist.errors import (
    ArgumentError,
    AxisError,
    DistBackendError,
    DistError,
    DistNetworkError,
    DistStoreError,
    ProcessRaisedException,
    TensorTypeError,
)
from kernbench.ccl.dist.object_collectives import (
    all_gather_object,
    broadcast_object_list,
    gather_object,
    recv_object_list,
    scatter_object_list,
    send_object_list,
)
from kernbench.ccl.dist.point_to_point import P2POp, batch_isend_irecv, irecv, isend, recv, send
from kernbench.ccl.dist.process_groups import (
    BACKENDS,
    Backend,
    GroupMember,
    destroy_process_group,
    get_backend,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_pg_count,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    group,
    init_process_group,
    is_available,
    is_backend_available,
    is_gloo_available,
    is_initialized,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    is_ucc_available,
    is_xccl_available,
    new_group,
    new_subgroups,
    new_subgroups_by_enumeration,
    split_group,
    supports_complex,
)
from kernbench.ccl.dist.processes import Process, get_context, set_start_method
from kernbench.ccl.dist.reductions import RedOpType, ReduceOp, _make_nccl_premul_sum, reduce_op
from kernbench.ccl.dist.scripts import run_script
from kernbench.ccl.dist.stores import TIMEOUT as default_pg_timeout
from kernbench.ccl.dist.stores import FileStore, HashStore, PrefixStore, Store, TCPStore, _get_default_store
from kernbench.ccl.dist.tensors import from_numpy, launch, to_numpy
from kernbench.ccl.dist.work import Future, Work
from kernbench.ccl.dist.workers import spawn
from kernbench.ccl.dist.world import LocalTensor, World
from kernbench.ccl.process_groups import ProcessGroup

distributed_c10d = sys.modules[__name__]  #: the name of torch for the module of these functions

__all__ = [
    "BACKENDS",
    "ArgumentError",
    "AxisError",
    "Backend",
    "DeviceMesh",
    "DistBackendError",
    "DistError",
    "DistNetworkError",
    "DistStoreError",
    "FileStore",
    "Future",
    "GroupMember",
    "HashStore",
    "LocalTensor",
    "P2POp",
    "PrefixStore",
    "Process",
    "ProcessGroup",
    "ProcessRaisedException",
    "RedOpType",
    "ReduceOp",
    "Store",
    "TCPStore",
    "TensorTypeError",
    "Tensors",
    "Work",
    "World",
    "_coalescing_manager",
    "_get_default_store",
    "_make_nccl_premul_sum",
    "all_gather",
    "all_gather_coalesced",
    "all_gather_into_tensor",
    "all_gather_object",
    "all_gather_single",
    "all_reduce",
    "all_reduce_coalesced",
    "all_to_all",
    "all_to_all_single",
    "barrier",
    "batch_isend_irecv",
    "broadcast",
    "broadcast_object_list",
    "default_pg_timeout",
    "destroy_process_group",
    "distributed_c10d",
    "from_numpy",
    "gather",
    "gather_into_tensor",
    "gather_object",
    "gather_single",
    "get_backend",
    "get_context",
    "get_default_backend_for_device",
    "get_global_rank",
    "get_group_rank",
    "get_node_local_rank",
    "get_pg_count",
    "get_process_group_ranks",
    "get_rank",
    "get_world_size",
    "group",
    "init_device_mesh",
    "init_process_group",
    "irecv",
    "is_available",
    "is_backend_available",
    "is_gloo_available",
    "is_initialized",
    "is_mpi_available",
    "is_nccl_available",
    "is_torchelastic_launched",
    "is_ucc_available",
    "is_xccl_available",
    "isend",
    "launch",
    "monitored_barrier",
    "new_group",
    "new_subgroups",
    "new_subgroups_by_enumeration",
    "nn",
    "recv",
    "recv_object_list",
    "reduce",
    "reduce_op",
    "reduce_scatter",
    "reduce_scatter_single",
    "reduce_scatter_tensor",
    "run_script",
    "scatter",
    "scatter_object_list",
    "send",
    "send_object_list",
    "set_start_method",
    "spawn",
    "split_group",
    "supports_complex",
    "to_numpy",
]
