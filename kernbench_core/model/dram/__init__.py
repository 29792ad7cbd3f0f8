"""DRAM: where the bytes of a transfer are, and the banks, queues and commands of a channel with row buffers."""
