"""The weights of the tuner's cost model, by algorithm, fitted to simulations: `python docs/ccl_costs.py` writes them again."""

from __future__ import annotations

from collections.abc import Mapping

Weights = tuple[float, ...]

#: [cycle] of a call, a cycle of latency, a message, a cycle of the link in the first lane and in the others, the mean of
#: messages and link, and an operation; of an algorithm that was not fitted.
DEFAULT: Weights = (255.0, 1.0, 11.0, 2.3, 2.3, 0.0, 0.0)
FITTED: Mapping[str, Weights] = {
    "all_gather_bruck": (186.5, 0.290, 0.00, 0.000, 0.662, 19.78, 15.90),
    "all_gather_direct": (186.0, 0.380, 0.00, 1.910, 0.975, 6.15, 14.78),
    "all_gather_hierarchical": (218.6, 0.401, 0.00, 2.972, 1.843, 0.00, 16.20),
    "all_gather_pat": (204.7, 0.659, 9.38, 2.925, 1.783, 0.00, 14.97),
    "all_gather_ring": (242.0, 0.879, 13.27, 2.060, 2.758, 0.00, 0.00),
    "all_gather_switch": (138.1, 0.999, 14.24, 1.997, 1.559, 0.00, 15.62),
    "all_gather_torus": (206.7, 1.004, 0.48, 3.987, 2.076, 2.34, 12.91),
    "all_reduce_bidirectional": (442.9, 0.954, 17.72, 1.764, 2.094, 0.00, 0.00),
    "all_reduce_direct": (207.1, 0.469, 0.00, 1.809, 0.701, 6.41, 10.50),
    "all_reduce_halving_doubling": (247.7, 0.930, 21.78, 3.134, 1.742, 0.00, 0.00),
    "all_reduce_hierarchical": (348.2, 0.805, 7.21, 2.605, 1.914, 0.00, 0.00),
    "all_reduce_recursive_doubling": (247.6, 0.942, 3.77, 0.854, 1.768, 6.20, 7.84),
    "all_reduce_ring": (272.1, 0.907, 15.22, 2.075, 2.100, 0.00, 0.00),
    "all_reduce_switch": (0.0, 1.177, 6.30, 2.090, 1.401, 0.00, 14.55),
    "all_reduce_torus": (505.6, 0.948, 14.41, 1.151, 2.235, 1.96, 0.00),
    "all_reduce_tree": (192.8, 0.890, 11.92, 2.290, 2.167, 0.00, 11.02),
    "all_to_all_bruck": (194.5, 0.672, 0.00, 4.056, 1.624, 1.05, 15.66),
    "all_to_all_direct": (203.8, 0.477, 4.72, 2.529, 1.298, 7.04, 8.84),
    "all_to_all_hierarchical": (225.1, 0.393, 0.00, 3.882, 1.962, 0.00, 13.68),
    "all_to_all_ring": (280.8, 0.449, 37.55, 3.308, 4.025, 0.00, 0.00),
    "barrier_dissemination": (0.0, 2.071, 0.00, 0.000, 0.000, 0.00, 0.00),
    "barrier_tree": (0.0, 1.600, 0.00, 0.000, 0.000, 0.00, -0.00),
    "broadcast_binomial": (154.3, 0.894, 31.98, 4.050, 1.702, 0.00, 0.00),
    "broadcast_hierarchical": (154.3, 0.894, 31.98, 4.050, 1.702, 0.00, 0.00),
    "broadcast_ring": (267.7, 0.974, 0.30, 0.935, 1.825, 1.65, 0.00),
    "broadcast_tree": (209.3, 0.717, 0.47, 2.780, 1.861, 0.00, 23.36),
    "gather_binomial": (225.3, 1.237, 0.00, 3.337, 1.580, 0.00, 10.27),
    "gather_direct": (191.8, 0.000, 0.00, 2.242, 1.543, 0.00, 20.72),
    "reduce_binomial": (201.4, 0.891, 0.00, 2.425, 1.664, 0.00, 23.77),
    "reduce_hierarchical": (201.4, 0.891, 0.00, 2.425, 1.664, 0.00, 23.77),
    "reduce_ring": (269.0, 0.574, 13.58, 3.214, 1.542, 4.14, 0.00),
    "reduce_scatter_direct": (252.8, 0.378, 7.08, 2.238, 1.723, 7.97, 2.02),
    "reduce_scatter_halving": (237.8, 0.571, 16.81, 1.034, 1.940, 0.62, 15.59),
    "reduce_scatter_hierarchical": (241.3, 0.733, 0.00, 2.255, 2.121, 3.90, 12.53),
    "reduce_scatter_pat": (243.0, 0.707, 8.50, 1.554, 1.835, 3.69, 12.03),
    "reduce_scatter_ring": (287.5, 0.979, 16.08, 2.538, 2.222, 1.58, 0.00),
    "reduce_scatter_switch": (216.0, 1.001, 0.00, 2.096, 1.517, 0.00, 18.16),
    "reduce_scatter_torus": (232.3, 0.928, 3.34, 3.260, 2.400, 3.35, 12.72),
    "reduce_tree": (109.3, 0.803, 12.26, 2.913, 1.679, 0.00, 31.32),
    "scatter_binomial": (208.0, 1.231, 11.38, 4.196, 2.278, 0.00, 16.70),
    "scatter_direct": (203.1, 0.758, 1.10, 1.752, 1.541, 0.00, 29.50),
    "send_recv_alternating": (71.7, 0.000, 0.00, 2.223, 1.631, 0.00, 98.86),
    "send_recv_ring": (260.6, 0.000, 0.00, 3.412, 3.268, 0.00, 0.00),
}


def weights_of(full_name: str) -> Weights:
    """The weights of an algorithm."""
    return FITTED.get(full_name, DEFAULT)
