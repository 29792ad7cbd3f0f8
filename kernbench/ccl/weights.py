"""The weights of the tuner's cost model, by algorithm, fitted to simulations. `docs/ccl_costs.py` writes this file."""

from __future__ import annotations

from collections.abc import Mapping

Weights = tuple[float, ...]

#: [cycle] of a call, a cycle of latency, a message, a cycle of the link in the first lane and in the others, the mean of
#: messages and link, and an operation; of an algorithm that was not fitted.
DEFAULT: Weights = (255.0, 1.0, 11.0, 2.3, 2.3, 0.0, 0.0)
FITTED: Mapping[str, Weights] = {
    "all_gather_bruck": (189.4, 0.891, 0.00, 0.995, 0.614, 7.96, 15.17),
    "all_gather_direct": (164.6, 1.005, 0.00, 1.709, 0.851, 0.00, 18.37),
    "all_gather_hierarchical": (209.1, 1.056, 0.00, 1.658, 0.905, 0.00, 15.44),
    "all_gather_pat": (206.3, 0.971, 0.00, 1.822, 0.883, 0.00, 15.95),
    "all_gather_ring": (242.4, 0.955, 12.32, 1.047, 1.455, 0.00, 0.00),
    "all_gather_switch": (138.2, 0.999, 14.12, 1.252, 0.793, 0.00, 15.75),
    "all_gather_torus": (191.7, 1.286, 0.00, 1.663, 0.903, 4.08, 13.47),
    "all_reduce_bidirectional": (431.8, 1.110, 16.78, 0.975, 1.042, 0.00, 0.00),
    "all_reduce_direct": (181.1, 0.958, 0.00, 1.880, 0.688, 0.00, 15.66),
    "all_reduce_halving_doubling": (255.0, 0.994, 18.34, 1.782, 0.880, 0.00, 0.00),
    "all_reduce_hierarchical": (333.0, 1.001, 9.40, 1.315, 1.093, 0.00, 0.00),
    "all_reduce_recursive_doubling": (232.8, 1.003, 6.40, 0.974, 1.072, 1.71, 10.17),
    "all_reduce_ring": (298.0, 0.987, 12.92, 1.151, 1.101, 0.00, 0.00),
    "all_reduce_switch": (0.0, 1.160, 6.68, 1.338, 0.718, 0.00, 15.38),
    "all_reduce_torus": (412.2, 1.216, 11.71, 0.938, 1.397, 0.72, 0.00),
    "all_reduce_torus (rows first)": (349.3, 1.025, 15.99, 0.885, 1.155, 0.00, 0.00),
    "all_reduce_tree": (188.2, 0.998, 10.06, 1.180, 1.032, 0.00, 13.64),
    "all_to_all_bruck": (146.4, 0.935, 0.00, 2.551, 0.919, 0.00, 18.02),
    "all_to_all_direct": (169.1, 1.008, 5.38, 1.990, 0.856, 0.65, 14.09),
    "all_to_all_hierarchical": (209.1, 1.046, 3.11, 2.294, 0.958, 0.00, 12.56),
    "all_to_all_ring": (293.2, 0.496, 33.99, 1.828, 2.180, 0.00, 0.00),
    "barrier_dissemination": (0.0, 2.071, 0.00, 0.000, 0.000, 0.00, 0.00),
    "barrier_tree": (0.0, 0.000, 0.00, 8.000, 0.000, 0.00, 0.00),
    "broadcast_binomial": (165.9, 0.972, 28.28, 2.021, 0.876, 0.00, 0.00),
    "broadcast_hierarchical": (165.9, 0.972, 28.28, 2.021, 0.876, 0.00, 0.00),
    "broadcast_ring": (264.8, 1.033, 0.86, 0.557, 0.923, 0.83, 0.00),
    "broadcast_tree": (210.0, 0.997, 0.00, 1.389, 0.930, 0.00, 23.24),
    "gather_binomial": (228.9, 1.219, 0.00, 1.658, 0.787, 0.00, 10.34),
    "gather_direct": (191.8, 0.000, 0.00, 1.121, 0.772, 0.00, 20.72),
    "reduce_binomial": (207.0, 0.970, 0.00, 1.150, 0.865, 0.00, 23.12),
    "reduce_hierarchical": (205.7, 0.973, 0.00, 1.223, 0.861, 0.00, 22.87),
    "reduce_ring": (273.9, 0.752, 12.47, 2.307, 0.879, 0.00, 0.00),
    "reduce_scatter_direct": (251.5, 0.976, 12.31, 1.884, 1.139, 2.56, 0.00),
    "reduce_scatter_halving": (192.3, 1.003, 36.65, 1.196, 0.944, 0.10, 13.06),
    "reduce_scatter_hierarchical": (231.5, 1.291, 0.06, 1.270, 1.108, 2.07, 13.08),
    "reduce_scatter_pat": (239.9, 0.980, 0.00, 1.735, 0.899, 2.49, 13.61),
    "reduce_scatter_ring": (294.8, 1.049, 15.20, 1.465, 1.159, 0.70, 0.00),
    "reduce_scatter_switch": (223.8, 0.980, 0.00, 1.341, 0.808, 0.00, 18.69),
    "reduce_scatter_torus": (226.6, 1.446, 0.00, 1.245, 1.004, 4.16, 12.88),
    "reduce_tree": (118.8, 0.989, 9.68, 1.485, 0.849, 0.00, 30.80),
    "scatter_binomial": (208.7, 1.240, 11.13, 2.127, 1.134, 0.00, 16.47),
    "scatter_direct": (182.0, 6.891, 0.00, 0.932, 0.751, 0.00, 26.06),
    "send_recv_alternating": (71.7, 0.000, 0.00, 1.112, 0.815, 0.00, 98.86),
    "send_recv_ring": (260.6, 0.000, 0.00, 3.412, 3.268, 0.00, 0.00),
}


def weights_of(full_name: str) -> Weights:
    """Return the weights of an algorithm."""
    return FITTED.get(full_name, DEFAULT)
