"""Audits: what a party of a run could compute from what it saw."""

from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    from .coordinator import audit_policy
    from .policies import PolicyAudit, Strategy
    from .result import Attack, Audit
    from .run import ATTACKS, audit

__all__ = [
    "ATTACKS",
    "Attack",
    "Audit",
    "PolicyAudit",
    "Strategy",
    "audit",
    "audit_policy",
]

lazily(__name__)
