"""A coordinator that chooses its questions to single records out, against a holder's policy.

Below level record m numbers with a Jacobian of m rows determine at most m / d records: chosen
numbers are always fewer than d, and named statistics are of many records each. Strategies are
played to see that this is so on the path from the file of the data to the answer.
"""

import itertools
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.datasets import load_breast_cancer

from silot import Holder, LocalFederation, Measure, Own, Policy
from silot.audits.policy import STRATEGIES, audit_policy
from silot.distances.questions import (
    ClassSizes,
    DistanceTo,
    InterpolantDistance,
    Interpolate,
    LabelledDistanceTo,
    Moments,
)
from silot.distances.sides import draw_reference, is_drawn
from silot.distances.worth.contributions import contributions
from silot.errors import InputError
from silot.federation import Answer, Failure, Question
from silot.federation.policy import Limits
from silot.federation.question import encode_question
from silot.privacy import Ledger
from silot.teaching.federated.questions import CountLabelled, Spread
from silot.teaching.questions import MeanFeatures, ProjectedQuantiles
from silot_transport import exact_plan

pytestmark = pytest.mark.all_cases

RNG = np.random.default_rng(11)
ROUND = RNG.normal(size=(120, 4)) @ np.diag([3.0, 2.0, 1.0, 0.5])
LABELS = np.array(["a"] * 80 + ["b"] * 39 + ["rare"])
BINARY = (RNG.random((150, 12)) < 0.4).astype(float)
CANCER = load_breast_cancer().data[:160, :8]

FLAGS = (RNG.random((1000, 20)) < np.minimum(RNG.lognormal(-3.5, 1.2, 20), 0.4)).astype(float)
FLAGS[:, 0] = np.arange(1000) == 7
DATA = {
    "round": Measure(ROUND, labels=LABELS),
    "binary": Measure(BINARY),
    "cancer": Measure(CANCER),
    "flags": Measure(FLAGS),
}


def even(size: int) -> np.ndarray:
    return np.full(size, 1.0 / size)


def labelled_question() -> LabelledDistanceTo:
    """Towards the records of two classes."""
    return LabelledDistanceTo(
        target=draw_reference(0, 30, 6), target_weights=even(30), target_codes=np.arange(30) % 2,
        classes='["0", "1"]', class_distances=np.array([[0.0, 2.0], [2.0, 0.0]]),
        class_slack=np.zeros(2),
    )  # fmt: skip


def code(answer: Answer | Failure) -> str:
    return answer.code if isinstance(answer, Failure) else "answered"


# ---- strategies ------------------------------------------------------------------------------


@pytest.mark.parametrize("level", ["scalar", "sketch", "aggregate"])
@pytest.mark.parametrize("name", DATA)
def test_no_strategy_finds_a_record_below_level_record(name: str, level: str) -> None:
    found = audit_policy(Policy(level=level), DATA[name], questions=25)  # type: ignore[arg-type]
    assert found.recovered == 0
    assert found.numbers < np.linalg.matrix_rank(DATA[name].points - DATA[name].points.mean(0))
    assert found.named * 20 <= DATA[name].points.size


def test_the_same_strategies_find_records_where_everything_is_told() -> None:
    found = audit_policy(Policy(level="record"), DATA["round"], questions=25)
    assert found.recovered == 120
    hits = {each.name: each.recovered for each in found.strategies}
    # Random references are there for the numbers they cost; pairs want rare values; quantiles and
    # features want fewer records, or more questions.
    idle = ("pairs", "quantiles of many", "mean random features of many", "random references")
    for name, count in hits.items():
        assert count > 0 or name.startswith(idle), name
    rare = audit_policy(Policy(level="record"), DATA["flags"], questions=5)
    pairs = "pairs of features: records with a rare value"
    assert {each.name: each.recovered for each in rare.strategies}[pairs] > 0
    small = audit_policy(Policy(level="record"), Measure(ROUND[:12, :2]), questions=25)
    assert {each.name: each.recovered for each in small.strategies}["quantiles of many seeds"] == 12


