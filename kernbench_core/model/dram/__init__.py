"""DRAM: the addresses of a transfer's bytes, and the banks, queues and commands of a channel with row buffers."""
