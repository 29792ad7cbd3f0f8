"""The address maps of DRAM, by number."""
from kernbench_core.model.dram.devices cimport Burst, Devices
from kernbench_core.types cimport int64_t

cdef enum AddressMapRule:     # in the order of ADDRESS_MAPS in kernbench/config/dram_device.py: append
    ROW_BANK_COLUMN_GROUP
    ROW_COLUMN_BANK_GROUP
    N_ADDRESS_MAPS

cdef struct AddressMap:       # one address map
    # Writes the bank and the row of the burst with this number in its channel.
    void (*locate)(Devices* d, Burst* q, int64_t number) noexcept nogil

cdef AddressMap[<int>N_ADDRESS_MAPS] ADDRESS_MAPS  # indexed by `AddressMapRule`
