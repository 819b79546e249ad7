"""The failure of a request: every reason why there is no response."""

from __future__ import annotations

from wasmrt.core.errors import WasmrtError
from wasmrt.core.model import Decision
from wasmrt.sandbox.component.worlds import FailureKind


class HttpFailure(WasmrtError):  # noqa: N818 - the worlds call it a failure
    """A request without a response; each world has an error of its own for it.

    `request_sent` is False only when not one byte of the request has left. `decision` is the refusal, where one was
    made; `retry_after_seconds` belongs to code `rate-limited`.
    """

    def __init__(
        self,
        kind: FailureKind,
        code: str,
        message: str,
        *,
        request_sent: bool = False,
        decision: Decision | None = None,
        hint: str | None = None,
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message, code=code, hint=hint or (decision.hint if decision is not None else None))
        self.kind = kind
        self.request_sent = request_sent
        self.decision = decision
        self.retry_after_seconds = retry_after_seconds
