"""A run and what is said of it: conditions, counters, waits, deadlocks, states."""
