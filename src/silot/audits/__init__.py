"""Audits: what attacks compute from what one party of a run saw, or get under a policy.

The attacks here are those whose success decides: records are reconstructed, or their membership
is revealed. Long searches for records behind means of several are not among them.
"""

from typing import TYPE_CHECKING

from silot_transport._lazy import lazily

if TYPE_CHECKING:
    from .case import Case
    from .policy import audit_policy
    from .result import Attack, Audit, PolicyAttack, PolicyAudit
    from .run import ATTACKS, audit

__all__ = [
    "ATTACKS",
    "Attack",
    "Audit",
    "Case",
    "PolicyAttack",
    "PolicyAudit",
    "audit",
    "audit_policy",
]

lazily(__name__)
