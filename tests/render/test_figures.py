"""Numbers and pictures that figures of a report are made of."""

from __future__ import annotations

import base64
import io

import numpy as np
import pytest

from silot.distances.figures import classical_scaling
from silot.records.figures import inspection, thumbnails
from silot.records.quality import quality
from silot.render.words import decimals, number
from tests.render.factory import record_scores


def test_numbers_are_written_for_people() -> None:
    given = (0.0, 1234.5, -0.01234, 1e-9, float("inf"), float("nan"))
    found = [number(value).replace("\N{MINUS SIGN}", "-") for value in given]
    assert found == ["0", "1234", "-0.01234", "1.000e-09", "∞", "–"]
    assert decimals(-1.5) == "\N{MINUS SIGN}1.50"
    assert [decimals(-0.001), decimals(2e9)] == ["0.00", "2.000e+09"]


def test_auc_precision_and_recall_of_a_case_done_by_hand() -> None:
    view = record_scores("north", 4, scores=np.array([3.0, 2.0, 2.0, 0.0]))[0]
    good = quality(view, np.array([True, False, True, False]))
    assert (good.auc, good.precision, good.recall) == (3.5 / 4, 2 / 3, 1.0)
    none = quality(record_scores("north", 2, scores=np.zeros(2))[0], np.array([False, False]))
    assert all(np.isnan([none.auc, none.precision, none.recall]))


def test_records_of_equal_score_are_in_no_order() -> None:
    first_broken = np.array([True, True, False, False])
    inspected, found = inspection(np.ones(4), first_broken)
    assert inspected.tolist() == found.tolist() == [0.0, 1.0]
    inspected, found = inspection(np.array([1.0, 3.0, 2.0, 2.0]), first_broken)
    assert inspected.tolist() == [0.0, 0.25, 0.75, 1.0] and found.tolist() == [0.0, 0.5, 0.5, 1.0]


def test_scaling_gives_points_of_a_plane_back() -> None:
    points = np.random.default_rng(0).normal(size=(12, 2)) * (3.0, 1.0)
    wanted = np.linalg.norm(points[:, None] - points[None], axis=2)
    plane, shown = classical_scaling(wanted)
    assert np.allclose(np.linalg.norm(plane[:, None] - plane[None], axis=2), wanted)
    assert shown == pytest.approx(1.0)
    lifted = np.hstack([points, 2.0 * points[:, ::-1] ** 2])
    _, shown = classical_scaling(np.linalg.norm(lifted[:, None] - lifted[None], axis=2))
    assert shown < 0.999
    assert classical_scaling(np.zeros((3, 3)))[1] == 1.0


@pytest.mark.parametrize("shape", [(8, 8), (8, 8, 3), (1, 300), (300, 1), (161, 200, 3)])
@pytest.mark.parametrize("kind", ["float64", "uint8", "bool", "int64", "float16"])
def test_images_of_any_size_and_range_become_small_pictures(
    shape: tuple[int, ...], kind: str
) -> None:
    images = (np.random.default_rng(0).random((30, *shape)) * 16 - 3).astype(kind)
    made = thumbnails(images, np.array([0, 7, 29]))
    assert len(made) == 3 and all(one.startswith("data:image/png;base64,") for one in made)
    assert all(len(one) < 40_000 for one in made)


def test_a_small_picture_has_the_pixels_of_its_image() -> None:
    from matplotlib.image import imread

    images = np.random.default_rng(0).integers(0, 256, size=(2, 5, 7, 3)).astype(np.uint8)
    for image, address in zip(images, thumbnails(images, np.arange(2)), strict=True):
        file = io.BytesIO(base64.b64decode(address.partition(",")[2]))
        np.testing.assert_array_equal(np.rint(255 * imread(file)), image)


def test_constant_and_broken_pixels_are_drawn() -> None:
    images = np.full((4, 3, 3), np.nan)
    assert len(thumbnails(images, np.arange(4))) == 4
    images[1:] = 5.0
    images[2, 0, 0] = np.inf
    assert len(thumbnails(images, np.arange(4))) == 4
