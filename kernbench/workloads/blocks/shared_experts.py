"""Experts that replicas share: each PE of all replicas has some whole experts, and rows go to their experts and back.

A row goes to each expert that its router chooses by an all-to-all (`dispatch`). A second all-to-all returns the expert's
output (`combine`). The shards of a replica divide its rows between them for this, so that no row is sent twice to one expert.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence

from kernbench.cmdq.footprint import bytes_of
from kernbench.common.units import even_parts
from kernbench.workloads.blocks import feed_forward
from kernbench.workloads.blocks.layer import BlockLayer
from kernbench.workloads.blocks.meetings import Meeting, SentRows
from kernbench.workloads.llm.exchanges import Departure
from kernbench.workloads.models.parts import Experts, Mlp
from kernbench.workloads.routing import sent_rows


class SharedExpertsLayer(BlockLayer):
    """A layer of one PE. `replica_rows`: of each replica, the rows of each of its blocks; every replica has as many blocks."""

    replica_rows: Sequence[Sequence[int]]

    def emit_all(self) -> Iterator[Meeting]:
        """All blocks of rows. A replica with fewer blocks than another one computes its experts for the others' rows."""
        yield from super().emit_all()
        done = len(self.batch.blocks(self.rows))
        ffn = self.shape.block.ffn
        for number in range(done, max(len(rows) for rows in self.replica_rows)):
            if isinstance(ffn, Experts):
                self.meta = {"block_id": number, "token_idx": self.batch.groups[0].context, "phase": "LAYER"}
                self.arena.give((yield from self._network_of(ffn, self.arena.start, 0)))

    def _owned(self, number: int) -> list[int]:
        """[row] of a block that each PE sends to experts."""
        some = [rows[number] if number < len(rows) else 0 for rows in self.replica_rows]
        return [count for rows in some for count in even_parts(rows, self.shape.shards)]

    def _slices(self, rows: int) -> list[int]:
        """None: the outputs of experts go back to the PEs of their rows as a whole."""
        return []

    def _network_of(self, ffn: Mlp | Experts, normed: int, rows: int) -> Generator[Meeting, None, int]:
        if not isinstance(ffn, Experts):
            return feed_forward.feed_forward(self, ffn, normed, rows)
        pe, hidden, number = self.seat.group * self.seat.shards + self.seat.shard, self.hidden, self.meta["block_id"]
        owned = self._owned(number)
        first = sum(even_parts(rows, self.shape.shards)[: self.seat.shard])
        mine, source = owned[pe], normed + self.act(first * hidden)
        sent = sent_rows(self.routing.rows(ffn.count, ffn.top_k, sum(owned)), owned)
        total = self._shared(ffn, normed, rows)
        routes = self._route(ffn, source, mine)
        wait = routes, self.act(mine * ffn.count)
        leaving = self._departures(sent, pe, source, self.take(max(1, sum(sent[pe])) * hidden), wait)
        arrived, places = self._room(sent)
        self.set_phase("EXPERT_DISPATCH")
        yield SentRows("dispatch", "all", tuple(leaving), places, self.act_bits, dict(self.meta))
        self._local_rows(sent, pe, leaving, places)
        done = self._experts(ffn, sent, arrived)
        base, each = self._local_experts()
        back = tuple(
            Departure(j, expert, done + self.act(place * hidden), count * hidden)
            for j, expert, place, count in self._returns(sent, base, each) if j != pe
        )  # fmt: skip
        self.set_phase("EXPERT_COMBINE")
        homes = {(one.target, one.tag): one.place for one in leaving}
        yield SentRows("combine", "all", back, homes, self.act_bits, dict(self.meta))
        for j, expert, place, count in self._returns(sent, base, each):
            if j == pe:
                self.split_vector("copy", hidden, count, done + self.act(place * hidden), homes[pe, expert])
        if mine:
            choices, own = sum(sent[pe]), total + self.act(first * hidden)
            begin = min(homes.values())
            self.split_vector("mul", hidden, choices, begin, begin, begin)
            for at in range(0, choices, mine):
                self.split_vector("add", hidden, min(mine, choices - at), own, own, begin + self.act(at * hidden))
        for place in (leaving[0].place if leaving else self._leaving, arrived, done, routes):
            self.arena.give(place)
        return total

    def _shared(self, ffn: Experts, normed: int, rows: int) -> int:
        """The output of the network that all tokens use, or zeros."""
        if ffn.shared is None or not rows:
            total = self.take(rows * self.hidden)
            if rows:
                self.split_vector("copy", self.hidden, rows, normed, total)
            return total
        total = feed_forward.network(self, ffn.shared, "shared_", rows, normed, 0, None)
        if ffn.shared_gate:
            self.arena.give(self.product("shared_gate", rows, normed))
            self.split_vector("mul", self.hidden, rows, total, total, total)
        return total

    def _route(self, ffn: Experts, source: int, rows: int) -> int:
        """The router, for the own rows."""
        self.set_phase("MLP_ROUTER")
        if not rows:
            return self.take(0)
        routes = self.product("router", rows, source)
        self.add_bias(ffn.router_bias, routes, ffn.count, rows)
        self.vector("softmax", ffn.count, rows, routes, routes)
        return routes

    def _departures(
        self, sent: list[list[int]], pe: int, source: int, place: int, wait: tuple[int, int]
    ) -> list[Departure]:
        """The own rows in the order of their experts, copied side by side when the router has written `wait`."""
        self._leaving = place
        self.set_phase("EXPERT_DISPATCH")
        _, each = self._local_experts()
        found, at = [], 0
        for expert, count in enumerate(sent[pe]):
            if count:
                to = place + self.act(at * self.hidden)
                feed_forward.gather(self, source, count, to, wait)
                found.append(Departure(expert // each, expert, to, count * self.hidden))
                at += count
        return found

    def _local_experts(self) -> tuple[int, int]:
        """The first and the number of the experts that this PE has."""
        assert self.shape.local_experts is not None
        return self.shape.local_experts

    def _room(self, sent: list[list[int]]) -> tuple[int, dict[tuple[int, int], int]]:
        """Room for the rows that come to the own experts, and where those of a PE for an expert are."""
        base, each = self._local_experts()
        total = sum(row[expert] for row in sent for expert in range(base, base + each))
        place, at, places = self.take(max(1, total) * self.hidden), 0, {}
        for expert in range(base, base + each):
            for source, row in enumerate(sent):
                places[source, expert] = place + self.act(at * self.hidden)
                at += row[expert]
        return place, places

    def _local_rows(
        self, sent: list[list[int]], pe: int, leaving: Sequence[Departure], places: dict[tuple[int, int], int]
    ) -> None:
        """The own rows that go to own experts do not leave."""
        for one in leaving:
            if one.target == pe:
                self.split_vector("copy", self.hidden, sent[pe][one.tag], one.place, places[pe, one.tag])

    def _experts(self, ffn: Experts, sent: list[list[int]], arrived: int) -> int:
        """The own experts, for all rows that came; their outputs take the order of the rows."""
        base, each = self._local_experts()
        counts = [sum(row[expert] for row in sent) for expert in range(base, base + each)]
        out, at = self.take(max(1, sum(counts)) * self.hidden), 0
        for expert, count in enumerate(counts):
            if not count:
                feed_forward.load_unused(self, ffn, expert)
                continue
            place = arrived + self.act(at * self.hidden)
            wait = place, bytes_of(count * self.hidden, self.act_bits)
            found = feed_forward.network(self, ffn.expert, "", count, place, expert, wait)
            self.split_vector("copy", self.hidden, count, found, out + self.act(at * self.hidden))
            self.arena.give(found)
            at += count
        return out

    @staticmethod
    def _returns(sent: list[list[int]], base: int, each: int) -> Iterator[tuple[int, int, int, int]]:
        """Outputs of own experts: the PE that wants them, the expert, their first row and their number."""
        at = 0
        for expert in range(base, base + each):
            for source, row in enumerate(sent):
                if row[expert]:
                    yield source, expert, at, row[expert]
                at += row[expert]
