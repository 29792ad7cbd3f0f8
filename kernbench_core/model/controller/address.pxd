"""Where a burst is: C4 of docs/model/dram_controller.md."""
from kernbench_core.model.controller.requests cimport Controllers, Request

cdef void place_burst(Controllers* d, Request* q) noexcept nogil
