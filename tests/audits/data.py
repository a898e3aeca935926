"""Data and runs that several tests attack."""

import numpy as np
from sklearn.datasets import load_breast_cancer, load_digits, load_wine

import silot
from silot.audits import Audit

DIGITS = load_digits().data / 16.0
WINE = load_wine().data
CANCER = load_breast_cancer().data
DATA = {"digits": DIGITS, "wine": WINE, "cancer": CANCER}


def two_sides(name: str, n: int, m: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    data = DATA[name]
    rows = np.random.default_rng(seed).permutation(len(data))
    return data[rows[:n]], data[rows[n : n + m]]


def audit_of(x, y, viewpoint: str = "coordinator", *, hide_t: bool = False, **options) -> Audit:
    run = silot.distance(x, y, **options)
    return silot.audit(run.transcript, viewpoint, {"x": x, "y": y}, hide_t=hide_t)


def attack(found: Audit, name: str, target: str = "x"):
    return next(one for one in found.of(target) if one.name == name)
