"""The table of page policies. A new rule is a new file in this folder and a new line in this table
(docs/how-to/add_a_rule.md)."""
from kernbench_core.model.dram.page.closed_page cimport close_unwanted
from kernbench_core.model.dram.page.open_page cimport keep_open

PAGE_POLICIES[<int>OPEN_PAGE] = PagePolicy(keep_open)
PAGE_POLICIES[<int>CLOSED_PAGE] = PagePolicy(close_unwanted)
