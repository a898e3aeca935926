"""How far apart devices' data are: the divergences by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from inspect import signature
from typing import Any

from ..errors import InputError
from ..federation.disclosure import Disclosure
from ..federation.protocol import Protocol
from ..sketch.methods import METHODS
from .classifier import classifier
from .divergence import Divergences
from .features import mmd, sliced
from .pairs import direct, in_step, sketch


@dataclass(frozen=True)
class DivergenceMethod:
    """A way to compare all devices with one another.

    Attributes
    ----------
    name
        Name to ask for it by.
    build
        Function that makes its protocol.
    disclosure
        Finest thing it discloses.
    sends, needs, guarantees, privacy
        In words.
    """

    name: str
    build: Callable[..., Protocol[Divergences]]
    disclosure: Disclosure
    sends: str
    needs: str
    guarantees: str
    privacy: str

    @property
    def options(self) -> tuple[str, ...]:
        """Names of the options it takes beside ``seed`` and ``quorum``."""
        parameters = signature(self.build).parameters.values()
        names = tuple(item.name for item in parameters if item.kind is item.KEYWORD_ONLY)
        if any(item.kind is item.VAR_KEYWORD for item in parameters):
            names = METHODS[self.name].options
        return tuple(name for name in names if name not in ("seed", "quorum"))


def _of_pairs(
    name: str, needs: str, build: Callable[..., Protocol[Divergences]] | None = None
) -> DivergenceMethod:
    """A distance method, told as it is for two; by default pair by pair."""
    words = {k: getattr(METHODS[name], k) for k in ("disclosure", "sends", "guarantees", "privacy")}
    return DivergenceMethod(name, build or partial(in_step, name), needs=needs, **words)


_STAGES = "n - 1 times the rounds of one pair, n the number of devices"

DIVERGENCES: dict[str, DivergenceMethod] = {
    method.name: method
    for method in (
        DivergenceMethod(
            "mmd",
            mmd,
            Disclosure.AGGREGATE,
            sends="mean and variances of the features, and the mean of random features",
            needs="two rounds; 2048 numbers a device",
            guarantees="an estimate whose square is right on average for every number of "
            "records; kernel matrix for mixing='mmd'",
            privacy="none: exact means; fewer numbers are told than the records have, which is "
            "a fence and no guarantee",
        ),
        DivergenceMethod(
            "sliced",
            sliced,
            Disclosure.AGGREGATE,
            sends="mean and variances of the features, and quantiles of random projections",
            needs="two rounds; 2048 numbers a device",
            guarantees="an estimate, below the sliced distance of the same directions; exact for "
            "shifts",
            privacy="none: exact means of at least five records each, which is a fence and no "
            "guarantee",
        ),
        DivergenceMethod(
            "classifier",
            classifier,
            Disclosure.RECORD,
            sends="means and variances, a round the parameters of a classifier for each other "
            "device, averages of its sorted scores, and its errors",
            needs="13 rounds; for n devices, n - 1 models a device a round; a cnn needs the "
            "extra named torch",
            guarantees="an estimate from 0 to 2: what one classifier learnt in the given steps; "
            "with threshold='half' as published",
            privacy="none: parameters after a few steps can be inverted",
        ),
        _of_pairs("fedwad", _STAGES),
        _of_pairs("trianglewad", _STAGES),
        _of_pairs("sketch", METHODS["sketch"].needs, sketch),
        _of_pairs("direct", "one round; records pooled at the coordinator", direct),
    )
}


def divergence_named(name: str) -> DivergenceMethod:
    """Return a divergence by name, or raise an ``InputError`` that lists them."""
    if not isinstance(name, str) or name not in DIVERGENCES:
        raise InputError(
            f"method is {name!r}; give one of {', '.join(DIVERGENCES)}.", code="option-method"
        )
    return DIVERGENCES[name]


def divergences(
    holders: Sequence[str],
    *,
    method: str = "mmd",
    seed: int = 0,
    quorum: int = 2,
    **options: Any,
) -> Protocol[Divergences]:
    r"""Divergence between every two devices, for :math:`\tfrac12 d` of the transfer cost (18).

    Records count whether labelled or not; labels are not used, unless an ``embedding`` is.

    Parameters
    ----------
    holders
        Names of two devices or more.
    method
        ``"mmd"``, ``"sliced"``, ``"classifier"`` (Algorithm 1 of the paper), ``"fedwad"``,
        ``"trianglewad"``, ``"sketch"`` or ``"direct"``; ``DIVERGENCES`` says what each sends.
    seed
        Seed of everything drawn. The result does not depend on the order of ``holders``.
    quorum
        Fewest devices that must answer. One that fails is named in ``missing`` and left out.
    **options
        Of the method.

    Returns
    -------
    Protocol[Divergences]

    Raises
    ------
    InputError
        An unknown method or option, or one out of range; fewer than two devices.
    MismatchError
        Devices whose records have different numbers of features (in the run).

    Notes
    -----
    Wang et al., *Multi-Source to Multi-Target Decentralized Federated Domain Adaptation*, 2023,
    sec. IV-B, has Algorithm 1 only. The others cost less and predict transfer errors as well:
    docs/results/stlf-divergences.md.

    Examples
    --------
    >>> import numpy as np
    >>> from silot import LocalFederation
    >>> x = np.random.default_rng(0).normal(size=(900, 2))
    >>> fed = LocalFederation({"a": x[:300], "b": x[300:600], "far": x[600:] + 9.0})
    >>> found = fed.run(divergences(["a", "b", "far"], method="mmd"))
    >>> found["a", "b"] < 0.2, found["a", "far"] > 0.6, found.disclosure
    (True, True, 'aggregate')
    """
    chosen = divergence_named(method)
    unknown = sorted(set(options) - set(chosen.options))
    if unknown:
        raise InputError(
            f"method {method!r} has no option {unknown[0]!r}; it takes "
            f"{', '.join(chosen.options)}.",
            code="option-unknown",
        )
    return chosen.build(holders, seed=seed, quorum=quorum, **options)
