"""What releases spend, measured: never above the claim, and planted bugs are caught."""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from silot import Measure, load_measure
from silot.distances.questions import encode_classes
from silot.distances.sketches.questions import CountRecords, SketchRecords
from silot.federation.question import Codes
from silot.federation.release import Release
from silot.privacy import epsilon_of, mechanism, mu_of
from silot.privacy.accounting import scale_for
from silot.privacy.cells import Cells
from silot.privacy.sketch import Geometry, encode, parts
from tests.tiers import examples

from .likelihood import (  # fmt: skip
    Asked,
    Seen,
    asked_by_sketches,
    asked_by_summaries,
    audit,
    audit_files,
    audit_holder,
    draw,
    seen,
    spent,
)
from .test_neighbours import typed_by_the_column
from .toys import ToyHistogram

pytestmark = pytest.mark.all_cases

MU, EPSILON, DELTA = mu_of(1.0, 1e-5), 1.0, 1e-5
RNG = np.random.default_rng(17)
PUBLIC = RNG.normal(size=(300, 2))
RECORDS = RNG.normal(size=(120, 2))
CELLS = Cells.of_sample(PUBLIC, 8)


def sketch(**changes: object) -> SketchRecords:
    given: dict[str, object] = {
        "privacy_mu": MU, "centres": CELLS.centres, "radius": CELLS.radius,
        "radius2": CELLS.radius2,
    }  # fmt: skip
    return SketchRecords(**{**given, **changes})  # type: ignore[arg-type]


def fields_of(release: Release) -> dict[str, object]:
    return {item.name: getattr(release, item.name) for item in dataclasses.fields(release)}


def neighbours(record: np.ndarray) -> tuple[Measure, Measure]:
    return Measure(RECORDS), Measure(np.vstack([RECORDS, record]))


# The record that moves a sketch most: far enough for both lengths to be clipped.
WORST = CELLS.centres[4] + CELLS.radius2 * np.array([3.0, 0.0])


# The audit itself


@pytest.mark.parametrize("mu", [0.0, 0.25, 1.0, 3.0])
def test_the_audit_finds_what_gaussian_noise_spends_and_no_more(mu: float) -> None:
    rng = np.random.default_rng(5)
    found = seen(rng.normal(size=40_000), rng.normal(size=40_000) + mu, DELTA)
    assert max(mu - 0.15, 0.0) <= found.mu <= mu
    assert found.epsilon <= max(epsilon_of(mu, DELTA), 1e-9)


def test_the_audit_finds_answers_without_any_noise() -> None:
    found = seen(np.zeros(2000), np.ones(2000), DELTA)
    assert found.mu > 4.0 and found.epsilon > 4.0


# The law of the noise, exactly


@pytest.mark.parametrize("epsilon", [0.5, 1.0, 4.0])
@pytest.mark.parametrize("shift", [1, 7, 300])
def test_the_discrete_gaussian_keeps_the_claimed_epsilon_and_delta_exactly(
    epsilon: float, shift: int
) -> None:
    sigma = scale_for(float(shift), mu_of(epsilon, DELTA))
    places = np.arange(-int(40 * sigma) - 2, int(40 * sigma) + shift + 3)
    total = math.fsum(np.exp(-(places**2) / (2 * sigma**2)))

    def law(middle: int) -> np.ndarray:
        return np.exp(-((places - middle) ** 2) / (2 * sigma**2)) / total

    for one, other in ((law(0), law(shift)), (law(shift), law(0))):
        assert math.fsum(np.maximum(one - math.exp(epsilon) * other, 0.0)) <= DELTA
        # The claim is not idle: a third less would be broken. A shift of one unit is the exception,
        # because what is added to the scale for being discrete is then most of it.
        if shift > 1:
            tight = math.exp(epsilon / 1.4)
            assert math.fsum(np.maximum(one - tight * other, 0.0)) > DELTA


# How far one record moves a sketch


