"""The collectives: how many elements each rank has and gets, and how the bandwidth is counted, as in nccl-tests."""

from __future__ import annotations

from fractions import Fraction

import msgspec

from kernbench.common.dtypes import DTYPES, KERNEL_ONLY


class Collective(msgspec.Struct, frozen=True):
    """One collective. The parameter `count` of its methods is the `n_elem` of the kernel."""

    name: str
    blocks_in: bool = False  #: whether a rank has `count` elements for each rank, or `count` in total
    blocks_out: bool = False  #: whether a rank gets `count` elements from each rank, or `count` in total
    reduces: bool = False
    rooted: bool = False
    moves: bool = True  #: whether it has elements

    def has(self, count: int, ranks: int) -> int:
        """Return the number of elements that a rank has before the call."""
        return count * ranks if self.blocks_in else count

    def gets(self, count: int, ranks: int) -> int:
        """Return the number of elements that a rank gets."""
        return count * ranks if self.blocks_out else count

    def says(self, count: int, ranks: int, rank: int) -> tuple[int, ...]:
        """Return the number of elements that a reference may return for a rank: all elements that the rank gets, or 0."""
        gets = self.gets(count, ranks)
        nothing = self.rooted and rank and (self.reduces or self.blocks_out)
        return (gets, 0) if not self.moves or nothing else (gets,)

    def count_of(self, nbytes: int, ranks: int, itemsize: int) -> int:
        """Return the largest count, at least 1, for which neither inputs nor results of a rank exceed this many bytes."""
        return max(1, nbytes // itemsize // (ranks if self.blocks_in or self.blocks_out else 1))

    @property
    def in_place(self) -> bool:
        """Whether elements and results may share memory: the smaller of the two is then the rank's block in the larger one.

        This is false for a collective that gives every rank a block of every rank, for pairs, and for a collective in which
        only
        the root has all blocks.
        """
        return self.moves and self.name != "send_recv" and self.blocks_in + self.blocks_out + self.rooted < 2

    @property
    def own_in(self) -> bool:
        """Whether, in place, the elements of a rank are in its own block of the results."""
        return self.blocks_out and not self.blocks_in

    @property
    def own_out(self) -> bool:
        """Whether, in place, the results of a rank are in its own block of the elements."""
        return self.blocks_in and not self.blocks_out

    def bus_factor(self, ranks: int) -> Fraction:
        """Return the ratio of bus bandwidth to algorithm bandwidth: the share of the size that each rank must send at least."""
        share = Fraction(ranks - 1, ranks)
        if self.reduces and not self.blocks_in and not self.rooted:
            return 2 * share
        return share if self.blocks_in or self.blocks_out else Fraction(1)


COLLECTIVES = {
    one.name: one
    for one in (
        Collective("all_reduce", reduces=True),
        Collective("all_gather", blocks_out=True),
        Collective("reduce_scatter", blocks_in=True, reduces=True),
        Collective("broadcast", rooted=True),
        Collective("reduce", reduces=True, rooted=True),
        Collective("gather", blocks_out=True, rooted=True),
        Collective("scatter", blocks_in=True, rooted=True),
        Collective("all_to_all", blocks_in=True, blocks_out=True),
        Collective("send_recv"),
        Collective("barrier", moves=False),
    )
}
#: Element types whose elements are whole bytes and can be added.
CCL_DTYPES = tuple(name for name, kind in DTYPES.items() if kind.bits >= 8 and kind.kind != "bool" and name not in KERNEL_ONLY)
