"""Models learn what they can, disturb nothing, and say when they cannot."""

import io
import json
import shutil
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.tiers import examples

torch = pytest.importorskip("torch", reason="torch is not installed")

from silot.distillation import (  # noqa: E402
    BagOfWords,
    LabelSpace,
    VectorHead,
    fit,
    load_parameters,
    module_predict,
    parameters_of,
    pretrained,
)
from silot.distillation.text import PAIR, Vocabulary  # noqa: E402
from silot.errors import ExtraError, FileError, InputError, MismatchError, SolverError  # noqa: E402
from silot.torch import draw_from  # noqa: E402

WORDS = Vocabulary(("good", "bad", "film", "not", "a", "plot"), buckets=4)
SENTENCES = st.lists(st.sampled_from([*WORDS.words, "unheard"]), max_size=9).map(" ".join)


def small(kind: str, *, pairs: bool = False, seed: int = 0, dropout: float = 0.1):
    assert kind == "bag"
    return BagOfWords(WORDS, 3, width=8, pairs=pairs, seed=seed, dropout=dropout)


def opinions(count: int, seed: int) -> tuple[list[str], list[int]]:
    """Texts whose label is whether 'good' comes before 'bad': a bag of words cannot tell."""
    rng = np.random.default_rng(seed)
    texts, codes = [], []
    for _ in range(count):
        words = [str(word) for word in rng.choice(["film", "a", "plot"], 4)]
        first, second = sorted(rng.choice(5, 2, replace=False))
        codes.append(int(rng.integers(2)))
        pair = ("good", "bad") if codes[-1] else ("bad", "good")
        words.insert(int(second), pair[1])
        words.insert(int(first), pair[0])
        texts.append(" ".join(words))
    return texts, codes


@pytest.mark.parametrize("kind", ["bag"])
@given(texts=st.lists(SENTENCES, min_size=2, max_size=6), paired=st.booleans())
@settings(max_examples=examples(25))
def test_an_answer_does_not_depend_on_its_batch(kind: str, texts: list[str], paired: bool) -> None:
    if paired:
        texts = [PAIR.join((text, texts[0])) for text in texts]
    model = small(kind, pairs=paired)
    together = module_predict(model, texts)
    alone = np.concatenate([module_predict(model, [text]) for text in texts])
    assert together.dtype == np.float64
    assert np.allclose(together.sum(axis=1), 1.0, atol=1e-12)
    assert np.allclose(together, alone, atol=1e-5)
    assert np.allclose(together, module_predict(model, texts, batch=1), atol=1e-5)


def test_a_bag_of_words_is_the_mean_and_a_linear_map() -> None:
    model = small("bag")
    arrays = parameters_of(model)
    table = arrays["words.table.weight"]
    for text in ("good film", "bad bad plot unheard", ""):
        rows = [WORDS.number(word) for word in text.split()]
        mean = table[rows].mean(axis=0) if rows else np.zeros(8)
        logits = arrays["readout.weight"] @ mean + arrays["readout.bias"]
        exact = np.exp(logits - logits.max())
        assert np.allclose(module_predict(model, [text])[0], exact / exact.sum(), atol=1e-6)


def test_a_bag_of_pairs_reads_each_text_and_what_they_share() -> None:
    model = small("bag", pairs=True)
    arrays = parameters_of(model)
    table = arrays["words.table.weight"]
    for first, second, shared in (
        ("good film", "bad film plot", (1 / 2, 1 / 3)),
        ("film film", "film", (1.0, 1.0)),
        ("good", "", (0.0, 0.0)),
    ):
        u, v = (
            np.mean([table[WORDS.number(word)] for word in text.split()] or [np.zeros(8)], axis=0)
            for text in (first, second)
        )
        read = np.concatenate([u, v, np.abs(u - v), u * v, shared])
        hidden = arrays["readout.0.weight"] @ read + arrays["readout.0.bias"]
        logits = arrays["readout.2.weight"] @ np.maximum(hidden, 0.0) + arrays["readout.2.bias"]
        exact = np.exp(logits - logits.max())
        found = module_predict(model, [PAIR.join((first, second)), "a\tfilm good bad a plot"])
        assert np.allclose(found[0], exact / exact.sum(), atol=1e-6)


def test_a_bag_of_words_ignores_order() -> None:
    outputs = module_predict(small("bag"), ["good not bad", "bad not good"])
    assert np.allclose(outputs[0], outputs[1], atol=1e-6)


