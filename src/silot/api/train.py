"""Train models of several holders' data."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, cast

from ..data.measure import Data, Measure
from ..distances.worth.result import Contributions
from ..errors import InputError
from ..federation.party import Own
from ..federation.result import Billed
from ..federation.run import Federation, Progress, Runtime
from ..options import check_known, taking
from ..records.result import RecordScores
from ..teaching.federated.clustering import Clustering
from ..teaching.federated.federated import FederatedTraining
from ..teaching.federated.federated_result import FederatedModels
from ._holders import Holders, Parties, check_measures, name_holders
from .cluster import cluster
from .records import value_records
from .value import value_holders

_TEST = "test records"

Groups = Clustering | Mapping[str, int] | Literal["auto"] | int
Weights = Contributions | Mapping[str, float] | Literal["worth"]


@taking(FederatedTraining)
def train(
    holders: Holders,
    validation: Data | None = None,
    *,
    labels: bool | str = True,
    algorithm: str = "fedavg",
    groups: Groups | None = None,
    weights: Weights | None = None,
    drop_flagged: bool | Mapping[str, RecordScores] = False,
    test: Data | None = None,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
    **options: Any,
) -> FederatedModels:
    r"""Train one model of all holders, or one for each group of them, without pooling their data.

    .. math:: \theta_g^{t+1} = \sum_{i \in g} \frac{w_i}{\sum_{j \in g} w_j}\,
        \mathrm{SGD}_i(\theta_g^t)

    Parameters
    ----------
    holders
        Labelled data (as for ``distance``) by name; a sequence is named ``"0"``, ``"1"`` and so on.
        Or a federation (as for ``distance_matrix``).
    validation
        Trusted labelled data of the caller's own, of the law that matters: for
        ``weights="worth"`` and ``drop_flagged=True``.
    labels
        For data frames the name of the column that has the labels.
    algorithm
        ``"fedavg"``: all layers are shared. ``"fedper"``, ``"fedrep"``: all but the last, which is
        each holder's own.
    groups
        Holders of a group train a model of their own: what ``silot.cluster`` found, or numbers of
        groups by holder. ``"auto"`` or a number of groups: by ``silot.cluster`` from exact
        distances between labelled records.
    weights
        What holders count for in the mean, instead of their records: numbers by holder, what
        ``silot.value_holders`` found, or ``"worth"`` for its shares by the validation data.
    drop_flagged
        Leave out records that ``silot.value_records`` flags against the validation data (or what
        it found, by holder). Records that are held out stay: accuracies are of the same records.
    test
        Labelled records of the caller's own that models of ``"fedavg"`` are tested on. No holder
        sees them.
    seed
        Seed of everything random.
    progress
        Called after every exchange of the training.

    Returns
    -------
    FederatedModels
        With ``accuracies`` by holder on records held out, ``model(name)`` and ``predict``.

    Raises
    ------
    InputError, MismatchError
        Data that are no labelled measures or do not fit together, options out of range, before
        any question is sent; fewer than two classes.
    ExtraError
        Where torch is not installed.

    Notes
    -----
    McMahan et al., 2017 (FedAvg); Arivazhagan et al., 2019 (FedPer); Collins et al., 2021 (FedRep);
    by groups: Rakotomamonjy, Nadjahi and Ralaivola, *Federated Wasserstein Distance*, 2024,
    sec. 4.4. Parameters that were trained on few records can be inverted: level record.

    Examples
    --------
    >>> import numpy as np
    >>> from silot import Measure
    >>> x = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.where(x[:, 0] > 0, "right", "left")
    >>> wards = {"a": Measure(x[:100], labels=y[:100]), "b": Measure(x[100:], labels=y[100:])}
    >>> found = train(wards, model="logistic", rounds=5)
    >>> found.names, found.predict("a", [[2.0, 0.0]]).tolist()
    (('a', 'b'), ['right'])
    """
    check_known(FederatedTraining, options, "train")
    if not labels:
        raise InputError(
            "a model needs labels. Give labels=True, or the column that has them.",
            code="labels-absent",
        )
    if test is not None and algorithm != "fedavg":
        raise InputError(
            f"models of {algorithm} end in a head of each holder, and test records are of none. "
            "Leave test out: accuracies are by holder, on what it held out.",
            code="model-head",
        )
    needs = [
        *(["weights='worth'"] if weights == "worth" else []),
        *(["drop_flagged=True"] if drop_flagged is True else []),
    ]
    if needs and validation is None:
        raise InputError(
            f"{needs[0]} compares with validation data. Give validation=...",
            code="validation-absent",
        )
    parties = Parties.of(holders, labels, validation)
    tests = None if test is None else _read_test(test, parties, labels)
    fixed: dict[str, Any] = {"algorithm": algorithm, "seed": seed, **options}
    before = _Preparation(holders, parties, labels, seed)
    own = {
        "groups": _numbers(groups),
        "weights": _masses(weights),
        "flagged": _flags(drop_flagged),
    }
    # Checked before anybody is asked for anything.
    FederatedTraining(**fixed, **own).among(parties.names)
    if _is_number(groups):
        own["groups"] = before.groups(groups)
    if weights == "worth":
        own["weights"] = before.worth()
    if drop_flagged is True:
        own["flagged"] = before.flags()
    kind = FederatedTraining(**fixed, **own)
    trained = parties.run(kind.among(parties.names), progress)
    if tests is not None:
        trained = trained.tested(tests)
    return replace(trained, clustering=before.clustering, beside=tuple(before.runs))


def _read_test(test: Data, parties: Parties, labels: bool | str) -> Measure:
    """Read test records, their columns in the order of the holders'."""
    named = {**parties.measures, _TEST: test}
    return check_measures(named, labels, last=(_TEST,))[_TEST]


