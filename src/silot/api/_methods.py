"""The distance methods that users choose from, and how each is run on data the caller owns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from ..data.measure import Covariance, Measure
from ..distances.pairwise import check_asked
from ..distances.result import Distance
from ..errors import InputError
from ..federation.local import LocalFederation, Progress
from ..secure import run_secure
from ..secure.forecast import Forecast
from ..secure.method import Secure
from ..sketch.methods import METHODS, Pairwise, method_named
from ._holders import in_words
from .sketch import run_sketch_distance

__all__ = ["METHODS", "Pairwise", "Secure", "chosen", "method_named", "run_pair"]


def chosen(method: str | Pairwise, options: Mapping[str, Any]) -> tuple[str, dict[str, Any]]:
    """Name and options of a method that was given by name with options, or as one object."""
    if not isinstance(method, Pairwise):
        kind = method_named(method)
        if "embedding" in options:
            check_asked(kind, options)
        return kind.name, dict(options)
    if METHODS.get(method.name) is not type(method):
        raise InputError(
            f"method is an object of {type(method).__name__}, which has no name of its own. Give "
            "the class a name.",
            code="option-method",
        )
    if method.embedding != "none":
        raise InputError(
            "labels= and covariance= say what of labels is compared: leave embedding out of the "
            "method.",
            code="option-method",
        )
    if options:
        raise InputError(
            f"method is an object, and {next(iter(options))!r} is given beside it. Give options to "
            f"{type(method).__name__}(...), or the method by its name.",
            code="option-method",
        )
    return method.name, method.chosen()


def run_pair(
    name: str,
    measures: dict[str, Measure],
    *,
    labels: bool | str = False,
    covariance: Covariance = "diagonal",
    progress: Callable[[Progress], None] | None = None,
    tell: Callable[[Forecast], None] | None = None,
    **options: Any,
) -> Distance:
    """Distance of two measures that were checked, by a method by name.

    ``tell`` is called with the forecast of a secure computation, before it starts.
    """
    embedding = covariance if labels else "none"
    if name == "sketch":
        return run_sketch_distance(
            measures, labels=labels, covariance=covariance, progress=progress, **options
        )
    if name == "secure":
        sides = ({side: measure} for side, measure in measures.items())
        result = run_secure(*sides, embedding=embedding, progress=progress, tell=tell, **options)
    else:
        protocol = method_named(name).build(*measures, **options, embedding=embedding)
        result = LocalFederation(measures).run(protocol, progress=progress)
    return in_words(result, measures, labels)
