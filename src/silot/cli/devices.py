"""``silot train links`` and ``silot train adapt``: devices, and what sending costs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from ..api.adapt import adapt
from ..data.loading import read_shape
from ..data.measure import Measure
from ..errors import InputError
from ..federation.holder_files import find_evaluation
from ..federation.parties import Holders
from ..teaching.adapt import Adapt
from ..teaching.exact import Links, links
from ..teaching.network import Energy, Network
from ..teaching.result import Adaptation
from .console import (
    ARRAYS,
    check_outputs,
    print_json,
    progress_bar,
    say_where,
    show_blocks,
    steps,
    write_report,
)
from .generate import Flags, argument, command, flag
from .options import (
    Charged,
    ColumnsOption,
    LabelColumnOption,
    Noise,
    Outputs,
    Results,
    Tables,
)
from .sites import Where

_NETWORKS = (".json", ".yml", ".yaml")
# Options of an adaptation that `silot train links` does not offer, and those of a network.
_UNUSED = ("budget", "rule", "prior", "iterations")
_NETWORK_FIELDS = ("phi", "constants")
# Fields of an adaptation about its plan, and about models that `silot train links` does not return.
_OMITTED = ("plan", "accuracies", "accuracy", "unevaluated", "rule")
_OBJECTIVE = "With data files: what to minimise. Default: transfer, or bound with --method gp."


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
                options["source"] = tables.files.load_one(source)
            connection = where.connected(paths)
            return self._adapted(connection, connection.names, options)
        loaded = tables.files.load([*paths, *own], options.get("unlabelled", ""))
        marker = options["unlabelled"] if "unlabelled" in options else _marker(loaded)
        truth: dict[str, Measure] = {}
        for name, path in tests.items():
            read = replace(tables, labels=True).files.load([path], marker)
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
        numbers = {} if self.energy is None else Energy.load(self.energy, names).options
        with steps("adapt") as progress:
            return adapt(devices, evaluation=truth, progress=progress, **{**numbers, **options})


class Releasing(Charged, Noise):
    """One release of each device with noise, and who trains in its place."""

    source: Path | None = flag(
        "Your own labelled records to train on, with --epsilon: devices then send "
        "only private releases."
    )


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


@command([Adapt], without=_UNUSED, help={"objective": _OBJECTIVE})
def links_command(
    network: list[Path] | None = argument(
        "A network (.json, .yml, .yaml), or a data file for each device; or sites, by default all.",
        default=None,
    ),
    *,
    where: Where,
    files: DeviceFiles,
    privacy_epsilon: float | None = flag(
        "Refused: links need models of the devices. See `silot train adapt --source`.", "--epsilon"
    ),
    outputs: Results,
    **options: Any,
) -> None:
    """Choose which devices train, which receive models, over which links and weights."""
    if privacy_epsilon is not None:
        raise InputError(
            "links are chosen by errors of models that devices train on their own labels, and one "
            "record may change such a model by any amount, so no noise covers it. Links from "
            "labelled records of your own: `silot train adapt DEVICES --source FILE --epsilon E`. "
            "Distances between devices: `silot distance matrix DEVICES --method sketch "
            "--public FILE --epsilon E`.",
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
    paths = (network or []) if where.sites else find_evaluation(network or [], None)[0]
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
        print_json({**result.plan.body, "measured": measured})
        return
    show_blocks(measured_sections(result, assumed=files.energy is None))
    say_where(report=outputs.report)


def _is_network(paths: list[Path]) -> bool:
    return any(path.suffix.lower() in _NETWORKS for path in paths)


def _of_network(path: Path, options: dict[str, Any], outputs: Results) -> None:
    own = {name: options.pop(name) for name in _NETWORK_FIELDS if name in options}
    network = Network.load(path).model_copy(update=own)
    costs = network.costs()
    with progress_bar("links") as bar:
        bar.add_task("links", total=None)
        plan = links(costs, **options)
    beside = {"costs": costs, "network": network}
    outputs.finish(plan, body=plan.body, page=beside, **beside)


@command([Adapt])
def adapt_command(
    devices: list[Path] | None = argument(
        "Tables or .npz files, one for each device; with --sites names of sites.",
        default=None,
    ),
    test: Path | None = flag(
        "Folder of evaluation records, named as the data files. Default: NAME.test.npz"
        " beside NAME.npz."
    ),
    *,
    where: Where,
    files: DeviceFiles,
    releasing: Releasing,
    save: Path | None = flag(
        "Save the models of all devices to this .npz file: `silot.teaching.federated.Model.load`.",
        endings=ARRAYS,
    ),
    outputs: Outputs,
    **options: Any,
) -> None:
    """Train models where labels are, combine them at devices without labels, and evaluate."""
    where.refuse(test=test, ledgers=releasing.ledgers, budget_epsilon=releasing.budget_epsilon)
    paths, tests = (devices or [], {}) if where.sites else find_evaluation(devices or [], test)
    check_outputs(outputs.report, save, outputs.transcript, inputs=tests.values())
    source = releasing.source
    if len(paths) + (source is not None) < 2 and not where.sites:
        raise InputError(
            f"{len(paths)} device(s); give two files, or one with --source.", code="holder-names"
        )
    options |= releasing.values(source=None)
    result = files.adapt(where, paths, tests, options, source)
    if save is not None:
        result.save(save)
    outputs.finish(result, then={"models": save}, assumed=files.energy is None)
