"""What ``distill`` does around a run: teachers, noise, test sets, and what was asked before."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, cast

import numpy as np
import numpy.typing as npt

from silot_transport._check import whole

from ..data.measure import Measure
from ..data.preflight import Preflight
from ..distillation import LabelSpace
from ..distillation._coding import LabelCodes, ambiguous
from ..distillation.checkpoint import fingerprint, folder, load, save
from ..distillation.questions import Inputs, digest_of, inputs_of
from ..distillation.result import Predictions
from ..distillation.teacher import Teacher
from ..distillation.text import PAIR, Vocabulary, noise, noise_vectors
from ..errors import FileError, InputError, MismatchError
from ..federation.local import Endpoint, LocalFederation
from ..federation.policy import Policy
from ..federation.protocol import COORDINATOR, Protocol
from ..privacy.ledger import Ledger

Test = tuple[Any, npt.ArrayLike | LabelCodes]

FILE = "predictions.npz"
"""Name of the predictions in the folder of checkpoints."""

_NOISE = 2000
_BILL = ("rounds", "bytes_sent", "bytes_received", "seconds", "privacy_mu", "disclosure")


def parties(teachers: Any, inputs: Inputs | None, timeout: float | None, asker: str) -> Any:
    """A federation of the teachers given, or the one that was."""
    if hasattr(teachers, "run") and hasattr(teachers, "names"):
        if timeout is not None:
            raise InputError(
                "the federation has a timeout of its own. Leave timeout out.",
                code="option-timeout",
            )
        if asker != COORDINATOR:
            raise InputError(
                "the federation asks in a name of its own. Leave asker out.", code="asker-name"
            )
        return teachers
    if isinstance(teachers, Mapping):
        named = dict(cast("Mapping[str, Any]", teachers))
    elif isinstance(teachers, Sequence) and not isinstance(teachers, str):
        named = {str(k): each for k, each in enumerate(teachers)}
    else:
        raise InputError(
            "teachers are neither a mapping, a sequence nor a federation.", code="holder-names"
        )
    return LocalFederation(
        {name: _party(each, inputs) for name, each in named.items()},
        timeout=timeout,
        asker=asker,
    )


def _party(teacher: Any, inputs: Inputs | None) -> Endpoint:
    if isinstance(teacher, Endpoint):
        return teacher
    from torch import nn

    from ..distillation import module_predict

    if isinstance(teacher, nn.Module):
        teacher = partial(module_predict, teacher)
    # The caller owns it: everything is allowed, and nothing remembers the run.
    return Teacher(teacher, policy=Policy.open(), ledger=Ledger(), inputs=inputs)


def check_module(model: Any) -> None:
    """Raise for what is no torch module."""
    from torch import nn

    if not isinstance(model, nn.Module):
        raise InputError(
            f"the global model is a {type(model).__name__}; a torch.nn.Module that answers a "
            "batch with logits is needed.",
            code="model-kind",
        )


def identity_of(teacher: Any) -> Any:
    """What can be told of a teacher: parameters of modules, rules, and of functions nothing."""
    from torch import nn

    from ..distillation.parameters import parameters_of

    if isinstance(teacher, nn.Module):
        return [repr(teacher), fingerprint(**parameters_of(teacher))]
    if isinstance(teacher, Teacher):
        predict, rules = teacher.rules()
        return [identity_of(predict), rules]
    if isinstance(teacher, partial):
        return [identity_of(each) for each in teacher.args]
    if isinstance(teacher, list | tuple):
        return [identity_of(each) for each in cast("Sequence[Any]", teacher)]
    if isinstance(teacher, Mapping):
        named = cast("Mapping[str, Any]", teacher)
        return {str(name): identity_of(named[name]) for name in named}
    return ""


def noise_of(given: Any, inputs: Inputs, seed: int) -> Inputs:
    """The noise given, or so much of it made from what the transfer set shows."""
    if given is not None and not isinstance(given, bool | int | float | np.number):
        return inputs_of(given)
    count = whole(_NOISE if given is None else given, "noise", "option-noise")
    if isinstance(inputs, np.ndarray):
        mean, scale = inputs.mean(axis=0), inputs.std(axis=0)
        return noise_vectors(count, inputs.shape[1], mean=mean, scale=scale, seed=seed)
    pairs = all(PAIR in text for text in inputs)
    return noise(Vocabulary.build(inputs), count, seed=seed, parts=2 if pairs else 1)


def check_tests(
    test: Mapping[str, Test] | Test | None, space: LabelSpace
) -> dict[str, tuple[Inputs, LabelCodes]]:
    """Test sets by name, with codes of their labels."""
    if test is None:
        return {}
    named = test if isinstance(test, Mapping) else {"test": test}
    found: dict[str, tuple[Inputs, LabelCodes]] = {}
    for name, pair in named.items():
        if not isinstance(pair, tuple) or len(pair) != 2:
            raise InputError(
                f"test set {name!r} is no pair of inputs and labels.", code="test-labels"
            )
        inputs, codes = inputs_of(pair[0]), _codes(name, pair[1], space)
        if len(inputs) != len(codes):
            raise MismatchError(
                f"test set {name!r} has {len(inputs)} inputs and {len(codes)} labels.",
                code="test-labels",
            )
        found[str(name)] = (inputs, codes)
    return found


def _codes(name: str, labels: npt.ArrayLike | LabelCodes, space: LabelSpace) -> LabelCodes:
    if isinstance(labels, LabelCodes):
        return space.codes(labels)
    given = np.asarray(labels)
    if given.dtype.kind not in "Uiuf" or given.ndim != 1:
        raise InputError(
            f"the labels of test set {name!r} are neither names nor codes.", code="test-labels"
        )
    known: list[Any] = given.tolist()
    # A class that the test set lacks must not decide which of the two is meant.
    if given.dtype.kind != "U" and ambiguous(known, space.names):
        raise InputError(
            f"the labels of test set {name!r} are numbers that may be names of labels or their "
            "places, which differ. Give names as texts, or labels.coded(numbers) for places.",
            code="test-labels",
        )
    try:
        return space.codes(known)
    except MismatchError as error:
        raise MismatchError(f"test set {name!r}: {error.message}", code="test-labels") from None


def looked_at(
    inputs: Inputs,
    tests: Mapping[str, tuple[Inputs, LabelCodes]],
    teachers: Sequence[str],
) -> Preflight | None:
    """What was seen of the vectors that the caller has; texts have no columns to look at."""
    every = {
        "transfer set": inputs,
        **{f"test set {name}": each for name, (each, _) in tests.items()},
    }
    vectors = {name: Measure(x, copy=False) for name, x in every.items()
               if isinstance(x, np.ndarray)}  # fmt: skip
    return Preflight.of(vectors, teachers) if vectors else None


def asked(
    federation: Any,
    protocol: Protocol[Predictions],
    inputs: Inputs,
    unmeant: Inputs | None,
    space: LabelSpace,
    checkpoint: str | Path | None,
    progress: Any,
    rules: Mapping[str, Any],
) -> Predictions:
    """What teachers predict: from the folder of checkpoints, or from asking them.

    ``rules`` are what else the predictions kept depend on.
    """
    if checkpoint is None:
        return federation.run(protocol, progress=progress)
    place = folder(checkpoint) / FILE
    mark = fingerprint(
        inputs=digest_of(inputs),
        noise="" if unmeant is None else digest_of(unmeant),
        labels=list(space.names),
        teachers=sorted(protocol.holders),
        questions=dict(protocol.parameters),
        rules=dict(rules),
    )
    known = load(place, "predictions", mark)
    if known is not None:
        return _read(place, *known)
    found: Predictions = federation.run(protocol, progress=progress)
    arrays = {"outputs": found.outputs}
    if found.biases is not None:
        arrays["biases"] = found.biases
    values = {
        "names": list(found.names),
        "sizes": dict(found.sizes),
        "noise": dict(found.noise),
        "excluded": dict(found.excluded),
        "status": found.status,
        "bill": {name: getattr(found, name) for name in _BILL},
    }
    save(place, "predictions", mark, values, arrays)
    return found


def _read(place: Path, values: dict[str, Any], arrays: dict[str, npt.NDArray[Any]]) -> Predictions:
    try:
        return Predictions(
            names=tuple(values["names"]),
            outputs=arrays["outputs"],
            biases=arrays.get("biases"),
            sizes=values["sizes"],
            noise=values["noise"],
            excluded=values["excluded"],
            status=values["status"],
            **{name: values["bill"][name] for name in _BILL},
        )
    except (KeyError, TypeError) as error:
        raise FileError(
            f"{place} is no record of predictions ({type(error).__name__}). Remove it to begin "
            "anew.",
            code="checkpoint-broken",
        ) from None
