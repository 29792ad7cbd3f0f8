"""The weights of the tuner's cost model, by algorithm, fitted to simulations. `docs/ccl_costs.py` writes this file."""

from __future__ import annotations

from collections.abc import Mapping

Weights = tuple[float, ...]

#: [cycle] of a call, a cycle of latency, a message, a cycle of the link in the first lane and in the others, the mean of
#: messages and link, and an operation; of an algorithm that was not fitted.
DEFAULT: Weights = (255.0, 1.0, 11.0, 2.3, 2.3, 0.0, 0.0)
FITTED: Mapping[str, Weights] = {
    "all_gather_bruck": (91.9, 0.934, 12.06, 2.416, 0.699, 0.64, 21.90),
    "all_gather_direct": (164.8, 1.019, 0.00, 1.710, 0.668, 0.00, 18.32),
    "all_gather_hierarchical": (206.6, 1.078, 0.00, 1.531, 0.914, 0.00, 15.70),
    "all_gather_pat": (205.7, 0.979, 0.00, 1.823, 0.850, 0.00, 16.09),
    "all_gather_ring": (242.4, 0.955, 12.32, 1.047, 1.455, 0.00, 0.00),
    "all_gather_switch": (140.7, 0.999, 13.27, 1.444, 0.718, 0.00, 15.53),
    "all_gather_torus": (209.9, 1.147, 0.00, 2.022, 0.961, 0.00, 13.64),
    "all_reduce_bidirectional": (431.8, 1.110, 16.78, 0.975, 1.042, 0.00, 0.00),
    "all_reduce_direct": (171.8, 1.051, 0.00, 1.803, 0.313, 1.04, 14.95),
    "all_reduce_halving_doubling": (254.2, 1.000, 17.38, 1.855, 0.884, 0.00, 0.00),
    "all_reduce_hierarchical": (327.9, 0.980, 10.74, 1.296, 1.120, 0.00, 0.00),
    "all_reduce_recursive_doubling": (222.7, 0.995, 0.86, 1.580, 1.016, 0.00, 16.71),
    "all_reduce_ring": (298.0, 0.987, 12.92, 1.151, 1.101, 0.00, 0.00),
    "all_reduce_switch": (138.4, 1.000, 5.97, 1.320, 0.711, 0.18, 15.51),
    "all_reduce_torus": (412.3, 1.222, 11.69, 0.938, 1.397, 0.73, 0.00),
    "all_reduce_torus (rows first)": (365.0, 1.021, 15.79, 0.849, 1.187, 0.00, 0.00),
    "all_reduce_tree": (175.4, 1.002, 7.89, 1.236, 0.937, 0.00, 16.91),
    "all_to_all_bruck": (163.3, 0.984, 0.00, 2.421, 0.891, 0.00, 17.95),
    "all_to_all_direct": (171.3, 1.022, 0.00, 2.034, 0.907, 0.00, 18.22),
    "all_to_all_hierarchical": (221.4, 1.061, 2.37, 2.174, 0.969, 0.00, 10.29),
    "all_to_all_ring": (293.2, 0.496, 33.99, 1.828, 2.180, 0.00, 0.00),
    "barrier_dissemination": (0.0, 2.071, 0.00, 0.000, 0.000, 0.00, 0.00),
    "barrier_tree": (0.0, 0.832, 4.92, 0.000, 0.000, 0.00, 0.00),
    "broadcast_binomial": (165.9, 0.972, 28.28, 2.021, 0.876, 0.00, 0.00),
    "broadcast_hierarchical": (165.9, 0.972, 28.28, 2.021, 0.876, 0.00, 0.00),
    "broadcast_ring": (270.7, 1.007, 0.00, 0.328, 0.924, 1.54, 0.00),
    "broadcast_tree": (210.0, 0.998, 0.00, 1.389, 0.930, 0.00, 23.23),
    "gather_binomial": (228.9, 1.219, 0.00, 1.658, 0.787, 0.00, 10.34),
    "gather_direct": (191.8, 0.000, 0.00, 1.121, 0.772, 0.00, 20.72),
    "reduce_binomial": (207.0, 0.970, 0.00, 1.150, 0.865, 0.00, 23.12),
    "reduce_hierarchical": (205.7, 0.973, 0.00, 1.223, 0.861, 0.00, 22.87),
    "reduce_ring": (273.9, 0.752, 12.47, 2.307, 0.879, 0.00, 0.00),
    "reduce_scatter_direct": (225.2, 1.053, 0.24, 2.494, 0.891, 0.00, 12.96),
    "reduce_scatter_halving": (192.4, 1.000, 25.08, 2.799, 0.686, 0.00, 13.67),
    "reduce_scatter_hierarchical": (241.1, 1.113, 0.00, 1.858, 1.247, 0.26, 13.07),
    "reduce_scatter_pat": (240.2, 0.987, 0.00, 1.583, 0.937, 2.38, 13.65),
    "reduce_scatter_ring": (294.8, 1.049, 15.20, 1.465, 1.159, 0.70, 0.00),
    "reduce_scatter_switch": (206.9, 1.001, 0.00, 1.281, 0.789, 0.77, 18.82),
    "reduce_scatter_torus": (237.3, 1.143, 0.00, 0.775, 1.478, 4.76, 12.85),
    "reduce_tree": (122.5, 1.006, 8.93, 1.495, 0.851, 0.00, 30.78),
    "scatter_binomial": (208.7, 1.240, 11.13, 2.127, 1.134, 0.00, 16.47),
    "scatter_direct": (182.0, 6.891, 0.00, 0.932, 0.751, 0.00, 26.06),
    "send_recv_alternating": (0.0, 0.000, 0.00, 1.089, 0.649, 0.35, 133.69),
    "send_recv_ring": (260.6, 0.000, 0.00, 3.412, 3.268, 0.00, 0.00),
}


def weights_of(full_name: str) -> Weights:
    """Return the weights of an algorithm."""
    return FITTED.get(full_name, DEFAULT)
