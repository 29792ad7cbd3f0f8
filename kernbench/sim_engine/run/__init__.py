"""A run and its reports: conditions, counters, waits, deadlocks, states."""
