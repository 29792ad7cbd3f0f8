"""`kernbench.llm`: a language model on a machine."""

from __future__ import annotations

import os
from dataclasses import dataclass
from html import escape
from typing import Any, ClassVar, Literal

from kernbench.api.answer import Answer, Row, html_block, html_table
from kernbench.api.arguments import check_kind, check_path, names_checked
from kernbench.api.targets import DEFAULT_MACHINE, Config, Overrides, machine_of
from kernbench.common.look.palette import colour
from kernbench.config.allowed_code import AllowCode
from kernbench.config.overrides import parse_overrides
from kernbench.workloads.blocks.timer import StepTimer
from kernbench.workloads.llm.params import checked_params
from kernbench.workloads.llm.reductions import Reduction
from kernbench.workloads.llm.report import LlmReport, report_of
from kernbench.workloads.llm.run import ROLES
from kernbench.workloads.llm.steps import PHASES, Job
from kernbench.workloads.models.files import load_model
from kernbench.workloads.models.precision import load_precision, uniform_precision
from kernbench.workloads.parallel.layout import Layout, layout_in_ranks
from kernbench.workloads.parallel.run import job_programs, run_model
from kernbench.workloads.routing import routing_of

MODEL = "the name of a model or a file"
ROUTING = "even, uniform, zipf:S or the name of a file"


@dataclass(frozen=True, slots=True)
class LlmReasons:
    """What limited a run of a language model."""

    sentence: str  #: the share of each phase, and its limit
    metrics: dict[str, float]  #: [cycle] the cycles of each part, such as `decode layer`, over all its steps


@dataclass(frozen=True, eq=False, repr=False)
class LlmRun(Answer):
    """A run of a language model, as `kernbench.llm` returns it.

    `to_frame` has these tables:

    - `phases`: one row for `prefill` and one for `decode`, with `cycles`, `t_ns`, `tokens`, `tokens_per_s`, `reason`, the
      reached share of `dram_bound` and `mac_bound`, the DRAM bytes by role, and `energy_pj`.
    - `steps`: one row for each step, with `phase`, `tokens`, `context` and `cycles`.

    >>> import kernbench as kb
    >>> run = kb.llm("llama2-7b", layers=2, prompt=16, tokens=2)
    >>> run.to_frame("steps")["context"].to_list()
    [0, 16, 17]
    """

    tables: ClassVar[tuple[str, ...]] = ("phases", "steps")

    report: LlmReport

    @property
    def model(self) -> str:
        """The model's name."""
        return self.report.run.programs.model.name

    @property
    def machine(self) -> str:
        """The machine's name."""
        return self.report.run.programs.machine.source

    @property
    def cycles(self) -> int:
        """[cycle] The sum over all phases."""
        return sum(phase.total.cycles for phase in self.report.phases.values())

    @property
    def t_ns(self) -> float:
        """[ns] The sum over all phases."""
        return self.report.ns(self.cycles)

    @property
    def ttft_ns(self) -> float | None:
        """[ns] Time to first token, which is the time of the prefill; None without a prefill."""
        return self.report.ttft_ns

    @property
    def tpot_ns(self) -> float | None:
        """[ns] Time per output token, the mean over decode steps; None without decode steps."""
        return self.report.tpot_ns

    @property
    def tokens_per_s(self) -> float | None:
        """Decoded tokens per second of all sequences; None without a decode phase."""
        return self.report.tokens_per_s

    @property
    def metrics(self) -> Row:
        """`cycles`, `t_ns`, `ttft_ns`, `tpot_ns`, `tokens_per_s`, `energy_pj`, `dram_bytes`."""
        phases = self.report.phases.values()
        return {
            "cycles": self.cycles,
            "t_ns": self.t_ns,
            "ttft_ns": self.ttft_ns,
            "tpot_ns": self.tpot_ns,
            "tokens_per_s": self.tokens_per_s,
            "energy_pj": sum(sum(phase.total.energy_pj.values()) for phase in phases),
            "dram_bytes": sum(sum(phase.total.bytes.values()) for phase in phases),
        }

    def why(self) -> LlmReasons:
        """What limited each phase, and the cycles of its parts."""
        phases, whole = self.report.phases, self.cycles or 1
        reasons = [f"{phase.total.cycles / whole:.0%} {name} ({phase.reason})" for name, phase in phases.items()]
        parts: dict[str, float] = {}
        for name, phase in phases.items():
            kinds = {f"{name} {kind}": float(tally.cycles) for kind, (_, tally) in phase.kinds.items()}
            parts |= kinds or {name: float(phase.total.cycles)}
        return LlmReasons(", ".join(reasons), parts)

    @property
    def headline(self) -> str:
        reasons = [f"{name}: {phase.reason}" for name, phase in self.report.phases.items()]
        rate = "" if self.tokens_per_s is None else f"{self.tokens_per_s:,.4g} tokens/s; "
        return f"{self.model} on {self.machine}: {rate}{'; '.join(reasons)}"

    def rows(self, table: str) -> list[Row]:
        plain = self.report.to_dict()
        if table == "steps":
            return list(plain["steps"])
        return [
            {
                "phase": name,
                **{key: one[key] for key in ("cycles", "t_ns", "tokens", "tokens_per_s", "reason")},
                "dram_bound": one["dram_bound"]["share"],
                "mac_bound": one["mac_bound"]["share"],
                **{f"{role}_bytes": one["dram_bytes"][role] for role in ROLES},
                "energy_pj": sum(one["energy_pj"].values()),
            }
            for name, one in plain["phases"].items()
        ]

    def draw(self, ax: Any) -> None:
        """[cycle] The duration of each step."""
        steps = self.rows("steps")
        colours = {"prefill": colour("te"), "decode": colour("dma")}
        ax.bar(range(len(steps)), [step["cycles"] for step in steps], color=[colours[step["phase"]] for step in steps])
        ax.set_xlabel("step")
        ax.set_ylabel("cycles")
        ax.set_title(f"{self.model} on {self.machine}", fontsize="medium", loc="left")

    def _repr_html_(self) -> str:
        names = ("phase", "cycles", "t_ns", "tokens", "tokens_per_s", "reason", "dram_bound", "mac_bound")
        rows = [{name: row[name] for name in names} for row in self.rows("phases")]
        return html_block(f"<p><b>{escape(self.headline)}</b></p>", html_table(rows))


