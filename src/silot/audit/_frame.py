"""Records from their bounded coordinates."""

from __future__ import annotations

import numpy as np

from ..transport import Frame, bounded_coordinates
from ._evidence import Array

_HALVINGS = 80


def records_of_bounded(rows: Array, frame: Frame) -> Array:
    """Undo ``bounded_coordinates``: its last block grows with the value, the others refine it."""
    d = len(frame.mean)
    cosine, sine, monotone = rows[:, :d], rows[:, d : 2 * d], rows[:, 2 * d :]
    # The last block grows like the square root of the distance to the range.
    room = frame.scale * ((np.abs(monotone).max(axis=0) + 2.0) ** 2 + 10.0)
    low = np.broadcast_to(np.minimum(frame.low, frame.mean) - room, cosine.shape).copy()
    high = np.broadcast_to(np.maximum(frame.high, frame.mean) + room, cosine.shape).copy()
    for _ in range(_HALVINGS):
        middle = 0.5 * (low + high)
        above = bounded_coordinates(middle, frame)[:, 2 * d :] > monotone
        high, low = np.where(above, middle, high), np.where(above, low, middle)
    coarse = (0.5 * (low + high) - frame.mean) / frame.scale
    # The phase tells the value to the last digit, but for whole turns.
    unit = bounded_coordinates([[1.0]], Frame(*(np.array([k]) for k in (0.0, 1.0, -2.0, 2.0))))
    frequency = float(np.arctan2(unit[0, 1], unit[0, 0]))
    phase = np.arctan2(sine, cosine)
    turns = np.rint((frequency * coarse - phase) / (2.0 * np.pi))
    return frame.mean + frame.scale * (phase + 2.0 * np.pi * turns) / frequency
