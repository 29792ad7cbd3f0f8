"""The weights of the tuner's cost model, by algorithm, fitted to simulations. `docs/ccl_costs.py` writes this file."""

from __future__ import annotations

from collections.abc import Mapping

Weights = tuple[float, ...]

#: [cycle] of a call, a cycle of latency, a message, a cycle of the link in the first lane and in the others, the mean of
#: messages and link, and an operation; of an algorithm that was not fitted.
DEFAULT: Weights = (255.0, 1.0, 11.0, 2.3, 2.3, 0.0, 0.0)
FITTED: Mapping[str, Weights] = {
    "all_gather_bruck": (183.3, 0.989, 9.52, 1.983, 0.857, 0.00, 15.17),
    "all_gather_direct": (188.8, 1.012, 0.00, 1.203, 1.172, 0.00, 17.69),
    "all_gather_hierarchical": (161.3, 1.102, 10.01, 1.482, 0.881, 0.00, 15.14),
    "all_gather_pat": (199.0, 0.999, 0.00, 2.063, 0.684, 0.00, 15.78),
    "all_gather_ring": (231.7, 0.978, 12.27, 1.048, 0.757, 0.00, 0.00),
    "all_gather_switch": (148.1, 0.998, 12.44, 1.433, 0.720, 0.00, 15.74),
    "all_gather_torus": (205.8, 1.022, 0.00, 2.032, 1.224, 0.00, 14.03),
    "all_reduce_bidirectional": (371.5, 0.997, 23.92, 0.904, 0.690, 0.00, 0.00),
    "all_reduce_direct": (210.8, 1.051, 0.00, 1.340, 0.735, 0.00, 14.32),
    "all_reduce_halving_doubling": (247.0, 0.994, 18.84, 1.834, 0.660, 0.00, 0.00),
    "all_reduce_hierarchical": (247.0, 1.014, 16.65, 1.083, 0.745, 0.00, 0.00),
    "all_reduce_recursive_doubling": (204.5, 0.998, 0.00, 1.158, 0.668, 2.34, 19.51),
    "all_reduce_ring": (245.0, 0.989, 13.57, 1.266, 0.677, 0.00, 0.00),
    "all_reduce_switch": (134.6, 1.000, 6.74, 1.340, 0.704, 0.00, 15.27),
    "all_reduce_torus": (389.1, 0.952, 11.77, 1.152, 0.863, 0.00, 0.00),
    "all_reduce_torus (rows first)": (380.0, 0.983, 16.05, 0.966, 0.762, 0.00, 0.00),
    "all_reduce_tree": (156.9, 0.998, 9.21, 1.193, 0.848, 0.00, 19.71),
    "all_to_all_bruck": (189.3, 0.976, 0.00, 2.362, 0.742, 0.00, 15.58),
    "all_to_all_direct": (192.3, 1.013, 0.00, 1.713, 1.103, 0.00, 17.50),
    "all_to_all_hierarchical": (191.5, 1.033, 13.51, 2.049, 1.075, 0.00, 11.00),
    "all_to_all_ring": (346.6, 1.238, 11.80, 0.785, 0.779, 0.00, 0.00),
    "barrier_dissemination": (0.0, 2.467, 0.00, 0.000, 0.000, 0.00, 0.00),
    "barrier_tree": (0.0, 0.800, 5.00, 0.000, 0.000, 0.00, 0.00),
    "broadcast_binomial": (213.1, 0.967, 17.23, 1.927, 0.788, 0.00, 4.38),
    "broadcast_hierarchical": (213.1, 0.967, 17.23, 1.927, 0.788, 0.00, 4.38),
    "broadcast_ring": (269.9, 1.000, 1.14, 0.563, 1.113, 0.30, 0.00),
    "broadcast_tree": (213.9, 1.000, 2.01, 1.164, 0.876, 0.00, 20.71),
    "gather_binomial": (240.0, 1.170, 3.13, 1.255, 0.909, 0.00, 7.97),
    "gather_direct": (191.9, 0.000, 0.00, 1.142, 0.756, 0.00, 20.71),
    "reduce_binomial": (202.8, 0.991, 0.00, 1.422, 0.776, 0.00, 20.30),
    "reduce_hierarchical": (203.0, 0.991, 0.00, 1.415, 0.779, 0.00, 20.29),
    "reduce_ring": (265.4, 0.970, 14.64, 2.263, 0.841, 1.03, 0.00),
    "reduce_scatter_direct": (236.5, 1.047, 0.00, 1.737, 1.345, 0.00, 12.96),
    "reduce_scatter_halving": (204.7, 0.997, 20.72, 2.035, 0.862, 0.00, 14.29),
    "reduce_scatter_hierarchical": (226.7, 1.078, 3.51, 1.791, 1.241, 0.87, 12.53),
    "reduce_scatter_pat": (226.9, 0.987, 7.35, 2.090, 0.893, 0.51, 13.11),
    "reduce_scatter_ring": (266.5, 1.027, 17.21, 1.574, 0.660, 0.00, 0.00),
    "reduce_scatter_switch": (223.3, 1.001, 0.00, 1.341, 0.764, 0.00, 14.51),
    "reduce_scatter_torus": (236.8, 0.997, 0.00, 1.351, 1.337, 2.73, 13.36),
    "reduce_tree": (91.3, 0.976, 12.26, 1.475, 0.658, 0.00, 34.54),
    "scatter_binomial": (208.7, 1.105, 14.68, 1.987, 1.082, 0.00, 15.04),
    "scatter_direct": (201.6, 1.416, 0.32, 1.070, 0.646, 0.00, 28.52),
    "send_recv_alternating": (0.0, 0.000, 0.00, 1.112, 0.675, 0.00, 134.71),
    "send_recv_ring": (262.3, 0.000, 0.00, 3.386, 3.287, 0.00, 0.00),
}


def weights_of(full_name: str) -> Weights:
    """Return the weights of an algorithm."""
    return FITTED.get(full_name, DEFAULT)
