"""Threats in a tool's output, and a policy's rules for them."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum


class Threat(StrEnum):
    """A kind of content that the sanitizer removes or defuses."""

    TERMINAL_SEQUENCE = "terminal-sequence"
    CONTROL_CHARACTER = "control-character"
    TAG_CHARACTER = "tag-character"
    DIRECTION_OVERRIDE = "direction-override"
    ZERO_WIDTH = "zero-width"
    VARIATION_SELECTOR = "variation-selector"
    CHAT_TEMPLATE = "chat-template"
    WRAPPER_ESCAPE = "wrapper-escape"
    INVALID_TEXT = "invalid-text"
    TOO_LONG = "too-long"


class ThreatLevel(StrEnum):
    """The severity of a threat to a model."""

    LOW = "low"
    MEDIUM = "medium"
    HIGH = "high"
    CRITICAL = "critical"


_LEVELS: dict[Threat, ThreatLevel] = {
    Threat.TERMINAL_SEQUENCE: ThreatLevel.MEDIUM,
    Threat.CONTROL_CHARACTER: ThreatLevel.LOW,
    Threat.TAG_CHARACTER: ThreatLevel.HIGH,
    Threat.DIRECTION_OVERRIDE: ThreatLevel.HIGH,
    Threat.ZERO_WIDTH: ThreatLevel.LOW,
    Threat.VARIATION_SELECTOR: ThreatLevel.HIGH,
    Threat.CHAT_TEMPLATE: ThreatLevel.CRITICAL,
    Threat.WRAPPER_ESCAPE: ThreatLevel.CRITICAL,
    Threat.INVALID_TEXT: ThreatLevel.LOW,
    Threat.TOO_LONG: ThreatLevel.HIGH,
}


@dataclass(frozen=True, slots=True)
class Flag:
    """One kind of threat found in a text, and its number of occurrences."""

    threat: Threat
    count: int

    @property
    def level(self) -> ThreatLevel:
        """The level of the threat."""
        return _LEVELS[self.threat]


class PolicyAction(StrEnum):
    """The treatment of a flag, weakest first."""

    WARN = "warn"
    SANITIZE = "sanitize"
    REVIEW = "review"
    BLOCK = "block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """One action for each threat level. By default, all threats are sanitized."""

    low: PolicyAction = PolicyAction.SANITIZE
    medium: PolicyAction = PolicyAction.SANITIZE
    high: PolicyAction = PolicyAction.SANITIZE
    critical: PolicyAction = PolicyAction.SANITIZE

    def action(self, threat: Threat) -> PolicyAction:
        """Return the action for a threat."""
        return PolicyAction(getattr(self, str(_LEVELS[threat])))
