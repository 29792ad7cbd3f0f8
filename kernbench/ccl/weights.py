"""The weights of the tuner's cost model, by algorithm, fitted to simulations: `python docs/ccl_costs.py` writes them again."""

from __future__ import annotations

from collections.abc import Mapping

Weights = tuple[float, float, float, float, float]

#: [cycle] of a call, a cycle of latency, a message, a cycle of the link, and of the mean of the last two;
#: of an algorithm that was not fitted.
DEFAULT: Weights = (255.0, 1.0, 11.0, 2.3, 0.0)
FITTED: Mapping[str, Weights] = {
    "all_gather_bruck": (186.7, 0.217, 57.37, 0.844, 12.79),
    "all_gather_direct": (225.7, 1.041, 13.66, 1.438, 6.17),
    "all_gather_hierarchical": (195.8, 11.318, 15.38, 1.953, 4.51),
    "all_gather_pat": (177.4, 2.084, 63.55, 1.001, 11.89),
    "all_gather_ring": (259.6, 0.762, 2.05, 2.632, 0.00),
    "all_gather_torus": (202.8, 1.811, 40.99, 1.681, 9.47),
    "all_reduce_bidirectional": (424.5, 0.326, 21.83, 1.987, 0.00),
    "all_reduce_direct": (232.5, 1.110, 8.14, 0.256, 11.37),
    "all_reduce_halving_doubling": (286.3, 0.985, 17.35, 1.818, 0.00),
    "all_reduce_hierarchical": (342.6, 0.702, 9.62, 2.046, 0.00),
    "all_reduce_recursive_doubling": (254.7, 0.653, 11.27, 1.264, 8.73),
    "all_reduce_ring": (274.5, 0.347, 14.38, 2.196, 0.00),
    "all_reduce_torus": (443.9, 0.415, 21.49, 2.205, 0.00),
    "all_reduce_tree": (249.6, 0.941, 11.49, 2.124, 0.87),
    "all_to_all_bruck": (159.0, 7.160, 11.69, 0.502, 35.26),
    "all_to_all_direct": (203.2, 0.953, 8.84, 0.310, 18.62),
    "all_to_all_hierarchical": (179.4, 16.345, 0.00, 1.876, 13.66),
    "all_to_all_ring": (243.0, 0.522, 40.72, 4.254, 0.00),
    "barrier_dissemination": (0.0, 2.071, 0.00, 0.000, 0.00),
    "barrier_tree": (0.0, 1.600, 0.00, 0.000, 0.00),
    "broadcast_binomial": (247.4, 1.139, 0.00, 1.847, 8.51),
    "broadcast_hierarchical": (247.4, 1.139, 0.00, 1.847, 8.51),
    "broadcast_ring": (282.2, 0.076, 0.62, 1.844, 0.00),
    "broadcast_tree": (292.1, 0.839, 0.75, 2.162, 0.00),
    "gather_binomial": (234.6, 1.433, 4.77, 1.824, 10.09),
    "gather_direct": (240.9, 0.534, 18.01, 2.237, 0.00),
    "reduce_binomial": (337.8, 0.745, 0.00, 1.624, 9.22),
    "reduce_hierarchical": (337.8, 0.745, 0.00, 1.624, 9.22),
    "reduce_ring": (275.1, 0.799, 0.00, 1.381, 11.42),
    "reduce_scatter_direct": (253.7, 1.351, 7.02, 1.880, 9.41),
    "reduce_scatter_halving": (83.3, 0.225, 97.01, 0.949, 13.33),
    "reduce_scatter_hierarchical": (80.9, 2.006, 55.50, 1.557, 10.65),
    "reduce_scatter_pat": (48.1, 2.838, 105.79, 0.636, 14.92),
    "reduce_scatter_ring": (352.4, 0.928, 0.00, 2.343, 3.92),
    "reduce_scatter_torus": (206.1, 1.177, 23.91, 1.185, 19.35),
    "reduce_tree": (270.2, 0.712, 5.87, 1.705, 7.12),
    "scatter_binomial": (232.2, 0.987, 8.98, 3.026, 7.61),
    "scatter_direct": (254.7, 1.318, 2.29, 2.659, 0.00),
    "send_recv_alternating": (0.0, 0.000, 127.07, 1.545, 5.57),
    "send_recv_ring": (262.0, 0.000, 0.00, 3.264, 0.49),
}


def weights_of(full_name: str) -> Weights:
    """The weights of an algorithm."""
    return FITTED.get(full_name, DEFAULT)
