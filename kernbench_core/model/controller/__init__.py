"""DRAM controllers of `row_buffer_v2` (docs/model/dram_controller.md)."""
