"""`tl`: the functions that a kernel calls, one file for each group of functions."""
