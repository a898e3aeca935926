"""One model of many holders, or one for each group of them: FedAvg, FedPer, FedRep."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, get_args

from ...distances.methods import Joint
from ...errors import InputError
from ...federation.protocol import Protocol
from ...federation.question import Answerer
from ...options import anything, count, none_or, number, option, part, truth, word
from .averaging import Averaging
from .federated_result import FederatedModels
from .modelling import Modelling
from .shared import Algorithm, InRound, check_head
from .spec import ModelSpec


class FederatedTraining(Modelling, Joint[FederatedModels]):
    r"""Federated training: a model of all holders, or of each group of them.

    .. math:: \theta_g^{t+1} = \sum_{i \in g} \frac{w_i}{\sum_{j \in g} w_j}\,
        \mathrm{SGD}_i(\theta_g^t)

    In each round every holder trains what its group shares on its own records and returns it;
    the coordinator takes the weighted mean. FedAvg shares all layers. FedPer and FedRep share all
    but the last, the head, which is a holder's own and never travels: FedPer trains both together,
    FedRep the shared layers with the head as it is fitted.

    Every holder holds out the part ``held_out`` of its records; accuracies are on those, of the
    shared model with, but for FedAvg, the holder's own head.

    Returns
    -------
    Protocol[FederatedModels]
        Discloses at level record: parameters trained on a holder's records.

    Raises
    ------
    InputError, MismatchError
        Options out of range; groups, weights or flags of other holders; in the run fewer than two
        classes, or records that do not fit the model.
    ExtraError
        In the run, where torch is not installed.

    Notes
    -----
    McMahan et al., *Communication-efficient learning of deep networks from decentralized data*,
    2017 (FedAvg); Arivazhagan et al., *Federated learning with personalization layers*, 2019
    (FedPer); Collins et al., *Exploiting shared representations for personalized federated
    learning*, 2021 (FedRep). By groups: FedWaD, section 4.4. A head is fitted to the shared layers
    anew in every round, from 0, where the papers keep it: holders then need no memory.

    Examples
    --------
    >>> import numpy as np
    >>> from silot import LocalFederation, Measure
    >>> x = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.where(x[:, 0] > 0, "right", "left")
    >>> parts = {"a": slice(0, 100), "b": slice(100, 300)}
    >>> fed = LocalFederation({k: Measure(x[v], labels=y[v]) for k, v in parts.items()})
    >>> found = fed.run(FederatedTraining(model="logistic", rounds=5).among(["a", "b"]))
    >>> found.tests, found.accuracy > 0.8
    ({'a': 20, 'b': 40}, True)
    """

    name = "train"

    algorithm: Algorithm = option(
        "``fedavg`` shares all layers, ``fedper`` and ``fedrep`` all but the last.",
        word(*get_args(Algorithm)),
        default="fedavg",
        brief="What is shared: all layers, or all but the last.",
    )
    rounds: int = option("Averagings.", count(1, 10_000), default=20)
    active: int | None = option(
        "Holders of each group asked a round: so many, and all of them in turn, in an order that "
        "is drawn anew every turn. ``None`` asks all.",
        none_or(count()),
        default=None,
        brief="Holders of each group asked a round, all in turn. Default: all.",
    )
    passes: float = option("Over a holder's records, in a round.", number(above=0), default=1.0)
    head_passes: float = option(
        "Over a holder's records, to fit its head in a round.",
        number(above=0),
        default=5.0,
        flag=False,
    )
    batch: int = option("Of stochastic gradient descent.", count(), default=10)
    rate: float = option("Of stochastic gradient descent.", number(above=0), default=0.01)
    momentum: float = option(
        "Of stochastic gradient descent.", number(least=0), default=0.9, flag=False
    )
    held_out: float = option(
        "Part of a holder's labelled records that accuracies are measured on, and no model is "
        "trained on.",
        part("number"),
        default=0.2,
        brief="Part of each holder's records to measure accuracies on.",
    )
    alone: bool = option(
        "Also train a model at every holder alone, as long, to compare with: its accuracy is told.",
        truth(),
        default=True,
        flag=False,
    )
    groups: Mapping[str, int] | None = option(
        "Number of the group by holder, such as ``Clustering.assignment``; by default one group.",
        anything("numbers by holder, or None"),
        default=None,
    )
    weights: Mapping[str, float] | None = option(
        "The :math:`w_i` by holder; by default how many records it trains on.",
        anything("numbers by holder, or None"),
        default=None,
    )
    flagged: Mapping[str, Any] | None = option(
        "By holder, whether each of its records is left out (n,), as ``RecordScores.flagged``.",
        anything("arrays by holder, or None"),
        default=None,
    )
    quorum: int | None = option(
        "Fewest holders that must take part; ``None`` means all. Others are dropped when they "
        "fail, and named in the result.",
        none_or(count()),
        default=None,
        brief="Fewest holders that must answer. Default: all.",
    )

    def fit(self) -> None:
        super().fit()
        if not self.momentum < 1:
            raise InputError(
                f"momentum is {self.momentum!r}; it must be below 1.", code="option-training"
            )
        if self.algorithm != "fedavg" and self.model == "logistic":
            check_head(ModelSpec("logistic", (1,), 2), self.algorithm)

    @property
    def in_round(self) -> InRound:
        """How a holder trains within a round, in any order of its records."""
        training = self.values("passes", "head_passes", "batch", "rate", "momentum", "seed")
        return InRound(**training)

    def among(
        self, holders: Sequence[str], own: Answerer | None = None
    ) -> Protocol[FederatedModels]:
        run = Averaging(self, tuple(holders))
        model = self.model
        return Protocol(
            self.name,
            run.holders,
            self.disclosure,
            run.start,
            {
                "model": model if isinstance(model, str) else model.to_text(),
                "groups": len(set(run.groups.values())),
                **self.values("algorithm", "rounds", "active", "passes", "batch", "rate", "seed"),
            },
            expected_rounds=self.rounds + 4,
        )


__all__ = ["FederatedTraining"]
