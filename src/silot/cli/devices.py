"""``silot links`` and ``silot adapt``: devices, and what sending costs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..api._holders import Holders
from ..api.adapt import adapt
from ..data.container import stem_of
from ..data.documents import read_fields
from ..data.measure import Measure
from ..errors import FileError, InputError, SilotError
from ..federation.result import Array
from ..teaching.adapt import Adapt
from ..teaching.network import Network, as_rows
from ..teaching.result import Adaptation
from ..teaching.solve import Links, links
from .audit import read_shape
from .console import (
    check_archive,
    check_outputs,
    print_json,
    progress_bar,
    save_arrays,
    say_where,
    show_blocks,
    steps,
    write_report,
)
from .generate import Flags, argument, command, flag
from .options import ColumnsOption, LabelColumnOption, Outputs, Results, Tables
from .sites import Where

_TEST = ".test."
_FIELDS = ("rates_mbit", "power_dbm", "model_bits")
_NETWORKS = (".json", ".yml", ".yaml")
# Options of an adaptation that `silot links` does not offer, and those of a network.
_UNUSED = ("budget", "rule", "prior", "iterations")
_NETWORK_FIELDS = ("phi", "constants")
# Fields of an adaptation about its plan, and about models that `silot links` does not return.
_OMITTED = ("plan", "accuracies", "accuracy", "unevaluated", "rule")
_OBJECTIVE = "Of data files, as in adapt. Default: transfer, or bound with --method gp."


class DeviceFiles(Flags):
    """How the files of devices are read, and what sending costs them."""

    label_column: LabelColumnOption = None
    columns: ColumnsOption = None
    energy: Path | None = flag("File with rates_mbit, power_dbm and model_bits.", "--network")

    def adapt(
        self,
        where: Where,
        paths: Sequence[Path],
        tests: Mapping[str, Path],
        options: Mapping[str, Any],
        source: Path | None = None,
    ) -> Adaptation:
        """Run ``adapt`` over devices; ``tests`` are files of evaluation records by device."""
        options = dict(options)
        own = [] if source is None else [source]
        if "shape" in options:
            options["shape"] = read_shape(options["shape"])
        tables = Tables(label_column=self.label_column, columns=self.columns)
        if where.sites is not None:
            if source is None:
                where.refuse(label_column=self.label_column, columns=self.columns)
            else:
                options["source"] = next(iter(tables.load(own).values()))
            connection = where.connected(paths)
            return self._adapted(connection, connection.names, options)
        loaded = tables.load([*paths, *own], options.get("unlabelled", ""))
        marker = options["unlabelled"] if "unlabelled" in options else _marker(loaded)
        truth: dict[str, Measure] = {}
        for name, path in tests.items():
            read = replace(tables, labels=True).load([path], marker)
            truth[name] = next(iter(read.values()))
        options["unlabelled"] = marker
        if source is not None:
            options["source"] = loaded.pop(list(loaded)[-1])
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
            return adapt(devices, evaluation=truth, progress=progress, **{**numbers, **options})


class Releasing(Flags):
    """One release of each device with noise, and who trains in its place."""

    source: Path | None = flag(
        "Labelled records of your own that train, with --epsilon: devices send releases alone."
    )
    privacy_epsilon: float | None = flag("What the release of each device spends.", "--epsilon")
    privacy_delta: float | None = flag("Chance that it is exceeded. Default: 1e-5.")
    mass_limit: float | None = flag("Of weighted records: the largest weight, public.")
    ledgers: Path | None = flag("Folder of the devices' ledgers, which releases are charged to.")
    budget_epsilon: float | None = flag(
        "With --ledgers: epsilon of all releases in a ledger together. Default: 1."
    )


def evaluation_files(
    paths: Sequence[Path], folder: Path | None
) -> tuple[list[Path], dict[str, Path]]:
    """Return files of devices, and of their evaluation records by the name of the device.

    Those are files of the same names in a folder, or ``NAME.test.npz`` beside ``NAME.npz``.
    """
    devices = [path for path in paths if _TEST not in path.name]
    stems = list(map(stem_of, devices))
    evaluation: dict[str, Path] = {}
    for stem, path in zip(stems, devices, strict=True):
        begin, dot, end = path.name.partition(".")
        beside = path.with_name(f"{begin}.test{dot}{end}") if folder is None else folder / path.name
        if beside.is_file():
            evaluation[stem if stems.count(stem) == 1 else str(path)] = beside
    if folder is not None and not evaluation:
        raise FileError(
            f"{folder} has no file named as one of the devices'. Give evaluation records the "
            "names of the devices' own files.",
            code="file-missing",
        )
    return devices, evaluation


def energy_numbers(path: Path, names: Sequence[str]) -> dict[str, Any]:
    """Read the options of ``adapt`` about energy from a file."""
    body = read_fields(path)
    strange = sorted(set(body) - set(_FIELDS))
    if strange:
        raise InputError(
            f"{path.name}, {strange[0][:40]}: there is no such field. Fields are "
            f"{', '.join(_FIELDS)}.",
            code="network-unknown-field",
        )
    options: dict[str, Any] = {}
    if "rates_mbit" in body:
        options["rates"] = _rates(path, body["rates_mbit"], names)
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
            options["powers"] = {k: _number(path, "power_dbm", v) for k, v in powers.items()}
        else:
            options["powers"] = _number(path, "power_dbm", powers)
    if "model_bits" in body:
        options["model_bits"] = _number(path, "model_bits", body["model_bits"])
    return options


def _number(path: Path, name: str, value: Any) -> float:
    """Read a number; YAML reads 1.0e6 as text."""
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
    """Return the empty label, unless another one may stand for none as well."""
    labels = {name for measure in loaded.values() if measure.names is not None
              for name in np.unique(measure.names).tolist()}  # fmt: skip
    if "-1" in labels:
        raise InputError(
            "some records have the label -1, which may be a class or stand for none. Give "
            "--unlabelled=-1 if it stands for none, --unlabelled= if it is a class.",
            code="option-unlabelled",
        )
    return ""


@command("links", [Adapt], without=_UNUSED, help={"objective": _OBJECTIVE})
def links_command(
    network: list[Path] | None = argument(
        "A network (.json, .yml, .yaml), or a data file for each device; or sites, by default all.",
        default=None,
    ),
    *,
    where: Where,
    files: DeviceFiles,
    privacy_epsilon: float | None = flag(
        "Refused: links need models of the devices. See `silot adapt --source`.", "--epsilon"
    ),
    outputs: Results,
    **options: Any,
) -> None:
    """Which devices train, which receive, and over which links with which weights."""
    if privacy_epsilon is not None:
        raise InputError(
            "links are chosen by errors of models that devices train on their own labels, and one "
            "record may change such a model by any amount, so no noise covers it. Links from "
            "labelled records of your own: `silot adapt DEVICES --source FILE --epsilon E`. "
            "Distances between devices: `silot matrix DEVICES --method sketch --public FILE "
            "--epsilon E`.",
            code="option-privacy",
        )
    if where.sites is None and _is_network(network := where.named(network)):
        if (
            len(network) > 1
            or options.keys() - {*_NETWORK_FIELDS, *Links.options}
            or files != DeviceFiles()
        ):
            raise InputError(
                "a network file comes alone, and without options about data files.",
                code="option-network",
            )
        _of_network(network[0], options, outputs)
        return
    paths = (network or []) if where.sites else evaluation_files(network or [], None)[0]
    if len(paths) < 2 and not where.sites:
        raise InputError(
            f"{len(paths)} data file is given; give one for each device, two or more, or a network "
            "as .json, .yml or .yaml.",
            code="holder-names",
        )
    # Slow to import, and not needed for a network.
    from ..teaching.view import measured_sections

    objective = "transfer" if options.get("method", "exact") == "exact" else "bound"
    result = files.adapt(where, paths, {}, {"objective": objective, **options})
    write_report(outputs.report, result, title="Who can teach whom")
    if outputs.json:
        measured = {name: value for name, value in result.to_dict().items() if name not in _OMITTED}
        print_json({**result.plan.to_dict(), "measured": measured})
        return
    show_blocks(measured_sections(result, assumed=files.energy is None))
    say_where(report=outputs.report)


def _is_network(paths: list[Path]) -> bool:
    return any(path.suffix.lower() in _NETWORKS for path in paths)


def _of_network(path: Path, options: dict[str, Any], outputs: Results) -> None:
    """Plan the links of a network that a file describes."""
    own = {name: options.pop(name) for name in _NETWORK_FIELDS if name in options}
    network = Network.load(path).model_copy(update=own)
    costs = network.costs()
    with progress_bar("links") as bar:
        bar.add_task("links", total=None)
        plan = links(costs, **options)
    beside = {"costs": costs, "network": network}
    outputs.finish(plan, body=plan.to_dict(), page=beside, **beside)


@command("adapt", [Adapt])
def adapt_command(
    devices: list[Path] | None = argument(
        "Devices: tables or .npz, see --test too; or sites, by default all.",
        default=None,
    ),
    test: Path | None = flag(
        "Folder of evaluation records, in files named as the devices'. Default: NAME.test.npz"
        " beside NAME.npz."
    ),
    *,
    where: Where,
    files: DeviceFiles,
    releasing: Releasing,
    save: Path | None = flag("Save the trained models and the links to this .npz file."),
    outputs: Outputs,
    **options: Any,
) -> None:
    """Train where labels are, choose links, combine models at the targets, and evaluate them."""
    check_archive(save, "--save")
    where.refuse(test=test, ledgers=releasing.ledgers, budget_epsilon=releasing.budget_epsilon)
    paths, tests = (devices or [], {}) if where.sites else evaluation_files(devices or [], test)
    check_outputs(outputs.report, save, outputs.transcript, inputs=tests.values())
    source = releasing.source
    if len(paths) + (source is not None) < 2 and not where.sites:
        raise InputError(
            f"{len(paths)} device(s); give two files, or one with --source.", code="holder-names"
        )
    options |= releasing.values(source=None)
    result = files.adapt(where, paths, tests, options, source)
    if save is not None:
        _save_models(result, save)
    outputs.finish(result, then={"models": save}, assumed=files.energy is None)


def _save_models(result: Adaptation, path: Path) -> None:
    """Save models of all sources and weights of all links; texts and numbers only."""
    names = list(result.parameters)
    arrays: dict[str, Any] = {
        "devices": np.array(result.names),
        "classes": np.array(result.classes),
        "model": np.array(result.spec.to_text()),
        "rule": np.array(result.rule),
        "alpha": result.plan.alpha,
        "psi": result.plan.psi,
        "trained": np.array(names),
        "parameters": np.stack([result.parameters[name] for name in names]),
    }
    factors = _factors(result)
    if factors is not None:
        arrays["factors"] = factors
    if moved := {k: model.move for k, model in result.models.items() if model.move is not None}:
        same = np.outer([1.0, 0.0], np.ones(result.spec.inputs))
        arrays["moves"] = np.stack([moved.get(name, same) for name in result.names])
    save_arrays(path, arrays, private=True)


def _factors(result: Adaptation) -> Array | None:
    """Return the factors of class probabilities by link, (N, N, C), if a model has any."""
    plan = result.plan
    factors = np.ones((*plan.alpha.shape, len(result.classes)))
    adjusted = False
    for j, name in enumerate(plan.names):
        model = result.models.get(name)
        if model is not None and model.factors is not None:
            factors[plan.alpha[:, j] > 0, j] = model.factors
            adjusted = True
    return factors if adjusted else None
