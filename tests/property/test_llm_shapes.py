"""Random small models and jobs: bytes and MACs as the planner foretells, no overlap, the same cycles with and without reuse."""

from __future__ import annotations

from collections import Counter
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from kernbench.cmdq.entries import DmaEntry, KvEntry
from kernbench.cmdq.footprint import transfer_of, work_of
from kernbench.common.errors import InputError
from kernbench.workloads.llm.run import run_llm
from kernbench.workloads.llm.steps import Job
from kernbench.workloads.models.precision import uniform_precision
from tests.llm_cases import LlmCase, tiny_model
from tests.workload_programs import accesses_of, scratchpad_accesses, tiny_machine, unordered


@st.composite
def cases(draw: st.DrawFn) -> LlmCase:
    """A model with any of the features, a machine that may be too small for it, and a short job."""
    flag = st.booleans()
    changes: dict[str, Any] = {name: draw(flag) for name in ("rope", "gated", "qkv_bias", "out_bias", "mlp_bias", "softcap")}
    changes["norm"] = draw(st.sampled_from(["rmsnorm", "layernorm"]))
    if draw(flag):
        changes |= {"experts": draw(st.integers(2, 5)), "experts_per_token": draw(st.integers(1, 2))}
    else:
        changes["post_norms"] = draw(flag)
    changes["kv_heads"] = draw(st.sampled_from([1, 2, 4]))
    model = tiny_model("any", window=draw(st.sampled_from([0, 0, 17])), tied=draw(flag), **changes)
    page = draw(st.sampled_from([0, 0, 16]))
    job = Job(prompt=draw(st.integers(1, 60)), tokens=1, batch=draw(st.integers(1, 3)), page_tokens=page)
    bits = {"w": draw(st.sampled_from([2, 4, 8])), "a": draw(st.sampled_from([8, 16])), "kv": draw(st.sampled_from([4, 8]))}
    return LlmCase(model, tiny_machine(draw(st.sampled_from([24, 40, 96]))), job, uniform_precision(**bits))


@settings(max_examples=6, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(cases())
def test_any_model(case: LlmCase) -> None:
    try:
        programs = case.programs()
        programs.dram  # noqa: B018  # made when asked for
    except InputError as error:  # too small for it, and it says so
        assert "scratchpad" in str(error) or "smallest tiles" in str(error)
        return
    for step in programs.steps:
        for segment in list(programs.segments(step))[1:2]:
            program = programs.segment_program(segment)
            plan = programs.plan(segment.shape, step)
            found: Counter[str] = Counter()
            for entry in program.entries:
                if isinstance(entry, DmaEntry | KvEntry):
                    found["bytes"] += transfer_of(entry, programs.machine).bytes_total
                elif entry.engine == "te" and entry.op == "gemm":
                    found["macs"] += work_of(entry)
            assert found["bytes"] == plan.dram_bytes
            rows, shape = step.tokens * case.job.batch, segment.shape
            each = {m.name: m.rows * m.cols * (shape.experts_per_token if m.experts > 1 else 1) for m in shape.matrices}
            assert found["macs"] == rows * sum(each.values())
            assert unordered(program, accesses_of(program, programs.machine, scratchpad_accesses)) == []
    once, whole = run_llm(programs), run_llm(programs, reuse=False)
    assert [step.total.cycles for step in once.steps] == [step.total.cycles for step in whole.steps]
