"""The weights of the tuner's cost model, by algorithm, fitted to simulations: `python docs/ccl_costs.py` writes them again."""

from __future__ import annotations

from collections.abc import Mapping

Weights = tuple[float, float, float, float, float]

#: [cycle] of a call, a cycle of latency, a message, a cycle of the link, and of the mean of the last two;
#: of an algorithm that was not fitted.
DEFAULT: Weights = (255.0, 1.0, 11.0, 2.3, 0.0)
FITTED: Mapping[str, Weights] = {
    "all_gather_bruck": (212.9, 2.527, 11.30, 0.511, 26.67),
    "all_gather_direct": (194.4, 13.965, 3.23, 2.504, 0.00),
    "all_gather_hierarchical": (155.2, 21.234, 0.76, 1.847, 8.27),
    "all_gather_pat": (197.4, 7.541, 16.37, 0.963, 18.53),
    "all_gather_ring": (249.6, 0.220, 9.37, 2.861, 0.00),
    "all_gather_torus": (200.7, 6.161, 0.00, 1.123, 21.73),
    "all_reduce_bidirectional": (394.9, 0.196, 19.83, 1.997, 0.00),
    "all_reduce_direct": (231.3, 3.478, 7.69, 1.115, 6.98),
    "all_reduce_halving_doubling": (267.3, 1.113, 14.27, 1.785, 1.71),
    "all_reduce_hierarchical": (318.8, 1.210, 2.63, 2.539, 1.47),
    "all_reduce_recursive_doubling": (282.1, 0.000, 5.20, 1.276, 9.04),
    "all_reduce_ring": (272.1, 0.194, 15.62, 2.167, 0.00),
    "all_reduce_torus": (426.5, 0.506, 7.15, 2.657, 0.00),
    "all_reduce_tree": (243.5, 1.659, 9.11, 1.993, 2.87),
    "all_to_all_bruck": (143.1, 12.122, 0.00, 0.237, 37.16),
    "all_to_all_direct": (252.9, 0.000, 7.89, 1.911, 7.03),
    "all_to_all_hierarchical": (252.7, 0.000, 0.00, 1.570, 15.84),
    "all_to_all_ring": (229.5, 1.833, 32.40, 4.478, 0.00),
    "barrier_dissemination": (0.0, 2.071, 0.00, 0.000, 0.00),
    "barrier_tree": (0.0, 1.600, 0.00, 0.000, 0.00),
    "broadcast_binomial": (243.3, 2.664, 0.00, 2.261, 3.15),
    "broadcast_hierarchical": (243.3, 2.664, 0.00, 2.261, 3.15),
    "broadcast_ring": (272.6, 0.000, 0.00, 1.802, 1.11),
    "broadcast_tree": (283.1, 0.563, 0.00, 2.218, 1.71),
    "gather_binomial": (288.3, 0.000, 0.00, 2.009, 4.65),
    "gather_direct": (189.3, 16.586, 0.00, 2.394, 0.00),
    "reduce_binomial": (301.9, 0.000, 0.00, 2.100, 6.09),
    "reduce_hierarchical": (301.9, 0.000, 0.00, 2.100, 6.09),
    "reduce_ring": (275.1, 0.689, 3.04, 1.422, 9.50),
    "reduce_scatter_direct": (266.9, 3.006, 9.56, 3.234, 0.51),
    "reduce_scatter_halving": (158.4, 0.858, 65.41, 0.989, 13.79),
    "reduce_scatter_hierarchical": (213.6, 9.367, 8.20, 1.952, 11.49),
    "reduce_scatter_pat": (97.9, 6.376, 68.45, 1.133, 11.55),
    "reduce_scatter_ring": (347.5, 0.659, 3.61, 2.618, 2.28),
    "reduce_scatter_torus": (224.5, 4.745, 2.75, 1.568, 16.31),
    "reduce_tree": (252.0, 0.145, 8.81, 1.477, 10.85),
    "scatter_binomial": (244.1, 1.085, 0.00, 2.209, 12.30),
    "scatter_direct": (250.0, 3.496, 0.00, 2.677, 0.00),
    "send_recv_alternating": (0.0, 0.000, 127.07, 1.545, 5.57),
    "send_recv_ring": (262.0, 0.000, 0.00, 3.264, 0.49),
}


def weights_of(full_name: str) -> Weights:
    """The weights of an algorithm."""
    return FITTED.get(full_name, DEFAULT)