def test_a_pair_is_not_its_reverse() -> None:
    outputs = module_predict(small("bag", pairs=True), ["good\tbad film", "bad film\tgood"])
    assert not np.allclose(outputs[0], outputs[1], atol=1e-6)


@pytest.mark.heavy
def test_a_head_learns_what_no_linear_map_can() -> None:
    rng = np.random.default_rng(0)
    points = 50.0 + 10.0 * rng.normal(size=(400, 2))
    codes = ((points > 50).sum(axis=1) == 1).astype(int)
    model = VectorHead(2, 2, hidden=(32,), mean=50.0, scale=[10.0, 10.0], dropout=0.0)
    fit(model, points, codes, epochs=40, rate=1e-2)
    assert (module_predict(model, points).argmax(1) == codes).mean() > 0.97
    linear = VectorHead(2, 2, hidden=(), mean=50.0, scale=10.0)
    fit(linear, points, codes, epochs=40, rate=1e-2)
    assert (module_predict(linear, points).argmax(1) == codes).mean() < 0.75


def test_balance_gives_a_rare_label_its_weight() -> None:
    # Without features the best answer is the share of a label: its records', or one in two.
    inputs, codes = np.zeros((100, 1)), np.array([0] * 90 + [1] * 10)
    for balanced, share in ((False, 0.1), (True, 0.5)):
        model = VectorHead(1, 2, hidden=())
        fit(model, inputs, codes, epochs=300, rate=3e-2, batch=100, decay=0.0, balanced=balanced)
        assert module_predict(model, inputs[:1])[0, 1] == pytest.approx(share, abs=1e-3)


@pytest.mark.parametrize("kind", ["bag"])
def test_the_same_seed_gives_the_same_model_and_no_generator_is_disturbed(kind: str) -> None:
    texts, codes = opinions(40, seed=3)
    results = []
    for before in (5, 6):
        torch.manual_seed(before)
        np.random.seed(before)  # noqa: NPY002
        state = torch.get_rng_state(), np.random.get_state()[1].copy()  # noqa: NPY002
        model = small(kind, dropout=0.5)
        fit(model, texts, codes, epochs=2, seed=7)
        results.append(parameters_of(model))
        assert torch.equal(torch.get_rng_state(), state[0])
        assert np.array_equal(np.random.get_state()[1], state[1])  # noqa: NPY002
    for name, array in results[0].items():
        assert np.array_equal(array, results[1][name])
    other = small(kind, dropout=0.5)
    fit(other, texts, codes, epochs=2, seed=8)
    assert any(not np.array_equal(a, results[0][n]) for n, a in parameters_of(other).items())
    assert any(
        not np.array_equal(a, b)
        for a, b in zip(
            parameters_of(small(kind, seed=1)).values(),
            parameters_of(small(kind, seed=2)).values(),
            strict=True,
        )
    )


def test_drawing_goes_on_as_if_nothing_was_drawn_even_after_an_error() -> None:
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    with pytest.raises(ZeroDivisionError), draw_from(4):
        torch.rand(10)
        raise ZeroDivisionError
    assert torch.equal(torch.rand(3), expected)


def test_fitting_ends_with_the_epoch_that_was_best_on_other_inputs() -> None:
    texts, codes = opinions(20, seed=4)
    # The contrary is true of the others: to learn is to get worse.
    others = opinions(20, seed=5)[0], [1 - code for code in opinions(20, seed=5)[1]]
    model = small("bag", dropout=0.0)
    told: list[tuple[int, float]] = []
    found = fit(
        model, texts, codes, epochs=30, rate=1e-1, validation=others,
        progress=lambda epoch, loss: told.append((epoch, loss)),
    )  # fmt: skip
    assert told == list(enumerate(found.losses, start=1))
    assert len(found.validation) == 30
    assert found.validation[found.epoch - 1] == min(found.validation)
    assert found.epoch < 30
    exact = module_predict(model, others[0])[np.arange(20), others[1]]
    assert -np.log(exact).mean() == pytest.approx(min(found.validation))


def test_balance_holds_for_validation_too() -> None:
    inputs, codes = np.zeros((10, 1)), np.array([0] * 9 + [1])
    model = VectorHead(1, 2, hidden=())
    found = fit(model, inputs, codes, epochs=1, balanced=True, validation=(inputs, codes))
    losses = -np.log(module_predict(model, inputs[:1])[0])
    assert found.validation[0] == pytest.approx(losses.mean())