def test_who_knows_all_others_solves_for_the_last_only_where_d_numbers_are_told() -> None:
    name = "distances to all other records and a guess"
    for policy, told, recovered in (
        (Policy(level="record"), 8, 1),
        (Policy(level="scalar", numbers=10), 2, 0),
    ):
        found = {each.name: each for each in audit_policy(policy, DATA["round"]).strategies}[name]
        assert (found.answered, found.recovered, found.informed) == (told, recovered, True)


def test_the_finding_never_reads_as_safe() -> None:
    found = audit_policy(Policy(level="sketch"), DATA["binary"], questions=3)
    assert "others may" in found.status and "Not tried" in found.status
    assert found.to_dict()["strategies"][0]["refusals"]
    assert len(found.strategies) == len(STRATEGIES)


# ---- the bound: which records all answers together determine ----------------------------------

FEW = ROUND[:40]
BEHIND = 8


def questions(rng: np.random.Generator) -> Iterator[Question]:
    """A random strategy: what it asks, one after the other."""
    n, d = FEW.shape
    for _ in range(int(rng.integers(14, 24))):
        size = int(rng.integers(1, 30))
        atoms = rng.standard_normal((size, d)) * 10.0 ** rng.uniform(-1.5, 1.5)
        kind = rng.integers(3)
        weights = rng.dirichlet(np.full(size, 10.0 ** rng.uniform(-1, 2))) + 1e-9
        if kind == 1 and size < n:
            weights = np.r_[np.full(size - 1, 1.0 / n), 1.0 - (size - 1) / n]
        weights = even(size) if kind == 2 else weights / weights.sum()
        seed = int(rng.integers(3)) * int(rng.integers(2))
        target: dict[str, Any] = {"reference": atoms, "reference_weights": weights}
        choices: list[Question] = [
            DistanceTo(**target, p=int(rng.integers(1, 3))),
            DistanceTo(reference=np.vstack([FEW[:-1], atoms[:1]]), reference_weights=even(n), p=1),
            InterpolantDistance(
                **target, target=atoms + 1.0, target_weights=weights, t=0.3, scalars=False
            ),
            Interpolate(**target, t=0.01, on_reference=True, scalars=False),
            Moments(),
            Spread(),
            MeanFeatures(features=int(rng.integers(1, 15)) * 2, bandwidth=0.7, seed=seed),
            ProjectedQuantiles(directions=int(rng.integers(1, 6)), quantiles=40, seed=seed),
            LabelledDistanceTo(
                target=atoms, target_weights=weights, target_codes=np.zeros(size, np.int64),
                class_distances=np.zeros((1, 1)), class_slack=np.zeros(1),
                label_weight=float(rng.uniform(0, 9)),
            ),
        ]  # fmt: skip
        yield choices[int(rng.integers(len(choices)))]


def numbers_of(question: Question, points: np.ndarray) -> np.ndarray:
    """What an answer would tell with all its digits."""
    answer = question.compute(points, even(len(points)))
    names = ("distance", "target_distance")
    scalars = [float(answer.scalars[k]) for k in names if k in answer.scalars]  # type: ignore[arg-type]
    return np.concatenate([*(np.ravel(v) for _, v in sorted(answer.arrays.items())), scalars])


def jacobian(question: Question, points: np.ndarray) -> np.ndarray:
    """Derivative of what is told by every coordinate of every record."""
    if isinstance(question, DistanceTo):  # the plan stays, and the envelope theorem tells the rest
        plan = exact_plan(
            points, question.reference, even(len(points)), question.reference_weights, p=question.p
        )
        gradient = np.zeros(points.shape)
        apart = points[plan.rows] - question.reference[plan.cols]
        length = np.linalg.norm(apart, axis=1, keepdims=True)
        slope = apart / np.maximum(plan.upper if question.p == 2 else length, 1e-300)
        np.add.at(gradient, plan.rows, np.asarray(plan.mass)[:, None] * slope)
        return gradient.reshape(1, -1)
    columns: list[np.ndarray] = []
    for place in np.ndindex(points.shape):
        step = np.zeros(points.shape)
        step[place] = 1e-5
        change = numbers_of(question, points + step) - numbers_of(question, points - step)
        columns.append(change / 2e-5)
    return np.array(columns).T


