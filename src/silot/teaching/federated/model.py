"""Several models as one: by their outputs, or by their parameters."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any, Literal, Self, cast, get_args

import numpy as np
import numpy.typing as npt

from ...data.checkpoint import read_arrays, write_arrays
from ...data.foreign import parse_json
from ...data.measure import Measure
from ...distances.questions import encode_classes, encode_labels
from ...errors import FileError, InputError, MismatchError
from .registry import LOCAL, register
from .spec import Array, ModelSpec
from .training import InRound, personal, probabilities

Rule = Literal["output", "parameter"]
RULES: tuple[str, ...] = get_args(Rule)


def _check_weights(shares: Array, models: Array) -> None:
    if models.ndim != 2 or shares.shape != models.shape[:1] or len(models) == 0:
        raise MismatchError(
            f"parameters have shape {models.shape} and weights {shares.shape}; (S, P) and (S,) "
            "are needed.",
            code="combination-shape",
        )
    if not np.isfinite(shares).all() or (shares < 0).any() or abs(shares.sum() - 1.0) > 1e-6:
        raise InputError(
            "weights of models are negative, not finite, or do not sum to 1.",
            code="combination-weights",
        )


@dataclass(frozen=True, kw_only=True, eq=False)
class Model:
    r"""A model that is ready to predict: one that was trained, or a combination of several.

    .. math::
        h(x) = \sum_k \alpha_k h_k(x), \qquad
        h(x) = h\Big(x; \sum_k \alpha_k \theta_k\Big)

    for the rules ``"output"`` and ``"parameter"``.

    Attributes
    ----------
    spec
        The architecture.
    classes
        Names of the classes.
    parameters
        One model a row, shape (S, P).
    weights
        Shape (S,), zero or more, summing to 1. A model of weight 0 is not evaluated.
    rule
        ``"output"`` averages predictions; ``"parameter"`` predicts with the average of the
        parameters, as ST-LF does (its eq. 12), which needs models trained from one start.
    factors
        Shape (S, C): what each model's probabilities are multiplied by, class by class, before
        they are scaled to sum to 1 again and combined. The class proportions of the target over
        those a model was trained with adjust it to the target. Not for ``"parameter"``.
    move
        Shape (2, inputs): what columns are multiplied by, and what is added then, before models
        see them.

    Examples
    --------
    >>> spec = ModelSpec("logistic", (1,), 2)
    >>> two = {"parameters": np.array([[9.0, 0.0], [0.0, 0.0]]), "weights": np.full(2, 0.5)}
    >>> model = Model(spec=spec, classes=("low", "high"), **two)
    >>> model.predict_proba([[5.0]]).round(3), model.predict([[-5.0]]).tolist()
    (array([[0.25, 0.75]]), ['low'])
    """

    spec: ModelSpec
    classes: tuple[str, ...]
    parameters: Array
    weights: Array
    rule: Rule = "output"
    factors: Array | None = None
    move: Array | None = None

    def predict_proba(self, points: npt.ArrayLike) -> Array:
        """Compute the probability of every class for every record, (n, C); rows sum to 1.

        Raises
        ------
        InputError, MismatchError
            An unknown rule, weights that are not weights, arrays that do not fit together.
        ExtraError
            A cnn or a module, and torch is not installed.
        """
        if self.rule not in RULES:
            raise InputError(
                f"rule is {self.rule!r}; give one of {', '.join(RULES)}.", code="option-rule"
            )
        models, shares = self.parameters, self.weights
        _check_weights(shares, models)
        records = np.asarray(points, dtype=np.float64)
        if self.move is not None:
            scale, shift = _checked_move(self.move, self.spec)
            records = records * scale + shift
        if self.factors is not None:
            _check_factors(self.factors, self.rule, (len(models), self.spec.classes))
        if self.rule == "parameter":
            return probabilities(self.spec, shares @ models, records)
        used = np.flatnonzero(shares > 0)
        outputs = np.stack([probabilities(self.spec, models[k], records) for k in used])
        if self.factors is not None:
            outputs = outputs * self.factors[used, None]
            outputs /= outputs.sum(axis=2, keepdims=True)
        return np.einsum("k,knc->nc", shares[used], outputs)

    def predict(self, points: npt.ArrayLike) -> npt.NDArray[np.str_]:
        """Predict the most probable class of every record, by name, (n,)."""
        return np.array(self.classes)[self.predict_proba(points).argmax(axis=1)]

    def accuracy(self, records: Measure) -> float:
        """Compute the share of labelled records whose class is predicted.

        Raises
        ------
        InputError
            ``labels-absent``: records without labels.
        """
        if records.names is None:
            raise InputError("the records have no labels.", code="labels-absent")
        return float((self.predict(records.points) == records.names).mean())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model to an ``.npz`` file of numbers and text, for its owner's eyes only.

        A module of your own is not in it, and its parameters are: give it to ``load``.
        """
        save_models(path, {"": self})

    @classmethod
    def load(
        cls,
        path: str | os.PathLike[str],
        name: str | None = None,
        *,
        module: Any = None,
        records: Measure | None = None,
    ) -> Self:
        """Read a model that ``save`` wrote, of a model or of a result.

        Parameters
        ----------
        path
            The file. Nothing in it is run.
        name
            The holder whose model it is, where the file has several.
        module
            The module or estimator, where it is of your own.
        records
            Labelled records of the holder, where its model ends in a head that was not shared.

        Raises
        ------
        FileError
            ``file-unreadable``: the file is missing, damaged, or no model.
        InputError
            ``model-name``: no such model; the message names those of the file. ``model-module``:
            a module is needed. ``model-head``: records are needed.
        """
        document, arrays = read_arrays(path, _ARRAY, _DOCUMENT)
        try:
            place = _place(name, document["names"])
            spec, head = _spec_of(document["model"], module), document["head"]
            classes, shares = tuple(document["classes"]), arrays["weights"][place]
            own = cls(
                spec=spec, classes=classes, parameters=arrays["parameters"], weights=shares,
                rule=document["rule"], factors=_row(arrays, "factors", place),
                move=_row(arrays, "move", place),
            )  # fmt: skip
            how = None if head is None else InRound(**head)
        except (KeyError, IndexError, TypeError):
            raise FileError(
                "the file lacks a part of a model. Give a file that silot saved.",
                code="file-unreadable",
            ) from None
        if how is None:
            return own
        if records is None:
            raise InputError(
                "the last layer of this model stays with its holder. Give labelled records "
                "of the holder (records) to fit the layer to.",
                code="model-head",
            )
        body = arrays["parameters"][int(shares.argmax())]
        return cls.with_head(spec, classes, body, how, records)

    @classmethod
    def with_head(
        cls, spec: ModelSpec, classes: tuple[str, ...], body: Array, how: InRound, records: Measure
    ) -> Self:
        """Fit a head to labelled records, and return it with the body that is shared."""
        points, codes = labelled_records(records, spec, classes)
        complete = personal(spec, body, spec.scaled(points), codes, how)
        return cls.of(spec, classes, complete)

    @classmethod
    def of(cls, spec: ModelSpec, classes: tuple[str, ...], parameters: Array) -> Self:
        """Return the model of one vector of parameters."""
        return cls(spec=spec, classes=classes, parameters=parameters[None], weights=np.ones(1))


