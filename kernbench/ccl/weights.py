"""The weights of the tuner's cost model, by algorithm, fitted to simulations. `docs/ccl_costs.py` writes this file."""

from __future__ import annotations

from collections.abc import Mapping

Weights = tuple[float, ...]

#: [cycle] of a call, a cycle of latency, a message, a cycle of the link in the first lane and in the others, the mean of
#: messages and link, and an operation; of an algorithm that was not fitted.
DEFAULT: Weights = (255.0, 1.0, 11.0, 2.3, 2.3, 0.0, 0.0)
FITTED: Mapping[str, Weights] = {
    "all_gather_bruck": (187.1, 0.991, 11.63, 2.147, 0.721, 0.00, 13.37),
    "all_gather_direct": (190.6, 1.011, 0.00, 1.202, 1.078, 0.00, 17.67),
    "all_gather_hierarchical": (154.8, 1.075, 12.56, 1.685, 0.625, 0.00, 14.17),
    "all_gather_pat": (204.9, 1.001, 0.00, 2.178, 0.644, 0.00, 15.34),
    "all_gather_ring": (231.7, 0.978, 12.27, 1.048, 0.757, 0.00, 0.00),
    "all_gather_switch": (148.1, 0.998, 12.48, 1.433, 0.768, 0.00, 15.70),
    "all_gather_torus": (197.6, 1.024, 0.00, 2.174, 0.791, 0.00, 14.03),
    "all_reduce_bidirectional": (366.2, 1.019, 12.02, 1.018, 0.701, 0.00, 0.00),
    "all_reduce_direct": (210.6, 1.041, 0.00, 1.340, 0.725, 0.00, 14.36),
    "all_reduce_halving_doubling": (247.0, 0.994, 18.84, 1.834, 0.660, 0.00, 0.00),
    "all_reduce_hierarchical": (247.0, 1.014, 16.65, 1.083, 0.745, 0.00, 0.00),
    "all_reduce_recursive_doubling": (179.1, 0.991, 0.00, 1.544, 0.659, 0.00, 26.33),
    "all_reduce_ring": (245.0, 0.989, 13.57, 1.266, 0.677, 0.00, 0.00),
    "all_reduce_switch": (135.4, 1.000, 6.91, 1.340, 0.790, 0.00, 14.93),
    "all_reduce_torus": (389.1, 0.952, 11.77, 1.152, 0.863, 0.00, 0.00),
    "all_reduce_torus (rows first)": (380.0, 0.983, 16.05, 0.966, 0.762, 0.00, 0.00),
    "all_reduce_tree": (143.5, 0.996, 8.77, 1.306, 0.767, 0.00, 21.59),
    "all_to_all_bruck": (188.3, 0.966, 0.00, 2.467, 0.689, 0.00, 15.57),
    "all_to_all_direct": (190.0, 1.009, 0.00, 1.828, 1.006, 0.00, 17.65),
    "all_to_all_hierarchical": (193.5, 1.028, 12.88, 2.226, 0.869, 0.00, 10.54),
    "all_to_all_ring": (322.0, 0.974, 16.70, 0.824, 0.765, 0.00, 0.00),
    "barrier_dissemination": (0.0, 2.467, 0.00, 0.000, 0.000, 0.00, 0.00),
    "barrier_tree": (0.0, 0.800, 5.00, 0.000, 0.000, 0.00, 0.00),
    "broadcast_binomial": (226.1, 0.984, 15.81, 1.878, 0.822, 0.00, 0.00),
    "broadcast_hierarchical": (226.1, 0.984, 15.81, 1.878, 0.822, 0.00, 0.00),
    "broadcast_ring": (269.9, 1.000, 1.14, 0.563, 1.113, 0.30, 0.00),
    "broadcast_tree": (202.7, 0.998, 1.61, 1.179, 0.659, 0.00, 25.69),
    "gather_binomial": (236.6, 1.150, 2.11, 1.253, 0.922, 0.00, 9.49),
    "gather_direct": (191.9, 0.000, 0.00, 1.142, 0.756, 0.00, 20.71),
    "reduce_binomial": (193.5, 0.986, 0.00, 1.510, 0.647, 0.00, 22.32),
    "reduce_hierarchical": (194.0, 0.986, 0.00, 1.507, 0.650, 0.00, 22.18),
    "reduce_ring": (265.4, 0.970, 14.64, 2.263, 0.841, 1.03, 0.00),
    "reduce_scatter_direct": (236.3, 1.041, 0.00, 1.776, 1.272, 0.00, 12.96),
    "reduce_scatter_halving": (204.8, 0.996, 23.49, 1.964, 0.899, 0.00, 13.61),
    "reduce_scatter_hierarchical": (227.3, 1.070, 2.77, 2.194, 1.076, 0.00, 12.62),
    "reduce_scatter_pat": (225.7, 0.985, 8.09, 2.253, 0.924, 0.00, 13.07),
    "reduce_scatter_ring": (266.5, 1.027, 17.21, 1.574, 0.660, 0.00, 0.00),
    "reduce_scatter_switch": (223.3, 1.001, 0.00, 1.341, 0.764, 0.00, 14.51),
    "reduce_scatter_torus": (235.3, 0.988, 0.00, 2.253, 0.955, 0.00, 13.92),
    "reduce_tree": (84.9, 0.918, 13.15, 1.571, 0.558, 0.00, 35.20),
    "scatter_binomial": (208.7, 1.105, 14.68, 1.987, 1.082, 0.00, 15.04),
    "scatter_direct": (201.6, 1.416, 0.32, 1.070, 0.646, 0.00, 28.52),
    "send_recv_alternating": (27.8, 0.000, 0.00, 1.112, 0.729, 0.00, 120.83),
    "send_recv_ring": (262.3, 0.000, 0.00, 3.386, 3.287, 0.00, 0.00),
}


def weights_of(full_name: str) -> Weights:
    """Return the weights of an algorithm."""
    return FITTED.get(full_name, DEFAULT)
