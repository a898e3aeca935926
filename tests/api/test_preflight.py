"""Every result of tables says what was seen of them, and nothing of it travels."""

import contextlib
import dataclasses
import importlib
import pkgutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pytest

import silot
from silot.api import report
from silot.data.preflight import Preflight
from silot.distances import direct
from silot.distances.sketches.result import Combined
from silot.federation import LocalFederation
from silot.federation.run import run
from silot.render import terminal
from silot.render.shown import Shown
from tests.lazily import package

from ..data.test_preflight import NAMES, ward

pl = package("polars")

Frames: TypeAlias = "dict[str, pl.DataFrame]"


def frames(*, mixed: bool) -> Frames:
    """Three wards, of which one may have its glucose in mmol/L."""
    tables = {name: ward(k, 90) for k, name in enumerate(("north", "south", "west"))}
    if mixed:
        tables["west"][:, 1] /= 18.016
    return {
        name: pl.DataFrame(x, schema=NAMES).with_columns(
            ill=pl.Series(x[:, 3] > 130).cast(pl.String)
        )
        for name, x in tables.items()
    }


PUBLIC = pl.DataFrame(ward(7, 1500), schema=NAMES)
VALIDATION = pl.DataFrame(ward(9, 90), schema=NAMES).with_columns(ill=pl.lit("true"))


def without(holders: Frames) -> Frames:
    return {name: each.drop("ill") for name, each in holders.items()}


CALLS: dict[str, Callable[[Frames], Any]] = {
    "distance": lambda each: silot.distance(each["north"].drop("ill"), each["west"].drop("ill")),
    "matrix": lambda each: silot.distance_matrix(without(each)),
    "clustering": lambda each: silot.cluster(without(each)),
    "pooled": lambda each: silot.pooled_distance(without(each), VALIDATION.drop("ill")),
    "worth": lambda each: silot.value_holders(without(each), VALIDATION.drop("ill")),
    "map": lambda each: silot.value_holders(without(each), VALIDATION.drop("ill"), map="direct"),
    "compare": lambda each: silot.compare(
        # Frames are read by a drafted schema, which says what their columns are.
        {name: silot.Measure(frame) for name, frame in without(each).items()},
        silot.Measure(VALIDATION.drop("ill")),
    ),
    "barycenter": lambda each: silot.barycenter(without(each), support=4, rounds=2),
    "coreset": lambda each: silot.coreset(without(each), size=4, rounds=2),
    "records": lambda each: silot.value_records(
        each["west"].drop("ill"), VALIDATION.drop("ill"), name="west"
    ),
    "adaptation": lambda each: silot.adapt(each, labels="ill", model="logistic"),
    "training": lambda each: silot.train(each, labels="ill", model="logistic", rounds=1),
    "sketches": lambda each: sketched(each),
    "distance of sketches": lambda each: sketched(each).distance("north", "west"),
    "matrix of sketches": lambda each: sketched(each).matrix(),
    "barycenter of sketches": lambda each: sketched(each).barycenter(support=4, rounds=2),
    "worth by sketches": lambda each: sketched(each).values(map=True),
    "counts": lambda each: counted(each),
    "screened": lambda each: counted(each).screen(each["west"].drop("ill"), name="west"),
}


def sketched(each: Frames) -> Any:
    return silot.api.sketches(without(each), public=PUBLIC, privacy_epsilon=6.0)


def counted(each: Frames) -> Any:
    return silot.count_broken(without(each), public=PUBLIC, privacy_epsilon=4.0)


# Results that say nothing of columns, and why.
SILENT = {
    "Draft": "it is of columns: what is odd about them is all it says",
    "SchemaCheck": "it is of columns read by a schema",
    "LinkPlan": "it is solved from costs; `Adaptation` has the run that measured them",
    "ReleaseFile": "a site's file, which others read: what its columns look like is not released",
    "Drift": "it is of one site's releases, and its `sketches` say that nobody looked",
    "DomainChange": "it is of columns on one scale, and finds those in another",
    "Shift": "it is of columns on one scale, and names those to blame",
    "Audit": "it is of a transcript: what messages give away, whatever the numbers mean",
    "PolicyAudit": "the same of a policy",
    "Collected": "records at the coordinator; the distances between them have it",
    "Predictions": "what teachers answered, which `Distillation` is made of",
}
COMPUTED = {
    "Distance", "DistanceMatrix", "Contributions", "Barycenter", "RecordScores", "Adaptation",
    "Sketches", "BrokenCounts", "Distillation", "Combined", "Divergences", "Coreset",
    "Clustering", "FederatedModels", "SiteComparison", "Gathered",
}  # fmt: skip


def test_no_kind_of_result_lacks_it_without_a_reason() -> None:
    kinds: set[type] = set()
    for module in pkgutil.walk_packages(silot.__path__, "silot."):
        with contextlib.suppress(ImportError):  # what an extra brings may be missing here
            importlib.import_module(module.name)

    def below(kind: type) -> None:
        for each in kind.__subclasses__():
            kinds.add(each)
            below(each)

    below(Shown)
    names = {each.__name__ for each in kinds if each.__module__.startswith("silot.")} - {
        "RunResult",
        "Preflighted",
        "Reported",
    }
    assert names == COMPUTED | set(SILENT)
    for each in kinds:
        if each.__name__ in COMPUTED:
            fields = {item.name for item in dataclasses.fields(each)}
            assert "preflight" in fields or isinstance(vars(each).get("preflight"), property)


