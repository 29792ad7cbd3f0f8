"""The table of schedulers. A new rule is a new file in this folder and a new line in this table (docs/how-to/add_a_rule.md)."""
from kernbench_core.model.dram.scheduler.fcfs cimport mark_oldest, oldest
from kernbench_core.model.dram.scheduler.fr_fcfs cimport mark_open, oldest_of_batch
from kernbench_core.model.dram.scheduler.fr_fcfs_cap cimport mark_capped

SCHEDULERS[<int>FR_FCFS_CAP] = Scheduler(mark_capped, oldest_of_batch)
SCHEDULERS[<int>FR_FCFS] = Scheduler(mark_open, oldest_of_batch)
SCHEDULERS[<int>FCFS] = Scheduler(mark_oldest, oldest)
