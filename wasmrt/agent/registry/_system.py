"""The parts that every call of a registry goes through."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from typing import Protocol

from wasmrt.agent.access import AccessStore
from wasmrt.agent.approvals import Approvals, DenyApprover
from wasmrt.agent.policy import ToolPolicy
from wasmrt.agent.registry._store import ToolStore
from wasmrt.agent.registry._traces import Traces
from wasmrt.agent.safety import Policy
from wasmrt.core.effects import Effect
from wasmrt.core.telemetry import Telemetry
from wasmrt.egress.leaks import LeakDetector
from wasmrt.egress.rates import RateLimiter
from wasmrt.runtime.audit import Receipt
from wasmrt.runtime.runtime import WasmToolRuntime


class Tokens(Protocol):
    """Takes confirmation tokens; `wasmrt.ConfirmationTokens` does."""

    def redeem(
        self, token: str, *, trace: str, tool: str, effects: Collection[Effect], params_digest: str | None
    ) -> object:
        """Use up a token for one call.

        Raises:
            NotAuthorizedError: it is not good for this call.
        """


@dataclass(slots=True, kw_only=True)
class System:
    """One agent's tools, the policy over them, and those who are asked."""

    store: ToolStore = field(default_factory=ToolStore)
    policy: ToolPolicy = field(default_factory=ToolPolicy)
    approvals: Approvals = field(default_factory=lambda: Approvals(DenyApprover()))
    rates: RateLimiter = field(default_factory=RateLimiter)
    detector: LeakDetector = field(default_factory=LeakDetector)
    safety: Policy = field(default_factory=Policy)
    traces: Traces = field(default_factory=Traces)
    receipts: Callable[[Receipt], None] | None = None
    """Takes the receipts of calls that no runtime writes."""
    hashed: Callable[[str], str] | None = None
    """The keyed hash of params and results in receipts."""
    tokens: Tokens | None = None
    access: AccessStore | None = None
    """The requests for more of a grant; None where nobody is asked for that."""
    refresh: Callable[[], object] | None = None
    """Offers the tools as the catalog has them now, where the registry follows one."""
    session: str = field(default_factory=lambda: secrets.token_hex(8))
    """The name of this program's run, which nobody else has."""
    lasting: bool = True
    """False for a program that ends with its call, so that nothing holds for a session of it."""
    runtime_writes: bool = False
    """True where the runtime writes the receipts of its components' calls to the same place."""
    telemetry: Telemetry | None = None
    """Tells of its calls; None where nobody wants to know."""
    runtime: WasmToolRuntime | None = None
    """The one that its components are prepared in, and invoke each other."""
