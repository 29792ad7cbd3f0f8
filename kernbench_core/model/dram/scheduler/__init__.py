"""Schedulers of DRAM: which queued burst gets the next column command. A rule a file."""
