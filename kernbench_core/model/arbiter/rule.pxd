"""The numbers of the arbiters of scratchpad banks."""

cdef enum ArbiterRule:        # in the order of ARBITERS in kernbench/config/schema.py: append
    OLDEST_FIRST
    ROUND_ROBIN
    PLUGGED_IN  # the user-defined arbiter of the run (plugin/plugged_arbiter.pxd); it comes after all named arbiters
    N_ARBITERS