def test_asking_and_fitting_leave_every_part_in_its_mode() -> None:
    model = small("bag")
    model.train()
    model.readout.eval()
    modes = [part.training for part in model.modules()]
    module_predict(model, ["good"])
    assert [part.training for part in model.modules()] == modes
    fit(model, ["good", "bad"], [0, 1], epochs=1)
    assert [part.training for part in model.modules()] == modes
    with pytest.raises(InputError):
        module_predict(model, [3])  # type: ignore[list-item]
    assert [part.training for part in model.modules()] == modes


@pytest.mark.parametrize("kind", ["bag", "vectors"])
def test_parameters_go_through_a_file_of_plain_arrays(kind: str) -> None:
    def build(seed: int) -> torch.nn.Module:
        return VectorHead(4, 3, seed=seed) if kind == "vectors" else small(kind, seed=seed)

    inputs = np.eye(4) if kind == "vectors" else ["good film", "bad"]
    one, other = build(1), build(2)
    file = io.BytesIO()
    np.savez(file, **parameters_of(one))
    file.seek(0)
    with np.load(file, allow_pickle=False) as stored:
        load_parameters(other, dict(stored))
    assert np.array_equal(module_predict(one, inputs), module_predict(other, inputs))


def test_parameters_are_copies_and_load_whole_or_not_at_all() -> None:
    model = torch.nn.Linear(2, 3)
    first = parameters_of(model)
    with torch.no_grad():
        model.weight += 1.0
    assert not np.array_equal(first["weight"], parameters_of(model)["weight"])
    before = parameters_of(model)
    wrong: list[tuple[dict, str]] = [
        ({"weight": first["weight"]}, "parameters-names"),
        (first | {"more": np.zeros(1)}, "parameters-names"),
        (first | {"bias": np.zeros(4, np.float32)}, "parameters-shape"),
        (first | {"bias": np.zeros(3)}, "parameters-shape"),
        (first | {"bias": np.array([0, np.nan, 0], np.float32)}, "parameters-nan"),
    ]
    for arrays, code in wrong:
        with pytest.raises(InputError) as caught:
            load_parameters(model, arrays)
        assert caught.value.code == code
        assert all(np.array_equal(before[n], a) for n, a in parameters_of(model).items())


def test_half_precision_and_counters_survive() -> None:
    half = torch.nn.Linear(2, 3).to(torch.bfloat16)
    other = load_parameters(torch.nn.Linear(2, 3).to(torch.bfloat16), parameters_of(half))
    assert torch.equal(other.state_dict()["weight"], half.weight)
    norm = torch.nn.BatchNorm1d(2)
    norm(torch.randn(5, 2))
    again = load_parameters(torch.nn.BatchNorm1d(2), parameters_of(norm)).state_dict()
    assert all(torch.equal(again[name], held) for name, held in norm.state_dict().items())


class Broken(torch.nn.Module):
    """Answers with a number of its own from the second step on."""

    def __init__(self, value: float, shape: tuple[int, ...] = (2,)) -> None:
        super().__init__()
        self.linear, self.value, self.steps = torch.nn.Linear(1, 2), value, 0
        self.shape = shape

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        self.steps += 1
        if self.shape != (2,):
            return torch.zeros(len(batch), *self.shape)
        return self.linear(batch) * (self.value if self.steps > 1 else 1.0)


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_loss_that_is_not_finite_ends_training(value: float) -> None:
    with pytest.raises(SolverError) as caught:
        fit(Broken(value), np.ones((4, 1)), [0, 1, 0, 1], epochs=3, batch=2)
    assert caught.value.code == "training-diverged"
    model = Broken(value)
    model.steps = 1
    with pytest.raises(SolverError) as caught:
        module_predict(model, np.ones((4, 1)))
    assert caught.value.code == "prediction-nan"


def test_parameters_that_are_not_finite_end_training_though_the_loss_is() -> None:
    class Root(torch.nn.Module):
        """The slope of a square root at 0 is infinite, its value is not."""

        def __init__(self) -> None:
            super().__init__()
            self.value = torch.nn.Parameter(torch.zeros(2))

        def forward(self, batch: torch.Tensor) -> torch.Tensor:
            return (0.0 * self.value).sqrt().expand(len(batch), 2)

    with pytest.raises(SolverError) as caught:
        fit(Root(), np.ones((2, 1)), [0, 1], epochs=1)
    assert caught.value.code == "training-diverged"


