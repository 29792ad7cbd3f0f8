"""Running programs: the machine, its state between cycles, and results."""
