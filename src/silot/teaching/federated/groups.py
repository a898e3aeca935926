"""How holders are grouped, and groups of a number that a user chose."""

from __future__ import annotations

import warnings
from typing import Literal

import numpy as np
import numpy.typing as npt

from ...distances.shared_options import seed_option
from ...errors import InputError
from ...options import Options, count, option, share, word, word_or

Array = npt.NDArray[np.float64]
Codes = npt.NDArray[np.int64]

Affinity = Literal["rescaled", "neighbours"]


class Grouping(Options):
    """How holders are grouped."""

    name = "cluster"

    k: int | Literal["auto"] = option(
        "Number of groups, which spectral clustering of the distances makes; or ``auto``: as many "
        "as tests between holders tell apart.",
        word_or("auto", count()),
        default="auto",
        code="option-clusters",
    )
    level: float = option(
        "With ``auto``: false-alarm rate of the test of groups.",
        share(),
        default=0.05,
    )
    affinity: Affinity = option(
        "What spectral clustering is given. ``rescaled``: distances turned into similarities from "
        "0 to 1; ``neighbours``: a graph of the nearest holders.",
        word("rescaled", "neighbours"),
        default="rescaled",
    )
    neighbours: int = option(
        "Nearest holders in the graph, each holder itself among them.", count(2), default=3
    )
    seed: int = seed_option("Seed of everything random.")

    def check_size(self, holders: int) -> None:
        """Raise where more groups are asked for than there are holders."""
        if self.k != "auto" and self.k > holders:
            raise InputError(
                f"k is {self.k} for {holders} holders. Give a number from 1 to {holders}, or "
                "'auto'.",
                code="option-clusters",
            )


def spectral(distances: Array, k: int, options: Grouping) -> Codes:
    """Spectral clustering into at most ``k`` groups, numbered by their first members.

    ``rescaled`` takes ``1 - distances / max(distances)`` for the affinity, ``neighbours`` the
    binary graph of nearest holders.
    """
    size = len(distances)
    if k == 1:
        return np.zeros(size, dtype=np.int64)
    if k == size:
        return np.arange(size)
    # Slow to import.
    from sklearn.cluster import SpectralClustering

    if options.affinity == "rescaled":
        largest = float(distances.max())
        kind, matrix = "precomputed", 1.0 - distances / (largest if largest > 0 else 1.0)
    else:
        kind, matrix = "precomputed_nearest_neighbors", distances
    with warnings.catch_warnings():
        # Groups that nothing joins are what is looked for.
        warnings.filterwarnings("ignore", message="Graph is not fully connected")
        codes = SpectralClustering(
            k, affinity=kind, n_neighbors=min(options.neighbours, size), assign_labels="cluster_qr",
            random_state=0,
        ).fit_predict(matrix)  # fmt: skip
    return numbered(np.asarray(codes, dtype=np.int64))


def numbered(codes: Codes) -> Codes:
    """Groups by other numbers: 0 is that of the first holder, and so on."""
    order = {int(code): k for k, code in enumerate(dict.fromkeys(codes.tolist()))}
    return np.array([order[int(code)] for code in codes], dtype=np.int64)
