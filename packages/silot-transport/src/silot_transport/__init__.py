"""Optimal transport on numpy arrays, with certified bounds."""

from typing import TYPE_CHECKING

from ._lazy import lazily

if TYPE_CHECKING:
    from .bounded import bounded_plan
    from .bounds import lower_bounds, mean_bound, sliced_bound, sliced_distance
    from .classwise import class_distances
    from .coordinates import Frame, bounded_coordinates
    from .cost import cost_matrix
    from .entropic import (
        EntropicPlan,
        Potential,
        SinkhornDivergence,
        calibrated_gradient,
        debiased_potential,
        sinkhorn,
        sinkhorn_divergence,
    )
    from .exact import ExactPlan, exact_plan, partial_plan, plan_from_cost, squared_distances
    from .geodesic import Interpolant, interpolate
    from .group_samples import GroupsResult, group_histograms, group_samples
    from .memory import Forecast, forecast
    from .moments import Moments, covariance_root, gaussian_distance, gelbrich_bound, moments
    from .two_histograms import two_histograms
    from .two_sample import ColumnChange, Histogram, TwoSampleResult, two_sample

__all__ = [
    "ColumnChange",
    "EntropicPlan",
    "ExactPlan",
    "Forecast",
    "Frame",
    "GroupsResult",
    "Histogram",
    "Interpolant",
    "Moments",
    "Potential",
    "SinkhornDivergence",
    "TwoSampleResult",
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
    "group_histograms",
    "group_samples",
    "interpolate",
    "lower_bounds",
    "mean_bound",
    "moments",
    "partial_plan",
    "plan_from_cost",
    "sinkhorn",
    "sinkhorn_divergence",
    "sliced_bound",
    "sliced_distance",
    "squared_distances",
    "two_histograms",
    "two_sample",
]

lazily(__name__)
