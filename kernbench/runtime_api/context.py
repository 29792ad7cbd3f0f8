"""`ctx`, the argument of a bench: code of the host takes no simulated time, but its launches and copies do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from kernbench.common import naming
from kernbench.common.dtypes import Array, dtype_of, narrow
from kernbench.common.errors import InputError, Problem
from kernbench.common.units import cycles_to_ns
from kernbench.components.builtin.switch_queue import SwitchQueueForm
from kernbench.config.kinds import a_system
from kernbench.policy.placement import DPPolicy
from kernbench.runtime_api.allocator import AddressSpace, HbmAllocator
from kernbench.runtime_api.pe_set import MachineFacts, PeSet, TenantPeSet, check_call, chosen_pes, deal, grid_of
from kernbench.runtime_api.tensors import DeviceTensor, check_shape, packed_pieces, pieces_of_pe, sharded_pieces
from kernbench.sim_engine.memory_store import MemoryStore
from kernbench.sim_engine.op_log import OpLogger
from kernbench.triton_emu.host_runner import HostRunner
from kernbench.triton_emu.launch import Launch, PeWork
from kernbench.triton_emu.queues import Links, NeighbourTable, PlaneForm, Queues

if TYPE_CHECKING:
    from kernbench.triton.program import Options

Through = Literal["instant", "pcie"]


class Context:
    """The interface of a bench to its machine: tensors, launches and outputs.

    `params`: the parameters of the bench. `machine`: facts about the machine (`pes`, `scratchpad_bytes`, ...). `config`: the
    whole machine. Methods raise InputError for arguments that are not valid.

    >>> import kernbench as kb
    >>> @kb.bench(name="ones", description="a tensor of ones")
    ... def ones(ctx):
    ...     print(ctx.machine.pes, ctx.to_numpy(ctx.full((2, 3), 1, "i32")).sum())
    >>> kb.GraphEngine("single_cube").run(ones).status
    8 6
    'done'
    """

    host: HostRunner  #: set before the bench starts
    queues: Queues  #: set before the bench starts

    def __init__(
        self,
        places: PeSet,
        params: Mapping[str, Any],
        store: MemoryStore,
        log: OpLogger | None,
        memory: AddressSpace | None = None,
    ) -> None:
        """`memory`: virtual addresses that several contexts share; None for addresses of this context alone."""
        self.params = params
        self.config = places.config  #: of the machine
        self.machine = MachineFacts.of(places)
        self.memory = AddressSpace(places) if memory is None else memory
        self.tensors: dict[str, DeviceTensor] = {}
        self.outputs: dict[str, DeviceTensor] = {}
        self.inputs: dict[str, Array] = {}  #: rounded arrays of `from_numpy`, by name: the inputs of a reference
        self.launches: list[Launch] = []
        self.kernel_options: list[Options] = []  #: options of the launches of Triton kernels
        self._places = places
        self._hbm = HbmAllocator(places)
        self._store = store
        self._log = log
        self._names = (f"tensor{number}" for number in count())

    # Tensors ------------------------------------------------------------------------------------------------------

    def from_numpy(
        self,
        values: Any,
        *,
        name: str = "",
        dtype: str | None = None,
        placement: DPPolicy | None = None,
        pe: str | None = None,
    ) -> DeviceTensor:
        """Make a tensor with these elements, rounded to `dtype`. If `dtype` is None, the elements keep their type. The
        reference receives the array by `name`. `pe`: the whole tensor is placed in the HBM slice of this PE. The tensor has a
        copy of the elements, unless the array is read-only and owns its elements.
        """
        given = np.asarray(values)
        wanted = dtype_of(given.dtype if dtype is None else dtype).name
        wide = given.astype(np.float32) if given.dtype == np.float64 and wanted != "f64" else given
        host = np.ascontiguousarray(narrow(wide, wanted))
        if np.may_share_memory(host, given) and (given.flags.writeable or given.base is not None):
            host = host.copy()
        host = host.reshape(given.shape)
        tensor = self._new(name, host.shape, wanted, placement, host, pe)
        self.inputs[tensor.name] = host
        return tensor

    def zeros(
        self, shape: Sequence[int], dtype: str = "f32", *, name: str = "", placement: DPPolicy | None = None
    ) -> DeviceTensor:
        """Make a tensor of zeros."""
        return self.full(shape, 0, dtype, name=name, placement=placement)

    def full(
        self, shape: Sequence[int], value: float, dtype: str = "f32", *, name: str = "", placement: DPPolicy | None = None
    ) -> DeviceTensor:
        """Make a tensor with the same value in every element."""
        kind = dtype_of(dtype)
        lengths = check_shape(f"tensor {name}".strip(), shape, kind.name)
        host = np.full(lengths, value, np.float32 if kind.kind == "float" else np.int64)
        return self._new(name, shape, kind.name, placement, narrow(host, kind.name))

    def empty(
        self,
        shape: Sequence[int],
        dtype: str = "f32",
        *,
        name: str = "",
        placement: DPPolicy | None = None,
        pe: str | None = None,
    ) -> DeviceTensor:
        """Make a tensor without elements in memory. A kernel fails if it loads the tensor before a store to the tensor. `pe`:
        the whole tensor is placed in the HBM slice of this PE.
        """
        return self._new(name, shape, dtype_of(dtype).name, placement, None, pe)

    def _new(
        self,
        name: str,
        shape: Sequence[int],
        dtype: str,
        placement: DPPolicy | None,
        host: Array | None,
        pe: str | None = None,
    ) -> DeviceTensor:
        name = name or next(self._names)
        where = f"tensor {name}"
        if name in self.tensors:
            raise InputError(Problem(where, "a tensor of that name already exists", remedy="give each its own name"))
        plain = check_shape(where, shape, dtype)
        if pe is not None:
            if placement is not None:
                raise InputError(
                    Problem(where, "a tensor on a single PE cannot have a placement", "pe", pe, "leave one of the two out")
                )
            number = chosen_pes(where, [pe], self._places)[0]
            parts = pieces_of_pe(name, plain, dtype, number, self._places, self._hbm, self.memory)
        elif placement is None:
            parts = packed_pieces(name, plain, dtype, self._hbm, self.memory)
        elif isinstance(placement, DPPolicy):
            parts = sharded_pieces(name, plain, dtype, placement, self._places, self._hbm, self.memory)
        else:
            raise InputError(Problem(where, "it must be a DPPolicy or None", "placement", str(placement)))
        if host is not None:
            host.setflags(write=False)
        tensor = self.tensors[name] = DeviceTensor(name, plain, dtype, placement, parts, host)
        return tensor

    def deploy_tensor(self, tensor: DeviceTensor, through: Through = "instant") -> None:
        """Copy the elements of a tensor from the host to the memories of the machine.

        `through`: `instant` takes no time; `pcie` uses the DMA engine of the PCIe endpoint of each SIP. A launch deploys those
        of its tensors that are not deployed yet; this takes no time. After the first launch, this method waits for all
        launches. InputError for a tensor made by `empty`, and for `pcie` on an NPU.
        """
        if through not in ("instant", "pcie"):
            raise InputError(Problem("deploy_tensor", "it must be instant or pcie", "through", through))
        if tensor.host is None:
            rule = "it has no elements to deploy"
            raise InputError(Problem(f"tensor {tensor.name}", rule, remedy="make it by zeros, full or from_numpy"))
        if self.launches:
            self.synchronize()
        if through == "pcie":
            self._copy_in(tensor)
        for part, values in tensor.write(self._store, tensor.host):
            if self.launches and self._log is not None:
                at = float(cycles_to_ns(self.host.cycle, self._places.config.freq_ghz))
                self._log.record_write(at, naming.HOST, "hbm", part.physical, values, virtual_addr=part.virtual)
        tensor.deployed = True

    def _copy_in(self, tensor: DeviceTensor) -> None:
        remedy = "copy in zero time (through=instant)"
        why = "the copy of a tensor from the host needs a PCIe endpoint"
        config = a_system("deploy_tensor", self._places.config, why, remedy)
        io = naming.io_index(config.sip.io[0].name)
        copies = []
        for part in tensor.parts:
            for piece in self.memory.physical(part.physical, part.nbytes):
                endpoint = naming.in_io(self._places.sip_at(piece[0]), io, naming.PCIE_EP)
                copies.append(self.host.copy(endpoint, [piece], write=True))
        if copies:
            self.host.wait(*copies)

    # Launches -----------------------------------------------------------------------------------------------------

    def launch(
        self,
        name: str,
        kernel: Callable[..., Any],
        *args: Any,
        grid: int | Sequence[int] | None = None,
        pes: int | Sequence[int | str] | None = None,
    ) -> Launch:
        """Launch a kernel and return immediately. `synchronize` waits for the end of the launch, and so does the end of the
        bench.

        `args`: the arguments of the kernel before `tl`; a kernel receives a tensor as a `DevicePointer` to the shard of its PE.
        `grid`: the number of programs along up to three axes; None means one program for each PE. `pes`: the number of PEs, or
        a list of PEs; None means all. Program `p` runs on PE `p % n` of the `n` PEs, and a PE runs its programs in sequence.
        InputError if the kernel cannot be called with these arguments and `tl`.
        """
        where = f"launch {name}"
        check_call(where, kernel, args)
        chosen = chosen_pes(where, pes, self._places)
        sizes = grid_of(where, grid, len(chosen))
        for tensor in (one for one in args if isinstance(one, DeviceTensor)):
            if not tensor.deployed and tensor.host is not None:
                self.deploy_tensor(tensor)
        if hasattr(kernel, "launched"):  # a Triton kernel; only users of Triton import the package
            from kernbench.triton.program import Options

            self.kernel_options.append(Options(freq_ghz=float(self._places.config.freq_ghz)))
            kernel = kernel.launched(self.kernel_options[-1])
        work = [
            PeWork(self._places.pes[pe], kernel, tuple(self._argument(one, pe) for one in args), programs, sizes)
            for pe, programs in deal(chosen, sizes)
        ]
        launch = self.host.launch(name, work)
        self.launches.append(launch)
        return launch

    def _argument(self, value: Any, pe: int) -> Any:
        return value.pointer(pe, self._places.pes[pe]) if isinstance(value, DeviceTensor) else value

    def install_queues(
        self,
        links: Links,
        *,
        ranks: Sequence[str],
        slots: int | None = None,
        slot_bytes: int | None = None,
        tier: str | None = None,
        protocol: str | None = None,
        planes: Mapping[int, PlaneForm] | None = None,
        through_switches: Sequence[SwitchQueueForm] = (),
    ) -> None:
        """Install queues between the PEs of a group. The new queues replace all earlier queues; the method first waits for all
        launches.

        `links`: `links[0][0, "E"] == (1, "W")` means that rank 1 is east of rank 0 in plane 0, and rank 0 is west of rank 1.
        `ranks`: the PEs by rank. `slots`, `slot_bytes`, `tier`: the defaults are those of `pe.ipcq` of the machine. `protocol`:
        a name in `pe.ipcq.protocols`; the default is `simple`. `planes`: for planes that differ from the others, the number of
        slots, the bytes of a slot and, if it differs, the protocol. `through_switches`: queues whose messages are combined or
        copied by switches. InputError for a table that is not symmetric, a queue in use, a protocol or switches that the
        machine does not have, and too little memory.
        """
        if isinstance(self._places, TenantPeSet):
            rule = "the kernels of a tenant have no queues between PEs"
            raise InputError(Problem("queues", rule, remedy="run this bench without other tenants (kbsim run)"))
        if self.launches:
            self.synchronize()
        self.queues.reserve = self._hbm.reserve
        how: dict[str, Any] = {"slots": slots, "slot_bytes": slot_bytes, "tier": tier, "protocol": protocol}
        self.queues.install(NeighbourTable(ranks, links, through_switches), **how, planes=planes)

    def synchronize(self) -> None:
        """Wait until all launches have ended."""
        self.host.wait()

    # Results ------------------------------------------------------------------------------------------------------

    def output(self, name: str, tensor: DeviceTensor) -> None:
        """Name a tensor as an output: its final elements are compared with the array that the reference returns under this
        name."""
        if name in self.outputs:
            rule = "there is an output of that name already"
            raise InputError(Problem(f"output {name}", rule, remedy="give each its own name"))
        self.outputs[name] = tensor

    def to_numpy(self, tensor: DeviceTensor) -> Array:
        """Return the elements of a tensor after all launches so far.

        Results of kernels are computed by replaying the op log from its beginning, so repeated calls are slow. InputError if
        nothing was written to the tensor, and if the run keeps no op log.
        """
        self.synchronize()
        if tensor.host is not None and not tensor.deployed:
            return tensor.host.copy()
        store = self._store
        pending = any(store.pending("hbm", part.physical, part.nbytes) for part in tensor.parts)
        if pending and self._log is None:
            rule = "it holds results of kernels, but this run keeps only times"
            raise InputError(Problem(f"tensor {tensor.name}", rule, remedy="keep an op log: kbsim run --verify does"))
        if pending:
            from kernbench.sim_engine.data_executor import DataExecutor  # Phase 2, imported only if it is needed

            store = DataExecutor(self._log).run().store  # type: ignore[arg-type]
        try:
            return tensor.gather(store)
        except ValueError as error:
            raise InputError(Problem(f"tensor {tensor.name}", str(error), remedy="store all of its elements first")) from None
