"""Options of differentially private releases, and what is public about them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt

from ...data.measure import Measure
from ...errors import InputError
from ...options import Options, anything, count, none_or, number, option
from ...privacy.accounting import mu_of
from ...privacy.cells import FEWEST_CELLS, MOST_CELLS, draw_sample, public_law, public_points
from ...privacy.sketch import Array
from ..shared_options import seed_option

Public = Measure | npt.ArrayLike


class Private(Options):
    """Options of what one record may change in the answers of holders."""

    privacy_epsilon: float = option(
        "Privacy budget of each holder. It limits what one record may change in this run.",
        number(),
        default=1.0,
        code="option-privacy",
    )
    privacy_delta: float = option(
        "Probability that the privacy budget is exceeded.",
        number(),
        default=1e-5,
        code="option-privacy",
    )
    mass_limit: float | None = option(
        "For weighted records: the largest weight of a record, which is public. A "
        "record of weight w counts as ``min(w, mass_limit) / mass_limit`` of one.",
        none_or(number(above=0)),
        default=None,
    )

    def fit(self) -> None:
        _ = self.mu

    @property
    def limit(self) -> float:
        """The largest weight, 0 where records have none."""
        # Zero stands for records without weights on the wire, where there is no ``None``.
        return self.mass_limit or 0.0

    @property
    def mu(self) -> float:
        """The budget as mu."""
        # Budgets are Gaussian inside (Dong, Roth and Su, 2022): mu composes by squares without
        # loss, which epsilon and delta do not.
        return mu_of(self.privacy_epsilon, self.privacy_delta)


class Releasing(Private):
    """Options of the release of a sketch."""

    public: Public | None = option(
        "Public records (m, d) that belong to no holder and are distributed as the "
        "holders' records: 400 or more; from 100, distances have intervals. With "
        "labels a ``Measure`` whose classes are public.",
        anything("records (m, d), or None"),
        default=None,
    )
    public_mean: npt.ArrayLike | None = option(
        "Instead of public records: public mean of every feature; mean or scale must "
        "be a vector. Cells then follow a normal distribution, or are squares of a "
        "quadtree for two features, up to four standard deviations in each "
        "direction. Errors are larger, and distances have no interval.",
        anything("numbers, or None"),
        default=None,
    )
    public_scale: npt.ArrayLike | None = option(
        "Public standard deviation of every feature, with ``public_mean``.",
        anything("numbers, or None"),
        default=None,
    )
    classes: Sequence[object] | None = option(
        "Public class names. Default: those of ``public``. Records of all other "
        "classes count as one class.",
        anything("names, or None"),
        default=None,
    )
    size: int | None = option(
        "Number of records of the smallest holder, if it is public. Otherwise 2 % of "
        "the budget is spent to estimate it.",
        none_or(count()),
        default=None,
    )
    cells: int | None = option(
        "Number of cells in which records are counted. At most a third of the number of public "
        "records. Default: ``nu / 6``, from 8 to 128 and at most an eighth of the public records, "
        "where nu is the number of records times the spent ``mu``.",
        none_or(count(2, 4096)),
        default=None,
    )
    seed: int = seed_option(
        "Seed of the public cells, and of the simulations that estimate distances."
    )

    def fit(self) -> None:
        _ = self.sample
        super().fit()

    @cached_property
    def sample(self) -> Array:
        """Public records, or a draw from the public distribution."""
        if self.public is None:
            # The same cells for all holders: they follow from public numbers and the seed alone.
            return draw_sample(self.public_mean, self.public_scale, self.seed)
        if self.public_mean is not None or self.public_scale is not None:
            raise InputError(
                "public= has mean and scale already. Leave public_mean and public_scale out.",
                code="option-public",
            )
        return read_public_points(self.public)


# Sizes a sketch comes in. Few of them: a noisy count moves the size less often, and the question
# with it, which a ledger would charge again.
_SIZES = (8, 11, 16, 22, 32, 45, 64, 90, 128)


def find_public_box(
    public: Public | None, mean: npt.ArrayLike | None, scale: npt.ArrayLike | None
) -> tuple[Array, Array] | None:
    """Find the corners of the box of a quadtree: for two features without a sample."""
    if public is not None or mean is None or scale is None:
        return None
    middle, spread = public_law(mean, scale)
    # Four standard deviations hold all but about one in ten thousand normal records.
    return (middle - 4.0 * spread, middle + 4.0 * spread) if len(middle) == 2 else None


def read_public_points(public: Public) -> Array:
    """Read the public records (m, d), and refuse too few."""
    return public_points(public.points if isinstance(public, Measure) else public)


def read_class_names(public: Public | None) -> npt.NDArray[np.str_] | None:
    """Read the labels of public records, where they have any."""
    return public.names if isinstance(public, Measure) else None


def read_public_classes(public: Public | None, classes: Sequence[object] | None) -> tuple[str, ...]:
    """Read the public class names; those of a holder would disclose which classes it has."""
    if classes is not None:
        # By the rule of measures: 3, 3.0 and "3" are one.
        labels: npt.NDArray[Any] = np.asarray(classes)
        named = Measure(np.zeros((len(labels), 1)), labels=labels).names
    else:
        named = read_class_names(public)
    if named is None:
        raise InputError(
            "labels need public classes. Give classes=[...], or a labelled Measure as public.",
            code="sketch-classes",
        )
    # Sorted: codes of classes must not depend on how the public records are listed.
    return tuple(sorted(set(named.tolist())))


def count_cells(public: int, records: int | None, mu: float) -> int:
    """Choose the number of cells from those of public records and of records in a sketch."""
    # Centres of few public records each are off by chance, and holders in different cells
    # then seem further apart: eight a cell, where three would do.
    most = float(np.clip(public // 8, FEWEST_CELLS, MOST_CELLS))
    # About six units of noise a cell, so that a count of average size stands out of its noise.
    wanted = min(max((records or 0) * mu / 6.0, FEWEST_CELLS), most)
    return max(size for size in _SIZES if size <= wanted)
