"""The table of arbiters. A new rule is a file beside this one and a line here (docs/how-to/add_a_rule.md)."""
from kernbench_core.model.arbiter.oldest_first cimport oldest_first
from kernbench_core.types cimport OLDEST_FIRST

ARBITERS[<int>OLDEST_FIRST] = oldest_first
