"""What must not leave: secrets by their value and by their format, and hostile text in a tool's output.

Pure: no file but the rule data, no network, no clock. It says what it found and what should be done;
doing it is up to the caller.
"""

from wasmrt.leaks._detector import LeakDetector, LeakScanner, Overrides
from wasmrt.leaks._model import Action, Direction, LeakMatch, LeakReport, Severity
from wasmrt.leaks._rules import Rule

__all__ = [
    "Action",
    "Direction",
    "LeakDetector",
    "LeakMatch",
    "LeakReport",
    "LeakScanner",
    "Overrides",
    "Rule",
    "Severity",
]
