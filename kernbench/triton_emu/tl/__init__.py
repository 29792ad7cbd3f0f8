"""`tl`: what a kernel calls, one file a group of functions."""
