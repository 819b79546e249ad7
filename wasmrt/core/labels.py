"""Labels of the text in a trace."""

from __future__ import annotations

from enum import StrEnum


class Label(StrEnum):
    """A kind of text in a trace. A trace only gains labels, until a user clears them."""

    TRUSTED = "trusted"
    """Written by the user or the operator."""
    PRIVATE = "private"
    """Confidential: workspace files, mail, everything that a credential gives access to."""
    UNTRUSTED = "untrusted"
    """Third parties can write it: web pages, mail bodies, issues."""
