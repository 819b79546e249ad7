"""Make a tool's output fit for a reader that is a model: nothing invisible, nothing that acts, nothing that escapes.

What a text says is left alone: no pattern recognises persuasion, and none is claimed to.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from wasmrt.errors import ConfigurationError, LeakError
from wasmrt.leaks._detector import LeakDetector, LeakScanner
from wasmrt.leaks._model import Action, Direction, LeakReport, Severity
from wasmrt.limits import KIB, MIB

MAX_MODEL_OUTPUT_BYTES = 16 * KIB
MAX_VALIDATED_BYTES = 16 * MIB
_MAX_NAME_CHARS = 128


class Threat(StrEnum):
    """What the sanitizer takes out or defuses."""

    TERMINAL_SEQUENCE = "terminal-sequence"
    CONTROL_CHARACTER = "control-character"
    TAG_CHARACTER = "tag-character"
    DIRECTION_OVERRIDE = "direction-override"
    ZERO_WIDTH = "zero-width"
    CHAT_TEMPLATE = "chat-template"
    WRAPPER_ESCAPE = "wrapper-escape"
    INVALID_TEXT = "invalid-text"
    TOO_LONG = "too-long"


SEVERITIES: dict[Threat, Severity] = {
    Threat.TERMINAL_SEQUENCE: Severity.MEDIUM,
    Threat.CONTROL_CHARACTER: Severity.LOW,
    Threat.TAG_CHARACTER: Severity.HIGH,
    Threat.DIRECTION_OVERRIDE: Severity.HIGH,
    Threat.ZERO_WIDTH: Severity.LOW,
    Threat.CHAT_TEMPLATE: Severity.CRITICAL,
    Threat.WRAPPER_ESCAPE: Severity.CRITICAL,
    Threat.INVALID_TEXT: Severity.LOW,
    Threat.TOO_LONG: Severity.HIGH,
}


@dataclass(frozen=True, slots=True)
class Flag:
    """One kind of threat seen in a text, and how often."""

    threat: Threat
    severity: Severity
    count: int


class PolicyAction(StrEnum):
    """What a policy does about a flag, weakest first."""

    WARN = "warn"
    SANITIZE = "sanitize"
    REVIEW = "review"
    BLOCK = "block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """From a flag's severity to what is done about it. By default everything is defused and nothing lost."""

    low: PolicyAction = PolicyAction.SANITIZE
    medium: PolicyAction = PolicyAction.SANITIZE
    high: PolicyAction = PolicyAction.SANITIZE
    critical: PolicyAction = PolicyAction.SANITIZE

    def action(self, flag: Flag) -> PolicyAction:
        """The action for a flag."""
        return PolicyAction(getattr(self, str(flag.severity)))


