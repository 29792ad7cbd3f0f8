"""Routes in a plain mesh (docs/model/noc.md): along the row first, then along the column, in the direction of the data."""

from __future__ import annotations

from itertools import pairwise

MeshPosition = tuple[int, int]  #: (row, col)
Link = tuple[MeshPosition, MeshPosition]  #: directed, between neighbours


def mesh_links(rows: int, cols: int) -> list[Link]:
    """Every directed link of a mesh, ordered by source, then target: the order of its resources."""
    links = []
    for row in range(rows):
        for col in range(cols):
            around = [(row - 1, col), (row, col - 1), (row, col + 1), (row + 1, col)]
            links += [((row, col), (r, c)) for r, c in around if 0 <= r < rows and 0 <= c < cols]
    return links


def mesh_route(source: MeshPosition, target: MeshPosition) -> list[Link]:
    """The links from `source` to `target` in the order of the data; none if both are the same node."""
    places = [source]
    row, col = source
    while col != target[1]:
        col += 1 if target[1] > col else -1
        places.append((row, col))
    while row != target[0]:
        row += 1 if target[0] > row else -1
        places.append((row, col))
    return list(pairwise(places))
