"""Devices from data files: their records, what sending costs them, and one run over them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

from ..api._holders import Holders
from ..api.adapt import adapt
from ..data.documents import read_fields
from ..data.measure import Measure
from ..errors import FileError, InputError, SilotError
from ..teaching.adapt import Adapt
from ..teaching.network import as_rows
from ..teaching.result import Adaptation
from .audit import shape_of
from .console import steps
from .generate import Flags
from .options import ColumnsOption, LabelColumnOption, Tables
from .sites import Where

_TEST = ".test."
_FIELDS = ("rates_mbit", "power_dbm", "model_bits")


@dataclass(frozen=True, kw_only=True)
class DeviceFiles(Flags):
    """How the files of devices are read, and what sending costs them."""

    label_column: LabelColumnOption = None
    columns: ColumnsOption = None
    energy: Annotated[
        Path | None,
        typer.Option("--network", help="File with rates_mbit, power_dbm and model_bits."),
    ] = None

    def adapt(
        self,
        where: Where,
        paths: Sequence[Path],
        tests: Mapping[str, Path],
        options: Mapping[str, Any],
    ) -> Adaptation:
        """Run ``adapt`` over devices; ``tests`` are files of evaluation records by device."""
        options = dict(options)
        if "shape" in options:
            options["shape"] = shape_of(options["shape"])
        if where.sites is not None:
            where.refuse(label_column=self.label_column, columns=self.columns)
            there = where.connected(paths)
            return self._adapted(there, there.names, options)
        tables = Tables(label_column=self.label_column, columns=self.columns)
        loaded = tables.load(paths, options.get("unlabelled", ""))
        marker = options["unlabelled"] if "unlabelled" in options else _marker(loaded)
        truth: dict[str, Measure] = {}
        for name, path in tests.items():
            read = replace(tables, labels=True).load([path], marker)
            truth[name] = next(iter(read.values()))
        options["unlabelled"] = marker
        return self._adapted(loaded, list(loaded), options, truth)

    def _adapted(
        self,
        devices: Holders,
        names: Sequence[str],
        options: Mapping[str, Any],
        truth: Mapping[str, Measure] | None = None,
    ) -> Adaptation:
        numbers = {} if self.energy is None else energy_numbers(self.energy, names)
        with steps("adapt") as progress:
            chosen: dict[str, Any] = {**numbers, **options}
            return adapt(devices, Adapt(**chosen), evaluation=truth, progress=progress)


def evaluation_files(
    paths: Sequence[Path], folder: Path | None
) -> tuple[list[Path], dict[str, Path]]:
    """Files of devices, and of their evaluation records by the name of the device.

    Those are files of the same names in a folder, or ``NAME.test.npz`` beside ``NAME.npz``.
    """
    devices = [path for path in paths if _TEST not in path.name]
    stems = [path.name.split(".")[0] for path in devices]
    found: dict[str, Path] = {}
    for stem, path in zip(stems, devices, strict=True):
        end = path.name.removeprefix(stem)
        beside = path.with_name(f"{stem}.test{end}") if folder is None else folder / path.name
        if beside.is_file():
            found[stem if stems.count(stem) == 1 else str(path)] = beside
    if folder is not None and not found:
        raise FileError(
            f"{folder} has no file named as one of the devices'. Give evaluation records the "
            "names of the devices' own files.",
            code="file-missing",
        )
    return devices, found


def energy_numbers(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Options of ``adapt`` about energy, from a file."""
    body = read_fields(path)
    strange = sorted(set(body) - set(_FIELDS))
    if strange:
        raise InputError(
            f"{path.name}, {strange[0][:40]}: there is no such field. Fields are "
            f"{', '.join(_FIELDS)}.",
            code="network-unknown-field",
        )
    found: dict[str, Any] = {}
    if "rates_mbit" in body:
        found["rates"] = _rates(path, body["rates_mbit"], names)
    if "power_dbm" in body:
        powers = body["power_dbm"]
        if isinstance(powers, dict):
            strange = sorted(set(map(str, powers)) ^ set(names))
            if strange:
                raise InputError(
                    f"{path.name}, power_dbm: a number, or one for each device by name; "
                    f"{strange[0][:40]!r} is not in both lists.",
                    code="network-field",
                )
            found["powers"] = {k: _number(path, "power_dbm", v) for k, v in powers.items()}
        else:
            found["powers"] = _number(path, "power_dbm", powers)
    if "model_bits" in body:
        found["model_bits"] = _number(path, "model_bits", body["model_bits"])
    return found


def _number(path: Path, name: str, value: Any) -> float:
    """A number; YAML reads 1.0e6 as text."""
    try:
        if not isinstance(value, bool):
            return float(value)
    except (OverflowError, TypeError, ValueError):
        pass
    raise InputError(f"{path.name}, {name}: a number is needed.", code="network-field") from None


def _rates(path: Path, value: Any, names: Sequence[str]) -> Any:
    try:
        rates = np.array(as_rows(value, "rates_mbit", names), dtype=np.float64)
    except SilotError as error:
        raise type(error)(f"{path.name}: {error.message}", code=error.code) from None
    except (OverflowError, TypeError, ValueError):
        rates = np.array(np.nan)
    if np.isnan(rates).any():
        raise InputError(f"{path.name}, rates_mbit: numbers are needed.", code="network-field")
    return rates


def _marker(loaded: Mapping[str, Measure]) -> str:
    """The empty label, unless another one may stand for none as well."""
    labels = {name for measure in loaded.values() if measure.names is not None
              for name in np.unique(measure.names).tolist()}  # fmt: skip
    if "-1" in labels:
        raise InputError(
            "some records have the label -1, which may be a class or stand for none. Give "
            "--unlabelled=-1 if it stands for none, --unlabelled= if it is a class.",
            code="option-unlabelled",
        )
    return ""