# ECMA-48: CSI, OSC, DCS, SOS, PM and APC with their terminators, the remaining escapes, and the C1 forms.
_TERMINAL = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
_TAGS = re.compile("[\U000e0000-\U000e007f\U000e0100-\U000e01ef]")
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_INVISIBLE = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2064\u206a-\u206f\u3164\ufeff\uffa0\ufff9-\ufffb"
)
_ZERO_WIDTH = re.compile(f"[{_INVISIBLE}]")
_JOINERS = re.compile("(?<![\u0590-\u1fff\u2600-\u27bf\ufe0f\U0001f000-\U0001faff])[\u200c\u200d]")
_TEMPLATE = re.compile(
    r"<\|[A-Za-z_][\w ]{0,40}\|>"
    r"|<\uff5c[^\uff5c>]{1,40}\uff5c>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS)\]"
    r"|<</?SYS>>|</?(?:start|end)_of_turn>|<\|?(?:im_start|im_end|endoftext|eot_id|bos|eos)\|?>"
    r"|</?(?:function_calls|function_results|antml:[a-z_]+|tool_call|tool_response|system-reminder)\b[^<>]{0,200}>",
    re.IGNORECASE,
)
_WRAPPER = re.compile(r"<(\s*/?\s*tool_output)", re.IGNORECASE)
_QUICK = re.compile(f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200c-\u206f{_INVISIBLE}\U000e0000-\U000e01ef]|<|\\[")
"""What every pattern here needs to see one of: most text is done after one look."""


@dataclass(frozen=True, slots=True)
class Sanitized:
    """A text and what was done to it."""

    text: str
    flags: tuple[Flag, ...] = ()


class Sanitizer:
    """Takes out what a reader cannot see and defuses what a chat template or our wrapper would obey.

    A threat that the policy only warns of is counted and left alone; the wrapper is always protected.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()

    def sanitize(self, text: str) -> Sanitized:
        """Return the text with every threat removed or defused; other text is unchanged."""
        if not _QUICK.search(text):
            return Sanitized(text)
        counts: dict[Threat, int] = {}
        for threat, pattern in (
            (Threat.TERMINAL_SEQUENCE, _TERMINAL),
            (Threat.CONTROL_CHARACTER, _CONTROL),
            (Threat.TAG_CHARACTER, _TAGS),
            (Threat.DIRECTION_OVERRIDE, _BIDI),
            (Threat.ZERO_WIDTH, _ZERO_WIDTH),
            (Threat.ZERO_WIDTH, _JOINERS),
        ):
            text, count = self._without(pattern, "", text, threat)
            counts[threat] = counts.get(threat, 0) + count
        text, counts[Threat.CHAT_TEMPLATE] = self._without(_TEMPLATE, _defused, text, Threat.CHAT_TEMPLATE)
        text, counts[Threat.WRAPPER_ESCAPE] = _WRAPPER.subn(r"&lt;\1", text)
        return Sanitized(text, tuple(Flag(t, SEVERITIES[t], n) for t, n in counts.items() if n))

    def _without(
        self, pattern: re.Pattern[str], by: str | Callable[[re.Match[str]], str], text: str, threat: Threat
    ) -> tuple[str, int]:
        if self.policy.action(Flag(threat, SEVERITIES[threat], 0)) is PolicyAction.WARN:
            return text, sum(1 for _ in pattern.finditer(text))
        return pattern.subn(by, text)


def _defused(match: re.Match[str]) -> str:
    """Keep a control token readable, but in characters that no tokenizer maps to the control token."""
    token = match.group()
    return token.replace("<", "&lt;").replace("[", "&#91;", 1)


class Validator:
    """Checks that a text can be judged at all: its length and its encoding."""

    def __init__(self, *, max_bytes: int = MAX_VALIDATED_BYTES) -> None:
        self.max_bytes = max_bytes

    def validate(self, text: str) -> Sanitized:
        """Replace unpaired surrogates and flag what is over the limit."""
        flags = []
        if not text.isascii() and (broken := sum(0xD800 <= ord(c) <= 0xDFFF for c in text)):
            text = "".join("\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c for c in text)
            flags.append(Flag(Threat.INVALID_TEXT, SEVERITIES[Threat.INVALID_TEXT], broken))
        if len(text) > self.max_bytes:
            flags.append(Flag(Threat.TOO_LONG, SEVERITIES[Threat.TOO_LONG], 1))
        return Sanitized(text, tuple(flags))


@dataclass(frozen=True, slots=True)
class WrappedOutput:
    """A tool's output as a model may read it."""

    text: str
    flags: tuple[Flag, ...]
    leaks: LeakReport
    truncated: bool
    needs_review: bool


def wrap_tool_output(
    name: str,
    output: str,
    *,
    scanner: LeakScanner | LeakDetector | None = None,
    policy: Policy | None = None,
    requires_sanitization: bool = True,
    max_output_bytes: int = MAX_MODEL_OUTPUT_BYTES,
) -> WrappedOutput:
    """Sanitize, validate, judge and scan a tool's output, cut it to `max_output_bytes` and wrap it for a model.

    Secrets are always looked for; `requires_sanitization=False` is for tools whose output is the agent's own.
    The wrapper itself and the notice of a cut are on top of `max_output_bytes`.

    Raises:
        LeakError: the policy blocks the output, or an override blocks one of its secrets inward.
        ConfigurationError: `max_output_bytes` is not positive, or the name is empty or too long.
    """
    if max_output_bytes < 1 or not 0 < len(name) <= _MAX_NAME_CHARS:
        raise ConfigurationError(f"a wrapper needs a name of 1 to {_MAX_NAME_CHARS} characters and a positive size")
    policy = policy or Policy()
    checked = Validator().validate(output)
    cleaned = _cleaned(checked.text, policy, requires_sanitization=requires_sanitization)
    flags = cleaned.flags + checked.flags
    _obey(policy, flags, name)
    scanner = scanner or LeakDetector()
    leaks = scanner.scan(cleaned.text, direction=Direction.INWARD)
    if leaks.should_block:
        rules = ", ".join(sorted({m.rule for m in leaks.matches if m.action is Action.BLOCK}))
        message = f"the output of {_attribute(name)} holds a secret: {rules}"
        raise LeakError(message, hint="an override asks to block it")
    text = scanner.redact(cleaned.text) if leaks else cleaned.text
    text, truncated = _cut(text, max_output_bytes)
    sanitized = "true" if requires_sanitization else "false"
    wrapped = f'<tool_output name="{_attribute(name)}" sanitized="{sanitized}">\n{text}\n</tool_output>'
    review = any(policy.action(flag) is PolicyAction.REVIEW for flag in flags)
    return WrappedOutput(wrapped, flags, leaks, truncated, review)


def _obey(policy: Policy, flags: tuple[Flag, ...], name: str) -> None:
    blocked = ", ".join(str(f.threat) for f in flags if policy.action(f) is PolicyAction.BLOCK)
    if blocked:
        message = f"the output of {_attribute(name)} was blocked by policy: {blocked}"
        raise LeakError(message, hint="loosen the policy for this severity, if that is meant")


def _cleaned(text: str, policy: Policy, *, requires_sanitization: bool) -> Sanitized:
    if requires_sanitization:
        return Sanitizer(policy).sanitize(text)
    return Sanitized(_WRAPPER.sub(r"&lt;\1", text))


def _attribute(name: str) -> str:
    return re.sub(r"[^\w.:/@-]", "_", name)


def _cut(text: str, limit: int) -> tuple[str, bool]:
    """Cut on a character's edge, after scanning, and say how much there was."""
    data = text.encode("utf-8")
    if len(data) <= limit:
        return text, False
    kept = data[:limit].decode("utf-8", "ignore")
    return f"{kept}\n[output truncated — original size: {len(data):,} bytes]", True