_DOCUMENT, _ARRAY = "model", "array."


def save_models(
    path: str | os.PathLike[str], models: Mapping[str, Model], head: InRound | None = None
) -> None:
    """Write models of one architecture by name; parameters that several share are written once.

    With ``head`` they lack the last layer, which is fitted as it says.
    """
    first = next(iter(models.values()))
    rows: dict[bytes, int] = {}
    parameters: list[Array] = []
    for model in models.values():
        for row in model.parameters:
            if rows.setdefault(row.tobytes(), len(rows)) == len(parameters):
                parameters.append(row)
    weights = np.zeros((len(models), len(rows)))
    places = [[rows[row.tobytes()] for row in model.parameters] for model in models.values()]
    arrays: dict[str, Array] = {"parameters": np.stack(parameters), "weights": weights}
    for k, model in enumerate(models.values()):
        np.add.at(weights[k], places[k], model.weights)
    if any(model.factors is not None for model in models.values()):
        arrays["factors"] = np.ones((len(models), len(rows), first.spec.classes))
        for k, model in enumerate(models.values()):
            if model.factors is not None:
                arrays["factors"][k, places[k]] = model.factors
    if any(model.move is not None for model in models.values()):
        still = np.stack([np.ones(first.spec.inputs), np.zeros(first.spec.inputs)])
        arrays["move"] = np.stack([
            still if model.move is None else model.move for model in models.values()
        ])  # fmt: skip
    # One model alone is the same by both rules.
    rule = max((model.rule for model in models.values()), key=RULES.index)
    document = {
        "names": list(models), "model": first.spec.to_text(), "classes": list(first.classes),
        "rule": rule, "head": None if head is None else asdict(head),
    }  # fmt: skip
    write_arrays(path, arrays, _ARRAY, _DOCUMENT, document)