def determined(rows: list[np.ndarray], n: int, d: int) -> int:
    """Records that cannot move at all while everything told stays as it is."""
    told = np.vstack(rows)
    told = told / np.maximum(np.linalg.norm(told, axis=1, keepdims=True), 1e-12)
    _, values, basis = np.linalg.svd(told, full_matrices=False)
    inside = (basis[values > 1e-6 * values[0]] ** 2).sum(axis=0).reshape(n, d)
    return int((inside > 1 - 1e-6).all(axis=1).sum())


def played(policy: Policy, seed: int, path: Path) -> tuple[list[Question], int]:
    """The questions of a strategy that were answered, and how many it asked."""
    rng = np.random.default_rng([seed, 3])
    told: list[Question] = []
    asked = 0
    for question in questions(rng):
        with Ledger(path) as ledger:  # a restart before every question
            holder = Holder(Measure(FEW, labels=LABELS[:40]), policy, ledger)
            asker = ("coordinator", "clinic", "bank")[int(rng.integers(3))]
            answered = isinstance(holder.answer(question, asker), Answer)
        asked += 1
        told += [question] if answered else []
    # The same question again got the same answer.
    return list({encode_question(each): each for each in told}.values()), asked


@pytest.mark.slow
def test_sixty_random_strategies_of_a_thousand_questions_determine_no_record(
    tmp_path: Path,
) -> None:
    n, d = FEW.shape
    asked = 0
    for seed in range(60):
        policy = Policy(level=("aggregate", "scalar")[seed % 2], behind=BEHIND)  # type: ignore[arg-type]
        told, count = played(policy, seed, tmp_path / f"{seed}.ledger")
        asked += count
        limits = Limits.of(FEW, even(n))
        chosen = [q for q in told if q.accounted(d) == "chosen"]
        named = [q for q in told if q.accounted(d) == "named"]
        assert sum(q.numbers(n, d) for q in chosen) < d
        assert sum(q.coarser(BEHIND).numbers(n, d) for q in named) * BEHIND <= n * d
        assert len({q.kind for q in named}) == len(named)
        if told:
            rows = [jacobian(q.coarser(BEHIND), FEW) for q in told]
            assert determined(rows, n, d) == 0
            # Who knows all other records: no chosen numbers determine the last.
            if chosen:
                last = [jacobian(q, FEW)[:, -d:] for q in chosen]
                assert determined(last, 1, d) == 0
        assert policy.chosen(limits) < d
    assert asked >= 1000


def test_the_bound_finds_records_where_enough_is_told() -> None:
    n, d = FEW.shape
    rng = np.random.default_rng(0)
    rows = [
        jacobian(
            DistanceTo(reference=np.vstack([FEW[:-1], guess]), reference_weights=even(n), p=1),
            FEW,
        )[:, -d:]
        for guess in rng.standard_normal((d, d))
    ]
    assert determined(rows[: d - 1], 1, d) == 0
    assert determined(rows, 1, d) == 1


# ---- rules, one by one ------------------------------------------------------------------------


def chosen(k: float = 0.0, size: int = 20) -> DistanceTo:
    return DistanceTo(reference=draw_reference(0, size, 4) + k, reference_weights=even(size))