LINEAR = torch.nn.Linear(1, 2)
POINTS = np.ones((2, 1))


@pytest.mark.parametrize(
    ("call", "kind", "code"),
    [
        (lambda: BagOfWords(WORDS, 1), InputError, "label-count"),
        (lambda: BagOfWords(WORDS, 2, width=0), InputError, "option-model"),
        (lambda: BagOfWords(WORDS, 2, dropout=1.0), InputError, "option-dropout"),
        (lambda: BagOfWords(WORDS, 2, seed=-1), InputError, "option-seed"),
        (lambda: BagOfWords(WORDS, 2, vectors=[[1.0]]), MismatchError, "vocabulary-vectors"),
        (lambda: VectorHead(2, 2, mean=[0.0] * 3), MismatchError, "input-dimension"),
        (lambda: VectorHead(2, 2, scale=0.0), InputError, "option-scale"),
        (lambda: VectorHead(2, 2).encode([[1.0]]), MismatchError, "input-dimension"),
        (lambda: VectorHead(1, 2).encode([[np.nan]]), InputError, "input-nan"),
        (lambda: module_predict(LINEAR, ["text"]), InputError, "input-kind"),
        (lambda: module_predict(LINEAR, "text"), InputError, "input-kind"),
        (lambda: module_predict(small("bag"), "text"), InputError, "input-kind"),
        (lambda: module_predict(LINEAR, np.zeros((0, 1))), InputError, "input-empty"),
        (lambda: module_predict(LINEAR, POINTS, batch=0), InputError, "input-empty"),
        (lambda: module_predict(Broken(1, (2, 2)), POINTS), MismatchError, "logits-shape"),
        (lambda: module_predict(Broken(1, ()), POINTS), MismatchError, "logits-shape"),
        (lambda: fit(LINEAR, POINTS, [0, 2]), MismatchError, "label-codes"),
        (lambda: fit(LINEAR, POINTS, [0, -1]), InputError, "label-codes"),
        (lambda: fit(LINEAR, POINTS, [0.0, 1.0]), InputError, "label-codes"),
        (lambda: fit(LINEAR, POINTS, [0]), MismatchError, "label-codes"),
        (lambda: fit(LINEAR, POINTS[:0], np.zeros(0, int)), MismatchError, "label-codes"),
        (lambda: fit(LINEAR, POINTS, [0, 1], epochs=0), InputError, "option-fit"),
        (lambda: fit(LINEAR, POINTS, [0, 1], rate=np.nan), InputError, "option-fit"),
        (lambda: fit(LINEAR, POINTS, [0, 1], validation=(POINTS, [0, 5])),
         MismatchError, "label-codes"),
        (lambda: fit(torch.nn.ReLU(), POINTS, [0, 1]), InputError, "parameters-frozen"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(call, kind: type, code: str) -> None:
    with pytest.raises(kind) as caught:
        call()
    assert caught.value.code == code


def test_a_model_takes_its_number_of_labels_from_a_space_and_vectors_to_start_from() -> None:
    table = WORDS.vectors(["good", "unheard"], [[3.0, 4.0], [0.0, 1.0]])
    model = BagOfWords(WORDS, LabelSpace.preset("nli"), width=2, vectors=table)
    assert module_predict(model, ["good"]).shape == (1, 3)
    rows = parameters_of(model)["words.table.weight"]
    assert np.allclose(rows[WORDS.number("good")], [0.6, 0.8])
    assert (rows[0] == 0).all() and (rows[1:] != 0).any(axis=1).all()
    wider = BagOfWords(WORDS, 3, width=8, vectors=table)
    assert module_predict(wider, ["good"]).shape == (1, 3)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny BERT that classifies into three labels, and its tokenizer."""
    library = pytest.importorskip("transformers", reason="transformers is not installed")
    place = tmp_path_factory.mktemp("bert")
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *WORDS.words]
    (place / "vocab.txt").write_text("\n".join(words))
    library.BertTokenizer.from_pretrained(str(place)).save_pretrained(place)
    config = library.BertConfig(
        vocab_size=len(words), hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=32, max_position_embeddings=24, num_labels=3, initializer_range=0.2,
    )  # fmt: skip
    with torch.random.fork_rng():
        # The weights must not hang on the tests that ran before.
        torch.manual_seed(0)
        library.BertForSequenceClassification(config).save_pretrained(place)
    return place


def test_labels_a_pretrained_model_names_are_matched_by_name(folder: Path, tmp_path: Path) -> None:
    space = LabelSpace.preset("nli")
    plain = module_predict(pretrained(folder, space, local_files_only=True), ["good film"])
    place = shutil.copytree(folder, tmp_path / "named")
    config = json.loads((place / "config.json").read_text())
    config["id2label"] = {"0": "CONTRADICTION", "1": "ENTAILMENT", "2": "NEUTRAL"}
    (place / "config.json").write_text(json.dumps(config))
    named = module_predict(pretrained(place, space, local_files_only=True), ["good film"])
    # The space has entailment, neutral, contradiction.
    # Softmax sums in the order of the labels: equal to the last digit but one.
    np.testing.assert_allclose(named, plain[:, [1, 2, 0]], rtol=1e-12)
    with pytest.raises(MismatchError, match="CONTRADICTION") as caught:
        pretrained(place, LabelSpace.one_hot(["a", "b", "c"]), local_files_only=True)
    assert caught.value.code == "model-labels"
    assert pretrained(place, 3, local_files_only=True).order is None


def test_a_pretrained_model_learns_and_keeps_what_it_brings(folder: Path) -> None:
    model = pretrained(folder, 3, local_files_only=True)
    again = pretrained(folder, LabelSpace.preset("nli"), local_files_only=True)
    found = module_predict(model, ["good film", "bad", ""])
    assert found.shape == (3, 3)
    assert np.array_equal(found, module_predict(again, ["good film", "bad", ""]))
    alone = module_predict(model, ["bad"])
    assert np.allclose(alone, found[1:2], atol=1e-6)
    texts, codes = opinions(60, seed=1)
    marked = ["good" if code else "bad" for code in codes]
    fitted = fit(model, marked, codes, epochs=30, rate=1e-2)
    assert fitted.losses[-1] < 0.1 < fitted.losses[0]
    assert (module_predict(model, marked).argmax(1) == codes).all()
    load_parameters(again, parameters_of(model))
    assert np.array_equal(module_predict(again, texts), module_predict(model, texts))


def test_a_pretrained_model_reads_pairs_as_its_tokenizer_does(folder: Path) -> None:
    model = pretrained(folder, 3, length=100)
    tokens = model.encode(["good film\tbad"])
    assert tokens[0, 0].tolist() == [2, 5, 7, 3, 6, 3]
    assert tokens[0, 2].tolist() == [0, 0, 0, 0, 1, 1]
    # Longer than the model's places.
    assert model.encode(["film " * 99]).shape == (1, 3, 24)
    with pytest.raises(InputError) as caught:
        model.encode(["good\tbad", "good"])
    assert caught.value.code == "text-pairs"


def test_a_pretrained_model_of_other_labels_is_loaded_only_where_asked(folder: Path) -> None:
    with pytest.raises(MismatchError) as caught:
        pretrained(folder, 5)
    assert caught.value.code == "model-labels"
    torch.manual_seed(0)
    expected = torch.rand(2)
    torch.manual_seed(0)
    one, other = (pretrained(folder, 5, new_head=True, seed=1) for _ in range(2))
    assert torch.equal(torch.rand(2), expected)
    found = module_predict(one, ["good", "bad"])
    assert found.shape == (2, 5)
    assert np.array_equal(found, module_predict(other, ["good", "bad"]))


def test_a_model_that_is_not_there_or_not_safe_is_refused(folder: Path, tmp_path: Path) -> None:
    with pytest.raises(FileError) as caught:
        pretrained(tmp_path / "nothing", 3, local_files_only=True)
    assert caught.value.code == "model-missing"
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        if (folder / name).exists():
            (tmp_path / name).write_bytes((folder / name).read_bytes())
    # Weights in the older format run code when they are read.
    (tmp_path / "pytorch_model.bin").write_bytes(b"not read")
    assert json.loads((tmp_path / "config.json").read_text())["architectures"]
    with pytest.raises(FileError) as caught:
        pretrained(tmp_path, 3, local_files_only=True)
    assert caught.value.code == "model-missing"


def test_the_extra_is_named_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(ExtraError) as caught:
        pretrained("any", 2)
    assert caught.value.code == "extra-text"
    assert "silot[text]" in caught.value.message
