"""``silot distance``, ``silot matrix`` and ``silot pooled``."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from .._holders import in_words
from ..api import distance_matrix, pooled_distance
from ..api_sketch import run_sketch_distance
from ..errors import MismatchError
from ..federation.local import LocalFederation
from ..measure import Measure
from ..protocols.registry import method_named
from ..results import Distance
from ..secure import run_secure
from .console import (
    OUT,
    check_figure,
    progress_bar,
    save_figure,
    save_transcript,
    say_where,
    show,
    steps,
    tell_forecast,
    write_report,
)
from .options import (
    AccuracyOption,
    BudgetOption,
    ColumnsOption,
    Covariance,
    CovarianceOption,
    DeltaOption,
    DiameterOption,
    EpsilonOption,
    JsonOption,
    LabelColumnOption,
    LabelsOption,
    LedgersOption,
    MassOption,
    PublicOption,
    ReportOption,
    RoundsOption,
    SecureScaleOption,
    SeedOption,
    SupportOption,
    TranscriptOption,
    TwoPartyOption,
    WeightColumnOption,
    WhyOption,
    check_outputs,
    given,
    load_holders,
    sketch_options,
)


class MethodName(StrEnum):
    """Distance methods."""

    direct = "direct"
    fedwad = "fedwad"
    trianglewad = "trianglewad"
    sketch = "sketch"
    secure = "secure"


class Interpolation(StrEnum):
    """Form of the interpolating measures."""

    auto = "auto"
    exact = "exact"
    barycentric = "barycentric"


class Shares(StrEnum):
    """What a seller counts for in a union."""

    records = "records"
    weights = "weights"


MethodOption = Annotated[MethodName, typer.Option("--method", "-m", help="See `silot methods`.")]
OrderOption = Annotated[int, typer.Option("--p", min=1, max=2, help="Order of the distance.")]
TOption = Annotated[
    str | None,
    typer.Option("--t", help="Interpolation parameter, 0 to 1; for fedwad, or 'uniform'."),
]
InterpolationOption = Annotated[
    Interpolation, typer.Option(help="Form of the interpolating measures.")
]
MeanOption = Annotated[float | None, typer.Option(help="Mean of the drawn reference.")]
ScaleOption = Annotated[float | None, typer.Option(help="Spread of the drawn reference.")]


def register(app: typer.Typer) -> None:
    """Add the commands of this file."""
    app.command("distance")(distance_command)
    app.command("matrix")(matrix_command)
    app.command("pooled")(pooled_command)


def distance_command(
    a: Annotated[Path, typer.Argument(help="A holder: .npz, .csv, .csv.gz or .parquet.")],
    b: Annotated[Path, typer.Argument(help="Another holder.")],
    method: MethodOption = MethodName.direct,
    labels: LabelsOption = False,
    covariance: CovarianceOption = Covariance.diagonal,
    label_column: LabelColumnOption = None,
    weight_column: WeightColumnOption = None,
    columns: ColumnsOption = None,
    support: SupportOption = None,
    rounds: RoundsOption = None,
    p: OrderOption = 2,
    t: TOption = None,
    interpolation: InterpolationOption = Interpolation.auto,
    reference_mean: MeanOption = None,
    reference_scale: ScaleOption = None,
    public: PublicOption = None,
    privacy_epsilon: EpsilonOption = None,
    privacy_delta: DeltaOption = None,
    mass_limit: MassOption = None,
    ledgers: LedgersOption = None,
    budget: BudgetOption = None,
    scale: SecureScaleOption = None,
    two_party: TwoPartyOption = None,
    diameter: DiameterOption = None,
    accuracy: AccuracyOption = None,
    seed: SeedOption = 0,
    why: WhyOption = False,
    report: ReportOption = None,
    transcript: TranscriptOption = None,
    json: JsonOption = False,
) -> None:
    """Distance between two holders, with bounds, bill and disclosure."""
    check_outputs(transcript, report)
    holders = load_holders([a, b], label_column, weight_column, columns, labels)
    options = _options(support, rounds, t, interpolation, reference_mean, reference_scale)
    options |= sketch_options(
        public, privacy_epsilon, privacy_delta, mass_limit, ledgers, budget, label_column, columns
    )
    chosen = None if accuracy is None else accuracy.value
    options |= given(scale=scale, two_party=two_party, diameter=diameter, accuracy=chosen)
    options |= given(why=why or None)
    first, second = holders
    if method is MethodName.secure:
        _check_dimensions(holders)
        embedding = covariance.value if labels else "none"
        sides = {first: holders[first]}, {second: holders[second]}
        with steps("secure") as progress:
            result = run_secure(
                *sides,
                embedding=embedding,
                p=p,
                progress=progress,
                tell=None if json else tell_forecast,
                **options,
            )
        result = in_words(result, holders, labels)
        save_transcript(result, transcript)
        _show(result, report, json)
        return
    if method is MethodName.sketch:
        _check_dimensions(holders)
        with steps("sketch") as progress:
            result = run_sketch_distance(
                holders,
                labels=labels,
                covariance=covariance.value,
                p=p,
                seed=seed,
                progress=progress,
                **options,
            )
        save_transcript(result, transcript)
        _show(result, report, json)
        return
    protocol = method_named(method).protocol(
        first, second, p=p, seed=seed, embedding=str(covariance) if labels else "none", **options
    )
    result = in_words(_run(holders, protocol), holders, labels)
    save_transcript(result, transcript)
    _show(result, report, json)


def matrix_command(
    holders: Annotated[list[Path], typer.Argument(help="Two or more holders.")],
    method: MethodOption = MethodName.direct,
    labels: LabelsOption = False,
    covariance: CovarianceOption = Covariance.diagonal,
    label_column: LabelColumnOption = None,
    weight_column: WeightColumnOption = None,
    columns: ColumnsOption = None,
    support: SupportOption = None,
    rounds: RoundsOption = None,
    p: OrderOption = 2,
    t: TOption = None,
    interpolation: InterpolationOption = Interpolation.auto,
    reference_mean: MeanOption = None,
    reference_scale: ScaleOption = None,
    public: PublicOption = None,
    privacy_epsilon: EpsilonOption = None,
    privacy_delta: DeltaOption = None,
    mass_limit: MassOption = None,
    ledgers: LedgersOption = None,
    budget: BudgetOption = None,
    seed: SeedOption = 0,
    plot: Annotated[Path | None, typer.Option(help="Draw a heat map to this file.")] = None,
    report: ReportOption = None,
    json: JsonOption = False,
) -> None:
    """Distances between all pairs of holders."""
    if plot is not None:
        check_figure(plot)
    check_outputs(report)
    loaded = load_holders(holders, label_column, weight_column, columns, labels)
    options = _options(support, rounds, t, interpolation, reference_mean, reference_scale)
    options |= sketch_options(
        public, privacy_epsilon, privacy_delta, mass_limit, ledgers, budget, label_column, columns
    )
    with progress_bar(f"{method}") as bar:
        task = bar.add_task("pairs", total=len(loaded) * (len(loaded) - 1) // 2)
        result = distance_matrix(
            loaded,
            method=method,
            labels=labels,
            covariance=covariance.value,
            progress=lambda done, _: bar.update(task, completed=done),
            p=p,
            seed=seed,
            **options,
        )
    if plot is not None:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(6, 5), layout="constrained")
        result.plot(figure.add_subplot())
        save_figure(figure, plot)
    write_report(report, result)
    if json:
        typer.echo(result.to_json())
        return
    show(result)
    if plot is not None:
        OUT.print(f"heat map in {plot}", highlight=False)
    say_where(report=report)


def pooled_command(
    sellers: Annotated[list[Path], typer.Argument(help="Holders whose union is measured.")],
    buyer: Annotated[Path, typer.Option(help="The coordinator's own data.")],
    hidden: Annotated[bool, typer.Option("--hidden", help="Keep t from the sellers.")] = False,
    labels: LabelsOption = False,
    covariance: CovarianceOption = Covariance.diagonal,
    label_column: LabelColumnOption = None,
    weight_column: WeightColumnOption = None,
    columns: ColumnsOption = None,
    shares: Annotated[
        Shares, typer.Option(help="What a seller counts for: its records, or their weights' sum.")
    ] = Shares.records,
    support: SupportOption = None,
    p: OrderOption = 2,
    t: TOption = None,
    interpolation: InterpolationOption = Interpolation.auto,
    reference_mean: MeanOption = None,
    reference_scale: ScaleOption = None,
    seed: SeedOption = 0,
    report: ReportOption = None,
    transcript: TranscriptOption = None,
    json: JsonOption = False,
) -> None:
    """Distance between the union of sellers and a buyer (TriangleWad)."""
    check_outputs(transcript, report)
    loaded = load_holders([*sellers, buyer], label_column, weight_column, columns, labels)
    own = loaded.pop(list(loaded)[-1])
    options = _options(support, None, t, interpolation, reference_mean, reference_scale)
    with steps("pooled") as progress:
        result = pooled_distance(
            loaded,
            own,
            shares=shares.value,
            hidden=hidden,
            labels=labels,
            covariance=covariance.value,
            p=p,
            seed=seed,
            progress=progress,
            **options,
        )
    save_transcript(result, transcript)
    _show(result, report, json)


def _options(
    support: int | None,
    rounds: int | None,
    t: str | None,
    interpolation: Interpolation,
    reference_mean: float | None,
    reference_scale: float | None,
) -> dict[str, Any]:
    """The options that were given; each method refuses those it does not take."""
    given = {
        "support": support,
        "rounds": rounds,
        "t": _number(t),
        "interpolation": None if interpolation is Interpolation.auto else interpolation.value,
        "reference_mean": reference_mean,
        "reference_scale": reference_scale,
    }
    return {name: value for name, value in given.items() if value is not None}


def _number(text: str | None) -> float | str | None:
    """A number where the text is one; what else it may be, the method says."""
    try:
        return text if text is None else float(text)
    except ValueError:
        return text


def _check_dimensions(holders: dict[str, Measure]) -> None:
    first, second = holders.values()
    if first.dimension != second.dimension:
        # Before any question is sent; the protocol would find out in its first round.
        raise MismatchError(
            f"{' and '.join(holders)} have {first.dimension} and {second.dimension} features. "
            "Give both the same features in the same order.",
            code="dimension-mismatch",
        )


def _run(holders: dict[str, Measure], protocol: Any) -> Distance:
    _check_dimensions(holders)
    with steps(protocol.name) as progress:
        return LocalFederation(holders).run(protocol, progress=progress)


def _show(result: Distance, report: Path | None, json: bool) -> None:
    write_report(report, result)
    if json:
        typer.echo(result.to_json())
        return
    show(result)
    say_where(report=report)
