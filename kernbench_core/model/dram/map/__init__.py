"""Address maps of DRAM: in which bank and row of its channel a burst is. A rule a file."""
