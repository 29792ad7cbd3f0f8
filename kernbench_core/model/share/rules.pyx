"""The table of the allocation rules. A new rule is a new file in this folder and a new line in this table."""
from kernbench_core.model.share.fifo cimport fifo_rates
from kernbench_core.model.share.max_min cimport max_min_rates
from kernbench_core.model.share.shared_bw cimport shared_bw_rates
from kernbench_core.types cimport CONTROLLER_MODEL, FIFO, MAX_MIN, ROW_BUFFER, SHARED_BW, int32_t

SHARE_RULES[<int>SHARED_BW] = ShareRule(shared_bw_rates, queues=False, local=True)
SHARE_RULES[<int>MAX_MIN] = ShareRule(max_min_rates, queues=False, local=False)
SHARE_RULES[<int>FIFO] = ShareRule(fifo_rates, queues=True, local=True)
SHARE_RULES[<int>ROW_BUFFER] = ShareRule(shared_bw_rates, queues=True, local=False)  # dram/row_buffer.pyx chooses the members
SHARE_RULES[<int>CONTROLLER_MODEL] = ShareRule(shared_bw_rates, queues=True, local=False)  # controller/buffers.pyx chooses the members


cdef void share_rates(Share* s, cycle_t now) noexcept nogil:
    """P4: recompute the rates of every flow on a resource whose membership changed."""
    cdef int32_t i
    SHARE_RULES[s.rule].rates(s, now)
    for i in range(s.n_dirty):
        s.res[s.dirty[i]].dirty = False
    s.n_dirty = 0