def test_numbers_count_over_restarts_names_and_kinds_of_questions(tmp_path: Path) -> None:
    labelled = LabelledDistanceTo(
        target=draw_reference(0, 20, 4), target_weights=even(20),
        target_codes=np.zeros(20, np.int64), class_distances=np.zeros((1, 1)),
        class_slack=np.zeros(1),
    )  # fmt: skip
    data = Measure(RNG.normal(size=(2000, 4)))
    assert Policy(numbers=3).chosen(Limits.of(*data.arrays())) == 2
    told = 0
    for restart in range(20):
        for asker in ("coordinator", "clinic", "Clinic"):
            with Ledger(tmp_path / "a.ledger") as ledger:
                holder = Holder(data, Policy(numbers=3), ledger)
                for question in (chosen(restart), labelled, chosen(-restart - 1.0)):
                    told += code(holder.answer(question, asker)) == "answered"
    with Ledger(tmp_path / "a.ledger") as ledger:
        assert ledger.tally.total == 2
    # The labelled question is one and the same: told again, it is no further number.
    assert told >= 2


def test_an_asker_has_no_more_than_its_part() -> None:
    ledger = Ledger()
    holder = Holder(Measure(RNG.normal(size=(500, 9))), Policy(numbers_each=1), ledger)
    nine = draw_reference(0, 20, 9)
    for asker in ("clinic", "bank"):
        codes = [
            code(
                holder.answer(
                    DistanceTo(reference=nine + k + len(asker), reference_weights=even(20)), asker
                )
            )
            for k in range(2)
        ]
        assert codes == ["answered", "policy-numbers"]
    assert ledger.tally.numbers == {"clinic": 1, "bank": 1}


def test_without_a_ledger_no_exact_number_is_told() -> None:
    holder = Holder(DATA["round"])
    for question in (chosen(), Spread()):
        assert code(holder.answer(question)) == "ledger-absent"


def test_of_records_that_hold_a_few_bits_no_number_is_told() -> None:
    # A few exact numbers can tell twelve yes and no of a record, with jitter on them or without,
    # whatever records of next to no weight or columns of other units stand beside them.
    jittered = BINARY + 1e-6 * RNG.random(BINARY.shape)
    wide = np.hstack([BINARY, 1e-4 * RNG.normal(size=(150, 8))])
    light = np.vstack([BINARY, RNG.normal(size=(300, 12))])
    for x, weights in (
        (BINARY, even(150)), (jittered, even(150)), (wide, even(150)),
        (light, np.repeat([1.0 / 150, 1e-15], [150, 300])),
    ):  # fmt: skip
        assert Policy(numbers=50).chosen(Limits.of(x, weights / weights.sum())) == 0


def test_told_numbers_are_rounded_and_nothing_beside_them_has_more_digits() -> None:
    exact = chosen().compute(ROUND, even(120)).scalars["distance"]
    answer = Holder(DATA["round"], Policy(), Ledger()).answer(chosen())
    assert isinstance(answer, Answer) and isinstance(exact, float)
    assert set(answer.scalars) == {"distance", "step_distance", "optimal"}
    step, told = answer.number("step_distance"), answer.number("distance")
    assert abs(told - exact) <= answer.rounding("distance") == pytest.approx(0.5 * step)
    assert told / step == pytest.approx(round(told / step))


@pytest.mark.parametrize(
    "question",
    [
        Moments(),
        Spread(),
        MeanFeatures(features=12, bandwidth=2.0, seed=0),
        ProjectedQuantiles(directions=3, quantiles=6, seed=0),
        DistanceTo(reference=draw_reference(0, 30, 6), reference_weights=even(30)),
        DistanceTo(reference=draw_reference(0, 30, 6), reference_weights=even(30), p=1),
        InterpolantDistance(
            reference=draw_reference(0, 30, 6), reference_weights=even(30), t=0.3,
            target=draw_reference(1, 20, 6), target_weights=even(20),
        ),
        ClassSizes(classes='["0", "1"]'),
        CountLabelled(classes='["0", "1"]'),
        labelled_question(),
    ],
    ids=lambda question: question.kind,
)  # fmt: skip
def test_no_record_moves_a_number_further_than_is_said(question: Question) -> None:
    rng = np.random.default_rng(8)
    n = 80
    x = rng.normal(size=(n, 6)) + rng.standard_t(1.5, size=(n, 6))
    weights, labels = even(n), (x[:, 0] > 0).astype(int).astype(str)
    whole = question.compute(x, weights, labels)
    moves = question.moves(x, weights, labels, whole)
    numbers = {**whole.arrays, **whole.scalars}
    floats = {name for name, value in numbers.items() if np.asarray(value).dtype.kind == "f"} - {
        "distance_lower",
        "target_lower",
        "estimate",
        "gap",
    }
    assert set(moves) == floats
    for row in rng.choice(n, 12, replace=False):
        # Its mass goes to the others: as much as if it had never been there.
        rest = np.delete(weights, row) / (1.0 - weights[row])
        other = question.compute(np.delete(x, row, 0), rest, np.delete(labels, row))
        for name in floats:
            now = np.asarray({**other.arrays, **other.scalars}[name])
            moved = np.abs(np.asarray(numbers[name]) - now)
            assert (moved <= 1.05 * moves[name] * n / (n - 1)).all()


