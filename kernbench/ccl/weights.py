"""The weights of the tuner's cost model, by algorithm, fitted to simulations: `python docs/ccl_costs.py` writes them again."""

from __future__ import annotations

from collections.abc import Mapping

Weights = tuple[float, float, float, float, float]

#: [cycle] of a call, a cycle of latency, a message, a cycle of the link, and of the mean of the last two;
#: of an algorithm that was not fitted.
DEFAULT: Weights = (255.0, 1.0, 11.0, 2.3, 0.0)
FITTED: Mapping[str, Weights] = {
    "all_gather_bruck": (152.7, 1.504, 48.80, 0.580, 20.78),
    "all_gather_direct": (199.2, 11.844, 5.76, 2.465, 0.00),
    "all_gather_hierarchical": (146.8, 18.196, 9.73, 1.505, 10.21),
    "all_gather_pat": (166.2, 6.614, 44.65, 1.100, 12.83),
    "all_gather_ring": (247.7, 0.162, 10.74, 2.855, 0.00),
    "all_gather_torus": (194.2, 6.208, 0.00, 1.092, 22.22),
    "all_reduce_bidirectional": (394.6, 0.184, 20.02, 1.992, 0.00),
    "all_reduce_direct": (213.8, 5.705, 10.53, 1.923, 0.08),
    "all_reduce_halving_doubling": (282.4, 1.132, 12.35, 1.951, 0.35),
    "all_reduce_hierarchical": (291.5, 1.243, 6.45, 2.599, 0.00),
    "all_reduce_recursive_doubling": (296.7, 0.000, 0.00, 1.286, 11.21),
    "all_reduce_ring": (273.6, 0.203, 13.82, 2.194, 0.00),
    "all_reduce_torus": (434.5, 0.500, 7.17, 2.579, 0.00),
    "all_reduce_tree": (244.1, 1.666, 8.86, 1.972, 3.19),
    "all_to_all_bruck": (164.3, 13.931, 0.00, 1.409, 19.69),
    "all_to_all_direct": (260.3, 0.000, 7.80, 2.113, 5.41),
    "all_to_all_hierarchical": (230.1, 0.000, 7.30, 1.424, 17.97),
    "all_to_all_ring": (226.4, 1.898, 32.39, 4.478, 0.00),
    "barrier_dissemination": (0.0, 2.071, 0.00, 0.000, 0.00),
    "barrier_tree": (0.0, 1.600, 0.00, 0.000, 0.00),
    "broadcast_binomial": (242.2, 2.675, 0.00, 2.207, 3.46),
    "broadcast_hierarchical": (242.2, 2.675, 0.00, 2.207, 3.46),
    "broadcast_ring": (259.0, 0.150, 5.63, 2.003, 0.87),
    "broadcast_tree": (260.2, 0.764, 6.68, 1.946, 2.44),
    "gather_binomial": (256.1, 2.146, 0.00, 1.960, 3.86),
    "gather_direct": (187.5, 16.012, 0.89, 2.387, 0.00),
    "reduce_binomial": (311.4, 0.000, 0.00, 2.132, 5.36),
    "reduce_hierarchical": (311.4, 0.000, 0.00, 2.132, 5.36),
    "reduce_ring": (267.0, 0.217, 15.92, 1.602, 5.93),
    "reduce_scatter_direct": (263.5, 1.500, 12.21, 3.121, 0.00),
    "reduce_scatter_halving": (114.3, 0.000, 94.25, 0.876, 11.87),
    "reduce_scatter_hierarchical": (194.7, 13.308, 7.54, 2.072, 9.45),
    "reduce_scatter_pat": (74.6, 2.154, 115.21, 1.053, 7.84),
    "reduce_scatter_ring": (328.0, 0.877, 0.79, 2.749, 1.81),
    "reduce_scatter_torus": (224.6, 4.613, 3.34, 1.536, 16.46),
    "reduce_tree": (259.5, 0.241, 7.95, 1.415, 11.69),
    "scatter_binomial": (250.9, 0.468, 0.00, 2.207, 12.35),
    "scatter_direct": (263.9, 0.000, 0.00, 2.925, 0.00),
    "send_recv_alternating": (0.0, 0.000, 127.07, 1.545, 5.57),
    "send_recv_ring": (262.0, 0.000, 0.00, 3.264, 0.49),
}


def weights_of(full_name: str) -> Weights:
    """The weights of an algorithm."""
    return FITTED.get(full_name, DEFAULT)
