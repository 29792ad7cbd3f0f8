"""The tuner's choices on a grid of groups, collectives and sizes, against simulations of all algorithms."""

from __future__ import annotations

from dataclasses import replace

import pytest

from kernbench.ccl.measure import messages
from tests.ccl_grid import Point, Times, measured, points

MAX_MESSAGES = 300_000  #: of an algorithm that is simulated in the night: more take minutes each
SHORT = ("all_reduce", "all_gather")


def test_choices_on_a_switch_are_good_without_times_of_switches() -> None:
    """No time of the package is of a switch without sums. With eight SIPs, a rank sends seven messages to others, and four at a
    time: `direct` takes two latencies a step, and is not the best one for short messages.
    """
    some = [one for one in points() if one.topology == "switch" and one.shape.ranks == 8]
    small = ("sip.rows=1", "sip.cols=1")  # one cube in each SIP
    short = [replace(one, overrides=(*one.overrides, *small)) for one in some if one.size == 300 and one.collective in SHORT]
    found = list(measured(short, _simulated(short)))
    assert len(found) == 2 and max(one.loss for one in found) <= 0.05
    for one in found:
        for name in ("direct", one.chosen):
            assert one.estimates[name] == pytest.approx(one.times[name], rel=0.15), (str(one.point), name)
    assert found[0].chosen != "direct" and found[0].times["direct"] > 1.2 * min(found[0].times.values())


def test_a_route_over_a_slow_uplink_counts_as_often_as_it_takes_longer() -> None:
    """The uplink of a leaf of four SIPs with an oversubscription of 16 has a quarter of the bandwidth of a SIP's link."""
    one = next(one for one in points() if one.topology == "fat tree")
    slow = replace(one, overrides=(*one.overrides, "system.switch.oversubscription=16"))
    for point, over in ((one, 1.0), (slow, 4.0)):
        routes = point.tuner().routes
        near, far = [(0, 2)], [(0, 8)]  # in a row of SIPs, and to the other row; two ranks a SIP
        assert routes.loads(near) == 1.0 and routes.loads(far) == over
        assert routes.between(0, 8) > routes.between(0, 2)


def test_a_grid_whose_columns_alone_cross_sips_has_weights_of_its_own() -> None:
    """On two nodes with rails, all elements travel along rows first. With the weights of two halves that travel at the same
    time, the estimate for long messages was a third too high.
    """
    point = next(one for one in points() if str(one) == "rails 8x1x2 all_reduce 300,000 B")
    small = replace(point, overrides=(*point.overrides, "sip.rows=1", "sip.cols=1", "cube.pes=2"))
    entries, times = {one.name: one for one in small.entries}, Times()
    estimates = small.tuner().choose("all_reduce", small.count, "f16").cycles
    found = {name: times.simulate(small, entries[name]) for name in ("torus", "hierarchical")}
    assert found["torus"] < found["hierarchical"] and estimates["torus"] < estimates["hierarchical"]
    assert estimates["torus"] == pytest.approx(found["torus"], rel=0.2)


def _simulated(some: list[Point]) -> Times:
    times = Times()
    for point in some:
        for entry in point.entries:
            if messages(point.request(entry), point.count)[0] <= MAX_MESSAGES:
                times.simulate(point, entry)
    return times


@pytest.mark.nightly
def test_choices_are_nearly_the_best() -> None:
    """95 % of the points within 5 % of the best algorithm, and all within 20 % (docs/explanation/tuner.md)."""
    whole = points()
    assert len(whole) == 219
    found = sorted(measured(whole, _simulated(whole)), key=lambda one: -one.loss)
    worst = "\n".join(map(str, found[:20]))
    assert len(found) >= 214
    assert sum(one.loss <= 0.05 for one in found) >= 0.95 * len(found), worst
    assert found[0].loss <= 0.2, worst
