"""`docs/ccl_costs.py`: the weights that come with the package are those of the times that the script reads."""

from __future__ import annotations

import json
import random
from typing import Any

import numpy as np
import pytest

from kernbench.ccl.contract import Shape
from kernbench.ccl.group import group_of
from kernbench.ccl.measure import CclRequest, messages, queues_of, row
from kernbench.ccl.registry import read_registry
from kernbench.ccl.tuner import KNOWN, errors_of_model
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


@pytest.fixture(scope="module")
def rows(costs: Any) -> Any:
    """Of the groups, the table of all-reduces and the networks: what the model sees of each time, and the time."""
    found: dict[str, Any] = {}
    for one in (*costs.together([*costs.kept(), *costs.tabled()]), *costs.kept("networks")):
        for name, some in costs.features_of(one).values():
            found.setdefault(name, []).extend(some)
    return found


def test_the_weights_of_the_package_are_the_best_for_its_times(costs: Any, rows: Any) -> None:
    """By the measure that the fit minimises; they are written with few digits."""

    def error(some: Any, weights: Any) -> float:
        return float(np.mean([abs(np.dot(features, weights) / cycles - 1) for features, cycles in some]))

    best = costs.weights(rows)
    assert best.keys() == FITTED.keys()
    for name, weights in best.items():
        assert error(rows[name], FITTED[name]) <= 1.005 * error(rows[name], weights) + 0.001, name
    few = rows["all_reduce_hierarchical"][::4]  # of fewer times the weights would be others
    assert error(few, FITTED["all_reduce_hierarchical"]) > 1.02 * error(few, costs.weights({"few": few})["few"])


def test_the_errors_of_the_package_are_those_of_its_weights(costs: Any, groups: Any) -> None:
    """Simulated over modelled cycles, beside each time."""
    weights = {name: np.array(one) for name, one in FITTED.items()}
    kept = costs.kept()
    assert len(kept) == len(groups) >= len(costs.GROUPS)
    for one, known in zip(kept, groups, strict=True):
        found = costs.with_errors(one, costs.features_of(one), weights)["times"]
        assert {name: [tuple(row) for row in some] for name, some in found.items()} == {
            name: [tuple(row) for row in some] for name, some in known["times"].items()
        }
    assert {name for one in groups for name in one["times"]} == set(errors_of_model())


def test_the_errors_of_boards_are_those_of_the_same_weights(costs: Any) -> None:
    """They have no part in the weights, nor in the estimates for other machines."""
    weights = {name: np.array(one) for name, one in FITTED.items()}
    known = json.loads(KNOWN.read_text(encoding="utf-8"))["boards"]
    assert [(one["machine"], one["shape"][0]) for one in known] == list(costs.BOARDS)
    for one, there in zip(costs.kept("boards"), known, strict=True):
        assert load_config(one["machine"], kind=SystemConfig).digest() == one["digest"]
        found = costs.with_errors(one, costs.features_of(one), weights)["times"]
        assert json.loads(json.dumps(found)) == there["times"]


@pytest.mark.nightly
def test_the_times_of_the_package_are_those_of_simulation(groups: Any) -> None:
    """Of each group of the package three times, drawn by its digest. The table of all-reduces has three digits."""
    entries = {entry.full_name: entry for entry in read_registry().entries}
    for known in groups:
        config = load_config(known["machine"], known["overrides"], kind=SystemConfig)
        assert config.digest() == known["digest"]
        group = group_of(config, Shape(*known["shape"]))
        points = [(name, size, cycles) for name, some in sorted(known["times"].items()) for size, cycles, _ in some if size]
        for name, size, cycles in random.Random(known["digest"]).sample(points, min(3, len(points))):
            request = CclRequest(config, group, entries[name], "f16", queues_of(read_registry(), entries[name]), check=False)
            if messages(request, size // 2)[0] > 4000:
                continue
            made, _ = row(request, size // 2)
            assert made is not None and made.cycles == pytest.approx(cycles, rel=0.005), (known["machine"], name, size)
