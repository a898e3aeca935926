"""What the models of sources would do at targets, from mean features: options and questions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from silot_transport._check import whole

from ..distances.questions.labelled import encode_classes
from ..federation.answer import Answer, Array
from ..federation.protocol import Questions, Steps
from ..options import Check, none_or, number, option
from .federated import ModelSpec
from .federated.devices import Devices, Trained, ask_each
from .federated.features import effective_columns
from .federated.modelling import Labelled
from .matching import Matching, match
from .means import Means, read_means
from .questions.divergences import MeanFeatures
from .questions.models import ClassFeatures
from .training import LEAST

# Fewest numbers of the records behind each number told, by which features are chosen.
_NUMBERS = 5
_FEWEST_FEATURES = 2


def _even(value: Any, name: str, code: str) -> int:
    features = whole(value, name, code, least=2, most=1 << 16)
    return features - 1 if features % 2 else features


class Features(Labelled):
    """How errors at targets are estimated from mean features."""

    features: int = option(
        "Of the matching: most random features.",
        Check(_even, int, f"int, 2 or more, at most {1 << 16}"),
        default=512,
        flag=False,
    )
    bandwidth: float | None = option(
        "Bandwidth of their kernel, by default half of the root mean squared distance of two "
        "records of a device.",
        none_or(number(above=0)),
        default=None,
        flag=False,
    )

    def ask_features(
        self,
        devices: Devices,
        spec: ModelSpec,
        trained: Mapping[str, Trained],
        classes: tuple[str, ...],
    ) -> Steps[dict[str, Means]]:
        """Mean features of all devices, of sources by class too."""
        scale = np.atleast_1d(spec.scale)
        variances = [
            devices.columns[name][1] / scale**2 for name in devices.names if name in devices.columns
        ]
        if not variances:
            variances = [
                np.full(item.dimension, item.variance / item.dimension) / scale**2
                for item in devices.counted.values()
            ]
        bandwidth = self.bandwidth
        if bandwidth is None:
            # A device's records are this far apart, root mean squared.
            bandwidth = 0.5 * float(np.mean([2.0 * each.sum() for each in variances])) ** 0.5 or 1.0
        if len(scale) == 1:
            bandwidth, scale = bandwidth * float(scale[0]), np.zeros(0)
        question = ClassFeatures(
            classes=encode_classes(list(classes)),
            unlabelled=self.unlabelled,
            least=LEAST,
            features=self._how_many(devices, variances),
            bandwidth=bandwidth,
            seed=self.seed,
            scale=scale,
        )
        # A target's mean is all that is needed of it, and that is no more than an aggregate.
        alone = MeanFeatures(
            features=question.features,
            bandwidth=bandwidth,
            seed=self.seed,
            least=LEAST,
            scale=scale,
        )
        questions: Questions = {k: question if k in trained else alone for k in devices.names}

        def read(name: str, answer: Answer) -> Means:
            known = name in trained
            return read_means(answer, len(classes), question.features, by_class=known)

        means, failed = yield from ask_each(questions, read)
        devices.drop(failed)
        return means

    def _how_many(self, devices: Devices, variances: list[Array]) -> int:
        """Features that small classes can tell the mean of, without telling their records."""
        items = list(devices.counted.values())
        sizes = [size for item in items for size in item.counts.values() if size >= _NUMBERS]
        if not sizes:
            return self.features
        # A column counts as the part it has in the variance, as it does for the holder.
        columns = min(map(effective_columns, variances))
        held = columns * min(item.records for item in items)
        usual = min(float(np.quantile(sizes, 0.25)) * items[0].dimension, held) / _NUMBERS
        return min(self.features, max(_FEWEST_FEATURES, 2 * int(usual / 2)))

    def match(
        self,
        devices: Devices,
        told: Mapping[str, Means],
        trained: Mapping[str, Trained],
        classes: tuple[str, ...],
    ) -> Matching:
        """Class proportions of all devices, and errors to be expected there."""
        names = devices.names
        sources = np.array([name in trained for name in names])
        errors = np.ones((len(names), len(classes)))
        for j, name in enumerate(names):
            if name in trained:
                errors[j] = trained[name].class_errors
        counts = np.where(sources[:, None], np.stack([told[name].counts for name in names]), 0)
        labelled = np.stack([devices.counted[name].by_class(classes) for name in names])
        return match(
            np.stack([told[name].mean for name in names]),
            np.stack([told[name].by_class for name in names]),
            counts,
            errors,
            # Two answers of one device need not agree.
            labelled=np.maximum(np.where(sources[:, None], labelled, 0), counts),
            records=[devices.counted[name].records for name in names],
        )
