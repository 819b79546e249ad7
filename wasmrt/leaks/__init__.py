"""What must not leave: secrets by their value and by their format, and hostile text in a tool's output.

Pure: no file but the rule data, no network, no clock. It says what it found and what should be done;
doing it is up to the caller. What a clean text does not need is imported when it is first asked for.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from wasmrt.leaks._detector import LeakDetector, LeakScanner, Overrides
from wasmrt.leaks._model import (
    SECRET_RULE,
    UNJUDGED_RULE,
    UNOPENED_RULE,
    Action,
    Direction,
    LeakMatch,
    LeakReport,
    Severity,
)

if TYPE_CHECKING:
    from wasmrt.leaks._custom import load_custom_rules, prove
    from wasmrt.leaks._release import ReleasingStream
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
    "SECRET_RULE",
    "UNJUDGED_RULE",
    "UNOPENED_RULE",
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
    "ReleasingStream",
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

_LATER = {
    "LeakStream": "_stream",
    "ReleasingStream": "_release",
    "Rule": "_rules",
    "load_custom_rules": "_custom",
    "prove": "_custom",
}


def __getattr__(name: str) -> Any:
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_LATER.get(name, '_sanitize')}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return __all__
