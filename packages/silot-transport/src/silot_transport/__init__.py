"""Optimal transport on plain arrays: no parties, no files, no clocks."""

from typing import TYPE_CHECKING

from ._lazy import lazily

if TYPE_CHECKING:
    from .batches import squared_distances
    from .bounded import Frame, bounded_coordinates
    from .bounds import lower_bounds, mean_bound
    from .classwise import class_distances
    from .cost import cost_matrix
    from .entropic import EntropicPlan, SinkhornDivergence, sinkhorn, sinkhorn_divergence
    from .exact import ExactPlan, exact_plan, plan_from_cost
    from .geodesic import Interpolant, interpolate
    from .large import bounded_plan
    from .memory import Forecast, forecast
    from .moments import Moments, covariance_root, gaussian_distance, gelbrich_bound, moments
    from .sensitivity import Potential, calibrated_gradient, debiased_potential
    from .sliced import sliced_bound, sliced_distance

__all__ = [
    "EntropicPlan",
    "ExactPlan",
    "Forecast",
    "Frame",
    "Interpolant",
    "Moments",
    "Potential",
    "SinkhornDivergence",
    "bounded_coordinates",
    "bounded_plan",
    "calibrated_gradient",
    "class_distances",
    "cost_matrix",
    "covariance_root",
    "debiased_potential",
    "exact_plan",
    "forecast",
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
    "squared_distances",
]

lazily(__name__)
