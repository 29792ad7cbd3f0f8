from kernbench.triton_emu.tl_memory cimport TlMemory
