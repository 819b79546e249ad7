"""Validate and sanitize text for a model: remove invisible and control characters, and defuse control tokens.

The meaning of the text is not checked, because no pattern can recognize prompt injection reliably.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from wasmrt.core.limits import KIB, MIB


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
    """The severity of a threat."""

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
    """A kind of threat found in a text, with the number of occurrences."""

    threat: Threat
    count: int

    @property
    def level(self) -> ThreatLevel:
        """The level of the threat."""
        return _LEVELS[self.threat]


class PolicyAction(StrEnum):
    """The actions that can be taken for a threat, from the weakest to the strictest."""

    WARN = "warn"
    SANITIZE = "sanitize"
    REVIEW = "review"
    BLOCK = "block"


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The action for each threat level. By default, all threats are sanitized."""

    low: PolicyAction = PolicyAction.SANITIZE
    medium: PolicyAction = PolicyAction.SANITIZE
    high: PolicyAction = PolicyAction.SANITIZE
    critical: PolicyAction = PolicyAction.SANITIZE

    def action(self, threat: Threat) -> PolicyAction:
        """Return the action for a threat."""
        return PolicyAction(getattr(self, str(_LEVELS[threat])))


# ECMA-48: CSI, OSC, DCS, SOS, PM and APC with their terminators, the remaining escapes, and the C1 forms.
_TERMINAL = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]?"
    r"|(?:\x1b[\]PX^_]|[\x9d\x90\x98\x9e\x9f])[^\x07\x1b\x9c\n]*(?:\x07|\x1b\\|\x9c)?"
    r"|\x1b[ -/]*[0-~]?"
)
_CONTROL = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]|\r(?!\n)")
# The following patterns contain all characters with Default_Ignorable_Code_Point (DerivedCoreProperties.txt).
_TAGS = re.compile("[\U000e0000-\U000e0fff]")
_BIDI = re.compile("[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")
_INVISIBLE = (
    "\u00ad\u034f\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u2060-\u2065\u206a-\u206f\u3164\ufeff\uffa0\ufff0-\ufffb"
    "\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
)
_ZERO_WIDTH = re.compile(f"[{_INVISIBLE}]")
_SCRIPTS, _EMOJI = "\u0590-\u1fff", "\u2600-\u27bf\U0001f000-\U0001faff"
# Unicode 15, section 23.2: a joiner stands between two letters or ends a word. Between two emoji, only U+200D is valid.
_JOINERS = re.compile(
    f"(?<![{_SCRIPTS}{_EMOJI}\ufe0f])[\u200c\u200d]"
    f"|(?<=[{_EMOJI}\ufe0f])(?:\u200c|\u200d(?![{_EMOJI}\u2190-\u25ff\u2b00-\u2bff]))"
)
# StandardizedVariants.txt and emoji-variation-sequences.txt: at most one selector, after a character with variants.
_SELECTORS = re.compile(
    "(?<![\u00a9\u00ae\u203c-\u3299\U0001f000-\U0001faff#*0-9])[\ufe0e\ufe0f]"
    "|(?<![\u1000-\u109f\u2200-\u22ff\u3000-\u9fff\ua840-\ua87f\uf900-\ufaff\uff00-\uffef])[\ufe00-\ufe0d]"
)
_TEMPLATE = re.compile(
    r"<\|[^\s|<>][^|<>\n]{0,60}\|>"
    r"|<\|[a-z\"][a-z_\"]{0,40}>|<[a-z][a-z_]{0,40}\|>"
    r"|</?\uff5c[^\uff5c>\n]{1,60}\uff5c[^<>\n]{0,80}>"
    r"|\[/?(?:INST|SYSTEM_PROMPT|AVAILABLE_TOOLS|TOOL_CALLS|TOOL_RESULTS|TOOL_CONTENT|CALL_ID|ARGS|THINK|gMASK|sMASK"
    r"|MODEL_SETTINGS)\]"
    r"|\]~b\]|\[e~\[|\]<\]minimax\[>\["
    r"|<(?:sop|eop|unused\d{1,4}|extra_id_\d{1,3}|SPECIAL_\d{1,4}|reserved_\d{1,4})>"
    r"|</?(?:seed|minimax):[a-z_]{1,40}>|<(?:beginning|end)_of_sentence>|</?think(?:ing)?>"
    r"|</?(?:start|end)_(?:of_image|function_(?:call|response|declaration))>"
    r"|<(?:invoke|parameter|function)[ =][^<>]{0,200}>|</?(?:invoke|parameter)>|</function>"
    r"|</?(?:arg_key|arg_value|tool_calls|escape)>"
    r"|<</?SYS>>|</?(?:start|end)_of_turn>|<\|?(?:im_start|im_end|endoftext|eot_id|bos|eos)\|?>"
    r"|</?(?:function_calls|function_results|antml:[a-z_]{1,200}|tool_call|tool_response|system-reminder)\b[^<>]{0,200}>",
    re.IGNORECASE,
)
# A tag with more than 4,096 blanks is defused, too, so that every match is short.
_WRAPPER = re.compile(r"<(?:\s{0,4096}(?:/\s{0,4096})?tool_output|\s{4096}|\s{0,4096}/\s{4096})", re.IGNORECASE)
_ANY = re.compile(
    f"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200c-\u206f\ufe00-\ufe0f{_INVISIBLE}\U000e0000-\U000e0fff]|<|[][]"
)
"""Every match of the patterns above contains one of these characters. Most texts have none, and need no other check."""


