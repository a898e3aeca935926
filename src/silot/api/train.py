"""Train models of several holders' data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Unpack, cast

from ..data.checkpoint import fingerprint, load, save
from ..data.measure import Data, Measure
from ..distances.worth.result import Contributions
from ..errors import FileError, InputError
from ..federation.parties import Holders, Parties, check_measures, name_holders
from ..federation.party import Own
from ..federation.result import RunResult
from ..federation.run import Federation, Progress, Runtime
from ..options import check_known, taking
from ..records.result import RecordScores
from ..teaching.federated.clustering import Clustering
from ..teaching.federated.federated import FederatedTraining, Keep, Progression
from ..teaching.federated.federated_result import FederatedModels
from .cluster import cluster
from .records import value_records
from .value import value_holders

if TYPE_CHECKING:
    from ..keywords import TrainKeywords

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
    checkpoint: str | Path | None = None,
    seed: int = 0,
    progress: Callable[[Progress], None] | None = None,
    **options: Unpack[TrainKeywords],
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
        Trusted labelled data of the caller, of the distribution that matters: for
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
    checkpoint
        An ``.npz`` file that every round is written to. Where it is there, training continues from
        it; options and holders must be those of before.
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
        Data that are not labelled measures or do not fit together, options out of range, before
        any question is sent; fewer than two classes.
    ExtraError
        Where torch is not installed, and the model needs it.

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
            "a model needs labels. Give labels=True, or the column of the labels.",
            code="labels-absent",
        )
    if test is not None and algorithm != "fedavg":
        raise InputError(
            f"models of {algorithm} have a last layer for each holder, and test records "
            "belong to no holder. Leave test out: accuracies are measured at each holder, "
            "on its held-out records.",
            code="model-head",
        )
    needs = [
        *(["weights='worth'"] if weights == "worth" else []),
        *(["drop_flagged=True"] if drop_flagged is True else []),
    ]
    if needs and validation is None:
        raise InputError(
            f"{needs[0]} needs validation data. Give validation=...",
            code="validation-absent",
        )
    parties = Parties.of(holders, labels, validation)
    tests = None if test is None else _read_test(test, parties, labels)
    fixed: dict[str, Any] = {"algorithm": algorithm, "seed": seed, **options}
    by_distance = groups == "auto" or (isinstance(groups, int) and not isinstance(groups, bool))
    own: dict[str, Any] = {
        "groups": None
        if groups is None or by_distance
        else _read_by_holder(
            "groups", groups, Clustering, "assignment",
            "'auto', a number of groups, the result of silot.cluster, or numbers by holder",
            code="option-groups",
        ),
        "weights": None
        if weights is None or weights == "worth"
        else _read_by_holder(
            "weights", weights, Contributions, "shares",
            "'worth', the result of silot.value_holders, or numbers by holder",
            code="option-weights",
        ),
        "flagged": None if isinstance(drop_flagged, bool) else _read_flags(drop_flagged),
    }  # fmt: skip
    # Checked before any holder receives a question.
    FederatedTraining(**fixed, **own).among(parties.names)
    clustering: Clustering | None = None
    runs: list[RunResult] = []
    shared: dict[str, Any] = {"labels": labels, "seed": seed}
    if by_distance:
        clustering = cluster(holders, k=cast("Any", groups), **shared)
        own["groups"] = clustering.assignment
    if weights == "worth":
        worth = value_holders(holders, parties.trusted.measure, **shared)
        runs.append(worth)
        own["weights"] = worth.shares
    if drop_flagged is True:
        scores = _score_records(holders, parties, **shared)
        runs += scores.values()
        own["flagged"] = {name: item.flagged for name, item in scores.items()}
    kind = FederatedTraining(**fixed, **own)
    begun, keep = None, None
    if checkpoint is not None:
        begun, keep = _open_checkpoint(Path(checkpoint), kind, parties.names)
    trained = parties.run(kind.among(parties.names, begun=begun, keep=keep), progress)
    if tests is not None:
        trained = trained.tested(tests)
    return replace(trained, clustering=clustering, beside=tuple(runs))


def _open_checkpoint(
    path: Path, kind: FederatedTraining, names: Sequence[str]
) -> tuple[Progression | None, Keep]:
    """Read how far a training had come, and return what writes how far it has come."""
    groups = kind.groups or dict.fromkeys(names, 0)
    mark = fingerprint(names=sorted(names), groups=dict(groups), **kind.parts)

    def keep(state: Progression) -> None:
        save(path, "training", mark, *state.parts())

    begun = load(path, "training", mark)
    if begun is None:
        return None, keep
    try:
        return Progression.of(*begun, sorted(set(groups.values()))), keep
    except (KeyError, TypeError):
        raise FileError(
            f"{path} lacks a part of a checkpoint. Remove it to start again.",
            code="checkpoint-broken",
        ) from None


def _read_test(test: Data, parties: Parties, labels: bool | str) -> Measure:
    """Read test records, their columns in the order of the holders'."""
    named = {**parties.measures, _TEST: test}
    return check_measures(named, labels, last=(_TEST,))[_TEST]


def _read_by_holder(
    name: str, value: object, kind: type, field: str, choices: str, *, code: str
) -> Mapping[str, Any]:
    """Read numbers by holder: as they are, or in a field of a result of some kind."""
    if isinstance(value, kind):
        return getattr(value, field)
    if isinstance(value, Mapping):
        return cast("Mapping[str, Any]", value)
    raise InputError(f"{name} is {value!r}; give {choices}.", code=code)


def _read_flags(scores: object) -> Mapping[str, Any]:
    """Read by holder which records are left out, of flags or scores."""
    choices = "True, or the results of silot.value_records by holder"
    by_holder = _read_by_holder(
        "drop_flagged", scores, type(None), "", choices, code="option-flagged"
    )
    return {
        name: item.flagged if isinstance(item, RecordScores) else item
        for name, item in by_holder.items()
    }


def _score_records(holders: Holders, parties: Parties, **shared: Any) -> dict[str, RecordScores]:
    own = Own(parties.trusted.measure)
    is_federation = isinstance(holders, Federation | Runtime)
    data = dict.fromkeys(parties.names, holders) if is_federation else name_holders(holders)
    return {name: value_records(data[name], own, name=name, **shared) for name in parties.names}
