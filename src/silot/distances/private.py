"""The distance of a holder to a target, from one differentially private release."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from silot_transport.classwise import class_distances

from ..errors import InputError
from ..federation.disclosure import Disclosure
from ..federation.protocol import COORDINATOR, Steps, required
from ..federation.question import Answerer
from ..options import none_or, number, option
from ..privacy.accounting import scale_for
from ..privacy.summary import Array, Codes, Reading, reach_of
from .methods import Pairwise, Sides, build_pair
from .questions import ClassSizes, LabelledRecords, decode_classes, encode_classes
from .result import Distance
from .sketches.questions import SummarizeRecords, read_integers
from .sketches.release_options import Private

# Reaches whose squares are so many times the median squared distance of two atoms. The short one
# has less noise, the long one cuts nothing off distances of several standard deviations.
_SHORT, _LONG = 4.0, 32.0
# Shares of the square of mu: of sizes, of features (none), and of the two distances. On
# tables of 300 records the short one decides, and the number of records is needed least precisely.
_SHARES = np.array([0.14, 1.0, 0.6, 0.26])
# What the long reach adds to the short one, as a factor of the power: mean and standard deviation
# before any data, and that of how it grows with the distance. On tables it is 1 to 2.
_FACTOR, _FACTOR_ERROR, _GROWTH_ERROR = 1.2, 0.4, 0.4
# Standard error of one factor for all holders: as a share of the power, and of what it adds to it.
_MISFIT, _ADDED_MISFIT = 0.03, 0.3
# Of the half interval to the value: more than this and the status says what would help.
_COARSE = 0.25


@dataclass(frozen=True)
class Target:
    """A public target: atoms, masses, and classes with their distances where labels count."""

    atoms: Array
    weights: Array
    classes: str
    codes: Codes
    table: Array

    @classmethod
    def of(cls, own: Answerer, labelled: bool) -> Target:
        """Read the measure of whoever asks."""
        classes = ""
        if labelled:
            answer = required({COORDINATOR: own.answer(ClassSizes())}, COORDINATOR)
            names = decode_classes(str(answer.scalars["classes"]))
            classes = encode_classes(names)
        answer = required({COORDINATOR: own.answer(LabelledRecords(classes=classes))}, COORDINATOR)
        atoms, weights = answer.array("points", ndim=2), answer.array("weights", ndim=1)
        codes = answer.arrays["codes"]
        table = np.zeros((0, 0))
        # Distances between classes are those of the asker's records: no holder's record moves them.
        if labelled:
            table = class_distances(atoms, weights, codes, len(decode_classes(classes)))
        return cls(atoms, weights / weights.sum(), classes, codes, table)


class PrivateDistance(Private, Pairwise):
    r"""Distance of a holder to the asker's data, from one release with noise.

    .. math:: W_p^{(t)}(X, Y), \qquad d_t(x, y) = \min(d(x, y), t)

    The holder computes the exact distance in two metrics that are cut at public reaches t, a short
    and a long one, and releases both with its number of records, with discrete Gaussian noise. One
    record can move them by a public amount, whatever the records are: nothing is clipped to a box.
    A cut metric is a metric, and its distance is never above the true one. What the short reach
    cuts off is estimated from the long one, of all holders together where there are several.

    Returns
    -------
    Protocol[Distance]
        ``interval`` is to hold 95 % of distances in the metric cut at the long reach. A record
        farther away than that counts as if it were there, so with heavy tails the distance of the
        records themselves may be larger: one record can move it by any amount, and noise hides
        what one record does. There are no certified bounds.

    Raises
    ------
    InputError
        Options out of range; no data of the asker's own.
    ExtraError
        ``silot[privacy]`` is not installed.

    Examples
    --------
    >>> import numpy as np
    >>> from silot import Measure
    >>> from silot.federation import LocalFederation, Own
    >>> rng = np.random.default_rng(0)
    >>> fed = LocalFederation({"a": rng.normal(size=(2000, 2)) + [3.0, 0.0]})
    >>> own = Own(Measure(rng.normal(size=(200, 2))))
    >>> found = fed.run(PrivateDistance(reach=20.0).between("a", own=own))
    >>> found.disclosure, 2.0 < found.value < 4.0
    ('private', True)
    """

    name = "private"
    disclosure = Disclosure.PRIVATE
    compares_holders = False
    sends = "its distance to the asker's records and its number of records, with noise"
    needs = (
        "the asker's own records, which every holder receives; at least 300 records "
        "at privacy_epsilon 1; one round; the extra silot[privacy]"
    )
    guarantees = (
        "an estimate with an interval for its noise, in a metric that is cut at a public distance"
    )
    privacy = (
        "(privacy_epsilon, privacy_delta)-differential privacy of each record, charged to the "
        "holder's ledger"
    )

    reach: float | None = option(
        "Distance at which the metric is cut, in units of the features. Default: two "
        "values computed from the asker's records.",
        none_or(number(above=0)),
        default=None,
    )

    def steps(self, sides: Sides) -> Steps[Distance]:
        holder = sides.names[0]
        if sides.own is None:
            raise InputError(
                "method 'private' compares a holder with your own data, not two holders with each "
                "other. Give your data first (`silot distance MINE HOLDER`) or as validation data "
                "(`silot value`), or compare holders with one another by method 'sketch'.",
                code="option-method",
            )
        target = Target.of(sides.own, self.embedding != "none")
        question = self.build_question(target)
        answers = yield {holder: question}
        noisy = read_integers(answers, holder, "summary", question.layout.size)
        scale = scale_for(question.sensitivity, self.mu)
        return self._read(question.layout.read(noisy, scale), (holder, COORDINATOR))

    def build_question(self, target: Target) -> SummarizeRecords:
        """Build the release that is requested from every holder."""
        own = (target.atoms, target.weights)
        # Both reaches follow from the asker's own records, so they disclose nothing of a holder.
        reaches = [self.reach] if self.reach else [reach_of(*own, k) for k in (_SHORT, _LONG)]
        if len(set(reaches)) < len(reaches):
            raise InputError(
                "the validation records are all equal, so they give no scale for the noise. "
                "Give records that differ, or method='target', which adds no noise.",
                code="public-constant",
            )
        return SummarizeRecords(
            privacy_mu=self.mu,
            mass_limit=self.limit,
            classes=target.classes,
            target=target.atoms,
            target_weights=target.weights,
            target_codes=target.codes if target.table.size else np.zeros(0, dtype=np.int64),
            table=target.table,
            reaches=np.array(reaches),
            p=self.p,
            shares=_SHARES[: 2 + len(reaches)],
        )

    def _read(self, reading: Reading, holders: tuple[str, str]) -> Distance:
        transports = reading.transports()
        short = transports[0]
        distance = Distance(
            value=short.value,
            lower=0.0,
            upper=math.inf,
            method=self.name,
            status="estimate with noise; a record farther away than "
            f"{transports[-1].reach:.4g} counts as that far",
            converged=True,
            holders=holders,
            p=self.p,
            seed=self.seed,
            interval=short.interval(),
            history=(
                {"records": reading.records, "records_noise": reading.records_noise},
                *({"power": one.power, "noise": one.noise} for one in transports),
            ),
        )
        distance = calibrate({"": distance})[""]
        low, high = distance.interval or (0.0, math.inf)
        need = self._describe_need(reading, distance.value, high - low)
        return replace(distance, status=distance.status + need)

    def _describe_need(self, reading: Reading, value: float, width: float) -> str:
        """Describe which epsilon or how many records would make the interval short enough."""
        if value == 0.0:
            return "; the noise hides the value: more records or a larger epsilon are needed"
        if width / 2.0 <= _COARSE * value:
            return ""
        # The noise of a mean falls with the records and with mu, which is nearly epsilon: both are
        # scaled by the same factor.
        factor = width / 2.0 / (_COARSE * value)
        return (
            f"; the interval is wider than {_COARSE:.0%} of the value: about "
            f"{math.ceil(reading.records * factor / 100) * 100:,.0f} records, or an epsilon of "
            f"{self.privacy_epsilon * factor:.2g}, would be enough"
        )


private = build_pair(PrivateDistance)


def calibrate(distances: Mapping[str, Distance]) -> dict[str, Distance]:
    r"""Correct the distances of holders for the cut of the short reach.

    The long reach cuts hardly anything off, but one holder's noise hides that. Over all holders
    the powers at the long reach are regressed on those at the short one, P,

    .. math:: b_1 P + b_2 P (P / \bar P - 1),

    by weighted least squares with a normal prior on both, and the fit is read at each holder's P.
    It comes only from releases, so it spends nothing.
    """
    if any(len(one.history) != 3 for one in distances.values()):
        # One reach, given by the caller: there is nothing to correct by.
        return dict(distances)
    # One row a holder: power and noise at the short reach, then at the long one.
    table = np.array([
        [one.history[1]["power"], one.history[1]["noise"], one.history[2]["power"],
         one.history[2]["noise"]] for one in distances.values()
    ])  # fmt: skip
    powers, noise, longer, longer_noise = np.maximum(table, np.finfo(float).tiny).T
    # In units of their mean the prior holds for data in any units. Where noise hides all powers,
    # its own size is the unit.
    mean = max(powers.mean(), noise.mean())
    relative = powers / mean
    design = np.stack([relative, relative * (relative - 1.0)], axis=1)
    prior = 1.0 / (np.array([_FACTOR_ERROR, _GROWTH_ERROR]) * mean) ** 2
    covariance = np.linalg.inv((design.T / longer_noise**2) @ design + np.diag(prior))
    evidence = design.T @ (longer / longer_noise**2) + prior * np.array([_FACTOR * mean, 0.0])
    fit = covariance @ evidence
    # Never below the power of the short reach, which cuts more.
    estimates = np.where(table[:, 0] > 0.0, np.maximum(design @ fit, powers), 0.0)
    # How an error of the short power moves the estimate, to first order.
    slopes = np.maximum((fit[0] + fit[1] * (2.0 * relative - 1.0)) / mean, 1.0)
    errors = np.sqrt(
        (slopes * noise) ** 2
        + ((design @ covariance) * design).sum(axis=1)
        + (_MISFIT * estimates) ** 2
        + (_ADDED_MISFIT * (estimates - powers)) ** 2
    )
    calibrated: dict[str, Distance] = {}
    for (name, one), power, error in zip(distances.items(), estimates, errors, strict=True):
        low, value, high = (
            float(max(power + k * 1.96 * error, 0.0)) ** (1.0 / one.p) for k in (-1, 0, 1)
        )
        calibrated[name] = replace(one, value=value, interval=(low, high))
    return calibrated
