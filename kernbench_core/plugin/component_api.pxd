"""The functions that a component may call (`kb_core_api`)."""
from kernbench_core.plugin.abi cimport kb_core_api
from kernbench_core.plugin.component_tables cimport Plug

cdef void open_api(kb_core_api* api, Plug* plug) noexcept nogil
