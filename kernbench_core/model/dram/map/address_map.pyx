"""The table of address maps. A new rule is a new file in this folder and a new line in this table
(docs/how-to/add_a_rule.md)."""
from kernbench_core.model.dram.map.row_bank_column_group cimport row_bank_column_group
from kernbench_core.model.dram.map.row_column_bank_group cimport row_column_bank_group

ADDRESS_MAPS[<int>ROW_BANK_COLUMN_GROUP] = AddressMap(row_bank_column_group)
ADDRESS_MAPS[<int>ROW_COLUMN_BANK_GROUP] = AddressMap(row_column_bank_group)