def test_a_value_of_one_record_hides_whichever_way_the_features_are_turned() -> None:
    found = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        x = (rng.random((420, 16)) < 0.4) * 1.0
        x[:, 0] = np.arange(420) == 7
        turned = np.linalg.qr(rng.normal(size=(16, 16)))[0]
        for data, back in ((x @ turned, turned), (x + 1e-6 * rng.random(x.shape), np.eye(16))):
            holder = Holder(Measure(data), Policy(), Ledger())
            assert code(holder.answer(Moments())) == "policy-rare"
            holder.__dict__["limits"] = replace(holder.limits, leverage=0.0, bits=1e3)
            told = holder.answer(Moments())
            assert isinstance(told, Answer)
            mean, covariance = told.arrays["mean"], told.arrays["covariance"]
            guess = np.rint(back @ mean + 420 * (back @ covariance @ back.T)[0])
            guess[0] = 1.0
            found += np.array_equal(guess, x[7])
    assert found == 0


def test_who_knows_all_other_yes_and_no_narrows_one_record_by_a_bit_a_number() -> None:
    cube = np.array(list(itertools.product([0.0, 1.0], repeat=12)))
    left: list[int] = []
    for seed in range(6):
        rng = np.random.default_rng(seed)
        y = (rng.random((150, 12)) < 0.4) + 1e-6 * rng.random((150, 12))
        # The bits alone would refuse: they are taken away here.
        holder = Holder(Measure(y), Policy(level="scalar", numbers=5), Ledger())
        holder.__dict__["limits"] = replace(holder.limits, bits=1e3)
        alive, rest = cube, np.delete(y, 7, 0)
        while True:
            guess = alive.mean(0) + rng.normal(size=12)
            told = holder.answer(
                DistanceTo(reference=np.vstack([rest, guess]), reference_weights=even(150), p=1)
            )
            if not isinstance(told, Answer):
                break
            apart = np.linalg.norm(alive - guess, axis=1) / 150 - told.number("distance")
            near = np.abs(apart) <= told.rounding("distance") + 1e-9
            alive = alive[near] if near.any() else alive
        left.append(len(alive))
    assert min(left) >= len(cube) / 2**6


def test_the_mean_of_centred_records_does_not_give_the_last_one_away() -> None:
    rng = np.random.default_rng(4)
    for shift in (0.05, 0.3):
        z = rng.normal(size=(120, 4))
        z = (z - z.mean(0)) / z.std(0) + shift * rng.normal(size=4)
        for question in (Spread(), Moments()):
            told = Holder(Measure(z), Policy(), Ledger()).answer(question)
            assert isinstance(told, Answer)
            last = 120 * told.arrays["mean"] - z[:-1].sum(0)
            assert np.abs(last - z[-1]).max() > 0.05


