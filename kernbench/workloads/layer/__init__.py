"""One decoder layer as a program: buffers, DRAM, stages."""
