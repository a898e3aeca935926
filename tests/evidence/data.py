"""Audits with the attacks of ``evidence/attacks``, as several tests run them."""

from typing import Any

import silot
from evidence.attacks import audit
from silot.audits import Audit


def deep_audit(x: Any, y: Any, viewpoint: str = "coordinator", *, hide_t: bool = False,
               **options: Any) -> Audit:  # fmt: skip
    run = silot.distance(x, y, **options)
    return audit(run.transcript, viewpoint, truth={"x": x, "y": y}, hide_t=hide_t)