def test_a_record_that_dominates_a_number_is_not_read_off_it() -> None:
    found = 0
    for seed in range(20):
        rng = np.random.default_rng(seed)
        x = rng.normal(size=(1000, 6))
        x[5, 2] = 10 ** rng.uniform(4, 5.5)
        holder = Holder(Measure(x), Policy(), Ledger())
        assert code(holder.answer(Spread())) in ("policy-rare", "policy-numbers")
        # Bits and leverage refuse these; without them the step has to do.
        holder.__dict__["limits"] = replace(holder.limits, bits=60.0, leverage=0.0)
        told = holder.answer(Spread())
        assert isinstance(told, Answer)
        variance, mean = told.arrays["variance"], told.arrays["mean"]
        guesses = [(variance[2] * 1e6 / 999) ** 0.5, mean[2] * 1000]
        apart = np.sort(np.linalg.norm(x - x[5], axis=1))[1]
        found += min(abs(guess - x[5, 2]) for guess in guesses) < 1e-3 * apart
    assert found <= 1


def test_a_question_is_charged_though_it_fails() -> None:
    ledger = Ledger()
    holder = Holder(DATA["round"], Policy(), ledger)
    wrong = DistanceTo(reference=np.ones((9, 7)), reference_weights=even(9))
    assert code(holder.answer(wrong)) == "dimension-mismatch"
    assert ledger.tally.total == 1
    assert len({holder.reply(encode_question(wrong)) for _ in range(3)}) == 1


def test_limits_are_those_of_the_first_time_though_the_owner_allows_more_later() -> None:
    ledger = Ledger()
    first = Holder(DATA["round"], Policy(numbers=1), ledger)
    assert code(first.answer(chosen(1.0))) == "answered"
    assert code(first.answer(chosen(2.0))) == "policy-numbers"
    later = Holder(DATA["round"], Policy(numbers=50), ledger)
    codes = [code(later.answer(chosen(float(k)))) for k in range(3, 9)]
    assert codes.count("answered") <= 2


def test_fields_out_of_range_count_nothing() -> None:
    ledger = Ledger()
    holder = Holder(DATA["round"], Policy(), ledger)
    for question in (
        MeanFeatures(features=-(10**15), bandwidth=1.0, seed=0),
        MeanFeatures(features=7, bandwidth=1.0, seed=0),
        ProjectedQuantiles(directions=-(10**12), quantiles=10, seed=0),
        ProjectedQuantiles(directions=3, quantiles=-(10**12), seed=0),
    ):
        assert code(holder.answer(question)) == "question-fields"
    assert ledger.tally.named == 0 and ledger.tally.kinds == frozenset()
    assert code(holder.answer(MeanFeatures(features=4, bandwidth=1.0, seed=0))) == "answered"
    with pytest.raises(InputError):
        ledger.count("0" * 64, account="named", question="x", numbers=-1)


def test_label_coordinates_are_no_named_statistic() -> None:
    holder = Holder(DATA["round"], Policy(), Ledger())
    for question in (Moments(embedding="diagonal"), Spread(embedding="full")):
        assert code(holder.answer(question)) == "policy-level"


def test_moments_want_many_records_behind_every_value() -> None:
    assert code(Holder(DATA["flags"], Policy(), Ledger()).answer(Moments())) in (
        "policy-rare", "policy-numbers",
    )  # fmt: skip
    x = RNG.normal(size=(500, 4))
    assert code(Holder(Measure(x), Policy(), Ledger()).answer(Moments())) == "answered"
    x[:, 0] = np.arange(500) == 3
    assert code(Holder(Measure(x), Policy(), Ledger()).answer(Moments())) == "policy-rare"


def test_a_counted_question_without_a_stored_answer_is_not_about_later_data(
    tmp_path: Path,
) -> None:
    class Killed(BaseException):
        pass

    def die(*_: object) -> bytes:
        raise Killed

    ledger = Ledger(tmp_path / "a.ledger")
    ledger.tell = die  # type: ignore[method-assign]
    with pytest.raises(Killed):
        Holder(DATA["round"], Policy(level="scalar"), ledger).answer(chosen())
    ledger.close()
    later = Holder(Measure(ROUND[:3] + 5), Policy(level="scalar"), Ledger(tmp_path / "a.ledger"))
    assert code(later.answer(chosen())) == "policy-version"


