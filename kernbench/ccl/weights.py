"""The weights of the tuner's cost model, by algorithm, fitted to simulations: `python docs/ccl_costs.py` writes them again."""

from __future__ import annotations

from collections.abc import Mapping

Weights = tuple[float, float, float, float, float]

#: [cycle] of a call, a cycle of latency, a message, a cycle of the link, and of the mean of the last two;
#: of an algorithm that was not fitted.
DEFAULT: Weights = (255.0, 1.0, 11.0, 2.3, 0.0)
FITTED: Mapping[str, Weights] = {
    "all_gather_bruck": (123.9, 0.000, 71.40, 0.000, 24.92),
    "all_gather_direct": (228.0, 2.358, 14.19, 2.330, 1.70),
    "all_gather_hierarchical": (166.6, 19.647, 0.76, 1.896, 7.94),
    "all_gather_pat": (202.8, 5.022, 27.52, 0.871, 19.52),
    "all_gather_ring": (247.8, 0.285, 10.13, 2.749, 0.00),
    "all_gather_torus": (196.7, 1.955, 29.96, 1.149, 19.90),
    "all_reduce_bidirectional": (429.1, 0.196, 19.68, 1.989, 0.00),
    "all_reduce_direct": (233.4, 2.755, 6.36, 0.787, 8.94),
    "all_reduce_halving_doubling": (280.0, 0.984, 17.78, 1.925, 0.00),
    "all_reduce_hierarchical": (315.3, 0.655, 12.41, 1.985, 0.00),
    "all_reduce_recursive_doubling": (246.7, 0.000, 27.37, 1.797, 3.05),
    "all_reduce_ring": (269.8, 0.198, 17.12, 2.078, 0.00),
    "all_reduce_torus": (426.4, 0.092, 23.27, 2.100, 0.00),
    "all_reduce_tree": (247.4, 0.870, 11.52, 2.015, 2.42),
    "all_to_all_bruck": (167.2, 6.667, 4.86, 0.605, 35.59),
    "all_to_all_direct": (230.5, 2.416, 3.66, 1.116, 14.13),
    "all_to_all_hierarchical": (171.1, 16.344, 0.00, 1.933, 15.35),
    "all_to_all_ring": (244.3, 0.000, 39.85, 4.436, 0.00),
    "barrier_dissemination": (0.0, 2.071, 0.00, 0.000, 0.00),
    "barrier_tree": (0.0, 1.600, 0.00, 0.000, 0.00),
    "broadcast_binomial": (245.5, 1.768, 0.60, 2.093, 5.68),
    "broadcast_hierarchical": (245.5, 1.768, 0.60, 2.093, 5.68),
    "broadcast_ring": (264.7, 0.003, 6.00, 1.651, 0.00),
    "broadcast_tree": (295.6, 0.830, 0.00, 2.046, 0.78),
    "gather_binomial": (234.6, 1.433, 4.77, 1.824, 10.09),
    "gather_direct": (240.9, 0.534, 18.01, 2.237, 0.00),
    "reduce_binomial": (301.1, 0.818, 0.00, 2.178, 4.41),
    "reduce_hierarchical": (301.1, 0.818, 0.00, 2.178, 4.41),
    "reduce_ring": (273.2, 0.532, 7.50, 1.580, 7.85),
    "reduce_scatter_direct": (254.0, 2.651, 4.95, 2.459, 7.82),
    "reduce_scatter_halving": (54.2, 0.000, 109.79, 0.683, 15.79),
    "reduce_scatter_hierarchical": (189.7, 8.117, 12.67, 1.456, 16.72),
    "reduce_scatter_pat": (65.4, 3.005, 98.65, 0.758, 15.73),
    "reduce_scatter_ring": (336.2, 0.758, 5.34, 2.639, 1.81),
    "reduce_scatter_torus": (197.9, 0.891, 44.10, 1.590, 13.23),
    "reduce_tree": (242.7, 0.420, 12.09, 1.589, 10.36),
    "scatter_binomial": (232.2, 0.987, 8.98, 3.026, 7.61),
    "scatter_direct": (254.7, 1.318, 2.29, 2.659, 0.00),
    "send_recv_alternating": (0.0, 0.000, 127.07, 1.545, 5.57),
    "send_recv_ring": (262.0, 0.000, 0.00, 3.264, 0.49),
}


def weights_of(full_name: str) -> Weights:
    """The weights of an algorithm."""
    return FITTED.get(full_name, DEFAULT)