@names_checked
def llm(
    model: str | os.PathLike[str] = "llama2-7b",
    config: Config = DEFAULT_MACHINE,
    overrides: Overrides = (),
    *,
    phase: Literal["both", "prefill", "decode"] = "both",
    prompt: int = 128,
    tokens: int = 16,
    batch: int = 1,
    layers: int | None = None,
    w: int | None = None,
    a: int | None = None,
    kv: int | None = None,
    policy: str | os.PathLike[str] | None = None,
    page: int = 0,
    tp: int = 1,
    rank: str = "pe",
    pp: int = 1,
    micro_batches: int = 0,
    dp: int = 1,
    cp: int = 1,
    sp: bool = False,
    reduce: Reduction = "direct",
    ep: bool = False,
    prefetch_experts: bool = False,
    search_divisions: bool = False,
    mtp: bool = False,
    routing: str = "even",
    seed: int = 0,
    source: int = 0,
    reuse: bool = True,
    allow_code: AllowCode = (),
) -> LlmRun:
    """Run a language model, as `kbsim llm` does.

    - `model`: a name (`llama3-8b`), or a Hugging Face `config.json`.
    - `config`, `overrides` and `allow_code`: the same as in `run`.
    - `phase`: the phases to run: `prefill`, `decode` or `both`.
    - `prompt`: the number of tokens of the prompt.
    - `tokens`: the number of tokens to decode for each of `batch` sequences.
    - `layers`: the number of layers to simulate, from the first; None means all layers.
    - `w`, `a`, `kv`: the bits of weights, activations and the KV cache.
    - `policy`: a YAML file with the bits by role, layer and head.
    - `page`: the number of tokens in a page of the KV cache; 0 means no pages.
    - `tp`: the number of PEs of a system that share each layer, or of other ranks.
    - `rank`: what `tp` counts: `pe`, or `cube` or `sip`, which divide their share of a layer over all of their PEs.
    - `reduce`: how these PEs add their parts: `direct`, `ring`, `torus`, `tree`, `recursive_doubling`, or `auto` for the
      fastest algorithm.
    - `ep`: whether these PEs have whole experts.
    - `prefetch_experts`: whether the weights of all experts are loaded without waiting for the router.
    - `search_divisions`: whether the planner searches for the fastest division of the layers of a prefill over these PEs, by
      simulation.
    - `mtp`: whether each step also runs the blocks that predict further tokens.
    - `pp`: the number of pipeline stages, each with `tp` PEs.
    - `micro_batches`: the number of parts of the batch that pass through the stages one after another; 0 means as many as
      stages.
    - `dp`: the number of copies of the model that share the batch, and with `ep` also the experts.
    - `cp`: the number of ranks that divide the tokens of each sequence among themselves.
    - `sp`: whether each of the `tp` PEs has only some of the rows between products.
    - `routing` and `seed`: how tokens choose experts: `even`, `uniform`, `zipf:S` or a file of `shares`.
    - `source`: the number of tokens that an encoder reads for each sequence. The value 0 means the tokens of 30 s of audio for
      a speech model, and `prompt` tokens for any other model.
    - `reuse`: if False, every layer of every step is simulated.

    The function raises InputError for a model or machine that does not exist or is not valid, and for a model that does not fit
    the machine. `kernbench.serving.generate` is for the kernels of a chip under a runtime profile.

    >>> import kernbench as kb
    >>> four, eight = (kb.llm("llama2-7b", layers=1, prompt=8, tokens=1, w=bits).cycles for bits in (4, 8))
    >>> four < eight
    True
    """
    check_path("model", model, MODEL)
    check_kind("routing", routing, str, ROUTING)
    checked_params("kernbench.llm", {"phase": phase, "prompt": prompt, "tokens": tokens, "batch": batch, "layers": layers,
        "w": w, "a": a, "kv": kv, "page": page, "tp": tp, "pp": pp, "micro_batches": micro_batches, "dp": dp, "cp": cp,
    })  # fmt: skip
    found, bits = load_model(os.fspath(model)), {"w": w, "a": a, "kv": kv}
    stated = found.stated
    precision = uniform_precision(stated, **bits) if policy is None else load_precision(policy, stated, **bits)
    job = Job(
        prompt=prompt,
        tokens=tokens,
        source=source,
        batch=batch,
        layers=layers,
        phases=PHASES if phase == "both" else (phase,),
        page_tokens=page,
        shards=tp,
        reduction=reduce,
        routing=routing_of(routing, seed),
        expert_parallel=ep,
        prefetch_experts=prefetch_experts,
        search_divisions=search_divisions,
        predicting=mtp,
    )
    machine = machine_of(config, overrides, allow_code=allow_code)
    limit = machine.max_cycles if _sets_max_cycles(overrides) else None  # type: ignore[attr-defined]  # both kinds have it
    layout = layout_in_ranks(Layout(tp, pp, dp, micro_batches, cp, sp), rank, machine, where="kernbench.llm")  # type: ignore[arg-type]
    programs = job_programs(found, precision, machine, job, layout, max_cycles=limit)  # type: ignore[arg-type]
    return LlmRun(report_of(run_model(programs, reuse=reuse)))


