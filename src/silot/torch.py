"""Transport of tensors with gradients: ``silot_transport.torch`` by its name in silot."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from silot_transport._check import integer
from silot_transport.torch import *  # noqa: F403
from silot_transport.torch import __all__ as __all__

if TYPE_CHECKING:
    import torch

# torch draws dropout and first parameters from one generator per process: one lock for all of it.
_drawing = threading.RLock()


@contextmanager
def draw_from(seed: int, device: torch.device | None = None) -> Generator[None, None, None]:
    """Let torch draw from ``seed``, then continue as if nothing had been drawn.

    Blocks of several threads follow one another, for torch's generator belongs to the process.
    """
    import torch

    seed = integer(seed, "seed", "option-seed", least=0, most=2**63 - 1)
    place = [device.index or 0] if device is not None and device.type == "cuda" else []
    with _drawing, torch.random.fork_rng(devices=place):
        # torch.manual_seed would also set the generators of devices that are not in use.
        torch.default_generator.manual_seed(seed)
        for index in place:
            torch.cuda.default_generators[index].manual_seed(seed)
        yield
