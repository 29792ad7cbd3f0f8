"""`docs/ccl_costs.py`: the weights that come with the package are those of the times that the script reads."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest

from kernbench.ccl.group import group_of, shape_for
from kernbench.ccl.measure import Asked, messages, queues_of
from kernbench.ccl.registry import read_registry
from kernbench.ccl.tuner import KNOWN, Tuner, errors_of_model
from kernbench.ccl.weights import FITTED
from kernbench.config import SystemConfig, load_config
from tests.docs.test_build import DOCS, part

pytestmark = pytest.mark.skipif(not (DOCS / "ccl_costs.py").exists(), reason="the documentation is not in this source tree")


@pytest.fixture(scope="module")
def costs() -> Any:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(DOCS))  # it reads the rows of the script beside it
        return part("ccl_costs")


@pytest.fixture(scope="module")
def groups() -> Any:
    return json.loads(KNOWN.read_text(encoding="utf-8"))["groups"]


def test_the_weights_of_the_package_are_the_best_for_its_times(costs: Any, groups: Any) -> None:
    """By the measure that the fit minimises; they are written with few digits."""

    def error(rows: Any, weights: Any) -> float:
        found = [abs(np.dot(features, weights) / cycles - 1) for features, cycles in rows]
        return float(np.mean(found) + costs.LARGEST * max(found))

    rows = costs.rows_of([*groups, *costs.tabled()])
    best = costs.weights(rows)
    assert best.keys() == FITTED.keys()
    for name, weights in best.items():
        assert error(rows[name], FITTED[name]) <= 1.005 * error(rows[name], weights) + 0.001, name
    one = "all_reduce_hierarchical"
    small = costs.rows_of(groups)[one]  # without the table the weights would be others
    assert error(small, FITTED[one]) > 1.2 * error(small, costs.weights({one: small})[one])


@pytest.mark.nightly
def test_the_times_of_the_package_are_of_the_groups_and_sizes_of_the_script(costs: Any, groups: Any) -> None:
    """Barriers have no size, and the file has rows of the same time for them."""
    entries = read_registry().entries
    assert len(groups) == len(costs.GROUPS)
    for (machine, ranks, sizes_of), known in zip(costs.GROUPS, groups, strict=True):
        config = load_config(machine, kind=SystemConfig)
        tuner = Tuner(config, group_of(config, shape_for(config, ranks)), read_registry())
        assert (known["machine"], known["digest"], known["shape"]) == (machine, config.digest(), list(tuner.group.shape))
        expected = {}
        for one in entries:
            what = costs.COLLECTIVES[one.collective]
            if one in tuner.candidates(one.collective) and what.moves and one.collective in sizes_of:
                asked = Asked(config, tuner.group, one, "f16", queues_of(read_registry(), one), check=False)
                counts = {what.count_of(size, ranks, 2) for size in sizes_of[one.collective]}
                few = [count for count in sorted(counts) if messages(asked, count)[0] <= costs.MOST_MESSAGES]
                expected |= {one.full_name: [2 * count for count in few]} if few else {}
        found = {name: [size for size, _ in rows] for name, rows in known["times"].items() if not name.startswith("barrier")}
        assert found == expected
        assert all(len({cycles for _, cycles in known["times"][name]}) == 1 for name in known["times"].keys() - found.keys())


def test_the_errors_of_the_package_are_those_of_its_weights(costs: Any, groups: Any) -> None:
    """With them, the model gives the simulated times back."""
    found = costs.errors(costs.points_of([*groups, *costs.tabled()]), {name: np.array(one) for name, one in FITTED.items()})
    assert found == errors_of_model()
