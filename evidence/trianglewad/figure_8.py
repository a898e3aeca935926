"""TriangleWad, figure 8: two sellers, a buyer, and a parameter the sellers are not stated."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

import silot
from evidence.common import Context, signed_pixels, stream
from evidence.report import Claim, Judged, Report, Table, every, spread, verdict
from evidence.runs import FORMS, Form, exact, relative
from silot import Measure

PREDICTS = Claim(
    "CIFAR-10: the estimate predicts the exact distance", "yes, with a gap that is not numbered"
)

T = 0.3
SAMPLES = (0.1, 0.35, 0.6)
QUARTERS = (0.25, 0.5, 0.75)
CURVE = tuple(round(0.05 + 0.05 * k, 2) for k in range(19))
SCALE = 3.0
DIMENSION = 50


@dataclass(frozen=True)
class Case:
    """Two sellers and a buyer."""

    label: str
    sellers: tuple[Measure, Measure]
    buyer: Measure
    labels: bool
    support: int

    @property
    def union(self) -> Measure:
        """Records of both sellers."""
        points = np.concatenate([seller.points for seller in self.sellers])
        kinds = [seller.labels for seller in self.sellers if seller.labels is not None]
        return Measure(points, labels=np.concatenate(kinds) if self.labels else None)


@dataclass(frozen=True)
class Found:
    """Curves over s of a case, all divided by 1 - t, over the exact distance.

    ``told, hidden, quarters, printed``: estimates over the exact distance, minus 1: with a t that
    sellers are told, that they are not told (also by samples at 1/4, 1/2 and 3/4), and by the
    factor that the paper's text prints.
    """

    case: Case
    form: Form
    exact: float
    told: float
    hidden: float
    quarters: float
    printed: float
    actual: list[float]
    fitted: list[float]

    @property
    def misfit(self) -> float:
        """Largest relative difference of the fitted curve from the actual one."""
        return float(np.max(np.abs(np.divide(self.fitted, self.actual) - 1.0)))

    @property
    def nearest(self) -> float:
        """The s whose curve value is nearest the exact distance."""
        return CURVE[int(np.argmin(np.abs(np.subtract(self.actual, 1.0))))]


QUICK = {"FORMS": FORMS[:1]}


def run(context: Context) -> Report:
    found: list[Found] = []
    for case in (_synthetic(powers=False), _synthetic(powers=True), _images(context)):
        for form in FORMS:
            found.append(_measure(case, form))
            context.say(f"{case.label}, {form} done")
    return Report(
        title="TriangleWad, figure 8: unknown t",
        about="Two sellers do not know the buyer's t = .3. They answer for s = .1, .35 and .6, a "
        "quadratic in s is fitted to the squared distances, and its value at s = t gives the "
        "estimate. The union of the sellers is compared with the buyer.",
        setup=[
            f"Synthetic: 250 + 250 records against 500, dimension {DIMENSION} (paper: not stated). "
            "The paper writes the sellers' records with exponents 3 and 2, as powers or as a slip: "
            "both are run.",
            "CIFAR-10: 100 + 100 labelled images against 150, pixels from -1 to 1, label vectors "
            "with standard deviations (silot's default block).",
            f"Reference of standard deviation {SCALE:g}, as in the paper, mean 0, 500 atoms "
            "(synthetic) and 100 (images), which it does not state. Seed 0. The estimate is "
            "computed from the samples of silot.pooled_distance, whose own value is moved between "
            "its bounds.",
            "The curves use squared distances over (1 - t)^2; the text of the paper prints the "
            "factor 1 / (1 - t) for squares, see the last claim.",
        ],
        claims=_claims(found),
        tables=[_summary(found), _curves(found)],
    )


def _synthetic(*, powers: bool) -> Case:
    rng = stream(8, int(powers))
    first = 12.0 + 10.0 * rng.standard_normal((250, DIMENSION))
    second = 3.0 + rng.standard_normal((250, DIMENSION))
    buyer = 20.0 + 30.0 * rng.standard_normal((500, DIMENSION))
    if powers:
        first, second = first**3, second**2
    label = "synthetic, powers" if powers else "synthetic, plain"
    return Case(label, (Measure(first), Measure(second)), Measure(buyer), False, 500)


def _images(context: Context) -> Case:
    images, classes = context.images("cifar10")
    chosen = stream(8, 2).choice(len(images), 350, replace=False)
    pixels, kinds = signed_pixels(images[chosen]), classes[chosen]
    first, second, buyer = (
        Measure(pixels[part], labels=kinds[part])
        for part in (slice(100), slice(100, 200), slice(200, 350))
    )
    return Case("CIFAR-10, labelled", (first, second), buyer, True, 100)


def _measure(case: Case, form: Form) -> Found:
    ask = partial(
        silot.pooled_distance, dict(zip(("first", "second"), case.sellers, strict=True)),
        case.buyer, labels=case.labels, t=T, support=case.support, reference_scale=SCALE,
        interpolation=form, distances=False, moments=False,
    )  # fmt: skip
    truth = exact(case.union, case.buyer, labels=case.labels).value
    fit, quarters = (
        np.polynomial.Polynomial.fit(
            samples,
            [each["distance"] ** 2 for each in ask(hidden=True, samples=samples).history],
            2,
        )
        for samples in (SAMPLES, QUARTERS)
    )
    scale = (1.0 - T) * truth
    curve = ask(hidden=True, samples=CURVE)
    return Found(
        case,
        form,
        truth,
        told=relative(ask(hidden=False, samples=SAMPLES).value, truth),
        hidden=relative(float(np.sqrt(max(fit(T), 0.0))) / (1.0 - T), truth),
        quarters=relative(float(np.sqrt(max(quarters(T), 0.0))) / (1.0 - T), truth),
        printed=relative(float(np.sqrt(max(fit(T), 0.0) / (1.0 - T))), truth),
        actual=[entry["distance"] / scale for entry in curve.history],
        fitted=[float(np.sqrt(max(fit(s), 0.0))) / scale for s in CURVE],
    )


def _claims(found: list[Found]) -> list[Judged]:
    synthetic = [item for item in found if not item.case.labels]
    images = [item for item in found if item.case.labels]
    apart = [abs(item.hidden - item.told) for item in found]
    other = [abs(item.quarters - item.hidden) for item in found]
    by_form = ", ".join(f"{item.form} {item.hidden:+.0%}" for item in images)
    return [
        Claim("squared distances are a quadratic in s (theorem 2)", "yes").judged(
            f"one through three samples differs by at most {max(i.misfit for i in found):.1%}",
            verdict(max(item.misfit for item in found) <= 0.02),
            "Three samples fix the quadratic; the rest of the curve is prediction. Largest near "
            "s = .95, outside the samples.",
        ),
        Claim("not telling t costs nothing", "implied").judged(
            f"estimates with hidden and told t differ by at most {max(apart):.2%} of W",
            verdict(max(apart) <= 0.005),
            "To the accuracy of the fit. That a hidden t protects anything is another claim: it "
            "can be found out from the messages.",
        ),
        Claim("samples at s = 1/4, 1/2 and 3/4 are enough (section 3.4)", "yes").judged(
            f"estimates differ from those of the figure's samples by at most {max(other):.2%}",
            verdict(max(other) <= 0.005, partly=max(other) <= 0.05),
        ),
        Claim("synthetic: the curve meets the exact distance at s = t = .3", "yes").judged(
            f"nearest at s = {spread([item.nearest for item in synthetic], '.2f')}; estimate "
            f"{spread([item.hidden for item in synthetic], '+.2%')}",
            verdict(all(abs(item.hidden) <= 0.02 for item in synthetic)),
            "Nearest on a grid of .05; within 2% counts. The reference is small against the data.",
        ),
        Claim("CIFAR-10: the gap to the exact distance is smallest at s = t = .3", "yes").judged(
            f"smallest at s = {spread([item.nearest for item in images], '.2f')}",
            every(abs(item.nearest - T) <= 0.051 for item in images),
            "On a grid of .05.",
        ),
        PREDICTS.judged(
            by_form,
            verdict(all(abs(item.hidden) <= 0.1 for item in images)),
            "Sizes differ and a reference of deviation 3 in 9216 dimensions outweighs the data: "
            "its averaged atoms differ between the parties.",
        ),
        Claim("the estimate is f(t) / (1 - t) (text of sec. 3.4)", "printed").judged(
            f"that factor gives {spread([item.printed for item in synthetic], '+.0%')} on the "
            "synthetic data",
            verdict(all(abs(item.printed) <= 0.05 for item in synthetic)),
            "f is a squared distance, so the factor is 1 / (1 - t)^2; with it: "
            f"{spread([item.hidden for item in synthetic], '+.2%')}.",
        ),
    ]


def _summary(found: list[Found]) -> Table:
    return Table.of(
        "Estimates over the exact distance, minus 1, and the curves.",
        found,
        {
            "data": lambda item: item.case.label,
            "form": lambda item: item.form,
            "exact W": lambda item: f"{item.exact:.2f}",
            "t told": lambda item: f"{item.told:+.2%}",
            "t hidden": lambda item: f"{item.hidden:+.2%}",
            "by quarters": lambda item: f"{item.quarters:+.2%}",
            "largest misfit": lambda item: f"{item.misfit:.2%}",
            "nearest s": lambda item: f"{item.nearest:.2f}",
        },
    )


def _curves(found: list[Found]) -> Table:
    rows = [
        [item.case.label, item.form, name, *map("{:.3f}".format, curve[1::2])]
        for item in found
        for name, curve in (("actual", item.actual), ("fitted", item.fitted))
    ]
    columns = ["data", "form", "curve", *map("s = {:g}".format, CURVE[1::2])]
    return Table("W(interpolants) / (1 - t) over the exact distance, at every s.", columns, rows)
