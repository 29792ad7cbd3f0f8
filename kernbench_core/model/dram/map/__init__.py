"""Address maps of DRAM: the bank and the row of a burst in its channel. Each rule is in one file."""