records = st.one_of(
    st.tuples(*[st.floats(-4, 4)] * 2),
    st.tuples(*[st.floats(-1e300, 1e300)] * 2),
    st.sampled_from([tuple(WORST), tuple(CELLS.centres[0]), tuple(CELLS.centres[:2].mean(axis=0))]),
)


@given(records, st.floats(0.0, 1.0), st.integers(0, 120), st.sampled_from([16, 1024, 1 << 20]))
@settings(deadline=None, max_examples=examples(150))
def test_one_record_anywhere_of_any_mass_moves_a_sketch_by_at_most_the_sensitivity(
    record: tuple[float, ...], mass: float, place: int, resolution: int
) -> None:
    question = sketch(resolution=resolution, mass_limit=1.0)
    masses = np.linspace(0.0, 1.0, 120)
    before = question.exact(RECORDS, masses)
    after = question.exact(
        np.insert(RECORDS, place, np.array(record), axis=0), np.insert(masses, place, mass)
    )
    assert np.linalg.norm(after - before) <= question.sensitivity
    # What a record adds depends on no other record: not even the rounding of a block's end.
    alone = question.exact(np.array([record]), np.array([mass]))
    np.testing.assert_array_equal(after - before, alone)


def test_the_worst_record_comes_close_to_the_sensitivity() -> None:
    alone = sketch().exact(WORST[None], np.ones(1))
    assert np.linalg.norm(alone) >= 0.99 * (sketch().sensitivity - math.sqrt(2) / 2)


@given(st.integers(0, 3), st.integers(0, 119))
@settings(deadline=None, max_examples=examples(30))
def test_a_record_of_a_known_or_an_unknown_class_moves_one_count(kind: int, place: int) -> None:
    question = sketch(classes=encode_classes(["a", "b", "c"]))
    names = np.array(["a", "b", "c", "never heard of"])
    labels = names[np.arange(120) % 2]
    before = question.exact(RECORDS, np.ones(120), labels)
    after = question.exact(
        np.insert(RECORDS, place, WORST, axis=0),
        np.ones(121),
        np.insert(labels, place, names[kind]),
    )
    assert np.linalg.norm(after - before) <= question.sensitivity
    assert after.shape == before.shape


def test_a_count_moves_by_the_sensitivity() -> None:
    question = CountRecords(privacy_mu=MU)
    with_, without = (question.exact(RECORDS[:n], np.ones(n)) for n in (120, 119))
    assert abs(int((with_ - without)[0])) == question.sensitivity


# What is seen never exceeds what is claimed


def holds(found: Seen, mu: float) -> bool:
    return found.mu <= mu and found.epsilon <= epsilon_of(mu, DELTA)


@pytest.mark.parametrize(
    "release",
    [
        ToyHistogram(privacy_mu=MU),
        ToyHistogram(privacy_mu=2.0),
        CountRecords(privacy_mu=MU),
        sketch(),
        sketch(privacy_mu=2.0),
        sketch(classes=encode_classes(["a"]), privacy_mu=1.0),
    ],
    ids=lambda release: f"{release.kind}-{release.privacy_mu:.2f}",
)
def test_releases_are_never_seen_to_spend_more_than_they_say(release: Release) -> None:
    labels = None if not getattr(release, "classes", "") else np.full(121, "a")
    with_ = Measure(np.vstack([RECORDS, WORST]), labels=labels)
    without = Measure(RECORDS, labels=None if labels is None else labels[1:])
    # The more there is to see, the more runs it takes to see nearly all of it, whatever chance.
    found = audit(release, without, with_, runs=8000 if release.privacy_mu > 1 else 4000)
    assert holds(found, release.privacy_mu)
    # Nearly all of it is seen, so that a release that spent more would be.
    assert found.mu >= release.privacy_mu - 0.45


@pytest.mark.slow
def test_what_leaves_a_holder_is_never_seen_to_spend_more_than_it_says() -> None:
    without, with_ = neighbours(WORST)
    for release in (ToyHistogram(privacy_mu=1.0), sketch(privacy_mu=1.0)):
        found = audit_holder(lambda run, release=release: release, without, with_)
        assert holds(found, 1.0)
        assert found.mu >= 0.4


