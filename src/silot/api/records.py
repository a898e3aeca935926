"""Score how suspect the records of a holder are."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Unpack

from ..data.measure import Data
from ..federation.party import Own
from ..federation.run import Federation, Progress, Runtime
from ..options import check_known, taking
from ..records.gradients import RecordGradients
from ..records.result import RecordScores
from ..records.validation import RecordScreening
from ._holders import MINE, Parties, check_method, read_measure, with_columns

if TYPE_CHECKING:
    from ..keywords import RecordKeywords


@taking(RecordScreening, also=(RecordGradients,))
def value_records(
    holder: Data | Federation | Runtime,
    validation: Data | Own,
    *,
    labels: bool | str = False,
    method: str = "screening",
    seed: int = 0,
    name: str = "holder",
    progress: Callable[[Progress], None] | None = None,
    **options: Unpack[RecordKeywords],
) -> RecordScores:
    """Score how likely each record of a holder is faulty, compared with validation data.

    Parameters
    ----------
    holder
        Data (as for ``distance``) whose records are scored, or a federation (as for
        ``distance_matrix``) whose holder ``name`` they are.
    validation
        Trusted data of the distribution the holder's should have: 50 records or more. Give one
        ``Own(data)`` for several holders: models are then fitted once.
    labels
        Whether labels may be wrong too; for data frames the name of their column.
    method
        ``"screening"``: models of the validation data. ``"published"``: the calibrated gradients
        of FedBary and TriangleWad, with labels as OTDD vectors, which find far less.
    seed
        Of all that is random.
    name
        What to call the holder, or its name in a federation.
    progress
        Called after every exchange.
    **options
        For ``"published"`` ``t``, ``support`` and ``covariance``.

    Returns
    -------
    RecordScores
        ``scores`` (n,), higher means more suspect; ``flagged`` (n,); ``suspects()``: why.

    Raises
    ------
    InputError, MismatchError
        As ``barycenter``; ``validation-few`` where validation records are too few for the level.

    Examples
    --------
    >>> import numpy as np
    >>> x = np.random.default_rng(0).normal(size=(120, 3))
    >>> x[7] = [9.0, -9.0, 9.0]
    >>> int(value_records(x[:60], x[60:]).worst[0])
    7
    """
    check_method(method, "screening", "published")
    column = labels if isinstance(labels, str) else None
    data = validation.measure if isinstance(validation, Own) else validation
    trusted = read_measure(MINE, data, column)
    held = holder if isinstance(holder, Federation | Runtime) else {name: holder}
    parties = Parties.of(held, labels, trusted)
    own = parties.trusted
    if isinstance(validation, Own) and own.measure is validation.measure:
        # What was fitted for another holder is kept by the party.
        own = validation
    kind = RecordScreening if method == "screening" else RecordGradients
    own_options = check_known(kind, options, f"value_records by method {method!r}")
    protocol = kind(labels=bool(labels), seed=seed, **own_options).at(name, own)
    result = parties.run(protocol, progress)
    return with_columns(result, own.measure, *parties.measures.values())
