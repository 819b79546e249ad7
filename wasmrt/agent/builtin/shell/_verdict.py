"""Verdict: the decision about a command line."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Action(StrEnum):
    """The action to take on a command: run it, ask a user, or refuse it."""

    RUN = "run"
    ASK = "ask"
    REFUSE = "refuse"


class Verdict(NamedTuple):
    """A decision about a command line, with the rule that made it."""

    action: Action
    layer: str = ""
    """`grammar`, `blocked`, `dangerous`, `injection` or `approval`; empty if no rule matches."""
    rule: str = ""
    reason: str = ""
    """A description of what the command does."""
    part: str = ""
    """The part of the command line that the rule matches."""

    @property
    def sentence(self) -> str:
        """The reason and the rule, for users."""
        return f"{self.reason} ({self.layer}: {self.rule})" if self.rule else "no rule matches"
