"""Arrivals and lengths are drawn in a way that is equal on every machine."""

from __future__ import annotations

import hashlib
import math
from itertools import islice

import numpy as np
import pytest

from kernbench.serving import Arrivals, Workload
from kernbench.workloads.serving.draws import Draws, exp, log
from kernbench.workloads.serving.statistics import summary


def test_logarithms_and_powers_are_those_of_mathematics() -> None:
    """To the last digit but one. They use nothing of the C library that machines differ in."""
    draws = Draws(1)
    for _ in range(3000):
        value = draws.uniform() * 10.0 ** (draws.below(80) - 40)
        assert log(value) == pytest.approx(math.log(value), rel=5e-16, abs=5e-16)
        power = 600 * (2 * draws.uniform() - 1)
        assert exp(power) == pytest.approx(math.exp(power), rel=5e-16)
    assert (log(1.0), exp(0.0), exp(-800.0)) == (0.0, 1.0, 0.0)


@pytest.mark.parametrize("shape", [0.3, 1.0, 2.5])
def test_moments_of_gamma(shape: float) -> None:
    """Mean and variance are the shape, and the third central moment is twice the shape."""
    draws = Draws(5)
    values = np.array([draws.gamma(shape) for _ in range(25_000)])
    assert values.min() > 0 and values.mean() == pytest.approx(shape, rel=0.03)
    assert values.var() == pytest.approx(shape, rel=0.08)
    assert ((values - shape) ** 3).mean() == pytest.approx(2 * shape, rel=0.25)


def test_integers_are_uniform() -> None:
    draws = Draws(2)
    counts = np.bincount([draws.below(7) for _ in range(70_000)], minlength=7)
    assert len(counts) == 7 and abs(counts - 10_000).max() < 400


#: SHA-256 of arrivals [ns] and lengths of 500 requests. They change only if what is drawn changes, for any machine.
DRAWN = {
    "poisson": "f4ef2a4974298a3f",
    "bursty": "9753e7e91556c422",
    "ramp": "fca842adc0447d3a",
}


def drawn(name: str) -> str:
    arrivals = {
        "poisson": Arrivals(request_rate=20.0),
        "bursty": Arrivals(request_rate=20.0, burstiness=0.4),
        "ramp": Arrivals(ramp_up="exponential", ramp_up_start_rps=1.0, ramp_up_end_rps=50.0, burstiness=3.0),
    }[name]
    load = Workload(num_prompts=500, arrivals=arrivals, random_range_ratio=0.5, adapters=3, seed=9)
    rows = [(one.arrival_ns, one.prompt, one.output, one.adapter) for one in load.requests()]
    return hashlib.sha256(repr(rows).encode()).hexdigest()[:16]


@pytest.mark.parametrize("name", DRAWN)
def test_what_is_drawn_is_known(name: str) -> None:
    assert drawn(name) == DRAWN[name]


def test_prefixes_are_mixed_and_each_has_its_share() -> None:
    load = Workload(dataset_name="prefix_repetition", num_prompts=100, prefix_repetition_num_prefixes=4)
    names = [request.prefix[0][0] for request in load.requests()]
    assert sorted(names) == [name for name in range(4) for _ in range(25)] and names != sorted(names)
    assert names == [request.prefix[0][0] for request in islice(load.requests(), 100)]


def test_sums_do_not_depend_on_their_order() -> None:
    """Nor on how a machine's vector units group them."""
    draws = Draws(3)
    values = np.array([draws.exponential() * 10.0 ** draws.below(8) for _ in range(1000)])
    weights = np.array([1 + draws.below(5) for _ in range(1000)])
    for given in (None, weights):
        found = [summary(values[order].copy(), None if given is None else given[order])
                 for order in (np.arange(1000), np.argsort(values), np.argsort(-values))]  # fmt: skip
        assert found[0] == found[1] == found[2]
    both = summary(values.copy(), weights)
    each = summary(np.repeat(values, weights))
    assert both is not None and each is not None and both.percentiles == each.percentiles
    assert each.mean == pytest.approx(both.mean, rel=1e-14) and each.count == both.count
