"""Five holders made from data that ships with the package, to try silot on."""

from __future__ import annotations

import numpy as np

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
    rng = np.random.default_rng(seed)
    # Slow to import, and needed for the demonstration only.
    from sklearn.datasets import load_digits

    pixels, labels = load_digits(return_X_y=True)
    images = pixels / 16.0
    order = rng.permutation(len(images))
    low = order[labels[order] <= 2][:160]
    rest = order[~np.isin(order, low)]
    parts = np.split(rest[:840], [200, 400, 640])
    a, b, noisy, inverted = parts
    noise = rng.normal(scale=0.25, size=images[noisy].shape)
    return {
        "iid-a": Measure(images[a], labels=labels[a]),
        "iid-b": Measure(images[b], labels=labels[b]),
        "skewed": Measure(images[low], labels=labels[low]),
        "noisy": Measure(images[noisy] + noise, labels=labels[noisy]),
        "inverted": Measure(1.0 - images[inverted], labels=labels[inverted]),
    }
