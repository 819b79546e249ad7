"""Refuse texts with secrets before they are stored for later conversations."""

from __future__ import annotations

from wasmrt.core.errors import InvalidParametersError
from wasmrt.egress.leaks import Action, LeakDetector


def refuse_secrets(detector: LeakDetector, *texts: str) -> None:
    """Refuse text that contains a secret, or that cannot be searched for secrets.

    Raises:
        InvalidParametersError: a text is refused (`leak`).
    """
    for text in texts:
        report = detector.scan(text)
        found = sorted({match.rule for match in report.matches if match.action is not Action.WARN})
        if found or report.should_block:
            problem = f"looks like a secret ({', '.join(found)})" if found else "could not be searched for secrets"
            message = f"nothing was written: the text {problem}"
            hint = "leave out the secret, and write where it is stored instead"
            raise InvalidParametersError(message, code="leak", hint=hint)
