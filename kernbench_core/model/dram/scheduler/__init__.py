"""Schedulers of DRAM: the choice of the queued burst for the next column command. Each rule is in one file."""