def test_two_releases_together_are_seen_to_spend_what_they_say_together() -> None:
    without, with_ = neighbours(WORST)
    statistics = [np.zeros(4000), np.zeros(4000)]
    for release in (sketch(privacy_mu=0.6), CountRecords(privacy_mu=0.8)):
        exact = [release.exact(side.points, side.masses) for side in (without, with_)]
        # The likelihood ratio of both: each change in units of its noise.
        weights = (exact[1] - exact[0]) * (release.privacy_mu / release.sensitivity) ** 2
        for side in (0, 1):
            statistics[side] += draw(release, exact[side], 4000) @ weights
    found = seen(*statistics, DELTA)
    assert holds(found, 1.0)
    assert found.mu >= 0.5


# The whole path, from files to what a holder replies


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Neighbours as files: one record far off, of a class of its own, changes what a column is."""
    place = tmp_path_factory.mktemp("files")
    rows = [
        f"{a!r},{b!r},{1 + k % 2}.0" for k, (a, b) in enumerate(np.tile(RECORDS, (2, 1)).tolist())
    ]
    for name, more in (("without", []), ("with", ["99,-99,unknown"])):
        (place / f"{name}.csv").write_text("\n".join(["x,z,y", *rows, *more]))
    return place


def of_files(
    folder: Path, labelled: bool, epsilon: float, summaries: bool = False
) -> tuple[Asked, dict[str, Any]]:
    options = {"label_column": "y"} if labelled else {"columns": ["x", "z"]}
    public = Measure(PUBLIC, labels=[1, 2, 3] * 100 if labelled else None)
    measure = load_measure(folder / "without.csv", **options)
    if summaries:
        return asked_by_summaries(measure, public, epsilon), options
    return asked_by_sketches(measure, public, epsilon, cells=8), options


def audited(
    folder: Path, labelled: bool, epsilon: float, runs: int, summaries: bool = False
) -> tuple[Seen, float]:
    asked, options = of_files(folder, labelled, epsilon, summaries)
    files = (folder / "without.csv", folder / "with.csv")
    return audit_files(asked, *files, options, runs=runs), spent(asked)


@pytest.mark.parametrize("labelled", [False, True])
@pytest.mark.parametrize("epsilon", [1.0, 4.0])
@pytest.mark.parametrize("summaries", [False, True], ids=["sketches", "summaries"])
def test_replies_about_files_are_never_seen_to_spend_more_than_they_say(
    folder: Path, labelled: bool, epsilon: float, summaries: bool
) -> None:
    # Few runs: `python -m evidence privacy release-audit` has twenty thousand a side.
    found, claimed = audited(folder, labelled, epsilon, 500, summaries)
    assert claimed == pytest.approx(mu_of(epsilon, DELTA))
    assert holds(found, claimed)


def test_labels_read_by_the_column_are_caught_in_replies(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("silot.data.tables.Table.values", typed_by_the_column)
    monkeypatch.setattr("silot.data.label_names._text_name", str)
    found, claimed = audited(folder, True, 1.0, 100)
    assert not holds(found, claimed)


@pytest.mark.slow
def test_half_the_noise_is_caught_in_replies(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    gaussian = mechanism._gaussian
    monkeypatch.setattr(mechanism, "_gaussian", lambda scale: Cheaper(gaussian(scale / 2.0)))
    found, claimed = audited(folder, False, 4.0, 1600)
    assert not holds(found, claimed)


@dataclass(frozen=True)
class Cheaper:
    """Noise that says it costs a quarter."""

    noise: Any

    def map(self, distance: float) -> float:
        return self.noise.map(distance) / 4.0

    def __call__(self, values: np.ndarray) -> Any:
        return self.noise(values)


# Planted bugs


@dataclass(frozen=True, kw_only=True)
class NoClipping(SketchRecords):
    """Offsets of any length, and squares of any size."""

    def exact(self, points, masses, labels=None) -> Codes:
        counts = super().exact(points, masses, labels)
        far = np.linalg.norm(points[:, None] - self.centres, axis=2)
        offsets = points - self.centres[far.argmin(axis=1)]
        _, b, _ = parts(self.resolution)
        shift = np.rint(b * offsets / self.radius).astype(np.int64).sum(axis=0)
        counts[-1 - points.shape[1] : -1] = shift
        return counts


@dataclass(frozen=True, kw_only=True)
class PrivateCentres(SketchRecords):
    """Centres moved to the mean of the private records nearest to them."""

    def exact(self, points, masses, labels=None) -> Codes:
        fitted = points[np.linspace(0, len(points) - 1, len(self.centres)).astype(int)]
        for _ in range(5):
            codes = np.linalg.norm(points[:, None] - fitted, axis=2).argmin(axis=1)
            fitted = np.array(
                [points[codes == c].mean(axis=0) if (codes == c).any() else fitted[c]
                 for c in range(len(fitted))]
            )  # fmt: skip
        return encode(points, masses, Geometry(fitted, self.radius, self.radius2))


@dataclass(frozen=True, kw_only=True)
class PrivateRadius(SketchRecords):
    """Lengths in units of the largest there is."""

    def exact(self, points, masses, labels=None) -> Codes:
        far = np.linalg.norm(points[:, None] - self.centres, axis=2).min(axis=1).max()
        return encode(points, masses, Geometry(self.centres, float(far), 2 * float(far)))


@dataclass(frozen=True, kw_only=True)
class PrivateScale(SketchRecords):
    """Records divided by the standard deviation they happen to have."""

    def exact(self, points, masses, labels=None) -> Codes:
        return super().exact(points / points.std(axis=0), masses, labels)


@dataclass(frozen=True, kw_only=True)
class UnitOfMass(SketchRecords):
    """Masses in units of the smallest there is."""

    def exact(self, points, masses, labels=None) -> Codes:
        return super().exact(points, masses / masses.min(), labels)


def test_a_unit_of_mass_taken_from_the_records_is_caught() -> None:
    without = Measure(RECORDS, np.linspace(2.0, 3.0, 120))
    with_ = Measure(np.vstack([RECORDS, WORST]), np.r_[np.linspace(2.0, 3.0, 120), 5.0])
    lighter = Measure(np.vstack([RECORDS, WORST]), np.r_[np.linspace(2.0, 3.0, 120), 0.1])
    release = UnitOfMass(**{**fields_of(sketch()), "mass_limit": 3.0})
    assert not holds(audit(release, without, lighter), MU)
    for side in (with_, lighter):
        assert holds(audit(sketch(mass_limit=3.0), without, side), MU)


@pytest.mark.heavy
@pytest.mark.parametrize("bug", [NoClipping, PrivateCentres, PrivateRadius, PrivateScale])
def test_planted_bugs_in_the_vector_are_caught(bug: type[SketchRecords]) -> None:
    release = bug(**fields_of(sketch()))
    outlier = np.array([60.0, -40.0])
    assert not holds(audit(release, *neighbours(outlier)), MU)
    # The same audit of the same neighbours, without the bug.
    assert holds(audit(sketch(), *neighbours(outlier)), MU)


@pytest.mark.parametrize(
    "release", [sketch(privacy_mu=1.0), ToyHistogram(privacy_mu=1.0)], ids=lambda r: r.kind
)
def test_noise_of_half_the_scale_is_caught(release: Release) -> None:
    assert not holds(audit(release, *neighbours(WORST), charged=2.0), 1.0)
    assert holds(audit(release, *neighbours(WORST)), 1.0)


def test_a_sensitivity_that_forgets_rounding_and_parts_is_caught() -> None:
    @dataclass(frozen=True, kw_only=True)
    class CountsOnly(SketchRecords):
        @property
        def sensitivity(self) -> float:
            return parts(self.resolution)[2]

    release = CountsOnly(**fields_of(sketch()))
    assert not holds(audit(release, *neighbours(WORST)), MU)
