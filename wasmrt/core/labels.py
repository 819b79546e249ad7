"""Labels of text that a trace has seen."""

from __future__ import annotations

from enum import StrEnum


class Label(StrEnum):
    """A kind of text that a trace has seen. Labels of a trace only grow, until a user clears them."""

    TRUSTED = "trusted"
    """Written by the user or the operator."""
    PRIVATE = "private"
    """Confidential: workspace files, mail, everything that a credential gives access to."""
    UNTRUSTED = "untrusted"
    """Third parties can write it: web pages, mail bodies, issue texts."""
