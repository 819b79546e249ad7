"""The parts that every call of a registry goes through."""

from __future__ import annotations

from dataclasses import dataclass, field

from wasmrt.approvals import Approvals, DenyApprover
from wasmrt.leaks import LeakDetector
from wasmrt.policy import ToolPolicy
from wasmrt.rates import RateLimiter
from wasmrt.safety import Policy
from wasmrt.tools._store import ToolStore


@dataclass(slots=True, kw_only=True)
class System:
    """One agent's tools, the policy over them, and those who are asked."""

    store: ToolStore = field(default_factory=ToolStore)
    policy: ToolPolicy = field(default_factory=ToolPolicy)
    approvals: Approvals = field(default_factory=lambda: Approvals(DenyApprover()))
    rates: RateLimiter = field(default_factory=RateLimiter)
    detector: LeakDetector = field(default_factory=LeakDetector)
    safety: Policy = field(default_factory=Policy)
