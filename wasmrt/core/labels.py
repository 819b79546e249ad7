"""Labels for the text that a trace contains."""

from __future__ import annotations

from enum import StrEnum


class Label(StrEnum):
    """A kind of text in a trace. Labels are added to a trace, and only a user can remove them."""

    TRUSTED = "trusted"
    """Text that the user or the operator wrote."""
    PRIVATE = "private"
    """Confidential text: workspace files, mail, and everything that was read with a credential."""
    UNTRUSTED = "untrusted"
    """Text that third parties could have written, such as web pages, mail and issues."""
