"""The weights of the tuner's cost model, by algorithm, fitted to simulations. `docs/ccl_costs.py` writes this file."""

from __future__ import annotations

from collections.abc import Mapping

Weights = tuple[float, ...]

#: [cycle] of a call, a cycle of latency, a message, a cycle of the link in the first lane and in the others, the mean of
#: messages and link, and an operation; of an algorithm that was not fitted.
DEFAULT: Weights = (255.0, 1.0, 11.0, 2.3, 2.3, 0.0, 0.0)
FITTED: Mapping[str, Weights] = {
    "all_gather_bruck": (183.2, 0.994, 7.48, 2.013, 0.783, 0.00, 15.66),
    "all_gather_direct": (189.2, 1.013, 0.00, 1.175, 1.174, 0.00, 17.69),
    "all_gather_hierarchical": (149.5, 1.113, 10.61, 1.538, 0.894, 0.00, 15.34),
    "all_gather_pat": (198.0, 1.006, 0.00, 2.078, 0.739, 0.00, 15.72),
    "all_gather_ring": (231.7, 0.978, 12.27, 1.048, 0.757, 0.00, 0.00),
    "all_gather_switch": (148.1, 0.998, 12.48, 1.433, 0.768, 0.00, 15.70),
    "all_gather_torus": (197.9, 1.023, 0.00, 2.154, 1.051, 0.00, 14.03),
    "all_reduce_bidirectional": (371.5, 0.997, 23.92, 0.904, 0.690, 0.00, 0.00),
    "all_reduce_direct": (210.6, 1.042, 0.00, 1.340, 0.725, 0.00, 14.36),
    "all_reduce_halving_doubling": (247.0, 0.994, 18.84, 1.834, 0.660, 0.00, 0.00),
    "all_reduce_hierarchical": (247.0, 1.014, 16.65, 1.083, 0.745, 0.00, 0.00),
    "all_reduce_recursive_doubling": (181.2, 0.992, 0.00, 1.536, 0.674, 0.15, 25.63),
    "all_reduce_ring": (245.0, 0.989, 13.57, 1.266, 0.677, 0.00, 0.00),
    "all_reduce_switch": (134.5, 1.000, 7.06, 1.340, 0.632, 0.00, 14.91),
    "all_reduce_torus": (389.1, 0.952, 11.77, 1.152, 0.863, 0.00, 0.00),
    "all_reduce_torus (rows first)": (380.0, 0.983, 16.05, 0.966, 0.762, 0.00, 0.00),
    "all_reduce_tree": (152.0, 0.999, 9.13, 1.231, 0.808, 0.00, 20.53),
    "all_to_all_bruck": (183.3, 0.995, 0.00, 2.372, 0.800, 0.00, 15.64),
    "all_to_all_direct": (189.1, 1.012, 0.00, 1.727, 1.096, 0.00, 17.68),
    "all_to_all_hierarchical": (191.9, 1.029, 12.53, 2.090, 1.089, 0.00, 11.39),
    "all_to_all_ring": (346.6, 1.238, 11.80, 0.785, 0.779, 0.00, 0.00),
    "barrier_dissemination": (0.0, 2.467, 0.00, 0.000, 0.000, 0.00, 0.00),
    "barrier_tree": (0.0, 0.800, 5.00, 0.000, 0.000, 0.00, 0.00),
    "broadcast_binomial": (226.9, 0.988, 15.62, 1.866, 0.871, 0.00, 0.00),
    "broadcast_hierarchical": (226.9, 0.988, 15.62, 1.866, 0.871, 0.00, 0.00),
    "broadcast_ring": (269.9, 1.000, 1.14, 0.563, 1.113, 0.30, 0.00),
    "broadcast_tree": (197.1, 1.001, 1.34, 1.108, 0.748, 0.00, 28.89),
    "gather_binomial": (236.6, 1.150, 2.11, 1.253, 0.922, 0.00, 9.49),
    "gather_direct": (191.9, 0.000, 0.00, 1.142, 0.756, 0.00, 20.71),
    "reduce_binomial": (197.3, 0.991, 0.00, 1.439, 0.690, 0.00, 21.47),
    "reduce_hierarchical": (197.3, 0.991, 0.00, 1.439, 0.690, 0.00, 21.47),
    "reduce_ring": (265.4, 0.970, 14.64, 2.263, 0.841, 1.03, 0.00),
    "reduce_scatter_direct": (236.4, 1.042, 0.00, 1.738, 1.343, 0.00, 12.97),
    "reduce_scatter_halving": (205.5, 0.999, 20.17, 2.027, 0.846, 0.00, 14.44),
    "reduce_scatter_hierarchical": (227.4, 1.079, 3.44, 2.087, 1.157, 0.00, 12.53),
    "reduce_scatter_pat": (226.4, 0.988, 7.77, 2.223, 0.943, 0.00, 13.10),
    "reduce_scatter_ring": (266.5, 1.027, 17.21, 1.574, 0.660, 0.00, 0.00),
    "reduce_scatter_switch": (225.0, 1.001, 0.00, 1.341, 0.766, 0.00, 13.67),
    "reduce_scatter_torus": (237.0, 0.990, 0.00, 2.124, 1.062, 0.01, 13.89),
    "reduce_tree": (86.8, 0.980, 12.42, 1.385, 0.658, 0.00, 35.81),
    "scatter_binomial": (208.7, 1.105, 14.68, 1.987, 1.082, 0.00, 15.04),
    "scatter_direct": (201.6, 1.416, 0.32, 1.070, 0.646, 0.00, 28.52),
    "send_recv_alternating": (27.8, 0.000, 0.00, 1.112, 0.729, 0.00, 120.83),
    "send_recv_ring": (262.3, 0.000, 0.00, 3.386, 3.287, 0.00, 0.00),
}


def weights_of(full_name: str) -> Weights:
    """Return the weights of an algorithm."""
    return FITTED.get(full_name, DEFAULT)
