"""The table of arbiters. A new rule is a new file in this folder and a new line in this table (docs/how-to/add_a_rule.md)."""
from kernbench_core.model.arbiter.oldest_first cimport oldest_first
from kernbench_core.model.arbiter.round_robin cimport round_robin
from kernbench_core.model.arbiter.rule cimport OLDEST_FIRST, PLUGGED_IN, ROUND_ROBIN
from kernbench_core.plugin.plugged_arbiter cimport plugged_in

ARBITERS[<int>OLDEST_FIRST] = Arbiter(oldest_first, False)
ARBITERS[<int>ROUND_ROBIN] = Arbiter(round_robin, True)
ARBITERS[<int>PLUGGED_IN] = Arbiter(plugged_in, False)