def _is_number(groups: object) -> bool:
    """Whether distances decide who is in which group."""
    return groups == "auto" or (isinstance(groups, int) and not isinstance(groups, bool))


def _numbers(groups: object) -> Mapping[str, int] | None:
    """Read numbers of groups by holder, where the caller names them."""
    if groups is None or _is_number(groups):
        return None
    if isinstance(groups, Clustering):
        return groups.assignment
    if isinstance(groups, Mapping):
        return cast("Mapping[str, int]", groups)
    raise InputError(
        f"groups is {groups!r}; give 'auto', a number of groups, what silot.cluster found, or "
        "numbers by holder.",
        code="option-groups",
    )


def _masses(weights: object) -> Mapping[str, float] | None:
    """Read what holders count for, where the caller names it."""
    if weights is None or weights == "worth":
        return None
    if isinstance(weights, Contributions):
        return weights.shares
    if isinstance(weights, Mapping):
        return cast("Mapping[str, float]", weights)
    raise InputError(
        f"weights is {weights!r}; give 'worth', what silot.value_holders found, or numbers by "
        "holder.",
        code="option-weights",
    )


def _flags(drop_flagged: object) -> Mapping[str, Any] | None:
    """Read by holder which records are left out, where the caller names them."""
    if isinstance(drop_flagged, bool):
        return None
    if not isinstance(drop_flagged, Mapping):
        raise InputError(
            f"drop_flagged is {drop_flagged!r}; give True, or what silot.value_records found by "
            "holder.",
            code="option-flagged",
        )
    scores = cast("Mapping[str, object]", drop_flagged)
    return {
        name: score.flagged if isinstance(score, RecordScores) else score
        for name, score in scores.items()
    }


class _Preparation:
    """Runs before the training that groups, weights and flags follow from."""

    def __init__(self, holders: Holders, parties: Parties, labels: bool | str, seed: int) -> None:
        self._holders = holders
        self._parties = parties
        self._shared: dict[str, Any] = {"labels": labels, "seed": seed}
        self.clustering: Clustering | None = None
        self.runs: list[Billed] = []

    def groups(self, k: object) -> Mapping[str, int]:
        """Compute numbers of groups by holder from exact distances."""
        self.clustering = cluster(self._holders, k=cast("Any", k), **self._shared)
        return self.clustering.assignment

    def worth(self) -> Mapping[str, float]:
        """Compute shares of holders by their distance to the validation data."""
        worth = value_holders(self._holders, self._parties.trusted.measure, **self._shared)
        self.runs.append(worth)
        return worth.shares

    def flags(self) -> Mapping[str, Any]:
        """Compute by holder which of its records are flagged."""
        own = Own(self._parties.trusted.measure)
        flags: dict[str, Any] = {}
        for name in self._parties.names:
            scores = value_records(self._party(name), own, name=name, **self._shared)
            self.runs.append(scores)
            flags[name] = scores.flagged
        return flags

    def _party(self, name: str) -> Data | Federation | Runtime:
        """Return the data or the federation by which a holder's records are scored."""
        if isinstance(self._holders, Federation | Runtime):
            return self._holders
        return name_holders(self._holders)[name]


__all__ = ["train"]
