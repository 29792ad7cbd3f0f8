"""A bench of a user, small enough to read: it can be right, be wrong, raise, wait implicitly, or ask for its result."""

BENCH = '''\
import numpy as np

from kernbench.runtime_api import DPPolicy, bench


def scale(x, out, factor, tl):
    values = tl.load(x, x.shape, x.dtype)
    if values[0, 0] < 0:
        raise RuntimeError("below zero")
    result = values * factor
    tl.wait(result)
    tl.store(out, result)


def hasty(x, out, factor, tl):
    tl.store(out, tl.load(x, x.shape, x.dtype) * factor)


def reference(inputs, params):
    return {"out": inputs["x"] * np.float32(params["factor"] + params["off"])}


@bench(
    name="scale",
    description="out = x * factor",
    machine="single_cube",
    params={"factor": 2.0, "off": 0.0, "first": 0.0, "hasty": False, "look": False},
    reference=reference,
)
def run(ctx):
    rows = DPPolicy(pe="row_wise", pes=2)
    values = np.arange(64, dtype=np.float32).reshape(8, 8)
    values[0, 0] += ctx.params["first"]
    x = ctx.from_numpy(values, name="x", placement=rows)
    out = ctx.empty((8, 8), "f32", name="out", placement=rows)
    ctx.launch("scale", hasty if ctx.params["hasty"] else scale, x, out, ctx.params["factor"], pes=2)
    ctx.output("out", out)
    if ctx.params["look"]:
        assert ctx.to_numpy(out)[7, 7] == 126
'''
