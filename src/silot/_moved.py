"""Names that modules had before the wings: they lead to where things live now, until 1.0."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_MODULES = {
    "adaptation": "teaching",
    "demo": "data.demo",
    "documents": "data.documents",
    "federation.combinations": "teaching.questions.combinations",
    "federation.distances": "distances.questions.distances",
    "federation.divergences": "teaching.questions.divergences",
    "federation.hypotheses": "teaching.questions.models",
    "federation.labelled": "distances.questions.labelled",
    "federation.parting": "distances.questions.parts",
    "federation.predictions": "distillation.questions",
    "federation.reference": "distances.reference",
    "federation.screening": "records.questions.scores",
    "federation.sketching": "sketch.questions",
    "federation.suspects": "records.questions.suspects",
    "federation.teacher": "distillation.teacher",
    "federation.uncertainty": "distances.questions.uncertainty",
    "loading": "data.loading",
    "measure": "data.measure",
    "protocols.adapt": "teaching.adapt",
    "protocols.contributions": "value.contributions",
    "protocols.direct": "distances.direct",
    "protocols.distill": "distillation.asking",
    "protocols.divergences": "teaching.divergences",
    "protocols.fedbary": "value.fedbary",
    "protocols.fedwad": "distances.fedwad",
    "protocols.gradients": "records.gradients",
    "protocols.pooled": "distances.pooled",
    "protocols.records": "records.validation",
    "protocols.sketch": "sketch.sketch",
    "protocols.suspects": "records.suspects",
    "protocols.trianglewad": "distances.trianglewad",
    "screening": "records",
    "tables": "data.tables",
    "valuation": "value",
}
"""Modules and packages that moved, and what is in them."""

_WINGS = ("distances", "value", "sketch", "records", "teaching", "distillation", "audits")
_NAMES = {
    "federation": (
        *(f"{wing}.questions" for wing in ("distances", "sketch", "records", "teaching")),
        "distillation.questions",
        "distillation.teacher",
    ),
    "protocols": (*_WINGS, "distillation.asking"),
    "results": ("federation", *_WINGS, "distillation.result", "render.words"),
}
"""Packages whose names moved to others."""


def elsewhere(package: str, name: str) -> Any:
    """What a package once had by a name, or ``None``."""
    house, _, room = package.partition(".")
    for other in _NAMES.get(room, ()):
        module = import_module(f"{house}.{other}")
        if name in vars(module).get("__all__", vars(module)):
            _warn(f"{package}.{name}", f"{module.__name__}.{name}")
            return getattr(module, name)
    return None


class _Emptied(ModuleType):
    """A package that is no more: its names are elsewhere."""

    def __getattr__(self, name: str) -> Any:
        value = None if name.startswith("__") else elsewhere(self.__name__, name)
        if value is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        return value


class _Finder(MetaPathFinder, Loader):
    """Finds modules by their old names, where nothing else does."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        house, _, old = fullname.partition(".")
        if house == __package__ and (old in _NAMES or _new_name(old)):
            return ModuleSpec(fullname, self, is_package=old in _NAMES)
        return None

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        house, _, old = module.__name__.partition(".")
        if old in _NAMES:
            module.__class__ = _Emptied
            return
        name = f"{house}.{_new_name(old)}"
        _warn(module.__name__, name)
        sys.modules[module.__name__] = import_module(name)


def _new_name(old: str) -> str:
    """Where a module is now; what is in a package that moved, moved with it."""
    for name, new in _MODULES.items():
        if old == name or old.startswith(f"{name}."):
            return new + old[len(name) :]
    return ""


def _warn(old: str, new: str) -> None:
    warnings.warn(f"{old} is now {new}", DeprecationWarning, stacklevel=4)


sys.meta_path.append(_Finder())
