"""Audits: what a party of a run could compute from what it saw."""

from .coordinator import audit_policy
from .run import ATTACKS, audit

__all__ = ["ATTACKS", "audit", "audit_policy"]
