"""Names of nccl-tests: of its programs, options and element types, and why some of its options do not exist here."""

from __future__ import annotations

#: Long options: the options of `kbsim ccl run`. Without dashes at the front.
OPTIONS = {
    "minbytes": "begin", "maxbytes": "end", "stepbytes": "step", "stepfactor": "factor", "ngpus": "ranks",
    "datatype": "dtype", "warmup_iters": "warmup-iters",
}  # fmt: skip
COLLECTIVES = {"alltoall": "all_to_all", "sendrecv": "send_recv"}
TYPES = {
    "int8": "i8", "uint8": "u8", "int32": "i32", "uint32": "u32", "int64": "i64", "half": "f16", "float": "f32",
    "double": "f64", "bfloat16": "bf16", "fp8_e4m3": "f8e4m3", "fp8_e5m2": "f8e5m2",
}  # fmt: skip
_WITHOUT = "has no effect in a simulation: leave it out"
#: Options of nccl-tests that `kbsim ccl run` does not have: what to do instead.
_REMEDIES = {
    ("-t", "--nthreads"): "give the number of all ranks with --ranks",
    ("-m", "--agg_iters"): "launches follow each other directly; give their number with --iters",
    ("-N", "--run_cycles"): "every run takes the same number of cycles: one is enough",
    ("-p", "--parallel_init"): f"the parallel initialisation of nccl-tests {_WITHOUT}",
    ("-z", "--blocking"): f"the blocking mode of nccl-tests {_WITHOUT}",
    ("-y", "--stream_null"): f"the stream of nccl-tests {_WITHOUT}",
    ("-T", "--timeout"): f"the time limit of nccl-tests {_WITHOUT}",
    ("-G", "--cudagraph"): "to count the launch of each collective by the host: --runtime nccl_tests",
    ("-C", "--report_cputime"): "to count the time of the host: --runtime nccl_tests",
    ("-S", "--report_timestamps"): f"the time stamp of nccl-tests {_WITHOUT}",
    ("-J", "--output_file"): "to write JSON: --json > FILE",
    ("-R", "--local_register"): f"the registration of buffers of nccl-tests {_WITHOUT}",
    ("-x", "--cta_policy"): "to choose the number of cores that a collective occupies: --channels",
    ("-V", "--device_cta_count"): "to choose the number of cores that a collective occupies: --channels",
    ("-D", "--device_implementation"): "to choose an algorithm: --algo",
    ("-M", "--memory"): f"the memory report of nccl-tests {_WITHOUT}",
    ("-u", "--unalign"): "all buffers are aligned to their elements",
    ("-I", "--per_iter_timing"): "iterations differ only by the end of the one before: to see one, --iters 1",
    ("-K", "--per_iter_skip"): "to leave out the first iterations: --warmup-iters",
}
REMEDIES = {name: remedy for names, remedy in _REMEDIES.items() for name in names}


def collective_of(name: str | None) -> str | None:
    """The collective of a program of nccl-tests, such as `alltoall_perf`; another name as it is."""
    plain = None if name is None else name.removesuffix("_perf")
    return None if plain is None else COLLECTIVES.get(plain, plain if plain != "" else name)


def option_of(name: str) -> str:
    """The option of `kbsim ccl run` for the name of an option of nccl-tests; another name as it is."""
    return OPTIONS.get(name, name)