def test_truth_values_of_yaml_are_no_numbers(tmp_path: Path) -> None:
    for field in ("privacy_epsilon", "privacy_delta", "prediction_decimals", "numbers"):
        (tmp_path / "p.yml").write_text(f"{field}: yes\n")
        with pytest.raises(InputError, match="policy-field"):
            Policy.load(tmp_path / "p.yml")


def test_what_was_told_at_level_record_counts_below_it() -> None:
    ledger = Ledger()
    questions = [chosen(float(k)) for k in range(9)]
    for question in questions:
        assert code(Holder(DATA["round"], Policy(level="record"), ledger).answer(question)) == (
            "answered"
        )
    strict = Holder(DATA["round"], Policy(level="scalar", numbers=0), ledger)
    assert {code(strict.answer(each)) for each in questions} == {"policy-numbers"}


def test_one_of_many_kinds_holds_no_more_bits_than_a_guess_of_it() -> None:
    kinds = np.eye(100)[RNG.integers(100, size=400)]
    limits = Limits.of(kinds, even(400))
    assert limits.bits < 8 and Policy().chosen(limits) == 0
    skewed = np.minimum(RNG.poisson(0.3, size=(400, 10)), 3).astype(float)
    skewed[np.arange(10), np.arange(10)] = 5000.0
    assert Policy().chosen(Limits.of(skewed, even(400))) == 0


def test_names_are_counted_as_the_ledger_keeps_them() -> None:
    x = RNG.normal(size=(2000, 9))
    for name in ("x" * 300, "bank\u200b"):
        holder = Holder(Measure(x), Policy(numbers_each=1), Ledger())
        nine = draw_reference(0, 20, 9)
        codes = [
            code(holder.answer(DistanceTo(reference=nine + k, reference_weights=even(20)), name))
            for k in range(2)
        ]
        assert codes == ["answered", "policy-numbers"]


def test_the_same_records_in_another_order_are_the_same_data() -> None:
    ledger = Ledger()
    for data in (DATA["round"], Measure(ROUND[::-1], labels=LABELS[::-1])):
        assert code(Holder(data, Policy(), ledger).answer(Spread())) == "answered"


def test_valuing_holders_with_labels_goes_on_under_the_default_policy() -> None:
    rng = np.random.default_rng(5)
    x = rng.normal(size=(600, 4))
    labels = rng.integers(0, 3, 600)
    holders = {
        "a": Holder(Measure(x[:300], labels=labels[:300]), Policy(), Ledger()),
        "b": Holder(Measure(x[300:], labels=labels[300:]), Policy(), Ledger()),
    }
    own = Own(Measure(rng.permutation(x)[:200], labels=labels[:200]))
    found = LocalFederation(holders).run(contributions("ab", own=own, labels="classes"))
    assert set(found.shares) == {"a", "b"}


def test_a_draw_is_told_from_what_looks_like_one() -> None:
    drawn = draw_reference(7, 50, 4)
    assert is_drawn(drawn, 7) and is_drawn(2.0 * drawn - 5.0, 7)
    assert not is_drawn(drawn, 8)
    assert not is_drawn(-drawn, 7)
    assert not is_drawn(np.zeros((50, 4)), 7)
    touched = drawn.copy()
    touched[3, 1] += 1e-4
    assert not is_drawn(touched, 7)


def test_every_column_is_rounded_in_its_own_units() -> None:
    rng = np.random.default_rng(0)
    units = np.array([1e-4, 1.0, 1e4])
    x = rng.normal(size=(400, 3)) * units
    answer = Holder(Measure(x), Policy(), Ledger()).answer(Spread())
    assert isinstance(answer, Answer)
    np.testing.assert_allclose(answer.array("variance", ndim=1), x.var(axis=0), rtol=0.1)
    np.testing.assert_allclose(
        answer.array("mean", ndim=1) / units, x.mean(axis=0) / units, atol=0.02
    )
    assert (answer.array("mean", ndim=1) != x.mean(axis=0)).all()
