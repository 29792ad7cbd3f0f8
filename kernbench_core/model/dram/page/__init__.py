"""Page policies of DRAM: when a row is closed that nobody waits for. A rule a file."""
