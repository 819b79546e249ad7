"""RoutineContext: the interface of a lightweight run for the runner of the embedding program."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from wasmrt.agent.jobs import Budget, JobEvent, Prompt
from wasmrt.agent.registry import Caller, ToolView, bind_view
from wasmrt.agent.routines._model import Run
from wasmrt.core.errors import BudgetExceededError, ToolError
from wasmrt.core.lifetime import Lifetime
from wasmrt.core.model import ToolOutput


class RoutineContext:
    """One lightweight run. It implements `JobContext`; it has no inbox, and its events are not stored."""

    def __init__(
        self, run: Run, view: ToolView, *, trace: str, lifetime: Lifetime, turns: int, check: Callable[[], None]
    ) -> None:
        self.job_id, self.user, self.trace_id, self.lifetime = run.id, run.user, trace, lifetime
        # SECURITY: a runner cannot call a tool as another user, or outside the trace that has the labels of the run.
        caller = Caller(
            user=run.user, trace=trace, parent_id=run.id, chain=("routine",), lifetime=lifetime, observer=self
        )  # fmt: skip
        self.tools = bind_view(view, caller)
        self.calls = 0
        self.tokens = 0
        self._turns, self._left = turns, turns
        self._check = check

    @property
    def cancelled(self) -> bool:
        """True if the run was cancelled or is out of time."""
        return self.lifetime.is_over

    def inbox(self) -> Sequence[Prompt]:
        """Return no messages."""
        self.lifetime.check()
        return ()

    def begin_call(self, name: str, arguments: Any) -> None:
        """Count a call of a tool. SECURITY: a process that lost the lease of the run makes no further call."""
        self.lifetime.check()
        self._check()
        self.calls += 1

    def end_call(self, name: str, output: ToolOutput | None, failure: ToolError | None) -> None:
        """Do nothing: the receipt is the record of the call."""

    def emit(self, event_type: str, data: Mapping[str, Any]) -> None:
        """Ignore an event: the result and the receipts of a lightweight run are its record."""
        self.lifetime.check()

    def events(self) -> Sequence[JobEvent]:
        """Return no events."""
        return ()

    def begin_iteration(self) -> None:
        """Count one turn of the model.

        Raises:
            BudgetExceededError: the run has used all its turns.
        """
        self.lifetime.check()
        if self._left < 1:
            raise BudgetExceededError(
                f"the run has used all of its {self._turns} turns", limit=self._turns, used=self._turns,
                setting="max_tool_rounds", hint="update the routine with a larger max_tool_rounds",
            )  # fmt: skip
        self._left -= 1

    def add_tokens(self, count: int) -> None:
        """Count tokens that the model used."""
        self.lifetime.check()
        self.tokens += max(0, count)

    def remaining(self) -> Budget:
        """Return the time and the turns that are left."""
        return Budget(self.lifetime.remaining(), self._left)
