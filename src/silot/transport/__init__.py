"""Optimal transport on plain arrays: no parties, no files, no clocks."""

from .bounds import lower_bounds, mean_bound
from .cost import cost_matrix
from .entropic import EntropicPlan, SinkhornDivergence, sinkhorn, sinkhorn_divergence
from .exact import ExactPlan, exact_plan, plan_from_cost
from .geodesic import Interpolant, interpolate
from .moments import Moments, covariance_root, gaussian_distance, gelbrich_bound, moments
from .sliced import sliced_bound, sliced_distance

__all__ = [
    "EntropicPlan",
    "ExactPlan",
    "Interpolant",
    "Moments",
    "SinkhornDivergence",
    "cost_matrix",
    "covariance_root",
    "exact_plan",
    "gaussian_distance",
    "gelbrich_bound",
    "interpolate",
    "lower_bounds",
    "mean_bound",
    "moments",
    "plan_from_cost",
    "sinkhorn",
    "sinkhorn_divergence",
    "sliced_bound",
    "sliced_distance",
]
