"""Verdict: the decision about a command line."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple


class Action(StrEnum):
    """The outcome of a decision."""

    RUN = "run"
    ASK = "ask"
    REFUSE = "refuse"


class Verdict(NamedTuple):
    """A decision about a command line, with the rule that made it."""

    action: Action
    layer: str = ""
    """`grammar`, `blocked`, `dangerous`, `injection` or `approval`; empty where nothing is against it."""
    rule: str = ""
    reason: str = ""
    """In words: what the command does."""
    part: str = ""
    """The part of the command line that it is about."""

    @property
    def sentence(self) -> str:
        """The reason and the rule, for a person."""
        return f"{self.reason} ({self.layer}: {self.rule})" if self.rule else "nothing is against it"