_STEP_CHARS = 16 * KIB
_MAX_TEMPLATE_CHARS = 1 * KIB
"""Maximum length of a match of `_TEMPLATE`."""
_MAX_MATCH_CHARS = 16 * KIB
"""Maximum length of a match of the other patterns. The rest of a longer terminal sequence is treated as text."""


@dataclass(frozen=True, slots=True)
class Sanitized:
    """A sanitized text and the threats found in it."""

    text: str
    flags: tuple[Flag, ...] = ()


class Sanitizer:
    """Removes invisible content, and defuses the tokens of chat templates and the tags of the wrapper.

    Threats with the action `warn` are only counted. The tags of the wrapper are always defused.
    """

    def __init__(self, policy: Policy | None = None) -> None:
        self.policy = policy or Policy()

    def sanitize(self, text: str) -> Sanitized:
        """Return the text with every threat removed or defused, and flags for the threats. Other text is unchanged."""
        if not any(_ANY.search(text, start, start + _STEP_CHARS) for start in range(0, len(text), _STEP_CHARS)):
            return Sanitized(text)
        counts: dict[Threat, int] = {}
        for threat, pattern in (
            (Threat.TERMINAL_SEQUENCE, _TERMINAL),
            (Threat.CONTROL_CHARACTER, _CONTROL),
            (Threat.TAG_CHARACTER, _TAGS),
            (Threat.DIRECTION_OVERRIDE, _BIDI),
            (Threat.ZERO_WIDTH, _ZERO_WIDTH),
            (Threat.ZERO_WIDTH, _JOINERS),
            (Threat.VARIATION_SELECTOR, _SELECTORS),
        ):
            text, count = self._replace(pattern, "", text, threat)
            counts[threat] = counts.get(threat, 0) + count
        text, counts[Threat.CHAT_TEMPLATE] = self._replace(_TEMPLATE, _defuse, text, Threat.CHAT_TEMPLATE)
        text, counts[Threat.WRAPPER_ESCAPE] = _replace_in_steps(_WRAPPER, _defuse, text)
        return Sanitized(text, tuple(Flag(threat, count) for threat, count in counts.items() if count))

    def _replace(
        self, pattern: re.Pattern[str], by: str | Callable[[re.Match[str]], str], text: str, threat: Threat
    ) -> tuple[str, int]:
        clean, count = _replace_in_steps(pattern, by, text)
        return text if self.policy.action(threat) is PolicyAction.WARN else clean, count


def protect_wrapper(text: str) -> str:
    """Defuse only the tags of the wrapper, so that the text cannot close the wrapper."""
    return _replace_in_steps(_WRAPPER, _defuse, text)[0]


def _replace_in_steps(pattern: re.Pattern[str], by: str | Callable[[re.Match[str]], str], text: str) -> tuple[str, int]:
    """Replace all matches in a text. Return the new text and the number of matches.

    SECURITY: a search with a regular expression is one C call that holds the GIL, so only a part of the text is
    searched at a time. A match is not longer than `_MAX_TEMPLATE_CHARS` or `_MAX_MATCH_CHARS`.
    """
    kept: list[str] = []
    longest = _MAX_TEMPLATE_CHARS if pattern is _TEMPLATE else _MAX_MATCH_CHARS
    count = start = 0
    while start < len(text):
        parts: list[str] = []
        begin, end = start, start + _STEP_CHARS
        for match in pattern.finditer(text, start, end + longest):
            if match.start() >= end:
                break
            parts += text[begin : match.start()], by if isinstance(by, str) else by(match)
            begin, count = match.end(), count + 1
        kept.append("".join(parts) + text[begin:end])
        start = max(begin, end)
    return ("".join(kept), count) if count else (text, 0)


def _defuse(match: re.Match[str]) -> str:
    """Change a control token so that people can read it, but no tokenizer recognizes it."""
    marker = match.group()
    if marker.startswith("]"):
        marker = "&#93;" + marker[1:]
    return marker.replace("<", "&lt;").replace("[", "&#91;")


MAX_VALIDATED_BYTES = 16 * MIB


class Validator:
    """Replaces unpaired surrogates, and flags texts that are longer than `max_bytes` in UTF-8."""

    def __init__(self, *, max_bytes: int = MAX_VALIDATED_BYTES) -> None:
        self.max_bytes = max_bytes

    def validate(self, text: str) -> Sanitized:
        """Return the text with unpaired surrogates replaced, and a flag for each problem."""
        flags = []
        if not text.isascii() and (broken := sum(0xD800 <= ord(c) <= 0xDFFF for c in text)):
            text = "".join("\ufffd" if 0xD800 <= ord(c) <= 0xDFFF else c for c in text)
            flags.append(Flag(Threat.INVALID_TEXT, broken))
        if len(text) > self.max_bytes or len(text.encode()) > self.max_bytes:
            flags.append(Flag(Threat.TOO_LONG, 1))
        return Sanitized(text, tuple(flags))
