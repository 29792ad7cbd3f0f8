"""The address maps of DRAM, by number."""
from kernbench_core.model.dram.devices cimport Burst, Devices
from kernbench_core.types cimport N_ADDRESS_MAPS, int64_t

cdef struct AddressMap:       # one address map
    # Writes the bank and the row of the burst with this number in its channel.
    void (*place)(Devices* d, Burst* q, int64_t number) noexcept nogil

cdef AddressMap[N_ADDRESS_MAPS] ADDRESS_MAPS  # indexed by `AddressMapRule`