def _place(name: str | None, names: list[str]) -> int:
    if name is None and len(names) == 1:
        return 0
    if name not in names:
        listed = ", ".join(map(repr, names[:20]))
        what = "models of several holders" if name is None else f"no model {name!r}"
        raise InputError(f"the file has {what}; name one of {listed}.", code="model-name")
    return names.index(name)


def _spec_of(text: str, module: Any) -> ModelSpec:
    """Read a description; of a module of the user's the module must be at hand."""

    def fail(why: str) -> FileError:
        return FileError(
            f"the file does not say what model it is ({why}). Give a file that silot saved.",
            code="file-unreadable",
        )

    fields = cast("dict[str, Any]", parse_json(text, fail))
    if str(fields.get("kind")).startswith(LOCAL):
        if module is None:
            name = str(fields["kind"]).split(":")[1]
            raise InputError(
                f"this is a {name} of your own, and the file has its parameters alone. Give one "
                "of the same layers (module).",
                code="model-module",
            )
        fields["kind"], fields["settings"] = register(module)
    return ModelSpec.from_text(json.dumps(fields))


def _row(arrays: Mapping[str, Any], name: str, place: int) -> Array | None:
    return arrays[name][place] if name in arrays else None


def labelled_records(
    records: Measure, spec: ModelSpec, classes: tuple[str, ...]
) -> tuple[Array, npt.NDArray[np.int64]]:
    """Return the records of these classes, and their codes."""
    points = records.points
    if points.shape[1] != spec.inputs:
        raise MismatchError(
            f"records have {points.shape[1]} features and the model takes {spec.inputs}.",
            code="dimension-mismatch",
        )
    if records.names is None:
        raise InputError("the records have no labels.", code="labels-absent")
    codes, _, _ = encode_labels(records.names, encode_classes(list(classes)), len(points))
    used = (codes < len(classes)) & (records.weights > 0)
    if not used.any():
        raise InputError("no record has a label of a known class.", code="labels-absent")
    return points[used], codes[used]


def _check_factors(factors: Array, rule: str, shape: tuple[int, int]) -> None:
    if factors.shape != shape or not np.isfinite(factors).all() or (factors <= 0).any():
        raise InputError(
            f"factors have shape {factors.shape}; {shape} positive numbers are needed.",
            code="combination-factors",
        )
    if rule == "parameter":
        raise InputError(
            "factors apply to the outputs of each model. Use another rule than 'parameter'.",
            code="combination-factors",
        )


def _checked_move(move: npt.ArrayLike, spec: ModelSpec) -> Array:
    values = np.asarray(move, dtype=np.float64)
    if values.shape != (2, spec.inputs) or not np.isfinite(values).all():
        raise InputError(
            f"move has shape {values.shape}; {(2, spec.inputs)} finite numbers are needed.",
            code="combination-move",
        )
    return values
