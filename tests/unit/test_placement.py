"""`DPPolicy`: known cuts by hand, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest

from kernbench.common.errors import InputError
from kernbench.policy.placement import DPPolicy, Size

ONE_CUBE = Size(1, 1, 8)


def blocks(policy: DPPolicy, shape: tuple[int, ...], size: Size) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
    return [(shard.offset, shard.shape) for shard in policy.shards(shape, size)]


def test_row_wise_gives_the_first_pes_one_row_more() -> None:
    # 10 rows over 4 PEs: 3, 3, 2, 2.
    cut = blocks(DPPolicy(pe="row_wise", pes=4), (10, 5), ONE_CUBE)
    assert cut == [((0, 0), (3, 5)), ((3, 0), (3, 5)), ((6, 0), (2, 5)), ((8, 0), (2, 5))]


def test_column_wise_cuts_the_last_axis() -> None:
    cut = blocks(DPPolicy(pe="column_wise", pes=2), (2, 3, 5), ONE_CUBE)
    assert cut == [((0, 0, 0), (2, 3, 3)), ((0, 0, 3), (2, 3, 2))]


def test_tiled_is_the_most_nearly_square_grid() -> None:
    # 8 PEs are 2 rows of 4: 6 rows in threes, 8 columns in twos.
    cut = blocks(DPPolicy(pe="tiled"), (6, 8), ONE_CUBE)
    assert cut == [((r, c), (3, 2)) for r in (0, 3) for c in (0, 2, 4, 6)]


def test_levels_cut_what_the_level_above_left() -> None:
    # 2 SIPs halve the rows, 2 cubes halve the columns of each, 2 PEs have both the same.
    cut = blocks(DPPolicy(sip="row_wise", cube="column_wise"), (4, 6), Size(2, 2, 2))
    assert cut == [((r, c), (2, 3)) for r in (0, 2) for c in (0, 3) for _ in range(2)]


def test_replicas_have_everything() -> None:
    assert blocks(DPPolicy(), (3,), Size(1, 2, 2)) == [((0,), (3,))] * 4


def test_of_too_few_rows_the_last_pes_have_none() -> None:
    shards = DPPolicy(pe="row_wise").shards((3,), ONE_CUBE)
    assert [shard.elements for shard in shards] == [1, 1, 1, 0, 0, 0, 0, 0]
    assert [shard.offset for shard in shards[3:]] == [(3,)] * 5


def test_a_prime_number_of_units_is_a_grid_of_one_row() -> None:
    assert blocks(DPPolicy(pe="tiled", pes=7), (2, 7), ONE_CUBE) == [((0, c), (2, 1)) for c in range(7)]


def test_a_shard_selects_itself_from_the_tensor() -> None:
    tensor = np.arange(60).reshape(6, 10)
    shard = DPPolicy(pe="tiled").shards((6, 10), ONE_CUBE)[5]
    assert tensor[shard.index].tolist() == [[33, 34, 35], [43, 44, 45], [53, 54, 55]]


@pytest.mark.parametrize(
    ("make", "text"),
    [
        (
            lambda: DPPolicy(cube="rowwise"),  # type: ignore[arg-type]
            'DPPolicy: cube = "rowwise", but it must be one of replicate, row_wise, column_wise, tiled',
        ),
        (lambda: DPPolicy(pes=0), "DPPolicy: pes = 0, but it must be an integer of at least 1, or None for all"),
        (
            lambda: DPPolicy(pes=9).shards((4,), ONE_CUBE),
            "DPPolicy: pes = 9, but the machine has 8; use fewer, or leave it out for all",
        ),
        (
            lambda: DPPolicy(pe="tiled").shards((4,), ONE_CUBE),
            'DPPolicy: pe = "tiled", but a tensor of shape (4,) has 1 axes, and this way cuts 2; use row_wise or replicate',
        ),
        (
            lambda: DPPolicy(pe="row_wise").shards((), ONE_CUBE),
            'DPPolicy: pe = "row_wise", but a tensor of shape () has 0 axes, and this way cuts 1; take replicate',
        ),
    ],
)
def test_a_wrong_policy_is_refused(make: object, text: str) -> None:
    with pytest.raises(InputError) as error:
        make()  # type: ignore[operator]
    assert str(error.value) == text


def test_one_unit_needs_no_axis() -> None:
    assert blocks(DPPolicy(pe="tiled", pes=1), (), ONE_CUBE) == [((), ())]
