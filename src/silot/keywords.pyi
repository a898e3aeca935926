"""Keywords that public functions take as ``**options``.

Written by ``python -m tests.keywords`` from the options that classes declare. Do not edit.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypedDict

import numpy.typing as npt

from silot_transport.geodesic import Interpolation

from .data.measure import Covariance, Embedding
from .distances.fedwad import Choice, Uniform, When
from .distances.sketches.release_options import Public
from .distances.trianglewad import Choice as ChoiceOfTriangleWad
from .distillation.options import Loss
from .distillation.weights import Weights
from .federation.keys import PublicKey
from .federation.policy import Policy
from .sites.secure.options import Accuracy
from .teaching.adapt import Objective, Prior
from .teaching.divergences import Threshold
from .teaching.exact import Method
from .teaching.federated import ModelSpec, Rule
from .teaching.federated.clustering import Affinity
from .teaching.gp import Rounding, Start
from .teaching.network import Constants

class AdaptKeywords(TypedDict, total=False):
    """Of ``silot.api.adapt.adapt``."""

    classes: Sequence[str] | None
    unlabelled: str
    seed: int
    model: Any
    shape: Sequence[int] | None
    iterations: int
    passes: float | None
    batch: int
    rate: float
    momentum: float
    folds: int | None
    minimum_labelled: int
    features: int
    bandwidth: float | None
    method: Method
    allow_unserved: float | None
    time_limit: float
    gap: float
    phi: Sequence[float] | None
    constants: Constants | None
    delta: float
    unlabelled_error: float | None
    rates: npt.ArrayLike
    powers: float | Mapping[str, float]
    model_bits: float | None
    objective: Objective | None
    budget: float | None
    rule: Rule | None
    prior: Prior | None
    divergence: str | None
    divergence_options: Mapping[str, Any] | None
    privacy_epsilon: float
    privacy_delta: float
    mass_limit: float | None
    ledgers: str | Path | None
    budget_epsilon: float | None

class AskingKeywords(TypedDict, total=False):
    """Of ``silot.distillation.protocol.distill``."""

    temperature: float
    decimals: int | None
    privacy_epsilon: float | None
    privacy_delta: float
    shared: bool
    question_batch: int | None
    min_teachers: int

class BarycenterKeywords(TypedDict, total=False):
    """Of ``silot.api.value.barycenter``."""

    weights: Mapping[str, float] | None
    support: int
    rounds: int
    active: int | None
    tol: float
    seed: int
    t: float
    place: float
    label_weight: float
    quorum: int | None
    reference: npt.ArrayLike | None
    privacy_epsilon: float
    privacy_delta: float
    mass_limit: float | None
    public: Public | None
    public_mean: npt.ArrayLike | None
    public_scale: npt.ArrayLike | None
    classes: Sequence[object] | None
    size: int | None
    cells: int | None
    period: str | Mapping[str, str] | None
    ledgers: str | Path | None
    budget_epsilon: float | None

class ClusterKeywords(TypedDict, total=False):
    """Of ``silot.api.cluster.cluster``."""

    k: int | Literal["auto"]
    level: float
    affinity: Affinity
    neighbours: int
    seed: int
    p: int
    why: bool
    permutations: int
    support: int | None
    reference: npt.ArrayLike | None
    reference_mean: float
    reference_scale: float
    moments: bool
    rounds: int
    tol: float
    t: float | Uniform | None
    interpolation: Choice | ChoiceOfTriangleWad
    distances: When | bool
    scale: float
    two_party: bool
    protocol: str
    receiver: str
    privacy_epsilon: float | None
    diameter: float | None
    accuracy: Accuracy
    privacy_delta: float
    mass_limit: float | None
    reach: float | None
    public: Public | None
    public_mean: npt.ArrayLike | None
    public_scale: npt.ArrayLike | None
    classes: Sequence[object] | None
    size: int | None
    cells: int | None
    ledgers: str | Path | None
    budget_epsilon: float | None

class CompareKeywords(TypedDict, total=False):
    """Of ``silot.api.compare.compare``."""

    fdr: float
    seed: int
    privacy_epsilon: float
    privacy_delta: float
    mass_limit: float | None
    public: Public | None
    public_mean: npt.ArrayLike | None
    public_scale: npt.ArrayLike | None
    classes: Sequence[object] | None
    size: int | None
    cells: int | None
    period: str | Mapping[str, str] | None
    ledgers: str | Path | None
    budget_epsilon: float | None

class CoresetKeywords(TypedDict, total=False):
    """Of ``silot.api.coreset.coreset``."""

    weights: Mapping[str, float] | None
    rounds: int
    active: int | None
    tol: float
    quorum: int | None
    privacy_epsilon: float
    privacy_delta: float
    mass_limit: float | None
    public: Public | None
    public_mean: npt.ArrayLike | None
    public_scale: npt.ArrayLike | None
    classes: Sequence[object] | None
    cells: int | None
    period: str | Mapping[str, str] | None
    ledgers: str | Path | None
    budget_epsilon: float | None

class CountKeywords(TypedDict, total=False):
    """Of ``silot.api.records.count_broken``."""

    privacy_epsilon: float
    privacy_delta: float
    mass_limit: float | None
    fdr: float
    seed: int
    ledgers: str | Path | None
    budget_epsilon: float | None

class DistanceKeywords(TypedDict, total=False):
    """Of ``silot.api.distances.distance``, ``silot.api.distances.distance_matrix``."""

    p: int
    seed: int
    why: bool
    permutations: int
    support: int | None
    reference: npt.ArrayLike | None
    reference_mean: float
    reference_scale: float
    moments: bool
    rounds: int
    tol: float
    t: float | Uniform | None
    interpolation: Choice | ChoiceOfTriangleWad
    distances: When | bool
    scale: float
    two_party: bool
    protocol: str
    receiver: str
    privacy_epsilon: float | None
    diameter: float | None
    accuracy: Accuracy
    privacy_delta: float
    mass_limit: float | None
    reach: float | None
    public: Public | None
    public_mean: npt.ArrayLike | None
    public_scale: npt.ArrayLike | None
    classes: Sequence[object] | None
    size: int | None
    cells: int | None
    ledgers: str | Path | None
    budget_epsilon: float | None

class DistillKeywords(TypedDict, total=False):
    """Of ``silot.api.distill.distill``."""

    loss: Loss | None
    epsilon: float | None
    epochs: int
    rate: float
    batch: int
    seed: int
    weights: Weights | Literal["validation"] | None
    weight_cap: float | None
    robust: bool | None
    noise: npt.ArrayLike | Sequence[str] | int | None
    memory: bool
    memory_size: int | None
    temperature: float
    decimals: int | None
    privacy_epsilon: float | None
    privacy_delta: float
    shared: bool
    question_batch: int | None
    min_teachers: int
    timeout: float | None
    asker: str

class DivergenceKeywords(TypedDict, total=False):
    """Of ``silot.teaching.divergences.divergences``."""

    embedding: Embedding
    features: int | None
    bandwidth: float | None
    standardise: bool | None
    model: ModelSpec | None
    rounds: int
    iterations: int
    batch: int
    rate: float
    momentum: float
    threshold: Threshold
    p: int
    support: int | None
    reference: npt.ArrayLike | None
    reference_mean: float
    reference_scale: float
    moments: bool
    tol: float
    t: float | Uniform | None
    interpolation: Choice | ChoiceOfTriangleWad
    distances: When | bool
    privacy_epsilon: float
    privacy_delta: float
    mass_limit: float | None
    public: Public | None
    public_mean: npt.ArrayLike | None
    public_scale: npt.ArrayLike | None
    classes: Sequence[object] | None
    size: int | None
    cells: int | None
    permutations: int

class FitKeywords(TypedDict, total=False):
    """Of ``silot.distillation.fitting.fit``."""

    epochs: int
    rate: float
    batch: int
    decay: float
    balanced: bool
    seed: int

class LinkKeywords(TypedDict, total=False):
    """Of ``silot.teaching.exact.links``."""

    method: Method
    allow_unserved: float | None
    time_limit: float | None
    gap: float
    seed: int
    epsilon_energy: float
    epsilon_sum: float
    start: Start
    start_psi: float
    max_iterations: int
    tolerance: float
    missing_constraint: bool
    rounding: Rounding
    iterations: int

class PooledKeywords(TypedDict, total=False):
    """Of ``silot.api.distances.pooled_distance``."""

    p: int
    seed: int
    support: int | None
    reference: npt.ArrayLike | None
    reference_mean: float
    reference_scale: float
    moments: bool
    t: float | None
    hidden: bool
    samples: Sequence[float]
    quorum: int | None
    interpolation: Interpolation
    distances: bool
    scale: float
    two_party: bool
    protocol: str
    receiver: str
    privacy_epsilon: float | None
    diameter: float | None
    accuracy: Accuracy

class RecordKeywords(TypedDict, total=False):
    """Of ``silot.api.records.value_records``."""

    fdr: float
    covariance: Covariance
    t: float
    support: int
    rounds: int

class ReleaseKeywords(TypedDict, total=False):
    """Of ``silot.api.release.release``."""

    labels: bool
    period: str | Mapping[str, str] | None
    budget_epsilon: float | None
    policy: Policy | None
    to: PublicKey | None
    privacy_epsilon: float
    privacy_delta: float
    mass_limit: float | None
    public_mean: npt.ArrayLike | None
    public_scale: npt.ArrayLike | None
    classes: Sequence[object] | None
    size: int | None
    cells: int | None
    seed: int

class SketchKeywords(TypedDict, total=False):
    """Of ``silot.api.sketch.sketches``."""

    privacy_epsilon: float
    privacy_delta: float
    mass_limit: float | None
    public: Public | None
    public_mean: npt.ArrayLike | None
    public_scale: npt.ArrayLike | None
    classes: Sequence[object] | None
    size: int | None
    cells: int | None
    seed: int
    period: str | Mapping[str, str] | None
    ledgers: str | Path | None
    budget_epsilon: float | None

class TrainKeywords(TypedDict, total=False):
    """Of ``silot.api.train.train``."""

    classes: Sequence[str] | None
    unlabelled: str
    model: Any
    shape: Sequence[int] | None
    rounds: int
    active: int | None
    passes: float
    head_passes: float
    batch: int
    rate: float
    momentum: float
    held_out: float
    alone: bool
    flagged: Mapping[str, Any] | None
    patience: int | None
    personal_passes: float
    quorum: int | None

class TrainingKeywords(TypedDict, total=False):
    """Of ``silot.distillation.trainer.train``."""

    loss: Loss | None
    epsilon: float | None
    epochs: int
    rate: float
    batch: int
    seed: int

class ValueKeywords(TypedDict, total=False):
    """Of ``silot.api.value.value_holders``."""

    privacy_epsilon: float
    privacy_delta: float
    mass_limit: float | None
    method: str
    covariance: Covariance
    label_weight: float
    class_tolerance: float
    support: int
    rounds: int
    tol: float
    seed: int
    quorum: int | None
    weights: Mapping[str, float] | None
    why: bool
    shapley: bool
    intervals: bool
    faults: bool
    ledgers: str | Path | None
    budget_epsilon: float | None
    public: Public | None
    public_mean: npt.ArrayLike | None
    public_scale: npt.ArrayLike | None
    classes: Sequence[object] | None
    size: int | None
    cells: int | None
    period: str | Mapping[str, str] | None
