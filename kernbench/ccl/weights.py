"""The weights of the tuner's cost model, by algorithm, fitted to simulations. `docs/ccl_costs.py` writes this file."""

from __future__ import annotations

from collections.abc import Mapping

Weights = tuple[float, ...]

#: [cycle] of a call, a cycle of latency, a message, a cycle of the link in the first lane and in the others, the mean of
#: messages and link, and an operation; of an algorithm that was not fitted.
DEFAULT: Weights = (255.0, 1.0, 11.0, 2.3, 2.3, 0.0, 0.0)
FITTED: Mapping[str, Weights] = {
    "all_gather_bruck": (176.6, 0.991, 13.62, 2.147, 0.714, 0.00, 14.19),
    "all_gather_direct": (188.8, 1.012, 0.00, 1.203, 1.100, 0.00, 17.69),
    "all_gather_hierarchical": (160.9, 1.096, 10.08, 1.667, 0.642, 0.00, 14.43),
    "all_gather_pat": (205.6, 1.003, 0.00, 2.178, 0.709, 0.00, 15.30),
    "all_gather_ring": (231.7, 0.978, 12.27, 1.048, 0.757, 0.00, 0.00),
    "all_gather_switch": (148.1, 0.998, 12.48, 1.433, 0.768, 0.00, 15.70),
    "all_gather_torus": (197.6, 1.024, 0.00, 2.179, 0.793, 0.00, 14.03),
    "all_reduce_bidirectional": (371.5, 0.997, 23.92, 0.904, 0.690, 0.00, 0.00),
    "all_reduce_direct": (210.7, 1.043, 0.00, 1.340, 0.725, 0.00, 14.35),
    "all_reduce_halving_doubling": (247.0, 0.994, 18.84, 1.834, 0.660, 0.00, 0.00),
    "all_reduce_hierarchical": (247.0, 1.014, 16.65, 1.083, 0.745, 0.00, 0.00),
    "all_reduce_recursive_doubling": (182.5, 0.992, 0.00, 1.538, 0.669, 0.24, 25.17),
    "all_reduce_ring": (245.0, 0.989, 13.57, 1.266, 0.677, 0.00, 0.00),
    "all_reduce_switch": (135.4, 1.000, 6.91, 1.340, 0.790, 0.00, 14.93),
    "all_reduce_torus": (389.1, 0.952, 11.77, 1.152, 0.863, 0.00, 0.00),
    "all_reduce_torus (rows first)": (380.0, 0.983, 16.05, 0.966, 0.762, 0.00, 0.00),
    "all_reduce_tree": (143.5, 0.996, 8.77, 1.306, 0.767, 0.00, 21.59),
    "all_to_all_bruck": (184.9, 0.984, 0.00, 2.496, 0.709, 0.00, 15.53),
    "all_to_all_direct": (187.6, 1.011, 0.00, 1.830, 1.004, 0.00, 17.68),
    "all_to_all_hierarchical": (194.5, 1.049, 12.08, 2.235, 0.871, 0.00, 10.61),
    "all_to_all_ring": (346.6, 1.238, 11.80, 0.785, 0.779, 0.00, 0.00),
    "barrier_dissemination": (0.0, 2.467, 0.00, 0.000, 0.000, 0.00, 0.00),
    "barrier_tree": (0.0, 0.800, 5.00, 0.000, 0.000, 0.00, 0.00),
    "broadcast_binomial": (227.3, 0.989, 15.43, 1.865, 0.834, 0.00, 0.00),
    "broadcast_hierarchical": (227.2, 0.989, 15.43, 1.866, 0.834, 0.00, 0.00),
    "broadcast_ring": (269.9, 1.000, 1.14, 0.563, 1.113, 0.30, 0.00),
    "broadcast_tree": (199.6, 1.000, 0.78, 1.180, 0.659, 0.00, 28.07),
    "gather_binomial": (236.6, 1.150, 2.11, 1.253, 0.922, 0.00, 9.49),
    "gather_direct": (191.9, 0.000, 0.00, 1.142, 0.756, 0.00, 20.71),
    "reduce_binomial": (196.4, 0.988, 0.00, 1.503, 0.657, 0.00, 21.56),
    "reduce_hierarchical": (196.4, 0.988, 0.00, 1.503, 0.657, 0.00, 21.56),
    "reduce_ring": (265.4, 0.970, 14.64, 2.263, 0.841, 1.03, 0.00),
    "reduce_scatter_direct": (237.0, 1.043, 0.00, 1.767, 1.329, 0.00, 12.80),
    "reduce_scatter_halving": (204.6, 0.998, 22.86, 1.968, 0.897, 0.00, 13.86),
    "reduce_scatter_hierarchical": (227.4, 1.074, 2.78, 2.184, 1.077, 0.00, 12.62),
    "reduce_scatter_pat": (226.1, 0.987, 7.12, 2.269, 0.934, 0.00, 13.18),
    "reduce_scatter_ring": (266.5, 1.027, 17.21, 1.574, 0.660, 0.00, 0.00),
    "reduce_scatter_switch": (223.3, 1.001, 0.00, 1.341, 0.764, 0.00, 14.51),
    "reduce_scatter_torus": (234.0, 0.988, 0.00, 2.286, 0.955, 0.00, 13.93),
    "reduce_tree": (85.0, 0.961, 12.68, 1.470, 0.608, 0.00, 35.66),
    "scatter_binomial": (208.7, 1.105, 14.68, 1.987, 1.082, 0.00, 15.04),
    "scatter_direct": (201.6, 1.416, 0.32, 1.070, 0.646, 0.00, 28.52),
    "send_recv_alternating": (27.8, 0.000, 0.00, 1.112, 0.729, 0.00, 120.83),
    "send_recv_ring": (262.3, 0.000, 0.00, 3.386, 3.287, 0.00, 0.00),
}


def weights_of(full_name: str) -> Weights:
    """Return the weights of an algorithm."""
    return FITTED.get(full_name, DEFAULT)
