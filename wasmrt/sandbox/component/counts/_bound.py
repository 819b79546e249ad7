"""The one error of a count that is over its bound."""

from __future__ import annotations

from wasmrt.core.errors import ComponentTooLargeError

_MOST = 2**63 - 1


def hold(count: int, bound: int, what: str, *, hint: str) -> None:
    """Refuse a count over its bound; `what` names it in the plural, after "the component has".

    Raises:
        ComponentTooLargeError: it is, with the count and the bound in its message.
    """
    if count > bound:
        shown = f"{count:,}" if count < _MOST else f"over {_MOST:,}"
        raise ComponentTooLargeError(f"the component has {shown} {what}, over the limit of {bound:,}", hint=hint)
