"""Running programs: the machine, what it shows while it stands, and results."""
