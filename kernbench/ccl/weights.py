"""The weights of the tuner's cost model, by algorithm, fitted to simulations: `python docs/ccl_costs.py` writes them again."""

from __future__ import annotations

from collections.abc import Mapping

Weights = tuple[float, ...]

#: [cycle] of a call, a cycle of latency, a message, a cycle of the link in the first lane and in the others, the mean of
#: messages and link, and an operation; of an algorithm that was not fitted.
DEFAULT: Weights = (255.0, 1.0, 11.0, 2.3, 2.3, 0.0, 0.0)
FITTED: Mapping[str, Weights] = {
    "all_gather_bruck": (186.5, 0.290, 0.00, 0.000, 0.662, 19.78, 15.90),
    "all_gather_direct": (185.1, 0.403, 0.00, 1.920, 1.101, 5.68, 15.03),
    "all_gather_hierarchical": (205.2, 0.352, 0.00, 3.084, 1.872, 0.00, 16.71),
    "all_gather_pat": (204.7, 0.659, 9.38, 2.925, 1.783, 0.00, 14.97),
    "all_gather_ring": (242.0, 0.879, 13.27, 2.060, 2.758, 0.00, 0.00),
    "all_gather_torus": (173.2, 1.333, 0.00, 1.340, 1.094, 19.55, 11.84),
    "all_reduce_bidirectional": (442.9, 0.954, 17.72, 1.764, 2.094, 0.00, 0.00),
    "all_reduce_direct": (216.2, 0.474, 0.00, 1.989, 0.952, 4.97, 10.84),
    "all_reduce_halving_doubling": (247.7, 0.930, 21.78, 3.134, 1.742, 0.00, 0.00),
    "all_reduce_hierarchical": (348.2, 0.805, 7.21, 2.605, 1.914, 0.00, 0.00),
    "all_reduce_recursive_doubling": (247.6, 0.942, 3.77, 0.854, 1.768, 6.20, 7.84),
    "all_reduce_ring": (272.1, 0.907, 15.22, 2.075, 2.100, 0.00, 0.00),
    "all_reduce_torus": (505.6, 0.948, 14.41, 1.151, 2.235, 1.96, 0.00),
    "all_reduce_tree": (195.2, 0.890, 12.07, 2.281, 2.202, 0.00, 10.42),
    "all_to_all_bruck": (146.2, 0.000, 0.00, 5.140, 1.654, 0.00, 19.07),
    "all_to_all_direct": (223.7, 0.499, 9.93, 2.993, 2.159, 3.77, 4.26),
    "all_to_all_hierarchical": (211.3, 0.732, 2.05, 4.588, 1.930, 0.00, 12.70),
    "all_to_all_ring": (280.8, 0.449, 37.55, 3.308, 4.025, 0.00, 0.00),
    "barrier_dissemination": (0.0, 2.071, 0.00, 0.000, 0.000, 0.00, 0.00),
    "barrier_tree": (0.0, 1.600, 0.00, 0.000, 0.000, 0.00, -0.00),
    "broadcast_binomial": (154.3, 0.894, 31.98, 4.050, 1.702, 0.00, 0.00),
    "broadcast_hierarchical": (154.3, 0.894, 31.98, 4.050, 1.702, 0.00, 0.00),
    "broadcast_ring": (267.7, 0.974, 0.30, 0.935, 1.825, 1.65, 0.00),
    "broadcast_tree": (212.7, 0.716, 2.13, 2.758, 1.879, 0.00, 20.02),
    "gather_binomial": (225.3, 1.237, 0.00, 3.337, 1.580, 0.00, 10.27),
    "gather_direct": (191.8, 0.000, 0.00, 2.242, 1.543, 0.00, 20.72),
    "reduce_binomial": (208.0, 0.918, 0.00, 2.242, 1.756, 0.00, 23.23),
    "reduce_hierarchical": (208.0, 0.918, 0.00, 2.242, 1.756, 0.00, 23.23),
    "reduce_ring": (269.0, 0.574, 13.58, 3.214, 1.542, 4.14, 0.00),
    "reduce_scatter_direct": (253.9, 0.362, 7.91, 2.241, 1.708, 8.17, 1.32),
    "reduce_scatter_halving": (237.8, 0.571, 16.81, 1.034, 1.940, 0.62, 15.59),
    "reduce_scatter_hierarchical": (225.4, 0.814, 0.00, 2.166, 2.084, 5.04, 13.67),
    "reduce_scatter_pat": (243.0, 0.707, 8.50, 1.554, 1.835, 3.69, 12.03),
    "reduce_scatter_ring": (287.5, 0.979, 16.08, 2.538, 2.222, 1.58, 0.00),
    "reduce_scatter_torus": (226.4, 0.975, 0.00, 1.231, 1.815, 10.83, 12.93),
    "reduce_tree": (109.3, 0.803, 12.26, 2.913, 1.679, 0.00, 31.32),
    "scatter_binomial": (208.0, 1.231, 11.38, 4.196, 2.278, 0.00, 16.70),
    "scatter_direct": (203.1, 0.758, 1.10, 1.752, 1.541, 0.00, 29.50),
    "send_recv_alternating": (71.7, 0.000, 0.00, 2.223, 1.631, 0.00, 98.86),
    "send_recv_ring": (260.6, 0.000, 0.00, 3.412, 3.268, 0.00, 0.00),
}


def weights_of(full_name: str) -> Weights:
    """The weights of an algorithm."""
    return FITTED.get(full_name, DEFAULT)
