"""Page policies of DRAM: when a row that no burst needs is closed. Each rule is in one file."""
