"""What must not leave: secrets by their value and by their format, and hostile text in a tool's output.

Pure: no file but the rule data, no network, no clock. It says what it found and what should be done;
doing it is up to the caller.
"""

from wasmrt.leaks._custom import load_custom_rules, prove
from wasmrt.leaks._detector import LeakDetector, LeakScanner, Overrides
from wasmrt.leaks._model import Action, Direction, LeakMatch, LeakReport, Severity
from wasmrt.leaks._rules import Rule
from wasmrt.leaks._sanitize import (
    Flag,
    Policy,
    PolicyAction,
    Sanitized,
    Sanitizer,
    Threat,
    Validator,
    WrappedOutput,
    wrap_tool_output,
)
from wasmrt.leaks._stream import LeakStream

__all__ = [
    "Action",
    "Direction",
    "Flag",
    "LeakDetector",
    "LeakMatch",
    "LeakReport",
    "LeakScanner",
    "LeakStream",
    "Overrides",
    "Policy",
    "PolicyAction",
    "Rule",
    "Sanitized",
    "Sanitizer",
    "Severity",
    "Threat",
    "Validator",
    "WrappedOutput",
    "load_custom_rules",
    "prove",
    "wrap_tool_output",
]