@names_checked
def step_timer(
    model: str | os.PathLike[str] = "llama2-7b",
    config: Config = DEFAULT_MACHINE,
    overrides: Overrides = (),
    *,
    layers: int | None = None,
    w: int | None = None,
    a: int | None = None,
    kv: int | None = None,
    tp: int = 1,
    ep: bool = False,
    routing: str = "even",
    seed: int = 0,
    allow_code: AllowCode = (),
) -> StepTimer:
    """Return an object that gives the times of the steps of any batch of a model on a machine.

    `model`, `config`, `overrides`, `layers`, `w`, `a`, `kv`, `tp`, `ep`, `routing`, `seed` and `allow_code` are the same as in
    `llm`.

    The function raises InputError for a model or machine that does not exist or is not valid.

    >>> import kernbench as kb
    >>> timer = kb.step_timer("llama3-8b", layers=1)
    >>> decodes = kb.Sequences(1, 512, count=4)
    >>> chunk = kb.Sequences(64)
    >>> timer.step_cycles([decodes, chunk]) < timer.step_cycles([decodes]) + timer.step_cycles([chunk])
    True
    """
    check_path("model", model, MODEL)
    check_kind("routing", routing, str, ROUTING)
    checked_params("kernbench.step_timer", {"layers": layers, "w": w, "a": a, "kv": kv, "tp": tp})
    found = load_model(os.fspath(model))
    precision = uniform_precision(found.stated, w=w, a=a, kv=kv)
    machine = machine_of(config, overrides, allow_code=allow_code)
    route = routing_of(routing, seed)
    return StepTimer(
        found, precision, machine, shards=tp, layers=layers, routing=route, expert_parallel=ep  # type: ignore[arg-type]
    )


def _sets_max_cycles(overrides: Overrides) -> bool:
    """Whether the overrides set `max_cycles`: the limit in a machine's file holds for one program, a limit set here for the
    whole model."""
    return any(one.path == ("max_cycles",) for one in parse_overrides(overrides))
