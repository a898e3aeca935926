"""Five holders made from data that ships with the package, to try silot on."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from .measure import Measure


def demo_holders(seed: int = 0) -> dict[str, Measure]:
    """Five holders of handwritten digits (scikit-learn, 8 x 8 pixels scaled to 0..1).

    ``iid-a`` and ``iid-b`` are draws from the same images; ``skewed`` holds digits 0 to 2 only;
    ``noisy`` has normal noise of standard deviation .25 on every pixel; ``inverted`` has black
    and white exchanged. No image is in two holders, and their numbers differ.

    Parameters
    ----------
    seed
        Seed of the draw.

    Returns
    -------
    dict
        Labelled measures by name.

    Examples
    --------
    >>> [holder.size for holder in demo_holders().values()]
    [200, 200, 160, 240, 200]
    """
    return {
        name: Measure(pixels, labels=labels) for name, (pixels, labels) in _draw(seed)[0].items()
    }


def demo_validation(seed: int = 0) -> Measure:
    """Digits in no holder of ``demo_holders``, clean: what a coordinator might trust.

    Parameters
    ----------
    seed
        Seed of the draw.

    Returns
    -------
    Measure
        300 labelled images.

    Examples
    --------
    >>> demo_validation().size
    300
    """
    pixels, labels = _draw(seed)[1]
    return Measure(pixels, labels=labels)


def demo_images(seed: int = 0) -> dict[str, npt.NDArray[np.float64]]:
    """Records of ``demo_holders`` as images (n, 8, 8), for thumbnails.

    Parameters
    ----------
    seed
        Seed of the draw.

    Returns
    -------
    dict
        Arrays by holder.

    Examples
    --------
    >>> demo_images()["skewed"].shape
    (160, 8, 8)
    """
    return {name: pixels.reshape(-1, 8, 8) for name, (pixels, _) in _draw(seed)[0].items()}


_Labelled = tuple[npt.NDArray[np.float64], npt.NDArray[np.int64]]


def _draw(seed: int) -> tuple[dict[str, _Labelled], _Labelled]:
    rng = np.random.default_rng(seed)
    # Slow to import, and needed for the demonstration only.
    from sklearn.datasets import load_digits

    pixels, labels = (np.asarray(array) for array in load_digits(return_X_y=True))
    images = pixels / 16.0
    order = rng.permutation(len(images))
    low = order[labels[order] <= 2][:160]
    rest = order[~np.isin(order, low)]
    parts = np.split(rest[:840], [200, 400, 640])
    a, b, noisy, inverted = parts
    noise = rng.normal(scale=0.25, size=images[noisy].shape)
    holders = {
        "iid-a": (images[a], labels[a]),
        "iid-b": (images[b], labels[b]),
        "skewed": (images[low], labels[low]),
        "noisy": (images[noisy] + noise, labels[noisy]),
        "inverted": (1.0 - images[inverted], labels[inverted]),
    }
    left = np.flatnonzero(~np.isin(np.arange(len(images)), np.concatenate([low, rest[:840]])))
    chosen = rng.permutation(left)[:300]
    return holders, (images[chosen], labels[chosen])