def test_every_run_says_whom_nobody_looked_at_unless_somebody_does() -> None:
    result = run(direct("north", "west"), {"north": [[0.0]], "west": [[1.0]]})
    assert result.preflight == Preflight.of({}, ("north", "west"))
    assert "The columns of north and west stay there" in report.render(result).replace(
        "<bdi>", ""
    ).replace("</bdi>", "")


def test_a_distilled_model_says_what_its_vectors_look_like() -> None:
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    x = ward(1, 90)
    x[:4, 3] = -999.0
    space = silot.distillation.LabelSpace([0.0, 1.0], names=["low", "high"])
    result = silot.distill(
        torch.nn.Linear(4, 2),
        {"north": lambda inputs: np.eye(2)[(inputs[:, 1] > 105).astype(int)]},
        x, labels=space, epochs=1,
    )  # fmt: skip
    assert [each.column for each in result.preflight.flags] == ["column 3"]
    assert result.preflight.unseen == ("north",)
    assert "check 'column 3'" in result.status
    assert result.status.count("preflight") == 1
    page = report.render(result)
    assert "The data without a schema" in page
    assert "silot did not check them" in page


@pytest.mark.slow
def test_combined_releases_say_that_nobody_looked_at_the_sites(tmp_path: Path) -> None:
    each = frames(mixed=True)
    files = [
        silot.release(
            silot.Measure(each[name].drop("ill")), tmp_path / f"{name}.release", name=name,
            ledger=tmp_path / f"{name}.ledger", public=silot.Measure(PUBLIC),
        )
        for name in each
    ]  # fmt: skip
    paths = [tmp_path / file.file for file in files]
    result = silot.combine(paths, silot.Measure(PUBLIC), silot.Measure(VALIDATION.drop("ill")))
    assert result.preflight is not None
    assert result.preflight.unseen == tuple(each)
    assert result.values().preflight == result.preflight
    assert "silot did not check them" in report.render(Combined.of(result, None))


def test_looking_again_says_it_once() -> None:
    result = CALLS["distance"](frames(mixed=True))
    assert result.with_preflight(result.preflight).status == result.status
    assert "preflight" not in result.with_preflight(None).status


@pytest.mark.heavy
@pytest.mark.parametrize("name", CALLS)
def test_every_result_and_page_says_what_is_odd_and_of_whom(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    result = CALLS[name](frames(mixed=True))
    flag = result.preflight.flags[0]
    assert {each.column for each in result.preflight.flags} == {"glucose"}
    # The two sides of a distance are called x and y.
    assert ("'y'" if name == "distance" else "'west'") in flag.sentence
    assert result.to_dict()["preflight"]["flags"][0]["sentence"] == flag.sentence
    assert "check 'glucose'" in result.status
    page = report.render(result)
    assert "The data without a schema" in page
    assert page.index("as between mmol/L and mg/dL of glucose") < page.index("<table")
    assert "The bounds prove" not in page
    terminal.show(terminal.Console(width=80), result.sections())
    shown = capsys.readouterr().out
    assert "'glucose' of" in shown
    assert max(map(len, shown.splitlines())) <= 80


@pytest.mark.heavy
@pytest.mark.parametrize("name", CALLS)
def test_tables_without_anything_odd_keep_their_words(name: str) -> None:
    result = CALLS[name](frames(mixed=False))
    assert result.preflight.flags == ()
    assert list(result.to_dict()["preflight"]["shares"]) == NAMES
    assert "without a schema" not in result.status
    assert "The data without a schema" in report.render(result)


def test_arrays_without_anything_odd_have_no_preflight() -> None:
    x = np.random.default_rng(0).normal(size=(40, 3))
    result = silot.value_holders({"a": x, "b": x + 5.0}, x, intervals=False)
    assert result.preflight is None
    assert result.to_dict()["preflight"] is None


@pytest.mark.parametrize("name", ["distance", "worth", "barycenter", "pooled"])
def test_messages_of_a_run_are_the_same_without(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def messages() -> list[tuple[str, str, bytes]]:
        entries = CALLS[name](frames(mixed=True)).transcript.entries
        return [(each.holder, each.direction, each.payload) for each in entries]

    sent = messages()
    monkeypatch.setattr(Preflight, "of", classmethod(lambda cls, *_: None))
    assert messages() == sent


def test_holders_of_a_federation_are_not_looked_at_and_nothing_is_proven_of_their_columns() -> None:
    held = without(frames(mixed=True))
    result = silot.value_holders(LocalFederation(held), VALIDATION.drop("ill"), intervals=False)
    assert isinstance(result.preflight, Preflight)
    assert result.preflight.unseen == tuple(held)
    assert result.preflight.holders == ("your own data",)
    page = report.render(result)
    assert "did not check" in page
    assert "The bounds prove" not in page


def test_a_matrix_says_it_once() -> None:
    found = CALLS["matrix"](frames(mixed=True)).to_dict()
    assert found["preflight"] is not None
    assert [pair["preflight"] for pair in found["pairs"]] == [None] * 3
