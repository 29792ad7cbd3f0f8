"""The speed of BookSim2, if its program `booksim` is on the path. No test."""

from __future__ import annotations

import re
import resource
import shutil
import subprocess
from pathlib import Path
from tempfile import TemporaryDirectory

from kernbench.noc.network import MeshSpec
from kernbench.noc.traffic import Traffic

#: Routers and times that equal the defaults of `MeshSpec`: the example mesh88_lat of BookSim2 with two other values, for
#: `wait_for_tail_credit` and `input_speedup`.
ROUTERS = {
    "topology": "mesh", "n": 2, "routing_function": "dor", "vc_allocator": "islip", "sw_allocator": "islip", "alloc_iters": 1,
    "credit_delay": 2, "routing_delay": 0, "vc_alloc_delay": 1, "sw_alloc_delay": 1, "input_speedup": 1, "output_speedup": 1,
    "internal_speedup": "1.0", "wait_for_tail_credit": 0, "sim_type": "latency", "seed": 1, "sample_period": 2000,
}  # fmt: skip


def booksim_clocks_a_second(net: MeshSpec, traffic: Traffic) -> float | None:
    """[clocks/s of CPU time] with the same mesh of routers and the same load; None without BookSim."""
    program = shutil.which("booksim")
    if program is None:
        return None
    keys = ROUTERS | {
        "k": net.columns, "num_vcs": net.channels, "vc_buf_size": net.depth, "traffic": traffic.pattern,
        "packet_size": traffic.flits, "injection_rate": traffic.rate / traffic.flits,
    }  # fmt: skip
    with TemporaryDirectory() as folder:
        config = Path(folder, "mesh")
        config.write_text("".join(f"{name} = {value};\n" for name, value in keys.items()), encoding="ascii")
        before = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime
        # its exit status says nothing: it is 255 after a simulation without errors
        done = subprocess.run([program, str(config)], capture_output=True, text=True, check=False)
        spent = resource.getrusage(resource.RUSAGE_CHILDREN).ru_utime - before
    found = re.search(r"Time taken is (\d+) cycles", done.stdout)
    if found is None:
        raise RuntimeError(f"{program} simulated nothing: {done.stdout[-500:]}{done.stderr[-500:]}")
    return int(found[1]) / spent
